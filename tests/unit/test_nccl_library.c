/* Checks that a libnccl.so.2 has all calls that are used: the toolkit's real one, where it is installed. No device is
 * needed. */
#include "executor/comm/nccl/nccl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void all_calls_are_there(void **state)
{
    const uint32_t version = redco_nccl_version();
    (void)state;
    if (version == 0) {
        print_message("skipped: no libnccl.so.2 of NCCL 2.28 or newer can be loaded\n");
        skip();
    }
    print_message("NCCL %u\n", version);
    assert_true(version >= REDCO_NCCL_OLDEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_calls_are_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
