/* redco-calibrate --constants: the constants of every shipped set as tables in Markdown
 * (costmodel/engines/CALIBRATION.md holds them): of what each is, its value, the rows that it was fitted to, and their
 * error without it. */
#include "costmodel/evaluation/fit.h"
#include "costmodel/evaluation/set_rules.h"
#include "tools/report/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A constant that is so near to its prior was moved by no row. */
static const double same_ratio = 0.002;
enum { COLUMNS = 16 };

/* A set and the rows that it was fitted to. */
struct column {
    const char *name, *prior_name;
    redco_calibration set, prior;
    size_t *rows, count;
    double error_ratio;
};

struct page {
    const struct measured_files *files;
    bool experts; /* rows are priced by their own dense sets */
    struct column columns[COLUMNS];
    size_t count;
    redco_error *err;
};

static void page_free(struct page *page)
{
    for (size_t i = 0; i < page->count; i++) { free(page->columns[i].rows); }
    page->count = 0;
}

static double value_of(const redco_calibration *set, const redco_fitted_constant *constant)
{
    double value = 0.0;
    memcpy(&value, (const char *)set + constant->offset, sizeof value);
    return value;
}

/* Mean error of a column's rows by a set. */
static redco_status error_by(const struct page *page, const struct column *column, const redco_calibration *set,
                             double *ratio_out)
{
    double sum = 0.0;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < column->count && st == REDCO_OK; i++) {
        const size_t row = column->rows[i];
        redco_calibration whole = *set;
        if (page->experts) {
            st = redco_calibration_read(redco_evaluations_set(page->files->evaluations, row), NULL, &whole, page->err);
            whole.experts = set->experts;
        }
        const double predicted = redco_evaluations_predict(page->files->evaluations, row, &whole).tokens_per_s_per_gpu;
        sum += fabs(predicted / page->files->runs[row]->tokens_per_s_per_gpu - 1.0);
    }
    *ratio_out = column->count > 0 ? sum / (double)column->count : 0.0;
    return st;
}

static struct column *new_column(struct page *page, const char *name, const char *prior_name)
{
    struct column *const column = &page->columns[page->count];
    size_t *const rows = calloc(page->files->count + 1, sizeof *rows);
    if (rows == NULL || page->count == COLUMNS) {
        free(rows);
        (void)redco_fail(page->err, REDCO_ENOMEM, "", "out of memory");
        return NULL;
    }
    *column = (struct column){.name = name, .prior_name = prior_name, .rows = rows};
    page->count++;
    return column;
}

static redco_status finish_column(const struct page *page, struct column *column)
{
    return error_by(page, column, &column->set, &column->error_ratio);
}

/* A set of dense models, with the usable rows that its rule takes. */
static redco_status dense_column(struct page *page, const redco_set_rule *rule)
{
    struct column *const column = new_column(page, rule->name, rule->prior);
    redco_status st = column != NULL ? REDCO_OK : REDCO_ENOMEM;
    const size_t all = page->files->count;
    for (size_t i = 0; i < all && st == REDCO_OK; i++) { /* NOLINT(clang-analyzer-unix.Malloc): page_free() */
        if (measured_may_fit(page->files, i) && redco_set_rule_takes(rule, page->files->runs[i])) {
            column->rows[column->count++] = i;
        }
    }
    if (st == REDCO_OK) { st = redco_calibration_read(rule->name, NULL, &column->set, page->err); }
    if (st == REDCO_OK) { st = redco_calibration_read(rule->prior, NULL, &column->prior, page->err); }
    return st == REDCO_OK ? finish_column(page, column) : st;
}

static bool is_of_mixture(const struct page *page, size_t row)
{
    const redco_measured_run *const run = page->files->runs[row];
    return measured_has_speed(page->files, row) && run->experts > 0 && (run->use & REDCO_USE_HELD_OUT) == 0;
}

static redco_status expert_column(struct page *page, const char *name, const char *prior_name)
{
    struct column *const column = new_column(page, name, prior_name);
    redco_status st = column != NULL ? REDCO_OK : REDCO_ENOMEM;
    const size_t all = page->files->count;
    for (size_t i = 0; i < all && st == REDCO_OK; i++) { /* NOLINT(clang-analyzer-unix.Malloc): page_free() */
        if (!is_of_mixture(page, i)) { continue; }
        const redco_gpu *const gpu = &redco_evaluations_request(page->files->evaluations, i)->machine.gpu;
        if (strcmp(redco_expert_constants_set(gpu), name) == 0) { column->rows[column->count++] = i; }
    }
    if (st == REDCO_OK) { st = redco_expert_constants_read(name, &column->set.experts, page->err); }
    if (st == REDCO_OK) { st = redco_expert_constants_read(prior_name, &column->prior.experts, page->err); }
    return st == REDCO_OK ? finish_column(page, column) : st;
}

