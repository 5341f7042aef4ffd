/* Which plans are tried. */
#include "tests/parity/parity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const parity_models[PARITY_MODELS] = {"llama", "gpt2", "opt"};

const char *parity_row_name(uint32_t row)
{
    switch (row) {
    case ROW_OTHER: return "other triples";
    case ROW_OPTIMUM: return "optimum";
    case ROW_MIXED: return "layers mixed";
    default: return redco_strategy_name((redco_strategy)row);
    }
}

uint32_t parity_ranks(const struct parity_case *c)
{
    return c->tp * c->pp * (uint32_t)redco_mesh_ranks(c->dp);
}

void parity_name(const struct parity_case *c, char name[PARITY_NAME])
{
    char strategy[64], recompute[REDCO_RECOMPUTE_TEXT], stages[16] = "";
    if (c->pp > 1) { (void)snprintf(stages, sizeof stages, "/pp%u", c->pp); }
    const redco_shards *const s = &c->shards;
    if (c->row == ROW_MIXED) {
        (void)snprintf(strategy, sizeof strategy, "mixed%u%s", c->pattern, c->secondary.gpus > 0 ? "+second" : "");
    } else if (c->row == ROW_AMSP || c->row == ROW_OPTIMUM || c->row == REDCO_STRATEGY_ZEROPP) {
        (void)snprintf(strategy, sizeof strategy, "%s", parity_row_name(c->row));
    } else {
        (void)snprintf(strategy, sizeof strategy, "p=%ux%u,g=%ux%u,os=%ux%u", s->parameters.gpus, s->parameters.nodes,
                       s->gradients.gpus, s->gradients.nodes, s->optimizer.gpus, s->optimizer.nodes);
    }
    (void)snprintf(name, PARITY_NAME, "%s/%s/tp%u%s/dp%ux%u/%s/%s/acc%u/%s/%s/%s%s%s/", parity_models[c->model],
                   redco_dtype_name(c->dtype), c->tp, stages, c->dp.gpus, c->dp.nodes, strategy,
                   redco_scheme_words[c->scheme], c->accumulation,
                   redco_recompute_text(c->recompute, false, recompute, sizeof recompute), c->placed ? "milp" : "rules",
                   c->small_buckets ? "small" : "large", c->sequence_parallel ? "/sp" : "",
                   c->overlap == REDCO_OVERLAP_NONE ? "/serial" : "");
}

static bool add(const struct parity_options *o, struct parity_cases *cases, const struct parity_case *c)
{
    char name[PARITY_NAME];
    parity_name(c, name);
    if (o->only != NULL && strstr(name, o->only) == NULL) { return true; }
    if (cases->count == cases->capacity) {
        const size_t capacity = 2 * cases->capacity + 64;
        struct parity_case *const more = realloc(cases->list, capacity * sizeof *more);
        if (more == NULL) { return false; }
        cases->list = more;
        cases->capacity = capacity;
    }
    cases->list[cases->count++] = *c;
    return true;
}

/* One of so many combinations is tried. Other types than f64 differ from it in arithmetic alone. */
static uint32_t share_of(const struct parity_options *o, const struct parity_case *c)
{
    if (c->dtype != REDCO_F64 && !o->every) { return c->dtype == REDCO_F32 ? 4 : 8; }
    return o->every || parity_ranks(c) < PARITY_RANKS ? 1 : 2;
}

/* Schemes, accumulation and sequence parallelism in every combination, on 8 ranks in half of them, as on a chessboard;
 * the rest takes turns, so that every strategy meets every recomputation policy. @param turn  of this strategy */
static bool add_variants(const struct parity_options *o, struct parity_cases *cases, struct parity_case c,
                         uint32_t turn)
{
    /* Either half, {0, 3} and {1, 2} without sequence parallelism, {0, 3, 5, 6} and {1, 2, 4, 7} with it, has several.
     */
    static const redco_recompute executed[] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_FULL};
    static const uint32_t policies[8] = {0, 1, 2, 1, 0, 2, 0, 1};
    const bool own_scheme = c.row == ROW_AMSP || c.row == ROW_OPTIMUM;
    const uint32_t schemes = redco_mesh_ranks(c.dp) > 1 && !own_scheme ? 2 : 1, parallel = c.tp > 1 ? 2 : 1;
    const uint32_t share = share_of(o, &c);
    bool kept = true;
    for (uint32_t v = 0; v < 2 * schemes * parallel && kept; v++) {
        const uint32_t n = v + turn, scheme = v / 2 % schemes, sequence = v / 2 / schemes;
        if ((share == 2 ? v + scheme + sequence + turn : n) % share != 0) { continue; }
        c.accumulation = v % 2 == 0 ? 1 : 4;
        c.scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
        c.sequence_parallel = sequence > 0;
        c.recompute = executed[(policies[v] + turn) % (sizeof executed / sizeof executed[0])];
        /* GLPK keeps heads together, and LLaMA has two of keys: parts of unequal size, which are refused. */
        c.placed = c.tp > 1 && (n / 2 + n / 4 + n / 8) % 2 == 1 && !(c.model == 0 && c.tp == 4);
        c.small_buckets = n / 3 % 2 == 1;
        kept = add(o, cases, &c);
    }
    return kept;
}

