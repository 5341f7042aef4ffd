/* redco-exec: trains the model of a plan file on the plan's ranks. */
#include "executor/checkpoint/exchange_weights.h"
#include "executor/comm/nccl/nccl.h"
#include "executor/comm/replay.h"
#include "executor/data/weights_beside.h"
#include "executor/trainer/devices.h"
#include "tools/apart/apart.h"
#include "tools/exec/exec_args.h"
#include "tools/exec/exec_blas.h"
#include "tools/exec/exec_course.h"
#include "tools/exec/exec_device.h"
#include "tools/exec/exec_log.h"
#include "tools/exec/exec_pipeline.h"
#include "tools/exec/exec_planned.h"
#include "tools/exec/exec_predict.h"
#include "tools/exec/exec_progress.h"
#include "tools/exec/exec_ranks.h"
#include "tools/exec/exec_report.h"
#include "tools/exec/exec_timeline.h"
#include "tools/launch/cuda_folders.h"
#include "tools/launch/launched.h"
#include "tools/launch/share_gpu.h"
#include "topology/base/clock.h"
#include "topology/base/number.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "redco-exec " REDCO_VERSION;

static int report(const struct exec_args *args, const struct exec_run *run)
{
    const int code = !run->checked || run->verdict.same ? CLI_DONE : CLI_NO;
    redco_error err = {.status = REDCO_OK};
    if (!args->cli.json) {
        if (!exec_only_predicts(args)) { exec_print_tail(run); }
        return cli_finish(&args->cli, code);
    }
    json_t *const json = exec_json(run);
    if (json == NULL) {
        (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        return cli_fail(&args->cli, &err);
    }
    const int rc = cli_print_json(&args->cli, json);
    json_decref(json);
    return rc == CLI_DONE ? code : rc;
}

/* A rank's run. */
struct rank_run {
    const struct exec_args *args;
    struct exec_line *line;
    redco_world *world;
    redco_backend *backend;         /* NULL: the trainer's own */
    redco_device_comm *device_comm; /* likewise */
    redco_checkpoints *checkpoints; /* NULL: none are written */
    redco_checkpoint *resumed;      /* NULL: from the beginning */
    redco_trainer *trainer;
    redco_trainer_step *steps;
    struct exec_files files; /* to evaluate and to continue */
    struct exec_run run;
    uint64_t at; /* step at work, from 1 */
    struct exec_timeline timeline;
    struct exec_log log;
    struct exec_progress progress;
    redco_checkpoint_best best;
    redco_error late; /* the first error when the steps were done: told behind the results */
    uint32_t late_rank;
};

static bool speaks(const struct rank_run *r)
{
    return redco_world_rank(r->world) == 0 && !r->args->cli.json && !r->args->cli.quiet && !exec_only_predicts(r->args);
}

/* The fate of a user's files is told with --quiet, too. */
static void tell(void *context, const char *text)
{
    struct cli loud = *(const struct cli *)context;
    loud.quiet = false;
    cli_warn(&loud, text);
}

static redco_status open_checkpoints(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    const redco_checkpoints_options options = {.folder = args->folder,
                                               .keep = (uint32_t)args->keep,
                                               .resume = args->resume,
                                               .tell = tell,
                                               .context = (void *)(uintptr_t)&args->cli};
    if (args->folder == NULL) { return REDCO_OK; }
    redco_status st = redco_checkpoints_open(&options, r->world, &r->checkpoints, err);
    if (st == REDCO_OK && args->resume) { st = redco_checkpoints_find(r->checkpoints, &r->resumed, err); }
    return st;
}

/* The checkpoint's values count where no option says something else. */
static redco_status open_trainer(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    redco_trainer_options options = {.backend = r->backend,
                                     .device_comm = r->device_comm,
                                     .fuse = (redco_trainer_fusing)args->fuse,
                                     .launch_each = args->graphs != 0,
                                     .dtype = exec_dtype(args),
                                     .optimizer = args->optimizer,
                                     .schedule = exec_schedule(args),
                                     .decay_matrices = args->decay_word != 0,
                                     .learning_rate = args->learning_rate,
                                     .seed = args->seed,
                                     .data = args->data,
                                     .data_sha256 = args->data_sha256[0] != '\0' ? args->data_sha256 : NULL,
                                     .examples = args->examples,
                                     .in_order = args->course.order != 0,
                                     .weights = args->weights,
                                     .weights_parts = args->weights_parts,
                                     .weights_part_count = args->weights_part_count,
                                     .pipeline = args->pipeline,
                                     .records = args->records,
                                     .steps = args->schedule,
                                     .emulate = args->emulate,
                                     .fault = args->fault_tensor[0] != '\0' ? &args->fault : NULL};
    if (r->resumed != NULL) {
        const redco_checkpoint_info *const info = redco_checkpoint_get_info(r->resumed);
        if (!args->has_seed) { options.seed = info->seed; }
        if (!args->has_rate) { options.learning_rate = info->learning_rate; }
    }
    redco_status st = redco_trainer_create(args->plan, args->path, &options, r->world, &r->trainer, err);
    if (st == REDCO_OK && r->resumed != NULL) { st = redco_trainer_load(r->trainer, r->checkpoints, r->resumed, err); }
    if (st != REDCO_OK) { return st; }
    r->run.first = redco_trainer_steps(r->trainer);
    r->run.memory = redco_trainer_memory_of(r->trainer);
    if (args->stages != NULL) {
        r->run.predicted_stages = args->stages;
        r->run.stages = calloc(args->plan->parallelism.pp, sizeof *r->run.stages);
        st = r->run.stages != NULL ? redco_trainer_stage_memory(r->trainer, r->run.stages, err)
                                   : redco_fail(err, REDCO_ENOMEM, "stages", "out of memory");
        if (st != REDCO_OK) { return st; }
    }
    r->run.start.trainer = redco_trainer_start_of(r->trainer);
    if (redco_world_rank(r->world) == 0) {
        exec_device_mode(&args->cli, args->plan, r->run.backend, args->graphs == 0);
    }
    if (speaks(r)) {
        exec_print_head(&r->run);
        if (r->resumed != NULL) { exec_print_resumed(redco_checkpoint_path(r->resumed), r->run.first, args->steps); }
    }
    return REDCO_OK;
}

/* @param best  it is the best so far, by the evaluation after this step */
static redco_status save(struct rank_run *r, bool best, redco_error *err)
{
    const struct exec_args *const args = r->args;
    if (r->checkpoints == NULL || (r->at % args->every != 0 && r->at != args->steps && !best)) { return REDCO_OK; }
    if (best) { redco_checkpoints_set_best(r->checkpoints, &r->best); }
    const redco_status st = redco_trainer_save(r->trainer, r->checkpoints, err);
    if (st != REDCO_OK) { return st; }
    r->run.written++;
    r->run.best = redco_checkpoints_best(r->checkpoints);
    exec_log_line(&r->log, "checkpoint of step %llu%s", (unsigned long long)r->at, best ? ", the best so far" : "");
    return st;
}

static redco_status evaluate(struct rank_run *r, uint64_t step, bool *best_out, redco_error *err)
{
    struct exec_use *const use = &r->run.use;
    const redco_status st =
        exec_course_evaluate(r->args, &r->files, r->trainer, step, redco_world_rank(r->world) == 0, use, &r->best, err);
    if (st != REDCO_OK) { return st; }
    const struct exec_evaluation *const e = &use->list[use->count - 1];
    *best_out = e->best && r->args->course.keeps_best;
    exec_log_evaluation(&r->log, e);
    if (use->pairs_err.status != REDCO_OK) { exec_log_fail(&r->log, &use->pairs_err); }
    if (speaks(r) && step != r->args->steps) { /* the last one is told behind the steps */
        exec_progress_clear(&r->progress);
        exec_print_evaluation(e);
    }
    return st;
}

/* A step is told, logged, evaluated and saved. What fails after the last one leaves its results. */
static redco_status after_step(struct rank_run *r, const redco_trainer_step *done, redco_error *err)
{
    const bool last = r->at == r->args->steps;
    redco_error *const whose = last ? &r->late : err;
    bool best = false;
    redco_status st = REDCO_OK;
    if (speaks(r) && !r->progress.alone) {
        exec_progress_clear(&r->progress);
        exec_print_step(&r->run, r->at, done);
    }
    exec_progress_step(&r->progress, &r->run, r->at, r->args->steps, done);
    exec_log_step(&r->log, r->at, exec_course_epoch(r->args, r->at), done);
    if (exec_course_evaluates(r->args, r->at)) { st = evaluate(r, r->at, &best, whose); }
    /* All ranks see such an evaluation fail alike: what was trained until then is saved all the same. */
    if (st == REDCO_OK || st == REDCO_EVALUE || st == REDCO_EINFEASIBLE) {
        const redco_status saved = save(r, best, whose);
        st = st == REDCO_OK ? saved : st;
    }
    return last ? REDCO_OK : st;
}

static redco_status run_steps(struct rank_run *r, redco_error *err)
{
    const bool leads = redco_world_rank(r->world) == 0;
    struct exec_joules joules = {.nvml = NULL};
    redco_status st = REDCO_OK;
    r->run.start.total_s = redco_now_s() - r->run.start.began_s;
    for (uint64_t step = r->run.first; step < r->args->steps && st == REDCO_OK; step++) {
        redco_trainer_step *const done = &r->steps[r->run.count];
        const uint64_t launched = redco_cuda_calls_made(r->backend);
        r->at = step + 1;
        if (r->line->slot != NULL) { atomic_store(&r->line->slot->step, r->at); }
        redco_trainer_time(r->trainer, exec_timeline_shows(&r->timeline, r->at), r->timeline.trace != NULL);
        st = redco_trainer_run(r->trainer, done, err);
        if (st != REDCO_OK) { break; }
        r->run.count++;
        r->run.launches = redco_cuda_calls_made(r->backend) - launched;
        if (r->run.count == 1) { exec_device_attention(&r->args->cli, leads, r->backend, &r->run); }
        if (r->run.count == 1 && leads) { exec_device_joules_begin(r->backend, &joules); }
        if (r->run.count == 2) { exec_device_graphs(&r->args->cli, leads, r->trainer, &r->run); }
        const bool shown = exec_timeline_shows(&r->timeline, r->at), last = r->at == r->args->steps;
        if (last) { exec_device_joules_end(&joules, &r->run); }
        if ((shown || last) && !r->args->share_gpu) { /* else it is other ranks', too */
            exec_device_reserve(&r->args->cli, r->backend, r->trainer, &r->run);
        }
        if (shown) { exec_timeline_add(&r->timeline, r->trainer, r->at); }
        st = after_step(r, done, err);
    }
    if (st != REDCO_OK) { exec_progress_clear(&r->progress); }
    redco_nvml_close(joules.nvml); /* opened by steps that failed */
    return st;
}

/* The work of all ranks when the steps are done. */
static void look_back(struct rank_run *r)
{
    redco_error *const err = &r->late;
    const struct exec_args *const args = r->args;
    redco_status st = REDCO_OK;
    if (args->timeline != NULL) {
        st = args->replay ? REDCO_OK : exec_timeline_agree(&r->timeline, r->world, err);
        if (st == REDCO_OK && redco_world_rank(r->world) == 0 && r->timeline.err.status != REDCO_OK) {
            *err = r->timeline.err; /* the check is made all the same */
            r->late_rank = r->timeline.rank;
        }
    }
    if (st == REDCO_OK && args->check && r->run.first + r->run.count > 0) {
        st = redco_trainer_compare(r->trainer, NULL, r->steps, r->run.count, &r->run.verdict, err);
        r->run.checked = st == REDCO_OK;
    }
}

/* A run that is resumed goes on with the settings that it is given, whatever its checkpoint was trained with. */
static void tell_changes(struct rank_run *r)
{
    char changes[800], text[1200];
    if (r->resumed == NULL || redco_world_rank(r->world) != 0 ||
        redco_trainer_changes(r->trainer, r->resumed, changes, sizeof changes) == 0) {
        return;
    }
    (void)snprintf(text, sizeof text, "goes on from %.300s with other settings than it was trained with: %s",
                   redco_checkpoint_path(r->resumed), changes);
    cli_warn(&r->args->cli, text);
    exec_log_line(&r->log, "%s", text);
}

/* The log, the line on a terminal, and the best checkpoint of a run that is resumed. */
static void begin_course(struct rank_run *r)
{
    const struct exec_args *const args = r->args;
    const bool leads = redco_world_rank(r->world) == 0;
    if (r->checkpoints != NULL) { r->best = redco_checkpoints_best(r->checkpoints); }
    r->run.best = r->best;
    r->progress = exec_progress_begin(leads && !args->cli.quiet && r->run.first < args->steps);
    exec_log_open(&r->log, &r->run, leads ? args->course.log : NULL, args->resume, r->run.first);
    exec_log_line(&r->log, "%s: %llu ranks, steps %llu to %llu", args->plan->model_name,
                  (unsigned long long)redco_plan_gpus(args->plan), (unsigned long long)r->run.first + 1,
                  (unsigned long long)args->steps);
    tell_changes(r);
}

/* All steps of a rank, and the check. What fails when the steps are done leaves rank 0 their results to print. */
static redco_status train(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    const bool leads = redco_world_rank(r->world) == 0;
    bool best = false;
    r->steps = calloc(args->steps + 1, sizeof *r->steps);
    r->timeline = (struct exec_timeline){.path = args->timeline,
                                         .steps = args->steps,
                                         .shown = args->timeline_steps,
                                         .rank = (uint32_t)args->timeline_rank};
    if (args->timeline != NULL && (args->replay || redco_world_rank(r->world) == args->timeline_rank)) {
        exec_timeline_open(&r->timeline);
    }
    if (r->steps == NULL) { return redco_fail(err, REDCO_ENOMEM, "steps", "out of memory"); }
    r->run.steps = r->steps;
    redco_status st = open_checkpoints(r, err);
    if (st == REDCO_OK) { st = open_trainer(r, err); }
    if (st == REDCO_OK) { st = exec_files_open(args, r->trainer, leads, &r->files, err); }
    if (st == REDCO_OK && r->run.first < args->steps) { st = exec_course_try(args, &r->files, r->trainer, err); }
    if (st == REDCO_OK) { begin_course(r); }
    if (st == REDCO_OK) { st = run_steps(r, err); }
    if (st == REDCO_OK && args->evaluate != NULL && r->run.use.count == 0 && r->late.status == REDCO_OK) {
        (void)evaluate(r, r->run.first + r->run.count, &best, &r->late);
    }
    if (st == REDCO_OK && r->late.status == REDCO_OK) {
        (void)exec_files_predict(args, &r->files, r->trainer, leads ? EXEC_PREDICT_WRITE : EXEC_PREDICT_JOIN,
                                 &r->run.use, &r->late);
    }
    if (st == REDCO_OK && args->save_weights != NULL && r->late.status == REDCO_OK) {
        (void)redco_trainer_export(r->trainer, args->save_weights, exec_save_dtype(args), &r->late);
        if (leads && r->late.status == REDCO_OK && args->weights != NULL) {
            (void)redco_weights_copy_beside(args->weights, args->save_weights, &r->late);
        }
    }
    if (st == REDCO_OK) { exec_timeline_write(&r->timeline, &args->cli, &r->run, r->backend); }
    if (st == REDCO_OK) { r->run.reported = redco_trainer_report(r->trainer); }
    if (st == REDCO_OK && r->late.status == REDCO_OK) { look_back(r); }
    if (st != REDCO_OK || r->late.status == REDCO_OK || redco_world_rank(r->world) == 0) { return st; }
    *err = r->late;
    return err->status;
}

struct opening {
    struct exec_args *args;
    redco_error *err;
    redco_status status;
};

static void open_pipeline(void *context)
{
    struct opening *const o = context;
    o->status = exec_pipeline_open(o->args, o->err);
}

/* The step as the simulator has it. Prices decide nothing but how long emulated computation takes. */
static redco_status foresee_stages(struct exec_args *args, redco_error *err)
{
    redco_plan_case *const c = &args->prices;
    args->stages = calloc(c->parallelism.pp, sizeof *args->stages);
    if (args->stages == NULL) { return redco_fail(err, REDCO_ENOMEM, "stages", "out of memory"); }
    for (uint32_t i = 0; i < c->parallelism.pp; i++) {
        args->stages[i] = redco_cost_stage_memory(c->costs, &c->parallelism, c->assignments, c->assignment_count, i);
    }
    return REDCO_OK;
}

static redco_status make_schedule(struct exec_args *args, redco_error *err)
{
    redco_plan_case *const c = &args->prices;
    redco_status st =
        redco_plan_case_open(args->plan, args->path, args->profiles, args->profile_count, redco_tp_attach_rules,
                             args->emulate || args->replay || args->profile_count > 0, c, err);
    if (st != REDCO_OK) { return st; }
    args->fixed = redco_cost_fixed(c->costs, &c->parallelism);
    st = redco_step_build(c->costs, &c->parallelism, c->assignments, c->assignment_count, NULL, &args->schedule, err);
    if (st == REDCO_OK && args->plan->parallelism.pp > 1) { st = foresee_stages(args, err); }
    if (st == REDCO_OK && args->timeline != NULL && args->timeline_rank >= redco_plan_gpus(args->plan)) {
        st = redco_fail(err, REDCO_EVALUE, "--timeline-rank", "%llu is not one of the plan's %llu ranks",
                        (unsigned long long)args->timeline_rank, (unsigned long long)redco_plan_gpus(args->plan));
    }
    if (st == REDCO_OK) {
        struct opening opening = {args, err, REDCO_OK};
        apart_in_thread(open_pipeline, &opening);
        st = opening.status;
    }
    if (st == REDCO_OK) { st = exec_course_resolve(args, err); }
    if (st == REDCO_OK && args->course.log != NULL) { st = exec_log_check(args->course.log, args->resume, err); }
    if (st == REDCO_OK && args->save_weights != NULL) { st = redco_weights_export_check(args->save_weights, err); }
    args->makes_weights = args->save_weights != NULL && access(args->save_weights, F_OK) != 0;
    if (st == REDCO_OK && args->folder != NULL && args->data != NULL) {
        st = exec_digest_data(args->data, args->data_sha256, err);
    }
    args->start.plan_s = redco_now_s() - args->start.began_s;
    return st == REDCO_OK && args->timeline != NULL ? cli_writable(args->timeline, err) : st;
}

/* A GPU, and what joins it to those of the other ranks. */
static redco_status open_devices(struct rank_run *r, redco_error *err)
{
    const bool share = r->args->share_gpu;
    const redco_nccl_options options = {.timeout_s = (double)r->args->timeout_s, .share = share};
    const char **const folders = cuda_folders();
    const redco_cuda_options device = {.library_folders = folders};
    const double begin_s = redco_now_s();
    redco_status st = redco_devices_open(r->world, &device, share, &r->backend, err);
    cuda_folders_free(folders);
    r->run.start.device_s = redco_now_s() - begin_s;
    if (st != REDCO_OK || r->args->replay) { return st; }
    if (share && redco_world_rank(r->world) == 0) { exec_device_shared(&r->args->cli, r->backend); }
    st = redco_nccl_open(r->world, r->backend, &options, &r->device_comm, err);
    r->run.start.device_comm_s = redco_now_s() - begin_s - r->run.start.device_s;
    return st;
}

static int run_rank(const redco_world_options *options, struct exec_line *line, void *context)
{
    const struct exec_args *const args = context;
    struct rank_run r = {.args = args, .line = line};
    redco_error err = {.status = REDCO_OK};
    int rc = CLI_DONE;
    r.run = (struct exec_run){.start = args->start,
                              .plan = args->plan,
                              .dtype = exec_dtype(args),
                              .backend = exec_backend_words[args->backend],
                              .folder = args->folder,
                              .log = args->course.log,
                              .epoch_examples = args->course.epoch_examples,
                              .model_flops_per_token = args->fixed.model_flops_per_token,
                              .peak_flops_per_s = args->fixed.peak_flops_per_s,
                              .emulated = args->emulate,
                              .replay = args->replay,
                              .rank = (uint32_t)args->replay_rank};
    if (args->pipeline != NULL && line->slot != NULL) { redco_user_pipeline_watch(args->pipeline, &line->slot->call); }
    redco_status st = redco_world_open(options, &r.world, &err);
    if (st != REDCO_OK && line->pipe < 0) { return exec_no_world(&args->cli, options, &err); }
    if (st == REDCO_OK && args->facts != NULL &&
        (rc = exec_agree(&args->cli, r.world, options->transport == REDCO_TRANSPORT_SOCKET, args->facts, NULL)) !=
            CLI_DONE) {
        redco_world_close(r.world);
        return rc;
    }
    if (st == REDCO_OK) {
        redco_world_watch(r.world, exec_watch, line);
        if (args->backend == EXEC_CUDA) { st = open_devices(&r, &err); }
        if (st == REDCO_OK && args->replay) {
            st = redco_replay_open((uint32_t)args->replay_rank, (uint32_t)redco_plan_gpus(args->plan), &r.device_comm,
                                   &err);
        }
        if (st == REDCO_OK) { st = train(&r, &err); }
    }
    r.run.resumed = r.resumed != NULL;
    exec_log_line(&r.log, "%s", st != REDCO_OK ? err.text : r.late.status != REDCO_OK ? r.late.text : "done");
    (void)exec_log_close(&r.log, &r.late);
    if (st != REDCO_OK) {
        rc = exec_fail(&args->cli, line, r.world, r.world != NULL ? redco_world_rank(r.world) : options->rank, r.at,
                       &err);
    } else if (redco_world_rank(r.world) == 0) {
        rc = report(args, &r.run);
        if (r.late.status != REDCO_OK) { rc = exec_fail(&args->cli, line, r.world, r.late_rank, r.at, &r.late); }
    }
    json_decref(r.run.reported);
    redco_trainer_free(r.trainer);
    exec_files_close(&r.files);
    free(r.run.use.list);
    free(r.run.stages);
    redco_checkpoint_free(r.resumed);
    redco_checkpoints_close(r.checkpoints);
    exec_timeline_close(&r.timeline);
    redco_device_comm_close(r.device_comm);
    redco_backend_close(r.backend);
    free(r.steps);
    redco_world_close(r.world);
    return rc;
}

/* Weights, gradients, masters and states of all ranks on this machine, activations aside. */
static redco_status check_memory(const struct exec_args *args, uint64_t ranks, redco_error *err)
{
    const double have_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double element_bytes = (double)redco_dtype_bytes(exec_dtype(args));
    const double need_bytes = (double)ranks / args->plan->parallelism.tp / args->plan->parallelism.pp *
                              (double)args->plan->params * 2.0 * element_bytes;
    if (!(have_bytes > 0.0) || need_bytes <= have_bytes) { return REDCO_OK; }
    return redco_fail(
        err, REDCO_EVALUE, args->path,
        "weights and gradients of %llu ranks take %.0f GB, but this machine has %.0f GB; start the ranks on "
        "several machines with mpirun",
        (unsigned long long)ranks, need_bytes / 1e9, have_bytes / 1e9);
}

static void clean_folders(const char *checkpoints, const char *weights, bool makes_weights)
{
    if (checkpoints != NULL && checkpoints[0] != '\0') { redco_checkpoints_clean(checkpoints); }
    if (weights == NULL || weights[0] == '\0') { return; }
    redco_weights_export_clean(weights);
    if (makes_weights) { (void)rmdir(weights); } /* where nothing is in it */
}

static void clean(void *context)
{
    const struct exec_args *const args = context;
    clean_folders(args->folder, args->save_weights, args->makes_weights);
}

static void clean_apart(const struct apart *apart)
{
    clean_folders(apart->unfinished[0], apart->unfinished[1], false);
}

static redco_executor executor_of(const struct exec_args *args)
{
    return args->backend == EXEC_CUDA ? REDCO_EXECUTOR_CUDA : REDCO_EXECUTOR_HOST;
}

/* Options that ask for a whole model, of which a stage has a part. */
static redco_status check_options(const struct exec_args *args, redco_error *err)
{
    const struct {
        const char *option;
        bool given;
    } options[] = {
        {"--evaluate", args->evaluate != NULL}, {"--predict", args->predict != NULL},
        {"--emulate-compute", args->emulate},   {"--fault", args->fault_tensor[0] != '\0'},
        {"--replay-rank", args->replay},        {"--optimizer adafactor", args->optimizer.kind == REDCO_ADAFACTOR}};
    for (size_t i = 0; args->plan->parallelism.pp > 1 && i < sizeof options / sizeof options[0]; i++) {
        if (!options[i].given) { continue; }
        return redco_fail(err, REDCO_EVALUE, options[i].option,
                          "is not done with the plan's %u pipeline stages; plan with --pp 1",
                          args->plan->parallelism.pp);
    }
    return REDCO_OK;
}

static int run_here(struct exec_args *args)
{
    const uint64_t ranks = redco_plan_gpus(args->plan);
    redco_error err = {.status = REDCO_OK};
    redco_status st = redco_trainer_check_plan(args->plan, args->path, executor_of(args), ranks, &err);
    if (st == REDCO_OK && ranks > EXEC_RANKS_MAX) {
        st =
            redco_fail(&err, REDCO_EVALUE, args->path, "is for %llu ranks; at most %d are started here, more by mpirun",
                       (unsigned long long)ranks, EXEC_RANKS_MAX);
    }
    if (st == REDCO_OK) { st = check_options(args, &err); }
    if (st == REDCO_OK && args->backend == EXEC_HOST) { st = check_memory(args, ranks, &err); }
    if (st == REDCO_OK) { st = make_schedule(args, &err); }
    if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
    return exec_start_ranks(&args->cli, (uint32_t)ranks, (double)args->timeout_s, run_rank, clean, args);
}

/* One rank alone, in this process. */
static int run_replay(struct exec_args *args)
{
    const uint64_t ranks = redco_plan_gpus(args->plan);
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF, .timeout_s = (double)args->timeout_s};
    struct exec_line line = {.pipe = -1, .timeout_s = (double)args->timeout_s};
    redco_error err = {.status = REDCO_OK};
    redco_status st = redco_trainer_check_plan(args->plan, args->path, executor_of(args), ranks, &err);
    if (st == REDCO_OK) { st = check_options(args, &err); }
    if (st == REDCO_OK && args->replay_rank >= ranks) {
        st =
            redco_fail(&err, REDCO_EVALUE, "--replay-rank", "%llu is not one of the plan's %llu ranks, 0 to %llu",
                       (unsigned long long)args->replay_rank, (unsigned long long)ranks, (unsigned long long)ranks - 1);
    }
    if (st == REDCO_OK && ranks > REDCO_WORLD_MAX) {
        st = redco_fail(&err, REDCO_EVALUE, args->path, "is for %llu ranks; at most %d are executed",
                        (unsigned long long)ranks, REDCO_WORLD_MAX);
    }
    if (st == REDCO_OK) { st = make_schedule(args, &err); }
    if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
    return run_rank(&options, &line, args);
}

