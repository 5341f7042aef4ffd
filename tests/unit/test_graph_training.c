/* The graph as its users see it: a small network and two small transformers are built, differentiated and trained. */
#include "graph_fixture.h"

#include <stdio.h>

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[])                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* A network of two layers by hand: y = tanh(x a) b, loss = mean (y - t)^2, steps against the gradient. */
enum { ROWS = 6, IN = 3, HIDDEN = 5, STEPS = 25 };

typedef struct network {
    double a[IN * HIDDEN], b[HIDDEN];
} network;

static double step_by_hand(const double *x, const double *t, network *n, double rate)
{
    network gradient = {{0}, {0}};
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double h[HIDDEN], y = 0;
        for (int j = 0; j < HIDDEN; j++) {
            double sum = 0;
            for (int i = 0; i < IN; i++) { sum += x[r * IN + i] * n->a[i * HIDDEN + j]; }
            h[j] = tanh(sum);
            y += h[j] * n->b[j];
        }
        loss += (y - t[r]) * (y - t[r]) / ROWS;
        const double dy = 2 * (y - t[r]) / ROWS;
        for (int j = 0; j < HIDDEN; j++) {
            gradient.b[j] += dy * h[j];
            for (int i = 0; i < IN; i++) {
                gradient.a[i * HIDDEN + j] += dy * n->b[j] * (1 - h[j] * h[j]) * x[r * IN + i];
            }
        }
    }
    for (int i = 0; i < IN * HIDDEN; i++) { n->a[i] -= rate * gradient.a[i]; }
    for (int j = 0; j < HIDDEN; j++) { n->b[j] -= rate * gradient.b[j]; }
    return loss;
}

static redco_value step_down(redco_graph *g, redco_value parameter, redco_value gradient, double rate)
{
    return redco_sub(g, parameter, redco_scale(g, gradient, rate));
}

