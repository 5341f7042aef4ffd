#include "topology/base/hostlist.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 8, MAX_DIGITS = 18 };

static const size_t max_storage_bytes = (size_t)16 << 20;

struct redco_hostlist {
    char *storage; /* names, each with its 0 byte */
    size_t used_bytes, capacity_bytes;
    size_t *offsets; /* offset of each name in storage */
    size_t count, capacity;
};

redco_hostlist *redco_hostlist_new(void)
{
    return calloc(1, sizeof(redco_hostlist));
}

void redco_hostlist_free(redco_hostlist *list)
{
    if (list == NULL) { return; }
    free(list->storage);
    free(list->offsets);
    free(list);
}

size_t redco_hostlist_count(const redco_hostlist *list)
{
    return list->count;
}

const char *redco_hostlist_name(const redco_hostlist *list, size_t index)
{
    return list->storage + list->offsets[index];
}

static bool reserve(redco_hostlist *list, size_t names, size_t bytes)
{
    if (names > list->capacity) {
        const size_t capacity = names < 16 ? 16 : names + names / 2;
        size_t *offsets = realloc(list->offsets, capacity * sizeof *offsets);
        if (offsets == NULL) { return false; }
        list->offsets = offsets;
        list->capacity = capacity;
    }
    if (bytes > list->capacity_bytes) {
        const size_t capacity = bytes < 256 ? 256 : bytes + bytes / 2;
        char *storage = realloc(list->storage, capacity);
        if (storage == NULL) { return false; }
        list->storage = storage;
        list->capacity_bytes = capacity;
    }
    return true;
}

/* One item of a list: literal text, then (except in the last part) a bracketed list of ranges. */
struct part {
    const char *text;
    size_t length;
    const char *ranges;
    size_t ranges_length;
};

struct item {
    struct part parts[MAX_BRACKETS + 1];
    size_t brackets;
    uint64_t names;    /* that it expands to */
    size_t name_bytes; /* bytes of the longest name */
};

struct range {
    uint64_t first, last;
    size_t width;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Host and switch names: printable ASCII without the list's own syntax and what would break other files. */
static bool is_name_character(char c)
{
    return c > ' ' && c < 0x7f && strchr(",[]\"'\\#=", c) == NULL;
}

static size_t read_number(const char *text, size_t size, uint64_t *value_out)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < size && i < MAX_DIGITS && is_digit(text[i])) { value = value * 10 + (uint64_t)(text[i++] - '0'); }
    *value_out = value;
    return i;
}

/* Reads "7" or "001-128" at the start of text; *used_out: its length. */
static redco_status read_range(const char *text, size_t size, struct range *range_out, size_t *used_out,
                               const char *place, redco_error *err)
{
    const int shown = size < 40 ? (int)size : 40;
    struct range range = {0};
    const size_t width = read_number(text, size, &range.first);
    size_t used = width;
    size_t last_width = width;
    range.last = range.first;
    range.width = width;
    if (width > 0 && used < size && text[used] == '-') {
        last_width = read_number(text + used + 1, size - used - 1, &range.last);
        used += 1 + last_width;
    }
    if (width == 0 || last_width == 0 || (used < size && text[used] != ',')) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "\"%.*s\" is not a number or range of at most %d digits, such as 7 or 001-128", shown, text,
                          MAX_DIGITS);
    }
    if (range.last < range.first) {
        return redco_fail(err, REDCO_EVALUE, place, "the range \"%.*s\" runs backwards", (int)used, text);
    }
    if (last_width != width && text[width + 1] == '0') {
        return redco_fail(err, REDCO_EVALUE, place, "the ends of the range \"%.*s\" are padded to different widths",
                          (int)used, text);
    }
    *range_out = range;
    *used_out = used;
    return REDCO_OK;
}

/* Counts the numbers of a bracket and the digits of the longest one. */
static redco_status measure_ranges(const struct part *part, uint64_t *count_out, size_t *width_out, const char *place,
                                   redco_error *err)
{
    uint64_t count = 0;
    size_t widest = 0;
    size_t at = 0;
    for (;;) {
        struct range range;
        size_t used = 0;
        const redco_status st = read_range(part->ranges + at, part->ranges_length - at, &range, &used, place, err);
        if (st != REDCO_OK) { return st; }
        const uint64_t numbers = range.last - range.first + 1;
        if (numbers > REDCO_HOSTLIST_MAX_NAMES || count + numbers > REDCO_HOSTLIST_MAX_NAMES) {
            return redco_fail(err, REDCO_EVALUE, place, "\"[%.*s]\" names more than %d hosts, the most that is read",
                              (int)(part->ranges_length < 40 ? part->ranges_length : 40), part->ranges,
                              REDCO_HOSTLIST_MAX_NAMES);
        }
        count += numbers;
        /* The last number is the longest: as long as it is written, or padded to the width of the first. */
        const size_t last_width = used > range.width ? used - range.width - 1 : 0;
        const size_t width = last_width > range.width ? last_width : range.width;
        if (width > widest) { widest = width; }
        at += used;
        if (at == part->ranges_length) { break; }
        at++; /* the comma, after which another range must follow */
    }
    *count_out = count;
    *width_out = widest;
    return REDCO_OK;
}

