/* Choices that no single search makes: the grain of recomputation, and who places tensors of tensor parallelism. */
#include "planner/answer/priced.h"
#include "planner/answer/pricing.h"

#include <math.h>

/* @return whether the search may choose between both */
static bool has_both(const redco_search_options *options)
{
    const redco_recompute_list *const offered = &options->allows.recompute;
    return redco_recompute_has(offered, REDCO_RECOMPUTE_FULL) && redco_recompute_has(offered, REDCO_RECOMPUTE_HALF) &&
           options->recompute == REDCO_RECOMPUTE_FREE && !options->modules &&
           !options->workload.engine.partial_recompute;
}

static bool recomputes_whole_layers(const redco_candidate *candidate)
{
    for (uint32_t i = 0; i < candidate->assignment_count; i++) {
        if (candidate->assignments[i].config.recompute == REDCO_RECOMPUTE_FULL) { return true; }
    }
    return false;
}

static redco_status search_grains(const redco_inputs *inputs, redco_search_options *options,
                                  redco_search_result **result_out, redco_error *err)
{
    redco_search_options halves = *options;
    redco_search_result *whole = NULL, *half = NULL;
    redco_error why = {0};
    redco_status st = redco_search_priced(inputs, options, &whole, err);
    if (st != REDCO_OK) { return st; }
    *result_out = whole;
    const bool fits = whole->ranked_count > 0;
    if (!has_both(options)) { return REDCO_OK; }
    halves.workload.engine.partial_recompute = true;
    if (fits &&
        !recomputes_whole_layers(&whole->ranked[0])) { /* seldom any faster: a look, and where one is, a search */
        if (options->objective == REDCO_OBJECTIVE_COMM) { return REDCO_OK; }
        redco_search_options look = halves;
        look.pass.limit_s = whole->ranked[0].prediction.step_s * (1.0 - redcoi_tie_ratio);
        if (halves.pass.limit_s > 0.0) { look.pass.limit_s = fmin(look.pass.limit_s, halves.pass.limit_s); }
        look.verify = false;
        st = redco_search_priced(inputs, &look, &half, &why);
        const bool faster = st == REDCO_OK && half->ranked_count > 0;
        if (st == REDCO_OK) { redco_search_result_free(half); }
        if (st == REDCO_OK && !faster) { return REDCO_OK; }
    }
    if (st == REDCO_OK) { st = redco_search_priced(inputs, &halves, &half, &why); }
    if (st == REDCO_EVALUE) { return REDCO_OK; }
    if (st != REDCO_OK) {
        redco_search_result_free(whole);
        return redco_fail(err, st, why.place, "%s", why.text);
    }
    const bool better =
        half->ranked_count > 0 &&
        (!fits || half->ranked[0].prediction.step_s < whole->ranked[0].prediction.step_s * (1.0 - redcoi_tie_ratio));
    redco_search_result_free(better ? whole : half);
    if (!better) { return REDCO_OK; }
    *result_out = half;
    *options = halves;
    return REDCO_OK;
}

/* The objective is the figure that people are shown. */
static double value_of(const redco_search_options *options, const redco_search_result *result)
{
    const redco_candidate *const best = &result->ranked[0];
    return options->objective == REDCO_OBJECTIVE_COMM ? best->objective : best->prediction.step_s;
}

redco_status redco_search_answer(const redco_inputs *inputs, redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err)
{
    redco_search_options ruled = *options;
    redco_search_result *found = NULL;
    redco_error why = {0};
    if (redco_known_answer_take(inputs, options, result_out)) { return REDCO_OK; }
    redco_status st = search_grains(inputs, options, result_out, err);
    if (st != REDCO_OK || options->tp_placement != REDCO_TP_MILP) { return st; }
    ruled.tp_placement = REDCO_TP_RULES;
    st = search_grains(inputs, &ruled, &found, &why);
    if (st == REDCO_EVALUE) { return REDCO_OK; }
    if (st != REDCO_OK) {
        redco_search_result_free(*result_out);
        return redco_fail(err, st, why.place, "%s", why.text);
    }
    /* The gaps that both searches may leave are no difference. */
    const double least_ratio = 1.0 - fmax(redcoi_rounding_ratio, options->pass.gap_ratio);
    const bool fits = (*result_out)->ranked_count > 0;
    const bool better =
        found->ranked_count > 0 && (!fits || value_of(options, found) < value_of(options, *result_out) * least_ratio);
    redco_search_result_free(better ? *result_out : found);
    if (better) {
        *result_out = found;
        *options = ruled;
    }
    return REDCO_OK;
}
