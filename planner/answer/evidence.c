#include "planner/answer/evidence.h"

#include "topology/base/preset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Numbers of a run in its array, behind source and model. */
enum { GPUS, TP, CP, PP, CHUNKS, TOKENS, CP_NODES, DP_NODES, NUMBERS, MOST_RUNS = 100000 };

static redco_status read_run(const redco_json_value *row, redco_evidence_run *run_out, redco_error *err)
{
    uint32_t numbers[NUMBERS] = {0};
    const char *const source = json_string_value(json_array_get(row->json, 0));
    const char *const model = json_string_value(json_array_get(row->json, 1));
    bool good = source != NULL && model != NULL && json_array_size(row->json) == 2 + NUMBERS;
    for (size_t i = 0; i < NUMBERS && good; i++) {
        const json_int_t value = json_integer_value(json_array_get(row->json, 2 + i));
        good = value > 0 && value <= UINT32_MAX;
        numbers[i] = (uint32_t)value;
    }
    if (!good) { return redco_fail(err, REDCO_EVALUE, "evidence", "a run is not two texts and %d numbers", NUMBERS); }
    *run_out = (redco_evidence_run){
        .gpus = numbers[GPUS],
        .tp = numbers[TP],
        .cp = numbers[CP],
        .pp = numbers[PP],
        .chunks = numbers[CHUNKS],
        .reach = {.tokens = numbers[TOKENS], .cp_nodes = numbers[CP_NODES], .dp_nodes = numbers[DP_NODES]}};
    (void)snprintf(run_out->source, sizeof run_out->source, "%s", source);
    (void)snprintf(run_out->model, sizeof run_out->model, "%s", model);
    return REDCO_OK;
}

static void widen(uint32_t *most, uint32_t value)
{
    if (value > *most) { *most = value; }
}

static redco_hull hull_of(const redco_evidence_run *runs, size_t count)
{
    redco_hull hull = {.least_tokens = UINT64_MAX, .least_context_tokens = UINT64_MAX};
    for (size_t i = 0; i < count; i++) {
        const redco_evidence_run *const r = &runs[i];
        const uint64_t tokens = r->reach.tokens;
        widen(&hull.tp, r->tp);
        widen(&hull.cp, r->cp);
        widen(&hull.pp, r->pp);
        widen(&hull.chunks, r->chunks);
        widen(&hull.cp_nodes, r->reach.cp_nodes);
        widen(&hull.dp_nodes, r->reach.dp_nodes);
        if (tokens < hull.least_tokens) { hull.least_tokens = tokens; }
        if (tokens > hull.most_tokens) { hull.most_tokens = tokens; }
        if (r->cp > 1 && tokens < hull.least_context_tokens) { hull.least_context_tokens = tokens; }
    }
    if (hull.cp <= 1) { hull.least_context_tokens = 0; }
    return hull;
}

static redco_status read_runs(const redco_json_value *root, redco_evidence *evidence, redco_error *err)
{
    redco_json_value rows;
    redco_status st = redco_json_array(root, "runs", &rows, &evidence->count, err);
    if (st != REDCO_OK) { return st; }
    if (evidence->count == 0 || evidence->count > MOST_RUNS) {
        return redco_json_fail(root, "runs", err, "holds %zu runs, not 1 to %d", evidence->count, MOST_RUNS);
    }
    evidence->runs = calloc(evidence->count, sizeof *evidence->runs);
    if (evidence->runs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < evidence->count && st == REDCO_OK; i++) {
        redco_json_value row;
        st = redco_json_element(&rows, i, &row, err);
        if (st == REDCO_OK) { st = read_run(&row, &evidence->runs[i], err); }
    }
    if (st == REDCO_OK) { evidence->hull = hull_of(evidence->runs, evidence->count); }
    return st;
}

redco_status redco_evidence_read(const char *set, redco_evidence **evidence_out, redco_error *err)
{
    redco_json *document = NULL;
    *evidence_out = NULL;
    if (redco_preset_find("evidence", set) == NULL) { return REDCO_OK; }
    redco_evidence *const evidence = calloc(1, sizeof *evidence);
    redco_status st = evidence != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    if (st == REDCO_OK) { st = redco_preset_open("evidence", "evidence", set, &document, err); }
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = read_runs(&root, evidence, err);
    }
    redco_json_close(document);
    if (st != REDCO_OK) {
        redco_evidence_free(evidence);
        return st;
    }
    *evidence_out = evidence;
    return REDCO_OK;
}

void redco_evidence_free(redco_evidence *evidence)
{
    if (evidence == NULL) { return; }
    free(evidence->runs);
    free(evidence);
}

