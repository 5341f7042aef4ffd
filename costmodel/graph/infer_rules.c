/* The rule of type inference of each operator; a pointwise program's types are those of its steps. */
#include "costmodel/graph/infer.h"
#include "costmodel/graph/operators.h"
#include "costmodel/graph/pointwise_program.h"

#define INFER(kind, name, class, inputs_min, inputs_max, outputs, infer, vjp, decompose) [REDCO_OP_##kind] = (infer),
const redcoi_infer_rule redcoi_infer_rules[REDCO_OP_COUNT] = {REDCOI_OPERATORS(INFER)};

static redco_status step_type(const redco_pointwise *p, uint32_t at, const char *place, redco_tensor_type *types,
                              redco_error *err)
{
    const redco_pointwise_step *const step = &p->steps[at];
    const redco_op_kind kind = (redco_op_kind)step->kind;
    redco_tensor_type in[3];
    if (kind == REDCO_OP_CONSTANT) {
        types[p->input_count + at] = redco_pointwise_constant_type((redco_dtype)step->in[1], types[0].rank);
        return REDCO_OK;
    }
    const redco_attributes attributes = redco_pointwise_attributes(p, step);
    redcoi_signature s = {.kind = kind,
                          .input_count = redco_pointwise_arity(kind),
                          .in = in,
                          .attributes = &attributes,
                          .err = err,
                          .place = place};
    for (uint32_t k = 0; k < s.input_count; k++) { in[k] = types[step->in[k]]; }
    const redco_status st = redcoi_infer_rules[kind](&s);
    types[p->input_count + at] = s.out[0];
    return st;
}

redco_status redco_pointwise_types(const redco_pointwise *program, const redco_tensor_type *inputs, const char *place,
                                   redco_tensor_type types_out[REDCO_POINTWISE_OPERANDS_MAX], redco_error *err)
{
    const redco_pointwise *const p = program;
    redco_status st = REDCO_OK;
    types_out[0] = inputs[0]; /* no program is without inputs */
    for (uint32_t i = 1; i < p->input_count; i++) { types_out[i] = inputs[i]; }
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
