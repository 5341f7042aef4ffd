/* Groups of operators: what they read, hand out and move, and their programs. */
#include "costmodel/graph/fuse_internal.h"

#include "costmodel/graph/graph_internal.h"

#include <string.h>

redco_value redcoi_fuse_direct(const redco_graph *graph, redco_value value)
{
    const redco_op *op = redco_value_op(graph, value);
    while (op->kind == REDCO_OP_STOP_GRADIENT) {
        value = op->inputs[0];
        op = redco_value_op(graph, value);
    }
    return value;
}

bool redcoi_group_has(const redcoi_group *group, uint32_t op)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->op[i] == op) { return true; }
    }
    return false;
}

bool redcoi_group_makes(const redcoi_fuser *f, const redcoi_group *group, redco_value value)
{
    return redcoi_group_has(group, redco_value_op(f->graph, value)->id);
}

uint32_t redcoi_group_last(const redcoi_group *group)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        if (!group->again[i] && group->op[i] > last) { last = group->op[i]; }
    }
    return last;
}

/** @return whether an operator that has @p value's bytes among its inputs has all of them as @p value itself, not
 * reshaped. */
static bool reads_directly(const redcoi_fuser *f, const redco_op *reader, redco_value value)
{
    for (uint32_t k = 0; k < reader->input_count; k++) {
        const redco_value in = reader->inputs[k];
        if (f->root[in] == f->root[value] && redcoi_fuse_direct(f->graph, in) != value) { return false; }
    }
    return true;
}

bool redcoi_group_hands_out(const redcoi_fuser *f, const redcoi_group *group, redco_value value)
{
    const uint32_t maker = redco_value_op(f->graph, value)->id;
    const redco_value root = f->root[value];
    if (f->wanted[root]) { return true; }
    for (uint32_t i = f->reader_at[root]; i < f->reader_at[root + 1]; i++) {
        const uint32_t reader = f->reader[i];
        const uint32_t g = f->group_of[reader];
        const redcoi_group *const its = redcoi_group_has(group, reader) ? group
                                        : g == REDCOI_NO_GROUP          ? NULL
                                                                        : f->groups[g];
        if (its == NULL || !redcoi_group_has(its, maker)) { return true; }
        if (!reads_directly(f, redco_graph_op(f->graph, reader), value)) { return true; }
    }
    return false;
}

static bool add_value(redco_value *values, uint32_t *count, uint32_t limit, redco_value value)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (values[i] == value) { return true; }
    }
    if (*count == limit) { return false; }
    values[(*count)++] = value;
    return true;
}

/** By operator of the group: whether it is handed out or another one reads it. */
static void find_needed(const redcoi_fuser *f, const redcoi_group *group, bool needed_out[REDCO_POINTWISE_STEPS_MAX])
{
    for (uint32_t i = group->count; i-- > 0;) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        needed_out[i] = false;
        for (uint32_t k = 0; k < op->output_count && !needed_out[i]; k++) {
            const redco_value value = op->first_output + k;
            needed_out[i] = !group->again[i] && redcoi_group_hands_out(f, group, value);
            for (uint32_t j = i + 1; j < group->count && !needed_out[i]; j++) {
                const redco_op *const later = redco_graph_op(f->graph, group->op[j]);
                for (uint32_t n = 0; n < later->input_count && needed_out[j]; n++) {
                    needed_out[i] = needed_out[i] || redcoi_fuse_direct(f->graph, later->inputs[n]) == value;
                }
            }
        }
    }
}

enum { VALUES_MAX = REDCO_POINTWISE_STEPS_MAX * REDCO_POINTWISE_INPUTS_MAX };

/** Lists the values that the group reads besides constants. @return false if that is more than @p limit */
static bool find_inputs(const redcoi_fuser *f, const redcoi_group *group, const bool *needed, uint32_t limit,
                        redco_value *inputs_out, uint32_t *count_out)
{
    *count_out = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; needed[i] && k < op->input_count; k++) {
            const redco_value in = redcoi_fuse_direct(f->graph, op->inputs[k]);
            const redco_op *const maker = redco_value_op(f->graph, in);
            if (maker->kind == REDCO_OP_CONSTANT || redcoi_group_has(group, maker->id)) { continue; }
            if (!add_value(inputs_out, count_out, limit, in)) { return false; }
        }
    }
    return true;
}

