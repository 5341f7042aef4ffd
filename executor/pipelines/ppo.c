/* Proximal policy optimisation (Schulman et al., arXiv 1707.06347) of a pole on a cart (Barto, Sutton, Anderson, IEEE
 * SMC 1983; lengths and limits of Gym's CartPole-v1). collect() lets the policy act in ENVS carts at once for LENGTH
 * steps and makes an example of every one: observation, action, its probability, advantage (generalised, arXiv
 * 1506.02438), return. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { SEEN = 4, ACTIONS = 2, HIDDEN = 64, ENVS = 16, LENGTH = 128, EPISODE = 500, RETURNS = 100 };
static const double most = 100.0; /* 1 / (1 - discount): the critic says parts of it */
static const double discount = 0.99, smoothing = 0.95, range = 0.2, entropy_weight = 0.01;

/* All that is remembered from one collect() to the next. */
struct state {
    double cart[ENVS][SEEN]; /* place, speed, angle, its speed */
    int32_t lived[ENVS];     /* steps of the episode under way */
    double returns[RETURNS]; /* the last episodes' */
    uint64_t episodes;
};

static void describe(redco_user_pipeline_shape *shape)
{
    static const char *const heads[] = {"actor", "critic"};
    static const char *const layers[] = {"first", "second", "out"};
    char name[64];
    for (int h = 0; h < 2; h++) {
        for (int l = 0; l < 3; l++) {
            const uint64_t in = l == 0 ? SEEN : HIDDEN, out = l < 2 ? HIDDEN : h == 0 ? ACTIONS : 1;
            const double deviation = l < 2 ? sqrt(2.0 / (double)in) : h == 0 ? 0.01 : 0.1;
            (void)snprintf(name, sizeof name, "%s.%s.weight", heads[h], layers[l]);
            redco_user_pipeline_parameter(shape, name, 2, (const uint64_t[]){in, out},
                                          (redco_initial){REDCO_INITIAL_NORMAL, deviation});
            (void)snprintf(name, sizeof name, "%s.%s.bias", heads[h], layers[l]);
            redco_user_pipeline_parameter(shape, name, 1, &out, (redco_initial){REDCO_INITIAL_ZERO, 0.0});
        }
    }
    redco_user_pipeline_input(shape, "seen", REDCO_F32, 1, (const uint64_t[]){SEEN});
    redco_user_pipeline_input(shape, "action", REDCO_I32, 0, NULL);
    redco_user_pipeline_input(shape, "likelihood", REDCO_F32, 0, NULL); /* logarithm, when it acted */
    redco_user_pipeline_input(shape, "advantage", REDCO_F32, 0, NULL);
    redco_user_pipeline_input(shape, "return", REDCO_F32, 0, NULL);
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    static const char *const keys[] = {"likelihood", "advantage", "return"};
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < SEEN; k++) {
            const json_t *const number = json_array_get(json_object_get(examples[i], "seen"), k);
            ((float *)data[0])[i * SEEN + k] = (float)json_number_value(number);
        }
        ((int32_t *)data[1])[i] = (int32_t)json_integer_value(json_object_get(examples[i], "action"));
        for (int k = 0; k < 3; k++) {
            ((float *)data[2 + k])[i] = (float)json_number_value(json_object_get(examples[i], keys[k]));
        }
    }
    return REDCO_OK;
}

static redco_value network(redco_scope *scope, const char *head)
{
    static const char *const layers[] = {"first", "second", "out"};
    redco_graph *const g = scope->graph;
    redco_value x = redco_scope_weight(scope, "seen");
    char name[64];
    for (int l = 0; l < 3; l++) {
        (void)snprintf(name, sizeof name, "%s.%s.weight", head, layers[l]);
        x = redco_matmul(g, x, redco_scope_weight(scope, name), false, false);
        (void)snprintf(name, sizeof name, "%s.%s.bias", head, layers[l]);
        x = redco_add(g, x, redco_scope_weight(scope, name));
        if (l < 2) { x = redco_tanh(g, x); }
    }
    return x;
}

/* The logarithms of the actions' probabilities, then the value: [examples, ACTIONS + 1]. */
static redco_value predict(redco_scope *scope)
{
    const redco_value parts[] = {redco_log_softmax(scope->graph, network(scope, "actor")), network(scope, "critic")};
    return redco_concat(scope->graph, parts, 2, 1);
}

static redco_value step(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value all = redco_log_softmax(g, network(scope, "actor"));
    const redco_value now = redco_pick(g, all, redco_scope_value(scope, "action"), NULL);
    const redco_value ratio = redco_exp(g, redco_sub(g, now, redco_scope_weight(scope, "likelihood")));
    const redco_value low = redco_scalar(g, scope->compute, 1.0 - range),
                      high = redco_scalar(g, scope->compute, 1.0 + range);
    const redco_value gain = redco_scope_weight(scope, "advantage");
    const redco_value cut = redco_mul(g, redco_min(g, redco_max(g, ratio, low), high), gain);
    const redco_value surrogate = redco_mean_all(g, redco_min(g, redco_mul(g, ratio, gain), cut));
    const redco_value entropy =
        redco_mean_all(g, redco_sum_axis(g, redco_mul(g, redco_exp(g, all), redco_neg(g, all)), 1, false));
    const redco_value value = redco_sum_axis(g, network(scope, "critic"), 1, false);
    const redco_value error = redco_sub(g, value, redco_scope_weight(scope, "return"));
    const redco_value actor = redco_neg(g, redco_add(g, surrogate, redco_scale(g, entropy, entropy_weight)));
    (void)context;
    redco_scope_minimize(scope, actor, "actor.");
    redco_scope_minimize(scope, redco_mean_all(g, redco_mul(g, error, error)), "critic.");
    return redco_cast(g, actor, redco_dtype_statistic(scope->compute));
}

