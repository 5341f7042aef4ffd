/* The tensors and files of a checkpoint. */
#include "executor/checkpoint/checkpoint_internal.h"

#include "executor/data/tensor_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t default_file_bytes = (uint64_t)4 << 30;

static uint32_t kinds_of(const redco_checkpoint_states *s)
{
    return 1 + redco_optimizer_states(&s->optimizer);
}

uint32_t redcoi_entry_number(const redco_checkpoint_states *s, uint32_t parameter, int which)
{
    const uint32_t states = kinds_of(s) - 1, parameters = (uint32_t)s->task->parameter_count;
    if (which == REDCO_STATES_WEIGHTS) { return parameter; }
    uint32_t before = 0;
    for (uint32_t i = 0; i < parameter; i++) { before += (uint32_t)redcoi_states_of(s, i, (int)states); }
    return parameters + before + (uint32_t)which;
}

int redcoi_states_of(const redco_checkpoint_states *s, uint32_t parameter, int states)
{
    return s->task->parameters[parameter].training == REDCO_TRAINED ? states : 0;
}

uint32_t redcoi_entry_count(const redco_checkpoint_states *s, uint32_t kinds)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->task->parameter_count; i++) {
        count += 1 + (uint32_t)redcoi_states_of(s, i, (int)kinds - 1);
    }
    return count;
}

void redcoi_entry_name(const redco_checkpoint_states *s, uint32_t parameter, int which, char name[REDCOI_NAME_SIZE])
{
    const bool weights = which == REDCO_STATES_WEIGHTS;
    (void)snprintf(name, REDCOI_NAME_SIZE, "%s%s%s", s->task->parameters[parameter].name, weights ? "" : ".",
                   weights ? "" : redco_optimizer_state_name(&s->optimizer, (uint32_t)which));
}

redco_tensor_type redcoi_entry_type(const redco_task_parameter *p, redco_dtype dtype)
{
    redco_tensor_type type = redco_task_parameter_type(p, dtype);
    for (uint32_t i = 0; i < p->rank && p->transposed; i++) { type.dim[i] = p->dim[p->rank - 1 - i]; }
    return type;
}

redcoi_placing redcoi_placing_of(const redco_checkpoint_states *s, uint32_t tensor)
{
    const redco_layout *const layout = redco_states_layout(s->states);
    const redco_task_parameter *const p = &s->task->parameters[redco_checkpoint_parameter(s, tensor)];
    return (redcoi_placing){redco_task_parameter_type(p, redco_states_master_dtype(s->states)), p->transposed,
                            s->layouts[tensor], redco_layout_mesh(layout).tp, redco_layout_place(layout).tp};
}

/* @param kinds  tensors of each parameter: its weights, then its states */
static redco_status make_entries(redco_checkpoint *c, const redco_checkpoint_states *s, uint32_t kinds, bool means,
                                 redco_dtype dtype, redco_error *err)
{
    const uint32_t parameters = (uint32_t)s->task->parameter_count;
    const uint32_t ordinary = redcoi_entry_count(s, kinds);
    c->entry_count = ordinary + (means ? redcoi_means_count(s) : 0);
    c->entries = calloc((size_t)c->entry_count + 1, sizeof *c->entries);
    if (c->entries == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "out of memory"); }
    for (uint32_t i = 0; i < parameters; i++) {
        const redco_task_parameter *const p = &s->task->parameters[i];
        if (p->transposed && p->rank > 2) {
            return redco_fail(err, REDCO_EVALUE, p->name, "has %u dimensions; only matrices are turned for files",
                              p->rank);
        }
        for (int which = REDCO_STATES_WEIGHTS; which < redcoi_states_of(s, i, (int)kinds - 1); which++) {
            char name[REDCOI_NAME_SIZE];
            redcoi_entry *const entry = &c->entries[redcoi_entry_number(s, i, which)];
            redcoi_entry_name(s, i, which, name);
            entry->name = strdup(name);
            entry->type = redcoi_entry_type(p, dtype);
            if (entry->name == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "out of memory"); }
        }
    }
    return means ? redcoi_means_catalogue(c, s, ordinary, err) : REDCO_OK;
}

