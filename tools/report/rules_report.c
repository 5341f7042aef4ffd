/* redco-rules for people: the rules, what takes them, and with --explain what they cost and what is poor about them. */
#include "tools/report/rules_report.h"
#include "tools/cli/text_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES "\xc3\x97"

enum { MOST_ROWS = 2000, SHOWN_BYTES = 120, LINE = 200 };

static double elements_of(const redco_rules_param *param)
{
    double elements = 1.0;
    for (uint32_t i = 0; i < param->rank; i++) { elements *= (double)param->shape[i]; }
    return elements;
}

/* Long names lose their beginning, at a whole character. */
static const char *shorten(const char *text, char *buffer, size_t size)
{
    const size_t length = strlen(text);
    if (length <= SHOWN_BYTES) { return text; }
    const char *start = text + length - SHOWN_BYTES;
    while (((unsigned char)*start & 0xC0) == 0x80) { start++; }
    (void)snprintf(buffer, size, "...%s", start);
    return buffer;
}

/* "[in, out/8]": the split dimension divided by the number of shards. */
static const char *shape_text(const redco_rules_param *param, int32_t dim, uint32_t shards, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "[");
    for (uint32_t i = 0; i < param->rank && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", param->shape[i]);
        if ((int32_t)i == dim && used < size) {
            used += (size_t)snprintf(buffer + used, size - used, "/%" PRIu32, shards);
        }
    }
    if (used < size) { (void)snprintf(buffer + used, size - used, "]"); }
    return buffer;
}

/* "6.738 B", "124.4 M", "1111". */
static const char *count_text(double count, char *buffer, size_t size)
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    size_t unit = 0;
    if (count >= 1e5) {
        for (; count >= 999.95 && unit + 1 < sizeof units / sizeof units[0]; unit++) { count /= 1000.0; }
        (void)snprintf(buffer, size, "%.4g%s", count, units[unit]);
    } else {
        (void)snprintf(buffer, size, "%.0f", count);
    }
    return buffer;
}

/* Parameters that one rule took. */
struct taken {
    size_t count;
    size_t first;
};

static void print_more(size_t count)
{
    if (count > MOST_ROWS) { (void)printf("... and %zu more, all of them with --json\n", count - MOST_ROWS); }
}

static void add_rule(struct table *table, const struct rules_answer *answer, size_t i, const struct taken *taken)
{
    char name[LINE];
    char shape[LINE];
    char why[LINE];
    const redco_rule *rule = &answer->list[i];
    table_row(table);
    table_cell(table, "%s", shorten(rule->key, name, sizeof name));
    if (rule->dim >= 0) {
        table_cell(table, "dim %" PRId32, rule->dim);
    } else {
        table_cell(table, "-");
    }
    table_cell(table, "%zu", taken->count);
    if (answer->explain) {
        table_cell(table, "%s", redco_rule_case_name(rule->reason));
        table_rest(table, "%s%s", rule->overridden ? "overridden; " : "",
                   redco_rule_why(answer->list, i, answer->shards, why, sizeof why));
    } else if (taken->count > 0) {
        const redco_rules_param *first = &answer->params[taken->first];
        table_rest(
            table, "%s %s", shorten(first->path, name, sizeof name),
            shape_text(first, redco_rules_dim(answer->rules, taken->first), answer->shards, shape, sizeof shape));
    }
}

static bool print_rules(const struct rules_answer *answer, const struct taken *taken)
{
    struct table *table = table_new(answer->explain ? "llrl" : "llr");
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "rule");
    table_cell(table, "split");
    table_cell(table, "tensors");
    if (answer->explain) { table_cell(table, "case"); }
    table_rest(table, answer->explain ? "why" : "first of them");
    for (size_t i = 0; i < answer->rule_count && i < MOST_ROWS; i++) { add_rule(table, answer, i, &taken[i]); }
    const bool printed = table_print(table, "", stdout);
    table_free(table);
    print_more(answer->rule_count);
    return printed;
}

static void print_total(const struct rules_answer *answer)
{
    char all_text[32];
    char mine_text[32];
    double total = 0.0;
    double mine = 0.0;
    for (size_t i = 0; i < answer->count; i++) {
        const double elements = elements_of(&answer->params[i]);
        total += elements;
        mine += redco_rules_dim(answer->rules, i) >= 0 ? elements / (double)answer->shards : elements;
    }
    (void)count_text(total, all_text, sizeof all_text);
    if (answer->rule_count > 0) {
        (void)printf("%zu tensor%s, %s parameters; %s on each of %" PRIu32 " shards (%.2f %%)\n", answer->count,
                     answer->count == 1 ? "" : "s", all_text, count_text(mine, mine_text, sizeof mine_text),
                     answer->shards, total > 0.0 ? 100.0 * mine / total : 100.0);
    } else {
        (void)printf("1 shard: no rules, all %zu tensors with %s parameters whole\n", answer->count, all_text);
    }
}

/* One line of the explanation: parameters alike in all but the index of their layer. */
struct line {
    char path[LINE];
    char shape[LINE];
    char forward[LINE];
    char backward[LINE];
    size_t first, count;
};

