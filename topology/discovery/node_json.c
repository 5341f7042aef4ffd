/* Node JSON: what redco-topo prints and cluster and plan files hold. Plain SI numbers; a whole number stays whole, so
 * that a node reads back as it was. */
#include "topology/discovery/node_internal.h"

#include <string.h>

enum { NODE_VERSION = 1 };
static const double rate_max = 1e15; /* bytes/s: a thousand times the fastest link of today */

static const char *const cpu_names[] = {"unknown", "intel", "amd", "arm", "power", NULL};
static const char *const fabric_names[] = {"pcie", "direct", "switch", NULL};

/* ---- writer ---- */

/* Takes @p value; false when out of memory. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool put_index(json_t *object, const char *key, uint32_t value)
{
    return value == UINT32_MAX || put(object, key, json_integer(value));
}

static bool put_text(json_t *object, const char *key, const char *text)
{
    return text[0] == '\0' || put(object, key, json_string(text));
}

static bool put_gpu(json_t *array, const redco_node_gpu *gpu)
{
    json_t *object = json_object();
    const bool ok = put_text(object, "type", gpu->preset) && put_text(object, "model", gpu->model) &&
                    put_text(object, "os_name", gpu->os_name) && put_text(object, "pci", gpu->pci) &&
                    put_index(object, "numa", gpu->numa) && put_index(object, "pci_switch", gpu->pci_switch) &&
                    put_index(object, "pci_root", gpu->pci_root) &&
                    put(object, "memory_bytes", json_integer((json_int_t)gpu->memory_bytes)) &&
                    put(object, "pcie_bytes_per_s", redcoi_json_rate(gpu->pcie_bytes_per_s));
    return json_array_append_new(array, object) == 0 && ok;
}

static bool put_nic(json_t *array, const redco_node_nic *nic)
{
    json_t *object = json_object();
    const bool ok = put_text(object, "name", nic->name) && put_text(object, "model", nic->model) &&
                    put_text(object, "pci", nic->pci) && put_index(object, "numa", nic->numa) &&
                    put_index(object, "pci_switch", nic->pci_switch) && put_index(object, "pci_root", nic->pci_root) &&
                    put_index(object, "nearest_gpu", nic->nearest_gpu) &&
                    put(object, "bytes_per_s", redcoi_json_rate(nic->bytes_per_s));
    return json_array_append_new(array, object) == 0 && ok;
}

static bool put_numa(json_t *array, const redco_node_numa *numa)
{
    json_t *object = json_object();
    const bool ok = put(object, "index", json_integer(numa->index)) && put(object, "cpus", json_integer(numa->cpus)) &&
                    put(object, "memory_bytes", json_integer((json_int_t)numa->memory_bytes));
    return json_array_append_new(array, object) == 0 && ok;
}

/* One rate for all pairs, or a list of the linked ones. */
static bool put_links(json_t *root, const redco_node *node)
{
    const double first = redco_node_link(node, 0, 1);
    bool uniform = node->gpu_count > 1;
    bool ok = true;
    for (size_t i = 0; i < node->gpu_count; i++) {
        for (size_t j = i + 1; j < node->gpu_count; j++) { uniform = uniform && redco_node_link(node, i, j) == first; }
    }
    if (node->fabric == REDCO_FABRIC_PCIE) { return true; }
    if (uniform) { return put(root, "link_bytes_per_s", redcoi_json_rate(first)); }
    json_t *links = json_array();
    for (size_t i = 0; i < node->gpu_count; i++) {
        for (size_t j = i + 1; j < node->gpu_count; j++) {
            const double rate = redco_node_link(node, i, j);
            if (!(rate > 0.0)) { continue; }
            json_t *link = json_object();
            ok = ok && put(link, "gpus", json_pack("[I,I]", (json_int_t)i, (json_int_t)j));
            ok = ok && put(link, "bytes_per_s", redcoi_json_rate(rate));
            ok = json_array_append_new(links, link) == 0 && ok;
        }
    }
    return put(root, "links", links) && ok;
}

