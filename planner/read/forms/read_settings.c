#include "planner/read/forms/read_settings.h"

#include "topology/base/file.h"
#include "topology/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REMARKS = 200 };

static redco_status no_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

redco_status redcoi_settings_add(redcoi_file_settings *settings, const redcoi_setting *fields, redcoi_span key,
                                 redcoi_span value, const char *needs, redco_error *err)
{
    char place[300];
    if (settings->count == REDCOI_MOST_SETTINGS) {
        return redco_fail(err, REDCO_EVALUE,
                          redcoi_setting_place(settings, fields->file, fields->line, place, sizeof place),
                          "more than %d keys and values", REDCOI_MOST_SETTINGS);
    }
    if (settings->count == settings->room) {
        const size_t room = settings->room > 0 ? 2 * settings->room : 64;
        redcoi_setting *const items = realloc(settings->items, room * sizeof *items);
        if (items == NULL) { return no_memory(err); }
        settings->items = items;
        settings->room = room;
    }
    redcoi_setting *const item = &settings->items[settings->count];
    *item = *fields;
    item->key = strndup(key.text, key.size);
    item->value = strndup(value.text, value.size);
    item->needs = needs != NULL ? strdup(needs) : NULL;
    settings->count++;
    return item->key != NULL && item->value != NULL && (needs == NULL || item->needs != NULL) ? REDCO_OK
                                                                                              : no_memory(err);
}

void redcoi_settings_remark(redcoi_file_settings *settings, uint32_t file, uint32_t line, const char *format, ...)
{
    va_list args;
    if (settings->remark_count == MOST_REMARKS) { return; }
    if (settings->remark_count == settings->remark_room) {
        const size_t room = settings->remark_room > 0 ? 2 * settings->remark_room : 16;
        redcoi_remark *const remarks = realloc(settings->remarks, room * sizeof *remarks);
        if (remarks == NULL) { return; } /* a remark is lost, no value */
        settings->remarks = remarks;
        settings->remark_room = room;
    }
    redcoi_remark *const remark = &settings->remarks[settings->remark_count++];
    *remark = (redcoi_remark){.file = file, .line = line};
    va_start(args, format);
    (void)vsnprintf(remark->text, sizeof remark->text, format, args);
    va_end(args);
    redco_text_clean(remark->text);
}

void redcoi_settings_free(redcoi_file_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->items[i].key);
        free(settings->items[i].value);
        free(settings->items[i].needs);
    }
    for (uint32_t i = 0; i < settings->file_count; i++) {
        free(settings->files[i].path);
        free(settings->files[i].text);
    }
    free(settings->items);
    free(settings->remarks);
    *settings = (redcoi_file_settings){.count = 0};
}

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

bool redcoi_key_matches(const char *pattern, const char *key)
{
    for (; *pattern != '\0'; pattern++, key++) {
        if (*pattern == '*' && pattern[1] == '\0') { return true; }
        if (plain(*pattern) != plain(*key)) { return false; }
    }
    return *key == '\0';
}

const char *redcoi_setting_place(const redcoi_file_settings *settings, uint32_t file, uint32_t line, char *buffer,
                                 size_t size)
{
    (void)snprintf(buffer, size, "%.240s:%u", settings->files[file].path, line);
    return buffer;
}

redco_status redcoi_setting_fail(const redcoi_file_settings *settings, const redcoi_setting *setting, redco_error *err,
                                 const char *format, ...)
{
    char place[300], text[600];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redco_text_clean(text);
    return redco_fail(err, REDCO_EVALUE,
                      redcoi_setting_place(settings, setting->file, setting->line, place, sizeof place), "%s", text);
}

uint32_t redcoi_line_of(const char *text, size_t at)
{
    uint32_t line = 1;
    for (size_t i = 0; i < at; i++) { line += text[i] == '\n' ? 1 : 0; }
    return line;
}

redco_status redcoi_load_file(redcoi_file_settings *settings, const char *path, redco_error *err)
{
    if (settings->file_count == REDCOI_MOST_FILES) {
        return redco_fail(err, REDCO_EVALUE, path, "more than %d files", REDCOI_MOST_FILES);
    }
    redcoi_file *const file = &settings->files[settings->file_count];
    if (settings->changed != NULL && strcmp(settings->changed, path) == 0) {
        file->text = calloc(settings->changed_size + 1, 1);
        if (file->text == NULL) { return no_memory(err); }
        memcpy(file->text, settings->changed_text, settings->changed_size);
        file->size = settings->changed_size;
    } else {
        const redco_status st = redco_file_read(path, REDCOI_MOST_FILE_BYTES, &file->text, &file->size, err);
        if (st != REDCO_OK) { return st; }
    }
    file->path = strdup(path);
    if (file->path == NULL) {
        free(file->text);
        return no_memory(err);
    }
    settings->file_count++;
    if (memchr(file->text, '\0', file->size) != NULL) {
        return redco_fail(err, REDCO_EVALUE, path, "holds a 0 byte: it is no text");
    }
    return REDCO_OK;
}
