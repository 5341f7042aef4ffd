/** @file closed_form_internal.h  Shared by costs.c (what the costs are made from), layer_times.c (times that many
 * layers share), layer_windows.c, layer_memory.c and layer_cost.c (one layer's cost), pipeline_stages.c and
 * closed_form.c (a configuration's step). */
#ifndef REDCO_CLOSED_FORM_INTERNAL_H
#define REDCO_CLOSED_FORM_INTERNAL_H

#include "costmodel/closed_form/closed_form.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/collectives/expert_exchange.h"
#include "costmodel/operators/compute.h"

enum {
    REDCOI_CLASSES_MAX = 8,
    REDCOI_TIMES_CACHED = 1021, /* a prime: places are by remainder */
    REDCOI_TIMES_NEAR = 8,
    REDCOI_OWNERS_CACHED = 64,
    REDCOI_PRICES_CACHED = 4096,
    REDCOI_ROOMS_CACHED = 512,
    REDCOI_PACES_CACHED = 64
};

/** Traffic of a pass next to a group of a layer, in seconds: before it and behind it. */
typedef struct redcoi_tp_times {
    double forward_before_s, forward_after_s, backward_before_s, backward_after_s;
} redcoi_tp_times;

/** A matrix of a layer and what comes before it: weights are fetched by such groups in backward. Seconds add up to
 * those of the layer. */
typedef struct redcoi_group_times {
    double forward_s, weight_s, input_s; /**< input_s: all of backward but the gradient of the matrix */
    redcoi_tp_times tp;                  /**< exposed tensor-parallel traffic */
    double again_s, again_after_s;       /**< part of forward that full recomputation repeats, and of tp behind it */
    redcoi_tp_times cp;                  /**< likewise context-parallel traffic */
    double share;                        /**< share of the layer's parameters */
} redcoi_group_times;

enum { REDCOI_GROUP_TIMES_MAX = 8, REDCOI_MODULE_SIZES_MAX = 8 };

/** Modules of a layer that have as many parameters each, biases included: one gather and one scatter are a module's. */
typedef struct redcoi_module_size {
    uint64_t params;
    uint32_t count;
} redcoi_module_size;

/** A part of one member of a class on one rank, before data-parallel sharding. */
typedef struct redcoi_part_params {
    redcoi_module_size modules[REDCOI_MODULE_SIZES_MAX]; /**< parameters beyond the room are in none */
    uint32_t module_size_count;
    uint32_t module_count;   /**< all of them: AMSP's K */
    uint64_t module_params;  /**< parameters in modules */
    uint64_t params;         /**< all */
    uint64_t trained_params; /**< part of them: with gradients and optimizer states */
    uint64_t frozen_bytes;   /**< those of the others */
    uint64_t gather_params;  /**< params, and the shared table where a tied head needs it */
} redcoi_part_params;

/** One member of a class, one micro-batch, one rank; nothing that depends on data-parallel meshes. */
typedef struct redcoi_times {
    double forward_s, backward_s; /**< with exposed tensor- and context-parallel traffic and the host's floor */
    double weight_s;              /**< part of backward: gradients of matrices */
    double recompute_s[REDCO_RECOMPUTE_SETS];    /**< by redco_costs.recompute */
    double recompute_tp_s[REDCO_RECOMPUTE_SETS]; /**< tensor-parallel traffic of what is recomputed, whole */
    double tp_forward_s, tp_backward_s;          /**< tensor-parallel traffic, whole */
    redcoi_tp_times tp[REDCO_GROUPS_MAX];        /**< the same by groups of the model */
    redcoi_tp_times cp;                          /**< context-parallel traffic around attention, the exposed part */
    double clock_ratio;                          /**< clock of all classes' products (power.h) */
    double forward_j, backward_j;                /**< above idle */
    double listed_tp_s; /**< that which stands among listed operators, part of their seconds in both passes */
    redcoi_group_times groups[REDCOI_GROUP_TIMES_MAX];
    uint32_t group_count;
    redcoi_part_params parts[REDCO_PARTS];
    uint64_t params;         /**< the sum over the parts */
    uint64_t trained_params; /**< likewise */
    uint64_t activation_bytes[REDCO_RECOMPUTE_SETS];
    uint64_t recompute_bytes[REDCO_RECOMPUTE_SETS];
    /** Beyond these, of a head beyond the logits: redcoi_arena_peak of engines that plan their memory. */
    uint64_t arena_whole_bytes[REDCO_RECOMPUTE_SETS], arena_sharded_bytes[REDCO_RECOMPUTE_SETS];
    uint64_t arena_apart_bytes[REDCO_RECOMPUTE_SETS];
} redcoi_times;

