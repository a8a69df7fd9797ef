"""Main loops as `tcprobe predict` sees them and as a GPU runs them: cycles of a round of one block, data in L2.

    python benchmarks/loops.py --list training                       # what there is
    python benchmarks/loops.py --predict holdout -o benchmarks/loops_holdout.json   # sealed: before a GPU runs them
    python benchmarks/loops.py --measure holdout --out DIR --seconds 150            # on a GPU with nvcc and CuPy
    python benchmarks/loops.py --compare benchmarks/loops_holdout.json DIR

Synthetic loops are of seeds (`loop_texts`), real ones of `kernel gemm` and `examples/attention.py` by nvcc. A file of
predictions has the SHA-256 of each loop's machine code; what is measured of other code does not count. Cycles are of
two trip counts, less what both have: a synthetic loop reads the SM's clock itself, real ones run between kernels that
do so. What is measured is appended to DIR/measured.jsonl, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import json_lines
import loop_texts

from tcprobe.errors import DataError, TcprobeError
from tcprobe.loops.bench import Gpu as Around
from tcprobe.loops.launch import Launch
from tcprobe.loops.loop import main_loop
from tcprobe.sass import toolchain
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin

ROOT = Path(__file__).parents[1]
SETS = {  # seeds of synthetic loops, and of wgmma loops
    "training": (range(1, 91), range(1, 9)),
    "holdout": (range(1001, 1061), range(1001, 1011)),
    "second": (range(2001, 2061), range(2001, 2011)),  # of the model as the first hold-out has changed it
    "roles": (range(0), range(0)),  # kernels whose warps share the work
    "roles-holdout": (range(0), range(0)),
}
GEMMS = {  # arch, type, tile, warps, stages
    "training": [
        ("sm_80", "bf16", "128x128x64", "2x2", 3),
        ("sm_80", "bf16", "128x128x32", "2x4", 3),
        ("sm_80", "f16", "64x64x64", "2x2", 3),
        ("sm_80", "f16", "128x256x32", "2x4", 3),
        ("sm_80", "tf32", "128x128x32", "2x2", 3),
        ("sm_80", "s8", "128x128x64", "2x2", 3),
        ("sm_80", "bf16", "64x128x32", "1x4", 4),
        ("sm_75", "f16", "128x128x32", "2x2", 2),
    ],
    "holdout": [
        ("sm_80", "bf16", "128x64x64", "2x2", 3),
        ("sm_80", "bf16", "64x64x32", "2x2", 4),
        ("sm_80", "bf16", "128x128x64", "2x4", 2),
        ("sm_80", "bf16", "128x256x64", "2x4", 2),
        ("sm_80", "f16", "128x128x32", "2x2", 4),
        ("sm_80", "f16", "64x256x32", "1x4", 3),
        ("sm_80", "f16", "128x64x32", "4x1", 3),
        ("sm_80", "s8", "128x128x128", "2x2", 2),
        ("sm_80", "s8", "64x128x64", "2x2", 4),
        ("sm_80", "s8", "128x256x64", "2x4", 3),
        ("sm_80", "tf32", "64x128x32", "2x2", 3),
        ("sm_80", "tf32", "128x64x32", "2x2", 4),
        ("sm_80", "bf16", "32x128x64", "1x4", 3),
        ("sm_80", "bf16", "256x64x32", "4x1", 3),
        ("sm_80", "f16", "64x64x128", "2x2", 2),
        ("sm_86", "bf16", "128x128x32", "2x2", 2),
        ("sm_86", "s8", "64x64x64", "2x2", 3),
        ("sm_75", "f16", "64x128x32", "2x2", 2),
    ],
    "second": [
        ("sm_80", "bf16", "128x128x32", "2x2", 3),
        ("sm_80", "f16", "64x128x64", "2x2", 3),
        ("sm_80", "bf16", "64x256x64", "1x4", 2),
        ("sm_80", "f16", "256x64x64", "4x1", 2),
        ("sm_80", "bf16", "64x64x64", "2x2", 4),
        ("sm_80", "f16", "128x64x32", "2x2", 4),
        ("sm_80", "bf16", "128x256x32", "2x4", 4),
        ("sm_80", "f16", "256x128x64", "4x2", 2),
        ("sm_80", "bf16", "64x32x64", "2x1", 4),
        ("sm_80", "f16", "32x64x64", "1x2", 4),
        ("sm_80", "tf32", "128x128x16", "2x2", 4),
        ("sm_80", "tf32", "64x64x32", "2x2", 3),
        ("sm_80", "s8", "64x64x64", "2x2", 4),
        ("sm_80", "s8", "128x64x64", "2x2", 3),
        ("sm_80", "s8", "256x128x64", "4x2", 3),
        ("sm_80", "bf16", "128x128x64", "4x2", 3),
        ("sm_80", "f16", "64x128x32", "2x2", 3),
        ("sm_86", "f16", "64x128x32", "2x2", 3),
        ("sm_86", "bf16", "128x64x32", "2x2", 2),
        ("sm_75", "f16", "128x64x32", "2x2", 2),
    ],
    "roles": [  # the warps are by the tile
        ("sm_90", "bf16", "128x256x64", "", 4),
        ("sm_90", "bf16", "128x128x64", "", 2),
        ("sm_90", "bf16", "128x128x64", "", 4),
        ("sm_90", "bf16", "64x128x64", "", 2),
        ("sm_90", "bf16", "64x128x64", "", 5),
        ("sm_90", "bf16", "64x64x64", "", 2),
        ("sm_90", "bf16", "64x64x64", "", 3),
        ("sm_90", "bf16", "64x64x64", "", 6),
        ("sm_90", "bf16", "64x32x64", "", 4),
        ("sm_90", "bf16", "192x128x64", "", 4),
        ("sm_90", "e4m3", "128x256x128", "", 3),
        ("sm_90", "tf32", "128x128x32", "", 3),
        ("sm_90", "s8", "128x128x128", "", 4),
    ],
    "roles-holdout": [
        ("sm_90", "f16", "128x192x64", "", 3),
        ("sm_90", "f16", "64x256x64", "", 4),
        ("sm_90", "bf16", "192x64x64", "", 2),
        ("sm_90", "f16", "64x192x64", "", 2),
        ("sm_90", "bf16", "128x64x64", "", 3),
        ("sm_90", "bf16", "128x64x64", "", 8),
        ("sm_90", "f16", "64x96x64", "", 4),
        ("sm_90", "f16", "128x32x64", "", 5),
        ("sm_90", "bf16", "64x48x64", "", 3),
        ("sm_90", "e4m3", "128x128x128", "", 2),
        ("sm_90", "e4m3", "64x128x128", "", 4),
        ("sm_90", "e5m2", "64x64x128", "", 3),
        ("sm_90", "tf32", "64x256x32", "", 4),
        ("sm_90", "tf32", "128x64x32", "", 2),
        ("sm_90", "s8", "64x128x128", "", 2),
        ("sm_90", "s8", "192x128x128", "", 3),
    ],
}
ATTENTIONS = {"training": (64,), "holdout": (128,)}
FEW, MANY = 32, 288  # rounds
LAUNCHES = 10
SIZES = {"bf16": 2, "f16": 2, "tf32": 4, "s8": 1}


class Case(NamedTuple):
    """A loop: its family, how its cubin is made in a folder, the warps of a block, None: as the file states, and how it
    is launched.
    """

    name: str
    family: str
    make: Callable[[Path], bytes]
    warps: int | None
    launch: dict[str, Any]


def cases(chosen: str) -> Iterator[Case]:
    """Those of a set."""
    for seed in SETS[chosen][0]:
        yield _of_text("synthetic", loop_texts.text(seed))
    for arch, kind, tile, warps, stages in GEMMS[chosen]:
        name = "_".join(filter(None, ("gemm", arch, kind, tile, warps, str(stages))))
        m, n, k = map(int, tile.split("x"))
        options = ["--arch", arch, "--type", kind, "--tile", tile, "--stages", str(stages)]
        launch = {"kind": kind, "m": m, "n": n, "k": k}
        if not warps:
            yield Case(name, "roles", partial(_gemm, name, options), None, {**launch, "options": options})
            continue
        across, down = map(int, warps.split("x"))
        options += ["--warps", warps]
        yield Case(name, "mma.sync", partial(_gemm, name, options), across * down, launch)
    for head in ATTENTIONS.get(chosen, ()):
        name = f"attention_sm_80_{head}"
        yield Case(name, "mma.sync", partial(_attention, name, head), 4, {"head": head})
    for seed in SETS[chosen][1]:
        yield _of_text("wgmma", loop_texts.warpgroup(seed))


def _of_text(family: str, text: loop_texts.Text) -> Case:
    arch = "sm_90a" if family == "wgmma" else "sm_90"
    return Case(text.name, family, partial(_assemble, text, arch), text.warps, {})


def _assemble(text: loop_texts.Text, arch: str, folder: Path) -> bytes:
    source, made = folder / f"{text.name}.ptx", folder / f"{text.name}.cubin"
    source.write_text(text.ptx)
    ptxas = os.environ.get("PTXAS", "ptxas")
    subprocess.run([ptxas, f"-arch={arch}", source, "-o", made], check=True, capture_output=True)
    return made.read_bytes()


def _gemm(name: str, options: list[str], folder: Path) -> bytes:
    source = folder / f"{name}.cu"
    command = [sys.executable, "-m", "tcprobe", "kernel", "gemm", *options, "--name", name, "-o", source]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return _compile(source)


def _attention(name: str, head: int, folder: Path) -> bytes:
    source = folder / f"{name}.cu"
    command = [sys.executable, "examples/attention.py", "sm_80", str(head)]
    source.write_bytes(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    return _compile(source, "-ftz=true")


def _compile(source: Path, *flags: str) -> bytes:
    made = source.with_suffix(".cubin")
    gpu = "-gencode=arch=compute_90a,code=sm_90a"
    subprocess.run(
        ["nvcc", gpu, "-DTCPROBE_ANY_ARCH", *flags, "-cubin", "-o", made, source], check=True, capture_output=True
    )
    return made.read_bytes()


class Made(NamedTuple):
    """A case's machine code: the file, the kernel's name, and its hash."""

    case: Case
    raw: bytes
    kernel: str
    sha256: str


def made(chosen: str, only: str | None = None) -> Iterator[Made]:
    """The cases of a set, compiled; what does not compile is said and left out."""
    wanted = [case for case in cases(chosen) if not only or only in case.name]
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [(case, pool.submit(case.make, Path(place))) for case in wanted]
        for case, future in futures:
            try:
                raw = future.result()
            except subprocess.CalledProcessError as error:
                print(f"{case.name}: {(error.stderr or b'').decode()[-300:]}", file=sys.stderr)
                continue
            function = cubin(raw).functions[0]
            yield Made(case, raw, function.name, hashlib.sha256(function.code).hexdigest())


def predicted(chosen: str, only: str | None = None) -> dict[str, Any]:
    """Predictions by name, without a GPU."""
    from tcprobe.loops.predict import predict
    from tcprobe.store.choose import default

    found: dict[str, Any] = {}
    tools, known = toolchain.find(None), default()
    for each in made(chosen, only):
        image = cubin(each.raw)
        (kernel,) = programs(tools, image.arch, image.functions[:1])
        assert not isinstance(kernel, DataError)
        begun = time.monotonic()
        loop = main_loop(kernel)
        answer = predict(loop, each.case.warps, known).to_json() if loop else {"refused": "no loop"}
        answer["seconds"] = round(time.monotonic() - begun, 2)
        kept = {name: answer.get(name) for name in ("warps", "cycles", "tensor", "refused", "assumed", "seconds")}
        found[each.case.name] = {"family": each.case.family, "sha256": each.sha256, **kept}
    return found


def measure(chosen: str, out: Path, seconds: float, only: str | None = None) -> None:
    """Cycles of a round of each case, as long as there is time."""
    import cupy

    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    results = out / "measured.jsonl"
    done = {row["name"] for row in json_lines.read(results)}
    bench = Bench(cupy)
    for each in made(chosen, only):
        if each.case.name in done:
            continue
        if time.monotonic() - begun > seconds:
            print("no time left", file=sys.stderr)
            return
        row = {"name": each.case.name, "family": each.case.family, "sha256": each.sha256, "device": bench.device}
        try:
            row |= _by_predict(each) if each.case.family == "roles" else bench.cycles(each)
        except (
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.runtime.CUDARuntimeError,
            ValueError,
            TcprobeError,
        ) as error:
            row["failed"] = str(error)[:300]
        json_lines.add(results, row)
    print(f"all measured, {time.monotonic() - begun:.0f} s", file=sys.stderr)


def _by_predict(each: Made) -> dict[str, Any]:
    """As `predict --measure` does it: the least of many launches of one block, by the rounds that they do."""
    from tcprobe.loops.measure import measure as measured

    launch = each.case.launch
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "launch.py"
        size = "x".join(map(str, (launch["m"], launch["n"], MANY * launch["k"])))
        command = [sys.executable, "-m", "tcprobe", "kernel", "gemm", *launch["options"], "--name", each.case.name]
        command += ["-o", f"{place}/k.cu", "--launch", path, "--size", size]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        image = cubin(each.raw)
        (kernel,) = programs(toolchain.find(None), image.arch, image.functions[:1])
        assert not isinstance(kernel, DataError)
        loop = main_loop(kernel)
        assert loop
        found = measured(each.raw, loop, path)
    return {"cycles": found.block, "spread": found.spread, "rounds": found.rounds, "mhz": found.mhz}


class Bench:
    """A GPU and what is launched on it."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        self.device, self.sms = properties["name"].decode(), properties["multiProcessorCount"]
        self.around = Around("sm_90")
        self.out = cupy.zeros(1 << 16, cupy.uint64)
        self.data = cupy.random.randint(0, 255, 48 << 20, dtype=cupy.uint8) & 0x3B  # small numbers of every type
        self.result = cupy.zeros(16 << 20, cupy.uint8)

    def cycles(self, each: Made) -> dict[str, Any]:
        """Of a round, from launches of FEW and MANY rounds in turns: the least of each; and how far runs differ."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(each.raw)
            file.flush()
            function = self.cupy.RawModule(path=file.name).get_function(each.kernel)
        clock = self._inside if each.case.family in ("synthetic", "wgmma") else self._around
        taken: dict[int, list[float]] = {FEW: [], MANY: []}
        for number in range(LAUNCHES + 2):
            for rounds in (FEW, MANY):
                cycles = clock(function, each, rounds)
                if number >= 2:
                    taken[rounds].append(cycles)
        few, many = (sorted(taken[rounds]) for rounds in (FEW, MANY))
        return {
            "cycles": (many[0] - few[0]) / (MANY - FEW),
            "median": (statistics.median(many) - statistics.median(few)) / (MANY - FEW),
            "few": few,
            "many": many,
        }

    def _inside(self, function: Any, each: Made, rounds: int) -> float:
        """Of a kernel that reads the clock: from the first warp's begin to the last one's end."""
        np = self.cupy
        function((1,), (32 * each.case.warps,), (self.out, self.data, np.uint32(rounds)))
        clocks = self.out[: 2 * each.case.warps].get().reshape(-1, 2).astype("int64")
        return float(clocks[:, 1].max() - clocks[:, 0].min())

    def _around(self, function: Any, each: Made, rounds: int) -> float:
        """Between two kernels that read the clocks of all SMs: by that of the SM where the block is."""
        np, launch = self.cupy, each.case.launch
        if "head" in launch:
            length, head = 64 * rounds, launch["head"]
            size = length * head * 2
            parts = [self.data[j * size :] for j in range(3)]
            arguments = (*parts, self.result, np.int32(length), np.float32(0.01))
        else:
            width = SIZES[launch["kind"]]
            k = launch["k"] * rounds
            a, b = self.data, self.data[launch["m"] * k * width :]
            sizes = np.int32(launch["m"]), np.int32(launch["n"]), np.int32(k)
            strides = (np.int64(k), np.int64(k), np.int64(launch["n"]))
            arguments = (a, b, self.result, *sizes, *strides)
        passed = tuple(one if hasattr(one, "__cuda_array_interface__") else one.tobytes() for one in arguments)
        most = self.cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] - function.shared_size_bytes
        self.around.prepare(Launch((1, 1, 1), (32 * each.case.warps, 1, 1), int(most), passed))
        return self.around.lap(self.around.load(each.raw, each.kernel)).cycles


def compare(sealed: Path, out: Path) -> None:
    """A Markdown table: predicted, measured, error; then how many of each family are near."""
    predictions = json.loads(sealed.read_text())
    errors: dict[str, list[float]] = {}
    print("| loop | predicted | measured | error |\n| --- | --- | --- | --- |")
    for row in json_lines.read(out / "measured.jsonl"):
        given = predictions["loops"].get(row["name"])
        if given is None:  # of another set
            continue
        if "failed" in row or given["sha256"] != row["sha256"]:
            print(f"| {row['name']} | | | {row.get('failed') or 'other code than predicted'} |")
        elif given["refused"]:
            print(f"| {row['name']} | refused: {given['refused']} | {row['cycles']:.1f} | |")
        else:
            least, most = given["cycles"]["least"], given["cycles"]["most"]
            error = (least + most) / 2 / row["cycles"] - 1
            errors.setdefault(row["family"], []).append(error)
            print(f"| {row['name']} | {least:g} to {most:g} | {row['cycles']:.1f} | {error:+.1%} |")
    print()
    for family, found in errors.items():
        near = [sum(abs(error) <= within for error in found) for within in (0.05, 0.1)]
        middle = statistics.median(map(abs, found))
        print(f"{family}: {len(found)} loops, median error {middle:.1%}, within 5 % {near[0]}, within 10 % {near[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=SETS)
    parser.add_argument("--predict", choices=SETS)
    parser.add_argument("--measure", choices=SETS)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("PREDICTIONS", "DIR"))
    parser.add_argument("--only", help="names with this in them")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--out", type=Path, default=Path("loops"))
    parser.add_argument("--seconds", type=float, default=150.0)
    given = parser.parse_args()
    if given.list:
        for case in cases(given.list):
            print(case.family, case.name, case.warps)
    if given.predict:
        loops = predicted(given.predict, given.only)
        body = {"set": given.predict, "loops": loops}
        body["sha256"] = hashlib.sha256(json.dumps(loops, sort_keys=True).encode()).hexdigest()
        text = json.dumps(body, indent=1, sort_keys=True) + "\n"
        given.output.write_text(text) if given.output else print(text)
    if given.measure:
        measure(given.measure, given.out, given.seconds, given.only)
    if given.compare:
        compare(*given.compare)


if __name__ == "__main__":
    main()
