/* The time that gathers and scatters of sharded parameters add to a layer, one of those that a rank passes through: one
 * stream of collectives beside one of computation, or two where backward gathers another copy, in the engine's order
 * (AMSP, arXiv 2311.00257, section V-C). Speeds are those of simulate.h; this is that simulation for a few layers, some
 * hundred additions. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>

/* A longer pass repeats the layer before the last. */
enum { LAYERS = 6, PASSES = 3, QUEUE = 2 * PASSES * LAYERS * REDCOI_GROUP_TIMES_MAX + PASSES, STREAMS = 2 };

/* The work that the layer itself is at: computation, nothing (the host launches), or a collective that it waits for. */
enum work { COMPUTE, IDLE, NVLINK, NETWORK, WORKS };

/* Collectives in order of issue. */
struct stream {
    double left_s[QUEUE]; /* their seconds, alone */
    int head, tail;
};

struct race {
    double now_s;
    struct stream streams[STREAMS];
    uint32_t busy; /* streams with collectives under way, as bits */
    /* Seconds that pass for one of the work's own, and for one of each stream's collective, by the streams that are
     * busy: traffic on one link shares it. */
    double own[WORKS][1 << STREAMS], beside[WORKS][1 << STREAMS][STREAMS];
};

static int issue(struct race *race, int stream, double seconds)
{
    struct stream *const s = &race->streams[stream];
    s->left_s[s->tail] = seconds;
    race->busy |= 1U << stream;
    return s->tail++;
}

/* Time passes, at most until a collective is through. @return how much */
static double advance(struct race *race, enum work work, double most_s)
{
    const double *const beside = race->beside[work][race->busy];
    const uint32_t busy = race->busy;
    double passed_s = most_s;
    int ends = STREAMS;
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *const s = &race->streams[i];
        if ((busy >> i & 1U) == 0 || s->left_s[s->head] * beside[i] > passed_s) { continue; }
        passed_s = s->left_s[s->head] * beside[i];
        ends = i;
    }
    for (int i = 0; i < STREAMS; i++) {
        struct stream *const s = &race->streams[i];
        if ((busy >> i & 1U) == 0) { continue; }
        if (i == ends) {
            if (++s->head == s->tail) { race->busy &= ~(1U << i); }
        } else {
            s->left_s[s->head] = fmax(0.0, s->left_s[s->head] - passed_s / beside[i]);
        }
    }
    race->now_s += passed_s;
    return passed_s;
}

static void work(struct race *race, enum work work, double seconds)
{
    while (race->busy != 0 && seconds > 0.0) {
        const double own = race->own[work][race->busy];
        seconds -= advance(race, work, seconds * own) / own;
    }
    race->now_s += fmax(0.0, seconds);
}

/* Nothing is done until a collective is through. */
static void wait_for(struct race *race, int stream, int collective)
{
    while (race->streams[stream].head <= collective) { (void)advance(race, IDLE, (double)INFINITY); }
}

/* With y of its speed beside computation, which loses kappa on each link in use. */
static void start(const redcoi_job *job, const redcoi_shard_traffic *traffic, struct race *race)
{
    const redco_calibration *const c = &job->costs->calibration;
    const double y = c->overlap_window_ratio;
    const enum work links[STREAMS] = {traffic->network ? NETWORK : NVLINK, traffic->again_network ? NETWORK : NVLINK};
    race->now_s = 0.0;
    race->busy = 0;
    for (int i = 0; i < STREAMS; i++) { race->streams[i].head = race->streams[i].tail = 0; }
    for (uint32_t busy = 1; busy < 1U << (traffic->secondary ? STREAMS : 1); busy++) {
        const bool both = busy == 3, shared = both && links[0] == links[1];
        const double share = shared ? 2.0 : 1.0, used = both && !shared ? 2.0 : 1.0;
        const double stretch = 1.0 + y * c->contention_ratio * used;
        race->own[COMPUTE][busy] = stretch;
        race->own[IDLE][busy] = race->own[NVLINK][busy] = race->own[NETWORK][busy] = 1.0;
        for (int i = 0; i < STREAMS; i++) {
            if ((busy >> i & 1U) == 0) { continue; }
            race->beside[COMPUTE][busy][i] = y > 0.0 ? share * stretch / y : (double)INFINITY;
            race->beside[IDLE][busy][i] = share;
            race->beside[NVLINK][busy][i] = race->beside[NETWORK][busy][i] = share;
            race->own[links[i]][busy] = race->beside[links[i]][busy][i] = share + 1.0;
        }
    }
}

