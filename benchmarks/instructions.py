"""Whether the emulator's arithmetic and conversions give a GPU's bits, of special and of random operands.

    python benchmarks/instructions.py --measure --out DIR    on a GPU: DIR/instructions.json, and what differs
    python benchmarks/instructions.py --stand-in --out DIR   here: the emulator in place of the GPU
    python benchmarks/instructions.py --keep DIR             from there to tests/data/instructions_h200.json

A case is a PTX instruction of `tcprobe/emulate/forms.csv`, between loads of its operands and stores of its results. The
operands of a signature (types of sources) follow from SEED: 2,400 of special values, 100,000 that are random. A digest
of the results of either is kept, and the first eight results. Functions that PTX calls approximate have no digest: how
far they are from the emulator's is said, in units of the last place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.emulate.compiled import compile_function
from tcprobe.emulate.forms import TYPES, Form, form_of, forms
from tcprobe.emulate.machine import Machine, Shape
from tcprobe.emulate.memory import GlobalMemory
from tcprobe.emulate.patterns import views_of
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.report import Report

SEED = "instructions 2"
SPECIAL, RANDOM, BLOCK = 2_400, 100_000, 256
COUNT = SPECIAL + RANDOM
KEPT = Path(__file__).parent.parent / "tests" / "data" / "instructions_h200.json"
TABLES = (0x96, 0xE8, 0xCA, 0x1B)  # of lop3
SLOT = 8 * COUNT  # bytes of an operand in the buffer
FIRST, EXAMPLES = 8, 8  # results and differing operands that are kept
BATCH = 48  # instructions of a module
MAIN = 90  # of sm_90 is what runs on an H200
HEAD = ".version 8.1\n.target sm_90\n.address_size 64\n"


class Case(NamedTuple):
    """An instruction with its operands' types, and the statements that it needs."""

    name: str
    sources: tuple[str, ...]
    result: str
    body: str
    approximate: bool
    least: int

    @property
    def here(self) -> bool:
        """Whether sm_90 has it."""
        return self.least <= MAIN


def register_type(kind: str, name: str) -> str:
    """bN; 8 bits stand in 16, except where ptxas wants them alone: beside bf16, and of e2m1x2."""
    size = TYPES[kind]
    alone = kind == "e2m1x2" or "bf16" in name.split(".")
    return f"b{8 * (size if alone else max(size, 2))}"


def cases() -> Iterator[Case]:
    """Every instruction."""
    for opcode, some in forms().items():
        for form in some:
            for name in form.names():
                if name.startswith(f"{opcode}.") and "b128" not in name:
                    yield from of_form(name, form)


def of_form(name: str, form: Form) -> Iterator[Case]:
    """The cases of one name: of lop3 one a table."""
    result, *sources = form.operand_types(name)
    numbers = TABLES if "n" in sources else (None,)
    for number in numbers:
        before, after, operands = [], [], []
        for place, kind in enumerate(sources):
            if kind == "n":
                operands.append(f"{number:#x}")
            elif kind == "pred":
                before += [f"and.b32 %a{place}, %a{place}, 1;", f"setp.ne.u32 %p{place}, %a{place}, 0;"]
                operands.append(f"%p{place}")
            else:
                operands.append(f"%a{place}")
        kinds = ["b32" if kind == "pred" else kind for kind in sources if kind != "n"]
        opcode = name.partition(".")[0]
        subtracts = opcode.startswith("sub")
        if opcode in ("addc", "subc", "madc"):
            place = len(kinds)
            kinds.append("carry")
            before.append(f"sub.cc.u32 %t, 0, %a{place};" if subtracts else f"add.cc.u32 %t, %a{place}, 0xffffffff;")
        if ".cc" in name:
            after.append("subc.u32 %extra, 0, 0;" if subtracts else "addc.u32 %extra, 0, 0;")
        target = "%out"
        if result == "pred":
            both = opcode == "setp" and sources[0] not in ("f16", "bf16")
            target = "%y|%z" if both else "%y"
            after.append("selp.b32 %out, 1, 0, %y;")
            after += ["selp.b32 %extra, 1, 0, %z;"] if both else []
        statement = f"{name} {', '.join((target, *operands))};"
        declared = [f".reg .{register_type(k, name) if k != 'carry' else 'b32'} %a{n};" for n, k in enumerate(kinds)]
        declared.append(f".reg .{'b32' if result == 'pred' else register_type(result, name)} %out;")
        declared.append(".reg .b32 %t, %extra; .reg .pred %y, %z, %p<8>;")
        body = "\n".join([*declared, "mov.u32 %extra, 0;", *before, statement, *after])
        title = f"{name} {number:#x}" if number else f"{name} of three" if name_of_two(name, sources) else name
        approximate = not {"approx", "full"}.isdisjoint(name.split("."))
        yield Case(title, tuple(kinds), result, body, approximate, least_of(form))


