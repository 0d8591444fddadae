/* What filters and methods of strings have in common. */
#ifndef ROCO_CHAT_STRING_PARTS_H
#define ROCO_CHAT_STRING_PARTS_H

#include "chat/run.h"

/* Without the characters of `set` (NULL: white space) at its ends. sides: 1 left, 2 right, 3 both. */
roco_value roco_strip(roco_run *run, const roco_string *string, const roco_string *set, unsigned sides);
/* The first `count` places of `from` (negative: all) become `to`. */
roco_value roco_replace(roco_run *run, const roco_string *string, const roco_string *from, const roco_string *to,
                        int64_t count);
/* Python's splitlines(). */
roco_list *roco_split_lines(roco_run *run, const roco_string *string, bool keep_ends);
/* Python's split(separator, most); NULL: at runs of white space. */
roco_list *roco_split(roco_run *run, const roco_string *string, const roco_string *separator, int64_t most);
roco_value roco_join(roco_run *run, const roco_string *between, const roco_list *items);

#endif
