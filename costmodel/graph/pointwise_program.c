#include "costmodel/graph/pointwise_program.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/decompose.h"
#include "costmodel/graph/infer.h"

#include <assert.h>
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

/** One element, of a rank. */
static redco_tensor_type constant_type(redco_dtype dtype, uint32_t rank)
{
    redco_tensor_type type = redco_type(dtype, 0, NULL);
    type.rank = rank;
    for (uint32_t i = 0; i < rank; i++) { type.dim[i] = 1; }
    return type;
}

static redco_attributes step_attributes(const redco_pointwise *p, const redco_pointwise_step *step)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (step->kind == REDCO_OP_CAST) { attributes.dtype = step->in[1]; }
    if (step->kind == REDCO_OP_POW) { attributes.scalar = p->constants[step->in[1]]; }
    return attributes;
}

static redco_status step_type(const redco_pointwise *p, uint32_t at, const char *place, redco_tensor_type *types,
                              redco_error *err)
{
    const redco_pointwise_step *const step = &p->steps[at];
    const redco_op_kind kind = (redco_op_kind)step->kind;
    redco_tensor_type in[3];
    if (kind == REDCO_OP_CONSTANT) {
        types[p->input_count + at] = constant_type((redco_dtype)step->in[1], types[0].rank);
        return REDCO_OK;
    }
    const redco_attributes attributes = step_attributes(p, step);
    redcoi_signature s = {.kind = kind,
                          .input_count = redco_pointwise_arity(kind),
                          .in = in,
                          .attributes = &attributes,
                          .err = err,
                          .place = place};
    for (uint32_t k = 0; k < s.input_count; k++) { in[k] = types[step->in[k]]; }
    const redco_status st = redcoi_operators[kind].infer(&s);
    types[p->input_count + at] = s.out[0];
    return st;
}

redco_status redco_pointwise_types(const redco_pointwise *program, const redco_tensor_type *inputs, const char *place,
                                   redco_tensor_type types_out[REDCO_POINTWISE_OPERANDS_MAX], redco_error *err)
{
    const redco_pointwise *const p = program;
    redco_status st = REDCO_OK;
    assert(p->input_count > 0);
    for (uint32_t i = 0; i < p->input_count; i++) { types_out[i] = inputs[i]; }
    for (uint32_t i = 0; i < p->step_count && st == REDCO_OK; i++) { st = step_type(p, i, place, types_out, err); }
    if (st != REDCO_OK) { return st; }
    const redco_tensor_type *const result = &types_out[p->outputs[0]];
    for (uint32_t i = 1; i < p->output_count; i++) {
        if (!redco_type_same_dims(result, &types_out[p->outputs[i]])) {
            return redco_fail(err, REDCO_EVALUE, place, "pointwise: results 0 and %u differ in dimensions", i);
        }
    }
    for (uint32_t i = 0; i < p->input_count + p->step_count; i++) {
        bool fits = types_out[i].rank == result->rank;
        for (uint32_t d = 0; d < result->rank && fits; d++) {
            fits = types_out[i].dim[d] == result->dim[d] || types_out[i].dim[d] == 1;
        }
        if (!fits) {
            return redco_fail(err, REDCO_EVALUE, place, "pointwise: operand %u is larger than the results", i);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_infer_pointwise(redcoi_signature *s)
{
    redco_pointwise program;
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX];
    if (!redco_pointwise_unpack(s->attributes, s->input_count, &program)) {
        return redcoi_mismatch(s, "the attributes are no program");
    }
    const redco_status st = redco_pointwise_types(&program, s->in, s->place, types, s->err);
    for (uint32_t i = 0; i < program.output_count && st == REDCO_OK; i++) { s->out[i] = types[program.outputs[i]]; }
    return st;
}

REDCOI_DECOMPOSE(pointwise)
{
    redco_pointwise p;
    redco_value values[REDCO_POINTWISE_OPERANDS_MAX], operands[3];
    if (redcoi_graph_failed(graph) || !redco_pointwise_unpack(attributes, input_count, &p)) { return; }
    memcpy(values, in, input_count * sizeof *values);
    for (uint32_t i = 0; i < p.step_count && !redcoi_graph_failed(graph); i++) {
        const redco_pointwise_step *const step = &p.steps[i];
        const redco_op_kind kind = (redco_op_kind)step->kind;
        if (kind == REDCO_OP_CONSTANT) {
            const redco_tensor_type type =
                constant_type((redco_dtype)step->in[1], redco_value_type(graph, in[0])->rank);
            values[input_count + i] = redco_constant(graph, &type, p.constants[step->in[0]]);
            continue;
        }
        const redco_attributes attributes_of = step_attributes(&p, step);
        const uint32_t arity = redco_pointwise_arity(kind);
        for (uint32_t k = 0; k < arity; k++) { operands[k] = values[step->in[k]]; }
        redco_graph_apply(graph, kind, operands, arity, &attributes_of, &values[input_count + i]);
    }
    for (uint32_t i = 0; i < p.output_count && !redcoi_graph_failed(graph); i++) { out[i] = values[p.outputs[i]]; }
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
