#include "traces/profile.h"

#include "traces/profile_build.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_RUNS = 100000,
    MAX_ROWS = 2000000,
    MAX_GEMMS = 1000000,
    MAX_OPERATORS = 100000,
    MAX_POWERS = 1000,
    MAX_RANKS = 1 << 20
};
static const uint64_t max_size_bytes = (uint64_t)1 << 50;
static const double max_time_s = 1e5;
static const double max_bytes_per_s = 1e14; /* no GPU has even a tenth of this to its own memory */

struct redco_profile {
    char *name;
    const char *format;
    redco_profile_run *runs; /* rows points into this->rows after redcoi_profile_finish() */
    size_t run_count, run_capacity;
    redco_profile_row *rows;
    size_t row_count, row_capacity;
    redco_profile_gemm *gemms;
    size_t gemm_count, gemm_capacity;
    redco_profile_attention *attentions;
    size_t attention_count, attention_capacity;
    redco_profile_operator *operators;
    size_t operator_count, operator_capacity;
    redco_profile_power *powers;
    size_t power_count, power_capacity;
    redco_profile_measured measured;
    size_t skipped;
};

redco_status redcoi_profile_create(const char *name, const char *format, redco_profile **profile_out, redco_error *err)
{
    redco_profile *profile = calloc(1, sizeof *profile);
    char *copy = strdup(name);
    if (profile == NULL || copy == NULL) {
        free(profile);
        free(copy);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    profile->name = copy;
    profile->format = format;
    *profile_out = profile;
    return REDCO_OK;
}

void redco_profile_free(redco_profile *profile)
{
    if (profile == NULL) { return; }
    free(profile->name);
    free(profile->runs);
    free(profile->rows);
    free(profile->gemms);
    free(profile->attentions);
    free(profile->operators);
    free(profile->powers);
    free(profile);
}

void redcoi_profile_set_format(redco_profile *profile, const char *format)
{
    profile->format = format;
}

const char *redcoi_profile_place(const redco_profile *profile, uint32_t line, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, line > 0 ? "%s:%u" : "%s", profile->name, line);
    return buffer;
}

redco_status redcoi_profile_fail(const redco_profile *profile, uint32_t line, redco_error *err, const char *format, ...)
{
    char place[512];
    char text[768];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return redco_fail(err, REDCO_EVALUE, redcoi_profile_place(profile, line, place, sizeof place), "%s", text);
}

/* Makes room for one more element. */
static redco_status grow(const redco_profile *profile, void **array, size_t count, size_t *capacity, size_t element,
                         size_t most, const char *what, redco_error *err)
{
    if (count < *capacity) { return REDCO_OK; }
    if (count >= most) { return redcoi_profile_fail(profile, 0, err, "more than %zu %s", most, what); }
    const size_t wanted = *capacity > 0 ? *capacity * 2 : 16;
    void *larger = realloc(*array, wanted * element);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, profile->name, "out of memory"); }
    *array = larger;
    *capacity = wanted;
    return REDCO_OK;
}

redco_status redcoi_profile_begin(redco_profile *profile, const redco_profile_run *run, uint32_t line, redco_error *err)
{
    if (run->ranks < 2 || run->ranks > MAX_RANKS) {
        return redcoi_profile_fail(profile, line, err, "%u ranks; a collective of 2 to %d ranks is needed", run->ranks,
                                   MAX_RANKS);
    }
    if (run->nodes > run->ranks) {
        return redcoi_profile_fail(profile, line, err, "%u ranks cannot be on %u nodes", run->ranks, run->nodes);
    }
    if (run->stride == 0 || run->stride > MAX_RANKS || run->groups_per_node == 0 || run->groups_per_node > MAX_RANKS) {
        return redcoi_profile_fail(profile, line, err, "stride %u and %u groups per node; both must be from 1 to %d",
                                   run->stride, run->groups_per_node, MAX_RANKS);
    }
    void *runs = profile->runs;
    const redco_status st =
        grow(profile, &runs, profile->run_count, &profile->run_capacity, sizeof *run, MAX_RUNS, "measured groups", err);
    profile->runs = runs;
    if (st != REDCO_OK) { return st; }
    profile->runs[profile->run_count] = *run;
    profile->runs[profile->run_count].rows = NULL;
    profile->runs[profile->run_count].row_count = 0;
    profile->run_count++;
    return REDCO_OK;
}

static redco_status check_time(const redco_profile *profile, uint64_t size_bytes, double time_s, uint32_t line,
                               redco_error *err)
{
    if (!isfinite(time_s) || time_s < 0.0 || time_s > max_time_s) {
        return redcoi_profile_fail(profile, line, err, "a time of %g s; more than 0 and at most %g s is needed", time_s,
                                   max_time_s);
    }
    if (time_s > 0.0 && (double)size_bytes / time_s > max_bytes_per_s) {
        return redcoi_profile_fail(profile, line, err, "%llu bytes in %g s is %.3g TB/s, more than any GPU can do",
                                   (unsigned long long)size_bytes, time_s, (double)size_bytes / time_s * 1e-12);
    }
    return REDCO_OK;
}

