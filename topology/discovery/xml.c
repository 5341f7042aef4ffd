#include "topology/base/file.h"
#include "topology/discovery/node_internal.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hwloc reads objects recursively; real machines nest about 20 deep. Its sets have a bit for every index up to the
 * largest one; Linux numbers processors up to 8191. */
enum { DEPTH_MAX = 256, INDEX_MAX = 65535 };
static const size_t file_max_bytes = (size_t)64 << 20;

struct check {
    XML_Parser parser;
    const char *name;
    redco_error *err;
    redco_status status;
    unsigned depth;
    bool hwloc;          /* the root is an hwloc topology that can be read */
    unsigned long major; /* version of its format */
    size_t processors;
    unsigned skipped; /* depth of the element that is left out; 0: none */
    bool open_tag;    /* "<name attributes" is written, but not its end */
    bool keeps_text;
    struct text {
        char *bytes;
        size_t size, capacity;
    } out, infos;       /* infos: of the whole topology, which format 3 has behind its objects */
    size_t infos_go_at; /* offset in out; 0: there is no object yet */
};

__attribute__((format(printf, 3, 4))) static void refuse(struct check *check, redco_status status, const char *format,
                                                         ...)
{
    char place[512];
    char text[512];
    va_list args;
    if (check->status != REDCO_OK) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%.400s:%lu:%lu", check->name,
                   (unsigned long)XML_GetCurrentLineNumber(check->parser),
                   (unsigned long)XML_GetCurrentColumnNumber(check->parser) + 1);
    check->status = redco_fail(check->err, status, place, "%s", text);
    (void)XML_StopParser(check->parser, XML_FALSE);
}

static void append(struct check *check, struct text *to, const char *bytes, size_t size)
{
    if (check->status != REDCO_OK) { return; }
    if (to->size + size + 1 > to->capacity) {
        const size_t capacity = 2 * (to->size + size + 1);
        char *larger = realloc(to->bytes, capacity);
        if (larger == NULL) {
            refuse(check, REDCO_ENOMEM, "out of memory");
            return;
        }
        to->bytes = larger;
        to->capacity = capacity;
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    to->bytes[to->size] = '\0';
}

static void append_text(struct check *check, struct text *to, const char *text)
{
    append(check, to, text, strlen(text));
}

static void emit_text(struct check *check, const char *text)
{
    append_text(check, &check->out, text);
}

/* The entities that hwloc's built-in parser knows. */
static void append_escaped(struct check *check, struct text *to, const char *text, size_t size)
{
    static const char *const names[][2] = {{"&", "&amp;"},  {"<", "&lt;"},   {">", "&gt;"}, {"\"", "&quot;"},
                                           {"\n", "&#10;"}, {"\r", "&#13;"}, {"\t", "&#9;"}};
    for (size_t i = 0; i < size; i++) {
        const char *entity = NULL;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            if (text[i] == names[k][0][0]) { entity = names[k][1]; }
        }
        if (entity != NULL) {
            append_text(check, to, entity);
        } else {
            append(check, to, &text[i], 1);
        }
    }
}

static void append_attribute(struct check *check, struct text *to, const char *key, const char *value)
{
    append_text(check, to, " ");
    append_text(check, to, key);
    append_text(check, to, "=\"");
    append_escaped(check, to, value, strlen(value));
    append_text(check, to, "\"");
}

static void close_open_tag(struct check *check)
{
    if (check->open_tag) { emit_text(check, ">"); }
    check->open_tag = false;
}

static const char *attribute(const XML_Char **attributes, const char *key)
{
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        if (strcmp(attributes[i], key) == 0) { return attributes[i + 1]; }
    }
    return NULL;
}

