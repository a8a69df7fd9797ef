"""What a multiply computes: its parameters with their evidence, what others publish, and dot products step by step."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from tcprobe.arithmetic import f64_rounding
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
from tcprobe.ask.confidence import UNMEASURED, Confidence, ConfidenceAnswer, SaidRuns, Status, in_finding
from tcprobe.errors import AmbiguousError, NoMajorityError, UsageError
from tcprobe.isa.arch import Arch
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction, emulated
from tcprobe.isa.names import Meaning, likely
from tcprobe.isa.operand import MATRICES
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.question.arguments import arch_name, checked
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.options import Named, Number
from tcprobe.question.shared import JsonOption, OneArch, OnlyOption, ResultsOption, print_answer
from tcprobe.references.numerics import BOTH, Published, promise_of_ptx, published_row
from tcprobe.sass.lowering import Lowering, saved
from tcprobe.sass.lowering import words as lowering_words
from tcprobe.store import arithmetic as models
from tcprobe.store import names
from tcprobe.store.choose import Layers, layers, some
from tcprobe.store.finding import Finding, Sourced, how, source_words
from tcprobe.system.files import read_text
from tcprobe.text import Described, quoted
from tcprobe.values import Json

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tcprobe.arithmetic.header import Entry


class RoundedResult(Answer):
    """Significant bits of the result, and how it is rounded."""

    bits: int
    rounding: Literal["toward zero", "nearest even", "toward negative infinity", "toward positive infinity"]


class KeptSubnormals(Answer):
    """By operand, whether subnormal numbers count as they are."""

    a: bool | None
    b: bool | None
    c: bool | None
    d: bool | None


class NumericsAnswer(Answer, kw_only=True):
    """What a multiply computes: `group` is the most products that one sum takes in, `groups` lists them; null where it
    does not apply or is not known.
    """

    id: str
    arch: str
    status: Status
    group: int | None
    groups: list[list[int]] | None
    fraction_bits: int | None
    alignment: Literal["truncate"] | None
    c: Literal["in the group", "after", "before"] | None
    result: RoundedResult | None
    exponent_floor: int | None
    subnormals: KeptSubnormals | None
    nan: str | None
    overflow: Literal["infinity", "largest", "wraps", "clamps"] | None
    satfinite: Literal["wraps", "clamps"] | None
    negative_zero: bool | None
    unread_bits: int | None
    normalized: list[Literal["a", "b", "c"]] | None
    through_f32: Literal["toward zero", "nearest even"] | None
    summed_first: int | None
    emulated: bool | None
    evidence: str
    confidence: ConfidenceAnswer
    runs: SaidRuns | UnsetType = UNSET


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
    layers: Layers  # where it was looked for
    rounding: str = "rn"  # of f64, the modifier .rz, .rm or .rp

    @cached_property
    def model(self) -> Arithmetic | Integers:
        """What computes it; UsageError where nobody measured that here."""
        if self.rounding != "rn":
            raise UsageError(f"{self.form.id} is computed with .rn only: fma.{self.rounding}.f64 gives each step.")
        return models.model(self.form, self.arch, self.layers)

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
        if self.form.metadata and emulated(self.form, arch_row(self.arch)):
            return True
        if self.lowering is not None and not self.lowering.refused:
            return not self.lowering.native(self.form)
        return False if self.form.described else None

    @property
    def status(self) -> Status:
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
        if self.rounding == "rn":
            return self._evidence
        row = f64_rounding.measured(self.form.id, self.rounding)
        counted = f"{row.apart} of {row.results:,} results differ from that chain"
        return (
            f"measured with .{self.rounding}: live on {row.device}, {counted} ({row.source}); with .rn {self._evidence}"
        )

    @property
    def _evidence(self) -> str:
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
            f"{body.random} random ones{other}, {source_words(self.sourced.source)}"
        )

    def to_json(self) -> Json:
        facts = _plain(self.rule)
        if self.sourced is None and self.published:
            facts = NOTHING | {
                "group": self.published.products,
                "fraction_bits": self.published.fraction_bits,
                "alignment": "truncate",
                "exponent_floor": self.published.floor,
            }
        elif self.sourced is None and not self.types.is_float:
            facts = _plain(self.rule or Integers("wraps", "clamps" if _clamps(self.types) else None))
        if self.rounding != "rn" and facts["result"]:  # fma gives the largest number, or infinity by the sign
            rounding = f64_rounding.ROUNDINGS[self.rounding]
            facts |= {"result": {**facts["result"], "rounding": rounding}, "overflow": None}
        differing = self.sourced if self.sourced and self.sourced.otherwise else None
        answer = NumericsAnswer.of(
            self,
            id=self.form.id,
            **facts,
            confidence=self.confidence.answer,
            runs=differing.runs(lambda finding: _plain(_rule(finding))) if differing else UNSET,
        )
        return plain(answer)

    def steps(self, a: "ArrayLike", b: "ArrayLike", c: "ArrayLike" = 0) -> list[str]:
        """One dot product, every step: `a` and `b` are k numbers, or a text of numbers or bits: "1, 0x3c00"."""
        import numpy as np

        from tcprobe.ask.numeric_steps import parse_case, steps

        texts = (abc if isinstance(abc, str) else ",".join(map(str, np.atleast_1d(abc).tolist())) for abc in (a, b, c))
        return list(steps(self.form, self.model, parse_case(self.form, *texts)))

    def bound(self, length: int, parts: int = 1) -> Json:
        """How far a dot product of `length` products, k cut into `parts`, can be from the exact one."""
        from tcprobe.ask.numeric_steps import bound_error

        return bound_error(self.form, self.model, length, parts)

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
        if self.rounding != "rn":
            yield f"a chain of fused multiply-adds from C on, k 0 to {self.form.shape.k - 1}"
            way = f64_rounding.ROUNDINGS[self.rounding]
            yield f"each is rounded {way}, and gives what fma.{self.rounding}.f64 gives, beyond the largest number too"
        elif isinstance(self.rule, Arithmetic):
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


FACTS = tuple(NumericsAnswer.__annotations__)[3:-4]  # what JSON says of an arithmetic, in order
NOTHING = dict.fromkeys(FACTS)


def _rule(finding: Finding) -> Arithmetic | Integers | None:
    """The parameters that a finding has."""
    rule: Arithmetic | Integers | None = finding.body.floats or finding.body.integers
    return rule


def _plain(rule: Arithmetic | Integers | None) -> Json:
    """The facts of an arithmetic, all of them null where there is none."""
    if isinstance(rule, Arithmetic):
        exact = rule.fraction_bits is None
        return {
            **NOTHING,
            "group": None if exact else max(map(len, rule.groups)),
            "groups": [list(g) for g in rule.groups],
            "fraction_bits": rule.fraction_bits,
            "alignment": None if exact else rule.alignment,
            "c": rule.c,
            "result": {"bits": rule.result_bits, "rounding": rule.rounding},
            "exponent_floor": rule.exponent_floor,
            "subnormals": {name: getattr(rule.subnormals, name) for name in MATRICES},
            "nan": rule.nan,
            "overflow": rule.overflow,
            "negative_zero": rule.negative_zero,
            "unread_bits": rule.unread_bits,
            "normalized": list(rule.normalized),
            "through_f32": rule.through_f32,
            "summed_first": rule.summed_first,
        }
    return {**NOTHING, "overflow": rule.overflow, "satfinite": rule.satfinite} if rule else dict(NOTHING)


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
    device = arch_row(name or models.MEASURED)
    if not instruction.target.on(device):
        raise UsageError(f"{instruction.id} needs {instruction.target.name}; {device.name} does not have it.")
    if form := find(instruction, device, layers):
        return form
    if stated_of_all(instruction):
        return FormNumerics(instruction, device.name, None, None, saved(instruction, device, layers), layers)
    raise UsageError(
        f"{instruction.id} was not measured on {device.name}, and nobody has published its arithmetic there.",
        "no arithmetic",
        id=subject(instruction),
    )


def find(instruction: Instruction, device: Arch, layers: Layers) -> FormNumerics | None:
    """As `answer`; None where the arch does not have the form, and where nothing is known of it there."""
    if not instruction.target.on(device):
        return None
    sourced = models.measured(instruction, device.name, layers)
    published = published_row(instruction, device.name) if types_of(instruction).is_float else None
    if sourced is None and published is None:
        return None
    return FormNumerics(instruction, device.name, sourced, published, saved(instruction, device, layers), layers)


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


# as C++17
def header_of(instruction: Instruction, arch: str | None, layers: Layers) -> str:
    """The header; UsageError where the arithmetic was not measured, or is of integers."""
    return headers([instruction], arch, layers)


def headers(instructions: Sequence[Instruction], arch: str | None, layers: Layers) -> str:
    """One header of several instructions, as `header_of`."""
    from tcprobe.arithmetic.header import header

    return header([_entry(instruction, arch, layers) for instruction in instructions])


def _entry(instruction: Instruction, arch: str | None, layers: Layers) -> "Entry":
    rule = models.model(instruction, arch, layers)
    if not isinstance(rule, Arithmetic):
        raise UsageError(f"{instruction.id}: sums of integers are exact, up to 32 bits; the header covers floats only.")
    form = answer(instruction, arch, layers)
    words = f"{instruction.id} on {form.arch}; {form.evidence}"
    from tcprobe.arithmetic.header import Entry
    from tcprobe.probes.ptx import identifier

    return Entry(identifier(instruction.id), words, types_of(instruction), rule)


# the question

MOST_CASES = 64 << 20  # bytes of the file of --cases
Dot = str | None  # numbers or bits of a dot product


@checked
def numerics(
    name: Annotated[str, NameWords("INSTRUCTION...", "one")],
    arch: OneArch = None,
    *,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> FormNumerics:
    """Say what a multiply computes: which products enter one sum, what is cut, and how D is rounded.

    PTX leaves this open. tcprobe measured it on a GPU; for an arch that it did not measure, it takes what published
    research code says. --a and --b give D of one dot product with every step. --bound says how far a dot product can
    be from the exact one.
    \f
    The answer's `steps` and `bound` are these in Python; `tcprobe.numerics.multiply` computes.

    >>> import tcprobe
    >>> tcprobe.numerics("mma.m16n8k16.row.col.f32.f16.f16.f32").arch
    'sm_90'
    """
    folders, on = layers(results, only), arch_name(arch)
    plain, rounding = _rounding(name)
    try:
        found = answer(_one_arithmetic(names.resolve(plain, folders), on, folders), on, folders)
    except AmbiguousError as error:
        raise _with_rounding(error, name, rounding) from None
    if rounding and found.types.d != "f64":
        raise UsageError(f"{found.form.id} has no .{rounding}: PTX has it for multiplies of f64 alone.")
    return replace(found, rounding=rounding or "rn")


def _rounding(name: str) -> tuple[str, str | None]:
    """A name without the modifier that says how f64 is rounded, and that modifier."""
    said = re.findall(_ROUNDING, name)
    return re.sub(_ROUNDING, "", name), said[-1] if said else None


def _with_rounding(error: AmbiguousError, name: str, rounding: str | None) -> AmbiguousError:
    """The same, with choices that are to be asked with the modifier, too."""
    choices = [f"{choice} {rounding}" for choice in error.choices] if rounding else error.choices
    return AmbiguousError(str(error), name if rounding else error.name, choices)


_ROUNDING = r"(?:^|[ .])(" + "|".join(f64_rounding.ROUNDINGS) + r")(?=$|[ .])"


def _one_arithmetic(meaning: Meaning, name: str | None, layers: Layers) -> Instruction:
    """The instruction that a name means, or one of several with one arithmetic; AmbiguousError where they differ."""
    rows = meaning.some_instructions
    if len(rows) < 2:
        return meaning.instruction
    device = arch_row(name or models.MEASURED)
    known = [form for row in rows if (form := find(row, device, layers))]
    groups: dict[tuple[str, ...], list[str]] = {}
    for form in known:
        groups.setdefault(tuple(form.parameters), []).append(form.form.id)
    if not known:
        return meaning.instruction
    listed = "; ".join(some(ids, 1) for ids in groups.values())
    if len(groups) > 1:
        if chosen := likely.likeliest(meaning.name, list(groups.values())):
            return next(form.form for form in known if form.form.id == chosen)
        words = f"{quoted(meaning.name)} matches {len(known)} multiplies with {len(groups)} arithmetics: {listed}."
        raise AmbiguousError(words, meaning.name, [ids[0] for ids in groups.values()])
    note(f"{quoted(meaning.name)} matches {len(known)} multiplies, all with this arithmetic: {listed}")
    return known[0].form


def _check_ways(ways: dict[str, object], b: Dot, c: Dot, parts: int | None) -> None:
    """UsageError for several ways to ask, or parts of one."""
    given = [f"`{way}`" for way, value in ways.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined: give one of them.")
    if bool(ways["a"]) != bool(b) or (c and not ways["a"]):
        raise UsageError("a dot product needs `a` and `b`; `c` is 0 by default.")
    if parts is not None and ways["length"] is None:
        raise UsageError("`parts` needs `length`.")


@command(
    numerics,
    short="What a multiply computes, bit by bit.",
    json={
        "": NumericsAnswer,
        "--a": "tcprobe.ask.numeric_steps:DotAnswer",
        "--bound": "tcprobe.ask.numeric_steps:BoundAnswer",
    },
)
def print_numerics(
    found: FormNumerics,
    *,
    a: Annotated[Dot, Option("--a", "A of a dot product: k numbers, or bits such as 0x3c00.", "LIST")] = None,
    b: Annotated[Dot, Option("--b", "B, as A.", "LIST")] = None,
    c: Annotated[Dot, Option("--c", "C. Default: 0.", "VALUE")] = None,
    cases: Annotated[
        Path | None,
        Option(
            "--cases",
            'D of dot products, one per line: {"a": ["0x3c00", ...], "b": [...], "c": "0x0"}. - is standard input.',
            "FILE.jsonl",
            Named(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
        ),
    ] = None,
    length: Annotated[
        int | None, Option("--bound", "Print the error bound of a dot product of K products.", "K", Number(1))
    ] = None,
    parts: Annotated[
        int | None, Option("--split", "With --bound: k is cut into N parts, which are added in order.", "N", Number(1))
    ] = None,
    header: Annotated[bool, Option("--header", "Print the arithmetic as a C++17 header, for hosts and CUDA.")] = False,
    as_json: JsonOption = False,
) -> None:
    """One of: the C++ header, D of dot products in a file, an error bound, a dot product's steps, or the facts."""
    _check_ways({"a": a, "cases": cases, "length": length, "header": header}, b, c, parts)
    if header and as_json:
        raise UsageError("`as_json` does not apply to `header`, which prints C++.")
    if header:
        click.echo(header_of(found.form, found.arch, found.layers), nl=False)
    elif cases or length is not None or (a and b):
        _print_computed(found, cases, (length, parts or 1), (a or "", b or "", c or "0"), as_json)
    else:
        print_answer(found, as_json)
        if found.status == "contradicted":
            sys.exit(NoMajorityError.exit_code)


def _print_computed(
    found: FormNumerics, cases: Path | None, bound: tuple[int | None, int], product: tuple[str, str, str], as_json: bool
) -> None:
    """D of cases, an error bound of (length, parts), or a dot product's steps: what NumPy is needed for."""
    from tcprobe.ask import numeric_steps

    length, parts = bound
    if cases:
        for d in numeric_steps.cases(found.form, found.model, read_text(cases, MOST_CASES).splitlines()):
            click.echo(json.dumps(d))
    elif length is not None:
        error = numeric_steps.bound_error(found.form, found.model, length, parts)
        print_answer(numeric_steps.ErrorBound(found.form.id, error), as_json)
    else:
        case = numeric_steps.parse_case(found.form, *product)
        print_answer(numeric_steps.OneProduct(found.form, found.model, case), as_json)
