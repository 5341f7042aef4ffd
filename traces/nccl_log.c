#include "traces/nccl_log.h"

#include "traces/nccl_row.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TABLE_ROWS = 1000000, MAX_DEVICES = 1 << 20 };

/* State of reading one file; rows of the table being read wait until its collective and ranks are known. */
struct log {
    redco_profile *profile;
    redco_error *err;
    uint32_t line;
    struct redcoi_profile_about about;
    char unsupported[32]; /* program whose collective is not priced; "" = none */
    bool one_process;
    uint32_t device_lines, highest_rank;
    uint64_t *hosts; /* hash of each device line's host name */
    size_t host_capacity;
    uint32_t counted_lines, distinct_hosts; /* hosts of the first counted_lines */
    char gpu[64];
    size_t half_words;
    bool header_has_redop, header_seen;
    struct redcoi_nccl_row *rows;
    size_t row_count, row_capacity;
    char pending[256]; /* a row whose times were printed after something else */
    size_t pending_length;
};

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) { hash = (hash ^ (unsigned char)text[i]) * 1099511628211u; }
    return hash;
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All ranks were listed: 0 .. n-1, once each. */
static bool devices_complete(const struct log *log)
{
    return log->device_lines > 0 && log->device_lines == log->highest_rank + 1;
}

static uint32_t host_count(struct log *log)
{
    if (!devices_complete(log)) { return 0; }
    uint32_t distinct = 0;
    if (log->counted_lines == log->device_lines) { return log->distinct_hosts; }
    qsort(log->hosts, log->device_lines, sizeof *log->hosts, compare_u64);
    for (uint32_t i = 0; i < log->device_lines; i++) {
        distinct += i == 0 || log->hosts[i] != log->hosts[i - 1] ? 1 : 0;
    }
    log->counted_lines = log->device_lines;
    log->distinct_hosts = distinct;
    return distinct;
}

static double clamp_ranks(double n)
{
    return n >= 2.0 ? fmin(n, (double)MAX_DEVICES) : 2.0;
}

/* Ranks that busbw/algbw of one row allows. n = 2/(2-q) for all-reduce, 1/(1-q) for the (n-1)/n family. */
static void ranks_from_ratio(redco_collective op, const struct redcoi_nccl_row *row, double *low_out, double *high_out)
{
    const double k = op == REDCO_ALL_REDUCE ? 2.0 : 1.0;
    *low_out = 2.0;
    *high_out = MAX_DEVICES;
    for (int i = 0; i < REDCO_PLACEMENTS; i++) {
        const struct redcoi_nccl_half *half = &row->half[i];
        if (half->bus_gb_per_s <= 0.0 || row->size == 0) { continue; }
        const double q = half->bus_gb_per_s * 1e3 * half->time_us / (double)row->size;
        const double q_low = q * (1.0 - half->relative_error);
        const double q_high = q * (1.0 + half->relative_error);
        const double low = q_low < k ? clamp_ranks(k / (k - q_low)) : (double)MAX_DEVICES;
        const double high = q_high < k ? clamp_ranks(k / (k - q_high)) : (double)MAX_DEVICES;
        if (high - low < *high_out - *low_out) {
            *low_out = low;
            *high_out = high;
        }
    }
}

/* The integer with most factors of 2 in [low, high]; group sizes are round. 0 if the interval holds none. */
static uint32_t roundest_in(double low, double high)
{
    const uint32_t first = (uint32_t)ceil(low - 1e-6);
    const uint32_t last = (uint32_t)floor(high + 1e-6);
    for (uint32_t step = 1u << 20; step > 0; step /= 2) {
        const uint32_t candidate = (first + step - 1) / step * step;
        if (candidate >= first && candidate <= last && candidate > 0) { return candidate; }
    }
    return 0;
}

static const struct redcoi_nccl_row *largest_row(const struct log *log)
{
    for (size_t i = log->row_count; i > 0; i--) {
        if (log->rows[i - 1].size > 0 && log->rows[i - 1].count > 0) { return &log->rows[i - 1]; }
    }
    return NULL;
}

#define BIT(op) (1u << (op))

