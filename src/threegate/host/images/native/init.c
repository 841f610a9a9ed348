/* The first process of a guest: loads modules, joins the layers, starts the agent, reaps.
 *
 * Runs inside the guest only.  Nothing on the host believes what happens here; what counts is
 * that it does its work, says nothing, and ends the machine when the agent ends.  It has no
 * signal handler, so the kernel lets no signal of a guest program through to it, and if it
 * should end all the same, the kernel panics and the machine is over.
 *
 * Without a C library, as the launcher: the same source gives the same few kilobytes with
 * whatever library the machine has.
 */
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/time_types.h>
#include <signal.h>

#include "alone.h"

#if !defined(__x86_64__)
#error "no guest for this architecture"
#endif

enum { MAX_LAYERS = 8, MAX_DISKS = 26, TRIES = 400, STEP_NANOSECONDS = 5000000 };

static unsigned long length(const char *text) {
    unsigned long count = 0;
    while (text[count]) count++;
    return count;
}

/* A compiler may make calls of these out of loops and structures. */
void *memcpy(void *to, const void *from, unsigned long count) {
    char *out = to;
    const char *in = from;
    while (count--) *out++ = *in++;
    return to;
}

void *memset(void *to, int value, unsigned long count) {
    char *out = to;
    while (count--) *out++ = (char)value;
    return to;
}

static void over(void) {
    call(__NR_sync, 0, 0, 0, 0, 0);
    call(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, 0, 0);
    call(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_RESTART, 0, 0);
    for (;;) call(__NR_exit_group, 1, 0, 0, 0, 0);
}

/* Into the kernel's log, which nobody sees unless a developer gives the guest a console. */
static void give_up(const char *step) {
    char line[64] = "<3>init: "; /* 3: an error */
    unsigned long count = length(step), room = sizeof line - 9;
    memcpy(line + 9, step, count < room ? count : room);
    long log = call(__NR_openat, AT_FDCWD, (long)"/dev/kmsg", O_WRONLY | O_CLOEXEC, 0, 0);
    if (log >= 0) call(__NR_write, log, (long)line, 9 + (count < room ? count : room), 0, 0);
    over();
}

static void must(long result, const char *step) {
    if (result < 0) give_up(step);
}

static void put(const char *what, const char *where, const char *kind, unsigned long flags,
                const char *options) {
    must(call(__NR_mount, (long)what, (long)where, (long)kind, flags, (long)options), where);
}

static void pass_time(void) {
    struct __kernel_timespec step = {0, STEP_NANOSECONDS};
    call(__NR_nanosleep, (long)&step, 0, 0, 0, 0);
}

static void load_modules(void) {
    char name[] = "/modules/00";
    for (int at = 0; at < 100; at++) {
        name[9] = (char)('0' + at / 10);
        name[10] = (char)('0' + at % 10);
        long file = call(__NR_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0, 0);
        if (file < 0) return;
        must(call(__NR_finit_module, file, (long)"", 0, 0, 0), name);
        call(__NR_close, file, 0, 0, 0, 0);
        call(__NR_unlinkat, AT_FDCWD, (long)name, 0, 0, 0); /* its memory is the guest's again */
    }
}

/* Whether the disk of this letter calls itself by this layer's name. */
static int is_layer(char letter, char digit) {
    char path[] = "/sys/block/vda/serial", found[8] = {0};
    path[13] = letter;
    long file = call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (file < 0) return 0;
    long count = call(__NR_read, file, (long)found, sizeof found - 1, 0, 0);
    call(__NR_close, file, 0, 0, 0, 0);
    const char wanted[] = {'l', 'a', 'y', 'e', 'r', digit};
    if (count < 6) return 0;
    for (int at = 0; at < 6; at++)
        if (found[at] != wanted[at]) return 0;
    return count == 6 || found[6] == '\n';
}

