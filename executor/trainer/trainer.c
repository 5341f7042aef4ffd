#include "executor/backend/host/host.h"
#include "executor/data/initial.h"
#include "executor/states/from_plan.h"
#include "executor/trainer/collect.h"
#include "planner/executable/executable.h"
#include "planner/executable/plan_layouts.h"
#include "topology/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* One is filled while the other is reduced. */
enum { BUCKET_BUFFERS = 2 };

redco_dtype redco_trainer_dtype(redco_precision precision)
{
    return precision == REDCO_BF16 ? REDCO_BFLOAT16 : precision == REDCO_FP16 ? REDCO_F16 : REDCO_F32;
}

redco_status redco_trainer_check_plan(const redco_plan *plan, const char *place, redco_executor executor,
                                      uint64_t ranks, redco_error *err)
{
    const redco_status st = redco_plan_check_executable(plan, executor, place, err);
    if (st != REDCO_OK || redco_plan_gpus(plan) == ranks) { return st; }
    return redco_fail(err, REDCO_EVALUE, place, "is for %llu ranks, but the world has %llu",
                      (unsigned long long)redco_plan_gpus(plan), (unsigned long long)ranks);
}

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to train it");
}

static redco_status open_task(redco_trainer *t, redco_error *err)
{
    const redco_plan *const plan = t->plan;
    redco_status st = redcoi_subject_open(plan, t->place, &t->options, &t->subject, err);
    t->model = t->subject.model;
    t->lm = t->subject.lm;
    t->whole = t->task = t->subject.task;
    if (st != REDCO_OK || t->whole == NULL) { return st; }
    t->whole_layouts = calloc(t->whole->parameter_count + 1, sizeof *t->whole_layouts);
    if (t->whole_layouts == NULL) { return no_memory(t, err); }
    return redco_plan_layouts(plan, t->place, t->model, t->whole, t->whole_layouts, err);
}

/* The rank's place: its stage, and among the ranks of that. */
static redco_status find_place(redco_trainer *t, redco_error *err)
{
    t->mesh = redco_layout_options_from_plan(t->plan).mesh;
    const uint32_t each = (uint32_t)redco_rank_count(t->mesh), rank = t->device_comm->rank;
    t->at = redco_place_of(t->mesh, rank % each);
    redco_status st = redcoi_stage_open(t->plan, t->options.steps, rank / each, &t->stage, err);
    if (st == REDCO_OK && t->stage.count > 1) {
        st = redco_step_of_rank(t->options.steps, t->stage.own, &t->own_step, err);
    }
    return st;
}

static redco_status split_world(redco_trainer *t, redco_error *err)
{
    const uint32_t ranks = t->device_comm->size;
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return no_memory(t, err); }
    const uint32_t each = (uint32_t)redco_rank_count(t->mesh);
    for (uint32_t r = 0; r < ranks; r++) { colours[r] = r / each * each + redco_tp_colour(t->mesh, r % each); }
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_TENSOR, "tensor parallelism"};
    redco_status st = redco_process_group_split(t->device_comm, &options, &t->tp, err);
    if (st == REDCO_OK && !t->replay) {
        st = redco_communicator_split(t->world, colours, "tensor parallelism", &t->tp_host, err);
    }
    for (uint32_t r = 0; r < ranks; r++) { colours[r] = r / each * each + redco_place_of(t->mesh, r % each).tp; }
    if (st == REDCO_OK && !t->replay) {
        st = redco_communicator_split(t->world, colours, "replicas", &t->replicas, err);
    }
    t->group = (redco_group_binding){0, t->tp};
    t->process_groups = (redco_process_group_collectives){&t->group, 1};
    t->collectives = redco_process_group_collectives_calls(&t->process_groups);
    free(colours);
    return st;
}

