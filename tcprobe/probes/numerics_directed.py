"""Directed products that determine each parameter of a form's arithmetic without assuming the others.

A case is a dot product of a few powers of two: x and -x cancel and show what became of a small term beside them.
Answers that the model cannot give raise ProbeError, which says what is wrong.

Code without tensor cores adds products one by one in f32: each group from zero, then the groups to C in turn. Then
every sum must be an f32, rounded to nearest even.

Where products span few exponents (types of 6 and 4 bits), they are tried beside a large C. C is a power of two X. A
negative product far below it shows whether it was kept: rounded toward zero, anything less than X is another number. So
C must be in the first sum, and sums must be rounded toward zero; otherwise there is a ProbeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.parameters import AFTER, BEFORE, IN_GROUP, NEAREST, TOWARD_ZERO, Arithmetic, PlaceOfC, Rounding
from tcprobe.errors import ProbeError
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Bits
from tcprobe.probes.numerics_dots import (
    HALVES,
    QUARTERS,
    Directed,
    Power,
    floor,
    largest,
    magnitude_bits,
    nan,
    negative_zero,
    normalized,
    number,
    overflow,
    result_rounding,
    subnormals,
)

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
    by_bits = {0: 0, **{number(directed.d, Power(exponent + n)): 1 << n for n in (0, 1)}}
    ulps = by_bits.get(bits & magnitude_bits(directed.d))
    return -ulps if ulps and bits >> directed.d.bits - 1 else ulps


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
    return roundings[places]


WIDE = 28  # the products of e4m3 span so many exponents: enough to show what a sum keeps
MOST_KEPT = 60


def is_narrow(directed: Directed) -> bool:
    """Whether products span too few exponents to show, beside each other, what a sum keeps."""
    return directed.types.d == "f32" and directed.deep < WIDE


def narrow_parameters(directed: Directed, ordered: Callable[[int, Any], Groups]) -> Arithmetic:
    """All parameters of a form. `ordered` makes groups of products, given by (-1, i, j) whether j comes after i."""
    low = directed.least + 1  # the exponent of the products tried
    kept = _deepest(directed, low, -1)
    bits = min(_deepest(directed, low, 1), kept)
    if not _toward_zero(directed, low, bits) or kept <= bits == directed.d.fraction:
        raise ProbeError("beside a large C nothing shows what a sum keeps: it is not rounded toward zero in one sum.")
    groups = ordered(directed.products, _later_beside_c(directed, low, kept))
    together = _products_summed_first(directed, low, kept)
    _check_raw_exponents_beside_c(directed, kept)
    small, least = subnormals(directed), floor(directed, groups, kept)
    normal: Any = tuple(name for name in FACTORS if getattr(small, name) and _is_normalized(directed, name, kept))
    return Arithmetic(
        groups,
        kept,
        bits,
        TOWARD_ZERO,
        exponent_floor=least,
        subnormals=small,
        nan=nan(directed),
        overflow=overflow(directed),
        negative_zero=negative_zero(directed),
        normalized=normal,
        summed_first=together,
    )


def _deepest(directed: Directed, low: int, sign: int) -> int:
    """How far below C a product of this sign still changes D."""
    depths = range(1, MOST_KEPT)
    d = directed.ask([({0: Power(low, sign)}, Power(low + s)) for s in depths])
    changed = np.array([int(v) != number(directed.d, Power(low + s)) for v, s in zip(d, depths, strict=True)])
    count = int(changed.sum())
    if not count or not changed[:count].all():
        raise ProbeError("a product below C is kept at some depths and lost above them.")
    return count


def _toward_zero(directed: Directed, low: int, bits: int) -> bool:
    """Whether half of the last place is lost beside an odd number, with both signs."""
    place = 1 << directed.c.fraction - bits
    odd = [number(directed.c, Power(low + bits + 1, sign)) | place for sign in (1, -1)]
    d = directed.ask([({0: Power(low, sign)}, own) for sign, own in zip((1, -1), odd, strict=True)])
    return bool((d == odd).all())


def _later_beside_c(directed: Directed, low: int, kept: int) -> dict[tuple[int, int, int], bool]:
    """By (-1, i, j): whether the sum with product i comes before the sum with j.

    X - 2^(x - F) has a smaller exponent than X. So 2^(x - F - 1) is kept only if it is added after that.
    """
    ks, own = range(directed.products), Power(low + kept)
    first = Power(low, -1)
    second = Power(low - 1, -1)
    pairs = [(i, j) for i in ks for j in ks if i != j]
    alone = directed.ask([({i: first}, own) for i in ks])
    both = directed.ask([({i: first, j: second}, own) for i, j in pairs])
    return {(-1, i, j): int(d) != int(alone[i]) for (i, j), d in zip(pairs, both, strict=True)}


def _products_summed_first(directed: Directed, low: int, kept: int) -> int:
    """How many products are summed before they are cut; two that are half the last place survive together.

    ProbeError unless these are neighbours and scaled, and their sum aligns by its scales alone.
    """
    own, half = Power(low + kept), Power(low - 1, -1)
    pairs = list(combinations(range(directed.products), 2))
    d = directed.ask([({i: half, j: half}, own) for i, j in pairs])
    left: list[bool] = (d != number(directed.d, own)).tolist()
    count = 1 + sum(is_left for (i, _), is_left in zip(pairs, left, strict=True) if i == 0)
    if left != [i // count == j // count for i, j in pairs] or (count > 1 and directed.scaled_dots is None):
        raise ProbeError("products are added before they are cut.")
    if count > 1:
        large = {0: Power(2)}
        alone, beside = directed.ask([(large, 0), (large, Power(-kept, -1))]).tolist()
        if alone == beside:
            raise ProbeError("products are added before they are cut, and their sum aligns by its own exponent.")
    return count


def _check_raw_exponents_beside_c(directed: Directed, kept: int) -> None:
    """ProbeError unless 1.5 x 1.5 aligns as a product of exponent 0 + 0, and a zero does not align at all."""
    a, b = (np.zeros((3, directed.products), form.word) for form in (directed.a, directed.b))
    a[:2, 0], b[:2, 0] = (form.one() | 1 << form.fraction - 1 for form in (directed.a, directed.b))
    b[2, 0] = number(directed.b, Power(largest(directed.b)))
    last, lone = number(directed.c, Power(-kept, -1)), number(directed.c, Power(-2 * kept))
    d = directed.raw(a, b, np.array([0, last, lone], directed.c.word)).tolist()
    if d[0] == d[1]:
        raise ProbeError("terms are not aligned by the sums of their factors' exponents.")
    if d[2] != lone:
        raise ProbeError("products that are zero align the others.")


def _is_normalized(directed: Directed, name: str, kept: int) -> bool:
    """Whether a C survives beside the smallest subnormal of A or B that its least exponent would cut."""
    form, other = (directed.a, directed.b) if name == "a" else (directed.b, directed.a)
    low = form.least - form.fraction
    lines: dict[str, Bits] = {key: np.zeros((2, directed.products), getattr(directed, key).word) for key in FACTORS}
    lines[name][:, 0] = number(form, Power(low))
    lines["b" if name == "a" else "a"][:, 0] = other.one()
    c = np.array([0, number(directed.c, Power(low - kept, -1))], directed.c.word)
    alone, beside = directed.raw(lines["a"], lines["b"], c).tolist()
    return bool(alone != beside)


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
    n, by_c = np.arange(len(small_at)), small_at[:, 0] < 0
    a, b = (np.zeros((len(small_at), directed.products), form.word) for form in (directed.a, directed.b))
    for k, term in zip(small_at.T, (Power(x), Power(x, -1), small), strict=True):
        is_product = k >= 0
        a[n[is_product], k[is_product]], b[n[is_product], k[is_product]] = directed.factors(term)
    c = np.where(by_c, number(directed.c, Power(x)), 0).astype(directed.c.word)
    survives = directed.raw(a, b, c) == number(directed.d, small)
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
    if len(groups[0]) > 2:
        _check_raw_exponents(directed, groups[0], last)
    if len(groups[0]) > 1:
        _check_zeros(directed, groups[0], kept)


def _check_raw_exponents(directed: Directed, group: Sequence[int], third_product: Power) -> None:
    """ProbeError unless a product 1.5 x 1.5, which is above 2, aligns by the sum of its factors' exponents."""
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
    if exponent < max(directed.least, directed.d.least):
        return
    a, b = (np.zeros((1, directed.products), form.word) for form in (directed.a, directed.b))
    b[0, group[0]] = number(directed.b, Power(largest(directed.b)))
    a[0, group[1]], b[0, group[1]] = directed.factors(Power(exponent))
    if directed.raw(a, b, np.zeros(1, directed.c.word))[0] != number(directed.d, Power(exponent)):
        raise ProbeError("products that are zero align the others.")
