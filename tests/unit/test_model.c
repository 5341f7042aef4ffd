#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"
#include "published_mixtures.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct count_row {
    const char *preset;
    uint64_t params;
};

/* Sums over named_parameters() of HuggingFace transformers 4.48.0 for the same dimensions (PyTorch's meta device); T5,
 * OPT-66B, GPT-J and LLaMA-7B also by redco 0.4.23 on the Flax models.
 * internlm2-7b by hand: 2 x 92544 x 4096 + 4096 + 32 x (6144 x 4096 + 4096^2 + 3 x 14336 x 4096 + 2 x 4096);
 * phi-3-mini: 2 x 32064 x 3072 + 3072 + 32 x (9216 x 3072 + 3072^2 + 3 x 8192 x 3072 + 2 x 3072); phi-4: 2 x 100352 x
 * 5120 + 5120 + 40 x (7680 x 5120 + 5120^2 + 3 x 17920 x 5120 + 2 x 5120). */
static const struct count_row counts[] = {
    {"llama-7b", 6738415616},
    {"llama-13b", 13015864320},
    {"llama-30b", 32528943616},
    {"llama-65b", 65285660672},
    {"amsp-30b", 27573049344},
    {"llama-2-70b", 68976648192},
    {"llama-3-8b", 8030261248},
    {"llama-3-70b", 70553706496},
    {"llama-3.1-405b", 405853388800},
    {"qwen3-8b", 8190735360},
    {"qwen3-0.6b", 596049920},
    {"mistral-7b", 7241732096},
    {"qwen2-0.5b", 494032768},
    {"qwen2-7b", 7615616512},
    {"internlm2-7b", 7737708544},
    {"gemma-2b", 2506172416},
    {"gemma-7b", 8537680896},
    {"gpt2", 124439808},
    {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},
    {"gpt-j-6b", 6050882784},
    {"gpt-neox-20b", 20554567680},
    {"opt-125m", 125239296},
    {"opt-13b", 12853473280},
    {"opt-66b", 65719701504},
    {"bloom-560m", 559214592},
    {"bloom-7b1", 7069016064},
    {"bloom-176b", 176247271424},
    {"mpt-7b", 6649286656},
    {"t5-11b", 11307321344},
    {"bart-large", 406291456},
    {"phi-3-mini", 3821079552},
    {"phi-4", 14659507200},
    /* by hand, as internlm2-7b above: LLaMA's matrices, Qwen2's biases, Qwen3's two head norms a layer */
    {"llama-2-7b", 6738415616},
    {"llama-2-13b", 13015864320},
    {"llama-3.1-8b", 8030261248},
    {"llama-3.1-70b", 70553706496},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},
    {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},
    {"qwen3-4b", 4022468096},
    {"qwen3-14b", 14768307200},
    {"qwen3-32b", 32762123264},
};

static uint64_t elements_of(const redco_param *param)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < param->rank; i++) { elements *= param->shape[i]; }
    return elements;
}

/* Whatever the family: classes, tensors and total agree with one another. */
static void check_sums(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    const redco_param *params = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    const size_t param_count = redco_model_tensors(model, &params);
    uint64_t total = 0;
    for (size_t i = 0; i < class_count; i++) {
        uint64_t sum = 0;
        uint64_t largest = 0;
        uint32_t tensors = 0;
        for (size_t j = 0; j < param_count; j++) {
            if (params[j].class_index != i) { continue; }
            const uint64_t elements = elements_of(&params[j]);
            assert_int_equal(params[j].count, classes[i].layers);
            assert_int_equal(strstr(params[j].name, "{}") != NULL,
                             classes[i].kind == REDCO_CLASS_BLOCK || classes[i].kind == REDCO_CLASS_CROSS);
            sum += elements;
            largest = elements > largest ? elements : largest;
            tensors++;
        }
        assert_int_equal(classes[i].params, sum);
        assert_int_equal(classes[i].tensors, tensors);
        assert_int_equal(classes[i].largest_tensor_params, largest);
        assert_true(classes[i].modules <= tensors);
        total += sum * classes[i].layers;
    }
    assert_int_equal(redco_model_params(model), total);
}

static void presets_have_the_published_counts(void **state)
{
    (void)state;
    enum { DENSE = sizeof counts / sizeof counts[0] };
    for (size_t i = 0; i < DENSE + PUBLISHED_PRESETS; i++) {
        const char *const preset = i < DENSE ? counts[i].preset : published_mixtures[i - DENSE].name;
        const uint64_t params = i < DENSE ? counts[i].params : published_mixtures[i - DENSE].params;
        redco_model *model = NULL;
        redco_error err = {0};
        assert_int_equal(redco_model_read(preset, &model, &err), REDCO_OK);
        if (redco_model_params(model) != params) { print_error("%s\n", preset); }
        assert_int_equal(redco_model_params(model), params);
        check_sums(model);
        assert_null(redco_model_warning(model, 0));
        assert_int_equal(json_object_size(redco_model_defaults(model)), 0);
        redco_model_free(model);
    }
}

