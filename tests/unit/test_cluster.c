#include "topology/base/file.h"
#include "topology/base/preset.h"
#include "topology/discovery/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char combined[] = REDCO_TEST_DATA "/topology/combined.json";
static const char uneven[] = REDCO_TEST_DATA "/topology/uneven-3level.conf";

static void assert_near(double got, double want)
{
    if (!(got >= want * (1 - 1e-12) && got <= want * (1 + 1e-12))) { fail_msg("%.17g, not %.17g", got, want); }
}

static redco_cluster *must_read(const char *name, const char *node, const char *slurm, const char *hosts)
{
    redco_cluster *cluster = NULL;
    redco_error err = {0};
    if (redco_cluster_read(name, node, slurm, hosts, &cluster, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return cluster;
}

static redco_machine must_machine(const redco_cluster *cluster, uint64_t gpus)
{
    redco_machine machine;
    redco_error err = {0};
    if (redco_cluster_machine(cluster, gpus, &machine, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return machine;
}

/* The description as text; to be freed. */
static char *described(const redco_cluster *cluster)
{
    size_t size = 0;
    json_t *json = redco_cluster_describe(cluster);
    assert_non_null(json);
    char *text = redco_json_text(json, 17, &size);
    json_decref(json);
    assert_non_null(text);
    return text;
}

static redco_status from_text(const char *text, redco_cluster **cluster_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, strlen(text), "c.json", &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_cluster_from_json(&root, cluster_out, err);
    redco_json_close(document);
    return st;
}

/* Description, read again, described again: the same bytes; and the same machine. Frees the cluster. */
static void round_trip(redco_cluster *cluster, uint64_t gpus)
{
    redco_cluster *again = NULL;
    redco_error err = {0};
    char *first = described(cluster);
    if (from_text(first, &again, &err) != REDCO_OK) { fail_msg("%s: %s in %s", err.place, err.text, first); }
    char *second = described(again);
    assert_string_equal(first, second);
    const redco_machine a = must_machine(cluster, gpus);
    const redco_machine b = must_machine(again, gpus);
    assert_int_equal(a.nodes, b.nodes);
    assert_int_equal(a.gpus_per_node, b.gpus_per_node);
    assert_int_equal(a.nodes_per_leaf, b.nodes_per_leaf);
    assert_int_equal(a.nics_per_node, b.nics_per_node);
    assert_true(a.nic_bytes_per_s == b.nic_bytes_per_s && a.scale_up_bytes_per_s == b.scale_up_bytes_per_s);
    assert_true(a.network_latency_s == b.network_latency_s && a.oversubscription_ratio == b.oversubscription_ratio);
    assert_string_equal(a.gpu.name, b.gpu.name);
    redco_cluster_free(again);
    redco_cluster_free(cluster);
    free(first);
    free(second);
}

static void every_preset_reads_and_describes_itself(void **state)
{
    size_t count = 0;
    (void)state;
    for (; redco_preset_at("clusters", count) != NULL; count++) {
        redco_cluster *cluster = must_read(redco_preset_at("clusters", count)->name, NULL, NULL, NULL);
        assert_string_equal(redco_cluster_name(cluster), redco_preset_at("clusters", count)->name);
        assert_null(redco_cluster_warning(cluster, 0));
        const redco_leaf *leaves = NULL;
        assert_int_equal(redco_cluster_leaves(cluster, &leaves), 0);
        round_trip(cluster, 2); /* the smallest has 2 */
    }
    assert_true(count >= 15);
}

/* Machines by what people call them: a provider's name, or GPUs, whose server a warning then names. */
static void clusters_are_known_by_what_people_say(void **state)
{
    static const struct {
        const char *name, *cluster, *gpu;
        uint32_t gpus, nics;
        const char *warned; /* NULL: nothing was assumed */
    } rows[] = {
        {"p5.48xlarge", "p5", "H100-SXM5-80GB", 8, 32, NULL},
        {"Standard_ND96isr_H200_v5", "azure-nd-h200-v5", "H200-SXM-141GB", 8, 8, NULL},
        {"ND96amsr_A100_v4", "azure-ndm-a100-v4", "A100-SXM4-80GB", 8, 8, NULL},
        {"a2-highgpu-8g", "gcp-a2-high", "A100-SXM4-40GB", 8, 1, NULL},
        {"BM.GPU.H100.8", "oci-h100", "H100-SXM5-80GB", 8, 16, NULL},
        {"DGX H100", "dgx-h100", "H100-SXM5-80GB", 8, 8, NULL},
        {"8xH100", "dgx-h100", "H100-SXM5-80GB", 8, 8, "not H100-PCIe-80GB"},
        {"gpu_8x_h100_sxm5", "dgx-h100", "H100-SXM5-80GB", 8, 8, "preset dgx-h100"},
        {"A100 40GB", "p4d", "A100-SXM4-40GB", 8, 4, "not A100-PCIe-40GB"},
        {"4x A100 40GB", "p4d", "A100-SXM4-40GB", 4, 2, "nodes of 4"},
        {"A100 x4", "dgx-a100", "A100-SXM4-80GB", 4, 4, "nodes of 4"},
        {"4x RTX 4090", "box-4090", "RTX-4090", 4, 1, "nodes of 4"},
        {"2x3090", "RTX-3090", "RTX-3090", 2, 1, "PCIe"},
        {"NVIDIA GeForce RTX 3090", "RTX-3090", "RTX-3090", 8, 1, "PCIe"},
        {"L40S", "L40S", "L40S", 8, 1, "one adapter of 100 Gb/s are assumed"},
        {"NVIDIA A10G", "g5", "A10G", 8, 1, "preset g5"},
    };
    static const char *const unknown[] = {"A1000", "H", "8x", "x8", "0x H100", "4x", "99999x H100", "RTX", "100 GB"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_cluster *cluster = must_read(rows[i].name, NULL, NULL, NULL);
        const redco_machine machine = must_machine(cluster, (uint64_t)rows[i].gpus * 2);
        assert_string_equal(redco_cluster_name(cluster), rows[i].cluster);
        assert_string_equal(machine.gpu.name, rows[i].gpu);
        assert_int_equal(machine.gpus_per_node, rows[i].gpus);
        assert_int_equal(machine.nics_per_node, rows[i].nics);
        const char *warning = redco_cluster_warning(cluster, 0);
        assert_true((warning == NULL) == (rows[i].warned == NULL));
        if (warning != NULL) { assert_non_null(strstr(warning, rows[i].warned)); }
        redco_cluster_free(cluster);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        redco_cluster *cluster = NULL;
        assert_int_equal(redco_cluster_read(unknown[i], NULL, NULL, NULL, &cluster, NULL), REDCO_EVALUE);
    }
}

struct preset_row {
    const char *name;
    uint64_t gpus;
    uint32_t nodes, gpus_per_node, physical, hosts, nics, link_group;
    double nic_gbit_per_s, scale_up_gb_per_s;
    uint32_t leaf;
    redco_fabric fabric;
};

/* Figures of the vendors' sheets (the presets name them), written down here a second time. */
static void presets_flatten_to_machines(void **state)
{
    static const struct preset_row rows[] = {
        {"a800-hdr", 1024, 128, 8, 8, 1, 4, 8, 200, 200, 20, REDCO_FABRIC_SWITCH},
        {"a800-hdr", 131072, 16384, 8, 8, 1, 4, 8, 200, 200, 20, REDCO_FABRIC_SWITCH},
        {"a800-hdr", 4, 1, 4, 8, 1, 4, 4, 200, 200, 20, REDCO_FABRIC_SWITCH},
        {"dgx-a100", 16, 2, 8, 8, 1, 8, 8, 200, 300, 20, REDCO_FABRIC_SWITCH},
        {"dgx-h100", 16, 2, 8, 8, 1, 8, 8, 400, 450, 32, REDCO_FABRIC_SWITCH},
        {"hgx-h200", 16, 2, 8, 8, 1, 8, 8, 400, 450, 32, REDCO_FABRIC_SWITCH},
        {"p4d", 16, 2, 8, 8, 1, 4, 8, 100, 300, 0, REDCO_FABRIC_SWITCH},
        {"p5", 16, 2, 8, 8, 1, 32, 8, 100, 450, 0, REDCO_FABRIC_SWITCH},
        {"a100-40-4x", 0, 1, 4, 4, 1, 0, 4, 0, 300, 0, REDCO_FABRIC_DIRECT},
        {"a100-40-4x", 2, 1, 2, 4, 1, 0, 2, 0, 100, 0, REDCO_FABRIC_DIRECT}, /* 4 of 12 links lead to the other */
        {"a100-pcie-8x", 16, 2, 8, 8, 1, 2, 2, 100, 300, 0, REDCO_FABRIC_DIRECT},
        {"nc96ads-a100-v4", 4, 1, 4, 4, 1, 1, 2, 80, 300, 0, REDCO_FABRIC_DIRECT},
        {"box-4x3090", 0, 1, 4, 4, 1, 0, 2, 0, 56.25, 0, REDCO_FABRIC_DIRECT},
        {"p3dn", 64, 8, 8, 8, 1, 1, 8, 100, 150, 0, REDCO_FABRIC_DIRECT},
        {"p3dn", 2, 1, 2, 8, 1, 1, 2, 100, 50, 0, REDCO_FABRIC_DIRECT}, /* the best pairs share two links of 25 */
        {"box-2x3080", 0, 1, 2, 2, 1, 0, 1, 0, 0, 0, REDCO_FABRIC_PCIE},
        {"box-4090", 16, 2, 8, 8, 1, 1, 1, 100, 0, 0, REDCO_FABRIC_PCIE},
        /* NVL72: 1024 GPUs are 256 hosts; 15 racks would do for them, 16 share them equally. */
        {"gb200-nvl72", 1024, 16, 64, 64, 16, 64, 64, 400, 900, 0, REDCO_FABRIC_SWITCH},
        {"gb200-nvl72", 72, 1, 72, 72, 18, 72, 72, 400, 900, 0, REDCO_FABRIC_SWITCH},
        {"gb200-nvl72", 8, 1, 8, 8, 2, 8, 8, 400, 900, 0, REDCO_FABRIC_SWITCH},
        {"gb200-nvl72", 2, 1, 2, 4, 1, 4, 2, 400, 900, 0, REDCO_FABRIC_SWITCH},
        {"gb200-nvl72", 76, 19, 4, 4, 1, 4, 4, 400, 900, 0, REDCO_FABRIC_SWITCH}, /* 19 hosts: a prime above 18 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct preset_row *row = &rows[i];
        redco_cluster *cluster = must_read(row->name, NULL, NULL, NULL);
        const redco_machine machine = must_machine(cluster, row->gpus);
        print_message("%s %llu\n", row->name, (unsigned long long)row->gpus);
        assert_string_equal(machine.name, row->name);
        assert_int_equal(machine.nodes, row->nodes);
        assert_int_equal(machine.gpus_per_node, row->gpus_per_node);
        assert_int_equal(machine.node_gpus_physical, row->physical);
        assert_int_equal(machine.hosts_per_node, row->hosts);
        assert_int_equal(machine.nics_per_node, row->nics);
        assert_int_equal(machine.link_group_gpus, row->link_group);
        assert_int_equal(machine.nodes_per_leaf, row->leaf);
        assert_int_equal(machine.fabric, row->fabric);
        assert_near(machine.nic_bytes_per_s, row->nic_gbit_per_s * 1e9 / 8);
        assert_near(machine.node_network_bytes_per_s, row->nics * row->nic_gbit_per_s * 1e9 / 8);
        assert_near(machine.scale_up_bytes_per_s, row->scale_up_gb_per_s * 1e9);
        assert_true(machine.peer_bytes_per_s > 0.0);
        assert_near(machine.oversubscription_ratio, 1.0);
        redco_cluster_free(cluster);
    }
}

struct count_row {
    const char *cluster;
    uint64_t gpus;
    const char *what;
};

static void impossible_counts_name_the_nearest(void **state)
{
    static const struct count_row rows[] = {
        {"a800-hdr", 0, "is missing: \"a800-hdr\" has no fixed size"},
        {"a800-hdr", 1018, "1018 GPUs do not fill nodes of 8 GPUs; 1016 or 1020 would"},
        {"a800-hdr", 9, "9 GPUs do not fill nodes of 8 GPUs; 8 or 10 would"},
        {"p3dn", 3, "neither whole nodes of 8 GPUs nor a part that divides one; 2 or 4 would be right"},
        {"p3dn", 7, "4 or 8 would be right"},
        {"a800-hdr", 8000001, "8000001 GPUs are more than the 1000000 nodes"},
        {"a800-hdr", UINT64_MAX, "are more than"},
        {"a100-40-4x", 8, "8 GPUs are more than \"a100-40-4x\" has: 1 node of 4 GPUs, so at most 4"},
        {"a100-40-4x", 5, "so at most 4"},
        {"gb200-nvl72", 6, "6 GPUs do not fill hosts of 4 GPUs; 4 or 8 would"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_machine machine;
        redco_error err = {0};
        redco_cluster *cluster = must_read(rows[i].cluster, NULL, NULL, NULL);
        assert_int_equal(redco_cluster_machine(cluster, rows[i].gpus, &machine, &err), REDCO_EVALUE);
        assert_string_equal(err.place, "gpus");
        if (strstr(err.text, rows[i].what) == NULL) { fail_msg("%s", err.text); }
        redco_cluster_free(cluster);
    }
}

/* Seven of the eight GPUs behind a switch work as eight do; where links differ from pair to pair none are left out. */
static void any_part_of_a_switched_node(void **state)
{
    (void)state;
    for (uint64_t gpus = 1; gpus <= 8; gpus++) {
        redco_cluster *const cluster = must_read("a800-hdr", NULL, NULL, NULL);
        const redco_machine machine = must_machine(cluster, gpus);
        assert_int_equal(machine.nodes, 1);
        assert_int_equal(machine.gpus_per_node, gpus);
        assert_int_equal(machine.node_gpus_physical, 8);
        assert_int_equal(machine.link_group_gpus, gpus);
        redco_cluster_free(cluster);
    }
}

/* So do as many of each of several nodes, the fewest nodes of which half are used and more. */
static void the_same_part_of_several_nodes(void **state)
{
    static const struct {
        uint64_t gpus;
        uint32_t nodes, each;
    } rows[] = {{12, 2, 6}, {14, 2, 7}, {20, 4, 5}, {28, 4, 7}, {36, 6, 6}, {40, 5, 8}, {1020, 170, 6}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_cluster *const cluster = must_read("a800-hdr", NULL, NULL, NULL);
        const redco_machine machine = must_machine(cluster, rows[i].gpus);
        assert_int_equal(machine.nodes, rows[i].nodes);
        assert_int_equal(machine.gpus_per_node, rows[i].each);
        redco_cluster_free(cluster);
    }
}

static void node_and_topology_combine(void **state)
{
    const redco_leaf *leaves = NULL;
    (void)state;
    redco_cluster *cluster = must_read(combined, NULL, NULL, NULL);
    assert_int_equal(redco_cluster_nodes(cluster), 30);
    assert_int_equal(redco_cluster_leaves(cluster, &leaves), 6);
    assert_string_equal(leaves[0].name, "a1");
    assert_int_equal(leaves[3].host_count, 8);
    assert_string_equal(leaves[3].hosts[7], "m8-ib");
    assert_int_equal(leaves[0].parent, leaves[2].parent);
    assert_int_not_equal(leaves[0].parent, leaves[3].parent);
    assert_int_equal(leaves[0].ancestor_count, 2);
    assert_int_equal(leaves[5].ancestor_count, 1);
    assert_int_equal(leaves[5].parent, leaves[5].root);
    assert_int_equal(leaves[0].root, leaves[5].root);
    redco_machine machine = must_machine(cluster, 0);
    assert_int_equal(machine.nodes, 30);
    assert_int_equal(machine.nodes_per_leaf, 3); /* all leaves are needed, the smallest has 3 */
    assert_near(machine.oversubscription_ratio, 2.0);
    assert_near(machine.network_latency_s, 1.5e-6);
    assert_int_equal(machine.nics_per_node, 2);
    machine = must_machine(cluster, 4 * 8);
    assert_int_equal(machine.nodes_per_leaf, 8); /* the largest leaf holds all 8 */
    machine = must_machine(cluster, 4 * 16);
    assert_int_equal(machine.nodes_per_leaf, 5); /* 8, 6, then 5 */
    round_trip(cluster, 4 * 16);
}

static void listed_hosts_are_free_and_others_drained(void **state)
{
    const redco_leaf *leaves = NULL;
    redco_error err = {0};
    redco_machine machine;
    (void)state;
    /* a1 keeps 2, a2 none, b1 3 in file order; hall1 keeps one leaf, the others vanish. */
    redco_cluster *cluster = must_read(combined, NULL, NULL, "m[5-6]-ib,n[01,06],m2-ib,m2-ib");
    assert_int_equal(redco_cluster_nodes(cluster), 5);
    assert_int_equal(redco_cluster_leaves(cluster, &leaves), 2);
    assert_string_equal(leaves[0].hosts[1], "n06");
    assert_string_equal(leaves[1].hosts[0], "m2-ib");
    assert_int_equal(redco_cluster_machine(cluster, 24, &machine, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "5 nodes of 4 GPUs, so at most 20"));
    char *text = described(cluster);
    assert_non_null(strstr(text, "\"a1\": \"n[01,06]\""));
    assert_non_null(strstr(text, "\"core\": \"hall[1-2]\""));
    assert_non_null(strstr(text, "\"hall1\": \"a1\""));
    assert_null(strstr(text, "a2"));
    free(text);
    round_trip(cluster, 8);

    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read(combined, NULL, NULL, "n[01-02],x[7-9]", &cluster, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "hosts");
    assert_non_null(strstr(err.text, "host \"x7\" (and 2 more) is not in "));
    assert_non_null(strstr(err.text, "n[01-15],m[1-11]-ib,n[16-19]"));
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read(combined, NULL, NULL, "n[01", &cluster, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "hosts");
}

static void hosts_without_topology_fill_leaves(void **state)
{
    const redco_leaf *leaves = NULL;
    redco_cluster *cluster = must_read("a800-hdr", NULL, NULL, "g[01-45]");
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_cluster_nodes(cluster), 45);
    assert_int_equal(redco_cluster_leaves(cluster, &leaves), 3);
    assert_int_equal(leaves[2].host_count, 5);
    assert_string_equal(leaves[1].hosts[0], "g21");
    assert_int_equal(leaves[0].root, leaves[2].root);
    assert_non_null(strstr(redco_cluster_warning(cluster, 0), "leaf switches of 20"));
    assert_null(redco_cluster_warning(cluster, 1));
    round_trip(cluster, 8 * 45);
    assert_int_equal(redco_cluster_read("a800-hdr", NULL, NULL, "g1,g1", &cluster, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "\"g1\" is named twice"));
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read("a100-40-4x", NULL, NULL, "g1,g2", &cluster, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "names 2 hosts, but \"a100-40-4x\" has 1"));
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read("gb200-nvl72", NULL, NULL, "g[1-20]", &cluster, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "a node of \"gb200-nvl72\" has 18"));
}

static void a_forest_offers_its_largest_tree(void **state)
{
    static const char text[] =
        "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"f\",\"node\":{\"gpu\":\"T4\","
        "\"gpus\":2,\"fabric\":\"pcie\",\"nics\":1,\"nic_rate\":\"25 Gb/s\"},\"network\":{\"leaves\":{"
        "\"l1\":\"a[1-3]\",\"x\":\"b[1-4]\",\"l2\":\"a[4-6]\"},\"switches\":{\"s\":\"l[1-2]\"}}}";
    redco_cluster *cluster = NULL;
    redco_machine machine;
    redco_error err = {0};
    (void)state;
    assert_int_equal(from_text(text, &cluster, &err), REDCO_OK);
    machine = must_machine(cluster, 0);
    assert_int_equal(machine.nodes, 6);
    machine = must_machine(cluster, 8);
    assert_int_equal(machine.nodes_per_leaf, 4);
    assert_int_equal(redco_cluster_machine(cluster, 14, &machine, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "its 10 nodes of 2 GPUs are in 2 networks without a common root, the largest of "
                                     "which has 12"));
    round_trip(cluster, 12);
}

/* Racks of 3 hosts x 2 GPUs: r1 lacks one host, r2 has two racks. */
static void racks_with_drained_hosts(void **state)
{
    static const char text[] =
        "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"racks\",\"node\":{\"gpu\":\"T4\","
        "\"gpus\":6,\"hosts\":3,\"fabric\":\"pcie\",\"nics\":3,\"nic_rate\":\"25 Gb/s\"},\"network\":{"
        "\"leaves\":{\"r1\":[\"a[1,3]\"],\"r2\":\"b[1-6]\"},\"switches\":{\"s\":\"r[1-2]\"}}}";
    const redco_leaf *leaves = NULL;
    redco_cluster *cluster = NULL;
    redco_machine machine;
    redco_error err = {0};
    (void)state;
    assert_int_equal(from_text(text, &cluster, &err), REDCO_OK);
    assert_int_equal(redco_cluster_nodes(cluster), 3);
    assert_int_equal(redco_cluster_leaves(cluster, &leaves), 2);
    assert_int_equal(leaves[0].node_count, 1);
    assert_int_equal(leaves[1].node_count, 2);
    assert_int_equal(redco_leaf_nodes(&leaves[0], 3), 0);
    assert_int_equal(redco_leaf_nodes(&leaves[0], 2), 1);
    machine = must_machine(cluster, 12); /* 6 hosts: two whole racks */
    assert_int_equal(machine.nodes, 2);
    assert_int_equal(machine.hosts_per_node, 3);
    machine = must_machine(cluster, 0); /* 3 racks x 2 hosts and 2 x 3 are 12 GPUs each; fuller racks win */
    assert_int_equal(machine.nodes, 2);
    machine = must_machine(cluster, 4);
    assert_int_equal(machine.nodes, 1);
    assert_int_equal(machine.nics_per_node, 2);
    assert_int_equal(redco_cluster_machine(cluster, 10, &machine, &err), REDCO_EVALUE); /* 5 hosts: 5 x 1, 1 x 5 */
    assert_non_null(strstr(err.text, "10 GPUs (5 hosts) cannot be spread"));
    assert_non_null(strstr(err.text, "8 or 12 can"));
    round_trip(cluster, 12);
}

struct bad_row {
    const char *node, *rest; /* parts of a cluster file */
    const char *place, *what;
};

#define NODE "{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nics\":1,\"nic_rate\":\"100 Gb/s\"}"

static void bad_files_say_where_and_what(void **state)
{
    static const struct bad_row rows[] = {
        {NODE, ",\"nodez\":4", "c.json:/nodez", "did you mean \"node"},
        {NODE, ",\"nodes\":0", "c.json:/nodes", "from 1 to 1000000"},
        {NODE, ",\"nodes\":-5", "c.json:/nodes", "from 1 to 1000000"},
        {NODE, ",\"nodes\":1e3", "c.json:/nodes", "a whole number is needed"},
        {NODE, ",\"nodes\":{\"value\":2,\"sauce\":\"x\"}", "c.json:/nodes/sauce", "did you mean \"source\""},
        {"7", "", "c.json:/node", "an object is needed"},
        {"\"node.json\"", "", "c.json:/node", "is a path; it is followed in cluster files only"},
        {"{\"file\":\"node.json\"}", "", "c.json:/node/file", "is a path"},
        {"{}", "", "c.json:/node/gpu", "is missing"},
        {"{\"gpu\":\"T5\",\"gpus\":8,\"fabric\":\"pcie\"}", "", "c.json:/node/gpu",
         "\"T5\" is not a GPU that redco knows; known: "},
        {"{\"gpu\":\"/dev/stdin\",\"gpus\":8,\"fabric\":\"pcie\"}", "", "c.json:/node/gpu", "is not a GPU"},
        {"{\"gpu\":\"T4\",\"gpus\":0,\"fabric\":\"pcie\"}", "", "c.json:/node/gpus", "from 1 to 1024"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"wifi\"}", "", "c.json:/node/fabric",
         "is \"wifi\"; one of pcie, direct, switch is needed"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nic_rate\":\"100 Gb/s\"}", "", "c.json:/node/nics",
         "is missing"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nics\":2}", "", "c.json:/node/nic_rate", "is missing"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nics\":2,\"nic_rate\":\"100\"}", "", "c.json:/node/nic_rate",
         "has no unit"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nics\":2,\"nic_rate\":\"0 Gb/s\"}", "",
         "c.json:/node/nic_rate", "is 0 Gb/s; 0.008 Gb/s to 80000 Gb/s can be"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"hosts\":3}", "", "c.json:/node/hosts",
         "is 3, which does not divide the 8 GPUs"},
        {"{\"gpu\":\"T4\",\"gpus\":8,\"fabric\":\"pcie\",\"nick\":1}", "", "c.json:/node/nick",
         "did you mean \"nics\""},
        {NODE, ",\"network\":{\"nic_rate\":\"200 Eb/s\"}", "c.json:/network/nic_rate", "is 2e+11 Gb/s"},
        {NODE, ",\"network\":[]", "c.json:/network", "an object is needed"},
        {NODE, ",\"network\":{\"oversubscription\":0.5}", "c.json:/network/oversubscription", "from 1 to 1000"},
        {NODE, ",\"network\":{\"latency\":\"2 s\"}", "c.json:/network/latency", "is above 1 s"},
        {NODE, ",\"network\":{\"latency\":\"-2 us\"}", "c.json:/network/latency", "is out of range"},
        {NODE, ",\"network\":{\"leaf_nodes\":4,\"leaves\":{}}", "c.json:/network/leaves",
         "stands beside \"leaf_nodes\""},
        {NODE, ",\"network\":{\"switches\":{}}", "c.json:/network/switches", "needs \"leaves\""},
        {NODE, ",\"network\":{\"leaves\":{}}", "c.json:/network", "describes no switch"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":7}}", "c.json:/network/leaves/a", "an array is needed"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":[]}}", "c.json:/network/leaves/a", "is empty"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":[\"n[1-2]\"]}}", "c.json:/network/leaves/a",
         "element 0 names 2 hosts; a node of this type has 1"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":\"n1\",\"b\":\"n1\"}}", "c.json:/network/leaves/b",
         "node \"n1\" is under two switches"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":\"n1\"},\"switches\":{\"s\":\"b\"}}", "c.json:/network/switches/s",
         "described nowhere"},
        {NODE, ",\"network\":{\"leaves\":{\"a\":\"n1\"},\"switches\":{\"s\":\"t\",\"t\":\"s\"}}",
         "c.json:/network/switches/", "form a cycle"},
        {NODE, ",\"nodes\":3,\"network\":{\"leaves\":{\"a\":\"n1\"}}", "c.json:/nodes",
         "is 3, but the network names the hosts of 1 node; leave it out"},
        {NODE, ",\"network\":{\"slurm_topology\":\"t.conf\"}", "c.json:/network/slurm_topology", "is a path"},
    };
    char text[1024];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_cluster *cluster = NULL;
        redco_error err = {0};
        (void)snprintf(text, sizeof text, "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"c\",\"node\":%s%s}",
                       rows[i].node, rows[i].rest);
        if (from_text(text, &cluster, &err) != REDCO_EVALUE) { fail_msg("accepted: %s", text); }
        if (strncmp(err.place, rows[i].place, strlen(rows[i].place)) != 0 || strstr(err.text, rows[i].what) == NULL) {
            fail_msg("%s -> %s: %s", text, err.place, err.text);
        }
    }
}

static void formats_and_names_are_checked(void **state)
{
    static const struct bad_row rows[] = {
        {"{\"format\":\"redco-plan\",\"version\":1}", NULL, "c.json:/format", "\"redco-cluster\" is needed"},
        {"{\"format\":\"redco-cluster\",\"version\":2}", NULL, "c.json:/version", "a newer redco is needed"},
        {"{\"format\":\"redco-cluster\",\"version\":1}", NULL, "c.json:/name", "is missing"},
        {"{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"\"}", NULL, "c.json:/name", "1 to 63"},
        {"[]", NULL, "c.json", "an object"},
        {"{", NULL, "c.json:1:", "not valid JSON"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_cluster *cluster = NULL;
        redco_error err = {0};
        assert_int_equal(from_text(rows[i].node, &cluster, &err), REDCO_EVALUE);
        if (strncmp(err.place, rows[i].place, strlen(rows[i].place)) != 0 || strstr(err.text, rows[i].what) == NULL) {
            fail_msg("%s -> %s: %s", rows[i].node, err.place, err.text);
        }
    }
}

static void unknown_names_and_missing_files(void **state)
{
    redco_cluster *cluster = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_cluster_read("a900", NULL, NULL, NULL, &cluster, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "known: a100-40-4x, a100-pcie-8x, a800-hdr"));
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read("/nonexistent/c.json", NULL, NULL, NULL, &cluster, &err), REDCO_EIO);
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read("a800-hdr", NULL, "/nonexistent/t.conf", NULL, &cluster, &err), REDCO_EIO);
    assert_string_equal(err.place, "/nonexistent/t.conf");
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read("a800-hdr", "/nonexistent/n.xml", NULL, NULL, &cluster, &err), REDCO_EIO);
    redco_error_clear(&err);
    assert_int_equal(redco_cluster_read(NULL, NULL, NULL, NULL, &cluster, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "cluster");
}

