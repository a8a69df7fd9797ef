"""Conditions and values in row and col: parsed, never run as code, and linear, so that few instructions decide them.

>>> from tcprobe.ask.reduce.condition import condition, linear
>>> linear("2 * row - col + 3").terms
(('col', -1), ('row', 2))
>>> str(condition("row + row0 >= col and col < 9"))
'(row + row0 - col >= 0 && col - 9 < 0)'

Whole numbers, `row`, `col` and other names (they become arguments), `+ -`, `*` by a number, comparisons, `and or not`
or `&& || !`, parentheses. Bounded in length, nesting and the size of numbers; what is not linear is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.ask.reduce.number import NAMED, TOKEN, number, value
from tcprobe.code.names import ARGUMENT, require_legal
from tcprobe.errors import UsageError
from tcprobe.text import quoted

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
class Joined:
    """`sign` is &&, || or, with one part, !."""

    sign: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"!{self.parts[0]}" if self.sign == "!" else f"({f' {self.sign} '.join(map(str, self.parts))})"


Condition = Comparison | Joined


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
    _check_names(names(parsed))
    return parsed


def _check_names(free_names: Sequence[str]) -> None:
    """UsageError where they cannot be arguments of the emitted function."""
    if len(free_names) > MOST_NAMES:
        words = f"{len(free_names)} names, at most {MOST_NAMES}"
        raise UsageError(f"{quoted(', '.join(free_names))} cannot be arguments: {words}.")
    for name in free_names:
        require_legal(name, ARGUMENT, used=[name] if _OWN.fullmatch(name) else ())


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
        return parts[0] if len(parts) == 1 else Joined(sign, tuple(self._condition(p) for p in parts))

    def _negation(self, depth: int) -> Condition | Linear:
        self._check(depth)
        if self.next == "!":
            self._take()
            return Joined("!", (self._condition(self._negation(depth + 1)),))
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
