/* Rotary positions (Su et al., arXiv 2104.09864) and their scalings: linear (Chen et al., arXiv 2306.15595) and
 * LLaMA 3's (transformers 4.48, modeling_rope_utils.py: _compute_llama3_parameters). */
#include "costmodel/models/decoder.h"

#include <math.h>

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

void redcoi_lm_rotary_tables(redcoi_pass *p)
{
    redco_graph *const g = p->g;
    const redcoi_rope *const rope = &p->set->rope;
    const redco_tensor_type pairs = redco_type(REDCO_I32, 1, &(uint64_t){rope->size / 2});
    if (rope->size == 0) { return; }
    redco_graph_set_operator(g, "embedding");
    const redco_value at = redco_reshape(g, redcoi_lm_positions(p, 0), 2, (const uint64_t[]){p->length, 1});
    /* In F64 whatever the tables are: positions times frequencies need the digits. */
    const redco_value index = redco_cast(g, redco_iota(g, &pairs, 0), REDCO_F64);
    redco_value frequency = redco_exp(g, redco_scale(g, index, -2.0 * log(rope->theta) / (double)rope->size));
    if (rope->kind == REDCOI_ROPE_LINEAR) { frequency = redco_scale(g, frequency, 1.0 / rope->factor); }
    if (rope->kind == REDCOI_ROPE_LLAMA3) { frequency = llama3(g, rope, frequency); }
    const redco_value angle = redco_mul(g, redco_cast(g, at, REDCO_F64), frequency);
    p->cosines = redco_cast(g, redco_cos(g, angle), redco_dtype_statistic(p->scope->compute));
    p->sines = redco_cast(g, redco_sin(g, angle), redco_dtype_statistic(p->scope->compute));
}
