/** @file changes.h  The changes of a trainer's file that pay: each of its keys moved alone to what redco tries of its
 * values, then the best of them together. All that the file says stays, but for what a change moves. */
#ifndef REDCO_READ_CHANGES_H
#define REDCO_READ_CHANGES_H

#include "planner/answer/answer.h"
#include "planner/read/read.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MOST_CHANGES = 48, REDCO_CHANGE_EDITS = 3 };

typedef struct redco_change {
    redco_words edits[REDCO_CHANGE_EDITS];
    uint32_t edit_count;
    bool feasible;
    double step_s;     /**< simulated; feasible only */
    double gain_ratio; /**< file's step / step - 1; 0 where the file's own does not fit */
    uint64_t total_bytes, short_bytes;
} redco_change;

typedef struct redco_changes {
    redco_change alone[REDCO_MOST_CHANGES]; /**< best first */
    uint32_t count;
    redco_change together; /**< its edits are those of the changes below */
    uint32_t joined[REDCO_MOST_CHANGES],
        joined_count; /**< those of alone that it has; below 2: none are better together */
} redco_changes;

/** @param question  settled, as the file and the command line ask it
 *  @param found     its answer; NULL: nothing fits, and what makes it fit is sought
 *  @param beside    says of an option, without dashes, whether the command line gives it, whatever a file says: its
 * change is in the option's words */
redco_status redco_changes_find(const redco_reading *reading, const redco_question *question,
                                const redco_inputs *inputs, const redco_candidate *found,
                                bool (*beside)(const void *context, const char *option), const void *context,
                                redco_changes *changes_out, redco_error *err);
/** New reference, NULL when out of memory. */
json_t *redco_changes_json(const redco_changes *changes);

#ifdef __cplusplus
}
#endif
#endif
