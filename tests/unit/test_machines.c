/* Recorded machines of ../shared/topology and made-up ones of tests/data/topology. */
#include "tests/unit/node_checks.h"

#include <unistd.h>

#define X UINT32_MAX
enum { PAIRS = 4, LISTED = 16 };

struct pair {
    unsigned a, b;
    double gigabytes_per_s; /* the link's; 0: none */
    redco_path path;
};

/* One recorded machine. Counts, parts and places by hand from the README files beside the recordings and from the
 * machines' public descriptions; rates in GB/s one direction. */
struct machine {
    const char *file;
    size_t gpus;
    const char *preset; /* that all GPUs have */
    size_t nics;
    double nic_gigabytes_per_s; /* each NIC's */
    size_t numas;
    redco_cpu_vendor cpu;
    redco_fabric fabric;
    uint32_t switches, link_group;
    double scale_up_gigabytes_per_s;
    struct pair pairs[PAIRS];
    uint32_t gpu_numa[LISTED];
    uint32_t nearest_gpu[LISTED];
    const char *warnings[3]; /* part of each, in this order; NULL: no more */
};

static const struct machine machines[] = {
    /* 12 NVSwitch x 25 GB/s ports: 6 links per V100 */
    {"hwloc-xml/dgx2_16v100_nvswitch_v2.xml",
     16,
     "V100-SXM3-32GB",
     0,
     0,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_SWITCH,
     12,
     16,
     150,
     {{0, 1, 150, REDCO_PATH_SWITCH}, {0, 15, 150, REDCO_PATH_SWITCH}, {7, 8, 150, REDCO_PATH_SWITCH}},
     {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
     {0},
     {NULL}},
    {"hwloc-xml/dgx2_16v100_nvswitch_v3.xml",
     16,
     "V100-SXM3-32GB",
     0,
     0,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_SWITCH,
     12,
     16,
     150,
     {{0, 1, 150, REDCO_PATH_SWITCH}, {0, 15, 150, REDCO_PATH_SWITCH}, {7, 8, 150, REDCO_PATH_SWITCH}},
     {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
     {0},
     {NULL}},
    /* two of four 20 GB/s links to the neighbour, two to the processor */
    {"hwloc-xml/power8_4p100_nvlink_cpu.xml",
     4,
     "P100-SXM2-16GB",
     0,
     0,
     2,
     REDCO_CPU_POWER,
     REDCO_FABRIC_DIRECT,
     0,
     2,
     40,
     {{0, 1, 40, REDCO_PATH_LINK}, {2, 3, 40, REDCO_PATH_LINK}, {1, 2, 0, REDCO_PATH_SYS}},
     {0, 0, 1, 1},
     {0},
     {NULL}},
    /* AC922: three of six 25 GB/s links to the neighbour; one card of two EDR ports with a slot at each socket */
    {"hwloc-xml/power9_lassen_4v100_4ib.xml",
     4,
     "V100-SXM2-16GB",
     4,
     12.5 / 2,
     2,
     REDCO_CPU_POWER,
     REDCO_FABRIC_DIRECT,
     0,
     2,
     75,
     {{0, 1, 75, REDCO_PATH_LINK}, {2, 3, 75, REDCO_PATH_LINK}, {0, 2, 0, REDCO_PATH_SYS}},
     {0, 0, 8, 8},
     {0, 1, 2, 3},
     {"no NVLink matrix was recorded", "4 of 4 NICs are ports that a card shows"}},
    {"hwloc-xml/power9_lassen_4v100_4ib_v1.xml",
     4,
     "V100-SXM2-16GB",
     4,
     12.5 / 2,
     2,
     REDCO_CPU_POWER,
     REDCO_FABRIC_DIRECT,
     0,
     2,
     75,
     {{0, 1, 75, REDCO_PATH_LINK}, {2, 3, 75, REDCO_PATH_LINK}, {0, 2, 0, REDCO_PATH_SYS}},
     {0, 0, 8, 8},
     {0, 1, 2, 3},
     {"no NVLink matrix was recorded", "4 of 4 NICs are ports that a card shows"}},
    /* seven links of 50 GB/s join a die to others; rsmi order is not NUMA order; a NIC sits beside each odd die */
    {"hwloc-xml/epyc_tioga_mi250x_8gcd_xgmi.xml",
     8,
     "MI250X-GCD",
     4,
     25,
     4,
     REDCO_CPU_AMD,
     REDCO_FABRIC_DIRECT,
     0,
     8,
     350,
     {{0, 1, 50, REDCO_PATH_LINK}, {0, 7, 50, REDCO_PATH_LINK}},
     {3, 3, 1, 1, 0, 0, 2, 2},
     {1, 3, 5, 7},
     {"XGMIBandwidth gives 700 GB/s per GPU, but type MI250X-GCD has 350 GB/s"}},
    {"hwloc-xml/epyc_corona_8mi50_1ib.xml",
     8,
     "MI50-32GB",
     1,
     25,
     2,
     REDCO_CPU_AMD,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_NODE}, {0, 4, 0, REDCO_PATH_SYS}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {5},
     {"no XGMI matrix was recorded; the type MI50-32GB has links only where a bridge joins"}},
    {"hwloc-xml/xeon_pascal_2p100pcie_1ib.xml",
     2,
     "P100-PCIe-16GB",
     1,
     12.5,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_PIX}},
     {0, 0},
     {0},
     {NULL}},
    {"hwloc-xml/xeon_g4dnmetal_8t4_efa.xml",
     8,
     "T4",
     1,
     12.5,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_PHB}, {0, 2, 0, REDCO_PATH_NODE}, {3, 4, 0, REDCO_PATH_SYS}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {4},
     {NULL}},
    {"hwloc-xml/xeon_quartz_cpu_omnipath.xml",
     0,
     "P100-PCIe-16GB",
     1,
     12.5,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0}},
     {0},
     {X},
     {NULL}},
    {"hwloc-xml/xeon_4s2c2t_cpu_only_no_numa.xml",
     0,
     "",
     0,
     0,
     1,
     REDCO_CPU_UNKNOWN,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0}},
     {0},
     {0},
     {NULL}},
    {"hwloc-xml/odd_chimera_nvidia_plus_amd_v1.xml",
     2,
     "",
     0,
     0,
     2,
     REDCO_CPU_AMD,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_SYS}},
     {0, 2},
     {0},
     {"unknown type of 2 of 2 GPUs (GeForce GTX 1070)"}},
    {"hwloc-xml/odd_k40_amd_ib_wholeio.xml",
     2,
     "",
     1,
     12.5,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_PIX}},
     {1, 1},
     {0},
     {"unknown type of 2 of 2 GPUs (Tesla K40m)", "no driver shows: 2"}},
    {"hwloc-xml/odd_fake_heterogeneous_distances.xml",
     0,
     "",
     0,
     0,
     8,
     REDCO_CPU_AMD,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0}},
     {0},
     {0},
     {NULL}},
    {"hwloc-xml/constructed_dgx_a100_8gpu_8ib_nvml.xml",
     8,
     "A100-SXM4-40GB",
     8,
     25,
     8,
     REDCO_CPU_UNKNOWN,
     REDCO_FABRIC_SWITCH,
     6,
     8,
     300,
     {{0, 1, 300, REDCO_PATH_SWITCH}, {0, 7, 300, REDCO_PATH_SWITCH}},
     {3, 3, 1, 1, 7, 7, 5, 5},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {NULL}},
    {"hwloc-xml/constructed_dgx_a100_8gpu_8ib_pcionly.xml",
     8,
     "A100-SXM4-40GB",
     8,
     25,
     8,
     REDCO_CPU_UNKNOWN,
     REDCO_FABRIC_SWITCH,
     6,
     8,
     300,
     {{0, 1, 300, REDCO_PATH_SWITCH}, {0, 7, 300, REDCO_PATH_SWITCH}},
     {3, 3, 1, 1, 7, 7, 5, 5},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {"any pair at 300 GB/s (6 NVSwitch seen on PCI)"}},
    {"hwloc-xml/constructed_hgx_h100_8gpu_8ib_nvml.xml",
     8,
     "H100-SXM5-80GB",
     8,
     50,
     2,
     REDCO_CPU_UNKNOWN,
     REDCO_FABRIC_SWITCH,
     4,
     8,
     450,
     {{0, 1, 450, REDCO_PATH_SWITCH}, {3, 4, 450, REDCO_PATH_SWITCH}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {NULL}},
    {"hwloc-xml/constructed_hgx_h100_8gpu_8ib_pcionly.xml",
     8,
     "H100-SXM5-80GB",
     8,
     50,
     2,
     REDCO_CPU_UNKNOWN,
     REDCO_FABRIC_SWITCH,
     4,
     8,
     450,
     {{0, 1, 450, REDCO_PATH_SWITCH}, {3, 4, 450, REDCO_PATH_SWITCH}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {"hwloc before 2.12 drops the matrix of NVLink 4"}},
    {"nccl-xml/azure-ndv2-topo.xml",
     8,
     "",
     1,
     0,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_NODE}, {3, 4, 0, REDCO_PATH_SYS}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {0},
     {"unknown type of 8 of 8 GPUs (the file names no part)", "unknown rate of 1 of 1 NICs"}},
    {"nccl-xml/azure-ndv4-topo.xml",
     8,
     "",
     8,
     0,
     4,
     REDCO_CPU_AMD,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_PIX}, {6, 7, 0, REDCO_PATH_PIX}, {1, 2, 0, REDCO_PATH_SYS}},
     {1, 1, 0, 0, 3, 3, 2, 2},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {"unknown type of 8 of 8", "unknown rate of 8 of 8"}},
    {"nccl-xml/azure-ndv5-topo.xml",
     8,
     "",
     8,
     0,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_NODE}, {3, 4, 0, REDCO_PATH_SYS}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {0, 1, 2, 3, 4, 5, 6, 7},
     {"unknown type of 8 of 8", "unknown rate of 8 of 8"}},
    {"nccl-xml/azure-ncv4-topo.xml",
     4,
     "A100-PCIe-80GB",
     1,
     12.5,
     4,
     REDCO_CPU_AMD,
     REDCO_FABRIC_DIRECT,
     0,
     2,
     300,
     {{0, 1, 300, REDCO_PATH_LINK}, {2, 3, 300, REDCO_PATH_LINK}, {1, 2, 0, REDCO_PATH_SYS}},
     {0, 1, 2, 3},
     {0},
     {"name their own GPU as target"}},
    {"nccl-xml/ibmcloud-gx3d-8h100-topo.xml",
     8,
     "H100-SXM5-80GB",
     8,
     25,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_SWITCH,
     4,
     8,
     450,
     {{0, 1, 450, REDCO_PATH_SWITCH}, {0, 7, 450, REDCO_PATH_SWITCH}},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {7, 6, 5, 4, 3, 2, 1, 0},
     {NULL}},
};

