/* Words of a shell script: quotes, variables with their defaults, arithmetic, arrays. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int64_t place(const redcoi_shell *shell, size_t at)
{
    return (int64_t)shell->file << 32 | (int64_t)at;
}

static void unknown(redcoi_shell *shell, redcoi_text *out, const char *name, size_t size)
{
    const char start = REDCOI_UNKNOWN, stop = REDCOI_UNKNOWN_END;
    redcoi_text_add(shell, out, &start, 1, REDCOI_NO_PLACE);
    redcoi_text_add(shell, out, name, size, REDCOI_NO_PLACE);
    redcoi_text_add(shell, out, &stop, 1, REDCOI_NO_PLACE);
}

void redcoi_shell_blanks(redcoi_shell *shell)
{
    for (; shell->at < shell->end; shell->at++) {
        const char c = shell->text[shell->at];
        if (c == '\\' && shell->at + 1 < shell->end && shell->text[shell->at + 1] == '\n') {
            shell->at++;
        } else if (c == '\\' && shell->at + 2 < shell->end && shell->text[shell->at + 1] == '\r' &&
                   shell->text[shell->at + 2] == '\n') {
            shell->at += 2;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

/* Behind the bracket that closes the one at @p at, quotes and brackets inside aside; @p end where there is none. */
static size_t closing(const char *text, size_t at, size_t end, char open, char close)
{
    size_t depth = 0;
    for (; at < end; at++) {
        const char c = text[at];
        if (c == '\\') {
            at++;
        } else if (c == '\'' && open != '"') {
            const char *const next = memchr(text + at + 1, '\'', end - at - 1);
            if (next == NULL) { return end; }
            at = (size_t)(next - text);
        } else if (c == open) {
            depth++;
        } else if (c == close && --depth == 0) {
            return at + 1;
        }
    }
    return end;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_';
}

/* Words of a variable; those of a function's arguments for "@" and numbers. */
struct looked_up {
    const redcoi_words *words;
    size_t first, count; /* a range of the words */
};

static struct looked_up look_up(redcoi_shell *shell, const char *name, size_t size, const char *index,
                                size_t index_size)
{
    const bool all = index_size == 1 && (index[0] == '@' || index[0] == '*');
    size_t first = 0;
    if (size == 1 && (name[0] == '@' || name[0] == '*')) {
        const redcoi_words *const words = shell->arguments;
        return (struct looked_up){words, 1, words != NULL && words->count > 0 ? words->count - 1 : 0};
    }
    if (isdigit((unsigned char)name[0]) != 0) {
        const size_t number = (size_t)(name[0] - '0');
        const bool there = shell->arguments != NULL && size == 1 && number > 0 && number < shell->arguments->count;
        return (struct looked_up){shell->arguments, number, there ? 1 : 0};
    }
    const redcoi_variable *const variable = redcoi_shell_variable(shell, name, size);
    if (variable == NULL) { return (struct looked_up){NULL, 0, 0}; }
    if (all) { return (struct looked_up){&variable->words, 0, variable->words.count}; }
    for (size_t i = 0; i < index_size; i++) {
        if (isdigit((unsigned char)index[i]) == 0 || first > REDCOI_MOST_WORDS) {
            return (struct looked_up){NULL, 0, 0};
        }
        first = 10 * first + (size_t)(index[i] - '0');
    }
    return (struct looked_up){&variable->words, first, first < variable->words.count ? 1 : 0};
}

/* A word that is being made, and those that are done. */
struct maker {
    redcoi_words *out; /* NULL: nothing is split */
    redcoi_text *text;
    bool quoted; /* some of it was in quotes: it is a word even if it is empty */
};

static void finish(redcoi_shell *shell, struct maker *maker)
{
    if (maker->text->size > 0 || maker->quoted) { redcoi_words_add(shell, maker->out, maker->text); }
    maker->quoted = false;
}

/* Adds a value: outside of quotes its blanks end words. */
static void put(redcoi_shell *shell, struct maker *maker, const redcoi_text *value, bool quoted)
{
    if (quoted || maker->out == NULL) {
        redcoi_text_join(shell, maker->text, value);
        return;
    }
    for (size_t i = 0; i < value->size && shell->status == REDCO_OK;) {
        size_t end = i;
        while (end < value->size && isspace((unsigned char)value->bytes[end]) == 0) { end++; }
        if (end > i) {
            const redcoi_text part = {value->bytes + i, value->from + i, end - i, 0};
            redcoi_text_join(shell, maker->text, &part);
        }
        if (end < value->size) { finish(shell, maker); }
        i = end + (end < value->size ? 1 : 0);
    }
}

