#include "planner/search/strategy.h"

#include <stdlib.h>
#include <string.h>

const char *redco_strategy_name(redco_strategy strategy)
{
    return redco_strategies[strategy].word;
}

bool redco_strategy_parse(const char *name, redco_strategy *strategy_out)
{
    for (int i = 0; i < REDCO_STRATEGY_COUNT; i++) {
        if (strcmp(name, redco_strategies[i].word) == 0) {
            *strategy_out = (redco_strategy)i;
            return true;
        }
    }
    return false;
}

static int compare_meshes(const void *left, const void *right)
{
    const redco_mesh a = *(const redco_mesh *)left;
    const redco_mesh b = *(const redco_mesh *)right;
    const uint64_t ra = redco_mesh_ranks(a);
    const uint64_t rb = redco_mesh_ranks(b);
    if (ra != rb) { return ra < rb ? -1 : 1; }
    return a.nodes == b.nodes ? 0 : (a.nodes < b.nodes ? -1 : 1);
}

static size_t count_divisors(uint32_t n)
{
    size_t count = 0;
    for (uint32_t d = 1; (uint64_t)d * d <= n; d++) {
        if (n % d == 0) { count += (uint64_t)d * d == n ? 1 : 2; }
    }
    return count;
}

/* Calls to add() come in pairs d, n / d; the list is sorted afterwards. */
static void add_divisors(uint32_t n, redco_mesh fixed, bool of_nodes, redco_mesh *list, size_t *count)
{
    for (uint32_t d = 1; (uint64_t)d * d <= n; d++) {
        if (n % d != 0) { continue; }
        const uint32_t pair[2] = {d, n / d};
        for (int i = 0; i < (pair[0] == pair[1] ? 1 : 2); i++) {
            if (of_nodes && pair[i] == 1) { continue; }
            list[(*count)++] = of_nodes ? (redco_mesh){fixed.gpus, pair[i]} : (redco_mesh){pair[i], 1};
        }
    }
}

