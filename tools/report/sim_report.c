#include "tools/report/sim_report.h"

#include "tools/cli/text_table.h"

#include <stdio.h>

#define DOT " \xc2\xb7 "

enum { SHORT = 64 };

static const redco_work computation[] = {REDCO_WORK_FORWARD, REDCO_WORK_RECOMPUTE, REDCO_WORK_BACKWARD,
                                         REDCO_WORK_NORM,    REDCO_WORK_OPTIMIZER, REDCO_WORK_LAUNCH,
                                         REDCO_WORK_OVERHEAD};
static const redco_work communication[] = {
    REDCO_WORK_TENSOR, REDCO_WORK_CONTEXT, REDCO_WORK_EXCHANGE, REDCO_WORK_GATHER,   REDCO_WORK_SCATTER,
    REDCO_WORK_SHARD,  REDCO_WORK_REDUCE,  REDCO_WORK_UPDATE,   REDCO_WORK_PIPELINE, REDCO_WORK_NORM_REDUCE};
enum {
    COMPUTATIONS = sizeof computation / sizeof computation[0],
    COMMUNICATIONS = sizeof communication / sizeof communication[0]
};

/* A smaller share would be shown as 0.0 %. */
static const double least_ratio = 5e-4;

/* Words for a kind of work. */
static const char *words_of(redco_work work)
{
    switch (work) {
    case REDCO_WORK_FORWARD: return "forward";
    case REDCO_WORK_RECOMPUTE: return "recomputation";
    case REDCO_WORK_BACKWARD: return "backward";
    case REDCO_WORK_NORM: return "gradient norm";
    case REDCO_WORK_OPTIMIZER: return "optimizer";
    case REDCO_WORK_LAUNCH: return "launching collectives";
    case REDCO_WORK_OVERHEAD: return "overhead";
    case REDCO_WORK_TENSOR: return "tensor parallel";
    case REDCO_WORK_CONTEXT: return "context parallel";
    case REDCO_WORK_EXCHANGE: return "expert exchange";
    case REDCO_WORK_GATHER: return "parameter gathers";
    case REDCO_WORK_SCATTER: return "gradient scatters";
    case REDCO_WORK_SHARD: return "gradient shards";
    case REDCO_WORK_REDUCE: return "gradient reduction";
    case REDCO_WORK_UPDATE: return "parameter update";
    case REDCO_WORK_PIPELINE: return "pipeline transfers";
    case REDCO_WORK_NORM_REDUCE: return "norm reduction";
    default: return "";
    }
}

/* Idle while other stages compute. */
static double bubble_s(const redco_account *account)
{
    double seconds = 0.0;
    for (int i = 0; i < COMPUTATIONS; i++) { seconds += account->waiting_s[computation[i]]; }
    return seconds;
}

static void print_overlap(uint32_t overlap)
{
    const char *between = "";
    (void)printf(DOT "overlap ");
    for (uint32_t i = 0; redco_overlap_words[i] != NULL; i++) {
        if ((overlap >> i & 1) == 0) { continue; }
        (void)printf("%s%s", between, redco_overlap_words[i]);
        between = ",";
    }
    (void)printf("%s\n", between[0] == '\0' ? "none" : "");
}

static void print_header(const struct sim_answer *a)
{
    const redco_plan *const plan = a->plan;
    const redco_simulation *const s = &a->simulation;
    const redco_plan_case *const c = a->reopened;
    char time[SHORT], closed[SHORT], tokens[SHORT], change[SHORT], gpus[SHORT];
    (void)printf("%s" DOT "%s, %s %s" DOT "%s" DOT "tp %u", plan->model_name, plan->cluster_name,
                 format_gpus(plan->nodes, plan->gpus_per_node, c->inputs.machine.whole_node_gpus, gpus, sizeof gpus),
                 plan->gpu_name, plan->strategy, plan->parallelism.tp);
    if (plan->parallelism.pp > 1) { (void)printf(" pp %u", plan->parallelism.pp); }
    if (a->chunks > 1) { (void)printf(" in %u chunks", a->chunks); }
    if (plan->parallelism.cp > 1) {
        (void)printf(" cp %u (%s)", plan->parallelism.cp, redco_cp_type_words[plan->parallelism.cp_type]);
    }
    (void)printf(DOT "%llu micro-%s of %u", (unsigned long long)plan->parallelism.micro_batches,
                 plan->parallelism.micro_batches == 1 ? "batch" : "batches", plan->parallelism.micro_batch);
    print_overlap(c->workload.overlap);
    (void)printf("\nstep      %s simulated" DOT "%s by the closed form (%s)" DOT "%s %s/s/GPU" DOT "MFU %.3f\n\n",
                 format_time(s->step_s, s->step_s, time, sizeof time),
                 format_time(a->closed.step_s, s->step_s, closed, sizeof closed),
                 format_change(a->closed.step_s / s->step_s - 1.0, change, sizeof change),
                 format_count((uint64_t)(s->tokens_per_s_per_gpu + 0.5), tokens, sizeof tokens),
                 redco_model_graph_work(c->inputs.model) != NULL ? "examples" : "tokens", s->mfu);
    if (s->mfu > 1.0) { (void)printf("          %s\n\n", mfu_note(s->mfu)); }
}