/* The made-up machines; what they hold is said in their first lines. 12 NVLink 3 or 18 NVLink 4 links of 25 GB/s in
 * equal parts to three peers: 100 and 150 GB/s. */
static const struct machine made_up[] = {
    {"hwloc-4xa100.xml",
     4,
     "A100-SXM4-80GB",
     2,
     25,
     2,
     REDCO_CPU_AMD,
     REDCO_FABRIC_DIRECT,
     0,
     4,
     300,
     {{0, 1, 100, REDCO_PATH_LINK}, {0, 3, 100, REDCO_PATH_LINK}},
     {0, 0, 1, 1},
     {0, 2},
     {NULL}},
    {"hwloc-4xa100-doubled.xml",
     4,
     "A100-SXM4-80GB",
     2,
     25,
     2,
     REDCO_CPU_AMD,
     REDCO_FABRIC_DIRECT,
     0,
     4,
     300,
     {{0, 1, 100, REDCO_PATH_LINK}, {0, 3, 100, REDCO_PATH_LINK}},
     {0, 0, 1, 1},
     {0, 2},
     {"NVLinkBandwidth gives 600 GB/s per GPU, but type A100-SXM4-80GB has 300 GB/s (hwloc before 2.12 doubles"}},
    {"hwloc-4xa100-pci.xml",
     4,
     "A100-SXM4-80GB",
     2,
     25,
     2,
     REDCO_CPU_AMD,
     REDCO_FABRIC_DIRECT,
     0,
     4,
     300,
     {{0, 1, 100, REDCO_PATH_LINK}, {0, 3, 100, REDCO_PATH_LINK}},
     {0, 0, 1, 1},
     {0, 2},
     {"spread evenly over the others", "NICs without an active port: 1 (mlx5_5)"}},
    {"nccl-4xh100.xml",
     4,
     "H100-SXM5-80GB",
     2,
     50,
     2,
     REDCO_CPU_INTEL,
     REDCO_FABRIC_DIRECT,
     0,
     4,
     450,
     {{0, 1, 150, REDCO_PATH_LINK}, {2, 3, 150, REDCO_PATH_LINK}},
     {0, 0, 1, 1},
     {0, 2},
     {NULL}},
    {"nccl-site.xml",
     2,
     "",
     1,
     0,
     1,
     REDCO_CPU_AMD,
     REDCO_FABRIC_PCIE,
     0,
     1,
     0,
     {{0, 1, 0, REDCO_PATH_PIX}},
     {0, 0},
     {0},
     {"unknown type of 2 of 2 GPUs", "unknown rate of 1 of 1 NICs"}},
};

