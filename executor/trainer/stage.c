#include "executor/trainer/stage.h"

#include "costmodel/graph/transform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of an operator's stage: it depends on no parameter, so that any stage can make it. */
#define ANY_STAGE UINT32_MAX

static redco_status no_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "stages", "out of memory");
}

void redcoi_stage_free(redcoi_stage *stage)
{
    free(stage->layers);
    free(stage->position_of);
    free(stage->first_use);
    free(stage->last_use);
    free(stage->home);
    *stage = (redcoi_stage){.count = 1};
}

/* The rank of the step that computes a layer is its stage; where the next layer has another, a position ends. */
redco_status redcoi_stage_open(const redco_plan *plan, const redco_step *step, uint32_t own, redcoi_stage *stage,
                               redco_error *err)
{
    uint32_t count = 0;
    const redco_step_op *const ops = redco_step_ops(step, &count);
    *stage = (redcoi_stage){.count = plan->parallelism.pp, .own = own, .positions = 1};
    if (stage->count == 1) { return REDCO_OK; }
    stage->layer_count = redco_step_layer_count(step);
    stage->layers = calloc((size_t)stage->layer_count + 1, sizeof *stage->layers);
    stage->position_of = calloc((size_t)stage->layer_count + 1, sizeof *stage->position_of);
    if (stage->layers == NULL || stage->position_of == NULL) { return no_memory(err); }
    for (uint32_t l = 0; l < stage->layer_count; l++) {
        (void)redco_step_layer_name(step, l, stage->layers[l], sizeof stage->layers[l]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].work == REDCO_WORK_FORWARD) { stage->position_of[ops[i].layer] = ops[i].rank; }
    }
    for (uint32_t l = 0, before = 0; l < stage->layer_count; l++) {
        const uint32_t rank = stage->position_of[l];
        if (l > 0 && rank != before) { stage->positions++; }
        stage->position_of[l] = stage->positions - 1;
        if (rank != stage->position_of[l] % stage->count) {
            return redco_fail(err, REDCO_EVALUE, stage->layers[l], "is on stage %u, which is not the next one", rank);
        }
        before = rank;
    }
    return REDCO_OK;
}

static uint32_t position_of_layer(const redcoi_stage *stage, const char *layer)
{
    for (uint32_t l = 0; l < stage->layer_count; l++) {
        if (strcmp(stage->layers[l], layer) == 0) { return stage->position_of[l]; }
    }
    return ANY_STAGE;
}

/* Collectives between layers have the name of one of those that they stand between: what backward makes of forward's
 * values for a later position to read (a tensor gathered once more) is made there, and so is what an earlier position
 * reads of forward's. */
static void place_with_readers(const redco_graph *graph, uint32_t *at)
{
    for (uint32_t i = redco_graph_op_count(graph); i-- > 0;) {
        const redco_op *const op = redco_graph_op(graph, i);
        for (uint32_t k = 0; at[i] != ANY_STAGE && op->order > 0 && k < op->input_count; k++) {
            const redco_op *const maker = redco_value_op(graph, op->inputs[k]);
            uint32_t *const from = &at[maker->id];
            if (maker->order > 0 && *from != ANY_STAGE && *from < at[i]) { *from = at[i]; }
        }
        for (uint32_t k = 0; at[i] != ANY_STAGE && op->order == 0 && k < op->input_count; k++) {
            uint32_t *const from = &at[redco_value_op(graph, op->inputs[k])->id];
            if (*from != ANY_STAGE && *from > at[i]) { *from = at[i]; }
        }
    }
}

