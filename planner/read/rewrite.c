#include "planner/read/rewrite.h"

#include "planner/read/read_facts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes [at, at + length) of a file become a text. */
struct splice {
    size_t at, length;
    char text[2 * REDCO_READ_WORDS + 16];
};

enum { MOST_SPLICES = REDCO_MOST_CHANGES * REDCO_CHANGE_EDITS };

static const redcoi_setting *setting_of(const redco_reading *reading, const redco_words *edit)
{
    for (size_t i = reading->settings.count; i > 0; i--) {
        const redcoi_setting *const one = &reading->settings.items[i - 1];
        if (one->origin != REDCOI_OF_BATCH && strlen(one->key) + 2 >= strlen(edit->key) &&
            redco_key_same(edit->key, one->key) && strcmp(one->value, edit->from) == 0) {
            return one;
        }
    }
    return NULL;
}

/* Bytes of a key's section: all before its last dot. */
static size_t parent_length(const char *key)
{
    const char *const dot = strrchr(key, '.');
    return dot != NULL ? (size_t)(dot - key) : 0;
}

/* Where the key of a setting's value begins on its line: "--key 8", "key: 8", "\"key\": 8". @return false: elsewhere */
static bool key_place(const redcoi_file *file, const redcoi_setting *one, size_t *out)
{
    const char *const last = strrchr(one->key, '.'), *const name = last != NULL ? last + 1 : one->key;
    size_t from = (size_t)one->at, length = strlen(name);
    while (from > 0 && file->text[from - 1] != '\n') { from--; }
    for (size_t at = (size_t)one->at; at > from + length; at--) {
        if (memcmp(file->text + at - length - 1, name, length) == 0) {
            *out = at - length - 1;
            return true;
        }
    }
    if ((size_t)one->at > from + length && memcmp(file->text + from, name, length) == 0) {
        *out = from;
        return true;
    }
    return false;
}

