/* Reads and writes checkpoint.json: metadata, files and checksums. */
#include "executor/checkpoint/checkpoint_internal.h"

#include "executor/data/tensor_file.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIGITS = 17, FILES_MAX = 65536, TENSORS_MAX = 1000000, BYTES_MAX = 1 << 28 };

static const char format[] = "redco-checkpoint";
static const char order_word[] = "file"; /* shuffled data have none */
static const char *const optimizer_words[] = {"adamw", "sgd", "adafactor"};

static json_t *file_json(const redcoi_file *f)
{
    return json_pack("{s:s, s:I, s:I, s:s}", "name", f->name, "size_bytes", (json_int_t)f->size_bytes, "header_bytes",
                     (json_int_t)f->header_bytes, "header_sha256", f->header_sha256);
}

static json_t *entry_json(const redcoi_entry *e)
{
    char checksum[24];
    json_t *const shape = json_array();
    for (uint32_t i = 0; i < e->type.rank; i++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)e->type.dim[i]));
    }
    (void)snprintf(checksum, sizeof checksum, "%016" PRIx64, e->checksum);
    return json_pack("{s:i, s:I, s:s, s:o, s:s}", "file", (int)e->file, "offset_bytes", (json_int_t)e->offset_bytes,
                     "dtype", redco_tensor_file_dtype_name(e->type.dtype), "shape", shape, "checksum", checksum);
}

static json_t *content_json(const redco_checkpoint *c)
{
    const redco_checkpoint_info *const i = &c->info;
    json_t *const files = json_array(), *const tensors = json_object();
    for (uint32_t f = 0; f < c->file_count; f++) { (void)json_array_append_new(files, file_json(&c->files[f])); }
    for (uint32_t e = 0; e < c->entry_count; e++) {
        (void)json_object_set_new(tensors, c->entries[e].name, entry_json(&c->entries[e]));
    }
    json_t *const json = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:s, s:s, s:s, s:O, s:o, s:o}", "step", (json_int_t)i->step,
        "seed", (json_int_t)i->seed, "sequences", (json_int_t)i->sequences, "global_batch", (json_int_t)i->global_batch,
        "seq_len", (json_int_t)i->seq_len, "data_windows", (json_int_t)i->data_windows, "ranks", (json_int_t)i->ranks,
        "learning_rate", i->learning_rate, "dtype", redco_tensor_file_dtype_name(i->master), "optimizer",
        optimizer_words[i->optimizer], "model_name", i->model_name, "model_sha256", i->model_sha256, "plan_sha256",
        i->plan_sha256, "model_config", i->model_config, "files", files, "tensors", tensors);
    if (json != NULL && i->in_order) { (void)json_object_set_new(json, "data_order", json_string(order_word)); }
    if (json != NULL && i->data_sha256 != NULL) {
        (void)json_object_set_new(json, "data_sha256", json_string(i->data_sha256));
    }
    if (json != NULL && i->best.step > 0) {
        (void)json_object_set_new(
            json, "best",
            json_pack("{s:s, s:I, s:f}", "by", i->best.by, "step", (json_int_t)i->best.step, "value", i->best.value));
    }
    const struct {
        const char *key;
        const json_t *value;
    } given[] = {{"settings", i->settings}, {"collected", i->collected}};
    for (size_t g = 0; g < sizeof given / sizeof given[0]; g++) {
        if (json == NULL || given[g].value == NULL) { continue; }
        (void)json_object_set(json, given[g].key, (json_t *)(uintptr_t)given[g].value);
    }
    return json;
}

/* @return false when out of memory */
static bool digest(const json_t *content, char hex_out[REDCO_SHA256_HEX_SIZE])
{
    size_t size = 0;
    char *const text = redco_json_text(content, DIGITS, &size);
    if (text == NULL) { return false; }
    redco_sha256_hex(text, size, hex_out);
    free(text);
    return true;
}

