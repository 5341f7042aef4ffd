/* Attention by cuDNN: which launches it takes, and the plans of their shapes. */
#include "executor/backend/cuda/attention/dnn.h"
#include "executor/backend/cuda/cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mistakes of older versions, by cudnn-frontend 1.23: 9.10.0 and 9.10.1 have known bugs in attention of 16 bits, and
 * what came before refuses more than is listed here (node/sdpa_support_surface.h); up to 9.15.0, backward of keys that
 * are no multiple of 128 needs a padding mask; 9.11 and 9.12 have of heads between 128 and 192 on compute capability 9
 * those of 192 and 128 alone (node/scaled_dot_product_flash_attention.h,
 * CompositeSDPABackwardNode::pre_validate_node()). */
enum {
    VERSION_MIN = 91002,
    VERSION_ANY_KEYS = 91501, /* the first after 9.15.0 */
    KEYS_MULTIPLE = 128,
    VERSION_UNEVEN = 91100,
    VERSION_UNEVEN_END = 91300
};

/** A shape that was asked for, and its plan: none if cuDNN has no engine for it. */
typedef struct entry {
    redcoi_dnn_shape shape;
    redcoi_dnn_plan plan;
} entry;

struct redcoi_dnn {
    redcoi_dnn_calls calls;
    void *library;
    cudnnHandle_t handle;
    entry *entries;
    uint32_t count, room;
    char path[REDCO_CUDA_PATH_BYTES];
};

/** @return whether every query sees a key: what cuDNN makes of one that sees none is not documented. */
static bool all_see(const redcoi_dnn_shape *s)
{
    if (!s->causal) { return true; }
    const int64_t last = s->queries - 1 + s->offset;
    return s->offset >= 0 && (s->window == 0 || last - s->window + 1 < s->keys);
}

/** The checks of cudnn-frontend on engines (node/sdpa_support_surface.h for forward,
 *  CompositeSDPABackwardNode::pre_validate_node() for backward). */
static bool is_documented(const redcoi_device *device, size_t version, const redcoi_dnn_shape *s)
{
    const int64_t longer = s->size > s->value_size ? s->size : s->value_size;
    if (s->size % 8 != 0 || s->value_size % 8 != 0 || longer > 256) { return false; }
    if (s->window > 0 && s->queries > s->keys) { return false; }
    /* Bounds to both sides of a diagonal that does not end in the last corner: the left one must be positive. */
    if (s->window > 0 && s->offset != s->keys - s->queries && s->window <= s->offset) { return false; }
    if (!s->backward) { return true; }
    if (s->queries == 1 && s->keys == 1) { return false; }
    if (version < VERSION_ANY_KEYS && s->keys % KEYS_MULTIPLE != 0) { return false; }
    if (version >= VERSION_UNEVEN && version < VERSION_UNEVEN_END && device->major == 9 && longer > 128 &&
        longer <= 192 && (s->size != 192 || s->value_size != 128)) {
        return false;
    }
    return device->major == 9 || longer <= 128 || (device->major == 10 && s->size == 192 && s->value_size == 128);
}

/** @return false if this is not for cuDNN */
static bool make_shape(const redcoi_cuda *cuda, const redco_launch *launch, redcoi_dnn_shape *shape_out)
{
    const bool backward = launch->kind == REDCO_OP_ATTENTION_GRAD;
    if (cuda->dnn == NULL || (!backward && launch->kind != REDCO_OP_ATTENTION)) { return false; }
    if (launch->input_count != (backward ? 6 : 3)) { return false; } /* a given mask */
    const redco_tensor_type *q = &launch->inputs[0].type, *k = &launch->inputs[1].type, *v = &launch->inputs[2].type;
    const redco_attributes *a = launch->attributes;
    const uint64_t most = UINT64_C(1) << 24; /* numbers of tokens are exact in float, in which masks have them */
    if (q->dtype != REDCO_BFLOAT16 && q->dtype != REDCO_F16) { return false; }
    if (!(a->scalar > 0) || q->dim[1] > most || k->dim[1] > most) { return false; }
    redcoi_dnn_shape s = {.type = q->dtype == REDCO_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
                          .backward = backward,
                          .causal = (a->flags & REDCO_FLAG_CAUSAL) != 0,
                          .batch = (int64_t)q->dim[0],
                          .queries = (int64_t)q->dim[1],
                          .keys = (int64_t)k->dim[1],
                          .heads = (int64_t)q->dim[2],
                          .groups = (int64_t)k->dim[2],
                          .size = (int64_t)q->dim[3],
                          .value_size = (int64_t)v->dim[3]};
    if (s.causal) {
        if (a->offset < 0 || a->offset > (int64_t)most) { return false; }
        s.offset = a->offset;
        /* A window that reaches before the first key hides nothing. */
        s.window = a->window < (uint64_t)(s.offset + s.queries) ? (int64_t)a->window : 0;
        if (s.window == 0 && s.offset >= s.keys - 1) { /* nor does the diagonal */
            s.causal = false;
            s.offset = 0;
        }
    }
    if (a->cap > 0.0) { return false; } /* its graph has no cap of scores */
    if (!all_see(&s) || !is_documented(cuda->device, cuda->dnn->calls.version(), &s)) { return false; }
    *shape_out = s;
    return true;
}

