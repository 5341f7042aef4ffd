#include "executor/pipeline/user_pipeline_internal.h"

#include "costmodel/graph/names.h"
#include "costmodel/graph/transform.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *redco_user_pipeline_in(const redco_user_pipeline_call *call)
{
    return __atomic_load_n(&call->function, __ATOMIC_SEQ_CST);
}

uint64_t redco_user_pipeline_in_number(const redco_user_pipeline_call *call)
{
    return __atomic_load_n(&call->number, __ATOMIC_SEQ_CST);
}

static const char *set(redco_user_pipeline_call *call, const char *function)
{
    const char *const before = __atomic_exchange_n(&call->function, function, __ATOMIC_SEQ_CST);
    (void)__atomic_add_fetch(&call->number, 1, __ATOMIC_SEQ_CST);
    return before;
}

static bool is_told(const redcoi_calls *calls)
{
    return calls->call != NULL && calls->call->process == (int)getpid();
}

const char *redcoi_enter(const redcoi_calls *calls, const char *function)
{
    return is_told(calls) ? set(calls->call, function) : NULL;
}

void redcoi_leave(const redcoi_calls *calls, const char *before)
{
    if (is_told(calls)) { (void)set(calls->call, before); }
}

void redco_user_pipeline_watch(redco_user_pipeline_file *f, redco_user_pipeline_call *call)
{
    f->calls->call = call;
    if (call != NULL) { call->process = (int)getpid(); }
}

redco_status redco_user_pipeline_collate(const redco_user_pipeline_file *f, const json_t *const *examples,
                                         uint32_t count, void *const *data, redco_error *err)
{
    const char *const before = redcoi_enter(f->calls, "collate()");
    const redco_status st = f->table->collate(examples, count, data, err);
    redcoi_leave(f->calls, before);
    return st;
}

double redco_user_pipeline_weigh(const redco_user_pipeline_file *f, const json_t *example)
{
    const char *const before = redcoi_enter(f->calls, "weight()");
    const double weight = f->table->weight(example);
    redcoi_leave(f->calls, before);
    return weight;
}

double redco_user_pipeline_judge(const redco_user_pipeline_file *f, const json_t *example, const json_t *prediction)
{
    const char *const before = redcoi_enter(f->calls, "metric()");
    const double metric = f->table->metric(example, prediction);
    redcoi_leave(f->calls, before);
    return metric;
}

json_t *redco_user_pipeline_output(const redco_user_pipeline_file *f, const json_t *example, const double *values,
                                   uint32_t count)
{
    const char *const before = redcoi_enter(f->calls, "output()");
    json_t *const output = f->table->output(example, values, count);
    redcoi_leave(f->calls, before);
    return output;
}

redco_status redco_user_pipeline_collect(const redco_user_pipeline_file *f, redco_user_collector *collector,
                                         redco_error *err)
{
    const char *const before = redcoi_enter(f->calls, "collect()");
    const redco_status st = f->table->collect(collector, err);
    redcoi_leave(f->calls, before);
    return st;
}

json_t *redco_user_pipeline_report(const redco_user_pipeline_file *f, const redco_user_run *run)
{
    if (f->table->report == NULL) { return NULL; }
    const char *const before = redcoi_enter(f->calls, "report()");
    json_t *const report = f->table->report(run);
    redcoi_leave(f->calls, before);
    return report;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3; /* FNV-1a */
}

/* All that a function is given. */
static uint64_t digest_of(const redco_scope *scope, redco_value built, const char *function)
{
    uint64_t hash = mixed(redco_graph_digest(scope->graph), built);
    for (const char *at = function; *at != '\0'; at++) { hash = mixed(hash, (unsigned char)*at); }
    hash = mixed(mixed(hash, scope->compute), scope->training);
    return mixed(mixed(mixed(hash, scope->key), scope->micro_batches), redco_scope_takes_gradients(scope));
}

/* Two calls that start from one graph must make one graph. */
static void compare(const redco_user_pipeline_file *f, redco_scope *scope, const redcoi_built *built)
{
    redcoi_calls *const calls = f->calls;
    for (size_t i = 0; i < calls->built_count; i++) {
        if (calls->built[i].from != built->from) { continue; }
        if (calls->built[i].made == built->made) { return; }
        (void)redco_fail(
            &scope->error, REDCO_EVALUE, f->path,
            "its functions built another graph when they were called again; what they build must depend on "
            "their arguments alone");
        return;
    }
    if (calls->built_count == calls->built_room) {
        const size_t room = 2 * calls->built_room + 16;
        redcoi_built *const more = realloc(calls->built, room * sizeof *more);
        if (more == NULL) { return; } /* this one is not compared */
        calls->built = more;
        calls->built_room = room;
    }
    calls->built[calls->built_count++] = *built;
}

/* All operators are the one layer's product, which the simulator has. */
static redco_value build(const redco_user_pipeline_file *f, redco_scope *scope, const char *function,
                         redco_value (*call)(const redco_user_pipeline *table, redco_scope *scope))
{
    char builder[100];
    redcoi_built built = {digest_of(scope, REDCO_NO_VALUE, function), 0};
    (void)snprintf(builder, sizeof builder, "%.80s: %s", f->table->name, function);
    scope->owner = f;
    redco_graph_set_builder(scope->graph, builder);
    redco_graph_set_layer(scope->graph, REDCOI_PIPELINE_LAYER);
    redco_graph_set_role(scope->graph, REDCO_OP_ROLE_GRAPH);
    redco_graph_hold_label(scope->graph, true); /* a language model sets labels, too */
    const char *const before = redcoi_enter(f->calls, function);
    const redco_value value = call(f->table, scope);
    redcoi_leave(f->calls, before);
    redco_graph_hold_label(scope->graph, false);
    redco_graph_set_builder(scope->graph, "");
    built.made = digest_of(scope, value, function);
    compare(f, scope, &built);
    return value;
}

static redco_value call_loss(const redco_user_pipeline *table, redco_scope *scope)
{
    return table->loss(scope, NULL);
}

static redco_value call_step(const redco_user_pipeline *table, redco_scope *scope)
{
    return table->step(scope, NULL);
}

static redco_value call_predict(const redco_user_pipeline *table, redco_scope *scope)
{
    return table->predict(scope);
}

redco_value redcoi_pipeline_loss(redco_scope *scope, const void *context)
{
    return build(context, scope, "loss()", call_loss);
}

redco_value redcoi_pipeline_step(redco_scope *scope, const void *context)
{
    return build(context, scope, "step()", call_step);
}

redco_value redco_user_pipeline_predict(const redco_user_pipeline_file *f, redco_scope *scope)
{
    return build(f, scope, "predict()", call_predict);
}
