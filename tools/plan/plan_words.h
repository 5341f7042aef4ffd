/** @file plan_words.h  Values as people and other trainers write them: "ZeRO-3", "bfloat16", "8k". */
#ifndef REDCO_TOOLS_PLAN_WORDS_H
#define REDCO_TOOLS_PLAN_WORDS_H

/** @param option  without dashes
 *  @param text    NULL: an option without a value
 *  @return redco's word for a value of it, of static storage, @p text where it has no other */
const char *plan_word(const char *option, const char *text);

/** @return the engines with which a trainer trains that is none itself, NULL: it is no trainer that redco knows */
const char *plan_word_engines(const char *trainer);

#endif
