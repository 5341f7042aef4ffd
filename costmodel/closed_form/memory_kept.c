#include "costmodel/closed_form/memory_kept.h"

#include "costmodel/closed_form/memory_model.h"

/* Sources: Transformer Engine 2.11, transformer_engine/pytorch; Megatron Core 0.14 (23e00ed) and, for its own kernels,
 * Korthikanti et al. 2022, equation 1; PyTorch 2.6, derivatives.yaml, with the LLaMA of torchtitan (9dec370); what
 * Inductor's partitioner recomputes is every elementwise operator, so that products' and attention's operands stay. */
#define TE_NORM "TE module/layernorm_linear.py; PyTorch rms_norm, layer_norm"
static const redco_kept_tensor tensors[] = {
    /* name, width, when, per norm, per attention, not kept under, te, local, eager, compiled, by op, remat, copies;
     * 8-bit; source
     */
    {"block input",
     REDCO_KEPT_HIDDEN,
     0,
     false,
     false,
     REDCO_RECOMPUTE_NONE,
     {0, 0, 0, 0, 2, 2, 0},
     0,
     "torch.utils.checkpoint: its input"},
    {"norm inputs",
     REDCO_KEPT_HIDDEN,
     REDCO_KEPT_IF_FUSED_NORM,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {2, 2, 2, 2, 0, 0, 2},
     2,
     TE_NORM},
    {"norm inputs, 32 bits",
     REDCO_KEPT_HIDDEN,
     REDCO_KEPT_IF_PLAIN_NORM,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {4, 4, 4, 2, 0, 0, 4},
     4,
     "a norm of several operators: pow and mul keep the converted input"},
    {"normed before weights",
     REDCO_KEPT_HIDDEN,
     REDCO_KEPT_IF_PLAIN_NORM,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {2, 2, 2, 0, 0, 0, 4},
     2,
     "the same: mul by the weight keeps its other factor"},
    {"norm statistics",
     REDCO_KEPT_ONE,
     0,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {4, 4, 4, 4, 0, 0, 4},
     4,
     TE_NORM ": rsigma"},
    {"norm means",
     REDCO_KEPT_ONE,
     REDCO_KEPT_IF_LAYER_NORM,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {4, 4, 4, 4, 0, 0, 4},
     4,
     TE_NORM ": mu"},
    {"norm outputs",
     REDCO_KEPT_HIDDEN,
     0,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {2, 2, 2, 0, 0, 0, 2},
     1,
     "operand of the products behind: TE ln_out, torch linear"},
    {"queries",
     REDCO_KEPT_QUERIES,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {2, 2, 2, 2, 2, 2, 2},
     2,
     "attention's backward"},
    {"keys and values",
     REDCO_KEPT_KEYS,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {4, 4, 0, 4, 0, 4, 4},
     4,
     "attention's backward"},
    {"keys and values, repeated",
     REDCO_KEPT_QUERIES,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {0, 0, 4, 0, 0, 0, 0},
     0,
     "torchtitan models/llama3/model.py: repeat_kv before attention"},
    {"values before attention",
     REDCO_KEPT_KEYS,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {0, 0, 0, 0, 2, 0, 0},
     0,
     "wv, the third product"},
    {"attention output",
     REDCO_KEPT_QUERIES,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {2, 2, 2, 2, 2, 0, 4},
     2,
     "attention's backward, and operand of the projection: one tensor"},
    {"attention output, 8 bits",
     REDCO_KEPT_QUERIES,
     0,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {0, 0, 0, 0, 0, 0, 0},
     1,
     "TE module/linear.py"},
    {"attention output, exchanged",
     REDCO_KEPT_QUERIES,
     REDCO_KEPT_IF_ALL_TO_ALL,
     false,
     true,
     REDCO_RECOMPUTE_NONE,
     {2, 0, 0, 0, 0, 0, 0},
     2,
     "TE context_parallel.py, all-to-all: the output before it is another tensor"},
    {"softmax statistics",
     REDCO_KEPT_HEADS,
     REDCO_KEPT_IF_FLASH,
     false,
     true,
     REDCO_RECOMPUTE_SELECTIVE,
     {4, 4, 4, 4, 4, 0, 4},
     4,
     "flash attention: log-sum-exp of a row, 32 bits"},
    {"gate and input of the FFN",
     REDCO_KEPT_FFN,
     REDCO_KEPT_IF_GATED,
     false,
     false,
     REDCO_RECOMPUTE_MLP,
     {4, 4, 4, 4, 2, 0, 4},
     4,
     "Megatron fusions/fused_bias_swiglu.py: input; torch silu and mul; by op: w1, the fifth product"},
    {"activated gate",
     REDCO_KEPT_FFN,
     REDCO_KEPT_IF_GATED,
     false,
     false,
     REDCO_RECOMPUTE_MLP,
     {0, 0, 2, 0, 0, 0, 2},
     0,
     "torch mul"},
    {"FFN input",
     REDCO_KEPT_FFN,
     REDCO_KEPT_IF_PLAIN_FFN,
     false,
     false,
     REDCO_RECOMPUTE_MLP,
     {2, 2, 2, 2, 2, 0, 2},
     2,
     "gelu's backward"},
    {"operand of the FFN's last product",
     REDCO_KEPT_FFN,
     0,
     false,
     false,
     REDCO_RECOMPUTE_MLP,
     {2, 2, 2, 0, 0, 0, 2},
     1,
     "TE module/linear.py; torch linear"},
    {"FFN output",
     REDCO_KEPT_HIDDEN,
     0,
     false,
     false,
     REDCO_RECOMPUTE_NONE,
     {0, 0, 0, 0, 2, 0, 0},
     0,
     "by op: w2, the seventh product"},
    {"dropout masks",
     REDCO_KEPT_HIDDEN,
     REDCO_KEPT_IF_DROPOUT,
     true,
     false,
     REDCO_RECOMPUTE_NONE,
     {1, 1, 1, 1, 0, 0, 1},
     1,
     "a byte an element, behind attention and FFN"},
};

