#include "planner/read/read.h"

#include "planner/read/read_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Targets without which the layout is another. */
static bool shards(const char *target)
{
    return strcmp(target, ".zero") == 0 || strcmp(target, ".fsdp") == 0 || strcmp(target, ".fsdp-shards") == 0;
}

static bool is_stage(const char *name)
{
    static const char *const stages[] = {"zero0", "zero1", "zero2", "zero3"};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        if (strcmp(name, stages[i]) == 0) { return true; }
    }
    return false;
}

/* A key that the files' tables have: a fact, or a line of a list. */
static void take(redco_reading *reading, size_t index, uint32_t group, const redcoi_trainer *trainer,
                 const redcoi_trainer_key *row)
{
    const redcoi_setting *const setting = &reading->settings.items[index];
    char place[300], value[REDCOI_FACT_TEXT];
    const char *const said = setting->given || setting->origin == REDCOI_OF_ARGUMENT ? setting->value : "";
    const char *const text = !setting->given && setting->origin == REDCOI_OF_ARGUMENT ? "true" : said;
    (void)redcoi_setting_place(&reading->settings, setting->file, setting->line, place, sizeof place);
    if (row->means == REDCOI_MEANS_HARMLESS) {
        redcoi_list_add(reading, REDCO_READ_HARMLESS, setting->key, said, place, "");
        return;
    }
    const bool nothing = !setting->given && setting->origin != REDCOI_OF_ARGUMENT; /* null */
    const bool none = nothing && row->values != NULL && strstr(row->values, "None=") != NULL;
    const bool known =
        nothing && !none ? (value[0] = '\0', true) : redcoi_key_value(row, none ? "None" : text, value, sizeof value);
    if (!known && setting->needs == NULL && shards(row->target)) {
        reading->status =
            redcoi_setting_fail(&reading->settings, setting, reading->err,
                                "%.80s: \"%.40s\" says nothing of how states are sharded that redco knows: %.120s",
                                setting->key, text, row->values);
        return;
    }
    if (row->means == REDCOI_MEANS_LIMIT || (!known && setting->needs == NULL)) {
        const bool harmless = row->means == REDCOI_MEANS_LIMIT && (value[0] == '\0' || nothing) && known;
        redcoi_list_add(reading, harmless ? REDCO_READ_HARMLESS : REDCO_READ_NOT_UNDERSTOOD, setting->key, said, place,
                        harmless                           ? ""
                        : row->means == REDCOI_MEANS_LIMIT ? row->target
                                                           : "no value that redco knows of this key");
        return;
    }
    redcoi_list_add(reading, REDCO_READ_UNDERSTOOD, setting->key, said, place, row->target);
    if (row->means == REDCOI_MEANS_ENGINE) { return; }
    if (reading->fact_count == REDCOI_MOST_FACTS) { return; }
    redcoi_fact *const fact = &reading->facts[reading->fact_count++];
    if (strcmp(row->target, ".file") == 0 && strcmp(value, "true") == 0) { /* --deepspeed alone: its launcher's */
        *fact = (redcoi_fact){.target = ".launch", .setting = index, .row = row, .trainer = trainer, .group = group};
        (void)snprintf(fact->value, sizeof fact->value, "deepspeed");
        return;
    }
    const bool stage = strcmp(row->target, ".file") == 0 && is_stage(value); /* a file that ms-swift brings along */
    *fact = (redcoi_fact){
        .target = stage ? ".zero" : row->target, .setting = index, .row = row, .trainer = trainer, .group = group};
    (void)snprintf(fact->value, sizeof fact->value, "%s",
                   stage && strcmp(value, "zero0") == 0 ? "ddp"
                   : known                              ? value
                                                        : text);
}

