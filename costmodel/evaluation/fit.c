#include "costmodel/evaluation/fit.h"

#include "traces/statistics.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_noise_ratio = 0.02;
/* A forward difference in units of a prior's width: far above rounding, far below the widths themselves. */
static const double difference = 1e-4;
enum { DEFAULT_ITERATIONS = 60 };

/* Few runs say less than the set that they start from: each is taken to be as odd as predictions of unseen sources are,
 * and constants move half as far. */
enum { FEW_ROWS = 8 };
static const double few_noise_ratio = 0.05, few_width_factor = 0.5;

redco_fit_options redco_fit_options_for(size_t rows)
{
    return rows < FEW_ROWS ? (redco_fit_options){.noise_ratio = few_noise_ratio, .width_factor = few_width_factor}
                           : (redco_fit_options){.iterations = 0};
}

/* A constant that may be fitted: what it belongs to, how wide the classes' published values scatter (standard deviation
 * of the logarithm), and the published ranges of all classes with some room (CALIBRATION.md). */
struct constant {
    const char *key, *of;
    size_t offset;
    double width, min, max;
};

static const char gpu[] = "GPU", kernels[] = "kernels", network[] = "network", engine[] = "engine", host[] = "host";
#define AT(name, of) #name, of, offsetof(redco_calibration, name)
#define EXPERTS(name, of) #name, of, offsetof(redco_calibration, experts.name)
static const struct constant constants[] = {
    {AT(gemm_efficiency, gpu), 0.15, 0.4, 1.05},
    {AT(gemm_k0, gpu), 0.5, 80.0, 2500.0},
    {AT(kernel_s, kernels), 0.5, 2e-6, 75e-6},
    {AT(attention_efficiency, gpu), 0.25, 0.1, 0.8},
    {AT(attention_backward_ratio, gpu), 0.1, 0.55, 0.95},
    {AT(flash1_ratio, gpu), 0.2, 0.4, 1.0},
    {AT(scores_traffic_factor, kernels), 0.3, 0.5, 2.0},
    {AT(fp8_efficiency, gpu), 0.15, 0.6, 1.5},
    {AT(fp4_efficiency, gpu), 0.2, 0.5, 1.1},
    {AT(memory_traffic_factor, kernels), 0.4, 0.4, 4.0},
    {AT(norm_traffic_factor, kernels), 0.3, 1.3, 4.0},
    {AT(head_traffic_factor, kernels), 0.4, 0.4, 4.0},
    {AT(optimizer_factor, kernels), 0.4, 0.4, 2.0},
    {AT(nvlink_efficiency, network), 0.3, 0.4, 1.25},
    {AT(network_efficiency, network), 0.3, 0.02,
     1.05}, /* rates of tables may be assumed: a site can have one NIC of 8 */
    {AT(tp_link_efficiency, network), 0.3, 0.4, 1.25},
    {AT(latency_factor, network), 0.6, 0.3, 4.0},
    {AT(launch_s, host), 1.0, 5e-6, 300e-6},
    {AT(sync_s, network), 1.0, 1e-6, 100e-6},
    {AT(tp_exposed_ratio, engine), 0.25, 0.4, 1.3},
    {AT(tp_launch_s, host), 0.6, 5e-6, 150e-6},
    {AT(tp_async_ratio, engine), 0.2, 0.5, 1.0},
    {AT(cp_exposed_ratio, engine), 0.5, 0.1, 1.0},
    {AT(overlap_window_ratio, engine), 0.15, 0.6, 1.0},
    {AT(contention_ratio, engine), 0.5, 0.04, 0.45},
    /* Constants of the host: published values hardly scatter; runs of large models, whose GPUs hide it, tell nothing of
       it. */
    {AT(host_forward_s, host), 0.1, 100e-6, 3e-3},
    {AT(host_backward_s, host), 0.1, 100e-6, 3e-3},
    {AT(step_overhead_s, engine), 0.7, 2e-3, 0.15},
    {AT(scale_ratio, engine), 0.7, 1e-3, 0.025},
};
/* Those of mixtures of experts, around sets of dense models that stay as they are. */
static const struct constant expert_constants[] = {
    {EXPERTS(grouped_efficiency, gpu), 0.2, 0.4, 1.5},
    {EXPERTS(grouped_fp8_ratio, gpu), 0.2, 0.4, 1.5},
    {EXPERTS(grouped_k0, gpu), 0.5, 50.0, 2500.0},
    {EXPERTS(rows_traffic_ratio, gpu), 0.4, 0.1, 4.0},
    {EXPERTS(bias_traffic_ratio, kernels), 0.7, 0.1, 6.0},
    {EXPERTS(narrow_head_ratio, gpu), 0.4, 0.1, 1.2},
    {EXPERTS(nccl_link_ratio, network), 0.3, 0.2, 1.0},
    {EXPERTS(nccl_network_ratio, network), 0.2, 0.3, 1.1},
    {EXPERTS(dedup_link_ratio, network), 0.15, 0.4, 1.0},
    {EXPERTS(dedup_network_ratio, network), 0.2, 0.5, 1.3},
    {EXPERTS(exchange_call_s, host), 0.7, 5e-6, 3e-4},
    {EXPERTS(overlap_hidden_ratio, engine), 0.3, 0.1, 0.95},
    {EXPERTS(launch_s, host), 0.4, 2e-6, 4e-5},
    {EXPERTS(grace_launch_factor, host), 0.3, 1.0, 4.0},
    {EXPERTS(older_launch_factor, host), 0.2, 1.0, 2.5},
};
#undef EXPERTS
#undef AT
enum {
    CONSTANTS = sizeof constants / sizeof constants[0],
    EXPERT_CONSTANTS = sizeof expert_constants / sizeof expert_constants[0]
};

