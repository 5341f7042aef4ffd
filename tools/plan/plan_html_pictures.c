/* Alternatives that the report compares the choice with, and its pictures as inline SVG. */
#include "tools/plan/plan_html.h"

#include "planner/answer/priced.h"
#include "tools/plan/plan_report.h"

#include <stdlib.h>
#include <string.h>

enum { RANKED = 1000 };

static redco_status ask(const redco_inputs *inputs, const redco_search_options *options,
                        redco_search_result **result_out, redco_error *err)
{
    return redco_search_priced(inputs, options, result_out, err);
}

/* The same question without the name or meshes that were given: every named strategy may answer it. */
static redco_search_options question_of(const struct plan_html *page)
{
    redco_search_options options = page->args->question.options;
    options.strategy = REDCO_STRATEGY_ANY;
    options.fix = (redco_shards){0};
    options.verify = false;
    options.top = 1;
    return options;
}

static redco_status search_named(const struct plan_html *page, struct html_comparison *out, redco_error *err)
{
    redco_search_options options = question_of(page);
    for (int i = REDCO_STRATEGY_ANY + 1; i < REDCO_STRATEGY_COUNT; i++) {
        redco_error why = {0};
        options.strategy = (redco_strategy)i;
        const redco_status st = ask(page->inputs, &options, &out->named[i].result, &why);
        if (st == REDCO_EVALUE) {
            (void)snprintf(out->named[i].reason, sizeof out->named[i].reason, "%.390s", why.text);
        } else if (st != REDCO_OK) {
            return redco_fail(err, st, why.place, "%s", why.text);
        } else if (out->named[i].result->ranked_count == 0) {
            (void)report_reason(&out->named[i].result->shortfall, out->named[i].reason, sizeof out->named[i].reason);
        }
    }
    options.strategy = REDCO_STRATEGY_ANY;
    options.top = RANKED;
    return ask(page->inputs, &options, &out->ranking, err);
}

struct plot_plan html_plan(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *candidate,
                           const char *name, uint64_t gpus)
{
    const redco_prediction *p = &candidate->prediction;
    const redco_workload *workload = &args->question.options.workload;
    return (struct plot_plan){
        .name = name,
        .model = redco_model_name(inputs->model),
        .cluster = redco_cluster_name(inputs->cluster),
        .gpu = inputs->machine.gpu.name,
        .gpus = gpus,
        .seq_len = workload->seq_len,
        .global_batch = workload->global_batch,
        .step_s = p->step_s,
        .tokens_per_s_per_gpu = p->tokens_per_s_per_gpu,
        .mfu = p->mfu,
        .memory_bytes = {(double)p->parameter_bytes, (double)p->gradient_bytes, (double)p->optimizer_bytes,
                         (double)p->activation_bytes, (double)(p->transient_bytes + p->nccl_bytes)},
        .total_bytes = (double)p->total_bytes,
        .capacity_bytes = (double)p->capacity_bytes,
        .time_s = {p->forward_s, p->backward_s, p->recompute_s, p->layer_exposed_s, p->grad_reduce_exposed_s,
                   p->param_sync_exposed_s, p->optimizer_s, p->other_s},
    };
}

static struct plot_plan plan_of(const struct plan_html *page, const redco_candidate *candidate, const char *name)
{
    const redco_machine *machine = &page->inputs->machine;
    return html_plan(page->args, page->inputs, candidate, name, (uint64_t)machine->nodes * machine->gpus_per_node);
}

/* The choice first, then the named strategies, those that do not fit with the reason. */
static redco_status list_named(const struct plan_html *page, const struct html_comparison *comparison,
                               struct plot_plans *plans, redco_error *err)
{
    struct plot_plan plan = plan_of(page, &page->result->ranked[0], page->name);
    plan.chosen = true;
    redco_status st = plot_plans_add(plans, &plan, err);
    for (int i = REDCO_STRATEGY_ANY + 1; i < REDCO_STRATEGY_COUNT && st == REDCO_OK; i++) {
        const redco_search_result *result = comparison->named[i].result;
        const char *name = redco_strategy_name((redco_strategy)i);
        if (result == NULL || strcmp(name, page->name) == 0) { continue; } /* impossible, or the choice itself */
        if (result->ranked_count > 0) {
            plan = plan_of(page, &result->ranked[0], name);
        } else {
            plan = (struct plot_plan){.name = name,
                                      .reason = comparison->named[i].reason,
                                      .short_bytes = (double)result->shortfall.short_bytes};
        }
        st = plot_plans_add(plans, &plan, err);
    }
    return st;
}

