#include "traces/nccl_row.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool is_word(const struct redcoi_word *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

/* "2025-06-01T08:00:00.000Z" and the like, as container logs put before each line. */
static bool is_time_stamp(const char *text, size_t length)
{
    return length > 11 && isdigit((unsigned char)text[0]) && text[4] == '-' && text[7] == '-' && text[10] == 'T';
}

/* Length of "[0]" at the start, as MPICH's mpiexec -prepend-rank writes it before each piece that a rank prints; 0 if
 * there is none. */
static size_t rank_tag_length(const char *text, size_t length)
{
    size_t end = 1;
    if (length == 0 || text[0] != '[') { return 0; }
    while (end < length && isdigit((unsigned char)text[end])) { end++; }
    return end > 1 && end < length && text[end] == ']' ? end + 1 : 0;
}

/* Length of a launcher's label at the start of the line: "0:" (srun --label), "[1,0]<stdout>:" (mpirun --tag-output),
 * "[0]" (mpiexec -prepend-rank), "node17:" (pdsh), a time stamp; 0 if there is none. */
static size_t label_length(const char *text, size_t length)
{
    size_t end = 0;
    while (end < length && !isspace((unsigned char)text[end])) { end++; }
    if (end == 0) { return 0; }
    if (is_time_stamp(text, end)) { return end; }
    if (text[0] == '[') {
        const char *tag = memmem(text, end, "]<std", 5);
        const char *colon = tag != NULL ? memchr(tag, ':', end - (size_t)(tag - text)) : NULL;
        return colon != NULL ? (size_t)(colon - text) + 1 : rank_tag_length(text, end);
    }
    const char *colon = memchr(text, ':', end);
    /* A colon inside the word belongs to "host:pid:tid [0] NCCL INFO". */
    if (colon == NULL || (size_t)(colon - text) + 1 != end || end == 1) { return 0; }
    const bool digits = strspn(text, "0123456789") + 1 == end;
    /* "nodes:" and "hardware:" are keys of comments whose '#' was eaten, and "NCCL version:" is none either. */
    return digits || memchr(text, '-', end) != NULL || isdigit((unsigned char)text[end - 2]) ? end : 0;
}

void redcoi_nccl_split_line(const char *text, size_t length, struct redcoi_line *line_out)
{
    enum { MAX_LABELS = 3 };
    struct redcoi_word tag = {"", 0}; /* stands between the pieces of a line, too */
    line_out->comment = false;
    for (int i = 0; i < MAX_LABELS; i++) {
        while (length > 0 && isspace((unsigned char)*text)) { text++, length--; }
        const size_t label = label_length(text, length);
        if (label == 0) { break; }
        if (rank_tag_length(text, label) == label) { tag = (struct redcoi_word){text, label}; }
        text += label;
        length -= label;
    }
    while (length > 0 && (isspace((unsigned char)*text) || *text == '#')) {
        line_out->comment |= *text == '#';
        text++, length--;
    }
    line_out->text = text;
    line_out->length = length;
    line_out->word_count = 0;
    for (size_t i = 0; i < length && line_out->word_count < REDCOI_MAX_WORDS;) {
        while (i < length && isspace((unsigned char)text[i])) { i++; }
        const size_t start = i;
        while (i < length && !isspace((unsigned char)text[i])) { i++; }
        size_t end = i;
        while (tag.length > 0 && end - start >= tag.length &&
               memcmp(text + end - tag.length, tag.text, tag.length) == 0) {
            end -= tag.length;
        }
        if (end > start) { line_out->words[line_out->word_count++] = (struct redcoi_word){text + start, end - start}; }
    }
}

struct type_size {
    const char *name;
    uint32_t bytes;
};

static const struct type_size types[] = {
    {"int8", 1},     {"uint8", 1},    {"char", 1},     {"int32", 4},  {"int", 4},     {"uint32", 4}, {"int64", 8},
    {"uint64", 8},   {"half", 2},     {"float16", 2},  {"float", 4},  {"float32", 4}, {"double", 8}, {"float64", 8},
    {"bfloat16", 2}, {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1}, {"f8e5m2", 1},
};

static uint32_t type_bytes(const struct redcoi_word *word)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (is_word(word, types[i].name)) { return types[i].bytes; }
    }
    return 0;
}

bool redcoi_nccl_is_row(const struct redcoi_line *line)
{
    uint64_t ignored = 0;
    if (line->comment || line->word_count < 3) { return false; }
    if (type_bytes(&line->words[2]) > 0) {
        /* A known type in third place: whatever stands before it was meant as size and count. */
        const char first = line->words[0].text[0];
        return isdigit((unsigned char)first) || first == '-' || first == '+' || is_word(&line->words[0], "nan");
    }
    return line->word_count >= 11 && isalpha((unsigned char)line->words[2].text[0]) &&
           redcoi_whole(line->words[0].text, line->words[0].length, &ignored) &&
           redcoi_whole(line->words[1].text, line->words[1].length, &ignored);
}

