#include "costmodel/graph/pointwise_program.h"

#include "costmodel/graph/graph_internal.h"

#include <string.h>

bool redco_pointwise_has(redco_op_kind kind)
{
    return (unsigned)kind < REDCO_OP_COUNT && redco_op_kind_class(kind) == REDCO_CLASS_ELEMENTWISE &&
           !redco_op_is_view(kind) && redcoi_operators[kind].outputs == 1;
}

uint32_t redco_pointwise_arity(redco_op_kind kind)
{
    return redcoi_operators[kind].inputs_min;
}

/* Where the number of steps and that of constants stand, behind the results. */
enum { AXIS_STEPS = REDCO_POINTWISE_OUTPUTS_MAX, AXIS_CONSTANTS };
_Static_assert((int)AXIS_CONSTANTS < (int)REDCO_RANK_MAX, "the counts fit");

enum { HALF = REDCO_POINTWISE_STEPS_MAX / 2 };
_Static_assert(HALF * sizeof(redco_pointwise_step) == sizeof((redco_attributes *)0)->begin &&
                   HALF * sizeof(redco_pointwise_step) == sizeof((redco_attributes *)0)->whole &&
                   REDCO_POINTWISE_CONSTANTS_MAX * sizeof(double) == sizeof((redco_attributes *)0)->size,
               "a program fits");

void redco_pointwise_pack(const redco_pointwise *program, redco_attributes *attributes_out)
{
    redco_attributes *const a = attributes_out;
    memset(a, 0, sizeof *a);
    const uint32_t first = program->step_count < HALF ? program->step_count : HALF;
    memcpy(a->begin, program->steps, first * sizeof *program->steps);
    memcpy(a->whole, program->steps + first, (program->step_count - first) * sizeof *program->steps);
    memcpy(a->size, program->constants, program->constant_count * sizeof *program->constants);
    for (uint32_t i = 0; i < program->output_count; i++) { a->axis[i] = program->outputs[i]; }
    a->axis[AXIS_STEPS] = program->step_count;
    a->axis[AXIS_CONSTANTS] = program->constant_count;
    a->axis_count = program->output_count;
}

static bool step_is_sound(const redco_pointwise *p, uint32_t at)
{
    const redco_pointwise_step *const step = &p->steps[at];
    const uint32_t here = p->input_count + at;
    if (step->kind == REDCO_OP_CONSTANT) {
        return step->in[0] < p->constant_count && step->in[1] < REDCO_DTYPE_COUNT && step->in[2] == 0;
    }
    if (!redco_pointwise_has((redco_op_kind)step->kind)) { return false; }
    const uint32_t arity = redco_pointwise_arity((redco_op_kind)step->kind);
    for (uint32_t k = 0; k < 3; k++) {
        if (k < arity ? step->in[k] >= here : k != 1 && step->in[k] != 0) { return false; }
    }
    if (arity > 1) { return true; }
    if (step->kind == REDCO_OP_CAST) { return step->in[1] < REDCO_DTYPE_COUNT; }
    return step->kind == REDCO_OP_POW ? step->in[1] < p->constant_count : step->in[1] == 0;
}

bool redco_pointwise_unpack(const redco_attributes *attributes, uint32_t input_count, redco_pointwise *program_out)
{
    const redco_attributes *const a = attributes;
    redco_pointwise p;
    memset(&p, 0, sizeof p);
    p.input_count = input_count;
    p.step_count = a->axis[AXIS_STEPS];
    p.constant_count = a->axis[AXIS_CONSTANTS];
    p.output_count = a->axis_count;
    if (input_count == 0 || input_count > REDCO_POINTWISE_INPUTS_MAX || p.step_count == 0 ||
        p.step_count > REDCO_POINTWISE_STEPS_MAX || p.constant_count > REDCO_POINTWISE_CONSTANTS_MAX ||
        p.output_count == 0 || p.output_count > REDCO_POINTWISE_OUTPUTS_MAX) {
        return false;
    }
    const uint32_t first = p.step_count < HALF ? p.step_count : HALF;
    memcpy(p.steps, a->begin, first * sizeof *p.steps);
    memcpy(p.steps + first, a->whole, (p.step_count - first) * sizeof *p.steps);
    memcpy(p.constants, a->size, p.constant_count * sizeof *p.constants);
    for (uint32_t i = 0; i < p.step_count; i++) {
        if (!step_is_sound(&p, i)) { return false; }
    }
    for (uint32_t i = 0; i < p.output_count; i++) {
        const uint32_t operand = a->axis[i];
        if (operand < input_count || operand >= input_count + p.step_count) { return false; }
        for (uint32_t k = 0; k < i; k++) {
            if (p.outputs[k] == operand) { return false; }
        }
        p.outputs[i] = (uint8_t)operand;
    }
    *program_out = p;
    return true;
}

redco_tensor_type redco_pointwise_constant_type(redco_dtype dtype, uint32_t rank)
{
    redco_tensor_type type = redco_type(dtype, 0, NULL);
    type.rank = rank;
    for (uint32_t i = 0; i < rank; i++) { type.dim[i] = 1; }
    return type;
}

redco_attributes redco_pointwise_attributes(const redco_pointwise *p, const redco_pointwise_step *step)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (step->kind == REDCO_OP_CAST) { attributes.dtype = step->in[1]; }
    if (step->kind == REDCO_OP_POW) { attributes.scalar = p->constants[step->in[1]]; }
    return attributes;
}

/** By operand: the step that reads it last; the end of the program for results. */
static void last_reads(const redco_pointwise *p, uint32_t last_out[REDCO_POINTWISE_OPERANDS_MAX])
{
    memset(last_out, 0, REDCO_POINTWISE_OPERANDS_MAX * sizeof *last_out);
    for (uint32_t i = 0; i < p->step_count; i++) {
        const redco_op_kind kind = (redco_op_kind)p->steps[i].kind;
        const uint32_t arity = kind == REDCO_OP_CONSTANT ? 0 : redco_pointwise_arity(kind);
        last_out[p->input_count + i] = i;
        for (uint32_t k = 0; k < arity; k++) { last_out[p->steps[i].in[k]] = i; }
    }
    for (uint32_t i = 0; i < p->output_count; i++) { last_out[p->outputs[i]] = p->step_count; }
}

uint32_t redco_pointwise_registers(const redco_pointwise *program, uint8_t register_out[REDCO_POINTWISE_OPERANDS_MAX])
{
    const redco_pointwise *const p = program;
    uint32_t last[REDCO_POINTWISE_OPERANDS_MAX], until[REDCO_POINTWISE_OPERANDS_MAX], count = p->input_count;
    last_reads(p, last);
    for (uint32_t i = 0; i < p->input_count; i++) {
        register_out[i] = (uint8_t)i;
        until[i] = last[i];
    }
    for (uint32_t i = 0; i < p->step_count; i++) {
        /* A step may write over an operand that it is the last to read. */
        uint32_t at = 0;
        while (at < count && until[at] > i) { at++; }
        if (at == count) { count++; }
        register_out[p->input_count + i] = (uint8_t)at;
        until[at] = last[p->input_count + i] > i ? last[p->input_count + i] : i;
    }
    return count;
}
