"""Every arithmetic instruction and conversion: which names there are, and the bits that each gives.

The names are held against ptxas, the results against rational arithmetic and against what an H200 gave.
"""

import importlib
import itertools
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from exact_arithmetic import FORMATS, arithmetic, conversion, value

import tcprobe
from tcprobe.emulate.compiled import compilers
from tcprobe.emulate.forms import TYPES, form_of, forms
from tcprobe.errors import UsageError
from tcprobe.sass import toolchain

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # behind tests, which have files of the same names
import instructions  # noqa: E402

EVERY = {case.name: case for case in instructions.cases()}
MODULES = ("floats", "conversions", "integers")


def test_no_arithmetic_is_emulated_that_the_table_does_not_have():
    """The table decides what is computed: each opcode of these modules is in it, and each in it is known."""
    known = set()
    for name in MODULES:
        known |= set(importlib.import_module(f"tcprobe.emulate.instructions.{name}").OPCODES)
    assert known == set(forms())
    assert known <= set(compilers())


def registers(types):
    """Operands of types, untyped registers of their width."""
    names = []
    for place, kind in enumerate(types):
        size = TYPES.get(kind, 1)
        letter = "p" if kind == "pred" else {1: "b" if kind == "e2m1x2" else "h", 2: "h", 4: "r", 8: "d"}[size]
        names.append("7" if kind == "n" else f"%{letter}{place}")
    return ", ".join(names)


