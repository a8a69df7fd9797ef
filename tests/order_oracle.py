"""What an order gives, slowly, by fractions: from docs/order.md and docs/numerics.md, sharing no code with tcprobe.

An order is plain data, as ORDER.json holds it; numbers are Python's, exact. NaN and infinities are not followed.
"""

import json
from fractions import Fraction
from pathlib import Path

MEASURED = Path(__file__).parent.parent / "results" / "sm_90" / "live" / "numerics"
# fraction bits, least exponent
FORMATS = {"f64": (52, -1022), "f32": (23, -126), "tf32": (10, -126), "f16": (10, -14), "bf16": (7, -126)}
FORMATS |= {"e5m2": (2, -14), "e4m3": (3, -6)}
LARGEST = {"f32": 128, "f16": 16, "bf16": 128, "f64": 1024, "e5m2": 16}  # the exponent that overflows


def exponent(number):
    """Of the leading bit."""
    number = abs(number)
    at = number.numerator.bit_length() - number.denominator.bit_length()
    return at if number >= Fraction(2) ** at else at - 1


def nearest(number, kind):
    """To nearest even, subnormals kept."""
    bits, least = FORMATS[kind]
    if not number:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponent(number), least) - bits)
    whole, rest = divmod(abs(number), unit)
    whole += rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1)
    made = whole * unit
    assert made < Fraction(2) ** LARGEST[kind], "beyond what is followed"
    return made if number > 0 else -made


def to_tf32(number, how):
    """An input rounded to tf32."""
    if how == "exact" or not number:
        return number
    unit = Fraction(2) ** (max(exponent(number), -126) - 10)
    whole, rest = divmod(abs(number), unit)
    if how != "cut":
        whole += rest * 2 > unit or (rest * 2 == unit and (how == "nearest away" or whole % 2 == 1))
    return whole * unit * (1 if number > 0 else -1)


def rules(form, arch):
    """(groups of products, F, result bits, rounding, least exponent, C after all, operands that are normalized)."""
    shape = next(part for part in form.split(".") if part[0] == "m" and "k" in part)
    k = int(shape.partition("k")[2])
    if arch == "sm_80":  # docs/numerics.md: 8 products of f16 and bf16, 4 of tf32, F 24, floor -132
        size = 4 if ".tf32" in form else 8
        groups = [list(range(at, min(at + size, k))) for at in range(0, k, size)]
        wide = ".f32" in form.replace(".tf32", "")
        return (
            groups,
            24,
            23 if wide else 10,
            "toward zero" if wide else "nearest even",
            -132 if wide else None,
            False,
            (),
        )
    name = form.replace("::", "--")
    if form.startswith("wgmma"):
        name = f"wgmma.mma_async.m64n8k{k}." + name.split(".", 3)[3]
    found = json.loads((MEASURED / f"{name}.json").read_text())["body"]["floats"]
    assert found["c"] in ("in the group", "after")
    return (
        found["groups"],
        found["fraction_bits"],
        found["result_bits"],
        found["rounding"],
        found["exponent_floor"],
        found["c"] == "after",
        found["normalized"],
    )


def stored(number, kind, normalized):
    """The exponent that a factor counts with."""
    least = FORMATS[kind][1]
    return exponent(number) if normalized else max(exponent(number), least)


def group_sum(pairs, kinds, c, rule):
    """One sum: each term cut toward zero, the total exact, rounded once."""
    _, kept, bits, rounding, floor, _, normalized = rule
    terms = [
        (x * y, stored(x, kinds[0], "a" in normalized) + stored(y, kinds[1], "b" in normalized))
        for x, y in pairs
        if x * y
    ]
    if c:
        terms.append((c, stored(c, kinds[2], "c" in normalized)))
    if not terms:
        return Fraction(0)
    top = max(place for _, place in terms)
    if floor is not None:
        top = max(top, floor)
    unit = Fraction(2) ** (top - kept)
    total = sum(int(abs(term) / unit) * (1 if term > 0 else -1) for term, _ in terms) * unit
    if not total:
        return Fraction(0)
    if rounding == "nearest even":
        assert bits == FORMATS[kinds[2]][0]
        return nearest(total, kinds[2])
    unit = Fraction(2) ** (max(exponent(total), FORMATS[kinds[2]][1]) - bits)
    return int(abs(total) / unit) * unit * (1 if total > 0 else -1)


def chain(form, arch, pairs, c):
    """Multiplies one after another."""
    kinds = form.split(".")[-3:] if form.startswith("wgmma") else form.split(".")[-4:-1]
    kinds = (kinds[1], kinds[2], kinds[0])
    rule = rules(form, arch)
    depth = sum(map(len, rule[0]))
    if kinds[0] == "tf32":
        pairs = [tuple(to_tf32(number, "cut") for number in pair) for pair in pairs]
    for at in range(0, len(pairs), depth):
        part = pairs[at : at + depth]
        part += [(Fraction(0), Fraction(0))] * (depth - len(part))
        if rule[1] is None:  # f64
            for x, y in part:
                c = nearest(x * y + c, "f64")
            continue
        own, total = c, Fraction(0) if rule[5] else c
        for group in rule[0]:
            total = group_sum([part[k] for k in group], kinds, total, rule)
        c = nearest(total + own, kinds[2]) if rule[5] else total
    return c


def value(node, order, pairs):
    """The sum of a node, by recursion."""
    if "add" in node:
        total, *others = (value(term, order, pairs) for term in node["add"])
        for other in others:
            total = nearest(total + other, "f32")
        return total
    c = value(node["c"], order, pairs) if "c" in node else Fraction(0)
    taken = [pairs[k] for part in node["k"] for k in range(*part)]
    if "form" in node:
        return chain(node["form"], order["arch"], taken, c)
    for x, y in taken:
        c = nearest(x * y + c, node["fma"])
    return c


def element(order, a, b):
    """D of a row of A and a column of B, lists of floats."""
    how = order["inputs"]
    pairs = [(to_tf32(Fraction(x), how), to_tf32(Fraction(y), how)) for x, y in zip(a, b, strict=True)]
    return float(nearest(value(order["sum"], order, pairs), order["types"]["d"]))
