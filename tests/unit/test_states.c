/* Whole steps of ranks that are processes, against a reference on one rank: for every triple of meshes that planners
 * may choose, both schemes, with and without accumulation, tensor parallelism, clipping and a second copy. */
#include "planner/search/strategy.h"
#include "states_values.h"

#include "tests/unit/full.h"
#include "tests/unit/processes.h"
#include "tests/unit/states_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { TRIALS_MAX = 512 };

/* Runs all ranks of a world, one after the other, and tells how far each is from the reference. */
struct trials {
    struct trial list[TRIALS_MAX];
    uint32_t count;
    double *error; /* [trial][PROCESSES_MAX], shared with the ranks */
};

static const redco_optimizer optimizers[] = {
    {.kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip_norm = 0.5},
    {.kind = REDCO_SGD, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = REDCO_SGD, .clip_norm = 0.5}, /* norms are near 4: it clips */
    {.kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
};

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
                        .optimizer = optimizers[(n + n / 4) % 4],
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
    check_mesh((redco_rank_mesh){2, {2, 2}});
    if (!test_full()) { return; }
    check_mesh((redco_rank_mesh){1, {2, 4}});
    check_mesh((redco_rank_mesh){1, {4, 2}});
    check_mesh((redco_rank_mesh){1, {8, 1}});
    check_mesh((redco_rank_mesh){4, {2, 1}});
}

/* Gradients strictly between parameters and optimizer states, and meshes that do not fill a node first: planners choose
 * neither, plans may. */
static void unusual_meshes(void **state)
{
    (void)state;
    static const redco_shards shards[] = {{{1, 1}, {2, 1}, {4, 2}}, {{1, 1}, {1, 2}, {4, 2}}, {{2, 1}, {4, 1}, {4, 2}},
                                          {{1, 2}, {1, 2}, {2, 2}}, {{2, 1}, {2, 1}, {2, 2}}, {{1, 1}, {2, 1}, {4, 1}},
                                          {{1, 2}, {2, 2}, {2, 2}}, {{1, 1}, {4, 1}, {4, 1}}};
    struct trials *const trials = trials_new();
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        for (int variant = 0; variant < 4; variant++) {
            (void)add_trial(trials, (redco_rank_mesh){1, {4, 2}}, shards[i]);
        }
    }
    print_message("unusual meshes: off by at most %.2g\n", check_trials(trials, 1e-12));
    trials_free(trials);
}

/* Each layer under another triple; the same bucket plan on all ranks. */
static void mixed_layers(void **state)
{
    (void)state;
    static const redco_shards kinds[] = {{{1, 1}, {1, 1}, {1, 1}}, {{1, 1}, {1, 1}, {2, 4}}, {{2, 1}, {2, 4}, {2, 4}},
                                         {{2, 4}, {2, 4}, {2, 4}}, {{2, 1}, {2, 1}, {2, 2}}, {{1, 1}, {2, 1}, {2, 1}},
                                         {{2, 2}, {2, 2}, {2, 2}}};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    struct trials *const trials = trials_new();
    for (uint32_t i = 0; i < 24; i++) {
        struct trial *const t = add_trial(trials, (redco_rank_mesh){1, {2, 4}}, kinds[0]);
        for (uint32_t l = 0; l < FIX_LAYERS; l++) { t->shards[l] = kinds[(i * 5 + l * (1 + i % 3)) % KINDS]; }
        if (i % 4 == 3) { t->secondary = (redco_mesh){2, 1}; }
    }
    /* Two kinds of gradients that are cut further than parameters take turns: buckets of both are open at once. */
    for (uint32_t i = 0; i < 8; i++) {
        struct trial *const t = add_trial(trials, (redco_rank_mesh){1, {2, 4}}, kinds[2]);
        for (uint32_t l = 1; l < FIX_LAYERS; l += 2) { t->shards[l] = kinds[5]; }
        t->bucket_bytes = 0;
    }
    print_message("layers of different meshes: off by at most %.2g\n", check_trials(trials, 1e-12));
    trials_free(trials);
}

/* ZeRO++'s second copy over a node, over fewer ranks, and whole. */
static void second_copies(void **state)
{
    (void)state;
    static const redco_mesh second[] = {{2, 1}, {1, 1}, {2, 2}, {1, 2}};
    const redco_mesh dp = {2, 4};
    struct trials *const trials = trials_new();
    for (uint32_t i = 0; i < 4 * sizeof second / sizeof second[0]; i++) {
        add_trial(trials, (redco_rank_mesh){1, dp}, (redco_shards){dp, dp, dp})->secondary = second[i / 4];
    }
    print_message("second copies: off by at most %.2g\n", check_trials(trials, 1e-12));
    trials_free(trials);
}

/* Single precision rounds at 6e-8; a few hundred of those, and division by small roots, in between. */
static void single_precision(void **state)
{
    (void)state;
    static const redco_shards kinds[] = {{{1, 1}, {1, 1}, {1, 1}},
                                         {{1, 1}, {1, 1}, {2, 2}},
                                         {{1, 1}, {2, 2}, {2, 2}},
                                         {{2, 2}, {2, 2}, {2, 2}},
                                         {{2, 1}, {2, 1}, {2, 2}}};
    struct trials *const trials = trials_new();
    for (uint32_t i = 0; i < 4 * sizeof kinds / sizeof kinds[0]; i++) {
        add_trial(trials, (redco_rank_mesh){1, {2, 2}}, kinds[i / 4])->dtype = REDCO_F32;
    }
    print_message("f32: off by at most %.2g\n", check_trials(trials, 1e-5));
    trials_free(trials);
}

