/* The loss over all examples of a file. */
#include "executor/trainer/forward.h"
#include "executor/trainer/predict.h"
#include "executor/trainer/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_ASKED = -100 };

struct evaluation {
    redco_trainer *t;
    const redco_examples *examples;
    bool encoder_decoder;
    redcoi_rounds rounds;
    redcoi_forward *forwards[REDCOI_PADDED_LENGTHS_MAX + 1]; /* by padded length, in units */
    int32_t *tokens, *targets, *lengths;
    double *sums;          /* by batch: of the losses of its targets */
    double *targets_asked; /* likewise, their number */
};

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to evaluate it");
}

struct loss {
    const redco_task *task;
    redco_value value;
};

static void build_loss(redco_scope *scope, void *context)
{
    struct loss *const l = context;
    l->value = l->task->loss(scope, l->task->context);
}

static redco_status forward_of(struct evaluation *e, uint32_t length, redcoi_forward **forward_out, redco_error *err)
{
    redco_trainer *const t = e->t;
    const uint32_t number = redcoi_rounds_number(&e->rounds, length);
    const uint64_t batch = e->rounds.batch;
    const redco_tensor_type ids = redco_type(REDCO_I32, 2, (const uint64_t[]){batch, length});
    const redco_task_input inputs[] = {
        {"tokens", ids}, {"targets", ids}, {"lengths", redco_type(REDCO_I32, 1, &batch)}};
    const redco_task_options options = {t->options.dtype, t->options.dtype, false, false, 1};
    redco_task_graph built = {.graph = NULL};
    struct loss loss = {t->task, REDCO_NO_VALUE};
    *forward_out = e->forwards[number];
    if (*forward_out != NULL) { return REDCO_OK; }
    redco_status st =
        redco_task_build_values(t->task, &options, inputs, e->encoder_decoder ? 3 : 2, build_loss, &loss, &built, err);
    if (st == REDCO_OK) {
        const redcoi_forward_options forward = {.graph = built.graph, .results = &loss.value, .result_count = 1};
        st = redcoi_forward_create(t, &forward, &e->forwards[number], err);
    }
    redco_task_graph_free(&built);
    *forward_out = e->forwards[number];
    return st;
}

/* Rows without an example ask for nothing. */
static double fill(struct evaluation *e, uint64_t batch, uint32_t length)
{
    double asked = 0.0;
    for (uint32_t row = 0; row < e->rounds.batch; row++) {
        int32_t *const tokens = e->tokens + (size_t)row * length, *const targets = e->targets + (size_t)row * length;
        uint64_t number = 0;
        for (uint32_t i = 0; i < length; i++) {
            tokens[i] = 0;
            targets[i] = NOT_ASKED;
        }
        e->lengths[row] = (int32_t)length;
        if (!redcoi_rounds_example(&e->rounds, batch, row, &number)) { continue; }
        const redco_example example = redco_examples_get(e->examples, number);
        memcpy(tokens, example.tokens, example.token_count * sizeof *tokens);
        memcpy(targets, example.targets, example.target_count * sizeof *targets);
        e->lengths[row] = (int32_t)example.token_count;
        for (uint32_t i = 0; i < example.target_count; i++) { asked += targets[i] >= 0 ? 1.0 : 0.0; }
    }
    return asked;
}

static redco_status run_batch(struct evaluation *e, uint64_t batch, redco_error *err)
{
    const redco_dtype dtype = redco_dtype_statistic(e->t->options.dtype);
    const uint32_t length = redcoi_rounds_length(&e->rounds, batch);
    redcoi_forward *forward = NULL;
    double wide = 0.0;
    float single = 0.0F;
    redco_status st = forward_of(e, length, &forward, err);
    if (st != REDCO_OK) { return st; }
    const double asked = fill(e, batch, length);
    const redcoi_fed fed[] = {{"tokens", e->tokens}, {"targets", e->targets}, {"lengths", e->lengths}};
    st = redcoi_forward_run(forward, fed, 3, NULL, NULL, err);
    if (st == REDCO_OK) {
        st = redcoi_forward_read(forward, 0, dtype == REDCO_F64 ? (void *)&wide : (void *)&single, err);
    }
    if (st == REDCO_OK && batch < e->rounds.batches) {
        e->sums[batch] = (dtype == REDCO_F64 ? wide : (double)single) * asked;
        e->targets_asked[batch] = asked;
    }
    return st;
}

