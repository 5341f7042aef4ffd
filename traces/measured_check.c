/* Checks that a row holds enough to be compared, and that its columns agree. Every check names the columns that it
 * read. */
#include "traces/measured_internal.h"

#include "topology/base/units.h"
#include "topology/ranks/parallel.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A printed step time and a printed or computed throughput differ by rounding, at most 1 % in the shipped tables. */
static const double rate_tolerance_ratio = 0.02;

__attribute__((format(printf, 2, 3))) static bool fault(redco_measured_run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(run->fault, sizeof run->fault, format, args);
    va_end(args);
    return true;
}

static bool unknown(redco_measured_run *run, redco_measured_column column)
{
    if (redco_measured_knows(run, column)) { return false; }
    return fault(run, "%s is unknown", redco_measured_column_name(column));
}

/* Columns that a cost model cannot do without; the rest has a usual value (attention kernel, bytes of reduced
 * gradients, ...).
 */
static bool lacks_configuration(redco_measured_run *run)
{
    static const redco_measured_column needed[] = {
        REDCO_COLUMN_LAYERS,    REDCO_COLUMN_HIDDEN,     REDCO_COLUMN_FFN_GATED,
        REDCO_COLUMN_HEADS,     REDCO_COLUMN_VOCAB,      REDCO_COLUMN_TIED_EMBEDDINGS,
        REDCO_COLUMN_SEQ_LEN,   REDCO_COLUMN_N_GPUS,     REDCO_COLUMN_GPUS_PER_NODE,
        REDCO_COLUMN_SOFTWARE,  REDCO_COLUMN_DP,         REDCO_COLUMN_TP,
        REDCO_COLUMN_PP,        REDCO_COLUMN_CP,         REDCO_COLUMN_P_SHARD,
        REDCO_COLUMN_G_SHARD,   REDCO_COLUMN_OS_SHARD,   REDCO_COLUMN_MICRO_BATCH,
        REDCO_COLUMN_RECOMPUTE, REDCO_COLUMN_GRAD_ACCUM, REDCO_COLUMN_GLOBAL_BATCH,
        REDCO_COLUMN_PRECISION,
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (unknown(run, needed[i])) { return true; }
    }
    static const redco_measured_column mixture[] = {REDCO_COLUMN_TOPK, REDCO_COLUMN_EXPERT_FFN, REDCO_COLUMN_MOE_LAYERS,
                                                    REDCO_COLUMN_EP, REDCO_COLUMN_ETP};
    if (run->experts == 0 && unknown(run, REDCO_COLUMN_FFN_HIDDEN)) { return true; }
    /* With latent attention the number of heads of keys says nothing. */
    if (run->experts == 0 && unknown(run, REDCO_COLUMN_KV_HEADS)) { return true; }
    for (size_t i = 0; run->experts > 0 && i < sizeof mixture / sizeof mixture[0]; i++) {
        if (unknown(run, mixture[i])) { return true; }
    }
    if (run->recompute == REDCO_MEASURED_RECOMPUTE_MODULES && unknown(run, REDCO_COLUMN_RECOMPUTE_MODULES)) {
        return true;
    }
    if (run->pp > 1 && unknown(run, REDCO_COLUMN_VIRTUAL_PP)) { return true; }
    return run->n_gpus > run->gpus_per_node && unknown(run, REDCO_COLUMN_NODE_NETWORK_GBPS);
}

static bool lacks_result(redco_measured_run *run)
{
    if ((run->use & REDCO_USE_SPEED) != 0 && run->tokens_per_s_per_gpu <= 0.0) {
        return fault(run, "use says speed, but tokens_per_s_per_gpu and step_s are unknown");
    }
    if ((run->use & REDCO_USE_MEMORY) != 0 && run->mem_bytes == 0 && run->outcome == REDCO_OUTCOME_UNKNOWN) {
        return fault(run, "use says memory, but mem_GB and outcome are unknown");
    }
    if (run->outcome == REDCO_OUTCOME_OOM && run->tokens_per_s_per_gpu > 0.0) {
        return fault(run, "outcome is oom, but the run has a throughput");
    }
    if (redco_measured_knows(run, REDCO_COLUMN_TOKENS_PER_S_PER_GPU) && run->step_s > 0.0) {
        const double tokens = (double)run->global_batch * run->seq_len;
        const double from_step = tokens / (run->step_s * run->n_gpus);
        if (fabs(run->tokens_per_s_per_gpu / from_step - 1.0) > rate_tolerance_ratio) {
            return fault(run, "tokens_per_s_per_gpu is %.6g, but step_s gives %.6g", run->tokens_per_s_per_gpu,
                         from_step);
        }
    }
    return false;
}