struct problem {
    redco_evaluations *evaluations;
    const size_t *rows;
    const double *measured;
    size_t count;
    const redco_calibration *prior, *bases;
    double noise_ratio, width_factor;
    size_t parameters;
    struct constant free[CONSTANTS];
};

_Static_assert(EXPERT_CONSTANTS <= CONSTANTS, "one room for both");

static double get(const redco_calibration *calibration, size_t offset)
{
    double value = 0.0;
    memcpy(&value, (const char *)calibration + offset, sizeof value);
    return value;
}

/* z is in widths of the prior: value = centre exp(width z), cut off at the bounds. */
static redco_calibration set_of(const struct problem *problem, const gsl_vector *z)
{
    redco_calibration set = *problem->prior;
    for (size_t i = 0; i < problem->parameters; i++) {
        const struct constant *const c = &problem->free[i];
        const double centre = get(problem->prior, c->offset);
        const double width = c->width * problem->width_factor;
        const double value = fmin(fmax(centre * exp(width * gsl_vector_get(z, i)), fmin(c->min, centre)), //
                                  fmax(c->max, centre));
        memcpy((char *)&set + c->offset, &value, sizeof value);
    }
    return set;
}

/* The set that prices a row. */
static redco_calibration set_for(const redco_calibration *bases, size_t row, const redco_calibration *set)
{
    redco_calibration whole = bases != NULL ? bases[row] : *set;
    whole.experts = set->experts;
    return whole;
}

/* Residuals: of each row the signed square root of a soft L1 loss, 2 (sqrt(1 + r^2) - 1), so that odd rows pull no
 * harder than linearly; then the prior's. */
static int residuals(const gsl_vector *z, void *data, gsl_vector *out)
{
    const struct problem *const problem = data;
    const redco_calibration set = set_of(problem, z);
    for (size_t i = 0; i < problem->count; i++) {
        const redco_calibration whole = set_for(problem->bases, problem->rows[i], &set);
        const redco_prediction p = redco_evaluations_predict(problem->evaluations, problem->rows[i], &whole);
        const double r = log(p.tokens_per_s_per_gpu / problem->measured[i]) / problem->noise_ratio;
        if (!isfinite(r)) { return GSL_EDOM; }
        gsl_vector_set(out, i, copysign(sqrt(2.0 * (sqrt(1.0 + r * r) - 1.0)), r));
    }
    for (size_t i = 0; i < problem->parameters; i++) { gsl_vector_set(out, problem->count + i, gsl_vector_get(z, i)); }
    return GSL_SUCCESS;
}

