/* Deep deterministic policy gradients (Lillicrap et al., arXiv 1509.02971) of a pendulum (lengths and limits of Gym's
 * Pendulum-v1). Before every step collect() lets the actor move once, remembers it, and draws a batch of what it
 * remembers. Actor and critic minimize losses of their own; their targets follow by 0.5 % a step. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { SEEN = 3, HIDDEN = 64, LAYERS = 3, EPISODE = 200, RETURNS = 10, BATCH = 64, ROOM = 20000, FIRST = 1000 };
static const double discount = 0.98, follow = 0.005, most = 2.0, exploring = 0.2, reward_scale = 0.1;
static const char *const layers[LAYERS] = {"first", "second", "out"};

struct moved {
    double seen[SEEN], action, reward, next[SEEN];
};

/* All that is remembered from one collect() to the next. */
struct state {
    double angle, speed, total, returns[RETURNS]; /* the last episodes' */
    uint64_t moves, episodes;
    struct moved memory[ROOM];
};

static const char *name_of(char *text, size_t size, const char *net, int layer, const char *what)
{
    (void)snprintf(text, size, "%s.%s.%s", net, layers[layer], what);
    return text;
}

/* Targets begin elsewhere, and catch up within some hundred steps. */
static void describe(redco_user_pipeline_shape *shape)
{
    static const char *const nets[] = {"actor", "critic", "target.actor", "target.critic"};
    char name[64];
    for (int n = 0; n < 4; n++) {
        for (int l = 0; l < LAYERS; l++) {
            const uint64_t in = l > 0 ? HIDDEN : n % 2 == 0 ? SEEN : SEEN + 1, out = l + 1 < LAYERS ? HIDDEN : 1;
            const double deviation = l + 1 < LAYERS ? sqrt(2.0 / (double)in) : 0.003;
            redco_user_pipeline_parameter(shape, name_of(name, sizeof name, nets[n], l, "weight"), 2,
                                          (const uint64_t[]){in, out},
                                          (redco_initial){REDCO_INITIAL_NORMAL, deviation});
            redco_user_pipeline_parameter(shape, name_of(name, sizeof name, nets[n], l, "bias"), 1, &out,
                                          (redco_initial){REDCO_INITIAL_ZERO, 0.0});
        }
    }
    redco_user_pipeline_training(shape, "target.", REDCO_ASSIGNED);
    redco_user_pipeline_rate(shape, "actor.", 0.2);
    redco_user_pipeline_no_decay(shape, "actor."); /* the critic's weights decay, as in the paper */
    redco_user_pipeline_input(shape, "seen", REDCO_F32, 1, (const uint64_t[]){SEEN});
    redco_user_pipeline_input(shape, "action", REDCO_F32, 1, (const uint64_t[]){1});
    redco_user_pipeline_input(shape, "reward", REDCO_F32, 1, (const uint64_t[]){1});
    redco_user_pipeline_input(shape, "next", REDCO_F32, 1, (const uint64_t[]){SEEN});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    static const char *const keys[] = {"seen", "action", "reward", "next"};
    static const uint32_t sizes[] = {SEEN, 1, 1, SEEN};
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        for (int k = 0; k < 4; k++) {
            const json_t *const list = json_object_get(examples[i], keys[k]);
            for (uint32_t n = 0; n < sizes[k]; n++) {
                ((float *)data[k])[i * sizes[k] + n] = (float)json_number_value(json_array_get(list, n));
            }
        }
    }
    return REDCO_OK;
}

static redco_value network(redco_scope *scope, const char *net, redco_value x)
{
    redco_graph *const g = scope->graph;
    char name[64];
    for (int l = 0; l < LAYERS; l++) {
        x = redco_matmul(g, x, redco_scope_weight(scope, name_of(name, sizeof name, net, l, "weight")), false, false);
        x = redco_add(g, x, redco_scope_weight(scope, name_of(name, sizeof name, net, l, "bias")));
        if (l + 1 < LAYERS) { x = redco_relu(g, x); }
    }
    return x;
}

static redco_value act(redco_scope *scope, const char *net, redco_value seen)
{
    return redco_scale(scope->graph, redco_tanh(scope->graph, network(scope, net, seen)), most);
}

static redco_value judge(redco_scope *scope, const char *net, redco_value seen, redco_value action)
{
    const redco_value both[] = {seen, action};
    return network(scope, net, redco_concat(scope->graph, both, 2, 1));
}

