#include "topology/base/file.h"
#include "topology/discovery/switch_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redcoi_tree *read_text(const char *text, redco_error *err)
{
    redcoi_tree *tree = NULL;
    (void)redcoi_tree_from_slurm(text, strlen(text), "t.conf", &tree, err);
    return tree;
}

static const redcoi_switch *find(const redcoi_tree *tree, const char *name)
{
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        if (strcmp(tree->switches[i].name, name) == 0) { return &tree->switches[i]; }
    }
    return NULL;
}

/* The default of two topologies; errors name lines of the file. */
static void yaml_is_read(void **state)
{
    static const char two[] = "---\n"
                              "- topology: first\n"
                              "  block:\n"
                              "    block_sizes:\n"
                              "      - 4\n"
                              "    blocks:\n"
                              "      - block: b1\n"
                              "        nodes: x[1-4]\n"
                              "- topology: second # the one\n"
                              "  cluster_default: true\n"
                              "  tree:\n"
                              "    switches:\n"
                              "      - switch: root\n"
                              "        children: s[1-2]\n"
                              "      - switch: s1\n"
                              "\n"
                              "        nodes: 'node[01-02]'\n"
                              "      - switch: s2\n"
                              "        nodes: node03\n";
    redco_error err = {0};
    (void)state;
    redcoi_tree *tree = read_text(two, &err);
    if (tree == NULL) { fail_msg("%s: %s", err.place, err.text); }
    assert_int_equal(tree->switch_count, 3);
    assert_int_equal(find(tree, "s1")->host_count, 2);
    assert_string_equal(find(tree, "s2")->place, "t.conf:18");
    assert_null(find(tree, "b1"));
    redcoi_tree_free(tree);
    tree = read_text("- topology: one\n  block:\n    blocks:\n      - block: b1\n        nodes: x[1-4]\n"
                     "      - block: b2\n        nodes: y[1-4]\n",
                     &err);
    assert_non_null(tree);
    assert_true(tree->blocks);
    assert_int_equal(find(tree, "b2")->host_count, 4);
    redcoi_tree_free(tree);
    assert_null(read_text("- topology: one\n  tree:\n    switched:\n", &err));
    assert_string_equal(err.place, "t.conf:3");
    assert_non_null(strstr(err.text, "\"switched\" is not a line of Slurm's topology.yaml"));
    err = (redco_error){0};
    assert_null(read_text("- topology: one\n  tree:\n    switches:\n      - switch: s1\n", &err));
    assert_string_equal(err.place, "t.conf:4");
}

/* Keys in any order and case, comments, quotes, continuation, LinkSpeed, blanks around "=", parents before children. */
static void grammar(void **state)
{
    redco_error err = {0};
    (void)state;
    redcoi_tree *tree = read_text("# comment \\\n"
                                  "switchname=Top SWITCHES=l[1-2]\t# more\r\n"
                                  "\n"
                                  "Nodes=n[1-2],m1 LinkSpeed=100 SwitchName = l1\n"
                                  "SwitchName=l2 \\\n"
                                  "   Nodes=\"n3\" \\\n"
                                  "\n"
                                  "   \t \n"
                                  "SwitchName=single Nodes=n4",
                                  &err);
    assert_string_equal(err.text, "");
    assert_non_null(tree);
    assert_int_equal(tree->switch_count, 4);
    assert_int_equal(redco_hostlist_count(tree->hosts), 5);
    const redcoi_switch *l1 = find(tree, "l1");
    assert_int_equal(l1->host_count, 3);
    assert_string_equal(tree->switches[l1->parent].name, "Top");
    assert_string_equal(l1->place, "t.conf:4");
    assert_string_equal(redco_hostlist_name(tree->hosts, l1->first_host + 2), "m1");
    assert_string_equal(tree->switches[find(tree, "l2")->parent].name, "Top");
    assert_int_equal(find(tree, "Top")->parent, REDCOI_NO_SWITCH);
    assert_int_equal(find(tree, "single")->parent, REDCOI_NO_SWITCH);
    redcoi_tree_free(tree);
}

struct bad_row {
    const char *text;
    const char *place;
    const char *what;
};

