/* A planner of one's own:  cc example.c $(pkg-config --cflags --libs redco)
 * With the name of a file it writes the plans of its questions there: NAME.0 and so on. */
#include <redco.h>

#include <stdio.h>

enum { QUESTIONS = 4 };

/* The questions that run.sh asks redco-plan, too. */
static redco_question ask(int index)
{
    redco_question question = redco_question_default();
    question.names.cluster = "dgx-h100";
    question.names.model = "llama-3-8b";
    question.gpus = 64;
    switch (index) {
    case 1: /* a fixed degree whose tensors GLPK places: sequence parallelism and the rules are tried, too */
        question.options.given.tp = 8;
        question.options.tp_placement = REDCO_TP_MILP;
        question.options.tp_placement_fixed = true;
        break;
    case 2: question.try_engines = true; break;
    case 3:
        question.options.strategy = REDCO_STRATEGY_ZERO3;
        question.options.given.tp = 4;
        break;
    default: break;
    }
    return question;
}

static redco_status answer(int index, const char *name, redco_error *err)
{
    redco_question question = ask(index);
    redco_inputs inputs = {0};
    redco_answer found = {0};
    char path[4096];
    redco_status st = redco_question_read(&question, &inputs, err);
    if (st != REDCO_OK) { return st; }
    st = redco_question_settle(&question, &inputs, err);
    if (st == REDCO_OK) { st = redco_answer_find(&question, &inputs, 0, &found, err); }
    if (st == REDCO_OK && found.plan == NULL) {
        (void)printf("nothing fits: %s\n", found.result->shortfall.cheapest_change);
    } else if (st == REDCO_OK) {
        const redco_plan_predicted *predicted = &found.plan->predicted;
        (void)printf("%s on %s: tp %u, %.3g s a step, %.0f tokens/s/GPU\n", found.plan->model_name,
                     found.plan->cluster_name, found.plan->parallelism.tp, predicted->step_s,
                     predicted->tokens_per_s_per_gpu);
        (void)snprintf(path, sizeof path, "%s.%d", name != NULL ? name : "", index);
        if (name != NULL) { st = redco_plan_write(found.plan, path, err); }
    }
    redco_answer_free(&found);
    redco_inputs_free(&inputs);
    return st;
}

int main(int argc, char **argv)
{
    redco_error err = {0};
    redco_status st = REDCO_OK;
    for (int i = 0; i < QUESTIONS && st == REDCO_OK; i++) { st = answer(i, argc > 1 ? argv[1] : NULL, &err); }
    if (st != REDCO_OK) { (void)fprintf(stderr, "%s: %s\n", err.place, err.text); }
    return st == REDCO_OK ? 0 : 1;
}
