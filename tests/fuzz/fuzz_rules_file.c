/* A file of rules on a small tree: what is accepted splits only what divides, and one shard splits nothing. */
#include "planner/rules/rules_user.h"

#include <stdlib.h>

static const redco_rules_param params[] = {
    {"wte/embedding", 2, {97, 8}},         {"h/0/attn/c_attn/kernel", 2, {24, 8}},
    {"h/0/attn/c_proj/kernel", 2, {8, 8}}, {"h/0/mlp/c_fc/kernel", 2, {32, 8}},
    {"h/0/mlp/c_proj/kernel", 2, {8, 32}}, {"h/0/mlp/c_proj/bias", 1, {8}},
    {"conv/kernel", 4, {3, 3, 4, 8}},      {"scalar", 0, {0}},
};
enum { PARAMS = sizeof params / sizeof params[0] };

static void decide(const redco_user_rules *user, uint32_t shards)
{
    redco_rules *rules = NULL;
    if (redco_rules_decide_user(params, PARAMS, shards, user, &rules, NULL) != REDCO_OK) { return; }
    for (size_t i = 0; i < PARAMS; i++) {
        const int32_t dim = redco_rules_dim(rules, i);
        if (dim < REDCO_RULES_REPLICATED || dim >= (int32_t)params[i].rank || (shards == 1 && dim >= 0)) { abort(); }
        if (dim >= 0 && params[i].shape[dim] % shards != 0) { abort(); }
    }
    redco_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_user_rules *user = NULL;
    if (redco_json_parse((const char *)data, size, "rules.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_user_rules_from_json(&root, &user, NULL) == REDCO_OK) {
        for (uint32_t shards = 1; shards <= 8; shards *= 2) {
            redco_user_rules_set_mode(user, REDCO_USER_OVERRIDE);
            decide(user, shards);
            redco_user_rules_set_mode(user, REDCO_USER_REPLACE);
            decide(user, shards);
        }
    }
    redco_user_rules_free(user);
    redco_json_close(document);
    return 0;
}
