/* The cases for devices that thousands of threads keep busy. */
#include "executor/measure/suite_internal.h"

#include <string.h>

static const bool layouts[3][2] = {{false, false}, {false, true}, {true, false}};
/* Products with more FLOP run at the rate of the largest. */
static const double half_limit_flops = 1.2e12, single_limit_flops = 1.4e11;
enum { TABLE_ROWS = 32768, LEAST_POWER = 16, MOST_POWER = 28 };

redco_measure_shapes redco_measure_default_shapes(void)
{
    /* Widths of the models of tools/gpu-acceptance: llama-125m, tinyllama-1.1b, sheared-llama-2.7b, llama-7b. */
    static const struct {
        uint64_t hidden, kv, ffn;
    } models[] = {{768, 768, 2048}, {2048, 256, 5632}, {2560, 2560, 6912}, {4096, 4096, 11008}};
    enum { WORDS = 32000 };
    redco_measure_shapes shapes = {.tokens = {2048, 4096, 8192, 16384}, .token_count = 4};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const uint64_t h = models[i].hidden;
        (void)redco_measure_add_weight(&shapes, h, h);
        (void)redco_measure_add_weight(&shapes, h, models[i].kv);
        (void)redco_measure_add_weight(&shapes, h, models[i].ffn);
        (void)redco_measure_add_weight(&shapes, models[i].ffn, h);
        (void)redco_measure_add_weight(&shapes, h, WORDS);
    }
    return shapes;
}

bool redco_measure_add_weight(redco_measure_shapes *shapes, uint64_t in, uint64_t out)
{
    for (uint32_t i = 0; i < shapes->weight_count; i++) {
        if (shapes->weights[i].in == in && shapes->weights[i].out == out) { return true; }
    }
    if (shapes->weight_count == REDCO_MEASURE_WEIGHTS_MAX) { return false; }
    shapes->weights[shapes->weight_count++] = (redco_measure_weight){in, out};
    return true;
}

static bool is_listed(const redcoi_cases *list, const redco_measure_case *one)
{
    for (size_t i = 0; i < list->count; i++) {
        const redco_measure_case *const c = &list->items[i];
        if (c->kind == one->kind && c->dtype == one->dtype && c->m == one->m && c->n == one->n && c->k == one->k &&
            c->transpose_a == one->transpose_a && c->transpose_b == one->transpose_b) {
            return true;
        }
    }
    return false;
}

static void add_gemm(redcoi_cases *list, redco_dtype dtype, uint32_t layout, uint64_t m, uint64_t n, uint64_t k)
{
    const redco_measure_case one = {.kind = REDCO_MEASURE_GEMM,
                                    .dtype = dtype,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .transpose_a = layouts[layout][0],
                                    .transpose_b = layouts[layout][1]};
    if (!is_listed(list, &one)) { redcoi_cases_add(list, one); }
}

/* Forward X W, gradient of the input dY W^T, of the weight X^T dY. */
static void add_weights(redcoi_cases *list, redco_dtype dtype, const redco_measure_shapes *shapes)
{
    for (uint32_t i = 0; i < shapes->weight_count; i++) {
        const redco_measure_weight w = shapes->weights[i];
        for (uint32_t t = 0; t < shapes->token_count; t++) {
            add_gemm(list, dtype, 0, shapes->tokens[t], w.out, w.in);
            add_gemm(list, dtype, 1, shapes->tokens[t], w.in, w.out);
            add_gemm(list, dtype, 2, w.in, w.out, shapes->tokens[t]);
        }
    }
}

static void add_grid(redcoi_cases *list, redco_dtype dtype, const uint64_t *sizes, uint32_t count, double limit_flops)
{
    for (uint32_t at = 0; at < 3 * count * count * count; at++) {
        const uint32_t i = at / 3 / count / count, j = at / 3 / count % count, l = at / 3 % count;
        if (2.0 * (double)sizes[i] * (double)sizes[j] * (double)sizes[l] > limit_flops) { continue; }
        add_gemm(list, dtype, at % 3, sizes[i], sizes[j], sizes[l]);
    }
}

static void add_attentions(redcoi_cases *list, redco_dtype dtype, const uint64_t *sequences, uint32_t count)
{
    static const uint64_t sizes[] = {128, 64};
    static const uint64_t heads[3][2] = {{1, 32}, {4, 32}, {1, 12}}; /* sequences, heads */
    for (uint32_t at = 0; at < count * 6; at++) {
        redcoi_cases_add(list, (redco_measure_case){.kind = REDCO_MEASURE_ATTENTION,
                                                    .dtype = dtype,
                                                    .batch = heads[at % 3][0],
                                                    .heads = heads[at % 3][1],
                                                    .sequence = sequences[at / 6],
                                                    .size = sizes[at / 3 % 2]});
    }
}

/* @param step  powers of two between sizes */
static void add_operators(redcoi_cases *list, redco_dtype dtype, uint32_t step)
{
    static const struct {
        const char *name;
        uint64_t columns; /* 0: one row of all elements */
    } operators[] = {{"rms_norm", 2048},
                     {"gated_activation", 4096},
                     {"optimizer", 0},
                     {"accumulate", 0},
                     {"copy", 0},
                     {"loss", 32768},
                     {"rotary", 2048},
                     {"embedding", 2048},
                     {"embedding_table", 2048},
                     {"layer_norm", 2048},
                     {"activation", 4096},
                     {"split_heads", 4096},
                     {"relu", 4096},
                     {"batched_product", 128},
                     {"rms_norm", 768},
                     {"layer_norm", 768},
                     {"rms_norm", 5120},
                     {"layer_norm", 5120}};
    for (uint32_t power = MOST_POWER; power >= LEAST_POWER; power -= step) {
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
            const uint64_t elements = UINT64_C(1) << power, columns = operators[i].columns;
            redcoi_cases_add(list, (redco_measure_case){.kind = REDCO_MEASURE_OPERATOR,
                                                        .dtype = dtype,
                                                        .name = operators[i].name,
                                                        .rows = columns > 0 ? elements / columns : 1,
                                                        .columns = columns > 0 ? columns : elements,
                                                        .table_rows = TABLE_ROWS});
        }
    }
}

size_t redco_measure_device_cases(const redco_measure_shapes *shapes, redco_measure_case **cases_out)
{
    static const uint64_t coarse[] = {512, 2048, 8192, 128}, fine[] = {256, 512, 1024, 2048, 4096, 8192, 16384, 128};
    static const uint64_t single[] = {256, 1024, 4096}, long_sequences[] = {2048, 4096, 1024, 8192, 512};
    static const uint64_t short_sequences[] = {512, 2048};
    redcoi_cases list = {0};
    add_operators(&list, REDCO_BFLOAT16, 2);
    add_attentions(&list, REDCO_BFLOAT16, long_sequences, sizeof long_sequences / sizeof long_sequences[0]);
    add_weights(&list, REDCO_BFLOAT16, shapes);
    add_grid(&list, REDCO_BFLOAT16, coarse, sizeof coarse / sizeof coarse[0], half_limit_flops);
    add_grid(&list, REDCO_F32, single, sizeof single / sizeof single[0], single_limit_flops);
    add_attentions(&list, REDCO_F32, short_sequences, sizeof short_sequences / sizeof short_sequences[0]);
    add_operators(&list, REDCO_F32, 4);
    add_grid(&list, REDCO_BFLOAT16, fine, sizeof fine / sizeof fine[0], half_limit_flops);
    return redcoi_cases_hand_over(&list, cases_out);
}
