/* Starts one Monty worker inside the tool-lite box and nothing else.
 *
 * Runs between the gate's supervisor and the worker because Python would cost 10 ms here.
 * Namespaces, Landlock and the gate's own filter are inherited; this adds the worker's
 * limits and leaves it no descriptor but its three streams.  The filter itself is set by
 * lock.so once the dynamic linker has done its work; without that file nothing starts.
 *
 * Without a C library: its start-up alone takes ten times as long as everything here, and
 * one of these is started for each run.
 */
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/resource.h>

#include "alone.h"
#include "worker.h"

enum { LOCK_FAILED = 97 };

static void give_up(void) {
    for (;;) call(__NR_exit_group, LOCK_FAILED, 0, 0, 0, 0);
}

static void limit(int what, unsigned long value) {
    struct rlimit64 bound = {value, value};
    if (call(__NR_prlimit64, 0, what, (long)&bound, 0, 0) != 0) give_up();
}

__attribute__((used, noreturn)) void start(long *stack) {
    /* All the worker gets: nothing of the environment outside.  WORKER_MATH makes libm use the
     * same functions on every processor of this architecture. */
    static char *environment[] = {"LD_PRELOAD=" WORKER_LOCK, WORKER_MATH, 0};
    char **argv = (char **)(stack + 1); /* behind the number of arguments */
    if (stack[0] < 1) give_up();
    /* The linker only warns about a missing preload and goes on: look first. */
    if (call(__NR_openat, AT_FDCWD, (long)WORKER_LOCK, O_RDONLY | O_CLOEXEC, 0, 0) < 0) give_up();
    limit(RLIMIT_AS, WORKER_MEMORY_BYTES);
    limit(RLIMIT_CPU, WORKER_CPU_SECONDS);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 1); /* 0 would not stop a dump into a pipe */
    limit(RLIMIT_NOFILE, WORKER_OPEN_FILES);
    if (call(__NR_close_range, 3, ~0U, 0, 0, 0) != 0) give_up();
    if (call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up();
    argv[0] = WORKER_BINARY;
    call(__NR_execve, (long)WORKER_BINARY, (long)argv, (long)environment, 0, 0);
    give_up();
    __builtin_unreachable();
}
