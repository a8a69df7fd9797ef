"""`import tcprobe`: what it gives, how little it loads, and that Python has what every command does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import tcprobe
from tcprobe import api
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.layout.swizzle import Swizzle

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
A, D = (f"mma.m16n8k16.row.col.f32.f16.f16.f32.{operand}" for operand in "ad")
OFFERED = {
    *("fragment", "instruction", "arch", "banks", "path", "descriptor", "tensormap"),
    *(
        "swizzle",
        "convert",
        "reduce",
        "compare",
        "cost",
        "numerics",
        "order",
        "kernel",
        "scales",
        "repack",
        "lower",
        "read",
        "check",
        "emulate",
    ),
    *("layout", "layouts", "agree", "plan"),
}


def test_import_loads_nothing_else():
    """So that it takes no longer than importing click, which loads some hundred modules."""
    code = "import sys; before = set(sys.modules); import tcprobe; print(*set(sys.modules) - before)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(found.stdout.split()) <= {"tcprobe", "__future__"}


def test_the_entry_point_imports_nothing_before_its_hooks():
    """So that Ctrl-C is one line from the first moment on: an import that it stops before them has a traceback."""
    code = "import sys; before = set(sys.modules); from tcprobe.__main__ import main; print(*set(sys.modules) - before)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(found.stdout.split()) <= {"tcprobe", "tcprobe.__main__", "__future__"}


INTERRUPTED = """
import sys
class Interrupting:
    left = {left}
    def find_spec(self, name, *rest):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
