/* The machine of a measured row through the reader of cluster files, against the derivation that went before it,
 * written out here: of every row of traces/data and ../shared/measured. */
#include "costmodel/evaluation/row_cluster.h"
#include "topology/discovery/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Independent of the code under test: a rack is the largest number of hosts, 18 at most, that divides the job's. */
static uint32_t oracle_domain(const redco_measured_run *run)
{
    uint32_t best = run->gpus_per_node < run->n_gpus ? run->gpus_per_node : run->n_gpus;
    if (strncasecmp(run->gpu, "GB200", 5) != 0 && strncasecmp(run->gpu, "GB300", 5) != 0) { return best; }
    for (uint32_t hosts = 1; hosts * run->gpus_per_node <= 72; hosts++) {
        if (run->n_gpus % (hosts * run->gpus_per_node) == 0) { best = hosts * run->gpus_per_node; }
    }
    return best;
}

static redco_machine oracle(const redco_measured_run *run, const redco_gpu *gpu)
{
    const uint32_t domain = oracle_domain(run);
    const uint32_t physical = domain > run->gpus_per_node ? domain : run->gpus_per_node;
    const double network = run->node_network_bytes_per_s * physical / run->gpus_per_node;
    const double whole = round(network / (gpu->compute_capability >= 90 ? 50e9 : 25e9));
    const uint32_t ports = whole < 1.0 ? 1 : whole < physical ? (uint32_t)whole : physical;
    const bool linked = gpu->scale_up_bytes_per_s > 0.0;
    const bool bridged = strstr(gpu->link, "bridge") != NULL;
    redco_machine machine = {.gpu = *gpu,
                             .nodes = run->n_gpus / domain,
                             .gpus_per_node = domain,
                             .node_gpus_physical = physical,
                             .hosts_per_node = physical / run->gpus_per_node,
                             .fabric = !linked   ? REDCO_FABRIC_PCIE
                                       : bridged ? REDCO_FABRIC_DIRECT
                                                 : REDCO_FABRIC_SWITCH,
                             .link_group_gpus = !linked   ? 1
                                                : bridged ? 2
                                                          : domain,
                             .scale_up_bytes_per_s = gpu->scale_up_bytes_per_s,
                             .peer_bytes_per_s = gpu->pcie_bytes_per_s,
                             .nics_per_node = ports,
                             .nic_bytes_per_s = network / ports,
                             .node_network_bytes_per_s = network,
                             .oversubscription_ratio = 1.0};
    (void)snprintf(machine.name, sizeof machine.name, "%u x %u %s", machine.nodes, domain, gpu->name);
    return machine;
}

/* Doubles bit by bit. */
static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_gpu(const redco_gpu *a, const redco_gpu *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->vendor, b->vendor) == 0 && strcmp(a->arch, b->arch) == 0 &&
           a->compute_capability == b->compute_capability && same(a->fp16_flops_per_s, b->fp16_flops_per_s) &&
           same(a->bf16_flops_per_s, b->bf16_flops_per_s) && same(a->fp8_flops_per_s, b->fp8_flops_per_s) &&
           same(a->tf32_flops_per_s, b->tf32_flops_per_s) && same(a->fp32_flops_per_s, b->fp32_flops_per_s) &&
           a->memory_bytes == b->memory_bytes &&
           same(a->memory_bandwidth_bytes_per_s, b->memory_bandwidth_bytes_per_s) && strcmp(a->link, b->link) == 0 &&
           a->link_count == b->link_count && same(a->scale_up_bytes_per_s, b->scale_up_bytes_per_s) &&
           same(a->pcie_bytes_per_s, b->pcie_bytes_per_s) && a->pcie_gen == b->pcie_gen && same(a->tdp_w, b->tdp_w);
}