static bool is_date(const struct redcoi_word *word)
{
    return word->length == 10 && isdigit((unsigned char)word->text[0]) && word->text[4] == '-' && word->text[7] == '-';
}

size_t redcoi_nccl_layout(const struct redcoi_word *words, size_t *word_count, size_t half_words)
{
    const size_t candidates[] = {half_words, 4, 8};
    if (*word_count > 3 && is_date(&words[*word_count - 2])) { *word_count -= 2; }
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const size_t half = candidates[i];
        if (half >= 4 && *word_count >= 3 + 2 * half && *word_count <= 5 + 2 * half) { return half; }
    }
    return 0;
}

static bool absent(const struct redcoi_word *word)
{
    return is_word(word, "-") || is_word(word, "N/A") || is_word(word, "n/a");
}

/* Half of the last digit printed, relative to the value. */
static double rounding_of(const struct redcoi_word *word, double value)
{
    const char *point = memchr(word->text, '.', word->length);
    const char *exponent = memchr(word->text, 'e', word->length);
    if (value <= 0.0) { return 1.0; }
    if (exponent != NULL) { return 0.05; }
    const double unit = point == NULL ? 1.0 : pow(10.0, -(double)(word->length - (size_t)(point - word->text) - 1));
    return 0.5 * unit / value;
}

static bool read_half(const struct redcoi_word *words, uint64_t size, struct redcoi_nccl_half *half,
                      const char **what_out, struct redcoi_word *bad_out)
{
    double time_us = 0.0, alg = 0.0, bus = 0.0;
    *half = (struct redcoi_nccl_half){0};
    if (absent(&words[0])) { return true; }
    *bad_out = words[0];
    *what_out = "is not a time in microseconds";
    if (!redcoi_decimal(words[0].text, words[0].length, &time_us)) { return false; }
    *what_out = "is a time of 0 for more than 0 bytes";
    if (time_us <= 0.0 && size > 0) { return false; }
    *what_out = "is not a bandwidth in GB/s";
    *bad_out = words[1];
    if (!absent(&words[1]) && !redcoi_decimal(words[1].text, words[1].length, &alg)) { return false; }
    *bad_out = words[2];
    if (!absent(&words[2]) && !redcoi_decimal(words[2].text, words[2].length, &bus)) { return false; }
    const double expected = time_us > 0.0 ? (double)size / time_us * 1e-3 : 0.0;
    *what_out = "as algbw contradicts size and time of its row";
    *bad_out = words[1];
    if (alg >= 1.0 && fabs(alg - expected) > expected * (0.02 + 2.0 * rounding_of(&words[0], time_us)) + 0.01) {
        return false;
    }
    half->time_us = time_us;
    half->bus_gb_per_s = bus;
    half->relative_error = rounding_of(&words[0], time_us) + rounding_of(&words[2], bus);
    return true;
}

bool redcoi_nccl_row_read(const struct redcoi_word *words, size_t word_count, size_t half_words,
                          struct redcoi_nccl_row *row_out, const char **what_out, struct redcoi_word *bad_out)
{
    struct redcoi_nccl_row row = {0};
    const size_t lead = word_count - 2 * half_words;
    uint64_t root = 0;
    *bad_out = words[0];
    *what_out = "is not a size in bytes";
    if (!redcoi_whole(words[0].text, words[0].length, &row.size)) { return false; }
    *bad_out = words[1];
    *what_out = "is not a count of elements";
    if (!redcoi_whole(words[1].text, words[1].length, &row.count)) { return false; }
    row.element_bytes = type_bytes(&words[2]);
    row.lead_only = lead == 3;
    for (size_t i = 3; i < lead; i++) {
        const struct redcoi_word *word = &words[i];
        if (is_word(word, "-") || is_word(word, "-1") || is_word(word, "none")) { continue; }
        if (redcoi_whole(word->text, word->length, &root)) {
            row.has_root = true;
        } else if (isalpha((unsigned char)word->text[0])) {
            row.has_redop = true;
        } else {
            *bad_out = *word;
            *what_out = "is neither a reduction nor a root";
            return false;
        }
    }
    for (size_t i = 0; i < REDCO_PLACEMENTS; i++) {
        if (!read_half(words + lead + i * half_words, row.size, &row.half[i], what_out, bad_out)) { return false; }
    }
    *row_out = row;
    return true;
}