def least_of(form: Form) -> int:
    """The number of the least target."""
    return int(re.sub("[^0-9]", "", form.row.target.name)) if form.row.target else 0


def name_of_two(name: str, sources: list[str]) -> bool:
    """Whether the same name takes two numbers as well."""
    return len(sources) > 2 and form_of(name, 3) is not None


def kernel(case: Case, number: int) -> str:
    """The whole kernel: thread n takes the n-th of each operand."""
    lines = [f".visible .entry k{number}(.param .u64 given, .param .u64 made) {{"]
    lines += [".reg .b64 %in, %to, %at, %n; .reg .b32 %i, %j, %b;", case.body.partition("mov.u32 %extra")[0]]
    lines += ["ld.param.u64 %in, [given];", "ld.param.u64 %to, [made];"]
    lines += ["mov.u32 %i, %tid.x;", "mov.u32 %j, %ctaid.x;", f"mad.lo.u32 %i, %j, {BLOCK}, %i;"]
    for place, kind in enumerate(case.sources):
        size = operand_bytes(kind)
        lines += [f"mul.wide.u32 %n, %i, {size};", "add.u64 %at, %in, %n;"]
        lines.append(f"ld.global.b{8 * size} %a{place}, [%at+{place * SLOT}];")
    lines.append("mov.u32 %extra" + case.body.partition("mov.u32 %extra")[2])
    size = result_bytes(case)
    lines += [f"mul.wide.u32 %n, %i, {size};", "add.u64 %at, %to, %n;", f"st.global.b{8 * size} [%at], %out;"]
    lines += ["mul.wide.u32 %n, %i, 4;", "add.u64 %at, %to, %n;", f"st.global.b32 [%at+{SLOT}], %extra;", "ret;", "}"]
    return "\n".join(lines)


def operand_bytes(kind: str) -> int:
    """Of an operand in the buffer."""
    return 4 if kind == "carry" else TYPES[kind]


def result_bytes(case: Case) -> int:
    """Of a result: of the register that has it."""
    declared = case.body.partition(" %out;")[0].rpartition(".reg .b")[2]
    return int(declared) // 8


# operands


