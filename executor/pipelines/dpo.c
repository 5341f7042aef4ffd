/* Direct preference optimisation (Rafailov et al., arXiv 2305.18290) of byte_model.c's model against a frozen copy
 * of it. Examples are {"prompt": "...", "chosen": "...", "rejected": "..."}; the metric is the share of pairs that the
 * policy moved towards the chosen text. Both models begin with --weights-of policy.=DIR --weights-of reference.=DIR;
 * --predict continues {"text": "..."} by the policy. */
#include "executor/pipeline/user_pipeline.h"

#include <string.h>

enum { LENGTH = 64, PAIR = 2 };
static const double beta = 0.1; /* as in the paper */
static const char config[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4,"
    " \"n_positions\": 512}";

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_language_model(shape, "policy.", config);
    redco_user_pipeline_language_model(shape, "reference.", config);
    redco_user_pipeline_training(shape, "reference.", REDCO_FROZEN);
    redco_user_pipeline_input(shape, "bytes", REDCO_I32, 2, (const uint64_t[]){PAIR, LENGTH});
    redco_user_pipeline_input(shape, "next", REDCO_I32, 2, (const uint64_t[]){PAIR, LENGTH});
}

/* Bytes of prompt and answer, and of the answer what is asked for. */
static bool put(const char *prompt, const char *answer, int32_t *bytes, int32_t *next)
{
    const size_t begin = strlen(prompt), end = begin + strlen(answer);
    for (size_t c = 0; c < LENGTH; c++) { next[c] = -100; }
    if (begin == 0 || end == begin || end > LENGTH + 1) { return false; }
    for (size_t c = 0; c < end; c++) {
        const int32_t byte = (unsigned char)(c < begin ? prompt[c] : answer[c - begin]);
        if (c < LENGTH) { bytes[c] = byte; }
        if (c >= begin) { next[c - 1] = byte; }
    }
    return true;
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    static const char *const kinds[PAIR] = {"chosen", "rejected"};
    for (uint32_t i = 0; i < count; i++) {
        const char *const prompt = json_string_value(json_object_get(examples[i], "prompt"));
        for (uint32_t k = 0; k < PAIR; k++) {
            const char *const answer = json_string_value(json_object_get(examples[i], kinds[k]));
            const size_t at = ((size_t)i * PAIR + k) * LENGTH;
            if (prompt != NULL && answer != NULL &&
                put(prompt, answer, (int32_t *)data[0] + at, (int32_t *)data[1] + at)) {
                continue;
            }
            return redco_fail(err, REDCO_EVALUE, "", "\"prompt\" and \"%s\" are no texts of together at most %d bytes",
                              kinds[k], LENGTH + 1);
        }
    }
    return REDCO_OK;
}

/* Log-probability of the chosen answer less that of the rejected one: [examples]. */
static redco_value preference(redco_scope *scope, const char *model)
{
    redco_graph *const g = scope->graph;
    const redco_value bytes = redco_scope_value(scope, "bytes"), next = redco_scope_value(scope, "next");
    const uint64_t examples = redco_value_type(g, bytes)->dim[0];
    const uint64_t flat[2] = {examples * PAIR, LENGTH}, apart[2] = {examples, PAIR};
    const redco_value logits = redco_user_pipeline_logits(scope, model, redco_reshape(g, bytes, 2, flat));
    const redco_value losses = redco_cross_entropy(g, logits, redco_reshape(g, next, 2, flat), true);
    const redco_value answers = redco_reshape(g, redco_sum_axis(g, losses, 1, false), 2, apart);
    const redco_value less = redco_sub(g, redco_slice_axis(g, answers, 1, 1, 1), redco_slice_axis(g, answers, 1, 0, 1));
    return redco_reshape(g, less, 1, &examples);
}

/* Rewards of chosen answers less those of rejected ones. */
static redco_value margin(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    return redco_scale(g, redco_sub(g, preference(scope, "policy."), preference(scope, "reference.")), beta);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value lost = redco_softplus(g, redco_neg(g, margin(scope))); /* -log sigmoid(margin) */
    return redco_cast(g, redco_mean_all(g, lost), redco_dtype_statistic(scope->compute));
}

static double is_won(const json_t *example, const json_t *prediction)
{
    (void)example;
    return json_number_value(prediction) > 0.0 ? 1.0 : 0.0;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "dpo",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = margin,
                                                       .generates = "policy.",
                                                       .metric = is_won};
