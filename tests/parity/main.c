/* redco_parity: plans of small models on 1 to 8 ranks, each trained and compared with the same training on one rank.
 * Exit code: 0 all are the same, 1 some differ, 2 usage, 3 a failure of the machine. */
#include "costmodel/simulator/step.h"
#include "tests/parity/parity.h"
#include "tools/launch/share_gpu.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    KEY_SAMPLE = 0x100,
    KEY_MODEL,
    KEY_RANKS,
    KEY_TP,
    KEY_STAGES,
    KEY_TYPE,
    KEY_ONLY,
    KEY_OVERLAP,
    KEY_VERBOSE,
    KEY_LIST,
    KEY_SOCKETS,
    KEY_EVERY,
    KEY_DEFERRED,
    KEY_BACKEND,
    KEY_SHARE,
    KEY_FUSE,
    KEY_GRAPHS,
    KEY_DATA
};

struct args {
    struct parity_options options;
    bool verbose, list;
};

static const struct argp_option flags[] = {
    {"sample", KEY_SAMPLE, NULL, 0, "One plan of each cell of the table, for tests", 0},
    {"every", KEY_EVERY, NULL, 0,
     "All combinations: on 8 ranks not half of them, of f32 and bf16 not a quarter and an eighth", 0},
    {"model", KEY_MODEL, "NAME", 0, "llama, gpt2 or opt alone", 0},
    {"ranks", KEY_RANKS, "N", 0, "1, 2, 4 or 8 ranks alone", 0},
    {"tp", KEY_TP, "N", 0, "One degree of tensor parallelism alone", 0},
    {"stages", KEY_STAGES, "N", 0, "Plans with so many pipeline stages, 1 or 2 (default: 1)", 0},
    {"dtype", KEY_TYPE, "TYPE", 0, "f64, f32 or bf16 alone", 0},
    {"only", KEY_ONLY, "TEXT", 0, "Cases whose name has it, as messages write names", 0},
    {"overlap", KEY_OVERLAP, "all|none", 0, "What of communication the plans hide behind computation (default: all)",
     0},
    {"sockets", KEY_SOCKETS, NULL, 0, "Ranks exchange over TCP, not through shared memory", 0},
    {"deferred", KEY_DEFERRED, NULL, 0, "On a device whose queues begin everything a little later", 0},
    {"backend", KEY_BACKEND, "host|cuda", 0,
     "Who computes and communicates; cuda: a GPU for each rank, and NCCL. The one rank that all are compared with is "
     "always the host",
     0},
    {"share-gpu", KEY_SHARE, NULL, 0, "Ranks may have the same GPU, as redco-exec --share-gpu", 0},
    {"fuse", KEY_FUSE, "on|off", 0, "All plans with fused operators, or none (default: every second)", 0},
    {"cuda-graphs", KEY_GRAPHS, "on|off", 0, "On a GPU, steps as graphs (default), or operators one by one", 0},
    {"data", KEY_DATA, "FOLDER", 0, "Where models/oracle lies (default: tests/data of the sources)", 0},
    {"list", KEY_LIST, NULL, 0, "Only name the cases", 0},
    {"verbose", KEY_VERBOSE, NULL, 0, "A line for every case", 0},
    {0}};

static int number(struct argp_state *state, const char *text, int most)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most) {
        argp_error(state, "\"%s\" is not a number from 1 to %d", text, most);
    }
    return (int)value;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct args *const a = state->input;
    struct parity_options *const o = &a->options;
    switch (key) {
    case KEY_SAMPLE: o->sample = true; return 0;
    case KEY_RANKS: o->ranks = number(state, text, PARITY_RANKS); return 0;
    case KEY_TP: o->tp = number(state, text, 4); return 0;
    case KEY_STAGES: o->stages = (uint32_t)number(state, text, 2); return 0;
    case KEY_ONLY: o->only = text; return 0;
    case KEY_DATA: o->data = text; return 0;
    case KEY_EVERY: o->every = true; return 0;
    case KEY_SOCKETS: o->sockets = true; return 0;
    case KEY_DEFERRED: o->deferred = true; return 0;
    case KEY_BACKEND:
        if (strcmp(text, "host") != 0 && strcmp(text, "cuda") != 0) { argp_error(state, "no backend \"%s\"", text); }
        o->cuda = strcmp(text, "cuda") == 0;
        return 0;
    case KEY_SHARE: o->share_gpu = true; return share_gpu() ? 0 : ENOMEM;
    case KEY_FUSE:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0) { argp_error(state, "\"%s\" is not on or off", text); }
        o->fuse = strcmp(text, "on") == 0 ? REDCO_TRAINER_FUSE_ON : REDCO_TRAINER_FUSE_OFF;
        return 0;
    case KEY_GRAPHS:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0) { argp_error(state, "\"%s\" is not on or off", text); }
        o->launch_each = strcmp(text, "off") == 0;
        return 0;
    case KEY_LIST: a->list = true; return 0;
    case KEY_VERBOSE: a->verbose = true; return 0;
    case KEY_OVERLAP:
        if (strcmp(text, "none") != 0 && strcmp(text, "all") != 0) { argp_error(state, "no overlap \"%s\"", text); }
        o->overlap = strcmp(text, "none") == 0 ? REDCO_OVERLAP_NONE : REDCO_OVERLAP_ALL;
        return 0;
    case KEY_MODEL:
        for (o->model = 0; o->model < PARITY_MODELS && strcmp(text, parity_models[o->model]) != 0;) { o->model++; }
        if (o->model == PARITY_MODELS) { argp_error(state, "no model \"%s\"", text); }
        return 0;
    case KEY_TYPE:
        o->f64 = strcmp(text, "f64") == 0;
        o->f32 = strcmp(text, "f32") == 0;
        o->bf16 = strcmp(text, "bf16") == 0;
        if (!o->f64 && !o->f32 && !o->bf16) { argp_error(state, "no type \"%s\"", text); }
        return 0;
    case ARGP_KEY_END:
        if (o->cuda && o->deferred) { argp_error(state, "--deferred is a host backend"); }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* By vocabulary and accumulation. */
