"""A name as people type it, read: dotted parts, which keep their order, and words, which stand in any.

>>> from tcprobe.isa.names.words import read
>>> read("accumulator wmma 16x16x16 float").words
('c|d', 'wmma', 'm16n16k16', 'f32')
>>> read("mma.16x8x16.row.col.half a").dotted, read("SM75_U32x4_LDSM_N d").dotted
((('mma', 'm16n8k16', 'row', 'col', 'f16'),), (('ldmatrix', 'm8n8', 'x4', 'shared', 'b16'),))
>>> read("wmma.m16n16k16.f16 matrix_a").fits("wmma.m16n16k16.a.row.f16".split("."))
True
>>> read("wmma.f16.m16n16k16 matrix_a").fits("wmma.m16n16k16.a.row.f16".split("."))
False

A word is a pattern for one part of an id: `c|d` means c or d, `m16n8` any k.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from tcprobe.isa.dtypes import OTHER_NAMES
from tcprobe.isa.instruction import IMPLIED
from tcprobe.isa.names import atoms

# words of CUDA C++ and of people, and the parts of ids that they mean
MEANT = {
    "accumulator|acc|accum": "c|d",
    "matrix_a|lhs": "a",
    "matrix_b|rhs": "b",
    "result|out|output": "d",
    "metadata|meta": "e",
    "addresses|addr|pointer": "address",
    **{others: name for name, others in OTHER_NAMES.items()},
    "row_major|rowmajor": "row",
    "col_major|colmajor|column|column_major": "col",
    "transposed|transpose": "trans",
    "mma_sync|load_matrix_sync|store_matrix_sync": "wmma",
    "f8f6f4": "kind::f8f6f4",
    "mxf8f6f4": "kind::mxf8f6f4",
    "mxfp8|mxf8": "kind::mxf8f6f4 e4m3|e5m2",
    "mxfp6|mxf6": "kind::mxf8f6f4 e2m3|e3m2",
    "mxfp4|mxf4": "kind::mxf4",
    "nvfp4|nvf4": "kind::mxf4nvf4 scale_vec::4x ue4m3",
    "mxf4nvf4": "kind::mxf4nvf4",
    "block_scaled|blockscaled|block-scaled|block-scale|scaled": "block_scale",
    "sparse": "sp|sp::ordered_metadata",
    "ordered_metadata": "sp::ordered_metadata",
    "tmem": "tcgen05",
    "tma": "bulk tensor",
}
_MEANT = {word: part.split() for words, part in MEANT.items() for word in words.split("|")}
_FREE = {**_MEANT, "sp": _MEANT["sparse"]}  # in a dotted name sp is PTX's own
NOISE = {
    *("sync", "aligned", "precision", "nvcuda", "fragment", "frag", "operand", "matrix", "layout", "register"),
    *("registers", "of", "the", "for", "in", "with", "warp", "tensor", "core", "tile", "ptx", "dense", "block"),
}
# what C++ and people say again and again: wmma::fragment<wmma::matrix_a, ...>, sparse mma.sp
ONCE = {"wmma", "a", "b", "c|d", "d", "sp|sp::ordered_metadata", "block_scale", "tcgen05"}
OPERANDS = {"a", "b", "c", "d", "c|d", "e", "scale_a", "scale_b", "address", "selector", "a_smem", "b_smem"}
# parts that set a form apart from the plain one, so that a name must say them, and words that say so too
APART = {
    "sp": {"e"},
    "sp::ordered_metadata": {"e"},
    "block_scale": {"scale_a", "scale_b", "ue8m0", "ue4m3", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"},
    "wgmma": set[str](),
}
STEMS = {"wmma", "mma", "wgmma", "ldmatrix", "stmatrix", "movmatrix", "tcgen05"}  # first parts of ids
# patterns stay text until they are used: most commands use none
_WORD = r"(?:kind|sp|scale_vec|cta_group)::\w+|[^\s:]+"
_SHAPE = r"(?:m)?([0-9]+)x(?:n)?([0-9]+)(?:x(?:k)?([0-9]+))?"
MOST_WORDS = 24


@dataclass(frozen=True)
class Reading:
    """`dotted` are runs of parts, each in its order, with those that every form has; `words` are in any order."""

    dotted: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    majors: tuple[str, ...] = ()

    @cached_property
    def bare(self) -> tuple[tuple[str, ...], ...]:
        """The dotted runs, without the parts that every form has."""
        return tuple(tuple(part for part in run if part not in IMPLIED) for run in self.dotted)

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """All parts and words, without the parts that every form has."""
        return (*(part for run in self.bare for part in run), *self.words)

    @cached_property
    def _literal(self) -> frozenset[str]:
        """Dotted parts that can mean themselves alone: to look for these first is quick."""
        return frozenset(part for run in self.bare for part in run if "|" not in part and part[0] != "m")

    @property
    def operand(self) -> bool:
        """Whether an operand is said."""
        return not OPERANDS.isdisjoint(self.plain)

    def fits(self, parts: Sequence[str], more: Sequence[str] = ()) -> bool:
        """Whether each word means another of the parts of an id, or of `more` that a word may say, and dotted ones
        stand in order.
        """
        return (
            self._literal.issubset(parts)
            and all(_has_in_order(run, parts) for run in self.bare)
            and self._tells_apart(parts)
            and _each(self.plain, [*parts, *(part for part in more if part not in parts)])
        )

    def written_as(self, make_parts: Callable[[], Sequence[str]]) -> bool:
        """Whether the parts that every form has are in the same places as in a PTX name."""
        return self.dotted == self.bare or all(_has_in_order(run, make_parts()) for run in self.dotted)

    def in_order(self, parts: Iterable[str]) -> bool:
        """Whether all words mean parts in the very order of these."""
        left = iter(parts)
        return all(any(_means(word, part) for part in left) for word in self.plain)

    def says(self, part: str) -> bool:
        """Whether one of the words means the part."""
        return any(_means(word, part) for word in self.plain)

    def strange(self, parts: Iterable[str]) -> list[str]:
        """The words that mean none of the parts."""
        known = set(parts)
        return [word for word in self.plain if not any(_means(word, part) for part in known)]

    def _tells_apart(self, parts: Sequence[str]) -> bool:
        return all(
            self.says(part) or not words.isdisjoint(self.words) for part, words in APART.items() if part in parts
        )


@cache
def read(name: str) -> Reading:
    """What a name says: atoms and opcodes as the dotted names that they mean, C++ and what people say as words."""
    whole = re.sub(r"<[^<>]*>", lambda arguments: "".join(arguments[0].split()), name)
    runs: list[tuple[str, ...]] = []
    words: list[str] = []
    pieces = whole.split()
    for piece in pieces:
        atom = atoms.dotted_name(piece)
        for token in [atom] if atom else re.split(r"[,;<>(){}|/=]+", piece.lower()):
            parts = [part for part in token.split(".") if part]
            if atom or len(parts) > 1:
                runs.append(tuple(meant for part in parts for meant in _MEANT.get(part, [part])))
            else:
                words += re.findall(_WORD, token.strip("."))
    meant = [part for word in _join_shapes(words) if word not in NOISE for part in _FREE.get(word, [word])]
    meant += ["wgmma"] * (any(word.startswith("m64n") for word in meant) and "wgmma" not in meant)
    dotted, meant = tuple(_join_shapes(run) for run in runs), meant[: 2 * MOST_WORDS]
    others = {*meant, *(part for run in dotted for part in run)}
    again = [word in meant[:at] or any(_means(word, o) for o in others - {word}) for at, word in enumerate(meant)]
    once = [word for word, repeats in zip(meant, again, strict=True) if word not in ONCE or not repeats]
    return Reading(dotted, tuple(once[:MOST_WORDS]), atoms.majors(whole))


def _has_in_order(run: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a dotted name has parts of these in their order; one that begins as an id begins as this one does."""
    if run and run[0] in STEMS and run[0] != parts[0]:
        return False
    left = iter(parts)
    return all(any(_means(word, part) for part in left) for word in run)


def _each(wanted: Sequence[str], parts: Iterable[str]) -> bool:
    """Whether each word means another of the parts; one that leaves a choice comes after those that leave none."""
    left = list(parts)
    for word in sorted(wanted, key=len):
        match = word if word in left else next((part for part in left if _means(word, part)), None)
        if match is None:
            return False
        left.remove(match)
    return bool(wanted)


def _means(word: str, part: str) -> bool:
    return (
        part == word
        or ("|" in word and part in word.split("|"))
        or (word[0] == "m" and part.startswith(word) and re.fullmatch(r"k[0-9]+", part[len(word) :]) is not None)
    )


def _join_shapes(spoken: Sequence[str]) -> tuple[str, ...]:
    """Shapes as PTX writes them: 16x8x16, or three numbers side by side."""
    shapes: list[str] = []
    for word in spoken:
        shape = re.fullmatch(_SHAPE, word)
        shapes.append(atoms.shape(*shape.groups()) if shape else word)
        if len(shapes) > 2 and all(number.isdigit() for number in shapes[-3:]):
            shapes[-3:] = [atoms.shape(*shapes[-3:])]
    return tuple(shapes)
