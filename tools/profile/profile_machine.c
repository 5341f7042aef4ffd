/* Facts about the machine that a profile was measured on. Linux. */
#include "tools/profile/profile_tool.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The first line "KEY : value" of /proc/cpuinfo; left alone where there is none. */
static void cpu_line(const char *key, char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL) { return; }
    while (fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || colon == NULL) { continue; }
        for (colon++; *colon == ' '; colon++) {}
        colon[strcspn(colon, "\n")] = '\0';
        (void)snprintf(out, size, "%.*s", (int)(size - 1), colon);
        break;
    }
    (void)fclose(file);
}

/* A name for the device: of plain characters, each blank once. */
static void name_device(const char *cpu, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "host");
    bool blank = true;
    for (; *cpu != '\0' && used + 2 < size; cpu++) {
        if (!isalnum((unsigned char)*cpu) && strchr("-._@", *cpu) == NULL) {
            blank = true;
            continue;
        }
        if (blank) { out[used++] = ' '; }
        blank = false;
        out[used++] = *cpu;
    }
    out[used] = '\0';
}

void profile_machine(redco_profile_measured *how)
{
    struct utsname system;
    struct tm utc;
    char clock[64] = "";
    const time_t now = time(NULL);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&system) == 0) {
        (void)snprintf(how->system, sizeof how->system, "%.20s %.40s %.20s", system.sysname, system.release,
                       system.machine);
        (void)snprintf(how->cpu, sizeof how->cpu, "%.40s", system.machine);
    }
    cpu_line("model name", how->cpu, sizeof how->cpu);
    cpu_line("cpu MHz", clock, sizeof clock);
    how->clock_hz = strtod(clock, NULL) * 1e6;
    how->processors = processors > 0 ? (uint32_t)processors : 1;
    if (getloadavg(&how->load, 1) != 1) { how->load = 0.0; }
    if (gmtime_r(&now, &utc) != NULL) { (void)strftime(how->date, sizeof how->date, "%Y-%m-%dT%H:%M:%SZ", &utc); }
    name_device(how->cpu, how->device, sizeof how->device);
}

bool profile_slow_kernels(const redco_profile_measured *how)
{
#if defined(__x86_64__) || defined(__i386__)
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (strstr(how->kernels, wide[i]) != NULL) { return false; }
    }
    return strcmp(how->backend, "host") == 0 && __builtin_cpu_supports("avx512f") != 0;
#else
    (void)how;
    return false;
#endif
}

uint64_t profile_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    char text[64] = "";
    FILE *limit = fopen("/sys/fs/cgroup/memory.max", "re"); /* limit of a container */
    if (limit != NULL) {
        const char *const got = fgets(text, sizeof text, limit);
        const unsigned long long most = got != NULL ? strtoull(text, NULL, 10) : 0;
        if (most > 0 && most < bytes) { bytes = most; }
        (void)fclose(limit);
    }
    return bytes;
}
