"""What can be called: libraries' GEMMs and sums, a Triton kernel, functions of a file, kernels that tcprobe writes.

A `Call` takes A (m x k) and B (k x n), a reduction A alone (its rows are summed), and returns D; all arrays are of the
library that `memory` is, and the same memory is used for every call, so that strides and alignment stay as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, TcprobeError, UsageError
from tcprobe.order.memory import TORCH_TYPES, ArrayModule, Memory, Torch, matrix, numpy_type
from tcprobe.store.arithmetic import MEASURED
from tcprobe.text import quoted

NAMES = (
    "cupy.matmul",
    "torch.mm",
    "torch._scaled_mm",
    "triton",
    "kernel",
    "torch.sum",
    "cupy.sum",
    "torch.softmax",
    "FILE.py:function",
    "FILE.ptx",
)
SIXTEEN = ("f16", "bf16")
EIGHT = ("e4m3", "e5m2")
ALIGNED = 16  # bytes, of lines of a kernel's matrices


class CallError(TcprobeError):
    """The call is no GEMM, or none whose order can be found. Exit code 1."""


class CallOptions(NamedTuple):
    """How a call is made, beside its shape and types; those of `tcprobe kernel gemm` are for `kernel`."""

    fast_accum: bool = False
    sums: bool = False
    a: str | None = None
    b: str | None = None
    on: str | None = None
    arch: str | None = None
    tile: tuple[int, int, int] | None = None
    warps: tuple[int, int] | None = None
    stages: int | None = None
    cluster: int = 1
    multiply: str | None = None
    launch: str | None = None
    operands: tuple[int, ...] | None = None


def majors_of(text: str | None) -> tuple[str | None, str | None]:
    """What is contiguous in A and B: `row,col`; None as the call has it."""
    if text is None:
        return None, None
    words = tuple(word.strip() for word in text.split(","))
    if len(words) != 2 or not set(words) <= {"row", "col"}:
        raise UsageError(f"`majors` {text[:40]!r}: row,row, row,col, col,row or col,col is needed.")
    return words[0], words[1]


@dataclass(frozen=True)
class Call:
    """A GEMM, or with `sums` a reduction.

    `d`: D's type where the call is told it, else what the call returns. `a`, `b`: what is contiguous; lines are a
    multiple of `apart` bytes apart. `raw`: arrays are of whole numbers. `prefers`: the multiply it is known to have.
    `softmax`: of each row the largest of its softmax, the reciprocal of the denominator that is asked about.
    """

    name: str
    memory: Memory
    types: tuple[str, str]
    function: Callable[..., Any]
    d: str | None = None
    a: str = "row"
    b: str = "row"
    apart: int = 1
    sums: bool = False
    raw: bool = False
    softmax: bool = False
    about: Mapping[str, str] = field(default_factory=dict)
    prefers: str = ""


def call(name: str, types: Sequence[str], options: CallOptions | None = None) -> Call:
    """The call of a name; `types` are those of A, B and D, of A alone, or of A and B.

    UsageError for a name or types that there are none of, EnvironmentUnfitError where a library or GPU is missing.
    """
    asked = options or CallOptions()
    if asked.tile is not None:
        asked = asked._replace(tile=(asked.tile[0], asked.tile[1], asked.tile[2]))
    if not 1 <= len(types) <= 3:
        raise UsageError(f"`type` {','.join(types)[:40]}: types of A, B and D, such as bf16 or bf16,bf16,f32.")
    a, b, d = (types[0], types[min(1, len(types) - 1)], types[2] if len(types) == 3 else None)
    made = _MAKERS.get(name)
    if not set(types) <= {*TORCH_TYPES}:
        raise UsageError(f"`type` {','.join(types)[:40]}: of {', '.join(TORCH_TYPES)}.")
    if "s32" in (a, b):
        raise UsageError(f"`type` {','.join(types)}: s32 is a type of D alone.")
    if made is not None:
        return made(a, b, d, asked)
    if name.endswith(".ptx"):
        return _of_ptx(Path(name), (a, b, d), asked)
    path, colon, function = name.rpartition(":")
    if colon and path.endswith(".py"):
        return _of_file(Path(path), function, (a, b, d), asked)
    raise UsageError(f"CALL {quoted(name[:80])}: one of {', '.join(NAMES)} is needed.")


def _imported(name: str) -> Any:
    """A library; EnvironmentUnfitError where it is missing."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a library that is there may fail in any way where its GPU is not
        raise EnvironmentUnfitError(f"{name} cannot be imported ({str(error).splitlines()[0][:200]}).") from None


