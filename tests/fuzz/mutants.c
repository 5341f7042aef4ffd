/* Whole tools on damaged files, not readers alone:
 *     mutants [-n RUNS] [-s SEED] [-o FOLDER] [-x] TOOLS KIND FILE... [KIND FILE...]
 * TOOLS is the folder of the tools, KIND one of the table below and FILE a sound file of it or a folder of such. Each
 * run damages a file in one to four places and gives it to a tool, which must end with 0 to 3, within two seconds of
 * processor time and 300 MB, and print nothing that a terminal would obey; a refusal says why. What breaks that is kept
 * in FOLDER. The same seed makes the same files. Most of a run would be exec and dynamic linking: each tool is loaded
 * once, with served.c, and forked for each file; with -x each run is a process of its own. */
#include "tests/fuzz/served.h"
#include "topology/base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* their libraries want to be loaded first */
#else
enum { SANITIZED = 0 };
#endif

enum { MOST_FILES = 4096, LARGEST = 1 << 20, PRINTED = 1 << 16, CPU_S = 2, MOST_MB = 300, MOST_TOOLS = 16 };

static const struct kind {
    const char *name;
    const char *command[14]; /* tool and arguments; "@" is the file, "%.gp" one to write */
} kinds[] = {
    {"topology", {"redco-topo", "--xml", "@"}},
    {"gpu", {"redco-topo", "--xml", MUTANTS_MACHINE, "--nic", "200 Gb/s", "--gpu", "@"}},
    {"cluster", {"redco-plan", "--cluster", "@", "--gpus", "8"}},
    {"node", {"redco-plan", "--node", "@", "--gpus", "8"}},
    {"slurm", {"redco-plan", "--topology", "@", "--gpus", "8"}},
    {"model", {"redco-plan", "--model", "@", "--gpus", "8", "--seq", "512"}},
    {"safetensors", {"redco-plan", "--model", "gpt2", "--seq", "512", "--safetensors", "@", "--gpus", "8"}},
    {"rules", {"redco-plan", "--tp-rules", "@", "--model", "gpt2", "--seq", "512", "--gpus", "8", "--tp", "2"}},
    {"calibration", {"redco-plan", "--calibration", "@", "--gpus", "8"}},
    {"engine", {"redco-plan", "--engine", "@", "--gpus", "8"}},
    {"profile", {"redco-plan", "--profile", "@", "--gpus", "8"}},
    {"check", {"redco-plan", "--check", "@"}},
    {"export", {"redco-plan", "--from", "@", "--export", "megatron"}},
    {"run", {"redco-plan", "--run", "@"}},
    {"read", {"redco-plan", "--read", "@", "--gpus", "8", "--cluster", "dgx-h100", "--quiet"}},
    {"reading", {"redco-plan", "--read", "@", "--gpus", "8", "--model", "/none.json"}}, /* read, not priced */
    {"log", {"redco-plan", "--log", "@", "--gpus", "8", "--strategy", "zero3", "--tp", "1", "--quiet"}},
    {"failures", {"redco-plan", "--failures", "@", "--gpus", "8", "--tokens", "1T"}},
    {"prices", {"redco-plan", "--price", "@", "--gpus", "8", "--tokens", "1T"}},
    {"grid", {"redco-plan", "--grid", "@", "--gpus", "8", "--tokens", "1T"}},
    {"batches", {"redco-plan", "--critical-batch", "@", "--gpus", "8", "--tokens", "1T", "--deadline", "9999d"}},
    {"runs", {"redco-plan", "--compare-runs", "@", "@"}},
    {"frontier", {"redco-plot", "frontier", "@", "-o", "%.gp"}},
    {"phases", {"redco-plot", "phases", "@", "-o", "%.gp"}},
    {"plan", {"redco-sim", "@"}},
    {"params", {"redco-rules", "--params", "@", "--shards", "2"}},
    {"own", {"redco-rules", "--rules", "@", "--model", "gpt2", "--shards", "2"}},
    {"measured", {"redco-validate", "--measured", "@"}},
    {"profiles", {"redco-validate", "--profiles", "@"}},
    {"trace", {"redco-validate", MUTANTS_PLAN, "@"}},
    {"fit", {"redco-calibrate", "--measured", "@", "-o", "%.gp"}},
    {"timeline", {"redco-plot", "timeline", "@", "-o", "%.gp"}},
    {"plans", {"redco-plot", "time", "@", "-o", "%.gp"}},
};

struct seed_file {
    const struct kind *kind;
    char *path;
};

