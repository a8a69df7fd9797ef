"""Elements changed by their row and col: numbers and conditions as people write them, and CUDA with few instructions.

>>> literal(number("-7"), "f32"), literal(number("1e30"), "f32"), literal(number("-INFINITY"), "f32")
('-7', '1e+30f', '-__int_as_float(0x7f800000)')
>>> linear("2 * row - col + 3").terms
(('col', -1), ('row', 2))
>>> str(condition("row + row0 >= col and col < 9"))
'(row + row0 - col >= 0 && col - 9 < 0)'

Whole numbers, `row`, `col` and other names (they become arguments), `+ -`, `*` by a number, comparisons, `and or not`
or `&& || !`, parentheses. Parsed, never run as code, and linear; bounded in length, nesting and the size of numbers;
what is not linear is refused.

Where an element's row and col are those of the lane's first element plus a number, a comparison of all of a lane's
elements needs one value of the lane, and each element one comparison with a number; what holds in all lanes or in none
is decided here, and equal comparisons are made once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.ask.reduce.reduction import require_elements
from tcprobe.code.cuda import DeviceFunction, Parameter, fragment_title, holder, origin
from tcprobe.code.names import ARGUMENT, FUNCTION, require_legal
from tcprobe.errors import UsageError
from tcprobe.fit import fitted
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import Table
from tcprobe.question.answers import Answer, plain
from tcprobe.store.cell import Cell
from tcprobe.text import Described, escaped, quoted
from tcprobe.values import Json

TOKEN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?(?![A-Za-z0-9_.])"
NAMED = ("inf", "infinity", "nan")
INT = (1 << 31) - 1
_NUMBER = re.compile(rf"\s*([+-]?)\s*({TOKEN}|{'|'.join(NAMED)})\s*", re.IGNORECASE)
# CUDA's headers write them so: NVRTC has no INFINITY, which is <math.h>'s
_BITS = {
    "f32": {"inf": "__int_as_float(0x7f800000)", "nan": "__int_as_float(0x7fffffff)"},
    "f64": {"inf": "__longlong_as_double(0x7ff0000000000000ll)", "nan": "__longlong_as_double(0x7fffffffffffffffll)"},
}


def value(token: str) -> float:
    """The value of a token without a sign."""
    return float(token.rstrip("fF") if token[0] in ".0123456789" else token)


def number(text: str) -> int | float | None:
    """The number that a whole text is, an int where it is written as one; None where it is something else.

    UsageError for one that is beyond all finite numbers.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, token = -1 if match[1] == "-" else 1, match[2]
    size = value(token)
    if math.isinf(size) and token[0] in ".0123456789":
        raise UsageError(f"{quoted(text[:40])} is a number too large to hold; infinity is inf or -inf.")
    whole = token.isdigit() and -INT - 1 <= sign * size <= INT
    return sign * (int(size) if whole else size)


def literal(constant: float, kind: str) -> str:
    """The number in C++, for elements of a type; UsageError where the type does not hold it."""
    if isinstance(constant, int):
        _check_range(constant, kind)
        return str(constant)
    if not (dtype(kind).is_float or _is_bits(kind)):
        most = _whole(kind)[1]
        raise UsageError(
            f"{quoted(str(constant))} is not of type {kind}: these elements are whole numbers up to {most}."
        )
    wide = "f64" if kind == "f64" else "f32"
    if not math.isfinite(constant):
        name = "nan" if math.isnan(constant) else "inf"
        if kind in FORMATS and FORMATS[kind].special not in ("ieee", name):
            raise UsageError(f"{kind} has no {'NaN' if name == 'nan' else 'infinity'}.")
        return ("-" if constant < 0 else "") + _BITS[wide][name]
    _check_range(constant, kind)
    return f"{constant!r}{'' if wide == 'f64' else 'f'}"


