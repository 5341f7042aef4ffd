/* Staging buffers between program and device, so that neither waits for the other: inputs and losses. */
#include "executor/schedule/schedule_internal.h"

#include <string.h>

enum { LOSS_BYTES = 8 };

static redco_backend *own_backend(const redco_schedule *s)
{
    return s->threads[REDCOI_STREAM_COMPUTE].backend;
}

static uint64_t bytes_of(const redco_schedule *s, uint32_t input)
{
    return redco_type_bytes(redco_value_type(s->options.graph, s->options.inputs[input]));
}

static redco_status take(const redco_schedule *s, uint64_t bytes, unsigned char **memory_out, redco_error *err)
{
    redco_backend *const backend = own_backend(s);
    void *memory = NULL;
    const redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_HOST, bytes, &memory, err);
    *memory_out = memory;
    return st;
}

redco_status redcoi_exchange_take(redco_schedule *s, redco_error *err)
{
    redcoi_exchange_memory *const e = &s->exchange;
    redco_backend *const backend = own_backend(s);
    uint64_t bytes = 0;
    redco_status st = REDCO_OK;
    if (s->options.emulate) { return st; }
    for (uint32_t i = 0; i < s->options.input_count; i++) {
        if (s->memory.input_data[i] != NULL) { bytes += bytes_of(s, i); }
    }
    for (int slot = 0; slot < 2 && st == REDCO_OK; slot++) {
        if (bytes > 0) { st = take(s, bytes, &e->inputs[slot], err); }
        if (st == REDCO_OK) { st = backend->calls->event_create(backend, &e->fed[slot], err); }
    }
    return st == REDCO_OK ? take(s, (uint64_t)s->micro_batches * LOSS_BYTES, &e->losses, err) : st;
}

void redcoi_exchange_free(redco_schedule *s)
{
    redcoi_exchange_memory *const e = &s->exchange;
    redco_backend *const backend = own_backend(s);
    if (backend == NULL) { return; }
    for (int slot = 0; slot < 2; slot++) {
        backend->calls->release(backend, REDCO_MEMORY_HOST, e->inputs[slot]);
        if (e->fed[slot] != NULL) { backend->calls->event_free(backend, e->fed[slot]); }
    }
    backend->calls->release(backend, REDCO_MEMORY_HOST, e->losses);
}

/* The program runs at most two micro-batches ahead of the device: it waits until the device has copied the inputs of
 * the micro-batch before the last. */
redco_status redcoi_feed(redcoi_thread *thread, uint32_t micro_batch, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    redcoi_exchange_memory *const e = &s->exchange;
    const redco_backend_calls *const calls = thread->backend->calls;
    const uint32_t slot = micro_batch % 2;
    const void *data[REDCO_INPUTS_MAX] = {NULL};
    unsigned char *at = e->inputs[slot];
    unsigned char *const ring =
        redcoi_address_at((redcoi_address){s->memory.inputs.memory, &s->memory.inputs}, micro_batch);
    if (s->memory.inputs.bytes == 0) { return REDCO_OK; } /* a stage that reads none */
    redco_status st = e->used[slot] ? calls->event_finish(thread->backend, e->fed[slot], err) : REDCO_OK;
    if (st == REDCO_OK) { st = s->options.feed.next(s->options.feed.context, micro_batch, data, err); }
    for (uint32_t i = 0; i < s->options.input_count && st == REDCO_OK; i++) {
        if (s->memory.input_data[i] == NULL) { continue; }
        memcpy(at, data[i], bytes_of(s, i)); /* the next call of feed() may overwrite the data */
        unsigned char *const to = ring + ((unsigned char *)s->memory.input_data[i] - s->memory.inputs.memory);
        st = calls->copy(thread->backend, thread->stream, to, at, bytes_of(s, i), err);
        at += bytes_of(s, i);
    }
    e->used[slot] = true;
    return st == REDCO_OK ? calls->event_set(thread->backend, thread->stream, e->fed[slot], err) : st;
}

redco_status redcoi_send_loss(redcoi_thread *thread, uint32_t micro_batch, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    const redco_dtype dtype = redco_value_type(s->options.graph, s->options.loss)->dtype;
    return thread->backend->calls->copy(thread->backend, thread->stream,
                                        s->exchange.losses + (size_t)micro_batch * LOSS_BYTES,
                                        redcoi_address_at(s->memory.loss, micro_batch), redco_dtype_bytes(dtype), err);
}

double redcoi_losses_sum(const redco_schedule *s)
{
    if (s->options.loss == REDCO_NO_VALUE) { return 0.0; }
    const bool wide = redco_value_type(s->options.graph, s->options.loss)->dtype == REDCO_F64;
    double sum = 0.0;
    for (uint32_t i = 0; i < s->micro_batches; i++) {
        const unsigned char *const at = s->exchange.losses + (size_t)i * LOSS_BYTES;
        double f64 = 0.0;
        float f32 = 0.0F;
        memcpy(wide ? (void *)&f64 : (void *)&f32, at, wide ? sizeof f64 : sizeof f32);
        sum += wide ? f64 : (double)f32;
    }
    return sum;
}
