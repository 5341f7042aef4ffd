#include "costmodel/engines/assumptions.h"

static const struct {
    redco_trait trait;
    const char *value, *why;
} all[] = {
    {REDCO_TRAIT_DISPATCHER, "alltoall", "NCCL's, which Megatron Core takes where no other is asked for"},
    {REDCO_TRAIT_EP_OVERLAP, "0", "overlap of exchanges with another micro-batch is asked for, not usual"},
    {REDCO_TRAIT_CUDA_GRAPHS, "none", "kernels are launched one by one unless graphs are asked for"},
    {REDCO_TRAIT_EXPERT_IMBALANCE, "1.3",
     "natural routing; 1.03 where a benchmark forces balance, 1 where rows are padded"},
    {REDCO_TRAIT_CAPACITY_FACTOR, "none", "no row is dropped"},
    {REDCO_TRAIT_MNNVL, "1", "experts use the NVLink of the whole rack"},
    {REDCO_TRAIT_RELEASE, "newest", "launches take longer in releases before 2025.11"},
};
enum { ASSUMPTIONS = sizeof all / sizeof all[0] };

static const redco_assumption of_ncclep = {"dispatcher", "ncclep", "no run with it is known: priced as DeepEP"};

bool redco_assumption_at(const redco_engine *engine, uint32_t hosts_per_node, size_t index,
                         redco_assumption *assumption_out)
{
    for (size_t i = 0; i < ASSUMPTIONS; i++) {
        const bool rack = all[i].trait == REDCO_TRAIT_MNNVL;
        if ((engine->stated >> all[i].trait & 1) != 0 || (rack && hosts_per_node <= 1)) { continue; }
        if (index-- > 0) { continue; }
        *assumption_out = (redco_assumption){redco_trait_words[all[i].trait], all[i].value, all[i].why};
        return true;
    }
    if (index == 0 && engine->dispatcher == REDCO_DISPATCHER_NCCLEP) {
        *assumption_out = of_ncclep;
        return true;
    }
    return false;
}

json_t *redco_assumptions_json(const redco_engine *engine, uint32_t hosts_per_node)
{
    json_t *const array = json_array();
    redco_assumption one;
    for (size_t i = 0; redco_assumption_at(engine, hosts_per_node, i, &one); i++) {
        json_t *const object = json_pack("{s:s,s:s,s:s}", "what", one.what, "value", one.value, "why", one.why);
        if (array == NULL || json_array_append_new(array, object) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}
