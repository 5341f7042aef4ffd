/** @file layer_graph.h  Internal: problem 2. One layer (or embedding and head together) as a graph of weights and
 * operators, each with options; an option says how its inputs and its output lie on the ranks of a tensor-parallel
 * group. Between producer and consumer stands the collective that turns one form into the other. Pure functions on open
 * structs. */
#ifndef REDCO_TP_GRAPH_H
#define REDCO_TP_GRAPH_H

#include "topology/base/collective_op.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/** The way in which an activation and its gradient lie on the ranks. */
typedef enum redcoi_tp_form {
    REDCOI_TP_WHOLE,  /**< all of it everywhere; the gradient, too */
    REDCOI_TP_SHARED, /**< all of it everywhere; every rank has a part of the gradient's sum: input of a column split */
    REDCOI_TP_SPLIT,  /**< last dimension cut, heads whole; the gradient likewise */
    REDCOI_TP_CUT,    /**< the same, but heads are cut inside, or their thirds are mixed */
    REDCOI_TP_PARTIAL, /**< to be summed over the ranks; the gradient is whole: output of a row split */
    REDCOI_TP_ROWS,    /**< sequence cut: sequence parallelism */
    REDCOI_TP_FORMS
} redcoi_tp_form;

/** The treatment of a weight. A table's rows count as its output, since a tied head computes with it transposed. */
typedef enum redcoi_tp_split {
    REDCOI_TP_NO_WEIGHT,
    REDCOI_TP_REPLICATE,
    REDCOI_TP_COLUMN, /**< outputs: features of a linear, vocabulary of a table */
    REDCOI_TP_ROW     /**< inputs: features of a linear, width of a table */
} redcoi_tp_split;

enum {
    REDCOI_TP_INPUTS = 3,
    REDCOI_TP_OPTIONS = 8,
    REDCOI_TP_NODES = 24,
    REDCOI_TP_CLASSES = 2, /**< classes of layers in one graph: embedding and head */
    REDCOI_TP_NONE = 0xff
};

/** Times of one micro-batch. */
typedef struct redcoi_tp_option {
    redcoi_tp_split split;
    bool legal;     /**< may be chosen: heads whole. Else only RedCoast's rules may ask for it */
    bool by_rules;  /**< a rule with this split means it */
    bool reference; /**< part of the layout that the cost model's closed form prices */
    redcoi_tp_form input[REDCOI_TP_INPUTS], output;
    double forward_s, backward_s;       /**< computation */
    double tp_forward_s, tp_backward_s; /**< collectives of its own */
    double tp_bytes;                    /**< part of those that one rank sends */
    uint64_t params;                    /**< on the fullest rank */
    uint64_t bytes;                     /**< activations and logits */
} redcoi_tp_option;

typedef struct redcoi_tp_node {
    const char *name; /**< static */
    uint32_t class_slot;
    uint32_t input_count;
    uint32_t inputs[REDCOI_TP_INPUTS]; /**< producing nodes, all earlier than this one */
    double width_bytes;                /**< bytes of the whole output: T x width x element */
    double traffic_ratio;              /**< 1, or the share of a layer where many layers use one output */
    uint32_t tied;                     /**< an earlier node with the same weight, or REDCOI_TP_NONE */
    uint32_t option_count;
    redcoi_tp_option options[REDCOI_TP_OPTIONS];
} redcoi_tp_node;

/** Seconds of a collective on a buffer of so many bytes. */
typedef struct redcoi_tp_prices {
    void *context;
    double (*seconds)(void *context, redco_collective op, double bytes);
} redcoi_tp_prices;

