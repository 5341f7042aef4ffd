#include "tools/plan/plan_peak.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_saved.h"
#include "tools/cli/text_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = REDCO_SAVING_RULES + 12, SHORT_TEXT = 32 };

struct part {
    const char *name;
    uint64_t bytes;
};

struct peak {
    struct part parts[PARTS];
    size_t count;
};

static void add(struct peak *peak, const char *name, uint64_t bytes)
{
    for (size_t i = 0; i < peak->count; i++) { /* rules of one name are of one tensor */
        if (strcmp(peak->parts[i].name, name) == 0) {
            peak->parts[i].bytes += bytes;
            return;
        }
    }
    if (bytes > 0 && peak->count < PARTS) { peak->parts[peak->count++] = (struct part){name, bytes}; }
}

static int largest_first(const void *a, const void *b)
{
    const struct part *const x = a, *const y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

static redco_shape shape_of(const redco_inputs *inputs, const redco_search_options *options,
                            const redco_candidate *best)
{
    const redco_parallelism *const p = &best->parallelism;
    return (redco_shape){.seq_len = options->workload.seq_len,
                         .micro_batch = p->micro_batch,
                         .tp = p->tp,
                         .cp = p->cp,
                         .cp_type = p->cp_type,
                         .etp = p->etp,
                         .sequence_parallel = p->sequence_parallel,
                         .precision = options->workload.precision,
                         .engine = inputs->choice.engine};
}

/* Activations that all layers keep, by the rules of the first block; where some are recomputed, one line stands for
 * all. */
static void add_activations(struct peak *peak, const redco_inputs *inputs, const redco_shape *shape,
                            const redco_candidate *best)
{
    const uint64_t all = best->prediction.activation_bytes;
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(inputs->model, &classes);
    const redco_saving_set *const set =
        redco_saving_set_of(redco_saver_of(&inputs->choice.engine, REDCO_RECOMPUTE_NONE));
    const redco_layer_work *work = NULL;
    uint64_t sizes[REDCO_AXIS_COUNT], bytes[REDCO_SAVING_RULES] = {0};
    double sum = 0.0;
    bool again = false;
    for (uint32_t i = 0; i < best->assignment_count; i++) {
        again = again || best->assignments[i].config.recompute != REDCO_RECOMPUTE_NONE;
    }
    for (size_t c = count; c-- > 0;) {
        if (classes[c].kind == REDCO_CLASS_BLOCK) { work = redco_model_work(inputs->model, (uint32_t)c); }
    }
    if (again || set == NULL || work == NULL || redco_model_graph_work(inputs->model) != NULL) {
        add(peak, again ? "inputs of layers that are recomputed, activations of the others" : "activations", all);
        return;
    }
    const redco_saving_case rank = redco_saving_case_of(inputs->model, shape, sizes);
    for (uint32_t i = 0; i < set->count; i++) {
        bytes[i] = redco_saving_rule_bytes(&set->rules[i], work->sites, work->site_count, &rank);
        sum += (double)bytes[i];
    }
    if (!(sum > 0.0)) { add(peak, "activations", all); }
    for (uint32_t i = 0; i < set->count && sum > 0.0; i++) {
        add(peak, set->rules[i].name, (uint64_t)((double)all * ((double)bytes[i] / sum)));
    }
}

void plan_peak(const redco_inputs *inputs, const redco_search_options *options, const redco_candidate *best)
{
    const redco_prediction *const p = &best->prediction;
    const redco_shape shape = shape_of(inputs, options, best);
    const uint64_t reserve = redco_reserve_bytes(&inputs->machine.gpu, &inputs->calibration);
    const uint64_t beside = p->transient_bytes > reserve ? p->transient_bytes - reserve : 0;
    const uint64_t logits = redco_logits_bytes(inputs->model, &shape);
    /* In the update of the states activations and logits are gone; a stage without the head has none either. */
    const bool update = redco_engine_is_eager(&inputs->choice.engine) && p->activation_bytes == 0;
    const uint64_t loss = !update && beside >= logits ? logits : 0;
    struct peak peak = {.count = 0};
    char text[SHORT_TEXT], other[SHORT_TEXT];
    add(&peak, "weights", p->parameter_bytes);
    add(&peak, "gradients", p->gradient_bytes);
    add(&peak, "optimizer's states, weights in 32 bits among them", p->optimizer_bytes);
    add_activations(&peak, inputs, &shape, best);
    add(&peak, "logits, loss and their gradients", loss);
    add(&peak,
        update ? "copies of gradients and states in the update"
               : "gathered weights, whole gradients, buckets, what one layer works with",
        beside - loss);
    add(&peak, "NCCL's buffers", p->nccl_bytes);
    add(&peak, "CUDA's context, and what the allocator holds beside", p->transient_bytes - beside);
    qsort(peak.parts, peak.count, sizeof peak.parts[0], largest_first);
    (void)printf("\nin the peak of the fullest GPU, GB\n");
    for (size_t i = 0; i < peak.count; i++) {
        (void)printf("  %8.3f  %s\n", (double)peak.parts[i].bytes / 1e9, peak.parts[i].name);
    }
    (void)printf("  %8s  allocated: torch.cuda.max_memory_allocated(); %s GB is what nvidia-smi shows\n",
                 format_gigabytes((double)p->allocated_bytes, text, sizeof text),
                 format_gigabytes((double)p->total_bytes, other, sizeof other));
}
