#include "planner/rules/rules.h"
#include "planner/rules/rules_internal.h"

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
    redco_rule_case reason; /* NO_WEIGHT, RANKS, or else PLAIN until its name is looked at */
    bool in_attention;
    bool valid[REDCO_RULES_RANK_MAX];
    uint32_t rank;
};

struct redco_rules {
    struct group *groups; /* one per rule of RedCoast's, in the same order; keys point into texts of the rules */
    size_t group_count;
    redco_rule *rules; /* the user's, then RedCoast's */
    size_t given;      /* the user's */
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
    group->reason =
        is(last_of(key), "kernel") || is(last_of(key), "embedding") ? REDCO_RULE_PLAIN : REDCO_RULE_NO_WEIGHT;
    for (uint32_t i = 0; i < rank; i++) { group->valid[i] = true; }
}

static void add_to_group(struct group *group, const redco_rules_param *param, uint32_t shards)
{
    if (group->reason == REDCO_RULE_PLAIN && param->rank != group->rank) { group->reason = REDCO_RULE_RANKS; }
    if (group->reason != REDCO_RULE_PLAIN) { return; }
    for (uint32_t i = 0; i < param->rank; i++) {
        if (param->shape[i] % shards != 0) { group->valid[i] = false; }
    }
    if (!names_attention(param->path)) { group->in_attention = false; }
}

/* The cases (a) to (g) of the reference, in its order. */
static redco_rule_case case_of(const struct group *group)
{
    const struct name first = group->key.names[0];
    if (is(last_of(&group->key), "embedding")) { return REDCO_RULE_EMBEDDING; }
    if (group->in_attention && at_an_end(first, "qkv")) { return REDCO_RULE_ATTENTION_IN; }
    if (group->in_attention && at_an_end(first, "o")) { return REDCO_RULE_ATTENTION_OUT; }
    if (starts_with(first, "up") || starts_with(first, "gate") || starts_with(first, "wi") || has_word(first, "in")) {
        return REDCO_RULE_FFN_IN;
    }
    if (starts_with(first, "down") || starts_with(first, "wo") || has_word(first, "out")) { return REDCO_RULE_FFN_OUT; }
    if (starts_with(first, "head") || ends_with(first, "head")) { return REDCO_RULE_HEAD; }
    return REDCO_RULE_PLAIN;
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

/* @p last: index of the plain key before; plain keys alternate. */
static void choose_dim(redco_rules *rules, size_t index, size_t *last)
{
    const struct group *group = &rules->groups[index - rules->given];
    redco_rule *rule = &rules->rules[index];
    const int32_t highest = highest_valid(group, (int32_t)group->rank);
    rule->dim = REDCO_RULES_REPLICATED;
    rule->previous = REDCO_RULES_NONE;
    rule->reason = group->reason;
    if (group->reason != REDCO_RULE_PLAIN) { return; }
    rule->reason = highest < 0 ? REDCO_RULE_INDIVISIBLE : case_of(group);
    switch (rule->reason) {
    case REDCO_RULE_EMBEDDING:
    case REDCO_RULE_ATTENTION_OUT:
    case REDCO_RULE_FFN_OUT: rule->dim = lowest_valid(group); return;
    case REDCO_RULE_PLAIN: break;
    default: rule->dim = highest; return; /* -1 where nothing is valid */
    }
    const int32_t next = highest_valid(group, highest);
    rule->previous = *last;
    rule->turned = *last != REDCO_RULES_NONE && rules->rules[*last].dim == highest && next >= 0;
    rule->dim = rule->turned ? next : highest;
    *last = index;
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

static bool make_rules(redco_rules *rules, const redco_user_rules *user)
{
    size_t last = REDCO_RULES_NONE;
    for (size_t i = rules->given; i < rules->given + rules->group_count; i++) {
        struct group *group = &rules->groups[i - rules->given];
        choose_dim(rules, i, &last);
        rules->rules[i].rank = rules->rules[i].dim >= 0 ? group->rank : 0;
        if (!own_key(group, &rules->rules[i])) { return false; }
        rules->rules[i].overridden = redcoi_user_rule_is(user, rules->rules[i].key);
        rules->count = i + 1;
    }
    return true;
}

static size_t earliest(const redco_rules *rules, const struct key *key, size_t best)
{
    const struct group wanted = {.key = *key};
    const struct group *found = bsearch(&wanted, rules->groups, rules->group_count, sizeof wanted, compare_groups);
    const size_t index = found != NULL ? (size_t)(found - rules->groups) : best;
    return index < best ? index : best;
}

/* Rules have one or two names; the first in order that stands anywhere in the path. Its own key is one of them. */
static size_t resolve(const redco_rules *rules, const char *path)
{
    size_t best = rules->group_count;
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

/* @return false when out of memory */
static bool copy_given(redco_rules *rules, const redco_user_rules *user)
{
    const redco_user_rule *list = NULL;
    const size_t count = user != NULL ? redco_user_rules_list(user, &list) : 0;
    for (size_t i = 0; i < count; i++) {
        rules->rules[i] = (redco_rule){
            .key = strdup(list[i].match), .dim = list[i].dim, .reason = REDCO_RULE_USER, .previous = REDCO_RULES_NONE};
        if (rules->rules[i].key == NULL) { return false; }
        rules->count = i + 1;
    }
    rules->given = count;
    return true;
}

static redco_status take_given(redco_rules *rules, const redco_user_rules *user, const redco_rules_param *params,
                               size_t count, uint32_t shards, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const size_t given = redco_user_rule_of(user, params[i].path);
        rules->rule_of[i] = given;
        if (given == REDCO_RULES_NONE) { continue; }
        redco_rule *rule = &rules->rules[given];
        if (rule->dim >= 0 && rule->rank == 0) { rule->rank = params[i].rank; }
        st = redcoi_user_rule_check(user, given, &params[i], shards, err);
    }
    return st;
}

static redco_status out_of_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "rules", "out of memory");
}

