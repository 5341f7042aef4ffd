/* Schedules against their publishers. A table is run by an event loop of its own: a pass starts when its stage is free
 * and what it needs has come, transfers take no time. Wanted bubbles and peaks are written here as the papers have
 * them:
 *
 *      GPipe        arXiv 1811.06965, section 2.3: idle (K-1)/(M+K-1) of the step; all M micro-batches are kept
 *      1F1B         arXiv 2104.04473, section 2.2.1: bubble (p-1)(t_f + t_b); at most p micro-batches
 *      interleaved  the same, section 2.2.2: bubble (p-1)(t_f + t_b)/v; arXiv 2205.05198, section 4.2.3: activations of
 *                   L (1 + (p-1)/(pv)) layers, that is pv + p - 1 chunks of L/(pv) layers; Megatron Core's warm-up with
 *                   groups of N micro-batches (get_pp_rank_microbatches) and one more: 2(p-1) + (v-1)N + 1
 *      ZB-H1        arXiv 2401.10241, table 1: bubble (p-1)(T_F + T_B - T_W), T_B of inputs alone; memory p M_B
 *      DualPipe     github.com/deepseek-ai/DualPipe, README: bubble (PP/2-1)(F&B + B - 3W), activations PP+1, of stages
 *      DualPipeV    the same on PP/2 devices
 */
#include "costmodel/schedules/stages.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STAGES = 16, MOST_POSITIONS = 64, MOST_BATCHES = 160, MOST_TURNS = 3 * 4 * MOST_BATCHES };

/* Seconds of one model chunk. */
struct times {
    double forward, input, weight;
};

struct run {
    double span, idle[MOST_STAGES];
    uint64_t peak[MOST_STAGES];
};

struct loop {
    const redco_pipeline *s;
    redco_turn turns[MOST_STAGES][MOST_TURNS];
    uint32_t count[MOST_STAGES], at[MOST_STAGES];
    double forward[MOST_POSITIONS][MOST_BATCHES], backward[MOST_POSITIONS][MOST_BATCHES]; /* ends; < 0: not yet */
    bool weighed[MOST_POSITIONS][MOST_BATCHES];
};

static struct loop loop; /* too large for a stack */

static double *end_of(uint32_t stage, const redco_turn *turn)
{
    const uint32_t position = redco_pipeline_position(loop.s->kind, loop.s->stages, stage, turn->chunk);
    return turn->kind == REDCO_TURN_FORWARD ? &loop.forward[position][turn->micro_batch]
                                            : &loop.backward[position][turn->micro_batch];
}

/* When what a pass needs is there; < 0: not yet. */
static double ready(uint32_t stage, const redco_turn *turn)
{
    const redco_pipeline *const s = loop.s;
    const uint32_t last = redco_pipeline_positions(s->kind, s->stages, s->chunks) - 1;
    const uint32_t position = redco_pipeline_position(s->kind, s->stages, stage, turn->chunk);
    const uint32_t b = turn->micro_batch;
    switch (turn->kind) {
    case REDCO_TURN_FORWARD: return position == 0 ? 0.0 : loop.forward[position - 1][b];
    case REDCO_TURN_WEIGHT: return loop.backward[position][b];
    default: return position == last ? loop.forward[position][b] : loop.backward[position + 1][b];
    }
}

static double seconds_of(const struct times *t, redco_turn_kind kind)
{
    switch (kind) {
    case REDCO_TURN_FORWARD: return t->forward;
    case REDCO_TURN_INPUT: return t->input;
    case REDCO_TURN_WEIGHT: return t->weight;
    default: return t->input + t->weight;
    }
}

