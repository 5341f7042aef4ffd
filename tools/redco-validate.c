/* redco-validate: predictions against measurements. */
#include "tools/validate.h"

#include "topology/base/units.h"

#include <stdio.h>
#include <stdlib.h>

const char *argp_program_version = "redco-validate " REDCO_VERSION;

enum { KEY_PROFILES = 0x100, KEY_LAUNCH, KEY_MEASURED, KEY_CALIBRATION, KEY_PLOT };

static const struct argp_option options[] = {
    {"measured", KEY_MEASURED, "CSV...", 0, "Compare predictions with tables of measured runs, or folders of such", 0},
    {"calibration", KEY_CALIBRATION, "SET", 0,
     "With --measured: a preset or a file (default: the shipped set for each row's GPU and software)", 0},
    {"plot", KEY_PLOT, "FILE", 0,
     "Draw predicted against measured, with --profiles bandwidth over size: .svg, .png or .pdf; .gp is gnuplot's input",
     0},
    {"profiles", KEY_PROFILES, "FILE...", 0,
     "Compare the model of collectives with measured ones: nccl-tests logs, CSV tables, redco-profile files, or "
     "folders of such",
     0},
    {"launch", KEY_LAUNCH, "TIME", 0,
     "With --profiles: what a call costs more where one process drives several GPUs, e.g. \"20 us\"; added to the "
     "model for such logs (default 0)",
     0},
    CLI_OPTIONS,
    {0},
};

static error_t read_plot(struct validate_arguments *arguments, const char *text)
{
    arguments->plot = text;
    if (plot_format_of(text, &arguments->plot_format)) { return 0; }
    return cli_bad_option(&arguments->cli, "--plot", "\"%.80s\" ends in none of .svg, .png, .pdf, .gp", text);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct validate_arguments *arguments = state->input;
    struct cli *cli = &arguments->cli;
    switch (key) {
    case KEY_CALIBRATION: arguments->calibration = text; return 0;
    case KEY_PLOT: return read_plot(arguments, text);
    case KEY_MEASURED:
        arguments->measured = true;
        arguments->files[arguments->file_count++] = text;
        return 0;
    case KEY_PROFILES: arguments->profiles = true; /* fall through */
    case ARGP_KEY_ARG: arguments->files[arguments->file_count++] = text; return 0;
    case KEY_LAUNCH:
        return redco_unit_parse(text, REDCO_UNIT_SECONDS, "--launch", &arguments->launch_s, &cli->err) == REDCO_OK
                   ? 0
                   : EINVAL;
    case ARGP_KEY_END:
        if (arguments->profiles && arguments->measured) {
            return cli_bad_option(cli, "--profiles", "and --measured do not go together");
        }
        if (arguments->calibration != NULL && !arguments->measured) {
            return cli_bad_option(cli, "--calibration", "is for --measured");
        }
        if (arguments->profiles || arguments->measured) { return 0; }
        return cli_bad_option(cli, "--measured", "or --profiles is missing; see redco-validate --help");
    default: return cli_option(key, text, state);
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse_option,
    .args_doc = "--measured CSV...\n--profiles FILE...",
    .doc = "Compares predictions with measurements and prints the error.\v"
           "Exit code: 0 done, 2 bad input or usage, 3 system error.",
};

static redco_status draw(const struct validate_arguments *arguments, enum plot_kind kind, const json_t *json,
                         redco_error *err)
{
    const struct plot_options looks = {.title = NULL};
    const redco_json_value root = redco_json_wrap(json, "--plot");
    char *script = NULL;
    size_t size = 0;
    redco_status st = plot_compose_document(kind, &root, &looks, arguments->plot_format, &script, &size, err);
    if (st == REDCO_OK) { st = plot_write(script, size, arguments->plot_format, arguments->plot, NULL, err); }
    free(script);
    return st;
}

int validate_finish(const struct validate_arguments *arguments, enum plot_kind kind, const json_t *json,
                    void (*print)(const void *report), const void *report)
{
    redco_error err = {.status = REDCO_OK};
    redco_status st = json != NULL ? REDCO_OK : redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
    if (st == REDCO_OK && arguments->plot != NULL) { st = draw(arguments, kind, json, &err); }
    if (st != REDCO_OK) { return cli_fail(&arguments->cli, &err); }
    if (arguments->cli.json) { return cli_print_json(&arguments->cli, json); }
    print(report);
    if (arguments->plot != NULL) { (void)printf("\nwrote %s\n", arguments->plot); }
    return cli_finish(&arguments->cli, CLI_DONE);
}

int main(int argc, char **argv)
{
    struct validate_arguments arguments = {.files = calloc((size_t)argc + 1, sizeof *arguments.files)};
    if (arguments.files == NULL) { return CLI_SYSTEM; }
    int code = cli_parse(&argp, argc, argv, &arguments.cli);
    redco_error err = {.status = REDCO_OK};
    /* Told before the work. */
    if (code == CLI_RUN && arguments.plot != NULL && cli_writable(arguments.plot, &err) != REDCO_OK) {
        code = cli_fail(&arguments.cli, &err);
    }
    if (code == CLI_RUN) { code = arguments.measured ? validate_measured(&arguments) : validate_profiles(&arguments); }
    free(arguments.files);
    return code;
}
