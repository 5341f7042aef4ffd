#include "topology/base/json.h"

#include "topology/base/file.h"
#include "topology/base/text.h"
#include "topology/base/word.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t max_document_bytes = (size_t)256 << 20;

struct redco_json {
    char *name;
    json_t *root;
};

redco_status redco_json_open(const char *path, redco_json **document_out, redco_error *err)
{
    char *source = NULL;
    size_t size = 0;
    redco_status st = redco_file_read(path, max_document_bytes, &source, &size, err);
    if (st == REDCO_OK) { st = redco_json_parse(source, size, path, document_out, err); }
    free(source);
    return st;
}

redco_status redco_json_parse(const char *text, size_t size, const char *name, redco_json **document_out,
                              redco_error *err)
{
    json_error_t why;
    redco_json *document = calloc(1, sizeof *document);
    char *copy = strdup(name);
    if (document == NULL || copy == NULL) {
        free(document);
        free(copy);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    *document =
        (redco_json){.name = copy, .root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why)};
    if (document->root == NULL) {
        char place[sizeof err->place];
        (void)snprintf(place, sizeof place, "%s:%d:%d", name, why.line, why.column);
        redco_json_close(document);
        return redco_fail(err, REDCO_EVALUE, place, "not valid JSON: %s", why.text);
    }
    *document_out = document;
    return REDCO_OK;
}

void redco_json_close(redco_json *document)
{
    if (document == NULL) { return; }
    json_decref(document->root);
    free(document->name);
    free(document);
}

redco_json_value redco_json_root(const redco_json *document)
{
    return (redco_json_value){.name = document->name, .json = document->root};
}

redco_json_value redco_json_wrap(const json_t *json, const char *name)
{
    return (redco_json_value){.name = name, .json = json};
}

static void extend_pointer(const redco_json_value *value, const char *key, char *buffer, size_t size)
{
    if ((size_t)snprintf(buffer, size, "%s/%s", value->pointer, key) >= size) {
        memcpy(buffer + size - sizeof "...", "...", sizeof "...");
    }
}

const char *redco_json_place(const redco_json_value *value, const char *key, char *buffer, size_t size)
{
    if (key == NULL) {
        (void)snprintf(buffer, size, value->pointer[0] != '\0' ? "%s:%s" : "%s", value->name, value->pointer);
    } else {
        (void)snprintf(buffer, size, "%s:%s/%s", value->name, value->pointer, key);
    }
    return buffer;
}

/* In brackets: not the macro that json.h has for the analyser. */
redco_status(redco_json_fail)(const redco_json_value *value, const char *key, redco_error *err, const char *format, ...)
{
    char place[512];
    char text[768];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return redco_fail(err, REDCO_EVALUE, redco_json_place(value, key, place, sizeof place), "%s", text);
}

static const char *kind_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a truth value";
    case JSON_NULL: return "null";
    }
    return "something else";
}

bool redco_json_has(const redco_json_value *object, const char *key)
{
    const json_t *json = json_object_get(object->json, key);
    return json != NULL && !json_is_null(json);
}

static redco_status member(const redco_json_value *object, const char *key, const char *wanted, const json_t **out,
                           redco_error *err)
{
    if (!json_is_object(object->json)) {
        return redco_json_fail(object, NULL, err, "is %s; an object with \"%s\" is needed", kind_of(object->json), key);
    }
    *out = json_object_get(object->json, key);
    if (*out == NULL) { return redco_json_fail(object, key, err, "is missing; %s is needed", wanted); }
    return REDCO_OK;
}

static redco_status wrong_kind(const redco_json_value *object, const char *key, const json_t *json, const char *wanted,
                               redco_error *err)
{
    return redco_json_fail(object, key, err, "is %s; %s is needed", kind_of(json), wanted);
}

