#include "tools/cli/beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigset_t ending_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    return signals;
}

redco_status beside_open(struct beside *beside, redco_error *err)
{
    const char *const given = getenv("TMPDIR"), *const parent = given != NULL && given[0] != '\0' ? given : "/tmp";
    const int length = snprintf(beside->folder, sizeof beside->folder, "%s/redco-XXXXXX", parent);
    if (length < 0 || (size_t)length >= sizeof beside->folder - 64 || mkdtemp(beside->folder) == NULL) {
        beside->folder[0] = '\0';
        return redco_fail(err, REDCO_ESYSTEM, parent, "no folder can be made there: %s", strerror(errno));
    }
    const sigset_t ending = ending_signals();
    (void)sigprocmask(SIG_BLOCK, &ending, &beside->before);
    return REDCO_OK;
}

const char *beside_path(const struct beside *beside, const char *name, char path_out[BESIDE_PATH_BYTES])
{
    const int length = snprintf(path_out, BESIDE_PATH_BYTES, "%s/%s", beside->folder, name);
    return length > 0 && length < BESIDE_PATH_BYTES ? path_out : NULL;
}

void beside_close(struct beside *beside)
{
    if (beside->folder[0] == '\0') { return; }
    DIR *const folder = opendir(beside->folder);
    for (const struct dirent *file = NULL; folder != NULL && (file = readdir(folder)) != NULL;) {
        if (strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0) { continue; }
        (void)unlinkat(dirfd(folder), file->d_name, 0);
    }
    if (folder != NULL) { (void)closedir(folder); }
    (void)rmdir(beside->folder);
    beside->folder[0] = '\0';
    (void)sigprocmask(SIG_SETMASK, &beside->before, NULL);
}

static int start(const char *path, char *const *words, const sigset_t *mask, pid_t *child_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int why = posix_spawn_file_actions_init(&actions);
    if (why != 0) { return why; }
    why = posix_spawnattr_init(&attributes);
    if (why == 0) {
        (void)posix_spawnattr_setsigmask(&attributes, mask);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        why = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (why == 0) { why = posix_spawn(child_out, path, &actions, &attributes, words, environ); }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return why;
}

/* A signal that came is passed on, and comes again when it is no longer blocked. */
static void wait_for(pid_t child, int *status_out)
{
    sigset_t signals = ending_signals(), before;
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    while (waitpid(child, status_out, WNOHANG) == 0) {
        const struct timespec second = {.tv_sec = 1}; /* where a child ended before its signal was blocked */
        const int signal = sigtimedwait(&signals, NULL, &second);
        if (signal <= 0 || signal == SIGCHLD) { continue; }
        (void)kill(child, SIGTERM);
        (void)waitpid(child, status_out, 0);
        (void)raise(signal);
        break;
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

int beside_run(const struct cli *cli, const struct beside *beside, const char *const *words)
{
    char path[BESIDE_PATH_BYTES], own[BESIDE_PATH_BYTES - 64];
    pid_t child = 0;
    int status = 0;
    redco_error err = {.status = REDCO_OK};
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    char *const slash = strrchr(own, '/');
    if (slash == NULL) {
        (void)redco_fail(&err, REDCO_ESYSTEM, words[0], "is not found: /proc does not say where this program is");
        return cli_fail(cli, &err);
    }
    *slash = '\0';
    (void)snprintf(path, sizeof path, "%s/%.60s", own, words[0]);
    const int why = start(path, (char *const *)(uintptr_t)words, &beside->before, &child);
    if (why != 0) {
        (void)redco_fail(&err, REDCO_ESYSTEM, path, "cannot be run: %s", strerror(why));
        return cli_fail(cli, &err);
    }
    wait_for(child, &status);
    if (!WIFEXITED(status)) {
        (void)redco_fail(&err, REDCO_ESYSTEM, path, "was ended by signal %d",
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        return cli_fail(cli, &err);
    }
    return WEXITSTATUS(status);
}
