/* Random tensors: compiled for float and double (real.h). Element e of the whole tensor is word e mod 4 of block e / 4.
 */
#include "executor/backend/host/real.h"

typedef struct source {
    uint32_t key[2];
    uint64_t stream, block;
    uint32_t words[4];
} source;

static const uint32_t *words_of(source *s, uint64_t block)
{
    if (block != s->block) {
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)s->stream,
                                     (uint32_t)(s->stream >> 32)};
        redcoi_philox(counter, s->key, s->words);
        s->block = block;
    }
    return s->words;
}

/** From the words (a, b), Box and Muller's cosine or sine. The logarithm's argument is in (0, 1]. */
static double normal_of(const uint32_t pair[2], bool sine)
{
    const double radius = sqrt(-2 * log(((double)pair[0] + 1) * 0x1p-32));
    const double angle = 6.28318530717958647693 * ((double)pair[1] * 0x1p-32);
    return radius * (sine ? sin(angle) : cos(angle));
}

redco_status REAL_NAME(random)(const redco_launch *launch, redco_error *err)
{
    const redco_attributes *a = launch->attributes;
    const redco_tensor_type *type = &launch->outputs[0].type;
    const int32_t *key = launch->inputs[0].data;
    const redco_tensor_type whole = redco_type(type->dtype, a->rank, a->whole);
    source s = {.key = {(uint32_t)key[0], (uint32_t)key[1]}, .stream = a->stream, .block = UINT64_MAX};
    uint64_t stride[1][REDCO_RANK_MAX] = {{0}}, begin = 0;
    redcoi_walk walk;
    real *out = launch->outputs[0].data;
    (void)err;
    redcoi_strides(&whole, false, stride[0]);
    for (uint32_t i = 0; i < a->rank; i++) { begin += a->begin[i] * stride[0][i]; }
    redcoi_walk_begin(&walk, type, stride, 1);
    do {
        for (uint64_t i = 0; i < walk.count; i++) {
            const uint64_t e = begin + walk.first[0] + i * walk.stride[0][walk.rank - 1];
            const uint32_t *words = words_of(&s, e / 4), lane = (uint32_t)(e % 4);
            out[walk.done + i] = launch->kind == REDCO_OP_NORMAL ? (real)normal_of(words + (lane & 2), (lane & 1) != 0)
                                                                 : (real)((double)(words[lane] >> 8) * 0x1p-24);
        }
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}
