#include "costmodel/operators/compute.h"

#include "costmodel/operators/compute_profile.h"

#include <math.h>

/* Share of memory bandwidth that the operands of a GEMM reach (costmodel/README.md, section 2). */
static const double gemm_memory_ratio = 0.85;
/* Share of a GEMM's efficiency that the batched products of unfused attention reach, and how much slower they are with
 * a head size that is no multiple of 8 (README, section 2). */
static const double scores_gemm_ratio = 0.55;
static const double misaligned_factor = 7.5;
/* Bytes moved per score: with one kernel for mask and softmax, and with one for each operation. */
static const double fused_score_bytes = 11.0, plain_score_bytes = 26.0;
/* Backward of unfused attention over its forward: twice the products, 1.6 times the bytes. */
static const double scores_backward_flops = 2.0, scores_backward_bytes = 1.6;
/* Bytes per element of a norm: fused, and what several kernels add per unit of rho. */
static const double norm_bytes = 10.0, plain_norm_bytes = 18.0;

/* Gathers operators while the layer is described in forward order. */
struct list {
    redco_operator *out;
    uint32_t count;
    double element_bytes;
    double memory_unit; /* traffic constants of the reference are for 2-byte elements */
    const redco_engine *engine;
    const char *norm; /* as profiles call it */
    bool in_block;
};

static void add_gemm(struct list *list, const char *name, uint64_t m, uint64_t n, uint64_t k)
{
    const double dm = (double)m, dn = (double)n, dk = (double)k;
    list->out[list->count++] = (redco_operator){.name = name,
                                                .kind = REDCO_OPERATOR_GEMM,
                                                .m = m,
                                                .n = n,
                                                .k = k,
                                                .narrow = list->in_block,
                                                .flops = 2.0 * dm * dn * dk,
                                                .bytes = list->element_bytes * (dm * dk + dk * dn + dm * dn)};
}

/* @p measured_as of a profile's operators, by its number of elements. */
static void add_bytes(struct list *list, const char *name, redco_operator_kind kind, const char *measured_as,
                      double elements, double element_bytes)
{
    list->out[list->count++] = (redco_operator){.name = name,
                                                .kind = kind,
                                                .bytes = element_bytes * elements * list->memory_unit,
                                                .measured_as = measured_as,
                                                .elements = elements};
}

