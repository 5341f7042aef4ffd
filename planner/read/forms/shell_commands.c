/* Commands of a launch script: assignments, redirections, tests in double brackets, functions that are called and files
 * that are sourced. What is left are commands that would run: they are kept. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "> file", "2>&1", "<<END", "<(...)": what they lead to is of no interest. */
static void redirection(redcoi_shell *shell)
{
    const bool text =
        redcoi_shell_here(shell, 0) == '<' && redcoi_shell_here(shell, 1) == '<' && redcoi_shell_here(shell, 2) != '<';
    redcoi_words words = {.count = 0};
    if (redcoi_shell_here(shell, 1) == '(') {
        shell->at++;
        return; /* a bracket of statements follows */
    }
    while (redcoi_shell_here(shell, 0) == '<' || redcoi_shell_here(shell, 0) == '>' ||
           redcoi_shell_here(shell, 0) == '&') {
        shell->at++;
    }
    shell->heredoc_tabs = text && redcoi_shell_here(shell, 0) == '-';
    if (shell->heredoc_tabs) { shell->at++; }
    redcoi_shell_blanks(shell);
    redcoi_shell_word(shell, &words);
    if (text && words.count > 0) {
        (void)snprintf(shell->heredoc, sizeof shell->heredoc, "%s", redcoi_text_of(&words.items[0]));
    }
    redcoi_words_free(&words);
}

/* "NAME=", "NAME+=" or "NAME[3]=" at a place. @return bytes of the name, 0: it is none */
static size_t assignment(const redcoi_shell *shell, size_t at, size_t *value_out, bool *append_out)
{
    const char *const text = shell->text;
    size_t end = at;
    if (end < shell->end && isdigit((unsigned char)text[end]) != 0) { return 0; }
    while (end < shell->end && (isalnum((unsigned char)text[end]) != 0 || text[end] == '_')) { end++; }
    const size_t size = end - at;
    if (size == 0) { return 0; }
    if (end < shell->end && text[end] == '[') {
        while (end < shell->end && text[end] != ']' && text[end] != '\n') { end++; }
        end += end < shell->end ? 1 : 0;
    }
    *append_out = end + 1 < shell->end && text[end] == '+' && text[end + 1] == '=';
    end += *append_out ? 1 : 0;
    if (end >= shell->end || text[end] != '=') { return 0; }
    *value_out = end + 1;
    return size;
}

/* "(a b c)" */
static void array(redcoi_shell *shell, redcoi_words *words)
{
    shell->at++;
    while (shell->status == REDCO_OK) {
        redcoi_shell_blanks(shell);
        const char c = redcoi_shell_here(shell, 0);
        if (c == '#') {
            redcoi_shell_comment(shell);
        } else if (c == '\n') {
            redcoi_shell_next_line(shell);
        } else if (c == ')') {
            shell->at++;
            return;
        } else if (c == '\0') {
            (void)redcoi_shell_fail(shell, "a list \"(...)\" is not closed");
        } else if (redcoi_shell_word_ends(c)) {
            shell->at++;
        } else {
            redcoi_shell_word(shell, words);
        }
    }
}

/* @return whether one stood there */
static bool assign(redcoi_shell *shell)
{
    size_t value = 0;
    bool append = false;
    redcoi_words words = {.count = 0};
    const size_t from = shell->at;
    const size_t size = assignment(shell, from, &value, &append);
    if (size == 0) { return false; }
    shell->at = value;
    const bool list = redcoi_shell_here(shell, 0) == '(';
    if (list) {
        array(shell, &words);
    } else {
        redcoi_text text = {.size = 0};
        redcoi_shell_value(shell, &text);
        redcoi_words_add(shell, &words, &text);
    }
    redcoi_shell_assign(shell, shell->text + from, size, &words, list, append);
    return true;
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
    if (shell->status == REDCO_OK) { redcoi_shell_run_file(shell, index); }
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
    (void)redcoi_shell_statements(shell, ends, &end);
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
        return redcoi_shell_test(&inner);
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

/* "[[ a == b && c ]]": its signs are words. */
redcoi_truth redcoi_shell_double_test(redcoi_shell *shell)
{
    redcoi_words words = {.count = 0};
    shell->at += 2;
    for (;;) {
        redcoi_shell_blanks(shell);
        const char c = redcoi_shell_here(shell, 0);
        if (shell->status != REDCO_OK || c == '\0') { break; }
        if (redcoi_shell_at_word(shell, "]]")) {
            shell->at += 2;
            break;
        }
        if (c == '\n') {
            redcoi_shell_next_line(shell);
        } else if (redcoi_shell_word_ends(c)) {
            const size_t size = (c == '&' || c == '|') && redcoi_shell_here(shell, 1) == c ? 2 : 1;
            redcoi_text sign = {.size = 0};
            redcoi_text_add(shell, &sign, shell->text + shell->at, size, REDCOI_NO_PLACE);
            redcoi_words_add(shell, &words, &sign);
            shell->at += size;
        } else {
            redcoi_text text = {.size = 0};
            redcoi_shell_value(shell, &text);
            redcoi_words_add(shell, &words, &text);
        }
    }
    const redcoi_truth truth = redcoi_shell_test(&words);
    redcoi_words_free(&words);
    return truth;
}

/* "((X = Y * 2))": an assignment or a test. */
redcoi_truth redcoi_shell_double_bracket(redcoi_shell *shell)
{
    size_t depth = 0, value = 0;
    bool append = false;
    const size_t from = shell->at + 2;
    redcoi_text inner = {.size = 0}, result = {.size = 0};
    while (shell->at < shell->end && (depth > 0 || redcoi_shell_here(shell, 0) == '(')) {
        depth += redcoi_shell_here(shell, 0) == '(' ? 1 : 0;
        depth -= redcoi_shell_here(shell, 0) == ')' ? 1 : 0;
        shell->at++;
        if (depth == 0) { break; }
    }
    const size_t to = shell->at >= from + 2 ? shell->at - 2 : from;
    size_t start = from;
    while (start < to && shell->text[start] == ' ') { start++; }
    size_t name_end = start;
    while (name_end < to && (isalnum((unsigned char)shell->text[name_end]) != 0 || shell->text[name_end] == '_')) {
        name_end++;
    }
    value = name_end;
    while (value < to && shell->text[value] == ' ') { value++; }
    append = value + 1 < to && shell->text[value] == '=' && shell->text[value + 1] != '=';
    redcoi_shell_expand(shell, append ? value + 1 : from, to, true, &inner);
    redcoi_shell_arithmetic(shell, &inner, &result);
    const bool known = strchr(redcoi_text_of(&result), REDCOI_UNKNOWN) == NULL;
    const redcoi_truth truth = !known                                      ? REDCOI_MAYBE
                               : strcmp(redcoi_text_of(&result), "0") != 0 ? REDCOI_TRUE
                                                                           : REDCOI_FALSE;
    if (append && name_end > start) {
        redcoi_words words = {.count = 0};
        redcoi_words_add(shell, &words, &result);
        redcoi_shell_assign(shell, shell->text + start, name_end - start, &words, false, false);
    }
    redcoi_text_free(&inner);
    redcoi_text_free(&result);
    return truth;
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
redcoi_truth redcoi_shell_command(redcoi_shell *shell)
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
            redirection(shell);
            if (redcoi_shell_here(shell, 0) == '(') { break; }
            continue;
        }
        if (redcoi_shell_word_ends(c)) { break; }
        if (first && declares(shell)) {
            declared = true;
            first = false;
            continue;
        }
        if ((declared || words.count == 0) && assign(shell)) { continue; }
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