static redco_status open_states(redco_trainer *t, redco_error *err)
{
    redco_states_options options = {.layout = redco_layout_options_from_plan(t->plan),
                                    .dtype = t->options.dtype,
                                    .optimizer = t->options.optimizer,
                                    .bucket_bytes = t->plan->bucket_bytes,
                                    .bucket_buffers = BUCKET_BUFFERS};
    redco_shards *const elsewhere = calloc((size_t)t->plan->layers_count + 1, sizeof *elsewhere);
    if (elsewhere == NULL) { return no_memory(t, err); }
    redco_status st = redcoi_stage_sharers(t, options.shared_by, err);
    for (uint32_t i = 0; i < t->plan->layers_count; i++) { elsewhere[i] = t->plan->layers[i].shards; }
    options.stages = t->stage.count;
    options.elsewhere = elsewhere;
    options.elsewhere_count = t->stage.count > 1 ? t->plan->layers_count : 0;
    for (uint32_t i = 0; i < t->modules.model.tensor_count; i++) { t->modules.matrices[i].rank = t->at.tp; }
    options.matrices = t->options.backend == NULL ? t->modules.matrices : NULL;
    if (st == REDCO_OK) {
        st = redco_states_create(&t->modules.model, &options, t->world, t->device_comm, t->backend, &t->states, err);
    }
    free(elsewhere);
    return st == REDCO_OK ? redco_states_worker_create(t->states, t->backend, NULL, &t->worker, err) : st;
}

static redco_status feed(void *context, uint32_t micro_batch, const void **data_out, redco_error *err)
{
    redco_trainer *const t = context;
    const redco_batch_place place = {.step = t->step,
                                     .micro_batch = micro_batch,
                                     .dp_rank = redco_replica_at(t->mesh, t->at),
                                     .dp_ranks = (uint32_t)redco_mesh_ranks(t->mesh.dp),
                                     .micro_batches = t->plan->parallelism.micro_batches,
                                     .sequences = t->plan->parallelism.micro_batch};
    for (size_t i = 0; i < t->task->input_count; i++) { data_out[i] = t->fed[i]; }
    data_out[t->task->input_count] = t->key;
    return redcoi_subject_batch(&t->subject, &place, t->fed, t->key, err);
}

static redco_status open_device(void *context, redco_backend **backend_out, redco_error *err)
{
    redco_trainer *const t = context;
    const redco_status st = t->backend->calls->share(t->backend, backend_out, err);
    if (st == REDCO_OK && t->device_count < REDCOI_DEVICES_MAX) { t->devices[t->device_count++] = *backend_out; }
    return st;
}

static redco_status make_schedule(redco_trainer *t, redco_error *err)
{
    const uint32_t inputs = (uint32_t)t->task->input_count;
    t->inputs = calloc((size_t)inputs + 1, sizeof *t->inputs);
    t->gradients = calloc(t->task->parameter_count + 1, sizeof *t->gradients);
    t->fed = calloc((size_t)inputs + 1, sizeof(void *));
    if (t->inputs == NULL || t->fed == NULL || t->gradients == NULL ||
        !redcoi_subject_take_inputs(&t->subject, t->fed)) {
        return no_memory(t, err);
    }
    for (size_t i = 0; i < t->task->parameter_count; i++) {
        const uint32_t output = t->output_of[t->modules.parameter_of[i]];
        t->gradients[i] = output == REDCO_NO_OUTPUT ? REDCO_NO_VALUE : t->outputs[output];
    }
    const uint32_t loss = t->output_of[t->whole->parameter_count];
    redcoi_stage_find_crossings(t);
    t->links = redcoi_stage_links_of(t);
    for (uint32_t i = 0; i < inputs; i++) { t->inputs[i] = redco_graph_find_input(t->graph, t->task->inputs[i].name); }
    t->inputs[inputs] = redco_graph_find_input(t->graph, "key");
    const redco_schedule_options options = {.step = t->own_step != NULL ? t->own_step : t->options.steps,
                                            .overlap_reduce = (t->plan->overlap & REDCO_OVERLAP_AR) != 0,
                                            .graph = t->graph,
                                            .loss = loss == REDCO_NO_OUTPUT ? REDCO_NO_VALUE : t->outputs[loss],
                                            .gradients = t->gradients,
                                            .inputs = t->inputs,
                                            .input_count = inputs + 1,
                                            .links = t->stage.count > 1 ? &t->links : NULL,
                                            .feed = {feed, t},
                                            .world = t->world,
                                            .device_comm = t->device_comm,
                                            .states = t->states,
                                            .open = open_device,
                                            .open_context = t,
                                            .collectives = t->mesh.tp > 1 ? &t->collectives : NULL,
                                            .emulate = t->options.emulate,
                                            .replay = t->replay,
                                            .loose = t->options.pipeline != NULL,
                                            .record = !t->options.launch_each};
    return redco_schedule_create(&options, &t->schedule, err);
}

/* A tensor whose first values are drawn. */
struct drawn {
    redco_drawer *drawer;
    const redco_task_parameter *parameter;
    redco_drawn_part part;
};

