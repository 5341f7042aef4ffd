/* topology.conf: what is accepted is a forest of at most 16 tiers in which every host has one leaf. */
#include "topology/discovery/switch_tree.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_error err = {0};
    redcoi_tree *tree = NULL;
    const redco_status st = redcoi_tree_from_slurm((const char *)data, size, "topology.conf", &tree, &err);
    if ((st == REDCO_OK) != (tree != NULL) || (st == REDCO_OK) != (err.text[0] == '\0')) { abort(); }
    if (tree != NULL) {
        size_t hosts = 0;
        for (uint32_t i = 0; i < tree->switch_count; i++) {
            uint32_t tiers = 0;
            for (uint32_t up = i; up != REDCOI_NO_SWITCH; up = tree->switches[up].parent) {
                if (++tiers > REDCOI_MAX_TIERS) { abort(); }
            }
            hosts += tree->switches[i].host_count;
            if ((tree->switches[i].host_count == 0) == (tree->switches[i].child_count == 0)) { abort(); }
        }
        if (hosts == 0 || hosts != redco_hostlist_count(tree->hosts)) { abort(); }
    }
    redcoi_tree_free(tree);
    return 0;
}
