#include "costmodel/record/layer_work.h"

const char *const redco_site_words[] = {"layer.input",          "norm.input",         "norm.converted",
                                        "norm.normed",          "norm.statistic",     "norm.mean",
                                        "norm.output",          "attention.queries",  "attention.keys",
                                        "attention.values",     "attention.repeated", "attention.output",
                                        "attention.statistic",  "attention.scores",   "activation.input",
                                        "activation.rectified", "activation.gate",    "activation.factor",
                                        "activation.gated",     "activation.output",  "product.operand",
                                        "product.output",       "router.scores",      "experts.input",
                                        "experts.gate",         "experts.factor",     "experts.activated",
                                        "experts.output",       "dropout.mask",       NULL};