char *redcoi_manifest_text(const redco_checkpoint *c, size_t *size_out)
{
    char sha256[REDCO_SHA256_HEX_SIZE];
    json_t *const content = content_json(c);
    if (content == NULL || !digest(content, sha256)) {
        json_decref(content);
        return NULL;
    }
    json_t *const document = json_pack("{s:s, s:i, s:s, s:o}", "format", format, "version", REDCOI_CHECKPOINT_VERSION,
                                       "sha256", sha256, "content", content);
    char *const text = document != NULL ? redco_json_text(document, DIGITS, size_out) : NULL;
    json_decref(document);
    return text;
}

static redco_status read_dtype(const redco_json_value *object, const char *key, redco_dtype *dtype_out,
                               redco_error *err)
{
    const char *word = NULL;
    const redco_status st = redco_json_string(object, key, &word, err);
    if (st != REDCO_OK) { return st; }
    if (redco_tensor_file_dtype(word, dtype_out) && (*dtype_out == REDCO_F32 || *dtype_out == REDCO_F64)) {
        return REDCO_OK;
    }
    return redco_json_fail(object, key, err, "is \"%.20s\"; F32 and F64 are right", word);
}

static redco_status read_sha256(const redco_json_value *object, const char *key, const char **hex_out, redco_error *err)
{
    const redco_status st = redco_json_string(object, key, hex_out, err);
    if (st != REDCO_OK) { return st; }
    if (strlen(*hex_out) == 64 && strspn(*hex_out, "0123456789abcdef") == 64) { return REDCO_OK; }
    return redco_json_fail(object, key, err, "is no SHA-256 of 64 hexadecimal digits");
}

static redco_status read_file(const redco_json_value *object, redcoi_file *file, redco_error *err)
{
    const char *name = NULL, *sha256 = NULL;
    redco_status st = redco_json_string(object, "name", &name, err);
    if (st != REDCO_OK) { return st; }
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL || strlen(name) >= sizeof file->name) {
        return redco_json_fail(object, "name", err, "is no name of a file of a checkpoint");
    }
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    st = redco_json_u64(object, "size_bytes", 0, INT64_MAX, &file->size_bytes, err);
    /* 100 MB of header: costmodel/models/safetensors.h */
    const uint64_t most = file->size_bytes < 100000008 ? file->size_bytes : 100000008;
    if (st == REDCO_OK) { st = redco_json_u64(object, "header_bytes", 0, most, &file->header_bytes, err); }
    if (st == REDCO_OK) { st = read_sha256(object, "header_sha256", &sha256, err); }
    if (st == REDCO_OK) { (void)snprintf(file->header_sha256, sizeof file->header_sha256, "%s", sha256); }
    return st;
}

static redco_status read_files(redco_checkpoint *c, const redco_json_value *content, redco_error *err)
{
    redco_json_value list, object;
    size_t count = 0;
    redco_status st = redco_json_array(content, "files", &list, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count > FILES_MAX) {
        return redco_json_fail(&list, NULL, err, "has %zu files; at most %d are read", count, FILES_MAX);
    }
    c->files = calloc(count + 1, sizeof *c->files);
    if (c->files == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "out of memory"); }
    c->file_count = (uint32_t)count;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&list, i, &object, err);
        if (st == REDCO_OK) { st = read_file(&object, &c->files[i], err); }
    }
    return st;
}

static redco_status read_shape(const redco_json_value *object, redco_tensor_type *type, redco_error *err)
{
    redco_json_value list;
    size_t rank = 0;
    char place[512];
    redco_status st = redco_json_array(object, "shape", &list, &rank, err);
    if (st == REDCO_OK && rank > REDCO_RANK_MAX) {
        st = redco_json_fail(&list, NULL, err, "has %zu dimensions; at most %d are read", rank, REDCO_RANK_MAX);
    }
    if (st != REDCO_OK) { return st; }
    type->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *const dim = json_array_get(list.json, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 1) {
            return redco_json_fail(&list, NULL, err, "has a dimension that is no whole number from 1 on");
        }
        type->dim[i] = (uint64_t)json_integer_value(dim);
    }
    return redco_type_check(type, redco_json_place(&list, NULL, place, sizeof place), err);
}