/* @return whether the preset is in a table of this file, or of @p listed, which ends each name with a line end */
static bool is_listed(const char *preset, const char *listed)
{
    char line[80];
    (void)snprintf(line, sizeof line, "\n%s\n", preset);
    bool found = strstr(listed, line) != NULL;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) { found |= strcmp(counts[i].preset, preset) == 0; }
    for (size_t i = 0; i < PUBLISHED_PRESETS; i++) { found |= strcmp(published_mixtures[i].name, preset) == 0; }
    return found;
}

/* Embedding, blocks and head. */
static void sum_parts(const redco_model *model, uint64_t parts[3])
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (size_t i = 0; i < count; i++) {
        const redco_class_kind kind = classes[i].kind;
        const size_t part = kind == REDCO_CLASS_EMBEDDING ? 0 : kind == REDCO_CLASS_HEAD ? 2 : 1;
        parts[part] += classes[i].params * classes[i].layers;
    }
}

static void presets_have_the_counts_of_transformers(void **state)
{
    char line[200], listed[8192] = "\n";
    FILE *const file = fopen(REDCO_TEST_DATA "/models/parameters.csv", "r");
    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char preset[64];
        unsigned long long want[4] = {0};
        uint64_t parts[3] = {0, 0, 0};
        redco_model *model = NULL;
        const int read = sscanf(line, "%63[^,],%llu,%llu,%llu,%llu", preset, &want[0], &want[1], &want[2], &want[3]);
        if (line[0] == '#' || read < 2) { continue; }
        assert_int_equal(redco_model_read(preset, &model, NULL), REDCO_OK);
        sum_parts(model, parts);
        if (redco_model_params(model) != want[0]) { print_error("%s\n", preset); }
        assert_int_equal(redco_model_params(model), want[0]);
        for (int i = 0; i < 3 && read == 5; i++) { assert_int_equal(parts[i], want[i + 1]); }
        check_sums(model);
        assert_null(redco_model_warning(model, 0));
        redco_model_free(model);
        (void)strncat(listed, preset, sizeof listed - strlen(listed) - 2);
        (void)strcat(listed, "\n");
    }
    (void)fclose(file);
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        const char *const name = redco_preset_at("models", i)->name;
        if (!is_listed(name, listed)) { fail_msg("%s is in no table", name); }
    }
}

/* Each name that a hub has for a preset finds it, and no other has it. */
static void hub_names_are_presets(void **state)
{
    (void)state;
    assert_ptr_equal(redco_preset_model("meta-llama/Llama-3.1-8B"), redco_preset_find("models", "llama-3.1-8b"));
    assert_ptr_equal(redco_preset_model("qwen/qwen2.5-7b-instruct"), redco_preset_find("models", "qwen2.5-7b"));
    assert_null(redco_preset_model("meta-llama/Llama-3.1"));
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        const redco_preset *const preset = redco_preset_at("models", i);
        json_t *const config = json_loads(preset->text, 0, NULL);
        size_t at = 0;
        const json_t *name = NULL;
        json_array_foreach(json_object_get(config, "_hub"), at, name)
        {
            assert_ptr_equal(redco_preset_model(json_string_value(name)), preset);
        }
        json_decref(config);
    }
}

struct default_row {
    const char *type;
    uint64_t params;
};

/* {"model_type": TYPE} and nothing else: transformers 4.48.0 with the defaults of its configuration classes. */
static const struct default_row defaults[] = {
    {"llama", 6738415616}, {"mistral", 7241732096},   {"qwen2", 12049846272}, {"qwen3", 12049461248},
    {"gemma", 8537680896}, {"gpt2", 124439808},       {"gptj", 6050882784},   {"opt", 125239296},
    {"bloom", 16156544},   {"gpt_neox", 20554567680}, {"mpt", 1311213568},    {"t5", 60506624},
    {"mt5", 300176768},    {"bart", 406291456},       {"phi3", 3821079552},
};

static redco_status read_text(const char *text, redco_model **model_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, strlen(text), "config.json", &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_model_from_json(&root, NULL, model_out, err);
    redco_json_close(document);
    return st;
}

static void absent_keys_take_the_defaults_of_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        char text[64];
        redco_model *model = NULL;
        (void)snprintf(text, sizeof text, "{\"model_type\":\"%s\"}", defaults[i].type);
        assert_int_equal(read_text(text, &model, NULL), REDCO_OK);
        assert_string_equal(redco_model_type(model), defaults[i].type);
        assert_int_equal(redco_model_params(model), defaults[i].params);
        redco_model_free(model);
    }
}

