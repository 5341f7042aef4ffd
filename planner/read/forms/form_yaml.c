/* YAML: libyaml reads it; aliases are what they stand for. */
#include "planner/read/forms/read_settings.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { MOST_KEY = 300, MOST_DEPTH = 32, MOST_STEPS = 200000 };

struct walk {
    redcoi_file_settings *settings;
    uint32_t index;
    yaml_document_t *document;
    char key[MOST_KEY];
    size_t bytes, characters; /* a place that is known */
    uint32_t steps;           /* aliases of aliases are many */
    redco_error *err;
};

/* libyaml's marks count characters; places are bytes. */
static size_t byte_of(struct walk *walk, size_t characters)
{
    const redcoi_file *const file = &walk->settings->files[walk->index];
    if (characters < walk->characters) { walk->bytes = walk->characters = 0; }
    for (; walk->bytes < file->size && walk->characters < characters; walk->characters++) {
        walk->bytes++;
        while (walk->bytes < file->size && ((unsigned char)file->text[walk->bytes] & 0xC0U) == 0x80U) { walk->bytes++; }
    }
    return walk->bytes;
}

static redco_status add(struct walk *walk, const yaml_node_t *node, redcoi_span value, bool given)
{
    size_t from = byte_of(walk, node->start_mark.index);
    size_t to = byte_of(walk, node->end_mark.index);
    const bool quoted = node->type == YAML_SCALAR_NODE && (node->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                                                           node->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    if ((quoted || node->type == YAML_SEQUENCE_NODE) && to >= from + 2) {
        from++;
        to--;
    }
    const redcoi_setting fields = {.origin = REDCOI_OF_KEY,
                                   .file = walk->index,
                                   .line = (uint32_t)node->start_mark.line + 1,
                                   .at = (int64_t)from,
                                   .length = (uint32_t)(to > from ? to - from : 0),
                                   .given = given};
    return redcoi_settings_add(walk->settings, &fields, (redcoi_span){walk->key, strlen(walk->key)}, value, NULL,
                               walk->err);
}

static size_t enter(struct walk *walk, const char *name, size_t size)
{
    const size_t length = strlen(walk->key);
    const size_t dot = length > 0 ? 1 : 0;
    if (length + dot + size < MOST_KEY) {
        if (dot > 0) { walk->key[length] = '.'; }
        memcpy(walk->key + length + dot, name, size);
        walk->key[length + dot + size] = '\0';
    }
    return length;
}

static bool is_null(const yaml_node_t *node)
{
    const char *const text = (const char *)node->data.scalar.value;
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0 || strcmp(text, "None") == 0);
}

static redco_status walk_node(struct walk *walk, int id, int depth);

/* Scalars are one value, "a,b". */
static redco_status walk_list(struct walk *walk, const yaml_node_t *node, int depth)
{
    char joined[1000] = "";
    size_t used = 0;
    uint32_t count = 0;
    bool nested = false;
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *const one = yaml_document_get_node(walk->document, *item);
        char number[16];
        const int length = snprintf(number, sizeof number, "%u", count++);
        if (one == NULL) { continue; }
        if (one->type != YAML_SCALAR_NODE) {
            const size_t back = enter(walk, number, (size_t)length);
            const redco_status st = walk_node(walk, *item, depth + 1);
            walk->key[back] = '\0';
            if (st != REDCO_OK) { return st; }
            nested = true;
        } else if (used < sizeof joined) {
            used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", used > 0 ? "," : "",
                                     (const char *)one->data.scalar.value);
        }
    }
    return nested ? REDCO_OK : add(walk, node, (redcoi_span){joined, strlen(joined)}, true);
}

static redco_status walk_pairs(struct walk *walk, const yaml_node_t *node, int depth)
{
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *const key = yaml_document_get_node(walk->document, pair->key);
        if (key == NULL || key->type != YAML_SCALAR_NODE) {
            redcoi_settings_remark(walk->settings, walk->index, (uint32_t)node->start_mark.line + 1,
                                   "a key that is no word is not read");
            continue;
        }
        const char *const name = (const char *)key->data.scalar.value;
        const bool merged = strcmp(name, "<<") == 0;
        const size_t back = merged ? strlen(walk->key) : enter(walk, name, key->data.scalar.length);
        const redco_status st = walk_node(walk, pair->value, depth + 1);
        walk->key[back] = '\0';
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

static redco_status walk_node(struct walk *walk, int id, int depth)
{
    const yaml_node_t *const node = yaml_document_get_node(walk->document, id);
    if (node == NULL) { return REDCO_OK; }
    if (depth > MOST_DEPTH || ++walk->steps > MOST_STEPS) {
        char place[300];
        (void)redcoi_setting_place(walk->settings, walk->index, (uint32_t)node->start_mark.line + 1, place,
                                   sizeof place);
        return depth > MOST_DEPTH
                   ? redco_fail(walk->err, REDCO_EVALUE, place, "more than %d levels", MOST_DEPTH)
                   : redco_fail(walk->err, REDCO_EVALUE, place, "aliases make more than %d values", MOST_STEPS);
    }
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return add(walk, node, (redcoi_span){(const char *)node->data.scalar.value, node->data.scalar.length},
                   !is_null(node));
    case YAML_SEQUENCE_NODE: return walk_list(walk, node, depth);
    case YAML_MAPPING_NODE: return walk_pairs(walk, node, depth);
    case YAML_NO_NODE: break;
    }
    return REDCO_OK;
}

static redco_status syntax(const redcoi_file_settings *settings, uint32_t index, const yaml_parser_t *parser,
                           redco_error *err)
{
    char place[320];
    const size_t line = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;
    if (parser->error == YAML_MEMORY_ERROR) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    (void)snprintf(place, sizeof place, "%.240s:%zu:%zu", settings->files[index].path, line, column);
    return redco_fail(err, REDCO_EVALUE, place, "not valid YAML: %s",
                      parser->problem != NULL ? parser->problem : "it ends too early");
}

redco_status redcoi_yaml_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    const redcoi_file *const file = &settings->files[index];
    yaml_parser_t parser;
    yaml_document_t document;
    redco_status st = REDCO_OK;
    if (yaml_parser_initialize(&parser) == 0) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    yaml_parser_set_input_string(&parser, (const unsigned char *)file->text, file->size);
    if (yaml_parser_load(&parser, &document) == 0) {
        st = syntax(settings, index, &parser, err);
        yaml_parser_delete(&parser);
        return st;
    }
    const yaml_node_t *const root = yaml_document_get_root_node(&document);
    if (root == NULL || root->type != YAML_MAPPING_NODE) {
        st = redco_fail(err, REDCO_EVALUE, file->path, "holds no keys; a YAML mapping, \"key: value\", is needed");
    } else {
        struct walk walk = {.settings = settings, .index = index, .document = &document, .err = err};
        st = walk_node(&walk, 1, 0);
    }
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return st;
}
