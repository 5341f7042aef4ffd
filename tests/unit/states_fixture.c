#include "tests/unit/states_fixture.h"
#include "states_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Odd sizes, so that nothing divides; a module of three tensors, a layer of none (a tied head). */
/* Some have settings of their own. */
static const redco_state_tensor tensors[FIX_TENSORS] = {
    {.name = "table", .elements = 31, .decayed = true},
    {.name = "norm", .elements = 5, .replicated = true, .own = {.has_decay = true, .weight_decay = 0.9}},
    {.name = "weight", .elements = 23, .decayed = true, .own = {.has_betas = true, .beta1 = 0.5, .beta2 = 0.7}},
    {.name = "row", .elements = 7, .replicated = true, .decayed = true, .own = {.has_epsilon = true, .epsilon = 0.01}},
    {.name = "bias", .elements = 3, .own = {.rate_factor = 3.0}},
    {.name = "weight", .elements = 29, .decayed = true, .own = {.has_decay = true, .weight_decay = 0.4}},
    {.name = "weight", .elements = 13, .decayed = true},
    {.name = "bias", .elements = 1, .replicated = true},
    {.name = "head",
     .elements = 19,
     .decayed = true,
     .own = {.rate_factor = 0.5, .has_betas = true, .has_decay = true, .beta1 = 0.0, .beta2 = 0.6}},
};
static const redco_state_module modules[FIX_MODULES] = {
    {"table", 0, 1}, {"norm", 1, 1}, {"qkv", 2, 3}, {"up", 5, 1}, {"down", 6, 2}, {"head", 8, 1},
};

uint64_t fixture_elements(uint32_t tensor)
{
    return tensors[tensor].elements;
}

bool fixture_replicated(uint32_t tensor)
{
    return tensors[tensor].replicated;
}

void fixture_model_make(struct fixture_model *fixture, const redco_shards *shards)
{
    static const struct {
        const char *name;
        uint32_t first, count;
    } layers[FIX_LAYERS] = {
        {"embedding.0", 0, 1}, {"block.0", 1, 2}, {"block.1", 3, 2}, {"head.0", 5, 1}, {"head.1", 6, 0}};
    for (uint32_t l = 0; l < FIX_LAYERS; l++) {
        fixture->layers[l] =
            (redco_state_layer){layers[l].name, shards[l], layers[l].first, layers[l].count, .assigned = false};
    }
    fixture->model = (redco_state_model){fixture->layers, modules, tensors, FIX_LAYERS, FIX_MODULES, FIX_TENSORS, NULL};
}

uint64_t fixture_place(uint32_t tensor, uint32_t tp, uint64_t i)
{
    return tensors[tensor].replicated ? i : tp * tensors[tensor].elements + i;
}

/* In [-1, 1), by the finalizer of MurmurHash3. */
static double noise(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
    uint64_t x = ((((a * 1009 + b) * 1013 + c) * 1019 + d) * 1021 + e) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (double)((x ^ (x >> 33)) >> 11) * 0x1p-52 - 1.0;
}

double fixture_initial(uint32_t tensor, uint64_t place)
{
    return noise(99, tensor, place, 0, 0);
}

double fixture_gradient(const struct trial *trial, uint32_t tensor, uint64_t place, uint32_t replica,
                        uint32_t micro_batch, uint64_t step, double weight)
{
    const double u = noise(tensor, place, replica, micro_batch, step);
    return trial->coarse ? floor(u * 3.5 + 0.5) : u + 0.25 * weight;
}

/* The sum of all ranks' and micro-batches' gradients. */
static double sum_of(const struct trial *t, uint32_t tensor, uint64_t place, uint64_t step, double weight)
{
    double sum = 0.0;
    for (uint32_t r = 0; r < redco_mesh_ranks(t->mesh.dp); r++) {
        for (uint32_t m = 0; m < t->micro_batches; m++) {
            sum += fixture_gradient(t, tensor, place, r, m, step, weight);
        }
    }
    return sum;
}

/* torch.optim.AdamW and SGD of PyTorch 1.13, from their documentation. */
static void update(const struct trial *t, struct reference *r, uint32_t tensor, uint64_t place, uint64_t step,
                   double gradient)
{
    const redco_optimizer *const o = &t->optimizer;
    const redco_own_settings *const own = &tensors[tensor].own;
    const double rate = 0.01 * (own->rate_factor > 0.0 ? own->rate_factor : 1.0);
    const double beta1 = own->has_betas ? own->beta1 : o->beta1, beta2 = own->has_betas ? own->beta2 : o->beta2;
    const double epsilon = own->has_epsilon ? own->epsilon : o->epsilon;
    const double decay = !tensors[tensor].decayed ? 0.0 : own->has_decay ? own->weight_decay : o->weight_decay;
    double *const w = &r->weights.of[tensor][place], *const m = &r->state[0].of[tensor][place],
                  *const v = &r->state[1].of[tensor][place];
    if (o->kind == REDCO_SGD) {
        const double g = gradient + decay * *w;
        *m = o->momentum * *m + g;
        *w -= rate * *m;
        return;
    }
    *m = beta1 * *m + (1.0 - beta1) * gradient;
    *v = beta2 * *v + (1.0 - beta2) * gradient * gradient;
    *w -= rate * decay * *w;
    *w -= rate * (*m / (1.0 - pow(beta1, (double)step))) / (sqrt(*v / (1.0 - pow(beta2, (double)step))) + epsilon);
}

