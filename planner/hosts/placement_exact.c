/* Problem 3 exactly: a knapsack over the tree chooses how many nodes are used under each switch, then groups are joined
 * bottom-up. Why this is enough: placement_internal.h.
 *
 * With q = floor(x_u / c_1), the best value under switch u is
 *     v_u(q) = own_u(q) + max over parts' q_i with sum q_i <= q of sum v_i(q_i),
 *     own_u(q) = sum_j bytes_j floor(q c_1 / c_j)   in each tier from the height of u to below that of its parent,
 * where a part is an upper child or all leaf children together. Values are vectors of kept bytes by tier, compared in
 * order of tiers, which addition respects. Nodes beyond whole groups come from whatever the parts have left. */
#include "planner/hosts/placement_internal.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this many steps (about half a second) or picks (64 MB) a greedy choice takes over. */
static const uint64_t most_steps = 400000000;
static const uint64_t most_picks = (uint64_t)1 << 24;

/* Values for q = 0 .. most, `tiers` numbers each; part of a switch. */
struct table {
    uint32_t most;
    uint64_t *value;
};

struct work {
    const redcoi_place_tree *tree;
    const redcoi_place_sizes *sizes;
    uint32_t unit; /* c_1 */
    uint32_t tiers;
    struct table *tables; /* per part, until its switch has used it */
    uint32_t **pick;      /* per part: its q for every sum of q up to it */
    uint32_t *amount;     /* nodes used under each switch */
    uint64_t steps, picks;
    bool tabled; /* tables and picks are there */
};

static bool is_leaf(const struct work *w, uint32_t node)
{
    return node < w->tree->leaf_count;
}

/* The parts of u stand in child order; its leaf children together are one, in the place of the first of them. */
static uint32_t first_leaf(const struct work *w, uint32_t u)
{
    for (uint32_t c = w->tree->child_start[u]; c < w->tree->child_start[u + 1]; c++) {
        if (is_leaf(w, w->tree->children[c])) { return w->tree->children[c]; }
    }
    return REDCOI_PLACE_NONE;
}

static bool is_part(const struct work *w, uint32_t child, uint32_t first)
{
    return child == first || !is_leaf(w, child);
}

/* Groups of chain size j that fit whole into single leaf children of u. */
static uint64_t leaf_capacity(const struct work *w, uint32_t u, uint32_t j)
{
    const redcoi_place_tree *tree = w->tree;
    uint64_t groups = 0;
    for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
        if (is_leaf(w, tree->children[c])) { groups += tree->nodes[tree->children[c]] / w->sizes->chain_size[j]; }
    }
    return groups;
}

static uint32_t units(const struct work *w, uint64_t nodes)
{
    const uint64_t most = nodes < w->sizes->nodes ? nodes : w->sizes->nodes;
    return (uint32_t)(most / w->unit);
}

static bool table_make(const struct work *w, uint32_t most, struct table *table)
{
    table->most = most;
    table->value = calloc(((size_t)most + 1) * w->tiers, sizeof *table->value);
    return table->value != NULL;
}

/* All leaf children of u as one part. */
static bool leaves_table(const struct work *w, uint32_t u, struct table *table)
{
    uint64_t capacity[REDCOI_PLACE_SIZES + 1] = {0};
    for (uint32_t j = 0; j < w->sizes->chain_count; j++) { capacity[j] = leaf_capacity(w, u, j); }
    const uint32_t most = units(w, capacity[0] * w->unit);
    if (!table_make(w, most, table)) { return false; }
    for (uint32_t q = 0; q <= most; q++) {
        uint64_t kept = 0;
        for (uint32_t j = 0; j < w->sizes->chain_count; j++) {
            const uint64_t groups = (uint64_t)q * w->unit / w->sizes->chain_size[j];
            kept += w->sizes->chain_bytes[j] * (groups < capacity[j] ? groups : capacity[j]);
        }
        for (uint32_t t = 0; t < w->tree->height[u]; t++) { table->value[(size_t)q * w->tiers + t] = kept; }
    }
    return true;
}

