/* Rules that a user gives: their file, and which of them matches a path. */
#include "planner/rules/rules_user.h"
#include "planner/rules/rules_internal.h"
#include "topology/base/hostlist.h"
#include "topology/base/text.h"
#include "topology/base/word.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MATCH_BYTES = 1000, MAX_MATCH_NAMES = 16, MAX_PROPOSALS = 4096 };

struct redco_user_rules {
    redco_user_rule *list;
    size_t count;
    size_t *sorted; /* indexes in ascending order of their text */
    redco_user_mode mode;
    bool has_names[MAX_MATCH_NAMES + 1]; /* true where a rule has so many names */
    char place[sizeof((redco_error *)0)->place];
};

/* A piece of a path to look up; not 0-terminated. */
struct run {
    const char *text;
    size_t length;
};

static redco_status out_of_memory(const char *place, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, place, "out of memory");
}

static size_t names_in(const char *text)
{
    size_t names = 1;
    for (; *text != '\0'; text++) { names += *text == '/'; }
    return names;
}

static int compare_texts(const void *a, const void *b, void *list)
{
    const redco_user_rule *rules = list;
    return strcmp(rules[*(const size_t *)a].match, rules[*(const size_t *)b].match);
}

static size_t look_up(const redco_user_rules *user, struct run run)
{
    size_t low = 0;
    size_t high = user->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *text = user->list[user->sorted[middle]].match;
        const int order = strncmp(run.text, text, run.length);
        if (order == 0 && text[run.length] == '\0') { return user->sorted[middle]; }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle; /* an equal beginning of a longer text sorts first */
        }
    }
    return REDCO_RULES_NONE;
}

/* Index of the first rule that matches; marks every one that does in @p matched unless NULL. */
static size_t match_path(const redco_user_rules *user, const char *path, bool *matched)
{
    size_t best = REDCO_RULES_NONE;
    for (const char *start = path;; start += strcspn(start, "/") + 1) {
        const char *end = start;
        for (size_t names = 1; names <= MAX_MATCH_NAMES; names++) {
            end += strcspn(end, "/");
            const size_t found =
                user->has_names[names] ? look_up(user, (struct run){start, (size_t)(end - start)}) : REDCO_RULES_NONE;
            if (found != REDCO_RULES_NONE && matched != NULL) { matched[found] = true; }
            if (found < best) { best = found; }
            if (*end == '\0') { break; }
            end++;
        }
        if (start[strcspn(start, "/")] == '\0') { return best; }
    }
}

size_t redco_user_rule_of(const redco_user_rules *user, const char *path)
{
    return user != NULL && user->count > 0 ? match_path(user, path, NULL) : REDCO_RULES_NONE;
}

bool redcoi_user_rule_is(const redco_user_rules *user, const char *match)
{
    return user != NULL && look_up(user, (struct run){match, strlen(match)}) != REDCO_RULES_NONE;
}

/* Its index in the file. */
static size_t entry_of(const redco_user_rules *user, size_t rule)
{
    return user->list[rule].entry > 0 ? user->list[rule].entry - 1 : rule;
}

static const char *rule_place(const redco_user_rules *user, size_t rule, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%.480s/%zu", user->place, entry_of(user, rule));
    return buffer;
}

/* Copies of the @p names last names of a path and of those before the last, as far as there are so many.
 * @return false when out of memory */
