/* Feeds every file of a corpus folder, and each of them cut off at 15 places, to a fuzz target:
 *     fuzz_READER corpus/READER
 * An empty folder is a failure: a target without seeds tests nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUTS = 16 };

/** Each input in an allocation of its own size, so that the address sanitizer sees a read past its end. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) { abort(); }
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int feed_file(const char *path)
{
    static uint8_t data[1 << 22];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    const size_t size = fread(data, 1, sizeof data, file);
    const int bad = ferror(file) != 0 || fgetc(file) != EOF;
    (void)fclose(file);
    if (bad) {
        (void)fprintf(stderr, "%s: cannot be read, or is larger than %zu bytes\n", path, sizeof data);
        return 1;
    }
    for (size_t cut = 0; cut <= CUTS; cut++) { feed(data, size * cut / CUTS); }
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int failures = 0;
    int files = 0;
    const int count = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        char path[4096];
        if (entries[i]->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
            failures += feed_file(path);
            files++;
        }
        free(entries[i]);
    }
    free(entries);
    (void)printf("%d files, each whole and cut off at %d places\n", files, CUTS);
    if (files == 0) { (void)fprintf(stderr, "no seeds: %s\n", argc > 1 ? argv[1] : "name the corpus folder"); }
    return files > 0 && failures == 0 ? 0 : 1;
}
