/* An engine's file and an engine as plans embed it: what is accepted says what it offers, and each of its traits is a
 * word that is accepted again. */
#include "costmodel/engines/engine.h"

#include <stdlib.h>
#include <string.h>

static void check_choice(const redco_engine_choice *choice, redco_precision precision)
{
    redco_engine_choice again = {.bucket_bytes = 0}, stated = *choice;
    json_t *const json = redco_engine_describe(choice, precision);
    if (json == NULL) { abort(); }
    const redco_json_value value = redco_json_wrap(json, "again");
    if (redco_engine_from_json(&value, &again, NULL) != REDCO_OK) { abort(); }
    if (strcmp(again.engine.name, choice->engine.name) != 0 || again.engine.stated != choice->engine.stated ||
        again.bucket_bytes != choice->bucket_bytes) {
        abort();
    }
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        char text[64], other[64];
        (void)redco_engine_trait(choice, precision, (redco_trait)t, text, sizeof text);
        if (strcmp(text, redco_engine_trait(&again, precision, (redco_trait)t, other, sizeof other)) != 0) { abort(); }
        if (t == REDCO_TRAIT_MEMORY || (t == REDCO_TRAIT_SOFTWARE && text[0] == '\0')) { continue; }
        if (redco_engine_state(&stated, redco_trait_words[t], text, "again", NULL) != REDCO_OK) { abort(); }
    }
    json_decref(json);
}

static void check_file(const redco_engine_file *file)
{
    if (file->engine.name[0] == '\0' || file->title[0] == '\0' || file->recompute.count == 0 || file->states == 0 ||
        file->dimensions == 0 || !(file->inter_tensor || file->intra_tensor) || file->engine.stated != 0 ||
        file->measured_count > REDCO_ENGINE_GPUS || file->calibration_count > REDCO_ENGINE_SETS) {
        abort();
    }
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        if (file->sources[t][0] == '\0') { abort(); }
    }
    for (int p = REDCO_BF16; p <= REDCO_FP32; p++) {
        const redco_engine_choice choice = redco_engine_choose(file, (redco_precision)p);
        check_choice(&choice, (redco_precision)p);
    }
    (void)redco_engine_measured_on(file, "A100-SXM4-80GB");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_engine_file file;
    redco_engine_choice choice;
    redco_error err = {0};
    if (redco_json_parse((const char *)data, size, "engine", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_engine_file_from_json(&root, &file, &err) == REDCO_OK) {
        check_file(&file);
    } else if (err.status == REDCO_OK || err.text[0] == '\0') {
        abort();
    }
    redco_error_clear(&err);
    if (redco_engine_from_json(&root, &choice, &err) == REDCO_OK) {
        check_choice(&choice, REDCO_BF16);
    } else if (err.status == REDCO_OK || err.text[0] == '\0') {
        abort();
    }
    redco_json_close(document);
    return 0;
}
