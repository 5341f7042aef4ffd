/* bench TOOLS [OLD TOOLS]: wall time, processor time and peak memory of whole redco-plan processes, start to exit,
 * output thrown away. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGS = 12, MAX_RUNS = 31 };

struct run {
    double seconds;
    double used_s; /* processor time, in user and system mode */
    long peak_kib;
};

struct summary {
    double median_s, best_s, worst_s;
    long peak_kib;
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double used_s(const struct timeval *time)
{
    return (double)time->tv_sec + 1e-6 * (double)time->tv_usec;
}

/** One process. @return whether it ended with exit code 0 */
static int run_once(char *const argv[], struct run *run)
{
    int status = 0;
    struct rusage usage;
    const double start = now_s();
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null < 0 || dup2(null, STDOUT_FILENO) < 0) { _exit(127); }
        (void)execv(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) { return 0; }
    run->seconds = now_s() - start;
    run->used_s = used_s(&usage.ru_utime) + used_s(&usage.ru_stime);
    run->peak_kib = usage.ru_maxrss;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int faster(const void *a, const void *b)
{
    const double left = ((const struct run *)a)->seconds;
    const double right = ((const struct run *)b)->seconds;
    return (left > right) - (left < right);
}

/** One process. @param arguments  separated by single blanks. @return whether it succeeded */
static int run_tool(const char *tool, const char *arguments, struct run *run)
{
    char words[256];
    char program[4096];
    char *argv[MAX_ARGS + 1] = {program};
    char *rest = words;
    int argc = 1;
    (void)snprintf(program, sizeof program, "%s", tool);
    (void)snprintf(words, sizeof words, "%s", arguments);
    for (char *word = strtok_r(words, " ", &rest); word != NULL && argc < MAX_ARGS; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    if (run_once(argv, run)) { return 1; }
    (void)fprintf(stderr, "bench: %s %s failed\n", tool, arguments);
    return 0;
}

/** @return whether all runs succeeded */
static int measure(const char *tool, const char *arguments, int runs, struct summary *out)
{
    struct run all[MAX_RUNS];
    out->peak_kib = 0;
    for (int i = 0; i < runs; i++) {
        if (!run_tool(tool, arguments, &all[i])) { return 0; }
        if (all[i].peak_kib > out->peak_kib) { out->peak_kib = all[i].peak_kib; }
    }
    qsort(all, (size_t)runs, sizeof all[0], faster);
    out->median_s = all[runs / 2].seconds;
    out->best_s = all[0].seconds;
    out->worst_s = all[runs - 1].seconds;
    return 1;
}

static int row(const char *tool, const char *arguments, int runs)
{
    struct summary s;
    if (!measure(tool, arguments, runs, &s)) { return 0; }
    (void)printf("%-50s %4d %10.1f %10.1f %10.1f %9.1f\n", arguments, runs, 1e3 * s.median_s, 1e3 * s.best_s,
                 1e3 * s.worst_s, (double)s.peak_kib * 1024e-6);
    (void)fflush(stdout);
    return 1;
}

/** Processor time, which neighbours on a machine disturb least: the least of many runs, those of old tools in turn with
 *  the others. @param old  NULL: there are none */
static int used_row(const char *tool, const char *old, const char *arguments)
{
    double least_s = 1e9, old_s = 1e9;
    struct run run;
    for (int i = 0; i < MAX_RUNS; i++) {
        if (!run_tool(tool, arguments, &run)) { return 0; }
        least_s = run.used_s < least_s ? run.used_s : least_s;
        if (old == NULL) { continue; }
        if (!run_tool(old, arguments, &run)) { return 0; }
        old_s = run.used_s < old_s ? run.used_s : old_s;
    }
    (void)printf("%-56s %4d %10.1f", arguments, MAX_RUNS, 1e3 * least_s);
    if (old != NULL) { (void)printf(" %10.1f %10.3f", 1e3 * old_s, least_s / old_s); }
    (void)printf("\n");
    (void)fflush(stdout);
    return 1;
}

static void print_machine(void)
{
    char line[512];
    char name[512] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "model name : %511[^\n]", name) == 1) { break; }
    }
    if (file != NULL) { (void)fclose(file); }
    (void)printf("%s, %ld processors\n", name, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *arguments;
        int runs;
    } rows[] = {
        {"--gpus 1024", 31},
        {"--gpus 1024 --layerwise", 9},
        {"--gpus 131072 --global-batch 131072", 9},
    };
    static const char *const used[] = {"--gpus 1024", "--gpus 1024 --model llama-65b",
                                       "--gpus 16384 --model llama-3.1-405b --cluster dgx-h100"};
    char tool[4096], old[4096];
    int good = 1;
    (void)snprintf(tool, sizeof tool, "%s/redco-plan", argc > 1 ? argv[1] : ".");
    (void)snprintf(old, sizeof old, "%s/redco-plan", argc > 2 ? argv[2] : "");
    print_machine();
    (void)printf("%-50s %4s %10s %10s %10s %9s\n", "redco-plan", "runs", "median ms", "best ms", "worst ms", "peak MB");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        good = row(tool, rows[i].arguments, rows[i].runs) && good;
    }
    (void)printf("growth, one sequence a GPU and at least 1024\n");
    for (uint64_t gpus = 8; gpus <= 131072; gpus *= 4) {
        char arguments[128];
        const uint64_t batch = gpus < 1024 ? 1024 : gpus;
        (void)snprintf(arguments, sizeof arguments, "--gpus %llu --global-batch %llu", (unsigned long long)gpus,
                       (unsigned long long)batch);
        good = row(tool, arguments, 9) && good;
    }
    (void)printf("%-56s %4s %10s%s\n", "processor time, user and system", "runs", "least ms",
                 argc > 2 ? "     old ms      ratio" : "");
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        good = used_row(tool, argc > 2 ? old : NULL, used[i]) && good;
    }
    return good ? 0 : 1;
}
