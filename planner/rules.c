#include "planner/rules.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A part of a path, or a whole text; not 0-terminated. */
struct name {
    const char *text;
    size_t length;
};

/* Last name of a path, or for a kernel the last two. */
struct key {
    struct name names[2];
    uint32_t count;
};

/* A parameter under its key. */
struct entry {
    struct key key;
    size_t index;
};

/* The parameters of one key. */
struct group {
    struct key key;
    bool splittable; /* a kernel or an embedding whose ranks agree */
    bool in_attention;
    bool valid[REDCO_RULES_RANK_MAX];
    uint32_t rank;
};

struct redco_rules {
    struct group *groups; /* one per rule, in the same order; keys point into texts of the rules */
    redco_rule *rules;
    size_t count;
    size_t *rule_of; /* per parameter */
    int32_t *dims;   /* per parameter */
};

static bool is(struct name name, const char *text)
{
    return name.length == strlen(text) && memcmp(name.text, text, name.length) == 0;
}

static bool starts_with(struct name name, const char *text)
{
    const size_t length = strlen(text);
    return name.length >= length && memcmp(name.text, text, length) == 0;
}

static bool ends_with(struct name name, const char *text)
{
    const size_t length = strlen(text);
    return name.length >= length && memcmp(name.text + name.length - length, text, length) == 0;
}

static bool is_one_of(char letter, const char *letters)
{
    while (*letters != '\0' && *letters != letter) { letters++; }
    return *letters != '\0';
}

static bool at_an_end(struct name name, const char *letters)
{
    return name.length > 0 && (is_one_of(name.text[0], letters) || is_one_of(name.text[name.length - 1], letters));
}

/* One of the words between underscores is @p word. */
static bool has_word(struct name name, const char *word)
{
    const char *end = name.text + name.length;
    for (const char *start = name.text; start <= end;) {
        const char *stop = memchr(start, '_', (size_t)(end - start));
        if (stop == NULL) { stop = end; }
        if (is((struct name){start, (size_t)(stop - start)}, word)) { return true; }
        start = stop + 1;
    }
    return false;
}

/* Bytes of UTF-8 sort as code points do. */
static int compare_names(struct name a, struct name b)
{
    const size_t shorter = a.length < b.length ? a.length : b.length;
    const int order = memcmp(a.text, b.text, shorter);
    if (order != 0) { return order; }
    return a.length < b.length ? -1 : a.length > b.length;
}

static int compare_keys(const struct key *a, const struct key *b)
{
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        const int order = compare_names(a->names[i], b->names[i]);
        if (order != 0) { return order; }
    }
    return a->count < b->count ? -1 : a->count > b->count;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *first = a;
    const struct entry *second = b;
    const int order = compare_keys(&first->key, &second->key);
    if (order != 0) { return order; }
    return first->index < second->index ? -1 : 1;
}

static int compare_groups(const void *a, const void *b)
{
    return compare_keys(&((const struct group *)a)->key, &((const struct group *)b)->key);
}

static struct name name_before(const char *path, const char *end)
{
    const char *start = end;
    while (start > path && start[-1] != '/') { start--; }
    return (struct name){start, (size_t)(end - start)};
}

static struct key key_of(const char *path)
{
    const struct name last = name_before(path, path + strlen(path));
    if (!is(last, "kernel") || last.text == path) { return (struct key){.names = {last}, .count = 1}; }
    return (struct key){.names = {name_before(path, last.text - 1), last}, .count = 2};
}

static bool names_attention(const char *path)
{
    /* A name has no '/', hence what stands in the path stands in one name. */
    return strcasestr(path, "attention") != NULL || strcasestr(path, "attn") != NULL;
}

static struct name last_of(const struct key *key)
{
    return key->names[key->count - 1];
}

static void begin_group(struct group *group, const struct key *key, uint32_t rank)
{
    *group = (struct group){.key = *key, .in_attention = true, .rank = rank};
    group->splittable = is(last_of(key), "kernel") || is(last_of(key), "embedding");
    for (uint32_t i = 0; i < rank; i++) { group->valid[i] = true; }
}

