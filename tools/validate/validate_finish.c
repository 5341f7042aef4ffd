/* The end of every mode: its picture, then its report or JSON document. */
#include "tools/validate/validate.h"

#include <stdio.h>
#include <stdlib.h>

static redco_status draw(const struct validate_arguments *arguments, const struct validate_outcome *outcome,
                         redco_error *err)
{
    const struct plot_options looks = {.title = NULL};
    const enum plot_format format = arguments->plot_format;
    const redco_json_value root = redco_json_wrap(outcome->json, "--plot");
    char *script = NULL;
    size_t size = 0;
    redco_status st = outcome->traces != NULL
                          ? plot_compose_timelines(outcome->traces, &looks, format, &script, &size, err)
                          : plot_compose_document(outcome->kind, &root, &looks, format, &script, &size, err);
    if (st == REDCO_OK) { st = plot_write(script, size, format, arguments->plot, NULL, err); }
    free(script);
    return st;
}

int validate_finish(const struct validate_arguments *arguments, const struct validate_outcome *outcome)
{
    redco_error err = {.status = REDCO_OK};
    redco_status st = outcome->json != NULL ? REDCO_OK : redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
    if (st == REDCO_OK && arguments->plot != NULL) { st = draw(arguments, outcome, &err); }
    if (st != REDCO_OK) { return cli_fail(&arguments->cli, &err); }
    if (arguments->cli.json) {
        const int code = cli_print_json(&arguments->cli, outcome->json);
        return code == CLI_DONE ? outcome->code : code;
    }
    outcome->print(outcome->report);
    if (arguments->plot != NULL) {
        (void)printf("\n");
        cli_wrote(arguments->plot);
    }
    return cli_finish(&arguments->cli, outcome->code);
}