static void check_machine(const struct machine *want, const char *folder)
{
    char path[512];
    redco_node *node = NULL;
    redco_error err = {0};
    const redco_node_gpu *gpus = NULL;
    const redco_node_nic *nics = NULL;
    const redco_node_numa *numas = NULL;
    size_t warnings = 0;
    (void)snprintf(path, sizeof path, "%s/%s", folder, want->file);
    if (redco_node_discover(path, &node, &err) != REDCO_OK) {
        print_error("%s: %s\n", err.place, err.text);
        fail();
    }
    print_message("%s\n", want->file);
    assert_int_equal(redco_node_gpus(node, &gpus), want->gpus);
    for (size_t i = 0; i < want->gpus; i++) {
        assert_string_equal(gpus[i].preset, want->preset);
        assert_int_equal(gpus[i].numa, want->gpu_numa[i]);
        assert_true(gpus[i].pci[0] != '\0');
    }
    assert_int_equal(redco_node_nics(node, &nics), want->nics);
    for (size_t i = 0; i < want->nics; i++) {
        assert_rate(nics[i].bytes_per_s, want->nic_gigabytes_per_s);
        assert_int_equal(nics[i].nearest_gpu, want->nearest_gpu[i]);
    }
    assert_int_equal(redco_node_numas(node, &numas), want->numas);
    assert_int_equal(redco_node_cpu(node), want->cpu);
    assert_int_equal(redco_node_fabric(node), want->fabric);
    assert_int_equal(redco_node_switches(node), want->switches);
    assert_int_equal(redco_node_link_group(node), want->link_group);
    assert_rate(redco_node_scale_up(node), want->scale_up_gigabytes_per_s);
    for (size_t i = 0; i < PAIRS && want->pairs[i].path != REDCO_PATH_SELF; i++) {
        const struct pair *pair = &want->pairs[i];
        assert_rate(redco_node_link(node, pair->a, pair->b), pair->gigabytes_per_s);
        assert_rate(redco_node_link(node, pair->b, pair->a), pair->gigabytes_per_s);
        assert_int_equal(redco_node_path(node, pair->a, pair->b), pair->path);
    }
    for (; want->warnings[warnings] != NULL; warnings++) {
        const char *got = redco_node_warning(node, warnings);
        if (got == NULL || strstr(got, want->warnings[warnings]) == NULL) {
            print_error("warning \"%s\" where \"%s\" is wanted\n", got, want->warnings[warnings]);
            fail();
        }
    }
    assert_null(redco_node_warning(node, warnings));
    check_round_trip(node);
    redco_node_free(node);
}

