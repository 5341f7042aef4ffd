#include "tools/report/topo_print.h"

#include "topology/base/units.h"

#include <stdlib.h>
#include <string.h>

/* A wider table is no table: 16 columns of 7 and the row names stay below 120. */
enum { COLUMNS_MAX = 16, ROOMY_COLUMNS_MAX = 8 };

struct view {
    FILE *out;
    const redco_node *node;
    const redco_node_gpu *gpus;
    size_t gpu_count;
    const redco_node_nic *nics;
    size_t nic_count;
    const redco_node_numa *numas;
    size_t numa_count;
    int os_name_width;
};

static const char *cpu_name(redco_cpu_vendor cpu)
{
    switch (cpu) {
    case REDCO_CPU_INTEL: return "Intel";
    case REDCO_CPU_AMD: return "AMD";
    case REDCO_CPU_ARM: return "Arm";
    case REDCO_CPU_POWER: return "POWER";
    case REDCO_CPU_UNKNOWN: break;
    }
    return "unknown processors";
}

static const char *gpu_name(const redco_node_gpu *gpu)
{
    if (gpu->preset[0] != '\0') { return gpu->preset; }
    return gpu->model[0] != '\0' ? gpu->model : "unknown GPU";
}

static double gib(uint64_t bytes)
{
    return (double)bytes / 0x1p30;
}

static const char *rate_text(double bytes_per_s, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, bytes_per_s > 0.0 ? "%.4g Gb/s" : "rate unknown", bytes_per_s * 8e-9);
    return buffer;
}

/* ---- the tree ---- */

static void print_gpu(const struct view *view, size_t index, const char *indent, bool last)
{
    const redco_node_gpu *gpu = &view->gpus[index];
    /* in columns also with 16 GPUs */
    (void)fprintf(view->out, "%s%s GPU %-*zu", indent, last ? "└─" : "├─", view->gpu_count > 10 ? 2 : 1, index);
    if (view->os_name_width > 0) { (void)fprintf(view->out, "  %-*s", view->os_name_width, gpu->os_name); }
    (void)fprintf(view->out, "  %s", gpu_name(gpu));
    if (gpu->memory_bytes > 0) { (void)fprintf(view->out, "  %.4g GiB", gib(gpu->memory_bytes)); }
    if (gpu->pci[0] != '\0') { (void)fprintf(view->out, "  %s", gpu->pci); }
    if (gpu->pcie_bytes_per_s > 0.0) { (void)fprintf(view->out, "  PCIe %.3g GB/s", gpu->pcie_bytes_per_s / 1e9); }
    (void)fputc('\n', view->out);
}

static void print_nic(const struct view *view, size_t index, const char *indent, bool last)
{
    char rate[32];
    const redco_node_nic *nic = &view->nics[index];
    (void)fprintf(view->out, "%s%s NIC %s", indent, last ? "└─" : "├─", nic->name);
    if (nic->model[0] != '\0') { (void)fprintf(view->out, "  %s", nic->model); }
    (void)fprintf(view->out, "  %s", rate_text(nic->bytes_per_s, rate, sizeof rate));
    if (nic->pci[0] != '\0' && strcmp(nic->pci, nic->name) != 0) { (void)fprintf(view->out, "  %s", nic->pci); }
    if (nic->nearest_gpu != UINT32_MAX) { (void)fprintf(view->out, "  nearest GPU %u", nic->nearest_gpu); }
    (void)fputc('\n', view->out);
}

/* Devices of one place: those under `pci_switch` in NUMA node `numa`. */
struct place {
    uint32_t numa, pci_switch;
};

static bool is_gpu_at(const struct view *view, size_t i, struct place place)
{
    return view->gpus[i].numa == place.numa && view->gpus[i].pci_switch == place.pci_switch;
}

static bool is_nic_at(const struct view *view, size_t i, struct place place)
{
    return view->nics[i].numa == place.numa && view->nics[i].pci_switch == place.pci_switch;
}

