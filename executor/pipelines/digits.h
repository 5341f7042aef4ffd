/** @file digits.h  Examples of handwritten digits, {"pixels": "aagq...", "digit": 3}: 8 x 8 letters from a (white) to q
 *  (black); data/README.md says where they are from. For digits.c and the pipelines that learn from the same examples.
 */
#ifndef REDCO_PIPELINES_DIGITS_H
#define REDCO_PIPELINES_DIGITS_H

#include "executor/pipeline/user_pipeline.h"

#include <string.h>

enum { SIDE = 8, PIXELS = 64, DIGITS = 10 };

/** Pixels from 0 to 1; digit 0 where an example has none. @return REDCO_EVALUE for what is no such example */
static inline redco_status read_digit(const json_t *example, float *pixels_out, int32_t *digit_out, redco_error *err)
{
    const json_t *const digit = json_object_get(example, "digit");
    const char *const text = json_string_value(json_object_get(example, "pixels"));
    if (text == NULL || strspn(text, "abcdefghijklmnopq") != PIXELS || strlen(text) != PIXELS) {
        return redco_fail(err, REDCO_EVALUE, "", "\"pixels\" is no text of %d letters from a to q", PIXELS);
    }
    for (uint32_t p = 0; p < PIXELS; p++) { pixels_out[p] = (float)(text[p] - 'a') / 16.0F; }
    *digit_out = (int32_t)json_integer_value(digit);
    if (digit != NULL && (!json_is_integer(digit) || *digit_out < 0 || *digit_out >= DIGITS)) {
        return redco_fail(err, REDCO_EVALUE, "", "\"digit\" is no whole number from 0 to 9");
    }
    return REDCO_OK;
}

/** The digit of the largest of its values: a pipeline's output(). */
static inline json_t *likeliest(const json_t *example, const double *values, uint32_t count)
{
    uint32_t best = 0;
    (void)example;
    for (uint32_t i = 1; i < count; i++) { best = values[i] > values[best] ? i : best; }
    return json_integer(best);
}

/** 1 or 0: a pipeline's metric(), of a digit or of its values. */
static inline double is_digit(const json_t *example, const json_t *prediction)
{
    size_t best = json_is_array(prediction) ? 0 : (size_t)json_integer_value(prediction);
    for (size_t d = 1; d < json_array_size(prediction); d++) {
        const double value = json_number_value(json_array_get(prediction, d));
        best = value > json_number_value(json_array_get(prediction, best)) ? d : best;
    }
    return json_integer_value(json_object_get(example, "digit")) == (json_int_t)best ? 1.0 : 0.0;
}

#endif
