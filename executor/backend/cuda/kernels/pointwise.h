/** @file pointwise.h  Parameters of the pointwise kernels (pointwise.cu), as host and device share them. */
#ifndef REDCO_CUDA_KERNELS_POINTWISE_H
#define REDCO_CUDA_KERNELS_POINTWISE_H

#include "executor/backend/cuda/kernels/arguments.h"

enum {
    REDCOI_POINTWISE_INPUTS = 8,    /**< REDCO_POINTWISE_INPUTS_MAX */
    REDCOI_POINTWISE_OUTPUTS = 3,   /**< REDCO_POINTWISE_OUTPUTS_MAX */
    REDCOI_POINTWISE_STEPS = 32,    /**< REDCO_POINTWISE_STEPS_MAX */
    REDCOI_POINTWISE_REGISTERS = 5, /**< values of an element that a thread holds at once */
    REDCOI_POINTWISE_WIDTH = 8      /**< elements that a thread has at once: 16 bytes of 16-bit types */
};

/** The types in memory: values are computed with as float; truth values are 0 and 1. */
typedef enum redcoi_pointwise_type {
    REDCOI_POINTWISE_F32,
    REDCOI_POINTWISE_BF16,
    REDCOI_POINTWISE_F16,
    REDCOI_POINTWISE_BOOL
} redcoi_pointwise_type;

/** Those that end in _FAST are of 16-bit types. */
typedef enum redcoi_pointwise_code {
    REDCOI_CODE_CONSTANT, /**< scalar */
    REDCOI_CODE_COPY,     /**< casts: rounding does the rest */
    REDCOI_CODE_TRUTH,    /**< casts to bool */
    REDCOI_CODE_NEG,
    REDCOI_CODE_EXP,
    REDCOI_CODE_EXP_FAST,
    REDCOI_CODE_LOG,
    REDCOI_CODE_SQRT,
    REDCOI_CODE_RSQRT,
    REDCOI_CODE_SQUARE, /**< powers 2, 3, -1 */
    REDCOI_CODE_CUBE,
    REDCOI_CODE_RECIPROCAL,
    REDCOI_CODE_TANH,
    REDCOI_CODE_SIGMOID,
    REDCOI_CODE_SIGMOID_FAST,
    REDCOI_CODE_RELU,
    REDCOI_CODE_SILU,
    REDCOI_CODE_SILU_FAST,
    REDCOI_CODE_GELU_TANH,
    REDCOI_CODE_GELU_TANH_FAST,
    REDCOI_CODE_NOT,
    REDCOI_CODE_SILU_GRAD,
    REDCOI_CODE_SILU_GRAD_FAST,
    REDCOI_CODE_GELU_TANH_GRAD,
    REDCOI_CODE_GELU_TANH_GRAD_FAST,
    REDCOI_CODE_ADD,
    REDCOI_CODE_SUB,
    REDCOI_CODE_MUL,
    REDCOI_CODE_DIV,
    REDCOI_CODE_MAX,
    REDCOI_CODE_MIN,
    REDCOI_CODE_EQ,
    REDCOI_CODE_LT,
    REDCOI_CODE_LE,
    REDCOI_CODE_AND,
    REDCOI_CODE_OR,
    REDCOI_CODE_SELECT
} redcoi_pointwise_code;

/** A step: registers it reads and the one it writes, which may be one that it reads. */
typedef struct redcoi_pointwise_step {
    uint8_t code, to, a, b, c;
    uint8_t round; /**< redcoi_pointwise_type that the result is rounded to: BF16, F16, or F32 for none */
    float scalar;
} redcoi_pointwise_step;

/** The result is walked in rows of @p inner elements, of which each input has a row that is dense (step 1) or one
 * number (step 0). Input k is register k. */
typedef struct redcoi_pointwise_args {
    const void *in[REDCOI_POINTWISE_INPUTS];
    void *out[REDCOI_POINTWISE_OUTPUTS];
    uint64_t count; /**< elements of a result */
    uint64_t first; /**< narrow: before it vectors have been */
    uint32_t rank;  /**< number of dimensions outside of rows; 0: one row */
    uint32_t dense; /**< nothing is repeated */
    uint32_t inputs, outputs, steps;
    uint8_t in_type[REDCOI_POINTWISE_INPUTS], out_type[REDCOI_POINTWISE_OUTPUTS];
    uint8_t out_register[REDCOI_POINTWISE_OUTPUTS];
    uint8_t step_of[REDCOI_POINTWISE_INPUTS]; /**< 1 or 0 */
    redcoi_pointwise_step step[REDCOI_POINTWISE_STEPS];
    redcoi_divisor inner; /**< by vectors, or elements of a row */
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t stride[REDCOI_POINTWISE_INPUTS][REDCOI_KERNEL_RANK];
} redcoi_pointwise_args;

/** Programs that are common enough for kernels of their own, in which the compiler sees the steps: those of gated and
 *  ReLU's activations and of sums, all values of one type. Their steps as the runner writes them, S(code, to, a, b, c)
 * with the codes of F32, and the registers of the results; a program that is written so is run by
 * redco_k_pointwise_NAME_TYPE. X(name, inputs, outputs, first, second result, steps). */
#define REDCOI_POINTWISE_GATED(S) S(SILU, 0, 0, 0, 0) S(MUL, 0, 0, 1, 0)
#define REDCOI_POINTWISE_GATED_GRAD(S)                                                                                 \
    S(SILU, 3, 0, 0, 0) S(MUL, 2, 1, 2, 0) S(MUL, 1, 1, 3, 0) S(SILU_GRAD, 0, 0, 2, 0)
#define REDCOI_POINTWISE_SUM3(S) S(ADD, 0, 0, 1, 0) S(ADD, 0, 2, 0, 0)
#define REDCOI_POINTWISE_RELU_GRAD(S) S(CONSTANT, 2, 0, 0, 0) S(LT, 0, 2, 0, 0) S(SELECT, 0, 0, 1, 2)
#define REDCOI_POINTWISE_PROGRAMS(X)                                                                                   \
    X(gated, 2, 1, 0, 0, REDCOI_POINTWISE_GATED)                                                                       \
    X(gated_grad, 3, 2, 1, 0, REDCOI_POINTWISE_GATED_GRAD)                                                             \
    X(sum3, 3, 1, 0, 0, REDCOI_POINTWISE_SUM3)                                                                         \
    X(relu_grad, 2, 1, 0, 0, REDCOI_POINTWISE_RELU_GRAD)

#endif
