/* `roco serve`: options, port, model, signals, and the order in which all of it ends.
 *
 * The port is bound first and /health answers from then on; the model is loaded on a thread of its own, which speaks to
 * the loop once, when it is done. SIGTERM or SIGINT drains: POST answers 503, what was taken before goes on for
 * --drain-timeout at most. A second signal ends without waiting; a third ends the process on the spot, for a device
 * that hangs in a step. SIGHUP reads the options anew and takes over the keys, the certificate and the log's settings.
 * All three are blocked in every thread and read from a descriptor: at no moment do they have their default effect.
 * Everything here runs on the loop thread but load_model.
 */
#include "server/serve.h"

#include "config/clock.h"
#include "config/log.h"
#include "config/options.h"
#include "http/auth.h"
#include "http/tls.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { OTHER_DESCRIPTORS = 64 }; /* besides connections: model, log, trace, loop, surplus connections */

typedef enum phase { LOADING, SERVING, DRAINING, ENDING } phase;

typedef struct serve {
    int argc;
    char **argv, **environment; /* read again at SIGHUP; borrowed */
    roco_options options;
    roco_api_keys *keys;
    uv_loop_t loop;
    roco_app *app;
    roco_http *http;
    uv_async_t loaded; /* the load thread is done */
    int signals;       /* descriptor that the signals are read from */
    uv_poll_t signalled;
    uv_timer_t drain_limit;
    phase phase;
    int exit_code;

    pthread_t loader;
    bool abandoned; /* ended while the load thread runs: nothing it uses may be freed */
    uint64_t started_ns;
    roco_status load_status; /* load thread until `loaded` */
    roco_error load_error;
} serve;

static int fail(const roco_error *error, int exit_code)
{
    fprintf(stderr, "roco: %s\n", error->message);
    return exit_code;
}

/* --- the end --- */

/* Signal handler: the end is under way, and someone does not want to wait for it. */
static void leave(int number)
{
    _exit(0);
}

static sigset_t ending_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

static void let_signals_leave(void)
{
    sigset_t set = ending_signals();
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The app before the transport: the engine thread has ended and every exchange is answered before connections close. */
static void end(serve *s)
{
    if (s->phase == ENDING)
        return;
    bool loading = s->phase == LOADING;
    s->phase = ENDING;
    let_signals_leave();
    if (loading) {
        s->abandoned = true;
        pthread_detach(s->loader);
        uv_stop(&s->loop);
        return;
    }
    roco_app_stop(s->app);
    roco_http_close(s->http);
    roco_app_close(s->app);
    uv_close((uv_handle_t *)&s->loaded, NULL);
    uv_close((uv_handle_t *)&s->drain_limit, NULL);
    uv_close((uv_handle_t *)&s->signalled, NULL);
    close(s->signals);
}

static void on_drained(void *context)
{
    roco_log(ROCO_LOG_INFO, "drained");
    end(context);
}

static void on_drain_limit(uv_timer_t *timer)
{
    serve *s = timer->data;
    roco_log(ROCO_LOG_WARN, "drain-timeout is over (requests open: %" PRIu32 ")", roco_http_active(s->http));
    end(s);
}

static void drain(serve *s, const char *name)
{
    roco_log(ROCO_LOG_INFO, "%s: draining for up to %" PRId64 " s (requests open: %" PRIu32 "); again to end now", name,
             s->options.drain_timeout, roco_http_active(s->http));
    s->phase = DRAINING;
    roco_app_drain(s->app);
    roco_http_drain(s->http, on_drained, s);
    uv_timer_start(&s->drain_limit, on_drain_limit, (uint64_t)s->options.drain_timeout * 1000, 0);
}

/* --- signals --- */

static void set_log(const roco_options *options)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int level = ROCO_LOG_ERROR; level <= ROCO_LOG_DEBUG; level++)
        if (strcmp(options->log_level, names[level]) == 0)
            roco_log_set_level((roco_log_level)level);
    roco_log_set_json(strcmp(options->log_format, "json") == 0);
}

