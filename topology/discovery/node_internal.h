/** @file node_internal.h  Shared by the files of one node: the type itself, and the raw finds of a reader before they
 *  become a node. Not a public header. */
#ifndef REDCO_NODE_INTERNAL_H
#define REDCO_NODE_INTERNAL_H

#include "topology/discovery/node.h"

enum {
    REDCOI_GPUS_MAX = 1024, /* GPUs of one node: far above a rack; keeps the matrix small */
    REDCOI_NICS_MAX = 1024,
    REDCOI_NUMAS_MAX = 4096,
    REDCOI_WARNINGS_MAX = 64
};

/* Warnings that go when the user says what the file did not: how they begin. */
#define REDCOI_UNKNOWN_GPUS "unknown type of"
#define REDCOI_UNKNOWN_NICS "unknown rate of"

struct redco_node {
    char name[64];
    redco_cpu_vendor cpu;
    redco_fabric fabric;
    uint32_t hosts;
    uint32_t switches;
    redco_gpu *types; /* every GPU type that some gpus[].preset names */
    size_t type_count;
    redco_node_gpu *gpus;
    size_t gpu_count;
    redco_node_nic *nics;
    size_t nic_count;
    redco_node_numa *numas;
    size_t numa_count;
    double *links;           /* [gpu_count][gpu_count], symmetric, bytes/s one direction; NULL without GPUs */
    double link_bytes_per_s; /* assumed of each, until the type is told: links were counted; 0: rates are known */
    bool links_even;         /* then: the type's rate is spread over as many as a GPU has */
    char **warnings;
    size_t warning_count;
};

redco_status redcoi_node_create(size_t gpus, size_t nics, size_t numas, redco_node **node_out, redco_error *err);
/** Adds the type unless one of that name is there. */
redco_status redcoi_node_add_type(redco_node *node, const redco_gpu *gpu, redco_error *err);
const redco_gpu *redcoi_node_type(const redco_node *node, const char *name);
/** Beyond REDCOI_WARNINGS_MAX, or out of memory, a warning is dropped. */
__attribute__((format(printf, 2, 3))) void redcoi_node_warn(redco_node *node, const char *format, ...);
void redcoi_node_drop_warnings(redco_node *node, const char *beginning);
/** Sets both directions. */
void redcoi_node_set_link(redco_node *node, size_t a, size_t b, double bytes_per_s);

/** Copies at most size - 1 bytes; what is not printable UTF-8 becomes '?'. Outer spaces go. */
void redcoi_text_copy(char *to, size_t size, const char *from);
/** Rounded to whole units (below 1000: to millionths); whole numbers are JSON integers, so that they read back
 *  exactly. */
json_t *redcoi_json_rate(double value);

/** "engine": {"value", "source"} of a GPU's or a cluster's file. */
redco_status redcoi_engine_read(const redco_json_value *object, redco_default_engine *engine_out, redco_error *err);

json_t *redcoi_gpu_describe(const redco_gpu *gpu);
redco_status redcoi_gpu_from_si(const redco_json_value *value, redco_gpu *gpu_out, redco_error *err);

/* ---- raw finds (discovery.c) ---- */

/** A PCI bridge. */
typedef struct redcoi_bridge {
    uint32_t parent; /* UINT32_MAX at the top; parents come before children */
    bool host;       /* a host bridge, not a PCI one */
} redcoi_bridge;

typedef struct redcoi_found_gpu {
    redco_node_gpu gpu;
    uint32_t bridge; /* index, UINT32_MAX if none */
    uint64_t slot;   /* domain, bus and device: functions of one card share it */
    uint32_t vendor;
    size_t found;        /* order of discovery, row of the matrix */
    double linked_total; /* over all its links, to GPUs, switches and CPUs; bytes/s */
} redcoi_found_gpu;

typedef struct redcoi_found_nic {
    redco_node_nic nic;
    uint32_t bridge;
    uint64_t slot;
    uint32_t function;       /* PCI function: which port of the card */
    char card[24];           /* SysImageGUID, by which ports know that they sit on one card; "" if unknown */
    double pcie_bytes_per_s; /* 0 if unknown */
    bool virtual_function;
} redcoi_found_nic;

typedef struct redcoi_finds {
    char name[64];
    const char *source; /* name of the file, for errors */
    redco_cpu_vendor cpu;
    uint32_t switches;
    redcoi_bridge *bridges;
    size_t bridge_count;
    redcoi_found_gpu *gpus;
    size_t gpu_count;
    redcoi_found_nic *nics;
    size_t nic_count;
    redco_node_numa *numas;
    size_t numa_count;
    double *matrix;          /* [gpu_count][gpu_count] by order of discovery; NULL: none was recorded */
    const char *matrix_name; /* "NVLinkBandwidth"; static */
    bool matrix_switched;    /* pairs go through NVSwitch */
    double link_bytes_per_s; /* the matrix counts links, of this assumed rate; 0: it has rates */
    bool links_even;         /* counted links are the type's, spread evenly */
    bool self_links;         /* links whose far end the file does not name: bridges between neighbours */
    size_t undriven_gpus;    /* look like GPUs on PCI, but the driver that shows others does not show these */
    char undriven_pci[16];
    size_t down_nics; /* no port is active: left out */
    char down_nic[32];
} redcoi_finds;

