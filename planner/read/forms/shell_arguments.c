/* The command of a script that trains: its arguments become settings, and so do variables and #SBATCH lines. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]) != 0;
}

/* "-m", "-N", and no negative number. */
static bool is_letter(const char *word)
{
    return word[0] == '-' && isalpha((unsigned char)word[1]) != 0;
}

/* "model.tp=8" or "++trainer.devices=8": an override of Hydra's kind. @return bytes of the key, 0: it is none */
static size_t override_key(const char *word)
{
    size_t at = strspn(word, "+~");
    const size_t from = at;
    if (isalpha((unsigned char)word[at]) == 0) { return 0; }
    while (isalnum((unsigned char)word[at]) != 0 || strchr("_.", word[at]) != NULL) {
        if (word[at] == '\0') { return 0; }
        at++;
    }
    return word[at] == '=' && at > from ? at : 0;
}

/* The words of a command; those that hold several ("--fp8-format hybrid") are taken apart. */
static void flatten(redcoi_shell *shell, const redcoi_words *words, redcoi_words *out)
{
    for (size_t i = 0; i < words->count && shell->status == REDCO_OK; i++) {
        const redcoi_text *const word = &words->items[i];
        const char *const bytes = redcoi_text_of(word);
        const bool several = word->size > 0 && strpbrk(bytes, " \t\n") != NULL &&
                             (is_option(bytes) || strstr(bytes, " --") != NULL || strstr(bytes, "\n--") != NULL);
        size_t at = 0;
        while (at < word->size || (at == 0 && word->size == 0)) {
            size_t end = at;
            redcoi_text part = {.size = 0};
            while (end < word->size && !(several && isspace((unsigned char)bytes[end]) != 0)) { end++; }
            if (end > at) {
                const redcoi_text view = {word->bytes + at, word->from + at, end - at, 0};
                redcoi_text_join(shell, &part, &view);
            }
            if (!(several && end == at) && !(several && end - at == 1 && bytes[at] == '\\')) {
                redcoi_words_add(shell, out, &part);
            }
            redcoi_text_free(&part);
            at = end + 1;
        }
    }
}

static size_t count_options(const redcoi_words *words)
{
    size_t count = 0;
    for (size_t i = 0; i < words->count; i++) {
        const char *const bytes = redcoi_text_of(&words->items[i]);
        count += is_option(bytes) || (override_key(bytes) > 0 && strchr(bytes, '.') != NULL) ? 1 : 0;
        for (const char *c = bytes; (c = strstr(c, " --")) != NULL; c++) { count++; }
    }
    return count;
}

/* A text as it is shown: marks become "$NAME". */
static redcoi_text shown(redcoi_shell *shell, const redcoi_text *text)
{
    redcoi_text out = {.size = 0};
    for (size_t i = 0; i < text->size; i++) {
        const char c = text->bytes[i];
        const bool command = i + 1 < text->size && text->bytes[i + 1] == '$';
        if (c == REDCOI_UNKNOWN) {
            if (!command) { redcoi_text_add(shell, &out, "$", 1, REDCOI_NO_PLACE); }
        } else if (c == REDCOI_FOLDER) {
            redcoi_text_add(shell, &out, ".", 1, REDCOI_NO_PLACE);
        } else if (c != REDCOI_UNKNOWN_END) {
            redcoi_text_add(shell, &out, &c, 1, text->from[i]);
        }
    }
    return out;
}

static void place_of(const redcoi_shell *shell, int64_t from, redcoi_setting *fields)
{
    fields->file = (uint32_t)((uint64_t)from >> 32);
    const redcoi_file *const file = &shell->settings->files[fields->file];
    fields->line = redcoi_line_of(file->text, (size_t)(from & UINT32_MAX));
}

/* @param key_place  of the key's first byte, for its line */
static void add(redcoi_shell *shell, redcoi_origin origin, redcoi_span key, int64_t key_place, const redcoi_text *value,
                bool given, uint32_t line)
{
    char needs[64];
    redcoi_text text = shown(shell, value);
    const int64_t from = redcoi_text_place(value);
    redcoi_setting fields = {
        .origin = origin, .file = shell->file, .line = line, .at = REDCOI_NO_PLACE, .given = given};
    if (from != REDCOI_NO_PLACE) {
        place_of(shell, from, &fields);
        fields.at = from & UINT32_MAX;
        fields.length = (uint32_t)value->size;
    } else if (key_place != REDCOI_NO_PLACE) {
        place_of(shell, key_place, &fields);
    }
    const bool unknown = redcoi_text_needs(value, needs, sizeof needs);
    if (shell->status == REDCO_OK) {
        shell->status =
            redcoi_settings_add(shell->settings, &fields, key, (redcoi_span){redcoi_text_of(&text), text.size},
                                unknown ? needs : NULL, shell->err);
    }
    redcoi_text_free(&text);
}

