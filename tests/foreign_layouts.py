"""Random layouts of CuTe DSL and of Triton, as texts, each with what the package itself says that it means."""

import dataclasses
import random
from collections import Counter
from itertools import count

import numpy as np

WARP = 32


def layout_text(layout):
    """A layout of CuTe DSL as it prints it, without spaces."""
    return str(layout).replace(" ", "")


def evaluate(text):
    """(shape, values) of a static layout's text: its outermost modes' sizes, and its values, the first mode fastest."""
    from tcprobe.notation import cute

    layout = cute.read(text)
    return list(cute.by_modes(layout)), cute.table(layout)


@dataclasses.dataclass
class Case:
    """A text that tcprobe reads, and by thread and i the (row, col) that the package gives."""

    text: str
    rows: np.ndarray
    cols: np.ndarray
    kind: str


def operations():
    """Multiplies of CuTe DSL: (name of CuTe's atom or PTX's id, m n k, what makes it)."""
    import cutlass
    from cutlass.cute.nvgpu import warp, warpgroup

    in_registers = (warpgroup.OperandSource.RMEM, warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K)
    yield (
        "SM80_16x8x16_F32F16F16F32_TN",
        (16, 8, 16),
        lambda: warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)),
    )
    yield (
        "SM80_16x8x8_F32F16F16F32_TN",
        (16, 8, 8),
        lambda: warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 8)),
    )
    yield (
        "SM80_16x8x16_F16F16F16F16_TN",
        (16, 8, 16),
        lambda: warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float16, (16, 8, 16)),
    )
    yield (
        "SM80_16x8x16_F32BF16BF16F32_TN",
        (16, 8, 16),
        lambda: warp.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (16, 8, 16)),
    )
    yield "SM80_16x8x8_F32TF32TF32F32_TN", (16, 8, 8), lambda: warp.MmaTF32Op((16, 8, 8))
    yield "SM80_16x8x4_F32TF32TF32F32_TN", (16, 8, 4), lambda: warp.MmaTF32Op((16, 8, 4))
    yield (
        "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        (16, 8, 32),
        lambda: warp.MmaFP8Op(cutlass.Float8E4M3FN, cutlass.Float32, (16, 8, 32)),
    )
    for n in (8, 64, 128, 256):
        yield (
            f"wgmma.mma_async.m64n{n}k16.f32.bf16.bf16",
            (64, n, 16),
            lambda n=n: warpgroup.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (64, n, 16), *in_registers),
        )


def random_mma(rng):
    """An operation, atoms along m, n and k with strides, what permutes them, and a tile that they fill."""
    name, shape, make = rng.choice(list(operations()))
    most = 4 if shape[0] == 64 else 8
    while True:
        along = (*(rng.choice((1, 1, 2, 3, 4)) for _ in range(2)), rng.choice((1, 1, 1, 2)))
        if np.prod(along) <= most:
            break
    order = rng.sample(range(3), 3)
    strides, step = [0, 0, 0], 1
    for dim in order:
        strides[dim] = step
        step *= along[dim]
    core = [one * number for one, number in zip(shape, along, strict=True)]
    permutation, tile = [], []
    for dim in range(3):
        size = core[dim]
        kind = rng.choice(("_", "_", "number", "layout")) if dim < 2 else rng.choice(("_", "number"))
        if kind == "_":
            permutation.append(None)
        elif kind == "number":
            size *= rng.choice((1, 2))
            permutation.append(size)
        else:
            size *= 2
            parts = [shape[dim], along[dim], 2]
            turned = rng.sample(range(3), 3)
            steps, at = [0, 0, 0], 1
            for part in turned:
                steps[part] = at
                at *= parts[part]
            permutation.append((tuple(parts), tuple(steps)))
        tile.append(size * rng.choice((1, 2)))
    if tile[0] * tile[1] > 1 << 16:
        return random_mma(rng)
    return name, shape, make, along, tuple(strides), permutation, tuple(tile)


