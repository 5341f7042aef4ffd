#include "tools/plot.h"

#include "topology/base/file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Generated from tools/gnuplot by tools/gnuplot/embed.cmake. */
extern const char *const plot_scripts[][2];

const char *const plot_kind_words[] = {"mfu-vs-gpus", "predicted-vs-measured", "memory",  "time", "timeline",
                                       "pareto",      "collectives",           "overlap", NULL};

enum { LONGEST_TEXT = 120 };

static const char *script_of(const char *name)
{
    for (size_t i = 0; plot_scripts[i][0] != NULL; i++) {
        if (strcmp(plot_scripts[i][0], name) == 0) { return plot_scripts[i][1]; }
    }
    return "";
}

/* Length of the well-formed UTF-8 sequence at @p text, 0 if there is none. */
static size_t sequence_length(const unsigned char *text)
{
    const size_t length = text[0] < 0x80                       ? 1
                          : text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                          : text[0] >= 0xe0 && text[0] <= 0xef ? 3
                          : text[0] >= 0xf0 && text[0] <= 0xf4 ? 4
                                                               : 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) { return 0; }
    }
    return length;
}

/* What a character means to gnuplot decides how it is written. */
static const char *written(char character, const char *const escapes[][2])
{
    for (size_t i = 0; escapes[i][0] != NULL; i++) {
        if (escapes[i][0][0] == character) { return escapes[i][1]; }
    }
    return NULL;
}

