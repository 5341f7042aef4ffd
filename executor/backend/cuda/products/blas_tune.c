/* Which of cuBLASLt's algorithms is fastest here. */
#include "executor/backend/cuda/products/blas.h"

#include <math.h>

enum { TIMED_CALLS = 3 };

/** Seconds of one call by candidate @p which, the least of a few; not-a-number if it cannot be run. */
static redco_status time_one(redcoi_cuda *cuda, redco_device_stream *stream, const redcoi_blas_plan *plan,
                             uint32_t which, const redcoi_blas_place *at, void *workspace, redco_event *const events[2],
                             double *seconds_out, redco_error *err)
{
    const redco_backend_calls *const calls = cuda->base.calls;
    double least_s = (double)NAN;
    *seconds_out = least_s;
    for (uint32_t i = 0; i <= TIMED_CALLS; i++) { /* the first one loads the kernel */
        double s = 0.0;
        redco_status st = calls->event_set(&cuda->base, stream, events[0], err);
        if (st != REDCO_OK) { return st; }
        if (redcoi_blas_call(cuda->blas, plan, which, at, workspace, stream->handle) != CUBLAS_STATUS_SUCCESS) {
            return REDCO_OK;
        }
        if ((st = calls->event_set(&cuda->base, stream, events[1], err)) != REDCO_OK ||
            (st = calls->event_finish(&cuda->base, events[1], err)) != REDCO_OK ||
            (st = calls->event_between(&cuda->base, events[0], events[1], &s, err)) != REDCO_OK) {
            return st;
        }
        if (i > 0 && !(s >= least_s)) { least_s = s; }
    }
    *seconds_out = least_s;
    return REDCO_OK;
}

static redco_status time_all(redcoi_cuda *cuda, redco_device_stream *stream, redcoi_blas_plan *plan,
                             const redcoi_blas_place *at, void *workspace, redco_error *err)
{
    const redco_backend_calls *const calls = cuda->base.calls;
    redco_event *events[2] = {NULL, NULL};
    double best_s = (double)NAN;
    uint32_t best = plan->chosen;
    redco_status st = calls->event_create(&cuda->base, &events[0], err);
    if (st != REDCO_OK || (st = calls->event_create(&cuda->base, &events[1], err)) != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < plan->candidate_count && st == REDCO_OK; i++) {
        double s = 0.0;
        st = time_one(cuda, stream, plan, i, at, workspace, events, &s, err);
        if (st == REDCO_OK && !isnan(s) && !(s >= best_s)) { /* equal ones: the heuristic's order */
            best_s = s;
            best = i;
        }
    }
    if (st == REDCO_OK) { plan->chosen = best; }
out:
    if (events[0] != NULL) { calls->event_free(&cuda->base, events[0]); }
    if (events[1] != NULL) { calls->event_free(&cuda->base, events[1]); }
    return st;
}

redco_status redcoi_blas_tune(redcoi_cuda *cuda, redco_device_stream *stream, redcoi_blas_plan *plan,
                              const redcoi_blas_place *at, void *workspace, const char *place, redco_error *err)
{
    const redcoi_product *const p = &plan->product;
    const redco_backend_calls *const calls = cuda->base.calls;
    const uint64_t peak_bytes = cuda->peak_bytes;
    redcoi_blas_place elsewhere = *at;
    void *scratch = NULL;
    (void)place;
    plan->tuned = true;
    if (plan->candidate_count < 2) { return REDCO_OK; }
    if (at->addend == at->result) {
        const uint64_t elements = (p->count - 1) * p->stride_c + p->m * p->n;
        /* Without room the heuristic's choice stands: a step that fits without tuning fits with it. */
        if (calls->allocate(&cuda->base, REDCO_MEMORY_DEVICE, elements * redcoi_product_bytes(p), &scratch, NULL) !=
            REDCO_OK) {
            return REDCO_OK;
        }
        elsewhere.result = scratch;
    }
    const redco_status st = time_all(cuda, stream, plan, &elsewhere, workspace, err);
    if (scratch != NULL) { calls->release(&cuda->base, REDCO_MEMORY_DEVICE, scratch); }
    /* Memory that tuning took for a moment is not counted with the step's plan. */
    (void)pthread_mutex_lock(&cuda->device->lock);
    cuda->peak_bytes = peak_bytes;
    (void)pthread_mutex_unlock(&cuda->device->lock);
    return st;
}
