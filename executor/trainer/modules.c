/* Parameters as layers of modules: linears with their biases, norms, tables. */
#include "executor/states/from_plan.h"
#include "executor/trainer/trainer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_NAME_BYTES = 64 };

static redco_state_matrix matrix_of(const redco_task_parameter *p, const redco_tp_layout *layout, uint32_t tp)
{
    redco_state_matrix m = {1, p->rank >= 2 ? p->dim[p->rank - 2] : 0, p->dim[p->rank - 1], -1, 1, tp, 0};
    for (uint32_t i = 0; i + 2 < p->rank; i++) { m.matrices *= p->dim[i]; }
    if (layout->kind != REDCO_TP_SPLIT) { return m; }
    m.split = layout->dim + 1 == p->rank ? 2 : layout->dim + 2 == p->rank ? 1 : 0;
    m.blocks = layout->blocks;
    for (uint32_t i = 0; m.split == 0 && i < layout->dim; i++) { m.blocks *= p->dim[i]; }
    return m;
}

/* A module begins with each tensor that is no bias. */
static void add_tensor(redcoi_modules *m, const redco_task_parameter *p, const redco_param *param,
                       const redco_tp_layout *layout, uint32_t tp, bool decay_matrices)
{
    const redco_tensor_type type = redco_task_parameter_type(p, REDCO_F32);
    const redco_tensor_type part = redco_tp_local(*layout, &type, tp);
    const redco_state_layer *const last = &m->layers[m->model.layer_count - 1];
    if (param->assigned && !last->assigned) { /* the rest of the layer */
        m->layers[m->model.layer_count++] =
            (redco_state_layer){last->name, last->shards, m->model.module_count, 0, .assigned = true};
    }
    redco_state_layer *const layer = &m->layers[m->model.layer_count - 1];
    if (layer->module_count == 0 || !param->joined) {
        char *const name = m->module_names[m->model.module_count];
        m->modules[m->model.module_count++] = (redco_state_module){name, m->model.tensor_count, 0};
        layer->module_count++;
    }
    m->modules[m->model.module_count - 1].tensor_count++;
    m->matrices[m->model.tensor_count] = matrix_of(p, layout, tp);
    m->tensors[m->model.tensor_count++] = (redco_state_tensor){.name = p->name,
                                                               .elements = redco_type_elements(&part),
                                                               .replicated = layout->kind != REDCO_TP_SPLIT,
                                                               .decayed = !decay_matrices || p->rank >= 2,
                                                               .frozen = p->training == REDCO_FROZEN,
                                                               .assigned = p->training == REDCO_ASSIGNED,
                                                               .own = p->own};
}

/* As the simulator names them. @param first  module of a layer whose last one was added last */
static redco_status name_modules(redcoi_modules *m, uint32_t first, redco_error *err)
{
    const redco_state_module *const modules = &m->modules[first];
    const uint32_t count = m->model.module_count - first;
    const char **const names = calloc((size_t)count + 1, sizeof *names);
    if (names == NULL) { return redco_fail(err, REDCO_ENOMEM, "modules", "no memory for their names"); }
    for (uint32_t i = 0; i < count; i++) { names[i] = m->tensors[modules[i].first_tensor].name; }
    for (uint32_t i = 0; i < count; i++) {
        (void)redco_module_label(names, count, i, m->module_names[first + i], MODULE_NAME_BYTES);
    }
    free(names);
    return REDCO_OK;
}

static redco_status add_layer(redcoi_modules *m, const redco_plan *plan, const char *class_name, uint32_t index,
                              redco_error *err)
{
    const redco_plan_layers *row = NULL;
    char *const name = m->layer_names[m->model.layer_count];
    (void)snprintf(name, sizeof m->layer_names[0], "%s.%u", class_name, index);
    const redco_status st = redco_plan_layer(plan, name, &row, err);
    if (st != REDCO_OK) { return st; }
    m->layers[m->model.layer_count++] =
        (redco_state_layer){name, row->shards, m->model.module_count, 0, .assigned = false};
    return REDCO_OK;
}

/* Only behind what a stage has of a layer, so that modules stay in order. */
static void begin_shared(redcoi_modules *m, bool shared)
{
    const redco_state_layer *const last = &m->layers[m->model.layer_count - 1];
    const uint32_t number = m->numbers[m->model.layer_count - 1];
    if (last->shared == shared) { return; }
    if (last->module_count == 0) {
        m->layers[m->model.layer_count - 1].shared = shared;
        return;
    }
    m->layers[m->model.layer_count] =
        (redco_state_layer){last->name, last->shards, m->model.module_count, 0, .assigned = false, .shared = shared};
    m->numbers[m->model.layer_count++] = number;
}

/* Behind a stage's own layers, what it reads of others': the table that the embedding has, too, and parameters that an
 * embedding lists and a later layer uses. */