static void write_text(FILE *text, const char *string, const char *const escapes[][2])
{
    const char *at = string;
    for (int count = 0; *at != '\0' && count < LONGEST_TEXT; count++) {
        const size_t length = sequence_length((const unsigned char *)at);
        const char *other = length == 1 ? written(*at, escapes) : NULL;
        if (length == 0) {
            (void)fputc('?', text);
        } else if (length == 1 && ((unsigned char)*at < 0x20 || *at == 0x7f)) {
            (void)fputc(' ', text);
        } else if (other != NULL) {
            (void)fputs(other, text);
        } else {
            (void)fprintf(text, "%.*s", (int)length, at);
        }
        at += length == 0 ? 1 : length;
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

static const struct {
    const char *name, *label;
} strategies[] = {/* index + 1 is the style in common.gp */
                  {"ddp", "DDP"},         {"zero1", "ZeRO-1"},  {"zero2", "ZeRO-2"},     {"zero3", "ZeRO-3"},
                  {"mics", "MiCS"},       {"zeropp", "ZeRO++"}, {"hsdp", "hybrid FSDP"}, {"amsp", "AMSP"},
                  {"optimum", "optimum"}, {"fixed", "fixed"}};

int plot_strategy_style(const char *name)
{
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        if (strcmp(strategies[i].name, name) == 0) { return (int)i + 1; }
    }
    return 0;
}

const char *plot_strategy_label(const char *name)
{
    const int style = plot_strategy_style(name);
    return style > 0 ? strategies[style - 1].label : name;
}

redco_status plot_input_read(const char *path, struct plot_input *input_out, redco_error *err)
{
    static const size_t most_bytes = (size_t)256 << 20;
    char *text = NULL;
    size_t size = 0;
    redco_status st = redco_file_read(path, most_bytes, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    const char first = text[strspn(text, " \t\r\n")];
    if (first == '{' || first == '[' || first == '\0') {
        st = redco_json_parse(text, size, name, &input_out->json, err);
    } else {
        st = redco_measured_parse(text, size, name, &input_out->measured, err);
    }
    free(text);
    return st;
}

void plot_input_free(struct plot_input *input)
{
    redco_json_close(input->json);
    redco_measured_free(input->measured);
    *input = (struct plot_input){0};
}

static void write_terminal(FILE *out, enum plot_format format, const struct plot_sheet *sheet)
{
    const unsigned w = sheet->width;
    const unsigned h = sheet->height;
    switch (format) {
    case PLOT_PNG:
        (void)fprintf(out,
                      "set terminal pngcairo noenhanced size %u,%u font 'sans,12' fontscale 1.5 linewidth 2 "
                      "pointscale 2.5\n",
                      2 * w, 2 * h);
        break;
    case PLOT_PDF:
        (void)fprintf(out, "set terminal pdfcairo noenhanced size %.3fin,%.3fin font 'sans,12' fontscale 0.75\n",
                      w / 96.0, h / 96.0);
        break;
    case PLOT_SVG:
    case PLOT_SCRIPT:
        (void)fprintf(out, "set terminal svg noenhanced size %u,%u dynamic background 'white' font 'sans-serif,12'\n",
                      w, h);
        break;
    }
}

/* Terminal, looks, data, picture. */
static redco_status assemble(const struct plot_sheet *sheet, enum plot_format format, const char *data, char **text_out,
                             size_t *size_out, redco_error *err)
{
    FILE *out = open_memstream(text_out, size_out);
    if (out == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    write_terminal(out, format, sheet);
    (void)fprintf(out, "%s%s%s", script_of("common"), data, script_of(sheet->script));
    if (fclose(out) == 0) { return REDCO_OK; }
    free(*text_out);
    *text_out = NULL;
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status need_json(enum plot_kind kind, const struct plot_input *inputs, size_t count, const char *from,
                              redco_json_value *root_out, redco_error *err)
{
    if (count == 1 && inputs[0].json != NULL) {
        *root_out = redco_json_root(inputs[0].json);
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_EVALUE, plot_kind_words[kind], "is drawn from one JSON document: %s", from);
}

/* Data of the kinds that show plans. */
static redco_status write_plans(enum plot_kind kind, const struct plot_plans *plans, const struct plot_input *inputs,
                                size_t count, struct plot_sheet *sheet, redco_error *err)
{
    switch (kind) {
    case PLOT_MFU_VS_GPUS: return plot_mfu(plans, inputs, count, sheet, err);
    case PLOT_OVERLAP: return plot_overlap(plans, inputs, count, sheet, err);
    case PLOT_PARETO: return plot_pareto(plans, sheet, err);
    default: return plot_stacks(plans, kind == PLOT_MEMORY, sheet, err);
    }
}

static redco_status read_plans(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                               struct plot_plans *plans, redco_error *err)
{
    const bool with_runs = kind == PLOT_MFU_VS_GPUS || kind == PLOT_OVERLAP;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if (inputs[i].json != NULL) {
            const redco_json_value root = redco_json_root(inputs[i].json);
            st = plot_plans_read(&root, plans, err);
        } else if (!with_runs) {
            st = redco_fail(err, REDCO_EVALUE, plot_kind_words[kind],
                            "takes JSON documents of redco-plan, no tables of measured runs");
        }
    }
    return st;
}

static redco_status write_data(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                               struct plot_sheet *sheet, redco_error *err)
{
    struct plot_plans plans = {0};
    redco_json_value root;
    redco_status st = REDCO_OK;
    switch (kind) {
    case PLOT_PREDICTED_VS_MEASURED:
        st = need_json(kind, inputs, count, "redco-validate --measured CSV... --json", &root, err);
        return st == REDCO_OK ? plot_scatter(&root, sheet, err) : st;
    case PLOT_TIMELINE:
        st = need_json(kind, inputs, count, "the trace of --timeline", &root, err);
        return st == REDCO_OK ? plot_timeline(&root, sheet, err) : st;
    case PLOT_COLLECTIVES: return plot_collectives(inputs, count, sheet, err);
    default: break;
    }
    st = read_plans(kind, inputs, count, &plans, err);
    if (st == REDCO_OK) { st = write_plans(kind, &plans, inputs, count, sheet, err); }
    free(plans.rows);
    return st;
}

/* @param plans  NULL: from @p inputs */
static redco_status compose(enum plot_kind kind, const struct plot_plans *plans, const struct plot_input *inputs,
                            size_t count, const struct plot_options *options, enum plot_format format, char **text_out,
                            size_t *size_out, redco_error *err)
{
    char *data = NULL;
    size_t size = 0;
    struct plot_sheet sheet = {.text = open_memstream(&data, &size), .options = options};
    if (sheet.text == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = plans != NULL ? write_plans(kind, plans, inputs, count, &sheet, err)
                                    : write_data(kind, inputs, count, &sheet, err);
    if (fclose(sheet.text) != 0 && st == REDCO_OK) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (st == REDCO_OK) { st = assemble(&sheet, format, data, text_out, size_out, err); }
    free(data);
    return st;
}

redco_status plot_compose(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                          const struct plot_options *options, enum plot_format format, char **text_out,
                          size_t *size_out, redco_error *err)
{
    return compose(kind, NULL, inputs, count, options, format, text_out, size_out, err);
}

redco_status plot_compose_plans(enum plot_kind kind, const struct plot_plans *plans, const struct plot_options *options,
                                enum plot_format format, char **text_out, size_t *size_out, redco_error *err)
{
    return compose(kind, plans, NULL, 0, options, format, text_out, size_out, err);
}
