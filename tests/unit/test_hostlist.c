#include "topology/base/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Expands and joins with blanks; NULL when refused. To be freed. */
static char *expanded(const char *text, redco_error *err)
{
    char *joined = NULL;
    size_t size = 0;
    redco_hostlist *list = redco_hostlist_new();
    assert_non_null(list);
    if (redco_hostlist_append(list, text, strlen(text), "here", err) == REDCO_OK) {
        FILE *stream = open_memstream(&joined, &size);
        for (size_t i = 0; i < redco_hostlist_count(list); i++) {
            (void)fprintf(stream, "%s%s", i > 0 ? " " : "", redco_hostlist_name(list, i));
        }
        (void)fclose(stream);
    } else {
        assert_int_equal(redco_hostlist_count(list), 0); /* nothing half-read */
    }
    redco_hostlist_free(list);
    return joined;
}

struct row {
    const char *text;
    const char *want; /* by hand, after slurm's hostlist rules */
};

static void lists_expand(void **state)
{
    static const struct row rows[] = {
        {"node1", "node1"},
        {"node[1-3]", "node1 node2 node3"},
        {"node[001-003,200]", "node001 node002 node003 node200"},
        {"node[8-11]", "node8 node9 node10 node11"},
        {"node[08-11]", "node08 node09 node10 node11"},
        {"node[098-101]", "node098 node099 node100 node101"},
        {"n[1,3,2]-ib,login", "n1-ib n3-ib n2-ib login"},
        {"a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"},
        {"a[1-2]b[03,7]c", "a1b03c a1b7c a2b03c a2b7c"},
        {"[1-3]", "1 2 3"},
        {"switch.1.[1-2]", "switch.1.1 switch.1.2"},
        {"a,a", "a a"},
        {"x[0-0]", "x0"},
        {"x[999999999999999998-999999999999999999]", "x999999999999999998 x999999999999999999"},
        {"x[001-9]", "x001 x002 x003 x004 x005 x006 x007 x008 x009"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error err = {0};
        char *got = expanded(rows[i].text, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(got, rows[i].want);
        free(got);
    }
}

static void bad_lists_say_what_is_wrong(void **state)
{
    static const struct row rows[] = {
        {"", "a name is missing"},
        {",a", "a name is missing"},
        {"a,,b", "a name is missing"},
        {"a,", "a name is missing"},
        {"a[1-2", "\"[\" without \"]\""},
        {"a]1", "\"]\" without \"[\""},
        {"a[]", "\"\" is not a number or range"},
        {"a[1-]", "\"1-\" is not a number or range"},
        {"a[-1]", "\"-1\" is not a number or range"},
        {"a[1,]", "\"\" is not a number or range"},
        {"a[x]", "\"x\" is not a number or range"},
        {"a[1-2-3]", "\"1-2-3\" is not a number or range"},
        {"a[1.5]", "\"1.5\" is not a number or range"},
        {"a[3-1]", "the range \"3-1\" runs backwards"},
        {"a[1-010]", "padded to different widths"},
        {"a[1-200001]", "more than 200000 hosts"},
        {"a[0-999]b[0-99]c[0-2]", "more than 200000 hosts"},
        {"a[1-120000],b[1-120000]", "more than 200000 hosts"},
        {"a[1234567890123456789]", "not a number or range of at most 18 digits"},
        {"a b", "character 0x20 is not part of a name"},
        {"a\tb", "character 0x09"},
        {"a=b", "character 0x3d"},
        {"[1][1][1][1][1][1][1][1][1]", "more than 8 brackets"},
        {"a[[1]]", "not a number or range"},
    };
    char name[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error err = {0};
        assert_null(expanded(rows[i].text, &err));
        assert_int_equal(err.status, REDCO_EVALUE);
        assert_string_equal(err.place, "here");
        if (strstr(err.text, rows[i].want) == NULL) { fail_msg("%s: %s", rows[i].text, err.text); }
    }
    memset(name, 'a', sizeof name);
    name[256] = '\0';
    redco_error err = {0};
    assert_null(expanded(name, &err));
    assert_non_null(strstr(err.text, "longer than 255"));
    name[255] = '\0';
    char *longest = expanded(name, NULL);
    assert_string_equal(longest, name);
    free(longest);
}

static void appending_keeps_what_is_there_on_failure(void **state)
{
    redco_hostlist *list = redco_hostlist_new();
    (void)state;
    assert_int_equal(redco_hostlist_append(list, "a[1-3]", 6, "here", NULL), REDCO_OK);
    assert_int_equal(redco_hostlist_append(list, "b[1-3],", 7, "here", NULL), REDCO_EVALUE);
    assert_int_equal(redco_hostlist_count(list), 3);
    assert_int_equal(redco_hostlist_append(list, "a\0b", 3, "here", NULL), REDCO_EVALUE);
    assert_int_equal(redco_hostlist_append(list, "c", 1, "here", NULL), REDCO_OK);
    assert_int_equal(redco_hostlist_count(list), 4);
    assert_string_equal(redco_hostlist_name(list, 0), "a1");
    assert_string_equal(redco_hostlist_name(list, 3), "c");
    redco_hostlist_free(list);
}

/* text expands, compacts to want and expands to the same again. */
static void compact_row(const char *text, const char *want)
{
    redco_hostlist *list = redco_hostlist_new();
    assert_int_equal(redco_hostlist_append(list, text, strlen(text), "here", NULL), REDCO_OK);
    const size_t count = redco_hostlist_count(list);
    const char **names = calloc(count, sizeof *names);
    for (size_t i = 0; i < count; i++) { names[i] = redco_hostlist_name(list, i); }
    char *got = redco_hostlist_compact(names, count);
    if (want != NULL) { assert_string_equal(got, want); }
    redco_hostlist *again = redco_hostlist_new();
    assert_int_equal(redco_hostlist_append(again, got, strlen(got), "again", NULL), REDCO_OK);
    assert_int_equal(redco_hostlist_count(again), count);
    for (size_t i = 0; i < count; i++) { assert_string_equal(redco_hostlist_name(again, i), names[i]); }
    redco_hostlist_free(again);
    redco_hostlist_free(list);
    free(names);
    free(got);
}

static void compacting_reverses_expanding(void **state)
{
    (void)state;
    compact_row("node1", "node1");
    compact_row("node1,node2,node3", "node[1-3]");
    compact_row("node[001-128,200]", "node[001-128,200]");
    compact_row("node9,node10", "node[9-10]");
    compact_row("node09,node10", "node[09-10]");
    compact_row("node1,node02", "node[1,02]");
    compact_row("node99,node100,node0101", "node[99-100,0101]");
    compact_row("node3,node1,node2", "node[3,1-2]");
    compact_row("a,a", "a,a");
    compact_row("n1-ib,n2-ib,login,n3-ib", "n[1-2]-ib,login,n3-ib");
    compact_row("a1b1,a2b1,a2b2", "a[1-2]b1,a2b2");
    compact_row("n1,n11", "n[1,11]");
    compact_row("1,2", "[1-2]");
    compact_row("a1b2", "a1b2");
    compact_row("x12345678901234567890,x12345678901234567891", NULL);
    char *empty = redco_hostlist_compact(NULL, 0);
    assert_string_equal(empty, "");
    free(empty);
}

/* Random lists over a small alphabet of traps (padding, neighbours, several numbers): order and names must survive. */
static void compacting_random_lists(void **state)
{
    uint32_t seed = 12345;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[2048];
        size_t used = 0;
        seed = seed * 1664525u + 1013904223u;
        const uint32_t count = 1 + (seed >> 24) % 12;
        for (uint32_t i = 0; i < count; i++) {
            seed = seed * 1664525u + 1013904223u;
            const uint32_t r = seed >> 8;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%0*u%s", i > 0 ? "," : "",
                                     r % 5 == 0 ? "m" : "n", (int)(1 + r / 5 % 3), r / 16 % 13, r % 7 == 0 ? "x1" : "");
        }
        compact_row(text, NULL);
    }
}

static void as_many_names_as_are_read(void **state)
{
    redco_hostlist *list = redco_hostlist_new();
    (void)state;
    assert_int_equal(redco_hostlist_append(list, "n[0-199]x[000-999]", 18, "here", NULL), REDCO_OK);
    assert_int_equal(redco_hostlist_count(list), 200000);
    assert_string_equal(redco_hostlist_name(list, 0), "n0x000");
    assert_string_equal(redco_hostlist_name(list, 199999), "n199x999");
    assert_int_equal(redco_hostlist_append(list, "a", 1, "here", NULL), REDCO_EVALUE);
    redco_hostlist_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_expand),
        cmocka_unit_test(bad_lists_say_what_is_wrong),
        cmocka_unit_test(appending_keeps_what_is_there_on_failure),
        cmocka_unit_test(compacting_reverses_expanding),
        cmocka_unit_test(compacting_random_lists),
        cmocka_unit_test(as_many_names_as_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
