/* Graphs that generate: a prompt at once, then a token at a time with the keys and values that are kept. */
#include "costmodel/models/family.h"

#include <stdlib.h>

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
    static const redcoi_cache kinds[2] = {REDCOI_CACHE_SOURCE_KEYS, REDCOI_CACHE_SOURCE_VALUES};
    for (uint32_t i = 0; i < 2; i++) {
        const redco_value heads =
            redcoi_lm_heads(p, redcoi_lm_product(p, uses[i], x), p->dims->heads, p->dims->head_dim);
        redco_generation_cache *const c =
            redcoi_cache_add(p, kinds[i], p->caches->source_keys, p->dims->heads, p->dims->head_dim);
        c->output = redcoi_cache_begin(p, c, heads);
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
