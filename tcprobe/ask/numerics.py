"""What a multiply computes: its parameters with their evidence, what others publish, and dot products step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tcprobe import numerics
from tcprobe.arithmetic.parameters import (
    AFTER,
    BEFORE,
    IN_GROUP,
    NEAREST,
    Arithmetic,
    ElementTypes,
    Integers,
    subject,
    types_of,
)
from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MATRICES
from tcprobe.isa.sparsity import emulated
from tcprobe.references.numerics import Published, promise_of_ptx, published_row
from tcprobe.sass.lowering import Lowering
from tcprobe.sass.lowering import words as lowering_words
from tcprobe.store.choose import Layers
from tcprobe.store.evidence import how, whence
from tcprobe.store.finding import Sourced
from tcprobe.text import Described
from tcprobe.values import Json


@dataclass(frozen=True, repr=False)
class FormNumerics(Described):
    """What is known of a form on an arch: `sourced` where it was measured, else what is `published` of it."""

    form: Instruction
    arch: str
    sourced: Sourced | None
    published: Published | None
    lowering: Lowering | None

    @property
    def types(self) -> ElementTypes:
        """Its element types."""
        return types_of(self.form)

    @property
    def rule(self) -> Arithmetic | Integers | None:
        """The measured parameters."""
        if self.sourced is None:
            return None
        body = self.sourced.finding.body
        rule: Arithmetic | Integers | None = body.floats or body.integers
        return rule

    @cached_property
    def emulated(self) -> bool | None:
        """Whether the compiler makes it of other opcodes; None where that is not known."""
        if self.form.metadata and emulated(self.form, arch(self.arch)):
            return True
        if self.lowering is not None and not self.lowering.refused:
            return not self.lowering.native(self.form)
        return False if self.form.described else None

    @property
    def status(self) -> str:
        """measured, or published: by others, of that chip."""
        return "measured" if self.sourced else "published"

    @property
    def evidence(self) -> str:
        """What the answer rests on."""
        if self.sourced is None:
            row = self.published
            assert row is not None
            about = f" ({words})" if (words := row.about(self.form.family)) else ""
            return f"published for {row.chip}, not measured: {row.source}{about}"
        body = self.sourced.finding.body
        if body.unfit:
            return f"measured: {how(self.sourced.finding)}, no parameters of the model describe it: {body.unfit}"
        other = f", {body.compared} results of {len(body.forms) - 1} other forms agree" if body.compared else ""
        return (
            f"measured: {how(self.sourced.finding)}, {body.directed} directed cases, {body.wrong} wrong bits in "
            f"{body.random} random ones{other}, {whence(self.sourced.source)}"
        )

    def to_json(self) -> Json:
        """Plain data."""
        head = {"id": self.form.id, "arch": self.arch, "status": self.status}
        tail = {"emulated": self.emulated, "evidence": self.evidence}
        if isinstance(self.rule, Arithmetic):
            return {**head, **_floats(self.rule), **tail}
        if isinstance(self.rule, Integers):
            return {**head, **NOTHING, "overflow": self.rule.overflow, "satfinite": self.rule.satfinite, **tail}
        if self.sourced or self.published is None:
            return {**head, **NOTHING, **tail}
        return {
            **head,
            **NOTHING,
            "group": self.published.products,
            "fraction_bits": self.published.fraction_bits,
            "alignment": "truncate",
            "exponent_floor": self.published.floor,
            **tail,
        }

    def steps(self, a: ArrayLike, b: ArrayLike, c: ArrayLike = 0) -> list[str]:
        """One dot product, every step: `a` and `b` are k numbers, or a text of numbers or bits: "1, 0x3c00"."""
        from tcprobe.ask.numeric_steps import parse_case, steps

        texts = (abc if isinstance(abc, str) else ",".join(map(str, np.atleast_1d(abc).tolist())) for abc in (a, b, c))
        return list(steps(self.form, numerics.model(self.form, self.arch), parse_case(self.form, *texts)))

    def bound(self, length: int, parts: int = 1) -> Json:
        """How far a dot product of `length` products, k cut into `parts`, can be from the exact one."""
        from tcprobe.ask.numeric_steps import bound_error

        return bound_error(self.form, numerics.model(self.form, self.arch), length, parts)

    @property
    def in_words(self) -> Iterator[str]:
        """The form, what it computes, what others say of it, and what that rests on."""
        yield f"{self.form.id} on {self.arch}"
        yield from (f"  {text}" for text in self.facts)

    @property
    def facts(self) -> Iterator[str]:
        """The lines below the form's name."""
        yield from self.parameters
        if self.emulated:
            yield lowering_words(self.lowering, self.form) if self.lowering else "emulated"
        yield from self._others
        yield self.evidence

    @property
    def parameters(self) -> Iterator[str]:
        """What it computes, a line each."""
        if isinstance(self.rule, Arithmetic):
            yield from _words(self.rule, self.types)
        elif isinstance(self.rule, Integers):
            yield f"sums are exact; beyond 32 bits they {_verb(self.rule.overflow)}" + (
                f", with .satfinite they {_verb(self.rule.satfinite)}" if self.rule.satfinite else ""
            )
        elif self.sourced:
            yield "no parameters of the model describe it; `tcprobe run` saved cases of what it gives"
        elif self.published:
            yield from _published_words(self.published)

    @property
    def _others(self) -> Iterator[str]:
        if self.types.is_float and self.types.d != "f64":
            yield f"promised: {promise_of_ptx(self.types.a, self.form.family)}"
        if self.sourced and self.published:
            row, parameters = self.published, ", ".join(_published_words(self.published))
            about = f", {words}" if (words := row.about(self.form.family)) else ""
            yield f"published for {row.chip}{about}: {parameters}; {row.source}"


