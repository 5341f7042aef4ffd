/** @file states_internal.h  Shared by the files of executor/states. */
#ifndef REDCO_STATES_INTERNAL_H
#define REDCO_STATES_INTERNAL_H

#include "executor/states/program.h"
#include "executor/states/states.h"

enum { REDCOI_NAME_BYTES = 192 };

/** One thread at a time uses the process groups of a stream. */
typedef enum redcoi_stream {
    REDCOI_STREAM_PARAMETERS,
    REDCOI_STREAM_SECONDARY,
    REDCOI_STREAM_GRADIENTS,
    REDCOI_STREAM_UPDATE
} redcoi_stream;

typedef struct redcoi_group {
    redcoi_stream stream;
    redco_between between;
    redco_process_group *process_group;
} redcoi_group;

/** Layers of equal meshes, whose gradients the same ranks reduce. */
typedef struct redcoi_bucket_group {
    redco_shards shards;
    bool sharded;  /**< gradients are cut further than parameters: reduced in every micro-batch */
    bool scatters; /**< once a step each rank needs its owned part only: reduce-scatter instead of all-reduce */
    bool buffered; /**< buckets are copies; else the gradients themselves */
    bool sorted;   /**< the copy is in order of owners */
    bool by_layer; /**< buckets end where layers end */
    /** Intra-tensor: which part of the optimizer states each rank between parameters and optimizer has. NULL: as ranks
     * are numbered */
    uint32_t *part_of;
} redcoi_bucket_group;

/** The range of a layer's shard that is in a bucket. */
typedef struct redcoi_range {
    uint32_t layer;
    uint64_t begin, end; /**< range of the shard */
    uint64_t at;         /**< in the bucket, unless sorted */
} redcoi_range;

typedef struct redcoi_bucket {
    uint32_t bucket_group;
    uint32_t first_range, range_count;
    uint32_t last_module;
    uint32_t buffer;    /**< which, if buffered */
    uint64_t buffer_at; /**< element where it begins */
    uint64_t elements;
    uint64_t *owner_at; /**< sorted: where owners' parts begin, one more than there are owners */
} redcoi_bucket;

/** The optimizer of some tensors. */
typedef struct redcoi_setting {
    redco_optimizer optimizer; /**< no weight decay where it does not apply */
    double rate_factor;
} redcoi_setting;

typedef struct redcoi_adafactor redcoi_adafactor;

struct redco_states {
    redco_layout *layout;
    redco_world *world;
    redco_device_comm *device_comm;
    redco_backend *backend;
    redco_states_options options;
    redco_dtype master;
    bool has_master; /* beside the parameters */
    uint32_t state_count;
    redcoi_group *groups;
    uint32_t group_count;
    redco_communicator *all;     /* for what the program has in its own memory */
    redco_process_group *shared; /* this rank and its like in the other stage with shared layers; NULL: none is */
    redcoi_bucket_group *bucket_groups;
    uint32_t bucket_group_count;
    uint32_t *bucket_group_of; /* by layer */
    redcoi_range *ranges;
    redcoi_bucket *buckets;
    uint32_t range_count, bucket_count;
    uint32_t *bucket_of; /* by module */
    uint64_t *range_at;  /* by module: in its bucket, unless sorted */
    uint64_t *slice_at;  /* by slice: in its bucket, if sorted */
    uint32_t buffer_count;
    uint64_t buffer_elements; /* in all buffers */
    /* where layers begin, in elements */
    uint64_t *parameters_at, *secondary_at, *gradients_at, *owned_at;
    redco_states_size size;
    uint64_t primary_bytes, secondary_bytes; /* sizes: parameters, their second copy */
    uint64_t master_bytes, moment_bytes;     /* master weights, one kind of the optimizer's states */
    unsigned char *parameters, *secondary, *gradients, *buffers;
    unsigned char *owned[1 + REDCO_OPTIMIZER_STATES_MAX]; /* master weights (NULL: parameters are), states */
    redcoi_program update, update_undecayed;              /* the latter for SGD: AdamW multiplies in any case */
    redcoi_program assign, add, round, widen, squares;
    redcoi_setting *settings; /* optimizers of tensors, each once */
    uint32_t *setting_of;     /* by tensor */
    uint32_t setting_count;
    bool has_assigned;         /* any tensor is */
    unsigned char *sums;       /* sums of squares, in device memory: one after the other, as many as a norm needs */
    unsigned char *sums_there; /* the same where the program reads them */
    uint32_t sum_count;
    redcoi_adafactor *adafactor; /* NULL: another optimizer */
};