static void expand(redcoi_shell *shell, struct maker *maker, size_t *at, size_t end, bool quoted);

void redcoi_shell_expand(redcoi_shell *shell, size_t from, size_t to, bool quoted, redcoi_text *out)
{
    struct maker maker = {.text = out};
    if (++shell->depth > REDCOI_SHELL_DEPTH) { (void)redcoi_shell_fail(shell, "brackets are nested too deep"); }
    while (from < to && shell->status == REDCO_OK) { expand(shell, &maker, &from, to, quoted); }
    shell->depth--;
}

/* "$(dirname ...BASH_SOURCE...)" is the script's folder; "expr" and "echo" are followed, other commands are not run. */
static void substitution(redcoi_shell *shell, size_t from, size_t to, redcoi_text *out)
{
    char name[48];
    redcoi_text text = {.size = 0};
    while (from < to && isspace((unsigned char)shell->text[from]) != 0) { from++; }
    const char *const inner = shell->text + from;
    const size_t size = to - from;
    const bool script = memmem(inner, size, "BASH_SOURCE", 11) != NULL || memmem(inner, size, "$0", 2) != NULL ||
                        memmem(inner, size, "${0}", 4) != NULL;
    if (script && memmem(inner, size, "dirname", 7) != NULL) {
        const char folder = REDCOI_FOLDER;
        redcoi_text_add(shell, out, &folder, 1, REDCOI_NO_PLACE);
        return;
    }
    if (size > 5 && memcmp(inner, "expr ", 5) == 0) {
        redcoi_shell_expand(shell, from + 5, to, false, &text);
        redcoi_shell_arithmetic(shell, &text, out);
    } else if (size > 5 && memcmp(inner, "echo ", 5) == 0 && memchr(inner, '|', size) == NULL) {
        redcoi_shell_expand(shell, from + 5, to, false, out);
    } else {
        (void)snprintf(name, sizeof name, "$(%.*s)", (int)(size < 40 ? size : 40), inner);
        for (char *c = name; *c != '\0'; c++) { *c = (unsigned char)*c < ' ' ? ' ' : *c; }
        unknown(shell, out, name, strlen(name));
    }
    redcoi_text_free(&text);
}

/* The values of a variable, or what stands for it. */
static void put_values(redcoi_shell *shell, struct maker *maker, struct looked_up found, bool all, bool quoted)
{
    for (size_t i = 0; i < found.count && shell->status == REDCO_OK; i++) {
        if (i > 0 && all && maker->out != NULL) { finish(shell, maker); }
        if (i > 0 && (!all || maker->out == NULL)) { redcoi_text_add(shell, maker->text, " ", 1, REDCOI_NO_PLACE); }
        put(shell, maker, &found.words->items[found.first + i], quoted);
        if (all && quoted) { maker->quoted = true; }
    }
}

static bool is_empty(struct looked_up found)
{
    for (size_t i = 0; i < found.count; i++) {
        if (found.words->items[found.first + i].size > 0) { return false; }
    }
    return true;
}

/* A variable that only the system knows, or the script's own path. */
static void put_missing(redcoi_shell *shell, struct maker *maker, const char *name, size_t size)
{
    const char *const own[] = {"0", "BASH_SOURCE"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strlen(own[i]) == size && memcmp(own[i], name, size) == 0) {
            const char path[] = {REDCOI_FOLDER, '/', 's'};
            redcoi_text_add(shell, maker->text, path, sizeof path, REDCOI_NO_PLACE);
            return;
        }
    }
    if (size == 1 && name[0] == '#') {
        char count[24];
        const size_t arguments =
            shell->arguments != NULL && shell->arguments->count > 0 ? shell->arguments->count - 1 : 0;
        const int length = snprintf(count, sizeof count, "%zu", arguments);
        redcoi_text_add(shell, maker->text, count, (size_t)length, REDCOI_NO_PLACE);
        return;
    }
    if (size == 1 && (name[0] == '@' || name[0] == '*')) { return; }
    unknown(shell, maker->text, name, size);
}

