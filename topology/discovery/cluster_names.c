/* A cluster by what people call it: a preset, a provider's instance, or GPUs ("8x H100", "RTX 4090", "L40S"). */
#include "topology/base/preset.h"
#include "topology/discovery/cluster_internal.h"
#include "topology/discovery/pci_ids.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MOST_GPUS = 1024, USUAL_GPUS = 8 };

/* Short names that several boards of a maker share: the board that is taken, and the others. */
static const struct {
    const char *words, *preset, *others;
} spoken[] = {
    {"A100", "A100-SXM4-80GB", "A100-SXM4-40GB, A100-PCIe-80GB, A100-PCIe-40GB"},
    {"A10080GB", "A100-SXM4-80GB", "A100-PCIe-80GB"},
    {"A10040GB", "A100-SXM4-40GB", "A100-PCIe-40GB"},
    {"A100SXM", "A100-SXM4-80GB", "A100-SXM4-40GB"},
    {"A100SXM4", "A100-SXM4-80GB", "A100-SXM4-40GB"},
    {"A10080GBSXM", "A100-SXM4-80GB", NULL},
    {"A10080GBSXM4", "A100-SXM4-80GB", NULL},
    {"A10040GBSXM", "A100-SXM4-40GB", NULL},
    {"A10040GBSXM4", "A100-SXM4-40GB", NULL},
    {"A100PCIe", "A100-PCIe-80GB", "A100-PCIe-40GB"},
    {"A800", "A800-SXM4-80GB", "A800-PCIe-80GB"},
    {"A80080GB", "A800-SXM4-80GB", "A800-PCIe-80GB"},
    {"H100", "H100-SXM5-80GB", "H100-PCIe-80GB, H100-NVL-94GB"},
    {"H10080GB", "H100-SXM5-80GB", "H100-PCIe-80GB"},
    {"H100SXM", "H100-SXM5-80GB", NULL},
    {"H100SXM5", "H100-SXM5-80GB", NULL},
    {"H10080GBSXM", "H100-SXM5-80GB", NULL},
    {"H10080GBSXM5", "H100-SXM5-80GB", NULL},
    {"H80080GB", "H800-SXM5-80GB", NULL},
    {"H200141GB", "H200-SXM-141GB", NULL},
    {"H2096GB", "H20-SXM-96GB", NULL},
    {"GH200", "GH200-96GB", "GH200-144GB"},
    {"V100", "V100-SXM2-32GB", "V100-SXM2-16GB, V100-PCIe-32GB"},
    {"V10032GB", "V100-SXM2-32GB", "V100-PCIe-32GB"},
    {"V10016GB", "V100-SXM2-16GB", NULL},
    {"P100", "P100-PCIe-16GB", "P100-SXM2-16GB"},
    {"3090", "RTX-3090", NULL},
    {"4090", "RTX-4090", NULL},
    {"5090", "RTX-5090", NULL},
    {"3080", "RTX-3080-10GB", NULL},
    {"RTX3080", "RTX-3080-10GB", NULL},
    {"1080Ti", "GTX-1080-Ti", NULL},
    {"6000Ada", "RTX-6000-Ada", NULL},
    {"MI250X", "MI250X-GCD", NULL},
    {"MI250", "MI250X-GCD", NULL},
    {"MI50", "MI50-32GB", NULL},
};

struct asked {
    uint32_t gpus; /* GPUs of a node; 0: not said */
    const char *gpu, *others;
};

/* The words without a number of GPUs before ("8x H100", "4 RTX 4090") or after ("A100 x8"). */
static void cut_count(char *words, uint32_t *gpus_out)
{
    char *end = NULL;
    const unsigned long before = strtoul(words, &end, 10);
    char *const after = strrchr(words, 'x');
    const bool spaced = isdigit((unsigned char)words[0]) && *end == ' ';
    while (*end == ' ') { end++; }
    if (isdigit((unsigned char)words[0]) && before >= 1 && before <= MOST_GPUS &&
        ((tolower((unsigned char)*end) == 'x' && end[1] != '\0') || (spaced && isalpha((unsigned char)*end)))) {
        end += tolower((unsigned char)*end) == 'x' ? 1 : 0;
        *gpus_out = (uint32_t)before;
        memmove(words, end, strlen(end) + 1);
    } else if (after != NULL && after > words && (after[-1] == ' ' || after[-1] == '-') &&
               strspn(after + 1, "0123456789") == strlen(after + 1) && after[1] != '\0' && strlen(after) < 5) {
        const unsigned long count = strtoul(after + 1, NULL, 10);
        if (count < 1 || count > MOST_GPUS) { return; }
        *gpus_out = (uint32_t)count;
        after[-1] = '\0';
    }
}

/* Letters and digits alone, without a maker's name. */
static void bare_words(const char *text, char *out, size_t size)
{
    static const char *const makers[] = {"NVIDIA", "AMD", "Tesla", "GeForce", "Instinct"};
    size_t used = 0;
    while (*text != '\0' && used + 1 < size) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
            const size_t length = strlen(makers[i]);
            if (strncasecmp(text, makers[i], length) == 0 && text[length] == ' ') { skip = length; }
        }
        text += skip;
        if (skip == 0 && isalnum((unsigned char)*text)) { out[used++] = *text; }
        text += skip == 0 ? 1 : 0;
    }
    out[used] = '\0';
}