static redco_value predict(redco_scope *scope)
{
    return act(scope, "actor", redco_scope_weight(scope, "seen"));
}

static redco_value step(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value seen = redco_scope_weight(scope, "seen"), next = redco_scope_weight(scope, "next");
    const redco_value later = judge(scope, "target.critic", next, act(scope, "target.actor", next));
    const redco_value wanted = redco_add(g, redco_scope_weight(scope, "reward"), redco_scale(g, later, discount));
    const redco_value error = redco_sub(g, judge(scope, "critic", seen, redco_scope_weight(scope, "action")), wanted);
    const redco_value critic = redco_mean_all(g, redco_mul(g, error, error));
    char name[64], target[80];
    (void)context;
    redco_scope_minimize(scope, critic, "critic.");
    redco_scope_minimize(scope, redco_neg(g, redco_mean_all(g, judge(scope, "critic", seen, predict(scope)))),
                         "actor.");
    for (int n = 0; n < 2 * 2 * LAYERS; n++) {
        (void)name_of(name, sizeof name, n % 2 == 0 ? "actor" : "critic", n / 4, n / 2 % 2 == 0 ? "weight" : "bias");
        (void)snprintf(target, sizeof target, "target.%s", name);
        redco_scope_assign(scope, target,
                           redco_add(g, redco_scale(g, redco_scope_weight(scope, target), 1.0 - follow),
                                     redco_scale(g, redco_scope_weight(scope, name), follow)));
    }
    return redco_cast(g, critic, redco_dtype_statistic(scope->compute));
}

static void see(const struct state *s, double seen[SEEN])
{
    seen[0] = cos(s->angle);
    seen[1] = sin(s->angle);
    seen[2] = s->speed;
}

/* A step of 0.05 s under a torque. @return the reward, at most 0 */
static double move(struct state *s, double torque)
{
    static const double gravity = 10.0, time = 0.05, turn = 6.283185307179586;
    const double off = s->angle - turn * floor(s->angle / turn + 0.5);
    const double cost = off * off + 0.1 * s->speed * s->speed + 0.001 * torque * torque;
    s->speed = fmin(8.0, fmax(-8.0, s->speed + time * (1.5 * gravity * sin(s->angle) + 3.0 * torque)));
    s->angle += time * s->speed;
    return -cost;
}

static redco_status collect(redco_user_collector *collector, redco_error *err)
{
    struct state *const s = redco_user_collector_run(collector)->state;
    (void)err;
    do {
        struct moved *const m = &s->memory[s->moves % ROOM];
        if (s->moves % EPISODE == 0) {
            s->angle = 3.14159265358979 * (2.0 * redco_user_collector_uniform(collector) - 1.0);
            s->speed = 2.0 * redco_user_collector_uniform(collector) - 1.0;
        }
        see(s, m->seen);
        if (s->moves < FIRST) {
            m->action = most * (2.0 * redco_user_collector_uniform(collector) - 1.0);
        } else {
            json_t *const now = json_pack("{s:[f,f,f]}", "seen", m->seen[0], m->seen[1], m->seen[2]);
            const bool good = redco_user_collector_predict(collector, &now, 1, &m->action, 1);
            json_decref(now);
            if (!good) { return REDCO_OK; }
            m->action += exploring * redco_user_collector_normal(collector);
            m->action = fmin(most, fmax(-most, m->action));
        }
        const double reward = move(s, m->action);
        m->reward = reward_scale * reward;
        see(s, m->next);
        s->total += reward;
        if (++s->moves % EPISODE != 0) { continue; }
        s->returns[s->episodes++ % RETURNS] = s->total;
        s->total = 0.0;
    } while (s->moves < FIRST);
    const uint64_t known = s->moves < ROOM ? s->moves : ROOM;
    for (int i = 0; i < BATCH; i++) {
        const struct moved *const m = &s->memory[(uint64_t)(redco_user_collector_uniform(collector) * (double)known)];
        redco_user_collector_add(collector, json_pack("{s:[f,f,f], s:[f], s:[f], s:[f,f,f]}", "seen", m->seen[0],
                                                      m->seen[1], m->seen[2], "action", m->action, "reward", m->reward,
                                                      "next", m->next[0], m->next[1], m->next[2]));
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
    .name = "ddpg",
    .describe = describe,
    .collate = collate,
    .step = step,
    .predict = predict,
    .collect = collect,
    .state_bytes = sizeof(struct state),
    .report = report,
    .options = "--learning-rate 0.002 --clip-norm 0 --weight-decay 0.01 --beta2 0.999"};
