/* Why rules are what they are, and what is poor about them. */
#include "planner/rules/rules_explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *redco_rule_case_name(redco_rule_case reason)
{
    static const char *const names[] = {"leaf", "ranks", "indivisible", "a", "b", "c", "d", "e", "f", "g", "user"};
    return (size_t)reason < sizeof names / sizeof names[0] ? names[reason] : "";
}

static void plain_why(const redco_rule *list, size_t index, char *buffer, size_t size)
{
    const redco_rule *rule = &list[index];
    if (rule->previous == REDCO_RULES_NONE) {
        (void)snprintf(buffer, size, "first of the plain keys: highest divisible dimension");
        return;
    }
    const redco_rule *previous = &list[rule->previous];
    if (rule->turned) {
        (void)snprintf(buffer, size, "alternates: %.80s took dimension %" PRId32, previous->key, previous->dim);
    } else if (previous->dim == rule->dim) {
        (void)snprintf(buffer, size, "would alternate with %.80s, but only dimension %" PRId32 " is divisible",
                       previous->key, rule->dim);
    } else {
        (void)snprintf(buffer, size, "highest divisible dimension: %.80s took dimension %" PRId32, previous->key,
                       previous->dim);
    }
}

const char *redco_rule_why(const redco_rule *list, size_t index, uint32_t shards, char *buffer, size_t size)
{
    const char *text = "";
    buffer[0] = '\0';
    switch (list[index].reason) {
    case REDCO_RULE_NO_WEIGHT: text = "neither kernel nor embedding: never split"; break;
    case REDCO_RULE_RANKS: text = "numbers of dimensions differ under this key"; break;
    case REDCO_RULE_INDIVISIBLE:
        (void)snprintf(buffer, size, "no dimension is divisible by %u for all of this key", shards);
        break;
    case REDCO_RULE_EMBEDDING: text = "embedding: lowest divisible dimension"; break;
    case REDCO_RULE_ATTENTION_IN: text = "q, k or v at an end, in attention: highest divisible dimension"; break;
    case REDCO_RULE_ATTENTION_OUT: text = "o at an end, in attention: lowest divisible dimension"; break;
    case REDCO_RULE_FFN_IN: text = "up, gate, wi or the word in: highest divisible dimension"; break;
    case REDCO_RULE_FFN_OUT: text = "down, wo or the word out: lowest divisible dimension"; break;
    case REDCO_RULE_HEAD: text = "head at an end: highest divisible dimension"; break;
    case REDCO_RULE_PLAIN: plain_why(list, index, buffer, size); break;
    case REDCO_RULE_USER: text = "given by the user"; break;
    }
    if (buffer[0] == '\0') { (void)snprintf(buffer, size, "%s", text); }
    return buffer;
}

const char *redco_concern_name(redco_concern concern)
{
    static const char *const names[] = {"shared-key", "direction",  "flipped",       "fused-row", "fused-mixed",
                                        "heads-cut",  "vocabulary", "relative-bias", "whole",     "other-key"};
    return (size_t)concern < sizeof names / sizeof names[0] ? names[concern] : "";
}

/* Warnings so far; those of one rule hang together, so that a tree of many keys takes no longer than its size. */
struct findings {
    const redco_rules_view *view;
    const redco_rule *rules;
    redco_rules_warning *list;
    size_t *next; /* next warning of the same rule, or REDCO_RULES_NONE */
    size_t count, capacity;
    size_t *first_of_rule;
    uint32_t *roles_of_rule; /* one bit for each role that takes it */
    size_t *block_before;    /* for a plain rule: the last plain rule before it that is for attention or FFN */
    bool lost;               /* out of memory */
};

static bool grow(struct findings *findings)
{
    const size_t capacity = findings->capacity == 0 ? 16 : 2 * findings->capacity;
    redco_rules_warning *list = realloc(findings->list, capacity * sizeof *list);
    if (list == NULL) { return false; }
    findings->list = list;
    size_t *next = realloc(findings->next, capacity * sizeof *next);
    if (next == NULL) { return false; }
    findings->next = next;
    findings->capacity = capacity;
    return true;
}

/* @return the text to fill, or NULL when that was said before */
static char *warn(struct findings *findings, redco_concern concern, size_t param)
{
    const redco_rules_part *parts = findings->view->parts;
    const size_t rule = (size_t)(redco_rules_of(findings->view->rules, param) - findings->rules);
    for (size_t i = findings->first_of_rule[rule]; i != REDCO_RULES_NONE; i = findings->next[i]) {
        redco_rules_warning *warning = &findings->list[i];
        const bool alike = concern == REDCO_CONCERN_SHARED_KEY || parts[warning->param].role == parts[param].role;
        if (warning->concern == concern && alike) {
            warning->count++;
            return NULL;
        }
    }
    if (findings->count == findings->capacity && !grow(findings)) {
        findings->lost = true;
        return NULL;
    }
    redco_rules_warning *warning = &findings->list[findings->count];
    *warning = (redco_rules_warning){.concern = concern, .rule = rule, .param = param, .count = 1};
    findings->next[findings->count] = findings->first_of_rule[rule];
    findings->first_of_rule[rule] = findings->count++;
    return warning->text;
}

