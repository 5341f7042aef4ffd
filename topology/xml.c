#include "topology/base/file.h"
#include "topology/node_internal.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hwloc reads objects recursively; real machines nest about 20 deep. */
enum { DEPTH_MAX = 256 };
static const size_t file_max_bytes = (size_t)64 << 20;

struct check {
    XML_Parser parser;
    const char *name;
    redco_error *err;
    redco_status status;
    unsigned depth;
    bool hwloc; /* the root is an hwloc topology that can be read */
    size_t processors;
    unsigned skipped; /* depth of the element that is left out; 0: none */
    bool open_tag;    /* "<name attributes" is written, but not its end */
    bool keeps_text;
    char *out;
    size_t out_size, out_capacity;
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

static void emit(struct check *check, const char *bytes, size_t size)
{
    if (check->status != REDCO_OK) { return; }
    if (check->out_size + size + 1 > check->out_capacity) {
        const size_t capacity = 2 * (check->out_size + size + 1);
        char *larger = realloc(check->out, capacity);
        if (larger == NULL) {
            refuse(check, REDCO_ENOMEM, "out of memory");
            return;
        }
        check->out = larger;
        check->out_capacity = capacity;
    }
    memcpy(check->out + check->out_size, bytes, size);
    check->out_size += size;
    check->out[check->out_size] = '\0';
}

static void emit_text(struct check *check, const char *text)
{
    emit(check, text, strlen(text));
}

/* The entities that hwloc's built-in parser knows. */
static void emit_escaped(struct check *check, const char *text, size_t size)
{
    static const char *const names[][2] = {{"&", "&amp;"},  {"<", "&lt;"},   {">", "&gt;"}, {"\"", "&quot;"},
                                           {"\n", "&#10;"}, {"\r", "&#13;"}, {"\t", "&#9;"}};
    for (size_t i = 0; i < size; i++) {
        const char *entity = NULL;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            if (text[i] == names[k][0][0]) { entity = names[k][1]; }
        }
        if (entity != NULL) {
            emit_text(check, entity);
        } else {
            emit(check, &text[i], 1);
        }
    }
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
    unsigned long major = 1;
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
    if (version != NULL) { major = strtoul(version, NULL, 10); }
    if (version != NULL && (version[0] < '0' || version[0] > '9')) {
        refuse(check, REDCO_EVALUE, "hwloc XML version \"%.20s\" is not a version", version);
        return;
    }
    if (major > redcoi_hwloc_newest_xml()) {
        refuse(check, REDCO_EVALUE,
               "hwloc XML version %.20s: this hwloc %s reads up to %u.x; export it with "
               "\"lstopo --export-xml-flags 2 FILE.xml\" on the newer hwloc",
               version, redcoi_hwloc_release(), redcoi_hwloc_newest_xml());
        return;
    }
    check->hwloc = true;
    emit_text(check, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<");
    emit_text(check, element);
    if (version != NULL) {
        emit_text(check, " version=\"");
        emit_escaped(check, version, strlen(version));
        emit_text(check, "\"");
    }
    emit_text(check, ">\n");
}

/* hwloc compares the sets of siblings without asking whether they are there (2.9.0 reads address 0). Devices have none.
 */
static void check_object(struct check *check, const XML_Char **attributes)
{
    static const char *const without[] = {"Bridge", "PCIDev", "OSDev", "Misc"};
    static const char *const sets[] = {"cpuset", "complete_cpuset"};
    const char *type = attribute(attributes, "type");
    if (type == NULL) {
        refuse(check, REDCO_EVALUE, "<object> without a type");
        return;
    }
    if (strcmp(type, "PU") == 0) { check->processors++; }
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        if (strcmp(type, without[i]) == 0) { return; }
    }
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (attribute(attributes, sets[i]) == NULL) {
            refuse(check, REDCO_EVALUE, "<object> of type %.20s without \"%s\"", type, sets[i]);
            return;
        }
    }
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
        return;
    }
    if (!check->hwloc || check->skipped != 0) { return; }
    if (strcmp(element, "userdata") == 0) {
        check->skipped = check->depth; /* applications' own: may hold anything */
        return;
    }
    if (strcmp(element, "object") == 0) { check_object(check, attributes); }
    close_open_tag(check);
    emit_text(check, "<");
    emit_text(check, element);
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        emit_text(check, " ");
        emit_text(check, attributes[i]);
        emit_text(check, "=\"");
        emit_escaped(check, attributes[i + 1], strlen(attributes[i + 1]));
        emit_text(check, "\"");
    }
    check->open_tag = true;
    /* the only elements with content; its length is checked, so nothing may be added or lost */
    check->keeps_text = strcmp(element, "indexes") == 0 || strcmp(element, "u64values") == 0;
}

static void on_text(void *context, const XML_Char *text, int size)
{
    struct check *check = context;
    if (!check->hwloc || check->skipped != 0 || !check->keeps_text) { return; }
    close_open_tag(check);
    emit_escaped(check, text, (size_t)size);
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
    const redco_status st = check.status;
    XML_ParserFree(check.parser);
    if (st != REDCO_OK || !check.hwloc) {
        free(check.out);
        check.out = NULL;
    }
    if (st == REDCO_OK) {
        *kind_out = check.hwloc ? REDCOI_XML_HWLOC : REDCOI_XML_NCCL;
        *hwloc_text_out = check.out;
        *hwloc_size_out = check.out_size;
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

static redco_status parse_xml(const char *text, size_t size, const char *name, redco_node **node_out, redco_error *err)
{
    redcoi_xml_kind kind = REDCOI_XML_NCCL;
    char *hwloc_text = NULL;
    size_t hwloc_size = 0;
    redco_status st = redcoi_xml_check(text, size, name, &kind, &hwloc_text, &hwloc_size, err);
    if (st != REDCO_OK) { return st; }
    st = kind == REDCOI_XML_HWLOC ? redcoi_node_from_hwloc_xml(hwloc_text, hwloc_size, name, node_out, err)
                                  : redcoi_node_from_nccl(text, size, name, node_out, err);
    free(hwloc_text);
    return st;
}

redco_status redco_node_parse(const char *text, size_t size, const char *name, redco_node **node_out, redco_error *err)
{
    const size_t bom = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t first = bom;
    while (first < size && strchr(" \t\r\n", text[first]) != NULL && text[first] != '\0') { first++; }
    if (first == size) { return redco_fail(err, REDCO_EVALUE, name, "is empty; node JSON or XML is needed"); }
    if (text[first] == '{') { return parse_json(text + bom, size - bom, name, node_out, err); }
    if (text[first] == '<') { return parse_xml(text, size, name, node_out, err); }
    return redco_fail(err, REDCO_EVALUE, name,
                      "is neither hwloc XML, NCCL topology XML nor node JSON (what redco-topo --json prints)");
}

static redco_status read_file(const char *path, char **text_out, size_t *size_out, redco_error *err)
{
    return redco_file_read(path, file_max_bytes, text_out, size_out, err);
}

redco_status redco_node_read(const char *path, redco_node **node_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = read_file(path, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    st = redco_node_parse(text, size, path, node_out, err);
    free(text);
    return st;
}

redco_status redco_node_discover(const char *xml_path, redco_node **node_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (xml_path == NULL) { return redcoi_node_from_live(node_out, err); }
    redco_status st = read_file(xml_path, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    st = parse_xml(text, size, xml_path, node_out, err);
    free(text);
    return st;
}
