/** @file bands.h  Distances of measured throughputs from predicted ones, by how far a question lies from the runs that
 *  constants are fitted to. Each part is what leaving such a thing out of the fits shows (redco-calibrate --bands); a
 *  preset of costmodel/presets/bands. CALIBRATION.md has the method. */
#ifndef REDCO_BANDS_H
#define REDCO_BANDS_H

#include "costmodel/engines/engine.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Shares of predicted tokens/s that measured ones stay within, two thirds and nine tenths of them: low <= 1 <= high.
 *  All 0: no band is known. */
typedef struct redco_band {
    double low_68, high_68, low_90, high_90;
} redco_band;

/** The parts of a question that no run that constants are fitted to has. Every question is of a source of its own. */
typedef enum redco_band_part {
    REDCO_BAND_SOURCE,
    REDCO_BAND_ENGINE,       /**< no run of the engine on such GPUs */
    REDCO_BAND_GPU,          /**< none on this GPU, but on others of its architecture */
    REDCO_BAND_CLASS,        /**< none of such software on GPUs of its architecture */
    REDCO_BAND_ARCHITECTURE, /**< none on GPUs of its architecture */
    REDCO_BAND_SIZE,         /**< a layout beyond the measured ones */
    REDCO_BAND_PARTS
} redco_band_part;

/** "source", "engine", ...; NULL behind the last. */
extern const char *const redco_band_words[REDCO_BAND_PARTS + 1];

enum { REDCO_BAND_SEEN = 48, REDCO_BAND_NAME = 56, REDCO_BAND_MFUS = 32 };

typedef struct redco_bands {
    /** Engines ("nemo Hopper"), GPUs ("H100"), classes ("Hopper te_xla") and architectures of the fitted runs. */
    char seen[REDCO_BAND_PARTS][REDCO_BAND_SEEN][REDCO_BAND_NAME];
    uint32_t seen_count[REDCO_BAND_PARTS];
    struct {
        redco_band band;       /**< where this was left out of the fits */
        uint32_t groups, rows; /**< that were left out, one group at a time */
    } parts[REDCO_BAND_PARTS];
    /** The highest MFU of measured runs, by class of GPU and software and width of products' operands. */
    struct {
        char of[REDCO_BAND_NAME]; /**< "Hopper te_xla 8 bits" */
        double ratio;             /**< attention counted in full */
    } mfu[REDCO_BAND_MFUS];
    uint32_t mfu_count;
} redco_bands;

/** The band of a question: the source's, widened in quadrature of logarithms by what each part that is unseen takes
 *  beyond that. @param unseen  bits of redco_band_part */
redco_band redco_bands_at(const redco_bands *bands, unsigned unseen);
/** A band, widened by what a layout beyond the measured ones takes. */
redco_band redco_bands_beyond(const redco_bands *bands, const redco_band *band);
/** The four ends, a member of a file. */
redco_status redco_band_from_json(const redco_json_value *value, const char *key, redco_band *band_out,
                                  redco_error *err);
/** A new reference; NULL when out of memory. */
json_t *redco_band_describe(const redco_band *band);
/** Half of the width of the 68 % band. */
double redco_band_half_ratio(const redco_band *band);

/** Bits of an operand of products in layers. */
typedef enum redco_band_width {
    REDCO_BAND_32_BITS,
    REDCO_BAND_16_BITS,
    REDCO_BAND_8_BITS,
    REDCO_BAND_4_BITS,
    REDCO_BAND_WIDTHS
} redco_band_width;

/** The engine, GPU and software of a question, or of a run. */
typedef struct redco_band_question {
    const char *engine, *gpu, *architecture; /**< by their names */
    redco_software software;
    redco_band_width width;
} redco_band_question;

redco_band_width redco_band_width_of(redco_precision precision, redco_gemm_format format);

/** The name of what a question is of, as bands have it: "nemo Hopper". @param part  not source, not size
 *  @return @p name */
const char *redco_band_name(const redco_band_question *question, redco_band_part part, char name[REDCO_BAND_NAME]);
/** Notes that constants are fitted to such a run. @param mfu  that was measured; 0: not known */
void redco_bands_note(redco_bands *bands, const redco_band_question *run, double mfu);
/** The entry of redco_bands.mfu that a question's MFU is held against: its class's and width's; else the highest of its
 *  architecture, else of all, in that width; else in 16 bits. @return NULL: there is none */
const char *redco_bands_most_mfu(const redco_bands *bands, const redco_band_question *question, double *ratio_out);
/** The parts of a question that no fitted run has: bits of redco_band_part. */
unsigned redco_bands_unseen(const redco_bands *bands, const redco_band_question *question);
/** "no run of torchtitan on Hopper GPUs is known to the fit"; "" where nothing is unseen. @return @p buffer */
const char *redco_band_say(unsigned unseen, const redco_band_question *question, char *buffer, size_t size);

/** "MFU 0.82, of measured runs at most 0.56 (Ampere megatron 16 bits)" where @p mfu is higher than any measured one by
 *  more than what measurements of one layout differ by; "" else. @param of, most  redco_bands_most_mfu()
 *  @return @p buffer */
const char *redco_band_say_mfu(double mfu, const char *of, double most, char *buffer, size_t size);

/** @param name_or_path  preset ("dense", "mixtures") or file */
redco_status redco_bands_read(const char *name_or_path, redco_bands *bands_out, redco_error *err);
/** A new reference; NULL when out of memory. @param basis  for people */
json_t *redco_bands_describe(const redco_bands *bands, const char *basis);

#ifdef __cplusplus
}
#endif
#endif