/* A tool that is loaded and waits for files. */
struct server {
    const char *tool;
    int socket;
    pid_t process;
};

struct campaign {
    const char *tools, *folder;
    bool apart; /* each run is a process of its own */
    struct server servers[MOST_TOOLS];
    size_t server_count;
    struct seed_file files[MOST_FILES];
    size_t file_count;
    uint64_t state;
    char *bytes;
    size_t size;
    unsigned long runs, codes[4], broken;
    long most_kb;
    double most_cpu_s;
};

/* xorshift64 */
static uint64_t next(struct campaign *c)
{
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return c->state;
}

static size_t below(struct campaign *c, size_t n)
{
    return n > 0 ? (size_t)(next(c) % n) : 0;
}

/* Puts `text` in the place of `length` bytes at `at`. */
static void replace(struct campaign *c, size_t at, size_t length, const char *text, size_t text_size)
{
    if (c->size - length + text_size > LARGEST) { return; }
    memmove(c->bytes + at + text_size, c->bytes + at + length, c->size - at - length);
    memcpy(c->bytes + at, text, text_size);
    c->size = c->size - length + text_size;
}

static bool is_word(char byte)
{
    return strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.+-", byte) != NULL && byte != '\0';
}

/* A word or number somewhere behind a random place. @return its length, 0 if there is none */
static size_t find_word(struct campaign *c, size_t *at_out)
{
    size_t at = below(c, c->size);
    size_t length = 0;
    while (at < c->size && !is_word(c->bytes[at])) { at++; }
    while (at > 0 && at < c->size && is_word(c->bytes[at - 1])) { at--; }
    while (at + length < c->size && is_word(c->bytes[at + length])) { length++; }
    *at_out = at;
    return length;
}

/* The line around a random place. */
static size_t find_line(struct campaign *c, size_t *at_out)
{
    size_t at = below(c, c->size);
    size_t length = 0;
    while (at > 0 && c->bytes[at - 1] != '\n') { at--; }
    while (at + length < c->size && c->bytes[at + length] != '\n') { length++; }
    *at_out = at;
    return length + (at + length < c->size);
}

static void damage(struct campaign *c)
{
    static const char *const values[] = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "65536",
                                         "100000",
                                         "4294967294",
                                         "4294967295",
                                         "18446744073709551616",
                                         "1e400",
                                         "-1e-400",
                                         "1e300",
                                         "nan",
                                         "0x10",
                                         "1.5",
                                         "null",
                                         "true",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"Â31m\xe2\x80\xae\xe2\x80\xac\xe2\x80\xa8\"",
                                         "%s%n",
                                         "'",
                                         "&#10;",
                                         "0xf...f",
                                         "fffffff:ff:ff.0",
                                         "NUMANode",
                                         "System",
                                         "../../etc/passwd",
                                         "GB",
                                         "99999999 GB"};
    char copy[4096];
    size_t at = 0;
    size_t length = 0;
    if (c->size == 0) { return; }
    switch (below(c, 8)) {
    case 0: c->bytes[below(c, c->size)] = (char)below(c, 256); break;
    case 1:
        at = below(c, c->size);
        length = 1 + below(c, 64);
        replace(c, at, length < c->size - at ? length : c->size - at, "", 0);
        break;
    case 2:
        if (below(c, 4) == 0) { c->size = below(c, c->size); }
        break;
    case 3:
    case 4:
    case 5: {
        const char *value = values[below(c, sizeof values / sizeof values[0])];
        length = find_word(c, &at);
        replace(c, at, length, value, strlen(value));
        break;
    }
    case 6:
        length = find_line(c, &at);
        replace(c, at, length, "", 0);
        break;
    default:
        length = find_line(c, &at);
        if (length > sizeof copy) { length = sizeof copy; }
        memcpy(copy, c->bytes + at, length);
        (void)find_line(c, &at);
        replace(c, at, 0, copy, length);
        break;
    }
}

static bool load(struct campaign *c, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) { return false; }
    c->size = fread(c->bytes, 1, LARGEST, file);
    return fclose(file) == 0;
}

static bool save(const struct campaign *c, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) { return false; }
    const bool whole = fwrite(c->bytes, 1, c->size, file) == c->size;
    return fclose(file) == 0 && whole;
}

/* The tool and its arguments, one behind the other. @return their bytes */
static size_t write_command(const struct kind *kind, const char *path, const char *written, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; kind->command[i] != NULL; i++) {
        const char *word = kind->command[i];
        word = strcmp(word, "@") == 0 ? path : strcmp(word, "%.gp") == 0 ? written : word;
        if (used + strlen(word) + 1 > size) { return 0; }
        memcpy(to + used, word, strlen(word) + 1);
        used += strlen(word) + 1;
    }
    return used;
}

