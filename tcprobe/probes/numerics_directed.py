"""Directed products that tell every parameter of a form's arithmetic, with nothing assumed about the others.

A case is a dot product of a few powers of two: x and -x, which cancel, show what became of a small term beside them.
Where an answer is none of those that the model can give, ProbeError says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.formats import FORMATS, FloatFormat
from tcprobe.arithmetic.parameters import (
    AFTER,
    IN_GROUP,
    NEAREST,
    TOWARD_ZERO,
    Arithmetic,
    ElementTypes,
    Rounding,
    Subnormals,
)  # fmt: skip
from tcprobe.errors import ProbeError

Bits = NDArray[Any]
Dots = Callable[[Bits, Bits, Bits], Bits]
Asked = tuple[dict[int, "Power"], Any]  # products by k, and C
HIGHEST, DEEPEST = 100, 200  # exponent of x where the types allow it; how far below it the small term lies at most
QUARTERS = (1, 2, 3, 5, 6, 7)  # of an ulp
HALVES = {TOWARD_ZERO: (0, 0, 0, 1, 1, 1), NEAREST: (0, 0, 1, 1, 2, 2)}  # ulps that they become


class Power(NamedTuple):
    """sign x 1.0 or 1.5 x 2^exponent."""

    exponent: int
    sign: int = 1
    half: bool = False


@dataclass
class Directed:
    """What a form answers; `asked` counts the cases."""

    types: ElementTypes
    products: int
    dots: Dots
    asked: int = field(default=0, init=False)
    unread: int = field(default=0, init=False)

    @property
    def a(self) -> FloatFormat:
        """The format of A, and so on."""
        return FORMATS[self.types.a]

    @property
    def b(self) -> FloatFormat:
        """Of B."""
        return FORMATS[self.types.b]

    @property
    def c(self) -> FloatFormat:
        """Of C."""
        return FORMATS[self.types.c]

    @property
    def d(self) -> FloatFormat:
        """Of D."""
        return FORMATS[self.types.d]

    @property
    def least(self) -> int:
        """The least exponent of a product of normal numbers."""
        return self.a.least + self.b.least

    @property
    def most(self) -> int:
        """The largest exponent of such a product."""
        return _most(self.a) + _most(self.b)

    @property
    def x(self) -> int:
        """The exponent of what cancels, which C and D hold; three less where up to eight are added."""
        return min(self.most, _most(self.d), _most(self.c), HIGHEST)

    @property
    def deep(self) -> int:
        """How far below x the smallest term lies."""
        return min(self.x - max(self.least, self.d.least, self.c.least), DEEPEST)

    def ask(self, cases: Sequence[tuple[dict[int, Power], Any]]) -> Bits:
        """D of cases: products by k, the others zero, and C: a Power, or its bits."""
        a, b = (np.zeros((len(cases), self.products), form.word) for form in (self.a, self.b))
        c = np.zeros(len(cases), self.c.word)
        for n, (products, own) in enumerate(cases):
            for k, term in products.items():
                a[n, k], b[n, k] = self.factors(term)
            c[n] = number(self.c, own) if isinstance(own, Power) else own
        return self.raw(a, b, c)

    def raw(self, a: Bits, b: Bits, c: Bits) -> Bits:
        """D of dot products as bits."""
        self.asked += len(c)
        return self.dots(a, b, c)

    def factors(self, term: Power) -> tuple[int, int]:
        """The bits of A and B whose product is a term."""
        first = min(max(term.exponent // 2, self.a.least, term.exponent - _most(self.b)), _most(self.a))
        return number(self.a, term._replace(exponent=first)), number(self.b, Power(term.exponent - first))


def _most(form: FloatFormat) -> int:
    """The largest exponent of a power of two that the format has."""
    top = (1 << form.bits - 1 - form.fraction) - 1 - form.bias
    return top - (form.special == "ieee")


def number(form: FloatFormat, term: Power) -> int:
    """The bits of a term; ProbeError where the format does not hold it."""
    field_ = term.exponent + form.bias
    sign = (1 << form.bits - 1) if term.sign < 0 else 0
    half = 1 << form.fraction - 1 if term.half else 0
    if field_ > 0 and term.exponent <= _most(form):
        return sign | field_ << form.fraction | half
    low = form.fraction + field_ - 1
    if not 0 <= low < form.fraction or term.half:
        raise ProbeError(f"2^{term.exponent} is no number of type {form.name}.")
    return sign | 1 << low


def parameters(directed: Directed) -> Arithmetic:
    """All parameters of a form of floats."""
    directed.unread = _unread(directed)
    groups, chain = _groups(directed), directed.products > 1
    c: Any = _place_of_c(directed, groups) if chain else IN_GROUP
    exact = all(len(group) == 1 for group in groups) and chain
    kept = None if exact else _fraction(directed, groups, c)
    if kept is not None:
        _aligned(directed, groups, c, kept)
    result, rounding = _result(directed, groups, c, kept)
    return Arithmetic(
        groups, kept, result, rounding, c, _floor(directed, groups, kept), "truncate", _subnormals(directed),
        _nan(directed), _overflow(directed), _negative_zero(directed), directed.unread,
    )  # fmt: skip


def _unread(directed: Directed) -> int:
    """How many low bits of tf32 are not looked at: of A as of B."""
    if directed.types.a != "tf32":
        return 0
    count = directed.a.fraction
    one, c = directed.a.one(), np.zeros(count, directed.c.word)
    told = []
    for changed in (0, 1):
        factors = np.zeros((2, count, directed.products), np.uint32)
        factors[:, :, 0] = one
        factors[changed, :, 0] |= np.uint32(1) << np.arange(count, dtype=np.uint32)
        told.append(directed.raw(factors[0], factors[1], c) == FORMATS["f32"].one())
    unread = int(told[0].sum())
    if (told[0] != told[1]).any() or not told[0][:unread].all():
        raise ProbeError("tf32's unread bits are not the same low ones of A and B.")
    return unread


def _groups(directed: Directed) -> tuple[tuple[int, ...], ...]:
    """Which products make a sum, in the order of the sums.

    Beside x at i (or in C) and -x at j a small product at t is lost, unless it comes after both have cancelled.
    """
    ks, x = range(directed.products), directed.x
    pairs = [(i, j) for i, j in combinations(ks, 2)] + [(-1, j) for j in ks]
    asked = np.array([(i, j, t) for i, j in pairs for t in ks if t not in (i, j)])
    if not len(asked):
        return (tuple(ks),)
    small = Power(x - directed.deep)
    later = directed.raw(*_beside(directed, asked, small)) == number(directed.d, small)
    before: dict[int, set[int]] = {k: set() for k in ks}
    for (i, j, t), is_later in zip(asked.tolist(), later.tolist(), strict=True):
        if is_later:
            before[t] |= {i, j} - {-1}
    groups: dict[frozenset[int], list[int]] = {}
    for t in sorted(ks, key=lambda k: (len(before[k]), k)):
        groups.setdefault(frozenset(before[t]), []).append(t)
    done: set[int] = set()
    for earlier, group in groups.items():
        if earlier != done:
            raise ProbeError(f"products are no chain of sums: {sorted(group)} come after {sorted(earlier)}.")
        done |= set(group)
    return tuple(tuple(sorted(group)) for group in groups.values())


def _beside(directed: Directed, asked: NDArray[np.int64], small: Power) -> tuple[Bits, Bits, Bits]:
    """Cases (i, j, t): x at i, in C where i is -1, -x at j and the small product at t."""
    n = np.arange(len(asked))
    a, b = (np.zeros((len(asked), directed.products), form.word) for form in (directed.a, directed.b))
    by_c = asked[:, 0] < 0
    for ks, term in zip(asked.T, (Power(directed.x), Power(directed.x, -1), small), strict=True):
        there = ks >= 0
        a[n[there], ks[there]], b[n[there], ks[there]] = directed.factors(term)
    return a, b, np.where(by_c, number(directed.c, Power(directed.x)), 0).astype(directed.c.word)


def _place_of_c(directed: Directed, groups: Sequence[Sequence[int]]) -> Any:
    """Whether a small C is lost beside x and -x in the first sum, or comes after the last."""
    pairs = [group[:2] for group in (groups[0], groups[-1]) if len(group) > 1]
    if not pairs:
        return IN_GROUP
    x, small = directed.x, Power(directed.x - directed.deep)
    kept = directed.ask([({i: Power(x), j: Power(x, -1)}, small) for i, j in pairs]) == number(directed.d, small)
    if kept.any() != kept.all():
        raise ProbeError("C comes in between two sums.")
    return AFTER if kept.all() else IN_GROUP


def _cancelled(group: Sequence[int], c: str, x: int) -> tuple[dict[int, Power], Any, int]:
    """x and -x in a sum, C taking part where there are too few products, and a product that is left."""
    if len(group) > 2:
        return {group[0]: Power(x), group[1]: Power(x, -1)}, 0, group[2]
    if c == AFTER or len(group) < 2:
        raise ProbeError(f"a sum of {len(group)} products is too small to tell what it keeps.")
    return {group[0]: Power(x, -1)}, Power(x), group[1]


def _fraction(directed: Directed, groups: Sequence[Sequence[int]], c: str) -> int:
    """Bits kept below x: how far down a small term beside x and -x survives."""
    told = set()
    depths = range(directed.deep + 1)
    for group in groups:
        products, own, t = _cancelled(group, c, directed.x)
        d = directed.ask([({**products, t: Power(directed.x - s)}, own) for s in depths])
        kept = d == np.array([number(directed.d, Power(directed.x - s)) for s in depths], directed.d.word)
        count = int(kept.sum())
        if not kept[:count].all() or count == len(kept) or (d[count:] & _size(directed.d) != 0).any():
            raise ProbeError(f"no number of bits is kept below the largest term: {count} of {len(kept)} depths.")
        told.add(count - 1)
    if len(told) > 1:
        raise ProbeError(f"sums keep different numbers of bits: {sorted(told)}.")
    return told.pop()


def _size(form: FloatFormat) -> int:
    """The bits beside the sign."""
    return (1 << form.bits - 1) - 1


def _aligned(directed: Directed, groups: Sequence[Sequence[int]], c: str, kept: int) -> None:
    """ProbeError unless terms are cut toward zero at the largest sum of exponents, of products that are not zero."""
    x = directed.x
    products, own, t = _cancelled(groups[0], c, x)
    last = Power(x - kept)
    cases = [({**products, t: Power(last.exponent, sign, half=True)}, own) for sign in (1, -1)]
    expected = [number(directed.d, Power(last.exponent, sign)) for sign in (1, -1)]
    if directed.ask(cases).tolist() != expected:
        raise ProbeError("terms are not cut toward zero when they are aligned.")
    _raw_exponents(directed, groups[0], last)
    _zeros_left_out(directed, groups[0], kept)


def _raw_exponents(directed: Directed, group: Sequence[int], last: Power) -> None:
    """A product 1.5 x 1.5 is above 2, and its exponent still the sum of its factors'."""
    if len(group) < 3:
        return
    a, b = (np.zeros((1, directed.products), form.word) for form in (directed.a, directed.b))
    for k, sign in zip(group, (1, -1), strict=False):
        first, second = directed.factors(Power(directed.x, sign))
        a[0, k] = first | 1 << directed.a.fraction - 1
        b[0, k] = second | 1 << directed.b.fraction - 1
    a[0, group[2]], b[0, group[2]] = directed.factors(last)
    if directed.raw(a, b, np.zeros(1, directed.c.word))[0] != number(directed.d, last):
        raise ProbeError("terms are not aligned by the sums of their factors' exponents.")


