/* Measures operators and collectives on this machine and writes the profile that the planner reads. */
#include "tools/apart/apart.h"
#include "tools/cli/cli.h"
#include "tools/launch/cuda_folders.h"
#include "tools/launch/launched.h"
#include "tools/profile/profile_check.h"
#include "tools/profile/profile_device.h"
#include "tools/profile/profile_pipeline.h"
#include "topology/base/file.h"
#include "topology/base/json.h"
#include "topology/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "redco-profile " REDCO_VERSION; /* argp's own name for it */

enum { MOST_RANKS = 1024, DIGITS = 6, MOST_TOKENS = 1 << 20, MOST_MODELS = 64 };
enum { HOST, CUDA };
static const uint64_t default_seconds[] = {[HOST] = 60, [CUDA] = 90};
/* A quiet machine stays below this load. */
static const double busy_spread_ratio = 0.25, busy_processor_ratio = 0.9;

struct arguments {
    struct cli cli;
    int backend;
    uint64_t ranks, nodes, seconds, largest_bytes; /* 0: not given */
    bool quick, collectives, libraries;
    bool measures; /* an option that only measuring knows was given */
    redco_measure_shapes shapes;
    const char *models[MOST_MODELS];
    size_t model_count;
    struct profile_pipeline pipelines[MOST_MODELS];
    size_t pipeline_count;
    uint32_t micro_batches[PROFILE_BATCHES_MAX], micro_batch_count; /* the pipelines' */
    const char *output, *cluster, *check;
};

enum {
    KEY_BACKEND = 0x100,
    KEY_RANKS,
    KEY_NODES,
    KEY_SECONDS,
    KEY_QUICK,
    KEY_COLLECTIVES,
    KEY_LARGEST,
    KEY_CLUSTER,
    KEY_MODEL,
    KEY_TOKENS,
    KEY_CHECK,
    KEY_PIPELINE,
    KEY_DATA,
    KEY_MICRO_BATCH,
    KEY_LIBRARIES
};

static const char *const backends[] = {"host", "cuda", NULL};

static error_t read_largest(struct arguments *a, const char *text)
{
    double bytes = 0.0;
    if (redco_unit_parse(text, REDCO_UNIT_BYTES, "--largest", &bytes, &a->cli.err) != REDCO_OK) { return EINVAL; }
    if (bytes < REDCO_MEASURE_LEAST_BYTES || bytes > REDCO_MEASURE_MOST_BYTES) {
        return cli_bad_option(&a->cli, "--largest", "\"%.40s\" is not from 1 KiB to 64 MiB", text);
    }
    a->largest_bytes = (uint64_t)bytes;
    return 0;
}

static error_t read_tokens(struct arguments *a, const char *text)
{
    uint64_t tokens = 0;
    const error_t failed = cli_u64(&a->cli, "--tokens", text, 1, MOST_TOKENS, &tokens);
    if (failed != 0 || a->cli.err.status != REDCO_OK) { return failed; }
    if (a->shapes.token_count == REDCO_MEASURE_TOKENS_MAX) {
        return cli_bad_option(&a->cli, "--tokens", "is given more than %d times", REDCO_MEASURE_TOKENS_MAX);
    }
    a->shapes.tokens[a->shapes.token_count++] = tokens;
    return 0;
}

static error_t read_model(struct arguments *a, const char *name)
{
    if (a->model_count == MOST_MODELS) {
        return cli_bad_option(&a->cli, "--model", "is given more than %d times", MOST_MODELS);
    }
    return cli_name(&a->cli, "--model", name, &a->models[a->model_count++]);
}

static error_t read_pipeline(struct arguments *a, const char *path)
{
    if (a->pipeline_count == MOST_MODELS) {
        return cli_bad_option(&a->cli, "--pipeline", "is given more than %d times", MOST_MODELS);
    }
    return cli_name(&a->cli, "--pipeline", path, &a->pipelines[a->pipeline_count++].path);
}

static error_t read_data(struct arguments *a, const char *path)
{
    struct profile_pipeline *const last = a->pipeline_count > 0 ? &a->pipelines[a->pipeline_count - 1] : NULL;
    if (last == NULL || last->data != NULL) {
        return cli_bad_option(&a->cli, "--data", "is of the --pipeline before it: %s",
                              last == NULL ? "there is none" : "that has one");
    }
    return cli_name(&a->cli, "--data", path, &last->data);
}