/* Every tensor of the model, layers written out, is in the list with the same shape, and no other. */
static void compare_with_list(const redco_model *model, const json_t *wanted, const char *file)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t layer = 0; layer < params[i].count; layer++) {
            char name[200];
            const char *brace = strstr(params[i].name, "{}");
            const int before = brace != NULL ? (int)(brace - params[i].name) : (int)strlen(params[i].name);
            (void)snprintf(name, sizeof name, "%.*s", before, params[i].name);
            if (brace != NULL) {
                (void)snprintf(name + before, sizeof name - (size_t)before, "%u%s", layer, brace + 2);
            }
            const json_t *shape = json_object_get(wanted, name);
            if (shape == NULL) { print_error("%s: %s\n", file, name); }
            assert_non_null(shape);
            assert_int_equal(json_array_size(shape), params[i].rank);
            for (uint32_t d = 0; d < params[i].rank; d++) {
                assert_int_equal(json_integer_value(json_array_get(shape, d)), params[i].shape[d]);
            }
            seen++;
        }
    }
    assert_int_equal(seen, json_object_size(wanted));
}

static void tensors_are_those_of_transformers(void **state)
{
    (void)state;
    const char *folder = REDCO_TEST_DATA "/models";
    DIR *listing = opendir(folder);
    size_t files = 0;
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        redco_json *document = NULL;
        redco_json_value config;
        redco_model *model = NULL;
        if (strstr(item->d_name, ".json") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(redco_json_open(path, &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_json_object(&root, "config", &config, NULL), REDCO_OK);
        assert_int_equal(redco_model_from_json(&config, item->d_name, &model, NULL), REDCO_OK);
        assert_string_equal(redco_model_name(model), item->d_name);
        check_sums(model);
        compare_with_list(model, json_object_get(root.json, "tensors"), item->d_name);
        redco_model_free(model);
        redco_json_close(document);
        files++;
    }
    (void)closedir(listing);
    assert_true(files >= 29);
}

static void t5_keeps_its_position_bias_in_the_embedding(void **state)
{
    const redco_layer_class *classes = NULL;
    redco_model *model = NULL;
    (void)state;
    assert_int_equal(redco_model_read("T5-11B", &model, NULL), REDCO_OK);
    assert_string_equal(redco_model_name(model), "T5-11B");
    assert_int_equal(redco_model_classes(model, &classes), 4);
    assert_string_equal(classes[0].name, "embedding");
    /* 32128 x 1024 words + 2 x 32 buckets x 128 heads + the norm behind the encoder */
    assert_int_equal(classes[0].params, 32899072 + 8192 + 1024);
    assert_int_equal(classes[0].modules, 4);
    assert_string_equal(classes[1].name, "encoder");
    assert_int_equal(classes[1].kind, REDCO_CLASS_BLOCK);
    assert_int_equal(classes[1].layers, 24);
    assert_int_equal(classes[1].modules, 8); /* q k v o wi wo, two norms */
    assert_string_equal(classes[2].name, "decoder");
    assert_int_equal(classes[2].kind, REDCO_CLASS_CROSS);
    assert_int_equal(classes[2].modules, 13); /* 2 x q k v o, wi wo, three norms */
    assert_string_equal(classes[3].name, "head");
    assert_int_equal(classes[3].params, 1024); /* the final norm: the output table is the input's */
    const redco_model_dims *dims = redco_model_get_dims(model);
    assert_int_equal(dims->encoder_layers, 24);
    assert_int_equal(dims->heads * dims->head_dim, 16384);
    assert_true(dims->tied && dims->dropout && !dims->gated && dims->positions == REDCO_POSITIONS_RELATIVE);
    redco_model_free(model);
}

static void dims_say_what_the_cost_model_needs(void **state)
{
    redco_model *model = NULL;
    (void)state;
    assert_int_equal(redco_model_read("llama-3-8b", &model, NULL), REDCO_OK);
    const redco_model_dims *llama = redco_model_get_dims(model);
    assert_true(llama->gated && !llama->tied && !llama->dropout && !llama->parallel_block);
    assert_int_equal(llama->kv_heads, 8);
    assert_int_equal(llama->head_dim, 128);
    assert_int_equal(llama->max_positions, 0); /* rotary: any length */
    redco_model_free(model);
    assert_int_equal(redco_model_read("opt-66b", &model, NULL), REDCO_OK);
    const redco_model_dims *opt = redco_model_get_dims(model);
    assert_true(!opt->gated && opt->tied && opt->dropout && opt->positions == REDCO_POSITIONS_LEARNED);
    assert_int_equal(opt->max_positions, 2048);
    redco_model_free(model);
    assert_int_equal(redco_model_read("gpt-j-6b", &model, NULL), REDCO_OK);
    assert_true(redco_model_get_dims(model)->parallel_block);
    redco_model_free(model);
    /* Without ALiBi MPT learns its positions: 2048 x 2048 more than the default of 1311213568. */
    assert_int_equal(read_text("{\"model_type\":\"mpt\",\"attn_config\":{\"alibi\":false}}", &model, NULL), REDCO_OK);
    assert_int_equal(redco_model_params(model), 1311213568 + 2048 * 2048);
    redco_model_free(model);
}

struct bad_row {
    const char *config, *place, *text;
};

static const struct bad_row bad[] = {
    {"[]", "config.json", "is an array"},
    {"{}", "config.json:/model_type", "is missing; one of: llama, mistral"},
    {"{\"model_type\":7}", "config.json:/model_type", "is a number; a string is needed"},
    {"{\"model_type\":\"mamba2\"}", "config.json:/model_type",
     "\"mamba2\" is not a model type that redco knows; generic states sizes alone; known: llama, mistral, qwen2, "
     "qwen3, "
     "phi3, internlm2, gemma, gemma2, gemma3_text, olmo, olmo2, olmo3, granite, smollm3, seed_oss, glm, glm4, exaone, "
     "exaone4, "
     "internlm3, baichuan, minicpm, qwen, starcoder2, falcon, cohere, cohere2, phi, stablelm, nemotron, gpt2, "
     "gpt_bigcode, gptj, "
     "gpt_neox, opt, bloom, mpt, t5, mt5, bart, mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, "
     "glm4_moe, dots1, gpt_oss, llama4_text, olmoe, minimax_m2, dbrx, phimoe, granitemoe, grok-1, generic"},
    {"{\"model_type\":\"generic\",\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":"
     "9}",
     "config.json:/intermediate_size", "is missing; a model of type \"generic\" is known by its dimensions alone"},
    {"{\"model_type\":\"generic\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":256,"
     "\"num_attention_heads\":3,\"vocab_size\":100}",
     "config.json:/num_attention_heads", "num_attention_heads = 3 must divide hidden_size = 64"},
    {"{\"model_type\":\"generic\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":256,"
     "\"num_attention_heads\":4,\"vocab_size\":100,\"gated\":1}",
     "config.json:/gated", "is a number"},
    {"{\"model_type\":\"llama\",\"hidden_size\":0}", "config.json:/hidden_size", "is 0"},
    {"{\"model_type\":\"llama\",\"hidden_size\":-4096}", "config.json:/hidden_size", "is -4096"},
    {"{\"model_type\":\"llama\",\"hidden_size\":4096.5}", "config.json:/hidden_size", "is a number; a whole number"},
    {"{\"model_type\":\"llama\",\"hidden_size\":\"4096\"}", "config.json:/hidden_size", "is a string"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1099511627776}", "config.json:/hidden_size", "1 to 1048576 is needed"},
    {"{\"model_type\":\"llama\",\"num_hidden_layers\":4000000000}", "config.json:/num_hidden_layers", "1 to 1000000"},
    {"{\"model_type\":\"llama\",\"num_attention_heads\":31}", "config.json:/num_attention_heads",
     "num_attention_heads = 31 must divide hidden_size = 4096"},
    {"{\"model_type\":\"llama\",\"num_key_value_heads\":5}", "config.json:/num_key_value_heads",
     "num_key_value_heads = 5 must divide num_attention_heads = 32"},
    {"{\"model_type\":\"llama\",\"tie_word_embeddings\":\"no\"}", "config.json:/tie_word_embeddings", "is a string"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1048576,\"intermediate_size\":8388608,\"num_hidden_layers\":10000}",
     "config.json", "has more than 1000000000000000 parameters"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1048576,\"head_dim\":1048576,\"num_attention_heads\":65536,"
     "\"num_hidden_layers\":10000}",
     "config.json", "has more than 1000000000000000 parameters"},
    {"{\"model_type\":\"gpt2\",\"n_head\":7}", "config.json:/n_head", "n_head = 7 must divide n_embd = 768"},
    {"{\"model_type\":\"gpt2\",\"resid_pdrop\":1.5}", "config.json:/resid_pdrop", "is 1.5"},
    {"{\"model_type\":\"gpt2\",\"add_cross_attention\":true}", "config.json:/add_cross_attention", "is true"},
    {"{\"model_type\":\"bart\",\"decoder_attention_heads\":3}", "config.json:/decoder_attention_heads",
     "must divide d_model = 1024"},
    {"{\"model_type\":\"t5\",\"feed_forward_proj\":\"a-b\"}", "config.json:/feed_forward_proj",
     "is \"a-b\"; ACTIVATION or gated-ACTIVATION is needed"},
    {"{\"model_type\":\"t5\",\"num_decoder_layers\":0}", "config.json:/num_decoder_layers", "is 0"},
    {"{\"model_type\":\"mpt\",\"no_bias\":false}", "config.json:/no_bias", "is false"},
    {"{\"model_type\":\"mpt\",\"attn_config\":{\"attn_type\":\"multiquery_attention\"}}",
     "config.json:/attn_config/attn_type", "\"multihead_attention\" is needed"},
    {"{\"model_type\":\"mpt\",\"attn_config\":3}", "config.json:/attn_config", "is a number; an object is needed"},
    {"{\"model_type\":\"llama\",\"rms_norm_eps\":-1e-6}", "config.json:/rms_norm_eps", "is -1e-06"},
    {"{\"model_type\":\"llama\",\"rope_theta\":-10000}", "config.json:/rope_theta", "is -10000"},
    {"{\"model_type\":\"llama\",\"max_position_embeddings\":0}", "config.json:/max_position_embeddings", "is 0"},
    {"{\"model_type\":\"bart\",\"layer_norm_eps\":\"tiny\"}", "config.json:/layer_norm_eps", "is a string"},
    {"{\"model_type\":\"llama\",\"_name\":3}", "config.json:/_name", "is a number; a string is needed"},
};

static void bad_configs_name_the_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_model *model = NULL;
        redco_error err = {0};
        assert_int_equal(read_text(bad[i].config, &model, &err), REDCO_EVALUE);
        assert_null(model);
        assert_string_equal(err.place, bad[i].place);
        if (strstr(err.text, bad[i].text) == NULL) { print_error("%s: %s\n", bad[i].config, err.text); }
        assert_non_null(strstr(err.text, bad[i].text));
    }
}

