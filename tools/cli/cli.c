#include "tools/cli/cli.h"

#include "topology/base/file.h"
#include "topology/base/json.h"
#include "topology/base/number.h"
#include "topology/base/text.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JSON_DIGITS = 10 };

error_t cli_option(int key, char *arg, struct argp_state *state)
{
    struct cli *cli = state->input;
    switch (key) {
    case CLI_KEY_QUIET: cli->quiet = true; return 0;
    case CLI_KEY_JSON: cli->json = true; return 0;
    case ARGP_KEY_ARG: return cli_bad_option(cli, arg, "is not an option; see %s --help", cli->program);
    case ARGP_KEY_ERROR:
        /* getopt knew no such option, or its value is missing; state->next is behind the word it stumbled over. */
        if (cli->err.status == REDCO_OK && state->next > 0) {
            (void)cli_bad_option(cli, state->argv[state->next - 1],
                                 "is not an option, or its value is missing; see %s --help", cli->program);
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* All quantities that libraries name, and the options that give them. */
const char *cli_option_of(const char *quantity)
{
    static const struct {
        const char *quantity, *option;
    } names[] = {{"batch", "--global-batch"},
                 {"chunks", "--pp-chunks"},
                 {"schedule", "--pp-schedule"},
                 {"group", "--pp-group"},
                 {"split", "--pp-layout"},
                 {"cluster", "--cluster"},
                 {"cp", "--cp"},
                 {"dp", "--tp"}, /* GPUs over tp */
                 {"engine", "--engine"},
                 {"global batch", "--global-batch"},
                 {"gpus", "--gpus"},
                 {"hosts", "--hosts"},
                 {"micro-batch", "--micro-batch"},
                 {"pp", "--pp"},
                 {"recompute", "--recompute"},
                 {"sequence length", "--seq"},
                 {"shards", "--fix"},
                 {"strategy", "--strategy"},
                 {"top", "--top"},
                 {"tp", "--tp"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(quantity, names[i].quantity) == 0) { return names[i].option; }
    }
    return quantity;
}

const char *cli_place(const struct cli *cli, const char *place)
{
    const char *const option = cli_option_of(place);
    if (option == place) { return place; }
    for (const struct argp_option *o = cli->options; o != NULL && (o->name != NULL || o->doc != NULL); o++) {
        if (o->name != NULL && strcmp(o->name, option + 2) == 0) { return option; }
    }
    return place;
}

int cli_parse(const struct argp *argp, int argc, char **argv, struct cli *cli)
{
    char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (argc > 0) { redco_text_clean(slash != NULL ? slash + 1 : argv[0]); } /* argp prints it, too */
    cli->program = slash != NULL ? slash + 1 : argv[0];
    cli->options = argp->options;
    /* hwloc explains odd machines in many lines on standard error; this is its only switch. The user's own setting
     * wins. */
    (void)setenv("HWLOC_HIDE_ERRORS", "2", 0);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, as a full disk is */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0 || strcmp(argv[i], "--usage") == 0 ||
            strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
            char *only[] = {argv[0], argv[i], NULL};
            /* Left to itself argp exits with 0 whether or not it could print. */
            (void)argp_parse(argp, 2, only, ARGP_NO_EXIT, NULL, cli);
            return cli_finish(cli, CLI_DONE);
        }
    }
    /* argp and getopt would print two lines and exit with 64. */
    const error_t why = argp_parse(argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_EXIT, NULL, cli);
    if (why != 0 && cli->err.status == REDCO_OK) {
        (void)redco_fail(&cli->err, REDCO_EVALUE, "", "%s; see %s --help", strerror(why), cli->program);
    }
    return cli->err.status == REDCO_OK ? CLI_RUN : cli_fail(cli, &cli->err);
}

error_t cli_bad_option(struct cli *cli, const char *option, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)redco_fail(&cli->err, REDCO_EVALUE, option, "%s", text);
    return EINVAL;
}

error_t cli_u64(struct cli *cli, const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    if (redco_whole_parse(text, min, max, out)) { return 0; }
    return cli_bad_option(cli, option, "\"%.40s\" is not a whole number from %llu to %llu", text,
                          (unsigned long long)min, (unsigned long long)max);
}

