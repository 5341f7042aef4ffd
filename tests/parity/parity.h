/** @file parity.h  Every plan trains as one rank does: which plans are tried, how they are made, run and judged. */
#ifndef REDCO_TESTS_PARITY_H
#define REDCO_TESTS_PARITY_H

#include "executor/trainer/trainer.h"
#include "planner/assemble/inputs.h"
#include "planner/search/strategy.h"

enum {
    PARITY_STEPS = 20,
    PARITY_SEQ_LEN = 8,
    PARITY_BATCH = 8, /* sequences of a step, times accumulation */
    PARITY_MODELS = 3,
    PARITY_RANKS = 8,
    PARITY_NAME = 160
};

/** Rows of the table: strategies with a name, planners' choices, and the rest of the space. */
enum parity_row {
    ROW_OTHER = REDCO_STRATEGY_ANY,
    ROW_AMSP = REDCO_STRATEGY_AMSP,
    ROW_OPTIMUM = REDCO_STRATEGY_COUNT,
    ROW_MIXED,
    ROW_COUNT
};

/** One training. */
struct parity_case {
    uint32_t model;
    redco_dtype dtype;
    uint32_t tp, pp;
    redco_mesh dp;
    uint32_t row;
    redco_shards shards;  /* not of ROW_AMSP, ROW_OPTIMUM, ROW_MIXED */
    uint32_t pattern;     /* for ROW_MIXED */
    redco_mesh secondary; /* for ROW_MIXED; 0x0 = none */
    redco_scheme scheme;
    uint32_t accumulation;
    redco_recompute recompute;
    bool sequence_parallel;
    bool placed; /* tensor parallelism by GLPK, with a vocabulary that can be split; else by rules, with one that cannot
                  */
    bool small_buckets;
    uint32_t overlap;
};

struct parity_cases {
    struct parity_case *list;
    size_t count, capacity;
};

/** The request. */
struct parity_options {
    int model, ranks, tp; /* -1: all */
    uint32_t stages;      /* pipeline stages; 1: none */
    const char *only;     /* part of a name; NULL: all */
    const char *data;     /* as of parity_planner */
    bool f64, f32, bf16, sample, sockets;
    bool deferred;             /* on a device whose queues run later */
    bool cuda;                 /* on a GPU for each rank */
    bool share_gpu;            /* or on fewer */
    bool every;                /* all combinations on 8 ranks and of all types, too */
    redco_trainer_fusing fuse; /* AUTO: every second */
    bool launch_each;          /* no graphs */
    uint32_t overlap;
};

extern const char *const parity_models[PARITY_MODELS];
const char *parity_row_name(uint32_t row);
uint32_t parity_ranks(const struct parity_case *c);
/** Names a case in messages and for --only. */
void parity_name(const struct parity_case *c, char name[PARITY_NAME]);

/** All cases of a model and type on a number of ranks. @return false when out of memory */
bool parity_list(const struct parity_options *options, uint32_t model, redco_dtype dtype, uint32_t ranks,
                 struct parity_cases *cases);

/** The inputs from which plans of a machine and a model are made, one after the other. */
struct parity_planner {
    redco_inputs inputs;
    const char *data; /* the folder with models/oracle; NULL: tests/data of the sources */
    uint32_t model, gpus, nodes;
    redco_dtype dtype;
    bool placed, open;
};

/** As redco-plan makes it, but for the sharding list of mixed layers. @param planner  all zero at first, but for data
 */
redco_status parity_plan(struct parity_planner *planner, const struct parity_case *c, redco_plan **plan_out,
                         redco_error *err);
/** @return whether redco-exec runs a plan of stages: not where they share a table of sharded parameters */
bool parity_is_executable(const struct parity_planner *planner, const redco_plan *plan);
/** The plan's step as redco-exec has it. */
redco_status parity_steps(const redco_plan *plan, redco_step **steps_out, redco_error *err);
void parity_planner_close(struct parity_planner *planner);

/** Learning rate, clipping, seed. */
redco_trainer_options parity_training(const struct parity_case *c);

/** A plan that is trained, and the one that it is compared with. */
struct parity_trained {
    redco_plan *plan;
    redco_step *steps;
    const redco_baseline *baseline; /* borrowed */
};

/** The end of a training; for a case that its ranks did not reach nothing is set. */
struct parity_outcome {
    bool done, failed;
    bool no_device; /* for a rank: others would have none either */
    redco_trainer_verdict verdict;
    double seconds;
    char error[400];
};

/** Runs cases of equal numbers of ranks by processes of this machine.
 *  @param trained    of each case
 *  @param outcomes   shared with the processes
 *  @param options    sockets, else through shared memory; deferred; cuda
 *  @return REDCO_ESYSTEM also if a rank has no device */
redco_status parity_run(const struct parity_cases *cases, const struct parity_trained *trained,
                        struct parity_outcome *outcomes, const struct parity_options *options, redco_error *err);

/** Worst errors. */
struct parity_cell {
    uint32_t runs, failures;
    double loss, norm, weight;
};

enum { PARITY_COLUMNS = 9, PARITY_TYPES = 3 };

struct parity_table {
    struct parity_cell cells[PARITY_TYPES][ROW_COUNT][PARITY_COLUMNS];
    struct parity_cell models[PARITY_TYPES][PARITY_MODELS];
    uint64_t compared, loose;
    uint32_t schemes[2], accumulations[2], recomputes[REDCO_RECOMPUTE_FULL + 1], sequence_parallel, placed, secondary;
    uint32_t clipped_steps, free_steps;
    uint32_t runs, failures;
};

void parity_count(struct parity_table *table, const struct parity_case *c, const struct parity_outcome *outcome);
void parity_print(const struct parity_table *table, double seconds);

#endif
