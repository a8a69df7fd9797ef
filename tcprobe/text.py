r"""Text that came from outside (a file, a tool, a name), made safe for where it goes: a terminal, a comment, Markdown.

>>> from tcprobe.text import comment, escaped, markdown
>>> escaped("ptxas\x1b[2J\u202e"), comment("a */ b \\"), markdown("a|b <i> `c`")
('ptxas\\x1b[2J\\u202e', 'a * / b \\.', 'a|b &lt;i> \\`c\\`')

A text is *plain* where every character can be printed and moves nothing (`str.isprintable`): no control characters (C0,
DEL, C1), no line or paragraph separators, no marks that turn the direction of writing, no surrogates. Files hold plain
texts only, of at most MOST_TEXT characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_TEXT = 500
MOST_MESSAGE = 1000
_SHOWN = 60
# what ends a comment, or begins one inside, in C, Python and XML; and trigraphs
_MARKS = (("*/", "* /"), ("/*", "/ *"), ('"""', "'''"), ("-->", "-- >"), ("??", "? ?"))
_SYNTAX = str.maketrans({"&": "&amp;", "<": "&lt;", **{c: f"\\{c}" for c in "\\`[]*"}})


def plain(text: str) -> bool:
    """Whether a file may hold the text: printable on one line, and not longer than MOST_TEXT."""
    return len(text) <= MOST_TEXT and text.isprintable()


def escaped(text: str) -> str:
    r"""The text with everything that cannot be printed spelt out as in Python: \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """What a file may hold of a text: spelt out, and cut where it is longer than MOST_TEXT."""
    return _shorten(escaped(text), MOST_TEXT)


def quoted(text: str) -> str:
    """The beginning of a text in quotes, for a message."""
    return f"'{_shorten(escaped(text[: _SHOWN + 1]), _SHOWN)}'"


def message(text: str) -> str:
    """The text as one line of at most MOST_MESSAGE characters for a terminal; of a longer one both ends."""
    text = escaped(text)
    half = MOST_MESSAGE // 2 - 10
    return text if len(text) <= MOST_MESSAGE else f"{text[:half]} [...] {text[-half:]}"


def comment(text: str) -> str:
    """The text for a comment of any emitted language: nothing in it ends the comment or reaches past its line."""
    text = escaped(text)
    for mark, harmless in _MARKS:
        text = text.replace(mark, harmless)
    return f"{text}." if text.rstrip().endswith("\\") else text


def markdown(text: str) -> str:
    """The text for a Markdown page, which shows it unchanged; a table escapes its own bars."""
    return escaped(text).translate(_SYNTAX)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def any_of(words: Iterable[str], last: str = "and") -> str:
    """Words with commas between, and `last` before the last one: A, B or C."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final


class Whole(str):
    """A line that a narrow terminal does not break: a row of a table, a formula, code."""

    __slots__ = ()


def columns(grid_rows: Sequence[Sequence[str]], left: int) -> Iterator[Whole]:
    """Rows as lines in columns: the first `left` columns are aligned on the left, the others, numbers, on the right."""
    widths = [max(map(len, column)) for column in zip(*grid_rows, strict=True)]
    for row in grid_rows:
        cells = [
            text.ljust(width) if place < left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield Whole("  ".join(cells).rstrip())


class Described:
    """A value that Python prints in words, `in_words`; a notebook shows them above its `code`, and below its
    `picture`, an SVG, where it has any.

    `prints_code`: Python prints the code too, as its command does.
    """

    prints_code = False

    @property
    def in_words(self) -> Iterable[str]:
        """What a person reads of it, in lines, as its command prints them; the first says what it is."""
        raise NotImplementedError

    @property
    def in_full(self) -> Iterable[str]:
        """What --full prints: the same where nothing is left out."""
        return self.in_words

    def __str__(self) -> str:
        code = getattr(self, "code", None) if self.prints_code else None
        return "\n".join([*self.in_words, *(("", code) if code else ())])

    def __repr__(self) -> str:
        return f"<{next(iter(self.in_words))}>"

    def _repr_html_(self) -> str:
        from html import escape

        code = getattr(self, "code", None)
        drawn = getattr(self, "picture", None) or ""
        folded = f"<details><summary>code</summary><pre>{escape(code)}</pre></details>" if code else ""
        words = "\n".join(self.in_words)
        return f"{drawn}<pre>{escape(words)}</pre>{folded}"
