"""Probe kernels as text: golden files, and ptxas as their real consumer."""

import importlib.util
import shutil
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Target, arch, runs
from tcprobe.probes import dialogues, experiments, moves, multiply, wmma
from tcprobe.probes.experiment import kernels
from tcprobe.probes.ptx import blame, errors_by_line, module
from tcprobe.run.gpu import Gpu

SOME_N = (8, 24, 256)  # of a warpgroup: other numbers of columns differ in how many registers there are


def shown(experiment):
    """Whether its kernels are assembled here: all of a warp's; of a warpgroup's some N of every type, all of one."""
    row = getattr(experiment, "instruction", None)
    return row is None or not row.described or row.shape.n in SOME_N or row.id.endswith("k16.f32.f16.f16")


KERNELS = {k.name: k for e in experiments().values() if shown(e) for k in kernels(e)}


def ptxas():
    spec = importlib.util.find_spec("nvidia.cuda_nvcc")
    for place in spec.submodule_search_locations if spec else ():
        if (Path(place) / "bin" / "ptxas").exists():
            return str(Path(place) / "bin" / "ptxas")
    return shutil.which("ptxas")


PTXAS = ptxas()
needs_ptxas = pytest.mark.skipif(not PTXAS, reason="no ptxas for this platform")


def assemble(text, target, tmp_path):
    source = tmp_path / "probe.ptx"
    source.write_text(text)
    command = [PTXAS, "-arch", target, str(source), "-o", str(tmp_path / "probe.cubin")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "kernel",
    [
        wmma.load_kernel(inventory.fragments()["wmma.m16n16k16.a.row.f16"], "row"),
        wmma.load_kernel(inventory.fragments()["wmma.m8n8k128.b.col.b1"], "col"),
        wmma.load_kernel(inventory.fragments()["wmma.m8n8k4.c.f64"], "col"),
        wmma.store_kernel(inventory.fragments()["wmma.m32n8k16.d.f32"], "row"),
        multiply.kernel(inventory.instructions()["mma.m16n8k16.row.col.f32.f16.f16.f32"]),
        multiply.kernel(inventory.instructions()["mma.m8n8k4.col.row.f32.f16.f16.f16"]),
        multiply.kernel(inventory.instructions()["mma.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"]),
        multiply.kernel(inventory.instructions()["wmma.mma.row.col.m16n16k16.f32.f32"]),
        multiply.kernel(inventory.instructions()["mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32"]),
        moves.kernel(inventory.instructions()["ldmatrix.m8n8.x2.trans.shared.b16"]),
        moves.kernel(inventory.instructions()["ldmatrix.m16n16.x1.trans.shared.b8x16.b4x16_p64"]),
        moves.kernel(inventory.instructions()["stmatrix.m8n8.x4.shared.b16"]),
        moves.kernel(inventory.instructions()["movmatrix.m8n8.trans.b16"]),
    ],
    ids=lambda kernel: kernel.name,
)
def test_golden_ptx(kernel, golden):
    golden(f"{kernel.name}.ptx", module([kernel], arch("sm_120")))


def test_the_header_is_the_least_that_allows_all():
    f16, fp8 = (KERNELS[f"mma_m16n8k16_row_col_f32_{t}_{t}_f32"] for t in ("f16", "e4m3"))
    assert module([f16], arch("sm_90")).startswith(".version 7.0\n.target sm_80\n")
    assert module([f16, fp8], arch("sm_90")).startswith(".version 8.7\n.target sm_89\n")
    kind = KERNELS["mma_m16n8k32_row_col_kind_f8f6f4_f32_e2m1_e2m1_f32"]
    assert module([f16, kind], arch("sm_120")).startswith(".version 8.7\n.target sm_120a\n")
    assert module([kind], arch("sm_121")).startswith(".version 8.8\n.target sm_120f\n")
    assert module([kind], arch("sm_90")).startswith(".version 8.7\n.target sm_90\n")  # to be refused by the compiler


def test_a_target_with_a_suffix_wins_over_a_newer_plain_one():
    """On sm_103 a form of family sm_100f is compiled for that, beside one that sm_103 does not have."""
    kind, move = (
        KERNELS[name]
        for name in ("mma_m16n8k32_row_col_kind_f8f6f4_f32_e2m1_e2m1_f32", "ldmatrix_m16n16_x1_trans_shared_b8")
    )
    assert module([kind, move], arch("sm_103")).splitlines()[1] == ".target sm_100f"