static bool read_gpus(const char *name, struct asked *asked_out)
{
    char words[64], bare[64];
    if (strlen(name) >= sizeof words) { return false; }
    (void)snprintf(words, sizeof words, "%s", strncasecmp(name, "gpu_", 4) == 0 ? name + 4 : name);
    for (char *at = strchr(words, '_'); at != NULL; at = strchr(at, '_')) { *at = ' '; } /* gpu_8x_h100_sxm5 */
    *asked_out = (struct asked){0, NULL, NULL};
    cut_count(words, &asked_out->gpus);
    bare_words(words, bare, sizeof bare);
    for (size_t i = 0; i < sizeof spoken / sizeof spoken[0] && asked_out->gpu == NULL; i++) {
        if (strcasecmp(bare, spoken[i].words) != 0) { continue; }
        asked_out->gpu = spoken[i].preset;
        asked_out->others = spoken[i].others;
    }
    const redco_preset *const preset = asked_out->gpu == NULL ? redco_preset_gpu(bare) : NULL;
    if (preset != NULL) { asked_out->gpu = preset->name; }
    if (asked_out->gpu == NULL) { asked_out->gpu = redcoi_preset_of_model(words); }
    return asked_out->gpu != NULL;
}

static json_int_t counted(const json_t *node, const char *key)
{
    const json_t *const value = json_object_get(node, key);
    return json_integer_value(json_is_object(value) ? json_object_get(value, "value") : value);
}

/* Fewer GPUs a node than the preset's, with their share of its adapters. @return GPUs of a node */
static json_int_t cut_node(json_t *document, uint32_t gpus)
{
    json_t *const node = json_object_get(document, "node");
    const json_int_t all = counted(node, "gpus"), nics = counted(node, "nics");
    if (gpus == 0 || (json_int_t)gpus >= all || all == 0 || json_object_get(node, "hosts") != NULL) { return all; }
    (void)json_object_set_new(node, "gpus", json_integer(gpus));
    if (nics > 0) {
        const json_int_t share = nics * gpus / all;
        (void)json_object_set_new(node, "nics", json_integer(share > 0 ? share : 1));
    }
    if (counted(node, "link_group") > (json_int_t)gpus) {
        (void)json_object_set_new(node, "link_group", json_integer(gpus));
    }
    return gpus;
}

/* No preset has the GPU: a server of it is assumed. */
static json_t *assumed_server(const redco_gpu *gpu, uint32_t gpus, const char **fabric_out)
{
    const bool linked = gpu->link_count > 0 && !gpu->bridged;
    *fabric_out = !linked ? "pcie" : gpu->nvlink && gpu->compute_capability >= 80 ? "switch" : "direct";
    return json_pack("{s:s, s:i, s:s, s:{s:s, s:s, s:i, s:s, s:i, s:s}}", "format", "redco-cluster", "version", 1,
                     "name", gpu->name, "node", "name", gpu->name, "gpu", gpu->name, "gpus", (int)gpus, "fabric",
                     *fabric_out, "nics", 1, "nic_rate", "100 Gb/s");
}

static redco_status say_choice(redco_cluster *cluster, const char *name, const struct asked *asked, const char *preset,
                               json_int_t gpus, const char *fabric)
{
    char others[120] = "";
    if (asked->others != NULL) { (void)snprintf(others, sizeof others, " (not %s)", asked->others); }
    if (preset != NULL) {
        return gpus > 0
                   ? redcoi_cluster_warn(cluster, "%.60s: nodes of %d %s%s are taken, and all else of the preset %s",
                                         name, (int)gpus, asked->gpu, others, preset)
                   : redcoi_cluster_warn(cluster, "%.60s: %s%s is taken, in the nodes of the preset %s", name,
                                         asked->gpu, others, preset);
    }
    return redcoi_cluster_warn(cluster,
                               "%.60s: nodes of %d %s%s, joined by %s, with one adapter of 100 Gb/s are assumed; a "
                               "cluster file says otherwise",
                               name, (int)gpus, asked->gpu, others, strcmp(fabric, "pcie") == 0 ? "PCIe" : fabric);
}

static redco_status open_gpus(const char *name, const struct asked *asked, redco_cluster *cluster,
                              redco_json **document_out, redco_error *err)
{
    const redco_preset *const preset = redco_preset_cluster(asked->gpu);
    const char *fabric = NULL;
    json_t *document = NULL;
    char *text = NULL;
    json_int_t gpus = asked->gpus > 0 ? asked->gpus : USUAL_GPUS;
    redco_gpu gpu;
    redco_status st = REDCO_OK;
    if (preset != NULL) {
        document = json_loadb(preset->text, preset->size, 0, NULL);
        gpus = cut_node(document, asked->gpus);
    } else {
        if ((st = redco_gpu_find_any(asked->gpu, &gpu, err)) != REDCO_OK) { return st; }
        document = assumed_server(&gpu, (uint32_t)gpus, &fabric);
    }
    text = document != NULL ? json_dumps(document, 0) : NULL;
    json_decref(document);
    if (text == NULL ||
        say_choice(cluster, name, asked, preset != NULL ? preset->name : NULL, gpus, fabric) != REDCO_OK) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    } else {
        st = redco_json_parse(text, strlen(text), preset != NULL ? preset->name : name, document_out, err);
    }
    free(text);
    return st;
}

redco_status redcoi_cluster_open(const char *name, redco_cluster *cluster, redco_json **document_out, redco_error *err)
{
    struct asked asked;
    const redco_preset *const preset = redco_preset_cluster(name);
    if (preset != NULL) { return redco_json_parse(preset->text, preset->size, preset->name, document_out, err); }
    if (access(name, F_OK) != 0 && read_gpus(name, &asked)) {
        return open_gpus(name, &asked, cluster, document_out, err);
    }
    return redco_preset_open("clusters", "a cluster", name, document_out, err);
}
