#include "executor/data/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are written as they lie in memory; this needs a little-endian processor"
#endif

enum { LENGTH_BYTES = 8, ALIGNMENT_BYTES = 8 };

static const struct {
    const char *name;
    redco_dtype dtype;
} dtypes[] = {{"F32", REDCO_F32}, {"F64", REDCO_F64}, {"BF16", REDCO_BFLOAT16},
              {"F16", REDCO_F16}, {"I32", REDCO_I32}, {"BOOL", REDCO_BOOL}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *redco_tensor_file_dtype_name(redco_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (dtypes[i].dtype == dtype) { return dtypes[i].name; }
    }
    return NULL;
}

bool redco_tensor_file_dtype(const char *name, redco_dtype *dtype_out)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype_out = dtypes[i].dtype;
            return true;
        }
    }
    return false;
}

static json_t *describe(const redco_named_type *tensor, uint64_t begin_bytes, uint64_t end_bytes)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->type.rank; i++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)tensor->type.dim[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", redco_tensor_file_dtype_name(tensor->type.dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin_bytes, (json_int_t)end_bytes);
}

/* @param begin_bytes  relative to the data. @param text_out  to be freed */
static redco_status describe_all(const char *path, const redco_named_type *tensors, size_t count,
                                 const json_t *metadata, uint64_t *begin_bytes, char **text_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    json_t *header = json_object();
    begin_bytes[0] = 0;
    if (metadata != NULL) { (void)json_object_set_new(header, "__metadata__", json_deep_copy(metadata)); }
    for (size_t i = 0; i < count; i++) {
        const redco_named_type *const t = &tensors[i];
        if ((st = redco_type_check(&t->type, t->name, err)) != REDCO_OK) { goto out; }
        if (redco_tensor_file_dtype_name(t->type.dtype) == NULL) {
            st = redco_fail(err, REDCO_EVALUE, path, "%s is %s, which the format has not", t->name,
                            redco_dtype_name(t->type.dtype));
            goto out;
        }
        if (json_object_get(header, t->name) != NULL) {
            st = redco_fail(err, REDCO_EVALUE, path, "two tensors are named \"%s\"", t->name);
            goto out;
        }
        begin_bytes[i + 1] = begin_bytes[i] + redco_type_bytes(&t->type);
        if (json_object_set_new(header, t->name, describe(t, begin_bytes[i], begin_bytes[i + 1])) != 0) {
            st = redco_fail(err, REDCO_EVALUE, path, "tensor %zu has no name in UTF-8", i);
            goto out;
        }
    }
    *text_out = json_dumps(header, JSON_COMPACT);
    if (*text_out == NULL) { st = redco_fail(err, REDCO_ENOMEM, path, "no memory for its header"); }
out:
    json_decref(header);
    return st;
}

/* Spaces behind the header align the data. */
redco_status redco_tensor_file_header(const char *path, const redco_named_type *tensors, size_t count,
                                      const json_t *metadata, uint64_t *begin_bytes_out, unsigned char **header_out,
                                      redco_error *err)
{
    char *text = NULL;
    redco_status st = describe_all(path, tensors, count, metadata, begin_bytes_out, &text, err);
    if (st != REDCO_OK) { return st; }
    const size_t length = strlen(text), padded = (length + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    unsigned char *const header = malloc(LENGTH_BYTES + padded);
    if (header == NULL) {
        free(text);
        return redco_fail(err, REDCO_ENOMEM, path, "no memory for its header");
    }
    for (size_t i = 0; i < LENGTH_BYTES; i++) { header[i] = (unsigned char)((uint64_t)padded >> (8 * i)); }
    memset(header + LENGTH_BYTES, ' ', padded);
    memcpy(header + LENGTH_BYTES, text, length);
    for (size_t i = 0; i <= count; i++) { begin_bytes_out[i] += LENGTH_BYTES + padded; }
    free(text);
    *header_out = header;
    return REDCO_OK;
}