static redco_status add_others(redcoi_modules *m, const redco_plan *plan, const redco_task *task,
                               const redco_tp_layout *layouts, bool decay_matrices, const redcoi_stage *stage,
                               redco_error *err)
{
    static const redco_param plain = {.name = NULL};
    const uint32_t number = m->numbers[m->model.layer_count - 1];
    for (size_t p = 0; p < task->parameter_count; p++) {
        const redco_plan_layers *row = NULL;
        if (!redcoi_stage_has(stage, p) || redcoi_stage_at(stage, stage->home[p]) == stage->own) { continue; }
        const redco_status st = redco_plan_layer(plan, task->parameters[p].layer, &row, err);
        if (st != REDCO_OK) { return st; }
        m->layers[m->model.layer_count] =
            (redco_state_layer){task->parameters[p].layer, row->shards,
                                m->model.module_count,     0,
                                .assigned = false,         .shared = redcoi_stage_shares(stage, p)};
        m->numbers[m->model.layer_count++] = number;
        m->parameter_of[m->model.tensor_count] = p;
        add_tensor(m, &task->parameters[p], &plain, &layouts[p], plan->parallelism.tp, decay_matrices);
        (void)snprintf(m->module_names[m->model.module_count - 1], MODULE_NAME_BYTES, "shared_table");
    }
    return REDCO_OK;
}

static bool take_memory(redcoi_modules *m, const redco_model *model, const redco_task *task)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes), tensors = task->parameter_count + 1;
    size_t layers = 1;
    for (size_t c = 0; c < class_count; c++) { layers += classes[c].layers; }
    m->layers = calloc(2 * layers + tensors, sizeof *m->layers);
    m->numbers = calloc(2 * layers + tensors, sizeof *m->numbers);
    m->parameter_of = calloc(tensors, sizeof *m->parameter_of);
    if (m->numbers == NULL || m->parameter_of == NULL) { return false; }
    m->layer_names = calloc(layers, sizeof *m->layer_names);
    m->modules = calloc(tensors, sizeof *m->modules);
    m->module_names = calloc(tensors, sizeof *m->module_names);
    m->tensors = calloc(tensors, sizeof *m->tensors);
    m->matrices = calloc(tensors, sizeof *m->matrices);
    return m->layers != NULL && m->layer_names != NULL && m->modules != NULL && m->module_names != NULL &&
           m->tensors != NULL && m->matrices != NULL;
}

/* The tensors of each layer are the task's next parameters. */
redco_status redcoi_modules_make(redcoi_modules *m, const redco_plan *plan, const redco_model *model,
                                 const redco_task *task, const redco_tp_layout *layouts, bool decay_matrices,
                                 const redcoi_stage *stage, redco_error *err)
{
    const bool all = stage == NULL || stage->count == 1;
    const redco_layer_class *classes = NULL;
    const redco_layer_run *runs = NULL;
    const redco_param *params = NULL;
    const size_t run_count = redco_model_order(model, &runs), count = redco_model_tensors(model, &params);
    redco_status st = REDCO_OK;
    size_t next = 0, wanted = 0;
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++) { wanted += params[i].count; }
    if (wanted != task->parameter_count) {
        return redco_fail(err, REDCO_EVALUE, task->name, "has %zu parameters; its model has %zu", task->parameter_count,
                          wanted);
    }
    if (!take_memory(m, model, task)) { return redco_fail(err, REDCO_ENOMEM, task->name, "no memory for its modules"); }
    (void)redco_model_classes(model, &classes);
    for (size_t r = 0; r < run_count; r++) {
        const uint32_t c = runs[r].class_index;
        for (uint32_t l = 0; l < runs[r].layers && st == REDCO_OK; l++, number++) {
            const uint32_t first = m->model.module_count;
            const bool here = all || redcoi_stage_at(stage, stage->position_of[number]) == stage->own;
            if (here && (st = add_layer(m, plan, classes[c].name, runs[r].first + l, err)) != REDCO_OK) { break; }
            if (here) { m->numbers[m->model.layer_count - 1] = number; }
            for (size_t i = 0; i < count; i++) {
                if (params[i].class_index != c) { continue; }
                const size_t p = next++;
                if (!here || (!all && !redcoi_stage_has(stage, p))) { continue; }
                if (!all) { begin_shared(m, redcoi_stage_shares(stage, p)); }
                m->parameter_of[m->model.tensor_count] = p;
                add_tensor(m, &task->parameters[p], &params[i], &layouts[p], plan->parallelism.tp, decay_matrices);
            }
            st = name_modules(m, first, err);
        }
    }
    if (!all && st == REDCO_OK) {
        st = add_others(m, plan, task, layouts, decay_matrices, stage, err);
        m->model.numbers = m->numbers;
    }
    m->model.layers = m->layers;
    m->model.modules = m->modules;
    m->model.tensors = m->tensors;
    return st;
}

void redcoi_modules_free(redcoi_modules *m)
{
    free(m->layers);
    free(m->layer_names);
    free(m->modules);
    free(m->module_names);
    free(m->tensors);
    free(m->matrices);
    free(m->numbers);
    free(m->parameter_of);
}