/* A new key behind or before one of its kind. */
static bool insert(const redco_reading *reading, uint32_t file_index, const redco_words *edit, struct splice *out)
{
    const redcoi_file *const file = &reading->settings.files[file_index];
    const bool flag = strcmp(edit->to, "true") == 0;
    const char *const bare = edit->key + strspn(edit->key, "-"), *const last = strrchr(bare, '.');
    const size_t parent = parent_length(bare);
    for (size_t i = 0; i < reading->settings.count; i++) {
        const redcoi_setting *const one = &reading->settings.items[i];
        size_t key = 0;
        if (one->file != file_index || one->at == REDCOI_NO_PLACE || one->origin == REDCOI_OF_BATCH) { continue; }
        const bool argument = one->origin == REDCOI_OF_ARGUMENT;
        if (argument != (file->form == REDCOI_FORM_SHELL) || !key_place(file, one, &key)) { continue; }
        const size_t own = parent_length(one->key);
        if (!argument && (own != parent || strncmp(one->key, bare, parent) != 0)) { continue; }
        size_t line = key;
        while (line > 0 && file->text[line - 1] != '\n') { line--; }
        if (argument) {
            if (key < 2 || file->text[key - 1] != '-') { continue; }
            *out = (struct splice){.at = (size_t)one->at + one->length};
            (void)snprintf(out->text, sizeof out->text, " --%s%s%s", bare, flag ? "" : " ", flag ? "" : edit->to);
            return file->text[out->at] != '"' && file->text[out->at] != '\'';
        }
        const char *const name = last != NULL ? last + 1 : bare;
        if (file->form == REDCOI_FORM_JSON) {
            const bool number =
                strspn(edit->to, "0123456789") == strlen(edit->to) || flag || strcmp(edit->to, "false") == 0;
            *out = (struct splice){.at = key - 1};
            (void)snprintf(out->text, sizeof out->text, "\"%s\": %s%s%s, ", name, number ? "" : "\"", edit->to,
                           number ? "" : "\"");
            return true;
        }
        const bool word = isalpha((unsigned char)edit->to[0]) != 0 && !flag && strcmp(edit->to, "false") != 0;
        const bool quoted = file->form == REDCOI_FORM_TOML && word;
        const bool dashes = key >= 2 && file->text[key - 1] == '-';
        *out = (struct splice){.at = line};
        (void)snprintf(out->text, sizeof out->text, "%.*s%s%s%s%s%s\n", (int)(key - (dashes ? 2 : 0) - line),
                       file->text + line, dashes ? "--" : "", name,
                       file->form == REDCOI_FORM_TOML ? (quoted ? " = \"" : " = ") : ": ", edit->to,
                       quoted ? "\"" : "");
        return strspn(file->text + line, " ") + (dashes ? 2 : 0) == key - line;
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    const struct splice *const x = a, *const y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static redco_status write_splices(const redcoi_file *file, struct splice *splices, uint32_t count, char **text_out,
                                  size_t *size_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0, at = 0;
    qsort(splices, count, sizeof *splices, by_place);
    FILE *const stream = open_memstream(&text, &size);
    if (stream == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t i = 0; i < count; i++) {
        if (splices[i].at < at) { continue; }
        (void)fwrite(file->text + at, 1, splices[i].at - at, stream);
        (void)fputs(splices[i].text, stream);
        at = splices[i].at + splices[i].length;
    }
    (void)fwrite(file->text + at, 1, file->size - at, stream);
    if (fclose(stream) != 0) {
        free(text);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    *text_out = text;
    *size_out = size;
    return REDCO_OK;
}

/* The file that holds most of the values; the first of several. UINT32_MAX: none holds one */
static uint32_t file_of(const redco_reading *reading, const redco_words *edits, uint32_t count)
{
    uint32_t best = UINT32_MAX, most = 0;
    for (uint32_t file = 0; file < reading->settings.file_count; file++) {
        uint32_t here = 0;
        for (uint32_t i = 0; i < count; i++) {
            const redcoi_setting *const one = edits[i].from[0] != '\0' ? setting_of(reading, &edits[i]) : NULL;
            here += one != NULL && one->at != REDCOI_NO_PLACE && one->file == file ? 1 : 0;
        }
        if (here > most) {
            most = here;
            best = file;
        }
    }
    return best;
}

redco_status redco_reading_rewrite(const redco_reading *reading, const redco_words *edits, uint32_t count,
                                   const char **path_out, char **text_out, size_t *size_out, char *left_out,
                                   size_t left_size, redco_error *err)
{
    struct splice splices[MOST_SPLICES];
    uint32_t done = 0, file_index = file_of(reading, edits, count);
    size_t used = 0;
    left_out[0] = '\0';
    for (int pass = 0; pass < 2; pass++) { /* values that are there say which file it is */
        for (uint32_t i = 0; i < count && done < MOST_SPLICES; i++) {
            const redco_words *const edit = &edits[i];
            const bool there = edit->from[0] != '\0';
            const redcoi_setting *const one = there ? setting_of(reading, edit) : NULL;
            bool good = false;
            if (there != (pass == 0)) { continue; }
            if (one != NULL && one->at != REDCOI_NO_PLACE && (file_index == UINT32_MAX || file_index == one->file)) {
                file_index = one->file;
                splices[done] = (struct splice){.at = (size_t)one->at, .length = one->length};
                (void)snprintf(splices[done].text, sizeof splices[done].text, "%s", edit->to);
                good = true;
            } else if (!there) {
                const uint32_t file = file_index == UINT32_MAX ? 0 : file_index;
                good = insert(reading, file, edit, &splices[done]);
                if (good) { file_index = file; }
            }
            done += good ? 1 : 0;
            if (!good && used < left_size) {
                used += (size_t)snprintf(left_out + used, left_size - used, "%s%s", used > 0 ? ", " : "", edit->key);
            }
        }
    }
    if (done == 0) {
        return redco_fail(err, REDCO_EVALUE, reading->settings.files[0].path,
                          "none of the changes can be written: %.300s",
                          left_out[0] != '\0' ? left_out : "there is none");
    }
    *path_out = reading->settings.files[file_index].path;
    return write_splices(&reading->settings.files[file_index], splices, done, text_out, size_out, err);
}
