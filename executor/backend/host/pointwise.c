/* Programs of elementwise operators, a block of elements at a time: what the steps hand to each other stays in the
 * cache. Half-precision values are held as float, rounded to what memory could hold. */
#include "costmodel/graph/pointwise_program.h"
#include "executor/backend/host/kernels.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 256 }; /* elements: of a program of ten operands in f32, 10 KiB */

typedef union block {
    double f64[BLOCK];
    float f32[BLOCK];
    int32_t i32[BLOCK];
    uint8_t bool8[BLOCK];
} block;

/** An input that is not dense: repeated along some dimensions. */
typedef struct repeated {
    redcoi_walk walk;
    uint64_t used; /**< elements used of the row that the walk is at */
} repeated;

typedef struct machine {
    const redco_launch *launch;
    redco_pointwise program;
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX];
    const void *at[REDCO_POINTWISE_OPERANDS_MAX]; /**< the block of an operand, as it is computed with */
    bool fixed[REDCO_POINTWISE_OPERANDS_MAX];     /**< the same in all blocks */
    void *direct[REDCO_POINTWISE_OPERANDS_MAX];   /**< result that a step may write where it belongs, or NULL */
    repeated repeats[REDCO_POINTWISE_INPUTS_MAX];
    block blocks[REDCO_POINTWISE_OPERANDS_MAX];
} machine;

static bool is_half(redco_dtype dtype)
{
    return dtype == REDCO_BFLOAT16 || dtype == REDCO_F16;
}

/** In which type a value is computed with. */
static redco_dtype held_as(redco_dtype dtype)
{
    return is_half(dtype) ? REDCO_F32 : dtype;
}

static void *move(void *at, uint64_t elements, redco_dtype dtype)
{
    return (unsigned char *)at + elements * redco_dtype_bytes(dtype);
}

static const void *element(const void *at, uint64_t elements, redco_dtype dtype)
{
    return (const unsigned char *)at + elements * redco_dtype_bytes(dtype);
}

/** To nearest even, as if it had been stored. */
static void round_half(redco_dtype dtype, float *values, uint64_t n)
{
    uint16_t half[BLOCK];
    redcoi_narrow(dtype, values, n, half);
    redcoi_widen(dtype, half, n, values);
}

static void cast(redco_dtype from, redco_dtype to, uint64_t n, const void *in, void *out)
{
    double chunk[BLOCK];
    if (held_as(from) == held_as(to)) {
        memcpy(out, in, n * redco_dtype_bytes(held_as(to)));
        if (is_half(to) && from != to) { round_half(to, out, n); }
        return;
    }
    redcoi_load_f64(held_as(from), in, n, chunk);
    if (!is_half(to)) {
        redcoi_store_f64(to, chunk, n, out);
        return;
    }
    uint16_t half[BLOCK]; /* rounded once */
    redcoi_store_f64(to, chunk, n, half);
    redcoi_widen(to, half, n, out);
}

static void select_row(uint32_t bytes, uint64_t n, const uint8_t *condition, const void *a, const void *b, void *out)
{
#define SELECT_AS(type)                                                                                                \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
        ((type *)out)[i] = condition[i] != 0 ? ((const type *)a)[i] : ((const type *)b)[i];                            \
    }                                                                                                                  \
    break;
    switch (bytes) {
    case 1: SELECT_AS(uint8_t)
    case 4: SELECT_AS(uint32_t)
    default: SELECT_AS(uint64_t)
    }
#undef SELECT_AS
}

static int32_t integer_at(redco_dtype dtype, const void *at, uint64_t i)
{
    return dtype == REDCO_I32 ? ((const int32_t *)at)[i] : ((const uint8_t *)at)[i] != 0;
}

static void integer_row(redco_op_kind kind, redco_dtype dtype, redco_dtype result, uint64_t n, const void *a,
                        const void *b, void *out)
{
    for (uint64_t i = 0; i < n; i++) {
        const int32_t value = redcoi_integer_result(kind, integer_at(dtype, a, i), integer_at(dtype, b, i));
        if (result == REDCO_I32) {
            ((int32_t *)out)[i] = value;
        } else {
            ((uint8_t *)out)[i] = (uint8_t)value;
        }
    }
}

static void logic_row(redco_op_kind kind, uint64_t n, const uint8_t *a, const uint8_t *b, uint8_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        const bool x = a[i] != 0, y = b[i] != 0;
        out[i] = kind == REDCO_OP_NOT ? !x : kind == REDCO_OP_AND ? x && y : x || y;
    }
}

