#include "tools/exec/exec_report.h"

#include "tools/cli/cli.h"
#include "topology/base/clock.h"
#include "topology/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double tokens_of(const redco_plan *plan)
{
    return (double)plan->global_batch * plan->seq_len;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of a number of every step. The first warms up and is left out, unless it is alone. */
static double median_of(const struct exec_run *run, double (*number)(const redco_trainer_step *step))
{
    const uint64_t skip = run->count > 1 ? 1 : 0, count = run->count - skip;
    double *const values = run->count > 0 ? calloc(count, sizeof *values) : NULL;
    if (values == NULL) { return NAN; }
    for (uint64_t i = 0; i < count; i++) { values[i] = number(&run->steps[i + skip]); }
    qsort(values, count, sizeof *values, by_size);
    const double median = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
    free(values);
    return median;
}

static double time_of(const redco_trainer_step *step)
{
    return step->time_s;
}

static double exposed_of(const redco_trainer_step *step)
{
    return step->exposed_comm_s;
}

double exec_median_step_s(const struct exec_run *run)
{
    return median_of(run, time_of);
}

static void print_stages(const struct exec_run *run)
{
    (void)printf("memory of stages, MB:");
    for (uint32_t i = 0; i < run->plan->parallelism.pp; i++) {
        (void)printf("%s %.2f (predicted %.2f)", i > 0 ? " ·" : "", 1e-6 * (double)run->stages[i].total_bytes,
                     1e-6 * (double)run->predicted_stages[i].total_bytes);
    }
    (void)printf("\n");
}

void exec_print_head(const struct exec_run *run)
{
    const redco_plan *const plan = run->plan;
    const redco_trainer_memory *const memory = &run->memory;
    const redco_plan_predicted *const p = &plan->predicted;
    const unsigned long long ranks = redco_plan_gpus(plan);
    const double mb = 1e-6;
    char stages[24] = "";
    if (plan->parallelism.pp > 1) { (void)snprintf(stages, sizeof stages, ", pp %u", plan->parallelism.pp); }
    if (run->replay) {
        (void)printf("%s, rank %u of %llu alone", plan->model_name, run->rank, ranks);
    } else {
        (void)printf("%s on %llu ranks", plan->model_name, ranks);
    }
    (void)printf(" (tp %u, dp %u×%u%s), %s, backend %s: %llu sequences × %u tokens a step%s\n", plan->parallelism.tp,
                 plan->parallelism.dp.gpus, plan->parallelism.dp.nodes, stages, redco_dtype_name(run->dtype),
                 run->backend, (unsigned long long)plan->global_batch, plan->seq_len,
                 run->replay ? "; communication is emulated: it takes as long as the plan predicts, nothing is learned"
                             : "");
    (void)printf(
        "memory of rank %u, MB: parameters %.2f · gradients %.2f · optimizer %.2f · activations %.2f · logits %.2f · "
        "recomputed %.2f · working %.2f · gathered and whole gradients %.2f · buckets %.2f = %.2f (predicted for "
        "%s: %.2f)\n",
        run->replay ? run->rank : 0, mb * (double)memory->parameter_bytes, mb * (double)memory->gradient_bytes,
        mb * (double)memory->optimizer_bytes, mb * (double)memory->activation_bytes, mb * (double)memory->logits_bytes,
        mb * (double)memory->recomputed_bytes, mb * (double)memory->working_bytes, mb * (double)memory->slot_bytes,
        mb * (double)memory->bucket_bytes, mb * (double)memory->total_bytes, plan->gpu_name,
        mb * (double)p->total_bytes);
    if (run->stages != NULL) { print_stages(run); }
}

void exec_print_resumed(const char *path, uint64_t step, uint64_t steps)
{
    (void)printf("resumed from ");
    redco_text_write(stdout, path);
    (void)printf(": step %llu of %llu%s\n", (unsigned long long)step, (unsigned long long)steps,
                 step < steps ? "" : "; nothing is left to train");
}

void exec_print_step(const struct exec_run *run, uint64_t number, const redco_trainer_step *step)
{
    (void)printf("step %4llu", (unsigned long long)number);
    if (!run->replay) { (void)printf("  loss %.6f", step->loss); }
    (void)printf("  %.4g s  %.0f tokens/s\n", step->time_s, tokens_of(run->plan) / step->time_s);
    (void)fflush(stdout);
}

void exec_print_evaluation(const struct exec_evaluation *e)
{
    (void)printf("evaluation after step %llu", (unsigned long long)e->step);
    if (isfinite(e->epoch)) { (void)printf(", epoch %.2f", e->epoch); }
    (void)printf(": loss %.6f", e->evaluation.loss);
    if (isfinite(e->metric)) { (void)printf(", metric %.6f", e->metric); }
    (void)printf("%s\n", e->best ? ", the best so far" : "");
    (void)fflush(stdout);
}

void exec_print_tail(const struct exec_run *run)
{
    const redco_trainer_verdict *const v = run->checked ? &run->verdict : NULL;
    if (run->count > 0) {
        const double waiting_s = run->plan->predicted.exposed_comm_s; /* a difference: what is left is rounding */
        (void)printf(
            "median %.4g s a step, of it waiting for communication %.4g s; predicted for %s %.4g and %.4g s%s\n",
            exec_median_step_s(run), median_of(run, exposed_of), run->plan->gpu_name, run->plan->predicted.step_s,
            waiting_s < 1e-12 ? 0.0 : waiting_s,
            run->emulated ? "; computation was emulated"
            : run->replay ? "; communication was emulated"
                          : "");
    }
    if (run->launches > 0) {
        (void)printf("%llu calls give the GPU a step's work, %u graphs among them\n", (unsigned long long)run->launches,
                     run->graphs);
    }
    if (run->watts > 0.0) {
        (void)printf("%.0f W of the first GPU on average", run->watts);
        if (run->plan->predicted.watts_per_gpu > 0.0) {
            (void)printf("; predicted %.0f W", run->plan->predicted.watts_per_gpu);
        }
        (void)printf("\n");
    }
    if (run->attention[0] != '\0') { (void)printf("attention by %s\n", run->attention); }
    if (run->reserve_bytes > 0) {
        (void)printf("driver, context, libraries and other programs hold %.0f MB of the GPU beside\n",
                     1e-6 * (double)run->reserve_bytes);
    }
    if (run->use.evaluate != NULL) {
        (void)printf("evaluation of ");
        redco_text_write(stdout, run->use.evaluate);
        (void)printf(": loss %.6f over %llu targets of %llu examples, %.3g s\n", run->use.evaluation.loss,
                     (unsigned long long)run->use.evaluation.targets, (unsigned long long)run->use.evaluation.examples,
                     run->use.evaluation_s);
        if (run->use.by_token) { (void)printf("perplexity %.6g\n", exp(run->use.evaluation.loss)); }
        if (isfinite(run->use.metric)) { (void)printf("metric %.6f\n", run->use.metric); }
    }
    if (run->best.step > 0) {
        (void)printf("best checkpoint: step %llu, %s %.6f\n", (unsigned long long)run->best.step, run->best.by,
                     run->best.value);
    }
    if (run->use.predict != NULL) {
        (void)printf("prediction of ");
        redco_text_write(stdout, run->use.predict);
        (void)printf(": %llu examples, ", (unsigned long long)run->use.predicted);
        if (run->use.tokens > 0) { (void)printf("%llu tokens, ", (unsigned long long)run->use.tokens); }
        (void)printf("%.3g s\n", run->use.prediction_s);
    }
    if (run->reported != NULL) {
        char *const text = json_dumps(run->reported, JSON_REAL_PRECISION(6));
        if (text != NULL) { (void)printf("reported by the pipeline: %s\n", text); }
        free(text);
    }
    if (v == NULL) { return; }
    (void)printf("check against one rank: %s; errors of losses %.1e, of norms %.1e", v->same ? "the same" : "differs",
                 v->loss_error, v->norm_error);
    if (v->compared > 0) { (void)printf(", of weights %.1e", v->weight_error); }
    (void)printf(", bound %.0e; %llu weights compared, %llu of them loosely as their gradients are rounding\n",
                 v->bound, (unsigned long long)v->compared, (unsigned long long)v->loose);
    if (v->differs_step > 0) {
        (void)printf("first loss or norm that differs: step %llu%s\n", (unsigned long long)v->differs_step,
                     v->compared == 0 && v->loss_error > v->bound
                         ? "; a loss that is the difference of larger numbers loses its digits in 16 bits: "
                           "check with --dtype f32 or f64"
                         : "");
    }
    if (v->tensor[0] != '\0') { (void)printf("first tensor that differs: %s on rank %u\n", v->tensor, v->rank); }
}

static json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *steps_json(const struct exec_run *run)
{
    json_t *const list = json_array();
    for (uint64_t i = 0; i < run->count; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o, s:f, s:f, s:f, s:f, s:f}", "loss",
                            number_json(run->replay ? (double)NAN : run->steps[i].loss), "gradient_norm",
                            number_json(run->replay ? (double)NAN : run->steps[i].gradient_norm), "clip_factor",
                            run->steps[i].clip_factor, "learning_rate", run->steps[i].learning_rate, "time_s",
                            run->steps[i].time_s, "exposed_comm_s", run->steps[i].exposed_comm_s, "processor_s",
                            run->steps[i].processor_s));
    }
    return list;
}