def _torch() -> tuple[Any, Memory, dict[str, str]]:
    """PyTorch, its memory on the GPU, and what is known of them; EnvironmentUnfitError without a GPU."""
    torch = _imported("torch")
    if not torch.cuda.is_available():
        raise EnvironmentUnfitError("PyTorch finds no GPU (torch.cuda.is_available() is false).")
    row = torch.cuda.get_device_properties(0)
    about = {"library": f"torch {torch.__version__}", "arch": f"sm_{row.major}{row.minor}", "device": row.name}
    about["cuda"] = str(torch.version.cuda)
    return torch, Torch(torch, "cuda"), about


def _cupy() -> tuple[Any, Memory, dict[str, str]]:
    """CuPy, as PyTorch."""
    cupy = _imported("cupy")
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(0)
    except Exception as error:
        raise EnvironmentUnfitError(f"CuPy finds no GPU ({str(error).splitlines()[0][:200]}).") from None
    about = {
        "library": f"cupy {cupy.__version__}",
        "arch": f"sm_{properties['major']}{properties['minor']}",
        "device": properties["name"].decode(errors="replace"),
    }
    version = cupy.cuda.runtime.runtimeGetVersion()
    about["cuda"] = f"{version // 1000}.{version % 1000 // 10}"
    return cupy, ArrayModule(cupy, "gpu"), about


def _same(name: str, a: str, b: str) -> None:
    """UsageError unless A and B have one type."""
    if a != b:
        raise UsageError(f"`type` {a},{b}: {name} takes one type for A and B.")


