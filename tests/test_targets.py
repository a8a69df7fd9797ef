"""Targets: what the inventory says of every form at every target is what ptxas says; refused is refused everywhere."""

import json
import re
from dataclasses import replace
from itertools import product

import pytest
from click.testing import CliRunner
from machine_code import TOOLS, needs_tools

from tcprobe.ask.absent import instead, why_not
from tcprobe.ask.lower import lower_multiplies
from tcprobe.cli import main
from tcprobe.errors import RowError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import ARCHS, CUDA, Target, covers, least_cuda, least_ptx, runs, version
from tcprobe.isa.names import resolve
from tcprobe.isa.rows.tcgen05 import VECTOR_SIZES, vector_sizes
from tcprobe.probes.tensor_memory import BLOCK
from tcprobe.sass import lowering
from tcprobe.sass.lowering import UNREADABLE, probe
from tcprobe.sass.toolchain import Assembler
from tcprobe.store.choose import default
from tcprobe.system.children import Scratch

ROWS = [row for row in inventory.instructions().values() if row.named_apart]
TARGETS = [(row, own) for row in ARCHS for own in row.targets]
EVERY = 37
AT_ONCE = 500  # forms that one ptxas takes well within its limit, on a busy machine too
KIND = "mma.m16n8k{k}.row.col.kind::f8f6f4.{d}.{a}.{b}.{d}"
FP8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
NEW = [KIND.format(k=16, d=d, a=a, b=b) for d in ("f16", "f32") for a, b in FP8] + [
    f"mma.sp::ordered_metadata.m16n8k64.row.col.f16.{a}.{b}.f16" for a, b in FP8
]
# rows by what the rules of targets differ in, for the sample
FAMOUS = [
    inventory.instructions()[id_]
    for id_ in (
        *NEW,
        KIND.format(k=32, d="f32", a="e4m3", b="e5m2"),
        KIND.format(k=32, d="f32", a="e2m1", b="e5m2"),
        "tcgen05.ld.red.32x32b",
        "tcgen05.shift.down",
        "tcgen05.mma.cta_group::1.kind::i8",
        "tcgen05.mma.sp.cta_group::1.kind::mxf4",
        "ldmatrix.m16n16.x1.trans.shared.b8",
        "wgmma.mma_async.m64n8k16.f32.f16.f16",
    )
]


def refused(row, own, forms):
    """ptxas' words for the forms that it refuses at a target; those that want a newer ptxas are left out of `forms`."""
    kernels = {form.id: probe(form) for form in forms}
    kernels = {id_: replace(kernel, target=kernel.target.alone(own)) for id_, kernel in kernels.items()}
    with Scratch() as scratch:
        words = Assembler(TOOLS, row, scratch, scratch.folder / "all.cubin").assemble(list(kernels.values()))
    return {id_: words[kernel.name] for id_, kernel in kernels.items() if kernel.name in words}


def disagreements(row, own, forms):
    """Forms of which the inventory says another thing than ptxas, but for those that this ptxas is too old for."""
    parts = (forms[first : first + AT_ONCE] for first in range(0, len(forms), AT_ONCE))
    words = {id_: why for part in parts for id_, why in refused(row, own, part).items()}
    return [
        (form.id, words.get(form.id, "accepted"))
        for form in forms
        if (own in form.target.every(row)) == (form.id in words) and not words.get(form.id, "").startswith("needs PTX")
    ]


def known(row):
    if row not in TOOLS.archs:
        pytest.skip(f"ptxas {TOOLS.ptxas_version} does not know {row}")


@pytest.mark.sampled(5)
@needs_tools
@pytest.mark.parametrize(("row", "own"), TARGETS, ids=[own for _, own in TARGETS])
def test_a_sample_is_allowed_where_ptxas_accepts_it(row, own):
    known(row)
    first = [own for _, own in TARGETS].index(own)
    assert disagreements(row, own, [*FAMOUS, *ROWS[first::EVERY]]) == []


@needs_tools
@pytest.mark.full
@pytest.mark.parametrize(("row", "own"), TARGETS, ids=[own for _, own in TARGETS])
def test_every_form_is_allowed_where_ptxas_accepts_it(row, own):
    known(row)
    assert disagreements(row, own, ROWS) == []


def test_a_target_has_all_that_those_before_it_have():
    for row in ARCHS:
        assert [own.removeprefix(row.name) for own in row.targets] == sorted(
            {own.removeprefix(row.name) for own in row.targets}, key=["", "f", "a"].index
        )
        for device, own in TARGETS:
            seen = [covers(target, own) for target in row.targets]
            assert seen == sorted(seen)
            assert runs(row, own) == seen[-1]
            same_family = row.family is not None and row.family == device.family
            allowed = {"": True, "f": same_family, "a": row == device}[own.removeprefix(device.name)]
            assert runs(row, own) == (allowed and row.number >= device.number)


