"""Where along M the order of cuBLAS changes: for types, and N and K of public models, M from 1 to 4,096.

    python benchmarks/order_ranges.py --out DIR --seconds 400           # on a GPU; what DIR has is left out
    python benchmarks/order_ranges.py --out DIR --publish results       # anywhere: findings of kind order

All M to ALL and each STEP-th beyond are called with one row of A and one B; where the bits of that row of D change
between two of them, the M in between are called too, by halves. The order is revealed at the first M of each different
row, and proven there and at a random M of each range. DIR/ranges.jsonl has a line a product, DIR/errors.log tracebacks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
import traceback
from concurrent.futures import Future, ProcessPoolExecutor
from importlib import metadata
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

MOST_M, ALL, STEP = 4096, 256, 32
ELEMENTS = 1024  # of a proof at a random M
ALIGNED = 256  # bytes, of what PyTorch allocates
CORES = max(1, (os.cpu_count() or 2) - 2)
# N, K: of Llama 3 8B, of 70B by eight, of Qwen 2.5 7B, of DeepSeek V3, and small ones
SIZES = (
    (6144, 4096),
    (4096, 4096),
    (28672, 4096),
    (4096, 14336),
    (1280, 8192),
    (8192, 1024),
    (7168, 8192),
    (8192, 3584),
    (4608, 3584),
    (3584, 3584),
    (1536, 7168),
    (24576, 1536),
    (576, 7168),
    (4096, 7168),
    (7168, 2048),
    (2048, 7168),
    (512, 2048),
    (2048, 2048),
    (1024, 4096),
    (4096, 2048),
)


class Product(NamedTuple):
    """A call, its types, N and K."""

    call: str
    types: tuple[str, ...]
    n: int
    k: int
    fast: bool = False

    @property
    def id(self) -> str:
        """One line."""
        return f"{self.call}{' fast_accum' if self.fast else ''} {','.join(self.types)} {self.n}x{self.k}"


def products() -> list[Product]:
    """All, those that are asked for most first."""
    made = [Product("torch.mm", ("bf16",), n, k) for n, k in SIZES]
    for n, k in SIZES[::3]:
        made += [Product("torch._scaled_mm", ("e4m3",), n, k, fast) for fast in (False, True)]
        made += [Product("torch.mm", ("f16",), n, k), Product("torch.mm", ("tf32",), n, k)]
    made += [Product("torch.mm", ("f32",), n, k) for n, k in SIZES[::5]]
    return made


class Rows:
    """The first row of D at each M, of one A and one B."""

    def __init__(self, call: Any, product: Product) -> None:
        from tcprobe.order.batches import row_operands
        from tcprobe.order.bench import Bench, Shape

        self.call, self.memory = call, call.memory
        self.bench = Bench(call, Shape(MOST_M, product.n, product.k))
        a, b = row_operands(self.bench, min(product.n, 512), 11).bits
        self.bench.fill(a, b)
        self.a, self.b = self.bench.given
        self.rows: dict[int, Any] = {}

    def at(self, m: int) -> Any:
        """On the device."""
        if m not in self.rows:
            self.rows[m] = self.memory.bits(self.call.function(self.a[:m], self.b))[0] + 0
        return self.rows[m]

    def same(self, m: int, other: int) -> bool:
        """Whether two M give the same bits."""
        return not int(self.memory.get((self.at(m) != self.at(other)).sum()))

    def between(self, low: int, high: int) -> list[int]:
        """The M after `low`, up to `high`, whose rows differ from those before them, as far as halves show them."""
        if self.same(low, high):
            return []
        if high - low == 1:
            return [high]
        middle = (low + high) // 2
        return [*self.between(low, middle), *self.between(middle, high)]

    def ranges(self) -> list[tuple[int, int, int]]:
        """(first M, last M, how many were called) of rows with the same bits."""
        called = [*range(1, ALL + 1), *range(ALL + STEP, MOST_M + 1, STEP)]
        starts = [1, *(start for pair in pairwise(called) for start in self.between(*pair))]
        ends = [*(start - 1 for start in starts[1:]), MOST_M]
        return [
            (first, last, sum(first <= m <= last for m in self.rows)) for first, last in zip(starts, ends, strict=True)
        ]


def proven(found: Any, orders: list[str], again: list[tuple[int, list[Any]]]) -> dict[str, Any]:
    """The order, how many elements differ at the first M, and at each M again."""
    from tcprobe.arithmetic import order_text
    from tcprobe.order import proof
    from tcprobe.order.reveal import conclude

    kept = [
        each._replace(order=order_text.read(text.encode())) for each, text in zip(found.candidates, orders, strict=True)
    ]
    made = conclude(found._replace(candidates=kept))
    counts = {
        m: (sum(s.d.size for s in samples), sum(int(proof.differing(made.order, s).sum()) for s in samples))
        for m, samples in again
    }
    whole = order_text.to_json(made.order)
    return {
        "order": {key: whole[key] for key in order_text.KEYS},
        "elements": made.elements,
        "different": made.different,
        "difference": made.difference and made.difference._asdict(),
        "kernel": made.kernel,
        "again": counts,
    }


def found_of(
    product: Product, pool: ProcessPoolExecutor
) -> tuple[dict[str, Any], list[Future[dict[str, Any]]], list[Any]]:
    """(what is known of a product, proofs of each different row, ranges with the number of theirs)."""
    from tcprobe.arithmetic import order_text
    from tcprobe.order.bench import Shape
    from tcprobe.order.calls import CallOptions, call
    from tcprobe.order.reveal import Revealing

    made = call(product.call, product.types, CallOptions(fast_accum=product.fast, b="col"))
    rows, rng = Rows(made, product), random.Random(product.id)
    spans, firsts = rows.ranges(), []
    ranges: list[dict[str, Any]] = []
    for first, last, called in spans:
        same = next((number for number, other in enumerate(firsts) if rows.same(first, other)), None)
        if same is None:
            same = len(firsts)
            firsts.append(first)
        changed = None
        if ranges:
            changed = int(rows.memory.get((rows.at(first) != rows.at(first - 1)).sum()))
        ranges.append({"first": first, "last": last, "called": called, "row": same, "changed": changed})
        ranges[-1]["again"] = rng.randint(first, last)
    rows.rows.clear()
    del rows
    futures = []
    for number, first in enumerate(firsts):
        found = Revealing(made, Shape(first, product.n, product.k)).find()
        again = []
        for each in ranges:
            if each["row"] != number:
                continue
            there = Revealing(made, Shape(each["again"], product.n, product.k), each["again"])
            there.steady()
            there.bench.alike = there.places().alike
            again.append((each["again"], list(there.samples(found.candidates[0].order, ELEMENTS))))
            each["kernel"] = there.kernel()
        texts = [order_text.text(each.order) for each in found.candidates]
        blank = [each._replace(order=None) for each in found.candidates]
        futures.append(pool.submit(proven, found._replace(candidates=blank), texts, again))
    about = {**made.about, "types": [*made.types, made.d], "a": made.a, "b": made.b}
    return about, futures, ranges


def line(product: Product, about: dict[str, Any], futures: list[Any], ranges: list[Any]) -> dict[str, Any]:
    """What is written of a product."""
    proofs = [future.result() for future in futures]
    for number, proof in enumerate(proofs):
        if proof["different"]:
            raise RuntimeError(f"row {number}: {proof['different']} elements differ: {proof['difference']}")
    for each in ranges:
        proof = proofs[each["row"]]
        elements, different = proof["again"][each["again"]]
        each |= {"elements": elements, "different": different}
    return {
        "product": product.id,
        **product._asdict(),
        **about,
        "orders": [p["order"] for p in proofs],
        "ranges": ranges,
    }


def library() -> str:
    """cuBLAS and its version."""
    for name in ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"):
        try:
            return f"cuBLAS {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "cuBLAS of PyTorch"


def measure(folder: Path, seconds: float) -> int:
    """All products that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path, errors, end = folder / "ranges.jsonl", folder / "errors.log", time.monotonic() + seconds
    known = {json.loads(text)["product"] for text in path.read_text().splitlines()} if path.exists() else set()
    pool = ProcessPoolExecutor(CORES, mp_context=get_context("spawn"))
    import torch

    from tcprobe import __version__
    from tcprobe.run import driver

    row = torch.cuda.get_device_properties(0)
    made = {"driver": driver.version(), "multiprocessors": row.multi_processor_count, "tcprobe": __version__}
    made["cublas"] = library()
    waiting: list[tuple[Product, Any]] = []

    def settle() -> None:
        product, given = waiting.pop(0)
        try:
            written = {**line(product, *given), **made}
        except Exception as error:
            complain(product, error)
            return
        with path.open("a") as file:
            file.write(json.dumps(written) + "\n")
        spans = " ".join(f"{r['first']}-{r['last']}:{r['row']}" for r in written["ranges"][:12])
        bad = sum(r["different"] for r in written["ranges"])
        total = sum(r["elements"] for r in written["ranges"])
        print(f"{product.id}: {len(written['ranges'])} ranges, {bad} of {total} differ; {spans}", flush=True)

    def complain(product: Product, error: Exception) -> None:
        with errors.open("a") as file:
            file.write(f"--- {product.id}\n{''.join(traceback.format_exception(error))}\n")
        print(f"NONE {product.id}: {type(error).__name__}: {str(error)[:300]}", flush=True)

    for product in products():
        if product.id in known:
            continue
        if time.monotonic() > end:
            print("out of time", flush=True)
            break
        start = time.monotonic()
        try:
            waiting.append((product, found_of(product, pool)))
            print(f"  called {product.id} in {time.monotonic() - start:.1f} s", flush=True)
        except Exception as error:
            complain(product, error)
        torch.cuda.empty_cache()
        while waiting and all(future.done() for future in waiting[0][1][1]):
            settle()
    while waiting:
        settle()
    pool.shutdown()
    return 0


