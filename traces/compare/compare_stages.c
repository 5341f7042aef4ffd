/* Each stage of a pipeline as measured: the mean of its ranks in the median step. */
#include "traces/compare/compare_internal.h"

static void add_rank(redcoi_compare *c, const redcoi_account *accounts, uint32_t rank, double *sent)
{
    const uint32_t ranks = c->measured.rank_count;
    redco_compare_stage *const stage = &c->out->stages[c->ranks[rank].stage];
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        const redcoi_account *const a = &accounts[(size_t)s * ranks + rank];
        const double weight = c->step_weights[s] / stage->rank_count;
        if (!(weight > 0.0)) { continue; }
        redcoi_add_time(&stage->measured, &a->time, weight);
        stage->warm_up.measured_s += weight * a->warm_up_s;
        stage->transfers.measured_s += weight * a->sent_s;
        *sent += weight * a->sent_count;
    }
}

void redcoi_compare_stages(redcoi_compare *c, const redcoi_account *accounts, uint32_t shown_step)
{
    const uint32_t ranks = c->measured.rank_count;
    for (uint32_t r = 0; r < ranks; r++) { c->out->stages[c->ranks[r].stage].rank_count++; }
    for (uint32_t i = 0; i < c->out->stage_count; i++) {
        redco_compare_stage *const stage = &c->out->stages[i];
        double sent = 0.0;
        for (uint32_t r = ranks; r-- > 0;) { /* the first rank last: it is shown */
            if (c->ranks[r].stage != i) { continue; }
            const redcoi_account *const shown = &accounts[(size_t)shown_step * ranks + r];
            add_rank(c, accounts, r, &sent);
            stage->shown_file = c->ranks[r].file;
            stage->shown_process = c->ranks[r].process;
            stage->shown_from_s = shown->from_s;
            stage->shown_to_s = shown->to_s;
        }
        stage->measured_count = (uint64_t)(sent + 0.5);
    }
}
