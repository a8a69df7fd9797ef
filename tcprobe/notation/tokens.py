"""Pieces of a layout's text, and a reader that takes them one by one; every error says the column.

>>> reader = Reader("((4,8),2):(1,2)")
>>> reader.take().text, reader.take().text, reader.number(), reader.next.column
('(', '(', 4, 4)

What a text may hold is bounded: its length, how deep it nests, and every number, which is below 2**31.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn, TypeVar

from tcprobe.errors import UsageError
from tcprobe.text import quoted

LONGEST = 20_000  # characters of a text
DEEPEST = 40  # brackets inside each other
MOST_NUMBER = 1 << 31
MOST_ITEMS = 4096  # of a list
_TOKEN = re.compile(r"\s*(?:(_?[0-9]+b?)(?![\w.])|([A-Za-z_#][\w.]*(?:::[A-Za-z_]\w*)*)|([()\[\]{}<>,:=\-]))")
T = TypeVar("T")


class Token(NamedTuple):
    """A number, a name or a mark of the text ("" at its end), and the column where it starts, from 1."""

    text: str
    column: int

    @property
    def is_number(self) -> bool:
        """Whether it is digits, as CuTe prints static ones with _ before them too."""
        return self.text.lstrip("_").isdigit() and bool(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it is a name."""
        return bool(self.text) and (self.text[0].isalpha() or self.text[0] in "_#") and not self.is_number


class Reader:
    """Tokens of a text; `next` is the one that `take` gives."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise UsageError(f"a layout of {len(text)} characters; at most {LONGEST} are read.")
        self.text = text
        self._tokens = _tokens(text)
        self.next = next(self._tokens)
        self._depth = 0

    def take(self) -> Token:
        """The next token."""
        token = self.next
        self.next = next(self._tokens, token)
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these texts."""
        return self.take() if self.next.text in texts and self.next.text else None

    def expect(self, text: str, where: str = "") -> Token:
        """The next token, which must be that text."""
        if self.next.text != text:
            self.fail(f"{_shown(self.next)} where {text!r} should be{where}")
        return self.take()

    def name(self, what: str) -> Token:
        """The next token, which must be a name."""
        if not self.next.is_name:
            self.fail(f"{_shown(self.next)} where {what} should be")
        return self.take()

    def number(self, least: int = 0) -> int:
        """The next token, a number, with _ before it or as Int<4>{} too."""
        if self.next.text.rpartition("::")[2] in ("Int", "C", "_Int"):
            self.take()
            self.expect("<")
            value = self.number(least)
            self.expect(">")
            self.braces()
            return value
        if not self.next.is_number:
            self.fail(f"{_shown(self.next)} where a number should be")
        digits = self.next.text.lstrip("_")
        if len(digits) > 10 or int(digits) >= MOST_NUMBER:
            self.fail(f"{digits[:20]} is not below 2**31")
        if int(digits) < least:
            self.fail(f"{digits} is below {least}")
        self.take()
        self.braces()
        return int(digits)

    def braces(self) -> None:
        """Nothing, or the {} with which C++ makes a value of a type."""
        if self.accept("{"):
            self.expect("}")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Inside a bracket; UsageError where that is too deep."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"more than {DEEPEST} brackets inside each other")
        yield
        self._depth -= 1

    def items(self, close: str, item: Callable[[], T]) -> list[T]:
        """Items with commas between them up to a closing mark, which is taken."""
        found: list[T] = []
        with self.nested():
            while not self.accept(close):
                if found:
                    self.expect(",", f", or {close!r}")
                    if self.accept(close):
                        break
                if len(found) >= MOST_ITEMS:
                    self.fail(f"more than {MOST_ITEMS} items")
                found.append(item())
        return found

    def end(self) -> None:
        """UsageError unless all is read."""
        if self.next.text:
            self.fail(f"{_shown(self.next)} where the layout should end")

    def fail(self, words: str, at: Token | None = None) -> NoReturn:
        """UsageError with the column of a token, the next one without."""
        raise UsageError(f"column {(at or self.next).column} of the layout: {words}.")


def _shown(token: Token) -> str:
    return quoted(token.text) if token.text else "the end"


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            column = position + len(text[position:]) - len(text[position:].lstrip())
            raise UsageError(f"column {column + 1} of the layout: {quoted(text[column])} is not part of a layout.")
        found = match.lastindex or 0
        yield Token(match[found], match.start(found) + 1)
        position = match.end()
    yield Token("", len(text) + 1)
