/* A folder is no model yet. */
#include "engine/source_internal.h"

roco_status roco_folder_open(const char *path, roco_source **out, roco_error *error)
{
    return roco_fail(error, ROCO_IO, "model", "is a directory, not a GGUF file");
}