/* The dimension that the pair of a linear needs: column in, row out. */
static bool wants(const redco_rules_part *part, uint32_t *dim_out)
{
    switch (part->role) {
    case REDCO_ROLE_QUERY:
    case REDCO_ROLE_KEY:
    case REDCO_ROLE_VALUE:
    case REDCO_ROLE_QKV:
    case REDCO_ROLE_FFN_IN: *dim_out = part->output_dim; return true;
    case REDCO_ROLE_ATTENTION_OUT:
    case REDCO_ROLE_FFN_OUT: *dim_out = part->input_dim; return true;
    default: return false;
    }
}

enum {
    COLUMN_ROLES = 1U << REDCO_ROLE_QUERY | 1U << REDCO_ROLE_KEY | 1U << REDCO_ROLE_VALUE | 1U << REDCO_ROLE_QKV |
                   1U << REDCO_ROLE_FFN_IN,
    ROW_ROLES = 1U << REDCO_ROLE_ATTENTION_OUT | 1U << REDCO_ROLE_FFN_OUT,
    TEXT = sizeof((redco_rules_warning *)0)->text
};

static void check_shared_key(struct findings *findings, size_t i, size_t rule)
{
    const uint32_t roles = findings->roles_of_rule[rule];
    size_t used = 0;
    uint32_t dim = 0;
    if ((roles & COLUMN_ROLES) == 0 || (roles & ROW_ROLES) == 0 || !wants(&findings->view->parts[i], &dim)) { return; }
    char *text = warn(findings, REDCO_CONCERN_SHARED_KEY, i);
    if (text == NULL) { return; }
    for (redco_role role = REDCO_ROLE_OTHER; role <= REDCO_ROLE_BIAS; role++) {
        if ((roles & 1U << role) == 0) { continue; }
        used +=
            (size_t)snprintf(text + used, TEXT - used, "%s%s", used > 0 ? ", " : "one key for ", redco_role_name(role));
    }
    (void)snprintf(text + used, TEXT - used, ", which want different dimensions");
}

static bool is_block_rule(const struct findings *findings, size_t rule)
{
    return (findings->roles_of_rule[rule] & (COLUMN_ROLES | ROW_ROLES)) != 0;
}

/* Says whether a plain rule would have taken @p wanted if only keys of attention and FFN alternated. */
static bool is_flipped(const struct findings *findings, size_t index, const redco_rules_param *param, uint32_t wanted)
{
    const redco_rule *rule = &findings->rules[index];
    if (rule->reason != REDCO_RULE_PLAIN || rule->previous == REDCO_RULES_NONE ||
        is_block_rule(findings, rule->previous)) {
        return false;
    }
    const size_t related = findings->block_before[index];
    const int32_t highest = rule->turned ? findings->rules[rule->previous].dim : rule->dim;
    const bool turned = related != REDCO_RULES_NONE && findings->rules[related].dim == highest;
    /* Without its turn the rule keeps the highest; with it, another, if that divides. */
    if (rule->turned == turned || param->shape[wanted] % findings->view->setting->shards != 0) { return false; }
    return turned ? (int32_t)wanted != highest : (int32_t)wanted == highest;
}

static void check_direction(struct findings *findings, size_t i, size_t index)
{
    const redco_rules_part *part = &findings->view->parts[i];
    const redco_rules_param *param = &findings->view->params[i];
    const int32_t dim = redco_rules_dim(findings->view->rules, i);
    uint32_t wanted = 0;
    char why[160];
    if (dim < 0 || !wants(part, &wanted) || (uint32_t)dim == wanted || part->role == REDCO_ROLE_QKV ||
        param->rank < 2) {
        return;
    }
    const bool flipped = is_flipped(findings, index, param, wanted);
    char *text = warn(findings, flipped ? REDCO_CONCERN_FLIPPED : REDCO_CONCERN_DIRECTION, i);
    if (text == NULL) { return; }
    (void)snprintf(text, TEXT, "%s is split by its %s, its pair needs the %s (%s)%s", redco_role_name(part->role),
                   (uint32_t)dim == part->input_dim ? "input" : "output",
                   wanted == part->input_dim ? "input" : "output",
                   redco_rule_why(findings->rules, index, findings->view->setting->shards, why, sizeof why),
                   flipped ? ", which has nothing to do with it" : "");
}

