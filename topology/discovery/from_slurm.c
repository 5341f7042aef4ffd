/* Slurm's topology.conf, plug-ins topology/tree and topology/block: topology.conf(5) and the line rules of
 * slurm.conf(5); what "scontrol show topology" prints of them; topology.yaml by slurm_yaml.c. */
#include "topology/base/number.h"
#include "topology/discovery/switch_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    KEY_SWITCH,
    KEY_NODES,
    KEY_SWITCHES,
    KEY_SPEED,
    KEY_LEVEL, /* scontrol's */
    KEY_BLOCK,
    KEY_BLOCK_SIZES,
    KEY_BLOCK_INDEX, /* scontrol's, as the next two */
    KEY_BLOCK_SIZE,
    KEY_AGGREGATED,
    KEY_COUNT
};

static const char *const keys[KEY_COUNT] = {"SwitchName", "Nodes",      "Switches",   "LinkSpeed", "Level",
                                            "BlockName",  "BlockSizes", "BlockIndex", "BlockSize", "AggregatedBlock"};

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
    const int shown = size < 60 ? (int)size : 60;
    if (size == 8 && strncasecmp(key, "RingName", size) == 0) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "\"%.*s\" belongs to Slurm's topology/ring plug-in, which is not supported; topology/tree "
                          "(SwitchName=...) or topology/block (BlockName=...) is needed",
                          shown, key);
    }
    return redco_fail(err, REDCO_EVALUE, place,
                      "\"%.*s\" is not a key of topology/tree or topology/block; known: SwitchName, Nodes, Switches, "
                      "LinkSpeed, BlockName, BlockSizes",
                      shown, key);
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
            return redco_fail(err, REDCO_EVALUE, place, "%s is given twice; one switch or block stands on one line",
                              keys[k]);
        }
        if (i == value) { return redco_fail(err, REDCO_EVALUE, place, "%s has no value", keys[k]); }
        fields[k] = (struct field){line + value, i - value};
        return REDCO_OK;
    }
    return unknown_key(line + key, key_size, place, err);
}

/* Unsigned 32-bit numbers, several of them with commas between: checked, not used. LinkSpeed has no defined unit. */
static redco_status check_numbers(const struct field *fields, const char *place, redco_error *err)
{
    static const int numbers[] = {KEY_SPEED, KEY_LEVEL, KEY_BLOCK_SIZES, KEY_BLOCK_INDEX, KEY_BLOCK_SIZE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const struct field *field = &fields[numbers[i]];
        const bool several = numbers[i] == KEY_BLOCK_SIZES;
        for (size_t at = 0; field->text != NULL && at <= field->size; at++) {
            const char *comma = several ? memchr(field->text + at, ',', field->size - at) : NULL;
            const size_t size = comma != NULL ? (size_t)(comma - field->text) - at : field->size - at;
            uint64_t value = 0;
            if (size == 0 || redco_whole_read(field->text + at, size, &value) != size || value > UINT32_MAX) {
                return redco_fail(err, REDCO_EVALUE, place, "%s=%.*s is not a whole number from 0 to 4294967295%s",
                                  keys[numbers[i]], (int)(field->size < 40 ? field->size : 40), field->text,
                                  several ? ", nor several with commas between" : "");
            }
            at += size;
        }
    }
    return REDCO_OK;
}

/* A switch or a block, which is a leaf. What scontrol adds is passed over: the nodes below an upper switch, and
 * aggregated blocks. */
static redco_status add_fields(const struct field *fields, redcoi_tree *tree, const char *place, redco_error *err)
{
    const bool is_switch = fields[KEY_SWITCH].text != NULL;
    const bool is_block = fields[KEY_BLOCK].text != NULL;
    const bool derived = fields[KEY_LEVEL].text != NULL && fields[KEY_SWITCHES].text != NULL;
    const struct field *name = &fields[is_block ? KEY_BLOCK : KEY_SWITCH];
    const struct field *nodes = &fields[KEY_NODES];
    const struct field *switches = &fields[KEY_SWITCHES];
    if (fields[KEY_AGGREGATED].text != NULL) { return REDCO_OK; }
    if (is_switch && is_block) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "SwitchName and BlockName on one line, which describes one of them");
    }
    if (!is_switch && !is_block) {
        if (fields[KEY_BLOCK_SIZES].text != NULL && nodes->text == NULL) { return REDCO_OK; }
        return redco_fail(err, REDCO_EVALUE, place,
                          "SwitchName or BlockName is missing; every line describes one switch or block");
    }
    if (is_block && switches->text != NULL) {
        return redco_fail(err, REDCO_EVALUE, place, "a block has nodes, not switches");
    }
    if (tree->switch_count > 0 && is_block != tree->blocks) {
        return redco_fail(err, REDCO_EVALUE, place, "a file has switches or blocks; this one has both");
    }
    tree->blocks = is_block;
    return redcoi_tree_add(tree, name->text, name->size, derived ? NULL : nodes->text, nodes->size, switches->text,
                           switches->size, place, err);
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
    const redco_status st = any ? check_numbers(fields, place, err) : REDCO_OK;
    return any && st == REDCO_OK ? add_fields(fields, tree, place, err) : st;
}

/* Jobs may span blocks, so something joins them, which such files do not name. */
static redco_status join_blocks(redcoi_tree *tree, redco_error *err)
{
    static const char joined[] = "all-blocks";
    char *names = NULL;
    size_t size = 0;
    if (!tree->blocks || tree->switch_count < 2) { return REDCO_OK; }
    FILE *out = open_memstream(&names, &size);
    if (out == NULL) { return redco_fail(err, REDCO_ENOMEM, tree->source, "out of memory"); }
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        (void)fprintf(out, "%s%s", i > 0 ? "," : "", tree->switches[i].name);
    }
    redco_status st = fclose(out) == 0 ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, tree->source, "out of memory");
    if (st == REDCO_OK) {
        st = redcoi_tree_add(tree, joined, sizeof joined - 1, NULL, 0, names, size, tree->source, err);
    }
    free(names);
    return st;
}

redco_status redcoi_tree_from_slurm(const char *text, size_t size, const char *name, redcoi_tree **tree_out,
                                    redco_error *err)
{
    struct reader reader = {.text = text, .size = size, .name = name};
    redcoi_tree *tree = redcoi_tree_new(name);
    redco_status st = REDCO_OK;
    char *conf = NULL;
    if (redcoi_is_slurm_yaml(text, size)) {
        st = redcoi_slurm_yaml(text, size, name, &conf, &size, err);
        reader.text = conf;
        reader.size = size;
        if (st != REDCO_OK) { goto out; }
    }
    reader.logical = malloc(size + 1);
    if (tree == NULL || reader.logical == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    for (uint32_t number = 0; next_line(&reader, &number);) {
        if ((st = read_line(&reader, number, tree, err)) != REDCO_OK) { goto out; }
    }
    if ((st = join_blocks(tree, err)) != REDCO_OK) { goto out; }
    if ((st = redcoi_tree_finish(tree, err)) != REDCO_OK) { goto out; }
    *tree_out = tree;
    tree = NULL; /* the caller owns it now */
out:
    redcoi_tree_free(tree);
    free(reader.logical);
    free(conf);
    return st;
}
