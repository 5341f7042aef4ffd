#include "topology/discovery/pci_ids.h"

#include "topology/base/preset.h"
#include "topology/discovery/node_internal.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Switches, NICs and those GPUs that have no GPU file: the ids of the others stand in their files.
 * Ids: the PCI ID Repository (pci-ids.ucw.cz) of 2023-04-10, but for 10de:22a3, which is newer and comes from
 * NVIDIA's open kernel driver; 1d0f:efa3 from rdma-core's providers/efa. Port rates: the vendors' product pages; one id
 * may cover slower variants. EFA rates: Amazon EC2 instance pages (p4d, p5: 100 Gb/s a card; p5en: 200; p6-b200 and
 * p6e-gb200: 400). */
#define GPU(vendor, device, name)                                                                                      \
    {                                                                                                                  \
        vendor, device, REDCOI_PART_GPU, name, NULL, 0.0, false, false                                                 \
    }
#define SWITCH(device, name)                                                                                           \
    {                                                                                                                  \
        0x10de, device, REDCOI_PART_SWITCH, name, NULL, 0.0, false, false                                              \
    }
#define NIC(vendor, device, name, gbit)                                                                                \
    {                                                                                                                  \
        vendor, device, REDCOI_PART_NIC, name, NULL, gbit, false, false                                                \
    }
#define VIRTUAL_NIC(vendor, device, name)                                                                              \
    {                                                                                                                  \
        vendor, device, REDCOI_PART_NIC, name, NULL, 0.0, true, false                                                  \
    }
static const redcoi_part parts[] = {
    GPU(0x10de, 0x1db4, "Tesla V100 PCIe 16GB"),
    GPU(0x10de, 0x20b7, "A30 PCIe"),
    GPU(0x10de, 0x2322, "H800 PCIe"),
    GPU(0x1002, 0x738c, "Instinct MI100"),
    GPU(0x1002, 0x740c, "Instinct MI250X or MI250 (one die)"),
    SWITCH(0x1ac2, "NVSwitch (V100)"),
    SWITCH(0x1af1, "NVSwitch (A100)"),
    SWITCH(0x22a3, "NVSwitch (H100)"),
    NIC(0x15b3, 0x634a, "ConnectX (DDR)", 20.0),
    NIC(0x15b3, 0x1003, "ConnectX-3", 40.0),
    NIC(0x15b3, 0x1007, "ConnectX-3 Pro", 40.0),
    NIC(0x15b3, 0x1011, "Connect-IB", 56.0),
    NIC(0x15b3, 0x1013, "ConnectX-4", 100.0),
    NIC(0x15b3, 0x1015, "ConnectX-4 Lx", 25.0),
    NIC(0x15b3, 0x1017, "ConnectX-5", 100.0),
    NIC(0x15b3, 0x1019, "ConnectX-5 Ex", 100.0),
    NIC(0x15b3, 0x101b, "ConnectX-6", 200.0),
    NIC(0x15b3, 0x101d, "ConnectX-6 Dx", 100.0),
    NIC(0x15b3, 0x101f, "ConnectX-6 Lx", 25.0),
    NIC(0x15b3, 0x1021, "ConnectX-7", 400.0),
    NIC(0x15b3, 0x1023, "ConnectX-8", 800.0),
    NIC(0x15b3, 0xa2d2, "BlueField (ConnectX-5)", 100.0),
    NIC(0x15b3, 0xa2d6, "BlueField-2", 100.0),
    NIC(0x15b3, 0xa2dc, "BlueField-3", 400.0),
    VIRTUAL_NIC(0x15b3, 0x1004, "ConnectX-3 virtual function"),
    VIRTUAL_NIC(0x15b3, 0x1012, "Connect-IB virtual function"),
    VIRTUAL_NIC(0x15b3, 0x1014, "ConnectX-4 virtual function"),
    VIRTUAL_NIC(0x15b3, 0x1016, "ConnectX-4 Lx virtual function"),
    VIRTUAL_NIC(0x15b3, 0x1018, "ConnectX-5 virtual function"),
    VIRTUAL_NIC(0x15b3, 0x101a, "ConnectX-5 Ex virtual function"),
    VIRTUAL_NIC(0x15b3, 0x101c, "ConnectX-6 virtual function"),
    VIRTUAL_NIC(0x15b3, 0x101e, "ConnectX virtual function"),
    NIC(0x1d0f, 0xefa0, "EFA", 100.0),
    NIC(0x1d0f, 0xefa1, "EFA v2", 100.0),
    NIC(0x1d0f, 0xefa2, "EFA v3", 200.0),
    NIC(0x1d0f, 0xefa3, "EFA v4", 400.0),
    NIC(0x8086, 0x24f0, "Omni-Path 100", 100.0),
    NIC(0x8086, 0x24f1, "Omni-Path 100", 100.0),
    NIC(0x8086, 0x1592, "Ethernet E810-C", 100.0),
    NIC(0x14e4, 0x1750, "BCM57508", 200.0),
    {0x17db, 0x0501, REDCOI_PART_NIC, "Slingshot (Cassini)", NULL, 200.0, false, true},
};

