/** @file pointwise_program.h  Programs of REDCO_OP_POINTWISE: several elementwise operators that are run as one, so
 * that what they hand to each other is never in memory.
 *
 *  A program computes, for each element of the result, its steps one after the other; each step is an operator of the
 *  graph (elementwise, one output, no view) or a constant. Operands are numbered: inputs first, then steps. Inputs and
 *  steps have one rank, and dimensions that are those of the results or 1, which is repeated.
 *
 *  The result is, bit for bit, that of the steps run as operators of their own: a step's value is rounded to the step's
 *  element type even where it is only handed on, so that fusing changes no number, a comparison with a stored copy of a
 *  value holds, and what was tested without fusing is tested. Compilers keep such values in f32; on a GPU rounding
 * costs one and a half instructions per element, which a kernel that waits for memory does not notice.
 *
 *  Attributes hold the program (redco_pointwise_pack()): begin and whole the steps, size the constants, axis the
 *  results and the number of steps and constants; axis_count is the number of results. */
#ifndef REDCO_GRAPH_POINTWISE_H
#define REDCO_GRAPH_POINTWISE_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REDCO_POINTWISE_INPUTS_MAX = 8,
    REDCO_POINTWISE_OUTPUTS_MAX = 3,
    REDCO_POINTWISE_STEPS_MAX = 32,
    REDCO_POINTWISE_CONSTANTS_MAX = 8,
    REDCO_POINTWISE_OPERANDS_MAX = REDCO_POINTWISE_INPUTS_MAX + REDCO_POINTWISE_STEPS_MAX
};

typedef struct redco_pointwise_step {
    uint8_t kind;  /**< redco_op_kind */
    uint8_t in[3]; /**< operands. Constant: index of its value, element type. Cast: operand, element type. Power:
                      operand, index of the exponent. What is not used is 0 */
} redco_pointwise_step;

typedef struct redco_pointwise {
    uint32_t input_count, step_count, constant_count, output_count;
    redco_pointwise_step steps[REDCO_POINTWISE_STEPS_MAX];
    double constants[REDCO_POINTWISE_CONSTANTS_MAX];
    uint8_t outputs[REDCO_POINTWISE_OUTPUTS_MAX]; /**< operands that are results: steps, each once */
} redco_pointwise;

/** @return whether a step may be of this kind; constants are besides. */
bool redco_pointwise_has(redco_op_kind kind);
/** @return how many of step.in are operands */
uint32_t redco_pointwise_arity(redco_op_kind kind);

/** @param attributes_out  all of it is written */
void redco_pointwise_pack(const redco_pointwise *program, redco_attributes *attributes_out);
/** @return false if it is no program of so many inputs: a kind that cannot stand in one, an operand that comes later */
bool redco_pointwise_unpack(const redco_attributes *attributes, uint32_t input_count, redco_pointwise *program_out);

/** The attributes of a step's operator. */
redco_attributes redco_pointwise_attributes(const redco_pointwise *program, const redco_pointwise_step *step);
/** The type of a constant: one element, of a rank. */
redco_tensor_type redco_pointwise_constant_type(redco_dtype dtype, uint32_t rank);

/** Types of all operands, inputs first.
 *  @param place  of an error
 *  @return REDCO_EVALUE if a step does not take its operands, or results have not all the same dimensions */
redco_status redco_pointwise_types(const redco_pointwise *program, const redco_tensor_type *inputs, const char *place,
                                   redco_tensor_type types_out[REDCO_POINTWISE_OPERANDS_MAX], redco_error *err);

/** Registers for a machine that has few: each step's value in one, free again when it has been read last.
 *  @param register_out  by operand; inputs are given one each, as if they were read before the first step
 *  @return how many there are */
uint32_t redco_pointwise_registers(const redco_pointwise *program, uint8_t register_out[REDCO_POINTWISE_OPERANDS_MAX]);

#ifdef __cplusplus
}
#endif
#endif
