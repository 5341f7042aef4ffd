/* The graph as a container: arrays that only grow, and names. */
#include "costmodel/simulator/step_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool redcoi_step_grow(redco_step *step, void **array, uint32_t *capacity, size_t element_bytes, uint32_t least)
{
    if (*capacity >= least) { return true; }
    uint64_t wanted = *capacity < 64 ? 128 : 2 * (uint64_t)*capacity;
    while (wanted < least) { wanted *= 2; }
    void *const larger = wanted > UINT32_MAX ? NULL : realloc(*array, (size_t)wanted * element_bytes);
    if (larger == NULL) {
        step->status = REDCO_ENOMEM;
        return false;
    }
    *array = larger;
    *capacity = (uint32_t)wanted;
    return true;
}

enum { RESERVED_OPS_MAX = 1 << 20 };

/* The four arrays that have one element per operator, and one more for the end of the last. */
static bool grow_ops(redco_step *step, uint32_t least)
{
    uint32_t capacity[4] = {step->op_capacity, step->op_capacity, step->op_capacity, step->op_capacity};
    if (least > REDCOI_STEP_OPS_MAX) {
        step->status = REDCO_EVALUE;
        return false;
    }
    const bool grown =
        redcoi_step_grow(step, (void **)&step->ops, &capacity[0], sizeof *step->ops, least) &&
        redcoi_step_grow(step, (void **)&step->next, &capacity[1], sizeof *step->next, least) &&
        redcoi_step_grow(step, (void **)&step->first_input, &capacity[2], sizeof *step->first_input, least) &&
        redcoi_step_grow(step, (void **)&step->first_memory, &capacity[3], sizeof *step->first_memory, least);
    if (grown) { step->op_capacity = capacity[3]; }
    return grown;
}

void redcoi_step_reserve(redco_step *step, uint64_t operators)
{
    const uint32_t least = operators < RESERVED_OPS_MAX ? (uint32_t)operators : RESERVED_OPS_MAX;
    if (grow_ops(step, least)) {
        (void)(redcoi_step_grow(step, (void **)&step->inputs, &step->input_capacity, sizeof *step->inputs, 2 * least) &&
               redcoi_step_grow(step, (void **)&step->memories, &step->memory_capacity, sizeof *step->memories, least));
    }
}

redco_step *redco_step_new(uint32_t ranks, double overlap_ratio)
{
    if (ranks == 0 || ranks > REDCOI_STEP_RANKS_MAX) { return NULL; }
    redco_step *const step = calloc(1, sizeof *step);
    if (step == NULL) { return NULL; }
    step->ranks = ranks;
    step->overlap_ratio = overlap_ratio;
    step->stream_ends = malloc((size_t)ranks * REDCO_STREAM_COUNT * sizeof *step->stream_ends);
    step->resident = calloc((size_t)ranks * REDCO_CATEGORY_COUNT, sizeof *step->resident);
    if (step->stream_ends == NULL || step->resident == NULL || !grow_ops(step, 2)) {
        redco_step_free(step);
        return NULL;
    }
    for (uint32_t i = 0; i < ranks * REDCO_STREAM_COUNT; i++) {
        step->stream_ends[i] = (redcoi_stream_end){REDCO_STEP_NONE, REDCO_STEP_NONE};
    }
    step->first_input[0] = 0;
    step->first_memory[0] = 0;
    return step;
}

static void *copy_of(const void *array, size_t count, size_t element_bytes)
{
    void *const copy = calloc(count + 1, element_bytes);
    if (copy != NULL && count > 0) { memcpy(copy, array, count * element_bytes); }
    return copy;
}

redco_step *redco_step_new_like(const redco_step *step)
{
    redco_step *const made = redco_step_new(step->ranks, step->overlap_ratio);
    if (made == NULL) { return NULL; }
    made->layers = copy_of(step->layers, step->layer_count, sizeof *step->layers);
    made->traffic = copy_of(step->traffic, step->traffic_count, sizeof *step->traffic);
    for (uint32_t i = 0; i < step->labels.count; i++) { (void)redco_names_add(&made->labels, step->labels.texts[i]); }
    if (made->labels.count < step->labels.count || made->layers == NULL || made->traffic == NULL) {
        redco_step_free(made);
        return NULL;
    }
    made->layer_count = step->layer_count;
    made->traffic_count = made->traffic_capacity = step->traffic_count;
    memcpy(made->resident, step->resident, (size_t)step->ranks * REDCO_CATEGORY_COUNT * sizeof *made->resident);
    made->micro_batches = step->micro_batches;
    return made;
}