json_t *redco_node_describe(const redco_node *node)
{
    json_t *root = json_object();
    json_t *types = json_array();
    json_t *gpus = json_array();
    json_t *nics = json_array();
    json_t *numas = json_array();
    json_t *warnings = json_array();
    bool ok = put(root, "format", json_string("redco-node")) && put(root, "version", json_integer(NODE_VERSION)) &&
              put(root, "name", json_string(node->name)) && put(root, "cpu", json_string(cpu_names[node->cpu])) &&
              put(root, "hosts", json_integer(node->hosts)) &&
              put(root, "fabric", json_string(fabric_names[node->fabric])) &&
              put(root, "switches", json_integer(node->switches));
    for (size_t i = 0; ok && i < node->type_count; i++) {
        ok = json_array_append_new(types, redcoi_gpu_describe(&node->types[i])) == 0;
    }
    for (size_t i = 0; ok && i < node->gpu_count; i++) { ok = put_gpu(gpus, &node->gpus[i]); }
    for (size_t i = 0; ok && i < node->nic_count; i++) { ok = put_nic(nics, &node->nics[i]); }
    for (size_t i = 0; ok && i < node->numa_count; i++) { ok = put_numa(numas, &node->numas[i]); }
    for (size_t i = 0; ok && i < node->warning_count; i++) {
        ok = json_array_append_new(warnings, json_string(node->warnings[i])) == 0;
    }
    /* each takes its reference, also on failure */
    ok = put(root, "numas", numas) && ok;
    ok = put(root, "gpu_types", types) && ok;
    ok = put(root, "gpus", gpus) && ok;
    ok = put_links(root, node) && ok;
    ok = put(root, "nics", nics) && ok;
    ok = put(root, "warnings", warnings) && ok;
    if (ok) { return root; }
    json_decref(root);
    return NULL;
}

/* ---- reader ---- */

static redco_status get_text(const redco_json_value *object, const char *key, char *out, size_t size, redco_error *err)
{
    const char *text = NULL;
    if (!redco_json_has(object, key)) { return REDCO_OK; }
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st != REDCO_OK) { return st; }
    if (strlen(text) >= size) {
        return redco_json_fail(object, key, err, "has %zu bytes; at most %zu are allowed", strlen(text), size - 1);
    }
    redcoi_text_copy(out, size, text);
    return REDCO_OK;
}

static redco_status get_index(const redco_json_value *object, const char *key, uint32_t *out, redco_error *err)
{
    *out = UINT32_MAX;
    return redco_json_has(object, key) ? redco_json_u32(object, key, 0, UINT32_MAX - 1, out, err) : REDCO_OK;
}

static redco_status get_rate(const redco_json_value *object, const char *key, double *out, redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_number(object, key, 0.0, rate_max, out, err) : REDCO_OK;
}

static redco_status get_bytes(const redco_json_value *object, const char *key, uint64_t *out, redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_u64(object, key, 0, (uint64_t)1 << 60, out, err) : REDCO_OK;
}

static redco_status get_word(const redco_json_value *object, const char *key, const char *const *words,
                             unsigned *index_out, redco_error *err)
{
    const char *text = NULL;
    char known[128] = "";
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st != REDCO_OK) { return st; }
    for (unsigned i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *index_out = i;
            return REDCO_OK;
        }
        (void)strncat(known, i > 0 ? ", " : "", sizeof known - strlen(known) - 1);
        (void)strncat(known, words[i], sizeof known - strlen(known) - 1);
    }
    return redco_json_fail(object, key, err, "is \"%.40s\"; one of %s is needed", text, known);
}

/* Array getter for members that may be absent. */
static redco_status get_list(const redco_json_value *root, const char *key, size_t max, redco_json_value *out,
                             size_t *count_out, redco_error *err)
{
    *count_out = 0;
    if (!redco_json_has(root, key)) { return REDCO_OK; }
    const redco_status st = redco_json_array(root, key, out, count_out, err);
    if (st == REDCO_OK && *count_out > max) {
        return redco_json_fail(root, key, err, "has %zu entries; a node has at most %zu", *count_out, max);
    }
    return st;
}

