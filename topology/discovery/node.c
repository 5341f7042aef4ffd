#include "topology/base/text.h"
#include "topology/discovery/node_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

redco_status redcoi_node_create(size_t gpus, size_t nics, size_t numas, redco_node **node_out, redco_error *err)
{
    redco_node *node = calloc(1, sizeof *node);
    if (node == NULL) { return redco_fail(err, REDCO_ENOMEM, "node", "out of memory"); }
    node->hosts = 1;
    node->gpu_count = gpus;
    node->nic_count = nics;
    node->numa_count = numas;
    node->gpus = calloc(gpus + 1, sizeof *node->gpus);
    node->nics = calloc(nics + 1, sizeof *node->nics);
    node->numas = calloc(numas + 1, sizeof *node->numas);
    node->links = calloc(gpus * gpus + 1, sizeof *node->links);
    if (node->gpus == NULL || node->nics == NULL || node->numas == NULL || node->links == NULL) {
        redco_node_free(node);
        return redco_fail(err, REDCO_ENOMEM, "node", "out of memory");
    }
    *node_out = node;
    return REDCO_OK;
}

void redco_node_free(redco_node *node)
{
    if (node == NULL) { return; }
    for (size_t i = 0; i < node->warning_count; i++) { free(node->warnings[i]); }
    free(node->warnings);
    free(node->types);
    free(node->gpus);
    free(node->nics);
    free(node->numas);
    free(node->links);
    free(node);
}

const redco_gpu *redcoi_node_type(const redco_node *node, const char *name)
{
    for (size_t i = 0; i < node->type_count; i++) {
        if (strcmp(node->types[i].name, name) == 0) { return &node->types[i]; }
    }
    return NULL;
}

redco_status redcoi_node_add_type(redco_node *node, const redco_gpu *gpu, redco_error *err)
{
    if (redcoi_node_type(node, gpu->name) != NULL) { return REDCO_OK; }
    redco_gpu *larger = realloc(node->types, (node->type_count + 1) * sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, node->name, "out of memory"); }
    larger[node->type_count] = *gpu;
    node->types = larger;
    node->type_count++;
    return REDCO_OK;
}

void redcoi_node_warn(redco_node *node, const char *format, ...)
{
    char text[768];
    va_list args;
    if (node->warning_count >= REDCOI_WARNINGS_MAX) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char **larger = realloc(node->warnings, (node->warning_count + 1) * sizeof *larger);
    if (larger == NULL) { return; }
    node->warnings = larger;
    char *copy = malloc(sizeof text);
    if (copy == NULL) { return; }
    redcoi_text_copy(copy, sizeof text, text);
    node->warnings[node->warning_count++] = copy;
}

void redcoi_node_set_link(redco_node *node, size_t a, size_t b, double bytes_per_s)
{
    node->links[a * node->gpu_count + b] = bytes_per_s;
    node->links[b * node->gpu_count + a] = bytes_per_s;
}

void redcoi_text_copy(char *to, size_t size, const char *from)
{
    size_t used = 0;
    from += strspn(from, " ");
    while (*from != '\0') {
        size_t taken = 0;
        const char *shown = redco_text_next(&from, &taken);
        if (used + taken >= size) { break; }
        memcpy(to + used, shown, taken);
        used += taken;
    }
    while (used > 0 && to[used - 1] == ' ') { used--; }
    to[used] = '\0';
}

