#include "tools/exec/exec_progress.h"

#include "tools/exec/exec_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 20, LEAST_COLUMNS = 20, LINE_BYTES = 256 };
/* The share of the latest step in the moving mean of times. */
static const double newest_ratio = 0.1;

struct exec_progress exec_progress_begin(bool wanted)
{
    const bool shown = wanted && isatty(STDERR_FILENO) == 1;
    return (struct exec_progress){.shown = shown, .alone = shown && isatty(STDOUT_FILENO) == 1};
}

void exec_progress_clear(const struct exec_progress *p)
{
    if (p->shown) { (void)fputs("\r\033[K", stderr); }
}

void exec_progress_text(const struct exec_progress *p, const struct exec_run *run, uint64_t number, uint64_t steps,
                        double loss, char *text, size_t size)
{
    const double left_s = p->step_s * (double)(steps - number), mfu = exec_mfu(run, p->step_s);
    const uint64_t done = steps > 0 ? number * BAR / steps : BAR, seconds = (uint64_t)fmin(ceil(left_s), 3.6e9);
    char share[40] = "", bar[BAR + 1] = "";
    memset(bar, ' ', BAR);
    memset(bar, '#', done);
    if (isfinite(mfu)) { (void)snprintf(share, sizeof share, "  MFU %.3g", mfu); }
    (void)snprintf(text, size, "[%s] %llu/%llu  loss %.5g  %.4g tokens/s%s  %llu:%02llu:%02llu left", bar,
                   (unsigned long long)number, (unsigned long long)steps, loss, exec_tokens_per_s(run, p->step_s),
                   share, (unsigned long long)(seconds / 3600), (unsigned long long)(seconds / 60 % 60),
                   (unsigned long long)(seconds % 60));
}

void exec_progress_step(struct exec_progress *p, const struct exec_run *run, uint64_t number, uint64_t steps,
                        const redco_trainer_step *step)
{
    char text[LINE_BYTES];
    struct winsize window = {.ws_col = 0};
    if (!p->shown) { return; }
    p->step_s = p->step_s > 0.0 ? p->step_s + newest_ratio * (step->time_s - p->step_s) : step->time_s;
    exec_progress_text(p, run, number, steps, step->loss, text, sizeof text);
    /* A line that is wider than the terminal would not be overwritten. */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > LEAST_COLUMNS) {
        text[window.ws_col - 1 < LINE_BYTES ? window.ws_col - 1 : LINE_BYTES - 1] = '\0';
    }
    (void)fprintf(stderr, "\r%s\033[K%s", text, number == steps ? "\n" : "");
    (void)fflush(stderr);
}
