/* Tables of priced groups are equal to the list that was written by hand from the papers, and tensors have the axes
 * that their uses say. */
#include "costmodel/models/model.h"
#include "costmodel/operators/compute.h"
#include "listed_groups.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANDOM_CONFIGS = 200, RANKS = 8, T = 120 /* tokens */ };

static uint64_t up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Sizes that a rank of @p tp holds along each axis, for 3 sequences of 40 tokens. */
static void sizes_of(const redco_model *model, uint32_t tp, uint64_t sizes[REDCO_AXIS_COUNT])
{
    redco_model_axis_sizes(model, 3, 40, sizes);
    sizes[REDCO_AXIS_HEADS] = up(sizes[REDCO_AXIS_HEADS], tp);
    sizes[REDCO_AXIS_KV_HEADS] = up(sizes[REDCO_AXIS_KV_HEADS], tp);
    sizes[REDCO_AXIS_QKV_HEADS] = sizes[REDCO_AXIS_HEADS] + 2 * sizes[REDCO_AXIS_KV_HEADS];
    sizes[REDCO_AXIS_FFN] = up(sizes[REDCO_AXIS_FFN], tp);
    sizes[REDCO_AXIS_VOCAB] = up(sizes[REDCO_AXIS_VOCAB], tp);
}

static uint64_t sum(const redco_layer_group *group, const uint64_t *sizes)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < group->part_count; i++) { count += redco_extent_count(&group->parts[i], sizes); }
    return count;
}

static void check_group(const redco_layer_group *a, const redco_layer_group *b, const uint64_t *sizes)
{
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->causal, b->causal);
    assert_int_equal(sum(a, sizes), sum(b, sizes));
    assert_int_equal(redco_extent_count(&a->rows, sizes), redco_extent_count(&b->rows, sizes));
    assert_int_equal(redco_extent_count(&a->inner, sizes), redco_extent_count(&b->inner, sizes));
    assert_int_equal(redco_extent_count(&a->columns, sizes), redco_extent_count(&b->columns, sizes));
    assert_int_equal(redco_extent_split(&a->inner), redco_extent_split(&b->inner));
    const bool cross_kv = a->role == REDCO_OP_ROLE_CROSS_KV; /* listed as one of twice the width */
    assert_true(cross_kv || a->part_count == b->part_count);
    for (uint32_t i = 0; i < a->part_count && !cross_kv; i++) {
        assert_int_equal(redco_extent_count(&a->parts[i], sizes), redco_extent_count(&b->parts[i], sizes));
    }
}

/* Each weight of a class is in one group, that of the operator which uses it. */
static void check_params(const redco_model *model, uint32_t class_index, const redco_layer_group *groups,
                         uint32_t count)
{
    const redco_param *params = NULL;
    const size_t param_count = redco_model_tensors(model, &params);
    for (size_t p = 0; p < param_count; p++) {
        uint32_t seen = 0;
        for (uint32_t g = 0; g < count; g++) {
            for (uint32_t i = 0; i < groups[g].param_count; i++) {
                if (groups[g].params[i] != p) { continue; }
                seen++;
                if (params[p].class_index != class_index) { /* the table, of a head that shares it */
                    assert_int_equal(params[p].use, REDCO_USE_TABLE);
                    assert_int_equal(groups[g].role, REDCO_OP_ROLE_HEAD);
                } else {
                    assert_int_equal(groups[g].role, redco_model_use_role(model, params[p].use));
                }
            }
        }
        assert_true(seen <= 1);
        const bool beside = params[p].use == REDCO_USE_ENCODER_FINAL_NORM; /* the encoder's, kept with the tables */
        if (params[p].class_index == class_index && !beside) { assert_int_equal(seen, 1); }
    }
}

static void check(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    for (uint32_t c = 0; c < class_count; c++) {
        const redco_layer_group *const derived = redco_model_work(model, c)->groups;
        redco_layer_group listed[REDCO_GROUPS_MAX];
        const uint32_t count = redco_model_work(model, c)->group_count;
        assert_int_equal(count, listed_groups(model, c, listed));
        for (uint32_t tp = 1; tp <= RANKS; tp++) {
            uint64_t sizes[REDCO_AXIS_COUNT];
            sizes_of(model, tp, sizes);
            for (uint32_t g = 0; g < count; g++) { check_group(&derived[g], &listed[g], sizes); }
        }
        check_params(model, c, derived, count);
    }
}

static void check_shapes(const redco_model *model)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    uint64_t sizes[REDCO_AXIS_COUNT];
    redco_model_axis_sizes(model, 1, 1, sizes);
    for (size_t i = 0; i < count; i++) {
        redco_extent extents[REDCO_PARAM_EXTENTS];
        redco_param_extents(&params[i], extents);
        for (uint32_t d = 0; d < params[i].rank; d++) {
            if (redco_extent_count(&extents[d], sizes) != params[i].shape[d]) {
                fail_msg("%s: dimension %u of %s", redco_model_name(model), d, params[i].name);
            }
        }
    }
}

