/* Layers to stages, and the passes of all stages in the order of their schedule's table. */
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/simulator/step_build.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_OPS_MAX = 128, MODULE_OPS_MAX = 2, LAYER_OPS = 64, FOLD_OPS = 8 };

/* The operator that brings a stage's input, once it has been issued. */
struct handover {
    uint32_t *forward, *backward; /* [virtual stage][micro-batch]; NOT_YET before */
};

static const uint32_t not_yet = UINT32_MAX - 1;

static uint32_t send(redcoi_builder *b, redcoi_unit *unit, redco_step_pass pass, uint32_t micro_batch,
                     uint32_t position)
{
    if (!(b->send_s > 0.0)) { return unit->last; }
    const redco_step_op op = {.seconds = b->send_s,
                              .traffic = b->send_traffic,
                              .layer = REDCO_STEP_NONE,
                              .micro_batch = micro_batch,
                              .label = b->label_send,
                              .rank = (uint16_t)unit->rank,
                              .stream = REDCO_STREAM_PIPELINE,
                              .work = REDCO_WORK_PIPELINE,
                              .link = b->send_link,
                              .pass = (uint8_t)pass,
                              .suffix = REDCO_SUFFIX_SEND,
                              .position = (uint16_t)position,
                              .contends = true};
    return redcoi_behind_waits(b, unit, op);
}

static void pass(redcoi_builder *b, redcoi_unit *unit, const redco_turn *turn)
{
    const redcoi_span span = b->spans[turn->chunk * b->parallelism->pp + unit->rank];
    const uint32_t first = b->step->op_count;
    const bool folds = redcoi_fold_ready(b, unit, turn);
    if (folds && redcoi_fold_repeat(b, unit, turn)) { return; }
    if (turn->kind == REDCO_TURN_FORWARD) {
        redcoi_forward_pass(b, unit, span.first, span.end, turn->micro_batch);
    } else {
        redcoi_backward_pass(b, unit, turn->kind, span.first, span.end, turn->micro_batch);
    }
    if (folds) { redcoi_fold_learn(b, unit, turn, first); }
}

/* The end of a pass: sent on where the neighbour is another stage. */
static uint32_t hand_over(redcoi_builder *b, redcoi_unit *unit, const redco_turn *turn, uint32_t position,
                          uint32_t neighbour)
{
    uint32_t chunk = 0;
    const uint32_t to = redco_pipeline_stage_at(&b->schedule, neighbour, turn->micro_batch, &chunk);
    if (neighbour == position || to == unit->rank) { return unit->last; }
    return send(b, unit, turn->kind == REDCO_TURN_FORWARD ? REDCO_PASS_NAME_FWD : REDCO_PASS_NAME_BWD,
                turn->micro_batch, position);
}

/* Issues a pass if its input has been issued. */
static bool issue(redcoi_builder *b, const struct handover *h, uint32_t stage, const redco_turn *turn)
{
    const redco_pipeline *const s = &b->schedule;
    redcoi_unit *const unit = &b->units[stage];
    const uint32_t position = redco_pipeline_position(s->kind, s->stages, stage, turn->chunk);
    const uint32_t last = redco_pipeline_positions(s->kind, s->stages, s->chunks) - 1;
    const size_t at = (size_t)position * s->micro_batches + turn->micro_batch;
    const bool forward = turn->kind == REDCO_TURN_FORWARD, weight = turn->kind == REDCO_TURN_WEIGHT;
    uint32_t input = REDCO_STEP_NONE;
    if (forward && position > 0) { input = h->forward[at - s->micro_batches]; }
    if (!forward && !weight && position < last) { input = h->backward[at + s->micro_batches]; }
    if (input == not_yet) { return false; }
    redcoi_wait(unit, input);
    pass(b, unit, turn);
    if (forward) {
        h->forward[at] = hand_over(b, unit, turn, position, position < last ? position + 1 : position);
        return true;
    }
    if (!weight) { h->backward[at] = hand_over(b, unit, turn, position, position > 0 ? position - 1 : position); }
    if (turn->kind != REDCO_TURN_INPUT && !redcoi_is_last(b, turn->micro_batch)) {
        redcoi_flush(b, unit, false, turn->micro_batch);
    }
    return true;
}

/* The tables of all stages, and how far each has come. */
struct tables {
    redco_turn *turns; /* [stage][room] */
    uint32_t *counts, *numbers;
    size_t room;
};

