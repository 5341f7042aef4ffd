/** @file node_checks.h  Shared by the tests of nodes. */
#ifndef REDCO_TESTS_NODE_CHECKS_H
#define REDCO_TESTS_NODE_CHECKS_H

#include "topology/discovery/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void assert_rate(double got_bytes_per_s, double wanted_gigabytes_per_s)
{
    const double wanted = wanted_gigabytes_per_s * 1e9;
    if (!(fabs(got_bytes_per_s - wanted) <= 1e-6 * wanted)) {
        print_error("%.9g bytes/s where %.9g are wanted\n", got_bytes_per_s, wanted);
        fail();
    }
}

static inline char *described(const redco_node *node, size_t *size_out)
{
    json_t *json = redco_node_describe(node);
    assert_non_null(json);
    char *text = redco_json_text(json, 10, size_out);
    assert_non_null(text);
    json_decref(json);
    return text;
}

/* Description -> node -> description: the same bytes. */
static inline void check_round_trip(const redco_node *node)
{
    size_t size = 0;
    size_t again_size = 0;
    redco_node *again = NULL;
    redco_error err = {0};
    char *text = described(node, &size);
    if (redco_node_parse(text, size, "round trip", 0, &again, &err) != REDCO_OK) {
        print_error("%s: %s\n", err.place, err.text);
        fail();
    }
    char *again_text = described(again, &again_size);
    assert_string_equal(text, again_text);
    assert_int_equal(redco_node_link_group(node), redco_node_link_group(again));
    free(text);
    free(again_text);
    redco_node_free(again);
}

#endif