/* A rank's passes through layers. */
struct passes {
    const redcoi_job *job;
    const redcoi_shard_traffic *traffic;
    uint32_t layers;                  /* those of a pass that are played */
    enum work context;                /* the link of context-parallel traffic */
    int here[REDCOI_GROUP_TIMES_MAX]; /* gathers of the layer that begins */
    struct race race;
};

static void tensor(struct race *race, double seconds)
{
    if (seconds > 0.0) { work(race, NVLINK, seconds); }
}

static void context(struct passes *p, double seconds)
{
    if (seconds > 0.0) { work(&p->race, p->context, seconds); }
}

/* Where a layer is one unit, all of it stands for its first group, or, where backward begins with them, the last. */
static double share_of(const struct passes *p, uint32_t group)
{
    return p->traffic->by_layer ? 1.0 : p->job->times->groups[group].share;
}

static int gather(struct passes *p, uint32_t group)
{
    if (p->traffic->by_layer && group > 0) { return -1; }
    return issue(&p->race, 0, share_of(p, group) * p->traffic->gather_s);
}

static int gather_again(struct passes *p, uint32_t group)
{
    const double seconds = share_of(p, group) * p->traffic->again_s;
    return seconds > 0.0 ? issue(&p->race, p->traffic->secondary ? 1 : 0, seconds) : -1;
}

static int gather_second(struct passes *p, uint32_t group)
{
    return p->traffic->by_layer && group > 0 ? -1 : gather_again(p, group);
}

/* The following layer is fetched when one begins, the first when it begins itself. */
static void forward_layer(struct passes *p, bool first, bool last, bool again)
{
    const redcoi_times *const times = p->job->times;
    const double calls_s = again ? p->traffic->again_calls_s : p->traffic->calls_s;
    int (*const fetch)(struct passes *, uint32_t) = again ? gather_second : gather;
    int ahead[REDCOI_GROUP_TIMES_MAX] = {0};
    work(&p->race, IDLE, ((first ? 1.0 : 0.0) + (last ? 0.0 : 1.0)) * calls_s);
    for (uint32_t g = 0; g < times->group_count && first; g++) { p->here[g] = fetch(p, g); }
    for (uint32_t g = 0; g < times->group_count && !last; g++) { ahead[g] = fetch(p, g); }
    for (uint32_t g = 0; g < times->group_count; g++) {
        const redcoi_group_times *const group = &times->groups[g];
        tensor(&p->race, group->tp.forward_before_s);
        context(p, group->cp.forward_before_s);
        wait_for(&p->race, again && p->traffic->secondary ? 1 : 0, p->here[g]);
        p->here[g] = ahead[g];
        work(&p->race, COMPUTE, again ? group->again_s : group->forward_s);
        context(p, group->cp.forward_after_s);
        tensor(&p->race, again ? group->again_after_s : group->tp.forward_after_s);
    }
}

/* The matrix before is fetched when one begins; with full recomputation, or of layers that are one unit, the following
 * layer, and gradients of such a unit are scattered when all are there. */
