#include "planner/glpk/glpk_bounded.h"

/* A time limit for loops that no iteration count ends, such as a pivot that is refused again and again: a thousand
 * times the time of one program. */
enum { LAST_RESORT_MS = 10000 };

/** Solves the program of a node on a copy; GLPK then starts from the copy's last basis, and ends there. */
struct guard {
    glp_prob *copy;
    const glp_iocp *options;
};

static int solve(glp_prob *lp, glp_smcp *simplex)
{
    const int code = glp_simplex(lp, simplex);
    if (code == 0 || code == GLP_EOBJUL || code == GLP_EOBJLL) { return code; }
    glp_std_basis(lp);
    simplex->meth = GLP_PRIMAL;
    return glp_simplex(lp, simplex);
}

static void prepare(glp_smcp *simplex, int method)
{
    glp_init_smcp(simplex);
    simplex->msg_lev = GLP_MSG_OFF;
    simplex->meth = method;
    simplex->it_lim = REDCOI_GLPK_ITERATIONS;
    simplex->tm_lim = LAST_RESORT_MS;
}

int redcoi_glpk_simplex(glp_prob *lp, int method)
{
    glp_smcp simplex;
    prepare(&simplex, method);
    return solve(lp, &simplex);
}

/* Bounds of columns are all that differs between nodes: no cuts are made. */
static void copy_node(glp_prob *to, glp_prob *from)
{
    for (int j = 1; j <= glp_get_num_cols(from); j++) {
        glp_set_col_bnds(to, j, glp_get_col_type(from, j), glp_get_col_lb(from, j), glp_get_col_ub(from, j));
    }
}

static void copy_basis(glp_prob *to, glp_prob *from)
{
    for (int j = 1; j <= glp_get_num_cols(from); j++) { glp_set_col_stat(to, j, glp_get_col_stat(from, j)); }
    for (int i = 1; i <= glp_get_num_rows(from); i++) { glp_set_row_stat(to, i, glp_get_row_stat(from, i)); }
}

static void solve_node(const struct guard *guard, glp_tree *tree)
{
    glp_prob *const lp = glp_ios_get_prob(tree);
    glp_smcp simplex;
    prepare(&simplex, GLP_DUALP);
    if (glp_mip_status(lp) == GLP_FEAS) { /* as GLPK itself prunes */
        if (glp_get_obj_dir(lp) == GLP_MIN) { simplex.obj_ul = glp_mip_obj_val(lp); }
        if (glp_get_obj_dir(lp) == GLP_MAX) { simplex.obj_ll = glp_mip_obj_val(lp); }
    }
    copy_node(guard->copy, lp);
    copy_basis(guard->copy, lp);
    const int code = solve(guard->copy, &simplex);
    if (code == 0 || code == GLP_EOBJUL || code == GLP_EOBJLL) {
        copy_basis(lp, guard->copy);
    } else {
        glp_ios_terminate(tree);
    }
}

static void watch(glp_tree *tree, void *info)
{
    const struct guard *const guard = info;
    if (glp_ios_reason(tree) == GLP_IPREPRO) { solve_node(guard, tree); }
    if (guard->options->cb_func != NULL) { guard->options->cb_func(tree, guard->options->cb_info); }
}

int redcoi_glpk_branch(glp_prob *lp, const glp_iocp *options)
{
    struct guard guard = {.copy = glp_create_prob(), .options = options};
    glp_iocp bounded = *options;
    glp_copy_prob(guard.copy, lp, GLP_OFF);
    bounded.cb_func = watch;
    bounded.cb_info = &guard;
    if (bounded.tm_lim > LAST_RESORT_MS) { bounded.tm_lim = LAST_RESORT_MS; }
    const int code = glp_intopt(lp, &bounded);
    glp_delete_prob(guard.copy);
    return code == GLP_ETMLIM ? GLP_ESTOP : code;
}