redco_status redco_mesh_options(redco_mesh dp, redco_mesh **options_out, size_t *count_out, redco_error *err)
{
    if (dp.gpus == 0 || dp.nodes == 0) {
        return redco_fail(err, REDCO_EVALUE, "", "a data-parallel mesh of %ux%u has no ranks", dp.gpus, dp.nodes);
    }
    const size_t most = count_divisors(dp.gpus) + count_divisors(dp.nodes);
    redco_mesh *list = malloc(most * sizeof *list);
    if (list == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    size_t count = 0;
    add_divisors(dp.gpus, dp, false, list, &count);
    add_divisors(dp.nodes, dp, true, list, &count);
    qsort(list, count, sizeof *list, compare_meshes);
    *options_out = list;
    *count_out = count;
    return REDCO_OK;
}

redco_mesh redco_strategy_secondary(redco_strategy strategy, redco_mesh dp)
{
    /* On one node the first gather stays inside it already: nothing to copy. */
    if (strategy == REDCO_STRATEGY_ZEROPP && dp.nodes > 1) { return (redco_mesh){dp.gpus, 1}; }
    return (redco_mesh){0, 0};
}

static bool all_equal(const redco_shards *s, redco_mesh mesh)
{
    return redco_mesh_equal(s->parameters, mesh) && redco_mesh_equal(s->gradients, mesh) &&
           redco_mesh_equal(s->optimizer, mesh);
}

/* The named baselines, AMSP section II and reference of each name: DDP replicates all; ZeRO-1/2/3 (arXiv 1910.02054)
   shard over the whole mesh; MiCS (arXiv 2205.00119) over a part of it; HSDP is PyTorch's hybrid sharding. */
bool redco_strategy_bears(redco_strategy strategy, redco_mesh dp, const redco_shards *s)
{
    static const redco_mesh one = {1, 1};
    const uint64_t ranks = redco_mesh_ranks(s->parameters);
    switch (strategy) {
    case REDCO_STRATEGY_DDP: return all_equal(s, one);
    case REDCO_STRATEGY_ZERO1:
        return redco_mesh_equal(s->parameters, one) && redco_mesh_equal(s->gradients, one) &&
               redco_mesh_equal(s->optimizer, dp);
    case REDCO_STRATEGY_ZERO2:
        return redco_mesh_equal(s->parameters, one) && redco_mesh_equal(s->gradients, dp) &&
               redco_mesh_equal(s->optimizer, dp);
    case REDCO_STRATEGY_ZERO3:
    case REDCO_STRATEGY_ZEROPP: return all_equal(s, dp);
    case REDCO_STRATEGY_MICS: return all_equal(s, s->parameters) && ranks > 1 && ranks < redco_mesh_ranks(dp);
    case REDCO_STRATEGY_HSDP: return dp.gpus > 1 && all_equal(s, (redco_mesh){dp.gpus, 1});
    case REDCO_STRATEGY_ANY:
    case REDCO_STRATEGY_AMSP:
    case REDCO_STRATEGY_COUNT: break;
    }
    return true;
}

redco_strategy redco_strategy_of(redco_mesh dp, redco_mesh secondary, const redco_shards *shards)
{
    static const redco_strategy narrow_first[] = {REDCO_STRATEGY_DDP,   REDCO_STRATEGY_ZERO3, REDCO_STRATEGY_ZERO2,
                                                  REDCO_STRATEGY_ZERO1, REDCO_STRATEGY_HSDP,  REDCO_STRATEGY_MICS};
    for (size_t i = 0; i < sizeof narrow_first / sizeof narrow_first[0]; i++) {
        if (!redco_strategy_bears(narrow_first[i], dp, shards)) { continue; }
        const bool second_copy = secondary.gpus > 0 && narrow_first[i] == REDCO_STRATEGY_ZERO3;
        return second_copy ? REDCO_STRATEGY_ZEROPP : narrow_first[i];
    }
    return REDCO_STRATEGY_ANY;
}

bool redco_strategy_offered(uint32_t states, redco_strategy strategy)
{
    return (states & (REDCO_RUNS(REDCO_STRATEGY_ANY) | REDCO_RUNS(strategy))) != 0;
}

bool redco_strategy_runs(uint32_t states, redco_mesh dp, redco_mesh secondary, const redco_shards *shards)
{
    if ((states & REDCO_RUNS(REDCO_STRATEGY_ANY)) != 0) { return true; }
    if (secondary.gpus > 0) {
        return redco_strategy_offered(states, REDCO_STRATEGY_ZEROPP) &&
               redco_strategy_bears(REDCO_STRATEGY_ZERO3, dp, shards);
    }
    for (int s = REDCO_STRATEGY_DDP; s < REDCO_STRATEGY_COUNT; s++) {
        if (s == REDCO_STRATEGY_ZEROPP || s == REDCO_STRATEGY_AMSP) { continue; }
        if (redco_strategy_offered(states, (redco_strategy)s) && redco_strategy_bears((redco_strategy)s, dp, shards)) {
            return true;
        }
    }
    return false;
}

static bool is_fixed(redco_mesh mesh)
{
    return mesh.gpus != 0 || mesh.nodes != 0;
}

static redco_status check_fixed(redco_mesh dp, const redco_shards *fix, redco_error *err)
{
    static const char *const keys[3] = {"p", "g", "os"};
    const redco_mesh fixed[3] = {fix->parameters, fix->gradients, fix->optimizer};
    for (int i = 0; i < 3; i++) {
        if (!is_fixed(fixed[i])) { continue; }
        if (!redco_mesh_nests(fixed[i], dp)) {
            return redco_fail(err, REDCO_EVALUE, "shards",
                              "%s=%ux%u does not divide the data-parallel mesh of %ux%u (GPUs x nodes)", keys[i],
                              fixed[i].gpus, fixed[i].nodes, dp.gpus, dp.nodes);
        }
        for (int j = 0; j < i; j++) {
            if (!is_fixed(fixed[j]) || redco_mesh_nests(fixed[j], fixed[i])) { continue; }
            return redco_fail(err, REDCO_EVALUE, "shards",
                              "%s=%ux%u must divide %s=%ux%u: who holds parameters holds their gradients and optimizer "
                              "states (p <= g <= os)",
                              keys[j], fixed[j].gpus, fixed[j].nodes, keys[i], fixed[i].gpus, fixed[i].nodes);
        }
    }
    return REDCO_OK;
}

/** Options of one component: the fixed mesh alone, or O and whatever else is fixed. */
struct choice {
    const redco_mesh *list;
    size_t count;
};

struct choices {
    struct choice parameters, gradients, optimizer;
    bool free_gradients; /**< one of the parameters' and the optimizer's mesh */
};

/* @param filter  no gradients but those of the parameters' or the optimizer's mesh */
static bool is_chain(const redco_shards *s, bool filter)
{
    const bool as_paper = redco_mesh_equal(s->gradients, s->parameters) || redco_mesh_equal(s->gradients, s->optimizer);
    return (as_paper || !filter) && redco_mesh_nests(s->parameters, s->gradients) &&
           redco_mesh_nests(s->gradients, s->optimizer);
}

/* @param triples  room for all that may be, most_triples() */
static size_t generate(redco_mesh dp, redco_strategy strategy, const struct choices *choices, bool filter_gradients,
                       redco_shards *triples)
{
    size_t count = 0;
    for (size_t p = 0; p < choices->parameters.count; p++) {
        for (size_t o = 0; o < choices->optimizer.count; o++) {
            redco_shards s = {.parameters = choices->parameters.list[p], .optimizer = choices->optimizer.list[o]};
            if (!redco_mesh_nests(s.parameters, s.optimizer)) { continue; }
            const redco_mesh ends[2] = {s.parameters, s.optimizer};
            const struct choice either = {ends, redco_mesh_equal(ends[0], ends[1]) ? 1 : 2};
            const struct choice g = choices->free_gradients ? either : choices->gradients;
            for (size_t i = 0; i < g.count; i++) {
                s.gradients = g.list[i];
                if (!choices->free_gradients && !is_chain(&s, filter_gradients)) { continue; }
                if (redco_strategy_bears(strategy, dp, &s)) { triples[count++] = s; }
            }
        }
    }
    return count;
}

static size_t most_triples(const struct choices *choices)
{
    return choices->parameters.count * choices->optimizer.count *
           (choices->free_gradients ? 2 : choices->gradients.count);
}

static redco_status none_left(redco_mesh dp, redco_strategy strategy, redco_error *err)
{
    if (strategy == REDCO_STRATEGY_ANY || strategy == REDCO_STRATEGY_AMSP) {
        return redco_fail(err, REDCO_EVALUE, "shards",
                          "leaves no strategy on a data-parallel mesh of %ux%u: the free meshes must divide it, fill a "
                          "node before they span nodes, and p <= g <= os",
                          dp.gpus, dp.nodes);
    }
    return redco_fail(err, REDCO_EVALUE, "strategy",
                      "no %s strategy exists on a data-parallel mesh of %ux%u (GPUs x nodes)%s",
                      redco_strategy_name(strategy), dp.gpus, dp.nodes,
                      strategy == REDCO_STRATEGY_MICS || strategy == REDCO_STRATEGY_HSDP
                          ? ": it shards over more than one rank and fewer than all, or over one node's"
                          : " with the fixed meshes");
}

/* O and the fixed meshes outside it, which a free component may share. */
static redco_status options_with_fixed(redco_mesh dp, const redco_shards *fix, redco_mesh **options_out,
                                       size_t *count_out, redco_error *err)
{
    redco_mesh *options = NULL;
    size_t count = 0;
    const redco_status st = redco_mesh_options(dp, &options, &count, err);
    if (st != REDCO_OK) { return st; }
    redco_mesh *more = realloc(options, (count + 3) * sizeof *more);
    if (more == NULL) {
        free(options);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    const redco_mesh fixed[3] = {fix->parameters, fix->gradients, fix->optimizer};
    for (int i = 0; i < 3; i++) {
        bool known = !is_fixed(fixed[i]);
        for (size_t j = 0; j < count && !known; j++) { known = redco_mesh_equal(more[j], fixed[i]); }
        if (!known) { more[count++] = fixed[i]; }
    }
    qsort(more, count, sizeof *more, compare_meshes);
    *options_out = more;
    *count_out = count;
    return REDCO_OK;
}

static struct choice choose(const redco_mesh *fixed, const redco_mesh *options, size_t count)
{
    return is_fixed(*fixed) ? (struct choice){fixed, 1} : (struct choice){options, count};
}

redco_status redco_strategy_triples(redco_mesh dp, redco_strategy strategy, const redco_shards *fix,
                                    redco_shards **triples_out, size_t *count_out, redco_error *err)
{
    redco_mesh *options = NULL;
    redco_shards *triples = NULL;
    size_t option_count = 0;
    redco_status st = check_fixed(dp, fix, err);
    if (st != REDCO_OK) { goto out; }
    if ((st = options_with_fixed(dp, fix, &options, &option_count, err)) != REDCO_OK) { goto out; }
    const struct choices choices = {
        .parameters = choose(&fix->parameters, options, option_count),
        .gradients = choose(&fix->gradients, options, option_count),
        .optimizer = choose(&fix->optimizer, options, option_count),
        .free_gradients = !is_fixed(fix->gradients),
    };
    triples = malloc(most_triples(&choices) * sizeof *triples);
    if (triples == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    size_t count = generate(dp, strategy, &choices, true, triples);
    if (count == 0) { count = generate(dp, strategy, &choices, false, triples); }
    if (count == 0) {
        st = none_left(dp, strategy, err);
        goto out;
    }
    *triples_out = triples;
    *count_out = count;
    triples = NULL;
out:
    free(triples);
    free(options);
    return st;
}
