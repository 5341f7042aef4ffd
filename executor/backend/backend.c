#include "executor/backend/backend.h"

void redco_backend_close(redco_backend *backend)
{
    if (backend != NULL) { backend->calls->close(backend); }
}