/* "llm_foundry 70, amsp 12": sources and how many rows of each. */
static void print_sources(const struct page *page, const struct column *column)
{
    bool any = false;
    for (size_t i = 0; i < column->count; i++) {
        const char *const source = page->files->runs[column->rows[i]]->source;
        size_t count = 0;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) {
            seen = strcmp(page->files->runs[column->rows[k]]->source, source) == 0;
        }
        for (size_t k = i; k < column->count && !seen; k++) {
            count += strcmp(page->files->runs[column->rows[k]]->source, source) == 0 ? 1 : 0;
        }
        if (!seen) { (void)printf("%s%s %zu", any ? ", " : "", source, count); }
        any = true;
    }
}

/* A constant under one set: its value; and the mean error of the set's rows with the prior's value in its place, all
 * else as it is. */
static redco_status print_cell(const struct page *page, const struct column *column,
                               const redco_fitted_constant *constant)
{
    const double value = value_of(&column->set, constant), prior = value_of(&column->prior, constant);
    redco_calibration without = column->set;
    double error = 0.0;
    if (!(prior > 0.0)) {
        (void)printf(" - |");
        return REDCO_OK;
    }
    if (fabs(value - prior) <= same_ratio * prior) {
        (void)printf(" (%.3g) |", value);
        return REDCO_OK;
    }
    memcpy((char *)&without + constant->offset, &prior, sizeof prior);
    const redco_status st = error_by(page, column, &without, &error);
    if (st == REDCO_OK) { (void)printf(" %.3g, %.1f |", value, 100.0 * error); }
    return st;
}

static void print_head(const struct page *page)
{
    (void)printf("| set | around | rows | error, %% | runs of |\n|---|---|--:|--:|---|\n");
    for (size_t i = 0; i < page->count; i++) {
        const struct column *const c = &page->columns[i];
        (void)printf("| %s | %s | %zu | %.1f | ", c->name, c->prior_name, c->count, 100.0 * c->error_ratio);
        print_sources(page, c);
        (void)printf(" |\n");
    }
}

/* The constants of some of the sets. */
static redco_status print_constants(const struct page *page, size_t first, size_t last)
{
    redco_fitted_constant constant;
    redco_status st = REDCO_OK;
    (void)printf("\n| constant | of |");
    for (size_t i = first; i < last; i++) { (void)printf(" %s |", page->columns[i].name); }
    (void)printf("\n|---|---|");
    for (size_t i = first; i < last; i++) { (void)printf("--:|"); }
    (void)printf("\n");
    for (size_t k = 0; redco_fit_constant(k, page->experts, &constant) && st == REDCO_OK; k++) {
        (void)printf("| `%s` | %s |", constant.key, constant.of);
        for (size_t i = first; i < last && st == REDCO_OK; i++) { st = print_cell(page, &page->columns[i], &constant); }
        (void)printf("\n");
    }
    return st;
}

static redco_status print_dense(struct page *page)
{
    size_t rules = 0, classes = 0;
    redco_status st = REDCO_OK;
    const redco_set_rule *const rule = redco_set_rules(&rules);
    for (size_t i = 0; i < rules && st == REDCO_OK; i++) {
        if (rule[i].derived) { continue; }
        st = dense_column(page, &rule[i]);
        classes += rule[i].framework == NULL ? 1 : 0;
    }
    if (st != REDCO_OK) { return st; }
    print_head(page);
    st = print_constants(page, 0, classes);
    return st == REDCO_OK ? print_constants(page, classes, page->count) : st;
}

static redco_status print_experts(struct page *page)
{
    page->experts = true;
    redco_status st = expert_column(page, "hopper", "prior-hopper");
    if (st == REDCO_OK) { st = expert_column(page, "blackwell", "prior-blackwell"); }
    if (st != REDCO_OK) { return st; }
    print_head(page);
    return print_constants(page, 0, page->count);
}

redco_status calibrate_constants(const struct measured_files *files, redco_error *err)
{
    struct page page = {.files = files, .err = err};
    bool mixtures = false;
    redco_status st = print_dense(&page);
    page_free(&page);
    for (size_t i = 0; i < files->count; i++) { mixtures = mixtures || is_of_mixture(&page, i); }
    if (st == REDCO_OK && mixtures) {
        (void)printf("\n");
        st = print_experts(&page);
        page_free(&page);
    }
    return st;
}
