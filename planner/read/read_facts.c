#include "planner/read/read_facts.h"

#include "topology/base/number.h"
#include "topology/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The option of redco-plan that gives what a fact would: it is asked for where only a run knows. */
static const struct asked {
    const char *target, *option;
} asked[] = {{"gpus", "gpus"},
             {".nodes", "gpus"},
             {".gpus-per-node", "gpus"},
             {".machines", "gpus"},
             {".batch-nodes", "gpus"},
             {".batch-gpus", "gpus"},
             {".accumulation", "global-batch"},
             {".file", "strategy"},
             {".zero", "zero"},
             {".fsdp", "strategy"},
             {".dp-shard", "fix"},
             {".dp-replicate", "fix"},
             {".recompute", "recompute"},
             {".checkpointing", "recompute"},
             {".bf16", "precision"},
             {".fp16", "precision"},
             {".mixed-precision", "precision"},
             {".flavor", "model"},
             {".family", "model"}};

static const char *option_of(const char *target)
{
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (strcmp(asked[i].target, target) == 0) { return asked[i].option; }
    }
    return target[0] == '.' ? NULL : target;
}

const redcoi_fact *redcoi_said(const redco_reading *reading, const char *target)
{
    const redcoi_fact *empty = NULL;
    for (size_t i = reading->fact_count; i > 0; i--) {
        const redcoi_fact *const fact = &reading->facts[i - 1];
        if (strcmp(fact->target, target) != 0) { continue; }
        if (fact->value[0] != '\0') { return fact; }
        empty = empty == NULL ? fact : empty; /* "auto": another file says it */
    }
    return empty;
}

static const char *default_of(const redco_reading *reading, const char *target)
{
    for (uint32_t g = 0; g < reading->group_count; g++) {
        const redcoi_trainer *const trainer = reading->trainers[g];
        const char *const *const list = trainer != NULL ? trainer->defaults : NULL;
        for (size_t i = 0; list != NULL && list[i] != NULL; i += 2) {
            if (strcmp(list[i], target) == 0 && list[i + 1][0] != '\0') { return list[i + 1]; }
        }
    }
    return NULL;
}

const char *redcoi_value(redco_reading *reading, const char *target)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    if (fact == NULL || fact->value[0] == '\0') { return default_of(reading, target); }
    const redcoi_setting *const setting = &reading->settings.items[fact->setting];
    const char *const option = option_of(target);
    if (setting->needs != NULL && reading->status == REDCO_OK) {
        if (option != NULL && redcoi_given(reading, option)) { return NULL; }
        const char *const dollar = setting->needs[0] == '$' || setting->needs[0] == '{' ? "" : "$";
        char text[120];
        if (option == NULL) {
            (void)snprintf(text, sizeof text, "%.60s", setting->key);
        } else {
            (void)snprintf(text, sizeof text, "--%s", option);
        }
        reading->status =
            redcoi_setting_fail(&reading->settings, setting, reading->err,
                                "%s is needed: %s%.60s is not set in the file", text, dollar, setting->needs);
        return NULL;
    }
    return fact->value;
}

const char *redcoi_known(const redco_reading *reading, const char *target)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    return fact != NULL && reading->settings.items[fact->setting].needs == NULL && fact->value[0] != '\0' ? fact->value
                                                                                                          : NULL;
}

const char *redcoi_whole_text(const redco_reading *reading, const char *target)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    const redcoi_setting *const setting = fact != NULL ? &reading->settings.items[fact->setting] : NULL;
    return setting != NULL && setting->given && setting->needs == NULL ? setting->value : NULL;
}

bool redcoi_given(const redco_reading *reading, const char *option)
{
    return reading->question->given != NULL && reading->question->given(reading->question->context, option);
}

redco_status redcoi_fact_fail(redco_reading *reading, const redcoi_fact *fact, const char *what)
{
    if (reading->status != REDCO_OK) { return reading->status; }
    const redcoi_setting *const setting = &reading->settings.items[fact->setting];
    reading->status = redcoi_setting_fail(&reading->settings, setting, reading->err, "%.80s: %s", setting->key, what);
    return reading->status;
}

