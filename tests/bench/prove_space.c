/* prove_space [DENSE [MIXTURES [SEED [QUESTION]]]]: so many small random questions over tensor, sequence, context,
 * pipeline and expert parallelism, model chunks, micro-batches, recomputation and meshes, each answered by
 * redco_search_priced() and by simulating every layout of its space. Prints what was counted; exits 1 where an answer
 * is beaten by more than it says, where closed form or recurrence are further above the simulator than gaps.h says,
 * memory than redco_memory_ratio, where a lower bound is above it, or a search with a limit misses by more than
 * redco_limited_ratio. QUESTION: only the one that has this number. */
#include "planner/answer/priced.h"
#include "planner/answer/question.h"
#include "planner/assemble/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t state;

/* splitmix64: the same anywhere. @return from 0 to below @p most */
static uint32_t pick(uint32_t most)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = state;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % most);
}

struct counts {
    uint32_t wanted, only, asked, proved, infeasible, large, refused;
    uint32_t binds, odd, staged, unequal, moved, beaten;
    uint64_t simulated, layouts;
    double worst, within[2], sums[2], least, memory[2], limited;
    uint32_t answers[2], narrow[2];
    redco_gap seen[REDCO_GAP_KINDS];
};

/* Half of the models are so large that memory decides. */
static bool write_model(const char *path)
{
    static const uint32_t heads[] = {12, 16, 32, 40, 64};
    const bool large = pick(2) == 0;
    const uint32_t head_count = heads[large ? 2 + pick(3) : pick(5)], head_size = large ? 128 : 64U << pick(2);
    const uint32_t hidden = head_count * head_size, layers = large ? 32 + pick(49) : 8 + pick(57);
    FILE *file = fopen(path, "w");
    if (file == NULL) { return false; }
    const int written = fprintf(file,
                                "{\"model_type\":\"llama\",\"hidden_size\":%u,\"intermediate_size\":%u,"
                                "\"num_attention_heads\":%u,\"num_hidden_layers\":%u,\"vocab_size\":%u}",
                                hidden, hidden * (2 + pick(3)), head_count, layers, 32000 + 1000 * pick(96));
    return fclose(file) == 0 && written > 0;
}

/* A mixture: of half of them the first layers are dense, and a quarter predicts a second token. */
static bool write_mixture(const char *path)
{
    static const uint32_t experts[] = {8, 16, 32, 64, 128};
    const uint32_t heads = 8U << pick(3), hidden = heads * 128, layers = 6 + pick(43), dense = pick(2) * (1 + pick(3));
    const uint32_t choices = 1U << pick(4), width = 256 * (1 + pick(12)), shared = pick(3);
    FILE *file = fopen(path, "w");
    if (file == NULL) { return false; }
    const int written = fprintf(
        file,
        "{\"model_type\":\"glm4_moe\",\"hidden_size\":%u,\"intermediate_size\":%u,\"num_attention_heads\":%u,"
        "\"num_key_value_heads\":%u,\"head_dim\":128,\"num_hidden_layers\":%u,\"vocab_size\":%u,"
        "\"n_routed_experts\":%u,\"num_experts_per_tok\":%u,\"moe_intermediate_size\":%u,\"n_shared_experts\":%u,"
        "\"first_k_dense_replace\":%u,\"num_nextn_predict_layers\":%u}",
        hidden, hidden * (2 + pick(3)), heads, heads / 4, layers, 32000 + 1000 * pick(96), experts[pick(5)], choices,
        width, shared, dense, pick(4) == 0 ? 1 : 0);
    return fclose(file) == 0 && written > 0;
}

/* Spaces must stay small enough to simulate: of the free choices some are fixed, of large spaces the next try fixes
 * more. */
