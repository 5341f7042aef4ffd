/** @file host_internal.h  Calls of the table that host.c takes from run.c. */
#ifndef REDCO_HOST_INTERNAL_H
#define REDCO_HOST_INTERNAL_H

#include "executor/backend/backend.h"

bool redcoi_host_supports(const redco_backend *backend, const redco_launch *launch);
uint64_t redcoi_host_workspace_bytes(const redco_backend *backend, const redco_launch *launch);
redco_status redcoi_host_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                             redco_error *err);

#endif
