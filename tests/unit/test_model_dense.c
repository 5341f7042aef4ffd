/* Parameters of dense families that are planned and not trained. Wanted: what their checkpoints hold, as the hub counts
 * them; beside each the sum by hand of V tokens, L layers, width h, heads of d, FFN f. Configs of other forms. */
#include "costmodel/models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static redco_model *must_read(const char *config)
{
    redco_json *document = NULL;
    redco_model *model = NULL;
    redco_error err = {0};
    assert_int_equal(redco_json_parse(config, strlen(config), "config.json", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    if (redco_model_from_json(&root, NULL, &model, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    redco_json_close(document);
    return model;
}

static void parameters_are_those_of_checkpoints(void **state)
{
    static const struct {
        const char *config;
        uint64_t checkpoint, by_hand;
    } rows[] = {
        /* gemma-2-9b: V h + L (q, o: 2 h 16 d; k, v: 2 h 8 d; FFN 3 h f; four norms) + h, tied */
        {"{\"model_type\":\"gemma2\",\"vocab_size\":256000,\"hidden_size\":3584,\"intermediate_size\":14336,"
         "\"num_hidden_layers\":42,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":256}",
         9241705984, 256000ULL * 3584 + 42ULL * (48ULL * 3584 * 256 + 3ULL * 3584 * 14336 + 4 * 3584) + 3584},
        /* gemma-3-1b-pt: likewise, with two norms of heads */
        {"{\"model_type\":\"gemma3_text\",\"vocab_size\":262144,\"hidden_size\":1152,\"intermediate_size\":6912,"
         "\"num_hidden_layers\":26,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256}",
         999885952, 262144ULL * 1152 + 26ULL * (10ULL * 1152 * 256 + 3ULL * 1152 * 6912 + 4 * 1152 + 2 * 256) + 1152},
        /* OLMo-2-1124-7B: 2 V h + L (4 h h + 3 h f; norms of queries, of keys and behind the two parts) + h */
        {"{\"model_type\":\"olmo2\",\"vocab_size\":100352,\"hidden_size\":4096,\"intermediate_size\":11008,"
         "\"num_hidden_layers\":32,\"num_attention_heads\":32}",
         7298617344, 2ULL * 100352 * 4096 + 32ULL * (4ULL * 4096 * 4096 + 3ULL * 4096 * 11008 + 4 * 4096) + 4096},
        /* granite-3.1-8b: LLaMA, tied */
        {"{\"model_type\":\"granite\",\"vocab_size\":49155,\"hidden_size\":4096,\"intermediate_size\":12800,"
         "\"num_hidden_layers\":40,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"tie_word_embeddings\":true}",
         8170848256, 49155ULL * 4096 + 40ULL * (80ULL * 4096 * 128 + 3ULL * 4096 * 12800 + 2 * 4096) + 4096},
        /* SmolLM3-3B */
        {"{\"model_type\":\"smollm3\"}", 3075098624,
         128256ULL * 2048 + 36ULL * (40ULL * 2048 * 128 + 3ULL * 2048 * 11008 + 2 * 2048) + 2048},
        /* starcoder2-3b: biases of all linears and norms, FFN of two matrices, tied */
        {"{\"model_type\":\"starcoder2\"}", 3030371328,
         49152ULL * 3072 +
             30ULL * (52ULL * 3072 * 128 + 24 * 128 + 4 * 128 + 3072 + 2ULL * 3072 * 12288 + 12288 + 3072 + 4 * 3072) +
             2ULL * 3072},
        /* falcon-7b: 71 heads of queries, one of keys; one norm with its bias */
        {"{\"model_type\":\"falcon\"}", 7217189760,
         2ULL * 65024 * 4544 + 32ULL * (4544ULL * 73 * 64 + 4544ULL * 4544 + 8ULL * 4544 * 4544 + 2 * 4544) + 2 * 4544},
        /* falcon-180b: 232 heads, 8 of keys, two norms */
        {"{\"model_type\":\"falcon\",\"hidden_size\":14848,\"num_hidden_layers\":80,\"num_attention_heads\":232,"
         "\"num_kv_heads\":8,\"new_decoder_architecture\":true}",
         179522565120,
         2ULL * 65024 * 14848 + 80ULL * (14848ULL * 248 * 64 + 9ULL * 14848 * 14848 + 4 * 14848) + 2 * 14848},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rows[i].checkpoint, rows[i].by_hand);
        redco_model *model = must_read(rows[i].config);
        if (redco_model_params(model) != rows[i].checkpoint) {
            fail_msg("%s: %llu", rows[i].config, (unsigned long long)redco_model_params(model));
        }
        redco_model_free(model);
    }
}

/* Layers with a window, by their classes. */
static void windows_alternate(void **state)
{
    static const struct {
        const char *config;
        uint32_t windowed, full;
    } rows[] = {{"{\"model_type\":\"gemma2\"}", 13, 13},
                {"{\"model_type\":\"gemma3_text\"}", 22, 4},
                {"{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":3,\"layer_types\":[\"full_attention\","
                 "\"sliding_attention\",\"full_attention\"]}",
                 1, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_model *model = must_read(rows[i].config);
        const redco_layer_class *classes = NULL;
        uint32_t windowed = 0, full = 0;
        const size_t count = redco_model_classes(model, &classes);
        for (size_t c = 0; c < count; c++) {
            if (!redco_class_is_block(classes[c].kind)) { continue; }
            *(classes[c].window > 0 ? &windowed : &full) += classes[c].layers;
        }
        assert_int_equal(windowed, rows[i].windowed);
        assert_int_equal(full, rows[i].full);
        redco_model_free(model);
    }
}

/* Meta's params.json of LLaMA 3 8B (14336 = 1.3 x 8/3 x 4096, up to 1024s), and of LLaMA 7B (11008). */
static void params_json_is_llama(void **state)
{
    (void)state;
    redco_model *model =
        must_read("{\"dim\":4096,\"n_layers\":32,\"n_heads\":32,\"n_kv_heads\":8,\"vocab_size\":128256,"
                  "\"multiple_of\":1024,\"ffn_dim_multiplier\":1.3,\"norm_eps\":1e-05,\"rope_theta\":500000.0}");
    assert_int_equal(redco_model_params(model), 8030261248);
    assert_int_equal(redco_model_get_dims(model)->ffn, 14336);
    redco_model_free(model);
    model = must_read("{\"dim\":4096,\"n_layers\":32,\"n_heads\":32,\"vocab_size\":32000,\"multiple_of\":256}");
    assert_int_equal(redco_model_params(model), 6738415616);
    redco_model_free(model);
    /* Mistral's: 7B */
    model = must_read("{\"dim\":4096,\"n_layers\":32,\"head_dim\":128,\"hidden_dim\":14336,\"n_heads\":32,"
                      "\"n_kv_heads\":8,\"norm_eps\":1e-05,\"vocab_size\":32000}");
    assert_int_equal(redco_model_params(model), 7241732096);
    redco_model_free(model);
}

/* SimuMax's: LLaMA 3 8B with its 128,257 words, Mixtral with experts as wide as the FFN (32 heads of keys, as it says),
 * DeepSeek-V3 less the biases of its router (58 x 256), which the other counts. */
static void simumax_is_generic(void **state)
{
    static const struct {
        const char *config;
        uint64_t params;
    } rows[] = {
        {"{\"model_type\":\"dense\",\"model_name\":\"llama3_8b\",\"hidden_size\":4096,\"head_num\":32,\"kv_head_num\":"
         "8,"
         "\"head_size\":128,\"intermediate_size\":14336,\"layer_num\":32,\"vocab_size\":128257,\"use_swiglu\":true}",
         8030261248 + 2 * 4096},
        {"{\"hidden_size\":4096,\"head_num\":32,\"kv_head_num\":32,\"head_size\":128,\"intermediate_size\":14336,"
         "\"layer_num\":32,\"expert_num\":8,\"topk\":2,\"vocab_size\":32000,\"use_swiglu\":true}",
         2ULL * 32000 * 4096 + 32ULL * (4ULL * 4096 * 4096 + 8ULL * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096) + 4096},
        {"{\"model_type\":\"moe\",\"attention_type\":\"mla\",\"hidden_size\":7168,\"head_num\":128,\"kv_head_num\":128,"
         "\"head_size\":128,\"intermediate_size\":18432,\"moe_ffn_hidden_size\":2048,"
         "\"moe_shared_expert_intermediate_size\":2048,\"layer_num\":61,\"dense_layers\":3,\"expert_num\":256,"
         "\"v_head_dim\":128,\"qk_head_dim\":128,\"qk_pos_emb_head_dim\":64,\"q_lora_rank\":1536,\"kv_lora_rank\":512,"
         "\"topk\":8,\"vocab_size\":129280,\"use_swiglu\":true}",
         671026404352},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_model *model = must_read(rows[i].config);
        assert_int_equal(redco_model_params(model), rows[i].params);
        assert_null(redco_model_warning(model, 0));
        redco_model_free(model);
    }
}

static void other_forms_say_what_is_read(void **state)
{
    (void)state;
    redco_model *model = must_read("{\"model_type\":\"gemma3\",\"vision_config\":{},\"text_config\":"
                                   "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":6}}");
    assert_int_equal(redco_model_get_dims(model)->layers, 6);
    bool said = false;
    for (size_t i = 0; redco_model_warning(model, i) != NULL; i++) {
        said = said || strstr(redco_model_warning(model, i), "\"text_config\" is read, and nothing beside it") != NULL;
    }
    assert_true(said);
    redco_model_free(model);
    model = must_read("{\"model_type\":\"helium\",\"hidden_size\":64,\"intermediate_size\":128,\"vocab_size\":100,"
                      "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"rms_norm_eps\":1e-6}");
    assert_string_equal(redco_model_type(model), "llama");
    assert_non_null(strstr(redco_model_warning(model, 0), "read as the nearest, llama"));
    redco_model_free(model);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *config, *place, *text;
    } rows[] = {
        {"{\"dim\":4096,\"n_layers\":32,\"n_heads\":32,\"vocab_size\":-1}", "config.json:/vocab_size", "tokenizer"},
        {"{\"dim\":4096,\"n_layers\":32,\"n_heads\":0,\"vocab_size\":9}", "config.json:/n_heads", "is 0"},
        {"{\"dim\":64,\"n_layers\":2,\"n_heads\":2,\"vocab_size\":9,\"moe\":{}}", "config.json:/moe", "config.json"},
        {"{\"model_type\":\"bert\",\"hidden_size\":8}", "config.json:/model_type", "generic states sizes alone"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_json *document = NULL;
        redco_model *model = NULL;
        redco_error err = {0};
        const char *config = rows[i].config;
        assert_int_equal(redco_json_parse(config, strlen(config), "config.json", &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_model_from_json(&root, NULL, &model, &err), REDCO_EVALUE);
        assert_string_equal(err.place, rows[i].place);
        if (strstr(err.text, rows[i].text) == NULL) { fail_msg("%s: %s", config, err.text); }
        redco_json_close(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_checkpoints),
        cmocka_unit_test(windows_alternate),
        cmocka_unit_test(params_json_is_llama),
        cmocka_unit_test(simumax_is_generic),
        cmocka_unit_test(other_forms_say_what_is_read),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
