/* From the graphs of three micro-batches to the work of a loss and its gradients, for each degree of tensor
 * parallelism. */
#include "executor/optimizer/optimizer.h"
#include "executor/pipeline/pipeline_work_internal.h"
#include "planner/rules/rules_params.h"

#include <stdlib.h>
#include <string.h>

static redco_status make_degree(redcoi_work_maker *m, redco_error *err)
{
    redco_degree_work *const degree = &m->work->degrees[m->work->degree_count++];
    degree->tp = m->tp;
    degree->splits = calloc(m->parameter_count + 1, sizeof *degree->splits);
    if (degree->splits == NULL) { return redcoi_work_no_memory(m, err); }
    for (size_t i = 0; i < m->parameter_count; i++) {
        degree->splits[i] = m->layouts[i].kind == REDCO_TP_SPLIT ? (int32_t)m->layouts[i].dim : -1;
    }
    redco_status st = redcoi_probes_make(m, REDCO_F32, err);
    if (st == REDCO_OK && m->tp == 1) { redcoi_probes_passes(m); }
    if (st == REDCO_OK && m->tp == 1 && m->options->couples_out != NULL) {
        st = redcoi_probes_couple(m, m->options->couples_out, err);
    }
    if (st == REDCO_OK) { st = redcoi_work_ops(m, degree, err); }
    if (st == REDCO_OK) { st = redcoi_work_moments(m, REDCO_COMPUTED_32, degree, err); }
    if (st == REDCO_OK) { st = redcoi_work_inputs(m, degree, err); }
    if (st == REDCO_OK) { st = redcoi_work_show(m, err); }
    redcoi_probes_free(m);
    free(m->names);
    m->names = NULL;
    /* A loss that does not compute in 16 bits (it is not cast) has the values of 32. */
    redco_error why = {.status = REDCO_OK};
    bool widened = false;
    if (st == REDCO_OK) {
        st = redcoi_probes_make(m, REDCO_BFLOAT16, &why);
        const bool wide = st == REDCO_EVALUE;
        if (st == REDCO_OK) { st = redcoi_work_moments(m, REDCO_COMPUTED_16, degree, &why); }
        if (st == REDCO_OK) { st = redcoi_probes_widen(m, &widened, &why); }
        if (st == REDCO_OK && widened) { st = redcoi_work_moments(m, REDCO_COMPUTED_16_WIDENED, degree, &why); }
        st = wide ? REDCO_OK : st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
    }
    redcoi_probes_free(m);
    return st;
}

/* Each matrix of a fused product is split, where the ranks divide it: as planner/executable/plan_layouts.c lays out the
 * run. */
static redco_tp_layout split_of(const redco_task_parameter *parameter, uint32_t dim, uint32_t tp)
{
    const redco_tensor_type type = redco_task_parameter_type(parameter, REDCO_F32);
    redco_tp_layout layout = redco_tp_split(dim);
    if (dim + 1 == parameter->rank && parameter->blocks > 1) { layout.blocks = parameter->blocks; }
    if (!redco_tp_fits(layout, &type, tp)) { layout.blocks = 1; }
    return layout;
}

/* Layouts by the rules. @param any_out  whether a parameter is split */
static redco_status lay_out(redcoi_work_maker *m, bool *any_out, redco_error *err)
{
    redco_rules *rules = NULL;
    const redco_status st =
        redco_rules_decide_user(m->rules, m->parameter_count, m->tp, m->options->rules, &rules, err);
    *any_out = false;
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < m->parameter_count; i++) {
        const int32_t dim = redco_rules_dim(rules, i);
        m->layouts[i] = dim < 0 ? redco_tp_replicated() : split_of(&m->parameters[i], (uint32_t)dim, m->tp);
        *any_out = *any_out || dim >= 0;
    }
    redco_rules_free(rules);
    return REDCO_OK;
}

