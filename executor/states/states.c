#include "executor/states/adafactor.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t default_bucket_bytes = (uint64_t)1 << 30;
static const uint64_t default_chunk = 1 << 14, chunk_unit = 16, chunk_max = (uint64_t)1 << 32;

/* Elements by which parts of layers are aligned in memory, so that a layer of any type begins aligned. */
enum { LAYER_GRANULE = REDCO_ALIGNMENT_BYTES / 2 };

static uint64_t aligned(uint64_t elements)
{
    return (elements + LAYER_GRANULE - 1) / LAYER_GRANULE * LAYER_GRANULE;
}

/* Where each layer's parts begin. Gradients that are reduced together lie together, last layer first. */
static redco_status lay_memory(redco_states *states, redco_error *err)
{
    const uint32_t layers = redcoi_model(states)->layer_count;
    const uint64_t element_bytes = redco_dtype_bytes(states->options.dtype);
    uint64_t parameters = 0, secondary = 0, gradients = 0, owned = 0;
    states->parameters_at = calloc((size_t)layers + 1, sizeof *states->parameters_at);
    states->secondary_at = calloc((size_t)layers + 1, sizeof *states->secondary_at);
    states->gradients_at = calloc((size_t)layers + 1, sizeof *states->gradients_at);
    states->owned_at = calloc((size_t)layers + 1, sizeof *states->owned_at);
    if (states->parameters_at == NULL || states->secondary_at == NULL || states->gradients_at == NULL ||
        states->owned_at == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "states", "places of %u layers", layers);
    }
    for (uint32_t l = 0; l < layers; l++) {
        const redco_layer_layout *const layer = redcoi_layer_layout(states, l);
        states->parameters_at[l] = parameters;
        states->secondary_at[l] = secondary;
        parameters += aligned(layer->shard);
        secondary += aligned(layer->secondary);
    }
    for (int assigned = 0; assigned < 2; assigned++) { /* last: moments end before */
        if (assigned == 1) { states->moment_bytes = owned * redco_dtype_bytes(states->master); }
        for (uint32_t l = 0; l < layers; l++) {
            if (redcoi_model(states)->layers[l].assigned != (assigned == 1)) { continue; }
            states->owned_at[l] = owned;
            owned += aligned(redcoi_layer_layout(states, l)->owned);
        }
    }
    for (uint32_t p = 0; p < states->bucket_group_count; p++) {
        for (uint32_t l = layers; l-- > 0;) {
            if (states->bucket_group_of[l] != p) { continue; }
            states->gradients_at[l] = gradients;
            gradients += aligned(redcoi_layer_layout(states, l)->gradients);
        }
    }
    states->primary_bytes = parameters * element_bytes;
    states->secondary_bytes = secondary * element_bytes;
    states->master_bytes = states->has_master ? owned * redco_dtype_bytes(states->master) : 0;
    states->size =
        (redco_states_size){.parameter_bytes = states->primary_bytes + states->secondary_bytes,
                            .gradient_bytes = gradients * element_bytes,
                            .optimizer_bytes = states->master_bytes + states->moment_bytes * states->state_count,
                            .bucket_bytes = states->buffer_elements * element_bytes};
    return REDCO_OK;
}

/* Zeros: gaps travel with what lies between them, so they must hold something. */
static redco_status take_memory(redco_states *states, redco_error *err)
{
    redco_backend *const backend = states->backend;
    struct {
        unsigned char **memory;
        uint64_t size_bytes;
    } const blocks[] = {{&states->parameters, states->primary_bytes},
                        {&states->secondary, states->secondary_bytes},
                        {&states->gradients, states->size.gradient_bytes},
                        {&states->buffers, states->size.bucket_bytes},
                        {&states->owned[0], states->master_bytes},
                        {&states->owned[1], states->state_count > 0 ? states->moment_bytes : 0},
                        {&states->owned[2], states->state_count > 1 ? states->moment_bytes : 0}};
    redco_device_stream *stream = NULL;
    redco_status st = backend->calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, err);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0] && st == REDCO_OK; i++) {
        const uint64_t bytes = blocks[i].size_bytes;
        void *memory = NULL;
        if (bytes == 0) { continue; }
        st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, bytes, &memory, err);
        *blocks[i].memory = memory;
        if (st == REDCO_OK) { st = backend->calls->fill_zero(backend, stream, memory, bytes, err); }
    }
    if (st == REDCO_OK) { st = backend->calls->stream_finish(backend, stream, err); }
    if (stream != NULL) { backend->calls->stream_free(backend, stream); }
    return st;
}

/* Where sums of squares go: as many as there will be. */
static redco_status take_sums(redco_states *states, redco_error *err)
{
    redco_backend *const backend = states->backend;
    void *sums = NULL, *there = NULL;
    states->sum_count = redcoi_sums_count(states);
    states->size.work_bytes = (uint64_t)states->sum_count * REDCOI_SUM_STRIDE_BYTES;
    if (states->sum_count == 0) { return REDCO_OK; }
    redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, states->size.work_bytes, &sums, err);
    states->sums = sums;
    if (st == REDCO_OK) {
        st = backend->calls->allocate(backend, REDCO_MEMORY_HOST, states->size.work_bytes, &there, err);
    }
    states->sums_there = there;
    return st;
}

void redco_states_free(redco_states *states)
{
    if (states == NULL) { return; }
    redco_backend *const backend = states->backend;
    redcoi_adafactor_free(states);
    redcoi_programs_free(states);
    redcoi_groups_free(states);
    redcoi_buckets_free(states);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->parameters);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->secondary);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->gradients);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->buffers);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->sums);
    backend->calls->release(backend, REDCO_MEMORY_HOST, states->sums_there);
    for (size_t i = 0; i < sizeof states->owned / sizeof states->owned[0]; i++) {
        backend->calls->release(backend, REDCO_MEMORY_DEVICE, states->owned[i]);
    }
    free(states->parameters_at);
    free(states->secondary_at);
    free(states->gradients_at);
    free(states->owned_at);
    free(states->settings);
    free(states->setting_of);
    redco_layout_free(states->layout);
    free(states);
}