void redco_step_free(redco_step *step)
{
    if (step == NULL) { return; }
    free(step->ops);
    free(step->next);
    free(step->first_input);
    free(step->first_memory);
    free(step->inputs);
    free(step->memories);
    free(step->traffic);
    redco_names_free(&step->labels);
    free(step->layers);
    free(step->passes);
    free(step->folds);
    free(step->trailing.at);
    free(step->late.at);
    free(step->late_ops.at);
    free(step->stream_ends);
    free(step->resident);
    free(step);
}

bool redcoi_numbers_add(redcoi_numbers *numbers, const uint32_t *more, uint32_t count)
{
    const uint32_t least = numbers->count + count;
    if (least > numbers->capacity) {
        uint32_t *const larger = realloc(numbers->at, 2 * (size_t)least * sizeof *larger);
        if (larger == NULL) { return false; }
        numbers->at = larger;
        numbers->capacity = 2 * least;
    }
    for (uint32_t i = 0; i < count; i++) { numbers->at[numbers->count++] = more[i]; }
    return true;
}

static bool valid(const redco_step *step, const redco_step_op *op, const uint32_t *inputs, uint32_t input_count)
{
    if (op->rank >= step->ranks || op->stream >= REDCO_STREAM_COUNT || op->work >= REDCO_WORK_COUNT ||
        op->link >= REDCO_LINK_COUNT || op->suffix > REDCO_SUFFIX_RECEIVE || op->pass > REDCO_PASS_NAME_RE ||
        op->label >= step->labels.count || op->fold > step->fold_count || !(op->seconds >= 0.0)) {
        return false;
    }
    if (op->traffic != REDCO_STEP_NONE && op->traffic >= step->traffic_count) { return false; }
    if (op->layer != REDCO_STEP_NONE && op->layer >= step->layer_count) { return false; }
    for (uint32_t i = 0; i < input_count; i++) {
        if (inputs[i] >= step->op_count) { return false; }
    }
    return true;
}

uint32_t redco_step_add(redco_step *step, const redco_step_op *op, const uint32_t *inputs, uint32_t input_count)
{
    if (step->status != REDCO_OK) { return REDCO_STEP_NONE; }
    if (!valid(step, op, inputs, input_count)) {
        step->status = REDCO_EVALUE;
        return REDCO_STEP_NONE;
    }
    if (!grow_ops(step, step->op_count + 2) ||
        !redcoi_step_grow(step, (void **)&step->inputs, &step->input_capacity, sizeof *step->inputs,
                          step->input_count + input_count)) {
        return REDCO_STEP_NONE;
    }
    const uint32_t index = step->op_count++;
    redcoi_stream_end *const stream_end = &step->stream_ends[op->rank * REDCO_STREAM_COUNT + op->stream];
    step->ops[index] = *op;
    step->next[index] = REDCO_STEP_NONE;
    if (stream_end->last == REDCO_STEP_NONE) {
        stream_end->first = index;
    } else {
        step->next[stream_end->last] = index;
    }
    stream_end->last = index;
    for (uint32_t i = 0; i < input_count; i++) { step->inputs[step->input_count++] = inputs[i]; }
    step->first_input[index + 1] = step->input_count;
    step->first_memory[index + 1] = step->memory_count;
    return index;
}

void redco_step_add_memory(redco_step *step, redco_memory_category category, int64_t bytes)
{
    if (step->status != REDCO_OK || bytes == 0) { return; }
    if (step->op_count == 0 || category >= REDCO_CATEGORY_COUNT) {
        step->status = REDCO_EVALUE;
        return;
    }
    if (!redcoi_step_grow(step, (void **)&step->memories, &step->memory_capacity, sizeof *step->memories,
                          step->memory_count + 1)) {
        return;
    }
    step->memories[step->memory_count++] = (redco_step_memory){bytes, category};
    step->first_memory[step->op_count] = step->memory_count;
}

void redco_step_hold(redco_step *step, uint32_t rank, redco_memory_category category, uint64_t bytes)
{
    if (rank >= step->ranks || category >= REDCO_CATEGORY_COUNT) {
        if (step->status == REDCO_OK) { step->status = REDCO_EVALUE; }
        return;
    }
    step->resident[(size_t)rank * REDCO_CATEGORY_COUNT + category] = bytes;
}

uint32_t redco_step_add_traffic(redco_step *step, const redco_step_traffic *traffic)
{
    if (step->status != REDCO_OK || !redcoi_step_grow(step, (void **)&step->traffic, &step->traffic_capacity,
                                                      sizeof *step->traffic, step->traffic_count + 1)) {
        return REDCO_STEP_NONE;
    }
    step->traffic[step->traffic_count] = *traffic;
    return step->traffic_count++;
}

uint32_t redco_step_add_label(redco_step *step, const char *label)
{
    char text[REDCOI_LABEL_BYTES];
    (void)snprintf(text, sizeof text, "%s", label);
    const uint32_t index = redco_names_add(&step->labels, text);
    if (index == REDCO_NO_NAME && step->status == REDCO_OK) { step->status = REDCO_ENOMEM; }
    return index;
}

