#include "planner/run/run_step.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/operators/compute_profile.h"
#include "costmodel/operators/power.h"
#include "planner/answer/evidence.h"
#include "planner/answer/explain.h"
#include "planner/answer/question.h"

#include <math.h>
#include <stdio.h>

/* Steps that no band is claimed of: famous runs have a mean error of 15.8 %. Since 1; source: redco-validate --famous
 * traces/data/famous/runs.csv. */
static const double unknown_band = 0.15;
/* Steps on GPUs of one node from measured operators. Since 1; source: the worst of the rows of traces/data/gpu, 4.3 %.
 */
static const double measured_band = 0.05;

/* Says what the plan uses that no measured run of the calibration had; "" where it lies among them. Sets whose runs do
 * not ship are known by their engine alone. */
static const char *beyond(const redco_inputs *inputs, const redco_workload *workload, const redco_candidate *candidate,
                          char *buffer, size_t size)
{
    const redco_parallelism *const parallelism = &candidate->parallelism;
    const redco_reach reach = redco_reach_of(&inputs->machine, workload->seq_len, parallelism);
    redco_evidence *evidence = NULL;
    redco_error unread;
    buffer[0] = '\0';
    if (redco_evidence_read(inputs->calibration.name, &evidence, &unread) == REDCO_OK && evidence != NULL) {
        (void)redco_evidence_beyond(evidence, parallelism, &reach, buffer, size);
    }
    if (evidence == NULL && inputs->engine.dimensions != 0 &&
        (redco_setting_dimensions(parallelism) & ~(uint32_t)inputs->engine.dimensions) != 0) {
        (void)snprintf(buffer, size, "its engine lacks parallelism that the plan uses");
    }
    redco_evidence_free(evidence);
    if (buffer[0] == '\0') { (void)redco_inputs_beyond_mfu(inputs, workload, candidate->prediction.mfu, buffer, size); }
    return buffer;
}

static void fill_band(const redco_inputs *inputs, const redco_workload *workload, const redco_candidate *candidate,
                      redco_run_step *step)
{
    char how_far[REDCO_EVIDENCE_TEXT];
    const redco_calibration *const calibration = &inputs->calibration;
    const bool profiled = redco_compute_profile_how(redco_comm_compute(inputs->comm)) != NULL;
    step->band_ratio = calibration->band_ratio;
    step->evidence = REDCO_CALIBRATED;
    if (calibration->fitted_rows > 0) {
        (void)snprintf(step->source, sizeof step->source, "calibration %.40s, %u runs", calibration->name,
                       calibration->fitted_rows);
    } else {
        step->evidence = profiled ? REDCO_MEASURED_HERE : REDCO_ASSUMED;
        (void)snprintf(step->source, sizeof step->source, "%s%.40s",
                       profiled ? "measured operators, " : "calibration not fitted to runs: ", calibration->name);
    }
    redco_band band = calibration->band;
    if (!(step->band_ratio > 0.0)) {
        step->band_ratio = profiled && inputs->machine.nodes == 1 ? measured_band : unknown_band;
    } else if (beyond(inputs, workload, candidate, how_far, sizeof how_far)[0] != '\0') {
        redco_bands bands;
        redco_error unread;
        if (redco_bands_read("dense", &bands, &unread) == REDCO_OK) {
            band = redco_bands_beyond(&bands, &band);
            step->band_ratio = redco_band_half_ratio(&band);
        }
        step->evidence = REDCO_ASSUMED;
        (void)snprintf(step->source, sizeof step->source, "calibration %.40s, beyond it: %.80s", calibration->name,
                       how_far);
    } else if (inputs->unseen[0] != '\0') {
        step->evidence = REDCO_ASSUMED;
        (void)snprintf(step->source, sizeof step->source, "calibration %.40s, %.100s", calibration->name,
                       inputs->unseen);
    }
    step->band_low_ratio = band.low_68;
    step->band_high_ratio = band.high_68;
}

redco_run_step redco_run_step_of(const redco_inputs *inputs, const redco_search_options *options,
                                 const redco_candidate *candidate)
{
    const redco_prediction *const p = &candidate->prediction;
    const redco_parallelism *const parallelism = &candidate->parallelism;
    const redco_workload *const w = &options->workload;
    const redco_machine *const machine = &inputs->machine;
    const redco_state_bytes bytes = redco_state_bytes_of(w->precision, &w->engine, redco_model_moments(inputs->model));
    const redco_profile_measured *const how = redco_compute_profile_how(redco_comm_compute(inputs->comm));
    const redco_power power = redco_power_of(&machine->gpu, w->precision, how);
    const redco_shards shards = redco_main_assignment(candidate)->config.shards;
    const redco_mesh grid = redco_shard_grid(machine, &w->engine, parallelism);
    redco_run_step step = {.step_s = p->step_s,
                           .compute_s = p->forward_s + p->backward_s + p->recompute_s + p->optimizer_s,
                           .gpus = (uint64_t)machine->nodes * machine->gpus_per_node,
                           .nodes = machine->nodes,
                           .hosts_per_node = machine->hosts_per_node,
                           .batch_tokens = (double)w->global_batch * w->seq_len,
                           .micro_batches = (double)parallelism->micro_batches,
                           .watts_per_gpu = p->energy.watts_per_gpu,
                           .idle_w = power.idle_w,
                           .tdp_w = machine->gpu.tdp_w,
                           .power_evidence = how != NULL && how->idle_w > 0.0 ? REDCO_MEASURED_HERE : REDCO_PUBLISHED,
                           .checkpoint_bytes =
                               (double)redco_model_params(inputs->model) * (double)(bytes.parameter + bytes.optimizer)};
    const double copies = (double)redco_mesh_ranks(grid) / (double)redco_mesh_ranks(shards.optimizer);
    step.writers = fmax((double)step.gpus / copies, 1.0);
    step.replicas = (uint32_t)(step.gpus / ((uint64_t)parallelism->tp * parallelism->pp * parallelism->cp));
    fill_band(inputs, w, candidate, &step);
    return step;
}
