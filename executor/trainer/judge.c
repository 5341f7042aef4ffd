/* Loss and predictions of a pipeline over all records of a file. */
#include "costmodel/graph/transform.h"
#include "executor/backend/host/kernels.h"
#include "executor/pipeline/user_pipeline_calls.h"
#include "executor/trainer/forward.h"
#include "executor/trainer/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct judging {
    redco_trainer *t;
    const redco_records *records;
    bool with_loss, predicts;
    redco_task task; /* task of the batch at work */
    redcoi_forward *forward;
    redco_tensor_type loss_type, predicted_type;
    void **inputs;
    void *raw; /* a batch's predictions */
    uint64_t *numbers;
    double *losses; /* by batch: its sum over examples */
    redco_judgement *out;
};

/* Values that predict() adds to the graph, and the loss. */
struct values {
    const redco_task *task;
    const redco_user_pipeline_file *file;
    bool with_loss, predicts;
    redco_value results[2];
    uint32_t count;
};

static void build(redco_scope *scope, void *context)
{
    struct values *const v = context;
    if (v->with_loss) { v->results[v->count++] = redco_task_loss(v->task, scope); }
    if (v->predicts) { v->results[v->count++] = redco_user_pipeline_predict(v->file, scope); }
}

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to predict with it");
}

static redco_status check_results(struct judging *j, const redco_graph *g, const struct values *v, uint32_t batch,
                                  redco_error *err)
{
    char text[REDCO_TYPE_TEXT_BYTES];
    for (uint32_t i = 0; i < v->count; i++) {
        const bool loss = i == 0 && v->with_loss;
        if (v->results[i] >= redco_graph_value_count(g)) {
            return redco_fail(err, REDCO_EVALUE, j->task.name, "%s() gave no value", loss ? "loss" : "predict");
        }
        const redco_tensor_type type = *redco_value_type(g, v->results[i]);
        if (loss) {
            j->loss_type = type;
            continue;
        }
        j->predicted_type = type;
        if (type.rank == 0 || type.dim[0] != batch || type.dtype == REDCO_BOOL) {
            return redco_fail(err, REDCO_EVALUE, j->task.name,
                              "predict() gave %s for %u examples; numbers of shape [%u, ...] are needed",
                              redco_type_text(&type, text), batch, batch);
        }
    }
    return REDCO_OK;
}

static void close_batch(struct judging *j)
{
    redcoi_forward_free(j->forward);
    j->forward = NULL;
    for (size_t i = 0; j->inputs != NULL && i < j->task.input_count; i++) { free(j->inputs[i]); }
    free((void *)j->inputs);
    j->inputs = NULL;
    free(j->raw);
    j->raw = NULL;
    redco_user_pipeline_task_free(&j->task);
}

/* @param v  loss and predictions as wanted */
static redco_status build_values(struct judging *j, struct values *v, uint32_t batch, redco_task_graph *built,
                                 redco_error *err)
{
    const redco_dtype dtype = j->t->options.dtype;
    const redco_task_options options = {dtype, dtype, false, false, 1};
    redco_status st = redco_user_pipeline_task(v->file, batch, &j->task, err);
    if (st != REDCO_OK) { return st; }
    v->task = &j->task;
    st = redco_task_build_values(&j->task, &options, j->task.inputs, j->task.input_count, build, v, built, err);
    return st == REDCO_OK ? check_results(j, built->graph, v, batch, err) : st;
}

/* @return through @p drawn_out whether predictions draw random numbers */
static redco_status find_drawn(struct judging *j, uint32_t batch, bool *drawn_out, redco_error *err)
{
    redco_task_graph built = {.graph = NULL};
    struct values v = {.file = j->t->options.pipeline, .predicts = true};
    redco_status st = build_values(j, &v, batch, &built, err);
    bool *const live = st == REDCO_OK ? calloc((size_t)redco_graph_op_count(built.graph) + 1, sizeof *live) : NULL;
    if (st == REDCO_OK && live == NULL) { st = no_memory(j->t, err); }
    if (st == REDCO_OK) {
        redco_graph_live(built.graph, v.results, v.count, live);
        *drawn_out = live[redco_value_op(built.graph, built.key)->id];
    }
    free(live);
    redco_task_graph_free(&built);
    close_batch(j);
    return st;
}

