/** @file plan_html.h  redco-plan --report: one self-contained page with the choice, its reasons, tables and pictures.
 */
#ifndef REDCO_TOOLS_PLAN_HTML_H
#define REDCO_TOOLS_PLAN_HTML_H

#include "planner/answer/explain.h"
#include "planner/assemble/assemble.h"
#include "planner/search/strategy.h"
#include "tools/plan/plan_args.h"

#include <stdio.h>

/** What the page tells; all borrowed. */
struct plan_html {
    const struct plan_args *args;
    const redco_inputs *inputs;
    const char *name; /**< of the strategy that was asked for: "optimum", ... */
    const redco_plan *plan;
    const redco_search_result *result, *free_result; /**< the latter NULL when nothing was fixed */
    const redco_help *help;                          /**< REDCO_HELP_COUNT, or NULL */
    const redco_neighbour *neighbours;
    size_t neighbour_count;
};

enum { HTML_MEMORY, HTML_TIME, HTML_PARETO, HTML_PICTURES };

/** The named strategies for the same question, and pictures of them. */
struct html_comparison {
    struct {
        redco_search_result *result; /**< NULL: see reason */
        char reason[400];
    } named[REDCO_STRATEGY_COUNT];
    redco_search_result *ranking; /**< the best candidates */
    char *svg[HTML_PICTURES];     /**< elements <svg>, NULL when not drawn */
    char missing[800];            /**< why there are no pictures; "" when there are */
};

/** Searches and draws. A missing gnuplot is no error: the pictures are left out. */
redco_status html_compare(const struct plan_html *page, struct html_comparison *out, redco_error *err);
void html_comparison_free(struct html_comparison *comparison);

/** Writes the page whole or not at all. @param note_out  why pictures are missing, "" when they are there */
redco_status plan_html_write(const struct plan_html *page, const char *path, char note_out[800], redco_error *err);

/** @p text with the characters that HTML gives a meaning escaped. */
void html_text(FILE *out, const char *text);

#endif
