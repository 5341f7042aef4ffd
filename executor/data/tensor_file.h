/** @file tensor_file.h  Headers of safetensors files and names of their types. Reading: costmodel/models/safetensors.h
 *  (headers), weights.h (data); writing: executor/checkpoint. */
#ifndef REDCO_TENSOR_FILE_H
#define REDCO_TENSOR_FILE_H

#include "costmodel/graph/type.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_named_type {
    const char *name; /**< unique in the file */
    redco_tensor_type type;
} redco_named_type;

/** The beginning of a file in which tensors lie in the order given.
 *  @param path             for errors
 *  @param metadata         object of strings, or NULL; borrowed for the call
 *  @param begin_bytes_out  count + 1: where in the file data of tensors begin, and where the last ends
 *  @param header_out       begin_bytes_out[0] bytes, to be freed with free()
 *  @return REDCO_EVALUE if two names are alike or a type has no name in the format */
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