/* The graph of batches of a size. */
static redco_status open_batch(struct judging *j, uint32_t batch, redco_error *err)
{
    redco_trainer *const t = j->t;
    const redco_user_pipeline_file *const file = t->options.pipeline;
    redco_task_graph built = {.graph = NULL};
    struct values v = {.file = file, .with_loss = j->with_loss, .predicts = j->predicts};
    redco_status st = build_values(j, &v, batch, &built, err);
    if (st == REDCO_OK) {
        const redcoi_forward_options forward = {.graph = built.graph, .results = v.results, .result_count = v.count};
        st = redcoi_forward_create(t, &forward, &j->forward, err);
    }
    redco_task_graph_free(&built);
    j->inputs = calloc(j->task.input_count + 1, sizeof(void *));
    bool enough = j->inputs != NULL;
    for (size_t i = 0; enough && i < j->task.input_count; i++) {
        j->inputs[i] = calloc(1, redco_type_bytes(&j->task.inputs[i].type));
        enough = j->inputs[i] != NULL;
    }
    if (v.predicts) {
        j->raw = calloc(1, redco_type_bytes(&j->predicted_type));
        enough = enough && j->raw != NULL;
    }
    return st == REDCO_OK && !enough ? no_memory(t, err) : st;
}

static redco_status read_loss(struct judging *j, double *loss_out, redco_error *err)
{
    double wide = 0.0;
    float single = 0.0F;
    const bool f64 = j->loss_type.dtype == REDCO_F64;
    const redco_status st = redcoi_forward_read(j->forward, 0, f64 ? (void *)&wide : (void *)&single, err);
    *loss_out = f64 ? wide : (double)single;
    return st;
}

static double weight_of(const struct judging *j, uint64_t first, uint64_t count)
{
    double weight = 0.0;
    for (uint64_t i = first; i < first + count; i++) { weight += redco_records_weight(j->records, i); }
    return weight;
}

/* The random numbers of what begins with an example: others than those of training. */
static void key_of(const redco_trainer *t, uint64_t example, int32_t key_out[2])
{
    const uint32_t key[2] = {(uint32_t)t->options.seed, (uint32_t)(t->options.seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)example, (uint32_t)(example >> 32), UINT32_MAX, UINT32_MAX - 1};
    uint32_t words[4];
    redcoi_philox(counter, key, words);
    for (uint32_t i = 0; i < 2; i++) { key_out[i] = (int32_t)(words[i] >> 1); }
}

/* @param mine  whether this replica's results count */
static redco_status run_batch(struct judging *j, uint64_t first, uint32_t count, uint64_t number, bool mine,
                              redco_error *err)
{
    int32_t key[2];
    redcoi_fed *const fed = calloc(j->task.input_count + 1, sizeof *fed);
    if (fed == NULL) { return no_memory(j->t, err); }
    for (uint32_t i = 0; i < count; i++) { j->numbers[i] = first + i; }
    key_of(j->t, first, key);
    redco_status st = redco_records_collate(j->records, j->numbers, count, j->inputs, err);
    for (size_t i = 0; i < j->task.input_count; i++) { fed[i] = (redcoi_fed){j->task.inputs[i].name, j->inputs[i]}; }
    fed[j->task.input_count] = (redcoi_fed){"key", key};
    if (st == REDCO_OK) {
        st = redcoi_forward_run(j->forward, fed, (uint32_t)j->task.input_count + 1, NULL, NULL, err);
    }
    free(fed);
    if (st != REDCO_OK || !mine) { return st; }
    if (j->with_loss) {
        st = read_loss(j, &j->losses[number], err);
        j->losses[number] *= weight_of(j, first, count);
    }
    if (st == REDCO_OK && j->raw != NULL) {
        st = redcoi_forward_read(j->forward, j->with_loss ? 1 : 0, j->raw, err);
        redcoi_load_f64(j->predicted_type.dtype, j->raw, (uint64_t)count * j->out->values,
                        j->out->predictions + first * j->out->values);
    }
    return st;
}

