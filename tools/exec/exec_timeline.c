#include "tools/exec/exec_timeline.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(sizeof(redco_error) % sizeof(int32_t) == 0, "an error is sent as whole numbers of 32 bits");

static const double processor_resolution_s = 2e-9; /* two readings of a clock of nanoseconds */

void exec_timeline_open(struct exec_timeline *timeline)
{
    timeline->trace = redco_trace_new();
    if (timeline->trace == NULL) { (void)redco_fail(&timeline->err, REDCO_ENOMEM, timeline->path, "out of memory"); }
}

void exec_timeline_close(struct exec_timeline *timeline)
{
    redco_trace_free(timeline->trace);
    timeline->trace = NULL;
}

bool exec_timeline_shows(const struct exec_timeline *timeline, uint64_t step)
{
    const uint64_t most = timeline->steps > 1 ? timeline->steps - 1 : 1;
    const uint64_t shown = timeline->shown < most ? timeline->shown : most;
    return timeline->trace != NULL && timeline->err.status == REDCO_OK && step > timeline->steps - shown;
}

void exec_timeline_add(struct exec_timeline *timeline, const redco_trainer *trainer, uint64_t step)
{
    redco_timeline *made = NULL;
    redco_status st = redco_trainer_timeline(trainer, &made, &timeline->err);
    if (st == REDCO_OK) { st = redco_timeline_add(made, timeline->from_s, step, timeline->trace, &timeline->err); }
    if (st == REDCO_OK) { timeline->from_s += made->span_s; }
    redco_timeline_free(made);
}

static void add_notes(redco_trace *trace, const struct exec_run *run, uint32_t rank)
{
    const redco_plan *const plan = run->plan;
    char text[64];
    redco_trace_add_note(trace, "format", "redco-timeline");
    redco_trace_add_note(trace, "source",
                         run->emulated ? "measured, computation emulated"
                         : run->replay ? "measured, communication emulated"
                                       : "measured");
    (void)snprintf(text, sizeof text, "%lu of %llu", (unsigned long)rank, (unsigned long long)redco_plan_gpus(plan));
    redco_trace_add_note(trace, "rank", text);
    (void)snprintf(text, sizeof text, "%llu of %llu", (unsigned long long)plan->parallelism.micro_batches,
                   (unsigned long long)plan->parallelism.micro_batches);
    redco_trace_add_note(trace, "micro_batches", text);
    (void)snprintf(text, sizeof text, "%.9g", exec_median_step_s(run));
    redco_trace_add_note(trace, "step_s", text);
}

/* Times are read as far as the longest step reaches. */
static void mend(struct exec_timeline *timeline, const struct cli *cli, const struct exec_run *run,
                 const redco_backend *backend)
{
    redco_trace_mend_report report;
    char text[512];
    double resolution_s = processor_resolution_s, longest_s = 0.0;
    for (uint64_t i = 0; i < run->count; i++) {
        if (run->steps[i].time_s > longest_s) { longest_s = run->steps[i].time_s; }
    }
    if (backend != NULL) {
        resolution_s = backend->calls->clock_resolution_s + backend->calls->clock_resolution_ratio * longest_s;
    }
    if (redco_trace_mend(timeline->trace, resolution_s, &report, &timeline->err) != REDCO_OK || report.beyond == 0) {
        return;
    }
    (void)snprintf(text, sizeof text, "%.100s: %s, and the clock resolves %.3g s; drawn apart (%llu such in all)",
                   timeline->path, report.first, resolution_s, (unsigned long long)report.beyond);
    cli_warn(cli, text);
}

void exec_timeline_write(struct exec_timeline *timeline, const struct cli *cli, const struct exec_run *run,
                         const redco_backend *backend)
{
    if (timeline->trace == NULL || timeline->err.status != REDCO_OK) { return; }
    add_notes(timeline->trace, run, timeline->rank);
    mend(timeline, cli, run, backend);
    if (timeline->err.status == REDCO_OK) { (void)redco_trace_write(timeline->trace, timeline->path, &timeline->err); }
}

redco_status exec_timeline_agree(struct exec_timeline *timeline, redco_world *world, redco_error *err)
{
    const uint32_t ranks = redco_world_size(world);
    redco_communicator *all = NULL;
    if (ranks == 1 || timeline->rank == 0) { return REDCO_OK; } /* rank 0, which prints, knows */
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, "timeline", "out of memory"); }
    redco_status st = redco_communicator_split(world, colours, "timeline", &all, err);
    if (st == REDCO_OK) {
        st = redco_broadcast(all, REDCO_I32, &timeline->err, sizeof timeline->err / sizeof(int32_t), timeline->rank,
                             "timeline", err);
    }
    redco_communicator_free(all);
    free(colours);
    return st;
}