static bool layout_differs(redco_measured_run *run)
{
    uint64_t ranks = 1;
    const uint32_t sizes[] = {run->dp, run->tp, run->pp, run->cp};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!redco_mul_u64(ranks, sizes[i], &ranks)) { ranks = UINT64_MAX; }
    }
    if (ranks != run->n_gpus) {
        return fault(run, "dp x tp x pp x cp = %u x %u x %u x %u is not n_gpus = %u", run->dp, run->tp, run->pp,
                     run->cp, run->n_gpus);
    }
    if (run->n_gpus > run->gpus_per_node && run->n_gpus % run->gpus_per_node != 0) {
        return fault(run, "n_gpus = %u is not a whole number of nodes of %u", run->n_gpus, run->gpus_per_node);
    }
    uint64_t grid = 1;
    const uint32_t experts[] = {run->etp, run->ep, run->edp, run->pp};
    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; i++) {
        if (!redco_mul_u64(grid, experts[i], &grid)) { grid = UINT64_MAX; }
    }
    if (run->experts > 0 && redco_measured_knows(run, REDCO_COLUMN_EDP) && grid != run->n_gpus) {
        return fault(run, "etp x ep x edp x pp = %u x %u x %u x %u is not n_gpus = %u", run->etp, run->ep, run->edp,
                     run->pp, run->n_gpus);
    }
    uint64_t batch = 0;
    if (!redco_mul_u64(run->micro_batch, run->grad_accum, &batch) || !redco_mul_u64(batch, run->dp, &batch) ||
        batch != run->global_batch) {
        return fault(run, "micro_batch x grad_accum x dp = %u x %llu x %u is not global_batch = %llu", run->micro_batch,
                     (unsigned long long)run->grad_accum, run->dp, (unsigned long long)run->global_batch);
    }
    return false;
}

static bool model_differs(redco_measured_run *run)
{
    if (run->kv_heads > 0 && run->heads % run->kv_heads != 0) {
        return fault(run, "kv_heads = %u does not divide heads = %u", run->kv_heads, run->heads);
    }
    if (run->heads % run->tp != 0) { return fault(run, "tp = %u does not divide heads = %u", run->tp, run->heads); }
    if (run->moe_layers > run->layers) {
        return fault(run, "moe_layers = %u is more than layers = %u", run->moe_layers, run->layers);
    }
    if (run->topk > run->experts) { return fault(run, "topk = %u is more than experts = %u", run->topk, run->experts); }
    if (run->pp > run->layers) { return fault(run, "pp = %u is more than layers = %u", run->pp, run->layers); }
    return false;
}

static bool mesh_impossible(redco_measured_run *run, redco_measured_column column, redco_mesh mesh)
{
    const char *const name = redco_measured_column_name(column);
    const uint64_t ranks = redco_mesh_ranks(mesh);
    const uint32_t here = redco_dp_in_node(run->gpus_per_node, (uint64_t)run->tp * run->cp);
    if (run->dp % ranks != 0) {
        return fault(run, "%s = %ux%u does not divide dp = %u", name, mesh.gpus, mesh.nodes, run->dp);
    }
    if (mesh.gpus > here) {
        return fault(run, "%s = %ux%u, but a node holds %u data-parallel rank(s)", name, mesh.gpus, mesh.nodes, here);
    }
    return false;
}

static bool inside(redco_mesh a, redco_mesh b)
{
    return a.gpus <= b.gpus && a.nodes <= b.nodes;
}

static bool shards_impossible(redco_measured_run *run)
{
    const redco_shards *const s = &run->shards;
    if (mesh_impossible(run, REDCO_COLUMN_P_SHARD, s->parameters) ||
        mesh_impossible(run, REDCO_COLUMN_G_SHARD, s->gradients) ||
        mesh_impossible(run, REDCO_COLUMN_OS_SHARD, s->optimizer)) {
        return true;
    }
    if (redco_measured_knows(run, REDCO_COLUMN_P_SHARD_SECONDARY) &&
        mesh_impossible(run, REDCO_COLUMN_P_SHARD_SECONDARY, run->p_secondary)) {
        return true;
    }
    if (!inside(s->parameters, s->gradients) || !inside(s->gradients, s->optimizer)) {
        return fault(run, "p_shard, g_shard, os_shard = %ux%u, %ux%u, %ux%u must not shrink", s->parameters.gpus,
                     s->parameters.nodes, s->gradients.gpus, s->gradients.nodes, s->optimizer.gpus, s->optimizer.nodes);
    }
    return false;
}

void redcoi_measured_check(redco_measured_run *run)
{
    /* In this order: later checks divide by what earlier ones know to be there. */
    (void)(lacks_configuration(run) || lacks_result(run) || layout_differs(run) || model_differs(run) ||
           shards_impossible(run));
}

const char *redco_measured_engine(const redco_measured_run *run)
{
    const bool own_kernels = run->software == REDCO_SOFTWARE_MEGATRON;
    return own_kernels && strcmp(run->framework, "megatron-lm") == 0 ? "megatron-lm-2022" : run->framework;
}

const char *redco_measured_skip(const redco_measured_run *run)
{
    if (run->use == REDCO_USE_NOTHING) { return run->no_reason; }
    return run->fault[0] != '\0' ? run->fault : NULL;
}
