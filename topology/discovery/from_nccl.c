/* NCCL topology XML to nodes: what NCCL_TOPO_DUMP_FILE writes, and site files that hold only cpu and pci elements.
 * Elements and attributes as in NCCL 2.28, src/graph/xml.h and topo.cc; "xgmi" is RCCL's nvlink. */
#include "topology/base/number.h"
#include "topology/discovery/node_internal.h"
#include "topology/discovery/pci_ids.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32, ELEMENTS_MAX = 16384 };

enum element { OTHER, SYSTEM, CPU, PCI, GPU, LINK, NIC, NET };

/* One open element. */
struct level {
    enum element element;
    uint32_t numa;
    uint32_t bridge; /* the nearest bridge at or above */
    uint32_t pci;    /* index of the nearest pci element, UINT32_MAX if none */
    bool left_out;   /* belongs to another host, or is a further part of a GPU that is counted already */
};

struct pci {
    char busid[16];
    uint32_t pci_class; /* 16 bits: 0302 */
    uint32_t vendor, device;
    uint64_t slot;
    double link_bytes_per_s;
    uint32_t numa;
    uint32_t bridge;
    uint32_t gpu; /* index of the find, UINT32_MAX if it is none */
    bool holds;   /* elements are inside */
};

struct link {
    uint32_t gpu;    /* index of the find */
    char target[16]; /* "" if NCCL did not see it */
    uint32_t count;
    enum { TO_GPU, TO_SWITCH, TO_CPU } to;
};

struct reader {
    XML_Parser parser;
    const char *name;
    redco_error *err;
    redco_status status;
    redcoi_finds finds;
    struct level levels[DEPTH_MAX + 1];
    unsigned depth;
    unsigned elements;
    struct pci *pcis;
    size_t pci_count;
    struct link *links;
    size_t link_count;
    uint32_t *sms; /* per GPU find */
    uint32_t host; /* the one that is wanted */
    uint64_t *hosts;
    size_t host_count;
    size_t parts; /* parts of GPUs, beyond the first of each */
};

__attribute__((format(printf, 3, 4))) static void refuse(struct reader *reader, redco_status status, const char *format,
                                                         ...)
{
    char place[512];
    char text[512];
    va_list args;
    if (reader->status != REDCO_OK) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%.400s:%lu:%lu", reader->name,
                   (unsigned long)XML_GetCurrentLineNumber(reader->parser),
                   (unsigned long)XML_GetCurrentColumnNumber(reader->parser) + 1);
    reader->status = redco_fail(reader->err, status, place, "%s", text);
    (void)XML_StopParser(reader->parser, XML_FALSE);
}

static const char *attribute(const XML_Char **attributes, const char *key)
{
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        if (strcmp(attributes[i], key) == 0) { return attributes[i + 1]; }
    }
    return "";
}

redco_status redcoi_one_host(const char *name, uint32_t host, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, name, "describes one host, number 0; there is no host %u", host);
}

/* A whole number in [0, max]; absent is 0. */
static uint32_t number(struct reader *reader, const XML_Char **attributes, const char *key, uint32_t max)
{
    const char *text = attribute(attributes, key);
    char *end = NULL;
    const int base = strncmp(text, "0x", 2) == 0 ? 16 : 10;
    if (text[0] == '\0') { return 0; }
    const unsigned long long value = strtoull(text, &end, base);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > max) {
        refuse(reader, REDCO_EVALUE, "%s=\"%.40s\"; a whole number from 0 to %u is needed", key, text, max);
        return 0;
    }
    return (uint32_t)value;
}

/* Hexadecimal digits up to `end`, where *at is left behind it. */
static bool read_hex(const char **at, char end, unsigned long max, uint32_t *out)
{
    const size_t digits = strspn(*at, "0123456789abcdefABCDEF");
    if (digits < 1 || digits > 8 || (*at)[digits] != end) { return false; }
    const unsigned long value = strtoul(*at, NULL, 16);
    *at += digits + (end != '\0' ? 1 : 0);
    *out = (uint32_t)value;
    return value <= max;
}