FACTS = (  # what JSON says of an arithmetic, in order
    "group",
    "groups",
    "fraction_bits",
    "alignment",
    "c",
    "result",
    "exponent_floor",
    "subnormals",
    "nan",
    "overflow",
    "satfinite",
    "negative_zero",
    "unread_bits",
    "normalized",
    "through_f32",
    "summed_first",
)
NOTHING = dict.fromkeys(FACTS)


def _floats(arithmetic: Arithmetic) -> Json:
    exact = arithmetic.fraction_bits is None
    return {
        **NOTHING,
        "group": None if exact else max(map(len, arithmetic.groups)),
        "groups": [list(g) for g in arithmetic.groups],
        "fraction_bits": arithmetic.fraction_bits,
        "alignment": None if exact else arithmetic.alignment,
        "c": arithmetic.c,
        "result": {"bits": arithmetic.result_bits, "rounding": arithmetic.rounding},
        "exponent_floor": arithmetic.exponent_floor,
        "subnormals": {name: getattr(arithmetic.subnormals, name) for name in MATRICES},
        "nan": arithmetic.nan,
        "overflow": arithmetic.overflow,
        "negative_zero": arithmetic.negative_zero,
        "unread_bits": arithmetic.unread_bits,
        "normalized": list(arithmetic.normalized),
        "through_f32": arithmetic.through_f32,
        "summed_first": arithmetic.summed_first,
    }


def _verb(overflow: str | None) -> str:
    return {"wraps": "wrap", "clamps": "are clamped"}.get(overflow or "", "are unknown")