/* Two files that say different things of the same. Inside of one the later goes before the earlier, as in trainers. */
static void check_contradictions(redco_reading *reading)
{
    for (size_t i = 0; i < reading->fact_count && reading->status == REDCO_OK; i++) {
        for (size_t k = i + 1; k < reading->fact_count && reading->status == REDCO_OK; k++) {
            const redcoi_fact *const a = &reading->facts[i], *const b = &reading->facts[k];
            if (a->group == b->group || strcmp(a->target, b->target) != 0 || strcmp(a->value, b->value) == 0) {
                continue;
            }
            if (a->value[0] == '\0' || b->value[0] == '\0' || strcmp(a->value, "auto") == 0 ||
                strcmp(b->value, "auto") == 0) {
                continue;
            }
            if (a->trainer->variables && b->trainer->variables) { continue; } /* a later script sets them anew */
            if (strcmp(a->target, ".file") == 0 || strcmp(a->target, ".launch") == 0) { continue; }
            const redcoi_setting *const first = &reading->settings.items[a->setting];
            const redcoi_setting *const second = &reading->settings.items[b->setting];
            char place[300];
            (void)redcoi_setting_place(&reading->settings, first->file, first->line, place, sizeof place);
            reading->status = redcoi_setting_fail(&reading->settings, second, reading->err,
                                                  "%.80s is %.60s, but %.120s says %.60s: %.80s", second->key,
                                                  second->value, place, first->value, first->key);
        }
    }
}

static void take_file(redco_reading *reading, size_t first, uint32_t group)
{
    const redcoi_trainer *const trainer = reading->trainers[group];
    bool launched = false;
    for (size_t i = first; i < reading->settings.count && reading->status == REDCO_OK; i++) {
        const redcoi_setting *const setting = &reading->settings.items[i];
        char place[300];
        if (setting->origin == REDCOI_OF_VARIABLE && (trainer == NULL || !trainer->variables)) { continue; }
        const bool batch = setting->origin == REDCOI_OF_BATCH;
        const redcoi_trainer_key *row = trainer != NULL && !batch ? redcoi_key_of(trainer, setting->key) : NULL;
        const redcoi_trainer_key *const launch =
            batch || setting->origin == REDCOI_OF_ARGUMENT ? redcoi_key_of(&redcoi_launcher, setting->key) : NULL;
        if (row == NULL && launch != NULL) {
            take(reading, i, group, &redcoi_launcher, launch);
            launched = true;
        } else if (row != NULL) {
            take(reading, i, group, trainer, row);
        } else {
            (void)redcoi_setting_place(&reading->settings, setting->file, setting->line, place, sizeof place);
            redcoi_list_add(reading, REDCO_READ_NOT_UNDERSTOOD, setting->key, setting->value, place, "");
        }
    }
    if (trainer == NULL && !launched && reading->status == REDCO_OK) {
        char words[200] = "";
        for (size_t i = 0; redcoi_trainers[i] != NULL; i++) {
            const size_t used = strlen(words);
            (void)snprintf(words + used, sizeof words - used, "%s%s", used > 0 ? ", " : "", redcoi_trainers[i]->word);
        }
        reading->status =
            redco_fail(reading->err, REDCO_EVALUE, reading->question->paths[group],
                       "has no key of a trainer that redco reads; --read-as says which it is of: %s", words);
    }
}

static const redcoi_trainer *trainer_named(const char *word)
{
    for (size_t i = 0; redcoi_trainers[i] != NULL; i++) {
        if (strcmp(redcoi_trainers[i]->word, word) == 0) { return redcoi_trainers[i]; }
    }
    return NULL;
}