/* Assigns whole tensors to files, in order, each until it is full. @return the number of files */
static uint32_t deal(redco_checkpoint *c, uint32_t first, uint32_t end, uint32_t file, uint64_t file_bytes)
{
    const uint32_t before = file;
    uint64_t filled_bytes = 0;
    for (uint32_t i = first; i < end; i++) {
        const uint64_t bytes = redco_type_bytes(&c->entries[i].type);
        if (filled_bytes > 0 && bytes > file_bytes - (filled_bytes < file_bytes ? filled_bytes : file_bytes)) {
            file++;
            filled_bytes = 0;
        }
        c->entries[i].file = file;
        filled_bytes += bytes;
    }
    return end > first ? file + 1 - before : 0;
}

static json_t *metadata_of(const redco_checkpoint_info *info)
{
    char step[24], seed[24], sequences[24], rate[32];
    (void)snprintf(step, sizeof step, "%" PRIu64, info->step);
    (void)snprintf(seed, sizeof seed, "%" PRIu64, info->seed);
    (void)snprintf(sequences, sizeof sequences, "%" PRIu64, info->sequences);
    (void)snprintf(rate, sizeof rate, "%.17g", info->learning_rate);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "format", "pt", "step", step, "seed", seed, "sequences",
                     sequences, "learning_rate", rate, "model_sha256", info->model_sha256, "plan_sha256",
                     info->plan_sha256);
}

static redco_status make_header(redco_checkpoint *c, uint32_t number, const json_t *metadata, redco_error *err)
{
    redcoi_file *const file = &c->files[number];
    uint32_t first = 0, end = 0;
    while (c->entries[first].file != number) { first++; }
    for (end = first; end < c->entry_count && c->entries[end].file == number; end++) {}
    redco_named_type *const types = calloc((size_t)(end - first) + 1, sizeof *types);
    uint64_t *const begin_bytes = calloc((size_t)(end - first) + 1, sizeof *begin_bytes);
    redco_status st =
        types == NULL || begin_bytes == NULL ? redco_fail(err, REDCO_ENOMEM, c->path, "out of memory") : REDCO_OK;
    for (uint32_t i = first; i < end && st == REDCO_OK; i++) {
        types[i - first] = (redco_named_type){c->entries[i].name, c->entries[i].type};
    }
    if (st == REDCO_OK) {
        st = redco_tensor_file_header(file->name, types, end - first, metadata, begin_bytes, &file->header, err);
    }
    if (st == REDCO_OK) {
        for (uint32_t i = first; i < end; i++) { c->entries[i].offset_bytes = begin_bytes[i - first]; }
        file->header_bytes = begin_bytes[0];
        file->size_bytes = begin_bytes[end - first];
    }
    free(types);
    free(begin_bytes);
    return st;
}

/* "model.safetensors.index.json", as transformers reads it, and the optimizer's of the same kind. */
static json_t *index_of(const redco_checkpoint *c, uint32_t first, uint32_t end)
{
    uint64_t total_bytes = 0;
    json_t *const map = json_object();
    for (uint32_t i = first; i < end; i++) {
        total_bytes += redco_type_bytes(&c->entries[i].type);
        (void)json_object_set_new(map, c->entries[i].name, json_string(c->files[c->entries[i].file].name));
    }
    return json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total_bytes, "weight_map", map);
}

