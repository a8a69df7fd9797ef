"""Layouts as people write them: CuTe's, Triton's and Gluon's texts, tiles of multiplies, files of tables.

    tokens    a text's pieces, bounded, and errors with their column
    cute      layouts, swizzles, make_tiled_mma and make_tiled_copy
    triton    attributes of Triton and classes of Gluon, as linear layouts
    places    which element each slot of a thread holds

What such a text means as a fragment, `store.written` says; here is how it is told from a name, and what may follow it:

>>> is_written("((4,8),2):((2,1),1)"), is_written("#ttg.blocked<{...}>"), is_written("mma m16n8k16 bf16 a")
(True, True, False)
>>> spelled("make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,4,1)) a over 128x128x64")
Spelled(layout='make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,4,1))', operand='a', over='128x128x64', of=None, \
warps=None, permute=None)
>>> spelled("m16n8k16 f16 f32 d warps 2x4 over 128x128x64").layout
'm16n8k16 f16 f32 d'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.text import quoted

# how a layout's text begins: what no name of a fragment begins with
_BEGINS = re.compile(
    r"\s*(?:[(#]|_?[0-9]+\s*:|(?:cute::)?(?:Sw|S|Swizzle|Layout|ComposedLayout)\s*<|(?:cute[.:]+)?(?:make_|composition\s*\()"
    r"|[\w.]*Layout\s*\()"
)
_FILE = re.compile(r"[^\n]*\.(?:csv|tsv|json)\s*(?: (?:over|of) \S+)*")
_OPERANDS = ("a", "b", "c", "d", "src", "dst")
AFTER = ("over", "of", "warps", "permute")  # words that follow a layout, each with what it says
_AFTER = re.compile(rf"\s(?P<word>{'|'.join(AFTER)})\s+(?P<value>\S+)\s*$")
MOST_TAIL = 6  # words after a layout


class Spelled(NamedTuple):
    """A text in parts: the layout or the name, and what stands after it."""

    layout: str
    operand: str | None
    over: str | None
    of: str | None
    warps: str | None
    permute: str | None

    @property
    def is_layout(self) -> bool:
        """Whether it begins with a layout's text or a file, not with a name."""
        return begins_layout(self.layout)


def begins_layout(text: str) -> bool:
    """Whether a text is a layout's, or a file's name, as far as its beginning shows."""
    return bool(_BEGINS.match(text)) or is_file(text)


def is_file(text: str) -> bool:
    """Whether a text is the name of a file of a table."""
    return bool(_FILE.fullmatch(text)) and not _BEGINS.match(text)


def is_written(name: object) -> bool:
    """Whether a name is a layout's text, or a tile of a fragment: NAME warps 2x4 over 128x128x64."""
    return isinstance(name, str) and (begins_layout(name) or " warps " in name or bool(_FILE.fullmatch(name)))


def spelled(text: str) -> Spelled:
    """The parts of a text; UsageError where one is given twice."""
    rest, said = text.strip(), dict[str, str]()
    for _ in range(MOST_TAIL):
        match = _AFTER.search(rest)
        if match is None:
            break
        if match["word"] in said:
            raise UsageError(f"{quoted(text)}: {match['word']} is said twice.")
        said[match["word"]] = match["value"]
        rest = rest[: match.start()].rstrip()
    head, _, last = rest.rpartition(" ")
    operand = last.lower() if last.lower() in _OPERANDS and begins_layout(head) and not is_file(head) else None
    return Spelled(head.rstrip() if operand else rest, operand, *(said.get(word) for word in AFTER))


def with_options(
    name: str, *, over: str | None = None, of: str | None = None, warps: str | None = None, permute: str | None = None
) -> str:
    """A name with what options say of it, as a text; what the text says itself stays. UsageError where both say it."""
    given = {"over": over, "of": of, "warps": warps, "permute": permute}
    if not any(value is not None for value in given.values()):
        return name
    own = spelled(name)
    for word, value in given.items():
        if value is not None and getattr(own, word) is not None and word in ("warps", "permute"):
            raise UsageError(f"{quoted(name)} says {word} itself: remove `{word}`.")
    said = {word: getattr(own, word) or value for word, value in given.items()}
    compact = {word: "".join(value.split()) for word, value in said.items() if value is not None}
    tail = "".join(f" {word} {value}" for word, value in compact.items())
    operand = f" {own.operand}" if own.operand else ""
    return f"{own.layout}{operand}{tail}"


def follows_layout(before: Sequence[str], word: str) -> bool:
    """Whether a word of a command line goes on with the layout before it: an operand, or over, of and what they say."""
    return (
        (word.lower() in _OPERANDS and len(before) == 1) or word in AFTER or (len(before) > 1 and before[-1] in AFTER)
    )
