/* hwloc topologies to nodes; alone in including hwloc.h. */
#include "topology/discovery/node_internal.h"
#include "topology/discovery/pci_ids.h"

#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if HWLOC_API_VERSION >= 0x00030000
typedef unsigned long hwloc_obj_osdev_type_t;
#endif

struct scan {
    hwloc_topology_t topology;
    redcoi_finds finds;
    redco_error *err;
};

const char *redcoi_hwloc_release(void)
{
    return HWLOC_VERSION;
}

static const char *info(hwloc_obj_t obj, const char *name)
{
    return obj != NULL ? hwloc_obj_get_info_by_name(obj, name) : NULL;
}

/* hwloc 3 keeps what it knows of the host beside the objects, and has a bit for each thing that a device is. */
static const char *host_info(hwloc_topology_t topology, const char *name)
{
    const char *found = info(hwloc_get_root_obj(topology), name);
#if HWLOC_API_VERSION >= 0x00030000
    if (found == NULL) { found = hwloc_get_info_by_name(hwloc_topology_get_infos(topology), name); }
#endif
    return found;
}

static bool is_device(hwloc_obj_t obj, hwloc_obj_osdev_type_t type)
{
    if (obj->type != HWLOC_OBJ_OS_DEVICE) { return false; }
#if HWLOC_API_VERSION >= 0x00030000
    return (obj->attr->osdev.types & type) != 0;
#else
    return obj->attr->osdev.type == type;
#endif
}

/* ---- the host ---- */

/* Placeholders that firmware vendors leave in place of a name. */
static bool is_filler(const char *name)
{
    static const char *const fillers[] = {
        "To Be Filled", "Default string", "System Product Name", "Not Specified", "Unknown", "Standard PC", "None"};
    for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; i++) {
        if (strncasecmp(name, fillers[i], strlen(fillers[i])) == 0) { return true; }
    }
    return name[strspn(name, " .0123456789")] == '\0';
}

static void read_name(struct scan *scan)
{
    static const char *const keys[] = {"DMIProductName", "PlatformModel", "HostName"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *name = host_info(scan->topology, keys[i]);
        if (name == NULL || is_filler(name)) { continue; }
        redcoi_text_copy(scan->finds.name, sizeof scan->finds.name, name);
        return;
    }
    redcoi_name_of_file(scan->finds.source, scan->finds.name, sizeof scan->finds.name);
}

static bool begins(const char *text, const char *with)
{
    return text != NULL && strncmp(text, with, strlen(with)) == 0;
}

static redco_cpu_vendor cpu_of(hwloc_topology_t topology)
{
    hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, NULL);
    const char *vendor = info(package, "CPUVendor");
    const char *model = info(package, "CPUModel");
    const char *arch = host_info(topology, "Architecture");
    if (begins(vendor, "GenuineIntel")) { return REDCO_CPU_INTEL; }
    if (begins(vendor, "AuthenticAMD")) { return REDCO_CPU_AMD; }
    if (begins(arch, "aarch64") || begins(arch, "arm")) { return REDCO_CPU_ARM; }
    if (begins(arch, "ppc64") || begins(model, "POWER")) { return REDCO_CPU_POWER; }
    if (model != NULL && strstr(model, "Intel") != NULL) { return REDCO_CPU_INTEL; }
    if (model != NULL && strstr(model, "AMD") != NULL) { return REDCO_CPU_AMD; }
    return REDCO_CPU_UNKNOWN;
}

