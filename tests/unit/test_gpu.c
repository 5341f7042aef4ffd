/* GPU files: every preset against facts stated elsewhere, the reader against slips. */
#include "topology/base/preset.h"
#include "topology/discovery/node_internal.h"
#include "topology/discovery/pci_ids.h"
#include "topology/discovery/topology.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool close_to(double got, double wanted)
{
    return fabs(got - wanted) <= 1e-9 * fabs(wanted);
}

/* Each value an object with a source; the file's name is the GPU's. */
static void every_value_has_a_source(void **state)
{
    (void)state;
    size_t presets = 0;
    for (; redco_preset_at("gpus", presets) != NULL; presets++) {
        const redco_preset *preset = redco_preset_at("gpus", presets);
        redco_json *document = NULL;
        redco_gpu gpu = {0};
        redco_error err = {0};
        const char *key = NULL;
        json_t *value = NULL;
        if (redco_gpu_find(preset->name, &gpu, &err) != REDCO_OK) {
            print_error("%s: %s\n", err.place, err.text);
            fail();
        }
        assert_string_equal(gpu.name, preset->name);
        assert_int_equal(redco_json_parse(preset->text, preset->size, preset->name, &document, NULL), REDCO_OK);
        json_t *root = (json_t *)(uintptr_t)redco_json_root(document).json;
        json_object_foreach(root, key, value)
        {
            static const char *const plain[] = {"format", "version", "name", "vendor", "arch", "note"};
            bool is_plain = false;
            for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) { is_plain |= strcmp(key, plain[i]) == 0; }
            assert_true(is_plain || json_string_length(json_object_get(value, "source")) > 5);
        }
        redco_json_close(document);
    }
    assert_int_equal(presets, 49); /* 47 parts and the die of a MI250X */
}

/* One direction, all links of a GPU: links x rate of a link (20, 25, 50 GB/s for NVLink 1, 2 to 4, 5). */
static void link_totals_match_link_counts(void **state)
{
    static const struct {
        const char *name;
        uint32_t links;
        double gigabytes_per_s;
    } rows[] = {
        {"P100-SXM2-16GB", 4, 80},   {"V100-SXM2-16GB", 6, 150},
        {"V100-SXM3-32GB", 6, 150},  {"A100-SXM4-40GB", 12, 300},
        {"A100-SXM4-80GB", 12, 300}, {"A800-SXM4-80GB", 8, 200},
        {"H800-SXM5-80GB", 8, 200},  {"H100-SXM5-80GB", 18, 450},
        {"H200-SXM-141GB", 18, 450}, {"B200-SXM-180GB", 18, 900},
        {"GB200-per-GPU", 18, 900},  {"MI250X-GCD", 7, 350},
        {"B300-SXM-270GB", 18, 900}, {"GB300-per-GPU", 18, 900},
        {"MI300X", 7, 448},          {"T4", 0, 0},
        {"MI355X", 7, 537.6},        {"RTX-A6000", 4, 56.25},
        {"H100-NVL-94GB", 12, 300},  {"GH200-96GB", 18, 450},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_gpu gpu = {0};
        assert_int_equal(redco_gpu_find(rows[i].name, &gpu, NULL), REDCO_OK);
        assert_int_equal(gpu.link_count, rows[i].links);
        assert_true(close_to(gpu.scale_up_bytes_per_s, rows[i].gigabytes_per_s * 1e9));
    }
}

static double column(char *const *cells, size_t index)
{
    return cells[index] != NULL && cells[index][0] != '\0' ? strtod(cells[index], NULL) : 0.0;
}