static json_t *check_json(const redco_trainer_verdict *v)
{
    if (v == NULL) { return json_pack("{s:s, s:n, s:n}", "status", "not run", "max_relative_error", "tensor"); }
    return json_pack("{s:s, s:f, s:s?, s:o, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "status", v->same ? "ok" : "differs",
                     "max_relative_error", fmin(fmax(fmax(v->loss_error, v->norm_error), v->weight_error), 1e300),
                     "tensor", v->tensor[0] != '\0' ? v->tensor : NULL, "rank",
                     v->tensor[0] != '\0' ? json_integer((json_int_t)v->rank) : json_null(), "bound", v->bound,
                     "loss_error", fmin(v->loss_error, 1e300), "norm_error", fmin(v->norm_error, 1e300), "weight_error",
                     fmin(v->weight_error, 1e300), "differs_step", (json_int_t)v->differs_step, "compared",
                     (json_int_t)v->compared, "loose", (json_int_t)v->loose);
}

static json_t *memory_json(const redco_trainer_memory *m)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m->parameter_bytes,
                     "gradients", (json_int_t)m->gradient_bytes, "optimizer", (json_int_t)m->optimizer_bytes,
                     "activations", (json_int_t)m->activation_bytes, "logits", (json_int_t)m->logits_bytes,
                     "recomputed", (json_int_t)m->recomputed_bytes, "working", (json_int_t)m->working_bytes, "slots",
                     (json_int_t)m->slot_bytes, "buckets", (json_int_t)m->bucket_bytes);
}