def _torch_mm(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """torch.mm; of s8 torch._int_mm; f32 is multiplied as tf32 for `tf32`."""
    _same("torch.mm", a, b)
    if a not in ("f16", "bf16", "f32", "tf32", "f64", "s8"):
        raise UsageError(f"`type` {a}: torch.mm takes f16, bf16, f32, tf32, f64 and s8; torch._scaled_mm fp8.")
    torch, memory, about = _torch()
    torch.backends.cuda.matmul.allow_tf32 = a == "tf32"
    own = {"tf32": "f32", "s8": "s32"}.get(a, a)
    if a == "s8":
        function: Callable[..., Any] = torch._int_mm
    elif d in (None, own):
        function = torch.mm
    else:
        out = getattr(torch, TORCH_TYPES[str(d)])
        function = lambda x, y: torch.mm(x, y, out_dtype=out)  # noqa: E731
    return Call("torch.mm", memory, (a, b), function, d or own, asked.a or "row", asked.b or "row", about=about)


def _torch_scaled_mm(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """torch._scaled_mm with scales of one; B's columns are contiguous, as it demands."""
    if a not in EIGHT or b not in EIGHT:
        raise UsageError(f"`type` {a},{b}: torch._scaled_mm takes e4m3 and e5m2.")
    torch, memory, about = _torch()
    one, out = torch.ones((), device="cuda"), getattr(torch, TORCH_TYPES[d or "bf16"])

    def function(x: Any, y: Any) -> Any:
        return torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=asked.fast_accum)

    return Call("torch._scaled_mm", memory, (a, b), function, d or "bf16", "row", "col", about=about)


def _cupy_matmul(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """cupy.matmul; f32 is multiplied as tf32 for `tf32`."""
    _same("cupy.matmul", a, b)
    if a not in ("f16", "bf16", "f32", "tf32", "f64"):
        raise UsageError(f"`type` {a}: cupy.matmul takes f16, bf16, f32, tf32 and f64.")
    cupy, memory, about = _cupy()
    if a in ("f32", "tf32"):
        _compute_as(cupy, a == "tf32")
    own = "f32" if a == "tf32" else a
    if d not in (None, own):
        raise UsageError(f"`type` {a},{b},{d}: D of cupy.matmul is {own}.")
    return Call("cupy.matmul", memory, (a, b), cupy.matmul, own, asked.a or "row", asked.b or "row", about=about)


def _compute_as(cupy: Any, tf32: bool) -> None:
    """How CuPy has cuBLAS multiply f32; EnvironmentUnfitError where this CuPy cannot be told."""
    try:
        linear = importlib.import_module("cupy._core._routines_linalg")
        kind = linear.COMPUTE_TYPE_TF32 if tf32 else linear.COMPUTE_TYPE_DEFAULT
        linear.set_compute_type(np.float32, kind)
    except (ImportError, AttributeError) as error:
        if tf32:
            raise EnvironmentUnfitError(f"this CuPy cannot be told to multiply f32 as tf32 ({error}).") from None


def _triton(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """A matmul of tcprobe's own in Triton."""
    _same("triton", a, b)
    torch, memory, about = _torch()
    triton = _imported("triton")
    matmul = _imported("tcprobe.order.triton_matmul").matmul
    kind = d or (a if a in SIXTEEN else "f32")
    out, block = getattr(torch, TORCH_TYPES[kind]), asked.tile or (64, 64, 64)

    def function(x: Any, y: Any) -> Any:
        return matmul(x, y, out, a == "tf32", block)

    about = {**about, "library": f"triton {triton.__version__}, {about['library']}"}
    return Call("triton", memory, (a, b), function, kind, asked.a or "row", asked.b or "row", about=about)


class Placed(NamedTuple):
    """A matrix in GPU memory, as a launch of `tcprobe kernel gemm` takes it."""

    address: int
    ld: int
    lines: int
    length: int


def placed(array: Any, contiguous: str) -> Placed:
    """A matrix of CuPy's whose rows ("row") or columns ("col") are contiguous."""
    lines = array if contiguous == "row" else array.T
    return Placed(int(lines.data.ptr), int(lines.strides[0]), *map(int, lines.shape))


def _kernel(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """A kernel of `tcprobe kernel gemm`, compiled by NVRTC and launched over the same memory."""
    from tcprobe import __version__
    from tcprobe.kernel.gemm import GemmOptions, gemm
    from tcprobe.kernel.products import launcher
    from tcprobe.run.gpu import Gpu

    _same("a kernel", a, b)
    _, memory, about = _cupy()
    asked_arch = asked.arch or about["arch"]
    layout = asked.a or "row", asked.b or "col"
    made = gemm(
        GemmOptions(
            asked_arch, a, asked.tile, asked.warps, asked.stages, *layout, d, None, asked.multiply, asked.cluster
        )
    )
    gpu = Gpu()
    gpu.open(0)
    target = made.gemm.compiled_for if made.maps else gpu.devices()[0].arch
    launched = gpu.compile(made.source, made.name, target, made.shared_bytes)
    kept: dict[tuple[Placed, Placed], tuple[Any, Any]] = {}

    def function(x: Any, y: Any, _owner: Gpu = gpu) -> Any:  # which keeps the machine code
        (m, k), n = x.shape, y.shape[1]
        key = placed(x, layout[0]), placed(y, layout[1])
        if key not in kept:
            kept.clear()
            out = matrix(memory, (m, n), made.gemm.out, "row", ALIGNED)
            kept[key] = out, launcher(made, launched, (*key, placed(out, "row")), (m, n, k))
        out, launch = kept[key]
        launch()
        return out

    about = {**about, "library": f"tcprobe {__version__}", "kernel": made.name}
    return Call(
        "kernel",
        memory,
        (a, b),
        function,
        made.gemm.out,
        *layout,
        apart=ALIGNED,
        raw=True,
        about=about,
        prefers=made.gemm.instruction.id,
    )


def _torch_sum(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """torch.sum of each row."""
    torch, memory, about = _torch()
    _of_floats("torch.sum", a)
    out = None if d is None else getattr(torch, TORCH_TYPES[d])

    def function(x: Any) -> Any:
        return torch.sum(x, dim=1, keepdim=True, dtype=out)

    return Call("torch.sum", memory, (a, a), function, d or a, asked.a or "row", sums=True, about=about)


def _torch_softmax(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """The denominator of torch.softmax."""
    if (a, d) not in (("f32", None), ("f32", "f32")):
        raise UsageError(f"`type` {a}: the denominator of torch.softmax is asked about with f32.")
    torch, memory, about = _torch()

    def function(x: Any) -> Any:
        return torch.softmax(x, 1).amax(1, keepdim=True)

    return Call("torch.softmax", memory, (a, a), function, a, sums=True, softmax=True, about=about)


def _cupy_sum(a: str, b: str, d: str | None, asked: CallOptions) -> Call:
    """cupy.sum of each row."""
    cupy, memory, about = _cupy()
    _of_floats("cupy.sum", a)
    out = None if d is None else numpy_type(d)

    def function(x: Any) -> Any:
        return cupy.sum(x, axis=1, keepdims=True, dtype=out)

    return Call("cupy.sum", memory, (a, a), function, d or a, asked.a or "row", sums=True, about=about)


def _of_floats(name: str, kind: str) -> None:
    """UsageError unless a reduction sums floats of a type."""
    if kind not in ("f16", "bf16", "f32", "f64"):
        raise UsageError(f"`type` {kind}: {name} is asked about with f16, bf16, f32 or f64.")


_MAKERS: dict[str, Callable[[str, str, str | None, CallOptions], Call]] = {
    "cupy.matmul": _cupy_matmul,
    "torch.mm": _torch_mm,
    "torch._scaled_mm": _torch_scaled_mm,
    "triton": _triton,
    "kernel": _kernel,
    "torch.sum": _torch_sum,
    "torch.softmax": _torch_softmax,
    "cupy.sum": _cupy_sum,
}


def _of_file(path: Path, name: str, types: tuple[str, str, str | None], asked: CallOptions) -> Call:
    """A function of a file that the user names: it is run here."""
    if not path.is_file():
        raise UsageError(f"CALL {quoted(str(path))}: there is no such file.")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        found = runpy.run_path(str(path), run_name="tcprobe_order").get(name)
    except (Exception, SystemExit) as error:
        raise CallError(f"{path.name} does not run: {type(error).__name__}: {str(error)[:300]}") from error
    if not callable(found):
        raise UsageError(f"CALL: {quoted(path.name)} has no function {quoted(name[:80])}.")
    memory, about = _memory_for_files(asked.on, types)
    if asked.arch:
        about = {**about, "arch": asked.arch}
    return Call(
        f"{path.name}:{name}",
        memory,
        types[:2],
        found,
        types[2],
        asked.a or "row",
        asked.b or "row",
        sums=asked.sums,
        about=about,
        prefers="",
    )


def _of_ptx(path: Path, types: tuple[str, str, str | None], asked: CallOptions) -> Call:
    """A kernel's PTX, emulated: `launch` has its other arguments, `operands` the numbers of A's, B's and D's."""
    from tcprobe import __version__
    from tcprobe.order.emulated import Emulated

    if asked.launch is None or asked.operands is None or types[2] is None:
        raise UsageError(
            f"{quoted(path.name)} needs `launch`, a file as `tcprobe emulate` takes it, `operands`, the numbers of its "
            "arguments that are A, B and D, such as 0,1,2, and three types, such as f16,f16,f32."
        )
    if len(asked.operands) != (2 if asked.sums else 3):
        raise UsageError("`operands`: the numbers of A, B and D, such as 0,1,2; with --sum those of A and D.")
    majors = asked.a or "row", asked.b or "row"
    made = Emulated(path, Path(asked.launch), asked.operands, types[2], majors)
    arch = asked.arch or (MEASURED if int(made.arch[3:]) < int(MEASURED[3:]) else made.arch)  # whose bits these are
    about = {"library": f"tcprobe {__version__}, emulated", "device": "CPU", "arch": arch}
    memory = ArrayModule(np, "cpu")
    name = f"{path.name}:{made.name}"
    return Call(name, memory, types[:2], made, types[2], *majors, sums=asked.sums, about={**about, "kernel": made.name})


def _memory_for_files(on: str | None, types: tuple[str, str, str | None]) -> tuple[Memory, dict[str, str]]:
    """Where a function's arrays lie: PyTorch's or CuPy's on a GPU, without one (or `on` "cpu") NumPy's."""
    if on != "cpu":
        for name, finds in (("torch", _torch), ("cupy", _cupy)):
            if importlib.util.find_spec(name) is None:
                continue
            try:
                _, memory, about = finds()
            except EnvironmentUnfitError:
                continue
            return memory, {**about, "library": f"arrays of {about['library']}"}
        if on == "gpu":
            raise EnvironmentUnfitError("neither PyTorch nor CuPy finds a GPU.")
    return ArrayModule(np, "cpu"), {"library": f"arrays of numpy {np.__version__}", "device": "CPU"}