/* Collectives whose columns look like this row; *part_out: ranks if the count is that of one rank's share. */
static unsigned candidates_of(const struct redcoi_nccl_row *row, uint64_t *part_out)
{
    const uint64_t bytes = row->element_bytes > 0 ? row->count * row->element_bytes : 0;
    const bool full = bytes == 0 || bytes == row->size;
    const bool part = bytes == 0 || (bytes < row->size && row->size % bytes == 0);
    unsigned mask = 0;
    *part_out = bytes > 0 && part && !full ? row->size / bytes : 0;
    if (row->has_redop && row->has_root) { mask = full ? BIT(REDCO_REDUCE) : 0; }
    if (row->has_redop && !row->has_root) {
        mask = (full ? BIT(REDCO_ALL_REDUCE) : 0) | (part ? BIT(REDCO_REDUCE_SCATTER) : 0);
    }
    if (!row->has_redop && row->has_root) { mask = full ? BIT(REDCO_BROADCAST) : 0; }
    if (!row->has_redop && !row->has_root) {
        mask = (full ? BIT(REDCO_SEND_RECV) : 0) | (part ? BIT(REDCO_ALL_GATHER) | BIT(REDCO_ALL_TO_ALL) : 0);
    }
    return mask;
}

static redco_status find_op(struct log *log, const struct redcoi_nccl_row *row, const char *name, uint64_t *part_out,
                            redco_collective *op_out)
{
    redco_collective op = REDCO_COLLECTIVE_COUNT;
    const unsigned mask = candidates_of(row, part_out);
    if (log->unsupported[0] != '\0') {
        return redcoi_profile_fail(log->profile, row->line, log->err, "%s is no collective that redco prices",
                                   log->unsupported);
    }
    if (mask == 0) {
        return redcoi_profile_fail(log->profile, row->line, log->err,
                                   "size %llu and count %llu belong to no collective that redco prices (gather and "
                                   "scatter are not)",
                                   (unsigned long long)row->size, (unsigned long long)row->count);
    }
    if (log->about.has_op && (mask & BIT(log->about.op)) == 0) {
        return redcoi_profile_fail(log->profile, row->line, log->err,
                                   "the header says %s, but size, count, redop and root are not those of one",
                                   redco_collective_name(log->about.op));
    }
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    if (log->about.has_op) {
        op = log->about.op;
    } else if ((mask & (mask - 1)) == 0) {
        for (op = REDCO_ALL_REDUCE; (mask & BIT(op)) == 0;) { op++; }
    } else if (log->header_seen && row->lead_only) {
        /* Old layouts: alltoall's header has a redop heading over an empty column, all-gather's has not. */
        op = log->header_has_redop ? REDCO_ALL_TO_ALL : REDCO_ALL_GATHER;
    } else if (!redcoi_collective_in_text(base, strlen(base), &op) || (mask & BIT(op)) == 0) {
        return redcoi_profile_fail(log->profile, row->line, log->err,
                                   "the table may be all-gather or all-to-all, which look alike; add a line "
                                   "\"# collective: all_gather\", or put it into the file's name");
    }
    *op_out = op;
    return REDCO_OK;
}

static redco_status find_ranks(struct log *log, const struct redcoi_nccl_row *row, redco_collective op, uint64_t part,
                               uint32_t *ranks_out)
{
    double low = 0.0;
    double high = 0.0;
    uint32_t said = log->about.ranks;
    if (said == 0 && devices_complete(log)) { said = log->device_lines; }
    if (part > 0 && said > 0 && part != said) {
        return redcoi_profile_fail(log->profile, row->line, log->err,
                                   "the header lists %u ranks, but size / count is that of %llu", said,
                                   (unsigned long long)part);
    }
    if (part > 0 && part <= MAX_DEVICES) {
        *ranks_out = (uint32_t)part;
        return REDCO_OK;
    }
    const bool has_ratio = op != REDCO_BROADCAST && op != REDCO_REDUCE && op != REDCO_SEND_RECV;
    if (has_ratio) { ranks_from_ratio(op, row, &low, &high); }
    if (said > 0) {
        if (has_ratio && (said < low * 0.999 - 0.5 || said > high * 1.001 + 0.5)) {
            return redcoi_profile_fail(log->profile, row->line, log->err,
                                       "the header lists %u ranks, but busbw/algbw is that of %.0f", said,
                                       round((low + high) / 2.0));
        }
        *ranks_out = said;
        return REDCO_OK;
    }
    *ranks_out = has_ratio && high <= 1.5 * low + 1.0 ? roundest_in(low, high) : 0;
    if (*ranks_out == 0) {
        return redcoi_profile_fail(log->profile, row->line, log->err,
                                   "how many ranks ran is not clear from the table; add a line \"# ranks: N\"");
    }
    return REDCO_OK;
}

