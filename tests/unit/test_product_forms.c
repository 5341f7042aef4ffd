/* Which form and epilogue each product of LLaMA-like models has, from 125 million to 7 billion parameters: a table on
 * standard output, and what the design of the backend's products rests on. Needs no device. */
#include "language_fixture.h"

#include "costmodel/graph/fuse_matmul.h"
#include "executor/backend/cuda/products/blas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct size {
    const char *name;
    uint32_t hidden, ffn, layers, heads, groups;
} sizes[] = {{"125M", 768, 2048, 12, 12, 12},
             {"1.1B", 2048, 5632, 22, 32, 4},
             {"2.7B", 2560, 6912, 32, 20, 20},
             {"7B", 4096, 11008, 32, 32, 32}};

enum { SIZES = sizeof sizes / sizeof sizes[0], LINES = 64 };

/* NVIDIA's data sheet of the H200 SXM: bf16 without sparsity, and memory. */
static const double flops_per_s = 989e12, bytes_per_s = 4.8e12;

typedef struct line {
    char name[64];
    redcoi_product product;
    uint32_t count;
} line;

static bool everything(void *context, const redco_op *op, const redco_tensor_type *inputs,
                       const redco_tensor_type *outputs)
{
    (void)context;
    (void)op;
    (void)inputs;
    (void)outputs;
    return true;
}

static void open_model(language *l, const struct size *size, uint32_t length)
{
    char path[] = "/tmp/redco-forms-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *const out = fdopen(file, "w");
    assert_non_null(out);
    (void)fprintf(
        out,
        "{\"model_type\": \"llama\", \"hidden_size\": %u, \"intermediate_size\": %u, \"num_hidden_layers\": %u, "
        "\"num_attention_heads\": %u, \"num_key_value_heads\": %u, \"vocab_size\": 32000, \"rms_norm_eps\": 1e-6, "
        "\"tie_word_embeddings\": false}\n",
        size->hidden, size->ffn, size->layers, size->heads, size->groups);
    assert_int_equal(fclose(out), 0);
    const language_shape shape = {REDCO_BFLOAT16, 1, length, 1, 0, false, NULL, NULL};
    language_open(l, path, &shape);
    (void)unlink(path);
}

static redcoi_product product_of(const redco_graph *graph, const redco_op *op)
{
    redco_tensor in[REDCO_INPUTS_MAX], out[REDCO_OUTPUTS_MAX];
    redcoi_product product;
    redcoi_configuration configuration;
    for (uint32_t i = 0; i < op->input_count; i++) {
        in[i] = (redco_tensor){*redco_value_type(graph, op->inputs[i]), NULL};
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        out[i] = (redco_tensor){*redco_value_type(graph, op->first_output + i), NULL};
    }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = op->output_count,
                                 .inputs = in,
                                 .outputs = out,
                                 .name = ""};
    assert_true(redcoi_product_of(&launch, &product, &configuration));
    assert_int_equal(configuration.rank, 0); /* one call */
    assert_int_equal(product.count, 1);
    assert_int_equal(product.alignment_bytes, REDCO_ALIGNMENT_BYTES);
    return product;
}

/** "bwd/block/qkv/input" of "bwd/block.3/qkv/input". */
static void without_index(char *name)
{
    char *const dot = strchr(name, '.'), *const slash = dot == NULL ? NULL : strchr(dot, '/');
    if (slash != NULL) { memmove(dot, slash, strlen(slash) + 1); }
}

static uint32_t collect(const redco_graph *graph, line lines[LINES])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        line next = {.count = 1};
        uint32_t at = 0;
        if (redco_op_kind_class(op->kind) != REDCO_CLASS_MATMUL) { continue; }
        next.product = product_of(graph, op);
        (void)redco_op_name(graph, op, next.name, sizeof next.name);
        without_index(next.name);
        const bool weight = strstr(next.name, "/weight") != NULL, input = strstr(next.name, "/input") != NULL;
        /* Weights are [in, out]: x W, dy W^T, x^T dy. */
        assert_int_equal(next.product.transposes, weight ? REDCO_FLAG_TRANSPOSE_A : input ? REDCO_FLAG_TRANSPOSE_B : 0);
        /* Rows of every matrix begin at multiples of 16 bytes: what bulk copies of tensors (TMA) ask for. */
        assert_true(next.product.m % 8 == 0 && next.product.n % 8 == 0 && next.product.k % 8 == 0);
        while (at < count && (strcmp(lines[at].name, next.name) != 0 ||
                              memcmp(&lines[at].product, &next.product, sizeof next.product) != 0)) {
            at++;
        }
        if (at == count) {
            assert_true(count < LINES);
            lines[count++] = next;
        } else {
            lines[at].count++;
        }
    }
    return count;
}

/** A product's time: the longer of computing and moving, each at the data sheet's rate. @return whether computing is */
static bool is_compute_bound(const redcoi_product *p, double *seconds_out)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    const double compute_s = 2 * m * n * k / flops_per_s;
    const double moving_s = 2 * (m * k + k * n + m * n * (1 + (double)p->addend)) / bytes_per_s;
    *seconds_out = compute_s > moving_s ? compute_s : moving_s;
    return compute_s > moving_s;
}

static void forms(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SIZES; s++) {
        for (uint32_t length = 2048; length <= 4096; length *= 2) {
            const redco_fuse_choice choice = {everything, NULL};
            redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1];
            static line lines[LINES];
            redco_graph *fused = NULL;
            uint32_t sums = 0, products = 0;
            double least_s = 0;
            language l;
            open_model(&l, &sizes[s], length);
            assert_int_equal(
                redco_graph_fuse_matmul(l.graph, l.outputs, l.output_count, &choice, &fused, outputs, NULL), REDCO_OK);
            const uint32_t count = collect(fused, lines);
            (void)printf("LLaMA %s, %u tokens, bf16\n%-26s %5s %6s %6s %6s  %s %-12s %s\n", sizes[s].name, length,
                         "product", "calls", "m", "n", "k", "form", "epilogue", "us at the data sheet's rates");
            for (uint32_t i = 0; i < count; i++) {
                const redcoi_product *const p = &lines[i].product;
                double seconds = 0.0;
                const bool compute = is_compute_bound(p, &seconds);
                const bool tb = (p->transposes & REDCO_FLAG_TRANSPOSE_B) != 0;
                const bool ta = (p->transposes & REDCO_FLAG_TRANSPOSE_A) != 0;
                (void)printf("%-26s %5u %6llu %6llu %6llu  %c%c   %-12s %8.1f %s\n", lines[i].name, lines[i].count,
                             (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k,
                             tb ? 'T' : 'N', ta ? 'T' : 'N', p->addend != 0 ? "beta C" : "-", 1e6 * seconds,
                             compute ? "compute" : "memory");
                products += lines[i].count;
                sums += p->addend != 0 ? lines[i].count : 0;
                least_s += lines[i].count * seconds;
            }
            (void)printf("%u products, %u with a sum, %.2f ms at the data sheet's rates\n\n", products, sums,
                         1e3 * least_s);
            /* Seven matrices of a block and the head, forward and two gradients each; two residual sums, two sums of
             * three parts' gradients and one of two. */
            assert_int_equal(products, 3 * (7 * sizes[s].layers + 1));
            assert_int_equal(sums, 5 * sizes[s].layers);
            redco_graph_free(fused);
            language_close(&l);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