static void bad_files_say_where_and_what(void **state)
{
    static const struct bad_row rows[] = {
        {"", "t.conf", "describes no switch"},
        {"# only a comment\n\n", "t.conf", "describes no switch"},
        {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "t.conf:2", "\"a\" is described twice; first at t.conf:1"},
        {"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n", "t.conf:2",
         "node \"n2\" is under two switches, \"a\" and \"b\""},
        {"SwitchName=a Nodes=n1,n1\n", "t.conf:1", "node \"n1\" is named twice"},
        {"SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n", "t.conf:3",
         "\"a\" is under two switches, \"b\" and \"c\""},
        {"SwitchName=a Nodes=n1\nSwitchName=b Switches=a,a\n", "t.conf:2", "\"b\" names \"a\" twice"},
        {"SwitchName=a Nodes=n1 Switches=b\n", "t.conf:1", "has both nodes and switches"},
        {"SwitchName=a LinkSpeed=1\n", "t.conf:1", "has neither nodes nor switches"},
        {"SwitchName=a Switches=b\n", "t.conf:1", "\"a\" names \"b\", which is described nowhere"},
        {"SwitchName=a Switches=a\n", "t.conf:1", "\"a\" is above itself: the switches form a cycle"},
        {"SwitchName=l Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n",
         "t.conf:2", "form a cycle"},
        {"SwitchName=a Nodes=n[1-\n", "t.conf:1", "\"[\" without \"]\""},
        {"SwitchName=a Nodes=n[2-1]\n", "t.conf:1", "runs backwards"},
        {"SwitchName=a,b Nodes=n1\n", "t.conf:1", "one name of letters"},
        {"SwitchName=a[1-2] Nodes=n1\n", "t.conf:1", "one name of letters"},
        {"SwitchName=a Nodes=n1 SwitchName=b\n", "t.conf:1", "SwitchName is given twice"},
        {"SwitchName=a Nodes=\n", "t.conf:1", "Nodes has no value"},
        {"Nodes=n1\n", "t.conf:1", "SwitchName or BlockName is missing"},
        {"SwitchName=a Nodes=n1 LinkSpeed=fast\n", "t.conf:1", "LinkSpeed=fast is not a whole number"},
        {"SwitchName=a Nodes=n1 LinkSpeed=4294967296\n", "t.conf:1", "LinkSpeed=4294967296 is not"},
        {"SwitchName=a Nodes=n1 Colour=red\n", "t.conf:1",
         "\"Colour\" is not a key of topology/tree or topology/block; known"},
        {"SwitchName=a Nodes=n1 oops\n", "t.conf:1", "\"oops\" is not KEY=VALUE"},
        {"\n\nSwitchName=a \\\nNodes=\"n1\n", "t.conf:3", "a quotation mark is not closed"},
        {"BlockName=b1 Nodes=n[1-4]\nBlockSizes=4,\n", "t.conf:2", "BlockSizes=4, is not a whole number from 0"},
        {"# x\nblocksizes=4\n", "t.conf", "describes no switch"},
        {"BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n4\n", "t.conf:2", "node \"n4\" is under two switches"},
        {"BlockName=b1 Nodes=n1\nSwitchName=s Nodes=n2\n", "t.conf:2", "switches or blocks; this one has both"},
        {"BlockName=b1 SwitchName=s Nodes=n2\n", "t.conf:1", "SwitchName and BlockName on one line"},
        {"BlockName=b1 Switches=s\n", "t.conf:1", "a block has nodes, not switches"},
        {"BlockName=b1\n", "t.conf:1", "has neither nodes nor switches"},
        {"SwitchName=a Level=high Nodes=n1\n", "t.conf:1", "Level=high is not a whole number"},
        {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2] Switches=a\n", "t.conf:2", "has both nodes and switches"},
        {"RingName=r Nodes=n[1-4]\n", "t.conf:1", "topology/ring plug-in"},
        {"{\"a\": 1}\n", "t.conf:1", "is not KEY=VALUE"},
        {"SwitchName=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa Nodes=n1\n", "t.conf:1",
         "longer than 64 characters"},
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

static void at_most_sixteen_levels(void **state)
{
    char text[2048];
    (void)state;
    for (int levels = 16; levels <= 17; levels++) {
        redco_error err = {0};
        size_t used = (size_t)snprintf(text, sizeof text, "SwitchName=s0 Nodes=n1\n");
        for (int i = 1; i < levels; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "SwitchName=s%d Switches=s%d\n", i, i - 1);
        }
        redcoi_tree *tree = read_text(text, &err);
        if (levels == 16) {
            assert_non_null(tree);
        } else {
            assert_null(tree);
            assert_non_null(strstr(err.text, "at most 16 levels"));
        }
        redcoi_tree_free(tree);
    }
}

static void binary_input_is_refused(void **state)
{
    redcoi_tree *tree = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redcoi_tree_from_slurm("SwitchName=a Nodes=n\0001\n", 23, "t.conf", &tree, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "0x00"));
}

