"""Names of CuTe's atoms for Blackwell, whose types are template arguments, as the words that they mean.

>>> from tcprobe.isa.cute_names import blackwell
>>> blackwell("SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>")
['mma', 'm16n8k64', 'row', 'col', 'kind::mxf4nvf4', 'block_scale', 'scale_vec::4X', 'f32', 'e2m1', 'e2m1', 'f32', \
'ue4m3']
>>> blackwell("SM100_TMEM_LOAD_16dp256b1x"), blackwell("SM100_U8x16_LDSM_T")
(['tcgen05', 'ld', '16x256b'], ['ldmatrix', 'm16n16', 'x2', 'trans', 'b8'])

Source: CUTLASS, include/cute/arch/mma_sm120.hpp, mma_sm120_sparse.hpp, copy_sm100.hpp. VS elements along k share a
scale, so k / VS is the N of PTX's scale_vec::NX; types of 4 bits take kind::mxf4nvf4.
"""

from __future__ import annotations

import re

_MULTIPLY = r"(?:\w+::)*SM120_(SPARSE_)?16x8x([0-9]{1,3})_TN(_VS)?(?:<([^<>]*)>)?"
_MEMORY = r"SM100_TMEM_(LOAD|STORE)_(16|32)dp(32|64|128|256)b1x"
_LOAD, _STORE = r"SM100_U8x(8|16)_LDSM_T", r"SM100_U8x(4|8|16)_STSM_T"
_UNPACKED = r"SM100_SU([46])_DU8x16_x([124])_LDSM_N"
_TYPES = {"float": "f32", "half_t": "f16"}
_LEFT = {"4": "b4x16_p64", "6": "b6x16_p32"}  # bits of an element, as PTX says that they are padded to bytes


def blackwell(name: str) -> list[str]:
    """The words of an atom without blanks, in the order of its PTX name; none for any other name."""
    if multiply := re.fullmatch(_MULTIPLY, name, re.I):
        sparse, k, scaled, given = multiply.groups()
        return _multiply(bool(sparse), int(k), bool(scaled), [_type(said) for said in (given or "").split(",") if said])
    if memory := re.fullmatch(_MEMORY, name, re.I):
        op, lanes, bits = memory.groups()
        return ["tcgen05", "ld" if op.upper() == "LOAD" else "st", _shape(int(lanes), bits)]
    if load := re.fullmatch(_LOAD, name, re.I):
        return ["ldmatrix", "m16n16", f"x{int(load[1]) // 8}", "trans", "b8"]
    if store := re.fullmatch(_STORE, name, re.I):
        return ["stmatrix", "m16n8", f"x{int(store[1]) // 4}", "trans", "b8"]
    if unpacked := re.fullmatch(_UNPACKED, name, re.I):
        return ["ldmatrix", "m8n16", f"x{unpacked[2]}", _LEFT[unpacked[1]]]
    return []


def _multiply(sparse: bool, k: int, scaled: bool, given: list[str]) -> list[str]:
    """The template arguments are the types of A, B, C and, of a scaled one, of the scales, and VS."""
    head = ["mma", *(["sp::ordered_metadata"] if sparse else []), f"m16n8k{k}", "row", "col"]
    a, b, c, scale, size = [*given, *[""] * 5][:5]
    types = [type_ for type_ in (c, a, b, c, scale) if type_]
    if not scaled:
        return [*head, "kind::f8f6f4", *types]
    kind = "mxf4nvf4" if k == (128 if sparse else 64) else "mxf8f6f4"
    return [*head, f"kind::{kind}", "block_scale", *([f"scale_vec::{_blocks(k, size)}X"] if size else []), *types]


def _blocks(k: int, size: str) -> str:
    """How many blocks of VS elements there are along k; VS itself, which no form has, where that is no whole number."""
    whole = re.fullmatch("[1-9][0-9]{0,2}", size) and k % int(size) == 0
    return str(k // int(size)) if whole else size


def _type(said: str) -> str:
    """PTX's name of a type: float_e4m3_t, half_t, float."""
    bare = said.rpartition("::")[2].lower()
    narrow = re.fullmatch(r"float_(u?e\dm\d)_t", bare)
    return narrow[1] if narrow else _TYPES.get(bare, bare)


def _shape(lanes: int, bits: str) -> str:
    """PTX's name of what a load of tensor memory takes; 16 lanes of 32 bits are two halves."""
    return "16x32bx2" if (lanes, bits) == (16, "32") else f"{lanes}x{bits}b"
