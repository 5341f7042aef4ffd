/* redco-validate: predictions against measurements. */
#include "tools/validate.h"

#include "topology/base/units.h"

#include <stdlib.h>

const char *argp_program_version = "redco-validate " REDCO_VERSION;

enum { KEY_PROFILES = 0x100, KEY_LAUNCH, KEY_MEASURED, KEY_CALIBRATION };

static const struct argp_option options[] = {
    {"measured", KEY_MEASURED, "CSV...", 0, "Compare predictions with tables of measured runs, or folders of such", 0},
    {"calibration", KEY_CALIBRATION, "SET", 0,
     "With --measured: a preset or a file (default: the shipped set for each row's GPU and software)", 0},
    {"profiles", KEY_PROFILES, "FILE...", 0,
     "Compare the model of collectives with measured ones: nccl-tests logs, CSV tables, redco-profile files, or "
     "folders "
     "of such",
     0},
    {"launch", KEY_LAUNCH, "TIME", 0,
     "With --profiles: what a call costs more where one process drives several GPUs, e.g. \"20 us\"; added to the "
     "model "
     "for such logs (default 0)",
     0},
    CLI_OPTIONS,
    {0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct validate_arguments *arguments = state->input;
    struct cli *cli = &arguments->cli;
    switch (key) {
    case KEY_CALIBRATION: arguments->calibration = text; return 0;
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

int main(int argc, char **argv)
{
    struct validate_arguments arguments = {.files = calloc((size_t)argc + 1, sizeof *arguments.files)};
    if (arguments.files == NULL) { return CLI_SYSTEM; }
    int code = cli_parse(&argp, argc, argv, &arguments.cli);
    if (code == CLI_RUN) { code = arguments.measured ? validate_measured(&arguments) : validate_profiles(&arguments); }
    free(arguments.files);
    return code;
}
