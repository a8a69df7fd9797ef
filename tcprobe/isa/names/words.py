"""A name as people type it, read: dotted parts, which keep their order, and words in any order.

>>> from tcprobe.isa.names.words import dotted_name, read
>>> read("accumulator wmma 16x16x16 float").words
('c|d', 'wmma', 'm16n16k16', 'f32')
>>> read("mma.16x8x16.row.col.half a").dotted, read("SM75_U32x4_LDSM_N d").dotted
((('mma', 'm16n8k16', 'row', 'col', 'f16'),), (('ldmatrix', 'm8n8', 'x4', 'shared', 'b16'),))
>>> read("wmma.m16n16k16.f16 matrix_a").fits("wmma.m16n16k16.a.row.f16".split("."))
True
>>> read("wmma.f16.m16n16k16 matrix_a").fits("wmma.m16n16k16.a.row.f16".split("."))
False

A word is a pattern for one part of an id: `c|d` means c or d, `m16n8` any k. An atom of CuTe, or an opcode of machine
code, is read as the dotted PTX name that it means:

>>> dotted_name("SM80_16x8x16_F32F16F16F32_TN"), dotted_name("SM75_U16x8_LDSM_T"), dotted_name("MOVM.16.MT88")
('mma.m16n8k16.row.col.f32.f16.f16.f32', 'ldmatrix.m8n8.x4.trans.shared.b16', 'movmatrix')
>>> dotted_name("SM90_64x24x16_F32F16F16_RS<Major::K,Major::MN>"), dotted_name("HGMMA.SP.64x8x32.F32.BF16")
('wgmma.mma_async.m64n24k16.f32.f16.f16', 'wgmma.mma_async.sp.m64n8k32.f32.bf16.bf16')
>>> dotted_name("SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>")
'mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4x.f32.e2m1.e2m1.f32.ue4m3'
>>> dotted_name("SM100_TMEM_LOAD_16dp256b1x"), dotted_name("SM100_MMA_F16BF16_2x1SM_TS<half_t,half_t,float,256,128>")
('tcgen05.ld.16x256b', 'tcgen05.mma.cta_group::2.kind::f16')

Source: CUTLASS, include/cute/arch/mma_sm*.hpp and copy_sm*.hpp. VS elements along k share a scale, so k / VS is the N
of PTX's scale_vec::NX; types of 4 bits take kind::mxf4nvf4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from tcprobe.isa.dtypes import OTHER_NAMES, ptx_name
from tcprobe.isa.instruction import IMPLIED

_TYPES = r"TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3]"
_ARGUMENTS = r"(?:<([^<>]*)>)?"
_KINDS = {"f16bf16": "f16", "tf32": "tf32", "s8": "i8", "f8f6f4": "f8f6f4", "mxf8f6f4": "mxf8f6f4"}
_LEFT = {"4": "b4x16_p64", "6": "b6x16_p32"}  # bits of an element, as PTX says that they are padded to bytes
_MAJOR = r"(?:\w+::)*major::(k|mn)"
_STEMS = ("SM", "GMMA", "MOVM")  # one of them is in every atom and opcode that is read here


def dotted_name(piece: str) -> str | None:
    """The dotted name that an atom, or an opcode of machine code, means; None for anything else."""
    if not any(stem in piece.upper() for stem in _STEMS):
        return None
    for pattern, meaning in _ATOMS.items():
        if match := re.fullmatch(pattern, piece, re.I):
            return ".".join(filter(None, meaning(*((group or "").lower() for group in match.groups()))))
    return None


def majors(name: str) -> tuple[str, ...]:
    """The majors among the template arguments of an atom: of A, then of B."""
    return tuple(major.lower() for major in re.findall(_MAJOR, name, re.I))


def shape(m: str, n: str, k: str | None = None) -> str:
    """A shape as PTX writes it."""
    return f"m{m}n{n}" + (f"k{k}" if k else "")


def _mma(m: str, n: str, k: str, *more: str) -> list[str]:
    types, ways, bits = more
    major = {"at": "row", "an": "col", "bn": "col", "bt": "row"}
    kinds = [kind.replace("u1", "b1") for kind in re.findall(_TYPES.lower(), types)]
    popc = [bits, "popc"] if bits else []
    return ["mma", shape(m, n, k), major[f"a{ways[0]}"], major[f"b{ways[1]}"], *kinds, *popc]


def _group(sparse: str, n: str, k: str, types: str, _arguments: str) -> list[str]:
    return ["wgmma.mma_async", "sp" if sparse else "", shape("64", n, k), *re.findall(_TYPES.lower(), types)]


def _gmma(letter: str, sparse: str, n: str, k: str, types: str) -> list[str]:
    """The types that the first letter of the opcode implies come with those that it names."""
    named = re.findall(_TYPES.lower(), types)
    implied = {"h": [*named[:1], *2 * (named[1:] or ["f16"])], "i": ["s32", *named], "b": ["s32.b1.b1.and.popc"]}
    return ["wgmma.mma_async", "sp" if sparse else "", shape("64", n, k), *implied.get(letter, named)]


def _copy(count: str, opcode: str, way: str) -> list[str]:
    """U16x8_LDSM_T are four matrices of 16-bit elements, U32x4_LDSM_N are four too."""
    return _matrices(opcode, "t" if way == "t" else "", str(int(count) // (2 if way == "t" else 1)))


def _matrices(opcode: str, turned: str, count: str) -> list[str]:
    family = "ldmatrix" if opcode == "ldsm" else "stmatrix"
    return [family, "m8n8", f"x{count or 1}", "trans" if turned else "", "shared.b16"]


def _sm120(sparse: str, k: str, scaled: str, arguments: str) -> list[str]:
    """The template arguments are the types of A, B, C and, of a scaled one, of the scales, and VS."""
    a, b, c, scale, size = [*(ptx_name(argument) for argument in arguments.split(",") if argument), *[""] * 5][:5]
    head = ["mma", "sp::ordered_metadata" if sparse else "", f"m16n8k{k}", "row", "col"]
    if not scaled:
        return [*head, "kind::f8f6f4", c, a, b, c, scale]
    kind = "mxf4nvf4" if int(k) == (128 if sparse else 64) else "mxf8f6f4"
    blocks = f"scale_vec::{_blocks(int(k), size)}x" if size else ""
    return [*head, f"kind::{kind}", "block_scale", blocks, c, a, b, c, scale]


def _blocks(k: int, size: str) -> str:
    """How many blocks of VS elements there are along k; VS itself, which no form has, if they do not fill k."""
    whole = re.fullmatch("[1-9][0-9]{0,2}", size) and k % int(size) == 0
    return str(k // int(size)) if whole else size


def _memory(op: str, lanes: str, width: str) -> list[str]:
    """A load of tensor memory; 16 lanes of 32 bits are two halves."""
    window = "16x32bx2" if (lanes, width) == ("16", "32") else f"{lanes}x{width}b"
    return ["tcgen05", "ld" if op == "load" else "st", window]


def _tensor(kind: str, pair: str, sparse: str, _arguments: str) -> list[str]:
    return ["tcgen05.mma", "sp" if sparse else "", f"cta_group::{2 if pair else 1}", f"kind::{_KINDS[kind]}"]


_ATOMS: dict[str, Callable[..., list[str]]] = {
    rf"SM[0-9]+_([0-9]+)x([0-9]+)x([0-9]+)_((?:{_TYPES})*)_?([TN][TN])(?:_(XOR|AND)POPC)?(?:_SATURATE)?": _mma,
    rf"SM90(?:_|::GMMA::(SPARSE::)?G?MMA_)64x([0-9]+)x([0-9]+)_((?:{_TYPES})+)_[RS]S\w*{_ARGUMENTS}": _group,
    rf"([HIQB])GMMA(\.SP)?\.64x([0-9]+)x([0-9]+)((?:\.(?:{_TYPES}))*)(?:\.AND\.POPC)?": _gmma,
    r"SM[0-9]+_U(?:32|16)x([1248])_(LDSM|STSM)_([NT])": _copy,
    r"(LDSM|STSM)\.16\.M(T?)88(?:\.([24]))?": _matrices,
    r"MOVM(?:\.16\.MT88)?|SM75_U32x1_MOVM_T": lambda: ["movmatrix"],
    rf"(?:\w+::)*SM120_(SPARSE_)?16x8x([0-9]{{1,3}})_TN(_VS)?{_ARGUMENTS}": _sm120,
    rf"SM100_MMA_(F16BF16|TF32|S8|F8F6F4|MXF8F6F4)(_2x1SM)?_[ST]S(_SPARSE)?{_ARGUMENTS}": _tensor,
    r"SM100_TMEM_(LOAD|STORE)_(16|32)dp(32|64|128|256)b1x": _memory,
    r"SM100_U8x(8|16)_LDSM_T": lambda count: ["ldmatrix.m16n16", f"x{int(count) // 8}", "trans.shared.b8"],
    r"SM100_U8x(4|8|16)_STSM_T": lambda count: ["stmatrix.m16n8", f"x{int(count) // 4}", "trans.shared.b8"],
    r"SM100_SU([46])_DU8x16_x([124])_LDSM_N": lambda bits, count: ["ldmatrix.m8n16", f"x{count}", _LEFT[bits]],
}


# words of CUDA C++ and of people, and the parts of ids that they mean
MEANT = {
    "accumulator|acc|accum": "c|d",
    "matrix_a|lhs": "a",
    "matrix_b|rhs": "b",
    "result|out|output": "d",
    "metadata|meta": "e",
    "sfa": "scale_a",
    "sfb": "scale_b",
    "dmma": "mma f64",
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
            and all(
                self.says(part) or not words.isdisjoint(self.words) for part, words in APART.items() if part in parts
            )
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


@cache
def read(name: str) -> Reading:
    """What a name says: atoms and opcodes as the dotted names that they mean, C++ and what people say as words."""
    whole = re.sub(r"<[^<>]*>", lambda arguments: "".join(arguments[0].split()), name)
    runs: list[tuple[str, ...]] = []
    words: list[str] = []
    pieces = whole.split()
    for piece in pieces:
        atom = dotted_name(piece)
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
    return Reading(dotted, tuple(once[:MOST_WORDS]), majors(whole))


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
        sizes = re.fullmatch(_SHAPE, word)
        shapes.append(shape(*sizes.groups()) if sizes else word)
        if len(shapes) > 2 and all(number.isdigit() for number in shapes[-3:]):
            shapes[-3:] = [shape(*shapes[-3:])]
    return tuple(shapes)