def _words(arithmetic: Arithmetic, kinds: ElementTypes) -> Iterator[str]:
    """The parameters, a line each."""
    if arithmetic.c == BEFORE:
        each = "; then ".join(f"k {_ks(group)}" for group in arithmetic.groups)
        yield f"products are added one by one in f32, to nearest even, from zero: {each}"
    elif arithmetic.fraction_bits is None:
        yield f"a chain of fused multiply-adds from C on, k {_ks([k for group in arithmetic.groups for k in group])}"
    else:
        yield _groups(arithmetic)
        multiple = f"2^(top - {arithmetic.fraction_bits})"
        yield f"each term is cut toward zero to a multiple of {multiple}, top the largest exponent of the terms"
    if arithmetic.summed_first > 1:
        first = arithmetic.summed_first
        yield f"{first} products at a time are summed exactly and scaled: one term, aligned by its scales"
    if arithmetic.exponent_floor is not None:
        yield f"top is at least {arithmetic.exponent_floor}"
    yield f"C is added {PLACES[arithmetic.c]}"
    if arithmetic.through_f32:
        rounded = _to(arithmetic.through_f32)
        yield f"a sum is rounded {rounded} to f32, and that to D; a negative one that becomes zero is -0"
    what = "D" if arithmetic.through_f32 else "a sum"
    yield f"{what} is rounded {_to(arithmetic.rounding)} to {arithmetic.result_bits} bits below its leading one"
    lost = ", ".join(name.upper() for name in MATRICES if getattr(arithmetic.subnormals, name) is False)
    yield f"subnormals count{f', but not of {lost}' if lost else ''}"
    if arithmetic.normalized:
        yield f"subnormals of {', '.join(arithmetic.normalized).upper()} have the exponent of their leading bit"
    zero = "-0" if arithmetic.negative_zero else "+0"
    yield f"NaN is {arithmetic.nan or 'one of several'}; D is {zero} where all terms are -0"
    if arithmetic.overflow:
        becomes = "infinity" if arithmetic.overflow == "infinity" else "that number"
        yield f"a sum beyond {kinds.d}'s largest number is {becomes}"
    if arithmetic.unread_bits:
        yield f"the low {arithmetic.unread_bits} bits of A and B are not read"


PLACES = {IN_GROUP: "in the first sum", AFTER: "last, to nearest even", BEFORE: "to each sum in turn, to nearest even"}


def _to(rounding: str) -> str:
    return f"to {rounding}" if rounding == NEAREST else rounding


def _groups(arithmetic: Arithmetic) -> str:
    if len(arithmetic.groups) == 1:
        return f"one sum of all {arithmetic.products} products"
    return "sums, each the C of the next: " + "; then ".join(f"k {_ks(group)}" for group in arithmetic.groups)


def _ks(ks: Sequence[int]) -> str:
    if list(ks) == list(range(ks[0], ks[0] + len(ks))):
        return f"{ks[0]} to {ks[-1]}" if len(ks) > 1 else str(ks[0])
    return " ".join(map(str, ks))


def _published_words(published: Published) -> Iterator[str]:
    parameters = (
        ("products a sum", published.products),
        ("fraction bits", published.fraction_bits),
        ("least exponent", published.floor),
    )
    yield from (f"{name} {value}" for name, value in parameters if value is not None)


def answer(instruction: Instruction, name: str | None, layers: Layers) -> FormNumerics:
    """What is known of a form on an arch, sm_90 without one; UsageError where nothing is."""
    device = arch(name or numerics.MEASURED)
    if not instruction.target.on(device):
        raise UsageError(f"{instruction.id} needs {instruction.target.name}; {device.name} does not have it.")
    if form := find(instruction, device, layers):
        return form
    raise UsageError(
        f"{instruction.id} was not measured on {device.name}, and nobody has published its arithmetic there.",
        "no arithmetic",
        id=subject(instruction),
    )


def find(instruction: Instruction, device: Arch, layers: Layers) -> FormNumerics | None:
    """As `answer`; None where the arch does not have the form, and where nothing is known of it there."""
    if not instruction.target.on(device):
        return None
    sourced = numerics.measured(instruction, device.name, layers)
    published = published_row(instruction, device.name) if types_of(instruction).is_float else None
    if sourced is None and published is None:
        return None
    return FormNumerics(instruction, device.name, sourced, published, _lowering(instruction, device.name, layers))


def _lowering(instruction: Instruction, name: str, layers: Layers) -> Lowering | None:
    bodies = (body for body, _ in layers.lowerings(name) if instruction.id in body["instructions"])
    body = next(bodies, None)
    return Lowering(**body["instructions"][instruction.id]) if body else None
