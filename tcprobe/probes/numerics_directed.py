"""Directed products that determine each parameter of a form's arithmetic without assuming the others.

A case is a dot product of a few powers of two: x and -x cancel and show what became of a small term beside them.
Answers that the model cannot give raise ProbeError, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from tcprobe.arithmetic.formats import FORMATS
from tcprobe.arithmetic.parameters import AFTER, IN_GROUP, Arithmetic, PlaceOfC
from tcprobe.errors import ProbeError
from tcprobe.layout.arrays import Bits, Ints
from tcprobe.probes.numerics_dots import Directed, Power, largest, magnitude_bits, number
from tcprobe.probes.numerics_ends import floor, nan, negative_zero, normalized, overflow, result_rounding, subnormals
from tcprobe.probes.numerics_narrow import is_narrow, narrow_parameters
from tcprobe.probes.numerics_partial import TINY, order, partial, through_f32


def parameters(directed: Directed) -> Arithmetic:
    """All parameters of a floating-point form; ProbeError if the model does not describe it."""
    directed.unread = _unread(directed)
    if is_narrow(directed):
        return narrow_parameters(directed, _groups)
    later = _later(directed)
    added = order(directed.products, later) if later else None
    if added and (separate := partial(directed, added)):
        return separate
    groups, chain = _groups(directed.products, later), directed.products > 1
    c: PlaceOfC = _place_of_c(directed, groups) if chain else IN_GROUP
    exact = all(len(group) == 1 for group in groups) and chain
    kept = None if exact else _fraction(directed, groups, c)
    if kept is not None:
        _check_alignment(directed, groups, c, kept)
    result, rounding = result_rounding(directed, groups, c, kept)
    small = subnormals(directed)
    normal = (name for name in normalized(directed, groups, c, kept) if getattr(small, name) is not False)
    return Arithmetic(
        groups,
        kept,
        result,
        rounding,
        c,
        floor(directed, groups, kept),
        "truncate",
        small,
        nan(directed),
        overflow(directed),
        negative_zero(directed),
        directed.unread,
        tuple(normal),
        through_f32(directed, list(groups[-1])) if (kept or 0) >= TINY else None,
    )


def _unread(directed: Directed) -> int:
    """How many low bits of tf32 are ignored; ProbeError unless they are the same of A and of B."""
    if directed.types.a != "tf32":
        return 0
    count = directed.a.fraction
    unit, c = directed.a.one(), np.zeros(count, directed.c.word)
    ignored = []
    for changed in (0, 1):
        factors = np.zeros((2, count, directed.products), np.uint32)
        factors[:, :, 0] = unit
        factors[changed, :, 0] |= np.uint32(1) << np.arange(count, dtype=np.uint32)
        ignored.append(directed.raw(factors[0], factors[1], c) == FORMATS["f32"].one())
    unread = int(ignored[0].sum())
    if (ignored[0] != ignored[1]).any() or not ignored[0][:unread].all():
        raise ProbeError("tf32's unread bits are not the same low ones of A and B.")
    return unread


def _later(directed: Directed) -> dict[tuple[int, int, int], bool]:
    """By (i, j, t): whether a small product at t survives beside x at i (in C if i is -1) and -x at j.

    It is lost unless it is added after both have cancelled.
    """
    ks, x = range(directed.products), directed.x
    pairs = [(i, j) for i, j in combinations(ks, 2)] + [(-1, j) for j in ks]
    small_at = np.array([(i, j, t) for i, j in pairs for t in ks if t not in (i, j)])
    if not len(small_at):
        return {}
    small = Power(x - directed.deep)
    survives = directed.raw(*_terms_beside(directed, small_at, small)) == number(directed.d, small)
    return dict(zip(map(tuple, small_at.tolist()), survives.tolist(), strict=True))


def _groups(products: int, later: Mapping[tuple[int, int, int], bool]) -> tuple[tuple[int, ...], ...]:
    """The products of each sum, in the order of the sums; ProbeError unless the sums are a chain."""
    ks = range(products)
    before: dict[int, set[int]] = {k: set() for k in ks}
    for i, j, t in (case for case, is_later in later.items() if is_later):
        before[t] |= {i, j} - {-1}
    groups: dict[frozenset[int], list[int]] = {}
    for t in sorted(ks, key=lambda k: (len(before[k]), k)):
        groups.setdefault(frozenset(before[t]), []).append(t)
    summed: set[int] = set()
    for earlier, group in groups.items():
        if earlier != summed:
            raise ProbeError(f"products are not a chain of sums: {sorted(group)} come after {sorted(earlier)}.")
        summed |= set(group)
    return tuple(tuple(sorted(group)) for group in groups.values())


def _terms_beside(directed: Directed, small_at: Ints, small: Power) -> tuple[Bits, Bits, Bits]:
    """A, B and C of cases (i, j, t): x at i (in C if i is -1), -x at j, the small product at t."""
    n = np.arange(len(small_at))
    a, b = (np.zeros((len(small_at), directed.products), form.word) for form in (directed.a, directed.b))
    by_c = small_at[:, 0] < 0
    for ks, term in zip(small_at.T, (Power(directed.x), Power(directed.x, -1), small), strict=True):
        is_product = ks >= 0
        a[n[is_product], ks[is_product]], b[n[is_product], ks[is_product]] = directed.factors(term)
    return a, b, np.where(by_c, number(directed.c, Power(directed.x)), 0).astype(directed.c.word)


def _place_of_c(directed: Directed, groups: Sequence[Sequence[int]]) -> PlaceOfC:
    """AFTER if a small C survives beside x and -x in the first and in the last sum, IN_GROUP if it does not.

    ProbeError if it survives in one of them alone.
    """
    pairs = [group[:2] for group in (groups[0], groups[-1]) if len(group) > 1]
    if not pairs:
        return IN_GROUP
    x, small = directed.x, Power(directed.x - directed.deep)
    kept = directed.ask([({i: Power(x), j: Power(x, -1)}, small) for i, j in pairs]) == number(directed.d, small)
    if kept.any() != kept.all():
        raise ProbeError("C comes in between two sums.")
    return AFTER if kept.all() else IN_GROUP


def _cancelling_terms(
    group: Sequence[int], place_of_c: str, exponent: int
) -> tuple[dict[int, Power], Power | int, int]:
    """(products, C, k of a free product) of a sum in which x and -x cancel; C is x if there are only two products.

    ProbeError if the sum is too small.
    """
    if len(group) > 2:
        return {group[0]: Power(exponent), group[1]: Power(exponent, -1)}, 0, group[2]
    if place_of_c == AFTER or len(group) < 2:
        raise ProbeError(f"a sum of {len(group)} products is too small to tell what it keeps.")
    return {group[0]: Power(exponent, -1)}, Power(exponent), group[1]


def _fraction(directed: Directed, groups: Sequence[Sequence[int]], place_of_c: str) -> int:
    """Bits kept below x: how far down a small term survives beside x and -x; ProbeError unless all sums agree."""
    kept_bits = set()
    depths = range(directed.deep + 1)
    for group in groups:
        products, own, t = _cancelling_terms(group, place_of_c, directed.x)
        d = directed.ask([({**products, t: Power(directed.x - s)}, own) for s in depths])
        kept = d == np.array([number(directed.d, Power(directed.x - s)) for s in depths], directed.d.word)
        count = int(kept.sum())
        if not kept[:count].all() or count == len(kept) or (d[count:] & magnitude_bits(directed.d) != 0).any():
            raise ProbeError(f"no number of bits is kept below the largest term: {count} of {len(kept)} depths.")
        kept_bits.add(count - 1)
    if len(kept_bits) > 1:
        raise ProbeError(f"sums keep different numbers of bits: {sorted(kept_bits)}.")
    return kept_bits.pop()


def _check_alignment(directed: Directed, groups: Sequence[Sequence[int]], place_of_c: str, kept: int) -> None:
    """ProbeError unless terms are cut toward zero, aligned by the largest sum of exponents of nonzero products."""
    x = directed.x
    products, own, t = _cancelling_terms(groups[0], place_of_c, x)
    last = Power(x - kept)
    cases = [({**products, t: Power(last.exponent, sign, half=True)}, own) for sign in (1, -1)]
    expected = [number(directed.d, Power(last.exponent, sign)) for sign in (1, -1)]
    if directed.ask(cases).tolist() != expected:
        raise ProbeError("terms are not cut toward zero when they are aligned.")
    _check_raw_exponents(directed, groups[0], last)
    _check_zeros(directed, groups[0], kept)


def _check_raw_exponents(directed: Directed, group: Sequence[int], third_product: Power) -> None:
    """ProbeError unless a product 1.5 x 1.5, which is above 2, aligns by the sum of its factors' exponents."""
    if len(group) < 3:
        return
    a, b = (np.zeros((1, directed.products), form.word) for form in (directed.a, directed.b))
    for k, sign in zip(group, (1, -1), strict=False):
        first, second = directed.factors(Power(directed.x, sign))
        a[0, k] = first | 1 << directed.a.fraction - 1
        b[0, k] = second | 1 << directed.b.fraction - 1
    a[0, group[2]], b[0, group[2]] = directed.factors(third_product)
    if directed.raw(a, b, np.zeros(1, directed.c.word))[0] != number(directed.d, third_product):
        raise ProbeError("terms are not aligned by the sums of their factors' exponents.")


def _check_zeros(directed: Directed, group: Sequence[int], kept: int) -> None:
    """ProbeError if zero times the largest number aligns the other terms."""
    exponent = directed.a.least + largest(directed.b) - kept - 1
    if len(group) < 2 or exponent < max(directed.least, directed.d.least):
        return
    a, b = (np.zeros((1, directed.products), form.word) for form in (directed.a, directed.b))
    b[0, group[0]] = number(directed.b, Power(largest(directed.b)))
    a[0, group[1]], b[0, group[1]] = directed.factors(Power(exponent))
    if directed.raw(a, b, np.zeros(1, directed.c.word))[0] != number(directed.d, Power(exponent)):
        raise ProbeError("products that are zero align the others.")
