/* The pipeline of a plan: {"schedule": word, "group": N, "stages": [{"layers": [first, last]}, ...]}, where it is not
 * 1F1B (interleaved with several chunks), groups of as few micro-batches as can be, and equal shares of the layers.
 * Stages are positions: model chunk after model chunk; [] is none but embedding or head. */
#include "planner/plan/plan_internal.h"

#include "costmodel/schedules/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *redcoi_plan_pipeline_json(const redco_plan *plan)
{
    const bool usual = plan->schedule == REDCO_PIPELINE_1F1B && plan->group == 0 && plan->split == NULL;
    if (plan->pp <= 1 || usual) { return NULL; }
    const bool several = plan->schedule == REDCO_PIPELINE_1F1B && plan->pp_chunks > 1;
    json_t *const json =
        json_pack("{s:s}", "schedule", redco_pipeline_words[several ? REDCO_PIPELINE_INTERLEAVED : plan->schedule]);
    if (plan->group > 0) { (void)json_object_set_new(json, "group", json_integer(plan->group)); }
    if (plan->split == NULL) { return json; }
    json_t *const stages = json_array();
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->split_count; i++) {
        const json_int_t first = next, blocks = plan->split[i];
        (void)json_array_append_new(stages, blocks > 0 ? json_pack("{s:[I,I]}", "layers", first, first + blocks - 1)
                                                       : json_pack("{s:[]}", "layers"));
        next += plan->split[i];
    }
    (void)json_object_set_new(json, "stages", stages);
    return json;
}

static redco_status read_stages(const redco_json_value *pipeline, redco_plan *plan, redco_error *err)
{
    redco_json_value stages;
    size_t count = 0;
    json_int_t next = 0;
    redco_status st = redco_json_array(pipeline, "stages", &stages, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count == 0 || count > REDCO_SPLIT_POSITIONS_MAX) {
        return redco_json_fail(pipeline, "stages", err, "has %zu stages; 1 to %d are possible", count,
                               REDCO_SPLIT_POSITIONS_MAX);
    }
    plan->split = calloc(count, sizeof *plan->split);
    if (plan->split == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    plan->split_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        redco_json_value stage, range;
        size_t ends = 0;
        if ((st = redco_json_element(&stages, i, &stage, err)) != REDCO_OK ||
            (st = redco_json_array(&stage, "layers", &range, &ends, err)) != REDCO_OK) {
            return st;
        }
        if (ends == 0) { continue; }
        const json_t *const first = json_array_get(range.json, 0), *const last = json_array_get(range.json, 1);
        const bool whole = ends == 2 && json_is_integer(first) && json_is_integer(last);
        if (!whole || json_integer_value(first) != next || json_integer_value(last) < next ||
            json_integer_value(last) >= UINT32_MAX) {
            return redco_json_fail(&range, NULL, err,
                                   "must be [] or [first, last], first %lld: what follows the stage "
                                   "before",
                                   (long long)next);
        }
        plan->split[i] = (uint32_t)(json_integer_value(last) - next + 1);
        next = json_integer_value(last) + 1;
    }
    return REDCO_OK;
}

redco_status redcoi_plan_read_pipeline(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value pipeline;
    const char *text = NULL;
    if (!redco_json_has(root, "pipeline")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "pipeline", &pipeline, err);
    if (st != REDCO_OK || (st = redco_json_string(&pipeline, "schedule", &text, err)) != REDCO_OK) { return st; }
    uint32_t kind = 0;
    while (redco_pipeline_words[kind] != NULL && strcmp(redco_pipeline_words[kind], text) != 0) { kind++; }
    if (kind == REDCO_PIPELINE_COUNT) {
        return redco_json_fail(&pipeline, "schedule", err,
                               "\"%.40s\" is not one of: 1f1b, interleaved, gpipe, zb-h1, dualpipev, dualpipe", text);
    }
    plan->schedule = (redco_pipeline_kind)kind;
    if (redco_json_has(&pipeline, "group") &&
        (st = redco_json_u32(&pipeline, "group", 1, UINT32_MAX, &plan->group, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_has(&pipeline, "stages") ? read_stages(&pipeline, plan, err) : REDCO_OK;
}

redco_status redcoi_plan_check_pipeline(const redco_plan *plan, const char **pointer_out, redco_error *err)
{
    const bool several = plan->pp_chunks > 1, plain = plan->schedule == REDCO_PIPELINE_1F1B;
    redco_pipeline p = {.kind = plain && several ? REDCO_PIPELINE_INTERLEAVED : plan->schedule,
                        .stages = plan->pp,
                        .chunks = plan->pp_chunks,
                        .group = plan->group};
    *pointer_out = "/pipeline";
    if (plan->pp <= 1 && !several && plain && plan->group == 0 && plan->split == NULL) { return REDCO_OK; }
    p.micro_batches = plan->micro_batches < UINT32_MAX ? (uint32_t)plan->micro_batches : UINT32_MAX;
    if (p.kind == REDCO_PIPELINE_INTERLEAVED && p.group == 0) {
        p.group = redco_pipeline_least_group(p.stages, p.micro_batches);
    }
    if (several && plain) { *pointer_out = "/mesh/pp_chunks"; }
    const redco_status st = redco_pipeline_check(&p, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    if (plan->split != NULL) {
        *pointer_out = "/pipeline/stages";
        if (plan->split_count != positions) {
            return redco_fail(err, REDCO_EVALUE, "split", "has %u positions; the mesh has %u", plan->split_count,
                              positions);
        }
        return redco_split_check(plan->split, positions, plan->model_layers, err);
    }
    if (p.kind == REDCO_PIPELINE_INTERLEAVED && plan->model_layers % positions != 0 &&
        !redco_stage_edges_count(plan->model_layers, positions)) {
        return redco_fail(err, REDCO_EVALUE, "chunks",
                          "%u in each of %u stages need %u layers (or 2 more) in multiples of all chunks",
                          plan->pp_chunks, plan->pp, plan->model_layers);
    }
    return REDCO_OK;
}