/** Results that are operands, or their negative, have been rounded. */
static bool is_exact(redco_op_kind kind)
{
    return kind == REDCO_OP_NEG || kind == REDCO_OP_MAX || kind == REDCO_OP_MIN || kind == REDCO_OP_RELU ||
           kind == REDCO_OP_SELECT || kind == REDCO_OP_CAST;
}

static void real_row(const machine *m, const redco_pointwise_step *step, redco_dtype dtype, uint64_t n, void *out)
{
    const redco_op_kind kind = (redco_op_kind)step->kind;
    const void *const a = m->at[step->in[0]];
    const bool wide = held_as(dtype) == REDCO_F64;
    if (redco_pointwise_arity(kind) == 1) {
        const double scalar = kind == REDCO_OP_POW ? m->program.constants[step->in[1]] : 0;
        if (wide) {
            redcoi_unary_row_f64(kind, n, a, scalar, out);
        } else {
            redcoi_unary_row_f32(kind, n, a, (float)scalar, out);
        }
    } else if (wide) {
        redcoi_binary_row_f64(kind, n, a, m->at[step->in[1]], out);
    } else {
        redcoi_binary_row_f32(kind, n, a, m->at[step->in[1]], out);
    }
}

static void run_step(machine *m, uint32_t s, uint64_t n, void *out)
{
    const redco_pointwise_step *const step = &m->program.steps[s];
    const redco_op_kind kind = (redco_op_kind)step->kind;
    const redco_dtype dtype = m->types[step->in[0]].dtype, result = m->types[m->program.input_count + s].dtype;
    const void *const a = m->at[step->in[0]];
    switch (kind) {
    case REDCO_OP_CAST: cast(dtype, result, n, a, out); break;
    case REDCO_OP_SELECT:
        select_row(redco_dtype_bytes(held_as(result)), n, a, m->at[step->in[1]], m->at[step->in[2]], out);
        break;
    case REDCO_OP_NOT: logic_row(kind, n, a, a, out); break;
    case REDCO_OP_AND:
    case REDCO_OP_OR: logic_row(kind, n, a, m->at[step->in[1]], out); break;
    default:
        if (redco_dtype_is_float(dtype)) {
            real_row(m, step, dtype, n, out);
        } else {
            integer_row(kind, dtype, result, n, a, m->at[step->in[1]], out);
        }
    }
    if (is_half(result) && !is_exact(kind)) { round_half(result, out, n); }
}

/** The next elements of a repeated input, dense. */
static void gather(repeated *r, redco_dtype dtype, const void *from, uint64_t n, void *out)
{
    const uint32_t bytes = redco_dtype_bytes(dtype);
    for (uint64_t done = 0; done < n;) {
        const uint64_t rest = r->walk.count - r->used, count = rest < n - done ? rest : n - done;
        const uint64_t step = r->walk.stride[0][r->walk.rank - 1];
        const unsigned char *in = element(from, r->walk.first[0] + r->used * step, dtype);
        unsigned char *to = move(out, done, dtype);
        if (step == 1) {
            memcpy(to, in, count * bytes);
        } else {
            for (uint64_t i = 0; i < count; i++) { memcpy(to + i * bytes, in + i * step * bytes, bytes); }
        }
        done += count;
        r->used += count;
        if (r->used == r->walk.count) {
            r->used = 0;
            (void)redcoi_walk_next(&r->walk);
        }
    }
}

static void load_input(machine *m, uint32_t i, uint64_t first, uint64_t n)
{
    const redco_tensor *const in = &m->launch->inputs[i];
    const redco_dtype dtype = in->type.dtype;
    const bool dense = redco_type_same_dims(&in->type, &m->launch->outputs[0].type);
    uint16_t half[BLOCK];
    if (m->fixed[i]) { return; }
    if (dense && !is_half(dtype)) {
        m->at[i] = element(in->data, first, dtype);
        return;
    }
    m->at[i] = &m->blocks[i];
    if (!dense) { gather(&m->repeats[i], dtype, in->data, n, is_half(dtype) ? (void *)half : (void *)&m->blocks[i]); }
    if (is_half(dtype)) { redcoi_widen(dtype, dense ? element(in->data, first, dtype) : half, n, m->blocks[i].f32); }
}

