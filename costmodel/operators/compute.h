/** @file compute.h  The operators of one layer for one micro-batch on one GPU, and their seconds. Planner, simulator
 * and executor share the operators' roles and their names (costmodel/graph/op_roles.h). Formulas and constants:
 * OPERATORS.md. Pure functions. */
#ifndef REDCO_COMPUTE_H
#define REDCO_COMPUTE_H

#include "costmodel/engines/calibration.h"
#include "costmodel/engines/engine.h"
#include "costmodel/graph/op_roles.h"
#include "costmodel/models/model.h"
#include "costmodel/operators/power.h"
#include "topology/base/sharding.h"
#include "topology/discovery/topology.h"
#include "topology/ranks/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The work of one rank at a time. */
typedef struct redco_shape {
    uint32_t seq_len;     /**< whole sequence, before cp cuts it */
    uint32_t micro_batch; /**< sequences */
    uint32_t tp, cp;
    uint32_t ep, etp; /**< as redco_parallelism has them: 0 is 1, and tp */
    redco_cp_type cp_type;
    bool sequence_parallel; /**< work outside the split matrices is divided by tp too */
    redco_precision precision;
    redco_engine engine;
} redco_shape;

typedef enum redco_operator_kind {
    REDCO_OPERATOR_GEMM,
    REDCO_OPERATOR_ATTENTION, /**< flash attention core: scores, softmax, product with V */
    REDCO_OPERATOR_MEMORY,    /**< bound by memory traffic: norms, activation functions, rotary */
    REDCO_OPERATOR_LOSS,      /**< softmax and cross entropy over the vocabulary */
    REDCO_OPERATOR_EMBEDDING, /**< table look-up */
    REDCO_OPERATOR_SCORES,    /**< attention core that writes its scores to memory */
    REDCO_OPERATOR_NORM,      /**< norm of several kernels; bytes are those of a fused one */
    REDCO_OPERATOR_CAST,      /**< conversions to and from 8-bit formats */
    REDCO_OPERATOR_LISTED     /**< an operator of one pass that a graph lists, gradients among them */
} redco_operator_kind;

typedef enum redco_pass {
    REDCO_PASS_FORWARD,
    REDCO_PASS_GRAD_INPUT, /**< all of the backward of operators without weights of note */
    REDCO_PASS_GRAD_WEIGHT /**< GEMMs only, else 0 s */
} redco_pass;

enum { REDCO_OPERATOR_PARTS = 4 };

/** One operator of one rank, forward. A GEMM multiplies [m][k] by [k][n]; m, n, k are 0 for other kinds. */
typedef struct redco_operator {
    redco_op_role role;
    const redco_layer_group *group; /**< that it prices; NULL: an engine's own, or a listed one */
    const redco_work_op *listed;    /**< that it prices, of so many examples, on one of so many ranks; else NULL */
    uint64_t examples;
    uint32_t ranks;
    redco_operator_kind kind;
    uint64_t m, n, k;
    uint64_t experts; /**< above 1: GEMM of a matrix for each expert, each with an equal part of the m rows */
    uint64_t parts[REDCO_OPERATOR_PARTS]; /**< GEMM of several weights that one input meets (q, k, v; gate, up), by an
                                               engine that multiplies by each: their widths, which add up to n */
    uint32_t part_count;                  /**< 0: one product */
    bool adds;                            /**< GEMM whose result goes onto what a residual connection brings */
    bool frozen;                          /**< GEMM whose weights are not trained: they have no gradient */
    bool low_precision;                   /**< GEMM in the engine's format instead of the training precision */
    bool grouped;                         /**< GEMM of experts, whatever their number */
    bool routed;                          /**< bound by memory: rows of experts, or a mixture's casts */
    double bias_bytes;                    /**< GEMM of experts: biases, added by operators of their own */
    bool unaligned_head;                  /**< scores of a head size that matrix units do not take */
    double flops;
    double bytes; /**< read and written, each operand once; traffic factors of the calibration come on top */
    /* By what a profile knows it (compute_profile.h). */
    const char *measured_as; /**< static: "rms_norm", "loss", ...; NULL for products and attention */
    double elements;         /**< elements of its result */
    uint32_t columns;        /**< norms: elements of a row */
    double table_elements;   /**< embedding: of the gradient that it makes */
    bool table_shared;       /**< embedding: the head makes a gradient of the same table, too, to which it is added */
    uint32_t keys, head_dim; /**< attention: keys of a query, size of a head */
    bool causal;             /**< attention: flops are half of the square */
} redco_operator;

/** Measured times of operators: compute_profile.h. */
typedef struct redco_compute_profile redco_compute_profile;

