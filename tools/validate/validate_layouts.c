/* The order of layouts: pairs of runs of one source and model on as many GPUs of one kind, in one precision and with
 * sequences of one length, that are clearly apart and that differ in what somebody chose. */
#include "tools/validate/validate_rows.h"

#include <math.h>
#include <string.h>

/* Runs that are nearer were measured twice as far apart. */
static const double apart_ratio = 0.03;

static bool one_question(const redco_measured_run *a, const redco_measured_run *b)
{
    return strcmp(a->source, b->source) == 0 && strcmp(a->model, b->model) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           a->n_gpus == b->n_gpus && a->precision == b->precision && a->seq_len == b->seq_len;
}

/* All that columns say of a run, but results and the release of the software. */
static bool same_choices(const redco_measured_run *a, const redco_measured_run *b)
{
    const char *const texts[][2] = {{a->framework, b->framework},   {a->precision_recipe, b->precision_recipe},
                                    {a->dispatcher, b->dispatcher}, {a->routing, b->routing},
                                    {a->pp_layout, b->pp_layout},   {a->offload, b->offload},
                                    {a->cuda_graph, b->cuda_graph}};
    const uint64_t numbers[][2] = {{a->layers, b->layers},
                                   {a->vocab, b->vocab},
                                   {a->moe_layers, b->moe_layers},
                                   {a->mtp_layers, b->mtp_layers},
                                   {a->software, b->software},
                                   {a->dp, b->dp},
                                   {a->tp, b->tp},
                                   {a->pp, b->pp},
                                   {a->virtual_pp, b->virtual_pp},
                                   {a->cp, b->cp},
                                   {a->cp_type, b->cp_type},
                                   {a->ep, b->ep},
                                   {a->etp, b->etp},
                                   {redco_mesh_ranks(a->shards.parameters), redco_mesh_ranks(b->shards.parameters)},
                                   {redco_mesh_ranks(a->shards.gradients), redco_mesh_ranks(b->shards.gradients)},
                                   {redco_mesh_ranks(a->shards.optimizer), redco_mesh_ranks(b->shards.optimizer)},
                                   {a->scheme, b->scheme},
                                   {a->sequence_parallel, b->sequence_parallel},
                                   {a->micro_batch, b->micro_batch},
                                   {a->grad_accum, b->grad_accum},
                                   {a->global_batch, b->global_batch},
                                   {a->recompute, b->recompute},
                                   {a->recompute_modules, b->recompute_modules},
                                   {a->grad_reduce_bytes, b->grad_reduce_bytes},
                                   {a->attention, b->attention},
                                   {a->fused_norm, b->fused_norm},
                                   {a->compiled, b->compiled},
                                   {a->overlap, b->overlap},
                                   {a->cuda_graphs, b->cuda_graphs},
                                   {a->ep_overlap, b->ep_overlap}};
    bool same = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        same = same && strcmp(texts[i][0], texts[i][1]) == 0;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) { same = same && numbers[i][0] == numbers[i][1]; }
    return same;
}

struct validate_layouts validate_layouts_of(const struct validate_rows *rows, const char *source)
{
    struct validate_layouts layouts = {.pairs = 0};
    double sum = 0.0;
    for (size_t i = 0; i < rows->files.count; i++) {
        const struct validate_row *const a = &rows->rows[i];
        if (!a->speed || (source != NULL && strcmp(a->run->source, source) != 0)) { continue; }
        for (size_t j = 0; j < i; j++) {
            const struct validate_row *const b = &rows->rows[j];
            if (!b->speed || !one_question(a->run, b->run) || same_choices(a->run, b->run)) { continue; }
            const double measured = a->run->tokens_per_s_per_gpu / b->run->tokens_per_s_per_gpu;
            if (fmax(measured, 1.0 / measured) <= 1.0 + apart_ratio) { continue; }
            const double predicted = a->price.predicted.tokens_per_s_per_gpu - b->price.predicted.tokens_per_s_per_gpu;
            layouts.pairs++;
            sum += predicted == 0.0 ? 0.0 : (predicted > 0.0) == (measured > 1.0) ? 1.0 : -1.0;
        }
    }
    layouts.tau = layouts.pairs > 0 ? sum / (double)layouts.pairs : 0.0;
    return layouts;
}
