/** @file measured.h  Tables of measured training runs: one CSV per source (RFC 4180), one run per row. The columns and
 *  their words are described in traces/data/README.md, which also names the sources of the tables that ship.
 *
 *  Columns may stand in any order and may be absent, save those that identify a run (source, use, model, seq_len, gpu,
 *  n_gpus). A column that is not known here is refused, so that a misspelt one is not taken for an absent one. A cell
 *  that cannot be read is an error at file:line:column. A row that can be read but not used keeps the reason and is no
 *  error. */
#ifndef REDCO_TRACES_MEASURED_H
#define REDCO_TRACES_MEASURED_H

#include "topology/base/recomputation.h"
#include "topology/base/sharding.h"
#include "topology/base/status.h"
#include "topology/ranks/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Column names in lower case behind REDCO_COLUMN_, in the order of the shipped tables. */
typedef enum redco_measured_column {
    REDCO_COLUMN_SOURCE,
    REDCO_COLUMN_LOCATION,
    REDCO_COLUMN_USE,
    REDCO_COLUMN_MODEL,
    REDCO_COLUMN_LAYERS,
    REDCO_COLUMN_HIDDEN,
    REDCO_COLUMN_FFN_HIDDEN,
    REDCO_COLUMN_FFN_GATED,
    REDCO_COLUMN_HEADS,
    REDCO_COLUMN_KV_HEADS,
    REDCO_COLUMN_HEAD_DIM,
    REDCO_COLUMN_VOCAB,
    REDCO_COLUMN_TIED_EMBEDDINGS,
    REDCO_COLUMN_EXPERTS,
    REDCO_COLUMN_SEQ_LEN,
    REDCO_COLUMN_GPU,
    REDCO_COLUMN_N_GPUS,
    REDCO_COLUMN_GPUS_PER_NODE,
    REDCO_COLUMN_NODE_NETWORK_GBPS,
    REDCO_COLUMN_FRAMEWORK,
    REDCO_COLUMN_SOFTWARE,
    REDCO_COLUMN_DP,
    REDCO_COLUMN_TP,
    REDCO_COLUMN_PP,
    REDCO_COLUMN_VIRTUAL_PP,
    REDCO_COLUMN_CP,
    REDCO_COLUMN_CP_TYPE,
    REDCO_COLUMN_EP,
    REDCO_COLUMN_P_SHARD,
    REDCO_COLUMN_G_SHARD,
    REDCO_COLUMN_OS_SHARD,
    REDCO_COLUMN_P_SHARD_SECONDARY,
    REDCO_COLUMN_OPTIMIZER_SCHEME,
    REDCO_COLUMN_SEQUENCE_PARALLEL,
    REDCO_COLUMN_MICRO_BATCH,
    REDCO_COLUMN_GRAD_ACCUM,
    REDCO_COLUMN_GLOBAL_BATCH,
    REDCO_COLUMN_RECOMPUTE,
    REDCO_COLUMN_PRECISION,
    REDCO_COLUMN_GRAD_REDUCE_BYTES,
    REDCO_COLUMN_ATTENTION,
    REDCO_COLUMN_FUSED_NORM,
    REDCO_COLUMN_COMPILED,
    REDCO_COLUMN_OVERLAP,
    REDCO_COLUMN_LOGITS_GATHERED,
    REDCO_COLUMN_CUDA_GRAPHS,
    REDCO_COLUMN_OUTCOME,
    REDCO_COLUMN_TOKENS_PER_S_PER_GPU,
    REDCO_COLUMN_STEP_S,
    REDCO_COLUMN_MEM_GB,
    REDCO_COLUMN_MEM_KIND,
    REDCO_COLUMN_PRINTED_MFU,
    REDCO_COLUMN_PRINTED_TFLOPS,
    REDCO_COLUMN_INFERRED,
    REDCO_COLUMN_NOTES,
    REDCO_COLUMN_ETP, /* from here on of mixtures of experts */
    REDCO_COLUMN_EDP,
    REDCO_COLUMN_TOPK,
    REDCO_COLUMN_EXPERT_FFN,
    REDCO_COLUMN_SHARED_EXPERTS,
    REDCO_COLUMN_SHARED_FFN,
    REDCO_COLUMN_MOE_LAYERS,
    REDCO_COLUMN_DENSE_FFN,
    REDCO_COLUMN_MTP_LAYERS,
    REDCO_COLUMN_PRECISION_RECIPE,
    REDCO_COLUMN_DISPATCHER,
    REDCO_COLUMN_ROUTING,
    REDCO_COLUMN_EP_OVERLAP,
    REDCO_COLUMN_RECOMPUTE_MODULES,
    REDCO_COLUMN_CUDA_GRAPH,
    REDCO_COLUMN_OFFLOAD,
    REDCO_COLUMN_PP_LAYOUT,
    REDCO_COLUMN_RELEASE,
    REDCO_COLUMN_COUNT
} redco_measured_column;

