/** @file nccl_row.h  Internal to traces: one line of nccl-tests output cut into words, one row of its table. */
#ifndef REDCO_NCCL_ROW_H
#define REDCO_NCCL_ROW_H

#include "traces/profile_build.h"

struct redcoi_word {
    const char *text;
    size_t length;
};

enum { REDCOI_MAX_WORDS = 48 };

struct redcoi_line {
    const char *text; /* behind prefixes and '#' */
    size_t length;
    bool comment; /* began with '#' */
    struct redcoi_word words[REDCOI_MAX_WORDS];
    size_t word_count;
};

struct redcoi_nccl_half {
    double time_us; /* 0 = absent */
    double bus_gb_per_s;
    double relative_error; /* error of bus bandwidth times time, from the digits printed */
};

struct redcoi_nccl_row {
    uint64_t size, count;
    uint32_t element_bytes; /* 0 = type not known */
    bool has_redop, has_root;
    bool lead_only; /* neither a redop nor a root column */
    struct redcoi_nccl_half half[REDCO_PLACEMENTS];
    uint32_t line;
};

/* Cuts off labels of launchers and log collectors, then '#'. */
void redcoi_nccl_split_line(const char *text, size_t length, struct redcoi_line *line_out);
/* The words could begin a row: size, count and type. */
bool redcoi_nccl_is_row(const struct redcoi_line *line);
/* Words of a whole row? @p half_words 4, 8 or 0 = not known from the header. @return words per half, 0 if it fits no
 * layout */
size_t redcoi_nccl_layout(const struct redcoi_word *words, size_t *word_count, size_t half_words);
/* @p what_out names what is wrong in @p bad_out on failure. */
bool redcoi_nccl_row_read(const struct redcoi_word *words, size_t word_count, size_t half_words,
                          struct redcoi_nccl_row *row_out, const char **what_out, struct redcoi_word *bad_out);

#endif
