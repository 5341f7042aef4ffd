/* Texts in gnuplot scripts: quoted and cut; kinds and strategies by their usual words. */
#include "tools/plot/plot.h"

#include "costmodel/schedules/strategies.h"
#include "topology/base/text.h"

#include <stdarg.h>
#include <string.h>

const char *const plot_kind_words[] = {"mfu-vs-gpus", "predicted-vs-measured",
                                       "memory",      "time",
                                       "timeline",    "pareto",
                                       "collectives", "overlap",
                                       "timelines",   "frontier",
                                       "phases",      "famous",
                                       NULL};

enum { LONGEST_TEXT = 120 };

/* A character is written by its meaning to gnuplot. */
static const char *written(char character, const char *const escapes[][2])
{
    for (size_t i = 0; escapes[i][0] != NULL; i++) {
        if (escapes[i][0][0] == character) { return escapes[i][1]; }
    }
    return NULL;
}

static void write_text(FILE *text, const char *string, const char *const escapes[][2])
{
    for (int count = 0; *string != '\0' && count < LONGEST_TEXT; count++) {
        size_t size = 0;
        const char *shown = redco_text_next(&string, &size);
        const char *other = size == 1 ? written(*shown, escapes) : NULL;
        if (other != NULL) {
            (void)fputs(other, text);
        } else {
            (void)fwrite(shown, 1, size, text);
        }
    }
}

void plot_cell(FILE *text, const char *string)
{
    static const char *const escapes[][2] = {{"\"", "'"}, {NULL, NULL}};
    write_text(text, string, escapes);
}

void plot_quote(FILE *text, const char *string)
{
    static const char *const escapes[][2] = {{"'", "''"}, {NULL, NULL}};
    (void)fputc('\'', text);
    write_text(text, string, escapes);
    (void)fputc('\'', text);
}

void plot_tic(FILE *text, const char *string)
{
    static const char *const escapes[][2] = {{"'", "''"}, {"%", "%%"}, {NULL, NULL}};
    (void)fputc('\'', text);
    write_text(text, string, escapes);
    (void)fputc('\'', text);
}

void plot_title(struct plot_sheet *sheet, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fprintf(sheet->text, "title = ");
    plot_quote(sheet->text, sheet->options->title != NULL ? sheet->options->title : text);
    (void)fprintf(sheet->text, "\n");
}

/* The number is the style in common.gp: those of the table, then the optimum and what is fixed. */
int plot_strategy_style(const char *name)
{
    for (int i = REDCO_STRATEGY_DDP; i < REDCO_STRATEGY_COUNT; i++) {
        if (strcmp(redco_strategies[i].word, name) == 0) { return i; }
    }
    if (strcmp(name, "optimum") == 0) { return REDCO_STRATEGY_COUNT; }
    return strcmp(name, "fixed") == 0 ? REDCO_STRATEGY_COUNT + 1 : 0;
}

const char *plot_strategy_label(const char *name)
{
    const int style = plot_strategy_style(name);
    return style > 0 && style < REDCO_STRATEGY_COUNT ? redco_strategies[style].label : name;
}
