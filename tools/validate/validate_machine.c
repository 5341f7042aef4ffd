/* Which machine a profile was measured on, from what its header and file name say. */
#include "costmodel/collectives/collective_nccl.h"
#include "tools/validate/validate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Typical nodes of a GPU: vendors' reference designs. */
struct known {
    const char *word; /* in the text, any case; the first that is found counts */
    const char *gpu;  /* preset */
    redco_fabric fabric;
    uint32_t gpus, joined, hosts; /* GPUs of a node; GPUs in a link group; hosts in a node */
    redco_cpu_vendor cpu;
    uint32_t nics; /* per node */
    double nic_gbit;
};

static const struct known known[] = {
    {"gb200", "GB200-per-GPU", REDCO_FABRIC_SWITCH, 72, 72, 18, REDCO_CPU_ARM, 72, 400},
    {"b200", "B200-SXM-180GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_INTEL, 8, 400},
    {"h200", "H200-SXM-141GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_INTEL, 8, 400},
    {"h800", "H800-SXM5-80GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_INTEL, 8, 400},
    {"h100_pairwise", "H100-PCIe-80GB", REDCO_FABRIC_DIRECT, 4, 2, 1, REDCO_CPU_AMD, 1, 100},
    {"4-gpu board", "H100-SXM5-80GB", REDCO_FABRIC_DIRECT, 4, 4, 1, REDCO_CPU_AMD, 2, 200},
    {"h100", "H100-SXM5-80GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_INTEL, 8, 400},
    {"a800", "A800-SXM4-80GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_AMD, 4, 200},
    {"a100_pairwise", "A100-PCIe-80GB", REDCO_FABRIC_DIRECT, 4, 2, 1, REDCO_CPU_AMD, 1, 100},
    {"a100", "A100-SXM4-80GB", REDCO_FABRIC_SWITCH, 8, 8, 1, REDCO_CPU_AMD, 8, 200},
    {"v100", "V100-SXM2-16GB", REDCO_FABRIC_DIRECT, 8, 8, 1, REDCO_CPU_INTEL, 4, 100},
    {"mi300x", "MI300X", REDCO_FABRIC_DIRECT, 8, 8, 1, REDCO_CPU_INTEL, 8, 400},
};

static bool contains(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* "8x ConnectX-7 400 Gb/s", "16x 100 Gb/s per node", "InfiniBand 400 Gb/s, 8 NICs per node". */
static bool network_in(const char *text, uint32_t *nics_out, double *gbit_out)
{
    const char *unit = strstr(text, " Gb/s");
    if (unit == NULL) { return false; }
    const char *number = unit;
    while (number > text && isdigit((unsigned char)number[-1])) { number--; }
    *gbit_out = strtod(number, NULL);
    for (const char *at = number; at > text && number - at < 24; at--) {
        if (at[0] == 'x' && isdigit((unsigned char)at[-1])) {
            const char *digits = at;
            while (digits > text && isdigit((unsigned char)digits[-1])) { digits--; }
            *nics_out = (uint32_t)strtoul(digits, NULL, 10);
            return *gbit_out > 0.0 && *nics_out > 0;
        }
    }
    const char *word = strstr(unit, " NICs");
    if (word == NULL) { return false; }
    while (word > unit && isdigit((unsigned char)word[-1])) { word--; }
    *nics_out = (uint32_t)strtoul(word, NULL, 10);
    return *gbit_out > 0.0 && *nics_out > 0;
}

static void settings_in(const char *text, struct validate_machine *out)
{
    static const struct {
        const char *word;
        uint32_t algorithms, protocols;
    } settings[] = {
        {"NCCL_ALGO=Ring", 1u << REDCO_NCCL_RING, 0},
        {"NCCL_ALGO=Tree", 1u << REDCO_NCCL_TREE, 0},
        {"NCCL_PROTO=LL128", 0, 1u << REDCO_NCCL_LL128},
        {"NCCL_PROTO=Simple", 0, 1u << REDCO_NCCL_SIMPLE},
        {"NCCL_NVLS_ENABLE=0", ~(1u << REDCO_NCCL_NVLS | 1u << REDCO_NCCL_NVLS_TREE), 0},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (!contains(text, settings[i].word)) { continue; }
        if (settings[i].algorithms != 0) {
            out->algorithms = out->algorithms != 0 ? out->algorithms & settings[i].algorithms : settings[i].algorithms;
        }
        if (settings[i].protocols != 0) { out->protocols = settings[i].protocols; }
    }
}

/* The run's ranks on nodes of this kind; a profile counts hosts. */
static bool place(const redco_profile_run *run, const struct known *node, redco_group *group_out)
{
    uint32_t nodes = run->nodes;
    if (nodes == 0 || node->hosts > 1) { nodes = (run->ranks + node->gpus - 1) / node->gpus; }
    if (run->ranks % nodes != 0 || run->ranks / nodes > node->gpus) { return false; }
    *group_out = (redco_group){.mesh = {.gpus = run->ranks / nodes, .nodes = nodes},
                               .stride = run->stride,
                               .groups_per_node = run->groups_per_node};
    return true;
}

static redco_machine machine_from(const struct known *node, const redco_gpu *gpu, uint32_t nodes, uint32_t nics,
                                  double nic_gbit)
{
    const double nic = nic_gbit / 8.0 * 1e9;
    return (redco_machine){
        .gpu = *gpu,
        .cpu = node->cpu,
        .nodes = nodes,
        .gpus_per_node = node->gpus,
        .node_gpus_physical = node->gpus,
        .hosts_per_node = node->hosts,
        .fabric = node->fabric,
        .link_group_gpus = node->joined,
        .scale_up_bytes_per_s = gpu->scale_up_bytes_per_s,
        .peer_bytes_per_s = gpu->pcie_bytes_per_s,
        .nics_per_node = nics,
        .nic_bytes_per_s = nic,
        .node_network_bytes_per_s = nics * nic,
        .oversubscription_ratio = 1.0,
    };
}

redco_status validate_deduce(const redco_profile_run *run, const char *path, bool *found_out,
                             struct validate_machine *out, redco_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *texts[] = {run->hardware, base};
    const struct known *node = NULL;
    for (size_t t = 0; t < 2 && node == NULL; t++) {
        for (size_t i = 0; i < sizeof known / sizeof known[0] && node == NULL; i++) {
            if (contains(texts[t], known[i].word)) { node = &known[i]; }
        }
    }
    *out = (struct validate_machine){.network_stated = false};
    *found_out = node != NULL && place(run, node, &out->group);
    if (!*found_out) { return REDCO_OK; }
    redco_gpu gpu = {0};
    const redco_status st = redco_gpu_find(node->gpu, &gpu, err);
    if (st != REDCO_OK) { return st; }
    uint32_t nics = node->nics;
    double nic_gbit = node->nic_gbit;
    const bool stated = network_in(run->network, &nics, &nic_gbit) || network_in(run->hardware, &nics, &nic_gbit);
    if (!stated) {
        nics = node->nics;
        nic_gbit = node->nic_gbit;
    }
    out->network_stated = stated || out->group.mesh.nodes == 1;
    out->machine = machine_from(node, &gpu, out->group.mesh.nodes, nics, nic_gbit);
    settings_in(run->tool, out);
    return REDCO_OK;
}
