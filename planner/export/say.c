/* Keys and words of a configuration, from the tables that planner/read reads files by. */
#include "planner/export/internal.h"
#include "topology/base/number.h"

#include <assert.h>
#include <string.h>

enum { MOST_WORD = 200 };

/* "ddp.bucket_size" lies in the object "ddp". */
static void set_at(json_t *config, const char *key, json_t *value)
{
    for (const char *dot = strchr(key, '.'); dot != NULL; key = dot + 1, dot = strchr(key, '.')) {
        char section[REDCOI_MOST_KEY_NAME];
        (void)snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
        json_t *inner = json_object_get(config, section);
        if (inner == NULL) {
            inner = json_object();
            (void)json_object_set_new(config, section, inner);
        }
        config = inner;
    }
    (void)json_object_set_new(config, key, value);
}

/* The JSON that a word of a table is in a file. */
static json_t *word_json(const char *word)
{
    uint64_t number = 0;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) { return json_boolean(word[0] == 't'); }
    if (strcmp(word, "None") == 0) { return json_null(); }
    if (redco_whole_parse(word, 0, (uint64_t)1 << 62, &number)) { return json_integer((json_int_t)number); }
    return json_string(word);
}

void redcoi_say(json_t *config, const redcoi_trainer *trainer, const char *target, const char *value)
{
    char word[MOST_WORD], key[REDCOI_MOST_KEY_NAME];
    const redcoi_trainer_key *const row = redcoi_key_for(trainer, target, value, word, sizeof word);
    assert(row != NULL);
    if (row == NULL) { return; }
    set_at(config, redcoi_key_name(trainer, row, key, sizeof key), word_json(word));
}

void redcoi_say_number(json_t *config, const redcoi_trainer *trainer, const char *target, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    redcoi_say(config, trainer, target, text);
}

void redcoi_say_if(json_t *config, const redcoi_trainer *trainer, const char *target, bool yes, const char *value)
{
    redcoi_say(config, trainer, target, yes ? value : "");
}

void redcoi_say_json(json_t *config, const redcoi_trainer *trainer, const char *target, json_t *value)
{
    char word[MOST_WORD], key[REDCOI_MOST_KEY_NAME];
    const redcoi_trainer_key *const row = redcoi_key_for(trainer, target, "", word, sizeof word);
    assert(row != NULL);
    if (row != NULL) {
        set_at(config, redcoi_key_name(trainer, row, key, sizeof key), value);
    } else {
        json_decref(value);
    }
}

void redcoi_say_key(json_t *config, const redcoi_trainer *trainer, const char *key, json_t *value)
{
    const bool known = redcoi_key_of(trainer, key) != NULL;
    assert(known);
    if (known) {
        set_at(config, key, value);
    } else {
        json_decref(value);
    }
}

bool redcoi_translate(const redcoi_trainer *from, const json_t *config, const redcoi_trainer *to, const char *key,
                      json_t **value_out)
{
    const redcoi_trainer_key *const row = redcoi_key_of(to, key);
    const char *theirs = NULL;
    json_t *value = NULL;
    assert(row != NULL);
    json_object_foreach((json_t *)(uintptr_t)config, theirs, value)
    {
        const redcoi_trainer_key *const said = redcoi_key_of(from, theirs);
        char number[24], ours[MOST_WORD], word[MOST_WORD];
        if (said == NULL || said->means == REDCOI_MEANS_HARMLESS || strcmp(said->target, row->target) != 0) {
            continue;
        }
        if (said->values == NULL && row->values == NULL) {
            *value_out = json_incref(value);
            return true;
        }
        (void)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        const char *const text = json_is_string(value) ? json_string_value(value)
                                 : json_is_true(value) ? "true"
                                                       : number;
        if (redcoi_key_value(said, text, ours, sizeof ours) && redcoi_key_text(row, ours, word, sizeof word)) {
            *value_out = word_json(word);
            return true;
        }
    }
    return false;
}