static bool add_proposals(const char *path, size_t names, char **list, size_t *count)
{
    const size_t all = names_in(path);
    const char *end = path + strlen(path);
    for (size_t left = all; left >= names && left + 1 >= all; left--) {
        const char *start = end;
        for (size_t found = 0; start > path; start--) {
            if (start[-1] == '/' && ++found == names) { break; }
        }
        list[*count] = strndup(start, (size_t)(end - start));
        if (list[*count] == NULL) { return false; }
        (*count)++;
        while (end > path && *--end != '/') {}
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static redco_status fail_unmatched(const redco_user_rules *user, size_t rule, const redco_rules_param *params,
                                   size_t count, redco_error *err)
{
    char place[sizeof err->place];
    const char *match = user->list[rule].match;
    const char *known[MAX_PROPOSALS + 1] = {NULL};
    redco_status st = REDCO_OK;
    size_t used = 0;
    size_t distinct = 0;
    char **proposals = calloc(2 * count + 1, sizeof *proposals);
    (void)rule_place(user, rule, place, sizeof place);
    for (size_t i = 0; i < count && proposals != NULL && st == REDCO_OK; i++) {
        if (!add_proposals(params[i].path, names_in(match), proposals, &used)) { st = REDCO_ENOMEM; }
    }
    if (proposals == NULL || st != REDCO_OK) {
        st = out_of_memory(place, err);
        goto out;
    }
    qsort(proposals, used, sizeof *proposals, by_text);
    for (size_t i = 0; i < used && distinct < MAX_PROPOSALS; i++) {
        if (distinct == 0 || strcmp(known[distinct - 1], proposals[i]) != 0) { known[distinct++] = proposals[i]; }
    }
    st =
        distinct > 0
            ? redco_fail(err, REDCO_EVALUE, place, "\"%.200s\" matches no parameter; the nearest is \"%.200s\"", match,
                         redco_word_nearest(match, known))
            : redco_fail(err, REDCO_EVALUE, place, "\"%.200s\" matches no parameter: no path has so many names", match);
out:
    for (size_t i = 0; i < used; i++) { free(proposals[i]); }
    free(proposals);
    return st;
}

redco_status redcoi_user_rules_match(const redco_user_rules *user, const redco_rules_param *params, size_t count,
                                     redco_error *err)
{
    redco_status st = REDCO_OK;
    if (user->count == 0) { return REDCO_OK; }
    bool *matched = calloc(user->count, sizeof *matched);
    if (matched == NULL) { return out_of_memory(user->place, err); }
    for (size_t i = 0; i < count; i++) { (void)match_path(user, params[i].path, matched); }
    for (size_t i = 0; i < user->count && st == REDCO_OK; i++) {
        if (!matched[i]) { st = fail_unmatched(user, i, params, count, err); }
    }
    free(matched);
    return st;
}

/* "a/b/kernel [50257, 768]" */
static const char *param_text(const redco_rules_param *param, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "%.300s [", param->path);
    for (uint32_t i = 0; i < param->rank && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", param->shape[i]);
    }
    if (used < size) { (void)snprintf(buffer + used, size - used, "]"); }
    return buffer;
}

redco_status redcoi_user_rule_check(const redco_user_rules *user, size_t rule, const redco_rules_param *param,
                                    uint32_t shards, redco_error *err)
{
    char place[sizeof err->place];
    char text[500];
    const int32_t dim = user->list[rule].dim;
    if (dim < 0) { return REDCO_OK; }
    if (dim >= (int32_t)param->rank) {
        return redco_fail(err, REDCO_EVALUE, rule_place(user, rule, place, sizeof place),
                          "splits dimension %" PRId32 " of %s, which has %u; they are counted from 0", dim,
                          param_text(param, text, sizeof text), param->rank);
    }
    if (param->shape[dim] % shards != 0) {
        return redco_fail(err, REDCO_EVALUE, rule_place(user, rule, place, sizeof place),
                          "splits dimension %" PRId32 " of %s into %u shards, but %u does not divide %" PRIu64, dim,
                          param_text(param, text, sizeof text), shards, shards, param->shape[dim]);
    }
    return REDCO_OK;
}

redco_status redcoi_user_rule_missing(const redco_user_rules *user, const redco_rules_param *param, redco_error *err)
{
    char text[500];
    return redco_fail(err, REDCO_EVALUE, user->place,
                      "no rule matches %s; the mode \"replace\" needs one for every parameter (null keeps it whole)",
                      param_text(param, text, sizeof text));
}

static redco_status check_match(const char *match, const char *place, redco_error *err)
{
    const size_t length = strlen(match);
    if (length == 0 || match[0] == '/' || match[length - 1] == '/' || strstr(match, "//") != NULL) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "matches \"%.80s\"; names joined with '/', none of them empty, are needed", match);
    }
    if (length >= MAX_MATCH_BYTES) {
        return redco_fail(err, REDCO_EVALUE, place, "matches a text of %zu bytes; less than %d are read", length,
                          MAX_MATCH_BYTES);
    }
    if (names_in(match) > MAX_MATCH_NAMES) {
        return redco_fail(err, REDCO_EVALUE, place, "matches %zu names; at most %d are possible", names_in(match),
                          MAX_MATCH_NAMES);
    }
    if (!redco_text_is_plain(match)) {
        return redco_fail(err, REDCO_EVALUE, place, "matches a text with a control character");
    }
    return REDCO_OK;
}

