/* Parts of statements: comments, texts behind "<<", redirections, assignments, tests in double brackets. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

char redcoi_shell_here(const redcoi_shell *shell, size_t offset)
{
    return shell->at + offset < shell->end ? shell->text[shell->at + offset] : '\0';
}

/* Behind the line; an #SBATCH line says how many nodes. */
void redcoi_shell_comment(redcoi_shell *shell)
{
    const size_t from = shell->at;
    while (shell->at < shell->end && shell->text[shell->at] != '\n') { shell->at++; }
    if (shell->at - from > 8 && memcmp(shell->text + from, "#SBATCH ", 8) == 0) {
        redcoi_shell_batch_line(shell, from + 8, shell->at);
    }
}

/* The text behind a line with "<<END". */
static void skip_heredoc(redcoi_shell *shell)
{
    const size_t length = strlen(shell->heredoc);
    while (shell->at < shell->end) {
        size_t line = shell->at;
        while (shell->heredoc_tabs && line < shell->end && shell->text[line] == '\t') { line++; }
        const char *const stop = memchr(shell->text + shell->at, '\n', shell->end - shell->at);
        const size_t line_end = stop != NULL ? (size_t)(stop - shell->text) : shell->end;
        const bool last =
            line_end >= line && line_end - line == length && memcmp(shell->text + line, shell->heredoc, length) == 0;
        shell->at = line_end < shell->end ? line_end + 1 : shell->end;
        if (last) { break; }
    }
    shell->heredoc[0] = '\0';
}

void redcoi_shell_next_line(redcoi_shell *shell)
{
    shell->at++;
    if (shell->heredoc[0] != '\0') { skip_heredoc(shell); }
}

bool redcoi_shell_word_ends(char c)
{
    return c == '\0' || isspace((unsigned char)c) != 0 || strchr(";&|()<>", c) != NULL;
}

bool redcoi_shell_at_word(const redcoi_shell *shell, const char *word)
{
    const size_t length = strlen(word);
    return shell->end - shell->at >= length && memcmp(shell->text + shell->at, word, length) == 0 &&
           redcoi_shell_word_ends(redcoi_shell_here(shell, length));
}

/* "> file", "2>&1", "<<END", "<(...)": what they lead to is of no interest. */
void redcoi_shell_redirection(redcoi_shell *shell)
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
bool redcoi_shell_assignment(redcoi_shell *shell)
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
    const redcoi_truth truth = redcoi_shell_test(&words, shell->settings->files[shell->file].path);
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