static redco_status check_all_taken(const redco_rules *rules, const redco_user_rules *user,
                                    const redco_rules_param *params, size_t count, redco_error *err)
{
    if (user == NULL || redco_user_rules_mode(user) != REDCO_USER_REPLACE) { return REDCO_OK; }
    for (size_t i = 0; i < count; i++) {
        if (rules->rule_of[i] == REDCO_RULES_NONE) { return redcoi_user_rule_missing(user, &params[i], err); }
    }
    return REDCO_OK;
}

static redco_status decide(redco_rules *rules, const redco_user_rules *user, const redco_rules_param *params,
                           size_t count, uint32_t shards, redco_error *err)
{
    redco_status st = REDCO_OK;
    struct entry *entries = calloc(count + 1, sizeof *entries);
    if (entries == NULL) { return out_of_memory(err); }
    for (size_t i = 0; i < count; i++) { entries[i] = (struct entry){.key = key_of(params[i].path), .index = i}; }
    qsort(entries, count, sizeof *entries, compare_entries);
    if (user == NULL || redco_user_rules_mode(user) == REDCO_USER_OVERRIDE) {
        rules->group_count = fill_groups(entries, count, params, shards, rules->groups);
    }
    free(entries);
    if (!copy_given(rules, user) || !make_rules(rules, user)) { return out_of_memory(err); }
    if ((st = take_given(rules, user, params, count, shards, err)) != REDCO_OK ||
        (st = check_all_taken(rules, user, params, count, err)) != REDCO_OK) {
        return st;
    }
    for (size_t i = 0; i < count; i++) {
        if (rules->rule_of[i] == REDCO_RULES_NONE) {
            rules->rule_of[i] = rules->given + resolve(rules, params[i].path);
        }
        rules->dims[i] = dim_of(&rules->rules[rules->rule_of[i]], &params[i]);
    }
    return REDCO_OK;
}

static redco_rules *new_rules(size_t count, size_t given)
{
    redco_rules *rules = calloc(1, sizeof *rules);
    if (rules == NULL) { return NULL; }
    rules->groups = calloc(count + 1, sizeof *rules->groups);
    rules->rules = calloc(count + given + 1, sizeof *rules->rules);
    rules->rule_of = calloc(count + 1, sizeof *rules->rule_of);
    rules->dims = calloc(count + 1, sizeof *rules->dims);
    if (rules->groups == NULL || rules->rules == NULL || rules->rule_of == NULL || rules->dims == NULL) {
        redco_rules_free(rules);
        return NULL;
    }
    return rules;
}

redco_status redco_rules_decide_user(const redco_rules_param *params, size_t count, uint32_t shards,
                                     const redco_user_rules *user, redco_rules **rules_out, redco_error *err)
{
    const redco_user_rule *list = NULL;
    redco_status st = check(params, count, shards, err);
    if (st == REDCO_OK && user != NULL) { st = redcoi_user_rules_match(user, params, count, err); }
    if (st != REDCO_OK) { return st; }
    redco_rules *rules = new_rules(count, user != NULL ? redco_user_rules_list(user, &list) : 0);
    if (rules == NULL) { return out_of_memory(err); }
    if (shards > 1) {
        st = decide(rules, user, params, count, shards, err);
    } else {
        for (size_t i = 0; i < count; i++) { rules->dims[i] = REDCO_RULES_REPLICATED; }
    }
    if (st != REDCO_OK) {
        redco_rules_free(rules);
        return st;
    }
    *rules_out = rules;
    return REDCO_OK;
}

redco_status redco_rules_decide(const redco_rules_param *params, size_t count, uint32_t shards, redco_rules **rules_out,
                                redco_error *err)
{
    return redco_rules_decide_user(params, count, shards, NULL, rules_out, err);
}

void redco_rules_free(redco_rules *rules)
{
    if (rules == NULL) { return; }
    for (size_t i = 0; i < rules->count; i++) { free((char *)(uintptr_t)rules->rules[i].key); }
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