static void check_fused(struct findings *findings, size_t i)
{
    const redco_rules_part *part = &findings->view->parts[i];
    const redco_rules_param *param = &findings->view->params[i];
    const int32_t dim = redco_rules_dim(findings->view->rules, i);
    if (part->role != REDCO_ROLE_QKV || param->rank != 2 || dim < 0) { return; }
    if (dim == (int32_t)part->input_dim) {
        char *text = warn(findings, REDCO_CONCERN_FUSED_ROW, i);
        if (text == NULL) { return; }
        (void)snprintf(text, TEXT,
                       "the fused query-key-value is split by its input: all shards sum %" PRIu64
                       " elements per token and compute the whole attention",
                       param->shape[part->output_dim]);
    } else if (part->qkv == REDCO_QKV_BLOCKS) {
        char *text = warn(findings, REDCO_CONCERN_FUSED_MIXED, i);
        if (text == NULL) { return; }
        (void)snprintf(text, TEXT, "[Q|K|V] is cut across: no shard has query, key and value of the same heads");
    }
}

static void check_heads(struct findings *findings, size_t i)
{
    const redco_rules_view *view = findings->view;
    const redco_rules_part *part = &view->parts[i];
    if (!view->costs[i].heads_cut || part->qkv == REDCO_QKV_BLOCKS) { return; }
    char *text = warn(findings, REDCO_CONCERN_HEADS_CUT, i);
    if (text == NULL) { return; }
    const bool keys = part->role == REDCO_ROLE_KEY || part->role == REDCO_ROLE_VALUE || part->qkv == REDCO_QKV_BY_GROUP;
    (void)snprintf(text, TEXT, "%u %s head%s over %u shards: boundaries lie inside heads, all shards gather them",
                   keys ? view->setting->kv_heads : view->setting->heads, keys ? "key-value" : "query",
                   (keys ? view->setting->kv_heads : view->setting->heads) == 1 ? "" : "s", view->setting->shards);
}

/* The first other parameter of the rule whose rows do not divide, or the count. */
static size_t odd_table(const struct findings *findings, size_t rule)
{
    const redco_rules_view *view = findings->view;
    size_t i = 0;
    while (i < view->count && (redco_rules_of(view->rules, i) != &findings->rules[rule] || view->params[i].rank == 0 ||
                               view->params[i].shape[0] % view->setting->shards == 0)) {
        i++;
    }
    return i;
}

static void check_vocabulary(struct findings *findings, size_t i, size_t rule)
{
    const redco_rules_view *view = findings->view;
    const redco_rules_param *param = &view->params[i];
    const redco_role role = view->parts[i].role;
    const int32_t dim = redco_rules_dim(view->rules, i);
    const uint32_t wanted = role == REDCO_ROLE_HEAD ? view->parts[i].output_dim : 0;
    if ((role != REDCO_ROLE_VOCABULARY && role != REDCO_ROLE_HEAD) || dim == (int32_t)wanted || param->rank != 2) {
        return;
    }
    char *text = warn(findings, REDCO_CONCERN_VOCABULARY, i);
    if (text == NULL) { return; }
    const char *outcome = dim < 0 ? "stays whole" : "is split by its width";
    if (param->shape[wanted] % view->setting->shards != 0) {
        (void)snprintf(text, TEXT, "the vocabulary %s: %" PRIu64 " entries are not divisible by %u", outcome,
                       param->shape[wanted], view->setting->shards);
        return;
    }
    const bool table = role == REDCO_ROLE_VOCABULARY && findings->rules[rule].reason != REDCO_RULE_USER;
    const size_t odd = table ? odd_table(findings, rule) : view->count;
    if (odd < view->count) {
        (void)snprintf(text, TEXT,
                       "the vocabulary %s: the %" PRIu64 " rows of %.120s, same key, are not divisible by %u", outcome,
                       view->params[odd].shape[0], view->params[odd].path, view->setting->shards);
    } else {
        (void)snprintf(text, TEXT, "the vocabulary %s", outcome);
    }
}

static void check_whole(struct findings *findings, size_t i, size_t index)
{
    const redco_rules_view *view = findings->view;
    const redco_rules_part *part = &view->parts[i];
    const redco_rule *rule = &findings->rules[index];
    char why[160];
    if (part->leaf == REDCO_PART_LEAF_OTHER || view->params[i].rank < 2 || redco_rules_dim(view->rules, i) >= 0 ||
        part->role == REDCO_ROLE_VOCABULARY || part->role == REDCO_ROLE_HEAD || rule->reason == REDCO_RULE_USER) {
        return;
    }
    char *text = warn(findings, REDCO_CONCERN_WHOLE, i);
    if (text == NULL) { return; }
    (void)snprintf(text, TEXT, "every shard holds it whole: %s",
                   redco_rule_why(findings->rules, index, view->setting->shards, why, sizeof why));
}