static redco_status check(const redco_states_options *options, const redco_device_comm *device_comm, redco_error *err)
{
    const uint64_t ranks = redco_rank_count(options->layout.mesh) * (options->stages > 0 ? options->stages : 1);
    if (!redco_dtype_is_float(options->dtype)) {
        return redco_fail(err, REDCO_EVALUE, "states", "weights of type %s; f64, f32, bf16 and f16 are possible",
                          redco_dtype_name(options->dtype));
    }
    if (ranks != device_comm->size) {
        return redco_fail(err, REDCO_EVALUE, "states",
                          "the plan is for tp %u x dp %ux%u x pp %u = %llu ranks, but there are %u",
                          options->layout.mesh.tp, options->layout.mesh.dp.gpus, options->layout.mesh.dp.nodes,
                          options->stages > 0 ? options->stages : 1, (unsigned long long)ranks, device_comm->size);
    }
    if (options->chunk_elements % chunk_unit != 0 || options->chunk_elements > chunk_max) {
        return redco_fail(err, REDCO_EVALUE, "states",
                          "chunks of %llu elements; multiples of 16 up to 2^32 are possible",
                          (unsigned long long)options->chunk_elements);
    }
    return redco_optimizer_check(&options->optimizer, err);
}

static bool same_number(double a, double b)
{
    return a >= b && a <= b;
}

static bool same_setting(const redcoi_setting *a, const redcoi_setting *b)
{
    return same_number(a->rate_factor, b->rate_factor) && same_number(a->optimizer.beta1, b->optimizer.beta1) &&
           same_number(a->optimizer.beta2, b->optimizer.beta2) &&
           same_number(a->optimizer.epsilon, b->optimizer.epsilon) &&
           same_number(a->optimizer.weight_decay, b->optimizer.weight_decay);
}

/* Each setting of the optimizer once. */
static redco_status number_settings(redco_states *states, redco_error *err)
{
    const redco_state_model *const model = redcoi_model(states);
    states->settings = calloc((size_t)model->tensor_count + 1, sizeof *states->settings);
    states->setting_of = calloc((size_t)model->tensor_count + 1, sizeof *states->setting_of);
    if (states->settings == NULL || states->setting_of == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "states", "settings of %u tensors", model->tensor_count);
    }
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const redco_state_tensor *const tensor = &model->tensors[t];
        redcoi_setting setting = {.rate_factor = 1.0};
        uint32_t i = 0;
        setting.optimizer =
            redco_optimizer_of(&states->options.optimizer, &tensor->own, tensor->decayed, &setting.rate_factor);
        const redco_status st = redco_optimizer_check(&setting.optimizer, err);
        if (st != REDCO_OK) { return st; }
        while (i < states->setting_count && !same_setting(&states->settings[i], &setting)) { i++; }
        if (i == states->setting_count) { states->settings[states->setting_count++] = setting; }
        states->setting_of[t] = i;
        states->has_assigned = states->has_assigned || tensor->assigned;
    }
    return REDCO_OK;
}

redco_status redco_states_create(const redco_state_model *model, const redco_states_options *options,
                                 redco_world *world, redco_device_comm *device_comm, redco_backend *backend,
                                 redco_states **states_out, redco_error *err)
{
    redco_states *states = NULL;
    redco_status st = check(options, device_comm, err);
    if (st != REDCO_OK) { return st; }
    states = calloc(1, sizeof *states);
    if (states == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "the states"); }
    states->world = world;
    states->device_comm = device_comm;
    states->backend = backend;
    states->options = *options;
    if (options->bucket_bytes == 0) { states->options.bucket_bytes = default_bucket_bytes; }
    if (options->chunk_elements == 0) {
        const uint64_t suited = backend->calls->vector_elements;
        states->options.chunk_elements = suited > 0 ? suited : default_chunk;
    }
    if (options->bucket_buffers == 0) { states->options.bucket_buffers = 1; }
    states->master = redco_dtype_statistic(options->dtype);
    states->has_master = states->master != options->dtype;
    states->state_count = redco_optimizer_states(&options->optimizer);
    st = redco_layout_create(model, &options->layout, device_comm->rank % redcoi_stage_ranks(states), &states->layout,
                             err);
    if (st == REDCO_OK) { st = number_settings(states, err); }
    if (st == REDCO_OK) { st = redcoi_buckets_make(states, err); }
    if (st == REDCO_OK) { st = lay_memory(states, err); }
    if (st == REDCO_OK) { st = take_memory(states, err); }
    if (st == REDCO_OK) { st = redcoi_programs_make(states, err); }
    if (st == REDCO_OK) { st = take_sums(states, err); }
    if (st == REDCO_OK) { st = redcoi_adafactor_create(states, err); }
    if (st == REDCO_OK) { st = redcoi_groups_make(states, err); }
    if (st != REDCO_OK) {
        redco_states_free(states);
        return st;
    }
    *states_out = states;
    return REDCO_OK;
}

const redco_layout *redco_states_layout(const redco_states *states)
{
    return states->layout;
}

redco_dtype redco_states_dtype(const redco_states *states)
{
    return states->options.dtype;
}

redco_dtype redco_states_master_dtype(const redco_states *states)
{
    return states->master;
}

redco_states_size redco_states_sizes(const redco_states *states)
{
    return states->size;
}