static uint64_t size_of(const struct trial *t, uint32_t tensor)
{
    return tensors[tensor].elements * (tensors[tensor].replicated ? 1 : t->mesh.tp);
}

void fixture_reference(const struct trial *t, struct reference *r)
{
    const double scale = 1.0 / (double)(t->micro_batches * redco_mesh_ranks(t->mesh.dp));
    memset(r, 0, sizeof *r);
    for (uint32_t i = 0; i < FIX_TENSORS; i++) {
        for (uint64_t e = 0; e < size_of(t, i); e++) { r->weights.of[i][e] = fixture_initial(i, e); }
    }
    for (uint64_t step = 1; step <= t->steps; step++) {
        struct values gradients;
        double squares = 0.0;
        for (uint32_t i = 0; i < FIX_TENSORS; i++) {
            for (uint64_t e = 0; e < size_of(t, i); e++) {
                gradients.of[i][e] = scale * sum_of(t, i, e, step, r->weights.of[i][e]);
                squares += gradients.of[i][e] * gradients.of[i][e];
            }
        }
        r->norm = sqrt(squares);
        const double most = t->optimizer.clip_norm, clip = most > 0.0 ? fmin(1.0, most / (r->norm + 1e-6)) : 1.0;
        for (uint32_t i = 0; i < FIX_TENSORS; i++) {
            for (uint64_t e = 0; e < size_of(t, i); e++) { update(t, r, i, e, step, clip * gradients.of[i][e]); }
        }
    }
}

