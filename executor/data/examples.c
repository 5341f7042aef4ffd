#include "executor/data/examples.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_ASKED = -100, BYTES = 256 };

struct redco_examples {
    redco_example *list;
    uint64_t count, room;
    int32_t *windows; /* windows of a file of ids: tokens, then targets */
};

/* A line of a file that is read. */
struct line {
    const redco_examples_options *options;
    const char *name;
    uint64_t number;
    redco_error *err;
};

__attribute__((format(printf, 2, 3))) static redco_status bad(const struct line *l, const char *format, ...)
{
    char place[480], text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%.440s:%llu", l->name, (unsigned long long)l->number);
    return redco_fail(l->err, REDCO_EVALUE, place, "%s", text);
}

static redco_status no_memory(const char *name, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, name, "no memory to read it");
}

static redco_status read_ids(const struct line *l, const char *key, const json_t *list, bool hidden, int32_t **ids_out,
                             uint32_t *count_out)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list)) { return bad(l, "\"%s\" is no list of ids", key); }
    if (count == 0) { return bad(l, "\"%s\" is empty", key); }
    int32_t *const ids = calloc(count, sizeof *ids);
    if (ids == NULL) { return no_memory(l->name, l->err); }
    *ids_out = ids; /* the example owns them */
    *count_out = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *const item = json_array_get(list, i);
        const json_int_t id = json_integer_value(item);
        const bool skipped = hidden && id == NOT_ASKED;
        if (!json_is_integer(item) || (!skipped && (id < 0 || (uint64_t)id >= l->options->vocabulary))) {
            char *const text = json_dumps(item, JSON_ENCODE_ANY);
            const redco_status st = bad(l, "\"%s\" item %zu is %.40s; ids are whole numbers from 0 to %llu%s", key,
                                        i + 1, text != NULL ? text : "?",
                                        (unsigned long long)l->options->vocabulary - 1, hidden ? ", or -100" : "");
            free(text);
            return st;
        }
        ids[i] = (int32_t)id;
    }
    return REDCO_OK;
}

static redco_status read_bytes(const struct line *l, const char *key, const json_t *text, int32_t **ids_out,
                               uint32_t *count_out)
{
    const size_t count = json_string_length(text);
    const unsigned char *const bytes = (const unsigned char *)json_string_value(text);
    if (!json_is_string(text)) { return bad(l, "\"%s\" is no text", key); }
    if (count == 0) { return bad(l, "\"%s\" is empty", key); }
    if (l->options->vocabulary < BYTES) {
        return bad(l, "\"%s\" is read as bytes, which a vocabulary of %llu has not; give ids", key,
                   (unsigned long long)l->options->vocabulary);
    }
    int32_t *const ids = calloc(count, sizeof *ids);
    if (ids == NULL) { return no_memory(l->name, l->err); }
    for (size_t i = 0; i < count; i++) { ids[i] = bytes[i]; }
    *ids_out = ids;
    *count_out = (uint32_t)count;
    return REDCO_OK;
}

static redco_status check_length(const struct line *l, const char *what, uint32_t count)
{
    if (count <= l->options->seq_len) { return REDCO_OK; }
    return bad(l, "has %u %s; sequences have %u", count, what, l->options->seq_len);
}

/* The tokens that follow; nothing follows the last. */
static redco_status following(const struct line *l, redco_example *e)
{
    if (e->token_count < 2) { return bad(l, "has one token and no targets: nothing is asked for"); }
    int32_t *const targets = calloc(e->token_count, sizeof *targets);
    if (targets == NULL) { return no_memory(l->name, l->err); }
    memcpy(targets, e->tokens + 1, (e->token_count - 1) * sizeof *targets);
    targets[e->token_count - 1] = NOT_ASKED;
    e->targets = targets;
    e->target_count = e->token_count;
    return REDCO_OK;
}

