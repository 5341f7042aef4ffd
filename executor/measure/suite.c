#include "executor/measure/suite_internal.h"

#include "executor/measure/measure_internal.h"
#include "executor/measure/measure_operators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of a product in each dimension, a factor of four apart: from what fits into a register tile to more than any
 * cache holds. Products with more FLOP than the limit are left out: they run at the rate of the largest. */
static const uint64_t gemm_sizes[] = {16, 64, 256, 1024, 4096, 16384};
enum { GEMM_SIZES = sizeof gemm_sizes / sizeof gemm_sizes[0] };
enum { TABLE_ROWS = 64, LOSS_CLASSES = 4096 };
static const double single_limit_flops = 9e9, other_limit_flops = 6e8, quick_limit_flops = 2e6;

void redcoi_cases_add(redcoi_cases *list, redco_measure_case one)
{
    if (list->count == list->capacity) {
        const size_t wanted = list->capacity > 0 ? 2 * list->capacity : 256;
        redco_measure_case *larger = realloc(list->items, wanted * sizeof *larger);
        list->failed = list->failed || larger == NULL;
        if (larger == NULL) { return; }
        list->items = larger;
        list->capacity = wanted;
    }
    one.forward_s = INFINITY;
    one.backward_s = INFINITY;
    list->items[list->count++] = one;
}

size_t redcoi_cases_hand_over(redcoi_cases *list, redco_measure_case **cases_out)
{
    if (list->failed) {
        free(list->items);
        return 0;
    }
    *cases_out = list->items;
    return list->count;
}

/* The largest size stands for vocabularies: no other dimension of such a product is small. */
static bool is_strip(uint64_t m, uint64_t n, uint64_t k)
{
    const uint64_t largest = gemm_sizes[GEMM_SIZES - 1], least = 256;
    const bool large = m == largest || n == largest || k == largest;
    return large && (m < least || n < least || k < least);
}

/* Forward X W, the gradient of the input dY W^T, that of the weight X^T dY. */
static void add_gemms(redcoi_cases *list, redco_dtype dtype, uint32_t step, double limit_flops)
{
    static const bool layouts[3][2] = {{false, false}, {false, true}, {true, false}};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t at = 0; at < GEMM_SIZES * GEMM_SIZES * GEMM_SIZES; at++) {
            const uint32_t i = at / (GEMM_SIZES * GEMM_SIZES), j = at / GEMM_SIZES % GEMM_SIZES, l = at % GEMM_SIZES;
            const uint64_t m = gemm_sizes[i], n = gemm_sizes[j], k = gemm_sizes[l];
            if (i % step != 0 || j % step != 0 || l % step != 0) { continue; }
            if (2.0 * (double)m * (double)n * (double)k > limit_flops || is_strip(m, n, k)) { continue; }
            redcoi_cases_add(list, (redco_measure_case){.kind = REDCO_MEASURE_GEMM,
                                                        .dtype = dtype,
                                                        .m = m,
                                                        .n = n,
                                                        .k = k,
                                                        .transpose_a = layouts[t][0],
                                                        .transpose_b = layouts[t][1]});
        }
    }
}

static void add_attentions(redcoi_cases *list, redco_dtype dtype, bool quick)
{
    static const uint64_t sequences[] = {64, 256, 1024, 2048}, sizes[] = {32, 64, 128};
    for (uint32_t s = 0; s < (quick ? 1 : 4); s++) {
        for (uint32_t d = 0; d < (quick ? 1 : 3); d++) {
            redcoi_cases_add(list, (redco_measure_case){.kind = REDCO_MEASURE_ATTENTION,
                                                        .dtype = dtype,
                                                        .batch = 1,
                                                        .heads = 4,
                                                        .sequence = sequences[s],
                                                        .size = sizes[d]});
        }
    }
}

static void add_operators(redcoi_cases *list, redco_dtype dtype, bool quick)
{
    /* Results of 2^14 to 2^22 elements: within the first-level cache to beyond the last. */
    static const struct {
        const char *name;
        uint64_t columns;
        bool flat; /* one row of all elements */
    } operators[] = {
        {"rms_norm", 1024, false},
        {"layer_norm", 1024, false},
        {"rotary", 1024, false},
        {"split_heads", 1024, false},
        {"activation", 1024, false},
        {"relu", 1024, false},
        {"gated_activation", 1024, false},
        {"loss", 4096, false},
        {"embedding", 256, false},
        {"embedding_table", 256, false},
        {"optimizer", 1, true},
        {"accumulate", 1, true},
        {"copy", 1, true},
    };
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        for (uint32_t power = 14; power <= (quick ? 14 : 22); power += 2) {
            const uint64_t elements = UINT64_C(1) << power, columns = operators[i].columns;
            redcoi_cases_add(list, (redco_measure_case){.kind = REDCO_MEASURE_OPERATOR,
                                                        .dtype = dtype,
                                                        .name = operators[i].name,
                                                        .rows = operators[i].flat ? 1 : elements / columns,
                                                        .columns = operators[i].flat ? elements : columns,
                                                        .table_rows = TABLE_ROWS});
        }
    }
}

size_t redco_measure_cases(bool quick, redco_measure_case **cases_out)
{
    redcoi_cases list = {0};
    const redco_dtype dtypes[] = {REDCO_F32, REDCO_BFLOAT16};
    for (int i = 0; i < 2; i++) {
        const double limit = dtypes[i] == REDCO_F32 ? single_limit_flops : other_limit_flops;
        add_gemms(&list, dtypes[i], 1, quick ? quick_limit_flops : limit);
        add_attentions(&list, dtypes[i], quick);
        add_operators(&list, dtypes[i], quick);
    }
    /* Double precision is for checks: every other size is enough. */
    add_gemms(&list, REDCO_F64, 2, quick ? quick_limit_flops : other_limit_flops);
    return redcoi_cases_hand_over(&list, cases_out);
}