def words(key: str, bits: int, count: int) -> np.ndarray:
    """Random bits of a key, the same everywhere."""
    raw = hashlib.shake_256(f"{SEED} {key}".encode()).digest(count * bits // 8)
    return np.frombuffer(raw, f"<u{bits // 8}").copy()


NUMBERS = (
    1.0,
    0.5,
    1.5,
    2.5,
    3.5,
    0.75,
    1 + 2**-11,
    1 + 3 * 2**-11,
    1 + 2**-8,
    1 + 3 * 2**-8,
    1 + 2**-24,
    1 + 3 * 2**-24,
)
NUMBERS += (
    65504.0,
    65519.0,
    65520.0,
    448.0,
    464.0,
    465.0,
    480.0,
    57344.0,
    61440.0,
    61441.0,
    6.0,
    5.0,
    7.5,
    28.0,
    127.5,
)
NUMBERS += (128.5, 255.5, 2**-9, 2**-10, 1.5 * 2**-10, 2**-16, 2**-17, 2**-24, 2**-25, 1.5 * 2**-25, 2**-149, 2**-150)
NUMBERS += (
    1.5 * 2**-150,
    2**-126,
    (1 - 2**-24) * 2**-126,
    (2 - 2**-24) * 2.0**127,
    (2 - 2**-8) * 2.0**127,
    2.0**15,
    2.0**16,
)
NUMBERS += tuple((1 - part) * 2.0**-126 for part in (2**-25, 3 * 2**-26, 2**-26, 2**-28))  # edges of .ftz
NUMBERS += tuple(2.0**n + d for n in (7, 8, 31, 32, 63, 64) for d in (0, -0.5, -1))


def special_floats(kind: str) -> list[int]:
    """Zeros, infinities, NaNs, the edges of normal and subnormal numbers, what is halfway in narrower types."""
    form = FORMATS[kind]
    top, infinity, one = 1 << form.bits - 1, form.infinity, 1 << form.fraction
    found = [0, infinity, infinity | one >> 1, infinity | 1, infinity | one - 1, 1, one - 1, one, infinity - 1]
    numpy = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(kind)
    for number in NUMBERS:
        if numpy is None:
            bits = int(np.float32(min(number, 2.0**127)).view(np.uint32)) >> 16
        else:
            with np.errstate(over="ignore"):
                bits = int(np.asarray(number, numpy).view(f"u{form.bits // 8}"))
        found += [bits, bits + 1, bits - 1] if number in (1.0, 2.0**31, 2.0**32, 2.0**63) else [bits]
    return list(dict.fromkeys(n & top - 1 | sign for n in found for sign in (0, top)))


@cache
def special(kind: str) -> np.ndarray:
    """The special values of a type, as bits."""
    if kind.removesuffix("x2") in ("f16", "bf16", "f32", "f64") or kind == "tf32":
        own = special_floats(kind.removesuffix("x2"))
        bits = FORMATS[kind.removesuffix("x2")].bits
        if kind.endswith("x2"):
            own = [own[n * 7 % len(own)] << bits | low for n, low in enumerate(own)]
            bits *= 2
        return np.array(own, f"u{bits // 8}")
    bits = 8 * operand_bytes(kind)
    edges = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        15,
        16,
        17,
        31,
        32,
        33,
        47,
        48,
        63,
        64,
        65,
        127,
        128,
        255,
        256,
        257,
        32767,
        32768,
        65504,
    ]
    edges += [65519, 65520, 65535, 65536, (1 << 24) + 1, (1 << 24) + 3, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32]
    edges += [(1 << 53) + 1, (1 << 53) + 3, (1 << 63) - 1, 1 << 63, 0x5555555555555555, 0x7F807F807F807F80]
    every = [n & (1 << bits) - 1 for e in edges for n in (e, -e, ~e)]
    return np.array(list(dict.fromkeys(every)), f"u{bits // 8}")


