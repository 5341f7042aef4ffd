/** @file calibrate.h  The work of redco-calibrate. */
#ifndef REDCO_CALIBRATE_H
#define REDCO_CALIBRATE_H

#include "tools/cli/cli.h"
#include "tools/cli/measured_files.h"

enum calibrate_each { CALIBRATE_ONE, CALIBRATE_SOURCES, CALIBRATE_CLASSES, CALIBRATE_UNSEEN };

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
};

/** @return exit code */
int calibrate(const struct calibrate_arguments *arguments);

#endif
