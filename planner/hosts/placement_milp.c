/* Problem 3 as an integer program for GLPK. Per switch u (equal leaves of one parent taken together, which loses
 * nothing: groups kept within leaves can be assigned to equal leaves in any way) and size c_j of the chain: y_{u,j}
 * groups of size j whole under u, an integer;  x_u  nodes used under u c_1 y_{u,1} <= x_u,   (c_{j+1} / c_j) y_{u,j+1}
 * <= y_{u,j},   x_parent = sum of x_children,   x_root = nodes Tier by tier, from the leaves up: maximise sum_j bytes_j
 * sum_u y_{u,j} over the switches u that bound this tier, with the tiers below held at their best. */
#include "planner/glpk/glpk_bounded.h"
#include "planner/glpk/glpk_run.h"
#include "planner/hosts/placement_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Larger programs are left to the exact method: GLPK would take seconds for what is known already. */
enum { MOST_COLUMNS = 20000 };

/* Branch-and-bound nodes times columns, per tier: some 10 ms. */
static const uint32_t node_columns = 20000;

/* Leaves of one parent with equal free nodes, or one upper switch. */
struct place {
    uint32_t parent;
    uint32_t height, parent_height;
    uint32_t nodes; /* nodes of each */
    uint32_t count;
    int x; /* column of x_u; y_{u,j} = x + 1 + j */
};

struct program {
    const redcoi_place_tree *tree;
    const redcoi_place_sizes *sizes;
    struct place *places;
    uint32_t place_count;
    uint32_t *place_of_upper; /* by number above the leaves; the root has none */
    uint32_t node_limit, nodes_seen;
    int *columns; /* columns of one row */
    double *values;
    double scale; /* factor on bytes */
    double *bytes_out;
    uint32_t *proven_out;
    glp_prob *lp;
};

static int by_nodes(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;
    return (left < right) - (left > right);
}

/* Adds the leaf children of u, equal ones together. */
static void place_leaves(struct program *p, uint32_t u, uint32_t *scratch)
{
    const redcoi_place_tree *tree = p->tree;
    uint32_t count = 0;
    for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
        if (tree->children[c] < tree->leaf_count) { scratch[count++] = tree->nodes[tree->children[c]]; }
    }
    if (count > 1) { qsort(scratch, count, sizeof *scratch, by_nodes); }
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && scratch[i] == scratch[i - 1]) {
            p->places[p->place_count - 1].count++;
        } else {
            p->places[p->place_count++] =
                (struct place){.parent = u, .parent_height = tree->height[u], .nodes = scratch[i], .count = 1};
        }
    }
}

static bool list_places(struct program *p)
{
    const redcoi_place_tree *tree = p->tree;
    uint32_t *scratch = calloc((size_t)tree->leaf_count + 1, sizeof *scratch);
    p->places = calloc(tree->switch_count, sizeof *p->places);
    p->place_of_upper = calloc(tree->switch_count, sizeof *p->place_of_upper);
    if (scratch == NULL || p->places == NULL || p->place_of_upper == NULL) {
        free(scratch);
        return false;
    }
    for (uint32_t u = tree->leaf_count; u < tree->switch_count; u++) {
        place_leaves(p, u, scratch);
        if (tree->parent[u] == REDCOI_PLACE_NONE) { continue; }
        p->place_of_upper[u - tree->leaf_count] = p->place_count;
        p->places[p->place_count++] = (struct place){.parent = tree->parent[u],
                                                     .height = tree->height[u],
                                                     .parent_height = tree->height[tree->parent[u]],
                                                     .nodes = tree->nodes[u],
                                                     .count = 1};
    }
    free(scratch);
    return true;
}

/* The upper bound is an integer itself; GLPK wants fixed columns to be marked as such. */
static void add_column(glp_prob *lp, int column, double most)
{
    glp_set_col_kind(lp, column, GLP_IV);
    glp_set_col_bnds(lp, column, most > 0.0 ? GLP_DB : GLP_FX, 0.0, most);
}