/* "${NAME}", "${NAME:-word}" and its like. @param from  behind "${" @param to  the "}" */
static void braces(redcoi_shell *shell, struct maker *maker, size_t from, size_t to, bool quoted)
{
    const char *const text = shell->text;
    const bool length = text[from] == '#' && from + 1 < to;
    size_t at = from + (length ? 1 : 0);
    const size_t name = at;
    while (at < to && is_name(text[at])) { at++; }
    if (at == name && at < to && strchr("@*#?", text[at]) != NULL) { at++; }
    const size_t name_end = at;
    size_t index = at, index_end = at;
    if (at < to && text[at] == '[') {
        index = at + 1;
        at = closing(text, at, to, '[', ']');
        index_end = at > index ? at - 1 : index;
    }
    const struct looked_up found = name_end > name
                                       ? look_up(shell, text + name, name_end - name, text + index, index_end - index)
                                       : (struct looked_up){NULL, 0, 0};
    const bool all =
        (index_end == index + 1 && strchr("@*", text[index]) != NULL) || (name_end == name + 1 && text[name] == '@');
    if (length) {
        char count[24];
        const size_t value = all ? found.count : found.count > 0 ? found.words->items[found.first].size : 0;
        redcoi_text_add(shell, maker->text, count, (size_t)snprintf(count, sizeof count, "%zu", value),
                        REDCOI_NO_PLACE);
        return;
    }
    const bool colon = at < to && text[at] == ':';
    const size_t sign = at + (colon ? 1 : 0);
    const char what = sign < to ? text[sign] : '\0';
    const bool set = found.count > 0 && !(colon && is_empty(found));
    if (what != '\0' && strchr("-=?+", what) != NULL) {
        if (set != (what == '+')) {
            if (set) { put_values(shell, maker, found, all, quoted); }
            return;
        }
        if (what == '?') {
            put_missing(shell, maker, text + name, name_end - name);
            return;
        }
        redcoi_text word = {.size = 0};
        redcoi_shell_expand(shell, sign + 1, to, quoted, &word);
        put(shell, maker, &word, quoted);
        if (what == '=' && shell->status == REDCO_OK) {
            redcoi_words words = {.count = 0};
            redcoi_words_add(shell, &words, &word);
            redcoi_shell_assign(shell, text + name, name_end - name, &words, false, false);
        }
        redcoi_text_free(&word);
        return;
    }
    if (at < to) { /* parts of a text, other letters: not followed */
        char shown[48];
        (void)snprintf(shown, sizeof shown, "{%.*s}", (int)(to - from < 40 ? to - from : 40), text + from);
        unknown(shell, maker->text, shown, strlen(shown));
        return;
    }
    if (found.count > 0) {
        put_values(shell, maker, found, all, quoted);
    } else if (name_end > name && !all && redcoi_shell_variable(shell, text + name, name_end - name) == NULL) {
        put_missing(shell, maker, text + name, name_end - name);
    }
}

/* Expands at a "$". */
static void dollar(redcoi_shell *shell, struct maker *maker, size_t *at, size_t end, bool quoted)
{
    const char *const text = shell->text;
    const size_t from = *at;
    const char next = from + 1 < end ? text[from + 1] : '\0';
    redcoi_text value = {.size = 0};
    if (next == '{') {
        *at = closing(text, from + 1, end, '{', '}');
        braces(shell, maker, from + 2, text[*at - 1] == '}' && *at > from + 2 ? *at - 1 : *at, quoted);
        return;
    }
    if (next == '(' && from + 2 < end && text[from + 2] == '(') {
        *at = closing(text, from + 1, end, '(', ')');
        redcoi_text inner = {.size = 0};
        if (*at >= from + 5) { redcoi_shell_expand(shell, from + 3, *at - 2, true, &inner); }
        redcoi_shell_arithmetic(shell, &inner, &value);
        redcoi_text_free(&inner);
    } else if (next == '(') {
        *at = closing(text, from + 1, end, '(', ')');
        substitution(shell, from + 2, text[*at - 1] == ')' && *at > from + 2 ? *at - 1 : *at, &value);
    } else if (next == '[') {
        *at = closing(text, from + 1, end, '[', ']');
        redcoi_text inner = {.size = 0};
        redcoi_shell_expand(shell, from + 2, *at - 1, true, &inner);
        redcoi_shell_arithmetic(shell, &inner, &value);
        redcoi_text_free(&inner);
    } else {
        size_t stop = from + 1;
        if (stop < end && (isdigit((unsigned char)text[stop]) != 0 || strchr("@*#?$!", text[stop]) != NULL)) {
            stop++;
        } else {
            while (stop < end && is_name(text[stop])) { stop++; }
        }
        *at = stop;
        if (stop == from + 1) {
            redcoi_text_add(shell, maker->text, "$", 1, place(shell, from));
            return;
        }
        const struct looked_up found = look_up(shell, text + from + 1, stop - from - 1, "", 0);
        if (found.count > 0) {
            put_values(shell, maker, found, text[from + 1] == '@', quoted);
        } else if (redcoi_shell_variable(shell, text + from + 1, stop - from - 1) == NULL) {
            put_missing(shell, maker, text + from + 1, stop - from - 1);
        }
        return;
    }
    put(shell, maker, &value, quoted);
    redcoi_text_free(&value);
}

