/* Files by their form. */
#include "planner/read/forms/read_settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool ends(const char *path, const char *ending)
{
    const size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && strcasecmp(path + length - tail, ending) == 0;
}

/* The first line that says something, without blanks before it. */
static redcoi_span first_line(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        while (at < size && isspace((unsigned char)text[at]) != 0) { at++; }
        const char *const end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        if (length > 0 && (text[at] != '#' || (length > 1 && text[at + 1] == '!'))) {
            return (redcoi_span){text + at, length};
        }
        at += length;
    }
    return (redcoi_span){text, 0};
}

/* "[section]", or "key = value" with blanks around the sign. */
static bool is_toml(redcoi_span line)
{
    size_t at = 0;
    if (line.text[0] == '[') { return line.size > 2 && memchr(line.text, ']', line.size) != NULL; }
    while (at < line.size && (isalnum((unsigned char)line.text[at]) != 0 || strchr("_-.\"", line.text[at]) != NULL)) {
        at++;
    }
    return at > 0 && at + 2 < line.size && line.text[at] == ' ' && line.text[at + 1] == '=';
}

/* "key:" or "- item" or "---". */
static bool is_yaml(redcoi_span line)
{
    size_t at = 0;
    if (line.size >= 2 && line.text[0] == '-' && (line.text[1] == ' ' || line.text[1] == '-')) {
        return line.text[1] == ' ' || line.size == 3 || memchr(line.text, ':', line.size) != NULL;
    }
    while (at < line.size && (isalnum((unsigned char)line.text[at]) != 0 || strchr("_-./\"'", line.text[at]) != NULL)) {
        at++;
    }
    return at > 0 && at < line.size && line.text[at] == ':' &&
           (at + 1 == line.size || isspace((unsigned char)line.text[at + 1]) != 0);
}

static redcoi_form form_of(const char *path, const char *text, size_t size)
{
    static const struct {
        const char *ending;
        redcoi_form form;
    } endings[] = {{".json", REDCOI_FORM_JSON},    {".yaml", REDCOI_FORM_YAML},   {".yml", REDCOI_FORM_YAML},
                   {".toml", REDCOI_FORM_TOML},    {".sh", REDCOI_FORM_SHELL},    {".bash", REDCOI_FORM_SHELL},
                   {".sbatch", REDCOI_FORM_SHELL}, {".slurm", REDCOI_FORM_SHELL}, {".py", REDCOI_FORM_PYTHON}};
    const redcoi_span line = first_line(text, size);
    const bool yaml = ends(path, ".yaml") || ends(path, ".yml"); /* its flow looks like JSON */
    if (line.size > 0 && line.text[0] == '{' && !yaml) { return REDCOI_FORM_JSON; }
    if (line.size > 1 && line.text[0] == '#' && line.text[1] == '!') {
        return memmem(line.text, line.size, "python", 6) != NULL ? REDCOI_FORM_PYTHON : REDCOI_FORM_SHELL;
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends(path, endings[i].ending)) { return endings[i].form; }
    }
    if (line.size > 0 && is_toml(line)) { return REDCOI_FORM_TOML; }
    if (line.size > 0 && is_yaml(line)) { return REDCOI_FORM_YAML; }
    return REDCOI_FORM_SHELL;
}

static redco_status read_form(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    switch (settings->files[index].form) {
    case REDCOI_FORM_JSON: return redcoi_json_settings(settings, index, err);
    case REDCOI_FORM_YAML: return redcoi_yaml_settings(settings, index, err);
    case REDCOI_FORM_TOML: return redcoi_toml_settings(settings, index, err);
    case REDCOI_FORM_SHELL: return redcoi_shell_settings(settings, index, err);
    case REDCOI_FORM_PYTHON: return redcoi_python_settings(settings, index, err);
    case REDCOI_FORMS: break;
    }
    return REDCO_OK;
}

/* "a.b" is the key "a.b", or "parameters.a.b" of a file whose root lies deeper. */
static bool is_named(const char *key, const char *name)
{
    const size_t length = strlen(key), tail = strlen(name);
    return strcmp(key, name) == 0 ||
           (tail > 0 && length > tail && key[length - tail - 1] == '.' && strcmp(key + length - tail, name) == 0);
}

/* "${a.b}" is another key's value, as OmegaConf reads it; what no key has is the environment's. */
static redco_status resolve(redcoi_file_settings *settings, size_t first, redco_error *err)
{
    for (size_t i = first; i < settings->count; i++) {
        redcoi_setting *const one = &settings->items[i];
        const size_t size = strlen(one->value);
        if (size < 4 || one->origin != REDCOI_OF_KEY || strncmp(one->value, "${", 2) != 0 ||
            strchr(one->value, '}') == NULL) {
            continue;
        }
        char *const name = strndup(one->value + 2, strcspn(one->value + 2, "}"));
        char *text = NULL;
        const bool whole = one->value[size - 1] == '}' && strchr(one->value, '}') == one->value + size - 1;
        for (size_t k = first; name != NULL && whole && k < settings->count; k++) {
            const redcoi_setting *const other = &settings->items[k];
            if (k != i && is_named(other->key, name) && strncmp(other->value, "${", 2) != 0) {
                text = strdup(other->value);
            }
        }
        if (text != NULL) {
            free(one->value);
            one->value = text;
            one->at = REDCOI_NO_PLACE;
        } else if (one->needs == NULL && name != NULL) {
            one->needs = strdup(name);
        }
        const bool lost = name == NULL || (text == NULL && one->needs == NULL);
        free(name);
        if (lost) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    }
    return REDCO_OK;
}

redco_status redcoi_read_file(redcoi_file_settings *settings, const char *path, redco_error *err)
{
    const uint32_t index = settings->file_count;
    const redco_status st = redcoi_load_file(settings, path, err);
    if (st != REDCO_OK) { return st; }
    redcoi_file *const file = &settings->files[index];
    file->form = form_of(path, file->text, file->size);
    const size_t first = settings->count;
    const redco_status read = read_form(settings, index, err);
    return read == REDCO_OK ? resolve(settings, first, err) : read;
}
