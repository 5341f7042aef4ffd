/* Groups of level 0 lie in groups of level 1 and so on; a set is a bit mask. For thresholds of the least rate per
 * level, block(l, S) is the best of a group S of level l, i.e. of its own pairs and of cover(l, S). cover(l, S) is S
 * divided into groups of level l - 1: the one that has S's lowest GPU, and the best of the rest. Values are sums per
 * level, compared from the innermost out; sums over disjoint sets add, so parts of an optimum are optimal. Thresholds
 * are raised level by level, as far as the sums of the levels inside stay what they were. */
#include "topology/discovery/gpu_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct value {
    int64_t sums[2 * REDCO_ORDER_LEVELS]; /* rates, then distances below 0; sums[0] = impossible: there is none */
    uint32_t part;                        /* part of cover: the group with the lowest GPU */
};

struct work {
    const redco_pairs *pairs;
    const uint32_t *sizes;
    uint32_t levels;
    uint32_t least[REDCO_ORDER_LEVELS]; /* thresholds */
    uint32_t *slowest;                  /* [mask] least rate of its pairs */
    int64_t *sum, *near;                /* [mask] over its pairs: rates, and distances below 0 */
    struct value *block, *cover;        /* [level][mask] */
    struct value best;
    uint32_t best_mask;
};

static const int64_t impossible = INT64_MIN;

static uint32_t count_of(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

static void measure_sets(struct work *w)
{
    w->slowest[0] = UINT32_MAX;
    for (uint32_t mask = 1; mask < 1u << w->pairs->gpus; mask++) {
        const uint32_t lowest = (uint32_t)__builtin_ctz(mask);
        const uint32_t rest = mask & (mask - 1);
        w->slowest[mask] = w->slowest[rest];
        w->sum[mask] = w->sum[rest];
        w->near[mask] = w->near[rest];
        for (uint32_t left = rest; left != 0; left &= left - 1) {
            const uint32_t other = (uint32_t)__builtin_ctz(left);
            const uint32_t rate = w->pairs->rate[lowest][other];
            w->slowest[mask] = rate < w->slowest[mask] ? rate : w->slowest[mask];
            w->sum[mask] += rate;
            w->near[mask] -= w->pairs->distance[lowest][other];
        }
    }
}

/* By the first @p count sums. */
static int compare_values(const struct value *a, const struct value *b, uint32_t count)
{
    for (uint32_t l = 0; l < count; l++) {
        if (a->sums[l] != b->sums[l]) { return a->sums[l] < b->sums[l] ? -1 : 1; }
    }
    return 0;
}

/* Says whether the GPUs of a, in ascending order, come before those of b, a set of the same size. */
static bool comes_first(uint32_t a, uint32_t b)
{
    const uint32_t differ = a ^ b;
    return (a & differ & (~differ + 1)) != 0;
}

static void consider(struct value *best, const struct value *value, uint32_t part, uint32_t count)
{
    const int order = compare_values(value, best, count);
    if (order > 0 || (order == 0 && comes_first(part, best->part))) {
        *best = *value;
        best->part = part;
    }
}

/* Covers sets of level l by groups of level l - 1; smaller sets come first as smaller masks. */
static struct value cover_set(const struct work *w, uint32_t level, uint32_t mask)
{
    const size_t masks = (size_t)1 << w->pairs->gpus;
    const struct value *block = w->block + (level - 1) * masks;
    const struct value *cover = w->cover + level * masks;
    const uint32_t lowest = mask & (~mask + 1);
    const uint32_t others = mask ^ lowest;
    const uint32_t size = w->sizes[level - 1];
    struct value best = {.sums = {impossible}};
    if (count_of(mask) == size) {
        best = block[mask];
        best.part = mask;
        return best;
    }
    for (uint32_t more = others;; more = (more - 1) & others) {
        const uint32_t part = more | lowest;
        if (count_of(part) == size && block[part].sums[0] != impossible) {
            const struct value *rest = &cover[mask ^ part];
            struct value value = block[part];
            if (rest->sums[0] != impossible) {
                for (uint32_t l = 0; l < 2 * w->levels; l++) { value.sums[l] += rest->sums[l]; }
                consider(&best, &value, part, 2 * w->levels);
            }
        }
        if (more == 0) { break; }
    }
    return best;
}

static void solve_level(struct work *w, uint32_t level)
{
    const size_t masks = (size_t)1 << w->pairs->gpus;
    struct value *block = w->block + level * masks;
    struct value *cover = w->cover + level * masks;
    cover[0] = (struct value){.part = 0};
    for (uint32_t mask = 1; mask < masks; mask++) {
        const uint32_t count = count_of(mask);
        if (count > w->sizes[level] || (level > 0 && count % w->sizes[level - 1] != 0)) { continue; }
        if (level > 0) { cover[mask] = cover_set(w, level, mask); }
        if (count != w->sizes[level]) { continue; }
        block[mask] = level > 0 ? cover[mask] : (struct value){.part = 0};
        if (count > 1 && w->slowest[mask] < w->least[level]) { block[mask].sums[0] = impossible; }
        if (block[mask].sums[0] == impossible) { continue; }
        block[mask].sums[level] += w->sum[mask];
        block[mask].sums[w->levels + level] += w->near[mask];
    }
}

/* The best set of all GPUs in use under the thresholds, of which those of levels below @p first are as they were.
   @return false if there is none */
static bool solve(struct work *w, uint32_t first)
{
    const uint32_t masks = 1u << w->pairs->gpus;
    const struct value *block = w->block + (size_t)(w->levels - 1) * masks;
    for (uint32_t level = first; level < w->levels; level++) { solve_level(w, level); }
    w->best = (struct value){.sums = {impossible}};
    w->best_mask = 0;
    for (uint32_t mask = 1; mask < masks; mask++) {
        if (count_of(mask) != w->sizes[w->levels - 1] || block[mask].sums[0] == impossible) { continue; }
        const int order = compare_values(&block[mask], &w->best, 2 * w->levels);
        if (order > 0 || (order == 0 && comes_first(mask, w->best_mask))) {
            w->best = block[mask];
            w->best_mask = mask;
        }
    }
    return w->best.sums[0] != impossible;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The rates that occur, each once, ascending. */
static uint32_t list_rates(const redco_pairs *pairs, uint32_t *rates)
{
    uint32_t count = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pairs->gpus; i++) {
        for (uint32_t j = i + 1; j < pairs->gpus; j++) { rates[count++] = pairs->rate[i][j]; }
    }
    if (count > 0) { qsort(rates, count, sizeof *rates, ascending); }
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || rates[kept - 1] != rates[i]) { rates[kept++] = rates[i]; }
    }
    return kept;
}

