/* Splits as people write them. */
#include "costmodel/schedules/stages.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 1 << 20, MOST_STEPS = 1 << 22, DEPTH = 8 };

static redco_status bad(redco_error *err, const char *text, const char *why)
{
    return redco_fail(err, REDCO_EVALUE, "split", "\"%.60s\" %s", text, why);
}

/* A number at @p *at. @return false where none is, or one too large */
static bool number(const char **at, uint32_t *out)
{
    char *end = NULL;
    if (isdigit((unsigned char)**at) == 0) { return false; }
    const unsigned long long value = strtoull(*at, &end, 10);
    if (value > MOST_BLOCKS) { return false; }
    *at = end;
    *out = (uint32_t)value;
    return true;
}

static redco_status read_list(const char *text, uint32_t *split, uint32_t *count, redco_error *err)
{
    const char *at = text;
    *count = 0;
    for (;;) {
        if (*count == REDCO_SPLIT_POSITIONS_MAX || !number(&at, &split[*count])) {
            return bad(err, text, "is no list of at most 1024 whole numbers, such as 7,8,8,7");
        }
        ++*count;
        if (*at == '\0') { return REDCO_OK; }
        if (*at++ != ',') { return bad(err, text, "is no list of whole numbers, such as 7,8,8,7"); }
    }
}

/* A layout while it is read: which letters have been at which position. */
struct layout {
    const char *text, *at;
    uint32_t *split;
    uint32_t position, blocks, embeddings, predictions, losses, steps;
    bool bad;
};

static void letter(struct layout *l, char c)
{
    const bool last = l->losses > 0; /* nothing may follow it */
    switch (c) {
    case 'E': l->bad = l->bad || l->embeddings++ > 0 || l->blocks > 0 || l->position > 0; return;
    case 'm': /* a block behind the last */
    case 't':
        l->bad = l->bad || last || l->blocks == MOST_BLOCKS || l->embeddings == 0 || (c == 't' && l->predictions > 0);
        l->predictions += c == 'm' ? 1 : 0;
        l->blocks++;
        l->split[l->position]++;
        return;
    case 'L': l->bad = l->bad || l->losses++ > 0 || l->embeddings == 0; return;
    case '|':
        if (l->bad || last || l->position + 1 == REDCO_SPLIT_POSITIONS_MAX) {
            l->bad = true;
            return;
        }
        l->split[++l->position] = 0;
        return;
    default: l->bad = true;
    }
}

/* Letters up to the end or a closing bracket, once each time that they are repeated. */
static void letters(struct layout *l, int depth)
{
    while (!l->bad && *l->at != '\0' && *l->at != ')') {
        const char *const from = l->at;
        uint32_t times = 1;
        if (*l->at == ',') {
            l->at++;
            continue;
        }
        if (*l->at == '(') {
            l->at++;
            if (depth == DEPTH) { l->bad = true; }
            letters(l, depth + 1);
            if (l->bad || *l->at != ')') {
                l->bad = true;
                return;
            }
        } else {
            letter(l, *l->at);
        }
        l->at++;
        if (*l->at == '*') {
            l->at++;
            if (!number(&l->at, &times) || times == 0) { l->bad = true; }
        }
        const char *const next = l->at;
        for (uint32_t i = 1; i < times && !l->bad; i++) {
            l->bad = ++l->steps > MOST_STEPS;
            l->at = from + (*from == '(' ? 1 : 0);
            if (*from == '(') {
                letters(l, depth + 1);
            } else {
                letter(l, *from);
            }
        }
        l->at = next;
    }
}

static redco_status read_layout(const char *text, uint32_t *split, uint32_t *count, redco_error *err)
{
    struct layout l = {.text = text, .at = text, .split = split};
    split[0] = 0;
    letters(&l, 0);
    if (l.bad || *l.at != '\0' || l.embeddings != 1 || l.losses != 1) {
        return bad(err, text,
                   "is no layout such as Et*7|t*8|t*8|t*7L: E first, L last, t a block, m a module of multi-token "
                   "prediction behind them, | between positions");
    }
    *count = l.position + 1;
    return REDCO_OK;
}

/* first=N,last=N or embedding,loss, in any order. */
struct words {
    bool embedding, loss, has_first, has_last;
    uint32_t first, last;
};

static bool word(const char **at, const char *wanted)
{
    const size_t length = strlen(wanted);
    if (strncmp(*at, wanted, length) != 0) { return false; }
    *at += length;
    return true;
}