static void add_to_group(struct group *group, const redco_rules_param *param, uint32_t shards)
{
    if (param->rank != group->rank) { group->splittable = false; }
    if (!group->splittable) { return; }
    for (uint32_t i = 0; i < param->rank; i++) {
        if (param->shape[i] % shards != 0) { group->valid[i] = false; }
    }
    if (!names_attention(param->path)) { group->in_attention = false; }
}

enum order { PLAIN, HIGHEST, LOWEST };

/* The cases (a) to (g) of the reference, in its order: which valid dimension is preferred. */
static enum order preference(const struct group *group)
{
    const struct name first = group->key.names[0];
    if (is(last_of(&group->key), "embedding")) { return LOWEST; }
    if (group->in_attention && at_an_end(first, "qkv")) { return HIGHEST; }
    if (group->in_attention && at_an_end(first, "o")) { return LOWEST; }
    if (starts_with(first, "up") || starts_with(first, "gate") || starts_with(first, "wi") || has_word(first, "in")) {
        return HIGHEST;
    }
    if (starts_with(first, "down") || starts_with(first, "wo") || has_word(first, "out")) { return LOWEST; }
    if (starts_with(first, "head") || ends_with(first, "head")) { return HIGHEST; }
    return PLAIN;
}

/* Highest valid dimension below @p below, or -1. */
static int32_t highest_valid(const struct group *group, int32_t below)
{
    int32_t dim = below - 1;
    while (dim >= 0 && !group->valid[dim]) { dim--; }
    return dim;
}

static int32_t lowest_valid(const struct group *group)
{
    for (int32_t dim = 0; dim < (int32_t)group->rank; dim++) {
        if (group->valid[dim]) { return dim; }
    }
    return REDCO_RULES_REPLICATED;
}

/* @p last: the dimension that the plain keys before this one took; they alternate. */
static int32_t choose_dim(const struct group *group, int32_t *last)
{
    if (!group->splittable) { return REDCO_RULES_REPLICATED; }
    const enum order order = preference(group);
    if (order == LOWEST) { return lowest_valid(group); }
    int32_t dim = highest_valid(group, (int32_t)group->rank);
    if (order == HIGHEST || dim < 0) { return dim; }
    if (dim == *last) {
        const int32_t next = highest_valid(group, dim);
        if (next >= 0) { dim = next; }
    }
    *last = dim;
    return dim;
}

static size_t fill_groups(const struct entry *entries, size_t count, const redco_rules_param *params, uint32_t shards,
                          struct group *groups)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const redco_rules_param *param = &params[entries[i].index];
        if (i == 0 || compare_keys(&entries[i - 1].key, &entries[i].key) != 0) {
            begin_group(&groups[used++], &entries[i].key, param->rank);
        }
        add_to_group(&groups[used - 1], param, shards);
    }
    return used;
}

/* The rule keeps its own text of the key: the paths are borrowed. */
static bool own_key(struct group *group, redco_rule *rule)
{
    const struct name last = last_of(&group->key);
    const struct name first = group->key.names[0];
    const size_t length = (size_t)(last.text + last.length - first.text);
    char *text = malloc(length + 1);
    if (text == NULL) { return false; }
    memcpy(text, first.text, length);
    text[length] = '\0';
    for (uint32_t i = 0; i < group->key.count; i++) {
        group->key.names[i].text = text + (group->key.names[i].text - first.text);
    }
    rule->key = text;
    return true;
}

static bool make_rules(redco_rules *rules)
{
    int32_t last = REDCO_RULES_REPLICATED;
    rules->rules = calloc(rules->count + 1, sizeof *rules->rules);
    if (rules->rules == NULL) { return false; }
    for (size_t i = 0; i < rules->count; i++) {
        redco_rule *rule = &rules->rules[i];
        rule->dim = choose_dim(&rules->groups[i], &last);
        rule->rank = rule->dim >= 0 ? rules->groups[i].rank : 0;
        if (!own_key(&rules->groups[i], rule)) { return false; }
    }
    return true;
}

static size_t earliest(const redco_rules *rules, const struct key *key, size_t best)
{
    const struct group wanted = {.key = *key};
    const struct group *found = bsearch(&wanted, rules->groups, rules->count, sizeof wanted, compare_groups);
    const size_t index = found != NULL ? (size_t)(found - rules->groups) : best;
    return index < best ? index : best;
}

