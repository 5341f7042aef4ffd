/* A pipeline to begin with: a line through points, in one folder that builds, trains and tests itself. */
#include "tools/exec/exec_pipeline.h"

#include "topology/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
static const char source[] =
"/* %s: a pipeline for redco. Examples are JSON lines {\"x\": 1.0, \"y\": 2.0}; it learns y = weight x + bias.\n"
" * executor/pipeline/user_pipeline.h says what the functions are for. */\n"
"#include \"executor/pipeline/user_pipeline.h\"\n"
"\n"
"static void describe(redco_user_pipeline_shape *shape)\n"
"{\n"
"    const redco_initial small = {REDCO_INITIAL_NORMAL, 0.1}, zero = {REDCO_INITIAL_ZERO, 0.0};\n"
"    redco_user_pipeline_parameter(shape, \"line.weight\", 2, (const uint64_t[]){1, 1}, small);\n"
"    redco_user_pipeline_parameter(shape, \"line.bias\", 1, (const uint64_t[]){1}, zero);\n"
"    redco_user_pipeline_input(shape, \"x\", REDCO_F32, 1, (const uint64_t[]){1}); /* shape of one example */\n"
"    redco_user_pipeline_input(shape, \"y\", REDCO_F32, 1, (const uint64_t[]){1});\n"
"    redco_user_pipeline_target(shape, \"y\"); /* an example to predict need not have it */\n"
"}\n"
"\n"
"static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)\n"
"{\n"
"    float *const x = data[0], *const y = data[1];\n"
"    for (uint32_t i = 0; i < count; i++) {\n"
"        const json_t *const of_x = json_object_get(examples[i], \"x\"), *const of_y = json_object_get(examples[i], \"y\");\n"
"        if (!json_is_number(of_x)) { return redco_fail(err, REDCO_EVALUE, \"x\", \"is no number\"); }\n"
"        x[i] = (float)json_number_value(of_x);\n"
"        if (of_y != NULL && !json_is_number(of_y)) { return redco_fail(err, REDCO_EVALUE, \"y\", \"is no number\"); }\n"
"        y[i] = (float)json_number_value(of_y); /* 0 of an example to predict */\n"
"    }\n"
"    return REDCO_OK;\n"
"}\n"
"\n"
"static redco_value line(redco_scope *scope)\n"
"{\n"
"    redco_graph *const g = scope->graph;\n"
"    const redco_value x = redco_scope_weight(scope, \"x\"), weight = redco_scope_weight(scope, \"line.weight\");\n"
"    return redco_add(g, redco_matmul(g, x, weight, false, false), redco_scope_weight(scope, \"line.bias\"));\n"
"}\n"
"\n"
"static redco_value loss(redco_scope *scope, const void *context)\n"
"{\n"
"    redco_graph *const g = scope->graph;\n"
"    (void)context;\n"
"    const redco_value error = redco_sub(g, line(scope), redco_scope_weight(scope, \"y\"));\n"
"    return redco_cast(g, redco_mean_all(g, redco_mul(g, error, error)), redco_dtype_statistic(scope->compute));\n"
"}\n"
"\n"
"const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,\n"
"                                                       .name = \"%s\",\n"
"                                                       .describe = describe,\n"
"                                                       .collate = collate,\n"
"                                                       .loss = loss,\n"
"                                                       .predict = line,\n"
"                                                       .options = \"--learning-rate 0.05 --weight-decay 0\"};\n";

static const char cmake[] =
"cmake_minimum_required(VERSION 3.20)\n"
"project(%s C)\n"
"# redco's headers: those of the redco-exec that wrote this, or of another one with -DREDCO_INCLUDE=PATH.\n"
"find_path(REDCO_INCLUDE executor/pipeline/user_pipeline.h HINTS \"%i\" PATH_SUFFIXES redco)\n"
"if(NOT REDCO_INCLUDE)\n"
"  message(FATAL_ERROR \"redco's headers are not found: say where its checkout is with -DREDCO_INCLUDE=PATH\")\n"
"endif()\n"
"set(CMAKE_C_STANDARD 11)\n"
"add_library(%s MODULE %s.c)\n"
"target_compile_options(%s PRIVATE -Wall -g)\n"
"target_include_directories(%s PRIVATE ${REDCO_INCLUDE})\n"
"set_target_properties(%s PROPERTIES PREFIX \"\")\n"
"enable_testing()\n"
"add_test(NAME learns COMMAND ${CMAKE_SOURCE_DIR}/test.sh $<TARGET_FILE:%s>)\n"
"set_tests_properties(learns PROPERTIES ENVIRONMENT \"PATH=%b:$ENV{PATH}\")\n";

static const char test[] =
"#!/bin/sh\n"
"# test.sh %s.so: plans the pipeline for two ranks, trains it and looks at what it has learned: y = 2 x + 1.\n"
"set -e\n"
"cd \"$(dirname \"$0\")\"\n"
"plan=$(mktemp)\n"
"trap 'rm -f \"$plan\"' EXIT\n"
"redco-plan --quiet --pipeline \"$1\" --gpus 2 --global-batch 6 --micro-batch 3 --precision fp32 -o \"$plan\" >/dev/null\n"
"redco-exec \"$plan\" --pipeline \"$1\" --data train.jsonl --steps 300 --evaluate train.jsonl |\n"
"    tail -n 1 | grep -E 'loss 0\\.0[0-9]+'\n";

