
#include "executor/pipeline/collector.h"
#include "executor/pipeline/user_pipeline_internal.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARAMETERS_MAX = 100000, INPUTS_MAX = 64, TARGETS_MAX = REDCOI_TARGETS_MAX, NAME_MAX_BYTES = 200 };
#define SYMBOL "redco_user_pipeline_table"
static char layer_name[] = REDCOI_PIPELINE_LAYER;

struct redco_user_pipeline_shape {
    redco_user_pipeline_file *file;
    redco_error error; /* the first */
};

static void refuse(redco_user_pipeline_shape *shape, const char *name, const char *why)
{
    (void)redco_fail(&shape->error, REDCO_EVALUE, shape->file->path, "describe(): \"%.100s\" %s",
                     name != NULL ? name : "", why);
}

static bool name_taken(const redco_user_pipeline_file *f, const char *name)
{
    for (size_t i = 0; i < f->parameter_count; i++) {
        if (strcmp(f->parameters[i].name, name) == 0) { return true; }
    }
    for (size_t i = 0; i < f->input_count; i++) {
        if (strcmp(f->inputs[i].name, name) == 0) { return true; }
    }
    return strcmp(name, "key") == 0;
}

static bool good_name(redco_user_pipeline_shape *shape, const char *name)
{
    const size_t length = name != NULL ? strlen(name) : 0;
    if (length == 0 || length > NAME_MAX_BYTES) {
        refuse(shape, name, "is no name of 1 to 200 bytes");
    } else if (name_taken(shape->file, name)) {
        refuse(shape, name, "is there already");
    } else {
        return true;
    }
    return false;
}

static bool good_shape(redco_user_pipeline_shape *shape, const char *name, uint32_t rank, const uint64_t *dim)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (dim[i] == 0 || elements > ((uint64_t)1 << 40) / dim[i]) {
            refuse(shape, name, "has no shape of 1 to 2^40 elements");
            return false;
        }
        elements *= dim[i];
    }
    return true;
}

static void add_parameter(redco_user_pipeline_shape *shape, const char *name, const redco_task_parameter *parameter)
{
    redco_user_pipeline_file *const f = shape->file;
    if (f->parameter_count == f->parameter_room) {
        const size_t room = 2 * f->parameter_room + 32;
        redco_task_parameter *const more = room > PARAMETERS_MAX ? NULL : realloc(f->parameters, room * sizeof *more);
        if (more == NULL) {
            refuse(shape, name, "is one parameter too many");
            return;
        }
        f->parameters = more;
        f->parameter_room = room;
    }
    redco_task_parameter *const p = &f->parameters[f->parameter_count];
    *p = *parameter;
    p->name = strdup(name);
    p->layer = layer_name;
    if (p->name == NULL) {
        refuse(shape, name, "does not fit into memory");
        return;
    }
    f->parameter_count++;
}

void redco_user_pipeline_parameter(redco_user_pipeline_shape *shape, const char *name, uint32_t rank,
                                   const uint64_t *dim, redco_initial initial)
{
    if (shape->error.status != REDCO_OK || !good_name(shape, name)) { return; }
    if (rank < 1 || rank > 4) {
        refuse(shape, name, "is no parameter of 1 to 4 dimensions");
        return;
    }
    if (!good_shape(shape, name, rank, dim)) { return; }
    if (initial.kind > REDCO_INITIAL_NORMAL || !isfinite(initial.deviation) || initial.deviation < 0.0) {
        refuse(shape, name, "has first values of no known kind, or of a deviation below 0");
        return;
    }
    add_parameter(
        shape, name,
        &(redco_task_parameter){.rank = rank,
                                .dim = {dim[0], rank > 1 ? dim[1] : 0, rank > 2 ? dim[2] : 0, rank > 3 ? dim[3] : 0},
                                .blocks = 1,
                                .initial = initial});
}

