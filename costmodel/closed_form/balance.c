/* Stages that hold unequal numbers of blocks, because embedding and head take the time of some, or because blocks
 * differ; groups of micro-batches that hide transfers. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of both passes of a micro-batch. */
struct work {
    redco_pipeline pipeline;
    uint32_t positions;
    double block_s, first_s, last_s;           /* a block, where they differ in the mean; embedding and head beside the
                                                  blocks of their positions */
    bool mixed;                                /* blocks differ */
    double edges_s[REDCO_PIPELINE_STAGES_MAX]; /* embedding and head of a stage */
    uint32_t least[REDCO_PIPELINE_STAGES_MAX]; /* blocks that it must hold: one in each chunk that has neither */
};

static double edge_s(const struct work *w, uint32_t position)
{
    return (position == 0 ? w->first_s : 0.0) + (position + 1 == w->positions ? w->last_s : 0.0);
}

static void find_edges(struct work *w)
{
    const redco_pipeline *const p = &w->pipeline;
    for (uint32_t stage = 0; stage < p->stages; stage++) {
        w->edges_s[stage] = 0.0;
        w->least[stage] = 0;
        for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
            const uint32_t position = redco_pipeline_position(p->kind, p->stages, stage, chunk);
            w->edges_s[stage] += edge_s(w, position);
            w->least[stage] += position > 0 && position + 1 < w->positions ? 1 : 0;
        }
    }
}

/* @return false where blocks are of two stacks, or take no time */
static bool work_of(redco_costs *costs, const redco_parallelism *parallelism, struct work *w)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    uint32_t block_classes = 0;
    w->pipeline = p;
    w->positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    w->block_s = w->first_s = w->last_s = 0.0;
    for (uint32_t c = 0; c < costs->class_count; c++) {
        const redcoi_times *const t = &rank->classes[c];
        const double all_s = (t->forward_s + t->backward_s) * costs->classes[c].layers;
        switch (costs->classes[c].kind) {
        case REDCO_CLASS_BLOCK: w->block_s += all_s / costs->blocks, block_classes++; break;
        case REDCO_CLASS_CROSS: return false;
        case REDCO_CLASS_HEAD: w->last_s += all_s; break;
        default: w->first_s += all_s; break;
        }
    }
    w->mixed = block_classes > 1;
    return w->block_s > 0.0;
}

/* The most blocks that a stage does in @p limit_s; less than it must hold: none. */
static int64_t room_of(const struct work *w, uint32_t stage, double limit_s)
{
    const double left = (limit_s - w->edges_s[stage]) / w->block_s * (1.0 + 1e-12);
    return left < w->least[stage] ? -1 : (int64_t)left;
}

static bool holds(const struct work *w, uint32_t blocks, double limit_s)
{
    int64_t room = 0;
    for (uint32_t stage = 0; stage < w->pipeline.stages; stage++) {
        const int64_t here = room_of(w, stage, limit_s);
        if (here < 0) { return false; }
        room += here;
    }
    return room >= blocks;
}

/* The least time in which every stage is through: that of some number of blocks on a stage, and its edges. */
static double bottleneck_s(const struct work *w, uint32_t blocks)
{
    const uint32_t last = redco_pipeline_stage_at(&w->pipeline, w->positions - 1, 0, &(uint32_t){0});
    const uint32_t kinds[] = {0, last, last == 1 ? 2 : 1}; /* all others are alike */
    double least_s = (double)INFINITY;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        uint32_t low = 0, high = blocks;
        if (kinds[i] >= w->pipeline.stages) { continue; }
        const double edges_s = w->edges_s[kinds[i]];
        if (!holds(w, blocks, edges_s + blocks * w->block_s)) { continue; }
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (holds(w, blocks, edges_s + middle * w->block_s)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        least_s = fmin(least_s, edges_s + high * w->block_s);
    }
    return least_s;
}

/* A stage's blocks go one by one to the chunk of it that has the least to do; where no two of them are a block apart,
 * one to each in turn. */