uint32_t redco_step_find_label(const redco_step *step, const char *text)
{
    return redco_names_find(&step->labels, text);
}

uint32_t redco_step_layer_count(const redco_step *step)
{
    return step->layer_count;
}

redco_status redco_step_finish(redco_step *step, redco_error *err)
{
    switch (step->status) {
    case REDCO_OK: return REDCO_OK;
    case REDCO_ENOMEM: return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    default:
        if (step->op_count + 2 > REDCOI_STEP_OPS_MAX) {
            return redco_fail(err, REDCO_EVALUE, "step",
                              "has more than %d operators; fewer micro-batches can be built and the rest extrapolated",
                              REDCOI_STEP_OPS_MAX);
        }
        return redco_fail(err, REDCO_EVALUE, "step", "operator %u refers to something that does not exist",
                          step->op_count);
    }
}

const redco_step_op *redco_step_ops(const redco_step *step, uint32_t *count_out)
{
    *count_out = step->op_count;
    return step->ops;
}

const uint32_t *redco_step_inputs(const redco_step *step, uint32_t op, uint32_t *count_out)
{
    *count_out = step->first_input[op + 1] - step->first_input[op];
    return *count_out > 0 ? &step->inputs[step->first_input[op]] : NULL;
}

const redco_step_traffic *redco_step_traffic_of(const redco_step *step, uint32_t op)
{
    const uint32_t index = step->ops[op].traffic;
    return index != REDCO_STEP_NONE ? &step->traffic[index] : NULL;
}

const uint64_t *redco_step_resident_bytes(const redco_step *step, uint32_t rank)
{
    return &step->resident[(size_t)rank * REDCO_CATEGORY_COUNT];
}

uint64_t redco_step_micro_batches(const redco_step *step)
{
    return step->micro_batches;
}

const char *redco_step_suffix_name(redco_step_suffix suffix)
{
    static const char *const names[] = {
        "",           "input",   "weight",    "gather",     "scatter",       "reduce",   "tp_gather",
        "tp_scatter", "cp_ring", "cp_gather", "cp_scatter", "cp_all_to_all", "dispatch", "combine",
        "",           "",        ""};
    return names[suffix];
}

const char *redco_step_name(const redco_step *step, uint32_t op, char *buffer, size_t size)
{
    static const char *const passes[] = {"fwd", "bwd", "re"};
    const redco_step_op *const o = &step->ops[op];
    const char *const label = step->labels.texts[o->label];
    const char *const suffix = redco_step_suffix_name((redco_step_suffix)o->suffix);
    const char *const slash = suffix[0] != '\0' ? "/" : "";
    if (o->suffix == REDCO_SUFFIX_SEND || o->suffix == REDCO_SUFFIX_RECEIVE) {
        const char *const way = o->suffix == REDCO_SUFFIX_SEND ? "send" : "receive";
        (void)snprintf(buffer, size, "%s/stage.%u/%s", passes[o->pass], o->rank, way);
    } else if (o->suffix == REDCO_SUFFIX_SERIAL) {
        (void)snprintf(buffer, size, "%s.%u", label, o->serial);
    } else if (o->layer == REDCO_STEP_NONE) {
        (void)snprintf(buffer, size, "%s%s%s", label, slash, suffix);
    } else {
        const redcoi_step_layer *const layer = &step->layers[o->layer];
        (void)snprintf(buffer, size, "%s/%s.%u/%s%s%s", passes[o->pass], layer->class_name, layer->index, label, slash,
                       suffix);
    }
    return buffer;
}

const char *redco_step_layer_name(const redco_step *step, uint32_t layer, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%s.%u", step->layers[layer].class_name, step->layers[layer].index);
    return buffer;
}

const char *redco_stream_name(redco_stream stream)
{
    static const char *const names[] = {"compute",   "tensor parallel", "parameters", "secondary parameters",
                                        "gradients", "update",          "pipeline",   "expert exchange"};
    return names[stream];
}

const char *redco_work_name(redco_work work)
{
    static const char *const names[] = {
        "forward",    "recompute",       "backward", "grad_norm",       "optimizer",       "launch",
        "overhead",   "tensor_parallel", "context",  "expert_exchange", "gather",          "scatter",
        "grad_shard", "grad_reduce",     "update",   "pipeline",        "grad_norm_reduce"};
    return names[work];
}

const char *redco_memory_category_name(redco_memory_category category)
{
    static const char *const names[] = {"parameters", "gradients",  "optimizer", "reserve",   "activations",
                                        "logits",     "recomputed", "gathered",  "scattered", "buckets"};
    return names[category];
}

const char *redco_link_name(redco_link link)
{
    static const char *const names[] = {"none", "NVLink", "network"};
    return names[link];
}
