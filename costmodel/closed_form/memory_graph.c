/* Memory of a user's loss graph. Shards, their padding and their order are those of executor/states/shard_layout.c. */
#include "costmodel/closed_form/memory_graph.h"

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

uint64_t redcoi_graph_activation_bytes(const redco_graph_work *work, const redco_shape *shape)
{
    const redco_degree_work *const degree = redco_graph_work_of(work, shape->tp);
    const bool narrow = shape->precision != REDCO_FP32;
    if (degree == NULL) { return 0; }
    const uint64_t forward = redco_degree_value_bytes(degree, false, narrow, shape->micro_batch);
    const uint64_t backward = redco_degree_value_bytes(degree, true, narrow, shape->micro_batch);
    return (forward > backward ? forward : backward) + redco_degree_input_bytes(degree, shape->micro_batch);
}

/* Shards of all modules that are frozen, or of all others, on so many ranks. */
static uint64_t shards_of(const redcoi_job *job, uint64_t ranks, bool frozen)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(job->costs->model, &tensors);
    const uint64_t granule = ranks == 1 ? tensor_granule : shard_granule;
    uint64_t sum = 0, end = 0;
    for (size_t i = 0; i < count; i++) {
        if (!tensors[i].joined) {
            sum += share_of(end, ranks, granule);
            end = 0;
        }
        if (tensors[i].frozen != frozen) { continue; }
        end = round_up(end, tensor_granule) + redcoi_tensor_params(&tensors[i], job->parallelism->tp);
    }
    return sum + share_of(end, ranks, granule);
}

uint64_t redcoi_graph_whole_params(const redcoi_job *job, bool trained)
{
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    return ranks * (shards_of(job, ranks, false) + (trained ? 0 : shards_of(job, ranks, true)));
}

redcoi_states redcoi_graph_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t p = redco_mesh_ranks(job->shards.parameters), g = redco_mesh_ranks(job->shards.gradients);
    const uint64_t owners = redco_mesh_ranks(job->shards.optimizer) / p, frozen = shards_of(job, p, true);
    uint64_t trained = shards_of(job, p, false), kept = trained, owned;
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR || owners <= 1) {
        owned = owners <= 1 ? trained : share_of(trained, owners, shard_granule);
        trained = owned * owners;
        kept = trained / (g / p);
    } else { /* whole tensors: as uneven as they are dealt */
        const uint64_t all = job->rank->trained_params;
        const uint32_t tp = job->parallelism->tp;
        owned = redco_share_up(trained, redcoi_fullest_owner(job->costs, tp, owners), all);
        if (g > p) { kept = redco_share_up(trained, redcoi_fullest_owner(job->costs, tp, g / p), all); }
    }
    uint64_t held = round_up(round_up(trained, tensor_granule) + frozen, tensor_granule);
    if (redcoi_has_secondary(job)) {
        const uint64_t second = redco_mesh_ranks(job->parallelism->secondary);
        held += shards_of(job, second, false) + shards_of(job, second, true);
    }
    return (redcoi_states){.owned_params = owned,
                           .parameter_bytes = held * bytes.parameter,
                           .gradient_bytes = round_up(kept, tensor_granule) * bytes.gradient,
                           .optimizer_bytes = round_up(owned, tensor_granule) * bytes.optimizer};
}