/* A degree that the rules or the graph do not allow is an error where it was asked for. */
static redco_status add_degree(redcoi_work_maker *m, redco_error *err)
{
    const bool asked = m->options->tp_given && m->tp == m->options->most_tp;
    const uint32_t before = m->work->degree_count;
    redco_error why = {.status = REDCO_OK};
    bool any = false;
    redco_status st = lay_out(m, &any, &why);
    if (st == REDCO_OK && !any) {
        st = redco_fail(&why, REDCO_EVALUE, m->place,
                        "tp %u: RedCoast's rules split none of its parameters among so many ranks (redco-rules); give "
                        "rules with --tp-rules",
                        m->tp);
    }
    if (st == REDCO_OK) { st = make_degree(m, &why); }
    if (st == REDCO_OK) { return REDCO_OK; }
    if (st == REDCO_EVALUE && !asked) {
        redco_degree_work *const degree = &m->work->degrees[before];
        for (uint32_t i = 0; i < degree->moment_count; i++) { free(degree->moments[i].values); }
        free(degree->splits);
        free(degree->ops);
        free(degree->moments);
        free(degree->inputs);
        *degree = (redco_degree_work){.tp = 0};
        m->work->degree_count = before;
        return REDCO_OK;
    }
    return redco_fail(err, st, why.place, "%s", why.text);
}

/* A parameter whose rows are looked up is a table, behind casts and reshapes too. */
static redco_status find_tables(redcoi_work_maker *m, const redco_task *task, redco_error *err)
{
    const redco_task_options options = {REDCO_F32, REDCO_F32, true, false, 1};
    redco_task_graph built = {.graph = NULL};
    const redco_status st = redco_task_build(task, &options, &built, err);
    for (uint32_t i = 0; st == REDCO_OK && i < redco_graph_op_count(built.graph); i++) {
        const redco_op *op = redco_graph_op(built.graph, i);
        if (op->kind != REDCO_OP_GATHER) { continue; }
        redco_value from = op->inputs[0];
        for (op = redco_value_op(built.graph, from); op->kind == REDCO_OP_CAST || redco_op_is_view(op->kind);) {
            from = op->inputs[0];
            op = redco_value_op(built.graph, from);
        }
        for (size_t k = 0; k < m->parameter_count; k++) {
            m->tables[k] = m->tables[k] || (built.parameters[k] == from && m->parameters[k].rank == 2);
        }
    }
    redco_task_graph_free(&built);
    return st;
}

static redco_status make_rules(redcoi_work_maker *m, const redco_task *task, redco_error *err)
{
    m->tables = calloc(m->parameter_count + 1, sizeof *m->tables);
    m->rules = calloc(m->parameter_count + 1, sizeof *m->rules);
    m->layouts = calloc(m->parameter_count + 1, sizeof *m->layouts);
    m->gradient_in = malloc(m->parameter_count + 1);
    if (m->gradient_in == NULL || m->tables == NULL || m->rules == NULL || m->layouts == NULL) {
        return redcoi_work_no_memory(m, err);
    }
    memset(m->gradient_in, REDCO_IN_BACKWARD, m->parameter_count + 1);
    const redco_status st = find_tables(m, task, err);
    for (size_t i = 0; i < m->parameter_count && st == REDCO_OK; i++) {
        const redco_task_parameter *const p = &m->parameters[i];
        const redco_param_role role = p->rank < 2    ? REDCO_PARAM_BIAS
                                      : m->tables[i] ? REDCO_PARAM_TABLE
                                                     : REDCO_PARAM_KERNEL;
        char path[REDCO_RULES_PATH_BYTES];
        m->layouts[i] = redco_tp_replicated();
        m->rules[i] =
            (redco_rules_param){.path = strdup(redco_rules_pipeline_path(p->name, role, path)), .rank = p->rank};
        memcpy(m->rules[i].shape, p->dim, p->rank * sizeof p->dim[0]);
        if (m->rules[i].path == NULL) { return redcoi_work_no_memory(m, err); }
    }
    return st;
}

static json_t *parameters_json(const redcoi_work_maker *m)
{
    json_t *const list = json_array();
    for (size_t i = 0; i < m->parameter_count; i++) {
        json_t *const shape = json_array();
        for (uint32_t d = 0; d < m->parameters[i].rank; d++) {
            (void)json_array_append_new(shape, json_integer((json_int_t)m->parameters[i].dim[d]));
        }
        json_t *const one = json_pack("{s:s, s:o}", "name", m->parameters[i].name, "shape", shape);
        if (m->tables[i]) { (void)json_object_set_new(one, "table", json_true()); }
        if (m->parameters[i].training == REDCO_FROZEN) { (void)json_object_set_new(one, "frozen", json_true()); }
        if (m->parameters[i].training == REDCO_ASSIGNED) { (void)json_object_set_new(one, "assigned", json_true()); }
        if (m->gradient_in[i] != REDCO_IN_BACKWARD) {
            (void)json_object_set_new(one, "gradient_in", json_string(redco_passes_words[m->gradient_in[i]]));
        }
        (void)json_array_append_new(list, one);
    }
    return list;
}

