/** @file read_settings.h  Keys and values of trainers' files, whatever their form, in the order of the files. A value
 * knows its bytes in the file, so that messages name the line and a changed file differs there alone. */
#ifndef REDCO_READ_SETTINGS_H
#define REDCO_READ_SETTINGS_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDCOI_MOST_FILES = 16, REDCOI_MOST_SETTINGS = 20000, REDCOI_MOST_FILE_BYTES = 4 << 20, REDCOI_NO_PLACE = -1 };

/** Forms of a file. */
typedef enum redcoi_form {
    REDCOI_FORM_JSON,
    REDCOI_FORM_YAML,
    REDCOI_FORM_TOML,
    REDCOI_FORM_SHELL,
    REDCOI_FORM_PYTHON,
    REDCOI_FORMS
} redcoi_form;

/** The source of a setting in a shell script: other forms have keys alone. */
typedef enum redcoi_origin {
    REDCOI_OF_KEY,      /**< in a document: "zero_optimization.stage" */
    REDCOI_OF_ARGUMENT, /**< in a command: "--tp 8", "model.tp=8" */
    REDCOI_OF_VARIABLE, /**< "export TP=8" */
    REDCOI_OF_BATCH     /**< "#SBATCH --nodes=8" */
} redcoi_origin;

typedef struct redcoi_setting {
    char *key;   /**< without the dashes of an argument */
    char *value; /**< its text without quotes; several words of an argument are joined by blanks, a list's by commas */
    redcoi_origin origin;
    uint32_t file, line;
    int64_t at;      /**< first byte of the value in the file, or REDCOI_NO_PLACE: it was computed */
    uint32_t length; /**< bytes there, without quotes */
    bool given;      /**< a value stands there: else a bare flag, or null */
    char *needs;     /**< the variable that only a run knows and on which the value depends; NULL: none */
} redcoi_setting;

typedef struct redcoi_file {
    char *path, *text;
    size_t size;
    redcoi_form form;
} redcoi_file;

/** A statement or a part of a file that changes nothing that is read, or that is not understood: said to the user. */
typedef struct redcoi_remark {
    uint32_t file, line;
    char text[200];
} redcoi_remark;

typedef struct redcoi_file_settings {
    redcoi_file files[REDCOI_MOST_FILES];
    uint32_t file_count;
    redcoi_setting *items;
    size_t count, room;
    redcoi_remark *remarks;
    size_t remark_count, remark_room;
    char program[256]; /**< the program that the script starts: "pretrain_gpt.py" */
    const char *changed,
        *changed_text; /**< NULL, or a path that is not opened, and what is read in its place; borrowed */
    size_t changed_size;
} redcoi_file_settings;

/** A view of bytes that become a key or a value. */
typedef struct redcoi_span {
    const char *text;
    size_t size;
} redcoi_span;

/** Adds one. @param fields  its origin, place and flags; key, value and needs are copied from the spans
 *  @return REDCO_EVALUE beyond REDCOI_MOST_SETTINGS */
redco_status redcoi_settings_add(redcoi_file_settings *settings, const redcoi_setting *fields, redcoi_span key,
                                 redcoi_span value, const char *needs, redco_error *err);
__attribute__((format(printf, 4, 5))) void redcoi_settings_remark(redcoi_file_settings *settings, uint32_t file,
                                                                  uint32_t line, const char *format, ...);
void redcoi_settings_free(redcoi_file_settings *settings);

/** @return whether two keys are the same but for "-" and "_"; @p pattern may end with "*" */
bool redcoi_key_matches(const char *pattern, const char *key);

/** "train.sh:12". @return @p buffer */
const char *redcoi_setting_place(const redcoi_file_settings *settings, uint32_t file, uint32_t line, char *buffer,
                                 size_t size);
/** Fails with REDCO_EVALUE at a setting's line. */
__attribute__((format(printf, 4, 5))) redco_status redcoi_setting_fail(const redcoi_file_settings *settings,
                                                                       const redcoi_setting *setting, redco_error *err,
                                                                       const char *format, ...);

/** Lines, from 1, up to a byte. */
uint32_t redcoi_line_of(const char *text, size_t at);

/** Reads the file @p index of the list in its form. */
redco_status redcoi_json_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err);
redco_status redcoi_yaml_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err);
redco_status redcoi_toml_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err);
redco_status redcoi_python_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err);
redco_status redcoi_shell_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err);

/** Reads a file's text into the list; its settings are another call's. */
redco_status redcoi_load_file(redcoi_file_settings *settings, const char *path, redco_error *err);
/** Reads a file into the list, in the form that its content shows, and its settings behind those that are there. */
redco_status redcoi_read_file(redcoi_file_settings *settings, const char *path, redco_error *err);

#endif