/* The stage of each operator: its layer's; without one, that of what it reads. */
static uint32_t *place(const redcoi_stage *stage, const redco_graph *graph)
{
    const uint32_t count = redco_graph_op_count(graph), names = redco_graph_names(graph)->count;
    uint32_t *const at = calloc((size_t)count + 1, sizeof *at), *const of_layer = calloc((size_t)names + 1, sizeof *at);
    bool *const known = calloc((size_t)names + 1, sizeof *known), *const depends =
                                                                      calloc((size_t)count + 1, sizeof *depends);
    for (uint32_t i = 0; at != NULL && of_layer != NULL && known != NULL && depends != NULL && i < count; i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        uint32_t last = ANY_STAGE;
        at[i] = ANY_STAGE;
        depends[i] = op->kind == REDCO_OP_INPUT && (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0;
        for (uint32_t k = 0; k < op->input_count; k++) {
            const uint32_t maker = redco_value_op(graph, op->inputs[k])->id;
            depends[i] = depends[i] || depends[maker];
            if (at[maker] != ANY_STAGE && (last == ANY_STAGE || at[maker] > last)) { last = at[maker]; }
        }
        if (!depends[i] || op->kind == REDCO_OP_INPUT) { continue; }
        if (!known[op->layer_id]) {
            of_layer[op->layer_id] = position_of_layer(stage, op->layer);
            known[op->layer_id] = true;
        }
        at[i] = of_layer[op->layer_id] != ANY_STAGE ? of_layer[op->layer_id] : last;
    }
    const bool enough = at != NULL && of_layer != NULL && known != NULL && depends != NULL;
    if (enough) { place_with_readers(graph, at); }
    free(of_layer);
    free(known);
    free(depends);
    if (enough) { return at; }
    free(at);
    return NULL;
}

redco_status redcoi_stage_find_uses(redcoi_stage *stage, const redco_task *task, const redco_graph *graph,
                                    redco_error *err)
{
    if (stage->count == 1) { return REDCO_OK; }
    uint32_t *const at = place(stage, graph);
    stage->first_use = calloc(task->parameter_count + 1, sizeof *stage->first_use);
    stage->last_use = calloc(task->parameter_count + 1, sizeof *stage->last_use);
    stage->home = calloc(task->parameter_count + 1, sizeof *stage->home);
    if (at == NULL || stage->first_use == NULL || stage->last_use == NULL || stage->home == NULL) {
        free(at);
        return no_memory(err);
    }
    for (size_t p = 0; p < task->parameter_count; p++) {
        const redco_value value = redco_graph_find_input(graph, task->parameters[p].name);
        const uint32_t home = stage->home[p] = position_of_layer(stage, task->parameters[p].layer);
        stage->first_use[p] = UINT32_MAX;
        for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
            const redco_op *const op = redco_graph_op(graph, i);
            for (uint32_t k = 0; k < op->input_count && op->order == 0; k++) {
                if (op->inputs[k] != value || at[i] == ANY_STAGE) { continue; }
                if (at[i] < stage->first_use[p]) { stage->first_use[p] = at[i]; }
                if (at[i] > stage->last_use[p]) { stage->last_use[p] = at[i]; }
            }
        }
        if (stage->first_use[p] == UINT32_MAX) { stage->first_use[p] = stage->last_use[p] = home; }
    }
    free(at);
    return REDCO_OK;
}

bool redcoi_stage_has(const redcoi_stage *stage, size_t parameter)
{
    return stage->count == 1 || redcoi_stage_at(stage, stage->first_use[parameter]) == stage->own ||
           redcoi_stage_at(stage, stage->last_use[parameter]) == stage->own;
}

/* Differentiation adds the gradients of what reads a table one after the other: those that a stage makes, added up. */
static redco_value own_terms(const redcoi_stage *stage, redco_graph *graph, const uint32_t *at, redco_value gradient,
                             uint32_t of)
{
    const redco_op *const op = redco_value_op(graph, gradient);
    if (op->kind != REDCO_OP_ADD) { return redcoi_stage_at(stage, at[op->id]) == of ? gradient : REDCO_NO_VALUE; }
    const redco_value a = own_terms(stage, graph, at, op->inputs[0], of),
                      b = own_terms(stage, graph, at, op->inputs[1], of);
    if (a == REDCO_NO_VALUE || b == REDCO_NO_VALUE) { return a == REDCO_NO_VALUE ? b : a; }
    const redco_value terms[2] = {a, b};
    redco_value sum = gradient;
    if (a != op->inputs[0] || b != op->inputs[1]) { redco_graph_insert(graph, op, terms, &sum); }
    return sum;
}

redco_status redcoi_stage_summand(const redcoi_stage *stage, redco_graph *graph, redco_value gradient, uint32_t of,
                                  redco_value *summand_out, redco_error *err)
{
    uint32_t *const at = place(stage, graph);
    if (at == NULL) { return no_memory(err); }
    *summand_out = own_terms(stage, graph, at, gradient, of);
    free(at);
    return redco_graph_status(graph, err);
}

