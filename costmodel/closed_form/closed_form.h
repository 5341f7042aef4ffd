/** @file closed_form.h  The cost of one layer under one configuration, and of a whole step of a strategy: the closed
 *  form that the planner optimises over (the event simulator is its reference). All times are per step and per rank.
 *
 *  The step is linear in the layers except for two windows: with n layers,
 *      step_s = scale * ( fixed_s + sum over layers (compute_s + exposed_s + optimizer_s)
 *                         + window(grad_comm_s, grad_window_s) + window(param_sync_comm_s, param_sync_window_s) ) +
 * overhead_s window(X, C) = X                                                            if that traffic is not
 * overlapped = max( window_hidden_factor X, X - window_use C )  over the sums X, C of all layers, if it is memory_bytes
 * = sum over layers resident bytes (parameter + gradient + optimizer + activation) + fixed_bytes
 *                     + sum over kinds of transient of the largest transient_bytes[kind] of any layer
 *  so that it fits a linear program exactly. Formulas: STEP.md. */
#ifndef REDCO_CLOSED_FORM_H
#define REDCO_CLOSED_FORM_H

#include "costmodel/collectives/collective.h"
#include "costmodel/engines/calibration.h"
#include "costmodel/engines/engine.h"
#include "costmodel/models/model.h"
#include "costmodel/operators/compute.h"
#include "costmodel/schedules/parallelism.h"
#include "costmodel/schedules/stages.h"
#include "topology/base/sharding.h"
#include "topology/discovery/topology.h"
#include "topology/ranks/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The training, given by the user. */
typedef struct redco_workload {
    uint32_t seq_len;
    uint64_t global_batch; /**< sequences a step */
    redco_precision precision;
    uint32_t overlap;      /**< redco_overlap bits */
    bool mfu_causal;       /**< MFU counts half of attention */
    uint64_t bucket_bytes; /**< U: gradient all-reduce bucket, e.g. 1 GiB */
    redco_engine engine;   /**< zeroed: see there */
} redco_workload;

/** The degrees of a parallelism on a machine. */
redco_parallel redco_parallelism_parallel(const redco_machine *machine, const redco_engine *engine,
                                          const redco_parallelism *parallelism);
/** The ranks over which states may be sharded, as a mesh that every mesh of a redco_shards divides: the data-parallel
 *  ranks, or, where the engine shards over context-parallel ranks, too, all of both, the latter first:
 *  1x1 is then replicated and the whole grid fully sharded also where there is one data-parallel rank. */
redco_mesh redco_shard_grid(const redco_machine *machine, const redco_engine *engine,
                            const redco_parallelism *parallelism);

/** The inner choice, per layer. */
typedef struct redco_layer_config {
    redco_shards shards;
    redco_recompute recompute;
} redco_layer_config;

/** Transient buffers that exist once when any layer needs them. */
enum {
    REDCO_TRANSIENT_GATHER = 0, /**< gathered weights in flight: parameters sharded */
    REDCO_TRANSIENT_GRADIENT,   /**< full gradient of a layer before it is scattered */
    REDCO_TRANSIENT_RECOMPUTE,  /**< working set of a recomputed layer */
    REDCO_TRANSIENT_SELECTIVE,  /**< attention scores computed again */
    REDCO_TRANSIENT_NCCL,       /**< NCCL's buffers for the layer's data-parallel communicators */
    REDCO_TRANSIENT_COUNT
};

typedef struct redco_layer_cost {
    double compute_s; /**< forward + backward + recomputation, exposed tensor-parallel traffic included */
    double exposed_s; /**< gathers, reduce-scatters, per-micro-batch reductions that no compute hides, launches, and the
                           slow-down that hidden ones cause */
    double grad_comm_s, grad_window_s;             /**< once a step: gradient reduction; last micro-batch's backward */
    double param_sync_comm_s, param_sync_window_s; /**< once a step: updated parameters; first micro-batch's forward */
    double optimizer_s;                            /**< update of the owned states */
    /** Seconds of one micro-batch: forward, and backward with recomputation; with what they expose, and computation
     * alone. */
    double pass_forward_s, pass_backward_s, bare_forward_s, bare_backward_s;
    double once_s;   /**< part of exposed_s that is paid once a step */
    double stream_s; /**< gathers and scatters of a micro-batch that one stream runs one after the other */
    double gather_forward_s, gather_backward_s; /**< gathers that forward and backward of one issue and wait for */
    double traffic_s; /**< all traffic of a micro-batch beside them, reductions of gradients included */
    /* For reports. */
    double forward_s, backward_s, recompute_s; /**< parts of compute_s */
    double tp_s;                               /**< tensor-parallel traffic, whole, hidden or not */
    double dynamic_j;                          /**< above idle, of one GPU */
    /** This layer's share of AMSP's T_comm, equations of section IV-C with times as measured or modelled alone, before
     *  calibration: T_p (gathers, reduce-scatters), T_os0, T_g, T_os1. amsp_s is their sum. */
    double gather_s, reduce_scatter_s, grad_reduce_s, grad_shard_s, broadcast_s;
    double amsp_s;
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes; /**< resident on the fullest rank */
    uint64_t transient_bytes[REDCO_TRANSIENT_COUNT]; /**< needed once if a layer like this exists */
    /** Eager PyTorch, when activations are gone: gradients that were not there before, and copies of the update. */
    uint64_t later_bytes, update_bytes;
    uint64_t host_bytes; /**< states in the memory of the host */
} redco_layer_cost;

