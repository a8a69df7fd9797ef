"""How fast D of an order is computed on a CPU, beside `numerics.multiply`: python benchmarks/order_speed.py."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from tcprobe import numerics
from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Node, Order, Types
from tcprobe.order import multiply

SIZE = 512
FORMS = {
    "bf16": "wgmma.mma_async.m64n256k16.f32.bf16.bf16",
    "f16": "wgmma.mma_async.m64n256k16.f32.f16.f16",
    "tf32": "wgmma.mma_async.m64n256k8.f32.tf32.tf32",
    "e4m3": "wgmma.mma_async.m64n256k32.f32.e4m3.e4m3",
}


def chains(form: str, each: int) -> Node:
    """Chains of so many products, joined by additions."""
    parts = tuple(Multiplies(form, ((at, at + each),)) for at in range(0, SIZE, each))
    return parts[0] if len(parts) == 1 else Additions(parts)


def seconds(run: Callable[[], object]) -> float:
    """Of one core, the least of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """A line for each order: seconds of one core, beside those of `numerics.multiply` of one chain."""
    rng = np.random.default_rng(0)
    for kind, form in FORMS.items():
        a, b = (rng.normal(size=(SIZE, SIZE)).astype(FORMATS[kind].numpy) for _ in "ab")
        plain = seconds(lambda form=form, a=a, b=b: numerics.multiply(form, a, b, np.zeros((SIZE, SIZE), np.float32)))  # type: ignore[misc]
        orders: dict[str, Node] = {"one chain": chains(form, SIZE), "8 chains": chains(form, SIZE // 8)}
        if kind == "bf16":
            orders["multiply-adds"] = FusedMultiplyAdds("f32", ((0, SIZE),))
            orders["8 chains of multiply-adds"] = Additions(
                tuple(FusedMultiplyAdds("f32", ((at, SIZE, 8),)) for at in range(8))
            )
        for name, sum_ in orders.items():
            order = Order("sm_90", Types(kind, kind, "f32"), SIZE, sum_)
            took = seconds(lambda order=order, a=a, b=b: multiply(order, a, b))  # type: ignore[misc]
            print(f"{kind:5} {name:26} {took:5.2f} s, numerics.multiply {plain:5.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)
    print(f"memory {peak} MiB")


if __name__ == "__main__":
    main()