static redco_status child(const redco_json_value *object, const char *key, json_type type, const char *wanted,
                          redco_json_value *out, redco_error *err)
{
    const json_t *json = NULL;
    const redco_status st = member(object, key, wanted, &json, err);
    if (st != REDCO_OK) { return st; }
    if (json_typeof(json) != type) { return wrong_kind(object, key, json, wanted, err); }
    redco_json_value value = {.name = object->name, .json = json};
    extend_pointer(object, key, value.pointer, sizeof value.pointer);
    *out = value;
    return REDCO_OK;
}

redco_status redco_json_object(const redco_json_value *object, const char *key, redco_json_value *out, redco_error *err)
{
    return child(object, key, JSON_OBJECT, "an object", out, err);
}

redco_status redco_json_array(const redco_json_value *object, const char *key, redco_json_value *out, size_t *count_out,
                              redco_error *err)
{
    redco_json_value value;
    const redco_status st = child(object, key, JSON_ARRAY, "an array", &value, err);
    if (st != REDCO_OK) { return st; }
    *count_out = json_array_size(value.json);
    *out = value;
    return REDCO_OK;
}

redco_status redco_json_element(const redco_json_value *array, size_t index, redco_json_value *out, redco_error *err)
{
    char key[24];
    const json_t *json = json_array_get(array->json, index);
    (void)snprintf(key, sizeof key, "%zu", index);
    if (json == NULL) { return redco_json_fail(array, key, err, "is missing"); }
    redco_json_value value = {.name = array->name, .json = json};
    extend_pointer(array, key, value.pointer, sizeof value.pointer);
    *out = value;
    return REDCO_OK;
}

redco_status redco_json_string(const redco_json_value *object, const char *key, const char **out, redco_error *err)
{
    const json_t *json = NULL;
    const redco_status st = member(object, key, "a string", &json, err);
    if (st != REDCO_OK) { return st; }
    if (!json_is_string(json)) { return wrong_kind(object, key, json, "a string", err); }
    *out = json_string_value(json);
    return REDCO_OK;
}

redco_status redco_json_label(const redco_json_value *object, const char *key, char *out, size_t size, redco_error *err)
{
    const char *text = NULL;
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st != REDCO_OK) { return st; }
    if (text[0] == '\0' || strlen(text) >= size) {
        return redco_json_fail(object, key, err, "has %zu bytes; 1 to %zu are needed", strlen(text), size - 1);
    }
    (void)snprintf(out, size, "%s", text);
    redco_text_clean(out);
    return REDCO_OK;
}

redco_status redco_json_u64(const redco_json_value *object, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                            redco_error *err)
{
    const json_t *json = NULL;
    const redco_status st = member(object, key, "a whole number", &json, err);
    if (st != REDCO_OK) { return st; }
    if (!json_is_integer(json)) { return wrong_kind(object, key, json, "a whole number", err); }
    const json_int_t value = json_integer_value(json);
    if (value < 0 || (uint64_t)value < min || (uint64_t)value > max) {
        return redco_json_fail(object, key, err, "is %lld; a whole number from %llu to %llu is needed",
                               (long long)value, (unsigned long long)min, (unsigned long long)max);
    }
    *out = (uint64_t)value;
    return REDCO_OK;
}

redco_status redco_json_u32(const redco_json_value *object, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                            redco_error *err)
{
    uint64_t value = 0;
    const redco_status st = redco_json_u64(object, key, min, max, &value, err);
    if (st == REDCO_OK) { *out = (uint32_t)value; }
    return st;
}

redco_status redco_json_number(const redco_json_value *object, const char *key, double min, double max, double *out,
                               redco_error *err)
{
    const json_t *json = NULL;
    const redco_status st = member(object, key, "a number", &json, err);
    if (st != REDCO_OK) { return st; }
    if (!json_is_number(json)) { return wrong_kind(object, key, json, "a number", err); }
    const double value = json_number_value(json);
    if (!(value >= min && value <= max)) {
        return redco_json_fail(object, key, err, "is %g; a number from %g to %g is needed", value, min, max);
    }
    *out = value;
    return REDCO_OK;
}