static void backward_layer(struct passes *p, bool first, bool last)
{
    const redcoi_job *const job = p->job;
    const redcoi_times *const times = job->times;
    const redcoi_shard_traffic *const traffic = p->traffic;
    const bool full = job->recompute == REDCO_RECOMPUTE_FULL, whole = traffic->by_layer;
    const double module_s = full ? 0.0 : times->recompute_s[job->set];
    const uint32_t groups = times->group_count;
    /* The attention core runs again before its group, all other modules before the last one. */
    const uint32_t module_group = (job->recompute & ~(redco_recompute)REDCO_RECOMPUTE_CORE_ATTN) != 0 ? groups - 1 : 1;
    if (full) { forward_layer(p, first, last, true); }
    for (uint32_t g = groups; g-- > 0;) {
        const redcoi_group_times *const group = &times->groups[g];
        const bool begins = g + 1 == groups, own = !full && first && begins;
        const bool inside = !full && !whole && g > 0, leave = !full && !last && (whole ? begins : g == 0);
        const double fetched = (own ? share_of(p, g) : 0.0) + (inside ? share_of(p, g - 1) : 0.0) +
                               (leave ? share_of(p, groups - 1) : 0.0);
        const double scattered = whole && g > 0 ? 0.0 : share_of(p, g);
        work(&p->race, IDLE, scattered * traffic->calls_s + fetched * traffic->again_calls_s);
        if (own) { p->here[g] = gather_again(p, g); }
        if (inside) { p->here[g - 1] = gather_again(p, g - 1); }
        const int here = p->here[g];
        if (leave) { p->here[groups - 1] = gather_again(p, groups - 1); }
        tensor(&p->race, group->tp.backward_before_s);
        context(p, group->cp.backward_before_s);
        work(&p->race, COMPUTE, group->weight_s);
        if (!whole) { (void)issue(&p->race, 0, scattered * traffic->scatter_s); }
        if (!full && (begins || !whole)) { wait_for(&p->race, traffic->secondary ? 1 : 0, here); }
        work(&p->race, COMPUTE, group->input_s + (groups > 1 && g == module_group ? module_s : 0.0));
        if (whole && g == 0) { (void)issue(&p->race, 0, traffic->scatter_s); }
        context(p, group->cp.backward_after_s);
        tensor(&p->race, group->tp.backward_after_s);
    }
}

/* Seconds of gathers and scatters that are issued and not through. */
static double pending_s(const struct race *race)
{
    const struct stream *const s = &race->streams[0];
    double seconds = 0.0;
    for (int i = s->head; i < s->tail; i++) { seconds += s->left_s[i]; }
    return seconds;
}

/* @return seconds of a layer */
static double pass(struct passes *p, bool forward)
{
    const double begin_s = p->race.now_s;
    double layer_s = 0.0, grows_s = 0.0; /* those of the last layer but one, which the others repeat */
    for (uint32_t i = 0; i < p->layers; i++) {
        const double before_s = p->race.now_s, left_s = pending_s(&p->race);
        if (forward) {
            forward_layer(p, i == 0, i + 1 == p->layers, false);
        } else {
            backward_layer(p, i == 0, i + 1 == p->layers);
        }
        if (i + 2 != p->layers) { continue; }
        layer_s = p->race.now_s - before_s;
        grows_s = fmax(0.0, pending_s(&p->race) - left_s);
    }
    const double more = p->traffic->layers - p->layers;
    if (more * grows_s > 0.0) { (void)issue(&p->race, 0, more * grows_s); }
    return (p->race.now_s - begin_s + more * layer_s) / p->traffic->layers;
}

void redcoi_expose_passes(const redcoi_job *job, const redcoi_shard_traffic *traffic, double *forward_s_out,
                          double *backward_s_out)
{
    const redcoi_times *const times = job->times;
    const bool full = job->recompute == REDCO_RECOMPUTE_FULL;
    const bool planned = job->costs->workload.engine.planned_memory;
    const double again_s = full && !planned ? times->forward_s : times->recompute_s[job->set];
    const redco_group group = redcoi_cp_group(job->costs, job->parallelism->tp, job->parallelism->cp);
    struct passes p; /* its queues are filled as they are read */
    p.job = job;
    p.traffic = traffic;
    p.layers = traffic->layers < LAYERS ? traffic->layers : LAYERS;
    p.context = group.mesh.nodes > 1 ? NETWORK : NVLINK;
    start(job, traffic, &p.race);
    *forward_s_out = pass(&p, true) - times->forward_s;
    *backward_s_out = pass(&p, false) - times->backward_s - again_s;
    /* The next micro-batch's gathers follow what is left of the scatters, and the optimizer the last one's. */
    if (p.race.busy != 0) { *forward_s_out = pass(&p, true) - times->forward_s; }
}
