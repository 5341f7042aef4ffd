#include "planner/answer/weigh.h"

#include "planner/answer/priced.h"

static bool is_beyond(const redco_inputs *inputs, const redco_search_options *options,
                      const redco_search_result *result, redco_weighed *weighed)
{
    const redco_parallelism *const best = &result->ranked[0].parallelism;
    const redco_reach reach = redco_reach_of(&inputs->machine, options->workload.seq_len, best);
    (void)redco_evidence_beyond(weighed->evidence, best, &reach, weighed->beyond, sizeof weighed->beyond);
    return weighed->beyond[0] != '\0';
}

static void drop_inside(redco_weighed *weighed)
{
    redco_search_result_free(weighed->inside);
    weighed->inside = NULL;
}

/* Leaves inside NULL where machine or model rule it out: the sequence does not divide, say. */
static redco_status search_inside(const redco_inputs *inputs, const redco_search_options *options,
                                  redco_weighed *weighed, redco_error *err)
{
    redco_error why = {0};
    redco_search_options inside = *options;
    inside.pass.within = &weighed->evidence->hull;
    inside.verify = false;
    inside.pass.brief = true;
    inside.top = 1;
    const redco_status st = redco_search_answer(inputs, &inside, &weighed->inside, &why);
    if (st == REDCO_OK) { return REDCO_OK; }
    weighed->inside = NULL;
    return st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
}

redco_status redco_weigh(const redco_inputs *inputs, const redco_search_options *options, redco_search_result *result,
                         redco_weighed *weighed_out, redco_error *err)
{
    redco_weighed *const w = weighed_out;
    *w = (redco_weighed){.evidence = NULL};
    if (options->objective == REDCO_OBJECTIVE_COMM) { return REDCO_OK; } /* no measurement stands for T_comm */
    redco_status st = redco_evidence_read(inputs->calibration.name, &w->evidence, err);
    if (st != REDCO_OK || w->evidence == NULL || !is_beyond(inputs, options, result, w)) { return st; }
    st = search_inside(inputs, options, w, err);
    if (st != REDCO_OK || w->inside == NULL || w->inside->ranked_count == 0) { return st; }
    const redco_candidate *const best = &w->inside->ranked[0];
    /* Where nothing that was measured divides the batch, the search takes what its question leaves out. */
    if (redco_search_leaves_out(&inputs->machine, options, &best->parallelism) != NULL) {
        drop_inside(w);
        return REDCO_OK;
    }
    if (!redco_answer_beaten(options, best, result)) { return REDCO_OK; }
    st = redco_answer_adopt(options, best, result, err);
    if (st == REDCO_OK && !is_beyond(inputs, options, result, w)) { drop_inside(w); }
    return st;
}

void redco_weighed_free(redco_weighed *weighed)
{
    redco_search_result_free(weighed->inside);
    redco_evidence_free(weighed->evidence);
}
