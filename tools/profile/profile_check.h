/** @file profile_check.h  Measures the error of a profile's predictions. */
#ifndef REDCO_TOOLS_PROFILE_CHECK_H
#define REDCO_TOOLS_PROFILE_CHECK_H

#include "executor/measure/block.h"
#include "tools/cli/cli.h"

/** Times small models and compares with what the profile at @p path predicts. @return the exit code */
int profile_check(const struct cli *cli, const char *path);

/** "OpenBLAS Haswell": what this process computes with. */
void profile_kernels(char *text, size_t size);

struct profile_model {
    redco_measure_shape shape;
    redco_model_dims dims; /**< those of redco_measure_llama() */
};

/** The fastest of several runs of each model on the host backend. @param steps_out  one entry per model */
redco_status profile_steps(const struct profile_model *models, uint32_t count, redco_measure_step *steps_out,
                           redco_error *err);

#endif
