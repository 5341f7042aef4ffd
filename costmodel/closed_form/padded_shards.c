/* Elements of a rank's shards. */
#include "costmodel/closed_form/padded_shards.h"

/* Elements by which tensors and shards are aligned there. */
static const uint64_t tensor_granule = 128, shard_granule = 8;

static uint64_t round_up(uint64_t count, uint64_t granule)
{
    return (count + granule - 1) / granule * granule;
}

static uint64_t share_of(uint64_t count, uint64_t parts, uint64_t granule)
{
    return round_up((count + parts - 1) / parts, granule);
}

static redcoi_param_kind kind_of(const redco_param *tensor)
{
    return tensor->frozen ? REDCOI_FROZEN : tensor->assigned ? REDCOI_ASSIGNED : REDCOI_TRAINED;
}

/* Elements that the rank has beside its parts of the layer's tensors: heads of keys of which ranks are more, what
 * another layout leaves whole, the copy of a tied table; or lacks. */
static uint64_t with_others(const redcoi_job *job, uint64_t shard, uint64_t elements, uint64_t ranks)
{
    const uint64_t all = job->parallelism->pp > 1 ? job->own->gather_params : job->own->params;
    if (all >= elements) { return shard + share_of(all - elements, ranks, 1); }
    const uint64_t lacks = share_of(elements - all, ranks, 1);
    return shard > lacks ? shard - lacks : 0;
}

uint64_t redcoi_padded_shard(const redcoi_job *job, uint64_t ranks, unsigned kinds, uint8_t passes)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(job->costs->model, &tensors);
    const uint32_t class_index = (uint32_t)(job->class - job->costs->classes);
    const uint64_t granule = ranks == 1 ? tensor_granule : shard_granule;
    uint64_t sum = 0, elements = 0;
    for (size_t i = 0; i < count;) { /* tensors of a module are of one kind */
        const bool here = tensors[i].class_index == class_index && tensors[i].part == job->part;
        uint64_t end = 0;
        bool any = false;
        do {
            const bool held = tensors[i].frozen || (tensors[i].gradient_in & passes) != 0;
            const uint64_t params = here ? redcoi_tensor_params(&tensors[i], &job->rank->key) : 0;
            any = any || ((kind_of(&tensors[i]) & kinds) != 0 && held);
            end = round_up(end, tensor_granule) + params;
            elements += params;
        } while (++i < count && tensors[i].joined);
        sum += here && any ? share_of(end, ranks, granule) : 0;
    }
    return (kinds & REDCOI_TRAINED) != 0 ? with_others(job, sum, elements, ranks) : sum;
}

/* Elements that the fullest rank has of parameters of one kind, all that change in one way: of their shards, of kept
 * gradients, of optimizer states. */
struct changed {
    uint64_t shard, kept, owned;
};

uint64_t redcoi_fullest_owner(redco_costs *costs, redco_param_part part, uint32_t tp, uint64_t owners, bool assigned)
{
    for (uint32_t i = 0; i < REDCOI_OWNERS_CACHED; i++) {
        const redcoi_owners *const kept = &costs->owners[i];
        if (kept->tp == tp && kept->part == part && kept->owners == owners && kept->assigned == assigned) {
            return kept->params;
        }
    }
    redcoi_owners *const slot = &costs->owners[costs->next_owners];
    costs->next_owners = (costs->next_owners + 1) % REDCOI_OWNERS_CACHED;
    *slot = (redcoi_owners){tp, part, assigned, owners,
                            redco_fullest_owner_params(costs->model, part, tp, owners, assigned)};
    return slot->params;
}

/* Whole tensors: as uneven as their assignment. */
static uint64_t fullest_of(const redcoi_job *job, uint64_t shard, uint64_t owners, bool assigned)
{
    redco_costs *const costs = job->costs;
    const uint32_t tp = job->rank->key.tp;
    const uint64_t others = redcoi_fullest_owner(costs, job->part, tp, 1, true);
    const uint64_t all = assigned ? others : job->rank->trained_params[job->part] - others;
    return redco_share_up(shard, redcoi_fullest_owner(costs, job->part, tp, owners, assigned), all);
}

static struct changed changed_of(const redcoi_job *job, redcoi_param_kind kind)
{
    const uint64_t p = redco_mesh_ranks(job->shards.parameters), g = redco_mesh_ranks(job->shards.gradients);
    const uint64_t owners = redco_mesh_ranks(job->shards.optimizer) / p;
    const uint64_t shard = redcoi_padded_shard(job, p, kind, REDCO_IN_BOTH);
    struct changed has = {shard, shard, shard};
    if (shard == 0) { return has; }
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR || owners <= 1) {
        has.owned = owners <= 1 ? shard : share_of(shard, owners, shard_granule);
        has.shard = has.owned * owners;
        has.kept = has.shard / (g / p);
    } else {
        const bool assigned = kind == REDCOI_ASSIGNED;
        has.owned = fullest_of(job, shard, owners, assigned);
        if (g > p) { has.kept = fullest_of(job, shard, g / p, assigned); }
    }
    return has;
}

redcoi_states redcoi_padded_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    const uint64_t frozen = redcoi_padded_shard(job, ranks, REDCOI_FROZEN, REDCO_IN_BOTH);
    const struct changed trained = changed_of(job, REDCOI_TRAINED), assigned = changed_of(job, REDCOI_ASSIGNED);
    uint64_t held = round_up(round_up(trained.shard, tensor_granule) + frozen, tensor_granule) +
                    round_up(assigned.shard, tensor_granule);
    if (redcoi_has_secondary(job)) {
        const uint64_t second = redco_mesh_ranks(job->parallelism->secondary);
        held += redcoi_padded_shard(job, second, REDCOI_ALL_KINDS, REDCO_IN_BOTH);
    }
    return (redcoi_states){.parameter_bytes = held * bytes.parameter,
                           .gradient_bytes =
                               (round_up(trained.kept, tensor_granule) + round_up(assigned.kept, tensor_granule)) *
                               bytes.gradient,
                           .optimizer_bytes = round_up(trained.owned, tensor_granule) * bytes.optimizer +
                                              round_up(assigned.owned, tensor_granule) * bytes.master};
}