/* All strategies of one mesh. */
static bool add_mesh(const struct parity_options *o, struct parity_cases *cases, struct parity_case c)
{
    const redco_shards free_choice = {{0, 0}, {0, 0}, {0, 0}};
    const redco_mesh none = {0, 0};
    redco_shards *triples = NULL;
    size_t count = 0;
    uint32_t turn = c.model + c.dp.gpus;
    bool kept = redco_strategy_triples(c.dp, REDCO_STRATEGY_ANY, &free_choice, &triples, &count, NULL) == REDCO_OK;
    for (size_t i = 0; i < count && kept; i++) {
        c.shards = triples[i];
        c.row = redco_strategy_of(c.dp, none, &triples[i]);
        kept = add_variants(o, cases, c, turn++);
    }
    free(triples);
    if (kept && redco_strategy_secondary(REDCO_STRATEGY_ZEROPP, c.dp).gpus > 0) {
        c.row = REDCO_STRATEGY_ZEROPP;
        kept = add_variants(o, cases, c, turn++);
    }
    if (redco_mesh_ranks(c.dp) == 1) { return kept; }
    for (c.row = ROW_AMSP; kept && c.row != ROW_COUNT; c.row++) {
        const uint32_t patterns = c.row == ROW_MIXED ? 3 : 1;
        for (c.pattern = 0; c.pattern < patterns && kept; c.pattern++) {
            /* A second copy over fewer ranks than parameters of some layers have. */
            c.secondary =
                c.row == ROW_MIXED && c.pattern == 2 ? (redco_mesh){c.dp.gpus > 1 ? c.dp.gpus / 2 : 1, 1} : none;
            kept = add_variants(o, cases, c, turn++);
        }
    }
    return kept;
}

/* One case for every strategy, number of ranks and degree of tensor parallelism, whose model and variant take turns. */
static void sample(struct parity_cases *cases, uint32_t model, redco_dtype dtype)
{
    const uint32_t types = 4; /* one in so many is single precision */
    size_t kept = 0, first = 0;
    uint32_t cell = 0;
    while (first < cases->count) {
        const struct parity_case *const f = &cases->list[first];
        size_t end = first;
        while (end < cases->count && cases->list[end].row == f->row && cases->list[end].tp == f->tp) { end++; }
        const bool single = cell / PARITY_MODELS % types == 0;
        const bool chosen =
            dtype == REDCO_F64 ? cell % PARITY_MODELS == model : single && (cell + 1) % PARITY_MODELS == model;
        if (chosen) { cases->list[kept++] = cases->list[first + (7 * cell + 3) % (end - first)]; }
        cell++;
        first = end;
    }
    cases->count = kept;
}

static int by_row(const void *left, const void *right)
{
    const struct parity_case *const a = left, *const b = right;
    if (a->tp != b->tp) { return a->tp < b->tp ? -1 : 1; }
    if (a->row != b->row) { return a->row < b->row ? -1 : 1; }
    char x[PARITY_NAME], y[PARITY_NAME];
    parity_name(a, x);
    parity_name(b, y);
    return strcmp(x, y);
}

bool parity_list(const struct parity_options *o, uint32_t model, redco_dtype dtype, uint32_t ranks,
                 struct parity_cases *cases)
{
    const uint32_t of_stage = ranks / o->stages;
    bool kept = true;
    cases->count = 0;
    for (uint32_t tp = 1; tp <= 4 && tp <= of_stage; tp *= 2) {
        if (o->tp > 0 && (uint32_t)o->tp != tp) { continue; }
        for (uint32_t nodes = 1; nodes <= of_stage / tp && kept; nodes *= 2) {
            const struct parity_case c = {.model = model,
                                          .dtype = dtype,
                                          .tp = tp,
                                          .pp = o->stages,
                                          .dp = {of_stage / tp / nodes, nodes},
                                          .overlap = o->overlap};
            kept = add_mesh(o, cases, c);
        }
    }
    if (cases->count > 0) { qsort(cases->list, cases->count, sizeof *cases->list, by_row); }
    if (o->sample) { sample(cases, model, dtype); }
    return kept;
}
