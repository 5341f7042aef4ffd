#include "tools/plan/plan_kept.h"

#include "costmodel/closed_form/memory_kept.h"
#include "costmodel/closed_form/memory_model.h"
#include "tools/cli/text_table.h"

#include <stdio.h>

enum { TOKENS = 1024 }; /* in redco-exec's column, whose values are counted for a whole sequence */

static uint64_t sum_of(const redco_inputs *inputs, redco_kept_column column)
{
    const redco_model_dims *const dims = redco_model_get_dims(inputs->model);
    const redco_kept_tensor *tensors = NULL;
    const size_t count = redco_kept_tensors(&tensors);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += redco_kept_token_bytes(dims, &tensors[i], column, &inputs->choice.engine);
    }
    return bytes;
}

static double executor_bytes(const redco_inputs *inputs)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(inputs->model, &classes);
    const redco_shape shape = {.seq_len = TOKENS,
                               .micro_batch = 1,
                               .tp = 1,
                               .cp = 1,
                               .precision = REDCO_BF16,
                               .engine = {.planned_memory = true, .made_again = true}};
    for (uint32_t i = 0; i < count; i++) {
        if (classes[i].kind != REDCO_CLASS_BLOCK) { continue; }
        return (double)redco_activation_bytes(inputs->model, i, &shape, REDCO_RECOMPUTE_NONE) / TOKENS;
    }
    return 0.0;
}

static json_t *kept_json(const redco_inputs *inputs)
{
    const redco_model_dims *const dims = redco_model_get_dims(inputs->model);
    const redco_kept_tensor *tensors = NULL;
    const size_t count = redco_kept_tensors(&tensors);
    json_t *const rows = json_array(), *const sums = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *const row = json_pack("{s:s,s:s}", "tensor", tensors[i].name, "source", tensors[i].source);
        for (int c = 0; c < REDCO_KEPT_COLUMNS; c++) {
            const redco_kept_column column = (redco_kept_column)c;
            const uint64_t bytes = redco_kept_token_bytes(dims, &tensors[i], column, &inputs->choice.engine);
            (void)json_object_set_new(row, redco_kept_column_name(column), json_integer((json_int_t)bytes));
        }
        (void)json_array_append_new(rows, row);
    }
    for (int c = 0; c < REDCO_KEPT_COLUMNS; c++) {
        const redco_kept_column column = (redco_kept_column)c;
        (void)json_object_set_new(sums, redco_kept_column_name(column),
                                  json_integer((json_int_t)sum_of(inputs, column)));
    }
    (void)json_object_set_new(sums, "redco-exec", json_real(executor_bytes(inputs)));
    return json_pack("{s:s,s:i,s:s,s:o,s:o}", "format", "redco-kept", "version", 1, "model",
                     redco_model_name(inputs->model), "tensors", rows, "bytes_per_token", sums);
}

static bool print_table(const redco_inputs *inputs)
{
    const redco_model_dims *const dims = redco_model_get_dims(inputs->model);
    const redco_kept_tensor *tensors = NULL;
    const size_t count = redco_kept_tensors(&tensors);
    struct table *const table = table_new("lrrrrrrrr");
    char text[32];
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "tensor");
    for (int c = 0; c < REDCO_KEPT_COLUMNS; c++) {
        table_cell(table, "%s", redco_kept_column_name((redco_kept_column)c));
    }
    table_cell(table, "redco-exec");
    for (size_t i = 0; i <= count; i++) {
        uint64_t most = 0;
        for (int c = 0; c < REDCO_KEPT_COLUMNS && i < count; c++) {
            most |= redco_kept_token_bytes(dims, &tensors[i], (redco_kept_column)c, &inputs->choice.engine);
        }
        if (i < count && most == 0) { continue; }
        table_row(table);
        table_cell(table, "%s", i < count ? tensors[i].name : "all");
        for (int c = 0; c < REDCO_KEPT_COLUMNS; c++) {
            const redco_kept_column column = (redco_kept_column)c;
            const uint64_t bytes = i < count ? redco_kept_token_bytes(dims, &tensors[i], column, &inputs->choice.engine)
                                             : sum_of(inputs, column);
            table_cell(table, "%s", bytes > 0 ? format_count(bytes, text, sizeof text) : "-");
        }
        if (i == count) { table_cell(table, "%s", format_count((uint64_t)executor_bytes(inputs), text, sizeof text)); }
    }
    printf("%s: bytes a token that one layer keeps for backward, 16 bits, no parallelism (costmodel/closed_form/"
           "MEMORY.md)\n",
           redco_model_name(inputs->model));
    const bool printed = table_print(table, "  ", stdout);
    table_free(table);
    return printed;
}

int plan_kept(const struct plan_args *args, const redco_inputs *inputs)
{
    redco_error err = {.status = REDCO_OK};
    if (!args->cli.json) {
        if (print_table(inputs)) { return 0; }
        (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        return cli_fail(&args->cli, &err);
    }
    json_t *const json = kept_json(inputs);
    const int code = cli_print_json(&args->cli, json);
    json_decref(json);
    return code;
}