/* Dimensions of one rank. */
struct rank {
    double tokens;  /* T, of this rank's part of the sequence */
    uint64_t t;     /* the same as a count */
    double sigma;   /* divides what sequence parallelism divides */
    uint64_t q, kv; /* width of queries, of keys (= of values) */
    uint32_t head_dim, keys;
    double pair_flops; /* 4 b s^2 q / cp: scores and product with V over the full square */
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static struct rank rank_of(const redco_model_dims *dims, const redco_shape *shape)
{
    struct rank rank;
    rank.t = (uint64_t)shape->micro_batch * ceil_div(shape->seq_len, shape->cp);
    rank.tokens = (double)rank.t;
    rank.sigma = shape->sequence_parallel ? (double)shape->tp : 1.0;
    rank.head_dim = dims->head_dim;
    rank.keys = shape->seq_len;
    rank.q = ceil_div(dims->heads, shape->tp) * dims->head_dim;
    rank.kv = (uint64_t)redco_rank_kv_heads(dims, shape->tp) * dims->head_dim;
    rank.pair_flops = 4.0 * rank.tokens * (double)shape->seq_len * (double)rank.q;
    return rank;
}

uint32_t redco_rank_kv_heads(const redco_model_dims *dims, uint32_t tp)
{
    return tp >= dims->kv_heads ? 1 : (uint32_t)ceil_div(dims->kv_heads, tp);
}

/* As profiles call it. */
static const char *activation(const redco_model_dims *dims)
{
    static const char *const names[] = {[REDCO_ACTIVATION_GELU] = "activation",
                                        [REDCO_ACTIVATION_RELU] = "relu",
                                        [REDCO_ACTIVATION_GATED] = "gated_activation"};
    return names[dims->activation];
}

static void add_norm_of(struct list *list, const char *name, double elements, uint64_t columns)
{
    const redco_operator_kind kind = list->engine->plain_norm ? REDCO_OPERATOR_NORM : REDCO_OPERATOR_MEMORY;
    add_bytes(list, name, kind, list->norm, elements, norm_bytes);
    list->out[list->count - 1].columns = (uint32_t)columns;
}

static void add_norm(struct list *list, const char *name, const struct rank *rank, uint64_t hidden)
{
    add_norm_of(list, name, rank->tokens * (double)hidden / rank->sigma, hidden);
}

static void add_attention(struct list *list, const char *name, bool causal, const struct rank *rank)
{
    const redco_attention kernel = list->engine->attention;
    if (kernel == REDCO_ATTENTION_FUSED || kernel == REDCO_ATTENTION_UNFUSED) { /* the full square, causal or not */
        const double scores = rank->pair_flops / 4.0 / (double)rank->head_dim;
        list->out[list->count++] =
            (redco_operator){.name = name,
                             .kind = REDCO_OPERATOR_SCORES,
                             .misaligned = rank->head_dim % 8 != 0,
                             .flops = rank->pair_flops,
                             .bytes = scores * list->memory_unit *
                                      (kernel == REDCO_ATTENTION_FUSED ? fused_score_bytes : plain_score_bytes)};
        return;
    }
    const double bytes = 2.0 * rank->tokens * (double)(rank->q + rank->kv); /* q, k, v in, output out */
    list->out[list->count++] = (redco_operator){.name = name,
                                                .kind = REDCO_OPERATOR_ATTENTION,
                                                .flops = causal ? rank->pair_flops / 2.0 : rank->pair_flops,
                                                .bytes = bytes * list->element_bytes,
                                                .keys = rank->keys,
                                                .head_dim = rank->head_dim,
                                                .causal = causal};
}

/* An engine of planned memory multiplies by each weight of the last product: those of the uses from @p first to @p
 * last, of which there may be several (q, k and v; gate and up). */
static void add_parts(struct list *list, const redco_model *model, uint32_t class_index, uint32_t tp,
                      redco_param_use first, redco_param_use last)
{
    const redco_param *params = NULL;
    redco_operator *const op = &list->out[list->count - 1];
    (void)redco_model_tensors(model, &params);
    if (tp > redco_model_get_dims(model)->kv_heads) { return; } /* some have a part of a head */
    for (uint32_t use = first; use <= (uint32_t)last; use++) {
        const uint32_t id = redco_model_find(model, class_index, (redco_param_use)use, false);
        if (id == REDCO_NO_PARAM || op->k == 0) { continue; }
        op->parts[op->part_count++] = ceil_div(params[id].shape[0] * params[id].shape[1] / op->k, tp);
    }
    if (op->part_count == 1) { op->part_count = 0; }
}

static void add_block(struct list *list, const redco_model *model, uint32_t class_index, bool causal,
                      const struct rank *rank, uint32_t tp)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const bool cross = classes[class_index].kind == REDCO_CLASS_CROSS;
    const bool parts = list->engine->planned_memory && !cross;
    const uint64_t h = dims->hidden, f = ceil_div(dims->ffn, tp);
    list->in_block = true;
    if (!dims->post_norm) { add_norm(list, "attn_norm", rank, h); }
    add_gemm(list, "qkv", rank->t, rank->q + 2 * rank->kv, h);
    if (parts) { add_parts(list, model, class_index, tp, REDCO_USE_QUERY, REDCO_USE_VALUE); }
    if (dims->head_norms) { /* of this rank's heads, whatever sequence parallelism splits */
        add_norm_of(list, "q_norm", rank->tokens * (double)rank->q, dims->head_dim);
        add_norm_of(list, "k_norm", rank->tokens * (double)rank->kv, dims->head_dim);
    }
    const char *const heads = dims->positions == REDCO_POSITIONS_ROTARY ? "rotary" : "split_heads";
    add_bytes(list, heads, REDCO_OPERATOR_MEMORY, heads, rank->tokens * (double)(rank->q + rank->kv), 4.0);
    add_attention(list, "attention", causal, rank);
    add_gemm(list, "out", rank->t, h, rank->q);
    list->out[list->count - 1].adds = true;
    if (dims->post_norm) { add_norm(list, "attn_norm", rank, h); }
    if (cross) { /* queries of the decoder, keys and values of the encoder's output: every pair */
        if (!dims->post_norm) { add_norm(list, "cross_norm", rank, h); }
        add_gemm(list, "cross_q", rank->t, rank->q, h);
        add_gemm(list, "cross_kv", rank->t, 2 * rank->kv, h);
        add_attention(list, "cross_attention", false, rank);
        add_gemm(list, "cross_out", rank->t, h, rank->q);
        list->out[list->count - 1].adds = true;
        if (dims->post_norm) { add_norm(list, "cross_norm", rank, h); }
    }
    if (!dims->parallel_block && !dims->post_norm) { add_norm(list, "ffn_norm", rank, h); }
    add_gemm(list, "ffn_in", rank->t, dims->gated ? 2 * f : f, h);
    if (parts) { add_parts(list, model, class_index, tp, REDCO_USE_GATE, REDCO_USE_UP); }
    add_bytes(list, "activation", REDCO_OPERATOR_MEMORY, activation(dims), rank->tokens * (double)f,
              dims->gated ? 8.0 : 4.0);
    add_gemm(list, "ffn_out", rank->t, h, f);
    list->out[list->count - 1].adds = true;
    if (dims->post_norm) { add_norm(list, "ffn_norm", rank, h); }
    if (list->engine->gemm_format != REDCO_GEMM_SAME) { /* inputs and gradients of the products */
        const double elements = 6.0 * (double)h / (double)tp + 3.0 * (double)f;
        add_bytes(list, "casts", REDCO_OPERATOR_CAST, NULL, rank->tokens * elements, 1.0);
    }
}

