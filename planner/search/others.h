/** @file others.h  Internal: points beside the ranked ones that may be faster by the simulator, or with more memory. */
#ifndef REDCO_OTHERS_H
#define REDCO_OTHERS_H

#include "planner/search/ranking.h"

typedef struct redcoi_others {
    redcoi_space *space;
    redcoi_ranking near;     /**< near the best by the closed form */
    redcoi_ranking doubtful; /**< those that may be faster; by the least that they take by the simulator */
    redcoi_ranking roomier;  /**< those that are too large, but not with roomier_ratio more memory */
    double best_s;           /**< the best of all points by the closed form, those that are ranked included */
    double dropped_s;        /**< no point that was pushed off these is faster by the simulator */
} redcoi_others;

/** Empty lists of the lengths that the options of @p space ask for. @return REDCO_ENOMEM */
redco_status redcoi_others_create(redcoi_space *space, redcoi_others *others_out, redco_error *err);
void redcoi_others_free(redcoi_others *others);

/** Points that are not near the best are pushed off if the simulator finds none to take less than this. */
double redcoi_others_crowded_s(const redcoi_others *others);
/** @return whether a configuration, its memory being bounded, has points that may be listed. */
bool redcoi_others_may_fit(const redcoi_others *others, const redcoi_configuration *configuration);

/** Lists the best compositions of a group.
 *  @param bound_s     no composition of it is better by the closed form
 *  @param point       scratch; the composition that may be ranked as well where *ranked_out is set */
redco_status redcoi_others_list(redcoi_others *others, const redcoi_configuration *configuration, uint32_t group,
                                double bound_s, redcoi_point *point, bool *ranked_out, redco_error *err);

#endif
