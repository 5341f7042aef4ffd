#include "costmodel/operators/compute.h"

#include "costmodel/operators/compute_profile.h"

#include <math.h>

/* Constants of the model that no calibration holds: since which version of calibrations the sets are fitted with them,
 * and their source (CALIBRATION.md, "Constants in C"; tests/constants.sh). */
/* Share of memory bandwidth that the operands of a GEMM reach. Since 1; source: public
 * measurements (CALIBRATION.md). */
static const double gemm_memory_ratio = 0.85;
/* Share of a GEMM's efficiency that the batched products of unfused attention reach, and how much slower they are with
 * a head size that is no multiple of 8. Since 2; source: public measurements (CALIBRATION.md). */
static const double scores_gemm_ratio = 0.55;
static const double unaligned_head_factor = 7.5;
/* Bytes moved per score: with one kernel for mask and softmax, and with one for each operation. Since 2; source: public
 * measurements (CALIBRATION.md). */
static const double fused_score_bytes = 11.0, plain_score_bytes = 26.0;
/* Backward of unfused attention over its forward: twice the products, 1.6 times the bytes. Since 2; source: public
 * measurements (CALIBRATION.md). */
static const double scores_backward_flops = 2.0, scores_backward_bytes = 1.6;
/* Bytes per element of a norm: fused, and what several kernels add per unit of rho. Since 2; source: public
 * measurements (CALIBRATION.md). */
static const double norm_bytes = 10.0, plain_norm_bytes = 18.0;
/* Rows of the fullest rank over the mean where routing is left to itself. Since 2; source: Megatron's model zoo,
 * natural against forced routing of Qwen3-235B on 256 H100, which lost 20 % of its speed at a sequence of 16k. */
static const double natural_imbalance = 1.3;
/* The part of a move of rows that HybridEP's kernels do not do on the way. Since 2; source: Megatron Core,
 * transformer/moe/token_dispatcher.py: one of two moves is fused. */
static const double fused_moves = 0.5;
/* Bytes of a cast for each of another kernel's, where the fuser reads what it has just made. Since 2; source: counted:
 * two bytes read and two written without it, two written with it. */
static const double fused_cast_bytes = 0.5;
/* Biases of experts: a copy in 32 bits, the sum, a copy back; and the activation behind, which no kernel fuses then.
 * Since 2; source: Megatron Core, transformer/moe/experts.py, _apply_bias. */
static const double bias_element_bytes = 20.0, unfused_activation_factor = 3.0;

/* Bytes for each element of an adapter's result, forward, where backward has twice as many: scaled and added to that of
 * the frozen matrix, 10, and as many for its gradient and that of the input, 20 in all. Since 2; source: counted of
 * src/peft/tuners/lora/layer.py@5d602fdb:1063. Of an element of a frozen matrix of 4 bits: half a byte read and two
 * written in both passes. Since 2; source: counted of bitsandbytes/autograd/_functions.py@95f9af30:384. */
static const double adapter_sum_bytes = 20.0 / 3.0, dequantise_bytes = 5.0 / 3.0;

/* Heads of gpt-oss and narrower ones: the rows of mixtures know 64 and 128. */
enum { NARROW_HEAD = 64 };

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

uint32_t redco_rank_kv_heads(const redco_model_dims *dims, uint32_t tp)
{
    return tp >= dims->kv_heads ? 1 : (uint32_t)ceil_div(dims->kv_heads, tp);
}

uint32_t redco_shape_routers(const redco_shape *shape)
{
    return shape->etp > 0 && shape->etp < shape->tp ? shape->tp / shape->etp : 1;
}

double redco_shape_load(const redco_shape *shape)
{
    const redco_engine *const engine = &shape->engine;
    if (engine->capacity_percent > 0) { return engine->capacity_percent / 100.0; }
    return engine->imbalance_percent > 0 ? engine->imbalance_percent / 100.0 : natural_imbalance;
}

/* Times that rows are moved on a rank, on their way to experts or back: NCCL sends them sorted by rank, and they are
 * sorted again by expert where a rank has several; others send them from where they lie, and HybridEP delivers them
 * sorted (Megatron Core, transformer/moe/token_dispatcher.py). */
