/** @file ids_file.h  Token ids in a file, which is mapped: unsigned numbers of 16 or 32 bits, little-endian, nothing
 * else; or "*.npy", an array (npy.h) of whole numbers: one row of ids, or as many rows as there are sequences. */
#ifndef REDCO_IDS_FILE_H
#define REDCO_IDS_FILE_H

#include "executor/data/mapped_file.h"
#include "executor/data/npy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_ids_file {
    const char *name;       /**< borrowed */
    redco_mapped_file file; /**< all zero of borrowed bytes */
    redco_npy array;
    uint64_t vocabulary;
    uint64_t count; /**< ids in all */
    uint64_t row;   /**< ids of a row; 0: they are one */
} redco_ids_file;

/** @param path        borrowed until it is closed
 *  @param id_bytes    2 or 4; 0: 2 if the vocabulary fits into 16 bits, else 4. An array says it itself
 *  @param vocabulary  ids are below it
 *  @return REDCO_EIO if it cannot be read; REDCO_EVALUE if the size is no multiple or the array is none of ids */
redco_status redco_ids_file_open(const char *path, uint32_t id_bytes, uint64_t vocabulary, redco_ids_file *ids_out,
                                 redco_error *err);
/** From memory, borrowed until it is closed. */
redco_status redco_ids_file_parse(const void *bytes, size_t size, const char *name, uint32_t id_bytes,
                                  uint64_t vocabulary, redco_ids_file *ids_out, redco_error *err);
void redco_ids_file_close(redco_ids_file *ids); /**< an all-zero one is accepted */

/** @return REDCO_EVALUE if the id is not below the vocabulary */
redco_status redco_ids_file_get(const redco_ids_file *ids, uint64_t index, int32_t *id_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