/* Each batch was run by one replica; the others have 0. Summed in the order of batches, whoever ran them. */
static redco_status add_up(struct evaluation *e, redco_evaluation *out, redco_error *err)
{
    double sum = 0.0, asked = 0.0;
    redco_status st = redco_all_reduce(e->t->replicas, REDCO_F64, REDCO_REDUCE_SUM, e->sums, 2 * e->rounds.batches,
                                       "evaluation", err);
    for (uint64_t b = 0; b < e->rounds.batches && st == REDCO_OK; b++) {
        sum += e->sums[b];
        asked += e->targets_asked[b];
    }
    if (st == REDCO_OK && asked == 0.0) {
        st = redco_fail(err, REDCO_EVALUE, "evaluation", "no example asks for anything: all targets are below 0");
    }
    if (st == REDCO_OK && !isfinite(sum)) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "evaluation", "the loss is not a finite number");
    }
    if (st == REDCO_OK) { *out = (redco_evaluation){sum / asked, e->rounds.count, (uint64_t)asked}; }
    return st;
}

static redco_status open_evaluation(struct evaluation *e, uint32_t batch, redco_error *err)
{
    const uint64_t count = redco_examples_count(e->examples);
    uint32_t *const lengths = calloc(count, sizeof *lengths);
    if (lengths == NULL) { return no_memory(e->t, err); }
    uint32_t longest = 1;
    for (uint64_t i = 0; i < count; i++) {
        const redco_example x = redco_examples_get(e->examples, i);
        lengths[i] = x.token_count > x.target_count ? x.token_count : x.target_count;
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    redco_status st = redcoi_rounds_make(lengths, count, batch, REDCOI_PADDED_LENGTHS_MAX, &e->rounds, err);
    free(lengths);
    if (st != REDCO_OK) { return st; }
    const size_t ids = (size_t)batch * (longest + e->rounds.unit);
    e->tokens = calloc(ids, sizeof *e->tokens);
    e->targets = calloc(ids, sizeof *e->targets);
    e->lengths = calloc(batch, sizeof *e->lengths);
    e->sums = calloc(2 * e->rounds.batches, sizeof *e->sums);
    if (e->tokens == NULL || e->targets == NULL || e->lengths == NULL || e->sums == NULL) {
        return no_memory(e->t, err);
    }
    e->targets_asked = e->sums + e->rounds.batches;
    return REDCO_OK;
}

redco_examples_options redco_trainer_examples(const redco_trainer *t, bool prompts, uint32_t max_tokens)
{
    enum { LONGEST_PROMPT = 1 << 20 };
    const redco_model_dims *const dims = redco_model_get_dims(redco_language_model_of(redco_trainer_generator(t)));
    const bool encoder_decoder = dims->encoder_layers > 0;
    redco_examples_options o = {dims->vocab, t->plan->seq_len, encoder_decoder, prompts, false, false};
    if (!prompts) { return o; }
    o.seq_len = LONGEST_PROMPT;
    if (dims->max_positions > 0) {
        const uint32_t taken = encoder_decoder ? 0 : max_tokens;
        o.seq_len = dims->max_positions > taken ? dims->max_positions - taken : 0;
    }
    return o;
}

redco_status redco_trainer_evaluate(redco_trainer *t, const redco_examples *examples, uint32_t batch,
                                    redco_evaluation *evaluation_out, redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "an evaluation", err); }
    const uint64_t ranks = redco_mesh_ranks(t->mesh.dp), own = redco_replica_at(t->mesh, t->at);
    struct evaluation e = {
        .t = t, .examples = examples, .encoder_decoder = redco_model_get_dims(t->model)->encoder_layers > 0};
    redco_status st = open_evaluation(&e, batch > 0 ? batch : t->plan->parallelism.micro_batch, err);
    const uint64_t rounds = st == REDCO_OK ? redcoi_rounds_of(&e.rounds, ranks) : 0;
    for (uint64_t r = 0; r < rounds && st == REDCO_OK; r++) { st = run_batch(&e, r * ranks + own, err); }
    if (st == REDCO_OK) { st = add_up(&e, evaluation_out, err); }
    for (uint32_t i = 0; i <= REDCOI_PADDED_LENGTHS_MAX; i++) { redcoi_forward_free(e.forwards[i]); }
    redcoi_rounds_free(&e.rounds);
    free(e.tokens);
    free(e.targets);
    free(e.lengths);
    free(e.sums);
    return st;
}
