/** @file profile_device.h  The device that redco-profile measures: this processor, or a GPU for each rank. */
#ifndef REDCO_TOOLS_PROFILE_DEVICE_H
#define REDCO_TOOLS_PROFILE_DEVICE_H

#include "executor/comm/device_comm.h"
#include "executor/measure/measure.h"
#include "tools/cli/cli.h"
#include "tools/profile/profile_tool.h"

/** Every rank calls it. @return REDCO_ESYSTEM where there is no such device */
redco_status profile_device_open(const struct profile_job *job, redco_world *world, redco_backend **backend_out,
                                 redco_error *err);
/** Opens the communicator of the devices' memory: NCCL between GPUs. Every rank calls it.
 *  @param device_comm_out  NULL where processors' communicators do; else to be closed with redco_device_comm_close() */
redco_status profile_device_comm(const struct profile_job *job, redco_world *world, redco_backend *backend,
                                 redco_device_comm **device_comm_out, redco_error *err);
/** Options for measuring such a device. */
redco_status profile_device_options(const struct profile_job *job, const redco_backend *backend,
                                    redco_measure_options *options_out, redco_error *err);
/** Describes the device and its clocks before anything is measured; leaves fields of processors alone. */
redco_status profile_device_describe(const redco_backend *backend, redco_profile_measured *how, redco_error *err);
/** Adds the clocks after all measurements, the memory of driver and libraries, and the cost of launches. */
redco_status profile_device_conclude(redco_backend *backend, redco_measurer *measurer, redco_profile_measured *how,
                                     redco_error *err);
/** Measures a substitute for overlapped collectives on a device without peers. */
redco_status profile_device_contend(const struct profile_job *job, redco_backend *backend, redco_profile_measured *how,
                                    redco_error *err);
/** Products of a model's weights; adds to what is there. @param name  preset or file
 *  @param cli  prints warnings about the model; NULL: another rank does */
redco_status profile_device_model(const char *name, redco_measure_shapes *shapes, const struct cli *cli,
                                  redco_error *err);

#endif
