/* A plan's training: how its rules lay parameters, how they form modules, what is refused, and what a comparison with
 * one rank says when something is wrong. */
#include "costmodel/simulator/step.h"
#include "executor/trainer/trainer_internal.h"
#include "planner/executable/plan_layouts.h"

#include "tests/parity/parity.h"
#include "tests/unit/processes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LLAMA, GPT2, OPT };

/* A plan and what a trainer needs beside it. */
struct fixture {
    struct parity_case the_case;
    redco_plan *plan;
    redco_step *steps;
};

static struct parity_case case_of(uint32_t model, uint32_t tp, redco_mesh dp, redco_mesh all)
{
    return (struct parity_case){.model = model,
                                .dtype = REDCO_F64,
                                .tp = tp,
                                .pp = 1,
                                .dp = dp,
                                .row = ROW_OTHER,
                                .shards = {all, all, all},
                                .scheme = REDCO_INTRA_TENSOR,
                                .accumulation = 1,
                                .overlap = REDCO_OVERLAP_ALL};
}

static void open_case(struct fixture *f, struct parity_case c)
{
    struct parity_planner planner = {.open = false};
    redco_error err = {.status = REDCO_OK};
    *f = (struct fixture){.the_case = c};
    redco_status st = parity_plan(&planner, &c, &f->plan, &err);
    if (st == REDCO_OK) { st = parity_steps(f->plan, &f->steps, &err); }
    parity_planner_close(&planner);
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

static void close_case(struct fixture *f)
{
    redco_step_free(f->steps);
    redco_plan_free(f->plan);
}

/* Parts of a tensor */

static void parts_hold_what_their_layout_says(void **state)
{
    (void)state;
    const redco_tensor_type type = redco_type(REDCO_F32, 3, (const uint64_t[]){4, 6, 8});
    float whole[4][6][8], part[4 * 6 * 8];
    for (int i = 0; i < 4 * 6 * 8; i++) { (&whole[0][0][0])[i] = (float)i; }
    for (uint32_t rank = 0; rank < 2; rank++) {
        redcoi_part_take(redco_tp_split(0), &type, 2, rank, whole, part); /* consecutive halves */
        assert_memory_equal(part, whole[2 * rank], 2 * sizeof whole[0]);
        redcoi_part_take(redco_tp_split(1), &type, 2, rank, whole, part);
        for (uint32_t i = 0; i < 4; i++) {
            assert_memory_equal(part + i * 3 * 8, whole[i][3 * rank], 3 * sizeof whole[0][0]);
        }
        /* Two blocks of four columns, of which each rank has one half: of a rank 0 0 1 . . 4 5 . . */
        redcoi_part_take((redco_tp_layout){REDCO_TP_SPLIT, 2, 2}, &type, 2, rank, whole, part);
        for (uint32_t i = 0; i < 4 * 6; i++) {
            for (uint32_t k = 0; k < 4; k++) {
                assert_float_equal(part[i * 4 + k], (&whole[0][0][0])[i * 8 + k / 2 * 4 + 2 * rank + k % 2], 0.0);
            }
        }
    }
    redcoi_part_take(redco_tp_replicated(), &type, 2, 1, whole, part);
    assert_memory_equal(part, whole, sizeof whole);
    const redco_tp_layout layouts[] = {redco_tp_split(0), redco_tp_split(1), {REDCO_TP_SPLIT, 2, 2}};
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) { /* and back */
        float again[4][6][8] = {{{0}}};
        for (uint32_t rank = 0; rank < 2; rank++) {
            redcoi_part_take(layouts[l], &type, 2, rank, whole, part);
            redcoi_part_put(layouts[l], &type, 2, rank, part, again);
        }
        assert_memory_equal(again, whole, sizeof whole);
    }
}

/* Layouts */

struct laid {
    const char *name;
    int dim; /* -1: whole */
    uint64_t blocks;
};

static const redco_task *open_subject(const struct fixture *f, redcoi_subject *subject)
{
    const redco_trainer_options options = {.seed = 1};
    *subject = (redcoi_subject){.model = NULL};
    assert_int_equal(redcoi_subject_open(f->plan, "plan", &options, subject, NULL), REDCO_OK);
    return redco_language_model_task(subject->lm);
}