static redco_status read_entry(const redco_checkpoint *c, const redco_json_value *object, redcoi_entry *entry,
                               redco_error *err)
{
    const char *checksum = NULL;
    redco_status st = read_dtype(object, "dtype", &entry->type.dtype, err);
    if (st == REDCO_OK) { st = read_shape(object, &entry->type, err); }
    if (st == REDCO_OK && c->file_count == 0) { st = redco_json_fail(object, "file", err, "there are no files"); }
    if (st == REDCO_OK) { st = redco_json_u32(object, "file", 0, c->file_count - 1, &entry->file, err); }
    if (st != REDCO_OK) { return st; }
    const redcoi_file *const file = &c->files[entry->file];
    const uint64_t bytes = redco_type_bytes(&entry->type);
    st = redco_json_u64(object, "offset_bytes", file->header_bytes, file->size_bytes, &entry->offset_bytes, err);
    if (st == REDCO_OK && bytes > file->size_bytes - entry->offset_bytes) {
        st = redco_json_fail(object, "offset_bytes", err, "leaves %" PRIu64 " bytes of %s, of which it needs %" PRIu64,
                             file->size_bytes - entry->offset_bytes, file->name, bytes);
    }
    if (st == REDCO_OK) { st = redco_json_string(object, "checksum", &checksum, err); }
    if (st != REDCO_OK) { return st; }
    if (strlen(checksum) != 16 || strspn(checksum, "0123456789abcdef") != 16) {
        return redco_json_fail(object, "checksum", err, "is not 16 hexadecimal digits");
    }
    entry->checksum = strtoull(checksum, NULL, 16);
    return REDCO_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const redcoi_entry *)a)->name, ((const redcoi_entry *)b)->name);
}

static redco_status read_entries(redco_checkpoint *c, const redco_json_value *content, redco_error *err)
{
    redco_json_value all, object;
    redco_status st = redco_json_object(content, "tensors", &all, err);
    if (st != REDCO_OK) { return st; }
    const size_t count = json_object_size(all.json);
    if (count > TENSORS_MAX) {
        return redco_json_fail(&all, NULL, err, "has %zu tensors; at most %d are read", count, TENSORS_MAX);
    }
    c->entries = calloc(count + 1, sizeof *c->entries);
    if (c->entries == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "out of memory"); }
    void *at = json_object_iter((json_t *)(uintptr_t)all.json);
    for (; at != NULL && st == REDCO_OK; at = json_object_iter_next((json_t *)(uintptr_t)all.json, at)) {
        redcoi_entry *const entry = &c->entries[c->entry_count++];
        entry->name = strdup(json_object_iter_key(at));
        if (entry->name == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "out of memory"); }
        st = redco_json_object(&all, entry->name, &object, err);
        if (st == REDCO_OK) { st = read_entry(c, &object, entry, err); }
    }
    if (c->entry_count > 1) { qsort(c->entries, c->entry_count, sizeof *c->entries, by_name); }
    return st;
}

static redco_status read_optimizer(const redco_json_value *content, redco_optimizer_kind *kind_out, redco_error *err)
{
    const char *word = NULL;
    const redco_status st = redco_json_string(content, "optimizer", &word, err);
    if (st != REDCO_OK) { return st; }
    for (int i = 0; i < (int)(sizeof optimizer_words / sizeof optimizer_words[0]); i++) {
        if (strcmp(word, optimizer_words[i]) == 0) {
            *kind_out = (redco_optimizer_kind)i;
            return REDCO_OK;
        }
    }
    return redco_json_fail(content, "optimizer", err, "is \"%.20s\"; adamw, sgd and adafactor are known", word);
}