static size_t count_at(const struct view *view, struct place place)
{
    size_t count = 0;
    for (size_t i = 0; i < view->gpu_count; i++) { count += is_gpu_at(view, i, place); }
    for (size_t i = 0; i < view->nic_count; i++) { count += is_nic_at(view, i, place); }
    return count;
}

static void print_devices(const struct view *view, struct place place, const char *indent, bool more_follow)
{
    size_t left = count_at(view, place);
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (is_gpu_at(view, i, place)) { print_gpu(view, i, indent, --left == 0 && !more_follow); }
    }
    for (size_t i = 0; i < view->nic_count; i++) {
        if (is_nic_at(view, i, place)) { print_nic(view, i, indent, --left == 0 && !more_follow); }
    }
}

/* The next switch number above `after` with devices in that NUMA node, UINT32_MAX if none. */
static uint32_t next_switch(const struct view *view, uint32_t numa, int64_t after)
{
    uint32_t next = UINT32_MAX;
    for (size_t i = 0; i < view->gpu_count; i++) {
        const redco_node_gpu *gpu = &view->gpus[i];
        if (gpu->numa == numa && (int64_t)gpu->pci_switch > after && gpu->pci_switch < next) { next = gpu->pci_switch; }
    }
    for (size_t i = 0; i < view->nic_count; i++) {
        const redco_node_nic *nic = &view->nics[i];
        if (nic->numa == numa && (int64_t)nic->pci_switch > after && nic->pci_switch < next) { next = nic->pci_switch; }
    }
    return next;
}

static void print_numa(const struct view *view, uint32_t numa, const char *indent)
{
    char deeper[64];
    uint32_t at = next_switch(view, numa, -1);
    print_devices(view, (struct place){numa, UINT32_MAX}, indent, at != UINT32_MAX);
    while (at != UINT32_MAX) {
        const uint32_t next = next_switch(view, numa, at);
        const bool last = next == UINT32_MAX;
        (void)fprintf(view->out, "%s%s PCIe switch %u\n", indent, last ? "└─" : "├─", at);
        (void)snprintf(deeper, sizeof deeper, "%s%s  ", indent, last ? " " : "│");
        print_devices(view, (struct place){numa, at}, deeper, false);
        at = next;
    }
}

static bool has_unplaced(const struct view *view)
{
    bool unplaced = false;
    for (size_t i = 0; i < view->gpu_count; i++) { unplaced = unplaced || view->gpus[i].numa == UINT32_MAX; }
    for (size_t i = 0; i < view->nic_count; i++) { unplaced = unplaced || view->nics[i].numa == UINT32_MAX; }
    return unplaced;
}

static void print_tree(const struct view *view)
{
    const bool unplaced = has_unplaced(view);
    for (size_t i = 0; i < view->numa_count; i++) {
        const redco_node_numa *numa = &view->numas[i];
        const bool last = i + 1 == view->numa_count && !unplaced;
        (void)fprintf(view->out, "%s NUMA node %u", last ? "└─" : "├─", numa->index);
        if (numa->cpus > 0) {
            (void)fprintf(view->out, "  %u hardware thread%s", numa->cpus, numa->cpus > 1 ? "s" : "");
        }
        if (numa->memory_bytes > 0) { (void)fprintf(view->out, "  %.4g GiB", gib(numa->memory_bytes)); }
        (void)fputc('\n', view->out);
        print_numa(view, numa->index, last ? "   " : "│  ");
    }
    if (unplaced) { print_numa(view, UINT32_MAX, ""); }
}

/* ---- the table ---- */

struct path_word {
    const char *word, *letter, *meaning;
};

