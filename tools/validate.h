/** @file validate.h  The modes of redco-validate and what they share. */
#ifndef REDCO_VALIDATE_H
#define REDCO_VALIDATE_H

#include "costmodel/collective.h"
#include "tools/cli.h"
#include "tools/plot.h"
#include "traces/profile.h"

#include <stddef.h>

struct validate_arguments {
    struct cli cli;          /* first */
    bool profiles;           /* mode: model against measured collectives */
    bool measured;           /* mode: predictions against measured runs */
    const char *calibration; /* NULL: the shipped set of each row's GPU and software */
    const char *plot;        /* NULL: no picture */
    enum plot_format plot_format;
    char **files; /* borrowed from argv */
    size_t file_count;
    double launch_s; /* added where one process drives several GPUs */
};

/** Prints or, with --json, dumps what a mode found, after its picture was drawn.
 *  @param json   the mode's document; NULL: out of memory
 *  @param print  the tables for people. @return exit code */
int validate_finish(const struct validate_arguments *arguments, enum plot_kind kind, const json_t *json,
                    void (*print)(const void *report), const void *report);

/** @return exit code */
int validate_profiles(const struct validate_arguments *arguments);
int validate_measured(const struct validate_arguments *arguments);

/** What a profile was measured on, guessed from its words. */
struct validate_machine {
    redco_machine machine;
    redco_group group;
    bool network_stated; /* NIC rates are in the file, or no network was used */
    uint32_t algorithms; /* NCCL_ALGO of the run, 0 = free choice */
    uint32_t protocols;
};

/** *@p found_out is false if neither the file nor its name names a GPU that is known. */
redco_status validate_deduce(const redco_profile_run *run, const char *path, bool *found_out,
                             struct validate_machine *out, redco_error *err);

#endif
