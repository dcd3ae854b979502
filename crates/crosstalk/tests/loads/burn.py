"""Keeps one core busy for a while, then prints what the kernel says of this process.

Usage: burn.py CORE SECONDS
Prints: pid, CPU time from schedstat in ns.
"""
import os
import sys
import time

core, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {core})
os.nice(-19)
end = time.monotonic() + seconds
while time.monotonic() < end:
    sum(range(10_000))
with open("/proc/self/schedstat") as stat:
    ran = stat.read().split()[0]
os.write(1, f"{os.getpid()} {ran}\n".encode())
os._exit(0)  # the interpreter's own clean-up would be time after the reading
