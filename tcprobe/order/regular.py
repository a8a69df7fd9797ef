"""Numbers in a row of which most are not asked, since they repeat themselves from some step to the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcprobe.layout.arrays import Ints

PERIODS = (32, 256)  # steps after which numbers grow by what they grew before
BEYOND = 8  # of a third period, which the first two have to predict
PROBES = 8  # asked at once for the end of what repeats itself
SEVERAL = 24  # asked at random before the rest is believed


def regular(count: int, ask: Callable[[Ints], Ints]) -> Ints:
    """`count` whole numbers; `ask` gives those at some places. A guess: what was not asked may be otherwise.

    From a place on, each number is what is one period before, and what that grew by. Where this ends, halves say.
    """
    made, known = np.zeros(count, np.int64), np.zeros(count, bool)
    rng = np.random.default_rng(count)

    def sure(at: Ints) -> Ints:
        missing = np.unique(at[~known[at]])
        if len(missing):
            made[missing], known[missing] = ask(missing), True
        return made[at]

    start = 0
    while start < count:
        head = 0
        for period in PERIODS:
            head = min(3 * period + BEYOND, count - start)
            sure(np.arange(start, start + head))
            if head < 3 * period:
                continue
            wanted = _continued(made[start : start + 2 * period], count - start)
            if (made[start : start + head] != wanted[:head]).any():
                continue
            stop = _end(start + head, count, lambda at, w=wanted, s=start: sure(at) == w[at - s], rng)  # type: ignore[misc]
            made[start:stop] = np.where(known[start:stop], made[start:stop], wanted[: stop - start])
            head = stop - start
            break
        start += head
    return made


def _continued(first: Ints, count: int) -> Ints:
    """Two periods, continued."""
    period, at = len(first) // 2, np.arange(count)
    return first[at % period] + at // period * (first[period:] - first[:period])[at % period]


def _end(start: int, stop: int, right: Callable[[Ints], Ints], rng: np.random.Generator) -> int:
    """Up to where places are right, as far as those show that are asked."""
    low = start
    while low < stop:
        probes = np.unique(np.linspace(low, stop - 1, PROBES).astype(np.int64))
        if stop - low <= PROBES or right(probes).all():
            probes = np.unique(np.append(rng.integers(start, stop, SEVERAL), probes))
            low = start
        wrong = ~right(probes)
        if not wrong.any():
            break
        first = int(np.argmax(wrong))
        low, stop = (int(probes[first - 1]) + 1 if first else low), int(probes[first])
    return stop
