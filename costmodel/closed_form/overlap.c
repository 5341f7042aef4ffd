/* The time that gathers and scatters of sharded parameters add to a layer in the steady state, a layer among others
 * like it: one queue of collectives beside one of computation, in the engine's order (AMSP, arXiv 2311.00257, section
 * V-C). Speeds are those of simulate.h; this is that simulation for one layer, some hundred additions. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>

enum { LAYERS = 6, QUEUE = 2 * LAYERS * REDCOI_GROUP_TIMES_MAX + 2 * REDCOI_GROUP_TIMES_MAX };

struct race {
    double y, stretch; /* 1 + y kappa */
    double now_s;
    double left_s[QUEUE]; /* collectives' seconds, in order of issue */
    int head, tail;
};

static int issue(struct race *race, double seconds)
{
    race->left_s[race->tail] = seconds;
    return race->tail++;
}

static void wait_for(struct race *race, int collective)
{
    while (race->head <= collective) { race->now_s += race->left_s[race->head++]; }
}

/* Nothing computes: collectives have the GPU to themselves. */
static void idle(struct race *race, double seconds)
{
    race->now_s += seconds;
    while (race->head < race->tail && seconds > 0.0) {
        double *const left_s = &race->left_s[race->head];
        if (*left_s > seconds) {
            *left_s -= seconds;
            return;
        }
        seconds -= *left_s;
        race->head++;
    }
}

static void compute(struct race *race, double seconds)
{
    while (race->head < race->tail && seconds > 0.0) {
        double *const left_s = &race->left_s[race->head];
        const double beside_s = race->y > 0.0 ? *left_s / race->y : (double)INFINITY; /* seconds of computation */
        if (beside_s > seconds) {
            *left_s -= seconds * race->y;
            race->now_s += seconds * race->stretch;
            return;
        }
        seconds -= beside_s;
        race->now_s += beside_s * race->stretch;
        race->head++;
    }
    race->now_s += seconds;
}

/* Tensor-parallel traffic leaves the GPU idle; on the same links it would slow the others down as computation does. */
static void tensor(struct race *race, const redcoi_shard_traffic *traffic, double seconds)
{
    if (traffic->network) {
        idle(race, seconds);
    } else {
        compute(race, seconds);
    }
}

static struct race race_of(const redcoi_job *job)
{
    const redco_calibration *const c = &job->costs->calibration;
    return (struct race){.y = c->overlap_window_ratio, .stretch = 1.0 + c->overlap_window_ratio * c->contention_ratio};
}

double redcoi_forward_exposed_s(const redcoi_job *job, const redcoi_shard_traffic *traffic)
{
    const redcoi_times *const times = job->times;
    struct race race = race_of(job);
    double before_s = 0.0;
    int here[REDCOI_GROUP_TIMES_MAX];
    for (uint32_t g = 0; g < times->group_count; g++) {
        here[g] = issue(&race, times->groups[g].share * traffic->gather_s);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        int ahead[REDCOI_GROUP_TIMES_MAX];
        before_s = race.now_s;
        idle(&race, traffic->calls_s);
        for (uint32_t g = 0; g < times->group_count; g++) {
            ahead[g] = issue(&race, times->groups[g].share * traffic->gather_s);
        }
        for (uint32_t g = 0; g < times->group_count; g++) {
            wait_for(&race, here[g]);
            here[g] = ahead[g];
            compute(&race, times->groups[g].forward_s);
            tensor(&race, traffic, times->groups[g].tp_forward_s);
        }
    }
    return race.now_s - before_s - times->forward_s;
}

/* The second forward: the following layer is fetched when it begins. */
static void again(struct race *race, const redcoi_job *job, const redcoi_shard_traffic *traffic,
                  int here[REDCOI_GROUP_TIMES_MAX])
{
    const redcoi_times *const times = job->times;
    int ahead[REDCOI_GROUP_TIMES_MAX];
    idle(race, traffic->calls_s);
    for (uint32_t g = 0; g < times->group_count; g++) {
        ahead[g] = issue(race, times->groups[g].share * traffic->gather_s);
    }
    for (uint32_t g = 0; g < times->group_count; g++) {
        wait_for(race, here[g]);
        here[g] = ahead[g];
        compute(race, times->groups[g].again_s);
        tensor(race, traffic, times->groups[g].again_tp_s);
    }
}

double redcoi_backward_exposed_s(const redcoi_job *job, const redcoi_shard_traffic *traffic)
{
    const redcoi_times *const times = job->times;
    const double launch_s = traffic->calls_s;
    const bool full = job->recompute == REDCO_RECOMPUTE_FULL;
    const double module_s = full ? 0.0 : times->recompute_s[job->recompute]; /* the attention core, or the FFN */
    const bool planned = job->costs->workload.engine.planned_memory;
    const double again_s = planned ? times->recompute_s[REDCO_RECOMPUTE_FULL] : times->forward_s;
    const double window_s = times->backward_s + module_s + (full ? again_s : 0.0);
    const uint32_t groups = times->group_count;
    const uint32_t module_group = job->recompute == REDCO_RECOMPUTE_MLP ? groups - 1 : 1;
    struct race race = race_of(job);
    double before_s = 0.0;
    int here[REDCOI_GROUP_TIMES_MAX];
    for (uint32_t g = full ? 0 : groups - 1; g < groups; g++) {
        here[g] = issue(&race, times->groups[g].share * traffic->gather_s);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        before_s = race.now_s;
        if (full) { again(&race, job, traffic, here); }
        for (uint32_t g = groups; g-- > 0;) {
            const redcoi_group_times *const group = &times->groups[g];
            const uint32_t next = g > 0 ? g - 1 : groups - 1;
            idle(&race, (group->share + (full ? 0.0 : times->groups[next].share)) * launch_s);
            int ahead = 0;
            if (!full) { ahead = issue(&race, times->groups[next].share * traffic->gather_s); }
            compute(&race, group->weight_s);
            (void)issue(&race, group->share * traffic->scatter_s);
            if (!full) { wait_for(&race, here[g]); }
            if (!full) { here[next] = ahead; }
            compute(&race, group->input_s + (groups > 1 && g == module_group ? module_s : 0.0));
            tensor(&race, traffic, group->tp_backward_s);
        }
    }
    return race.now_s - before_s - window_s;
}