/* A topology.conf on the command line replaces the file's; the network's other values stay. */
static void topology_on_the_command_line_replaces_the_shape(void **state)
{
    redco_cluster *cluster = must_read("a800-hdr", NULL, uneven, NULL);
    (void)state;
    assert_int_equal(redco_cluster_nodes(cluster), 30);
    const redco_machine machine = must_machine(cluster, 0);
    assert_int_equal(machine.nodes_per_leaf, 3);
    assert_string_equal(machine.gpu.name, "A800-SXM4-80GB");
    round_trip(cluster, 240);
}

/* Writes a file into a folder; its path is to be freed. */
static char *write_beside(const char *folder, const char *name, const char *text)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    assert_int_equal(redco_file_write(path, text, strlen(text), NULL), REDCO_OK);
    return path;
}

/* A node in full (as redco-topo prints it) in a file beside the cluster file, by relative path; inline; and NIC values
 * of the network section instead of the node's. */
static void full_nodes_by_path_and_inline(void **state)
{
    char folder[] = "/tmp/redco-test-XXXXXX";
    char text[512];
    size_t size = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    redco_cluster *preset = must_read("dgx-a100", NULL, NULL, NULL);
    json_t *node = redco_node_describe(redco_cluster_node(preset));
    char *node_text = redco_json_text(node, 17, &size);
    char *node_path = write_beside(folder, "node.json", node_text);
    (void)snprintf(text, sizeof text,
                   "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"byfile\",\"node\":\"node.json\",\"nodes\":4,"
                   "\"network\":{\"nics\":2,\"nic_rate\":\"400 Gb/s\",\"leaf_nodes\":2}}");
    char *path = write_beside(folder, "cluster.json", text);
    redco_cluster *cluster = must_read(path, NULL, NULL, NULL);
    redco_machine machine = must_machine(cluster, 0);
    assert_int_equal(machine.nodes, 4);
    assert_int_equal(machine.nics_per_node, 2);
    assert_near(machine.nic_bytes_per_s, 50e9);
    assert_int_equal(machine.nodes_per_leaf, 2);
    assert_string_equal(machine.gpu.name, "A100-SXM4-80GB");
    round_trip(cluster, 32);

    cluster = must_read("box-4090", node_path, NULL, NULL); /* only the node type is replaced */
    machine = must_machine(cluster, 16);
    assert_string_equal(machine.name, "box-4090");
    assert_string_equal(machine.gpu.name, "A100-SXM4-80GB");
    assert_int_equal(machine.nics_per_node, 8);
    round_trip(cluster, 16);
    round_trip(must_read(NULL, node_path, uneven, "n[01-15]"), 8 * 15);

    (void)unlink(path);
    (void)unlink(node_path);
    (void)rmdir(folder);
    json_decref(node);
    free(node_text);
    free(node_path);
    free(path);
    redco_cluster_free(preset);
}

