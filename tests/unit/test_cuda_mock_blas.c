/* The mock library for cuBLASLt against the library itself, as far as that goes without a GPU: which attributes its
 * descriptors have, of which size, and what they are at first. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef cublasStatus_t (*set_call)(void *object, int attribute, const void *value, size_t size);
typedef cublasStatus_t (*get_call)(void *object, int attribute, void *value, size_t size, size_t *written);

/** One library's calls for one kind of object. */
typedef struct side {
    void *library, *object;
    set_call set;
    get_call get;
} side;

typedef struct object_kind {
    const char *name; /* cublasLt...SetAttribute */
    int attributes[40];
    int count;
} object_kind;

/* The values that cublasLt.h lists. */
static const object_kind kinds[] = {
    {"MatmulDesc",
     {0,  1,  2,  3,  4,  5,  6,  7,  8,  10, 11, 12, 13, 14, 15, 17, 18,
      19, 20, 21, 22, 23, 24, 25, 26, 31, 32, 33, 34, 35, 36, 37, 38},
     33},
    {"MatrixLayout", {0, 1, 2, 3, 4, 5, 6, 7, 8}, 9},
    {"MatmulPreference", {0, 1, 3, 5, 6, 7, 8, 9, 12}, 9},
};

static void *symbol(void *library, const char *kind, const char *what)
{
    char name[80];
    (void)snprintf(name, sizeof name, "cublasLt%s%s", kind, what);
    void *const address = dlsym(library, name);
    if (address == NULL) { fail_msg("no %s", name); }
    return address;
}

static void create(side *s, const object_kind *kind)
{
    void *const address = symbol(s->library, kind->name, "Create"),
                *const get = symbol(s->library, kind->name, "GetAttribute"),
                *const set = symbol(s->library, kind->name, "SetAttribute");
    __typeof__(&cublasLtMatmulDescCreate) operation;
    __typeof__(&cublasLtMatrixLayoutCreate) layout;
    __typeof__(&cublasLtMatmulPreferenceCreate) preference;
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    memcpy(&s->get, &get, sizeof get);
    memcpy(&s->set, &set, sizeof set);
    memcpy(&operation, &address, sizeof address);
    memcpy(&layout, &address, sizeof address);
    memcpy(&preference, &address, sizeof address);
    if (kind == &kinds[0]) {
        cublasLtMatmulDesc_t made = NULL;
        st = operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        s->object = made;
    } else if (kind == &kinds[1]) {
        cublasLtMatrixLayout_t made = NULL;
        st = layout(&made, CUDA_R_16BF, 24, 40, 32);
        s->object = made;
    } else {
        cublasLtMatmulPreference_t made = NULL;
        st = preference(&made);
        s->object = made;
    }
    assert_int_equal(st, CUBLAS_STATUS_SUCCESS);
}

static void destroy(const side *s, const object_kind *kind)
{
    void *const address = symbol(s->library, kind->name, "Destroy");
    cublasStatus_t (*call)(void *object);
    memcpy(&call, &address, sizeof address);
    assert_int_equal(call(s->object), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(call(NULL), CUBLAS_STATUS_SUCCESS);
}

static void attributes_are_the_librarys(void **state)
{
    uint32_t compared = 0;
    /* In this order: the second has a path, so that its soname is not looked for among what is loaded. */
    side mock = {.library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL)};
    side real = {.library = dlopen(REDCO_CUBLASLT, RTLD_NOW | RTLD_LOCAL)};
    (void)state;
    if (real.library == NULL) {
        print_message("skipped: %s\n", dlerror());
        skip();
    }
    assert_non_null(mock.library);
    assert_non_null(dlsym(mock.library, "mock_cublaslt_alive")); /* LD_LIBRARY_PATH leads to the mock library */
    assert_null(dlsym(real.library, "mock_cublaslt_alive"));
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        create(&real, &kinds[k]);
        create(&mock, &kinds[k]);
        for (int i = 0; i < kinds[k].count; i++) {
            const int attribute = kinds[k].attributes[i];
            for (size_t size = 0; size <= 16; size++) {
                unsigned char want[16] = {0}, have[16] = {0};
                size_t wrote = 0, writes = 0;
                const cublasStatus_t got = real.get(real.object, attribute, size > 0 ? want : NULL, size, &wrote);
                const cublasStatus_t gets = mock.get(mock.object, attribute, size > 0 ? have : NULL, size, &writes);
                if (got != gets || (got == CUBLAS_STATUS_SUCCESS && (wrote != writes || memcmp(want, have, 16) != 0))) {
                    fail_msg("%s attribute %d, %zu bytes: status %d instead of %d, or another value", kinds[k].name,
                             attribute, size, (int)gets, (int)got);
                }
                const cublasStatus_t did = real.set(real.object, attribute, want, size);
                const cublasStatus_t does = mock.set(mock.object, attribute, want, size);
                if (did != does) {
                    fail_msg("%s attribute %d set by %zu bytes: status %d instead of %d", kinds[k].name, attribute,
                             size, (int)does, (int)did);
                }
                compared++;
            }
        }
        destroy(&real, &kinds[k]);
        destroy(&mock, &kinds[k]);
    }
    print_message("%u pairs of attribute and size are alike\n", compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attributes_are_the_librarys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