/** The part of a parallelism that the times of its layers depend on. */
typedef struct redcoi_rank_key {
    uint32_t tp, cp, micro_batch; /**< tp 0: empty */
    uint32_t ep, etp;             /**< 1 and tp without experts */
    redco_cp_type cp_type;
    bool sequence_parallel;
    uint64_t micro_batches; /**< in a step; 0: without layouts nothing depends on it, nor on pp, chunks and dp */
    uint32_t pp, chunks;
    redco_mesh dp;
} redcoi_rank_key;

/** The times of all classes under one (tp, cp, micro-batch), where layouts are priced also those of a step. */
typedef struct redcoi_rank {
    redcoi_rank_key key;
    uint64_t params[REDCO_PARTS];         /**< all layers */
    uint64_t trained_params[REDCO_PARTS]; /**< likewise */
    uint64_t block_params[REDCO_PARTS];   /**< the most that a block has */
    uint64_t logits_bytes;
    redcoi_times *classes; /**< in redco_costs.times; with several layouts seconds and parameters are means */
    redcoi_times *layouts; /**< for classes that have several; NULL: none has */
    /** Layers with each of them: of the pipeline stage whose blocks take the longest, and of that with the most
     *  parameters; without a pipeline of all. */
    uint32_t *members, *memory_members, *all_members;
    uint32_t member_count[REDCOI_CLASSES_MAX],
        memory_count[REDCOI_CLASSES_MAX]; /**< numbers of these, all layouts together */
    uint32_t first_layout[REDCOI_CLASSES_MAX], layout_count[REDCOI_CLASSES_MAX]; /**< a count of 1: as the class */
} redcoi_rank;

static inline const redcoi_times *redcoi_times_of(const redcoi_rank *rank, uint32_t class_index, uint32_t layout)
{
    return rank->layout_count[class_index] > 1 ? &rank->layouts[rank->first_layout[class_index] + layout]
                                               : &rank->classes[class_index];
}

typedef struct redcoi_owners {
    uint32_t tp; /**< 0: empty */
    redco_param_part part;
    bool assigned;
    uint64_t owners, params;
} redcoi_owners;

typedef struct redcoi_price {
    double size_bytes; /**< 0: empty */
    redco_collective op;
    redco_group group;
    redco_comm_time time;
    double step_s;       /**< redcoi_comm_s() */
    uint32_t calibrated; /**< redco_costs.calibrated when step_s was found; 0: it was not yet */
} redcoi_price;

/** Bytes of one communicator (nccl_buffers.h). */
typedef struct redcoi_nccl_room {
    redco_group group; /**< no ranks: empty */
    uint32_t calls;
    bool norm;
    uint32_t most_channels;
    uint64_t bytes;
} redcoi_nccl_room;

/** A copy of the split of a parallelism, which may be gone when another one is asked for. */
typedef struct redcoi_kept_split {
    bool given;
    uint32_t blocks[REDCO_SPLIT_POSITIONS_MAX];
} redcoi_kept_split;

/** Results of the recurrence of a pipeline's schedule for a parallelism (pace.c). */
typedef struct redcoi_pace {
    uint32_t tp, cp, micro_batch; /**< tp 0: empty */
    uint32_t ep, etp;
    redco_cp_type cp_type;
    bool sequence_parallel;
    redco_mesh dp;
    redco_pipeline pipeline;
    redcoi_kept_split split;
    double repeat[REDCOI_CLASSES_MAX]; /**< passes of a step through all layers of a class */
    double again;                      /**< the same of a block's full recomputation */
    double transfers_s;                /**< that stages wait for */
} redcoi_pace;

