/* The graph that a rank runs: the task's, its part of tensor parallelism and of its stage, with what it recomputes. */
#include "costmodel/graph/transform.h"
#include "costmodel/kept/recompute.h"
#include "costmodel/layouts/partition.h"
#include "executor/states/from_plan.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>
#include <string.h>

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory for its graph");
}

/* Loss and gradients, each with the stage that makes it and the parameter that it is of (the count of these: loss). */
struct wanted {
    redcoi_stage_outputs all;
    size_t *parameters;
};

static void want(struct wanted *w, redco_value value, uint32_t stage, size_t parameter)
{
    w->all.values[w->all.count] = value;
    w->all.stages[w->all.count] = stage;
    w->parameters[w->all.count++] = parameter;
}

/* The gradient of a table that two stages have is the sum of what each of them makes. */
static redco_status list_wanted(const redco_trainer *t, redco_task_graph *built, struct wanted *w, redco_error *err)
{
    const size_t count = t->whole->parameter_count;
    const redcoi_stage *const stage = &t->stage;
    redco_status st = REDCO_OK;
    w->all.values = calloc(2 * count + 1, sizeof *w->all.values);
    w->all.stages = calloc(2 * count + 1, sizeof *w->all.stages);
    w->parameters = calloc(2 * count + 1, sizeof *w->parameters);
    if (w->all.values == NULL || w->all.stages == NULL || w->parameters == NULL) { return no_memory(t, err); }
    want(w, built->loss, stage->count - 1, count); /* the last position is the last stage's */
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_value gradient = built->gradients[i];
        if (gradient == REDCO_NO_VALUE) { continue; }
        if (stage->count == 1 || !redcoi_stage_shares(stage, i)) {
            want(w, gradient, stage->count == 1 ? 0 : redcoi_stage_at(stage, stage->first_use[i]), i);
            continue;
        }
        const uint32_t by[2] = {redcoi_stage_at(stage, stage->first_use[i]),
                                redcoi_stage_at(stage, stage->last_use[i])};
        for (int k = 0; k < 2 && st == REDCO_OK; k++) {
            redco_value summand = REDCO_NO_VALUE;
            st = redcoi_stage_summand(stage, built->graph, gradient, by[k], &summand, err);
            if (st == REDCO_OK && summand == REDCO_NO_VALUE) {
                st = redco_fail(err, REDCO_EVALUE, t->whole->parameters[i].name,
                                "is on stages %u and %u, but its gradient is no sum of theirs", by[0], by[1]);
            }
            want(w, summand, by[k], i);
        }
    }
    return st;
}

static redco_status partition(redco_trainer *t, const redco_graph *graph, struct wanted *w, redco_error *err)
{
    const size_t count = t->whole->parameter_count;
    const uint64_t length = t->plan->seq_len;
    redco_partition_output *outputs = calloc((size_t)w->all.count + 1, sizeof *outputs);
    redco_tp_input *inputs = calloc(count + 1, sizeof *inputs);
    redco_status st = REDCO_OK;
    if (outputs == NULL || inputs == NULL) {
        st = no_memory(t, err);
        goto out;
    }
    for (uint32_t i = 0; i < w->all.count; i++) {
        const size_t of = w->parameters[i];
        outputs[i] = (redco_partition_output){w->all.values[i], of < count ? t->whole->parameters[of].name : NULL};
    }
    for (size_t i = 0; i < count; i++) {
        inputs[i] = (redco_tp_input){.name = t->whole->parameters[i].name, .layout = t->whole_layouts[i]};
    }
    const redco_partition_options options = {.group = {0, t->mesh.tp},
                                             .rank = t->at.tp,
                                             .inputs = inputs,
                                             .input_count = (uint32_t)count,
                                             .sequence_parallel = t->plan->parallelism.sequence_parallel,
                                             .batch = t->plan->parallelism.micro_batch,
                                             .sequences = &length,
                                             .sequence_count = 1};
    st = redco_partition(graph, outputs, w->all.count, &options, &t->graph, w->all.values, err);
out:
    free(outputs);
    free(inputs);
    return st;
}