static redco_status read_words(const char *text, struct words *w, redco_error *err)
{
    const char *at = text;
    for (;;) {
        bool known = true;
        if (word(&at, "embedding")) {
            w->embedding = true;
        } else if (word(&at, "loss")) {
            w->loss = true;
        } else if (word(&at, "first=")) {
            w->has_first = known = number(&at, &w->first);
        } else if (word(&at, "last=")) {
            w->has_last = known = number(&at, &w->last);
        } else {
            known = false;
        }
        if (!known || (*at != '\0' && *at != ',')) {
            return bad(err, text, "is none of: 7,8,8,7; first=N,last=N; embedding,loss; Et*7|t*8|t*8|t*7L; equal");
        }
        if (*at == '\0') { break; }
        at++;
    }
    if ((w->embedding || w->loss) && (w->has_first || w->has_last)) {
        return bad(err, text, "has both of: embedding or loss; first or last");
    }
    return REDCO_OK;
}

/* Blocks of a stage in equal parts to its chunks. */
static redco_status share(const struct words *w, uint32_t blocks, uint32_t stages, uint32_t chunks, uint32_t *split,
                          redco_error *err)
{
    const uint32_t edges = (w->embedding ? 1U : 0U) + (w->loss ? 1U : 0U);
    const uint32_t given = (w->has_first ? 1U : 0U) + (w->has_last && stages > 1 ? 1U : 0U);
    const uint64_t taken = (uint64_t)w->first + w->last;
    const uint32_t others = stages - given;
    const uint64_t left = taken <= blocks + edges ? blocks + edges - taken : 0;
    if (taken > blocks || (others == 0 ? left != 0 : left % others != 0)) {
        return redco_fail(err, REDCO_EVALUE, "split", "%llu of %u layers do not divide over %u of %u stages",
                          (unsigned long long)left, blocks + edges, others, stages);
    }
    for (uint32_t i = 0; i < stages; i++) {
        uint64_t here = others > 0 ? left / others : 0;
        if (i == 0 && w->has_first) { here = w->first; }
        if (i + 1 == stages && w->has_last && stages > 1) { here = w->last; }
        if (here % chunks != 0) {
            return redco_fail(err, REDCO_EVALUE, "split", "%llu layers of stage %u do not divide over its %u chunks",
                              (unsigned long long)here, i, chunks);
        }
        for (uint32_t c = 0; c < chunks; c++) { split[c * stages + i] = (uint32_t)(here / chunks); }
    }
    uint32_t *const last = &split[stages * chunks - 1];
    if ((w->embedding && split[0] == 0) || (w->loss && *last == 0)) {
        return redco_fail(err, REDCO_EVALUE, "split", "leaves no room for embedding or loss");
    }
    split[0] -= w->embedding ? 1 : 0;
    *last -= w->loss ? 1 : 0;
    return REDCO_OK;
}

bool redco_split_says_equal(const char *text)
{
    return strcmp(text, "equal") == 0;
}

redco_status redco_split_read(const char *text, uint32_t blocks, uint32_t stages, uint32_t chunks, uint32_t *split_out,
                              uint32_t *chunks_out, redco_error *err)
{
    const bool layout = text[0] == 'E' || text[0] == '(' || strchr(text, '|') != NULL;
    struct words words = {.first = 0};
    uint32_t count = 0;
    if (!layout && isdigit((unsigned char)text[0]) == 0) {
        const redco_status st = read_words(text, &words, err);
        *chunks_out = chunks > 0 ? chunks : 1;
        if (st != REDCO_OK) { return st; }
        if (stages == 0 || (uint64_t)stages * *chunks_out > REDCO_SPLIT_POSITIONS_MAX) {
            return bad(err, text, "is for at most 1024 positions");
        }
        return share(&words, blocks, stages, *chunks_out, split_out, err);
    }
    const redco_status st =
        layout ? read_layout(text, split_out, &count, err) : read_list(text, split_out, &count, err);
    if (st != REDCO_OK) { return st; }
    if (stages == 0 || count % stages != 0 || (chunks > 0 && count / stages != chunks)) {
        return redco_fail(err, REDCO_EVALUE, "split", "has %u positions; %u stages%s", count, stages,
                          chunks > 1 ? " of so many chunks have others" : " need a multiple");
    }
    *chunks_out = count / stages;
    return redco_split_check(split_out, count, blocks, err);
}
