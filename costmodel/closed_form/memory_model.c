#include "costmodel/closed_form/memory_model.h"

#include "costmodel/closed_form/memory_saved.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The part of the memory as sold that is left for a process. Since 1; source: an 80 GiB part shows about 79.2 GiB to
 * the framework. */
static const double visible_ratio = 0.99;

/* CUDA context and loaded kernels, before the first tensor of a model. Since 2; source: Hugging Face Transformers,
 * "Model training anatomy". */
const double redco_context_bytes = 1343.0 * 0x1p20;
/* Reserves of calibrations are those of GPUs of 80 GiB. Since 2; source: the runs that they were seen on
 * (CALIBRATION.md). */
static const double reserve_memory_bytes = 80.0 * 0x1p30;

/* Where every rank holds all logits: 16-bit and 32-bit copies before and after the gathering (MEMORY_FORMULAS.md). */
static const uint64_t gathered_logit_bytes = 20;

static uint64_t times(uint64_t a, uint64_t b)
{
    return redco_share_up(a, b, 1);
}

uint32_t redco_adam_bytes(redco_precision precision, const redco_engine *engine)
{
    if (engine->optimizer == REDCO_OPTIMIZER_ADAMW_8BIT) { return 1; }
    if (engine->optimizer != REDCO_OPTIMIZER_ADAMW) { return 0; }
    return engine->moment_bytes == 2 && precision != REDCO_FP32 ? 2 : 4;
}

redco_state_bytes redco_state_bytes_of(redco_precision precision, const redco_engine *engine, uint32_t moments)
{
    const bool whole = precision == REDCO_FP32 || engine->autocast;
    const bool one = engine->optimizer == REDCO_OPTIMIZER_LION || engine->optimizer == REDCO_OPTIMIZER_MOMENTUM;
    const uint32_t adam = redco_adam_bytes(precision, engine), weight = whole ? 4 : 2;
    const uint32_t master = whole || engine->no_masters ? 0 : 4;
    return (redco_state_bytes){.parameter = weight,
                               .gradient = engine->gradient_bytes > 0 ? engine->gradient_bytes : weight,
                               .optimizer = master + (one ? 4 : adam * moments),
                               .master = master};
}

static uint64_t tensor_params(const redco_param *tensor, uint32_t tp)
{
    uint64_t params = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) { params = times(params, tensor->shape[i]); }
    return redco_param_is_cut(tensor, tp) ? redco_share_up(params, 1, tp) : params;
}

/* Attentions of one member whose keys and values are replicated when there are fewer heads than ranks. */
static uint64_t replicated_kv_params(const redco_model *model, redco_class_kind kind, uint32_t tp)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    if (!redco_class_is_block(kind) || tp <= dims->kv_heads) { return 0; }
    const uint64_t attentions = kind == REDCO_CLASS_CROSS ? 2 : 1;
    const uint64_t one_head = (uint64_t)dims->hidden * dims->head_dim;
    const uint64_t held = redco_share_up(one_head, dims->kv_heads, tp);
    return attentions * 2 * (one_head - held);
}

uint64_t redco_rank_params(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp)
{
    const redco_layer_class *classes = NULL;
    const redco_param *tensors = NULL;
    (void)redco_model_classes(model, &classes);
    const size_t count = redco_model_tensors(model, &tensors);
    uint64_t params = part == REDCO_PART_DENSE ? replicated_kv_params(model, classes[class_index].kind, tp) : 0;
    for (size_t i = 0; i < count; i++) {
        const bool own = tensors[i].class_index == class_index && tensors[i].part == part;
        if (own) { params += tensor_params(&tensors[i], tp); }
    }
    return params;
}

uint64_t redco_rank_frozen_params(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp)
{
    const redco_layer_class *classes = NULL;
    const redco_param *tensors = NULL;
    (void)redco_model_classes(model, &classes);
    if (classes[class_index].frozen_params == 0) { return 0; }
    const bool adapted = redco_model_get_dims(model)->adapter_rank > 0 && part == REDCO_PART_DENSE;
    uint64_t params = adapted ? replicated_kv_params(model, classes[class_index].kind, tp) : 0;
    const size_t count = redco_model_tensors(model, &tensors);
    for (size_t i = 0; i < count; i++) {
        const bool own = tensors[i].class_index == class_index && tensors[i].part == part;
        if (own && tensors[i].frozen) { params += tensor_params(&tensors[i], tp); }
    }
    return params;
}