static redco_status draw(void *context, uint64_t begin, uint64_t count, void *to, redco_error *err)
{
    const struct drawn *const d = context;
    return redco_drawer_draw(d->drawer, d->parameter, &d->part, begin, count, to, err);
}

/* Every rank reads what it has, or draws it on its device: a number depends on its place in the whole tensor alone. */
static redco_status first_weights(redco_trainer *t, redco_error *err)
{
    redco_drawer *drawer = NULL;
    redco_status st = redco_drawer_open(t->backend, redco_states_worker_stream(t->worker), t->options.seed,
                                        redco_states_master_dtype(t->states), &drawer, err);
    for (size_t i = 0; i < t->task->parameter_count && st == REDCO_OK; i++) {
        if (redco_weights_has(t->file_weights, t->modules.parameter_of[i])) { continue; }
        struct drawn drawn = {drawer, &t->task->parameters[i],
                              redcoi_part_drawn(t->layouts[i], &t->task->parameters[i], t->mesh.tp, t->at.tp)};
        const redco_states_maker maker = {&drawn, draw};
        st = redco_states_make(t->states, t->worker, (uint32_t)i, &maker, err);
    }
    if (st == REDCO_OK) { st = redco_states_worker_finish(t->worker, err); }
    redco_drawer_close(drawer);
    if (st == REDCO_OK && t->file_weights != NULL) {
        const redco_checkpoint_states states = redcoi_checkpoint_states(t);
        st = redco_weights_import(t->file_weights, &states, err);
    }
    redco_weights_close(t->file_weights);
    t->file_weights = NULL;
    return st;
}

redco_status redco_trainer_create(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                  redco_world *world, redco_trainer **trainer_out, redco_error *err)
{
    const uint32_t ranks = options->device_comm != NULL ? options->device_comm->size : redco_world_size(world);
    const bool cuda = options->backend != NULL && options->backend->calls->cuda;
    const redco_executor executor = cuda ? REDCO_EXECUTOR_CUDA : REDCO_EXECUTOR_HOST;
    redco_status st = redco_trainer_check_plan(plan, place, executor, ranks, err);
    if (st == REDCO_OK) { st = redco_rate_check(&options->schedule, err); }
    const double begin_s = redco_now_s();
    if (st != REDCO_OK) { return st; }
    redco_trainer *t = calloc(1, sizeof *t);
    if (t == NULL) { return redco_fail(err, REDCO_ENOMEM, place, "no memory to train it"); }
    t->plan = plan;
    t->place = place;
    t->options = *options;
    t->world = world;
    t->replay = ranks != redco_world_size(world);
    t->backend = options->backend;
    if (t->backend == NULL && ((st = redco_host_open(NULL, &t->backend, err)) != REDCO_OK ||
                               (st = redcoi_room_for_products(t->backend, err)) != REDCO_OK)) {
        goto out;
    }
    t->device_comm = options->device_comm;
    if (t->device_comm == NULL && (st = redco_host_device_comm_open(world, &t->device_comm, err)) != REDCO_OK) {
        goto out;
    }
    if ((st = open_task(t, err)) != REDCO_OK || (st = find_place(t, err)) != REDCO_OK ||
        (st = split_world(t, err)) != REDCO_OK || (st = redcoi_stage_join(t, err)) != REDCO_OK ||
        (st = redcoi_rank_graph_build(t, err)) != REDCO_OK ||
        (st = redcoi_modules_make(&t->modules, plan, t->model, t->whole, t->whole_layouts, options->decay_matrices,
                                  &t->stage, err)) != REDCO_OK ||
        (st = redcoi_stage_task(t, err)) != REDCO_OK) {
        goto out;
    }
    if ((st = redcoi_weights_open(options, t->whole, t->lm != NULL ? t->model : NULL, &t->file_weights, err)) !=
        REDCO_OK) {
        goto out;
    }
    if ((st = open_states(t, err)) != REDCO_OK) { goto out; }
    if ((st = redcoi_rank_graph_recompute(t, err)) != REDCO_OK) { goto out; }
    if ((st = redcoi_trainer_fuse(t, err)) != REDCO_OK) { goto out; }
    t->start.model_s = redco_now_s() - begin_s;
    /* Drawing weights needs memory of its own: before the arena is taken. */
    if (!options->emulate && (st = first_weights(t, err)) != REDCO_OK) { goto out; }
    t->start.weights_s = redco_now_s() - begin_s - t->start.model_s;
    if ((st = make_schedule(t, err)) != REDCO_OK) { goto out; }
    t->start.schedule_s = redco_now_s() - begin_s - t->start.model_s - t->start.weights_s;
    if ((st = redcoi_check_fault(t, err)) != REDCO_OK) { goto out; }
    *trainer_out = t;
    t = NULL;
out:
    redco_trainer_free(t);
    return st;
}