static void check_csv_row(char *const *cells)
{
    redco_gpu gpu = {0};
    assert_int_equal(redco_gpu_find(cells[0], &gpu, NULL), REDCO_OK);
    assert_string_equal(gpu.vendor, cells[1]);
    assert_string_equal(gpu.arch, cells[2]);
    assert_true(close_to(gpu.fp16_flops_per_s, column(cells, 4) * 1e12));
    assert_true(close_to(gpu.bf16_flops_per_s, column(cells, 5) * 1e12));
    assert_true(close_to(gpu.fp8_flops_per_s, column(cells, 6) * 1e12));
    assert_true(close_to(gpu.tf32_flops_per_s, column(cells, 7) * 1e12));
    assert_true(close_to(gpu.fp32_flops_per_s, column(cells, 8) * 1e12));
    assert_true(close_to((double)gpu.memory_bytes, column(cells, 9) * 0x1p30));
    assert_true(close_to(gpu.memory_bandwidth_bytes_per_s, column(cells, 11) * 1e9));
    assert_string_equal(gpu.link, cells[12]);
    assert_int_equal(gpu.maker, strcmp(cells[1], "NVIDIA") == 0 ? REDCO_GPU_NVIDIA
                                : strcmp(cells[1], "AMD") == 0  ? REDCO_GPU_AMD
                                                                : REDCO_GPU_OTHER);
    assert_int_equal(gpu.nvlink, strstr(cells[12], "NVLink") != NULL);
    assert_int_equal(gpu.bridged, strstr(cells[12], "bridge") != NULL);
    assert_true(close_to(gpu.link_count, column(cells, 13)));
    assert_true(close_to(gpu.scale_up_bytes_per_s, column(cells, 15) * 1e9));
    assert_true(close_to(gpu.pcie_gen, column(cells, 16)));
    assert_true(close_to(gpu.pcie_bytes_per_s, column(cells, 18) * 1e9));
    assert_true(close_to(gpu.tdp_w, column(cells, 19)));
    if (strcmp(gpu.vendor, "NVIDIA") == 0) { assert_true(close_to(gpu.compute_capability, column(cells, 3) * 10)); }
}

static void presets_match_the_hardware_table(void **state)
{
    char line[4096];
    size_t rows = 0;
    (void)state;
    FILE *stream = fopen(REDCO_SHARED_DIR "/hardware/gpus.csv", "r");
    if (stream == NULL) {
        print_message("skipped: there is no " REDCO_SHARED_DIR "/hardware/gpus.csv\n");
        skip();
    }
    while (fgets(line, sizeof line, stream) != NULL) {
        char *cells[32] = {NULL};
        char *rest = line;
        size_t count = 0;
        if (line[0] == '#' || strncmp(line, "name,", 5) == 0) { continue; }
        while (rest != NULL && count < 32) { cells[count++] = strsep(&rest, ","); }
        assert_true(count >= 24);
        print_message("%s\n", cells[0]);
        check_csv_row(cells);
        rows++;
    }
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(rows, 26);
}

static void unknown_names_list_the_known(void **state)
{
    redco_gpu gpu = {0};
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_gpu_find("a100-sxm4-80gb", &gpu, NULL), REDCO_OK); /* in any case */
    assert_string_equal(gpu.name, "A100-SXM4-80GB");
    assert_int_equal(redco_gpu_find("A1000", &gpu, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "A1000");
    assert_non_null(strstr(err.text, "A100-SXM4-80GB"));
    redco_error_clear(&err);
    assert_int_equal(redco_gpu_find("./nothing.json", &gpu, &err), REDCO_EIO);
}

#define HEAD "{\"format\":\"redco-gpu\",\"version\":1,\"name\":\"x\",\"vendor\":\"y\","
#define REST "\"memory\":\"8 GB\",\"memory_bandwidth\":\"1 TB/s\",\"pcie\":\"32 GB/s\",\"fp16\":\"1 TFLOP/s\""
static redco_status read_text(const char *text, redco_gpu *gpu, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, strlen(text), "g.json", &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_gpu_from_json(&root, gpu, err);
    redco_json_close(document);
    return st;
}