enum { REDCO_COLUMN_WORDS = (REDCO_COLUMN_COUNT + 63) / 64 };

/** Quantities that a row may be compared by; bits. */
typedef enum redco_measured_use {
    REDCO_USE_NOTHING = 0,
    REDCO_USE_SPEED = 1,    /**< tokens/s */
    REDCO_USE_MEMORY = 2,   /**< peak memory, or whether the run fits */
    REDCO_USE_HELD_OUT = 4, /**< compared with, but constants are never fitted to it; beside one of the others */
    REDCO_USE_ODD = 8       /**< other rows of its table contradict it; likewise beside one */
} redco_measured_use;

/** Software classes that share constants of the cost model. */
typedef enum redco_software {
    REDCO_SOFTWARE_UNKNOWN,
    REDCO_SOFTWARE_EAGER,    /**< PyTorch, kernel by kernel */
    REDCO_SOFTWARE_MEGATRON, /**< fused kernels, before Transformer Engine */
    REDCO_SOFTWARE_TE_XLA    /**< Transformer Engine or XLA */
} redco_software;

typedef enum redco_measured_scheme {
    REDCO_MEASURED_SCHEME_UNKNOWN,
    REDCO_MEASURED_SCHEME_INTRA, /**< tensors cut evenly: REDCO_INTRA_TENSOR */
    REDCO_MEASURED_SCHEME_INTER  /**< whole tensors assigned to owners: REDCO_INTER_TENSOR */
} redco_measured_scheme;

typedef enum redco_measured_recompute {
    REDCO_MEASURED_RECOMPUTE_UNKNOWN,
    REDCO_MEASURED_RECOMPUTE_NONE,
    REDCO_MEASURED_RECOMPUTE_SELECTIVE, /**< attention core */
    REDCO_MEASURED_RECOMPUTE_HALF,      /**< about half of the forward GEMMs */
    REDCO_MEASURED_RECOMPUTE_FULL,
    REDCO_MEASURED_RECOMPUTE_MODULES /**< those of recompute_modules */
} redco_measured_recompute;

/** Format of the GEMMs in layers. */
typedef enum redco_measured_precision {
    REDCO_MEASURED_PRECISION_UNKNOWN,
    REDCO_MEASURED_BF16,
    REDCO_MEASURED_FP16,
    REDCO_MEASURED_FP8,
    REDCO_MEASURED_MXFP8,
    REDCO_MEASURED_NVFP4
} redco_measured_precision;

typedef enum redco_measured_attention {
    REDCO_MEASURED_ATTENTION_UNKNOWN,
    REDCO_MEASURED_FLASH1,
    REDCO_MEASURED_FLASH2,
    REDCO_MEASURED_FLASH3, /**< FlashAttention-3 or cuDNN's flash kernels on Hopper and later */
    REDCO_MEASURED_FUSED,  /**< unfused GEMMs, fused softmax */
    REDCO_MEASURED_UNFUSED
} redco_measured_attention;

/** The memory that a peak counts. */
typedef enum redco_mem_kind {
    REDCO_MEM_ALLOCATED, /**< tensors: torch.cuda.max_memory_allocated; also where a table does not say */
    REDCO_MEM_RESERVED,  /**< with what the allocator holds beside them: max_memory_reserved */
    REDCO_MEM_DEVICE,    /**< all that is in use of the device */
    REDCO_MEM_KINDS
} redco_mem_kind;

typedef enum redco_outcome {
    REDCO_OUTCOME_UNKNOWN, /**< also: failed for another reason than memory */
    REDCO_OUTCOME_OK,
    REDCO_OUTCOME_OOM
} redco_outcome;

/** One row. What is unknown is 0, false, "" or ..._UNKNOWN; where that could also be a value (flags, experts, overlap),
 *  redco_measured_knows() tells. Texts are owned by the table. */
