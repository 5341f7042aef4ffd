/* Keys and values that a graph keeps from one token to the next. */
#include "costmodel/models/family.h"

#include <stdio.h>

/* A score that softmax makes 0 of beside any other. */
static const double never_seen = -1e30;

static const char *const cache_names[REDCO_GENERATION_CACHES] = {"keys", "values", "source_keys", "source_values"};

redco_generation_cache *redcoi_cache_add(redcoi_pass *p, redcoi_cache which, uint64_t keys, uint64_t heads,
                                         uint64_t size)
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
redco_value redcoi_cache_begin(redcoi_pass *p, const redco_generation_cache *c, redco_value x)
{
    const redco_value is_new =
        redco_less(p->g, count_along(p, 1, c->type.dim[1]), redco_scalar(p->g, REDCO_I32, (double)p->length));
    const redco_value padded = redco_pad(p->g, x, (const uint64_t[]){0, 0, 0, 0}, c->type.dim);
    return redco_select(p->g, is_new, padded, c->input);
}

static redco_value extend_cache(redcoi_pass *p, redco_value *x, redcoi_cache which)
{
    if (*x >= redco_graph_value_count(p->g)) { return REDCO_NO_VALUE; }
    const redco_tensor_type type = *redco_value_type(p->g, *x);
    redco_generation_cache *const c = redcoi_cache_add(p, which, p->caches->keys, type.dim[2], type.dim[3]);
    if (!p->caches->decoding) { return c->output = redcoi_cache_begin(p, c, *x); }
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
    (void)extend_cache(p, k, REDCOI_CACHE_KEYS);
    (void)extend_cache(p, v, REDCOI_CACHE_VALUES);
    if (!p->caches->decoding) { return; }
    const redco_value key = count_along(p, 3, p->caches->keys), at = by_sequence(p, p->positions);
    redco_value seen = redco_less_equal(g, key, at);
    const uint64_t window = p->lm->model->classes[p->class_index].window;
    if (window > 0 && window < p->caches->keys) {
        seen = redco_and(g, seen, redco_less(g, redco_shift(g, at, -(double)window), key));
    }
    options->causal = false;
    options->window = 0;
    *bias = hide(p, seen, *bias);
}

void redcoi_cache_source(redcoi_pass *p, redco_value *k, redco_value *v)
{
    const uint64_t keys = p->caches->source_keys, heads = p->dims->heads, size = p->dims->head_dim;
    *k = redcoi_cache_add(p, REDCOI_CACHE_SOURCE_KEYS, keys, heads, size)->input;
    *v = redcoi_cache_add(p, REDCOI_CACHE_SOURCE_VALUES, keys, heads, size)->input;
}

redco_value redcoi_mask_source(redcoi_pass *p, redco_value bias, uint64_t keys)
{
    const redco_value seen = redco_less(p->g, count_along(p, 3, keys), by_sequence(p, p->source_lengths));
    return hide(p, seen, bias);
}