static double moves_of(const redco_rank_layer *rank)
{
    if (rank->shape->ep <= 1) { return 1.0; }
    switch (rank->shape->engine.dispatcher) {
    case REDCO_DISPATCHER_ALL_TO_ALL: return rank->sizes[REDCO_AXIS_EXPERTS] > 1 ? 2.0 : 1.0;
    case REDCO_DISPATCHER_DEEPEP:
    case REDCO_DISPATCHER_NCCLEP: return 1.0;
    case REDCO_DISPATCHER_HYBRIDEP: return fused_moves;
    }
    return 1.0;
}

void redco_rank_axis_sizes(const redco_model *model, const redco_shape *shape, uint64_t sizes_out[REDCO_AXIS_COUNT])
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    redco_model_axis_sizes(model, shape->micro_batch, ceil_div(shape->seq_len, shape->cp), sizes_out);
    uint64_t *const heads = &sizes_out[REDCO_AXIS_HEADS], *const kv = &sizes_out[REDCO_AXIS_KV_HEADS];
    *heads = ceil_div(*heads, shape->tp);
    *kv = redco_rank_kv_heads(dims, shape->tp);
    sizes_out[REDCO_AXIS_QKV_HEADS] = *heads + 2 * *kv;
    sizes_out[REDCO_AXIS_FFN] = ceil_div(dims->ffn, shape->tp);
    sizes_out[REDCO_AXIS_EXPERT_FFN] = ceil_div(dims->expert_ffn, shape->etp > 0 ? shape->etp : shape->tp);
    sizes_out[REDCO_AXIS_EXPERTS] = ceil_div(dims->experts, shape->ep > 1 ? shape->ep : 1);
    sizes_out[REDCO_AXIS_SHARED_FFN] = ceil_div(dims->shared_ffn, shape->tp);
    sizes_out[REDCO_AXIS_VOCAB] = ceil_div(dims->vocab, shape->tp);
}

static bool in_block(const redco_rank_layer *rank)
{
    return redco_class_is_block(rank->kind);
}

/* Its parts together. */
static uint64_t sum_parts(const redco_rank_layer *rank, const redco_layer_group *group)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < group->part_count; i++) { sum += redco_extent_count(&group->parts[i], rank->sizes); }
    return sum;
}

static bool is_of_experts(const redco_layer_group *group)
{
    return group->experts.power[REDCO_AXIS_EXPERTS] > 0;
}

/* Tensor parallelism cuts neither of a matrix: ranks that share a sequence multiply their own part of it. */
static bool is_whole(const redco_layer_group *group)
{
    bool whole = redco_extent_split(&group->inner) == REDCO_AXIS_COUNT && !is_of_experts(group);
    for (uint32_t i = 0; i < group->part_count; i++) {
        whole = whole && redco_extent_split(&group->parts[i]) == REDCO_AXIS_COUNT;
    }
    return whole;
}

/* Graphs of whole steps need kernels that take the number of rows from the device: those of Transformer Engine's fuser,
 * which also add biases, activate and cast on the way. */
static bool is_fused(const redco_rank_layer *rank)
{
    return rank->shape->engine.graphs == REDCO_GRAPHS_ALL;
}

static bool has_expert_biases(const redco_rank_layer *rank)
{
    for (uint32_t i = 0; i < rank->work->group_count; i++) {
        if (is_of_experts(&rank->work->groups[i]) && rank->work->groups[i].biased) { return true; }
    }
    return false;
}

