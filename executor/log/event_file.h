/** @file event_file.h  Files of events as TensorBoard reads them: scalars by step. A file is a row of records, each a
 * length, data and checksums of both; the data are messages in the wire format of protocol buffers. Sources:
 * TensorFlow 2.16, tensorflow/core/lib/io/record_writer.h (records), core/util/event.proto and
 * core/framework/summary.proto (messages); RFC 3720, appendix B.4 (CRC-32C). Numbers are of 32 bits there. */
#ifndef REDCO_EVENT_FILE_H
#define REDCO_EVENT_FILE_H

#include "topology/base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_event_file redco_event_file;

/** Makes a file with a name of its own, "events.out.tfevents.SECONDS.MICROSECONDS.HOST.PROCESS": files are read in the
 *  order of their names.
 *  @param folder  is there
 *  @param wall_s  seconds since 1970
 *  @param first   the step that comes next: what older files of the folder have from it on is void. 0: nothing is */
redco_status redco_event_file_create(const char *folder, double wall_s, uint64_t first, redco_event_file **file_out,
                                     redco_error *err);
void redco_event_file_close(redco_event_file *file); /**< NULL is accepted */

typedef struct redco_event_scalar {
    const char *tag; /**< "train/loss"; at most 200 bytes */
    double value;    /**< rounded to 32 bits */
} redco_event_scalar;

/** Adds one event, which is in the file when the call returns.
 *  @param count  at most 16
 *  @return REDCO_ESYSTEM with the system's reason, a full disk for one */
redco_status redco_event_file_add(redco_event_file *file, double wall_s, uint64_t step,
                                  const redco_event_scalar *scalars, uint32_t count, redco_error *err);

/** CRC-32C (Castagnoli) of @p size bytes. */
uint32_t redco_crc32c(const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