static struct path_word word_of(redco_path path)
{
    switch (path) {
    case REDCO_PATH_SELF: break;
    case REDCO_PATH_SWITCH: return (struct path_word){"NVS", "s", "NVSwitch"};
    case REDCO_PATH_LINK: return (struct path_word){"LNK", "l", "direct link"};
    case REDCO_PATH_PIX: return (struct path_word){"PIX", "x", "one PCIe switch"};
    case REDCO_PATH_PHB: return (struct path_word){"PHB", "h", "one PCIe host bridge"};
    case REDCO_PATH_NODE: return (struct path_word){"NODE", "n", "one NUMA node"};
    case REDCO_PATH_SYS: return (struct path_word){"SYS", "y", "between NUMA nodes"};
    }
    return (struct path_word){"-", "-", ""};
}

static void write_cell(const struct view *view, size_t i, size_t j, bool roomy, char *cell, size_t size)
{
    char rate[16] = "?";
    const double bytes_per_s = redco_node_path_rate(view->node, i, j);
    const struct path_word word = word_of(redco_node_path(view->node, i, j));
    if (i == j) {
        (void)snprintf(cell, size, roomy ? "-     " : "-");
        return;
    }
    if (bytes_per_s > 0.0) { (void)snprintf(rate, sizeof rate, "%.3g", bytes_per_s / 1e9); }
    if (roomy) {
        (void)snprintf(cell, size, "%s %-5s", rate, word.word);
    } else {
        (void)snprintf(cell, size, "%s%s", rate, word.letter);
    }
}

static void print_legend(const struct view *view, bool roomy)
{
    bool seen[REDCO_PATH_SYS + 1] = {false};
    const char *separator = "";
    for (size_t i = 0; i < view->gpu_count; i++) {
        for (size_t j = 0; j < view->gpu_count; j++) { seen[redco_node_path(view->node, i, j)] = true; }
    }
    for (redco_path path = REDCO_PATH_SWITCH; path <= REDCO_PATH_SYS; path++) {
        const struct path_word word = word_of(path);
        if (!seen[path]) { continue; }
        (void)fprintf(view->out, "%s%s %s", separator, roomy ? word.word : word.letter, word.meaning);
        separator = " · ";
    }
    if (seen[REDCO_PATH_PIX] || seen[REDCO_PATH_PHB] || seen[REDCO_PATH_NODE] || seen[REDCO_PATH_SYS]) {
        (void)fprintf(view->out, " (of PCIe: the slower slot's rate, at most)");
    }
    (void)fputc('\n', view->out);
}

struct row {
    char text[8 + COLUMNS_MAX * 16];
    size_t used;
};

static void start_row(struct row *row, const char *name)
{
    row->used = (size_t)snprintf(row->text, sizeof row->text, "%-6s", name);
}

static void add_cell(struct row *row, const char *cell, int width)
{
    const int added = snprintf(row->text + row->used, sizeof row->text - row->used, "%*s", width, cell);
    if (added > 0 && (size_t)added < sizeof row->text - row->used) { row->used += (size_t)added; }
}

static void end_row(const struct view *view, struct row *row)
{
    while (row->used > 0 && row->text[row->used - 1] == ' ') { row->used--; }
    (void)fprintf(view->out, "%.*s\n", (int)row->used, row->text);
}

static void print_table(const struct view *view)
{
    struct row row;
    const bool roomy = view->gpu_count <= ROOMY_COLUMNS_MAX;
    const int width = roomy ? 11 : 7;
    char cell[32];
    if (view->gpu_count < 2) { return; }
    (void)fprintf(view->out, "\nGPU to GPU, GB/s each way\n");
    if (view->gpu_count > COLUMNS_MAX) {
        (void)fprintf(view->out, "(a table of %zu GPUs is too wide; --json has every pair)\n", view->gpu_count);
        print_legend(view, true);
        return;
    }
    start_row(&row, "");
    for (size_t j = 0; j < view->gpu_count; j++) {
        (void)snprintf(cell, sizeof cell, roomy ? "GPU %zu  " : "%zu", j);
        add_cell(&row, cell, width);
    }
    end_row(view, &row);
    for (size_t i = 0; i < view->gpu_count; i++) {
        (void)snprintf(cell, sizeof cell, "GPU %zu", i);
        start_row(&row, cell);
        for (size_t j = 0; j < view->gpu_count; j++) {
            write_cell(view, i, j, roomy, cell, sizeof cell);
            add_cell(&row, cell, width);
        }
        end_row(view, &row);
    }
    print_legend(view, roomy);
}

