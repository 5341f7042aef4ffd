/* The recorded machines of ../shared/topology/recorded against expected.json there, which was derived from the files by
 * an XML parser and hwloc's own tools. Its keys: the exit code (2 is a refusal), counts of GPUs, NICs and NUMA nodes
 * (a list holds whatever is right), the GPU type, links as counts between bus ids, the rate of one link or of any pair
 * behind NVSwitch, what must be known, named or warned of. */
#include "tests/unit/node_checks.h"

#include <jansson.h>
#include <unistd.h>

#define FOLDER REDCO_SHARED_DIR "/topology/recorded/"

struct recorded {
    const char *file;
    const json_t *want;
    const redco_node *node;
    const redco_node_gpu *gpus;
    const redco_node_nic *nics;
    size_t gpu_count, nic_count, numa_count;
    unsigned wrong;
};

__attribute__((format(printf, 2, 3))) static void wrong(struct recorded *machine, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s: %s\n", machine->file, text);
    machine->wrong++;
}

/* A number, or a list of the right ones; true where there is none. */
static bool allows(const json_t *want, size_t got)
{
    bool found = want == NULL;
    size_t i = 0;
    const json_t *entry = NULL;
    if (json_is_integer(want)) { return (size_t)json_integer_value(want) == got; }
    json_array_foreach(want, i, entry)
    {
        found = found || (size_t)json_integer_value(entry) == got;
    }
    return found;
}

static void check_count(struct recorded *machine, const char *key, size_t got)
{
    if (!allows(json_object_get(machine->want, key), got)) { wrong(machine, "%zu %s", got, key); }
}

static void check_types(struct recorded *machine)
{
    const char *type = json_string_value(json_object_get(machine->want, "type"));
    for (size_t i = 0; type != NULL && i < machine->gpu_count; i++) {
        if (strcmp(machine->gpus[i].preset, type) != 0) { wrong(machine, "GPU %zu is %s", i, machine->gpus[i].preset); }
    }
}

/* @return the number of links that the file has between two GPUs; its keys have the lower bus id first. */
static double counted(const struct recorded *machine, size_t i, size_t j)
{
    char key[40];
    const char *a = machine->gpus[i].pci;
    const char *b = machine->gpus[j].pci;
    (void)snprintf(key, sizeof key, "%s-%s", strcmp(a, b) < 0 ? a : b, strcmp(a, b) < 0 ? b : a);
    return json_number_value(json_object_get(json_object_get(machine->want, "links"), key));
}

static void check_links(struct recorded *machine)
{
    const json_t *rate = json_object_get(machine->want, "per_link");
    const json_t *through_switch = json_object_get(machine->want, "switch");
    double each = json_number_value(rate);
    for (size_t i = 0; i < machine->gpu_count; i++) {
        for (size_t j = i + 1; j < machine->gpu_count; j++) {
            const double got = redco_node_link(machine->node, i, j);
            if (through_switch != NULL && got != json_number_value(through_switch)) {
                wrong(machine, "GPU %zu to %zu: %g bytes/s", i, j, got);
            }
            if (json_object_get(machine->want, "links") == NULL) { continue; }
            const double links = counted(machine, i, j);
            if (each == 0.0 && links > 0.0) { each = got / links; } /* all alike where the rate itself is not said */
            if (!(fabs(got - links * each) <= 1e-6 * got) || (links > 0.0 && !(got > 0.0))) {
                wrong(machine, "GPU %zu to %zu: %g bytes/s for %g links", i, j, got, links);
            }
        }
    }
}

static void check_nic_rates(struct recorded *machine)
{
    const json_t *rate = json_object_get(machine->want, "nic_rate");
    const bool known = json_is_true(json_object_get(machine->want, "nic_rates_known"));
    for (size_t i = 0; i < machine->nic_count; i++) {
        const double got = machine->nics[i].bytes_per_s;
        if ((known && !(got > 0.0)) || (rate != NULL && got != json_number_value(rate))) {
            wrong(machine, "NIC %zu has %g bytes/s", i, got);
        }
    }
}

static void check_words(struct recorded *machine)
{
    const bool warned = redco_node_warning(machine->node, 0) != NULL;
    if (json_is_true(json_object_get(machine->want, "warns")) && !warned) { wrong(machine, "no warning"); }
    if (!json_is_true(json_object_get(machine->want, "names_part"))) { return; }
    for (size_t i = 0; i < machine->gpu_count; i++) {
        if (machine->gpus[i].model[0] == '\0') { wrong(machine, "GPU %zu is not named", i); }
    }
}

static void check_node(struct recorded *machine)
{
    const redco_node_numa *numas = NULL;
    machine->gpu_count = redco_node_gpus(machine->node, &machine->gpus);
    machine->nic_count = redco_node_nics(machine->node, &machine->nics);
    machine->numa_count = redco_node_numas(machine->node, &numas);
    check_count(machine, "gpus", machine->gpu_count);
    check_count(machine, "nics", machine->nic_count);
    check_count(machine, "numas", machine->numa_count);
    check_types(machine);
    check_links(machine);
    check_nic_rates(machine);
    check_words(machine);
    check_round_trip(machine->node);
}

/* expected.json was written when format 3 of hwloc was refused; what such a file holds is what its twin in format 2
 * holds. @return the twin's entry, or `want` */
static const json_t *twin_of(const json_t *expected, const char *file, const json_t *want)
{
    char twin[256];
    (void)snprintf(twin, sizeof twin, "%s", file);
    char *version = strstr(twin, ".v3.xml");
    if (version == NULL) { return want; }
    version[2] = '2';
    const json_t *found = json_object_get(expected, twin);
    return found != NULL ? found : want;
}

static unsigned check_file(const char *file, const json_t *want)
{
    char path[512];
    redco_node *node = NULL;
    redco_error err = {0};
    struct recorded machine = {.file = file, .want = want};
    (void)snprintf(path, sizeof path, FOLDER "%s", file);
    const redco_status st = redco_node_read(path, &node, &err);
    const size_t code = st == REDCO_OK ? 0 : st == REDCO_EVALUE || st == REDCO_EIO ? 2 : 3;
    if (!allows(json_object_get(want, "exit"), code)) {
        wrong(&machine, "exit code %zu%s%s", code, code != 0 ? ": " : "", err.text);
    } else if (st == REDCO_OK) {
        machine.node = node;
        check_node(&machine);
    }
    redco_node_free(node);
    return machine.wrong > 0;
}

static void recorded_machines_are_what_they_are(void **state)
{
    const char *file = NULL;
    json_t *want = NULL;
    size_t count = 0;
    unsigned failed = 0;
    (void)state;
    if (access(FOLDER "expected.json", R_OK) != 0) {
        print_message("skipped: there is no " FOLDER "expected.json\n");
        skip();
    }
    json_t *expected = json_load_file(FOLDER "expected.json", 0, NULL);
    assert_non_null(expected);
    json_object_foreach(expected, file, want)
    {
        failed += check_file(file, twin_of(expected, file, want));
        count++;
    }
    print_message("%zu recorded machines, %u wrong\n", count, failed);
    json_decref(expected);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_machines_are_what_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