static void start_tool(const struct campaign *c, char *command, size_t size, const char *output)
{
    char program[4096];
    char *arguments[SERVED_ARGUMENTS + 1] = {NULL};
    int count = 0;
    const int print_to = open(output, O_WRONLY | O_APPEND);
    for (size_t at = 0; at < size; at += strlen(command + at) + 1) { arguments[count++] = command + at; }
    (void)snprintf(program, sizeof program, "%s/%s", c->tools, arguments[0]);
    (void)dup2(print_to, STDOUT_FILENO);
    (void)dup2(print_to, STDERR_FILENO);
    (void)alarm(SERVED_WALL_S);
    (void)execv(program, arguments);
    _exit(127);
}

static void load_tool(const struct campaign *c, const char *tool, int socket)
{
    char program[4096];
    (void)snprintf(program, sizeof program, "%s/%s", c->tools, tool);
    if (dup2(socket, SERVED_SOCKET) < 0 || setenv("LD_PRELOAD", MUTANTS_SERVED, 1) != 0 ||
        setenv("LD_BIND_NOW", "1", 1) != 0) {
        _exit(127);
    }
    (void)execl(program, tool, (char *)NULL);
    _exit(127);
}

/* @return NULL if it cannot be loaded */
static const struct server *server_of(struct campaign *c, const char *tool)
{
    int ends[2];
    for (size_t i = 0; i < c->server_count; i++) {
        if (strcmp(c->servers[i].tool, tool) == 0) { return &c->servers[i]; }
    }
    if (c->server_count == MOST_TOOLS || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return NULL;
    }
    const pid_t child = fork();
    if (child == 0) { load_tool(c, tool, ends[1]); }
    (void)close(ends[1]);
    if (child < 0) { return NULL; }
    c->servers[c->server_count] = (struct server){tool, ends[0], child};
    return &c->servers[c->server_count++];
}

/* @return false if nothing could be run */
static bool run_tool(struct campaign *c, const struct kind *kind, const char *path, const char *written,
                     const char *output, struct served_answer *answer_out)
{
    char message[SERVED_MESSAGE];
    const size_t before = strlen(output) + 1;
    memcpy(message, output, before);
    const size_t size = write_command(kind, path, written, message + before, sizeof message - before);
    if (!c->apart) {
        const struct server *const server = server_of(c, kind->command[0]);
        return server != NULL && send(server->socket, message, before + size, MSG_NOSIGNAL) > 0 &&
               recv(server->socket, answer_out, sizeof *answer_out, 0) == (ssize_t)sizeof *answer_out &&
               answer_out->state != -1;
    }
    const pid_t child = fork();
    if (child == 0) { start_tool(c, message + before, size, output); }
    return child > 0 && wait4(child, &answer_out->state, 0, &answer_out->used) == child;
}

