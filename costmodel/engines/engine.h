/** @file engine.h  The ways of the training software, as far as it changes what a step costs: kernels, formats,
 *  what is gathered at a time, over which ranks states are sharded. An engine is a file (costmodel/presets/engines, or
 *  the user's own; ENGINES.md); a run states some of its traits otherwise. Nothing else decides by a framework's name.
 *  Formulas: OPERATORS.md, STEP.md, MEMORY_FORMULAS.md. */
#ifndef REDCO_ENGINE_H
#define REDCO_ENGINE_H

#include "costmodel/schedules/dimensions.h"
#include "costmodel/schedules/pipeline.h"
#include "topology/base/json.h"
#include "topology/base/sharding.h"
#include "topology/discovery/topology.h"
#include "topology/ranks/parallel.h"
#include "traces/measured.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_attention {
    REDCO_ATTENTION_AUTO, /**< flash 2, or flash 1 on GPUs before compute capability 8.0 */
    REDCO_ATTENTION_FLASH1,
    REDCO_ATTENTION_FLASH2,
    REDCO_ATTENTION_FLASH3, /**< or cuDNN's flash kernels on Hopper and later */
    REDCO_ATTENTION_FUSED,  /**< scores are written out; one kernel for mask and softmax */
    REDCO_ATTENTION_UNFUSED /**< scores are written out; a kernel per operation */
} redco_attention;

/** Number format of the matrix products in blocks; attention and head keep the training precision. */
typedef enum redco_gemm_format {
    REDCO_GEMM_SAME, /**< the training precision */
    REDCO_GEMM_FP8,
    REDCO_GEMM_MXFP8,
    REDCO_GEMM_NVFP4
} redco_gemm_format;

/** Which layout of split matrices an engine's tensor parallelism has. */
typedef enum redco_engine_layout {
    REDCO_ENGINE_RULES, /**< RedCoast's rules, whatever collectives they need (planner/rules/RULES.md) */
    REDCO_ENGINE_PAIRED /**< its own: column and row splits in pairs, two collectives a block and pass */
} redco_engine_layout;

/** The count of memory (closed_form/MEMORY.md). */
typedef enum redco_memory_kind {
    REDCO_MEMORY_FORMULAS, /**< formulas for frameworks in general */
    REDCO_MEMORY_MEGATRON, /**< the tensors that Megatron keeps and allocates, with Transformer Engine or its own
                              kernels */
    REDCO_MEMORY_PYTORCH,  /**< the tensors that PyTorch keeps, operator by operator or compiled */
    REDCO_MEMORY_XLA,      /**< the tensors that XLA keeps, which fuses like a compiler */
    REDCO_MEMORY_COPIES,   /**< PyTorch with copies between layouts of attention, as Aleph Alpha's code has them */
    REDCO_MEMORY_EAGER,    /**< PyTorch's DDP and FSDP around modelling code in Python, moment by moment */
    REDCO_MEMORY_ZERO      /**< the same code under DeepSpeed, with its buffers */
} redco_memory_kind;

/** Carrier of the rows of a mixture of experts to the ranks of their experts and back (OPERATORS.md). */
typedef enum redco_dispatcher {
    REDCO_DISPATCHER_ALL_TO_ALL, /**< NCCL's, a row for each choice */
    REDCO_DISPATCHER_DEEPEP,     /**< a row crosses to a node once and is spread there */
    REDCO_DISPATCHER_HYBRIDEP,   /**< likewise, and rows arrive sorted by expert */
    REDCO_DISPATCHER_NCCLEP      /**< NCCL's own of that kind */
} redco_dispatcher;

/** The parts of a layer whose kernels a graph launches; each holds those before it. */
typedef enum redco_graph_scope {
    REDCO_GRAPHS_NONE,
    REDCO_GRAPHS_ALL, /**< the whole step: redco_engine.cuda_graphs */
    REDCO_GRAPHS_ATTENTION,
    REDCO_GRAPHS_ROUTER, /**< and FFNs of dense layers */
    REDCO_GRAPHS_SHARED  /**< and shared experts */
} redco_graph_scope;

enum { REDCO_ENGINE_NAME = 32 };

