/* Context parallelism: what attention waits for to see keys and values of other ranks (STEP.md). */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>

/* All tokens of so many heads. */
static double bytes_of(const redco_costs *costs, const redco_shape *shape, double heads)
{
    const double tokens = (double)shape->micro_batch * shape->seq_len;
    return tokens * heads * costs->dims->head_dim * costs->compute.element_bytes;
}

/* cp - 1 hops, each beside the attention to the chunk before it: the window is (cp - 1) / cp of attention's seconds.
 * What it hides costs the calibration's share all the same: kernels that share the multiprocessors, corrections of
 * softmax between chunks. */
static double ring_s(const redco_costs *costs, const redco_shape *shape, double traffic_s, double attention_s)
{
    const redco_calibration *const c = &costs->calibration;
    const double window_s = attention_s * (shape->cp - 1.0) / shape->cp;
    const double hidden_s = fmax(0.0, 1.0 - c->cp_exposed_ratio) * c->overlap_window_ratio * window_s;
    return fmax(c->cp_exposed_ratio * traffic_s, traffic_s - hidden_s);
}

redcoi_tp_times redcoi_context_times(redco_costs *costs, const redco_shape *shape, double forward_s, double backward_s)
{
    if (shape->cp <= 1) { return (redcoi_tp_times){.forward_before_s = 0.0}; }
    const redco_group group = redcoi_cp_group(costs, shape->tp, shape->cp);
    const double kv_heads = redco_rank_kv_heads(costs->dims, shape->tp);
    const double keys = bytes_of(costs, shape, kv_heads);
    switch (shape->cp_type) {
    case REDCO_CP_ALL_TO_ALL: { /* a rank's tokens of all heads become all tokens of its heads, and back */
        const double queries = bytes_of(costs, shape, (double)redco_share_up(costs->dims->heads, 1, shape->tp));
        const double output_s = redcoi_comm_s(costs, REDCO_ALL_TO_ALL, queries / shape->cp, group, NULL);
        const double inputs_s = output_s + 2.0 * redcoi_comm_s(costs, REDCO_ALL_TO_ALL, keys / shape->cp, group, NULL);
        return (redcoi_tp_times){inputs_s, output_s, output_s, inputs_s};
    }
    case REDCO_CP_ALL_GATHER: {
        const double gather_s = 2.0 * redcoi_comm_s(costs, REDCO_ALL_GATHER, keys, group, NULL);
        const double scatter_s = 2.0 * redcoi_comm_s(costs, REDCO_REDUCE_SCATTER, keys, group, NULL);
        return (redcoi_tp_times){gather_s, 0.0, gather_s, scatter_s};
    }
    case REDCO_CP_P2P:
    case REDCO_CP_TYPES: break;
    }
    /* A ring's hops of all chunks are an all-gather's; backward passes gradients with them: twice as much. */
    const double traffic_s = redcoi_comm_s(costs, REDCO_ALL_GATHER, 2.0 * keys, group, NULL);
    return (redcoi_tp_times){.forward_before_s = ring_s(costs, shape, traffic_s, forward_s),
                             .backward_before_s = ring_s(costs, shape, 2.0 * traffic_s, backward_s)};
}

redcoi_core redcoi_attention_core(const redco_compute *compute, const redco_operator *ops, uint32_t count,
                                  double clock_ratio)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind != REDCO_OPERATOR_ATTENTION && ops[i].kind != REDCO_OPERATOR_SCORES) { continue; }
        return (redcoi_core){redco_operator_at_s(compute, &ops[i], REDCO_PASS_FORWARD, clock_ratio),
                             redco_operator_at_s(compute, &ops[i], REDCO_PASS_GRAD_INPUT, clock_ratio)};
    }
    return (redcoi_core){0.0, 0.0};
}
