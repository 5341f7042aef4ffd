/* Whole steps of ranks that are processes, against a reference on one rank: for every triple of meshes that planners
 * may choose, both schemes, with and without accumulation, tensor parallelism, clipping and a second copy. */
#include "planner/strategy.h"

#include "tests/unit/processes.h"
#include "tests/unit/states_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRIALS_MAX = 512 };

/* What all ranks of a world do, one after the other, and how far each got from the reference. */
struct trials {
    struct trial list[TRIALS_MAX];
    uint32_t count;
    double *error; /* [trial][PROCESSES_MAX], shared with the ranks */
};

static const redco_optimizer optimizers[] = {
    {REDCO_ADAMW, 0.9, 0.95, 1e-8, 0.0, 0.1, 0.5}, /* norms are near 4: it clips */
    {REDCO_SGD, 0.0, 0.0, 0.0, 0.9, 0.01, 0.0},
    {REDCO_SGD, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5},
    {REDCO_ADAMW, 0.9, 0.999, 1e-8, 0.0, 0.0, 0.0},
};

#define SAY(rank, trial, ...)                                                                                          \
    do {                                                                                                               \
        fprintf(stderr, "rank %u, trial %u: ", (rank), (trial));                                                       \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "\n");                                                                                         \
    } while (0)

static double error_of(double got, double want)
{
    return fabs(got - want) / (fabs(want) + 1e-2); /* values are of the order of 1 */
}

/* Weights as every rank gathers them. */
static double weights_error(struct run *run, const struct reference *r)
{
    const redco_layout *const layout = redco_states_layout(run->states);
    double worst = 0.0;
    for (uint32_t m = 0; m < FIX_MODULES; m++) {
        void *const whole = run_gathered(run, m, false);
        if (whole == NULL) { return INFINITY; }
        for (uint32_t i = 0; i < FIX_TENSORS; i++) {
            const uint64_t at = redco_layout_tensor_at(layout, i);
            if (redco_layout_module_of(layout, i) != m) { continue; }
            for (uint64_t e = 0; e < fixture_elements(i); e++) {
                const uint64_t place = fixture_place(i, run->rank % run->trial->mesh.tp, e);
                worst = fmax(worst, error_of(load(run->trial->dtype, whole, at + e), r->weights.of[i][place]));
            }
        }
        free(whole);
    }
    return worst;
}

/* States that this rank owns; 1 where one that it does not own was written. */
static double states_error(struct run *run, const struct reference *r)
{
    const redco_dtype master = redco_states_master_dtype(run->states);
    const uint32_t count = redco_optimizer_states(&run->trial->optimizer);
    const double nothing = 12345.0;
    double worst = 0.0;
    for (uint32_t i = 0; i < FIX_TENSORS; i++) {
        for (int which = REDCO_STATES_WEIGHTS; which < (int)count; which++) {
            const struct values *const want = which < 0 ? &r->weights : &r->state[which];
            double buffer[FIX_MOST];
            for (uint64_t e = 0; e < FIX_MOST; e++) { store(master, buffer, e, nothing); }
            if (redco_states_get(run->states, run->worker, i, which, buffer, NULL) != REDCO_OK) { return INFINITY; }
            for (uint64_t e = 0; e < FIX_MOST; e++) {
                const double got = load(master, buffer, e);
                if (got == nothing) { continue; }
                if (e >= fixture_elements(i)) { return 1.0; }
                const uint64_t place = fixture_place(i, run->rank % run->trial->mesh.tp, e);
                worst = fmax(worst, error_of(got, want->of[i][place]));
            }
        }
    }
    return worst;
}

static int run_trials(redco_world *world, void *context)
{
    const struct trials *const trials = context;
    const uint32_t rank = redco_world_rank(world);
    for (uint32_t i = 0; i < trials->count; i++) {
        const struct trial *const t = &trials->list[i];
        struct reference reference;
        struct run run;
        redco_error err = {.status = REDCO_OK};
        redco_status st = run_open(&run, t, world, &err);
        for (uint32_t s = 0; s < t->steps && st == REDCO_OK; s++) { st = run_step(&run, &err); }
        fixture_reference(t, &reference);
        double *const error = &trials->error[i * PROCESSES_MAX + rank];
        if (st == REDCO_OK) {
            *error = fmax(weights_error(&run, &reference), states_error(&run, &reference));
            *error = fmax(*error, error_of(run.norm, reference.norm));
        } else {
            SAY(rank, i, "%s: %s", err.place, err.text);
        }
        run_close(&run);
        if (st != REDCO_OK) { return 1; }
    }
    return 0;
}

