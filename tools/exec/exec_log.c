#include "tools/exec/exec_log.h"

#include "tools/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PATH_BYTES = 4200 };
#define METRICS "metrics.jsonl"

static void path_in(const char *folder, const char *name, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%.4000s/%s", folder, name);
}

/* Opening a pipe would wait for whoever reads it. */
static redco_status check_regular(const char *path, redco_error *err)
{
    struct stat info;
    return stat(path, &info) != 0 || S_ISREG(info.st_mode)
               ? REDCO_OK
               : redco_fail(err, REDCO_EVALUE, path, "is no regular file, to which a log is added");
}

redco_status exec_log_check(const char *folder, bool resume, redco_error *err)
{
    char path[PATH_BYTES];
    struct stat info;
    redco_metrics_file *file = NULL;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return redco_fail(err, REDCO_EIO, folder, "cannot make the folder: %s", strerror(errno));
    }
    path_in(folder, "run.log", path);
    if (check_regular(path, err) != REDCO_OK) { return err->status; }
    path_in(folder, METRICS, path);
    if (check_regular(path, err) != REDCO_OK) { return err->status; }
    if (stat(path, &info) != 0) {
        path_in(folder, "run.log", path);
        return cli_writable(path, err);
    }
    const redco_status st = redco_metrics_file_open(path, resume, UINT64_MAX, &file, err);
    redco_metrics_file_close(file);
    return st;
}

static double wall_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void exec_log_open(struct exec_log *log, const struct exec_run *run, const char *folder, bool resume, uint64_t step)
{
    char path[PATH_BYTES];
    log->run = run;
    if (folder == NULL) { return; }
    path_in(folder, METRICS, path);
    redco_status st = redco_metrics_file_open(path, resume, step, &log->metrics, &log->err);
    if (st == REDCO_OK) {
        st = redco_event_file_create(folder, wall_s(), resume ? step + 1 : 0, &log->events, &log->err);
    }
    path_in(folder, "run.log", path);
    if (st == REDCO_OK && (log->text = fopen(path, "ae")) == NULL) {
        (void)redco_fail(&log->err, REDCO_EIO, path, "cannot write there: %s", strerror(errno));
    }
}

void exec_log_line(struct exec_log *log, const char *format, ...)
{
    char at[32], text[1024];
    struct tm parts;
    const time_t now = time(NULL);
    va_list args;
    if (log->text == NULL || log->err.status != REDCO_OK) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    if (fprintf(log->text, "%s %s\n", at, text) < 0 || fflush(log->text) != 0) {
        (void)redco_fail(&log->err, REDCO_ESYSTEM, "run.log", "cannot write: %s", strerror(errno));
    }
}

double exec_tokens_per_s(const struct exec_run *run, double time_s)
{
    return (double)run->plan->global_batch * run->plan->seq_len / time_s;
}

double exec_mfu(const struct exec_run *run, double time_s)
{
    return exec_tokens_per_s(run, time_s) * run->model_flops_per_token / (double)redco_plan_gpus(run->plan) /
           run->peak_flops_per_s;
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void exec_log_step(struct exec_log *log, uint64_t number_of, double epoch, const redco_trainer_step *step)
{
    const double now_s = wall_s(), tokens = exec_tokens_per_s(log->run, step->time_s);
    const double mfu = exec_mfu(log->run, step->time_s);
    const redco_event_scalar scalars[] = {{"train/loss", step->loss},
                                          {"train/gradient_norm", step->gradient_norm},
                                          {"train/clip_factor", step->clip_factor},
                                          {"train/learning_rate", step->learning_rate},
                                          {"speed/tokens_per_s", tokens},
                                          {"speed/step_s", step->time_s},
                                          {"speed/mfu", mfu}};
    const uint32_t count = sizeof scalars / sizeof scalars[0] - (isfinite(mfu) ? 0 : 1);
    if (log->metrics == NULL || log->err.status != REDCO_OK) { return; }
    exec_log_line(log, "step %llu  loss %.9g  gradient norm %.6g  rate %.6g  %.4g s", (unsigned long long)number_of,
                  step->loss, step->gradient_norm, step->learning_rate, step->time_s);
    json_t *const line =
        json_pack("{s:I, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f}", "step", (json_int_t)number_of, "epoch",
                  number(epoch), "loss", step->loss, "gradient_norm", step->gradient_norm, "clip_factor",
                  step->clip_factor, "learning_rate", step->learning_rate, "time_s", step->time_s, "exposed_comm_s",
                  step->exposed_comm_s, "tokens_per_s", tokens, "mfu", number(mfu), "wall_time_s", now_s);
    if (redco_metrics_file_add(log->metrics, line, &log->err) == REDCO_OK) {
        (void)redco_event_file_add(log->events, now_s, number_of, scalars, count, &log->err);
    }
}

void exec_log_evaluation(struct exec_log *log, const struct exec_evaluation *e)
{
    const double now_s = wall_s();
    const bool judged = isfinite(e->metric);
    const redco_event_scalar scalars[] = {{"evaluation/loss", e->evaluation.loss}, {"evaluation/metric", e->metric}};
    if (log->metrics == NULL || log->err.status != REDCO_OK) { return; }
    exec_log_line(log, "evaluation after step %llu  loss %.9g%s", (unsigned long long)e->step, e->evaluation.loss,
                  e->best ? ", the best so far" : "");
    if (judged) { exec_log_line(log, "metric %.9g", e->metric); }
    json_t *const evaluation = json_pack("{s:f, s:o, s:I, s:I, s:f, s:b}", "loss", e->evaluation.loss, "metric",
                                         number(e->metric), "examples", (json_int_t)e->evaluation.examples, "targets",
                                         (json_int_t)e->evaluation.targets, "time_s", e->time_s, "best", (int)e->best);
    json_t *const line = json_pack("{s:I, s:o, s:o, s:f}", "step", (json_int_t)e->step, "epoch", number(e->epoch),
                                   "evaluation", evaluation, "wall_time_s", now_s);
    if (redco_metrics_file_add(log->metrics, line, &log->err) == REDCO_OK) {
        (void)redco_event_file_add(log->events, now_s, e->step, scalars, judged ? 2 : 1, &log->err);
    }
}

void exec_log_fail(struct exec_log *log, const redco_error *err)
{
    (void)redco_fail(&log->err, err->status, err->place, "%s", err->text);
}

redco_status exec_log_close(struct exec_log *log, redco_error *err)
{
    redco_metrics_file_close(log->metrics);
    redco_event_file_close(log->events);
    if (log->text != NULL && fclose(log->text) != 0) {
        (void)redco_fail(&log->err, REDCO_ESYSTEM, "run.log", "cannot write: %s", strerror(errno));
    }
    log->metrics = NULL;
    log->events = NULL;
    log->text = NULL;
    return log->err.status == REDCO_OK ? REDCO_OK
                                       : redco_fail(err, log->err.status, log->err.place, "%s", log->err.text);
}