/* Names in a hub, with variants that have the same shape; digits beside each other are no name of other digits. */
static void presets_are_known_by_their_hub(void **state)
{
    static const char *const names[][2] = {{"meta-llama/Llama-3.1-8B", "Llama-3.1-8B"},
                                           {"meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3-8B"},
                                           {"llama3-8b", "Llama-3-8B"},
                                           {"Qwen/Qwen2.5-32B", "Qwen2.5-32B"},
                                           {"/data/models/Qwen2.5-7B-Instruct", "Qwen2.5-7B"},
                                           {"mistralai/Mistral-7B-Instruct-v0.2", "Mistral-7B"},
                                           {"NousResearch/Llama-2-7b-chat-hf", "Llama-2-7B"},
                                           {"deepseek-ai/DeepSeek-R1", "DeepSeek-V3"},
                                           {"DeepSeek-R1-Distill-Qwen-32B", "Qwen2.5-32B"},
                                           {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "Llama-3.1-8B"},
                                           {"Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen2.5-7B"},
                                           {"lmsys/vicuna-13b-v1.5", "Llama-2-13B"}};
    static const char *const others[] = {"llama-1.3b",  "llama-38b",
                                         "qwen/qwen",   "gpt",
                                         "meta-llama/", "DeepSeek-R1-Distill-Qwen-1.5B"}; /* its output is not tied */
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        redco_model *model = NULL;
        redco_error err = {0};
        if (redco_model_read(names[i][0], &model, &err) != REDCO_OK) { fail_msg("%s: %s", names[i][0], err.text); }
        assert_string_equal(redco_model_name(model), names[i][1]);
        redco_model_free(model);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        redco_model *model = NULL;
        assert_int_equal(redco_model_read(others[i], &model, NULL), REDCO_EVALUE);
    }
}

