#include "costmodel/models/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 100000000, MAX_TENSORS = 4000000 };

struct redco_safetensors {
    json_t *keep; /**< owns the names */
    redco_safetensor *list;
    size_t count;
    uint64_t total_bytes;
};

struct element_type {
    const char *name;
    uint32_t bits;
};

/* safetensors 0.8, safetensors/src/tensor.rs, enum Dtype. */
static const struct element_type element_types[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"F64", 64},    {"I64", 64},    {"U64", 64},    {"C64", 64},
};

/* 0 for a type that the format does not have. */
static uint32_t element_bits(const char *name)
{
    for (size_t i = 0; i < sizeof element_types / sizeof element_types[0]; i++) {
        if (strcmp(element_types[i].name, name) == 0) { return element_types[i].bits; }
    }
    return 0;
}

static uint64_t length_of(const unsigned char *bytes)
{
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) { length = length << 8 | bytes[i]; }
    return length;
}

bool redco_safetensors_like(const void *bytes, size_t size)
{
    const unsigned char *start = bytes;
    return size > LENGTH_BYTES && start[LENGTH_BYTES] == '{' && length_of(start) <= MAX_HEADER_BYTES;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const redco_safetensor *)a)->name, ((const redco_safetensor *)b)->name);
}

static redco_status read_shape(const redco_json_value *entry, redco_safetensor *tensor, uint64_t *elements_out,
                               redco_error *err)
{
    redco_json_value shape;
    size_t rank = 0;
    const redco_status st = redco_json_array(entry, "shape", &shape, &rank, err);
    if (st != REDCO_OK) { return st; }
    if (rank > REDCO_SAFETENSORS_RANK_MAX) {
        return redco_json_fail(entry, "shape", err, "has %zu dimensions; at most %d are read", rank,
                               REDCO_SAFETENSORS_RANK_MAX);
    }
    uint64_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape.json, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            return redco_json_fail(entry, "shape", err, "must hold whole numbers");
        }
        tensor->shape[i] = (uint64_t)json_integer_value(size);
        if (!redco_mul_u64(elements, tensor->shape[i], &elements)) {
            return redco_json_fail(entry, "shape", err, "has more than 2^64 elements");
        }
    }
    tensor->rank = (uint32_t)rank;
    tensor->has_shape = true;
    *elements_out = elements;
    return REDCO_OK;
}

/* Where a tensor lies must agree with its shape: else one of them is wrong. */
static redco_status read_offsets(const redco_json_value *entry, const char *type, uint64_t elements,
                                 redco_safetensor *tensor, redco_error *err)
{
    redco_json_value offsets;
    size_t count = 0;
    uint64_t bits = 0;
    const redco_status st = redco_json_array(entry, "data_offsets", &offsets, &count, err);
    if (st != REDCO_OK) { return st; }
    const json_t *from = json_array_get(offsets.json, 0);
    const json_t *to = json_array_get(offsets.json, 1);
    if (count != 2 || !json_is_integer(from) || !json_is_integer(to) || json_integer_value(from) < 0 ||
        json_integer_value(to) < json_integer_value(from)) {
        return redco_json_fail(entry, "data_offsets", err, "must be two whole numbers, begin and end");
    }
    const uint64_t stored = (uint64_t)json_integer_value(to) - (uint64_t)json_integer_value(from);
    const uint32_t each = element_bits(type);
    if (each == 0) { return redco_json_fail(entry, "dtype", err, "is \"%.20s\"; safetensors has no such type", type); }
    if (!redco_mul_u64(elements, each, &bits) || bits % 8 != 0 || bits / 8 != stored) {
        return redco_json_fail(entry, "data_offsets", err, "span %llu bytes; %llu elements of %s need %llu",
                               (unsigned long long)stored, (unsigned long long)elements, type,
                               (unsigned long long)bits / 8);
    }
    (void)snprintf(tensor->dtype, sizeof tensor->dtype, "%s", type);
    tensor->offset_bytes = (uint64_t)json_integer_value(from);
    tensor->size_bytes = stored;
    return REDCO_OK;
}

