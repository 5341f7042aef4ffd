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
    bool experts;               /* constants of mixtures, for which the sets of dense models stay */
    bool bands;                 /* bands of predictions of dense models */
    bool constants;             /* tables of the shipped sets' constants */
    const char *mean, *product; /* sets of which the written one is that, by commas; NULL: it is fitted */
    const char *without;        /* with them: one that has no effect; "all": each in turn */
};

/** Rows of mixtures among @p files: fits their constants, one set for each class of GPU, and judges them.
 *  @param table, lines  get what is found
 *  @param document_out  with bands alone: the file of their bands, a new reference */
struct table;
redco_status calibrate_experts(const struct calibrate_arguments *arguments, const struct measured_files *files,
                               struct table *table, json_t *lines, json_t **document_out, redco_error *err);

/** Bands of dense models: what never seen sources, engines, GPUs ... are off by.
 *  @param document_out  the file: a new reference */
redco_status calibrate_bands(const struct calibrate_arguments *arguments, const struct measured_files *files,
                             struct table *table, json_t *lines, json_t **document_out, redco_error *err);

/** Prints the constants of the shipped sets as tables in Markdown. */
redco_status calibrate_constants(const struct measured_files *files, redco_error *err);

/** The mean or the product of shipped sets. @param document_out  the file: a new reference */
redco_status calibrate_combine(const struct calibrate_arguments *arguments, struct table *table, json_t **document_out,
                               redco_error *err);

/** @return exit code */
int calibrate(const struct calibrate_arguments *arguments);

#endif
