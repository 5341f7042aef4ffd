/* Trees of switches for problem 3, and what a given order of nodes costs in them. */
#include "planner/hosts/placement_internal.h"

#include <stdlib.h>
#include <string.h>

int redcoi_crossing_compare(const redcoi_crossing *a, const redcoi_crossing *b)
{
    for (int t = 0; t < REDCOI_PLACE_TIERS; t++) {
        if (a->bytes[t] != b->bytes[t]) { return a->bytes[t] < b->bytes[t] ? -1 : 1; }
    }
    return (a->job_tiers > b->job_tiers) - (a->job_tiers < b->job_tiers);
}

static int by_size(const void *a, const void *b)
{
    const redco_placement_level *left = a;
    const redco_placement_level *right = b;
    return (left->nodes > right->nodes) - (left->nodes < right->nodes);
}

/* Heaviest chain: best[i] = traffic of size i + best of a smaller size that divides it. */
static void pick_chain(redcoi_place_sizes *sizes)
{
    uint64_t best[REDCOI_PLACE_SIZES] = {0};
    uint32_t before[REDCOI_PLACE_SIZES];
    uint32_t last = REDCOI_PLACE_NONE;
    for (uint32_t i = 0; i < sizes->count; i++) {
        before[i] = REDCOI_PLACE_NONE;
        for (uint32_t j = 0; j < i; j++) {
            if (sizes->bytes[j] == 0 || sizes->size[i] % sizes->size[j] != 0) { continue; }
            if (before[i] == REDCOI_PLACE_NONE || best[j] > best[before[i]]) { before[i] = j; }
        }
        best[i] = sizes->bytes[i] * (sizes->nodes / sizes->size[i]);
        if (before[i] != REDCOI_PLACE_NONE) { best[i] += best[before[i]]; }
        if (sizes->bytes[i] > 0 && (last == REDCOI_PLACE_NONE || best[i] >= best[last])) { last = i; }
    }
    for (uint32_t i = last; i != REDCOI_PLACE_NONE; i = before[i]) { sizes->chain_count++; }
    uint32_t at = sizes->chain_count;
    for (uint32_t i = last; i != REDCOI_PLACE_NONE; i = before[i]) {
        at--;
        sizes->chain_size[at] = sizes->size[i];
        sizes->chain_bytes[at] = 2 * sizes->bytes[i];
    }
    sizes->chain_traffic = sizes->chain_count;
    const uint32_t largest = sizes->chain_count > 0 ? sizes->chain_size[sizes->chain_count - 1] : 1;
    if (largest < sizes->nodes) {
        sizes->chain_size[sizes->chain_count] = sizes->nodes;
        sizes->chain_bytes[sizes->chain_count++] = 1;
    }
}

redco_status redcoi_place_sizes_make(uint32_t nodes, const redco_placement_level *levels, uint32_t level_count,
                                     redcoi_place_sizes *sizes_out, redco_error *err)
{
    static const uint64_t most_bytes = (uint64_t)1 << 61; /* sums over all levels stay exact, even doubled */
    const char *const place = "placement";
    redcoi_place_sizes sizes = {.nodes = nodes};
    uint64_t total_bytes = 0;
    redco_status st = REDCO_OK;
    redco_placement_level *sorted = calloc((size_t)level_count + 1, sizeof *sorted);
    if (sorted == NULL) { return redco_fail(err, REDCO_ENOMEM, place, "out of memory"); }
    if (level_count > 0) {
        memcpy(sorted, levels, level_count * sizeof *sorted);
        qsort(sorted, level_count, sizeof *sorted, by_size);
    }
    for (uint32_t i = 0; i < level_count; i++) {
        uint64_t bytes = 0;
        if (sorted[i].nodes == 0 || nodes % sorted[i].nodes != 0) {
            st = redco_fail(err, REDCO_EVALUE, place, "subgroups of %u nodes do not divide the job's %u nodes",
                            sorted[i].nodes, nodes);
            goto out;
        }
        if (!redco_mul_u64(sorted[i].bytes, nodes / sorted[i].nodes, &bytes) || bytes > most_bytes - total_bytes) {
            st = redco_fail(err, REDCO_EVALUE, place, "%llu bytes a step in each of %u subgroups are out of range",
                            (unsigned long long)sorted[i].bytes, nodes / sorted[i].nodes);
            goto out;
        }
        total_bytes += bytes;
        if (sorted[i].nodes == 1) { continue; }
        if (sizes.count > 0 && sizes.size[sizes.count - 1] == sorted[i].nodes) {
            sizes.bytes[sizes.count - 1] += sorted[i].bytes;
            continue;
        }
        if (sizes.count == REDCOI_PLACE_SIZES) {
            st = redco_fail(err, REDCO_EVALUE, place, "more than %d sizes of subgroups", REDCOI_PLACE_SIZES);
            goto out;
        }
        sizes.size[sizes.count] = sorted[i].nodes;
        sizes.bytes[sizes.count++] = sorted[i].bytes;
    }
    pick_chain(&sizes);
    *sizes_out = sizes;
out:
    free(sorted);
    return st;
}