static error_t read_micro_batch(struct arguments *a, const char *text)
{
    uint64_t examples = 0;
    const error_t failed = cli_u64(&a->cli, "--micro-batch", text, 1, MOST_TOKENS, &examples);
    if (failed != 0 || a->cli.err.status != REDCO_OK) { return failed; }
    if (a->micro_batch_count == PROFILE_BATCHES_MAX) {
        return cli_bad_option(&a->cli, "--micro-batch", "is given more than %d times", PROFILE_BATCHES_MAX);
    }
    a->micro_batches[a->micro_batch_count++] = (uint32_t)examples;
    return 0;
}

static error_t check_end(struct arguments *a)
{
    if (a->cli.err.status != REDCO_OK) { return 0; }
    if (a->micro_batch_count > 0 && a->pipeline_count == 0) {
        return cli_bad_option(&a->cli, "--micro-batch", "needs --pipeline FILE.so");
    }
    if (a->pipeline_count > 0 && (a->backend == CUDA || a->collectives)) {
        return cli_bad_option(&a->cli, "--pipeline", "measures operators of processors: %s does not go with it",
                              a->collectives ? "--collectives" : "--backend cuda");
    }
    if (a->check != NULL && a->measures) {
        return cli_bad_option(&a->cli, "--check", "only looks at a profile: options of measuring do not go with it");
    }
    if (a->libraries && (a->measures || a->check != NULL)) {
        return cli_bad_option(&a->cli, "--cuda-libraries", "measures nothing: other options do not go with it");
    }
    if (a->collectives && a->cluster != NULL) {
        return cli_bad_option(&a->cli, "--collectives", "does not measure what --cluster writes");
    }
    if (a->ranks > 0 && a->ranks % a->nodes != 0) {
        return cli_bad_option(&a->cli, "--nodes", "%llu nodes cannot have equal parts of %llu ranks",
                              (unsigned long long)a->nodes, (unsigned long long)a->ranks);
    }
    if (a->backend != CUDA && a->model_count + a->shapes.token_count > 0) {
        return cli_bad_option(&a->cli, a->model_count > 0 ? "--model" : "--tokens",
                              "needs --backend cuda: processors' lists are the same for all");
    }
    if (a->backend == CUDA && a->check != NULL) {
        return cli_bad_option(&a->cli, "--check",
                              "is for processors; tools/gpu-acceptance holds GPUs' profiles "
                              "against whole steps");
    }
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    switch (key) {
    case KEY_BACKEND: return cli_word(&a->cli, "--backend", arg, backends, &a->backend);
    case KEY_RANKS: a->measures = true; return cli_u64(&a->cli, "--ranks", arg, 1, MOST_RANKS, &a->ranks);
    case KEY_NODES: a->measures = true; return cli_u64(&a->cli, "--nodes", arg, 1, MOST_RANKS, &a->nodes);
    case KEY_SECONDS: a->measures = true; return cli_u64(&a->cli, "--seconds", arg, 1, 86400, &a->seconds);
    case KEY_QUICK: a->measures = a->quick = true; return 0;
    case KEY_COLLECTIVES: a->measures = a->collectives = true; return 0;
    case KEY_LARGEST: a->measures = true; return read_largest(a, arg);
    case KEY_CLUSTER: a->measures = true; return cli_name(&a->cli, "--cluster", arg, &a->cluster);
    case KEY_MODEL: a->measures = true; return read_model(a, arg);
    case KEY_TOKENS: a->measures = true; return read_tokens(a, arg);
    case KEY_PIPELINE: a->measures = true; return read_pipeline(a, arg);
    case KEY_DATA: a->measures = true; return read_data(a, arg);
    case KEY_MICRO_BATCH: a->measures = true; return read_micro_batch(a, arg);
    case KEY_LIBRARIES: a->libraries = true; return 0;
    case KEY_CHECK: return cli_name(&a->cli, "--check", arg, &a->check);
    case 'o': a->measures = true; return cli_name(&a->cli, "-o", arg, &a->output);
    case ARGP_KEY_END: return check_end(a);
    default: return cli_option(key, arg, state);
    }
}

