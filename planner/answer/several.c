#include "planner/answer/several.h"

#include "planner/answer/priced.h"
#include "planner/answer/weigh.h"
#include "planner/search/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENGINES = REDCO_MOST_RIVALS + 1 };

static redco_status list_new(uint32_t most, redco_answer_list **list_out, redco_error *err)
{
    redco_answer_list *const list = calloc(1, sizeof *list);
    redco_answer_row *const rows = calloc(most, sizeof *rows);
    if (list == NULL || rows == NULL) {
        free(list);
        free(rows);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    list->rows = rows;
    list->all_bad = true;
    *list_out = list;
    return REDCO_OK;
}

void redco_answer_list_free(redco_answer_list *list)
{
    if (list == NULL) { return; }
    for (uint32_t i = 0; i < list->count; i++) {
        redco_answer_row *const row = &list->rows[i];
        redco_plan_free(row->plan);
        redco_search_result_free(row->result);
        if (row->inputs != NULL) { redco_inputs_free(row->inputs); }
        free(row->inputs);
    }
    free(list->rows);
    free(list);
}

double redco_answer_tokens(const redco_answer_row *row)
{
    return row->best != NULL ? row->best->prediction.tokens_per_s_per_gpu : 0.0;
}

static int compare_rows(const void *left, const void *right)
{
    const redco_answer_row *const l = left, *const r = right;
    const double a = redco_answer_tokens(l), b = redco_answer_tokens(r);
    return a > b ? -1 : a < b ? 1 : strcmp(l->name, r->name);
}

void redco_answer_list_sort(redco_answer_list *list)
{
    qsort(list->rows, list->count, sizeof list->rows[0], compare_rows);
}

static redco_answer_row *append(redco_answer_list *list, const char *name, uint64_t gpus,
                                const redco_search_options *options)
{
    redco_answer_row *const row = &list->rows[list->count++];
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    row->gpus = gpus;
    row->options = *options;
    return row;
}

static uint64_t gpus_of(const redco_inputs *inputs)
{
    return (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
}

static void weigh_mfu(redco_answer_row *row, const redco_inputs *inputs)
{
    char mfu[sizeof row->beyond];
    const size_t used = strlen(row->beyond);
    (void)redco_inputs_beyond_mfu(inputs, &row->options.workload, row->best->prediction.mfu, mfu, sizeof mfu);
    if (mfu[0] != '\0') {
        (void)snprintf(row->beyond + used, sizeof row->beyond - used, "%s%s", used > 0 ? ", " : "", mfu);
    }
}

/* Tells of the row and of its plan, if any, whether measured runs stand behind them. */
static void describe(redco_answer_row *row, const redco_inputs *inputs, const redco_weighed *weighed)
{
    (void)snprintf(row->beyond, sizeof row->beyond, "%s", weighed->beyond);
    if (row->options.objective == REDCO_OBJECTIVE_COMM) { return; }
    weigh_mfu(row, inputs);
    if (row->plan != NULL && weighed->evidence != NULL) {
        row->plan->evidence =
            redco_evidence_describe(weighed->evidence, inputs, row->options.workload.seq_len, &row->best->parallelism);
    }
}

/* Weighs the best of what was found and makes its plan.
 * @param assembler  NULL: no plan; else one to use, or to make */
static redco_status complete(redco_answer_row *row, const redco_inputs *inputs, const char *strategy,
                             redco_assembler **assembler, redco_error *err)
{
    redco_weighed weighed;
    redco_status st = redco_weigh(inputs, &row->options, row->result, &weighed, err);
    row->best = &row->result->ranked[0];
    if (assembler != NULL && *assembler == NULL && st == REDCO_OK) {
        st = redco_assembler_create(inputs, &row->options, REDCO_VERSION, assembler, err);
    }
    if (assembler != NULL && st == REDCO_OK) {
        st = redco_plan_assemble(*assembler, row->result, row->best, strategy, &row->plan, err);
    }
    if (st == REDCO_OK) { describe(row, inputs, &weighed); }
    redco_weighed_free(&weighed);
    return st;
}

/* Searches. @param strategy   of the plan
 * @param assembler  NULL: no plans; else one to make and reuse, or to make anew */
static redco_status answer_row(redco_answer_list *list, redco_answer_row *row, const redco_inputs *inputs,
                               const char *strategy, redco_assembler **assembler, redco_error *err)
{
    redco_error why = {0};
    redco_assembler *own = NULL;
    const redco_search_options asked = row->options;
    redco_status st = redco_options_executable(&asked, inputs, &why);
    if (st == REDCO_OK) { st = redco_search_answer(inputs, &row->options, &row->result, &why); }
    if (st == REDCO_EVALUE) {
        row->bad = why;
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    list->all_bad = false;
    if (row->result->ranked_count == 0) { return REDCO_OK; }
    list->any_fits = true;
    const bool same = row->options.workload.engine.partial_recompute == asked.workload.engine.partial_recompute &&
                      row->options.tp_placement == asked.tp_placement;
    st = complete(row, inputs, strategy, assembler == NULL ? NULL : same ? assembler : &own, err);
    redco_assembler_free(own);
    return st;
}

/* Hands the list over, or frees it. */
static redco_status finish(redco_status st, redco_answer_list *list, redco_answer_list **list_out)
{
    if (st != REDCO_OK) {
        redco_answer_list_free(list);
    } else {
        *list_out = list;
    }
    return st;
}

/* Named strategies that the engine has are points of the whole space: none of them beats the optimum. */
static redco_status lead_with_best(redco_answer_list *list, const redco_inputs *inputs, redco_assembler **assembler,
                                   redco_error *err)
{
    redco_answer_row *const first = &list->rows[0];
    redco_strategy lacked[REDCO_STRATEGY_COUNT];
    const uint32_t count = redco_strategies_lacked(&first->options, lacked);
    redco_status st = REDCO_OK;
    bool moved = false;
    for (uint32_t i = 1; i < list->count && st == REDCO_OK && first->result != NULL; i++) {
        const redco_answer_row *const row = &list->rows[i];
        bool has = row->best != NULL && row->options.strategy != REDCO_STRATEGY_AMSP;
        for (uint32_t k = 0; k < count && has; k++) { has = row->options.strategy != lacked[k]; }
        if (!has || !redco_answer_beaten(&first->options, row->best, first->result)) { continue; }
        st = redco_answer_adopt(&first->options, row->best, first->result, err);
        first->options.workload = row->options.workload;         /* recomputation may be of half layers, */
        first->options.tp_placement = row->options.tp_placement; /* and the rules better than GLPK's layouts */
        moved = true;
    }
    if (st != REDCO_OK || !moved) { return st; }
    list->any_fits = true;
    redco_plan_free(first->plan);
    first->plan = NULL;
    if (assembler != NULL) {
        redco_assembler_free(*assembler);
        *assembler = NULL;
    }
    return complete(first, inputs, first->name, assembler, err);
}

redco_status redco_answer_strategies(const redco_question *question, const redco_inputs *inputs, bool plans,
                                     redco_answer_list **list_out, redco_error *err)
{
    redco_answer_list *list = NULL;
    redco_assembler *shared = NULL;
    redco_search_options options = question->options;
    redco_status st = list_new(REDCO_STRATEGY_COUNT, &list, err);
    for (int i = REDCO_STRATEGY_ANY; i < REDCO_STRATEGY_COUNT && st == REDCO_OK; i++) {
        options.strategy = (redco_strategy)i;
        options.verify = question->options.verify && i == REDCO_STRATEGY_ANY;
        const char *const name = i == REDCO_STRATEGY_ANY ? "optimum" : redco_question_name(&options);
        st = answer_row(list, append(list, name, gpus_of(inputs), &options), inputs, name, plans ? &shared : NULL, err);
    }
    if (st == REDCO_OK) { st = lead_with_best(list, inputs, plans ? &shared : NULL, err); }
    redco_assembler_free(shared);
    return finish(st, list, list_out);
}

/* Answers a question with inputs of its own, which the row owns then. A case that machine or model rule out is bad. */
static redco_status answer_inputs(redco_answer_list *list, redco_answer_row *row, redco_question *question,
                                  redco_inputs *inputs, bool plans, redco_error *err)
{
    redco_assembler *own = NULL;
    redco_error why = {0};
    row->inputs = inputs;
    row->gpus = gpus_of(inputs);
    redco_status st = redco_question_settle(question, inputs, &why);
    if (st == REDCO_EVALUE) {
        row->bad = why;
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    row->options = question->options;
    st = answer_row(list, row, inputs, redco_question_name(&row->options), plans ? &own : NULL, err);
    redco_inputs_forget(inputs);
    row->options.given.split = NULL; /* the candidates have it */
    redco_assembler_free(own);
    return st;
}

/* Each size is a question of its own, whose engine is chosen for it. */
static redco_status answer_size(const redco_question *question, const redco_inputs *read, uint64_t gpus, bool plans,
                                redco_answer_list *list, redco_error *err)
{
    redco_question one = *question;
    redco_answer_row *const row = append(list, redco_question_name(&question->options), gpus, &question->options);
    redco_inputs *const inputs = calloc(1, sizeof *inputs);
    if (inputs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    one.gpus = gpus;
    one.size_count = 0;
    redco_error why = {0};
    const redco_status st = redco_question_read_like(&one, read, inputs, &why);
    if (st == REDCO_OK) { return answer_inputs(list, row, &one, inputs, plans, err); }
    free(inputs);
    row->bad = why;
    return st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
}

static redco_status answer_cluster(const redco_question *question, const char *cluster, bool plans,
                                   redco_answer_list *list, redco_error *err)
{
    redco_question one = *question;
    redco_answer_row *const row = append(list, cluster, question->gpus, &question->options);
    redco_inputs *const inputs = calloc(1, sizeof *inputs);
    if (inputs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    one.names.cluster = cluster;
    const redco_status st = redco_question_read(&one, inputs, err);
    if (st == REDCO_OK) { return answer_inputs(list, row, &one, inputs, plans, err); }
    free(inputs);
    return st;
}

redco_status redco_answer_clusters(const redco_question *question, const char *const *clusters, uint32_t count,
                                   bool plans, redco_answer_list **list_out, redco_error *err)
{
    redco_answer_list *list = NULL;
    redco_status st = list_new(count, &list, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = answer_cluster(question, clusters[i], plans, list, err);
    }
    return finish(st, list, list_out);
}

redco_status redco_answer_sizes(const redco_question *question, const redco_inputs *inputs, bool plans,
                                redco_answer_list **list_out, redco_error *err)
{
    redco_answer_list *list = NULL;
    redco_status st = list_new(REDCO_MOST_SIZES, &list, err);
    for (uint32_t i = 0; i < question->size_count && st == REDCO_OK; i++) {
        st = answer_size(question, inputs, question->sizes[i], plans, list, err);
    }
    return finish(st, list, list_out);
}

/* @param engine  as --engine has it; NULL: the default */
static redco_status answer_engine(const redco_question *question, const redco_inputs *read, const char *engine,
                                  const char *name, bool plans, redco_answer_list *list, redco_error *err)
{
    redco_input_names names = question->names;
    redco_assembler *own = NULL;
    redco_answer_row *const row = append(list, name, gpus_of(read), &question->options);
    redco_inputs *const inputs = calloc(1, sizeof *inputs);
    if (inputs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    names.engine = engine;
    redco_status st = redco_inputs_read_like(read, &names, 0, inputs, err);
    if (st != REDCO_OK) {
        free(inputs);
        return st;
    }
    row->inputs = inputs;
    redco_inputs_use_engine(inputs, &row->options);
    st = answer_row(list, row, inputs, redco_question_name(&row->options), plans ? &own : NULL, err);
    redco_assembler_free(own);
    return st;
}

redco_status redco_answer_engines(const redco_question *question, const redco_inputs *inputs, bool plans,
                                  redco_answer_list **list_out, redco_error *err)
{
    const char *const usual = inputs->engine.engine.name;
    redco_answer_list *list = NULL;
    redco_status st = list_new(MOST_ENGINES, &list, err);
    if (st == REDCO_OK) { st = answer_engine(question, inputs, question->names.engine, usual, plans, list, err); }
    const char *rivals[REDCO_MOST_RIVALS];
    uint32_t count = 0;
    if (st == REDCO_OK) { st = redco_engine_rivals(inputs, true, rivals, &count, err); }
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = answer_engine(question, inputs, rivals[i], rivals[i], plans, list, err);
    }
    return finish(st, list, list_out);
}

uint32_t redco_strategies_lacked(const redco_search_options *options, redco_strategy lacked_out[REDCO_STRATEGY_COUNT])
{
    uint32_t count = 0;
    for (int i = REDCO_STRATEGY_DDP; i < REDCO_STRATEGY_COUNT && options->allows.states != 0; i++) {
        if (!redco_strategy_offered(options->allows.states, (redco_strategy)i)) {
            lacked_out[count++] = (redco_strategy)i;
        }
    }
    return count;
}