static uint64_t times(uint64_t a, uint64_t b)
{
    return redco_share_up(a, b, 1);
}

size_t redco_kept_tensors(const redco_kept_tensor **tensors_out)
{
    *tensors_out = tensors;
    return sizeof tensors / sizeof tensors[0];
}

const char *redco_kept_column_name(redco_kept_column column)
{
    static const char *const names[] = {"te", "local", "eager", "compiled", "by-op", "remat", "copies"};
    return names[column];
}

redco_kept_column redco_kept_column_of(const redco_engine *engine)
{
    if (engine->memory == REDCO_MEMORY_MEGATRON) {
        return engine->software == REDCO_SOFTWARE_TE_XLA ? REDCO_KEPT_TE : REDCO_KEPT_LOCAL;
    }
    if (engine->memory == REDCO_MEMORY_XLA) { return REDCO_KEPT_COMPILED; }
    if (engine->memory == REDCO_MEMORY_COPIES) { return REDCO_KEPT_COPIES; }
    return engine->compiled ? REDCO_KEPT_COMPILED : REDCO_KEPT_EAGER;
}

/* The memory that a block keeps depends on the model, the engine and whether context parallelism exchanges heads. */
static unsigned conditions_of(const redco_model_dims *dims, const redco_engine *engine, bool exchanges_heads)
{
    unsigned holds = dims->gated ? REDCO_KEPT_IF_GATED : REDCO_KEPT_IF_PLAIN_FFN;
    holds |= engine->plain_norm ? REDCO_KEPT_IF_PLAIN_NORM : REDCO_KEPT_IF_FUSED_NORM;
    holds |= dims->norm == REDCO_NORM_LAYER ? REDCO_KEPT_IF_LAYER_NORM : 0;
    holds |= dims->dropout ? REDCO_KEPT_IF_DROPOUT : 0;
    holds |= redco_attention_keeps_scores(engine->attention) ? 0 : REDCO_KEPT_IF_FLASH;
    holds |= exchanges_heads ? REDCO_KEPT_IF_ALL_TO_ALL : 0;
    return holds;
}