static redco_status sort_rules(redco_user_rules *user, redco_error *err)
{
    char place[sizeof err->place];
    for (size_t i = 0; i < user->count; i++) {
        user->sorted[i] = i;
        user->has_names[names_in(user->list[i].match)] = true;
    }
    qsort_r(user->sorted, user->count, sizeof *user->sorted, compare_texts, user->list);
    for (size_t i = 1; i < user->count; i++) {
        const size_t a = user->sorted[i - 1];
        const size_t b = user->sorted[i];
        if (strcmp(user->list[a].match, user->list[b].match) == 0) {
            return redco_fail(err, REDCO_EVALUE, rule_place(user, a > b ? a : b, place, sizeof place),
                              "\"%.200s\" has a rule already, number %zu", user->list[a].match,
                              entry_of(user, a < b ? a : b));
        }
    }
    return REDCO_OK;
}

redco_status redco_user_rules_create(const redco_user_rule *list, size_t count, redco_user_mode mode, const char *place,
                                     redco_user_rules **rules_out, redco_error *err)
{
    char rule[sizeof err->place];
    redco_status st = REDCO_OK;
    if (count > REDCO_USER_RULES_MAX) {
        return redco_fail(err, REDCO_EVALUE, place, "has %zu rules; at most %d are read", count, REDCO_USER_RULES_MAX);
    }
    redco_user_rules *user = calloc(1, sizeof *user);
    if (user == NULL) { return out_of_memory(place, err); }
    user->mode = mode;
    (void)snprintf(user->place, sizeof user->place, "%s", place);
    user->list = calloc(count + 1, sizeof *user->list);
    user->sorted = calloc(count + 1, sizeof *user->sorted);
    if (user->list == NULL || user->sorted == NULL) {
        st = out_of_memory(place, err);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        user->list[i].entry = list[i].entry;
        st = check_match(list[i].match, rule_place(user, i, rule, sizeof rule), err);
        if (st != REDCO_OK) { goto out; }
        user->list[i] = (redco_user_rule){strdup(list[i].match), list[i].dim, list[i].entry};
        user->count = i + 1;
        if (user->list[i].match == NULL) {
            st = out_of_memory(place, err);
            goto out;
        }
    }
    if ((st = sort_rules(user, err)) != REDCO_OK) { goto out; }
    *rules_out = user;
    user = NULL;
out:
    redco_user_rules_free(user);
    return st;
}

redco_status redco_user_rules_of_plan(const redco_plan *plan, const char *place, redco_user_rules **rules_out,
                                      redco_error *err)
{
    redco_user_rule *const list = calloc((size_t)plan->rules_count + 1, sizeof *list);
    if (list == NULL) { return out_of_memory(place, err); }
    for (uint32_t i = 0; i < plan->rules_count; i++) {
        list[i] = (redco_user_rule){.match = plan->rules[i].match, .dim = plan->rules[i].dim};
    }
    const redco_status st = redco_user_rules_create(list, plan->rules_count, REDCO_USER_REPLACE, place, rules_out, err);
    free(list);
    return st;
}