error_t cli_real(struct cli *cli, const char *option, const char *text, double min, double max, double *out)
{
    if (redco_real_parse(text, min, max, out)) { return 0; }
    return cli_bad_option(cli, option, "\"%.40s\" is not a decimal number from %g to %g", text, min, max);
}

error_t cli_name(struct cli *cli, const char *option, const char *text, const char **out)
{
    if (text[0] == '\0') { return cli_bad_option(cli, option, "is empty; a name is needed"); }
    *out = text;
    return 0;
}

error_t cli_word(struct cli *cli, const char *option, const char *text, const char *const *words, int *out)
{
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return 0;
        }
        if (used < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", words[i]);
        }
    }
    return cli_bad_option(cli, option, "\"%.40s\" is not one of: %s", text, list);
}

/* File names and what files hold may contain line ends and terminal sequences: an error is one plain line. */
static void print_plain(const char *text)
{
    redco_text_write(stderr, text);
}

redco_status cli_writable(const char *path, redco_error *err)
{
    struct stat info;
    if (redco_file_descriptor(path) >= 0) { return REDCO_OK; }
    const bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) { return redco_fail(err, REDCO_EIO, path, "is a folder, not a file"); }
    if (redco_file_is_kept(path)) { return redco_fail(err, REDCO_EIO, path, "cannot write: it is read-only"); }
    char *const file = redco_file_behind_links(path);
    if (file == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot write: %s", strerror(errno)); }
    const int why = exists && !S_ISREG(info.st_mode) ? access(path, W_OK) : access(dirname(file), W_OK | X_OK);
    free(file);
    return why == 0 ? REDCO_OK : redco_fail(err, REDCO_EIO, path, "cannot write: %s", strerror(errno));
}

int cli_fail(const struct cli *cli, const redco_error *err)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s: ", cli->program);
    print_plain(cli_place(cli, err->place));
    if (err->place[0] != '\0') { (void)fputs(": ", stderr); }
    print_plain(err->text);
    (void)fputc('\n', stderr);
    switch (err->status) {
    case REDCO_OK: return CLI_DONE;
    case REDCO_EVALUE:
    case REDCO_EIO: return CLI_USAGE;
    case REDCO_EINFEASIBLE: return CLI_NO;
    case REDCO_ENOMEM:
    case REDCO_ESYSTEM: return CLI_SYSTEM;
    }
    return CLI_SYSTEM;
}

FILE *cli_output(const struct cli *cli)
{
    return cli->output != NULL ? cli->output : stdout;
}

void cli_warn(const struct cli *cli, const char *text)
{
    if (cli->quiet) { return; }
    (void)fprintf(stderr, "%s: warning: ", cli->program);
    print_plain(text);
    (void)fputc('\n', stderr);
}

void cli_wrote(const char *path)
{
    (void)printf("wrote ");
    redco_text_write(stdout, path);
    (void)printf("\n");
}

json_t *cli_json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json != NULL) { return json; }
    char *const copy = strdup(text);
    if (copy == NULL) { return NULL; }
    redco_text_clean(copy);
    json = json_string(copy);
    free(copy);
    return json;
}

int cli_print_json(const struct cli *cli, const json_t *json)
{
    size_t size = 0;
    char *text = redco_json_text(json, cli->json_digits > 0 ? cli->json_digits : JSON_DIGITS, &size);
    if (text == NULL) {
        (void)fprintf(stderr, "%s: out of memory\n", cli->program);
        return CLI_SYSTEM;
    }
    (void)fwrite(text, 1, size, cli_output(cli));
    free(text);
    return cli_finish(cli, CLI_DONE);
}

int cli_finish(const struct cli *cli, int code)
{
    FILE *const results = cli_output(cli);
    if (fflush(stdout) == 0 && fflush(results) == 0 && !ferror(stdout) && !ferror(results)) { return code; }
    (void)fprintf(stderr, "%s: standard output: cannot write: %s\n", cli->program, strerror(errno));
    return CLI_SYSTEM;
}
