/* A launch script: statements in their order, branches by their tests, functions where they are called, files that lie
 * beside. No command runs: they are kept. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static redcoi_truth statements(redcoi_shell *shell, const char *const *ends, const char **end_out);

/* Blanks, ends of lines, comments and ";". */
static void space(redcoi_shell *shell)
{
    for (;;) {
        redcoi_shell_blanks(shell);
        const char c = redcoi_shell_here(shell, 0);
        if (c == '#') {
            redcoi_shell_comment(shell);
        } else if (c == '\n') {
            redcoi_shell_next_line(shell);
        } else if (c == ';' && redcoi_shell_here(shell, 1) != ';') {
            shell->at++;
        } else {
            return;
        }
    }
}

static void record(redcoi_shell *shell, redcoi_words *words, uint32_t line)
{
    if (shell->command_count == shell->command_room) {
        const size_t room = shell->command_room > 0 ? 2 * shell->command_room : 32;
        redcoi_command *const commands = realloc(shell->commands, room * sizeof *commands);
        if (commands == NULL) {
            shell->status = redco_fail(shell->err, REDCO_ENOMEM, "", "out of memory");
            return;
        }
        shell->commands = commands;
        shell->command_room = room;
    }
    shell->commands[shell->command_count++] = (redcoi_command){.words = *words, .file = shell->file, .line = line};
    *words = (redcoi_words){.count = 0};
}

static void run_file(redcoi_shell *shell, uint32_t file)
{
    const char *end = NULL;
    shell->file = file;
    shell->text = shell->settings->files[file].text;
    shell->at = 0;
    shell->end = shell->settings->files[file].size;
    while (shell->at < shell->end && shell->status == REDCO_OK) {
        (void)statements(shell, NULL, &end);
        if (shell->at < shell->end && shell->status == REDCO_OK) {
            (void)redcoi_shell_fail(shell, "a \")\" or \"}\" too many");
        }
    }
}

/* A file that lies beside is read; any other is named. */
static void source(redcoi_shell *shell, const redcoi_text *path)
{
    static const char *const beside[] = {"", ".", "\003", "\003/."};
    const redcoi_shell back = *shell;
    const char *const text = redcoi_text_of(path);
    const char *const slash = strrchr(text, '/');
    const char *const name = slash != NULL ? slash + 1 : text;
    const char *const own = shell->settings->files[shell->file].path;
    const char *const folder_end = strrchr(own, '/');
    const uint32_t line = redcoi_line_of(shell->text, shell->at);
    char needs[64], found[600], folder[300];
    bool near = redcoi_text_needs(path, needs, sizeof needs) ? strncmp(needs, "$(", 2) == 0 && slash != NULL : false;
    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - text) : 0, text);
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) { near = near || strcmp(folder, beside[i]) == 0; }
    (void)snprintf(found, sizeof found, "%.*s%.200s", folder_end != NULL ? (int)(folder_end - own) + 1 : 0, own, name);
    if (!near || strchr(name, REDCOI_UNKNOWN) != NULL || name[0] == '\0' || access(found, R_OK) != 0) {
        redcoi_settings_remark(shell->settings, shell->file, line, "%.80s is not read: it %s", name,
                               near ? "is not there" : "does not lie beside");
        return;
    }
    if (++shell->depth > REDCOI_SHELL_DEPTH / 2) {
        (void)redcoi_shell_fail(shell, "files source one another in a circle");
        return;
    }
    redcoi_file_settings *const settings = shell->settings;
    const uint32_t index = settings->file_count;
    if (index == REDCOI_MOST_FILES) {
        (void)redcoi_shell_fail(shell, "more than 16 files are sourced");
        return;
    }
    shell->status = redcoi_load_file(settings, found, shell->err);
    if (shell->status == REDCO_OK) { run_file(shell, index); }
    shell->depth--;
    shell->file = back.file;
    shell->text = back.text;
    shell->at = back.at;
    shell->end = back.end;
}

