"""The target and version that rows and emitted PTX texts state: ptxas takes them with just these, and none below."""

import re
import subprocess

import pytest
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.ask.describe import fragment_entry
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, least_ptx, version
from tcprobe.probes import tensor_memory
from tcprobe.probes.ptx import blame
from tcprobe.sass.lowering import probe
from tcprobe.store.cell import find_operands
from tcprobe.store.results import published

STATED = re.compile(r"\.target (\w+), \.version (\d+)\.(\d+) or later")
PTX_VERSIONS = [
    *(f"6.{minor}" for minor in range(6)),
    *(f"7.{minor}" for minor in range(9)),
    *(f"8.{minor}" for minor in range(9)),
    *(f"9.{minor}" for minor in range(6)),
]
OLD = ("not defined for option 'gpu-name'", "Unsupported .version")  # words of a ptxas that is too old for a text
ADDRESSES = "".join(f".reg .b64 %p{o};.reg .u32 %ld{o};" for o in "abcd")


def _kinds():
    """An instruction for every family, type of A, least target and PTX version."""
    kinds = {}
    for row in inventory.instructions().values():
        if row.fragments and row.family != "tcgen05" and not any(f.selectors for f in row.fragments):
            kinds.setdefault((row.family, row.fragments[0].type, row.target.name, row.target.ptx), row)
    return kinds


def _tables(row):
    return next(filter(None, (find_operands(row, name.name, published()) for name in reversed(ARCHS))), None)


@needs_tools
@pytest.mark.parametrize("family", sorted({family for family, *_ in _kinds()}))
def test_ptxas_takes_what_is_stated(tmp_path, family):
    tried = 0
    for row in (row for (of, *_), row in _kinds().items() if of == family):
        tables = _tables(row)
        assert tables, row.id
        text = emit.emit("ptx", list(tables.values()))
        stated = [(target, (int(major), int(minor))) for target, major, minor in STATED.findall(text)]
        target, least = max(stated, key=lambda one: (int(re.sub(r"\D", "", one[0])), one[1]))
        major, minor = max(least, *(of for _, of in stated))
        source = tmp_path / "stated.ptx"
        source.write_text(
            f".version {major}.{minor}\n.target {target}\n.address_size 64\n"
            f".visible .entry f() {{\n{ADDRESSES}\n{text}\nret;\n}}\n"
        )
        made = subprocess.run(
            [TOOLS.ptxas, "-O0", "-arch", target, source, "-o", tmp_path / "x.cubin"],
            capture_output=True,
            text=True,
            check=False,
        )
        if "Unsupported .version" in made.stderr or "not defined for option 'gpu-name'" in made.stderr:
            continue  # of another ptxas
        assert made.returncode == 0, (row.id, target, major, minor, made.stderr)
        tried += 1
    assert tried


def _versions():
    """By least target and PTX version, of each option of a form, the kernels that have the form."""
    kernels = {}
    for row in inventory.instructions().values():
        if row.named_apart:
            for option in row.target.options:
                kernels.setdefault(option, []).append(row)
    return kernels


OPTIONS = _versions()


def _kernel(row, target):
    """The form's kernel; on targets with suffix a with scales named as its own least version has them."""
    return tensor_memory.kernel(row, least=True) if row.family == "tcgen05" and target.endswith("a") else probe(row)


def _refused(tmp_path, target, ptx, kernels):
    """Names of the kernels that ptxas refuses with a target and a PTX version; None if it is too old for the two."""
    names, pending = set(), list(kernels)
    while pending:
        head = f".version {ptx}\n.target {target}\n.address_size 64\n\n"
        source = tmp_path / "version.ptx"
        source.write_text(head + "\n".join(kernel.text for kernel in pending))
        command = [TOOLS.ptxas, "-O0", "-arch", target, source, "-o", tmp_path / "x.cubin"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if any(words in made.stderr for words in OLD):
            return None
        if made.returncode == 0:
            break
        blamed = blame(made.stderr, pending)
        assert blamed, made.stderr
        names |= set(blamed)
        pending = [kernel for kernel in pending if kernel.name not in blamed]
    return names


@needs_tools
@pytest.mark.parametrize(("target", "ptx"), sorted(OPTIONS), ids="-".join)
def test_a_form_is_taken_from_its_version_on_and_not_below(tmp_path, sample, target, ptx):
    """Of every form at every target that it names; below what brought the target there is nothing to try."""
    kernels = [_kernel(row, target) for row in sample(OPTIONS[target, ptx], 40)]
    refused = _refused(tmp_path, target, ptx, kernels)
    if refused is None:
        pytest.skip(f"{TOOLS.name} does not know {target} with PTX {ptx}")
    assert refused == set()
    below = PTX_VERSIONS[PTX_VERSIONS.index(ptx) - 1]
    if version(below) >= version(least_ptx(target)):
        assert _refused(tmp_path, target, below, kernels) == {kernel.name for kernel in kernels}


def test_what_ptx_states_stands_beside_what_ptxas_takes():
    """wmma came with PTX 6.0 and 6.1, its .aligned with 6.3; fp8 of kind::f8f6f4 is taken before it is stated."""
    entries = [fragment_entry(f) for f in inventory.fragments().values()]
    differing = {(e.min_ptx, e.stated_ptx, e.family) for e in entries if e.stated_ptx}
    assert differing == {("6.3", "6.0", "wmma"), ("6.3", "6.1", "wmma")}
    fp8 = inventory.instructions()["mma.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e5m2.f32"].target
    early = {name: (ptx, fp8.stated_for(name, ptx)) for name, ptx in fp8.options if fp8.stated_for(name, ptx)}
    assert early == {"sm_100a": ("8.6", "8.7")}
