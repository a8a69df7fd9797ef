"""Names of CuTe's atoms and of machine code, as the dotted PTX names that they mean.

>>> from tcprobe.isa.names.atoms import dotted_name
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
from collections.abc import Callable

from tcprobe.isa.dtypes import ptx_name

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
