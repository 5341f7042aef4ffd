#include "tools/exec_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const not_done[] = {"communication is not hidden behind computation",
                                       "all activations are kept: nothing is recomputed"};

static double tokens_of(const redco_plan *plan)
{
    return (double)plan->global_batch * plan->seq_len;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The first step warms up and is left out, unless it is alone. @return NaN when out of memory or without steps */
static double median_step_s(const struct exec_run *run)
{
    const uint64_t skip = run->count > 1 ? 1 : 0, count = run->count - skip;
    double *const times_s = run->count > 0 ? calloc(count, sizeof *times_s) : NULL;
    if (times_s == NULL) { return NAN; }
    for (uint64_t i = 0; i < count; i++) { times_s[i] = run->steps[i + skip].time_s; }
    qsort(times_s, count, sizeof *times_s, by_size);
    const double median_s = (times_s[(count - 1) / 2] + times_s[count / 2]) / 2.0;
    free(times_s);
    return median_s;
}

void exec_print_head(const redco_plan *plan, redco_dtype dtype)
{
    (void)printf("%s on %llu ranks (tp %u, dp %u×%u), %s, backend host: %llu sequences × %u tokens a step\n",
                 plan->model_name, (unsigned long long)redco_plan_gpus(plan), plan->tp, plan->dp.gpus, plan->dp.nodes,
                 redco_dtype_name(dtype), (unsigned long long)plan->global_batch, plan->seq_len);
}

void exec_print_step(const redco_plan *plan, uint64_t number, const redco_trainer_step *step)
{
    (void)printf("step %4llu  loss %.6f  %.3f s  %.0f tokens/s\n", (unsigned long long)number, step->loss, step->time_s,
                 tokens_of(plan) / step->time_s);
    (void)fflush(stdout);
}

void exec_print_tail(const struct exec_run *run)
{
    const redco_trainer_verdict *const v = run->verdict;
    const double step_s = median_step_s(run);
    (void)printf("median %.3f s a step, predicted for %s %.3g s; %s; %s\n", step_s, run->plan->gpu_name,
                 run->plan->predicted.step_s, not_done[0], not_done[1]);
    if (v == NULL) { return; }
    (void)printf(
        "check against one rank: %s; errors of losses %.1e, of weights %.1e, bound %.0e; %llu weights compared, "
        "%llu without gradient but rounding left out\n",
        v->same ? "the same" : "differs", v->loss_error, v->weight_error, v->bound, (unsigned long long)v->compared,
        (unsigned long long)v->left_out);
    if (v->differs_step > 0) {
        (void)printf("first loss that differs: step %llu\n", (unsigned long long)v->differs_step);
    }
    if (v->tensor[0] != '\0') { (void)printf("first tensor that differs: %s\n", v->tensor); }
}

static json_t *steps_json(const struct exec_run *run)
{
    json_t *const list = json_array();
    for (uint64_t i = 0; i < run->count; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:f, s:f}", "loss", run->steps[i].loss, "time_s", run->steps[i].time_s));
    }
    return list;
}

static json_t *check_json(const redco_trainer_verdict *v)
{
    if (v == NULL) { return json_pack("{s:s, s:n, s:n}", "status", "not run", "max_relative_error", "tensor"); }
    return json_pack("{s:s, s:f, s:s?, s:f, s:f, s:f, s:I, s:I, s:I}", "status", v->same ? "ok" : "differs",
                     "max_relative_error", fmin(fmax(v->loss_error, v->weight_error), 1e300), "tensor",
                     v->tensor[0] != '\0' ? v->tensor : NULL, "bound", v->bound, "loss_error", v->loss_error,
                     "weight_error", fmin(v->weight_error, 1e300), "differs_step", (json_int_t)v->differs_step,
                     "compared", (json_int_t)v->compared, "left_out", (json_int_t)v->left_out);
}

json_t *exec_json(const struct exec_run *run)
{
    const redco_plan *const plan = run->plan;
    const redco_plan_predicted *const p = &plan->predicted;
    const double step_s = median_step_s(run), ranks = (double)redco_plan_gpus(plan);
    if (!(step_s > 0.0)) { return NULL; }
    json_t *const measured = json_pack("{s:f, s:f, s:n, s:n, s:n}", "step_s", step_s, "tokens_per_s_per_gpu",
                                       tokens_of(plan) / step_s / ranks, "mfu", "exposed_comm_s", "peak_memory_bytes");
    json_t *const predicted =
        json_pack("{s:f, s:f, s:f, s:f, s:I}", "step_s", p->step_s, "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu,
                  "mfu", p->mfu, "exposed_comm_s", p->exposed_comm_s, "peak_memory_bytes", (json_int_t)p->total_bytes);
    return json_pack("{s:I, s:s, s:[], s:[s, s], s:s, s:o, s:o, s:o, s:o}", "world", (json_int_t)redco_plan_gpus(plan),
                     "backend", "host", "emulated", "not_done", not_done[0], not_done[1], "dtype",
                     redco_dtype_name(run->dtype), "steps", steps_json(run), "measured", measured, "predicted",
                     predicted, "check", check_json(run->verdict));
}
