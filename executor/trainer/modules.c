/* Parameters as layers of modules: linears with their biases, norms, tables. */
#include "executor/states/from_plan.h"
#include "executor/trainer/trainer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_NAME_BYTES = 64, MODULE_WORDS = 8 };

static size_t module_length(const char *name)
{
    const char *const dot = strrchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

/* Neighbours whose names differ in the last word only. */
static bool same_module(const char *a, const char *b)
{
    const size_t length = module_length(a);
    return length == module_length(b) && strncmp(a, b, length) == 0;
}

static void add_tensor(redcoi_modules *m, const redco_task *task, size_t i, const redco_tp_layout *layout, uint32_t tp,
                       bool first)
{
    const redco_task_parameter *const p = &task->parameters[i];
    const redco_tensor_type type = redco_task_parameter_type(p, REDCO_F32);
    const redco_tensor_type part = redco_tp_local(*layout, &type, tp);
    redco_state_layer *const layer = &m->layers[m->model.layer_count - 1];
    if (first || !same_module(task->parameters[i - 1].name, p->name)) {
        char *const name = m->module_names[m->model.module_count];
        m->modules[m->model.module_count++] = (redco_state_module){name, m->model.tensor_count, 0};
        layer->module_count++;
    }
    m->modules[m->model.module_count - 1].tensor_count++;
    m->tensors[m->model.tensor_count++] =
        (redco_state_tensor){p->name, redco_type_elements(&part), layout->kind != REDCO_TP_SPLIT, true};
}

/* The end of a module's name from the n-th dot from behind. */
static void end_of_name(const char *tensor, uint32_t words, char out[MODULE_NAME_BYTES])
{
    const size_t length = module_length(tensor);
    const char *start = tensor + length;
    while (start > tensor) {
        if (start[-1] == '.' && --words == 0) { break; }
        start--;
    }
    (void)snprintf(out, MODULE_NAME_BYTES, "%.*s", (int)(tensor + length - start), start);
}

/* As the simulator names them: as few words as are unique in the layer. */
static void name_modules(redcoi_modules *m, const redco_state_layer *layer)
{
    for (uint32_t i = layer->first_module; i < layer->first_module + layer->module_count; i++) {
        bool unique = false;
        for (uint32_t words = 1; words <= MODULE_WORDS && !unique; words++) {
            end_of_name(m->tensors[m->modules[i].first_tensor].name, words, m->module_names[i]);
            unique = true;
            for (uint32_t k = layer->first_module; k < layer->first_module + layer->module_count && unique; k++) {
                char other[MODULE_NAME_BYTES];
                end_of_name(m->tensors[m->modules[k].first_tensor].name, words, other);
                unique = k == i || strcmp(m->module_names[i], other) != 0;
            }
        }
    }
}

static redco_status add_layer(redcoi_modules *m, const redco_plan *plan, const char *class_name, uint32_t index,
                              redco_error *err)
{
    const redco_plan_layers *row = NULL;
    char *const name = m->layer_names[m->model.layer_count];
    (void)snprintf(name, sizeof m->layer_names[0], "%s.%u", class_name, index);
    const redco_status st = redco_plan_layer(plan, name, &row, err);
    if (st != REDCO_OK) { return st; }
    m->layers[m->model.layer_count++] = (redco_state_layer){name, row->shards, m->model.module_count, 0};
    return REDCO_OK;
}

static bool take_memory(redcoi_modules *m, const redco_model *model, const redco_task *task)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes), tensors = task->parameter_count + 1;
    size_t layers = 1;
    for (size_t c = 0; c < class_count; c++) { layers += classes[c].layers; }
    m->layers = calloc(layers, sizeof *m->layers);
    m->layer_names = calloc(layers, sizeof *m->layer_names);
    m->modules = calloc(tensors, sizeof *m->modules);
    m->module_names = calloc(tensors, sizeof *m->module_names);
    m->tensors = calloc(tensors, sizeof *m->tensors);
    return m->layers != NULL && m->layer_names != NULL && m->modules != NULL && m->module_names != NULL &&
           m->tensors != NULL;
}

redco_status redcoi_modules_make(redcoi_modules *m, const redco_plan *plan, const redco_model *model,
                                 const redco_task *task, const redco_tp_layout *layouts, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    redco_status st = REDCO_OK;
    size_t next = 0;
    if (!take_memory(m, model, task)) { return redco_fail(err, REDCO_ENOMEM, task->name, "no memory for its modules"); }
    for (size_t c = 0; c < class_count && st == REDCO_OK; c++) {
        for (uint32_t l = 0; l < classes[c].layers && st == REDCO_OK; l++) {
            st = add_layer(m, plan, classes[c].name, l, err);
            const size_t first = next;
            while (st == REDCO_OK && next < task->parameter_count &&
                   strcmp(task->parameters[next].layer, m->layer_names[m->model.layer_count - 1]) == 0) {
                add_tensor(m, task, next, &layouts[next], plan->tp, next == first);
                next++;
            }
            if (st == REDCO_OK) { name_modules(m, &m->layers[m->model.layer_count - 1]); }
        }
    }
    if (st == REDCO_OK && next != task->parameter_count) {
        st = redco_fail(err, REDCO_EVALUE, task->parameters[next].name, "is in no layer of the model");
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
}