def _check_range(constant: float, kind: str) -> None:
    """UsageError for a number that is too large, or too close to zero, for a type; what is only bits may be an f32."""
    row = dtype(kind)
    if row.is_float or _is_bits(kind):
        most = FORMATS[kind if kind in FORMATS else "f32"].largest
        wide = FORMATS["f64" if kind == "f64" else "f32"].largest
        if abs(constant) > most or (constant and abs(constant) < 1 / wide) or (constant < 0 and not row.is_signed):
            raise UsageError(
                f"{quoted(str(constant))} is out of the range of {kind}, up to {most:g}; infinity is inf or -inf."
            )
        return
    low, high = _whole(kind)
    if not low <= constant <= high:
        raise UsageError(f"{constant} is out of the range of {kind}, {low} to {high}.")


def _whole(kind: str) -> tuple[int, int]:
    """The least and the largest whole number of a type such as s8."""
    bits = dtype(kind).bits
    return (-1 << bits - 1, (1 << bits - 1) - 1) if kind.startswith("s") else (0, (1 << bits) - 1)


def _is_bits(kind: str) -> bool:
    return not dtype(kind).is_float and kind.startswith("b")


LONGEST, DEEPEST, MOST, MOST_NAMES = 500, 30, 1 << 20, 8
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,30}"
_TOKEN = re.compile(rf"\s*({TOKEN}|{_NAME}|&&|\|\||[<>=!]=|[<>!+*()-])")
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_COMPARE: dict[str, Callable[[int], bool]] = {
    "<": lambda n: n < 0,
    "<=": lambda n: n <= 0,
    ">": lambda n: n > 0,
    ">=": lambda n: n >= 0,
    "==": lambda n: n == 0,
    "!=": lambda n: n != 0,
}
# what the emitted function has for itself
_OWN = re.compile(r"x|lane|thread|fill|T|[dc][0-9]+")


class Linear(NamedTuple):
    """A sum of names times numbers, by name, and a number."""

    terms: tuple[tuple[str, int], ...]
    number: int

    def at(self, assignment: Mapping[str, int]) -> int:
        """Its value; names without an assignment count as 0."""
        return sum(assignment.get(name, 0) * factor for name, factor in self.terms) + self.number

    @property
    def names(self) -> set[str]:
        """What it needs."""
        return {name for name, _ in self.terms}

    def __str__(self) -> str:
        text = "".join(_term(name, factor) for name, factor in sorted(self.terms, key=lambda term: -term[1]))
        text += f" {'-' if self.number < 0 else '+'} {abs(self.number)}" if self.number or not text else ""
        return text.removeprefix(" + ").removeprefix(" ") if not text.startswith(" - ") else "-" + text[3:]


@dataclass(frozen=True)
class Comparison:
    """`side` compared with zero."""

    side: Linear
    sign: str

    def __str__(self) -> str:
        return f"{self.side} {self.sign} 0"


@dataclass(frozen=True)
class Compound:
    """`sign` is &&, || or, with one part, !."""

    sign: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"!{self.parts[0]}" if self.sign == "!" else f"({f' {self.sign} '.join(map(str, self.parts))})"


Condition = Comparison | Compound


def holds(condition: Condition, assignment: Mapping[str, int]) -> bool:
    """Whether it holds for numbers by name."""
    if isinstance(condition, Comparison):
        return _COMPARE[condition.sign](condition.side.at(assignment))
    truths = [holds(part, assignment) for part in condition.parts]
    return not truths[0] if condition.sign == "!" else all(truths) if condition.sign == "&&" else any(truths)


def mention_order(used: Container[str], *texts: str | None) -> list[str]:
    """Names in the order in which texts, one after the other, mention them first."""
    mentioned = dict.fromkeys(name for text in texts for name in re.findall(_NAME, text or ""))
    return [name for name in mentioned if name in used]