def spelled(name, along, strides, permutation):
    """make_tiled_mma as text."""
    sides = ",".join(
        "_" if side is None else str(side) if isinstance(side, int) else f"{side[0]}:{side[1]}".replace(" ", "")
        for side in permutation
    )
    atoms = f"{along}:{strides}".replace(" ", "")
    return f"make_tiled_mma({name}, {atoms}, ({sides}))"


def cute_cases(seed, mmas, copies):  # noqa: C901, PLR0915
    """Tiled multiplies, A, B and D of each, and tiled copies, both sides of each, as CuTe DSL has them."""
    import os

    os.environ["CUTE_DSL_ARCH"] = "sm_90a"
    import cutlass
    from cutlass import cute
    from cutlass.cute.nvgpu import warp

    rng, found = random.Random(seed), []

    def layout_of(side):
        return cute.make_layout(side[0], stride=side[1]) if isinstance(side, tuple) else side

    def made_mma():
        name, shape, make, along, strides, permutation, tile = random_mma(rng)
        atoms = cute.make_layout(along, stride=strides)
        if all(side is None for side in permutation):
            tiled = cute.make_tiled_mma(make(), atoms)
        else:
            core = [one * number for one, number in zip(shape, along, strict=True)]
            sides = tuple(core[dim] if side is None else layout_of(side) for dim, side in enumerate(permutation))
            tiled = cute.make_tiled_mma(make(), atoms, permutation_mnk=sides)
        return name, shape, along, strides, permutation, tile, tiled

    def add_mma():
        name, shape, along, strides, permutation, tile, tiled = made_mma()
        m, n, k = tile
        text = spelled(name, along, strides, permutation)
        for operand, size, thrfrg, dims in (
            ("a", (m, k), tiled._thrfrg_A, (0, 2)),
            ("b", (n, k), tiled._thrfrg_B, (1, 2)),
            ("d", (m, n), tiled._thrfrg_C, (0, 1)),
        ):
            if operand == "b" and shape[0] == 64:
                continue
            whole = layout_text(thrfrg(cute.make_layout(size)))
            found.append((f"{text} {operand} over {m}x{n}x{k}", whole, size, operand, dims, along, strides, "TiledMMA"))

    def add_copy():
        kind, bits = rng.choice(((cutlass.Float16, 16), (cutlass.Float32, 32), (cutlass.Uint8, 8)))
        cxx = {16: "half_t", 32: "float", 8: "uint8_t"}[bits]
        if rng.random() < 0.3 and bits == 16:  # for an operand of a tiled multiply
            name, shape, along, strides, permutation, _, tiled = made_mma()
            while shape[0] == 64 or "F16F16" not in name or "BF16" in name or "8x8_" in name:
                name, shape, along, strides, permutation, _, tiled = made_mma()
            operand = rng.choice("ABC")
            if operand == "C" and ("_F32" in name or along[2] > 1):  # along k CuTe's C leaves its tile
                operand = "A"
            by = {"A": cute.make_tiled_copy_A, "B": cute.make_tiled_copy_B, "C": cute.make_tiled_copy_C}[operand]
            matrices = 4 if operand == "A" else 2
            if operand == "C" or rng.random() < 0.3:
                atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kind, num_bits_per_copy=32)
                spelled_atom = "UniversalCopy<uint32_t>"
            else:
                atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, matrices), kind)
                spelled_atom = f"SM75_U32x{matrices}_LDSM_N"
            made = by(atom, tiled)
            of = spelled(name, along, strides, permutation)
            text = f"make_tiled_copy_{operand}(Copy_Atom<{spelled_atom}, {cxx}>{{}}, {of})"
        else:
            width = rng.choice([n for n in (8, 16, 32, 64, 128) if n >= bits])
            values = (
                (1, width // bits * rng.choice((1, 2))) if rng.random() < 0.7 else (width // bits, rng.choice((1, 2)))
            )
            threads = rng.choice(((32, 1), (1, 32), (16, 8), (8, 16), (4, 32), (32, 8), (64, 4)))
            turned = rng.random() < 0.5
            steps = (1, threads[0]) if turned else (threads[1], 1)
            value_steps = (1, values[0]) if values[0] > 1 else (values[1], 1)
            atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kind, num_bits_per_copy=width)
            made = cute.make_tiled_copy_tv(
                atom, cute.make_layout(threads, stride=steps), cute.make_layout(values, stride=value_steps)
            )
            numbers = [
                f"{shape}:{stride}".replace(" ", "") for shape, stride in ((threads, steps), (values, value_steps))
            ]
            text = f"make_tiled_copy(Copy_Atom<UniversalCopy<uint{width}_t>, {cxx}>{{}}, {numbers[0]}, {numbers[1]})"
        sides = []
        for part in str(made.tiler_mn).strip("()").replace(" ", "").split(","):
            sides.append(part)
        tiler = [int(cute.size(side)) for side in made.tiler_mn]
        for which, tv in (("src", made.layout_src_tv_tiled), ("dst", made.layout_dst_tv_tiled)):
            found.append((f"{text} {which}", layout_text(tv), tuple(tiler), which, None, None, None, "TiledCopy"))
        del sides

    def all_of_them():
        made, tried = Counter(), count()
        while made["mma"] < mmas and next(tried) < 20 * mmas + 100:
            try:
                add_mma()
                made["mma"] += 1
            except Exception as error:  # what CuTe DSL refuses
                made[type(error).__name__] += 1
        while made["copy"] < copies and next(tried) < 100 * copies + 20 * mmas + 200:
            try:
                add_copy()
                made["copy"] += 1
            except Exception as error:
                made[type(error).__name__] += 1

    @cute.jit
    def collect():
        all_of_them()

    collect()
    for text, whole, size, which, dims, along, strides, kind in found:
        modes, values = evaluate(whole)
        yield (
            _mma_case(text, modes, values, size, which, dims, along, strides)
            if kind == "TiledMMA"
            else _copy_case(text, modes, values, size)
        )


