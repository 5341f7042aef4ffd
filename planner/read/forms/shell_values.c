/* Arithmetic and tests of a shell script. */
#include "planner/read/forms/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sum {
    redcoi_shell *shell;
    const char *at;
    const char *needs; /* the mark of what is not known; NULL */
    char name[64];     /* it, where it is made here */
    uint32_t depth;
    bool bad;
};

static int64_t conditional(struct sum *sum);

static void blanks(struct sum *sum)
{
    while (isspace((unsigned char)*sum->at) != 0 || *sum->at == '\\') { sum->at++; }
}

/* A variable by its bare name is worth what its text says. */
static int64_t named(struct sum *sum)
{
    const char *const from = sum->at;
    char *end = NULL;
    while (isalnum((unsigned char)*sum->at) != 0 || *sum->at == '_') { sum->at++; }
    const redcoi_variable *const variable = redcoi_shell_variable(sum->shell, from, (size_t)(sum->at - from));
    if (variable == NULL) { /* an environment's, perhaps */
        (void)snprintf(sum->name, sizeof sum->name, "\001%.*s\002", (int)(sum->at - from), from);
        sum->needs = sum->name;
        return 0;
    }
    if (variable->words.count == 0) { return 0; }
    const char *const text = redcoi_text_of(&variable->words.items[0]);
    if (strchr(text, REDCOI_UNKNOWN) != NULL) {
        sum->needs = strchr(text, REDCOI_UNKNOWN);
        return 0;
    }
    const int64_t value = strtoll(text, &end, 10);
    sum->bad = sum->bad || *end != '\0';
    return value;
}

static int64_t operand(struct sum *sum)
{
    blanks(sum);
    if (++sum->depth > REDCOI_SHELL_DEPTH || *sum->at == '\0') {
        sum->bad = true;
        return 0;
    }
    int64_t value = 0;
    char *end = NULL;
    const char c = *sum->at;
    if (c == '(') {
        sum->at++;
        value = conditional(sum);
        blanks(sum);
        sum->bad = sum->bad || *sum->at != ')';
        sum->at += *sum->at == ')' ? 1 : 0;
    } else if (c == '-' || c == '+' || c == '!') {
        sum->at++;
        value = operand(sum);
        value = c == '-' ? (int64_t)(0 - (uint64_t)value) : c == '!' ? value == 0 : value;
    } else if (c == REDCOI_UNKNOWN) {
        sum->needs = sum->at;
        sum->at += strcspn(sum->at, "\002");
        sum->at += *sum->at != '\0' ? 1 : 0;
    } else if (isdigit((unsigned char)c) != 0) {
        value = strtoll(sum->at, &end, 10);
        sum->at = end;
    } else if (isalpha((unsigned char)c) != 0 || c == '_') {
        value = named(sum);
    } else {
        sum->bad = true;
    }
    sum->depth--;
    return value;
}

static int64_t product(struct sum *sum)
{
    int64_t value = operand(sum);
    for (blanks(sum); !sum->bad && strchr("*/%", *sum->at) != NULL && *sum->at != '\0'; blanks(sum)) {
        const char sign = *sum->at++;
        const int64_t other = operand(sum);
        if (sign == '*') {
            sum->bad = sum->bad || __builtin_mul_overflow(value, other, &value);
        } else if (other == 0 || (other == -1 && value == INT64_MIN)) {
            sum->bad = sum->bad || sum->needs == NULL;
        } else {
            value = sign == '/' ? value / other : value % other;
        }
    }
    return value;
}

static int64_t total(struct sum *sum)
{
    int64_t value = product(sum);
    for (blanks(sum); !sum->bad && (*sum->at == '+' || *sum->at == '-'); blanks(sum)) {
        const char sign = *sum->at++;
        const int64_t other = product(sum);
        sum->bad = sum->bad || (sign == '+' ? __builtin_add_overflow(value, other, &value)
                                            : __builtin_sub_overflow(value, other, &value));
    }
    return value;
}