static void share_row(struct table *table, const char *name, double seconds, double step_s, double critical_s)
{
    char time[SHORT];
    if (seconds < least_ratio * step_s) { return; }
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%s", format_time(seconds, step_s, time, sizeof time));
    table_cell(table, "%.1f %%", 100.0 * seconds / step_s);
    table_cell(table, "%.1f %%", 100.0 * critical_s / step_s);
}

/* The compute stream of the busiest rank, in parts that add up to the step. */
static bool print_time(const struct sim_answer *a)
{
    const redco_simulation *const s = &a->simulation;
    const redco_account *const account = &s->account;
    char name[SHORT];
    struct table *const table = table_new("lrrr");
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "where the time goes");
    table_cell(table, "%s", "");
    table_cell(table, "of the step");
    table_cell(table, "critical path");
    for (int i = 0; i < COMPUTATIONS; i++) {
        share_row(table, words_of(computation[i]), account->busy_s[computation[i]], s->step_s,
                  s->critical_s[computation[i]]);
    }
    share_row(table, "slowed by communication", account->contention_s, s->step_s, 0.0);
    for (int i = 0; i < COMMUNICATIONS; i++) {
        (void)snprintf(name, sizeof name, "waiting for %s", words_of(communication[i]));
        share_row(table, name, account->waiting_s[communication[i]], s->step_s, s->critical_s[communication[i]]);
    }
    share_row(table, "waiting for other stages", bubble_s(account), s->step_s, 0.0);
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    (void)printf("\n");
    return whole;
}

static bool print_communication(const struct sim_answer *a)
{
    const redco_simulation *const s = &a->simulation;
    struct table *const table = table_new("lrrr");
    bool any = false;
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "communication");
    table_cell(table, "alone");
    table_cell(table, "exposed");
    table_cell(table, "hidden");
    for (int i = 0; i < COMMUNICATIONS; i++) {
        char busy[SHORT], exposed[SHORT];
        const double busy_s = s->account.busy_s[communication[i]], waiting_s = s->account.waiting_s[communication[i]];
        if (busy_s < least_ratio * s->step_s) { continue; }
        any = true;
        table_row(table);
        table_cell(table, "%s", words_of(communication[i]));
        table_cell(table, "%s", format_time(busy_s, s->step_s, busy, sizeof busy));
        table_cell(table, "%s", format_time(waiting_s, s->step_s, exposed, sizeof exposed));
        table_cell(table, "%.0f %%", waiting_s < busy_s ? 100.0 * (1.0 - waiting_s / busy_s) : 0.0);
    }
    const bool whole = !any || table_print(table, "  ", stdout);
    table_free(table);
    if (any) { (void)printf("\n"); }
    return whole;
}

static void print_energy(const struct sim_answer *a)
{
    const redco_energy energy = redco_costs_energy(a->reopened->costs, a->closed.dynamic_j, a->simulation.step_s);
    char step[SHORT], token[SHORT];
    if (!(energy.energy_j > 0.0)) { return; }
    (void)printf("energy    %s a step" DOT "%s a token" DOT "%.0f W a GPU\n",
                 format_joules(energy.energy_j, step, sizeof step),
                 format_joules(energy.energy_j_per_token, token, sizeof token), energy.watts_per_gpu);
}

static void print_memory(const struct sim_answer *a)
{
    const redco_memory_peak *const peak = &a->simulation.peak;
    char total[SHORT], capacity[SHORT], part[SHORT];
    const char *between = " ";
    (void)printf("memory    %s of %s GB at the peak", format_gigabytes((double)peak->bytes, total, sizeof total),
                 format_gigabytes((double)a->closed.capacity_bytes, capacity, sizeof capacity));
    if (a->plan->parallelism.pp > 1) { (void)printf(", on stage %u", a->simulation.peak_rank); }
    if (a->simulation.peak_name[0] != '\0') { (void)printf(", when %s begins", a->simulation.peak_name); }
    (void)printf("\n         ");
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        if (peak->held_bytes[h] == 0) { continue; }
        (void)printf("%s%s %s", between, redco_memory_category_name((redco_memory_category)h),
                     format_gigabytes((double)peak->held_bytes[h], part, sizeof part));
        between = DOT;
    }
    (void)printf(" GB\n");
}

