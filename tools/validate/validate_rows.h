/** @file validate_rows.h  The rows of tables of measured runs, each priced as its columns say under its set of
 *  constants. */
#ifndef REDCO_TOOLS_VALIDATE_ROWS_H
#define REDCO_TOOLS_VALIDATE_ROWS_H

#include "tools/cli/measured_files.h"
#include "tools/validate/validate.h"

struct validate_row {
    const redco_measured_run *run;
    const char *skip; /**< NULL = predicted */
    redco_price price;
    char reason[256];   /**< why the simulator cannot lay it out */
    bool speed, memory; /**< which values can be compared */
};

struct validate_rows {
    struct measured_files files;
    struct validate_row *rows; /**< files.count */
};

/** Reads the tables that the arguments name and prices their rows: by --calibration, else by the shipped sets. */
redco_status validate_rows_read(const struct validate_arguments *arguments, struct validate_rows *rows_out,
                                redco_error *err);
void validate_rows_free(struct validate_rows *rows);

/* Kendall's tau of the order of layouts of a source, or of all where it is NULL (validate_layouts.c). */
struct validate_layouts {
    double tau;
    size_t pairs; /* 0: it is not defined */
};
struct validate_layouts validate_layouts_of(const struct validate_rows *rows, const char *source);

#endif