enum { REDCO_OPERATORS_MAX = REDCO_GROUPS_MAX };

/** A member of a class as one rank has it: its operators are made from it one by one. */
typedef struct redco_rank_layer {
    const redco_model_dims *dims;
    const redco_shape *shape; /**< borrowed */
    const redco_layer_work *work;
    const redco_degree_work *listed; /**< the rank's, of its degree */
    uint64_t sizes[REDCO_AXIS_COUNT];
    redco_class_kind kind;
    uint64_t window; /**< the class's */
    double element_bytes;
    double memory_unit; /**< traffic constants of the reference are for 2-byte elements */
    uint32_t op_count;
} redco_rank_layer;

redco_rank_layer redco_rank_layer_of(const redco_model *model, uint32_t class_index, const redco_shape *shape);
/** @param index  below op_count, in forward order */
redco_operator redco_rank_operator(const redco_rank_layer *layer, uint32_t index);
/** The most operators that a layer of the model has. */
uint32_t redco_model_operators_most(const redco_model *model);
/** All operators of one member of a class, or of a long list the first ones. @return their number */
uint32_t redco_layer_operators(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                               redco_operator operators_out[REDCO_OPERATORS_MAX]);

/** The part of each axis (record/extent.h) that one rank has: tokens of its part of the sequence, heads, FFN and
 * vocabulary cut by tensor parallelism. */
void redco_rank_axis_sizes(const redco_model *model, const redco_shape *shape, uint64_t sizes_out[REDCO_AXIS_COUNT]);

/** Tensor-parallel ranks that share a sequence and route their own part of it: 1 where experts are cut as FFNs are,
 * whose ranks all have the rows of each other. */
uint32_t redco_shape_routers(const redco_shape *shape);

/** @return whether norms are of several kernels: of eager modelling code those that Python writes out, RMS norms. */
bool redco_norms_plain(const redco_model_dims *dims, const redco_engine *engine);

/** Rows of experts that the fullest rank works on, over the mean: what routing leaves uneven, or a capacity. */
double redco_shape_load(const redco_shape *shape);

/** KV heads one tensor-parallel rank holds: they are replicated where there are fewer than ranks. */
uint32_t redco_rank_kv_heads(const redco_model_dims *dims, uint32_t tp);

/** A GPU at one precision. */
typedef struct redco_compute {
    double peak_flops_per_s;          /**< matrix peak: fp32 means TF32 where the GPU has it */
    double low_precision_flops_per_s; /**< rate of products in blocks: peak of the engine's format times its relative
                                  efficiency */
    double memory_bandwidth_bytes_per_s;
    uint32_t element_bytes;
    bool tf32; /**< peak_flops_per_s is that of TF32 */
    redco_calibration calibration;
    double attention_efficiency; /**< e_a, less on GPUs that flash attention 2 does not support */
    redco_precision precision;
    const redco_compute_profile *measured; /**< goes before the formulas; borrowed, NULL: nothing is measured */
    redco_power power;
} redco_compute;

/** @return REDCO_EVALUE if the GPU does not support @p precision; the text says which one to use */
redco_status redco_compute_create(const redco_gpu *gpu, redco_precision precision, const redco_calibration *calibration,
                                  redco_compute *compute_out, redco_error *err);
/** Takes an engine's kernels into account. @return REDCO_EVALUE if the GPU lacks the format of its products */
redco_status redco_compute_use_engine(redco_compute *compute, const redco_gpu *gpu, const redco_engine *engine,
                                      redco_error *err);

/** Takes measured times, and the watts that their file tells. @param measured  borrowed; NULL: nothing is measured */
void redco_compute_use_measured(redco_compute *compute, const redco_gpu *gpu, const redco_compute_profile *measured);

double redco_operator_s(const redco_compute *compute, const redco_operator *op, redco_pass pass);

/** The clock of a step's products (power.h), from what all layers run for a micro-batch. */
double redco_compute_clock_ratio(const redco_compute *compute, const redco_model *model, const redco_shape *shape);
/** redco_operator_s() in such a step. */
double redco_operator_at_s(const redco_compute *compute, const redco_operator *op, redco_pass pass, double clock_ratio);
/** Joules above idle of one operator there. */
double redco_operator_j(const redco_compute *compute, const redco_operator *op, redco_pass pass, double clock_ratio);

/** A layer pass takes the longer of what the GPU computes and what the host needs to launch it; the corner between is
 *  round: (gpu^6 + host^6)^(1/6). */
double redco_pass_s(double gpu_s, double host_s);

#ifdef __cplusplus
}
#endif
#endif