/* Passes the table read so far on to the profile. */
static redco_status finish_table(struct log *log, const char *name)
{
    redco_profile_run run = {.stride = 1, .groups_per_node = 1, .one_process = log->one_process};
    uint64_t part = 0;
    if (log->pending_length > 0) {
        redcoi_profile_skip(log->profile);
        log->pending_length = 0;
    }
    const struct redcoi_nccl_row *row = largest_row(log);
    if (row == NULL) {
        for (size_t i = 0; i < log->row_count; i++) { redcoi_profile_skip(log->profile); }
        log->row_count = 0;
        return REDCO_OK;
    }
    redco_status st = find_op(log, row, name, &part, &run.op);
    if (st == REDCO_OK) { st = find_ranks(log, row, run.op, part, &run.ranks); }
    if (st != REDCO_OK) { return st; }
    run.nodes = log->about.nodes > 0 ? log->about.nodes : host_count(log);
    if (log->about.hardware[0] != '\0' || log->gpu[0] == '\0') {
        redcoi_copy_text(run.hardware, sizeof run.hardware, log->about.hardware, strlen(log->about.hardware));
    } else {
        (void)snprintf(run.hardware, sizeof run.hardware, "%u x %s", run.ranks, log->gpu);
    }
    redcoi_copy_text(run.network, sizeof run.network, log->about.network, strlen(log->about.network));
    redcoi_copy_text(run.tool, sizeof run.tool, log->about.tool, strlen(log->about.tool));
    run.one_process |= log->about.one_process;
    st = redcoi_profile_begin(log->profile, &run, row->line, log->err);
    for (size_t i = 0; i < log->row_count && st == REDCO_OK; i++) {
        const struct redcoi_nccl_row *r = &log->rows[i];
        st = redcoi_profile_add(log->profile, r->size, r->half[0].time_us * 1e-6, r->half[1].time_us * 1e-6, r->line,
                                log->err);
    }
    log->row_count = 0;
    return st;
}

/* "#  Rank  0 Group  0 Pid 1234 on host device  0 [0000:19:00] NVIDIA H100", with or without Group, perhaps cut. */
static redco_status device_line(struct log *log, const struct redcoi_line *line)
{
    uint64_t rank = 0;
    const char *bracket = memchr(line->text, ']', line->length);
    if (line->word_count < 5 || !redcoi_whole(line->words[1].text, line->words[1].length, &rank)) { return REDCO_OK; }
    if (rank >= MAX_DEVICES || log->device_lines >= MAX_DEVICES) {
        return redcoi_profile_fail(log->profile, log->line, log->err, "rank %llu; at most %d ranks are read",
                                   (unsigned long long)rank, MAX_DEVICES);
    }
    if (log->device_lines >= log->host_capacity) {
        const size_t wanted = log->host_capacity > 0 ? log->host_capacity * 2 : 64;
        uint64_t *larger = realloc(log->hosts, wanted * sizeof *larger);
        if (larger == NULL) { return redco_fail(log->err, REDCO_ENOMEM, "", "out of memory"); }
        log->hosts = larger;
        log->host_capacity = wanted;
    }
    uint64_t host = 0;
    for (size_t i = 2; i + 1 < line->word_count; i++) {
        if (line->words[i].length == 2 && memcmp(line->words[i].text, "on", 2) == 0) {
            host = hash_of(line->words[i + 1].text, line->words[i + 1].length);
        }
    }
    log->hosts[log->device_lines++] = host;
    if (rank > log->highest_rank) { log->highest_rank = (uint32_t)rank; }
    if (bracket != NULL) {
        const char *gpu = bracket + 1;
        const char *end = line->text + line->length;
        while (gpu < end && *gpu == ' ') { gpu++; }
        redcoi_copy_text(log->gpu, sizeof log->gpu, gpu, (size_t)(end - gpu));
    }
    return REDCO_OK;
}

/* "...nGpus G minBytes...": one process drives T x G GPUs. */
static void launch_line(struct log *log, const struct redcoi_line *line)
{
    uint64_t threads = 1;
    uint64_t gpus = 1;
    for (size_t i = 0; i + 1 < line->word_count; i++) {
        const struct redcoi_word *value = &line->words[i + 1];
        if (line->words[i].length == 7 && memcmp(line->words[i].text, "nThread", 7) == 0) {
            (void)redcoi_whole(value->text, value->length, &threads);
        }
        if (line->words[i].length == 5 && memcmp(line->words[i].text, "nGpus", 5) == 0) {
            (void)redcoi_whole(value->text, value->length, &gpus);
        }
    }
    log->one_process = threads > 1 || gpus > 1;
}