static void check_layouts(uint32_t model, const struct laid *want, size_t count)
{
    struct fixture f;
    redcoi_subject subject;
    open_case(&f, case_of(model, 2, (redco_mesh){1, 1}, (redco_mesh){1, 1}));
    const redco_task *const task = open_subject(&f, &subject);
    redco_tp_layout *const layouts = calloc(task->parameter_count, sizeof *layouts);
    assert_non_null(layouts);
    assert_int_equal(redco_plan_layouts(f.plan, "plan", subject.model, task, layouts, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        const redco_task_parameter *const p = redco_task_find(task, want[i].name);
        assert_non_null(p);
        const redco_tp_layout got = layouts[p - task->parameters];
        char text[64];
        const bool same = want[i].dim < 0 ? got.kind == REDCO_TP_REPLICATED
                                          : got.kind == REDCO_TP_SPLIT && got.dim == (uint32_t)want[i].dim &&
                                                got.blocks == want[i].blocks;
        if (!same) { fail_msg("%s: %s", want[i].name, redco_tp_text(got, text)); }
    }
    free(layouts);
    redcoi_subject_close(&subject);
    close_case(&f);
}

/* Matrices are [in, out] here; RedCoast's rules split what enters a block by columns and what leaves it by rows, and
 * tables along the width as 61 words cannot be halved. */
static void rules_become_layouts(void **state)
{
    (void)state;
    static const struct laid llama[] = {{"model.embed_tokens.weight", 1, 1},
                                        {"model.layers.1.self_attn.q_proj.weight", 1, 1},
                                        {"model.layers.1.self_attn.k_proj.weight", 1, 1},
                                        {"model.layers.1.self_attn.o_proj.weight", 0, 1},
                                        {"model.layers.0.mlp.gate_proj.weight", 1, 1},
                                        {"model.layers.0.mlp.down_proj.weight", 0, 1},
                                        {"model.layers.0.input_layernorm.weight", -1, 0},
                                        {"model.norm.weight", -1, 0},
                                        {"lm_head.weight", 0, 1}};
    /* Flax has GPT-2's matrices as [out, in]: its dimension 1 is ours 0. */
    static const struct laid gpt2[] = {{"transformer.wte.weight", 1, 1},
                                       {"transformer.h.0.attn.c_attn.weight", 0, 1},
                                       {"transformer.h.0.attn.c_attn.bias", -1, 0},
                                       {"transformer.h.0.attn.c_proj.weight", 0, 1},
                                       {"transformer.h.1.mlp.c_fc.weight", 1, 1},
                                       {"transformer.h.1.mlp.c_proj.weight", 0, 1},
                                       {"transformer.ln_f.weight", -1, 0}};
    check_layouts(LLAMA, llama, sizeof llama / sizeof llama[0]);
    check_layouts(GPT2, gpt2, sizeof gpt2 / sizeof gpt2[0]);
}

static void wrong_rules_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    redcoi_subject subject;
    redco_tp_layout layouts[64];
    redco_error err = {.status = REDCO_OK};
    open_case(&f, case_of(LLAMA, 2, (redco_mesh){1, 1}, (redco_mesh){1, 1}));
    const redco_task *const task = open_subject(&f, &subject);
    assert_true(task->parameter_count <= 64);
    const uint32_t count = f.plan->rules_count;
    f.plan->rules_count = 0;
    assert_int_equal(redco_plan_layouts(f.plan, "p.json", subject.model, task, layouts, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "p.json:/tensor_parallel/rules");
    assert_string_equal(err.text, "no rule matches model/embed_tokens/embedding");
    f.plan->rules_count = count;
    for (uint32_t i = 0; i < count; i++) { /* 61 words among 2 ranks */
        if (strcmp(f.plan->rules[i].match, "embedding") == 0) { f.plan->rules[i].dim = 0; }
    }
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redco_plan_layouts(f.plan, "p.json", subject.model, task, layouts, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "splits dimension 0 of model.embed_tokens.weight, 61, among 2 ranks"));
    redcoi_subject_close(&subject);
    close_case(&f);
}

/* Modules */