static const char data[] =
"{\"x\": 0.0, \"y\": 1.0}\n"
"{\"x\": 1.0, \"y\": 3.0}\n"
"{\"x\": -1.0, \"y\": -1.0}\n";
/* clang-format on */

/* A C file, a CMake target and a folder have it. */
static bool good_name(const char *name)
{
    if (!isalpha((unsigned char)name[0]) || strlen(name) > 60) { return false; }
    for (const char *c = name; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && *c != '_') { return false; }
    }
    return true;
}

/* Texts that %s, %i and %b stand for. */
struct own {
    const char *name;
    char include[PATH_MAX], programs[PATH_MAX]; /* folders of this redco's headers and programs; "" */
};

/* Where this program is installed or built, whatever the prefix. Folders that CMake would read otherwise are left out.
 */
static void find_own(struct own *own)
{
    static const char *const places[] = {"/include/redco", "/include", ""};
    char at[PATH_MAX], file[PATH_MAX + 64];
    const ssize_t length = readlink("/proc/self/exe", at, sizeof at - 1);
    own->include[0] = own->programs[0] = '\0';
    if (length <= 0) { return; }
    at[length] = '\0';
    if (strpbrk(at, "\"\\$;%") != NULL) { return; }
    for (char *slash = strrchr(at, '/'); slash != NULL && own->include[0] == '\0'; slash = strrchr(at, '/')) {
        *slash = '\0';
        if (own->programs[0] == '\0') { (void)snprintf(own->programs, sizeof own->programs, "%s", at); }
        for (size_t i = 0; i < sizeof places / sizeof places[0] && own->include[0] == '\0'; i++) {
            (void)snprintf(file, sizeof file, "%s%s/executor/pipeline/user_pipeline.h", at, places[i]);
            if (access(file, R_OK) != 0) { continue; }
            (void)snprintf(own->include, sizeof own->include, "%.4000s%s", at, places[i]);
        }
    }
}

/* Replaces %s by the name, %i and %b by this redco's folders. */
static bool write_with(FILE *file, const char *text, const struct own *own)
{
    bool good = true;
    for (const char *at = text; *at != '\0' && good; at++) {
        const char *const word = at[0] != '%'   ? NULL
                                 : at[1] == 's' ? own->name
                                 : at[1] == 'i' ? own->include
                                 : at[1] == 'b' ? own->programs
                                                : NULL;
        good = word != NULL ? fputs(word, file) != EOF : fputc(*at, file) != EOF;
        at += word != NULL ? 1 : 0;
    }
    return good;
}

static redco_status write_file(const struct own *own, const char *file_name, const char *text, bool runs,
                               redco_error *err)
{
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", own->name, file_name);
    FILE *const file = fopen(path, "wxe");
    bool good = file != NULL && write_with(file, text, own);
    if (good && runs) { good = fchmod(fileno(file), 0755) == 0; }
    if (file != NULL && fclose(file) != 0) { good = false; }
    return good ? REDCO_OK : redco_fail(err, REDCO_ESYSTEM, path, "cannot write: %s", strerror(errno));
}

int exec_new_pipeline(const struct cli *cli, const char *name)
{
    redco_error err = {.status = REDCO_OK};
    char file_name[80];
    struct own own = {.name = name};
    if (!good_name(name)) {
        (void)redco_fail(&err, REDCO_EVALUE, "--new-pipeline",
                         "\"%.60s\" is no name of up to 60 letters, digits and underscores that begins with a letter",
                         name);
        return cli_fail(cli, &err);
    }
    if (mkdir(name, 0777) != 0) {
        (void)redco_fail(&err, errno == EEXIST ? REDCO_EVALUE : REDCO_ESYSTEM, name, "cannot make the folder: %s",
                         strerror(errno));
        return cli_fail(cli, &err);
    }
    find_own(&own);
    (void)snprintf(file_name, sizeof file_name, "%s.c", name);
    redco_status st = write_file(&own, file_name, source, false, &err);
    if (st == REDCO_OK) { st = write_file(&own, "CMakeLists.txt", cmake, false, &err); }
    if (st == REDCO_OK) { st = write_file(&own, "test.sh", test, true, &err); }
    if (st == REDCO_OK) { st = write_file(&own, "train.jsonl", data, false, &err); }
    if (st != REDCO_OK) { return cli_fail(cli, &err); }
    if (!cli->quiet) {
        (void)printf("wrote %s/%s.c, CMakeLists.txt, test.sh and train.jsonl; now\n"
                     "    cmake -S %s -B %s/build && cmake --build %s/build && ctest --test-dir %s/build\n",
                     name, name, name, name, name, name);
    }
    return CLI_DONE;
}
