/* A language model of bytes: GPT-2's architecture, two blocks, on lines {"text": "..."} of up to 129 bytes
 * (data/README.md: Alice's Adventures in Wonderland). --predict continues {"text": "..."}. */
#include "executor/pipeline/user_pipeline.h"

#include <string.h>

enum { LENGTH = 128 };
static const char config[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4,"
    " \"n_positions\": 512}";

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_language_model(shape, "", config);
    redco_user_pipeline_input(shape, "bytes", REDCO_I32, 1, (const uint64_t[]){LENGTH});
    redco_user_pipeline_input(shape, "next", REDCO_I32, 1, (const uint64_t[]){LENGTH});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    int32_t *const bytes = data[0], *const next = data[1];
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const text = json_object_get(examples[i], "text");
        const size_t length = json_string_length(text);
        if (length < 2 || length > LENGTH + 1) {
            return redco_fail(err, REDCO_EVALUE, "", "\"text\" is no text of 2 to %d bytes", LENGTH + 1);
        }
        const unsigned char *const at = (const unsigned char *)json_string_value(text);
        for (uint32_t c = 0; c < LENGTH; c++) {
            bytes[i * LENGTH + c] = c < length ? at[c] : 0;
            next[i * LENGTH + c] = c + 1 < length ? at[c + 1] : -100; /* not asked for */
        }
    }
    return REDCO_OK;
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value next = redco_scope_value(scope, "next");
    const redco_value logits = redco_user_pipeline_logits(scope, "", redco_scope_value(scope, "bytes"));
    (void)context;
    const redco_value losses = redco_cross_entropy(g, logits, next, true);
    const redco_value asked = redco_cast(g, redco_less_equal(g, redco_scalar(g, REDCO_I32, 0.0), next),
                                         redco_dtype_statistic(scope->compute));
    return redco_div(g, redco_sum_all(g, losses), redco_sum_all(g, asked));
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "byte_model",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .generates = ""};