/* Rules have one or two names; the first in order that stands anywhere in the path. Its own key is one of them. */
static size_t resolve(const redco_rules *rules, const char *path)
{
    size_t best = rules->count;
    struct key key = {.count = 0};
    for (const char *start = path;; start++) {
        const size_t length = strcspn(start, "/");
        key.names[0] = key.names[1];
        key.names[1] = (struct name){start, length};
        if (start != path) {
            key.count = 2;
            best = earliest(rules, &key, best);
        }
        best = earliest(rules, &(struct key){.names = {key.names[1]}, .count = 1}, best);
        start += length;
        if (*start == '\0') { return best; }
    }
}

/* A rule found by another key than the parameter's own may name a dimension that it does not have. */
static int32_t dim_of(const redco_rule *rule, const redco_rules_param *param)
{
    return rule->dim < (int32_t)param->rank ? rule->dim : REDCO_RULES_REPLICATED;
}

static redco_status check(const redco_rules_param *params, size_t count, uint32_t shards, redco_error *err)
{
    if (shards == 0) { return redco_fail(err, REDCO_EVALUE, "shards", "must be at least 1"); }
    for (size_t i = 0; i < count; i++) {
        if (params[i].rank > REDCO_RULES_RANK_MAX) {
            return redco_fail(err, REDCO_EVALUE, params[i].path, "has %u dimensions; at most %d are possible",
                              params[i].rank, REDCO_RULES_RANK_MAX);
        }
    }
    return REDCO_OK;
}

static bool decide(redco_rules *rules, struct entry *entries, const redco_rules_param *params, size_t count,
                   uint32_t shards)
{
    for (size_t i = 0; i < count; i++) { entries[i] = (struct entry){.key = key_of(params[i].path), .index = i}; }
    qsort(entries, count, sizeof *entries, compare_entries);
    rules->count = fill_groups(entries, count, params, shards, rules->groups);
    if (!make_rules(rules)) { return false; }
    for (size_t i = 0; i < count; i++) {
        rules->rule_of[i] = resolve(rules, params[i].path);
        rules->dims[i] = dim_of(&rules->rules[rules->rule_of[i]], &params[i]);
    }
    return true;
}

redco_status redco_rules_decide(const redco_rules_param *params, size_t count, uint32_t shards, redco_rules **rules_out,
                                redco_error *err)
{
    redco_status st = check(params, count, shards, err);
    if (st != REDCO_OK) { return st; }
    redco_rules *rules = calloc(1, sizeof *rules);
    struct entry *entries = calloc(count + 1, sizeof *entries);
    if (rules == NULL || entries == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "rules", "out of memory");
        goto out;
    }
    rules->groups = calloc(count + 1, sizeof *rules->groups);
    rules->rule_of = calloc(count + 1, sizeof *rules->rule_of);
    rules->dims = calloc(count + 1, sizeof *rules->dims);
    if (rules->groups == NULL || rules->rule_of == NULL || rules->dims == NULL ||
        (shards > 1 && !decide(rules, entries, params, count, shards))) {
        st = redco_fail(err, REDCO_ENOMEM, "rules", "out of memory");
        goto out;
    }
    for (size_t i = 0; shards == 1 && i < count; i++) { rules->dims[i] = REDCO_RULES_REPLICATED; }
    *rules_out = rules;
    rules = NULL;
out:
    redco_rules_free(rules);
    free(entries);
    return st;
}

void redco_rules_free(redco_rules *rules)
{
    if (rules == NULL) { return; }
    for (size_t i = 0; rules->rules != NULL && i < rules->count; i++) { free((char *)(uintptr_t)rules->rules[i].key); }
    free(rules->rules);
    free(rules->groups);
    free(rules->rule_of);
    free(rules->dims);
    free(rules);
}

size_t redco_rules_list(const redco_rules *rules, const redco_rule **list_out)
{
    *list_out = rules->rules;
    return rules->count;
}

const redco_rule *redco_rules_of(const redco_rules *rules, size_t index)
{
    return rules->count > 0 ? &rules->rules[rules->rule_of[index]] : NULL;
}

int32_t redco_rules_dim(const redco_rules *rules, size_t index)
{
    return rules->dims[index];
}
