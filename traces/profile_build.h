/** @file profile_build.h  Internal to traces: how readers fill a profile. Every number passes redcoi_profile_add(). */
#ifndef REDCO_PROFILE_BUILD_H
#define REDCO_PROFILE_BUILD_H

#include "topology/base/json.h"
#include "traces/profile.h"

/** Statements of the comment lines before a table. */
struct redcoi_profile_about {
    bool has_op;
    redco_collective op;
    uint32_t ranks, nodes; /* 0 = not said */
    bool one_process;      /* "1 process x 8 GPUs" */
    char hardware[160];
    char network[160];
    char tool[200];
};

redco_status redcoi_profile_create(const char *name, const char *format, redco_profile **profile_out, redco_error *err);
void redcoi_profile_set_format(redco_profile *profile, const char *format);

/** Starts a run; later rows belong to it. rows and row_count are ignored. Checks ranks, nodes, stride, groups. */
redco_status redcoi_profile_begin(redco_profile *profile, const redco_profile_run *run, uint32_t line,
                                  redco_error *err);
/** Adds a row: times in seconds, 0 = not measured. Refuses NaN, negative and zero times, falling sizes, absurd rates.
 */
redco_status redcoi_profile_add(redco_profile *profile, uint64_t size_bytes, double out_of_place_s, double in_place_s,
                                uint32_t line, redco_error *err);
redco_status redcoi_profile_add_gemm(redco_profile *profile, const redco_profile_gemm *gemm, redco_error *err);
redco_status redcoi_profile_add_attention(redco_profile *profile, const redco_profile_attention *attention,
                                          redco_error *err);
redco_status redcoi_profile_add_operator(redco_profile *profile, const redco_profile_operator *row, redco_error *err);
redco_status redcoi_profile_add_power(redco_profile *profile, const redco_profile_power *row, redco_error *err);
void redcoi_profile_set_how(redco_profile *profile, const redco_profile_measured *measured);
void redcoi_profile_skip(redco_profile *profile);
/** Sets the rows pointers; a profile without a single row is an error that says what is read. */
redco_status redcoi_profile_finish(redco_profile *profile, redco_error *err);
/** "NAME:LINE" */
const char *redcoi_profile_place(const redco_profile *profile, uint32_t line, char *buffer, size_t size);
__attribute__((format(printf, 4, 5))) redco_status redcoi_profile_fail(const redco_profile *profile, uint32_t line,
                                                                       redco_error *err, const char *format, ...);

/** Takes "key: value" of one comment line (without its '#') into @p about; unknown keys are left alone. */
void redcoi_profile_comment(struct redcoi_profile_about *about, const char *text, size_t length);
/** Copies at most size - 1 bytes and ends the string. */
void redcoi_copy_text(char *buffer, size_t size, const char *text, size_t length);
/** The collective that a file or program name speaks of, e.g. "x/nccl_allgather.log". */
bool redcoi_collective_in_text(const char *text, size_t length, redco_collective *op_out);

/** Next line of @p text from *@p at on, without its end of line. @return false at the end */
bool redcoi_next_line(const char *text, size_t size, size_t *at, const char **line_out, size_t *length_out);
/** A decimal number that fills all @p length bytes: no sign, hexadecimal, inf or nan. */
bool redcoi_decimal(const char *text, size_t length, double *value_out);
bool redcoi_whole(const char *text, size_t length, uint64_t *value_out);

/** CSV tables by their header line. @return REDCO_OK and *@p found_out false if no header line is known */
redco_status redcoi_profile_csv(const char *text, size_t size, const char *name, bool *found_out,
                                redco_profile **profile_out, redco_error *err);
/** The parts of redco's own documents that hold operators: "measured", "gemm", "attention", "operators",
 *  "power". */
redco_status redcoi_profile_compute(redco_profile *profile, const redco_json_value *root, redco_error *err);

redco_status redcoi_profile_json(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                 redco_error *err);

#endif