static entry *add_entry(redcoi_dnn *dnn, const redcoi_dnn_shape *shape)
{
    if (dnn->count == dnn->room) {
        const uint32_t room = dnn->room == 0 ? 8 : 2 * dnn->room;
        entry *grown = realloc(dnn->entries, room * sizeof *grown);
        if (grown == NULL) { return NULL; }
        dnn->entries = grown;
        dnn->room = room;
    }
    entry *e = &dnn->entries[dnn->count++];
    *e = (entry){.shape = *shape};
    return e;
}

/** The plan of a shape, made when it is first asked for: a second or so, in which cuDNN compiles. NULL: none. */
static const redcoi_dnn_plan *find_plan(const redcoi_cuda *cuda, const redcoi_dnn_shape *shape)
{
    redcoi_dnn *dnn = cuda->dnn;
    for (uint32_t i = 0; i < dnn->count; i++) {
        if (redcoi_dnn_shape_equal(&dnn->entries[i].shape, shape)) {
            return dnn->entries[i].plan.plan == NULL ? NULL : &dnn->entries[i].plan;
        }
    }
    if (redcoi_cuda_enter(cuda, NULL) != REDCO_OK) { return NULL; }
    entry *e = add_entry(dnn, shape);
    if (e == NULL) { return NULL; }
    return redcoi_dnn_plan_create(&dnn->calls, dnn->handle, NULL, shape, false, &e->plan, NULL) == REDCO_OK ? &e->plan
                                                                                                            : NULL;
}

static const redcoi_dnn_plan *plan_of(const redcoi_cuda *cuda, const redco_launch *launch)
{
    redcoi_dnn_shape shape;
    return make_shape(cuda, launch, &shape) ? find_plan(cuda, &shape) : NULL;
}

static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    return plan_of(cuda, launch) != NULL;
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const redcoi_dnn_plan *plan = plan_of(cuda, launch);
    return plan == NULL ? 0 : plan->workspace_bytes;
}

static redco_status run(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err)
{
    static const redcoi_dnn_port inputs[] = {REDCOI_DNN_Q, REDCOI_DNN_K,          REDCOI_DNN_V,
                                             REDCOI_DNN_O, REDCOI_DNN_STATISTICS, REDCOI_DNN_D_O};
    static const redcoi_dnn_port results[] = {REDCOI_DNN_O, REDCOI_DNN_STATISTICS};
    static const redcoi_dnn_port gradients[] = {REDCOI_DNN_D_Q, REDCOI_DNN_D_K, REDCOI_DNN_D_V};
    void *tensors[REDCOI_DNN_PORTS] = {NULL};
    const redcoi_dnn_plan *plan = plan_of(cuda, launch);
    if (plan == NULL) { return redco_fail(err, REDCO_ESYSTEM, launch->name, "cuDNN has no plan for it"); }
    const bool backward = plan->graph->shape.backward;
    for (uint32_t i = 0; i < (backward ? 6 : 3); i++) { tensors[inputs[i]] = launch->inputs[i].data; }
    for (uint32_t i = 0; i < (backward ? 3 : 2); i++) {
        tensors[backward ? gradients[i] : results[i]] = launch->outputs[i].data;
    }
    const redcoi_dnn *dnn = cuda->dnn;
    (void)pthread_mutex_lock(&cuda->device->lock);
    cuda->device->attention.dnn_launches++;
    (void)pthread_mutex_unlock(&cuda->device->lock);
    if (!stream->recording) { redcoi_cuda_count_call(cuda); }
    const redco_status st = redcoi_dnn_check(&dnn->calls, dnn->calls.set_stream(dnn->handle, stream->handle),
                                             launch->name, "cudnnSetStream", err);
    if (st != REDCO_OK) { return st; }
    return redcoi_dnn_plan_run(plan, dnn->handle, tensors, launch->workspace, launch->attributes->scalar, launch->name,
                               err);
}

const redcoi_runner redcoi_dnn_runner = {supports, workspace_bytes, run};