/** The repetitions of a layer in a step: pipeline stages hold shares of the layers. */
typedef struct redcoi_stage {
    double repeat;     /**< micro-batches, pipeline bubble included */
    double again;      /**< the same of what is recomputed */
    double share;      /**< share of the layer on the fullest stage */
    double once;       /**< share of it in what the stage with the most parameters does once a step */
    uint64_t held, of; /**< the same as a fraction held / of */
    uint64_t kept;     /**< activations, a micro-batch each: of all layers of the class together kept / of as many */
    uint64_t late;     /**< part of these whose gradients of weights come later than those of inputs */
} redcoi_stage;

/** Traffic of sharded parameters in both passes of a layer that follows others like it, for the whole layer. */
typedef struct redcoi_shard_traffic {
    double gather_s, again_s, scatter_s; /**< again_s: gathers of backward */
    double calls_s, again_calls_s;       /**< that nothing hides: of gathers, as much again of scatters; of again_s */
    bool network, again_network;
    bool by_layer;   /**< redcoi_by_layer() */
    bool secondary;  /**< gathers of backward have a stream of their own */
    uint32_t layers; /**< those of a pass, at least 1 */
} redcoi_shard_traffic;

/** Gathers and scatters of one layer, unit by unit. */
typedef struct redcoi_gathers {
    double gather_s, scatter_s, again_s; /**< forward, backward; again: gathers of backward */
    bool gather_network, scatter_network, again_network;
} redcoi_gathers;

typedef struct redcoi_kept_gathers {
    const redcoi_times *times; /**< NULL: empty */
    redco_group group, again;
    redcoi_gathers gathers;
} redcoi_kept_gathers;

/** The time that sharded parameters add to both passes of a block. */
typedef struct redcoi_exposed {
    const redcoi_times *times; /**< NULL: empty */
    redcoi_shard_traffic traffic;
    double forward_s, backward_s;
} redcoi_exposed;

/** Results that layers of one parallelism share, kept for the next one that is priced: a search prices one mesh triple
 * after the other, all with the same stages and most with the same gathers (layer_memo.c). */
typedef struct redcoi_memo {
    redco_parallelism parallelism; /**< tp 0: nothing is kept; its split is the one below */
    redcoi_kept_split split;
    redcoi_stage stages[REDCOI_CLASSES_MAX];
    bool repeated;                         /**< the stages have repeat and again */
    double stage_params[REDCO_PARTS];      /**< redcoi_job.state_params */
    double first_params[REDCO_PARTS];      /**< redcoi_job.first_params */
    redco_mesh expert_mesh;                /**< redcoi_expert_mesh() of the parallelism */
    redco_shards nccl_shards[REDCO_PARTS]; /**< 0x0: none */
    uint64_t nccl_bytes[REDCO_PARTS];
    redcoi_kept_gathers gathers[REDCOI_CLASSES_MAX][REDCO_PARTS];
    redcoi_exposed exposed[REDCOI_CLASSES_MAX][REDCO_RECOMPUTE_SETS];
} redcoi_memo;

