/* From a graph to an execution plan, and its launch. */
#include "executor/backend/cuda/attention/dnn.h"
#include "executor/backend/cuda/cuda_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MAX = 16 };

redco_status redcoi_dnn_load(const struct redcoi_device *device, redcoi_dnn_calls *c, void **library_out,
                             redco_error *err)
{
#define CALL(name, member)                                                                                             \
    {                                                                                                                  \
        name, (void (**)(void))(void *)&c->member                                                                      \
    }
    const redcoi_symbol symbols[] = {
        CALL("cudnnGetVersion", version),
        CALL("cudnnGetErrorString", error_string),
        CALL("cudnnGetLastErrorString", last_error),
        CALL("cudnnCreate", create),
        CALL("cudnnDestroy", destroy),
        CALL("cudnnSetStream", set_stream),
        CALL("cudnnBackendCreateDescriptor", descriptor_create),
        CALL("cudnnBackendDestroyDescriptor", descriptor_destroy),
        CALL("cudnnBackendSetAttribute", set),
        CALL("cudnnBackendGetAttribute", get),
        CALL("cudnnBackendFinalize", finalize),
        CALL("cudnnBackendExecute", execute),
    };
#undef CALL
    return redcoi_library_open_kind(device, REDCO_CUDA_LIBRARY_DNN, symbols, sizeof symbols / sizeof *symbols,
                                    library_out, err);
}

bool redcoi_dnn_shape_equal(const redcoi_dnn_shape *a, const redcoi_dnn_shape *b)
{
    return a->type == b->type && a->backward == b->backward && a->causal == b->causal && a->batch == b->batch &&
           a->queries == b->queries && a->keys == b->keys && a->heads == b->heads && a->groups == b->groups &&
           a->size == b->size && a->value_size == b->value_size && a->offset == b->offset && a->window == b->window;
}

/** Where a plan is made: a handle, or a described device. */
typedef struct site {
    const redcoi_dnn_calls *calls;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
} site;

/** Engine configurations of a heuristic mode, best first; each is the caller's to destroy.
 *  @param heuristic_out their heuristic, which must live as long as they do */
static cudnnStatus_t configurations(const site *s, const redcoi_dnn_graph *g, cudnnBackendHeurMode_t mode,
                                    cudnnBackendDescriptor_t *heuristic_out, cudnnBackendDescriptor_t *configs,
                                    int64_t *count_out)
{
    const redcoi_dnn_calls *c = s->calls;
    cudnnStatus_t st = c->descriptor_create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristic_out);
    *count_out = 0;
    if (st != CUDNN_STATUS_SUCCESS) { return st; }
    const cudnnBackendDescriptor_t h = *heuristic_out;
    st = c->set(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->whole);
    if (st == CUDNN_STATUS_SUCCESS) { st = c->set(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode); }
    if (st == CUDNN_STATUS_SUCCESS && s->device != NULL) {
        st = c->set(h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->device);
    }
    if (st == CUDNN_STATUS_SUCCESS) { st = c->finalize(h); }
    for (int64_t i = 0; i < CONFIGS_MAX && st == CUDNN_STATUS_SUCCESS; i++) {
        st = c->descriptor_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS_MAX, count_out, configs);
    }
    return st;
}

static cudnnStatus_t make_plan(const site *s, cudnnBackendDescriptor_t config, redcoi_dnn_plan *p, int64_t *inner_bytes)
{
    const redcoi_dnn_calls *c = s->calls;
    int64_t n = 0;
    cudnnStatus_t st = c->descriptor_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan);
    if (st != CUDNN_STATUS_SUCCESS) {
        p->plan = NULL;
        return st;
    }
    st = c->set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (st == CUDNN_STATUS_SUCCESS && s->device != NULL) {
        st = c->set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->device);
    } else if (st == CUDNN_STATUS_SUCCESS) {
        st = c->set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle);
    }
    if (st == CUDNN_STATUS_SUCCESS) { st = c->finalize(p->plan); }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->get(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, inner_bytes);
    }
    if (st != CUDNN_STATUS_SUCCESS) {
        (void)c->descriptor_destroy(p->plan);
        p->plan = NULL;
    }
    return st;
}

/** For whoever wants to know; -1 if cuDNN does not say. */
static int64_t engine_number(const redcoi_dnn_calls *c, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = NULL;
    int64_t n = 0, number = -1;
    if (c->descriptor_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) { return -1; }
    if (c->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) !=
            CUDNN_STATUS_SUCCESS ||
        c->get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &number) != CUDNN_STATUS_SUCCESS) {
        number = -1;
    }
    (void)c->descriptor_destroy(engine);
    return number;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static bool has_port(const redcoi_dnn_graph *g, int64_t port)
{
    for (uint32_t i = 0; i < g->port_count; i++) {
        if (g->ports[i] == port) { return true; }
    }
    return false;
}