static struct trials *trials_new(void)
{
    struct trials *const trials = calloc(1, sizeof *trials);
    assert_non_null(trials);
    trials->error = mmap(NULL, TRIALS_MAX * PROCESSES_MAX * sizeof(double), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(trials->error != MAP_FAILED);
    return trials;
}

static void trials_free(struct trials *trials)
{
    (void)munmap(trials->error, TRIALS_MAX * PROCESSES_MAX * sizeof(double));
    free(trials);
}

static struct trial *add_trial(struct trials *trials, redco_rank_mesh mesh, redco_shards shards)
{
    assert_true(trials->count < TRIALS_MAX);
    const uint32_t n = trials->count++;
    struct trial *const t = &trials->list[n];
    *t = (struct trial){.mesh = mesh,
                        .scheme = n % 2 == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR,
                        .optimizer = optimizers[n / 4 % 4],
                        .dtype = REDCO_F64,
                        .micro_batches = n / 2 % 2 == 0 ? 1 : 4,
                        .steps = n / 2 % 2 == 0 ? 3 : 2,
                        .bucket_bytes = n / 8 % 2 == 0 ? 256 : 4096,
                        .tight = n / 3 % 2 == 0};
    for (uint32_t l = 0; l < FIX_LAYERS; l++) { t->shards[l] = shards; }
    return t;
}

static void text_of(const struct trial *t, char *text, size_t size)
{
    const redco_shards *const s = &t->shards[0];
    (void)snprintf(text, size, "tp %u dp %ux%u: p %ux%u g %ux%u os %ux%u, %s, %u micro-batches", t->mesh.tp,
                   t->mesh.dp.gpus, t->mesh.dp.nodes, s->parameters.gpus, s->parameters.nodes, s->gradients.gpus,
                   s->gradients.nodes, s->optimizer.gpus, s->optimizer.nodes,
                   t->scheme == REDCO_INTER_TENSOR ? "inter-tensor" : "intra-tensor", t->micro_batches);
}

/* @return the worst error */
static double check_trials(struct trials *trials, double bound)
{
    const uint32_t ranks = (uint32_t)redco_rank_count(trials->list[0].mesh);
    double worst = 0.0;
    for (uint32_t i = 0; i < TRIALS_MAX * PROCESSES_MAX; i++) { trials->error[i] = -1.0; }
    assert_int_equal(run_ranks(ranks, 60.0, run_trials, trials, 0), ranks);
    for (uint32_t i = 0; i < trials->count; i++) {
        for (uint32_t r = 0; r < ranks; r++) {
            const double error = trials->error[i * PROCESSES_MAX + r];
            char text[200];
            text_of(&trials->list[i], text, sizeof text);
            if (!(error >= 0.0 && error <= bound)) { fail_msg("%s: rank %u is off by %.3g", text, r, error); }
            worst = fmax(worst, error);
        }
    }
    return worst;
}

/* Every triple with both schemes, 1 and 4 micro-batches; optimizers, clipping, buckets and granules take turns. */
static void check_mesh(redco_rank_mesh mesh)
{
    struct trials *const trials = trials_new();
    const redco_shards free_choice = {{0, 0}, {0, 0}, {0, 0}};
    redco_shards *triples = NULL;
    size_t count = 0;
    assert_int_equal(redco_strategy_triples(mesh.dp, REDCO_STRATEGY_ANY, &free_choice, &triples, &count, NULL),
                     REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        for (int variant = 0; variant < 4; variant++) { (void)add_trial(trials, mesh, triples[i]); }
    }
    const double worst = check_trials(trials, 1e-12);
    print_message("tp %u x dp %ux%u: %zu triples, %u trainings, off by at most %.2g\n", mesh.tp, mesh.dp.gpus,
                  mesh.dp.nodes, count, trials->count, worst);
    free(triples);
    trials_free(trials);
}

static void two_ranks(void **state)
{
    (void)state;
    check_mesh((redco_rank_mesh){1, {1, 1}});
    check_mesh((redco_rank_mesh){1, {2, 1}});
    check_mesh((redco_rank_mesh){1, {1, 2}});
    check_mesh((redco_rank_mesh){2, {1, 1}});
}

static void four_ranks(void **state)
{
    (void)state;
    check_mesh((redco_rank_mesh){1, {2, 2}});
    check_mesh((redco_rank_mesh){1, {4, 1}});
    check_mesh((redco_rank_mesh){2, {2, 1}});
    check_mesh((redco_rank_mesh){2, {1, 2}});
}

static void eight_ranks(void **state)
{
    (void)state;
    check_mesh((redco_rank_mesh){1, {2, 4}});
    check_mesh((redco_rank_mesh){1, {4, 2}});
    check_mesh((redco_rank_mesh){1, {8, 1}});
    check_mesh((redco_rank_mesh){2, {2, 2}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(four_ranks),
        cmocka_unit_test(eight_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
