#include "planner/run/run_json.h"

#include <math.h>

const char redco_ettr_definition[] = "productive time over wall-clock time from the first to the last step; productive "
                                     "are steps that the final model stands on; queueing is not counted";
const char *const redco_saving_words[] = {"blocking", "async", "memory", NULL};

/* JSON has no infinity: null is never, or not known. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *figure(const redco_run_figure *f)
{
    if (!f->known) { return json_null(); }
    return json_pack("{s:o,s:o,s:o,s:s}", "value", number(f->value), "low", number(f->low), "high", number(f->high),
                     "evidence", redco_run_evidence_word(f->evidence));
}

static json_t *split(const redco_time_split *s)
{
    return json_pack("{s:f,s:f,s:f,s:f}", "compute", s->compute, "checkpoint", s->checkpoint, "failures", s->failures,
                     "restart", s->restart);
}

static json_t *checkpoint(const redco_run_estimate *e)
{
    const redco_reliability *const r = &e->reliability;
    return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "mode", redco_saving_words[r->saving], "bytes",
                     e->checkpoint_bytes, "wait_s", r->block_s, "write_s", r->write_s, "reload_s", e->reload_s,
                     "interval_s", r->interval_s, "best_interval_s", number(e->best_s), "young_interval_s",
                     number(e->young_s), "daly_interval_s", number(e->daly_s));
}

static json_t *causes(const redco_run_estimate *e)
{
    json_t *const list = json_array();
    for (int i = 0; i < REDCO_RUN_CAUSES; i++) {
        const redco_run_cause *const c = &e->causes[i];
        (void)json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:s,s:s}", "cause", c->what, "low_days", c->low_days,
                                                    "high_days", c->high_days, "evidence",
                                                    redco_run_evidence_word(c->evidence), "source", c->source));
    }
    return list;
}

json_t *redco_run_to_json(const redco_run_estimate *e, uint64_t gpus)
{
    json_t *const json = json_pack(
        "{s:I,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:{s:I,s:I,s:o},s:o,s:o,s:o}", "gpus",
        (json_int_t)gpus, "tokens", e->tokens, "inflation", e->inflation, "steps", e->steps, "step_s",
        figure(&e->step_s), "days", figure(&e->days), "gpu_hours", figure(&e->gpu_hours), "ettr", figure(&e->ettr),
        "ettr_definition", redco_ettr_definition, "time", split(&e->split), "time_low", split(&e->split_low),
        "time_high", split(&e->split_high), "method", e->played ? "events" : "formula", "mttf_s", figure(&e->mttf_s),
        "failures", figure(&e->failures), "checkpoint", checkpoint(e), "spare_nodes", "p95", (json_int_t)e->spares_95,
        "p99", (json_int_t)e->spares_99, "given",
        e->reliability.pooled ? json_null() : json_integer((json_int_t)e->reliability.spares), "paid_gpu_hours",
        figure(&e->paid_gpu_hours), "mwh", figure(&e->mwh), "tonnes_co2e", figure(&e->tonnes_co2));
    if (json == NULL) { return NULL; }
    (void)json_object_set_new(json, "money", figure(&e->money));
    (void)json_object_set_new(json, "currency", json_string(e->currency));
    (void)json_object_set_new(json, "critical_batch_tokens",
                              e->critical_tokens > 0.0 ? json_real(e->critical_tokens) : json_null());
    (void)json_object_set_new(json, "above_critical_batch", json_boolean(e->above_critical));
    (void)json_object_set_new(json, "causes", causes(e));
    json_t *const assumed = json_array();
    for (uint32_t i = 0; i < e->assumed_count; i++) {
        (void)json_array_append_new(assumed, json_string(e->assumed[i]));
    }
    (void)json_object_set_new(json, "assumptions", assumed);
    return json;
}