void redco_trainer_free(redco_trainer *t)
{
    if (t == NULL) { return; }
    redco_schedule_free(t->schedule);
    for (uint32_t m = 0; t->weights != NULL && m < t->modules.model.module_count; m++) {
        t->backend->calls->release(t->backend, REDCO_MEMORY_DEVICE, t->weights[m]);
    }
    redco_states_worker_free(t->worker);
    redco_states_free(t->states);
    redco_process_group_free(t->tp);
    redco_communicator_free(t->tp_host);
    redco_communicator_free(t->replicas);
    redcoi_stage_leave(t);
    if (t->device_comm != t->options.device_comm) { redco_device_comm_close(t->device_comm); }
    redco_graph_free(t->graph);
    redcoi_modules_free(&t->modules);
    redco_weights_close(t->file_weights);
    redcoi_policy_free(t->policy);
    for (size_t i = 0; t->fed != NULL && i < t->task->input_count; i++) { free(t->fed[i]); }
    free((void *)t->fed);
    redcoi_subject_close(&t->subject);
    if (t->backend != t->options.backend) { redco_backend_close(t->backend); }
    free(t->layouts);
    free(t->whole_layouts);
    free(t->output_of);
    free(t->outputs);
    free(t->gradients);
    free(t->weights);
    free(t->inputs);
    free(t);
}

redco_status redco_trainer_run(redco_trainer *t, redco_trainer_step *step_out, redco_error *err)
{
    const double begin_s = redco_now_s(), used_s = redco_process_s();
    const double scale = 1.0 / ((double)t->plan->parallelism.micro_batches * (double)redco_mesh_ranks(t->mesh.dp));
    redco_schedule_step step;
    /* Gradients of one rank alone, of weights of which it has a part, would lead anywhere: weights stay as they are. */
    const double rate = t->replay ? 0.0 : redco_rate_at(&t->options.schedule, t->options.learning_rate, t->step + 1);
    redco_status st = redcoi_trainer_collect(t, err);
    if (st == REDCO_OK) { st = redco_schedule_run(t->schedule, t->step + 1, rate, scale, &step, err); }
    if (st != REDCO_OK) { return st; }
    if (t->replay) { step = (redco_schedule_step){0.0, 0.0}; }
    t->step++;
    *step_out = (redco_trainer_step){.loss = step.loss,
                                     .gradient_norm = step.gradient_norm,
                                     .clip_factor = redco_states_clip_factor(t->states, step.gradient_norm),
                                     .learning_rate = redco_optimizer_rate(&t->options.optimizer, rate, t->step),
                                     .time_s = redco_now_s() - begin_s,
                                     .processor_s = redco_process_s() - used_s};
    st = redco_schedule_exposed(t->schedule, &step_out->exposed_comm_s, err);
    return st == REDCO_OK ? redcoi_fault_inject(t, err) : st;
}

json_t *redco_trainer_report(redco_trainer *t)
{
    return t->subject.collector != NULL ? redco_collector_report(t->subject.collector, t->step) : NULL;
}

redco_status redco_trainer_timeline(const redco_trainer *t, redco_timeline **timeline_out, redco_error *err)
{
    return redco_schedule_timeline(t->schedule, timeline_out, err);
}

void redco_trainer_time(redco_trainer *t, bool now, bool later)
{
    redco_schedule_time(t->schedule, now, later);
}

redco_trainer_start redco_trainer_start_of(const redco_trainer *t)
{
    return t->start;
}

redco_trainer_recorded redco_trainer_what_is_recorded(const redco_trainer *t)
{
    const redco_schedule_recorded r = redco_schedule_what_is_recorded(t->schedule);
    redco_trainer_recorded out = {.recordings = r.recordings, .operators = r.operators};
    memcpy(out.why_not, r.why_not, sizeof out.why_not);
    return out;
}

void redco_trainer_hold_reserve(redco_trainer *t, uint64_t bytes)
{
    redco_schedule_hold_reserve(t->schedule, bytes);
}
