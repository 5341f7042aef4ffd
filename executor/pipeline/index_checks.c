#include "executor/pipeline/index_checks.h"

#include "costmodel/graph/transform.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"
#include "executor/pipeline/user_pipeline_calls.h"

#include <stdlib.h>
#include <string.h>

struct check {
    redco_op_kind kind;
    redco_index_range range;
    redco_value index; /* in the graph that was extracted */
    const char *input; /* that has the index, or "" where it is computed */
    uint64_t count;    /* indices of an example */
    int32_t *values;   /* theirs */
};

struct redcoi_index_checks {
    redco_task task; /* a batch of one example */
    redco_backend *backend;
    redco_graph *graph; /* makes the indices; NULL without any */
    redco_value *inputs;
    struct check *list;
    uint32_t count;
};

struct values {
    const redco_user_pipeline_file *file;
    const redco_task *task;
    bool predicted;
};

static void build(redco_scope *scope, void *context)
{
    const struct values *const v = context;
    if (!v->predicted) { (void)redco_task_loss(v->task, scope); }
    if (redco_user_pipeline_of(v->file)->predict != NULL) { (void)redco_user_pipeline_predict(v->file, scope); }
}

/* Where the operator has its index, and the rows of the table that it is for. @return false: it has none */
static bool find_index(const redco_graph *g, const redco_op *op, redco_value *index_out, uint64_t *rows_out)
{
    const redco_tensor_type *const type = redco_value_type(g, op->input_count > 0 ? op->inputs[0] : op->first_output);
    switch (op->kind) {
    case REDCO_OP_GATHER: *rows_out = type->dim[0]; break;
    case REDCO_OP_PICK:
    case REDCO_OP_CROSS_ENTROPY: *rows_out = type->dim[type->rank - 1]; break;
    case REDCO_OP_UNPICK:
    case REDCO_OP_SCATTER_ADD: *rows_out = op->attributes.size[0]; break;
    default: return false;
    }
    *index_out = op->inputs[op->kind == REDCO_OP_UNPICK || op->kind == REDCO_OP_SCATTER_ADD ? 0 : 1];
    return true;
}

/* @return whether a value is made of the examples alone */
static bool is_given(const redco_task_graph *built, const redco_op *op, const bool *given)
{
    if (op->kind == REDCO_OP_INPUT) {
        return (op->attributes.flags & REDCO_FLAG_PARAMETER) == 0 && op->first_output != built->key;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!given[op->inputs[i]]) { return false; }
    }
    return true;
}

/* The input whose elements, moved about, a value has. */
static const char *source_of(const redco_graph *g, redco_value value)
{
    const redco_op *op = redco_value_op(g, value);
    while (op->input_count == 1 && (redco_op_kind_class(op->kind) == REDCO_CLASS_MOVE || op->kind == REDCO_OP_CAST)) {
        op = redco_value_op(g, op->inputs[0]);
    }
    return op->kind == REDCO_OP_INPUT ? redco_value_name(g, op->first_output) : "";
}

static redco_status no_memory(const redcoi_index_checks *c, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, c->task.name, "no memory to check indices");
}

static redco_status find_checks(redcoi_index_checks *c, const redco_task_graph *built, bool *given, redco_error *err)
{
    const redco_graph *const g = built->graph;
    const uint32_t ops = redco_graph_op_count(g);
    c->list = calloc((size_t)ops + 1, sizeof *c->list);
    if (c->list == NULL) { return no_memory(c, err); }
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *const op = redco_graph_op(g, i);
        const bool known = is_given(built, op, given);
        for (uint32_t k = 0; k < op->output_count; k++) { given[op->first_output + k] = known; }
        redco_value index = REDCO_NO_VALUE;
        uint64_t rows = 0;
        if (op->order > 0 || !find_index(g, op, &index, &rows) || !given[index]) { continue; }
        const redco_launch launch = {.kind = op->kind, .attributes = &op->attributes};
        struct check *const check = &c->list[c->count++];
        *check = (struct check){.kind = op->kind,
                                .range = redco_launch_indices(&launch, rows),
                                .index = index,
                                .count = redco_type_elements(redco_value_type(g, index))};
        if ((check->values = calloc(check->count + 1, sizeof *check->values)) == NULL) { return no_memory(c, err); }
    }
    return REDCO_OK;
}

