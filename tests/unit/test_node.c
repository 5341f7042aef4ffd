/* Nodes from JSON, from parts and from this machine; bad input. */
#include "tests/unit/node_checks.h"
#include "topology/discovery/pci_ids.h"

static redco_status parse(const char *text, redco_node **node_out, redco_error *err)
{
    return redco_node_parse(text, strlen(text), "in.txt", 0, node_out, err);
}

struct bad_row {
    const char *text, *place, *what; /* parts of the error */
};

static void check_bad(const struct bad_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        redco_node *node = NULL;
        redco_error err = {0};
        assert_int_equal(parse(rows[i].text, &node, &err), REDCO_EVALUE);
        assert_null(node);
        if (strcmp(err.place, rows[i].place) != 0 || strstr(err.text, rows[i].what) == NULL) {
            print_error("\"%s\": \"%s\" where \"%s\": \"%s\" is wanted\n", err.place, err.text, rows[i].place,
                        rows[i].what);
            fail();
        }
    }
}

#define HEAD "{\"format\":\"redco-node\",\"version\":1,\"fabric\":"
#define TWO "\"gpus\":[{\"type\":\"T4\"},{\"type\":\"T4\"}]"
static void bad_nodes_are_refused(void **state)
{
    static const struct bad_row rows[] = {
        {"", "in.txt", "is empty"},
        {" \n", "in.txt", "is empty"},
        {"MZ...", "in.txt", "neither hwloc XML"},
        {"{\"format\":", "in.txt:1:10", "not valid JSON"},
        {"{}", "in.txt:/format", "is missing"},
        {"{\"format\":\"redco-plan\",\"version\":1}", "in.txt:/format", "\"redco-node\" is needed"},
        {"{\"format\":\"redco-node\",\"version\":2}", "in.txt:/version", "a newer redco is needed"},
        {HEAD "\"pcie\",\"gpuss\":[]}", "in.txt:/gpuss", "did you mean \"gpus\""},
        {HEAD "\"mesh\"}", "in.txt:/fabric", "one of pcie, direct, switch"},
        {HEAD "\"switch\"," TWO "}", "in.txt:/fabric", "the others have links"},
        {HEAD "\"pcie\"," TWO ",\"link_bytes_per_s\":1e9}", "in.txt:/fabric", "has no links"},
        {HEAD "\"direct\"," TWO ",\"links\":[{\"gpus\":[0,2],\"bytes_per_s\":1e9}]}", "in.txt:/links/0/gpus", "0 to 1"},
        {HEAD "\"direct\"," TWO ",\"links\":[{\"gpus\":[1,1],\"bytes_per_s\":1e9}]}", "in.txt:/links/0/gpus",
         "different"},
        {HEAD "\"direct\"," TWO ",\"links\":[{\"gpus\":[0],\"bytes_per_s\":1e9}]}", "in.txt:/links/0/gpus", "two"},
        {HEAD "\"direct\"," TWO ",\"links\":[{\"gpus\":[0,1],\"bytes_per_s\":-1}]}", "in.txt:/links/0/bytes_per_s",
         "-1"},
        {HEAD "\"direct\"," TWO ",\"links\":[{\"gpus\":[0,1],\"bytes_per_s\":9},{\"gpus\":[1,0],\"bytes_per_s\":9}]}",
         "in.txt:/links/1/gpus", "twice"},
        {HEAD "\"pcie\",\"gpus\":[{\"type\":\"Voodoo2\"}]}", "in.txt:/gpus/0/type", "nor a GPU preset"},
        {HEAD "\"pcie\",\"gpus\":[{\"type\":\"/etc/passwd\"}]}", "in.txt:/gpus/0/type", "nor a GPU preset"},
        {HEAD "\"pcie\"," TWO ",\"hosts\":3}", "in.txt:/hosts", "fill the hosts evenly"},
        {HEAD "\"pcie\"," TWO ",\"nics\":[{\"nearest_gpu\":2}]}", "in.txt:/nics/0/nearest_gpu", "has 2 GPUs"},
        {HEAD "\"pcie\",\"nics\":[{\"bytes_per_s\":1e99}]}", "in.txt:/nics/0/bytes_per_s", "1e+99"},
        {HEAD "\"pcie\",\"gpu_types\":[{\"name\":\"x\"}]}", "in.txt:/gpu_types/0/vendor", "is missing"},
        {HEAD "\"pcie\",\"warnings\":[7]}", "in.txt:/warnings", "strings only"},
        {"<topology version=\"2.0\">", "in.txt:1:25", "not valid XML"},
        {"<topology version=\"2.0\"/>", "in.txt", "without any processor"},
        {"<topology version=\"4.0\"/>", "in.txt:1:1", "hwloc XML version 4.0: redco reads up to 3.x"},
        {"<topology version=\"x\"/>", "in.txt:1:1", "is not a version"},
        {"<topology version=\"2.0\"><object type=\"PU\"/></topology>", "in.txt:1:25", "without \"cpuset\""},
        {"<topology version=\"2.0\"><object type=\"PU\" cpuset=\"1\"/></topology>", "in.txt:1:25",
         "without \"complete_cpuset\""},
        {"<topology version=\"2.0\"><object/></topology>", "in.txt:1:25", "without a type"},
        {"<topology version=\"2.0\"><object type=\"PU\" cpuset=\"1\" complete_cpuset=\"1\"/></topology>", "in.txt:1:25",
         "without \"nodeset\""},
        {"<topology><object type=\"PU\" cpuset=\"1\" complete_cpuset=\"1\" nodeset=\"1\"/></topology>", "in.txt:1:11",
         "without \"complete_nodeset\""},
        {"<topology><object type=\"Quark\" cpuset=\"1\" complete_cpuset=\"1\"><object type=\"PU\" cpuset=\"1\" "
         "complete_cpuset=\"1\"/></object></topology>",
         "in.txt", "cannot make a topology"},
        {"<html/>", "in.txt:1:1", "element <html> is neither"},
        {"<graphs version=\"1\"/>", "in.txt:1:1", "is an NCCL graph file"},
        {"<system version=\"1\"><cpu numaid=\"x\"/></system>", "in.txt:1:21", "numaid=\"x\""},
        {"<system version=\"1\"><cpu><pci busid=\"1\"/></cpu></system>", "in.txt:1:26", "a PCI address"},
        {"<system version=\"1\"><cpu><gpu dev=\"0\"/></cpu></system>", "in.txt:1:26", "outside of a pci"},
        {"<system version=\"1\"><cpu><pci busid=\"0000:01:00.0\"><nvlink/></pci></cpu></system>", "in.txt:1:52",
         "outside of a gpu"},
        {"<system version=\"1\"><cpu><nic><net speed=\"-5\"/></nic></cpu></system>", "in.txt:1:31", "speed=\"-5\""},
    };
    (void)state;
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

/* Cut anywhere, a file is an error and never this machine. */
static void cut_files_are_refused(void **state)
{
    static const char *const files[] = {"hwloc-4xa100.xml", "nccl-4xh100.xml"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        static char text[65536];
        (void)snprintf(path, sizeof path, "%s/topology/%s", REDCO_TEST_DATA, files[i]);
        FILE *stream = fopen(path, "rb");
        assert_non_null(stream);
        const size_t size = fread(text, 1, sizeof text, stream);
        assert_int_equal(fclose(stream), 0);
        for (size_t cut = 1; cut + 2 < size; cut += 97) { /* the last byte is the line's end */
            redco_node *node = NULL;
            assert_int_equal(redco_node_parse(text, cut, "cut", 0, &node, NULL), REDCO_EVALUE);
            assert_null(node);
        }
    }
}

static void missing_files_are_said_to_be_missing(void **state)
{
    redco_node *node = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_node_discover("/nonexistent/node.xml", &node, &err), REDCO_EIO);
    assert_string_equal(err.place, "/nonexistent/node.xml");
    assert_null(node);
}

