#include "tools/plot/plot.h"

#include "topology/base/file.h"

#include <stdlib.h>
#include <string.h>

/* Generated from tools/gnuplot by tools/gnuplot/embed.cmake. */
extern const char *const plot_scripts[][2];

static const char *script_of(const char *name)
{
    for (size_t i = 0; plot_scripts[i][0] != NULL; i++) {
        if (strcmp(plot_scripts[i][0], name) == 0) { return plot_scripts[i][1]; }
    }
    return "";
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

/* Kinds that are drawn from documents other than plans. */
static bool takes_documents(enum plot_kind kind)
{
    return kind == PLOT_PREDICTED_VS_MEASURED || kind == PLOT_COLLECTIVES || kind == PLOT_TIMELINES ||
           kind == PLOT_FRONTIER || kind == PLOT_PHASES || kind == PLOT_FAMOUS;
}

static redco_status write_documents(enum plot_kind kind, const redco_json_value *roots, size_t count,
                                    struct plot_sheet *sheet, redco_error *err)
{
    if (kind == PLOT_COLLECTIVES) { return plot_collectives(roots, count, sheet, err); }
    if (kind == PLOT_TIMELINES) { return plot_timelines_documents(roots, count, sheet, err); }
    if (count != 1) {
        return redco_fail(err, REDCO_EVALUE, plot_kind_words[kind], "is drawn from one JSON document: %s",
                          kind == PLOT_FRONTIER ? "redco-plan --tokens N --gpus 256..16384 --json"
                          : kind == PLOT_PHASES ? "redco-plan --run FILE --json"
                          : kind == PLOT_FAMOUS ? "redco-validate --famous CSV... --json"
                                                : "redco-validate --measured CSV... --json");
    }
    if (kind == PLOT_FRONTIER) { return plot_frontier(roots, sheet, err); }
    if (kind == PLOT_PHASES) { return plot_phases(roots, sheet, err); }
    if (kind == PLOT_FAMOUS) { return plot_famous(roots, sheet, err); }
    return plot_scatter(roots, sheet, err);
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

/* A table of measured runs is no document. */
static redco_status write_inputs(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                                 struct plot_sheet *sheet, redco_error *err)
{
    struct plot_plans plans = {0};
    redco_status st = REDCO_OK;
    if (!takes_documents(kind)) {
        st = read_plans(kind, inputs, count, &plans, err);
        if (st == REDCO_OK) { st = write_plans(kind, &plans, inputs, count, sheet, err); }
        plot_plans_free(&plans);
        return st;
    }
    redco_json_value *const roots = calloc(count + 1, sizeof *roots);
    if (roots == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if (inputs[i].json != NULL) {
            roots[i] = redco_json_root(inputs[i].json);
        } else {
            st = redco_fail(err, REDCO_EVALUE, plot_kind_words[kind],
                            "takes JSON documents, no tables of measured runs");
        }
    }
    if (st == REDCO_OK) { st = write_documents(kind, roots, count, sheet, err); }
    free(roots);
    return st;
}

/* The source of a picture: one of the five. */
struct source {
    const char *trace; /* path */
    const struct plot_plans *plans;
    const struct plot_comparison *timelines;
    const redco_json_value *document;
    const struct plot_input *inputs;
    size_t input_count;
};

static redco_status compose(enum plot_kind kind, const struct source *source, const struct plot_options *options,
                            enum plot_format format, char **text_out, size_t *size_out, redco_error *err)
{
    char *data = NULL;
    size_t size = 0;
    redco_status st = REDCO_OK;
    struct plot_sheet sheet = {.text = open_memstream(&data, &size), .options = options};
    if (sheet.text == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (source->plans != NULL) {
        st = write_plans(kind, source->plans, NULL, 0, &sheet, err);
    } else if (source->trace != NULL) {
        st = plot_timeline(source->trace, &sheet, err);
    } else if (source->timelines != NULL) {
        st = plot_timelines(source->timelines, &sheet, err);
    } else if (source->document != NULL) {
        st = write_documents(kind, source->document, 1, &sheet, err);
    } else {
        st = write_inputs(kind, source->inputs, source->input_count, &sheet, err);
    }
    if (fclose(sheet.text) != 0 && st == REDCO_OK) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (st == REDCO_OK) { st = assemble(&sheet, format, data, text_out, size_out, err); }
    free(data);
    return st;
}

redco_status plot_compose(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                          const struct plot_options *options, enum plot_format format, char **text_out,
                          size_t *size_out, redco_error *err)
{
    const struct source source = {.inputs = inputs, .input_count = count};
    return compose(kind, &source, options, format, text_out, size_out, err);
}

redco_status plot_compose_trace(const char *path, const struct plot_options *options, enum plot_format format,
                                char **text_out, size_t *size_out, redco_error *err)
{
    const struct source source = {.trace = path};
    return compose(PLOT_TIMELINE, &source, options, format, text_out, size_out, err);
}

redco_status plot_compose_document(enum plot_kind kind, const redco_json_value *root,
                                   const struct plot_options *options, enum plot_format format, char **text_out,
                                   size_t *size_out, redco_error *err)
{
    const struct source source = {.document = root};
    return compose(kind, &source, options, format, text_out, size_out, err);
}

redco_status plot_compose_plans(enum plot_kind kind, const struct plot_plans *plans, const struct plot_options *options,
                                enum plot_format format, char **text_out, size_t *size_out, redco_error *err)
{
    const struct source source = {.plans = plans};
    return compose(kind, &source, options, format, text_out, size_out, err);
}

redco_status plot_compose_timelines(const struct plot_comparison *timelines, const struct plot_options *options,
                                    enum plot_format format, char **text_out, size_t *size_out, redco_error *err)
{
    const struct source source = {.timelines = timelines};
    return compose(PLOT_TIMELINES, &source, options, format, text_out, size_out, err);
}

bool plot_format_of(const char *path, enum plot_format *format_out)
{
    static const struct {
        const char *suffix;
        enum plot_format format;
    } suffixes[] = {{".svg", PLOT_SVG}, {".png", PLOT_PNG}, {".pdf", PLOT_PDF}, {".gp", PLOT_SCRIPT}};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        const size_t own = strlen(suffixes[i].suffix);
        if (length > own && strcmp(path + length - own, suffixes[i].suffix) == 0) {
            *format_out = suffixes[i].format;
            return true;
        }
    }
    return false;
}

redco_status plot_write(const char *script, size_t script_size, enum plot_format format, const char *path,
                        size_t *bytes_out, redco_error *err)
{
    char *image = NULL;
    size_t size = script_size;
    redco_status st = format != PLOT_SCRIPT ? plot_render(script, script_size, &image, &size, err) : REDCO_OK;
    if (st == REDCO_OK) { st = redco_file_write(path, image != NULL ? image : script, size, err); }
    if (st == REDCO_OK && bytes_out != NULL) { *bytes_out = size; }
    free(image);
    return st;
}
