#include "tools/launch/cuda_folders.h"

#include "executor/backend/cuda/cuda.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FOLDERS = 64 };

struct list {
    const char **folders;
    size_t count;
    bool failed;
};

static void add(struct list *list, const char *folder)
{
    if (folder[0] == '\0' || list->count == MOST_FOLDERS) { return; }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->folders[i], folder) == 0) { return; }
    }
    char *const copy = strdup(folder);
    if (copy == NULL) {
        list->failed = true;
        return;
    }
    list->folders[list->count++] = copy;
}

/* Names with a * in them: newest version last, as names sort; versions are compared later. */
__attribute__((format(printf, 2, 3))) static void add_all(struct list *list, const char *format, ...)
{
    char pattern[PATH_MAX];
    glob_t found = {.gl_pathc = 0};
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(pattern, sizeof pattern, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof pattern) { return; }
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) { add(list, found.gl_pathv[i]); }
    }
    globfree(&found);
}

static void add_given(struct list *list, const char *text)
{
    while (*text != '\0') {
        char folder[PATH_MAX];
        const size_t length = strcspn(text, ":");
        if (length < sizeof folder) {
            memcpy(folder, text, length);
            folder[length] = '\0';
            add(list, folder);
        }
        text += length + (text[length] == ':');
    }
}

/* Folders of an installation of Python, as its bin/python3 says. */
static void add_python(struct list *list, const char *prefix)
{
    if (prefix == NULL || prefix[0] == '\0') { return; }
    add_all(list, "%s/lib*/python3*/site-packages/nvidia/*/lib", prefix);
    add_all(list, "%s/lib/python3*/dist-packages/nvidia/*/lib", prefix);
}

/* A virtual environment is named by the link, an installation by what it leads to. */
static void add_python_on_path(struct list *list)
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        char program[PATH_MAX];
        const size_t length = strcspn(at, ":");
        const int size = snprintf(program, sizeof program, "%.*s/python3", (int)length, at);
        at += length + (at[length] == ':');
        if (size < 0 || (size_t)size >= sizeof program || access(program, X_OK) != 0) { continue; }
        char *const real = realpath(program, NULL);
        char *const names[] = {program, real};
        for (int i = 0; i < 2; i++) {
            if (names[i] == NULL) { continue; }
            for (int up = 0; up < 2; up++) { /* python3, bin */
                char *const slash = strrchr(names[i], '/');
                if (slash != NULL) { *slash = '\0'; }
            }
            add_python(list, names[i]);
        }
        free(real);
        return;
    }
}

const char **cuda_folders(void)
{
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH"};
    struct list list = {.folders = calloc(MOST_FOLDERS + 1, sizeof *list.folders)};
    const char *const given = getenv("REDCO_CUDA_FOLDERS"), *const user = getenv("HOME");
    if (list.folders == NULL) { return NULL; }
    if (given != NULL) {
        add_given(&list, given);
    } else {
        for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
            const char *const home = getenv(homes[i]);
            if (home != NULL && home[0] != '\0') { add_all(&list, "%s/lib64", home); }
        }
        add_all(&list, "/usr/local/cuda/lib64");
        add_all(&list, "/usr/local/cuda-1[3-9]*/lib64");
        add_python(&list, getenv("VIRTUAL_ENV"));
        add_python(&list, getenv("CONDA_PREFIX"));
        add_python_on_path(&list);
        add_python(&list, "/usr/local");
        add_python(&list, "/usr");
        if (user != NULL && user[0] != '\0') {
            add_all(&list, "%s/.local/lib/python3*/site-packages/nvidia/*/lib", user);
        }
    }
    if (!list.failed) { return list.folders; }
    cuda_folders_free(list.folders);
    return NULL;
}

void cuda_folders_free(const char **folders)
{
    for (size_t i = 0; folders != NULL && folders[i] != NULL; i++) { free((void *)(uintptr_t)folders[i]); }
    free((void *)folders);
}

/* Of cuDNN the newest is used, of the others the loader's before that. */
int cuda_folders_print(const struct cli *cli)
{
    redco_cuda_library found[REDCO_CUDA_CANDIDATES];
    const char **const folders = cuda_folders();
    json_t *const all = json_array();
    for (int kind = 0; kind < REDCO_CUDA_LIBRARIES; kind++) {
        const uint32_t count = redco_cuda_find_libraries((redco_cuda_library_kind)kind, folders, found);
        uint32_t used = 0;
        for (uint32_t i = 0; i < count && kind != REDCO_CUDA_LIBRARY_DNN; i++) {
            if (found[i].loader) { used = i; }
        }
        for (uint32_t i = 0; i < count; i++) {
            const redco_cuda_library *const one = &found[i == 0 ? used : i == used ? 0 : i];
            const char *const slash = strrchr(one->path, '/');
            char version[32];
            (void)snprintf(version, sizeof version, "%u.%u.%u", one->version / 10000, one->version / 100 % 100,
                           one->version % 100);
            (void)json_array_append_new(all,
                                        json_pack("{s:s, s:s, s:s, s:b, s:b}", "name",
                                                  redco_cuda_library_name((redco_cuda_library_kind)kind), "version",
                                                  version, "path", one->path, "used", i == 0, "loader", one->loader));
            if (cli->json) { continue; }
            (void)printf("%s\t%s\t%.*s\t%s\n", redco_cuda_library_name((redco_cuda_library_kind)kind), version,
                         slash == NULL ? 0 : (int)(slash - one->path), one->path,
                         i > 0         ? "not used"
                         : one->loader ? "used, the loader's"
                                       : "used");
        }
    }
    const int code = cli->json ? cli_print_json(cli, all) : cli_finish(cli, CLI_DONE);
    json_decref(all);
    cuda_folders_free(folders);
    return code;
}