def _zeros_left_out(directed: Directed, group: Sequence[int], kept: int) -> None:
    """A zero times the largest number does not align."""
    exponent = directed.a.least + _most(directed.b) - kept - 1
    if len(group) < 2 or exponent < max(directed.least, directed.d.least):
        return
    a, b = (np.zeros((1, directed.products), form.word) for form in (directed.a, directed.b))
    b[0, group[0]] = number(directed.b, Power(_most(directed.b)))
    a[0, group[1]], b[0, group[1]] = directed.factors(Power(exponent))
    if directed.raw(a, b, np.zeros(1, directed.c.word))[0] != number(directed.d, Power(exponent)):
        raise ProbeError("products that are zero align the others.")


class Base(NamedTuple):
    """2^m x of a sum, and the products that are left."""

    products: dict[int, Power]
    c: Any
    left: tuple[int, ...]
    m: int


def _base(group: Sequence[int], x: int, m: int, exact: bool) -> Base:
    if exact:
        return Base({}, Power(x), tuple(group), 0)
    return Base({k: Power(x) for k in group[: 1 << m]}, 0, tuple(group[1 << m :]), m)


def _result(directed: Directed, groups: Sequence[Sequence[int]], c: str, kept: int | None) -> tuple[int, Rounding]:
    """The bits of a result below its leading one, and how the rest goes."""
    exact, group, known = kept is None, groups[-1], 60 if kept is None else kept
    for m in range(1 if exact else 4):
        base = _base(group, directed.x - 3, m, exact)
        if not base.left:
            break
        bits = _result_bits(directed, base, known)
        if bits == m + known:
            continue
        rest = [_rest(directed, base, bits, quarters) for quarters in QUARTERS]
        if all(rest) and bits + 2 - m <= known:
            up, down = ([_with(base, part, sign) for part in rest] for sign in (1, -1))
            return bits, _rounding(directed, (up, down), base.m, bits)
        by_c = None if c == AFTER else _in_c(directed, group, known, bits)
        if by_c:
            return bits, _rounding(directed, *by_c, bits)
    raise ProbeError("a sum is too small to tell how its result is rounded.")