/** Inputs of one element and constants: all blocks have the same. */
static void load_fixed(machine *m)
{
    const redco_pointwise *const p = &m->program;
    for (uint32_t i = 0; i < p->input_count; i++) {
        uint64_t stride[1][REDCO_RANK_MAX] = {{0}};
        redcoi_strides(&m->types[i], true, stride[0]);
        redcoi_walk_begin(&m->repeats[i].walk, &m->launch->outputs[0].type, stride, 1);
        if (redco_type_elements(&m->types[i]) > 1) { continue; }
        const redco_dtype dtype = m->types[i].dtype;
        for (uint32_t k = 0; k < BLOCK; k++) {
            if (is_half(dtype)) {
                redcoi_widen(dtype, m->launch->inputs[i].data, 1, &m->blocks[i].f32[k]);
            } else {
                memcpy(move(&m->blocks[i], k, dtype), m->launch->inputs[i].data, redco_dtype_bytes(dtype));
            }
        }
        m->at[i] = &m->blocks[i];
        m->fixed[i] = true;
    }
    for (uint32_t s = 0; s < p->step_count; s++) {
        const uint32_t operand = p->input_count + s;
        if (p->steps[s].kind != REDCO_OP_CONSTANT) { continue; }
        const redco_dtype dtype = m->types[operand].dtype;
        double scalar[BLOCK];
        for (uint32_t k = 0; k < BLOCK; k++) { scalar[k] = p->constants[p->steps[s].in[0]]; }
        cast(REDCO_F64, dtype, BLOCK, scalar, &m->blocks[operand]);
        m->at[operand] = &m->blocks[operand];
        m->fixed[operand] = true;
    }
}

/** A step may write its result where it belongs unless a later one reads what lies there. */
static void find_direct(machine *m)
{
    const redco_pointwise *const p = &m->program;
    for (uint32_t k = 0; k < p->output_count; k++) {
        bool free = !is_half(m->launch->outputs[k].type.dtype);
        for (uint32_t i = 0; i < p->input_count && p->outputs[k] != p->input_count + p->step_count - 1; i++) {
            free = free && m->launch->inputs[i].data != m->launch->outputs[k].data;
        }
        if (free && !m->fixed[p->outputs[k]]) { m->direct[p->outputs[k]] = m->launch->outputs[k].data; }
    }
}

static void store_output(const machine *m, uint32_t k, uint64_t first, uint64_t n)
{
    const uint32_t operand = m->program.outputs[k];
    const redco_tensor *const out = &m->launch->outputs[k];
    void *const to = move(out->data, first, out->type.dtype);
    assert(to != NULL);
    if (m->direct[operand] != NULL) { return; }
    if (is_half(out->type.dtype)) {
        redcoi_narrow(out->type.dtype, m->at[operand], n, to);
    } else {
        memcpy(to, m->at[operand], n * redco_dtype_bytes(out->type.dtype));
    }
}

redco_status redcoi_host_pointwise(const redco_launch *launch, redco_error *err)
{
    machine m;
    redco_tensor_type inputs[REDCO_POINTWISE_INPUTS_MAX];
    const uint64_t count = redco_type_elements(&launch->outputs[0].type);
    m.launch = launch;
    memset(m.fixed, 0, sizeof m.fixed);
    memset((void *)m.direct, 0, sizeof m.direct);
    memset(m.repeats, 0, sizeof m.repeats);
    if (!redco_pointwise_unpack(launch->attributes, launch->input_count, &m.program)) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "pointwise: the attributes are no program");
    }
    for (uint32_t i = 0; i < launch->input_count; i++) { inputs[i] = launch->inputs[i].type; }
    const redco_status st = redco_pointwise_types(&m.program, inputs, launch->name, m.types, err);
    if (st != REDCO_OK) { return st; }
    load_fixed(&m);
    find_direct(&m);
    for (uint64_t first = 0; first < count; first += BLOCK) {
        const uint64_t n = count - first < BLOCK ? count - first : BLOCK;
        for (uint32_t i = 0; i < m.program.input_count; i++) { load_input(&m, i, first, n); }
        for (uint32_t s = 0; s < m.program.step_count; s++) {
            const uint32_t operand = m.program.input_count + s;
            if (m.fixed[operand]) { continue; }
            void *const out =
                m.direct[operand] == NULL ? &m.blocks[operand] : move(m.direct[operand], first, m.types[operand].dtype);
            run_step(&m, s, n, out);
            m.at[operand] = out;
        }
        for (uint32_t k = 0; k < m.program.output_count; k++) { store_output(&m, k, first, n); }
    }
    return REDCO_OK;
}
