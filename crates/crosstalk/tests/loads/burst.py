"""Runs for exactly 3 ms and sleeps, again and again, at real-time priority so nobody interrupts.

Usage: burst.py CORE COUNT
Prints: pid, then the Unix start and end of each burst in ns.
"""
import os
import sys
import time

core, count = int(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, {core})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
bursts = []
for _ in range(count):
    time.sleep(0.05)
    start = end = time.time_ns()
    while end - start < 3_000_000:
        end = time.time_ns()
    bursts.append((start, end))
print(os.getpid())
for start, end in bursts:
    print(start, end)
