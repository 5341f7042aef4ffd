/* Offsets of an arena: no two pieces that are needed at once share a byte, small cases against the optimum found by
 * trying everything, larger ones of known optimum. */
#include "costmodel/kept/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIECES_MAX = 4096, SMALL_MAX = 8 };

static uint64_t random_state = 12345;

static uint64_t below(uint64_t n)
{
    random_state = random_state * 6364136223846793005 + 1442695040888963407;
    return (random_state >> 33) % n;
}

static bool overlap(const redco_interval *a, const redco_interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void check_offsets(const redco_interval *pieces, uint32_t count, uint64_t alignment, const uint64_t *offsets,
                          const redco_arena *arena)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(offsets[i] % alignment == 0);
        assert_true(offsets[i] + pieces[i].size_bytes <= arena->bytes);
        for (uint32_t k = 0; k < i; k++) {
            const bool apart =
                offsets[i] + pieces[i].size_bytes <= offsets[k] || offsets[k] + pieces[k].size_bytes <= offsets[i];
            if (overlap(&pieces[i], &pieces[k]) && pieces[i].size_bytes > 0 && pieces[k].size_bytes > 0) {
                assert_true(apart);
            }
        }
    }
    assert_true(arena->bytes >= arena->live_bytes);
}

/* The most that is needed at once, step by step. */
static uint64_t live(const redco_interval *pieces, uint32_t count, uint32_t steps)
{
    uint64_t most = 0;
    for (uint32_t s = 0; s < steps; s++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (pieces[i].first <= s && s <= pieces[i].last) { bytes += pieces[i].size_bytes; }
        }
        if (bytes > most) { most = bytes; }
    }
    return most;
}

/* In an optimal answer whose pieces lie as low as they can, going through them by offset, each lies on top of the
 * highest before it that it overlaps: so one of the orders, each piece put on top, is optimal. */
static void search(const redco_interval *pieces, uint32_t count, uint64_t *top, uint32_t placed, uint64_t bytes,
                   uint64_t *best)
{
    if (bytes >= *best) { return; }
    if (placed == (1U << count) - 1) {
        *best = bytes;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((placed & (1U << i)) != 0) { continue; }
        uint64_t offset = 0;
        for (uint32_t k = 0; k < count; k++) {
            if ((placed & (1U << k)) != 0 && overlap(&pieces[i], &pieces[k]) && top[k] > offset) { offset = top[k]; }
        }
        top[i] = offset + pieces[i].size_bytes;
        search(pieces, count, top, placed | (1U << i), top[i] > bytes ? top[i] : bytes, best);
    }
}

static void test_small(void **state)
{
    (void)state;
    uint64_t offsets[SMALL_MAX];
    uint32_t optimal = 0, above_bound = 0, trials = 3000;
    double worst = 1.0;
    for (uint32_t t = 0; t < trials; t++) {
        redco_interval pieces[SMALL_MAX];
        uint64_t top[SMALL_MAX], best = UINT64_MAX;
        redco_arena arena;
        const uint32_t count = 2 + (uint32_t)below(SMALL_MAX - 1), steps = 3 + (uint32_t)below(6);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t a = (uint32_t)below(steps), b = (uint32_t)below(steps);
            pieces[i] = (redco_interval){1 + below(9), a < b ? a : b, a < b ? b : a};
        }
        assert_int_equal(redco_arena_plan(pieces, count, 1, offsets, &arena, NULL), REDCO_OK);
        check_offsets(pieces, count, 1, offsets, &arena);
        assert_int_equal(arena.live_bytes, live(pieces, count, steps));
        search(pieces, count, top, 0, 0, &best);
        assert_true(arena.bytes >= best);
        const double ratio = (double)arena.bytes / (double)best;
        optimal += arena.bytes == best ? 1 : 0;
        above_bound += best > arena.live_bytes ? 1 : 0;
        worst = ratio > worst ? ratio : worst;
    }
    printf("%u of %u small cases optimal, worst %.3f times the optimum; the bound is below it in %u\n", optimal, trials,
           worst, above_bound);
    assert_true(optimal >= trials * 99 / 100);
    assert_true(worst <= 1.15);
}

/* Rectangles cut out of one: the optimum is known and is the bound. */
static void test_cut(void **state)
{
    (void)state;
    static redco_interval pieces[PIECES_MAX];
    static uint64_t offsets[PIECES_MAX];
    double worst = 0.0;
    for (uint32_t t = 0; t < 20; t++) {
        uint32_t count = 1;
        pieces[0] = (redco_interval){1 << 20, 0, 499};
        redco_arena arena;
        while (count < 400) {
            redco_interval *const p = &pieces[below(count)];
            const bool time = below(2) == 0;
            if (time && p->last > p->first) {
                const uint32_t at = p->first + (uint32_t)below(p->last - p->first);
                pieces[count++] = (redco_interval){p->size_bytes, at + 1, p->last};
                p->last = at;
            } else if (!time && p->size_bytes > 1) {
                const uint64_t part = 1 + below(p->size_bytes - 1);
                pieces[count++] = (redco_interval){part, p->first, p->last};
                p->size_bytes -= part;
            }
        }
        assert_int_equal(redco_arena_plan(pieces, count, 1, offsets, &arena, NULL), REDCO_OK);
        check_offsets(pieces, count, 1, offsets, &arena);
        assert_int_equal(arena.live_bytes, 1 << 20);
        const double gap = (double)arena.bytes / (double)arena.live_bytes - 1.0;
        worst = gap > worst ? gap : worst;
    }
    printf("worst gap of 20 cut rectangles of 400 pieces: %.1f %%\n", 100.0 * worst);
    assert_true(worst < 0.4);
}