redco_status redcoi_profile_add(redco_profile *profile, uint64_t size_bytes, double out_of_place_s, double in_place_s,
                                uint32_t line, redco_error *err)
{
    redco_profile_run *run = &profile->runs[profile->run_count - 1];
    if (size_bytes > max_size_bytes) {
        return redcoi_profile_fail(profile, line, err, "a size of %llu bytes; at most %llu is read",
                                   (unsigned long long)size_bytes, (unsigned long long)max_size_bytes);
    }
    if (run->row_count > 0 && size_bytes < profile->rows[profile->row_count - 1].size_bytes) {
        return redcoi_profile_fail(
            profile, line, err, "size %llu follows %llu; sizes of one run must not fall (start a new table instead)",
            (unsigned long long)size_bytes, (unsigned long long)profile->rows[profile->row_count - 1].size_bytes);
    }
    redco_status st = check_time(profile, size_bytes, out_of_place_s, line, err);
    if (st == REDCO_OK) { st = check_time(profile, size_bytes, in_place_s, line, err); }
    if (st != REDCO_OK) { return st; }
    if (out_of_place_s == 0.0 && in_place_s == 0.0 && size_bytes > 0) {
        return redcoi_profile_fail(profile, line, err, "a time of 0 for %llu bytes", (unsigned long long)size_bytes);
    }
    void *rows = profile->rows;
    st = grow(profile, &rows, profile->row_count, &profile->row_capacity, sizeof *profile->rows, MAX_ROWS, "rows", err);
    profile->rows = rows;
    if (st != REDCO_OK) { return st; }
    profile->rows[profile->row_count++] =
        (redco_profile_row){.size_bytes = size_bytes, .time_s = {out_of_place_s, in_place_s}, .line = line};
    run->row_count++;
    return REDCO_OK;
}

redco_status redcoi_profile_add_gemm(redco_profile *profile, const redco_profile_gemm *gemm, redco_error *err)
{
    void *gemms = profile->gemms;
    const redco_status st =
        grow(profile, &gemms, profile->gemm_count, &profile->gemm_capacity, sizeof *gemm, MAX_GEMMS, "GEMM rows", err);
    profile->gemms = gemms;
    if (st == REDCO_OK) { profile->gemms[profile->gemm_count++] = *gemm; }
    return st;
}

redco_status redcoi_profile_add_attention(redco_profile *profile, const redco_profile_attention *attention,
                                          redco_error *err)
{
    void *attentions = profile->attentions;
    const redco_status st = grow(profile, &attentions, profile->attention_count, &profile->attention_capacity,
                                 sizeof *attention, MAX_OPERATORS, "attention rows", err);
    profile->attentions = attentions;
    if (st == REDCO_OK) { profile->attentions[profile->attention_count++] = *attention; }
    return st;
}

redco_status redcoi_profile_add_operator(redco_profile *profile, const redco_profile_operator *row, redco_error *err)
{
    void *operators = profile->operators;
    const redco_status st = grow(profile, &operators, profile->operator_count, &profile->operator_capacity, sizeof *row,
                                 MAX_OPERATORS, "operator rows", err);
    profile->operators = operators;
    if (st == REDCO_OK) { profile->operators[profile->operator_count++] = *row; }
    return st;
}

redco_status redcoi_profile_add_power(redco_profile *profile, const redco_profile_power *row, redco_error *err)
{
    void *powers = profile->powers;
    const redco_status st = grow(profile, &powers, profile->power_count, &profile->power_capacity, sizeof *row,
                                 MAX_POWERS, "power rows", err);
    profile->powers = powers;
    if (st == REDCO_OK) { profile->powers[profile->power_count++] = *row; }
    return st;
}

void redcoi_profile_set_how(redco_profile *profile, const redco_profile_measured *measured)
{
    profile->measured = *measured;
}

void redcoi_profile_skip(redco_profile *profile)
{
    profile->skipped++;
}

redco_status redcoi_profile_finish(redco_profile *profile, redco_error *err)
{
    size_t next = 0;
    size_t kept = 0;
    for (size_t i = 0; i < profile->run_count; i++) {
        redco_profile_run run = profile->runs[i];
        if (run.row_count == 0) { continue; }
        run.rows = profile->rows + next;
        next += run.row_count;
        profile->runs[kept++] = run;
    }
    profile->run_count = kept;
    if (profile->row_count == 0 && profile->gemm_count == 0 && profile->attention_count == 0 &&
        profile->operator_count == 0) {
        return redcoi_profile_fail(profile, 0, err,
                                   "no measured times in it; nccl-tests or rccl-tests output, redco-profile JSON, or "
                                   "a CSV table of Galvatron, vTrain, Vidur or redco is read");
    }
    return REDCO_OK;
}

size_t redco_profile_runs(const redco_profile *profile, const redco_profile_run **runs_out)
{
    *runs_out = profile->runs;
    return profile->run_count;
}

size_t redco_profile_gemms(const redco_profile *profile, const redco_profile_gemm **gemms_out)
{
    *gemms_out = profile->gemms;
    return profile->gemm_count;
}

size_t redco_profile_attentions(const redco_profile *profile, const redco_profile_attention **attentions_out)
{
    *attentions_out = profile->attentions;
    return profile->attention_count;
}

size_t redco_profile_operators(const redco_profile *profile, const redco_profile_operator **operators_out)
{
    *operators_out = profile->operators;
    return profile->operator_count;
}

size_t redco_profile_powers(const redco_profile *profile, const redco_profile_power **powers_out)
{
    *powers_out = profile->powers;
    return profile->power_count;
}

const redco_profile_measured *redco_profile_how(const redco_profile *profile)
{
    return &profile->measured;
}

size_t redco_profile_row_count(const redco_profile *profile)
{
    return profile->row_count;
}

size_t redco_profile_skipped(const redco_profile *profile)
{
    return profile->skipped;
}
