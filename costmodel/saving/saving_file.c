/* Rule files, and the ones that ship. */
#include "costmodel/saving/saving_rules.h"
#include "topology/base/preset.h"
#include "topology/base/text.h"
#include "topology/base/word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

static const char format_name[] = "redco-saving";
static const uint32_t newest_version = 1;
enum { MOST_BYTES = 64 };

const char *const redco_saver_words[] = {"te",    "local",  "eager",    "compiled", "by-op", "xla",
                                         "remat", "copies", "formulas", "planned",  NULL};

static const char *const condition_words[] = {"plain_norm", "dropout",    "fused_scores", "unfused_scores",
                                              "all_to_all", "made_again", "autocast",     "fp8_activation_input",
                                              NULL};

static redco_status find_word(const redco_json_value *value, const char *key, const char *text,
                              const char *const *known, uint32_t *at_out, redco_error *err)
{
    for (*at_out = 0; known[*at_out] != NULL; (*at_out)++) {
        if (strcmp(known[*at_out], text) == 0) { return REDCO_OK; }
    }
    return redco_json_fail(value, key, err, "is \"%.40s\", which is not known; \"%s\" is the nearest", text,
                           redco_word_nearest(text, known));
}

static redco_status read_conditions(const redco_json_value *rule, const char *key, uint32_t *bits_out, redco_error *err)
{
    redco_json_value array;
    size_t count = 0;
    redco_status st = redco_json_has(rule, key) ? redco_json_array(rule, key, &array, &count, err) : REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        uint32_t at = 0;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        const char *const text = json_is_string(entry.json) ? json_string_value(entry.json) : "";
        st = find_word(&entry, NULL, text, condition_words, &at, err);
        *bits_out |= st == REDCO_OK ? 1U << at : 0;
    }
    return st;
}

static redco_status read_flags(const redco_json_value *value, redco_saving_rule *rule, redco_error *err)
{
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"fixed", &rule->fixed},   {"whole", &rule->whole},   {"in_product", &rule->in_product},
                 {"result", &rule->result}, {"within", &rule->within}, {"beside", &rule->beside}};
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && st == REDCO_OK; i++) {
        if (redco_json_has(value, flags[i].key)) { st = redco_json_bool(value, flags[i].key, flags[i].flag, err); }
    }
    return st;
}

static redco_status read_rule(const redco_json_value *value, redco_saving_rule *rule, redco_error *err)
{
    static const char *const keys[] = {"name",  "tensor",     "bytes",  "per",    "narrow_bytes",
                                       "when",  "unless",     "source", "result", "fixed",
                                       "whole", "in_product", "within", "beside", NULL};
    const char *text = NULL;
    uint32_t at = 0;
    *rule = (redco_saving_rule){.per = 1};
    redco_status st = redco_json_only(value, keys, err);
    if (st != REDCO_OK || (st = redco_json_label(value, "name", rule->name, sizeof rule->name, err)) != REDCO_OK ||
        (st = redco_json_label(value, "source", rule->source, sizeof rule->source, err)) != REDCO_OK ||
        (st = redco_json_string(value, "tensor", &text, err)) != REDCO_OK ||
        (st = find_word(value, "tensor", text, redco_site_words, &at, err)) != REDCO_OK ||
        (st = redco_json_u32(value, "bytes", 0, MOST_BYTES, &rule->bytes, err)) != REDCO_OK) {
        return st;
    }
    rule->site = (redco_site)at;
    rule->narrow_bytes = rule->bytes;
    if (redco_json_has(value, "narrow_bytes")) {
        st = redco_json_u32(value, "narrow_bytes", 0, MOST_BYTES, &rule->narrow_bytes, err);
    }
    if (st == REDCO_OK && redco_json_has(value, "per")) {
        st = redco_json_u32(value, "per", 1, MOST_BYTES, &rule->per, err);
    }
    if (st != REDCO_OK || (st = read_conditions(value, "when", &rule->when, err)) != REDCO_OK ||
        (st = read_conditions(value, "unless", &rule->unless, err)) != REDCO_OK) {
        return st;
    }
    return read_flags(value, rule, err);
}

static redco_status read_factor(const redco_json_value *file, redco_saving_set *set, redco_error *err)
{
    static const char *const keys[] = {"times", "per", "source", NULL};
    redco_json_value factor;
    redco_status st = redco_json_object(file, "factor", &factor, err);
    if (st != REDCO_OK || (st = redco_json_only(&factor, keys, err)) != REDCO_OK ||
        (st = redco_json_u32(&factor, "times", 1, 100, &set->factor, err)) != REDCO_OK ||
        (st = redco_json_u32(&factor, "per", 1, 100, &set->per, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_label(&factor, "source", set->factor_source, sizeof set->factor_source, err);
}

redco_status redco_saving_set_read(const redco_json_value *file, redco_saving_set *set_out, redco_error *err)
{
    static const char *const keys[] = {"format", "version", "title", "factor", "rules", NULL};
    redco_saving_set set = {.factor = 1, .per = 1};
    redco_json_value rules;
    uint32_t version = 0;
    size_t count = 0;
    redco_status st = redco_json_format(file, format_name, newest_version, &version, err);
    if (st != REDCO_OK || (st = redco_json_only(file, keys, err)) != REDCO_OK ||
        (st = redco_json_label(file, "title", set.title, sizeof set.title, err)) != REDCO_OK ||
        (redco_json_has(file, "factor") && (st = read_factor(file, &set, err)) != REDCO_OK) ||
        (st = redco_json_array(file, "rules", &rules, &count, err)) != REDCO_OK) {
        return st;
    }
    if (count > REDCO_SAVING_RULES) {
        return redco_json_fail(file, "rules", err, "has %zu rules; at most %d are possible", count, REDCO_SAVING_RULES);
    }
    for (; set.count < count; set.count++) {
        redco_json_value value;
        if ((st = redco_json_element(&rules, set.count, &value, err)) != REDCO_OK ||
            (st = read_rule(&value, &set.rules[set.count], err)) != REDCO_OK) {
            return st;
        }
    }
    *set_out = set;
    return REDCO_OK;
}

static redco_saving_set shipped[REDCO_SAVER_COUNT];
static bool is_read[REDCO_SAVER_COUNT];
static once_flag once = ONCE_FLAG_INIT;

static void read_shipped(void)
{
    for (int i = 0; i < REDCO_SAVER_COUNT; i++) {
        redco_json *document = NULL;
        if (redco_preset_open("saving", "a rule set", redco_saver_words[i], &document, NULL) != REDCO_OK) { continue; }
        const redco_json_value root = redco_json_root(document);
        is_read[i] = redco_saving_set_read(&root, &shipped[i], NULL) == REDCO_OK;
        redco_json_close(document);
    }
}

const redco_saving_set *redco_saving_set_of(redco_saver saver)
{
    call_once(&once, read_shipped);
    return is_read[saver] ? &shipped[saver] : NULL;
}
