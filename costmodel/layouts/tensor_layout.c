#include "costmodel/layouts/tensor_layout.h"

#include <stdio.h>

redco_tp_layout redco_tp_replicated(void)
{
    return (redco_tp_layout){.kind = REDCO_TP_REPLICATED};
}

redco_tp_layout redco_tp_partial(void)
{
    return (redco_tp_layout){.kind = REDCO_TP_PARTIAL};
}

redco_tp_layout redco_tp_split(uint32_t dim)
{
    return (redco_tp_layout){.kind = REDCO_TP_SPLIT, .dim = dim, .blocks = 1};
}

bool redco_tp_equal(redco_tp_layout a, redco_tp_layout b)
{
    return a.kind == b.kind && (a.kind != REDCO_TP_SPLIT || (a.dim == b.dim && a.blocks == b.blocks));
}

const char *redco_tp_text(redco_tp_layout layout, char text[64])
{
    if (layout.kind != REDCO_TP_SPLIT) {
        (void)snprintf(text, 64, "%s", layout.kind == REDCO_TP_PARTIAL ? "partial" : "replicated");
    } else if (layout.blocks == 1) {
        (void)snprintf(text, 64, "split %u", layout.dim);
    } else {
        (void)snprintf(text, 64, "split %u in %llu blocks", layout.dim, (unsigned long long)layout.blocks);
    }
    return text;
}

bool redco_tp_fits(redco_tp_layout layout, const redco_tensor_type *type, uint32_t ranks)
{
    if (layout.kind != REDCO_TP_SPLIT) { return true; }
    return layout.dim < type->rank && layout.blocks > 0 && layout.blocks <= type->dim[layout.dim] &&
           type->dim[layout.dim] % layout.blocks == 0 && type->dim[layout.dim] / layout.blocks % ranks == 0;
}

redco_tensor_type redco_tp_local(redco_tp_layout layout, const redco_tensor_type *type, uint32_t ranks)
{
    redco_tensor_type local = *type;
    if (layout.kind == REDCO_TP_SPLIT) { local.dim[layout.dim] /= ranks; }
    return local;
}