static uint64_t bytes_of(const redco_kept_tensor *tensor, redco_kept_column column, const redco_engine *engine)
{
    return column == REDCO_KEPT_TE && engine->gemm_format != REDCO_GEMM_SAME ? tensor->narrow_bytes
                                                                             : tensor->bytes[column];
}

/* Elements a token on one rank, and over how many ranks the sequence of such a tensor is split besides. */
static uint64_t width_of(const redco_model_dims *dims, redco_kept_width width, uint32_t tp)
{
    switch (width) {
    case REDCO_KEPT_HIDDEN: return dims->hidden;
    case REDCO_KEPT_QUERIES: return redco_share_up(dims->heads, 1, tp) * dims->head_dim;
    case REDCO_KEPT_KEYS: return (uint64_t)redco_rank_kv_heads(dims, tp) * dims->head_dim;
    case REDCO_KEPT_FFN: return redco_share_up(dims->ffn, 1, tp);
    case REDCO_KEPT_HEADS: return redco_share_up(dims->heads, 1, tp);
    case REDCO_KEPT_ONE: return 1;
    }
    return 0;
}

static uint64_t count_of(const redco_model_dims *dims, const redco_kept_tensor *tensor, bool cross)
{
    const uint64_t norms = (cross ? 3U : dims->parallel_block ? 1U : 2U);
    const uint64_t attentions = cross ? 2 : 1;
    return tensor->per_norm ? norms : tensor->per_attention ? attentions : 1;
}

uint64_t redco_kept_token_bytes(const redco_model_dims *dims, const redco_kept_tensor *tensor, redco_kept_column column,
                                const redco_engine *engine)
{
    if ((tensor->when & ~conditions_of(dims, engine, false)) != 0) { return 0; }
    return bytes_of(tensor, column, engine) * count_of(dims, tensor, false) * width_of(dims, tensor->width, 1);
}

static uint64_t tokens_of(const redco_shape *shape)
{
    return times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
}

static uint64_t sequence_ranks(const redco_shape *shape)
{
    return shape->sequence_parallel ? shape->tp : 1;
}

/* Transformer Engine's first product of the FFN has the norm in it, so that recomputing the one recomputes the other.
 */
static bool fuses_norm(redco_kept_column column)
{
    return column == REDCO_KEPT_TE;
}

/* The bytes of an element that a policy keeps of all tensors of a row. */
static uint64_t kept_bytes_of(const redco_model_dims *dims, const redco_kept_tensor *tensor, redco_kept_column column,
                              const redco_engine *engine, bool cross, redco_recompute policy)
{
    const bool norm_output = tensor->per_norm && tensor->width == REDCO_KEPT_HIDDEN && tensor->when == 0;
    uint64_t count = count_of(dims, tensor, cross);
    if (policy == REDCO_RECOMPUTE_MLP && norm_output && fuses_norm(column) && count > 1) { count--; }
    return tensor->again != REDCO_RECOMPUTE_NONE && tensor->again == policy ? 0
                                                                            : bytes_of(tensor, column, engine) * count;
}

/* PyTorch's DTensor gathers a norm's output before the products that share it, and autograd keeps what they read;
 * Megatron keeps its own part and gathers again. */
static bool is_whole(const redco_kept_tensor *tensor, redco_kept_column column)
{
    const bool pytorch = column == REDCO_KEPT_EAGER || column == REDCO_KEPT_COMPILED || column == REDCO_KEPT_COPIES;
    return pytorch && tensor->per_norm && tensor->width == REDCO_KEPT_HIDDEN && tensor->when == 0;
}