def names(expression: Condition | Linear) -> list[str]:
    """The names other than row and col, sorted."""
    if isinstance(expression, Linear):
        return sorted(expression.names - {"row", "col"})
    inside = [expression.side] if isinstance(expression, Comparison) else expression.parts
    return sorted({name for part in inside for name in names(part)})


def condition(text: str) -> Condition:
    """The condition; UsageError says what cannot be read, and at which column."""
    parsed = None if number(text) is not None else _parse(text)
    if isinstance(parsed, Linear) and parsed.terms:
        raise UsageError(f"{quoted(text)} is compared with nothing: give a condition, such as 'row >= col'.")
    if parsed is None or isinstance(parsed, Linear):
        raise UsageError(f"{quoted(text)} is a number, not a condition such as 'row >= col'.")
    return parsed


def linear(text: str) -> Linear:
    """The value; UsageError as `condition`."""
    parsed = _parse(text)
    if not isinstance(parsed, Linear):
        raise UsageError(f"{quoted(text)} is a condition, not a value such as 'row * 16 + col'.")
    return parsed


def _parse(text: str) -> Condition | Linear:
    reader = _Parser(text)
    parsed = reader.any(0)
    reader.end()
    free_names = names(parsed)
    if len(free_names) > MOST_NAMES:
        words = f"{len(free_names)} names, at most {MOST_NAMES}"
        raise UsageError(f"{quoted(', '.join(free_names))} cannot be arguments: {words}.")
    for name in free_names:
        require_legal(name, ARGUMENT, used=[name] if _OWN.fullmatch(name) else ())
    return parsed


