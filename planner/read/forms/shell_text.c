#include "planner/read/forms/shell.h"

#include <stdlib.h>
#include <string.h>

static void no_memory(redcoi_shell *shell)
{
    if (shell->status == REDCO_OK) { shell->status = redco_fail(shell->err, REDCO_ENOMEM, "", "out of memory"); }
}

redco_status redcoi_shell_fail(redcoi_shell *shell, const char *what)
{
    char place[300];
    if (shell->status != REDCO_OK) { return shell->status; }
    const uint32_t line = redcoi_line_of(shell->text, shell->at < shell->end ? shell->at : shell->end);
    shell->status =
        redco_fail(shell->err, REDCO_EVALUE,
                   redcoi_setting_place(shell->settings, shell->file, line, place, sizeof place), "%s", what);
    return shell->status;
}

void redcoi_text_add(redcoi_shell *shell, redcoi_text *text, const char *bytes, size_t size, int64_t from)
{
    if (shell->status != REDCO_OK) { return; }
    if (text->size + size > REDCOI_MOST_TEXT) {
        (void)redcoi_shell_fail(shell, "a text gets longer than 256 KiB");
        return;
    }
    if (text->size + size + 1 > text->room) {
        const size_t room = 2 * (text->size + size) + 16;
        char *const more = realloc(text->bytes, room);
        if (more != NULL) { text->bytes = more; }
        int64_t *const places = realloc(text->from, room * sizeof *places);
        if (places != NULL) { text->from = places; }
        if (more == NULL || places == NULL) {
            no_memory(shell);
            return;
        }
        text->room = room;
    }
    for (size_t i = 0; i < size; i++) {
        text->bytes[text->size + i] = bytes[i];
        text->from[text->size + i] = from == REDCOI_NO_PLACE ? REDCOI_NO_PLACE : from + (int64_t)i;
    }
    text->size += size;
    text->bytes[text->size] = '\0';
}

void redcoi_text_join(redcoi_shell *shell, redcoi_text *text, const redcoi_text *other)
{
    const size_t used = text->size;
    redcoi_text_add(shell, text, redcoi_text_of(other), other->size, REDCOI_NO_PLACE);
    if (shell->status != REDCO_OK || other->size == 0) { return; }
    memcpy(text->from + used, other->from, other->size * sizeof *other->from);
}

void redcoi_text_free(redcoi_text *text)
{
    free(text->bytes);
    free(text->from);
    *text = (redcoi_text){.size = 0};
}

const char *redcoi_text_of(const redcoi_text *text)
{
    return text->bytes != NULL ? text->bytes : "";
}

void redcoi_words_add(redcoi_shell *shell, redcoi_words *words, redcoi_text *text)
{
    if (words->count == REDCOI_MOST_WORDS) { (void)redcoi_shell_fail(shell, "more than 16,384 words"); }
    if (shell->status == REDCO_OK && words->count == words->room) {
        const size_t room = words->room > 0 ? 2 * words->room : 8;
        redcoi_text *const items = realloc(words->items, room * sizeof *items);
        if (items == NULL) {
            no_memory(shell);
        } else {
            words->items = items;
            words->room = room;
        }
    }
    if (shell->status != REDCO_OK) {
        redcoi_text_free(text);
        return;
    }
    words->items[words->count++] = *text;
    *text = (redcoi_text){.size = 0};
}

void redcoi_words_free(redcoi_words *words)
{
    for (size_t i = 0; i < words->count; i++) { redcoi_text_free(&words->items[i]); }
    free(words->items);
    *words = (redcoi_words){.count = 0};
}

int64_t redcoi_text_place(const redcoi_text *text)
{
    if (text->size == 0 || text->from[0] == REDCOI_NO_PLACE) { return REDCOI_NO_PLACE; }
    for (size_t i = 1; i < text->size; i++) {
        if (text->from[i] != text->from[0] + (int64_t)i) { return REDCOI_NO_PLACE; }
    }
    return text->from[0];
}

bool redcoi_text_needs(const redcoi_text *text, char *name, size_t size)
{
    const char *const mark = text->size > 0 ? memchr(text->bytes, REDCOI_UNKNOWN, text->size) : NULL;
    if (mark == NULL) { return false; }
    const size_t length = strcspn(mark + 1, "\002");
    const size_t shown = length < size - 1 ? length : size - 1;
    memcpy(name, mark + 1, shown);
    name[shown] = '\0';
    return true;
}

redcoi_variable *redcoi_shell_variable(redcoi_shell *shell, const char *name, size_t size)
{
    for (size_t i = 0; i < shell->variable_count; i++) {
        redcoi_variable *const one = &shell->variables[i];
        if (strlen(one->name) == size && memcmp(one->name, name, size) == 0) { return one; }
    }
    return NULL;
}

static redcoi_variable *add_variable(redcoi_shell *shell, const char *name, size_t size)
{
    if (shell->variable_count == shell->variable_room) {
        const size_t room = shell->variable_room > 0 ? 2 * shell->variable_room : 32;
        redcoi_variable *const variables = realloc(shell->variables, room * sizeof *variables);
        if (variables == NULL) {
            no_memory(shell);
            return NULL;
        }
        shell->variables = variables;
        shell->variable_room = room;
    }
    redcoi_variable *const one = &shell->variables[shell->variable_count];
    *one = (redcoi_variable){.name = strndup(name, size)};
    if (one->name == NULL) {
        no_memory(shell);
        return NULL;
    }
    shell->variable_count++;
    return one;
}

void redcoi_shell_assign(redcoi_shell *shell, const char *name, size_t size, redcoi_words *words, bool array,
                         bool append)
{
    redcoi_variable *one =
        shell->status == REDCO_OK && !shell->skipping ? redcoi_shell_variable(shell, name, size) : NULL;
    if (shell->status == REDCO_OK && !shell->skipping && one == NULL) { one = add_variable(shell, name, size); }
    if (one == NULL) {
        redcoi_words_free(words);
        return;
    }
    if (append && !array && !one->array && one->words.count == 1 && words->count == 1) {
        redcoi_text_join(shell, &one->words.items[0], &words->items[0]);
        redcoi_words_free(words);
        return;
    }
    one->array = array || (append && one->array);
    if (!append) { redcoi_words_free(&one->words); }
    for (size_t i = 0; i < words->count; i++) { redcoi_words_add(shell, &one->words, &words->items[i]); }
    free(words->items);
    *words = (redcoi_words){.count = 0};
}