void redcoi_place_tree_free(redcoi_place_tree *tree)
{
    if (tree == NULL) { return; }
    free(tree->leaf_index);
    free(tree->parent);
    free(tree->height);
    free(tree->nodes);
    free(tree->child_start);
    free(tree->children);
    free(tree);
}

/* An upper switch while the tree is built. */
struct upper {
    uint32_t id;         /* the caller's number */
    uint32_t height;     /* so far */
    uint32_t first_leaf; /* in file order */
};

static int by_id(const void *a, const void *b)
{
    const struct upper *left = a;
    const struct upper *right = b;
    if (left->id != right->id) { return left->id < right->id ? -1 : 1; }
    return (left->first_leaf > right->first_leaf) - (left->first_leaf < right->first_leaf);
}

static int by_height(const void *a, const void *b)
{
    const struct upper *left = a;
    const struct upper *right = b;
    if (left->height != right->height) { return left->height < right->height ? -1 : 1; }
    return (left->first_leaf > right->first_leaf) - (left->first_leaf < right->first_leaf);
}

/* One entry per upper switch, sorted by height, then file order. */
static struct upper *collect_uppers(const redcoi_place_leaf *leaves, const uint32_t *members, uint32_t member_count,
                                    uint32_t *count_out)
{
    size_t total = 0;
    size_t count = 0;
    for (uint32_t i = 0; i < member_count; i++) { total += leaves[members[i]].ancestor_count; }
    struct upper *uppers = calloc(total + 1, sizeof *uppers);
    if (uppers == NULL) { return NULL; }
    total = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        const redcoi_place_leaf *leaf = &leaves[members[i]];
        for (uint32_t a = 0; a < leaf->ancestor_count; a++) {
            uppers[total++] = (struct upper){leaf->ancestors[a], a + 1, i};
        }
    }
    if (total > 1) { qsort(uppers, total, sizeof *uppers, by_id); }
    for (size_t i = 0; i < total; i++) {
        if (count > 0 && uppers[count - 1].id == uppers[i].id) {
            if (uppers[i].height > uppers[count - 1].height) { uppers[count - 1].height = uppers[i].height; }
        } else {
            uppers[count++] = uppers[i];
        }
    }
    if (count > 1) { qsort(uppers, count, sizeof *uppers, by_height); }
    *count_out = (uint32_t)count;
    return uppers;
}

struct index {
    uint32_t id, local;
};

static int by_index_id(const void *a, const void *b)
{
    const uint32_t left = ((const struct index *)a)->id;
    const uint32_t right = ((const struct index *)b)->id;
    return (left > right) - (left < right);
}

static uint32_t local_of(const struct index *index, uint32_t count, uint32_t id)
{
    const struct index key = {id, 0};
    const struct index *found = bsearch(&key, index, count, sizeof *index, by_index_id);
    return found->local;
}

/* Parents, and children in file order: leaves are visited in file order, and each path upward until it is known. */
static void link_tree(redcoi_place_tree *tree, const redcoi_place_leaf *leaves, const struct index *index,
                      uint32_t upper_count)
{
    for (uint32_t i = 0; i < tree->leaf_count; i++) {
        const redcoi_place_leaf *leaf = &leaves[tree->leaf_index[i]];
        uint32_t at = i;
        for (uint32_t a = 0; a < leaf->ancestor_count; a++) {
            const uint32_t up = local_of(index, upper_count, leaf->ancestors[a]);
            tree->parent[at] = up;
            at = up;
        }
        for (at = i; at != REDCOI_PLACE_NONE; at = tree->parent[at]) { tree->nodes[at] += leaf->nodes; }
    }
}

/* Counting sort by parent; file order within is the order of first leaves, in which `order` lists all switches. */
static void list_children(redcoi_place_tree *tree, const uint32_t *order)
{
    uint32_t *start = tree->child_start;
    for (uint32_t u = 0; u < tree->switch_count; u++) {
        if (tree->parent[u] != REDCOI_PLACE_NONE) { start[tree->parent[u] + 1]++; }
    }
    for (uint32_t u = 0; u < tree->switch_count; u++) { start[u + 1] += start[u]; }
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        const uint32_t up = tree->parent[order[i]];
        if (up != REDCOI_PLACE_NONE) { tree->children[start[up]++] = order[i]; }
    }
    /* Each start has moved to its end, which is the next one's start. */
    memmove(start + 1, start, tree->switch_count * sizeof *start);
    start[0] = 0;
}

static bool allocate_tree(redcoi_place_tree *tree)
{
    const size_t count = (size_t)tree->switch_count + 2;
    tree->leaf_index = calloc(count, sizeof(uint32_t));
    tree->parent = malloc(count * sizeof(uint32_t));
    tree->height = calloc(count, sizeof(uint32_t));
    tree->nodes = calloc(count, sizeof(uint32_t));
    tree->child_start = calloc(count, sizeof(uint32_t));
    tree->children = calloc(count, sizeof(uint32_t));
    if (tree->leaf_index == NULL || tree->parent == NULL || tree->height == NULL || tree->nodes == NULL ||
        tree->child_start == NULL || tree->children == NULL) {
        return false;
    }
    memset(tree->parent, 0xff, count * sizeof(uint32_t)); /* REDCOI_PLACE_NONE */
    return true;
}

