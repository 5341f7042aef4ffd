/** @file plot.h  Pictures: data from redco's JSON documents and tables of measured runs, looks from the gnuplot scripts
 *  of tools/gnuplot (compiled in), drawing by gnuplot as a child process. Needs nothing but gnuplot on the PATH. */
#ifndef REDCO_TOOLS_PLOT_H
#define REDCO_TOOLS_PLOT_H

#include "topology/base/json.h"
#include "topology/base/sharding.h"
#include "topology/base/status.h"
#include "traces/compare/compare.h"
#include "traces/measured.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum plot_format { PLOT_SVG, PLOT_PNG, PLOT_PDF, PLOT_SCRIPT /**< gnuplot's input itself */ };

enum plot_kind {
    PLOT_MFU_VS_GPUS,
    PLOT_PREDICTED_VS_MEASURED,
    PLOT_MEMORY,
    PLOT_TIME,
    PLOT_TIMELINE,
    PLOT_PARETO,
    PLOT_COLLECTIVES,
    PLOT_OVERLAP,
    PLOT_TIMELINES,
    PLOT_FRONTIER,
    PLOT_PHASES,
    PLOT_FAMOUS,
    PLOT_KIND_COUNT
};
/** Words of the command line by enum plot_kind, NULL-terminated. */
extern const char *const plot_kind_words[];

/** One input file: a JSON document or a table of measured runs, the other NULL. Owns both. */
struct plot_input {
    redco_json *json;
    redco_measured *measured;
};

struct plot_options {
    const char *title;   /**< NULL: made from the data */
    double from_s, to_s; /**< timeline: what is shown; to_s = 0: all */
    bool all_rows;       /**< also measured runs that their table says not to compare */
};

/** The output of a kind: assignments and data blocks for its script. */
struct plot_sheet {
    FILE *text;
    const struct plot_options *options;
    const char *script; /**< name of tools/gnuplot/NAME.gp */
    unsigned width, height;
};

/** A plan as the pictures need it, from a document or filled in; texts belong to the document or to the caller. */
struct plot_plan {
    struct redco_plan *document; /**< owned; NULL: filled in, or no plan was found */
    char place[256];             /**< file and JSON pointer, for errors */
    const char *name;            /**< strategy */
    const char *model, *cluster, *gpu;
    const char *reason; /**< why it cannot be; NULL when it can */
    uint64_t gpus;      /**< 0: not known */
    uint32_t seq_len;
    uint64_t global_batch, micro_batch, micro_batches;
    unsigned overlap;    /**< bits of redco_overlap */
    redco_mesh dp;       /**< data-parallel mesh; 0x0: not known */
    redco_shards shards; /**< shards of the most frequent layers; 0x0: not known */
    double step_s, tokens_per_s_per_gpu, band, mfu, short_bytes;
    double memory_bytes[5]; /**< parameters, gradients, optimizer, activations, transient, reserve and NCCL's buffers */
    double total_bytes, capacity_bytes;
    double time_s[8]; /**< forward, backward, recompute, layer communication, gradient reduction, update, optimizer,
                           other */
    bool chosen;      /**< the answer of its document */
    bool listed;      /**< one of the K best, which have no names of their own */
};

struct plot_plans {
    struct plot_plan *rows;
    size_t count, capacity;
};

/** Parses files of either sort. @return REDCO_OK, or what is wrong with the file */
redco_status plot_input_read(const char *path, struct plot_input *input_out, redco_error *err);
void plot_input_free(struct plot_input *input);

/** Also frees the documents of its rows. */
void plot_plans_free(struct plot_plans *plans);
redco_status plot_plans_add(struct plot_plans *plans, const struct plot_plan *plan, redco_error *err);
/** Appends all plans of a document. */
redco_status plot_plans_read(const redco_json_value *root, struct plot_plans *plans, redco_error *err);

/** The whole script for gnuplot. @param text_out  to be freed with free() */
redco_status plot_compose(enum plot_kind kind, const struct plot_input *inputs, size_t count,
                          const struct plot_options *options, enum plot_format format, char **text_out,
                          size_t *size_out, redco_error *err);