/* Nodes without processors are the memory of GPUs or of expanders: no place for a device. */
static redco_status read_numas(struct scan *scan)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(scan->topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        const int cpus = hwloc_bitmap_weight(node->cpuset);
        const redco_node_numa numa = {.index = node->os_index,
                                      .cpus = cpus > 0 ? (uint32_t)cpus : 0,
                                      .memory_bytes = node->attr->numanode.local_memory};
        if (cpus <= 0) { continue; }
        const redco_status st = redcoi_finds_numa(&scan->finds, &numa, scan->err);
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

/* Unknown where a device hangs at the whole of a machine with several nodes. */
static uint32_t numa_of(struct scan *scan, hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(scan->topology, device);
    uint32_t first = UINT32_MAX;
    size_t inside = 0;
    hwloc_obj_t node = NULL;
    if (near == NULL || near->nodeset == NULL) { return UINT32_MAX; }
    while ((node = hwloc_get_next_obj_by_type(scan->topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        if (hwloc_bitmap_iszero(node->cpuset) || !hwloc_bitmap_isset(near->nodeset, node->os_index)) { continue; }
        if (node->os_index < first) { first = node->os_index; }
        inside++;
    }
    return inside > 1 && inside == scan->finds.numa_count ? UINT32_MAX : first;
}

/* ---- PCI ---- */

static void write_pci(char out[16], const struct hwloc_pcidev_attr_s *pci)
{
    (void)snprintf(out, 16, "%04x:%02x:%02x.%x", (unsigned)pci->domain & 0xffff, pci->bus, pci->dev & 0x1fu,
                   pci->func & 0x7u);
}

/* In steps of 1 MB/s: the float has 7 digits. */
static double link_rate(const struct hwloc_pcidev_attr_s *pci)
{
    const double gigabytes = (double)pci->linkspeed;
    return gigabytes > 0.0 && gigabytes < 1e4 ? round(gigabytes * 1e3) * 1e6 : 0.0;
}

/* Bridges get their index + 1 as userdata, GPUs' PCI devices likewise. */
static size_t mark_of(hwloc_obj_t obj)
{
    return (size_t)(uintptr_t)obj->userdata;
}

static void set_mark(hwloc_obj_t obj, size_t mark)
{
    obj->userdata = (void *)(uintptr_t)mark;
}

static redco_status bridge_of(struct scan *scan, hwloc_obj_t device, uint32_t *bridge_out)
{
    hwloc_obj_t unmarked[256];
    size_t count = 0;
    hwloc_obj_t at = device->parent;
    while (at != NULL && at->type == HWLOC_OBJ_BRIDGE && mark_of(at) == 0 && count < 256) {
        unmarked[count++] = at;
        at = at->parent;
    }
    uint32_t parent = at != NULL && at->type == HWLOC_OBJ_BRIDGE ? (uint32_t)(mark_of(at) - 1) : UINT32_MAX;
    while (count > 0) {
        hwloc_obj_t bridge = unmarked[--count];
        const bool host = bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
        const redco_status st = redcoi_finds_bridge(&scan->finds, parent, host, &parent, scan->err);
        if (st != REDCO_OK) { return st; }
        set_mark(bridge, (size_t)parent + 1);
    }
    *bridge_out = parent;
    return REDCO_OK;
}

/* ---- GPUs ---- */

/* Worse drivers later; 0 is no GPU driver. Types and subtypes of OS devices differ between hwloc versions. */
static unsigned driver_of(hwloc_obj_t osdev)
{
    static const struct {
        const char *backend, *prefix;
    } drivers[] = {{"NVML", "nvml"}, {"RSMI", "rsmi"}, {"CUDA", "cuda"}, {"LevelZero", "ze"}, {"OpenCL", "opencl"}};
    const char *backend = info(osdev, "Backend");
    const char *opencl = info(osdev, "OpenCLDeviceType");
    if (opencl != NULL && strcmp(opencl, "GPU") != 0) { return 0; }
    const bool computes = is_device(osdev, HWLOC_OBJ_OSDEV_GPU) || is_device(osdev, HWLOC_OBJ_OSDEV_COPROC);
    for (unsigned i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        if (backend != NULL && strcmp(backend, drivers[i].backend) == 0) { return i + 1; }
        if (backend == NULL && computes && begins(osdev->name, drivers[i].prefix)) { return i + 1; }
    }
    return 0;
}

static hwloc_obj_t best_driver(hwloc_obj_t pcidev)
{
    hwloc_obj_t best = NULL;
    for (hwloc_obj_t child = pcidev->io_first_child; child != NULL; child = child->next_sibling) {
        const unsigned driver = child->type == HWLOC_OBJ_OS_DEVICE ? driver_of(child) : 0;
        if (driver != 0 && (best == NULL || driver < driver_of(best))) { best = child; }
    }
    return best;
}

static uint64_t memory_of(hwloc_obj_t pcidev)
{
    static const char *const keys[] = {"RSMIVRAMSize", "CUDAGlobalMemorySize", "OpenCLGlobalMemorySize"}; /* KiB */
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (hwloc_obj_t child = pcidev->io_first_child; child != NULL; child = child->next_sibling) {
            const char *text = info(child, keys[i]);
            const unsigned long long kib = text != NULL ? strtoull(text, NULL, 10) : 0;
            if (kib > 0 && kib < 1ULL << 40) { return (uint64_t)kib * 1024; }
        }
    }
    return 0;
}

/* Facts of the drivers and the table about one vendor's devices, before any is taken. */
struct vendor_view {
    bool driven; /* a driver shows some of them: the others do not work */
    bool known;  /* the table knows some of them: the others are display cards */
};

static bool is_known_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    redcoi_part part;
    return redcoi_part_find(pci->vendor_id, pci->device_id, &part) && part.kind == REDCOI_PART_GPU;
}

/* Intel's display class is the processor's own graphics. */
static bool is_display_of_cpu(const struct hwloc_pcidev_attr_s *pci)
{
    return pci->vendor_id == REDCOI_VENDOR_INTEL && pci->class_id == 0x0300;
}

static struct vendor_view view_vendor(struct scan *scan, unsigned vendor)
{
    struct vendor_view view = {0};
    hwloc_obj_t device = NULL;
    while ((device = hwloc_get_next_pcidev(scan->topology, device)) != NULL) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        if (pci->vendor_id != vendor) { continue; }
        view.driven = view.driven || best_driver(device) != NULL;
        view.known = view.known || (redcoi_is_gpu_class(vendor, pci->class_id) && is_known_gpu(pci));
    }
    return view;
}

