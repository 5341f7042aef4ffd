/* The table of strategies. */
#include "tools/plan/plan_report.h"

#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

#define TIMES "\xc3\x97"

enum { SHORT = 64, EXTRAPOLATED = 2 * REDCO_EVIDENCE_TEXT };

static void table_heading(struct table *table, enum report_kind kind, struct report_degrees degrees)
{
    static const char *const names[] = {"strategy", "strategy", "rank", "   GPUs", "cluster"};
    const bool many = kind != REPORT_ONE;
    table_row(table);
    table_cell(table, "%s", "");
    table_cell(table, "%s", names[kind]);
    table_cell(table, "tp");
    if (degrees.pp) { table_cell(table, "pp"); }
    if (degrees.cp) { table_cell(table, "cp"); }
    if (degrees.ep) { table_cell(table, "ep" TIMES "etp"); }
    if (many) { table_cell(table, "micro"); }
    table_cell(table, "%s", many ? "params" : "parameters");
    table_cell(table, "%s", many ? "grads" : "gradients");
    table_cell(table, "optimizer");
    if (kind == REPORT_RANKS) { table_cell(table, "update"); }
    if (many) { table_cell(table, "recompute"); }
    table_cell(table, "%s", many ? "memory" : "memory/GPU");
    table_cell(table, "step");
    if (kind == REPORT_RANKS) { table_cell(table, "closed form"); }
    table_cell(table, "%s%s", degrees.examples ? "examples" : many ? "tok" : "tokens", "/s/GPU");
    table_cell(table, "MFU");
    table_cell(table, "%s", many ? "exposed" : "exposed comm");
    if (kind == REPORT_SIZES) { table_cell(table, "scaling"); }
}

static const char *update_word(const redco_candidate *candidate)
{
    const redco_shards shards = redco_main_assignment(candidate)->config.shards;
    if (redco_mesh_equal(shards.optimizer, shards.parameters)) { return "local"; }
    return candidate->parallelism.scheme == REDCO_INTER_TENSOR ? "broadcast" : "gather";
}

static void table_strategy(struct table *table, const redco_inputs *inputs, enum report_kind kind,
                           struct report_degrees degrees, const redco_candidate *candidate, double like_s)
{
    char a[SHORT];
    char b[SHORT];
    const redco_prediction *p = &candidate->prediction;
    table_cell(table, "%u", candidate->parallelism.tp);
    if (degrees.pp) { table_cell(table, "%s", report_stages(&candidate->parallelism, a, sizeof a)); }
    if (degrees.cp) { table_cell(table, "%s", report_context(&candidate->parallelism, a, sizeof a)); }
    if (degrees.ep) { table_cell(table, "%s", report_experts(&candidate->parallelism, a, sizeof a)); }
    if (kind != REPORT_ONE) {
        table_cell(table, "%llu" TIMES "%u", (unsigned long long)candidate->parallelism.micro_batches,
                   candidate->parallelism.micro_batch);
    }
    (void)report_shards(candidate, offsetof(redco_shards, parameters), a, sizeof a);
    table_cell(table, "%s%s", a, candidate->parallelism.secondary.gpus > 0 ? "+" : "");
    table_cell(table, "%s", report_shards(candidate, offsetof(redco_shards, gradients), a, sizeof a));
    table_cell(table, "%s", report_shards(candidate, offsetof(redco_shards, optimizer), a, sizeof a));
    if (kind == REPORT_RANKS) { table_cell(table, "%s", update_word(candidate)); }
    (void)format_gigabytes((double)p->total_bytes, a, sizeof a);
    if (kind == REPORT_ONE) {
        table_cell(table, "%s / %s GB", a, format_gigabytes((double)p->capacity_bytes, b, sizeof b));
    } else {
        table_cell(table, "%s", report_recompute(inputs->model, candidate, b, sizeof b));
        table_cell(table, "%s GB", a);
    }
    table_cell(table, "%s", format_time(p->step_s, like_s, a, sizeof a));
    if (kind == REPORT_RANKS) {
        table_cell(table, "%s", format_time(candidate->closed_form.step_s, like_s, a, sizeof a));
    }
    table_cell(table, "%s", report_tokens(inputs, p, a, sizeof a));
    table_cell(table, "%.2f", p->mfu);
    table_cell(table, "%s", format_time(p->exposed_comm_s, like_s, a, sizeof a));
}

/* Marker, name and degrees, then what the kind of table holds. */
static struct table *strategy_table(enum report_kind kind, struct report_degrees degrees)
{
    char alignment[32];
    (void)snprintf(alignment, sizeof alignment, "ll%s%s%s%s", degrees.pp ? "r" : "", degrees.cp ? "r" : "",
                   degrees.ep ? "r" : "",
                   kind == REPORT_ONE     ? "rrrrrrrrrr"
                   : kind == REPORT_RANKS ? "rrrrrllrrrrrrr"
                                          : "rrrrrlrrrrrr");
    return table_new(alignment);
}

bool report_table(const redco_inputs *inputs, enum report_kind kind, const struct report_row *rows, uint32_t count)
{
    double like_s = 0.0;
    double first = 0.0;
    double most_mfu = 0.0;
    bool copied = false;
    struct report_degrees degrees = report_no_degrees(inputs);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].candidate != NULL) { degrees = report_degrees_of(rows[i].candidate, degrees); }
    }
    struct table *table = strategy_table(kind, degrees);
    if (table == NULL) { return false; }
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].candidate == NULL) { continue; }
        const redco_prediction *p = &rows[i].candidate->prediction;
        if (like_s <= 0.0 || p->step_s < like_s) { like_s = p->step_s; }
        if (first <= 0.0) { first = p->tokens_per_s_per_gpu; }
        if (p->mfu > most_mfu) { most_mfu = p->mfu; }
    }
    table_heading(table, kind, degrees);
    for (uint32_t i = 0; i < count; i++) {
        const redco_candidate *candidate = rows[i].candidate;
        char gpus[SHORT];
        table_row(table);
        table_cell(table, "%s%s%s", rows[i].marked ? "*" : "",
                   rows[i].beyond != NULL && rows[i].beyond[0] != '\0' ? "~" : "", rows[i].lacked ? "!" : "");
        if (kind == REPORT_SIZES) {
            table_cell(table, "%7s", format_count(rows[i].gpus, gpus, sizeof gpus));
        } else {
            table_cell(table, "%s", rows[i].name);
        }
        if (candidate == NULL) {
            table_rest(table, "%s", rows[i].reason);
            continue;
        }
        copied = copied || candidate->parallelism.secondary.gpus > 0;
        table_strategy(table, rows[i].inputs != NULL ? rows[i].inputs : inputs, kind, degrees, candidate, like_s);
        if (kind == REPORT_SIZES) {
            table_cell(table, "%.0f %%", 100.0 * candidate->prediction.tokens_per_s_per_gpu / first);
        }
    }
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    if (copied) {
        (void)printf("     + and a second copy of the parameters, sharded inside each node, for the backward\n");
    }
    char text[EXTRAPOLATED];
    for (uint32_t i = 0; i < count; i++) {
        if (report_extrapolated(kind, rows, count, i, text, sizeof text)) { (void)printf("     ~ %s\n", text); }
    }
    if (report_lacked(inputs, rows, count, text, sizeof text)) { (void)printf("     ! %s\n", text); }
    if (most_mfu > 1.0) { (void)printf("     %s\n", mfu_note(most_mfu)); }
    (void)printf("\n");
    return whole;
}
