/* Graphs that generate: a prompt at once, then a token at a time with the keys and values that are kept. */
#include "costmodel/models/family.h"

#include <stdio.h>
#include <stdlib.h>

/* A score that softmax makes 0 of beside any other. */
static const double never_seen = -1e30;

/* Caches of a layer. */
enum cache { KEYS, VALUES, SOURCE_KEYS, SOURCE_VALUES };
static const char *const cache_names[REDCO_GENERATION_CACHES] = {"keys", "values", "source_keys", "source_values"};

static redco_generation_cache *add_cache(redcoi_pass *p, enum cache which, uint64_t keys, uint64_t heads, uint64_t size)
{
    redco_generation_cache *const c = &p->caches->list[p->caches->count++];
    (void)snprintf(c->name, sizeof c->name, "%s.%u", cache_names[which], p->layer);
    c->place = p->layer * REDCO_GENERATION_CACHES + (uint32_t)which;
    c->type = redco_type(p->scope->compute, 4, (const uint64_t[]){p->batch, keys, heads, size});
    c->input = redco_input(p->g, c->name, &c->type);
    c->output = REDCO_NO_VALUE;
    return c;
}

/* 0, 1, ... along one of four dimensions. */
static redco_value count_along(redcoi_pass *p, uint32_t axis, uint64_t n)
{
    uint64_t dim[4] = {1, 1, 1, 1};
    dim[axis] = n;
    const redco_tensor_type type = redco_type(REDCO_I32, 4, dim);
    return redco_iota(p->g, &type, axis);
}

static redco_value by_sequence(redcoi_pass *p, redco_value numbers)
{
    return redco_reshape(p->g, numbers, 4, (const uint64_t[]){p->batch, 1, 1, 1});
}

/* The prompt's from place 0 on; what was there stays behind it, so that it lies on the ranks as it did. */
static redco_value begin_cache(redcoi_pass *p, const redco_generation_cache *c, redco_value x)
{
    const redco_value is_new =
        redco_less(p->g, count_along(p, 1, c->type.dim[1]), redco_scalar(p->g, REDCO_I32, (double)p->length));
    const redco_value padded = redco_pad(p->g, x, (const uint64_t[]){0, 0, 0, 0}, c->type.dim);
    return redco_select(p->g, is_new, padded, c->input);
}

static redco_value extend_cache(redcoi_pass *p, redco_value *x, enum cache which)
{
    if (*x >= redco_graph_value_count(p->g)) { return REDCO_NO_VALUE; }
    const redco_tensor_type type = *redco_value_type(p->g, *x);
    redco_generation_cache *const c = add_cache(p, which, p->caches->keys, type.dim[2], type.dim[3]);
    if (!p->caches->decoding) { return c->output = begin_cache(p, c, *x); }
    const redco_value is_new = redco_equal(p->g, count_along(p, 1, p->caches->keys), by_sequence(p, p->positions));
    return c->output = *x = redco_select(p->g, is_new, *x, c->input);
}

/* A mask, or a bias that has it. */
static redco_value hide(redcoi_pass *p, redco_value seen, redco_value bias)
{
    const redco_dtype dtype = redco_dtype_statistic(p->scope->compute);
    return bias == REDCO_NO_VALUE ? seen : redco_select(p->g, seen, bias, redco_scalar(p->g, dtype, never_seen));
}

void redcoi_cache_extend(redcoi_pass *p, redco_attention_options *options, redco_value *k, redco_value *v,
                         redco_value *bias)
{
    redco_graph *const g = p->g;
    (void)extend_cache(p, k, KEYS);
    (void)extend_cache(p, v, VALUES);
    if (!p->caches->decoding) { return; }
    const redco_value key = count_along(p, 3, p->caches->keys), at = by_sequence(p, p->positions);
    redco_value seen = redco_less_equal(g, key, at);
    const bool windowed = p->layer >= p->set->first_window && p->set->window > 0 && p->set->window < p->caches->keys;
    if (windowed) { seen = redco_and(g, seen, redco_less(g, redco_shift(g, at, -(double)p->set->window), key)); }
    options->causal = false;
    options->window = 0;
    *bias = hide(p, seen, *bias);
}

void redcoi_cache_source(redcoi_pass *p, redco_value *k, redco_value *v)
{
    const uint64_t keys = p->caches->source_keys, heads = p->dims->heads, size = p->dims->head_dim;
    *k = add_cache(p, SOURCE_KEYS, keys, heads, size)->input;
    *v = add_cache(p, SOURCE_VALUES, keys, heads, size)->input;
}

redco_value redcoi_mask_source(redcoi_pass *p, redco_value bias, uint64_t keys)
{
    const redco_value seen = redco_less(p->g, count_along(p, 3, keys), by_sequence(p, p->source_lengths));
    return hide(p, seen, bias);
}

/* The request that a graph is built for. */
struct request {
    const redco_language_model *lm;
    redco_generation_shape shape;
    redcoi_caches caches;
    redco_value logits;
};

