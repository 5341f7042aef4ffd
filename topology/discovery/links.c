/* Links between the GPUs of a node: checks a recorded matrix against the totals of the GPU type, and where nothing was
 * recorded (no NVML in hwloc, virtual machines) takes those that boards of that type have, with a warning. */
#include "topology/discovery/node_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rates that drivers report are nominal, so totals agree exactly or are wrong by a whole link. */
static const double tolerance = 0.02;

/* The type of all GPUs, or NULL where it is unknown or mixed. */
static const redco_gpu *common_type(const redco_node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        if (strcmp(node->gpus[i].preset, node->gpus[0].preset) != 0) { return NULL; }
    }
    return node->gpu_count > 0 ? redcoi_node_type(node, node->gpus[0].preset) : NULL;
}

static void fill_all(redco_node *node, double bytes_per_s)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        for (size_t j = i + 1; j < node->gpu_count; j++) { redcoi_node_set_link(node, i, j, bytes_per_s); }
    }
}

/* Each GPU's links in equal parts to the GPUs of its NUMA node and to the CPU: IBM 8335-GTB (Minsky) and AC922 boards
 * ("IBM Power System AC922 Introduction and Technical Overview", REDP-5472). */
static void fill_power(redco_node *node, double total_bytes_per_s)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        size_t together = 0;
        for (size_t j = 0; j < node->gpu_count; j++) { together += node->gpus[j].numa == node->gpus[i].numa; }
        for (size_t j = 0; j < node->gpu_count; j++) {
            if (i != j && node->gpus[j].numa == node->gpus[i].numa) {
                redcoi_node_set_link(node, i, j, total_bytes_per_s / (double)together);
            }
        }
    }
}

/* DGX-1V hybrid cube mesh: links between GPU pairs ("NVIDIA DGX-1 With Tesla V100 System Architecture", WP-08437-002).
 * Each row has the six links of a V100. */
