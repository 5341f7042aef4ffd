#include "costmodel/schedules/dimensions.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 1 << 28, MOST_CHUNKS = 64, MOST_GIVEN = 1 << 24, MOST_GROUP = 1 << 30 };

#define AT(member) offsetof(redco_parallelism, member)
#define KIND(kind) REDCO_DIMENSION_##kind

/* clang-format off */
const redco_dimension redco_dimensions[REDCO_DIMENSIONS + 1] = {
    [REDCO_OF_TP] = {"tp", KIND(NUMBER), AT(tp), .most = MOST_RANKS,
     .word = "tp", .bit = REDCO_HAS_TP, .what = "tensor parallelism", .in_dims = true, .differs = "tp",
     .option = "tp", .says = "tp = ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_FREE,
     .help = "Tensor-parallel degree"},
    [REDCO_OF_CP] = {"cp", KIND(NUMBER), AT(cp), .most = MOST_RANKS,
     .word = "cp", .bit = REDCO_HAS_CP, .what = "context parallelism", .in_dims = true, .differs = "cp",
     .option = "cp", .says = "cp = ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_MORE,
     .help = "Context-parallel degree (auto: also what no measured run had)"},
    [REDCO_OF_CP_TYPE] = {"cp_type", KIND(WORD), AT(cp_type), redco_cp_type_words, .optional = true, .of_context = true, .listed = true,
     .option = "cp-type", .says = "cp-type = ", .argument = "WORD", .automatic = REDCO_AUTO_FREE,
     .help = "How context-parallel ranks come to keys of others: p2p, all-gather or all-to-all; auto: the best that the engine has"},
    [REDCO_OF_PP] = {"pp", KIND(NUMBER), AT(pp), .most = MOST_RANKS,
     .word = "pp", .bit = REDCO_HAS_PP, .what = "pipeline stages", .in_dims = true, .differs = "pp",
     .option = "pp", .says = "pp = ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_MORE,
     .help = "Pipeline stages (auto: also more than measured runs had)"},
    [REDCO_OF_EP] = {"ep", KIND(NUMBER), AT(ep), .most = MOST_RANKS, .word = "ep", .bit = REDCO_HAS_EP, .in_dims = true,
     .option = "ep", .says = "ep = ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_FREE,
     .help = "Ranks over which the experts of a layer are shared out"},
    [REDCO_OF_ETP] = {"etp", KIND(NUMBER), AT(etp), .most = MOST_RANKS, .optional = true,
     .option = "etp", .says = "etp = ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_FREE,
     .help = "Tensor-parallel degree of experts: that of --tp, or 1"},
    [REDCO_OF_SEQUENCE_PARALLEL] = {"sequence_parallel", KIND(SWITCH), AT(sequence_parallel), .word = "sp", .bit = REDCO_HAS_SP, .in_dims = true,
     .option = "sequence-parallel", .says = "sequence parallelism", .argument = "on|off|auto", .may_lack = true, .automatic = REDCO_AUTO_FREE,
     .help = "Split norms and dropout over the tensor-parallel ranks, too (without a value on)"},
    [REDCO_OF_CHUNKS] = {"pp_chunks", KIND(NUMBER), AT(chunks), .most = MOST_CHUNKS, .optional = true,
     .word = "chunks", .bit = REDCO_HAS_CHUNKS, .what = "model chunks",
     .option = "pp-chunks", .says = "pp-chunks = ", .argument = "N|auto", .option_most = MOST_CHUNKS, .automatic = REDCO_AUTO_MORE,
     .help = "Model chunks of each pipeline stage (more than one: interleaved 1F1B)"},
    [REDCO_OF_SCHEDULE] = {"schedule", KIND(WORD), AT(schedule), redco_pipeline_words, .optional = true,
     .option = "pp-schedule", .says = "passes in the order of ", .argument = "WORD", .automatic = REDCO_AUTO_FREE,
     .help = "Order of passes: 1f1b, interleaved, gpipe, zb-h1, dualpipev, dualpipe (auto: those that the engine has)"},
    [REDCO_OF_GROUP] = {"group", KIND(NUMBER), AT(group), .most = UINT32_MAX, .optional = true, .word = "groups", .bit = REDCO_HAS_GROUPS,
     .option = "pp-group", .says = "pp-group = ", .argument = "N", .option_most = MOST_GROUP,
     .help = "Micro-batches that an interleaved chunk takes one after the other (default: as few as can be, or as hide transfers)"},
    [REDCO_OF_STAGES] = {"stages", KIND(SPLIT), AT(split), .optional = true, .word = "stages", .bit = REDCO_HAS_STAGES,
     .option = "pp-layout", .says = "stages", .argument = "TEXT",
     .help = "Blocks of given stages: 7,8,8,7; first=N,last=N; embedding,loss; Et*7|t*8|t*8|t*7L; or equal"},
    [REDCO_OF_MICRO_BATCH] = {"micro_batch", KIND(NUMBER), AT(micro_batch), .most = MOST_RANKS, .differs = "micro-batch",
     .option = "micro-batch", .says = "micro-batch ", .argument = "N|auto", .option_most = MOST_GIVEN, .automatic = REDCO_AUTO_FREE,
     .help = "Sequences of a micro-batch"},
    [REDCO_OF_MICRO_BATCHES] = {"micro_batches", KIND(LARGE), AT(micro_batches), .most = (uint64_t)1 << 53, .follows = true}, /* exact in a double */
    [REDCO_OF_SCHEME] = {"scheme", KIND(WORD), AT(scheme), redco_scheme_words,
     .option = "scheme", .says = "", .argument = "WORD",
     .help = "inter-tensor (broadcast) or intra-tensor (all-gather) optimizer shards"},
    [REDCO_OF_DP] = {"dp", KIND(MESH), AT(dp), .follows = true},
    [REDCO_OF_SECONDARY] = {"secondary", KIND(MESH), AT(secondary), .optional = true, .says = "second copy "},
    [REDCO_DIMENSIONS] = {.key = NULL},
};
/* clang-format on */