/** Costs that do not depend on the layers' configurations. */
typedef struct redco_fixed_cost {
    double fixed_s;               /**< loss and other work outside layers */
    double overhead_s;            /**< t_0 */
    double scale;                 /**< 1 + varsigma log2(nodes) */
    uint64_t fixed_bytes;         /**< logits, workspace, reserve, nccl_bytes */
    uint64_t logits_bytes;        /**< those of them that a stage without the head does not have */
    uint64_t nccl_bytes;          /**< NCCL's buffers for communicators of tensor, context and pipeline parallelism */
    uint64_t capacity_bytes;      /**< the most a plan may use */
    double window_hidden_factor;  /**< 0.03 and the least contention that any traffic has */
    double window_use;            /**< (1 - that contention) y */
    double model_flops_per_token; /**< MFU convention of the workload */
    double peak_flops_per_s;      /**< per GPU */
} redco_fixed_cost;

/** @p layers members of class @p class_index that use @p config. */
typedef struct redco_assignment {
    uint32_t class_index;
    uint32_t layers;
    redco_layer_config config;
} redco_assignment;

/** The object "predicted" of plan files. */
typedef struct redco_prediction {
    double step_s, tokens_per_s_per_gpu, mfu, model_flops_per_token;
    double compute_s;      /**< forward_s + backward_s + recompute_s, exposed tensor-parallel traffic included */
    double exposed_comm_s; /**< grad_reduce_exposed_s + param_sync_exposed_s + layer_exposed_s */
    double forward_s, backward_s, recompute_s, optimizer_s;
    double other_s; /**< step_s less compute_s, exposed_comm_s, optimizer_s: overhead, scale, pipeline transfers */
    double grad_reduce_exposed_s, param_sync_exposed_s, layer_exposed_s;
    double gather_s, reduce_scatter_s, grad_reduce_s, grad_shard_s, broadcast_s; /**< as in redco_layer_cost */
    double tp_s, amsp_total_s;
    double dynamic_j;    /**< above idle, of one GPU */
    redco_energy energy; /**< power.h */
    /** total_bytes without reserve and NCCL's buffers: what the framework's allocator holds */
    uint64_t allocated_bytes;
    /** transient_bytes holds fixed_bytes too, less NCCL's; the six components add up to total_bytes. */
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, transient_bytes, nccl_bytes,
        total_bytes, capacity_bytes;
    uint64_t uncertain_bytes; /**< so close to the capacity total_bytes may not fit: the error of the engine's peaks */
    uint64_t later_bytes, update_bytes, host_bytes; /**< as in redco_layer_cost; not in total_bytes */
} redco_prediction;

/** Bundles the inputs; caches operator times. Inputs are borrowed and must outlive it. Not thread-safe. */
typedef struct redco_costs redco_costs;

redco_status redco_costs_create(const redco_machine *machine, const redco_model *model, const redco_workload *workload,
                                const redco_calibration *calibration, const redco_comm *comm, redco_costs **costs_out,
                                redco_error *err);
void redco_costs_free(redco_costs *costs);
/** Prepares prices of layers that recompute these sets. Others are prepared when they are first priced, and what was
 *  cached is then computed again. A step has REDCO_RECOMPUTE_SETS of them at most, none and full included. */
void redco_costs_prepare(redco_costs *costs, const redco_recompute_list *sets);
/** The sets of a list that no recomputation and no other of them beats under @p parallelism in all classes of blocks:
 *  one that takes no longer, whose layers keep and work with as few bytes, and that mixes with others by layer where
 *  this one does. @return bit per set, of one at least */
uint32_t redco_costs_recompute_tried(redco_costs *costs, const redco_parallelism *parallelism,
                                     const redco_recompute_list *sets);