static void add_head(struct list *list, const redco_model_dims *dims, const struct rank *rank, uint32_t tp)
{
    const uint64_t width = ceil_div(dims->vocab, tp);
    if (!dims->no_final_norm) { add_norm(list, "final_norm", rank, dims->hidden); }
    add_gemm(list, "head", rank->t, width, dims->hidden);
    const uint64_t held = list->engine->logits_gathered ? dims->vocab : width;
    /* 24 bytes per logit in all, a third of them forward; the loss computes in 32 bit whatever the precision. */
    list->out[list->count++] = (redco_operator){.name = "loss",
                                                .kind = REDCO_OPERATOR_LOSS,
                                                .bytes = 8.0 * rank->tokens * (double)held,
                                                .measured_as = "loss",
                                                .elements = rank->tokens * (double)held};
}

uint32_t redco_layer_operators(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                               redco_operator operators_out[REDCO_OPERATORS_MAX])
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const double element_bytes = shape->precision == REDCO_FP32 ? 4.0 : 2.0;
    struct list list = {.out = operators_out,
                        .element_bytes = element_bytes,
                        .memory_unit = element_bytes / 2.0,
                        .engine = &shape->engine,
                        .norm = dims->norm == REDCO_NORM_RMS ? "rms_norm" : "layer_norm"};
    const struct rank rank = rank_of(dims, shape);
    const bool encoder = dims->encoder_layers > 0;
    switch (classes[class_index].kind) {
    case REDCO_CLASS_EMBEDDING: /* 20 bytes per element in all, a third of them forward */
        add_bytes(&list, "embedding", REDCO_OPERATOR_EMBEDDING, "embedding", rank.tokens * (double)dims->hidden,
                  20.0 / 3.0);
        list.out[0].table_elements = (double)ceil_div(dims->vocab, shape->tp) * (double)dims->hidden;
        list.out[0].table_shared = dims->tied;
        break;
    case REDCO_CLASS_BLOCK: add_block(&list, model, class_index, !encoder, &rank, shape->tp); break;
    case REDCO_CLASS_CROSS: add_block(&list, model, class_index, true, &rank, shape->tp); break;
    case REDCO_CLASS_HEAD: add_head(&list, dims, &rank, shape->tp); break;
    }
    return list.count;
}

