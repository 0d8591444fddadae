#include "server/faults.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef ROCO_FAULTS
static const bool compiled_in = true;
#else
static const bool compiled_in = false;
#endif

/* Reads one switch at *text and moves on behind it. */
static bool parse_one(const char **text, roco_faults *out)
{
    char name[16];
    uint64_t count;
    int length = 0;
    if (sscanf(*text, "%15[a-z]:%" SCNu64 "%n", name, &count, &length) != 2 || count == 0)
        return false;
    *text += length;
    if (strcmp(name, "nan") == 0)
        out->nan_after = count;
    else if (strcmp(name, "device") == 0)
        out->device_after = count;
    else
        return false;
    if (**text == ',')
        ++*text;
    return true;
}

roco_status roco_faults_parse(const char *text, roco_faults *out, roco_error *error)
{
    *out = (roco_faults){0};
    if (!*text)
        return ROCO_OK;
    if (!compiled_in)
        return roco_fail(error, ROCO_UNSUPPORTED, "fault", "this build has no fault switches");
    while (*text)
        if (!parse_one(&text, out))
            return roco_fail(error, ROCO_INVALID, "fault", "fault must be nan:N or device:N, several joined by commas");
    return ROCO_OK;
}
