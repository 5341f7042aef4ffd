/* redco-validate: predictions against measurements. */
#include "tools/validate/validate.h"

#include "costmodel/evaluation/left_groups.h"
#include "topology/base/number.h"
#include "topology/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "redco-validate " REDCO_VERSION;

enum {
    KEY_PROFILES = 0x100,
    KEY_RANKS,
    KEY_LAUNCH,
    KEY_MEASURED,
    KEY_CALIBRATION,
    KEY_ROW,
    KEY_COMMAND,
    KEY_PLOT,
    KEY_CLUSTER,
    KEY_PROFILE,
    KEY_TOP,
    KEY_MAX_ERROR,
    KEY_MAX_MEMORY_ERROR,
    KEY_FAMOUS,
    KEY_REGRET,
    KEY_LEAVE
};

enum { DEFAULT_TOP = 10, MOST_TOP = 1000000, MOST_ROW = 1000000, MOST_RANKS = 65536 };

static const struct argp_option options[] = {
    {"measured", KEY_MEASURED, "CSV...", 0, "Compare predictions with tables of measured runs, or folders of such", 0},
    {"calibration", KEY_CALIBRATION, "SET", 0,
     "With --measured: a preset or a file (default: the shipped set for each row's GPU and software)", 0},
    {"row", KEY_ROW, "N", 0, "With --measured and --command: the N-th row of the table, from 1", 0},
    {"command", KEY_COMMAND, "DIR", 0,
     "With --row: write the row's model.json and cluster.json there, and print the redco-plan command that prices it",
     0},
    {"famous", KEY_FAMOUS, "CSV...", 0,
     "Of each measured run, compare the layout that ran with what redco advises for the same machine, model, batch, "
     "engine and precision",
     0},
    {"regret", KEY_REGRET, "CSV...", 0,
     "Of each group of measured runs that differ in their layout only, compare the layout that redco ranks first with "
     "the fastest one measured",
     0},
    {"leave", KEY_LEAVE, "WHAT", 0,
     "With --measured: the error and the coverage of the band where each source, gpu, engine or model is unknown: "
     "constants and band are fitted without it",
     0},
    {"plot", KEY_PLOT, "FILE", 0,
     "Draw predicted against measured, with --famous also the gain of each advice, with --profiles bandwidth over "
     "size, with a plan both timelines: .svg, .png or "
     ".pdf; .gp is gnuplot's input",
     0},
    {"profiles", KEY_PROFILES, "FILE...", 0,
     "Compare the model of collectives with measured ones: nccl-tests logs, CSV tables, redco-profile files, or "
     "folders of such",
     0},
    {"cluster", KEY_CLUSTER, "CLUSTER", 0,
     "With --profiles: a preset or a cluster file, on which they were measured (default: guessed from the files' "
     "words)",
     0},
    {"ranks", KEY_RANKS, "GPUSxNODES", 0,
     "With --profiles: where the ranks of files that name no hosts ran, such as 8x2: 8 GPUs on each of 2 nodes", 0},
    {"launch", KEY_LAUNCH, "TIME", 0,
     "With --profiles: what a call costs more where one process drives several GPUs, e.g. \"20 us\"; added to the "
     "model for such logs (default 0)",
     0},
    {"profile", KEY_PROFILE, "FILE", 0,
     "With a plan: measured operators and collectives that it was made with; may be repeated", 0},
    {"top", KEY_TOP, "N", 0, "With a plan: show the N operators that differ most (default 10)", 0},
    {"max-error", KEY_MAX_ERROR, "PERCENT", 0,
     "With a plan: exit with 1 when the predicted step time is off by more than that", 0},
    {"max-memory-error", KEY_MAX_MEMORY_ERROR, "PERCENT", 0,
     "With a plan: exit with 1 when the predicted peak of memory is off by more than that, or was not measured", 0},
    CLI_OPTIONS,
    {0},
};

static error_t read_plot(struct validate_arguments *arguments, const char *text)
{
    arguments->plot = text;
    if (plot_format_of(text, &arguments->plot_format)) { return 0; }
    return cli_bad_option(&arguments->cli, "--plot", "\"%.80s\" ends in none of .svg, .png, .pdf, .gp", text);
}

/* "5" or "5 %". */
static error_t read_percent(struct cli *cli, const char *option, const char *text, double *ratio_out)
{
    static const double most_percent = 1e6;
    double percent = 0.0;
    const size_t used = redco_real_read(text, strlen(text), &percent);
    const char *const rest = text + used + strspn(text + used, " ");
    if (used == 0 || (text[used] != '\0' && strcmp(rest, "%") != 0) || percent > most_percent) {
        return cli_bad_option(cli, option, "\"%.40s\" is not a percentage from 0 to %g, such as 5", text, most_percent);
    }
    *ratio_out = percent / 100.0;
    return 0;
}