static void read_one(redco_reading *reading, const char *path, const char *as)
{
    const size_t first = reading->settings.count;
    const uint32_t index = reading->settings.file_count;
    const uint32_t group = reading->group_count;
    if (group == REDCO_READ_FILES) {
        reading->status = redco_fail(reading->err, REDCO_EVALUE, path, "more than %d files", REDCO_READ_FILES);
        return;
    }
    reading->status = redcoi_read_file(&reading->settings, path, reading->err);
    if (reading->status != REDCO_OK) { return; }
    reading->arguments[group] = reading->settings.files[index].form == REDCOI_FORM_SHELL;
    reading->group_count++;
    reading->trainers[group] =
        as != NULL ? trainer_named(as) : redcoi_trainer_of(&reading->settings, first, reading->settings.count - first);
    take_file(reading, first, group);
}

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A file that another one names: it is among those given, or lies beside. */
static void follow_files(redco_reading *reading)
{
    for (size_t i = 0; i < reading->fact_count && reading->status == REDCO_OK; i++) {
        const redcoi_fact *const fact = &reading->facts[i];
        if (strcmp(fact->target, ".file") != 0 || fact->value[0] == '\0') { continue; }
        const redcoi_setting *const setting = &reading->settings.items[fact->setting];
        const char *const name = base_name(fact->value), *const own = reading->settings.files[setting->file].path;
        char path[600];
        bool there = false;
        for (uint32_t f = 0; f < reading->settings.file_count; f++) {
            there = there || strcmp(base_name(reading->settings.files[f].path), name) == 0;
        }
        (void)snprintf(path, sizeof path, "%.*s%.200s", (int)(base_name(own) - own), own, name);
        const bool others = reading->question->count > 1;
        if (there) { continue; }
        if (setting->needs == NULL && access(path, R_OK) == 0) {
            read_one(reading, path, NULL);
        } else if (others || redcoi_given(reading, "strategy") || redcoi_given(reading, "zero") ||
                   redcoi_given(reading, "fix")) {
            redcoi_assume(reading, "%.100s is not read: %s", name,
                          others ? "other files are given" : "the command line says how states are sharded");
        } else {
            char text[300];
            (void)snprintf(text, sizeof text, "%.120s says how states are sharded: give it with another --read",
                           fact->value);
            (void)redcoi_fact_fail(reading, fact, text);
        }
    }
}

static const char *const fsdp_ways[][2] = {{"hybrid_shard_zero2", "hybrid-zero2"},
                                           {"hybrid_shard", "mics"},
                                           {"full_shard", "zero3"},
                                           {"shard_grad_op", "zero2"},
                                           {"no_shard", "ddp"},
                                           {"true", "zero3"},
                                           {NULL, NULL}};

/* The Trainer's --fsdp "full_shard auto_wrap". */
static void follow_words(redco_reading *reading)
{
    const redcoi_fact *const fact = redcoi_said(reading, ".fsdp-words");
    if (fact == NULL || fact->value[0] == '\0' || reading->fact_count == REDCOI_MOST_FACTS) { return; }
    for (size_t i = 0; fsdp_ways[i][0] != NULL; i++) {
        if (strcasestr(fact->value, fsdp_ways[i][0]) == NULL) { continue; }
        redcoi_fact *const more = &reading->facts[reading->fact_count++];
        *more = *fact;
        more->target = ".fsdp";
        (void)snprintf(more->value, sizeof more->value, "%s", fsdp_ways[i][1]);
        break;
    }
    if (strstr(fact->value, "offload") != NULL && reading->fact_count < REDCOI_MOST_FACTS) {
        redcoi_fact *const more = &reading->facts[reading->fact_count++];
        *more = *fact;
        more->target = ".offload-parameters";
        (void)snprintf(more->value, sizeof more->value, "yes");
    }
}

static void make_title(redco_reading *reading)
{
    size_t used = 0;
    for (uint32_t g = 0; g < reading->group_count && used < sizeof reading->title; g++) {
        if (reading->trainers[g] == NULL) { continue; }
        used += (size_t)snprintf(reading->title + used, sizeof reading->title - used, "%s%s", used > 0 ? ", " : "",
                                 reading->trainers[g]->title);
    }
}

static void list_remarks(redco_reading *reading)
{
    for (size_t i = 0; i < reading->settings.remark_count; i++) {
        const redcoi_remark *const remark = &reading->settings.remarks[i];
        char place[300];
        redcoi_list_add(reading, REDCO_READ_NOT_UNDERSTOOD, "", "",
                        redcoi_setting_place(&reading->settings, remark->file, remark->line, place, sizeof place),
                        remark->text);
    }
}

