/** @file exec_args.h  The command line of redco-exec. */
#ifndef REDCO_TOOLS_EXEC_ARGS_H
#define REDCO_TOOLS_EXEC_ARGS_H

#include "costmodel/simulator/step.h"
#include "executor/trainer/trainer.h"
#include "planner/assemble/assemble.h"
#include "tools/cli/cli.h"
#include "tools/exec/exec_report.h"
#include "tools/exec/exec_start.h"

enum { EXEC_PROFILES_MAX = 64, EXEC_PARTS_MAX = 8, EXEC_PREFIX_SIZE = 65, EXEC_WORDS_MAX = 64 };

/** Options of exec_course.h. */
enum { EXEC_KEY_EPOCHS = 0x200, EXEC_KEY_EVALUATE_EVERY, EXEC_KEY_ORDER, EXEC_KEY_KEEP_BEST, EXEC_KEY_LOG };
enum { EXEC_STEPS_MAX = 1000000 };
/* clang-format off */
#define EXEC_COURSE_OPTIONS \
    {"epochs", EXEC_KEY_EPOCHS, "N", 0, "Train until every example of --data was taken N times, instead of --steps; --evaluate then comes after each epoch", 1}, \
    {"order", EXEC_KEY_ORDER, "WHICH", 0, "Examples of --data are shuffled, in every epoch in another way (default), or taken in the order of the file", 1}, \
    {"evaluate-every", EXEC_KEY_EVALUATE_EVERY, "N", 0, "Evaluate after every N steps, and after the last", 3}, \
    {"keep-best", EXEC_KEY_KEEP_BEST, "WHAT", 0, "After an evaluation that is the best so far by loss, metric (highest) or lowest-metric, write a checkpoint, and keep it", 2}, \
    {"log", EXEC_KEY_LOG, "DIR", 0, "Log there: run.log, metrics.jsonl, a line for each step and evaluation, and a file of events for TensorBoard", 3}
/* clang-format on */

/** The course of a run. */
struct exec_course {
    uint64_t epochs, every; /**< 0: not given */
    int order, best;        /**< indices of their words */
    bool keeps_best;
    const char *log;         /**< a folder, or NULL */
    uint64_t epoch_examples; /**< 0: data never repeat */
};

struct exec_args {
    struct cli cli;                   /* first: see cli.h */
    const char *path, *data, *folder; /* folder: of checkpoints */
    const char *weights, *save_weights;
    const char *pipeline_path;         /* path of a shared library; NULL: the plan's language model */
    const char *new_pipeline;          /* the name of one to be written */
    const char *model;                 /* to be planned for; NULL: a plan is given */
    uint64_t ranks;                    /* likewise; 0: a plan is given */
    const char *words[EXEC_WORDS_MAX]; /* options of redco-plan */
    uint32_t word_count;
    redco_weights_part weights_parts[EXEC_PARTS_MAX];
    char prefixes[EXEC_PARTS_MAX][EXEC_PREFIX_SIZE];
    uint32_t weights_part_count;
    bool skip_bad, bytes;
    struct exec_course course;
    char data_sha256[65]; /* SHA-256 of --data where checkpoints are written; else "" */
    bool makes_weights;   /* the folder of --save-weights was not there */
    redco_user_pipeline_file *pipeline;
    redco_user_pipeline_call *call;                 /* is told of calls of its functions; NULL: nobody is */
    redco_records *records, *evaluated, *predicted; /* a pipeline's: --data, --evaluate, --predict */
    redco_examples *examples;                       /* a language model's --data, where it is no file of ids */
    const char *evaluate, *predict, *predictions;
    uint64_t batch, max_new_tokens, top_k;
    double temperature, top_p;
    bool has_steps, generates; /* generates: an option of predictions was given */
    int save_dtype;            /* index of save_words, -1: bf16 of what is computed in it, else f32 */
    uint64_t steps, seed, every, keep, timeout_s;
    double learning_rate;
    redco_optimizer optimizer;
    int optimizer_word, schedule_word, decay_word; /* indices of their words */
    uint64_t warmup, decay_steps;
    double final_rate;
    bool has_decay_steps, has_momentum, has_betas, has_beta1, has_beta2, has_epsilon, has_adafactor;
    bool has_seed, has_rate, has_every, has_keep, has_timeline_rank, resume;
    int backend; /* index of backend_words */
    int fuse;    /* index of fuse_words */
    int graphs;  /* index of graph_words */
    int dtype;   /* index of dtype_words, -1: the plan's */
    bool check, emulate, share_gpu;
    bool replay; /* one rank alone */
    uint64_t replay_rank;
    const char *timeline;
    uint64_t timeline_rank, timeline_steps;
    const char *profiles[EXEC_PROFILES_MAX];
    uint32_t profile_count;
    redco_trainer_fault fault;
    char fault_tensor[200]; /* "": none */
    const redco_plan *plan;
    redco_plan_case prices;
    redco_fixed_cost fixed;
    redco_step *schedule;
    redco_prediction *stages; /* memory of each stage, where the plan has some; NULL */
    struct exec_start start;
    const char *listen;
    bool follows;                   /* a launcher started this rank, and it is not the first: that one warns */
    const struct exec_facts *facts; /* to be compared with other ranks'; NULL: they have the same memory */
};

enum { EXEC_HOST, EXEC_CUDA };
extern const char *const exec_backend_words[];

/** Reads the command line; @p args have the defaults of what it leaves out. @return as cli_parse() */
int exec_parse(int argc, char **argv, struct exec_args *args);
/** In what it is trained. */
redco_dtype exec_dtype(const struct exec_args *args);
/** The course of the learning rate. */
redco_rate_schedule exec_schedule(const struct exec_args *args);
/** In what weights are saved. */
redco_dtype exec_save_dtype(const struct exec_args *args);
/** All options that ranks must have alike, and digests of their files. */
redco_status exec_facts_of_args(const struct exec_args *args, struct exec_facts *facts, redco_error *err);

#endif