/** The training script still holds outputs of the step before while the next goes forward (eager PyTorch). */
typedef enum redco_held_outputs {
    REDCO_HELD_NONE,
    REDCO_HELD_LOGITS, /**< its logits, in 32 bits */
    REDCO_HELD_CACHE   /**< and each layer's keys and values; those of this step, too */
} redco_held_outputs;

/** The optimizer, by the states that it keeps of a trained parameter beside its weights. */
typedef enum redco_engine_optimizer {
    REDCO_OPTIMIZER_ADAMW,      /**< two moments */
    REDCO_OPTIMIZER_ADAMW_8BIT, /**< in a byte each (bitsandbytes; a scale for 256 of them is not counted) */
    REDCO_OPTIMIZER_ADAFACTOR,  /**< sums over rows and columns, which are not counted; no momentum */
    REDCO_OPTIMIZER_LION,       /**< one moment */
    REDCO_OPTIMIZER_MOMENTUM,   /**< SGD with one */
    REDCO_OPTIMIZER_SGD
} redco_engine_optimizer;

/** States that lie in the memory of the host while they are not needed (DeepSpeed's ZeRO-Offload, FSDP's CPU offload).
 */
typedef enum redco_offload {
    REDCO_OFFLOAD_NONE,
    REDCO_OFFLOAD_OPTIMIZER, /**< the optimizer's, which processors update, and sharded gradients */
    REDCO_OFFLOAD_PARAMETERS /**< and sharded parameters */
} redco_offload;

/** Every trait, resolved. All zero: module-wise gathers, flash attention, fused norms, matrices in the training
 *  precision, one model chunk a stage, RedCoast's layouts. */
typedef struct redco_engine {
    char name[REDCO_ENGINE_NAME]; /**< name of its file; "" = none was named */
    redco_software software;      /**< class that shares constants: picks the calibration */
    uint32_t stated;              /**< bit per redco_trait: stated by the run, not the file's default */
    redco_attention attention;
    redco_gemm_format gemm_format;
    bool plain_norm; /**< norms of several kernels each */
    bool compiled;   /**< torch.compile fuses memory-bound operators */
    bool autocast;   /**< weights stay in 32 bits and are gathered so; torch.autocast copies operands of products,
                          and the values that layers hand on are in 32 bits */
    bool dropout;    /**< trains with dropout unless a model says that it has none */
    redco_held_outputs held_outputs;
    redco_engine_optimizer optimizer;
    redco_offload offload;
    bool no_masters;        /**< 16-bit weights are updated as they are: no copy in 32 bits is kept */
    bool fused_loss;        /**< one kernel computes the loss and its gradient in the place of the logits */
    bool logits_gathered;   /**< every tensor-parallel rank holds the logits of the whole vocabulary */
    bool async_tp;          /**< tensor-parallel traffic is cut up and overlapped with the products beside it */
    bool partial_recompute; /**< REDCO_RECOMPUTE_FULL repeats about half of the forward products only: checkpointing per
                                 operator, or policies that keep some outputs */
    bool layer_units;       /**< parameters are gathered a layer at a time (flat FSDP units), not by module */
    redco_engine_layout tp_layout;
    redco_memory_kind memory;       /**< unless it is planned */
    uint32_t moment_bytes;          /**< bytes of an element of each of Adam's moments in 16-bit training; 0: 4 */
    uint32_t fragmentation_percent; /**< memory that the allocator holds beside tensors, as a share of those that are no
                                       states; then only CUDA's context is held back besides. 0: the calibration's
                                       reserve stands for both */
    bool planned_memory; /**< memory is planned from the lifetimes of a graph's values (redco-exec): what backward
                              reads is kept once, nothing is masked, converted or fragmented; and what
                              it does not read is not computed again */
    bool made_again;     /**< for engines that plan their memory, on GPUs: backward makes the activated gate of a gated
                              FFN again, of what it reads anyway, and forward does not keep it */
    bool widens; /**< for engines that plan their memory, on processors: 16-bit tensors of an operator are copied
                      to 32 bits while it runs */
    uint64_t workspace_bytes; /**< planned memory: of one product beside its operands */
    bool cuda_graphs;         /**< on GPUs: what a step computes is launched as graphs, not operator by operator */
    redco_graph_scope graphs; /**< parts of layers with experts that are; all: cuda_graphs is set */
    redco_dispatcher dispatcher;
    bool fp8_activation_input;  /**< the input of an FFN's activation is kept for backward in 8 bits */
    bool ep_overlap;            /**< all-to-alls of one micro-batch hide behind the other pass of another */
    bool no_mnnvl;              /**< experts use NVLink inside of hosts only, though a rack joins more */
    uint32_t imbalance_percent; /**< rows of the fullest rank of experts over the mean; 0: natural routing's */
    uint32_t capacity_percent;  /**< rows that an expert takes, over the mean; the rest is dropped. 0: all */
    uint32_t release;           /**< the software's, 202511 for 2025.11; 0: not known, taken as the newest */
    bool shard_over_cp;      /**< states are sharded over data- and context-parallel ranks together: meshes count both,
                                  context-parallel ranks first (redco_shard_grid()) */
    bool contiguous_context; /**< a context-parallel rank has one piece of the sequence, not one of each half: the
                                  last has the most attention where it is causal */
    uint32_t peak_error_percent; /**< the most that measured peaks of its memory were off; 0: none is known */
    uint32_t gradient_bytes;     /**< per element, reduced and kept; 0 = as the precision says */
} redco_engine;

