"""What is stated of forms newer than the rows, asked again of a ptxas that knows them (CUDA_HOME of 13.5)."""

import fnmatch
from concurrent.futures import ThreadPoolExecutor

import pytest

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes import tensor_memory
from tcprobe.references.newer_forms import BY, FORMS, LACKING, REFUSED, SCALES, SHAPES
from tcprobe.sass import toolchain
from tcprobe.system.children import Scratch

ARCHS = {"sm_90": "a", **dict.fromkeys(("sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121"), "fa")}
TARGETS = [name + suffix for name, known in ARCHS.items() for suffix in ("", *known)]
VERSIONS = ("8.6", "8.7", "8.8", "9.0", "9.1", "9.2", "9.3", "9.4", "9.5")
KERNEL = """.version {ptx}
.target {target}
.address_size 64
.visible .entry form(.param .u64 out) {{
.reg .b32 %r<16>; .reg .b64 %d<4>; .reg .b16 %h<2>; .reg .f32 %f<4>; .reg .pred %p;
mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
mov.u64 %d0, 0; mov.u64 %d1, 16; mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f3f800000; setp.ne.u32 %p, %r0, 0;
{spelled}
ret; }}
"""


@pytest.fixture(scope="module")
def ptxas():
    """That compiler; the tests are skipped without."""
    try:
        program = toolchain.compiler()
        release = toolchain.version(program)
    except EnvironmentUnfitError as error:
        pytest.skip(str(error))
    if f"ptxas {release}" != BY:
        pytest.skip(f"ptxas {release} is not {BY}: set CUDA_HOME to CUDA 13.5")
    return program


def said(program, target, text):
    """None where the compiler takes it, else its words."""
    with Scratch() as scratch:
        source = scratch.folder / "form.ptx"
        source.write_text(text)
        done = toolchain.attempt(scratch, [program, "-arch", target, str(source), "-o", f"{source}.cubin"], 60.0)
    return None if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_it_is_taken_there_and_nowhere_else(ptxas, form):
    def least(target):
        if said(ptxas, target, KERNEL.format(ptx="9.5", target=target, spelled=form.spelled)):
            return None
        texts = ((v, KERNEL.format(ptx=v, target=target, spelled=form.spelled)) for v in VERSIONS)
        return next(v for v, text in texts if said(ptxas, target, text) is None)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(TARGETS, pool.map(least, TARGETS), strict=True))
    assert {target: ptx for target, ptx in found.items() if ptx} == dict(form.targets)
    where = form.refusal.rpartition("'sm_")[2].rstrip("'")
    target = f"sm_{where}" if where in {t.removeprefix("sm_") for t in TARGETS} else "sm_100a"
    assert form.refusal in said(ptxas, target, KERNEL.format(ptx="9.5", target=target, spelled=form.spelled))


def test_what_no_kind_but_one_has(ptxas):
    for name, words in REFUSED.items():
        spelled = f"{name} [%r0], %d0, %d1, %r1, {SCALES}%p;"
        for target in ("sm_100a", "sm_107a"):
            assert words in said(ptxas, target, KERNEL.format(ptx="9.5", target=target, spelled=spelled))


@pytest.mark.parametrize("target", LACKING)
def test_forms_of_tcgen05_on_sm_107(ptxas, target):
    rows = [r for r in inventory.instructions().values() if r.family == "tcgen05" and r.named_apart]
    refused = []
    for row in rows:
        head = f".version 9.5\n.target {target}\n.address_size 64\n"
        refused += [row.id] * (said(ptxas, target, head + tensor_memory.kernel(row).text) is not None)
    assert refused == [row.id for row in rows if any(fnmatch.fnmatchcase(row.id, p) for p in LACKING[target])]


def test_shapes_of_sm_107_keep_to_the_forms_that_it_has():
    """Twice or one and a half times the K of the same kind on earlier archs, no other M, and N among those there."""
    rows = {row.id: row for row in inventory.instructions().values()}
    for shape in SHAPES:
        form = rows[f"tcgen05.mma.cta_group::{shape.group}.kind::{shape.kind}"]
        assert form.target.on(arch("sm_107"))
        assert shape.k / form.shape.k in {1.5, 2}
        assert shape.sparse_k in {None, 2 * shape.k}
        assert shape.m in form.stated["m_values"]
        assert set(shape.n) <= set(form.stated["n_values"])
        types = {str(scale).split()[0] for scale in form.stated.get("scales", ())}
        assert {scale.split()[0] for scale in shape.scales} - {"ue5m3"} <= types
        for scale in shape.scales:
            assert shape.k // int(scale.split()[1]) in {16, 32}