double load(redco_dtype dtype, const void *data, uint64_t at)
{
    if (dtype == REDCO_F64) { return ((const double *)data)[at]; }
    if (dtype == REDCO_F32) { return (double)((const float *)data)[at]; }
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
    float value = 0.0F;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* bf16: to nearest, ties to even. */
void store(redco_dtype dtype, void *data, uint64_t at, double value)
{
    const float narrow = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    if (dtype == REDCO_F64) {
        ((double *)data)[at] = value;
    } else if (dtype == REDCO_F32) {
        ((float *)data)[at] = narrow;
    } else {
        ((uint16_t *)data)[at] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}

redco_status run_open(struct run *run, const struct trial *t, redco_world *world, redco_error *err)
{
    const redco_states_options options = {.layout = {.mesh = t->mesh,
                                                     .secondary = t->secondary,
                                                     .scheme = t->scheme,
                                                     .tensor_granule = t->tight ? 1 : 0,
                                                     .shard_granule = t->tight ? 1 : 0},
                                          .dtype = t->dtype,
                                          .optimizer = t->optimizer,
                                          .bucket_bytes = t->bucket_bytes,
                                          .bucket_buffers = t->tight ? 2 : 0,
                                          .chunk_elements = t->tight ? 16 : 0};
    *run = (struct run){.trial = t, .rank = redco_world_rank(world)};
    fixture_model_make(&run->model, t->shards);
    redco_status st = redco_host_open(NULL, &run->backend, err);
    if (st == REDCO_OK) { st = redco_host_device_comm_open(world, &run->device_comm, err); }
    if (st == REDCO_OK) {
        st = redco_states_create(&run->model.model, &options, world, run->device_comm, run->backend, &run->states, err);
    }
    if (st == REDCO_OK) { st = redco_states_worker_create(run->states, run->backend, NULL, &run->worker, err); }
    return st == REDCO_OK ? run_set(run, 0.0, err) : st;
}

redco_status run_set(struct run *run, double shift, redco_error *err)
{
    double buffer[FIX_MOST]; /* values of any type */
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < FIX_TENSORS && st == REDCO_OK; i++) {
        for (uint64_t e = 0; e < tensors[i].elements; e++) {
            const uint64_t place = fixture_place(i, run->rank % run->trial->mesh.tp, e);
            store(redco_states_master_dtype(run->states), buffer, e, fixture_initial(i, place) + shift);
        }
        st = states_set(run->states, run->worker, i, REDCO_STATES_WEIGHTS, buffer, err);
    }
    return st;
}

void run_close(struct run *run)
{
    redco_states_worker_free(run->worker);
    redco_states_free(run->states);
    redco_device_comm_close(run->device_comm);
    redco_backend_close(run->backend);
}

/* One element's gradient on this rank. */
static double own_gradient(const struct run *run, uint32_t tensor, uint64_t e, uint32_t micro_batch, double weight)
{
    const struct trial *const t = run->trial;
    const uint64_t place = fixture_place(tensor, run->rank % t->mesh.tp, e);
    double sum = 0.0;
    if (t->nan && run->step == 2 && tensor == 2 && e == 4 && run->rank == 0) { return (double)NAN; }
    if (t->sum_replicas == 0) {
        return fixture_gradient(t, tensor, place, run->rank / t->mesh.tp, micro_batch, run->step, weight);
    }
    for (uint32_t r = 0; r < t->sum_replicas; r++) {
        for (uint32_t m = 0; m < t->sum_micro_batches; m++) {
            sum += fixture_gradient(t, tensor, place, r, m, run->step, weight);
        }
    }
    return sum;
}

redco_status run_gradient(void *context, redco_micro_batch micro_batch, uint32_t module, const void *weights,
                          void *gradient, redco_error *err)
{
    const struct run *const run = context;
    const redco_dtype dtype = run->trial->dtype;
    const redco_state_module *const m = &modules[module];
    (void)err;
    for (uint32_t i = m->first_tensor; i < m->first_tensor + m->tensor_count; i++) {
        const uint64_t at = redco_layout_tensor_at(redco_states_layout(run->states), i);
        for (uint64_t e = 0; e < tensors[i].elements; e++) {
            store(dtype, gradient, at + e, own_gradient(run, i, e, micro_batch.index, load(dtype, weights, at + e)));
        }
    }
    return REDCO_OK;
}

redco_status run_step(struct run *run, redco_error *err)
{
    const struct trial *const t = run->trial;
    const gradient_source source = {run_gradient, run};
    const uint64_t replicas = t->sum_replicas > 0 ? t->sum_replicas : redco_mesh_ranks(t->mesh.dp);
    const uint64_t micro_batches = t->sum_replicas > 0 ? t->sum_micro_batches : t->micro_batches;
    run->step++;
    const step_options options = {t->micro_batches, 1.0 / (double)(micro_batches * replicas), 0.01, run->step};
    return states_step(run->states, run->worker, &source, &options, &run->norm, err);
}

void *run_gathered(struct run *run, uint32_t module, bool backward)
{
    const redco_layout *const layout = redco_states_layout(run->states);
    void *const whole = malloc(redco_layout_module(layout, module)->whole * sizeof(double));
    if (whole != NULL && redco_states_gather(run->states, run->worker, module, backward, whole, NULL) != REDCO_OK) {
        free(whole);
        return NULL;
    }
    return whole;
}

double error_of(double got, double want)
{
    return fabs(got - want) / (fabs(want) + 1e-2); /* values are of the order of 1 */
}

/* Weights as every rank gathers them. */
double weights_error(struct run *run, const struct reference *r)
{
    const redco_layout *const layout = redco_states_layout(run->states);
    double worst = 0.0;
    for (uint32_t m = 0; m < FIX_MODULES; m++) {
        void *const whole = run_gathered(run, m, false);
        if (whole == NULL) { return (double)INFINITY; }
        for (uint32_t i = 0; i < FIX_TENSORS; i++) {
            const uint64_t at = redco_layout_tensor_at(layout, i);
            if (redco_layout_module_of(layout, i) != m) { continue; }
            for (uint64_t e = 0; e < fixture_elements(i); e++) {
                const uint64_t place = fixture_place(i, run->rank % run->trial->mesh.tp, e);
                worst = fmax(worst, error_of(load(run->trial->dtype, whole, at + e), r->weights.of[i][place]));
            }
        }
        free(whole);
    }
    return worst;
}

/* States that this rank owns; 1 where one that it does not own was written. */
double states_error(struct run *run, const struct reference *r)
{
    const redco_dtype master = redco_states_master_dtype(run->states);
    const uint32_t count = redco_optimizer_states(&run->trial->optimizer);
    const double nothing = 12345.0;
    double worst = 0.0;
    for (uint32_t i = 0; i < FIX_TENSORS; i++) {
        for (int which = REDCO_STATES_WEIGHTS; which < (int)count; which++) {
            const struct values *const want = which < 0 ? &r->weights : &r->state[which];
            double buffer[FIX_MOST];
            for (uint64_t e = 0; e < FIX_MOST; e++) { store(master, buffer, e, nothing); }
            if (states_get(run->states, run->worker, i, which, buffer, NULL) != REDCO_OK) { return (double)INFINITY; }
            for (uint64_t e = 0; e < FIX_MOST; e++) {
                const double got = load(master, buffer, e);
                if (got == nothing) { continue; }
                if (e >= fixture_elements(i)) { return 1.0; }
                const uint64_t place = fixture_place(i, run->rank % run->trial->mesh.tp, e);
                worst = fmax(worst, error_of(got, want->of[i][place]));
            }
        }
    }
    return worst;
}