static bool begins(const struct redcoi_line *line, const char *text)
{
    const size_t length = strlen(text);
    return line->length >= length && memcmp(line->text, text, length) == 0;
}

static bool has_word(const struct redcoi_line *line, const char *text, size_t *at_out)
{
    for (size_t i = 0; i < line->word_count; i++) {
        if (line->words[i].length == strlen(text) && memcmp(line->words[i].text, text, line->words[i].length) == 0) {
            *at_out = i;
            return true;
        }
    }
    return false;
}

/* "/opt/nccl-tests/build/all_reduce_perf -b 8": the program that prints the next table. @return false if none is named
 */
static bool program_in(const struct redcoi_line *line, const char **name_out, size_t *length_out)
{
    const char *perf = memmem(line->text, line->length, "_perf", 5);
    if (perf == NULL || begins(line, "tool:") || begins(line, "source:") || begins(line, "Collective test concluded")) {
        return false;
    }
    const char *start = perf;
    while (start > line->text && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) { start--; }
    *name_out = start;
    *length_out = (size_t)(perf - start);
    return *length_out > 0;
}

static void note_program(struct log *log, const char *name, size_t length)
{
    log->unsupported[0] = '\0';
    log->about.has_op = redco_collective_parse(name, length, &log->about.op);
    if (!log->about.has_op) { redcoi_copy_text(log->unsupported, sizeof log->unsupported, name, length); }
}

/* "size count type redop root time algbw busbw #wrong time ...": how wide each half is. */
static void header_line(struct log *log, const struct redcoi_line *line)
{
    size_t at = 0;
    size_t first = 0;
    size_t times = 0;
    log->header_seen = true;
    log->header_has_redop = has_word(line, "redop", &at);
    log->half_words = 0;
    for (size_t i = 0; i < line->word_count; i++) {
        const struct redcoi_word *word = &line->words[i];
        if ((word->length == 4 && memcmp(word->text, "time", 4) == 0) ||
            (word->length == 7 && memcmp(word->text, "cputime", 7) == 0)) {
            if (times == 0) { first = i; }
            if (times == 1) { log->half_words = i - first; }
            times++;
        }
    }
}

static redco_status text_line(struct log *log, const struct redcoi_line *line, const char *name)
{
    size_t at = 0;
    const char *program = NULL;
    size_t program_length = 0;
    const bool has_program = program_in(line, &program, &program_length);
    const bool starts = has_program || begins(line, "nThread") || begins(line, "Using devices") ||
                        (has_word(line, "size", &at) && at == 0) ||
                        (line->comment && (begins(line, "collective:") || begins(line, "nodes:") ||
                                           begins(line, "ranks:") || begins(line, "hardware:")));
    if (starts && log->row_count > 0) {
        const redco_status st = finish_table(log, name);
        if (st != REDCO_OK) { return st; }
    }
    if (line->comment) { redcoi_profile_comment(&log->about, line->text, line->length); }
    if (begins(line, "Rank ")) { return device_line(log, line); }
    if (begins(line, "Using devices")) {
        log->device_lines = 0;
        log->counted_lines = 0;
        log->highest_rank = 0;
    } else if (begins(line, "nThread")) {
        launch_line(log, line);
    } else if (has_word(line, "size", &at) && at == 0 && has_word(line, "count", &at)) {
        header_line(log, line);
    } else if (has_program) {
        note_program(log, program, program_length);
    }
    return REDCO_OK;
}