static redco_status read_tensor(const redco_json_value *root, const char *name, redco_safetensor *tensor,
                                redco_error *err)
{
    redco_json_value entry;
    const char *type = NULL;
    uint64_t elements = 0;
    redco_status st = redco_json_object(root, name, &entry, err);
    if (st == REDCO_OK) { st = redco_json_string(&entry, "dtype", &type, err); }
    if (st == REDCO_OK) { st = read_shape(&entry, tensor, &elements, err); }
    if (st == REDCO_OK) { st = read_offsets(&entry, type, elements, tensor, err); }
    tensor->name = name;
    return st;
}

/* An empty list for the members of an object, whose json it keeps. */
static redco_status create(const redco_json_value *root, const redco_json_value *members,
                           redco_safetensors **tensors_out, redco_error *err)
{
    if (!json_is_object(members->json)) {
        return redco_json_fail(members, NULL, err, "is not an object; one member for each tensor is needed");
    }
    const size_t size = json_object_size(members->json);
    if (size > MAX_TENSORS) {
        return redco_json_fail(members, NULL, err, "has %zu tensors; at most %d are read", size, MAX_TENSORS);
    }
    redco_safetensors *tensors = calloc(1, sizeof *tensors);
    redco_safetensor *list = calloc(size + 1, sizeof *list);
    if (tensors == NULL || list == NULL) {
        free(tensors);
        free(list);
        return redco_fail(err, REDCO_ENOMEM, root->name, "out of memory");
    }
    tensors->keep = json_incref((json_t *)(uintptr_t)root->json);
    tensors->list = list;
    *tensors_out = tensors;
    return REDCO_OK;
}

static int by_offset(const void *a, const void *b)
{
    const redco_safetensor *const *left = a;
    const redco_safetensor *const *right = b;
    if ((*left)->offset_bytes != (*right)->offset_bytes) {
        return (*left)->offset_bytes < (*right)->offset_bytes ? -1 : 1;
    }
    return ((*left)->size_bytes > (*right)->size_bytes) - ((*left)->size_bytes < (*right)->size_bytes);
}

/* No byte is part of two tensors: else one of them is not what was saved. */
static redco_status check_overlaps(const redco_json_value *root, const redco_safetensors *tensors, redco_error *err)
{
    const redco_safetensor **sorted = malloc((tensors->count + 1) * sizeof(const redco_safetensor *));
    redco_status st = REDCO_OK;
    if (sorted == NULL) { return redco_fail(err, REDCO_ENOMEM, root->name, "out of memory"); }
    for (size_t i = 0; i < tensors->count; i++) { sorted[i] = &tensors->list[i]; }
    qsort((void *)sorted, tensors->count, sizeof(const redco_safetensor *), by_offset);
    for (size_t i = 1; i < tensors->count && st == REDCO_OK; i++) {
        const redco_safetensor *before = sorted[i - 1];
        if (sorted[i]->offset_bytes < before->offset_bytes + before->size_bytes) {
            st = redco_json_fail(root, sorted[i]->name, err, "its data_offsets overlap those of %.200s", before->name);
        }
    }
    free((void *)sorted);
    return st;
}

/* @param data_bytes  where the data begin in the file */
static redco_status parse_header(const redco_json_value *root, uint64_t data_bytes, redco_safetensors **tensors_out,
                                 redco_error *err)
{
    redco_safetensors *tensors = NULL;
    redco_status st = create(root, root, &tensors, err);
    if (st != REDCO_OK) { return st; }
    void *walk = json_object_iter(tensors->keep);
    for (; walk != NULL && st == REDCO_OK; walk = json_object_iter_next(tensors->keep, walk)) {
        const char *name = json_object_iter_key(walk);
        if (strcmp(name, "__metadata__") == 0) { continue; }
        st = read_tensor(root, name, &tensors->list[tensors->count], err);
        if (st == REDCO_OK) { tensors->list[tensors->count++].offset_bytes += data_bytes; }
    }
    if (st == REDCO_OK) { st = check_overlaps(root, tensors, err); }
    if (st != REDCO_OK) {
        redco_safetensors_free(tensors);
        return st;
    }
    qsort(tensors->list, tensors->count, sizeof *tensors->list, by_name);
    *tensors_out = tensors;
    return REDCO_OK;
}

