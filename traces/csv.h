/** @file csv.h  Tables of RFC 4180, cut into cells in place. Internal to redco_traces.
 *
 *  Records end with LF or CR LF; a cell in double quotes may hold commas, line ends and doubled quotes. Empty lines are
 *  skipped, as is a byte-order mark. Refused, with file:line:column: quotes inside a bare cell, text behind a closing
 *  quote, a quote never closed, control characters other than tab, CR LF and LF, and what is not UTF-8. Cells are not
 *  trimmed: RFC 4180 counts spaces as part of a field. */
#ifndef REDCO_TRACES_CSV_H
#define REDCO_TRACES_CSV_H

#include "topology/base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A position in a table. */
typedef struct redcoi_csv {
    const char *name; /**< name of the file, for errors; borrowed */
    char *at;         /**< the next byte to read */
    char *end;        /**< where the closing 0 byte stands */
    char *line_start;
    uint32_t line; /**< line of @p at, from 1 */
} redcoi_csv;

/** Checks the bytes and stands at the first record.
 *  @param text  @p size bytes and a 0 byte behind them; cells are cut in it, so it must live as long as they do */
redco_status redcoi_csv_start(char *text, size_t size, const char *name, redcoi_csv *csv_out, redco_error *err);

/** Cuts the next record.
 *  @param cells      room for @p max pointers; a record of more cells is an error
 *  @param count_out  number of cells; 0: there was no further record
 *  @param line_out   line on which the record begins */
redco_status redcoi_csv_next(redcoi_csv *csv, char **cells, size_t max, size_t *count_out, uint32_t *line_out,
                             redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