static void add_columns(struct program *p)
{
    const int per_place = (int)p->sizes->chain_traffic + 1;
    glp_add_cols(p->lp, (int)p->place_count * per_place);
    for (uint32_t i = 0; i < p->place_count; i++) {
        struct place *place = &p->places[i];
        place->x = 1 + (int)i * per_place;
        add_column(p->lp, place->x, (double)place->nodes * place->count);
        for (int j = 0; j + 1 < per_place; j++) {
            const uint32_t fit = place->nodes / p->sizes->chain_size[j];
            const uint32_t most = p->sizes->nodes / p->sizes->chain_size[j];
            const double total = (double)fit * place->count;
            add_column(p->lp, place->x + 1 + j, total < most ? total : most);
        }
    }
}

/* c y_{u,j} <= the next smaller thing that the groups consist of. */
static void add_nesting(struct program *p)
{
    const uint32_t sizes = p->sizes->chain_traffic;
    int row = glp_add_rows(p->lp, (int)(p->place_count * sizes));
    for (uint32_t i = 0; i < p->place_count; i++) {
        for (uint32_t j = 0; j < sizes; j++, row++) {
            const uint32_t smaller = j > 0 ? p->sizes->chain_size[j - 1] : 1;
            const int columns[] = {0, p->places[i].x + 1 + (int)j, p->places[i].x + (int)j};
            const double values[] = {0.0, p->sizes->chain_size[j] / smaller, -1.0};
            glp_set_row_bnds(p->lp, row, GLP_UP, 0.0, 0.0);
            glp_set_mat_row(p->lp, row, 2, columns, values);
        }
    }
}

/* The nodes of a switch are those of its children; of the root, all of the job. */
static void add_sums(struct program *p)
{
    const redcoi_place_tree *tree = p->tree;
    const uint32_t uppers = tree->switch_count - tree->leaf_count;
    const int first = glp_add_rows(p->lp, (int)uppers);
    uint32_t at = 0;
    /* Places stand by the upper switch that was visited, leaf children before the switch itself; children that are
     * upper switches stand earlier. So each row is gathered by scanning its children. */
    for (uint32_t u = tree->leaf_count; u < tree->switch_count; u++) {
        const int row = first + (int)(u - tree->leaf_count);
        int length = 0;
        for (; at < p->place_count && p->places[at].parent == u && p->places[at].height == 0; at++) {
            p->columns[++length] = p->places[at].x;
            p->values[length] = 1.0;
        }
        for (uint32_t c = tree->child_start[u]; c < tree->child_start[u + 1]; c++) {
            if (tree->children[c] < tree->leaf_count) { continue; }
            p->columns[++length] = p->places[p->place_of_upper[tree->children[c] - tree->leaf_count]].x;
            p->values[length] = 1.0;
        }
        if (tree->parent[u] == REDCOI_PLACE_NONE) {
            glp_set_row_bnds(p->lp, row, GLP_FX, p->sizes->nodes, p->sizes->nodes);
        } else {
            p->columns[++length] = p->places[p->place_of_upper[u - tree->leaf_count]].x;
            p->values[length] = -1.0;
            glp_set_row_bnds(p->lp, row, GLP_FX, 0.0, 0.0);
            at++; /* its own place */
        }
        glp_set_mat_row(p->lp, row, length, p->columns, p->values);
    }
}

/* Sets the objective to the bytes kept within tier t. @return the number of terms, left in columns and values */
static int set_objective(struct program *p, uint32_t t)
{
    int length = 0;
    for (int c = 1; c <= glp_get_num_cols(p->lp); c++) { glp_set_obj_coef(p->lp, c, 0.0); }
    for (uint32_t i = 0; i < p->place_count; i++) {
        const struct place *place = &p->places[i];
        if (place->height > t || place->parent_height <= t) { continue; }
        for (uint32_t j = 0; j < p->sizes->chain_traffic; j++) {
            const double weight = (double)p->sizes->chain_bytes[j] / p->scale;
            glp_set_obj_coef(p->lp, place->x + 1 + (int)j, weight);
            p->columns[++length] = place->x + 1 + (int)j;
            p->values[length] = weight;
        }
    }
    return length;
}