_Static_assert(REDCO_DIMENSIONS <= 32, "a set of rows is a word of bits");
/* Enumerations are members of the size of a number. */
_Static_assert(sizeof(redco_cp_type) == sizeof(uint32_t) && sizeof(redco_pipeline_kind) == sizeof(uint32_t) &&
                   sizeof(redco_scheme) == sizeof(uint32_t),
               "enumerations are read as numbers");

/* The row of a key, which there is. */
static const redco_dimension *dimension_of(const char *key)
{
    size_t i = 0;
    while (i < REDCO_DIMENSIONS && strcmp(redco_dimensions[i].key, key) != 0) { i++; }
    assert(i < REDCO_DIMENSIONS);
    return &redco_dimensions[i];
}

uint32_t *redco_dimension_in(redco_parallelism *parallelism, const redco_dimension *dimension)
{
    return (uint32_t *)((char *)parallelism + dimension->offset);
}

static const void *at(const redco_parallelism *parallelism, const redco_dimension *d)
{
    return (const char *)parallelism + d->offset;
}

static uint64_t number_at(const redco_parallelism *parallelism, const redco_dimension *d)
{
    uint32_t number = 0;
    uint64_t large = 0;
    switch (d->kind) {
    case REDCO_DIMENSION_LARGE: memcpy(&large, at(parallelism, d), sizeof large); return large;
    case REDCO_DIMENSION_SWITCH: return *(const bool *)at(parallelism, d) ? 0 : 1; /* on leads */
    case REDCO_DIMENSION_SPLIT: return parallelism->split != NULL ? 1 : 0;
    case REDCO_DIMENSION_NUMBER:
    case REDCO_DIMENSION_WORD:
    case REDCO_DIMENSION_MESH: break;
    }
    memcpy(&number, at(parallelism, d), sizeof number); /* a mesh's GPUs */
    return number;
}

int redco_parallelism_compare(const redco_parallelism *a, const redco_parallelism *b)
{
    for (size_t i = 0; i < REDCO_DIMENSIONS; i++) {
        const uint64_t x = number_at(a, &redco_dimensions[i]), y = number_at(b, &redco_dimensions[i]);
        if (x != y && !redco_dimensions[i].follows) { return x < y ? -1 : 1; }
    }
    return 0;
}

