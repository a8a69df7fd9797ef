"""A dot product of one multiply step by step, dot products of files, and what cutting k another way changes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple

import msgspec
import numpy as np

from tcprobe import numerics
from tcprobe.arithmetic.floats import FORMATS, FloatFormat
from tcprobe.arithmetic.formats import FINITE, NAN, Decoded, bits_of, decode, values_of
from tcprobe.arithmetic.gemm import error_bound, gemm
from tcprobe.arithmetic.model import (
    NOTHING,
    Factors,
    Terms,
    align_terms,
    factor,
    in_f32,
    index_of_group,
    separate,
    summed,
)
from tcprobe.arithmetic.parameters import AFTER, BEFORE, Arithmetic, ElementTypes, Integers, types_of
from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.layout.arrays import Bits
from tcprobe.question.answers import Answer, plain
from tcprobe.values import Json

MOST_LINE = 1 << 16  # characters of a case
MOST_LENGTH = 1 << 18  # products of a bound, which is exact: its powers have as many bits
SEED = 1


class DotProduct(NamedTuple):
    """A dot product as bits: A and B of shape (k), C alone."""

    a: Bits
    b: Bits
    c: Bits


def parse_case(instruction: Instruction, a_text: str, b_text: str, c_text: str) -> DotProduct:
    """Lists of numbers, or of bits as 0x...; UsageError for what a type does not have."""
    kinds = types_of(instruction)
    first, second, own = (
        np.array([_bits(kinds, name, part.strip()) for part in text.split(",")])
        for name, text in zip(INPUTS, (a_text, b_text, c_text), strict=True)
    )
    numerics.check_length(instruction, len(first), len(second))
    if len(own) != 1:
        raise UsageError(f"C is one number, not {len(own)}.")
    return DotProduct(first, second, own[0])


def _bits(kinds: ElementTypes, name: str, text: str) -> np.uint64 | np.uint32:
    """One number as bits; no NaN."""
    kind = getattr(kinds, name)
    word = np.uint64 if kind == "f64" else np.uint32
    try:
        if "_" in text or not text.isascii():  # Python reads digits of every script, and 1_0 as 10
            raise ValueError
        if text.lower().startswith("0x"):
            bits = int(text, 16)
            if bits >> dtype(kind).bits:
                raise UsageError(f"{text} has more than the {dtype(kind).bits} bits of {kind}.")
        else:
            value = float(text)
            if math.isinf(value) and "inf" not in text.lower():
                raise UsageError(f"{name.upper()}: {text} is larger than every number of 64 bits.")
            values = np.array([value if kinds.is_float else int(text)])
            bits = int(numerics.bits_in(kinds, name, values)[0])
    except ValueError:
        raise UsageError(f"{name.upper()}: {text!r} is neither a number nor bits as 0x3c00.") from None
    if kind in FORMATS and decode(FORMATS[kind], np.array([bits], np.uint64))[3][0] == NAN:
        raise UsageError(f"{name.upper()}: {text} is NaN, which a case cannot have.")
    return word(bits)


def result_bits(instruction: Instruction, arithmetic: Arithmetic | Integers, dot: DotProduct) -> str:
    """D's bits as hex."""
    kinds = types_of(instruction)
    d = numerics.of_bits(kinds, arithmetic, tuple(np.asarray(part)[None] for part in dot))
    return dtype(kinds.d).hexadecimal(d[0])


def cases(
    instruction: Instruction, arithmetic: Arithmetic | Integers, lines: Iterable[str]
) -> Iterator[dict[str, str]]:
    """{"d": bits} of every line {"a": [bits], "b": [bits], "c": bits}; UsageError names the first bad line."""
    for number, line in zip(count(1), lines, strict=False):
        if not line.strip():
            continue
        try:
            yield {"d": result_bits(instruction, arithmetic, _case(instruction, line))}
        except UsageError as error:
            raise UsageError(f"line {number}: {error}") from None


def _case(instruction: Instruction, line: str) -> DotProduct:
    try:
        content = json.loads(line) if len(line) <= MOST_LINE else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or set(content) != {"a", "b", "c"}:
        raise UsageError('a case is {"a": ["0x3c00", ...], "b": [...], "c": "0x0"}.')
    lists = [content["a"], content["b"], [content["c"]]]
    if not all(isinstance(part, list) and part and all(isinstance(text, str) for text in part) for part in lists):
        raise UsageError('a and b are lists of bit strings such as "0x3c00", and c is one bit string.')
    return parse_case(instruction, *(",".join(part) for part in lists))