static void network_trains_as_by_hand(void **state)
{
    fixture *l = *state;
    redco_graph *g = l->g;
    const double rate = 0.2;
    double x[ROWS * IN], t[ROWS], loss = 0, first = 0;
    network by_hand, trained, next;
    for (int i = 0; i < ROWS * IN; i++) { x[i] = fixture_uniform(l, -1, 1); }
    for (int i = 0; i < ROWS; i++) { t[i] = fixture_uniform(l, -1, 1); }
    for (int i = 0; i < IN * HIDDEN; i++) { by_hand.a[i] = fixture_uniform(l, -1, 1); }
    for (int i = 0; i < HIDDEN; i++) { by_hand.b[i] = fixture_uniform(l, -1, 1); }
    trained = by_hand;

    const redco_tensor_type type_x = redco_type(REDCO_F64, DIMS(ROWS, IN)),
                            type_t = redco_type(REDCO_F64, DIMS(ROWS, 1));
    const redco_tensor_type type_a = redco_type(REDCO_F64, DIMS(IN, HIDDEN)),
                            type_b = redco_type(REDCO_F64, DIMS(HIDDEN, 1));
    const redco_value vx = redco_input(g, "x", &type_x), vt = redco_input(g, "t", &type_t);
    const redco_value parameters[2] = {redco_parameter(g, "a", &type_a), redco_parameter(g, "b", &type_b)};
    redco_value gradients[2];
    const redco_value hidden = redco_tanh(g, redco_matmul(g, vx, parameters[0], false, false));
    const redco_value error = redco_sub(g, redco_matmul(g, hidden, parameters[1], false, false), vt);
    const redco_value mean = redco_mean_all(g, redco_mul(g, error, error));
    redco_gradient(g, mean, parameters, 2, gradients);
    const redco_value next_a = step_down(g, parameters[0], gradients[0], rate);
    const redco_value next_b = step_down(g, parameters[1], gradients[1], rate);

    for (int step = 0; step < STEPS; step++) {
        redco_error err = {0};
        const redco_binding bindings[4] = {{vx, x}, {vt, t}, {parameters[0], trained.a}, {parameters[1], trained.b}};
        const redco_result results[3] = {{mean, &loss}, {next_a, next.a}, {next_b, next.b}};
        if (redco_evaluate(l->backend, g, bindings, 4, results, 3, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        assert_true(fabs(loss - step_by_hand(x, t, &by_hand, rate)) < 1e-12);
        trained = next;
        if (step == 0) { first = loss; }
    }
    assert_true(loss < 0.5 * first);
    for (int i = 0; i < IN * HIDDEN; i++) { assert_true(fabs(trained.a[i] - by_hand.a[i]) < 1e-12); }
    fixture_clear(l);
}

/* Two decoder blocks, as LLaMA's (grouped heads, rotary, RMS norm, gated) or as GPT-2's (biases, learned positions,
 * layer norm). Parameters and tokens are formulas, so that another program can have the same:
 * tests/data/graph/make_reference.py. */
enum {
    BATCH = 2,
    SEQUENCE = 6,
    WIDTH = 16,
    HEADS = 4,
    SIZE = 4,
    FFN = 24,
    VOCABULARY = 11,
    LAYERS = 2,
    PARAMETERS_MAX = 40
};

typedef struct model {
    redco_graph *g;
    bool llama;
    redco_dtype dtype;
    uint32_t count; /**< parameters */
    redco_value parameter[PARAMETERS_MAX];
    double *data[PARAMETERS_MAX]; /**< always F64 here; cast in the graph */
    redco_value used[PARAMETERS_MAX];
} model;

/** The next parameter: element i is centre + spread sin(1.3 i + 0.7 number). @return it in the model's type */
static redco_value parameter(model *m, uint32_t rank, const uint64_t *dim, double centre, double spread)
{
    char name[32];
    const redco_tensor_type type = redco_type(REDCO_F64, rank, dim);
    const uint32_t k = m->count++;
    assert_true(k < PARAMETERS_MAX);
    (void)snprintf(name, sizeof name, "p%u", k);
    m->parameter[k] = redco_parameter(m->g, name, &type);
    m->data[k] = malloc(redco_type_bytes(&type));
    assert_non_null(m->data[k]);
    for (uint64_t i = 0; i < redco_type_elements(&type); i++) {
        m->data[k][i] = centre + spread * sin(1.3 * (double)i + 0.7 * (double)k);
    }
    return redco_cast(m->g, m->parameter[k], m->dtype);
}

static redco_value linear(model *m, const char *name, redco_value x, uint64_t in, uint64_t out)
{
    redco_graph_set_operator(m->g, name);
    const redco_value w = parameter(m, DIMS(in, out), 0, 1 / sqrt((double)in));
    const redco_value y = redco_matmul(m->g, x, w, false, false);
    return m->llama ? y : redco_add(m->g, y, parameter(m, DIMS(out), 0, 0.1));
}

static redco_value norm(model *m, const char *name, redco_value x)
{
    redco_graph_set_operator(m->g, name);
    const redco_value scale = parameter(m, DIMS(WIDTH), 1, 0.1);
    return m->llama ? redco_rms_norm(m->g, x, scale, 1e-5)
                    : redco_layer_norm(m->g, x, scale, parameter(m, DIMS(WIDTH), 0, 0.1), 1e-5);
}

static redco_value heads_of(model *m, redco_value qkv, uint64_t first, uint64_t heads)
{
    const redco_value part = redco_slice_axis(m->g, qkv, 2, first * SIZE, heads * SIZE);
    return redco_reshape(m->g, part, DIMS(BATCH, SEQUENCE, heads, SIZE));
}

static redco_value block(model *m, redco_value x, redco_value cosines, redco_value sines)
{
    redco_graph *g = m->g;
    const uint64_t groups = m->llama ? HEADS / 2 : HEADS;
    const redco_value qkv = linear(m, "qkv", norm(m, "attn_norm", x), WIDTH, (HEADS + 2 * groups) * SIZE);
    redco_value q = heads_of(m, qkv, 0, HEADS), k = heads_of(m, qkv, HEADS, groups);
    const redco_value v = heads_of(m, qkv, HEADS + groups, groups);
    if (m->llama) {
        redco_graph_set_operator(g, "rotary");
        q = redco_rotary(g, q, cosines, sines, false);
        k = redco_rotary(g, k, cosines, sines, false);
    }
    redco_graph_set_operator(g, "attention");
    const redco_value seen = redco_attend(g, q, k, v, REDCO_NO_VALUE, &(redco_attention_options){.causal = true});
    const redco_value joined = redco_reshape(g, seen, DIMS(BATCH, SEQUENCE, WIDTH));
    const redco_value middle = redco_add(g, x, linear(m, "out", joined, WIDTH, WIDTH));
    const redco_value in = linear(m, "ffn_in", norm(m, "ffn_norm", middle), WIDTH, m->llama ? 2 * FFN : FFN);
    redco_graph_set_operator(g, "activation");
    const redco_value active =
        m->llama ? redco_mul(g, redco_silu(g, redco_slice_axis(g, in, 2, 0, FFN)), redco_slice_axis(g, in, 2, FFN, FFN))
                 : redco_gelu_tanh(g, in);
    return redco_add(g, middle, linear(m, "ffn_out", active, FFN, WIDTH));
}

/** @return the mean loss, F32 or F64 */
static redco_value transformer(model *m, redco_value tokens, redco_value targets)
{
    redco_graph *g = m->g;
    char layer[32];
    redco_value cosines = REDCO_NO_VALUE, sines = REDCO_NO_VALUE;
    redco_graph_set_layer(g, "embedding.0");
    redco_graph_set_operator(g, "embedding");
    redco_value x = redco_gather(g, parameter(m, DIMS(VOCABULARY, WIDTH), 0, 1), tokens, NULL);
    if (m->llama) {
        const redco_tensor_type positions = redco_type(REDCO_I32, DIMS(SEQUENCE));
        redco_rotary_tables(g, redco_iota(g, &positions, 0), SIZE, 10000, redco_dtype_statistic(m->dtype), &cosines,
                            &sines);
    } else {
        x = redco_add(g, x, parameter(m, DIMS(SEQUENCE, WIDTH), 0, 0.5));
    }
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(layer, sizeof layer, "block.%d", i);
        redco_graph_set_layer(g, layer);
        x = block(m, x, cosines, sines);
    }
    redco_graph_set_layer(g, "head.0");
    const redco_value logits = linear(m, "head", norm(m, "final_norm", x), WIDTH, VOCABULARY);
    redco_graph_set_operator(g, "loss");
    return redco_mean_all(g, redco_cross_entropy(g, logits, targets, false));
}

static int32_t token(int i)
{
    return (int32_t)((7 * i + 3 * i * i) % VOCABULARY);
}

typedef struct training {
    model m;
    redco_value tokens, targets, loss, gradient[PARAMETERS_MAX], next[PARAMETERS_MAX];
    int32_t token[BATCH * SEQUENCE], target[BATCH * SEQUENCE];
} training;

static void build_training(training *t, redco_graph *g, bool llama, redco_dtype dtype, double rate)
{
    const redco_tensor_type batch = redco_type(REDCO_I32, DIMS(BATCH, SEQUENCE));
    memset(t, 0, sizeof *t);
    t->m = (model){.g = g, .llama = llama, .dtype = dtype};
    t->tokens = redco_input(g, "tokens", &batch);
    t->targets = redco_input(g, "targets", &batch);
    t->loss = redco_cast(g, transformer(&t->m, t->tokens, t->targets), REDCO_F64);
    redco_gradient(g, t->loss, t->m.parameter, t->m.count, t->gradient);
    for (uint32_t i = 0; i < t->m.count; i++) { t->next[i] = step_down(g, t->m.parameter[i], t->gradient[i], rate); }
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        t->token[i] = token(i);
        t->target[i] = token(i + 1);
    }
}

