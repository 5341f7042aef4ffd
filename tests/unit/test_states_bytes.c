/* Bytes that ranks hold against what the planner predicts of the same plan: LLaMA-7B, GPT-2 and OPT-125M as the cost
 * model describes them, on AMSP's testbed, with tp 1 and 2. Ranks hold more by padding only. */
#include "cost_fixture.h"

#include "costmodel/closed_form/memory_model.h"
#include "executor/states/shard_layout.h"

#include <math.h>

enum { TENSORS_MAX = 512, LAYERS_MAX = 64 };

struct layers {
    redco_state_tensor tensors[TENSORS_MAX];
    redco_state_module modules[TENSORS_MAX];
    redco_state_layer layers[LAYERS_MAX];
    redco_state_model model;
};

/* Linears are modules with their bias; norms, tables alike: neighbours whose names differ in the last word only. */
static bool same_module(const redco_param *a, const redco_param *b)
{
    const size_t length = (size_t)(strrchr(a->name, '.') - a->name);
    return strncmp(a->name, b->name, length + 1) == 0 && strchr(b->name + length + 1, '.') == NULL;
}

/* Matrices are cut by tp, vectors replicated, as redco_rank_params() counts them. */
static void add_layer(struct layers *l, const redco_model *model, uint32_t class_index, uint32_t tp, const char *name,
                      redco_shards shards)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    const redco_param *before = NULL;
    redco_state_model *const m = &l->model;
    redco_state_layer *const layer = &l->layers[m->layer_count++];
    *layer = (redco_state_layer){name, shards, m->module_count, 0, .assigned = false};
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = 1;
        if (params[i].class_index != class_index) { continue; }
        for (uint32_t d = 0; d < params[i].rank; d++) { elements *= params[i].shape[d]; }
        if (params[i].rank >= 2) { elements = (elements + tp - 1) / tp; }
        assert_true(m->tensor_count < TENSORS_MAX);
        if (before == NULL || !same_module(before, &params[i])) {
            l->modules[m->module_count++] = (redco_state_module){"module", m->tensor_count, 0};
            layer->module_count++;
        }
        l->modules[m->module_count - 1].tensor_count++;
        l->tensors[m->tensor_count++] = (redco_state_tensor){params[i].name, elements, params[i].rank < 2,  true,
                                                             false,          false,    {.rate_factor = 0.0}};
        before = &params[i];
    }
}

static void fill(struct layers *l, const redco_model *model, uint32_t tp, redco_shards shards)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    memset(l, 0, sizeof *l);
    for (uint32_t c = 0; c < count; c++) {
        for (uint32_t i = 0; i < classes[c].layers; i++) { add_layer(l, model, c, tp, classes[c].name, shards); }
    }
    l->model.layers = l->layers;
    l->model.modules = l->modules;
    l->model.tensors = l->tensors;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The fullest rank's bytes in mixed precision. */
static redco_layout_size fullest(const struct layers *l, const redco_layout_options *options)
{
    redco_layout_size most = {0};
    for (uint32_t r = 0; r < redco_rank_count(options->mesh); r += options->mesh.tp) {
        redco_error err = {.status = REDCO_OK};
        redco_layout *layout = NULL;
        check_ok(redco_layout_create(&l->model, options, r, &layout, &err), &err);
        const redco_layout_size size = redco_layout_sizes(layout);
        most.parameters = larger(most.parameters, 2 * (size.parameters + size.secondary));
        most.gradients = larger(most.gradients, 2 * size.gradients);
        most.optimizer = larger(most.optimizer, 12 * size.optimizer);
        redco_layout_free(layout);
    }
    return most;
}

static double worst_ratio, least_ratio;

static void compare(const char *model, const char *what, const redco_shards *s, uint64_t held, uint64_t predicted,
                    double bound)
{
    const double ratio = (double)held / (double)predicted;
    if (!(ratio >= 1.0 - 1e-6 && ratio <= 1.0 + bound)) {
        fail_msg("%s, p %ux%u g %ux%u os %ux%u: %s hold %llu bytes, %llu are predicted", model, s->parameters.gpus,
                 s->parameters.nodes, s->gradients.gpus, s->gradients.nodes, s->optimizer.gpus, s->optimizer.nodes,
                 what, (unsigned long long)held, (unsigned long long)predicted);
    }
    worst_ratio = fmax(worst_ratio, ratio);
    least_ratio = fmin(least_ratio, ratio);
}

static void check_model(const char *name, uint32_t nodes, uint32_t tp, double bound)
{
    static const redco_shards kinds[] = {{{1, 1}, {1, 1}, {1, 1}}, {{1, 1}, {1, 1}, {0, 0}}, {{1, 1}, {0, 0}, {0, 0}},
                                         {{0, 0}, {0, 0}, {0, 0}}, {{4, 1}, {4, 1}, {4, 1}}, {{1, 1}, {1, 1}, {4, 1}},
                                         {{2, 1}, {2, 1}, {0, 0}}, {{2, 1}, {4, 1}, {4, 1}}};
    struct fixture b;
    static struct layers l;
    fixture_open(&b, name, a800_machine(nodes), plain_workload(64));
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.tp = tp;
    parallelism.dp = (redco_mesh){8 / tp, nodes};
    worst_ratio = 0.0;
    least_ratio = 2.0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        redco_shards s = kinds[i]; /* 0x0 stands for all ranks */
        if (s.parameters.gpus == 0) { s.parameters = parallelism.dp; }
        if (s.gradients.gpus == 0) { s.gradients = parallelism.dp; }
        if (s.optimizer.gpus == 0) { s.optimizer = parallelism.dp; }
        fill(&l, b.model, tp, s);
        for (int scheme = 0; scheme < 2; scheme++) {
            parallelism.scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
            parallelism.secondary = i == 3 ? (redco_mesh){parallelism.dp.gpus, 1} : (redco_mesh){0, 0};
            const redco_prediction p = uniform_step(&b, &parallelism, s, REDCO_RECOMPUTE_NONE);
            const redco_layout_options options = {
                .mesh = {tp, parallelism.dp}, .secondary = parallelism.secondary, .scheme = parallelism.scheme};
            const redco_layout_size held = fullest(&l, &options);
            compare(name, "parameters", &s, held.parameters, p.parameter_bytes, bound);
            compare(name, "gradients", &s, held.gradients, p.gradient_bytes, bound);
            compare(name, "optimizer states", &s, held.optimizer, p.optimizer_bytes, bound);
        }
    }
    print_message("%s, tp %u, dp %ux%u: held / predicted %.6f to %.6f\n", name, tp, parallelism.dp.gpus, nodes,
                  least_ratio, worst_ratio);
    fixture_close(&b);
}

static void bytes_are_those_predicted(void **state)
{
    (void)state;
    check_model("llama-7b", 8, 1, 0.001);
    check_model("llama-7b", 8, 2, 0.001);
    check_model("gpt2", 1, 1, 0.01);
    check_model("opt-125m", 2, 1, 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_those_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