struct baselines {
    redco_baseline *of[2][2];
};

static const redco_baseline **baseline_of(struct baselines *b, const struct parity_case *c)
{
    return (const redco_baseline **)&b->of[c->placed ? 1 : 0][c->accumulation > 1 ? 1 : 0];
}

/* Clipping must be seen at work and at rest in every training. */
static redco_status count_clipped(struct parity_table *table, const redco_baseline *baseline, double clip_norm,
                                  redco_error *err)
{
    uint64_t count = 0;
    uint32_t clipped = 0;
    const redco_trainer_step *const steps = redco_baseline_steps(baseline, &count);
    for (uint64_t s = 0; s < count; s++) { clipped += steps[s].gradient_norm > clip_norm ? 1 : 0; }
    table->clipped_steps += clipped;
    table->free_steps += (uint32_t)count - clipped;
    if (clipped > 0 && clipped < count) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "one rank",
                      "%u of %llu steps are clipped to %g; the first has norm %g, the last %g", clipped,
                      (unsigned long long)count, clip_norm, steps[0].gradient_norm, steps[count - 1].gradient_norm);
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct batch {
    struct parity_cases cases;
    struct parity_trained *trained;
    struct parity_outcome *outcomes;
    size_t outcomes_bytes;
};

static redco_status prepare(struct batch *b, struct parity_planner *planner, struct baselines *baselines,
                            struct parity_table *table, redco_error *err)
{
    redco_status st = REDCO_OK;
    b->trained = calloc(b->cases.count, sizeof *b->trained);
    b->outcomes_bytes = b->cases.count * sizeof *b->outcomes;
    b->outcomes = mmap(NULL, b->outcomes_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b->trained == NULL || b->outcomes == MAP_FAILED) {
        return redco_fail(err, REDCO_ENOMEM, "cases", "out of memory");
    }
    const size_t listed = b->cases.count;
    b->cases.count = 0; /* those that are run */
    for (size_t k = 0; k < listed && st == REDCO_OK; k++) {
        const size_t i = b->cases.count;
        b->cases.list[i] = b->cases.list[k];
        const struct parity_case *const c = &b->cases.list[i];
        const redco_trainer_options options = parity_training(c);
        const redco_baseline **const baseline = baseline_of(baselines, c);
        char name[PARITY_NAME];
        parity_name(c, name);
        st = parity_plan(planner, c, &b->trained[i].plan, err);
        if (st == REDCO_OK && c->pp > 1 && !parity_is_executable(planner, b->trained[i].plan)) {
            redco_plan_free(b->trained[i].plan);
            b->trained[i].plan = NULL;
            continue;
        }
        b->cases.count++;
        if (st == REDCO_OK) { st = parity_steps(b->trained[i].plan, &b->trained[i].steps, err); }
        if (st == REDCO_OK && *baseline == NULL) {
            redco_baseline *made = NULL;
            st = redco_baseline_train(b->trained[i].plan, "one rank", &options, PARITY_STEPS, &made, err);
            *baseline = made;
            if (st == REDCO_OK) { st = count_clipped(table, made, options.optimizer.clip_norm, err); }
        }
        b->trained[i].baseline = *baseline;
        if (st != REDCO_OK) { (void)fprintf(stderr, "%s: %s: %s\n", name, err->place, err->text); }
    }
    return st;
}

static void release(struct batch *b)
{
    for (size_t i = 0; b->trained != NULL && i < b->cases.count; i++) {
        redco_step_free(b->trained[i].steps);
        redco_plan_free(b->trained[i].plan);
    }
    if (b->outcomes != NULL && b->outcomes != MAP_FAILED) { (void)munmap(b->outcomes, b->outcomes_bytes); }
    free(b->trained);
    free(b->cases.list);
    *b = (struct batch){.trained = NULL};
}