/* "8x2" or "8×2": GPUs of a node, nodes. */
static error_t read_ranks(struct validate_arguments *arguments, const char *text)
{
    uint64_t gpus = 0;
    uint64_t nodes = 0;
    const size_t used = redco_whole_read(text, strlen(text), &gpus);
    const char *rest = text + used;
    rest += strncmp(rest, "×", strlen("×")) == 0 ? strlen("×") : *rest == 'x';
    const size_t size = strlen(rest);
    if (used == 0 || rest == text + used || size == 0 || redco_whole_read(rest, size, &nodes) != size || gpus == 0 ||
        nodes == 0 || gpus > MOST_RANKS || nodes > MOST_RANKS) {
        return cli_bad_option(&arguments->cli, "--ranks", "\"%.40s\" is not GPUS x NODES of 1 to %d each, such as 8x2",
                              text, MOST_RANKS);
    }
    arguments->ranks_gpus = (uint32_t)gpus;
    arguments->ranks_nodes = (uint32_t)nodes;
    return 0;
}

static error_t add_profile(struct validate_arguments *arguments, const char *text)
{
    if (arguments->plan_profile_count == VALIDATE_PROFILES) {
        return cli_bad_option(&arguments->cli, "--profile", "is given more than %d times", VALIDATE_PROFILES);
    }
    return cli_name(&arguments->cli, "--profile", text, &arguments->plan_profiles[arguments->plan_profile_count++]);
}

/* Options that belong to a plan and traces. */
static error_t check_trace_mode(struct validate_arguments *arguments)
{
    struct cli *const cli = &arguments->cli;
    if (arguments->file_count == 0) {
        return cli_bad_option(cli, "PLAN",
                              "and TRACE, or --measured or --profiles, are missing; see redco-validate --help");
    }
    if (arguments->file_count == 1) {
        return cli_bad_option(cli, "TRACE", "is missing; redco-exec --timeline writes one");
    }
    return arguments->launch_s > 0.0 ? cli_bad_option(cli, "--launch", "is for --profiles") : 0;
}

/* Options that belong to one row. */
static error_t check_command_mode(struct validate_arguments *arguments)
{
    struct cli *const cli = &arguments->cli;
    if (!arguments->measured) {
        return cli_bad_option(cli, arguments->row > 0 ? "--row" : "--command", "is for --measured");
    }
    if (arguments->command == NULL) { return cli_bad_option(cli, "--row", "needs --command DIR"); }
    if (arguments->row == 0) { return cli_bad_option(cli, "--command", "needs --row N"); }
    if (arguments->file_count > 1) { return cli_bad_option(cli, "--row", "counts the rows of one table"); }
    if (arguments->plot != NULL || cli->json) {
        return cli_bad_option(cli, arguments->plot != NULL ? "--plot" : "--json",
                              "does not go with --command, which prints a command");
    }
    return 0;
}