redco_status redcoi_finds_bridge(redcoi_finds *finds, uint32_t parent, bool host, uint32_t *index_out,
                                 redco_error *err);
/** New zeroed entries, with unknown places set to UINT32_MAX; borrowed until the next call. */
redco_status redcoi_finds_gpu(redcoi_finds *finds, redcoi_found_gpu **gpu_out, redco_error *err);
redco_status redcoi_finds_nic(redcoi_finds *finds, redcoi_found_nic **nic_out, redco_error *err);
redco_status redcoi_finds_numa(redcoi_finds *finds, const redco_node_numa *numa, redco_error *err);
/** "folder/name.xml" -> "name" */
void redcoi_name_of_file(const char *path, char *out, size_t size);
/** One number for the card at that address; its functions share it. */
/** Reads the key "pci" of a GPU file. @param id  "10de:2330", or NULL
 *  @param name  set to the part's name where the file has that id */
redco_status redcoi_gpu_pci_read(const redco_json_value *gpu, const char *id, char *name, size_t size,
                                 redco_error *err);
uint64_t redcoi_pci_slot(uint32_t domain, uint32_t bus, uint32_t device);
/** Name of the part, rate of its ports. @p vendor, @p device 0 if unknown */
void redcoi_nic_identify(redcoi_found_nic *nic, uint32_t vendor, uint32_t device);
/** Type and model by PCI id, else by the driver's model name. @p driver_model may be NULL */
void redcoi_gpu_identify(redcoi_found_gpu *gpu, uint32_t vendor, uint32_t device, const char *driver_model);
void redcoi_finds_clear(redcoi_finds *finds);
/** Orders, numbers and completes the finds: PCIe switches, NIC shares, nearest GPUs, links. */
redco_status redcoi_finds_node(redcoi_finds *finds, redco_node **node_out, redco_error *err);

/** Recorded links of a node's GPUs, in the order of the node. */
typedef struct redcoi_links {
    const double *matrix; /* NULL: nothing */
    const double *totals; /* per GPU, with links to switches and CPUs */
    const char *name;     /* name of the matrix */
    bool switched;
    bool self_links;
} redcoi_links;
/** Checks a recorded matrix against the GPU types, or assumes links from them where there is none (links.c). */
void redcoi_links_settle(redco_node *node, const redcoi_links *recorded);
/** Gives counted links the rate of the type. @return REDCO_EVALUE if GPUs of that type have not so many */
redco_status redcoi_links_rate(redco_node *node, const redco_gpu *gpu, redco_error *err);

/* ---- readers ---- */
redco_status redcoi_node_from_live(redco_node **node_out, redco_error *err);
/** @param text  hwloc XML that redcoi_xml_check() put into hwloc's own form */
redco_status redcoi_node_from_hwloc_xml(const char *text, size_t size, const char *name, redco_node **node_out,
                                        redco_error *err);
/** The same in a child process with limits of memory and time: there is XML on which hwloc crashes (hwloc_apart.c). */
redco_status redcoi_node_from_hwloc_apart(const char *text, size_t size, const char *name, redco_node **node_out,
                                          redco_error *err);
/** Release of the hwloc that was compiled against. */
const char *redcoi_hwloc_release(void);
/** @param host  which of the hosts that the file describes, in order of appearance */
redco_status redcoi_node_from_nccl(const char *text, size_t size, const char *name, uint32_t host,
                                   redco_node **node_out, redco_error *err);
/** Says whether the first lines look like a table of nvidia-smi, rocm-smi or amd-smi. */
bool redcoi_is_matrix(const char *text, size_t size);
redco_status redcoi_node_from_matrix(const char *text, size_t size, const char *name, redco_node **node_out,
                                     redco_error *err);
/** REDCO_EVALUE: a file that can describe only one host has no host @p host. */
redco_status redcoi_one_host(const char *name, uint32_t host, redco_error *err);

typedef enum redcoi_xml_kind { REDCOI_XML_HWLOC, REDCOI_XML_NCCL } redcoi_xml_kind;
/** Is this XML, and which? Refuses what neither reader could use. hwloc XML comes back in hwloc's own form: its
 *  built-in parser is line-based and knows no comments, and it would explain itself on standard error. Format 3 becomes
 *  format 2, and what no node is made of is left out.
 *  @param hwloc_text_out  REDCOI_XML_HWLOC: to be freed */
redco_status redcoi_xml_check(const char *text, size_t size, const char *name, redcoi_xml_kind *kind_out,
                              char **hwloc_text_out, size_t *hwloc_size_out, redco_error *err);

#endif
