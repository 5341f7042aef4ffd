/* Text to text: dates as people write them ("March 5, 2021", "5.3.2021") to ISO 8601 ("2021-03-05"). The letters are
 * encoded by a transformer's block; a query for each of the ten letters of the answer looks at them. Examples are
 * {"date": "March 5, 2021", "iso": "2021-03-05"}. */
#include "executor/pipeline/user_pipeline.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS = 32, ANSWER = 10, WORDS = 128, WIDTH = 64, HEADS = 4, SIZE = WIDTH / HEADS, FFN = 128 };

static void matrix(redco_user_pipeline_shape *shape, const char *name, uint64_t in, uint64_t out, double deviation)
{
    redco_user_pipeline_parameter(shape, name, 2, (const uint64_t[]){in, out},
                                  (redco_initial){REDCO_INITIAL_NORMAL, deviation});
}

static void gain(redco_user_pipeline_shape *shape, const char *name)
{
    redco_user_pipeline_parameter(shape, name, 1, (const uint64_t[]){WIDTH}, (redco_initial){REDCO_INITIAL_ONE, 0.0});
}

/* Attention and an FFN, behind norms. */
static const char *const blocks[] = {"encoder", "mixer", "decoder"};

static void describe(redco_user_pipeline_shape *shape)
{
    static const char *const squares[] = {"q", "k", "v", "o"};
    char name[64];
    matrix(shape, "letters", WORDS, WIDTH, 1.0);
    matrix(shape, "places", LETTERS, WIDTH, 1.0);
    matrix(shape, "answers", ANSWER, WIDTH, 1.0);
    for (uint32_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        for (uint32_t i = 0; i < 4; i++) {
            (void)snprintf(name, sizeof name, "%s.%s.weight", blocks[b], squares[i]);
            matrix(shape, name, WIDTH, WIDTH, 0.125);
        }
        (void)snprintf(name, sizeof name, "%s.up.weight", blocks[b]);
        matrix(shape, name, WIDTH, FFN, 0.125);
        (void)snprintf(name, sizeof name, "%s.down.weight", blocks[b]);
        matrix(shape, name, FFN, WIDTH, 0.09);
        (void)snprintf(name, sizeof name, "%s.norm.weight", blocks[b]);
        gain(shape, name);
        (void)snprintf(name, sizeof name, "%s.ffn_norm.weight", blocks[b]);
        gain(shape, name);
    }
    gain(shape, "final.weight");
    matrix(shape, "head", WIDTH, WORDS, 0.125);
    redco_user_pipeline_input(shape, "date", REDCO_I32, 1, (const uint64_t[]){LETTERS});
    redco_user_pipeline_input(shape, "iso", REDCO_I32, 1, (const uint64_t[]){ANSWER});
    redco_user_pipeline_target(shape, "iso");
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    int32_t *const dates = data[0], *const answers = data[1]; /* behind a date are zeros */
    for (uint32_t i = 0; i < count; i++) {
        const char *const date = json_string_value(json_object_get(examples[i], "date"));
        const char *const iso = json_string_value(json_object_get(examples[i], "iso"));
        if (date == NULL || date[0] == '\0' || strlen(date) > LETTERS) {
            return redco_fail(err, REDCO_EVALUE, "", "\"date\" is no text of 1 to %d bytes", LETTERS);
        }
        if (iso != NULL && strlen(iso) != ANSWER) {
            return redco_fail(err, REDCO_EVALUE, "", "\"iso\" is no text of %d bytes", ANSWER);
        }
        for (uint32_t c = 0; date[c] != '\0'; c++) { dates[i * LETTERS + c] = date[c] & (WORDS - 1); }
        for (uint32_t c = 0; iso != NULL && c < ANSWER; c++) { answers[i * ANSWER + c] = iso[c] & (WORDS - 1); }
    }
    return REDCO_OK;
}

static redco_value weight(redco_scope *scope, const char *block, const char *part)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s.weight", block, part);
    return redco_scope_weight(scope, name);
}

static redco_value heads(redco_scope *scope, redco_value x, const char *block, const char *part, uint64_t batch,
                         uint64_t length)
{
    redco_graph *const g = scope->graph;
    const redco_value y = redco_matmul(g, x, weight(scope, block, part), false, false);
    return redco_reshape(g, y, 4, (const uint64_t[]){batch, length, HEADS, SIZE});
}

/* @p x looks at @p keys; [batch, length, WIDTH]. */
static redco_value block(redco_scope *scope, const char *name, redco_value x, redco_value keys, uint64_t batch,
                         uint64_t length)
{
    redco_graph *const g = scope->graph;
    const redco_attention_options all = {.causal = false};
    const redco_value y = redco_rms_norm(g, x, weight(scope, name, "norm"), 1e-6);
    const redco_value seen =
        redco_attend(g, heads(scope, y, name, "q", batch, length), heads(scope, keys, name, "k", batch, LETTERS),
                     heads(scope, keys, name, "v", batch, LETTERS), REDCO_NO_VALUE, &all);
    const redco_value flat = redco_reshape(g, seen, 3, (const uint64_t[]){batch, length, WIDTH});
    x = redco_add(g, x, redco_matmul(g, flat, weight(scope, name, "o"), false, false));
    const redco_value z = redco_rms_norm(g, x, weight(scope, name, "ffn_norm"), 1e-6);
    const redco_value up = redco_relu(g, redco_matmul(g, z, weight(scope, name, "up"), false, false));
    return redco_add(g, x, redco_matmul(g, up, weight(scope, name, "down"), false, false));
}

static redco_value logits(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value dates = redco_scope_value(scope, "date");
    const uint64_t batch = redco_value_type(g, dates)->dim[0];
    const redco_value letters =
        redco_cast(g, redco_gather(g, redco_scope_value(scope, "letters"), dates, NULL), scope->compute);
    const redco_value answers = redco_scope_weight(scope, "answers");
    redco_value x = redco_add(g, letters, redco_scope_weight(scope, "places"));
    x = block(scope, blocks[0], x, x, batch, LETTERS);
    x = block(scope, blocks[1], x, x, batch, LETTERS);
    redco_value y = redco_broadcast_to(g, answers, 3, (const uint64_t[]){batch, ANSWER, WIDTH});
    y = block(scope, blocks[2], y, x, batch, ANSWER);
    y = redco_rms_norm(g, y, redco_scope_weight(scope, "final.weight"), 1e-6);
    return redco_matmul(g, y, redco_scope_weight(scope, "head"), false, false);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value iso = redco_scope_value(scope, "iso");
    return redco_mean_all(scope->graph, redco_cross_entropy(scope->graph, logits(scope), iso, false));
}

static json_t *text_of(const json_t *example, const double *values, uint32_t count)
{
    char text[ANSWER + 1] = "";
    (void)example;
    for (uint32_t c = 0; c < ANSWER && count == ANSWER * WORDS; c++) {
        uint32_t best = ' ';
        for (uint32_t w = ' '; w < WORDS - 1; w++) {
            if (values[c * WORDS + w] > values[c * WORDS + best]) { best = w; }
        }
        text[c] = (char)best;
    }
    return json_string(text);
}

static double exact_match(const json_t *example, const json_t *prediction)
{
    return json_equal(json_object_get(example, "iso"), prediction) ? 1.0 : 0.0;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "dates",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits,
                                                       .output = text_of,
                                                       .metric = exact_match};