redco_status redco_read(const redco_read_question *question, redco_reading **reading_out, redco_error *err)
{
    redco_reading *const reading = calloc(1, sizeof *reading);
    if (reading == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    reading->question = question;
    reading->err = err;
    reading->settings.changed = question->changed;
    reading->settings.changed_text = question->changed_text;
    reading->settings.changed_size = question->changed_size;
    for (uint32_t i = 0; i < question->count && reading->status == REDCO_OK; i++) {
        read_one(reading, question->paths[i], question->as);
    }
    if (reading->status == REDCO_OK) { follow_files(reading); }
    if (reading->status == REDCO_OK) { follow_words(reading); }
    if (reading->status == REDCO_OK) { redcoi_follow_mesh(reading); }
    if (reading->status == REDCO_OK) { check_contradictions(reading); }
    if (reading->status == REDCO_OK) { redcoi_settle(reading); }
    make_title(reading);
    list_remarks(reading);
    const redco_status st = reading->status;
    reading->question = NULL;
    reading->err = NULL;
    if (st != REDCO_OK) {
        redco_reading_free(reading);
        return st;
    }
    *reading_out = reading;
    return REDCO_OK;
}

static void free_text(const char *text)
{
    free((void *)(uintptr_t)text);
}

void redco_reading_free(redco_reading *reading)
{
    if (reading == NULL) { return; }
    for (size_t i = 0; i < reading->option_count; i++) {
        const redco_read_option *const one = &reading->options[i];
        const char *const texts[] = {one->option, one->value, one->place, one->key, one->text};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) { free_text(texts[k]); }
    }
    for (int list = 0; list < REDCO_READ_LISTS; list++) {
        for (size_t i = 0; i < reading->list_counts[list]; i++) {
            const redco_read_item *const item = &reading->lists[list][i];
            free(item->key);
            free(item->value);
            free(item->place);
            free(item->what);
        }
        free(reading->lists[list]);
    }
    redcoi_settings_free(&reading->settings);
    json_decref(reading->model);
    free(reading->options);
    free(reading);
}

size_t redco_reading_options(const redco_reading *reading, const redco_read_option **options_out)
{
    *options_out = reading->options;
    return reading->option_count;
}

size_t redco_reading_list(const redco_reading *reading, redco_read_list list, const redco_read_item **items_out)
{
    *items_out = reading->lists[list];
    return reading->list_counts[list];
}

const json_t *redco_reading_model(const redco_reading *reading)
{
    return reading->model;
}

const char *redco_reading_title(const redco_reading *reading)
{
    return reading->title;
}

/* Keys that only a trainer with an engine of its own has for itself: the table of transformers' Trainer holds them for
 * LlamaFactory's way to Megatron Core. */
static bool of_trainer(const char *target)
{
    static const char *const own[] = {"micro-batch", ".accumulation", ".checkpointing", ".zero", ".fsdp"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(own[i], target) == 0) { return true; }
    }
    return false;
}

bool redco_reading_said(const redco_reading *reading, const char *target)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    return fact != NULL && fact->value[0] != '\0';
}

/* The Trainer's words for a way to shard, with those that stand beside it. */
static bool fsdp_words(const char *value, const char *before, char *out, size_t size)
{
    for (size_t i = 0; fsdp_ways[i][0] != NULL; i++) {
        if (strcmp(fsdp_ways[i][1], value) != 0 || strcmp(fsdp_ways[i][0], "true") == 0) { continue; }
        (void)snprintf(out, size, "%s%s", fsdp_ways[i][0], strstr(before, "auto_wrap") != NULL ? " auto_wrap" : "");
        return true;
    }
    return false;
}

