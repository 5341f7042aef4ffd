/* Python files: literals, comments, assignments. */
#include "planner/export/internal.h"

#include <string.h>

static void write_list(const json_t *value, int depth, const char *const *modules, FILE *stream)
{
    (void)fputc('[', stream);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (i > 0) { (void)fputs(", ", stream); }
        redcoi_write_python(json_array_get(value, i), depth, modules, stream);
    }
    (void)fputc(']', stream);
}

static bool is_attribute(const char *const *modules, const char *text)
{
    for (; modules != NULL && *modules != NULL; modules++) {
        const size_t length = strlen(*modules);
        if (strncmp(text, *modules, length) == 0 && text[length] == '.') { return true; }
    }
    return false;
}

static void write_string(const char *text, const char *const *modules, FILE *stream)
{
    const char *quote = is_attribute(modules, text) ? "" : "\"";
    (void)fprintf(stream, "%s%s%s", quote, text, quote);
}

void redcoi_write_python(const json_t *value, int depth, const char *const *modules, FILE *stream)
{
    const char *key = NULL;
    json_t *member = NULL;
    if (json_is_object(value)) {
        (void)fputs("dict(\n", stream);
        json_object_foreach((json_t *)(uintptr_t)value, key, member)
        {
            (void)fprintf(stream, "%*s%s=", 4 * (depth + 1), "", key);
            redcoi_write_python(member, depth + 1, modules, stream);
            (void)fputs(",\n", stream);
        }
        (void)fprintf(stream, "%*s)", 4 * depth, "");
    } else if (json_is_array(value)) {
        write_list(value, depth, modules, stream);
    } else if (json_is_integer(value)) {
        (void)fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)fprintf(stream, "%.*g", REDCO_PLAN_DIGITS, json_real_value(value));
    } else if (json_is_string(value)) {
        write_string(json_string_value(value), modules, stream);
    } else {
        (void)fputs(json_is_null(value) ? "None" : json_is_true(value) ? "True" : "False", stream);
    }
}

void redcoi_write_python_head(const redcoi_context *context, const char *title, const char *use, FILE *stream)
{
    size_t i = 0;
    json_t *note = NULL;
    redcoi_write_header(context, "# ", title, stream);
    redcoi_write_comment(stream, "# ", use);
    json_array_foreach(context->notes, i, note)
    {
        redcoi_write_comment(stream, "# ", json_string_value(note));
    }
}

static bool is_in(const char *const *words, const char *word)
{
    for (; *words != NULL; words++) {
        if (strcmp(*words, word) == 0) { return true; }
    }
    return false;
}

void redcoi_write_python_sections(const json_t *config, const char *target, const char *const *skipped,
                                  const char *const *modules, FILE *stream)
{
    const char *section = NULL;
    const char *key = NULL;
    json_t *keys = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)config, section, keys)
    {
        if (is_in(skipped, section)) { continue; }
        json_object_foreach(keys, key, value)
        {
            (void)fprintf(stream, "    %s.%s.%s = ", target, section, key);
            redcoi_write_python(value, 1, modules, stream);
            (void)fputc('\n', stream);
        }
    }
}