static int jacobian(const gsl_vector *z, void *data, gsl_matrix *out)
{
    const struct problem *const problem = data;
    gsl_vector *const at = gsl_vector_alloc(z->size), *const here = gsl_vector_alloc(out->size1),
                      *const there = gsl_vector_alloc(out->size1);
    int status = at != NULL && here != NULL && there != NULL ? residuals(z, data, here) : GSL_ENOMEM;
    for (size_t j = 0; j < problem->parameters && status == GSL_SUCCESS; j++) {
        gsl_vector_memcpy(at, z);
        gsl_vector_set(at, j, gsl_vector_get(z, j) + difference);
        status = residuals(at, data, there);
        for (size_t i = 0; i < out->size1 && status == GSL_SUCCESS; i++) {
            gsl_matrix_set(out, i, j, (gsl_vector_get(there, i) - gsl_vector_get(here, i)) / difference);
        }
    }
    if (at != NULL) { gsl_vector_free(at); }
    if (here != NULL) { gsl_vector_free(here); }
    if (there != NULL) { gsl_vector_free(there); }
    return status;
}

static redco_status solve(struct problem *problem, uint32_t iterations, redco_calibration *set_out, redco_error *err)
{
    gsl_multifit_nlinear_parameters method = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf system = {.f = residuals,
                                       .df = jacobian,
                                       .n = problem->count + problem->parameters,
                                       .p = problem->parameters,
                                       .params = problem};
    redco_status st = REDCO_OK;
    int info = 0;
    gsl_error_handler_t *const handler = gsl_set_error_handler_off(); /* GSL's own would abort */
    method.trs = gsl_multifit_nlinear_trs_lm;
    gsl_vector *const start = gsl_vector_calloc(system.p);
    gsl_multifit_nlinear_workspace *const work =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &method, system.n, system.p);
    if (start == NULL || work == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    int status = gsl_multifit_nlinear_init(start, &system, work);
    if (status == GSL_SUCCESS) {
        status = gsl_multifit_nlinear_driver(iterations, 1e-3, 1e-6, 1e-6, NULL, NULL, &info, work);
    }
    /* Out of iterations, or no step makes it better: what was reached is as good as it gets. */
    if (status != GSL_SUCCESS && status != GSL_EMAXITER && status != GSL_ENOPROG) {
        st = redco_fail(err, REDCO_ESYSTEM, "fit", "gsl_multifit_nlinear: %s", gsl_strerror(status));
        goto out;
    }
    *set_out = set_of(problem, gsl_multifit_nlinear_position(work));
out:
    if (work != NULL) { gsl_multifit_nlinear_free(work); }
    if (start != NULL) { gsl_vector_free(start); }
    (void)gsl_set_error_handler(handler);
    return st;
}

static void predict(redco_evaluations *evaluations, const size_t *rows, size_t count, const redco_calibration *set,
                    const redco_calibration *bases, double *predicted_out)
{
    for (size_t i = 0; i < count; i++) {
        const redco_calibration whole = set_for(bases, rows[i], set);
        predicted_out[i] = redco_evaluations_predict(evaluations, rows[i], &whole).tokens_per_s_per_gpu;
    }
}