redco_status redco_compute_create(const redco_gpu *gpu, redco_precision precision, const redco_calibration *calibration,
                                  redco_compute *compute_out, redco_error *err)
{
    redco_compute compute = {.memory_bandwidth_bytes_per_s = gpu->memory_bandwidth_bytes_per_s,
                             .element_bytes = precision == REDCO_FP32 ? 4 : 2,
                             .precision = precision,
                             .calibration = *calibration,
                             .attention_efficiency = calibration->attention_efficiency};
    switch (precision) {
    case REDCO_BF16: compute.peak_flops_per_s = gpu->bf16_flops_per_s; break;
    case REDCO_FP16: compute.peak_flops_per_s = gpu->fp16_flops_per_s; break;
    case REDCO_FP32:
        compute.tf32 = gpu->tf32_flops_per_s > 0.0;
        compute.peak_flops_per_s = compute.tf32 ? gpu->tf32_flops_per_s : gpu->fp32_flops_per_s;
        break;
    }
    if (!(compute.peak_flops_per_s > 0.0)) {
        const char *const instead = gpu->bf16_flops_per_s > 0.0   ? "bf16"
                                    : gpu->fp16_flops_per_s > 0.0 ? "fp16"
                                                                  : "fp32";
        return redco_fail(err, REDCO_EVALUE, gpu->name, "has no %s matrix units: use --precision %s",
                          precision == REDCO_BF16   ? "bf16"
                          : precision == REDCO_FP16 ? "fp16"
                                                    : "fp32",
                          instead);
    }
    if (!(compute.memory_bandwidth_bytes_per_s > 0.0)) {
        return redco_fail(err, REDCO_EVALUE, gpu->name, "has no memory bandwidth in its description");
    }
    /* FlashAttention-1 is the only flash kernel before Ampere. */
    if (gpu->compute_capability > 0 && gpu->compute_capability < 80) {
        compute.attention_efficiency *= calibration->flash1_ratio;
    }
    compute.narrow_flops_per_s = compute.peak_flops_per_s;
    *compute_out = compute;
    return REDCO_OK;
}

redco_status redco_compute_use_engine(redco_compute *compute, const redco_gpu *gpu, const redco_engine *engine,
                                      redco_error *err)
{
    redco_calibration *const c = &compute->calibration;
    if (engine->attention == REDCO_ATTENTION_FLASH1) {
        compute->attention_efficiency = c->attention_efficiency * c->flash1_ratio;
    } else if (engine->attention == REDCO_ATTENTION_FLASH2 || engine->attention == REDCO_ATTENTION_FLASH3) {
        compute->attention_efficiency = c->attention_efficiency;
    }
    if (engine->compiled) { c->memory_traffic_factor *= c->compiled_ratio; }
    compute->narrow_flops_per_s = compute->peak_flops_per_s;
    if (engine->gemm_format == REDCO_GEMM_SAME) { return REDCO_OK; }
    if (!(gpu->fp8_flops_per_s > 0.0)) { return redco_fail(err, REDCO_EVALUE, gpu->name, "has no 8-bit matrix units"); }
    compute->narrow_flops_per_s = gpu->fp8_flops_per_s * c->fp8_efficiency;
    if (engine->gemm_format == REDCO_GEMM_NVFP4) { /* twice the 8-bit rate on GPUs that have it */
        if (gpu->compute_capability < 100) {
            return redco_fail(err, REDCO_EVALUE, gpu->name, "has no 4-bit matrix units");
        }
        compute->narrow_flops_per_s *= 2.0 * c->fp4_efficiency;
    }
    return REDCO_OK;
}

