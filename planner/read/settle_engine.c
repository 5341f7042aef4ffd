/* Facts of files become options: precision, engine with its traits, overlap. */
#include "planner/read/read_facts.h"

#include <stdio.h>
#include <string.h>

/* "auto" of DeepSpeed is the Trainer's key, which the list has under the same target. */
static bool says_yes(const redco_reading *reading, const char *target)
{
    for (size_t i = 0; i < reading->fact_count; i++) {
        if (strcmp(reading->facts[i].target, target) == 0 && strcmp(reading->facts[i].value, "yes") == 0) {
            return true;
        }
    }
    return false;
}

static void settle_precision(redco_reading *reading)
{
    const char *const mixed = redcoi_value(reading, ".mixed-precision"), *const converters =
                                                                             redcoi_value(reading, ".converters");
    const char *const recipe = redcoi_value(reading, ".fp8-recipe");
    const bool bf16 = says_yes(reading, ".bf16") || says_yes(reading, ".pure-bf16"), fp16 = says_yes(reading, ".fp16");
    const bool open = redcoi_is(reading, ".bf16", "auto") || redcoi_is(reading, ".fp16", "auto") ||
                      (redcoi_value(reading, ".precision") == NULL && mixed == NULL);
    const char *value = NULL, *target = NULL;
    if (redcoi_is(reading, ".fp4", "yes")) {
        value = "nvfp4";
        target = ".fp4";
    } else if (redcoi_is(reading, ".fp8", "yes") || redcoi_is(reading, ".fp8-parameters", "yes")) {
        value = recipe != NULL ? recipe : "fp8";
        target = ".fp8";
    } else if (converters != NULL && (strstr(converters, "mx") != NULL || strstr(converters, "float8") != NULL)) {
        value = strstr(converters, "mx") != NULL ? "mxfp8" : "fp8";
        target = ".converters";
    } else if (bf16 || fp16) {
        value = bf16 ? "bf16" : "fp16";
        target = bf16 ? ".bf16" : ".fp16";
    } else if (mixed != NULL) {
        value = mixed;
        target = ".mixed-precision";
    } else if (redcoi_known(reading, ".loaded") != NULL && redcoi_said(reading, ".bf16") == NULL &&
               redcoi_said(reading, ".fp16") == NULL) {
        value = redcoi_known(reading, ".loaded");
        target = ".loaded";
        redcoi_assume(reading, "weights are trained in the type in which they are loaded, states of the optimizer are "
                               "priced in 32 bits");
    } else if (!open && !(redcoi_is(reading, ".launch", "deepspeed") && !redcoi_has_trainer(reading, "deepspeed"))) {
        value = redcoi_value(reading, ".precision");
    }
    if (value != NULL) {
        redcoi_set_option(reading, "precision", value, target);
    } else if (!redcoi_given(reading, "precision")) {
        redcoi_assume(reading, "bf16 (--precision): no key says it");
    }
}

static void settle_overlap(redco_reading *reading)
{
    char text[40] = "";
    size_t used = 0;
    static const char *const words[][2] = {{".overlap-ar", "ar"}, {".overlap-bc", "bc"}, {".overlap-tp", "tp"}};
    const bool all = redcoi_is(reading, ".fsdp-shards", "zero3") || redcoi_is(reading, ".fsdp-shards", "zero2");
    const bool flags = redcoi_is(reading, ".overlap", "flags") || redcoi_said(reading, ".overlap-ar") != NULL ||
                       redcoi_said(reading, ".overlap-bc") != NULL; /* an explicit "false" is one, too */
    if (!flags) {
        if (redcoi_is(reading, ".overlap-tp", "yes")) {
            redcoi_set_option(reading, "overlap", "ag_rs,ar,bc,tp", ".overlap-tp"); /* the engine's, and this */
        }
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!redcoi_is(reading, words[i][0], "yes")) { continue; }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? "," : "", words[i][1]);
    }
    if (all && redcoi_is(reading, ".overlap-bc", "yes")) {
        (void)snprintf(text + used, sizeof text - used, "%sag_rs", used > 0 ? "," : "");
    }
    redcoi_set_option(reading, "overlap", text[0] != '\0' ? text : "none", NULL);
}

/* The engine of the last file that means a trainer of its own; the Trainer's by its kind of data parallelism. */
static const char *engine_of(redco_reading *reading)
{
    const char *found = NULL;
    for (uint32_t g = 0; g < reading->group_count; g++) {
        if (reading->trainers[g] != NULL && reading->trainers[g]->engine != NULL) {
            found = reading->trainers[g]->engine;
        }
    }
    const char *const launch = redcoi_value(reading, ".launch");
    if (found != NULL) { return found; }
    if (launch != NULL && strcmp(launch, "megatron") == 0) { return "megatron-lm"; }
    if (redcoi_said(reading, ".zero") != NULL || (launch != NULL && strcmp(launch, "deepspeed") == 0)) {
        return "transformers-deepspeed";
    }
    if (redcoi_said(reading, ".optimizer-shards") != NULL) { return "megatron-lm"; }
    if (redcoi_said(reading, ".fsdp") != NULL || (launch != NULL && strcmp(launch, "fsdp") == 0)) {
        return "transformers-fsdp";
    }
    return "transformers-ddp";
}

void redcoi_settle_engine(redco_reading *reading)
{
    const char *const engine = engine_of(reading);
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", engine);
    settle_precision(reading);
    settle_overlap(reading);
    if (says_yes(reading, ".offload-parameters")) {
        redcoi_set_option(reading, "offload", "optimizer,parameters", ".offload-parameters");
    } else if (says_yes(reading, ".offload-optimizer")) {
        redcoi_set_option(reading, "offload", "optimizer", ".offload-optimizer");
    }
    for (size_t i = 0; i < reading->fact_count && used < sizeof text; i++) {
        const redcoi_fact *const fact = &reading->facts[i];
        bool later = false;
        for (size_t k = i + 1; k < reading->fact_count; k++) {
            later = later || strcmp(reading->facts[k].target, fact->target) == 0;
        }
        if (later || fact->row->means != REDCOI_MEANS_TRAIT || fact->value[0] == '\0' || fact->target[0] == '.') {
            continue;
        }
        const char *const value = redcoi_value(reading, fact->target);
        if (value == NULL) { continue; }
        used += (size_t)snprintf(text + used, sizeof text - used, ",%s=%s", fact->target, value);
    }
    (void)snprintf(reading->engine, sizeof reading->engine, "%s", text);
    redcoi_set_option(reading, "engine", text, NULL);
}