static void presets_have_the_listed_operators(void **state)
{
    (void)state;
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        redco_model *model = NULL;
        assert_int_equal(redco_model_read(redco_preset_at("models", i)->name, &model, NULL), REDCO_OK);
        if (redco_model_is_paired(model)) { /* mixtures, which have tests of their own */
            redco_model_free(model);
            continue;
        }
        check_shapes(model);
        check(model);
        redco_model_free(model);
    }
}

static uint64_t draw(uint64_t *seed, uint64_t most) /* Knuth's generator, from 1 on */
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return 1 + (*seed >> 33) % most;
}

static const char *yes(uint64_t *seed)
{
    return draw(seed, 2) == 1 ? "true" : "false";
}

/* Keys that a family does not know are skipped by it. */
static redco_model *random_model(const char *type, uint64_t *seed)
{
    char text[1800];
    redco_error err = {0};
    redco_model *model = NULL;
    const unsigned kv = (unsigned)draw(seed, 6), heads = kv * (unsigned)draw(seed, 5);
    const unsigned size = 2 * (unsigned)draw(seed, 40), hidden = heads * size, ffn = (unsigned)draw(seed, 3000);
    const unsigned vocab = (unsigned)draw(seed, 90000), width = draw(seed, 2) == 1 ? hidden : (unsigned)draw(seed, 500);
    const bool narrow = strcmp(type, "opt") == 0;
    (void)snprintf(text, sizeof text,
                   "{\"model_type\": \"%s\", \"vocab_size\": %u, \"hidden_size\": %u, \"n_embd\": %u, \"d_model\": %u,"
                   " \"intermediate_size\": %u, \"n_inner\": %u, \"ffn_dim\": %u, \"d_ff\": %u,"
                   " \"num_hidden_layers\": 3, \"num_attention_heads\": %u, \"n_head\": %u, \"n_heads\": %u,"
                   " \"num_heads\": %u, \"num_key_value_heads\": %u, \"rotary_dim\": 2, \"rotary_pct\": 1.0,"
                   " \"tie_word_embeddings\": %s, \"use_parallel_residual\": %s, \"attention_bias\": %s,"
                   " \"do_layer_norm_before\": %s, \"enable_bias\": %s, \"layer_norm_elementwise_affine\": %s,"
                   " \"encoder_attention_heads\": %u, \"decoder_attention_heads\": %u, \"encoder_ffn_dim\": %u,"
                   " \"decoder_ffn_dim\": %u, \"bias\": %s, \"gated\": %s, \"max_position_embeddings\": 77,"
                   " \"attn_config\": {\"alibi\": %s}, \"word_embed_proj_dim\": %u}",
                   type, vocab, hidden, hidden, hidden, ffn, ffn, ffn, ffn, heads, heads, heads, heads, kv, yes(seed),
                   yes(seed), yes(seed), yes(seed), yes(seed), yes(seed), heads, heads, ffn, ffn, yes(seed), yes(seed),
                   yes(seed), narrow ? width : hidden);
    json_t *const config = json_loads(text, 0, NULL);
    assert_non_null(config);
    const redco_json_value value = redco_json_wrap(config, "c.json");
    const redco_status st = redco_model_from_json(&value, NULL, &model, &err);
    if (st != REDCO_OK) { fail_msg("%s: %s: %s", text, err.place, err.text); }
    json_decref(config);
    return model;
}

static void random_configs_have_the_listed_operators(void **state)
{
    static const char *const types[] = {"llama", "mistral", "qwen2", "qwen3",    "internlm2", "gemma",
                                        "phi3",  "gpt2",    "gptj",  "gpt_neox", "opt",       "bloom",
                                        "mpt",   "t5",      "mt5",   "bart",     "generic"};
    uint64_t seed = 16;
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (uint32_t i = 0; i < RANDOM_CONFIGS; i++) {
            redco_model *const model = random_model(types[t], &seed);
            check_shapes(model);
            check(model);
            redco_model_free(model);
        }
    }
}

/* OPT-350M: a table of 512 columns before a projection to 1024; another one goes back before the head's product. */
static void narrow_tables(void **state)
{
    static const char text[] =
        "{\"model_type\": \"opt\", \"vocab_size\": 50272, \"hidden_size\": 1024, \"ffn_dim\": 4096,"
        " \"num_hidden_layers\": 24, \"num_attention_heads\": 16, \"word_embed_proj_dim\": 512,"
        " \"do_layer_norm_before\": false}";
    const redco_shape shape = {.seq_len = 2048, .micro_batch = 1, .tp = 2, .cp = 1};
    redco_operator ops[REDCO_OPERATORS_MAX];
    redco_model *model = NULL;
    json_t *const config = json_loads(text, 0, NULL);
    const redco_json_value value = redco_json_wrap(config, "c.json");
    (void)state;
    assert_int_equal(redco_model_from_json(&value, NULL, &model, NULL), REDCO_OK);
    json_decref(config);
    assert_int_equal(redco_layer_operators(model, 0, &shape, ops), 1);
    assert_true(ops[0].elements == 2048.0 * 1024.0);
    assert_true(ops[0].table_elements == 25136.0 * 512.0);
    assert_int_equal(redco_layer_operators(model, 2, &shape, ops), 3);
    assert_int_equal(ops[0].k, 1024);
    assert_int_equal(ops[0].n, 512);
    assert_int_equal(ops[1].k, 512);
    assert_int_equal(ops[1].n, 25136);
    redco_model_free(model);
}