/* Names that are numbers become '*', but for the last two names. */
static void collapse(const char *path, char *buffer, size_t size)
{
    char shown[LINE];
    size_t used = 0;
    const char *rest = shorten(path, shown, sizeof shown);
    while (used < size) {
        const size_t length = strcspn(rest, "/");
        const char *second = rest[length] == '/' ? strchr(rest + length + 1, '/') : NULL;
        const bool number = length > 0 && strspn(rest, "0123456789") == length && second != NULL;
        used += (size_t)snprintf(buffer + used, size - used, "%.*s%s", number ? 1 : (int)length, number ? "*" : rest,
                                 rest[length] == '/' ? "/" : "");
        if (rest[length] == '\0') { return; }
        rest += length + 1;
    }
}

static size_t add_transfers(char *buffer, size_t size, const redco_transfer *transfers, uint32_t count)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < count && used < size; i++) {
        const redco_transfer *transfer = &transfers[i];
        const double elements = transfer->elements + transfer->elements_per_token;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s ", i > 0 ? ", " : "",
                                 redco_collective_word(transfer->kind));
        if (used < size && transfer->calls > 1) {
            used += (size_t)snprintf(buffer + used, size - used, "%" PRIu32 TIMES, transfer->calls);
        }
        if (used < size) {
            used += (size_t)snprintf(buffer + used, size - used, "%.0f%s", elements / transfer->calls,
                                     transfer->elements > 0.0 ? " a step" : "");
        }
    }
    return used;
}

/* The name before the last: "q_proj" of "a/q_proj/kernel". */
static void module_text(const char *path, char *buffer, size_t size)
{
    const char *end = strrchr(path, '/');
    const char *start = end;
    if (end == NULL) {
        (void)snprintf(buffer, size, "%.60s", path);
        return;
    }
    while (start > path && start[-1] != '/') { start--; }
    (void)snprintf(buffer, size, "%.*s", (int)(end - start), start);
}

static void fill_line(const struct rules_answer *answer, size_t i, struct line *line)
{
    char module[64];
    const redco_rules_cost *cost = &answer->costs[i];
    line->first = i;
    line->count = 1;
    collapse(answer->params[i].path, line->path, sizeof line->path);
    (void)shape_text(&answer->params[i], redco_rules_dim(answer->rules, i), answer->shards, line->shape,
                     sizeof line->shape);
    (void)add_transfers(line->forward, sizeof line->forward, cost->forward, cost->forward_count);
    const size_t used = add_transfers(line->backward, sizeof line->backward, cost->backward, cost->backward_count);
    if (cost->shares == REDCO_PART_NONE) { return; }
    module_text(answer->params[cost->shares].path, module, sizeof module);
    if (used < sizeof line->backward) {
        (void)snprintf(line->backward + used, sizeof line->backward - used, "%swith %s", used > 0 ? ", " : "", module);
    }
}

static int compare_text(const struct line *a, const struct line *b)
{
    int order = strcmp(a->path, b->path);
    if (order == 0) { order = strcmp(a->shape, b->shape); }
    if (order == 0) { order = strcmp(a->forward, b->forward); }
    return order != 0 ? order : strcmp(a->backward, b->backward);
}

static int compare_lines(const void *a, const void *b)
{
    const struct line *first = a;
    const struct line *second = b;
    const int order = compare_text(first, second);
    if (order != 0) { return order; }
    return first->first < second->first ? -1 : first->first > second->first;
}

static int by_first(const void *a, const void *b)
{
    const struct line *first = a;
    const struct line *second = b;
    return first->first < second->first ? -1 : first->first > second->first;
}

/* Lines alike become one, in the order of their first parameters. @return how many are left */
static size_t merge_lines(struct line *lines, size_t count)
{
    size_t used = 0;
    qsort(lines, count, sizeof *lines, compare_lines);
    for (size_t i = 0; i < count; i++) {
        if (used > 0 && compare_text(&lines[used - 1], &lines[i]) == 0) {
            lines[used - 1].count++;
        } else {
            lines[used++] = lines[i];
        }
    }
    qsort(lines, used, sizeof *lines, by_first);
    return used;
}

static void add_line(struct table *table, const struct rules_answer *answer, const struct line *line)
{
    const redco_rule *rule = redco_rules_of(answer->rules, line->first);
    table_row(table);
    table_cell(table, "%s", line->path);
    if (line->count > 1) {
        table_cell(table, TIMES "%zu", line->count);
    } else {
        table_cell(table, "%s", "");
    }
    table_cell(table, "%s", line->shape);
    table_cell(table, "%s", redco_role_name(answer->parts[line->first].role));
    table_cell(table, "%s", rule != NULL ? redco_rule_case_name(rule->reason) : "");
    table_cell(table, "%s", line->forward[0] != '\0' ? line->forward : "-");
    table_cell(table, "%s", line->backward[0] != '\0' ? line->backward : "-");
}