/* Nested lifetimes, as of activations: first made, last given back. */
static void test_nested(void **state)
{
    (void)state;
    redco_interval pieces[100];
    uint64_t offsets[100];
    redco_arena arena;
    for (uint32_t i = 0; i < 100; i++) { pieces[i] = (redco_interval){1 + 37 * i % 11, i, 199 - i}; }
    assert_int_equal(redco_arena_plan(pieces, 100, 256, offsets, &arena, NULL), REDCO_OK);
    check_offsets(pieces, 100, 256, offsets, &arena);
    assert_int_equal(arena.bytes, arena.live_bytes);
    assert_int_equal(arena.live_bytes, 100 * 256);
    assert_int_equal(arena.live_step, 99);
}

/* A step of a pipeline in 16 bits, with the workspaces of processors. By hand: the second piece at 0, both of 147456
 * behind it, the five that the last step reads on top. */
static void test_workspaces(void **state)
{
    (void)state;
    static const redco_interval pieces[] = {
        {33280, 10, 19}, {5376, 10, 19},  {8192, 0, 19},   {32768, 1, 16},  {147456, 1, 1}, {132096, 2, 2},
        {32768, 3, 14},  {1280, 4, 14},   {78336, 4, 4},   {5376, 5, 5},    {256, 6, 7},    {256, 6, 11},
        {2560, 6, 6},    {4, 7, 19},      {8, 7, 7},       {4, 8, 9},       {256, 10, 11},  {5120, 11, 11},
        {2896, 12, 12},  {32768, 13, 19}, {78336, 13, 13}, {78336, 14, 14}, {2, 15, 17},    {16384, 16, 17},
        {65792, 16, 16}, {68608, 18, 18}, {147456, 19, 19}};
    enum { COUNT = sizeof pieces / sizeof pieces[0] };
    uint64_t offsets[COUNT];
    redco_arena arena;
    assert_int_equal(redco_arena_plan(pieces, COUNT, 256, offsets, &arena, NULL), REDCO_OK);
    check_offsets(pieces, COUNT, 256, offsets, &arena);
    assert_int_equal(arena.live_bytes, 33280 + 5376 + 8192 + 256 + 32768 + 147456);
    assert_int_equal(arena.bytes, arena.live_bytes);
}

/* A room of 1,024 bytes. By hand: a gap of 256 bytes at 256 until step 4, one of 512 at 0 from step 5 on, 256 at the
 * end always; the largest piece goes first, and what lies nowhere is told. */
static void test_rooms(void **state)
{
    (void)state;
    static const redco_interval fixed[] = {{256, 0, 4}, {256, 5, 9}, {256, 0, 9}};
    static const uint64_t at[] = {0, 512, 512}, wanted[] = {256, 0, REDCO_ARENA_NO_ROOM, 768, REDCO_ARENA_NO_ROOM};
    static const redco_interval pieces[] = {{200, 1, 4}, {512, 5, 7}, {512, 4, 5}, {256, 0, 9}, {1, 6, 7}};
    const redco_arena_room room = {1024, fixed, at, 3};
    uint64_t offsets[5];
    assert_int_equal(redco_arena_fill(&room, pieces, 5, 256, offsets, NULL), REDCO_OK);
    assert_memory_equal(offsets, wanted, sizeof wanted);
    assert_int_equal(redco_arena_fill(&(redco_arena_room){0, NULL, NULL, 0}, pieces, 5, 256, offsets, NULL), REDCO_OK);
    for (int i = 0; i < 5; i++) { assert_true(offsets[i] == REDCO_ARENA_NO_ROOM); }
    assert_int_equal(redco_arena_fill(&room, &(redco_interval){8, 3, 2}, 1, 256, offsets, NULL), REDCO_EVALUE);
}

static void test_refusals(void **state)
{
    (void)state;
    const redco_interval backwards = {8, 3, 2}, huge[2] = {{UINT64_C(1) << 61, 0, 0}, {UINT64_C(1) << 62, 0, 0}};
    uint64_t offsets[2];
    redco_arena arena;
    redco_error err = {0};
    assert_int_equal(redco_arena_plan(&backwards, 1, 1, offsets, &arena, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "piece 0 is needed from step 3 to step 2");
    err = (redco_error){0};
    assert_int_equal(redco_arena_plan(huge, 2, 256, offsets, &arena, &err), REDCO_EVALUE);
    assert_int_equal(redco_arena_plan(&backwards, 1, 0, offsets, &arena, NULL), REDCO_EVALUE);
    assert_int_equal(redco_arena_plan(NULL, 0, 256, offsets, &arena, NULL), REDCO_OK);
    assert_int_equal(arena.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small),  cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_nested), cmocka_unit_test(test_workspaces),
                                       cmocka_unit_test(test_rooms),  cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
