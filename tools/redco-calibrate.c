/* redco-calibrate: fits the cost model's constants to measured runs. */
#include "tools/report/calibrate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "redco-calibrate " REDCO_VERSION;

enum {
    KEY_MEASURED = 0x100,
    KEY_PRIOR,
    KEY_SOURCE,
    KEY_FRAMEWORK,
    KEY_SOFTWARE,
    KEY_GPU,
    KEY_NAME,
    KEY_ANCHOR,
    KEY_SEED,
    KEY_EACH,
    KEY_EXPERTS,
    KEY_WITHOUT,
    KEY_BANDS,
    KEY_CONSTANTS,
    KEY_MEAN,
    KEY_PRODUCT
};

static const struct argp_option options[] = {
    {"measured", KEY_MEASURED, "CSV...", 0, "Tables of measured runs, or folders of such", 0},
    {"output", 'o', "FILE", 0, "Write the fitted set", 0},
    {"prior", KEY_PRIOR, "SET", 0,
     "Set around which constants are fitted: a preset or a file (default: literature's of the rows' class, "
     "prior-a100-eager and so on; with --anchor the shipped set)",
     0},
    {"source", KEY_SOURCE, "NAME", 0, "Only rows of this source", 0},
    {"framework", KEY_FRAMEWORK, "NAME", 0, "Only rows of this framework", 0},
    {"software", KEY_SOFTWARE, "CLASS", 0, "Only rows of this class of software: eager, megatron or te_xla", 0},
    {"gpu", KEY_GPU, "NAME", 0, "Only rows of GPUs whose name begins so; may be given several times", 0},
    {"name", KEY_NAME, "NAME", 0, "Name of the fitted set (default: the class, such as a100-eager)", 0},
    {"anchor", KEY_ANCHOR, "N", 0,
     "Fit on N rows drawn at random and predict the rest, twenty times: what N measured runs of one's own are worth",
     0},
    {"each", KEY_EACH, "WHAT", 0,
     "Fit many sets and print a table: source (a set for each source and GPU), class (one for each class of GPU and "
     "software), unseen (each source by the others of its class, without and with one anchor run); with --experts: "
     "half "
     "(rows 1, 3, 5 ... by 2, 4, 6 ... and the other way), unseen (each source by the others), model (each model)",
     0},
    {"experts", KEY_EXPERTS, NULL, 0,
     "Fit the constants of mixtures of experts to rows of such, the shipped sets of dense models as they are; with "
     "--output, FILE is a folder that gets a file for each class of GPU",
     0},
    {"without", KEY_WITHOUT, "NAME", 0,
     "With --experts: fit again without the effect of that constant, or of each in turn (all)", 0},
    {"bands", KEY_BANDS, NULL, 0,
     "Fit the bands of predictions: what a source, an engine, a GPU, a class of software, an architecture and a size "
     "that no fit saw are off by, each left out in turn",
     0},
    {"constants", KEY_CONSTANTS, NULL, 0,
     "In place of a fit: the constants of the shipped sets as tables in Markdown: of what each is, its value, the rows "
     "that it was fitted to and their error without it",
     0},
    {"mean", KEY_MEAN, "SET,SET...", 0,
     "In place of a fit: the mean of these sets, as of a class of GPU and software that nobody measured", 0},
    {"product", KEY_PRODUCT, "SET,SET,SET", 0,
     "In place of a fit: the constants of the second set, with rates of products and attention as much better or worse "
     "as the first has them than the third: a pair of GPU and software that nobody measured",
     0},
    {"seed", KEY_SEED, "N", 0, "Seed of the random halves and draws (default 1)", 0},
    CLI_OPTIONS,
    {0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    static const char *const software[] = {"eager", "megatron", "te_xla", NULL};
    static const char *const each[] = {"source", "class", "unseen", "half", "model", NULL};
    struct calibrate_arguments *const a = state->input;
    int word = 0;
    uint64_t number = 0;
    error_t error = 0;
    switch (key) {
    case KEY_MEASURED: /* fall through */
    case ARGP_KEY_ARG: a->files[a->file_count++] = text; return 0;
    case 'o': a->output = text; return 0;
    case KEY_PRIOR: a->prior = text; return 0;
    case KEY_SOURCE: a->source = text; return 0;
    case KEY_FRAMEWORK: a->framework = text; return 0;
    case KEY_SOFTWARE:
        error = cli_word(&a->cli, "--software", text, software, &word);
        a->software = (redco_software)(word + 1);
        return error;
    case KEY_GPU:
        if (a->gpu_count == CALIBRATE_GPUS) { return cli_bad_option(&a->cli, "--gpu", "is given too often"); }
        a->gpus[a->gpu_count++] = text;
        return 0;
    case KEY_NAME: a->name = text; return 0;
    case KEY_ANCHOR:
        error = cli_u64(&a->cli, "--anchor", text, 1, 1000, &number);
        a->anchor = (size_t)number;
        return error;
    case KEY_SEED: return cli_u64(&a->cli, "--seed", text, 0, UINT32_MAX, &a->seed);
    case KEY_EACH:
        error = cli_word(&a->cli, "--each", text, each, &word);
        a->each = (enum calibrate_each)(word + 1);
        return error;
    case KEY_EXPERTS: a->experts = true; return 0;
    case KEY_MEAN: a->mean = text; return 0;
    case KEY_PRODUCT: a->product = text; return 0;
    case KEY_BANDS: a->bands = true; return 0;
    case KEY_CONSTANTS: a->constants = true; return 0;
    case KEY_WITHOUT: a->without = text; return 0;
    case ARGP_KEY_END:
        if (a->without != NULL && !a->experts) { return cli_bad_option(&a->cli, "--without", "is of --experts"); }
        if (!a->experts && (a->each == CALIBRATE_HALF || a->each == CALIBRATE_MODELS)) {
            return cli_bad_option(&a->cli, "--each", "half and model are of --experts");
        }
        if (a->mean != NULL || a->product != NULL) {
            return a->file_count > 0 || (a->mean != NULL && a->product != NULL)
                       ? cli_bad_option(&a->cli, a->mean != NULL ? "--mean" : "--product", "is of sets alone")
                       : 0;
        }
        if (a->file_count == 0) {
            return cli_bad_option(&a->cli, "--measured", "is missing; see redco-calibrate --help");
        }
        if (a->constants && (a->cli.json || a->output != NULL)) {
            return cli_bad_option(&a->cli, "--constants", "prints Markdown: not with --json or --output");
        }
        if (a->bands && (a->anchor > 0 || a->each != CALIBRATE_ONE || a->without != NULL)) {
            return cli_bad_option(&a->cli, "--bands",
                                  "leaves out what it needs itself: not with --anchor, --each or "
                                  "--without");
        }
        if (a->output != NULL && (a->each != CALIBRATE_ONE || a->anchor > 0)) {
            return cli_bad_option(&a->cli, "--output", "writes one set: not with --each or --anchor");
        }
        return 0;
    default: return cli_option(key, text, state);
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse_option,
    .args_doc = "--measured CSV...",
    .doc =
        "Fits the few constants of the cost model that are no data sheet facts to measured training runs, and says how "
        "well they predict runs that they have not seen.\v"
        "Exit code: 0 done, 2 bad input or usage, 3 system error.",
};

int main(int argc, char **argv)
{
    struct calibrate_arguments arguments = {.files = calloc((size_t)argc + 1, sizeof *arguments.files), .seed = 1};
    if (arguments.files == NULL) { return CLI_SYSTEM; }
    int code = cli_parse(&argp, argc, argv, &arguments.cli);
    if (code == CLI_RUN) { code = calibrate(&arguments); }
    free(arguments.files);
    return code;
}