redco_status redcoi_place_tree_make(const redcoi_place_leaf *leaves, const uint32_t *members, uint32_t member_count,
                                    redcoi_place_tree **tree_out, redco_error *err)
{
    uint32_t upper_count = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        if (leaves[members[i]].ancestor_count >= REDCOI_PLACE_TIERS) {
            return redco_fail(err, REDCO_EVALUE, "placement", "more than %d levels of switches", REDCOI_PLACE_TIERS);
        }
    }
    struct upper *uppers = collect_uppers(leaves, members, member_count, &upper_count);
    struct index *index = calloc((size_t)upper_count + 1, sizeof *index);
    uint32_t *order = calloc((size_t)upper_count + member_count + 1, sizeof *order);
    redcoi_place_tree *tree = calloc(1, sizeof *tree);
    redco_status st = REDCO_OK;
    if (tree != NULL) {
        *tree = (redcoi_place_tree){.leaf_count = member_count, .switch_count = member_count + upper_count};
    }
    if (uppers == NULL || index == NULL || order == NULL || tree == NULL || !allocate_tree(tree)) {
        st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
        goto out;
    }
    memcpy(tree->leaf_index, members, member_count * sizeof *members);
    for (uint32_t i = 0; i < upper_count; i++) {
        tree->height[member_count + i] = uppers[i].height;
        index[i] = (struct index){uppers[i].id, member_count + i};
    }
    if (upper_count > 1) { qsort(index, upper_count, sizeof *index, by_index_id); }
    link_tree(tree, leaves, index, upper_count);
    tree->tiers = tree->height[tree->switch_count - 1];
    /* File order of all switches: a path upward is new until it meets a switch seen from an earlier leaf. */
    uint32_t listed = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        for (uint32_t at = i; at != REDCOI_PLACE_NONE; at = tree->parent[at]) {
            if (at >= member_count && uppers[at - member_count].first_leaf != i) { break; }
            order[listed++] = at;
        }
    }
    list_children(tree, order);
    *tree_out = tree;
    tree = NULL;
out:
    redcoi_place_tree_free(tree);
    free(uppers);
    free(index);
    free(order);
    return st;
}

/* The lowest switch above both; heights grow strictly upward, so the lower of two switches is never above the other. */
static uint32_t common_switch(const redcoi_place_tree *tree, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (tree->height[a] <= tree->height[b]) {
            a = tree->parent[a];
        } else {
            b = tree->parent[b];
        }
    }
    return a;
}

/* The lowest switch above nodes first .. first + size - 1 of the order. */
static uint32_t group_switch(const redcoi_place_tree *tree, const uint32_t *order, uint32_t first, uint32_t size)
{
    uint32_t above = order[first];
    for (uint32_t i = first + 1; i < first + size; i++) {
        if (order[i] != order[i - 1]) { above = common_switch(tree, above, order[i]); }
    }
    return above;
}

/* Adds the bytes of all groups of a size that cross. @return how many are not under one leaf */
static uint32_t add_crossing(const redcoi_place_tree *tree, const uint32_t *order, uint32_t nodes, uint32_t size,
                             uint64_t bytes, redcoi_crossing *crossing)
{
    uint32_t spanning = 0;
    for (uint32_t first = 0; first < nodes; first += size) {
        const uint32_t height = tree->height[group_switch(tree, order, first, size)];
        for (uint32_t t = 0; t < height; t++) { crossing->bytes[t] += bytes; }
        spanning += height > 0;
    }
    return spanning;
}

redcoi_crossing redcoi_place_evaluate(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                                      const uint32_t *order, uint32_t *spanning_out)
{
    redcoi_crossing crossing = {.job_tiers = tree->height[group_switch(tree, order, 0, sizes->nodes)]};
    for (uint32_t j = 0; j < sizes->count; j++) {
        const uint32_t spanning = add_crossing(tree, order, sizes->nodes, sizes->size[j], sizes->bytes[j], &crossing);
        if (spanning_out != NULL) { spanning_out[j] = spanning; }
    }
    return crossing;
}

redcoi_crossing redcoi_place_evaluate_chain(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                                            const uint32_t *order)
{
    redcoi_crossing crossing = {{0}, 0};
    for (uint32_t j = 0; j < sizes->chain_traffic; j++) {
        (void)add_crossing(tree, order, sizes->nodes, sizes->chain_size[j], sizes->chain_bytes[j], &crossing);
    }
    return crossing;
}

void redcoi_place_file_order(const redcoi_place_tree *tree, uint32_t nodes, uint32_t *order_out)
{
    uint32_t used = 0;
    for (uint32_t leaf = 0; leaf < tree->leaf_count; leaf++) {
        for (uint32_t i = 0; i < tree->nodes[leaf] && used < nodes; i++) { order_out[used++] = leaf; }
    }
}