uint64_t redco_kept_block_bytes(const redco_model_dims *dims, bool cross, const redco_shape *shape,
                                redco_kept_column column, redco_recompute policy)
{
    const unsigned holds = conditions_of(dims, &shape->engine, shape->cp > 1 && shape->cp_type == REDCO_CP_ALL_TO_ALL);
    const uint64_t tokens = tokens_of(shape);
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const redco_kept_tensor *const t = &tensors[i];
        if ((t->when & ~holds) != 0) { continue; }
        const bool split = t->width == REDCO_KEPT_HIDDEN || t->width == REDCO_KEPT_ONE;
        const uint64_t ranks = split && !is_whole(t, column) ? sequence_ranks(shape) : 1;
        const uint64_t each = kept_bytes_of(dims, t, column, &shape->engine, cross, policy);
        bytes += redco_share_up(times(tokens, each), width_of(dims, t->width, shape->tp), ranks);
    }
    return bytes;
}

/* Keys and values of the whole sequence while attention's backward reads them, and their gradients of as much until
 * these are scattered (Transformer Engine context_parallel.py, AttnFuncWithCPAndKVAllGather: k_ag, v_ag, dk, dv). */
static uint64_t gathered_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    if (shape->cp <= 1 || shape->cp_type != REDCO_CP_ALL_GATHER) { return 0; }
    const uint64_t width = (uint64_t)redco_rank_kv_heads(dims, shape->tp) * dims->head_dim;
    return times(times(times(shape->micro_batch, shape->seq_len), width), 4 * 2);
}

/* Backward of the FFN: while the gradient of the gate and its other factor is made, the gradient of their product lies
 * where the operand of the last matrix was; before, where sequence parallelism splits it, the gradient of the block's
 * output is gathered beside the product's. Or backward of attention, where it gathers keys. The gradient of the
 * residual sum is there all the time. */
uint64_t redco_kept_working_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    const uint64_t tokens = tokens_of(shape), ranks = sequence_ranks(shape);
    const uint64_t plane = times(times(tokens, dims->hidden), 2);
    const uint64_t inner = times(times(tokens, redco_share_up(dims->ffn, 1, shape->tp)), 2);
    const uint64_t elementwise = dims->gated ? 2 * inner : inner;
    const uint64_t product = inner + (ranks > 1 ? plane : 0);
    const uint64_t ffn = elementwise > product ? elementwise : product, keys = gathered_bytes(dims, shape);
    return redco_share_up(plane, 1, ranks) + (ffn > keys ? ffn : keys);
}

/* Megatron: the loss writes the gradient over the logits (Transformer Engine), or over a 32-bit copy that is converted
 * again; then the head's backward makes its input's gradient, and an empty gradient of its weights where products add
 * to the kept one. PyTorch: the loss in one kernel makes a
 * gradient of the logits' width; else in 32 bits the logarithm of softmax, its gradient and that of the logits. XLA:
 * the logits and their gradient in 32 bits. */
uint64_t redco_kept_loss_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t tokens = tokens_of(shape), ranks = sequence_ranks(shape);
    const uint64_t words = redco_share_up(dims->vocab, 1, shape->engine.logits_gathered ? 1 : shape->tp);
    const uint64_t logits = times(tokens, words), plane = times(times(tokens, dims->hidden), 2);
    if (shape->engine.memory == REDCO_MEMORY_XLA) { return times(logits, 8); }
    if (shape->engine.memory == REDCO_MEMORY_COPIES) { return times(logits, shape->engine.logits_gathered ? 20 : 12); }
    if (shape->engine.memory == REDCO_MEMORY_PYTORCH) { return times(logits, shape->engine.fused_loss ? 4 : 12); }
    const bool empty = redco_kept_column_of(&shape->engine) == REDCO_KEPT_TE;
    const uint64_t table = empty ? redco_share_up(times(dims->vocab, dims->hidden), 2, shape->tp) : 0;
    const uint64_t gathered = ranks > 1 ? plane + redco_share_up(plane, 1, ranks) : 0;
    const uint64_t head = times(logits, 2) + table + plane + gathered;
    const uint64_t loss = shape->engine.fused_loss ? times(logits, 2) : times(logits, 6) + (ranks > 1 ? plane : 0);
    return head > loss ? head : loss;
}
