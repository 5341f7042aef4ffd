#include "executor/data/tokens.h"

#include "executor/backend/host/kernels.h"
#include "executor/data/ids_file.h"

#include <stdlib.h>
#include <string.h>

enum { RULES = 4, PERMUTATION_ROUNDS = 6 };
/* Which numbers of a seed: streams of Philox. */
enum { STREAM_FIRST = 1, STREAM_RULES, STREAM_ORDER };

struct redco_tokens {
    char *name;
    redco_tokens_options options;
    redco_ids_file ids;
    uint64_t windows; /* 0: made from the seed */
};

/* Four words that seed, stream and two numbers determine. */
static void draw(uint64_t seed, uint32_t stream, uint64_t number, uint32_t index, uint32_t words[4])
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), index, stream};
    redcoi_philox(counter, key, words);
}

static redco_status check_options(const redco_tokens_options *o, const char *name, redco_error *err)
{
    if (o->vocabulary == 0 || o->vocabulary > INT32_MAX) {
        return redco_fail(err, REDCO_EVALUE, name, "a vocabulary of %llu ids; 1 to %d are possible",
                          (unsigned long long)o->vocabulary, INT32_MAX);
    }
    if (o->seq_len == 0) { return redco_fail(err, REDCO_EVALUE, name, "sequences of 0 tokens"); }
    return REDCO_OK;
}

static redco_status create(const char *name, const redco_tokens_options *options, redco_tokens **tokens_out,
                           redco_error *err)
{
    const redco_status st = check_options(options, name, err);
    if (st != REDCO_OK) { return st; }
    redco_tokens *t = calloc(1, sizeof *t);
    if (t == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "no memory to read it"); }
    t->options = *options;
    t->name = strdup(name);
    if (t->name == NULL) {
        free(t);
        return redco_fail(err, REDCO_ENOMEM, name, "no memory to read it");
    }
    *tokens_out = t;
    return REDCO_OK;
}

/* Ids behind a sequence that its targets need. */
static uint64_t following(const redco_tokens *t)
{
    return t->options.continued ? t->options.seq_len : 1;
}

/* Ids from the beginning of one window to that of the next. */
static uint64_t apart(const redco_tokens *t)
{
    const uint64_t length = t->options.seq_len;
    return t->options.continued ? 2 * length : t->ids.row > 0 ? length + 1 : length;
}

static redco_status measure(redco_tokens *t, redco_error *err)
{
    const uint64_t ids = t->ids.count, window = t->options.seq_len + following(t);
    if (t->ids.row > 0 && t->ids.row != window) {
        return redco_fail(err, REDCO_EVALUE, t->name,
                          "has rows of %llu ids; sequences of %u tokens and their targets need %llu",
                          (unsigned long long)t->ids.row, t->options.seq_len, (unsigned long long)window);
    }
    if (ids < window) {
        return redco_fail(err, REDCO_EVALUE, t->name,
                          "has %llu ids; one sequence of %u tokens and the %s that follow%s need %llu",
                          (unsigned long long)ids, t->options.seq_len, t->options.continued ? "targets" : "one",
                          t->options.continued ? "" : "s", (unsigned long long)window);
    }
    t->windows = (ids - window) / apart(t) + 1;
    return REDCO_OK;
}

redco_status redco_tokens_parse(const void *bytes, size_t size, const char *name, uint32_t id_bytes,
                                const redco_tokens_options *options, redco_tokens **tokens_out, redco_error *err)
{
    redco_tokens *t = NULL;
    redco_status st = create(name, options, &t, err);
    if (st == REDCO_OK) {
        st = redco_ids_file_parse(bytes, size, t->name, id_bytes, options->vocabulary, &t->ids, err);
    }
    if (st == REDCO_OK) { st = measure(t, err); }
    if (st == REDCO_OK) {
        *tokens_out = t;
        t = NULL;
    }
    redco_tokens_close(t);
    return st;
}

redco_status redco_tokens_open(const char *path, uint32_t id_bytes, const redco_tokens_options *options,
                               redco_tokens **tokens_out, redco_error *err)
{
    redco_mapped_file file = {.bytes = NULL};
    redco_status st = redco_mapped_file_open(path, &file, err);
    if (st == REDCO_OK) { st = redco_tokens_parse(file.bytes, file.size, path, id_bytes, options, tokens_out, err); }
    if (st != REDCO_OK) {
        redco_mapped_file_close(&file);
        return st;
    }
    (*tokens_out)->ids.file = file;
    return REDCO_OK;
}

