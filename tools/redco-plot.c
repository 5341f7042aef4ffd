/* redco-plot: pictures of plans, traces and comparisons, drawn by gnuplot. */
#include "tools/cli/cli.h"
#include "tools/plot/plot.h"

#include "topology/base/units.h"

#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "redco-plot " REDCO_VERSION;

enum { KEY_TITLE = 0x100, KEY_WINDOW, KEY_ALL_ROWS, MOST_INPUTS = 64 };

struct arguments {
    struct cli cli; /* first: see cli.h */
    int kind;       /* -1: not given */
    const char *inputs[MOST_INPUTS];
    size_t input_count;
    const char *out;
    enum plot_format format;
    struct plot_options options;
};

static const struct argp_option flags[] = {
    {"output", 'o', "FILE", 0, "The picture: its suffix .svg, .png or .pdf says how; .gp is gnuplot's own input", 1},
    {"title", KEY_TITLE, "TEXT", 0, "Instead of the title made from the data", 1},
    {"window", KEY_WINDOW, "FROM..TO", 0, "timeline, timelines: show this part, such as \"0 ms..20 ms\"", 1},
    {"all-rows", KEY_ALL_ROWS, NULL, 0, "Also measured runs that their table says not to compare", 1},
    CLI_OPTIONS,
    {0}};

static error_t read_output(struct arguments *args, const char *text)
{
    args->out = text;
    if (plot_format_of(text, &args->format)) { return 0; }
    return cli_bad_option(&args->cli, "-o", "\"%.80s\" ends in none of .svg, .png, .pdf, .gp", text);
}

/* "0 ms..20 ms" */
static error_t read_window(struct arguments *args, const char *text)
{
    char from[64];
    struct plot_options *options = &args->options;
    const char *dots = strstr(text, "..");
    if (dots == NULL || (size_t)(dots - text) >= sizeof from) {
        return cli_bad_option(&args->cli, "--window", "\"%.60s\" is not of the form \"0 ms..20 ms\"", text);
    }
    (void)snprintf(from, sizeof from, "%.*s", (int)(dots - text), text);
    if (redco_unit_parse(from, REDCO_UNIT_SECONDS, "--window", &options->from_s, &args->cli.err) != REDCO_OK ||
        redco_unit_parse(dots + 2, REDCO_UNIT_SECONDS, "--window", &options->to_s, &args->cli.err) != REDCO_OK) {
        return EINVAL;
    }
    if (options->to_s <= options->from_s) {
        return cli_bad_option(&args->cli, "--window", "\"%.60s\" ends before it begins", text);
    }
    return 0;
}

static error_t read_word(struct arguments *args, const char *text)
{
    if (args->kind < 0) { return cli_word(&args->cli, "KIND", text, plot_kind_words, &args->kind); }
    if (args->input_count == MOST_INPUTS) {
        return cli_bad_option(&args->cli, text, "more than %d inputs", MOST_INPUTS);
    }
    args->inputs[args->input_count++] = text;
    return 0;
}

static error_t check_together(struct arguments *args)
{
    struct cli *cli = &args->cli;
    if (args->kind < 0) { return cli_bad_option(cli, "KIND", "is missing; see redco-plot --help"); }
    if (args->input_count == 0) { return cli_bad_option(cli, "INPUT", "is missing; see redco-plot --help"); }
    if (args->out == NULL) { return cli_bad_option(cli, "-o", "is missing: the file to write, .svg, .png or .pdf"); }
    if (args->options.to_s > 0.0 && args->kind != PLOT_TIMELINE && args->kind != PLOT_TIMELINES) {
        return cli_bad_option(cli, "--window", "goes only with timeline and timelines");
    }
    return 0;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct arguments *args = state->input;
    switch (key) {
    case 'o': return read_output(args, text);
    case KEY_TITLE: args->options.title = text; return 0;
    case KEY_WINDOW: return read_window(args, text);
    case KEY_ALL_ROWS: args->options.all_rows = true; return 0;
    case ARGP_KEY_ARG: return read_word(args, text);
    case ARGP_KEY_END: return args->cli.err.status == REDCO_OK ? check_together(args) : 0;
    default: return cli_option(key, text, state);
    }
}

static const struct argp argp = {
    .options = flags,
    .parser = read_flag,
    .args_doc = "KIND INPUT... -o FILE",
    .doc = "Draws a picture with gnuplot."
           "\vKIND and its INPUT (\"-\" is standard input), mostly JSON documents:\n"
           "  mfu-vs-gpus            sweeps of redco-plan; tables of measured runs\n"
           "  predicted-vs-measured  redco-validate on tables of measured runs\n"
           "  famous                 redco-validate on published runs\n"
           "  memory, time           a comparison, a ranking or a sweep of redco-plan\n"
           "  pareto                 a ranking and a comparison of redco-plan\n"
           "  overlap                plans, one for each overlap setting; tables of measured runs\n"
           "  collectives            redco-validate on profiles\n"
           "  frontier               runs on several numbers of GPUs or clusters, of redco-plan\n"
           "  phases                 a run in phases, of redco-plan\n"
           "  timeline               a trace\n"
           "  timelines              a predicted trace, then measured ones of the same plan\n"
           "Exit code: 0 drawn, 2 bad input or usage, 3 gnuplot is missing or failed."};

static int print_done(const struct arguments *args, size_t size)
{
    if (args->cli.json) {
        json_t *json = json_pack("{s:s,s:i,s:s,s:s,s:I}", "format", "redco-plot", "version", 1, "kind",
                                 plot_kind_words[args->kind], "output", args->out, "bytes", (json_int_t)size);
        const int rc = cli_print_json(&args->cli, json);
        json_decref(json);
        return rc;
    }
    if (!args->cli.quiet) { cli_wrote(args->out); }
    return cli_finish(&args->cli, CLI_DONE);
}

/* A trace may be larger than any document: it is read event by event. */
static redco_status compose_trace(const struct arguments *args, char **script, size_t *script_size, redco_error *err)
{
    if (args->input_count != 1) {
        return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_TIMELINE],
                          "is drawn from one JSON document: the trace of --timeline");
    }
    return plot_compose_trace(args->inputs[0], &args->options, args->format, script, script_size, err);
}

static int run(const struct arguments *args)
{
    const bool trace = args->kind == PLOT_TIMELINE;
    struct plot_input inputs[MOST_INPUTS] = {{0}};
    char *script = NULL;
    size_t script_size = 0;
    size_t bytes = 0;
    redco_error err = {0};
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < args->input_count && !trace && st == REDCO_OK; i++) {
        st = plot_input_read(args->inputs[i], &inputs[i], &err);
    }
    if (trace) {
        st = compose_trace(args, &script, &script_size, &err);
    } else if (st == REDCO_OK) {
        st = plot_compose((enum plot_kind)args->kind, inputs, args->input_count, &args->options, args->format, &script,
                          &script_size, &err);
    }
    if (st == REDCO_OK) { st = plot_write(script, script_size, args->format, args->out, &bytes, &err); }
    const int rc = st == REDCO_OK ? print_done(args, bytes) : cli_fail(&args->cli, &err);
    for (size_t i = 0; i < args->input_count; i++) { plot_input_free(&inputs[i]); }
    free(script);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments args = {.kind = -1};
    const int rc = cli_parse(&argp, argc, argv, &args.cli);
    return rc == CLI_RUN ? run(&args) : rc;
}