const char *redco_evidence_beyond(const redco_evidence *evidence, const redco_parallelism *parallelism,
                                  const redco_reach *reach, char *buffer, size_t size)
{
    const redco_hull *const h = &evidence->hull;
    const uint32_t beyond = redco_hull_beyond(h, parallelism, reach);
    const bool few = reach->tokens < h->least_tokens;
    const struct {
        uint32_t bit;
        const char *before, *after;
        uint64_t value, measured;
        bool from;
    } parts[] = {{REDCO_BEYOND_TP, "tp ", "", parallelism->tp, h->tp, false},
                 {REDCO_BEYOND_CP, "cp ", "", parallelism->cp, h->cp, false},
                 {REDCO_BEYOND_PP, "pp ", "", parallelism->pp, h->pp, false},
                 {REDCO_BEYOND_CHUNKS, "", " model chunks", redco_parallelism_chunks(parallelism), h->chunks, false},
                 {REDCO_BEYOND_CP_NODES, "", " nodes a context-parallel group", reach->cp_nodes, h->cp_nodes, false},
                 {REDCO_BEYOND_DP_NODES, "", " nodes a data-parallel group", reach->dp_nodes, h->dp_nodes, false},
                 {REDCO_BEYOND_TOKENS, "", " tokens a rank and micro-batch", reach->tokens,
                  few ? h->least_tokens : h->most_tokens, few},
                 {REDCO_BEYOND_CONTEXT_TOKENS, "", " tokens a rank beside context parallelism", reach->tokens,
                  h->least_context_tokens, true}};
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && used < size; i++) {
        if ((beyond & parts[i].bit) == 0) { continue; }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s%" PRIu64 "%s (measured %s %" PRIu64 ")",
                                 used > 0 ? ", " : "", parts[i].before, parts[i].value, parts[i].after,
                                 parts[i].from ? "from" : "up to", parts[i].measured);
    }
    return buffer;
}

static double octaves(double a, double b)
{
    return fabs(log2(a / b));
}

static double distance(const redco_evidence_run *run, uint64_t gpus, const redco_parallelism *s,
                       const redco_reach *reach)
{
    return octaves((double)run->gpus, (double)gpus) + octaves(run->tp, s->tp) + octaves(run->cp, s->cp) +
           octaves(run->pp, s->pp) + octaves(run->chunks > 0 ? run->chunks : 1, redco_parallelism_chunks(s)) +
           octaves((double)run->reach.tokens, (double)reach->tokens);
}

size_t redco_evidence_nearest(const redco_evidence *evidence, uint64_t gpus, const redco_parallelism *parallelism,
                              const redco_reach *reach, size_t nearest_out[REDCO_EVIDENCE_NEAREST])
{
    double distances[REDCO_EVIDENCE_NEAREST];
    size_t count = 0;
    for (size_t i = 0; i < evidence->count; i++) {
        const double d = distance(&evidence->runs[i], gpus, parallelism, reach);
        size_t at = count < REDCO_EVIDENCE_NEAREST ? count : REDCO_EVIDENCE_NEAREST;
        while (at > 0 && d < distances[at - 1]) { at--; }
        if (at == REDCO_EVIDENCE_NEAREST) { continue; }
        if (count < REDCO_EVIDENCE_NEAREST) { count++; }
        for (size_t j = count - 1; j > at; j--) {
            distances[j] = distances[j - 1];
            nearest_out[j] = nearest_out[j - 1];
        }
        distances[at] = d;
        nearest_out[at] = i;
    }
    return count;
}

static json_t *nearest_json(const redco_evidence *evidence, uint64_t gpus, const redco_parallelism *parallelism,
                            const redco_reach *reach)
{
    size_t nearest[REDCO_EVIDENCE_NEAREST];
    const size_t count = redco_evidence_nearest(evidence, gpus, parallelism, reach, nearest);
    json_t *const list = json_array();
    for (size_t i = 0; i < count; i++) {
        const redco_evidence_run *const run = &evidence->runs[nearest[i]];
        (void)json_array_append_new(list,
                                    json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "source", run->source, "model",
                                              run->model, "gpus", (json_int_t)run->gpus, "tp", (json_int_t)run->tp,
                                              "pp", (json_int_t)run->pp, "pp_chunks", (json_int_t)run->chunks, "cp",
                                              (json_int_t)run->cp, "tokens", (json_int_t)run->reach.tokens));
    }
    return list;
}

json_t *redco_evidence_describe(const redco_evidence *evidence, const redco_inputs *inputs, uint32_t seq_len,
                                const redco_parallelism *parallelism)
{
    const uint64_t gpus = (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
    const redco_reach reach = redco_reach_of(&inputs->machine, seq_len, parallelism);
    char beyond[REDCO_EVIDENCE_TEXT];
    (void)redco_evidence_beyond(evidence, parallelism, &reach, beyond, sizeof beyond);
    return json_pack("{s:s,s:I,s:b,s:s,s:o}", "set", inputs->calibration.name, "layouts", (json_int_t)evidence->count,
                     "extrapolated", beyond[0] != '\0', "beyond", beyond, "nearest",
                     nearest_json(evidence, gpus, parallelism, &reach));
}
