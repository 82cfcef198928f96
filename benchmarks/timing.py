"""Times two ways of doing one thing, in turns, so that both meet the same machine."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Ratio(NamedTuple):
    """What was measured: the time of ours over the time of a peer, and the most it may be."""

    name: str
    value: float
    wanted: float


def seconds(function: Callable) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def ratio(ours: Callable, peer: Callable, turns: int) -> float:
    """The median, over ``turns``, of the time of ours over that of the peer right after it."""
    ours(), peer()
    return statistics.median(seconds(ours) / seconds(peer) for _ in range(turns))


def compared(name: str, ours: Callable, peer: Callable, wanted: float, turns: int = 31) -> Ratio:
    """Time many quick calls of both in turns, each first in every other one."""
    ours(), peer()
    calls = max(1, int(0.01 / min(seconds(peer) for _ in range(5))))
    gc.collect()
    gc.disable()  # or one of the two pays for what both left behind
    try:
        values = [_turn(_often(ours, calls), _often(peer, calls), i % 2) for i in range(turns)]
    finally:
        gc.enable()
    return Ratio(name, statistics.median(values), wanted)


def _turn(ours, peer, peer_first):
    if peer_first:
        times = seconds(peer), seconds(ours)
        return times[1] / times[0]
    return seconds(ours) / seconds(peer)


def _often(function, calls):
    def often():
        for _ in range(calls):
            function()

    return often
