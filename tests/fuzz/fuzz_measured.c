/* The reader of measured runs: an error says what is wrong; a table's rows keep their promises. */
#include "traces/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void require(bool promise)
{
    if (!promise) { abort(); }
}

static void check_run(const redco_measured_run *run)
{
    const char *const skip = redco_measured_skip(run);
    require(run->source[0] != '\0' && run->model[0] != '\0' && run->gpu[0] != '\0');
    require(run->n_gpus > 0 && run->seq_len > 0 && run->line > 1);
    require(isfinite(run->tokens_per_s_per_gpu) && isfinite(run->step_s));
    require(skip == NULL || skip[0] != '\0');
    if (skip != NULL) { return; }
    require(run->dp > 0 && run->n_gpus % run->dp == 0 && run->layers > 0 && run->kv_heads > 0);
    require(run->dp % redco_mesh_ranks(run->shards.optimizer) == 0);
    require((run->use & REDCO_USE_SPEED) == 0 || run->tokens_per_s_per_gpu > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_measured *table = NULL;
    redco_error err = {0};
    if (redco_measured_parse((const char *)data, size, "measured", &table, &err) != REDCO_OK) {
        require(table == NULL && err.text[0] != '\0' && strncmp(err.place, "measured", 8) == 0);
        return 0;
    }
    const redco_measured_run *runs = NULL;
    const size_t count = redco_measured_runs(table, &runs);
    const redco_measured_run **picked = calloc(count + 1, sizeof *picked);
    size_t *groups = calloc(count + 1, sizeof *groups);
    require(picked != NULL && groups != NULL);
    for (size_t i = 0; i < count; i++) {
        check_run(&runs[i]);
        picked[i] = &runs[i];
    }
    require(redco_measured_groups(picked, count, groups, NULL) == REDCO_OK);
    for (size_t i = 0; i < count; i++) { require(groups[i] <= i); }
    free(groups);
    free(picked);
    redco_measured_free(table);
    return 0;
}