/** Replaces the constants: what was cached is computed again, with the same meaning as a new redco_costs. */
void redco_costs_recalibrate(redco_costs *costs, const redco_calibration *calibration);

/** The extra cost of a tensor-parallel layout of one layer and micro-batch over the layout that the closed form
 * assumes: column and row splits in pairs, whole heads, tables and logits split by a padded vocabulary. Negative where
 * it costs less. */
typedef struct redco_layout_cost {
    double forward_s, backward_s;       /**< computation */
    double tp_forward_s, tp_backward_s; /**< collectives, whole */
    int64_t params;                     /**< on the fullest rank */
    int64_t activation_bytes, logits_bytes;
} redco_layout_cost;

/** Says how the weights lie. Called when a parallelism's (tp, cp, micro-batch) with its micro-batches and data-parallel
 * ranks is first priced, with tp > 1: these say how much a parameter counts beside a micro-batch. */
typedef struct redco_layouts {
    /** @param layout  from 0, below count() */
    redco_status (*cost)(void *context, const redco_parallelism *parallelism, uint32_t class_index, uint32_t layout,
                         redco_layout_cost *cost_out, redco_error *err);
    /** Number of layouts among the layers of a class; NULL: one.
     *  @param of_out  the layout of each of its layers, in order, borrowed until the next call; NULL where all have one
     *  @return at least 1 */
    uint32_t (*count)(void *context, const redco_parallelism *parallelism, uint32_t class_index,
                      const uint32_t **of_out);
    void (*free)(void *context);
    void *context;
    /** cost() depends on tp, cp, micro-batch and sequence parallelism alone, and classes have one layout */
    bool of_micro_batch;
} redco_layouts;

/** Takes @p layouts over; what was priced before is forgotten. redco_costs_recalibrate() drops them. */
void redco_costs_set_layouts(redco_costs *costs, redco_layouts layouts);
/** The first failure of a layout's cost, REDCO_OK without one: ask before costs with layouts are relied on. */
redco_status redco_costs_failure(const redco_costs *costs, redco_error *err);
/** One collective of a tensor-parallel group as a training step sees it: the latter's factors included.
 *  @param size_bytes  as for redco_comm_price() */
double redco_costs_tp_s(redco_costs *costs, uint32_t tp, redco_collective op, double size_bytes);
/** The time that one more parameter on every rank adds to a step that shards nothing, per micro-batch: its update, and
 * its gradient's way over the data- and context-parallel ranks, hidden by nothing. */
double redco_costs_param_s(redco_costs *costs, const redco_parallelism *parallelism);
const redco_compute *redco_costs_compute(const redco_costs *costs); /**< borrowed */
/** The work that one rank computes at a time under @p parallelism. */
redco_shape redco_costs_shape(const redco_costs *costs, const redco_parallelism *parallelism);

/** Routed experts of a layer; 0: the model is no mixture. */
uint32_t redco_costs_experts(const redco_costs *costs);
/** Replicas of an expert: what meshes of experts divide. */
redco_mesh redco_costs_expert_grid(const redco_costs *costs, const redco_parallelism *parallelism);
/** Meshes of the experts of a layer whose other parameters have @p dense: those of parallelism->experts, and where
 * these are 0x0 the same blocks of ranks.
 *  @return REDCO_EVALUE where they do not nest */
redco_status redco_costs_expert_shards(const redco_costs *costs, const redco_parallelism *parallelism,
                                       const redco_shards *dense, redco_shards *shards_out, redco_error *err);
/** redco_shard_grid() of these costs. */
redco_mesh redco_costs_grid(const redco_costs *costs, const redco_parallelism *parallelism);

/** Checks a configuration: divisibility of heads, batch, sequence, nodes, model chunks; names what does not divide. */
redco_status redco_parallelism_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err);
/** The ways of context parallelism among @p types (bits 1 << redco_cp_type) that @p parallelism allows and no other of
 *  them makes superfluous: a layout with another one is as fast and needs no more memory, whatever its meshes, stages
 *  and recomputation. @param parallelism  its cp_type is not looked at */
uint32_t redco_costs_cp_types(redco_costs *costs, const redco_parallelism *parallelism, uint32_t types);
redco_fixed_cost redco_cost_fixed(redco_costs *costs, const redco_parallelism *parallelism);
/** The same without fixed_s, which is 0: that of a pipeline may take a while. */
redco_fixed_cost redco_cost_fixed_memory(redco_costs *costs, const redco_parallelism *parallelism);
/** Cost of one layer; where the layers of a class have several layouts, of all of them divided by their number, and the
 *  largest of their transient buffers. */
