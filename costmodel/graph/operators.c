/* The kinds of operators: names, classes, counts of inputs and outputs. */
#include "costmodel/graph/operators.h"

#define SHAPE(kind, name, class, inputs_min, inputs_max, outputs, infer, vjp, decompose)                               \
    [REDCO_OP_##kind] = {name, REDCO_CLASS_##class, inputs_min, inputs_max, outputs},
const redcoi_operator redcoi_operators[REDCO_OP_COUNT] = {REDCOI_OPERATORS(SHAPE)};

const char *redco_op_kind_name(redco_op_kind kind)
{
    return (unsigned)kind < REDCO_OP_COUNT ? redcoi_operators[kind].name : "?";
}

redco_op_class redco_op_kind_class(redco_op_kind kind)
{
    return redcoi_operators[kind].class;
}

uint32_t redco_op_overwrites(redco_op_kind kind)
{
    if (kind == REDCO_OP_ALL_REDUCE || kind == REDCO_OP_CROSS_ENTROPY_GRAD || kind == REDCO_OP_MATMUL_ADD) { return 1; }
    return redco_op_kind_class(kind) == REDCO_CLASS_ELEMENTWISE ? REDCO_INPUTS_MAX : 0;
}

uint32_t redco_op_kind_outputs(redco_op_kind kind)
{
    return redcoi_operators[kind].outputs;
}

bool redco_op_is_view(redco_op_kind kind)
{
    return kind == REDCO_OP_RESHAPE || kind == REDCO_OP_STOP_GRADIENT;
}
