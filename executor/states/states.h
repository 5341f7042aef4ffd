/** @file states.h  Sharded weights, gradients and optimizer states of one rank, and what is done with them in a step.
 *
 *  Which rank holds what is the layout's (shard_layout.h) and follows from the meshes alone: data parallelism, ZeRO,
 * hybrid sharding and all between are the same calls on other groups. The calls are the building blocks of a schedule:
 *
 *      per micro-batch and module   gather, (compute), gather, (compute), scatter, take
 *      per bucket                   reduce
 *      once a step                  squares, sum, update and synchronisation of every layer
 *
 *  Each belongs to a stream of the simulator (costmodel/simulator/step.h), whose process groups it uses. Calls queue
 * their work on the stream of their worker and return; a caller with several streams orders them with events. Calls of
 * different streams may be made at once, in a thread with a worker of its own each; those of one stream follow each
 * other, in the same order on all ranks. Operation names are the simulator's.
 *
 *  A gathered module ("whole") has tensor t at element redco_layout_tensor_at(t); so have its gradients. Weights and
 *  gradients have one element type; F32 master weights are kept beside 16-bit ones, and are the weights else. */
#ifndef REDCO_STATES_H
#define REDCO_STATES_H

#include "executor/backend/backend.h"
#include "executor/comm/device_comm.h"
#include "executor/optimizer/optimizer.h"
#include "executor/states/shard_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_states redco_states;
typedef struct redco_states_worker redco_states_worker;

typedef struct redco_states_options {
    redco_layout_options layout;
    redco_dtype dtype; /**< type of weights and gradients: F64, F32, BF16 or F16 */
    redco_optimizer optimizer;
    const redco_state_matrix *matrices; /**< shapes of tensors, borrowed; for Adafactor. NULL: not on the host */
    uint64_t bucket_bytes;   /**< gradients that are reduced at once; at least a module, or a layer where parts of
                                  layers are exchanged or gradients are cut further than parameters; 0 = 1 GiB */
    uint32_t bucket_buffers; /**< buckets of layers of equal meshes that may be filled or under way at once; 0 = 1 */
    uint64_t chunk_elements; /**< that computations on states take at once, a multiple of 16; 0: as the backend says */
    /** Pipeline stages, each of as many consecutive ranks as the layout's mesh has; 0 is 1. The model is of this rank's
     *  stage. */
    uint32_t stages;
    const redco_shards *elsewhere; /**< meshes of the layers of all stages, whose groups all ranks make; borrowed */
    uint32_t elsewhere_count;
    uint32_t shared_by[2]; /**< the two stages that have shared layers; the same one twice: there are none */
} redco_states_options;

/** Every rank of the world calls it: groups are made. Weights and optimizer states are 0.
 *  @param model    borrowed until redco_states_free()
 *  @param world    of the size of all stages; must outlive the states
 *  @param device communicator   of that world: moves what is in the backend's memory; must outlive the states
 *  @param backend  likewise */
redco_status redco_states_create(const redco_state_model *model, const redco_states_options *options,
                                 redco_world *world, redco_device_comm *device_comm, redco_backend *backend,
                                 redco_states **states_out, redco_error *err);
void redco_states_free(redco_states *states); /**< NULL is accepted; its workers must have been freed */

const redco_layout *redco_states_layout(const redco_states *states);
redco_dtype redco_states_dtype(const redco_states *states);
redco_dtype redco_states_master_dtype(const redco_states *states); /**< F64 for F64, else F32 */

/** Memory for good, as the simulator counts it, and for buckets. */
typedef struct redco_states_size {
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes, bucket_bytes;
    uint64_t work_bytes; /**< sums of squares */
} redco_states_size;
redco_states_size redco_states_sizes(const redco_states *states);

/** Queue and working memory of one thread.
 *  @param backend  the states' own, or another handle to the same device
 *  @param stream   where its work goes, borrowed: the thread's; NULL: one of its own, as who sets values must have */
redco_status redco_states_worker_create(const redco_states *states, redco_backend *backend, redco_device_stream *stream,
                                        redco_states_worker **worker_out, redco_error *err);
void redco_states_worker_free(redco_states_worker *worker); /**< NULL is accepted */

/** Device memory of a worker. */
uint64_t redco_states_worker_bytes(const redco_states_worker *worker);
/** Waits until its stream is empty. */
redco_status redco_states_worker_finish(const redco_states_worker *worker, redco_error *err);

/* Values, as whole tensors of this tensor-parallel rank in the program's memory */

enum { REDCO_STATES_WEIGHTS = -1 /**< others are states of the optimizer, from 0 */ };

/** Makes values where they are needed. */
typedef struct redco_states_maker {
    void *context;
    /** Queues that elements @p begin to @p begin + @p count of a tensor are made in device memory, in the master type.
     */
    redco_status (*make)(void *context, uint64_t begin, uint64_t count, void *to, redco_error *err);
} redco_states_maker;

/** Weights of a tensor from the maker, which streams where the worker does: redco_states_worker_stream(). Only queues.
 *  Elements of a tensor may be asked for twice, or not at all. */
redco_status redco_states_make(redco_states *states, redco_states_worker *worker, uint32_t tensor,
                               const redco_states_maker *maker, redco_error *err);
redco_device_stream *redco_states_worker_stream(const redco_states_worker *worker);

/** Elements @p begin to @p begin + @p length of a tensor, which are all that @p values has, in the master type. Weights
 *  are rounded to the parameters' type; of states only what this rank owns is taken. Waits for its work. */
