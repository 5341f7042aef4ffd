/* Group relative policy optimisation (Shao et al., arXiv 2402.03300) of a language model against a frozen copy of it.
 * collect() lets the policy answer each prompt, a letter, GROUP times; a letter of an answer is worth 1 where it is the
 * prompt's. The report is the mean worth of a letter in the last answers. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { LETTERS = 8, LENGTH = 5, ANSWER = LENGTH - 1, PROMPTS = 4, GROUP = 8, ALL = PROMPTS * GROUP };
static const double range = 0.2, divergence_weight = 0.02;
static const char config[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 8, \"n_embd\": 16, \"n_layer\": 1, \"n_head\": 2,"
    " \"n_positions\": 8, \"initializer_range\": 0.1}";

struct state {
    double worth;
};

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_language_model(shape, "policy.", config);
    redco_user_pipeline_language_model(shape, "reference.", config);
    redco_user_pipeline_training(shape, "reference.", REDCO_FROZEN);
    redco_user_pipeline_input(shape, "letters", REDCO_I32, 1, (const uint64_t[]){LENGTH});
    redco_user_pipeline_input(shape, "likelihood", REDCO_F32, 1, (const uint64_t[]){ANSWER});
    redco_user_pipeline_input(shape, "advantage", REDCO_F32, 0, NULL);
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const letters = json_object_get(examples[i], "letters");
        const json_t *const likelihood = json_object_get(examples[i], "likelihood");
        for (uint32_t t = 0; t < LENGTH; t++) {
            ((int32_t *)data[0])[i * LENGTH + t] = (int32_t)json_integer_value(json_array_get(letters, t));
        }
        for (uint32_t t = 0; t < ANSWER; t++) {
            ((float *)data[1])[i * ANSWER + t] = (float)json_number_value(json_array_get(likelihood, t));
        }
        ((float *)data[2])[i] = (float)json_number_value(json_object_get(examples[i], "advantage"));
    }
    return REDCO_OK;
}

/* Minus the logarithms of what a model gave the letters of the answers: [examples, ANSWER]. */
static redco_value unlikelihood(redco_scope *scope, const char *model)
{
    redco_graph *const g = scope->graph;
    const redco_value letters = redco_scope_value(scope, "letters");
    const redco_value logits = redco_user_pipeline_logits(scope, model, letters);
    return redco_cross_entropy(g, redco_slice_axis(g, logits, 1, 0, ANSWER), redco_slice_axis(g, letters, 1, 1, ANSWER),
                               true);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value now = redco_neg(g, unlikelihood(scope, "policy."));
    const redco_dtype type = redco_value_type(g, now) != NULL ? redco_value_type(g, now)->dtype : REDCO_F32;
    const redco_value before = redco_cast(g, redco_scope_value(scope, "likelihood"), type);
    const uint64_t examples = redco_value_type(g, before)->dim[0];
    const redco_value advantage = redco_reshape(g, redco_cast(g, redco_scope_value(scope, "advantage"), type), 2,
                                                (const uint64_t[]){examples, 1});
    const redco_value ratio = redco_exp(g, redco_sub(g, now, before));
    const redco_value low = redco_scalar(g, type, 1.0 - range), high = redco_scalar(g, type, 1.0 + range);
    const redco_value near = redco_min(g, redco_max(g, ratio, low), high);
    const redco_value gain = redco_min(g, redco_mul(g, ratio, advantage), redco_mul(g, near, advantage));
    const redco_value apart = redco_sub(g, redco_neg(g, unlikelihood(scope, "reference.")), now);
    const redco_value divergence = redco_sub(g, redco_exp(g, apart), redco_shift(g, apart, 1.0));
    return redco_mean_all(g, redco_sub(g, redco_scale(g, divergence, divergence_weight), gain));
}

static redco_value predict(redco_scope *scope)
{
    return redco_softmax(scope->graph,
                         redco_user_pipeline_logits(scope, "policy.", redco_scope_value(scope, "letters")));
}

/* One letter more of every answer. */
static bool extend(redco_user_collector *collector, json_t **seen, uint32_t t)
{
    static double chances[ALL][LENGTH][LETTERS];
    if (!redco_user_collector_predict(collector, seen, ALL, &chances[0][0][0], LENGTH * LETTERS)) { return false; }
    for (uint32_t i = 0; i < ALL; i++) {
        const double *const chance = chances[i][t];
        double left = redco_user_collector_uniform(collector);
        uint32_t letter = 0;
        while (letter + 1 < LETTERS && left >= chance[letter]) { left -= chance[letter++]; }
        (void)json_array_set_new(json_object_get(seen[i], "letters"), t + 1, json_integer(letter));
        (void)json_array_append_new(json_object_get(seen[i], "likelihood"), json_real(log(chance[letter])));
    }
    return true;
}

static double worth_of(const json_t *example)
{
    const json_t *const letters = json_object_get(example, "letters");
    const json_int_t prompt = json_integer_value(json_array_get(letters, 0));
    double sum = 0.0;
    for (uint32_t t = 1; t < LENGTH; t++) {
        sum += json_integer_value(json_array_get(letters, t)) == prompt ? 1.0 : 0.0;
    }
    return sum / ANSWER;
}

static redco_status collect(redco_user_collector *collector, redco_error *err)
{
    struct state *const s = redco_user_collector_run(collector)->state;
    json_t *seen[ALL];
    (void)err;
    for (uint32_t i = 0; i < ALL; i++) {
        seen[i] = json_pack("{s:[i,i,i,i,i], s:[]}", "letters", (int)(i / GROUP), 0, 0, 0, 0, "likelihood");
    }
    for (uint32_t t = 0; t < ANSWER && extend(collector, seen, t); t++) {}
    s->worth = 0.0;
    for (uint32_t p = 0; p < PROMPTS; p++) {
        double mean = 0.0, squares = 0.0;
        for (uint32_t k = 0; k < GROUP; k++) { mean += worth_of(seen[p * GROUP + k]) / GROUP; }
        for (uint32_t k = 0; k < GROUP; k++) { squares += pow(worth_of(seen[p * GROUP + k]) - mean, 2.0) / GROUP; }
        for (uint32_t k = 0; k < GROUP; k++) {
            const double advantage = (worth_of(seen[p * GROUP + k]) - mean) / (sqrt(squares) + 1e-4);
            (void)json_object_set_new(seen[p * GROUP + k], "advantage", json_real(advantage));
            redco_user_collector_add(collector, seen[p * GROUP + k]);
        }
        s->worth += mean / PROMPTS;
    }
    return REDCO_OK;
}

static json_t *report(const redco_user_run *run)
{
    return json_pack("{s:f}", "worth", ((const struct state *)run->state)->worth);
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "grpo",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = predict,
                                                       .collect = collect,
                                                       .collect_epochs = 2,
                                                       .state_bytes = sizeof(struct state),
                                                       .report = report,
                                                       .options = "--learning-rate 0.02 --weight-decay 0"};