typedef struct redcoi_tp_graph {
    uint32_t ranks;
    uint32_t node_count;
    redcoi_tp_node nodes[REDCOI_TP_NODES];
    redcoi_tp_prices prices;
    double exposed_ratio; /**< share of collectives that computation waits for */
    double param_s;       /**< a micro-batch's share of what a step pays for a parameter */
    uint64_t param_bytes; /**< bytes of parameter, gradient and optimizer state */
    uint64_t limit_bytes; /**< limit of memory; 0 = none */
    double forward_s[REDCOI_TP_NODES][REDCOI_TP_FORMS][REDCOI_TP_FORMS];  /**< conversions, filled by price() */
    double backward_s[REDCOI_TP_NODES][REDCOI_TP_FORMS][REDCOI_TP_FORMS]; /**< INFINITY: there is none */
} redcoi_tp_graph;

/** An option per node. */
typedef struct redcoi_tp_choice {
    uint8_t option[REDCOI_TP_NODES];
} redcoi_tp_choice;

/** The cost of a choice: per class of layers, and in all. */
typedef struct redcoi_tp_cost {
    double forward_s, backward_s, tp_forward_s, tp_backward_s;
    double tp_bytes; /**< sent by one rank, ring algorithms */
    uint64_t params, bytes;
} redcoi_tp_cost;

typedef struct redcoi_tp_total {
    redcoi_tp_cost classes[REDCOI_TP_CLASSES];
    double time_s;         /**< computation and exposed collectives */
    uint64_t memory_bytes; /**< params x param_bytes + bytes */
    double value_s; /**< the objective: time_s, what a step pays for parameters, and a price of memory that breaks
                         ties; INFINITY: impossible */
} redcoi_tp_total;

/** Seconds that a GiB counts among layouts of equal time: far below anything a collective takes. */
extern const double redcoi_tp_tie_s_per_gib;

/** The value that an option adds by itself. */
double redcoi_tp_option_s(const redcoi_tp_graph *graph, const redcoi_tp_option *option);

/** Fills the conversion tables. @return REDCO_EVALUE if a cost is no number, named in @p err */
redco_status redcoi_tp_price(redcoi_tp_graph *graph, redco_error *err);

/** A form's layout of the activation alone: what a forward collective has to reach. */
redcoi_tp_form redcoi_tp_layout(redcoi_tp_form form);

/** Adds everything up, straight from the tables. */
redcoi_tp_total redcoi_tp_evaluate(const redcoi_tp_graph *graph, const redcoi_tp_choice *choice);

/** Looks at the combinations of the options that @p allowed (a bit per option of a node) leaves.
 *  @param every      true: all of them; false: not those that begin with more than the best
 *  @param count_out  combinations seen; may be NULL. @return false if none is possible within the limit */
bool redcoi_tp_enumerate(const redcoi_tp_graph *graph, const uint32_t allowed[REDCOI_TP_NODES], bool every,
                         redcoi_tp_choice *best_out, redcoi_tp_total *total_out, uint64_t *count_out);
/** The options that may be chosen; those of the reference layout; and those that rules mean, given a split per node
 *  (ignored for nodes without a weight). */
void redcoi_tp_legal(const redcoi_tp_graph *graph, uint32_t allowed_out[REDCOI_TP_NODES]);
void redcoi_tp_reference(const redcoi_tp_graph *graph, uint32_t allowed_out[REDCOI_TP_NODES]);
void redcoi_tp_ruled(const redcoi_tp_graph *graph, const redcoi_tp_split splits[REDCOI_TP_NODES],
                     uint32_t allowed_out[REDCOI_TP_NODES]);

typedef struct redcoi_tp_answer {
    bool feasible;
    bool proven;
    redcoi_tp_choice choice;
    redcoi_tp_total total; /**< result of redcoi_tp_evaluate() */
    double gap_ratio, seconds;
    uint64_t short_bytes; /**< infeasible only: what the leanest layout lacks */
} redcoi_tp_answer;

/** The best legal layout, by GLPK. @return REDCO_OK also when nothing fits; REDCO_ESYSTEM, REDCO_ENOMEM */
redco_status redcoi_tp_solve(const redcoi_tp_graph *graph, redcoi_tp_answer *answer_out, redco_error *err);

#endif