/* As one rank of mpirun's, or of another launcher's: what can be wrong here is known before the others are met. */
static redco_status prepare(struct exec_args *args, uint64_t ranks, struct exec_facts *facts, redco_error *err)
{
    if (args->replay && ranks > 1) {
        return redco_fail(err, REDCO_EVALUE, "--replay-rank", "is one process; here are %llu",
                          (unsigned long long)ranks);
    }
    if (args->replay) { return REDCO_OK; }
    redco_status st = redco_trainer_check_plan(args->plan, args->path, executor_of(args), ranks, err);
    if (st == REDCO_OK) { st = check_options(args, err); }
    if (st == REDCO_OK) { st = exec_facts_of_args(args, facts, err); }
    return st == REDCO_OK ? make_schedule(args, err) : st;
}

static int run_launched(struct exec_args *args, const redco_world_options *options, uint64_t ranks)
{
    struct exec_line line = {.pipe = -1, .timeout_s = (double)args->timeout_s};
    struct exec_facts *const facts = calloc(1, sizeof *facts);
    args->follows = options->rank > 0;
    redco_error err = {.status = REDCO_OK};
    redco_status st =
        facts != NULL ? prepare(args, ranks, facts, &err) : redco_fail(&err, REDCO_ENOMEM, args->path, "out of memory");
    args->facts = facts;
    const int rc = st != REDCO_OK ? exec_cannot_start(&args->cli, options, &err)
                   : args->replay ? run_replay(args)
                                  : run_rank(options, &line, args);
    args->facts = NULL;
    free(facts);
    return rc;
}

