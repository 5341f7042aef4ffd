#include "executor/data/examples.h"

#include "executor/data/ids_file.h"
#include "executor/data/record_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* SPECIALS: as many as ByT5 has, whose vocabulary is 384. */
enum { NOT_ASKED = -100, BYTES = 256, SPECIALS = 128 };

struct redco_examples {
    redco_example *list;
    uint64_t count, room, skipped;
    int32_t *windows; /* ids of a file of them */
    bool borrows;     /* all is other examples' */
};

/* A record of a file that is read. */
struct line {
    const redco_examples_options *options;
    const redco_record_file *file;
    uint64_t number;
    redco_error *err;
};

__attribute__((format(printf, 2, 3))) static redco_status bad(const struct line *l, const char *format, ...)
{
    char place[REDCO_RECORD_PLACE_BYTES], text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return redco_fail(l->err, REDCO_EVALUE, redco_record_file_place(l->file, l->number, place), "%s", text);
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
    if (ids == NULL) { return no_memory(redco_record_file_path(l->file), l->err); }
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
    if (l->options->vocabulary > BYTES + SPECIALS && !l->options->bytes) {
        return bad(l,
                   "\"%s\" would be read as bytes, but the vocabulary of %llu has a tokenizer's words: give the ids "
                   "as \"%s\", or say --bytes if it was trained on bytes",
                   key, (unsigned long long)l->options->vocabulary, strcmp(key, "text") == 0 ? "tokens" : "targets");
    }
    int32_t *const ids = calloc(count, sizeof *ids);
    if (ids == NULL) { return no_memory(redco_record_file_path(l->file), l->err); }
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
    if (targets == NULL) { return no_memory(redco_record_file_path(l->file), l->err); }
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

/* The parts of an example that was made of a record. */
static void drop(redco_example *e)
{
    json_decref((json_t *)(uintptr_t)e->line);
    free((int32_t *)(uintptr_t)e->tokens);
    free((int32_t *)(uintptr_t)e->targets);
}

/* Every record once, in order. */
static redco_status read_records(const redco_record_file *file, const redco_examples_options *options,
                                 redco_examples **examples_out, redco_error *err)
{
    const char *const name = redco_record_file_path(file);
    redco_examples *examples = calloc(1, sizeof *examples);
    redco_status st = examples != NULL ? REDCO_OK : no_memory(name, err);
    for (uint64_t i = 0; i < redco_record_file_count(file) && st == REDCO_OK; i++) {
        redco_error own = {.status = REDCO_OK};
        const struct line l = {options, file, i, &own};
        json_t *object = NULL;
        redco_example *const e = add(examples);
        st = e != NULL ? redco_record_file_get(file, i, &object, &own) : no_memory(name, &own);
        if (st == REDCO_OK) {
            e->line = object;
            st = read_object(&l, object, e);
            for (uint32_t t = 0; st == REDCO_OK && t < e->target_count; t++) { e->asked += e->targets[t] >= 0 ? 1 : 0; }
            if (!options->prompts) { /* predictions alone tell the line */
                json_decref(object);
                e->line = NULL;
            }
        }
        if (st == REDCO_EVALUE && options->skip_bad) {
            drop(&examples->list[--examples->count]);
            examples->skipped++;
            st = REDCO_OK;
        } else if (st != REDCO_OK) {
            (void)redco_fail(err, own.status, own.place, "%s", own.text);
        }
    }
    if (st == REDCO_OK && examples->count == 0) {
        st = redco_fail(err, REDCO_EVALUE, name, "has no example%s", examples->skipped > 0 ? " that is not bad" : "");
    }
    if (st == REDCO_OK) {
        *examples_out = examples;
        examples = NULL;
    }
    redco_examples_close(examples);
    return st;
}

/* Windows of a file of ids; what follows one is its targets. */
static redco_status cut(redco_examples *examples, const char *path, const int32_t *ids, const redco_ids_file *file,
                        const redco_examples_options *o, redco_error *err)
{
    const uint64_t length = o->seq_len, row = o->encoder_decoder ? 2 * length : length + 1, count = file->count;
    const uint64_t apart = file->row > 0 || o->encoder_decoder ? row : length;
    if (file->row > 0 && file->row != row) {
        return redco_fail(err, REDCO_EVALUE, path,
                          "has rows of %llu ids; sequences of %u tokens and their targets need %llu",
                          (unsigned long long)file->row, o->seq_len, (unsigned long long)row);
    }
    for (uint64_t at = 0; at + 1 < count; at += apart) {
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
        e->asked = e->target_count;
    }
    return examples->count > 0
               ? REDCO_OK
               : redco_fail(err, REDCO_EVALUE, path, "has %llu ids; an example needs 2", (unsigned long long)count);
}

static redco_status read_windows(const char *path, const redco_examples_options *o, redco_examples **examples_out,
                                 redco_error *err)
{
    redco_ids_file ids = {.count = 0};
    if (o->prompts) {
        return redco_fail(err, REDCO_EVALUE, path, "has no prompts: these are JSON lines, in a file *.jsonl");
    }
    redco_status st = redco_ids_file_open(path, 0, o->vocabulary, &ids, err);
    if (st != REDCO_OK) { return st; }
    redco_examples *examples = calloc(1, sizeof *examples);
    if (examples != NULL) { examples->windows = calloc(ids.count + 1, sizeof *examples->windows); }
    st = examples != NULL && examples->windows != NULL ? REDCO_OK : no_memory(path, err);
    for (uint64_t i = 0; i < ids.count && st == REDCO_OK; i++) {
        st = redco_ids_file_get(&ids, i, &examples->windows[i], err);
    }
    if (st == REDCO_OK) { st = cut(examples, path, examples->windows, &ids, o, err); }
    redco_ids_file_close(&ids);
    if (st == REDCO_OK) {
        *examples_out = examples;
        examples = NULL;
    }
    redco_examples_close(examples);
    return st;
}

bool redco_examples_are_records(const char *path)
{
    static const char ending[] = ".jsonl";
    const size_t length = strlen(path), tail = sizeof ending - 1;
    struct stat info;
    return (length > tail && strcmp(path + length - tail, ending) == 0) ||
           (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

redco_status redco_examples_open(const char *path, const redco_examples_options *options, redco_examples **examples_out,
                                 redco_error *err)
{
    redco_record_file *file = NULL;
    if (!redco_examples_are_records(path)) { return read_windows(path, options, examples_out, err); }
    redco_status st = redco_record_file_open(path, true, &file, err);
    if (st == REDCO_OK) { st = read_records(file, options, examples_out, err); }
    redco_record_file_close(file);
    return st;
}

void redco_examples_close(redco_examples *examples)
{
    if (examples == NULL) { return; }
    if (examples->borrows) {
        free(examples);
        return;
    }
    for (uint64_t i = 0; i < examples->count && examples->windows == NULL; i++) { drop(&examples->list[i]); }
    free(examples->list);
    free(examples->windows);
    free(examples);
}

redco_status redco_examples_begin(const redco_examples *examples, uint64_t count, redco_examples **examples_out,
                                  redco_error *err)
{
    redco_examples *const some = calloc(1, sizeof *some);
    if (some == NULL) { return no_memory("examples", err); }
    *some = *examples;
    some->borrows = true;
    if (some->count > count) { some->count = count; }
    *examples_out = some;
    return REDCO_OK;
}

uint64_t redco_examples_count(const redco_examples *examples)
{
    return examples->count;
}

uint64_t redco_examples_skipped(const redco_examples *examples)
{
    return examples->skipped;
}

redco_example redco_examples_get(const redco_examples *examples, uint64_t index)
{
    return examples->list[index];
}
