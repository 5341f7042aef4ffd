/* Products by OpenBLAS: alone in including cblas.h. */
#include "executor/backend/host/host.h"
#include "executor/backend/host/kernels.h"

#include <cblas.h>
#include <limits.h>

void redcoi_blas_threads(int threads)
{
    openblas_set_num_threads(threads);
}

const char *redco_host_core_name(void)
{
    return openblas_get_corename();
}

static redco_status check_sizes(const redcoi_gemm *g, redco_error *err)
{
    const uint64_t sizes[6] = {g->m, g->n, g->k, g->row_a, g->row_b, g->row_c};
    for (uint32_t i = 0; i < 6; i++) {
        if (sizes[i] > INT_MAX) {
            return redco_fail(err, REDCO_EVALUE, "host", "a matrix dimension of %llu; OpenBLAS takes up to %d",
                              (unsigned long long)sizes[i], INT_MAX);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_gemm_f32(const redcoi_gemm *g, redco_error *err)
{
    const redco_status st = check_sizes(g, err);
    if (st != REDCO_OK) { return st; }
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (int)g->m, (int)g->n, (int)g->k, (float)g->alpha, g->a, (int)g->row_a, g->b, (int)g->row_b,
                (float)g->beta, g->c, (int)g->row_c);
    return REDCO_OK;
}

redco_status redcoi_gemm_f64(const redcoi_gemm *g, redco_error *err)
{
    const redco_status st = check_sizes(g, err);
    if (st != REDCO_OK) { return st; }
    cblas_dgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (int)g->m, (int)g->n, (int)g->k, g->alpha, g->a, (int)g->row_a, g->b, (int)g->row_b, g->beta, g->c,
                (int)g->row_c);
    return REDCO_OK;
}