static redco_status read_type(redco_node *node, const redco_json_value *at, redco_error *err)
{
    redco_gpu gpu;
    redco_status st = redcoi_gpu_from_si(at, &gpu, err);
    if (st != REDCO_OK) { return st; }
    if (redcoi_node_type(node, gpu.name) != NULL) {
        return redco_json_fail(at, "name", err, "\"%s\" is there twice", gpu.name);
    }
    return redcoi_node_add_type(node, &gpu, err);
}

/* A type of the document, else a preset: people may leave gpu_types out. */
static redco_status find_type(redco_node *node, const redco_json_value *at, const char *name, redco_error *err)
{
    redco_gpu gpu;
    redco_error why = {0};
    if (redcoi_node_type(node, name) != NULL) { return REDCO_OK; }
    if (strchr(name, '/') != NULL || strchr(name, '.') != NULL || redco_gpu_find(name, &gpu, &why) != REDCO_OK) {
        return redco_json_fail(at, "type", err, "\"%s\" is neither in gpu_types nor a GPU preset", name);
    }
    if (strcmp(gpu.name, name) != 0) {
        return redco_json_fail(at, "type", err, "\"%s\" must be written \"%s\"", name, gpu.name);
    }
    return redcoi_node_add_type(node, &gpu, err);
}

static redco_status read_gpu(redco_node *node, size_t index, const redco_json_value *at, redco_error *err)
{
    static const char *const keys[] = {"type",     "model",        "os_name",          "pci", "numa", "pci_switch",
                                       "pci_root", "memory_bytes", "pcie_bytes_per_s", NULL};
    redco_node_gpu *gpu = &node->gpus[index];
    redco_status st = redco_json_only(at, keys, err);
    if (st == REDCO_OK) { st = get_text(at, "type", gpu->preset, sizeof gpu->preset, err); }
    if (st == REDCO_OK) { st = get_text(at, "model", gpu->model, sizeof gpu->model, err); }
    if (st == REDCO_OK) { st = get_text(at, "os_name", gpu->os_name, sizeof gpu->os_name, err); }
    if (st == REDCO_OK) { st = get_text(at, "pci", gpu->pci, sizeof gpu->pci, err); }
    if (st == REDCO_OK) { st = get_index(at, "numa", &gpu->numa, err); }
    if (st == REDCO_OK) { st = get_index(at, "pci_switch", &gpu->pci_switch, err); }
    if (st == REDCO_OK) { st = get_index(at, "pci_root", &gpu->pci_root, err); }
    if (st == REDCO_OK) { st = get_bytes(at, "memory_bytes", &gpu->memory_bytes, err); }
    if (st == REDCO_OK) { st = get_rate(at, "pcie_bytes_per_s", &gpu->pcie_bytes_per_s, err); }
    if (st == REDCO_OK && gpu->preset[0] != '\0') { st = find_type(node, at, gpu->preset, err); }
    return st;
}

static redco_status read_nic(redco_node *node, size_t index, const redco_json_value *at, redco_error *err)
{
    static const char *const keys[] = {"name",     "model",       "pci",         "numa", "pci_switch",
                                       "pci_root", "nearest_gpu", "bytes_per_s", NULL};
    redco_node_nic *nic = &node->nics[index];
    redco_status st = redco_json_only(at, keys, err);
    if (st == REDCO_OK) { st = get_text(at, "name", nic->name, sizeof nic->name, err); }
    if (st == REDCO_OK) { st = get_text(at, "model", nic->model, sizeof nic->model, err); }
    if (st == REDCO_OK) { st = get_text(at, "pci", nic->pci, sizeof nic->pci, err); }
    if (st == REDCO_OK) { st = get_index(at, "numa", &nic->numa, err); }
    if (st == REDCO_OK) { st = get_index(at, "pci_switch", &nic->pci_switch, err); }
    if (st == REDCO_OK) { st = get_index(at, "pci_root", &nic->pci_root, err); }
    if (st == REDCO_OK) { st = get_index(at, "nearest_gpu", &nic->nearest_gpu, err); }
    if (st == REDCO_OK) { st = get_rate(at, "bytes_per_s", &nic->bytes_per_s, err); }
    if (st == REDCO_OK && nic->nearest_gpu != UINT32_MAX && nic->nearest_gpu >= node->gpu_count) {
        return redco_json_fail(at, "nearest_gpu", err, "is %u, but the node has %zu GPUs", nic->nearest_gpu,
                               node->gpu_count);
    }
    return st;
}