bool redco_parallelism_same(const redco_parallelism *a, const redco_parallelism *b)
{
    for (size_t i = 0; i < REDCO_DIMENSIONS; i++) {
        const redco_dimension *const d = &redco_dimensions[i];
        const bool mesh = d->kind == REDCO_DIMENSION_MESH;
        if (d->follows || d->kind == REDCO_DIMENSION_SPLIT) { continue; }
        if (mesh ? memcmp(at(a, d), at(b, d), sizeof(redco_mesh)) != 0 : number_at(a, d) != number_at(b, d)) {
            return false;
        }
    }
    return redco_shards_equal(a->experts, b->experts);
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

/* The next key of a list; of "+" the next listed row. @param row  of that, at first REDCO_DIMENSIONS
 * @return behind it, or NULL at the end */
static const char *next_key(const char *keys, int *row, const redco_dimension **out)
{
    char key[32];
    keys += strspn(keys, " ");
    const size_t length = strcspn(keys, " ");
    if (length == 0) { return NULL; }
    if (*keys == '+') {
        *row = *row < REDCO_DIMENSIONS ? *row + 1 : 0;
        while (*row < REDCO_DIMENSIONS && !redco_dimensions[*row].listed) { (*row)++; }
        *out = &redco_dimensions[*row];
        return *row < REDCO_DIMENSIONS ? keys : next_key(keys + 1, row, out);
    }
    (void)snprintf(key, sizeof key, "%.*s", (int)length, keys);
    *out = dimension_of(key);
    return keys + length;
}

static json_t *value_json(const redco_parallelism *parallelism, const redco_dimension *d)
{
    redco_mesh mesh = {0, 0};
    switch (d->kind) {
    case REDCO_DIMENSION_SWITCH: return json_boolean(*(const bool *)at(parallelism, d));
    case REDCO_DIMENSION_WORD: return json_string(d->words[number_at(parallelism, d)]);
    case REDCO_DIMENSION_MESH:
        memcpy(&mesh, at(parallelism, d), sizeof mesh);
        return mesh.gpus == 0 && d->optional ? json_null() : redco_mesh_json(mesh);
    case REDCO_DIMENSION_SPLIT: return json_null();
    case REDCO_DIMENSION_NUMBER:
    case REDCO_DIMENSION_LARGE: break;
    }
    return json_integer((json_int_t)number_at(parallelism, d));
}

bool redco_parallelism_write(const redco_parallelism *parallelism, const char *keys, json_t *object)
{
    const redco_dimension *d = NULL;
    int row = REDCO_DIMENSIONS;
    bool good = true;
    while ((keys = next_key(keys, &row, &d)) != NULL) {
        if (d->of_context && parallelism->cp <= 1) { continue; }
        good = json_object_set_new(object, d->key, value_json(parallelism, d)) == 0 && good;
    }
    return good;
}

static redco_status read_one(const redco_json_value *object, const redco_dimension *d, redco_parallelism *parallelism,
                             redco_error *err)
{
    void *const out = (char *)parallelism + d->offset;
    if (d->optional && !redco_json_has(object, d->key)) { return REDCO_OK; }
    if (d->of_context && parallelism->cp <= 1) {
        return redco_json_fail(object, d->key, err, "is stated, but cp is 1: leave it out");
    }
    switch (d->kind) {
    case REDCO_DIMENSION_NUMBER: return redco_json_u32(object, d->key, 1, (uint32_t)d->most, out, err);
    case REDCO_DIMENSION_LARGE: return redco_json_u64(object, d->key, 1, d->most, out, err);
    case REDCO_DIMENSION_SWITCH: return redco_json_bool(object, d->key, out, err);
    case REDCO_DIMENSION_WORD: return redco_word_read(object, d->key, d->words, out, err);
    case REDCO_DIMENSION_MESH: return redco_mesh_read(object, d->key, out, err);
    case REDCO_DIMENSION_SPLIT: break;
    }
    return REDCO_OK;
}

redco_status redco_parallelism_read(const redco_json_value *object, const char *keys, redco_parallelism *parallelism,
                                    redco_error *err)
{
    const redco_dimension *d = NULL;
    int row = REDCO_DIMENSIONS;
    redco_status st = REDCO_OK;
    while (st == REDCO_OK && (keys = next_key(keys, &row, &d)) != NULL) { st = read_one(object, d, parallelism, err); }
    return st;
}
