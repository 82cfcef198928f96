"""Times two ways of doing one thing, in turns, so that both meet the same machine."""

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