/* Where the parameter's own key begins: its last name, or its last two if that is "kernel". */
static const char *own_key(const char *path)
{
    const char *last = strrchr(path, '/');
    if (last == NULL) { return path; }
    if (strcmp(last, "/kernel") != 0) { return last + 1; }
    while (last > path && last[-1] != '/') { last--; }
    return last;
}

static void check_key(struct findings *findings, size_t i, size_t index)
{
    const redco_rules_view *view = findings->view;
    const redco_rules_param *param = &view->params[i];
    const redco_rule *rule = &findings->rules[index];
    if (rule->reason == REDCO_RULE_USER || strcmp(rule->key, own_key(param->path)) == 0 ||
        (rule->dim < 0 && view->parts[i].leaf == REDCO_PART_LEAF_OTHER)) {
        return;
    }
    char *text = warn(findings, REDCO_CONCERN_OTHER_KEY, i);
    if (text == NULL) { return; }
    size_t used = (size_t)snprintf(text, TEXT, "its own key is %.100s, but the names of this rule stand in its path",
                                   own_key(param->path));
    if (rule->dim < 0) { return; }
    if (rule->dim >= (int32_t)param->rank) {
        (void)snprintf(text + used, TEXT - used, "; it has no dimension %" PRId32 " and stays whole", rule->dim);
    } else if (param->shape[rule->dim] % view->setting->shards != 0) {
        (void)snprintf(text + used, TEXT - used, "; %" PRIu64 " is not divisible by %u, so it cannot be split",
                       param->shape[rule->dim], view->setting->shards);
    }
}

static void check_relative_bias(struct findings *findings, size_t i)
{
    const redco_rules_view *view = findings->view;
    if (view->parts[i].role != REDCO_ROLE_RELATIVE_BIAS || redco_rules_dim(view->rules, i) != 0) { return; }
    char *text = warn(findings, REDCO_CONCERN_RELATIVE_BIAS, i);
    if (text == NULL) { return; }
    (void)snprintf(text, TEXT, "the relative bias is cut by bucket, not by head: all shards gather it");
}

static void check_all(struct findings *findings, size_t rule_count)
{
    const redco_rules_view *view = findings->view;
    for (size_t i = 0; i < view->count; i++) {
        const size_t rule = (size_t)(redco_rules_of(view->rules, i) - findings->rules);
        findings->roles_of_rule[rule] |= 1U << view->parts[i].role;
    }
    for (size_t i = 0; i < rule_count; i++) {
        const size_t previous = findings->rules[i].previous;
        findings->first_of_rule[i] = REDCO_RULES_NONE;
        findings->block_before[i] = previous;
        if (previous != REDCO_RULES_NONE && !is_block_rule(findings, previous)) {
            findings->block_before[i] = findings->block_before[previous];
        }
    }
    for (size_t i = 0; i < view->count; i++) {
        const size_t rule = (size_t)(redco_rules_of(view->rules, i) - findings->rules);
        check_key(findings, i, rule);
        check_shared_key(findings, i, rule);
        check_direction(findings, i, rule);
        check_fused(findings, i);
        check_heads(findings, i);
        check_vocabulary(findings, i, rule);
        check_relative_bias(findings, i);
        check_whole(findings, i, rule);
    }
}

redco_status redco_rules_warnings(const redco_rules_view *view, redco_rules_warning **warnings_out, size_t *count_out,
                                  redco_error *err)
{
    struct findings findings = {.view = view};
    const size_t rule_count = redco_rules_list(view->rules, &findings.rules);
    *warnings_out = NULL;
    *count_out = 0;
    if (rule_count == 0) { return REDCO_OK; }
    findings.first_of_rule = calloc(rule_count, sizeof *findings.first_of_rule);
    findings.roles_of_rule = calloc(rule_count, sizeof *findings.roles_of_rule);
    findings.block_before = calloc(rule_count, sizeof *findings.block_before);
    if (findings.first_of_rule == NULL || findings.roles_of_rule == NULL || findings.block_before == NULL) {
        findings.lost = true;
    } else {
        check_all(&findings, rule_count);
    }
    free(findings.first_of_rule);
    free(findings.roles_of_rule);
    free(findings.block_before);
    free(findings.next);
    if (findings.lost) {
        free(findings.list);
        return redco_fail(err, REDCO_ENOMEM, "rules", "out of memory");
    }
    *warnings_out = findings.list;
    *count_out = findings.count;
    return REDCO_OK;
}