static void warn_if_open(const serve *s)
{
    const char *host = s->options.host;
    bool local = strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
    if (!local && !s->keys)
        roco_log(ROCO_LOG_WARN, "whoever reaches %s may use this server: no api-key-file is set", host);
    else if (!local && !*s->options.tls_cert)
        roco_log(ROCO_LOG_INFO, "keys and texts cross the network unencrypted: no tls-cert is set");
}

/* All or nothing: with a mistake in the options or in the key file, what was set before stays. */
static roco_status reload(serve *s, roco_error *error)
{
    roco_options options;
    roco_options_result result;
    roco_api_keys *keys = NULL;
    roco_identity *identity = NULL;
    roco_status status = roco_options_parse(&options, s->argc, s->argv, s->environment, stdout, &result, error);
    bool tls = status == ROCO_OK && *options.tls_cert && *s->options.tls_cert; /* from or to plain HTTP: a restart */
    if (tls)
        status = roco_identity_read(options.tls_cert, options.tls_key, &identity, error);
    if (status == ROCO_OK && options.api_key_file[0])
        status = roco_api_keys_read(options.api_key_file, s->keys, &keys, error);
    if (status == ROCO_OK) {
        roco_http_set_keys(s->http, keys);
        roco_app_set_keys(s->app, keys);
        if (identity)
            roco_http_set_identity(s->http, identity);
        roco_api_keys_free(s->keys);
        s->keys = keys;
        set_log(&options);
        warn_if_open(s);
        roco_log(ROCO_LOG_INFO, "SIGHUP: %zu keys, log-level %s", keys ? roco_api_keys_count(keys) : 0,
                 options.log_level);
    }
    if (status != ROCO_OK)
        roco_identity_free(identity);
    roco_options_free(&options);
    return status;
}

static void on_hangup(serve *s)
{
    roco_error error = {0};
    if (reload(s, &error) != ROCO_OK)
        roco_log(ROCO_LOG_ERROR, "SIGHUP: %s; nothing is changed", error.message);
}

static void on_signal(uv_poll_t *poll, int status, int events)
{
    serve *s = poll->data;
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGHUP) {
        on_hangup(s);
        return;
    }
    const char *name = info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
    if (s->phase == SERVING) {
        drain(s, name);
        return;
    }
    roco_log(ROCO_LOG_INFO, "%s: ending now", name);
    end(s);
}

/* --- loading --- */

static void *load_model(void *context)
{
    serve *s = context;
    s->load_status = roco_app_load(s->app, &s->load_error);
    uv_async_send(&s->loaded);
    return NULL;
}

static void on_loaded(uv_async_t *async)
{
    serve *s = async->data;
    if (s->phase != LOADING)
        return;
    pthread_join(s->loader, NULL);
    s->phase = SERVING;
    roco_status status = s->load_status;
    if (status == ROCO_OK)
        status = roco_app_start(s->app, &s->load_error);
    if (status != ROCO_OK) {
        s->exit_code = fail(&s->load_error, 1);
        end(s);
        return;
    }
    roco_serve_report(s->app, (double)(roco_now_ns() - s->started_ns) / 1e9);
}

/* No other signal interrupts compute threads either. */
static roco_status start_loading(serve *s, roco_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&s->loader, NULL, load_model, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason == 0 ? ROCO_OK : roco_fail(error, ROCO_IO, NULL, "no thread to load with: %s", strerror(reason));
}

/* --- the start --- */

/* Every connection is a descriptor; the usual soft limit is there for programs that use select(). */
static void fit_descriptors(roco_options *options)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = (rlim_t)options->max_connections + OTHER_DESCRIPTORS;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted) /* only root may, up to fs.nr_open */
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = wanted, .rlim_max = wanted});
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted)
        return;
    int64_t room = (int64_t)limit.rlim_cur - OTHER_DESCRIPTORS;
    options->max_connections = room > 1 ? room : 1;
    roco_log(ROCO_LOG_WARN,
             "max-connections is lowered to %" PRId64 ": the process may open %" PRId64
             " files (ulimit -Hn, or LimitNOFILE= of the service)",
             options->max_connections, (int64_t)limit.rlim_cur);
}

