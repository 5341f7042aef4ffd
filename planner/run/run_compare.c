#include "planner/run/run_compare.h"

#include <math.h>

static const double most = 1e30;

/* {"value": ...} or null. */
static redco_status read_figure(const redco_json_value *run, const char *key, const char *part, double *out,
                                redco_error *err)
{
    redco_json_value figure;
    const redco_status st = redco_json_object(run, key, &figure, err);
    return st == REDCO_OK ? redco_json_number(&figure, part, 1e-30, most, out, err) : st;
}

static redco_status read_run(const redco_json_value *run, redco_run_summary *out, redco_error *err)
{
    redco_json_value time;
    double tokens = 0.0, compute = 0.0, paid_hours = 0.0;
    redco_status st = redco_json_number(run, "tokens", 1e-30, most, &tokens, err);
    const struct {
        const char *key;
        double *to;
    } figures[] = {{"days", &out->days}, {"ettr", &out->ettr}, {"paid_gpu_hours", &paid_hours}};
    const struct {
        const char *key;
        double least;
        double *to;
    } shares[] = {{"compute", 1e-12, &compute},
                  {"checkpoint", 0.0, &out->checkpoint},
                  {"failures", 0.0, &out->failures},
                  {"restart", 0.0, &out->restart}};
    if (st == REDCO_OK) { st = redco_json_number(run, "inflation", 1e-12, 1e12, &out->inflation, err); }
    if (st == REDCO_OK) { st = redco_json_number(run, "gpus", 1.0, 1e12, &out->gpus, err); }
    for (size_t i = 0; i < sizeof figures / sizeof figures[0] && st == REDCO_OK; i++) {
        st = read_figure(run, figures[i].key, "value", figures[i].to, err);
    }
    if (st == REDCO_OK) { st = read_figure(run, "days", "low", &out->days_low, err); }
    if (st == REDCO_OK) { st = read_figure(run, "days", "high", &out->days_high, err); }
    if (st == REDCO_OK) { st = redco_json_object(run, "time", &time, err); }
    for (size_t i = 0; i < sizeof shares / sizeof shares[0] && st == REDCO_OK; i++) {
        st = redco_json_number(&time, shares[i].key, shares[i].least, 1.0 + 1e-9, shares[i].to, err);
    }
    if (st != REDCO_OK) { return st; }
    out->tokens = tokens / out->inflation;
    out->checkpoint /= compute;
    out->failures /= compute;
    out->restart /= compute;
    out->paid_gpus = paid_hours / (24.0 * out->days);
    out->priced = redco_json_has(run, "money");
    if (out->priced) {
        st = read_figure(run, "money", "value", &out->money, err);
        out->price = out->money / paid_hours;
    }
    return st;
}

redco_status redco_run_summary_from_json(const redco_json_value *root, redco_run_summary *out, redco_error *err)
{
    redco_json_value run, rows, row;
    size_t count = 0;
    uint64_t chosen = 0;
    *out = (redco_run_summary){.priced = false};
    if (redco_json_has(root, "total")) {
        const redco_status st = redco_json_object(root, "total", &run, err);
        return st == REDCO_OK ? read_run(&run, out, err) : st;
    }
    if (redco_json_has(root, "rows") && redco_json_has(root, "chosen")) {
        redco_status st = redco_json_array(root, "rows", &rows, &count, err);
        if (st == REDCO_OK && count == 0) { st = redco_json_fail(root, "rows", err, "is empty"); }
        if (st == REDCO_OK) { st = redco_json_u64(root, "chosen", 0, count - 1, &chosen, err); }
        if (st == REDCO_OK) { st = redco_json_element(&rows, (size_t)chosen, &row, err); }
        if (st == REDCO_OK) { st = redco_json_object(&row, "run", &run, err); }
        return st == REDCO_OK ? read_run(&run, out, err) : st;
    }
    if (!redco_json_has(root, "run")) {
        return redco_json_fail(root, NULL, err, "holds no run: write it with redco-plan --tokens N --json, or --run");
    }
    const redco_status st = redco_json_object(root, "run", &run, err);
    return st == REDCO_OK ? read_run(&run, out, err) : st;
}

redco_status redco_run_summary_read(const char *path, redco_run_summary *out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_open(path, &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_run_summary_from_json(&root, out, err);
    }
    redco_json_close(document);
    return st;
}

/* (b - a) / ln(b / a), which is a where both are equal. */
static double log_mean(double a, double b)
{
    const double x = log(b / a);
    return fabs(x) < 1e-9 ? 0.5 * (a + b) : (b - a) / x;
}

void redco_run_changes(const redco_run_summary *a, const redco_run_summary *b,
                       redco_run_change changes_out[REDCO_RUN_CHANGES])
{
    const bool priced = a->priced && b->priced;
    const double over_a = 1.0 + a->checkpoint + a->failures + a->restart;
    const double over_b = 1.0 + b->checkpoint + b->failures + b->restart, over = log_mean(over_a, over_b);
    /* Tokens that a GPU computes in a day of steps that count. */
    const double speed_a = a->tokens * a->inflation / (a->days / over_a * a->gpus);
    const double speed_b = b->tokens * b->inflation / (b->days / over_b * b->gpus);
    const double gpus = log(b->gpus / a->gpus);
    const struct {
        const char *cause;
        double days, money; /* logarithms of what the factor multiplies by */
    } factors[REDCO_RUN_CHANGES] = {{"tokens", log(b->tokens / a->tokens), 0.0},
                                    {"batch size", log(b->inflation / a->inflation), 0.0},
                                    {"speed of a GPU", -log(speed_b / speed_a), 0.0},
                                    {"number of GPUs", -gpus, log(b->paid_gpus / a->paid_gpus)},
                                    {"checkpoints", (b->checkpoint - a->checkpoint) / over, 0.0},
                                    {"lost work", (b->failures - a->failures) / over, 0.0},
                                    {"restarts", (b->restart - a->restart) / over, 0.0},
                                    {"price", 0.0, priced ? log(b->price / a->price) : 0.0}};
    const double days = log_mean(a->days, b->days), money = priced ? log_mean(a->money, b->money) : 0.0;
    for (int i = 0; i < REDCO_RUN_CHANGES; i++) {
        changes_out[i] = (redco_run_change){.cause = factors[i].cause,
                                            .days = days * factors[i].days,
                                            .money = money * (factors[i].days + factors[i].money)};
    }
}
