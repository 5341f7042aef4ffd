/* Slurm's topology.yaml (topology.yaml(5), Slurm 25.05): the lines of a topology.conf that say the same, each where its
 * switch or block stands, so that errors name lines of the file. Of several topologies the cluster's default is read,
 * else the first. */
#include "topology/discovery/switch_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line "- KEY: VALUE", the dash and the value optional. */
struct yaml_line {
    const char *key, *value;
    size_t key_size, value_size;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* A comment begins the line or stands behind a blank. */
static size_t content_size(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '#' && (i == 0 || is_blank(line[i - 1]))) { size = i; }
    }
    while (size > 0 && is_blank(line[size - 1])) { size--; }
    return size;
}

static struct yaml_line split(const char *line, size_t size)
{
    struct yaml_line out = {.key = line, .value = line};
    const char *const end = line + content_size(line, size);
    while (line < end && is_blank(*line)) { line++; }
    if (end - line >= 2 && line[0] == '-' && is_blank(line[1])) {
        for (line++; line < end && is_blank(*line);) { line++; }
    }
    out.key = line;
    while (line < end && *line != ':') { line++; }
    out.key_size = (size_t)(line - out.key);
    for (line += line < end ? 1 : 0; line < end && is_blank(*line);) { line++; }
    out.value = line;
    out.value_size = (size_t)(end - line);
    if (out.value_size >= 2 && (line[0] == '"' || line[0] == '\'') && end[-1] == line[0]) {
        out.value++;
        out.value_size -= 2;
    }
    return out;
}

static bool is_key(const struct yaml_line *line, const char *key)
{
    return line->key_size == strlen(key) && memcmp(line->key, key, line->key_size) == 0;
}

static const char *line_end(const char *text, const char *end)
{
    const char *const feed = memchr(text, '\n', (size_t)(end - text));
    return feed != NULL ? feed : end;
}

bool redcoi_is_slurm_yaml(const char *text, size_t size)
{
    const char *const end = text + size;
    for (const char *at = text; at < end; at = line_end(at, end) + 1) {
        const size_t length = (size_t)(line_end(at, end) - at), content = content_size(at, length);
        if (content == 0) { continue; }
        const struct yaml_line line = split(at, length);
        return (content == 3 && memcmp(at, "---", 3) == 0) || (at[0] == '-' && is_key(&line, "topology"));
    }
    return false;
}

/* The number of the topology that is read, from 1. */
static uint32_t chosen_topology(const char *text, const char *end)
{
    uint32_t topology = 0;
    for (const char *at = text; at < end; at = line_end(at, end) + 1) {
        const struct yaml_line line = split(at, (size_t)(line_end(at, end) - at));
        if (is_key(&line, "topology")) { topology++; }
        const bool yes = line.value_size == 4 && memcmp(line.value, "true", 4) == 0;
        if (yes && is_key(&line, "cluster_default")) { return topology; }
    }
    return 1;
}

/* @return the key of a topology.conf, "" for what says nothing of it, NULL where it is unknown */
static const char *conf_key(const struct yaml_line *line, bool *begins_out)
{
    static const struct {
        const char *yaml, *conf;
        bool begins;
    } keys[] = {
        {"switch", "SwitchName", true},
        {"block", "BlockName", true},
        {"nodes", "Nodes", false},
        {"children", "Switches", false},
        {"topology", "", false},
        {"cluster_default", "", false},
        {"tree", "", false},
        {"switches", "", false},
        {"blocks", "", false},
        {"block_sizes", "", false},
        {"flat", "", false},
        {"link_speed", "", false},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!is_key(line, keys[i].yaml)) { continue; }
        *begins_out = keys[i].begins && line->value_size > 0; /* "block:" alone is the plug-in's */
        return keys[i].begins && line->value_size == 0 ? "" : keys[i].conf;
    }
    size_t digits = 0;
    while (digits < line->key_size && line->key[digits] >= '0' && line->key[digits] <= '9') { digits++; }
    const bool number = digits > 0 && digits == line->key_size;
    return line->key_size == 0 || number || (line->key_size == 3 && memcmp(line->key, "---", 3) == 0) ? "" : NULL;
}

static void put(FILE *out, const char *between, const char *key, const struct yaml_line *line)
{
    (void)fprintf(out, "%s%s=\"%.*s\"", between, key, (int)line->value_size, line->value);
}

redco_status redcoi_slurm_yaml(const char *text, size_t size, const char *name, char **conf_out, size_t *size_out,
                               redco_error *err)
{
    const char *const end = text + size;
    const uint32_t chosen = chosen_topology(text, end);
    uint32_t number = 1, topology = 0, pending = 0; /* line feeds that are not yet written */
    redco_status st = REDCO_OK;
    FILE *out = open_memstream(conf_out, size_out);
    if (out == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    for (const char *at = text; at < end && st == REDCO_OK; at = line_end(at, end) + 1, number++, pending++) {
        const struct yaml_line line = split(at, (size_t)(line_end(at, end) - at));
        bool begins = false;
        const char *const key = conf_key(&line, &begins);
        if (is_key(&line, "topology")) { topology++; }
        if (key == NULL || memchr(line.value, '"', line.value_size) != NULL) {
            char place[sizeof err->place];
            (void)snprintf(place, sizeof place, "%s:%u", name, number);
            st =
                redco_fail(err, REDCO_EVALUE, place,
                           "\"%.*s\" is not a line of Slurm's topology.yaml that is read; known: topology, "
                           "cluster_default, tree, switches, switch, children, nodes, block, blocks, block_sizes, flat",
                           (int)(line.key_size < 60 ? line.key_size : 60), line.key);
        }
        if (st != REDCO_OK || key[0] == '\0' || topology != chosen) { continue; }
        for (; pending > 0; pending--) { (void)fputs(begins ? "\n" : " \\\n", out); }
        put(out, begins ? "" : " ", key, &line);
    }
    const bool written = fclose(out) == 0;
    if (st == REDCO_OK && !written) { st = redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    if (st == REDCO_OK) { return REDCO_OK; }
    free(*conf_out);
    *conf_out = NULL;
    return st;
}