redco_status redcoi_gpu_pci_read(const redco_json_value *gpu, const char *id, char *name, size_t size, redco_error *err)
{
    static const char *const keys[] = {"value", "source", NULL}, *const part_keys[] = {"id", "name", NULL};
    redco_json_value holder, list;
    size_t count = 0;
    const char *source = NULL;
    redco_status st = redco_json_object(gpu, "pci", &holder, err);
    if (st == REDCO_OK) { st = redco_json_only(&holder, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(&holder, "source", &source, err); }
    if (st == REDCO_OK) { st = redco_json_array(&holder, "value", &list, &count, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value part;
        const char *its_id = NULL, *its_name = NULL;
        if ((st = redco_json_element(&list, i, &part, err)) != REDCO_OK ||
            (st = redco_json_only(&part, part_keys, err)) != REDCO_OK ||
            (st = redco_json_string(&part, "id", &its_id, err)) != REDCO_OK ||
            (st = redco_json_string(&part, "name", &its_name, err)) != REDCO_OK) {
            return st;
        }
        const size_t hex = strspn(its_id, "0123456789abcdef");
        if (hex != 4 || its_id[4] != ':' || strspn(its_id + 5, "0123456789abcdef") != 4 || its_id[9] != '\0') {
            return redco_json_fail(&part, "id", err, "is \"%.20s\"; vendor and device such as \"10de:2330\" are needed",
                                   its_id);
        }
        if (id != NULL && strcmp(its_id, id) == 0) { (void)snprintf(name, size, "%s", its_name); }
    }
    return st;
}

/* GPUs by their files; only a file whose text has the id is parsed. */
static bool find_gpu_file(uint32_t vendor, uint32_t device, redcoi_part *part_out)
{
    char id[16];
    const redco_preset *preset = NULL;
    (void)snprintf(id, sizeof id, "%04x:%04x", vendor & 0xffff, device & 0xffff);
    for (size_t i = 0; (preset = redco_preset_at("gpus", i)) != NULL; i++) {
        redco_json *document = NULL;
        redcoi_part part = {(uint16_t)vendor, (uint16_t)device, REDCOI_PART_GPU, "", preset->name, 0.0, false, false};
        if (strstr(preset->text, id) == NULL ||
            redco_json_parse(preset->text, preset->size, preset->name, &document, NULL) != REDCO_OK) {
            continue;
        }
        const redco_json_value root = redco_json_root(document);
        const bool found =
            redcoi_gpu_pci_read(&root, id, part.name, sizeof part.name, NULL) == REDCO_OK && part.name[0] != '\0';
        redco_json_close(document);
        if (!found) { continue; }
        *part_out = part;
        return true;
    }
    return false;
}

bool redcoi_part_find(uint32_t vendor, uint32_t device, redcoi_part *part_out)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].vendor != vendor || parts[i].device != device) { continue; }
        *part_out = parts[i];
        return true;
    }
    const bool makes_gpus = vendor == REDCOI_VENDOR_NVIDIA || vendor == REDCOI_VENDOR_AMD;
    return makes_gpus && device <= 0xffff && find_gpu_file(vendor, device, part_out);
}

bool redcoi_is_gpu_class(uint32_t vendor, uint32_t pci_class)
{
    switch (vendor) {
    case REDCOI_VENDOR_NVIDIA: return pci_class == 0x0300 || pci_class == 0x0302;
    case REDCOI_VENDOR_AMD: return pci_class == 0x0380 || pci_class == 0x1200; /* 0300 are display cards and APUs */
    default: return false;
    }
}

bool redcoi_is_infiniband(uint32_t pci_class)
{
    return pci_class == 0x0207 || pci_class == 0x0c06; /* the second until PCI 3.0 had a class of networks for it */
}