void redco_user_pipeline_linear(redco_user_pipeline_shape *shape, const char *name, uint64_t in, uint64_t out,
                                double deviation)
{
    char part[NAME_MAX_BYTES + 8];
    if (shape->error.status != REDCO_OK) { return; }
    if (name == NULL || strlen(name) >= NAME_MAX_BYTES) {
        refuse(shape, name, "is no name of 1 to 200 bytes");
        return;
    }
    const redco_initial normal = {REDCO_INITIAL_NORMAL,
                                  deviation == 0.0 && in > 0 ? 1.0 / sqrt((double)in) : deviation};
    (void)snprintf(part, sizeof part, "%s.weight", name);
    redco_user_pipeline_parameter(shape, part, 2, (const uint64_t[]){in, out}, normal);
    (void)snprintf(part, sizeof part, "%s.bias", name);
    redco_user_pipeline_parameter(shape, part, 1, &out, (redco_initial){REDCO_INITIAL_ZERO, 0.0});
}

void redco_user_pipeline_language_model(redco_user_pipeline_shape *shape, const char *prefix, const char *config)
{
    redco_user_pipeline_file *const f = shape->file;
    if (shape->error.status != REDCO_OK) { return; }
    if (prefix == NULL || config == NULL) {
        refuse(shape, prefix, "is a model without prefix or config");
        return;
    }
    if (redcoi_pipeline_models_add(&f->models, prefix, config, f->path, &shape->error) != REDCO_OK) { return; }
    const redco_task *const task = redco_language_model_task(redcoi_pipeline_models_find(&f->models, prefix));
    for (size_t i = 0; i < task->parameter_count && shape->error.status == REDCO_OK; i++) {
        const char *const name = task->parameters[i].name;
        if (good_name(shape, name)) { add_parameter(shape, name, &task->parameters[i]); }
    }
}

redco_value redco_user_pipeline_logits(redco_scope *scope, const char *prefix, redco_value tokens)
{
    const redco_user_pipeline_file *const f = scope->owner;
    const redco_language_model *const lm =
        f != NULL && prefix != NULL ? redcoi_pipeline_models_find(&f->models, prefix) : NULL;
    if (lm == NULL) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, f != NULL ? f->path : "redco_user_pipeline_logits()",
                         "describe() gave no language model with the prefix \"%.80s\"", prefix != NULL ? prefix : "");
        return REDCO_NO_VALUE;
    }
    const uint64_t most = redco_model_get_dims(redco_language_model_of(lm))->max_positions;
    if (tokens < redco_graph_value_count(scope->graph)) {
        const redco_tensor_type *const type = redco_value_type(scope->graph, tokens);
        if (type->rank == 2 && most > 0 && type->dim[1] > most) {
            (void)redco_fail(&scope->error, REDCO_EVALUE, f->path,
                             "model \"%.80s\": sequences of %llu tokens; its table has %llu positions", prefix,
                             (unsigned long long)type->dim[1], (unsigned long long)most);
            return REDCO_NO_VALUE;
        }
    }
    return redco_language_model_logits(scope, lm, tokens);
}

void redco_user_pipeline_input(redco_user_pipeline_shape *shape, const char *name, redco_dtype dtype, uint32_t rank,
                               const uint64_t *dim)
{
    redco_user_pipeline_file *const f = shape->file;
    uint64_t with_batch[REDCO_RANK_MAX] = {0};
    if (shape->error.status != REDCO_OK || !good_name(shape, name)) { return; }
    if (dtype != REDCO_I32 && dtype != REDCO_F32) {
        refuse(shape, name, "is an input of another type than I32 and F32");
        return;
    }
    if (rank > 3 || f->input_count == INPUTS_MAX) {
        refuse(shape, name, rank > 3 ? "is an input of more than 3 dimensions" : "is one input too many");
        return;
    }
    if (!good_shape(shape, name, rank, dim)) { return; }
    for (uint32_t i = 0; i < rank; i++) { with_batch[i + 1] = dim[i]; }
    redco_task_input *const input = &f->inputs[f->input_count];
    *input = (redco_task_input){strdup(name), redco_type(dtype, rank + 1, with_batch)};
    if (input->name == NULL) {
        refuse(shape, name, "does not fit into memory");
        return;
    }
    f->input_count++;
}

