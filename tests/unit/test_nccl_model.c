#include "tests/unit/collective_fixture.h"

struct config {
    const char *name;
    uint32_t nodes;
    redco_nccl_arch arch;
    uint32_t capability;
    bool amd;
    redco_nccl_graph ring, nvls; /* GB/s */
};

/* Graphs and hosts from the header of ../shared/profiles/nccl_model_reference_vectors.csv: 8 GPUs a node. */
static const struct config configs[] = {
    {"A100x1", 1, REDCO_NCCL_AMPERE, 80, true, {12, 20, 20}, {0, 0, 0}},
    {"A800x1", 1, REDCO_NCCL_AMPERE, 80, true, {8, 20, 20}, {0, 0, 0}},
    {"H800x1", 1, REDCO_NCCL_HOPPER, 90, false, {8, 20, 20}, {0, 0, 0}},
    {"H100x1", 1, REDCO_NCCL_HOPPER, 90, false, {12, 30, 30}, {8, 40, 60}},
    {"A100x2", 2, REDCO_NCCL_AMPERE, 80, true, {8, 24, 24}, {0, 0, 0}},
    {"A100x4", 4, REDCO_NCCL_AMPERE, 80, true, {8, 24, 24}, {0, 0, 0}},
    {"A100x16", 16, REDCO_NCCL_AMPERE, 80, true, {8, 24, 24}, {0, 0, 0}},
    {"H100x2", 2, REDCO_NCCL_HOPPER, 90, false, {8, 48, 48}, {8, 48, 48}},
    {"H100x4", 4, REDCO_NCCL_HOPPER, 90, false, {8, 48, 48}, {8, 48, 48}},
    {"H100x8", 8, REDCO_NCCL_HOPPER, 90, false, {8, 48, 48}, {8, 48, 48}},
    {"H100x128", 128, REDCO_NCCL_HOPPER, 90, false, {8, 48, 48}, {8, 48, 48}},
};
static const char *const algorithm_names[] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                              "NVLSTree", "PAT"};
static const char *const protocol_names[] = {"LL", "LL128", "Simple"};

static redco_nccl_graph in_si(redco_nccl_graph graph)
{
    return (redco_nccl_graph){graph.channels, graph.intra_bytes_per_s * 1e9, graph.inter_bytes_per_s * 1e9};
}

static redco_nccl_group group_from(const struct config *config)
{
    return (redco_nccl_group){
        .ranks = 8 * config->nodes,
        .nodes = config->nodes,
        .arch = config->arch,
        .compute_capability = config->capability,
        .linked = true,
        .ll128 = true,
        .cpu_amd = config->amd,
        .cpu_x86 = true,
        .ring = in_si(config->ring),
        .tree = in_si(config->ring),
        .nvls = in_si(config->nvls),
    };
}

static int index_of(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) { return i; }
    }
    fail_msg("unknown name %s", name);
    return -1;
}

static void reproduces_every_reference_vector(void **state)
{
    (void)state;
    char line[512], name[16], collective[24], algorithm[16], protocol[8];
    size_t rows = 0;
    size_t chosen_rows = 0;
    if (!have_shared()) { skip(); }
    static const char path[] = REDCO_SHARED_DIR "/profiles/nccl_model_reference_vectors.csv";
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    while (fgets(line, sizeof line, file) != NULL) {
        double size, latency_us, rate, time_us;
        int chosen;
        if (sscanf(line, "%15[^,],%23[^,],%lf,%15[^,],%7[^,],%lf,%lf,%lf,%d", name, collective, &size, algorithm,
                   protocol, &latency_us, &rate, &time_us, &chosen) != 9) {
            continue;
        }
        const struct config *config = NULL;
        for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
            if (strcmp(configs[i].name, name) == 0) { config = &configs[i]; }
        }
        assert_non_null(config);
        const redco_nccl_group group = group_from(config);
        redco_collective op;
        redco_nccl_time time, best;
        assert_true(redco_collective_parse(collective, strlen(collective), &op));
        const int a = index_of(algorithm_names, 7, algorithm);
        const int p = index_of(protocol_names, 3, protocol);
        assert_true(redco_nccl_price(&group, op, (redco_nccl_algorithm)a, (redco_nccl_protocol)p, size, &time));
        /* Printed with 3 and 4 decimals. */
        assert_close(time.latency_s * 1e6, latency_us, 1e-3 * latency_us);
        assert_close(time.bytes_per_s * 1e-9, rate, 1e-3 * rate);
        assert_close(time.latency_s * 1e6 + size / time.bytes_per_s * 1e6, time_us, 1e-3 * time_us);
        assert_true(redco_nccl_fastest(&group, op, size, &best));
        if (chosen != 0) {
            assert_int_equal(best.algorithm, a);
            assert_int_equal(best.protocol, p);
            chosen_rows++;
        }
        rows++;
    }
    (void)fclose(file);
    assert_int_equal(rows, 860);               /* lines of the file less 3 comments and the header */
    assert_int_equal(chosen_rows, 11 * 4 * 5); /* configurations x collectives x sizes */
}

