/** @file record_file.h  Records of a file, each a JSON object: JSON lines, or a folder of arrays (npy.h), of which each
 *  "KEY.npy" has a row for every record: row i of all is record i. The file is mapped and a record is made when it is
 *  asked for: who asks for some reads only those. */
#ifndef REDCO_RECORD_FILE_H
#define REDCO_RECORD_FILE_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_record_file redco_record_file;

enum { REDCO_RECORD_PLACE_BYTES = 480 };

/** Finds where lines begin, or reads headers of arrays; records are not looked at. Blank lines are none.
 *  @param zeros  texts may have zero bytes
 *  @return REDCO_EIO if it cannot be read; REDCO_EVALUE for arrays of different numbers of rows, or none */
redco_status redco_record_file_open(const char *path, bool zeros, redco_record_file **file_out, redco_error *err);
/** JSON lines from memory, borrowed until it is closed. @param name  stands for the file in errors */
redco_status redco_record_file_parse(const char *text, size_t size, const char *name, bool zeros,
                                     redco_record_file **file_out, redco_error *err);
void redco_record_file_close(redco_record_file *file); /**< NULL is accepted */

uint64_t redco_record_file_count(const redco_record_file *file);
const char *redco_record_file_path(const redco_record_file *file);
/** "FILE:LINE", or "FOLDER, row ROW", from 0 as arrays count. @return @p place */
const char *redco_record_file_place(const redco_record_file *file, uint64_t index,
                                    char place[REDCO_RECORD_PLACE_BYTES]);
/** @param record_out  new reference
 *  @return REDCO_EVALUE with the place if it is no JSON object, or an element is no number */
redco_status redco_record_file_get(const redco_record_file *file, uint64_t index, json_t **record_out,
                                   redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