struct redco_costs {
    redco_machine machine;
    const redco_model *model;
    const redco_model_dims *dims;
    const redco_layer_class *classes;
    uint32_t class_count;
    uint32_t blocks;        /**< members of all block classes */
    uint32_t block_classes; /**< so many of these */
    redco_workload workload;
    redco_recompute_list recompute; /**< sets that ranks have times of: none, which is the first, full, the last, and
                                       what was asked for */
    redco_calibration calibration;
    const redco_comm *comm;
    redco_compute compute;
    redco_operator *ops; /**< room for the operators of any layer */
    redco_state_bytes state_bytes;
    uint32_t newest, next_rank, next_owners;
    redcoi_rank ranks[REDCOI_TIMES_CACHED];
    redcoi_times *times; /**< room for the classes of each of them; pages that no rank uses are never touched */
    redcoi_owners owners[REDCOI_OWNERS_CACHED];
    redcoi_price prices[REDCOI_PRICES_CACHED];
    uint32_t calibrated; /**< calibrations so far: what was found with one before is found again */
    redcoi_nccl_room rooms[REDCOI_ROOMS_CACHED];
    redcoi_pace paces[REDCOI_PACES_CACHED];
    uint32_t next_pace;
    redcoi_memo memo;
    redco_layouts layouts; /**< cost NULL: none */
    redco_status layout_status;
    redco_error layout_error;
};

/** Hidden once-a-step traffic costs this share of itself besides contention (launches between buckets). */
extern const double redcoi_hidden_residue_ratio;

const redcoi_rank *redcoi_rank_find(redco_costs *costs, const redco_parallelism *parallelism);
void redcoi_rank_clear(redcoi_rank *rank); /**< makes it empty */
/** Makes room for the layouts of classes that have several. @return false when out of memory */
bool redcoi_layouts_list(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank);
/** When the times of all are known: members and means. A pipeline goes at the pace of its slowest stage, and needs the
 *  memory of its fullest. */
void redcoi_layouts_count(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank);
/** Cost of one layout of a class, for the layers that have it. */
void redcoi_cost_add(redco_layer_cost *sum, redco_layer_cost *cost, uint32_t layers, uint32_t memory_layers);
/** From the layers of a class to one. */
void redcoi_cost_divide(redco_layer_cost *sum, uint32_t layers, uint32_t memory_layers);
/** redco_layouts.count() of these costs. */
uint32_t redcoi_layouts_of(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                           const uint32_t **of_out);
/** redco_fullest_owner_params(), kept. */
uint64_t redcoi_fullest_owner(redco_costs *costs, redco_param_part part, uint32_t tp, uint64_t owners, bool assigned);
redco_comm_time redcoi_price_find(redco_costs *costs, redco_collective op, double size_bytes, redco_group group);
/** The part of a class that a stage of a pipeline holds in memory. */
redcoi_stage redcoi_memory_stage(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                 uint32_t stage);
/** Logits of so many micro-batches that a stage holds at once. */
uint64_t redcoi_stage_logits(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage);
/** Values on their way between stages, of engines that plan their memory. */
uint64_t redcoi_stage_buffer_bytes(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage);
/** The same engines: activations kept for a decoder count with the embedding, but are on the stage where the
 *  decoder begins. */
int64_t redcoi_stage_decoder_bytes(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage);
/** The memory fields of a layer's cost, for a stage that holds logits of that size at another time. */
void redcoi_layer_memory(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                         redco_layer_cost *cost_out);
/** Passes through the smaller of embedding and head that add to a step; the others are done beside the larger. */
double redcoi_smaller_edge_repeat(const redcoi_times *edge, const redco_pipeline *s);
/** Micro-batches of the last group of an interleaved pipeline: those that do not fill one, where there are any. */
uint32_t redcoi_last_group(const redco_pipeline *s);
/** Seconds that interleaved stages wait for transfers, 2 (p - 1) of them aside. @param send_s  of one */
double redcoi_interleaved_s(const redco_costs *costs, const redcoi_rank *rank, const redco_pipeline *s, double send_s);
void redcoi_split_keep(redcoi_kept_split *kept, const redco_parallelism *parallelism);
bool redcoi_split_kept(const redcoi_kept_split *kept, const redco_parallelism *parallelism);
bool redcoi_pace_needed(const redco_costs *costs, const redco_parallelism *parallelism);
/** Adds the passes of a micro-batch, nothing recomputed, to those of each position: blocks go there in the model's
 *  order. @param layers  [position][class], what is there is added to it; or NULL */
void redcoi_deal(const redco_costs *costs, const redco_parallelism *parallelism, const redcoi_rank *rank,
                 uint32_t positions, redco_position_times *times, uint32_t *layers);