static void start_root(struct check *check, const char *element, const XML_Char **attributes)
{
    const char *version = attribute(attributes, "version");
    if (strcmp(element, "system") == 0) { return; } /* NCCL topology: its own reader goes on */
    if (strcmp(element, "graphs") == 0 || strcmp(element, "graph") == 0) {
        refuse(
            check, REDCO_EVALUE,
            "is an NCCL graph file (rings and trees that NCCL chose), not a topology; NCCL_TOPO_DUMP_FILE writes one");
        return;
    }
    if (strcmp(element, "topology") != 0 && strcmp(element, "root") != 0) {
        refuse(check, REDCO_EVALUE,
               "element <%.40s> is neither hwloc XML (<topology>) nor NCCL topology XML (<system>)", element);
        return;
    }
    check->major = version != NULL ? strtoul(version, NULL, 10) : 1;
    if (version != NULL && (version[0] < '0' || version[0] > '9')) {
        refuse(check, REDCO_EVALUE, "hwloc XML version \"%.20s\" is not a version", version);
        return;
    }
    if (check->major > 3) {
        refuse(
            check, REDCO_EVALUE,
            "hwloc XML version %.20s: redco reads up to 3.x; export it with \"lstopo --export-xml-flags 2 FILE.xml\" "
            "on the newer hwloc",
            version);
        return;
    }
    check->hwloc = true;
    emit_text(check, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<");
    emit_text(check, element);
    /* hwloc reads format 3 from 2.10 on, where it differs from 2 in nothing that a node is made of but what
     * start_object() rewrites */
    if (version != NULL) { append_attribute(check, &check->out, "version", check->major == 3 ? "2.0" : version); }
    emit_text(check, ">\n");
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(word, *words) == 0) { return true; }
    }
    return false;
}

/* hwloc compares the sets of siblings and parents without asking whether they are there (2.9.0 reads address 0).
 * Devices have none; format 1 has node sets only where the machine has several NUMA nodes. */
static void check_object(struct check *check, const XML_Char **attributes)
{
    static const char *const without[] = {"Bridge", "PCIDev", "OSDev", "Misc", NULL};
    static const char *const indexed[] = {"PU", "NUMANode", NULL};
    static const char *const sets[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};
    const char *type = attribute(attributes, "type");
    const char *index = attribute(attributes, "os_index");
    if (type == NULL) {
        refuse(check, REDCO_EVALUE, "<object> without a type");
        return;
    }
    if (strcmp(type, "PU") == 0) { check->processors++; }
    if (is_one_of(type, without)) { return; }
    const bool has_nodes = check->major >= 2 || attribute(attributes, "nodeset") != NULL ||
                           attribute(attributes, "complete_nodeset") != NULL;
    for (size_t i = 0; i < (has_nodes ? 4u : 2u); i++) {
        if (attribute(attributes, sets[i]) == NULL) {
            refuse(check, REDCO_EVALUE, "<object> of type %.20s without \"%s\"", type, sets[i]);
            return;
        }
    }
    if (index != NULL && is_one_of(type, indexed) && strtoull(index, NULL, 10) > INDEX_MAX) {
        refuse(check, REDCO_EVALUE, "os_index=\"%.20s\" of a %s; at most %d is an index", index, type, INDEX_MAX);
    }
}

/* The bits that hwloc 3 has for what a device is, as the one kind that hwloc 2 has. */
static const char *kind_of_bits(const char *bits)
{
    enum { GPU = 1 << 2, COPROCESSOR = 1 << 3, NETWORK = 1 << 4, OPENFABRICS = 1 << 5, DMA = 1 << 6 };
    const unsigned long set = strtoul(bits, NULL, 10);
    if (set & COPROCESSOR) { return "5"; }
    if (set & GPU) { return "1"; }
    if (set & OPENFABRICS) { return "3"; }
    if (set & NETWORK) { return "2"; }
    return set & DMA ? "4" : "0";
}

static void emit_attributes(struct check *check, struct text *to, const XML_Char **attributes)
{
    const bool has_number = attribute(attributes, "gp_index") != NULL;
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        const char *key = attributes[i];
        const char *value = attributes[i + 1];
        if (check->major == 3 && strcmp(key, "osdev_type") == 0) { value = kind_of_bits(value); }
        if (check->major == 3 && strcmp(key, "id") == 0) {
            if (has_number || strncmp(value, "obj", 3) != 0) { continue; }
            key = "gp_index";
            value += 3;
        }
        append_attribute(check, to, key, value);
    }
}

/* The parts of a node. Matrices of NUMA latencies, kinds of processors, page sizes and what applications left would
 * only be more for hwloc to stumble over. */