static redco_search_options random_options(uint32_t nodes, uint32_t gpus_per_node, uint32_t tries, bool mixture)
{
    const redco_question usual = redco_question_default();
    redco_search_options o = usual.options;
    const uint32_t tight = 2 + tries;
    o.workload.seq_len = 512U << pick(5);
    o.workload.global_batch = (uint64_t)nodes * gpus_per_node * (1 + pick(6)) * (1U << pick(4));
    o.verify = true;
    o.top = 1;
    o.given.pp = REDCO_DEGREE_AUTO;
    if (pick(tight) > 0) { o.given.tp = 1U << pick(4); }
    if (pick(tight) > 1) { o.sequence_parallel = pick(2) == 0 ? REDCO_OFF : REDCO_ON; }
    if (pick(tight) > 0) { o.given.cp = pick(3) == 0 ? 2 : 1; }
    if (pick(tight) > 1) { o.given.micro_batch = 1U << pick(2); }
    if (pick(tight) > 0) { o.given.pp = 1 + pick(nodes > 1 ? 8 : 4); }
    o.given.chunks = pick(tight) > 1 ? 1 + pick(3) : REDCO_DEGREE_AUTO;
    if (pick(tight) > 1) {
        o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
        o.given.scheme = (redco_scheme)pick(2);
    }
    if (o.given.tp == 1 && o.sequence_parallel == REDCO_ON) { o.sequence_parallel = REDCO_OFF; }
    if (mixture && pick(tight) > 0) { o.given.ep = 1U << pick(6); }
    if (mixture && pick(tight) > 1) { o.given.etp = pick(2) == 0 ? 1 : o.given.tp; }
    return o;
}

/* @return whether layouts of the space have stages of unequal numbers of layers */
static bool has_unequal_stages(const redco_inputs *inputs, const redco_search_options *o)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(inputs->model, &classes);
    uint32_t blocks = 0;
    for (size_t i = 0; i < count; i++) { blocks += classes[i].kind == REDCO_CLASS_BLOCK ? classes[i].layers : 0; }
    return redco_degree_is_free(o->given.pp) ? blocks % 2 != 0 : blocks % o->given.pp != 0;
}

static void count_answer(struct counts *n, const redco_search_result *r, bool odd)
{
    const redco_candidate *const first = &r->ranked[0];
    const redco_prediction *const p = &first->prediction;
    bool recomputed = false;
    for (uint32_t i = 0; i < first->assignment_count; i++) {
        recomputed = recomputed || first->assignments[i].config.recompute != REDCO_RECOMPUTE_NONE;
    }
    n->proved++;
    n->binds += recomputed || (double)p->total_bytes > 0.85 * (double)p->capacity_bytes ? 1 : 0;
    n->odd += odd ? 1 : 0;
    n->staged += first->parallelism.pp > 1 ? 1 : 0;
    n->moved += r->by_simulation ? 1 : 0;
    n->beaten += r->verify_failed ? 1 : 0;
    n->simulated += r->verify_simulated;
    n->layouts += r->counts.simulated - r->verify_simulated;
    n->worst = fmax(n->worst, 1.0 - r->verify_simulated_s / p->step_s);
    for (uint32_t kind = 0; kind < REDCO_GAP_KINDS; kind++) {
        const redco_gap gap = redco_gap_of(kind), seen = r->seen[kind];
        if (seen.closed_ratio > gap.closed_ratio || seen.paced_ratio > gap.paced_ratio) {
            (void)printf("gap: question %u: kind %u: closed form %.2f of %.0f %%, recurrence %.2f of %.0f %%\n",
                         n->asked, kind, 100.0 * seen.closed_ratio, 100.0 * gap.closed_ratio, 100.0 * seen.paced_ratio,
                         100.0 * gap.paced_ratio);
        }
        n->seen[kind].closed_ratio = fmax(n->seen[kind].closed_ratio, r->seen[kind].closed_ratio);
        n->seen[kind].paced_ratio = fmax(n->seen[kind].paced_ratio, r->seen[kind].paced_ratio);
    }
    n->least = fmax(n->least, r->least_above_ratio);
    for (int k = 0; k < 2; k++) { n->memory[k] = fmax(n->memory[k], r->memory_above_ratio[k]); }
    const int staged = first->parallelism.pp > 1 ? 1 : 0;
    n->within[staged] = fmax(n->within[staged], r->within_ratio);
    n->sums[staged] += r->within_ratio;
    n->answers[staged]++;
    n->narrow[staged] += r->within_ratio <= (staged != 0 ? 0.04 : 0.02) ? 1 : 0;
}

/* The same question with a limit that leaves the answer so much room as such a search may need. @return by how much its
 * answer is slower, INFINITY: it finds none */