/* While a graph is cut. */
struct cutter {
    const redcoi_stage *stage;
    const redco_graph *graph;
    uint32_t *at;
    bool *live;           /**< by operator: some stage wants it */
    uint32_t *low, *high; /* by value: first and last stage that read it in forward's direction, or backward's */
    bool *backwards;      /* by value: it goes backward */
};

static bool is_backward(const redco_op *op)
{
    return op->order > 0;
}

/* Which values cross, and how far. */
static redco_status find_crossings(struct cutter *c, redco_error *err)
{
    for (uint32_t i = 0; i < redco_graph_op_count(c->graph); i++) {
        const redco_op *const op = redco_graph_op(c->graph, i);
        for (uint32_t k = 0; c->live[i] && c->at[i] != ANY_STAGE && k < op->input_count; k++) {
            const redco_value value = op->inputs[k];
            const redco_op *const maker = redco_value_op(c->graph, value);
            const uint32_t from = c->at[maker->id], to = c->at[i];
            if (from == ANY_STAGE || from == to) { continue; }
            const bool backward = to < from;
            const bool both_ways = c->low[value] != UINT32_MAX && c->backwards[value] != backward;
            if (backward ? !is_backward(op) || both_ways : is_backward(maker) || both_ways) {
                char name[200];
                return redco_fail(err, REDCO_EVALUE, redco_op_name(c->graph, op, name, sizeof name),
                                  "stage %u reads against the order of passes what stage %u makes", to, from);
            }
            c->backwards[value] = backward;
            if (to < c->low[value]) { c->low[value] = to; }
            if (to > c->high[value]) { c->high[value] = to; }
        }
    }
    return REDCO_OK;
}

/* @return whether a value passes from stage @p boundary to the next (forward), or from the next to it (backward). */
static bool passes(const struct cutter *c, redco_value value, uint32_t boundary, bool backward)
{
    const uint32_t from = c->at[redco_value_op(c->graph, value)->id];
    if (c->low[value] == UINT32_MAX || c->backwards[value] != backward) { return false; }
    return backward ? c->low[value] <= boundary && boundary < from : from <= boundary && boundary < c->high[value];
}

static bool add(const struct cutter *c, struct redcoi_crossing_list *list, redco_value value, uint32_t position)
{
    if (list->count < REDCOI_CROSSING_MAX) {
        list->of[list->count] = (redco_crossing){value, position, *redco_value_type(c->graph, value)};
    }
    return list->count++ < REDCOI_CROSSING_MAX;
}

/* All that crosses into the stage's positions and out of them. Boundaries are numbered as the position before them.
 * @return false: there are too many */
static bool list_all(const struct cutter *c, redcoi_crossings *out)
{
    const redcoi_stage *const stage = c->stage;
    bool enough = true;
    for (uint32_t position = stage->own; position < stage->positions; position += stage->count) {
        for (uint32_t v = 0; v < redco_graph_value_count(c->graph); v++) {
            const bool last = position + 1 == stage->positions;
            if (position > 0 && passes(c, v, position - 1, false)) {
                enough = add(c, &out->in[0], v, position) && enough;
            }
            if (!last && passes(c, v, position, false)) { enough = add(c, &out->out[0], v, position) && enough; }
            if (!last && passes(c, v, position, true)) { enough = add(c, &out->in[1], v, position) && enough; }
            if (position > 0 && passes(c, v, position - 1, true)) {
                enough = add(c, &out->out[1], v, position) && enough;
            }
        }
    }
    return enough;
}

const char *redcoi_crossing_name(int direction, uint32_t index, char name[REDCOI_CROSSING_NAME])
{
    (void)snprintf(name, REDCOI_CROSSING_NAME, "%s.%u", direction == 0 ? "received" : "received_gradient", index);
    return name;
}

/* A value that comes is an input. What this stage makes itself, and gets again where it is passed on to another of its
 * positions, and what comes a second time, is read where it was first. */