static void unknown_presets_list_the_nearest(void **state)
{
    redco_model *model = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_model_read("llama-8b", &model, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "nearest: "));
    assert_non_null(strstr(err.text, "llama-3-8b"));
    assert_null(strstr(err.text, "amsp-30b"));
    redco_error_clear(&err);
    assert_int_equal(redco_model_read("zzz", &model, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "known: amsp-30b, "));
    redco_error_clear(&err);
    assert_int_equal(redco_model_read("/nonexistent/config.json", &model, &err), REDCO_EIO);
}

static void the_name_comes_from_the_config(void **state)
{
    redco_model *model = NULL;
    (void)state;
    assert_int_equal(read_text("{\"model_type\":\"gpt2\",\"_name_or_path\":\"my/gpt\"}", &model, NULL), REDCO_OK);
    assert_string_equal(redco_model_name(model), "my/gpt");
    redco_model_free(model);
    assert_int_equal(read_text("{\"model_type\":\"gpt2\",\"_name_or_path\":\"\"}", &model, NULL), REDCO_OK);
    assert_string_equal(redco_model_name(model), "config.json");
    /* The config outlives the document that it was read from. */
    assert_string_equal(json_string_value(json_object_get(redco_model_config(model), "model_type")), "gpt2");
    redco_model_free(model);
    redco_model_free(NULL);
}

struct spelling_row {
    const char *config, *meant; /* NULL: no warning */
};

/* The last rows: keys of published configs (Llama 3, Qwen2, GPT-2, BLOOM, MPT, T5, BART) that redco does not ask for.
 */
