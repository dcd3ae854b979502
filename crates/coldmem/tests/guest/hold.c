// Holds 64 MiB, touches the first half again and again and leaves the second alone. Until it is killed.
//   hold anon         anonymous memory
//   hold shared       shared memory, of no file
//   hold file PATH    page cache of a file of 64 MiB, mapped
//   hold read PATH    page cache of a file of 64 MiB, read and never mapped
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 64 << 20, PAGE = 4096 };

static int read_on(const char *path) {
    int descriptor = open(path, O_RDONLY);
    char byte;
    for (int at = 0; at < SIZE; at += PAGE) {
        if (pread(descriptor, &byte, 1, at) != 1) {
            perror("hold");
            return 1;
        }
    }
    puts("held");
    fflush(stdout);
    for (;;) {
        for (int at = 0; at < SIZE / 2; at += PAGE) {
            pread(descriptor, &byte, 1, at);
        }
        usleep(500000);
    }
}

int main(int count, char **words) {
    if (count > 2 && !strcmp(words[1], "read")) {
        return read_on(words[2]);
    }
    int file = count > 2 && !strcmp(words[1], "file");
    int descriptor = file ? open(words[2], O_RDWR) : -1;
    int shared = count > 1 && !strcmp(words[1], "shared");
    int flags = file ? MAP_SHARED : (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS;
    volatile char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    if (memory == MAP_FAILED) {
        perror("hold");
        return 1;
    }
    // Huge pages are used or idle as a whole; small ones show that halves of anything can be told apart.
    madvise((void *)memory, SIZE, MADV_NOHUGEPAGE);
    char seen = 0;
    for (int at = 0; at < SIZE; at += PAGE) {
        if (file) {
            seen += memory[at];
        } else {
            memory[at] = 1;
        }
    }
    puts("held");
    fflush(stdout);
    for (;;) {
        for (int at = 0; at < SIZE / 2; at += PAGE) {
            seen += memory[at];
        }
        usleep(50000);
    }
    return seen;
}
