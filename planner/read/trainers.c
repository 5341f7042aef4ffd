#include "planner/read/trainers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const redcoi_trainer *const redcoi_trainers[] = {
    &redcoi_megatron_keys,   &redcoi_mlperf_keys,       &redcoi_deepspeed_keys,
    &redcoi_fsdp_keys,       &redcoi_accelerate_keys,   &redcoi_transformers_keys,
    &redcoi_torchtitan_keys, &redcoi_nemo_keys,         &redcoi_megatron_bridge_keys,
    &redcoi_swift_keys,      &redcoi_neox_keys,         &redcoi_foundry_keys,
    &redcoi_maxtext_keys,    &redcoi_axolotl_keys,      &redcoi_internevo_keys,
    &redcoi_litgpt_keys,     &redcoi_llamafactory_keys, NULL};

/* Without dashes in front and without a section that the table leaves out. */
static const char *bare(const redcoi_trainer *trainer, const char *key)
{
    for (size_t i = 0; trainer->prefixes != NULL && trainer->prefixes[i] != NULL; i++) {
        const size_t length = strlen(trainer->prefixes[i]);
        if (strncmp(key, trainer->prefixes[i], length) == 0) {
            key += length;
            break;
        }
    }
    return key + strspn(key, "-");
}

/* The row of a name in one table: the key itself, else the longest that ends with "*". */
static const redcoi_trainer_key *row_of(const redcoi_trainer_key *keys, const char *name)
{
    const redcoi_trainer_key *wide = NULL;
    for (const redcoi_trainer_key *row = keys; row->key != NULL; row++) {
        const size_t length = strlen(row->key);
        if (!redcoi_key_matches(row->key, name)) { continue; }
        if (row->key[length - 1] != '*') { return row; }
        if (wide == NULL || length > strlen(wide->key)) { wide = row; }
    }
    return wide;
}

static bool is_wide(const redcoi_trainer_key *row)
{
    return row->key[strlen(row->key) - 1] == '*';
}

const redcoi_trainer_key *redcoi_key_of(const redcoi_trainer *trainer, const char *key)
{
    const char *const name = bare(trainer, key);
    const redcoi_trainer_key *const own = row_of(trainer->keys, name);
    const size_t section = trainer->core != NULL ? strlen(trainer->core_section) : 0;
    if ((own != NULL && !is_wide(own)) || trainer->core == NULL || strncmp(name, trainer->core_section, section) != 0) {
        return own;
    }
    const redcoi_trainer_key *const core = row_of(trainer->core->keys, name + section);
    return core != NULL && (own == NULL || !is_wide(core)) ? core : own;
}

const char *redcoi_key_name(const redcoi_trainer *trainer, const redcoi_trainer_key *row, char *buffer, size_t size)
{
    bool own = false;
    for (const redcoi_trainer_key *one = trainer->keys; one->key != NULL; one++) { own = own || one == row; }
    (void)snprintf(buffer, size, "%s%s", own ? "" : trainer->core_section, row->key);
    for (char *c = buffer; !own && *c != '\0'; c++) { *c = *c == '-' ? '_' : *c; }
    return buffer;
}

static bool is_yes(const char *value)
{
    static const char *const words[] = {"true", "yes", "on", "1", "y", "t"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], value) == 0) { return true; }
    }
    return false;
}

static bool is_no(const char *value)
{
    static const char *const words[] = {"false", "no", "off", "0", "n", "f", "none", "null", ""};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(words[i], value) == 0) { return true; }
    }
    return false;
}

/* The next pair of a list. @return behind it, NULL at the end */
static const char *next_pair(const char *at, redcoi_span *theirs, redcoi_span *ours)
{
    at += strspn(at, " ");
    if (*at == '\0') { return NULL; }
    theirs->text = at;
    theirs->size = strcspn(at, "= ");
    at += theirs->size + (at[theirs->size] == '=' ? 1 : 0);
    ours->text = at;
    ours->size = strcspn(at, " ");
    return at + ours->size;
}

static bool span_is(redcoi_span span, const char *text)
{
    return strlen(text) == span.size && strncasecmp(span.text, text, span.size) == 0;
}

bool redcoi_key_value(const redcoi_trainer_key *row, const char *value, char *out, size_t size)
{
    redcoi_span theirs, ours;
    const char *at = row->values;
    if (row->values == NULL) {
        (void)snprintf(out, size, "%s", value);
        return true;
    }
    while ((at = next_pair(at, &theirs, &ours)) != NULL) {
        const bool any = span_is(theirs, "*");
        const bool same = span_is(theirs, value) || (span_is(theirs, "true") && is_yes(value)) ||
                          (span_is(theirs, "false") && is_no(value));
        if (!any && !same) { continue; }
        if (any && span_is(ours, "*")) {
            (void)snprintf(out, size, "%s", value);
        } else {
            (void)snprintf(out, size, "%.*s", (int)ours.size, ours.text);
        }
        return true;
    }
    return false;
}

bool redcoi_key_text(const redcoi_trainer_key *row, const char *value, char *out, size_t size)
{
    redcoi_span theirs, ours;
    const char *at = row->values;
    if (row->values == NULL) {
        (void)snprintf(out, size, "%s", value);
        return true;
    }
    while ((at = next_pair(at, &theirs, &ours)) != NULL) {
        if (span_is(theirs, "*") && span_is(ours, "*")) {
            (void)snprintf(out, size, "%s", value);
            return true;
        }
        if (span_is(theirs, "*") || !span_is(ours, value)) { continue; }
        (void)snprintf(out, size, "%.*s", (int)theirs.size, theirs.text);
        return true;
    }
    return false;
}

static const redcoi_trainer_key *row_for(const redcoi_trainer_key *keys, const char *target, const char *value,
                                         char *text_out, size_t size)
{
    for (const redcoi_trainer_key *row = keys; row->key != NULL; row++) {
        const bool sets =
            row->means == REDCOI_MEANS_OPTION || row->means == REDCOI_MEANS_MODEL || row->means == REDCOI_MEANS_TRAIT;
        if (sets && strcmp(row->target, target) == 0 && redcoi_key_text(row, value, text_out, size)) { return row; }
    }
    return NULL;
}

const redcoi_trainer_key *redcoi_key_for(const redcoi_trainer *trainer, const char *target, const char *value,
                                         char *text_out, size_t size)
{
    const redcoi_trainer_key *const own = row_for(trainer->keys, target, value, text_out, size);
    return own != NULL || trainer->core == NULL ? own : row_for(trainer->core->keys, target, value, text_out, size);
}

/* A key that is priced tells more than one that any trainer could have. */
static size_t weight_of(const redcoi_trainer_key *row)
{
    if (row == NULL) { return 0; }
    if (is_wide(row)) { return 0; }
    return row->means == REDCOI_MEANS_HARMLESS || row->means == REDCOI_MEANS_ENGINE ? 1 : 4;
}

const redcoi_trainer *redcoi_trainer_of(const redcoi_file_settings *settings, size_t first, size_t count)
{
    const redcoi_trainer *best = NULL;
    size_t most = 0;
    for (size_t t = 0; redcoi_trainers[t] != NULL; t++) {
        size_t known = 0;
        for (size_t i = first; i < first + count; i++) {
            const redcoi_setting *const one = &settings->items[i];
            if ((one->origin == REDCOI_OF_VARIABLE) != redcoi_trainers[t]->variables) { continue; }
            const redcoi_trainer_key *const row = redcoi_key_of(redcoi_trainers[t], one->key);
            known += weight_of(row);
        }
        if (known > most) {
            most = known;
            best = redcoi_trainers[t];
        }
    }
    return best;
}