static const struct spelling_row spellings[] = {
    {"{\"model_type\":\"llama\",\"hidden_sise\":8192}",
     "/hidden_sise: is not known here, and there is no \"hidden_size\""},
    {"{\"model_type\":\"llama\",\"num_hiden_layer\":80}", "no \"num_hidden_layers\""},
    {"{\"model_type\":\"gpt2\",\"n_embed\":1600}", "no \"n_embd\""},
    {"{\"model_type\":\"gpt2\",\"num_hidden_layer\":48}", "no \"num_hidden_layers\""},
    /* both spellings: the right one counts */
    {"{\"model_type\":\"llama\",\"hidden_sise\":8192,\"hidden_size\":4096}", NULL},
    {"{\"model_type\":\"gpt2\",\"n_embed\":1536,\"hidden_size\":1536}", NULL},
    {"{\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"pretraining_tp\":1,\"rope_theta\":1,\"rms_norm_eps\":1,"
     "\"attention_dropout\":0,\"bos_token_id\":1,\"eos_token_id\":2,\"initializer_range\":0.02,\"use_cache\":true}",
     NULL},
    {"{\"model_type\":\"qwen2\",\"max_window_layers\":28,\"sliding_window\":131072,\"use_mrope\":false,"
     "\"use_sliding_window\":false}",
     NULL},
    {"{\"model_type\":\"gpt2\",\"attn_pdrop\":0.1,\"embd_pdrop\":0.1,\"n_ctx\":1024,\"summary_activation\":null,"
     "\"layer_norm_epsilon\":1e-05,\"task_specific_params\":{}}",
     NULL},
    {"{\"model_type\":\"bloom\",\"attention_dropout\":0,\"n_inner\":null,\"offset_alibi\":100,\"seq_length\":2048,"
     "\"skip_bias_add\":true,\"slow_but_exact\":false,\"unk_token_id\":0,\"masked_softmax_fusion\":true}",
     NULL},
    {"{\"model_type\":\"mpt\",\"emb_pdrop\":0,\"embedding_fraction\":1,\"logit_scale\":null,\"norm_type\":\"x\","
     "\"tokenizer_name\":\"x\",\"verbose\":0,\"init_device\":\"cpu\",\"init_config\":{}}",
     NULL},
    {"{\"model_type\":\"t5\",\"is_encoder_decoder\":true,\"layer_norm_epsilon\":1e-6,\"n_positions\":512,"
     "\"output_past\":true,\"relative_attention_max_distance\":128,\"dense_act_fn\":\"relu\"}",
     NULL},
    {"{\"model_type\":\"bart\",\"activation_dropout\":0.1,\"attention_dropout\":0.1,\"classif_dropout\":0.1,"
     "\"classifier_dropout\":0,\"encoder_layerdrop\":0,\"decoder_layerdrop\":0,\"gradient_checkpointing\":false,"
     "\"init_std\":0.02,\"no_repeat_ngram_size\":3,\"normalize_before\":false,\"num_beams\":4,\"scale_embedding\":"
     "false}",
     NULL},
};

static void misspelt_keys_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        redco_model *model = NULL;
        redco_error err = {0};
        assert_int_equal(read_text(spellings[i].config, &model, &err), REDCO_OK);
        const char *warning = redco_model_warning(model, 0);
        if (warning != NULL && strstr(warning, "is not known here") == NULL) { warning = NULL; }
        if ((warning == NULL) != (spellings[i].meant == NULL) ||
            (warning != NULL && strstr(warning, spellings[i].meant) == NULL)) {
            fail_msg("%s: %s", spellings[i].config, warning != NULL ? warning : "no warning");
        }
        redco_model_free(model);
    }
}

struct left_out_row {
    const char *config, *defaults; /* as one text */
};

/* Defaults of the configuration classes of transformers 4.48. What follows from other keys (llama's key and value heads
 * and head size, the FFN of GPT-2, T5's decoder layers) is none; Mistral's, Gemma's and T5's are numbers. */
static const struct left_out_row left_out[] = {
    {"{\"model_type\":\"llama\"}", "{\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":11008,"
                                   "\"num_hidden_layers\":32,\"num_attention_heads\":32}"},
    {"{\"model_type\":\"llama\",\"vocab_size\":100,\"hidden_size\":null,\"intermediate_size\":172,"
     "\"num_hidden_layers\":2,\"num_attention_heads\":4}",
     "{\"hidden_size\":4096}"},
    {"{\"model_type\":\"mistral\",\"vocab_size\":100,\"hidden_size\":64,\"intermediate_size\":172,"
     "\"num_hidden_layers\":2,\"num_attention_heads\":8}",
     "{\"num_key_value_heads\":8}"},
    {"{\"model_type\":\"gemma\",\"vocab_size\":100,\"hidden_size\":64,\"intermediate_size\":172,"
     "\"num_hidden_layers\":2,\"num_attention_heads\":16}",
     "{\"num_key_value_heads\":16,\"head_dim\":256}"},
    {"{\"model_type\":\"gpt2\"}",
     "{\"vocab_size\":50257,\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024}"},
    {"{\"model_type\":\"gpt2\",\"hidden_size\":96,\"n_positions\":128,\"vocab_size\":100}",
     "{\"n_layer\":12,\"n_head\":12}"},
    {"{\"model_type\":\"gptj\",\"n_embd\":64,\"n_head\":4}", "{\"vocab_size\":50400,\"n_layer\":28}"},
    {"{\"model_type\":\"mpt\",\"d_model\":64,\"n_heads\":4,\"vocab_size\":100}",
     "{\"n_layers\":24,\"expansion_ratio\":4}"},
    {"{\"model_type\":\"t5\",\"vocab_size\":100,\"num_heads\":4,\"relative_attention_num_buckets\":32}",
     "{\"d_model\":512,\"d_ff\":2048,\"num_layers\":6,\"d_kv\":64}"},
    {"{\"model_type\":\"opt\",\"num_hidden_layers\":2,\"max_position_embeddings\":64}",
     "{\"vocab_size\":50272,\"hidden_size\":768,\"ffn_dim\":3072,\"num_attention_heads\":12}"},
    {"{\"model_type\":\"bart\",\"d_model\":64,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,"
     "\"max_position_embeddings\":64,\"vocab_size\":100}",
     "{\"encoder_layers\":12,\"encoder_ffn_dim\":4096,\"decoder_layers\":12,\"decoder_ffn_dim\":4096}"},
    {"{\"model_type\":\"bloom\",\"n_embed\":64,\"n_head\":4,\"vocab_size\":100}", "{\"n_layer\":2}"},
    {"{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"num_attention_heads\":4}",
     "{\"vocab_size\":50432,\"intermediate_size\":24576,\"num_hidden_layers\":44}"},
    {"{\"model_type\":\"generic\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":172,"
     "\"num_attention_heads\":4,\"vocab_size\":100}",
     "{}"},
};