/* @param json  taken */
static redco_status text_file(redcoi_file *file, const char *name, json_t *json, redco_error *err)
{
    size_t size = 0;
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    file->header = (unsigned char *)(json != NULL ? redco_json_text(json, 17, &size) : NULL);
    json_decref(json);
    if (file->header == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    file->header_bytes = file->size_bytes = size;
    return REDCO_OK;
}

static redco_status make_files(redco_checkpoint *c, uint32_t parameters, uint64_t file_bytes, redco_error *err)
{
    const uint32_t models = deal(c, 0, parameters, 0, file_bytes);
    const uint32_t optimizers = deal(c, parameters, c->entry_count, models, file_bytes);
    const uint32_t data = models + optimizers;
    json_t *const metadata = metadata_of(&c->info);
    c->file_count = data + 2 + (optimizers > 0 ? 1 : 0);
    c->files = calloc(c->file_count, sizeof *c->files);
    redco_status st =
        c->files == NULL || metadata == NULL ? redco_fail(err, REDCO_ENOMEM, c->path, "out of memory") : REDCO_OK;
    for (uint32_t i = 0; i < data && st == REDCO_OK; i++) {
        const bool model = i < models;
        (void)snprintf(c->files[i].name, sizeof c->files[i].name, "%s-%05u-of-%05u.safetensors",
                       model ? "model" : "optimizer", (model ? i : i - models) + 1, model ? models : optimizers);
        st = make_header(c, i, metadata, err);
    }
    json_decref(metadata);
    if (st == REDCO_OK) { st = text_file(&c->files[data], "config.json", json_deep_copy(c->info.model_config), err); }
    if (st == REDCO_OK) {
        st = text_file(&c->files[data + 1], "model.safetensors.index.json", index_of(c, 0, parameters), err);
    }
    if (st == REDCO_OK && optimizers > 0) {
        st = text_file(&c->files[data + 2], "optimizer.safetensors.index.json", index_of(c, parameters, c->entry_count),
                       err);
    }
    for (uint32_t i = 0; i < c->file_count && st == REDCO_OK; i++) {
        redco_sha256_hex(c->files[i].header, c->files[i].header_bytes, c->files[i].header_sha256);
    }
    return st;
}

/* One file, or several with an index, as transformers writes them; the config says the type. */
static redco_status make_weights_files(redco_checkpoint *c, uint64_t file_bytes, redco_error *err)
{
    const uint32_t data = deal(c, 0, c->entry_count, 0, file_bytes);
    const redco_dtype dtype = c->entry_count > 0 ? c->entries[0].type.dtype : REDCO_F32;
    json_t *const metadata = json_pack("{s:s}", "format", "pt"), *const config = json_deep_copy(c->info.model_config);
    c->files = calloc((size_t)data + 2, sizeof *c->files);
    redco_status st = c->files == NULL || metadata == NULL || config == NULL
                          ? redco_fail(err, REDCO_ENOMEM, c->path, "out of memory")
                          : REDCO_OK;
    c->file_count = st == REDCO_OK ? data + (data > 1 ? 2 : 1) : 0;
    for (uint32_t i = 0; i < data && st == REDCO_OK; i++) {
        (void)snprintf(c->files[i].name, sizeof c->files[i].name, "model-%05u-of-%05u.safetensors", i + 1, data);
        if (data == 1) { (void)snprintf(c->files[i].name, sizeof c->files[i].name, "model.safetensors"); }
        st = make_header(c, i, metadata, err);
    }
    json_decref(metadata);
    if (st == REDCO_OK && data > 1) {
        st = text_file(&c->files[data], "model.safetensors.index.json", index_of(c, 0, c->entry_count), err);
    }
    if (st != REDCO_OK) {
        json_decref(config);
        return st;
    }
    (void)json_object_set_new(config, "torch_dtype",
                              json_string(dtype == REDCO_BFLOAT16 ? "bfloat16"
                                          : dtype == REDCO_F64    ? "float64"
                                                                  : "float32"));
    return text_file(&c->files[c->file_count - 1], "config.json", config, err);
}

redco_status redcoi_catalogue_weights(const redco_weights_export *options, const redco_checkpoint_states *s,
                                      const char *path, redco_checkpoint **checkpoint_out, redco_error *err)
{
    redco_checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    c->info =
        (redco_checkpoint_info){.master = redco_states_master_dtype(s->states), .model_config = options->model_config};
    c->path = strdup(path);
    redco_status st = c->path != NULL ? make_entries(c, s, 1, false, options->dtype, err)
                                      : redco_fail(err, REDCO_ENOMEM, path, "out of memory");
    if (st == REDCO_OK) {
        st = make_weights_files(c, options->file_bytes > 0 ? options->file_bytes : default_file_bytes, err);
    }
    if (st == REDCO_OK) {
        *checkpoint_out = c;
        c = NULL;
    }
    redco_checkpoint_free(c);
    return st;
}

redco_status redcoi_catalogue(const redco_checkpoints_options *options, const redco_checkpoint_info *info,
                              const redco_checkpoint_states *s, redco_checkpoint **checkpoint_out, redco_error *err)
{
    char path[REDCOI_PATH_SIZE];
    redco_checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL) { return redco_fail(err, REDCO_ENOMEM, options->folder, "out of memory"); }
    redcoi_store_path(options->folder, info->step, false, path);
    c->info = *info;
    c->path = strdup(path);
    redco_status st = c->path != NULL ? make_entries(c, s, kinds_of(s), true, info->master, err)
                                      : redco_fail(err, REDCO_ENOMEM, path, "out of memory");
    if (st == REDCO_OK) {
        st = make_files(c, (uint32_t)s->task->parameter_count,
                        options->file_bytes > 0 ? options->file_bytes : default_file_bytes, err);
    }
    if (st == REDCO_OK) {
        *checkpoint_out = c;
        c = NULL;
    }
    redco_checkpoint_free(c);
    return st;
}
