#include "costmodel/evaluate.h"

#include "topology/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Gradient buckets where a framework fills them in the order of backward (README, section 3); AMSP's engine: 512 Mi
 * elements (InternEvo, March 2024, configs/7B_isp_sft.py). */
static const uint64_t bucket_bytes = 256000000, amsp_bucket_bytes = (uint64_t)1 << 30;
/* GPUs of a GB200 or GB300 NVL72 rack, one link domain of 18 hosts. */
enum { RACK_GPUS = 72 };

struct evaluation {
    char reason[256]; /* "" = can be predicted */
    redco_evaluation_input input;
    redco_model *model;
    redco_costs *costs;
};

struct shared_comm {
    redco_machine machine;
    redco_comm *comm;
};

struct redco_evaluations {
    struct evaluation *rows;
    size_t count;
    struct shared_comm *comms;
    size_t comm_count;
};

/* The largest equal part of a rack that all of a job's racks can hold. */
static uint32_t domain_gpus(const redco_measured_run *run)
{
    uint32_t best = run->gpus_per_node < run->n_gpus ? run->gpus_per_node : run->n_gpus;
    if (strncasecmp(run->gpu, "GB200", 5) != 0 && strncasecmp(run->gpu, "GB300", 5) != 0) { return best; }
    for (uint32_t hosts = 1; hosts * run->gpus_per_node <= RACK_GPUS; hosts++) {
        if (run->n_gpus % (hosts * run->gpus_per_node) == 0) { best = hosts * run->gpus_per_node; }
    }
    return best;
}

/* Tables give a node's rate. The ports of these clusters are 200 Gb/s InfiniBand beside Ampere, 400 Gb/s since Hopper,
 * at most one a GPU: four a node for AMSP (arXiv 2311.00257, section VI-A) and vTrain (arXiv 2312.12391), eight
 * elsewhere. */
static uint32_t ports_of(const redco_gpu *gpu, double network_bytes_per_s, uint32_t gpus)
{
    const double port_bytes_per_s = gpu->compute_capability >= 90 ? 50e9 : 25e9;
    const double ports = round(network_bytes_per_s / port_bytes_per_s);
    return ports < 1.0 ? 1 : ports < gpus ? (uint32_t)ports : gpus;
}