static void sizes_that_are_left_out_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
        redco_model *model = NULL;
        redco_error err = {0};
        const char *key = NULL;
        json_t *value = NULL;
        assert_int_equal(read_text(left_out[i].config, &model, &err), REDCO_OK);
        json_t *const wanted = json_loads(left_out[i].defaults, 0, NULL);
        const char *const warning = redco_model_warning(model, 0);
        assert_non_null(wanted);
        if (!json_equal(redco_model_defaults(model), wanted)) { fail_msg("%s", left_out[i].config); }
        assert_int_equal(warning == NULL, json_object_size(wanted) == 0);
        assert_null(redco_model_warning(model, 1)); /* one line for all */
        json_object_foreach(wanted, key, value)
        {
            char words[64];
            (void)snprintf(words, sizeof words, " %s = %" JSON_INTEGER_FORMAT, key, json_integer_value(value));
            assert_non_null(strstr(warning, words));
        }
        json_decref(wanted);
        redco_model_free(model);
    }
}

static void same_models(const redco_model *a, const redco_model *b)
{
    const redco_param *params[2];
    const redco_layer_class *classes[2];
    const size_t count = redco_model_tensors(a, &params[0]);
    const size_t class_count = redco_model_classes(a, &classes[0]);
    assert_int_equal(redco_model_tensors(b, &params[1]), count);
    assert_int_equal(redco_model_classes(b, &classes[1]), class_count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(params[0][i].name, params[1][i].name);
        assert_int_equal(params[0][i].role, params[1][i].role);
        assert_memory_equal(params[0][i].shape, params[1][i].shape, sizeof params[0][i].shape);
        assert_int_equal(params[0][i].class_index, params[1][i].class_index);
        assert_int_equal(params[0][i].count, params[1][i].count);
    }
    for (size_t i = 0; i < class_count; i++) {
        assert_string_equal(classes[0][i].name, classes[1][i].name);
        assert_int_equal(classes[0][i].kind, classes[1][i].kind);
        assert_int_equal(classes[0][i].layers, classes[1][i].layers);
        assert_int_equal(classes[0][i].params, classes[1][i].params);
        assert_int_equal(classes[0][i].tensors, classes[1][i].tensors);
        assert_int_equal(classes[0][i].modules, classes[1][i].modules);
        assert_int_equal(classes[0][i].largest_tensor_params, classes[1][i].largest_tensor_params);
    }
    assert_int_equal(redco_model_params(a), redco_model_params(b));
    redco_model_dims dims[] = {*redco_model_get_dims(a), *redco_model_get_dims(b)};
    dims[0].dropout_open = dims[1].dropout_open; /* LLaMA has none; dimensions do not say */
    assert_memory_equal(&dims[0], &dims[1], sizeof dims[0]);
}

/* MPT-7B without its own norms' kind: 50432 x 4096 words, 32 blocks of 4 x 4096^2 + 2 x 4096 x 16384 + 2 x 4096, a
 * norm. */
static const redco_model_dims plain = {.hidden = 4096,
                                       .ffn = 16384,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = 32,
                                       .head_dim = 128,
                                       .vocab = 50432,
                                       .tied = true};

static void dimensions_are_a_config(void **state)
{
    redco_model *model = NULL, *again = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_model_from_dims(&plain, "MPT-7B", &model, &err), REDCO_OK);
    assert_string_equal(redco_model_type(model), "generic");
    assert_int_equal(redco_model_params(model), 206569472 + 32 * UINT64_C(201334784) + 4096);
    size_t size = 0;
    char *const text = redco_json_text(redco_model_config(model), 17, &size);
    assert_non_null(text);
    assert_int_equal(read_text(text, &again, &err), REDCO_OK);
    assert_string_equal(redco_model_name(again), "MPT-7B");
    assert_null(redco_model_warning(again, 0));
    same_models(model, again);
    assert_true(json_equal(redco_model_config(model), redco_model_config(again)));
    free(text);
    redco_model_free(again);
    redco_model_free(model);
}