uint64_t redcoi_group_bytes(const redcoi_fuser *f, const redcoi_group *group)
{
    redco_value inputs[VALUES_MAX];
    bool needed[REDCO_POINTWISE_STEPS_MAX];
    uint32_t count = 0;
    uint64_t bytes = 0;
    find_needed(f, group, needed);
    (void)find_inputs(f, group, needed, VALUES_MAX, inputs, &count);
    for (uint32_t i = 0; i < count; i++) { bytes += redco_type_bytes(redco_value_type(f->graph, inputs[i])); }
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; k < op->output_count && !group->again[i]; k++) {
            const redco_value out = op->first_output + k;
            if (redcoi_group_hands_out(f, group, out)) { bytes += redco_type_bytes(redco_value_type(f->graph, out)); }
        }
    }
    return bytes;
}

/** A program being written. */
typedef struct writer {
    const redcoi_fuser *f;
    const redcoi_group *group;
    redcoi_fusion *fusion;
    redco_value value[REDCO_POINTWISE_STEPS_MAX]; /**< that a step makes, or REDCO_NO_VALUE */
} writer;

static bool add_step(writer *w, redco_pointwise_step step, redco_value value, uint8_t *operand_out)
{
    redco_pointwise *const p = &w->fusion->program;
    if (p->step_count == REDCO_POINTWISE_STEPS_MAX) { return false; }
    w->value[p->step_count] = value;
    p->steps[p->step_count] = step;
    *operand_out = (uint8_t)(p->input_count + p->step_count++);
    return true;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/** By bits: 0 and -0 differ. */
static bool add_scalar(redco_pointwise *p, double scalar, uint8_t *index_out)
{
    uint32_t at = 0;
    while (at < p->constant_count && bits_of(p->constants[at]) != bits_of(scalar)) { at++; }
    if (at == REDCO_POINTWISE_CONSTANTS_MAX) { return false; }
    p->constants[at] = scalar;
    if (at == p->constant_count) { p->constant_count++; }
    *index_out = (uint8_t)at;
    return true;
}

static bool add_constant(writer *w, double scalar, redco_dtype dtype, uint8_t *operand_out)
{
    redco_pointwise *const p = &w->fusion->program;
    redco_pointwise_step step = {REDCO_OP_CONSTANT, {0, (uint8_t)dtype, 0}};
    if (!add_scalar(p, scalar, &step.in[0])) { return false; }
    for (uint32_t i = 0; i < p->step_count; i++) {
        if (memcmp(&p->steps[i], &step, sizeof step) != 0) { continue; }
        *operand_out = (uint8_t)(p->input_count + i);
        return true;
    }
    return add_step(w, step, REDCO_NO_VALUE, operand_out);
}

static bool find_operand(writer *w, redco_value in, uint8_t *operand_out)
{
    const redco_pointwise *const p = &w->fusion->program;
    const redco_value value = redcoi_fuse_direct(w->f->graph, in);
    const redco_op *const maker = redco_value_op(w->f->graph, value);
    if (maker->kind == REDCO_OP_CONSTANT) {
        return add_constant(w, maker->attributes.scalar, (redco_dtype)maker->attributes.dtype, operand_out);
    }
    for (uint32_t i = 0; i < p->input_count; i++) {
        if (w->fusion->inputs[i] != value) { continue; }
        *operand_out = (uint8_t)i;
        return true;
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        if (w->value[i] != value) { continue; }
        *operand_out = (uint8_t)(p->input_count + i);
        return true;
    }
    return false;
}

static bool write_basic(writer *w, const redco_op *op)
{
    redco_pointwise_step step = {(uint8_t)op->kind, {0, 0, 0}};
    uint8_t operand;
    for (uint32_t k = 0; k < op->input_count; k++) {
        if (!find_operand(w, op->inputs[k], &step.in[k])) { return false; }
    }
    if (op->kind == REDCO_OP_CAST) { step.in[1] = (uint8_t)op->attributes.dtype; }
    if (op->kind == REDCO_OP_POW && !add_scalar(&w->fusion->program, op->attributes.scalar, &step.in[1])) {
        return false;
    }
    return add_step(w, step, op->first_output, &operand);
}

/** The steps of a program that was made before. */
static bool write_program(writer *w, const redco_op *op)
{
    redco_pointwise p;
    uint8_t operand[REDCO_POINTWISE_OPERANDS_MAX];
    if (!redco_pointwise_unpack(&op->attributes, op->input_count, &p)) { return false; }
    for (uint32_t k = 0; k < op->input_count; k++) {
        if (!find_operand(w, op->inputs[k], &operand[k])) { return false; }
    }
    for (uint32_t i = 0; i < p.step_count; i++) {
        redco_pointwise_step step = p.steps[i];
        uint8_t *const here = &operand[p.input_count + i];
        redco_value value = REDCO_NO_VALUE;
        if (step.kind == REDCO_OP_CONSTANT) {
            if (!add_constant(w, p.constants[step.in[0]], (redco_dtype)step.in[1], here)) { return false; }
            continue;
        }
        const uint32_t arity = redco_pointwise_arity((redco_op_kind)step.kind);
        for (uint32_t k = 0; k < arity; k++) { step.in[k] = operand[step.in[k]]; }
        if (step.kind == REDCO_OP_POW && !add_scalar(&w->fusion->program, p.constants[step.in[1]], &step.in[1])) {
            return false;
        }
        for (uint32_t k = 0; k < p.output_count; k++) {
            if (p.outputs[k] == p.input_count + i) { value = op->first_output + k; }
        }
        if (!add_step(w, step, value, here)) { return false; }
    }
    return true;
}

static bool write_outputs(writer *w)
{
    redco_pointwise *const p = &w->fusion->program;
    for (uint32_t i = 0; i < p->step_count; i++) {
        if (w->value[i] == REDCO_NO_VALUE) { continue; }
        const uint32_t maker = redco_value_op(w->f->graph, w->value[i])->id;
        bool again = false;
        for (uint32_t k = 0; k < w->group->count; k++) {
            again = again || (w->group->op[k] == maker && w->group->again[k]);
        }
        if (again || !redcoi_group_hands_out(w->f, w->group, w->value[i])) { continue; }
        if (p->output_count == REDCO_POINTWISE_OUTPUTS_MAX) { return false; }
        w->fusion->outputs[p->output_count] = w->value[i];
        p->outputs[p->output_count++] = (uint8_t)(p->input_count + i);
    }
    return p->output_count > 0;
}

/** @return whether the program's types are those of the graph, all of one size, and the device has it. */
static bool is_supported(const redcoi_fuser *f, const redcoi_fusion *fusion)
{
    const redco_pointwise *const p = &fusion->program;
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX], inputs[REDCO_POINTWISE_INPUTS_MAX];
    redco_tensor_type outputs[REDCO_OUTPUTS_MAX];
    redco_error ignored = {0};
    redco_op op = {.kind = REDCO_OP_POINTWISE, .input_count = p->input_count, .output_count = p->output_count};
    for (uint32_t i = 0; i < p->input_count; i++) { inputs[i] = *redco_value_type(f->graph, fusion->inputs[i]); }
    if (redco_pointwise_types(p, inputs, "", types, &ignored) != REDCO_OK) { return false; }
    for (uint32_t i = 0; i < p->output_count; i++) {
        outputs[i] = types[p->outputs[i]];
        if (!redco_type_equal(&outputs[i], redco_value_type(f->graph, fusion->outputs[i]))) { return false; }
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        /* A value that is smaller than the results would be computed once for each of their elements. */
        if (p->steps[i].kind != REDCO_OP_CONSTANT && !redco_type_same_dims(&types[p->input_count + i], &outputs[0])) {
            return false;
        }
    }
    redco_pointwise_pack(p, &op.attributes);
    const redco_fuse_choice *const choice = &f->options.choice;
    return choice->supports == NULL || choice->supports(choice->context, &op, inputs, outputs);
}

bool redcoi_fusion_make(const redcoi_fuser *f, const redcoi_group *group, redcoi_fusion *fusion_out)
{
    bool needed[REDCO_POINTWISE_STEPS_MAX];
    writer w = {.f = f, .group = group, .fusion = fusion_out};
    memset(fusion_out, 0, sizeof *fusion_out);
    find_needed(f, group, needed);
    if (!find_inputs(f, group, needed, REDCO_POINTWISE_INPUTS_MAX, fusion_out->inputs,
                     &fusion_out->program.input_count) ||
        fusion_out->program.input_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < fusion_out->program.input_count; i++) {
        /* A part that reads another one reshaped. */
        if (redcoi_group_makes(f, group, f->root[fusion_out->inputs[i]])) { return false; }
    }
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        if (!needed[i]) { continue; }
        if (!(op->kind == REDCO_OP_POINTWISE ? write_program : write_basic)(&w, op)) { return false; }
    }
    return write_outputs(&w) && is_supported(f, fusion_out);
}
