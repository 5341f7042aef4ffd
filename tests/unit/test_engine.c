/* Engines as data: the shipped files, what a run states otherwise, what a plan keeps of them, and which calibration set
 * an engine has on a GPU. That files offer what measured runs did is test_engine_files'. */
#include "costmodel/engines/calibration.h"
#include "costmodel/engines/engine.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRESETS = 23 };

static redco_engine_file read_preset(const char *name)
{
    redco_engine_file file;
    redco_error err = {.status = REDCO_OK};
    if (redco_engine_file_read(name, &file, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return file;
}

static void every_preset_reads(void **state)
{
    size_t count = 0;
    (void)state;
    for (; redco_preset_at("engines", count) != NULL; count++) {
        const char *const name = redco_preset_at("engines", count)->name;
        const redco_engine_file file = read_preset(name);
        assert_string_equal(file.engine.name, name);
        assert_int_equal(file.engine.stated, 0);
        assert_int_equal(file.engine.planned_memory, strcmp(name, "redco-exec") == 0);
        assert_int_equal(file.engine.tp_layout == REDCO_ENGINE_RULES,
                         strcmp(name, "redco-exec") == 0 || strcmp(name, "amsp") == 0);
        assert_true(file.title[0] != '\0' && file.recompute.count != 0 && file.states != 0 && file.dimensions != 0);
        assert_true(file.inter_tensor || file.intra_tensor);
        assert_true(file.bucket_bytes >= 1024);
        for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
            if (file.sources[t][0] == '\0') { fail_msg("%s: no source of %s", name, redco_trait_words[t]); }
        }
    }
    assert_int_equal(count, PRESETS);
}

/* From the files, by hand. */
static void defaults_are_those_of_the_precision(void **state)
{
    static const struct {
        const char *name;
        uint32_t bytes[3]; /* a gradient's bytes: bf16, fp16, fp32; 0 = as the precision says */
        uint64_t bucket_bytes;
        bool layer_units, shard_over_cp, fused_loss_bf16;
    } wanted[] = {
        {"amsp", {0, 0, 0}, 1073741824, false, false, false},
        {"fms-fsdp", {0, 0, 0}, 256000000, true, false, false},
        {"fsdp2", {4, 4, 0}, 256000000, true, true, false},
        {"maxtext", {0, 0, 0}, 256000000, true, true, false},
        {"megatron-lm", {4, 0, 0}, 256000000, true, true, true},
        {"redco-exec", {0, 0, 0}, 1073741824, false, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const redco_engine_file file = read_preset(wanted[i].name);
        for (int p = REDCO_BF16; p <= REDCO_FP32; p++) {
            const redco_engine_choice choice = redco_engine_choose(&file, (redco_precision)p);
            if (choice.engine.gradient_bytes != wanted[i].bytes[p]) {
                fail_msg("%s: %u bytes a gradient of precision %d", wanted[i].name, choice.engine.gradient_bytes, p);
            }
            assert_int_equal(choice.bucket_bytes, wanted[i].bucket_bytes);
            assert_int_equal(choice.engine.layer_units, wanted[i].layer_units);
            assert_int_equal(choice.engine.shard_over_cp, wanted[i].shard_over_cp);
            assert_int_equal(choice.engine.fused_loss, p == REDCO_BF16 && wanted[i].fused_loss_bf16);
        }
    }
}

/* Each trait with two of its words. */
static const struct {
    const char *trait, *values[2];
} statable[] = {
    {"software", {"megatron", "te_xla"}}, {"gather", {"layer", "module"}},
    {"shard_over", {"dp_cp", "dp"}},      {"bucket_bytes", {"268435456 B", "1024 B"}},
    {"tp_layout", {"paired", "rules"}},   {"attention", {"flash3", "unfused"}},
    {"fused_norm", {"0", "1"}},           {"compiled", {"1", "0"}},
    {"logits_gathered", {"1", "0"}},      {"cross_entropy", {"fused", "unfused"}},
    {"grad_reduce_bytes", {"4", "2"}},    {"cuda_graphs", {"1", "0"}},
};
enum { STATABLE = sizeof statable / sizeof statable[0] };

static redco_trait trait_of(const char *word)
{
    int t = 0;
    while (strcmp(redco_trait_words[t], word) != 0) { t++; }
    return (redco_trait)t;
}

static void what_is_stated_is_what_the_trait_says(void **state)
{
    const redco_engine_file file = read_preset("fsdp");
    (void)state;
    for (size_t i = 0; i < STATABLE; i++) {
        redco_engine_choice choice = redco_engine_choose(&file, REDCO_BF16);
        const redco_trait trait = trait_of(statable[i].trait);
        char text[64];
        for (int v = 0; v < 2; v++) {
            assert_int_equal(redco_engine_state(&choice, statable[i].trait, statable[i].values[v], "--engine", NULL),
                             REDCO_OK);
            assert_string_equal(redco_engine_trait(&choice, REDCO_BF16, trait, text, sizeof text),
                                statable[i].values[v]);
        }
        assert_int_equal(choice.engine.stated, 1U << trait);
    }
}

/* Every preset's traits, said and stated again, are its own. */
static void traits_of_presets_can_be_stated(void **state)
{
    (void)state;
    for (size_t i = 0; redco_preset_at("engines", i) != NULL; i++) {
        const redco_engine_file file = read_preset(redco_preset_at("engines", i)->name);
        const redco_engine_choice choice = redco_engine_choose(&file, REDCO_BF16);
        redco_engine_choice again = {.bucket_bytes = 0};
        for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
            char text[64], second[64];
            redco_error err = {.status = REDCO_OK};
            (void)redco_engine_trait(&choice, REDCO_BF16, (redco_trait)t, text, sizeof text);
            if (t == REDCO_TRAIT_MEMORY) { continue; }
            if (redco_engine_state(&again, redco_trait_words[t], text, "--engine", &err) != REDCO_OK) {
                fail_msg("%s of %s: %s", redco_trait_words[t], choice.engine.name, err.text);
            }
            assert_string_equal(redco_engine_trait(&again, REDCO_BF16, (redco_trait)t, second, sizeof second), text);
        }
    }
}

static void assert_same(const redco_engine_choice *a, const redco_engine_choice *b)
{
    json_t *const first = redco_engine_describe(a, REDCO_BF16);
    json_t *const second = redco_engine_describe(b, REDCO_BF16);
    assert_true(first != NULL && second != NULL && json_equal(first, second));
    assert_string_equal(a->engine.name, b->engine.name);
    assert_int_equal(a->engine.stated, b->engine.stated);
    assert_int_equal(a->bucket_bytes, b->bucket_bytes);
    json_decref(first);
    json_decref(second);
}

static void read_back(const redco_engine_choice *choice, redco_engine_choice *again_out)
{
    redco_error err = {.status = REDCO_OK};
    json_t *const json = redco_engine_describe(choice, REDCO_BF16);
    assert_non_null(json);
    const redco_json_value value = redco_json_wrap(json, "plan.json");
    if (redco_engine_from_json(&value, again_out, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    json_decref(json);
}

static void descriptions_are_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; redco_preset_at("engines", i) != NULL; i++) {
        const redco_engine_file file = read_preset(redco_preset_at("engines", i)->name);
        redco_engine_choice choice = redco_engine_choose(&file, REDCO_BF16), again;
        read_back(&choice, &again);
        /* A width that is the precision's own is said as a number. */
        if (choice.engine.gradient_bytes == 0) { choice.engine.gradient_bytes = 2; }
        assert_same(&choice, &again);
        for (size_t s = 0; s < STATABLE; s++) {
            assert_int_equal(redco_engine_state(&choice, statable[s].trait, statable[s].values[0], "", NULL), REDCO_OK);
            read_back(&choice, &again);
            assert_same(&choice, &again);
        }
    }
}

static void wrong_words_are_named(void **state)
{
    static const struct {
        const char *trait, *value, *text;
    } wrong[] = {
        {"colour", "red",
         "\"colour\" is no trait of an engine; known: software, gather, shard_over, bucket_bytes, tp_layout, "
         "attention, "
         "fused_norm, compiled, logits_gathered, cross_entropy, grad_reduce_bytes, cuda_graphs, moment_bytes, "
         "fragmentation_percent, cp_balance, autocast, dropout, held_outputs, optimizer, master_weights, offload, "
         "fp8_activation_input, "
         "dispatcher, "
         "ep_overlap, "
         "expert_imbalance, "
         "capacity_factor, "
         "mnnvl, "
         "release"},
        {"memory", "planned",
         "\"memory\" is no trait of an engine; known: software, gather, shard_over, bucket_bytes, tp_layout, "
         "attention, "
         "fused_norm, compiled, logits_gathered, cross_entropy, grad_reduce_bytes, cuda_graphs, moment_bytes, "
         "fragmentation_percent, cp_balance, autocast, dropout, held_outputs, optimizer, master_weights, offload, "
         "fp8_activation_input, "
         "dispatcher, "
         "ep_overlap, "
         "expert_imbalance, "
         "capacity_factor, "
         "mnnvl, "
         "release"},
        {"software", "", "software=\"\" is not one of: eager, megatron, te_xla"},
        {"gather", "tensor", "gather=\"tensor\" is not one of: module, layer"},
        {"attention", "Flash2", "attention=\"Flash2\" is not one of: auto, flash1, flash2, flash3, fused, unfused"},
        {"fused_norm", "yes", "fused_norm=\"yes\" is not one of: 0, 1"},
        {"cross_entropy", "1", "cross_entropy=\"1\" is not one of: unfused, fused"},
        {"cp_balance", "1", "cp_balance=\"1\" is not one of: zigzag, none"},
        {"dispatcher", "nccl", "dispatcher=\"nccl\" is not one of: alltoall, deepep, hybridep, ncclep"},
        {"cuda_graphs", "router+", "cuda_graphs=\"router+\" is not one of: none, all, attention, router, shared"},
        {"mnnvl", "2", "mnnvl=\"2\" is not one of: 0, 1"},
        {"expert_imbalance", "1.3x", "expert_imbalance=\"1.3x\" is not 0 (not known) or from 0.1 to 10"},
        {"capacity_factor", "11", "capacity_factor=\"11\" is not 0 (not known) or from 0.1 to 10"},
        {"release", "25.02", "release=\"25.02\" is not 0 (not known) or from 2017 to 2100"},
        {"grad_reduce_bytes", "3", "grad_reduce_bytes=\"3\" is not 2 or 4"},
        {"grad_reduce_bytes", "04", "grad_reduce_bytes=\"04\" is not 2 or 4"},
        {"bucket_bytes", "1023 B", "bucket_bytes=\"1023 B\" is not from 1 KiB to 1 PB"},
        {"bucket_bytes", "2 PB", "bucket_bytes=\"2 PB\" is not from 1 KiB to 1 PB"},
        {"bucket_bytes", "256", "\"256\" has no unit; write \"80 GB\" or \"80 GiB\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        redco_engine_choice choice = {.bucket_bytes = 7};
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_engine_state(&choice, wrong[i].trait, wrong[i].value, "--engine", &err), REDCO_EVALUE);
        assert_string_equal(err.place, "--engine");
        assert_string_equal(err.text, wrong[i].text);
        assert_int_equal(choice.engine.stated, 0);
        assert_int_equal(choice.bucket_bytes, 7);
    }
    redco_engine_choice choice = {.bucket_bytes = 7};
    assert_int_equal(redco_engine_state(&choice, "compiled", "true", "--engine", NULL), REDCO_OK);
    assert_true(choice.engine.compiled);
    assert_int_equal(redco_engine_state(&choice, "compiled", "false", "--engine", NULL), REDCO_OK);
    assert_false(choice.engine.compiled);
}

/* A copy of a shipped file to spoil. */
static json_t *copy_of(const char *preset)
{
    redco_json *document = NULL;
    assert_int_equal(redco_preset_open("engines", "an engine", preset, &document, NULL), REDCO_OK);
    json_t *const copy = json_deep_copy(redco_json_root(document).json);
    redco_json_close(document);
    assert_non_null(copy);
    return copy;
}

static void bad_files_are_refused(void **state)
{
    /* "KEY" or "KEY/MEMBER" becomes that JSON, or goes where it is NULL. */
    static const struct {
        const char *key, *member, *json, *place, *text;
    } bad[] = {
        {"colour", NULL, "1", "e.json:/colour", "is not known here; "},
        {"format", NULL, "\"redco-gpu\"", "e.json:/format", ""},
        {"version", NULL, "2", "e.json:/version", ""},
        {"name", NULL, "\"\"", "e.json:/name", "has 0 bytes; 1 to 31 are needed"},
        {"name", NULL, "\"0123456789012345678901234567890123456789\"", "e.json:/name", "has 40 bytes"},
        {"title", NULL, "7", "e.json:/title", ""},
        {"software", "value", "\"jax\"", "e.json:/software/value",
         "software=\"jax\" is not one of: eager, megatron, te_xla"},
        {"software", "source", "\"\"", "e.json:/software/source", "is empty; say where the value is from"},
        {"software", "origin", "1", "e.json:/software/origin", "is not known here; "},
        {"gather", NULL, "\"layer\"", "e.json:/gather", ""},
        {"gather", NULL, NULL, "e.json:/gather", ""},
        {"attention", "value", "true", "e.json:/attention/value", "attention=\"1\" is not one of"},
        {"fused_norm", "value", "2", "e.json:/fused_norm/value", ""},
        {"memory", "value", "\"guessed\"", "e.json:/memory/value",
         "is \"guessed\"; formulas, planned, megatron, pytorch, xla, pytorch-copies, eager and zero are known"},
        {"bucket_bytes", "value", "\"256\"", "e.json:/bucket_bytes/value", "has no unit"},
        {"grad_reduce_bytes", "value", "{\"fp8\": 2}", "e.json:/grad_reduce_bytes/value/fp8", "is not known here; "},
        {"grad_reduce_bytes", "value", "{\"bf16\": 3}", "e.json:/grad_reduce_bytes/value/bf16", "is 3, not 2 or 4"},
        {"grad_reduce_bytes", "value", "{\"bf16\": 8}", "e.json:/grad_reduce_bytes/value/bf16", ""},
        {"cross_entropy", NULL, "{\"value\": \"merged\", \"source\": \"s\"}", "e.json:/cross_entropy/value",
         "is \"merged\"; fused and unfused are known"},
        {"cross_entropy", NULL, "{\"value\": {\"int8\": \"fused\"}, \"source\": \"s\"}",
         "e.json:/cross_entropy/value/int8", "is not known here; "},
        {"overlap", "value", "[\"all\"]", "e.json:/overlap/value/0", "is \"all\", unknown or named twice"},
        {"overlap", "value", "[\"ar\", \"ar\"]", "e.json:/overlap/value/1", "is \"ar\", unknown or named twice"},
        {"recompute", "value", "[]", "e.json:/recompute", "has no value; one is needed"},
        {"scheme", "value", "[]", "e.json:/scheme", "has no value; one is needed"},
        {"states", "value", "[]", "e.json:/states", "has no value; one is needed"},
        {"states", "value", "[3]", "e.json:/states/value/0", "is \"\", unknown or named twice"},
        {"export", "value", "\"jax\"", "e.json:/export/value",
         "is neither null nor one of: megatron, megatron-bridge, torchtitan, deepspeed, fsdp, internevo"},
        {"calibrations", NULL, "{\"value\": {\"A800\": 7}, \"source\": \"s\"}", "e.json:/calibrations/value/A800",
         "is not one of at most 4 names of calibration sets"},
        {"measured_on", NULL, "[7]", "e.json:/measured_on/0", "is not the name of a GPU"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *const json = copy_of("fsdp");
        json_t *const holder = bad[i].member != NULL ? json_object_get(json, bad[i].key) : json;
        const char *const key = bad[i].member != NULL ? bad[i].member : bad[i].key;
        redco_engine_file file;
        redco_error err = {.status = REDCO_OK};
        if (bad[i].json == NULL) {
            assert_int_equal(json_object_del(holder, key), 0);
        } else {
            assert_int_equal(json_object_set_new(holder, key, json_loads(bad[i].json, JSON_DECODE_ANY, NULL)), 0);
        }
        const redco_json_value value = redco_json_wrap(json, "e.json");
        assert_int_equal(redco_engine_file_from_json(&value, &file, &err), REDCO_EVALUE);
        if (strcmp(err.place, bad[i].place) != 0 || strstr(err.text, bad[i].text) == NULL) {
            fail_msg("%s=%s: %s: %s", key, bad[i].json != NULL ? bad[i].json : "-", err.place, err.text);
        }
        json_decref(json);
    }
}

/* Data parallelism alone is a limit, too. */
static void no_dimension_is_a_limit(void **state)
{
    (void)state;
    assert_int_equal(read_preset("fms-fsdp").dimensions, REDCO_HAS_DP);
    assert_int_equal(read_preset("llm-foundry").dimensions, REDCO_HAS_DP | REDCO_HAS_TP);
}

static void plans_keep_engines_that_read(void **state)
{
    static const struct {
        const char *key, *json, *text;
    } bad[] = {
        {"name", "\"0123456789012345678901234567890123456789\"", "is longer than 31 bytes"},
        {"attention", "\"flash9\"", "is \"flash9\", not one of: auto, flash1, flash2, flash3, fused, unfused"},
        {"compiled", "1", ""},
        {"grad_reduce_bytes", "3", "is 3, not 2 or 4"},
        {"bucket_bytes", "1", ""},
        {"stated", "[\"colour\"]", "is no trait of an engine"},
        {"stated", "[7]", "is no trait of an engine"},
    };
    const redco_engine_file file = read_preset("amsp");
    const redco_engine_choice choice = redco_engine_choose(&file, REDCO_BF16);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *const json = redco_engine_describe(&choice, REDCO_BF16);
        redco_engine_choice again;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(json_object_set_new(json, bad[i].key, json_loads(bad[i].json, JSON_DECODE_ANY, NULL)), 0);
        const redco_json_value value = redco_json_wrap(json, "plan.json");
        assert_int_equal(redco_engine_from_json(&value, &again, &err), REDCO_EVALUE);
        if (strstr(err.text, bad[i].text) == NULL || strstr(err.place, bad[i].key) == NULL) {
            fail_msg("%s: %s: %s", bad[i].key, err.place, err.text);
        }
        json_decref(json);
    }
}

/* Sets of a GPU by class of software: the eager ones, Megatron's, those of Transformer Engine and XLA. Only AMSP has
 * one of its own, on A800s. Blackwell and Hopper have no set of Megatron of before Transformer Engine. */
static const struct {
    const char *gpu, *eager, *megatron, *te_xla, *amsp;
} sets[] = {
    {"A10", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A10G", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A100-PCIe-40GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A100-PCIe-80GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A100-SXM4-40GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A100-SXM4-80GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A40", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"A800-PCIe-80GB", "a100-eager", "a100-megatron", "a100-eager", "a800-amsp"},
    {"A800-SXM4-80GB", "a100-eager", "a100-megatron", "a100-eager", "a800-amsp"},
    {"B200-SXM-180GB", "blackwell-eager", "blackwell-te", "blackwell-te", "blackwell-eager"},
    {"B300-SXM-270GB", "blackwell-eager", "blackwell-te", "blackwell-te", "blackwell-eager"},
    {"GB200-per-GPU", "blackwell-eager", "blackwell-te", "blackwell-te", "blackwell-eager"},
    {"GB300-per-GPU", "blackwell-eager", "blackwell-te", "blackwell-te", "blackwell-eager"},
    {"GH200-144GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"GH200-96GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"GTX-1080-Ti", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"H100-NVL-94GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"H100-PCIe-80GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"H100-SXM5-80GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"H20-SXM-96GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"H200-SXM-141GB", "h200-eager", "h200-eager", "h200-te", "h200-eager"},
    {"H800-SXM5-80GB", "h100-eager", "h100-eager", "h100-te", "h100-eager"},
    {"L4", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"L40", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"L40S", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"MI210", "unseen-eager", "unseen-eager", "unseen-eager", "unseen-eager"},
    {"MI250X", "unseen-eager", "unseen-eager", "unseen-eager", "unseen-eager"},
    {"MI250X-GCD", "unseen-eager", "unseen-eager", "unseen-eager", "unseen-eager"},
    {"MI300X", "cdna3-eager", "cdna3-eager", "cdna3-eager", "cdna3-eager"},
    {"MI325X", "cdna3-eager", "cdna3-eager", "cdna3-eager", "cdna3-eager"},
    {"MI350X", "unseen-eager", "unseen-eager", "unseen-te", "unseen-eager"},
    {"MI355X", "unseen-eager", "unseen-eager", "unseen-te", "unseen-eager"},
    {"MI50-32GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"P100-PCIe-16GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"P100-SXM2-16GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-3080-10GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-3090", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-4090", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-5090", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-6000-Ada", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"RTX-A6000", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"T4", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"TPU-v3-chip", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"TPU-v4-chip", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"TPU-v6e", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"V100-PCIe-32GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"V100-SXM2-16GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"V100-SXM2-32GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
    {"V100-SXM3-32GB", "a100-eager", "a100-megatron", "a100-eager", "a100-eager"},
};
enum { GPUS = sizeof sets / sizeof sets[0] };

/* Engines whose rows of traces/data suffice for a set of their own (tools/fit-presets.sh), on GPUs with such names. */
static const struct {
    const char *engine, *gpus, *set;
} own_sets[] = {
    {"aleph-alpha", "A100", "a100-aleph-alpha"},
    {"megatron-lm-2022", "A100", "a100-megatron-lm"},
    {"nemo", "H100", "h100-nemo"},
    {"maxtext", "H100", "h100-maxtext"},
    {"megatron-bridge", "B200", "blackwell-megatron-bridge"},
    {"megatron-bridge", "B300", "blackwell-megatron-bridge"},
    {"megatron-bridge", "GB200", "blackwell-megatron-bridge"},
    {"megatron-bridge", "GB300", "blackwell-megatron-bridge"},
};

static const char *wanted_set(size_t gpu, const redco_engine_file *file)
{
    if (strcmp(file->engine.name, "redco-exec") == 0) { return "cuda"; }
    if (strcmp(file->engine.name, "amsp") == 0) { return sets[gpu].amsp; }
    for (size_t i = 0; i < sizeof own_sets / sizeof own_sets[0]; i++) {
        const bool here = strncmp(sets[gpu].gpu, own_sets[i].gpus, strlen(own_sets[i].gpus)) == 0;
        if (here && strcmp(file->engine.name, own_sets[i].engine) == 0) { return own_sets[i].set; }
    }
    switch (file->engine.software) {
    case REDCO_SOFTWARE_MEGATRON: return sets[gpu].megatron;
    case REDCO_SOFTWARE_TE_XLA: return sets[gpu].te_xla;
    default: return sets[gpu].eager;
    }
}

static void engines_have_their_calibrations(void **state)
{
    (void)state;
    for (size_t g = 0; g < GPUS; g++) {
        redco_gpu gpu;
        assert_int_equal(redco_gpu_find(sets[g].gpu, &gpu, NULL), REDCO_OK);
        for (size_t i = 0; redco_preset_at("engines", i) != NULL; i++) {
            const redco_engine_file file = read_preset(redco_preset_at("engines", i)->name);
            assert_string_equal(redco_calibration_of_engine(&file, &file.engine, &gpu), wanted_set(g, &file));
        }
        assert_string_equal(redco_calibration_set(&gpu, REDCO_SOFTWARE_EAGER), sets[g].eager);
        assert_string_equal(redco_calibration_set(&gpu, REDCO_SOFTWARE_EAGER), sets[g].eager);
        assert_string_equal(redco_calibration_set(&gpu, REDCO_SOFTWARE_MEGATRON), sets[g].megatron);
        assert_string_equal(redco_calibration_set(&gpu, REDCO_SOFTWARE_TE_XLA), sets[g].te_xla);
    }
    assert_null(redco_preset_at("gpus", GPUS));
}

/* Another class of software than the file's has nothing of the engine's own set. */
static void stated_software_leaves_the_engines_set(void **state)
{
    const redco_engine_file file = read_preset("amsp");
    redco_engine engine = file.engine;
    redco_gpu gpu;
    (void)state;
    assert_int_equal(redco_gpu_find("A800-SXM4-80GB", &gpu, NULL), REDCO_OK);
    assert_string_equal(redco_calibration_of_engine(&file, &engine, &gpu), "a800-amsp");
    engine.software = REDCO_SOFTWARE_MEGATRON;
    assert_string_equal(redco_calibration_of_engine(&file, &engine, &gpu), "a100-megatron");
}

static void processors_have_sets_of_their_own(void **state)
{
    redco_gpu host = {.vendor = "host", .arch = "processor"};
    (void)state;
    for (size_t i = 0; redco_preset_at("engines", i) != NULL; i++) {
        const redco_engine_file file = read_preset(redco_preset_at("engines", i)->name);
        (void)snprintf(host.arch, sizeof host.arch, "processor");
        assert_string_equal(redco_calibration_of_engine(&file, &file.engine, &host), "host");
        (void)snprintf(host.arch, sizeof host.arch, "emulated");
        assert_string_equal(redco_calibration_of_engine(&file, &file.engine, &host), "emulated");
    }
}

static void measured_means_rows_in_use(void **state)
{
    const redco_engine_file file = read_preset("llm-foundry");
    (void)state;
    assert_true(redco_engine_measured_on(&file, "H100-SXM5-80GB"));
    assert_true(redco_engine_measured_on(&file, "h100-sxm5-80gb"));
    assert_false(redco_engine_measured_on(&file, "H100"));
    assert_false(redco_engine_measured_on(&file, "V100-SXM2-16GB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_reads),
        cmocka_unit_test(defaults_are_those_of_the_precision),
        cmocka_unit_test(what_is_stated_is_what_the_trait_says),
        cmocka_unit_test(traits_of_presets_can_be_stated),
        cmocka_unit_test(descriptions_are_read_back),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(no_dimension_is_a_limit),
        cmocka_unit_test(plans_keep_engines_that_read),
        cmocka_unit_test(engines_have_their_calibrations),
        cmocka_unit_test(stated_software_leaves_the_engines_set),
        cmocka_unit_test(processors_have_sets_of_their_own),
        cmocka_unit_test(measured_means_rows_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
