"""Keeps one core busy for a while, then prints what the kernel says of this process.

Usage: burn.py CORE SECONDS
Prints: pid, CPU time from schedstat in ns, time the hypervisor took from the core meanwhile in ns.
"""
import os
import sys
import time

core, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {core})
os.nice(-19)


def stolen_ns():
    """Of this core, in steps of a clock tick; the kernel leaves it out of schedstat."""
    with open("/proc/stat") as stat:
        fields = next(line for line in stat if line.startswith(f"cpu{core} ")).split()
    return int(fields[8]) * 10**9 // os.sysconf("SC_CLK_TCK")


stolen = stolen_ns()
end = time.monotonic() + seconds
while time.monotonic() < end:
    sum(range(10_000))
with open("/proc/self/schedstat") as stat:
    ran = stat.read().split()[0]
os.write(1, f"{os.getpid()} {ran} {stolen_ns() - stolen}\n".encode())
os._exit(0)  # the interpreter's own clean-up would be time after the reading
