"""Parameters of types whose products span few exponents (6 and 4 bits): products are tried beside a large C.

C is a power of two X. A negative product far below it shows whether it was kept: rounded toward zero, anything less
than X is another number. So C must be in the first sum, and sums must be rounded toward zero; otherwise there is a
ProbeError.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from tcprobe.arithmetic.parameters import TOWARD_ZERO, Arithmetic
from tcprobe.errors import ProbeError
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Bits
from tcprobe.probes.numerics_dots import Directed, Power, largest, number
from tcprobe.probes.numerics_ends import floor, nan, negative_zero, overflow, subnormals
from tcprobe.probes.numerics_partial import Groups

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
    groups = ordered(directed.products, _later(directed, low, kept))
    together = _products_summed_first(directed, low, kept)
    _check_raw_exponents(directed, kept)
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


def _later(directed: Directed, low: int, kept: int) -> dict[tuple[int, int, int], bool]:
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


def _check_raw_exponents(directed: Directed, kept: int) -> None:
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