static void price_product(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    const bool narrow = in_block(rank) && group->role != REDCO_OP_ROLE_ROUTER && group->role != REDCO_OP_ROLE_ADAPTER &&
                        !redco_op_role_makes_logits(group->role);
    op->frozen = group->frozen;
    op->kind = REDCO_OPERATOR_GEMM;
    op->m = redco_extent_count(&group->rows, rank->sizes);
    op->n = sum_parts(rank, group);
    op->k = redco_extent_count(&group->inner, rank->sizes);
    op->experts = redco_extent_count(&group->experts, rank->sizes);
    op->low_precision = narrow;
    op->adds = in_block(rank) && redco_extent_split(&group->inner) != REDCO_AXIS_COUNT;
    if (rank->shape->sequence_parallel && is_whole(group)) { op->m = ceil_div(op->m, rank->shape->tp); }
    if (is_of_experts(group)) {
        const double rows = redco_shape_load(rank->shape) * (double)op->m / redco_shape_routers(rank->shape);
        op->grouped = true;
        op->m = (uint64_t)ceil(rows);
        if (group->biased && !is_fused(rank)) { op->bias_bytes = bias_element_bytes * (double)op->m * (double)op->n; }
    }
    const double m = (double)op->m, n = (double)op->n, k = (double)op->k;
    op->flops = 2.0 * m * n * k;
    op->bytes = rank->element_bytes * (m * k + (double)op->experts * k * n + m * n);
    /* An engine of planned memory multiplies by each weight, of which some ranks have a part of a head. */
    const bool each = rank->shape->engine.planned_memory && rank->kind == REDCO_CLASS_BLOCK;
    if (!each || group->part_count < 2 || rank->shape->tp > rank->dims->kv_heads) { return; }
    op->part_count = group->part_count;
    for (uint32_t i = 0; i < group->part_count; i++) {
        op->parts[i] = redco_extent_count(&group->parts[i], rank->sizes);
    }
}

/* The part of attention's square that the slowest rank computes of causal attention: half, or where its tokens are one
 * piece, the last of cp ranks sees 1 - 1/(2 cp) of all keys, 2 - 1/cp times as many. By all-to-all every rank has the
 * whole sequence, of some heads. With a window of w keys the first w queries see half of it, the others all of it:
 * (w s - w^2 / 2) / s^2, and ranks differ by little. */
static double causal_ratio(const redco_shape *shape, uint64_t window)
{
    const double seen = (double)window / shape->seq_len;
    if (window > 0 && window < shape->seq_len) { return seen - seen * seen / 2.0; }
    const bool even = !shape->engine.contiguous_context || shape->cp_type == REDCO_CP_ALL_TO_ALL;
    return (even || shape->cp <= 1 ? 1.0 : 2.0 - 1.0 / shape->cp) / 2.0;
}

/* Queries see the keys of the whole sequence, whichever part of it this rank has. */
static void price_attention(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    const redco_attention kernel = rank->shape->engine.attention;
    const double queries = (double)redco_extent_count(&group->parts[0], rank->sizes);
    const double made = (double)redco_extent_count(&group->parts[3], rank->sizes);
    const double square_flops = 2.0 * (queries + made) * (double)rank->shape->seq_len; /* scores, product with V */
    op->flops = square_flops;
    if (kernel == REDCO_ATTENTION_FUSED || kernel == REDCO_ATTENTION_UNFUSED) { /* the full square, causal or not */
        op->kind = REDCO_OPERATOR_SCORES;
        op->unaligned_head = rank->dims->head_dim % 8 != 0;
        op->bytes = queries * (double)rank->shape->seq_len / (double)rank->dims->head_dim * rank->memory_unit *
                    (kernel == REDCO_ATTENTION_FUSED ? fused_score_bytes : plain_score_bytes);
        return;
    }
    op->kind = REDCO_OPERATOR_ATTENTION;
    op->causal = group->causal;
    if (group->causal) { op->flops *= causal_ratio(rank->shape, rank->window); }
    op->bytes = (double)sum_parts(rank, group) * rank->element_bytes;
    op->keys = rank->shape->seq_len;
    op->head_dim = rank->dims->head_dim;
}

static void price_bytes(const redco_rank_layer *rank, redco_operator_kind kind, const char *measured_as,
                        double element_bytes, redco_operator *op)
{
    op->kind = kind;
    op->measured_as = measured_as;
    op->bytes = element_bytes * op->elements * rank->memory_unit;
}

bool redco_norms_plain(const redco_model_dims *dims, const redco_engine *engine)
{
    return engine->plain_norm && !(redco_engine_is_eager(engine) && dims->norm != REDCO_NORM_RMS);
}

