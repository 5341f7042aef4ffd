/* JSON: jansson says whether it is, and this walks over what it accepted, since jansson keeps no places. */
#include "planner/read/forms/read_settings.h"

#include "topology/base/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEY = 300 };

/* The text that is walked over; sound JSON. */
struct walk {
    redcoi_file_settings *settings;
    uint32_t index;
    const char *text;
    size_t at, line_at;
    uint32_t line;
    char key[MOST_KEY];
    redco_error *err;
};

static void skip_blanks(struct walk *walk)
{
    while (isspace((unsigned char)walk->text[walk->at]) != 0) { walk->at++; }
}

static uint32_t line_here(struct walk *walk)
{
    for (; walk->line_at < walk->at; walk->line_at++) { walk->line += walk->text[walk->line_at] == '\n' ? 1 : 0; }
    return walk->line;
}

/* The bytes of a string without its quotes. */
static redcoi_span string_span(struct walk *walk)
{
    const size_t from = ++walk->at;
    while (walk->text[walk->at] != '"') { walk->at += walk->text[walk->at] == '\\' ? 2 : 1; }
    return (redcoi_span){walk->text + from, walk->at++ - from};
}

static redco_status add(struct walk *walk, redcoi_span value, bool given)
{
    const redcoi_setting fields = {.origin = REDCOI_OF_KEY,
                                   .file = walk->index,
                                   .line = line_here(walk),
                                   .at = value.text - walk->text,
                                   .length = (uint32_t)value.size,
                                   .given = given};
    return redcoi_settings_add(walk->settings, &fields, (redcoi_span){walk->key, strlen(walk->key)}, value, NULL,
                               walk->err);
}

/* Appends ".NAME". @return the length before it, to go back to */
static size_t enter(struct walk *walk, redcoi_span name)
{
    const size_t length = strlen(walk->key);
    const size_t dot = length > 0 ? 1 : 0;
    if (length + dot + name.size < MOST_KEY) {
        if (dot > 0) { walk->key[length] = '.'; }
        memcpy(walk->key + length + dot, name.text, name.size);
        walk->key[length + dot + name.size] = '\0';
    }
    return length;
}

static redco_status value(struct walk *walk);

/* Scalars of a list are one value, "a,b"; objects in it have keys with their number. */
static redco_status list(struct walk *walk)
{
    const size_t open = walk->at++;
    size_t last = open;
    bool nested = false;
    uint32_t count = 0;
    for (skip_blanks(walk); walk->text[walk->at] != ']'; skip_blanks(walk)) {
        if (walk->text[walk->at] == '{' || walk->text[walk->at] == '[') {
            char number[16];
            const int length = snprintf(number, sizeof number, "%u", count);
            const size_t back = enter(walk, (redcoi_span){number, (size_t)length});
            const redco_status st = value(walk);
            walk->key[back] = '\0';
            if (st != REDCO_OK) { return st; }
            nested = true;
        } else if (walk->text[walk->at] == '"') {
            (void)string_span(walk);
        } else {
            while (strchr(",]\t\r\n ", walk->text[walk->at]) == NULL) { walk->at++; }
        }
        last = walk->at;
        count++;
        skip_blanks(walk);
        if (walk->text[walk->at] == ',') { walk->at++; }
    }
    walk->at++;
    if (nested) { return REDCO_OK; }
    return add(walk, (redcoi_span){walk->text + open + 1, count > 0 ? last - open - 1 : 0}, true);
}

static redco_status object(struct walk *walk)
{
    walk->at++;
    for (skip_blanks(walk); walk->text[walk->at] != '}'; skip_blanks(walk)) {
        const size_t back = enter(walk, string_span(walk));
        skip_blanks(walk);
        walk->at++; /* the colon */
        const redco_status st = value(walk);
        walk->key[back] = '\0';
        if (st != REDCO_OK) { return st; }
        skip_blanks(walk);
        if (walk->text[walk->at] == ',') { walk->at++; }
    }
    walk->at++;
    return REDCO_OK;
}

static redco_status value(struct walk *walk)
{
    skip_blanks(walk);
    switch (walk->text[walk->at]) {
    case '{': return object(walk);
    case '[': return list(walk);
    case '"': return add(walk, string_span(walk), true);
    default: break;
    }
    const size_t from = walk->at;
    while (strchr(",]}\t\r\n ", walk->text[walk->at]) == NULL) { walk->at++; }
    const redcoi_span span = {walk->text + from, walk->at - from};
    return add(walk, span, !(span.size == 4 && memcmp(span.text, "null", 4) == 0));
}

redco_status redcoi_json_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    const redcoi_file *const file = &settings->files[index];
    redco_json *document = NULL;
    redco_status st = redco_json_parse(file->text, file->size, file->path, &document, err);
    if (st != REDCO_OK) { return st; }
    const bool sound = json_is_object(redco_json_root(document).json);
    redco_json_close(document);
    if (!sound) { return redco_fail(err, REDCO_EVALUE, file->path, "is a list; a JSON object is needed"); }
    struct walk walk = {.settings = settings, .index = index, .text = file->text, .line = 1, .err = err};
    return value(&walk);
}
