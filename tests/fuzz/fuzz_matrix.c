/* Tables of nvidia-smi and rocm-smi: what is accepted is a node with finite, symmetric links. */
#include "topology/discovery/node_internal.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_node *node = NULL;
    redco_error err = {0};
    const redco_node_gpu *gpus = NULL;
    const redco_status st = redcoi_node_from_matrix((const char *)data, size, "fuzz", &node, &err);
    if ((st == REDCO_OK) != (node != NULL) || (st == REDCO_OK) != (err.text[0] == '\0')) { abort(); }
    const size_t count = node != NULL ? redco_node_gpus(node, &gpus) : 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            const double link = redco_node_link(node, i, j);
            if (!isfinite(link) || link < 0.0 || link != redco_node_link(node, j, i)) { abort(); }
        }
    }
    redco_node_free(node);
    return 0;
}