static void skip_without_shared(void)
{
    if (access(REDCO_SHARED_DIR "/topology", R_OK) != 0) {
        print_message("skipped: there is no " REDCO_SHARED_DIR "/topology\n");
        skip();
    }
}

static void recorded_machines_are_understood(void **state)
{
    (void)state;
    skip_without_shared();
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        check_machine(&machines[i], REDCO_SHARED_DIR "/topology");
    }
}

static void made_up_machines_are_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; i++) {
        check_machine(&made_up[i], REDCO_TEST_DATA "/topology");
    }
}

static void tioga_dies_share_what_they_have(void **state)
{
    redco_node *node = NULL;
    redco_gpu gpu;
    (void)state;
    skip_without_shared();
    assert_int_equal(
        redco_node_discover(REDCO_SHARED_DIR "/topology/hwloc-xml/epyc_tioga_mi250x_8gcd_xgmi.xml", &node, NULL),
        REDCO_OK);
    assert_int_equal(redco_node_gpu_type(node, &gpu, NULL), REDCO_OK);
    assert_string_equal(gpu.vendor, "AMD");
    assert_true(gpu.memory_bytes == (uint64_t)64 << 30); /* half of the module's 128 */
    redco_node_free(node);
}

/* A site file without parts, completed by hand: the NDv2's GPUs are V100-SXM2-32GB in a DGX-1 board. */
static void site_files_can_be_completed(void **state)
{
    redco_node *node = NULL;
    redco_gpu gpu;
    redco_error err = {0};
    (void)state;
    skip_without_shared();
    assert_int_equal(redco_node_discover(REDCO_SHARED_DIR "/topology/nccl-xml/azure-ndv2-topo.xml", &node, NULL),
                     REDCO_OK);
    assert_int_equal(redco_node_gpu_type(node, &gpu, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "no GPU preset"));
    assert_int_equal(redco_gpu_find("V100-SXM2-32GB", &gpu, NULL), REDCO_OK);
    assert_int_equal(redco_node_set_gpu(node, &gpu, NULL), REDCO_OK);
    assert_int_equal(redco_node_set_nic_rate(node, 12.5e9, NULL), REDCO_OK);
    assert_int_equal(redco_node_set_nic_rate(node, 12.5e9, NULL), REDCO_EVALUE);
    for (size_t i = 0; i < 8; i++) { /* six links of 25 GB/s leave each GPU */
        double sum = 0.0;
        for (size_t j = 0; j < 8; j++) { sum += redco_node_link(node, i, j); }
        assert_rate(sum, 150);
    }
    assert_rate(redco_node_link(node, 0, 3), 50); /* nvidia-smi topo -m of a DGX-1V: NV2 */
    assert_rate(redco_node_link(node, 0, 1), 25);
    assert_rate(redco_node_link(node, 0, 5), 0);
    assert_int_equal(redco_node_link_group(node), 8);
    assert_non_null(strstr(redco_node_warning(node, 0), "hybrid cube mesh"));
    assert_null(redco_node_warning(node, 1)); /* the unknown is known now */
    check_round_trip(node);
    assert_int_equal(redco_gpu_find("T4", &gpu, NULL), REDCO_OK);
    assert_int_equal(redco_node_set_gpu(node, &gpu, NULL), REDCO_EVALUE);
    redco_node_free(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_machines_are_understood),
        cmocka_unit_test(made_up_machines_are_understood),
        cmocka_unit_test(tioga_dies_share_what_they_have),
        cmocka_unit_test(site_files_can_be_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