static redco_status take_gpu(struct scan *scan, hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    hwloc_obj_t driver = best_driver(device);
    redcoi_found_gpu *found = NULL;
    uint32_t bridge = UINT32_MAX;
    redco_status st = bridge_of(scan, device, &bridge);
    if (st == REDCO_OK) { st = redcoi_finds_gpu(&scan->finds, &found, scan->err); }
    if (st != REDCO_OK) { return st; }
    set_mark(device, scan->finds.gpu_count);
    redcoi_gpu_identify(found, pci->vendor_id, pci->device_id, info(driver, "GPUModel"));
    write_pci(found->gpu.pci, pci);
    if (driver != NULL && driver->name != NULL) {
        redcoi_text_copy(found->gpu.os_name, sizeof found->gpu.os_name, driver->name);
    }
    found->gpu.numa = numa_of(scan, device);
    found->gpu.memory_bytes = memory_of(device);
    found->gpu.pcie_bytes_per_s = link_rate(pci);
    found->bridge = bridge;
    found->slot = redcoi_pci_slot(pci->domain, pci->bus, pci->dev);
    return REDCO_OK;
}

static redco_status consider_gpu(struct scan *scan, hwloc_obj_t device, const struct vendor_view *nvidia,
                                 const struct vendor_view *amd)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    const struct vendor_view *view = pci->vendor_id == REDCOI_VENDOR_AMD ? amd : nvidia;
    if (best_driver(device) != NULL) { return is_display_of_cpu(pci) ? REDCO_OK : take_gpu(scan, device); }
    if (!redcoi_is_gpu_class(pci->vendor_id, pci->class_id)) { return REDCO_OK; }
    if (!view->driven) { return !view->known || is_known_gpu(pci) ? take_gpu(scan, device) : REDCO_OK; }
    if (scan->finds.undriven_gpus++ == 0) { write_pci(scan->finds.undriven_pci, pci); }
    return REDCO_OK;
}

/* ---- NICs ---- */

/* All ports down, as far as the driver tells. */
static bool is_down(hwloc_obj_t openfabrics)
{
    bool told = false;
    for (unsigned port = 1; port <= 4; port++) {
        char key[16];
        (void)snprintf(key, sizeof key, "Port%uState", port);
        const char *state = info(openfabrics, key);
        if (state == NULL) { continue; }
        if (strcmp(state, "4") == 0) { return false; } /* IBV_PORT_ACTIVE */
        told = true;
    }
    return told;
}