static bool there(const char *path)
{
    if (access(path, R_OK) == 0) { return true; }
    print_message("skipped: no %s\n", path);
    return false;
}

/* A recorded node with a topology.conf of 10000 hosts: all at once, and small when described. */
static void recorded_node_and_large_topology(void **state)
{
    static const char xml[] = REDCO_SHARED_DIR "/topology/hwloc-xml/constructed_dgx_a100_8gpu_8ib_nvml.xml";
    static const char slurm[] = REDCO_SHARED_DIR "/topology/slurm/tree_4level_10000nodes.conf";
    (void)state;
    if (!there(xml) || !there(slurm)) { skip(); }
    redco_cluster *cluster = must_read(NULL, xml, slurm, "peta[10000-10009,10020-19999]");
    const redco_machine machine = must_machine(cluster, 8 * 8192);
    assert_int_equal(machine.nodes, 8192);
    assert_int_equal(machine.nodes_per_leaf, 20);
    assert_int_equal(redco_cluster_nodes(cluster), 9990);
    char *text = described(cluster);
    assert_true(strlen(text) < 50000);
    free(text);
    round_trip(cluster, 8 * 8192);
}

static void site_file_of_unnamed_gpus(void **state)
{
    static const char xml[] = REDCO_SHARED_DIR "/topology/nccl-xml/azure-ndv4-topo.xml";
    char folder[] = "/tmp/redco-test-XXXXXX";
    char text[1024];
    (void)state;
    if (!there(xml)) { skip(); }
    assert_non_null(mkdtemp(folder));
    (void)snprintf(text, sizeof text,
                   "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"ndv4\",\"node\":{\"file\":\"%s\","
                   "\"gpu\":\"A100-SXM4-40GB\"},\"network\":{\"nics\":8,\"nic_rate\":\"200 Gb/s\"}}",
                   xml);
    char *path = write_beside(folder, "c.json", text);
    redco_cluster *cluster = must_read(path, NULL, NULL, NULL);
    const redco_machine machine = must_machine(cluster, 64);
    assert_string_equal(machine.gpu.name, "A100-SXM4-40GB");
    assert_int_equal(machine.gpus_per_node, 8);
    round_trip(cluster, 64);
    (void)unlink(path);
    (void)rmdir(folder);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_reads_and_describes_itself),
        cmocka_unit_test(clusters_are_known_by_what_people_say),
        cmocka_unit_test(presets_flatten_to_machines),
        cmocka_unit_test(impossible_counts_name_the_nearest),
        cmocka_unit_test(any_part_of_a_switched_node),
        cmocka_unit_test(the_same_part_of_several_nodes),
        cmocka_unit_test(node_and_topology_combine),
        cmocka_unit_test(listed_hosts_are_free_and_others_drained),
        cmocka_unit_test(hosts_without_topology_fill_leaves),
        cmocka_unit_test(a_forest_offers_its_largest_tree),
        cmocka_unit_test(racks_with_drained_hosts),
        cmocka_unit_test(bad_files_say_where_and_what),
        cmocka_unit_test(formats_and_names_are_checked),
        cmocka_unit_test(unknown_names_and_missing_files),
        cmocka_unit_test(topology_on_the_command_line_replaces_the_shape),
        cmocka_unit_test(full_nodes_by_path_and_inline),
        cmocka_unit_test(recorded_node_and_large_topology),
        cmocka_unit_test(site_file_of_unnamed_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