def test_a_later_arch_of_a_family_runs_what_is_for_an_earlier_one(monkeypatch):
    """Nothing but its row says so: 108, made up, stands between 103 and 110, and is of family 100."""
    later = arch.BY_NAME["sm_107"]._replace(number=108, ptx="9.5")
    monkeypatch.setitem(arch.BY_NAME, later.name, later)
    assert [runs(later, t) for t in ("sm_100f", "sm_103f", "sm_108f", "sm_110f", "sm_103a")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    form = inventory.instructions()["tcgen05.ld.red.32x32b"]
    assert form.target.every(later) == ("sm_108f", "sm_108a")


@pytest.mark.parametrize("name", ["sm_80a", "sm_90f", "sm_103x", "sm_99", "sm_103fa"])
def test_no_such_target(name):
    assert not arch.is_target(name)
    with pytest.raises(UsageError):
        runs(arch.arch("sm_103"), name)
    with pytest.raises(RowError):
        Target(name, "9.1")


def test_a_suffix_is_as_young_as_its_ptx_version():
    assert [arch.least_ptx(t) for t in ("sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_110f")] == [
        "7.8",
        "8.0",
        "8.6",
        "8.8",
        "9.0",
    ]
    with pytest.raises(RowError):
        Target("sm_100f", "8.7")


def test_why_not_names_the_targets():
    answer = why_not(resolve("tcgen05.ld.red.32x32b.d").fragment, arch.arch("sm_103"), default())
    assert answer.allowed
    assert "is allowed on sm_103 (target sm_103f or sm_103a) from CUDA 12.9 on" in answer.words
    plain = why_not(resolve("mma.m16n8k16.row.col.f32.f16.f16.f32.a").fragment, arch.arch("sm_103"), default())
    assert "is allowed on sm_103 from CUDA 12.9 on;" in plain.words


def test_why_not_names_what_does_the_same_there(sample):
    """Of every multiply and arch that lacks it: a form that is there, takes the same types, and becomes no more
    opcodes for a multiply-add than any other of its family; none where all are emulated (by the published lowerings).
    """

    def taken(row):
        operands = {o.name.removesuffix("_smem"): {o.type} for o in row.operands}
        stated = {"a": "ab_types", "b": "ab_types", "d": "d_types"} if row.family == "tcgen05" else {}
        types = {name: set(row.stated[stated[name]]) if name in stated else operands[name] for name in "abd"}
        scales = {str(scale).split()[0] for scale in row.stated.get("scales", ())} or operands.get("scale_a", {None})
        return {(*each, "e" in operands, row.bit_op) for each in product(*types.values(), scales)}

    does = {row: taken(row) for row in inventory.instructions().values() if row.multiplies}
    alike = {(frozenset(types), row.target): row for row, types in does.items()}.values()
    folders = default()
    for device in map(arch.arch, sample(("sm_75", "sm_90", "sm_70", "sm_80", "sm_100", "sm_120"), 6)):
        opcodes = {}
        for row in does:
            low = lowering.saved(row, device, folders) if row.threads == 32 and row.family != "tcgen05" else None
            if low and (low.refused or not low.native(row)):
                continue
            if row.target.on(device):
                opcodes[row] = sum(low.opcodes.values()) / row.triples if low else 0
        for row in alike:
            if row.target.on(device):
                continue
            other = instead(row, device, folders)
            others = [one for one in opcodes if does[one] & does[row]]
            assert (other is not None) == bool(others), (row.id, device.name)
            if other is not None:
                assert other in others, (row.id, other.id)
                family = [one for one in others if one.family == other.family and one.kind == other.kind]
                same = [one for one in family if one.type("d") == other.type("d")]
                assert opcodes[other] == min(opcodes[one] for one in same), (row.id, other.id)


@pytest.mark.parametrize(
    ("id_", "name", "wanted"),
    [
        ("wgmma.mma_async.m64n64k16.f32.f16.f16.a", "sm_120", r"mma.m16n8k\d+.row.col.f32.f16.f16.f32"),
        ("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_75", "mma.m16n8k8.row.col.f32.f16.f16.f32, 2 of them"),
        ("wgmma.mma_async.m64n64k16.f32.f16.f16.a", "sm_100", "tcgen05.mma.cta_group::1.kind::f16"),
        ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a", "sm_103", "tcgen05.mma.cta_group::1.kind::f8f6f4"),
    ],
)
def test_why_not_says_so(id_, name, wanted):
    answer = why_not(resolve(id_).fragment, arch.arch(name), default())
    assert not answer.allowed
    assert re.search(rf"{name} multiplies these types by {wanted}\.$", answer.words)


@pytest.mark.full
def test_what_is_saved_says_its_target():
    """Of every arch and form: the target of what is published is one that the inventory allows; refused has none."""
    for row in ARCHS:
        forms = [form for form in ROWS if form.threads == 32]
        for form, answer in zip(forms[:: 4 * EVERY], lower_multiplies(forms[:: 4 * EVERY], row.name), strict=True):
            made = answer.lowering
            assert (made.target is None) == (made.refused not in (None, UNREADABLE))
            assert made.target is None or made.target in form.target.every(row), (form.id, made)


def test_refused_is_said_of_nothing_that_is_allowed():
    """The published lowerings, of every arch, against the inventory."""
    from tcprobe.store.results import published

    for row in ARCHS:
        saved = published().lowering(row.name)  # nothing of an arch that no ptxas knows yet
        for id_, made in saved["instructions"].items() if saved else ():
            form = inventory.instructions()[id_]
            too_old = (made["refused"] or "").startswith("needs PTX")
            taken = made["refused"] in (None, UNREADABLE)
            assert too_old or taken == bool(form.target.on(row)), (row.name, id_)


@pytest.mark.full
@needs_tools
def test_refused_was_tried_at_every_target():
    (answer,) = lower_multiplies([inventory.instructions()[KIND.format(k=32, d="f32", a="e2m1", b="e5m2")]], "sm_103")
    assert "refused [sm_103, sm_103f, sm_103a]" in str(answer)
    (answer,) = lower_multiplies([inventory.instructions()["tcgen05.ld.red.32x32b"]], "sm_103")
    assert answer.to_json()["target"] == "sm_103f"


def test_k_96_says_what_both_tables_say():
    for kind, scales in (("mxf4", ("ue8m0 3X",)), ("mxf4nvf4", ("ue8m0 3X", "ue8m0 6X", "ue4m3 6X"))):
        form = inventory.instructions()[f"tcgen05.mma.cta_group::2.kind::{kind}.k96"]
        assert form.stated["scales"] == scales
        assert [text.split(":")[0] for text in form.stated["tables"]] == [
            f"PTX ISA 9.1, table {number}" for number in (39, 44, 56)
        ]
        assert next(o for o in form.operands if o.name == "scale_a").cols == 3  # blocks of 32 in 96


SIZES = ("", *(f".scale_vec::{number}X" for number in (1, 2, 3, 4)), ".block16", ".block32")
SCALED = [(row, own) for row, own in TARGETS if own != row.name and inventory.of_family("tcgen05")[0].target.on(row)]


@needs_tools
@pytest.mark.parametrize(("row", "own"), SCALED, ids=[own for _, own in SCALED])
def test_sizes_of_scaled_blocks_are_those_that_ptxas_takes(row, own):
    """Every size for every kind with scales: .scale_vec for targets with suffix a alone, .block16, .block32 for all."""
    known(row)
    asked = {}
    for form in (form for form in ROWS if form.kind in VECTOR_SIZES and own in form.target.every(row)):
        if form.family != "tcgen05":
            continue
        kernel = probe(form)
        for size in SIZES:
            named = f"{kernel.name}_{SIZES.index(size)}"
            text = kernel.text.replace(BLOCK, size).replace(kernel.name, named)
            asked[named] = (form, size, replace(kernel, name=named, text=text, target=kernel.target.alone(own)))
    with Scratch() as scratch:
        kernels = [kernel for _, _, kernel in asked.values()]
        refused = Assembler(TOOLS, row, scratch, scratch.folder / "all.cubin").assemble(kernels)
    for named, (form, size, _) in asked.items():
        assert (named not in refused) == (size in vector_sizes(form.kind, own)), (form.id, size, refused.get(named))
    assert asked


def test_every_form_has_a_least_cuda_on_every_target():
    """A toolkit's PTX version is its own, or that of a later one, and no older toolkit's."""
    numbers = [tuple(map(int, cuda.split("."))) for cuda in CUDA.values()]
    assert numbers == sorted(numbers)
    assert list(map(version, CUDA)) == sorted(map(version, CUDA))
    for row in inventory.instructions().values():
        for target, ptx in row.target.options:
            cuda = least_cuda(ptx, target)
            assert cuda == CUDA[max(ptx, least_ptx(target), key=version)]
    assert [least_cuda(device.ptx, device.name) for device in ARCHS if device.number in (90, 103, 107, 120)] == [
        "11.8",
        "12.9",
        "13.4",
        "12.8",
    ]


@pytest.mark.parametrize(
    ("name", "arch_name", "cuda"),
    [
        ("mma.m16n8k16.row.col.f32.bf16.bf16.f32.d", "sm_120", "12.8"),
        ("mma.m16n8k16.row.col.f32.bf16.bf16.f32.d", "sm_80", "11.0"),
        ("wgmma.mma_async.m64n64k16.f32.f16.f16.d", "sm_80", "12.0"),
        ("tcgen05.mma.cta_group::1.kind::f16.d", "sm_107", "13.4"),
        ("tcgen05.mma.cta_group::1.kind::f16", "sm_90", "12.8"),
    ],
)
def test_why_not_says_the_first_toolkit(name, arch_name, cuda):
    asked = CliRunner().invoke(main, ["why-not", name, "--arch", arch_name, "--json"])
    (found,) = [json.loads(line) for line in asked.stdout.splitlines()]
    assert found["cuda"] == cuda
    assert f"CUDA {cuda}" in found["words"]
