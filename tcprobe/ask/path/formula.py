"""Addresses of all lanes and issues as one formula in `lane` and `issue`, in C, proven on every active lane.

>>> import numpy as np
>>> lanes, issues = np.arange(32), np.arange(4)[:, None]
>>> formula((lanes % 8 * 128) ^ (lanes // 8 * 16) ^ (issues * 64))
'(issue << 6) ^ ((lane & 7) << 7) ^ ((lane & 24) << 1)'
>>> formula(lanes * 132 + issues * 4)
'lane * 132 + issue * 4'
>>> number = issues * 32 + lanes
>>> formula(number // 5 * 100 + number % 5 * 16)
'(issue * 32 + lane) % 5 * 16 + (issue * 32 + lane) / 5 * 100'

First a GF(2)-linear map is tried, then sums of strides over the digits of lane and issue, then over those of a number
that counts all active lanes of all issues. Addresses are arrays of shape (issues, lanes), IDLE where a lane is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tcprobe.ask.banks.accesses import BMS
from tcprobe.fit.affine import Affine, Modes, fit_affine
from tcprobe.fit.formula import linear_formula
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE


def formula(values: Ints) -> str | None:
    """The formula of addresses; None where they have none of these three kinds."""
    tries: tuple[Callable[[Ints], str | None], ...] = (_linear, _strides, _by_active_lane)
    return next((text for attempt in tries if (text := attempt(values))), None)


class AddressText(NamedTuple):
    """`linear` in lane and issue, and what a swizzle of it does, "" without one: linear ^ (linear `swizzle`)."""

    linear: str
    swizzle: str = ""

    def __str__(self) -> str:
        return f"({self.linear}) ^ (({self.linear}) {self.swizzle})" if self.swizzle else self.linear


def address(values: Ints, linear: Ints, bms: BMS) -> AddressText | None:
    """The formula of `values`, the images of `linear` under a swizzle; None where there is none."""
    b, m, s = bms
    direct = _linear(values) if b else formula(values)
    if direct or not b:
        return AddressText(direct) if direct else None
    inner, mask = formula(linear), ((1 << b) - 1) << m - min(s, 0)
    return AddressText(inner, f"{'>>' if s > 0 else '<<'} {abs(s)} & {mask}") if inner else None


def of_pair(values: Ints, first_name: str, second_name: str) -> str | None:
    """The formula of a matrix of numbers in the names of its two coordinates, None where it is not a sum of strides.

    >>> import numpy as np
    >>> of_pair(np.arange(4)[:, None] * 32 + np.arange(2) * 512, "k", "block")
    'k * 32 + block * 512'
    """
    index = np.indices(values.shape)
    return _text(fit_affine(index[0].ravel(), index[1].ravel(), values.ravel(), values.shape), first_name, second_name)


def _linear(values: Ints) -> str | None:
    """XOR of masked and shifted bits."""
    issues, lanes = values.shape
    origin = int(values[0, 0])
    if values.min() < IDLE or origin == IDLE:
        return None
    powers = [int(values[0, 1 << b]) for b in range((lanes - 1).bit_length())]
    by_lane = [0 if power == IDLE else power ^ origin for power in powers]
    by_issue = [int(values[1 << b, 0]) ^ origin for b in range((issues - 1).bit_length())]
    spanned = origin ^ _span(by_lane, lanes)[None, :] ^ _span(by_issue, issues)[:, None]
    if not np.array_equal(np.where(values == IDLE, IDLE, spanned), values):
        return None
    whole = linear_formula({"lane": by_lane, "issue": by_issue}, origin, ("lane", "issue"))
    return whole.text({"lane": len(by_lane), "issue": len(by_issue)})


def _span(images: Sequence[int], count: int) -> Ints:
    """The XOR of the images of the bits of 0 to count - 1."""
    numbers = np.arange(count)
    spanned = np.zeros(count, np.int64)
    for bit, image in enumerate(images):
        spanned ^= np.where(numbers >> bit & 1, image, 0)
    return spanned


def _strides(values: Ints) -> str | None:
    """Digits of lane and of issue, each times its stride."""
    issue, lane = np.nonzero(values != IDLE)
    return _text(fit_affine(lane, issue, values[issue, lane], values.shape[::-1]), "lane", "issue")


def _by_active_lane(values: Ints) -> str | None:
    """Digits of the number of an active lane, all issues' counted on."""
    issue, lane = np.nonzero(values != IDLE)
    count = int((values[0] != IDLE).sum())
    if IDLE in values[0, :count]:
        return None
    number = issue * count + lane
    fit = fit_affine(number, 0 * number, values[issue, lane], (count * len(values), 1))
    return _text(fit, f"(issue * {count} + lane)", "")


def _text(fit: Affine | None, first_name: str, second_name: str) -> str | None:
    if fit is None:
        return None
    parts = [*_digits(fit.first, first_name), *_digits(fit.second, second_name)]
    parts += [str(fit.base)] if fit.base or not parts else []
    return " + ".join(parts)


def _digits(modes: Modes, name: str) -> list[str]:
    """Each digit times its stride, those without one left out."""
    parts, below = [], 1
    for number, (size, stride) in enumerate(zip(modes.sizes, modes.strides, strict=True)):
        text = name if below == 1 else f"{name} / {below}"
        text += f" % {size}" if number < len(modes.sizes) - 1 else ""
        parts += [f"{text} * {stride}" if stride != 1 else text] if stride else []
        below *= size
    return parts
