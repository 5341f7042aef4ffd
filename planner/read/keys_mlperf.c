/* MLPerf Training: variables of config_*.sh of NeMo's submissions (GPT-3, Llama 3.1).
 * Source: mlcommons/training_results_v3.0 to v5.1, NVIDIA/benchmarks/.../config_common.sh, run_and_time.sh and the YAML
 * in conf. */
#include "planner/read/trainers.h"

#define OPTION REDCOI_MEANS_OPTION
#define MODEL REDCOI_MEANS_MODEL
#define TRAIT REDCOI_MEANS_TRAIT
#define ENGINE REDCOI_MEANS_ENGINE
#define LIMIT REDCOI_MEANS_LIMIT
#define HARMLESS REDCOI_MEANS_HARMLESS
#define YES "true=yes false="

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"DGXNNODES", OPTION, ".nodes", NULL},
    {"DGXNGPU", OPTION, ".gpus-per-node", NULL},
    {"MINIBS", OPTION, ".batch-of-replica", NULL},
    {"MICRO_BATCH_SIZE", OPTION, "micro-batch", NULL},
    {"GBS", OPTION, "global-batch", NULL},
    {"TENSOR_MODEL_PARALLEL", OPTION, "tp", NULL},
    {"PIPELINE_MODEL_PARALLEL", OPTION, "pp", NULL},
    {"INTERLEAVED_PIPELINE", OPTION, "pp-chunks", "0=1 null=1 None=1 *=*"},
    {"CONTEXT_PARALLEL", OPTION, "cp", NULL},
    {"EXPERT_PARALLEL", OPTION, "ep", NULL},
    {"SEQ_PARALLEL", OPTION, "sequence-parallel", "true=on false=off"},
    {"ASYM_PP_EMBED", OPTION, ".embedding-counts", YES},
    {"ASYM_PP_LOSS", OPTION, ".loss-counts", YES},
    {"FIRST_PP_NUM_LAYERS", OPTION, ".first-stage", "0= *=*"},
    {"LAST_PP_NUM_LAYERS", OPTION, ".last-stage", "0= *=*"},
    {"USE_DIST_OPTIMIZER", OPTION, ".optimizer-shards", YES},
    {"OVERLAP_GRAD_REDUCE", OPTION, ".overlap-ar", YES},
    {"OVERLAP_GRAD_SYNC", OPTION, ".overlap-ar", YES},
    {"OVERLAP_PARAM_GATHER", OPTION, ".overlap-bc", YES},
    {"OVERLAP_PARAM_SYNC", OPTION, ".overlap-bc", YES},
    {"TP_COMM_OVERLAP", OPTION, ".overlap-tp", YES},
    {"UB_TP_COMM_OVERLAP", OPTION, ".overlap-tp", YES},
    {"FP8", OPTION, ".fp8", YES},
    {"FP4", OPTION, ".fp4", YES},
    {"FP8_RECIPE", OPTION, ".fp8-recipe", "mxfp8=mxfp8 *=fp8"},
    {"MODEL_SIZE", MODEL, ".size", NULL},
    {"SEQ_LENGTH", OPTION, "seq", NULL},
    {"MAX_SEQLEN", OPTION, "seq", NULL},
    {"ACT_CKPT_GRANULARITY", OPTION, ".recompute", "null=none none=none full=full selective=selective"},
    {"ACT_CKPT_LAYERS", OPTION, ".recompute-layers", NULL},
    {"OVERRIDE_NUM_LAYERS", MODEL, ".layers", NULL},
    {"FULL_CUDA_GRAPH", TRAIT, "cuda_graphs", "true=1 false="},
    {"LAYER_CUDA_GRAPH", TRAIT, "cuda_graphs", "true=1 false="},
    {"MC_CUDA_GRAPH", TRAIT, "cuda_graphs", "true=1 false="},
    {"FP8_PARAMS", ENGINE, "parameters are gathered in the training precision", NULL},
    {"FP8_PARAM_GATHER", ENGINE, "parameters are gathered in the training precision", NULL},
    {"FP8_*", ENGINE, "recipe of fp8", NULL}, {"FP4_*", ENGINE, "recipe of fp4", NULL},
    {"TP_PP_DP_MAPPING", LIMIT, "the order of ranks: data parallelism outside of stages", YES},
    {"OVERLAP_PARAM_GATHER_WITH_OPTIM_STEP", ENGINE, "as the engine hides parameters", NULL},
    {"ALIGN_PARAM_GATHER", ENGINE, "when parameters are gathered, in stages", NULL},
    {"DEFER_EMBEDDING_WGRAD_COMPUTE", ENGINE, "the order of the last stage's passes", NULL},
    {"WGRAD_DEFERRAL_LIMIT", ENGINE, "the order of the last stage's passes", NULL},
    {"CUDA_DEVICE_MAX_CONNECTIONS", ENGINE, "streams as measured", NULL},
    {"MC_*", ENGINE, "how tensor-parallel traffic is cut up", NULL}, {"TE_*", ENGINE, "kernels as measured", NULL}, {"NVTE_*", ENGINE, "kernels as measured", NULL}, {"NCCL_*", ENGINE, "collectives as measured", NULL}, {"TORCH_NCCL_*", ENGINE, "collectives as measured", NULL}, {"UB_*", ENGINE, "how tensor-parallel traffic is cut up", NULL}, {"SHARP*", ENGINE, "collectives as measured", NULL},
    {"DGX*", HARMLESS, "", NULL}, {"WALLTIME*", HARMLESS, "", NULL}, {"MAX_STEPS", HARMLESS, "", NULL}, {"LOAD_*", HARMLESS, "", NULL}, {"TRAIN_ONLY", HARMLESS, "", NULL}, {"INIT_GLOBAL_STEP", HARMLESS, "", NULL}, {"OVERRIDE_ZERO_CONSUMED_SAMPLES", HARMLESS, "", NULL}, {"LEGACY_DATASET", HARMLESS, "", NULL}, {"HYDRA_*", HARMLESS, "", NULL}, {"HF_*", HARMLESS, "", NULL}, {"TOKENIZERS_PARALLELISM", HARMLESS, "", NULL}, {"NEMO_*", HARMLESS, "", NULL}, {"CHECK_COMPLIANCE", HARMLESS, "", NULL}, {"PYTORCH_*", ENGINE, "the allocator as measured", NULL}, {"BINDCMD", HARMLESS, "", NULL}, {"SLURM_*", HARMLESS, "", NULL}, {"WARMUP_*", HARMLESS, "", NULL}, {"CUDA_*", HARMLESS, "", NULL}, {"EXTRA_ASSETS", HARMLESS, "", NULL}, {"MLPERF_*", HARMLESS, "", NULL}, {"NEXP", HARMLESS, "", NULL}, {"LR", HARMLESS, "", NULL}, {"MIN_LR", HARMLESS, "", NULL}, {"SEED*", HARMLESS, "", NULL}, {"VAL_*", HARMLESS, "", NULL}, {"EVAL_*", HARMLESS, "", NULL}, {"OMP_NUM_THREADS", HARMLESS, "", NULL}, {"START_EVAL_AT", HARMLESS, "", NULL}, {"MBS", OPTION, "micro-batch", NULL}, {"PREPROC_DATA", HARMLESS, "", NULL}, {"SPM", HARMLESS, "", NULL}, {"TARGET_LOG_PPL", HARMLESS, "", NULL}, {"TASK", HARMLESS, "", NULL}, {"LOGDIR", HARMLESS, "", NULL}, {"CONT*", HARMLESS, "", NULL}, {"DATADIR", HARMLESS, "", NULL}, {"OPT_*", HARMLESS, "", NULL}, {"EXTRA_*", HARMLESS, "", NULL}, {"CHECKPOINT*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const defaults[] = {"tp",          "1",        "pp",
                                       "1",           "cp",       "1",
                                       ".recompute",  "none",     ".precision",
                                       "bf16",        ".overlap", "flags",
                                       "micro-batch", "1",        ".gpus-per-node",
                                       "8",           ".dropout", "0",
                                       "seq",         "8192",     "sequence-parallel",
                                       "on",          NULL};

const redcoi_trainer redcoi_mlperf_keys = {.word = "mlperf",
                                           .title = "MLPerf's NeMo",
                                           .engine = "nemo",
                                           .keys = keys,
                                           .defaults = defaults,
                                           .variables = true};