def test_a_gpu_compiles_what_its_arch_does_not_have_apart(monkeypatch):
    """On sm_100 the header of an ldmatrix would let a form of sm_120 pass, which the driver then emulates."""
    kind, move = (
        KERNELS[name]
        for name in ("mma_m16n8k32_row_col_kind_f8f6f4_f32_e2m1_e2m1_f32", "ldmatrix_m16n16_x1_trans_shared_b8")
    )
    gpu, texts = Gpu.__new__(Gpu), []
    gpu._compilers = gpu._readers = ThreadPoolExecutor(1)
    gpu._arch, gpu._raw, gpu._timed_code = arch("sm_100"), {}, {}
    monkeypatch.setattr(gpu, "_load_module", lambda ks: texts.append(module(ks, gpu._arch)))
    assert gpu.load([kind, move]) == {}
    assert [text.splitlines()[1] for text in texts] == [".target sm_100a", ".target sm_100"]


def by_target():
    groups = defaultdict(list)
    for kernel in KERNELS.values():
        groups[kernel.target].append(kernel)
    return sorted(groups.items(), key=lambda item: (item[0].ptx, item[0].name))


@needs_ptxas
@pytest.mark.parametrize(
    ("target", "group"), by_target(), ids=lambda x: f"{x.name}-{x.ptx}" if isinstance(x, Target) else ""
)
@pytest.mark.sampled(9)
def test_every_kernel_assembles_at_its_least_target_and_version(target, group, tmp_path):
    done = assemble(module(group, arch(target.name.rstrip("af"))), target.name, tmp_path)
    if "Unsupported .version" in done.stderr:
        pytest.skip(f"this ptxas does not know PTX {target.ptx}")
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.full
@needs_ptxas
@pytest.mark.parametrize(
    ("target", "group"), by_target(), ids=lambda x: f"{x.name}-{x.ptx}" if isinstance(x, Target) else ""
)
def test_no_kernel_assembles_one_target_or_version_lower(target, group, tmp_path):
    """The rows' least target and PTX version are the least: ptxas refuses every kernel below, by name."""
    plain = target.name.rstrip("af")
    older = [
        a.name for a in ARCHS if a.name not in (target.name, "sm_88", "sm_107", "sm_110") and not runs(a, target.name)
    ]
    older = [a for a in older if arch(a).number < arch(plain).number]
    if older:
        text = module(group, arch(target.name.rstrip("af"))).replace(f".target {target.name}", f".target {older[-1]}")
        assert_all_blamed(text, older[-1], group, tmp_path)
    text = module(group, arch(plain))
    lower = {
        "7.0": "6.5",
        "7.1": "7.0",
        "6.4": "6.3",
        "6.5": "6.4",
        "8.7": "8.6",
        "8.4": "8.3",
        "7.8": "7.7",
        "8.2": "8.1",
    }
    if target.ptx in lower and arch(plain).ptx != target.ptx:
        assert_all_blamed(
            text.replace(f".version {target.ptx}", f".version {lower[target.ptx]}"), target.name, group, tmp_path
        )


def assert_all_blamed(text, target, group, tmp_path):
    done = assemble(text, target, tmp_path)
    assert done.returncode != 0
    blamed = blame(done.stderr, group)
    assert set(blamed) == {k.name for k in group}


@needs_ptxas
def test_blame_names_the_refused_kernels_only(tmp_path):
    names = [
        "mma_m16n8k8_row_col_f16_f16_f16_f16",
        "mma_m16n8k16_row_col_f32_bf16_bf16_f32",
        "mma_m8n8k16_row_col_s32_u8_u8_s32",
    ]
    group = [KERNELS[name] for name in names]
    text = module(group, arch("sm_80")).replace(".target sm_80", ".target sm_75")
    done = assemble(text, "sm_75", tmp_path)
    assert list(blame(done.stderr, group)) == [names[1]]


def test_blame_of_the_header_falls_on_the_highest_version():
    log = "ptxas app.ptx, line 1; fatal   : Unsupported .version 8.7; current version is '8.4'"
    assert errors_by_line(log) == {1: "Unsupported .version 8.7; current version is '8.4'"}
    group = [KERNELS[f"mma_m16n8k16_row_col_f32_{t}_{t}_f32"] for t in ("f16", "e4m3")]
    assert list(blame(log, group)) == [group[1].name]
    assert "needs PTX 8.7" in blame(log, group)[group[1].name]
    assert blame("something else went wrong", group) == {}


def test_one_target_has_what_two_kernels_need():
    """tcgen05.shift is for sm_103a alone, tcgen05.ld for a family, ld.red for another: sm_103a has all of them."""
    ids = ("tcgen05.ld.32x32b.x1", "tcgen05.shift.cta_group::1.down", "tcgen05.ld.red.32x32b.x2")
    forms = (dialogues("cost")[id_] for id_ in ids)
    both = [kernel for form in forms for kernel in form.kernels()]
    assert module(both, arch("sm_103")).splitlines()[1] == ".target sm_103a"
    assert module(both[:1], arch("sm_103")).splitlines()[1] == ".target sm_100f"