static int64_t comparison(struct sum *sum)
{
    int64_t value = total(sum);
    blanks(sum);
    const char c = sum->at[0];
    const bool equal = c != '\0' && sum->at[1] == '=';
    if (c == '<' || c == '>' || ((c == '=' || c == '!') && equal)) {
        sum->at += equal ? 2 : 1;
        const int64_t other = total(sum);
        switch (c) {
        case '<': return equal ? value <= other : value < other;
        case '>': return equal ? value >= other : value > other;
        case '=': return value == other;
        default: return value != other;
        }
    }
    return value;
}

static int64_t conditional(struct sum *sum)
{
    const int64_t value = comparison(sum);
    blanks(sum);
    if (*sum->at != '?') { return value; }
    sum->at++;
    const int64_t yes = conditional(sum);
    blanks(sum);
    sum->bad = sum->bad || *sum->at != ':';
    sum->at += *sum->at == ':' ? 1 : 0;
    const int64_t no = conditional(sum);
    return value != 0 ? yes : no;
}

void redcoi_shell_arithmetic(redcoi_shell *shell, const redcoi_text *expression, redcoi_text *out)
{
    static const char odd[] = "\001$((...))\002";
    char number[32];
    struct sum sum = {.shell = shell, .at = redcoi_text_of(expression)};
    const int64_t value = conditional(&sum);
    blanks(&sum);
    if (sum.needs != NULL) {
        const size_t size = strcspn(sum.needs, "\002");
        redcoi_text_add(shell, out, sum.needs, size + (sum.needs[size] != '\0' ? 1 : 0), REDCOI_NO_PLACE);
    } else if (sum.bad || *sum.at != '\0') {
        redcoi_text_add(shell, out, odd, sizeof odd - 1, REDCOI_NO_PLACE);
    } else {
        const int size = snprintf(number, sizeof number, "%lld", (long long)value);
        redcoi_text_add(shell, out, number, (size_t)size, REDCOI_NO_PLACE);
    }
}

static redcoi_truth opposite(redcoi_truth truth)
{
    return truth == REDCOI_MAYBE ? truth : truth == REDCOI_TRUE ? REDCOI_FALSE : REDCOI_TRUE;
}

static redcoi_truth truth_of(bool value)
{
    return value ? REDCOI_TRUE : REDCOI_FALSE;
}

/* A variable that nobody set is empty; a command's output is not known. @return NULL: not known */
static const char *known(const redcoi_text *text, char *buffer, size_t size)
{
    const char *const bytes = redcoi_text_of(text);
    size_t used = 0;
    if (strstr(bytes, "\001$") != NULL || strstr(bytes, "\001{") != NULL) { return NULL; }
    for (const char *c = bytes; *c != '\0' && used + 1 < size; c++) {
        if (*c == REDCOI_UNKNOWN) {
            c += strcspn(c, "\002");
            if (*c == '\0') { break; }
        } else {
            buffer[used++] = *c;
        }
    }
    buffer[used] = '\0';
    return buffer;
}

static redcoi_truth compared(const redcoi_text *left, const char *sign, const redcoi_text *right)
{
    char a[256], b[256];
    static const char *const numbers[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    const char *const x = known(left, a, sizeof a), *const y = known(right, b, sizeof b);
    if (x == NULL || y == NULL) { return REDCOI_MAYBE; }
    if (strcmp(sign, "=") == 0 || strcmp(sign, "==") == 0) {
        return strpbrk(y, "*?[") != NULL ? REDCOI_MAYBE : truth_of(strcmp(x, y) == 0);
    }
    if (strcmp(sign, "!=") == 0) { return strpbrk(y, "*?[") != NULL ? REDCOI_MAYBE : truth_of(strcmp(x, y) != 0); }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(sign, numbers[i]) != 0) { continue; }
        const long long p = strtoll(x, NULL, 10), q = strtoll(y, NULL, 10);
        const bool values[] = {p == q, p != q, p<q, p <= q, p> q, p >= q};
        return truth_of(values[i]);
    }
    return REDCOI_MAYBE;
}