static redco_status read_numa(redco_node *node, size_t index, const redco_json_value *at, redco_error *err)
{
    static const char *const keys[] = {"index", "cpus", "memory_bytes", NULL};
    redco_node_numa *numa = &node->numas[index];
    redco_status st = redco_json_only(at, keys, err);
    if (st == REDCO_OK) { st = redco_json_u32(at, "index", 0, UINT32_MAX - 1, &numa->index, err); }
    if (st == REDCO_OK) { st = redco_json_u32(at, "cpus", 0, UINT32_MAX - 1, &numa->cpus, err); }
    if (st == REDCO_OK) { st = get_bytes(at, "memory_bytes", &numa->memory_bytes, err); }
    return st;
}

static redco_status read_link(redco_node *node, size_t index, const redco_json_value *at, redco_error *err)
{
    static const char *const keys[] = {"gpus", "bytes_per_s", NULL};
    redco_json_value pair;
    size_t count = 0;
    double rate = 0.0;
    (void)index;
    redco_status st = redco_json_only(at, keys, err);
    if (st == REDCO_OK) { st = redco_json_array(at, "gpus", &pair, &count, err); }
    if (st == REDCO_OK) { st = redco_json_number(at, "bytes_per_s", 1.0, rate_max, &rate, err); }
    if (st != REDCO_OK) { return st; }
    const json_t *first = json_array_get(pair.json, 0);
    const json_t *second = json_array_get(pair.json, 1);
    const json_int_t a = json_integer_value(first);
    const json_int_t b = json_integer_value(second);
    const json_int_t gpus = (json_int_t)node->gpu_count;
    if (count != 2 || !json_is_integer(first) || !json_is_integer(second) || a < 0 || b < 0 || a >= gpus || b >= gpus ||
        a == b) {
        return redco_json_fail(at, "gpus", err, "must be two different GPUs from 0 to %lld", (long long)gpus - 1);
    }
    if (redco_node_link(node, (size_t)a, (size_t)b) > 0.0) {
        return redco_json_fail(at, "gpus", err, "[%lld, %lld] is there twice", (long long)a, (long long)b);
    }
    redcoi_node_set_link(node, (size_t)a, (size_t)b, rate);
    return REDCO_OK;
}

static redco_status read_links(redco_node *node, const redco_json_value *root, redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    double rate = 0.0;
    const bool uniform = redco_json_has(root, "link_bytes_per_s");
    const bool linked = uniform || redco_json_has(root, "links");
    if (linked != (node->fabric != REDCO_FABRIC_PCIE) || (uniform && redco_json_has(root, "links"))) {
        return redco_json_fail(root, "fabric", err,
                               "is \"%s\"; \"pcie\" has no links, the others have links or link_bytes_per_s",
                               fabric_names[node->fabric]);
    }
    if (uniform) {
        const redco_status st = redco_json_number(root, "link_bytes_per_s", 1.0, rate_max, &rate, err);
        for (size_t i = 0; st == REDCO_OK && i < node->gpu_count; i++) {
            for (size_t j = i + 1; j < node->gpu_count; j++) { redcoi_node_set_link(node, i, j, rate); }
        }
        return st;
    }
    redco_status st = get_list(root, "links", node->gpu_count * node->gpu_count, &list, &count, err);
    if (st == REDCO_OK && linked && count == 0 && node->gpu_count > 1) {
        return redco_json_fail(root, "links", err, "is empty; a node whose GPUs have no links has the fabric \"pcie\"");
    }
    for (size_t i = 0; st == REDCO_OK && i < count; i++) {
        redco_json_value at;
        st = redco_json_element(&list, i, &at, err);
        if (st == REDCO_OK) { st = read_link(node, i, &at, err); }
    }
    return st;
}

static redco_status read_warnings(redco_node *node, const redco_json_value *root, redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    redco_status st = get_list(root, "warnings", REDCOI_WARNINGS_MAX, &list, &count, err);
    for (size_t i = 0; st == REDCO_OK && i < count; i++) {
        const json_t *text = json_array_get(list.json, i);
        if (!json_is_string(text)) { return redco_json_fail(&list, NULL, err, "must hold strings only"); }
        redcoi_node_warn(node, "%s", json_string_value(text));
    }
    return st;
}

