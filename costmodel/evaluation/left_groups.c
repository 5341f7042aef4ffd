#include "costmodel/evaluation/left_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const redco_leave_words[REDCO_LEAVE_KINDS + 1] = {"source", "gpu",          "engine", "model",
                                                              "class",  "architecture", "size",   NULL};

/* Where such layouts begin that are beyond what most runs had. */
enum { MANY_GPUS = 512 };
static const char of_few_gpus[] = "few";

static size_t chip_length(const char *gpu)
{
    return strcspn(gpu, "-");
}

bool redco_same_chip(const char *gpu, const char *other)
{
    return chip_length(gpu) == chip_length(other) && strncmp(gpu, other, chip_length(gpu)) == 0;
}

/* One house publishes the same runs in several places: tables whose names begin so are one origin, and its rows of one
 * model on one GPU are what is unknown together. */
static const char *const one_origin[] = {"dgxc", "megatron_bridge", "nemo", "mlperf"};

static bool of_one_origin(const redco_measured_run *run)
{
    for (size_t i = 0; i < sizeof one_origin / sizeof one_origin[0]; i++) {
        if (strncmp(run->source, one_origin[i], strlen(one_origin[i])) == 0) { return true; }
    }
    return false;
}

/* Models are told apart by what they compute, not by what a table calls them; cut ones are the same model. */
static bool same_model(const redco_measured_run *a, const redco_measured_run *b)
{
    return a->hidden == b->hidden && a->ffn_hidden == b->ffn_hidden;
}

static void name_of(const redco_evaluations *evaluations, const redco_measured_run *const *runs, size_t row,
                    redco_leave kind, char name[64])
{
    const redco_measured_run *const run = runs[row];
    const bool skipped = redco_evaluations_skip(evaluations, row) != NULL;
    const redco_request *const request = skipped ? NULL : redco_evaluations_request(evaluations, row);
    const char *const arch = skipped ? "" : request->machine.gpu.arch;
    static const char *const software_words[] = {"unknown", "eager", "megatron", "te_xla"};
    switch (kind) {
    case REDCO_LEAVE_GPU: (void)snprintf(name, 64, "%.*s", (int)chip_length(run->gpu), run->gpu); return;
    case REDCO_LEAVE_ENGINE: (void)snprintf(name, 64, "%.60s", redco_measured_engine(run)); return;
    case REDCO_LEAVE_MODEL: (void)snprintf(name, 64, "%u-%u", run->hidden, run->ffn_hidden); return;
    case REDCO_LEAVE_CLASS:
        (void)snprintf(name, 64, "%.20s %s", arch, skipped ? "" : software_words[request->workload.engine.software]);
        return;
    case REDCO_LEAVE_SIZE:
        (void)snprintf(name, 64, "%.30s",
                       skipped || run->n_gpus < MANY_GPUS ? of_few_gpus : redco_evaluations_set(evaluations, row));
        return;
    case REDCO_LEAVE_ARCHITECTURE: (void)snprintf(name, 64, "%.60s", arch); return;
    case REDCO_LEAVE_SOURCE:
    case REDCO_LEAVE_KINDS:
        if (of_one_origin(run)) {
            (void)snprintf(name, 64, "NVIDIA %u-%u %.*s", run->hidden, run->ffn_hidden, (int)chip_length(run->gpu),
                           run->gpu);
        } else {
            (void)snprintf(name, 64, "%.60s", run->source);
        }
        return;
    }
}

static bool same_configuration(const redco_measured_run *a, const redco_measured_run *b)
{
    const uint64_t left[] = {a->n_gpus,
                             a->tp,
                             a->pp,
                             a->cp,
                             a->dp,
                             a->virtual_pp,
                             a->micro_batch,
                             a->grad_accum,
                             a->seq_len,
                             a->recompute,
                             a->precision,
                             a->attention,
                             a->software,
                             a->compiled,
                             a->overlap,
                             a->sequence_parallel,
                             a->shards.parameters.gpus,
                             a->shards.parameters.nodes,
                             a->shards.optimizer.gpus,
                             a->shards.optimizer.nodes};
    const uint64_t right[] = {b->n_gpus,
                              b->tp,
                              b->pp,
                              b->cp,
                              b->dp,
                              b->virtual_pp,
                              b->micro_batch,
                              b->grad_accum,
                              b->seq_len,
                              b->recompute,
                              b->precision,
                              b->attention,
                              b->software,
                              b->compiled,
                              b->overlap,
                              b->sequence_parallel,
                              b->shards.parameters.gpus,
                              b->shards.parameters.nodes,
                              b->shards.optimizer.gpus,
                              b->shards.optimizer.nodes};
    return same_model(a, b) && strcmp(a->gpu, b->gpu) == 0 && strcmp(a->framework, b->framework) == 0 &&
           memcmp(left, right, sizeof left) == 0;
}

/* A source whose GPU no other has says what such a GPU never seen is worth, not what a source is. */
static bool gpu_is_shared(const redco_left_groups *groups, const bool *usable, size_t row)
{
    for (size_t i = 0; i < groups->count; i++) {
        if (usable[i] && groups->group[i] != groups->group[row] &&
            redco_same_chip(groups->runs[i]->gpu, groups->runs[row]->gpu)) {
            return true;
        }
    }
    return false;
}

static void weigh(redco_left_groups *groups, const bool *usable)
{
    for (size_t i = 0; i < groups->count; i++) {
        double same = 0.0;
        if (!usable[i] || strcmp(groups->names[groups->group[i]], of_few_gpus) == 0 ||
            (groups->kind == REDCO_LEAVE_SOURCE && !gpu_is_shared(groups, usable, i))) {
            continue;
        }
        for (size_t j = 0; j < groups->count; j++) {
            same += usable[j] && groups->group[j] == groups->group[i] &&
                            same_configuration(groups->runs[i], groups->runs[j])
                        ? 1.0
                        : 0.0;
        }
        groups->weight[i] = 1.0 / same;
    }
}

redco_status redco_left_groups_create(const redco_evaluations *evaluations, const redco_measured_run *const *runs,
                                      size_t count, const bool *usable, redco_leave kind, redco_left_groups *groups_out,
                                      redco_error *err)
{
    const size_t most = count > 0 ? count : 1;
    redco_left_groups groups = {.kind = kind,
                                .count = count,
                                .runs = runs,
                                .group = calloc(most, sizeof *groups.group),
                                .names = calloc(most, sizeof *groups.names),
                                .weight = calloc(most, sizeof *groups.weight)};
    if (groups.group == NULL || groups.names == NULL || groups.weight == NULL) {
        redco_left_groups_free(&groups);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        char name[64];
        size_t at = 0;
        name_of(evaluations, runs, i, kind, name);
        while (at < groups.groups && strcmp(groups.names[at], name) != 0) { at++; }
        if (at == groups.groups) { memcpy(groups.names[groups.groups++], name, sizeof name); }
        groups.group[i] = at;
    }
    weigh(&groups, usable);
    *groups_out = groups;
    return REDCO_OK;
}

void redco_left_groups_free(redco_left_groups *groups)
{
    free(groups->group);
    free(groups->names);
    free(groups->weight);
    *groups = (redco_left_groups){.count = 0};
}

void redco_left_groups_mark(const redco_left_groups *groups, size_t group, bool *out)
{
    for (size_t i = 0; i < groups->count; i++) { out[i] = out[i] || groups->group[i] == group; }
}
