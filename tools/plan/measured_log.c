#include "tools/plan/measured_log.h"

#include <math.h>
#include <stdio.h>

static redco_log_difference difference_of(const struct plan_args *args, const redco_run_log *log,
                                          const redco_inputs *inputs, const redco_prediction *predicted)
{
    const redco_workload *const workload = &args->question.options.workload;
    const double sequences = (double)workload->global_batch;
    const double gpus = (double)inputs->machine.nodes * inputs->machine.gpus_per_node;
    return redco_run_log_compare(log, predicted, sequences * workload->seq_len, sequences, gpus);
}

double measured_log_step_s(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs)
{
    const redco_prediction any = {.step_s = 1.0};
    return difference_of(args, log, inputs, &any).step_s;
}

/* "48 steps of Megatron-LM: 5.31 s (5.20 to 5.60 s); predicted 5.02 s, 5.8 % faster than it ran; within its band" */
static void report_step(const redco_run_log *log, const redco_log_difference *d, const redco_prediction *predicted,
                        const redco_band *band)
{
    const double off = 100.0 * (d->ratio - 1.0), speed = 1.0 / d->ratio; /* measured tokens/s over predicted */
    (void)printf("measured  %llu step%s of %s: %.3g s", (unsigned long long)log->steps, log->steps == 1 ? "" : "s",
                 log->trainer, d->step_s);
    if (log->step_s > 0.0 && log->steps > 2) { (void)printf(" (%.3g to %.3g s)", log->step_low_s, log->step_high_s); }
    (void)printf("; predicted %.3g s: it ran %.1f %% %s", predicted->step_s, fabs(off),
                 off > 0.0 ? "longer" : "shorter");
    if (band->high_90 > 0.0) {
        (void)printf("; %s", speed >= band->low_68 && speed <= band->high_68   ? "within the band"
                             : speed >= band->low_90 && speed <= band->high_90 ? "within nine of ten such runs"
                                                                               : "beyond nine of ten such runs");
    }
    (void)printf("\n");
}

static void report_terms(const redco_log_difference *d)
{
    if (d->term_count == 0) { return; }
    const bool timed = d->terms[0].timed;
    (void)printf("          %s", timed ? "" : "as if ");
    for (size_t i = 0; i < d->term_count; i++) {
        const redco_log_term *const term = &d->terms[i];
        if (timed) {
            (void)printf("%s%s %.3g s, predicted %.3g s", i > 0 ? " \xc2\xb7 " : "", term->what, term->measured_s,
                         term->predicted_s);
        } else {
            (void)printf("%s%s took %.3g s, not %.3g s", i > 0 ? ", or " : "", term->what, term->measured_s,
                         term->predicted_s);
        }
    }
    (void)printf("\n");
}

static void report_memory(const redco_run_log *log, const redco_log_difference *d, const redco_prediction *predicted)
{
    const double gb = 1e9;
    if (log->allocated_bytes > 0.0) {
        (void)printf("          %.3g GB allocated at the peak, predicted %.3g GB", log->allocated_bytes / gb,
                     (double)predicted->allocated_bytes / gb);
        if (d->rest_ratio > 0.0) {
            (void)printf(": parameters, gradients and optimizer are %.3g GB, the rest %.2f of what is predicted",
                         d->states_bytes / gb, d->rest_ratio);
        } else {
            (void)printf(": less than parameters, gradients and optimizer, %.3g GB: they are cut or kept otherwise",
                         d->states_bytes / gb);
        }
        (void)printf("\n");
    } else if (log->reserved_bytes > 0.0) {
        (void)printf("          %.3g GB reserved at the peak, predicted %.3g GB with what the allocator keeps\n",
                     log->reserved_bytes / gb, (double)predicted->total_bytes / gb);
    }
    if (!log->out_of_memory) { return; }
    (void)printf("          it ran out of memory");
    if (log->asked_bytes > 0.0) { (void)printf(" at another %.3g GB", log->asked_bytes / gb); }
    if (log->held_bytes > 0.0) { (void)printf(", with %.3g GB allocated", log->held_bytes / gb); }
    if (log->capacity_bytes > 0.0) { (void)printf(", of %.3g GB", log->capacity_bytes / gb); }
    const double total = (double)predicted->total_bytes, capacity = (double)predicted->capacity_bytes;
    (void)printf("; predicted %.3g of %.3g GB: %s\n", total / gb, capacity / gb,
                 total > capacity                                        ? "it does not fit"
                 : total + (double)predicted->uncertain_bytes > capacity ? "it may not fit"
                                                                         : "it fits");
}

void measured_log_report(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs,
                         const redco_prediction *predicted, const redco_band *band)
{
    const redco_log_difference d = difference_of(args, log, inputs, predicted);
    if (d.step_s > 0.0) {
        report_step(log, &d, predicted, band);
        report_terms(&d);
    } else {
        (void)printf("measured  %s: no line states a step's time\n", args->log);
    }
    report_memory(log, &d, predicted);
}

json_t *measured_log_json(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs,
                          const redco_prediction *predicted)
{
    const redco_log_difference d = difference_of(args, log, inputs, predicted);
    return redco_run_log_json(log, &d, predicted);
}