/* @return what is wrong, NULL if nothing */
static const char *judge(struct campaign *c, int state, const struct rusage *used, const char *printed)
{
    const double cpu_s = (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                         1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
    if (used->ru_maxrss > c->most_kb) { c->most_kb = used->ru_maxrss; }
    if (cpu_s > c->most_cpu_s) { c->most_cpu_s = cpu_s; }
    if (!WIFEXITED(state)) { return "ended by a signal"; }
    if (WEXITSTATUS(state) > 3) { return "an exit code beyond 3"; }
    c->codes[WEXITSTATUS(state)]++;
    if (!SANITIZED && cpu_s > CPU_S) { return "more than 2 s"; }
    if (!SANITIZED && used->ru_maxrss > MOST_MB * 1024L) { return "more than 300 MB"; }
    if (WEXITSTATUS(state) >= 2 && strstr(printed, ": ") == NULL) { return "no reason for its exit code"; }
    for (const char *at = printed; *at != '\0'; at += redco_text_length(at) > 0 ? redco_text_length(at) : 1) {
        if (*at != '\n' && *at != '\t' && !redco_text_is_safe(at)) { return "printed what a terminal obeys"; }
    }
    return NULL;
}

static void one_run(struct campaign *c, const char *scratch)
{
    static char printed[PRINTED + 1];
    const struct seed_file *file = &c->files[below(c, c->file_count)];
    const char *ending = strrchr(file->path, '.');
    char path[4096];
    char output[4096];
    char written[4096];
    struct served_answer answer = {.state = -1};
    (void)snprintf(path, sizeof path, "%s/mutant%s", scratch,
                   ending != NULL && strchr(ending, '/') == NULL ? ending : "");
    (void)snprintf(output, sizeof output, "%s/printed", scratch);
    (void)snprintf(written, sizeof written, "%s/written.gp", scratch);
    if (!load(c, file->path)) { return; }
    for (size_t places = 1 + below(c, 4) * below(c, 2); places > 0; places--) { damage(c); }
    if (!save(c, path)) { return; }
    const int print_to = open(output, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!run_tool(c, file->kind, path, written, output, &answer)) {
        (void)fprintf(stderr, "mutants: %s/%s cannot be run\n", c->tools, file->kind->command[0]);
        exit(3);
    }
    const ssize_t size = pread(print_to, printed, PRINTED, 0);
    printed[size > 0 ? size : 0] = '\0';
    /* a character that the buffer cuts is not the tool's fault */
    char *last_line = size == PRINTED ? strrchr(printed, '\n') : NULL;
    if (last_line != NULL) { *last_line = '\0'; }
    (void)close(print_to);
    c->runs++;
    const char *wrong = judge(c, answer.state, &answer.used, printed);
    if (wrong != NULL) {
        char kept[4096];
        (void)snprintf(kept, sizeof kept, "%s/%s-%lu%s", c->folder, file->kind->name, c->broken++,
                       ending != NULL ? ending : "");
        (void)save(c, kept);
        (void)printf("%s: %s (of %s)\n", kept, wrong, file->path);
    }
    (void)unlink(path);
    (void)unlink(output);
    (void)unlink(written);
}

static void add(struct campaign *c, const struct kind *kind, const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        if (c->file_count < MOST_FILES) { c->files[c->file_count++] = (struct seed_file){kind, strdup(path)}; }
        return;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char inside[4096];
        struct stat info;
        (void)snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (stat(inside, &info) == 0 && S_ISREG(info.st_mode) && info.st_size < LARGEST) { add(c, kind, inside); }
    }
    (void)closedir(folder);
}

static int by_path(const void *a, const void *b)
{
    const struct seed_file *left = a;
    const struct seed_file *right = b;
    const int order = strcmp(left->path, right->path);
    return order != 0 ? order : (left->kind > right->kind) - (left->kind < right->kind);
}

int main(int argc, char **argv)
{
    static struct campaign c = {.folder = ".", .apart = SANITIZED, .state = 20261123};
    struct timespec began, ended;
    const struct kind *kind = NULL;
    unsigned long runs = 200;
    char scratch[] = "/tmp/redco-mutants-XXXXXX";
    for (int option = 0; (option = getopt(argc, argv, "n:s:o:x")) != -1;) {
        if (option == 'n') { runs = strtoul(optarg, NULL, 10); }
        if (option == 's') { c.state = strtoull(optarg, NULL, 10) * 2654435769u + 1; }
        if (option == 'o') { c.folder = optarg; }
        if (option == 'x') { c.apart = true; }
    }
    c.tools = optind < argc ? argv[optind] : ".";
    c.bytes = malloc(LARGEST + 1);
    for (int i = optind + 1; i < argc; i++) {
        bool is_kind = false;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            if (strcmp(kinds[k].name, argv[i]) != 0) { continue; }
            kind = &kinds[k];
            is_kind = true;
        }
        if (!is_kind && kind != NULL) { add(&c, kind, argv[i]); }
    }
    if (c.file_count == 0 || c.bytes == NULL || mkdtemp(scratch) == NULL) {
        (void)fprintf(stderr, "mutants: no files, or no scratch folder\n");
        return 2;
    }
    qsort(c.files, c.file_count, sizeof *c.files, by_path);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    while (c.runs < runs) { one_run(&c, scratch); }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    for (size_t i = 0; i < c.server_count; i++) {
        (void)close(c.servers[i].socket);
        (void)waitpid(c.servers[i].process, NULL, 0);
    }
    (void)rmdir(scratch);
    (void)fprintf(stderr, "%.0f runs a second\n",
                  (double)c.runs /
                      ((double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec)));
    (void)printf("%lu runs on %zu files: exit 0 %lu, 1 %lu, 2 %lu, 3 %lu; at most %.2f s and %ld MB; %lu wrong\n",
                 c.runs, c.file_count, c.codes[0], c.codes[1], c.codes[2], c.codes[3], c.most_cpu_s, c.most_kb / 1024,
                 c.broken);
    return c.broken > 0 ? 1 : 0;
}