static void fill_cube_mesh(redco_node *node, double per_link_bytes_per_s)
{
    static const unsigned char mesh[8][8] = {
        {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
        {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1}, {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
    };
    for (size_t i = 0; i < 8; i++) {
        for (size_t j = i + 1; j < 8; j++) { redcoi_node_set_link(node, i, j, mesh[i][j] * per_link_bytes_per_s); }
    }
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_bridged_part(const redco_gpu *gpu)
{
    return strstr(gpu->link, "bridge") != NULL;
}

/* NVSwitch came with the SXM3 boards; those of SXM2 joined GPUs directly. With up to 4 GPUs of NVLink 3 or 4 the HGX
 * boards are direct as well; NVLink 5 has none without switches. */
static bool switch_is_likely(const redco_node *node, const redco_gpu *gpu)
{
    if (node->switches > 0 || begins(gpu->link, "NVLink5") || strstr(gpu->name, "SXM3") != NULL) { return true; }
    return (begins(gpu->link, "NVLink3") || begins(gpu->link, "NVLink4")) && node->gpu_count > 4;
}

static void assume_direct(redco_node *node, const redco_gpu *gpu)
{
    const double total = gpu->scale_up_bytes_per_s;
    const char *how = "each GPU's links spread evenly over the others";
    if (node->cpu == REDCO_CPU_POWER) {
        fill_power(node, total);
        how = "each GPU's links spread over the GPUs of its NUMA node and the CPU (POWER board)";
    } else if (node->gpu_count == 8 && begins(gpu->link, "NVLink2")) {
        fill_cube_mesh(node, total / gpu->link_count);
        how = "the hybrid cube mesh of a DGX-1V";
    } else {
        fill_all(node, total / (double)(node->gpu_count - 1));
    }
    node->fabric = redco_node_link_group(node) > 1 ? REDCO_FABRIC_DIRECT : REDCO_FABRIC_PCIE;
    redcoi_node_warn(node, "no %s matrix was recorded; assumed from the GPU type %s: %s, %.4g GB/s per GPU",
                     begins(gpu->link, "NVLink") ? "NVLink" : gpu->link, gpu->name, how, total / 1e9);
}

static void assume(redco_node *node, const redco_gpu *gpu)
{
    if (gpu == NULL && node->switches > 0) {
        redcoi_node_warn(node, REDCOI_UNKNOWN_GPUS " the GPUs behind %u NVSwitch, or several types: no links assumed",
                         node->switches);
    }
    if (gpu == NULL || node->gpu_count < 2 || !(gpu->scale_up_bytes_per_s > 0.0)) { return; }
    if (is_bridged_part(gpu)) {
        redcoi_node_warn(node,
                         "no %s matrix was recorded; the type %s has links only where a bridge joins a pair, which "
                         "PCI does not show: none assumed",
                         begins(gpu->link, "NVLink") ? "NVLink" : "XGMI", gpu->name);
    } else if (switch_is_likely(node, gpu)) {
        fill_all(node, gpu->scale_up_bytes_per_s);
        node->fabric = REDCO_FABRIC_SWITCH;
        char seen[64] = "NVSwitch, as boards of that type have; none was seen";
        if (node->switches > 0) { (void)snprintf(seen, sizeof seen, "%u NVSwitch seen on PCI", node->switches); }
        redcoi_node_warn(
            node, "no NVLink matrix was recorded; assumed from the GPU type %s: any pair at %.4g GB/s (%s)%s",
            gpu->name, gpu->scale_up_bytes_per_s / 1e9, seen,
            begins(gpu->link, "NVLink4") ? "; hwloc before 2.12 drops the matrix of NVLink 4 and later" : "");
    } else {
        assume_direct(node, gpu);
    }
}

/* Links whose far end is unknown: neighbours in file order form pairs, as bridges do. */
static void assume_pairs(redco_node *node, const redco_gpu *gpu)
{
    if (gpu == NULL || !(gpu->scale_up_bytes_per_s > 0.0)) { return; }
    for (size_t i = 0; i + 1 < node->gpu_count; i += 2) {
        redcoi_node_set_link(node, i, i + 1, gpu->scale_up_bytes_per_s);
    }
    node->fabric = node->gpu_count > 1 ? REDCO_FABRIC_DIRECT : REDCO_FABRIC_PCIE;
    redcoi_node_warn(node,
                     "the nvlink elements name their own GPU as target; taken as bridges between neighbours "
                     "(GPU 0-1, 2-3, ...) at %.4g GB/s, the total of type %s",
                     gpu->scale_up_bytes_per_s / 1e9, gpu->name);
}

static double largest(const double *values, size_t count)
{
    double most = 0.0;
    for (size_t i = 0; i < count; i++) { most = fmax(most, values[i]); }
    return most;
}

/* Totals above the datasheet's: hwloc 2.3 to 2.11 doubles NVLink 3, and ROCm reports a nominal rate for each pair. */
static double correction(redco_node *node, const redco_gpu *gpu, const redcoi_links *recorded)
{
    const double most = largest(recorded->totals, node->gpu_count);
    if (gpu == NULL || !(gpu->scale_up_bytes_per_s > 0.0)) { return 1.0; }
    const double ratio = gpu->scale_up_bytes_per_s / most;
    if (ratio < 1.0 - tolerance) {
        const bool doubled = begins(gpu->link, "NVLink") && fabs(ratio - 0.5) < tolerance;
        redcoi_node_warn(node,
                         "%s gives %.4g GB/s per GPU, but type %s has %.4g GB/s (%s); used: the matrix scaled down to "
                         "%.4g GB/s per GPU",
                         recorded->name, most / 1e9, gpu->name, gpu->scale_up_bytes_per_s / 1e9,
                         doubled ? "hwloc before 2.12 doubles some NVLink rates" : "the rates look nominal",
                         gpu->scale_up_bytes_per_s / 1e9);
        return ratio;
    }
    size_t short_count = 0;
    double least = most;
    for (size_t i = 0; i < node->gpu_count; i++) {
        if (recorded->totals[i] < gpu->scale_up_bytes_per_s * (1.0 - tolerance)) { short_count++; }
        least = fmin(least, recorded->totals[i]);
    }
    if (short_count > 0) {
        redcoi_node_warn(
            node,
            "%s gives %zu of %zu GPUs less than the %.4g GB/s of type %s (down to %.4g GB/s): links that are "
            "down or not wired; used as recorded",
            recorded->name, short_count, node->gpu_count, gpu->scale_up_bytes_per_s / 1e9, gpu->name, least / 1e9);
    }
    return 1.0;
}

/* Links between GPUs in the matrix itself: those to CPUs and switches do not count. */
static bool has_pairs(const redcoi_links *recorded, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (i != j && recorded->matrix[i * count + j] > 0.0) { return true; }
        }
    }
    return false;
}

void redcoi_links_settle(redco_node *node, const redcoi_links *recorded)
{
    const redco_gpu *gpu = common_type(node);
    const size_t count = node->gpu_count;
    node->fabric = REDCO_FABRIC_PCIE;
    if (recorded->self_links) {
        assume_pairs(node, gpu);
        return;
    }
    if (recorded->matrix == NULL || !has_pairs(recorded, count)) {
        assume(node, gpu);
        return;
    }
    const double factor = correction(node, gpu, recorded);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            /* the slower direction, should a matrix not be symmetric */
            const double rate = fmin(recorded->matrix[i * count + j], recorded->matrix[j * count + i]);
            redcoi_node_set_link(node, i, j, rate * factor);
        }
    }
    node->fabric = recorded->switched ? REDCO_FABRIC_SWITCH : REDCO_FABRIC_DIRECT;
}