static void tell(const struct args *a, const struct parity_case *c, const struct parity_outcome *o)
{
    const redco_trainer_verdict *const v = &o->verdict;
    char name[PARITY_NAME];
    parity_name(c, name);
    if (o->failed) {
        (void)printf("FAILED %s: %s\n", name, o->error);
    } else if (!v->same) {
        (void)printf("DIFFERS %s: losses %.1e, norms %.1e, weights %.1e; first in step %llu, %s of rank %u\n", name,
                     v->loss_error, v->norm_error, v->weight_error, (unsigned long long)v->differs_step,
                     v->tensor[0] != '\0' ? v->tensor : "no tensor", v->rank);
    } else if (a->verbose) {
        (void)printf("%s: losses %.1e, norms %.1e, weights %.1e, %.2f s\n", name, v->loss_error, v->norm_error,
                     v->weight_error, o->seconds);
    }
}

static redco_status try_ranks(const struct args *a, struct batch *b, struct parity_planner *planner,
                              struct baselines *baselines, struct parity_table *table, redco_error *err)
{
    const uint32_t failures = table->failures;
    const double begin_s = now_s();
    redco_status st = prepare(b, planner, baselines, table, err);
    if (st == REDCO_OK) { st = parity_run(&b->cases, b->trained, b->outcomes, &a->options, err); }
    for (size_t i = 0; i < b->cases.count && st == REDCO_OK; i++) {
        tell(a, &b->cases.list[i], &b->outcomes[i]);
        parity_count(table, &b->cases.list[i], &b->outcomes[i]);
    }
    (void)fflush(stdout);
    if (!a->options.sample && st == REDCO_OK) {
        const struct parity_case *const c = &b->cases.list[0];
        (void)fprintf(stderr, "%s, %s, %u ranks: %zu trainings, %u failures, %.0f s\n", parity_models[c->model],
                      redco_dtype_name(c->dtype), parity_ranks(c), b->cases.count, table->failures - failures,
                      now_s() - begin_s);
    }
    return st;
}

static redco_status try_type(const struct args *a, uint32_t model, redco_dtype dtype, struct parity_table *table,
                             redco_error *err)
{
    struct parity_planner planner = {.data = a->options.data};
    struct baselines baselines = {{{NULL}}};
    struct batch batch = {.trained = NULL};
    redco_status st = REDCO_OK;
    for (uint32_t ranks = 1; ranks <= PARITY_RANKS && st == REDCO_OK; ranks *= 2) {
        if (a->options.ranks > 0 && (uint32_t)a->options.ranks != ranks) { continue; }
        if (ranks < a->options.stages) { continue; }
        if (!parity_list(&a->options, model, dtype, ranks, &batch.cases)) {
            st = redco_fail(err, REDCO_ENOMEM, "cases", "out of memory");
        } else if (a->list) {
            for (size_t i = 0; i < batch.cases.count; i++) {
                char name[PARITY_NAME];
                parity_name(&batch.cases.list[i], name);
                (void)puts(name);
            }
        } else if (batch.cases.count > 0) {
            st = try_ranks(a, &batch, &planner, &baselines, table, err);
        }
        release(&batch);
    }
    parity_planner_close(&planner);
    for (int i = 0; i < 4; i++) { redco_baseline_free(baselines.of[i / 2][i % 2]); }
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.options = flags, .parser = read_flag, .doc = "Plans against one rank."};
    struct parity_table table = {.runs = 0};
    struct args a = {.options = {.model = -1,
                                 .ranks = -1,
                                 .tp = -1,
                                 .stages = 1,
                                 .f64 = true,
                                 .f32 = true,
                                 .bf16 = true,
                                 .overlap = REDCO_OVERLAP_ALL}};
    const redco_dtype types[] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16};
    const double begin_s = now_s();
    redco_error err = {.status = REDCO_OK};
    redco_status st = REDCO_OK;
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0) { return 2; }
    const bool wanted[] = {a.options.f64, a.options.f32, a.options.bf16};
    for (uint32_t model = 0; model < PARITY_MODELS; model++) {
        for (uint32_t t = 0; t < 3 && st == REDCO_OK; t++) {
            if (!wanted[t] || (a.options.model >= 0 && (uint32_t)a.options.model != model)) { continue; }
            st = try_type(&a, model, types[t], &table, &err);
        }
    }
    if (st != REDCO_OK) {
        (void)fprintf(stderr, "redco_parity: %s: %s\n", err.place, err.text);
        return 3;
    }
    if (a.list) { return 0; }
    if (table.runs == 0) {
        (void)fprintf(stderr, "redco_parity: no such case\n");
        return 2;
    }
    parity_print(&table, now_s() - begin_s);
    return table.failures > 0 ? 1 : 0;
}