static bool print_lines(const struct rules_answer *answer, struct line *lines)
{
    static const char *const titles[] = {"parameter", "", "shape", "for", "case", "forward, elements a token",
                                         "backward"};
    struct table *table = table_new("lrlllll");
    if (table == NULL) { return false; }
    for (size_t i = 0; i < answer->count; i++) { fill_line(answer, i, &lines[i]); }
    const size_t count = merge_lines(lines, answer->count);
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
    for (size_t i = 0; i < count && i < MOST_ROWS; i++) { add_line(table, answer, &lines[i]); }
    const bool printed = table_print(table, "", stdout);
    table_free(table);
    print_more(count);
    return printed;
}

static double per_token(const struct rules_answer *answer, redco_collective kind, bool forward)
{
    double sum = 0.0;
    for (size_t i = 0; i < answer->count; i++) {
        const redco_rules_cost *cost = &answer->costs[i];
        const redco_transfer *transfers = forward ? cost->forward : cost->backward;
        const uint32_t count = forward ? cost->forward_count : cost->backward_count;
        for (uint32_t j = 0; j < count; j++) {
            if (transfers[j].kind == kind) { sum += transfers[j].elements_per_token; }
        }
    }
    return sum;
}

static void print_sums(const struct rules_answer *answer)
{
    for (int pass = 0; pass < 2; pass++) {
        const char *between = " ";
        (void)printf("%s", pass == 0 ? "elements a token, all layers: forward" : "; backward");
        for (redco_collective kind = REDCO_ALL_REDUCE; kind <= REDCO_REDUCE_SCATTER; kind++) {
            char text[32];
            const double elements = per_token(answer, kind, pass == 0);
            if (elements <= 0.0) { continue; }
            (void)printf("%s%s %s", between, redco_collective_word(kind), count_text(elements, text, sizeof text));
            between = ", ";
        }
        if (strcmp(between, " ") == 0) { (void)printf(" nothing"); }
    }
    (void)printf("\n");
}

static bool print_warnings(const struct rules_answer *answer)
{
    char name[LINE];
    struct table *table = NULL;
    if (answer->warning_count == 0) {
        (void)printf("\nnothing poor was found\n");
        return true;
    }
    if ((table = table_new("llr")) == NULL) { return false; }
    for (size_t i = 0; i < answer->warning_count && i < MOST_ROWS; i++) {
        const redco_rules_warning *warning = &answer->warnings[i];
        table_row(table);
        table_cell(table, "%s", redco_concern_name(warning->concern));
        table_cell(table, "%s", shorten(answer->params[warning->param].path, name, sizeof name));
        table_cell(table, TIMES "%zu", warning->count);
        table_rest(table, "%s", warning->text);
    }
    (void)printf("\nwhat is poor\n");
    const bool printed = table_print(table, "", stdout);
    table_free(table);
    print_more(answer->warning_count);
    return printed;
}

/* Nothing is said of what cannot be judged. */
static void print_unknown(const struct rules_answer *answer)
{
    size_t unknown = 0;
    size_t all = 0;
    for (size_t i = 0; i < answer->count; i++) {
        if (answer->parts[i].leaf == REDCO_PART_LEAF_OTHER) { continue; }
        all++;
        unknown += answer->parts[i].role == REDCO_ROLE_OTHER;
    }
    if (unknown > 0) {
        (void)printf("of unknown use, hence not judged: %zu of %zu matrices and tables\n", unknown, all);
    }
}

static bool has_attention(const struct rules_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        if (answer->parts[i].role >= REDCO_ROLE_QUERY && answer->parts[i].role <= REDCO_ROLE_QKV) { return true; }
    }
    return false;
}

static bool print_explanation(const struct rules_answer *answer)
{
    struct line *lines = calloc(answer->count + 1, sizeof *lines);
    if (lines == NULL) { return false; }
    (void)printf("\n");
    bool printed = print_lines(answer, lines);
    free(lines);
    print_sums(answer);
    if (answer->setting.tied) {
        (void)printf("the table of the vocabulary is the head, too%s\n",
                     redco_rules_tree_dims(answer->tree) == NULL ? ": there is no other linear that could be" : "");
    }
    printed = printed && print_warnings(answer);
    print_unknown(answer);
    if (answer->setting.heads == 0 && has_attention(answer)) {
        (void)printf("heads are not known: --heads N and --kv-heads N tell whether shards cut inside them\n");
    }
    return printed;
}

int rules_print_tables(const struct cli *cli, const struct rules_answer *answer)
{
    bool printed = true;
    struct taken *taken = calloc(answer->rule_count + 1, sizeof *taken);
    if (taken == NULL) {
        printed = false;
        goto out;
    }
    for (size_t i = 0; i < answer->count && answer->rule_count > 0; i++) {
        struct taken *row = &taken[redco_rules_of(answer->rules, i) - answer->list];
        if (row->count++ == 0) { row->first = i; }
    }
    if (answer->rule_count > 0) { printed = print_rules(answer, taken); }
    print_total(answer);
    if (answer->explain && answer->rule_count > 0) { printed = print_explanation(answer) && printed; }
out:
    free(taken);
    if (!printed) {
        const redco_error err = {.status = REDCO_ENOMEM, .text = "out of memory"};
        return cli_fail(cli, &err);
    }
    return cli_finish(cli, CLI_DONE);
}