static void parameters_form_modules(void **state)
{
    (void)state;
    struct fixture f;
    redcoi_subject subject;
    redco_tp_layout layouts[64];
    redcoi_modules m = {.layers = NULL};
    open_case(&f, case_of(GPT2, 2, (redco_mesh){2, 1}, (redco_mesh){2, 1}));
    const redco_task *const task = open_subject(&f, &subject);
    assert_int_equal(redco_plan_layouts(f.plan, "plan", subject.model, task, layouts, NULL), REDCO_OK);
    assert_int_equal(redcoi_modules_make(&m, f.plan, subject.model, task, layouts, false, NULL, NULL), REDCO_OK);
    /* embedding.0: two tables; block.0, block.1: two norms and four linears; head.0: a norm, as the table is tied. */
    static const char *const layers[] = {"embedding.0", "block.0", "block.1", "head.0"};
    static const uint32_t modules[] = {2, 6, 6, 1};
    assert_int_equal(m.model.layer_count, 4);
    assert_int_equal(m.model.module_count, 15);
    assert_int_equal(m.model.tensor_count, task->parameter_count);
    for (uint32_t l = 0; l < 4; l++) {
        assert_string_equal(m.layers[l].name, layers[l]);
        assert_int_equal(m.layers[l].module_count, modules[l]);
        assert_int_equal(m.layers[l].shards.parameters.gpus, 2);
    }
    for (uint32_t i = 0; i < m.model.module_count; i++) {
        const redco_state_module *const module = &m.modules[i];
        assert_int_equal(module->tensor_count, i < 2 ? 1 : 2); /* all but tables have a weight and a bias */
        if (strcmp(module->name, "mlp.c_fc") != 0) { continue; }
        assert_int_equal(m.tensors[module->first_tensor].elements, 32 * 128 / 2);
        assert_false(m.tensors[module->first_tensor].replicated);
        assert_int_equal(m.tensors[module->first_tensor + 1].elements, 128);
        assert_true(m.tensors[module->first_tensor + 1].replicated);
    }
    redcoi_modules_free(&m);
    f.plan->layers_count--; /* a plan that forgets a layer */
    redco_error err = {.status = REDCO_OK};
    m = (redcoi_modules){.layers = NULL};
    assert_int_equal(redcoi_modules_make(&m, f.plan, subject.model, task, layouts, false, NULL, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "the plan's sharding list has no such layer");
    f.plan->layers_count++;
    redcoi_modules_free(&m);
    redcoi_subject_close(&subject);
    close_case(&f);
}

/* Refused settings */

static void check_plan(const redco_plan *plan, uint64_t ranks, const char *want)
{
    redco_error err = {.status = REDCO_OK};
    assert_int_equal(redco_trainer_check_plan(plan, "p.json", REDCO_EXECUTOR_HOST, ranks, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "p.json");
    if (strstr(err.text, want) == NULL) { fail_msg("\"%s\" is not in \"%s\"", want, err.text); }
}

static void plans_of_other_worlds_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_case(&f, case_of(LLAMA, 1, (redco_mesh){2, 2}, (redco_mesh){2, 2}));
    assert_int_equal(redco_trainer_check_plan(f.plan, "p.json", REDCO_EXECUTOR_HOST, 4, NULL), REDCO_OK);
    check_plan(f.plan, 2, "is for 4 ranks, but the world has 2");
    f.plan->parallelism.pp = 2;
    f.plan->parallelism.schedule = REDCO_PIPELINE_DUALPIPE;
    check_plan(
        f.plan, 4,
        "stages in the order dualpipe are not executed; plan with --pp-schedule 1f1b, interleaved, gpipe or zb-h1");
    f.plan->parallelism.schedule = REDCO_PIPELINE_1F1B;
    f.plan->parallelism.pp = 1;
    f.plan->parallelism.cp = 2;
    check_plan(f.plan, 8, "2 context-parallel ranks are not executed; plan with --cp 1");
    f.plan->parallelism.cp = 1;
    f.plan->parallelism.micro_batches = 0;
    check_plan(f.plan, 4, "0 micro-batches");
    f.plan->parallelism.micro_batches = UINT64_C(1) << 32;
    check_plan(f.plan, 4, "4294967296 micro-batches");
    f.plan->parallelism.micro_batches = 1;
    close_case(&f);
}

static redco_trainer_options options_of(const struct fixture *f)
{
    redco_trainer_options o = parity_training(&f->the_case);
    o.steps = f->steps;
    return o;
}

/* By a trainer alone in its world. */
static void check_create(const struct fixture *f, const redco_trainer_options *options, redco_status status,
                         const char *want)
{
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF};
    redco_error err = {.status = REDCO_OK};
    redco_world *world = NULL;
    redco_trainer *trainer = NULL;
    redco_trainer_step step;
    assert_int_equal(redco_world_open(&alone, &world, NULL), REDCO_OK);
    redco_status st = redco_trainer_create(f->plan, "plan", options, world, &trainer, &err);
    if (st == REDCO_OK) { st = redco_trainer_run(trainer, &step, &err); }
    assert_int_equal(st, status);
    if (strstr(err.text, want) == NULL) { fail_msg("\"%s\" is not in \"%s\"", want, err.text); }
    redco_trainer_free(trainer);
    redco_world_close(world);
}

