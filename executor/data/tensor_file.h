/** @file tensor_file.h  Writes safetensors files: one tensor per name, by parts in any order, by one process. The file
 *  appears whole or not at all: it has another name until it is closed, and is flushed to the disk before it gets its
 *  own. Reading: costmodel/models/safetensors.h (headers), weights.h (data). */
#ifndef REDCO_TENSOR_FILE_H
#define REDCO_TENSOR_FILE_H

#include "costmodel/graph/type.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_tensor_file redco_tensor_file;

typedef struct redco_named_type {
    const char *name; /**< unique in the file */
    redco_tensor_type type;
} redco_named_type;

/** Writes the header to a file beside @p path; tensors lie in it in the order given.
 *  @param metadata  object of strings, or NULL; borrowed for the call
 *  @return REDCO_EVALUE if two names are alike or a type has no name in the format */
redco_status redco_tensor_file_create(const char *path, const redco_named_type *tensors, size_t count,
                                      const json_t *metadata, redco_tensor_file **file_out, redco_error *err);
/** Some bytes of a tensor's data, little-endian and row-major as in memory here.
 *  @return REDCO_EIO with the system's reason, a full disk for one */
redco_status redco_tensor_file_put(redco_tensor_file *file, size_t tensor, uint64_t offset_bytes, const void *data,
                                   uint64_t size_bytes, redco_error *err);
/** Gives the file its name, if all bytes were put; frees @p file in any case. */
redco_status redco_tensor_file_finish(redco_tensor_file *file, redco_error *err);
/** Leaves no trace of it. NULL is accepted. */
void redco_tensor_file_abandon(redco_tensor_file *file);

/** The beginning of such a file, for writers of their own.
 *  @param path             for errors
 *  @param begin_bytes_out  count + 1: where in the file data of tensors begin, and where the last ends
 *  @param header_out       begin_bytes_out[0] bytes, to be freed with free() */
redco_status redco_tensor_file_header(const char *path, const redco_named_type *tensors, size_t count,
                                      const json_t *metadata, uint64_t *begin_bytes_out, unsigned char **header_out,
                                      redco_error *err);

/** "F32" and the like; NULL for types that the format does not have here. Static. */
const char *redco_tensor_file_dtype_name(redco_dtype dtype);
/** @return false for an unknown name */
bool redco_tensor_file_dtype(const char *name, redco_dtype *dtype_out);

#ifdef __cplusplus
}
#endif
#endif