/* All but what a planner alone asks for: whole nodes, and how many there are. */
static bool same_machine(const redco_machine *a, const redco_machine *b)
{
    return strcmp(a->name, b->name) == 0 && same_gpu(&a->gpu, &b->gpu) && a->cpu == b->cpu && a->nodes == b->nodes &&
           a->gpus_per_node == b->gpus_per_node && a->node_gpus_physical == b->node_gpus_physical &&
           a->hosts_per_node == b->hosts_per_node && a->fabric == b->fabric &&
           a->link_group_gpus == b->link_group_gpus && same(a->scale_up_bytes_per_s, b->scale_up_bytes_per_s) &&
           same(a->peer_bytes_per_s, b->peer_bytes_per_s) && a->nics_per_node == b->nics_per_node &&
           same(a->nic_bytes_per_s, b->nic_bytes_per_s) &&
           same(a->node_network_bytes_per_s, b->node_network_bytes_per_s) && a->nodes_per_leaf == b->nodes_per_leaf &&
           same(a->oversubscription_ratio, b->oversubscription_ratio) &&
           same(a->network_latency_s, b->network_latency_s) && a->order_count == b->order_count;
}

/* Through a file's text, as redco-plan reads it. */
static void read_again(const redco_measured_run *run, redco_machine *machine_out)
{
    json_t *json = NULL;
    redco_json *document = NULL;
    redco_cluster *cluster = NULL;
    size_t size = 0;
    assert_int_equal(redco_row_cluster(run, &json, NULL), REDCO_OK);
    char *const text = redco_json_text(json, 17, &size);
    assert_non_null(text);
    assert_int_equal(redco_json_parse(text, size, "cluster.json", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_cluster_from_json(&root, &cluster, NULL), REDCO_OK);
    assert_null(redco_cluster_warning(cluster, 0));
    assert_int_equal(redco_cluster_machine(cluster, run->n_gpus, machine_out, NULL), REDCO_OK);
    redco_cluster_free(cluster);
    redco_json_close(document);
    json_decref(json);
    free(text);
}

static size_t compare_table(const char *path)
{
    redco_measured *table = NULL;
    const redco_measured_run *runs = NULL;
    redco_error err = {.status = REDCO_OK};
    size_t compared = 0;
    if (redco_measured_read(path, &table, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    const size_t count = redco_measured_runs(table, &runs);
    for (size_t i = 0; i < count; i++) {
        redco_gpu gpu;
        redco_machine machine, again;
        redco_error why = {.status = REDCO_OK};
        const redco_status st = redco_row_machine(&runs[i], &machine, &why);
        if (redco_gpu_find_any(runs[i].gpu, &gpu, NULL) != REDCO_OK) {
            assert_int_equal(st, REDCO_EVALUE);
            continue;
        }
        if (st != REDCO_OK) { fail_msg("%s:%u: %s: %s", path, runs[i].line, why.place, why.text); }
        redco_machine wanted = oracle(&runs[i], &gpu);
        if (!redco_measured_knows(&runs[i], REDCO_COLUMN_NODE_NETWORK_GBPS)) { wanted.nics_per_node = 0; }
        if (!same_machine(&machine, &wanted)) { fail_msg("%s:%u: another machine", path, runs[i].line); }
        read_again(&runs[i], &again);
        if (!same_machine(&machine, &again)) { fail_msg("%s:%u: the file is another machine", path, runs[i].line); }
        compared++;
    }
    redco_measured_free(table);
    return compared;
}

static size_t compare_folder(const char *folder)
{
    DIR *const listing = opendir(folder);
    size_t compared = 0;
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        if (strstr(item->d_name, ".csv") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        compared += compare_table(path);
    }
    (void)closedir(listing);
    return compared;
}

static void every_row_has_the_machine_derived_here(void **state)
{
    (void)state;
    assert_true(compare_folder(REDCO_TEST_DATA "/../../traces/data") >= 1700);
}

static void so_have_the_tables_they_were_taken_from(void **state)
{
    (void)state;
    if (access(REDCO_SHARED_DIR "/measured", R_OK) != 0) { skip(); }
    assert_true(compare_folder(REDCO_SHARED_DIR "/measured") >= 1700);
}

/* The row's columns alone that a cluster depends on. */
static redco_status machine_of(const char *gpu, uint32_t gpus, uint32_t per_node, double network,
                               redco_machine *machine, redco_error *err)
{
    const redco_measured_run run = {
        .gpu = gpu, .n_gpus = gpus, .gpus_per_node = per_node, .node_network_bytes_per_s = network};
    return redco_row_machine(&run, machine, err);
}

/* 32 hosts fill no rack of 18; 16 of two do. Each host has four ports of 50 GB/s. */
static void racks_are_the_cluster_readers(void **state)
{
    redco_machine machine;
    (void)state;
    assert_int_equal(machine_of("GB200-per-GPU", 128, 4, 200e9, &machine, NULL), REDCO_OK);
    assert_int_equal(machine.nodes, 2);
    assert_int_equal(machine.gpus_per_node, 64);
    assert_int_equal(machine.hosts_per_node, 16);
    assert_int_equal(machine.nics_per_node, 64);
    assert_int_equal(machine.whole_node_gpus, 72);
    assert_int_equal(machine.most_nodes, 1000000);
    assert_int_equal(machine_of("GB200-per-GPU", 2, 4, 200e9, &machine, NULL), REDCO_OK); /* half of a host */
    assert_int_equal(machine.gpus_per_node, 2);
    assert_int_equal(machine.node_gpus_physical, 4);
}

/* A rate that is no whole number of bytes survives the file. */
static void a_rate_is_kept_to_the_last_bit(void **state)
{
    const redco_measured_run run = {
        .gpu = "H100-SXM5-80GB", .n_gpus = 16, .gpus_per_node = 8, .node_network_bytes_per_s = 133e9};
    redco_machine machine, again;
    (void)state;
    assert_int_equal(redco_row_machine(&run, &machine, NULL), REDCO_OK);
    assert_int_equal(machine.nics_per_node, 3);
    assert_true(same(machine.nic_bytes_per_s, 133e9 / 3));
    read_again(&run, &again);
    assert_true(same_machine(&machine, &again));
}

/* A GPU that is no preset is inside the description. */
static void a_gpu_of_ones_own_is_inside(void **state)
{
    const char *const path = REDCO_TEST_DATA "/../../topology/presets/gpus/L40S.json";
    redco_machine machine, preset;
    (void)state;
    assert_int_equal(machine_of(path, 16, 8, 50e9, &machine, NULL), REDCO_OK);
    assert_int_equal(machine_of("l40s", 16, 8, 50e9, &preset, NULL), REDCO_OK);
    assert_true(same_machine(&machine, &preset));
    assert_int_equal(machine.fabric, REDCO_FABRIC_PCIE);
    const redco_measured_run run = {.gpu = path, .n_gpus = 16, .gpus_per_node = 8, .node_network_bytes_per_s = 50e9};
    read_again(&run, &preset);
    assert_true(same_machine(&machine, &preset));
}

static void what_is_no_cluster_is_told(void **state)
{
    static const struct {
        const char *gpu;
        uint32_t gpus, per_node;
        const char *place, *text;
    } rows[] = {
        {"A100-SXM4-80GB", 11, 8, "n_gpus", "11 GPUs do not fill nodes of 8 GPUs; 10 or 12 would"},
        {"GB200-per-GPU", 20, 5, "gpus_per_node", "5 do not divide a rack of 72 GPUs"},
        {"A100-SXM4-80GB", 8, 0, "gpus_per_node", "is 0"},
        {"Z9000", 8, 8, "Z9000", "is neither a file nor a GPU that redco knows"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_machine machine;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(machine_of(rows[i].gpu, rows[i].gpus, rows[i].per_node, 1e9, &machine, &err), REDCO_EVALUE);
        assert_string_equal(err.place, rows[i].place);
        if (strstr(err.text, rows[i].text) == NULL) { fail_msg("%s", err.text); }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_machine_derived_here),
        cmocka_unit_test(so_have_the_tables_they_were_taken_from),
        cmocka_unit_test(racks_are_the_cluster_readers),
        cmocka_unit_test(a_rate_is_kept_to_the_last_bit),
        cmocka_unit_test(a_gpu_of_ones_own_is_inside),
        cmocka_unit_test(what_is_no_cluster_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
