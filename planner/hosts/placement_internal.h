/** @file placement_internal.h  Internal: problem 3 on counts, without names.
 *
 *  Why counts suffice. Let sizes c_1 | c_2 | ... | c_m nest, and let x_u nodes be used under switch u. Then under u
 *  exactly floor(x_u / c_j) groups of every size j can be whole at once: bottom-up, each switch joins the nodes and
 * groups that its children could not complete, and joins as many as fit, because floor(x_u / c_j) groups of size j
 * always suffice for floor(x_u / c_{j+1}) of the next. So the problem is to choose x_u (AMSP, arXiv 2311.00257, section
 * V-D, states it for two tiers). Under one switch the leaves may choose freely, so that q groups of size c_1 kept
 * within leaves keep min(C_j, floor(q c_1 / c_j)) of size j, C_j = sum over leaves of floor(free / c_j). */
#ifndef REDCOI_PLACEMENT_INTERNAL_H
#define REDCOI_PLACEMENT_INTERNAL_H

#include "planner/hosts/placement.h"

#include <stdbool.h>

enum {
    REDCOI_PLACE_TIERS = 16, /**< levels of switches */
    REDCOI_PLACE_SIZES = 64  /**< distinct subgroup sizes */
};
#define REDCOI_PLACE_NONE UINT32_MAX

/** Free nodes of one leaf; ancestors from the parent to the root, any numbering. */
typedef struct redcoi_place_leaf {
    uint32_t nodes;
    uint32_t root; /**< equal for leaves of one tree */
    uint32_t ancestor_count;
    const uint32_t *ancestors;
} redcoi_place_leaf;

/** Sizes ascending, each > 1, each dividing nodes. The chain is what is optimised: sizes with bytes of which each
 * divides the next. Its bytes count double, so that the whole job can stand at its end with a weight of 1 where it has
 * no bytes of its own: less than anything else, but among equal answers the job stays together. */
typedef struct redcoi_place_sizes {
    uint32_t nodes; /**< nodes of the job */
    uint32_t count;
    uint32_t size[REDCOI_PLACE_SIZES];
    uint64_t bytes[REDCOI_PLACE_SIZES];
    uint32_t chain_count;   /**< 0 only for a job of one node */
    uint32_t chain_traffic; /**< entries of the chain that have bytes: all, or all but the last */
    uint32_t chain_size[REDCOI_PLACE_SIZES + 1];
    uint64_t chain_bytes[REDCOI_PLACE_SIZES + 1];
} redcoi_place_sizes;

/** One tree. Switch 0 .. leaf_count - 1 are its leaves in file order, then upper switches by ascending height, the root
 *  last. Height: 0 of a leaf, else one more than that of the highest child. */
typedef struct redcoi_place_tree {
    uint32_t leaf_count, switch_count;
    uint32_t *leaf_index; /**< index of each leaf in the caller's array */
    uint32_t *parent;     /**< REDCOI_PLACE_NONE for the root */
    uint32_t *height;
    uint32_t *nodes; /**< free nodes below */
    uint32_t *child_start,
        *children;  /**< children of u in file order: children[child_start[u] .. child_start[u + 1]) */
    uint32_t tiers; /**< height of the root: tiers that can be crossed */
} redcoi_place_tree;

/** Bytes a step beyond each tier: [0] beyond leaves, [1] beyond the switches above them, ... Compared in this order,
 * then by how far apart the job's nodes are. */
typedef struct redcoi_crossing {
    uint64_t bytes[REDCOI_PLACE_TIERS];
    uint32_t job_tiers; /**< height of the lowest switch above the whole job */
} redcoi_crossing;

int redcoi_crossing_compare(const redcoi_crossing *a, const redcoi_crossing *b);

/** Checks, merges and orders levels and picks the heaviest chain of sizes that divide one another. */
redco_status redcoi_place_sizes_make(uint32_t nodes, const redco_placement_level *levels, uint32_t level_count,
                                     redcoi_place_sizes *sizes_out, redco_error *err);

/** The tree of leaves[members[i]]; all share one root. */
redco_status redcoi_place_tree_make(const redcoi_place_leaf *leaves, const uint32_t *members, uint32_t member_count,
                                    redcoi_place_tree **tree_out, redco_error *err);
void redcoi_place_tree_free(redcoi_place_tree *tree);

/** Counts what spans. @param order  per node in rank order its leaf in the tree
 *  @param spanning_out  NULL, or per size the groups that are not under one leaf */
redcoi_crossing redcoi_place_evaluate(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                                      const uint32_t *order, uint32_t *spanning_out);
/** The same of the chain, in its doubled bytes, as GLPK counts it. */
redcoi_crossing redcoi_place_evaluate_chain(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                                            const uint32_t *order);
/** The baseline: free nodes in file order. */
void redcoi_place_file_order(const redcoi_place_tree *tree, uint32_t nodes, uint32_t *order_out);

/** The least crossing over the chain of sizes, and an order that has it. The tree has enough nodes.
 *  @param exact_out  false: too large for the exact method, a greedy one was used */
redco_status redcoi_place_exact(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes, uint32_t *order_out,
                                bool *exact_out, redco_error *err);

/** GLPK's bound: the least of the chain's (doubled) bytes beyond each tier (given the least beyond the tiers below) by
 * integer counts y_{u,j} of groups of size j whole under switch u, equal leaves of one switch taken together. Stops
 * after a number of branch-and-bound nodes (a count, not a time, so that answers do not vary).
 *  @param proven_out  tiers that were solved to the end */
redco_status redcoi_place_milp(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                               double bytes_out[REDCOI_PLACE_TIERS], uint32_t *proven_out, redco_error *err);

/** All trees: the best placement of sizes->nodes nodes. The outputs are sized by the caller: one entry per node. */
typedef struct redcoi_place_answer {
    uint32_t *leaf_of_node; /**< index in leaves, rank order; to be freed */
    uint32_t spanning[REDCOI_PLACE_SIZES];
    redcoi_crossing crossing, file_order;
    bool proven_by_glpk; /**< at least that no other placement has less beyond leaf switches */
    bool exact;          /**< no other placement is better in any tier */
    double seconds;
} redcoi_place_answer;

redco_status redcoi_place(const redcoi_place_leaf *leaves, uint32_t leaf_count, const redcoi_place_sizes *sizes,
                          redcoi_place_answer *answer_out, redco_error *err);

#endif