void redco_user_rules_free(redco_user_rules *user)
{
    if (user == NULL) { return; }
    for (size_t i = 0; user->list != NULL && i < user->count; i++) { free((char *)(uintptr_t)user->list[i].match); }
    free(user->list);
    free(user->sorted);
    free(user);
}

redco_user_mode redco_user_rules_mode(const redco_user_rules *user)
{
    return user->mode;
}

void redco_user_rules_set_mode(redco_user_rules *user, redco_user_mode mode)
{
    user->mode = mode;
}

size_t redco_user_rules_list(const redco_user_rules *user, const redco_user_rule **list_out)
{
    *list_out = user->list;
    return user->count;
}

/* [null, "mp"]: at most one dimension is split. */
static redco_status read_spec(const redco_json_value *entry, redco_user_rule *rule, redco_error *err)
{
    redco_json_value spec;
    size_t rank = 0;
    const redco_status st = redco_json_array(entry, "spec", &spec, &rank, err);
    if (st != REDCO_OK) { return st; }
    rule->dim = REDCO_RULES_REPLICATED;
    for (size_t i = 0; i < rank; i++) {
        const json_t *item = json_array_get(spec.json, i);
        if (json_is_null(item)) { continue; }
        if (!json_is_string(item) || strcmp(json_string_value(item), "mp") != 0) {
            return redco_json_fail(entry, "spec", err, "may hold null and \"mp\" only");
        }
        if (rule->dim >= 0) { return redco_json_fail(entry, "spec", err, "splits two dimensions; one is possible"); }
        if (i >= REDCO_RULES_RANK_MAX) { return redco_json_fail(entry, "spec", err, "has too many dimensions"); }
        rule->dim = (int32_t)i;
    }
    return REDCO_OK;
}

static redco_status read_dim(const redco_json_value *entry, redco_user_rule *rule, redco_error *err)
{
    uint32_t dim = 0;
    rule->dim = REDCO_RULES_REPLICATED;
    if (json_is_null(json_object_get(entry->json, "dim"))) { return REDCO_OK; }
    const redco_status st = redco_json_u32(entry, "dim", 0, REDCO_RULES_RANK_MAX - 1, &dim, err);
    if (st == REDCO_OK) { rule->dim = (int32_t)dim; }
    return st;
}

/* {"match","dim"} as in a plan, {"key","spec"} as redco-rules prints. */
static redco_status read_rule(const redco_json_value *entry, redco_user_rule *rule, redco_error *err)
{
    /* The remarks that redco-rules --explain puts beside a rule are known words, so that its output can be edited and
     * read. */
    static const char *const keys[] = {"match", "key", "dim", "spec", "case", "why", "parameters", NULL};
    redco_status st = redco_json_only(entry, keys, err);
    if (st != REDCO_OK) { return st; }
    const bool match = json_object_get(entry->json, "match") != NULL;
    const bool dim = json_object_get(entry->json, "dim") != NULL;
    if (match == (json_object_get(entry->json, "key") != NULL)) {
        return redco_json_fail(entry, NULL, err, "needs \"match\" (or \"key\", which is the same, but not both)");
    }
    if (dim == (json_object_get(entry->json, "spec") != NULL)) {
        return redco_json_fail(entry, NULL, err, "needs \"dim\" (a number or null) or \"spec\", not both");
    }
    if ((st = redco_json_string(entry, match ? "match" : "key", &rule->match, err)) != REDCO_OK) { return st; }
    return dim ? read_dim(entry, rule, err) : read_spec(entry, rule, err);
}