static redco_status machine_of(const redco_measured_run *run, redco_machine *machine_out, redco_error *err)
{
    redco_gpu gpu;
    const redco_status st = redco_gpu_find(run->gpu, &gpu, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t domain = domain_gpus(run);
    const uint32_t physical = domain > run->gpus_per_node ? domain : run->gpus_per_node;
    const double network = run->node_network_bytes_per_s * physical / run->gpus_per_node;
    const uint32_t ports = ports_of(&gpu, network, physical);
    const bool linked = gpu.scale_up_bytes_per_s > 0.0;
    const bool bridged = strstr(gpu.link, "bridge") != NULL;
    redco_machine machine = {.gpu = gpu,
                             .nodes = run->n_gpus / domain,
                             .gpus_per_node = domain,
                             .node_gpus_physical = physical,
                             .hosts_per_node = physical / run->gpus_per_node,
                             .fabric = !linked   ? REDCO_FABRIC_PCIE
                                       : bridged ? REDCO_FABRIC_DIRECT
                                                 : REDCO_FABRIC_SWITCH,
                             .link_group_gpus = !linked   ? 1
                                                : bridged ? 2
                                                          : domain,
                             .scale_up_bytes_per_s = gpu.scale_up_bytes_per_s,
                             .peer_bytes_per_s = gpu.pcie_bytes_per_s,
                             .nics_per_node = ports,
                             .nic_bytes_per_s = network / ports,
                             .node_network_bytes_per_s = network,
                             .oversubscription_ratio = 1.0};
    (void)snprintf(machine.name, sizeof machine.name, "%u x %u %s", machine.nodes, domain, gpu.name);
    *machine_out = machine;
    return REDCO_OK;
}

/* Tables mesh by hosts and TP; the cost model by link domains. */
static redco_status remesh(redco_mesh given, redco_mesh dp, const char *what, redco_mesh *mesh_out, redco_error *err)
{
    const uint64_t ranks = redco_mesh_ranks(given);
    const uint64_t gpus = ranks < dp.gpus ? ranks : dp.gpus;
    if (ranks == 0 || dp.gpus % gpus != 0 || ranks % gpus != 0 || dp.nodes % (ranks / gpus) != 0) {
        return redco_fail(err, REDCO_EVALUE, what, "%llu ranks are no part of a mesh of %ux%u",
                          (unsigned long long)ranks, dp.gpus, dp.nodes);
    }
    *mesh_out = (redco_mesh){(uint32_t)gpus, (uint32_t)(ranks / gpus)};
    return REDCO_OK;
}

static redco_status setting_of(const redco_measured_run *run, redco_evaluation_input *input, redco_error *err)
{
    redco_setting *const s = &input->setting;
    const uint64_t inner = (uint64_t)run->tp * run->cp;
    const uint64_t room = inner < input->machine.gpus_per_node ? input->machine.gpus_per_node / inner : 1;
    const uint32_t local = (uint32_t)(run->dp < room ? run->dp : room);
    if (local == 0 || run->dp % local != 0) {
        return redco_fail(err, REDCO_EVALUE, "dp", "%u ranks do not fill nodes of %u", run->dp, local);
    }
    *s =
        (redco_setting){.tp = run->tp,
                        .pp = run->pp,
                        .cp = run->cp,
                        .micro_batch = run->micro_batch,
                        .micro_batches = run->grad_accum,
                        .dp = {local, run->dp / local},
                        .scheme = run->scheme == REDCO_MEASURED_SCHEME_INTER ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR};
    redco_shards *const shards = &input->config.shards;
    redco_status st = remesh(run->shards.parameters, s->dp, "p_shard", &shards->parameters, err);
    if (st == REDCO_OK) { st = remesh(run->shards.gradients, s->dp, "g_shard", &shards->gradients, err); }
    if (st == REDCO_OK) { st = remesh(run->shards.optimizer, s->dp, "os_shard", &shards->optimizer, err); }
    if (st == REDCO_OK && redco_mesh_ranks(run->p_secondary) > 0) {
        st = remesh(run->p_secondary, s->dp, "p_shard_secondary", &s->secondary, err);
    }
    return st;
}

static redco_attention attention_of(redco_measured_attention attention)
{
    switch (attention) {
    case REDCO_MEASURED_FLASH1: return REDCO_ATTENTION_FLASH1;
    case REDCO_MEASURED_FLASH2: return REDCO_ATTENTION_FLASH2;
    case REDCO_MEASURED_FLASH3: return REDCO_ATTENTION_FLASH3;
    case REDCO_MEASURED_FUSED: return REDCO_ATTENTION_FUSED;
    case REDCO_MEASURED_UNFUSED: return REDCO_ATTENTION_UNFUSED;
    case REDCO_MEASURED_ATTENTION_UNKNOWN: break;
    }
    return REDCO_ATTENTION_AUTO;
}

static redco_gemm_format format_of(redco_measured_precision precision)
{
    switch (precision) {
    case REDCO_MEASURED_FP8: return REDCO_GEMM_FP8;
    case REDCO_MEASURED_MXFP8: return REDCO_GEMM_MXFP8;
    case REDCO_MEASURED_NVFP4: return REDCO_GEMM_NVFP4;
    case REDCO_MEASURED_BF16:
    case REDCO_MEASURED_FP16:
    case REDCO_MEASURED_PRECISION_UNKNOWN: break;
    }
    return REDCO_GEMM_SAME;
}

static redco_recompute recompute_of(const redco_measured_run *run)
{
    const bool flash = run->attention != REDCO_MEASURED_FUSED && run->attention != REDCO_MEASURED_UNFUSED;
    switch (run->recompute) {
    case REDCO_MEASURED_RECOMPUTE_FULL:
    case REDCO_MEASURED_RECOMPUTE_HALF: return REDCO_RECOMPUTE_FULL;
    case REDCO_MEASURED_RECOMPUTE_SELECTIVE: /* nothing to drop where flash attention keeps no scores */
        return flash ? REDCO_RECOMPUTE_NONE : REDCO_RECOMPUTE_SELECTIVE;
    case REDCO_MEASURED_RECOMPUTE_NONE:
    case REDCO_MEASURED_RECOMPUTE_UNKNOWN: break;
    }
    return REDCO_RECOMPUTE_NONE;
}

/* Sharded parameters are fetched module by module in AMSP's engine (arXiv 2311.00257, section V-C) and in DeepSpeed,
 * whose hooks stand before every sub-module (runtime/zero/parameter_offload.py); elsewhere they are flat FSDP units. */
static bool fetches_modules(const char *framework)
{
    return strcmp(framework, "amsp") == 0 || strcmp(framework, "deepspeed") == 0;
}

static redco_workload workload_of(const redco_measured_run *run)
{
    const bool amsp = strcmp(run->framework, "amsp") == 0;
    return (redco_workload){
        .seq_len = run->seq_len,
        .global_batch = run->global_batch,
        .precision = run->precision == REDCO_MEASURED_FP16 ? REDCO_FP16 : REDCO_BF16,
        .overlap = run->overlap & REDCO_OVERLAP_ALL,
        .sequence_parallel = run->sequence_parallel,
        .bucket_bytes = amsp ? amsp_bucket_bytes : bucket_bytes,
        .engine = {.attention = attention_of(run->attention),
                   .gemm_format = format_of(run->precision),
                   .plain_norm = !run->fused_norm,
                   .compiled = run->compiled,
                   .logits_gathered = run->logits_gathered,
                   .async_tp = (run->overlap & REDCO_MEASURED_OVERLAP_TP) != 0,
                   .partial_recompute = run->recompute == REDCO_MEASURED_RECOMPUTE_HALF,
                   .layer_units = !fetches_modules(run->framework),
                   .shard_over_cp = run->cp > 1,
                   .gradient_bytes = run->grad_reduce_bytes,
                   .virtual_stages = run->virtual_pp},
    };
}

redco_status redco_evaluation_input_of(const redco_measured_run *run, redco_evaluation_input *input_out,
                                       redco_error *err)
{
    redco_evaluation_input input = {.workload = workload_of(run)};
    const char *const skip = redco_measured_skip(run);
    if (skip != NULL) { return redco_fail(err, REDCO_EVALUE, "use", "%s", skip); }
    if (run->experts > 0) { return redco_fail(err, REDCO_EVALUE, "experts", "mixtures of experts are not modelled"); }
    if (run->ep > 1) { return redco_fail(err, REDCO_EVALUE, "ep", "expert parallelism is not modelled"); }
    redco_status st = machine_of(run, &input.machine, err);
    if (st == REDCO_OK) { st = setting_of(run, &input, err); }
    if (st != REDCO_OK) { return st; }
    input.config.recompute = recompute_of(run);
    input.dims = (redco_model_dims){.hidden = run->hidden,
                                    .ffn = run->ffn_hidden,
                                    .layers = run->layers,
                                    .heads = run->heads,
                                    .kv_heads = run->kv_heads,
                                    .head_dim = run->head_dim,
                                    .vocab = run->vocab,
                                    .gated = run->ffn_gated,
                                    .tied = run->tied_embeddings};
    *input_out = input;
    return REDCO_OK;
}

static bool same_machine(const redco_machine *a, const redco_machine *b)
{
    return strcmp(a->name, b->name) == 0 && a->node_network_bytes_per_s == b->node_network_bytes_per_s &&
           a->node_gpus_physical == b->node_gpus_physical;
}

/* Rows of a sweep share a machine. */
static redco_status comm_of(redco_evaluations *all, const redco_machine *machine, const redco_comm **comm_out,
                            redco_error *err)
{
    for (size_t i = 0; i < all->comm_count; i++) {
        if (same_machine(&all->comms[i].machine, machine)) {
            *comm_out = all->comms[i].comm;
            return REDCO_OK;
        }
    }
    struct shared_comm *const larger = realloc(all->comms, (all->comm_count + 1) * sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    all->comms = larger;
    struct shared_comm *const slot = &all->comms[all->comm_count];
    *slot = (struct shared_comm){.machine = *machine};
    const redco_status st = redco_comm_create(machine, NULL, 0, &slot->comm, err);
    if (st != REDCO_OK) { return st; }
    all->comm_count++;
    *comm_out = slot->comm;
    return REDCO_OK;
}

static redco_status prepare(redco_evaluations *all, const redco_measured_run *run, const redco_calibration *constants,
                            struct evaluation *row, redco_error *err)
{
    const redco_comm *comm = NULL;
    redco_status st = redco_evaluation_input_of(run, &row->input, err);
    if (st == REDCO_OK) { st = redco_model_from_dims(&row->input.dims, run->model, &row->model, err); }
    if (st == REDCO_OK) { st = comm_of(all, &row->input.machine, &comm, err); }
    if (st == REDCO_OK) {
        st = redco_costs_create(&row->input.machine, row->model, &row->input.workload, constants, comm, &row->costs,
                                err);
    }
    if (st == REDCO_OK) { st = redco_setting_check(row->costs, &row->input.setting, err); }
    return st;
}

redco_status redco_evaluations_create(const redco_measured_run *const *runs, size_t count,
                                      redco_evaluations **evaluations_out, redco_error *err)
{
    redco_calibration constants;
    redco_evaluations *all = calloc(1, sizeof *all);
    redco_status st = redco_calibration_read("a100-eager", NULL, &constants, err); /* until the first prediction */
    if (st != REDCO_OK) { goto out; }
    if (all == NULL || (all->rows = calloc(count > 0 ? count : 1, sizeof *all->rows)) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    all->count = count;
    for (size_t i = 0; i < count; i++) {
        redco_error why = {.status = REDCO_OK};
        st = prepare(all, runs[i], &constants, &all->rows[i], &why);
        if (st == REDCO_EVALUE) { /* the row's fault */
            const bool use = strcmp(why.place, "use") == 0;
            (void)snprintf(all->rows[i].reason, sizeof all->rows[i].reason, "%.80s%s%.160s", use ? "" : why.place,
                           use ? "" : ": ", why.text);
            st = REDCO_OK;
        } else if (st != REDCO_OK) {
            st = redco_fail(err, st, why.place, "%s", why.text);
            goto out;
        }
    }
    *evaluations_out = all;
    all = NULL;
out:
    redco_evaluations_free(all);
    return st;
}

void redco_evaluations_free(redco_evaluations *evaluations)
{
    if (evaluations == NULL) { return; }
    for (size_t i = 0; i < evaluations->count; i++) {
        redco_costs_free(evaluations->rows[i].costs);
        redco_model_free(evaluations->rows[i].model);
    }
    for (size_t i = 0; i < evaluations->comm_count; i++) { redco_comm_free(evaluations->comms[i].comm); }
    free(evaluations->comms);
    free(evaluations->rows);
    free(evaluations);
}

const char *redco_evaluations_skip(const redco_evaluations *evaluations, size_t index)
{
    const char *const reason = evaluations->rows[index].reason;
    return reason[0] != '\0' ? reason : NULL;
}

const redco_evaluation_input *redco_evaluations_input(const redco_evaluations *evaluations, size_t index)
{
    return &evaluations->rows[index].input;
}

redco_costs *redco_evaluations_costs(redco_evaluations *evaluations, size_t index)
{
    return evaluations->rows[index].costs;
}

enum { CLASSES_MAX = 8 };

/* Every layer under the row's configuration, with these constants. */
static uint32_t assign(struct evaluation *row, const redco_calibration *calibration,
                       redco_assignment assignments[CLASSES_MAX])
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(row->model, &classes);
    redco_costs_recalibrate(row->costs, calibration);
    for (size_t i = 0; i < count && i < CLASSES_MAX; i++) {
        assignments[i] = (redco_assignment){(uint32_t)i, classes[i].layers, row->input.config};
    }
    return (uint32_t)count;
}

redco_prediction redco_evaluations_predict(redco_evaluations *evaluations, size_t index,
                                           const redco_calibration *calibration)
{
    struct evaluation *const row = &evaluations->rows[index];
    redco_assignment assignments[CLASSES_MAX];
    const uint32_t count = assign(row, calibration, assignments);
    return redco_cost_step(row->costs, &row->input.setting, assignments, count);
}

redco_status redco_evaluations_simulate(redco_evaluations *evaluations, size_t index,
                                        const redco_calibration *calibration, redco_simulation *simulation_out,
                                        redco_error *err)
{
    struct evaluation *const row = &evaluations->rows[index];
    redco_assignment assignments[CLASSES_MAX];
    const uint32_t count = assign(row, calibration, assignments);
    return redco_simulate(row->costs, &row->input.setting, assignments, count, NULL, simulation_out, err);
}

const char *redco_calibration_set(const redco_gpu *gpu, redco_software software, const char *framework)
{
    if (strcasecmp(gpu->arch, "Blackwell") == 0) { return "blackwell-te"; }
    if (strcasecmp(gpu->arch, "Hopper") == 0) {
        const bool fused = software == REDCO_SOFTWARE_TE_XLA;
        if (strncasecmp(gpu->name, "H200", 4) == 0) { return fused ? "h200-te" : "h200-eager"; }
        return fused ? "h100-te" : "h100-eager";
    }
    if (strncasecmp(gpu->name, "A800", 4) == 0 && strcmp(framework, "amsp") == 0) { return "a800-amsp"; }
    return software == REDCO_SOFTWARE_MEGATRON ? "a100-megatron" : "a100-eager";
}