const redcoi_pace *redcoi_pace_find(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism);
/** redco_pipeline_span_s() of few micro-batches; the others repeat the middle ones. */
redco_status redcoi_span_of(redco_pipeline pipeline, const redco_position_times *times, double send_s,
                            double *span_s_out);
/** Without repeat and again, where there are several stages. */
redcoi_stage redcoi_stage_of(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index);
/** Fills them: the pace of a pipeline may take a while. */
void redcoi_stage_repeat(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                         uint32_t class_index, redcoi_stage *stage);
/** Fills redcoi_stage.once of embedding and head, of a pipeline. */
void redcoi_stages_once(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                        redcoi_stage *stages);
/** The memo of a parallelism: its stages are known, and the rest is what was last asked for. */
redcoi_memo *redcoi_memo_of(redco_costs *costs, const redco_parallelism *parallelism);
/** The same with redcoi_stage_repeat(). */
redcoi_memo *redcoi_memo_repeated(redco_costs *costs, const redco_parallelism *parallelism);
/** Makes a memo empty: when times of layers or the calibration change. */
void redcoi_memo_clear(redco_costs *costs);
/** Seconds of a step in which stages wait for transfers. */
double redcoi_pipeline_s(redco_costs *costs, const redco_parallelism *parallelism);
/** One activation (or gradient) from stage to stage, alone. */
double redcoi_stage_transfer_s(const redco_costs *costs, const redco_parallelism *parallelism, double *bytes_out,
                               bool *network_out);
/** Exchanges of experts hide behind another micro-batch: stages need several model chunks for it. */
bool redcoi_exchanges_hide(const redco_costs *costs, const redco_parallelism *parallelism);
/** The exchange of a micro-batch's rows in one layer of experts; of one rank where none are shared out. */
redco_exchange redcoi_exchange_of(const redco_costs *costs, const redco_shape *shape);
redco_shape redcoi_shape_of(const redco_costs *costs, const redco_parallelism *parallelism);
redco_parallel redcoi_parallel_of(const redco_costs *costs, const redco_parallelism *parallelism);

/** One layer under one configuration, of one part of its parameters: what all of its cost needs. */
typedef struct redcoi_job {
    redco_costs *costs;
    const redco_parallelism *parallelism;
    const redco_layer_class *class;
    const redcoi_rank *rank;
    const redcoi_times *times;
    redcoi_stage stage;
    redco_param_part part;
    const redcoi_part_params *own; /**< the part's, as state_params and first_params are */
    redco_shards shards;
    redco_recompute recompute;
    uint32_t set; /**< its index in redco_costs.recompute */
    double element_bytes, gradient_bytes;
    uint64_t logits_bytes; /**< counted elsewhere, and free again when layers are recomputed */
    double state_params;   /**< all trained parameters of the fullest rank before sharding: the paper's Phi */
    double first_params;   /**< part of these before the first block: backward ends with their gradients */
    redco_mesh grid;       /**< redco_shard_grid() */
    bool least;            /**< no more than with any meshes of gradients and optimizer states */
} redcoi_job;

/** The part of one whole layer that the fullest rank keeps. */
typedef struct redcoi_states {
    uint64_t owned_params; /**< parameters whose optimizer states it holds */
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes;
    uint64_t host_bytes; /**< in the memory of the host, in none of these */
} redcoi_states;

/** Parts of the layer's parameters, in order from REDCO_PART_DENSE. */
uint32_t redcoi_job_parts(const redcoi_job *job);
/** The same layer's job of another part. */
redcoi_job redcoi_job_part(const redcoi_job *job, redco_param_part part);
/** The job of the dense part.
 *  @param layout  of the class, below redcoi_rank.layout_count */
redcoi_job redcoi_job_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         uint32_t layout, const redco_layer_config *config);
/** The cost of a call that nothing hides: its launch, and the wait for the last rank where only the next module is
 *  fetched ahead: the multiprocessors of a collective that waits are lost to the product beside it. Fetching a layer
 *  ahead leaves ranks a layer's compute to arrive. */