static void fill_stage(const struct work *w, uint32_t stage, uint32_t blocks, uint32_t *split)
{
    const redco_pipeline *const p = &w->pipeline;
    const uint32_t chunks = p->chunks > 0 ? p->chunks : 1;
    for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(p->kind, p->stages, stage, chunk);
        const bool inner = position > 0 && position + 1 < w->positions;
        split[position] = inner ? 1 : 0;
        blocks -= inner ? 1 : 0;
    }
    for (; blocks > 0; blocks--) {
        uint32_t to = 0;
        double to_s = (double)INFINITY, most_s = 0.0;
        for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
            const uint32_t position = redco_pipeline_position(p->kind, p->stages, stage, chunk);
            const double seconds = split[position] * w->block_s + edge_s(w, position);
            if (seconds < to_s) { to = position, to_s = seconds; }
            most_s = fmax(most_s, seconds);
        }
        const uint32_t rounds = most_s - to_s < w->block_s * (1.0 - 1e-9) ? (blocks - 1) / chunks : 0;
        for (uint32_t chunk = 0; chunk < p->chunks && rounds > 0; chunk++) {
            split[redco_pipeline_position(p->kind, p->stages, stage, chunk)] += rounds;
        }
        blocks -= rounds * chunks;
        split[to]++;
    }
}

/* Splits of blocks that differ: those of each position follow those of the one before. */
struct mixture {
    const struct work *work;
    const double *before_s;                    /* seconds of the blocks before each, and of all */
    uint32_t stage[REDCO_SPLIT_POSITIONS_MAX]; /* the one of each position */
};

/* The evenness of the stages of a split, or of its positions. */
struct evenness {
    double most_s;  /* the longest of them */
    uint32_t count; /* so many are as long */
    uint32_t first; /* the first of these */
};

/* @param each_s  all of each's */
static struct evenness evenness_of(const double *each_s, uint32_t each)
{
    struct evenness e = {.most_s = 0.0};
    for (uint32_t i = 0; i < each; i++) {
        if (each_s[i] > e.most_s * (1.0 + 1e-9)) {
            e = (struct evenness){each_s[i], 1, i};
        } else if (each_s[i] >= e.most_s * (1.0 - 1e-9)) {
            e.count++;
        }
    }
    return e;
}

static bool is_more_even(struct evenness a, struct evenness b)
{
    return a.most_s < b.most_s * (1.0 - 1e-9) || (a.most_s <= b.most_s * (1.0 + 1e-9) && a.count < b.count);
}

/* The first block of each position, and the seconds of each stage. */
static void sum_stages(const struct mixture *m, const uint32_t *split, uint32_t *first, double *stage_s)
{
    const struct work *const w = m->work;
    for (uint32_t i = 0; i < w->pipeline.stages; i++) { stage_s[i] = w->edges_s[i]; }
    for (uint32_t i = 0, from = 0; i < w->positions; from += split[i++]) {
        first[i] = from;
        stage_s[m->stage[i]] += m->before_s[from + split[i]] - m->before_s[from];
    }
}

static double block_s(const struct mixture *m, uint32_t block)
{
    return m->before_s[block + 1] - m->before_s[block];
}

/* A block more or less of one position for another's. */
struct move {
    uint32_t from, to; /* the same: none */
    struct evenness then;
};

/* Takes the move if a stage with another block is more even than the best so far. */
static void try_move(const struct mixture *m, double *stage_s, double gained_s, struct move move, struct move *best)
{
    double *const to_s = &stage_s[m->stage[move.to]];
    const double before_s = *to_s;
    if (m->stage[move.to] == m->stage[move.from] || before_s + gained_s > best->then.most_s * (1.0 + 1e-9)) { return; }
    *to_s += gained_s;
    move.then = evenness_of(stage_s, m->work->pipeline.stages);
    *to_s = before_s;
    if (is_more_even(move.then, best->then)) { *best = move; }
}

/* The moves of a block from one position to each other. @param all_s  seconds of each stage before */
static void try_moves(const struct mixture *m, const uint32_t *split, const uint32_t *first, const double *all_s,
                      uint32_t from, struct move *best)
{
    const uint32_t positions = m->work->positions;
    double stage_s[REDCO_PIPELINE_STAGES_MAX] = {0.0};
    /* Its first block goes down: those between take the first of the position above for their own. */
    memcpy(stage_s, all_s, m->work->pipeline.stages * sizeof *stage_s);
    stage_s[m->stage[from]] -= block_s(m, first[from]);
    for (uint32_t i = 1; i < from; i++) {
        stage_s[m->stage[i]] += block_s(m, first[i] + split[i]) - block_s(m, first[i]);
    }
    for (uint32_t to = 0; to < from; to++) {
        const double gained_s = block_s(m, first[to] + split[to]);
        if (to > 0) { stage_s[m->stage[to]] -= gained_s - block_s(m, first[to]); }
        try_move(m, stage_s, gained_s, (struct move){.from = from, .to = to}, best);
    }
    /* Its last block goes up: those between take the last of the position below. */
    memcpy(stage_s, all_s, m->work->pipeline.stages * sizeof *stage_s);
    stage_s[m->stage[from]] -= block_s(m, first[from] + split[from] - 1);
    for (uint32_t to = from + 1; to < positions; to++) {
        const double gained_s = block_s(m, first[to] - 1);
        try_move(m, stage_s, gained_s, (struct move){.from = from, .to = to}, best);
        stage_s[m->stage[to]] += gained_s - block_s(m, first[to] + split[to] - 1);
    }
}

