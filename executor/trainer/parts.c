#include "executor/trainer/trainer_internal.h"

#include <string.h>

/* A split dimension is [blocks, ranks, rest]: a rank has one of each @p ranks slices that follow one another.
 * @return bytes of a slice */
static size_t slice_bytes(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint64_t *count_out)
{
    *count_out = 1;
    if (layout.kind != REDCO_TP_SPLIT) { return redco_type_bytes(whole); }
    *count_out = layout.blocks;
    for (uint32_t d = 0; d < layout.dim; d++) { *count_out *= whole->dim[d]; }
    return redco_type_bytes(whole) / *count_out / ranks;
}

void redcoi_part_take(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint32_t rank,
                      const void *data, void *part_out)
{
    uint64_t count = 0;
    const size_t bytes = slice_bytes(layout, whole, ranks, &count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = layout.kind == REDCO_TP_SPLIT ? i * ranks + rank : 0;
        memcpy((unsigned char *)part_out + i * bytes, (const unsigned char *)data + at * bytes, bytes);
    }
}

void redcoi_part_put(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint32_t rank,
                     const void *part, void *data)
{
    uint64_t count = 0;
    const size_t bytes = slice_bytes(layout, whole, ranks, &count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = layout.kind == REDCO_TP_SPLIT ? i * ranks + rank : 0;
        memcpy((unsigned char *)data + at * bytes, (const unsigned char *)part + i * bytes, bytes);
    }
}

redco_drawn_part redcoi_part_drawn(redco_tp_layout layout, const redco_task_parameter *parameter, uint32_t ranks,
                                   uint32_t rank)
{
    redco_drawn_part part = {1, 1, 0};
    if (layout.kind != REDCO_TP_SPLIT) { return part; }
    part = (redco_drawn_part){layout.blocks, ranks, rank};
    for (uint32_t d = 0; d < layout.dim; d++) { part.rows *= parameter->dim[d]; }
    return part;
}