static roco_status open_http(serve *s, roco_error *error)
{
    const roco_options *o = &s->options;
    roco_identity *identity = NULL;
    roco_status status = *o->tls_cert ? roco_identity_read(o->tls_cert, o->tls_key, &identity, error) : ROCO_OK;
    if (status != ROCO_OK)
        return status;
    const roco_http_config config = {.host = o->host,
                                     .port = (uint16_t)o->port,
                                     .max_body = (uint64_t)o->max_body,
                                     .max_connections = (uint32_t)o->max_connections,
                                     .idle_timeout_s = (uint32_t)o->idle_timeout,
                                     .receive_timeout_s = (uint32_t)o->idle_timeout,
                                     .keys = s->keys,
                                     .identity = identity,
                                     .cors_origins = o->cors_origins,
                                     .routes = roco_app_routes(),
                                     .context = s->app};
    return roco_http_open(&s->loop, &config, &s->http, error);
}

static void announce(const serve *s)
{
    const char *host = s->options.host;
    bool bare_ipv6 = strchr(host, ':') != NULL;
    printf("listening on http%s://%s%s%s:%u\n", *s->options.tls_cert ? "s" : "", bare_ipv6 ? "[" : "", host,
           bare_ipv6 ? "]" : "", roco_http_port(s->http));
    fflush(stdout);
    warn_if_open(s);
}

/* Before the first thread, so that all inherit the mask. */
static roco_status take_signals(serve *s, roco_error *error)
{
    sigset_t set = ending_signals();
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return s->signals >= 0 ? ROCO_OK
                           : roco_fail(error, ROCO_IO, NULL, "no descriptor for signals: %s", strerror(errno));
}

static void init_handles(serve *s)
{
    uv_async_init(&s->loop, &s->loaded, on_loaded);
    uv_timer_init(&s->loop, &s->drain_limit);
    uv_poll_init(&s->loop, &s->signalled, s->signals);
    s->loaded.data = s->drain_limit.data = s->signalled.data = s;
    uv_poll_start(&s->signalled, UV_READABLE, on_signal);
}

static int run(serve *s)
{
    roco_error error = {0};
    if (s->options.api_key_file[0] && roco_api_keys_read(s->options.api_key_file, NULL, &s->keys, &error) != ROCO_OK)
        return fail(&error, 1);
    uv_loop_init(&s->loop);
    const roco_app_config config = {.options = &s->options, .loop = &s->loop};
    roco_status status = roco_app_open(&config, &s->app, &error);
    if (status == ROCO_OK) {
        status = open_http(s, &error);
        if (status != ROCO_OK) {
            roco_app_stop(s->app);
            roco_app_close(s->app);
        }
    }
    if (status == ROCO_OK) {
        roco_app_set_keys(s->app, s->keys);
        init_handles(s);
        announce(s);
        s->started_ns = roco_now_ns();
        if (start_loading(s, &error) != ROCO_OK) {
            s->exit_code = fail(&error, 1);
            s->phase = SERVING; /* no thread to leave behind */
            end(s);
        }
    } else {
        s->exit_code = fail(&error, 1);
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (!s->abandoned)
        ROCO_CHECK(uv_loop_close(&s->loop) == 0);
    return s->exit_code;
}

int roco_serve(int argc, char **argv, char **environment)
{
    serve *s = calloc(1, sizeof *s);
    if (!s)
        return 1;
    s->argc = argc;
    s->argv = argv;
    s->environment = environment;
    roco_error error = {0};
    roco_options_result result = ROCO_OPTIONS_RUN;
    int exit_code = 0;
    if (roco_options_parse(&s->options, argc, argv, environment, stdout, &result, &error) != ROCO_OK) {
        exit_code = fail(&error, 2);
    } else if (result == ROCO_OPTIONS_RUN) {
        signal(SIGPIPE, SIG_IGN);
        set_log(&s->options);
        fit_descriptors(&s->options);
        exit_code = take_signals(s, &error) == ROCO_OK ? run(s) : fail(&error, 1);
    }
    /* A load cannot be broken off. The process ends under it, as it would under any other signal. */
    if (s->abandoned)
        return exit_code;
    roco_api_keys_free(s->keys);
    roco_options_free(&s->options);
    free(s);
    return exit_code;
}