/* Gives the ids of an SVG element a prefix: the pictures of one page must not share any. */
static void write_prefixed(FILE *out, const char *svg, int picture)
{
    static const char *const places[] = {"id=\"", "id='", "href='#", "href=\"#", "url(#"};
    static const char title[] = "<title>Gnuplot</title>"; /* would show as a tool tip */
    for (const char *at = svg; *at != '\0';) {
        size_t length = 1;
        const char *prefix = NULL;
        if (strncmp(at, title, sizeof title - 1) == 0) {
            at += sizeof title - 1;
            continue;
        }
        for (size_t i = 0; i < sizeof places / sizeof places[0] && prefix == NULL; i++) {
            length = strlen(places[i]);
            if (strncmp(at, places[i], length) == 0) { prefix = places[i]; }
        }
        if (prefix == NULL) { length = 1; }
        (void)fwrite(at, 1, length, out);
        if (prefix != NULL) { (void)fprintf(out, "picture%d-", picture); }
        at += length;
    }
}

redco_status html_draw_script(const char *script, size_t script_size, int picture, char **svg_out, redco_error *err)
{
    char *image = NULL;
    char *text = NULL;
    size_t size = 0;
    redco_status st = plot_render(script, script_size, &image, &size, err);
    const char *svg = st == REDCO_OK ? strstr(image, "<svg") : NULL;
    FILE *out = svg != NULL ? open_memstream(&text, &size) : NULL;
    if (st == REDCO_OK && svg == NULL) { st = redco_fail(err, REDCO_ESYSTEM, "gnuplot", "drew no SVG"); }
    if (st == REDCO_OK && out == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (st == REDCO_OK) {
        write_prefixed(out, svg, picture);
        if (fclose(out) != 0) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        *svg_out = text;
    }
    free(image);
    return st;
}

redco_status html_draw(enum plot_kind kind, const struct plot_plans *plans, int picture, char **svg_out,
                       redco_error *err)
{
    const struct plot_options options = {0};
    char *script = NULL;
    size_t size = 0;
    redco_status st = plot_compose_plans(kind, plans, &options, PLOT_SVG, &script, &size, err);
    if (st == REDCO_OK) { st = html_draw_script(script, size, picture, svg_out, err); }
    free(script);
    return st;
}

static redco_status draw_all(const struct plan_html *page, struct html_comparison *out, redco_error *err)
{
    struct plot_plans plans = {0};
    redco_status st = list_named(page, out, &plans, err);
    if (st == REDCO_OK) { st = html_draw(PLOT_MEMORY, &plans, HTML_MEMORY, &out->svg[HTML_MEMORY], err); }
    if (st == REDCO_OK) { st = html_draw(PLOT_TIME, &plans, HTML_TIME, &out->svg[HTML_TIME], err); }
    for (uint32_t i = 0; i < out->ranking->ranked_count && st == REDCO_OK; i++) {
        struct plot_plan plan = plan_of(page, &out->ranking->ranked[i], "optimum");
        plan.listed = true;
        st = plot_plans_add(&plans, &plan, err);
    }
    if (st == REDCO_OK) { st = html_draw(PLOT_PARETO, &plans, HTML_PARETO, &out->svg[HTML_PARETO], err); }
    plot_plans_free(&plans);
    return st;
}

redco_status html_compare(const struct plan_html *page, struct html_comparison *out, redco_error *err)
{
    redco_error why = {0};
    redco_status st = search_named(page, out, err);
    if (st != REDCO_OK) { return st; }
    st = draw_all(page, out, &why);
    if (st == REDCO_ESYSTEM) {
        (void)snprintf(out->missing, sizeof out->missing, "%.30s %.760s", why.place, why.text);
        return REDCO_OK;
    }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

void html_comparison_free(struct html_comparison *comparison)
{
    for (int i = 0; i < REDCO_STRATEGY_COUNT; i++) { redco_search_result_free(comparison->named[i].result); }
    for (int i = 0; i < HTML_PICTURES; i++) { free(comparison->svg[i]); }
    redco_search_result_free(comparison->ranking);
}