static redcoi_truth call(redcoi_shell *shell, const redcoi_function *function, const redcoi_words *words)
{
    const redcoi_shell back = *shell;
    const char *const ends[] = {"}", NULL};
    const char *end = NULL;
    if (++shell->depth > REDCOI_SHELL_DEPTH / 2) {
        (void)redcoi_shell_fail(shell, "functions call one another too deep");
        return REDCOI_TRUE;
    }
    shell->file = function->file;
    shell->text = shell->settings->files[function->file].text;
    shell->end = shell->settings->files[function->file].size;
    shell->at = function->body;
    shell->arguments = words;
    (void)statements(shell, ends, &end);
    shell->depth--;
    shell->file = back.file;
    shell->text = back.text;
    shell->at = back.at;
    shell->end = back.end;
    shell->arguments = back.arguments;
    return REDCOI_TRUE;
}

static const redcoi_function *function_of(const redcoi_shell *shell, const char *name)
{
    for (size_t i = shell->function_count; i > 0; i--) {
        if (strcmp(shell->functions[i - 1].name, name) == 0) { return &shell->functions[i - 1]; }
    }
    return NULL;
}

/* A command with its words: tests are answered, functions entered, the rest is kept. */
static redcoi_truth command(redcoi_shell *shell, redcoi_words *words, uint32_t line)
{
    const char *const name = redcoi_text_of(&words->items[0]);
    if (shell->skipping) { return REDCOI_TRUE; }
    if (strcmp(name, "[") == 0 || strcmp(name, "test") == 0) {
        const bool bracket = name[0] == '[' && words->count > 1;
        const redcoi_words inner = {words->items + 1, words->count - (bracket ? 2 : 1), 0};
        return redcoi_shell_test(&inner, shell->settings->files[shell->file].path);
    }
    if (strcmp(name, "true") == 0 || strcmp(name, ":") == 0) { return REDCOI_TRUE; }
    if (strcmp(name, "false") == 0) { return REDCOI_FALSE; }
    if ((strcmp(name, "source") == 0 || strcmp(name, ".") == 0) && words->count > 1) {
        source(shell, &words->items[1]);
        return REDCOI_TRUE;
    }
    if (strcmp(name, "unset") == 0) {
        for (size_t i = 1; i < words->count; i++) {
            redcoi_words none = {.count = 0};
            const char *const variable = redcoi_text_of(&words->items[i]);
            if (redcoi_shell_variable(shell, variable, strlen(variable)) != NULL) {
                redcoi_shell_assign(shell, variable, strlen(variable), &none, true, false);
            }
        }
        return REDCOI_TRUE;
    }
    const redcoi_function *const function = function_of(shell, name);
    if (function != NULL) { return call(shell, function, words); }
    record(shell, words, line);
    return REDCOI_MAYBE;
}

static const char *const declaring[] = {"export", "local", "declare", "readonly", "typeset", NULL};

static bool declares(redcoi_shell *shell)
{
    for (size_t i = 0; declaring[i] != NULL; i++) {
        if (!redcoi_shell_at_word(shell, declaring[i])) { continue; }
        shell->at += strlen(declaring[i]);
        return true;
    }
    return false;
}

/* Words up to the end of the command. */
static redcoi_truth simple(redcoi_shell *shell)
{
    redcoi_words words = {.count = 0};
    redcoi_truth truth = REDCOI_TRUE;
    bool first = true, declared = false;
    const uint32_t line = redcoi_line_of(shell->text, shell->at);
    while (shell->status == REDCO_OK) {
        redcoi_shell_blanks(shell);
        const char c = redcoi_shell_here(shell, 0);
        if (c == '#') {
            redcoi_shell_comment(shell);
            break;
        }
        if (c == '<' || c == '>' || (c == '&' && redcoi_shell_here(shell, 1) == '>')) {
            if (words.count > 0) { /* the number of a stream */
                redcoi_text *const last = &words.items[words.count - 1];
                const char *const text = redcoi_text_of(last);
                if (last->size == 1 && isdigit((unsigned char)text[0]) != 0 && shell->text[shell->at - 1] == text[0]) {
                    redcoi_text_free(last);
                    words.count--;
                }
            }
            redcoi_shell_redirection(shell);
            if (redcoi_shell_here(shell, 0) == '(') { break; }
            continue;
        }
        if (redcoi_shell_word_ends(c)) { break; }
        if (first && declares(shell)) {
            declared = true;
            first = false;
            continue;
        }
        if ((declared || words.count == 0) && redcoi_shell_assignment(shell)) { continue; }
        first = false;
        redcoi_shell_word(shell, &words);
    }
    if (shell->status == REDCO_OK && words.count > 0 && !declared) {
        if (redcoi_shell_here(shell, 0) == '(' && redcoi_shell_here(shell, 1) == ')' &&
            words.count == 1) { /* "name()" */
            redcoi_words_free(&words);
            return REDCOI_TRUE;
        }
        truth = command(shell, &words, line);
    }
    redcoi_words_free(&words);
    return truth;
}