/* The launcher of this process, its rank and the number of ranks. */
struct launch {
    redco_world_options world;
    struct launched_room room;
    uint64_t ranks;
    bool launched;
};

static redco_status find_launcher(struct launch *launch, redco_error *err)
{
    uint64_t rank = 0;
    launch->ranks = 1;
    launch->world.transport = REDCO_TRANSPORT_MPI;
    if (launched_world(&launch->world, &launch->room, &launch->launched, err) != REDCO_OK) { return err->status; }
    if (launch->launched) {
        launch->ranks = launch->world.size;
    } else if (launched_by_mpi(&rank, &launch->ranks)) {
        launch->world.rank = (uint32_t)rank;
        launch->launched = true;
    }
    return REDCO_OK;
}

/* @param rate_is_given  by the user, not by a pipeline's table
 * @param apart          NULL without a pipeline, as is output */
static int run(int argc, char **argv, bool rate_is_given, struct apart *apart, FILE *output)
{
    struct exec_args args = {.cli = {.json_digits = 17}, /* losses as they were computed */
                             .steps = 10,
                             .seed = 1,
                             .learning_rate = 1e-3,
                             .optimizer = redco_optimizer_default(),
                             .dtype = -1,
                             .max_new_tokens = 64,
                             .top_p = 1.0,
                             .save_dtype = -1,
                             .timeline_steps = 3,
                             .start = {.began_s = redco_now_s()},
                             .every = 100,
                             .keep = 2,
                             .timeout_s = 60};
    struct launch launch = {.ranks = 1};
    redco_plan *plan = NULL;
    redco_error err = {.status = REDCO_OK}, none = {.status = REDCO_OK};
    int rc = exec_parse(argc, argv, &args);
    args.has_rate = args.has_rate && rate_is_given;
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* lines of several ranks do not mix */
    if (rc == CLI_USAGE && find_launcher(&launch, &none) == REDCO_OK && launch.launched) {
        exec_tell_others(&launch.world, &args.cli.err);
    }
    if (rc != CLI_RUN) { return rc; }
    if (apart != NULL) {
        args.call = &apart->call;
        args.cli.output = output;
        apart->timeout_s = (double)args.timeout_s;
        if (!args.cli.json && !exec_only_predicts(&args)) { apart_print(output); }
    }
    if (args.new_pipeline != NULL) { return exec_new_pipeline(&args.cli, args.new_pipeline); }
    if (args.share_gpu && !share_gpu()) {
        (void)redco_fail(&err, REDCO_ENOMEM, "--share-gpu", "out of memory");
        return cli_fail(&args.cli, &err);
    }
    const redco_status found = find_launcher(&launch, &err);
    launch.world.timeout_s = (double)args.timeout_s;
    if (args.listen != NULL) { launch.world.listen = args.listen; }
    if (found != REDCO_OK) { return cli_fail(&args.cli, &err); }
    if (args.listen != NULL && (!launch.launched || launch.world.transport != REDCO_TRANSPORT_SOCKET)) {
        (void)redco_fail(&err, REDCO_EVALUE, "--listen",
                         "is for ranks that REDCO_RANK or srun numbers; others are on no network of redco's");
        return cli_fail(&args.cli, &err);
    }
    if (args.ranks > 0) {
        if (launch.launched) {
            (void)redco_fail(&err, REDCO_EVALUE, "--ranks",
                             "starts ranks here; those of a launcher need a PLAN, which "
                             "redco-plan --run-here -o writes");
            return exec_cannot_start(&args.cli, &launch.world, &err);
        }
        rc = exec_planned(&args, &plan);
        if (rc != CLI_DONE) { return rc; }
        args.path = args.model != NULL ? args.model : args.pipeline_path; /* for messages */
    } else if (redco_plan_read(args.path, &plan, &err) != REDCO_OK) {
        return launch.launched ? exec_cannot_start(&args.cli, &launch.world, &err) : cli_fail(&args.cli, &err);
    }
    if (redco_plan_run_here(plan) && launch.world.rank == 0) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "the plan predicts steps of %.40s, which gathers layers; redco-exec gathers modules",
                       plan->engine.name);
        cli_warn(&args.cli, text);
    }
    args.plan = plan;
    const char *const unfinished[] = {args.folder, args.save_weights};
    for (size_t i = 0; apart != NULL && i < 2; i++) {
        if (unfinished[i] == NULL || strlen(unfinished[i]) >= APART_PATH_BYTES) { continue; }
        (void)snprintf(apart->unfinished[i], APART_PATH_BYTES, "%s", unfinished[i]);
        apart->clean = clean_apart;
    }
    if (apart != NULL) { apart->ends = !launch.launched && !args.replay; } /* ranks are started here, and cleaned up */
    rc = launch.launched ? run_launched(&args, &launch.world, launch.ranks)
         : args.replay   ? run_replay(&args)
                         : run_here(&args);
    exec_pipeline_close(&args);
    free(args.stages);
    redco_step_free(args.schedule);
    redco_plan_case_free(&args.prices);
    redco_plan_free(plan);
    return rc;
}