def refused_by_ptxas(tools, statements, target, version):
    """The numbers of the statements that ptxas does not take, for another reason than their operands."""
    head = f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
    head += ".reg .b64 %d<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .b8 %b<9>; .reg .pred %p<9>;\n"
    text = head + ";\n".join([*statements, "ret"]) + ";\n}\n"
    done = subprocess.run(
        [tools.ptxas, "-arch", target, "/dev/stdin", "-o", "/dev/null"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    first = head.count("\n") + 1
    lines = re.findall(r"line (\d+); error\s*: (.*)", done.stdout + done.stderr)
    return {int(line) - first for line, why in lines if not why.startswith("Arguments mismatch")}


@pytest.fixture(scope="module")
def tools():
    try:
        return toolchain.find(None)
    except tcprobe.errors.EnvironmentUnfitError as error:
        pytest.skip(str(error))


def mutants():
    """Names near those of the table: a word more, a word less, another word."""
    for opcode, some in forms().items():
        words = sorted(
            {word for form in some for choice in form.choices for word in choice.words} | set(TYPES) - {"b128"}
        )
        for form in some:
            name = next(name for name in form.names() if name.startswith(f"{opcode}."))
            longest = list(form.names())[-1].split(".")[1:]
            for own in (name.split(".")[1:], longest):
                for place, word in itertools.product(range(len(own)), words):
                    yield opcode, (*own[:place], word, *own[place + 1 :]), form
                    yield opcode, (*own[:place], word, *own[place:]), form
                yield from ((opcode, (*own[:place], *own[place + 1 :]), form) for place in range(len(own)))


@pytest.fixture(scope="module")
def near():
    """Statements of names of the table and near it."""
    found = {}
    for opcode, words, form in mutants():
        name = ".".join((opcode, *words))
        if not any(word in TYPES for word in words) or "b128" in words:
            continue
        found.setdefault(f"{name} {registers(form.operand_types(name))}", name)
    return found


def test_ptxas_takes_what_the_table_has_and_nothing_is_computed_that_it_refuses(tools, near):
    """Of 55,000 names: those that the table takes, ptxas takes."""
    refused = refused_by_ptxas(tools, near, "sm_100a", "8.8")
    taken = [number for number, (text, name) in enumerate(near.items()) if form_of(name, text.count(",") + 1)]
    assert len(taken) > 1000
    assert len(refused) > 10_000
    wrong = [list(near)[number] for number in taken if number in refused]
    assert [
        text for text in wrong if not text.startswith(("mad.cc.", "madc.cc."))
    ] == []  # ptxas wants .cc last in these


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"])
def test_targets_of_the_table_are_ptxas_s(tools, target):
    """A form that has a least target is refused one target lower, and taken there."""
    rows = list({form.row: form for some in forms().values() for form in some}.values())
    names = [(row, name) for row, form in enumerate(rows) for name in form.names() if "b128" not in name]
    statements = [f"{name} {registers(rows[row].operand_types(name))}" for row, name in names]
    refused = {names[number][0] for number in refused_by_ptxas(tools, statements, target, "8.8")}
    of_an_arch = {row for row, form in enumerate(rows) if form.row.target and form.row.target.name.endswith("a")}
    beyond = {row for row, form in enumerate(rows) if instructions.least_of(form) > int(target[3:])}
    assert refused - of_an_arch == beyond - of_an_arch
    assert refused >= of_an_arch


def test_what_the_table_does_not_have_is_refused_by_name(near, sample):
    """In a line that names it; nothing runs."""
    left = [text for text, name in near.items() if not form_of(name, text.count(",") + 1)]
    for text in sample(left[::25], 50):
        body = (
            f"{{ .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .b8 %b<9>; .reg .pred %p<9>;\n{text};\nret; }}"
        )
        with pytest.raises(UsageError, match=re.escape(f"{text.split()[0]} is not emulated")):
            tcprobe.emulate(f"{instructions.HEAD}.visible .entry k() {body}", launch={"block": [32], "arguments": []})


def exact_result(case, bits):
    """By rational arithmetic; None for a NaN."""
    opcode, *words = case.name.removesuffix(" of three").split(".")
    kinds = [kind.removesuffix("x2") for kind in (case.result, *case.sources)]
    if opcode == "cvt":
        return conversion(words, *kinds[:2], *bits)
    return arithmetic(opcode, words, kinds, bits)


ORACLE = ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "min", "max", "abs", "neg", "cvt")
EXACT = [
    name
    for name, case in EVERY.items()
    if name.partition(".")[0] in ORACLE
    and not case.approximate
    and "pack" not in name
    and {kind.removesuffix("x2") for kind in (case.result, *case.sources)} & set(FORMATS)
]


def parts_of(number, kind):
    """Of a pair the lower and the upper one, a tf32 without the bits that it has not."""
    bits = FORMATS[kind.removesuffix("x2")].bits if kind.removesuffix("x2") in FORMATS else int(kind[1:])
    if kind == "tf32":
        assert number & 0x1FFF == 0
        return [number >> 13]
    if not kind.endswith("x2"):
        return [number & (1 << bits) - 1]
    apart = 8 if 4 < bits < 8 else bits
    return [number >> shift & (1 << bits) - 1 for shift in (0, apart)]


@pytest.mark.sampled(31)
@pytest.mark.parametrize("name", EXACT)
def test_every_float_is_exact_and_rounded_once(name):
    """Against rational arithmetic: of special values and of random ones, also what no GPU here has."""
    case = EVERY[name]
    chosen = np.r_[0 : instructions.SPECIAL : 31, instructions.SPECIAL : instructions.COUNT : 2531]
    given = tuple(array[chosen] for array in instructions.operands(case.sources))
    out, _ = instructions.by_steps(case, given)
    kind = case.result.removesuffix("x2")
    for at, result in enumerate(out.tolist()):
        operands = [int(array[at]) for array in given]
        if case.result.endswith("x2") and not case.sources[0].endswith("x2"):  # two numbers into one register
            inputs = [[operands[1]], [operands[0]]]
        else:
            inputs = list(zip(*(parts_of(o, k) for o, k in zip(operands, case.sources, strict=True)), strict=True))
        for one, own in zip(parts_of(result, case.result), inputs, strict=True):
            wanted = exact_result(case, own)
            if wanted is not None:
                assert one == wanted, [f"{operand:x}" for operand in operands]
            elif "rna" not in name:  # a NaN, which hardware cuts off there
                assert value(one, kind) is None, [f"{operand:x}" for operand in operands]


KNOWN = [  # what an H200 gave, but for the last five, which are exact
    ("add.rm.f32", (0x3F800000, 0xBF800000), 0x80000000),
    ("fma.rm.f32", (0x3F800000, 0x3F800000, 0xBF800000), 0x80000000),
    ("rcp.rz.f32", (0x7F800000,), 0),
    ("rcp.rm.f32", (0x7F800000,), 0),
    ("rcp.rp.f32", (0x7F800000,), 0),
    ("cvt.sat.f32.f32", (0x80000000,), 0),
    ("add.sat.f32", (0x80000000, 0x80000000), 0),
    ("cvt.rn.satfinite.e4m3x2.f32", (0xFFC00000, 0x3F800000), 0x7F38),
    ("cvt.rn.satfinite.e5m2x2.f32", (0xFFC00000, 0x3F800000), 0x7F3C),
    ("cvt.rzi.s32.f64", (0x7FF8000000000000,), 0x80000000),
    ("cvt.rzi.u32.f64", (0x7FF8000000000000,), 0x80000000),
    ("cvt.rzi.s64.f32", (0x7FC00000,), 0x8000000000000000),
    ("cvt.rzi.u64.f32", (0x7FC00000,), 0x8000000000000000),
    ("cvt.rzi.s32.f32", (0x7FC00000,), 0),
    ("cvt.rn.f64.s64", (0x20000000000001,), 0x4340000000000000),
    ("setp.lt.or.f16x2", (0x40003C00, 0x3C004000, 1), 1),
    ("mul.ftz.f16", (0x3BFF, 0x8400), 0x8000),
    ("rem.u32", (7, 0), 0xFFFFFFFF),
    ("fma.rn.f32.bf16", (0x3F80, 0x4000, 0x3F800000), 0x40400000),
    ("fma.rn.f32.f16", (0x3C00, 0x4000, 0x3F800000), 0x40400000),
    ("add.f32.bf16", (0x3F80, 0x3F800000), 0x40000000),
    ("sub.f32.f16", (0x4200, 0x3F800000), 0x40000000),
    ("add.rz.f64", (0x7FEFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF), 0x7FEFFFFFFFFFFFFF),
]


@pytest.mark.parametrize(("name", "given", "wanted"), KNOWN, ids=lambda value: value if isinstance(value, str) else "")
def test_special_values_have_known_bits(name, given, wanted):
    """A few of each kind of what was wrong once, to be read."""
    case = EVERY[name]
    bits = [np.array([n], f"u{instructions.operand_bytes(kind)}") for n, kind in zip(given, case.sources, strict=True)]
    assert instructions.by_steps(case, tuple(bits))[0].tolist() == [wanted]


@cache
def measured():
    """What an H200 gave."""
    return json.loads(instructions.KEPT.read_text())


@pytest.mark.sampled(61)
@pytest.mark.parametrize("name", [name for name, case in EVERY.items() if case.here and not case.approximate])
def test_every_instruction_has_the_bits_of_an_h200(name):
    """Special operands and random ones, as digests."""
    told = measured()
    assert (told["seed"], told["special"], told["random"]) == (
        instructions.SEED,
        instructions.SPECIAL,
        instructions.RANDOM,
    )
    assert instructions.digests(*instructions.emulated(EVERY[name])) == told["instructions"][name]


@pytest.mark.gpu
def test_the_gpu_at_hand_has_these_bits():
    """All of them once more, on hardware."""
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.Device(0).compute_capability != str(instructions.MAIN):
        pytest.skip("the bits are those of sm_90")
    told = measured()["instructions"]
    every = [case for case in EVERY.values() if case.name in told]
    assert len(every) == len(told)
    wrong = [
        case.name
        for case, done in zip(every, instructions.on_gpu(every), strict=True)
        if done.out is None or instructions.digests(done.out, done.extra) != told[case.name]
    ]
    assert wrong == []


def test_kernels_that_a_gpu_runs_are_emulated_whole(sample):
    """The text that was measured, with its loads and stores, gives what its instruction gives alone."""
    for case in sample((case for case in EVERY.values() if case.here), 197):
        given = instructions.operands(case.sources)
        buffer = np.zeros((len(given), instructions.SLOT), np.uint8)
        for row, array in zip(buffer, given, strict=True):
            row[: array.nbytes] = array.view(np.uint8)
        made = np.zeros(2 * instructions.SLOT, np.uint8)
        done = tcprobe.emulate(
            instructions.HEAD + instructions.kernel(case, 0),
            launch={"block": [instructions.BLOCK], "grid": [2, 1, 1], "arguments": [buffer, made]},
        )
        assert done.finished
        assert done.findings == []
        size, count = instructions.result_bytes(case), 2 * instructions.BLOCK
        out, extra = instructions.by_steps(case, tuple(array[:count] for array in given))
        assert done.arrays[1][: size * count].tobytes() == out.tobytes(), case.name
        second = done.arrays[1][instructions.SLOT :][: 4 * count]
        assert second.tobytes() == extra.tobytes(), case.name