static bool ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

/* A sign of the shell in a command that was put together in a variable: "run |& tee log", "run > log". */
static bool is_sign(const char *bytes)
{
    static const char *const signs[] = {"|",  "|&", "||", "&",    "&&", ";",  ">",
                                        ">>", "<",  "2>", "2>&1", "&>", ">&", "&>>"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strcmp(signs[i], bytes) == 0) { return true; }
    }
    return false;
}

/* "--key value..." at @p i. @return behind it */
static size_t option(redcoi_shell *shell, const redcoi_words *words, size_t i, uint32_t line)
{
    const redcoi_text *const word = &words->items[i];
    const char *const key = word->bytes + 2;
    const char *const equals = strchr(key, '=');
    redcoi_text value = {.size = 0};
    bool given = false;
    size_t next = i + 1;
    const size_t size = equals != NULL ? (size_t)(equals - key) : strlen(key);
    if (equals != NULL) {
        const size_t from = (size_t)(equals + 1 - word->bytes);
        const redcoi_text view = {word->bytes + from, word->from + from, word->size - from, 0};
        redcoi_text_join(shell, &value, &view);
        given = true;
    }
    for (; equals == NULL && next < words->count; next++) {
        const char *const bytes = redcoi_text_of(&words->items[next]);
        if (is_option(bytes) || is_letter(bytes) || ends_with(bytes, ".py") || strcmp(bytes, "\\") == 0 ||
            is_sign(bytes)) {
            break;
        }
        if (given && override_key(bytes) > 0) { break; }
        if (given) { /* words that stand side by side in the file are one place */
            const int64_t before = value.size > 0 ? value.from[value.size - 1] : REDCOI_NO_PLACE;
            const redcoi_text *const next_word = &words->items[next];
            const bool beside = before != REDCOI_NO_PLACE && next_word->size > 0 && next_word->from[0] == before + 2;
            redcoi_text_add(shell, &value, " ", 1, beside ? before + 1 : REDCOI_NO_PLACE);
        }
        redcoi_text_join(shell, &value, &words->items[next]);
        given = true;
    }
    add(shell, REDCOI_OF_ARGUMENT, (redcoi_span){key, size}, word->from[0], &value, given, line);
    redcoi_text_free(&value);
    return next;
}

static void arguments(redcoi_shell *shell, const redcoi_words *words, uint32_t line)
{
    for (size_t i = 0; i < words->count && shell->status == REDCO_OK;) {
        const redcoi_text *const word = &words->items[i];
        const char *const bytes = redcoi_text_of(word);
        const size_t key = override_key(bytes);
        const bool module = strcmp(bytes, "-m") == 0 && i + 1 < words->count;
        if (is_sign(bytes)) { /* another command follows, or where the output goes */
            while (++i < words->count && !is_option(redcoi_text_of(&words->items[i]))) {}
            continue;
        }
        if (is_option(bytes)) {
            i = option(shell, words, i, line);
            continue;
        }
        if (key > 0) {
            const size_t skip = strspn(bytes, "+~");
            const redcoi_text value = {word->bytes + key + 1, word->from + key + 1, word->size - key - 1, 0};
            add(shell, REDCOI_OF_ARGUMENT, (redcoi_span){bytes + skip, key - skip}, word->from[0], &value, true, line);
        } else if (module || ends_with(bytes, ".py")) {
            i += module ? 1 : 0;
            redcoi_text program = shown(shell, &words->items[i]);
            (void)snprintf(shell->settings->program, sizeof shell->settings->program, "%s", redcoi_text_of(&program));
            redcoi_text_free(&program);
        } else if (strstr(bytes, "llamafactory-cli") != NULL || strcmp(bytes, "swift") == 0 ||
                   strcmp(bytes, "axolotl") == 0) {
            (void)snprintf(shell->settings->program, sizeof shell->settings->program, "%.200s", bytes);
        }
        i++;
    }
}