/* The same training by one rank that has all gradients: sums of small integers are exact in bf16, so that not a bit may
 * differ. */
static redco_status alone(const struct trial *t, struct run *run, redco_world **world_out)
{
    static struct trial single; /* this process's; read until run_close() */
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF};
    single = *t;
    single.mesh = (redco_rank_mesh){1, {1, 1}};
    single.micro_batches = 1;
    single.sum_replicas = (uint32_t)redco_mesh_ranks(t->mesh.dp);
    single.sum_micro_batches = t->micro_batches;
    for (uint32_t l = 0; l < FIX_LAYERS; l++) { single.shards[l] = (redco_shards){{1, 1}, {1, 1}, {1, 1}}; }
    redco_status st = redco_world_open(&options, world_out, NULL);
    if (st == REDCO_OK) { st = run_open(run, &single, *world_out, NULL); }
    for (uint32_t s = 0; s < t->steps && st == REDCO_OK; s++) { st = run_step(run, NULL); }
    return st;
}

/* For one tensor: every gathered weight is the rounded master weight of the single rank, and so are the owned masters.
 * @return how many differ */
static uint32_t different_bits(struct run *run, struct run *single, uint32_t tensor)
{
    const redco_layout *const layout = redco_states_layout(run->states);
    const uint64_t at = redco_layout_tensor_at(layout, tensor);
    float masters[FIX_MOST], owned[FIX_MOST];
    uint16_t rounded[FIX_MOST];
    uint32_t count = 0;
    uint16_t *const whole = run_gathered(run, redco_layout_module_of(layout, tensor), false);
    for (uint32_t e = 0; e < FIX_MOST; e++) { owned[e] = 12345.0F; }
    if (whole == NULL ||
        states_get(single->states, single->worker, tensor, REDCO_STATES_WEIGHTS, masters, NULL) != REDCO_OK ||
        states_get(run->states, run->worker, tensor, REDCO_STATES_WEIGHTS, owned, NULL) != REDCO_OK) {
        free(whole);
        return 1;
    }
    for (uint64_t e = 0; e < fixture_elements(tensor); e++) {
        store(REDCO_BFLOAT16, rounded, e, (double)masters[e]);
        count += rounded[e] != whole[at + e] ? 1 : 0;
        count += owned[e] != 12345.0F && memcmp(&owned[e], &masters[e], sizeof owned[e]) != 0 ? 1 : 0;
    }
    free(whole);
    return count;
}

static int same_bits(redco_world *world, void *context)
{
    const struct trials *const trials = context;
    for (uint32_t i = 0; i < trials->count; i++) {
        const struct trial *const t = &trials->list[i];
        struct run run, single;
        redco_world *self = NULL;
        redco_error err = {.status = REDCO_OK};
        uint32_t different = 0;
        redco_status st = run_open(&run, t, world, &err);
        for (uint32_t s = 0; s < t->steps && st == REDCO_OK; s++) { st = run_step(&run, &err); }
        if (st != REDCO_OK || alone(t, &single, &self) != REDCO_OK) {
            SAY(redco_world_rank(world), i, "%s: %s", err.place, err.text);
            return 1;
        }
        for (uint32_t k = 0; k < FIX_TENSORS; k++) { different += different_bits(&run, &single, k); }
        run_close(&single);
        redco_world_close(self);
        run_close(&run);
        if (different > 0) {
            SAY(redco_world_rank(world), i, "%u values differ", different);
            return 2;
        }
    }
    return 0;
}

static void half_precision(void **state)
{
    (void)state;
    static const redco_shards kinds[] = {{{1, 1}, {1, 1}, {1, 1}}, {{1, 1}, {1, 1}, {4, 1}}, {{1, 1}, {4, 2}, {4, 2}},
                                         {{4, 2}, {4, 2}, {4, 2}}, {{2, 1}, {2, 1}, {4, 2}}, {{2, 1}, {4, 1}, {4, 1}}};
    struct trials *const trials = trials_new();
    for (uint32_t i = 0; i < 4 * sizeof kinds / sizeof kinds[0]; i++) {
        struct trial *const t = add_trial(trials, (redco_rank_mesh){1, {4, 2}}, kinds[i / 4]);
        t->dtype = REDCO_BFLOAT16;
        t->coarse = true;
        t->optimizer = optimizers[0];
        t->optimizer.clip_norm = 0.0;
    }
    assert_int_equal(run_ranks(8, 60.0, same_bits, trials, 0), 8);
    trials_free(trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),        cmocka_unit_test(four_ranks),     cmocka_unit_test(eight_ranks),
        cmocka_unit_test(unusual_meshes),   cmocka_unit_test(mixed_layers),   cmocka_unit_test(second_copies),
        cmocka_unit_test(single_precision), cmocka_unit_test(half_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