static bool is_needed(const char *element, const XML_Char **attributes)
{
    static const char *const needed[] = {"object", "info", "indexes", "u64values", NULL};
    static const char *const matrices[] = {"distances2", "distances2hetero", NULL};
    static const char *const links[] = {"NVLinkBandwidth", "XGMIBandwidth", NULL};
    const char *name = attribute(attributes, "name");
    return is_one_of(element, needed) || (is_one_of(element, matrices) && name != NULL && is_one_of(name, links));
}

static void start_element(struct check *check, const char *element, const XML_Char **attributes)
{
    const bool first_object = check->depth == 2 && check->infos_go_at == 0 && strcmp(element, "object") == 0;
    if (!is_needed(element, attributes)) {
        check->skipped = check->depth;
        return;
    }
    if (check->depth == 2 && strcmp(element, "info") == 0) {
        append_text(check, &check->infos, "<info");
        emit_attributes(check, &check->infos, attributes);
        append_text(check, &check->infos, "/>\n");
        check->skipped = check->depth;
        return;
    }
    if (strcmp(element, "object") == 0) { check_object(check, attributes); }
    close_open_tag(check);
    emit_text(check, "<");
    emit_text(check, element);
    emit_attributes(check, &check->out, attributes);
    check->open_tag = true;
    if (first_object) {
        close_open_tag(check);
        check->infos_go_at = check->out.size;
    }
    /* the only elements with content; its length is checked, so nothing may be added or lost */
    check->keeps_text = strcmp(element, "indexes") == 0 || strcmp(element, "u64values") == 0;
}

static void on_start(void *context, const XML_Char *element, const XML_Char **attributes)
{
    struct check *check = context;
    check->depth++;
    if (check->depth > DEPTH_MAX) {
        refuse(check, REDCO_EVALUE, "nests more than %d elements", DEPTH_MAX);
        return;
    }
    if (check->depth == 1) {
        start_root(check, element, attributes);
    } else if (check->hwloc && check->skipped == 0) {
        start_element(check, element, attributes);
    }
}

static void on_text(void *context, const XML_Char *text, int size)
{
    struct check *check = context;
    if (!check->hwloc || check->skipped != 0 || !check->keeps_text) { return; }
    close_open_tag(check);
    append_escaped(check, &check->out, text, (size_t)size);
}

static void on_end(void *context, const XML_Char *element)
{
    struct check *check = context;
    const unsigned depth = check->depth--;
    if (!check->hwloc) { return; }
    if (check->skipped != 0) {
        if (check->skipped == depth) { check->skipped = 0; }
        return;
    }
    if (check->open_tag) {
        emit_text(check, "/>\n");
        check->open_tag = false;
    } else {
        emit_text(check, "</");
        emit_text(check, element);
        emit_text(check, ">\n");
    }
    check->keeps_text = false;
}

/* Format 2 has them in the root object, before the objects inside. */
static void place_infos(struct check *check)
{
    const size_t at = check->infos_go_at;
    const size_t size = check->out.size;
    if (at == 0 || check->infos.size == 0) { return; }
    append(check, &check->out, check->infos.bytes, check->infos.size); /* makes room */
    if (check->status != REDCO_OK) { return; }
    memmove(check->out.bytes + at + check->infos.size, check->out.bytes + at, size - at);
    memcpy(check->out.bytes + at, check->infos.bytes, check->infos.size);
}

