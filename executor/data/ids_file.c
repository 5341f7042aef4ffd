#include "executor/data/ids_file.h"

#include <string.h>

static bool is_array(const char *name)
{
    static const char ending[] = ".npy";
    const size_t length = strlen(name), tail = sizeof ending - 1;
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

static redco_status read_array(const void *bytes, size_t size, redco_ids_file *ids, redco_error *err)
{
    redco_npy *const a = &ids->array;
    const redco_status st = redco_npy_parse(bytes, size, ids->name, a, err);
    if (st != REDCO_OK) { return st; }
    if ((a->kind != 'i' && a->kind != 'u') || a->rank < 1 || a->rank > 2) {
        return redco_fail(err, REDCO_EVALUE, ids->name,
                          "has %u dimensions and elements of kind '%c'; ids are whole numbers in one row, or in rows",
                          a->rank, a->kind);
    }
    ids->row = a->rank == 2 ? a->dim[1] : 0;
    return REDCO_OK;
}

static redco_status read_plain(const void *bytes, size_t size, uint32_t id_bytes, redco_ids_file *ids, redco_error *err)
{
    if (id_bytes != 0 && id_bytes != 2 && id_bytes != 4) {
        return redco_fail(err, REDCO_EVALUE, ids->name, "ids of %u bytes; 2 and 4 can be read", id_bytes);
    }
    if (id_bytes == 0) { id_bytes = ids->vocabulary <= UINT16_MAX + 1 ? 2 : 4; }
    if (size % id_bytes != 0) {
        return redco_fail(err, REDCO_EVALUE, ids->name, "has %zu bytes, no multiple of %u: ids of %u bits are expected",
                          size, id_bytes, 8 * id_bytes);
    }
    ids->array = (redco_npy){.kind = 'u',
                             .element_bytes = id_bytes,
                             .rank = 1,
                             .dim = {size / id_bytes},
                             .elements = size / id_bytes,
                             .data = bytes};
    return REDCO_OK;
}

redco_status redco_ids_file_parse(const void *bytes, size_t size, const char *name, uint32_t id_bytes,
                                  uint64_t vocabulary, redco_ids_file *ids_out, redco_error *err)
{
    redco_ids_file ids = {.name = name, .vocabulary = vocabulary};
    const redco_status st =
        is_array(name) ? read_array(bytes, size, &ids, err) : read_plain(bytes, size, id_bytes, &ids, err);
    ids.count = ids.array.elements;
    if (st == REDCO_OK) { *ids_out = ids; }
    return st;
}

redco_status redco_ids_file_open(const char *path, uint32_t id_bytes, uint64_t vocabulary, redco_ids_file *ids_out,
                                 redco_error *err)
{
    redco_mapped_file file = {.bytes = NULL};
    redco_status st = redco_mapped_file_open(path, &file, err);
    if (st == REDCO_OK) { st = redco_ids_file_parse(file.bytes, file.size, path, id_bytes, vocabulary, ids_out, err); }
    if (st != REDCO_OK) {
        redco_mapped_file_close(&file);
        return st;
    }
    ids_out->file = file;
    return REDCO_OK;
}

void redco_ids_file_close(redco_ids_file *ids)
{
    redco_mapped_file_close(&ids->file);
    *ids = (redco_ids_file){.name = NULL};
}

redco_status redco_ids_file_get(const redco_ids_file *ids, uint64_t index, int32_t *id_out, redco_error *err)
{
    int64_t id = 0;
    if (redco_npy_whole(&ids->array, index, &id) && id >= 0 && (uint64_t)id < ids->vocabulary) {
        *id_out = (int32_t)id;
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_EVALUE, ids->name,
                      "id %llu is %.0f; the vocabulary has %llu (are ids of %u bytes right?)",
                      (unsigned long long)index, redco_npy_real(&ids->array, index),
                      (unsigned long long)ids->vocabulary, ids->array.element_bytes);
}