static void watch(glp_tree *tree, void *info)
{
    struct program *p = info;
    if (glp_ios_reason(tree) != GLP_ISELECT) { return; }
    if (++p->nodes_seen > p->node_limit) { glp_ios_terminate(tree); }
}

/* Solves the current objective. @return true if proven; *best_out: its optimum */
static bool solve(struct program *p, double *best_out)
{
    glp_iocp search;
    glp_init_iocp(&search);
    search.msg_lev = GLP_MSG_OFF;
    search.cb_func = watch;
    search.cb_info = p;
    p->nodes_seen = 0;
    if (redcoi_glpk_simplex(p->lp, GLP_PRIMAL) != 0 || glp_get_status(p->lp) != GLP_OPT) { return false; }
    if (redcoi_glpk_branch(p->lp, &search) != 0 || glp_mip_status(p->lp) != GLP_OPT) { return false; }
    *best_out = glp_mip_obj_val(p->lp);
    return isfinite(*best_out);
}

static void solve_tiers(struct program *p)
{
    double all = 0.0; /* scaled bytes if every group spanned */
    for (uint32_t j = 0; j < p->sizes->chain_traffic; j++) {
        all += (double)p->sizes->chain_bytes[j] / p->scale * (p->sizes->nodes / p->sizes->chain_size[j]);
    }
    for (uint32_t t = 0; t < p->tree->tiers; t++) {
        double best = 0.0;
        const int length = set_objective(p, t);
        if (!solve(p, &best)) { return; }
        p->bytes_out[t] = (all - best) * p->scale;
        ++*p->proven_out;
        if (t + 1 == p->tree->tiers) { return; }
        /* Held with a little room: the row must not cut off the solution just found. */
        static const double room = 1e-7;
        (void)set_objective(p, t);
        const int row = glp_add_rows(p->lp, 1);
        glp_set_row_bnds(p->lp, row, GLP_LO, best - room * (1.0 + best), 0.0);
        glp_set_mat_row(p->lp, row, length, p->columns, p->values);
    }
}

static redco_status build_and_solve(void *context, redco_error *err)
{
    struct program *p = context;
    (void)err;
    p->lp = glp_create_prob();
    glp_set_obj_dir(p->lp, GLP_MAX);
    add_columns(p);
    add_nesting(p);
    add_sums(p);
    solve_tiers(p);
    glp_delete_prob(p->lp);
    return REDCO_OK;
}

redco_status redcoi_place_milp(const redcoi_place_tree *tree, const redcoi_place_sizes *sizes,
                               double bytes_out[REDCOI_PLACE_TIERS], uint32_t *proven_out, redco_error *err)
{
    struct program p = {.tree = tree, .sizes = sizes, .scale = 1.0, .bytes_out = bytes_out, .proven_out = proven_out};
    redco_status st = REDCO_OK;
    *proven_out = 0;
    memset(bytes_out, 0, REDCOI_PLACE_TIERS * sizeof *bytes_out);
    if (sizes->chain_traffic == 0 || tree->tiers == 0) { /* nothing can cross */
        *proven_out = tree->tiers;
        return REDCO_OK;
    }
    for (uint32_t j = 0; j < sizes->chain_traffic; j++) { p.scale = fmax(p.scale, (double)sizes->chain_bytes[j]); }
    const bool listed = list_places(&p);
    const size_t columns = (size_t)p.place_count * (sizes->chain_traffic + 1);
    p.columns = calloc(columns + 2, sizeof *p.columns);
    p.values = calloc(columns + 2, sizeof *p.values);
    if (!listed || p.columns == NULL || p.values == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "placement", "out of memory");
    } else if (columns > 0 && columns <= MOST_COLUMNS) {
        p.node_limit = node_columns / (uint32_t)columns;
        st = redcoi_glpk_run(build_and_solve, &p, err);
    }
    free(p.places);
    free(p.place_of_upper);
    free(p.columns);
    free(p.values);
    return st;
}