static redco_status read_targets(const struct line *l, const json_t *object, redco_example *e)
{
    const json_t *const ids = json_object_get(object, "targets"), *const text = json_object_get(object, "target_text");
    int32_t *targets = NULL;
    redco_status st = REDCO_OK;
    if (l->options->prompts) { return REDCO_OK; }
    if (ids == NULL && (text == NULL || !l->options->encoder_decoder)) {
        return l->options->encoder_decoder ? bad(l, "has neither \"targets\" nor \"target_text\"") : following(l, e);
    }
    st = ids != NULL ? read_ids(l, "targets", ids, true, &targets, &e->target_count)
                     : read_bytes(l, "target_text", text, &targets, &e->target_count);
    e->targets = targets;
    if (st != REDCO_OK) { return st; }
    if (!l->options->encoder_decoder && e->target_count != e->token_count) {
        return bad(l, "has %u targets for %u tokens; -100 stands where nothing is asked for", e->target_count,
                   e->token_count);
    }
    return check_length(l, "targets", e->target_count);
}

static redco_status read_object(const struct line *l, const json_t *object, redco_example *e)
{
    const json_t *const ids = json_object_get(object, "tokens"), *const text = json_object_get(object, "text");
    int32_t *tokens = NULL;
    if (!json_is_object(object)) { return bad(l, "is no object"); }
    if ((ids == NULL) == (text == NULL)) {
        return bad(l, "has %s of \"tokens\" and \"text\"; one is needed", ids == NULL ? "neither" : "both");
    }
    e->text = text != NULL;
    const redco_status st = text != NULL ? read_bytes(l, "text", text, &tokens, &e->token_count)
                                         : read_ids(l, "tokens", ids, false, &tokens, &e->token_count);
    e->tokens = tokens;
    if (st != REDCO_OK) { return st; }
    const redco_status fits = check_length(l, "tokens", e->token_count);
    return fits == REDCO_OK ? read_targets(l, object, e) : fits;
}

static redco_example *add(redco_examples *examples)
{
    if (examples->count == examples->room) {
        const uint64_t room = 2 * examples->room + 64;
        redco_example *const more = realloc(examples->list, room * sizeof *more);
        if (more == NULL) { return NULL; }
        examples->list = more;
        examples->room = room;
    }
    redco_example *const e = &examples->list[examples->count++];
    *e = (redco_example){.tokens = NULL};
    return e;
}

static bool blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') { return false; }
    }
    return true;
}

static redco_status read_line(redco_examples *examples, const struct line *l, const char *text, size_t size)
{
    json_error_t error;
    if (blank(text, size)) { return REDCO_OK; }
    redco_example *const e = add(examples);
    if (e == NULL) { return no_memory(l->name, l->err); }
    e->line = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (e->line == NULL) { return bad(l, "column %d: %s", error.column, error.text); }
    return read_object(l, e->line, e);
}

redco_status redco_examples_parse(const char *text, size_t size, const char *name,
                                  const redco_examples_options *options, redco_examples **examples_out,
                                  redco_error *err)
{
    struct line l = {options, name, 0, err};
    redco_examples *examples = calloc(1, sizeof *examples);
    redco_status st = examples != NULL ? REDCO_OK : no_memory(name, err);
    for (size_t at = 0; at < size && st == REDCO_OK;) {
        const char *const end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        l.number++;
        st = read_line(examples, &l, text + at, length);
        at += length + 1;
    }
    if (st == REDCO_OK && examples->count == 0) { st = redco_fail(err, REDCO_EVALUE, name, "has no example"); }
    if (st == REDCO_OK) {
        *examples_out = examples;
        examples = NULL;
    }
    redco_examples_close(examples);
    return st;
}

static redco_status read_file(const char *path, unsigned char **bytes_out, size_t *size_out, redco_error *err)
{
    FILE *const file = fopen(path, "rbe");
    unsigned char *bytes = NULL;
    size_t size = 0, room = 0, got = 1;
    if (file == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno)); }
    while (got > 0) {
        if (size == room) {
            room = 2 * room + (1 << 16);
            unsigned char *const more = realloc(bytes, room);
            if (more == NULL) { break; }
            bytes = more;
        }
        got = fread(bytes + size, 1, room - size, file);
        size += got;
    }
    const bool failed = ferror(file) != 0;
    const int why = errno;
    (void)fclose(file);
    if (got > 0 || failed) {
        free(bytes);
        return failed ? redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(why)) : no_memory(path, err);
    }
    *bytes_out = bytes;
    *size_out = size;
    return REDCO_OK;
}

static redco_status check_ids(const char *path, const int32_t *ids, uint64_t count, const redco_examples_options *o,
                              redco_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if ((uint64_t)(uint32_t)ids[i] < o->vocabulary) { continue; }
        return redco_fail(err, REDCO_EVALUE, path, "id %llu is %u; the vocabulary has %llu", (unsigned long long)i,
                          (uint32_t)ids[i], (unsigned long long)o->vocabulary);
    }
    return REDCO_OK;
}

