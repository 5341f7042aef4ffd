/* The gradient rule and the decomposition of each operator. */
#include "costmodel/graph/decompose.h"
#include "costmodel/graph/operators.h"
#include "costmodel/graph/vjp.h"

#define RULES(kind, name, class, inputs_min, inputs_max, outputs, infer, vjp, decompose)                               \
    [REDCO_OP_##kind] = {vjp, decompose},
const redcoi_gradient_rule redcoi_gradient_rules[REDCO_OP_COUNT] = {REDCOI_OPERATORS(RULES)};

bool redco_op_is_fused(redco_op_kind kind)
{
    return redcoi_gradient_rules[kind].decompose != NULL;
}
