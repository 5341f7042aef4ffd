/** @file attention.h  How many queries of a head attention handles at a time: its workspace depends on it. */
#ifndef REDCO_HOST_ATTENTION_H
#define REDCO_HOST_ATTENTION_H

enum { REDCOI_ATTENTION_ROWS = 64 };

#endif
