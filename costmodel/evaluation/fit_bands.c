#include "costmodel/evaluation/fit_bands.h"

#include "costmodel/evaluation/set_rules.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double shares[] = {0.68, 0.90};
enum { MANY_GROUPS = 10 };

struct error {
    double log, weight;
};

redco_status redco_band_errors(const redco_band_rows *rows, const redco_left_groups *groups, const bool *out,
                               double *log_out, redco_error *err)
{
    bool *const without = calloc(rows->count + 1, sizeof *without);
    redco_status st = without != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    for (size_t g = 0; g < groups->groups && st == REDCO_OK; g++) {
        memcpy(without, out, rows->count * sizeof *without);
        redco_left_groups_mark(groups, g, without);
        for (size_t i = 0; i < rows->count && st == REDCO_OK; i++) {
            double tokens = 0.0;
            if (groups->group[i] != g || out[i] || !(groups->weight[i] > 0.0)) { continue; }
            st = redco_leave_out_predict(rows->leave, i, without, &tokens, err);
            log_out[i] = log(rows->runs[i]->tokens_per_s_per_gpu / tokens);
        }
    }
    free(without);
    return st;
}

static int ascending(const void *a, const void *b)
{
    const double x = ((const struct error *)a)->log, y = ((const struct error *)b)->log;
    return (x > y) - (x < y);
}

static double quantile(const struct error *errors, size_t count, double share)
{
    double sum = 0.0, all = 0.0;
    for (size_t i = 0; i < count; i++) { all += errors[i].weight; }
    for (size_t i = 0; i < count; i++) {
        sum += errors[i].weight;
        if (sum >= share * all) { return errors[i].log; }
    }
    return count > 0 ? errors[count - 1].log : 0.0;
}

/* The two ends that a share of the errors lies between. */
static void ends_of(const struct error *errors, size_t count, size_t groups, double share, double *low_out,
                    double *high_out)
{
    double square = 0.0;
    if (groups >= MANY_GROUPS) {
        const double beyond = 0.5 * (1.0 - fmin(1.0, share * (double)(groups + 1) / (double)groups));
        *low_out = exp(fmin(0.0, quantile(errors, count, beyond)));
        *high_out = exp(fmax(0.0, quantile(errors, count, 1.0 - beyond)));
        return;
    }
    for (size_t i = 0; i < count; i++) { square += errors[i].weight * errors[i].log * errors[i].log; }
    const double wide = gsl_cdf_tdist_Pinv(0.5 + 0.5 * share, (double)groups) * sqrt(square / (double)groups);
    *low_out = exp(-wide);
    *high_out = exp(wide);
}

size_t redco_band_of_errors(const redco_left_groups *groups, const bool *out, const double *log, redco_band *band_out,
                            redco_error *err)
{
    struct error *const errors = calloc(groups->count + 1, sizeof *errors);
    double *const all = calloc(groups->groups + 1, sizeof *all);
    size_t count = 0, seen = 0;
    *band_out = (redco_band){0};
    if (errors == NULL || all == NULL) {
        (void)redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto done;
    }
    for (size_t i = 0; i < groups->count; i++) {
        if (!out[i]) { all[groups->group[i]] += groups->weight[i]; }
    }
    for (size_t g = 0; g < groups->groups; g++) { seen += all[g] > 0.0 ? 1 : 0; }
    for (size_t i = 0; i < groups->count; i++) {
        if (out[i] || !(groups->weight[i] > 0.0)) { continue; }
        errors[count++] = (struct error){log[i], groups->weight[i] / all[groups->group[i]]};
    }
    if (seen > 0) {
        qsort(errors, count, sizeof *errors, ascending);
        ends_of(errors, count, seen, shares[0], &band_out->low_68, &band_out->high_68);
        ends_of(errors, count, seen, shares[1], &band_out->low_90, &band_out->high_90);
    }
done:
    free(errors);
    free(all);
    return seen;
}

static const redco_leave kinds[REDCO_BAND_PARTS] = {
    [REDCO_BAND_SOURCE] = REDCO_LEAVE_SOURCE,
    [REDCO_BAND_ENGINE] = REDCO_LEAVE_ENGINE,
    [REDCO_BAND_GPU] = REDCO_LEAVE_GPU,
    [REDCO_BAND_CLASS] = REDCO_LEAVE_CLASS,
    [REDCO_BAND_ARCHITECTURE] = REDCO_LEAVE_ARCHITECTURE,
    [REDCO_BAND_SIZE] = REDCO_LEAVE_SIZE,
};

redco_status redco_bands_fit(const redco_band_rows *rows, const bool *out, unsigned parts, redco_bands *bands_out,
                             redco_error *err)
{
    static const redco_bands none;
    redco_bands bands = none;
    double *const log = calloc(rows->count + 1, sizeof *log);
    redco_status st = log != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    redco_band_note_rows(rows, out, &bands);
    for (unsigned part = 0; part < REDCO_BAND_PARTS && st == REDCO_OK; part++) {
        redco_left_groups groups;
        if (part != REDCO_BAND_SOURCE && (parts & (1U << part)) == 0) { continue; }
        st = redco_left_groups_create(rows->evaluations, rows->runs, rows->count, rows->usable, kinds[part], &groups,
                                      err);
        if (st != REDCO_OK) { break; }
        st = redco_band_errors(rows, &groups, out, log, err);
        if (st == REDCO_OK) {
            bands.parts[part].groups = (uint32_t)redco_band_of_errors(&groups, out, log, &bands.parts[part].band, err);
            for (size_t i = 0; i < rows->count; i++) {
                bands.parts[part].rows += groups.weight[i] > 0.0 && !out[i] ? 1 : 0;
            }
        }
        redco_left_groups_free(&groups);
    }
    free(log);
    *bands_out = bands;
    return st;
}

redco_band_question redco_band_row(const redco_band_rows *rows, size_t row)
{
    const redco_request *const request = redco_evaluations_request(rows->evaluations, row);
    return (redco_band_question){
        .engine = redco_measured_engine(rows->runs[row]),
        .gpu = rows->runs[row]->gpu,
        .architecture = request->machine.gpu.arch,
        .software = request->workload.engine.software,
        .width = redco_band_width_of(request->workload.precision, request->workload.engine.gemm_format)};
}

double redco_band_mfu(const redco_band_rows *rows, size_t row)
{
    /* Any set: FLOPs a token and peak are the model's and the GPU's. */
    const redco_prediction p = redco_evaluations_predict(
        rows->evaluations, row, &redco_evaluations_request(rows->evaluations, row)->calibration);
    const double measured = rows->runs[row]->tokens_per_s_per_gpu;
    return p.tokens_per_s_per_gpu > 0.0 ? p.mfu * measured / p.tokens_per_s_per_gpu : 0.0;
}

static bool is_fitted(const redco_measured_run *run)
{
    size_t count = 0;
    const redco_set_rule *const rules = redco_set_rules(&count);
    for (size_t i = 0; i < count; i++) {
        if (redco_set_rule_takes(&rules[i], run)) { return true; }
    }
    return false;
}

void redco_band_note_rows(const redco_band_rows *rows, const bool *out, redco_bands *bands)
{
    for (size_t i = 0; i < rows->count; i++) {
        const bool left = rows->usable[i] && !out[i] && is_fitted(rows->runs[i]);
        if (left) {
            const redco_band_question run = redco_band_row(rows, i);
            redco_bands_note(bands, &run, redco_band_mfu(rows, i));
        }
    }
}