static redcoi_truth until(redcoi_shell *shell, const char *a, const char *b, const char *c, const char **end_out)
{
    const char *const ends[] = {a, b, c, NULL};
    const redcoi_truth truth = statements(shell, ends, end_out);
    if (*end_out == NULL && shell->status == REDCO_OK) {
        char text[60];
        (void)snprintf(text, sizeof text, "\"%s\" is missing", c != NULL ? c : b != NULL ? b : a);
        (void)redcoi_shell_fail(shell, text);
    }
    return truth;
}

static void branches(redcoi_shell *shell)
{
    const bool skipping = shell->skipping;
    bool taken = false;
    const char *end = "elif";
    while (shell->status == REDCO_OK && strcmp(end, "elif") == 0) {
        const uint32_t line = redcoi_line_of(shell->text, shell->at);
        shell->skipping = skipping || taken;
        const redcoi_truth truth = until(shell, "then", NULL, NULL, &end);
        if (truth == REDCOI_MAYBE && !shell->skipping) {
            redcoi_settings_remark(shell->settings, shell->file, line,
                                   "whether this branch is taken only a run knows: "
                                   "it is not read");
        }
        shell->skipping = skipping || taken || truth != REDCOI_TRUE;
        taken = taken || truth == REDCOI_TRUE;
        if (shell->status != REDCO_OK) { break; }
        (void)until(shell, "elif", "else", "fi", &end);
    }
    if (shell->status == REDCO_OK && strcmp(end, "else") == 0) {
        shell->skipping = skipping || taken;
        (void)until(shell, "fi", NULL, NULL, &end);
    }
    shell->skipping = skipping;
}

/* A loop's body is read once, with the first word. */
static void loop(redcoi_shell *shell, bool counted)
{
    const bool skipping = shell->skipping;
    const uint32_t line = redcoi_line_of(shell->text, shell->at);
    const char *end = NULL;
    redcoi_truth truth = REDCOI_TRUE;
    if (counted) {
        redcoi_words words = {.count = 0};
        redcoi_shell_blanks(shell);
        const size_t name = shell->at;
        while (isalnum((unsigned char)redcoi_shell_here(shell, 0)) != 0 || redcoi_shell_here(shell, 0) == '_') {
            shell->at++;
        }
        const size_t size = shell->at - name;
        if (redcoi_shell_here(shell, 0) == '(') {
            (void)redcoi_shell_double_bracket(shell);
            truth = REDCOI_MAYBE;
        }
        redcoi_shell_blanks(shell);
        if (redcoi_shell_at_word(shell, "in")) {
            shell->at += 2;
            for (redcoi_shell_blanks(shell);
                 !redcoi_shell_word_ends(redcoi_shell_here(shell, 0)) && shell->status == REDCO_OK;
                 redcoi_shell_blanks(shell)) {
                redcoi_shell_word(shell, &words);
            }
            truth = words.count > 0 ? REDCOI_TRUE : REDCOI_FALSE;
        }
        if (words.count > 1 && !skipping) {
            redcoi_settings_remark(shell->settings, shell->file, line, "of this loop the first turn is read");
        }
        while (words.count > 1) { redcoi_text_free(&words.items[--words.count]); }
        redcoi_shell_assign(shell, shell->text + name, size, &words, false, false);
        (void)until(shell, "do", NULL, NULL, &end);
    } else {
        truth = until(shell, "do", NULL, NULL, &end);
    }
    shell->skipping = skipping || truth != REDCOI_TRUE;
    (void)until(shell, "done", NULL, NULL, &end);
    shell->skipping = skipping;
}