/* Inside of double quotes. @param at  behind the first @return behind the last */
static size_t in_quotes(redcoi_shell *shell, struct maker *maker, size_t at, size_t end)
{
    maker->quoted = true;
    while (at < end && shell->text[at] != '"' && shell->status == REDCO_OK) { expand(shell, maker, &at, end, true); }
    if (at == end) { (void)redcoi_shell_fail(shell, "quotes are not closed"); }
    return at < end ? at + 1 : end;
}

/* The next character, or what it begins. @param quoted  inside of double quotes */
static void expand(redcoi_shell *shell, struct maker *maker, size_t *at, size_t end, bool quoted)
{
    const char *const text = shell->text;
    const char c = text[*at];
    if (c == '\\' && *at + 1 < end) {
        const char next = text[*at + 1];
        if (next != '\n' && (!quoted || strchr("$`\"\\", next) != NULL)) {
            redcoi_text_add(shell, maker->text, &next, 1, place(shell, *at + 1));
        } else if (next != '\n') {
            redcoi_text_add(shell, maker->text, text + *at, 2, place(shell, *at));
        }
        *at += 2;
    } else if (c == '$') {
        dollar(shell, maker, at, end, quoted);
    } else if (c == '`') {
        const char *const stop = memchr(text + *at + 1, '`', end - *at - 1);
        const size_t to = stop != NULL ? (size_t)(stop - text) : end;
        redcoi_text value = {.size = 0};
        substitution(shell, *at + 1, to, &value);
        put(shell, maker, &value, quoted);
        redcoi_text_free(&value);
        *at = to < end ? to + 1 : end;
    } else if (c == '"' && !quoted) {
        *at = in_quotes(shell, maker, *at + 1, end);
    } else if (c == '\'' && !quoted) {
        const char *const stop = memchr(text + *at + 1, '\'', end - *at - 1);
        if (stop == NULL) {
            (void)redcoi_shell_fail(shell, "quotes are not closed");
            *at = end;
            return;
        }
        maker->quoted = true;
        redcoi_text_add(shell, maker->text, text + *at + 1, (size_t)(stop - text) - *at - 1, place(shell, *at + 1));
        *at = (size_t)(stop - text) + 1;
    } else {
        redcoi_text_add(shell, maker->text, text + *at, 1, place(shell, *at));
        ++*at;
    }
}

static bool ends_word(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';' || c == '&' || c == '|' || c == '(' ||
           c == ')' || c == '<' || c == '>';
}

static bool at_word_end(const redcoi_shell *shell)
{
    const char *const here = shell->text + shell->at;
    if (shell->at >= shell->end || ends_word(here[0])) { return true; }
    return here[0] == '\\' && (here[1] == '\n' || (here[1] == '\r' && here[2] == '\n'));
}

void redcoi_shell_word(redcoi_shell *shell, redcoi_words *out)
{
    redcoi_text text = {.size = 0};
    struct maker maker = {.out = out, .text = &text};
    while (!at_word_end(shell) && shell->status == REDCO_OK) { expand(shell, &maker, &shell->at, shell->end, false); }
    if (shell->status == REDCO_OK) { finish(shell, &maker); }
    redcoi_text_free(&text);
}

void redcoi_shell_value(redcoi_shell *shell, redcoi_text *out)
{
    struct maker maker = {.text = out};
    while (!at_word_end(shell) && shell->status == REDCO_OK) { expand(shell, &maker, &shell->at, shell->end, false); }
}