static void price_norm(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    /* Sequence parallelism splits what tensor parallelism does not. */
    const bool split = rank->shape->sequence_parallel && redco_extent_split(&group->parts[0]) == REDCO_AXIS_COUNT;
    if (split) { op->elements /= (double)rank->shape->tp; }
    op->columns = (uint32_t)redco_extent_count(&group->columns, rank->sizes);
    price_bytes(rank, redco_norms_plain(rank->dims, &rank->shape->engine) ? REDCO_OPERATOR_NORM : REDCO_OPERATOR_MEMORY,
                rank->dims->norm == REDCO_NORM_RMS ? "rms_norm" : "layer_norm", norm_bytes, op);
}

/* Activations, and what splits or turns heads: as profiles call them. */
static void price_memory(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    static const char *const activations[] = {[REDCO_ACTIVATION_GELU] = "activation",
                                              [REDCO_ACTIVATION_RELU] = "relu",
                                              [REDCO_ACTIVATION_GATED] = "gated_activation"};
    const bool active = redco_op_role_is_activation(group->role);
    if (group->role == REDCO_OP_ROLE_EXPERT_ACTIVATION) {
        op->elements *= redco_shape_load(rank->shape) / redco_shape_routers(rank->shape);
        op->routed = true;
    }
    if (group->role == REDCO_OP_ROLE_ADAPTER || group->role == REDCO_OP_ROLE_DEQUANTISE) {
        const bool sum = group->role == REDCO_OP_ROLE_ADAPTER;
        price_bytes(rank, REDCO_OPERATOR_MEMORY, NULL, sum ? adapter_sum_bytes : dequantise_bytes, op);
        return;
    }
    price_bytes(rank, REDCO_OPERATOR_MEMORY,
                active ? activations[rank->dims->activation] : redco_op_role_name(group->role),
                active && rank->dims->gated ? 8.0 : 4.0, op);
    if (op->routed && has_expert_biases(rank) && !is_fused(rank)) { op->bytes *= unfused_activation_factor; }
}

/* 2 bytes read and 2 written of each. */
static void price_rows(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    op->elements *= redco_shape_load(rank->shape) * moves_of(rank) / redco_shape_routers(rank->shape);
    op->routed = true;
    price_bytes(rank, REDCO_OPERATOR_MEMORY, redco_op_role_name(group->role), 2.0, op);
}

/* 24 bytes per logit in all, a third of them forward; the loss computes in 32 bit whatever the precision. */
static void price_loss(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    redco_rank_layer gathered = *rank;
    gathered.sizes[REDCO_AXIS_VOCAB] = rank->dims->vocab;
    op->kind = REDCO_OPERATOR_LOSS;
    op->elements = (double)sum_parts(rank->shape->engine.logits_gathered ? &gathered : rank, group);
    op->bytes = 8.0 * op->elements;
    op->measured_as = "loss";
}

static void price_table(const redco_rank_layer *rank, const redco_layer_group *group, redco_operator *op)
{
    /* 20 bytes per element in all, a third of them forward */
    price_bytes(rank, REDCO_OPERATOR_EMBEDDING, "embedding", 20.0 / 3.0, op);
    op->table_elements = (double)redco_extent_count(&group->columns, rank->sizes);
    op->table_shared = rank->dims->tied;
}

static redco_operator operator_of(const redco_rank_layer *rank, const redco_layer_group *group)
{
    redco_operator op = {.role = group->role, .group = group};
    const bool counted = group->kind != REDCO_GROUP_PRODUCT && group->kind != REDCO_GROUP_ATTENTION;
    if (counted) { op.elements = (double)sum_parts(rank, group); }
    switch (group->kind) {
    case REDCO_GROUP_MEMORY: price_memory(rank, group, &op); break;
    case REDCO_GROUP_PRODUCT: price_product(rank, group, &op); break;
    case REDCO_GROUP_ROWS: price_rows(rank, group, &op); break;
    case REDCO_GROUP_ATTENTION: price_attention(rank, group, &op); break;
    case REDCO_GROUP_NORM: price_norm(rank, group, &op); break;
    case REDCO_GROUP_LOSS: price_loss(rank, group, &op); break;
    case REDCO_GROUP_TABLE: price_table(rank, group, &op); break;
    }
    return op;
}

