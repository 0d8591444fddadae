/* The messages of a chat request: checked, and turned into the values a template sees. Any thread. */
#ifndef ROCO_SERVER_MESSAGES_H
#define ROCO_SERVER_MESSAGES_H

#include "chat/value.h"
#include "http/json.h"

/* Where foreign bytes come from, as bits: of a message's content whether it is the last one, and whose. */
enum { ROCO_FROM_REQUEST = 1, ROCO_FROM_LAST_MESSAGE = 2, ROCO_FROM_ROLE = 4 /* times 1 + index in roco_roles */ };

/* As templates see them. */
#define ROCO_N_ROLES 4u
extern const char *const roco_roles[ROCO_N_ROLES]; /* system, user, assistant, tool */
/* The index of a request's role; a developer is system. ROCO_N_ROLES: no role. */
uint32_t roco_role_find(const char *name);

/* Any JSON as a value; its strings are foreign and borrowed from the tree. ROCO_NO_MEMORY, or ROCO_TOO_LARGE when the
 * region is full. */
roco_status roco_value_from_json(roco_region *region, const cJSON *json, roco_value *out, roco_error *error);

/* `array` is the request's `messages`, which may be changed: texts of tool call arguments become the objects they hold,
 * unless `arguments_as_text`, where objects become texts. Each becomes a dict: `role` (developer is system) as the
 * program's own text, `content` always a string (null is "", text parts are joined by line ends), everything else as it
 * came but for null, which is left out. ROCO_INVALID with the path of what is at fault, "messages[2].role". */
roco_status roco_messages_read(roco_region *region, cJSON *array, bool arguments_as_text, roco_value *out,
                               roco_error *error);

#endif
