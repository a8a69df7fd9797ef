"""Integer expressions in `lane`, evaluated for all 32 lanes at once: parsed, never run as code.

>>> from tcprobe.layout.expression import values
>>> values("((lane & 7) << 7) + lane / 8 * 16")[:10]
(0, 128, 256, 384, 512, 640, 768, 896, 16, 144)

Syntax: numbers (12, 0x1f, 0b101), `lane`, parentheses, `~` and `-`, and with C's precedences `* / // %`, `+ -`, `<<
>>`, `&`, `^`, `|`. An expression is refused where C and Python, or signed and unsigned, would differ: division,
remainder or shift with a negative number, numbers with leading zeros. Length, nesting and the size of every value are
bounded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP

LONGEST = 2000  # characters
DEEPEST = 50  # parentheses and signs around one value
MOST_BITS = 62  # of every intermediate value

LaneValues = tuple[int, ...]
_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+|[A-Za-z_]\w*|<<|>>|//|[-+*/%&|^~()])")
_BINDS: dict[str, int] = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
_DO: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_SIGNS: dict[str, Callable[[int], int]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
VARIABLE = "the one variable is lane, 0 to 31"
_UNSIGNED = ("<<", ">>", "/", "//", "%")


class Token(NamedTuple):
    """A piece of the text ("" at its end), and the column where it starts, from 1."""

    text: str
    column: int


def values(text: str) -> LaneValues:
    """The value of `text` for lanes 0 to 31; UsageError with the column of what cannot be parsed or computed."""
    if len(text) > LONGEST:
        raise UsageError(f"an expression of {len(text)} characters; at most {LONGEST} are read.")
    reader = _Reader(_tokens(text))
    by_lane = reader.expression(1, 0)
    if reader.next.text:
        raise _error(reader.next, f"{reader.next.text!r} where the expression should end or continue with an operator")
    return by_lane


def _tokens(text: str) -> list[Token]:
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            column = position + len(text[position:]) - len(text[position:].lstrip())
            raise _error(Token("", column + 1), f"{text[column]!r} is not allowed in an expression; {VARIABLE}")
        tokens.append(Token(match[1], match.start(1) + 1))
        position = match.end()
    return [*tokens, Token("", len(text) + 1)]


class _Reader:
    """Precedence climbing over tokens; every method leaves `next` after what it has read."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = iter(tokens)
        self.next = next(self._tokens)

    def _take(self) -> Token:
        token = self.next
        self.next = next(self._tokens, token)
        return token

    def expression(self, least: int, depth: int) -> LaneValues:
        """Operands joined by operators that bind at least as tightly as `least`."""
        left = self._operand(depth)
        while _BINDS.get(self.next.text, 0) >= least:
            sign = self._take()
            right = self.expression(_BINDS[sign.text] + 1, depth)
            left = tuple(_apply(sign, lane, a, b) for lane, (a, b) in enumerate(zip(left, right, strict=True)))
        return left

    def _operand(self, depth: int) -> LaneValues:
        token = self._take()
        if depth > DEEPEST:
            raise _error(token, f"more than {DEEPEST} parentheses and signs inside each other")
        if token.text == "(":
            inside = self.expression(1, depth + 1)
            if self._take().text != ")":
                raise _error(token, "this parenthesis is not closed")
            return inside
        if token.text in _SIGNS:
            return tuple(_SIGNS[token.text](value) for value in self._operand(depth + 1))
        return tuple(range(WARP)) if token.text == "lane" else (_number(token),) * WARP


def _number(token: Token) -> int:
    if not token.text[:1].isdigit():
        raise _error(token, f"{token.text or 'the end'!r} where a number, `lane` or `(` should be; {VARIABLE}")
    if token.text[0] == "0" and token.text.isdigit() and len(token.text) > 1:
        raise _error(token, f"{token.text[:20]} has a leading zero, which is octal in C and nothing in Python")
    if len(token.text) > MOST_BITS + 2:
        raise _error(token, f"a number of {len(token.text)} digits")
    return _check_bits(token, 0, int(token.text, 0))


def _apply(sign: Token, lane: int, left: int, right: int) -> int:
    if sign.text in _UNSIGNED and (left < 0 or right < 0):
        raise _error(sign, f"{left} {sign.text} {right} in lane {lane}: of negative numbers, C and Python differ")
    if sign.text in ("/", "//", "%") and not right:
        raise _error(sign, f"division by zero in lane {lane}")
    if sign.text == "<<" and left.bit_length() + right > MOST_BITS:
        raise _error(sign, f"{left} << {right} in lane {lane} has more than {MOST_BITS} bits")
    return _check_bits(sign, lane, _DO[sign.text](left, right))


def _check_bits(token: Token, lane: int, value: int) -> int:
    if value.bit_length() > MOST_BITS:
        raise _error(token, f"a value of more than {MOST_BITS} bits in lane {lane}")
    return value


def _error(token: Token, words: str) -> UsageError:
    return UsageError(f"column {token.column} of the expression: {words}.")
