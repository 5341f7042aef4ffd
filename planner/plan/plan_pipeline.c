/* The pipeline of a plan: {"schedule": word, "group": N, "stages": [{"layers": [first, last]}, ...]}. Without "group"
 * groups have as few micro-batches as can be. Stages are positions: model chunk after model chunk; [] is none but
 * embedding or head. Plans without "stages", or without a pipeline, have equal shares of the layers. */
#include "planner/plan/plan_internal.h"

#include "costmodel/schedules/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The schedule by the name that people give it. */
static redco_pipeline_kind named_kind(const redco_plan *plan)
{
    return redco_pipeline_of_chunks(plan->parallelism.schedule, plan->parallelism.chunks);
}

static uint32_t blocks_at(const redco_plan *plan, uint32_t positions, uint32_t position)
{
    return plan->split != NULL ? plan->split[position] : redco_stage_blocks(plan->model_layers, positions, position);
}

json_t *redcoi_plan_pipeline_json(const redco_plan *plan)
{
    const redco_pipeline_kind kind = plan->parallelism.pp > 1 ? named_kind(plan) : REDCO_PIPELINE_1F1B;
    const uint32_t positions = plan->split != NULL
                                   ? plan->split_count
                                   : redco_pipeline_positions(kind, plan->parallelism.pp, plan->parallelism.chunks);
    json_t *const json = json_pack("{s:s}", "schedule", redco_pipeline_words[kind]);
    if (plan->parallelism.group > 0) {
        (void)json_object_set_new(json, "group", json_integer(plan->parallelism.group));
    }
    if (positions > REDCO_SPLIT_POSITIONS_MAX) { return json; }
    json_t *const stages = json_array();
    uint32_t next = 0;
    for (uint32_t i = 0; i < positions; i++) {
        const json_int_t first = next, blocks = blocks_at(plan, positions, i);
        (void)json_array_append_new(stages, blocks > 0 ? json_pack("{s:[I,I]}", "layers", first, first + blocks - 1)
                                                       : json_pack("{s:[]}", "layers"));
        next += (uint32_t)blocks;
    }
    (void)json_object_set_new(json, "stages", stages);
    return json;
}

/* Equal shares are no split of their own: the same plan as one that does not name its stages. */
static void forget_equal_shares(redco_plan *plan)
{
    const redco_pipeline_kind kind = named_kind(plan);
    const uint32_t positions = redco_pipeline_positions(kind, plan->parallelism.pp, plan->parallelism.chunks);
    if (plan->split_count != positions || !redco_split_is_equal(kind, plan->split, positions, plan->model_layers)) {
        return;
    }
    free(plan->split);
    plan->split = NULL;
    plan->split_count = 0;
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
    forget_equal_shares(plan);
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
    /* 1F1B of several chunks is interleaved: one way to hold it */
    const bool several = kind == REDCO_PIPELINE_INTERLEAVED && plan->parallelism.chunks > 1;
    plan->parallelism.schedule = several ? REDCO_PIPELINE_1F1B : (redco_pipeline_kind)kind;
    if (redco_json_has(&pipeline, "group") &&
        (st = redco_json_u32(&pipeline, "group", 1, UINT32_MAX, &plan->parallelism.group, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_has(&pipeline, "stages") ? read_stages(&pipeline, plan, err) : REDCO_OK;
}

redco_status redcoi_plan_check_pipeline(const redco_plan *plan, const char **pointer_out, redco_error *err)
{
    const bool several = plan->parallelism.chunks > 1, plain = plan->parallelism.schedule == REDCO_PIPELINE_1F1B;
    redco_pipeline p = {.kind = named_kind(plan),
                        .stages = plan->parallelism.pp,
                        .chunks = plan->parallelism.chunks,
                        .group = plan->parallelism.group};
    *pointer_out = "/pipeline";
    if (plan->parallelism.pp <= 1 && !several && plain && plan->parallelism.group == 0 && plan->split == NULL) {
        return REDCO_OK;
    }
    p.micro_batches =
        plan->parallelism.micro_batches < UINT32_MAX ? (uint32_t)plan->parallelism.micro_batches : UINT32_MAX;
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
    if (!redco_stages_divide(p.kind, plan->model_layers, positions)) {
        return redco_fail(
            err, REDCO_EVALUE, "chunks",
            "%u in each of %u stages need %u layers (or 2 more) in multiples of all chunks, or stages that "
            "name their layers",
            plan->parallelism.chunks, plan->parallelism.pp, plan->model_layers);
    }
    return REDCO_OK;
}
