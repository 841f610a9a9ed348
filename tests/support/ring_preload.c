/* A library that shows that it was loaded: what a bypass would bring along as data. */
#include <unistd.h>

__attribute__((constructor)) static void show(void) {
    static const char text[] = "uid=1000 from a library\n";
    (void)!write(1, text, sizeof text - 1);
}
