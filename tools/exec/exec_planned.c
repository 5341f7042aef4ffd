#include "tools/exec/exec_planned.h"

#include "tools/cli/beside.h"

#include <stdio.h>

int exec_planned(const struct exec_args *args, redco_plan **plan_out)
{
    const char *words[EXEC_WORDS_MAX + 16] = {"redco-plan", "--quiet", "--run-here"};
    char path[BESIDE_PATH_BYTES], ranks[24];
    size_t count = 3;
    struct beside beside = {.folder = ""};
    redco_error err = {.status = REDCO_OK};
    if (beside_open(&beside, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
    (void)snprintf(ranks, sizeof ranks, "%llu", (unsigned long long)args->ranks);
    words[count++] = args->model != NULL ? "--model" : "--pipeline";
    words[count++] = args->model != NULL ? args->model : args->pipeline_path;
    if (args->path != NULL) { words[count++] = args->path; }
    for (uint32_t i = 0; i < args->word_count; i++) { words[count++] = args->words[i]; }
    words[count++] = "--gpus";
    words[count++] = ranks;
    words[count++] = "--output";
    words[count++] = beside_path(&beside, "plan.json", path);
    words[count] = NULL;
    int rc = beside_run(&args->cli, &beside, words);
    if (rc == CLI_DONE && redco_plan_read(path, plan_out, &err) != REDCO_OK) { rc = cli_fail(&args->cli, &err); }
    beside_close(&beside);
    return rc;
}