/* Each stage's fullest rank. */
static json_t *stages_json(const struct exec_run *run)
{
    json_t *const stages = json_array();
    for (uint32_t i = 0; i < run->plan->parallelism.pp; i++) {
        const redco_prediction *const p = &run->predicted_stages[i];
        const uint64_t transient_bytes = p->transient_bytes + p->nccl_bytes;
        json_t *const held =
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)p->parameter_bytes, "gradients",
                      (json_int_t)p->gradient_bytes, "optimizer", (json_int_t)p->optimizer_bytes, "activations",
                      (json_int_t)p->activation_bytes, "transient", (json_int_t)transient_bytes);
        json_t *const measured = json_pack("{s:I, s:o}", "peak_memory_bytes", (json_int_t)run->stages[i].total_bytes,
                                           "memory_bytes", memory_json(&run->stages[i]));
        json_t *const predicted =
            json_pack("{s:I, s:o}", "peak_memory_bytes", (json_int_t)p->total_bytes, "memory_bytes", held);
        (void)json_array_append_new(stages, json_pack("{s:o, s:o}", "measured", measured, "predicted", predicted));
    }
    return stages;
}

static json_t *known_json(double value)
{
    return value > 0.0 ? json_real(value) : json_null();
}

/* Nothing is known of no steps. */
static json_t *measured_json(const struct exec_run *run)
{
    const double step_s = exec_median_step_s(run), ranks = (double)redco_plan_gpus(run->plan);
    const double tokens_per_s = tokens_of(run->plan) / step_s / ranks;
    const double energy_j = run->watts * ranks * step_s;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "step_s", number_json(step_s),
                     "tokens_per_s_per_gpu", number_json(tokens_per_s), "mfu",
                     number_json(tokens_per_s * run->model_flops_per_token / run->peak_flops_per_s), "exposed_comm_s",
                     number_json(median_of(run, exposed_of)), "watts_per_gpu", known_json(run->watts), "energy_j",
                     known_json(energy_j), "energy_j_per_token", known_json(energy_j / tokens_of(run->plan)),
                     "peak_memory_bytes", (json_int_t)run->memory.total_bytes, "allocated_bytes",
                     (json_int_t)run->memory.allocated_bytes, "reserve_bytes",
                     run->reserve_bytes > 0 ? json_integer((json_int_t)run->reserve_bytes) : json_null(), "launches",
                     run->launches > 0 ? json_integer((json_int_t)run->launches) : json_null(), "graphs",
                     run->launches > 0 ? json_integer((json_int_t)run->graphs) : json_null(), "memory_bytes",
                     memory_json(&run->memory));
}

static json_t *start_json(const struct exec_start *s)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "plan_s", s->plan_s, "device_s", s->device_s, "carrier_s",
                     s->device_comm_s, "model_s", s->trainer.model_s, "weights_s", s->trainer.weights_s, "schedule_s",
                     s->trainer.schedule_s, "total_s", s->total_s);
}