uint64_t redcoi_fact_number(redco_reading *reading, const char *target, uint64_t other)
{
    const char *const value = redcoi_value(reading, target);
    uint64_t number = other;
    if (value == NULL) { return other; }
    if (!redco_whole_parse(value, 1, (uint64_t)1 << 40, &number)) {
        const redcoi_fact *const fact = redcoi_said(reading, target);
        char text[160];
        (void)snprintf(text, sizeof text, "\"%.60s\" is no whole number from 1", value);
        if (fact != NULL) { (void)redcoi_fact_fail(reading, fact, text); }
        return other > 0 ? other : 1;
    }
    return number;
}

bool redcoi_is(redco_reading *reading, const char *target, const char *value)
{
    const char *const said = redcoi_value(reading, target);
    return said != NULL && strcmp(said, value) == 0;
}

bool redcoi_has_trainer(const redco_reading *reading, const char *word)
{
    for (uint32_t g = 0; g < reading->group_count; g++) {
        if (reading->trainers[g] != NULL && strcmp(reading->trainers[g]->word, word) == 0) { return true; }
    }
    return false;
}

static void no_memory(redco_reading *reading)
{
    if (reading->status == REDCO_OK) { reading->status = redco_fail(reading->err, REDCO_ENOMEM, "", "out of memory"); }
}

static char *copy(redco_reading *reading, const char *text)
{
    char *const made = strdup(text);
    if (made == NULL) { no_memory(reading); }
    return made;
}

void redcoi_written_key(const redcoi_setting *setting, char *out, size_t size)
{
    const bool dashes = setting->origin == REDCOI_OF_ARGUMENT && strchr(setting->key, '.') == NULL;
    (void)snprintf(out, size, "%s%.120s",
                   dashes                               ? "--"
                   : setting->origin == REDCOI_OF_BATCH ? "#SBATCH "
                                                        : "",
                   setting->key);
}

void redcoi_set_option(redco_reading *reading, const char *option, const char *value, const char *target)
{
    const redcoi_fact *const fact = target != NULL ? redcoi_said(reading, target) : NULL;
    if (reading->status != REDCO_OK || redcoi_given(reading, option)) { return; }
    redco_read_option *const more = realloc(reading->options, (reading->option_count + 1) * sizeof *reading->options);
    if (more == NULL) {
        no_memory(reading);
        return;
    }
    reading->options = more;
    redco_read_option *const one = &reading->options[reading->option_count++];
    *one = (redco_read_option){.option = copy(reading, option), .value = copy(reading, value)};
    if (fact == NULL) { return; }
    const redcoi_setting *const setting = &reading->settings.items[fact->setting];
    char place[300], key[140];
    redcoi_written_key(setting, key, sizeof key);
    one->place =
        copy(reading, redcoi_setting_place(&reading->settings, setting->file, setting->line, place, sizeof place));
    one->key = copy(reading, key);
    one->text = copy(reading, setting->value);
}

void redcoi_set_number(redco_reading *reading, const char *option, uint64_t value, const char *target)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    redcoi_set_option(reading, option, text, target);
}

void redcoi_list_add(redco_reading *reading, redco_read_list list, const char *key, const char *value,
                     const char *place, const char *what)
{
    if (reading->status != REDCO_OK) { return; }
    redco_read_item *const more =
        realloc(reading->lists[list], (reading->list_counts[list] + 1) * sizeof *reading->lists[list]);
    if (more == NULL) {
        no_memory(reading);
        return;
    }
    reading->lists[list] = more;
    redco_read_item *const item = &more[reading->list_counts[list]++];
    *item = (redco_read_item){copy(reading, key), copy(reading, value), copy(reading, place), copy(reading, what)};
    char *const texts[] = {item->key, item->value, item->place, item->what};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != NULL) { redco_text_clean(texts[i]); }
    }
}

void redcoi_assume(redco_reading *reading, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redcoi_list_add(reading, REDCO_READ_ASSUMED, "", "", "", text);
}

const redco_read_option *redco_reading_option(const redco_reading *reading, const char *option)
{
    for (size_t i = 0; i < reading->option_count; i++) {
        if (strcmp(reading->options[i].option, option) == 0) { return &reading->options[i]; }
    }
    return NULL;
}