def publish(folder: Path, results: Path) -> int:
    """Write findings; what differs is left out, and said."""
    from tcprobe.arithmetic.order_text import from_json
    from tcprobe.store import findings
    from tcprobe.store.finding import Finding
    from tcprobe.store.kinds.order import Body, MRange, subject
    from tcprobe.store.results import Results

    written = 0
    for text in (folder / "ranges.jsonl").read_text().splitlines():
        row = json.loads(text)
        numbers: dict[Any, int] = {}
        places = [numbers.setdefault(from_json(order), len(numbers)) for order in row["orders"]]
        if len(numbers) < len(places) or any(each["different"] for each in row["ranges"]):
            print(f"left out: {row['product']}")
            continue
        ranges = [
            MRange(
                first=each["first"],
                last=each["last"],
                order=places[each["row"]],
                called=each["called"],
                elements=each["elements"],
                different=each["different"],
                changed=each["changed"],
                kernel=re.sub(r"\s+", " ", each["kernel"][0])[:400] if each["kernel"] else None,
            )
            for each in row["ranges"]
        ]
        body = Body(
            call=row["call"] + (" --fast-accum" if row["fast"] else ""),
            library=row["cublas"],
            multiprocessors=row["multiprocessors"],
            types=tuple(row["types"]),
            n=row["n"],
            k=row["k"],
            a=row["a"],
            b=row["b"],
            alignment=ALIGNED,
            orders=row["orders"],
            ranges=ranges,
        )
        made = {name: row[name] for name in ("device", "driver", "cuda", "tcprobe")}
        made |= {"compiler": row["cublas"], "ptx": "none"}
        findings.write(Results(results), Finding("order", subject(body), row["arch"], "live", "measured", made, body))
        written += 1
    print(f"{written} findings")
    return 0


def main() -> int:
    """As the module says."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("order_ranges"))
    options.add_argument("--seconds", type=float, default=400.0)
    options.add_argument("--publish", type=Path)
    asked = options.parse_args()
    return publish(asked.out, asked.publish) if asked.publish else measure(asked.out, asked.seconds)


if __name__ == "__main__":
    sys.exit(main())
