/* Operators that are put into a rank's graph, with the labels of the operator that they stand for. */
#include "costmodel/layouts/partition_internal.h"

#include <string.h>

redco_attributes redcoi_no_attributes(void)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    return attributes;
}

void redcoi_insert_all(redcoi_builder *b, const redco_op *like, redco_op_kind kind, const redco_attributes *attributes,
                       const redco_value *inputs, uint32_t count, redco_value *outputs_out)
{
    redco_op op = *like;
    op.kind = kind;
    op.input_count = count;
    op.attributes = attributes == NULL ? redcoi_no_attributes() : *attributes;
    op.origin = like->origin == REDCO_NO_OP ? REDCO_NO_OP : b->op_of[like->origin];
    if (kind != like->kind) {
        op.toward = REDCO_NO_VALUE;
    } /* both sides of a product read what one of them asked for */
    redco_graph_insert(b->local, &op, inputs, outputs_out);
}

redco_value redcoi_insert(redcoi_builder *b, const redco_op *like, redco_op_kind kind,
                          const redco_attributes *attributes, const redco_value *inputs, uint32_t count)
{
    redco_value out[REDCO_OUTPUTS_MAX];
    redcoi_insert_all(b, like, kind, attributes, inputs, count, out);
    return out[0];
}

redco_attributes redcoi_sized(const redco_tensor_type *type)
{
    redco_attributes a = redcoi_no_attributes();
    a.rank = type->rank;
    memcpy(a.size, type->dim, sizeof a.size);
    return a;
}

redco_value redcoi_reshape(redcoi_builder *b, const redco_op *like, redco_value value, const redco_tensor_type *type)
{
    const redco_attributes a = redcoi_sized(type);
    return redcoi_insert(b, like, REDCO_OP_RESHAPE, &a, &value, 1);
}

void redcoi_mark_group(const redcoi_builder *b, redco_attributes *attributes)
{
    attributes->group = b->options->group.id;
    attributes->ranks = b->ranks;
}

redco_value redcoi_own_slice(redcoi_builder *b, const redco_op *like, redco_value value, uint32_t dim, uint64_t begin,
                             uint64_t size)
{
    if (value == REDCO_NO_VALUE) { return value; }
    redco_attributes a = redcoi_sized(redco_value_type(b->local, value));
    a.begin[dim] = begin;
    a.size[dim] = size;
    redcoi_mark_group(b, &a);
    return redcoi_insert(b, like, REDCO_OP_SLICE, &a, &value, 1);
}
