"""More processes than the machine has cores, free to be moved between them, for a while; the first is moved on purpose.

Usage: crowd.py SECONDS
Prints, for each: pid, time it waited for a core from schedstat in ns.
"""
import os
import sys
import time

seconds = float(sys.argv[1])
end = time.monotonic() + seconds
children = []
for number in range(2 * os.cpu_count() - 1):
    child = os.fork()
    if child == 0:
        while time.monotonic() < end:
            sum(range(2_000))
            if number == 0:
                os.sched_setaffinity(0, {int(time.monotonic() * 50) % os.cpu_count()})
            elif number % 2:
                time.sleep(0.001)  # who sleeps is put wherever there is room
        with open("/proc/self/schedstat") as stat:
            waited = stat.read().split()[1]
        os.write(1, f"{os.getpid()} {waited}\n".encode())
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