/* ---- head and summary ---- */

static void print_gpu_kinds(const struct view *view)
{
    for (size_t i = 0; i < view->gpu_count; i++) {
        const char *name = gpu_name(&view->gpus[i]);
        size_t count = 0;
        bool first = true;
        for (size_t j = 0; j < view->gpu_count; j++) {
            const bool equal = strcmp(gpu_name(&view->gpus[j]), name) == 0;
            count += equal;
            first = first && !(equal && j < i);
        }
        if (first) { (void)fprintf(view->out, " · %zu × %s", count, name); }
    }
    if (view->gpu_count == 0) { (void)fprintf(view->out, " · no GPU"); }
}

static double network_rate(const struct view *view)
{
    double sum = 0.0;
    for (size_t i = 0; i < view->nic_count; i++) { sum += view->nics[i].bytes_per_s; }
    return sum;
}

static void print_head(const struct view *view)
{
    char rate[32];
    const uint32_t hosts = redco_node_hosts(view->node);
    (void)fprintf(view->out, "%s · %s", redco_node_name(view->node), cpu_name(redco_node_cpu(view->node)));
    if (view->numa_count > 0) {
        (void)fprintf(view->out, ", %zu NUMA node%s", view->numa_count, view->numa_count > 1 ? "s" : "");
    }
    if (hosts > 1) { (void)fprintf(view->out, " · %u hosts", hosts); }
    print_gpu_kinds(view);
    if (view->nic_count > 0) {
        (void)fprintf(view->out, " · %zu NIC%s, %s", view->nic_count, view->nic_count > 1 ? "s" : "",
                      rate_text(network_rate(view), rate, sizeof rate));
    } else {
        (void)fprintf(view->out, " · no RDMA NIC");
    }
    (void)fputc('\n', view->out);
}

static void print_summary(const struct view *view)
{
    const uint32_t switches = redco_node_switches(view->node);
    const uint32_t group = redco_node_link_group(view->node);
    const double per_gpu = redco_node_scale_up(view->node) / 1e9;
    if (view->gpu_count == 0) { return; }
    (void)fprintf(view->out, "\nlinks    ");
    switch (redco_node_fabric(view->node)) {
    case REDCO_FABRIC_SWITCH:
        if (switches > 0) { (void)fprintf(view->out, "%u ", switches); }
        (void)fprintf(view->out, "NVSwitch: any pair of %zu GPUs at %.4g GB/s each way\n", view->gpu_count, per_gpu);
        break;
    case REDCO_FABRIC_DIRECT:
        (void)fprintf(view->out, "from GPU to GPU: groups of %u, %.4g GB/s per GPU each way\n", group, per_gpu);
        break;
    case REDCO_FABRIC_PCIE: (void)fprintf(view->out, "none: PCIe only\n"); break;
    }
    if (view->nic_count > 0 && network_rate(view) > 0.0) {
        (void)fprintf(view->out, "network  %.4g GB/s each way in all, %.4g GB/s per GPU\n", network_rate(view) / 1e9,
                      network_rate(view) / 1e9 / (double)view->gpu_count);
    }
}

void topo_print(FILE *out, const redco_node *node)
{
    struct view view = {.out = out, .node = node};
    view.gpu_count = redco_node_gpus(node, &view.gpus);
    view.nic_count = redco_node_nics(node, &view.nics);
    view.numa_count = redco_node_numas(node, &view.numas);
    for (size_t i = 0; i < view.gpu_count; i++) {
        const int length = (int)strlen(view.gpus[i].os_name);
        if (length > view.os_name_width) { view.os_name_width = length; }
    }
    print_head(&view);
    print_tree(&view);
    print_table(&view);
    print_summary(&view);
}
