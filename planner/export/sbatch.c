/* A Slurm batch script: the planned hosts in the planned order. sbatch sorts --nodelist by its own order of nodes, so
   the step is laid out by srun --distribution=arbitrary, which takes SLURM_HOSTFILE line by line (srun(1)); a task's
   rank there is the node rank that torchrun's static rendezvous keeps. */
#include "planner/export/internal.h"
#include "topology/base/hostlist.h"

#include <stdlib.h>

static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    (void)parallelism;
    (void)shards;
    return true;
}

static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    (void)parallelism;
    (void)shards;
    return wanted;
}

static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    (void)pipeline;
    (void)split;
    (void)layers;
    return true;
}

/* GPUs of a host to ask for: all of it where the plan chooses among them, so that their numbers are the host's. */
static uint32_t asked_gpus(const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    const uint32_t hosts = plan->hosts_per_node > 0 ? plan->hosts_per_node : 1;
    const uint32_t all = context->reopened->inputs.machine.node_gpus_physical / hosts;
    const uint32_t used = redcoi_gpus_per_host(plan);
    return plan->gpu_order != NULL && all > used ? all : used;
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_plan *plan = context->plan;
    json_t *hosts = json_array();
    for (uint32_t i = 0; i < plan->hosts_count; i++) {
        (void)json_array_append_new(hosts, json_string(plan->hosts[i]));
    }
    char *order = redcoi_gpu_order_text(plan);
    *config_out = json_pack("{s:I,s:I,s:I,s:o,s:o}", "nodes", (json_int_t)redcoi_hosts(plan), "gpus_per_node",
                            (json_int_t)asked_gpus(context), "ranks_per_node", (json_int_t)redcoi_gpus_per_host(plan),
                            "hosts", hosts, "gpu_order", order != NULL ? json_string(order) : json_null());
    free(order);
    if (plan->hosts_count == 0) {
        (void)json_array_append_new(
            context->notes, json_string("the cluster's description names no hosts: Slurm chooses and orders them"));
    }
    return *config_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

/* Letters that need no quoting anywhere. */
static void write_name(const char *name, FILE *stream)
{
    for (int i = 0; i < 60 && name[i] != '\0'; i++) {
        const char c = name[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
        (void)fputc(plain ? c : '-', stream);
    }
}

static redco_status write_head(const redcoi_context *context, FILE *stream, redco_error *err)
{
    const redco_plan *plan = context->plan;
    (void)fputs("#!/bin/bash\n", stream);
    (void)fputs("#SBATCH --job-name=redco-", stream);
    write_name(plan->model_name, stream);
    (void)fprintf(stream, "\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%u\n",
                  redcoi_hosts(plan), asked_gpus(context));
    if (asked_gpus(context) > redcoi_gpus_per_host(plan)) { (void)fputs("#SBATCH --exclusive\n", stream); }
    if (plan->hosts_count > 0) {
        char *list = redco_hostlist_compact((const char *const *)plan->hosts, plan->hosts_count);
        if (list == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        (void)fprintf(stream, "#SBATCH --nodelist=%s\n", list);
        free(list);
    }
    redcoi_write_header(context, "# ", "Slurm batch script", stream);
    (void)fputs("# sbatch THIS train.py ARGUMENT...          torchrun starts it on every GPU\n"
                "# sbatch THIS sh megatron.sh ARGUMENT...    any other command runs once per host, with NODE_RANK,\n"
                "#                                           MASTER_ADDR and MASTER_PORT set\n"
                "set -euo pipefail\n",
                stream);
    return REDCO_OK;
}

/* Sets layout, the options of srun that keep the order. */
static void write_order(const redco_plan *plan, FILE *stream)
{
    if (plan->hosts_count == 0) {
        (void)fputs("MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                    "layout=(--distribution=block)\n",
                    stream);
        return;
    }
    (void)fputs("# node ranks follow the plan's order, not Slurm's\n", stream);
    (void)fputs("hosts=(", stream);
    redcoi_write_hosts(plan, "\n    ", stream);
    (void)fputs("\n)\n"
                "SLURM_HOSTFILE=$(mktemp)\n"
                "export SLURM_HOSTFILE\n"
                "trap 'rm -f \"$SLURM_HOSTFILE\"' EXIT\n"
                "printf '%s\\n' \"${hosts[@]}\" >\"$SLURM_HOSTFILE\"\n"
                "MASTER_ADDR=${hosts[0]}\n"
                "layout=(--distribution=arbitrary)\n",
                stream);
}

/* Local rank i sees the GPU of place i. */
static void write_gpus(const redco_plan *plan, FILE *stream)
{
    char *order = redcoi_gpu_order_text(plan);
    if (order == NULL) { return; }
    (void)fprintf(stream, "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%s\n", order);
    free(order);
}

static redco_status write(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    const redco_plan *plan = context->plan;
    const uint32_t hosts = redcoi_hosts(plan);
    const redco_status st = write_head(context, stream, err);
    (void)config;
    if (st != REDCO_OK) { return st; }
    write_order(plan, stream);
    (void)fputs("MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}\n"
                "export MASTER_ADDR MASTER_PORT\n"
                ": \"${1:?what is to be run}\"\n",
                stream);
    (void)fprintf(stream, "srun --nodes=%u --ntasks=%u --kill-on-bad-exit=1 \"${layout[@]}\" bash -c '\n", hosts,
                  hosts);
    (void)fputs("export NODE_RANK=$SLURM_PROCID\n", stream);
    write_gpus(plan, stream);
    (void)fprintf(stream,
                  "case $1 in\n"
                  "*.py) exec torchrun --nnodes=%u --nproc-per-node=%u --node-rank=\"$NODE_RANK\" "
                  "--master-addr=\"$MASTER_ADDR\" --master-port=\"$MASTER_PORT\" \"$@\" ;;\n"
                  "*) exec \"$@\" ;;\n"
                  "esac' bash \"$@\"\n",
                  hosts, redcoi_gpus_per_host(plan));
    return REDCO_OK;
}

const redcoi_ability redcoi_sbatch = {
    .title = "Slurm",
    .source = "Slurm 22.05: sbatch(1), srun(1); PyTorch 2: torchrun",
    .pipeline = true,
    .context_parallel = true,
    .sequence_parallel = true,
    .layerwise = true,
    .launches = true,
    .any_command = true,
    .can_pipeline = can_pipeline,
    .recompute = REDCOI_RECOMPUTE_ANY,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = write,
};
