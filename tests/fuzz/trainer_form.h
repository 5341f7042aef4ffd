/** @file trainer_form.h  A text of a trainer's file given to one reader: what it makes has keys, and places inside of
 * the text; a refusal says why. */
#ifndef REDCO_TESTS_TRAINER_FORM_H
#define REDCO_TESTS_TRAINER_FORM_H

#include "planner/read/forms/read_settings.h"

#include <stdlib.h>
#include <string.h>

static inline int trainer_form(const uint8_t *data, size_t size, const char *name,
                               redco_status (*read)(redcoi_file_settings *settings, uint32_t index, redco_error *err))
{
    redco_error err = {.status = REDCO_OK};
    redcoi_file_settings settings = {.file_count = 1};
    redcoi_file *const file = &settings.files[0];
    if (memchr(data, '\0', size) != NULL || size > (1U << 16)) { return 0; } /* refused before */
    file->path = strdup(name);
    file->text = malloc(size + 1);
    if (file->path == NULL || file->text == NULL) { abort(); }
    memcpy(file->text, data, size);
    file->text[size] = '\0';
    file->size = size;
    const redco_status st = read(&settings, 0, &err);
    if ((st == REDCO_OK) != (err.text[0] == '\0')) { abort(); }
    for (size_t i = 0; i < settings.count; i++) {
        const redcoi_setting *const one = &settings.items[i];
        if (one->key == NULL || one->value == NULL || one->file >= settings.file_count) { abort(); }
        if (one->at != REDCOI_NO_PLACE &&
            (one->at < 0 || (size_t)one->at + one->length > settings.files[one->file].size)) {
            abort();
        }
    }
    redcoi_settings_free(&settings);
    return 0;
}

#endif
