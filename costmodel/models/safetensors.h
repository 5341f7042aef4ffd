/** @file safetensors.h  Names and shapes of the tensors in a .safetensors file or a model.safetensors.index.json. Only
 *  headers are read, whatever the size of the files.
 *  Format: 8 bytes little-endian length N, N bytes of JSON {"name":{"dtype","shape","data_offsets"}}, data; at most
 *  100 MB of header (safetensors README, section "Format"). */
#ifndef REDCO_SAFETENSORS_H
#define REDCO_SAFETENSORS_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_SAFETENSORS_RANK_MAX = 8 };

typedef struct redco_safetensor {
    const char *name;
    const char *file; /**< the shard that holds it, for an index; else NULL */
    bool has_shape;   /**< false in an index whose shard was not read: then what follows is unknown, 0 */
    uint32_t rank;
    uint64_t shape[REDCO_SAFETENSORS_RANK_MAX];
    char dtype[12];        /**< as in the file: "F32", "BF16" */
    uint64_t offset_bytes; /**< where its data begin in the file, and how many they are; the file may be shorter */
    uint64_t size_bytes;
} redco_safetensor;

typedef struct redco_safetensors redco_safetensors;

/** Reads the header of a file, or an index and the headers of those of its shards that lie beside it. */
redco_status redco_safetensors_open(const char *path, redco_safetensors **tensors_out, redco_error *err);
/** From memory: an index, its shards unread.  @param index  borrowed for the call */
redco_status redco_safetensors_parse_index(const redco_json_value *index, redco_safetensors **tensors_out,
                                           redco_error *err);
/** True when the bytes can be the beginning of a .safetensors file rather than of a text. */
bool redco_safetensors_like(const void *bytes, size_t size);
void redco_safetensors_free(redco_safetensors *tensors);

/** All tensors in ascending order of name. */
size_t redco_safetensors_list(const redco_safetensors *tensors, const redco_safetensor **list_out);
/** @return NULL if there is none */
const redco_safetensor *redco_safetensors_find(const redco_safetensors *tensors, const char *name);
/** A tensor by its name in a model; the file's may have, or lack, the wrapper of transformers' model class ("model.").
 *  @return NULL if there is none */
const redco_safetensor *redco_safetensors_find_wrapped(const redco_safetensors *tensors, const char *name);
/** Bytes of all tensors that an index states in metadata.total_size; 0 if it does not, or is no index. */
uint64_t redco_safetensors_total_bytes(const redco_safetensors *tensors);

#ifdef __cplusplus
}
#endif
#endif