static bool better(const uint64_t *a, const uint64_t *b, const uint64_t *than, uint32_t tiers)
{
    for (uint32_t t = 0; t < tiers; t++) {
        if (a[t] + b[t] != than[t]) { return a[t] + b[t] > than[t]; }
    }
    return false;
}

/* sum := best of sum + part; *pick_out: the part's q for every q of the new sum. Ties leave more to the earlier parts.
 * Takes the part's values. False: out of memory. */
static bool merge(struct work *w, struct table *sum, struct table *part, uint32_t limit, uint32_t **pick_out)
{
    struct table merged = {0};
    const uint64_t both = (uint64_t)sum->most + part->most;
    const uint32_t most = both < limit ? (uint32_t)both : limit;
    uint32_t *pick = calloc((size_t)most + 1, sizeof *pick);
    *pick_out = pick;
    const bool made = pick != NULL && table_make(w, most, &merged);
    for (uint32_t q = 0; made && q <= most; q++) {
        uint64_t *best = merged.value + (size_t)q * w->tiers;
        const uint32_t first = q > sum->most ? q - sum->most : 0;
        const uint32_t last = q < part->most ? q : part->most;
        for (uint32_t b = first; b <= last; b++) {
            const uint64_t *of_sum = sum->value + (size_t)(q - b) * w->tiers;
            const uint64_t *of_part = part->value + (size_t)b * w->tiers;
            if (b > first && !better(of_sum, of_part, best, w->tiers)) { continue; }
            for (uint32_t t = 0; t < w->tiers; t++) { best[t] = of_sum[t] + of_part[t]; }
            pick[q] = b;
        }
    }
    free(sum->value);
    free(part->value);
    part->value = NULL;
    *sum = merged;
    return made;
}

/* Adds own_u and stretches the sums of parts to all q of u. */
static bool finish_table(const struct work *w, uint32_t u, struct table *sum)
{
    const redcoi_place_tree *tree = w->tree;
    const uint32_t parent = tree->parent[u];
    const uint32_t top = parent == REDCOI_PLACE_NONE ? tree->height[u] : tree->height[parent];
    struct table table = {0};
    if (!table_make(w, units(w, tree->nodes[u]), &table)) { return false; }
    for (uint32_t q = 0; q <= table.most; q++) {
        uint64_t *value = table.value + (size_t)q * w->tiers;
        uint64_t own = 0;
        memcpy(value, sum->value + (size_t)(q < sum->most ? q : sum->most) * w->tiers, w->tiers * sizeof *value);
        for (uint32_t j = 0; j < w->sizes->chain_count; j++) {
            own += w->sizes->chain_bytes[j] * ((uint64_t)q * w->unit / w->sizes->chain_size[j]);
        }
        for (uint32_t t = tree->height[u]; t < top; t++) { value[t] += own; }
    }
    free(sum->value);
    *sum = table;
    return true;
}

/* Most q of a part. */
static uint32_t part_most(const struct work *w, uint32_t u, uint32_t part)
{
    return units(w, is_leaf(w, part) ? leaf_capacity(w, u, 0) * w->unit : w->tree->nodes[part]);
}

/* The table of upper switch u from those of its parts. */
static bool solve_switch(struct work *w, uint32_t u)
{
    const redcoi_place_tree *tree = w->tree;
    const uint32_t limit = units(w, tree->nodes[u]);
    const uint32_t first = first_leaf(w, u);
    struct table *sum = &w->tables[u];
    if (!table_make(w, 0, sum)) { return false; }
    for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
        const uint32_t child = tree->children[c];
        if (!is_part(w, child, first)) { continue; }
        if (child == first && !leaves_table(w, u, &w->tables[child])) { return false; }
        if (!merge(w, sum, &w->tables[child], limit, &w->pick[child])) { return false; }
    }
    return finish_table(w, u, sum);
}

