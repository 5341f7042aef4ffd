#include "executor/backend/backend.h"

void redco_backend_close(redco_backend *backend)
{
    if (backend != NULL) { backend->calls->close(backend); }
}

uint32_t redco_op_overwrites(redco_op_kind kind)
{
    if (kind == REDCO_OP_ALL_REDUCE || kind == REDCO_OP_CROSS_ENTROPY_GRAD) { return 1; }
    return redco_op_kind_class(kind) == REDCO_CLASS_ELEMENTWISE ? REDCO_INPUTS_MAX : 0;
}