/* Every chunk does both passes of each of its micro-batches once. */
static void complete(const redco_pipeline *s, uint32_t stage)
{
    uint32_t seen[4][2] = {{0}};
    for (uint32_t i = 0; i < loop.count[stage]; i++) {
        const redco_turn *const t = &loop.turns[stage][i];
        const uint32_t position = redco_pipeline_position(s->kind, s->stages, stage, t->chunk);
        uint32_t chunk = UINT32_MAX;
        assert_in_range(t->chunk, 0, s->chunks - 1);
        assert_in_range(t->micro_batch, redco_pipeline_first_batch(s, t->chunk),
                        redco_pipeline_last_batch(s, t->chunk));
        assert_int_equal(redco_pipeline_stage_at(s, position, t->micro_batch, &chunk), stage);
        assert_int_equal(chunk, t->chunk);
        seen[t->chunk][0] += t->kind == REDCO_TURN_FORWARD;
        seen[t->chunk][1] += t->kind == REDCO_TURN_BACKWARD || t->kind == REDCO_TURN_INPUT;
    }
    for (uint32_t c = 0; c < s->chunks; c++) {
        const uint32_t batches = redco_pipeline_last_batch(s, c) - redco_pipeline_first_batch(s, c) + 1;
        assert_int_equal(seen[c][0], batches);
        assert_int_equal(seen[c][1], batches);
    }
}

/* The most micro-batches of a chunk between the beginning of forward and the end of backward, in the table. */
static uint64_t most_under_way(uint32_t stage, uint32_t chunk)
{
    uint64_t now = 0, most = 0;
    for (uint32_t i = 0; i < loop.count[stage]; i++) {
        const redco_turn *const t = &loop.turns[stage][i];
        if (t->chunk != chunk) { continue; }
        now += t->kind == REDCO_TURN_FORWARD;
        most = now > most ? now : most;
        now -= t->kind == REDCO_TURN_BACKWARD || t->kind == REDCO_TURN_WEIGHT;
    }
    return most;
}

static void open_loop(const redco_pipeline *s)
{
    loop.s = s;
    for (uint32_t q = 0; q < MOST_POSITIONS; q++) {
        for (uint32_t b = 0; b < s->micro_batches; b++) {
            loop.forward[q][b] = loop.backward[q][b] = -1.0;
            loop.weighed[q][b] = false;
        }
    }
    for (uint32_t i = 0; i < s->stages; i++) {
        assert_true(redco_pipeline_room(s) <= MOST_TURNS);
        loop.count[i] = redco_pipeline_table(s, i, loop.turns[i]);
        loop.at[i] = 0;
        assert_true(loop.count[i] <= redco_pipeline_room(s));
        complete(s, i);
    }
}

static struct run run_table(const redco_pipeline *s, const struct times *t)
{
    struct run r = {.span = 0.0};
    double now[MOST_STAGES] = {0.0}, busy[MOST_STAGES] = {0.0};
    uint64_t held[MOST_STAGES] = {0};
    open_loop(s);
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < s->stages; i++) {
            while (loop.at[i] < loop.count[i]) {
                const redco_turn *const turn = &loop.turns[i][loop.at[i]];
                const uint32_t width = turn->joined ? 2 : 1;
                double start = now[i], seconds = 0.0;
                bool there = true;
                for (uint32_t k = 0; k < width; k++) {
                    const double come = ready(i, &turn[k]);
                    there = there && come >= 0.0;
                    start = fmax(start, come);
                    seconds += seconds_of(t, turn[k].kind);
                }
                if (!there) { break; }
                now[i] = start + seconds;
                busy[i] += seconds;
                for (uint32_t k = 0; k < width; k++) {
                    const uint32_t position = redco_pipeline_position(s->kind, s->stages, i, turn[k].chunk);
                    bool *const weighed = &loop.weighed[position][turn[k].micro_batch];
                    if (turn[k].kind != REDCO_TURN_WEIGHT) { *end_of(i, &turn[k]) = now[i]; }
                    held[i] += turn[k].kind == REDCO_TURN_FORWARD;
                    if (held[i] > r.peak[i]) { r.peak[i] = held[i]; }
                    if (turn[k].kind == REDCO_TURN_BACKWARD || turn[k].kind == REDCO_TURN_WEIGHT) {
                        assert_false(*weighed);
                        *weighed = true;
                        held[i]--;
                    }
                }
                loop.at[i] += width;
                any = true;
            }
        }
    }
    for (uint32_t i = 0; i < s->stages; i++) {
        assert_int_equal(loop.at[i], loop.count[i]); /* else the table locks up */
        assert_int_equal(held[i], 0);
        r.span = fmax(r.span, now[i]);
    }
    for (uint32_t i = 0; i < s->stages; i++) { r.idle[i] = r.span - busy[i]; }
    return r;
}

