/** @file pci_ids.h  PCI vendor and device ids of the parts that matter here. Not a public header. */
#ifndef REDCO_PCI_IDS_H
#define REDCO_PCI_IDS_H

#include <stdbool.h>
#include <stdint.h>

enum { REDCOI_VENDOR_NVIDIA = 0x10de, REDCOI_VENDOR_AMD = 0x1002, REDCOI_VENDOR_INTEL = 0x8086 };

typedef enum redcoi_part_kind { REDCOI_PART_GPU, REDCOI_PART_SWITCH, REDCOI_PART_NIC } redcoi_part_kind;

typedef struct redcoi_part {
    uint16_t vendor;
    uint16_t device;
    redcoi_part_kind kind;
    char name[48];         /* for people */
    const char *preset;    /* GPU type, static; NULL if none ships */
    double gbit_per_s;     /* NIC: fastest port rate of the part; 0: the id covers several */
    bool virtual_function; /* NIC */
    bool plain_network;    /* NIC that shows as a network device only (Slingshot) */
} redcoi_part;

/** @return false if the part is unknown; then @p part_out stays as it was */
bool redcoi_part_find(uint32_t vendor, uint32_t device, redcoi_part *part_out);
/** The GPU type that a driver's model name means, e.g. "NVIDIA H100 80GB HBM3"; NULL if none. */
const char *redcoi_preset_of_model(const char *model);
/** PCI classes that GPUs of that vendor have; management consoles (ASPEED, Matrox) are other vendors'. */
bool redcoi_is_gpu_class(uint32_t vendor, uint32_t pci_class);
/** Classes of InfiniBand cards. */
bool redcoi_is_infiniband(uint32_t pci_class);
/** NVSwitch: class 0680 (other bridge) of NVIDIA. */
bool redcoi_is_nvswitch(uint32_t vendor, uint32_t pci_class);

#endif