/* "0000:a4:00.0"; domains of bridges in software (VMD, Hyper-V) have more than four digits. */
static bool read_busid(const char *text, char out[16], uint64_t *slot_out)
{
    uint32_t domain = 0;
    uint32_t bus = 0;
    uint32_t device = 0;
    uint32_t function = 0;
    if (!read_hex(&text, ':', 0xfffffff, &domain) || !read_hex(&text, ':', 0xff, &bus) ||
        !read_hex(&text, '.', 0xff, &device) || !read_hex(&text, '\0', 0xf, &function)) {
        return false;
    }
    (void)snprintf(out, 16, "%04x:%02x:%02x.%x", domain & 0xfffffff, bus & 0xff, device & 0xff, function & 0xf);
    *slot_out = redcoi_pci_slot(domain, bus, device);
    return true;
}

/* "32.0 GT/s PCIe" x 16 lanes -> bytes/s after line coding (8b/10b up to 5 GT/s, 128b/130b up to 32, 242/256 at 64:
 * PCI Express Base Specification 6.0). 0 if unknown, which NCCL writes as "" or 0 lanes. */
static double link_rate(const char *speed, uint32_t lanes)
{
    static const struct {
        double gigatransfers, bytes_per_s;
    } rates[] = {{2.5, 0.25e9},
                 {5.0, 0.5e9},
                 {8.0, 8e9 / 8 * 128 / 130},
                 {16.0, 16e9 / 8 * 128 / 130},
                 {32.0, 32e9 / 8 * 128 / 130},
                 {64.0, 64e9 / 8 * 242 / 256}};
    double written = 0.0;
    (void)redco_real_read(speed, strlen(speed), &written);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (written == rates[i].gigatransfers) { return rates[i].bytes_per_s * lanes; }
    }
    return 0.0;
}

/* Hexadecimal digits of an affinity mask -> processors in it. */
static uint32_t count_bits(const char *mask)
{
    uint32_t bits = 0;
    for (; *mask != '\0'; mask++) {
        const char digit[2] = {*mask, '\0'};
        const unsigned long value = strtoul(digit, NULL, 16);
        for (unsigned long rest = value; rest != 0; rest >>= 1) { bits += (uint32_t)(rest & 1); }
    }
    return bits;
}

static redco_cpu_vendor cpu_of(const XML_Char **attributes)
{
    const char *arch = attribute(attributes, "arch");
    const char *vendor = attribute(attributes, "vendor");
    if (strcmp(vendor, "GenuineIntel") == 0) { return REDCO_CPU_INTEL; }
    if (strcmp(vendor, "AuthenticAMD") == 0) { return REDCO_CPU_AMD; }
    if (strcmp(arch, "arm64") == 0) { return REDCO_CPU_ARM; }
    return strcmp(arch, "ppc64") == 0 ? REDCO_CPU_POWER : REDCO_CPU_UNKNOWN;
}

static void *room(struct reader *reader, void *array, size_t count, size_t entry_size)
{
    if (count != 0 && (count & (count - 1)) != 0) { return array; }
    void *larger = realloc(array, (count == 0 ? 1 : 2 * count) * entry_size);
    if (larger == NULL) { refuse(reader, REDCO_ENOMEM, "out of memory"); }
    return larger;
}

/* Dumps of ranks on several hosts (one NVLink domain) have the cpu elements of all; bus ids are unique in one host. */
static uint32_t host_of(struct reader *reader, const XML_Char **attributes)
{
    const uint64_t hash = strtoull(attribute(attributes, "host_hash"), NULL, 16);
    for (size_t i = 0; i < reader->host_count; i++) {
        if (reader->hosts[i] == hash) { return (uint32_t)i; }
    }
    uint64_t *larger = room(reader, reader->hosts, reader->host_count, sizeof *larger);
    if (larger == NULL) { return UINT32_MAX; }
    reader->hosts = larger;
    larger[reader->host_count] = hash;
    return (uint32_t)reader->host_count++;
}

static void start_cpu(struct reader *reader, struct level *level, const XML_Char **attributes)
{
    level->left_out = host_of(reader, attributes) != reader->host;
    if (level->left_out) { return; }
    /* NCCL writes -1 where the kernel knows no NUMA nodes */
    const bool unknown = attribute(attributes, "numaid")[0] == '-';
    const uint32_t id = unknown ? UINT32_MAX : number(reader, attributes, "numaid", UINT32_MAX - 1);
    const redco_node_numa numa = {.index = unknown ? 0 : id, .cpus = count_bits(attribute(attributes, "affinity"))};
    level->numa = id;
    level->bridge = UINT32_MAX;
    level->pci = UINT32_MAX;
    reader->finds.cpu = cpu_of(attributes);
    if (reader->status == REDCO_OK) { reader->status = redcoi_finds_numa(&reader->finds, &numa, reader->err); }
}

