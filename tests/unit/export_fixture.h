/* A plan of the search's, and its exports: what the tests of planner/export share. */
#ifndef REDCO_TESTS_EXPORT_FIXTURE_H
#define REDCO_TESTS_EXPORT_FIXTURE_H

#include "planner/answer/priced.h"
#include "planner/export/export.h"
#include "planner/search/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static inline redco_search_options defaults(void)
{
    return (redco_search_options){.workload = {.seq_len = 4096,
                                               .global_batch = 1024,
                                               .precision = REDCO_BF16,
                                               .overlap = REDCO_OVERLAP_ALL,
                                               .bucket_bytes = (uint64_t)1 << 30},
                                  .given.micro_batch = 1,
                                  .recompute = REDCO_RECOMPUTE_FREE,
                                  .top = 1,
                                  .pass.gap_ratio = 0.0005};
}

/** A plan and what it is exported from. */
struct planned {
    redco_inputs inputs;
    redco_plan *plan;
    redco_plan_case reopened;
};

static inline void plan_open(const redco_input_names *names, uint64_t gpus, const redco_search_options *options,
                             struct planned *out)
{
    redco_error err = {0};
    redco_search_result *result = NULL;
    redco_assembler *assembler = NULL;
    *out = (struct planned){.plan = NULL};
    if (redco_inputs_read(names, gpus, &out->inputs, &err) != REDCO_OK ||
        redco_search_priced(&out->inputs, options, &result, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_int_equal(result->ranked_count, 1);
    if (redco_assembler_create(&out->inputs, options, "0.1.0", &assembler, &err) != REDCO_OK ||
        redco_plan_assemble(assembler, result, &result->ranked[0], "fixed", &out->plan, &err) != REDCO_OK ||
        redco_plan_reopen(out->plan, "plan", NULL, 0, &out->reopened, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    redco_assembler_free(assembler);
    redco_search_result_free(result);
}

static inline void plan_close(struct planned *p)
{
    redco_plan_case_free(&p->reopened);
    redco_plan_free(p->plan);
    redco_inputs_free(&p->inputs);
}

static inline redco_export *export(const struct planned *p, redco_framework framework)
{
    redco_export *made = NULL;
    redco_error err = {0};
    if (redco_export_create(p->plan, &p->reopened, framework, &made, &err) != REDCO_OK) {
        fail_msg("%s: %s: %s", redco_framework_words[framework], err.place, err.text);
    }
    return made;
}

/* The member at "a/b/c"; arrays by number. */
static inline const json_t *at(const json_t *json, const char *path)
{
    char copy[640];
    char *rest = copy;
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strsep(&rest, "/"); key != NULL && json != NULL; key = strsep(&rest, "/")) {
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10)) : json_object_get(json, key);
    }
    return json;
}

#endif