static redco_status check_length(const unsigned char *bytes, size_t size, const char *name, uint64_t *length_out,
                                 redco_error *err)
{
    if (size < LENGTH_BYTES) {
        return redco_fail(err, REDCO_EVALUE, name, "has %zu bytes; a safetensors file begins with 8 bytes of length",
                          size);
    }
    *length_out = length_of(bytes);
    if (*length_out < 2 || *length_out > MAX_HEADER_BYTES) {
        return redco_fail(err, REDCO_EVALUE, name,
                          "not a safetensors file: its first 8 bytes say a header of %llu bytes; 2 to %d are possible",
                          (unsigned long long)*length_out, MAX_HEADER_BYTES);
    }
    return REDCO_OK;
}

static redco_status parse_text(const char *text, size_t size, const char *name, redco_safetensors **tensors_out,
                               redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, size, name, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = parse_header(&root, LENGTH_BYTES + (uint64_t)size, tensors_out, err);
    redco_json_close(document);
    return st;
}

static redco_status read_header(FILE *stream, const char *path, redco_safetensors **tensors_out, redco_error *err)
{
    unsigned char start[LENGTH_BYTES];
    uint64_t length = 0;
    const size_t got = fread(start, 1, sizeof start, stream);
    if (got < sizeof start && ferror(stream)) {
        return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno));
    }
    redco_status st = check_length(start, got, path, &length, err);
    if (st != REDCO_OK) { return st; }
    char *text = malloc((size_t)length);
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    const size_t read = fread(text, 1, (size_t)length, stream);
    if (read < length) {
        st = redco_fail(err, REDCO_EVALUE, path, "is cut off: a header of %llu bytes, of which %zu are there",
                        (unsigned long long)length, read);
    } else {
        st = parse_text(text, read, path, tensors_out, err);
    }
    free(text);
    return st;
}

static redco_status read_weight_map(const redco_json_value *map, redco_safetensors *tensors, redco_error *err)
{
    void *walk = json_object_iter((json_t *)(uintptr_t)map->json);
    for (; walk != NULL; walk = json_object_iter_next((json_t *)(uintptr_t)map->json, walk)) {
        const char *name = json_object_iter_key(walk);
        const char *file = NULL;
        const redco_status st = redco_json_string(map, name, &file, err);
        if (st != REDCO_OK) { return st; }
        /* Only files beside the index: an index from elsewhere must not make us open others. */
        if (file[0] == '\0' || strchr(file, '/') != NULL) {
            return redco_json_fail(map, name, err, "is \"%.40s\"; the name of a file beside the index is needed", file);
        }
        tensors->list[tensors->count++] = (redco_safetensor){.name = name, .file = file};
    }
    qsort(tensors->list, tensors->count, sizeof *tensors->list, by_name);
    return REDCO_OK;
}

redco_status redco_safetensors_parse_index(const redco_json_value *index, redco_safetensors **tensors_out,
                                           redco_error *err)
{
    redco_json_value map;
    redco_json_value metadata;
    redco_safetensors *tensors = NULL;
    redco_status st = redco_json_object(index, "weight_map", &map, err);
    if (st == REDCO_OK) { st = create(index, &map, &tensors, err); }
    if (st == REDCO_OK) { st = read_weight_map(&map, tensors, err); }
    if (st == REDCO_OK && redco_json_has(index, "metadata")) {
        st = redco_json_object(index, "metadata", &metadata, err);
        if (st == REDCO_OK && redco_json_has(&metadata, "total_size")) {
            double total = 0.0; /* some writers make it a real number */
            st = redco_json_number(&metadata, "total_size", 0.0, 1e18, &total, err);
            if (st == REDCO_OK) { tensors->total_bytes = (uint64_t)total; }
        }
    }
    if (st != REDCO_OK) {
        redco_safetensors_free(tensors);
        return st;
    }
    *tensors_out = tensors;
    return REDCO_OK;
}

/* "folder/index" and "shard" to "folder/shard". */
static char *beside(const char *index, const char *shard)
{
    const char *slash = strrchr(index, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - index) + 1 : 0;
    const size_t size = folder + strlen(shard) + 1;
    char *path = malloc(size);
    if (path != NULL) { (void)snprintf(path, size, "%.*s%s", (int)folder, index, shard); }
    return path;
}

