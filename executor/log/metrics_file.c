#include "executor/log/metrics_file.h"

#include "topology/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 17 };
static const size_t most_bytes = (size_t)1 << 30;

struct redco_metrics_file {
    char *path;
    int descriptor;
    off_t end; /* behind the last whole line */
};

static redco_status no_memory(const char *path, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, path, "no memory to log there");
}

static redco_status read_step(const char *text, size_t size, const char *name, uint64_t line, uint64_t *step_out,
                              redco_error *err)
{
    json_error_t error;
    json_t *const object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    const json_t *const step = json_object_get(object, "step");
    const bool good = json_is_integer(step) && json_integer_value(step) >= 0;
    if (good) { *step_out = (uint64_t)json_integer_value(step); }
    json_decref(object);
    if (good) { return REDCO_OK; }
    char place[480];
    (void)snprintf(place, sizeof place, "%.440s:%llu", name, (unsigned long long)line);
    return redco_fail(err, REDCO_EVALUE, place, "is no line of metrics, an object with the whole number \"step\"");
}

redco_status redco_metrics_file_kept(const char *text, size_t size, const char *name, uint64_t step, size_t *kept_out,
                                     redco_error *err)
{
    uint64_t line = 0, before = 0, at_step = 0;
    size_t kept = 0;
    bool later = false;
    for (size_t at = 0; at < size;) {
        const char *const end = memchr(text + at, '\n', size - at);
        if (end == NULL) { break; } /* it was cut off */
        const size_t next = (size_t)(end - text) + 1;
        const redco_status st = read_step(text + at, next - at, name, ++line, &at_step, err);
        if (st != REDCO_OK) { return st; }
        if (at_step < before) {
            char place[480];
            (void)snprintf(place, sizeof place, "%.440s:%llu", name, (unsigned long long)line);
            return redco_fail(err, REDCO_EVALUE, place, "is of step %llu, behind one of step %llu",
                              (unsigned long long)at_step, (unsigned long long)before);
        }
        before = at_step;
        later = later || at_step > step;
        at = next;
        if (!later) { kept = at; }
    }
    *kept_out = kept;
    return REDCO_OK;
}

static redco_status keep(redco_metrics_file *f, uint64_t step, redco_error *err)
{
    char *text = NULL;
    size_t size = 0, kept = 0;
    redco_status st = redco_file_read(f->path, most_bytes, &text, &size, err);
    if (st == REDCO_OK) { st = redco_metrics_file_kept(text, size, f->path, step, &kept, err); }
    free(text);
    if (st == REDCO_OK && ftruncate(f->descriptor, (off_t)kept) != 0) {
        st = redco_fail(err, REDCO_ESYSTEM, f->path, "cannot shorten it: %s", strerror(errno));
    }
    f->end = (off_t)kept;
    return st;
}

redco_status redco_metrics_file_open(const char *path, bool resume, uint64_t step, redco_metrics_file **file_out,
                                     redco_error *err)
{
    struct stat info;
    redco_metrics_file *f = calloc(1, sizeof *f);
    if (f == NULL) { return no_memory(path, err); }
    f->path = strdup(path);
    f->descriptor = -1;
    redco_status st = f->path != NULL ? REDCO_OK : no_memory(path, err);
    if (st == REDCO_OK && stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        st = redco_fail(err, REDCO_EVALUE, path, "is no file");
    }
    if (st == REDCO_OK) {
        f->descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (resume ? 0 : O_EXCL), 0666);
        if (f->descriptor < 0) {
            st = errno == EEXIST
                     ? redco_fail(err, REDCO_EVALUE, path,
                                  "is there already; --resume goes on with it, another run needs another folder")
                     : redco_fail(err, REDCO_EIO, path, "cannot write there: %s", strerror(errno));
        }
    }
    if (st == REDCO_OK && resume) { st = keep(f, step, err); }
    if (st == REDCO_OK) {
        *file_out = f;
        f = NULL;
    }
    redco_metrics_file_close(f);
    return st;
}

void redco_metrics_file_close(redco_metrics_file *f)
{
    if (f == NULL) { return; }
    if (f->descriptor >= 0) { (void)close(f->descriptor); }
    free(f->path);
    free(f);
}

redco_status redco_metrics_file_add(redco_metrics_file *f, json_t *line, redco_error *err)
{
    char *const text = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(line);
    if (text == NULL) { return no_memory(f->path, err); }
    const size_t size = strlen(text) + 1;
    text[size - 1] = '\n';
    size_t done = 0;
    ssize_t written = 0;
    while (done < size && (written >= 0 || errno == EINTR)) {
        written = pwrite(f->descriptor, text + done, size - done, f->end + (off_t)done);
        done += written > 0 ? (size_t)written : 0;
    }
    const int why = errno;
    free(text);
    if (done == size) {
        f->end += (off_t)size;
        return REDCO_OK;
    }
    (void)!ftruncate(f->descriptor, f->end);
    return redco_fail(err, REDCO_ESYSTEM, f->path, "cannot write: %s", strerror(why));
}