struct sample {
    const char *file;
    uint32_t switches, hosts, roots, tiers; /* hosts: by a script of a few lines; the rest by eye */
};

/* The samples beside the repository; what they hold is said in their own first lines and names. */
static void samples_load(void **state)
{
    static const struct sample samples[] = {
        {"tree_2level_18nodes.conf", 4, 18, 1, 2},
        {"tree_3level_400nodes.conf", 23, 400, 1, 3},
        {"tree_4level_10000nodes.conf", 529, 10000, 1, 4},
        {"tree_core_spine_leaf_96nodes_topograph.conf", 19, 96, 1, 3},
        {"tree_derived_from_ibnetdiscover.conf", 9, 119, 1, 2},
        {"tree_forest_no_common_root.conf", 7, 40, 3, 2},
        {"block_32nodes.conf", 9, 32, 1, 2}, /* 8 blocks, and what joins them */
    };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        char path[512];
        char *text = NULL;
        size_t size = 0;
        redcoi_tree *tree = NULL;
        redco_error err = {0};
        uint32_t roots = 0;
        uint32_t tiers = 0;
        (void)snprintf(path, sizeof path, "%s/topology/slurm/%s", REDCO_SHARED_DIR, samples[i].file);
        if (redco_file_read(path, 1 << 20, &text, &size, NULL) != REDCO_OK) {
            print_message("skipped: no %s\n", path);
            skip();
        }
        assert_int_equal(redcoi_tree_from_slurm(text, size, path, &tree, &err), REDCO_OK);
        assert_int_equal(tree->switch_count, samples[i].switches);
        assert_int_equal(redco_hostlist_count(tree->hosts), samples[i].hosts);
        for (uint32_t s = 0; s < tree->switch_count; s++) {
            uint32_t depth = 1;
            for (uint32_t up = s; tree->switches[up].parent != REDCOI_NO_SWITCH; up = tree->switches[up].parent) {
                depth++;
            }
            roots += depth == 1;
            tiers = depth > tiers ? depth : tiers;
        }
        assert_int_equal(roots, samples[i].roots);
        assert_int_equal(tiers, samples[i].tiers);
        redcoi_tree_free(tree);
        free(text);
    }
}

/* As "scontrol show topology" prints a tree and blocks: what Slurm derived is passed over. */
static void printed_topologies(void **state)
{
    redco_error err = {0};
    (void)state;
    redcoi_tree *tree = read_text("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-3]\n"
                                  "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[4-7]\n"
                                  "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[0-7] Switches=s[0-1]\n",
                                  &err);
    assert_string_equal(err.text, "");
    assert_int_equal(tree->switch_count, 3);
    assert_int_equal(redco_hostlist_count(tree->hosts), 8);
    assert_int_equal(find(tree, "s2")->host_count, 0);
    assert_string_equal(tree->switches[find(tree, "s1")->parent].name, "s2");
    redcoi_tree_free(tree);
    tree = read_text("BlockName=rack0 BlockIndex=0 Nodes=10.0.0.1,10.0.0.2 BlockSize=2\n"
                     "BlockName=rack1 BlockIndex=1 Nodes=10.0.1.1,10.0.1.2 BlockSize=2\n"
                     "AggregatedBlock=rack[0-1] BlockIndex=2 Nodes=10.0.0.1,10.0.0.2,10.0.1.1,10.0.1.2 BlockSize=4\n",
                     &err);
    assert_string_equal(err.text, "");
    assert_int_equal(tree->switch_count, 3);
    assert_int_equal(redco_hostlist_count(tree->hosts), 4);
    assert_int_equal(find(tree, "rack1")->host_count, 2);
    assert_int_equal(find(tree, "rack0")->parent, 2);
    assert_int_equal(find(tree, "rack1")->parent, 2);
    redcoi_tree_free(tree);
    tree = read_text("BlockName=only Nodes=n[1-4]\nBlockSizes=4\n", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(tree->switch_count, 1);
    redcoi_tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammar),
        cmocka_unit_test(yaml_is_read),
        cmocka_unit_test(bad_files_say_where_and_what),
        cmocka_unit_test(at_most_sixteen_levels),
        cmocka_unit_test(binary_input_is_refused),
        cmocka_unit_test(samples_load),
        cmocka_unit_test(printed_topologies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
