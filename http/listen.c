/* The listening socket: one of the service manager's, or our own. It is bound before anything slow happens, so that a
 * taken port is known at once. Loop thread. */
#include "http/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static int listen_at(const struct addrinfo *address)
{
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    /* Connections of the last run in TIME_WAIT must not keep the port; a second server on it is still refused. */
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(descriptor, address->ai_addr, address->ai_addrlen) != 0 || listen(descriptor, BACKLOG) != 0) {
        int reason = errno;
        close(descriptor);
        errno = reason;
        return -1;
    }
    return descriptor;
}

static uint16_t bound_port(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(descriptor, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

enum { FIRST_INHERITED = 3 };

static int64_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : 0;
}

static int option_of(int descriptor, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* Socket activation, as sd_listen_fds(3) describes it: the manager's socket, -1 when there is none; the words in
 * `error` when it is of no use. */
static int inherited_socket(roco_error *error)
{
    int64_t n = number_in("LISTEN_FDS");
    if (n <= 0 || number_in("LISTEN_PID") != getpid())
        return -1;
    int domain = option_of(FIRST_INHERITED, SO_DOMAIN);
    bool usable = option_of(FIRST_INHERITED, SO_ACCEPTCONN) == 1 && (domain == AF_INET || domain == AF_INET6);
    if (n != 1 || !usable) {
        roco_fail(error, ROCO_IO, NULL, "the service manager must pass exactly one listening TCP socket");
        return -1;
    }
    int flags = fcntl(FIRST_INHERITED, F_GETFL);
    fcntl(FIRST_INHERITED, F_SETFL, flags | O_NONBLOCK);
    fcntl(FIRST_INHERITED, F_SETFD, FD_CLOEXEC);
    return FIRST_INHERITED;
}

int roco_http_listen(const char *host, uint16_t port, uint16_t *bound, roco_error *error)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    roco_error unusable = {0};
    int inherited = inherited_socket(&unusable);
    if (inherited >= 0) {
        *bound = bound_port(inherited);
        return inherited;
    }
    if (unusable.status) {
        if (error)
            *error = unusable;
        return -1;
    }
    int result = getaddrinfo(host, service, &hints, &addresses);
    if (result != 0) {
        roco_fail(error, ROCO_IO, "host", "cannot resolve the host to listen on (%.200s): %s", host,
                  gai_strerror(result));
        return -1;
    }
    int descriptor = -1, reason = 0;
    for (struct addrinfo *a = addresses; a && descriptor < 0; a = a->ai_next) {
        descriptor = listen_at(a);
        reason = errno;
    }
    freeaddrinfo(addresses);
    if (descriptor < 0) {
        roco_fail(error, ROCO_IO, "port", "cannot listen on %.200s port %u: %s", host, port, strerror(reason));
        return -1;
    }
    *bound = bound_port(descriptor);
    return descriptor;
}
