/** @file status.h  Status codes and the error record that every fallible function of redco fills. */
#ifndef REDCO_BASE_STATUS_H
#define REDCO_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_status {
    REDCO_OK = 0,
    REDCO_EVALUE,      /**< input is malformed or out of range: exit code 2 */
    REDCO_EIO,         /**< a file cannot be read or written: exit code 2 */
    REDCO_EINFEASIBLE, /**< the question is sound, the answer is no: exit code 1 */
    REDCO_ENOMEM,      /**< out of memory: exit code 3 */
    REDCO_ESYSTEM      /**< a library or the system failed: exit code 3 */
} redco_status;

/** One error: where (file, line:column or JSON pointer) and what (one sentence for a person). */
typedef struct redco_error {
    redco_status status;
    char place[512];
    char text[768];
} redco_error;

/** Records the first error (later ones are dropped: the first is the most exact) and returns @p status.
 *  @param err    NULL, or an error record that is zero or already holds an error
 *  @param place  file, file:line:column, file:/json/pointer or the name of an option; "" if none */
__attribute__((format(printf, 4, 5))) redco_status redco_fail(redco_error *err, redco_status status, const char *place,
                                                              const char *format, ...);
#ifdef __clang_analyzer__ /* it sees one file at a time: tell it that a failure is what comes back */
#define redco_fail(err, status, ...) ((void)redco_fail(err, status, __VA_ARGS__), (status))
#endif

/** Forgets an error that was handled, so that the record can be used again. NULL is accepted. */
void redco_error_clear(redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