/* The letter of the disk that is this layer, or 0. */
static char disk_of(int layer) {
    for (int at = 0; at < MAX_DISKS; at++)
        if (is_layer((char)('a' + at), (char)('0' + layer))) return (char)('a' + at);
    return 0;
}

static char wait_for_disk(int layer) {
    for (int tries = 0; tries < TRIES; tries++) {
        char letter = disk_of(layer);
        if (letter) return letter;
        pass_time();
    }
    return 0;
}

/* Mount layer after layer; the highest is on top.  Returns how many there are. */
static int mount_layers(void) {
    char device[] = "/dev/vda", place[] = "/layers/0";
    int layer = 0;
    for (; layer < MAX_LAYERS; layer++) {
        char letter = layer ? disk_of(layer) : wait_for_disk(layer);
        if (!letter) break;
        device[7] = letter;
        place[8] = (char)('0' + layer);
        must(call(__NR_mkdirat, AT_FDCWD, (long)place, 0755, 0, 0), place);
        put(device, place, "erofs", MS_RDONLY | MS_NOSUID | MS_NODEV, "");
    }
    if (!layer) give_up("no disk is layer0");
    return layer;
}

static void join_layers(int count) {
    char options[16 + 10 * MAX_LAYERS] = "lowerdir=", *end = options + 9;
    if (count == 1) { /* an overlay needs two */
        put("/layers/0", "/joined", "", MS_MOVE, "");
        return;
    }
    while (count--) {
        memcpy(end, "/layers/0:", 10);
        end[8] = (char)('0' + count);
        end += 10;
    }
    end[-1] = 0;
    put("layers", "/joined", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options);
}

static void make_root(void) {
    join_layers(mount_layers());
    const unsigned long plain = MS_NOSUID | MS_NODEV;
    put("tmp", "/joined/tmp", "tmpfs", plain, "mode=1777,size=64m");
    put("out", "/joined/out", "tmpfs", plain, "mode=0755,size=64m");
    put("run", "/joined/run", "tmpfs", plain, "mode=0755,size=8m");
    put("/dev", "/joined/dev", "", MS_MOVE, "");
    put("/proc", "/joined/proc", "", MS_MOVE, "");
    put("/sys", "/joined/sys", "", MS_MOVE, "");
    must(call(__NR_chdir, (long)"/joined", 0, 0, 0, 0), "joined");
    call(__NR_unlinkat, AT_FDCWD, (long)"/init", 0, 0, 0);
    put(".", "/", "", MS_MOVE, "");
    must(call(__NR_chroot, (long)".", 0, 0, 0, 0), "chroot");
    must(call(__NR_chdir, (long)"/", 0, 0, 0, 0), "chdir");
}

static void run_agent(void) {
    static char *argv[] = {"/usr/bin/python3", "-I", "-S", "-B", "/threegate/agent/__main__.py", 0};
    static char *environment[] = {0};
    call(__NR_setsid, 0, 0, 0, 0, 0);
    call(__NR_close_range, 0, ~0U, 0, 0, 0);
    if (call(__NR_openat, AT_FDCWD, (long)"/dev/null", O_RDWR, 0, 0) == 0) {
        call(__NR_dup3, 0, 1, 0, 0, 0);
        call(__NR_dup3, 0, 2, 0, 0, 0);
        call(__NR_execve, (long)argv[0], (long)argv, (long)environment, 0, 0);
    }
    for (;;) call(__NR_exit_group, 127, 0, 0, 0, 0);
}

__attribute__((used, noreturn)) void start(void) {
    put("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
    put("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    put("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    load_modules();
    must(call(__NR_mkdirat, AT_FDCWD, (long)"/dev/shm", 01777, 0, 0), "shm");
    put("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m");
    make_root();
    long agent = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (agent == 0) run_agent();
    must(agent, "clone");
    for (;;) {
        long ended = call(__NR_wait4, -1, 0, 0, 0, 0);
        if (ended == agent || ended == -10) over(); /* -10: there is nobody left to wait for */
    }
}