/* A graph of its own that makes the indices. */
static redco_status extract(redcoi_index_checks *c, const redco_task_graph *built, redco_error *err)
{
    const uint32_t values = redco_graph_value_count(built->graph);
    bool *const given = calloc((size_t)values + 1, sizeof *given);
    redco_value *const map = calloc((size_t)values + 1, sizeof *map);
    redco_value *wanted = NULL;
    redco_status st = given == NULL || map == NULL ? no_memory(c, err) : find_checks(c, built, given, err);
    if (st != REDCO_OK || c->count == 0) { goto out; }
    wanted = calloc(c->count, sizeof *wanted);
    c->inputs = calloc(c->task.input_count + 1, sizeof *c->inputs);
    if (wanted == NULL || c->inputs == NULL) {
        st = no_memory(c, err);
        goto out;
    }
    for (uint32_t i = 0; i < c->count; i++) { wanted[i] = c->list[i].index; }
    st = redco_graph_extract(built->graph, wanted, c->count, NULL, NULL, &c->graph, map, err);
    for (uint32_t i = 0; i < c->count && st == REDCO_OK; i++) {
        c->list[i].index = map[c->list[i].index];
        c->list[i].input = source_of(c->graph, c->list[i].index);
    }
    for (size_t i = 0; i < c->task.input_count && st == REDCO_OK; i++) { c->inputs[i] = map[built->inputs[i]]; }
out:
    free(given);
    free(map);
    free(wanted);
    return st;
}

redco_status redcoi_index_checks_create(const redco_user_pipeline_file *file, bool predicted,
                                        redcoi_index_checks **checks_out, redco_error *err)
{
    const redco_task_options options = {REDCO_F32, REDCO_F32, false, false, 1};
    redco_task_graph built = {.graph = NULL};
    redcoi_index_checks *c = calloc(1, sizeof *c);
    if (c == NULL) { return redco_fail(err, REDCO_ENOMEM, redco_user_pipeline_path(file), "no memory to check it"); }
    redco_status st = redco_user_pipeline_task(file, 1, &c->task, err);
    struct values values = {file, &c->task, predicted};
    /* A graph that cannot be built for one example is no reason to stop: the operators look, too. */
    const bool there =
        st == REDCO_OK && redco_task_build_values(&c->task, &options, c->task.inputs, c->task.input_count, build,
                                                  &values, &built, NULL) == REDCO_OK;
    if (there) { st = extract(c, &built, err); }
    if (st == REDCO_OK && c->graph != NULL) { st = redco_host_open(NULL, &c->backend, err); }
    redco_task_graph_free(&built);
    if (st == REDCO_OK) {
        *checks_out = c;
        c = NULL;
    }
    redcoi_index_checks_free(c);
    return st;
}

void redcoi_index_checks_free(redcoi_index_checks *c)
{
    if (c == NULL) { return; }
    for (uint32_t i = 0; i < c->count; i++) { free(c->list[i].values); }
    free(c->list);
    free(c->inputs);
    redco_graph_free(c->graph);
    redco_backend_close(c->backend);
    redco_user_pipeline_task_free(&c->task);
    free(c);
}

static redco_status check_values(const struct check *check, redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    for (uint64_t i = 0; i < check->count; i++) {
        const int32_t index = check->values[i];
        if (index >= check->range.first && index < check->range.end) { continue; }
        (void)redco_index_refuse(check->kind, "", index, check->range, &own);
        return check->input[0] == '\0' ? redco_fail(err, own.status, "", "%s", own.text)
                                       : redco_fail(err, own.status, "", "input \"%.80s\": %s", check->input, own.text);
    }
    return REDCO_OK;
}

redco_status redcoi_index_checks_run(const redcoi_index_checks *c, void *const *data, uint32_t count, uint32_t *bad_out,
                                     redco_error *err)
{
    if (c->graph == NULL) { return REDCO_OK; }
    redco_binding *const bindings = calloc(c->task.input_count + 1, sizeof *bindings);
    redco_result *const results = calloc(c->count, sizeof *results);
    redco_status st = bindings == NULL || results == NULL ? no_memory(c, err) : REDCO_OK;
    for (uint32_t i = 0; i < c->count && st == REDCO_OK; i++) {
        results[i] = (redco_result){c->list[i].index, c->list[i].values};
    }
    for (uint32_t e = 0; e < count && st == REDCO_OK; e++) {
        uint32_t bound = 0;
        for (size_t i = 0; i < c->task.input_count; i++) {
            if (c->inputs[i] == REDCO_NO_VALUE) { continue; }
            const uint64_t bytes = redco_type_bytes(&c->task.inputs[i].type);
            bindings[bound++] = (redco_binding){c->inputs[i], (const char *)data[i] + e * bytes};
        }
        *bad_out = e;
        st = redco_evaluate(c->backend, c->graph, bindings, bound, results, c->count, err);
        for (uint32_t i = 0; i < c->count && st == REDCO_OK; i++) { st = check_values(&c->list[i], err); }
    }
    free(bindings);
    free(results);
    return st;
}
