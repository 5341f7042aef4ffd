#include "costmodel/evaluation/leave_out.h"

#include "costmodel/evaluation/fit.h"
#include "costmodel/evaluation/set_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer runs than these make no set for an engine. A source's runs are no independent witnesses, and hundreds make a
 * fit slow: every second, third ... of those that have more than MOST_OF_SOURCE. */
enum { LEAST_ROWS = 8, MOST_OF_SOURCE = 100 };

/* A fit and the runs that it was made of. */
struct fit {
    const redco_set_rule *rule;
    size_t *rows, count;
    redco_calibration set;
};

struct redco_leave_out {
    redco_evaluations *evaluations;
    const redco_measured_run *const *runs;
    size_t count;
    bool *usable;
    struct fit *fits;
    size_t fit_count;
};

redco_status redco_leave_out_create(redco_evaluations *evaluations, const redco_measured_run *const *runs, size_t count,
                                    const bool *usable, redco_leave_out **leave_out, redco_error *err)
{
    redco_leave_out *const leave = calloc(1, sizeof *leave);
    bool *const copy = calloc(count > 0 ? count : 1, sizeof *copy);
    if (leave == NULL || copy == NULL) {
        free(leave);
        free(copy);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    if (count > 0) { memcpy(copy, usable, count * sizeof *copy); }
    *leave = (redco_leave_out){.evaluations = evaluations, .runs = runs, .count = count, .usable = copy};
    *leave_out = leave;
    return REDCO_OK;
}

void redco_leave_out_free(redco_leave_out *leave)
{
    if (leave == NULL) { return; }
    for (size_t i = 0; i < leave->fit_count; i++) { free(leave->fits[i].rows); }
    free(leave->fits);
    free(leave->usable);
    free(leave);
}

static bool is_left(const redco_leave_out *leave, const redco_set_rule *rule, const bool *out, size_t row)
{
    return leave->usable[row] && !out[row] && redco_set_rule_takes(rule, leave->runs[row]);
}

/* @return the number of runs of a rule that are left and fitted to */
static size_t rows_left(const redco_leave_out *leave, const redco_set_rule *rule, const bool *out, size_t *rows_out)
{
    const char *source = "";
    size_t count = 0, every = 1, of_source = 0;
    for (size_t i = 0; i < leave->count; i++) {
        if (!is_left(leave, rule, out, i)) { continue; }
        if (strcmp(leave->runs[i]->source, source) != 0) { /* rows of a source stand together */
            source = leave->runs[i]->source;
            of_source = 0;
            for (size_t k = i; k < leave->count; k++) {
                of_source += strcmp(leave->runs[k]->source, source) == 0 && is_left(leave, rule, out, k) ? 1 : 0;
            }
            every = of_source > 0 ? (of_source + MOST_OF_SOURCE - 1) / MOST_OF_SOURCE : 1;
            of_source = 0;
        }
        if (of_source++ % every != 0) { continue; }
        if (rows_out != NULL) { rows_out[count] = i; }
        count++;
    }
    return count;
}

static redco_status make_fit(redco_leave_out *leave, struct fit *fit, redco_error *err)
{
    const redco_fit_options options = redco_fit_options_for(fit->count);
    redco_calibration prior;
    redco_status st = redco_calibration_read(fit->rule->prior, NULL, &prior, err);
    if (st != REDCO_OK) { return st; }
    double *const measured = calloc(fit->count, sizeof *measured);
    if (measured == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < fit->count; i++) { measured[i] = leave->runs[fit->rows[i]]->tokens_per_s_per_gpu; }
    st = redco_fit(leave->evaluations, fit->rows, measured, fit->count, &prior, &options, &fit->set, err);
    free(measured);
    return st;
}

static redco_status fit_of(redco_leave_out *leave, const redco_set_rule *rule, const bool *out,
                           redco_calibration *set_out, redco_error *err)
{
    size_t *const rows = calloc(leave->count, sizeof *rows);
    if (rows == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const size_t count = rows_left(leave, rule, out, rows);
    for (size_t i = 0; i < leave->fit_count; i++) {
        const struct fit *const made = &leave->fits[i];
        if (made->rule == rule && made->count == count && memcmp(made->rows, rows, count * sizeof *rows) == 0) {
            *set_out = made->set;
            free(rows);
            return REDCO_OK;
        }
    }
    struct fit *const larger = realloc(leave->fits, (leave->fit_count + 1) * sizeof *larger);
    if (larger == NULL) {
        free(rows);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    leave->fits = larger;
    struct fit *const fit = &larger[leave->fit_count];
    fit->rule = rule;
    fit->rows = rows;
    fit->count = count;
    const redco_status st = make_fit(leave, fit, err);
    if (st != REDCO_OK) {
        free(rows);
        return st;
    }
    leave->fit_count++;
    *set_out = fit->set;
    return REDCO_OK;
}

static bool of_same_gpus(const redco_set_rule *a, const redco_set_rule *b)
{
    return strcmp(a->gpus[0], b->gpus[0]) == 0;
}

/* Sets of classes that have runs left: of one class of GPU or of any, of one class of software or of any.
 * @return their number */
enum { MOST_CLASSES = 8 };
static size_t classes_left(const redco_leave_out *leave, const bool *out, const redco_set_rule *of_gpu,
                           redco_software software, const redco_set_rule *found_out[MOST_CLASSES])
{
    size_t count = 0, rule_count = 0;
    const redco_set_rule *const rules = redco_set_rules(&rule_count);
    for (size_t i = 0; i < rule_count && rules[i].framework == NULL && count < MOST_CLASSES; i++) {
        if ((of_gpu == NULL || of_same_gpus(&rules[i], of_gpu)) &&
            (software == REDCO_SOFTWARE_UNKNOWN || rules[i].software == software) &&
            rows_left(leave, &rules[i], out, NULL) > 0) {
            found_out[count++] = &rules[i];
        }
    }
    return count;
}

/* A class that nobody measured: the product of its GPU under other software and of its software on another GPU where
 * these and the fourth of the square are known; else the mean of such software on other GPUs; else of all sets. */
static redco_status unseen_class(redco_leave_out *leave, const redco_set_rule *class, const bool *out,
                                 redco_calibration *set_out, redco_error *err)
{
    const redco_set_rule *here[MOST_CLASSES], *like[MOST_CLASSES], *corner[MOST_CLASSES];
    redco_calibration sets[MOST_CLASSES], square[3];
    redco_status st = REDCO_OK;
    size_t count = classes_left(leave, out, NULL, class->software, like);
    const size_t here_count = classes_left(leave, out, class, REDCO_SOFTWARE_UNKNOWN, here);
    for (size_t i = 0; i < here_count; i++) {
        for (size_t k = 0; k < count; k++) {
            if (classes_left(leave, out, like[k], here[i]->software, corner) == 0) { continue; }
            st = fit_of(leave, here[i], out, &square[0], err);
            if (st == REDCO_OK) { st = fit_of(leave, like[k], out, &square[1], err); }
            if (st == REDCO_OK) { st = fit_of(leave, corner[0], out, &square[2], err); }
            if (st == REDCO_OK) { *set_out = redco_fit_product(&square[0], &square[1], &square[2]); }
            return st;
        }
    }
    if (count == 0) { count = classes_left(leave, out, NULL, REDCO_SOFTWARE_UNKNOWN, like); }
    if (count == 0) { return redco_calibration_read(class->prior, NULL, set_out, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) { st = fit_of(leave, like[i], out, &sets[i], err); }
    if (st == REDCO_OK) { *set_out = redco_fit_mean(sets, count); }
    return st;
}

redco_status redco_leave_out_set(redco_leave_out *leave, size_t row, const bool *out, redco_calibration *set_out,
                                 redco_error *err)
{
    const redco_request *const request = redco_evaluations_request(leave->evaluations, row);
    const char *const own = redco_evaluations_set(leave->evaluations, row);
    const char *const class = redco_calibration_set(&request->machine.gpu, request->workload.engine.software);
    const redco_set_rule *const of_engine = redco_set_rule_find(own), *const of_class = redco_set_rule_find(class);
    if (of_class == NULL) { return redco_calibration_read(own, NULL, set_out, err); }
    if (of_engine != NULL && rows_left(leave, of_engine, out, NULL) >= LEAST_ROWS) {
        return fit_of(leave, of_engine, out, set_out, err);
    }
    if (rows_left(leave, of_class, out, NULL) > 0) { return fit_of(leave, of_class, out, set_out, err); }
    return unseen_class(leave, of_class, out, set_out, err);
}

redco_status redco_leave_out_predict(redco_leave_out *leave, size_t row, const bool *out, double *tokens_out,
                                     redco_error *err)
{
    redco_calibration set;
    redco_price price;
    redco_status st = redco_leave_out_set(leave, row, out, &set, err);
    if (st == REDCO_OK) { st = redco_evaluations_price(leave->evaluations, row, &set, &price, err); }
    if (st == REDCO_OK) { *tokens_out = price.predicted.tokens_per_s_per_gpu; }
    return st;
}