/* Ranks that mpirun or Slurm started; 0 where this is a process alone. */
static uint32_t mpi_ranks(void)
{
    uint64_t rank = 0, ranks = 0;
    return launched_by_mpi(&rank, &ranks) && ranks > 0 && ranks <= REDCO_WORLD_MAX ? (uint32_t)ranks : 0;
}

static redco_status write_file(const char *path, const json_t *json, redco_error *err)
{
    size_t size = 0;
    char *text = redco_json_text(json, DIGITS, &size);
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    const redco_status st = redco_file_write(path, text, size, err);
    free(text);
    return st;
}

/* @param warns  one rank warns for all */
static redco_status read_models(struct arguments *a, bool warns, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < a->model_count && st == REDCO_OK; i++) {
        st = profile_device_model(a->models[i], &a->shapes, warns ? &a->cli : NULL, err);
    }
    return st;
}

/* Says what makes the times worse than they could be. */
static void warn_of(const struct arguments *a, const struct profile_result *result)
{
    const redco_profile_measured *const how = &result->how;
    char text[320];
    const bool shared = how->ranks > how->processors;
    if (a->backend == CUDA && how->left_out > 0) {
        (void)snprintf(text, sizeof text,
                       "%u operators were left out, for want of time or memory: --seconds gives more than %.0f s",
                       how->left_out, how->budget_s);
        cli_warn(&a->cli, text);
    }
    if (a->backend == CUDA && result->power_why[0] != '\0') {
        (void)snprintf(text, sizeof text, "%s were not measured: %s",
                       result->power_count > 0 ? "joules of some operators" : "watts", result->power_why);
        cli_warn(&a->cli, text);
    }
    if (strstr(how->attention, "own kernels: ") != NULL) {
        (void)snprintf(text, sizeof text, "attention was measured with %.200s", how->attention);
        cli_warn(&a->cli, text);
    }
    if (a->collectives || a->backend == CUDA) { return; }
    if (!shared && (how->processor_ratio < busy_processor_ratio || how->spread_ratio > busy_spread_ratio)) {
        (void)snprintf(
            text, sizeof text,
            "this machine was busy: a rank got %.0f %% of a processor, runs took %.0f %% longer than the best "
            "(load %.1f before); times of collectives suffer most, measure again",
            100.0 * how->processor_ratio, 100.0 * how->spread_ratio, how->load);
        cli_warn(&a->cli, text);
    }
    if (shared) {
        (void)snprintf(text, sizeof text, "%u ranks share %u processors: operators are timed as if each had its own",
                       how->ranks, how->processors);
        cli_warn(&a->cli, text);
    }
    if (profile_slow_kernels(how)) {
        (void)snprintf(
            text, sizeof text,
            "%s: these kernels do not use this processor's AVX-512; OPENBLAS_CORETYPE=SkylakeX may be faster, "
            "here and where plans run",
            how->kernels);
        cli_warn(&a->cli, text);
    }
}

static redco_status write_all(const struct arguments *a, const struct profile_result *result, json_t **profile_out,
                              redco_error *err)
{
    json_t *cluster = NULL;
    redco_status st = profile_document(result, profile_out, err);
    if (st == REDCO_OK && a->cluster != NULL) { st = profile_cluster(result, &cluster, err); }
    if (st == REDCO_OK && a->cluster != NULL) { st = write_file(a->cluster, cluster, err); }
    if (st == REDCO_OK && a->output != NULL) { st = write_file(a->output, *profile_out, err); }
    json_decref(cluster);
    return st;
}

/* Takes the usual list for everything that was not given. */
static redco_measure_shapes shapes_of(const struct arguments *a)
{
    redco_measure_shapes shapes = redco_measure_default_shapes();
    if (a->shapes.token_count > 0) {
        memcpy(shapes.tokens, a->shapes.tokens, sizeof shapes.tokens);
        shapes.token_count = a->shapes.token_count;
    }
    if (a->shapes.weight_count > 0) {
        memcpy(shapes.weights, a->shapes.weights, sizeof shapes.weights);
        shapes.weight_count = a->shapes.weight_count;
    }
    return shapes;
}

