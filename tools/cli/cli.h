/** @file cli.h  Shared by every redco tool: argp with one-line errors, exit codes, --quiet and --json. */
#ifndef REDCO_CLI_H
#define REDCO_CLI_H

#include "topology/base/status.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_DONE = 0, CLI_NO = 1, CLI_USAGE = 2, CLI_SYSTEM = 3, CLI_RUN = -1 };

/** First member of every tool's argument struct; argp's state->input points at it. */
struct cli {
    const char *program;
    const struct argp_option *options; /**< options of the tool */
    bool quiet, json;
    FILE *output;    /**< for results; NULL: stdout */
    int json_digits; /**< digits of numbers in JSON; 0: 10 */
    redco_error err; /**< filled by option parsers */
};

/** Keys of the options that every tool has; put CLI_OPTIONS into the option table and forward unknown keys to
 *  cli_option(). --help and --version come from argp. */
enum { CLI_KEY_QUIET = 'q', CLI_KEY_JSON = 0x5001 };
/* clang-format off */
#define CLI_OPTIONS \
    {"quiet", CLI_KEY_QUIET, NULL, 0, "No progress, notes or warnings", 10}, \
    {"json", CLI_KEY_JSON, NULL, 0, "One JSON document on standard output and nothing else", 10}
/* clang-format on */
error_t cli_option(int key, char *arg, struct argp_state *state);

/** Parses; a bad flag is one line "PROGRAM: what". @return CLI_RUN to go on, else the exit code */
int cli_parse(const struct argp *argp, int argc, char **argv, struct cli *cli);

/** Records an option's error; return its value from the parser. */
__attribute__((format(printf, 3, 4))) error_t cli_bad_option(struct cli *cli, const char *option, const char *format,
                                                             ...);
/** A whole number in [min, max] or an error naming @p option. */
error_t cli_u64(struct cli *cli, const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out);
/** A real number in [min, max], likewise. */
error_t cli_real(struct cli *cli, const char *option, const char *text, double min, double max, double *out);
/** A file's or a preset's name: anything but nothing. */
error_t cli_name(struct cli *cli, const char *option, const char *text, const char **out);
/** The index of @p text in a NULL-terminated list, or an error that lists the words. */
error_t cli_word(struct cli *cli, const char *option, const char *text, const char *const *words, int *out);

/** Checks before the work that a file can be written there. */
redco_status cli_writable(const char *path, redco_error *err);

/** The option that gives a quantity by which libraries call it: "--tp" for "tp"; any other text as it is. */
const char *cli_option_of(const char *quantity);
/** An error's place as this tool calls it: a quantity that an option of the tool gives by that option. */
const char *cli_place(const struct cli *cli, const char *place);
/** Prints the error as one line on standard error, with its cli_place(). @return the exit code its status asks for */
int cli_fail(const struct cli *cli, const redco_error *err);
/** The stream of results: predictions, a JSON document. */
FILE *cli_output(const struct cli *cli);
enum { CLI_CRASH_BYTES = 400 };

/** From here on, cli_crash() knows of a function of a pipeline that crashes in this process or one that it started,
 * which ends by the signal as before. */
void cli_tell_crashes(void);
/** The command that says where, of a process that this one started: "addr2line -fe my.so 0x11a9 says where"; "": none
 * crashed in a pipeline. */
const char *cli_crash(void);
/** "PROGRAM: warning: TEXT" on standard error unless --quiet. */
void cli_warn(const struct cli *cli, const char *text);
/** "wrote PATH" on standard output, a path as it may be shown. */
void cli_wrote(const char *path);
/** A path, or another text of the user's, in JSON: bytes that are not UTF-8 are "?". New reference, NULL when out of
 *  memory. */
json_t *cli_json_text(const char *text);
/** Prints a JSON document on standard output. @return CLI_DONE, or CLI_SYSTEM when it cannot be written */
int cli_print_json(const struct cli *cli, const json_t *json);
/** Call last: a full disk under standard output is an error, too. @return @p code or CLI_SYSTEM */
int cli_finish(const struct cli *cli, int code);

#endif