/* Windows of a file of ids; what follows one is its targets. */
static redco_status cut(redco_examples *examples, const char *path, const int32_t *ids, uint64_t count,
                        const redco_examples_options *o, redco_error *err)
{
    const uint64_t length = o->seq_len;
    for (uint64_t at = 0; at + 1 < count; at += o->encoder_decoder ? 2 * length : length) {
        redco_example *const e = add(examples);
        if (e == NULL) { return no_memory(path, err); }
        const uint64_t rest = count - at - 1;
        e->tokens = ids + at;
        if (o->encoder_decoder) { /* a last window that is shorter is cut in half */
            const uint64_t both = rest + 1 < 2 * length ? (rest + 1) / 2 : length;
            e->targets = ids + at + both;
            e->token_count = e->target_count = (uint32_t)both;
        } else {
            e->targets = ids + at + 1;
            e->token_count = e->target_count = (uint32_t)(rest < length ? rest : length);
        }
    }
    return examples->count > 0
               ? REDCO_OK
               : redco_fail(err, REDCO_EVALUE, path, "has %llu ids; an example needs 2", (unsigned long long)count);
}

static redco_status parse_ids(const char *path, const unsigned char *bytes, size_t size,
                              const redco_examples_options *o, redco_examples **examples_out, redco_error *err)
{
    const uint32_t id_bytes = o->vocabulary <= UINT16_MAX + 1 ? 2 : 4;
    const uint64_t count = size / id_bytes;
    if (o->prompts) {
        return redco_fail(err, REDCO_EVALUE, path, "has no prompts: these are JSON lines, in a file *.jsonl");
    }
    if (size % id_bytes != 0) {
        return redco_fail(err, REDCO_EVALUE, path, "has %zu bytes, no multiple of %u: ids of %u bits are expected",
                          size, id_bytes, 8 * id_bytes);
    }
    redco_examples *examples = calloc(1, sizeof *examples);
    if (examples == NULL) { return no_memory(path, err); }
    examples->windows = calloc(count + 1, sizeof *examples->windows);
    redco_status st = examples->windows != NULL ? REDCO_OK : no_memory(path, err);
    for (uint64_t i = 0; i < count && st == REDCO_OK; i++) {
        uint32_t id = 0;
        for (uint32_t b = 0; b < id_bytes; b++) { id |= (uint32_t)bytes[i * id_bytes + b] << (8 * b); }
        examples->windows[i] = (int32_t)id;
    }
    if (st == REDCO_OK) { st = check_ids(path, examples->windows, count, o, err); }
    if (st == REDCO_OK) { st = cut(examples, path, examples->windows, count, o, err); }
    if (st == REDCO_OK) {
        *examples_out = examples;
        examples = NULL;
    }
    redco_examples_close(examples);
    return st;
}

redco_status redco_examples_open(const char *path, const redco_examples_options *options, redco_examples **examples_out,
                                 redco_error *err)
{
    static const char ending[] = ".jsonl";
    const size_t length = strlen(path), tail = sizeof ending - 1;
    unsigned char *bytes = NULL;
    size_t size = 0;
    redco_status st = read_file(path, &bytes, &size, err);
    if (st == REDCO_OK) {
        st = length > tail && strcmp(path + length - tail, ending) == 0
                 ? redco_examples_parse((const char *)bytes, size, path, options, examples_out, err)
                 : parse_ids(path, bytes, size, options, examples_out, err);
    }
    free(bytes);
    return st;
}

void redco_examples_close(redco_examples *examples)
{
    if (examples == NULL) { return; }
    for (uint64_t i = 0; i < examples->count; i++) {
        const redco_example *const e = &examples->list[i];
        json_decref((json_t *)(uintptr_t)e->line);
        if (examples->windows != NULL) { continue; }
        free((int32_t *)(uintptr_t)e->tokens);
        free((int32_t *)(uintptr_t)e->targets);
    }
    free(examples->list);
    free(examples->windows);
    free(examples);
}

uint64_t redco_examples_count(const redco_examples *examples)
{
    return examples->count;
}

redco_example redco_examples_get(const redco_examples *examples, uint64_t index)
{
    return examples->list[index];
}