static double gemm_at_s(const redco_compute *compute, double peak_flops_per_s, uint64_t m, uint64_t n, uint64_t k)
{
    const redco_calibration *const c = &compute->calibration;
    const double dm = (double)m, dn = (double)n, dk = (double)k;
    const double flops_s = 2.0 * dm * dn * dk / (peak_flops_per_s * c->gemm_efficiency);
    const double bytes = (double)compute->element_bytes * (dm * dk + dk * dn + dm * dn);
    const double memory_s = bytes / (gemm_memory_ratio * compute->memory_bandwidth_bytes_per_s);
    return fmax(flops_s * (1.0 + c->gemm_k0 / dk), memory_s) + c->kernel_s;
}

double redco_gemm_s(const redco_compute *compute, uint64_t m, uint64_t n, uint64_t k)
{
    double measured_s = 0.0;
    if (redco_compute_profile_gemm_s(compute->measured, m, n, k, REDCO_PASS_FORWARD, compute->precision, &measured_s)) {
        return measured_s;
    }
    return gemm_at_s(compute, compute->peak_flops_per_s, m, n, k);
}

static double gemm_pass_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const double peak = op->narrow ? compute->narrow_flops_per_s : compute->peak_flops_per_s;
    switch (pass) {
    case REDCO_PASS_FORWARD: return gemm_at_s(compute, peak, op->m, op->n, op->k);
    case REDCO_PASS_GRAD_INPUT: return gemm_at_s(compute, peak, op->m, op->k, op->n);
    case REDCO_PASS_GRAD_WEIGHT: return gemm_at_s(compute, peak, op->k, op->n, op->m);
    }
    return 0.0;
}

static double scores_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const redco_calibration *const c = &compute->calibration;
    const double flops_s = op->flops / (scores_gemm_ratio * compute->peak_flops_per_s * c->gemm_efficiency);
    const double bytes_s = c->scores_traffic_factor * op->bytes / compute->memory_bandwidth_bytes_per_s;
    const double factor = op->misaligned ? misaligned_factor : 1.0;
    switch (pass) {
    case REDCO_PASS_FORWARD: return factor * (flops_s + bytes_s);
    case REDCO_PASS_GRAD_INPUT: return factor * (scores_backward_flops * flops_s + scores_backward_bytes * bytes_s);
    case REDCO_PASS_GRAD_WEIGHT: return 0.0;
    }
    return 0.0;
}

double redco_operator_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const redco_calibration *const c = &compute->calibration;
    const double peak = compute->peak_flops_per_s;
    double traffic = op->bytes, measured_s = 0.0;
    /* Products in the engine's own format were not measured. */
    const bool narrow = op->narrow && compute->narrow_flops_per_s != peak;
    if (!narrow && redco_compute_profile_s(compute->measured, op, pass, compute->precision, &measured_s)) {
        return measured_s;
    }
    switch (op->kind) {
    case REDCO_OPERATOR_GEMM: return gemm_pass_s(compute, op, pass);
    case REDCO_OPERATOR_ATTENTION: {
        /* Backward computes the scores again: five products where forward has two (Dao et al. 2022). */
        const double forward_s = op->flops / (peak * compute->attention_efficiency);
        const double backward_s = 2.5 * forward_s / c->attention_backward_ratio;
        return pass == REDCO_PASS_FORWARD ? forward_s : pass == REDCO_PASS_GRAD_INPUT ? backward_s : 0.0;
    }
    case REDCO_OPERATOR_SCORES: return scores_s(compute, op, pass);
    case REDCO_OPERATOR_NORM:
        traffic *= c->memory_traffic_factor * (1.0 + c->norm_traffic_factor * plain_norm_bytes / norm_bytes);
        break;
    case REDCO_OPERATOR_MEMORY: traffic *= c->memory_traffic_factor; break;
    case REDCO_OPERATOR_LOSS: traffic *= c->head_traffic_factor; break;
    case REDCO_OPERATOR_CAST:
    case REDCO_OPERATOR_EMBEDDING: break;
    }
    const double passes = pass == REDCO_PASS_FORWARD ? 1.0 : pass == REDCO_PASS_GRAD_INPUT ? 2.0 : 0.0;
    return passes * traffic / compute->memory_bandwidth_bytes_per_s;
}

