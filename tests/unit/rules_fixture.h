/* A parameter tree with all that is decided and known of it. */
#ifndef RULES_FIXTURE_H
#define RULES_FIXTURE_H

#include "planner/rules/rules_explain.h"
#include "planner/rules/rules_params.h"
#include "planner/rules/rules_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parameter of one, two or three dimensions. */
#define P1(path, a)                                                                                                    \
    {                                                                                                                  \
        path, 1,                                                                                                       \
        {                                                                                                              \
            a                                                                                                          \
        }                                                                                                              \
    }
#define P2(path, a, b)                                                                                                 \
    {                                                                                                                  \
        path, 2,                                                                                                       \
        {                                                                                                              \
            a, b                                                                                                       \
        }                                                                                                              \
    }
#define P3(path, a, b, c)                                                                                              \
    {                                                                                                                  \
        path, 3,                                                                                                       \
        {                                                                                                              \
            a, b, c                                                                                                    \
        }                                                                                                              \
    }

/* "embedding[0] fc/kernel[1] bias[-]" */
static inline void rules_text(const redco_rules *rules, char *buffer, size_t size)
{
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        char dim[16] = "-";
        if (list[i].dim >= 0) { (void)snprintf(dim, sizeof dim, "%d", (int)list[i].dim); }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s[%s]", i > 0 ? " " : "", list[i].key, dim);
    }
}

static inline bool same_shape(const redco_rules_param *param, const json_t *shape)
{
    bool same = json_array_size(shape) == param->rank;
    for (uint32_t i = 0; i < param->rank && same; i++) {
        same = (uint64_t)json_integer_value(json_array_get(shape, i)) == param->shape[i];
    }
    return same;
}

static inline const redco_rules_param *find_param(const redco_rules_tree *tree, const char *path)
{
    const redco_rules_param *params = NULL;
    const size_t count = redco_rules_tree_params(tree, &params);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(params[i].path, path) == 0) { return &params[i]; }
    }
    return NULL;
}

struct explained {
    redco_rules_tree *tree;
    const redco_rules_param *params;
    size_t count;
    redco_rules *rules;
    const redco_rule *list;
    size_t rule_count;
    redco_rules_setting setting;
    redco_rules_part *parts;
    redco_rules_cost *costs;
    redco_rules_warning *warnings;
    size_t warning_count;
};

/* Takes the tree. */
static inline redco_status explain_tree(redco_rules_tree *tree, const redco_rules_setting *setting,
                                        struct explained *explained)
{
    *explained = (struct explained){.tree = tree, .setting = *setting};
    explained->count = redco_rules_tree_params(tree, &explained->params);
    int32_t *dims = calloc(explained->count + 1, sizeof *dims);
    explained->costs = calloc(explained->count + 1, sizeof *explained->costs);
    redco_status st = dims != NULL && explained->costs != NULL ? REDCO_OK : REDCO_ENOMEM;
    if (st == REDCO_OK) {
        st = redco_rules_decide(explained->params, explained->count, setting->shards, &explained->rules, NULL);
    }
    if (st == REDCO_OK) { st = redco_rules_parts(explained->params, explained->count, &explained->parts, NULL); }
    for (size_t i = 0; st == REDCO_OK && i < explained->count; i++) { dims[i] = redco_rules_dim(explained->rules, i); }
    if (st == REDCO_OK) {
        explained->rule_count = redco_rules_list(explained->rules, &explained->list);
        st = redco_rules_costs(explained->params, explained->parts, dims, explained->count, &explained->setting,
                               explained->costs, NULL);
    }
    if (st == REDCO_OK) {
        const redco_rules_view view = {explained->params, explained->parts, explained->costs,
                                       explained->count,  explained->rules, &explained->setting};
        st = redco_rules_warnings(&view, &explained->warnings, &explained->warning_count, NULL);
    }
    free(dims);
    return st;
}

static inline void explained_free(struct explained *explained)
{
    free(explained->warnings);
    free(explained->costs);
    free(explained->parts);
    redco_rules_free(explained->rules);
    redco_rules_tree_free(explained->tree);
}

#endif
