/* A bigram model for tests of data and losses: logits of the next token are a row of a table. Examples are
 * {"tokens": [...], "targets": [...]} of up to 8 ids below 5; -100 stands where nothing is asked for. */
#include "executor/pipeline/user_pipeline.h"

enum { LENGTH = 8, IDS = 5 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_parameter(shape, "table.weight", 2, (const uint64_t[]){IDS, IDS},
                                  (redco_initial){REDCO_INITIAL_NORMAL, 0.5});
    redco_user_pipeline_input(shape, "tokens", REDCO_I32, 1, (const uint64_t[]){LENGTH});
    redco_user_pipeline_input(shape, "targets", REDCO_I32, 1, (const uint64_t[]){LENGTH});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    static const char *const keys[] = {"tokens", "targets"};
    for (uint32_t k = 0; k < 2; k++) {
        int32_t *const to = data[k];
        for (uint32_t i = 0; i < count; i++) {
            const json_t *const list = json_object_get(examples[i], keys[k]);
            if (json_array_size(list) == 0 || json_array_size(list) > LENGTH) {
                return redco_fail(err, REDCO_EVALUE, "", "\"%s\" is no list of 1 to %d ids", keys[k], LENGTH);
            }
            for (uint32_t c = 0; c < LENGTH; c++) {
                const json_t *const id = json_array_get(list, c);
                to[i * LENGTH + c] = id != NULL ? (int32_t)json_integer_value(id) : k == 1 ? -100 : 0;
            }
        }
    }
    return REDCO_OK;
}

static redco_value logits(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value table = redco_scope_value(scope, "table.weight");
    return redco_cast(g, redco_gather(g, table, redco_scope_value(scope, "tokens"), NULL), scope->compute);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    return redco_cross_entropy_mean(scope->graph, logits(scope), redco_scope_value(scope, "targets"));
}

static double asked(const json_t *example)
{
    const json_t *const targets = json_object_get(example, "targets");
    double count = 0.0;
    for (size_t i = 0; i < json_array_size(targets); i++) {
        count += json_integer_value(json_array_get(targets, i)) >= 0 ? 1.0 : 0.0;
    }
    return count;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "bigrams",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits,
                                                       .weight = asked};