/* The longest stage gives a block of one of its positions to another stage's: the blocks of those between move up. The
 * best such move, and so on until none makes the longest stages shorter or fewer. */
static struct evenness even_out(const struct mixture *m, uint32_t *split)
{
    const uint32_t positions = m->work->positions;
    uint32_t first[REDCO_SPLIT_POSITIONS_MAX];
    double stage_s[REDCO_PIPELINE_STAGES_MAX];
    for (;;) {
        sum_stages(m, split, first, stage_s);
        const struct evenness now = evenness_of(stage_s, m->work->pipeline.stages);
        struct move best = {.then = now};
        for (uint32_t from = 0; from < positions; from++) {
            const bool inner = from > 0 && from + 1 < positions;
            if (m->stage[from] != now.first || split[from] <= (inner ? 1U : 0U)) { continue; }
            try_moves(m, split, first, stage_s, from, &best);
        }
        if (best.from == best.to) { return now; }
        split[best.from]--;
        split[best.to]++;
    }
}

/* The evenness of the positions of a split. */
static struct evenness positions_of(const struct mixture *m, const uint32_t *split, const uint32_t *first)
{
    double position_s[REDCO_SPLIT_POSITIONS_MAX];
    for (uint32_t i = 0; i < m->work->positions; i++) {
        position_s[i] = m->before_s[first[i] + split[i]] - m->before_s[first[i]] + edge_s(m->work, i);
    }
    return evenness_of(position_s, m->work->positions);
}

/* Stages that take turns wait for each other's longest chunk: it gives a block to another chunk of its stage, as long
 * as that makes the longest chunks shorter or fewer, and the longest stage no longer. */
static void even_out_chunks(const struct mixture *m, uint32_t *split)
{
    const uint32_t positions = m->work->positions, stages = m->work->pipeline.stages;
    uint32_t first[REDCO_SPLIT_POSITIONS_MAX];
    double stage_s[REDCO_PIPELINE_STAGES_MAX];
    sum_stages(m, split, first, stage_s);
    const double most_s = evenness_of(stage_s, stages).most_s * (1.0 + 1e-9);
    for (bool moved = true; moved;) {
        sum_stages(m, split, first, stage_s);
        const struct evenness now = positions_of(m, split, first);
        const uint32_t from = now.first;
        moved = false;
        if (split[from] <= (from > 0 && from + 1 < positions ? 1U : 0U)) { return; }
        for (uint32_t to = 0; to < positions && !moved; to++) {
            if (to == from || m->stage[to] != m->stage[from]) { continue; }
            split[from]--;
            split[to]++;
            sum_stages(m, split, first, stage_s);
            moved = is_more_even(positions_of(m, split, first), now) && evenness_of(stage_s, stages).most_s <= most_s;
            if (moved) { continue; }
            split[from]++;
            split[to]--;
        }
    }
}

/* Evens out a split that is one of blocks of the mean. @return false where that is no less than @p least_ratio better
 * than equal shares, or memory is short */