redco_status redco_fit(redco_evaluations *evaluations, const size_t *rows, const double *measured, size_t count,
                       const redco_calibration *prior, const redco_fit_options *options, redco_calibration *fitted_out,
                       redco_error *err)
{
    const uint32_t iterations = options->iterations > 0 ? options->iterations : DEFAULT_ITERATIONS;
    struct problem problem = {.evaluations = evaluations,
                              .rows = rows,
                              .measured = measured,
                              .count = count,
                              .prior = prior,
                              .bases = options->bases,
                              .noise_ratio = options->noise_ratio > 0.0 ? options->noise_ratio : default_noise_ratio,
                              .width_factor = options->width_factor > 0.0 ? options->width_factor : 1.0};
    redco_calibration set = *prior;
    const struct constant *const all = options->bases != NULL ? expert_constants : constants;
    const size_t constant_count = options->bases != NULL ? EXPERT_CONSTANTS : CONSTANTS;
    for (size_t i = 0; i < constant_count; i++) {
        const double *const stays = options->fixed != NULL ? redco_expert_constant(&set.experts, options->fixed) : NULL;
        const bool fixed = stays == (const double *)((const char *)&set + all[i].offset);
        if (!fixed && get(prior, all[i].offset) > 0.0) { problem.free[problem.parameters++] = all[i]; }
    }
    redco_error_summary summary = {.count = 0};
    redco_status st = solve(&problem, iterations, &set, err);
    if (st != REDCO_OK) { return st; }
    double *const predicted = calloc(count > 0 ? count : 1, sizeof *predicted);
    if (predicted == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    predict(evaluations, rows, count, &set, options->bases, predicted);
    st = redco_error_summarise(measured, predicted, count, &summary, err);
    free(predicted);
    if (st != REDCO_OK) { return st; }
    if (options->bases != NULL) {
        set.experts.fitted_rows = (uint32_t)count;
        set.experts.mape_ratio = summary.mape_ratio;
    } else {
        set.fitted_rows = (uint32_t)count;
        set.mape_ratio = summary.mape_ratio;
    }
    *fitted_out = set;
    return REDCO_OK;
}

redco_status redco_fit_validate(redco_evaluations *evaluations, const size_t *rows, const double *measured,
                                size_t count, const size_t *groups, const redco_calibration *prior,
                                const redco_fit_options *options, double *predicted_out, redco_error *err)
{
    size_t *const kept = calloc(count > 0 ? count : 1, sizeof *kept);
    double *const kept_measured = calloc(count > 0 ? count : 1, sizeof *kept_measured);
    redco_status st = REDCO_OK;
    if (kept == NULL || kept_measured == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < count; i++) { predicted_out[i] = 0.0; }
    for (size_t i = 0; i < count; i++) {
        size_t left = 0;
        redco_calibration set = *prior;
        if (predicted_out[i] > 0.0) { continue; }
        for (size_t j = 0; j < count; j++) {
            if (groups[j] == groups[i]) { continue; }
            kept[left] = rows[j];
            kept_measured[left++] = measured[j];
        }
        if (left == 0) { continue; }
        st = redco_fit(evaluations, kept, kept_measured, left, prior, options, &set, err);
        if (st != REDCO_OK) { goto out; }
        for (size_t j = i; j < count; j++) {
            if (groups[j] == groups[i]) { predict(evaluations, &rows[j], 1, &set, options->bases, &predicted_out[j]); }
        }
    }
out:
    free(kept);
    free(kept_measured);
    return st;
}

bool redco_fit_constant(size_t index, bool of_experts, redco_fitted_constant *constant_out)
{
    const struct constant *const all = of_experts ? expert_constants : constants;
    if (index >= (of_experts ? (size_t)EXPERT_CONSTANTS : (size_t)CONSTANTS)) { return false; }
    *constant_out = (redco_fitted_constant){.key = all[index].key,
                                            .of = all[index].of,
                                            .offset = all[index].offset,
                                            .least = all[index].min,
                                            .most = all[index].max};
    return true;
}

redco_calibration redco_fit_mean(const redco_calibration *sets, size_t count)
{
    redco_calibration mean = sets[0];
    for (size_t i = 0; i < CONSTANTS; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < count; k++) { sum += log(get(&sets[k], constants[i].offset)); }
        if (!isfinite(sum)) { continue; }
        const double value = exp(sum / (double)count);
        memcpy((char *)&mean + constants[i].offset, &value, sizeof value);
    }
    return mean;
}

redco_calibration redco_fit_product(const redco_calibration *chip, const redco_calibration *software,
                                    const redco_calibration *both)
{
    redco_calibration product = *software;
    for (size_t i = 0; i < CONSTANTS; i++) {
        const size_t offset = constants[i].offset;
        const double lowest = constants[i].min, highest = constants[i].max;
        if (constants[i].of != gpu) { continue; } /* rates of products and of attention */
        const double value = get(chip, offset) * get(software, offset) / get(both, offset);
        const double bounded = fmin(fmax(value, lowest), highest);
        memcpy((char *)&product + offset, &bounded, sizeof bounded);
    }
    return product;
}

/* xorshift64*, Vigna 2016. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

void redco_fit_folds(size_t count, uint32_t folds, uint64_t seed, size_t *groups_out)
{
    uint64_t state = seed + UINT64_C(0x9e3779b97f4a7c15);
    if (state == 0) { state = 1; }
    for (size_t i = 0; i < count; i++) { groups_out[i] = i % (folds > 0 ? folds : 1); }
    for (size_t i = count; i > 1; i--) { /* Fisher and Yates */
        const size_t j = (size_t)(next(&state) % i);
        const size_t kept = groups_out[i - 1];
        groups_out[i - 1] = groups_out[j];
        groups_out[j] = kept;
    }
}
