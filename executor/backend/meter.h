/** @file meter.h  Watts, joules and clocks of a device while it works. */
#ifndef REDCO_METER_H
#define REDCO_METER_H

#include "topology/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_meter_sample {
    double time_s;          /**< when it was read, on a clock of the program's that only goes on */
    double energy_j;        /**< since some beginning; below 0: the device does not count them */
    double watts;           /**< now; below 0: not known (likewise below) */
    double clock_hz;        /**< clock of the multiprocessors */
    double memory_clock_hz; /**< clock of its memory */
} redco_meter_sample;

typedef struct redco_meter {
    void *context;
    redco_status (*read)(void *context, redco_meter_sample *sample_out, redco_error *err);
} redco_meter;

#ifdef __cplusplus
}
#endif
#endif
