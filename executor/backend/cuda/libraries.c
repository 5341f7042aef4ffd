/* Where CUDA's libraries are installed, and which version there. */
#include "executor/backend/cuda/cuda_internal.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Versions are numbers like 91900 for 9.19.0 in all three. */
static const struct {
    const char *soname, *version_call;
    enum { RETURNS_SIZE, WRITES_INT } form;
} kinds[REDCO_CUDA_LIBRARIES] = {
    [REDCO_CUDA_LIBRARY_BLAS] = {"libcublasLt.so.13", "cublasLtGetVersion", RETURNS_SIZE},
    [REDCO_CUDA_LIBRARY_DNN] = {"libcudnn.so.9", "cudnnGetVersion", RETURNS_SIZE},
    [REDCO_CUDA_LIBRARY_NCCL] = {"libnccl.so.2", "ncclGetVersion", WRITES_INT},
};

const char *redco_cuda_library_name(redco_cuda_library_kind kind)
{
    return kinds[kind].soname;
}

static uint32_t version_of(void *library, redco_cuda_library_kind kind)
{
    void *const address = dlsym(library, kinds[kind].version_call);
    size_t (*returns)(void) = NULL;
    int (*writes)(int *) = NULL;
    int version = 0;
    if (address == NULL) { return 0; }
    if (kinds[kind].form == RETURNS_SIZE) {
        memcpy(&returns, &address, sizeof address); /* ISO C has no cast from data to code */
        return (uint32_t)returns();
    }
    memcpy(&writes, &address, sizeof address);
    return writes(&version) == 0 ? (uint32_t)version : 0;
}

/* cuDNN says which CUDA it was built for: wheels of several have the same soname. */
static bool fits(void *library, redco_cuda_library_kind kind)
{
    void *const address = kind == REDCO_CUDA_LIBRARY_DNN ? dlsym(library, "cudnnGetCudartVersion") : NULL;
    size_t (*returns)(void) = NULL;
    if (address == NULL) { return true; }
    memcpy(&returns, &address, sizeof address);
    return returns() / 1000 == CUDA_VERSION / 1000;
}

static void look_at(redco_cuda_library_kind kind, redco_cuda_library *found)
{
    struct link_map *map = NULL;
    void *const library = dlopen(found->path, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) { return; }
    found->version = fits(library, kind) ? version_of(library, kind) : 0;
    if (dlinfo(library, RTLD_DI_LINKMAP, (void *)&map) == 0 && map != NULL && map->l_name[0] == '/') {
        (void)snprintf(found->path, sizeof found->path, "%s", map->l_name);
    }
}

/* A library that was loaded once stays, and the parts that it loads would be taken for those of another version: so
 * versions are asked for in another process. */
struct question {
    redco_cuda_library_kind kind;
    int answers;
    pid_t pid;
};