static void start_pci(struct reader *reader, struct level *level, const XML_Char **attributes)
{
    struct pci pci = {.numa = level->numa, .gpu = UINT32_MAX, .bridge = level->bridge};
    const char *busid = attribute(attributes, "busid");
    if (!read_busid(busid, pci.busid, &pci.slot)) {
        refuse(reader, REDCO_EVALUE, "busid=\"%.40s\"; a PCI address such as 0000:a4:00.0 is needed", busid);
        return;
    }
    pci.pci_class = number(reader, attributes, "class", 0xffffff) >> 8;
    pci.vendor = number(reader, attributes, "vendor", 0xffff);
    pci.device = number(reader, attributes, "device", 0xffff);
    pci.link_bytes_per_s = link_rate(attribute(attributes, "link_speed"), number(reader, attributes, "link_width", 64));
    if (reader->status != REDCO_OK) { return; }
    struct level *outer = level - 1;
    if (outer->element == PCI && outer->pci != UINT32_MAX && !reader->pcis[outer->pci].holds) {
        struct pci *holder = &reader->pcis[outer->pci];
        holder->holds = true;
        if (holder->pci_class == 0) { /* site files leave the class of their switches to detection */
            reader->status = redcoi_finds_bridge(&reader->finds, holder->bridge, false, &outer->bridge, reader->err);
            level->bridge = outer->bridge;
            pci.bridge = outer->bridge;
        }
    }
    if (reader->status != REDCO_OK) { return; }
    struct pci *larger = room(reader, reader->pcis, reader->pci_count, sizeof *larger);
    if (larger == NULL) { return; }
    reader->pcis = larger;
    larger[reader->pci_count] = pci;
    level->pci = (uint32_t)reader->pci_count++;
    if (pci.pci_class >> 8 == 0x06 && pci.pci_class != 0x0680) {
        reader->status = redcoi_finds_bridge(&reader->finds, pci.bridge, false, &level->bridge, reader->err);
    }
    if (redcoi_is_nvswitch(pci.vendor, pci.pci_class)) { reader->finds.switches++; }
}

/* A pci element of GPU class, or one with a gpu element inside. */
static void take_gpu(struct reader *reader, struct pci *pci)
{
    redcoi_found_gpu *found = NULL;
    reader->status = redcoi_finds_gpu(&reader->finds, &found, reader->err);
    if (reader->status != REDCO_OK) { return; }
    pci->gpu = (uint32_t)(reader->finds.gpu_count - 1);
    redcoi_gpu_identify(found, pci->vendor, pci->device, NULL);
    memcpy(found->gpu.pci, pci->busid, sizeof found->gpu.pci);
    found->gpu.numa = pci->numa;
    found->gpu.pcie_bytes_per_s = pci->link_bytes_per_s;
    found->bridge = pci->bridge;
    found->slot = pci->slot;
}

static void start_gpu(struct reader *reader, struct level *level, const XML_Char **attributes)
{
    if (level->pci == UINT32_MAX) {
        refuse(reader, REDCO_EVALUE, "gpu outside of a pci element");
        return;
    }
    struct pci *pci = &reader->pcis[level->pci];
    const uint32_t dev = number(reader, attributes, "dev", 65535);
    const uint32_t sm = number(reader, attributes, "sm", 999);
    pci->holds = true;
    if (reader->status != REDCO_OK) { return; }
    if (pci->gpu != UINT32_MAX) { /* another rank on that GPU, or its other half; both have the links of the whole */
        level->left_out = true;
        reader->parts += attribute(attributes, "mlopart")[0] != '\0';
        return;
    }
    take_gpu(reader, pci);
    if (reader->status != REDCO_OK) { return; }
    uint32_t *larger = realloc(reader->sms, reader->finds.gpu_count * sizeof *larger);
    if (larger == NULL) {
        refuse(reader, REDCO_ENOMEM, "out of memory");
        return;
    }
    reader->sms = larger;
    larger[pci->gpu] = sm;
    redcoi_found_gpu *found = &reader->finds.gpus[pci->gpu];
    (void)snprintf(found->gpu.os_name, sizeof found->gpu.os_name, "gpu%u", dev);
}

