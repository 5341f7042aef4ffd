#include "costmodel/schedules/dimensions.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 1 << 28, MOST_CHUNKS = 64 };

enum kind {
    NUMBER, /* uint32_t, from 1 */
    LARGE,  /* uint64_t, from 1 */
    SWITCH, /* bool */
    WORD,   /* an enumeration */
    MESH,   /* redco_mesh */
    SPLIT   /* blocks of positions; a plan file has them as its stages */
};

struct dimension {
    const char *key; /* in the plan file, in whichever object */
    enum kind kind;
    size_t offset;            /* in redco_parallelism */
    const char *const *words; /* WORD: NULL-terminated */
    uint64_t most;            /* numbers */
    bool optional;            /* older plans lack it, or it is null */
    bool follows;             /* from others and the number of GPUs */
    bool of_context;          /* stated only where cp is more than 1 */
};

#define AT(member) offsetof(redco_parallelism, member)

static const struct dimension dimensions[] = {
    {"tp", NUMBER, AT(tp), NULL, MOST_RANKS, false, false, false},
    {"cp", NUMBER, AT(cp), NULL, MOST_RANKS, false, false, false},
    {"cp_type", WORD, AT(cp_type), redco_cp_type_words, 0, true, false, true},
    {"pp", NUMBER, AT(pp), NULL, MOST_RANKS, false, false, false},
    {"ep", NUMBER, AT(ep), NULL, MOST_RANKS, false, false, false},
    {"etp", NUMBER, AT(etp), NULL, MOST_RANKS, true, false, false},
    {"sequence_parallel", SWITCH, AT(sequence_parallel), NULL, 0, false, false, false},
    {"pp_chunks", NUMBER, AT(chunks), NULL, MOST_CHUNKS, true, false, false},
    {"schedule", WORD, AT(schedule), redco_pipeline_words, 0, true, false, false},
    {"group", NUMBER, AT(group), NULL, UINT32_MAX, true, false, false},
    {"stages", SPLIT, AT(split), NULL, 0, true, false, false},
    {"micro_batch", NUMBER, AT(micro_batch), NULL, MOST_RANKS, false, false, false},
    /* a double still counts exactly up to there */
    {"micro_batches", LARGE, AT(micro_batches), NULL, (uint64_t)1 << 53, false, true, false},
    {"scheme", WORD, AT(scheme), redco_scheme_words, 0, false, false, false},
    {"dp", MESH, AT(dp), NULL, 0, false, true, false},
    {"secondary", MESH, AT(secondary), NULL, 0, true, false, false},
};

enum { COUNT = sizeof dimensions / sizeof dimensions[0] };

/* Enumerations are members of the size of a number. */
_Static_assert(sizeof(redco_cp_type) == sizeof(uint32_t) && sizeof(redco_pipeline_kind) == sizeof(uint32_t) &&
                   sizeof(redco_scheme) == sizeof(uint32_t),
               "enumerations are read as numbers");

/* The row of a key, which there is. */
static const struct dimension *dimension_of(const char *key)
{
    size_t i = 0;
    while (i < COUNT && strcmp(dimensions[i].key, key) != 0) { i++; }
    assert(i < COUNT);
    return &dimensions[i];
}

static const void *at(const redco_parallelism *parallelism, const struct dimension *d)
{
    return (const char *)parallelism + d->offset;
}

static uint64_t number_at(const redco_parallelism *parallelism, const struct dimension *d)
{
    uint32_t number = 0;
    uint64_t large = 0;
    switch (d->kind) {
    case LARGE: memcpy(&large, at(parallelism, d), sizeof large); return large;
    case SWITCH: return *(const bool *)at(parallelism, d) ? 0 : 1; /* on leads */
    case SPLIT: return parallelism->split != NULL ? 1 : 0;
    case NUMBER:
    case WORD:
    case MESH: break;
    }
    memcpy(&number, at(parallelism, d), sizeof number); /* a mesh's GPUs */
    return number;
}

int redco_parallelism_compare(const redco_parallelism *a, const redco_parallelism *b)
{
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t x = number_at(a, &dimensions[i]), y = number_at(b, &dimensions[i]);
        if (x != y && !dimensions[i].follows) { return x < y ? -1 : 1; }
    }
    return 0;
}

