/** @file plan_report.h  The output of redco-plan for people: header and words (plan_report.c), table of
 *  strategies (plan_report_table.c), lines below it (plan_report_lines.c), reasons (plan_report_reasons.c). */
#ifndef REDCO_TOOLS_PLAN_REPORT_H
#define REDCO_TOOLS_PLAN_REPORT_H

#include "planner/answer/answer.h"
#include "planner/answer/explain.h"
#include "planner/assemble/assemble.h"
#include "planner/search/strategy.h"
#include "tools/plan/plan_args.h"

enum { REMEDY_TEXT = 800 }; /* report_change() writes so much */

/** One row of the table of strategies. */
struct report_row {
    const char *name;
    bool marked;
    uint64_t gpus;
    uint64_t short_bytes;             /**< that a GPU lacks, where no candidate fits */
    const redco_inputs *inputs;       /**< NULL: those of the table */
    const redco_candidate *candidate; /* NULL: why not is in reason */
    char reason[400];
    bool lacked;        /**< the engine does not have the strategy */
    const char *beyond; /**< where it lies outside of what was measured; NULL or "": inside, or not known */
};

/** "671 B parameters, 37.6 B active": of mixtures those that a token meets, too. @return buffer */
const char *report_parameters(const redco_model *model, char *buffer, size_t size);
/** Model, cluster, workload; what all rows share. @param one  the only strategy shown, or NULL */
void report_header(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *one);
enum report_kind {
    REPORT_ONE,        /* one strategy: the header says the rest */
    REPORT_STRATEGIES, /* named ones */
    REPORT_RANKS,      /* the best, which may differ only in parameter synchronisation */
    REPORT_SIZES,      /* numbers of GPUs, with scaling efficiency against the first row that fits */
    REPORT_CLUSTERS    /* clusters, each with inputs of its own */
};

/** "zero3, zeropp extrapolated: pp 32 (measured up to 16)": row @p index and those after it with the same reason.
 *  @return false where the row is inside, or named with one before it */
bool report_extrapolated(enum report_kind kind, const struct report_row *rows, uint32_t count, uint32_t index,
                         char *buffer, size_t size);
/** "zero2, zero3: megatron-lm does not have them; priced as if it had": rows that are lacked. @return false: none is */
bool report_lacked(const redco_inputs *inputs, const struct report_row *rows, uint32_t count, char *buffer,
                   size_t size);
/** @return false when out of memory */
bool report_table(const redco_inputs *inputs, enum report_kind kind, const struct report_row *rows, uint32_t count);
void report_layers(const redco_plan *plan);
/** Row @p index of plan->layers as shown: of a plan whose pipeline stages all repeat the first, cut to the first stage.
 *  @return false when it is not shown */
bool report_layers_row(const redco_plan *plan, uint32_t index, redco_plan_layers *row_out);
/** "block 0-3", "embedding". @param to  between the numbers. @return @p buffer */
const char *report_layers_name(const redco_plan_layers *row, const char *to, char *buffer, size_t size);
/** True when report_layers_row() cuts. */
bool report_stages_repeat(const redco_plan *plan);
void report_placement(const redco_plan *plan);
/** Which GPUs of a node share a group, where they are not alike; nothing else. */
void report_gpu_groups(const redco_plan *plan, const redco_machine *machine);
void report_time(const redco_candidate *candidate);
/** AMSP's communication time, for --objective comm. */
void report_comm(const redco_prediction *prediction);
void report_memory(const redco_prediction *prediction);
void report_energy(const redco_prediction *prediction); /**< nothing where watts are not known */
void report_help(const redco_help *help, size_t count);
void report_neighbours(const redco_neighbour *neighbours, size_t count, double like_s);
/** The engine whose steps they are, and why. */
/** Its traits, and where each is from. */
void report_traits(const redco_inputs *inputs, const redco_search_options *options);
void report_engine(const redco_inputs *inputs);
/** Traits of a mixture that nobody states. */
void report_assumed(const redco_inputs *inputs);
/** Where the answer lies beyond measured runs, with the best within; with @p explain the nearest runs. */
void report_evidence(const redco_answer *answer, const redco_inputs *inputs, bool explain);
void report_solver(const redco_search_result *result, const redco_inputs *inputs);
/** The cost of fixed choices, against the free optimum. */
void report_free_optimum(const struct plan_args *args, const redco_answer *answer);
/** The leanest strategy when nothing fits. */
void report_shortfall(const redco_shortfall *shortfall);

/** "no strategy fits ...": one sentence for the error line and the JSON document. @return @p buffer */
const char *report_reason(const redco_shortfall *shortfall, char *buffer, size_t size);
/** The change that would fit, with its option: "full recomputation (--recompute full) would fit". @return @p buffer */
const char *report_change(const redco_shortfall *shortfall, char *buffer, size_t size);
/** "8x128" with the multiplication sign. @return @p buffer */
const char *report_mesh(redco_mesh mesh, char *buffer, size_t size);
/** A component's mesh where all layers have the same, else "mixed".
 *  @param offset  of the component in redco_shards. @return @p buffer */
const char *report_shards(const redco_candidate *candidate, size_t offset, char *buffer, size_t size);
/** @return whether it is a pipeline of a user: a step is one of examples, not of tokens */
bool report_of_examples(const redco_inputs *inputs);
/** "3,760 ± 380" tokens/s/GPU, with the band where the calibration has one. @return @p buffer */
const char *report_tokens(const redco_inputs *inputs, const redco_prediction *p, char *buffer, size_t size);
/** "none", "full", "full 13/40", "13 full, 7 sel": of the transformer layers. @return @p buffer */
const char *report_recompute(const redco_model *model, const redco_candidate *candidate, char *buffer, size_t size);
/** "16", or with model chunks "16x8" with a multiplication sign. @return @p buffer */
const char *report_stages(const redco_parallelism *parallelism, char *buffer, size_t size);
/** Lines on model chunks and sequence parallelism, where there are any. */
void report_schedule(const redco_parallelism *parallelism);
/** "2 (p2p)", or "1". @return @p buffer */
const char *report_context(const redco_parallelism *parallelism, char *buffer, size_t size);
/** "8x1": ranks that share out experts, and tensor parallelism of these. @return @p buffer */
const char *report_experts(const redco_parallelism *parallelism, char *buffer, size_t size);
/** "tp 8, pp 4": degrees of a strategy, pp and cp only where they are not 1. @param is, comma  between name and degree,
 *  between degrees. @return @p buffer */
const char *report_degree_list(const redco_parallelism *parallelism, const char *is, const char *comma, char *buffer,
                               size_t size);
/** One cell for the tensor-parallel degree, or several: more of them where a row's pp or cp is not 1. */
struct report_degrees {
    bool pp, cp;
    bool mixture, ep; /**< a mixture of experts; they lie on a grid of their own */
    bool examples;    /**< a pipeline of a user, whose rates are of examples, not of tokens */
};
/** None so far. */
struct report_degrees report_no_degrees(const redco_inputs *inputs);
struct report_degrees report_degrees_of(const redco_candidate *candidate, struct report_degrees seen);

#endif
