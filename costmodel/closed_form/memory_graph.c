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

static uint64_t pass_bytes(const redco_graph_work *work, const redco_shape *shape, bool backward)
{
    const redco_degree_work *const degree = redco_graph_work_of(work, shape->tp);
    const uint64_t examples = shape->micro_batch;
    if (degree == NULL) { return 0; }
    return redco_degree_value_bytes(degree, backward, shape->precision != REDCO_FP32, examples) +
           redco_degree_input_bytes(degree, examples);
}

uint64_t redcoi_graph_activation_bytes(const redco_graph_work *work, const redco_shape *shape)
{
    const uint64_t forward = pass_bytes(work, shape, false), backward = pass_bytes(work, shape, true);
    return forward > backward ? forward : backward;
}

/* Elements of the shards of modules that are frozen, or of those whose gradients some passes hold, on so many ranks.
 * Tensors of a module are frozen together. */
static uint64_t shards_of(const redcoi_job *job, uint64_t ranks, bool frozen, uint8_t passes)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(job->costs->model, &tensors);
    const uint64_t granule = ranks == 1 ? tensor_granule : shard_granule;
    uint64_t sum = 0;
    for (size_t i = 0; i < count;) {
        uint64_t end = 0;
        bool any = false;
        do {
            any = any || (tensors[i].frozen == frozen && (frozen || (tensors[i].gradient_in & passes) != 0));
            end = round_up(end, tensor_granule) + redcoi_tensor_params(&tensors[i], job->parallelism->tp);
        } while (++i < count && tensors[i].joined);
        sum += any ? share_of(end, ranks, granule) : 0;
    }
    return sum;
}

static uint64_t frozen_shards(const redcoi_job *job, uint64_t ranks)
{
    return shards_of(job, ranks, true, REDCO_IN_BOTH);
}

static uint64_t trained_shards(const redcoi_job *job, uint64_t ranks)
{
    return shards_of(job, ranks, false, REDCO_IN_BOTH);
}

uint64_t redcoi_graph_trained_params(const redcoi_job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    return ranks * trained_shards(job, ranks);
}

/* A module's gradient is whole in the passes that make and read it or, where it is scattered, to the end. */
void redcoi_graph_transients(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_state_bytes each = job->costs->state_bytes;
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    const bool sharded = ranks > 1;
    const redco_graph_work *const work = redco_model_graph_work(job->costs->model);
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const uint64_t whole = ranks * (trained_shards(job, ranks) + frozen_shards(job, ranks));
    uint64_t most = 0;
    for (uint32_t pass = REDCO_IN_FORWARD; pass <= REDCO_IN_BACKWARD; pass++) {
        const uint64_t made = ranks * shards_of(job, ranks, false, (uint8_t)(sharded ? REDCO_IN_FORWARD | pass : pass));
        const uint64_t bytes = pass_bytes(work, &shape, pass == REDCO_IN_BACKWARD) + made * each.gradient;
        most = bytes > most ? bytes : most;
    }
    cost->transient_bytes[REDCO_TRANSIENT_GATHER] = sharded ? whole * each.parameter : 0;
    cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = most > cost->activation_bytes ? most - cost->activation_bytes : 0;
}

redcoi_states redcoi_graph_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t p = redco_mesh_ranks(job->shards.parameters), g = redco_mesh_ranks(job->shards.gradients);
    const uint64_t owners = redco_mesh_ranks(job->shards.optimizer) / p, frozen = frozen_shards(job, p);
    uint64_t trained = trained_shards(job, p), kept = trained, owned;
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR || owners <= 1) {
        owned = owners <= 1 ? trained : share_of(trained, owners, shard_granule);
        trained = owned * owners;
        kept = trained / (g / p);
    } else { /* whole tensors: as uneven as their assignment */
        const uint64_t all = job->rank->trained_params;
        const uint32_t tp = job->parallelism->tp;
        owned = redco_share_up(trained, redcoi_fullest_owner(job->costs, tp, owners), all);
        if (g > p) { kept = redco_share_up(trained, redcoi_fullest_owner(job->costs, tp, g / p), all); }
    }
    uint64_t held = round_up(round_up(trained, tensor_granule) + frozen, tensor_granule);
    if (redcoi_has_secondary(job)) {
        const uint64_t second = redco_mesh_ranks(job->parallelism->secondary);
        held += trained_shards(job, second) + frozen_shards(job, second);
    }
    return (redcoi_states){.owned_params = owned,
                           .parameter_bytes = held * bytes.parameter,
                           .gradient_bytes = round_up(kept, tensor_granule) * bytes.gradient,
                           .optimizer_bytes = round_up(owned, tensor_granule) * bytes.optimizer};
}