/* Bounds the work beforehand, so that huge trees with spare nodes do not hang. */
static bool affordable(struct work *w)
{
    const redcoi_place_tree *tree = w->tree;
    for (uint32_t u = tree->leaf_count; u < tree->switch_count; u++) {
        const uint64_t limit = units(w, tree->nodes[u]);
        const uint32_t first = first_leaf(w, u);
        uint64_t sum = 0;
        for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
            if (!is_part(w, tree->children[c], first)) { continue; }
            const uint64_t part = part_most(w, u, tree->children[c]);
            w->steps += (sum + 1) * (part + 1) * w->tiers;
            sum = sum + part < limit ? sum + part : limit;
            w->picks += sum + 1;
        }
        if (w->steps > most_steps || w->picks > most_picks) { return false; }
    }
    return true;
}

/* Gives the leaf children of u `nodes` nodes, of which q groups of c_1 stay whole in leaves: largest sizes first, file
 * order within a size; what is left over comes from leaves in use, then from others. */
static void share_leaves(struct work *w, uint32_t u, uint32_t q, uint32_t nodes)
{
    const redcoi_place_tree *tree = w->tree;
    const uint32_t *first = tree->children + tree->child_start[u];
    const uint32_t *end = tree->children + tree->child_start[u + 1];
    for (uint32_t j = w->sizes->chain_count; j-- > 0;) {
        const uint32_t size = w->sizes->chain_size[j];
        const uint64_t capacity = leaf_capacity(w, u, j);
        uint64_t groups = (uint64_t)q * w->unit / size;
        groups = groups < capacity ? groups : capacity;
        for (const uint32_t *c = first; c < end; c++) {
            if (is_leaf(w, *c)) { groups -= w->amount[*c] / size; }
        }
        for (const uint32_t *c = first; c < end && groups > 0; c++) {
            if (!is_leaf(w, *c)) { continue; }
            const uint32_t fit = (tree->nodes[*c] - w->amount[*c]) / size;
            const uint32_t take = groups < fit ? (uint32_t)groups : fit;
            w->amount[*c] += take * size;
            nodes -= take * size;
            groups -= take;
        }
    }
    for (int in_use = 1; in_use >= 0; in_use--) {
        for (const uint32_t *c = first; c < end && nodes > 0; c++) {
            if (!is_leaf(w, *c) || (in_use == 1) != (w->amount[*c] > 0)) { continue; }
            const uint32_t room = tree->nodes[*c] - w->amount[*c];
            const uint32_t take = nodes < room ? nodes : room;
            w->amount[*c] += take;
            nodes -= take;
        }
    }
}

/* Nodes of the leaf children of u together, or of an upper child. */
static uint32_t part_nodes(const struct work *w, uint32_t u, uint32_t part)
{
    uint32_t nodes = 0;
    if (!is_leaf(w, part)) { return w->tree->nodes[part]; }
    for (uint32_t c = w->tree->child_start[u]; c < w->tree->child_start[u + 1]; c++) {
        if (is_leaf(w, w->tree->children[c])) { nodes += w->tree->nodes[w->tree->children[c]]; }
    }
    return nodes;
}

/* Whole groups for every part of u, `sum` of them in all: as picked, or without tables in file order. */
static void share_groups(struct work *w, uint32_t u, uint32_t sum)
{
    const redcoi_place_tree *tree = w->tree;
    const uint32_t first = first_leaf(w, u);
    const uint32_t *begin = tree->children + tree->child_start[u];
    const uint32_t *end = tree->children + tree->child_start[u + 1];
    for (const uint32_t *c = end; w->tabled && c-- > begin;) {
        if (!is_part(w, *c, first)) { continue; }
        const uint32_t q = w->pick[*c][sum];
        w->amount[*c] = q * w->unit;
        sum -= q;
    }
    for (const uint32_t *c = begin; !w->tabled && c < end; c++) {
        if (!is_part(w, *c, first)) { continue; }
        const uint32_t most = part_most(w, u, *c);
        const uint32_t q = sum < most ? sum : most;
        w->amount[*c] = q * w->unit;
        sum -= q;
    }
}