static redco_status fail_item(redco_error *err, const char *place, const char *text, size_t size, const char *what)
{
    return redco_fail(err, REDCO_EVALUE, place, "host list \"%.*s\": %s", (int)(size < 60 ? size : 60), text, what);
}

/* Cuts the item at the start of text into parts; *used_out: its length, up to a comma outside brackets or the end. */
static redco_status read_item(const char *text, size_t size, struct item *item, size_t *used_out, const char *place,
                              redco_error *err)
{
    struct part *part = &item->parts[0];
    size_t at = 0;
    *item = (struct item){.names = 1};
    part->text = text;
    for (; at < size && text[at] != ','; at++) {
        if (text[at] != '[') {
            if (text[at] == ']') { return fail_item(err, place, text, size, "\"]\" without \"[\""); }
            if (!is_name_character(text[at])) {
                return redco_fail(err, REDCO_EVALUE, place,
                                  "host list \"%.*s\": character 0x%02x is not part of a name",
                                  (int)(at < 60 ? at : 60), text, (unsigned)(unsigned char)text[at]);
            }
            part->length++;
            continue;
        }
        const char *end = memchr(text + at, ']', size - at);
        if (end == NULL) { return fail_item(err, place, text, size, "\"[\" without \"]\""); }
        if (item->brackets == MAX_BRACKETS) { return fail_item(err, place, text, size, "more than 8 brackets"); }
        part->ranges = text + at + 1;
        part->ranges_length = (size_t)(end - part->ranges);
        uint64_t count = 0;
        size_t width = 0;
        const redco_status st = measure_ranges(part, &count, &width, place, err);
        if (st != REDCO_OK) { return st; }
        item->names *= count; /* each factor is at most 10^6 and the product is checked at once */
        item->name_bytes += width;
        if (item->names > REDCO_HOSTLIST_MAX_NAMES) {
            return redco_fail(err, REDCO_EVALUE, place, "\"%.*s\" names more than %d hosts, the most that is read",
                              (int)(size < 60 ? size : 60), text, REDCO_HOSTLIST_MAX_NAMES);
        }
        at = (size_t)(end - text);
        part = &item->parts[++item->brackets];
        part->text = end + 1;
    }
    for (size_t i = 0; i <= item->brackets; i++) { item->name_bytes += item->parts[i].length; }
    if (at == 0) { return fail_item(err, place, text, size, "a name is missing"); }
    if (item->name_bytes > REDCO_HOSTLIST_MAX_NAME_BYTES) {
        return fail_item(err, place, text, size, "a name is longer than 255 characters");
    }
    *used_out = at;
    return REDCO_OK;
}

static size_t write_number(char *buffer, uint64_t value, size_t width)
{
    char digits[24];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count < width) { digits[count++] = '0'; }
    for (size_t i = 0; i < count; i++) { buffer[i] = digits[count - 1 - i]; }
    return count;
}

/* Appends all names of the item whose first `used` bytes stand in name; the item was measured, so that it fits. */
static void expand(redco_hostlist *list, const struct item *item, size_t index, char *name, size_t used)
{
    const struct part *part = &item->parts[index];
    memcpy(name + used, part->text, part->length);
    used += part->length;
    if (index == item->brackets) {
        list->offsets[list->count++] = list->used_bytes;
        memcpy(list->storage + list->used_bytes, name, used);
        list->used_bytes += used;
        list->storage[list->used_bytes++] = '\0';
        return;
    }
    for (size_t at = 0; at < part->ranges_length; at++) { /* steps over the comma */
        struct range range = {0};
        size_t length = 0;
        (void)read_range(part->ranges + at, part->ranges_length - at, &range, &length, "", NULL);
        at += length;
        for (uint64_t number = range.first; number <= range.last; number++) {
            expand(list, item, index + 1, name, used + write_number(name + used, number, range.width));
        }
    }
}

