/** @file text_table.h  Text tables for people: columns as wide as their widest cell, numbers right-aligned, and numbers
 * as people write them. UTF-8; widths count code points. What a terminal would obey in a cell is shown as "?". */
#ifndef REDCO_TOOLS_TABLE_H
#define REDCO_TOOLS_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_CELL = 160 };

struct table;

/** @param alignment  one character per column: 'l' left, 'r' right aligned. @return NULL when out of memory */
struct table *table_new(const char *alignment);
void table_free(struct table *table);
/** Begins a row; cells are then added from the left. */
void table_row(struct table *table);
__attribute__((format(printf, 2, 3))) void table_cell(struct table *table, const char *format, ...);
/** The rest of the row is this text, which widens no column. */
__attribute__((format(printf, 2, 3))) void table_rest(struct table *table, const char *format, ...);
/** @param indent  printed before every row. @return false when a row was lost to a lack of memory */
bool table_print(const struct table *table, const char *indent, FILE *stream);

/** A line below or above a table, in which names of others are shown likewise. */
__attribute__((format(printf, 1, 2))) void table_line(const char *format, ...);

/** Columns that UTF-8 text takes. */
int table_width(const char *text);

/** "1,234,567". @return @p buffer */
const char *format_count(uint64_t count, char *buffer, size_t size);
/** "1,024 GPUs: 128 nodes × 8"; where nodes have more GPUs than are used of each, "64 GPUs: 16 nodes × 4 of 8". */
const char *format_gpus(uint32_t nodes, uint32_t gpus_per_node, uint32_t whole_node_gpus, char *buffer, size_t size);
/** "57.1": decimal gigabytes with three significant digits. */
const char *format_gigabytes(double bytes, char *buffer, size_t size);
/** Seconds in the unit and with the digits that suit @p like, a time of the same table. */
const char *format_time(double seconds, double like, char *buffer, size_t size);
/** "6.74 B", "4.19 M", "37,240", "850", "0.443": rounded, never cut. */
const char *format_large(double count, char *buffer, size_t size);
/** "213 kJ", "50.7 mJ": three significant digits. */
const char *format_joules(double joules, char *buffer, size_t size);
/** "", or why an MFU is above 1. */
const char *mfu_note(double mfu);
/** A ratio as "+12.3 %", "0 %". */
const char *format_change(double ratio, char *buffer, size_t size);

#endif
