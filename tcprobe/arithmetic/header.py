"""One C++17 header with the arithmetic of forms, for hosts, CUDA and NVRTC: the same bits as the model in Python.

A form is a struct; `tcprobe::numerics::dot<form>(a, b, c)` computes one of its dot products; all arguments are bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.model import in_f32, nan_bits
from tcprobe.arithmetic.parameters import AFTER, BEFORE, NEAREST, Arithmetic, ElementTypes
from tcprobe.isa.operand import INPUTS, MATRICES

SPECIAL = {"none": 0, "nan": 1, "ieee": 2}
NO_FLOOR = -(1 << 20)


class Entry(NamedTuple):
    """A form: the name of its struct, a description, its types and its parameters."""

    name: str
    words: str
    types: ElementTypes
    rule: Arithmetic


def header(entries: Iterable[Entry]) -> str:
    """The header's text."""
    structs = "\n".join(_struct(entry) for entry in entries)
    closing = "}  // namespace numerics\n}  // namespace tcprobe\n"
    common = (files("tcprobe.arithmetic") / "numerics.h").read_text("utf-8")
    return f"{common}\nnamespace tcprobe {{\nnamespace numerics {{\n{structs}{closing}"


def _struct(entry: Entry) -> str:
    rule, kinds = entry.rule, entry.types
    order = [k for group in rule.groups for k in group]
    ends = [sum(map(len, rule.groups[: n + 1])) for n in range(len(rule.groups))]
    forms = [FORMATS[kinds.a], FORMATS[kinds.b], FORMATS[kinds.c], FORMATS[kinds.d]]
    forms[:2] = [form.without(rule.unread_bits) if form.name == "tf32" else form for form in forms[:2]]
    sums, sum_rule = (FORMATS["f32"], in_f32(rule)) if rule.through_f32 else (forms[3], rule)
    floor = NO_FLOOR if rule.exponent_floor is None else rule.exponent_floor
    exact = rule.fraction_bits is None
    constants = {
        "int products": len(order),
        "int groups": len(ends),
        "int fraction_bits": 0 if exact else rule.fraction_bits,
        "int result_bits": rule.result_bits,
        "int sum_bits": sum_rule.result_bits,
        "int exponent_floor": floor,
        "unsigned long long nan": f"{nan_bits(forms[3], rule):#x}ull",
        "unsigned long long sum_nan": f"{nan_bits(sums, sum_rule):#x}ull",
    }
    flags = {
        "exact": exact,
        "nearest": rule.rounding == NEAREST,
        "sum_nearest": sum_rule.rounding == NEAREST,
        "narrowed": rule.through_f32 is not None,
        "c_first": rule.c == BEFORE,
        "c_last": rule.c == AFTER,
        "negative_zero": bool(rule.negative_zero),
        "largest": rule.overflow == "largest",
        **{f"subnormal_{name}": getattr(rule.subnormals, name) is not False for name in MATRICES},
        **{f"normalized_{name}": name in rule.normalized for name in INPUTS},
    }
    lines = [f"/// {entry.words}", f"struct {entry.name} {{"]
    for name, form in zip("ABCDS", [*forms, sums], strict=True):
        sizes = f"{form.bits}, {form.fraction}, {form.bias}, {SPECIAL[form.special]}, {form.unread}"
        lines.append(f"  using {name} = number<{sizes}>;")
    lines += [f"  static constexpr {name} = {value};" for name, value in constants.items()]
    lines += [f"  static constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
    lines += [_initializer("product", order), _initializer("end", ends), "};", ""]
    return "\n".join(lines)


def _initializer(name: str, values: Sequence[int]) -> str:
    return (
        f"  TCPROBE_HD static constexpr int {name}(int i) {{\n"
        f"    const short at[] = {{{', '.join(map(str, values))}}};\n    return at[i];\n  }}"
    )
