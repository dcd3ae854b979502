"""Touches fresh memory page by page.

Usage: faults.py MIB ROUNDS
"""
import mmap
import sys

size, rounds = int(sys.argv[1]) << 20, int(sys.argv[2])
for _ in range(rounds):
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(0, size, mmap.PAGESIZE):
        area[page] = 1
    area.close()