/** The engine's own workspace behind the tensors that the graph keeps there. */
static void place_workspace(redcoi_dnn_plan *p, int64_t inner_bytes)
{
    const redcoi_dnn_shape *s = &p->graph->shape;
    const uint64_t rows = (uint64_t)s->batch * (uint64_t)s->heads * (uint64_t)s->queries;
    uint64_t at = 0;
    p->sums_at = at;
    if (has_port(p->graph, REDCOI_DNN_SUMS)) { at += aligned(rows * sizeof(float)); }
    p->d_q_sum_at = at;
    if (has_port(p->graph, REDCOI_DNN_D_Q_SUM)) { at += aligned(rows * (uint64_t)s->size * sizeof(float)); }
    p->inner_at = at;
    p->workspace_bytes = at + aligned(inner_bytes > 0 ? (uint64_t)inner_bytes : 0);
}

redco_status redcoi_dnn_plan_create(const redcoi_dnn_calls *calls, cudnnHandle_t handle,
                                    cudnnBackendDescriptor_t device, const redcoi_dnn_shape *shape, bool deterministic,
                                    redcoi_dnn_plan *plan_out, redco_error *err)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    const site s = {calls, handle, device};
    redcoi_dnn_plan p = {0};
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    redco_status st = redcoi_dnn_graph_create(calls, handle, shape, deterministic, &p.graph, err);
    for (uint32_t m = 0; m < 2 && st == REDCO_OK && p.plan == NULL; m++) {
        cudnnBackendDescriptor_t heuristic = NULL, configs[CONFIGS_MAX] = {NULL};
        int64_t count = 0, inner_bytes = 0;
        const cudnnStatus_t asked = configurations(&s, p.graph, modes[m], &heuristic, configs, &count);
        if (asked != CUDNN_STATUS_SUCCESS) { status = asked; }
        for (int64_t i = 0; i < count && asked == CUDNN_STATUS_SUCCESS && p.plan == NULL; i++) {
            status = make_plan(&s, configs[i], &p, &inner_bytes);
            if (p.plan != NULL) {
                p.engine = engine_number(calls, configs[i]);
                place_workspace(&p, inner_bytes);
                p.config = configs[i];
                configs[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < CONFIGS_MAX; i++) {
            if (configs[i] != NULL) { (void)calls->descriptor_destroy(configs[i]); }
        }
        if (heuristic != NULL) { (void)calls->descriptor_destroy(heuristic); }
    }
    if (st == REDCO_OK && p.plan == NULL) {
        st = redcoi_dnn_check(calls, status == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_NOT_SUPPORTED : status, "attention",
                              "no engine", err);
    }
    if (st == REDCO_OK) {
        *plan_out = p;
    } else {
        redcoi_dnn_plan_close(&p);
    }
    return st;
}

void redcoi_dnn_plan_close(redcoi_dnn_plan *plan)
{
    if (plan->plan != NULL) {
        (void)plan->graph->calls->descriptor_destroy(plan->plan);
        (void)plan->graph->calls->descriptor_destroy(plan->config);
    }
    redcoi_dnn_graph_free(plan->graph);
    memset(plan, 0, sizeof *plan);
}

redco_status redcoi_dnn_plan_run(const redcoi_dnn_plan *plan, cudnnHandle_t handle, void *const *tensors,
                                 void *workspace, double scale, const char *place, redco_error *err)
{
    const redcoi_dnn_graph *g = plan->graph;
    const redcoi_dnn_calls *c = g->calls;
    int64_t ids[REDCOI_DNN_PORTS + REDCOI_DNN_SCALARS_MAX], n = 0;
    void *pointers[REDCOI_DNN_PORTS + REDCOI_DNN_SCALARS_MAX];
    redcoi_dnn_number scalars[REDCOI_DNN_SCALARS_MAX];
    cudnnBackendDescriptor_t pack = NULL;
    unsigned char *bytes = workspace;
    void *inner = bytes + plan->inner_at;
    for (uint32_t i = 0; i < g->port_count; i++) {
        const int64_t id = g->ports[i];
        ids[n] = id;
        pointers[n++] = id == REDCOI_DNN_SUMS      ? bytes + plan->sums_at
                        : id == REDCOI_DNN_D_Q_SUM ? bytes + plan->d_q_sum_at
                                                   : tensors[id];
    }
    memcpy(scalars, g->scalars, sizeof scalars);
    scalars[g->scale].real = (float)scale;
    for (uint32_t i = 0; i < g->scalar_count; i++) {
        ids[n] = g->scalar_ids[i];
        pointers[n++] = &scalars[i]; /* read before execute returns */
    }
    cudnnStatus_t st = c->descriptor_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (st == CUDNN_STATUS_SUCCESS) { st = c->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids); }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &inner);
    }
    if (st == CUDNN_STATUS_SUCCESS) { st = c->finalize(pack); }
    if (st == CUDNN_STATUS_SUCCESS) { st = c->execute(handle, plan->plan, pack); }
    const redco_status result = redcoi_dnn_check(c, st, place, "attention", err);
    if (pack != NULL) { (void)c->descriptor_destroy(pack); }
    return result;
}
