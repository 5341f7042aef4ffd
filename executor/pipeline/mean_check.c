#include "executor/pipeline/mean_check.h"

#include "costmodel/graph/transform.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALF_MAX = 4, INPUTS_MAX = 64 };
/* A start takes no longer than a second or two: parameters times numbers that come in, which a product has each. */
static const double most_elements = 134217728.0, most_products = 8e9;

/* The loss of a number of examples as a graph. */
struct loss {
    redco_task task;
    redco_task_graph built;
    redco_value value;
    bool usable; /* it could be built, and draws nothing */
};

struct comparison {
    const redco_records *records;
    const redco_user_pipeline_file *file;
    redco_backend *backend;
    double **weights;
    size_t weight_count;
    struct loss whole, half;
};

static redco_status no_memory(const struct comparison *c, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, redco_user_pipeline_path(c->file), "no memory to look at its loss");
}

static void build(redco_scope *scope, void *context)
{
    struct loss *const l = context;
    l->value = redco_task_loss(&l->task, scope);
}

static void close_loss(struct loss *l)
{
    redco_task_graph_free(&l->built);
    redco_user_pipeline_task_free(&l->task);
    *l = (struct loss){.usable = false};
}

/* As it is trained; where that draws random numbers, as it is evaluated. */
static redco_status open_loss(const struct comparison *c, uint32_t examples, struct loss *l, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (int training = 1; training >= 0 && st == REDCO_OK && !l->usable; training--) {
        const redco_task_options options = {REDCO_F64, REDCO_F64, training == 1, false, 1};
        close_loss(l);
        if ((st = redco_user_pipeline_task(c->file, examples, &l->task, err)) != REDCO_OK) { break; }
        if (redco_task_build_values(&l->task, &options, l->task.inputs, l->task.input_count, build, l, &l->built,
                                    NULL) != REDCO_OK) {
            return REDCO_OK; /* where it is built for the micro-batch, it is told why */
        }
        bool *const live = calloc((size_t)redco_graph_op_count(l->built.graph) + 1, sizeof *live);
        if (live == NULL) { return no_memory(c, err); }
        redco_graph_live(l->built.graph, &l->value, 1, live);
        l->usable = !live[redco_value_op(l->built.graph, l->built.key)->id];
        free(live);
    }
    return st;
}

/* Numbers that are apart from first values' zeros and ones, where a product may be of no effect. */
static double drawn(uint64_t *state, const redco_initial *initial)
{
    double sum = -2.0;
    for (int i = 0; i < 4; i++) { /* nearly normal */
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return initial->kind == REDCO_INITIAL_NORMAL ? 1.7 * initial->deviation * sum
           : initial->kind == REDCO_INITIAL_ONE  ? 1.0 + 0.2 * sum
                                                 : 0.2 * sum;
}

/* @return whether memory and time of it are little */
static bool is_small(const redco_task *task)
{
    double elements = 0.0, numbers = 0.0;
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], REDCO_F64);
        elements += (double)redco_type_elements(&type);
    }
    for (size_t i = 0; i < task->input_count; i++) { numbers += (double)redco_type_elements(&task->inputs[i].type); }
    return elements <= most_elements && elements * numbers <= most_products;
}

static redco_status take_weights(struct comparison *c, redco_error *err)
{
    const redco_task *const task = &c->whole.task;
    c->weights = calloc(task->parameter_count + 1, sizeof *c->weights);
    if (c->weights == NULL) { return no_memory(c, err); }
    c->weight_count = task->parameter_count;
    for (size_t i = 0; i < c->weight_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], REDCO_F64);
        if ((c->weights[i] = malloc(redco_type_bytes(&type))) == NULL) { return no_memory(c, err); }
    }
    return REDCO_OK;
}

static void draw_weights(struct comparison *c, uint64_t draw)
{
    const redco_task *const task = &c->whole.task;
    uint64_t state = (draw + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < c->weight_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], REDCO_F64);
        const uint64_t count = redco_type_elements(&type);
        for (uint64_t e = 0; e < count; e++) { c->weights[i][e] = drawn(&state, &task->parameters[i].initial); }
    }
}

