/* Programs of elementwise operators: how their kernels (kernels/pointwise.cu) are told them. */
#include "executor/backend/cuda/kernels/pointwise.h"
#include "costmodel/graph/pointwise_program.h"
#include "executor/backend/cuda/kernels_internal.h"
#include "executor/backend/host/kernels.h"

#include <string.h>

enum { NO_CODE = 255 };

/* clang-format off */
static const struct code_row {
    redco_op_kind kind;
    uint8_t exact, fast; /* codes for F32, and for 16-bit types */
    bool rounds;         /* its results need rounding to 16 bits; others are operands, negated at most, or truth values */
} codes[] = {
    {REDCO_OP_NEG, REDCOI_CODE_NEG, REDCOI_CODE_NEG, false},
    {REDCO_OP_EXP, REDCOI_CODE_EXP, REDCOI_CODE_EXP_FAST, true},
    {REDCO_OP_LOG, REDCOI_CODE_LOG, REDCOI_CODE_LOG, true},
    {REDCO_OP_SQRT, REDCOI_CODE_SQRT, REDCOI_CODE_SQRT, true},
    {REDCO_OP_RSQRT, REDCOI_CODE_RSQRT, REDCOI_CODE_RSQRT, true},
    {REDCO_OP_TANH, REDCOI_CODE_TANH, REDCOI_CODE_TANH, true},
    {REDCO_OP_SIGMOID, REDCOI_CODE_SIGMOID, REDCOI_CODE_SIGMOID_FAST, true},
    {REDCO_OP_RELU, REDCOI_CODE_RELU, REDCOI_CODE_RELU, false},
    {REDCO_OP_SILU, REDCOI_CODE_SILU, REDCOI_CODE_SILU_FAST, true},
    {REDCO_OP_GELU_TANH, REDCOI_CODE_GELU_TANH, REDCOI_CODE_GELU_TANH_FAST, true},
    {REDCO_OP_NOT, REDCOI_CODE_NOT, REDCOI_CODE_NOT, false},
    {REDCO_OP_SILU_GRAD, REDCOI_CODE_SILU_GRAD, REDCOI_CODE_SILU_GRAD_FAST, true},
    {REDCO_OP_GELU_TANH_GRAD, REDCOI_CODE_GELU_TANH_GRAD, REDCOI_CODE_GELU_TANH_GRAD_FAST, true},
    {REDCO_OP_ADD, REDCOI_CODE_ADD, REDCOI_CODE_ADD, true},
    {REDCO_OP_SUB, REDCOI_CODE_SUB, REDCOI_CODE_SUB, true},
    {REDCO_OP_MUL, REDCOI_CODE_MUL, REDCOI_CODE_MUL, true},
    {REDCO_OP_DIV, REDCOI_CODE_DIV, REDCOI_CODE_DIV, true},
    {REDCO_OP_MAX, REDCOI_CODE_MAX, REDCOI_CODE_MAX, false},
    {REDCO_OP_MIN, REDCOI_CODE_MIN, REDCOI_CODE_MIN, false},
    {REDCO_OP_EQ, REDCOI_CODE_EQ, REDCOI_CODE_EQ, false},
    {REDCO_OP_LT, REDCOI_CODE_LT, REDCOI_CODE_LT, false},
    {REDCO_OP_LE, REDCOI_CODE_LE, REDCOI_CODE_LE, false},
    {REDCO_OP_AND, REDCOI_CODE_AND, REDCOI_CODE_AND, false},
    {REDCO_OP_OR, REDCOI_CODE_OR, REDCOI_CODE_OR, false},
    {REDCO_OP_SELECT, REDCOI_CODE_SELECT, REDCOI_CODE_SELECT, false},
};
/* clang-format on */

/* As kernels know it. @return false: they do not */
static bool type_of(redco_dtype dtype, uint8_t *type_out)
{
    switch (dtype) {
    case REDCO_F32: *type_out = REDCOI_POINTWISE_F32; return true;
    case REDCO_BFLOAT16: *type_out = REDCOI_POINTWISE_BF16; return true;
    case REDCO_F16: *type_out = REDCOI_POINTWISE_F16; return true;
    case REDCO_BOOL: *type_out = REDCOI_POINTWISE_BOOL; return true;
    default: return false;
    }
}

static bool is_half(redco_dtype dtype)
{
    return dtype == REDCO_BFLOAT16 || dtype == REDCO_F16;
}

static uint8_t rounding_of(redco_dtype dtype)
{
    return dtype == REDCO_BFLOAT16 ? REDCOI_POINTWISE_BF16
           : dtype == REDCO_F16    ? REDCOI_POINTWISE_F16
                                   : REDCOI_POINTWISE_F32;
}