/* Whole batches, then what is left. */
static redco_status run_batches(struct judging *j, uint32_t batch, redco_error *err)
{
    redco_trainer *const t = j->t;
    const uint64_t count = j->out->examples, whole = count / batch, ranks = redco_mesh_ranks(t->mesh.dp);
    const uint64_t own = redco_replica_at(t->mesh, t->at);
    const uint32_t rest = (uint32_t)(count % batch);
    redco_status st = whole > 0 ? open_batch(j, batch, err) : REDCO_OK;
    const uint32_t first = whole > 0 ? batch : rest > 0 ? rest : 1; /* there is an example */
    if (st == REDCO_OK && whole == 0) { st = open_batch(j, rest, err); }
    if (st == REDCO_OK && j->raw != NULL) {
        j->out->values = (uint32_t)(redco_type_elements(&j->predicted_type) / first);
        j->out->predictions = calloc(count * j->out->values + 1, sizeof *j->out->predictions);
        if (j->out->predictions == NULL) { st = no_memory(t, err); }
    }
    for (uint64_t r = 0; r < (whole + ranks - 1) / ranks && st == REDCO_OK; r++) {
        const uint64_t number = r * ranks + own;
        const bool mine = number < whole;
        st = run_batch(j, mine ? number * batch : 0, batch, mine ? number : 0, mine, err);
    }
    if (st == REDCO_OK && rest > 0 && whole > 0) {
        close_batch(j);
        st = open_batch(j, rest, err);
    }
    return st == REDCO_OK && rest > 0 ? run_batch(j, whole * batch, rest, whole, own == 0, err) : st;
}

/* Predictions that draw random numbers are made one by one, each with the key of its example: they depend on neither
 * the batch nor the plan. */
static redco_status run_all(struct judging *j, uint32_t batch, redco_error *err)
{
    const bool with_loss = j->with_loss, predicts = j->predicts;
    bool drawn = false;
    redco_status st = predicts && batch > 1 ? find_drawn(j, batch, &drawn, err) : REDCO_OK;
    if (!drawn || st != REDCO_OK) { return st == REDCO_OK ? run_batches(j, batch, err) : st; }
    j->predicts = false;
    if (with_loss) { st = run_batches(j, batch, err); }
    close_batch(j);
    j->with_loss = false;
    j->predicts = predicts;
    if (st == REDCO_OK) { st = run_batches(j, 1, err); }
    j->with_loss = with_loss;
    return st;
}

/* Every number is of one replica; the others have 0. */
static redco_status add_up(struct judging *j, uint64_t batches, redco_error *err)
{
    redco_communicator *const replicas = j->t->replicas;
    double sum = 0.0;
    redco_status st = redco_all_reduce(replicas, REDCO_F64, REDCO_REDUCE_SUM, j->losses, batches, "evaluation", err);
    if (st == REDCO_OK && j->out->values > 0) {
        st = redco_all_reduce(replicas, REDCO_F64, REDCO_REDUCE_SUM, j->out->predictions,
                              j->out->examples * j->out->values, "prediction", err);
    }
    for (uint64_t b = 0; b < batches; b++) { sum += j->losses[b]; }
    j->out->weight = weight_of(j, 0, j->out->examples);
    j->out->loss = j->with_loss ? sum / j->out->weight : (double)NAN;
    if (st == REDCO_OK && j->with_loss && !(j->out->weight > 0.0)) {
        st = redco_fail(err, REDCO_EVALUE, "evaluation", "all examples weigh 0: there is nothing to take a mean of");
    }
    if (st == REDCO_OK && j->with_loss && !isfinite(sum)) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "evaluation", "the loss is not a finite number");
    }
    return st;
}

redco_status redco_trainer_judge(redco_trainer *t, const redco_records *records, uint32_t batch, bool with_loss,
                                 redco_judgement *out, redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "an evaluation", err); }
    const uint64_t count = redco_records_count(records);
    if (batch == 0) { batch = t->plan->parallelism.micro_batch; }
    redco_judgement made = {.examples = count};
    const uint64_t batches = (count + batch - 1) / batch;
    struct judging j = {.t = t,
                        .records = records,
                        .with_loss = with_loss,
                        .predicts = redco_user_pipeline_of(t->options.pipeline)->predict != NULL,
                        .out = &made};
    j.numbers = calloc(batch, sizeof *j.numbers);
    j.losses = calloc(batches, sizeof *j.losses);
    redco_status st = j.numbers == NULL || j.losses == NULL ? no_memory(t, err) : run_all(&j, batch, err);
    if (st == REDCO_OK) { st = add_up(&j, batches, err); }
    close_batch(&j);
    free(j.numbers);
    free(j.losses);
    if (st == REDCO_OK) {
        *out = made;
        made = (redco_judgement){.predictions = NULL};
    }
    redco_judgement_free(&made);
    return st;
}

void redco_judgement_free(redco_judgement *judgement)
{
    free(judgement->predictions);
    *judgement = (redco_judgement){.predictions = NULL};
}
