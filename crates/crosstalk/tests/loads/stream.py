"""stream.py MEBIBYTES BURSTS: rests for 100 ms and streams through memory for 30 ms, by turns.

Prints its pid, then the Unix time (ns) at which each burst began, when all is over. Rests are made
of short sleeps, so that the process is seen and has a group before the first burst.
"""

import os
import sys
import time

size, bursts = int(sys.argv[1]) << 20, int(sys.argv[2])
memory = bytearray(size)
for at in range(0, size, 4096):
    memory[at] = 1
ones = bytes(65536)
starts = []


def rest(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)


rest(1.5)
for _ in range(bursts):
    rest(0.1)
    starts.append(time.time_ns())
    end = time.monotonic() + 0.03
    at = 0
    while time.monotonic() < end:
        memory[at : at + 65536] = ones
        at = (at + 65536) % (size - 65536)
print(os.getpid())
for start in starts:
    print(start)