/* This rank's part: its own stage's outputs, and what leaves it. */
static redco_status cut(redco_trainer *t, const struct wanted *w, redco_error *err)
{
    redco_graph *part = NULL;
    redcoi_crossings *const x = &t->crossings;
    const redco_status st = redcoi_stage_cut(&t->stage, t->graph, &w->all, &part, t->outputs, x, err);
    if (st != REDCO_OK) { return st; }
    redco_graph_free(t->graph);
    t->graph = part;
    for (int d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < x->out[d].count; i++) { t->outputs[t->output_count++] = x->out[d].of[i].value; }
    }
    return st;
}

/* Micro-batches of a step, all replicas'. */
static uint32_t replica_micro_batches(const redco_plan *plan)
{
    return (uint32_t)(plan->global_batch / plan->parallelism.micro_batch);
}

redco_status redcoi_rank_graph_build(redco_trainer *t, redco_error *err)
{
    const redco_task_options options = {t->options.dtype, t->options.dtype, true, true, replica_micro_batches(t->plan)};
    const size_t count = t->whole->parameter_count;
    redco_task_graph built = {.graph = NULL};
    struct wanted w = {.parameters = NULL};
    t->outputs = calloc(2 * count + 2 * REDCOI_CROSSING_MAX + 1, sizeof *t->outputs);
    t->output_of = calloc(count + 1, sizeof *t->output_of);
    if (t->outputs == NULL || t->output_of == NULL) { return no_memory(t, err); }
    redco_status st = redco_task_build(t->whole, &options, &built, err);
    if (st == REDCO_OK && t->options.pipeline != NULL) {
        st = redcoi_ranks_agree(t, redco_graph_digest(built.graph), "its functions built another graph",
                                "what they build must depend on their arguments alone", err);
    }
    if (st == REDCO_OK) { st = redcoi_stage_find_uses(&t->stage, t->whole, built.graph, err); }
    if (st == REDCO_OK) { st = list_wanted(t, &built, &w, err); }
    if (st != REDCO_OK) { goto out; }
    if (t->mesh.tp > 1) {
        if ((st = partition(t, built.graph, &w, err)) != REDCO_OK) { goto out; }
    } else {
        t->graph = built.graph;
        built.graph = NULL;
    }
    for (size_t i = 0; i <= count; i++) { t->output_of[i] = REDCO_NO_OUTPUT; }
    for (uint32_t i = 0; i < w.all.count; i++) {
        if (t->stage.count > 1 && w.all.stages[i] != t->stage.own) { continue; }
        t->output_of[w.parameters[i]] = t->output_count;
        t->outputs[t->output_count++] = w.all.values[i];
    }
    if (t->stage.count > 1) { st = cut(t, &w, err); }
out:
    redco_task_graph_free(&built);
    free(w.all.values);
    free(w.all.stages);
    free(w.parameters);
    return st;
}

/* The plan's word for a layer; what is in none of its layers is kept. */
static redco_recompute policy(void *context, const char *layer)
{
    const redco_trainer *const t = context;
    const redco_plan_layers *row = NULL;
    return redco_plan_layer(t->plan, layer, &row, NULL) == REDCO_OK ? row->recompute : REDCO_RECOMPUTE_NONE;
}

redco_status redcoi_rank_graph_recompute(redco_trainer *t, redco_error *err)
{
    const uint32_t count = t->output_count;
    const redco_recompute_options options = {policy, t, t->plan->parallelism.sequence_parallel && t->mesh.tp > 1};
    redco_graph *graph = NULL;
    redco_value *const outputs = calloc((size_t)count + 1, sizeof *outputs);
    if (outputs == NULL) { return no_memory(t, err); }
    const redco_status st = redco_recompute_graph(t->graph, t->outputs, count, &options, &graph, outputs, err);
    if (st != REDCO_OK) {
        free(outputs);
        return st;
    }
    redco_graph_free(t->graph);
    free(t->outputs);
    t->graph = graph;
    t->outputs = outputs;
    return REDCO_OK;
}