/* The width of what goes through a block's FFN, or its experts and shared experts. */
static double inner_width(const redco_rank_layer *rank)
{
    const uint64_t *const sizes = rank->sizes;
    for (uint32_t i = 0; i < rank->work->group_count; i++) {
        if (rank->work->groups[i].role != REDCO_OP_ROLE_EXPERT_IN) { continue; }
        const double each = (double)(sizes[REDCO_AXIS_CHOICES] * sizes[REDCO_AXIS_EXPERT_FFN]);
        return each * redco_shape_load(rank->shape) / redco_shape_routers(rank->shape) +
               (double)sizes[REDCO_AXIS_SHARED_FFN];
    }
    return (double)sizes[REDCO_AXIS_FFN];
}

/* An engine's own: inputs and gradients of the products. */
static redco_operator casts_of(const redco_rank_layer *rank)
{
    const double tokens = (double)(rank->sizes[REDCO_AXIS_BATCH] * rank->sizes[REDCO_AXIS_SEQUENCE]);
    const double each = 6.0 * (double)rank->dims->hidden / (double)rank->shape->tp + 3.0 * inner_width(rank);
    redco_operator op = {.role = REDCO_OP_ROLE_CASTS, .elements = tokens * each, .routed = rank->dims->experts > 0};
    price_bytes(rank, REDCO_OPERATOR_CAST, NULL, op.routed && is_fused(rank) ? fused_cast_bytes : 1.0, &op);
    return op;
}

static redco_operator listed_of(const redco_rank_layer *rank, const redco_work_op *listed)
{
    return (redco_operator){.role = REDCO_OP_ROLE_GRAPH,
                            .kind = REDCO_OPERATOR_LISTED,
                            .listed = listed,
                            .examples = rank->shape->micro_batch,
                            .ranks = rank->listed->tp,
                            .flops = redco_work_op_flops(listed, rank->shape->micro_batch)};
}

redco_rank_layer redco_rank_layer_of(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_layer_class *classes = NULL;
    const double element_bytes = shape->precision == REDCO_FP32 ? 4.0 : 2.0;
    (void)redco_model_classes(model, &classes);
    redco_rank_layer layer = {.dims = redco_model_get_dims(model),
                              .shape = shape,
                              .work = redco_model_work(model, class_index),
                              .kind = classes[class_index].kind,
                              .window = classes[class_index].window,
                              .element_bytes = element_bytes,
                              .memory_unit = element_bytes / 2.0};
    const uint32_t groups = layer.work->group_count;
    layer.listed = redco_graph_work_near(layer.work->listed, shape->tp);
    redco_rank_axis_sizes(model, shape, layer.sizes);
    const bool casts = groups > 0 && in_block(&layer) && shape->engine.gemm_format != REDCO_GEMM_SAME;
    layer.op_count = layer.listed->op_count + groups + (casts ? 1 : 0);
    return layer;
}

redco_operator redco_rank_operator(const redco_rank_layer *layer, uint32_t index)
{
    const uint32_t groups = layer->work->group_count, behind = index - groups;
    if (index < groups) { return operator_of(layer, &layer->work->groups[index]); }
    return behind < layer->listed->op_count ? listed_of(layer, &layer->listed->ops[behind]) : casts_of(layer);
}

uint32_t redco_model_operators_most(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    uint32_t most = REDCO_OPERATORS_MAX;
    for (uint32_t c = 0; c < count; c++) {
        const redco_graph_work *const listed = redco_model_work(model, c)->listed;
        for (uint32_t d = 0; d < listed->degree_count; d++) {
            if (listed->degrees[d].op_count > most) { most = listed->degrees[d].op_count; }
        }
    }
    return most;
}

