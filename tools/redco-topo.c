/* Shows this machine, or a recorded one, as a node description. */
#include "tools/cli/cli.h"
#include "tools/report/topo_print.h"
#include "topology/base/file.h"
#include "topology/discovery/node.h"

#include <errno.h>
#include <stdlib.h>

const char *argp_program_version = "redco-topo " REDCO_VERSION; /* argp's own name for it */

struct arguments {
    struct cli cli;
    const char *xml, *gpu, *output;
    double nic_bytes_per_s; /* negative: not given */
    uint64_t host;
    bool host_given;
};

enum { KEY_XML = 0x100, KEY_GPU, KEY_NIC, KEY_HOST };

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_XML: return cli_name(&arguments->cli, "--xml", arg, &arguments->xml);
    case KEY_GPU: return cli_name(&arguments->cli, "--gpu", arg, &arguments->gpu);
    case KEY_NIC:
        return redco_unit_parse(arg, REDCO_UNIT_BYTES_PER_S, "--nic", &arguments->nic_bytes_per_s,
                                &arguments->cli.err) == REDCO_OK
                   ? 0
                   : EINVAL;
    case KEY_HOST:
        arguments->host_given = true;
        return cli_u64(&arguments->cli, "--host", arg, 0, UINT32_MAX, &arguments->host);
    case 'o': return cli_name(&arguments->cli, "-o", arg, &arguments->output);
    case ARGP_KEY_ARG:
        if (arguments->xml != NULL) { return cli_bad_option(&arguments->cli, arg, "is one file too many"); }
        return cli_name(&arguments->cli, "FILE", arg, &arguments->xml);
    default: return cli_option(key, arg, state);
    }
}

/* `*json_out` stays NULL where nobody wants it. */
static redco_status describe(const struct arguments *arguments, const redco_node *node, json_t **json_out,
                             redco_error *err)
{
    if (!arguments->cli.json && arguments->output == NULL) { return REDCO_OK; }
    if (redco_node_counts_links(node)) { /* a file would make a fact of what is assumed */
        return redco_fail(err, REDCO_EVALUE, arguments->xml,
                          "counts links, whose rate is that of the GPUs' type: say what they are by --gpu");
    }
    *json_out = redco_node_describe(node);
    return *json_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status write_file(const char *path, const json_t *json, redco_error *err)
{
    enum { DIGITS = 10 };
    size_t size = 0;
    char *text = redco_json_text(json, DIGITS, &size);
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    const redco_status st = redco_file_write(path, text, size, err);
    free(text);
    return st;
}

static redco_status discover(const struct arguments *arguments, redco_node **node_out, redco_error *err)
{
    redco_gpu gpu;
    if (arguments->host_given && arguments->xml == NULL) {
        return redco_fail(err, REDCO_EVALUE, "--host", "needs a FILE: this machine is one host");
    }
    redco_status st = arguments->xml != NULL
                          ? redco_node_read_host(arguments->xml, (uint32_t)arguments->host, node_out, err)
                          : redco_node_discover(NULL, node_out, err);
    if (st == REDCO_OK && arguments->nic_bytes_per_s >= 0.0) {
        st = redco_node_set_nic_rate(*node_out, arguments->nic_bytes_per_s, err);
    }
    if (st != REDCO_OK || arguments->gpu == NULL) { return st; }
    st = redco_gpu_find_any(arguments->gpu, &gpu, err);
    return st == REDCO_OK ? redco_node_set_gpu(*node_out, &gpu, err) : st;
}

/* Quiet with a file to write, there is nothing to say. @return the exit code */
static int show(const struct arguments *arguments, const redco_node *node, const json_t *json)
{
    if (arguments->cli.json) { return cli_print_json(&arguments->cli, json); }
    if (arguments->output == NULL || !arguments->cli.quiet) { topo_print(stdout, node); }
    if (arguments->output != NULL && !arguments->cli.quiet) { cli_wrote(arguments->output); }
    return cli_finish(&arguments->cli, CLI_DONE);
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"xml", KEY_XML, "FILE", 0,
         "A recorded machine instead of this one, as FILE alone: hwloc XML, NCCL topology XML, what --json printed, or "
         "the tables of nvidia-smi topo -m and rocm-smi",
         0},
        {"gpu", KEY_GPU, "GPU", 0, "The GPUs of unknown type: a preset or a GPU file", 0},
        {"nic", KEY_NIC, "RATE", 0, "Rate of each NIC of unknown rate, such as \"200 Gb/s\"", 0},
        {"host", KEY_HOST, "N", 0,
         "Which host of an NCCL topology XML that describes several, from 0 on; default: the first", 0},
        {"output", 'o', "FILE", 0, "Write the node description as JSON", 0},
        CLI_OPTIONS,
        {0},
    };
    static const struct argp argp = {
        options, parse_option, "[FILE]", "Shows the GPUs of a machine, their links and their network cards.",
        NULL,    NULL,         NULL};
    struct arguments arguments = {.nic_bytes_per_s = -1.0};
    redco_error err = {0};
    redco_node *node = NULL;
    json_t *json = NULL;
    int code = cli_parse(&argp, argc, argv, &arguments.cli);
    if (code != CLI_RUN) { return code; }
    redco_status st = discover(&arguments, &node, &err);
    if (st == REDCO_OK) { st = describe(&arguments, node, &json, &err); }
    if (st == REDCO_OK && arguments.output != NULL) { st = write_file(arguments.output, json, &err); }
    code = st == REDCO_OK ? show(&arguments, node, json) : cli_fail(&arguments.cli, &err);
    for (size_t i = 0; st == REDCO_OK && redco_node_warning(node, i) != NULL; i++) {
        cli_warn(&arguments.cli, redco_node_warning(node, i));
    }
    json_decref(json);
    redco_node_free(node);
    return code;
}
