/* Room for products on the host, taken before anything else. OpenBLAS maps a buffer at its first product, and where it
 * gets none it asks again for ever. So it is asked for when a failure can still be told. */
#include "costmodel/graph/build_calls.h"
#include "executor/backend/evaluate.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* BUFFER_SIZE of OpenBLAS for x86-64 with all its kernels: 32 << 22 (OpenBLAS/common_x86_64.h). */
static const size_t buffer_bytes = (size_t)128 << 20;
enum { SIDE = 128 }; /* small products need no buffer */

static redco_status multiply(redco_backend *backend, const float *data, void *product, redco_error *err)
{
    redco_graph *const graph = redco_graph_create();
    if (graph == NULL) { return redco_fail(err, REDCO_ENOMEM, "host", "out of memory"); }
    const uint64_t dims[2] = {SIDE, SIDE};
    const redco_tensor_type type = redco_type(REDCO_F32, 2, dims);
    const redco_value in = redco_input(graph, "x", &type), out = redco_matmul(graph, in, in, false, false);
    const redco_binding binding = {in, data};
    const redco_result result = {out, product};
    redco_status st = redco_graph_status(graph, err);
    if (st == REDCO_OK) { st = redco_evaluate(backend, graph, &binding, 1, &result, 1, err); }
    redco_graph_free(graph);
    return st;
}

redco_status redcoi_room_for_products(redco_backend *backend, redco_error *err)
{
    void *const room = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return redco_fail(err, REDCO_ENOMEM, "host",
                          "no %zu MiB of address space are left (ulimit -v), which products on processors need",
                          buffer_bytes >> 20);
    }
    (void)munmap(room, buffer_bytes);
    float *const data = calloc(SIDE * SIDE, sizeof *data), *const product = calloc(SIDE * SIDE, sizeof *product);
    const redco_status st = data != NULL && product != NULL ? multiply(backend, data, product, err)
                                                            : redco_fail(err, REDCO_ENOMEM, "host", "out of memory");
    free(data);
    free(product);
    return st;
}