def _with(base: Base, part: dict[int, Power] | None, sign: int) -> Asked:
    """A base with more products, of one sign."""
    products = {k: _signed(term, sign) for k, term in {**base.products, **(part or {})}.items()}
    return products, _signed(base.c, sign) if isinstance(base.c, Power) else base.c


def _in_c(directed: Directed, group: Sequence[int], kept: int, bits: int) -> tuple[tuple[list[Asked], ...], int] | None:
    """As many copies of x as make room below, one of them C, whose low bits are the quarters; None where it cannot."""
    x = directed.x - 3
    for m in (0, 1, 2, 3):
        low = directed.c.fraction - (bits + 2 - m)
        if (1 << m) - 1 <= len(group) and bits + 2 - m <= kept and low >= 0:
            copies = group[: (1 << m) - 1]
            return tuple([({k: Power(x, sign) for k in copies}, number(directed.c, Power(x, sign)) | quarters << low)
                          for quarters in QUARTERS] for sign in (1, -1)), m  # fmt: skip
    return None


def _result_bits(directed: Directed, base: Base, kept: int) -> int:
    x, depths = directed.x - 3, range(min(kept, directed.x - 3 - directed.least) + 1)
    d = directed.ask([({**base.products, base.left[0]: Power(x - s)}, base.c) for s in depths])
    alone = number(directed.d, Power(x + base.m))
    changed = np.flatnonzero(d != alone)
    return base.m + int(changed[-1]) if len(changed) else 0