/* Raises the threshold of a level as far as the sums of the levels inside allow: they bear no less with a lower one. */
static void raise_threshold(struct work *w, uint32_t level, const uint32_t *rates, uint32_t count)
{
    uint32_t good = 0;
    uint32_t bad = count;
    const struct value before = w->best;
    if (count < 2) { return; }
    while (bad - good > 1) {
        const uint32_t middle = good + (bad - good) / 2;
        w->least[level] = rates[middle];
        if (solve(w, level) && compare_values(&w->best, &before, level) == 0) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    w->least[level] = rates[good];
    (void)solve(w, level);
}

static void write_order(const struct work *w, uint32_t level, uint32_t mask, uint32_t **out)
{
    const size_t masks = (size_t)1 << w->pairs->gpus;
    if (level == 0) {
        for (; mask != 0; mask &= mask - 1) { *(*out)++ = (uint32_t)__builtin_ctz(mask); }
        return;
    }
    while (mask != 0) {
        const uint32_t part = w->cover[level * masks + mask].part;
        write_order(w, level - 1, part, out);
        mask ^= part;
    }
}

redco_status redco_order_find(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, uint32_t *order_out,
                              redco_error *err)
{
    uint32_t rates[REDCO_ORDER_GPUS * (REDCO_ORDER_GPUS - 1) / 2 + 1] = {0};
    if (pairs->gpus == 0 || pairs->gpus > REDCO_ORDER_GPUS || levels == 0 || levels > REDCO_ORDER_LEVELS) {
        return redco_fail(err, REDCO_EVALUE, "order", "%u GPUs in %u levels of groups; 1 to %d in 1 to %d are possible",
                          pairs->gpus, levels, REDCO_ORDER_GPUS, REDCO_ORDER_LEVELS);
    }
    for (uint32_t l = 0; l < levels; l++) {
        const uint32_t next = l + 1 < levels ? sizes[l + 1] : sizes[l];
        if (sizes[l] == 0 || next % sizes[l] != 0 || next > pairs->gpus) {
            return redco_fail(err, REDCO_EVALUE, "order", "groups of %u GPUs do not divide groups of %u of %u GPUs",
                              sizes[l], next, pairs->gpus);
        }
    }
    const size_t masks = (size_t)1 << pairs->gpus;
    struct work w = {.pairs = pairs, .sizes = sizes, .levels = levels};
    redco_status st = REDCO_OK;
    w.slowest = calloc(masks, sizeof *w.slowest);
    w.sum = calloc(masks, sizeof *w.sum);
    w.near = calloc(masks, sizeof *w.near);
    w.block = calloc(levels * masks, sizeof *w.block);
    w.cover = calloc(levels * masks, sizeof *w.cover);
    if (w.slowest == NULL || w.sum == NULL || w.near == NULL || w.block == NULL || w.cover == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    measure_sets(&w);
    const uint32_t count = list_rates(pairs, rates);
    (void)solve(&w, 0);
    for (uint32_t level = 0; level < levels; level++) { raise_threshold(&w, level, rates, count); }
    uint32_t *at = order_out;
    write_order(&w, levels - 1, w.best_mask, &at);
out:
    free(w.slowest);
    free(w.sum);
    free(w.near);
    free(w.block);
    free(w.cover);
    return st;
}

struct meeting {
    uint32_t least;
    int64_t value[4]; /* rates and distances below 0 to the groups around, then to all before */
};

/* Compares the members of one group, as they are, with those of the groups before it from place @p from on, and of all.
 */
static struct meeting meeting_of(const redco_pairs *pairs, const uint32_t *order, uint32_t size, uint32_t from,
                                 uint32_t begin)
{
    struct meeting meeting = {.least = UINT32_MAX};
    for (uint32_t other = 0; other < begin; other += size) {
        for (uint32_t i = 0; i < size; i++) {
            const uint32_t rate = pairs->rate[order[other + i]][order[begin + i]];
            const int64_t distance = pairs->distance[order[other + i]][order[begin + i]];
            meeting.value[2] += rate;
            meeting.value[3] -= distance;
            if (other < from) { continue; }
            meeting.value[0] += rate;
            meeting.value[1] -= distance;
            meeting.least = rate < meeting.least ? rate : meeting.least;
        }
    }
    return meeting;
}

static bool meets_better(const struct meeting *a, const struct meeting *b)
{
    if (a->least != b->least) { return a->least > b->least; }
    for (int i = 0; i < 4; i++) {
        if (a->value[i] != b->value[i]) { return a->value[i] > b->value[i]; }
    }
    return false;
}

/* The next permutation in lexicographic order. @return false after the last one */
static bool permute_next(uint32_t *list, uint32_t count)
{
    uint32_t at = count - 1;
    uint32_t with = count - 1;
    while (at > 0 && list[at - 1] >= list[at]) { at--; }
    if (at == 0) { return false; }
    while (list[with] <= list[at - 1]) { with--; }
    const uint32_t kept = list[at - 1];
    list[at - 1] = list[with];
    list[with] = kept;
    for (uint32_t i = at, j = count - 1; i < j; i++, j--) {
        const uint32_t swapped = list[i];
        list[i] = list[j];
        list[j] = swapped;
    }
    return true;
}

void redco_order_align(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, uint32_t *order)
{
    enum { MOST = 8 };
    const uint32_t size = sizes[0];
    if (size < 2 || size > MOST) { return; }
    for (uint32_t begin = size; begin < sizes[levels - 1]; begin += size) {
        uint32_t best[MOST];
        uint32_t level = 1;
        while (begin % sizes[level] == 0) { level++; } /* the innermost that has earlier groups; the last has */
        const uint32_t from = begin / sizes[level] * sizes[level];
        struct meeting most = meeting_of(pairs, order, size, from, begin);
        memcpy(best, order + begin, size * sizeof *best);
        while (permute_next(order + begin, size)) {
            const struct meeting meeting = meeting_of(pairs, order, size, from, begin);
            if (!meets_better(&meeting, &most)) { continue; }
            most = meeting;
            memcpy(best, order + begin, size * sizeof *best);
        }
        memcpy(order + begin, best, size * sizeof *best);
    }
}

static double slowest_link(const redco_node *node, size_t count)
{
    double least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            const double rate = redco_node_link(node, i, j);
            if (rate > 0.0) { least = fmin(least, rate); }
        }
    }
    return least;
}