static redco_status read_head(redco_node *node, const redco_json_value *root, redco_error *err)
{
    unsigned word = 0;
    redco_status st = get_text(root, "name", node->name, sizeof node->name, err);
    if (st == REDCO_OK && redco_json_has(root, "cpu")) { st = get_word(root, "cpu", cpu_names, &word, err); }
    node->cpu = (redco_cpu_vendor)word;
    word = REDCO_FABRIC_PCIE;
    if (st == REDCO_OK) { st = get_word(root, "fabric", fabric_names, &word, err); }
    node->fabric = (redco_fabric)word;
    if (st == REDCO_OK && redco_json_has(root, "hosts")) {
        st = redco_json_u32(root, "hosts", 1, REDCOI_GPUS_MAX, &node->hosts, err);
    }
    if (st == REDCO_OK && redco_json_has(root, "switches")) {
        st = redco_json_u32(root, "switches", 0, 65536, &node->switches, err);
    }
    if (st == REDCO_OK && node->gpu_count % node->hosts != 0) {
        return redco_json_fail(root, "hosts", err, "is %u; %zu GPUs must fill the hosts evenly", node->hosts,
                               node->gpu_count);
    }
    return st;
}

typedef redco_status read_entry(redco_node *node, size_t index, const redco_json_value *at, redco_error *err);

static redco_status read_each(redco_node *node, const redco_json_value *list, size_t count, read_entry *read,
                              redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; st == REDCO_OK && i < count; i++) {
        redco_json_value at;
        st = redco_json_element(list, i, &at, err);
        if (st == REDCO_OK) { st = read(node, i, &at, err); }
    }
    return st;
}

static redco_status read_type_entry(redco_node *node, size_t index, const redco_json_value *at, redco_error *err)
{
    (void)index;
    return read_type(node, at, err);
}

redco_status redco_node_from_json(const redco_json_value *value, redco_node **node_out, redco_error *err)
{
    static const char *const keys[] = {"format", "version",          "name",  "cpu",       "hosts",
                                       "fabric", "switches",         "numas", "gpu_types", "gpus",
                                       "links",  "link_bytes_per_s", "nics",  "warnings",  NULL};
    redco_json_value types = {0};
    redco_json_value gpus = {0};
    redco_json_value nics = {0};
    redco_json_value numas = {0};
    size_t type_count = 0;
    size_t gpu_count = 0;
    size_t nic_count = 0;
    size_t numa_count = 0;
    uint32_t version = 0;
    redco_node *node = NULL;
    redco_status st = redco_json_format(value, "redco-node", NODE_VERSION, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(value, keys, err); }
    if (st == REDCO_OK) { st = get_list(value, "gpu_types", REDCOI_GPUS_MAX, &types, &type_count, err); }
    if (st == REDCO_OK) { st = get_list(value, "gpus", REDCOI_GPUS_MAX, &gpus, &gpu_count, err); }
    if (st == REDCO_OK) { st = get_list(value, "nics", REDCOI_NICS_MAX, &nics, &nic_count, err); }
    if (st == REDCO_OK) { st = get_list(value, "numas", REDCOI_NUMAS_MAX, &numas, &numa_count, err); }
    if (st == REDCO_OK) { st = redcoi_node_create(gpu_count, nic_count, numa_count, &node, err); }
    if (st == REDCO_OK) { st = read_head(node, value, err); }
    if (st == REDCO_OK) { st = read_each(node, &types, type_count, read_type_entry, err); }
    if (st == REDCO_OK) { st = read_each(node, &gpus, gpu_count, read_gpu, err); }
    if (st == REDCO_OK) { st = read_each(node, &nics, nic_count, read_nic, err); }
    if (st == REDCO_OK) { st = read_each(node, &numas, numa_count, read_numa, err); }
    if (st == REDCO_OK) { st = read_links(node, value, err); }
    if (st == REDCO_OK) { st = read_warnings(node, value, err); }
    if (st == REDCO_OK) {
        *node_out = node;
        node = NULL;
    }
    redco_node_free(node);
    return st;
}