bool redco_reading_words(const redco_reading *reading, const char *target, const char *value, redco_words *words_out)
{
    const redcoi_fact *const said = redcoi_said(reading, target);
    const redcoi_setting *const setting = said != NULL ? &reading->settings.items[said->setting] : NULL;
    if (said != NULL && strcmp(said->row->target, ".fsdp-words") == 0) {
        redcoi_written_key(setting, words_out->key, sizeof words_out->key);
        (void)snprintf(words_out->from, sizeof words_out->from, "%.90s", setting->value);
        return fsdp_words(value, setting->value, words_out->to, sizeof words_out->to);
    }
    if (said != NULL) {
        redcoi_written_key(setting, words_out->key, sizeof words_out->key);
        (void)snprintf(words_out->from, sizeof words_out->from, "%.90s", setting->value);
        return redcoi_key_text(said->row, value, words_out->to, sizeof words_out->to);
    }
    for (uint32_t g = 0; g < reading->group_count; g++) {
        if (reading->trainers[g] == NULL) { continue; }
        const redcoi_trainer_key *const row =
            redcoi_key_for(reading->trainers[g], target, value, words_out->to, sizeof words_out->to);
        if (row == NULL || (reading->trainers[g]->engine == NULL && !of_trainer(target))) { continue; }
        char name[REDCOI_MOST_KEY_NAME];
        (void)redcoi_key_name(reading->trainers[g], row, name, sizeof name);
        (void)snprintf(words_out->key, sizeof words_out->key, "%s%.90s",
                       reading->arguments[g] && strchr(name, '.') == NULL ? "--" : "", name);
        words_out->from[0] = '\0';
        return true;
    }
    return false;
}

bool redco_key_same(const char *written, const char *key)
{
    const char *const bare = written + strspn(written, "-"), *const own = key + strspn(key, "-");
    const size_t length = strlen(bare), tail = strlen(own);
    const bool whole = length == tail ||
                       (length > tail && strchr("._-", bare[length - tail - 1]) != NULL && strchr(bare, '.') != NULL);
    return length >= tail && whole && redcoi_key_matches(own, bare + length - tail);
}

static json_t *items_json(const redco_reading *reading, redco_read_list list)
{
    json_t *const rows = json_array();
    for (size_t i = 0; i < reading->list_counts[list]; i++) {
        const redco_read_item *const item = &reading->lists[list][i];
        if (list == REDCO_READ_ASSUMED) {
            (void)json_array_append_new(rows, json_string(item->what));
            continue;
        }
        json_t *const row = json_object();
        if (item->key[0] != '\0') {
            (void)json_object_set_new(row, "key", json_string(item->key));
            (void)json_object_set_new(row, "value", json_string(item->value));
        }
        (void)json_object_set_new(row, "place", json_string(item->place));
        if (list != REDCO_READ_HARMLESS) { (void)json_object_set_new(row, "what", json_string(item->what)); }
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

json_t *redco_reading_json(const redco_reading *reading)
{
    json_t *const files = json_array(), *const options = json_array();
    for (uint32_t f = 0; f < reading->settings.file_count; f++) {
        (void)json_array_append_new(files, json_string(reading->settings.files[f].path));
    }
    for (size_t i = 0; i < reading->option_count; i++) {
        const redco_read_option *const one = &reading->options[i];
        json_t *const row = json_pack("{s:s,s:s}", "option", one->option, "value", one->value);
        if (one->place != NULL) {
            (void)json_object_set_new(row, "key", json_string(one->key));
            (void)json_object_set_new(row, "place", json_string(one->place));
        }
        (void)json_array_append_new(options, row);
    }
    return json_pack("{s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "files", files, "trainer", reading->title, "engine",
                     reading->engine, "options", options, "understood", items_json(reading, REDCO_READ_UNDERSTOOD),
                     "harmless", items_json(reading, REDCO_READ_HARMLESS), "not_understood",
                     items_json(reading, REDCO_READ_NOT_UNDERSTOOD), "assumed",
                     items_json(reading, REDCO_READ_ASSUMED));
}

const char *const *redco_read_kinds(void)
{
    static const char *words[REDCOI_TRAINERS_MOST + 1];
    for (size_t i = 0; redcoi_trainers[i] != NULL && i < REDCOI_TRAINERS_MOST; i++) {
        words[i] = redcoi_trainers[i]->word;
    }
    return words;
}