static json_t *checkpoint_json(const struct exec_run *run)
{
    const redco_checkpoint_best *const best = &run->best;
    if (run->folder == NULL) { return json_null(); }
    return json_pack("{s:o, s:o, s:I, s:o}", "folder", cli_json_text(run->folder), "resumed_from",
                     run->resumed ? json_integer((json_int_t)run->first) : json_null(), "written",
                     (json_int_t)run->written, "best",
                     best->step > 0 ? json_pack("{s:s, s:I, s:f}", "by", best->by, "step", (json_int_t)best->step,
                                                "value", best->value)
                                    : json_null());
}

static json_t *evaluations_json(const struct exec_use *use)
{
    json_t *const list = json_array();
    for (uint64_t i = 0; i < use->count; i++) {
        const struct exec_evaluation *const e = &use->list[i];
        (void)json_array_append_new(
            list, json_pack("{s:I, s:o, s:f, s:o, s:I, s:I, s:f, s:b}", "step", (json_int_t)e->step, "epoch",
                            number_json(e->epoch), "loss", e->evaluation.loss, "metric", number_json(e->metric),
                            "examples", (json_int_t)e->evaluation.examples, "targets",
                            (json_int_t)e->evaluation.targets, "time_s", e->time_s, "best", (int)e->best));
    }
    return list;
}

static json_t *evaluation_json(const struct exec_use *use)
{
    if (use->evaluate == NULL) { return json_null(); }
    const double perplexity = use->by_token ? exp(use->evaluation.loss) : (double)NAN;
    return json_pack("{s:o, s:f, s:o, s:o, s:I, s:I, s:f}", "file", cli_json_text(use->evaluate), "loss",
                     use->evaluation.loss, "perplexity", number_json(perplexity), "metric", number_json(use->metric),
                     "examples", (json_int_t)use->evaluation.examples, "targets", (json_int_t)use->evaluation.targets,
                     "time_s", use->evaluation_s);
}

static json_t *prediction_json(const struct exec_use *use)
{
    if (use->predict == NULL) { return json_null(); }
    return json_pack("{s:o, s:I, s:I, s:I, s:f}", "file", cli_json_text(use->predict), "examples",
                     (json_int_t)use->predicted, "tokens", (json_int_t)use->tokens, "graphs", (json_int_t)use->graphs,
                     "time_s", use->prediction_s);
}

json_t *exec_json(const struct exec_run *run)
{
    const redco_plan *const plan = run->plan;
    const redco_plan_predicted *const p = &plan->predicted;
    json_t *const predicted =
        json_pack("{s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:I}", "step_s", p->step_s, "tokens_per_s_per_gpu",
                  p->tokens_per_s_per_gpu, "mfu", p->mfu, "exposed_comm_s", p->exposed_comm_s, "watts_per_gpu",
                  known_json(p->watts_per_gpu), "energy_j", known_json(p->energy_j), "energy_j_per_token",
                  known_json(p->energy_j_per_token), "peak_memory_bytes", (json_int_t)p->total_bytes);
    json_t *const emulated = json_array();
    if (run->emulated) { (void)json_array_append_new(emulated, json_string("compute")); }
    if (run->replay) { (void)json_array_append_new(emulated, json_string("communication")); }
    json_t *const json =
        json_pack("{s:I, s:s, s:s?, s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "world",
                  (json_int_t)redco_plan_gpus(plan), "backend", run->backend, "attention",
                  run->attention[0] != '\0' ? run->attention : NULL, "emulated", emulated, "dtype",
                  redco_dtype_name(run->dtype), "checkpoint", checkpoint_json(run), "start", start_json(&run->start),
                  "first_step", (json_int_t)run->first + 1, "steps", steps_json(run), "measured", measured_json(run),
                  "predicted", predicted, "check", check_json(run->checked ? &run->verdict : NULL), "evaluation",
                  evaluation_json(&run->use), "prediction", prediction_json(&run->use));
    if (run->reported != NULL) { (void)json_object_set(json, "reported", run->reported); }
    (void)json_object_set_new(json, "evaluations", evaluations_json(&run->use));
    (void)json_object_set_new(json, "epoch_examples",
                              run->epoch_examples > 0 ? json_integer((json_int_t)run->epoch_examples) : json_null());
    (void)json_object_set_new(json, "log", run->log != NULL ? cli_json_text(run->log) : json_null());
    if (run->stages != NULL) { (void)json_object_set_new(json, "stages", stages_json(run)); }
    if (run->replay) { (void)json_object_set_new(json, "replay_rank", json_integer((json_int_t)run->rank)); }
    return json;
}
