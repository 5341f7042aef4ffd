/** @file clock.h  Clocks of this process, in seconds. */
#ifndef REDCO_BASE_CLOCK_H
#define REDCO_BASE_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

double redco_now_s(void);     /**< a clock that only goes forward, from any beginning */
double redco_process_s(void); /**< processor time of this process */
double redco_thread_s(void);  /**< processor time of this thread */

#ifdef __cplusplus
}
#endif
#endif