def steps(instruction: Instruction, arithmetic: Arithmetic | Integers, dot: DotProduct) -> Iterator[str]:
    """Every sum: its terms as they are aligned, what was cut, the exact sum, and what it is rounded to."""
    kinds = types_of(instruction)
    if isinstance(arithmetic, Arithmetic):
        yield from (_separate if arithmetic.fraction_bits is None else _sums)(kinds, arithmetic, dot)
    if isinstance(arithmetic, Arithmetic) and arithmetic.through_f32:
        yield f"rounded to {kinds.d}, {arithmetic.rounding}"
    d = result_bits(instruction, arithmetic, dot)
    value = numerics.values_of_d(kinds, np.array([int(d, 16)], np.uint64 if kinds.d == "f64" else np.uint32))[0]
    if kinds.d == "f16":
        value = values_of(FORMATS["f16"], np.array([int(d, 16)], np.uint16))[0]
    yield f"D = {d} = {value!s}"


def _separate(kinds: ElementTypes, arithmetic: Arithmetic, dot: DotProduct) -> Iterator[str]:
    """Products that are added by themselves: the sum with each that comes."""
    apart = arithmetic.c == BEFORE
    wide = "f32" if apart else kinds.d
    whole = msgspec.structs.replace(kinds, c=wide, d=wide)
    c = np.zeros(1, FORMATS[wide].word) if apart else np.asarray(dot.c)[None]
    for group in arithmetic.groups if apart else (tuple(chain.from_iterable(arithmetic.groups)),):
        for n, k in enumerate(group, 1):
            part = msgspec.structs.replace(arithmetic, groups=(group[:n],), through_f32=None)
            sum_ = separate(whole, part, (dot.a[None], dot.b[None], c))
            yield f"k {k}: sum {dtype(wide).hexadecimal(sum_[0])} = {values_of(FORMATS[wide], sum_)[0]!s}"
    if apart:
        ends = ", plus that of k ".join(f"{group[0]} to {group[-1]}" for group in arithmetic.groups)
        yield f"C plus the sum of k {ends}, to nearest even"


def _sums(kinds: ElementTypes, arithmetic: Arithmetic, dot: DotProduct) -> Iterator[str]:
    wide = "f32" if arithmetic.through_f32 else kinds.d
    arithmetic = in_f32(arithmetic) if arithmetic.through_f32 else arithmetic
    d, kept = FORMATS[wide], arithmetic.fraction_bits or 0
    factors = factor("a", kinds.a, arithmetic, dot.a[None]), factor("b", kinds.b, arithmetic, dot.b[None])
    own = np.asarray(dot.c)[None]
    c = decode(d, np.zeros(1, d.word)) if arithmetic.c == AFTER else factor("c", kinds.c, arithmetic, own)
    for number, group in enumerate(arithmetic.groups, 1):
        part = factors[0].at(index_of_group(group)), factors[1].at(index_of_group(group))
        terms, top = align_terms(arithmetic, part, c), int(align_terms(arithmetic, part, c).top[0])
        result_ = summed(d, arithmetic, part, c)
        beyond = _not_finite(group, part, c)
        if beyond:
            yield f"sum {number}: {', '.join(beyond)}; no other term counts"
            yield f"  {dtype(wide).hexadecimal(result_[0])} = {values_of(d, result_)[0]!s}"
            c = decode(d, result_)
            continue
        if top == NOTHING:
            yield f"sum {number}: every term is zero"
        else:
            yield f"sum {number}: top 2^{top}, terms are multiples of 2^{top - kept}"
            yield from _terms(group, terms, part, kept)
            yield f"  sum {int(terms.products[0].sum() + terms.c[0])} x 2^{top - kept}"
        yield f"  rounded {arithmetic.rounding}: {dtype(wide).hexadecimal(result_[0])} = {values_of(d, result_)[0]!s}"
        c = decode(d, result_)
    if arithmetic.c == AFTER:
        yield "C is added last, to nearest even"


def _not_finite(group: Sequence[int], factors: Factors, addend: Decoded) -> list[str]:
    """The terms that are infinite or no numbers: then the others, and what is cut of them, do not matter."""
    a, b = (x.at(0) for x in factors)
    zero_a, zero_b = ((x.kind == FINITE) & (x.significand == 0) for x in (a, b))
    finite = (a.kind == FINITE) & (b.kind == FINITE)
    no_number = (a.kind == NAN) | (b.kind == NAN) | (~finite & (zero_a | zero_b))
    terms = [
        f"k {group[int(n)]}: {'nan' if no_number[n] else '-inf' if a.negative[n] ^ b.negative[n] else 'inf'}"
        for n in np.flatnonzero(~finite)
    ]
    if addend.kind[0] != FINITE:
        terms.append(f"C: {'nan' if addend.kind[0] == NAN else '-inf' if addend.negative[0] else 'inf'}")
    return terms