void redco_user_pipeline_target(redco_user_pipeline_shape *shape, const char *key)
{
    redco_user_pipeline_file *const f = shape->file;
    if (shape->error.status != REDCO_OK) { return; }
    if (key == NULL || key[0] == '\0' || f->target_count == TARGETS_MAX) {
        refuse(shape, key, f->target_count == TARGETS_MAX ? "is one target too many" : "is no key of a target");
        return;
    }
    f->targets[f->target_count] = strdup(key);
    if (f->targets[f->target_count] == NULL) {
        refuse(shape, key, "does not fit into memory");
        return;
    }
    f->target_count++;
}

const char *redco_user_pipeline_missing(const redco_user_pipeline_file *f, const json_t *example)
{
    for (size_t i = 0; i < f->target_count; i++) {
        const json_t *const value = json_object_get(example, f->targets[i]);
        if (value == NULL || json_is_null(value)) { return f->targets[i]; }
    }
    return NULL;
}

/* Parameters to which a call applies, from the i-th on. @return NULL behind the last */
static redco_task_parameter *next_of(const redco_user_pipeline_shape *shape, const char *prefix, size_t *i)
{
    const redco_user_pipeline_file *const f = shape->file;
    while (*i < f->parameter_count && strncmp(f->parameters[*i].name, prefix, strlen(prefix)) != 0) { (*i)++; }
    return *i < f->parameter_count ? &f->parameters[(*i)++] : NULL;
}

/* @return false, and what is wrong is kept, unless some parameter has the prefix */
static bool any_begins(redco_user_pipeline_shape *shape, const char *prefix)
{
    size_t i = 0;
    if (shape->error.status != REDCO_OK) { return false; }
    if (next_of(shape, prefix, &i) != NULL) { return true; }
    refuse(shape, prefix, "begins no parameter's name that was described before");
    return false;
}

void redco_user_pipeline_training(redco_user_pipeline_shape *shape, const char *prefix, redco_training training)
{
    redco_task_parameter *p = NULL;
    if (!any_begins(shape, prefix)) { return; }
    if (training != REDCO_TRAINED && training != REDCO_FROZEN && training != REDCO_ASSIGNED) {
        refuse(shape, prefix, "is trained in no way that redco knows");
        return;
    }
    for (size_t i = 0; (p = next_of(shape, prefix, &i)) != NULL;) { p->training = training; }
}

/* The settings that parameters may have of their own: from low to below high. */
static const struct own {
    const char *what;
    double low, high;
    size_t value_at, has_at; /* in redco_own_settings */
} rates = {"a rate factor of", 1e-9, 1e6, offsetof(redco_own_settings, rate_factor), SIZE_MAX},
  first_betas = {"a first beta of", 0.0, 1.0, offsetof(redco_own_settings, beta1),
                 offsetof(redco_own_settings, has_betas)},
  second_betas = {"a second beta of", 0.0, 1.0, offsetof(redco_own_settings, beta2),
                  offsetof(redco_own_settings, has_betas)},
  epsilons = {"an epsilon of", 0.0, 1.0, offsetof(redco_own_settings, epsilon),
              offsetof(redco_own_settings, has_epsilon)},
  decays = {"a weight decay of", 0.0, 1e6, offsetof(redco_own_settings, weight_decay),
            offsetof(redco_own_settings, has_decay)};