/* A constant as its element type stores it. */
static float scalar_of(redco_dtype dtype, double scalar)
{
    uint16_t half = 0;
    float value = (float)scalar;
    if (dtype == REDCO_BOOL) { return scalar != 0 ? 1 : 0; }
    if (!is_half(dtype)) { return value; }
    redcoi_store_f64(dtype, &scalar, 1, &half);
    redcoi_widen(dtype, &half, 1, &value);
    return value;
}

static uint8_t power_code(double exponent)
{
    return exponent == 2    ? REDCOI_CODE_SQUARE
           : exponent == 3  ? REDCOI_CODE_CUBE
           : exponent == -1 ? REDCOI_CODE_RECIPROCAL
                            : NO_CODE;
}

/* Translates a step. @return false if kernels cannot */
static bool encode(const redco_pointwise *p, uint32_t at, redco_dtype from, redco_dtype to, redcoi_pointwise_step *out)
{
    const redco_pointwise_step *const step = &p->steps[at];
    out->code = NO_CODE;
    out->round = REDCOI_POINTWISE_F32;
    switch ((redco_op_kind)step->kind) {
    case REDCO_OP_CONSTANT:
        out->code = REDCOI_CODE_CONSTANT;
        out->scalar = scalar_of(to, p->constants[step->in[0]]);
        return true;
    case REDCO_OP_CAST:
        out->code = to == REDCO_BOOL ? REDCOI_CODE_TRUTH : REDCOI_CODE_COPY;
        if (to != from) { out->round = rounding_of(to); }
        return true;
    case REDCO_OP_POW:
        out->code = power_code(p->constants[step->in[1]]);
        out->round = rounding_of(to);
        return out->code != NO_CODE;
    default: break;
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].kind != (redco_op_kind)step->kind) { continue; }
        out->code = is_half(to) ? codes[i].fast : codes[i].exact;
        if (codes[i].rounds) { out->round = rounding_of(to); }
    }
    return out->code != NO_CODE;
}

/* The program as the kernel runs it. @return false if it cannot */
static bool translate(const redco_launch *launch, redcoi_pointwise_args *args)
{
    redco_pointwise p;
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX], inputs[REDCO_POINTWISE_INPUTS_MAX];
    uint8_t at[REDCO_POINTWISE_OPERANDS_MAX], type;
    redco_error ignored = {0};
    memset(args, 0, sizeof *args);
    if (!redco_pointwise_unpack(launch->attributes, launch->input_count, &p)) { return false; }
    for (uint32_t i = 0; i < p.input_count; i++) { inputs[i] = launch->inputs[i].type; }
    if (redco_pointwise_types(&p, inputs, "", types, &ignored) != REDCO_OK ||
        redco_pointwise_registers(&p, at) > REDCOI_POINTWISE_REGISTERS) {
        return false;
    }
    args->inputs = p.input_count;
    args->outputs = p.output_count;
    args->steps = p.step_count;
    for (uint32_t i = 0; i < p.input_count + p.step_count; i++) {
        if (!type_of(types[i].dtype, &type)) { return false; }
        if (i < p.input_count) { args->in_type[i] = type; }
    }
    for (uint32_t s = 0; s < p.step_count; s++) {
        const redco_pointwise_step *const step = &p.steps[s];
        const bool constant = step->kind == REDCO_OP_CONSTANT;
        const uint32_t arity = constant ? 0 : redco_pointwise_arity((redco_op_kind)step->kind);
        redcoi_pointwise_step *const out = &args->step[s];
        if (!encode(&p, s, types[constant ? 0 : step->in[0]].dtype, types[p.input_count + s].dtype, out)) {
            return false;
        }
        out->to = at[p.input_count + s];
        out->a = arity > 0 ? at[step->in[0]] : 0;
        out->b = arity > 1 ? at[step->in[1]] : 0;
        out->c = arity > 2 ? at[step->in[2]] : 0;
    }
    for (uint32_t k = 0; k < p.output_count; k++) {
        (void)type_of(types[p.outputs[k]].dtype, &args->out_type[k]);
        args->out_register[k] = at[p.outputs[k]];
    }
    return true;
}

#define STEP(code, to, a, b, c) {REDCOI_CODE_##code, to, a, b, c, 0, 0},
#define STEPS(name, inputs, outputs, first, second, steps)                                                             \
    static const redcoi_pointwise_step name##_steps[] = {steps(STEP)};
REDCOI_POINTWISE_PROGRAMS(STEPS)

typedef struct known_program {
    const char *name;
    uint32_t inputs, outputs;
    uint8_t registers[2];
    const redcoi_pointwise_step *steps;
    size_t count;
} known_program;
#define KNOWN(name, inputs, outputs, first, second, steps)                                                             \
    {#name, inputs, outputs, {first, second}, name##_steps, sizeof name##_steps / sizeof name##_steps[0]},
static const known_program known[] = {REDCOI_POINTWISE_PROGRAMS(KNOWN)};

static uint8_t exact_code(uint8_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].fast == code) { return codes[i].exact; }
    }
    return code;
}