bool redcoi_is_nvswitch(uint32_t vendor, uint32_t pci_class)
{
    return vendor == REDCOI_VENDOR_NVIDIA && pci_class == 0x0680;
}

struct model {
    const char *words; /* the words of nvidia-smi or rocm-smi, without brand, letters and digits only */
    const char *preset;
};

/* Longer names first where one begins another. The driver shows each die of a MI250X as a GPU. */
static const struct model models[] = {
    {"V100SXM216GB", "V100-SXM2-16GB"},
    {"V100SXM232GB", "V100-SXM2-32GB"},
    {"V100SXM332GB", "V100-SXM3-32GB"},
    {"V100PCIE32GB", "V100-PCIe-32GB"},
    {"P100SXM216GB", "P100-SXM2-16GB"},
    {"P100PCIE16GB", "P100-PCIe-16GB"},
    {"A100SXM440GB", "A100-SXM4-40GB"},
    {"A100SXM480GB", "A100-SXM4-80GB"},
    {"A100PCIE40GB", "A100-PCIe-40GB"},
    {"A100PCIE80GB", "A100-PCIe-80GB"},
    {"A10080GBPCIE", "A100-PCIe-80GB"},
    {"A800SXM480GB", "A800-SXM4-80GB"},
    {"A80080GBPCIE", "A800-PCIe-80GB"},
    {"H10080GBHBM3", "H100-SXM5-80GB"},
    {"H100SXM580GB", "H100-SXM5-80GB"},
    {"H100PCIE", "H100-PCIe-80GB"},
    {"H800", "H800-SXM5-80GB"},
    {"H200", "H200-SXM-141GB"},
    {"H20", "H20-SXM-96GB"},
    {"GB200", "GB200-per-GPU"},
    {"GB300", "GB300-per-GPU"},
    {"B300", "B300-SXM-270GB"},
    {"B200", "B200-SXM-180GB"},
    {"H100NVL", "H100-NVL-94GB"},
    {"GH200120GB", "GH200-96GB"}, /* named by the processor's memory */
    {"GH200480GB", "GH200-96GB"},
    {"GH200144GHBM3e", "GH200-144GB"},
    {"L40S", "L40S"},
    {"L40", "L40"},
    {"L4", "L4"},
    {"RTXA6000", "RTX-A6000"},
    {"A6000", "RTX-A6000"},
    {"A40", "A40"},
    {"RTX6000AdaGeneration", "RTX-6000-Ada"},
    {"RTX5090", "RTX-5090"},
    {"A10G", "A10G"},
    {"A10", "A10"},
    {"T4", "T4"},
    {"RTX4090", "RTX-4090"},
    {"MI250X", "MI250X-GCD"},
    {"MI300X", "MI300X"},
    {"MI325X", "MI325X"},
    {"MI350X", "MI350X"},
    {"MI355X", "MI355X"},
    {"MI210", "MI210"},
};

/* Models that go on after a known name and are still that part: "V100-SXM3-32GB-H", "MI300X OAM",
 * "MI300X VF", "B300 SXM6 AC". */
static bool is_variant(const char *rest)
{
    return rest[0] == '\0' || strcasecmp(rest, "H") == 0 || strncasecmp(rest, "OAM", 3) == 0 ||
           strcasecmp(rest, "VF") == 0 || strcasecmp(rest, "SXM6AC") == 0;
}

const char *redcoi_preset_of_model(const char *model)
{
    static const char *const brands[] = {"NVIDIA", "AMD", "Tesla", "GeForce", "Instinct", "Radeon"};
    char words[64];
    size_t used = 0;
    const char *at = model;
    while (*at != '\0') {
        const char *before = at;
        at += strspn(at, " ");
        for (size_t i = 0; i < sizeof brands / sizeof brands[0]; i++) {
            const size_t length = strlen(brands[i]);
            if (strncasecmp(at, brands[i], length) == 0 && at[length] == ' ') { at += length; }
        }
        if (at == before) { break; }
    }
    for (; *at != '\0' && used + 1 < sizeof words; at++) {
        if (isalnum((unsigned char)*at)) { words[used++] = *at; }
    }
    words[used] = '\0';
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const size_t length = strlen(models[i].words);
        if (strncasecmp(words, models[i].words, length) == 0 && is_variant(words + length)) { return models[i].preset; }
    }
    return NULL;
}
