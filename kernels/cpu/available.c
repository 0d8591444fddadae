/* How much memory this process may still take: the machine's, or what its control group leaves. Linux's own numbers;
 * any thread. */
#include "kernels/cpu/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number behind `name` in a file of lines "name number", or of a file that is one number when name is NULL. */
static bool read_number(const char *path, const char *name, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;
    const size_t length = name ? strlen(name) : 0;
    while (file && !found && fgets(line, sizeof line, file))
        found = (!name || strncmp(line, name, length) == 0) && sscanf(line + length, "%" SCNu64, out) == 1;
    if (file)
        fclose(file);
    return found;
}

/* Version 2 as a container sees it: its own group is the root. Cached files that nobody reads any more give way. */
static uint64_t left_in_group(void)
{
    uint64_t most, used, idle = 0;
    if (!read_number("/sys/fs/cgroup/memory.max", NULL, &most) ||
        !read_number("/sys/fs/cgroup/memory.current", NULL, &used))
        return UINT64_MAX;
    read_number("/sys/fs/cgroup/memory.stat", "inactive_file", &idle);
    used -= idle < used ? idle : used;
    return most > used ? most - used : 0;
}

size_t roco_cpu_memory_left(const roco_backend *backend)
{
    uint64_t available = 0;
    if (!read_number("/proc/meminfo", "MemAvailable:", &available))
        return 0;
    const uint64_t machine = available * 1024, group = left_in_group();
    return (size_t)(machine < group ? machine : group);
}