static void this_machine_is_a_node(void **state)
{
    redco_node *node = NULL;
    const redco_node_numa *numas = NULL;
    (void)state;
    assert_int_equal(redco_node_discover(NULL, &node, NULL), REDCO_OK);
    assert_true(redco_node_numas(node, &numas) >= 1);
    assert_true(numas[0].cpus >= 1);
    check_round_trip(node);
    redco_node_free(node);
}

struct uniform_row {
    const char *gpu;
    uint32_t gpus;
    redco_fabric fabric;
    uint32_t group, hosts;
    uint32_t link_group; /* wanted */
    double first, last;  /* GB/s between GPUs 0-1 and 0-last */
    double scale_up;
};

static void uniform_nodes_have_equal_links(void **state)
{
    static const struct uniform_row rows[] = {
        {"A800-SXM4-80GB", 8, REDCO_FABRIC_SWITCH, 0, 1, 8, 200, 200, 200},
        {"GB200-per-GPU", 72, REDCO_FABRIC_SWITCH, 0, 18, 72, 900, 900, 900},
        {"A100-PCIe-80GB", 4, REDCO_FABRIC_DIRECT, 2, 1, 2, 300, 0, 300},
        {"MI300X", 8, REDCO_FABRIC_DIRECT, 0, 1, 8, 64, 64, 448}, /* 7 links of 64 GB/s */
        {"A100-SXM4-40GB", 4, REDCO_FABRIC_DIRECT, 4, 1, 4, 100, 100, 300},
        {"RTX-4090", 8, REDCO_FABRIC_PCIE, 0, 1, 1, 0, 0, 0},
        {"T4", 1, REDCO_FABRIC_DIRECT, 1, 1, 1, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct uniform_row *row = &rows[i];
        redco_gpu gpu;
        redco_gpu back;
        redco_node *node = NULL;
        const redco_node_nic *nics = NULL;
        assert_int_equal(redco_gpu_find(row->gpu, &gpu, NULL), REDCO_OK);
        assert_int_equal(redco_node_uniform("u", &gpu, row->gpus, row->fabric, row->group, 4, 25e9, REDCO_CPU_AMD,
                                            row->hosts, &node, NULL),
                         REDCO_OK);
        assert_int_equal(redco_node_link_group(node), row->link_group);
        assert_rate(redco_node_link(node, 0, 1), row->first);
        assert_rate(redco_node_link(node, 0, row->gpus - 1), row->last);
        assert_rate(redco_node_scale_up(node), row->scale_up);
        assert_int_equal(redco_node_hosts(node), row->hosts);
        assert_int_equal(redco_node_nics(node, &nics), 4);
        assert_int_equal(nics[3].nearest_gpu, 3 * row->gpus / 4);
        assert_int_equal(redco_node_gpu_type(node, &back, NULL), REDCO_OK);
        assert_memory_equal(&back, &gpu, sizeof gpu);
        check_round_trip(node);
        redco_node_free(node);
    }
}

static void uneven_uniform_nodes_are_refused(void **state)
{
    redco_gpu gpu;
    redco_node *node = NULL;
    (void)state;
    assert_int_equal(redco_gpu_find("T4", &gpu, NULL), REDCO_OK);
    assert_int_equal(redco_node_uniform("u", &gpu, 0, REDCO_FABRIC_PCIE, 0, 0, 0, 0, 1, &node, NULL), REDCO_EVALUE);
    assert_int_equal(redco_node_uniform("u", &gpu, 8, REDCO_FABRIC_PCIE, 0, 0, 0, 0, 3, &node, NULL), REDCO_EVALUE);
    assert_int_equal(redco_node_uniform("u", &gpu, 8, REDCO_FABRIC_SWITCH, 0, 0, 0, 0, 1, &node, NULL), REDCO_EVALUE);
    assert_int_equal(redco_node_uniform("u", &gpu, 8, REDCO_FABRIC_PCIE, 0, 1, (double)NAN, 0, 1, &node, NULL),
                     REDCO_EVALUE);
    assert_int_equal(redco_node_uniform("u", &gpu, 4096, REDCO_FABRIC_PCIE, 0, 0, 0, 0, 1, &node, NULL), REDCO_EVALUE);
    assert_int_equal(redco_gpu_find("A100-PCIe-80GB", &gpu, NULL), REDCO_OK);
    assert_int_equal(redco_node_uniform("u", &gpu, 4, REDCO_FABRIC_DIRECT, 3, 0, 0, 0, 1, &node, NULL), REDCO_EVALUE);
    assert_null(node);
}

/* Names that people and drivers write are kept as printable UTF-8. */
static void mixed_types_are_named(void **state)
{
    redco_node *node = NULL;
    redco_gpu gpu;
    redco_error err = {0};
    (void)state;
    assert_int_equal(parse(HEAD
                           "\"pcie\",\"name\":\"b\\u00fc\\u0007ro\",\"gpus\":[{\"type\":\"T4\"},{\"type\":\"A10\"}]}",
                           &node, NULL),
                     REDCO_OK);
    assert_string_equal(redco_node_name(node), "b\xc3\xbc?ro");
    assert_int_equal(redco_node_gpu_type(node, &gpu, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "GPU 0 is of type T4, GPU 1 of type A10"));
    redco_node_free(node);
}

static void drivers_names_mean_presets(void **state)
{
    static const char *const rows[][2] = {
        {"Tesla V100-SXM3-32GB-H", "V100-SXM3-32GB"},
        {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
        {"NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"},
        {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
        {"NVIDIA H100 PCIe", "H100-PCIe-80GB"},
        {"NVIDIA H200", "H200-SXM-141GB"},
        {"NVIDIA H20", "H20-SXM-96GB"},
        {"NVIDIA GeForce RTX 4090", "RTX-4090"},
        {"AMD Instinct MI300X OAM", "MI300X"},
        {"AMD Instinct MI300X VF", "MI300X"},
        {"NVIDIA B300 SXM6 AC", "B300-SXM-270GB"},
        {"NVIDIA GB300", "GB300-per-GPU"},
        {"Tesla T4", "T4"},
        {"NVIDIA A10", "A10"},
        {"NVIDIA A10G", "A10G"},
        {"Tesla T4G", NULL},
        {"NVIDIA A100-SXM-64GB", NULL},
        {"Tesla P100-PCIE-16GB", "P100-PCIe-16GB"},
        {"NVIDIA H100 NVL", "H100-NVL-94GB"},
        {"NVIDIA RTX A6000", "RTX-A6000"},
        {"NVIDIA A40", "A40"},
        {"NVIDIA L40", "L40"},
        {"NVIDIA L4", "L4"},
        {"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"},
        {"NVIDIA GH200 480GB", "GH200-96GB"},
        {"NVIDIA GeForce RTX 5090", "RTX-5090"},
        {"AMD Instinct MI355X", "MI355X"},
        {"NVIDIA GeForce RTX 5090 D", NULL},
        {"", NULL},
        {"NVIDIA ", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = redcoi_preset_of_model(rows[i][0]);
        if (rows[i][1] == NULL) {
            assert_null(got);
        } else {
            assert_non_null(got);
            assert_string_equal(got, rows[i][1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_nodes_are_refused),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(missing_files_are_said_to_be_missing),
        cmocka_unit_test(this_machine_is_a_node),
        cmocka_unit_test(uniform_nodes_have_equal_links),
        cmocka_unit_test(uneven_uniform_nodes_are_refused),
        cmocka_unit_test(mixed_types_are_named),
        cmocka_unit_test(drivers_names_mean_presets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