def _terms(group: Sequence[int], terms: Terms, factors: Factors, kept: int) -> Iterator[str]:
    a, b = factors
    exact = a.significand[0].astype(object) * b.significand[0].astype(object)
    for n, k in enumerate(group):
        term = int(terms.products[0, n])
        shift = int(terms.top[0]) - kept - int(a.exponent[0, n] + b.exponent[0, n]) + a.fraction + b.fraction
        if exact[n]:
            lost = shift > 0 and abs(int(exact[n])) & ((1 << min(shift, 4096)) - 1)
            yield f"  k {k}: {term}{' (low bits cut)' if lost else ''}"
    if terms.c[0]:
        yield f"  C: {int(terms.c[0])}"


class DotAnswer(Answer):
    """D of a dot product, bits as hex."""

    d: str


class OneProduct(NamedTuple):
    """A dot product of a form: every step in words, D's bits as JSON."""

    form: Instruction
    model: Arithmetic | Integers
    dot: DotProduct

    @property
    def in_words(self) -> Iterator[str]:
        """The steps."""
        return steps(*self)

    def to_json(self) -> Json:
        """D's bits."""
        return plain(DotAnswer(result_bits(*self)))


class BoundAnswer(Answer):
    """The error bound of a dot product: factor x (|C| + sum of |a x b|)."""

    id: str
    length: int
    parts: int
    factor: float
    samples: int
    measured: float | None
    changed: int | None


class ErrorBound(NamedTuple):
    """How far a dot product can be from the exact one, as `bound_error` says it."""

    id: str
    bound: Json

    @property
    def in_words(self) -> Iterator[str]:
        """The bound, what random products reach of it, and what cutting k changes."""
        bound = self.bound
        parts = f" in {bound['parts']} parts" if bound["parts"] > 1 else ""
        most = f"|D - exact| <= {bound['factor']:.3g} x (|C| + sum of |a x b|)"
        yield f"{bound['length']} products{parts}, error bound: {most}"
        if bound["samples"]:
            yield f"largest of {bound['samples']} random ones: {bound['measured']:.3g}"
        if parts:
            yield f"results that differ from those in one part: {bound['changed']}"

    def to_json(self) -> Json:
        return plain(BoundAnswer(self.id, **self.bound))


def bound_error(instruction: Instruction, arithmetic: Arithmetic | Integers, length: int, parts: int) -> Json:
    """The error bound of a dot product of so many products, and what a sample of random ones shows.

    `factor` times |C| + sum of |a x b| bounds the error; `measured` is the largest of the sample, `changed` how many
    of it are other bits with k in one part.
    """
    if isinstance(arithmetic, Integers):
        raise UsageError(f"{instruction.id}: sums of integers are exact, up to 32 bits.")
    if length > MOST_LENGTH:
        raise UsageError(f"{length} products: a bound is of at most {MOST_LENGTH}.")
    kinds = types_of(instruction)
    factor_ = float(error_bound(kinds, arithmetic, length, parts))
    if instruction.metadata:
        return {"length": length, "parts": parts, "factor": factor_, "samples": 0, "measured": None, "changed": None}
    a, b, split = _sample(kinds, arithmetic, length, parts)
    whole = split if parts == 1 else _gemm(kinds, arithmetic, a, b)
    exact = [x.astype(np.float64) for x in (a, b)]
    scale = abs(exact[0]) @ abs(exact[1])
    error = abs(split.astype(np.float64) - exact[0] @ exact[1]) / scale
    return {
        "length": length,
        "parts": parts,
        "factor": factor_,
        "samples": int(error.size),
        "measured": float(error.max()),
        "changed": int(np.count_nonzero(whole != split)),
    }


def _sample(kinds: ElementTypes, arithmetic: Arithmetic, length: int, parts: int) -> tuple[Bits, Bits, Bits]:
    """Random A and B, and D with k in so many parts, which are added in order."""
    rng, side = np.random.default_rng(SEED), max(8, 64 // max(1, length // 512))
    a, b = (
        _random(FORMATS[kind], rng, shape) for kind, shape in ((kinds.a, (side, length)), (kinds.b, (length, side)))
    )
    step = length // parts
    split = _gemm(kinds, arithmetic, a[:, :step], b[:step])
    for start in range(step, length, step):
        split = (split + _gemm(kinds, arithmetic, a[:, start : start + step], b[start : start + step])).astype(
            split.dtype
        )
    return a, b, split


def _random(floats: FloatFormat, rng: np.random.Generator, shape: Sequence[int]) -> Bits:
    values = rng.normal(size=shape)
    if floats.name == "tf32":
        return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(floats.numpy)


def _gemm(kinds: ElementTypes, arithmetic: Arithmetic, a_values: Bits, b_values: Bits) -> Bits:
    c = np.zeros((len(a_values), b_values.shape[1]), FORMATS[kinds.c].word)
    bits = bits_of(FORMATS[kinds.a], a_values), bits_of(FORMATS[kinds.b], b_values), c
    return values_of(FORMATS[kinds.d], gemm(kinds, arithmetic, bits))
