/** @file attention.h  The number of queries of a head that attention handles at a time: its workspace depends on it. */
#ifndef REDCO_HOST_ATTENTION_H
#define REDCO_HOST_ATTENTION_H

enum { REDCOI_ATTENTION_ROWS = 64 };

#endif