bool redco_parallelism_same(const redco_parallelism *a, const redco_parallelism *b)
{
    for (size_t i = 0; i < COUNT; i++) {
        const struct dimension *const d = &dimensions[i];
        const bool mesh = d->kind == MESH;
        if (d->follows || d->kind == SPLIT) { continue; }
        if (mesh ? memcmp(at(a, d), at(b, d), sizeof(redco_mesh)) != 0 : number_at(a, d) != number_at(b, d)) {
            return false;
        }
    }
    return true;
}

json_t *redco_mesh_json(redco_mesh mesh)
{
    return json_pack("{s:I,s:I}", "gpus", (json_int_t)mesh.gpus, "nodes", (json_int_t)mesh.nodes);
}

redco_status redco_mesh_read(const redco_json_value *object, const char *key, redco_mesh *out, redco_error *err)
{
    redco_json_value mesh;
    redco_status st = redco_json_object(object, key, &mesh, err);
    if (st != REDCO_OK || (st = redco_json_u32(&mesh, "gpus", 1, MOST_RANKS, &out->gpus, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_u32(&mesh, "nodes", 1, MOST_RANKS, &out->nodes, err);
}

redco_status redco_word_read(const redco_json_value *object, const char *key, const char *const *words, uint32_t *out,
                             redco_error *err)
{
    const char *text = NULL;
    char known[128] = "";
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return REDCO_OK;
        }
        const size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return redco_json_fail(object, key, err, "is \"%.40s\"; one of %s is needed", text, known);
}

/* The next key of a list. @return behind it, or NULL at the end */
static const char *next_key(const char *keys, const struct dimension **out)
{
    char key[32];
    keys += strspn(keys, " ");
    const size_t length = strcspn(keys, " ");
    if (length == 0) { return NULL; }
    (void)snprintf(key, sizeof key, "%.*s", (int)length, keys);
    *out = dimension_of(key);
    return keys + length;
}

static json_t *value_json(const redco_parallelism *parallelism, const struct dimension *d)
{
    redco_mesh mesh = {0, 0};
    switch (d->kind) {
    case SWITCH: return json_boolean(*(const bool *)at(parallelism, d));
    case WORD: return json_string(d->words[number_at(parallelism, d)]);
    case MESH:
        memcpy(&mesh, at(parallelism, d), sizeof mesh);
        return mesh.gpus == 0 && d->optional ? json_null() : redco_mesh_json(mesh);
    case SPLIT: return json_null();
    case NUMBER:
    case LARGE: break;
    }
    return json_integer((json_int_t)number_at(parallelism, d));
}

bool redco_parallelism_write(const redco_parallelism *parallelism, const char *keys, json_t *object)
{
    const struct dimension *d = NULL;
    bool good = true;
    while ((keys = next_key(keys, &d)) != NULL) {
        if (d->of_context && parallelism->cp <= 1) { continue; }
        good = json_object_set_new(object, d->key, value_json(parallelism, d)) == 0 && good;
    }
    return good;
}

static redco_status read_one(const redco_json_value *object, const struct dimension *d, redco_parallelism *parallelism,
                             redco_error *err)
{
    void *const out = (char *)parallelism + d->offset;
    if (d->optional && !redco_json_has(object, d->key)) { return REDCO_OK; }
    if (d->of_context && parallelism->cp <= 1) {
        return redco_json_fail(object, d->key, err, "is stated, but cp is 1: leave it out");
    }
    switch (d->kind) {
    case NUMBER: return redco_json_u32(object, d->key, 1, (uint32_t)d->most, out, err);
    case LARGE: return redco_json_u64(object, d->key, 1, d->most, out, err);
    case SWITCH: return redco_json_bool(object, d->key, out, err);
    case WORD: return redco_word_read(object, d->key, d->words, out, err);
    case MESH: return redco_mesh_read(object, d->key, out, err);
    case SPLIT: break;
    }
    return REDCO_OK;
}

redco_status redco_parallelism_read(const redco_json_value *object, const char *keys, redco_parallelism *parallelism,
                                    redco_error *err)
{
    const struct dimension *d = NULL;
    redco_status st = REDCO_OK;
    while (st == REDCO_OK && (keys = next_key(keys, &d)) != NULL) { st = read_one(object, d, parallelism, err); }
    return st;
}