static bool is_known(const redcoi_pointwise_args *args, const known_program *program)
{
    if (args->inputs != program->inputs || args->outputs != program->outputs || args->steps != program->count) {
        return false;
    }
    for (uint32_t s = 0; s < args->steps; s++) {
        const redcoi_pointwise_step *const have = &args->step[s], *const want = &program->steps[s];
        uint32_t scalar = 0; /* as bits: not -0 */
        memcpy(&scalar, &have->scalar, sizeof scalar);
        if (exact_code(have->code) != want->code || have->to != want->to || have->a != want->a || have->b != want->b ||
            have->c != want->c || scalar != 0) {
            return false;
        }
    }
    for (uint32_t k = 0; k < args->outputs; k++) {
        if (args->out_register[k] != program->registers[k] || args->out_type[k] != args->in_type[0]) { return false; }
    }
    for (uint32_t k = 0; k < args->inputs; k++) {
        if (args->in_type[k] != args->in_type[0] || args->in_type[k] == REDCOI_POINTWISE_BOOL) { return false; }
    }
    return true;
}

static const char *name_of(const redcoi_pointwise_args *args)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (is_known(args, &known[i])) { return known[i].name; }
    }
    return NULL;
}

const char *redcoi_pointwise_known(const redco_launch *launch)
{
    redcoi_pointwise_args args;
    return translate(launch, &args) ? name_of(&args) : NULL;
}

/* Where each input's rows are. @return whether pieces of vectors may be read and written */
static bool lay_out(const redco_launch *launch, redcoi_pointwise_args *args, redcoi_shape *shape)
{
    uint64_t stride[REDCOI_SHAPE_OPERANDS][REDCO_RANK_MAX] = {{0}};
    const uint64_t width = REDCOI_POINTWISE_WIDTH;
    bool wide = true;
    for (uint32_t k = 0; k < launch->input_count; k++) {
        redcoi_dense_strides(&launch->inputs[k].type, true, stride[k]);
        args->in[k] = launch->inputs[k].data;
        wide = wide && redcoi_is_aligned(args->in[k], 16);
    }
    for (uint32_t k = 0; k < launch->output_count; k++) {
        args->out[k] = launch->outputs[k].data;
        wide = wide && redcoi_is_aligned(args->out[k], 16);
    }
    redcoi_shape_make(shape, &launch->outputs[0].type, stride, launch->input_count);
    const uint32_t last = shape->rank - 1;
    args->count = redco_type_elements(&launch->outputs[0].type);
    args->rank = last;
    args->dense = last == 0 ? 1 : 0;
    wide = wide && (last == 0 || shape->dim[last] % width == 0);
    for (uint32_t k = 0; k < launch->input_count; k++) {
        args->step_of[k] = (uint8_t)shape->stride[k][last];
        if (args->step_of[k] == 0) { args->dense = 0; }
        for (uint32_t i = 0; i < last; i++) {
            args->stride[k][i] = shape->stride[k][i];
            wide = wide && (args->step_of[k] == 0 || shape->stride[k][i] % width == 0);
        }
    }
    for (uint32_t i = 0; i < last; i++) { args->dim[i] = redcoi_divisor_of(shape->dim[i]); }
    args->inner = redcoi_divisor_of(wide ? shape->dim[last] / width : shape->dim[last]);
    return wide;
}

static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    redcoi_pointwise_args args;
    (void)cuda;
    return launch->kind == REDCO_OP_POINTWISE && translate(launch, &args);
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)cuda;
    (void)launch;
    return 0;
}

/* Vectors, by a kernel of the program's own if there is one; what vectors leave, element by element. */
static redco_status run(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err)
{
    const redcoi_work work = {cuda, stream, launch, err};
    redcoi_pointwise_args args;
    redcoi_shape shape;
    if (!translate(launch, &args)) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "pointwise: a program that no kernel runs");
    }
    const bool wide = lay_out(launch, &args, &shape);
    const uint64_t pieces = wide ? args.count / REDCOI_POINTWISE_WIDTH : 0;
    const char *const name = name_of(&args);
    redco_status st = REDCO_OK;
    if (pieces > 0 && name != NULL) {
        st = redcoi_work_launch(&work, redcoi_pieces(pieces, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                                "redco_k_pointwise_%s_%s", name, redco_dtype_name(launch->outputs[0].type.dtype));
    } else if (pieces > 0) {
        st = redcoi_work_launch(&work, redcoi_pieces(pieces, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                                "redco_k_pointwise");
    }
    args.first = pieces * REDCOI_POINTWISE_WIDTH;
    if (st != REDCO_OK || args.first == args.count) { return st; }
    return redcoi_work_launch(&work, redcoi_pieces(args.count - args.first, REDCOI_KERNEL_THREADS),
                              REDCOI_KERNEL_THREADS, 0, &args, "redco_k_pointwise_narrow");
}

const redcoi_runner redcoi_pointwise_runner = {supports, workspace_bytes, run};
