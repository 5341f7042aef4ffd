/* The memory of a rank, and of the stages of a pipeline. */
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>

redco_trainer_memory redco_trainer_memory_of(const redco_trainer *t)
{
    const redco_states_size states = redco_states_sizes(t->states);
    const redco_schedule_size schedule = redco_schedule_sizes(t->schedule);
    redco_trainer_memory m = {.parameter_bytes = states.parameter_bytes,
                              .gradient_bytes = states.gradient_bytes,
                              .optimizer_bytes = states.optimizer_bytes,
                              .activation_bytes = schedule.held_bytes[REDCO_ARENA_ACTIVATIONS],
                              .logits_bytes = schedule.held_bytes[REDCO_ARENA_LOGITS],
                              .recomputed_bytes = schedule.held_bytes[REDCO_ARENA_RECOMPUTED],
                              .slot_bytes = schedule.slot_bytes,
                              .bucket_bytes = states.bucket_bytes};
    m.working_bytes = schedule.arena_bytes + schedule.input_bytes - m.activation_bytes - m.logits_bytes -
                      m.recomputed_bytes - m.slot_bytes + schedule.worker_bytes + redco_states_worker_bytes(t->worker) +
                      states.work_bytes;
    m.total_bytes = m.parameter_bytes + m.gradient_bytes + m.optimizer_bytes + m.activation_bytes + m.logits_bytes +
                    m.recomputed_bytes + m.working_bytes + m.slot_bytes + m.bucket_bytes;
    uint64_t live_bytes = 0, peak_bytes = 0;
    for (uint32_t i = 0; i < t->device_count; i++) {
        t->devices[i]->calls->memory_use(t->devices[i], &live_bytes, &peak_bytes);
        m.allocated_bytes += peak_bytes;
        m.live_bytes += live_bytes;
    }
    t->backend->calls->memory_use(t->backend, &live_bytes,
                                  &peak_bytes); /* it was fullest when there was no arena yet */
    m.allocated_bytes += live_bytes;
    m.live_bytes += live_bytes;
    if (peak_bytes > m.allocated_bytes) { m.allocated_bytes = peak_bytes; }
    return m;
}

/* Numbers that ranks tell one another, as reals: bytes are below 2^53. */
enum { TOLD = sizeof(redco_trainer_memory) / sizeof(uint64_t) };

static redco_status gather(const redco_trainer *t, const double *own, double *all, redco_error *err)
{
    redco_communicator *everyone = NULL;
    uint32_t *const colours = calloc(redco_world_size(t->world), sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to tell of its stages"); }
    redco_status st = redco_communicator_split(t->world, colours, "memory of stages", &everyone, err);
    if (st == REDCO_OK) { st = redco_all_gather(everyone, REDCO_F64, own, all, TOLD, "memory of stages", err); }
    redco_communicator_free(everyone);
    free(colours);
    return st;
}

redco_status redco_trainer_stage_memory(const redco_trainer *t, redco_trainer_memory *stages_out, redco_error *err)
{
    const redco_trainer_memory own = redco_trainer_memory_of(t);
    const uint32_t ranks = redco_world_size(t->world), each = (uint32_t)redco_rank_count(t->mesh);
    const uint64_t *const numbers = (const uint64_t *)&own;
    double told[TOLD], *const all = calloc((size_t)ranks * TOLD, sizeof *all);
    if (all == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to tell of its stages"); }
    for (size_t i = 0; i < TOLD; i++) { told[i] = (double)numbers[i]; }
    const redco_status st = gather(t, told, all, err);
    for (uint32_t s = 0; s < t->stage.count && st == REDCO_OK; s++) { stages_out[s].total_bytes = 0; }
    for (uint32_t r = 0; r < ranks && st == REDCO_OK; r++) {
        redco_trainer_memory rank;
        for (size_t i = 0; i < TOLD; i++) { ((uint64_t *)&rank)[i] = (uint64_t)all[(size_t)r * TOLD + i]; }
        redco_trainer_memory *const fullest = &stages_out[r / each];
        if (rank.total_bytes > fullest->total_bytes) { *fullest = rank; }
    }
    free(all);
    return st;
}