uint32_t redco_layer_operators(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                               redco_operator operators_out[REDCO_OPERATORS_MAX])
{
    const redco_rank_layer layer = redco_rank_layer_of(model, class_index, shape);
    const uint32_t count = layer.op_count < REDCO_OPERATORS_MAX ? layer.op_count : REDCO_OPERATORS_MAX;
    for (uint32_t i = 0; i < count; i++) { operators_out[i] = redco_rank_operator(&layer, i); }
    return count;
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
    compute.low_precision_flops_per_s = compute.peak_flops_per_s;
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
    compute->low_precision_flops_per_s = compute->peak_flops_per_s;
    if (engine->gemm_format == REDCO_GEMM_SAME) { return REDCO_OK; }
    if (!(gpu->fp8_flops_per_s > 0.0)) { return redco_fail(err, REDCO_EVALUE, gpu->name, "has no 8-bit matrix units"); }
    compute->low_precision_flops_per_s = gpu->fp8_flops_per_s * c->fp8_efficiency;
    if (engine->gemm_format == REDCO_GEMM_NVFP4) {
        if (!(gpu->fp4_flops_per_s > 0.0)) {
            return redco_fail(err, REDCO_EVALUE, gpu->name, "has no 4-bit matrix units");
        }
        compute->low_precision_flops_per_s = gpu->fp4_flops_per_s * c->fp8_efficiency * c->fp4_efficiency;
    }
    return REDCO_OK;
}

/* A product's rates: those of experts have constants of their own. */
struct rates {
    double flops_per_s, k0;
};

static struct rates rates_of(const redco_compute *compute, const redco_operator *op)
{
    const redco_calibration *const c = &compute->calibration;
    const redco_expert_constants *const experts = &c->experts;
    const double peak = op->low_precision ? compute->low_precision_flops_per_s : compute->peak_flops_per_s;
    if (!op->grouped || experts->name[0] == '\0') { return (struct rates){peak * c->gemm_efficiency, c->gemm_k0}; }
    const bool narrow = op->low_precision && compute->low_precision_flops_per_s != compute->peak_flops_per_s;
    const double ratio = experts->grouped_efficiency * (narrow ? experts->grouped_fp8_ratio : 1.0);
    return (struct rates){peak * c->gemm_efficiency * ratio, experts->grouped_k0};
}

/* As many products as there are experts: m, n and k of one, all alike. */
static double gemm_at_s(const redco_compute *compute, struct rates rates, double experts, double m, double n, double k)
{
    const redco_calibration *const c = &compute->calibration;
    const double flops_s = 2.0 * m * n * k * experts / rates.flops_per_s;
    const double bytes = (double)compute->element_bytes * experts * (m * k + k * n + m * n);
    const double memory_s = bytes / (gemm_memory_ratio * compute->memory_bandwidth_bytes_per_s);
    return fmax(flops_s * (1.0 + rates.k0 / k), memory_s) + c->kernel_s;
}

static double gemm_pass_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const struct rates rates = rates_of(compute, op);
    const double experts = op->experts > 1 ? (double)op->experts : 1.0;
    const double m = (double)op->m / experts, n = (double)op->n, k = (double)op->k;
    const double bias_s =
        compute->calibration.experts.bias_traffic_ratio * op->bias_bytes / compute->memory_bandwidth_bytes_per_s;
    switch (pass) {
    case REDCO_PASS_FORWARD: return gemm_at_s(compute, rates, experts, m, n, k) + bias_s;
    case REDCO_PASS_GRAD_INPUT: return gemm_at_s(compute, rates, experts, m, k, n) + bias_s;
    case REDCO_PASS_GRAD_WEIGHT: return gemm_at_s(compute, rates, experts, k, n, m);
    }
    return 0.0;
}

static double scores_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const redco_calibration *const c = &compute->calibration;
    const double flops_s = op->flops / (scores_gemm_ratio * compute->peak_flops_per_s * c->gemm_efficiency);
    const double bytes_s = c->scores_traffic_factor * op->bytes / compute->memory_bandwidth_bytes_per_s;
    const double factor = op->unaligned_head ? unaligned_head_factor : 1.0;
    switch (pass) {
    case REDCO_PASS_FORWARD: return factor * (flops_s + bytes_s);
    case REDCO_PASS_GRAD_INPUT: return factor * (scores_backward_flops * flops_s + scores_backward_bytes * bytes_s);
    case REDCO_PASS_GRAD_WEIGHT: return 0.0;
    }
    return 0.0;
}