struct redco_states_worker {
    redcoi_worker_memory memory;
    bool owns_stream;
    uint64_t size_bytes;
    unsigned char *block;            /* all device memory */
    unsigned char *numbers, *upload; /* the latter has room for so many of the master type */
    uint64_t upload_elements;
    unsigned char *staging; /* numbers where the program writes them */
};

/** From one sum of squares to the next: vectors may begin at any multiple. */
enum { REDCOI_SUM_STRIDE_BYTES = 16 };

/* groups.c */
redco_status redcoi_groups_make(redco_states *states, redco_error *err);
void redcoi_groups_free(redco_states *states);
/** NULL for a group of one. */
redco_process_group *redcoi_group_find(const redco_states *states, redcoi_stream stream, redco_mesh inner,
                                       redco_mesh outer);

/* buckets.c */
redco_status redcoi_buckets_make(redco_states *states, redco_error *err);
void redcoi_buckets_free(redco_states *states);

/* programs.c */
redco_status redcoi_programs_make(redco_states *states, redco_error *err);
void redcoi_programs_free(redco_states *states);
uint64_t redcoi_programs_bytes(const redco_states *states);

/* gradient_norm.c */
/** @return whether the slice counts here: several blocks of ranks may own the same states, and tensor-parallel ranks
 * the same tensors. */
bool redcoi_counts(const redco_states *states, uint32_t layer, const redco_shard_slice *slice);
/** Walks over what this rank owns of a layer. @return false at the end */
bool redcoi_next_run(const redco_states *states, const redco_shard_slice *slices, uint32_t count, uint32_t *at,
                     redco_shard_slice *run_out);
/** Sums of squares that a norm of this rank consists of. */
uint32_t redcoi_sums_count(const redco_states *states);

/* worker.c */
/** Where a thread's collectives go. */
redco_stream_handle redcoi_worker_stream(const redco_states_worker *worker);
redco_status redcoi_copy(const redco_states_worker *worker, void *to, const void *from, uint64_t size_bytes,
                         redco_error *err);
/** target += other, or target = other if @p replace */
redco_status redcoi_add(const redco_states *states, const redco_states_worker *worker, void *target, const void *other,
                        uint64_t count, bool replace, const char *name, redco_error *err);

/** Numbers of the optimizer: of every setting, then of assigned tensors; each aligned. */
static inline size_t redcoi_numbers_at(uint32_t setting)
{
    return (size_t)setting * REDCO_ALIGNMENT_BYTES;
}
static inline size_t redcoi_numbers_bytes(const redco_states *states)
{
    return redcoi_numbers_at(states->setting_count + (states->has_assigned ? 1 : 0));
}

static inline const redco_state_model *redcoi_model(const redco_states *states)
{
    return redco_layout_model(states->layout);
}
static inline const redco_shards *redcoi_shards(const redco_states *states, uint32_t layer)
{
    return &redcoi_model(states)->layers[layer].shards;
}
static inline const redco_layer_layout *redcoi_layer_layout(const redco_states *states, uint32_t layer)
{
    return redco_layout_layer(states->layout, layer);
}
/** Ranks of a stage, and the stage of a rank of the world. */
static inline uint32_t redcoi_stage_ranks(const redco_states *states)
{
    return (uint32_t)redco_rank_count(states->options.layout.mesh);
}
static inline uint32_t redcoi_own_stage(const redco_states *states)
{
    return states->device_comm->rank / redcoi_stage_ranks(states);
}
static inline size_t redcoi_bytes(const redco_states *states, uint64_t elements)
{
    return (size_t)elements * redco_dtype_bytes(states->options.dtype);
}
/** Places in memory, by element of the layer's part. */
static inline unsigned char *redcoi_parameter(const redco_states *states, uint32_t layer, uint64_t at)
{
    return states->parameters + redcoi_bytes(states, states->parameters_at[layer] + at);
}
static inline unsigned char *redcoi_gradient(const redco_states *states, uint32_t layer, uint64_t at)
{
    return states->gradients + redcoi_bytes(states, states->gradients_at[layer] + at);
}

#endif
