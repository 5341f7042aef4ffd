/** @file validate.h  The modes of redco-validate and what they share. */
#ifndef REDCO_VALIDATE_H
#define REDCO_VALIDATE_H

#include "costmodel/collectives/collective.h"
#include "tools/cli/cli.h"
#include "tools/plot/plot.h"
#include "traces/profile.h"

#include <stddef.h>

enum { VALIDATE_PROFILES = 64 };

struct validate_arguments {
    struct cli cli;                   /* first */
    bool profiles;                    /* mode: model against measured collectives */
    bool measured;                    /* mode: predictions against measured runs */
    bool famous;                      /* mode: what redco advises in place of measured runs */
    int leave;                        /* mode: a redco_leave, each group left out; -1: none */
    bool regret;                      /* mode: the best-predicted layout of groups of measured runs */
    const char *calibration;          /* NULL: the shipped set of each row's GPU and software */
    const char *cluster;              /* NULL: what the profiles' words tell */
    uint32_t ranks_gpus, ranks_nodes; /* GPUs of a node and nodes, for profiles that name no hosts; 0: not given */
    const char *plot;                 /* NULL: no picture */
    enum plot_format plot_format;
    uint64_t row;        /* row of the table of measured runs, from 1; 0: all */
    const char *command; /* mode: folder for the files of the row's redco-plan command */
    char **files;        /* borrowed from argv */
    size_t file_count;
    double launch_s; /* added where one process drives several GPUs */
    /* A plan and traces of its steps. */
    const char *plan_profiles[VALIDATE_PROFILES]; /* that the plan was made with */
    uint32_t plan_profile_count;
    uint64_t top;                                   /* operators that are shown */
    double max_error_ratio, max_memory_error_ratio; /* NaN: no bound */
};

/** Result of a mode. */
struct validate_outcome {
    const json_t *json;  /* its document; NULL: out of memory */
    enum plot_kind kind; /* kind of its picture, drawn from the document or, not NULL, from traces */
    const struct plot_comparison *traces;
    void (*print)(const void *report); /* the tables for people */
    const void *report;
    int code; /* when all goes well */
};

/** Prints or, with --json, dumps what a mode found, after its picture was drawn. @return exit code */
int validate_finish(const struct validate_arguments *arguments, const struct validate_outcome *outcome);

/** @return exit code */
int validate_profiles(const struct validate_arguments *arguments);
int validate_measured(const struct validate_arguments *arguments);
int validate_famous(const struct validate_arguments *arguments);
int validate_leave(const struct validate_arguments *arguments);
int validate_regret(const struct validate_arguments *arguments);
int validate_command(const struct validate_arguments *arguments);
int validate_trace(const struct validate_arguments *arguments);

/** The machine that a profile was measured on, guessed from its words. */
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
