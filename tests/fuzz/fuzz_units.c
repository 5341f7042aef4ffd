/* Quantities: whatever is accepted is finite and not negative, and is read back from its own printed form. */
#include "topology/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const redco_unit units[] = {REDCO_UNIT_BYTES, REDCO_UNIT_BYTES_PER_S, REDCO_UNIT_SECONDS,
                                       REDCO_UNIT_FLOPS_PER_S, REDCO_UNIT_WATTS};
    char text[128];
    if (size >= sizeof text) { return 0; }
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double value = 0.0;
        double again = 0.0;
        char printed[64];
        if (redco_unit_parse(text, units[i], "fuzz", &value, NULL) != REDCO_OK) { continue; }
        if (!isfinite(value) || value < 0.0) { abort(); }
        (void)redco_unit_format(value, units[i], printed, sizeof printed);
        if (value < 1e-9 || value > 1e18) { continue; } /* printed without a prefix that the parser knows */
        if (redco_unit_parse(printed, units[i], "fuzz", &again, NULL) != REDCO_OK ||
            fabs(again - value) > 1e-3 * value) {
            abort();
        }
    }
    return 0;
}