def _rest(directed: Directed, base: Base, bits: int, quarters: int) -> dict[int, Power] | None:
    """So many quarters of the last place as products; None where there are too few, or numbers are too coarse."""
    x, places = directed.x - 3 + base.m, [(4, bits), (2, bits + 1), (1, bits + 2)]
    chosen = [place for weight, place in places if quarters & weight]
    if base.c != 0 and len(chosen) > len(base.left):
        return _one_term(base, x, quarters, bits)
    if len(chosen) > len(base.left) or x - max(chosen) < directed.least:
        return None
    return {k: Power(x - place) for k, place in zip(base.left, chosen, strict=False)}


def _one_term(base: Base, x: int, quarters: int, bits: int) -> dict[int, Power] | None:
    """As `_rest`, in a single product: 3, 5 and 6 quarters."""
    terms = {3: Power(x - bits - 1, half=True), 6: Power(x - bits, half=True)}
    return {base.left[0]: terms[quarters]} if quarters in terms else {base.left[0]: Power(x - bits)}


def _rounding(directed: Directed, cases: tuple[list[Asked], ...], m: int, bits: int) -> Rounding:
    """By the ulps that quarters of an ulp become, of both signs."""
    answers = directed.ask([case for part in cases for case in part]).reshape(2, -1)
    one, step = number(directed.d, Power(directed.x - 3 + m)), 1 << directed.d.fraction - bits
    ulps = [[((int(v) & _size(directed.d)) - one) / step for v in line] for line in answers]
    for mode, expected in HALVES.items():
        wanted = list(expected)
        if directed.types.d == "f64":
            wanted[3] = wanted[5] = 1  # which one product cannot say: one place
        if ulps == [wanted, wanted]:
            return mode  # type: ignore[return-value]
    raise ProbeError(f"results are rounded in no known way: quarters {QUARTERS} give {ulps[0]} and {ulps[1]}.")


def _signed(term: Power, sign: int) -> Power:
    return term._replace(sign=term.sign * sign)


