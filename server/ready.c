/* `roco ready`: one GET /ready to the host and port of the options, so that it finds the server that was started with
 * the same file, environment or flags. Main thread; plain sockets, since one request needs no loop. */
#include "server/ready.h"

#include "config/options.h"
#include "http/tls.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMEOUT_S = 5, MOST_REPLY_BYTES = 4096 };

/* The address to listen on everywhere is, to connect to, this machine. */
static int connect_to(const char *host, int64_t port, roco_error *error)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const struct timeval limit = {.tv_sec = TIMEOUT_S};
    struct addrinfo *addresses = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int result = getaddrinfo(host, service, &hints, &addresses);
    int descriptor = -1, reason = 0;
    for (struct addrinfo *a = addresses; result == 0 && a && descriptor < 0; a = a->ai_next) {
        descriptor = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
            setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
            connect(descriptor, a->ai_addr, a->ai_addrlen) != 0) {
            reason = errno;
            if (descriptor >= 0)
                close(descriptor);
            descriptor = -1;
        }
    }
    if (addresses)
        freeaddrinfo(addresses);
    if (descriptor < 0)
        roco_fail(error, ROCO_IO, "host", "no connection to %.200s port %s: %s", host, service,
                  result ? gai_strerror(result) : strerror(reason));
    return descriptor;
}

/* Reads to the end, or as much as has room. */
static size_t read_reply(int descriptor, char reply[MOST_REPLY_BYTES + 1])
{
    size_t size = 0;
    ssize_t n;
    while (size < MOST_REPLY_BYTES && (n = recv(descriptor, reply + size, MOST_REPLY_BYTES - size, 0)) > 0)
        size += (size_t)n;
    reply[size] = '\0';
    return size;
}

static roco_status ask(const roco_options *options, roco_error *error)
{
    static const char request[] = "GET /ready HTTP/1.1\r\nHost: roco\r\nConnection: close\r\n\r\n";
    char reply[MOST_REPLY_BYTES + 1];
    int descriptor = connect_to(options->host, options->port, error);
    if (descriptor < 0)
        return ROCO_IO;
    size_t size = 0;
    if (*options->tls_cert) {
        size = roco_tls_ask(descriptor, request, reply, MOST_REPLY_BYTES);
        reply[size] = '\0';
    } else if (send(descriptor, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1) {
        size = read_reply(descriptor, reply);
    }
    close(descriptor);
    if (size == 0)
        return roco_fail(error, ROCO_IO, NULL, "no answer within %d s", TIMEOUT_S);
    const char *body = strstr(reply, "\r\n\r\n");
    printf("%s\n", body ? body + 4 : reply);
    return strncmp(reply, "HTTP/1.1 200 ", 13) == 0 ? ROCO_OK
                                                    : roco_fail(error, ROCO_IO, NULL, "the server is not ready");
}

int roco_ready(int argc, char **argv, char **environment)
{
    roco_options options;
    roco_options_result result;
    roco_error error = {0};
    char *words[256] = {"--model=any"}; /* the table asks for a model; which one does not matter here */
    int code = 0;
    if (argc >= (int)(sizeof words / sizeof words[0]))
        argc = (int)(sizeof words / sizeof words[0]) - 1;
    memcpy(words + 1, argv, (size_t)argc * sizeof *words);
    if (roco_options_parse(&options, argc + 1, words, environment, stdout, &result, &error)) {
        fprintf(stderr, "roco ready: %s\n", error.message);
        code = 2;
    } else if (result == ROCO_OPTIONS_RUN && ask(&options, &error)) {
        fflush(stdout);
        fprintf(stderr, "roco ready: %s\n", error.message);
        code = 1;
    }
    roco_options_free(&options);
    return code;
}