static error_t check_together(struct validate_arguments *arguments)
{
    struct cli *const cli = &arguments->cli;
    if (cli->err.status != REDCO_OK) { return 0; }
    const bool tables = arguments->measured || arguments->famous || arguments->regret;
    if ((int)arguments->profiles + arguments->measured + arguments->famous + arguments->regret > 1) {
        return cli_bad_option(cli,
                              arguments->profiles ? "--profiles"
                              : arguments->famous ? "--famous"
                                                  : "--regret",
                              "and %s do not go together",
                              arguments->measured                        ? "--measured"
                              : arguments->regret && arguments->profiles ? "--regret"
                              : arguments->famous && arguments->profiles ? "--famous"
                                                                         : "--regret");
    }
    if (arguments->leave >= 0 && !arguments->measured) { return cli_bad_option(cli, "--leave", "is for --measured"); }
    if (arguments->leave >= 0 && (arguments->calibration != NULL || arguments->plot != NULL || arguments->row > 0)) {
        return cli_bad_option(cli,
                              arguments->calibration != NULL ? "--calibration"
                              : arguments->plot != NULL      ? "--plot"
                                                             : "--row",
                              "does not go with --leave, which fits constants of its own");
    }
    if (arguments->calibration != NULL && !tables) {
        return cli_bad_option(cli, "--calibration", "is for --measured, --famous and --regret");
    }
    if (arguments->regret && arguments->plot != NULL) { return cli_bad_option(cli, "--plot", "is not for --regret"); }
    if (arguments->cluster != NULL && !arguments->profiles) {
        return cli_bad_option(cli, "--cluster", "is for --profiles");
    }
    if (arguments->ranks_gpus > 0 && !arguments->profiles) {
        return cli_bad_option(cli, "--ranks", "is for --profiles");
    }
    if ((arguments->row > 0 || arguments->command != NULL) && check_command_mode(arguments) != 0) { return EINVAL; }
    if (!arguments->profiles && !tables) { return check_trace_mode(arguments); }
    const char *const alien = arguments->plan_profile_count > 0           ? "--profile"
                              : arguments->top > 0                        ? "--top"
                              : !isnan(arguments->max_error_ratio)        ? "--max-error"
                              : !isnan(arguments->max_memory_error_ratio) ? "--max-memory-error"
                                                                          : NULL;
    return alien != NULL ? cli_bad_option(cli, alien, "is for a plan and traces") : 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct validate_arguments *arguments = state->input;
    struct cli *cli = &arguments->cli;
    switch (key) {
    case KEY_CALIBRATION: arguments->calibration = text; return 0;
    case KEY_CLUSTER: return cli_name(cli, "--cluster", text, &arguments->cluster);
    case KEY_ROW: return cli_u64(cli, "--row", text, 1, MOST_ROW, &arguments->row);
    case KEY_COMMAND: return cli_name(cli, "--command", text, &arguments->command);
    case KEY_PLOT: return read_plot(arguments, text);
    case KEY_MEASURED:
        arguments->measured = true;
        arguments->files[arguments->file_count++] = text;
        return 0;
    case KEY_FAMOUS:
        arguments->famous = true;
        arguments->files[arguments->file_count++] = text;
        return 0;
    case KEY_LEAVE: return cli_word(cli, "--leave", text, redco_leave_words, &arguments->leave);
    case KEY_REGRET:
        arguments->regret = true;
        arguments->files[arguments->file_count++] = text;
        return 0;
    case KEY_PROFILES: arguments->profiles = true; /* fall through */
    case ARGP_KEY_ARG: arguments->files[arguments->file_count++] = text; return 0;
    case KEY_RANKS: return read_ranks(arguments, text);
    case KEY_LAUNCH:
        return redco_unit_parse(text, REDCO_UNIT_SECONDS, "--launch", &arguments->launch_s, &cli->err) == REDCO_OK
                   ? 0
                   : EINVAL;
    case KEY_PROFILE: return add_profile(arguments, text);
    case KEY_TOP: return cli_u64(cli, "--top", text, 1, MOST_TOP, &arguments->top);
    case KEY_MAX_ERROR: return read_percent(cli, "--max-error", text, &arguments->max_error_ratio);
    case KEY_MAX_MEMORY_ERROR: return read_percent(cli, "--max-memory-error", text, &arguments->max_memory_error_ratio);
    case ARGP_KEY_END: return check_together(arguments);
    default: return cli_option(key, text, state);
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse_option,
    .args_doc = "PLAN TRACE...\n--measured CSV...\n--measured CSV... --leave WHAT\n--measured CSV --row N --command "
                "DIR\n--famous CSV...\n"
                "--regret CSV...\n--profiles FILE...",
    .doc = "Compares predictions with measurements and prints the error: of a plan's step with traces of redco-exec "
           "--timeline, of published runs, of collectives.\v"
           "Exit code: 0 done, 1 an error is larger than --max-error or --max-memory-error allows or an advice of "
           "--famous is "
           "slower than the layout that ran, 2 bad input or usage, 3 system error.",
};

int main(int argc, char **argv)
{
    struct validate_arguments arguments = {.files = calloc((size_t)argc + 1, sizeof *arguments.files),
                                           .leave = -1,
                                           .max_error_ratio = (double)NAN,
                                           .max_memory_error_ratio = (double)NAN};
    if (arguments.files == NULL) { return CLI_SYSTEM; }
    int code = cli_parse(&argp, argc, argv, &arguments.cli);
    redco_error err = {.status = REDCO_OK};
    /* Told before the work. */
    if (code == CLI_RUN && arguments.plot != NULL && cli_writable(arguments.plot, &err) != REDCO_OK) {
        code = cli_fail(&arguments.cli, &err);
    }
    if (code == CLI_RUN) {
        if (arguments.top == 0) { arguments.top = DEFAULT_TOP; }
        code = arguments.command != NULL ? validate_command(&arguments)
               : arguments.famous        ? validate_famous(&arguments)
               : arguments.regret        ? validate_regret(&arguments)
               : arguments.leave >= 0    ? validate_leave(&arguments)
               : arguments.measured      ? validate_measured(&arguments)
               : arguments.profiles      ? validate_profiles(&arguments)
                                         : validate_trace(&arguments);
    }
    free(arguments.files);
    return code;
}