/* A step of 0.02 s under a force of 10 N, by Euler. @return whether the pole still stands */
static bool move(double c[SEEN], int action)
{
    static const double gravity = 9.8, pole = 0.1, mass = 1.1, half = 0.5, time = 0.02;
    const double sine = sin(c[2]), cosine = cos(c[2]);
    const double push = ((action == 1 ? 10.0 : -10.0) + pole * half * c[3] * c[3] * sine) / mass;
    const double turn = (gravity * sine - cosine * push) / (half * (4.0 / 3.0 - pole * cosine * cosine / mass));
    const double speed = push - pole * half * turn * cosine / mass;
    c[0] += time * c[1];
    c[1] += time * speed;
    c[2] += time * c[3];
    c[3] += time * turn;
    return fabs(c[0]) <= 2.4 && fabs(c[2]) <= 12.0 * 3.14159265358979 / 180.0;
}

static void begin(redco_user_collector *collector, double c[SEEN])
{
    for (int k = 0; k < SEEN; k++) { c[k] = 0.1 * redco_user_collector_uniform(collector) - 0.05; }
}

static json_t *seen(const double c[SEEN])
{
    return json_pack("{s:[f,f,f,f]}", "seen", c[0], c[1], c[2], c[3]);
}

static redco_status collect(redco_user_collector *collector, redco_error *err)
{
    struct state *const s = redco_user_collector_run(collector)->state;
    json_t *examples[LENGTH + 1][ENVS] = {{NULL}};
    double predicted[LENGTH + 1][ENVS][ACTIONS + 1], gain[LENGTH][ENVS], sum = 0.0, squares = 0.0;
    bool over[LENGTH][ENVS], fell[LENGTH][ENVS];
    bool good = true;
    (void)err;
    for (int t = 0; t <= LENGTH && good; t++) {
        for (int e = 0; e < ENVS; e++) {
            if (redco_user_collector_run(collector)->steps == 0 && t == 0) { begin(collector, s->cart[e]); }
            examples[t][e] = seen(s->cart[e]);
        }
        good = redco_user_collector_predict(collector, examples[t], ENVS, predicted[t][0], ACTIONS + 1);
        for (int e = 0; e < ENVS && t < LENGTH && good; e++) {
            const int action = redco_user_collector_uniform(collector) < exp(predicted[t][e][1]) ? 1 : 0;
            (void)json_object_set_new(examples[t][e], "action", json_integer(action));
            (void)json_object_set_new(examples[t][e], "likelihood", json_real(predicted[t][e][action]));
            fell[t][e] = !move(s->cart[e], action);
            over[t][e] = fell[t][e] || ++s->lived[e] == EPISODE;
            if (!over[t][e]) { continue; }
            s->returns[s->episodes++ % RETURNS] = fell[t][e] ? s->lived[e] + 1.0 : s->lived[e];
            s->lived[e] = 0;
            begin(collector, s->cart[e]);
        }
    }
    for (int t = LENGTH; t-- > 0 && good;) {
        for (int e = 0; e < ENVS; e++) { /* an episode that is cut off goes on being worth what the critic says */
            const double value = most * predicted[t][e][ACTIONS], next = most * predicted[t + 1][e][ACTIONS];
            const double behind = over[t][e] ? (fell[t][e] ? 0.0 : value) : next;
            const double later = over[t][e] || t + 1 == LENGTH ? 0.0 : gain[t + 1][e];
            gain[t][e] = 1.0 + discount * behind - value + discount * smoothing * later;
            (void)json_object_set_new(examples[t][e], "return", json_real((gain[t][e] + value) / most));
            sum += gain[t][e];
            squares += gain[t][e] * gain[t][e];
        }
    }
    const double mean = sum / (LENGTH * ENVS), deviation = sqrt(squares / (LENGTH * ENVS) - mean * mean) + 1e-8;
    for (int t = 0; t < LENGTH && good; t++) {
        for (int e = 0; e < ENVS; e++) {
            (void)json_object_set_new(examples[t][e], "advantage", json_real((gain[t][e] - mean) / deviation));
            redco_user_collector_add(collector, json_incref(examples[t][e]));
        }
    }
    for (int t = 0; t <= LENGTH; t++) {
        for (int e = 0; e < ENVS; e++) { json_decref(examples[t][e]); }
    }
    return REDCO_OK;
}

static json_t *report(const redco_user_run *run)
{
    const struct state *const s = run->state;
    double sum = 0.0;
    for (int i = 0; i < RETURNS; i++) { sum += s->returns[i]; }
    return json_pack("{s:f, s:I}", "mean_return", sum / RETURNS, "episodes", (json_int_t)s->episodes);
}

const redco_user_pipeline redco_user_pipeline_table = {
    .abi = REDCO_USER_PIPELINE_ABI,
    .name = "ppo",
    .describe = describe,
    .collate = collate,
    .step = step,
    .predict = predict,
    .collect = collect,
    .collect_epochs = 8,
    .state_bytes = sizeof(struct state),
    .report = report,
    .options = "--learning-rate 0.0005 --clip-norm 0 --weight-decay 0 --beta2 0.999"};