static void what_cannot_be_trained_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/redco-ids-XXXXXX";
    struct fixture f;
    open_case(&f, case_of(LLAMA, 1, (redco_mesh){1, 1}, (redco_mesh){1, 1}));
    redco_trainer_options o = options_of(&f);
    uint16_t ids[PARITY_SEQ_LEN + 1] = {0};
    const int fd = mkstemp(path);
    ids[5] = 61; /* the vocabulary has 61, from 0 */
    assert_true(fd >= 0);
    assert_int_equal(write(fd, ids, sizeof ids), sizeof ids);
    o.data = path;
    check_create(&f, &o, REDCO_EVALUE, "id 5 is 61; the vocabulary has 61");
    o.data = "/nowhere";
    check_create(&f, &o, REDCO_EIO, "cannot open");
    o.data = NULL;
    (void)close(fd);
    (void)unlink(path);
    o.learning_rate = 1e300;
    check_create(&f, &o, REDCO_OK, ""); /* the first step is still one */
    o = options_of(&f);
    redco_trainer_fault fault = {"model.norm.weight", 1, 1, 0.5};
    o.fault = &fault;
    check_create(&f, &o, REDCO_EVALUE, "rank 1 of 1 after step 1: ranks count from 0, steps from 1");
    fault = (redco_trainer_fault){"model.norm.weight", 0, 0, 0.5};
    check_create(&f, &o, REDCO_EVALUE, "rank 0 of 1 after step 0");
    fault = (redco_trainer_fault){"model.norm.bias", 0, 1, 0.5};
    check_create(&f, &o, REDCO_EVALUE, "has no tensor model.norm.bias; the first is model.embed_tokens.weight");
    fault.tensor = "model.norm.weight";
    check_create(&f, &o, REDCO_OK, "");
    o.dtype = REDCO_BFLOAT16;
    check_create(&f, &o, REDCO_EVALUE, "weights must be f32 or f64, not bf16");
    close_case(&f);
}

/* Comparisons */

enum { STEPS = 4 };

/* The work of ranks, and what they must find; the verdict must be rank 0's. */
struct trial {
    const struct fixture *f;
    redco_trainer_fault fault;
    const redco_baseline *baseline;
    const char *tensor; /* that differs; NULL: none */
    uint32_t rank;
    uint64_t step;
};

static redco_status train(const struct trial *t, redco_world *world, redco_trainer_verdict *verdict, redco_error *err)
{
    redco_trainer_options o = options_of(t->f);
    redco_trainer *trainer = NULL;
    redco_trainer_step steps[STEPS];
    o.fault = t->fault.tensor != NULL ? &t->fault : NULL;
    redco_status st = redco_trainer_create(t->f->plan, "plan", &o, world, &trainer, err);
    for (int s = 0; s < STEPS && st == REDCO_OK; s++) { st = redco_trainer_run(trainer, &steps[s], err); }
    if (st == REDCO_OK) { st = redco_trainer_compare(trainer, t->baseline, steps, STEPS, verdict, err); }
    redco_trainer_free(trainer);
    return st;
}

static int compare_rank(redco_world *world, void *context)
{
    const struct trial *const t = context;
    redco_trainer_verdict v = {.same = true};
    redco_error err = {.status = REDCO_OK};
    const redco_status st = train(t, world, &v, &err);
    if (st != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
        return 1;
    }
    if (redco_world_rank(world) != 0) { return 0; }
    const bool as_wanted = t->tensor == NULL ? v.same && v.tensor[0] == '\0' && v.weight_error <= v.bound
                                             : !v.same && strcmp(v.tensor, t->tensor) == 0 && v.rank == t->rank &&
                                                   v.weight_error > v.bound;
    if (!as_wanted || v.differs_step != t->step) {
        (void)fprintf(stderr, "step %llu, tensor \"%s\" of rank %u, weights %g\n", (unsigned long long)v.differs_step,
                      v.tensor, v.rank, v.weight_error);
        return 2;
    }
    return 0;
}

static void check_fault(struct trial t)
{
    const uint32_t ranks = parity_ranks(&t.f->the_case);
    assert_int_equal(run_ranks(ranks, 60.0, compare_rank, &t, 0), ranks);
}