/* NF4 in blocks of 64 numbers, whose scales are bytes in blocks of 256 with a scale of 32 bits each
 * (bitsandbytes/functional.py@95f9af30:917,940; its default, compress_statistics, nn/modules.py:220). */
static uint64_t quantised_bytes(uint64_t params)
{
    return redco_share_up(params, 1, 2) + redco_share_up(params, 1, 64) + redco_share_up(params, 4, UINT64_C(64) * 256);
}

uint64_t redco_rank_frozen_bytes(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp,
                                 redco_precision precision)
{
    const redco_layer_class *classes = NULL;
    const redco_param *tensors = NULL;
    const uint64_t width = precision == REDCO_FP32 ? 4 : 2;
    uint64_t bytes = times(redco_rank_frozen_params(model, class_index, part, tp), width);
    (void)redco_model_classes(model, &classes);
    const bool block = redco_class_is_block(classes[class_index].kind);
    if (!redco_model_get_dims(model)->quantised || !block) { return bytes; }
    const size_t count = redco_model_tensors(model, &tensors);
    for (size_t i = 0; i < count; i++) {
        const bool own = tensors[i].class_index == class_index && tensors[i].part == part;
        const bool matrix = tensors[i].role == REDCO_PARAM_LINEAR || tensors[i].role == REDCO_PARAM_CONV1D;
        if (!own || !tensors[i].frozen || !matrix) { continue; }
        const uint64_t params = tensor_params(&tensors[i], tp);
        bytes -= times(params, width) - quantised_bytes(params);
    }
    return bytes;
}

struct tensor_size {
    uint64_t params;
    uint32_t count;
};

static int larger_first(const void *a, const void *b)
{
    const struct tensor_size *const x = a, *const y = b;
    return x->params < y->params ? 1 : x->params > y->params ? -1 : 0;
}

/* Restores a binary heap whose root grew: the emptiest owner stays at index 0. */
static void sift_down(uint64_t *load, size_t count)
{
    size_t at = 0;
    for (;;) {
        const size_t left = 2 * at + 1;
        size_t least = at;
        if (left < count && load[left] < load[least]) { least = left; }
        if (left + 1 < count && load[left + 1] < load[least]) { least = left + 1; }
        if (least == at) { return; }
        const uint64_t kept = load[at];
        load[at] = load[least];
        load[least] = kept;
        at = least;
    }
}

static int emptier_first(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;
    return (*left > *right) - (*left < *right);
}

/* Tensors of that size which go to owners that hold at most `level`, each to the emptiest at its time. */
static uint64_t dealt_up_to(uint64_t level, uint64_t params, const uint64_t *load, size_t owners)
{
    uint64_t count = 0;
    for (size_t i = 0; i < owners; i++) { count += load[i] <= level ? (level - load[i]) / params + 1 : 0; }
    return count;
}

/* Many tensors of one size: an owner that holds l gets them at l, l + params, l + 2 params, ...; the emptiest at each
 * time means those with the lowest such levels first. Up to the highest level that uses no more than `count`, in one
 * step. @return how many are left for the heap, fewer than owners */
static uint32_t deal_evenly(uint64_t params, uint32_t count, uint64_t *load, size_t owners)
{
    uint64_t low = load[0];
    uint64_t high = load[0] + params * count;
    while (low < high) { /* the lowest level that takes more than there are */
        const uint64_t middle = low + (high - low) / 2;
        if (dealt_up_to(middle, params, load, owners) > count) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == load[0]) { return count; }
    const uint64_t level = low - 1;
    count -= (uint32_t)dealt_up_to(level, params, load, owners);
    for (size_t i = 0; i < owners; i++) {
        if (load[i] <= level) { load[i] += ((level - load[i]) / params + 1) * params; }
    }
    qsort(load, owners, sizeof *load, emptier_first); /* a heap */
    return count;
}

static uint64_t deal(const struct tensor_size *sizes, size_t kinds, uint64_t *load, size_t owners)
{
    uint64_t fullest = 0;
    for (size_t i = 0; i < kinds; i++) {
        uint32_t left = sizes[i].count;
        if (left > 8 * owners && sizes[i].params > 0) {
            left = deal_evenly(sizes[i].params, left, load, owners);
            if (load[owners - 1] > fullest) { fullest = load[owners - 1]; }
        }
        for (uint32_t j = 0; j < left; j++) {
            load[0] += sizes[i].params;
            if (load[0] > fullest) { fullest = load[0]; }
            sift_down(load, owners);
        }
    }
    return fullest;
}

