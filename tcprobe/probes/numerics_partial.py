"""Products that are added one by one in f32: each group from zero, then the groups to C in turn.

Code without tensor cores does this. `numerics_directed` finds the order. This module checks that every sum is an f32,
rounded to nearest even.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from tcprobe.arithmetic.parameters import BEFORE, NEAREST, TOWARD_ZERO, Arithmetic, Rounding
from tcprobe.errors import ProbeError
from tcprobe.layout.arrays import Bits
from tcprobe.probes.numerics_dots import Directed, Power, number
from tcprobe.probes.numerics_ends import HALVES, QUARTERS, nan, negative_zero, overflow, subnormals

Groups = tuple[tuple[int, ...], ...]
Later = Mapping[tuple[int, int, int], bool]
IN_F32 = ("f16",)  # types whose products an f32 holds exactly
F32 = 23
TINY = F32 + 1  # first bit below x that an f32 as large as x does not hold


def order(products: int, later: Later) -> Groups | None:
    """The groups, each in its order, from `later` by (i, j, t); None if products are not added like this."""
    ks = range(products)
    after = {t: frozenset(j for j in ks if j != t and later[-1, j, t]) for t in ks}
    firsts = sorted(set(after.values()), key=len)
    groups = tuple(_in_order([t for t in ks if after[t] == first], later) for first in firsts)
    if max(map(len, groups)) < 2 or any(later[case] != _survives_in(groups, case) for case in later):
        return None
    return groups


def _in_order(members: list[int], later: Later) -> tuple[int, ...]:
    """Members of a group, by how many of them are added before."""
    before = {
        t: {k for i, j in combinations(members, 2) if t not in (i, j) and later[i, j, t] for k in (i, j)}
        for t in members
    }
    return tuple(sorted(members, key=lambda t: (len(before[t]), t)))


def _survives_in(groups: Sequence[Sequence[int]], question: tuple[int, int, int]) -> bool:
    """Whether a small product at t survives beside x at i (in C if i is -1) and -x at j."""
    place = {k: (g, n) for g, group in enumerate(groups) for n, k in enumerate(group)}
    i, j, t = question
    if i < 0 or place[i][0] != place[j][0]:
        return place[t][0] > max(place[k][0] for k in (i, j) if k >= 0)
    return place[t][0] != place[i][0] or place[t] > max(place[i], place[j])


def partial(directed: Directed, added: Groups) -> Arithmetic | None:
    """All parameters; None if sums are not those of f32."""
    if directed.types.a not in IN_F32 or directed.types.b not in IN_F32 or not _sums_are_f32(directed, added[0]):
        return None
    wide, d = directed.types.d == "f32", directed.d
    through = None if wide else through_f32(directed, [k for group in added for k in group])
    if not wide and (through is None or not _result_is_nearest(directed, added[0])):
        raise ProbeError("sums of f32 are rounded to D in no known way.")
    return Arithmetic(
        added,
        None,
        d.fraction,
        NEAREST,
        BEFORE,
        subnormals=subnormals(directed),
        nan=nan(directed),
        overflow=overflow(directed),
        negative_zero=negative_zero(directed),
        through_f32=through,
    )


def _sums_are_f32(directed: Directed, group: Sequence[int]) -> bool:
    """Whether x plus quarters of its last place in f32, minus x in C, is rounded to nearest even, with both signs."""
    x = directed.x - 3
    answers = []
    for sign in (1, -1):
        c = np.full(len(QUARTERS), number(directed.c, Power(x, -sign)), directed.c.word)
        answers.append(_with_quarters(directed, group, (Power(x, sign), x - F32 - 2), c))
    ulps = [[_ulps(directed, int(bits), x - F32) for bits in line] for line in answers]
    nearest = list(HALVES[NEAREST])
    return ulps == [nearest, [-ulp for ulp in nearest]]


def _with_quarters(directed: Directed, group: Sequence[int], power: tuple[Power, int], c_bits: Bits) -> Bits:
    """D of `power[0]`, plus QUARTERS times 2^power[1] with the same sign, plus C."""
    term, quarter = power
    a, b = (np.zeros((len(QUARTERS), directed.products), form.word) for form in (directed.a, directed.b))
    for n, count in enumerate(QUARTERS):
        a[n, group[0]], b[n, group[0]] = directed.factors(term)
        length = count.bit_length() - 1
        first, b[n, group[1]] = directed.factors(Power(quarter + length, term.sign))
        a[n, group[1]] = first | (count - (1 << length)) << directed.a.fraction - length
    return directed.raw(a, b, c_bits)


def _ulps(directed: Directed, bits: int, exponent: int) -> int | None:
    """A result as a multiple (0 to 2, signed) of 2^exponent; None if it is none of these."""
    sign = -1 if bits >> directed.d.bits - 1 else 1
    by_bits = {0: 0, **{number(directed.d, Power(exponent + n)): 1 << n for n in (0, 1)}}
    return next(
        (sign * ulps for magnitude, ulps in by_bits.items() if bits & ~(1 << directed.d.bits - 1) == magnitude), None
    )


def _result_is_nearest(directed: Directed, group: Sequence[int]) -> bool:
    """As `_sums_are_f32`, for D's last place."""
    x, d = directed.x - 3, directed.d
    c = np.zeros(len(QUARTERS), directed.c.word)
    answers = [_with_quarters(directed, group, (Power(x, sign), x - d.fraction - 2), c) for sign in (1, -1)]
    nearest = [[number(d, Power(x, sign)) + ulps for ulps in HALVES[NEAREST]] for sign in (1, -1)]
    return [line.tolist() for line in answers] == nearest


def through_f32(directed: Directed, ks: list[int]) -> Rounding | None:
    """How a sum is rounded to f32 before it is rounded to D; None if D is not f16, or if no such rounding shows.

    The cases: half of what an f32 keeps, above a tie of D and below one.
    """
    x, form = directed.x - 3, directed.d
    if directed.types.d != "f16" or len(ks) < 3 or x - TINY < directed.least:
        return None
    first, second, third = ks[:3]
    above = {first: Power(x), second: Power(x - form.fraction - 1), third: Power(x - TINY)}
    below = {first: Power(x), second: Power(x - form.fraction, half=True), third: Power(x - TINY, -1)}
    places = tuple((directed.ask([(above, 0), (below, 0)]) - form.word(number(form, Power(x)))).tolist())
    roundings: dict[tuple[int, ...], Rounding | None] = {(1, 1): None, (0, 1): TOWARD_ZERO, (0, 2): NEAREST}
    if places not in roundings:
        raise ProbeError(f"sums of f32 are rounded to f16 in no known way: places {places}.")
    rounding: Rounding | None = roundings[places]
    return rounding