/* Dense, per GPU. Blackwell Ultra has 14 and 15 PFLOP/s, not twice its 8-bit rate. */
static void four_bit_rates_stand_in_files(void **state)
{
    static const struct {
        const char *name;
        double petaflops;
    } rows[] = {{"B200-SXM-180GB", 9.0}, {"GB200-per-GPU", 10.0}, {"B300-SXM-270GB", 14.0}, {"GB300-per-GPU", 15.0},
                {"H100-SXM5-80GB", 0.0}, {"MI300X", 0.0},         {"MI355X", 10.066}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_gpu gpu = {0};
        assert_int_equal(redco_gpu_find(rows[i].name, &gpu, NULL), REDCO_OK);
        assert_true(close_to(gpu.fp4_flops_per_s, 1e15 * rows[i].petaflops));
    }
}

/* Plans and nodes from before fp4_flops_per_s. */
static void older_descriptions_have_twice_the_8_bit_rate(void **state)
{
    redco_gpu gpu = {0}, read = {0};
    (void)state;
    assert_int_equal(redco_gpu_find("GB300-per-GPU", &gpu, NULL), REDCO_OK);
    json_t *const json = redcoi_gpu_describe(&gpu);
    const redco_json_value now = redco_json_wrap(json, "gpu");
    assert_int_equal(redcoi_gpu_from_si(&now, &read, NULL), REDCO_OK);
    assert_true(close_to(read.fp4_flops_per_s, 15e15));
    assert_int_equal(json_object_del(json, "fp4_flops_per_s"), 0);
    assert_int_equal(redcoi_gpu_from_si(&now, &read, NULL), REDCO_OK);
    assert_true(close_to(read.fp4_flops_per_s, 10e15));
    (void)json_object_set_new(json, "compute_capability", json_integer(90));
    assert_int_equal(redcoi_gpu_from_si(&now, &read, NULL), REDCO_OK);
    assert_true(close_to(read.fp4_flops_per_s, 0.0));
    json_decref(json);
}

static void bare_values_are_read(void **state)
{
    redco_gpu gpu = {0};
    (void)state;
    assert_int_equal(
        read_text(HEAD REST ",\"links\":2,\"scale_up\":{\"value\":\"400 Gb/s\",\"source\":\"us\"}}", &gpu, NULL),
        REDCO_OK);
    assert_true(gpu.memory_bytes == 8000000000); /* GB is 1e9 where people write it */
    assert_true(close_to(gpu.scale_up_bytes_per_s, 50e9));
    assert_int_equal(gpu.compute_capability, 0);
    assert_string_equal(gpu.link, "none");
}