/* A checkpoint may have these: order and digest of its data, and the best one. */
static redco_status read_optional(redco_checkpoint *c, const redco_json_value *content, redco_error *err)
{
    redco_checkpoint_best *const best = &c->info.best;
    redco_json_value object;
    const char *word = NULL;
    redco_status st = REDCO_OK;
    if (redco_json_has(content, "data_order")) {
        st = redco_json_string(content, "data_order", &word, err);
        if (st == REDCO_OK && strcmp(word, order_word) != 0) {
            st = redco_json_fail(content, "data_order", err, "is \"%.20s\"; %s is right", word, order_word);
        }
        c->info.in_order = true;
    }
    if (st == REDCO_OK && redco_json_has(content, "data_sha256")) {
        st = read_sha256(content, "data_sha256", &c->info.data_sha256, err);
    }
    if (st != REDCO_OK || !redco_json_has(content, "best")) { return st; }
    st = redco_json_object(content, "best", &object, err);
    if (st == REDCO_OK) { st = redco_json_u64(&object, "step", 1, c->info.step, &best->step, err); }
    if (st == REDCO_OK) { st = redco_json_number(&object, "value", -DBL_MAX, DBL_MAX, &best->value, err); }
    return st == REDCO_OK ? redco_json_string(&object, "by", &best->by, err) : st;
}

static redco_status read_info(redco_checkpoint *c, const redco_json_value *content, redco_error *err)
{
    redco_checkpoint_info *const i = &c->info;
    redco_json_value config;
    redco_status st = redco_json_u64(content, "step", 1, INT64_MAX, &i->step, err);
    if (st == REDCO_OK) { st = redco_json_u64(content, "seed", 0, INT64_MAX, &i->seed, err); }
    if (st == REDCO_OK) { st = redco_json_u64(content, "sequences", 1, INT64_MAX, &i->sequences, err); }
    if (st == REDCO_OK) { st = redco_json_u64(content, "global_batch", 1, INT64_MAX, &i->global_batch, err); }
    if (st == REDCO_OK) { st = redco_json_u32(content, "seq_len", 1, UINT32_MAX, &i->seq_len, err); }
    if (st == REDCO_OK) { st = redco_json_u64(content, "data_windows", 0, INT64_MAX, &i->data_windows, err); }
    if (st == REDCO_OK) { st = redco_json_u32(content, "ranks", 1, REDCO_WORLD_MAX, &i->ranks, err); }
    if (st == REDCO_OK) { st = redco_json_number(content, "learning_rate", 0.0, 1e30, &i->learning_rate, err); }
    if (st == REDCO_OK) { st = read_dtype(content, "dtype", &i->master, err); }
    if (st == REDCO_OK) { st = read_optimizer(content, &i->optimizer, err); }
    if (st == REDCO_OK) { st = redco_json_string(content, "model_name", &i->model_name, err); }
    if (st == REDCO_OK) { st = read_sha256(content, "model_sha256", &i->model_sha256, err); }
    if (st == REDCO_OK) { st = read_sha256(content, "plan_sha256", &i->plan_sha256, err); }
    if (st == REDCO_OK) { st = redco_json_object(content, "model_config", &config, err); }
    if (st == REDCO_OK) {
        i->model_config = config.json;
        i->collected = json_object_get(content->json, "collected");
        i->settings = json_object_get(content->json, "settings");
    }
    return st == REDCO_OK ? read_optional(c, content, err) : st;
}