def random(kind: str, key: str) -> np.ndarray:
    """Bits of any kind; floats near one another, and with few bits; small whole numbers; some special ones."""
    bits = 8 * operand_bytes(kind)
    made = words(f"{key} bits", bits, RANDOM)
    how = words(f"{key} how", 16, RANDOM)
    choice = special(kind)
    scalar = kind.removesuffix("x2")
    if scalar in ("f16", "bf16", "f32", "f64"):
        form = FORMATS[scalar]
        parts = made.view(f"u{form.bits // 8}")
        modes = np.repeat(how, parts.size // RANDOM)
        more = words(f"{key} exponent", 16, parts.size)
        spread = np.where(modes % 8 < 4, more % 7 + form.bias - 3, np.minimum(more % 76 + form.bias - 8, 2 * form.bias))
        fraction = parts & parts.dtype.type((1 << form.fraction) - 1)
        kept = (more >> 8) % (form.fraction + 1)  # how many low bits of the fraction are zero
        fraction = np.where(modes % 4 < 2, fraction >> kept.astype(parts.dtype) << kept.astype(parts.dtype), fraction)
        sign = parts & parts.dtype.type(1 << form.bits - 1)
        near = sign | np.maximum(spread, 0).astype(parts.dtype) << parts.dtype.type(form.fraction) | fraction
        parts[:] = np.where(modes % 8 < 6, near, parts)
    else:
        shift = (words(f"{key} shift", 16, RANDOM) % bits).astype(made.dtype)
        small = (made.view(f"i{bits // 8}") >> shift.view(f"i{bits // 8}")).view(made.dtype)
        made = np.where(how % 4 == 0, made, np.where(how % 4 == 1, small, made >> shift))
    return np.where(how % 61 == 0, choice[how // 61 % len(choice)], made).astype(made.dtype)


@lru_cache(16)
def operands(sources: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """The operands of a signature: combinations of special values first."""
    key = " ".join(sources)
    lists = [special(kind) for kind in sources]
    total = int(np.prod([len(one) for one in lists], dtype=object))
    if total <= SPECIAL:
        chosen = np.arange(SPECIAL, dtype=np.uint64) % np.uint64(total)
    else:
        chosen = words(f"{key} special", 64, SPECIAL) % np.uint64(total)
    found = []
    for place, (kind, values) in enumerate(zip(sources, lists, strict=True)):
        first = values[(chosen % np.uint64(len(values))).astype(np.intp)]
        chosen = chosen // np.uint64(len(values))
        found.append(np.concatenate([first, random(kind, f"{key} {place}")]))
    if len(found) > 1:  # the second is the first again, or its opposite, in a part: sums that cancel
        same = (words(f"{key} same", 16, COUNT) % 8 == 0) & (np.arange(COUNT) >= SPECIAL)
        if found[0].dtype == found[1].dtype:
            flip = found[0].dtype.type(1 << 8 * found[0].itemsize - 1) * (words(f"{key} flip", 8, COUNT) & 1)
            found[1] = np.where(same, found[0] ^ flip, found[1]).astype(found[1].dtype)
        if sources[0] == sources[1]:
            near_the_least(found, sources, key)
    return tuple(found)


def near_the_least(found: list[np.ndarray], sources: tuple[str, ...], key: str) -> None:
    """Operands whose product or quotient is near the smallest normal number, where .ftz decides, in a part."""
    scalar = sources[0].removesuffix("x2")
    if scalar not in ("f16", "bf16", "f32"):
        return
    form = FORMATS[scalar]
    parts = [np.ascontiguousarray(array).view(form.word) for array in found]
    how = words(f"{key} least", 16, parts[0].size)
    here = np.arange(parts[0].size) >= SPECIAL * (parts[0].size // COUNT)
    one, sign = form.one(), form.word(1 << form.bits - 1)
    bits = [part & form.word((1 << form.fraction) - 1) for part in parts[:2]]
    first, second = bits[0] | one - (1 << form.fraction), bits[1] | one  # from 0.5 to 1, from 1 to 2
    near = 2.0**form.least * (1 + (how >> 3).astype(np.int64) % 17 * 2.0 ** -(form.fraction + 4) - 2.0**-form.fraction)
    factor = (near / first.view(form.numpy).astype(np.float64)).astype(form.numpy).view(form.word)
    dividend = (near * second.view(form.numpy).astype(np.float64)).astype(form.numpy).view(form.word)
    first, second = first | parts[0] & sign, second | parts[1] & sign
    for share, values in ((1, (first, factor)), (2, (dividend, second))):
        chosen = here & (how % 8 == share)
        parts[0][:] = np.where(chosen, values[0], parts[0])
        parts[1][:] = np.where(chosen, values[1], parts[1])
        if len(parts) > 2 and sources[2] == sources[0]:
            parts[2][:] = np.where(chosen & (how % 16 < 8), 0, parts[2])


# the emulator


@cache
def machine() -> Machine:
    """One for all cases, whose steps are called as they are: nothing is loaded or stored."""
    module = parse(HEAD + ".visible .entry none() { ret; }")
    shape = Shape((COUNT // 32, 1, 1), (32, 1, 1), (1, 1, 1), 0)
    return Machine(module, shape, GlobalMemory([], []), COUNT // 32, Report(), "sm_90", views_of(module))


def emulated(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Results, and the second results: carries and predicates."""
    return by_steps(case, operands(case.sources))


def by_steps(case: Case, given: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The results of some operands."""
    ours = machine()
    ours.registers.clear()
    ours.states.clear()
    ours.module = parse(f"{HEAD}.visible .entry k() {{\n{case.body}\nret;\n}}")
    compile_function(ours.module.functions["k"], ours)
    found = {name.partition("@")[0]: array for name, array in ours.registers.items()}
    count = given[0].size
    for place, array in enumerate(given):
        if f"%a{place}" in found:
            found[f"%a{place}"][:count] = array
    with np.errstate(all="ignore"):
        for step in ours.code.steps[:-1]:
            step(slice(0, count))
    return found["%out"][:count].copy(), found["%extra"][:count].copy()


# the GPU


class Measured(NamedTuple):
    """What came of a case: results and second results, or why there are none."""

    out: np.ndarray | None
    extra: np.ndarray | None
    refused: str = ""


def on_gpu(every: list[Case]) -> Iterator[Measured]:
    """The results of cases, by the first GPU."""
    import ctypes

    import cupy

    from tcprobe.run import driver

    made = cupy.empty(2 * SLOT, cupy.uint8)
    device = cupy.cuda.Device(0)
    uploaded: dict[tuple[str, ...], Any] = {}

    def assembled(batch: list[Case]) -> tuple[bytes, str]:
        device.use()
        text = HEAD + "\n".join(kernel(case, number) for number, case in enumerate(batch))
        return driver.assemble(text.encode(), driver.BEST)

    batches = [every[start : start + BATCH] for start in range(0, len(every), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch, (cubin, log) in zip(batches, pool.map(assembled, batches), strict=True):
            if not cubin and len(batch) > 1:
                yield from (done for case in batch for done in on_gpu([case]))
                continue
            if not cubin:
                yield Measured(None, None, log.strip()[:200])
                continue
            module = cupy.cuda.function.Module()
            module.load(cubin)
            for number, case in enumerate(batch):
                if case.sources not in uploaded:
                    whole = np.zeros((len(case.sources), SLOT), np.uint8)
                    for row, array in zip(whole, operands(case.sources), strict=True):
                        row[: array.nbytes] = array.view(np.uint8)
                    uploaded[case.sources] = cupy.asarray(whole)
                made.fill(0xA5)
                function = module.get_function(f"k{number}")
                passed = [ctypes.c_void_p(uploaded[case.sources].data.ptr), ctypes.c_void_p(made.data.ptr)]
                cupy.cuda.runtime.deviceSynchronize()
                if code := driver.launch_kernel(function.ptr, (COUNT // BLOCK, 1, 1), (BLOCK, 1, 1), 0, passed):
                    raise RuntimeError(driver.result_name(code))
                cupy.cuda.runtime.deviceSynchronize()
                raw, size = made.get(), result_bytes(case)
                out = raw[: COUNT * size].view(f"u{size}")
                yield Measured(out, raw[SLOT : SLOT + 4 * COUNT].view(np.uint32))


def until_it_fails(results: Iterator[Measured]) -> Iterator[Measured]:
    """What there is of results: a GPU that is lost takes nothing with it that was measured before."""
    try:
        yield from results
    except Exception as error:
        print(f"the GPU fails: {type(error).__name__}: {str(error)[:300]}", flush=True)


def device_name(stand_in: bool) -> dict[str, str]:
    """Of the GPU and its driver."""
    if stand_in:
        return {"device": "the emulator", "driver": "none"}
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {"device": name, "driver": str(cupy.cuda.runtime.driverGetVersion())}


# digests


def digest(*arrays: np.ndarray) -> str:
    """Of arrays' bytes."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def digests(out: np.ndarray, extra: np.ndarray) -> dict[str, Any]:
    """Of special and of random operands, and the first results."""
    return {
        "special": digest(out[:SPECIAL], extra[:SPECIAL]),
        "random": digest(out[SPECIAL:], extra[SPECIAL:]),
        "first": [f"{n:x}" for n in out[:FIRST].tolist()],
    }


def difference(case: Case, mine: tuple[np.ndarray, np.ndarray], done: Measured) -> dict[str, Any] | None:
    """How many results differ, and the operands of some: first, middle and last ones."""
    assert done.out is not None
    assert done.extra is not None
    wrong = np.flatnonzero((mine[0] != done.out) | (mine[1] != done.extra))
    if not wrong.size:
        return None
    told: dict[str, Any] = {"special": int((wrong < SPECIAL).sum()), "random": int((wrong >= SPECIAL).sum())}
    if case.approximate:
        far, edges = distance(case.result, mine[0], done.out)
        told |= {"ulps": far, "edges": len(edges)}
        wrong = edges if edges.size else wrong
    some = wrong[np.linspace(0, wrong.size - 1, EXAMPLES).astype(int)] if wrong.size > EXAMPLES else wrong
    given = operands(case.sources)
    shown = [
        {
            "operands": [f"{int(array[at]):x}" for array in given],
            "gpu": [f"{int(done.out[at]):x}", f"{int(done.extra[at]):x}"],
            "emulator": [f"{int(mine[0][at]):x}", f"{int(mine[1][at]):x}"],
        }
        for at in some
    ]
    return told | {"examples": shown}


def distance(kind: str, mine: np.ndarray, theirs: np.ndarray) -> tuple[int, np.ndarray]:
    """How many floats lie between results at most; where one is a zero, infinity or NaN and the other is another."""
    form = FORMATS[kind.removesuffix("x2")]
    parts = [np.ascontiguousarray(each).view(form.word).astype(np.int64) for each in (mine, theirs)]
    if form.bits == 64:
        return -1, np.zeros(0, np.int64)
    top = 1 << form.bits - 1
    own, other = (np.where(part & top, top - part, part) for part in parts)
    edge = [(abs(n) >= form.infinity) | (n == 0) for n in (own, other)]
    strange = (parts[0] != parts[1]) & (edge[0] | edge[1])
    return int(abs(own - other)[~(edge[0] | edge[1])].max()), np.flatnonzero(strange) // (parts[0].size // mine.size)


def tried(case: Case) -> tuple[np.ndarray, np.ndarray] | str:
    """What the emulator says."""
    try:
        return emulated(case)
    except Exception as error:  # one case is not all
        return f"{type(error).__name__}: {str(error)[:200]}"


def measure(out: Path, stand_in: bool, only: str) -> int:
    """Run every case, compare, and write what came of it."""
    start = time.time()
    every = [case for case in cases() if case.here and only in case.name]
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:  # before there is a GPU in this process
        ours = pool.map(tried, every, chunksize=8)
    print(f"{len(every)} instructions emulated in {time.time() - start:.1f} s", flush=True)
    told: dict[str, Any] = {"seed": SEED, "special": SPECIAL, "random": RANDOM, "instructions": {}}
    told |= {"refused": {}, "different": {}, "failed": {}, "approximate": {}}
    theirs = (Measured(*one) if not isinstance(one, str) else Measured(None, None, one) for one in ours)
    for case, mine, done in zip(every, ours, theirs if stand_in else until_it_fails(on_gpu(every)), strict=False):
        if done.out is None or done.extra is None:
            told["refused"][case.name] = done.refused
            continue
        if not case.approximate:
            told["instructions"][case.name] = digests(done.out, done.extra)
        if isinstance(mine, str):
            told["failed"][case.name] = mine
        elif found := difference(case, mine, done):
            told["approximate" if case.approximate else "different"][case.name] = found
    told |= device_name(stand_in)
    out.mkdir(parents=True, exist_ok=True)
    (out / "instructions.json").write_text(json.dumps(told, indent=0) + "\n")
    for name, found in told["different"].items():
        print(f"{name}: {found['special']} special, {found['random']} random differ", flush=True)
    for name, words_ in (*told["failed"].items(), *told["refused"].items()):
        print(f"{name}: {words_}", flush=True)
    print(
        f"{len(every)} instructions, {len(told['different'])} differ, {len(told['failed'])} fail, "
        f"{len(told['refused'])} refused; {time.time() - start:.1f} s"
    )
    return bool(told["different"] or told["failed"])


def keep(folder: Path) -> int:
    """The digests of a measurement as the suite's data, a line an instruction."""
    told = json.loads((folder / "instructions.json").read_text())
    told = {key: told[key] for key in ("device", "driver", "seed", "special", "random", "instructions")}
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in told.pop("instructions").items()]
    head = json.dumps(told)[:-1]
    KEPT.write_text(f'{head}, "instructions": {{\n' + ",\n".join(lines) + "\n}}\n")
    return 0


def main() -> int:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--only", default="", help="a part of the instructions' names")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--keep", type=Path)
    told = parser.parse_args()
    if told.keep:
        return keep(told.keep)
    if told.measure or told.stand_in:
        return measure(told.out, told.stand_in, told.only)
    parser.print_usage()
    return 2


if __name__ == "__main__":
    sys.exit(main())