/** @param device  whose choice of the library is taken; NULL: where the loader looks @return NULL: cuda->dnn_why */
static redcoi_dnn *open_library(redcoi_cuda *cuda, const redcoi_device *device, redco_error *err)
{
    redcoi_dnn *dnn = calloc(1, sizeof *dnn);
    redco_error why = {.status = REDCO_OK};
    if (dnn == NULL) {
        (void)redco_fail(err, REDCO_ENOMEM, "cuDNN", "a handle");
        return NULL;
    }
    if (redcoi_dnn_load(device, &dnn->calls, &dnn->library, &why) != REDCO_OK) {
        (void)snprintf(cuda->dnn_why, sizeof cuda->dnn_why, "%.100s: %.200s", why.place, why.text);
        free(dnn);
        return NULL;
    }
    redcoi_library_path(dnn->library, dnn->path);
    const uint32_t version = (uint32_t)dnn->calls.version();
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (version < VERSION_MIN) {
        (void)snprintf(cuda->dnn_why, sizeof cuda->dnn_why,
                       "cuDNN %u.%u.%u is too old (%.250s): 9.10.2 or newer is wanted", version / 10000,
                       version / 100 % 100, version % 100, dnn->path);
    } else if ((status = dnn->calls.create(&dnn->handle)) != CUDNN_STATUS_SUCCESS) {
        (void)snprintf(cuda->dnn_why, sizeof cuda->dnn_why, "cuDNN %u.%u.%u (%.200s) does not start: %.80s",
                       version / 10000, version / 100 % 100, version % 100, dnn->path, dnn->calls.error_string(status));
    } else {
        return dnn;
    }
    redcoi_library_close(dnn->library);
    free(dnn);
    return NULL;
}

redco_status redcoi_dnn_open(redcoi_cuda *cuda, redco_error *err)
{
    const redcoi_device *const device = cuda->device;
    redco_error failed = {.status = REDCO_OK};
    cuda->dnn = NULL;
    if (device->options.own_attention) {
        (void)snprintf(cuda->dnn_why, sizeof cuda->dnn_why, "own kernels were asked for");
        return REDCO_OK;
    }
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    cuda->dnn = open_library(cuda, device, &failed);
    if (cuda->dnn == NULL && device->libraries[REDCO_CUDA_LIBRARY_DNN][0] != '\0' && failed.status == REDCO_OK) {
        char why[sizeof cuda->dnn_why];
        memcpy(why, cuda->dnn_why, sizeof why);
        cuda->dnn = open_library(cuda, NULL, &failed);
        if (cuda->dnn == NULL) { memcpy(cuda->dnn_why, why, sizeof why); } /* the newest one's counts */
    }
    return failed.status == REDCO_OK ? REDCO_OK : redco_fail(err, failed.status, failed.place, "%s", failed.text);
}

void redcoi_dnn_path(const redcoi_cuda *cuda, char path[REDCO_CUDA_PATH_BYTES])
{
    (void)snprintf(path, REDCO_CUDA_PATH_BYTES, "%s", cuda->dnn == NULL ? "" : cuda->dnn->path);
}

/** Why cuDNN did not take an attention of 16 bits. */
static void say_why(const redcoi_cuda *cuda, const redco_launch *launch, char *text, size_t size)
{
    const bool backward = launch->kind == REDCO_OP_ATTENTION_GRAD;
    const redco_tensor_type *const q = &launch->inputs[0].type, *const k = &launch->inputs[1].type;
    if (cuda->dnn == NULL) {
        (void)snprintf(text, size, "%s", cuda->dnn_why);
        return;
    }
    const uint32_t version = (uint32_t)cuda->dnn->calls.version();
    const int used = snprintf(
        text, size, "cuDNN %u.%u.%u (%.250s) does not take %s of %llu queries, %llu keys, heads of %llu",
        version / 10000, version / 100 % 100, version % 100, cuda->dnn->path, backward ? "backward" : "forward",
        (unsigned long long)q->dim[1], (unsigned long long)k->dim[1], (unsigned long long)q->dim[3]);
    if (used < 0 || (size_t)used >= size) { return; }
    if (backward && version < VERSION_ANY_KEYS && k->dim[1] % KEYS_MULTIPLE != 0) {
        (void)snprintf(text + used, size - (size_t)used, ": 9.16.0 or newer is wanted where keys are no multiple of %d",
                       KEYS_MULTIPLE);
    }
}

void redcoi_dnn_missed(redcoi_cuda *cuda, const redco_launch *launch)
{
    redcoi_device *const d = cuda->device;
    const redco_dtype dtype = launch->inputs[0].type.dtype;
    const bool slow = dtype == REDCO_BFLOAT16 || dtype == REDCO_F16;
    (void)pthread_mutex_lock(&d->lock);
    d->attention.own_launches++;
    if (slow && d->attention.slow_launches++ == 0) { say_why(cuda, launch, d->attention.why, sizeof d->attention.why); }
    (void)pthread_mutex_unlock(&d->lock);
}

void redcoi_dnn_close(redcoi_cuda *cuda)
{
    redcoi_dnn *dnn = cuda->dnn;
    if (dnn == NULL) { return; }
    for (uint32_t i = 0; i < dnn->count; i++) { redcoi_dnn_plan_close(&dnn->entries[i].plan); }
    free(dnn->entries);
    (void)dnn->calls.destroy(dnn->handle);
    redcoi_library_close(dnn->library);
    free(dnn);
    cuda->dnn = NULL;
}

uint32_t redcoi_dnn_version(const redcoi_cuda *cuda)
{
    return cuda->dnn == NULL ? 0 : (uint32_t)cuda->dnn->calls.version();
}