static void cases(redcoi_shell *shell)
{
    const bool skipping = shell->skipping;
    redcoi_text word = {.size = 0};
    char needs[40];
    bool taken = false;
    redcoi_shell_blanks(shell);
    redcoi_shell_value(shell, &word);
    space(shell);
    if (!redcoi_shell_at_word(shell, "in")) {
        (void)redcoi_shell_fail(shell, "\"case\" needs \"in\"");
        goto out;
    }
    shell->at += 2;
    const bool known = !redcoi_text_needs(&word, needs, sizeof needs);
    for (space(shell); shell->status == REDCO_OK && !redcoi_shell_at_word(shell, "esac"); space(shell)) {
        bool matches = false;
        if (shell->at >= shell->end) {
            (void)redcoi_shell_fail(shell, "\"esac\" is missing");
            break;
        }
        if (redcoi_shell_here(shell, 0) == '(') { shell->at++; }
        while (redcoi_shell_here(shell, 0) != ')' && shell->at < shell->end && shell->status == REDCO_OK) {
            redcoi_text pattern = {.size = 0};
            const size_t before = shell->at;
            redcoi_shell_blanks(shell);
            redcoi_shell_value(shell, &pattern);
            matches = matches || (pattern.size > 0 && fnmatch(pattern.bytes, redcoi_text_of(&word), 0) == 0);
            redcoi_text_free(&pattern);
            redcoi_shell_blanks(shell);
            if ((redcoi_shell_here(shell, 0) == '|' || shell->at == before) && shell->at < shell->end) { shell->at++; }
        }
        shell->at += shell->at < shell->end ? 1 : 0;
        const char *end = NULL;
        shell->skipping = skipping || taken || !matches || !known;
        taken = taken || (matches && known);
        (void)until(shell, ";;", "esac", NULL, &end);
        if (end != NULL && strcmp(end, "esac") == 0) { shell->at -= 4; }
    }
    if (shell->status == REDCO_OK) { shell->at += 4; }
out:
    shell->skipping = skipping;
    redcoi_text_free(&word);
}

/* "name() {" or "function name {". @return whether one stood there: its body is kept for calls */
static bool function(redcoi_shell *shell)
{
    size_t at = shell->at;
    const bool said = redcoi_shell_at_word(shell, "function");
    if (said) { at += 8; }
    while (at < shell->end && shell->text[at] == ' ') { at++; }
    const size_t name = at;
    while (at < shell->end && (isalnum((unsigned char)shell->text[at]) != 0 || strchr("_-", shell->text[at]) != NULL)) {
        at++;
    }
    const size_t size = at - name;
    while (at < shell->end && shell->text[at] == ' ') { at++; }
    const bool brackets = at + 1 < shell->end && shell->text[at] == '(' && shell->text[at + 1] == ')';
    if (size == 0 || (!brackets && !said)) { return false; }
    at += brackets ? 2 : 0;
    while (at < shell->end && isspace((unsigned char)shell->text[at]) != 0) { at++; }
    if (at >= shell->end || shell->text[at] != '{') { return false; }
    if (shell->function_count == shell->function_room) {
        const size_t room = shell->function_room > 0 ? 2 * shell->function_room : 8;
        redcoi_function *const functions = realloc(shell->functions, room * sizeof *functions);
        if (functions == NULL) { return false; }
        shell->functions = functions;
        shell->function_room = room;
    }
    char *const copy = strndup(shell->text + name, size);
    if (copy == NULL) { return false; }
    shell->functions[shell->function_count++] = (redcoi_function){copy, shell->file, at + 1};
    const bool skipping = shell->skipping;
    const char *end = NULL;
    shell->skipping = true;
    shell->at = at + 1;
    (void)until(shell, "}", NULL, NULL, &end);
    shell->skipping = skipping;
    return true;
}