static redco_status read_head(const redco_json_value *root, redco_user_mode *mode_out, redco_error *err)
{
    const char *mode = NULL;
    uint32_t version = 0;
    redco_status st = REDCO_OK;
    *mode_out = REDCO_USER_OVERRIDE;
    if (redco_json_has(root, "format") || redco_json_has(root, "version")) {
        if ((st = redco_json_format(root, "redco-rules", 1, &version, err)) != REDCO_OK) { return st; }
    }
    if (!redco_json_has(root, "mode")) { return REDCO_OK; }
    if ((st = redco_json_string(root, "mode", &mode, err)) != REDCO_OK) { return st; }
    if (strcmp(mode, "replace") == 0) {
        *mode_out = REDCO_USER_REPLACE;
    } else if (strcmp(mode, "override") != 0) {
        return redco_json_fail(root, "mode", err, "is \"%.40s\"; \"override\" or \"replace\" is needed", mode);
    }
    return REDCO_OK;
}

/* Rules as they are collected from a file, and what their ranges stand for. */
struct given {
    redco_user_rule *list;
    size_t count;
    redco_hostlist **names; /* per entry; NULL: without ranges */
    size_t entries;
};

static void given_free(struct given *given)
{
    for (size_t i = 0; given->names != NULL && i < given->entries; i++) { redco_hostlist_free(given->names[i]); }
    free(given->names);
    free(given->list);
}

/* One rule, or one for each name of its ranges. */
static redco_status add_rules(struct given *given, const redco_json_value *entry, size_t index, redco_error *err)
{
    char place[sizeof err->place];
    redco_user_rule rule = {.entry = index + 1};
    redco_status st = read_rule(entry, &rule, err);
    if (st != REDCO_OK) { return st; }
    size_t count = 1;
    if (strchr(rule.match, '[') != NULL) {
        given->names[index] = redco_hostlist_new();
        if (given->names[index] == NULL) { return out_of_memory(entry->name, err); }
        st = redco_hostlist_append(given->names[index], rule.match, strlen(rule.match),
                                   redco_json_place(entry, NULL, place, sizeof place), err);
        if (st != REDCO_OK) { return st; }
        count = redco_hostlist_count(given->names[index]);
    }
    if (count > REDCO_USER_RULES_MAX - given->count) {
        return redco_json_fail(entry, NULL, err, "makes more than %d rules, with those before", REDCO_USER_RULES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (given->names[index] != NULL) { rule.match = redco_hostlist_name(given->names[index], i); }
        given->list[given->count++] = rule;
    }
    return REDCO_OK;
}

redco_status redco_user_rules_from_json(const redco_json_value *root, redco_user_rules **rules_out, redco_error *err)
{
    char place[sizeof err->place];
    redco_json_value array;
    redco_user_mode mode = REDCO_USER_OVERRIDE;
    size_t count = 0;
    redco_status st = redco_json_array(root, "rules", &array, &count, err);
    if (st == REDCO_OK) { st = read_head(root, &mode, err); }
    if (st != REDCO_OK) { return st; }
    if (count == 0 || count > REDCO_USER_RULES_MAX) {
        return redco_json_fail(root, "rules", err, "has %zu entries; 1 to %d are needed", count, REDCO_USER_RULES_MAX);
    }
    struct given given = {.list = calloc(REDCO_USER_RULES_MAX, sizeof *given.list),
                          .names = calloc(count, sizeof(redco_hostlist *)),
                          .entries = count};
    if (given.list == NULL || given.names == NULL) { st = out_of_memory(root->name, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        st = redco_json_element(&array, i, &entry, err);
        if (st == REDCO_OK) { st = add_rules(&given, &entry, i, err); }
    }
    if (st == REDCO_OK) {
        st = redco_user_rules_create(given.list, given.count, mode,
                                     redco_json_place(root, "rules", place, sizeof place), rules_out, err);
    }
    given_free(&given);
    return st;
}

redco_status redco_user_rules_read(const char *path, redco_user_rules **rules_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_open(path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_user_rules_from_json(&root, rules_out, err);
    redco_json_close(document);
    return st;
}
