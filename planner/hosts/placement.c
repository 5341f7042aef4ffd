#include "planner/glpk/glpk_run.h"
#include "planner/hosts/placement_internal.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Trees of a forest that GLPK looks at. */
static const uint32_t most_programs = 16;

static int by_root(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Leaves so that those of one tree stand together, trees and leaves in file order of their first leaf. The key joins
 * root and index, so that the sort is stable. */
static uint32_t *members_by_tree(const redcoi_place_leaf *leaves, uint32_t count)
{
    uint64_t *keys = calloc((size_t)count + 1, sizeof *keys);
    uint32_t *members = calloc((size_t)count + 1, sizeof *members);
    if (keys != NULL && members != NULL) {
        for (uint32_t i = 0; i < count; i++) { keys[i] = (uint64_t)leaves[i].root << 32 | i; }
        if (count > 1) { qsort(keys, count, sizeof *keys, by_root); }
        for (uint32_t i = 0; i < count; i++) { members[i] = (uint32_t)(keys[i] & UINT32_MAX); }
    } else {
        free(members);
        members = NULL;
    }
    free(keys);
    return members;
}

/* GLPK's bound agrees with what was found: both are sums of the same bytes, GLPK's in floating point. */
static bool agrees(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes, const uint32_t *order,
                   const double *bound_bytes, uint32_t tiers)
{
    const redcoi_crossing crossing = redcoi_place_evaluate_chain(tree, sizes, order);
    double all = 0.0;
    for (uint32_t j = 0; j < sizes->chain_traffic; j++) {
        all += (double)sizes->chain_bytes[j] * (sizes->nodes / sizes->chain_size[j]);
    }
    for (uint32_t t = 0; t < tiers; t++) {
        if (!((double)crossing.bytes[t] <= bound_bytes[t] + 1e-6 * all)) { return false; }
    }
    return true;
}

/* Everything about one tree. */
static redco_status place_in_tree(const redcoi_place_leaf *leaves, const uint32_t *members, uint32_t member_count,
                                  const redcoi_place_sizes *sizes, bool use_glpk, uint32_t *order,
                                  redcoi_place_answer *answer, redco_error *err)
{
    redcoi_place_tree *tree = NULL;
    double bound_bytes[REDCOI_PLACE_TIERS];
    uint32_t proven = 0;
    uint32_t *simple = calloc((size_t)sizes->nodes + 1, sizeof *simple);
    redco_status st = redcoi_place_tree_make(leaves, members, member_count, &tree, err);
    if (st == REDCO_OK && simple == NULL) { st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    if (st == REDCO_OK) { st = redcoi_place_exact(tree, sizes, order, &answer->exact, err); }
    if (st != REDCO_OK) { goto out; }
    answer->crossing = redcoi_place_evaluate(tree, sizes, order, answer->spanning);
    redcoi_place_file_order(tree, sizes->nodes, simple);
    answer->file_order = redcoi_place_evaluate(tree, sizes, simple, NULL);
    if (redcoi_crossing_compare(&answer->file_order, &answer->crossing) <= 0) {
        /* As good, and what a person expects. */
        memcpy(order, simple, sizes->nodes * sizeof *order);
        answer->crossing = redcoi_place_evaluate(tree, sizes, order, answer->spanning);
    }
    if (use_glpk) {
        st = redcoi_place_milp(tree, sizes, bound_bytes, &proven, err);
        if (st != REDCO_OK) { goto out; }
        answer->proven_by_glpk = (proven > 0 || tree->tiers == 0) && agrees(tree, sizes, order, bound_bytes, proven);
        answer->exact = answer->exact || (answer->proven_by_glpk && proven == tree->tiers);
    }
    for (uint32_t i = 0; i < sizes->nodes; i++) { order[i] = tree->leaf_index[order[i]]; }
out:
    redcoi_place_tree_free(tree);
    free(simple);
    return st;
}

/* True if b replaces a: less crossing; among equals the tree that stands first in the file. */
static bool is_better(const redcoi_place_answer *a, uint32_t first_a, const redcoi_place_answer *b, uint32_t first_b)
{
    const int order = redcoi_crossing_compare(&b->crossing, &a->crossing);
    return order < 0 || (order == 0 && first_b < first_a);
}

redco_status redcoi_place(const redcoi_place_leaf *leaves, uint32_t leaf_count, const redcoi_place_sizes *sizes,
                          redcoi_place_answer *answer_out, redco_error *err)
{
    const double start = redco_now_s();
    redcoi_place_answer best = {0};
    uint32_t best_first = 0;
    uint32_t programs = 0;
    uint64_t largest = 0;
    bool all_proven = true;
    bool all_exact = true;
    redco_status st = REDCO_OK;
    uint32_t *members = members_by_tree(leaves, leaf_count);
    uint32_t *order = calloc((size_t)sizes->nodes + 1, sizeof *order);
    best.leaf_of_node = calloc((size_t)sizes->nodes + 1, sizeof *best.leaf_of_node);
    if (members == NULL || order == NULL || best.leaf_of_node == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
        goto out;
    }
    for (uint32_t at = 0, end = 0; at < leaf_count; at = end) {
        uint64_t nodes = 0;
        for (end = at; end < leaf_count && leaves[members[end]].root == leaves[members[at]].root; end++) {
            nodes += leaves[members[end]].nodes;
        }
        largest = nodes > largest ? nodes : largest;
        if (nodes < sizes->nodes) { continue; }
        redcoi_place_answer answer = {0};
        st = place_in_tree(leaves, members + at, end - at, sizes, programs < most_programs, order, &answer, err);
        if (st != REDCO_OK) { goto out; }
        all_proven = all_proven && answer.proven_by_glpk;
        all_exact = all_exact && answer.exact;
        if (programs++ == 0 || is_better(&best, best_first, &answer, members[at])) {
            answer.leaf_of_node = best.leaf_of_node;
            best = answer;
            best_first = members[at];
            memcpy(best.leaf_of_node, order, sizes->nodes * sizeof *order);
        }
    }
    if (programs == 0) {
        st = redco_fail(err, REDCO_EVALUE, "placement", "%u nodes do not fit: the largest network has %llu free",
                        sizes->nodes, (unsigned long long)largest);
        goto out;
    }
    best.proven_by_glpk = all_proven;
    best.exact = all_exact;
    best.seconds = redco_now_s() - start;
    *answer_out = best;
    best.leaf_of_node = NULL; /* the caller owns it now */
out:
    free(members);
    free(order);
    free(best.leaf_of_node);
    return st;
}

/* Leaves of equal size where hosts have no names: as many as there are, or as an endless cluster needs. */
static redco_status unnamed_leaves(const redco_cluster *cluster, const redco_machine *machine,
                                   redcoi_place_leaf **leaves_out, uint32_t *count_out, redco_error *err)
{
    static const uint32_t spine[] = {UINT32_MAX};
    const uint32_t size = machine->nodes_per_leaf > 0 ? machine->nodes_per_leaf : machine->nodes;
    const uint32_t known = redco_cluster_nodes(cluster);
    const uint32_t all = known > machine->nodes ? known : machine->nodes;
    const uint32_t count = all / size + (all % size != 0);
    redcoi_place_leaf *leaves = calloc(count, sizeof *leaves);
    if (leaves == NULL) { return redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    for (uint32_t i = 0; i < count; i++) {
        leaves[i] = (redcoi_place_leaf){.nodes = size, .root = UINT32_MAX, .ancestor_count = 1, .ancestors = spine};
    }
    if (known > 0 && all % size != 0) { leaves[count - 1].nodes = all % size; }
    *leaves_out = leaves;
    *count_out = count;
    return REDCO_OK;
}

static redco_status named_leaves(const redco_leaf *named, size_t count, uint32_t hosts_per_node,
                                 redcoi_place_leaf **leaves_out, redco_error *err)
{
    redcoi_place_leaf *leaves = calloc(count, sizeof *leaves);
    if (leaves == NULL) { return redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    for (size_t i = 0; i < count; i++) {
        leaves[i] = (redcoi_place_leaf){.nodes = redco_leaf_nodes(&named[i], hosts_per_node),
                                        .root = named[i].root,
                                        .ancestor_count = named[i].ancestor_count,
                                        .ancestors = named[i].ancestors};
    }
    *leaves_out = leaves;
    return REDCO_OK;
}

/* The next node of a leaf that has enough free hosts. */
static uint32_t next_node(const redco_leaf *leaf, uint32_t from, uint32_t hosts_per_node)
{
    while (leaf->node_starts[from + 1] - leaf->node_starts[from] < hosts_per_node) { from++; }
    return from;
}

/* Names in rank order: the nodes of a leaf are taken in file order. */
static redco_status name_hosts(redco_placement *placement, const redco_leaf *leaves, size_t leaf_count,
                               uint32_t hosts_per_node, redco_error *err)
{
    uint32_t *used = calloc(leaf_count, sizeof *used);
    placement->hosts = calloc((size_t)placement->nodes * hosts_per_node + 1, sizeof *placement->hosts);
    bool good = used != NULL && placement->hosts != NULL;
    for (uint32_t i = 0; good && i < placement->nodes; i++) {
        const redco_leaf *leaf = &leaves[placement->leaf_of_node[i]];
        uint32_t *at = &used[placement->leaf_of_node[i]];
        *at = next_node(leaf, *at, hosts_per_node);
        for (uint32_t h = 0; good && h < hosts_per_node; h++) {
            char *name = strdup(leaf->hosts[leaf->node_starts[*at] + h]);
            good = name != NULL;
            if (good) { placement->hosts[placement->host_count++] = name; }
        }
        ++*at;
    }
    free(used);
    return good ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
}

static redco_status count_leaves(redco_placement *placement, uint32_t leaf_count, redco_error *err)
{
    bool *used = calloc((size_t)leaf_count + 1, sizeof *used);
    if (used == NULL) { return redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    for (uint32_t i = 0; i < placement->nodes; i++) {
        placement->leaves_used += !used[placement->leaf_of_node[i]];
        used[placement->leaf_of_node[i]] = true;
    }
    free(used);
    return REDCO_OK;
}

/* Copies the answer, which gives up its order. */
static redco_status fill(redco_placement *placement, const redcoi_place_sizes *sizes, redcoi_place_answer *answer,
                         uint32_t leaf_count, redco_error *err)
{
    placement->nodes = sizes->nodes;
    placement->leaf_of_node = answer->leaf_of_node;
    answer->leaf_of_node = NULL;
    placement->levels = calloc((size_t)sizes->count + 1, sizeof *placement->levels);
    if (placement->levels == NULL) { return redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    placement->level_count = sizes->count;
    for (uint32_t j = 0; j < sizes->count; j++) {
        placement->levels[j] = (redco_placed_level){.nodes = sizes->size[j],
                                                    .bytes = sizes->bytes[j],
                                                    .groups = sizes->nodes / sizes->size[j],
                                                    .spanning_groups = answer->spanning[j]};
        placement->spanning_groups += answer->spanning[j];
    }
    placement->spanning_bytes = answer->crossing.bytes[0];
    placement->file_order_bytes = answer->file_order.bytes[0];
    placement->solver = answer->proven_by_glpk ? redcoi_glpk_name() : "dynamic program";
    /* The chain leaves out what does not nest or carries no bytes; only the first kind is not proven. */
    uint32_t weighty = 0;
    for (uint32_t j = 0; j < sizes->count; j++) { weighty += sizes->bytes[j] > 0; }
    const bool whole = weighty == sizes->chain_traffic;
    placement->status = whole && answer->exact ? "optimal" : "feasible";
    placement->solver_seconds = answer->seconds;
    return count_leaves(placement, leaf_count, err);
}

redco_status redco_placement_solve(const redco_cluster *cluster, const redco_machine *machine,
                                   const redco_placement_level *levels, uint32_t level_count,
                                   redco_placement **placement_out, redco_error *err)
{
    const redco_leaf *named = NULL;
    const size_t named_count = redco_cluster_leaves(cluster, &named);
    redcoi_place_leaf *leaves = NULL;
    uint32_t leaf_count = (uint32_t)named_count;
    redcoi_place_sizes sizes;
    redcoi_place_answer answer = {0};
    redco_placement *placement = calloc(1, sizeof *placement);
    redco_status st = REDCO_OK;
    if (placement == NULL) { return redco_fail(err, REDCO_ENOMEM, "placement", "out of memory"); }
    st = redcoi_place_sizes_make(machine->nodes, levels, level_count, &sizes, err);
    if (st != REDCO_OK) { goto out; }
    st = named_count > 0 ? named_leaves(named, named_count, machine->hosts_per_node, &leaves, err)
                         : unnamed_leaves(cluster, machine, &leaves, &leaf_count, err);
    if (st != REDCO_OK) { goto out; }
    if ((st = redcoi_place(leaves, leaf_count, &sizes, &answer, err)) != REDCO_OK) { goto out; }
    if ((st = fill(placement, &sizes, &answer, leaf_count, err)) != REDCO_OK) { goto out; }
    if (named_count > 0) { st = name_hosts(placement, named, named_count, machine->hosts_per_node, err); }
    if (st != REDCO_OK) { goto out; }
    *placement_out = placement;
    placement = NULL; /* the caller owns it now */
out:
    free(leaves);
    free(answer.leaf_of_node);
    redco_placement_free(placement);
    return st;
}

void redco_placement_free(redco_placement *placement)
{
    if (placement == NULL) { return; }
    for (uint32_t i = 0; i < placement->host_count; i++) { free(placement->hosts[i]); }
    free(placement->hosts);
    free(placement->leaf_of_node);
    free(placement->levels);
    free(placement);
}
