/* redco's own profile documents, as profile_json.c and profile_compute.c read them. */
#include "traces/profile.h"

#include <string.h>

enum { VERSION = 3 };

/* Takes @p value; @return false when there was no memory for either. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool put_text(json_t *object, const char *key, const char *text)
{
    return text == NULL || text[0] == '\0' || put(object, key, json_string(text));
}

static bool put_number(json_t *object, const char *key, double value)
{
    return !(value > 0.0) || put(object, key, json_real(value));
}

static bool put_count(json_t *object, const char *key, uint64_t value)
{
    return value == 0 || put(object, key, json_integer((json_int_t)value));
}

static json_t *checked(json_t *object, bool sound)
{
    if (sound) { return object; }
    json_decref(object);
    return NULL;
}

static bool put_machine(json_t *o, const redco_profile_measured *m)
{
    return put_text(o, "device", m->device) && put_text(o, "part", m->part) && put_text(o, "backend", m->backend) &&
           put_text(o, "kernels", m->kernels) && put_text(o, "attention", m->attention) &&
           put_text(o, "capability", m->capability) && put_text(o, "driver", m->driver) && put_text(o, "cpu", m->cpu) &&
           put_text(o, "system", m->system) && put_text(o, "date", m->date) && put_number(o, "clock_hz", m->clock_hz) &&
           put_number(o, "clock_after_hz", m->clock_after_hz) && put_number(o, "memory_clock_hz", m->memory_clock_hz) &&
           put_count(o, "multiprocessors", m->multiprocessors) && put_count(o, "memory_bytes", m->memory_bytes) &&
           put_count(o, "processors", m->processors);
}

static bool put_power(json_t *o, const redco_profile_measured *m)
{
    return put_number(o, "power_limit_w", m->power_limit_w) && put_number(o, "idle_w", m->idle_w) &&
           put_number(o, "product_j_per_flop", m->product_j_per_flop) && put_number(o, "memory_w", m->memory_w) &&
           put_number(o, "burst_clock_ratio", m->burst_clock_ratio) && put_text(o, "power_basis", m->power_basis);
}

static json_t *measured(const redco_profile_measured *m)
{
    json_t *o = json_object();
    return checked(o, put_machine(o, m) && put_count(o, "ranks", m->ranks) && put_count(o, "rounds", m->rounds) &&
                          put_number(o, "load", m->load) && put_number(o, "processor_ratio", m->processor_ratio) &&
                          put_number(o, "spread_ratio", m->spread_ratio) &&
                          put_number(o, "contention_ratio", m->contention_ratio) &&
                          put_number(o, "overlap_ratio", m->overlap_ratio) && put_number(o, "budget_s", m->budget_s) &&
                          put_number(o, "took_s", m->took_s) && put_count(o, "left_out", m->left_out) &&
                          put_number(o, "launch_s", m->launch_s) &&
                          put_number(o, "host_forward_s", m->host_forward_s) &&
                          put_number(o, "host_backward_s", m->host_backward_s) &&
                          put_number(o, "graph_launch_s", m->graph_launch_s) &&
                          put_number(o, "hot_ratio", m->hot_ratio) && put_count(o, "reserve_bytes", m->reserve_bytes) &&
                          put_count(o, "workspace_bytes", m->workspace_bytes) && put_power(o, m));
}

static json_t *run(const redco_profile_run *r)
{
    json_t *o = json_object(), *rows = json_array();
    bool sound = put(o, "op", json_string(redco_collective_name(r->op))) &&
                 put_count(o, "gpus_per_node", r->nodes > 0 ? r->ranks / r->nodes : r->ranks) &&
                 put_count(o, "nodes", r->nodes > 0 ? r->nodes : 1) && put_count(o, "stride", r->stride) &&
                 put_count(o, "groups_per_node", r->groups_per_node) && put(o, "rows", rows);
    for (size_t i = 0; sound && i < r->row_count; i++) {
        json_t *row = json_object();
        sound = json_array_append_new(rows, row) == 0 &&
                put(row, "size_bytes", json_integer((json_int_t)r->rows[i].size_bytes)) &&
                put_number(row, "out_of_place_s", r->rows[i].time_s[REDCO_OUT_OF_PLACE]) &&
                put_number(row, "in_place_s", r->rows[i].time_s[REDCO_IN_PLACE]);
    }
    return checked(o, sound);
}

static json_t *gemm(const redco_profile_gemm *g)
{
    static const char *const transposed[2][2] = {{"none", "b"}, {"a", "both"}};
    json_t *o = json_object();
    return checked(o, put_count(o, "m", g->m) && put_count(o, "n", g->n) && put_count(o, "k", g->k) &&
                          put_text(o, "transposed", transposed[g->transpose_a][g->transpose_b]) &&
                          put_text(o, "type", g->type) && put_number(o, "time_s", g->time_s));
}

static json_t *attention(const redco_profile_attention *a)
{
    json_t *o = json_object();
    return checked(o, put_count(o, "batch", a->batch) && put_count(o, "heads", a->heads) &&
                          put_count(o, "kv_heads", a->kv_heads) && put_count(o, "sequence", a->sequence) &&
                          put_count(o, "head_dim", a->head_dim) && put(o, "causal", json_boolean(a->causal)) &&
                          put_text(o, "type", a->type) && put_number(o, "forward_s", a->forward_s) &&
                          put_number(o, "backward_s", a->backward_s));
}

static json_t *other(const redco_profile_operator *p)
{
    json_t *o = json_object();
    return checked(o, put_text(o, "operator", p->name) && put_text(o, "type", p->type) &&
                          put_count(o, "elements", p->elements) &&
                          (p->columns == 0 || put_count(o, "columns", p->columns)) &&
                          put_number(o, "forward_s", p->forward_s) && put_number(o, "backward_s", p->backward_s));
}

static json_t *power(const redco_profile_power *p)
{
    json_t *o = json_object();
    return checked(
        o, put_text(o, "operator", p->name) && put_text(o, "type", p->type) && put_text(o, "numbers", p->numbers) &&
               put_text(o, "pass", p->backward ? "backward" : "forward") && put_count(o, "m", p->m) &&
               put_count(o, "n", p->n) && put_count(o, "k", p->k) && put_count(o, "elements", p->elements) &&
               put_number(o, "flops", p->flops) && put_number(o, "time_s", p->time_s) &&
               put(o, "energy_j", json_real(p->energy_j)) && put(o, "watts", json_real(p->watts)) &&
               put_number(o, "clock_hz", p->clock_hz) && put_number(o, "memory_clock_hz", p->memory_clock_hz) &&
               put_number(o, "settle_s", p->settle_s) && put_number(o, "window_s", p->window_s) &&
               put_text(o, "counted_by", p->sampled ? "samples" : "device"));
}

json_t *redco_profile_describe(const redco_profile_content *content)
{
    json_t *o = json_object(), *runs = json_array(), *gemms = json_array(), *attentions = json_array(),
           *operators = json_array(), *powers = content->power_count > 0 ? json_array() : NULL;
    bool sound = put(o, "format", json_string("redco-profile")) && put(o, "version", json_integer(VERSION)) &&
                 put_text(o, "hardware", content->hardware) && put_text(o, "network", content->network) &&
                 put_text(o, "tool", content->tool);
    if (sound && content->measured != NULL) { sound = put(o, "measured", measured(content->measured)); }
    /* Each call takes its array, whether or not it succeeds. */
    sound = put(o, "collectives", runs) && sound;
    sound = put(o, "gemm", gemms) && sound;
    sound = put(o, "attention", attentions) && sound;
    sound = put(o, "operators", operators) && sound;
    for (size_t i = 0; sound && i < content->run_count; i++) {
        sound = json_array_append_new(runs, run(&content->runs[i])) == 0;
    }
    for (size_t i = 0; sound && i < content->gemm_count; i++) {
        sound = json_array_append_new(gemms, gemm(&content->gemms[i])) == 0;
    }
    for (size_t i = 0; sound && i < content->attention_count; i++) {
        sound = json_array_append_new(attentions, attention(&content->attentions[i])) == 0;
    }
    for (size_t i = 0; sound && i < content->operator_count; i++) {
        sound = json_array_append_new(operators, other(&content->operators[i])) == 0;
    }
    if (content->power_count > 0) { sound = put(o, "power", powers) && sound; }
    for (size_t i = 0; sound && i < content->power_count; i++) {
        sound = json_array_append_new(powers, power(&content->powers[i])) == 0;
    }
    return checked(o, sound);
}