/* "qkv b+": backward of the group ends with an all-reduce; f forward, < gather before, > scatter behind; "!": backward
 * reads nothing of it. */
static void write_traffic(const redco_layer_group *groups, uint32_t count, bool sequence_parallel,
                          const uint64_t *sizes, uint64_t elements, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t g = 0; g < count; g++) {
        bool named = false;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t t = 0; t < groups[g].traffic_count; t++) {
                const redco_group_traffic *const traffic = &groups[g].traffic[t];
                if (traffic->sequence_parallel != sequence_parallel || traffic->backward != (pass == 1)) { continue; }
                assert_int_equal(redco_extent_count(&traffic->elements, sizes), elements);
                const char mark = traffic->op == REDCO_ALL_REDUCE ? '+' : traffic->op == REDCO_ALL_GATHER ? '<' : '>';
                used += (size_t)snprintf(text + used, size - used, "%s%s %c%c", used > 0 ? " " : "",
                                         named ? "" : redco_op_role_name(groups[g].role), pass == 1 ? 'b' : 'f', mark);
                named = true;
            }
        }
        if (groups[g].unread) {
            used +=
                (size_t)snprintf(text + used, size - used, named ? "!" : " %s !", redco_op_role_name(groups[g].role));
        }
    }
}

/* Shoeybi et al. 2019: each pair of products has one sum forward, behind the second, and one backward, of the gradient
 * of what the first reads. Korthikanti et al. 2022: with sequence parallelism a gather and a scatter in place of each.
 * GPT-J's attention and FFN read one norm and are added before they are summed; GPT-NeoX's have a norm each. The head
 * has the first product of a pair, the table the second. */
static void collectives_are_those_of_pairs(void **state)
{
    static const char llama[] = "qkv b+ out f+ ffn_in b+ ffn_out f+!";
    static const char llama_rows[] = "qkv f<  b> out f>  b< ffn_in f<  b> ffn_out f>  b<!";
    static const char cross[] = "qkv b+ out f+ cross_q b+ cross_out f+ ffn_in b+ ffn_out f+!";
    static const struct {
        const char *preset;
        uint32_t class_index, width;
        const char *whole, *rows;
    } wanted[] = {
        {"llama-7b", 0, 4096, "embedding f+", "embedding f>  b<"},
        {"llama-7b", 1, 4096, llama, llama_rows},
        {"llama-7b", 2, 4096, "head b+", "head f<  b>"},
        {"qwen3-8b", 1, 4096, llama, llama_rows},
        {"gpt2", 1, 768, llama, llama_rows},       /* queries, keys and values of one matrix: in thirds */
        {"bloom-7b1", 1, 4096, llama, llama_rows}, /* by head */
        {"mpt-7b", 1, 4096, llama, llama_rows},
        {"internlm2-7b", 1, 4096, llama, llama_rows}, /* by group */
        {"phi-3-mini", 1, 3072, llama, llama_rows},   /* gate and up of one matrix: in halves */
        {"phi-4", 1, 5120, llama, llama_rows},
        {"gpt-j-6b", 1, 4096, "qkv b+ out ! ffn_out f+!", "qkv f<  b> out ! ffn_out f>  b<!"},
        {"gpt-neox-20b", 1, 6144, "qkv b+ out ! ffn_in b+ ffn_out f+!",
         "qkv f<  b> out ! ffn_in f<  b> ffn_out f>  b<!"},
        {"t5-11b", 1, 1024, llama, llama_rows},
        {"t5-11b", 2, 1024, cross, NULL},
        {"bart-large", 2, 1024, "qkv b+ out f+ cross_q b+ cross_out f+ ffn_in b+ ffn_out f+", NULL},
    };
    (void)state;
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        uint64_t sizes[REDCO_AXIS_COUNT];
        char text[400];
        redco_model *model = NULL;
        assert_int_equal(redco_model_read(wanted[w].preset, &model, NULL), REDCO_OK);
        redco_model_axis_sizes(model, 3, 40, sizes);
        const redco_layer_work *const work = redco_model_work(model, wanted[w].class_index);
        write_traffic(work->groups, work->group_count, false, sizes, (uint64_t)T * wanted[w].width, text, sizeof text);
        assert_string_equal(text, wanted[w].whole);
        write_traffic(work->groups, work->group_count, true, sizes, (uint64_t)T * wanted[w].width, text, sizeof text);
        if (wanted[w].rows != NULL) { assert_string_equal(text, wanted[w].rows); }
        redco_model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_listed_operators), cmocka_unit_test(collectives_are_those_of_pairs),
        cmocka_unit_test(random_configs_have_the_listed_operators), cmocka_unit_test(narrow_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