/* With LLaMA's dimensions it is LLaMA, whose tensors are those of transformers. */
static void a_generic_model_has_the_tensors_of_llama(void **state)
{
    redco_model *model = NULL, *llama = NULL;
    (void)state;
    assert_int_equal(redco_model_read("llama-3-8b", &llama, NULL), REDCO_OK);
    assert_int_equal(redco_model_from_dims(redco_model_get_dims(llama), "x", &model, NULL), REDCO_OK);
    same_models(model, llama);
    redco_model_free(model);
    /* keys that may be absent: as many KV heads as heads, hidden / heads, gated, not tied */
    assert_int_equal(read_text("{\"model_type\":\"generic\",\"hidden_size\":4096,\"intermediate_size\":11008,"
                               "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"vocab_size\":32000}",
                               &model, NULL),
                     REDCO_OK);
    assert_int_equal(redco_model_params(model), 6738415616);
    redco_model_free(model);
    redco_model_free(llama);
}

static void dimensions_out_of_range_are_refused_as_in_a_file(void **state)
{
    redco_model *model = NULL;
    (void)state;
    for (int i = 0; i < 3; i++) {
        redco_model_dims dims = plain;
        redco_error err = {0};
        if (i == 0) { dims.hidden = 0; }
        if (i == 1) { dims.vocab = UINT64_C(1) << 40; }
        if (i == 2) { dims.kv_heads = 5; }
        assert_int_equal(redco_model_from_dims(&dims, "row", &model, &err), REDCO_EVALUE);
        assert_string_equal(err.place, i == 0   ? "row:/hidden_size"
                                       : i == 1 ? "row:/vocab_size"
                                                : "row:/num_key_value_heads");
        assert_non_null(strstr(err.text, i == 0   ? "is 0; a whole number from 1 to 1048576 is needed"
                                         : i == 1 ? "is 1099511627776; a whole number from 1 to 134217728"
                                                  : "num_key_value_heads = 5 must divide num_attention_heads = 32"));
    }
    redco_error err = {0};
    assert_int_equal(redco_model_from_dims(&plain, "\xff", &model, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "its name is no UTF-8 text");
    assert_null(model);
}

/* Layers of two windows in turn are two classes; their tensors keep the names of transformers. */
static void layers_that_differ_in_their_window_are_classes(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\":\"qwen2\",\"num_hidden_layers\":4,\"hidden_size\":32,\"intermediate_size\":48,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":96,\"sliding_window\":8,"
        "\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\",\"full_attention\","
        "\"sliding_attention\",\"sliding_attention\"]}";
    static const redco_layer_run order[] = {{0, 0, 1, 0}, {2, 0, 1, 0}, {1, 0, 1, 1}, {2, 1, 2, 2}, {3, 0, 1, 0}};
    const redco_layer_class *classes = NULL;
    const redco_layer_run *runs = NULL;
    redco_language_model *lm = NULL;
    redco_model *model = NULL;
    redco_error err = {0};
    assert_int_equal(read_text(text, &model, &err), REDCO_OK);
    assert_int_equal(redco_model_classes(model, &classes), 4);
    check_sums(model);
    assert_string_equal(classes[1].name, "full");
    assert_string_equal(classes[2].name, "window");
    assert_int_equal(classes[1].window, 0);
    assert_int_equal(classes[2].window, 8);
    assert_int_equal(classes[2].layers, 3);
    assert_int_equal(redco_model_order(model, &runs), sizeof order / sizeof order[0]);
    assert_memory_equal(runs, order, sizeof order);
    assert_int_equal(redco_language_model_create(model, 1, 16, &lm, &err), REDCO_OK);
    const redco_task *const task = redco_language_model_task(lm);
    static const char *const layers[] = {"window.0", "full.0", "window.1", "window.2"};
    uint32_t at = 0;
    for (size_t i = 0; i < task->parameter_count; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "model.layers.%u.self_attn.q_proj.weight", at);
        if (strcmp(task->parameters[i].name, name) != 0) { continue; }
        assert_string_equal(task->parameters[i].layer, layers[at++]);
    }
    assert_int_equal(at, 4);
    redco_language_model_free(lm);
    redco_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_are_a_config),
        cmocka_unit_test(a_generic_model_has_the_tensors_of_llama),
        cmocka_unit_test(dimensions_out_of_range_are_refused_as_in_a_file),
        cmocka_unit_test(presets_have_the_published_counts),
        cmocka_unit_test(presets_have_the_counts_of_transformers),
        cmocka_unit_test(hub_names_are_presets),
        cmocka_unit_test(absent_keys_take_the_defaults_of_transformers),
        cmocka_unit_test(tensors_are_those_of_transformers),
        cmocka_unit_test(t5_keeps_its_position_bias_in_the_embedding),
        cmocka_unit_test(dims_say_what_the_cost_model_needs),
        cmocka_unit_test(bad_configs_name_the_key),
        cmocka_unit_test(presets_are_known_by_their_hub),
        cmocka_unit_test(unknown_presets_list_the_nearest),
        cmocka_unit_test(the_name_comes_from_the_config),
        cmocka_unit_test(layers_that_differ_in_their_window_are_classes),
        cmocka_unit_test(misspelt_keys_are_told),
        cmocka_unit_test(sizes_that_are_left_out_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
