/* How `roco serve` starts and fails to start: exit codes, words, time. Each run is a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/clock.h"
#include "server/serve.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct outcome {
    int exit_code; /* -1: did not exit by itself */
    double seconds;
    char text[8192]; /* stdout and stderr together */
} outcome;

/* argv ends with NULL. */
static outcome serve(const char *const *argv)
{
    int out[2], argc = 0;
    assert_int_equal(pipe(out), 0);
    while (argv[argc])
        argc++;
    uint64_t start = roco_now_ns();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        char *none[] = {NULL};
        int code = roco_serve(argc, (char **)(uintptr_t)argv, none);
        fflush(stdout);
        _exit(code); /* not this test's exit handlers */
    }
    close(out[1]);
    outcome o = {.exit_code = -1};
    size_t size = 0;
    for (ssize_t n; (n = read(out[0], o.text + size, sizeof o.text - 1 - size)) > 0;)
        size += (size_t)n;
    close(out[0]);
    int status;
    waitpid(child, &status, 0);
    o.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o.seconds = (double)(roco_now_ns() - start) / 1e9;
    return o;
}

static void expect(const char *const *argv, int exit_code, const char *words)
{
    outcome o = serve(argv);
    if (o.exit_code != exit_code || !strstr(o.text, words) || o.seconds > 5)
        fail_msg("exit %d after %.2f s: %s", o.exit_code, o.seconds, o.text);
}

static void write_file(char *path, const char *text)
{
    int file = mkstemp(path);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
}

static void test_options(void **state)
{
    expect((const char *const[]){"--help", NULL}, 0, "--port");
    expect((const char *const[]){NULL}, 2, "model");
    expect((const char *const[]){"m.gguf", "--port", "70000", NULL}, 2, "65535");
    expect((const char *const[]){"m.gguf", "--no-such-option", "1", NULL}, 2, "no-such-option");
}

static void test_files(void **state)
{
    char page[] = "/tmp/roco-serve-XXXXXX", keys[] = "/tmp/roco-serve-XXXXXX";
    write_file(page, "<!DOCTYPE html><html></html>");
    write_file(keys, "# nobody\n");
    expect((const char *const[]){page, "--port", "0", NULL}, 1, "GGUF");
    expect((const char *const[]){"/nonexistent.gguf", "--port", "0", NULL}, 1, "roco: ");
    expect((const char *const[]){"/", "--port", "0", NULL}, 1, "roco: ");
    expect((const char *const[]){page, "--port", "0", "--api-key-file", keys, NULL}, 1, "holds no key");
    unlink(page);
    unlink(keys);
}

/* Before the model is touched: the file does not even exist. */
static void test_taken_port(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(holder, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(holder, 1), 0);
    assert_int_equal(getsockname(holder, (struct sockaddr *)&address, &size), 0);
    char port[8], words[64];
    snprintf(port, sizeof port, "%u", ntohs(address.sin_port));
    snprintf(words, sizeof words, "cannot listen on 127.0.0.1 port %s: Address already in use", port);
    expect((const char *const[]){"/nonexistent.gguf", "--port", port, NULL}, 1, words);
    close(holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_taken_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
