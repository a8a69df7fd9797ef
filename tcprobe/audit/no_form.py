"""Asks ptxas whether a form of mma that a package names exists on any arch.

A form does not exist if ptxas refuses its shape or types on all archs that might have it, with the right number of
registers, and accepts another form of the same types written the same way.
"""

from __future__ import annotations

import re
from functools import cache

from tcprobe.errors import TcprobeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import own
from tcprobe.sass import toolchain
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.system.children import Scratch

_FORM = re.compile(r"mma(\.sp)?\.m16n8k([0-9]{1,3})\.row\.col\.(f16|f32)\.(e4m3|e5m2)\.\4\.\3")
# ptxas's words where no target has such a form: about the shape and its types, not about a target or a version
_NEVER = re.compile(r"Incorrect instruction type specified for mma with shape|Illegal shape|not a valid shape", re.I)
KIND = ".kind::f8f6f4"
TEXT = """\
.version {version}
.target {target}
.address_size 64
.visible .entry k() {{
  .reg .b32 %a<{a}>, %b<{b}>, %e;
  .reg .{cd} %c<{d}>, %d<{d}>;
  {form} {{{d_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}}{metadata};
  ret;
}}
"""


@cache
def refusal(form: str) -> str | None:
    """ptxas's words for a form that no arch has; None if it may exist, or ptxas cannot be asked."""
    match = _FORM.fullmatch(form)
    if not match or inventory.instructions().get(form):
        return None
    try:
        return _ask_ptxas(toolchain.find(), match)
    except TcprobeError:
        return None


def text(match: re.Match[str], target: str, kind: str, version: str = "8.7") -> str:
    """A kernel with this instruction alone."""
    sparse, k, out, _ = match.groups()
    bits = 8 * int(k) // 32 // 4  # registers of B: 8 columns of k bytes, over 32 lanes
    a, b, d = (bits if sparse else 2 * bits), bits, 4 if out == "f32" else 2
    name = "mma.sp::ordered_metadata" if sparse else "mma"
    types = ".".join((out, match[4], match[4], out))
    lists = {f"{p}_list": ", ".join(f"%{p}{j}" for j in range(n)) for p, n in (("a", a), ("b", b), ("c", d), ("d", d))}
    return TEXT.format(
        version=version,
        target=target,
        a=a,
        b=b,
        d=d,
        cd="f32" if out == "f32" else "b32",
        **lists,
        form=f"{name}.sync.aligned.m16n8k{k}.row.col{kind}.{types}",
        metadata=", %e, 0x0" if sparse else "",
    )


def example(form: str) -> str:
    """A kernel for sm_120a with a form that `refusal` refuses."""
    match = _FORM.fullmatch(form)
    assert match is not None
    return text(match, "sm_120a", KIND)


def _ask_ptxas(tools: Toolchain, match: re.Match[str]) -> str | None:
    targets = [own(row, f"{row.name}{'a' if row.number >= 90 else ''}") for row in tools.archs if row.number >= 89]
    words = {_first_error(tools, text(match, target, kind), target) for target in targets for kind in ("", KIND)}
    if not targets or "" in words or not all(_NEVER.search(line) for line in words):
        return None
    return f"ptxas {tools.ptxas_version} refuses it for {', '.join(targets)}: {min(words)}"


def _first_error(tools: Toolchain, source: str, target: str) -> str:
    """ptxas's first error, "" if it accepts the text."""
    with Scratch() as scratch:
        path = scratch.folder / "form.ptx"
        path.write_text(source)
        completed = attempt(
            scratch, [tools.ptxas, "-arch", target, str(path), "-o", str(scratch.folder / "o")], tools.limit
        )
    if completed.returncode == 0:
        return ""
    return completed.stderr.partition("error")[2].partition("\n")[0].strip(" :") or "no reason"