uint64_t redco_fullest_owner_params(const redco_model *model, redco_param_part part, uint32_t tp, uint64_t owners,
                                    bool assigned)
{
    const redco_param *tensors = NULL;
    const size_t kinds = redco_model_tensors(model, &tensors);
    uint64_t total = 0, count = 0, largest = 0, fullest = 0;
    struct tensor_size *const sizes = calloc(kinds > 0 ? kinds : 1, sizeof *sizes);
    if (sizes == NULL) { return redco_share_most; }
    for (size_t i = 0; i < kinds; i++) {
        /* a parameter of size 0 changes no owner's load */
        if (tensors[i].frozen || tensors[i].assigned != assigned || tensors[i].part != part) { continue; }
        sizes[i] = (struct tensor_size){tensor_params(&tensors[i], tp), tensors[i].count};
        total += times(sizes[i].params, sizes[i].count);
        count += sizes[i].count;
        if (sizes[i].params > largest) { largest = sizes[i].params; }
    }
    if (owners <= 1) {
        fullest = total;
    } else if (owners >= count) {
        fullest = largest;
    } else {
        uint64_t *const load = calloc((size_t)owners, sizeof *load);
        qsort(sizes, kinds, sizeof *sizes, larger_first);
        /* Out of memory: the bound of list scheduling (Graham 1969) stands in for the exact deal. */
        fullest = load != NULL ? deal(sizes, kinds, load, (size_t)owners) : total / owners + largest;
        free(load);
    }
    free(sizes);
    return fullest;
}

static uint64_t tokens_of(const redco_shape *shape)
{
    return times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
}

/* Activations are in the compute precision; the constants count 2-byte elements. */
static uint64_t at_precision(uint64_t bytes, redco_precision precision)
{
    return precision == REDCO_FP32 ? times(bytes, 2) : bytes;
}

/* A layer that is no block is never recomputed. */
static redco_layer_bytes always(uint64_t bytes)
{
    redco_layer_bytes all = {.kept = {0}};
    for (int i = 0; i < REDCO_RECOMPUTE_SETS; i++) { all.kept[i] = bytes; }
    return all;
}

static redco_layer_bytes edge_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape, bool head)
{
    const redco_engine *const engine = &shape->engine;
    const uint64_t sigma = shape->sequence_parallel ? shape->tp : 1;
    const uint64_t width = redco_model_get_dims(model)->hidden;
    const uint64_t plane = redco_share_up(times(tokens_of(shape), width), 2, sigma); /* one T x h tensor */
    static const redco_recompute_list none = {.count = 0};
    if (engine->planned_memory) {
        return always(head ? redco_saved_of(model, class_index, shape, REDCO_SAVER_PLANNED, &none).kept
                           : redco_embedding_bytes(model, class_index, shape));
    }
    /* In and out of the final norm, of one of several kernels its copy in 32 bits and what it made of that; logits are
     * counted apart. The embedding's output, which tables of tensors count with the block behind. */
    const bool plain = redco_engine_is_eager(engine) && redco_norms_plain(redco_model_get_dims(model), engine);
    const uint64_t norm = plain ? (engine->autocast ? 5 : 4) : 2;
    const uint64_t planes = head ? norm : engine->memory == REDCO_MEMORY_FORMULAS ? 1 : 0;
    return always(at_precision(times(plane, planes), shape->precision));
}

uint64_t redco_listed_pass_bytes(const redco_degree_work *degree, const redco_shape *shape, bool backward)
{
    const redco_computed computed = shape->precision == REDCO_FP32 ? REDCO_COMPUTED_32
                                    : shape->engine.widens         ? REDCO_COMPUTED_16_WIDENED
                                                                   : REDCO_COMPUTED_16;
    const uint64_t examples = shape->micro_batch;
    return redco_degree_value_bytes(degree, backward, computed, examples) + redco_degree_input_bytes(degree, examples);
}

/* The values of the pass that needs more, and the micro-batch's inputs. */
static uint64_t listed_bytes(const redco_graph_work *work, const redco_shape *shape)
{
    const redco_degree_work *const degree = redco_graph_work_near(work, shape->tp);
    const uint64_t forward = redco_listed_pass_bytes(degree, shape, false);
    const uint64_t backward = redco_listed_pass_bytes(degree, shape, true);
    return forward > backward ? forward : backward;
}