/* Keys and values of a source for every layer of the decoder. */
static redco_value keep_source(redcoi_pass *p, redco_value x)
{
    static const redco_param_use uses[2] = {REDCO_USE_CROSS_KEY, REDCO_USE_CROSS_VALUE};
    static const enum cache kinds[2] = {SOURCE_KEYS, SOURCE_VALUES};
    for (uint32_t i = 0; i < 2; i++) {
        const redco_value heads = redcoi_lm_heads(p, redcoi_lm_product(p, uses[i], x), p->dims->heads);
        redco_generation_cache *const c =
            add_cache(p, kinds[i], p->caches->source_keys, p->dims->heads, p->dims->head_dim);
        c->output = begin_cache(p, c, heads);
    }
    return x;
}

static void build(redco_scope *scope, void *context)
{
    struct request *const r = context;
    redco_graph *const g = scope->graph;
    const bool encoder = r->lm->dims->encoder_layers > 0, decoding = r->caches.decoding;
    const redco_value tokens = redco_scope_value(scope, "tokens");
    redcoi_pass p = redcoi_lm_pass_begin(scope, r->lm, r->shape.batch, decoding ? 1 : r->shape.prompt);
    p.caches = &r->caches;
    if (encoder) { p.source_lengths = redco_scope_value(scope, "lengths"); }
    if (decoding) { p.positions = redco_scope_value(scope, "positions"); }
    redco_graph_set_layer(g, "embedding.0");
    if (encoder && !decoding) {
        (void)redcoi_lm_stack(&p, REDCO_CLASS_CROSS, keep_source, redcoi_lm_encode(&p, tokens));
        return;
    }
    redco_value x = redcoi_lm_decode(&p, tokens);
    if (!decoding) {
        const uint64_t hidden = redco_graph_status(g, NULL) == REDCO_OK ? redco_value_type(g, x)->dim[2] : 1;
        const redco_value rows = redco_reshape(g, x, 2, (const uint64_t[]){p.batch * p.length, hidden});
        x = redco_reshape(g, redco_gather(g, rows, redco_scope_value(scope, "last"), NULL), 3,
                          (const uint64_t[]){p.batch, 1, hidden});
        p.length = 1;
    }
    r->logits = redcoi_lm_head(&p, x);
}

static redco_status check_shape(const redco_language_model *lm, const redco_generation_shape *shape, redco_error *err)
{
    const uint64_t most = shape->keys > shape->prompt ? shape->keys : shape->prompt;
    if (lm->dims->max_positions == 0 || most <= lm->dims->max_positions) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, redco_model_name(lm->model),
                      "sequences of %llu tokens, prompt and what is generated; its table has %u positions",
                      (unsigned long long)most, lm->dims->max_positions);
}

redco_status redco_language_model_generation(const redco_language_model *lm, const redco_generation_shape *shape,
                                             bool decoding, redco_dtype storage, redco_dtype compute,
                                             redco_generation_graph *out, redco_error *err)
{
    const bool encoder = lm->dims->encoder_layers > 0;
    const uint64_t length = decoding ? 1 : shape->prompt;
    const redco_tensor_type by_token = redco_type(REDCO_I32, 2, (const uint64_t[]){shape->batch, length});
    const redco_tensor_type by_sequence_type = redco_type(REDCO_I32, 1, &shape->batch);
    const redco_task_input inputs[] = {
        {"tokens", by_token}, {"last", by_sequence_type}, {"positions", by_token}, {"lengths", by_sequence_type}};
    const redco_task_options options = {storage, compute, false, false, 1};
    struct request r = {.lm = lm, .shape = *shape, .logits = REDCO_NO_VALUE};
    redco_task_graph built = {.graph = NULL};
    redco_status st = check_shape(lm, shape, err);
    if (st != REDCO_OK) { return st; }
    r.caches =
        (redcoi_caches){.decoding = decoding,
                        .keys = shape->keys,
                        .source_keys = shape->source_keys,
                        .list = calloc((size_t)lm->dims->layers * REDCO_GENERATION_CACHES, sizeof *r.caches.list)};
    if (r.caches.list == NULL) {
        return redco_fail(err, REDCO_ENOMEM, redco_model_name(lm->model), "no memory for its caches");
    }
    st = redco_task_build_values(&lm->task, &options, inputs, encoder ? 4 : 3, build, &r, &built, err);
    if (st != REDCO_OK) {
        free(r.caches.list);
        return st;
    }
    *out = (redco_generation_graph){built.graph, r.logits, r.caches.list, r.caches.count};
    built.graph = NULL;
    redco_task_graph_free(&built);
    return REDCO_OK;
}

void redco_generation_graph_free(redco_generation_graph *graph)
{
    redco_graph_free(graph->graph);
    free(graph->caches);
    *graph = (redco_generation_graph){.graph = NULL};
}

int32_t redco_language_model_start_token(const redco_language_model *lm)
{
    return lm->set.start_token;
}
