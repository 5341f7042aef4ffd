#include "tools/exec/exec_failure.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct exec_report) <= PIPE_BUF, "reports of several ranks do not mix");

void exec_watch(void *context, const char *what)
{
    struct exec_line *const line = context;
    if (line->slot == NULL) { return; }
    (void)pthread_mutex_lock(&line->lock);
    const unsigned next = 1 - atomic_load(&line->slot->current);
    (void)snprintf(line->slot->what[next], sizeof line->slot->what[next], "%s", what);
    atomic_store(&line->slot->current, next);
    (void)pthread_mutex_unlock(&line->lock);
}

const char *exec_doing(const struct exec_slot *slot)
{
    return slot->what[atomic_load(&slot->current) % 2];
}

static int code_of(redco_status status)
{
    switch (status) {
    case REDCO_OK: return CLI_DONE;
    case REDCO_EINFEASIBLE: return CLI_NO;
    case REDCO_EVALUE:
    case REDCO_EIO: return CLI_USAGE;
    default: return CLI_SYSTEM;
    }
}

/* An error in files and options is the same for all ranks: before the first step, nobody asks which one says it. */
static bool everybodys(const struct exec_report *r)
{
    return r->step == 0 &&
           (r->err.status == REDCO_EVALUE || r->err.status == REDCO_EIO || r->err.status == REDCO_EINFEASIBLE);
}

void exec_print_report(const struct cli *cli, const struct exec_report *r)
{
    redco_error named = {.status = REDCO_OK};
    char place[sizeof named.place] = "";
    const char *where = r->err.place;
    unsigned rank = r->rank;
    int used = 0;
    if (sscanf(where, "rank %u: %n", &rank, &used) == 1 && used > 0) { where += used; } /* all say so of one */
    if (everybodys(r) && (r->rank == 0 || r->err.status != REDCO_EIO)) { /* a file may be missing on one host */
        (void)snprintf(place, sizeof place, "%.480s", where);
    } else if (r->step == 0) {
        (void)snprintf(place, sizeof place, "rank %u: %.400s", rank, where);
    } else {
        (void)snprintf(place, sizeof place, "rank %u, step %llu: %.400s", rank, (unsigned long long)r->step, where);
    }
    (void)redco_fail(&named, r->err.status, place, "%s", r->err.text);
    (void)cli_fail(cli, &named);
}

static void send_report(struct exec_line *line, const struct exec_report *report)
{
    ssize_t wrote = -1;
    do {
        wrote = write(line->pipe, report, sizeof *report);
    } while (wrote < 0 && errno == EINTR);
    line->reported = true;
}

/* All ranks have come to the same error. */
static bool alike(const struct exec_report *r)
{
    return (everybodys(r) && r->err.status != REDCO_EIO) || r->err.status == REDCO_EINFEASIBLE ||
           strncmp(r->err.place, "rank ", 5) == 0;
}

/* Under mpirun nobody is above the ranks. Several that wait for one that is silent name it, not one another. */
static int fail_alone(const struct cli *cli, redco_world *world, double timeout_s, struct exec_report *r)
{
    redco_farewell farewell = {false, true, true, REDCO_WORLD_MAX};
    if (world == NULL) {
        exec_print_report(cli, r);
        return r->code;
    }
    redco_world_part(world, &farewell);
    if (r->rank != 0 && alike(r)) { farewell.speaks = false; } /* over sockets each speaks for itself */
    if (farewell.speaks && farewell.broken && farewell.missing < redco_world_size(world)) {
        redco_error silent = {.status = REDCO_OK};
        (void)redco_fail(&silent, r->err.status, r->err.place, "was not heard of for %g s, for which rank %u waited",
                         timeout_s, r->rank);
        r->err = silent;
        r->rank = farewell.missing;
    }
    if (farewell.speaks) { exec_print_report(cli, r); }
    if (farewell.closes) { return r->code; }
    if (!farewell.speaks) { (void)sleep(2); } /* whoever speaks ends all, once it has */
    (void)fflush(NULL);
    redco_world_give_up(world, r->code);
    return r->code;
}

int exec_fail(const struct cli *cli, struct exec_line *line, redco_world *world, uint32_t rank, uint64_t step,
              const redco_error *err)
{
    struct exec_report report = {.rank = rank, .code = code_of(err->status), .step = step, .err = *err};
    redco_farewell farewell;
    if (line->pipe < 0) { return fail_alone(cli, world, line->timeout_s, &report); }
    report.broken = err->status == REDCO_ESYSTEM; /* without a world: the others did not come */
    if (world != NULL) {
        redco_world_part(world, &farewell);
        report.broken = farewell.broken;
    }
    send_report(line, &report);
    return report.code;
}
