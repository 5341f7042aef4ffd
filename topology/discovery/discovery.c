/* From raw finds of a reader to a node: order, PCIe switches, NIC rates, nearest GPUs, GPU types. */
#include "topology/discovery/node_internal.h"
#include "topology/discovery/pci_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BRIDGES_MAX = 65536 };

/* Room for one more entry, doubling. */
static void *grown(void *array, size_t count, size_t entry_size)
{
    if (count != 0 && (count < 8 || (count & (count - 1)) != 0)) { return array; }
    return realloc(array, (count < 8 ? 8 : 2 * count) * entry_size);
}

static redco_status too_many(const redcoi_finds *finds, size_t max, const char *what, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, finds->source, "more than %zu %s; that is no single node", max, what);
}

redco_status redcoi_finds_bridge(redcoi_finds *finds, uint32_t parent, bool host, uint32_t *index_out, redco_error *err)
{
    if (finds->bridge_count >= BRIDGES_MAX) { return too_many(finds, BRIDGES_MAX, "PCI bridges", err); }
    redcoi_bridge *larger = grown(finds->bridges, finds->bridge_count, sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory"); }
    finds->bridges = larger;
    larger[finds->bridge_count] = (redcoi_bridge){.parent = parent, .host = host};
    *index_out = (uint32_t)finds->bridge_count++;
    return REDCO_OK;
}

redco_status redcoi_finds_gpu(redcoi_finds *finds, redcoi_found_gpu **gpu_out, redco_error *err)
{
    if (finds->gpu_count >= REDCOI_GPUS_MAX) { return too_many(finds, REDCOI_GPUS_MAX, "GPUs", err); }
    redcoi_found_gpu *larger = grown(finds->gpus, finds->gpu_count, sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory"); }
    finds->gpus = larger;
    larger[finds->gpu_count] =
        (redcoi_found_gpu){.bridge = UINT32_MAX, .found = finds->gpu_count, .gpu.numa = UINT32_MAX};
    *gpu_out = &larger[finds->gpu_count++];
    return REDCO_OK;
}

redco_status redcoi_finds_nic(redcoi_finds *finds, redcoi_found_nic **nic_out, redco_error *err)
{
    if (finds->nic_count >= REDCOI_NICS_MAX) { return too_many(finds, REDCOI_NICS_MAX, "NICs", err); }
    redcoi_found_nic *larger = grown(finds->nics, finds->nic_count, sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory"); }
    finds->nics = larger;
    larger[finds->nic_count] = (redcoi_found_nic){.bridge = UINT32_MAX, .nic.numa = UINT32_MAX};
    *nic_out = &larger[finds->nic_count++];
    return REDCO_OK;
}

redco_status redcoi_finds_numa(redcoi_finds *finds, const redco_node_numa *numa, redco_error *err)
{
    if (finds->numa_count >= REDCOI_NUMAS_MAX) { return too_many(finds, REDCOI_NUMAS_MAX, "NUMA nodes", err); }
    redco_node_numa *larger = grown(finds->numas, finds->numa_count, sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory"); }
    finds->numas = larger;
    larger[finds->numa_count++] = *numa;
    return REDCO_OK;
}

void redcoi_finds_clear(redcoi_finds *finds)
{
    free(finds->bridges);
    free(finds->gpus);
    free(finds->nics);
    free(finds->numas);
    free(finds->matrix);
    *finds = (redcoi_finds){0};
}

void redcoi_name_of_file(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    redcoi_text_copy(out, size, slash != NULL ? slash + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out) { *dot = '\0'; }
}

/* ---- parts ---- */

uint64_t redcoi_pci_slot(uint32_t domain, uint32_t bus, uint32_t device)
{
    return (uint64_t)domain << 16 | (uint64_t)(bus & 0xff) << 8 | (device & 0xff);
}

void redcoi_nic_identify(redcoi_found_nic *nic, uint32_t vendor, uint32_t device)
{
    redcoi_part part;
    if (!redcoi_part_find(vendor, device, &part) || part.kind != REDCOI_PART_NIC) { return; }
    redcoi_text_copy(nic->nic.model, sizeof nic->nic.model, part.name);
    nic->nic.bytes_per_s = part.gbit_per_s * 0.125e9;
    nic->virtual_function = part.virtual_function;
}

void redcoi_gpu_identify(redcoi_found_gpu *gpu, uint32_t vendor, uint32_t device, const char *driver_model)
{
    redcoi_part part;
    const bool known = redcoi_part_find(vendor, device, &part) && part.kind == REDCOI_PART_GPU;
    const char *preset = known ? part.preset : NULL;
    if (preset == NULL && driver_model != NULL) { preset = redcoi_preset_of_model(driver_model); }
    if (preset != NULL) { redcoi_text_copy(gpu->gpu.preset, sizeof gpu->gpu.preset, preset); }
    /* AMD's tools garble names ("deon Instinct MI50") or name the board; NVIDIA's are exact. */
    const bool trust_driver = driver_model != NULL && !(known && vendor == REDCOI_VENDOR_AMD);
    char numbers[32] = "";
    if (vendor != 0 && device != 0) {
        (void)snprintf(numbers, sizeof numbers, "unknown part %04x:%04x", vendor, device);
    }
    const char *model = trust_driver ? driver_model : known ? part.name : numbers;
    redcoi_text_copy(gpu->gpu.model, sizeof gpu->gpu.model, model);
    gpu->vendor = vendor;
}

/* ---- order ---- */

static int by_pci(const void *a, const void *b)
{
    const redcoi_found_gpu *left = a;
    const redcoi_found_gpu *right = b;
    const int order = strcmp(left->gpu.pci, right->gpu.pci);
    return order != 0 ? order : (left->found > right->found) - (left->found < right->found);
}

/* strverscmp: nvml2 before nvml10. */
static int by_os_name(const void *a, const void *b)
{
    const redcoi_found_gpu *left = a;
    const redcoi_found_gpu *right = b;
    const int order = strverscmp(left->gpu.os_name, right->gpu.os_name);
    return order != 0 ? order : by_pci(a, b);
}

static int by_nic_name(const void *a, const void *b)
{
    const redcoi_found_nic *left = a;
    const redcoi_found_nic *right = b;
    const int order = strverscmp(left->nic.name, right->nic.name);
    return order != 0 ? order : strcmp(left->nic.pci, right->nic.pci);
}

static int by_numa_index(const void *a, const void *b)
{
    const redco_node_numa *left = a;
    const redco_node_numa *right = b;
    return (left->index > right->index) - (left->index < right->index);
}

/* The driver's own order where one driver numbers all GPUs, else that of the bus. */
static void sort_gpus(redcoi_finds *finds)
{
    bool one_driver = finds->gpu_count > 0;
    for (size_t i = 0; i < finds->gpu_count; i++) {
        const char *name = finds->gpus[i].gpu.os_name;
        const char *first = finds->gpus[0].gpu.os_name;
        const size_t letters = strcspn(first, "0123456789");
        one_driver =
            one_driver && letters > 0 && strcspn(name, "0123456789") == letters && strncmp(name, first, letters) == 0;
    }
    if (finds->gpu_count > 1) {
        qsort(finds->gpus, finds->gpu_count, sizeof *finds->gpus, one_driver ? by_os_name : by_pci);
    }
}

/* ---- PCIe switches ---- */

struct spread {
    uint64_t slot; /* the first card below this bridge */
    bool used;
    bool many; /* several cards: traffic between them can turn around here */
};

static void mark_path(const redcoi_finds *finds, struct spread *spreads, uint32_t bridge, uint64_t slot)
{
    for (; bridge != UINT32_MAX; bridge = finds->bridges[bridge].parent) {
        struct spread *spread = &spreads[bridge];
        spread->many = spread->many || (spread->used && spread->slot != slot);
        spread->used = true;
        spread->slot = slot;
    }
}

/* Numbers in order of first use, so that they do not depend on bus numbers. */
static uint32_t numbered(uint32_t *numbers, uint32_t bridge, uint32_t *next)
{
    if (bridge == UINT32_MAX) { return UINT32_MAX; }
    if (numbers[bridge] == UINT32_MAX) { numbers[bridge] = (*next)++; }
    return numbers[bridge];
}

struct numbering {
    const redcoi_finds *finds;
    const struct spread *spreads;
    uint32_t *numbers;
    uint32_t switches, roots;
};

static void place(struct numbering *numbering, uint32_t bridge, uint32_t *switch_out, uint32_t *root_out)
{
    uint32_t nearest = UINT32_MAX;
    uint32_t root = UINT32_MAX;
    for (; bridge != UINT32_MAX; bridge = numbering->finds->bridges[bridge].parent) {
        const bool host = numbering->finds->bridges[bridge].host;
        if (!host && nearest == UINT32_MAX && numbering->spreads[bridge].many) { nearest = bridge; }
        if (host) { root = bridge; }
    }
    *switch_out = numbered(numbering->numbers, nearest, &numbering->switches);
    *root_out = numbered(numbering->numbers, root, &numbering->roots);
}

static redco_status place_devices(redcoi_finds *finds, redco_error *err)
{
    struct spread *spreads = calloc(finds->bridge_count + 1, sizeof *spreads);
    uint32_t *numbers = malloc((finds->bridge_count + 1) * sizeof *numbers);
    redco_status st = REDCO_OK;
    if (spreads == NULL || numbers == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory");
        goto out;
    }
    memset(numbers, 0xff, (finds->bridge_count + 1) * sizeof *numbers);
    for (size_t i = 0; i < finds->gpu_count; i++) {
        mark_path(finds, spreads, finds->gpus[i].bridge, finds->gpus[i].slot);
    }
    for (size_t i = 0; i < finds->nic_count; i++) {
        mark_path(finds, spreads, finds->nics[i].bridge, finds->nics[i].slot);
    }
    struct numbering numbering = {.finds = finds, .spreads = spreads, .numbers = numbers};
    for (size_t i = 0; i < finds->gpu_count; i++) {
        redcoi_found_gpu *found = &finds->gpus[i];
        place(&numbering, found->bridge, &found->gpu.pci_switch, &found->gpu.pci_root);
    }
    for (size_t i = 0; i < finds->nic_count; i++) {
        redcoi_found_nic *found = &finds->nics[i];
        place(&numbering, found->bridge, &found->nic.pci_switch, &found->nic.pci_root);
    }
out:
    free(spreads);
    free(numbers);
    return st;
}

/* ---- NICs ---- */

/* A physical NIC's virtual functions add no bandwidth beside it; alone (in a virtual machine) they are the NICs. */
static void drop_virtual_functions(redcoi_finds *finds)
{
    size_t kept = 0;
    for (size_t i = 0; i < finds->nic_count; i++) {
        bool beside_physical = false;
        for (size_t j = 0; finds->nics[i].virtual_function && j < finds->nic_count; j++) {
            const bool same_bus = finds->nics[i].slot >> 8 == finds->nics[j].slot >> 8;
            beside_physical = beside_physical || (same_bus && !finds->nics[j].virtual_function);
        }
        if (!beside_physical) { finds->nics[kept++] = finds->nics[i]; }
    }
    finds->nic_count = kept;
}

static bool same_port(const redcoi_found_nic *a, const redcoi_found_nic *b)
{
    return a->card[0] != '\0' && strcmp(a->card, b->card) == 0 && a->function == b->function;
}

/* A card with a slot at each socket (Mellanox Socket Direct, as in the AC922) shows every port once a socket. */
static void share_ports(redco_node *node, const redcoi_finds *finds)
{
    size_t shown_again = 0;
    char example[128] = "";
    for (size_t i = 0; i < finds->nic_count; i++) {
        size_t views = 0;
        size_t other = i;
        for (size_t j = 0; j < finds->nic_count; j++) {
            const bool view = j == i || same_port(&finds->nics[i], &finds->nics[j]);
            views += view;
            if (view && j != i) { other = j; }
        }
        if (views > 1 && shown_again++ == 0) {
            (void)snprintf(example, sizeof example, "%s and %s", node->nics[i].name, node->nics[other].name);
        }
        node->nics[i].bytes_per_s /= (double)views;
    }
    if (shown_again > 0) {
        redcoi_node_warn(node,
                         "%zu of %zu NICs are ports that a card shows to several sockets (%s): each counts its "
                         "share of the port",
                         shown_again, node->nic_count, example);
    }
}

/* The ports of one card share its PCIe slot. A rate far below the port's is a sleeping or emulated link, no limit. */
static void limit_nics(redco_node *node, const redcoi_finds *finds)
{
    size_t limited = 0;
    char example[256] = "";
    for (size_t i = 0; i < finds->nic_count; i++) {
        const redcoi_found_nic *found = &finds->nics[i];
        redco_node_nic *nic = &node->nics[i];
        size_t ports = 0;
        for (size_t j = 0; j < finds->nic_count; j++) { ports += finds->nics[j].slot == found->slot; }
        const double share = found->pcie_bytes_per_s / (double)ports;
        if (nic->pci[0] == '\0' || share >= nic->bytes_per_s || share < nic->bytes_per_s / 8.0) { continue; }
        if (limited++ == 0) {
            (void)snprintf(example, sizeof example,
                           "%s: a port of %.4g Gb/s behind %.4g GB/s of PCIe%s counts %.4g Gb/s", nic->name,
                           nic->bytes_per_s * 8e-9, found->pcie_bytes_per_s / 1e9,
                           ports > 1 ? ", shared with its card's other ports," : "", share * 8e-9);
        }
        nic->bytes_per_s = share;
    }
    if (limited > 0) { redcoi_node_warn(node, "PCIe limits %zu of %zu NICs (%s)", limited, node->nic_count, example); }
}

static void warn_unknown_nics(redco_node *node)
{
    size_t unknown = 0;
    const char *example = "";
    for (size_t i = 0; i < node->nic_count; i++) {
        if (node->nics[i].bytes_per_s > 0.0) { continue; }
        if (unknown++ == 0) { example = node->nics[i].name; }
    }
    if (unknown > 0) {
        redcoi_node_warn(node, REDCOI_UNKNOWN_NICS " %zu of %zu NICs (%s%s); say what it is: redco-topo --nic", unknown,
                         node->nic_count, example, unknown > 1 ? ", ..." : "");
    }
}

static unsigned nearness(const redco_node_gpu *gpu, const redco_node_nic *nic)
{
    if (gpu->pci_switch == nic->pci_switch && nic->pci_switch != UINT32_MAX) { return 3; }
    if (gpu->pci_root == nic->pci_root && nic->pci_root != UINT32_MAX) { return 2; }
    return gpu->numa == nic->numa && nic->numa != UINT32_MAX ? 1 : 0;
}

/* Takes, among equally near GPUs, the one that has fewest NICs so far, then the first. */
static void find_nearest_gpus(redco_node *node)
{
    uint32_t served[REDCOI_GPUS_MAX] = {0};
    for (size_t i = 0; i < node->nic_count; i++) {
        redco_node_nic *nic = &node->nics[i];
        size_t best = 0;
        for (size_t j = 1; j < node->gpu_count; j++) {
            const unsigned here = nearness(&node->gpus[j], nic);
            const unsigned there = nearness(&node->gpus[best], nic);
            if (here > there || (here == there && served[j] < served[best])) { best = j; }
        }
        nic->nearest_gpu = node->gpu_count > 0 ? (uint32_t)best : UINT32_MAX;
        if (node->gpu_count > 0) { served[best]++; }
    }
}

/* ---- GPUs ---- */

/* An idle GPU lowers its PCIe link to Gen 1, an eighth or less of what it has under load; a x8 slot is a half. */
static void wake_links(redco_node *node)
{
    size_t asleep = 0;
    double seen = 0.0;
    for (size_t i = 0; i < node->gpu_count; i++) {
        redco_node_gpu *gpu = &node->gpus[i];
        const redco_gpu *type = redcoi_node_type(node, gpu->preset);
        if (type == NULL || gpu->pcie_bytes_per_s * 3.0 >= type->pcie_bytes_per_s) { continue; }
        seen = gpu->pcie_bytes_per_s;
        gpu->pcie_bytes_per_s = type->pcie_bytes_per_s;
        asleep++;
    }
    if (asleep > 0) {
        redcoi_node_warn(node, "PCIe links of %zu GPUs at %.4g GB/s look asleep; used: the rate of their type", asleep,
                         seen / 1e9);
    }
}

static void warn_left_out(redco_node *node, const redcoi_finds *finds)
{
    if (finds->undriven_gpus > 0) {
        redcoi_node_warn(node, "PCI devices that look like GPUs but that no driver shows: %zu (%s%s), not counted",
                         finds->undriven_gpus, finds->undriven_pci, finds->undriven_gpus > 1 ? ", ..." : "");
    }
    if (finds->down_nics > 0) {
        redcoi_node_warn(node, "NICs without an active port: %zu (%s%s), not counted", finds->down_nics,
                         finds->down_nic, finds->down_nics > 1 ? ", ..." : "");
    }
}

/* Looks up the types; what the driver did not tell comes from the preset. */
static redco_status complete_gpus(redco_node *node, redco_error *err)
{
    size_t unknown = 0;
    const char *example = "";
    for (size_t i = 0; i < node->gpu_count; i++) {
        redco_node_gpu *gpu = &node->gpus[i];
        redco_gpu type = {0};
        if (gpu->preset[0] == '\0') {
            if (unknown++ == 0) { example = gpu->model; }
            continue;
        }
        const redco_gpu *known = redcoi_node_type(node, gpu->preset);
        redco_status st = REDCO_OK;
        if (known != NULL) {
            type = *known;
        } else if ((st = redco_gpu_find(gpu->preset, &type, err)) == REDCO_OK) {
            st = redcoi_node_add_type(node, &type, err);
        }
        if (st != REDCO_OK) { return st; }
        if (gpu->memory_bytes == 0) { gpu->memory_bytes = type.memory_bytes; }
        if (!(gpu->pcie_bytes_per_s > 0.0)) { gpu->pcie_bytes_per_s = type.pcie_bytes_per_s; }
        /* error correction and firmware take up to 8 % of some parts; less than 85 % is a part of a GPU */
        if ((double)gpu->memory_bytes < 0.85 * (double)type.memory_bytes) {
            redcoi_node_warn(node, "GPU %zu has %.4g GiB, the type %s %.4g GiB: a partition of a GPU?", i,
                             (double)gpu->memory_bytes / 0x1p30, type.name, (double)type.memory_bytes / 0x1p30);
        }
    }
    if (unknown > 0) {
        redcoi_node_warn(node, REDCOI_UNKNOWN_GPUS " %zu of %zu GPUs (%s); say what they are: redco-topo --gpu",
                         unknown, node->gpu_count, example[0] != '\0' ? example : "the file names no part");
    }
    return REDCO_OK;
}

static redco_status settle_links(redco_node *node, const redcoi_finds *finds, redco_error *err)
{
    const size_t count = finds->gpu_count;
    redcoi_links recorded = {
        .name = finds->matrix_name, .switched = finds->matrix_switched, .self_links = finds->self_links};
    double *matrix = NULL;
    double *totals = NULL;
    if (finds->matrix != NULL) {
        matrix = calloc(count * count + 1, sizeof *matrix);
        totals = calloc(count + 1, sizeof *totals);
        if (matrix == NULL || totals == NULL) {
            free(matrix);
            free(totals);
            return redco_fail(err, REDCO_ENOMEM, finds->source, "out of memory");
        }
        for (size_t i = 0; i < count; i++) {
            const size_t row = finds->gpus[i].found;
            totals[i] = finds->gpus[i].linked_total;
            for (size_t j = 0; j < count; j++) {
                matrix[i * count + j] = finds->matrix[row * count + finds->gpus[j].found];
            }
        }
        recorded.matrix = matrix;
        recorded.totals = totals;
    }
    redcoi_links_settle(node, &recorded);
    free(matrix);
    free(totals);
    return REDCO_OK;
}

redco_status redcoi_finds_node(redcoi_finds *finds, redco_node **node_out, redco_error *err)
{
    redco_node *node = NULL;
    drop_virtual_functions(finds);
    sort_gpus(finds);
    if (finds->nic_count > 1) { qsort(finds->nics, finds->nic_count, sizeof *finds->nics, by_nic_name); }
    if (finds->numa_count > 1) { qsort(finds->numas, finds->numa_count, sizeof *finds->numas, by_numa_index); }
    redco_status st = place_devices(finds, err);
    if (st != REDCO_OK) { goto out; }
    st = redcoi_node_create(finds->gpu_count, finds->nic_count, finds->numa_count, &node, err);
    if (st != REDCO_OK) { goto out; }
    redcoi_text_copy(node->name, sizeof node->name, finds->name);
    node->cpu = finds->cpu;
    node->switches = finds->switches;
    for (size_t i = 0; i < finds->gpu_count; i++) { node->gpus[i] = finds->gpus[i].gpu; }
    for (size_t i = 0; i < finds->nic_count; i++) { node->nics[i] = finds->nics[i].nic; }
    for (size_t i = 0; i < finds->numa_count; i++) { node->numas[i] = finds->numas[i]; }
    if ((st = complete_gpus(node, err)) != REDCO_OK) { goto out; }
    wake_links(node);
    if ((st = settle_links(node, finds, err)) != REDCO_OK) { goto out; }
    node->link_bytes_per_s = finds->link_bytes_per_s;
    node->links_even = finds->links_even;
    if (node->link_bytes_per_s > 0.0) {
        redcoi_node_warn(
            node, REDCOI_UNKNOWN_GPUS " %zu GPUs: each %s counts %.4g GB/s until it is said: redco-topo --gpu",
            node->gpu_count, node->links_even ? "XGMI link" : "of their NVLinks", node->link_bytes_per_s / 1e9);
    }
    warn_left_out(node, finds);
    share_ports(node, finds);
    limit_nics(node, finds);
    warn_unknown_nics(node);
    find_nearest_gpus(node);
    *node_out = node;
    node = NULL;
out:
    redco_node_free(node);
    return st;
}
