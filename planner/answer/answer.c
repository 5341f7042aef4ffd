#include "planner/answer/answer.h"

#include "costmodel/simulator/simulate.h"
#include "planner/answer/priced.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool fits(const redco_search_result *result)
{
    return result->ranked_count > 0;
}

static double step_under(redco_costs *costs, const redco_inputs *inputs, const redco_candidate *best,
                         redco_tp_placement placement)
{
    redco_candidate under = *best;
    if (redco_tp_attach(costs, inputs->model, placement, inputs->tp_rules, NULL) != REDCO_OK ||
        redco_candidate_price(costs, &under, NULL) != REDCO_OK) {
        return (double)NAN;
    }
    return under.prediction.step_s;
}

static redco_status compare_layouts(const redco_inputs *inputs, redco_answer *answer, redco_error *err)
{
    const redco_candidate *const best = &answer->result->ranked[0];
    redco_layout_gain *const gain = &answer->layouts;
    redco_costs *costs = NULL;
    redco_error why = {0};
    gain->sequence_parallel = best->parallelism.sequence_parallel;
    if (best->parallelism.tp <= 1 || !redco_model_lays_out(inputs->model)) { return REDCO_OK; }
    redco_status st = redco_costs_create(&inputs->machine, inputs->model, &answer->options.workload,
                                         &inputs->calibration, inputs->comm, &costs, err);
    if (st != REDCO_OK) { return st; }
    st = redco_tp_compare(costs, inputs->model, inputs->tp_rules, &best->parallelism, &gain->layers, &why);
    if (st == REDCO_OK) {
        gain->rules_step_s = step_under(costs, inputs, best, inputs->tp_rules != NULL ? REDCO_TP_USER : REDCO_TP_RULES);
        gain->milp_step_s = step_under(costs, inputs, best, REDCO_TP_MILP);
        gain->known = isfinite(gain->rules_step_s) && isfinite(gain->milp_step_s);
    }
    redco_costs_free(costs);
    /* Rules go on without a model of the layers. */
    if (st == REDCO_EVALUE && answer->options.tp_placement != REDCO_TP_MILP) { return REDCO_OK; }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

static uint64_t gpus_of(const redco_inputs *inputs)
{
    return (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
}

static redco_status explain(const redco_question *question, const redco_inputs *inputs, uint32_t wants,
                            redco_answer *answer, redco_error *err)
{
    const redco_search_options *const options = &answer->options;
    redco_status st = REDCO_OK;
    if (redco_options_fixed(options)) {
        redco_search_options freed = redco_options_freed(options);
        freed.cp_types = inputs->engine.cp_types;
        answer->free_leaves_out =
            redco_search_leaves_out(&inputs->machine, &freed, &answer->result->ranked[0].parallelism);
        /* T_comm has tp = 1 where it is free, and the batch need not divide then. */
        redco_error why = {0};
        st = redco_question_ask(question, inputs, gpus_of(inputs), &freed, NULL, &answer->free_result, &why);
        if (st != REDCO_OK && st != REDCO_EVALUE) { return redco_fail(err, st, why.place, "%s", why.text); }
        st = REDCO_OK;
        const char *const other = redco_question_other_engine(inputs, &freed);
        (void)snprintf(answer->free_engine, sizeof answer->free_engine, "%s", other == NULL ? "" : other);
    }
    if ((wants & REDCO_ANSWER_LAYOUTS) != 0 && (st = compare_layouts(inputs, answer, err)) != REDCO_OK) { return st; }
    /* AMSP's T_comm knows neither memory nor compute, and its times are as measured, so there help has no meaning. */
    if ((wants & REDCO_ANSWER_HELP) != 0 && options->objective == REDCO_OBJECTIVE_STEP_TIME) {
        if ((st = redco_would_help(inputs, options, answer->result, answer->help, err)) != REDCO_OK) { return st; }
        answer->helped = true;
    }
    return st;
}

/* A question that a remedy is tried for. */
struct asked {
    const redco_question *question;
    const redco_inputs *inputs;
};

/* A remedy is asked as its user will ask it. Where the cluster has not so many nodes, the sentence says so. */
static bool would_fit(void *context, const redco_machine *machine, const redco_search_options *options,
                      redco_remedy *remedy)
{
    const struct asked *const asked = context;
    redco_search_options changed = *options;
    redco_search_result *found = NULL;
    redco_error why = {0};
    const uint64_t gpus = (uint64_t)machine->nodes * machine->gpus_per_node; /* with the remedy */
    if (machine->most_nodes > 0 && machine->nodes > machine->most_nodes) { return true; }
    changed.pass.would_fit = NULL;
    changed.pass.no_remedies = true;
    changed.verify = false;
    changed.pass.brief = true;
    changed.top = 1;
    if (redco_question_ask(asked->question, asked->inputs, gpus, &changed, NULL, &found, &why) != REDCO_OK) {
        return false;
    }
    const bool any = found->ranked_count > 0;
    if (any) {
        remedy->total_bytes = found->ranked[0].prediction.total_bytes;
        remedy->step_s = found->ranked[0].prediction.step_s;
    }
    redco_search_result_free(found);
    return any;
}

redco_status redco_answer_find(const redco_question *question, const redco_inputs *inputs, uint32_t wants,
                               redco_answer *answer_out, redco_error *err)
{
    redco_search_options options = question->options;
    struct asked asked = {question, inputs};
    *answer_out = (redco_answer){.inputs = inputs, .options = options};
    options.pass.would_fit = would_fit;
    options.pass.would_fit_context = &asked;
    redco_status st = redco_search_answer(inputs, &options, &answer_out->result, err);
    answer_out->options.workload = options.workload;
    answer_out->rules_taken = options.tp_placement != question->options.tp_placement;
    answer_out->options.tp_placement = options.tp_placement;
    if (st != REDCO_OK || !fits(answer_out->result)) { return st; }
    st = redco_weigh(inputs, &answer_out->options, answer_out->result, &answer_out->weighed, err);
    if (st == REDCO_OK && (wants & REDCO_ANSWER_NEIGHBOURS) != 0) {
        st = redco_neighbours(question, inputs, &answer_out->options, answer_out->result, answer_out->neighbours,
                              &answer_out->neighbour_count, err);
        answer_out->options.workload.engine.partial_recompute = answer_out->result->ranked[0].half;
    }
    if (st != REDCO_OK) { return st; }
    if ((st = explain(question, inputs, wants, answer_out, err)) != REDCO_OK) { return st; }
    st = redco_assembler_create(inputs, &answer_out->options, REDCO_VERSION, &answer_out->assembler, err);
    return st == REDCO_OK ? redco_answer_plan(answer_out, 0, &answer_out->plan, err) : st;
}

void redco_answer_free(redco_answer *answer)
{
    redco_plan_free(answer->plan);
    redco_assembler_free(answer->assembler);
    redco_search_result_free(answer->free_result);
    redco_weighed_free(&answer->weighed);
    redco_search_result_free(answer->result);
}

static json_t *inside_json(const redco_candidate *inside)
{
    json_t *const json = json_object();
    redco_parallelism shown = inside->parallelism;
    shown.chunks = redco_parallelism_chunks(&shown);
    (void)redco_parallelism_write(&shown, "tp sequence_parallel pp pp_chunks cp micro_batch", json);
    (void)json_object_set_new(json, "step_s", json_real(inside->prediction.step_s));
    (void)json_object_set_new(json, "tokens_per_s_per_gpu", json_real(inside->prediction.tokens_per_s_per_gpu));
    (void)redco_parallelism_write(&shown, "+", json);
    return json;
}

redco_status redco_answer_plan(const redco_answer *answer, uint32_t index, redco_plan **plan_out, redco_error *err)
{
    const redco_candidate *const candidate = &answer->result->ranked[index];
    redco_plan *plan = NULL;
    const redco_status st = redco_plan_assemble(answer->assembler, answer->result, candidate,
                                                redco_question_name(&answer->options), &plan, err);
    if (st != REDCO_OK) { return st; }
    if (answer->weighed.evidence != NULL) {
        plan->evidence = redco_evidence_describe(answer->weighed.evidence, answer->inputs,
                                                 answer->options.workload.seq_len, &candidate->parallelism);
    }
    if (index == 0 && plan->evidence != NULL && answer->weighed.inside != NULL &&
        answer->weighed.inside->ranked_count > 0) {
        (void)json_object_set_new(plan->evidence, "inside", inside_json(&answer->weighed.inside->ranked[0]));
    }
    *plan_out = plan;
    return REDCO_OK;
}

redco_status redco_answer_trace(const redco_answer *answer, const redco_inputs *inputs, redco_trace **trace_out,
                                redco_error *err)
{
    const redco_candidate *const best = &answer->result->ranked[0];
    redco_costs *costs = NULL;
    redco_status st = redco_costs_of(inputs, &answer->options, &costs, err);
    if (st == REDCO_OK) {
        st = redco_simulate_trace(costs, &best->parallelism, best->assignments, best->assignment_count, NULL, trace_out,
                                  err);
    }
    redco_costs_free(costs);
    return st;
}