from tcprobe.__main__ import main
sys.argv = ["tcprobe", "show", "wmma.m16n16k16.d.f32", "--arch", "sm_90"]
sys.meta_path.insert(0, Interrupting())
main()
"""


@pytest.mark.parametrize("left", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
def test_an_interrupt_in_any_import_is_one_line(left):
    code = INTERRUPTED.format(left=left)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (found.returncode, found.stderr) == (130, "Stopped.\n")


def test_all_that_is_offered_is_there_and_documented():
    assert sorted(tcprobe.__all__) == sorted(OFFERED)
    assert not OFFERED - set(dir(tcprobe))
    for name in OFFERED:
        assert callable(getattr(tcprobe, name)), name
        assert f"tcprobe.{name}(" in PAGE, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tcprobe.nothing


def test_every_command_has_its_row_and_every_row_is_there():
    """Python can do what a command can: docs/python.md says by what, and it exists."""
    rows = re.findall(r"^\| ((?:`[\w-]+`,? ?)+) \| (.*) \|$", PAGE, re.MULTILINE)
    commands = {name for heads, _ in rows for name in re.findall(r"`([\w-]+)`", heads)}
    assert commands == set(main.list_commands(click.Context(main)))
    for _, cells in rows:
        for module, name in re.findall(r"`(tcprobe|api)\.(\w+)", cells):
            assert getattr({"tcprobe": tcprobe, "api": api}[module], name) is not None


def said(*words):
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[0])


@pytest.mark.full
def test_python_answers_as_the_commands_do():
    a = tcprobe.fragment(A)
    shown = said("show", A)
    assert (a.formulas, a.arch, a.evidence.split(": ")[0]) == (shown["formula"], shown["arch"], "measured")
    assert {name: [list(x) for x in images] for name, images in a.bases.items()} == shown["bases"]
    assert a.array.tolist() == shown["table"]
    assert tcprobe.convert(D, A).to_json() == said("convert", D, A)
    assert tcprobe.reduce(D, over="row", op="max").to_json() == said("reduce", D, "--over", "row", "--op", "max")
    tile = said("banks", A, "--tile", "64x64", "--with", "ldmatrix.x4", "--propose")
    answer = tcprobe.banks(A, tile=(64, 64), access="ldmatrix.x4", propose=True)
    assert {"fragment": A, **json.loads(json.dumps(answer.to_json()))} == tile
    lanes = said("banks", "--address", "lane * 128", "--with", "ld.shared.b32")
    assert json.loads(json.dumps(tcprobe.banks(lane_addresses="lane * 128", access="ld.shared.b32").to_json())) == lanes
    assert tcprobe.banks(lane_addresses=[lane * 128 for lane in range(32)], access="ld.shared.b32").wavefronts == 32
    encoded = tcprobe.descriptor(tile=(128, 64), kind="f16").descriptor.encode()
    assert f"{encoded:#018x}" == said("descriptor", "--tile", "128x64", "--type", "f16")["descriptor"]
    assert tcprobe.descriptor(encoded).encode() == encoded
    assert tcprobe.tensormap("bf16", tile=(128, 64), swizzle="128B").map.box == (64, 128)
    (cost,) = tcprobe.cost(D.removesuffix(".d"))
    assert json.loads(json.dumps(cost.to_json())) == said("cost", D.removesuffix(".d"))
    found = json.loads(json.dumps(tcprobe.numerics(D.removesuffix(".d")).to_json()))
    assert found == said("numerics", D.removesuffix(".d"))
    assert tcprobe.kernel("sm_80", "f16", tile=(128, 128, 64)).source.count("__global__") == 1
    assert [one.verdict for one in tcprobe.compare(A)][:2] == ["confirmed", "confirmed"]
    assert [step.instruction for step in tcprobe.path(A, (64, 64), placed="128").steps][-1] == "ldmatrix.x4"


def test_tables_of_offsets_and_swizzles(tmp_path):
    swizzle = tcprobe.swizzle("128B")
    assert swizzle == Swizzle(3, 4, 3)
    found = tcprobe.swizzle(swizzle(np.arange(4096).reshape(64, 64) * 2) // 2, bits=16)
    assert found.found.swizzles
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("lane,i,row,col\n0,0,0,0\n0,1,1,0\n")
    assert tcprobe.compare(A, table=wrong).first


def test_values_print_and_draw_themselves():
    a = tcprobe.fragment("mma m16n8k16 bf16 a")
    assert repr(a) == "<mma.m16n8k16.row.col.f32.bf16.bf16.f32.a on sm_90, 16 x 16 of bf16, measured live>"
    assert a._repr_svg_().startswith("<svg")
    assert a._repr_svg_() in a._repr_html_()
    assert a.evidence in a._repr_html_()
    multiply = tcprobe.instruction("mma m16n8k16 bf16")
    assert repr(multiply) == "<mma.m16n8k16.row.col.f32.bf16.bf16.f32 on sm_90: operands a, b, c, d>"
    assert multiply._repr_html_().count("<svg") == 4
    assert len(multiply) == 4
    large = tcprobe.fragment("wgmma.mma_async.m64n256k16.f32.f16.f16.d")
    assert large._repr_svg_() is None
    assert "thread" in large._repr_html_() or "row =" in large._repr_html_()
    assert [len(images) for images in large.bases.values()] == [7, 7]


def test_mistakes_say_what_to_do():
    wrong = {
        tcprobe.fragment: ("nonsense",),
        tcprobe.arch: ("sm_1",),
        tcprobe.banks: (),
        tcprobe.fragment(A).at: (32, 0),
    }
    for asked, given in wrong.items():
        with pytest.raises(UsageError):
            asked(*given)
    with pytest.raises(UsageError, match="needs the type"):
        tcprobe.banks(tile=(8, 8), access="ldmatrix.x4")


def test_the_notebook_runs():
    """Its cells in order, as Jupyter would: the last line of each is an expression that is shown."""
    cells = json.loads((ROOT / "examples" / "first_look.ipynb").read_text("utf-8"))["cells"]
    space = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
    assert space["registers"].shape == (32, 8)
    assert str(space["tile"].proposals[0].best) == "Sw<3,4,3>"


D, M = "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32"
INTEGER = "mma.m16n8k32.row.col.s32.s8.s8.s32"
NO_ANSWER = {
    "reduce without a question": lambda: tcprobe.reduce(D),
    "descriptor of nothing": tcprobe.descriptor,
    "descriptor's tile": lambda: tcprobe.descriptor(tile=(128,)),
    "descriptor's major": lambda: tcprobe.descriptor(tile=(128, 64), major="x"),
    "tensormap's swizzle": lambda: tcprobe.tensormap("bf16", tile=(64, 64), swizzle="x"),
    "tensormap's interleave": lambda: tcprobe.tensormap("bf16", tile=(64, 64), interleave="x"),
    "tensormap's promotion": lambda: tcprobe.tensormap("bf16", tile=(64, 64), promotion="x"),
    "tensormap's fill": lambda: tcprobe.tensormap("bf16", tile=(64, 64), fill="x"),
    "tensormap's address": lambda: tcprobe.tensormap("bf16", tile=(64, 64), address=-16),
    "kernel's tile": lambda: tcprobe.kernel("sm_80", "f16", tile=(128, 128)),
    "kernel's warps": lambda: tcprobe.kernel("sm_80", "f16", warps=(0, 2)),
    "kernel's stages": lambda: tcprobe.kernel("sm_80", "f16", stages=0),
    "kernel's major": lambda: tcprobe.kernel("sm_80", "f16", a="diagonal"),
    "kernel's multiply": lambda: tcprobe.kernel("sm_80", "f16", multiply="x"),
    "load's lines": lambda: api.straight_load(api.load(D), "diagonal", 64),
    "banks without accesses": lambda: tcprobe.banks(D, tile=(16, 8)),
    "swizzle of fractions": lambda: tcprobe.swizzle(np.array([[0.5, 1], [2, 3]])),
    "swizzle of a row": lambda: tcprobe.swizzle(np.arange(8)),
    "swizzle below 0": lambda: tcprobe.swizzle(np.full((4, 4), -1)),
    "swizzle of three bits": lambda: tcprobe.swizzle(np.arange(64).reshape(8, 8), bits=3),
    "swizzle of none": lambda: tcprobe.swizzle(None),
    "numerics of complex numbers": lambda: tcprobe.numerics.dot(M, np.full(16, 1 + 2j), np.zeros(16), 0),
    "numerics of texts": lambda: tcprobe.numerics.dot(M, ["a"] * 16, np.zeros(16), 0),
    "numerics of objects": lambda: tcprobe.numerics.dot(M, [None] * 16, np.zeros(16), 0),
    "numerics of numbers too large for NumPy": lambda: tcprobe.numerics.dot(M, [10**400] * 16, np.zeros(16), 0),
    "integers of complex numbers": lambda: tcprobe.numerics.dot(INTEGER, np.full(32, 1j), np.zeros(32), 0),
    "integers of objects": lambda: tcprobe.numerics.dot(INTEGER, [None] * 32, np.zeros(32), 0),
}


@pytest.mark.parametrize("ask", NO_ANSWER.values(), ids=NO_ANSWER)
def test_what_a_command_refuses_python_refuses(ask):
    """What click checks of a command's options, the functions check themselves."""
    with pytest.raises(UsageError):
        ask()
