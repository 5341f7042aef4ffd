/** @file search_space.h  Internal: what redco_search() searches. A configuration is a redco_parallelism; inside it
 * every group (mesh triple) and every count is an optimisation problem (problem.h). */
#ifndef REDCO_SEARCH_SPACE_H
#define REDCO_SEARCH_SPACE_H

#include "planner/search/problem.h"
#include "planner/search/search.h"

/** Traffic of every micro-batch. */
typedef struct redcoi_load {
    double ratio;    /**< redco_layer_traffic_ratio() of the block that has most */
    double stream_s; /**< no step of such meshes is shorter: the stream that gathers runs one after the other */
    double longer_s; /**< nor than this and the configuration's bound: passes end behind their gathers */
} redcoi_load;

typedef struct redcoi_configuration {
    redco_parallelism parallelism;
    double least_s;       /**< no strategy of it is better in the objective; of the cost model, nothing priced yet */
    redco_shards *groups; /**< mesh triples */
    uint32_t recomputed;  /**< bit per set of redcoi_space.recompute that is tried */
    uint32_t
        triples; /**< from here on the same triples again, once for each set that all blocks have or none: all do */
    uint32_t group_count;
    uint64_t fixed_bytes, capacity_bytes; /**< 0: not asked for yet */
    uint64_t budget_bytes;                /**< resident bytes that fit, for the problems */
    uint64_t
        roomy_bytes; /**< the same of other points (redcoi_space_roomy_bytes()), but for what stages do not share */
    uint64_t least_bytes; /**< by the problems, no strategy of it needs less, fixed bytes included; set with them */
    uint64_t stage_least_bytes;               /**< no stage of any strategy of it needs less */
    uint32_t layers_each[REDCOI_MAX_CLASSES]; /**< a layer of the problems stands for so many of a class */
    redcoi_problem *steps;                    /**< step time; NULL until priced */
    redcoi_problem *objective; /**< the objective, same options in the same order; equals steps unless it is T_comm */
    redcoi_problem *pareto;    /**< objective without options that are beaten within their group */
    double *bounds_s;          /**< bounds on the objective, per group */
    redcoi_load *loads;        /**< per group; NULL until asked for */
    bool whole;                /**< all groups are priced; else those of which nothing is above the limit asked for */
    double crowded_s; /**< where nothing is priced: points that are not near may take this by the simulator, no less */
} redcoi_configuration;

/** Meshes of the grid that was listed last, which configurations of other schedules have again. */
typedef struct redcoi_grid_meshes {
    redco_mesh grid, secondary;
    redco_strategy strategy;
    redco_shards *triples; /**< owned; NULL: none was listed */
    bool *runs;            /**< by triple: the engine runs it. Owned */
    size_t count;
} redcoi_grid_meshes;

typedef struct redcoi_space {
    redco_costs *costs;
    bool costs_borrowed;
    const redco_layer_class *classes;
    uint32_t class_count;
    uint32_t blocks;                      /**< members of all block classes */
    redco_search_options options;         /**< defaults filled in */
    bool comm;                            /**< the objective is T_comm: --objective comm, or AMSP's planner */
    redcoi_configuration *configurations; /**< by least_s, then in order of enumeration */
    uint32_t configuration_count, configuration_capacity;
    uint32_t **splits; /**< those that configurations point at */
    uint32_t split_count, split_capacity;
    redcoi_grid_meshes last;
    redco_recompute_list recompute; /**< sets that differ in this model */
    uint64_t candidates;
    bool any_slow;               /**< some were left out, since they take longer than the limit */
    bool batch_fits;             /**< false: nothing was listed, for the batch divides over no layout */
    redco_search_counts *counts; /**< redcoi_inputs.counts */
} redcoi_space;

/** Inputs of a search, and where its work is counted, borrowed. */
typedef struct redcoi_inputs {
    const redco_machine *machine;
    const redco_model *model;
    const redco_calibration *calibration;
    const redco_comm *comm;
    redco_search_counts *counts;
} redcoi_inputs;

/** @return REDCO_OK with at least one configuration, or none within the limit, or why there is none (REDCO_EVALUE) */
redco_status redcoi_space_create(const redcoi_inputs *inputs, const redco_search_options *options,
                                 redcoi_space **space_out, redco_error *err);
void redcoi_space_free(redcoi_space *space);
/** In redcoi_space_sets(): of any group. */
#define REDCOI_ANY_GROUP UINT32_MAX
/** The sets that layers of a class may have in a group of a configuration. Embedding and head, which are computed once
 *  and freed at once, have none. */
redco_recompute_list redcoi_space_sets(const redcoi_space *space, const redcoi_configuration *configuration,
                                       uint32_t group, uint32_t class_index);
/** Fills the configurations of a new space. @return REDCO_EVALUE and why where there is none */
redco_status redcoi_space_list(redcoi_space *space, const redcoi_inputs *inputs, redco_error *err);

