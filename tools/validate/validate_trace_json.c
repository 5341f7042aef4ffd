/* The document of redco-validate PLAN TRACE: tools/validate-trace.schema.json. */
#include "tools/cli/cli.h"
#include "tools/validate/validate_trace.h"

#include <math.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *error_json(double predicted, double measured)
{
    return number(redco_compare_error(predicted, measured));
}

static json_t *bytes_json(double bytes)
{
    return bytes >= 0.0 && bytes < 9e18 ? json_integer((json_int_t)(bytes + 0.5)) : json_null();
}

static json_t *time_json(const redco_compare_time *t, bool memory, double peak_bytes)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o}", "step_s", t->step_s, "compute_s", t->compute_s,
                     "exposed_comm_s", t->wait_s + t->launch_s, "waiting_s", t->wait_s, "launch_s", t->launch_s,
                     "overhead_s", t->overhead_s, "bubble_s", t->bubble_s, "idle_s", t->idle_s, "communication_s",
                     t->communication_s, "hidden_ratio", number(trace_report_hidden(t)), "peak_memory_bytes",
                     memory ? bytes_json(peak_bytes) : json_null());
}

static json_t *errors_json(const redco_comparison *c)
{
    const redco_compare_time *const p = &c->predicted, *const m = &c->measured;
    double peaks[2] = {0.0, 0.0};
    const bool known = trace_report_peaks(c, &peaks[0], &peaks[1]);
    return json_pack("{s:o,s:o,s:o,s:o}", "step_s", error_json(p->step_s, m->step_s), "compute_s",
                     error_json(p->compute_s, m->compute_s), "exposed_comm_s",
                     error_json(p->wait_s + p->launch_s, m->wait_s + m->launch_s), "peak_memory_bytes",
                     known ? error_json(peaks[0], peaks[1]) : json_null());
}

static json_t *kinds_json(const redco_comparison *c)
{
    json_t *const list = json_array();
    for (uint32_t k = 0; k < c->kind_count; k++) {
        const redco_compare_kind *const kind = &c->kinds[k];
        json_t *const json =
            json_pack("{s:s,s:b,s:I,s:I,s:f,s:f,s:o}", "kind", kind->name, "communication", kind->communicates,
                      "predicted_operators", (json_int_t)kind->predicted_count, "measured_operators",
                      (json_int_t)kind->measured_count, "predicted_s", kind->total.predicted_s, "measured_s",
                      kind->total.measured_s, "error", error_json(kind->total.predicted_s, kind->total.measured_s));
        if (kind->communicates) {
            (void)json_object_set_new(json, "predicted_waiting_s", json_real(kind->exposed.predicted_s));
            (void)json_object_set_new(json, "measured_waiting_s", json_real(kind->exposed.measured_s));
        }
        (void)json_array_append_new(list, json);
    }
    return list;
}

static json_t *critical_json(const redco_comparison *c, bool measured)
{
    json_t *const path = json_object();
    for (uint32_t k = 0; k < c->kind_count; k++) {
        const redco_compare_pair *const pair = &c->kinds[k].critical;
        (void)json_object_set_new(path, c->kinds[k].name, json_real(measured ? pair->measured_s : pair->predicted_s));
    }
    const redco_compare_pair *const idle = &c->critical_idle;
    (void)json_object_set_new(path, "idle", json_real(measured ? idle->measured_s : idle->predicted_s));
    return path;
}

static json_t *operators_json(const redco_comparison *c, uint64_t top)
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < c->operator_count && i < top; i++) {
        const redco_compare_operator *const o = &c->operators[i];
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:f,s:f,s:f,s:o}", "name", o->name,
                                                    "predicted_operators", (json_int_t)o->predicted_count,
                                                    "measured_operators", (json_int_t)o->measured_count, "predicted_s",
                                                    o->total.predicted_s, "measured_s", o->total.measured_s,
                                                    "difference_s", o->total.predicted_s - o->total.measured_s, "error",
                                                    error_json(o->total.predicted_s, o->total.measured_s)));
    }
    return list;
}

static json_t *lonely_json(const redco_comparison *c, bool missing)
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < c->operator_count; i++) {
        const redco_compare_operator *const o = &c->operators[i];
        const uint64_t count = missing ? o->missing_count : o->extra_count;
        if (count == 0) { continue; }
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:f}", "name", o->name, "operators", (json_int_t)count,
                                                    "seconds", missing ? o->missing_s : o->extra_s));
    }
    return list;
}

static json_t *memory_json(const redco_compare_memory *m)
{
    json_t *const categories = json_array();
    if (!m->known) {
        json_decref(categories);
        return json_null();
    }
    for (uint32_t h = 0; h < m->category_count; h++) {
        const redco_compare_memory_category *const category = &m->categories[h];
        (void)json_array_append_new(categories,
                                    json_pack("{s:s,s:o,s:o,s:o}", "holder", category->name, "predicted_bytes",
                                              bytes_json(category->predicted_bytes), "measured_bytes",
                                              bytes_json(category->measured_bytes), "error",
                                              error_json(category->predicted_bytes, category->measured_bytes)));
    }
    return json_pack("{s:o,s:o,s:o,s:{s:o,s:o,s:o},s:o}", "predicted_bytes", bytes_json(m->predicted_bytes),
                     "measured_bytes", bytes_json(m->measured_bytes), "error",
                     error_json(m->predicted_bytes, m->measured_bytes), "in_both", "predicted_bytes",
                     bytes_json(m->common_predicted_bytes), "measured_bytes", bytes_json(m->common_measured_bytes),
                     "error", error_json(m->common_predicted_bytes, m->common_measured_bytes), "holders", categories);
}

