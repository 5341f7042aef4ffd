/** @file measured_internal.h  Shared by the files that read tables of measured runs. */
#ifndef REDCO_TRACES_MEASURED_INTERNAL_H
#define REDCO_TRACES_MEASURED_INTERNAL_H

#include "traces/measured.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Fills fault: the first contradiction or gap that keeps the row from being compared. */
void redcoi_measured_check(redco_measured_run *run);

#ifdef __cplusplus
}
#endif
#endif