static redco_status take_nic(struct scan *scan, hwloc_obj_t device, hwloc_obj_t osdev)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    redcoi_found_nic *found = NULL;
    uint32_t bridge = UINT32_MAX;
    if (is_device(osdev, HWLOC_OBJ_OSDEV_OPENFABRICS) && is_down(osdev)) {
        if (scan->finds.down_nics++ == 0) {
            redcoi_text_copy(scan->finds.down_nic, sizeof scan->finds.down_nic, osdev->name != NULL ? osdev->name : "");
        }
        return REDCO_OK;
    }
    redco_status st = bridge_of(scan, device, &bridge);
    if (st == REDCO_OK) { st = redcoi_finds_nic(&scan->finds, &found, scan->err); }
    if (st != REDCO_OK) { return st; }
    redcoi_text_copy(found->nic.name, sizeof found->nic.name, osdev->name != NULL ? osdev->name : "");
    redcoi_nic_identify(found, pci->vendor_id, pci->device_id);
    write_pci(found->nic.pci, pci);
    const char *card = info(osdev, "SysImageGUID");
    if (card != NULL && strspn(card, "0:") != strlen(card)) {
        redcoi_text_copy(found->card, sizeof found->card, card);
        found->function = pci->func;
    }
    found->nic.numa = numa_of(scan, device);
    found->bridge = bridge;
    found->slot = redcoi_pci_slot(pci->domain, pci->bus, pci->dev);
    found->pcie_bytes_per_s = link_rate(pci);
    return REDCO_OK;
}

/* The network device that stands for the card. hwloc before 1.6 filed verbs devices ("mlx4_0", beside its ports "ib0"
 * and "ib1") under network. */
static hwloc_obj_t network_of(hwloc_obj_t device)
{
    hwloc_obj_t network = NULL;
    for (hwloc_obj_t child = device->io_first_child; child != NULL; child = child->next_sibling) {
        if (!is_device(child, HWLOC_OBJ_OSDEV_NETWORK)) { continue; }
        if (network == NULL || begins(child->name, "mlx")) { network = child; }
    }
    return network;
}

/* RDMA devices, and InfiniBand or fast NICs of the table that only show as network devices (Slingshot; no RDMA driver).
 * Other network devices are management ports. */
static redco_status consider_nic(struct scan *scan, hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    redcoi_part part;
    const bool known = redcoi_part_find(pci->vendor_id, pci->device_id, &part);
    const bool fast = (known && part.kind == REDCOI_PART_NIC) || redcoi_is_infiniband(pci->class_id);
    bool taken = false;
    for (hwloc_obj_t child = device->io_first_child; child != NULL; child = child->next_sibling) {
        if (!is_device(child, HWLOC_OBJ_OSDEV_OPENFABRICS)) { continue; }
        const redco_status st = take_nic(scan, device, child);
        if (st != REDCO_OK) { return st; }
        taken = true;
    }
    hwloc_obj_t network = network_of(device);
    return taken || network == NULL || !fast ? REDCO_OK : take_nic(scan, device, network);
}