struct command {
    int argc;
    char **argv;
    bool rate_is_given;
};

static int run_pipeline(void *context, struct apart *apart, FILE *output)
{
    const struct command *const c = context;
    int count = c->argc;
    char **const words = exec_pipeline_words(c->argc, c->argv, &apart->call, &count);
    const int rc = run(count, words != NULL ? words : c->argv, c->rate_is_given, apart, output);
    exec_words_free(words);
    return rc;
}

int main(int argc, char **argv)
{
    const struct cli cli = {.program = program_invocation_short_name};
    struct apart_options options = {.library = NULL, .timeout_s = 60.0};
    struct command command = {argc, argv, false};
    cli_tell_crashes();
    exec_without_blas_threads(argv);
    for (int i = 1; i < argc; i++) { /* argp takes any beginning that no other option has */
        const char *const equals = strchr(argv[i], '='), *const value = equals != NULL ? equals + 1
                                                                        : i + 1 < argc ? argv[i + 1]
                                                                                       : argv[i];
        uint64_t seconds = 0;
        command.rate_is_given = command.rate_is_given || strncmp(argv[i], "--le", 4) == 0;
        if (strncmp(argv[i], "--pi", 4) == 0) { options.library = value; }
        if (strncmp(argv[i], "--timeo", 7) == 0 && redco_whole_parse(value, 1, 1000000, &seconds)) {
            options.timeout_s = (double)seconds;
        }
    }
    return options.library != NULL ? apart_run(&cli, &options, run_pipeline, &command)
                                   : run(argc, argv, command.rate_is_given, NULL, NULL);
}