/** The same of a trace, for the kind timeline. @param path  or "-": standard input */
redco_status plot_compose_trace(const char *path, const struct plot_options *options, enum plot_format format,
                                char **text_out, size_t *size_out, redco_error *err);
/** The same from a document in memory, for kinds that are drawn from one: predicted-vs-measured, collectives, frontier,
 *  phases, famous. */
redco_status plot_compose_document(enum plot_kind kind, const redco_json_value *root,
                                   const struct plot_options *options, enum plot_format format, char **text_out,
                                   size_t *size_out, redco_error *err);
/** The same from plans, for kinds that need nothing else: memory, time, pareto. */
redco_status plot_compose_plans(enum plot_kind kind, const struct plot_plans *plans, const struct plot_options *options,
                                enum plot_format format, char **text_out, size_t *size_out, redco_error *err);
/** A step as predicted above the same step as measured. */
struct plot_comparison {
    const redco_trace *predicted, *measured; /**< measured: the trace that the comparison shows */
    const redco_comparison *comparison;
};
redco_status plot_compose_timelines(const struct plot_comparison *timelines, const struct plot_options *options,
                                    enum plot_format format, char **text_out, size_t *size_out, redco_error *err);
/** Lets gnuplot draw. REDCO_ESYSTEM when it is not installed or fails. @param image_out  to be freed with free() */
redco_status plot_render(const char *script, size_t script_size, char **image_out, size_t *size_out, redco_error *err);

/** By the suffix: .svg, .png, .pdf or .gp. @return false where it is none of them */
bool plot_format_of(const char *path, enum plot_format *format_out);
/** Renders what was composed, unless the script itself is wanted, and writes the file.
 *  @param bytes_out  size of the file; may be NULL */
redco_status plot_write(const char *script, size_t script_size, enum plot_format format, const char *path,
                        size_t *bytes_out, redco_error *err);

/** Kinds: write their data and choose script and size. Pure but for the sheet. */
redco_status plot_mfu(const struct plot_plans *plans, const struct plot_input *inputs, size_t count,
                      struct plot_sheet *sheet, redco_error *err);
redco_status plot_famous(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err);
redco_status plot_scatter(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err);
redco_status plot_stacks(const struct plot_plans *plans, bool memory, struct plot_sheet *sheet, redco_error *err);
redco_status plot_pareto(const struct plot_plans *plans, struct plot_sheet *sheet, redco_error *err);
redco_status plot_overlap(const struct plot_plans *plans, const struct plot_input *inputs, size_t count,
                          struct plot_sheet *sheet, redco_error *err);
/** @param path  a trace of any size, read event by event */
redco_status plot_timeline(const char *path, struct plot_sheet *sheet, redco_error *err);
redco_status plot_timelines(const struct plot_comparison *timelines, struct plot_sheet *sheet, redco_error *err);
/** The same from documents: the prediction, then what was measured. */
redco_status plot_timelines_documents(const redco_json_value *roots, size_t count, struct plot_sheet *sheet,
                                      redco_error *err);
/** Days against money and energy, and the phases of a run over time (plot_runs.c). */
redco_status plot_frontier(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err);
redco_status plot_phases(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err);
redco_status plot_collectives(const redco_json_value *roots, size_t count, struct plot_sheet *sheet, redco_error *err);

/** @p string in single quotes, safe for gnuplot: control characters become spaces, bad UTF-8 '?', long text is cut. */
void plot_quote(FILE *text, const char *string);
/** The same for the label of a tic, where gnuplot reads '%' as a format. */
void plot_tic(FILE *text, const char *string);
/** The same without quotes, for a tab-separated cell of a data block. */
void plot_cell(FILE *text, const char *string);
/** "title = ...": the user's, else this. */
__attribute__((format(printf, 2, 3))) void plot_title(struct plot_sheet *sheet, const char *format, ...);
/** The usual spelling of a strategy: "ZeRO-1". @return static, or @p name where it is unknown */
const char *plot_strategy_label(const char *name);
/** Number of the line style in common.gp that the strategy has in every picture, from 1; 0 = unknown */
int plot_strategy_style(const char *name);
enum { PLOT_STYLES = 11 /**< in common.gp */ };

#endif