redco_status redco_json_bool(const redco_json_value *object, const char *key, bool *out, redco_error *err)
{
    const json_t *json = NULL;
    const redco_status st = member(object, key, "true or false", &json, err);
    if (st != REDCO_OK) { return st; }
    if (!json_is_boolean(json)) { return wrong_kind(object, key, json, "true or false", err); }
    *out = json_is_true(json);
    return REDCO_OK;
}

redco_status redco_json_quantity(const redco_json_value *object, const char *key, redco_unit unit, double *out,
                                 redco_error *err)
{
    char place[512];
    const json_t *json = NULL;
    const redco_status st = member(object, key, "a string with a unit", &json, err);
    if (st != REDCO_OK) { return st; }
    if (!json_is_string(json)) {
        return wrong_kind(object, key, json, "a string with a unit, such as \"80 GB\" or \"200 Gb/s\",", err);
    }
    return redco_unit_parse(json_string_value(json), unit, redco_json_place(object, key, place, sizeof place), out,
                            err);
}

redco_status redco_json_only(const redco_json_value *object, const char *const *keys, redco_error *err)
{
    if (!json_is_object(object->json)) {
        return redco_json_fail(object, NULL, err, "is %s; an object is needed", kind_of(object->json));
    }
    void *walk = json_object_iter((json_t *)(uintptr_t)object->json);
    for (; walk != NULL; walk = json_object_iter_next((json_t *)(uintptr_t)object->json, walk)) {
        const char *key = json_object_iter_key(walk);
        bool known = false;
        for (size_t i = 0; keys[i] != NULL && !known; i++) { known = strcmp(key, keys[i]) == 0; }
        if (!known) {
            return redco_json_fail(object, key, err, "is not known here; did you mean \"%s\"?",
                                   redco_word_nearest(key, keys));
        }
    }
    return REDCO_OK;
}

redco_status redco_json_format(const redco_json_value *root, const char *format, uint32_t newest, uint32_t *version_out,
                               redco_error *err)
{
    const char *found = NULL;
    uint32_t version = 0;
    redco_status st = redco_json_string(root, "format", &found, err);
    if (st != REDCO_OK) { return st; }
    if (strcmp(found, format) != 0) {
        return redco_json_fail(root, "format", err, "is \"%.40s\"; \"%s\" is needed", found, format);
    }
    st = redco_json_u32(root, "version", 1, UINT32_MAX, &version, err);
    if (st != REDCO_OK) { return st; }
    if (version > newest) {
        return redco_json_fail(root, "version", err,
                               "is %u; this redco reads up to version %u: a newer redco is needed", version, newest);
    }
    *version_out = version;
    return REDCO_OK;
}

/* Documents are read on terminals as well: what a terminal would obey is written as \u009b, which means the same. The
 * lines' ends are the document's own; jansson escapes those of texts. */
static bool is_escaped(const char *at)
{
    return *at != '\n' && !redco_text_is_safe(at);
}

char *redco_json_text(const json_t *json, int digits, size_t *size_out)
{
    enum { ESCAPE_BYTES = 6 };
    size_t size = 1;
    char *dumped = json_dumps(json, JSON_INDENT(1) | JSON_ENCODE_ANY | JSON_REAL_PRECISION((size_t)digits));
    if (dumped == NULL) { return NULL; }
    for (const char *at = dumped; *at != '\0'; at += redco_text_length(at)) {
        size += is_escaped(at) ? ESCAPE_BYTES : redco_text_length(at);
    }
    char *text = malloc(size + 1);
    char *to = text;
    for (const char *at = dumped; text != NULL && *at != '\0'; at += redco_text_length(at)) {
        if (is_escaped(at)) {
            to += snprintf(to, ESCAPE_BYTES + 1, "\\u%04x", (unsigned)redco_text_code(at) & 0xffffu);
        } else {
            memcpy(to, at, redco_text_length(at));
            to += redco_text_length(at);
        }
    }
    free(dumped);
    if (text == NULL) { return NULL; }
    memcpy(to, "\n", 2);
    *size_out = size;
    return text;
}