static void slips_are_refused(void **state)
{
    static const struct {
        const char *text, *place, *what;
    } rows[] = {
        {"[]", "g.json", "an object"},
        {HEAD "\"fp16\":\"1 TFLOP/s\"}", "g.json:/memory", "is missing"},
        {HEAD REST ",\"fp61\":\"1 TFLOP/s\"}", "g.json:/fp61", "did you mean \"fp16\""},
        {HEAD REST ",\"bf16\":312}", "g.json:/bf16", "a string with a unit"},
        {HEAD REST ",\"bf16\":\"312\"}", "g.json:/bf16", "no unit"},
        {HEAD REST ",\"bf16\":\"312 TB\"}", "g.json:/bf16", "unknown unit"},
        {HEAD REST ",\"bf16\":{\"value\":\"312 TFLOP/s\"}}", "g.json:/bf16/source", "is missing"},
        {HEAD REST ",\"bf16\":{\"value\":\"312 TFLOP/s\",\"source\":\"\"}}", "g.json:/bf16/source",
         "where it comes from"},
        {HEAD REST ",\"bf16\":{\"value\":\"9e9 PFLOP/s\",\"source\":\"s\"}}", "g.json:/bf16/value", "from 0 to 1e+18"},
        {HEAD REST ",\"links\":3}", "g.json", "both or neither"},
        {HEAD REST ",\"pci\":{\"value\":[{\"id\":\"10DE:2330\",\"name\":\"x\"}],\"source\":\"s\"}}",
         "g.json:/pci/value/0/id", "such as \"10de:2330\""},
        {HEAD REST ",\"pci\":{\"value\":[{\"id\":\"10de:2330\"}],\"source\":\"s\"}}", "g.json:/pci/value/0/name",
         "is missing"},
        {HEAD REST ",\"links\":-1}", "g.json:/links", "-1"},
        {HEAD REST ",\"compute_capability\":\"-8.0\"}", "g.json:/compute_capability", "such as \"8.0\""},
        {HEAD "\"memory\":\"0 GB\",\"memory_bandwidth\":\"1 TB/s\",\"pcie\":\"32 GB/s\"}", "g.json:/memory", "above 0"},
        {HEAD "\"memory\":\"8 GB\",\"memory_bandwidth\":\"1 TB/s\",\"pcie\":\"32 GB/s\"}", "g.json", "no compute rate"},
        {"{\"format\":\"redco-gpu\",\"version\":1,\"name\":\"\",\"vendor\":\"y\"," REST "}", "g.json:/name",
         "has 0 bytes"},
        {"{\"format\":\"redco-gpu\",\"version\":9,\"name\":\"x\",\"vendor\":\"y\"," REST "}", "g.json:/version",
         "newer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_gpu gpu = {0};
        redco_error err = {0};
        assert_int_equal(read_text(rows[i].text, &gpu, &err), REDCO_EVALUE);
        assert_int_equal(gpu.name[0], '\0'); /* untouched */
        if (strcmp(err.place, rows[i].place) != 0 || strstr(err.text, rows[i].what) == NULL) {
            print_error("\"%s\": \"%s\" where \"%s\": \"%s\" is wanted\n", err.place, err.text, rows[i].place,
                        rows[i].what);
            fail();
        }
    }
}

/* Each PCI id of a GPU file finds that file and no other. */
static void pci_ids_find_their_files(void **state)
{
    redcoi_part part;
    size_t ids = 0;
    const redco_preset *preset = NULL;
    (void)state;
    for (size_t p = 0; (preset = redco_preset_at("gpus", p)) != NULL; p++) {
        redco_json *document = NULL;
        assert_int_equal(redco_json_parse(preset->text, preset->size, preset->name, &document, NULL), REDCO_OK);
        const json_t *const root = redco_json_root(document).json;
        const json_t *const list = json_object_get(json_object_get(root, "pci"), "value");
        for (size_t i = 0; i < json_array_size(list); i++, ids++) {
            unsigned vendor = 0, device = 0;
            const json_t *const entry = json_array_get(list, i);
            const char *const id = json_string_value(json_object_get(entry, "id"));
            vendor = (unsigned)strtoul(id, NULL, 16);
            device = (unsigned)strtoul(id + 5, NULL, 16);
            assert_true(redcoi_part_find(vendor, device, &part));
            assert_int_equal(part.kind, REDCOI_PART_GPU);
            assert_string_equal(part.preset, preset->name);
            assert_string_equal(part.name, json_string_value(json_object_get(entry, "name")));
        }
        redco_json_close(document);
    }
    assert_int_equal(ids, 42);
    assert_true(redcoi_part_find(REDCOI_VENDOR_NVIDIA, 0x20b7, &part)); /* A30: known, no file */
    assert_null(part.preset);
    assert_false(redcoi_part_find(REDCOI_VENDOR_NVIDIA, 0x2231, &part));
    assert_false(redcoi_part_find(0x1a03, 0x2000, &part)); /* ASPEED console */
    assert_false(redcoi_is_gpu_class(0x1a03, 0x0300));
    assert_false(redcoi_is_gpu_class(0x102b, 0x0300));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_has_a_source),
        cmocka_unit_test(link_totals_match_link_counts),
        cmocka_unit_test(presets_match_the_hardware_table),
        cmocka_unit_test(unknown_names_list_the_known),
        cmocka_unit_test(four_bit_rates_stand_in_files),
        cmocka_unit_test(older_descriptions_have_twice_the_8_bit_rate),
        cmocka_unit_test(bare_values_are_read),
        cmocka_unit_test(slips_are_refused),
        cmocka_unit_test(pci_ids_find_their_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