/* Divides the nodes of u among its parts: whole groups, then single nodes in file order. */
static void share(struct work *w, uint32_t u)
{
    const redcoi_place_tree *tree = w->tree;
    const uint32_t first = first_leaf(w, u);
    const uint32_t *begin = tree->children + tree->child_start[u];
    const uint32_t *end = tree->children + tree->child_start[u + 1];
    uint64_t most = 0; /* the sums of parts end where no part can take more */
    uint32_t rest = w->amount[u];
    for (const uint32_t *c = begin; c < end; c++) { most += is_part(w, *c, first) ? part_most(w, u, *c) : 0; }
    share_groups(w, u, rest / w->unit < most ? rest / w->unit : (uint32_t)most);
    const uint32_t leaf_groups = first != REDCOI_PLACE_NONE ? w->amount[first] / w->unit : 0;
    for (const uint32_t *c = begin; c < end; c++) { rest -= is_part(w, *c, first) ? w->amount[*c] : 0; }
    for (const uint32_t *c = begin; c < end && rest > 0; c++) {
        if (!is_part(w, *c, first)) { continue; }
        const uint32_t room = part_nodes(w, u, *c) - w->amount[*c];
        const uint32_t take = rest < room ? rest : room;
        w->amount[*c] += take;
        rest -= take;
    }
    if (first == REDCOI_PLACE_NONE) { return; }
    const uint32_t leaf_nodes = w->amount[first];
    w->amount[first] = 0;
    share_leaves(w, u, leaf_groups, leaf_nodes);
}

/* Groups under construction: a group is named by its first node; queues hold groups of one size in order. */
struct queue {
    uint32_t head, tail, count;
};

struct joiner {
    uint32_t sizes;       /* sizes of the chain, plus single nodes */
    uint32_t *next_node;  /* within a group */
    uint32_t *last_node;  /* last node of each group */
    uint32_t *next_group; /* within a queue */
    uint32_t *leaf_of;
    struct queue *queues; /* per switch and size */
};

static void append(struct joiner *joiner, struct queue *queue, const struct queue *more)
{
    if (more->count == 0) { return; }
    if (queue->count == 0) {
        queue->head = more->head;
    } else {
        joiner->next_group[queue->tail] = more->head;
    }
    queue->tail = more->tail;
    queue->count += more->count;
}

/* Joins the first `groups` groups of a queue into one. */
static void join_groups(struct joiner *joiner, struct queue *from, uint32_t groups, struct queue *to)
{
    const uint32_t first = from->head;
    uint32_t at = first;
    for (uint32_t i = 1; i < groups; i++) {
        const uint32_t next = joiner->next_group[at];
        joiner->next_node[joiner->last_node[first]] = next;
        joiner->last_node[first] = joiner->last_node[next];
        at = next;
    }
    from->head = joiner->next_group[at];
    from->count -= groups;
    const struct queue one = {first, first, 1};
    append(joiner, to, &one);
}

static void join_switch(struct joiner *joiner, const redcoi_place_sizes *sizes, struct queue *queues)
{
    for (uint32_t j = 0; j + 1 < joiner->sizes; j++) {
        const uint32_t groups = sizes->chain_size[j] / (j > 0 ? sizes->chain_size[j - 1] : 1);
        while (queues[j].count >= groups) { join_groups(joiner, &queues[j], groups, &queues[j + 1]); }
    }
}

