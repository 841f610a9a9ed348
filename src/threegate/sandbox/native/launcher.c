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

#include "worker.h"

enum { LOCK_FAILED = 97 };

#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start");

static long call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x29, #0\n mov x0, sp\n bl start");

static long call(long number, long a, long b, long c, long d, long e) {
    register long which __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    __asm__ volatile("svc #0"
                     : "+r"(first)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
}
#else
#error "no launcher for this architecture"
#endif

static void give_up(void) {
    for (;;) call(__NR_exit_group, LOCK_FAILED, 0, 0, 0, 0);
}

static void limit(int what, unsigned long value) {
    struct rlimit64 bound = {value, value};
    if (call(__NR_prlimit64, 0, what, (long)&bound, 0, 0) != 0) give_up();
}

__attribute__((used, noreturn)) void start(long *stack) {
    static char *environment[] = {"LD_PRELOAD=" WORKER_LOCK, 0};
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
