/* Loaded into the Monty worker before its own code: from here on only the listed calls exist.
 *
 * A constructor, because the dynamic linker needs calls that the worker must not have.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker.h"

enum { LOCK_FAILED = 97 };

__attribute__((constructor)) static void lock(void) {
    static struct sock_filter filter[] = WORKER_FILTER;
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(LOCK_FAILED);
}
