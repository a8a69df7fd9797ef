"""Which calls `orders.py` asks about: a grid by hand, and SEEDED ones that follow from a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

SEED, SEEDED = 20261124, 60


class Case(NamedTuple):
    """A call, its types, its shape, and options of `tcprobe order` beside them as (name, value)."""

    call: str
    types: tuple[str, ...]
    shape: tuple[int, int, int]
    options: tuple[tuple[str, object], ...] = ()

    @property
    def id(self) -> str:
        """One line, which `--cases` takes."""
        words = [self.call, ",".join(self.types), "x".join(map(str, self.shape))]
        return " ".join([*words, *(f"{name}={value}" for name, value in self.options)])


LINEAR = (("b", "col"),)  # as torch.nn.Linear has its weights
FAST = (("fast_accum", True),)
WEIGHTS = ((4096, 2048), (1024, 4096), (6144, 1024), (576, 7168))  # n, k
ROWS = (1, 2, 8, 16, 64, 200, 512, 2048)


def ours(arch: str, kind: str, shape: tuple[int, int, int], **more: object) -> Case:
    """A kernel of `tcprobe kernel gemm`."""
    return Case("kernel", (kind,), shape, (("arch", arch), *more.items()))


def attention(kind: str, shape: tuple[int, int, int]) -> Case:
    """A function of examples/attention_order.py: P V with P fixed."""
    return Case(f"examples/attention_order.py:{kind}", ("bf16",), shape, (("sums", True),))


SMOKE = (
    Case("torch.mm", ("bf16",), (8, 1024, 1024), LINEAR),
    Case("torch.mm", ("f32",), (16, 512, 512)),
    Case("torch._scaled_mm", ("e4m3",), (32, 1024, 1024)),
    Case("torch._scaled_mm", ("e4m3", "e4m3", "bf16"), (32, 1024, 1024), FAST),
    ours("sm_80", "bf16", (64, 512, 512)),
    Case("cupy.matmul", ("f16",), (16, 1024, 1024)),
    Case("triton", ("tf32",), (64, 512, 512)),
    ours("sm_90", "e4m3", (128, 256, 512)),
    Case("torch.sum", ("f32",), (256, 1, 1000)),
    Case("torch.mm", ("s8",), (32, 512, 512), LINEAR),
    Case("torch.mm", ("tf32",), (128, 512, 512)),
    Case("cupy.sum", ("f32",), (256, 1, 1000)),
    Case("torch.mm", ("f64",), (32, 256, 256)),
    Case("torch.mm", ("bf16", "bf16", "f32"), (8, 1024, 4096), LINEAR),
    attention("flash", (256, 1, 512)),
    attention("ours_sm_90", (256, 1, 512)),
)


def grid() -> list[Case]:
    """The grid by hand."""
    made = [Case("torch.mm", ("bf16",), (m, n, k), LINEAR) for n, k in WEIGHTS for m in ROWS]
    made += [Case("torch.mm", ("bf16",), (m, 2048, 1536)) for m in (1, 24, 256)]
    made += [Case("torch.mm", ("bf16", "bf16", "f32"), (m, 2048, 2048), LINEAR) for m in (1, 16, 300)]
    made += [Case("torch.mm", ("f16",), (m, n, k), LINEAR) for n, k in WEIGHTS[:2] for m in (1, 8, 64, 512)]
    made += [Case("torch.mm", ("f16",), (m, 1000, 1000)) for m in (7, 129)]
    made += [Case("torch.mm", ("bf16",), (16, 4096, 16384), LINEAR)]
    made += [Case("torch._scaled_mm", ("e4m3",), (64, 2048, 16384), more) for more in ((), FAST)]
    made += [Case("torch.mm", ("tf32",), (m, n, k)) for n, k in ((1024, 2048), (512, 512)) for m in (1, 16, 128, 1024)]
    made += [Case("torch.mm", ("f32",), (m, n, k)) for n, k in ((1024, 2048), (512, 512)) for m in (1, 16, 128, 1024)]
    made += [Case("torch.mm", ("f64",), (m, 512, 768)) for m in (1, 32, 256)]
    made += [Case("torch.mm", ("s8",), (m, 1024, 1024), LINEAR) for m in (32, 256)]
    for n, k in ((2048, 2048), (4096, 1024), (512, 7168)):
        made += [Case("torch._scaled_mm", ("e4m3",), (m, n, k), more) for m in (16, 64, 512) for more in ((), FAST)]
    made += [Case("torch._scaled_mm", ("e5m2", "e4m3", "bf16"), (64, 1024, 1024), more) for more in ((), FAST)]
    made += [Case("torch._scaled_mm", ("e4m3", "e4m3", "f32"), (64, 1024, 1024), more) for more in ((), FAST)]
    for kind in ("f16", "f32", "tf32", "f64", "bf16"):
        made += [Case("cupy.matmul", (kind,), (m, 1024, 1024)) for m in (1, 16, 300)]
    made += [Case("cupy.matmul", ("f16",), (64, 4096, 4096)), Case("cupy.matmul", ("f32",), (8, 4096, 4096))]
    for kind in ("bf16", "f16", "tf32", "f32"):
        made += [Case("triton", (kind,), shape) for shape in ((64, 512, 1024), (16, 1024, 2048))]
    made += [Case("triton", ("e4m3",), (64, 512, 1024))]
    for kind in ("bf16", "f16", "tf32", "s8"):
        made += [ours("sm_80", kind, shape) for shape in ((64, 1024, 1024), (256, 512, 2048))]
    for kind in ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8"):
        made += [ours("sm_90", kind, shape) for shape in ((128, 1024, 1024), (256, 512, 2048))]
    made += [ours("sm_89", "e4m3", (128, 512, 1024)), ours("sm_89", "e5m2", (64, 512, 512))]
    made += [
        Case(name, (kind,), (512, 1, k))
        for name in ("torch.sum", "cupy.sum")
        for kind in ("f32", "f64")
        for k in (1000, 2048)
    ]
    made += [Case("torch.sum", (kind,), (512, 1, 1500)) for kind in ("bf16", "f16")]
    made += [Case("torch.softmax", ("f32",), (4096, 1, 512))]
    made += [
        attention(kind, (512, 1, 1024)) for kind in ("flash", "efficient", "cudnn", "plain", "ours_sm_80", "ours_sm_90")
    ]
    return made


def seeded(seed: int = SEED, count: int = SEEDED) -> list[Case]:
    """Calls at random: library, types, sides."""
    rng, made = random.Random(seed), []
    while len(made) < count:
        call = rng.choice(("torch.mm", "torch.mm", "torch.mm", "cupy.matmul", "torch._scaled_mm", "triton", "kernel"))
        m = rng.choice((1, 3, 17, 32, 100, rng.randint(1, 600)))
        n, k = (rng.choice((rng.randint(4, 64) * 16, rng.randint(4, 64) * 32, rng.randint(2, 20) * 128)) for _ in "nk")
        layout = rng.choice(((), LINEAR))
        if call in ("torch.mm", "cupy.matmul"):
            kind = rng.choice(("bf16", "bf16", "f16", "f32", "tf32") if call == "torch.mm" else ("f16", "f32", "tf32"))
            case = Case(call, (kind,), (m, n, k), layout)
        elif call == "torch._scaled_mm":
            case = Case(call, ("e4m3",), (-(-m // 16) * 16, n, k), rng.choice(((), FAST)))
        elif call == "triton":
            case = Case(call, (rng.choice(("bf16", "f16", "tf32")),), (m, n, k), layout)
        else:
            arch = rng.choice(("sm_80", "sm_90"))
            case = ours(
                arch, rng.choice(("bf16", "f16", "tf32") if arch == "sm_80" else ("bf16", "f16", "e4m3")), (m, n, k)
            )
        if case not in made:
            made.append(case)
    return made


def cases() -> list[Case]:
    """All, those of one kernel together, so that it is compiled once."""
    return [*grid(), *seeded()]
