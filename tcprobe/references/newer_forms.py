"""Forms and targets newer than the inventory's rows: what ptxas accepts, for which targets, from which PTX version on.

>>> from tcprobe.references.newer_forms import FORMS, SM_107
>>> sorted({form.name.partition(".sp")[0] for form in FORMS if form.targets == (("sm_107a", "9.4"),)})
['spcompress.b16.b2', 'spcompress.b16.b4', 'spcompress.b8.b2', 'spcompress.b8.b4', 'spdecompress.b16.b4', \
'spdecompress.b8.b2', 'spdecompress.b8.b4', 'tcgen05.ld', 'tcgen05.ld.red']
>>> SM_107["sm_107"]
('wmma', 'mma', 'mma.sp', 'ldmatrix', 'stmatrix', 'movmatrix')

>>> [(row.kind, row.k) for row in SHAPES if row.group == 1]
[('f8f6f4', 64), ('mxf8f6f4', 64), ('mxf4nvf4', 96), ('mxf4nvf4', 128)]

Of sm_107's multiplies K is a field of the instruction descriptor, which no compiler sees: those rows are CUTLASS's.
Accepted does not mean native: what a form becomes is another question. `tests/test_newer_forms.py` checks every row
against a compiler (CUDA_HOME with 13.5). PTX 9.5 is the newest version that ptxas 13.5 knows; its text was not
released, so what only 9.5 may state is marked.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import read_target

BY = "ptxas 13.5.37"


class NewerForm(NamedTuple):
    """A line of newer_forms.csv: `spelled`, with operands, is what was assembled.

    `targets`: all that accept it, each with its least PTX version. `refusal`: what the compiler says for another.
    `text`: where the form is documented, None if in no released text.
    """

    name: str
    spelled: str
    targets: tuple[tuple[str, str], ...]
    refusal: str
    text: str | None


SCALES = "[%r2], [%r3], "
FORMS = facts.read(
    __file__, "newer_forms.csv", NewerForm, targets=lambda cell: read_target(cell).options, text=facts.optional(str)
)


class NewerShape(NamedTuple):
    """A line of newer_shapes.csv: sizes of a dense tcgen05.mma of sm_107, and `k` beside the one of earlier archs.

    `sparse_k` is that of the sparse form with the same descriptor, None where it is not stated. `scales`: type and
    number of a row's, empty where none are, or none are stated. `descriptor`: what the instruction descriptor has.
    """

    kind: str
    group: int
    m: int
    n: tuple[int, ...]
    k: int
    sparse_k: int | None
    scales: tuple[str, ...]
    descriptor: str
    source: str


SHAPES = facts.read(
    __file__,
    "newer_shapes.csv",
    NewerShape,
    group=facts.number,
    m=facts.number,
    n=facts.numbers,
    k=facts.number,
    sparse_k=facts.optional(facts.number),
    scales=facts.words,
)
# what ptxas refuses for every target, although other kinds have it
REFUSED = {
    f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale.block16": (
        f"Modifier '.kind::{kind}' cannot be combined with modifier '.block16'"
    )
    for kind in ("mxf8f6f4", "mxf4")
}
# families of which targets of sm_107 accept forms: those that need no `a` or `f` target of an earlier arch
_PLAIN = ("wmma", "mma", "mma.sp", "ldmatrix", "stmatrix", "movmatrix")
SM_107 = {"sm_107": _PLAIN, "sm_107f": (*_PLAIN, "tcgen05"), "sm_107a": (*_PLAIN, "tcgen05")}
# forms of tcgen05 that a target of sm_107 refuses: patterns of ids
LACKING = {
    "sm_107a": ("tcgen05.mma*.kind::i8",),
    "sm_107f": ("tcgen05.mma*.kind::i8", "tcgen05.mma.sp.*.kind::mxf4*", "tcgen05.shift.down"),
}