/* A listed product: by its sizes, and in the layout of the pass that has it so. */
static double listed_product_s(const redco_compute *compute, const redco_work_op *op, uint64_t examples)
{
    const uint64_t m = (uint64_t)redco_count_at(&op->m, examples), n = (uint64_t)redco_count_at(&op->n, examples),
                   k = (uint64_t)redco_count_at(&op->k, examples);
    const redco_pass pass = op->transpose_a   ? REDCO_PASS_GRAD_WEIGHT
                            : op->transpose_b ? REDCO_PASS_GRAD_INPUT
                                              : REDCO_PASS_FORWARD;
    double each_s = 0.0;
    if (m == 0 || n == 0 || k == 0) { return 0.0; }
    if (!redco_compute_profile_gemm_s(compute->measured, m, n, k, pass, compute->precision, &each_s)) {
        const redco_operator plain = {.kind = REDCO_OPERATOR_GEMM};
        each_s = gemm_at_s(compute, rates_of(compute, &plain), 1.0, (double)m, (double)n, (double)k);
    }
    return redco_count_at(&op->batch, examples) * each_s;
}

static double listed_attention_s(const redco_compute *compute, const redco_work_op *op, uint64_t examples)
{
    const double square_flops = 4.0 * redco_count_at(&op->batch, examples) * redco_count_at(&op->m, examples) *
                                redco_count_at(&op->n, examples) * redco_count_at(&op->k, examples);
    const redco_operator core = {.kind = REDCO_OPERATOR_ATTENTION,
                                 .flops = op->causal ? square_flops / 2.0 : square_flops,
                                 .keys = (uint32_t)redco_count_at(&op->n, examples),
                                 .head_dim = (uint32_t)redco_count_at(&op->k, examples),
                                 .causal = op->causal};
    return redco_operator_s(compute, &core, op->backward ? REDCO_PASS_GRAD_INPUT : REDCO_PASS_FORWARD);
}

/* One that a profile knows takes what was measured for so many examples; else products by their FLOPs, others by their
 * bytes. All of backward counts as that of inputs. */
static double listed_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const redco_work_op *const one = op->listed;
    const redco_operator known = {
        .kind = REDCO_OPERATOR_MEMORY, .measured_as = one->measured_as, .elements = (double)op->examples};
    double each_s = 0.0;
    if (pass != (one->backward ? REDCO_PASS_GRAD_INPUT : REDCO_PASS_FORWARD)) { return 0.0; }
    if (!redco_compute_profile_s(compute->measured, &known, REDCO_PASS_FORWARD, compute->precision, &each_s)) {
        switch (one->kind) {
        case REDCO_GRAPH_PRODUCT: each_s = listed_product_s(compute, one, op->examples); break;
        case REDCO_GRAPH_ATTENTION: each_s = listed_attention_s(compute, one, op->examples); break;
        case REDCO_GRAPH_COLLECTIVE: break;
        case REDCO_GRAPH_ELEMENTS: {
            const double bytes = redco_count_at(&one->moved, op->examples) * compute->element_bytes;
            each_s = compute->calibration.memory_traffic_factor * bytes / compute->memory_bandwidth_bytes_per_s +
                     compute->calibration.kernel_s;
            break;
        }
        }
    }
    return one->times * each_s;
}