/* The value of an option of a pipeline, up to a blank. @return "" if it is not given */
static const char *option_value(const char *options, const char *name)
{
    const size_t length = strlen(name);
    const char *value = "";
    for (const char *at = options; at != NULL && (at = strstr(at, name)) != NULL; at += length) {
        const bool begins = at == options || at[-1] == ' ', ends = at[length] == ' ' || at[length] == '=';
        if (begins && ends) { value = at + length + 1 + strspn(at + length + 1, " "); }
    }
    return value;
}

/* AdamW is redco-exec's optimizer where the pipeline does not say. */
static uint32_t optimizer_states(const redco_user_pipeline *table)
{
    static const struct {
        const char *word;
        redco_optimizer_kind kind;
    } known[] = {{"sgd", REDCO_SGD}, {"adafactor", REDCO_ADAFACTOR}};
    redco_optimizer optimizer = {.kind = REDCO_ADAMW,
                                 .momentum = strtod(option_value(table->options, "--momentum"), NULL),
                                 .beta1 = strtod(option_value(table->options, "--beta1"), NULL)};
    const char *const word = option_value(table->options, "--optimizer");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const size_t length = strlen(known[i].word);
        if (strncmp(word, known[i].word, length) == 0 && strcspn(word, " ") == length) {
            optimizer.kind = known[i].kind;
        }
    }
    return redco_optimizer_states(&optimizer);
}

static redco_status make_work(redcoi_work_maker *m, const redco_task *task, redco_error *err)
{
    const redco_pipeline_work_options *const o = m->options;
    m->place = redco_user_pipeline_path(m->file);
    m->parameters = task->parameters;
    m->parameter_count = task->parameter_count;
    m->work = calloc(1, sizeof *m->work);
    if (m->work == NULL) { return redcoi_work_no_memory(m, err); }
    m->work->optimizer_states = optimizer_states(redco_user_pipeline_of(m->file));
    redco_status st = make_rules(m, task, err);
    m->tp = 1;
    if (st == REDCO_OK) { st = make_degree(m, err); }
    for (m->tp = 2; m->tp <= o->most_tp && m->work->degree_count < REDCO_WORK_DEGREES && st == REDCO_OK; m->tp *= 2) {
        if (!o->tp_given || m->tp == o->most_tp) { st = add_degree(m, err); }
    }
    return st;
}

redco_status redco_pipeline_model(const redco_user_pipeline_file *file, const redco_pipeline_work_options *options,
                                  json_t **config_out, redco_error *err)
{
    redcoi_work_maker m = {.file = file, .options = options};
    redco_task task = {.name = NULL};
    redco_status st = redco_user_pipeline_task(file, redcoi_first_examples(&m), &task, err);
    if (st != REDCO_OK) { return st; }
    st = redco_user_pipeline_try(file, redcoi_first_examples(&m), err);
    if (st == REDCO_OK) { st = make_work(&m, &task, err); }
    if (st == REDCO_OK) {
        json_t *const config = json_pack("{s:s, s:s, s:o}", "model_type", "pipeline", "_name",
                                         redco_user_pipeline_of(file)->name, "parameters", parameters_json(&m));
        if (config != NULL && redco_graph_work_write(m.work, m.parameter_count, config)) {
            *config_out = config;
        } else {
            json_decref(config);
            st = redcoi_work_no_memory(&m, err);
        }
    }
    redco_graph_work_free(m.work);
    for (size_t i = 0; m.rules != NULL && i < m.parameter_count; i++) { free((char *)(uintptr_t)m.rules[i].path); }
    free(m.tables);
    free(m.gradient_in);
    free(m.rules);
    free(m.layouts);
    redco_user_pipeline_task_free(&task);
    return st;
}