redco_status redcoi_xml_check(const char *text, size_t size, const char *name, redcoi_xml_kind *kind_out,
                              char **hwloc_text_out, size_t *hwloc_size_out, redco_error *err)
{
    struct check check = {.parser = XML_ParserCreate(NULL), .name = name, .err = err};
    if (check.parser == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    XML_SetUserData(check.parser, &check);
    XML_SetElementHandler(check.parser, on_start, on_end);
    XML_SetCharacterDataHandler(check.parser, on_text);
    /* file_max_bytes keeps the size within int */
    if (size > file_max_bytes) {
        check.status = redco_fail(err, REDCO_EVALUE, name, "is larger than %zu MiB", file_max_bytes >> 20);
    } else if (XML_Parse(check.parser, text, (int)size, XML_TRUE) != XML_STATUS_OK && check.status == REDCO_OK) {
        const enum XML_Error why = XML_GetErrorCode(check.parser);
        const bool cut = why == XML_ERROR_NO_ELEMENTS || why == XML_ERROR_UNCLOSED_TOKEN;
        refuse(&check, REDCO_EVALUE, "not valid XML: %s%s", XML_ErrorString(why), cut ? " (cut off?)" : "");
    }
    if (check.status == REDCO_OK && check.hwloc && check.processors == 0) {
        check.status = redco_fail(err, REDCO_EVALUE, name, "is hwloc XML without any processor (object of type PU)");
    }
    place_infos(&check);
    const redco_status st = check.status;
    XML_ParserFree(check.parser);
    free(check.infos.bytes);
    if (st != REDCO_OK || !check.hwloc) {
        free(check.out.bytes);
        check.out.bytes = NULL;
    }
    if (st == REDCO_OK) {
        *kind_out = check.hwloc ? REDCOI_XML_HWLOC : REDCOI_XML_NCCL;
        *hwloc_text_out = check.out.bytes;
        *hwloc_size_out = check.out.size;
    }
    return st;
}

/* ---- any node file ---- */

static redco_status parse_json(const char *text, size_t size, const char *name, redco_node **node_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, size, name, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_node_from_json(&root, node_out, err);
    redco_json_close(document);
    return st;
}

static redco_status parse_xml(const char *text, size_t size, const char *name, uint32_t host, redco_node **node_out,
                              redco_error *err)
{
    redcoi_xml_kind kind = REDCOI_XML_NCCL;
    char *hwloc_text = NULL;
    size_t hwloc_size = 0;
    redco_status st = redcoi_xml_check(text, size, name, &kind, &hwloc_text, &hwloc_size, err);
    if (st != REDCO_OK) { return st; }
    if (kind == REDCOI_XML_NCCL) { return redcoi_node_from_nccl(text, size, name, host, node_out, err); }
    st = host == 0 ? redcoi_node_from_hwloc_apart(hwloc_text, hwloc_size, name, node_out, err)
                   : redcoi_one_host(name, host, err);
    free(hwloc_text);
    return st;
}

redco_status redco_node_parse(const char *text, size_t size, const char *name, uint32_t host, redco_node **node_out,
                              redco_error *err)
{
    const size_t bom = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t first = bom;
    while (first < size && strchr(" \t\r\n", text[first]) != NULL && text[first] != '\0') { first++; }
    if (first == size) { return redco_fail(err, REDCO_EVALUE, name, "is empty; node JSON or XML is needed"); }
    if (text[first] == '<') { return parse_xml(text, size, name, host, node_out, err); }
    if (redcoi_is_matrix(text + bom, size - bom)) {
        return host == 0 ? redcoi_node_from_matrix(text + bom, size - bom, name, node_out, err)
                         : redcoi_one_host(name, host, err);
    }
    if (text[first] != '{') {
        return redco_fail(err, REDCO_EVALUE, name,
                          "is neither hwloc XML, NCCL topology XML, node JSON (what redco-topo --json prints), nor "
                          "what nvidia-smi topo -m, rocm-smi --showtopo or amd-smi topology prints");
    }
    return host == 0 ? parse_json(text + bom, size - bom, name, node_out, err) : redcoi_one_host(name, host, err);
}

static redco_status read_file(const char *path, char **text_out, size_t *size_out, redco_error *err)
{
    return redco_file_read(path, file_max_bytes, text_out, size_out, err);
}

redco_status redco_node_read_host(const char *path, uint32_t host, redco_node **node_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = read_file(path, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    st = redco_node_parse(text, size, path, host, node_out, err);
    free(text);
    return st;
}

redco_status redco_node_read(const char *path, redco_node **node_out, redco_error *err)
{
    return redco_node_read_host(path, 0, node_out, err);
}

redco_status redco_node_discover(const char *xml_path, redco_node **node_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (xml_path == NULL) { return redcoi_node_from_live(node_out, err); }
    redco_status st = read_file(xml_path, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    st = parse_xml(text, size, xml_path, 0, node_out, err);
    free(text);
    return st;
}