double redco_operator_s(const redco_compute *compute, const redco_operator *op, redco_pass pass)
{
    const redco_calibration *const c = &compute->calibration;
    if (op->kind == REDCO_OPERATOR_LISTED) { return listed_s(compute, op, pass); }
    if (op->frozen && pass == REDCO_PASS_GRAD_WEIGHT) { return 0.0; }
    const double peak = compute->peak_flops_per_s;
    const double routed_ratio = op->routed && c->experts.name[0] != '\0' ? c->experts.rows_traffic_ratio : 1.0;
    double traffic = op->bytes, measured_s = 0.0;
    /* Products in the engine's own format were not measured. */
    const bool low_precision = op->low_precision && compute->low_precision_flops_per_s != peak;
    if (!low_precision && redco_compute_profile_s(compute->measured, op, pass, compute->precision, &measured_s)) {
        return measured_s;
    }
    switch (op->kind) {
    case REDCO_OPERATOR_GEMM: return gemm_pass_s(compute, op, pass);
    case REDCO_OPERATOR_ATTENTION: {
        /* Backward computes the scores again: five products where forward has two (Dao et al. 2022). */
        const bool narrow = op->head_dim <= NARROW_HEAD && c->experts.name[0] != '\0';
        const double ratio = narrow ? c->experts.narrow_head_ratio : 1.0;
        const double forward_s = op->flops / (peak * compute->attention_efficiency * ratio);
        const double backward_s = 2.5 * forward_s / c->attention_backward_ratio;
        return pass == REDCO_PASS_FORWARD ? forward_s : pass == REDCO_PASS_GRAD_INPUT ? backward_s : 0.0;
    }
    case REDCO_OPERATOR_SCORES: return scores_s(compute, op, pass);
    case REDCO_OPERATOR_NORM:
        traffic *= c->memory_traffic_factor * (1.0 + c->norm_traffic_factor * plain_norm_bytes / norm_bytes);
        break;
    case REDCO_OPERATOR_MEMORY: traffic *= c->memory_traffic_factor * routed_ratio; break;
    case REDCO_OPERATOR_LOSS: traffic *= c->head_traffic_factor; break;
    case REDCO_OPERATOR_CAST: /* casts of dense models were fitted without a factor */
        if (op->routed) { traffic *= c->memory_traffic_factor * routed_ratio; }
        break;
    case REDCO_OPERATOR_LISTED:
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
    if (op->kind == REDCO_OPERATOR_GEMM) {
        const bool made = !op->frozen || pass != REDCO_PASS_GRAD_WEIGHT;
        return made ? 2.0 * (double)op->m * (double)op->n * (double)op->k : 0.0;
    }
    return pass == REDCO_PASS_FORWARD ? op->flops : pass == REDCO_PASS_GRAD_INPUT ? 2.5 * op->flops : 0.0;
}

double redco_compute_clock_ratio(const redco_compute *compute, const redco_model *model, const redco_shape *shape)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    redco_load load = {.flops = 0.0};
    if (!(compute->power.burst_clock_ratio > 0.0)) { return 1.0; }
    for (size_t c = 0; c < count; c++) {
        const redco_rank_layer layer = redco_rank_layer_of(model, (uint32_t)c, shape);
        for (uint32_t i = 0; i < layer.op_count; i++) {
            const redco_operator op = redco_rank_operator(&layer, i);
            double *const sum_s = op.kind == REDCO_OPERATOR_GEMM ? &load.product_s
                                  : clocked(&op)                 ? &load.core_s
                                                                 : &load.memory_s;
            for (int pass = REDCO_PASS_FORWARD; pass <= REDCO_PASS_GRAD_WEIGHT; pass++) {
                *sum_s += classes[c].layers * redco_operator_s(compute, &op, (redco_pass)pass);
                load.flops += classes[c].layers * pass_flops(&op, (redco_pass)pass);
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
    if (op->kind == REDCO_OPERATOR_LISTED) {
        const bool there = pass == (op->listed->backward ? REDCO_PASS_GRAD_INPUT : REDCO_PASS_FORWARD);
        return there ? clock_ratio * compute->power.product_j_per_flop * op->flops : 0.0;
    }
    if (clocked(op)) { return clock_ratio * compute->power.product_j_per_flop * pass_flops(op, pass); }
    return compute->power.memory_w * redco_operator_s(compute, op, pass);
}

double redco_pass_s(double gpu_s, double host_s)
{
    if (!(host_s > 0.0)) { return gpu_s; }
    return pow(pow(gpu_s, 6.0) + pow(host_s, 6.0), 1.0 / 6.0);
}