static redco_status extract(const struct cutter *c, const redco_value *outputs, uint32_t output_count,
                            redco_graph **part_out, redco_value *outputs_out, redcoi_crossings *x, redco_error *err)
{
    const uint32_t cuts_count = x->in[0].count + x->in[1].count;
    const uint32_t wants = output_count + x->out[0].count + x->out[1].count;
    const size_t values = (size_t)redco_graph_value_count(c->graph) + 1;
    redco_graph_cut *const cuts = calloc((size_t)cuts_count + 1, sizeof *cuts);
    char(*const names)[REDCOI_CROSSING_NAME] = calloc((size_t)cuts_count + 1, sizeof *names);
    redco_value *const wanted = calloc((size_t)wants + 1, sizeof *wanted);
    redco_value *const map = calloc(values, sizeof *map);
    bool *const come = calloc(values, sizeof *come);
    redco_status st = REDCO_OK;
    if (cuts == NULL || names == NULL || wanted == NULL || map == NULL || come == NULL) {
        st = no_memory(err);
        goto out;
    }
    uint32_t at = output_count, cut = 0;
    memcpy(wanted, outputs, output_count * sizeof *wanted);
    for (int d = 0; d < 2; d++) {
        for (uint32_t k = 0; k < x->in[d].count; k++) {
            const redco_value value = x->in[d].of[k].value;
            const bool own = redcoi_stage_at(c->stage, c->at[redco_value_op(c->graph, value)->id]) == c->stage->own;
            cuts[cut] = (redco_graph_cut){value, redcoi_crossing_name(d, k, names[cut]), own || come[value]};
            cut++;
            come[value] = true;
        }
        for (uint32_t k = 0; k < x->out[d].count; k++) { wanted[at++] = x->out[d].of[k].value; }
    }
    st = redco_graph_extract_part(c->graph, wanted, wants, cuts, cuts_count, part_out, map, err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < output_count; i++) { outputs_out[i] = map[outputs[i]]; }
    for (int d = 0; d < 2; d++) {
        for (uint32_t k = 0; k < x->in[d].count; k++) {
            char name[REDCOI_CROSSING_NAME];
            x->in[d].of[k].value = redco_graph_find_input(*part_out, redcoi_crossing_name(d, k, name));
        }
        for (uint32_t k = 0; k < x->out[d].count; k++) { x->out[d].of[k].value = map[x->out[d].of[k].value]; }
    }
out:
    free(cuts);
    free(names);
    free(wanted);
    free(map);
    free(come);
    return st;
}

redco_status redcoi_stage_cut(const redcoi_stage *stage, const redco_graph *graph, const redcoi_stage_outputs *wanted,
                              redco_graph **part_out, redco_value *outputs_out, redcoi_crossings *crossings_out,
                              redco_error *err)
{
    const size_t values = (size_t)redco_graph_value_count(graph) + 1;
    struct cutter c = {.stage = stage,
                       .graph = graph,
                       .at = place(stage, graph),
                       .live = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *c.live),
                       .low = malloc(values * sizeof *c.low),
                       .high = calloc(values, sizeof *c.high),
                       .backwards = calloc(values, sizeof *c.backwards)};
    redco_value *const own = calloc((size_t)wanted->count + 1, sizeof *own);
    redco_status st = REDCO_OK;
    if (c.at == NULL || c.live == NULL || c.low == NULL || c.high == NULL || c.backwards == NULL || own == NULL) {
        st = no_memory(err);
        goto out;
    }
    uint32_t own_count = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        if (wanted->stages[i] == stage->own) { own[own_count++] = wanted->values[i]; }
    }
    redco_graph_live(graph, wanted->values, wanted->count, c.live);
    memset(c.low, 0xff, values * sizeof *c.low);
    if ((st = find_crossings(&c, err)) != REDCO_OK) { goto out; }
    if (!list_all(&c, crossings_out)) {
        st = redco_fail(err, REDCO_EVALUE, "stages", "more than %d values cross between them", REDCOI_CROSSING_MAX);
        goto out;
    }
    st = extract(&c, own, own_count, part_out, outputs_out, crossings_out, err);
out:
    free(c.at);
    free(c.live);
    free(c.low);
    free(c.high);
    free(c.backwards);
    free(own);
    return st;
}