redco_status redcoi_links_rate(redco_node *node, const redco_gpu *gpu, redco_error *err)
{
    const double counted = node->link_bytes_per_s;
    double most = 0.0; /* links of a GPU */
    if (!(counted > 0.0)) { return REDCO_OK; }
    for (size_t i = 0; i < node->gpu_count; i++) {
        double links = 0.0;
        for (size_t j = 0; j < node->gpu_count; j++) {
            const double here = redco_node_link(node, i, j) / counted;
            links = node->fabric == REDCO_FABRIC_SWITCH ? fmax(links, here) : links + here;
        }
        most = fmax(most, links);
    }
    if (!node->links_even && most > gpu->link_count + tolerance) {
        return redco_fail(err, REDCO_EVALUE, node->name, "shows %.0f links of a GPU; a %s has %u", most, gpu->name,
                          gpu->link_count);
    }
    const double rate = gpu->scale_up_bytes_per_s / (node->links_even ? most : (double)gpu->link_count);
    for (size_t i = 0; i < node->gpu_count * node->gpu_count; i++) { node->links[i] *= rate / counted; }
    node->link_bytes_per_s = 0.0;
    return REDCO_OK;
}

redco_status redco_node_set_gpu(redco_node *node, const redco_gpu *gpu, redco_error *err)
{
    bool linked = false;
    if (node->gpu_count == 0) {
        return redco_fail(err, REDCO_EVALUE, node->name, "has no GPU that could be a %s", gpu->name);
    }
    for (size_t i = 0; i < node->gpu_count; i++) {
        const redco_node_gpu *known = &node->gpus[i];
        if (known->preset[0] != '\0' && strcmp(known->preset, gpu->name) != 0) {
            return redco_fail(err, REDCO_EVALUE, node->name, "GPU %zu is of type %s, not %s", i, known->preset,
                              gpu->name);
        }
        for (size_t j = 0; j < node->gpu_count; j++) { linked = linked || redco_node_link(node, i, j) > 0.0; }
    }
    redco_status st = redcoi_links_rate(node, gpu, err);
    if (st == REDCO_OK) { st = redcoi_node_add_type(node, gpu, err); }
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < node->gpu_count; i++) {
        redco_node_gpu *unknown = &node->gpus[i];
        memcpy(unknown->preset, gpu->name, sizeof unknown->preset);
        if (unknown->memory_bytes == 0) { unknown->memory_bytes = gpu->memory_bytes; }
        if (!(unknown->pcie_bytes_per_s > 0.0)) { unknown->pcie_bytes_per_s = gpu->pcie_bytes_per_s; }
    }
    redcoi_node_drop_warnings(node, REDCOI_UNKNOWN_GPUS);
    if (!linked) { redcoi_links_settle(node, &(redcoi_links){0}); }
    return REDCO_OK;
}
