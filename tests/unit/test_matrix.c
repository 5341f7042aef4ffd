/* Tables of nvidia-smi and rocm-smi, as people paste them. Wanted values are read off the tables by hand. */
#include "topology/discovery/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static redco_node *read_text(const char *text, redco_error *err)
{
    redco_node *node = NULL;
    (void)redco_node_parse(text, strlen(text), "box.txt", 0, &node, err);
    return node;
}

static redco_node *read_as(const char *text, const char *type)
{
    redco_error err = {0};
    redco_gpu gpu;
    redco_node *node = read_text(text, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(redco_gpu_find(type, &gpu, &err), REDCO_OK);
    assert_int_equal(redco_node_set_gpu(node, &gpu, &err), REDCO_OK);
    return node;
}

/* Four GPUs with four links between each two; a NIC beside each pair. Colours of a terminal, a legend, no first tab. */
static const char direct[] =
    "\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
    "GPU0\t X \tNV4\tNV4\tNV4\tPIX\tSYS\t0-23\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\t0-23\t0\t\tN/A\n"
    "GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPHB\t24-47\t1\t\tN/A\n"
    "GPU3\tNV4\tNV4\tNV4\t X \tSYS\tNODE\t24-47\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tPHB\tNODE\tSYS\t X \t\t\t\t\n"
    "\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n";

static void nvlinks_from_gpu_to_gpu(void **state)
{
    const redco_node_gpu *gpus = NULL;
    const redco_node_nic *nics = NULL;
    (void)state;
    redco_node *node = read_as(direct, "A100-SXM4-80GB"); /* 12 links, 300 GB/s */
    assert_int_equal(redco_node_gpus(node, &gpus), 4);
    assert_int_equal(redco_node_nics(node, &nics), 2);
    assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_DIRECT);
    assert_int_equal(redco_node_link_group(node), 4);
    assert_float_equal(redco_node_link(node, 1, 3), 100e9, 1.0);
    assert_float_equal(redco_node_scale_up(node), 300e9, 1.0);
    assert_int_equal(gpus[1].numa, 0);
    assert_int_equal(gpus[2].numa, 1);
    assert_string_equal(nics[0].name, "mlx5_0");
    assert_string_equal(nics[1].name, "mlx5_bond_0");
    assert_int_equal(nics[0].numa, 0);
    assert_int_equal(nics[1].numa, 1);
    assert_int_equal(nics[0].pci_switch, gpus[0].pci_switch);
    assert_int_not_equal(nics[0].pci_switch, UINT32_MAX);
    assert_int_equal(nics[0].pci_root, gpus[1].pci_root); /* PXB */
    assert_int_equal(nics[1].pci_root, gpus[2].pci_root);
    assert_int_equal(nics[1].pci_switch, UINT32_MAX);
    assert_int_equal(nics[0].nearest_gpu, 0);
    assert_int_equal(nics[1].nearest_gpu, 2);
    redco_node_free(node);
}

/* 18 links to each of three others are 54 of one GPU, which has 18: they end at switches. */
static void nvlinks_through_switches(void **state)
{
    (void)state;
    redco_node *node = read_as("        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity\n"
                               "GPU0     X      NV18    NV18    NV18    0-71    0\n"
                               "GPU1    NV18     X      NV18    NV18    0-71    0\n"
                               "GPU2    NV18    NV18     X      NV18    72-143  1\n"
                               "GPU3    NV18    NV18    NV18     X      72-143  1\n",
                               "H100-SXM5-80GB"); /* 18 links, 450 GB/s */
    assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_SWITCH);
    assert_float_equal(redco_node_link(node, 0, 3), 450e9, 1.0);
    assert_float_equal(redco_node_scale_up(node), 450e9, 1.0);
    redco_node_free(node);
}

/* A ring of four: rocm-smi says XGMI of all pairs, and weight 30 of those that are not neighbours. */
static void xgmi_ring(void **state)
{
    (void)state;
    redco_node *node =
        read_as("============================ ROCm System Management Interface ============================\n"
                "================================ Weight between two GPUs =================================\n"
                "       GPU0         GPU1         GPU2         GPU3         \n"
                "GPU0   0            15           30           15           \n"
                "GPU1   15           0            15           30           \n"
                "GPU2   30           15           0            15           \n"
                "GPU3   15           30           15           0            \n\n"
                "================================= Hops between two GPUs ==================================\n"
                "       GPU0         GPU1         GPU2         GPU3         \n"
                "GPU0   0            1            1            1            \n\n"
                "=============================== Link Type between two GPUs ===============================\n"
                "       GPU0         GPU1         GPU2         GPU3         \n"
                "GPU0   0            XGMI         XGMI         XGMI         \n"
                "GPU1   XGMI         0            XGMI         XGMI         \n"
                "GPU2   XGMI         XGMI         0            XGMI         \n"
                "GPU3   XGMI         XGMI         XGMI         0            \n\n"
                "======================================= Numa Nodes =======================================\n"
                "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n"
                "GPU[1]\t\t: (Topology) Numa Node: 0\nGPU[2]\t\t: (Topology) Numa Node: 1\n"
                "GPU[3]\t\t: (Topology) Numa Node: 1\n"
                "================================== End of ROCm SMI Log ===================================\n",
                "MI300X"); /* 448 GB/s, to two neighbours each */
    const redco_node_gpu *gpus = NULL;
    assert_int_equal(redco_node_gpus(node, &gpus), 4);
    assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_DIRECT);
    assert_float_equal(redco_node_link(node, 0, 1), 224e9, 1.0);
    assert_float_equal(redco_node_link(node, 0, 2), 0.0, 0.0);
    assert_float_equal(redco_node_scale_up(node), 448e9, 1.0);
    assert_int_equal(gpus[1].numa, 0);
    assert_int_equal(gpus[3].numa, 1);
    redco_node_free(node);
}

