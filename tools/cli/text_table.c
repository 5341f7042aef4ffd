#include "tools/cli/text_table.h"

#include "topology/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 20 };

struct row {
    char cells[MOST_COLUMNS][TABLE_CELL];
    int count;
    char rest[2 * TABLE_CELL];
};

struct table {
    struct row *rows;
    size_t count, capacity;
    bool failed;
    char alignment[MOST_COLUMNS + 1];
};

struct table *table_new(const char *alignment)
{
    struct table *table = calloc(1, sizeof *table);
    if (table != NULL) { (void)snprintf(table->alignment, sizeof table->alignment, "%s", alignment); }
    return table;
}

void table_free(struct table *table)
{
    if (table == NULL) { return; }
    free(table->rows);
    free(table);
}

void table_row(struct table *table)
{
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 8 : 2 * table->capacity;
        struct row *rows = realloc(table->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            table->failed = true;
            return;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    memset(&table->rows[table->count++], 0, sizeof *table->rows);
}

static struct row *last_row(struct table *table)
{
    return table->count > 0 && !table->failed ? &table->rows[table->count - 1] : NULL;
}

void table_cell(struct table *table, const char *format, ...)
{
    struct row *const row = last_row(table);
    va_list args;
    va_start(args, format);
    if (row != NULL && row->count < MOST_COLUMNS) {
        (void)vsnprintf(row->cells[row->count], TABLE_CELL, format, args);
        redco_text_clean(row->cells[row->count++]);
    }
    va_end(args);
}

void table_rest(struct table *table, const char *format, ...)
{
    struct row *const row = last_row(table);
    va_list args;
    va_start(args, format);
    if (row != NULL) {
        (void)vsnprintf(row->rest, sizeof row->rest, format, args);
        redco_text_clean(row->rest);
    }
    va_end(args);
}

void table_line(const char *format, ...)
{
    char text[8 * TABLE_CELL];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redco_text_clean(text);
    (void)puts(text);
}

int table_width(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++) { width += ((unsigned char)*text & 0xC0) != 0x80; }
    return width;
}

static void print_row(const struct table *table, const struct row *row, const int *widths, const char *indent,
                      FILE *stream)
{
    int pending = 0; /* blanks are printed before what follows them, so that no line ends in one */
    (void)fputs(indent, stream);
    for (int i = 0; i < row->count; i++) {
        const int blank = widths[i] - table_width(row->cells[i]);
        const bool left = table->alignment[i] == 'l';
        if (row->cells[i][0] != '\0') {
            (void)fprintf(stream, "%*s%s", pending + (left ? 0 : blank), "", row->cells[i]);
            pending = left ? blank : 0;
        } else {
            pending += widths[i];
        }
        pending += widths[i] > 0 ? 2 : 0;
    }
    if (row->rest[0] != '\0') { (void)fprintf(stream, "%*s%s", pending, "", row->rest); }
    (void)fputc('\n', stream);
}

bool table_print(const struct table *table, const char *indent, FILE *stream)
{
    int widths[MOST_COLUMNS] = {0};
    for (size_t r = 0; r < table->count; r++) {
        for (int i = 0; i < table->rows[r].count; i++) {
            const int width = table_width(table->rows[r].cells[i]);
            if (width > widths[i]) { widths[i] = width; }
        }
    }
    for (size_t r = 0; r < table->count; r++) { print_row(table, &table->rows[r], widths, indent, stream); }
    return !table->failed;
}

const char *format_count(uint64_t count, char *buffer, size_t size)
{
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0) { buffer[used++] = ','; }
        buffer[used++] = digits[i];
    }
    buffer[used] = '\0';
    return buffer;
}

const char *format_gpus(uint32_t nodes, uint32_t gpus_per_node, uint32_t whole_node_gpus, char *buffer, size_t size)
{
    const uint64_t gpus = (uint64_t)nodes * gpus_per_node;
    char all[32];
    char whole[16] = "";
    if (gpus_per_node < whole_node_gpus) { (void)snprintf(whole, sizeof whole, " of %u", whole_node_gpus); }
    (void)snprintf(buffer, size, "%s GPU%s: %u node%s \xc3\x97 %u%s", format_count(gpus, all, sizeof all),
                   gpus == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", gpus_per_node, whole);
    return buffer;
}

const char *format_gigabytes(double bytes, char *buffer, size_t size)
{
    const double gigabytes = bytes / 1e9;
    const int decimals = gigabytes >= 99.95 ? 0 : gigabytes >= 9.995 ? 1 : 2;
    (void)snprintf(buffer, size, "%.*f", decimals, gigabytes);
    return buffer;
}

const char *format_time(double seconds, double like, char *buffer, size_t size)
{
    const bool whole = like >= 0.0995;
    const int decimals = whole ? (like >= 0.9995 ? 2 : 3) : (like >= 0.00995 ? 1 : 3);
    (void)snprintf(buffer, size, "%.*f %s", decimals, whole ? seconds : seconds * 1e3, whole ? "s" : "ms");
    return buffer;
}

const char *format_joules(double joules, char *buffer, size_t size)
{
    static const struct {
        double factor;
        const char *name;
    } steps[] = {{1e9, "GJ"}, {1e6, "MJ"}, {1e3, "kJ"}, {1.0, "J"}, {1e-3, "mJ"}, {1e-6, "\xc2\xb5J"}};
    size_t i = 0;
    while (i + 1 < sizeof steps / sizeof steps[0] && joules / steps[i].factor < 0.9995) { i++; }
    const double shown = joules / steps[i].factor;
    (void)snprintf(buffer, size, "%.*f %s", shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2, shown, steps[i].name);
    return buffer;
}

const char *format_large(double count, char *buffer, size_t size)
{
    static const struct {
        double factor;
        const char *name;
    } steps[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const double shown = count / steps[i].factor;
        if (shown < 0.9995) { continue; }
        (void)snprintf(buffer, size, "%.*f%s", shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2, shown, steps[i].name);
        return buffer;
    }
    if (count < 99.95) {
        (void)snprintf(buffer, size, "%.3g", count);
        return buffer;
    }
    return format_count((uint64_t)llround(count), buffer, size);
}

const char *mfu_note(double mfu)
{
    return mfu > 1.0
               ? "MFU above 1: its convention counts embeddings, which are looked up, and causal attention in full"
               : "";
}

const char *format_change(double ratio, char *buffer, size_t size)
{
    const double percent = ratio * 100.0;
    if (isinf(ratio)) {
        (void)snprintf(buffer, size, "up from nothing");
    } else if (fabs(percent) < 0.05) {
        (void)snprintf(buffer, size, "0 %%");
    } else if (fabs(percent) >= 999.5) {
        (void)snprintf(buffer, size, "x %.1f", ratio + 1.0);
    } else {
        (void)snprintf(buffer, size, "%+.*f %%", fabs(percent) >= 99.95 ? 0 : 1, percent);
    }
    return buffer;
}
