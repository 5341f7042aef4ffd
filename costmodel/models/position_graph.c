/* Positions in the graph of all families.
 *
 * ALiBi: Press et al., arXiv 2108.12409; slopes for a number of heads that is no power of 2 as BLOOM and MPT have them.
 * Relative positions: T5 (Raffel et al., arXiv 1910.10683).
 * Rotary positions: Su et al., arXiv 2104.09864, and their scalings: linear (Chen et al., arXiv 2306.15595) and
 * LLaMA 3's (transformers 4.48, modeling_rope_utils.py: _compute_llama3_parameters), YaRN. */
#include "costmodel/models/family.h"

#include <math.h>

/* With n the largest power of 2 that is no more than the heads, head i < n has the slope 2^(-8 (i + 1) / n); the others
 * have every second one of those of 2 n heads, 2^(-8 (2 (i - n) + 1) / (2 n)). */
static void add_alibi(redcoi_pass *p)
{
    redco_graph *const g = p->g;
    const uint64_t heads = p->dims->heads;
    const redco_tensor_type by_head = redco_type(REDCO_I32, 4, (const uint64_t[]){1, heads, 1, 1});
    const uint64_t keys = p->caches != NULL && p->caches->decoding ? p->caches->keys : p->length;
    const redco_tensor_type by_key = redco_type(REDCO_I32, 4, (const uint64_t[]){1, 1, 1, keys});
    const redco_dtype dtype = redco_dtype_statistic(p->scope->compute);
    uint64_t n = 1;
    while (2 * n <= heads) { n *= 2; }
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value head = redco_cast(g, redco_iota(g, &by_head, 1), REDCO_F64); /* as the rotary tables */
    const redco_value base = redco_scale(g, redco_shift(g, head, 1.0), 8.0 / (double)n);
    const redco_value rest = redco_scale(g, redco_shift(g, head, 0.5 - (double)n), 8.0 / (double)n);
    const redco_value is_base = redco_less(g, head, redco_scalar(g, REDCO_F64, (double)n));
    const redco_value slope = redco_exp(g, redco_scale(g, redco_select(g, is_base, base, rest), -log(2.0)));
    const redco_value key = redco_cast(g, redco_iota(g, &by_key, 3), REDCO_F64);
    p->bias = redco_cast(g, redco_mul(g, slope, key), dtype);
}

/* The bucket of a distance (T5Attention._relative_position_bucket): half of the buckets hold one distance each, the
 * others ever more of them, the last one all from relative_distance on. Both sides have buckets of their own where
 * later keys are seen. @param offset  i32, key less query. @return i32, of the same dimensions */
static redco_value bucket_of(redcoi_pass *p, redco_value offset, bool both_sides)
{
    redco_graph *const g = p->g;
    const double buckets = (double)(p->set->relative_buckets / (both_sides ? 2 : 1));
    const double exact = floor(buckets / 2.0);
    const redco_value zero = redco_scalar(g, REDCO_F64, 0.0);
    const redco_value signed_distance = redco_neg(g, redco_cast(g, offset, REDCO_F64));
    const redco_value other_way = redco_neg(g, signed_distance);
    const redco_value distance = redco_max(g, signed_distance, both_sides ? other_way : zero);
    const redco_value far = redco_max(g, distance, redco_scalar(g, REDCO_F64, exact));
    const redco_value ratio = redco_div(g, redco_log(g, redco_scale(g, far, 1.0 / exact)),
                                        redco_scalar(g, REDCO_F64, log((double)p->set->relative_distance / exact)));
    const redco_value steps = redco_cast(g, redco_scale(g, ratio, buckets - exact), REDCO_I32);
    const redco_value wide = redco_min(g, redco_shift(g, steps, exact), redco_scalar(g, REDCO_I32, buckets - 1.0));
    const redco_value is_exact = redco_less(g, distance, redco_scalar(g, REDCO_F64, exact));
    const redco_value bucket = redco_select(g, is_exact, redco_cast(g, distance, REDCO_I32), wide);
    if (!both_sides) { return bucket; }
    const redco_value later = redco_less(g, zero, other_way);
    return redco_select(g, later, redco_shift(g, bucket, buckets), bucket);
}

/* The bias of one query for each sequence, at its position, to all kept keys: [batch, heads, 1, keys]. */
static redco_value relative_bias_decoding(redcoi_pass *p, redco_param_use use)
{
    redco_graph *const g = p->g;
    const redco_tensor_type by_key = redco_type(REDCO_I32, 2, (const uint64_t[]){1, p->caches->keys});
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value bucket = bucket_of(p, redco_sub(g, redco_iota(g, &by_key, 1), p->positions), false);
    const redco_value rows = redco_cast(g, redcoi_lm_rows(p, use, bucket), redco_dtype_statistic(p->scope->compute));
    const redco_value by_head = redco_transpose(g, rows, (const uint32_t[]){0, 2, 1});
    return redco_reshape(g, by_head, 4, (const uint64_t[]){p->batch, p->dims->heads, 1, p->caches->keys});
}