double redcoi_call_s(const redcoi_job *job, redco_group group);
/** Gathers of parameters over @p group, their scatters, and the gathers of backward over @p again. */
redcoi_gathers redcoi_price_gathers(const redcoi_job *job, redco_group group, redco_group again);
const redcoi_gathers *redcoi_gathers_of(const redcoi_job *job, redco_group group, redco_group again); /**< memo */
/** redcoi_expose_passes() of a block, from the memo. */
const redcoi_exposed *redcoi_exposed_of(const redcoi_job *job, const redcoi_shard_traffic *traffic);
/** redcoi_nccl_sharded_bytes(), from the memo. */
uint64_t redcoi_sharded_bytes(const redcoi_job *job);
/** @return whether the layer's parameters are gathered at once (flat FSDP units), not by module. */
bool redcoi_by_layer(const redcoi_job *job);
/** A gather or scatter of one such unit (module or layer); where it is a layer, with the wait for the last rank. */
double redcoi_unit_s(const redcoi_job *job, redco_collective op, redco_group group, double size_bytes,
                     bool *network_out);
/** Traffic of the layer's parameters and gradients: what it adds to each pass and once a step, of a cost whose seconds
 * of one micro-batch are set; without updated parameters where the job asks for the least. */
void redcoi_add_traffic(const redcoi_job *job, redco_layer_cost *cost);
redcoi_states redcoi_layer_states(const redcoi_job *job);
/** Where a layer makes whole gradients that are not scattered, before they are taken to where they are kept; with
 *  Transformer Engine the empty gradients of a block's matrices that autograd is handed, and workspaces; else 0. */
uint64_t redcoi_slot_bytes(const redcoi_job *job);
/** Bytes that the stage keeps of one layer of the class from forward to backward, and of recomputation until the
 * gradients of weights are there, where these come late. */
uint64_t redcoi_activation_bytes(const redcoi_job *job);
/** Sets the memory fields. */
void redcoi_add_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost);
double redcoi_optimizer_s(const redco_costs *costs, uint64_t owned_params);
/** Copying between a GPU and the memory of its host. */
double redcoi_host_copy_s(const redco_costs *costs, double bytes);
/** A rank's work on the gradients of a micro-batch beside computing them: copied, then added, to where they are kept.
 *  Only where it was measured on a machine whose engine is redco-exec; elsewhere products write where gradients are
 * kept. */
double redcoi_keep_gradients_s(const redcoi_job *job);
/** Ranks of the grid that are @p outer over @p inner: those that hold equal (or consecutive) shards of inner. */
redco_group redcoi_group_of(const redcoi_job *job, redco_mesh outer, redco_mesh inner);
/** @return whether the job's part lies on another grid than the dense one */
bool redcoi_has_expert_grid(const redcoi_job *job);
/** Replicas of an expert, as GPUs of a node x nodes; 1x1 where the degrees have no such grid. */
redco_mesh redcoi_expert_mesh(const redco_parallel *dense, uint32_t etp, uint32_t ep);
/** Puts the meshes of a job of experts onto their grid: the replicas of an expert within the same blocks of ranks. */
void redcoi_use_expert_grid(redcoi_job *job);
/** All ranks that hold the same part of the parameters, context-parallel ones included: they reduce the same
 *  gradients. */
redco_group redcoi_replicas_of(const redcoi_job *job, redco_mesh parameters);
bool redcoi_has_secondary(const redcoi_job *job);
/** The mesh over which backward gathers parameters. */
redco_mesh redcoi_backward_mesh(const redcoi_job *job);

/** The part of an operator's forward that full recomputation repeats: checkpointing per operator skips the attention
 * core and half of the products. */
