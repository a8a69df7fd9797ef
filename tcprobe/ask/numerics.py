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
from tcprobe.ask.confidence import UNMEASURED, Confidence, in_finding
from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MATRICES
from tcprobe.isa.sparsity import emulated
from tcprobe.references.numerics import BOTH, Published, promise_of_ptx, published_row
from tcprobe.sass.lowering import Lowering, saved
from tcprobe.sass.lowering import words as lowering_words
from tcprobe.store.choose import Layers
from tcprobe.store.evidence import how, whence
from tcprobe.store.finding import Finding, Sourced
from tcprobe.text import Described
from tcprobe.values import Json


@dataclass(frozen=True, repr=False)
class FormNumerics(Described):
    """What is known of a form on an arch: `sourced` where it was measured, else what is `published` of it.

    Without either it is what is stated of every arch that has the form (`stated_of_all`).
    """

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
        """The measured parameters; None where nothing was measured, or measurements contradict each other."""
        return None if self.sourced is None or self.sourced.rivals else _rule(self.sourced.finding)

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
        """measured; contradicted, where no majority decides; or published: by others, of that chip."""
        if self.sourced is None:
            return "published"
        return "contradicted" if self.sourced.rivals else "measured"

    @property
    def confidence(self) -> Confidence:
        """In the parameters: counted over all runs, and what is published of instructions of the family."""
        if self.sourced is None:
            return UNMEASURED
        rule, row = self.rule, self.published
        if not isinstance(rule, Arithmetic) or row is None or self.form.family not in row.families:
            return in_finding(self.sourced)
        own = (max(map(len, rule.groups)), rule.fraction_bits, rule.exponent_floor)
        both = [
            pair for pair in zip(own, (row.products, row.fraction_bits, row.floor), strict=True) if None not in pair
        ]
        return in_finding(self.sourced, *((1, 0) if all(a == b for a, b in both) else (0, 1)))

    @property
    def evidence(self) -> str:
        """What the answer rests on."""
        if self.sourced is None:
            row = self.published
            if row is None:
                by = stated_of_all(self.form)
                return f"stated of every arch, not measured on {self.arch}, and nobody has published more: {by}"
            about = f" ({words})" if (words := row.about(self.form)) else ""
            return f"published for {row.chip}, not measured: {row.source}{about}"
        if self.sourced.rivals:
            return self.sourced.contradiction
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
        tail: Json = {"emulated": self.emulated, "evidence": self.evidence, "confidence": self.confidence.to_json()}
        if self.sourced and self.sourced.otherwise:
            tail["runs"] = self.sourced.runs(lambda finding: _plain(_rule(finding)))
        if self.sourced or self.published is None:
            integers = self.sourced is None and not self.types.is_float
            stated = Integers("wraps", "clamps" if _clamps(self.types) else None) if integers else None
            return {**head, **_plain(self.rule or stated), **tail}
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
        if self.sourced and self.sourced.otherwise and not self.sourced.rivals:
            yield self.sourced.contradiction
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
        elif self.sourced and self.sourced.rivals:
            yield "contradicted: no parameters are given"
        elif self.sourced:
            yield "no parameters of the model describe it; `tcprobe run` saved cases of what it gives"
        elif self.published:
            yield from _published_words(self.published)
        elif not self.types.is_float:
            clamped = ", with .satfinite they are clamped" if _clamps(self.types) else ""
            yield f"sums are integers of 32 bits; beyond that they wrap{clamped}"
        elif self.types.d == "f64":
            yield "a chain of fused multiply-adds"

    @property
    def _others(self) -> Iterator[str]:
        if self.types.is_float and self.types.d != "f64":
            yield f"promised: {promise_of_ptx(self.types.a, self.form.family)}"
        if self.sourced and self.published:
            row, parameters = self.published, ", ".join(_published_words(self.published))
            about = f", {words}" if (words := row.about(self.form)) else ""
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


def _rule(finding: Finding) -> Arithmetic | Integers | None:
    """The parameters that a finding has."""
    rule: Arithmetic | Integers | None = finding.body.floats or finding.body.integers
    return rule


def _plain(rule: Arithmetic | Integers | None) -> Json:
    """The facts of an arithmetic, all of them null where there is none."""
    if isinstance(rule, Arithmetic):
        return _floats(rule)
    return {**NOTHING, "overflow": rule.overflow, "satfinite": rule.satfinite} if rule else dict(NOTHING)


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
    if stated_of_all(instruction):
        return FormNumerics(instruction, device.name, None, None, saved(instruction, device, layers))
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
    return FormNumerics(instruction, device.name, sourced, published, saved(instruction, device, layers))


PTX_INTEGERS = "PTX ISA, mma, wmma and wgmma, integer operations"


def _clamps(kinds: ElementTypes) -> bool:
    """Whether a form may have .satfinite."""
    return not kinds.is_float and kinds.a != "b1"


def stated_of_all(instruction: Instruction) -> str:
    """Who states of every arch what a form computes, in few words; "" where nobody does.

    PTX ISA: integers accumulate in 32 bits, limited to their range with .satfinite, wrapped without. The sources of
    `references.numerics` state for all chips that f64 is a chain of fused multiply-adds.
    """
    kinds = types_of(instruction)
    if not instruction.multiplies or instruction.scales or instruction.family.startswith("tcgen05"):
        return ""
    if not kinds.is_float:
        return PTX_INTEGERS
    return f"{BOTH}, of all chips that they model" if kinds.d == "f64" else promise_of_ptx(kinds.a, instruction.family)