/* Row i of the table that all offsets have is that of key less query = i - (length - 1): [1, heads, queries, keys]. */
static redco_value relative_bias(redcoi_pass *p, redco_param_use use, bool both_sides)
{
    redco_graph *const g = p->g;
    const uint64_t n = p->length, heads = p->dims->heads;
    const redco_tensor_type line = redco_type(REDCO_I32, 1, &(uint64_t){2 * n - 1});
    const redco_tensor_type square = redco_type(REDCO_I32, 2, (const uint64_t[]){n, n});
    const double last = (double)n - 1.0;
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value bucket = bucket_of(p, redco_shift(g, redco_iota(g, &line, 0), -last), both_sides);
    const redco_value rows = redco_cast(g, redcoi_lm_rows(p, use, bucket), redco_dtype_statistic(p->scope->compute));
    const redco_value offset = redco_sub(g, redco_iota(g, &square, 1), redco_iota(g, &square, 0));
    const redco_value by_pair = redco_gather(g, rows, redco_shift(g, offset, last), NULL);
    const redco_value by_head = redco_transpose(g, by_pair, (const uint32_t[]){2, 0, 1});
    return redco_reshape(g, by_head, 4, (const uint64_t[]){1, heads, n, n});
}

void redcoi_lm_score_bias(redcoi_pass *p, bool source)
{
    const redco_param_use use = source ? REDCO_USE_ENCODER_RELATIVE_BIAS : REDCO_USE_RELATIVE_BIAS;
    const bool decoding = p->caches != NULL && p->caches->decoding;
    if (p->dims->positions == REDCO_POSITIONS_ALIBI) { add_alibi(p); }
    if (p->dims->positions != REDCO_POSITIONS_RELATIVE) { return; }
    p->bias = decoding ? relative_bias_decoding(p, use) : relative_bias(p, use, source);
}

static const double two_pi = 6.28318530717958647693;

/* LLaMA 3: long waves are stretched, short ones stay, those between are blended by how often they fit into the old
 * length. */
static redco_value llama3(redco_graph *g, const redcoi_rope *rope, redco_value frequency)
{
    const redco_dtype dtype = redco_value_type(g, frequency)->dtype;
    const redco_value fits = redco_scale(g, frequency, rope->old_positions / two_pi);
    const redco_value slow = redco_scale(g, frequency, 1.0 / rope->factor);
    const redco_value share = redco_scale(g, redco_shift(g, fits, -rope->low), 1.0 / (rope->high - rope->low));
    const redco_value rest = redco_shift(g, redco_neg(g, share), 1.0);
    const redco_value blend = redco_add(g, redco_mul(g, rest, slow), redco_mul(g, share, frequency));
    const redco_value is_long = redco_less(g, fits, redco_scalar(g, dtype, rope->low));
    const redco_value is_short = redco_less(g, redco_scalar(g, dtype, rope->high), fits);
    return redco_select(g, is_long, slow, redco_select(g, is_short, frequency, blend));
}

/* YaRN (Peng et al., arXiv 2309.00071): waves that fit into the old length often stay, those that do so seldom are
 * stretched, those between are blended by their number (transformers 4.57, _compute_yarn_parameters). */
static redco_value yarn(redco_graph *g, const redcoi_rope *rope, redco_value index, redco_value frequency)
{
    const redco_dtype dtype = redco_value_type(g, frequency)->dtype;
    const redco_value line = redco_scale(g, redco_shift(g, index, -rope->low), 1.0 / (rope->high - rope->low));
    const redco_value share =
        redco_min(g, redco_max(g, line, redco_scalar(g, dtype, 0.0)), redco_scalar(g, dtype, 1.0));
    const redco_value factor = redco_shift(g, redco_scale(g, share, 1.0 / rope->factor - 1.0), 1.0);
    return redco_mul(g, frequency, factor);
}

static void add_tables(redcoi_pass *p, const redcoi_rope *rope, redco_value *cosines_out, redco_value *sines_out)
{
    redco_graph *const g = p->g;
    const redco_dtype dtype = redco_dtype_statistic(p->scope->compute);
    const redco_tensor_type pairs = redco_type(REDCO_I32, 1, &(uint64_t){rope->size / 2});
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value positions = redcoi_lm_positions(p, 0);
    const redco_value at = p->positions != REDCO_NO_VALUE
                               ? redco_reshape(g, positions, 3, (const uint64_t[]){p->batch, p->length, 1})
                               : redco_reshape(g, positions, 2, (const uint64_t[]){p->length, 1});
    /* In F64 whatever the tables are: positions times frequencies need the digits. */
    const redco_value index = redco_cast(g, redco_iota(g, &pairs, 0), REDCO_F64);
    redco_value frequency = redco_exp(g, redco_scale(g, index, -2.0 * log(rope->theta) / (double)rope->size));
    if (rope->kind == REDCOI_ROPE_LINEAR) { frequency = redco_scale(g, frequency, 1.0 / rope->factor); }
    if (rope->kind == REDCOI_ROPE_LLAMA3) { frequency = llama3(g, rope, frequency); }
    if (rope->kind == REDCOI_ROPE_YARN) { frequency = yarn(g, rope, index, frequency); }
    const redco_value angle = redco_mul(g, redco_cast(g, at, REDCO_F64), frequency);
    redco_value tables[2] = {redco_cos(g, angle), redco_sin(g, angle)};
    for (uint32_t i = 0; i < 2; i++) {
        if (rope->kind == REDCOI_ROPE_YARN) { tables[i] = redco_scale(g, tables[i], rope->amplitude); }
        tables[i] = redco_cast(g, tables[i], dtype);
    }
    *cosines_out = tables[0];
    *sines_out = tables[1];
}

void redcoi_lm_rotary_tables(redcoi_pass *p)
{
    if (p->set->rope.size > 0) { add_tables(p, &p->set->rope, &p->cosines, &p->sines); }
    if (p->set->window_rope.size > 0) { add_tables(p, &p->set->window_rope, &p->window_cosines, &p->window_sines); }
}