static double missed_by(const redco_inputs *inputs, const redco_search_options *options, double answer_s)
{
    redco_search_options limited = *options;
    redco_search_result *result = NULL;
    double missed = (double)INFINITY;
    limited.verify = false;
    limited.pass.no_remedies = true;
    limited.pass.limit_s = answer_s * (1.0 + redco_limited_ratio);
    if (redco_search_priced(inputs, &limited, &result, NULL) == REDCO_OK && result->ranked_count > 0) {
        missed = result->ranked[0].prediction.step_s / answer_s - 1.0;
    }
    redco_search_result_free(result);
    return missed;
}

/* @return false where the tool itself failed */
static bool ask(struct counts *n, const char *model, uint32_t tries, bool mixture)
{
    static const char *const clusters[] = {"a800-hdr", "dgx-h100", "dgx-a100", "p4d"};
    static const char *const engines[] = {NULL, "megatron-lm", "torchtitan", "meta-4d", "fsdp2"};
    const uint32_t nodes = 1 + pick(6);
    const redco_input_names names = {.model = model, .cluster = clusters[pick(4)], .engine = engines[pick(5)]};
    const bool odd = (nodes & (nodes - 1)) != 0;
    redco_search_options options = random_options(nodes, 8, tries, mixture);
    const bool has_all = pick(4) == 0;
    redco_inputs inputs;
    redco_search_result *result = NULL;
    redco_error err = {.status = REDCO_OK};
    n->asked++;
    if (n->only != 0 && n->asked != n->only) { return true; }
    if (redco_inputs_read(&names, (uint64_t)nodes * 8, &inputs, &err) != REDCO_OK) {
        (void)fprintf(stderr, "prove_space: %s: %s\n", err.place, err.text);
        return false;
    }
    inputs.engine_limits = names.engine != NULL; /* the whole space, unless an engine is named */
    redco_inputs_use_engine(&inputs, &options);
    if (has_all) { /* an engine that has all */
        options.allows.unequal_stages = true;
        options.allows.schedules =
            1U << REDCO_PIPELINE_ZB_H1 | 1U << REDCO_PIPELINE_DUALPIPE_V | 1U << REDCO_PIPELINE_DUALPIPE;
    }
    options.cp_types = (1U << REDCO_CP_TYPES) - 1;
    const redco_status st = redco_search_priced(&inputs, &options, &result, &err);
    if (st == REDCO_EVALUE) {
        n->refused++;
    } else if (st != REDCO_OK) {
        (void)fprintf(stderr, "prove_space: %s: %s\n", err.place, err.text);
    } else if (result->ranked_count == 0) {
        n->infeasible++;
    } else if (result->verify_simulated == 0) {
        n->large++;
    } else {
        if (result->verify_failed || result->verify_simulated_s < result->ranked[0].prediction.step_s * 0.98) {
            (void)printf("%s: question %u: %.6f s, by simulation %.6f s, by the closed form %.6f s, within %.2f %%\n",
                         result->verify_failed ? "beaten" : "two percent slower", n->asked,
                         result->ranked[0].prediction.step_s, result->verify_simulated_s, result->verify_objective,
                         100.0 * result->within_ratio);
        }
        count_answer(n, result, odd);
        const double missed = missed_by(&inputs, &options, result->ranked[0].prediction.step_s);
        if (missed > redco_limited_ratio) {
            (void)printf("limit: question %u: %.6f s, with a limit %.2f %% slower\n", n->asked,
                         result->ranked[0].prediction.step_s, 100.0 * missed);
        }
        n->limited = fmax(n->limited, missed);
        n->unequal += has_unequal_stages(&inputs, &options) ? 1 : 0;
    }
    redco_search_result_free(result);
    redco_inputs_free(&inputs);
    return st == REDCO_OK || st == REDCO_EVALUE;
}

/* Asks until so many answers are proved. @return false where the tool itself failed */
static bool prove(struct counts *n, const char *path, bool mixtures)
{
    bool works = true;
    const uint32_t most = n->only != 0 ? n->only : 20 * n->wanted;
    while (works && n->proved < n->wanted && n->asked < most) {
        works = (mixtures ? write_mixture(path) : write_model(path)) && ask(n, path, n->asked % 6, mixtures);
    }
    return works;
}