/* amd-smi names GPUs by their addresses; the first two of a hive of three are neighbours. As pasted, with the command.
 */
static void tables_of_amd_smi(void **state)
{
    (void)state;
    redco_node *node = read_as("[root@mi300x ~]# amd-smi topology\n"
                               "ACCESS TABLE:\n"
                               "             0000:05:00.0 0000:26:00.0 0000:46:00.0\n"
                               "0000:05:00.0 ENABLED      ENABLED      ENABLED\n"
                               "0000:26:00.0 ENABLED      ENABLED      ENABLED\n"
                               "0000:46:00.0 ENABLED      ENABLED      ENABLED\n\n"
                               "WEIGHT TABLE:\n"
                               "             0000:05:00.0 0000:26:00.0 0000:46:00.0\n"
                               "0000:05:00.0 0            15           30\n"
                               "0000:26:00.0 15           0            15\n"
                               "0000:46:00.0 30           15           0\n\n"
                               "LINK TYPE TABLE:\n"
                               "             0000:05:00.0 0000:26:00.0 0000:46:00.0\n"
                               "0000:05:00.0 SELF         XGMI         XGMI\n"
                               "0000:26:00.0 XGMI         SELF         XGMI\n"
                               "0000:46:00.0 XGMI         XGMI         SELF\n",
                               "MI300X");
    const redco_node_gpu *gpus = NULL;
    assert_int_equal(redco_node_gpus(node, &gpus), 3);
    assert_string_equal(gpus[1].os_name, "0000:26:00.0");
    assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_DIRECT);
    assert_true(redco_node_link(node, 0, 1) > 0.0);
    assert_float_equal(redco_node_link(node, 0, 2), 0.0, 0.0);
    redco_node_free(node);
}

static void the_command_may_stand_above(void **state)
{
    (void)state;
    redco_node *node = read_as("```\nroot@node2:~# nvidia-smi topo -m\n"
                               "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
                               "GPU0     X      NV18    0-71    0\n"
                               "GPU1    NV18     X      0-71    0\n```\n",
                               "H100-SXM5-80GB");
    assert_float_equal(redco_node_link(node, 0, 1), 450e9, 1.0);
    redco_node_free(node);
}

/* As "nvidia-smi topo -mp", or boards without links: paths of PCIe alone. */
static void pcie_alone(void **state)
{
    (void)state;
    redco_node *node = read_as("\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
                               "GPU0\t X \tPIX\tSOC\t0-11\n"
                               "GPU1\tPIX\t X \tSOC\t0-11\n"
                               "GPU2\tSOC\tSOC\t X \t12-23\n",
                               "L40S");
    assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_PCIE);
    assert_int_equal(redco_node_path(node, 0, 1), REDCO_PATH_PIX);
    assert_int_equal(redco_node_path(node, 0, 2), REDCO_PATH_SYS);
    redco_node_free(node);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *place, *what;
    } rows[] = {
        {"GPU0 GPU1\nGPU0 X NV12\n", "box.txt", "GPU1 has a column, and no row"},
        {"GPU0 GPU1\nGPU0 X\nGPU1 NV12 X\n", "box.txt:2", "the row of GPU0 has 1 paths, the header 2 columns"},
        {"GPU0 GPU1\nGPU0 X NV19\nGPU1 NV19 X\n", "box.txt:2", "\"NV19\" is no path; known: X, NV1 to NV18"},
        {"GPU0 GPU1\nGPU0 X QPI\n", "box.txt:2", "\"QPI\" is no path"},
        {"GPU0 GPU0\n", "box.txt:1", "\"GPU0\" heads two columns"},
        {"GPU0\nGPU0 X\nGPU0 GPU1\n", "box.txt:3", "begins a second table"},
        {"=== ROCm ===\n", "box.txt", "has no table of GPUs"},
        {"=== Weight between two GPUs ===\nGPU0 GPU1\nGPU0 0 x\n", "box.txt:3", "\"x\" is no weight"},
        {"hello\n", "box.txt", "nor what nvidia-smi topo -m, rocm-smi --showtopo or amd-smi topology prints"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error err = {0};
        assert_null(read_text(rows[i].text, &err));
        assert_int_equal(err.status, REDCO_EVALUE);
        if (strcmp(err.place, rows[i].place) != 0 || strstr(err.text, rows[i].what) == NULL) {
            fail_msg("%s -> %s: %s", rows[i].text, err.place, err.text);
        }
    }
}

/* A table of NV12 is of no GPU that has four links. */
static void the_type_must_have_the_links(void **state)
{
    redco_error err = {0};
    redco_gpu gpu;
    (void)state;
    redco_node *node = read_text("GPU0 GPU1\nGPU0 X NV12\nGPU1 NV12 X\n", &err);
    assert_non_null(node);
    assert_non_null(strstr(redco_node_warning(node, 1), "2 GPUs: each of their NVLinks counts 25 GB/s"));
    assert_int_equal(redco_gpu_find("RTX-3090", &gpu, &err), REDCO_OK);
    assert_int_equal(redco_node_set_gpu(node, &gpu, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "shows 12 links of a GPU; a RTX-3090 has 4");
    redco_node_free(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvlinks_from_gpu_to_gpu),
        cmocka_unit_test(nvlinks_through_switches),
        cmocka_unit_test(xgmi_ring),
        cmocka_unit_test(tables_of_amd_smi),
        cmocka_unit_test(the_command_may_stand_above),
        cmocka_unit_test(pcie_alone),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(the_type_must_have_the_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
