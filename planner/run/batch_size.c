#include "planner/run/batch_size.h"

#include "topology/base/preset.h"

#include <math.h>
#include <stdio.h>

double redco_batch_needed(const redco_batch_curve *curve, double batch)
{
    if (curve->steps_only) { return curve->linear * batch; }
    return curve->needed * (1.0 + batch * curve->linear + batch * batch * curve->square);
}

/* Solves the normal equations of the columns that are used. @return false where they are singular */
static bool solve(double a[3][3], double b[3], const bool used[3], double x[3])
{
    int at[3];
    int n = 0;
    for (int i = 0; i < 3; i++) {
        x[i] = 0.0;
        if (used[i]) { at[n++] = i; }
    }
    for (int k = 0; k < n; k++) {
        const double pivot = a[at[k]][at[k]];
        if (!(fabs(pivot) > 1e-12)) { return false; }
        for (int i = k + 1; i < n; i++) {
            const double factor = a[at[i]][at[k]] / pivot;
            for (int j = k; j < n; j++) { a[at[i]][at[j]] -= factor * a[at[k]][at[j]]; }
            b[at[i]] -= factor * b[at[k]];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        double sum = b[at[k]];
        for (int j = k + 1; j < n; j++) { sum -= a[at[k]][at[j]] * x[at[j]]; }
        x[at[k]] = sum / a[at[k]][at[k]];
    }
    return true;
}

/* Takes the fit of the least squares without a negative coefficient: a subset of the columns. */
static bool best_subset(const redco_batch_point *points, size_t count, double scale, bool bent, double x_out[3])
{
    double least = INFINITY;
    for (unsigned mask = 1; mask < (bent ? 8U : 4U); mask++) {
        const bool used[3] = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
        double a[3][3] = {{0.0}}, b[3] = {0.0}, x[3], sum = 0.0;
        for (size_t i = 0; i < count; i++) {
            const double t = points[i].batch / scale, w = points[0].needed / points[i].needed;
            const double row[3] = {w, w * t, w * t * t};
            for (int r = 0; r < 3; r++) {
                for (int c = 0; c < 3; c++) { a[r][c] += row[r] * row[c]; }
                b[r] += row[r];
            }
        }
        if (!solve(a, b, used, x) || x[0] < 0.0 || x[1] < 0.0 || x[2] < 0.0) { continue; }
        for (size_t i = 0; i < count; i++) {
            const double t = points[i].batch / scale;
            const double off = (x[0] + x[1] * t + x[2] * t * t) * points[0].needed / points[i].needed - 1.0;
            sum += off * off;
        }
        if (sum < least * (1.0 - 1e-9)) {
            least = sum;
            for (int i = 0; i < 3; i++) { x_out[i] = x[i] * points[0].needed; }
        }
    }
    return isfinite(least);
}

redco_status redco_batch_fit(const redco_batch_point *points, size_t count, bool bent, redco_batch_curve *curve_out,
                             redco_error *err)
{
    double x[3] = {0.0}, scale = 0.0, least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        scale = fmax(scale, points[i].batch);
        least = fmin(least, points[i].batch);
    }
    if (count < (bent ? 3U : 2U) || !(scale > least * (1.0 + 1e-9))) {
        return redco_fail(err, REDCO_EVALUE, "batches", "holds too few points: %s of different batches are needed",
                          bent ? "three" : "two");
    }
    if (!best_subset(points, count, scale, bent, x)) {
        return redco_fail(err, REDCO_EVALUE, "batches", "the points fit no curve that rises with the batch");
    }
    if (x[0] <= 0.0) {
        *curve_out = (redco_batch_curve){.linear = (x[1] + x[2]) / scale, .steps_only = true};
        return REDCO_OK;
    }
    *curve_out =
        (redco_batch_curve){.needed = x[0], .linear = x[1] / x[0] / scale, .square = x[2] / x[0] / scale / scale};
    return REDCO_OK;
}

redco_critical_batch redco_critical_batch_of(double tokens)
{
    return (redco_critical_batch){
        .given = true, .tokens = tokens, .curve = {.needed = 1.0, .linear = 1.0 / tokens}, .source = "given"};
}