/** Traits that a file states and a run may state otherwise, in the order of files; columns of measured tables have the
 *  same names. */
typedef enum redco_trait {
    REDCO_TRAIT_SOFTWARE,
    REDCO_TRAIT_GATHER,
    REDCO_TRAIT_SHARD_OVER,
    REDCO_TRAIT_BUCKET_BYTES,
    REDCO_TRAIT_TP_LAYOUT,
    REDCO_TRAIT_ATTENTION,
    REDCO_TRAIT_FUSED_NORM,
    REDCO_TRAIT_COMPILED,
    REDCO_TRAIT_LOGITS_GATHERED,
    REDCO_TRAIT_CROSS_ENTROPY,
    REDCO_TRAIT_GRAD_REDUCE_BYTES,
    REDCO_TRAIT_CUDA_GRAPHS,           /**< files and plans may leave it out: none */
    REDCO_TRAIT_MOMENT_BYTES,          /**< likewise: 4 */
    REDCO_TRAIT_FRAGMENTATION_PERCENT, /**< likewise */
    REDCO_TRAIT_MEMORY,                /**< not stated otherwise: the executor's own */
    REDCO_TRAIT_CP_BALANCE,            /**< files and plans may leave it out: zigzag */
    REDCO_TRAIT_AUTOCAST,              /**< likewise: false */
    REDCO_TRAIT_DROPOUT,               /**< likewise */
    REDCO_TRAIT_HELD_OUTPUTS,          /**< likewise: none */
    REDCO_TRAIT_OPTIMIZER,             /**< likewise: adamw */
    REDCO_TRAIT_MASTER_WEIGHTS,        /**< likewise: fp32 */
    REDCO_TRAIT_OFFLOAD,               /**< likewise: none */
    REDCO_TRAIT_FP8_ACTIVATION_INPUT,  /**< likewise: false */
    REDCO_TRAIT_DISPATCHER,            /**< likewise all that follows, of mixtures of experts: alltoall */
    REDCO_TRAIT_EP_OVERLAP,            /**< none */
    REDCO_TRAIT_EXPERT_IMBALANCE,      /**< natural routing's */
    REDCO_TRAIT_CAPACITY_FACTOR,       /**< no row is dropped */
    REDCO_TRAIT_MNNVL,                 /**< as far as the rack goes */
    REDCO_TRAIT_RELEASE,               /**< the newest */
    REDCO_TRAIT_COUNT
} redco_trait;

/** "software", "gather", ... NULL-terminated, indexed by the enum. */
extern const char *const redco_trait_words[];
/** @return whether files and plans may leave a trait out. */
bool redco_trait_may_lack(redco_trait trait);
/** @return whether it says something of mixtures of experts only. */
bool redco_trait_of_experts(redco_trait trait);

enum { REDCO_ENGINE_GPUS = 16, REDCO_ENGINE_SETS = 4 };