/* The loss of @p count records from @p first on, for which the graph is. */
static redco_status loss_of(const struct comparison *c, const struct loss *l, uint32_t first, uint32_t count,
                            double *loss_out, redco_error *err)
{
    const size_t inputs = l->task.input_count, all = c->weight_count + inputs;
    redco_binding *const bindings = calloc(all + 1, sizeof *bindings);
    void *data[INPUTS_MAX + 1] = {NULL};
    uint64_t numbers[2 * HALF_MAX];
    double wide = 0.0;
    float single = 0.0F;
    const bool f64 = redco_value_type(l->built.graph, l->value)->dtype == REDCO_F64;
    redco_status st = bindings != NULL && inputs <= INPUTS_MAX ? REDCO_OK : no_memory(c, err);
    for (size_t i = 0; i < inputs && st == REDCO_OK; i++) {
        data[i] = calloc(1, redco_type_bytes(&l->task.inputs[i].type));
        if (data[i] == NULL) { st = no_memory(c, err); }
    }
    for (uint32_t i = 0; i < count; i++) { numbers[i] = first + i; }
    if (st == REDCO_OK) { st = redco_records_collate(c->records, numbers, count, data, err); }
    for (size_t i = 0; i < c->weight_count && st == REDCO_OK; i++) {
        bindings[i] = (redco_binding){l->built.parameters[i], c->weights[i]};
    }
    for (size_t i = 0; i < inputs && st == REDCO_OK; i++) {
        bindings[c->weight_count + i] = (redco_binding){l->built.inputs[i], data[i]};
    }
    const redco_result result = {l->value, f64 ? (void *)&wide : (void *)&single};
    if (st == REDCO_OK) { st = redco_evaluate(c->backend, l->built.graph, bindings, (uint32_t)all, &result, 1, err); }
    *loss_out = f64 ? wide : (double)single;
    for (size_t i = 0; i < inputs && i < INPUTS_MAX; i++) { free(data[i]); }
    free(bindings);
    return st;
}

static double weight_of(const redco_records *records, uint32_t first, uint32_t count)
{
    double weight = 0.0;
    for (uint32_t i = first; i < first + count; i++) { weight += redco_records_weight(records, i); }
    return weight;
}

/* With one draw of the weights. */
static redco_status compare_draw(struct comparison *c, uint32_t half, redco_mean_check *check, redco_error *err)
{
    double losses[2] = {0.0, 0.0}, whole = 0.0;
    redco_status st = loss_of(c, &c->whole, 0, 2 * half, &whole, err);
    for (uint32_t i = 0; i < 2 && st == REDCO_OK; i++) { st = loss_of(c, &c->half, i * half, half, &losses[i], err); }
    const double first = weight_of(c->records, 0, half), second = weight_of(c->records, half, half);
    const double mean = (first * losses[0] + second * losses[1]) / (first + second);
    if (st != REDCO_OK || !isfinite(whole) || !isfinite(mean)) { return st; }
    const bool f64 = redco_value_type(c->whole.built.graph, c->whole.value)->dtype == REDCO_F64;
    const double size = fmax(fabs(whole), fmax(fabs(losses[0]), fabs(losses[1])));
    *check = (redco_mean_check){2 * half, whole, mean, fabs(whole - mean) > (f64 ? 1e-9 : 1e-4) * size};
    return REDCO_OK;
}

/* A choice among experts may fall alike for all examples: several draws. */
static redco_status compare(struct comparison *c, uint32_t half, redco_mean_check *check, redco_error *err)
{
    enum { DRAWS = 4 };
    redco_status st = open_loss(c, 2 * half, &c->whole, err);
    if (st != REDCO_OK || !c->whole.usable) { return st; }
    if (!is_small(&c->whole.task)) {
        close_loss(&c->whole);
        return half > 1 ? compare(c, half / 2, check, err) : REDCO_OK;
    }
    st = open_loss(c, half, &c->half, err);
    if (st != REDCO_OK || !c->half.usable) { return st; }
    if ((st = take_weights(c, err)) == REDCO_OK) { st = redco_host_open(NULL, &c->backend, err); }
    for (uint64_t draw = 0; draw < DRAWS && st == REDCO_OK && !check->differs; draw++) {
        draw_weights(c, draw);
        st = compare_draw(c, half, check, err);
    }
    return st;
}

redco_status redco_records_check_mean(const redco_records *records, redco_mean_check *check_out, redco_error *err)
{
    struct comparison c = {.records = records, .file = redco_records_pipeline(records)};
    const uint64_t count = redco_records_count(records);
    const uint32_t half = count / 2 < HALF_MAX ? (uint32_t)(count / 2) : HALF_MAX;
    *check_out = (redco_mean_check){.examples = 0};
    const redco_status st = half > 0 ? compare(&c, half, check_out, err) : REDCO_OK;
    close_loss(&c.whole);
    close_loss(&c.half);
    for (size_t i = 0; i < c.weight_count; i++) { free(c.weights[i]); }
    free(c.weights);
    redco_backend_close(c.backend);
    return st;
}