redco_status redco_tokens_random(const redco_tokens_options *options, redco_tokens **tokens_out, redco_error *err)
{
    return create("random tokens", options, tokens_out, err);
}

void redco_tokens_close(redco_tokens *t)
{
    if (t == NULL) { return; }
    redco_ids_file_close(&t->ids);
    free(t->name);
    free(t);
}

uint64_t redco_tokens_windows(const redco_tokens *t)
{
    return t->windows;
}

/* A permutation of 0 .. windows-1 without memory: a Feistel network on the least even number of bits that holds them,
 * walked until it falls inside (Black and Rogaway, CT-RSA 2002). */
uint64_t redco_tokens_order(uint64_t seed, uint64_t count, uint64_t epoch, uint64_t index)
{
    uint32_t half = 1;
    while (half < 32 && (count - 1) >> (2 * half) != 0) { half++; }
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint32_t round = 0; round < PERMUTATION_ROUNDS; round++) {
            uint32_t words[4];
            draw(seed, STREAM_ORDER + round, right ^ (epoch << 32), (uint32_t)(epoch >> 32), words);
            const uint64_t mixed = left ^ (words[0] & mask);
            left = right;
            right = mixed;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

static redco_status read_window(const redco_tokens *t, uint64_t window, int32_t *tokens_out, int32_t *targets_out,
                                redco_error *err)
{
    const uint64_t length = t->options.seq_len, before = following(t), first = window * apart(t);
    redco_status st = redco_mapped_file_whole(&t->ids.file, t->ids.name, err);
    for (uint64_t i = 0; i < length + before && st == REDCO_OK; i++) {
        int32_t id = 0;
        st = redco_ids_file_get(&t->ids, first + i, &id, err);
        if (i < length) { tokens_out[i] = id; }
        if (i >= before) { targets_out[i - before] = id; }
    }
    return st;
}

/* The next id is 5 id + 1 + 7 rule, modulo the vocabulary. */
static void make_sequence(const redco_tokens *t, uint64_t number, int32_t *tokens_out, int32_t *targets_out)
{
    const uint64_t vocabulary = t->options.vocabulary;
    uint32_t words[4];
    draw(t->options.seed, STREAM_FIRST, number, 0, words);
    uint64_t id = words[0] % vocabulary;
    const uint64_t length = t->options.seq_len, before = following(t);
    for (uint64_t i = 0; i < length + before; i++) {
        if (i < length) { tokens_out[i] = (int32_t)id; }
        if (i >= before) { targets_out[i - before] = (int32_t)id; }
        if (i % 4 == 0) { draw(t->options.seed, STREAM_RULES, number, (uint32_t)(i / 4), words); }
        id = (5 * id + 1 + 7 * (uint64_t)(words[i % 4] % RULES)) % vocabulary;
    }
}

redco_status redco_tokens_sequence(const redco_tokens *t, uint64_t number, int32_t *tokens_out, int32_t *targets_out,
                                   redco_error *err)
{
    if (t->windows == 0) {
        make_sequence(t, number, tokens_out, targets_out);
        return REDCO_OK;
    }
    const uint64_t place = number % t->windows;
    const uint64_t window =
        t->options.in_order ? place : redco_tokens_order(t->options.seed, t->windows, number / t->windows, place);
    return read_window(t, window, tokens_out, targets_out, err);
}

uint64_t redco_batch_first(const redco_batch_place *p)
{
    return ((p->step * p->micro_batches + p->micro_batch) * p->dp_ranks + p->dp_rank) * p->sequences;
}

redco_status redco_tokens_batch(const redco_tokens *t, const redco_batch_place *place, int32_t *tokens_out,
                                int32_t *targets_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    const uint64_t first = redco_batch_first(place);
    for (uint32_t i = 0; i < place->sequences && st == REDCO_OK; i++) {
        const size_t at = (size_t)i * t->options.seq_len;
        st = redco_tokens_sequence(t, first + i, tokens_out + at, targets_out + at, err);
    }
    return st;
}