/* One statement: what a keyword begins, or a command. */
static redcoi_truth statement(redcoi_shell *shell)
{
    const char *end = NULL;
    bool opposite = false;
    redcoi_truth truth = REDCOI_TRUE;
    if (redcoi_shell_at_word(shell, "!")) {
        opposite = true;
        shell->at++;
        redcoi_shell_blanks(shell);
    }
    if (redcoi_shell_at_word(shell, "if")) {
        shell->at += 2;
        branches(shell);
    } else if (redcoi_shell_at_word(shell, "for")) {
        shell->at += 3;
        loop(shell, true);
    } else if (redcoi_shell_at_word(shell, "while") || redcoi_shell_at_word(shell, "until")) {
        shell->at += 5;
        loop(shell, false);
    } else if (redcoi_shell_at_word(shell, "case")) {
        shell->at += 4;
        cases(shell);
    } else if (redcoi_shell_at_word(shell, "[[")) {
        truth = redcoi_shell_double_test(shell);
    } else if (redcoi_shell_here(shell, 0) == '(' && redcoi_shell_here(shell, 1) == '(') {
        truth = redcoi_shell_double_bracket(shell);
    } else if (redcoi_shell_here(shell, 0) == '(') {
        shell->at++;
        truth = until(shell, ")", NULL, NULL, &end);
    } else if (redcoi_shell_at_word(shell, "{")) {
        shell->at++;
        truth = until(shell, "}", NULL, NULL, &end);
    } else if (!function(shell)) {
        truth = simple(shell);
    }
    if (!opposite || truth == REDCOI_MAYBE) { return truth; }
    return truth == REDCOI_TRUE ? REDCOI_FALSE : REDCOI_TRUE;
}

/* Steps over one of the words that end a list. @return NULL: none stands here */
static const char *ended(redcoi_shell *shell, const char *const *ends)
{
    for (size_t i = 0; ends != NULL && ends[i] != NULL; i++) {
        const bool sign = ends[i][0] == ')' || ends[i][0] == ';';
        const size_t length = strlen(ends[i]);
        if (sign ? shell->end - shell->at >= length && memcmp(shell->text + shell->at, ends[i], length) == 0
                 : redcoi_shell_at_word(shell, ends[i])) {
            shell->at += length;
            return ends[i];
        }
    }
    return NULL;
}

/* Statements with ";", "&&", "||" and "|" between them. @return the truth of the last that was reached */
static redcoi_truth statements(redcoi_shell *shell, const char *const *ends, const char **end_out)
{
    redcoi_truth truth = REDCOI_TRUE;
    const bool skipping = shell->skipping;
    *end_out = NULL;
    if (++shell->depth > REDCOI_SHELL_DEPTH) { (void)redcoi_shell_fail(shell, "statements are nested too deep"); }
    while (shell->status == REDCO_OK) {
        space(shell);
        if ((*end_out = ended(shell, ends)) != NULL || shell->at >= shell->end) { break; }
        const size_t before = shell->at;
        if (++shell->steps > REDCOI_MOST_STEPS) {
            (void)redcoi_shell_fail(shell, "more statements than are read");
            break;
        }
        const redcoi_truth now = statement(shell);
        truth = shell->skipping && !skipping ? truth : now;
        redcoi_shell_blanks(shell);
        const char c = redcoi_shell_here(shell, 0), next = redcoi_shell_here(shell, 1);
        shell->skipping = skipping;
        if ((c == '&' || c == '|') && next == c) {
            const bool stops = c == '&' ? truth == REDCOI_FALSE : truth != REDCOI_FALSE;
            shell->skipping = skipping || stops;
            shell->at += 2;
            while (isspace((unsigned char)redcoi_shell_here(shell, 0)) != 0) { shell->at++; }
            continue;
        }
        if (c == '&' || c == '|') { shell->at++; }
        if (c == ')' || c == '}') {
            if ((*end_out = ended(shell, ends)) != NULL) { break; }
            if (ends == NULL) { break; }
            shell->at++;
        }
        if (shell->at == before) { shell->at++; } /* a sign that begins nothing */
    }
    shell->skipping = skipping;
    shell->depth--;
    return truth;
}

redco_status redcoi_shell_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    redcoi_shell shell = {.settings = settings, .err = err};
    run_file(&shell, index);
    redco_status st = shell.status;
    if (st == REDCO_OK) { st = redcoi_shell_collect(&shell, err); }
    for (size_t i = 0; i < shell.variable_count; i++) {
        free(shell.variables[i].name);
        redcoi_words_free(&shell.variables[i].words);
    }
    for (size_t i = 0; i < shell.function_count; i++) { free(shell.functions[i].name); }
    for (size_t i = 0; i < shell.command_count; i++) { redcoi_words_free(&shell.commands[i].words); }
    free(shell.variables);
    free(shell.functions);
    free(shell.commands);
    return st;
}