struct test {
    const redcoi_words *words;
    const char *script;
    size_t at;
    uint32_t depth;
};

static redcoi_truth either(struct test *test);

static const char *word_at(const struct test *test, size_t offset)
{
    return test->at + offset < test->words->count ? redcoi_text_of(&test->words->items[test->at + offset]) : "";
}

static bool joins(const char *word)
{
    return strcmp(word, "-a") == 0 || strcmp(word, "&&") == 0 || strcmp(word, "-o") == 0 || strcmp(word, "||") == 0 ||
           strcmp(word, ")") == 0;
}

/* A file that lies beside the script is there; of any other only a run knows. */
static redcoi_truth lies_beside(const char *script, const char *name)
{
    char path[600];
    const char *const slash = strrchr(script, '/');
    name += strncmp(name, "./", 2) == 0 ? 2 : 0;
    if (name[0] == '\0' || strchr(name, '/') != NULL) { return REDCOI_MAYBE; }
    (void)snprintf(path, sizeof path, "%.*s%.200s", slash != NULL ? (int)(slash - script) + 1 : 0, script, name);
    return access(path, R_OK) == 0 ? REDCOI_TRUE : REDCOI_MAYBE;
}

static redcoi_truth primary(struct test *test)
{
    char buffer[256] = "";
    const char *const word = word_at(test, 0);
    if (test->at >= test->words->count || ++test->depth > REDCOI_SHELL_DEPTH) { return REDCOI_FALSE; }
    if (strcmp(word, "!") == 0) {
        test->at++;
        return opposite(primary(test));
    }
    if (strcmp(word, "(") == 0) {
        test->at++;
        const redcoi_truth inner = either(test);
        test->at++;
        return inner;
    }
    if (test->at + 2 < test->words->count && !joins(word_at(test, 1)) && word[0] != '-') {
        const redcoi_text *const words = &test->words->items[test->at];
        test->at += 3;
        return compared(&words[0], redcoi_text_of(&words[1]), &words[2]);
    }
    if (word[0] == '-' && word[1] != '\0' && word[2] == '\0' && test->at + 1 < test->words->count) {
        const char *const value = known(&test->words->items[test->at + 1], buffer, sizeof buffer);
        const char what = word[1];
        test->at += 2;
        if (value != NULL && strchr("efrs", what) != NULL) { return lies_beside(test->script, value); }
        if (value == NULL || (what != 'z' && what != 'n')) { return REDCOI_MAYBE; }
        return truth_of((value[0] == '\0') == (what == 'z'));
    }
    const char *const value = known(&test->words->items[test->at], buffer, sizeof buffer);
    test->at++;
    return value == NULL ? REDCOI_MAYBE : truth_of(value[0] != '\0');
}

static redcoi_truth both(struct test *test)
{
    redcoi_truth truth = primary(test);
    while (strcmp(word_at(test, 0), "-a") == 0 || strcmp(word_at(test, 0), "&&") == 0) {
        test->at++;
        const redcoi_truth other = primary(test);
        truth = truth == REDCOI_FALSE || other == REDCOI_FALSE ? REDCOI_FALSE : truth == REDCOI_TRUE ? other : truth;
    }
    return truth;
}

static redcoi_truth either(struct test *test)
{
    redcoi_truth truth = both(test);
    while (strcmp(word_at(test, 0), "-o") == 0 || strcmp(word_at(test, 0), "||") == 0) {
        test->at++;
        const redcoi_truth other = both(test);
        truth = truth == REDCOI_TRUE || other == REDCOI_TRUE ? REDCOI_TRUE : truth == REDCOI_FALSE ? other : truth;
    }
    return truth;
}

redcoi_truth redcoi_shell_test(const redcoi_words *words, const char *script)
{
    struct test test = {.words = words, .script = script};
    return either(&test);
}
