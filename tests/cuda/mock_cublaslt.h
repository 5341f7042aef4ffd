/** @file mock_cublaslt.h  Shared by the files of the mock library for libcublasLt.so.13.
 *
 *  Written from cublasLt.h and the documentation of cuBLAS, not from redco's calls. It computes in double precision,
 *  rounds where the library rounds (results, partial sums of algorithms that keep them in the result's type, TF32's
 *  factors), and checks what a call was given more strictly than a GPU does. What it cannot show: which algorithms the
 *  real heuristic returns for a product, how fast they are, and in which order tensor cores add. */
#ifndef REDCO_TESTS_MOCK_CUBLASLT_H
#define REDCO_TESTS_MOCK_CUBLASLT_H

#include "tests/cuda/mock.h"

#include <cublasLt.h>

enum { BLAS_ATTRIBUTES = 40 };

typedef enum blas_kind { BLAS_HANDLE = 1, BLAS_OPERATION, BLAS_LAYOUT, BLAS_PREFERENCE } blas_kind;

/** Whatever the program holds a pointer to. Attributes are kept as the bytes that were set. */
typedef struct blas_object {
    blas_kind kind;
    uint64_t attributes[BLAS_ATTRIBUTES];
    struct blas_object *next; /**< in the list of those that are alive */
} blas_object;

/** NULL, with a complaint, if it is none of that kind or was destroyed. */
blas_object *blas_find(const void *pointer, blas_kind kind);
int32_t blas_i32(const blas_object *object, int attribute);
int64_t blas_i64(const blas_object *object, int attribute);
void *blas_pointer(const blas_object *object, int attribute);

typedef struct blas_matrix {
    cudaDataType_t type;
    int64_t rows, columns, leading, stride; /**< stored; elements */
} blas_matrix;

/** A call's problem, taken from its descriptors. */
typedef struct blas_problem {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    bool transpose_a, transpose_b;
    uint32_t epilogue;
    int64_t m, n, k, batch;
    blas_matrix a, b, c, d;
    void *bias, *aux;
    int64_t bias_stride, aux_leading, aux_stride;
} blas_problem;

cublasStatus_t blas_problem_of(const void *operation, const void *a, const void *b, const void *c, const void *d,
                               blas_problem *problem_out);
size_t blas_type_bytes(cudaDataType_t type);
/** From the first to behind the last element. */
size_t blas_matrix_bytes(const blas_matrix *matrix, int64_t batch);
size_t blas_aux_bytes(const blas_problem *problem);
/** @return whether the epilogue has this part: bits of cublasLtEpilogue_t. */
bool blas_has(const blas_problem *problem, uint32_t part);

/** An algorithm's 64 bytes. */
typedef struct blas_algorithm {
    uint32_t magic, id;
    uint32_t alignment_bytes; /**< that all matrices have */
    uint32_t splits;          /**< sums along k that are made apart */
    uint32_t rounds;          /**< they are kept in the result's type */
    uint32_t signature;       /**< hash of the types, transposes and epilogue that it is for */
    uint64_t workspace_bytes;
} blas_algorithm;

uint32_t blas_signature(const blas_problem *problem);

enum { BLAS_MAGIC = 0x4C744D4D, BLAS_EPILOGUE_MATRIX = 128, BLAS_EPILOGUE_SUM_D = 16 };

/** One call on its way to the stream. */
typedef struct blas_job {
    blas_problem problem;
    blas_algorithm algorithm;
    double alpha, beta;
    const void *a, *b, *c;
    void *d, *workspace;
} blas_job;

/** On the stream's thread; frees the job. */
void blas_run(void *context);

#endif
