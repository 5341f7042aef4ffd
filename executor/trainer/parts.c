#include "executor/trainer/trainer_internal.h"

#include <string.h>

/* A split dimension is [blocks, ranks, rest]. */
void redcoi_part_take(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint32_t rank,
                      const void *data, void *part_out)
{
    const size_t bytes = redco_type_bytes(whole);
    if (layout.kind != REDCO_TP_SPLIT) {
        memcpy(part_out, data, bytes);
        return;
    }
    uint64_t pieces = layout.blocks;
    for (uint32_t d = 0; d < layout.dim; d++) { pieces *= whole->dim[d]; }
    const size_t piece_bytes = bytes / pieces / ranks;
    for (uint64_t p = 0; p < pieces; p++) {
        memcpy((unsigned char *)part_out + p * piece_bytes,
               (const unsigned char *)data + (p * ranks + rank) * piece_bytes, piece_bytes);
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
