#include "costmodel/record/layer_work.h"

const char *const redco_site_words[] = {"layer.input",
                                        "norm.input",
                                        "norm.converted",
                                        "norm.normed",
                                        "norm.statistic",
                                        "norm.mean",
                                        "norm.output",
                                        "attention.queries",
                                        "attention.keys",
                                        "attention.values",
                                        "attention.repeated",
                                        "attention.output",
                                        "attention.statistic",
                                        "attention.scores",
                                        "activation.input",
                                        "activation.rectified",
                                        "activation.gate",
                                        "activation.factor",
                                        "activation.gated",
                                        "activation.output",
                                        "product.operand",
                                        "product.output",
                                        "router.scores",
                                        "experts.input",
                                        "experts.gate",
                                        "experts.factor",
                                        "experts.activated",
                                        "experts.output",
                                        "dropout.mask",
                                        "adapter.input",
                                        NULL};

redco_recompute redco_modules_of(redco_op_role role, redco_op_role reader, bool norms_in_products)
{
    const redco_recompute modules = redco_op_role_modules(role);
    const bool norm = (modules & REDCO_RECOMPUTE_LAYERNORM) != 0;
    if (!norm || !norms_in_products) { return modules; }
    if (reader == REDCO_OP_ROLE_FFN_IN) { return REDCO_RECOMPUTE_MLP; }
    return reader == REDCO_OP_ROLE_QKV || reader == REDCO_OP_ROLE_CROSS_Q ? REDCO_RECOMPUTE_NONE : modules;
}
