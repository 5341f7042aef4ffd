/** @file plan_html.h  redco-plan --report: one self-contained page with the choice, its reasons, tables and pictures,
 *  or with a list of plans (--compare, --sweep), tables and pictures of them. */
#ifndef REDCO_TOOLS_PLAN_HTML_H
#define REDCO_TOOLS_PLAN_HTML_H

#include "planner/answer/explain.h"
#include "planner/assemble/assemble.h"
#include "planner/run/run_estimate.h"
#include "planner/search/strategy.h"
#include "tools/plan/plan_args.h"
#include "tools/plan/plan_report.h"
#include "tools/plot/plot.h"

#include <stdio.h>

/** Content of the page; all borrowed. */
struct plan_html {
    const struct plan_args *args;
    const redco_inputs *inputs;
    const char *name; /**< name of the strategy that was asked for: "optimum", ... */
    const redco_plan *plan;
    const redco_search_result *result, *free_result; /**< the latter NULL when nothing was fixed */
    const char *free_leaves_out;                     /**< redco_answer */
    const redco_help *help;                          /**< REDCO_HELP_COUNT, or NULL */
    const redco_neighbour *neighbours;
    size_t neighbour_count;
    const redco_run_estimate *run; /**< NULL: no run was asked for */
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

/** Content of the page of a list; all borrowed. */
struct plan_html_list {
    const struct plan_args *args;
    const redco_inputs *inputs;
    bool sizes;                    /**< rows are numbers of GPUs, else names */
    const char *title, *column;    /**< "Strategies side by side"; heading of the rows, as for html_headings() */
    const struct report_row *rows; /**< with gpus */
    uint32_t count;
    const redco_search_result *result; /**< the page tells its proof; NULL: none */
};

/** The same page for a list in which a row fits. @param note_out  as for plan_html_write() */
redco_status plan_html_list_write(const struct plan_html_list *list, const char *path, char note_out[800],
                                  redco_error *err);
/** Warns where a page has no pictures. @param note  as told by the writers */
void plan_html_warn(const struct plan_args *args, const char *note);

/** Parts that pages share. @p text with the characters that HTML gives a meaning escaped. */
void html_text(FILE *out, const char *text);
/** Formatted text, escaped, inside an element. @param open  "<td class=t>"; what closes it is its name */
__attribute__((format(printf, 3, 4))) void html_element(FILE *out, const char *open, const char *format, ...);
/** Begins a table. @param names  those of columns of text begin with "<"; NULL ends them */
void html_headings(FILE *out, const char *const *names);
void html_end_table(FILE *out);
/** The page up to its heading. */
void html_begin(FILE *out, const char *title, const char *heading);
/** Begins the page. @param where  "64 GPUs" */
void html_head(FILE *out, const struct plan_args *args, const redco_inputs *inputs, const char *where);
void html_tiles(FILE *out, const struct plan_args *args, const redco_inputs *inputs, const redco_prediction *p);
void html_proof(FILE *out, const struct plan_args *args, const redco_search_result *result);
/** Calibration and profiles. */
void html_basis(FILE *out, const struct plan_args *args, const redco_inputs *inputs);
/** @param svg  NULL: no figure */
void html_figure(FILE *out, const char *svg, const char *what);
enum { HTML_COLUMNS = 16 };
/** Headings of a table of candidates, ended by NULL. @return their number */
size_t html_columns(const char *first, struct report_degrees degrees, const char *names[HTML_COLUMNS]);
/** All cells of a candidate but the first. @param like_s  a time whose digits its step gets */
void html_cells(FILE *out, const redco_inputs *inputs, struct report_degrees degrees, const redco_candidate *candidate,
                double like_s);
/** The cells of what has no plan. */
void html_reason(FILE *out, size_t columns, const char *reason);
/** The remark below a table in which a plan keeps a second copy of the parameters. */
void html_copied(FILE *out);
/** A candidate for pictures; texts are borrowed. */
struct plot_plan html_plan(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *candidate,
                           const char *name, uint64_t gpus);
/** The same of a script for gnuplot. */
redco_status html_draw_script(const char *script, size_t script_size, int picture, char **svg_out, redco_error *err);
/** An element <svg> whose ids no other picture of the page has. @param svg_out  to be freed with free() */
redco_status html_draw(enum plot_kind kind, const struct plot_plans *plans, int picture, char **svg_out,
                       redco_error *err);

#endif