redco_status redco_node_uniform(const char *name, const redco_gpu *gpu, uint32_t gpu_count, redco_fabric fabric,
                                uint32_t link_group_gpus, uint32_t nic_count, double nic_bytes_per_s,
                                redco_cpu_vendor cpu, uint32_t host_count, redco_node **node_out, redco_error *err)
{
    redco_node *node = NULL;
    const bool linked = fabric != REDCO_FABRIC_PCIE;
    const uint32_t group = fabric == REDCO_FABRIC_DIRECT && link_group_gpus > 0 ? link_group_gpus : gpu_count;
    if (gpu_count == 0 || gpu_count > REDCOI_GPUS_MAX || nic_count > REDCOI_NICS_MAX) {
        return redco_fail(err, REDCO_EVALUE, name, "%u GPUs and %u NICs; a node has 1 to %d GPUs and at most %d NICs",
                          gpu_count, nic_count, REDCOI_GPUS_MAX, REDCOI_NICS_MAX);
    }
    if (host_count == 0 || gpu_count % host_count != 0 || gpu_count % group != 0) {
        return redco_fail(err, REDCO_EVALUE, name, "%u GPUs; they must fill %u hosts and link groups of %u evenly",
                          gpu_count, host_count, group);
    }
    if (!isfinite(nic_bytes_per_s) || nic_bytes_per_s < 0.0) {
        return redco_fail(err, REDCO_EVALUE, name, "NIC rate %g bytes/s; it must be 0 or more", nic_bytes_per_s);
    }
    if (linked && gpu_count > 1 && !(gpu->scale_up_bytes_per_s > 0.0)) {
        return redco_fail(err, REDCO_EVALUE, name, "%s has no links; its fabric is PCIe", gpu->name);
    }
    redco_status st = redcoi_node_create(gpu_count, nic_count, 0, &node, err);
    if (st == REDCO_OK) { st = redcoi_node_add_type(node, gpu, err); }
    if (st != REDCO_OK) {
        redco_node_free(node);
        return st;
    }
    redcoi_text_copy(node->name, sizeof node->name, name);
    node->cpu = cpu;
    node->hosts = host_count;
    node->fabric = linked && group > 1 ? fabric : REDCO_FABRIC_PCIE;
    for (uint32_t i = 0; i < gpu_count; i++) {
        node->gpus[i] = (redco_node_gpu){.numa = UINT32_MAX, .pci_switch = UINT32_MAX, .pci_root = UINT32_MAX};
        memcpy(node->gpus[i].preset, gpu->name, sizeof node->gpus[i].preset);
        node->gpus[i].memory_bytes = gpu->memory_bytes;
        node->gpus[i].pcie_bytes_per_s = gpu->pcie_bytes_per_s;
    }
    for (uint32_t i = 0; i < nic_count; i++) {
        redco_node_nic *nic = &node->nics[i];
        *nic = (redco_node_nic){.numa = UINT32_MAX, .pci_switch = UINT32_MAX, .pci_root = UINT32_MAX};
        (void)snprintf(nic->name, sizeof nic->name, "nic%u", i);
        nic->bytes_per_s = nic_bytes_per_s;
        nic->nearest_gpu = (uint32_t)((uint64_t)i * gpu_count / nic_count);
    }
    const double pair = fabric == REDCO_FABRIC_DIRECT ? gpu->scale_up_bytes_per_s / (group > 1 ? group - 1 : 1)
                                                      : gpu->scale_up_bytes_per_s;
    for (uint32_t i = 0; node->fabric != REDCO_FABRIC_PCIE && i < gpu_count; i++) {
        for (uint32_t j = i + 1; j < gpu_count; j++) {
            if (i / group == j / group) { redcoi_node_set_link(node, i, j, pair); }
        }
    }
    *node_out = node;
    return REDCO_OK;
}

void redcoi_node_drop_warnings(redco_node *node, const char *beginning)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->warning_count; i++) {
        if (strncmp(node->warnings[i], beginning, strlen(beginning)) == 0) {
            free(node->warnings[i]);
        } else {
            node->warnings[kept++] = node->warnings[i];
        }
    }
    node->warning_count = kept;
}

redco_status redco_node_set_nic_rate(redco_node *node, double bytes_per_s, redco_error *err)
{
    size_t unknown = 0;
    if (!isfinite(bytes_per_s) || !(bytes_per_s > 0.0)) {
        return redco_fail(err, REDCO_EVALUE, node->name, "NIC rate %g bytes/s; it must be above 0", bytes_per_s);
    }
    for (size_t i = 0; i < node->nic_count; i++) {
        if (node->nics[i].bytes_per_s > 0.0) { continue; }
        node->nics[i].bytes_per_s = bytes_per_s;
        unknown++;
    }
    if (unknown == 0) {
        return redco_fail(err, REDCO_EVALUE, node->name, "the rates of all its %zu NICs are known", node->nic_count);
    }
    redcoi_node_drop_warnings(node, REDCOI_UNKNOWN_NICS);
    return REDCO_OK;
}

const char *redco_node_name(const redco_node *node)
{
    return node->name;
}

size_t redco_node_gpus(const redco_node *node, const redco_node_gpu **gpus_out)
{
    *gpus_out = node->gpus;
    return node->gpu_count;
}

size_t redco_node_nics(const redco_node *node, const redco_node_nic **nics_out)
{
    *nics_out = node->nics;
    return node->nic_count;
}

size_t redco_node_numas(const redco_node *node, const redco_node_numa **numas_out)
{
    *numas_out = node->numas;
    return node->numa_count;
}

double redco_node_link(const redco_node *node, size_t from, size_t to)
{
    return from < node->gpu_count && to < node->gpu_count ? node->links[from * node->gpu_count + to] : 0.0;
}

bool redco_node_counts_links(const redco_node *node)
{
    return node->link_bytes_per_s > 0.0;
}

redco_fabric redco_node_fabric(const redco_node *node)
{
    return node->fabric;
}

uint32_t redco_node_switches(const redco_node *node)
{
    return node->switches;
}

