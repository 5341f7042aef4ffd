/* The timed launches: operators on memory, the numbers that they read, the events around them. */
#include "executor/measure/measure_internal.h"

#include <stdlib.h>
#include <string.h>

redco_status redcoi_measure_events(redco_measurer *m, uint32_t count, redco_error *err)
{
    if (count <= m->event_count) { return REDCO_OK; }
    redco_event **const larger = realloc(m->events, count * sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    m->events = larger;
    while (m->event_count < count) {
        const redco_status st = m->backend->calls->event_create(m->backend, &m->events[m->event_count], err);
        if (st != REDCO_OK) { return st; }
        m->event_count++;
    }
    return REDCO_OK;
}

bool redcoi_measure_is_run(const redcoi_layout *l, const redco_op *op)
{
    return l->live[op->id] && op->kind != REDCO_OP_INPUT && op->kind != REDCO_OP_RESHAPE;
}

redco_launch redcoi_measure_launch(const redcoi_layout *l, const redco_op *op, uint32_t copy, redco_tensor inputs[],
                                   redco_tensor outputs[])
{
    unsigned char *const arena = l->m->arena, *const base = arena == NULL ? NULL : arena + copy * l->copy_bytes;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const redco_value v = op->inputs[i];
        inputs[i] = (redco_tensor){*redco_value_type(l->graph, v), base == NULL ? NULL : base + l->offset[v]};
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        const redco_value v = op->first_output + i;
        outputs[i] = (redco_tensor){*redco_value_type(l->graph, v), base == NULL ? NULL : base + l->offset[v]};
    }
    return (redco_launch){.kind = op->kind,
                          .attributes = &op->attributes,
                          .input_count = op->input_count,
                          .output_count = op->output_count,
                          .inputs = inputs,
                          .outputs = outputs,
                          .workspace = arena == NULL ? NULL : arena + l->workspace,
                          .name = redco_op_kind_name(op->kind)};
}

/* Fixed numbers without any order that a branch predictor could learn: the finalizer of MurmurHash3 (Appleby, public
 * domain). */
static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * UINT32_C(0x85ebca6b);
    x = (x ^ (x >> 13)) * UINT32_C(0xc2b2ae35);
    return x ^ (x >> 16);
}

/* In [-0.5, 0.5). */
static double uniform(uint32_t hash)
{
    return ((double)(hash >> 8) + 0.5) / 16777216.0 - 0.5;
}

/* A sum of twelve uniform numbers has a variance of 1. */
static double normal(uint32_t number)
{
    static const double deviation = 0.02;
    double sum = 0.0;
    for (uint32_t k = 0; k < 12; k++) { sum += uniform(mix(12 * number + k + 1)); }
    return deviation * sum;
}

/* None of the numbers is zero, denormal, infinite or NaN, unless zeros are wanted. */
static void make_pattern(void *memory, redco_dtype dtype, redco_measure_numbers numbers, uint64_t index_bound)
{
    const uint32_t count = REDCOI_PATTERN_BYTES / redco_dtype_bytes(dtype);
    if (numbers == REDCO_NUMBERS_ZEROS && dtype != REDCO_I32) {
        memset(memory, 0, REDCOI_PATTERN_BYTES);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t hash = mix(i + 1);
        const double x = numbers == REDCO_NUMBERS_NORMAL ? normal(i) : uniform(hash);
        const float f = (float)x;
        uint32_t bits = 0;
        memcpy(&bits, &f, sizeof bits);
        switch (dtype) {
        case REDCO_F64: ((double *)memory)[i] = x; break;
        case REDCO_F32: ((float *)memory)[i] = f; break;
        case REDCO_BFLOAT16: ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16); break;
        /* For binary16 a number in [0.5, 1) is enough. */
        case REDCO_F16: ((uint16_t *)memory)[i] = (uint16_t)(0x3800u | (hash >> 22)); break;
        case REDCO_I32: ((int32_t *)memory)[i] = index_bound > 0 ? (int32_t)(hash % index_bound) : 0; break;
        default: ((unsigned char *)memory)[i] = (unsigned char)(hash >> 31); break;
        }
    }
}

redco_status redcoi_measure_fill(redco_measurer *m, void *to, uint64_t bytes, redco_dtype dtype, uint64_t index_bound,
                                 redco_error *err)
{
    redco_status st = REDCO_OK;
    if (m->pattern_dtype != dtype || m->pattern_bound != index_bound || m->pattern_numbers != m->numbers) {
        st = m->backend->calls->stream_finish(m->backend, m->stream, err); /* copies of what is there now */
        make_pattern(m->staging, dtype, m->numbers, index_bound);
        m->pattern_dtype = dtype;
        m->pattern_numbers = m->numbers;
        m->pattern_bound = index_bound;
    }
    for (uint64_t at = 0; at < bytes && st == REDCO_OK; at += REDCOI_PATTERN_BYTES) {
        const uint64_t part = bytes - at < REDCOI_PATTERN_BYTES ? bytes - at : REDCOI_PATTERN_BYTES;
        st = m->backend->calls->copy(m->backend, m->stream, (unsigned char *)to + at, m->staging, part, err);
    }
    return st;
}
