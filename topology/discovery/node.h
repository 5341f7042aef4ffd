/** @file node.h  One kind of node: GPUs with NUMA node and PCIe switch, the link matrix, NICs. Readers: this machine
 * and hwloc XML (from_hwloc.c), NCCL topology XML (from_nccl.c), tables of nvidia-smi, rocm-smi and amd-smi
 * (from_matrix.c), node JSON (node_json.c). */
#ifndef REDCO_NODE_H
#define REDCO_NODE_H

#include "topology/discovery/topology.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_node_gpu {
    char preset[48];         /**< name of the GPU type, a preset in most cases; "" if the part is unknown */
    char model[64];          /**< as discovered, e.g. "Tesla V100-SXM3-32GB" */
    char os_name[32];        /**< "nvml0", "rsmi3", "" if only seen on PCI */
    char pci[16];            /**< "0000:3b:00.0", "" if unknown */
    uint32_t numa;           /**< OS index of the nearest NUMA node, UINT32_MAX if unknown */
    uint32_t pci_switch;     /**< equal for GPUs and NICs under one PCIe switch, UINT32_MAX if none */
    uint32_t pci_root;       /**< equal for GPUs and NICs under one PCIe host bridge, UINT32_MAX if unknown */
    uint64_t memory_bytes;   /**< discovered or of the preset; 0 if unknown */
    double pcie_bytes_per_s; /**< rate of its slot, discovered or from the preset; 0 if unknown */
} redco_node_gpu;

typedef struct redco_node_nic {
    char name[32];  /**< "mlx5_0" */
    char model[48]; /**< "ConnectX-7", "" if unknown */
    char pci[16];
    double bytes_per_s; /**< 0 if unknown */
    uint32_t numa;
    uint32_t pci_switch;
    uint32_t pci_root;
    uint32_t nearest_gpu; /**< index, UINT32_MAX without GPUs */
} redco_node_nic;

typedef struct redco_node_numa {
    uint32_t index;        /**< the operating system's; need not be contiguous */
    uint32_t cpus;         /**< hardware threads; 0 if unknown */
    uint64_t memory_bytes; /**< 0 if unknown */
} redco_node_numa;

/** Path between two GPUs of a node, best first; the PCIe grades are those of nvidia-smi. */
typedef enum redco_path {
    REDCO_PATH_SELF,
    REDCO_PATH_SWITCH, /**< NVSwitch */
    REDCO_PATH_LINK,   /**< NVLink or Infinity Fabric from GPU to GPU */
    REDCO_PATH_PIX,    /**< one PCIe switch */
    REDCO_PATH_PHB,    /**< one PCIe host bridge */
    REDCO_PATH_NODE,   /**< one NUMA node */
    REDCO_PATH_SYS     /**< between NUMA nodes, or unknown */
} redco_path;

/** This machine through hwloc when @p xml_path is NULL, else a recorded hwloc XML (1.x to 3.x) or NCCL topology XML
 *  (known by content). A node without GPUs is a node (redco-topo shows it); planning on it fails elsewhere. */
redco_status redco_node_discover(const char *xml_path, redco_node **node_out, redco_error *err);
/** Node JSON: {"format":"redco-node","version":1,...}, what redco-topo --json prints. */
redco_status redco_node_from_json(const redco_json_value *value, redco_node **node_out, redco_error *err);
/** Any of the above by content, or a table of one of the three: '<' is XML, '{' is JSON. */
redco_status redco_node_read(const char *path, redco_node **node_out, redco_error *err);
/** The same; NCCL topology XML may describe several hosts, of which redco_node_read() takes the first.
 *  @param host  from 0 on, in order of appearance; REDCO_EVALUE if the file has no such host */
redco_status redco_node_read_host(const char *path, uint32_t host, redco_node **node_out, redco_error *err);
/** The same from memory. @param name  stands for the file in errors */
redco_status redco_node_parse(const char *text, size_t size, const char *name, uint32_t host, redco_node **node_out,
                              redco_error *err);
/** @param gpu_count        that many equal GPUs, NICs spread evenly: how cluster files in short form make a node
 *  @param link_group_gpus  GPUs joined by links (REDCO_FABRIC_DIRECT), each pair at an equal share of the GPU's
 *                          scale-up rate; divides @p gpu_count. 0 = all. Ignored with the other fabrics.
 *  @param host_count       hosts of the node, 1 but for racks; divides @p gpu_count */
redco_status redco_node_uniform(const char *name, const redco_gpu *gpu, uint32_t gpu_count, redco_fabric fabric,
                                uint32_t link_group_gpus, uint32_t nic_count, double nic_bytes_per_s,
                                redco_cpu_vendor cpu, uint32_t host_count, redco_node **node_out, redco_error *err);
void redco_node_free(redco_node *node);

/** Says what the GPUs of unknown type are (site files of NCCL name no part) and takes their links from @p gpu where
 *  none were found, or their rate where they were counted. @return REDCO_EVALUE if a GPU is known to be something else,
 *  has more links than that type, or there is none */
redco_status redco_node_set_gpu(redco_node *node, const redco_gpu *gpu, redco_error *err);

/** Says what the rate of each NIC of unknown rate is. @return REDCO_EVALUE if all are known */
redco_status redco_node_set_nic_rate(redco_node *node, double bytes_per_s, redco_error *err);

const char *redco_node_name(const redco_node *node);
size_t redco_node_gpus(const redco_node *node, const redco_node_gpu **gpus_out);
size_t redco_node_nics(const redco_node *node, const redco_node_nic **nics_out);
size_t redco_node_numas(const redco_node *node, const redco_node_numa **numas_out);
/** Scale-up rate between two GPUs, one direction, bytes/s; 0 without a link. Diagonal 0. */
double redco_node_link(const redco_node *node, size_t from, size_t to);
/** Says whether links were counted, and have no rate of their own until redco_node_set_gpu(): what is shown is assumed.
 */
bool redco_node_counts_links(const redco_node *node);
redco_fabric redco_node_fabric(const redco_node *node);
/** NVSwitches that were seen; 0 does not mean that there are none (virtual machines hide them). */
uint32_t redco_node_switches(const redco_node *node);
redco_path redco_node_path(const redco_node *node, size_t from, size_t to);
/** Rate between two GPUs on that path, one direction: the link's, else the slower of their PCIe slots (an upper bound
 *  where sockets are crossed); 0 if unknown. */
double redco_node_path_rate(const redco_node *node, size_t from, size_t to);
redco_cpu_vendor redco_node_cpu(const redco_node *node);
uint32_t redco_node_hosts(const redco_node *node);
/** GPUs joined by links, directly or through one another: all with NVSwitch, 2 with bridges, 1 without links. Where
 *  the node falls into unequal parts, the greatest common divisor of their sizes. */
uint32_t redco_node_link_group(const redco_node *node);
/** The rate at which one GPU can send to its link group: through NVSwitch the rate of any pair, else the sum over its
 *  links; the least over all GPUs that have links. 0 without links. */
double redco_node_scale_up(const redco_node *node);
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