redco_status redco_states_set_range(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                    uint64_t begin, uint64_t length, const void *values, redco_error *err);
/** Writes those of these elements that this rank owns (of frozen tensors: has), in the master type, and leaves the
 *  others of @p values alone. Waits for its work. */
redco_status redco_states_get_range(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                    uint64_t begin, uint64_t length, void *values, redco_error *err);

/** Adafactor's running means of squares of a tensor, by row and column of the whole; a vector has columns alone. All
 *  ranks have all; whoever sets them does so on all ranks. */
typedef struct redco_kept_means {
    double *rows, *columns; /**< NULL: none */
    uint64_t row_count, column_count;
} redco_kept_means;
redco_kept_means redco_states_means(const redco_states *states, uint32_t tensor);

/* Weights: streams "parameters" and, backward from the second copy, "secondary parameters" */

/** Where this rank's part of a module is; the whole module where parameters are not sharded. */
void *redco_states_module(const redco_states *states, uint32_t module);
/** @return whether the module must be gathered; if not, redco_states_module() is it. */
bool redco_states_gathers(const redco_states *states, uint32_t module);
/** "fwd/block.3/q_proj/gather". @param backward from the second copy if there is one
 *  @param whole room for redco_layout_module()->whole elements */
redco_status redco_states_gather(redco_states *states, redco_states_worker *worker, uint32_t module, bool backward,
                                 void *whole, redco_error *err);
/** Keeps this rank's part of the second copy, if there is one: once after each update. */
redco_status redco_states_keep_secondary(redco_states *states, redco_states_worker *worker, uint32_t module,
                                         const void *whole, redco_error *err);
/** "bwd/block.3/q_proj/scatter": sums the gradients of the ranks among which the module is cut.
 *  @param shard  room for redco_layout_module()->shard elements; this rank's part of @p whole is possible */
redco_status redco_states_scatter(redco_states *states, redco_states_worker *worker, uint32_t module, const void *whole,
                                  void *shard, redco_error *err);

/* Gradients: stream "gradients" */

typedef struct redco_micro_batch {
    uint32_t index, count;
} redco_micro_batch;

#define REDCO_NO_BUCKET UINT32_MAX

/** Adds a module's gradients to what is kept, or to the bucket that is reduced. The first micro-batch replaces. */
redco_status redco_states_take(redco_states *states, redco_states_worker *worker, uint32_t module,
                               redco_micro_batch micro_batch, const void *shard, redco_error *err);

uint32_t redco_states_bucket_count(const redco_states *states);
/** @return whether the bucket has anything to do in this micro-batch: in the last one it adds up what all ranks have of
 * the same shard; before, only gradients that are cut further than parameters are reduced. */
bool redco_states_bucket_due(const redco_states *states, uint32_t bucket, redco_micro_batch micro_batch);
/** Into which bucket a module's gradients go; REDCO_NO_BUCKET: it is frozen. */
uint32_t redco_states_bucket_of(const redco_states *states, uint32_t module);
/** The buffer that redco_states_take() writes a module's gradients to, as redco_states_bucket_buffer() numbers them, or
 *  REDCO_NO_BUCKET. */
uint32_t redco_states_take_buffer(const redco_states *states, uint32_t module);
uint64_t redco_states_bucket_bytes(const redco_states *states, uint32_t bucket);
/** Which buffer it uses, so must not be filled before an earlier bucket there was reduced; or REDCO_NO_BUCKET: none. */
uint32_t redco_states_bucket_buffer(const redco_states *states, uint32_t bucket);
/** "bwd/gradients/bucket.0" in the last micro-batch, "bwd/gradients/shards.0" before. */
redco_status redco_states_reduce(redco_states *states, redco_states_worker *worker, uint32_t bucket,
                                 redco_micro_batch micro_batch, redco_error *err);

/** Sums the gradients of shared layers over the two stages that have them, before their norm; nothing where there are
 *  none. */
redco_status redco_states_add_shared(redco_states *states, redco_states_worker *worker, redco_error *err);

/** "step/grad_norm": sums of squares of the gradients of which this rank's count, each once in the world. */
redco_status redco_states_squares(redco_states *states, redco_states_worker *worker, redco_error *err);
/** Their sum, when the stream has passed them: the caller has waited for it. */
double redco_states_squares_sum(const redco_states *states);
/** "step/grad_norm/reduce": the same for all ranks, and what else is to be summed with it. */
redco_status redco_states_sum(redco_states *states, double *values, uint32_t count, redco_error *err);

/* The optimizer: stream "compute" */

typedef struct redco_update {
    double learning_rate;
    uint64_t step;          /**< from 1 */
    double gradient_factor; /**< gradients are multiplied by it: mean over tokens and micro-batches, clipping */
    double mean_factor;     /**< the first part of it: of assigned tensors, which are not clipped */
} redco_update;

/** min(1, clip_norm / (norm + 1e-6)); 1 without clipping. */
double redco_states_clip_factor(const redco_states *states, double norm);
/** Once a step, by the worker that updates; not again before its stream has passed the updates. */
redco_status redco_states_begin_update(redco_states *states, redco_states_worker *worker, const redco_update *update,
                                       redco_error *err);
/** "step/optimizer": what this rank owns of the layer. */
redco_status redco_states_update(redco_states *states, redco_states_worker *worker, uint32_t layer, redco_error *err);

/* Updated weights: stream "updated parameters" */

/** "fwd/block.3/update": from those who updated them to all who share them. */
redco_status redco_states_sync(redco_states *states, redco_states_worker *worker, uint32_t layer, redco_error *err);

/** Elements that it moves, of all its collectives. */
uint64_t redco_states_sync_elements(const redco_states *states, uint32_t layer);

#ifdef __cplusplus
}
#endif
#endif
