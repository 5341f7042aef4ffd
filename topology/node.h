/** @file node.h  One kind of node: GPUs with NUMA node and PCIe switch, the link matrix, NICs. Readers: this machine
 * and hwloc XML (from_hwloc.c), NCCL topology XML (from_nccl.c), node JSON (node.c). */
#ifndef REDCO_NODE_H
#define REDCO_NODE_H

#include "topology/topology.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_node_gpu {
    char preset[48];       /**< name of the GPU preset, "" if the part is unknown */
    char model[64];        /**< as discovered, e.g. "Tesla V100-SXM3-32GB" */
    char os_name[32];      /**< "nvml0", "rsmi3", "" if only seen on PCI */
    char pci[16];          /**< "0000:3b:00.0", "" if unknown */
    uint32_t numa;         /**< OS index of the nearest NUMA node, UINT32_MAX if unknown */
    uint32_t pci_switch;   /**< equal for GPUs and NICs under one PCIe switch, UINT32_MAX if none */
    uint64_t memory_bytes; /**< discovered or of the preset */
} redco_node_gpu;

typedef struct redco_node_nic {
    char name[32]; /**< "mlx5_0" */
    char pci[16];
    double bytes_per_s; /**< 0 if unknown */
    uint32_t numa;
    uint32_t pci_switch;
    uint32_t nearest_gpu; /**< index, UINT32_MAX without GPUs */
} redco_node_nic;

/** This machine through hwloc when @p xml_path is NULL, else a recorded hwloc XML (1.x, 2.x) or NCCL topology XML
 *  (told apart by content). A node without GPUs is a node (redco-topo shows it); planning on it fails elsewhere. */
redco_status redco_node_discover(const char *xml_path, redco_node **node_out, redco_error *err);
/** Node JSON: {"format":"redco-node","version":1,...}, what redco-topo --json prints. */
redco_status redco_node_from_json(const redco_json_value *value, redco_node **node_out, redco_error *err);
/** Any of the above by content: '<' is XML, '{' is JSON. */
redco_status redco_node_read(const char *path, redco_node **node_out, redco_error *err);
/** @param gpu_count  that many equal GPUs, NICs spread evenly: how cluster files in short form make a node */
redco_status redco_node_uniform(const char *name, const redco_gpu *gpu, uint32_t gpu_count, redco_fabric fabric,
                                uint32_t link_group_gpus, uint32_t nic_count, double nic_bytes_per_s,
                                redco_cpu_vendor cpu, uint32_t host_count, redco_node **node_out, redco_error *err);
void redco_node_free(redco_node *node);

const char *redco_node_name(const redco_node *node);
size_t redco_node_gpus(const redco_node *node, const redco_node_gpu **gpus_out);
size_t redco_node_nics(const redco_node *node, const redco_node_nic **nics_out);
/** Scale-up rate between two GPUs, one direction, bytes/s; 0 without a link. Diagonal 0. */
double redco_node_link(const redco_node *node, size_t from, size_t to);
redco_fabric redco_node_fabric(const redco_node *node);
redco_cpu_vendor redco_node_cpu(const redco_node *node);
uint32_t redco_node_hosts(const redco_node *node);
/** GPUs that mutually reach one another at the best rate (all with NVSwitch, 2 with bridges, 1 without links). */
uint32_t redco_node_link_group(const redco_node *node);
/** The GPU type all GPUs share; mixed or unknown types are an error that names them. */
redco_status redco_node_gpu_type(const redco_node *node, redco_gpu *gpu_out, redco_error *err);
/** The @p index-th warning of discovery or NULL. */
const char *redco_node_warning(const redco_node *node, size_t index);
/** New reference; NULL when out of memory. */
json_t *redco_node_describe(const redco_node *node);

#ifdef __cplusplus
}
#endif
#endif
