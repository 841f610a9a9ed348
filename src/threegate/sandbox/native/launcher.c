/* Starts one Monty worker inside the tool-lite box and nothing else.
 *
 * Runs between the gate's supervisor and the worker because Python would cost 10 ms here.
 * Namespaces, Landlock and the gate's own filter are inherited; this adds the worker's
 * limits and leaves it no descriptor but its three streams.  The filter itself is set by
 * lock.so once the dynamic linker has done its work; without that file nothing starts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker.h"

enum { LOCK_FAILED = 97 };

static void limit(int what, rlim_t value) {
    struct rlimit bound = {value, value};
    if (setrlimit(what, &bound) != 0) _exit(LOCK_FAILED);
}

int main(int argc, char **argv) {
    (void)argc;
    char *environment[] = {"LD_PRELOAD=" WORKER_LOCK, 0};
    /* The linker only warns about a missing preload and goes on: look first. */
    int lock = open(WORKER_LOCK, O_RDONLY | O_CLOEXEC);
    if (lock < 0) _exit(LOCK_FAILED);
    limit(RLIMIT_AS, WORKER_MEMORY_BYTES);
    limit(RLIMIT_CPU, WORKER_CPU_SECONDS);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 1); /* 0 would not stop a dump into a pipe */
    limit(RLIMIT_NOFILE, WORKER_OPEN_FILES);
    if (syscall(SYS_close_range, 3, ~0U, 0) != 0) _exit(LOCK_FAILED);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(LOCK_FAILED);
    argv[0] = WORKER_BINARY;
    execve(WORKER_BINARY, argv, environment);
    _exit(LOCK_FAILED);
}