/* Degrees of tensor parallelism are those that the ranks may have. */
static redco_status read_pipelines(const struct arguments *a, uint32_t ranks, redco_user_pipeline_call *call,
                                   struct profile_pipelines *pipelines, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < a->pipeline_count && st == REDCO_OK; i++) {
        struct profile_pipeline of = a->pipelines[i];
        of.micro_batches = a->micro_batches;
        of.micro_batch_count = a->micro_batch_count;
        of.most_tp = ranks;
        of.call = call;
        st = profile_pipeline_add(pipelines, &of, err);
    }
    return st;
}

struct giving_up {
    const struct cli *cli;
    struct apart *apart; /* NULL: without a pipeline */
};

static void give_up(void *context, const redco_error *err)
{
    const struct giving_up *const by = context;
    const int code = cli_fail(by->cli, err);
    if (by->apart != NULL) {
        by->apart->code = code;
        by->apart->done = true;
    }
    _exit(code);
}

static int measure(const struct arguments *a, const redco_world_options *launched, struct apart *apart)
{
    struct giving_up by = {&a->cli, apart};
    const uint32_t mpi = launched == NULL ? mpi_ranks() : launched->size; /* 0: ranks are started here */
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t here = processors > 2 ? (uint32_t)processors : 2;
    const bool cuda = a->backend == CUDA;
    struct profile_pipelines pipelines = {.sources = NULL};
    struct profile_job job = {.ranks = a->ranks > 0 ? (uint32_t)a->ranks
                                       : cuda       ? 1
                                                    : here,
                              .nodes = (uint32_t)a->nodes,
                              .mpi = launched == NULL && mpi > 0,
                              .launched = launched,
                              .cuda = cuda,
                              .shapes = shapes_of(a),
                              .quick = a->quick,
                              .collectives = a->collectives,
                              .largest_bytes = a->largest_bytes,
                              .seconds = (double)a->seconds,
                              .progress = !a->cli.quiet && isatty(STDERR_FILENO),
                              .give_up = give_up,
                              .context = &by};
    struct profile_result result = {0};
    json_t *profile = NULL;
    redco_error err = {0};
    bool leader = true;
    redco_status st =
        read_pipelines(a, mpi > 0 ? mpi : job.ranks, apart != NULL ? &apart->call : NULL, &pipelines, &err);
    job.ops = &pipelines.ops;
    if (mpi > 0 && a->ranks > 0 && a->ranks != mpi) {
        st = redco_fail(&err, REDCO_EVALUE, "--ranks", "is %llu, but the launcher's ranks are %u: leave it out",
                        (unsigned long long)a->ranks, mpi);
    }
    if (st == REDCO_OK && a->output != NULL) { st = cli_writable(a->output, &err); }
    if (st == REDCO_OK && a->cluster != NULL) { st = cli_writable(a->cluster, &err); }
    if (st == REDCO_OK) { st = profile_run(&job, &result, &leader, &err); }
    if (st == REDCO_OK && leader) { st = write_all(a, &result, &profile, &err); }
    int code = CLI_DONE;
    if (st != REDCO_OK) {
        code = cli_fail(&a->cli, &err);
    } else if (leader) {
        warn_of(a, &result);
        if (a->cli.json) {
            code = cli_print_json(&a->cli, profile);
        } else {
            if (a->output == NULL || !a->cli.quiet) { profile_print(&result); }
            if (a->output != NULL && !a->cli.quiet) { cli_wrote(a->output); }
            if (a->cluster != NULL && !a->cli.quiet) { cli_wrote(a->cluster); }
            code = cli_finish(&a->cli, CLI_DONE);
        }
    }
    json_decref(profile);
    profile_result_free(&result);
    profile_pipelines_free(&pipelines);
    return code;
}

struct apart_measure {
    struct arguments *arguments;
    const redco_world_options *launched;
};

