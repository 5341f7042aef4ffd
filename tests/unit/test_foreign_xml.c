/* hwloc XML of strangers: what hwloc crashes on, formats it does not read, indices that ask for gigabytes. */
#include "tests/unit/node_checks.h"
#include "topology/discovery/node_internal.h"

#include <errno.h>
#include <sys/wait.h>

static char *text_of(const char *file, size_t *size_out)
{
    char path[512];
    enum { LARGEST = 65536 };
    char *text = calloc(1, LARGEST + 1);
    (void)snprintf(path, sizeof path, "%s/topology/%s", REDCO_TEST_DATA, file);
    FILE *stream = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(stream);
    *size_out = fread(text, 1, LARGEST, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

/* hwloc may not get what it needs: the answer is a node or a refusal, never a crash of this process. */
static void any_attribute_may_be_missing(void **state)
{
    size_t size = 0;
    size_t tried = 0;
    char *whole = text_of("hwloc-4xa100.xml", &size);
    char *text = malloc(size + 1);
    (void)state;
    assert_non_null(text);
    for (const char *at = strstr(whole, "<topology"); (at = strstr(at, "=\"")) != NULL; at++) {
        const char *begin = at;
        const char *end = strchr(at + 2, '"');
        while (begin[-1] != ' ') { begin--; }
        assert_non_null(end);
        redco_node *node = NULL;
        const int length = snprintf(text, size + 1, "%.*s%s", (int)(begin - whole), whole, end + 1);
        const redco_status st = redco_node_parse(text, (size_t)length, "missing", 0, &node, NULL);
        assert_true(st == REDCO_OK || st == REDCO_EVALUE);
        assert_int_equal(st == REDCO_OK, node != NULL);
        redco_node_free(node);
        tried++;
    }
    assert_true(tried > 100);
    free(text);
    free(whole);
}

/* hwloc 2.9.0 reads address 0 where the Machine has no complete_nodeset. Past the checks, it is the child that ends. */
static void a_crash_of_hwloc_is_an_error(void **state)
{
    static const char xml[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
        "version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
        "nodeset=\"0x1\" gp_index=\"1\">\n<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" "
        "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"2\"/>\n<object type=\"PU\" "
        "os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" "
        "gp_index=\"3\"/>\n</object>\n</topology>\n";
    redco_node *node = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redcoi_node_from_hwloc_apart(xml, sizeof xml - 1, "odd.xml", &node, &err), REDCO_EVALUE);
    assert_null(node);
    assert_string_equal(err.place, "odd.xml");
    if (strstr(err.text, "is no topology that hwloc can load") == NULL) { /* later releases refuse it themselves */
        assert_non_null(strstr(err.text, "cannot make a topology"));
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}

static void check_refused(const char *xml, const char *part)
{
    redco_node *node = NULL;
    redco_error err = {0};
    assert_int_equal(redco_node_parse(xml, strlen(xml), "odd.xml", 0, &node, &err), REDCO_EVALUE);
    if (strstr(err.text, part) == NULL) {
        print_error("\"%s\" where \"%s\" is wanted\n", err.text, part);
        fail();
    }
}

/* 700 bytes would ask for half a gigabyte for each set. */
static void indices_have_a_limit(void **state)
{
    static const char *const types[] = {"PU", "NUMANode"};
    char xml[1024];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(xml, sizeof xml,
                       "<topology version=\"2.0\"><object type=\"%s\" os_index=\"4294967294\" cpuset=\"0x1\" "
                       "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/></topology>",
                       types[i]);
        check_refused(xml, "os_index=\"4294967294\"");
    }
}

/* The same machine, as hwloc 2 and as hwloc 3 write it. */
static void format_3_is_format_2(void **state)
{
    redco_node *nodes[2] = {NULL};
    char *texts[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t size = 0;
        redco_error err = {0};
        char *xml = text_of(i == 0 ? "hwloc-4xa100.xml" : "hwloc-4xa100-v3.xml", &size);
        if (redco_node_parse(xml, size, "machine", 0, &nodes[i], &err) != REDCO_OK) {
            print_error("%s: %s\n", err.place, err.text);
            fail();
        }
        texts[i] = described(nodes[i], &size);
        free(xml);
        redco_node_free(nodes[i]);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    check_refused("<topology version=\"4.0\"/>", "reads up to 3.x");
}

/* NCCL's XML: the hosts of one dump, and switches that are not on the host's bus. */
static void hosts_of_a_dump_are_apart(void **state)
{
    redco_error err = {0};
    (void)state;
    for (uint32_t host = 0; host < 3; host++) {
        redco_node *node = NULL;
        const redco_node_gpu *gpus = NULL;
        const redco_node_nic *nics = NULL;
        const redco_node_numa *numas = NULL;
        const redco_status st = redco_node_read_host(REDCO_TEST_DATA "/topology/nccl-2hosts.xml", host, &node, &err);
        assert_int_equal(st, host < 2 ? REDCO_OK : REDCO_EVALUE);
        if (st != REDCO_OK) { continue; }
        assert_int_equal(redco_node_gpus(node, &gpus), 2);
        assert_int_equal(redco_node_nics(node, &nics), 1 + host);
        assert_int_equal(redco_node_numas(node, &numas), 1);
        assert_int_equal(redco_node_fabric(node), REDCO_FABRIC_SWITCH);
        assert_int_equal(redco_node_switches(node), 0); /* none was seen */
        assert_rate(redco_node_link(node, 0, 1), 450);
        assert_non_null(strstr(redco_node_warning(node, 0), "2 hosts"));
        check_round_trip(node);
        redco_node_free(node);
    }
    assert_non_null(strstr(err.text, "there is no host 2"));
}

/* Two elements for the halves of one GPU have the links of the whole: 36 of 50 GB/s, once. */
static void halves_of_a_gpu_share_its_links(void **state)
{
    static const char xml[] =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">"
        "<pci busid=\"0002:81:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x307f\">"
        "<gpu dev=\"0\" sm=\"107\" mlopart=\"0\"><nvlink target=\"fffffff:ff:ff.0\" count=\"36\"/></gpu>"
        "<gpu dev=\"0\" sm=\"107\" mlopart=\"1\"><nvlink target=\"fffffff:ff:ff.0\" count=\"36\"/></gpu></pci>"
        "<pci busid=\"0002:82:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x307f\">"
        "<gpu dev=\"1\" sm=\"107\"><nvlink target=\"fffffff:ff:ff.0\" count=\"36\"/></gpu></pci></cpu></system>";
    redco_node *node = NULL;
    const redco_node_gpu *gpus = NULL;
    (void)state;
    assert_int_equal(redco_node_parse(xml, sizeof xml - 1, "dump", 0, &node, NULL), REDCO_OK);
    assert_int_equal(redco_node_gpus(node, &gpus), 2);
    assert_string_equal(gpus[0].model, "unknown part 10de:307f");
    assert_rate(redco_node_link(node, 0, 1), 36 * 50);
    assert_non_null(strstr(redco_node_warning(node, 1), "mlopart"));
    redco_node_free(node);
}

/* Amazon's site files have neither class nor vendor: what is there must not pass for nothing. */
static void devices_without_a_kind_are_said(void **state)
{
    static const char xml[] = "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:45:00.0\">"
                              "<pci busid=\"0000:4f:00.0\"/><pci busid=\"0000:50:00.0\"/></pci></cpu></system>";
    redco_node *node = NULL;
    (void)state;
    assert_int_equal(redco_node_parse(xml, sizeof xml - 1, "site", 0, &node, NULL), REDCO_OK);
    assert_non_null(redco_node_warning(node, 0));
    assert_non_null(strstr(redco_node_warning(node, 0), "2 pci elements have no class"));
    redco_node_free(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_attribute_may_be_missing),
        cmocka_unit_test(a_crash_of_hwloc_is_an_error),
        cmocka_unit_test(indices_have_a_limit),
        cmocka_unit_test(format_3_is_format_2),
        cmocka_unit_test(hosts_of_a_dump_are_apart),
        cmocka_unit_test(halves_of_a_gpu_share_its_links),
        cmocka_unit_test(devices_without_a_kind_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