/** Fills fixed_bytes, capacity_bytes and least_bytes; nothing when that was done. */
void redcoi_space_bound_memory(redcoi_space *space, redcoi_configuration *configuration);
/** Objectives above which points are of no interest. */
typedef struct redcoi_limits {
    double ranked_s;  /**< to the ranking */
    double best_s;    /**< to the other points: the best so far; those near it are of interest. 0: none is */
    double crowded_s; /**< and of those that are not near it such as the simulator may find to take less than this */
} redcoi_limits;

/** The limit for points of a group: for the ranking or the other points, whichever is higher. */
double redcoi_limit_of(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                       const redcoi_limits *limits);
/** The same for other points alone. */
double redcoi_limit_of_others(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                              double best_s, double crowded_s);
/** No point of a group is faster by the simulator than this if its closed form is @p value_s. */
double redcoi_least_simulated_s(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                                double value_s);

/** Lower bounds of all groups by their parameters' meshes, of which there are few: the same problem with what is least
 *  over all meshes of gradients and optimizer states, of which the traffic in every micro-batch is not known then.
 * Fills loads. */
void redcoi_space_bound_meshes(redcoi_space *space, redcoi_configuration *configuration, const redco_fixed_cost *fixed,
                               const redcoi_limits *limits, double *least_s);
/** @return whether some group is within its limit; else what is crowded out alone is noted in crowded_s */
bool redcoi_space_any_within(const redcoi_space *space, redcoi_configuration *configuration,
                             const redcoi_limits *limits, const double *least_s);

/** One layer as an option, without its class, group and set. */
redcoi_option redcoi_option_of(const redcoi_space *space, const redco_fixed_cost *fixed, const redco_layer_cost *cost);
/** One layer of each stage. */
void redcoi_option_times(redcoi_option *option, uint32_t layers);
/** All but options. */
redcoi_problem redcoi_space_problem(const redcoi_space *space, const redcoi_configuration *configuration,
                                    const redco_fixed_cost *fixed);
/** Adds the layers of a class to a group's load: @p cost is that of one, whatever its recomputation. */
void redcoi_space_note_load(const redcoi_space *space, redcoi_configuration *configuration,
                            const redco_fixed_cost *fixed, uint32_t group, uint32_t class_index,
                            const redco_layer_cost *cost);

/** Fills steps, objective, pareto and bounds_s, these for the roomier budget; nothing when that was done. Groups that a
 * bound puts above their limit have that bound and no options; where all are, nothing is filled. NULL: all are priced.
 * REDCO_EVALUE: a cost is not a number. */
redco_status redcoi_space_price(redcoi_space *space, redcoi_configuration *configuration, const redcoi_limits *limits,
                                redco_error *err);

/** An answer of configuration->steps or ->objective as a candidate: assignments and prediction. @return REDCO_ENOMEM */
redco_status redcoi_space_candidate(redcoi_space *space, const redcoi_configuration *configuration,
                                    const redcoi_answer *answer, redco_candidate *candidate_out, redco_error *err);

/** The budget of other points of a group: the memory, with what the closed form may count too much of it, and what the
 *  problem counts that the fullest stage of a pipeline does not hold. @p problem  the objective's, its options [first,
 *  last) are the group's */
uint64_t redcoi_space_roomy_bytes(const redcoi_space *space, const redcoi_configuration *configuration,
                                  const redcoi_problem *problem, size_t first, size_t last);

/** Bytes of the fullest stage of an answer of configuration->steps, by the closed form. */
uint64_t redcoi_space_bytes(redcoi_space *space, const redcoi_configuration *configuration,
                            const redcoi_answer *answer);

/** The least memory of any strategy of the space, whether it fits or not; with @p enough the first that fits.
 *  @return bytes more than capacity, <= 0 when it fits; configuration and answer (of its steps) are set */
redco_status redcoi_space_least_memory(redcoi_space *space, bool enough, int64_t *short_bytes_out,
                                       const redcoi_configuration **configuration_out, redcoi_answer *answer_out,
                                       redco_error *err);

/** Which part of the memory is the largest, by its name in a plan. @return static */
const char *redcoi_largest_component(const redco_prediction *prediction);
/** Tries what would fit: sets remedies and cheapest_change of @p out. */
void redcoi_remedies_find(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out);
/** Fills result->shortfall for a space of which nothing fits. */
redco_status redcoi_shortfall_find(redcoi_space *space, const redcoi_inputs *inputs, redco_shortfall *shortfall_out,
                                   redco_error *err);

/** The second method over all of @p space: enumeration (uniform), or dynamic programming for something better than
 *  @p answer_s (layer-wise). Sets the verify_* members. */
redco_status redcoi_space_verify(redcoi_space *space, double answer_s, redco_search_result *result, redco_error *err);

/** Fills parallelism->dp for its tp, cp and pp. @return REDCO_EVALUE: the degrees do not divide the machine or its
 * nodes */
redco_status redcoi_place_ranks(const redco_machine *machine, redco_parallelism *parallelism, redco_error *err);

#endif