def _floor(directed: Directed, groups: Sequence[Sequence[int]], kept: int | None) -> int | None:
    """The least exponent that aligns: None where no product can be below it, or there is none."""
    least, group = directed.d.least - directed.d.fraction, groups[0]
    if kept is None or directed.types.d != "f32" or len(group) < 2 or directed.least > least - kept - 2:
        return None
    depths = range(1, min(least - directed.least, 60))
    d = directed.ask([({group[0]: Power(least), group[1]: Power(least - s, -1)}, 0) for s in depths])
    taken = np.flatnonzero(d == 0)  # one less than the smallest number, toward zero
    if not len(taken) or len(taken) != taken[-1] + 1 or (d[len(taken) :] != 1).any():
        return None
    unit = least - depths[int(taken[-1])]
    return None if unit == least - kept else unit + kept


def _subnormals(directed: Directed) -> Subnormals:
    """By the least subnormal of A and B times a large number, and half the least normal of C."""
    told: dict[str, bool | None] = {}
    for name, form, other in (("a", directed.a, directed.b), ("b", directed.b, directed.a)):
        low = form.least - form.fraction + directed.unread
        high = min(_most(other), max(directed.d.least - low + 1, 0))
        a, b = (np.zeros((1, directed.products), f.word) for f in (directed.a, directed.b))
        given = {"a": a, "b": b}
        given[name][0, 0] = number(form, Power(low))
        given["b" if name == "a" else "a"][0, 0] = number(other, Power(high))
        answer = int(directed.raw(a, b, np.zeros(1, directed.c.word))[0])
        told[name] = (
            _kept(answer, number(directed.d, Power(low + high)), name) if _held(directed.d, low + high) else None
        )
    own = Power(directed.c.least - 1)
    told["c"] = _kept(int(directed.ask([({}, own)])[0]), number(directed.d, own), "c")
    small = Power(directed.d.least - 1)
    if directed.least <= small.exponent:
        told["d"] = _kept(int(directed.ask([({0: small}, 0)])[0]), number(directed.d, small), "d")
    else:
        told["d"] = True if told["c"] and directed.types.c == directed.types.d else None
    return Subnormals(**told)


def _held(form: FloatFormat, exponent: int) -> bool:
    return form.least - form.fraction <= exponent <= _most(form)


def _kept(answer: int, whole: int, operand: str) -> bool:
    if answer not in (whole, 0):
        raise ProbeError(f"a subnormal {operand.upper()} gives {answer:#x}, neither {whole:#x} nor zero.")
    return answer == whole


def _nan(directed: Directed) -> str | None:
    """The NaN that comes of a NaN in C, of infinity times zero and of infinity less infinity, if it is one."""
    c = directed.c
    payload = c.infinity | (0x123 & (1 << c.fraction) - 1) | 1 << c.fraction - 1
    cases: list[int] = directed.ask([({}, payload), ({}, payload | 1 << c.bits - 1)]).tolist()
    a, b = (np.zeros((2, directed.products), form.word) for form in (directed.a, directed.b))
    if directed.a.special == "ieee":
        a[:, 0], b[1, 0] = directed.a.infinity, directed.b.one()
        own = np.array([0, c.infinity | 1 << c.bits - 1], c.word)
        cases += directed.raw(a, b, own).tolist()
    digits = directed.d.bits // 4
    return f"0x{cases[0]:0{digits}x}" if len(set(cases)) == 1 else None


def _overflow(directed: Directed) -> Any:
    """What two products beyond the largest number of D become."""
    top = _most(directed.d)
    if directed.most < top or directed.products < 2:
        return None
    answer = int(directed.ask([({0: Power(top), 1: Power(top)}, 0)])[0])
    if answer not in (directed.d.infinity, directed.d.infinity - 1):
        if answer == 0:
            return None
        raise ProbeError(f"a sum beyond the largest number gives {answer:#x}.")
    return "infinity" if answer == directed.d.infinity else "largest"


def _negative_zero(directed: Directed) -> bool:
    """Whether D is -0 where all products and C are."""
    a = np.full((1, directed.products), 1 << directed.a.bits - 1, directed.a.word)
    b = np.full((1, directed.products), directed.b.one(), directed.b.word)
    answer = int(directed.raw(a, b, np.full(1, 1 << directed.c.bits - 1, directed.c.word))[0])
    return answer != 0