static void start_link(struct reader *reader, const struct level *level, const XML_Char **attributes)
{
    struct link link = {.count = number(reader, attributes, "count", 1024)};
    const uint32_t target_class = number(reader, attributes, "tclass", 0xffffff) >> 8;
    const char *target = attribute(attributes, "target");
    uint64_t slot = 0;
    if (level->pci == UINT32_MAX || reader->pcis[level->pci].gpu == UINT32_MAX) {
        refuse(reader, REDCO_EVALUE, "nvlink outside of a gpu element");
        return;
    }
    /* "fffffff:..." stands for NVSwitches that are not on the host's bus: virtual machines, racks */
    const bool unseen = strncmp(target, "fffffff:", 8) == 0;
    if (!unseen && !read_busid(target, link.target, &slot)) {
        refuse(reader, REDCO_EVALUE, "target=\"%.40s\"; a PCI address such as 0000:a4:00.0 is needed", target);
        return;
    }
    link.gpu = reader->pcis[level->pci].gpu;
    /* 0680 is NVSwitch, other bridges are the processors of POWER machines */
    link.to = target_class == 0x0680 || (unseen && target_class == 0) ? TO_SWITCH
              : target_class >> 8 == 0x06                             ? TO_CPU
                                                                      : TO_GPU;
    if (reader->status != REDCO_OK) { return; }
    struct link *larger = room(reader, reader->links, reader->link_count, sizeof *larger);
    if (larger == NULL) { return; }
    reader->links = larger;
    larger[reader->link_count++] = link;
}

static void start_net(struct reader *reader, const struct level *level, const XML_Char **attributes)
{
    redcoi_found_nic *found = NULL;
    const uint32_t speed_mbit = number(reader, attributes, "speed", 100000000);
    struct pci *pci = level->pci != UINT32_MAX ? &reader->pcis[level->pci] : NULL;
    if (reader->status != REDCO_OK) { return; }
    reader->status = redcoi_finds_nic(&reader->finds, &found, reader->err);
    if (reader->status != REDCO_OK) { return; }
    if (pci != NULL) {
        pci->holds = true;
        redcoi_nic_identify(found, pci->vendor, pci->device);
        memcpy(found->nic.pci, pci->busid, sizeof found->nic.pci);
        found->bridge = pci->bridge;
        found->slot = pci->slot;
        found->pcie_bytes_per_s = pci->link_bytes_per_s;
    }
    redcoi_text_copy(found->nic.name, sizeof found->nic.name, attribute(attributes, "name"));
    found->nic.numa = level->numa;
    if (speed_mbit > 0) { found->nic.bytes_per_s = speed_mbit * 0.125e6; }
    found->virtual_function = false; /* its rate is reported, whatever it is */
}

static enum element element_of(const char *name)
{
    static const struct {
        const char *name;
        enum element element;
    } names[] = {{"system", SYSTEM}, {"cpu", CPU},   {"pci", PCI}, {"gpu", GPU},
                 {"nvlink", LINK},   {"xgmi", LINK}, {"nic", NIC}, {"net", NET}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].name, name) == 0) { return names[i].element; }
    }
    return OTHER; /* c2c (to the CPU), gin, and what later versions add */
}

static void on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *reader = context;
    if (reader->status != REDCO_OK) { return; }
    if (reader->depth >= DEPTH_MAX || ++reader->elements > ELEMENTS_MAX) {
        refuse(reader, REDCO_EVALUE, "nests more than %d elements or has more than %d: no node", DEPTH_MAX,
               ELEMENTS_MAX);
        return;
    }
    struct level *level = &reader->levels[++reader->depth];
    *level = reader->levels[reader->depth - 1];
    level->element = element_of(name);
    if (level->left_out) { return; }
    if (reader->depth == 1) {
        if (level->element != SYSTEM) { refuse(reader, REDCO_EVALUE, "element <%.40s>; <system> is needed", name); }
        return;
    }
    switch (level->element) {
    case CPU: start_cpu(reader, level, attributes); break;
    case PCI: start_pci(reader, level, attributes); break;
    case GPU: start_gpu(reader, level, attributes); break;
    case LINK: start_link(reader, level, attributes); break;
    case NET: start_net(reader, level, attributes); break;
    default: break;
    }
    if (reader->status != REDCO_OK) { (void)XML_StopParser(reader->parser, XML_FALSE); }
}

static void on_end(void *context, const XML_Char *name)
{
    struct reader *reader = context;
    (void)name;
    if (reader->depth > 0) { reader->depth--; }
}

