"""The usual design of such a service: FastAPI over a thread-safe list of samples.

Samples are dictionaries in a deque; a request copies those of the window under the lock, turns
each metric into a numpy array and asks that for its statistics. Prefilled with the same values
as the agent in the benchmark, and sampling on at the same rate while it is asked.
"""

import threading
import time
from collections import deque

import numpy as np
from fastapi import FastAPI, HTTPException

METRICS = [f"m{k:02}" for k in range(50)]
RETENTION_S = 30.0
PERIOD_S = 0.001


def value(i: int, k: int) -> float:
    """The same series as in main.rs."""
    mixed = ((i * 7919 + k * 104729) * 2654435761) & 0xFFFFFFFF
    return 0.5 + mixed / 2**33


class MetricBuffer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.samples = deque(maxlen=int(RETENTION_S / PERIOD_S))

    def add(self, at: float, i: int) -> None:
        sample = {name: value(i, k) for k, name in enumerate(METRICS)}
        with self.lock:
            self.samples.append((at, sample))

    def window(self, seconds: float) -> list:
        since = time.monotonic() - seconds
        with self.lock:
            return [sample for at, sample in self.samples if at > since]


buffer = MetricBuffer()


def sample_for_ever() -> None:
    start = time.monotonic() - RETENTION_S
    i = 0
    while True:
        # Whatever is due, then a short rest: one wake-up a sample would cost more than it samples.
        while start + i * PERIOD_S <= time.monotonic():
            buffer.add(start + i * PERIOD_S, i)
            i += 1
        time.sleep(0.01)


threading.Thread(target=sample_for_ever, daemon=True).start()
app = FastAPI()


@app.get("/health")
def health() -> dict:
    return {"status": "ok", "samples": len(buffer.samples)}


@app.get("/metrics")
def metrics(window_seconds: float = 20.0) -> dict:
    if not 0 < window_seconds <= RETENTION_S:
        raise HTTPException(400, f"window_seconds must be within 0 and {RETENTION_S}")
    samples = buffer.window(window_seconds)
    answer = {}
    for name in METRICS:
        values = np.array([sample[name] for sample in samples])
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        answer[f"mean_{name}"] = float(values.mean())
        answer[f"std_{name}"] = float(values.std())
        answer[f"min_{name}"] = float(values.min())
        answer[f"max_{name}"] = float(values.max())
        answer[f"p50_{name}"] = float(p50)
        answer[f"p95_{name}"] = float(p95)
        answer[f"p99_{name}"] = float(p99)
        answer[f"last_{name}"] = float(values[-1])
    return {
        "window_seconds": window_seconds,
        "samples_count": len(samples),
        "metrics": answer,
        "timestamp": time.time(),
    }
