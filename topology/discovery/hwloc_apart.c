/* hwloc XML of others is read in a child process. hwloc trusts what it imports: sets and matrices that contradict one
 * another have it read address 0, and few bytes can ask for gigabytes. The child hands back a node as JSON, which is
 * checked like any other file; whatever else happens to it is no more than a file that cannot be loaded. */
#include "topology/base/clock.h"
#include "topology/discovery/node_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The largest machine of hwloc's own collection takes 10 ms and 3 MB. */
static const size_t memory_max_bytes = (size_t)160 << 20;
static const size_t bytes_per_cpu_second = (size_t)4 << 20;
enum { WALL_S_PER_CPU_S = 20 };

/* First in the pipe; a node's JSON follows where the status is REDCO_OK. */
struct answer {
    redco_error err;
    size_t json_size;
};

static rlim_t cpu_seconds(size_t size)
{
    return (rlim_t)(1 + size / bytes_per_cpu_second);
}

/* ---- the child ---- */

/* Bytes that are mapped now, to which the limit is added: sanitizers reserve terabytes. 0 if unknown. */
static size_t mapped_bytes(void)
{
    char text[64];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) { (void)close(file); }
    if (size <= 0) { return 0; }
    text[size] = '\0';
    return (size_t)strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void lower(int resource, rlim_t to)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) { return; }
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > to) { limit.rlim_max = to; }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(resource, &limit);
}

static void confine(size_t size)
{
    /* the caller's handlers may remove files or print */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGXCPU, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) { (void)signal(signals[i], SIG_DFL); }
    const size_t mapped = mapped_bytes();
    if (mapped > 0) { lower(RLIMIT_AS, mapped + memory_max_bytes); }
    lower(RLIMIT_CPU, cpu_seconds(size));
    lower(RLIMIT_CORE, 0);
    /* plug-ins bring drivers' libraries, which take more memory than this and are for machines, not for XML */
    (void)setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
    (void)setenv("HWLOC_LIBXML_IMPORT", "0", 1); /* the parser that redcoi_xml_check() writes for */
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) { (void)dup2(null, STDERR_FILENO); } /* hwloc explains itself there */
}

static bool put(int to, const void *bytes, size_t size)
{
    for (const char *at = bytes; size > 0;) {
        const ssize_t written = write(to, at, size);
        if (written < 0 && errno == EINTR) { continue; }
        if (written <= 0) { return false; }
        at += written;
        size -= (size_t)written;
    }
    return true;
}

static bool answer_from_child(int to, const char *text, size_t size, const char *name)
{
    struct answer answer = {.json_size = 0};
    redco_node *node = NULL;
    char *json_text = NULL;
    if (redcoi_node_from_hwloc_xml(text, size, name, &node, &answer.err) == REDCO_OK) {
        json_t *json = redco_node_describe(node);
        json_text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
        if (json_text == NULL) { return false; }
        answer.json_size = strlen(json_text);
    }
    return put(to, &answer, sizeof answer) && put(to, json_text, answer.json_size);
}

/* ---- the parent ---- */

/* Up to @p size bytes until @p end_s. @return how many came */
static size_t take(int from, void *bytes, size_t size, double end_s)
{
    size_t taken = 0;
    while (taken < size) {
        const double left_s = end_s - redco_now_s();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        const int count = left_s > 0.0 ? poll(&ready, 1, (int)(left_s * 1e3) + 1) : 0;
        if (count < 0 && errno == EINTR) { continue; }
        if (count <= 0) { break; }
        const ssize_t got = read(from, (char *)bytes + taken, size - taken);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) { break; }
        taken += (size_t)got;
    }
    return taken;
}

static redco_status node_from_text(const char *json, size_t size, const char *name, redco_node **node_out,
                                   redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(json, size, name, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_node_from_json(&root, node_out, err);
    redco_json_close(document);
    return st;
}

/* `heard_out` stays false where the child ended without a whole answer. */
static redco_status hear(int from, double end_s, const char *name, bool *heard_out, redco_node **node_out,
                         redco_error *err)
{
    struct answer answer;
    if (take(from, &answer, sizeof answer, end_s) != sizeof answer || answer.json_size > memory_max_bytes) {
        return REDCO_OK;
    }
    if (answer.err.status != REDCO_OK) {
        *heard_out = true;
        answer.err.place[sizeof answer.err.place - 1] = '\0';
        answer.err.text[sizeof answer.err.text - 1] = '\0';
        return redco_fail(err, answer.err.status, answer.err.place, "%s", answer.err.text);
    }
    char *json = malloc(answer.json_size + 1);
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    redco_status st = REDCO_OK;
    if (take(from, json, answer.json_size, end_s) == answer.json_size) {
        *heard_out = true;
        json[answer.json_size] = '\0';
        st = node_from_text(json, answer.json_size, name, node_out, err);
    }
    free(json);
    return st;
}

static redco_status refuse(const char *name, int state, redco_error *err)
{
    char why[64] = "it ended without an answer";
    const int number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    if (number == SIGXCPU || number == SIGKILL) {
        (void)snprintf(why, sizeof why, "it took too long");
    } else if (number != 0) {
        (void)snprintf(why, sizeof why, "it ended by signal %d", number);
    }
    return redco_fail(err, REDCO_EVALUE, name, "is no topology that hwloc can load (hwloc %s: %s)",
                      redcoi_hwloc_release(), why);
}

redco_status redcoi_node_from_hwloc_apart(const char *text, size_t size, const char *name, redco_node **node_out,
                                          redco_error *err)
{
    int ends[2];
    int state = 0;
    bool heard = false;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return redco_fail(err, REDCO_ESYSTEM, name, "no pipe to a child process: %s", strerror(errno));
    }
    const pid_t child = fork();
    if (child < 0) {
        const int why = errno;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return redco_fail(err, REDCO_ESYSTEM, name, "no child process to read hwloc XML in: %s", strerror(why));
    }
    if (child == 0) {
        confine(size);
        _exit(answer_from_child(ends[1], text, size, name) ? 0 : 1);
    }
    (void)close(ends[1]);
    const double end_s = redco_now_s() + (double)cpu_seconds(size) * WALL_S_PER_CPU_S;
    redco_status st = hear(ends[0], end_s, name, &heard, node_out, err);
    (void)close(ends[0]);
    if (redco_now_s() >= end_s) { (void)kill(child, SIGKILL); }
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {}
    return st != REDCO_OK || heard ? st : refuse(name, state, err);
}