/* Equal links do not say which GPUs sit together, as the two dies of a module do: their places in the node do. Behind
   switches it does not matter. */
static redco_path distance_of(const redco_node *node, const redco_node_gpu *gpus, size_t a, size_t b)
{
    const redco_path path = redco_node_path(node, a, b);
    if (path != REDCO_PATH_LINK) { return path; }
    if (gpus[a].pci_switch != UINT32_MAX && gpus[a].pci_switch == gpus[b].pci_switch) { return REDCO_PATH_PIX; }
    return gpus[a].numa != UINT32_MAX && gpus[a].numa == gpus[b].numa ? REDCO_PATH_NODE : REDCO_PATH_SYS;
}

/* A group with one pair that no link joins goes through PCIe, whose rate is shared and an upper bound: such pairs come
   behind the slowest link. */
bool redco_pairs_of(const redco_node *node, redco_pairs *pairs_out)
{
    const redco_node_gpu *gpus = NULL;
    const size_t count = redco_node_gpus(node, &gpus);
    if (count == 0 || count > REDCO_ORDER_GPUS) { return false; }
    const double most = slowest_link(node, count) / 1e6 - 1.0;
    *pairs_out = (redco_pairs){.gpus = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            double rate = redco_node_path_rate(node, i, j) / 1e6;
            if (!(redco_node_link(node, i, j) > 0.0)) { rate = fmax(fmin(rate, most), 0.0); }
            pairs_out->rate[i][j] = rate < 4e9 ? (uint32_t)llround(rate) : 4000000000;
            pairs_out->distance[i][j] = (uint8_t)distance_of(node, gpus, i, j);
        }
    }
    return true;
}