/* A digest of the content reveals any change. */
static redco_status check_digest(const redco_json_value *root, const redco_json_value *content, redco_error *err)
{
    char sha256[REDCO_SHA256_HEX_SIZE], place[512];
    const char *want = NULL;
    const redco_status st = read_sha256(root, "sha256", &want, err);
    if (st != REDCO_OK) { return st; }
    if (!digest(content->json, sha256)) {
        return redco_fail(err, REDCO_ENOMEM, redco_json_place(root, NULL, place, sizeof place), "out of memory");
    }
    if (strcmp(sha256, want) == 0) { return REDCO_OK; }
    return redco_json_fail(root, "content", err, "is not what was written: its SHA-256 is another");
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const redcoi_entry *)entry)->name);
}

const redcoi_entry *redcoi_entry_find(const redco_checkpoint *c, const char *name)
{
    return bsearch(name, c->entries, c->entry_count, sizeof *c->entries, compare_name);
}

redco_status redco_checkpoint_parse(const char *text, size_t size, const char *name, redco_checkpoint **checkpoint_out,
                                    redco_error *err)
{
    redco_json *document = NULL;
    redco_json_value content;
    uint32_t version = 0;
    redco_checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    c->path = strdup(name);
    redco_status st = c->path == NULL ? redco_fail(err, REDCO_ENOMEM, name, "out of memory") : REDCO_OK;
    if (st == REDCO_OK) { st = redco_json_parse(text, size, name, &document, err); }
    if (st != REDCO_OK) { goto out; }
    const redco_json_value root = redco_json_root(document);
    if ((st = redco_json_format(&root, format, REDCOI_CHECKPOINT_VERSION, &version, err)) != REDCO_OK) { goto out; }
    if ((st = redco_json_object(&root, "content", &content, err)) != REDCO_OK) { goto out; }
    if ((st = check_digest(&root, &content, err)) != REDCO_OK) { goto out; }
    c->content = json_incref((json_t *)(uintptr_t)content.json);
    if ((st = read_info(c, &content, err)) != REDCO_OK) { goto out; }
    if ((st = read_files(c, &content, err)) != REDCO_OK) { goto out; }
    if ((st = read_entries(c, &content, err)) != REDCO_OK) { goto out; }
    *checkpoint_out = c;
    c = NULL;
out:
    redco_json_close(document);
    redco_checkpoint_free(c);
    return st;
}

redco_status redcoi_manifest_open(const char *folder, const char *name, uint64_t step,
                                  redco_checkpoint **checkpoint_out, redco_error *err)
{
    char path[REDCOI_PATH_SIZE + 32];
    char *text = NULL;
    size_t size = 0;
    struct stat info;
    redco_checkpoint *c = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* opening a pipe would block */
        return redco_fail(err, REDCO_EVALUE, path, "is no file");
    }
    redco_status st = redco_file_read(path, BYTES_MAX, &text, &size, err);
    if (st == REDCO_OK) { st = redco_checkpoint_parse(text, size, path, &c, err); }
    free(text);
    if (st == REDCO_OK && c->info.step != step) {
        st = redco_fail(err, REDCO_EVALUE, path, "is of step %" PRIu64, c->info.step);
    }
    if (st == REDCO_OK) {
        free(c->path);
        c->path = strdup(folder);
        if (c->path == NULL) { st = redco_fail(err, REDCO_ENOMEM, folder, "out of memory"); }
    }
    if (st == REDCO_OK) {
        *checkpoint_out = c;
        c = NULL;
    }
    redco_checkpoint_free(c);
    return st;
}

void redco_checkpoint_free(redco_checkpoint *c)
{
    if (c == NULL) { return; }
    for (uint32_t i = 0; i < c->file_count && c->files != NULL; i++) { free(c->files[i].header); }
    for (uint32_t i = 0; i < c->entry_count && c->entries != NULL; i++) { free(c->entries[i].name); }
    json_decref(c->content);
    free(c->files);
    free(c->entries);
    free(c->path);
    free(c);
}

const redco_checkpoint_info *redco_checkpoint_get_info(const redco_checkpoint *c)
{
    return &c->info;
}

const char *redco_checkpoint_path(const redco_checkpoint *c)
{
    return c->path;
}
