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
    const redco_computed computed = shape->precision == REDCO_FP32 ? REDCO_COMPUTED_32
                                    : shape->engine.widens         ? REDCO_COMPUTED_16_WIDENED
                                                                   : REDCO_COMPUTED_16;
    if (degree == NULL) { return 0; }
    return redco_degree_value_bytes(degree, backward, computed, examples) + redco_degree_input_bytes(degree, examples);
}

uint64_t redcoi_graph_activation_bytes(const redco_graph_work *work, const redco_shape *shape)
{
    const uint64_t forward = pass_bytes(work, shape, false), backward = pass_bytes(work, shape, true);
    return forward > backward ? forward : backward;
}

enum kind { TRAINED = 1, ASSIGNED = 2, FROZEN = 4 };

static enum kind kind_of(const redco_param *tensor)
{
    return tensor->frozen ? FROZEN : tensor->assigned ? ASSIGNED : TRAINED;
}

/* Elements of the shards of modules of some kinds, of those that are not frozen where some passes hold their gradients,
 * on so many ranks. Tensors of a module are of one kind. */
static uint64_t shards_of(const redcoi_job *job, uint64_t ranks, unsigned kinds, uint8_t passes)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(job->costs->model, &tensors);
    const uint64_t granule = ranks == 1 ? tensor_granule : shard_granule;
    uint64_t sum = 0;
    for (size_t i = 0; i < count;) {
        uint64_t end = 0;
        bool any = false;
        do {
            any = any || ((kind_of(&tensors[i]) & kinds) != 0 &&
                          (tensors[i].frozen || (tensors[i].gradient_in & passes) != 0));
            end = round_up(end, tensor_granule) + redcoi_tensor_params(&tensors[i], &job->rank->key);
        } while (++i < count && tensors[i].joined);
        sum += any ? share_of(end, ranks, granule) : 0;
    }
    return sum;
}

static uint64_t frozen_shards(const redcoi_job *job, uint64_t ranks)
{
    return shards_of(job, ranks, FROZEN, REDCO_IN_BOTH);
}

/* Parameters that change, in whatever way. */
static uint64_t changed_shards(const redcoi_job *job, uint64_t ranks)
{
    return shards_of(job, ranks, TRAINED | ASSIGNED, REDCO_IN_BOTH);
}

uint64_t redcoi_graph_trained_params(const redcoi_job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    return ranks * changed_shards(job, ranks);
}

/* A module's gradient is whole in the passes that make and read it or, where it is scattered, to the end. */
void redcoi_graph_transients(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_state_bytes each = job->costs->state_bytes;
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    const bool sharded = ranks > 1;
    const redco_graph_work *const work = redco_model_graph_work(job->costs->model);
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const uint64_t whole = ranks * (changed_shards(job, ranks) + frozen_shards(job, ranks));
    uint64_t most = 0;
    for (uint32_t pass = REDCO_IN_FORWARD; pass <= REDCO_IN_BACKWARD; pass++) {
        const uint64_t made =
            ranks * shards_of(job, ranks, TRAINED | ASSIGNED, (uint8_t)(sharded ? REDCO_IN_FORWARD | pass : pass));
        const uint64_t bytes = pass_bytes(work, &shape, pass == REDCO_IN_BACKWARD) + made * each.gradient;
        most = bytes > most ? bytes : most;
    }
    cost->transient_bytes[REDCO_TRANSIENT_GATHER] = sharded ? whole * each.parameter : 0;
    cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = most > cost->activation_bytes ? most - cost->activation_bytes : 0;
}

/* Elements that the fullest rank has of parameters of one kind, all that change in one way: of their shards, of kept
 * gradients, of optimizer states. */
struct changed {
    uint64_t shard, kept, owned;
};

static struct changed changed_of(const redcoi_job *job, enum kind kind)
{
    const uint64_t p = redco_mesh_ranks(job->shards.parameters), g = redco_mesh_ranks(job->shards.gradients);
    const uint64_t owners = redco_mesh_ranks(job->shards.optimizer) / p, shard = shards_of(job, p, kind, REDCO_IN_BOTH);
    struct changed has = {shard, shard, shard};
    if (shard == 0) { return has; }
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR || owners <= 1) {
        has.owned = owners <= 1 ? shard : share_of(shard, owners, shard_granule);
        has.shard = has.owned * owners;
        has.kept = has.shard / (g / p);
    } else { /* whole tensors: as uneven as their assignment */
        const bool assigned = kind == ASSIGNED;
        const uint32_t tp = job->parallelism->tp;
        const uint64_t all = redco_fullest_owner_params(job->costs->model, job->part, tp, 1, assigned);
        has.owned =
            redco_share_up(shard, redco_fullest_owner_params(job->costs->model, job->part, tp, owners, assigned), all);
        if (g > p) {
            has.kept = redco_share_up(
                shard, redco_fullest_owner_params(job->costs->model, job->part, tp, g / p, assigned), all);
        }
    }
    return has;
}

redcoi_states redcoi_graph_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t frozen = frozen_shards(job, redco_mesh_ranks(job->shards.parameters));
    const uint64_t master_bytes = bytes.parameter == 2 ? 4 : 0;
    const struct changed trained = changed_of(job, TRAINED), assigned = changed_of(job, ASSIGNED);
    uint64_t held = round_up(round_up(trained.shard, tensor_granule) + frozen, tensor_granule) +
                    round_up(assigned.shard, tensor_granule);
    if (redcoi_has_secondary(job)) {
        const uint64_t second = redco_mesh_ranks(job->parallelism->secondary);
        held += changed_shards(job, second) + frozen_shards(job, second);
    }
    return (redcoi_states){.owned_params = trained.owned + assigned.owned,
                           .parameter_bytes = held * bytes.parameter,
                           .gradient_bytes =
                               (round_up(trained.kept, tensor_granule) + round_up(assigned.kept, tensor_granule)) *
                               bytes.gradient,
                           .optimizer_bytes = round_up(trained.owned, tensor_granule) * bytes.optimizer +
                                              round_up(assigned.owned, tensor_granule) * master_bytes};
}
