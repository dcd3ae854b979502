"""Passes a byte to and fro between two processes on one core, then prints their switches.

Usage: pingpong.py CORE ROUNDS
Prints for each of the two: pid, voluntary switches, involuntary switches.
"""
import os
import sys


def report():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    voluntary = int(lines["voluntary_ctxt_switches"])
    involuntary = int(lines["nonvoluntary_ctxt_switches"])
    os.write(1, f"{os.getpid()} {voluntary} {involuntary}\n".encode())


core, rounds = int(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, {core})
there, back = os.pipe(), os.pipe()
child = os.fork()
for _ in range(rounds):
    if child:
        os.write(there[1], b"x")
        os.read(back[0], 1)
    else:
        os.read(there[0], 1)
        os.write(back[1], b"x")
report()
if child:
    os.waitpid(child, 0)