static void set_own(redco_user_pipeline_shape *shape, const char *prefix, const struct own *own, double value)
{
    redco_task_parameter *p = NULL;
    char why[96];
    if (!any_begins(shape, prefix)) { return; }
    if (!(value >= own->low && value < own->high)) {
        (void)snprintf(why, sizeof why, "has %s %g; at least %g and below %g is possible", own->what, value, own->low,
                       own->high);
        refuse(shape, prefix, why);
        return;
    }
    for (size_t i = 0; (p = next_of(shape, prefix, &i)) != NULL;) {
        char *const settings = (char *)&p->own;
        memcpy(settings + own->value_at, &value, sizeof value);
        if (own->has_at != SIZE_MAX) { memcpy(settings + own->has_at, &(bool){true}, sizeof(bool)); }
    }
}

void redco_user_pipeline_rate(redco_user_pipeline_shape *shape, const char *prefix, double factor)
{
    set_own(shape, prefix, &rates, factor);
}

void redco_user_pipeline_betas(redco_user_pipeline_shape *shape, const char *prefix, double beta1, double beta2)
{
    set_own(shape, prefix, &first_betas, beta1);
    set_own(shape, prefix, &second_betas, beta2);
}

void redco_user_pipeline_epsilon(redco_user_pipeline_shape *shape, const char *prefix, double epsilon)
{
    set_own(shape, prefix, &epsilons, epsilon);
}

void redco_user_pipeline_decay(redco_user_pipeline_shape *shape, const char *prefix, double weight_decay)
{
    set_own(shape, prefix, &decays, weight_decay);
}

void redco_user_pipeline_no_decay(redco_user_pipeline_shape *shape, const char *prefix)
{
    set_own(shape, prefix, &decays, 0.0);
}

/* Assigned parameters come last: they have modules of their own, as they have no moments. */
static bool sort_parameters(redco_user_pipeline_file *f)
{
    redco_task_parameter *const sorted = calloc(f->parameter_room + 1, sizeof *sorted);
    size_t at = 0;
    if (sorted == NULL) { return false; }
    for (int assigned = 0; assigned < 2; assigned++) {
        for (size_t i = 0; i < f->parameter_count; i++) {
            if ((f->parameters[i].training == REDCO_ASSIGNED) == (assigned == 1)) { sorted[at++] = f->parameters[i]; }
        }
    }
    free(f->parameters);
    f->parameters = sorted;
    return true;
}

/* Behind describe(): what the parameters are together. */
static void check_training(redco_user_pipeline_shape *shape)
{
    const redco_user_pipeline_file *const f = shape->file;
    bool trained = false;
    for (size_t i = 0; i < f->parameter_count && shape->error.status == REDCO_OK; i++) {
        const redco_task_parameter *const p = &f->parameters[i];
        trained = trained || p->training == REDCO_TRAINED;
        if (p->training == REDCO_ASSIGNED && f->table->step == NULL) {
            refuse(shape, p->name, "is assigned, but the table has no .step to assign it");
        }
        if (i > 0 && redco_same_module(p[-1].name, p->name) &&
            (p[-1].training == REDCO_FROZEN) != (p->training == REDCO_FROZEN)) {
            refuse(shape, p->name,
                   p->training == REDCO_FROZEN ? "is frozen, but not all of its module (the name up to the last dot)"
                                               : "is not frozen, but its module (the name up to the last dot) is");
        }
    }
    if (f->parameter_count > 0 && !trained && shape->error.status == REDCO_OK) {
        refuse(shape, f->parameters[0].name, "and all other parameters are not trained");
    }
}

