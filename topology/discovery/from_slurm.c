/* Slurm's topology.conf, plug-in topology/tree: topology.conf(5) and the line rules of slurm.conf(5). */
#include "topology/base/number.h"
#include "topology/discovery/switch_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KEY_SWITCH, KEY_NODES, KEY_SWITCHES, KEY_SPEED, KEY_COUNT };

static const char *const keys[KEY_COUNT] = {"SwitchName", "Nodes", "Switches", "LinkSpeed"};

/* One value of a line; text NULL = the key is absent. */
struct field {
    const char *text;
    size_t size;
};

struct reader {
    const char *text; /* the rest */
    size_t size;
    const char *name;
    uint32_t line;       /* number of the last physical line read */
    char *logical;       /* comments cut, continued lines joined */
    size_t logical_size; /* the buffer holds the whole file, which no logical line can exceed */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Length of a physical line without its comment; "\#" is no comment. */
static size_t without_comment(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '#' && (i == 0 || line[i - 1] != '\\')) { return i; }
    }
    return size;
}

/* Joins physical lines into the next logical one; *first_out: its first line's number. False at the end. As in Slurm
 * the comment goes first, so that a backslash at its end continues nothing. */
static bool next_line(struct reader *reader, uint32_t *first_out)
{
    bool more = true;
    reader->logical_size = 0;
    if (reader->size == 0) { return false; }
    *first_out = reader->line + 1;
    while (more && reader->size > 0) {
        const char *end = memchr(reader->text, '\n', reader->size);
        const size_t length = end != NULL ? (size_t)(end - reader->text) : reader->size;
        size_t kept = without_comment(reader->text, length);
        if (kept == length && kept > 0 && reader->text[kept - 1] == '\r') { kept--; }
        more = kept > 0 && reader->text[kept - 1] == '\\';
        if (more) { kept--; }
        memcpy(reader->logical + reader->logical_size, reader->text, kept);
        reader->logical_size += kept;
        reader->line++;
        const size_t used = end != NULL ? length + 1 : length;
        reader->text += used;
        reader->size -= used;
    }
    return true;
}

static redco_status unknown_key(const char *key, size_t size, const char *place, redco_error *err)
{
    static const char *const blocks[] = {"BlockName", "BlockSizes", "RingName"};
    const int shown = size < 60 ? (int)size : 60;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (size == strlen(blocks[i]) && strncasecmp(key, blocks[i], size) == 0) {
            return redco_fail(err, REDCO_EVALUE, place,
                              "\"%.*s\" belongs to Slurm's topology/%s plug-in, which is not supported; topology/tree "
                              "(SwitchName=...) is needed",
                              shown, key, i == 2 ? "ring" : "block");
        }
    }
    return redco_fail(err, REDCO_EVALUE, place,
                      "\"%.*s\" is not a key of topology/tree; known: SwitchName, Nodes, Switches, LinkSpeed", shown,
                      key);
}

/* Reads KEY=VALUE at *at; values may stand in double quotes. */
static redco_status read_field(const struct reader *reader, size_t *at, struct field *fields, const char *place,
                               redco_error *err)
{
    const char *line = reader->logical;
    const size_t size = reader->logical_size;
    size_t i = *at;
    const size_t key = i;
    while (i < size && !is_space(line[i]) && line[i] != '=') { i++; }
    const size_t key_size = i - key;
    while (i < size && is_space(line[i])) { i++; }
    if (i == size || line[i] != '=') {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.*s\" is not KEY=VALUE, such as SwitchName=leaf1",
                          (int)(key_size < 60 ? key_size : 60), line + key);
    }
    i++;
    while (i < size && is_space(line[i])) { i++; }
    const bool quoted = i < size && line[i] == '"';
    if (quoted) { i++; }
    const size_t value = i;
    while (i < size && (quoted ? line[i] != '"' : !is_space(line[i]))) { i++; }
    if (quoted && i == size) { return redco_fail(err, REDCO_EVALUE, place, "a quotation mark is not closed"); }
    *at = quoted ? i + 1 : i;
    for (int k = 0; k < KEY_COUNT; k++) {
        if (key_size != strlen(keys[k]) || strncasecmp(line + key, keys[k], key_size) != 0) { continue; }
        if (fields[k].text != NULL) {
            return redco_fail(err, REDCO_EVALUE, place, "%s is given twice; one switch stands on one line", keys[k]);
        }
        if (i == value) { return redco_fail(err, REDCO_EVALUE, place, "%s has no value", keys[k]); }
        fields[k] = (struct field){line + value, i - value};
        return REDCO_OK;
    }
    return unknown_key(line + key, key_size, place, err);
}

/* An unsigned 32-bit number of no defined unit: checked, not used. */
static redco_status check_speed(const struct field *speed, const char *place, redco_error *err)
{
    uint64_t value = 0;
    if (redco_whole_read(speed->text, speed->size, &value) == speed->size && value <= UINT32_MAX) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, place, "LinkSpeed=%.*s is not a whole number from 0 to 4294967295",
                      (int)(speed->size < 40 ? speed->size : 40), speed->text);
}

static redco_status read_line(const struct reader *reader, uint32_t number, redcoi_tree *tree, redco_error *err)
{
    char place[sizeof err->place];
    struct field fields[KEY_COUNT] = {{0}};
    size_t at = 0;
    bool any = false;
    (void)snprintf(place, sizeof place, "%s:%u", reader->name, number);
    for (;;) {
        while (at < reader->logical_size && is_space(reader->logical[at])) { at++; }
        if (at == reader->logical_size) { break; }
        const redco_status st = read_field(reader, &at, fields, place, err);
        if (st != REDCO_OK) { return st; }
        any = true;
    }
    if (!any) { return REDCO_OK; }
    if (fields[KEY_SWITCH].text == NULL) {
        return redco_fail(err, REDCO_EVALUE, place, "SwitchName is missing; every line describes one switch");
    }
    if (fields[KEY_SPEED].text != NULL) {
        const redco_status st = check_speed(&fields[KEY_SPEED], place, err);
        if (st != REDCO_OK) { return st; }
    }
    return redcoi_tree_add(tree, fields[KEY_SWITCH].text, fields[KEY_SWITCH].size, fields[KEY_NODES].text,
                           fields[KEY_NODES].size, fields[KEY_SWITCHES].text, fields[KEY_SWITCHES].size, place, err);
}

redco_status redcoi_tree_from_slurm(const char *text, size_t size, const char *name, redcoi_tree **tree_out,
                                    redco_error *err)
{
    struct reader reader = {.text = text, .size = size, .name = name};
    redcoi_tree *tree = redcoi_tree_new(name);
    redco_status st = REDCO_OK;
    reader.logical = malloc(size + 1);
    if (tree == NULL || reader.logical == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    for (uint32_t number = 0; next_line(&reader, &number);) {
        if ((st = read_line(&reader, number, tree, err)) != REDCO_OK) { goto out; }
    }
    if ((st = redcoi_tree_finish(tree, err)) != REDCO_OK) { goto out; }
    *tree_out = tree;
    tree = NULL; /* the caller owns it now */
out:
    redcoi_tree_free(tree);
    free(reader.logical);
    return st;
}
