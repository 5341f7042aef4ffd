/** @file calibrate.h  The work of redco-calibrate. */
#ifndef REDCO_CALIBRATE_H
#define REDCO_CALIBRATE_H

#include "tools/cli/cli.h"
#include "tools/cli/measured_files.h"

enum calibrate_each {
    CALIBRATE_ONE,
    CALIBRATE_SOURCES,
    CALIBRATE_CLASSES,
    CALIBRATE_UNSEEN,
    CALIBRATE_HALF,
    CALIBRATE_MODELS
};

enum { CALIBRATE_GPUS = 16 };

struct calibrate_arguments {
    struct cli cli; /* first */
    char **files;   /* borrowed from argv, as all texts */
    size_t file_count;
    const char *output, *prior, *source, *framework, *name;
    const char *gpus[CALIBRATE_GPUS];
    size_t gpu_count;
    redco_software software;
    size_t anchor; /* 0 = none */
    uint64_t seed;
    enum calibrate_each each;
    bool experts;        /* constants of mixtures, for which the sets of dense models stay */
    const char *without; /* with them: one that has no effect; "all": each in turn */
};

/** Rows of mixtures among @p files: fits their constants, one set for each class of GPU, and judges them.
 *  @param table, lines  get what is found */
struct table;
redco_status calibrate_experts(const struct calibrate_arguments *arguments, const struct measured_files *files,
                               struct table *table, json_t *lines, redco_error *err);

/** @return exit code */
int calibrate(const struct calibrate_arguments *arguments);

#endif