def _mma_case(text, modes, values, size, operand, dims, along, strides):
    from tcprobe.notation import cute

    thread_mode, value_mode = modes
    held = values.reshape(-1, cute.table(thread_mode).size)
    lanes, atoms = (mode for mode in cute.by_modes(thread_mode))
    lane_count = cute.table(lanes).size
    total = int(np.prod(along))
    rows, cols = [], []
    for thread in range(lane_count * total):
        warp, lane = divmod(thread, lane_count)
        place = [warp // strides[dim] % along[dim] for dim in range(3)]
        first, second = place[dims[0]], place[dims[1]]
        column = lane + lane_count * (first + along[dims[0]] * second)
        at = held[:, column]
        rows.append(at % size[0])
        cols.append(at // size[0])
    rows, cols = np.array(rows), np.array(cols)
    del atoms, value_mode
    return Case(text, cols, rows, "TiledMMA") if operand == "b" else Case(text, rows, cols, "TiledMMA")


def _copy_case(text, modes, values, tiler):
    from tcprobe.notation import cute

    threads = cute.table(modes[0]).size
    held = values.reshape(-1, threads).T
    return Case(text, held % tiler[0], held // tiler[0], "TiledCopy")


def read(text):
    """Rows and columns by thread and i of what tcprobe reads of a text."""
    from tcprobe.store.choose import layers
    from tcprobe.store.names import find_cell

    table = find_cell(text, None, layers(None)).cell.table
    return tuple(np.array(table.values[name]).reshape(table.threads, table.elements) for name in ("row", "col"))


def wrong(case):
    """Why tcprobe's reading of a case's text is not the package's, or None."""
    try:
        rows, cols = read(case.text)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if rows.shape != case.rows.shape:
        return f"{rows.shape[0]} threads x {rows.shape[1]}, not {case.rows.shape}"
    bad = (rows != case.rows) | (cols != case.cols)
    return f"{int(bad.sum())} of {bad.size} slots" if bad.any() else None


# Triton
@dataclasses.dataclass
class TritonCase:
    """A layout's text in Triton's words, its shape, and the bases that Triton gives, by input."""

    text: str
    shape: tuple
    bases: dict
    kind: str


def random_gluon(rng):
    """A layout of Gluon, and a shape that it fits."""
    import triton.experimental.gluon.language as gl

    def power(low, high):
        return 1 << rng.randint(low, high)

    def warps():
        total = rng.randint(0, 3)
        first = rng.randint(0, total)
        return [1 << first, 1 << total - first]

    shape = [power(2, 8), power(2, 8)]
    cga = rng.choice([[], [], [], [[1, 0]], [[0, 1]], [[1, 0], [0, 1]], [[0, 0]]])
    kind = rng.choice(["blocked", "mma2", "mma3", "dot2", "dot3", "dot of blocked", "linear", "nvmma", "swizzled"])
    if kind in ("blocked", "dot of blocked"):
        lanes = rng.randint(0, 5)
        made = gl.BlockedLayout(
            [power(0, 2), power(0, 3)], [1 << lanes, 32 >> lanes], warps(), rng.choice([[1, 0], [0, 1]]), cga
        )
        return (gl.DotOperandLayout(rng.randint(0, 1), made, 0) if kind != "blocked" else made), shape
    if kind in ("mma2", "dot2"):
        made = gl.NVMMADistributedLayout([2, 0], warps(), [16, 8], cga)
        return (
            gl.DotOperandLayout(rng.randint(0, 1), made, rng.choice([1, 2, 4, 8])) if kind == "dot2" else made
        ), shape
    if kind in ("mma3", "dot3"):
        made = gl.NVMMADistributedLayout([3, 0], [4 * power(0, 1), power(0, 1)], [16, power(3, 8), 16], cga)
        return (gl.DotOperandLayout(0, made, rng.choice([1, 2, 4])) if kind == "dot3" else made), shape
    if kind == "nvmma":
        width, bits, turned = rng.choice([0, 32, 64, 128]), rng.choice([8, 16, 32]), rng.random() < 0.5
        least = [8, max(16, width) * 8 // bits][:: -1 if turned else 1]
        sides = [side * 2 * power(0, 4) for side in least]
        return gl.NVMMASharedLayout(width, bits, 2, turned, False, cga), sides
    if kind == "swizzled":
        return gl.SwizzledSharedLayout(power(0, 4), power(0, 2), power(0, 3), rng.choice([[1, 0], [0, 1]]), cga), shape
    bits = rng.randint(8, 11)
    rows = rng.randint(3, bits - 3)
    bases = [[1 << bit, 0] for bit in range(rows)] + [[0, 1 << bit] for bit in range(bits - rows)]
    rng.shuffle(bases)
    warp = rng.randint(0, min(3, bits - 5))
    register = bits - 5 - warp
    sides = [1 << rows, 1 << bits - rows]
    return gl.DistributedLinearLayout(
        bases[:register], bases[register : register + 5], bases[register + 5 :], [], sides
    ), [max(1, side * rng.choice((1, 1, 2, 4)) // rng.choice((1, 1, 2))) for side in sides]


def gluon_text(layout):
    """Gluon's constructor of a layout, as Python prints it."""
    fields = ", ".join(
        f"{field.name}={gluon_text(value) if dataclasses.is_dataclass(value) else repr(value)}"
        for field in dataclasses.fields(layout)
        if not field.name.startswith("_")
        for value in [getattr(layout, field.name)]
    )
    return f"gl.{type(layout).__name__}({fields})"


class Triton:
    """Triton's own toLinearLayout, and its own text of attributes."""

    def __init__(self):
        from triton._C.libtriton import ir, nvidia
        from triton._C.libtriton.gluon_ir import GluonOpBuilder

        self.context = ir.context()
        ir.load_dialects(self.context)
        nvidia.load_dialects(self.context)
        self.ir, self.builder = ir, GluonOpBuilder(self.context)

    def bases(self, layout, shape):
        """By input; of the linear layout of a Gluon layout over a shape."""
        found = self.builder.to_linear_layout(layout._to_ir(self.builder), list(shape))
        if hasattr(found, "offset_bases"):
            return {"offset": found.offset_bases, "block": found.block_bases}
        names = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases", "block": "block_bases"}
        return {name: getattr(found, theirs) for name, theirs in names.items()}

    def text(self, layout, shape):
        """As Triton's IR writes the attribute, of a layout in registers; Gluon's constructor of others."""
        if "Shared" in type(layout).__name__:
            return gluon_text(layout)
        made = self.builder.get_distributed_ty(self.builder.get_half_ty(), list(shape), layout._to_ir(self.builder))
        return str(made).partition(", ")[2].removesuffix(">")

    def random(self, seed, number):
        """So many random layouts, every second one as Gluon writes it."""
        rng, made = random.Random(seed), 0
        while made < number:
            layout, shape = random_gluon(rng)
            try:
                bases = self.bases(layout, shape)
            except Exception:  # what Triton refuses
                continue
            text = self.text(layout, shape) if made % 2 else gluon_text(layout)
            made += 1
            yield TritonCase(text, tuple(shape), bases, type(layout).__name__)

    def compiled(self, path, kernels, targets, every=1):
        """The layouts of tensors and of shared memory in compiled programs, each once."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, make_backend

        seen = {}
        for kernel, signature, constants, options in kernels[::every]:
            for arch in targets:
                target = GPUTarget("cuda", arch, WARP)
                backend, source, stages = make_backend(target), ASTSource(kernel, signature, constants), {}
                asked = backend.parse_options(options)
                try:
                    backend.add_stages(stages, asked, source.language)
                    context = self.ir.context()
                    self.ir.load_dialects(context)
                    backend.load_dialects(context)
                    module = source.make_ir(
                        target, asked, backend.get_codegen_implementation(asked), backend.get_module_map(), context
                    )
                    for stage in ("ttir", "ttgir"):
                        module = stages[stage](module, {"name": "kernel"})
                except Exception:  # a type that the arch lacks, a tile that its shared memory does not hold
                    continue
                path.write_text(str(module))
                self.ir.parse_mlir_module(str(path), self.context).walk(lambda op: self._collect(op, seen))
        for (text, shape), (layout, kind) in seen.items():
            yield TritonCase(text, shape, self.bases(layout, layout_shape(shape, kind)), kind)

    def _collect(self, op, seen):
        import re

        for index in range(op.get_num_results()):
            value = op.get_result(index)
            found = re.fullmatch(r"(tensor|!ttg\.memdesc)<((?:[0-9]+x)+)[a-z]\w*, (#ttg\..*)>", str(value.get_type()))
            if not found:
                continue
            sides = tuple(int(side) for side in found[2].strip("x").split("x"))
            text = found[3]
            if found[1] != "tensor":
                text = text.partition(">, #ttg.shared_memory")[0] + ">"
            ask = (
                self.builder.get_gluon_layout_from_tensor
                if found[1] == "tensor"
                else self.builder.get_gluon_layout_from_memdesc
            )
            try:
                layout = ask(value)
            except Exception:
                continue
            kind = type(layout).__name__
            if len(sides) == 1 and kind == "SliceLayout":
                shape = (1, sides[0]) if layout.dim == 0 else (sides[0], 1)
            elif len(sides) == 2 and len(getattr(layout, "order", sides)) == 2:
                shape = sides
            else:
                continue
            seen.setdefault((text, shape), (layout, kind))


def layout_shape(shape, kind):
    """The shape as Triton counts it: one side of a slice."""
    return [max(shape)] if kind == "SliceLayout" else list(shape)


def wrong_bases(case):
    """Why tcprobe's bases of a case are not Triton's, or None."""
    from tcprobe.notation import triton

    try:
        found = triton.bases_over(triton.read(case.text), case.shape)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    dim = None if case.kind != "SliceLayout" else 1 if case.shape[0] == 1 else 0
    ours = {
        name: [[basis[dim]] if dim is not None else list(basis) for basis in found.bases.get(name, [])]
        for name in case.bases
    }
    return None if ours == case.bases else f"{ours} against {case.bases}"


# CuTe's C++, compiled for the host
CXX_ATOMS = {  # those that CuTe DSL lacks, with m n k and threads
    **{
        f"SM70_8x8x4_{types}_{order}": ((8, 8, 4), 8)
        for types in ("F32F16F16F32", "F16F16F16F16")
        for order in ("TN", "NT", "NN", "TT")
    },
    "SM75_16x8x8_F32F16F16F32_TN": ((16, 8, 8), 32),
    "SM75_8x8x16_S32S8S8S32_TN": ((8, 8, 16), 32),
    "SM80_16x8x32_S32S8S8S32_TN": ((16, 8, 32), 32),
    "SM80_16x8x16_S32U8U8S32_TN": ((16, 8, 16), 32),
    "SM80_16x8x64_S32S4S4S32_TN": ((16, 8, 64), 32),
    "SM80_8x8x4_F64F64F64F64_TN": ((8, 8, 4), 32),
}


def cxx_cases(cutlass, cuda, seed, number=60):
    """Random tiled multiplies of these atoms as CuTe prints their thread-value layouts, over their own tiles."""
    import subprocess
    import tempfile
    from pathlib import Path

    rng, made = random.Random(seed), []
    for _ in range(number):
        name = rng.choice(list(CXX_ATOMS))
        shape, threads = CXX_ATOMS[name]
        while True:
            along = [rng.choice((1, 2, 2, 3, 4)), rng.choice((1, 2, 2, 4)), 1]
            if (threads == 32 and along[0] * along[1] <= 8) or along[0] * along[1] in (4, 8, 16):
                break
        strides = (1, along[0], 0) if rng.random() < 0.5 else (along[1], 1, 0)
        sides, tile = [], []
        for dim in range(3):
            size = shape[dim] * along[dim] * rng.choice((1, 2) if dim < 2 else (1,))
            kind = rng.choice(("number", "layout")) if size > shape[dim] * along[dim] else "number"
            if kind == "layout":
                sides.append(((shape[dim], along[dim], 2), (1, 2 * shape[dim], shape[dim])))
            else:
                sides.append(size)
            tile.append(size)
        made.append((name, tuple(along), strides, sides, tile))

    def cxx(side):
        if isinstance(side, int):
            return f"Int<{side}>"
        parts = [", ".join(f"Int<{n}>" for n in numbers) for numbers in side]
        return f"Layout<Shape<{parts[0]}>, Stride<{parts[1]}>>"

    lines = [
        f"  show({n}, make_tiled_mma({name}{{}}, {cxx((along, strides))}{{}}, Tile<{', '.join(map(cxx, sides))}>{{}}));"
        for n, (name, along, strides, sides, _) in enumerate(made)
    ]
    program = (
        "#include <cute/tensor.hpp>\n#include <cute/atom/mma_atom.hpp>\n#include <cstdio>\nusing namespace cute;\n"
        "template <class T> void show(int n, T t) {\n"
        + "".join(
            f'  printf("%d {o} ", n); print(t.get_layout{c}_TV()); printf("\\n");\n'
            for o, c in zip("abd", "ABC", strict=True)
        )
        + "}\nint main() {\n"
        + "\n".join(lines)
        + "\n}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "layouts.cpp", Path(folder) / "layouts"
        source.write_text(program)
        includes = [f"-I{cutlass}", f"-I{cuda}", f"-I{cuda}/cccl"]
        subprocess.run(["g++", "-std=c++17", "-O0", "-w", *includes, str(source), "-o", str(binary)], check=True)
        printed = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        index, operand, layout = line.split(" ", 2)
        name, along, strides, sides, (m, n, k) = made[int(index)]
        modes, values = evaluate(layout.replace(" ", ""))
        first, _ = {"a": (m, k), "b": (n, k), "d": (m, n)}[operand]
        held = values.reshape(-1, modes[0].shape if isinstance(modes[0].shape, int) else _size(modes[0])).T
        rows, cols = held % first, held // first
        text = f"{spelled(name, along, strides, sides)} {operand} over {m}x{n}x{k}"
        yield Case(text, cols, rows, "TiledMMA") if operand == "b" else Case(text, rows, cols, "TiledMMA")


def _size(mode):
    from tcprobe.notation import cute

    return cute.table(mode).size