/* Stages take turns, so that an operator is always issued behind those that it waits for. */
static void run_passes(redcoi_builder *b, const struct handover *h, const struct tables *t)
{
    const uint32_t stages = b->schedule.stages;
    bool any = true;
    memset(t->numbers, 0, stages * sizeof *t->numbers);
    while (any && b->step->status == REDCO_OK) {
        any = false;
        for (uint32_t stage = 0; stage < stages; stage++) {
            const redco_turn *const turns = &t->turns[stage * t->room];
            while (t->numbers[stage] < t->counts[stage] && issue(b, h, stage, &turns[t->numbers[stage]])) {
                t->numbers[stage]++;
                any = true;
            }
        }
    }
}

redco_status redcoi_schedule(redcoi_builder *b, redco_error *err)
{
    const redco_pipeline *const s = &b->schedule;
    const size_t cells = (size_t)redco_pipeline_positions(s->kind, s->stages, s->chunks) * s->micro_batches;
    const size_t room = redco_pipeline_room(s);
    struct handover h = {malloc(cells * sizeof(uint32_t)), malloc(cells * sizeof(uint32_t))};
    struct tables t = {malloc(s->stages * room * sizeof *t.turns), calloc(s->stages, sizeof *t.counts),
                       malloc(s->stages * sizeof *t.numbers), room};
    redco_status st = REDCO_OK;
    if (h.forward == NULL || h.backward == NULL || t.turns == NULL || t.counts == NULL || t.numbers == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (uint32_t r = 0; r < s->stages; r++) { t.counts[r] = redco_pipeline_table(s, r, &t.turns[r * room]); }
    for (uint32_t i = 0; i < b->steps; i++) {
        for (size_t c = 0; c < cells; c++) { h.forward[c] = h.backward[c] = not_yet; }
        for (uint32_t r = 0; r < s->stages; r++) { redcoi_sync_parameters(b, &b->units[r]); }
        run_passes(b, &h, &t);
        for (uint32_t r = 0; r < s->stages; r++) { redcoi_flush(b, &b->units[r], true, REDCO_STEP_NONE); }
        redcoi_finish_step(b);
    }
out:
    free(h.forward);
    free(h.backward);
    free(t.turns);
    free(t.counts);
    free(t.numbers);
    return st;
}

/* The embedding to the first position, the head to the last (stages.h). A second copy of the layers stands where a
 * schedule has two (DualPipe). */
static void deal_layers(redcoi_builder *b)
{
    const redco_pipeline *const s = &b->schedule;
    const uint32_t positions = redco_pipeline_positions(s->kind, s->stages, s->chunks);
    const uint32_t copy = b->copies > 1 ? b->layer_count / b->copies : b->layer_count;
    uint32_t before = 0;
    for (uint32_t i = 0; i < b->costs->class_count; i++) {
        if (b->costs->classes[i].kind == REDCO_CLASS_EMBEDDING) { before += b->costs->classes[i].layers; }
    }
    uint32_t position = 0, at = 0; /* most places ascend: only the others begin again */
    for (uint32_t place = 0; place < s->stages * s->chunks; place++) {
        const uint32_t chunk = place / s->stages;
        const uint32_t wanted = redco_pipeline_position(s->kind, s->stages, place % s->stages, chunk);
        const uint32_t first = b->copies > 1 ? chunk * copy : 0;
        if (wanted < position) { position = at = 0; }
        for (; position < wanted; position++) {
            at += redcoi_position_blocks(b->costs, b->parallelism, position) + (position == 0 ? before : 0);
        }
        const uint32_t blocks = redcoi_position_blocks(b->costs, b->parallelism, wanted) + (wanted == 0 ? before : 0);
        b->spans[place].first = first + at;
        b->spans[place].end = wanted + 1 == positions ? first + copy : first + at + blocks;
    }
}

/* Room for remembering passes. */
static bool allocate_folds(redcoi_builder *b)
{
    const size_t templates = REDCO_TURN_KINDS * (size_t)b->parallelism->pp * b->chunks;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->parallelism->pp * b->chunks; i++) {
        const uint32_t layers = b->spans[i].end - b->spans[i].first;
        most = layers > most ? layers : most;
    }
    b->place_count = most * (LAYER_OPS_MAX + MODULE_OPS_MAX * b->most_modules);
    b->templates = calloc(templates, sizeof *b->templates);
    b->template_bucket_group = calloc(templates * (b->bucket_group_count + 1), sizeof *b->template_bucket_group);
    b->places = calloc((size_t)b->place_count + 1, sizeof *b->places);
    return b->templates != NULL && b->template_bucket_group != NULL && b->places != NULL;
}