/* @return whether all is within what is said of it */
static bool report(const struct counts *n, bool mixtures)
{
    bool near = n->beaten == 0 && n->least <= 1e-6 && n->limited <= redco_limited_ratio && n->proved > 0;
    (void)printf("%s: %u questions: %u proved, %u do not fit, %u have no layout, %u are too large to simulate whole\n",
                 mixtures ? "mixtures" : "dense", n->asked, n->proved, n->infeasible, n->refused, n->large);
    (void)printf("proved: %.0f %% bound by memory, %u on numbers of nodes that are no power of two, %.0f %% with "
                 "stages, %.0f %% "
                 "in spaces of unequal stages\n",
                 100.0 * n->binds / n->proved, n->odd, 100.0 * n->staged / n->proved, 100.0 * n->unequal / n->proved);
    (void)printf("simulated %llu layouts to verify, %llu to answer; %u answers are not the closed form's\n",
                 (unsigned long long)n->simulated, (unsigned long long)n->layouts, n->moved);
    (void)printf(
        "the fastest layout is faster than the answer by %.2f %% at most; %u answers beaten by more than they say\n",
        100.0 * n->worst, n->beaten);
    for (int k = 0; k < 2; k++) {
        (void)printf("%u answers %s stages say within %.2f %% in the mean, %.2f %% at most, %u of them within %d %%\n",
                     n->answers[k], k == 0 ? "without" : "with", 100.0 * n->sums[k] / fmax(1.0, n->answers[k]),
                     100.0 * n->within[k], n->narrow[k], k == 0 ? 2 : 4);
    }
    (void)printf("lower bounds are above a simulated step by %.4f %% at most\n", 100.0 * n->least);
    (void)printf("a search with a limit misses the answer by %.2f of %.0f %% at most\n", 100.0 * n->limited,
                 100.0 * redco_limited_ratio);
    for (int k = 0; k < 2; k++) {
        const double allowed = redco_memory_ratio(k == 0 ? REDCO_PIPELINE_1F1B : REDCO_PIPELINE_ZB_H1);
        (void)printf("the closed form of a layout that fits is above the capacity by %.2f of %.0f %% at most, %s\n",
                     100.0 * n->memory[k], 100.0 * allowed, k == 0 ? "one backward pass" : "backward in two parts");
        near = near && n->memory[k] <= allowed;
    }
    static const char *const pipelines[] = {"no stages,", "stages,", "stages of several chunks,"};
    for (uint32_t i = 0; i < REDCO_GAP_KINDS / 2; i++) {
        const uint32_t kind = i + (mixtures ? REDCO_GAP_KINDS / 2 : 0);
        const redco_gap gap = redco_gap_of(kind);
        (void)printf("%-26s traffic %d of %d: closed form %6.2f of %3.0f %%, recurrence %6.2f of %3.0f %%\n",
                     pipelines[i / REDCO_GAP_LOADS], (int)(i % REDCO_GAP_LOADS), REDCO_GAP_LOADS - 1,
                     100.0 * n->seen[kind].closed_ratio, 100.0 * gap.closed_ratio, 100.0 * n->seen[kind].paced_ratio,
                     100.0 * gap.paced_ratio);
        near = near && n->seen[kind].closed_ratio <= gap.closed_ratio && n->seen[kind].paced_ratio <= gap.paced_ratio;
    }
    return near;
}

int main(int argc, char **argv)
{
    const uint32_t wanted = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2000;
    const uint32_t mixtures = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : wanted / 4;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const uint32_t only = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    char path[] = "/tmp/prove-space-XXXXXX.json";
    bool near = true, works = true;
    const int handle = mkstemps(path, 5);
    if (handle < 0 || close(handle) != 0) {
        (void)fprintf(stderr, "prove_space: %s: cannot be written\n", path);
        return 3;
    }
    for (int mixture = 0; mixture < 2 && works; mixture++) {
        struct counts n = {.least = -1.0, .wanted = mixture != 0 ? mixtures : wanted, .only = only};
        state = seed;
        if (n.wanted == 0) { continue; }
        works = prove(&n, path, mixture != 0);
        near = works && report(&n, mixture != 0) && near;
    }
    (void)remove(path);
    return !works ? 3 : near ? 0 : 1;
}