void redco_compute_use_measured(redco_compute *compute, const redco_gpu *gpu, const redco_compute_profile *measured)
{
    compute->measured = measured;
    compute->power =
        redco_power_of(gpu, compute->precision, measured != NULL ? redco_compute_profile_how(measured) : NULL);
}

static bool clocked(const redco_operator *op)
{
    return op->kind == REDCO_OPERATOR_GEMM || op->kind == REDCO_OPERATOR_ATTENTION || op->kind == REDCO_OPERATOR_SCORES;
}

static double pass_flops(const redco_operator *op, redco_pass pass)
{
    if (!clocked(op)) { return 0.0; }
    if (op->kind == REDCO_OPERATOR_GEMM) { return 2.0 * (double)op->m * (double)op->n * (double)op->k; }
    return pass == REDCO_PASS_FORWARD ? op->flops : pass == REDCO_PASS_GRAD_INPUT ? 2.5 * op->flops : 0.0;
}

double redco_compute_clock_ratio(const redco_compute *compute, const redco_model *model, const redco_shape *shape)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    redco_load load = {.flops = 0.0};
    if (!(compute->power.burst_clock_ratio > 0.0)) { return 1.0; }
    for (size_t c = 0; c < count; c++) {
        redco_operator ops[REDCO_OPERATORS_MAX];
        const uint32_t op_count = redco_layer_operators(model, (uint32_t)c, shape, ops);
        for (uint32_t i = 0; i < op_count; i++) {
            double *const sum_s = ops[i].kind == REDCO_OPERATOR_GEMM ? &load.product_s
                                  : clocked(&ops[i])                 ? &load.core_s
                                                                     : &load.memory_s;
            for (int pass = REDCO_PASS_FORWARD; pass <= REDCO_PASS_GRAD_WEIGHT; pass++) {
                *sum_s += classes[c].layers * redco_operator_s(compute, &ops[i], (redco_pass)pass);
                load.flops += classes[c].layers * pass_flops(&ops[i], (redco_pass)pass);
            }
        }
    }
    return redco_power_clock_ratio(&compute->power, &load);
}

double redco_operator_at_s(const redco_compute *compute, const redco_operator *op, redco_pass pass, double clock_ratio)
{
    const double seconds = redco_operator_s(compute, op, pass), burst_ratio = compute->power.burst_clock_ratio;
    if (!(burst_ratio > 0.0) || !clocked(op)) { return seconds; }
    return seconds * (op->kind == REDCO_OPERATOR_GEMM ? burst_ratio : 1.0) / clock_ratio;
}

double redco_operator_j(const redco_compute *compute, const redco_operator *op, redco_pass pass, double clock_ratio)
{
    if (clocked(op)) { return clock_ratio * compute->power.product_j_per_flop * pass_flops(op, pass); }
    return compute->power.memory_w * redco_operator_s(compute, op, pass);
}

double redco_pass_s(double gpu_s, double host_s)
{
    if (!(host_s > 0.0)) { return gpu_s; }
    return pow(pow(gpu_s, 6.0) + pow(host_s, 6.0), 1.0 / 6.0);
}