static redco_status check(const redcoi_builder *b, redco_error *err)
{
    const uint32_t pp = b->parallelism->pp;
    if (pp == 0 || b->micro_batches == 0 || b->layer_count == 0) {
        return redco_fail(err, REDCO_EVALUE, "parallelism", "has no pipeline stages, micro-batches or layers");
    }
    if (b->costs->blocks > REDCO_SIMULATED_LAYERS_MAX) {
        return redco_fail(err, REDCO_EVALUE, "model", "%u layers are too many to lay out one by one; at most %d",
                          b->costs->blocks, REDCO_SIMULATED_LAYERS_MAX);
    }
    redco_parallelism built = *b->parallelism;
    built.micro_batches = b->micro_batches;
    built.group = b->schedule.group;
    const redco_status st = redco_step_chunks_check(b->costs, &built, err);
    if (st != REDCO_OK) { return st; }
    if (b->micro_batches > REDCO_SIMULATED_MICRO_BATCHES_MAX) {
        return redco_fail(err, REDCO_EVALUE, "micro-batches", "%llu are too many to build one by one; at most %d",
                          (unsigned long long)b->micro_batches, REDCO_SIMULATED_MICRO_BATCHES_MAX);
    }
    return REDCO_OK;
}

/* The most that a layer gathers: its modules, and a table that it shares. */
static uint32_t most_modules(const redco_costs *costs)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < costs->class_count; c++) {
        if (costs->classes[c].modules > most) { most = costs->classes[c].modules; }
    }
    return most + 1;
}

static bool allocate(redcoi_builder *b, const redco_assignment *assignments, uint32_t assignment_count)
{
    const redcoi_rank *const rank = redcoi_rank_find(b->costs, b->parallelism);
    const uint32_t pp = b->parallelism->pp;
    uint32_t count = 0;
    for (uint32_t i = 0; i < assignment_count; i++) { count += rank->layout_count[assignments[i].class_index]; }
    b->sources = calloc(count, sizeof *b->sources);
    b->parts = calloc(count, sizeof *b->parts);
    b->layers = calloc(b->layer_count, sizeof *b->layers);
    b->most_modules = most_modules(b->costs);
    b->modules = calloc((size_t)(count + 1) * b->most_modules, sizeof *b->modules);
    b->ready = calloc((size_t)b->layer_count * b->most_modules, sizeof *b->ready);
    b->spans = calloc((size_t)pp * b->chunks, sizeof *b->spans);
    b->bucket_groups = calloc(2 * REDCO_PARTS * (size_t)count, sizeof *b->bucket_groups);
    b->units = calloc(pp, sizeof *b->units);
    b->step = redco_step_new(pp, b->costs->calibration.overlap_window_ratio);
    if (b->sources == NULL || b->parts == NULL || b->modules == NULL || b->layers == NULL || b->ready == NULL ||
        b->spans == NULL || b->bucket_groups == NULL || b->units == NULL || b->step == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < assignment_count; i++) {
        for (uint32_t layout = 0; layout < rank->layout_count[assignments[i].class_index]; layout++) {
            b->sources[b->parts_count++] = (redcoi_part_source){i, layout};
        }
    }
    for (uint32_t r = 0; r < pp; r++) {
        b->units[r] =
            (redcoi_unit){.rank = r,
                          .last = REDCO_STEP_NONE,
                          .bucket_groups = calloc(2 * REDCO_PARTS * (size_t)count, sizeof(redcoi_bucket_group_state))};
        if (b->units[r].bucket_groups == NULL) { return false; }
    }
    b->step->layers = calloc(b->layer_count, sizeof *b->step->layers);
    b->step->layer_count = b->layer_count;
    return b->step->layers != NULL;
}

static void builder_free(redcoi_builder *b)
{
    for (uint32_t r = 0; b->units != NULL && r < b->parallelism->pp; r++) { free(b->units[r].bucket_groups); }
    redco_step_free(b->step);
    free(b->parts);
    free(b->modules);
    free(b->sources);
    free(b->layers);
    free(b->ready);
    free(b->spans);
    free(b->templates);
    free(b->template_bucket_group);
    free(b->places);
    free(b->bucket_groups);
    free(b->units);
}

