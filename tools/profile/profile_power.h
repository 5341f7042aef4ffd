/** @file profile_power.h  Watts of a GPU for redco-profile: idle, and under loads without pause. */
#ifndef REDCO_TOOLS_PROFILE_POWER_H
#define REDCO_TOOLS_PROFILE_POWER_H

#include "executor/measure/measure.h"
#include "tools/profile/profile_tool.h"

/** Seconds of the budget that the loads take. */
double profile_power_seconds(const struct profile_job *job);
/** Before the device has worked: idle watts and limit. A device that does not tell leaves result->power_why. */
redco_status profile_power_idle(const struct profile_job *job, const redco_backend *backend,
                                struct profile_result *result, redco_error *err);
/** Each kind of operator without pause, for as long as profile_power_seconds() says; the most important first. */
redco_status profile_power_loads(const struct profile_job *job, redco_backend *backend, redco_measurer *measurer,
                                 struct profile_result *result, redco_error *err);
/** For people. @param how  with the constants that were fitted */
void profile_power_print(const struct profile_result *result, const redco_profile_measured *how);

#endif