/** One step; parameters move. @param gradients NULL, or one array per parameter */
static double train_step(fixture *l, training *t, double **gradients)
{
    redco_binding bindings[PARAMETERS_MAX + 2] = {{t->tokens, t->token}, {t->targets, t->target}};
    redco_result results[2 * PARAMETERS_MAX + 1];
    double *moved[PARAMETERS_MAX], loss;
    uint32_t count = 0;
    redco_error err = {0};
    results[count++] = (redco_result){t->loss, &loss};
    for (uint32_t i = 0; i < t->m.count; i++) {
        const uint64_t size_bytes = redco_type_bytes(redco_value_type(t->m.g, t->m.parameter[i]));
        bindings[2 + i] = (redco_binding){t->m.parameter[i], t->m.data[i]};
        moved[i] = malloc(size_bytes);
        assert_non_null(moved[i]);
        results[count++] = (redco_result){t->next[i], moved[i]};
        if (gradients != NULL) { results[count++] = (redco_result){t->gradient[i], gradients[i]}; }
    }
    if (redco_evaluate(l->backend, t->m.g, bindings, t->m.count + 2, results, count, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    for (uint32_t i = 0; i < t->m.count; i++) {
        free(t->m.data[i]);
        t->m.data[i] = moved[i];
    }
    return loss;
}

static void free_training(training *t)
{
    for (uint32_t i = 0; i < t->m.count; i++) { free(t->m.data[i]); }
}

/** Reads "number number" lines of the reference behind the line @p title. */
static FILE *reference(const char *title)
{
    char line[200];
    FILE *file = fopen(REDCO_TEST_DATA "/graph/reference.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, title, strlen(title)) == 0) { return file; }
    }
    fail_msg("no %s in the reference", title);
    return NULL;
}

static void read_numbers(FILE *file, double *numbers, int count)
{
    for (int i = 0; i < count; i++) { assert_int_equal(fscanf(file, "%lf", &numbers[i]), 1); }
}

/* PyTorch's losses over five steps, and of every first gradient its length and its sum weighted by cos(0.3 i). */
static void compare_with_reference(fixture *l, bool llama)
{
    training t;
    double *gradients[PARAMETERS_MAX], want[2], worst = 0;
    FILE *file = reference(llama ? "llama" : "gpt2");
    build_training(&t, l->g, llama, REDCO_F64, 0.1);
    fixture_assert_ok(l);
    for (uint32_t i = 0; i < t.m.count; i++) {
        gradients[i] = malloc(redco_type_bytes(redco_value_type(l->g, t.m.parameter[i])));
        assert_non_null(gradients[i]);
    }
    for (int step = 0; step < 5; step++) {
        read_numbers(file, want, 1);
        const double loss = train_step(l, &t, step == 0 ? gradients : NULL);
        worst = fmax(worst, fabs(loss - want[0]));
        assert_true(fabs(loss - want[0]) < 1e-12);
    }
    for (uint32_t i = 0; i < t.m.count; i++) {
        const uint64_t n = redco_type_elements(redco_value_type(l->g, t.m.parameter[i]));
        double squares = 0, sum = 0;
        read_numbers(file, want, 2);
        for (uint64_t e = 0; e < n; e++) {
            squares += gradients[i][e] * gradients[i][e];
            sum += gradients[i][e] * cos(0.3 * (double)e);
        }
        assert_true(fabs(sqrt(squares) - want[0]) < 1e-12 * (1 + want[0]));
        assert_true(fabs(sum - want[1]) < 1e-12 * (1 + want[0]) * (double)n);
        free(gradients[i]);
    }
    (void)fclose(file);
    (void)printf("%s: losses as PyTorch's to %.1e\n", llama ? "llama" : "gpt2", worst);
    free_training(&t);
    fixture_clear(l);
}

static void llama_equals_pytorch(void **state)
{
    compare_with_reference(*state, true);
}

static void gpt2_equals_pytorch(void **state)
{
    compare_with_reference(*state, false);
}

/* The loss falls in every precision, and half precision stays near double. Bounds: storage of 8 bits of significand
 * moves a loss of about 3 by some 1e-2 each; 24 bits, by some 1e-6. */
static void transformers_train_in_every_precision(void **state)
{
    fixture *l = *state;
    static const redco_dtype dtypes[4] = {REDCO_F64, REDCO_F32, REDCO_F16, REDCO_BFLOAT16};
    static const double bounds[4] = {0, 1.5e-6, 1.2e-2, 1e-1};
    for (int llama = 0; llama < 2; llama++) {
        double exact[10];
        for (int k = 0; k < 4; k++) {
            training t;
            double loss = 0, first = 0;
            build_training(&t, l->g, llama != 0, dtypes[k], 0.1);
            fixture_assert_ok(l);
            for (int step = 0; step < 10; step++) {
                loss = train_step(l, &t, NULL);
                if (step == 0) { first = loss; }
                if (k == 0) { exact[step] = loss; }
                if (!(fabs(loss - exact[step]) <= bounds[k])) {
                    fail_msg("step %d: %.9g for %.9g", step, loss, exact[step]);
                }
            }
            assert_true(loss < 0.8 * first);
            free_training(&t);
            fixture_clear(l);
        }
    }
}

/* PyTorch's torch.optim.AdamW(lr=0.05, weight_decay=0.1, eps=1e-8), five steps from p = (1, -2, 3) with gradients
 * (p - 1)^2 sin p: the same file. */
static void adamw_equals_pytorch(void **state)
{
    fixture *l = *state;
    redco_graph *g = l->g;
    const redco_tensor_type type = redco_type(REDCO_F64, DIMS(3)),
                            count = redco_type(REDCO_F64, DIMS(REDCO_ADAMW_COUNT));
    const redco_value p = redco_parameter(g, "p", &type), m = redco_input(g, "m", &type),
                      v = redco_input(g, "v", &type);
    const redco_value numbers = redco_input(g, "numbers", &count);
    const redco_value gradient = redco_mul(g, redco_pow(g, redco_shift(g, p, -1), 2), redco_sin(g, p));
    redco_value next[3];
    redco_adamw(g, p, m, v, gradient, numbers, next);
    double state_now[3][3] = {{1, -2, 3}}, state_next[3][3], want[3];
    double given[REDCO_ADAMW_COUNT] = {0.05, 1, 0.9, 0.999, 1e-8, 0.1};
    given[REDCO_ADAMW_REST1] = 1 - 0.9;
    given[REDCO_ADAMW_REST2] = 1 - 0.999;
    FILE *file = reference("adamw");
    for (int step = 1; step <= 5; step++) {
        redco_error err = {0};
        given[REDCO_ADAMW_CORRECTION1] = 1 - pow(0.9, step);
        given[REDCO_ADAMW_CORRECTION2] = 1 - pow(0.999, step);
        const redco_binding bindings[4] = {{p, state_now[0]}, {m, state_now[1]}, {v, state_now[2]}, {numbers, given}};
        const redco_result results[3] = {{next[0], state_next[0]}, {next[1], state_next[1]}, {next[2], state_next[2]}};
        if (redco_evaluate(l->backend, g, bindings, 4, results, 3, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        memcpy(state_now, state_next, sizeof state_now);
        read_numbers(file, want, 3);
        for (int i = 0; i < 3; i++) { assert_true(fabs(state_now[0][i] - want[i]) < 1e-13); }
    }
    (void)fclose(file);
    fixture_clear(l);
}

static int open_fixture(void **state)
{
    static fixture l;
    fixture_open(&l, 11);
    *state = &l;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_trains_as_by_hand),
        cmocka_unit_test(llama_equals_pytorch),
        cmocka_unit_test(gpt2_equals_pytorch),
        cmocka_unit_test(adamw_equals_pytorch),
        cmocka_unit_test(transformers_train_in_every_precision),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