/** One file. Plain values. */
typedef struct redco_engine_file {
    redco_engine engine; /**< its defaults; gradient_bytes is in gradient_bytes[] */
    char title[96];
    uint32_t gradient_bytes[3]; /**< by redco_precision; 0 = as the precision says */
    bool fused_loss[3];         /**< likewise */
    uint64_t bucket_bytes;
    uint32_t overlap; /**< redco_overlap bits: what it hides behind computation */
    uint32_t dimensions, states;
    redco_recompute_list recompute;  /**< sets that it offers; half: engine.partial_recompute */
    uint32_t schedules;              /**< schedules of pipelines: bits 1 << redco_pipeline_kind */
    uint32_t cp_types;               /**< bits 1 << redco_cp_type; 0: it has no context parallelism */
    redco_cp_type cp_type;           /**< the first that the file names: what it does unless told otherwise */
    bool inter_tensor, intra_tensor; /**< optimizer schemes */
    char export_to[16];              /**< word of redco-plan --export; "" = none */
    struct {
        char gpu[24]; /**< beginning of the GPU's name, its architecture, or "*" */
        char set[64];
    } calibrations[REDCO_ENGINE_SETS]; /**< sets of this engine's own, before those of its class of software */
    uint32_t calibration_count;
    char measured_on[REDCO_ENGINE_GPUS][48];
    uint32_t measured_count;
    char sources[REDCO_TRAIT_COUNT][256]; /**< cut where longer */
} redco_engine_file;

/** @return whether runs of this engine on that GPU (the name of its file) were measured: traces/data. */
bool redco_engine_measured_on(const redco_engine_file *file, const char *gpu);
/** The same, or on a GPU preset of the same compute capability: A100 with other memory, H200 beside H100. */
bool redco_engine_measured_like(const redco_engine_file *file, const redco_gpu *gpu);

/** @param name_or_path  preset or file */
redco_status redco_engine_file_read(const char *name_or_path, redco_engine_file *file_out, redco_error *err);
redco_status redco_engine_file_from_json(const redco_json_value *value, redco_engine_file *file_out, redco_error *err);

/** The part of a request that belongs to its engine. */
typedef struct redco_engine_choice {
    redco_engine engine;
    uint64_t bucket_bytes;
} redco_engine_choice;

/** Sets how memory is counted, by the word of files. @return false: there is no such word */
bool redco_engine_set_memory(redco_engine *engine, const char *word);

/** The file's defaults for that precision of training. */
redco_engine_choice redco_engine_choose(const redco_engine_file *file, redco_precision precision);
/** States one trait otherwise. @param place  for the error, e.g. "engine"
 *  @return REDCO_EVALUE and the known words */
redco_status redco_engine_state(redco_engine_choice *choice, const char *trait, const char *value, const char *place,
                                redco_error *err);
/** A trait that is a number, from files and plans. */
redco_status redco_engine_read_number(const redco_json_value *value, const char *key, redco_trait trait,
                                      redco_engine *engine, redco_error *err);
/** The value of a trait as such a word. @return @p buffer */
const char *redco_engine_trait(const redco_engine_choice *choice, redco_precision precision, redco_trait trait,
                               char *buffer, size_t size);
/** Name and every trait, a new reference; NULL when out of memory. */
json_t *redco_engine_describe(const redco_engine_choice *choice, redco_precision precision);
/** The same back. Traits that a run states of its own (precision, recomputation) are not in it. */
redco_status redco_engine_from_json(const redco_json_value *value, redco_engine_choice *choice_out, redco_error *err);

/** @return whether that attention writes its scores out, so that recomputing them selectively frees memory. */
static inline bool redco_attention_keeps_scores(redco_attention attention)
{
    return attention == REDCO_ATTENTION_FUSED || attention == REDCO_ATTENTION_UNFUSED;
}

/** Where no measured peak is known. */
enum { REDCO_PEAK_ERROR_UNKNOWN = 15 };
/** The error of peaks in percent, or that one. Engines that plan their memory have it counted by the executor. */
static inline uint32_t redco_engine_peak_error(const redco_engine *engine)
{
    const uint32_t unknown = engine->planned_memory ? 2 : REDCO_PEAK_ERROR_UNKNOWN;
    return engine->peak_error_percent > 0 ? engine->peak_error_percent : unknown;
}

/** @return whether memory is that of eager PyTorch, of which a step has several moments (closed_form/MEMORY.md). */
static inline bool redco_engine_is_eager(const redco_engine *engine)
{
    return engine->memory == REDCO_MEMORY_EAGER || engine->memory == REDCO_MEMORY_ZERO;
}

#ifdef __cplusplus
}
#endif
#endif