class _Parser:
    """One method a level of precedence; each leaves `next` behind what it read."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise UsageError(f"a condition of {len(text)} characters; at most {LONGEST} are read.")
        self._text, self._at = text, 0
        self.next = ""
        self._take()

    def _take(self) -> str:
        token, rest = self.next, self._text[self._at :]
        match = _TOKEN.match(rest)
        if match is None and rest.strip():
            raise self._error(f"{rest.strip()[:10]!r} is not allowed in a condition")
        self._at += match.end() if match else len(rest)
        self.next = _WORDS.get(match[1], match[1]) if match else ""
        return token

    def end(self) -> None:
        """UsageError unless all is read."""
        if self.next:
            raise self._error(f"{self.next!r} where the condition should end")

    def any(self, depth: int) -> Condition | Linear:
        """Parts joined by ||."""
        return self._join("||", lambda: self._join("&&", lambda: self._negation(depth)))

    def _join(self, sign: str, parse_part: Callable[[], Condition | Linear]) -> Condition | Linear:
        parts = [parse_part()]
        while self.next == sign:
            self._take()
            parts.append(parse_part())
        return parts[0] if len(parts) == 1 else Compound(sign, tuple(self._condition(p) for p in parts))

    def _negation(self, depth: int) -> Condition | Linear:
        self._check(depth)
        if self.next == "!":
            self._take()
            return Compound("!", (self._condition(self._negation(depth + 1)),))
        left = self._sum(depth)
        if self.next not in _COMPARE:
            return left
        sign = self._take()
        right = self._number(self._sum(depth))
        comparison = Comparison(self._plus(self._number(left), right, -1), sign)
        if self.next in _COMPARE:
            raise self._error("two comparisons in a row; join them with `and`")
        return comparison

    def _sum(self, depth: int) -> Condition | Linear:
        left = self._product(depth)
        while self.next in ("+", "-"):
            factor = 1 if self._take() == "+" else -1
            left = self._plus(self._number(left), self._number(self._product(depth)), factor)
        return left

    def _product(self, depth: int) -> Condition | Linear:
        left = self._atom(depth)
        while self.next == "*":
            self._take()
            a, b = self._number(left), self._number(self._atom(depth))
            if a.terms and b.terms:
                raise self._error("a product of two names is not linear")
            scaled, factor = (a, b.number) if a.terms else (b, a.number)
            left = self._plus(Linear((), 0), scaled, factor)
        return left

    def _atom(self, depth: int) -> Condition | Linear:
        self._check(depth)
        token = self._take()
        if token == "(":
            inside = self.any(depth + 1)
            if self._take() != ")":
                raise self._error("a parenthesis is not closed")
            return inside
        if token in ("-", "+"):
            return self._plus(Linear((), 0), self._number(self._atom(depth + 1)), -1 if token == "-" else 1)
        if token.casefold() in NAMED or token[:1] in tuple(".0123456789"):
            return Linear((), self._whole(token))
        if token[:1].isalpha() or token[:1] == "_":
            return Linear(((token, 1),), 0)
        raise self._error(f"{token or 'the end'!r} where a number, row or col should be")

    def _whole(self, token: str) -> int:
        """A number that rows and columns may be compared with."""
        if not abs(value(token)) <= MOST:
            raise self._error(f"{token!r} is not allowed in a condition: a number above {MOST}")
        if not value(token).is_integer():
            raise self._error(f"{token!r} is not allowed in a condition: it is not a whole number")
        return int(value(token))

    def _plus(self, augend: Linear, addend: Linear, factor: int) -> Linear:
        terms = dict(augend.terms)
        for name, times in addend.terms:
            terms[name] = terms.get(name, 0) + factor * times
        kept = tuple(sorted((name, times) for name, times in terms.items() if times))
        return self._check_bound(Linear(kept, augend.number + factor * addend.number))

    def _check_bound(self, linear_value: Linear) -> Linear:
        if max(abs(linear_value.number), *(abs(times) for _, times in linear_value.terms), 0) > MOST:
            raise self._error(f"a number above {MOST}")
        return linear_value

    def _number(self, parsed: Condition | Linear) -> Linear:
        if not isinstance(parsed, Linear):
            raise self._error("a condition where a number should be")
        return parsed

    def _condition(self, parsed: Condition | Linear) -> Condition:
        if isinstance(parsed, Linear):
            what = "a value that is compared with nothing" if parsed.terms else "a number"
            raise self._error(f"{what} where a condition should be")
        return parsed

    def _check(self, depth: int) -> None:
        if depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} levels")

    def _error(self, words: str) -> UsageError:
        return UsageError(f"column {self._at} of {quoted(self._text)}: {words}.")


def _term(name: str, factor: int) -> str:
    return f" {'-' if factor < 0 else '+'} {name if abs(factor) == 1 else f'{abs(factor)} * {name}'}"


SIGNS = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class MaskedAnswer(Answer):
    """What reduce --mask and --fill make."""

    id: str
    arch: str
    source: str
    evidence: str
    mask: str | None
    fill: str | None
    costs: dict[str, int]
    code: str


@dataclass(frozen=True, repr=False)
class Masked(Described):
    """The CUDA `code` that masks or fills, and how many comparisons and selects it has a lane."""

    prints_code = True

    cell: Cell
    mask: str | None
    fill: str | None
    code: str
    costs: dict[str, int]

    @property
    def in_words(self) -> Iterator[str]:
        """What the code does, and the table that it was made from."""
        yield fragment_title(self.cell)
        yield from self.words()
        yield origin(self.cell)

    def words(self) -> Iterator[str]:
        """What becomes of an element, and what it costs."""
        if self.mask is not None:
            compare, select = self.costs["compare"], self.costs["select"]
            yield f"keeps where {escaped(self.mask)}; per lane: {compare} comparisons, {select} selects"
        else:
            yield f"x[i] becomes {escaped(self.fill or '')}"

    def to_json(self) -> Json:
        answer = MaskedAnswer.of(
            self, id=self.cell.fragment.id, arch=self.cell.arch, source=self.cell.source, evidence=self.cell.evidence
        )
        return plain(answer)


def mask_fragment(cell: Cell, mask: str | None, fill: str | None, name: str = "mask") -> Masked:
    """Code for a fragment: where `mask` does not hold the value `fill`, an argument without one; `fill` alone: all.

    UsageError where the table is not a whole fragment's or has no closed form, and for what cannot be read.
    """
    if mask is None and fill is None:
        raise UsageError("give `over`, or `mask` and `fill`.")
    require_elements(cell, any(re.search(r"\bcol\b", text) for text in (mask, fill) if text))
    require_legal(name, FUNCTION, used="T")
    if None in cell.table.cells:
        raise UsageError(f"{cell.fragment.id} on {cell.arch} has unused slots.")
    maker, value = _Writer(cell.table), _value(fill, cell.fragment.type)
    kept_where = condition(mask) if mask is not None else None
    lines = maker.selects(kept_where, value) if kept_where else maker.fills(value)
    used = {*(names(kept_where) if kept_where else ()), *(names(value) if isinstance(value, Linear) else ())}
    parameters = _parameters(cell, mask, fill, mention_order(used, mask, fill))
    constant = (f"const T fill = T({value});",) if isinstance(value, str) else ()
    body = (*constant, *maker.before(), *lines)
    code = DeviceFunction(name, parameters, body, cell.fragment.threads, (origin(cell),))
    return Masked(cell, mask, fill, str(code), maker.costs)


Value = Linear | str | None  # what an element becomes: by row and col, C++ of a number, an argument


def _value(fill: str | None, kind: str) -> Value:
    if fill is None:
        return None
    constant = number(fill)
    return linear(fill) if constant is None else literal(constant, kind)


def _parameters(cell: Cell, mask: str | None, fill: str | None, named: list[str]) -> tuple[Parameter, ...]:
    """x, the fill without a value of its own, and the other names in the order in which they are used first."""
    elements = cell.table.elements
    kept = f", kept where {escaped(mask)}" if mask is not None else ""
    x = Parameter(f"T (&x)[{elements}]", f"the {elements} elements of a {holder(cell.fragment.threads)}{kept}")
    parameters = [x]
    if fill is None:
        parameters.append(Parameter("T fill", "what the others become"))
    where = " and ".join(option for option, text in (("--mask", mask), ("--fill", fill)) if text is not None)
    order = "; names are arguments in the order of their first use" if len(named) > 1 else ""
    parameters += [Parameter(f"int {name}", f"as in {where}{order}") for name in named]
    return tuple(parameters)


@dataclass
class _Writer:
    """Collects the lane's values and the comparisons that elements share."""

    table: Table
    costs: dict[str, int] = field(default_factory=lambda: {"compare": 0, "select": 0})
    _bases: dict[str, str] = field(default_factory=dict)
    _conditions: dict[str, str] = field(default_factory=dict)

    def before(self) -> list[str]:
        """The statements that come first."""
        values = [f"const int {name} = {text};" for text, name in self._bases.items()]
        return values + [f"const bool {name} = {text};" for text, name in self._conditions.items()]

    def fills(self, filling: Value) -> list[str]:
        """A line for each element."""
        return [f"x[{i}] = {self._other(filling, i)};" for i in range(self.table.elements)]

    def selects(self, condition: Condition, filling: Value) -> list[str]:
        """A line for each element that is not always kept."""
        lines = []
        for i in range(self.table.elements):
            kept = self._truth(condition, i)
            other = self._other(filling, i)
            if kept == "false":
                lines.append(f"x[{i}] = {other};")
            elif kept != "true":
                self.costs["select"] += 1
                if kept not in self._conditions:
                    self._conditions[kept] = f"c{len(self._conditions)}"
                    self.costs["compare"] += 1 + kept.count("&&") + kept.count("||")
                lines.append(f"x[{i}] = {self._conditions[kept]} ? x[{i}] : {other};")
        return lines

    def _other(self, filling: Value, i: int) -> str:
        """What an element becomes, as C."""
        if not isinstance(filling, Linear):
            return "fill"
        base, constant = self._split(filling, i)
        moved = f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant and base else ""
        return f"T({base + moved or constant})"

    def _truth(self, condition: Condition, i: int) -> str:
        """A condition for element i in C; true or false where it is the same in all lanes."""
        if not names(condition):
            truths = {holds(condition, self._at(lane, i)) for lane in range(self.table.threads)}
            if len(truths) == 1:
                return str(truths.pop()).lower()
        if isinstance(condition, Comparison):
            base, constant = self._split(condition.side, i)
            return f"{base} {condition.sign} {-constant}"
        parts = [self._truth(part, i) for part in condition.parts]
        if condition.sign == "!":
            return {"true": "false", "false": "true"}.get(parts[0], f"!({parts[0]})")
        ends, passes = ("false", "true") if condition.sign == "&&" else ("true", "false")
        open_ = [part for part in dict.fromkeys(parts) if part != passes]
        if ends in open_:
            return ends
        return (
            passes if not open_ else f" {condition.sign} ".join(open_ if len(open_) == 1 else [f"({p})" for p in open_])
        )

    def _split(self, linear: Linear, i: int) -> tuple[str, int]:
        """(name of the lane's value, what element i adds to it): a value of its own where the two do not part."""
        moves = self._numbers(linear, i) - self._numbers(linear, 0)
        moved = int(moves[0]) if (moves == moves[0]).all() else None
        representative = 0 if moved is not None else i
        text = self._text(Linear(linear.terms, 0), representative)
        total = linear.number + (moved or 0)
        if text.lstrip("-").isdigit():
            return "", total + int(text)
        return self._bases.setdefault(text, f"d{len(self._bases)}"), total

    def _numbers(self, linear: Linear, i: int) -> Ints:
        """What it is for element i of every lane; names other than row and col count as 0."""
        columns = {name: np.array(self.table.values[name][i :: self.table.elements]) for name in ("row", "col")}
        zero: Ints = np.zeros(self.table.threads, int)
        return sum((columns[name] * factor for name, factor in linear.terms if name in columns), zero)

    def _at(self, lane: int, i: int) -> dict[str, int]:
        cell = self.table.cells[lane * self.table.elements + i]
        assert cell is not None
        return {"row": cell[0], "col": cell[1]}

    def _text(self, linear: Linear, i: int) -> str:
        """The value of element i of a lane in C."""
        constant, parts = 0, []
        for name, factor in sorted(linear.terms, key=lambda term: -term[1]):
            text = self._index(name, i) if name in ("row", "col") else name
            if text.isdigit():
                constant += factor * int(text)
            else:
                parts.append(f"{'-' if factor < 0 else '+'} " + (f"{abs(factor)} * " if abs(factor) > 1 else "") + text)
        joined = " ".join(parts).removeprefix("+ ")
        joined = f"-{joined[2:]}" if joined.startswith("- ") else joined
        return f"{joined} + {constant}" if joined and constant else joined or str(constant)

    def _index(self, name: str, i: int) -> str:
        """The row or col of element i as a formula in the lane."""
        column = self.table.values[name][i :: self.table.elements]
        if len(set(column)) == 1:
            return str(column[0])
        formula = fitted(self.table).formulas[name]
        if formula is None:
            raise UsageError("no closed form of row and col, so no code can be made.")
        terms = tuple(term for term in formula.terms if getattr(term, "variable", "lane") == "lane")
        if not formula.linear:
            raise UsageError("row and col are not linear in lane and i, so no code can be made.")
        rest = replace(formula, terms=tuple(term for term in formula.terms if term not in terms))
        moved = rest(lane=0, i=i)
        of_lane = f"({replace(formula, terms=terms, constant=0)})"
        return f"({of_lane} {'^' if formula.overlapping else '+'} {moved})" if moved else of_lane
