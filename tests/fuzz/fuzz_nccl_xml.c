#include "topology/discovery/node_internal.h"

#include <math.h>
#include <stdlib.h>

/* hwloc XML is hwloc's; this is the reader of NCCL's, behind the check that tells them apart. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redcoi_xml_kind kind = REDCOI_XML_HWLOC;
    char *hwloc_text = NULL;
    size_t hwloc_size = 0;
    redco_node *node = NULL;
    redco_error err = {0};
    const redco_node_nic *nics = NULL;
    const char *text = (const char *)data;
    if (redcoi_xml_check(text, size, "fuzz", &kind, &hwloc_text, &hwloc_size, &err) != REDCO_OK) { return 0; }
    if (kind == REDCOI_XML_NCCL && redcoi_node_from_nccl(text, size, "fuzz", size & 1, &node, &err) == REDCO_OK) {
        const size_t count = redco_node_nics(node, &nics);
        for (size_t i = 0; i < count; i++) {
            if (!isfinite(nics[i].bytes_per_s) || nics[i].bytes_per_s < 0.0) { abort(); }
        }
        json_t *json = redco_node_describe(node);
        if (json == NULL) { abort(); }
        json_decref(json);
    }
    redco_node_free(node);
    free(hwloc_text);
    return 0;
}
