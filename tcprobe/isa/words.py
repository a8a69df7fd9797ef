"""Names as people say them, read as words: what CUDA C++, CuTe and SASS call shapes, types, operands and moves.

>>> from tcprobe.isa.words import fits, words
>>> words("accumulator wmma 16x16x16 float")
['c|d', 'wmma', 'm16n16k16', 'f32']
>>> words("SM80_16x8x16_F32F16F16F32_TN")
['mma', 'm16n8k16', 'row', 'col', 'f32', 'f16', 'f16', 'f32']
>>> fits(words("matrix_a half 16x16x16"), "wmma.m16n16k16.a.row.f16".split("."))
True

A word is a pattern for one part of an id, and stands in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# words of CUDA C++ and of people, and the parts of ids that they mean
MEANT = {
    "accumulator|acc|accum": "c|d",
    "matrix_a|lhs": "a",
    "matrix_b|rhs": "b",
    "result|out|output": "d",
    "metadata|meta": "e",
    "addresses|addr|pointer": "address",
    "half|fp16|float16|half_t|__half": "f16",
    "bfloat16|bfloat16_t|__nv_bfloat16|bf": "bf16",
    "float|fp32|float32|single": "f32",
    "tfloat32_t|tf": "tf32",
    "double|fp64|float64": "f64",
    "fp8|float8": "e4m3|e5m2",
    "e4m3fn|float8_e4m3fn|float8_e4m3|float_e4m3_t|__nv_fp8_e4m3": "e4m3",
    "float8_e5m2|float_e5m2_t|__nv_fp8_e5m2": "e5m2",
    "fp6|float6": "e2m3|e3m2",
    "fp4|float4|float_e2m1_t": "e2m1",
    "int|int32|i32|int32_t": "s32",
    "int8|i8|char|int8_t": "s8",
    "uint8|uint8_t": "u8",
    "int4|i4|int4b_t": "s4",
    "uint4": "u4",
    "bit|binary|u1": "b1",
    "row_major|rowmajor": "row",
    "col_major|colmajor|column|column_major": "col",
    "transposed|transpose": "trans",
    "mma_sync|load_matrix_sync|store_matrix_sync": "wmma",
    "f8f6f4": "kind::f8f6f4",
}
_MEANT = {word: part for words, part in MEANT.items() for word in words.split("|")}
NOISE = {
    *("sync", "aligned", "precision", "nvcuda", "fragment", "frag", "operand", "matrix", "layout", "register"),
    *("registers", "of", "the", "for", "in", "with", "warp", "tensor", "core", "tile", "ptx"),
}  # fmt: skip
ONCE = {"wmma", "a", "b", "c|d", "d"}  # what C++ says again and again: wmma::fragment<wmma::matrix_a, ...>
# patterns stay text until they are used: most commands use none
_WORD = r"(?:kind|sp|scale_vec|cta_group)::\w+|[^\s.,:;<>(){}|/=]+"
_SHAPE = r"(?:m)?(\d+)x(?:n)?(\d+)(?:x(?:k)?(\d+))?"
_TYPES = r"TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3]"
_ATOM = rf"SM\d+_(\d+)x(\d+)x(\d+)_((?:{_TYPES})*)_?([TN][TN])(?:_(XOR|AND)POPC)?(?:_SATURATE)?"
_GROUP_ATOM = rf"SM90(?:_|::GMMA::(SPARSE::)?G?MMA_)64x(\d+)x(\d+)_((?:{_TYPES})+)_[RS]S\w*"
_GROUP_OPCODE = rf"[HIQB]GMMA(\.SP)?\.64x(\d+)x(\d+)((?:\.(?:{_TYPES}))*)(?:\.AND\.POPC)?"
_MOVE = r"SM\d+_U(?:32|16)x([1248])_(LDSM|STSM)_([NT])"
_OPCODE = r"(LDSM|STSM)\.16\.M(T?)88(?:\.([24]))?"
MOST_WORDS = 24


def words(name: str) -> list[str]:
    """The words of a name, as patterns for parts of ids; of an atom of CuTe, or an opcode that moves, what it means."""
    whole = re.sub(r"<[^<>]*>", lambda arguments: "".join(arguments[0].split()), name)
    spoken = [word for piece in whole.split() for word in _atom(piece) or _split(piece)]
    meant = [_MEANT.get(word, word) for word in _shaped(spoken) if word not in NOISE]
    once = [word for at, word in enumerate(meant) if word not in ONCE or word not in meant[:at]]
    return once[:MOST_WORDS]


def fits(wanted: Sequence[str], parts: Iterable[str]) -> bool:
    """Whether each word means another of the parts; one with a ! in front means none of them."""
    left = list(parts)
    if any(word[0] == "!" and word[1:] in left for word in wanted):
        return False
    said = (word for word in wanted if word[0] != "!")
    for word in sorted(said, key=len):  # a word that leaves a choice comes after those that leave none
        match = word if word in left else next((part for part in left if _means(word, part)), None)
        if match is None:
            return False
        left.remove(match)
    return bool(wanted)


def ordered(wanted: Iterable[str], parts: Iterable[str]) -> bool:
    """Whether the words mean parts in the very order of these."""
    left = iter(parts)
    return all(any(_means(word, part) for part in left) for word in wanted if word[0] != "!")


def strange(wanted: Iterable[str], parts: Iterable[str]) -> list[str]:
    """The words that mean none of the parts."""
    known = set(parts)
    return [word for word in wanted if word[0] != "!" and not any(_means(word, part) for part in known)]


def named(part: str, wanted: Iterable[str]) -> bool:
    """Whether one of the words means the part."""
    return any(_means(word, part) for word in wanted)


def _means(word: str, part: str) -> bool:
    return (
        part == word
        or ("|" in word and part in word.split("|"))
        or (word[0] == "m" and part.startswith(word) and re.fullmatch(r"k\d+", part[len(word) :]) is not None)
    )


def _split(piece: str) -> list[str]:
    return re.findall(_WORD, piece.lower())


def _shaped(spoken: Sequence[str]) -> list[str]:
    """Shapes as PTX writes them: 16x8x16, or three numbers side by side."""
    shapes: list[str] = []
    for word in spoken:
        shape = re.fullmatch(_SHAPE, word)
        shapes.append(_shape(*shape.groups()) if shape else word)
        if len(shapes) > 2 and all(number.isdigit() for number in shapes[-3:]):
            shapes[-3:] = [_shape(*shapes[-3:])]
    return shapes


def _shape(m: str, n: str, k: str | None = None) -> str:
    return f"m{m}n{n}" + (f"k{k}" if k else "")


def _atom(piece: str) -> list[str]:
    """The words of a CuTe atom or of an opcode that moves matrices; none for anything else."""
    if atom := re.fullmatch(_ATOM, piece, re.I):
        m, n, k, types, ways, bits = atom.groups()
        kinds = [kind.lower().replace("u1", "b1") for kind in re.findall(_TYPES, types, re.I)]
        ways = ["row" if ways[0] in "Tt" else "col", "col" if ways[1] in "Nn" else "row"]
        return ["mma", _shape(m, n, k), *ways, *kinds, *([bits.lower()] if bits else [])]
    if move := re.fullmatch(_MOVE, piece, re.I):
        count = int(move[1]) // (2 if move[3] in "Tt" else 1)  # U16x8_LDSM_T are four matrices of 16-bit elements
        return _moved(move[2], count, move[3] in "Tt")
    if opcode := re.fullmatch(_OPCODE, piece, re.I):
        return _moved(opcode[1], int(opcode[3] or 1), bool(opcode[2]))
    if re.fullmatch(r"MOVM(\.16\.MT88)?|SM75_U32x1_MOVM_T", piece, re.I):
        return ["movmatrix"]
    from tcprobe.isa.cute_names import blackwell

    return [word.lower() for word in blackwell(piece)]


def warpgroup(name: str) -> str | None:
    """The id that a CuTe atom or an opcode of a warpgroup means, with the operand after it; None for anything else.

    >>> warpgroup("sm90_64x24x16_f32f16f16_rs d"), warpgroup("hgmma.sp.64x8x32.f32.bf16")
    ('wgmma.mma_async.m64n24k16.f32.f16.f16.d', 'wgmma.mma_async.sp.m64n8k32.f32.bf16.bf16')
    """
    first, *rest = name.split() or [""]
    group = re.fullmatch(_GROUP_ATOM, first, re.I) or re.fullmatch(_GROUP_OPCODE, first, re.I)
    if not group:
        return None
    sparse, n, k, types = group.groups()
    said = [type_.lower() for type_ in re.findall(_TYPES, types, re.I)]
    operand = [_MEANT.get(word, word).replace("c|d", "d") for word in rest]
    family = ["wgmma.mma_async", *(["sp"] if sparse else [])]
    return ".".join([*family, _shape("64", n, k), *_types_of(first[0].lower(), said), *operand])


def _types_of(kind: str, said: list[str]) -> list[str]:
    """All types, D first; of an opcode also those that its first letter implies."""
    implied = {
        "h": [*said[:1], *2 * (said[1:] or ["f16"])],
        "i": ["s32", *said],
        "b": ["s32", "b1", "b1", "and", "popc"],
    }
    return implied.get(kind, said)


def _moved(opcode: str, count: int, turned: bool) -> list[str]:
    family = "ldmatrix" if opcode.upper() == "LDSM" else "stmatrix"
    return [family, "m8n8", f"x{count}", "trans" if turned else "!trans"]
