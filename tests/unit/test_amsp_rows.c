/* AMSP's published throughput (arXiv 2311.00257 v2, Table V and section VI) against the closed form with the shipped
 * constants, none of which was fitted. Skipped where the table of measured runs is not at hand. */
#include "cost_fixture.h"

#include <math.h>

enum { COLUMNS_MAX = 64, LINE_MAX_BYTES = 4096 };

struct row {
    char *cells[COLUMNS_MAX];
    size_t count;
};

/* Cells separated by commas; quoted ones may hold commas. Cuts the line in place. */
static struct row split(char *line)
{
    struct row row = {.count = 0};
    char *out = line;
    bool quoted = false;
    row.cells[row.count++] = out;
    for (const char *in = line; *in != '\0' && *in != '\n'; in++) {
        if (*in == '"') {
            quoted = !quoted;
        } else if (*in == ',' && !quoted && row.count < COLUMNS_MAX) {
            *out++ = '\0';
            row.cells[row.count++] = out;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return row;
}

static const char *cell(const struct row *header, const struct row *row, const char *column)
{
    for (size_t i = 0; i < header->count && i < row->count; i++) {
        if (strcmp(header->cells[i], column) == 0) { return row->cells[i]; }
    }
    fail_msg("no column %s", column);
    return "";
}

static uint32_t number(const struct row *header, const struct row *row, const char *column)
{
    return (uint32_t)strtoul(cell(header, row, column), NULL, 10);
}

static redco_mesh mesh(const struct row *header, const struct row *row, const char *column)
{
    char *rest = NULL;
    const char *const text = cell(header, row, column);
    const uint32_t gpus = (uint32_t)strtoul(text, &rest, 10);
    return (redco_mesh){gpus, *rest == 'x' ? (uint32_t)strtoul(rest + 1, NULL, 10) : 0};
}

static uint32_t overlap_bits(const char *text)
{
    return (strstr(text, "ag_rs") != NULL ? REDCO_OVERLAP_AG_RS : 0U) |
           (strstr(text, "ar") != NULL ? REDCO_OVERLAP_AR : 0U) | (strstr(text, "bc") != NULL ? REDCO_OVERLAP_BC : 0U);
}

static const char *preset_of(const char *model)
{
    if (strcmp(model, "LLaMA-7B") == 0) { return "llama-7b"; }
    return strcmp(model, "LLaMA-13B") == 0 ? "llama-13b" : "amsp-30b";
}

/* @return predicted over measured tokens/s, less 1 */
static double error_of(const struct row *header, const struct row *row)
{
    struct bundle b;
    redco_error err = {.status = REDCO_OK};
    redco_workload workload = plain_workload(number(header, row, "global_batch"));
    workload.overlap = overlap_bits(cell(header, row, "overlap"));
    bundle_open(&b, preset_of(cell(header, row, "model")), a800_machine(number(header, row, "n_gpus") / 8), workload);
    redco_setting setting = plain_setting(&b, number(header, row, "micro_batch"));
    const bool inter = strcmp(cell(header, row, "optimizer_scheme"), "inter") == 0;
    setting.scheme = inter ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
    check_ok(redco_setting_check(b.costs, &setting, &err), &err);
    const redco_shards shards = {mesh(header, row, "p_shard"), mesh(header, row, "g_shard"),
                                 mesh(header, row, "os_shard")};
    const bool full = strcmp(cell(header, row, "recompute"), "full") == 0;
    const redco_prediction p = uniform_step(&b, &setting, shards, full ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE);
    const double measured = strtod(cell(header, row, "tokens_per_s_per_gpu"), NULL);
    print_message("%-9s %-9s %4s GPUs, p %-5s os %-5s %-11s %5.0f measured %5.0f predicted %+5.1f %%\n",
                  cell(header, row, "framework"), cell(header, row, "model"), cell(header, row, "n_gpus"),
                  cell(header, row, "p_shard"), cell(header, row, "os_shard"), cell(header, row, "overlap"), measured,
                  p.tokens_per_s_per_gpu, 100.0 * (p.tokens_per_s_per_gpu / measured - 1.0));
    assert_true(p.total_bytes <= p.capacity_bytes); /* the run did not fail */
    bundle_close(&b);
    return p.tokens_per_s_per_gpu / measured - 1.0;
}

static void published_throughput_is_met(void **state)
{
    (void)state;
    char line[LINE_MAX_BYTES], titles[LINE_MAX_BYTES];
    FILE *const file = fopen(REDCO_SHARED_DIR "/measured/amsp.csv", "r");
    if (file == NULL) {
        print_message("no ../shared/measured/amsp.csv here\n");
        skip();
    }
    assert_non_null(fgets(titles, sizeof titles, file));
    const struct row header = split(titles);
    double own_sum = 0.0, all_sum = 0.0;
    unsigned own = 0, all = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        const struct row row = split(line);
        if (strcmp(cell(&header, &row, "use"), "speed") != 0) { continue; }
        const double error = fabs(error_of(&header, &row));
        all_sum += error;
        all++;
        if (strcmp(cell(&header, &row, "framework"), "amsp") == 0) {
            own_sum += error;
            own++;
        }
    }
    (void)fclose(file);
    assert_int_equal(own, 12);
    assert_int_equal(all, 19);
    print_message("MAPE: AMSP's engine %.2f %% of %u rows, with baselines %.2f %% of %u\n", 100.0 * own_sum / own, own,
                  100.0 * all_sum / all, all);
    assert_true(own_sum / own < 0.05);
    assert_true(all_sum / all < 0.07);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_throughput_is_met)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