static redco_status read_points(const redco_json_value *root, redco_critical_batch *out, redco_error *err)
{
    static const char *const keys[] = {"batch", "samples", NULL};
    redco_batch_point points[REDCO_MOST_BATCHES] = {{0.0, 0.0}};
    redco_json_value list, point;
    size_t count = 0;
    double sequence = 0.0;
    bool bent = false;
    redco_status st = redco_json_array(root, "points", &list, &count, err);
    if (st == REDCO_OK) { st = redco_json_number(root, "seq_len", 1.0, 1e9, &sequence, err); }
    if (st == REDCO_OK && redco_json_has(root, "bent")) { st = redco_json_bool(root, "bent", &bent, err); }
    if (st != REDCO_OK) { return st; }
    if (count < 2 || count > REDCO_MOST_BATCHES) {
        return redco_json_fail(root, "points", err, "holds %zu points, not 2 to %d", count, REDCO_MOST_BATCHES);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&list, i, &point, err);
        if (st == REDCO_OK) { st = redco_json_only(&point, keys, err); }
        if (st == REDCO_OK) { st = redco_json_number(&point, "batch", 1e-3, 1e12, &points[i].batch, err); }
        if (st == REDCO_OK) { st = redco_json_number(&point, "samples", 1e-9, 1e18, &points[i].needed, err); }
        points[i].batch *= sequence;
        points[i].needed *= sequence;
    }
    if (st != REDCO_OK) { return st; }
    redco_error why = {0};
    if (redco_batch_fit(points, count, bent, &out->curve, &why) != REDCO_OK) {
        return redco_json_fail(root, "points", err, "%s", why.text);
    }
    out->tokens = out->curve.steps_only || !(out->curve.linear > 0.0) ? 0.0 : 1.0 / out->curve.linear;
    /* A bent curve: where it doubles what is needed. */
    if (!out->curve.steps_only && out->curve.square > 0.0) {
        const double half = 0.5 * out->curve.linear / out->curve.square;
        out->tokens = sqrt(half * half + 1.0 / out->curve.square) - half;
    }
    return REDCO_OK;
}

redco_status redco_critical_batch_from_json(const redco_json_value *root, redco_critical_batch *out, redco_error *err)
{
    static const char *const keys[] = {"format", "version", "name", "about",          "source",
                                       "points", "seq_len", "bent", "by_tokens_seen", NULL};
    static const char *const law_keys[] = {"coefficient", "exponent", NULL};
    uint32_t version = 0;
    const char *source = NULL;
    redco_json_value law;
    *out = (redco_critical_batch){.given = true};
    redco_status st = redco_json_format(root, "redco-batches", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(root, "source", &source, err); }
    if (st != REDCO_OK) { return st; }
    (void)snprintf(out->source, sizeof out->source, "%s", source);
    if (redco_json_has(root, "points")) { return read_points(root, out, err); }
    out->by_seen = true;
    st = redco_json_object(root, "by_tokens_seen", &law, err);
    if (st == REDCO_OK) { st = redco_json_only(&law, law_keys, err); }
    if (st == REDCO_OK) { st = redco_json_number(&law, "coefficient", 1e-9, 1e12, &out->seen_coefficient, err); }
    if (st == REDCO_OK) { st = redco_json_number(&law, "exponent", 0.0, 1.0, &out->seen_exponent, err); }
    return st;
}

redco_status redco_critical_batch_read(const char *name_or_path, redco_critical_batch *out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("batches", "a table of batches", name_or_path, &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_critical_batch_from_json(&root, out, err);
    }
    redco_json_close(document);
    return st;
}

double redco_critical_batch_tokens(const redco_critical_batch *critical, double tokens_seen)
{
    return critical->by_seen ? critical->seen_coefficient * pow(tokens_seen, critical->seen_exponent)
                             : critical->tokens;
}

double redco_batch_inflation(const redco_critical_batch *critical, double batch, double like, double tokens_seen)
{
    if (!critical->given) { return 1.0; }
    const redco_batch_curve law = {.needed = 1.0, .linear = 1.0 / redco_critical_batch_tokens(critical, tokens_seen)};
    const redco_batch_curve *const curve = critical->by_seen ? &law : &critical->curve;
    return redco_batch_needed(curve, batch) / redco_batch_needed(curve, like);
}
