#include "costmodel/graph/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redco_names_free(redco_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) { free(names->texts[i]); }
    free(names->texts);
    free(names->table);
    *names = (redco_names){.count = 0};
}

/* FNV-1a. */
static uint32_t hash_of(const char *text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (const char *at = text; *at != '\0'; at++) { hash = (hash ^ (unsigned char)*at) * UINT32_C(16777619); }
    return hash;
}

/* The entry of @p text, or the empty one where it belongs. The table is never full. */
static uint32_t *entry_of(const redco_names *names, const char *text)
{
    uint32_t at = hash_of(text) & (names->table_size - 1);
    while (names->table[at] != REDCO_NO_NAME && strcmp(names->texts[names->table[at]], text) != 0) {
        at = (at + 1) & (names->table_size - 1);
    }
    return &names->table[at];
}

static bool make_room(redco_names *names)
{
    if (names->count == names->capacity) {
        const uint32_t capacity = names->capacity == 0 ? 64 : 2 * names->capacity;
        char **const texts = realloc(names->texts, capacity * sizeof(char *));
        if (texts == NULL) { return false; }
        names->texts = texts;
        names->capacity = capacity;
    }
    if (names->count < names->table_size / 2) { return true; }
    const uint32_t size = 2 * names->capacity;
    uint32_t *const table = malloc(size * sizeof *table);
    if (table == NULL) { return false; }
    memset(table, 0xff, size * sizeof *table);
    free(names->table);
    names->table = table;
    names->table_size = size;
    for (uint32_t i = 0; i < names->count; i++) { *entry_of(names, names->texts[i]) = i; }
    return true;
}

uint32_t redco_names_add(redco_names *names, const char *text)
{
    const uint32_t known = redco_names_find(names, text);
    if (known != REDCO_NO_NAME || !make_room(names)) { return known; }
    char *const copy = strdup(text);
    if (copy == NULL) { return REDCO_NO_NAME; }
    *entry_of(names, text) = names->count;
    names->texts[names->count] = copy;
    return names->count++;
}

uint32_t redco_names_find(const redco_names *names, const char *text)
{
    return names->table_size > 0 ? *entry_of(names, text) : REDCO_NO_NAME;
}

/* The end of a parameter's name without its leaf, from the n-th dot from behind. */
static size_t end_of_name(const char *name, uint32_t words, const char **start_out)
{
    const char *const leaf = strrchr(name, '.');
    const char *const end = leaf != NULL ? leaf : name + strlen(name);
    const char *start = end;
    while (start > name) {
        if (start[-1] == '.' && --words == 0) { break; }
        start--;
    }
    *start_out = start;
    return (size_t)(end - start);
}

bool redco_same_module(const char *a, const char *b)
{
    const char *own = NULL, *other = NULL;
    const size_t length = end_of_name(a, UINT32_MAX, &own);
    return end_of_name(b, UINT32_MAX, &other) == length && memcmp(own, other, length) == 0;
}

const char *redco_module_label(const char *const *names, uint32_t count, uint32_t at, char *buffer, size_t size)
{
    bool unique = false;
    for (uint32_t words = 1; words <= REDCO_MODULE_WORDS && !unique; words++) {
        const char *own = NULL, *other = NULL;
        const size_t length = end_of_name(names[at], words, &own);
        unique = true;
        for (uint32_t i = 0; i < count && unique; i++) {
            unique = i == at || end_of_name(names[i], words, &other) != length || memcmp(own, other, length) != 0;
        }
        (void)snprintf(buffer, size, "%.*s", (int)length, own);
    }
    if (!unique) { (void)snprintf(buffer, size, "%s", names[at]); }
    return buffer;
}
