/** @file operators.h  The one list of operators, from which each table takes its columns: the kind, its name and class,
 *  the fewest and the most inputs, the outputs; its rule of type inference; its gradient rule (NULL: no gradient
 * passes, or only by decomposition); its decomposition (NULL: a basic operator). */
#ifndef REDCO_GRAPH_OPERATORS_H
#define REDCO_GRAPH_OPERATORS_H

#include "costmodel/graph/graph_internal.h"
#include "costmodel/graph/pointwise_program.h"

/* clang-format off */
#define REDCOI_OPERATORS(ROW) \
    ROW(INPUT, "input", SOURCE, 0, 0, 1, redcoi_infer_source, NULL, NULL) \
    ROW(CONSTANT, "constant", SOURCE, 0, 0, 1, redcoi_infer_source, NULL, NULL) \
    ROW(IOTA, "iota", SOURCE, 0, 0, 1, redcoi_infer_iota, NULL, NULL) \
    ROW(UNIFORM, "uniform", SOURCE, 1, 1, 1, redcoi_infer_random, NULL, NULL) \
    ROW(NORMAL, "normal", SOURCE, 1, 1, 1, redcoi_infer_random, NULL, NULL) \
    ROW(NEG, "neg", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_neg, NULL) \
    ROW(EXP, "exp", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_exp, NULL) \
    ROW(LOG, "log", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_log, NULL) \
    ROW(SQRT, "sqrt", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_sqrt, NULL) \
    ROW(RSQRT, "rsqrt", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_rsqrt, NULL) \
    ROW(POW, "pow", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_pow, NULL) \
    ROW(TANH, "tanh", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_tanh, NULL) \
    ROW(ERF, "erf", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_erf, NULL) \
    ROW(SIN, "sin", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_sin, NULL) \
    ROW(COS, "cos", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_cos, NULL) \
    ROW(SIGMOID, "sigmoid", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_sigmoid, NULL) \
    ROW(RELU, "relu", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_relu, NULL) \
    ROW(SILU, "silu", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_gated, redcoi_decompose_silu) \
    ROW(GELU, "gelu", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_gated, redcoi_decompose_gelu) \
    ROW(GELU_TANH, "gelu_tanh", ELEMENTWISE, 1, 1, 1, redcoi_infer_float, redcoi_vjp_gated, redcoi_decompose_gelu_tanh) \
    ROW(NOT, "not", ELEMENTWISE, 1, 1, 1, redcoi_infer_not, NULL, NULL) \
    ROW(CAST, "cast", ELEMENTWISE, 1, 1, 1, redcoi_infer_cast, redcoi_vjp_cast, NULL) \
    ROW(STOP_GRADIENT, "stop_gradient", ELEMENTWISE, 1, 1, 1, redcoi_infer_same, NULL, NULL) \
    ROW(SILU_GRAD, "silu_grad", ELEMENTWISE, 2, 2, 1, redcoi_infer_float_arithmetic, NULL, redcoi_decompose_silu_grad) \
    ROW(GELU_GRAD, "gelu_grad", ELEMENTWISE, 2, 2, 1, redcoi_infer_float_arithmetic, NULL, redcoi_decompose_gelu_grad) \
    ROW(GELU_TANH_GRAD, "gelu_tanh_grad", ELEMENTWISE, 2, 2, 1, redcoi_infer_float_arithmetic, NULL, redcoi_decompose_gelu_tanh_grad) \
    ROW(ADD, "add", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_add, NULL) \
    ROW(SUB, "sub", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_sub, NULL) \
    ROW(MUL, "mul", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_mul, NULL) \
    ROW(DIV, "div", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_div, NULL) \
    ROW(MAX, "max", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_extreme, NULL) \
    ROW(MIN, "min", ELEMENTWISE, 2, 2, 1, redcoi_infer_arithmetic, redcoi_vjp_extreme, NULL) \
    ROW(EQ, "equal", ELEMENTWISE, 2, 2, 1, redcoi_infer_compare, NULL, NULL) \
    ROW(LT, "less", ELEMENTWISE, 2, 2, 1, redcoi_infer_compare, NULL, NULL) \
    ROW(LE, "less_equal", ELEMENTWISE, 2, 2, 1, redcoi_infer_compare, NULL, NULL) \
    ROW(AND, "and", ELEMENTWISE, 2, 2, 1, redcoi_infer_logic, NULL, NULL) \
    ROW(OR, "or", ELEMENTWISE, 2, 2, 1, redcoi_infer_logic, NULL, NULL) \
    ROW(SELECT, "select", ELEMENTWISE, 3, 3, 1, redcoi_infer_select, redcoi_vjp_select, NULL) \
    ROW(REDUCE_SUM, "sum", REDUCTION, 1, 1, 1, redcoi_infer_reduce, redcoi_vjp_sum, NULL) \
    ROW(REDUCE_MAX, "reduce_max", REDUCTION, 1, 1, 1, redcoi_infer_reduce, redcoi_vjp_reduce_extreme, NULL) \
    ROW(REDUCE_MIN, "reduce_min", REDUCTION, 1, 1, 1, redcoi_infer_reduce, redcoi_vjp_reduce_extreme, NULL) \
    ROW(RESHAPE, "reshape", MOVE, 1, 1, 1, redcoi_infer_reshape, redcoi_vjp_reshape, NULL) \
    ROW(TRANSPOSE, "transpose", MOVE, 1, 1, 1, redcoi_infer_transpose, redcoi_vjp_transpose, NULL) \
    ROW(BROADCAST, "broadcast", MOVE, 1, 1, 1, redcoi_infer_broadcast, redcoi_vjp_broadcast, NULL) \
    ROW(SLICE, "slice", MOVE, 1, 1, 1, redcoi_infer_slice, redcoi_vjp_slice, NULL) \
    ROW(PAD, "pad", MOVE, 1, 1, 1, redcoi_infer_pad, redcoi_vjp_pad, NULL) \
    ROW(CONCAT, "concat", MOVE, 1, REDCO_INPUTS_MAX, 1, redcoi_infer_concat, redcoi_vjp_concat, NULL) \
    ROW(GATHER, "gather", INDEX, 2, 2, 1, redcoi_infer_gather, redcoi_vjp_gather, NULL) \
    ROW(SCATTER_ADD, "scatter_add", INDEX, 2, 2, 1, redcoi_infer_scatter, redcoi_vjp_scatter, NULL) \
    ROW(PICK, "pick", INDEX, 2, 2, 1, redcoi_infer_pick, redcoi_vjp_pick, NULL) \
    ROW(UNPICK, "unpick", INDEX, 2, 2, 1, redcoi_infer_unpick, redcoi_vjp_unpick, NULL) \
    ROW(TOP_K, "top_k", ROWS, 1, 1, 1, redcoi_infer_top_k, NULL, NULL) \
    ROW(SORT_ROWS, "sort_rows", EXPERTS, 2, 2, 1, redcoi_infer_sort_rows, redcoi_vjp_sort_rows, NULL) \
    ROW(GROUPED_MATMUL, "grouped_matmul", EXPERTS, 3, 3, 1, redcoi_infer_grouped_matmul, redcoi_vjp_grouped_matmul, NULL) \
    ROW(GROUPED_MATMUL_GRAD, "grouped_matmul_grad", EXPERTS, 3, 3, 1, redcoi_infer_grouped_matmul_grad, redcoi_vjp_grouped_matmul_grad, NULL) \
    ROW(MATMUL, "matmul", MATMUL, 2, 2, 1, redcoi_infer_matmul, redcoi_vjp_matmul, NULL) \
    ROW(MATMUL_ADD, "matmul_add", MATMUL, 3, 4, 1, redcoi_infer_matmul_add, NULL, redcoi_decompose_matmul_add) \
    ROW(MATMUL_BIAS, "matmul_bias", MATMUL, 3, 3, 1, redcoi_infer_matmul_bias, NULL, redcoi_decompose_matmul_bias) \
    ROW(MATMUL_GELU, "matmul_gelu", MATMUL, 2, 3, 2, redcoi_infer_matmul_gelu, NULL, redcoi_decompose_matmul_gelu) \
    ROW(MATMUL_GELU_GRAD, "matmul_gelu_grad", MATMUL, 3, 3, 1, redcoi_infer_matmul_gelu_grad, NULL, redcoi_decompose_matmul_gelu_grad) \
    ROW(MATMUL_BIAS_GRAD, "matmul_bias_grad", MATMUL, 2, 2, 2, redcoi_infer_matmul_bias_grad, NULL, redcoi_decompose_matmul_bias_grad) \
    ROW(SOFTMAX, "softmax", ROWS, 1, 1, 1, redcoi_infer_rows, redcoi_vjp_softmax, redcoi_decompose_softmax) \
    ROW(SOFTMAX_GRAD, "softmax_grad", ROWS, 2, 2, 1, redcoi_infer_rows, NULL, redcoi_decompose_softmax_grad) \
    ROW(LOG_SOFTMAX, "log_softmax", ROWS, 1, 1, 1, redcoi_infer_rows, redcoi_vjp_softmax, redcoi_decompose_log_softmax) \
    ROW(LOG_SOFTMAX_GRAD, "log_softmax_grad", ROWS, 2, 2, 1, redcoi_infer_rows, NULL, redcoi_decompose_log_softmax_grad) \
    ROW(RMS_NORM, "rms_norm", ROWS, 2, 2, 2, redcoi_infer_norm, redcoi_vjp_rms_norm, redcoi_decompose_rms_norm) \
    ROW(RMS_NORM_GRAD, "rms_norm_grad", ROWS, 4, 4, 2, redcoi_infer_norm_grad, NULL, redcoi_decompose_rms_norm_grad) \
    ROW(LAYER_NORM, "layer_norm", ROWS, 3, 3, 3, redcoi_infer_norm, redcoi_vjp_layer_norm, redcoi_decompose_layer_norm) \
    ROW(LAYER_NORM_GRAD, "layer_norm_grad", ROWS, 5, 5, 3, redcoi_infer_norm_grad, NULL, redcoi_decompose_layer_norm_grad) \
    ROW(ROTARY, "rotary", ATTENTION, 3, 3, 1, redcoi_infer_rotary, redcoi_vjp_rotary, redcoi_decompose_rotary) \
    ROW(ATTENTION, "attention", ATTENTION, 3, 4, 2, redcoi_infer_attention, redcoi_vjp_attention, redcoi_decompose_attention) \
    ROW(ATTENTION_GRAD, "attention_grad", ATTENTION, 6, 7, 3, redcoi_infer_attention_grad, NULL, redcoi_decompose_attention_grad) \
    ROW(ATTENTION_BIAS_GRAD, "attention_bias_grad", ATTENTION, 7, 7, 1, redcoi_infer_attention_bias_grad, NULL, redcoi_decompose_attention_bias_grad) \
    ROW(CROSS_ENTROPY, "cross_entropy", ROWS, 2, 2, 2, redcoi_infer_cross_entropy, redcoi_vjp_cross_entropy, redcoi_decompose_cross_entropy) \
    ROW(CROSS_ENTROPY_GRAD, "cross_entropy_grad", ROWS, 4, 4, 1, redcoi_infer_cross_entropy_grad, NULL, redcoi_decompose_cross_entropy_grad) \
    ROW(SUM_SQUARES, "sum_squares", REDUCTION, 1, 1, 1, redcoi_infer_sum_squares, NULL, redcoi_decompose_sum_squares) \
    ROW(ADAMW, "adamw", ELEMENTWISE, 5, 5, 3, redcoi_infer_adamw, NULL, redcoi_decompose_adamw) \
    ROW(ADAMW_ROUNDED, "adamw_rounded", ELEMENTWISE, 5, 5, 4, redcoi_infer_adamw, NULL, redcoi_decompose_adamw) \
    ROW(POINTWISE, "pointwise", ELEMENTWISE, 1, REDCO_POINTWISE_INPUTS_MAX, REDCO_POINTWISE_OUTPUTS_MAX, redcoi_infer_pointwise, NULL, redcoi_decompose_pointwise) \
    ROW(ALL_REDUCE, "all_reduce", COLLECTIVE, 1, 1, 1, redcoi_infer_collective, NULL, NULL) \
    ROW(ALL_GATHER, "all_gather", COLLECTIVE, 1, 1, 1, redcoi_infer_collective, NULL, NULL) \
    ROW(REDUCE_SCATTER, "reduce_scatter", COLLECTIVE, 1, 1, 1, redcoi_infer_collective, NULL, NULL)
/* clang-format on */

#endif