static json_t *ranks_json(const struct trace_report *r)
{
    const redco_comparison *const c = r->comparison;
    json_t *const list = json_array();
    for (uint32_t i = 0; i < c->rank_count; i++) {
        const redco_compare_rank *const rank = &c->ranks[i];
        (void)json_array_append_new(list, json_pack("{s:o,s:I,s:s,s:f,s:o}", "trace",
                                                    cli_json_text(r->arguments->files[rank->file + 1]), "process",
                                                    (json_int_t)rank->process, "name", rank->name, "step_s",
                                                    rank->step_s, "peak_memory_bytes", bytes_json(rank->peak_bytes)));
    }
    return list;
}

static json_t *pair_json(const redco_compare_pair *pair)
{
    return json_pack("{s:o,s:o,s:o}", "predicted_s", number(pair->predicted_s), "measured_s", number(pair->measured_s),
                     "error", error_json(pair->predicted_s, pair->measured_s));
}

/* Stages of a pipeline; without one there are none. */
static json_t *stages_json(const redco_comparison *c)
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < c->stage_count; i++) {
        const redco_compare_stage *const s = &c->stages[i];
        const redco_compare_pair compute = {s->predicted.compute_s, s->measured.compute_s},
                                 waiting = {s->predicted.wait_s, s->measured.wait_s},
                                 bubble = {s->predicted.bubble_s, s->measured.bubble_s};
        json_t *const transfers = pair_json(&s->transfers);
        (void)json_object_set_new(transfers, "predicted_operators", json_integer((json_int_t)s->predicted_count));
        (void)json_object_set_new(transfers, "measured_operators", json_integer((json_int_t)s->measured_count));
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:o,s:o,s:o,s:o,s:o}", "stage", s->name, "ranks",
                                                    (json_int_t)s->rank_count, "compute", pair_json(&compute),
                                                    "waiting", pair_json(&waiting), "bubble", pair_json(&bubble),
                                                    "warm_up", pair_json(&s->warm_up), "transfers", transfers));
    }
    return list;
}

static json_t *steps_json(const redco_comparison *c)
{
    json_t *const list = json_array();
    for (uint32_t s = 0; s < c->step_count; s++) {
        const redco_compare_step *const step = &c->steps[s];
        (void)json_array_append_new(list, json_pack("{s:I,s:f,s:I,s:b}", "step", (json_int_t)step->number, "time_s",
                                                    step->step_s, "operators", (json_int_t)step->operators, "counted",
                                                    step->counted));
    }
    return list;
}

static json_t *files_json(const struct trace_report *r)
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < r->load_count; i++) {
        const redco_trace_load_report *const load = &r->loads[i];
        (void)json_array_append_new(
            list, json_pack("{s:o,s:s?,s:I,s:I,s:I,s:I}", "trace", cli_json_text(r->arguments->files[i + 1]), "source",
                            r->origins[i], "events", (json_int_t)load->events, "ignored", (json_int_t)load->ignored,
                            "unpaired", (json_int_t)load->unpaired, "duplicates", (json_int_t)load->duplicates));
    }
    return list;
}

json_t *trace_report_json(const struct trace_report *report)
{
    const redco_comparison *const c = report->comparison;
    const redco_compare_memory *const m = &c->memory;
    json_t *const json =
        json_pack("{s:s,s:i,s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o}", "format", "redco-validate-trace", "version", 1, "plan",
                  cli_json_text(report->arguments->files[0]), "passed", report->passed, "predicted",
                  time_json(&c->predicted, m->known, m->predicted_bytes), "measured",
                  time_json(&c->measured, m->known, m->measured_bytes), "error", errors_json(c), "kinds", kinds_json(c),
                  "operators", operators_json(c, report->arguments->top), "memory", memory_json(m));
    (void)json_object_set_new(json, "critical_path",
                              c->critical_known ? json_pack("{s:o,s:o}", "predicted", critical_json(c, false),
                                                            "measured", critical_json(c, true))
                                                : json_null());
    (void)json_object_set_new(json, "matched",
                              json_pack("{s:I,s:I,s:I,s:I}", "operators", (json_int_t)c->matched, "missing",
                                        (json_int_t)c->missing, "extra", (json_int_t)c->extra, "other_stream",
                                        (json_int_t)c->other_stream));
    (void)json_object_set_new(json, "not_measured", lonely_json(c, true));
    (void)json_object_set_new(json, "not_predicted", lonely_json(c, false));
    (void)json_object_set_new(json, "stages", stages_json(c));
    (void)json_object_set_new(json, "steps", steps_json(c));
    (void)json_object_set_new(json, "ranks", ranks_json(report));
    (void)json_object_set_new(json, "traces", files_json(report));
    return json;
}