static int measure_apart(void *context, struct apart *apart, FILE *output)
{
    const struct apart_measure *const m = context;
    m->arguments->cli.output = output;
    if (!m->arguments->cli.json) { apart_print(output); }
    return measure(m->arguments, m->launched, apart);
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"backend", KEY_BACKEND, "NAME", 0, "The backend that runs the operators: host (the default) or cuda", 0},
        {"ranks", KEY_RANKS, "N", 0,
         "Processes that measure at the same time; as many as processors, at least 2, or 1 with its GPU; under mpirun, "
         "or where REDCO_RANK is set, its ranks",
         0},
        {"nodes", KEY_NODES, "N", 0, "Nodes that the ranks are on, contiguous and in equal numbers; 1", 0},
        {"seconds", KEY_SECONDS, "N", 0,
         "Begin rounds as long as they are likely to end in that time; 60, or 90 on a GPU, whose list ends then", 0},
        {"quick", KEY_QUICK, NULL, 0, "A few small sizes once: to see that it works, not to plan with", 0},
        {"output", 'o', "FILE", 0, "Write the profile, which redco-plan reads", 0},
        {"collectives", KEY_COLLECTIVES, NULL, 0, "Measure collectives only, no operators", 0},
        {"largest", KEY_LARGEST, "SIZE", 0, "Largest size of collectives; 64 MiB", 0},
        {"model", KEY_MODEL, "M", 0,
         "On a GPU: products of exactly that model's weights, too; may be repeated; without it those of LLaMA-like "
         "models of 125 million to 7 billion parameters",
         0},
        {"tokens", KEY_TOKENS, "N", 0,
         "Of a micro-batch on one GPU, for those products; may be repeated; without it 2048, 4096, 8192 and 16384", 0},
        {"pipeline", KEY_PIPELINE, "FILE.so", 0,
         "The operators of a pipeline's loss and gradients (executor/pipeline), too, for plans of redco-plan "
         "--pipeline; "
         "may be repeated",
         0},
        {"data", KEY_DATA, "FILE", 0,
         "Examples of the --pipeline before it, as redco-exec --data reads them: what making a micro-batch takes is "
         "measured, too",
         0},
        {"micro-batch", KEY_MICRO_BATCH, "N", 0,
         "Examples of a rank at a time in those plans, and two and three times as many; may be repeated; 8", 0},
        {"cluster", KEY_CLUSTER, "FILE", 0, "Write this machine as a cluster file for redco-plan", 0},
        {"check", KEY_CHECK, "FILE", 0,
         "Time small models and compare with what that profile predicts; exit code 1 if the median error is above 10 %",
         0},
        {"cuda-libraries", KEY_LIBRARIES, NULL, 0,
         "Print where CUDA's libraries are, those that are used first, and measure nothing: where the loader looks, in "
         "the toolkit's folder and in Python's wheels, or in REDCO_CUDA_FOLDERS",
         0},
        CLI_OPTIONS,
        {0},
    };
    static const struct argp argp = {
        options, parse_option,
        NULL,    "Measures matrix products, attention, memory-bound operators and collectives on this machine.",
        NULL,    NULL,
        NULL};
    struct arguments arguments = {.nodes = 1};
    const int code = cli_parse(&argp, argc, argv, &arguments.cli);
    if (code != CLI_RUN) { return code; }
    cli_tell_crashes();
    if (arguments.seconds == 0) { arguments.seconds = default_seconds[arguments.backend]; }
    if (arguments.libraries) { return cuda_folders_print(&arguments.cli); }
    if (arguments.check != NULL) { return profile_check(&arguments.cli, arguments.check); }
    redco_world_options world = {0};
    struct launched_room room = {.secret_bytes = 0};
    bool launched = false;
    redco_error err = {0};
    uint64_t rank = 0, ranks = 0;
    if (launched_world(&world, &room, &launched, &err) != REDCO_OK) { return cli_fail(&arguments.cli, &err); }
    const bool first = launched ? world.rank == 0 : !launched_by_mpi(&rank, &ranks) || rank == 0;
    if (read_models(&arguments, first, &err) != REDCO_OK) { return cli_fail(&arguments.cli, &err); }
    struct apart_measure apart = {&arguments, launched ? &world : NULL};
    const struct apart_options pipelines = {.library = arguments.pipelines[0].path, .timeout_s = 60.0};
    return arguments.pipeline_count > 0 ? apart_run(&arguments.cli, &pipelines, measure_apart, &apart)
                                        : measure(&arguments, apart.launched, NULL);
}