struct graph_row {
    const char *what;
    uint32_t capability;
    redco_cpu_vendor cpu;
    double links, pcie; /* GB/s */
    uint32_t nodes, gpus, nics;
    double nic;                    /* GB/s */
    double channels, intra, inter; /* ring, as NCCL logs it */
};

/* Switched nodes: what NCCL prints at start-up on such machines (channels x rate), as issues of its repository show it.
 * Below, by hand from the lists: PCIe 31.5 x 24/31.5 = 24 = 2 x 12 (20 and 18 fit once); 4 GPUs with two NICs of 25: 2
 * x 24. */
static void graphs_are_those_nccl_finds(void **state)
{
    (void)state;
    static const struct graph_row rows[] = {
        {"A100", 80, REDCO_CPU_AMD, 300, 31.5, 1, 8, 8, 25, 12, 20, 20},
        {"A800", 80, REDCO_CPU_AMD, 200, 31.5, 1, 8, 8, 25, 8, 20, 20},
        {"H100", 90, REDCO_CPU_INTEL, 450, 63, 1, 8, 8, 50, 12, 30, 30},
        {"H800", 90, REDCO_CPU_INTEL, 200, 63, 1, 8, 8, 50, 8, 20, 20},
        {"B200", 100, REDCO_CPU_INTEL, 900, 63, 1, 8, 8, 50, 16, 45, 45},
        {"A100, 2 nodes", 80, REDCO_CPU_AMD, 300, 31.5, 2, 8, 8, 25, 8, 24, 24},
        {"A800, 2 nodes", 80, REDCO_CPU_AMD, 200, 31.5, 2, 8, 8, 25, 8, 20, 20},
        {"H100, 2 nodes", 90, REDCO_CPU_INTEL, 450, 63, 2, 8, 8, 50, 8, 48, 48},
        {"H800, 2 nodes", 90, REDCO_CPU_INTEL, 200, 63, 2, 8, 8, 50, 8, 22, 22},
        {"B200, 2 nodes", 100, REDCO_CPU_INTEL, 900, 63, 2, 8, 8, 50, 8, 48, 48},
        /* 16 NICs of 12.5 act as 8 ports of 25, 32 as 8 of 50. */
        {"A100, 16x100G", 80, REDCO_CPU_AMD, 300, 31.5, 2, 8, 16, 12.5, 8, 24, 24},
        {"H100, 32x100G", 90, REDCO_CPU_INTEL, 450, 63, 2, 8, 32, 12.5, 8, 48, 48},
        {"A100, 4x100G", 80, REDCO_CPU_AMD, 300, 31.5, 2, 8, 4, 12.5, 4, 12, 12},
        {"4 H100, 2x200G", 90, REDCO_CPU_INTEL, 450, 63, 2, 4, 2, 25, 2, 24, 24},
        {"PCIe Gen4", 89, REDCO_CPU_AMD, 0, 31.5, 1, 8, 1, 12.5, 2, 12, 12},
        /* 48 / 1.2 = 40: the first of the list that fits. */
        {"PCIe Gen5, Intel", 90, REDCO_CPU_INTEL, 0, 63, 1, 4, 1, 12.5, 2, 20, 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct graph_row *r = &rows[i];
        const redco_machine machine = machine_of(r->what, r->capability, r->cpu, r->links * 1e9, r->pcie * 1e9,
                                                 r->nodes, r->gpus, r->nics, r->nic * 1e9);
        const redco_mesh mesh = {.gpus = r->gpus, .nodes = r->nodes};
        const redco_nccl_reach reach = redco_nccl_reach_of(&machine, (redco_group){.mesh = mesh});
        const redco_nccl_graphs graphs = redco_nccl_search(&machine, r->gpus, r->nodes > 1, &reach);
        if (graphs.ring.channels != r->channels || fabs(graphs.ring.intra_bytes_per_s - r->intra * 1e9) > 1.0 ||
            fabs(graphs.ring.inter_bytes_per_s - r->inter * 1e9) > 1.0) {
            fail_msg("%s: %g x %g/%g", r->what, graphs.ring.channels, graphs.ring.intra_bytes_per_s * 1e-9,
                     graphs.ring.inter_bytes_per_s * 1e-9);
        }
    }
}

static void nvls_and_tree_graphs(void **state)
{
    (void)state;
    const redco_machine h100 = dgx_h100(1);
    const redco_machine a100 = dgx_a100(2);
    const redco_nccl_reach one = redco_nccl_reach_of(&h100, (redco_group){.mesh = {8, 1}});
    const redco_nccl_reach two = redco_nccl_reach_of(&a100, (redco_group){.mesh = {8, 2}});
    redco_nccl_graphs graphs = redco_nccl_search(&h100, 8, false, &one);
    /* Each GPU: (8 + 1) x 40 <= 370.8; then 40 -> 50 -> 60, the list's first. */
    assert_close(graphs.nvls.channels, 8.0, 0.0);
    assert_close(graphs.nvls.intra_bytes_per_s, 40e9, 1.0);
    assert_close(graphs.nvls.inter_bytes_per_s, 60e9, 1.0);
    graphs = redco_nccl_search(&a100, 8, true, &two);
    /* 24 -> 28 -> 30 while below 48 and 7 channels x 30 = 210 <= 240; 48 would be 336. */
    assert_close(graphs.tree.intra_bytes_per_s, 30e9, 1.0);
    assert_close(graphs.tree.inter_bytes_per_s, 24e9, 1.0);
    assert_close(graphs.nvls.channels, 0.0, 0.0);
}

/* PAT: 8 nodes of one H100 with one 400G NIC. base 8 + log2(8) x 14 / 3.5 + 2.8 x 8 = 8 + 12 + 22.4 = 42.4 us;
 * B = 48 x 0.75 (one port: 1 x 48, split in two channels of 24). */
static void pat_by_hand(void **state)
{
    (void)state;
    const redco_machine machine = machine_of("H100", 90, REDCO_CPU_INTEL, 0.0, 63e9, 8, 1, 1, 50e9);
    const redco_mesh mesh = {.gpus = 1, .nodes = 8};
    const redco_nccl_reach reach = redco_nccl_reach_of(&machine, (redco_group){.mesh = mesh});
    const redco_nccl_graphs graphs = redco_nccl_search(&machine, 1, true, &reach);
    redco_nccl_group group = redco_nccl_group_of(&machine, mesh, reach.linked);
    redco_nccl_time time;
    redco_nccl_set_graphs(&group, &graphs, reach.share_ratio);
    assert_true(redco_nccl_price(&group, REDCO_ALL_GATHER, REDCO_NCCL_PAT, REDCO_NCCL_SIMPLE, 1e6, &time));
    assert_close(time.latency_s, 42.4e-6, 1e-12);
    assert_close(time.bytes_per_s, 36e9, 1.0);
    assert_false(redco_nccl_price(&group, REDCO_ALL_REDUCE, REDCO_NCCL_PAT, REDCO_NCCL_SIMPLE, 1e6, &time));
    /* Ring all-gather with one rank per node: 7 network hops of the tree's 14 us, 8.4 base. */
    assert_true(redco_nccl_price(&group, REDCO_ALL_GATHER, REDCO_NCCL_RING, REDCO_NCCL_SIMPLE, 1e6, &time));
    assert_close(time.latency_s, 106.4e-6, 1e-12);
    assert_close(time.bytes_per_s, 48e9 * 8.0 / 7.0, 1.0);
}

/* CollNet, off unless its graph is given: 4 nodes of 8, 8 channels x 48.
 * Direct: f = 1 -> bus 384 x 0.85 (cc 90), x 0.5 = 163.2; L = 2 (1 x 3.7 + 7 x 0.4) + 31 = 44.0 us.
 * Chain: 384 x 0.5 = 192; L = 2 x 7 x 2.8 + 30 = 69.2 us. */
static void collnet_by_hand(void **state)
{
    (void)state;
    redco_nccl_group group = group_from(&configs[8]);
    redco_nccl_time time;
    assert_false(redco_nccl_price(&group, REDCO_ALL_REDUCE, REDCO_NCCL_COLLNET_DIRECT, REDCO_NCCL_SIMPLE, 1e9, &time));
    group.collnet = (redco_nccl_graph){8, 48e9, 48e9};
    assert_true(redco_nccl_price(&group, REDCO_ALL_REDUCE, REDCO_NCCL_COLLNET_DIRECT, REDCO_NCCL_SIMPLE, 1e9, &time));
    assert_close(time.latency_s, 44.0e-6, 1e-12);
    assert_close(time.bytes_per_s, 163.2e9, 1.0);
    assert_true(redco_nccl_price(&group, REDCO_ALL_REDUCE, REDCO_NCCL_COLLNET_CHAIN, REDCO_NCCL_SIMPLE, 1e9, &time));
    assert_close(time.latency_s, 69.2e-6, 1e-12);
    assert_close(time.bytes_per_s, 192e9, 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reproduces_every_reference_vector),
        cmocka_unit_test(graphs_are_those_nccl_finds),
        cmocka_unit_test(nvls_and_tree_graphs),
        cmocka_unit_test(pat_by_hand),
        cmocka_unit_test(collnet_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