static redco_status build(const redco_measure_case *one, bool fused, redcoi_composite *composite_out, redco_error *err)
{
    const redcoi_attention_shape shape = {.batch = one->batch,
                                          .heads = one->heads,
                                          .kv_heads = one->heads,
                                          .sequence = one->sequence,
                                          .head_dim = one->size,
                                          .causal = true};
    const redcoi_composite_size size = {
        .rows = one->rows, .columns = one->columns, .table_rows = one->table_rows, .products_add = fused};
    switch (one->kind) {
    case REDCO_MEASURE_GEMM:
        return redcoi_composite_gemm(one->dtype, one->m, one->n, one->k, one->transpose_a, one->transpose_b,
                                     composite_out, err);
    case REDCO_MEASURE_ATTENTION: return redcoi_composite_attention(one->dtype, &shape, composite_out, err);
    case REDCO_MEASURE_OPERATOR: return redcoi_composite_create(one->name, one->dtype, &size, composite_out, err);
    case REDCO_MEASURE_GRAPH: break;
    }
    return REDCO_OK;
}

/* Below the classes of the smallest loss, and the rows of the smallest table. */
static uint64_t index_bound(const redco_measure_case *one, const redcoi_composite *composite)
{
    if (one->kind != REDCO_MEASURE_OPERATOR) { return 0; }
    return composite->looks_up ? one->table_rows : LOSS_CLASSES;
}

/* As a step has it: fused where the measurer is told to. The graph is the caller's also after a failure. */
static redco_status build_fused(const redco_measurer *measurer, const redco_measure_case *one,
                                redcoi_composite *composite_out, redco_error *err)
{
    const redco_status st = build(one, measurer->options.fused, composite_out, err);
    if (st != REDCO_OK || !measurer->options.fused) { return st; }
    return redcoi_measure_fuse(redco_backend_fuse_choice(measurer->backend), &composite_out->graph,
                               composite_out->results, composite_out->result_count, err);
}

redco_status redco_measure_case_sustained(redco_measurer *measurer, const redco_measure_case *one,
                                          const redco_measure_load *load, redco_measure_sustained *sustained_out,
                                          redco_error *err)
{
    redcoi_composite composite = {.graph = NULL};
    redco_status st = build_fused(measurer, one, &composite, err);
    measurer->load = load;
    measurer->sustained = sustained_out;
    measurer->numbers = load->numbers;
    if (st == REDCO_OK) {
        st = redco_measure_graph(measurer, composite.graph, composite.results, composite.result_count,
                                 index_bound(one, &composite), NULL, err);
    }
    measurer->load = NULL;
    measurer->sustained = NULL;
    measurer->numbers = REDCO_NUMBERS_UNIFORM;
    redco_graph_free(composite.graph);
    return st;
}

/* The pass runs for its first part: those behind it take what it found. */
static redco_status run_part(redco_measurer *measurer, redco_measure_case *one, redco_error *err)
{
    const redco_status st = one->part == 0 ? redcoi_graph_pass_run(measurer, one->pass, err) : REDCO_OK;
    if (st != REDCO_OK) { return st; }
    const double seconds = redcoi_graph_pass_s(one->pass, one->part);
    one->forward_s = fmin(one->forward_s, seconds);
    one->backward_s = 0.0;
    one->average_s = (one->average_s * one->rounds + seconds) / (one->rounds + 1.0);
    one->rounds++;
    return REDCO_OK;
}

redco_status redco_measure_case_run(redco_measurer *measurer, redco_measure_case *one, redco_error *err)
{
    if (one->kind == REDCO_MEASURE_GRAPH) { return run_part(measurer, one, err); }
    redcoi_composite composite = {.graph = NULL};
    double *op_s = NULL, forward_s = 0.0, backward_s = 0.0;
    redco_status st = build_fused(measurer, one, &composite, err);
    if (st != REDCO_OK) { goto out; }
    const uint32_t ops = redco_graph_op_count(composite.graph);
    op_s = malloc((ops + 1) * sizeof *op_s);
    if (op_s == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < ops; i++) { op_s[i] = INFINITY; }
    st = redco_measure_graph(measurer, composite.graph, composite.results, composite.result_count,
                             index_bound(one, &composite), op_s, err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *op = redco_graph_op(composite.graph, i);
        if (!isfinite(op_s[i]) || op->role == REDCO_OP_ROLE_PREPARATION) { continue; }
        *(op->order == 0 ? &forward_s : &backward_s) += op_s[i];
    }
    one->workspace_bytes = redco_measure_workspace_bytes(measurer);
    if (measurer->options.queued && one->rounds > 0) {
        one->forward_s += (forward_s - one->forward_s) / (one->rounds + 1.0);
        one->backward_s += (backward_s - one->backward_s) / (one->rounds + 1.0);
    } else {
        one->forward_s = fmin(one->forward_s, forward_s);
        one->backward_s = fmin(one->backward_s, backward_s);
    }
    one->average_s =
        (one->average_s * one->rounds + (forward_s + backward_s) * (1.0 + redco_measure_spread(measurer))) /
        (one->rounds + 1.0);
    one->rounds++;
out:
    free(op_s);
    redco_graph_free(composite.graph);
    return st;
}