static redco_status read_devices(struct scan *scan)
{
    const struct vendor_view nvidia = view_vendor(scan, REDCOI_VENDOR_NVIDIA);
    const struct vendor_view amd = view_vendor(scan, REDCOI_VENDOR_AMD);
    hwloc_obj_t device = NULL;
    while ((device = hwloc_get_next_pcidev(scan->topology, device)) != NULL) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        const bool named_switch = device->subtype != NULL && strcmp(device->subtype, "NVSwitch") == 0;
        if (named_switch || redcoi_is_nvswitch(pci->vendor_id, pci->class_id)) {
            scan->finds.switches++;
            continue;
        }
        redco_status st = consider_gpu(scan, device, &nvidia, &amd);
        if (st == REDCO_OK) { st = consider_nic(scan, device); }
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

/* ---- links ---- */

/* The GPU that an object of a matrix stands for, or SIZE_MAX: NVSwitch, processor, unknown. */
static size_t gpu_of(hwloc_obj_t obj)
{
    while (obj != NULL && obj->type == HWLOC_OBJ_OS_DEVICE) { obj = obj->parent; }
    return obj != NULL && obj->type == HWLOC_OBJ_PCI_DEVICE && mark_of(obj) > 0 ? mark_of(obj) - 1 : SIZE_MAX;
}

/* Everything that leaves a GPU: to GPUs, switches and processors. The diagonal is a filler. */
static void add_totals(struct scan *scan, const struct hwloc_distances_s *distances)
{
    for (unsigned i = 0; i < distances->nbobjs; i++) {
        const size_t gpu = gpu_of(distances->objs[i]);
        for (unsigned j = 0; gpu != SIZE_MAX && j < distances->nbobjs; j++) {
            if (i != j) {
                scan->finds.gpus[gpu].linked_total += (double)distances->values[i * distances->nbobjs + j] * 1e6;
            }
        }
    }
}

static void add_pairs(struct scan *scan, const struct hwloc_distances_s *distances)
{
    for (unsigned i = 0; i < distances->nbobjs; i++) {
        for (unsigned j = 0; j < distances->nbobjs; j++) {
            const size_t from = gpu_of(distances->objs[i]);
            const size_t to = gpu_of(distances->objs[j]);
            if (from == SIZE_MAX || to == SIZE_MAX || from == to) { continue; }
            scan->finds.matrix[from * scan->finds.gpu_count + to] =
                (double)distances->values[i * distances->nbobjs + j] * 1e6; /* hwloc: MB/s */
        }
    }
}

static redco_status read_matrix(struct scan *scan, const char *name)
{
    unsigned count = 1;
    struct hwloc_distances_s *distances = NULL;
    if (scan->finds.matrix != NULL || scan->finds.gpu_count == 0) { return REDCO_OK; }
    if (hwloc_distances_get_by_name(scan->topology, name, &count, &distances, 0) != 0 || count == 0) {
        return REDCO_OK;
    }
    scan->finds.matrix = calloc(scan->finds.gpu_count * scan->finds.gpu_count, sizeof *scan->finds.matrix);
    if (scan->finds.matrix == NULL) {
        hwloc_distances_release(scan->topology, distances);
        return redco_fail(scan->err, REDCO_ENOMEM, scan->finds.source, "out of memory");
    }
    scan->finds.matrix_name = name;
    add_totals(scan, distances);
    /* Fails where there is no switch; the closure would then wipe out the direct links. */
    if (hwloc_distances_transform(scan->topology, distances, HWLOC_DISTANCES_TRANSFORM_MERGE_SWITCH_PORTS, NULL, 0) ==
        0) {
        scan->finds.matrix_switched =
            hwloc_distances_transform(scan->topology, distances, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE, NULL,
                                      0) == 0;
    }
    add_pairs(scan, distances);
    hwloc_distances_release(scan->topology, distances);
    return REDCO_OK;
}

static redco_status read_topology(hwloc_topology_t topology, const char *source, redco_node **node_out,
                                  redco_error *err)
{
    struct scan scan = {.topology = topology, .err = err, .finds.source = source};
    read_name(&scan);
    scan.finds.cpu = cpu_of(topology);
    redco_status st = read_numas(&scan);
    if (st == REDCO_OK) { st = read_devices(&scan); }
    if (st == REDCO_OK) { st = read_matrix(&scan, "NVLinkBandwidth"); }
    if (st == REDCO_OK) { st = read_matrix(&scan, "XGMIBandwidth"); }
    if (st == REDCO_OK) { st = redcoi_finds_node(&scan.finds, node_out, err); }
    redcoi_finds_clear(&scan.finds);
    return st;
}

redco_status redcoi_node_from_hwloc_xml(const char *text, size_t size, const char *name, redco_node **node_out,
                                        redco_error *err)
{
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology) != 0) { return redco_fail(err, REDCO_ENOMEM, name, "hwloc: out of memory"); }
    redco_status st = REDCO_OK;
    /* The size counts the final 0. Without a check of set_xmlbuffer, load would take the real machine. */
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_set_xmlbuffer(topology, text, (int)(size + 1)) != 0 || hwloc_topology_load(topology) != 0 ||
        hwloc_topology_is_thissystem(topology)) {
        st = redco_fail(err, REDCO_EVALUE, name,
                        "hwloc %s cannot make a topology of this XML: objects are missing or contradict one another",
                        HWLOC_VERSION);
    } else {
        st = read_topology(topology, name, node_out, err);
    }
    hwloc_topology_destroy(topology);
    return st;
}

redco_status redcoi_node_from_live(redco_node **node_out, redco_error *err)
{
    hwloc_topology_t topology = NULL;
    const char *name = "this machine";
    if (hwloc_topology_init(&topology) != 0) { return redco_fail(err, REDCO_ENOMEM, name, "hwloc: out of memory"); }
    /* The gl component would talk to X servers only to learn of displays. */
    (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "gl");
    redco_status st = REDCO_OK;
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(topology) != 0) {
        st = redco_fail(err, REDCO_ESYSTEM, name, "hwloc %s: cannot discover the machine: %s", HWLOC_VERSION,
                        strerror(errno));
    } else {
        const bool real = hwloc_topology_is_thissystem(topology) != 0;
        st = read_topology(topology, name, node_out, err);
        if (st == REDCO_OK && !real) {
            redcoi_node_warn(*node_out, "HWLOC_* environment variables put another topology in this machine's place");
        }
    }
    hwloc_topology_destroy(topology);
    return st;
}