redco_layer_bytes redco_layer_bytes_of(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                       const redco_recompute_list *sets)
{
    const redco_engine *const engine = &shape->engine;
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const redco_class_kind kind = classes[class_index].kind;
    if (!redco_class_is_block(kind)) { return edge_bytes(model, class_index, shape, kind == REDCO_CLASS_HEAD); }
    const redco_saver saver = redco_saver_of(engine, REDCO_RECOMPUTE_NONE),
                      again = redco_saver_of(engine, REDCO_RECOMPUTE_FULL);
    const redco_saved_bytes saved = redco_saved_of(model, class_index, shape, saver, sets);
    const uint64_t listed = listed_bytes(redco_model_work(model, class_index)->listed, shape);
    const bool known = !engine->planned_memory && engine->memory != REDCO_MEMORY_FORMULAS;
    const uint64_t working = known ? redco_backward_working_bytes(model, class_index, shape) : 0;
    redco_layer_bytes bytes = {.kept = {0}};
    for (uint32_t i = 0; i < sets->count; i++) {
        const bool full = sets->sets[i] == REDCO_RECOMPUTE_FULL;
        bytes.kept[i] = full && again != saver ? redco_saved_of(model, class_index, shape, again, sets).kept
                                               : saved.kept - saved.freed[i];
        bytes.kept[i] += listed;
        const uint64_t made = full ? saved.kept : saved.freed[i];
        bytes.again[i] = engine->planned_memory ? 0 : made + at_precision(working, shape->precision);
    }
    return bytes;
}

uint64_t redco_key_value_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t width =
        redco_share_up((uint64_t)dims->kv_heads * (dims->head_dim + redco_value_dim(dims)), 1, shape->tp);
    return at_precision(times(times(tokens_of(shape), width), 2), shape->precision);
}

uint64_t redco_held_logits_bytes(const redco_model *model, const redco_shape *shape)
{
    if (shape->engine.held_outputs == REDCO_HELD_NONE || !redco_engine_is_eager(&shape->engine)) { return 0; }
    return times(times(tokens_of(shape), redco_share_up(redco_model_get_dims(model)->vocab, 1, shape->tp)), 4);
}

/* Logits are made while the outputs of the step before are still there. */
static uint64_t held_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const bool cache = redco_engine_is_eager(&shape->engine) && shape->engine.held_outputs == REDCO_HELD_CACHE;
    const uint64_t layers = cache ? dims->layers : 0;
    return redco_held_logits_bytes(model, shape) + times(layers, redco_key_value_bytes(model, shape));
}

uint64_t redco_logits_bytes(const redco_model *model, const redco_shape *shape)
{
    /* 16-bit logits and their gradient, 32-bit copy and its gradient; in fp32 one copy less: 12 bytes either way. */
    if (shape->engine.memory != REDCO_MEMORY_FORMULAS) {
        return at_precision(redco_loss_bytes(model, shape), shape->precision) + held_bytes(model, shape);
    }
    const uint64_t vocab = redco_model_get_dims(model)->vocab;
    if (shape->engine.logits_gathered) { return times(times(tokens_of(shape), vocab), gathered_logit_bytes); }
    /* A fused loss writes the gradient over the logits and hands on a copy, both in the precision of training. */
    const uint64_t each = !shape->engine.fused_loss ? 12 : shape->precision == REDCO_FP32 ? 8 : 4;
    return times(times(tokens_of(shape), redco_share_up(vocab, 1, shape->tp)), each);
}

uint64_t redco_usable_memory_bytes(const redco_gpu *gpu, const redco_calibration *calibration)
{
    return (uint64_t)floor((double)gpu->memory_bytes * visible_ratio * calibration->usable_memory_ratio);
}

uint64_t redco_reserve_bytes(const redco_gpu *gpu, const redco_calibration *calibration)
{
    const double whole = calibration->reserve_bytes;
    if (calibration->planned_memory) {
        return (uint64_t)ceil(whole);
    } /* measured on this very device: nothing fragments */
    const double share = fmin(1.0, (double)gpu->memory_bytes / reserve_memory_bytes);
    const double fixed = fmin(whole, redco_context_bytes);
    return (uint64_t)ceil(fixed + share * (whole - fixed));
}

redco_memory_verdict redco_memory_judge(uint64_t total_bytes, uint64_t capacity_bytes, uint64_t uncertain_bytes)
{
    if (total_bytes + uncertain_bytes <= capacity_bytes) { return REDCO_MEMORY_FITS; }
    return total_bytes <= capacity_bytes + uncertain_bytes ? REDCO_MEMORY_MAY_NOT_FIT : REDCO_MEMORY_DOES_NOT_FIT;
}

const char *redco_memory_word(redco_memory_verdict verdict)
{
    static const char *const words[] = {"fits", "may not fit", "does not fit"};
    return words[verdict];
}