/* Site files leave gpu and net elements to detection: then the PCI class tells. */
static redco_status take_bare_devices(struct reader *reader)
{
    const bool no_gpus = reader->finds.gpu_count == 0;
    const bool no_nets = reader->finds.nic_count == 0;
    for (size_t i = 0; i < reader->pci_count && reader->status == REDCO_OK; i++) {
        struct pci *pci = &reader->pcis[i];
        redcoi_found_nic *found = NULL;
        const bool display = pci->pci_class == 0x0302 || pci->pci_class == 0x0300 || pci->pci_class == 0x0380;
        const bool own = pci->vendor == 0 || redcoi_is_gpu_class(pci->vendor, pci->pci_class);
        if ((display || pci->pci_class == 0x1200) && own && no_gpus) { take_gpu(reader, pci); }
        const bool network = pci->pci_class == 0x0200 || pci->pci_class == 0x0207 || pci->pci_class == 0x0208;
        if (reader->status != REDCO_OK || !network || !no_nets) { continue; }
        if ((reader->status = redcoi_finds_nic(&reader->finds, &found, reader->err)) != REDCO_OK) { break; }
        redcoi_nic_identify(found, pci->vendor, pci->device);
        memcpy(found->nic.pci, pci->busid, sizeof found->nic.pci);
        memcpy(found->nic.name, pci->busid, sizeof pci->busid);
        found->nic.numa = pci->numa;
        found->bridge = pci->bridge;
        found->slot = pci->slot;
        found->pcie_bytes_per_s = pci->link_bytes_per_s;
    }
    return reader->status;
}

/* Nominal rate of one link: the GPU type's, else by compute capability (NVLink 1: 20 GB/s; 2 to 4: 25, but 14.0625 on
 * the workstation parts of 8.6, whose four links have 112.5 GB/s both ways: NVIDIA RTX A6000 data sheet; 5: 50). */
static double per_link(const struct reader *reader, uint32_t gpu)
{
    redco_gpu type;
    const redcoi_found_gpu *found = &reader->finds.gpus[gpu];
    if (found->gpu.preset[0] != '\0' && redco_gpu_find(found->gpu.preset, &type, NULL) == REDCO_OK &&
        type.link_count > 0) {
        return type.scale_up_bytes_per_s / type.link_count;
    }
    const uint32_t sm = reader->sms != NULL ? reader->sms[gpu] : 0;
    if (sm == 86) { return 14.0625e9; }
    return sm >= 100 ? 50e9 : sm >= 70 ? 25e9 : 20e9;
}

static uint32_t gpu_at(const struct reader *reader, const char *busid)
{
    for (size_t i = 0; i < reader->finds.gpu_count; i++) {
        if (strcmp(reader->finds.gpus[i].gpu.pci, busid) == 0) { return (uint32_t)i; }
    }
    return UINT32_MAX;
}

/* Distinct NVSwitches that nvlink elements name: a dump has no pci elements for them. */
static uint32_t count_switches(const struct reader *reader)
{
    enum { SWITCHES_MAX = 256 }; /* a rack has 18 */
    const char *seen[SWITCHES_MAX];
    uint32_t count = 0;
    for (size_t i = 0; i < reader->link_count && count < SWITCHES_MAX; i++) {
        bool first = reader->links[i].to == TO_SWITCH && reader->links[i].target[0] != '\0';
        for (uint32_t j = 0; first && j < count; j++) { first = strcmp(seen[j], reader->links[i].target) != 0; }
        if (first) { seen[count++] = reader->links[i].target; }
    }
    return count;
}