static redco_status check_table(const redco_user_pipeline *table, const char *path, redco_error *err)
{
    if (table->abi != REDCO_USER_PIPELINE_ABI) {
        return redco_fail(err, REDCO_EVALUE, path, "is of pipeline ABI %u; this redco has %d: compile it again",
                          table->abi, REDCO_USER_PIPELINE_ABI);
    }
    const struct {
        const char *name;
        bool there;
    } needed[] = {{"name", table->name != NULL && table->name[0] != '\0'},
                  {"describe", table->describe != NULL},
                  {"collate", table->collate != NULL},
                  {"loss", table->loss != NULL || table->step != NULL}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i].there) { continue; }
        return redco_fail(err, REDCO_EVALUE, path, "its " SYMBOL " has no .%s", needed[i].name);
    }
    if (table->weight != NULL && table->step != NULL) {
        return redco_fail(err, REDCO_EVALUE, path,
                          "its " SYMBOL " has .weight, which weighs losses, and .step, whose gradients it would not");
    }
    if (table->metric != NULL && table->predict == NULL) {
        return redco_fail(err, REDCO_EVALUE, path, "its " SYMBOL " has .metric, but no .predict to judge");
    }
    return redco_collector_check(table, path, err);
}

redco_status redco_user_pipeline_describe(const redco_user_pipeline *table, const char *name,
                                          redco_user_pipeline_call *call, redco_user_pipeline_file **file_out,
                                          redco_error *err)
{
    redco_status st = check_table(table, name, err);
    if (st != REDCO_OK) { return st; }
    redco_user_pipeline_file *f = calloc(1, sizeof *f);
    if (f == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    f->table = table;
    f->path = strdup(name);
    f->inputs = calloc(INPUTS_MAX, sizeof *f->inputs);
    f->calls = calloc(1, sizeof *f->calls);
    redco_user_pipeline_shape shape = {.file = f};
    if (f->path == NULL || f->inputs == NULL || f->calls == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    f->calls->call = call;
    const char *const before = redcoi_enter(f->calls, "describe()");
    table->describe(&shape);
    redcoi_leave(f->calls, before);
    if (!sort_parameters(f)) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    if (shape.error.status == REDCO_OK) { check_training(&shape); }
    if (shape.error.status != REDCO_OK) {
        st = redco_fail(err, shape.error.status, shape.error.place, "%s", shape.error.text);
    } else if (table->generates != NULL && redcoi_pipeline_models_find(&f->models, table->generates) == NULL) {
        st = redco_fail(err, REDCO_EVALUE, name,
                        "its " SYMBOL " has .generates = \"%.80s\"; describe() gave no such "
                        "language model",
                        table->generates);
    } else if (f->parameter_count == 0 || f->input_count == 0) {
        st = redco_fail(err, REDCO_EVALUE, name, "describe() gave no %s",
                        f->parameter_count == 0 ? "parameter" : "input");
    }
    if (st == REDCO_OK) {
        *file_out = f;
        f = NULL;
    }
out:
    redco_user_pipeline_close(f);
    return st;
}

redco_status redco_user_pipeline_open(const char *path, redco_user_pipeline_call *call,
                                      redco_user_pipeline_file **file_out, redco_error *err)
{
    const redcoi_calls loading = {.call = call};
    if (call != NULL) { call->process = (int)getpid(); }
    /* Without a slash, dlopen() would look elsewhere. */
    const size_t size = strlen(path) + 3;
    char *const here = malloc(size);
    if (here == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    (void)snprintf(here, size, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    /* It stays in memory when it is closed: threads of it may still run, and what it gave to atexit(). */
    const char *const before = redcoi_enter(&loading, "a constructor");
    void *const library = dlopen(here, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    redcoi_leave(&loading, before);
    free(here);
    if (library == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot be loaded: %s", dlerror()); }
    const redco_user_pipeline *const table = dlsym(library, SYMBOL);
    const redco_status st = table == NULL
                                ? redco_fail(err, REDCO_EVALUE, path, "has no symbol " SYMBOL ": it is no pipeline")
                                : redco_user_pipeline_describe(table, path, call, file_out, err);
    if (st != REDCO_OK) {
        (void)dlclose(library);
        return st;
    }
    (*file_out)->library = library;
    return REDCO_OK;
}

void redco_user_pipeline_close(redco_user_pipeline_file *f)
{
    if (f == NULL) { return; }
    for (size_t i = 0; i < f->parameter_count; i++) { free((char *)(uintptr_t)f->parameters[i].name); }
    for (size_t i = 0; i < f->input_count; i++) { free((char *)(uintptr_t)f->inputs[i].name); }
    for (size_t i = 0; i < f->target_count; i++) { free(f->targets[i]); }
    free(f->parameters);
    free(f->inputs);
    free(f->path);
    redcoi_pipeline_models_free(&f->models);
    if (f->library != NULL) { (void)dlclose(f->library); }
    if (f->calls != NULL) { free(f->calls->built); }
    free(f->calls);
    free(f);
}

const redco_user_pipeline *redco_user_pipeline_of(const redco_user_pipeline_file *f)
{
    return f->table;
}

const redco_language_model *redco_user_pipeline_generator(const redco_user_pipeline_file *f)
{
    return f->table->generates != NULL ? redcoi_pipeline_models_find(&f->models, f->table->generates) : NULL;
}

redco_status redco_user_pipeline_task(const redco_user_pipeline_file *f, uint32_t examples, redco_task *task_out,
                                      redco_error *err)
{
    if (examples == 0) { return redco_fail(err, REDCO_EVALUE, f->path, "a micro-batch of 0 examples"); }
    redco_task_input *const inputs = calloc(f->input_count, sizeof *inputs);
    if (inputs == NULL) { return redco_fail(err, REDCO_ENOMEM, f->path, "out of memory"); }
    memcpy(inputs, f->inputs, f->input_count * sizeof *inputs);
    for (size_t i = 0; i < f->input_count; i++) { inputs[i].type.dim[0] = examples; }
    *task_out = (redco_task){.name = f->table->name,
                             .parameters = f->parameters,
                             .parameter_count = f->parameter_count,
                             .inputs = inputs,
                             .input_count = f->input_count,
                             .loss = f->table->loss != NULL ? redcoi_pipeline_loss : NULL,
                             .step = f->table->step != NULL ? redcoi_pipeline_step : NULL,
                             .context = f};
    return REDCO_OK;
}

void redco_user_pipeline_task_free(redco_task *task)
{
    free((redco_task_input *)(uintptr_t)task->inputs);
    *task = (redco_task){.name = NULL};
}

redco_status redco_user_pipeline_check_gradients(const redco_user_pipeline_file *f, const redco_task_graph *built,
                                                 redco_error *err)
{
    for (size_t i = 0; i < f->parameter_count; i++) {
        const redco_value gradient = built->gradients[i];
        if (f->parameters[i].training != REDCO_TRAINED) { continue; }
        if (gradient != REDCO_NO_VALUE) {
            const redco_op *const op = redco_value_op(built->graph, gradient);
            if (op->kind != REDCO_OP_CONSTANT || op->attributes.scalar < 0.0 || op->attributes.scalar > 0.0) {
                continue;
            }
        }
        return redco_fail(err, REDCO_EVALUE, f->path,
                          "the loss does not depend on the parameter %s: describe it as frozen, or leave it out",
                          f->parameters[i].name);
    }
    return REDCO_OK;
}

redco_status redco_user_pipeline_try(const redco_user_pipeline_file *f, uint32_t examples, redco_error *err)
{
    enum { TRIES = 8 }; /* as often as a training may call it before its first step */
    const redco_task_options options = {REDCO_F32, REDCO_F32, true, true, 1};
    redco_task task = {.name = NULL};
    redco_status st = redco_user_pipeline_task(f, examples, &task, err);
    for (int i = 0; i < TRIES && st == REDCO_OK; i++) {
        redco_task_graph built = {.graph = NULL};
        st = redco_task_build(&task, &options, &built, err);
        if (st == REDCO_OK && i == 0) { st = redco_user_pipeline_check_gradients(f, &built, err); }
        redco_task_graph_free(&built);
    }
    redco_user_pipeline_task_free(&task);
    return st;
}

const char *redco_user_pipeline_path(const redco_user_pipeline_file *f)
{
    return f->path;
}