/* Without a command that trains: lists and texts of flags, which another script gives to one. */
static void flag_variables(redcoi_shell *shell, redcoi_words *out)
{
    for (size_t i = 0; i < shell->variable_count; i++) {
        if (count_options(&shell->variables[i].words) > 1) { flatten(shell, &shell->variables[i].words, out); }
    }
}

redco_status redcoi_shell_collect(redcoi_shell *shell, redco_error *err)
{
    enum { LEAST = 3 };
    redcoi_words words = {.count = 0};
    const redcoi_command *best = NULL;
    size_t most = 0;
    shell->err = err;
    for (size_t i = 0; i < shell->command_count; i++) {
        const size_t count = count_options(&shell->commands[i].words);
        if (count <= most) { continue; }
        most = count;
        best = &shell->commands[i];
    }
    for (size_t i = 0; i < shell->variable_count; i++) {
        const redcoi_variable *const one = &shell->variables[i];
        const redcoi_text none = {.size = 0};
        if (one->array) { continue; }
        add(shell, REDCOI_OF_VARIABLE, (redcoi_span){one->name, strlen(one->name)}, REDCOI_NO_PLACE,
            one->words.count > 0 ? &one->words.items[0] : &none, true, 1);
    }
    if (most < LEAST) { flag_variables(shell, &words); }
    if (best != NULL && (most >= LEAST || words.count == 0)) {
        redcoi_words_free(&words);
        flatten(shell, &best->words, &words);
        shell->file = best->file;
    }
    arguments(shell, &words, best != NULL ? best->line : 1);
    redcoi_words_free(&words);
    return shell->status;
}

/* Variables that Slurm sets from a batch line. */
static void set_by_slurm(redcoi_shell *shell, redcoi_span key, redcoi_span value, size_t at)
{
    static const struct {
        const char *key, *variables[3];
    } known[] = {{"nodes", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
                 {"N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
                 {"gpus-per-node", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
                 {"gres", {"SLURM_GPUS_ON_NODE"}},
                 {"ntasks-per-node", {"SLURM_NTASKS_PER_NODE"}}};
    const char *const colon = memrchr(value.text, ':', value.size);
    const size_t skip = colon != NULL ? (size_t)(colon + 1 - value.text) : 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].key) != key.size || memcmp(known[i].key, key.text, key.size) != 0) { continue; }
        for (size_t k = 0; k < 3 && known[i].variables[k] != NULL; k++) {
            redcoi_words words = {.count = 0};
            redcoi_text text = {.size = 0};
            redcoi_text_add(shell, &text, value.text + skip, value.size - skip,
                            (int64_t)shell->file << 32 | (int64_t)(at + skip));
            redcoi_words_add(shell, &words, &text);
            redcoi_shell_assign(shell, known[i].variables[k], strlen(known[i].variables[k]), &words, false, false);
        }
    }
}

void redcoi_shell_batch_line(redcoi_shell *shell, size_t from, size_t to)
{
    const char *const text = shell->text;
    const redcoi_setting fields = {.origin = REDCOI_OF_BATCH,
                                   .file = shell->file,
                                   .line = redcoi_line_of(text, from),
                                   .at = REDCOI_NO_PLACE,
                                   .given = true};
    while (from < to && shell->status == REDCO_OK) {
        while (from < to && isspace((unsigned char)text[from]) != 0) { from++; }
        const bool named = from + 1 < to && text[from] == '-' && text[from + 1] == '-';
        if (from >= to || text[from] != '-') { return; }
        const size_t key = from + (named ? 2 : 1);
        size_t end = key;
        while (end < to && isspace((unsigned char)text[end]) == 0 && text[end] != '=') { end++; }
        const size_t key_end = end;
        while (end < to && (isspace((unsigned char)text[end]) != 0 || text[end] == '=')) { end++; }
        const size_t value = end;
        while (end < to && isspace((unsigned char)text[end]) == 0) { end++; }
        redcoi_setting placed = fields;
        placed.at = (int64_t)value;
        placed.length = (uint32_t)(end - value);
        shell->status = redcoi_settings_add(shell->settings, &placed, (redcoi_span){text + key, key_end - key},
                                            (redcoi_span){text + value, end - value}, NULL, shell->err);
        set_by_slurm(shell, (redcoi_span){text + key, key_end - key}, (redcoi_span){text + value, end - value}, value);
        from = end;
    }
}