/* Orders the chosen nodes so that groups are whole as far down as their counts allow. */
static void join_all(struct joiner *joiner, const struct work *w, uint32_t *order_out)
{
    const redcoi_place_tree *tree = w->tree;
    uint32_t node = 0;
    for (uint32_t u = 0; u < tree->switch_count; u++) {
        struct queue *queues = joiner->queues + (size_t)u * joiner->sizes;
        for (uint32_t i = 0; is_leaf(w, u) && i < w->amount[u]; i++, node++) {
            const struct queue one = {node, node, 1};
            joiner->last_node[node] = node;
            joiner->leaf_of[node] = u;
            append(joiner, &queues[0], &one);
        }
        for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
            const struct queue *below = joiner->queues + (size_t)tree->children[c] * joiner->sizes;
            for (uint32_t j = 0; j < joiner->sizes; j++) { append(joiner, &queues[j], &below[j]); }
        }
        join_switch(joiner, w->sizes, queues);
    }
    const struct queue *whole = joiner->queues + (size_t)(tree->switch_count - 1) * joiner->sizes + joiner->sizes - 1;
    uint32_t used = 0;
    for (uint32_t g = whole->head, i = 0; i < whole->count; i++, g = joiner->next_group[g]) {
        for (uint32_t n = g;; n = joiner->next_node[n]) {
            order_out[used++] = joiner->leaf_of[n];
            if (n == joiner->last_node[g]) { break; }
        }
    }
}

static redco_status order_nodes(const struct work *w, uint32_t *order_out, redco_error *err)
{
    const size_t nodes = (size_t)w->sizes->nodes + 1;
    struct joiner joiner = {.sizes = w->sizes->chain_count + 1};
    redco_status st = REDCO_OK;
    joiner.next_node = calloc(nodes, sizeof(uint32_t));
    joiner.last_node = calloc(nodes, sizeof(uint32_t));
    joiner.next_group = calloc(nodes, sizeof(uint32_t));
    joiner.leaf_of = calloc(nodes, sizeof(uint32_t));
    joiner.queues = calloc((size_t)w->tree->switch_count * joiner.sizes, sizeof *joiner.queues);
    if (joiner.next_node == NULL || joiner.last_node == NULL || joiner.next_group == NULL || joiner.leaf_of == NULL ||
        joiner.queues == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
    } else {
        join_all(&joiner, w, order_out);
    }
    free(joiner.next_node);
    free(joiner.last_node);
    free(joiner.next_group);
    free(joiner.leaf_of);
    free(joiner.queues);
    return st;
}

redco_status redcoi_place_exact(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes, uint32_t *order_out,
                                bool *exact_out, redco_error *err)
{
    struct work w = {.tree = tree, .sizes = sizes, .tiers = tree->tiers > 0 ? tree->tiers : 1};
    redco_status st = REDCO_OK;
    *exact_out = true;
    if (sizes->chain_count == 0) { /* one node */
        redcoi_place_file_order(tree, sizes->nodes, order_out);
        return REDCO_OK;
    }
    w.unit = sizes->chain_size[0];
    w.tables = calloc(tree->switch_count, sizeof *w.tables);
    w.pick = calloc(tree->switch_count, sizeof *w.pick);
    w.amount = calloc(tree->switch_count, sizeof *w.amount);
    if (w.tables == NULL || w.pick == NULL || w.amount == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
        goto out;
    }
    /* Without spare nodes there is nothing to choose. */
    if (sizes->nodes < tree->nodes[tree->switch_count - 1]) {
        w.tabled = affordable(&w);
        *exact_out = w.tabled;
    }
    for (uint32_t u = tree->leaf_count; w.tabled && u < tree->switch_count; u++) {
        if (!solve_switch(&w, u)) {
            st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
            goto out;
        }
    }
    w.amount[tree->switch_count - 1] = sizes->nodes;
    for (uint32_t u = tree->switch_count; u-- > tree->leaf_count;) { share(&w, u); }
    st = order_nodes(&w, order_out, err);
out:
    for (uint32_t u = 0; u < tree->switch_count; u++) {
        if (w.tables != NULL) { free(w.tables[u].value); }
        if (w.pick != NULL) { free(w.pick[u]); }
    }
    free(w.tables);
    free(w.pick);
    free(w.amount);
    return st;
}
