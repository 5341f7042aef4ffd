/* gnuplot as a child process: script in, picture out, its complaints caught. */
#include "tools/plot/plot.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static redco_status failed(redco_error *err, const char *what)
{
    return redco_fail(err, REDCO_ESYSTEM, "gnuplot", "%s: %s", what, strerror(errno));
}

/* Files in memory instead of pipes: nobody waits for anybody, however much is written. */
static redco_status open_streams(int streams[3], redco_error *err)
{
    static const char *const names[3] = {"redco-plot-script", "redco-plot-image", "redco-plot-messages"};
    for (int i = 0; i < 3; i++) {
        streams[i] = memfd_create(names[i], MFD_CLOEXEC);
        if (streams[i] < 0) { return failed(err, "no file in memory"); }
    }
    return REDCO_OK;
}

static redco_status write_all(int stream, const char *text, size_t size, redco_error *err)
{
    while (size > 0) {
        const ssize_t written = write(stream, text, size);
        if (written < 0 && errno == EINTR) { continue; }
        if (written < 0) { return failed(err, "cannot hand over the script"); }
        text += written;
        size -= (size_t)written;
    }
    return lseek(stream, 0, SEEK_SET) == 0 ? REDCO_OK : failed(err, "cannot hand over the script");
}

static redco_status read_all(int stream, char **text_out, size_t *size_out, redco_error *err)
{
    const off_t end = lseek(stream, 0, SEEK_END);
    const size_t size = end > 0 ? (size_t)end : 0;
    char *text = malloc(size + 1);
    size_t done = 0;
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    while (done < size) {
        const ssize_t got = pread(stream, text + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) { break; }
        done += (size_t)got;
    }
    text[done] = '\0';
    *text_out = text;
    *size_out = done;
    return REDCO_OK;
}

static redco_status run(const int streams[3], int *status_out, redco_error *err)
{
    char *const command[] = {"gnuplot", "--default-settings", "-", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int why = posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3 && why == 0; i++) { why = posix_spawn_file_actions_adddup2(&actions, streams[i], i); }
    if (why == 0) { why = posix_spawnp(&child, command[0], &actions, NULL, command, environ); }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (why == ENOENT || why == EACCES) {
        return redco_fail(err, REDCO_ESYSTEM, "gnuplot",
                          "is not installed or not on the PATH (Debian: apt-get install gnuplot-nox)");
    }
    if (why != 0) {
        errno = why;
        return failed(err, "cannot be started");
    }
    while (waitpid(child, status_out, 0) < 0) {
        if (errno != EINTR) { return failed(err, "cannot be waited for"); }
    }
    return REDCO_OK;
}

/* gnuplot shows the line, a caret below it, then what is wrong: the last line that says something. */
static void last_line(char *text)
{
    char *best = text;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest)) {
        if (line[strspn(line, " \t^")] != '\0') { best = line + strspn(line, " \t"); }
    }
    memmove(text, best, strlen(best) + 1);
}

redco_status plot_render(const char *script, size_t script_size, char **image_out, size_t *size_out, redco_error *err)
{
    int streams[3] = {-1, -1, -1};
    int status = 0;
    char *image = NULL;
    char *messages = NULL;
    size_t image_size = 0;
    size_t message_size = 0;
    redco_status st = open_streams(streams, err);
    if (st != REDCO_OK || (st = write_all(streams[0], script, script_size, err)) != REDCO_OK ||
        (st = run(streams, &status, err)) != REDCO_OK ||
        (st = read_all(streams[1], &image, &image_size, err)) != REDCO_OK ||
        (st = read_all(streams[2], &messages, &message_size, err)) != REDCO_OK) {
        goto out;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || image_size == 0) {
        last_line(messages);
        st =
            redco_fail(err, REDCO_ESYSTEM, "gnuplot", "%s%s", message_size > 0 ? "failed: " : "drew nothing", messages);
        goto out;
    }
    *image_out = image;
    *size_out = image_size;
    image = NULL;
out:
    free(image);
    free(messages);
    for (int i = 0; i < 3; i++) {
        if (streams[i] >= 0) { (void)close(streams[i]); }
    }
    return st;
}