static void ask(struct question *q, const redco_cuda_library *candidate)
{
    int ends[2] = {-1, -1};
    q->pid = -1;
    q->answers = -1;
    if (pipe(ends) != 0) { return; }
    q->pid = fork();
    if (q->pid == 0) {
        redco_cuda_library found = *candidate;
        (void)close(ends[0]);
        look_at(q->kind, &found);
        _exit(write(ends[1], &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
    }
    (void)close(ends[1]);
    q->answers = ends[0];
}

static void hear(const struct question *q, redco_cuda_library *candidate)
{
    redco_cuda_library found;
    size_t got = 0;
    while (q->answers >= 0 && got < sizeof found) {
        const ssize_t more = read(q->answers, (char *)&found + got, sizeof found - got);
        if (more <= 0) { break; }
        got += (size_t)more;
    }
    if (q->answers >= 0) { (void)close(q->answers); }
    if (q->pid > 0) { (void)waitpid(q->pid, NULL, 0); }
    if (got == sizeof found) { *candidate = found; }
}

static bool is_listed(const redco_cuda_library *list, uint32_t count, const char *path)
{
    char real[REDCO_CUDA_PATH_BYTES], listed[REDCO_CUDA_PATH_BYTES];
    (void)snprintf(real, sizeof real, "%s", path);
    char *const own = realpath(path, NULL);
    if (own != NULL) { (void)snprintf(real, sizeof real, "%s", own); }
    free(own);
    for (uint32_t i = 0; i < count; i++) {
        char *const its = realpath(list[i].path, NULL);
        (void)snprintf(listed, sizeof listed, "%s", its != NULL ? its : list[i].path);
        free(its);
        if (strcmp(real, listed) == 0) { return true; }
    }
    return false;
}

/* Newest first, of equal ones the first: the loader's, then in the order of folders. */
static void sort(redco_cuda_library *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const redco_cuda_library one = list[i];
        uint32_t at = i;
        for (; at > 0 && list[at - 1].version < one.version; at--) { list[at] = list[at - 1]; }
        list[at] = one;
    }
}

uint32_t redco_cuda_find_libraries(redco_cuda_library_kind kind, const char *const *folders,
                                   redco_cuda_library out[REDCO_CUDA_CANDIDATES])
{
    struct question questions[REDCO_CUDA_CANDIDATES];
    uint32_t count = 1, known = 0;
    out[0] = (redco_cuda_library){.loader = true};
    (void)snprintf(out[0].path, sizeof out[0].path, "%s", kinds[kind].soname);
    for (size_t i = 0; folders != NULL && folders[i] != NULL && count < REDCO_CUDA_CANDIDATES; i++) {
        redco_cuda_library one = {.loader = false};
        const int length = snprintf(one.path, sizeof one.path, "%s/%s", folders[i], kinds[kind].soname);
        if (length < 0 || (size_t)length >= sizeof one.path || access(one.path, R_OK) != 0) { continue; }
        if (!is_listed(out + 1, count - 1, one.path)) { out[count++] = one; }
    }
    for (uint32_t i = 0; i < count; i++) {
        questions[i].kind = kind;
        ask(&questions[i], &out[i]);
    }
    for (uint32_t i = 0; i < count; i++) { hear(&questions[i], &out[i]); }
    for (uint32_t i = 0; i < count; i++) { /* one that cannot be loaded, or that the loader finds as well */
        if (out[i].version == 0 || is_listed(out, known, out[i].path)) { continue; }
        out[known++] = out[i];
    }
    sort(out, known);
    return known;
}

/* The libraries that cuDNN loads by name must be of its own folder, wherever the loader would look. */
static void load_parts(const char *path)
{
    static const char *const parts[] = {"graph", "ops", "heuristic", "engines_precompiled", "engines_runtime_compiled"};
    char part[REDCO_CUDA_PATH_BYTES + 64];
    const char *const slash = strrchr(path, '/');
    if (slash == NULL) { return; }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        (void)snprintf(part, sizeof part, "%.*s/libcudnn_%s.so.9", (int)(slash - path), path, parts[i]);
        if (access(part, R_OK) == 0) { (void)dlopen(part, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); }
    }
}

redco_status redcoi_library_open_kind(const redcoi_device *device, redco_cuda_library_kind kind,
                                      const redcoi_symbol *symbols, size_t count, void **library_out, redco_error *err)
{
    const char *const path = device != NULL ? device->libraries[kind] : "";
    if (kind == REDCO_CUDA_LIBRARY_DNN && path[0] != '\0') {
        load_parts(path);
        return redcoi_library_open(path, symbols, count, library_out, err);
    }
    redco_error missing = {.status = REDCO_OK};
    const redco_status st = redcoi_library_open(kinds[kind].soname, symbols, count, library_out, &missing);
    if (st == REDCO_OK || path[0] == '\0') {
        return st == REDCO_OK ? st : redco_fail(err, st, missing.place, "%s", missing.text);
    }
    return redcoi_library_open(path, symbols, count, library_out, err);
}

void redcoi_library_path(void *library, char path[REDCO_CUDA_PATH_BYTES])
{
    struct link_map *map = NULL;
    path[0] = '\0';
    if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, (void *)&map) != 0 || map == NULL) { return; }
    (void)snprintf(path, REDCO_CUDA_PATH_BYTES, "%s", map->l_name);
}

void redcoi_libraries_choose(redcoi_device *device, const char *const *folders)
{
    redco_cuda_library found[REDCO_CUDA_CANDIDATES];
    for (int kind = 0; kind < REDCO_CUDA_LIBRARIES; kind++) {
        char *const path = device->libraries[kind];
        if (kind == REDCO_CUDA_LIBRARY_DNN) { continue; }
        for (size_t i = 0; folders != NULL && folders[i] != NULL && path[0] == '\0'; i++) {
            const int length = snprintf(path, REDCO_CUDA_PATH_BYTES, "%s/%s", folders[i], kinds[kind].soname);
            if (length >= REDCO_CUDA_PATH_BYTES || access(path, R_OK) != 0) { path[0] = '\0'; }
        }
    }
    if (folders == NULL || folders[0] == NULL || device->options.own_attention) { return; }
    const uint32_t count = redco_cuda_find_libraries(REDCO_CUDA_LIBRARY_DNN, folders, found);
    if (count == 0 || found[0].loader) { return; }
    (void)snprintf(device->libraries[REDCO_CUDA_LIBRARY_DNN], REDCO_CUDA_PATH_BYTES, "%s", found[0].path);
}