redco_status redco_hostlist_append(redco_hostlist *list, const char *text, size_t size, const char *place,
                                   redco_error *err)
{
    const size_t old_count = list->count;
    const size_t old_bytes = list->used_bytes;
    redco_status st = REDCO_OK;
    size_t at = 0;
    for (;;) {
        struct item item;
        size_t used = 0;
        st = read_item(text + at, size - at, &item, &used, place, err);
        if (st != REDCO_OK) { break; }
        const uint64_t bytes = item.names * (item.name_bytes + 1);
        if (item.names > REDCO_HOSTLIST_MAX_NAMES - list->count || bytes > max_storage_bytes - list->used_bytes) {
            st = redco_fail(err, REDCO_EVALUE, place, "more than %d hosts, or %zu bytes of names, are not read",
                            REDCO_HOSTLIST_MAX_NAMES, max_storage_bytes);
            break;
        }
        if (!reserve(list, list->count + (size_t)item.names, list->used_bytes + (size_t)bytes)) {
            st = redco_fail(err, REDCO_ENOMEM, place, "out of memory");
            break;
        }
        char name[REDCO_HOSTLIST_MAX_NAME_BYTES + 1];
        expand(list, &item, 0, name, 0);
        at += used;
        if (at == size) { return REDCO_OK; }
        at++; /* the comma, after which another name must follow */
    }
    list->count = old_count;
    list->used_bytes = old_bytes;
    return st;
}

/* Names that differ in one number only: prefix number suffix. */
struct family {
    size_t prefix, suffix; /* lengths */
    bool known;
};

static bool number_of(const char *name, const struct family *family, uint64_t *value_out, size_t *width_out)
{
    const size_t length = strlen(name);
    if (length <= family->prefix + family->suffix) { return false; }
    const size_t width = length - family->prefix - family->suffix;
    if (width > MAX_DIGITS) { return false; }
    *width_out = width;
    return read_number(name + family->prefix, width, value_out) == width;
}

/* Finds the one run of digits in which two names differ. */
static bool find_family(const char *a, const char *b, struct family *family)
{
    const size_t length_a = strlen(a);
    const size_t length_b = strlen(b);
    const size_t shorter = length_a < length_b ? length_a : length_b;
    struct family found = {.known = true};
    uint64_t value = 0;
    size_t width = 0;
    while (found.prefix < shorter && a[found.prefix] == b[found.prefix]) { found.prefix++; }
    if (found.prefix == length_a && found.prefix == length_b) { return false; }
    while (found.prefix > 0 && is_digit(a[found.prefix - 1])) { found.prefix--; }
    while (found.suffix < shorter - found.prefix && a[length_a - 1 - found.suffix] == b[length_b - 1 - found.suffix]) {
        found.suffix++;
    }
    while (found.suffix > 0 && is_digit(a[length_a - found.suffix])) { found.suffix--; }
    if (!number_of(a, &found, &value, &width) || !number_of(b, &found, &value, &width)) { return false; }
    *family = found;
    return true;
}

static bool same_family(const char *a, const char *b, const struct family *family)
{
    const size_t length_a = strlen(a);
    const size_t length_b = strlen(b);
    uint64_t value = 0;
    size_t width = 0;
    return number_of(b, family, &value, &width) && strncmp(a, b, family->prefix) == 0 &&
           strcmp(a + length_a - family->suffix, b + length_b - family->suffix) == 0;
}

/* True if b follows a by one in the way a range that starts with `width` digits would write it. */
static bool follows(const char *a, const char *b, const struct family *family, size_t width)
{
    uint64_t value_a = 0;
    uint64_t value_b = 0;
    size_t width_a = 0;
    size_t width_b = 0;
    if (!number_of(a, family, &value_a, &width_a) || !number_of(b, family, &value_b, &width_b)) { return false; }
    char digits[24];
    return value_b == value_a + 1 && write_number(digits, value_b, width) == width_b;
}

static void write_family(FILE *stream, const char *const *names, size_t count, const struct family *family)
{
    const char *first = names[0];
    (void)fprintf(stream, "%.*s[", (int)family->prefix, first);
    for (size_t i = 0; i < count;) {
        uint64_t value = 0;
        size_t width = 0;
        (void)number_of(names[i], family, &value, &width);
        const size_t start_width = width;
        size_t end = i;
        while (end + 1 < count && follows(names[end], names[end + 1], family, start_width)) { end++; }
        (void)fprintf(stream, "%s%.*s", i > 0 ? "," : "", (int)width, names[i] + family->prefix);
        if (end > i) {
            (void)number_of(names[end], family, &value, &width);
            (void)fprintf(stream, "-%.*s", (int)width, names[end] + family->prefix);
        }
        i = end + 1;
    }
    (void)fprintf(stream, "]%s", first + strlen(first) - family->suffix);
}

char *redco_hostlist_compact(const char *const *names, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) { return NULL; }
    for (size_t i = 0; i < count;) {
        struct family family = {0};
        size_t members = 1;
        if (i + 1 < count && find_family(names[i], names[i + 1], &family)) {
            members = 2;
            while (i + members < count && same_family(names[i], names[i + members], &family)) { members++; }
        }
        if (i > 0) { (void)fputc(',', stream); }
        if (family.known) {
            write_family(stream, names + i, members, &family);
        } else {
            (void)fputs(names[i], stream);
        }
        i += members;
    }
    const bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
