#include "planner/search/hull.h"

enum { TOLERANCE = 2 };

static uint32_t nodes_of(const redco_machine *machine, uint64_t ranks)
{
    const uint64_t nodes = (ranks + machine->gpus_per_node - 1) / machine->gpus_per_node;
    return nodes < machine->nodes ? (uint32_t)nodes : machine->nodes;
}

redco_reach redco_reach_of(const redco_machine *machine, uint32_t seq_len, const redco_parallelism *parallelism)
{
    const uint64_t inner = (uint64_t)parallelism->tp * parallelism->cp;
    return (redco_reach){.tokens = (uint64_t)parallelism->micro_batch * seq_len / parallelism->cp,
                         .cp_nodes = nodes_of(machine, inner),
                         .dp_nodes = nodes_of(machine, inner * redco_mesh_ranks(parallelism->dp))};
}

uint32_t redco_hull_beyond(const redco_hull *hull, const redco_parallelism *parallelism, const redco_reach *reach)
{
    const bool tokens = reach->tokens * TOLERANCE < hull->least_tokens || reach->tokens > hull->most_tokens * TOLERANCE;
    const bool context = parallelism->cp > 1 && reach->tokens * TOLERANCE < hull->least_context_tokens;
    return (parallelism->tp > hull->tp ? REDCO_BEYOND_TP : 0U) | (parallelism->cp > hull->cp ? REDCO_BEYOND_CP : 0U) |
           (parallelism->pp > hull->pp ? REDCO_BEYOND_PP : 0U) |
           (redco_parallelism_chunks(parallelism) > hull->chunks ? REDCO_BEYOND_CHUNKS : 0U) |
           (reach->cp_nodes > hull->cp_nodes * TOLERANCE ? REDCO_BEYOND_CP_NODES : 0U) |
           (reach->dp_nodes > hull->dp_nodes * TOLERANCE ? REDCO_BEYOND_DP_NODES : 0U) |
           (tokens ? REDCO_BEYOND_TOKENS : 0U) | (!tokens && context ? REDCO_BEYOND_CONTEXT_TOKENS : 0U);
}
