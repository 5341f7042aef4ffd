/** @file profile_device.h  What redco-profile measures on: this processor, or a GPU for each rank. */
#ifndef REDCO_TOOLS_PROFILE_DEVICE_H
#define REDCO_TOOLS_PROFILE_DEVICE_H

#include "executor/comm/carrier.h"
#include "executor/measure/measure.h"
#include "tools/cli/cli.h"
#include "tools/profile/profile_tool.h"

/** Every rank calls it. @return REDCO_ESYSTEM where there is no such device */
redco_status profile_device_open(const struct profile_job *job, redco_world *world, redco_backend **backend_out,
                                 redco_error *err);
/** Who moves what is in the devices' memory: NCCL between GPUs. Every rank calls it.
 *  @param carrier_out  NULL where processors' communicators do; else to be closed with redco_carrier_close() */
redco_status profile_device_carrier(const struct profile_job *job, redco_world *world, redco_backend *backend,
                                    redco_carrier **carrier_out, redco_error *err);
/** How a device like that is measured. */
redco_status profile_device_options(const struct profile_job *job, const redco_backend *backend,
                                    redco_measure_options *options_out, redco_error *err);
/** Before anything is measured: what it is, with its clocks. Leaves what only processors have alone. */
redco_status profile_device_describe(const redco_backend *backend, redco_profile_measured *how, redco_error *err);
/** When all was measured: its clocks then, what driver and libraries hold, what launches cost. */
redco_status profile_device_conclude(redco_backend *backend, redco_measurer *measurer, redco_profile_measured *how,
                                     redco_error *err);
/** What a device without peers has in place of collectives beside computation. */
redco_status profile_device_contend(const struct profile_job *job, redco_backend *backend, redco_profile_measured *how,
                                    redco_error *err);
/** Products of a model's weights; adds to what is there. @param name  preset or file
 *  @param cli  warns of what is odd about the model; NULL: another rank does */
redco_status profile_device_model(const char *name, redco_measure_shapes *shapes, const struct cli *cli,
                                  redco_error *err);

#endif
