/* Lines of metrics. Its first byte chooses the step; what is kept is whole lines, and keeping it again changes nothing.
 */
#include "executor/log/metrics_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t kept = 0, again = 0;
    if (size == 0) { return 0; }
    const char *const text = (const char *)data + 1;
    if (redco_metrics_file_kept(text, size - 1, "fuzz.jsonl", data[0], &kept, NULL) != REDCO_OK) { return 0; }
    if (kept > size - 1 || (kept > 0 && text[kept - 1] != '\n')) { abort(); }
    if (redco_metrics_file_kept(text, kept, "fuzz.jsonl", data[0], &again, NULL) != REDCO_OK || again != kept) {
        abort();
    }
    return 0;
}