static bool same(uint32_t a, uint32_t b)
{
    return a == b && a != UINT32_MAX;
}

redco_path redco_node_path(const redco_node *node, size_t from, size_t to)
{
    if (from == to) { return REDCO_PATH_SELF; }
    if (from >= node->gpu_count || to >= node->gpu_count) { return REDCO_PATH_SYS; }
    const redco_node_gpu *a = &node->gpus[from];
    const redco_node_gpu *b = &node->gpus[to];
    if (redco_node_link(node, from, to) > 0.0) {
        return node->fabric == REDCO_FABRIC_SWITCH ? REDCO_PATH_SWITCH : REDCO_PATH_LINK;
    }
    if (same(a->pci_switch, b->pci_switch)) { return REDCO_PATH_PIX; }
    if (same(a->pci_root, b->pci_root)) { return REDCO_PATH_PHB; }
    return same(a->numa, b->numa) ? REDCO_PATH_NODE : REDCO_PATH_SYS;
}

double redco_node_path_rate(const redco_node *node, size_t from, size_t to)
{
    if (from >= node->gpu_count || to >= node->gpu_count || from == to) { return 0.0; }
    const double link = redco_node_link(node, from, to);
    return link > 0.0 ? link : fmin(node->gpus[from].pcie_bytes_per_s, node->gpus[to].pcie_bytes_per_s);
}

redco_cpu_vendor redco_node_cpu(const redco_node *node)
{
    return node->cpu;
}

uint32_t redco_node_hosts(const redco_node *node)
{
    return node->hosts;
}

/* Marks all GPUs that links join to @p start. @return how many */
static size_t mark_component(const redco_node *node, size_t start, bool *seen, size_t *queue)
{
    size_t count = 0;
    queue[count++] = start;
    seen[start] = true;
    for (size_t at = 0; at < count; at++) {
        for (size_t j = 0; j < node->gpu_count; j++) {
            if (!seen[j] && redco_node_link(node, queue[at], j) > 0.0) {
                seen[j] = true;
                queue[count++] = j;
            }
        }
    }
    return count;
}

uint32_t redco_node_link_group(const redco_node *node)
{
    bool seen[REDCOI_GPUS_MAX] = {false};
    size_t queue[REDCOI_GPUS_MAX];
    size_t divisor = 0;
    for (size_t i = 0; i < node->gpu_count; i++) {
        if (seen[i]) { continue; }
        size_t size = mark_component(node, i, seen, queue);
        while (size != 0) { /* Euclid */
            const size_t rest = divisor % size;
            divisor = size;
            size = rest;
        }
    }
    return divisor > 0 ? (uint32_t)divisor : 1;
}

double redco_node_scale_up(const redco_node *node)
{
    double least = 0.0;
    for (size_t i = 0; i < node->gpu_count; i++) {
        double rate = 0.0;
        for (size_t j = 0; j < node->gpu_count; j++) {
            const double link = redco_node_link(node, i, j);
            rate = node->fabric == REDCO_FABRIC_SWITCH ? fmax(rate, link) : rate + link;
        }
        if (rate > 0.0 && (least == 0.0 || rate < least)) { least = rate; }
    }
    return least;
}

redco_status redco_node_gpu_type(const redco_node *node, redco_gpu *gpu_out, redco_error *err)
{
    if (node->gpu_count == 0) { return redco_fail(err, REDCO_EVALUE, node->name, "has no GPU"); }
    for (size_t i = 0; i < node->gpu_count; i++) {
        const redco_node_gpu *gpu = &node->gpus[i];
        if (gpu->preset[0] == '\0') {
            const char *seen_as = gpu->model[0] != '\0' ? gpu->model : "a part that the file does not name";
            return redco_fail(err, REDCO_EVALUE, node->name,
                              "GPU %zu (%s) is %s, for which there is no GPU preset; redco-topo --gpu says what it is",
                              i, gpu->pci[0] != '\0' ? gpu->pci : gpu->os_name, seen_as);
        }
        if (strcmp(gpu->preset, node->gpus[0].preset) != 0) {
            return redco_fail(err, REDCO_EVALUE, node->name,
                              "GPU 0 is of type %s, GPU %zu of type %s; GPUs of one type are needed",
                              node->gpus[0].preset, i, gpu->preset);
        }
    }
    const redco_gpu *type = redcoi_node_type(node, node->gpus[0].preset);
    if (type == NULL) {
        return redco_fail(err, REDCO_EVALUE, node->name, "GPU type %s is not described", node->gpus[0].preset);
    }
    *gpu_out = *type;
    return REDCO_OK;
}

const char *redco_node_warning(const redco_node *node, size_t index)
{
    return index < node->warning_count ? node->warnings[index] : NULL;
}
