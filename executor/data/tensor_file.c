#include "executor/data/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are written as they lie in memory; this needs a little-endian processor"
#endif

enum { LENGTH_BYTES = 8, ALIGNMENT_BYTES = 8 };

struct redco_tensor_file {
    int descriptor;
    char *path, *temporary;
    size_t count;
    uint64_t *begin_bytes; /**< in the file; one more than tensors */
    uint64_t put_bytes;
};

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

static redco_status system_fail(const redco_tensor_file *file, const char *what, redco_error *err)
{
    return redco_fail(err, REDCO_EIO, file->path, "cannot %s: %s", what, strerror(errno));
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

static redco_status write_at(const redco_tensor_file *file, const void *data, uint64_t size_bytes, uint64_t at_bytes,
                             redco_error *err)
{
    const char *from = data;
    while (size_bytes > 0) {
        const ssize_t wrote = pwrite(file->descriptor, from, size_bytes, (off_t)at_bytes);
        if (wrote < 0 && errno == EINTR) { continue; }
        if (wrote <= 0) { return system_fail(file, "write", err); }
        from += wrote;
        at_bytes += (uint64_t)wrote;
        size_bytes -= (uint64_t)wrote;
    }
    return REDCO_OK;
}

redco_status redco_tensor_file_create(const char *path, const redco_named_type *tensors, size_t count,
                                      const json_t *metadata, redco_tensor_file **file_out, redco_error *err)
{
    static const char ending[] = ".XXXXXX"; /* mkostemp() changes the letters */
    const size_t name_size = strlen(path) + sizeof ending;
    redco_status st = REDCO_OK;
    unsigned char *header = NULL;
    redco_tensor_file *file = calloc(1, sizeof *file);
    if (file == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "no memory to write it"); }
    file->descriptor = -1;
    file->count = count;
    file->path = strdup(path);
    file->begin_bytes = calloc(count + 1, sizeof *file->begin_bytes);
    char *temporary = malloc(name_size);
    if (file->path == NULL || file->begin_bytes == NULL || temporary == NULL) {
        free(temporary);
        st = redco_fail(err, REDCO_ENOMEM, path, "no memory to write it");
        goto out;
    }
    if ((st = redco_tensor_file_header(path, tensors, count, metadata, file->begin_bytes, &header, err)) != REDCO_OK) {
        free(temporary);
        goto out;
    }
    (void)snprintf(temporary, name_size, "%s%s", path, ending);
    file->descriptor = mkostemp(temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        st = system_fail(file, "create a file beside it", err);
        free(temporary);
        goto out;
    }
    file->temporary = temporary; /* from here on it is there */
    if ((st = write_at(file, header, file->begin_bytes[0], 0, err)) != REDCO_OK) { goto out; }
    *file_out = file;
    file = NULL;
out:
    free(header);
    redco_tensor_file_abandon(file);
    return st;
}

redco_status redco_tensor_file_put(redco_tensor_file *file, size_t tensor, uint64_t offset_bytes, const void *data,
                                   uint64_t size_bytes, redco_error *err)
{
    const uint64_t room_bytes = tensor < file->count ? file->begin_bytes[tensor + 1] - file->begin_bytes[tensor] : 0;
    if (offset_bytes > room_bytes || size_bytes > room_bytes - offset_bytes) {
        return redco_fail(err, REDCO_EVALUE, file->path, "bytes %llu to %llu of tensor %zu, which has %llu",
                          (unsigned long long)offset_bytes, (unsigned long long)offset_bytes + size_bytes, tensor,
                          (unsigned long long)room_bytes);
    }
    file->put_bytes += size_bytes;
    return write_at(file, data, size_bytes, file->begin_bytes[tensor] + offset_bytes, err);
}

/* The new name is in the folder, which is on the disk when the folder is. */
static redco_status flush_folder(const redco_tensor_file *file, redco_error *err)
{
    const char *slash = strrchr(file->path, '/');
    char *folder = slash == NULL         ? strdup(".")
                   : slash == file->path ? strdup("/")
                                         : strndup(file->path, (size_t)(slash - file->path));
    if (folder == NULL) { return redco_fail(err, REDCO_ENOMEM, file->path, "no memory to write it"); }
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL: a file system that cannot. */
    const bool flushed = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    const redco_status st = flushed ? REDCO_OK : system_fail(file, "flush its folder", err);
    if (descriptor >= 0) { (void)close(descriptor); }
    free(folder);
    return st;
}

static redco_status finish(redco_tensor_file *file, redco_error *err)
{
    const uint64_t data_bytes = file->begin_bytes[file->count] - file->begin_bytes[0];
    if (file->put_bytes != data_bytes) {
        return redco_fail(err, REDCO_EVALUE, file->path, "%llu of %llu bytes of data were put",
                          (unsigned long long)file->put_bytes, (unsigned long long)data_bytes);
    }
    const mode_t mask = umask(0); /* mkostemp() gives the file to its owner alone */
    (void)umask(mask);
    if (fchmod(file->descriptor, 0666 & ~mask) != 0) { return system_fail(file, "set its mode", err); }
    if (fsync(file->descriptor) != 0) { return system_fail(file, "flush it", err); }
    const int closed = close(file->descriptor);
    file->descriptor = -1;
    if (closed != 0) { return system_fail(file, "close it", err); }
    if (rename(file->temporary, file->path) != 0) { return system_fail(file, "name it", err); }
    free(file->temporary);
    file->temporary = NULL;
    return flush_folder(file, err);
}

redco_status redco_tensor_file_finish(redco_tensor_file *file, redco_error *err)
{
    const redco_status st = finish(file, err);
    redco_tensor_file_abandon(file);
    return st;
}

void redco_tensor_file_abandon(redco_tensor_file *file)
{
    if (file == NULL) { return; }
    if (file->descriptor >= 0) { (void)close(file->descriptor); }
    if (file->temporary != NULL) { (void)unlink(file->temporary); }
    free(file->temporary);
    free(file->path);
    free(file->begin_bytes);
    free(file);
}
