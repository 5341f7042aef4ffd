#include "executor/log/event_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCALARS_MAX = 16, TAG_MAX = 200, MESSAGE_BYTES = SCALARS_MAX * (TAG_MAX + 16) + 64 };

struct redco_event_file {
    char *path;
    FILE *file;
};

/* A message that is put together; its room is enough by the limits above. */
struct message {
    unsigned char bytes[MESSAGE_BYTES];
    size_t size;
};

uint32_t redco_crc32c(const void *bytes, size_t size)
{
    static const uint32_t reversed_polynomial = 0x82f63b78;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (int bit = 0; bit < 8; bit++) { crc = crc >> 1 ^ ((crc & 1) != 0 ? reversed_polynomial : 0); }
    }
    return ~crc;
}

/* Checksums of data that have checksums themselves are made unlike them: core/lib/hash/crc32c.h, Mask(). */
static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_little(unsigned char *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) { to[i] = (unsigned char)(value >> (8 * i)); }
}

static void add_fixed(struct message *m, uint64_t value, uint32_t bytes)
{
    put_little(m->bytes + m->size, value, bytes);
    m->size += bytes;
}

static void add_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) { m->bytes[m->size++] = (unsigned char)(value | 0x80); }
    m->bytes[m->size++] = (unsigned char)value;
}

/* Wire types of protocol buffers. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add_key(struct message *m, uint32_t field, uint32_t wire_type)
{
    add_varint(m, (uint64_t)field << 3 | wire_type);
}

static void add_bytes(struct message *m, uint32_t field, const void *bytes, size_t size)
{
    add_key(m, field, BYTES);
    add_varint(m, size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

/* Fields of event.proto: Event and SessionLog; of summary.proto: Summary and Summary.Value. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

static struct message event_at(double wall_s, uint64_t step)
{
    struct message m = {.size = 0};
    uint64_t bits = 0;
    memcpy(&bits, &wall_s, sizeof bits);
    add_key(&m, EVENT_WALL_TIME, FIXED64);
    add_fixed(&m, bits, 8);
    add_key(&m, EVENT_STEP, VARINT);
    add_varint(&m, step);
    return m;
}

static redco_status write_record(redco_event_file *f, const struct message *m, redco_error *err)
{
    unsigned char head[12], tail[4];
    put_little(head, m->size, 8);
    put_little(head + 8, masked(redco_crc32c(head, 8)), 4);
    put_little(tail, masked(redco_crc32c(m->bytes, m->size)), 4);
    if (fwrite(head, sizeof head, 1, f->file) == 1 && fwrite(m->bytes, m->size, 1, f->file) == 1 &&
        fwrite(tail, sizeof tail, 1, f->file) == 1 && fflush(f->file) == 0) {
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_ESYSTEM, f->path, "cannot write: %s", strerror(errno));
}

static redco_status begin(redco_event_file *f, double wall_s, uint64_t first, redco_error *err)
{
    static const char version[] = "brain.Event:2";
    struct message m = event_at(wall_s, 0), status = {.size = 0};
    add_bytes(&m, EVENT_FILE_VERSION, version, sizeof version - 1);
    redco_status st = write_record(f, &m, err);
    if (st != REDCO_OK || first == 0) { return st; }
    m = event_at(wall_s, first);
    add_key(&status, SESSION_STATUS, VARINT);
    add_varint(&status, SESSION_START);
    add_bytes(&m, EVENT_SESSION_LOG, status.bytes, status.size);
    return write_record(f, &m, err);
}

redco_status redco_event_file_create(const char *folder, double wall_s, uint64_t first, redco_event_file **file_out,
                                     redco_error *err)
{
    char host[256] = "host";
    const size_t room = strlen(folder) + sizeof host + 80;
    redco_event_file *f = calloc(1, sizeof *f);
    if (f != NULL) { f->path = malloc(room); }
    if (f == NULL || f->path == NULL) {
        redco_event_file_close(f);
        return redco_fail(err, REDCO_ENOMEM, folder, "no memory to log there");
    }
    (void)gethostname(host, sizeof host - 1);
    const uint64_t seconds = (uint64_t)wall_s, micros = (uint64_t)((wall_s - (double)seconds) * 1e6);
    (void)snprintf(f->path, room, "%s/events.out.tfevents.%010llu.%06llu.%s.%ld", folder, (unsigned long long)seconds,
                   (unsigned long long)micros, host, (long)getpid());
    f->file = fopen(f->path, "wbxe");
    redco_status st = f->file != NULL ? begin(f, wall_s, first, err)
                                      : redco_fail(err, REDCO_EIO, f->path, "cannot write there: %s", strerror(errno));
    if (st == REDCO_OK) {
        *file_out = f;
        f = NULL;
    }
    redco_event_file_close(f);
    return st;
}

void redco_event_file_close(redco_event_file *f)
{
    if (f == NULL) { return; }
    if (f->file != NULL) { (void)fclose(f->file); }
    free(f->path);
    free(f);
}

redco_status redco_event_file_add(redco_event_file *f, double wall_s, uint64_t step, const redco_event_scalar *scalars,
                                  uint32_t count, redco_error *err)
{
    struct message m = event_at(wall_s, step), summary = {.size = 0};
    for (uint32_t i = 0; i < count && i < SCALARS_MAX; i++) {
        struct message value = {.size = 0};
        const float single = (float)scalars[i].value;
        uint32_t bits = 0;
        memcpy(&bits, &single, sizeof bits);
        add_bytes(&value, VALUE_TAG, scalars[i].tag, strnlen(scalars[i].tag, TAG_MAX));
        add_key(&value, VALUE_SIMPLE, FIXED32);
        add_fixed(&value, bits, 4);
        add_bytes(&summary, SUMMARY_VALUE, value.bytes, value.size);
    }
    add_bytes(&m, EVENT_SUMMARY, summary.bytes, summary.size);
    return write_record(f, &m, err);
}
