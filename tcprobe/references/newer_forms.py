"""Forms and targets newer than the inventory's rows: what ptxas accepts, for which targets, from which PTX version on.

>>> from tcprobe.references.newer_forms import FORMS, SM_107
>>> [form.name for form in FORMS if form.targets == (("sm_107a", "9.4"),)]
['tcgen05.ld.spcompress', 'tcgen05.ld.red.spcompress']
>>> SM_107["sm_107"]
('wmma', 'mma', 'mma.sp', 'ldmatrix', 'stmatrix', 'movmatrix')

Accepted does not mean native: what a form becomes is another question. `tests/test_newer_forms.py` checks every row
against a compiler (CUDA_HOME with 13.5). PTX 9.5 is the newest version that ptxas 13.5 knows; its text was not
released, so what only 9.5 may state is marked.
"""

from __future__ import annotations

from typing import NamedTuple

BY = "ptxas 13.5.37"
TEXT_94 = "PTX ISA 9.4, section 9.7.18"
RUBIN = (("sm_107f", "9.4"), ("sm_107a", "9.4"))
FAMILIES = (
    ("sm_100f", "8.8"),
    ("sm_100a", "8.8"),
    ("sm_103f", "8.8"),
    ("sm_103a", "8.8"),
    *RUBIN,
    ("sm_110f", "9.0"),
    ("sm_110a", "9.0"),
)
MULTIPLY = "[%r0], %d0, %d1, {}%r1, {}%p"


class NewerForm(NamedTuple):
    """`spelled`, with operands, is what was assembled. `targets`: all that accept it, each with its least PTX version.

    `refusal`: what the compiler says for another target. `text`: where the form is documented, None if in no released
    text.
    """

    name: str
    spelled: str
    targets: tuple[tuple[str, str], ...]
    refusal: str
    text: str | None = TEXT_94


def _multiply(name: str, between: str = "", behind: str = "") -> str:
    return f"{name} {MULTIPLY.format(between, behind)};"


def _ti16(variant: str, between: str = "") -> NewerForm:
    name = f"tcgen05.mma{variant}.kind::ti16"
    return NewerForm(name, _multiply(name, between), RUBIN, "Feature '.kind::ti16' not supported on .target 'sm_100a'")


SCALES = "[%r2], [%r3], "
F8, MXF8 = "tcgen05.mma.cta_group::1.kind::f8f6f4", "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"
NVF4 = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale"
LUT = "Feature '.decompress::lut::b' not supported on .target 'sm_100a'"
NOT_HERE = "Instruction 'tcgen05.mma' not supported on .target 'sm_100'"
COMPRESS = "Feature '.sp::2:4' not supported on .target 'sm_107f'"
FORMS = (
    _ti16(".cta_group::1"),
    _ti16(".cta_group::2"),
    _ti16(".sp.cta_group::1", "[%r2], "),
    _ti16(".ws.cta_group::1"),
    _ti16(".ws.sp.cta_group::1", "[%r2], "),
    NewerForm(
        f"{F8}.collector::b::fill",
        _multiply(f"{F8}.collector::b::fill"),
        RUBIN,
        "Illegal modifier '.collector::b::fill' for instruction 'tcgen05.mma'",
    ),
    NewerForm(f"{F8}.decompress::lut::b", _multiply(f"{F8}.decompress::lut::b", "[%r2], "), RUBIN, LUT),
    NewerForm(
        f"{MXF8}.decompress::lut::b", _multiply(f"{MXF8}.decompress::lut::b.block32", "[%r2], ", SCALES), RUBIN, LUT
    ),
    NewerForm(f"{NVF4}.block16", _multiply(f"{NVF4}.block16", "", SCALES), FAMILIES, NOT_HERE),
    NewerForm(f"{NVF4}.block32", _multiply(f"{NVF4}.block32", "", SCALES), FAMILIES, NOT_HERE),
    NewerForm(
        f"{NVF4}.scale_vec::4X",
        _multiply(f"{NVF4}.scale_vec::4X", "", SCALES),
        (("sm_100a", "8.7"), ("sm_103a", "8.8"), ("sm_107a", "9.4"), ("sm_110a", "9.0")),
        "Feature '.scale_vec::4X' not supported on .target 'sm_107f'",
    ),
    NewerForm(
        "tcgen05.ld.spcompress",
        "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.f32.b2 {%r5}, {%r6, %r7}, [%r0];",
        (("sm_107a", "9.4"),),
        COMPRESS,
    ),
    NewerForm(
        "tcgen05.ld.red.spcompress",
        "tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.f32.b2 {%r5}, {%r6, %r7}, %f0, [%r0];",
        (("sm_107a", "9.4"),),
        COMPRESS,
    ),
    NewerForm(
        "cvt.rn.satfinite.ue5m3x2.f32",
        "cvt.rn.satfinite.ue5m3x2.f32 %h0, %f0, %f1;",
        RUBIN,
        "Instruction 'cvt with .ue5m3x2' not supported on .target 'sm_100a'",
        "PTX ISA 9.4, cvt",
    ),
)
# what ptxas refuses for every target, although other kinds have it
REFUSED = {
    f"{MXF8}.block16": "Modifier '.kind::mxf8f6f4' cannot be combined with modifier '.block16'",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block16": (
        "Modifier '.kind::mxf4' cannot be combined with modifier '.block16'"
    ),
}
# families of which targets of sm_107 accept forms: those that need no `a` or `f` target of an earlier arch
_PLAIN = ("wmma", "mma", "mma.sp", "ldmatrix", "stmatrix", "movmatrix")
SM_107 = {"sm_107": _PLAIN, "sm_107f": (*_PLAIN, "tcgen05"), "sm_107a": (*_PLAIN, "tcgen05")}
# forms of tcgen05 that a target of sm_107 refuses: patterns of ids
LACKING = {
    "sm_107a": ("tcgen05.mma*.kind::i8",),
    "sm_107f": ("tcgen05.mma*.kind::i8", "tcgen05.mma.sp.*.kind::mxf4*", "tcgen05.shift.down"),
}