/* The place of the assignment that a class's next layer has. */
struct place {
    uint32_t assignment, used; /* layers of it that are listed */
    uint32_t part;             /* its first */
};

/* Layers in the model's order; within a class in the order of the assignments. */
static void list_layers(redcoi_builder *b, const redco_assignment *assignments, uint32_t count, uint32_t at)
{
    const redcoi_rank *const rank = redcoi_rank_find(b->costs, b->parallelism);
    struct place places[REDCOI_CLASSES_MAX] = {{0, 0, 0}};
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(b->costs->model, &runs);
    for (size_t r = 0; r < run_count; r++) {
        const uint32_t c = runs[r].class_index;
        const redco_layer_class *const class = &b->costs->classes[c];
        const uint32_t *of = NULL; /* the layout of each layer */
        if (rank->layout_count[c] > 1) { (void)redcoi_layouts_of(b->costs, b->parallelism, c, &of); }
        for (uint32_t member = runs[r].first; member < runs[r].first + runs[r].layers; member++, at++) {
            struct place *const place = &places[c];
            while (place->assignment < count && (assignments[place->assignment].class_index != c ||
                                                 place->used == assignments[place->assignment].layers)) {
                const uint32_t parts = rank->layout_count[assignments[place->assignment].class_index];
                *place = (struct place){place->assignment + 1, 0, place->part + parts};
            }
            if (place->assignment == count) { break; }
            place->used++;
            b->layers[at] = (redcoi_layer){.parts = place->part + (of != NULL ? of[member] : 0),
                                           .update = REDCO_STEP_NONE,
                                           .scattered = REDCO_STEP_NONE,
                                           .left = REDCO_STEP_NONE,
                                           .first_ready = at * b->most_modules};
            b->step->layers[at].index = member;
            memcpy(b->step->layers[at].class_name, class->name, sizeof class->name);
        }
    }
}

/* A stage's parameters before data-parallel sharding: what its buckets and broadcasts cut. */
static double rank_params(const redcoi_builder *b, const redco_assignment *assignments, uint32_t rank)
{
    const redcoi_rank *const times = redcoi_rank_find(b->costs, b->parallelism);
    double params = 0.0;
    for (uint32_t chunk = 0; chunk < b->chunks; chunk++) {
        const redcoi_span span = b->spans[chunk * b->parallelism->pp + rank];
        for (uint32_t l = span.first; l < span.end; l++) {
            const redcoi_part_source source = b->sources[b->layers[l].parts];
            params += (double)redcoi_times_of(times, assignments[source.assignment].class_index, source.layout)->params;
        }
    }
    return params;
}

/* The memory that the layers of a model chunk hold on its rank all step. */
static void hold_states(const redcoi_builder *b, uint32_t place)
{
    uint64_t *const resident = &b->step->resident[(size_t)(place % b->parallelism->pp) * REDCO_CATEGORY_COUNT];
    for (uint32_t l = b->spans[place].first; l < b->spans[place].end; l++) {
        const redcoi_parts *const parts = &b->parts[b->layers[l].parts];
        resident[REDCO_CATEGORY_PARAMETERS] += parts->states.parameter_bytes;
        resident[REDCO_CATEGORY_GRADIENTS] += parts->states.gradient_bytes;
        resident[REDCO_CATEGORY_OPTIMIZER] += parts->states.optimizer_bytes;
        if (parts->slot_bytes > resident[REDCO_CATEGORY_SCATTERED]) {
            resident[REDCO_CATEGORY_SCATTERED] = parts->slot_bytes;
        }
    }
}