static redco_status fill_matrix(struct reader *reader)
{
    const size_t count = reader->finds.gpu_count;
    double *to_switch = calloc(count + 1, sizeof *to_switch);
    double *rates = calloc(count + 1, sizeof *rates);
    reader->finds.matrix = calloc(count * count + 1, sizeof *reader->finds.matrix);
    if (to_switch == NULL || rates == NULL || reader->finds.matrix == NULL) {
        free(to_switch);
        free(rates);
        return redco_fail(reader->err, REDCO_ENOMEM, reader->name, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++) { rates[i] = per_link(reader, i); }
    size_t to_self = 0;
    for (size_t i = 0; i < reader->link_count; i++) {
        const struct link *link = &reader->links[i];
        const double rate = rates[link->gpu] * link->count;
        const uint32_t peer = link->to == TO_GPU ? gpu_at(reader, link->target) : UINT32_MAX;
        reader->finds.gpus[link->gpu].linked_total += rate;
        if (link->to == TO_SWITCH) { to_switch[link->gpu] += rate; }
        if (peer == link->gpu) { to_self++; }
        if (peer != UINT32_MAX && peer != link->gpu) { reader->finds.matrix[link->gpu * count + peer] += rate; }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            const double rate = to_switch[i] < to_switch[j] ? to_switch[i] : to_switch[j];
            if (i == j || !(rate > 0.0)) { continue; }
            reader->finds.matrix[i * count + j] += rate;
            reader->finds.matrix_switched = true;
        }
    }
    reader->finds.matrix_name = "the sum of the nvlink elements";
    reader->finds.self_links = to_self > 0 && to_self == reader->link_count;
    if (reader->finds.switches == 0) { reader->finds.switches = count_switches(reader); }
    free(to_switch);
    free(rates);
    return REDCO_OK;
}

/* Site files may name no kind: NCCL asks the machine itself. */
static size_t count_unclassed(const struct reader *reader)
{
    size_t count = 0;
    for (size_t i = 0; i < reader->pci_count; i++) {
        const struct pci *pci = &reader->pcis[i];
        count += pci->pci_class == 0 && pci->vendor == 0 && !pci->holds;
    }
    return count;
}

static redco_status check_host(const struct reader *reader)
{
    if (reader->host == 0 || reader->host < reader->host_count) { return REDCO_OK; }
    if (reader->host_count < 2) { return redcoi_one_host(reader->name, reader->host, reader->err); }
    return redco_fail(reader->err, REDCO_EVALUE, reader->name, "describes hosts 0 to %zu; there is no host %u",
                      reader->host_count - 1, reader->host);
}

static void warn(const struct reader *reader, redco_node *node)
{
    const size_t unclassed = count_unclassed(reader);
    if (reader->host_count > 1) {
        redcoi_node_warn(node, "the file describes %zu hosts; this is host %u alone: redco-topo --host takes another",
                         reader->host_count, reader->host);
    }
    if (unclassed > 0 && (reader->finds.gpu_count == 0 || reader->finds.nic_count == 0)) {
        redcoi_node_warn(node,
                         "%zu pci elements have no class and no gpu or net element inside: the file leaves to the "
                         "machine what they are, so they are not counted as GPUs or NICs",
                         unclassed);
    }
    if (reader->parts > 0) {
        redcoi_node_warn(node, "GPUs in partitions (mlopart): counted are whole GPUs, not the %zu partitions beyond",
                         reader->parts);
    }
}

redco_status redcoi_node_from_nccl(const char *text, size_t size, const char *name, uint32_t host,
                                   redco_node **node_out, redco_error *err)
{
    struct reader reader = {
        .parser = XML_ParserCreate(NULL), .name = name, .err = err, .finds.source = name, .host = host};
    if (reader.parser == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    reader.levels[0] = (struct level){.numa = UINT32_MAX, .bridge = UINT32_MAX, .pci = UINT32_MAX};
    redcoi_name_of_file(name, reader.finds.name, sizeof reader.finds.name);
    XML_SetUserData(reader.parser, &reader);
    XML_SetElementHandler(reader.parser, on_start, on_end);
    if (size > (size_t)64 << 20) {
        reader.status = redco_fail(err, REDCO_EVALUE, name, "is larger than 64 MiB");
    } else if (XML_Parse(reader.parser, text, (int)size, XML_TRUE) != XML_STATUS_OK) {
        refuse(&reader, REDCO_EVALUE, "not valid XML: %s", XML_ErrorString(XML_GetErrorCode(reader.parser)));
    }
    redco_status st = reader.status;
    if (st == REDCO_OK) { st = check_host(&reader); }
    if (st == REDCO_OK) { st = take_bare_devices(&reader); }
    if (st == REDCO_OK && reader.link_count > 0) { st = fill_matrix(&reader); }
    if (st == REDCO_OK) { st = redcoi_finds_node(&reader.finds, node_out, err); }
    if (st == REDCO_OK) { warn(&reader, *node_out); }
    redcoi_finds_clear(&reader.finds);
    XML_ParserFree(reader.parser);
    free(reader.pcis);
    free(reader.links);
    free(reader.sms);
    free(reader.hosts);
    return st;
}
