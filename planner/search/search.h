/** @file search.h  Topology + model + workload -> ranked strategies with a proof. Enumerates the configurations
 * (tensor-, pipeline- and context-parallel degree, micro-batch, optimizer scheme), lets GLPK choose meshes and
 * recomputation inside each (milp.h), and can prove the answer a second way. Pure: no files, no printing. */
#ifndef REDCO_SEARCH_H
#define REDCO_SEARCH_H

#include "costmodel/closed_form/closed_form.h"
#include "costmodel/schedules/dimensions.h"
#include "costmodel/schedules/strategies.h"
#include "planner/search/gaps.h"
#include "planner/search/hull.h"
#include "planner/search/search_pass.h"
#include "planner/tensor_parallel/tp_placement.h"

#ifdef __cplusplus
extern "C" {
#endif

/** COMM is AMSP's T_comm (arXiv 2311.00257, section IV-C), which leaves tensor-parallel traffic out: tp, pp
 * and cp are then 1 unless given, since the largest would always win. */
typedef enum redco_objective { REDCO_OBJECTIVE_STEP_TIME, REDCO_OBJECTIVE_COMM } redco_objective;

/** The share by which the closed form's bytes of a layout that fits may be above the capacity: it adds up buffers that
 *  are there one after the other. Layouts that are further above are not looked for. Measured: the most over random
 *  spaces (tools/run prove measures it anew and fails where a layout that fits is further above), and 99.9 % of 3,442
 *  layouts of random questions on all models; those beyond are of T5, whose stages are of two kinds. It is more where
 *  gradients of weights come later than those of inputs: what waits for them adds up, too. */
double redco_memory_ratio(redco_pipeline_kind schedule);

/** Answers that a search ranks at most, and points that it lists which need more memory. */
enum { REDCO_RANKED_MAX = 1000, REDCO_ROOMIER_MAX = 16 };

/** A degree that the search chooses although its default is 1. */
#define REDCO_DEGREE_AUTO UINT32_MAX
/** The same among degrees that measured rows hold (configurations.c), and others where the batch divides over none of
 *  these in their place. */
#define REDCO_DEGREE_MEASURED (UINT32_MAX - 1)
/** @return whether the search chooses a degree. */
static inline bool redco_degree_is_free(uint32_t degree)
{
    return degree == REDCO_DEGREE_AUTO || degree == REDCO_DEGREE_MEASURED;
}

typedef enum redco_switch {
    REDCO_UNSAID, /**< off, and nobody fixed it */
    REDCO_OFF,
    REDCO_ON,
    REDCO_EITHER /**< chosen by the search, where the engine has it */
} redco_switch;

/** A question, and at its end what is none of it (search_pass.h): a program leaves that as redco_question_default()
 *  and redco_question_settle() have it. 0 (or 0x0, or REDCO_RECOMPUTE_FREE) means: chosen by the search.
 *  What is given is kept. */
typedef struct redco_search_options {
    redco_workload workload;
    /** Given members, of others 0. pp, cp: 0: 1, or chosen by the search where the batch divides over no layout with 1;
     *  REDCO_DEGREE_AUTO, REDCO_DEGREE_MEASURED: chosen. chunks of a pipeline stage, where there are several; 0: 1;
     *  REDCO_DEGREE_AUTO: chosen. schedule 1F1B: interleaved where stages have several chunks. group 0: as few as can
     *  be, or so many that transfers hide. split: blocks of each position of pp x chunks, which are given then.
     *  secondary p2: the second copy of the parameters. experts: their meshes, of which any may be 0x0. The other
     *  members are not read. */
    redco_parallelism given;
    uint32_t stated;   /**< bits of REDCO_STATES(): words that are given; else cp_types, what the engine has of schemes,
                          and beside 1F1B what allows.schedules says */
    uint32_t cp_types; /**< 1 << redco_cp_type: the engine's, or the one that is given; 0: p2p */
    bool equal_stages; /**< stages have equal shares unless the split says else: unequal_stages does not count */
    redco_switch sequence_parallel;
    redco_tp_placement tp_placement;
    bool tp_placement_fixed;          /**< else as the engine has it */
    const redco_user_rules *tp_rules; /**< rules for REDCO_TP_USER, else NULL; borrowed */
    redco_recompute recompute;        /**< all layers' set; REDCO_RECOMPUTE_FREE: layers may differ */
    bool modules;                     /**< with recompute free: modules of all layers, those that the engine offers */
    bool overlap_fixed;               /**< else what the engine overlaps: redco_inputs_use_engine() */
    uint32_t excluded;                /**< REDCO_HAS_...: degrees that remedies leave at 1 */
    redco_shards fix;                 /**< any mesh that is not 0x0 is kept */
    redco_strategy strategy;
    redco_objective objective;
    bool layerwise; /**< meshes may differ by layer */
    bool verify;    /**< prove the answer by a second method */
    uint32_t top;   /**< number of ranked answers, >= 1 */
    redco_search_allows allows;
    redco_search_pass pass;
} redco_search_options;

typedef struct redco_candidate {
    redco_parallelism parallelism;
    redco_assignment *assignments; /**< per class, in class order; together every layer once. With pp > 1 and several
                                      configurations of a class: stage after stage. The split of the parallelism, where
                                      it has one, is freed with them */
    uint32_t assignment_count;
    bool half;                    /**< full recomputation is half recomputation (redco_engine.partial_recompute) */
    redco_prediction closed_form; /**< from redco_cost_step(): it was optimised */
    redco_prediction prediction;  /**< the simulator's after redco_search_priced(), else the closed form's */
    double objective;             /**< seconds of the chosen objective, closed form */
} redco_candidate;

/** @return whether a word is given: one of cp_type, schedule, scheme. */
static inline bool redco_search_states(const redco_search_options *options, redco_dimension_id id)
{
    return (options->stated & REDCO_STATES(id)) != 0;
}

/** The sets that a search with these options chooses from: what is given, or what the engine offers of modules that
 *  layers of the model have. */
redco_recompute_list redco_search_recompute(const redco_model *model, const redco_search_options *options);

/** The bit of a given order of passes that does not follow from the number of chunks (zb-h1, say); 0: none is given. */
uint32_t redco_search_schedule(const redco_search_options *options);

/** The reason why a search with these options leaves degrees out that it would price if they were given: static, NULL:
 *  it does not. @param parallelism  a layout that was found with some of them given */
const char *redco_search_leaves_out(const redco_machine *machine, const redco_search_options *options,
                                    const redco_parallelism *parallelism);

enum { REDCO_REMEDIES = 13, REDCO_REMEDY_PARTS = 8 };

/** A quantity of the question that is changed, and its words: WHAT REST, where a tool may name its option between. */
typedef struct redco_remedy_part {
    const char *quantity;             /**< "tp", "recompute", ...: static; NULL: none of the options */
    char value[REDCO_RECOMPUTE_TEXT]; /**< to what; "": what was fixed is left free */
    char what[128], rest[80];
} redco_remedy_part;

/** A remedy was tried and fits. */
typedef struct redco_remedy {
    redco_remedy_part parts[REDCO_REMEDY_PARTS];
    uint32_t part_count;
    char aside[120];      /**< ", but the cluster has 16 nodes" */
    bool more_gpus;       /**< it takes more of them */
    uint64_t total_bytes; /**< the best plan takes so much then; 0: it is not known */
    double step_s;        /**< likewise */
} redco_remedy;

/** "a micro-batch of 1 (--micro-batch 1) instead of 4".
 *  @param option_of  the option that sets a quantity; NULL: none is named
 *  @param sentence  ends it with "would fit" */
const char *redco_remedy_text(const redco_remedy *remedy, const char *(*option_of)(const char *quantity), bool sentence,
                              char *buffer, size_t size);

/** Why nothing fits, or null values when something does. */
typedef struct redco_shortfall {
    uint64_t short_bytes;      /**< the leanest strategy needs this much more */
    redco_candidate leanest;   /**< that strategy */
    const char *largest;       /**< "parameters", "gradients", "optimizer", "activations", "transient": static */
    char cheapest_change[512]; /**< one sentence: the first remedy, or that there is none */
    redco_remedy remedies[REDCO_REMEDIES]; /**< each fits alone, or all parts of the only one together; the fastest
                                              first, more GPUs last */
    uint32_t remedy_count;
} redco_shortfall;

/** The work of a search, that of naming what would fit included. A configuration is a point of the space without
 *  meshes and recomputation. */
typedef struct redco_search_counts {
    uint64_t listed;       /**< configurations: bounded + priced */
    uint64_t bounded;      /**< ruled out by a bound alone */
    uint64_t priced;       /**< with all or some of their meshes */
    uint64_t solved;       /**< meshes of those whose best recomputation was sought */
    uint64_t compositions; /**< compositions of recomputation that were looked at one by one */
    uint64_t simulated;    /**< steps */
} redco_search_counts;

typedef struct redco_search_result {
    redco_candidate *ranked; /**< best first */
    uint32_t ranked_count;   /**< 0: infeasible */
    redco_candidate *others; /**< those near the best first; some may be ranked, too */
    uint32_t other_count;
    redco_candidate *roomier; /**< those that need more memory, best first */
    uint32_t roomier_count;
    /** Set by redco_search_priced(): the simulated step of the fastest layout with so much more memory, no more than
     * that of the first; 0: not known */
    double roomier_s;
    double unlisted_s;       /**< no point that is neither ranked nor among them is faster by the simulator */
    uint64_t candidates;     /**< strategies (parallelism x mesh triple x policy) in the space */
    uint64_t configurations; /**< configurations */
    redco_search_counts counts;
    const char *solver;  /**< "GLPK 5.0" */
    const char *status;  /**< "optimal", "feasible" when the gap asked for was not reached, "infeasible": static */
    double gap_ratio;    /**< proven, by the closed form */
    bool by_simulation;  /**< the first is the fastest of those simulated, not the first by the closed form */
    double within_ratio; /**< no other layout is faster by the simulator by more than this share; < 0: not known */
    double seconds;      /**< wall time of the search */
    redco_shortfall shortfall;
    bool verified;           /**< the second method ran */
    bool verify_failed;      /**< and found something better than the answer by more than the gap */
    double verify_objective; /**< its best, s */
    const char
        *verify_method;    /**< static, e.g. "exhaustive enumeration of 12,345,678 strategies" is built by the tool */
    uint64_t verify_count; /**< strategies (or states) it looked at */
    /** Set by redco_search_priced() where the space has fewer layouts than REDCO_RANKED_MAX: all were simulated. */
    uint64_t verify_simulated; /**< 0: they were not */
    double verify_simulated_s; /**< the fastest that fits */
    /** The most by which closed form, recurrence and lower bound were above a simulated step then, by kinds of
     *  layouts (gaps.h); -1: there were none. */
    redco_gap seen[REDCO_GAP_KINDS];
    double least_above_ratio; /**< the same of the lower bound, which must not be above */
    /** The most by which the closed form's bytes of layouts that fit were above the capacity then
     * (redco_memory_ratio()): of schedules with one backward pass, of those that split it. */
    double memory_above_ratio[2];
} redco_search_result;

/** Ranks points, that is a configuration and meshes, each at its best recomputation. The first is proven optimal; among
 *  points within 0.1 % of it, and within gap_ratio of the bound, the one with the least memory leads, then the smallest
 *  factors (COMM: exact ties only, by step time first).
 *  @return REDCO_OK also when nothing fits (ranked_count 0, shortfall filled); REDCO_EVALUE when an option contradicts
 *  machine or model, or no such strategy exists there (named in @p err); REDCO_ESYSTEM when GLPK fails */
redco_status redco_search(const redco_machine *machine, const redco_model *model, const redco_calibration *calibration,
                          const redco_comm *comm, const redco_search_options *options, redco_search_result **result_out,
                          redco_error *err);
void redco_search_result_free(redco_search_result *result);

/** @param copy_out  its assignments are freed with free(), and its split with them */
redco_status redco_candidate_copy(const redco_candidate *from, redco_candidate *copy_out, redco_error *err);
/** @return whether two candidates for one machine and workload are the same layout. */
bool redco_candidate_same(const redco_candidate *a, const redco_candidate *b);

#ifdef __cplusplus
}
#endif
#endif
