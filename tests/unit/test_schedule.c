/* The executor's schedule against the simulator's: steps of plans are trained by processes, and what was measured has
 * the simulator's operators on the simulator's streams in its order, none before what the simulator says it waits for.
 */
#include "costmodel/simulator/step.h"
#include "planner/assemble/assemble.h"
#include "traces/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 2 };

/* Traces have nanoseconds: two of them rounded up, two down. */
static const double rounding_s = 2.5e-9;

static const struct plan_case {
    const char *cluster, *model, *options;
    unsigned rank; /* the rank of the timeline */
} cases[] = {
    {"quad", "llama", "--gpus 1 --tp 1 --global-batch 2", 0},
    {"quad", "llama", "--gpus 4 --tp 1 --global-batch 8 --strategy ddp", 1},
    {"quad", "gpt2", "--gpus 4 --tp 1 --global-batch 8 --strategy zero1 --scheme intra-tensor", 3},
    {"quad", "llama", "--gpus 4 --tp 1 --global-batch 12 --strategy zero2", 0},
    {"quad", "opt", "--gpus 4 --tp 1 --global-batch 8 --strategy zero3", 2},
    {"quad", "gpt2", "--gpus 8 --tp 1 --global-batch 16 --strategy zeropp", 5},
    {"pair", "llama", "--gpus 8 --tp 1 --global-batch 16 --fix p=2x1,g=2x2,os=2x4 --scheme inter-tensor", 7},
    {"pair", "llama", "--gpus 8 --tp 1 --global-batch 16 --fix p=1x1,g=2x1,os=2x2 --scheme intra-tensor", 4},
    {"quad", "llama", "--gpus 4 --tp 1 --global-batch 8 --strategy zero3 --overlap none", 0},
    {"quad", "llama", "--gpus 4 --tp 1 --global-batch 8 --strategy zero1 --overlap none", 0},
    {"quad", "llama", "--gpus 4 --tp 2 --global-batch 4 --strategy zero3 --recompute full", 1},
    {"quad", "gpt2", "--gpus 4 --tp 1 --global-batch 8 --strategy zero3 --recompute full", 1},
    {"quad", "opt", "--gpus 4 --tp 2 --global-batch 4 --strategy zero2 --recompute selective", 3},
};

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static void run(const char *command)
{
    if (system(command) != 0) { fail_msg("failed: %s", command); } /* NOLINT(cert-env33-c): the tools under test */
}

static uint64_t step_of(const redco_trace *trace, const redco_trace_span *span)
{
    uint32_t count = 0;
    const redco_trace_arg *const args = redco_trace_args(trace, &count);
    for (uint32_t i = span->first_arg; i < span->first_arg + span->arg_count; i++) {
        if (strcmp(args[i].key, "step") == 0) { return (uint64_t)args[i].number; }
    }
    fail_msg("%s has no step", span->name);
    return 0;
}

/* Spans of a stream in one step follow each other as its operators do: each is found by where it stands. */
static void compare_step(const redco_step *step, const redco_trace *trace, uint64_t number)
{
    uint32_t op_count = 0, span_count = 0, found = 0, seen[REDCO_STREAM_COUNT] = {0};
    const redco_step_op *const ops = redco_step_ops(step, &op_count);
    const redco_trace_span *const spans = redco_trace_spans(trace, &span_count);
    double *const start_s = calloc((size_t)op_count + 1, sizeof *start_s);
    double *const end_s = calloc((size_t)op_count + 1, sizeof *end_s);
    assert_non_null(start_s);
    assert_non_null(end_s);
    for (uint32_t op = 0; op < op_count; op++) {
        uint32_t at = seen[ops[op].stream];
        char name[160];
        while (at < span_count && (spans[at].thread != ops[op].stream || step_of(trace, &spans[at]) != number)) {
            at++;
        }
        (void)redco_step_name(step, op, name, sizeof name);
        if (at == span_count) { fail_msg("step %u has no %s", (unsigned)number, name); }
        assert_string_equal(spans[at].name, name);
        start_s[op] = spans[at].start_s;
        end_s[op] = spans[at].start_s + spans[at].duration_s;
        seen[ops[op].stream] = at + 1;
        found++;
    }
    for (uint32_t i = 0; i < span_count; i++) { found -= step_of(trace, &spans[i]) == number ? 1 : 0; }
    assert_int_equal(found, 0); /* nothing else was run */
    for (uint32_t op = 0; op < op_count; op++) {
        uint32_t inputs = 0;
        const uint32_t *const input = redco_step_inputs(step, op, &inputs);
        for (uint32_t i = 0; i < inputs; i++) {
            char name[160], other[160];
            if (start_s[op] >= end_s[input[i]] - rounding_s) { continue; }
            fail_msg("%s begins before %s has ended", redco_step_name(step, op, name, sizeof name),
                     redco_step_name(step, input[i], other, sizeof other));
        }
    }
    free(start_s);
    free(end_s);
}

static void compare(const char *plan_path, const char *trace_path)
{
    redco_error err = {.status = REDCO_OK};
    redco_plan *plan = NULL;
    redco_plan_case opened = {.costs = NULL};
    redco_step *step = NULL;
    redco_trace *trace = NULL;
    must(redco_plan_read(plan_path, &plan, &err), &err);
    must(redco_plan_reopen(plan, plan_path, NULL, 0, &opened, &err), &err);
    must(redco_step_build(opened.costs, &opened.parallelism, opened.assignments, opened.assignment_count, NULL, &step,
                          &err),
         &err);
    must(redco_trace_read(trace_path, false, &trace, &err), &err);
    must(redco_trace_check(trace, &err), &err);
    for (uint64_t s = 0; s < STEPS; s++) { compare_step(step, trace, 2 + s); }
    redco_trace_free(trace);
    redco_step_free(step);
    redco_plan_case_free(&opened);
    redco_plan_free(plan);
}

static void measured_steps_are_the_simulated_ones(void **state)
{
    const char *const folder = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct plan_case *const c = &cases[i];
        for (int emulated = 0; emulated < 2; emulated++) {
            char command[1600], plan[256], trace[256];
            (void)snprintf(plan, sizeof plan, "%s/plan.json", folder);
            (void)snprintf(trace, sizeof trace, "%s/trace.json", folder);
            (void)snprintf(command, sizeof command,
                           "'%s' --quiet --cluster '%s/exec/%s.json' --model '%s/models/oracle/%s.json' --seq 12 "
                           "--micro-batch 1 --precision fp32 %s -o '%s' >/dev/null",
                           REDCO_PLAN_TOOL, REDCO_TEST_DATA, c->cluster, REDCO_TEST_DATA, c->model, c->options, plan);
            run(command);
            (void)snprintf(
                command, sizeof command,
                "'%s' --quiet '%s' --steps %d --timeline '%s' --timeline-steps %d --timeline-rank %u %s >/dev/null",
                REDCO_EXEC_TOOL, plan, STEPS + 1, trace, STEPS, c->rank, emulated != 0 ? "--emulate-compute" : "");
            run(command);
            (void)print_message("%s %s%s\n", c->model, c->options, emulated != 0 ? ", emulated" : "");
            compare(plan, trace);
        }
    }
}

static int make_folder(void **state)
{
    static char folder[] = "/tmp/redco-schedule-XXXXXX";
    *state = mkdtemp(folder);
    return *state != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/plan.json", (const char *)*state);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/trace.json", (const char *)*state);
    (void)unlink(path);
    return rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(measured_steps_are_the_simulated_ones, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