static void assert_near(double got, double wanted, double slack)
{
    if (fabs(got - wanted) > slack) { fail_msg("%.9g, not %.9g", got, wanted); }
}

/* @param idle  wanted on every stage; @param peak  on the fullest one */
/* The second column of the table in pipeline.h, written down once more. */
static double idle_by_formula(const redco_pipeline *schedule, double forward_s, double backward_s, double weight_s)
{
    const double fills = (double)schedule->stages - 1.0, pass_s = forward_s + backward_s;
    const double later_s = backward_s - 2.0 * weight_s;
    switch (schedule->kind) {
    case REDCO_PIPELINE_INTERLEAVED: return fills / schedule->chunks * pass_s;
    case REDCO_PIPELINE_ZB_H1: return fills * (forward_s + (later_s > 0.0 ? later_s : 0.0));
    case REDCO_PIPELINE_DUALPIPE_V: return fills / 2.0 * (pass_s + backward_s - 3.0 * weight_s);
    case REDCO_PIPELINE_DUALPIPE: return (schedule->stages / 2.0 - 1.0) * (pass_s + backward_s - 3.0 * weight_s);
    default: return fills * pass_s;
    }
}
static void published(redco_pipeline s, struct times chunk, double idle, uint64_t peak)
{
    redco_error err = {.status = REDCO_OK};
    const double share = s.kind == REDCO_PIPELINE_DUALPIPE ? 1.0 : s.chunks;
    if (redco_pipeline_check(&s, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    const struct run r = run_table(&s, &chunk);
    uint64_t most = 0;
    for (uint32_t i = 0; i < s.stages; i++) {
        assert_near(r.idle[i], idle, 1e-9 * r.span);
        assert_int_equal(r.peak[i], redco_pipeline_in_flight(&s, i));
        for (uint32_t c = 0; c < s.chunks; c++) {
            assert_int_equal(redco_pipeline_under_way(&s, i, c), most_under_way(i, c));
        }
        most = r.peak[i] > most ? r.peak[i] : most;
    }
    assert_int_equal(most, peak);
    assert_near(idle_by_formula(&s, share * chunk.forward, share * (chunk.input + chunk.weight), share * chunk.weight),
                idle, 1e-9 * r.span);
}

static const struct times some[] = {{1.0, 1.0, 1.0}, {1.0, 1.25, 0.75}, {2.0, 1.0, 3.0}, {0.7, 0.9, 0.4}};
enum { SOME = sizeof some / sizeof some[0] };

static void one_chunk_a_stage(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= MOST_STAGES; p++) {
        for (uint32_t k = 0; k < SOME; k++) {
            const struct times t = some[k];
            const double both = t.forward + t.input + t.weight;
            const uint32_t batches[] = {1, p - 1, p, p + 1, 3 * p};
            for (uint32_t i = 0; i < 5; i++) {
                const uint32_t m = batches[i];
                published((redco_pipeline){REDCO_PIPELINE_GPIPE, p, 1, 0, m}, t, (p - 1) * both, m);
                published((redco_pipeline){REDCO_PIPELINE_1F1B, p, 1, 0, m}, t, (p - 1) * both, m < p ? m : p);
            }
            /* T_B < T_W is beyond the paper: the first pass of the last stage has (p-1) T_F before it all the same */
            published((redco_pipeline){REDCO_PIPELINE_ZB_H1, p, 1, 0, 3 * p}, t,
                      (p - 1) * (t.forward + fmax(0.0, t.input - t.weight)), p);
        }
    }
}

static void interleaved_in_groups(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= MOST_STAGES; p++) {
        for (uint32_t v = 2; v <= 4; v++) {
            const struct times t = some[(p + v) % SOME];
            const double both = v * (t.forward + t.input + t.weight);
            for (uint32_t m = p; m <= 3 * p; m += p > 8 ? 5 : 1) {
                for (uint32_t n = p; n <= m; n += p > 8 ? 3 : 1) {
                    if (m % n != 0 && m % n < p) { continue; }
                    const uint64_t most = 2 * (p - 1) + (v - 1) * n + 1;
                    published((redco_pipeline){REDCO_PIPELINE_INTERLEAVED, p, v, n, m}, t, (p - 1) * both / v,
                              most < (uint64_t)v * m ? most : (uint64_t)v * m);
                }
            }
            published((redco_pipeline){REDCO_PIPELINE_INTERLEAVED, p, v, 0, 3 * p}, t, (p - 1) * both / v,
                      p * v + p - 1);
        }
    }
}

