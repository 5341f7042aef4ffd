/** @file topology.h  GPUs, nodes and clusters: what is read from hwloc, NCCL XML, Slurm or a cluster file.
 *  Rates are bytes per second and one direction; 0 means absent. */
#ifndef REDCO_TOPOLOGY_H
#define REDCO_TOPOLOGY_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Vendor of a GPU, as far as anything depends on it. */
typedef enum redco_gpu_maker { REDCO_GPU_NVIDIA, REDCO_GPU_AMD, REDCO_GPU_OTHER } redco_gpu_maker;

/** One GPU type: a preset of topology/presets/gpus (every value there names its source). */
typedef struct redco_gpu {
    char name[48];               /**< e.g. "A800-SXM4-80GB" */
    char vendor[16];             /**< "NVIDIA", "AMD", "Google" */
    char arch[16];               /**< "Ampere", "Hopper", ... */
    uint32_t compute_capability; /**< 80 for 8.0; 0 where it does not apply */
    double fp16_flops_per_s;     /**< dense matrix peak; 0 = not supported (likewise below) */
    double bf16_flops_per_s;
    double fp8_flops_per_s;
    double fp4_flops_per_s;
    double tf32_flops_per_s;
    double fp32_flops_per_s;
    uint64_t memory_bytes; /**< physical, as sold: an "80 GB" part has 80 GiB */
    double memory_bandwidth_bytes_per_s;
    char link[24];               /**< "NVLink3", "NVLink3-bridge", "InfinityFabric", "none" */
    uint32_t link_count;         /**< links per GPU */
    double scale_up_bytes_per_s; /**< sum of its links */
    double pcie_bytes_per_s;     /**< its PCIe slot */
    uint32_t pcie_gen;
    double tdp_w;
    double idle_w;         /**< with a context, nothing running; 0 = not known */
    redco_gpu_maker maker; /**< these follow from vendor and link */
    bool nvlink, bridged;  /**< bridged: its links join GPUs directly, without a switch */
} redco_gpu;

/** Finds a GPU preset by name (case-insensitive), or reads the GPU file of that path; an unknown name lists the
 * nearest.
 */
redco_status redco_gpu_find(const char *name, redco_gpu *gpu_out, redco_error *err);
/** The same, or by what its driver calls it: "NVIDIA RTX A6000", "A6000". */
redco_status redco_gpu_find_any(const char *name, redco_gpu *gpu_out, redco_error *err);
/** The engine whose steps are planned on a GPU or a cluster unless the user says (costmodel/engines/engine.h), and
 * why. */
typedef struct redco_default_engine {
    char name[32];
    char reason[200];
} redco_default_engine;
/** The engine that the GPU's preset names; redco-exec for processors; else plain PyTorch FSDP. */
void redco_gpu_engine(const redco_gpu *gpu, redco_default_engine *engine_out);

/** The preset of the part that a driver calls so ("NVIDIA H200"); static, NULL if there is none. */
const char *redco_gpu_of_model(const char *model);
/** Says whether it stands for ranks on processors, as redco-profile and netns-cluster describe them (vendor "host"):
 * their collectives are redco's own, and rates are what there is for data, not what a data sheet says. */
bool redco_gpu_is_host(const redco_gpu *gpu);
/** Reads {"format":"redco-gpu","version":1,...}: each value {"value":"312 TFLOP/s","source":"..."} or bare. */
redco_status redco_gpu_from_json(const redco_json_value *value, redco_gpu *gpu_out, redco_error *err);

typedef enum redco_cpu_vendor {
    REDCO_CPU_UNKNOWN,
    REDCO_CPU_INTEL,
    REDCO_CPU_AMD,
    REDCO_CPU_ARM,
    REDCO_CPU_POWER
} redco_cpu_vendor;

/** Connection between the GPUs of a node. */
typedef enum redco_fabric {
    REDCO_FABRIC_PCIE,   /**< through PCIe and the CPU only */
    REDCO_FABRIC_DIRECT, /**< point-to-point links (bridges, hybrid meshes, XGMI) */
    REDCO_FABRIC_SWITCH  /**< NVSwitch: any pair at full rate */
} redco_fabric;

/** One kind of node (= one NVLink domain; a GB200 NVL72 rack is one node of 18 hosts). Opaque; see node.h for the
 *  builder and getters. */
typedef struct redco_node redco_node;

/** The GPUs of a node that are not alike are ordered up to this many (12 has the most divisors, 6). */
enum { REDCO_ORDER_GPUS = 16, REDCO_ORDERS = 6 };

/** Which GPU of its node a rank takes, for one tensor-parallel degree: gpus[i] for place i, tp fastest. */
typedef struct redco_gpu_order {
    uint32_t tp;
    uint32_t gpus[REDCO_ORDER_GPUS];
} redco_gpu_order;

/** Facts about a cluster that the cost model needs, flattened: plain values, no ownership. */
typedef struct redco_machine {
    char name[64];
    redco_gpu gpu;
    redco_cpu_vendor cpu;
    uint32_t nodes;              /**< in use */
    uint32_t gpus_per_node;      /**< in use; nodes * gpus_per_node = all GPUs */
    uint32_t node_gpus_physical; /**< GPUs in the whole node, >= gpus_per_node: they share the NICs */
    uint32_t hosts_per_node;     /**< 1, or e.g. 18 for an NVL72 rack */
    redco_fabric fabric;
    uint32_t link_group_gpus;    /**< GPUs that reach one another at scale_up rate: all with NVSwitch, 2 with
                                      bridges, 1 without links */
    double scale_up_bytes_per_s; /**< per GPU, inside a link group */
    double peer_bytes_per_s;     /**< per GPU between link groups of one node (PCIe) */
    uint32_t nics_per_node;
    double nic_bytes_per_s;          /**< per NIC */
    double node_network_bytes_per_s; /**< nics_per_node * nic_bytes_per_s */
    uint32_t nodes_per_leaf;         /**< 0: not known, taken as one leaf */
    double oversubscription_ratio;   /**< leaf down-link over up-link rate, >= 1 */
    uint32_t whole_node_gpus;        /**< GPUs of a node for a job that uses all of it; 0 = node_gpus_physical */
    uint32_t most_nodes;             /**< whole nodes that one job can have; 0 = not known */
    double network_latency_s;        /**< extra one-way latency of the network beyond NCCL's own, >= 0 */
    uint32_t order_count;            /**< 0: the GPUs of a node are alike (gpu_order.h) */
    redco_gpu_order orders[REDCO_ORDERS];
    double links_bytes_per_s[REDCO_ORDER_GPUS][REDCO_ORDER_GPUS]; /**< with orders: between the GPUs of a node */
} redco_machine;

/** GPUs of a node that links join, whose divisors are the tensor-parallel degrees that stay inside: all where a node
 * has no links at all, and so no faster group to stay inside. */
static inline uint32_t redco_machine_domain(const redco_machine *machine)
{
    const uint32_t linked = machine->link_group_gpus > 1 ? machine->link_group_gpus : machine->gpus_per_node;
    return linked < machine->gpus_per_node ? linked : machine->gpus_per_node;
}

#ifdef __cplusplus
}
#endif
#endif