static redco_status take_shapes(redco_safetensors *tensors, const char *file, const redco_safetensors *shard,
                                const char *shard_path, redco_error *err)
{
    for (size_t i = 0; i < tensors->count; i++) {
        redco_safetensor *tensor = &tensors->list[i];
        if (strcmp(tensor->file, file) != 0) { continue; }
        const redco_safetensor *found = redco_safetensors_find(shard, tensor->name);
        if (found == NULL) {
            return redco_fail(err, REDCO_EVALUE, shard_path, "has no tensor \"%s\", which the index puts there",
                              tensor->name);
        }
        const char *const name = tensor->name;
        const char *const of = tensor->file;
        *tensor = *found;
        tensor->name = name;
        tensor->file = of;
    }
    return REDCO_OK;
}

static redco_status read_shard(const char *index_path, const char *file, redco_safetensors *tensors, bool *read_out,
                               redco_error *err)
{
    redco_safetensors *shard = NULL;
    redco_status st = REDCO_OK;
    char *path = beside(index_path, file);
    if (path == NULL) { return redco_fail(err, REDCO_ENOMEM, index_path, "out of memory"); }
    FILE *stream = fopen(path, "re");
    *read_out = stream != NULL;
    if (stream != NULL) {
        st = read_header(stream, path, &shard, err);
        if (st == REDCO_OK) { st = take_shapes(tensors, file, shard, path, err); }
        (void)fclose(stream);
    }
    redco_safetensors_free(shard);
    free(path);
    return st;
}

/* Each shard is opened once: afterwards all of its tensors have shapes. Stops at the first shard that is not there:
 * an index without its files is common, one with some of them is not. */
static redco_status read_shards(const char *path, redco_safetensors *tensors, redco_error *err)
{
    redco_status st = REDCO_OK;
    bool there = true;
    for (size_t i = 0; i < tensors->count && st == REDCO_OK && there; i++) {
        if (!tensors->list[i].has_shape) { st = read_shard(path, tensors->list[i].file, tensors, &there, err); }
    }
    return st;
}

static redco_status open_index(const char *path, redco_safetensors **tensors_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_safetensors *tensors = NULL;
    redco_status st = redco_json_open(path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_safetensors_parse_index(&root, &tensors, err);
    if (st == REDCO_OK) { st = read_shards(path, tensors, err); }
    redco_json_close(document);
    if (st != REDCO_OK) {
        redco_safetensors_free(tensors);
        return st;
    }
    *tensors_out = tensors;
    return REDCO_OK;
}

/* A JSON text cannot be taken for a header: its first 8 characters would say a length far beyond the largest. */
static bool is_text(FILE *stream)
{
    unsigned char start[LENGTH_BYTES];
    const size_t got = fread(start, 1, sizeof start, stream);
    rewind(stream);
    return got == sizeof start && length_of(start) > MAX_HEADER_BYTES && (start[0] == '{' || isspace(start[0]));
}

redco_status redco_safetensors_open(const char *path, redco_safetensors **tensors_out, redco_error *err)
{
    struct stat info;
    bool index = false;
    FILE *stream = fopen(path, "re");
    if (stream == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno)); }
    redco_status st = REDCO_OK;
    if (fstat(fileno(stream), &info) == 0 && S_ISDIR(info.st_mode)) {
        st = redco_fail(err, REDCO_EIO, path, "is a folder, not a file");
    } else if (is_text(stream)) {
        index = true;
    } else {
        st = read_header(stream, path, tensors_out, err);
    }
    (void)fclose(stream);
    return index ? open_index(path, tensors_out, err) : st;
}

void redco_safetensors_free(redco_safetensors *tensors)
{
    if (tensors == NULL) { return; }
    json_decref(tensors->keep);
    free(tensors->list);
    free(tensors);
}

size_t redco_safetensors_list(const redco_safetensors *tensors, const redco_safetensor **list_out)
{
    *list_out = tensors->list;
    return tensors->count;
}

const redco_safetensor *redco_safetensors_find(const redco_safetensors *tensors, const char *name)
{
    const redco_safetensor key = {.name = name};
    return bsearch(&key, tensors->list, tensors->count, sizeof key, by_name);
}

uint64_t redco_safetensors_total_bytes(const redco_safetensors *tensors)
{
    return tensors->total_bytes;
}