typedef struct redco_measured_run {
    uint32_t line;                         /**< line of the file on which the row begins */
    uint64_t known[REDCO_COLUMN_WORDS];    /**< bit per redco_measured_column: the cell is not empty */
    uint64_t inferred[REDCO_COLUMN_WORDS]; /**< bit per redco_measured_column: the source does not state it */
    unsigned use;                          /**< redco_measured_use bits */
    const char *no_reason;                 /**< use = "no: reason": the reason; else "" */
    char fault[160]; /**< why the row contradicts itself or lacks what a comparison needs; else "" */

    const char *source, *location, *model, *gpu, *framework, *notes;

    uint32_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim;
    uint64_t vocab;
    bool ffn_gated, tied_embeddings;
    uint32_t experts;                                      /**< per layer; 0 = dense if known */
    uint32_t topk, expert_ffn, shared_experts, shared_ffn; /**< a token has, width of one; number, width of all */
    uint32_t moe_layers, dense_ffn, mtp_layers;            /**< the other layers, of that width, are dense */
    uint32_t seq_len;

    uint32_t n_gpus, gpus_per_node;
    double node_network_bytes_per_s; /**< rate of a whole node, one direction */
    redco_software software;

    uint32_t dp, tp, pp, virtual_pp, cp, ep;
    uint32_t etp, edp;                            /**< experts have; 0 = unknown */
    const char *dispatcher, *routing, *pp_layout; /**< "alltoall", "forced_balance", Megatron's layout of stages */
    const char *precision_recipe, *offload;       /**< scaling of 8 bits; what goes to the host */
    const char *cuda_graph, *release;             /**< parts that are graphs; that of the software */
    bool ep_overlap;                              /**< all-to-alls hide behind another micro-batch */
    redco_cp_type cp_type;
    redco_shards shards;    /**< over the data-parallel ranks; 0x0 = unknown */
    redco_mesh p_secondary; /**< ZeRO++'s second copy; 0x0 = none */
    redco_measured_scheme scheme;
    bool sequence_parallel;

    uint32_t micro_batch;  /**< sequences */
    uint64_t grad_accum;   /**< micro-batches a step */
    uint64_t global_batch; /**< sequences a step */
    redco_measured_recompute recompute;
    redco_recompute recompute_modules; /**< where it is REDCO_MEASURED_RECOMPUTE_MODULES */
    redco_measured_precision precision;
    uint32_t grad_reduce_bytes; /**< 2 or 4 */
    redco_measured_attention attention;
    bool fused_norm, compiled, logits_gathered, cuda_graphs;
    unsigned overlap; /**< redco_overlap bits */

    redco_outcome outcome;
    double
        tokens_per_s_per_gpu; /**< where only step_s is given: batch x seq_len / (step_s x GPUs), known stays as read */
    double step_s;
    redco_mem_kind mem_kind;
    uint64_t mem_bytes;                            /**< peak per GPU */
    double printed_mfu_ratio, printed_flops_per_s; /**< as printed, in the source's own convention */
} redco_measured_run;

/** One file. */
typedef struct redco_measured redco_measured;

/** @param path  at most 64 MiB and 1,000,000 rows; "-" is standard input */
redco_status redco_measured_read(const char *path, redco_measured **table_out, redco_error *err);
/** @param name  stands for the file in errors; copied, as is the text */
redco_status redco_measured_parse(const char *text, size_t size, const char *name, redco_measured **table_out,
                                  redco_error *err);
void redco_measured_free(redco_measured *table);

/** Rows in the order of the file. @return their number, which may be 0 */
size_t redco_measured_runs(const redco_measured *table, const redco_measured_run **runs_out);

/** Name of a column in files: "micro_batch". */
const char *redco_measured_column_name(redco_measured_column column);
bool redco_measured_knows(const redco_measured_run *run, redco_measured_column column);
bool redco_measured_is_inferred(const redco_measured_run *run, redco_measured_column column);
/** Why the row is not to be compared: what its use says, else its fault; NULL if it is to be compared. */
const char *redco_measured_skip(const redco_measured_run *run);
/** @return the engine that a run's framework was when it ran: its kernels decide where a name means other software
 * today. */
const char *redco_measured_engine(const redco_measured_run *run);

/** Groups within which a choice of strategy is judged: equal source, model, GPU and number of GPUs.
 *  @param runs       @p count rows, of one table or several
 *  @param group_out  room for @p count numbers: groups are numbered from 0 in order of their first row */
redco_status redco_measured_groups(const redco_measured_run *const *runs, size_t count, size_t *group_out,
                                   redco_error *err);
/** Smaller groups, in which nothing but the layout differs: also equal sequence length, batch, framework and its
 *  release, software class, precision and its recipe, attention kernel, fused norm, compilation, CUDA graphs and
 * routing of mixtures. */
redco_status redco_measured_tasks(const redco_measured_run *const *runs, size_t count, size_t *group_out,
                                  redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