double redcoi_repeated_ratio(redco_operator_kind kind, bool partial);
/** @return whether it is a product of a matrix of the model's own: groups of a layer end with one. */
bool redcoi_ends_group(const redco_operator *op);
/** The modules whose recomputation repeats the operator. */
redco_recompute redcoi_repeated_by(const redco_engine *engine, const redco_operator *op);
/** Index of a set among redco_costs.recompute; of one that is new, all times are forgotten. */
uint32_t redcoi_recompute_set(redco_costs *costs, redco_recompute set);
/** Index of full recomputation. */
static inline uint32_t redcoi_full_set(const redco_costs *costs)
{
    return costs->recompute.count - 1;
}
/** @return whether full recomputation leaves an operator of a block out, since backward does not read what it makes: an
 * engine that plans its memory runs what is read. */
bool redcoi_is_unread(const redco_costs *costs, const redco_operator *op);
/** Gathering the logits of the whole vocabulary, and as much for their gradients; 0 where each rank keeps its part. */
double redcoi_gathered_logits_s(redco_costs *costs, const redco_shape *shape);

/** The time that gathers and scatters add to each pass through a block, launches included. */
void redcoi_expose_passes(const redcoi_job *job, const redcoi_shard_traffic *traffic, double *forward_s_out,
                          double *backward_s_out);

/** Parameters of a tensor that a tensor-parallel rank holds: matrices are cut, vectors are not. */
uint64_t redcoi_tensor_params(const redco_param *tensor, const redcoi_rank_key *ranks);
/** Seconds of a collective inside a training step: the modelled or measured time scaled by the calibration. */
double redcoi_comm_s(redco_costs *costs, redco_collective op, double size_bytes, redco_group group, bool *network_out);
/** Seconds that computation loses per second of whole-rank traffic (buckets, updated parameters, activations between
 *  stages) hidden beside it: kappa, or a share of it over NICs. Gathers and scatters of layers have kappa on all links.
 */
double redcoi_contention_ratio(const redco_costs *costs, bool network);
/** The least of it that any traffic has. */
double redcoi_least_contention_ratio(const redco_costs *costs);
/** Memory that the allocator holds beside tensors, over those that are no states. */
double redcoi_fragmentation_ratio(const redco_costs *costs);
/** total_bytes without reserve, NCCL's buffers and what the allocator holds beside tensors. */
uint64_t redcoi_allocated_bytes(const redco_costs *costs, const redco_prediction *p);
/** @return whether the memory of a block's backward is known beside what it keeps: recompute_bytes then are taken in
 * every backward, whatever the policy. */
bool redcoi_works_in_backward(const redco_engine *engine);
/** The ranks of context parallelism. */
redco_group redcoi_cp_group(const redco_costs *costs, uint32_t tp, uint32_t cp);
/** Seconds of the attention core that exchanges keys, of a decoder's two that to itself; 0, 0: the layer has none. */
typedef struct redcoi_core {
    double forward_s, backward_s;
} redcoi_core;
redcoi_core redcoi_attention_core(const redco_compute *compute, const redco_operator *ops, uint32_t count,
                                  double clock_ratio);
/** Seconds that computation waits beside one attention core of a block, one micro-batch (context_exchange.c).
 *  @param forward_s, backward_s  of the core */
redcoi_tp_times redcoi_context_times(redco_costs *costs, const redco_shape *shape, double forward_s, double backward_s);
/** Two neighbouring stages of a pipeline. */
redco_group redcoi_stage_pair(const redco_costs *costs, const redco_parallelism *parallelism);
/** Seconds on the wire of a message from one rank to another, all ranks of a node sending at once. */
double redcoi_transfer_s(const redco_costs *costs, double size_bytes, redco_group pair, bool *network_out);

/** Blocks at a position of the pipeline (stages.h). */
uint32_t redcoi_position_blocks(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t position);
/** Layers of a class of blocks there. */
uint32_t redcoi_class_at_position(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                  uint32_t position);
/** Blocks of all chunks of a stage. */
uint64_t redcoi_stage_sum(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage);
/** Blocks of the fullest stage. */
uint32_t redcoi_most_blocks(const redco_costs *costs, const redco_parallelism *parallelism);

#endif
