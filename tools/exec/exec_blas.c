#include "tools/exec/exec_blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char variable[] = "OPENBLAS_NUM_THREADS";

/* Memory that is asked for may be refused. */
static bool is_limited(void)
{
    struct rlimit space;
    char mode = '0';
    FILE *const file = fopen("/proc/sys/vm/overcommit_memory", "re");
    if (file != NULL) {
        (void)!fread(&mode, 1, 1, file);
        (void)fclose(file);
    }
    return mode == '2' || (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY);
}

void exec_without_blas_threads(char **argv)
{
    const char *const threads = getenv(variable);
    if ((threads != NULL && strcmp(threads, "1") == 0) || !is_limited() || setenv(variable, "1", 1) != 0) { return; }
    (void)execv("/proc/self/exe", argv); /* without /proc it goes on as it is */
}