static bool even_out_mixture(redco_costs *costs, const redco_parallelism *parallelism, const struct work *w,
                             double least_ratio, uint32_t *split)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    double *const before_s = malloc((costs->blocks + (size_t)1) * sizeof *before_s);
    struct mixture m = {.work = w, .before_s = before_s};
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(costs->model, &runs);
    uint32_t equal[REDCO_SPLIT_POSITIONS_MAX], made = 0;
    if (before_s == NULL) { return false; }
    before_s[0] = 0.0;
    for (size_t r = 0; r < run_count; r++) {
        const redcoi_times *const t = &rank->classes[runs[r].class_index];
        if (!redco_class_is_block(costs->classes[runs[r].class_index].kind)) { continue; }
        for (uint32_t i = 0; i < runs[r].layers; i++, made++) {
            before_s[made + 1] = before_s[made] + t->forward_s + t->backward_s;
        }
    }
    for (uint32_t i = 0; i < w->positions; i++) {
        uint32_t chunk = 0;
        m.stage[i] = redco_pipeline_stage_at(&w->pipeline, i, 0, &chunk);
        equal[i] = redcoi_position_blocks(costs, parallelism, i);
    }
    uint32_t first[REDCO_SPLIT_POSITIONS_MAX];
    double stage_s[REDCO_PIPELINE_STAGES_MAX];
    sum_stages(&m, equal, first, stage_s);
    const double equal_s = evenness_of(stage_s, w->pipeline.stages).most_s;
    const double most_s = even_out(&m, split).most_s;
    if (w->pipeline.chunks > 1) { even_out_chunks(&m, split); }
    const bool better = !(least_ratio > 0.0) || most_s < equal_s * (1.0 - least_ratio);
    free(before_s);
    return better;
}

static double slowest_equal_s(const redco_costs *costs, const redco_parallelism *parallelism, const struct work *w)
{
    double slowest_s = 0.0;
    for (uint32_t stage = 0; stage < w->pipeline.stages; stage++) {
        const double blocks_s = (double)redcoi_stage_sum(costs, parallelism, stage) * w->block_s;
        slowest_s = fmax(slowest_s, w->edges_s[stage] + blocks_s);
    }
    return slowest_s;
}

bool redco_cost_balance(redco_costs *costs, const redco_parallelism *parallelism, double least_ratio,
                        uint32_t *split_out)
{
    struct work w;
    uint32_t total = 0, stages = parallelism->pp;
    if (stages <= 1 || parallelism->split != NULL || parallelism->schedule == REDCO_PIPELINE_DUALPIPE) { return false; }
    if (!work_of(costs, parallelism, &w) || w.positions > REDCO_SPLIT_POSITIONS_MAX ||
        w.positions > costs->blocks + 2) {
        return false;
    }
    find_edges(&w);
    const double limit_s = bottleneck_s(&w, costs->blocks);
    if (!isfinite(limit_s)) { return false; }
    if (least_ratio > 0.0 && !w.mixed && !(limit_s < slowest_equal_s(costs, parallelism, &w) * (1.0 - least_ratio))) {
        return false;
    }
    uint32_t held[REDCO_PIPELINE_STAGES_MAX];
    for (uint32_t i = 0; i < stages; i++) { total += held[i] = (uint32_t)room_of(&w, i, limit_s); }
    /* Earlier stages keep more activations: what is too much is taken from these, a block from each. */
    for (uint32_t i = 0; total > costs->blocks; i = (i + 1) % stages) {
        if (held[i] <= w.least[i]) { continue; }
        held[i]--;
        total--;
    }
    for (uint32_t i = 0; i < stages; i++) { fill_stage(&w, i, held[i], split_out); }
    return !w.mixed || even_out_mixture(costs, parallelism, &w, least_ratio, split_out);
}

double redco_cost_balance_bound(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_fixed_cost fixed = redco_cost_fixed_memory(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    double all_s = 0.0;
    for (uint32_t c = 0; c < costs->class_count; c++) {
        const redcoi_times *const t = &rank->classes[c];
        all_s += costs->classes[c].layers * (t->forward_s + t->backward_s);
    }
    return fixed.scale * (double)parallelism->micro_batches * all_s / parallelism->pp + fixed.overhead_s;
}

/* Forward passes of a chunk, the shorter ones, of which N - p hide the transfers of p. */
uint32_t redco_cost_hiding_group(redco_costs *costs, const redco_parallelism *parallelism, double *saved_s_out)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL);
    double forward_s = 0.0;
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        if (!redco_class_is_block(kind)) { continue; }
        forward_s += costs->classes[i].layers * rank->classes[i].forward_s / s.stages / s.chunks;
    }
    *saved_s_out = redcoi_interleaved_s(costs, rank, &s, send_s);
    const double more = forward_s > 0.0 ? ceil(s.stages * send_s / forward_s) : 0.0;
    return s.stages + (uint32_t)fmin(more, s.micro_batches);
}