redco_layer_cost redco_cost_layer(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                  const redco_layer_config *config);
/** The same without AMSP's T_comm: gather_s to amsp_s are 0. */
redco_layer_cost redco_cost_layer_step(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       const redco_layer_config *config);
/** redco_prediction.total_bytes of redco_cost_step(), alone. */
uint64_t redco_cost_bytes(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *assignments,
                          uint32_t count);
/** The memory fields of redco_cost_step() of one stage of a pipeline: that has those of the fullest. */
redco_prediction redco_cost_stage_memory(redco_costs *costs, const redco_parallelism *parallelism,
                                         const redco_assignment *assignments, uint32_t count, uint32_t stage);
/** Eager PyTorch: where the update of the states needs more than backward did, memory is what it is then. */
void redco_cost_update_moment(const redco_costs *costs, redco_prediction *prediction);
/** Sums @p count assignments that together hold every layer exactly once. */
redco_prediction redco_cost_step(redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count);
/** A step whose pipeline is run pass by pass: the layers of redco_cost_step(), and the recurrence of the schedule in
 *  the place of its formula of a pipeline's pace. */
typedef struct redco_paced {
    double step_s; /**< without stages that of the closed form */
    /** No simulated step is shorter: every stage computes its passes in the order of the schedule, none faster than
     *  alone nor before its input has come, and a stream runs its gathers and scatters one after the other. */
    double least_s;
    double traffic_ratio; /**< that of the block that has most: traffic_s over its computation (redco_layer_cost) */
} redco_paced;

/** redco_paced.traffic_ratio of one layer. */
double redco_layer_traffic_ratio(const redco_layer_cost *cost);
/** @param closed  redco_cost_step() of the same
 *  @return REDCO_ENOMEM */
redco_status redco_cost_paced(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, const redco_prediction *closed,
                              redco_paced *paced_out, redco_error *err);
/** The energy of a step that takes so long. @param dynamic_j  redco_prediction's */
redco_energy redco_costs_energy(const redco_costs *costs, double dynamic_j, double step_s);
/** A lower bound of any strategy with this parallelism, both by the closed form and by the simulator: compute alone. */
double redco_cost_bound(redco_costs *costs, const redco_parallelism *parallelism);
/** The numbers of blocks with which the stage that works longest in a micro-batch works least, embedding and head
 *  counted, for parallelisms without a split.
 *  @param least_ratio  0, or by how much that stage must work less than the longest of equal shares
 *  @param split_out    room for REDCO_SPLIT_POSITIONS_MAX: blocks of each position
 *  Where blocks are of several classes and stages have several chunks it may work a little longer than that: blocks are
 *  moved one after the other.
 *  @return false where there is no such split, stages hold a part twice (DualPipe), or blocks are of two stacks */
bool redco_cost_balance(redco_costs *costs, const redco_parallelism *parallelism, double least_ratio,
                        uint32_t *split_out);
/** A lower bound of every split of a pipeline: an even share of all passes on every stage. */
double redco_cost_balance_bound(redco_costs *costs, const redco_parallelism *parallelism);
/** Micro-batches that interleaved chunks must take one after the other so that transfers between stages hide behind
 *  them: larger groups keep more activations and save nothing more.
 *  @param saved_s_out  seconds of a step that are saved so, at most */
uint32_t redco_cost_hiding_group(redco_costs *costs, const redco_parallelism *parallelism, double *saved_s_out);
/** A lower bound of a layer with parameters on that mesh, whatever its other meshes and whichever of the sets it has:
 *  seconds for any share of the windows that are exposed, resident bytes; recomputation, what is kept for backward
 *  (redco_cost_recomputed()), transient buffers and updates are left out. The sets are one where parameters are on
 *  several ranks, whose gathers hide otherwise behind each set; else one at least. */
redco_layer_cost redco_cost_layer_least(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                        redco_mesh parameters, const redco_recompute_list *sets);
/** A lower bound of a layer with a set, whatever its meshes. */
typedef struct redco_recomputed {
    double passes_s, recompute_s; /**< seconds of a step without gathers: forward and backward; beside them what is
                                      recomputed */
    uint64_t activation_bytes;    /**< kept for backward */
} redco_recomputed;
redco_recomputed redco_cost_recomputed(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       redco_recompute recompute);
/** Its activation_bytes alone, for which no pipeline's pace is found. */
uint64_t redco_cost_kept_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                               redco_recompute recompute);
/** A lower bound of the resident bytes of redco_cost_layer() for any meshes, without what is kept for backward. */
uint64_t redco_cost_least_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index);

/** Checks that the schedule of a parallelism takes its stages, model chunks and micro-batches, and that each chunk has
 * a layer. @return REDCO_EVALUE and what does not fit */
redco_status redco_step_chunks_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