static void fill(redcoi_builder *b, const redco_assignment *assignments, uint32_t count)
{
    const redco_calibration *const c = &b->costs->calibration;
    redco_step *const step = b->step;
    const uint32_t pp = b->parallelism->pp;
    double fullest = 0.0, bytes = 0.0;
    uint64_t nccl_bytes = 0;
    bool network = false;
    assert(pp > 0); /* check() refuses it */
    for (uint32_t copy = 0; copy < b->copies; copy++) {
        list_layers(b, assignments, count, copy * (b->layer_count / b->copies));
    }
    deal_layers(b);
    for (uint32_t r = 0; r < pp; r++) { fullest = fmax(fullest, rank_params(b, assignments, r)); }
    b->label_launch = redco_step_add_label(step, "launch");
    b->label_update = redco_step_add_label(step, "update");
    b->label_step_launch = redco_step_add_label(step, "step/launch");
    b->label_bucket = redco_step_add_label(step, "bwd/gradients/bucket");
    b->label_shards = redco_step_add_label(step, "bwd/gradients/shards");
    b->label_send = redco_step_add_label(step, "send");
    for (uint32_t i = 0; i < b->parts_count; i++) {
        redcoi_parts_fill(b, i, &assignments[b->sources[i].assignment], fullest);
    }
    for (uint32_t place = 0; place < pp * b->chunks; place++) { hold_states(b, place); }
    for (uint32_t i = 0; i < count; i++) {
        if (b->parts[i].nccl_bytes > nccl_bytes) { nccl_bytes = b->parts[i].nccl_bytes; }
    }
    nccl_bytes += redcoi_nccl_outer_bytes(b->costs, b->parallelism);
    for (uint32_t r = 0; r < pp; r++) {
        step->resident[(size_t)r * REDCO_CATEGORY_COUNT + REDCO_CATEGORY_RESERVE] =
            redco_reserve_bytes(&b->costs->machine.gpu, c) + nccl_bytes;
        for (uint32_t i = 0; i < b->bucket_group_count; i++) { b->units[r].bucket_groups[i].ready = REDCO_STEP_NONE; }
    }
    if (pp > 1) {
        b->send_s = b->scale * redcoi_stage_transfer_s(b->costs, b->parallelism, &bytes, &network);
        const redco_parallel p = redcoi_parallel_of(b->costs, b->parallelism);
        const redco_step_traffic traffic = {.op = REDCO_SEND_RECV,
                                            .calls = 1,
                                            .size_bytes = bytes,
                                            .group = redco_parallel_stage_pair(&p),
                                            .contention_ratio = redcoi_contention_ratio(b->costs, network)};
        b->send_traffic = redco_step_add_traffic(step, &traffic);
        b->send_link = redcoi_link_of(network);
    }
    step->micro_batches = b->micro_batches;
}

redco_status redco_step_build(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, const redco_step_options *options,
                              redco_step **step_out, redco_error *err)
{
    const redco_step_options all = {.steps = 0};
    const redco_step_options *const o = options != NULL ? options : &all;
    const uint32_t overlap = costs->workload.overlap;
    const bool fewer = o->micro_batches > 0 && o->micro_batches < parallelism->micro_batches;
    redcoi_builder b = {.costs = costs,
                        .parallelism = parallelism,
                        .scale = redco_cost_fixed(costs, parallelism).scale,
                        .overlap_gather = (overlap & REDCO_OVERLAP_AG_RS) != 0,
                        .overlap_reduce = (overlap & REDCO_OVERLAP_AR) != 0,
                        .overlap_update = (overlap & REDCO_OVERLAP_BC) != 0,
                        .buckets_per_owner = o->buckets_per_owner,
                        .fold = o->fold && o->steps <= 1,
                        .chunks = redco_parallelism_chunks(parallelism),
                        .steps = o->steps > 0 ? o->steps : 1,
                        .micro_batches = fewer ? o->micro_batches : parallelism->micro_batches};
    b.schedule = redco_parallelism_pipeline(parallelism); /* the group is that of all micro-batches */
    b.schedule.micro_batches = (uint32_t)b.micro_batches;
    b.copies = parallelism->pp > 1 && b.schedule.kind == REDCO_PIPELINE_DUALPIPE ? 2 : 1;
    for (uint32_t i = 0; i < count; i++) { b.layer_count += b.copies * assignments[i].layers; }
    redco_status st = check(&b, err);
    if (st != REDCO_OK) { return st; }
    if (!allocate(&b, assignments, count)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    fill(&b, assignments, count);
    if (b.fold && !allocate_folds(&b)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    const uint64_t passes =
        (redco_pipeline_splits_backward(b.schedule.kind) ? 3 : 2) * b.micro_batches * parallelism->pp * b.chunks;
    redcoi_step_reserve(b.step, b.fold ? FOLD_OPS * passes + 2 * LAYER_OPS * (uint64_t)b.layer_count
                                       : LAYER_OPS * b.micro_batches * b.layer_count);
    if ((st = redcoi_schedule(&b, err)) != REDCO_OK || (st = redco_step_finish(b.step, err)) != REDCO_OK) { goto out; }
    *step_out = b.step;
    b.step = NULL;
out:
    builder_free(&b);
    return st;
}