static void two_directions(void **state)
{
    (void)state;
    const struct times t = {1.0, 1.0, 1.0};
    const double both = 3.0, backward = 2.0;
    for (uint32_t p = 2; p <= MOST_STAGES; p++) {
        for (uint32_t m = 2 * p; m <= 2 * p + 6; m++) {
            published((redco_pipeline){REDCO_PIPELINE_DUALPIPE_V, p, 2, 0, m}, t,
                      (p - 1) * (both + backward - 3 * t.weight), 2 * p + 1);
            if (p % 2 != 0 || m % 2 != 0) { continue; }
            published((redco_pipeline){REDCO_PIPELINE_DUALPIPE, p, 2, 0, m}, t,
                      (p / 2.0 - 1) * (both + backward - 3 * t.weight), p + 1);
        }
    }
}

static double alone(const redco_pipeline *s, const redco_span_times *set)
{
    double span_s = 0.0;
    redco_error err = {.status = REDCO_OK};
    if (redco_pipeline_span_s(s, set->times, set->send_s, &span_s, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    return span_s;
}

/* Equal positions take as long as the event loop here says; one micro-batch does everything once, and is handed on to
 * the last position and back; sets that go along together take what each takes alone. */
static void recurrences_follow_the_tables(void **state)
{
    static const redco_pipeline cases[] = {
        {REDCO_PIPELINE_1F1B, 5, 1, 0, 13},       {REDCO_PIPELINE_GPIPE, 4, 1, 0, 7},
        {REDCO_PIPELINE_ZB_H1, 6, 1, 0, 11},      {REDCO_PIPELINE_INTERLEAVED, 4, 3, 0, 12},
        {REDCO_PIPELINE_INTERLEAVED, 3, 4, 5, 8}, {REDCO_PIPELINE_INTERLEAVED, 2, 2, 3, 5},
        {REDCO_PIPELINE_DUALPIPE_V, 4, 2, 0, 10}, {REDCO_PIPELINE_DUALPIPE, 4, 2, 0, 8}};
    enum { SETS = 4 };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_pipeline s = cases[i];
        const uint32_t positions = redco_pipeline_positions(s.kind, s.stages, s.chunks);
        const struct times t = {1.0, 1.25, 0.5};
        redco_position_times equal[MOST_POSITIONS], uneven[MOST_POSITIONS];
        double once_s = 0.0, span_s[SETS];
        for (uint32_t q = 0; q < positions; q++) {
            equal[q] = (redco_position_times){t.forward, t.input + t.weight, t.weight};
            uneven[q] = (redco_position_times){1.0 + 0.1 * q, 2.5 - 0.07 * q, 0.5 + 0.01 * q};
            once_s += uneven[q].forward_s + uneven[q].backward_s;
        }
        const redco_span_times sets[SETS] = {{equal, 0.0}, {uneven, 0.0}, {uneven, 0.3}, {equal, 0.2}};
        for (uint32_t count = 2; count <= SETS; count++) {
            assert_int_equal(redco_pipeline_spans_s(&s, sets, count, span_s, NULL), REDCO_OK);
            for (uint32_t k = 0; k < count; k++) { assert_memory_equal(&span_s[k], &(double){alone(&s, &sets[k])}, 8); }
        }
        assert_true(span_s[2] > span_s[1] && span_s[3] > span_s[0]);
        if (s.kind == REDCO_PIPELINE_DUALPIPE || s.kind == REDCO_PIPELINE_DUALPIPE_V) { continue; } /* joined turns */
        assert_true(fabs(span_s[0] - run_table(&s, &t).span) < 1e-9);
        if (s.kind == REDCO_PIPELINE_ZB_H1) { continue; } /* weights' gradients come after the way back */
        s.micro_batches = 1;
        s.group = 0;
        assert_true(fabs(alone(&s, &sets[2]) - once_s - 2.0 * (positions - 1) * sets[2].send_s) < 1e-9);
    }
}

/* The example of Megatron Core 0.20, model_parallel_config.py: p 2, v 2, groups of 3, 5 micro-batches. */
static void megatron_cores_example(void **state)
{
    (void)state;
    const redco_pipeline s = {REDCO_PIPELINE_INTERLEAVED, 2, 2, 3, 5};
    const uint32_t batches[] = {0, 1, 2, 0, 1, 2, 3, 4, 3, 4}, chunks[] = {0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
    redco_turn turns[64];
    uint32_t forward = 0;
    const uint32_t count = redco_pipeline_table(&s, 0, turns);
    assert_int_equal(count, 20);
    for (uint32_t i = 0; i < count; i++) {
        if (turns[i].kind != REDCO_TURN_FORWARD) { continue; }
        assert_int_equal(turns[i].micro_batch, batches[forward]);
        assert_int_equal(turns[i].chunk, chunks[forward++]);
    }
    assert_int_equal(forward, 10);
}

static void says_what_it_needs(void **state)
{
    (void)state;
    const struct {
        redco_pipeline s;
        const char *place, *text;
    } cases[] = {
        {{REDCO_PIPELINE_INTERLEAVED, 4, 2, 0, 6},
         "group",
         "6 micro-batches in groups of 4 leave a group of 2, fewer than the 4 stages"},
        {{REDCO_PIPELINE_INTERLEAVED, 4, 2, 3, 6},
         "group",
         "3 micro-batches one after the other; 4 stages with 6 micro-batches take 4 to 6"},
        {{REDCO_PIPELINE_INTERLEAVED, 4, 1, 0, 8},
         "chunks",
         "1 in each of 4 stages; interleaved has 2 or more, of 2 stages or more"},
        {{REDCO_PIPELINE_ZB_H1, 4, 2, 0, 8}, "chunks", "2 in each of 4 stages; zb-h1 has 1"},
        {{REDCO_PIPELINE_1F1B, 4, 1, 4, 8}, "group", "1f1b has no groups of micro-batches; interleaved has"},
        {{REDCO_PIPELINE_DUALPIPE, 4, 2, 0, 9},
         "schedule",
         "dualpipe of 4 stages needs 8 micro-batches or more, both numbers even, not 9"},
        {{REDCO_PIPELINE_DUALPIPE, 3, 2, 0, 8},
         "schedule",
         "dualpipe of 3 stages needs 6 micro-batches or more, both numbers even, not 8"},
        {{REDCO_PIPELINE_DUALPIPE_V, 4, 2, 0, 7},
         "schedule",
         "dualpipev of 4 stages needs 8 micro-batches or more, not 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_pipeline_check(&cases[i].s, &err), REDCO_EVALUE);
        assert_string_equal(err.place, cases[i].place);
        assert_string_equal(err.text, cases[i].text);
    }
    const redco_pipeline whole = {REDCO_PIPELINE_INTERLEAVED, 4, 2, 6, 6};
    assert_int_equal(redco_pipeline_check(&whole, NULL), REDCO_OK);
}

/* Splits by hand; layouts as Megatron Core's parser unrolls them. */
static void splits_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint32_t blocks, stages, chunks, found; /* chunks; 0: refused */
        uint32_t split[8];
    } cases[] = {
        {"7,8,9,8", 32, 4, 0, 1, {7, 8, 9, 8}},
        {"1,2,1,2", 6, 2, 0, 2, {1, 2, 1, 2}},
        {"1,2,1,2", 6, 2, 2, 2, {1, 2, 1, 2}},
        {"1,2,1,2", 6, 4, 2, 0, {0}},
        {"1,2,1", 4, 2, 0, 0, {0}},
        {"7,8,9,9", 32, 4, 0, 0, {0}},
        {"0,8,8,0", 16, 4, 0, 1, {0, 8, 8, 0}},
        {"8,0,8,0", 16, 4, 0, 0, {0}},
        {"first=7,last=7", 32, 4, 0, 1, {7, 9, 9, 7}},
        {"last=5", 32, 4, 0, 1, {9, 9, 9, 5}},
        {"first=4", 28, 4, 2, 2, {2, 4, 4, 4, 2, 4, 4, 4}},
        {"first=3", 27, 4, 2, 0, {0}},
        {"first=40", 32, 4, 0, 0, {0}},
        {"embedding,loss", 30, 4, 0, 1, {7, 8, 8, 7}},
        {"loss", 31, 4, 0, 1, {8, 8, 8, 7}},
        {"embedding", 15, 4, 2, 2, {1, 2, 2, 2, 2, 2, 2, 2}},
        {"embedding,first=3", 15, 4, 0, 0, {0}},
        {"Ettt|(tt|)*3,L", 9, 5, 0, 1, {3, 2, 2, 2, 0}},
        {"Et*3|t*4|t*4|t*2L", 13, 2, 0, 2, {3, 4, 4, 2}},
        {"E|(t|)*2tL", 3, 4, 0, 1, {0, 1, 1, 1}},
        {"Et|tm|L", 2, 3, 0, 0, {0}},
        {"t|EtL", 2, 2, 0, 0, {0}},
        {"Et|t", 2, 2, 0, 0, {0}},
        {"Et|(t|L", 2, 3, 0, 0, {0}},
        {"E(((((((((t)*9)*9)*9)*9)*9)*9)*9)*9)*9L", 9, 1, 0, 0, {0}},
        {"E()*1000000L", 1, 1, 0, 0, {0}},
        {"", 32, 4, 0, 0, {0}},
        {"7;8", 15, 2, 0, 0, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t split[REDCO_SPLIT_POSITIONS_MAX], chunks = 0;
        redco_error err = {.status = REDCO_OK};
        const redco_status st =
            redco_split_read(cases[i].text, cases[i].blocks, cases[i].stages, cases[i].chunks, split, &chunks, &err);
        if ((st == REDCO_OK) != (cases[i].found > 0)) { fail_msg("%s: %s", cases[i].text, err.text); }
        if (st != REDCO_OK) { continue; }
        assert_int_equal(chunks, cases[i].found);
        assert_memory_equal(split, cases[i].split, chunks * cases[i].stages * sizeof *split);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_chunk_a_stage),
        cmocka_unit_test(interleaved_in_groups),
        cmocka_unit_test(two_directions),
        cmocka_unit_test(megatron_cores_example),
        cmocka_unit_test(says_what_it_needs),
        cmocka_unit_test(splits_are_read),
        cmocka_unit_test(recurrences_follow_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