bool redco_pairs_alike(const redco_pairs *pairs)
{
    for (uint32_t i = 0; i < pairs->gpus; i++) {
        for (uint32_t j = i + 1; j < pairs->gpus; j++) {
            if (pairs->rate[i][j] != pairs->rate[0][1] || pairs->distance[i][j] != pairs->distance[0][1]) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t smallest_prime_factor(uint32_t n)
{
    for (uint32_t p = 2; p * p <= n; p++) {
        if (n % p == 0) { return p; }
    }
    return n;
}

uint32_t redco_order_sizes(uint32_t tp, uint32_t linked, uint32_t gpus, uint32_t sizes_out[REDCO_ORDER_LEVELS])
{
    uint32_t count = 0;
    uint32_t size = tp > 0 ? tp : 1;
    if (size > 1 || gpus == 1) { sizes_out[count++] = size; }
    while (size < gpus && count < REDCO_ORDER_LEVELS) {
        const bool inside = linked > 1 && linked > size && linked % size == 0 && gpus % linked == 0;
        size *= smallest_prime_factor(inside ? linked / size : gpus / size);
        sizes_out[count++] = size;
    }
    return count;
}

redco_status redco_machine_set_orders(redco_machine *machine, const redco_node *node, redco_error *err)
{
    redco_pairs pairs;
    machine->order_count = 0;
    if (redco_node_hosts(node) > 1 || !redco_pairs_of(node, &pairs) || redco_pairs_alike(&pairs)) { return REDCO_OK; }
    const uint32_t gpus = machine->gpus_per_node;
    for (uint32_t i = 0; i < pairs.gpus; i++) {
        for (uint32_t j = 0; j < pairs.gpus; j++) { machine->links_bytes_per_s[i][j] = redco_node_link(node, i, j); }
    }
    for (uint32_t tp = 1; tp <= gpus && machine->order_count < REDCO_ORDERS; tp++) {
        uint32_t sizes[REDCO_ORDER_LEVELS];
        redco_gpu_order *order = &machine->orders[machine->order_count];
        if (gpus % tp != 0) { continue; }
        const uint32_t levels = redco_order_sizes(tp, redco_node_link_group(node), gpus, sizes);
        const redco_status st = redco_order_find(&pairs, sizes, levels, order->gpus, err);
        if (st != REDCO_OK) { return st; }
        if (tp > 1) { redco_order_align(&pairs, sizes, levels, order->gpus); }
        order->tp = tp;
        machine->order_count++;
    }
    return REDCO_OK;
}

const redco_gpu_order *redco_machine_order(const redco_machine *machine, uint32_t tp)
{
    for (uint32_t i = 0; i < machine->order_count; i++) {
        if (machine->orders[i].tp == (tp > 0 ? tp : 1)) { return &machine->orders[i]; }
    }
    return NULL;
}

/* The least cut of the GPUs given: over all parts that hold the first one. */
static double least_cut(const redco_machine *machine, const uint32_t *gpus, uint32_t count)
{
    double least = INFINITY;
    for (uint32_t part = 1; part < (1u << count) - 1; part += 2) {
        double cut = 0.0;
        for (uint32_t i = 0; i < count && cut < least; i++) {
            if ((part >> i & 1) == 0) { continue; }
            for (uint32_t j = 0; j < count; j++) {
                if ((part >> j & 1) == 0) { cut += machine->links_bytes_per_s[gpus[i]][gpus[j]]; }
            }
        }
        least = cut < least ? cut : least;
    }
    return least;
}

double redco_machine_group_rate(const redco_machine *machine, uint32_t tp, uint32_t gpus, uint32_t stride)
{
    const redco_gpu_order *order = redco_machine_order(machine, tp);
    const uint64_t span = (uint64_t)gpus * stride;
    if (order == NULL || gpus < 2 || span == 0 || span > machine->gpus_per_node) { return -1.0; }
    double least = INFINITY;
    for (uint32_t block = 0; block + span <= machine->gpus_per_node; block += (uint32_t)span) {
        for (uint32_t base = block; base < block + stride; base++) {
            uint32_t members[REDCO_ORDER_GPUS];
            for (uint32_t i = 0; i < gpus; i++) { members[i] = order->gpus[base + i * stride]; }
            least = fmin(least, least_cut(machine, members, gpus));
        }
    }
    return least;
}