static redco_status keep_row(struct log *log, const struct redcoi_word *words, size_t count, size_t half)
{
    struct redcoi_nccl_row row;
    struct redcoi_word bad = {"", 0};
    const char *what = "";
    if (!redcoi_nccl_row_read(words, count, half, &row, &what, &bad)) {
        return redcoi_profile_fail(log->profile, log->line, log->err, "\"%.*s\" %s",
                                   (int)(bad.length < 40 ? bad.length : 40), bad.text, what);
    }
    if (log->row_count >= log->row_capacity) {
        if (log->row_capacity >= MAX_TABLE_ROWS) {
            return redcoi_profile_fail(log->profile, log->line, log->err, "more than %d rows in a table",
                                       MAX_TABLE_ROWS);
        }
        const size_t wanted = log->row_capacity > 0 ? log->row_capacity * 2 : 64;
        struct redcoi_nccl_row *larger = realloc(log->rows, wanted * sizeof *larger);
        if (larger == NULL) { return redco_fail(log->err, REDCO_ENOMEM, "", "out of memory"); }
        log->rows = larger;
        log->row_capacity = wanted;
    }
    row.line = log->line;
    log->rows[log->row_count++] = row;
    return REDCO_OK;
}

/* nccl-tests prints size to root before it measures: NCCL's own messages may follow on the same line, and the times
 * stand alone on a later one. */
static void keep_pending(struct log *log, const struct redcoi_line *line)
{
    size_t words = 0;
    while (words < line->word_count && words < 5 &&
           memchr(line->words[words].text, ':', line->words[words].length) == NULL) {
        words++;
    }
    if (log->pending_length > 0) { redcoi_profile_skip(log->profile); }
    const struct redcoi_word *last = &line->words[words > 0 ? words - 1 : 0];
    const size_t length = (size_t)(last->text - line->text) + last->length;
    log->pending_length = 0;
    if (words >= 3 && length < sizeof log->pending) {
        memcpy(log->pending, line->text, length);
        log->pending_length = length;
    }
}

static redco_status row_line(struct log *log, const struct redcoi_line *line, bool last_line)
{
    size_t count = line->word_count;
    const size_t half = redcoi_nccl_layout(line->words, &count, log->half_words);
    if (half > 0) {
        if (log->pending_length > 0) {
            redcoi_profile_skip(log->profile);
            log->pending_length = 0;
        }
        return keep_row(log, line->words, count, half);
    }
    if (last_line) { /* cut while it was written */
        redcoi_profile_skip(log->profile);
        return REDCO_OK;
    }
    if (count <= 5 || memmem(line->text, line->length, "NCCL", 4) != NULL) {
        keep_pending(log, line);
        return REDCO_OK;
    }
    return redcoi_profile_fail(log->profile, log->line, log->err,
                               "a row of %zu fields; nccl-tests prints 11 to 13 (or 19 to 21 with -I)", count);
}

static redco_status times_line(struct log *log, const struct redcoi_line *line)
{
    char joined[1024];
    struct redcoi_line whole;
    double ignored = 0.0;
    if (line->word_count < 8 || line->length + log->pending_length + 2 > sizeof joined ||
        !redcoi_decimal(line->words[0].text, line->words[0].length, &ignored)) {
        return REDCO_OK;
    }
    memcpy(joined, log->pending, log->pending_length);
    joined[log->pending_length] = ' ';
    memcpy(joined + log->pending_length + 1, line->text, line->length);
    redcoi_nccl_split_line(joined, log->pending_length + 1 + line->length, &whole);
    size_t count = whole.word_count;
    const size_t half = redcoi_nccl_layout(whole.words, &count, log->half_words);
    if (half == 0) { return REDCO_OK; }
    log->pending_length = 0;
    return keep_row(log, whole.words, count, half);
}

redco_status redco_nccl_log_parse(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                  redco_error *err)
{
    struct log log = {.err = err};
    struct redcoi_line line;
    const char *start = NULL;
    size_t length = 0;
    size_t at = 0;
    redco_status st = redcoi_profile_create(name, "nccl-tests log", &log.profile, err);
    while (st == REDCO_OK && redcoi_next_line(text, size, &at, &start, &length)) {
        log.line++;
        redcoi_nccl_split_line(start, length, &line);
        if (line.word_count == 0) { continue; }
        if (redcoi_nccl_is_row(&line)) {
            st = row_line(&log, &line, at >= size);
        } else if (log.pending_length > 0 && isdigit((unsigned char)line.text[0])) {
            st = times_line(&log, &line);
        } else {
            st = text_line(&log, &line, name);
        }
    }
    if (st == REDCO_OK) { st = finish_table(&log, name); }
    if (st == REDCO_OK) { st = redcoi_profile_finish(log.profile, err); }
    if (st == REDCO_OK) {
        *profile_out = log.profile;
        log.profile = NULL;
    }
    redco_profile_free(log.profile);
    free(log.rows);
    free(log.hosts);
    return st;
}