bool sim_report(const struct sim_answer *answer)
{
    char operators[SHORT];
    const redco_simulation *const s = &answer->simulation;
    print_header(answer);
    if (!print_time(answer) || !print_communication(answer)) { return false; }
    print_energy(answer);
    print_memory(answer);
    (void)printf("simulated %s operators", format_count(s->operators, operators, sizeof operators));
    if (s->represented_operators > s->operators) {
        (void)printf(" that stand for %s", format_count(s->represented_operators, operators, sizeof operators));
    }
    (void)printf(
        " of %llu %s%s; checked: streams, inputs, critical path\n", (unsigned long long)s->simulated_micro_batches,
        s->simulated_micro_batches == 1 ? "micro-batch" : "micro-batches",
        s->simulated_micro_batches < answer->plan->parallelism.micro_batches ? ", which the others repeat" : "");
    return true;
}

static json_t *seconds_json(const redco_work *works, int count, const double seconds[REDCO_WORK_COUNT])
{
    json_t *const object = json_object();
    char key[SHORT];
    for (int i = 0; i < count && object != NULL; i++) {
        (void)snprintf(key, sizeof key, "%s_s", redco_work_name(works[i]));
        (void)json_object_set_new(object, key, json_real(seconds[works[i]]));
    }
    return object;
}

static json_t *critical_json(const double critical_s[REDCO_WORK_COUNT])
{
    json_t *const path = seconds_json(computation, COMPUTATIONS, critical_s);
    json_t *const rest = seconds_json(communication, COMMUNICATIONS, critical_s);
    (void)json_object_update(path, rest);
    json_decref(rest);
    return path;
}

static json_t *time_json(const redco_account *account)
{
    json_t *const time = seconds_json(computation, COMPUTATIONS, account->busy_s);
    json_t *const waiting = seconds_json(communication, COMMUNICATIONS, account->waiting_s);
    (void)json_object_set_new(waiting, "other_stages_s", json_real(bubble_s(account)));
    (void)json_object_set_new(time, "contention_s", json_real(account->contention_s));
    (void)json_object_set_new(time, "waiting", waiting);
    return time;
}

static json_t *memory_json(const struct sim_answer *a)
{
    const redco_memory_peak *const peak = &a->simulation.peak;
    json_t *const held = json_object();
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        (void)json_object_set_new(held, redco_memory_category_name((redco_memory_category)h),
                                  json_integer((json_int_t)peak->held_bytes[h]));
    }
    return json_pack("{s:I,s:I,s:i,s:f,s:s,s:o}", "peak_bytes", (json_int_t)peak->bytes, "capacity_bytes",
                     (json_int_t)a->closed.capacity_bytes, "stage", (int)a->simulation.peak_rank, "time_s",
                     peak->time_s, "operator", a->simulation.peak_name, "held_bytes", held);
}

static json_t *overlap_json(uint32_t overlap)
{
    json_t *const array = json_array();
    for (uint32_t i = 0; redco_overlap_words[i] != NULL; i++) {
        if ((overlap >> i & 1) != 0) { (void)json_array_append_new(array, json_string(redco_overlap_words[i])); }
    }
    return array;
}

static json_t *known_json(double value)
{
    return value > 0.0 ? json_real(value) : json_null();
}

json_t *sim_json(const struct sim_answer *answer)
{
    const redco_simulation *const s = &answer->simulation;
    const redco_energy energy = redco_costs_energy(answer->reopened->costs, answer->closed.dynamic_j, s->step_s);
    json_t *const simulated =
        json_pack("{s:I,s:I,s:I,s:I}", "operators", (json_int_t)s->operators, "represented_operators",
                  (json_int_t)s->represented_operators, "micro_batches", (json_int_t)s->simulated_micro_batches,
                  "of_micro_batches", (json_int_t)answer->plan->parallelism.micro_batches);
    return json_pack("{s:s,s:i,s:o,s:i,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:o}", "format",
                     "redco-simulation", "version", 1, "overlap", overlap_json(answer->reopened->workload.overlap),
                     "chunks", (int)answer->chunks, "step_s", s->step_s, "closed_form_step_s", answer->closed.step_s,
                     "tokens_per_s_per_gpu", s->tokens_per_s_per_gpu, "mfu", s->mfu, "energy_j",
                     known_json(energy.energy_j), "energy_j_per_token", known_json(energy.energy_j_per_token),
                     "watts_per_gpu", known_json(energy.watts_per_gpu), "compute_s", s->compute_s, "exposed_comm_s",
                     s->exposed_comm_s, "bubble_s", s->bubble_s, "time", time_json(&s->account), "communication",
                     seconds_json(communication, COMMUNICATIONS, s->account.busy_s), "critical_path",
                     critical_json(s->critical_s), "memory", memory_json(answer), "simulated", simulated);
}
