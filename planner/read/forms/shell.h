/** @file shell.h  Inside planner/read: the part of the shell that launch scripts use, read and not run. Assignments,
 * arrays, defaults, arithmetic, quotes, tests, branches, functions and sourced files that lie beside are followed;
 * commands are collected. What only a run knows stays in a text as a mark with its name. */
#ifndef REDCO_READ_SHELL_H
#define REDCO_READ_SHELL_H

#include "planner/read/forms/read_settings.h"

/** Marks in texts: UNKNOWN name END stands for a variable that the script does not set, or for a command's output;
 *  FOLDER for the folder in which the script lies. */
enum { REDCOI_UNKNOWN = 1, REDCOI_UNKNOWN_END = 2, REDCOI_FOLDER = 3 };

enum { REDCOI_MOST_TEXT = 1 << 18, REDCOI_MOST_WORDS = 1 << 14, REDCOI_MOST_STEPS = 1 << 16, REDCOI_SHELL_DEPTH = 24 };

/** Bytes that know where they stand: file << 32 | byte, or REDCOI_NO_PLACE. */
typedef struct redcoi_text {
    char *bytes; /**< ended by a 0 byte once something was added */
    int64_t *from;
    size_t size, room;
} redcoi_text;

typedef struct redcoi_words {
    redcoi_text *items;
    size_t count, room;
} redcoi_words;

typedef struct redcoi_variable {
    char *name;
    redcoi_words words; /**< one, or an array's */
    bool array;
} redcoi_variable;

typedef struct redcoi_function {
    char *name;
    uint32_t file;
    size_t body; /**< behind its "{" */
} redcoi_function;

/** A command as it stands after expansion. */
typedef struct redcoi_command {
    redcoi_words words;
    uint32_t file, line;
} redcoi_command;

typedef enum redcoi_truth { REDCOI_FALSE, REDCOI_TRUE, REDCOI_MAYBE } redcoi_truth;

typedef struct redcoi_shell {
    redcoi_file_settings *settings;
    uint32_t file; /**< that is being read */
    const char *text;
    size_t at, end;
    bool skipping; /**< in a branch that is not taken: nothing is assigned */
    redcoi_variable *variables;
    size_t variable_count, variable_room;
    redcoi_function *functions;
    size_t function_count, function_room;
    redcoi_command *commands;
    size_t command_count, command_room;
    const redcoi_words *arguments; /**< those of the function that is called; NULL: none */
    char heredoc[64];              /**< ends a text that follows the line; "": none */
    bool heredoc_tabs;
    uint32_t depth, steps;
    redco_status status; /**< the first failure; everything is a no-op after it */
    redco_error *err;
} redcoi_shell;

/** Appends; on lack of memory or too much text the shell fails. @param from  of the first byte, or REDCOI_NO_PLACE */
void redcoi_text_add(redcoi_shell *shell, redcoi_text *text, const char *bytes, size_t size, int64_t from);
void redcoi_text_join(redcoi_shell *shell, redcoi_text *text, const redcoi_text *other);
void redcoi_text_free(redcoi_text *text);
const char *redcoi_text_of(const redcoi_text *text); /**< "" for none */
/** Moves @p text to the end of the list. */
void redcoi_words_add(redcoi_shell *shell, redcoi_words *words, redcoi_text *text);
void redcoi_words_free(redcoi_words *words);
/** Where the bytes of a text stand one after the other: their first, else REDCOI_NO_PLACE. */
int64_t redcoi_text_place(const redcoi_text *text);
/** The name in the first mark of what only a run knows; @return false: the text is known */
bool redcoi_text_needs(const redcoi_text *text, char *name, size_t size);

redco_status redcoi_shell_fail(redcoi_shell *shell, const char *what);
redcoi_variable *redcoi_shell_variable(redcoi_shell *shell, const char *name, size_t size);
/** Sets or, with @p append, adds to a variable; takes the words. */
void redcoi_shell_assign(redcoi_shell *shell, const char *name, size_t size, redcoi_words *words, bool array,
                         bool append);

/** Reads one word at shell->at with what it expands to: none, one or several. */
void redcoi_shell_word(redcoi_shell *shell, redcoi_words *out);
/** The same without splitting: what an assignment takes. */
void redcoi_shell_value(redcoi_shell *shell, redcoi_text *out);
/** Expands the bytes [from, to) of the file. @param quoted  as inside of double quotes */
void redcoi_shell_expand(redcoi_shell *shell, size_t from, size_t to, bool quoted, redcoi_text *out);
/** Blanks, and ends of lines behind a backslash. */
void redcoi_shell_blanks(redcoi_shell *shell);

/** The byte at an offset; 0 behind the end. */
char redcoi_shell_here(const redcoi_shell *shell, size_t offset);
bool redcoi_shell_word_ends(char c);
bool redcoi_shell_at_word(const redcoi_shell *shell, const char *word);
/** Behind the line; an #SBATCH line says how many nodes. */
void redcoi_shell_comment(redcoi_shell *shell);
/** Behind an end of line, and the text that follows it. */
void redcoi_shell_next_line(redcoi_shell *shell);

/** "> file", "2>&1", "<<END", "<(...)": what they lead to is of no interest. */
void redcoi_shell_redirection(redcoi_shell *shell);
/** "NAME=value", "NAME=(a b)". @return whether one stood there */
bool redcoi_shell_assignment(redcoi_shell *shell);
/** "[[ a == b && c ]]": its signs are words. */
redcoi_truth redcoi_shell_double_test(redcoi_shell *shell);
/** "((X = Y * 2))": an assignment or a test. */
redcoi_truth redcoi_shell_double_bracket(redcoi_shell *shell);

/** "A * (B + 2)": names are variables. Without a value the text is the mark of what is not known. */
void redcoi_shell_arithmetic(redcoi_shell *shell, const redcoi_text *expression, redcoi_text *out);
/** The words of a test, without brackets. @param script  path of the file in which it stands */
redcoi_truth redcoi_shell_test(const redcoi_words *words, const char *script);

/** Arguments of the command that trains, variables and batch lines become settings. */
redco_status redcoi_shell_collect(redcoi_shell *shell, redco_error *err);
/** "--nodes=8 -N 4" of an #SBATCH line. */
void redcoi_shell_batch_line(redcoi_shell *shell, size_t from, size_t to);

#endif