/* A weight changed after the last step is found where it is; changed before, the next step's loss tells. */
static void faults_are_found(void **state)
{
    (void)state;
    static const char up[] = "model.layers.1.mlp.up_proj.weight", first[] = "model.embed_tokens.weight";
    struct fixture f;
    redco_baseline *baseline = NULL;
    open_case(&f, case_of(LLAMA, 1, (redco_mesh){2, 2}, (redco_mesh){1, 1})); /* four whole copies */
    const redco_trainer_options o = options_of(&f);
    assert_int_equal(redco_baseline_train(f.plan, "plan", &o, STEPS, &baseline, NULL), REDCO_OK);
    check_fault((struct trial){.f = &f, .baseline = baseline});
    check_fault((struct trial){&f, {up, 3, STEPS, 1e-6}, baseline, up, 3, 0});
    check_fault((struct trial){&f, {up, 3, STEPS, 1e-6}, NULL, up, 3, 0});
    check_fault((struct trial){&f, {up, 2, 2, 1e-3}, baseline, first, 0, 3});
    check_fault((struct trial){&f, {up, 2, STEPS + 1, 1e-3}, baseline, NULL, 0, 0});
    redco_baseline_free(baseline);
    close_case(&f);
    /* Tensor parallelism: rank 1's half of it. Sharded parameters: all who gather it see it, the first is named. */
    open_case(&f, case_of(LLAMA, 2, (redco_mesh){2, 1}, (redco_mesh){1, 1}));
    check_fault((struct trial){&f, {up, 1, STEPS, 1e-6}, NULL, up, 1, 0});
    check_fault((struct trial){&f, {"model.norm.weight", 3, STEPS, 1e-6}, NULL, "model.norm.weight", 3, 0});
    close_case(&f);
    open_case(&f, case_of(GPT2, 1, (redco_mesh){2, 1}, (redco_mesh){2, 1}));
    check_fault((struct trial){
        &f, {"transformer.h.0.mlp.c_fc.weight", 1, STEPS, 1e-6}, NULL, "transformer.h.0.mlp.c_fc.weight", 0, 0});
    close_case(&f);
}

/* By a rank alone. */
static void check_compare(const struct fixture *f, const redco_baseline *baseline, redco_optimizer_kind kind,
                          const char *want)
{
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF};
    redco_error err = {.status = REDCO_OK};
    redco_world *world = NULL;
    redco_trainer *trainer = NULL;
    redco_trainer_step steps[STEPS];
    redco_trainer_verdict verdict;
    redco_trainer_options o = options_of(f);
    o.optimizer.kind = kind;
    assert_int_equal(redco_world_open(&alone, &world, NULL), REDCO_OK);
    assert_int_equal(redco_trainer_create(f->plan, "plan", &o, world, &trainer, NULL), REDCO_OK);
    for (int s = 0; s < STEPS; s++) { assert_int_equal(redco_trainer_run(trainer, &steps[s], NULL), REDCO_OK); }
    const redco_status st = redco_trainer_compare(trainer, baseline, steps, STEPS, &verdict, &err);
    assert_int_equal(st, REDCO_EVALUE);
    if (strstr(err.text, want) == NULL) { fail_msg("\"%s\" is not in \"%s\"", want, err.text); }
    redco_trainer_free(trainer);
    redco_world_close(world);
}

static void only_the_same_training_is_compared(void **state)
{
    (void)state;
    struct fixture f, other;
    redco_baseline *baseline = NULL;
    open_case(&f, case_of(LLAMA, 1, (redco_mesh){1, 1}, (redco_mesh){1, 1}));
    open_case(&other, case_of(OPT, 1, (redco_mesh){1, 1}, (redco_mesh){1, 1}));
    redco_trainer_options o = options_of(&f);
    check_compare(&f, NULL, REDCO_ADAFACTOR, "the optimizer must be AdamW or SGD");
    assert_int_equal(redco_baseline_train(f.plan, "plan", &o, STEPS - 1, &baseline, NULL), REDCO_OK);
    check_compare(&f, baseline, REDCO_ADAMW, "4 steps were run here, 3 on one rank");
    redco_baseline_free(baseline);
    o.seed++;
    assert_int_equal(redco_baseline_train(f.plan, "plan", &o, STEPS, &baseline, NULL), REDCO_OK);
    check_compare(&f, baseline, REDCO_ADAMW, "is not what plan trains");
    redco_baseline_free(baseline);
    o = options_of(&other);
    assert_int_equal(redco_baseline_train(other.plan, "plan", &o, STEPS, &baseline, NULL), REDCO_OK);
    check_compare(&f, baseline, REDCO_ADAMW, "is not what plan trains");
    redco_baseline_free(baseline);
    close_case(&other);
    close_case(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hold_what_their_layout_says),
        cmocka_unit_test(rules_become_layouts),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(parameters_form_modules),
        cmocka_unit_test(plans_of_other_worlds_are_refused),
        cmocka_unit_test(what_cannot_be_trained_is_refused),
        cmocka_unit_test(only_the_same_training_is_compared),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
