"""Where along M the order of cuBLAS changes: for types, and N and K of public models, M from 1 to 4,096.

    python benchmarks/order_ranges.py --out DIR --seconds 400           # on a GPU; what DIR has is left out
    python benchmarks/order_ranges.py --out DIR --publish results       # anywhere: findings of kind order

M of CALLED are called with one row of A and one B, three times; the bits of that row of D say which have one order. It
is revealed at the first M of each different row, and proven there and at a random M of each range: in the corner of D,
and in lines that are spread over it, since some kernels sum in another order there. M that were not called are in none.
DIR/ranges.jsonl has a line a product, DIR/errors.log tracebacks.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import sys
import time
import traceback
from concurrent.futures import Future, ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import json_lines
import numpy as np

MOST_M = 4096
# all M to 1,024, and the neighbours of some beyond
CALLED = (*range(1, 1025), *(m for w in (1152, 1280, 1536, 1792, 2048, 2560, 3072, 3584) for m in range(w - 8, w + 9)))
CALLED += tuple(range(MOST_M - 15, MOST_M + 1))
MANY = 40  # ranges of a product, from which on fewer elements are compared in each
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
    """A product at any M over the same memory: A's first lines, and all of B."""

    def __init__(self, call: Any, product: Product) -> None:
        from tcprobe.order.batches import row_operands
        from tcprobe.order.bench import Bench, Shape

        self.call, self.memory = call, call.memory
        self.bench = Bench(call, Shape(MOST_M, product.n, product.k))
        self.given = row_operands(self.bench, min(product.n, 128), 11)

    def d(self, m: int) -> Any:
        """D of the first m lines, as whole numbers."""
        a, b = self.bench.given
        return self.memory.bits(self.call.function(a[:m], b))

    def ranges(self) -> list[dict[str, Any]]:
        """Ranges of neighbours that were called and whose row has the same bits; `row` is the first M that has them."""
        keys, apart = dict.fromkeys(CALLED, b""), dict.fromkeys(CALLED, 0)
        for given in self.given:
            self.bench.fill(*given.bits)
            found, last = self.apart(), b""
            for m in CALLED:
                apart[m] = max(apart[m], found[m])
                if m == 1 or found[m]:
                    last = self.memory.get(self.d(m)[0]).tobytes()
                keys[m] += hashlib.sha256(last).digest()
        made: list[dict[str, Any]] = []
        firsts: dict[bytes, int] = {}
        for before, m in zip((None, *CALLED), CALLED, strict=False):
            if before is None or m != before + 1 or keys[m] != keys[before]:
                changed = None if before is None else apart[m]
                made.append({"first": m, "row": firsts.setdefault(keys[m], m), "changed": changed})
            made[-1]["last"] = m
        return made

    def apart(self) -> dict[int, int]:
        """How many elements of the first row are otherwise than at the M that was called before."""
        import torch

        before, counts = None, []
        for m in CALLED:
            row = self.d(m)[0] + 0
            counts.append((row != (row if before is None else before)).sum())
            before = row
        return dict(zip(CALLED, torch.stack(counts).cpu().tolist(), strict=True))

    def samples(self, order: Any, at: list[int], columns: int) -> dict[int, tuple[list[Any], list[Any]]]:
        """Operands of each kind with the D of each M: its first rows and columns, and others spread over D."""
        from tcprobe.order import proof
        from tcprobe.order.memory import numpy_type

        made: dict[int, tuple[list[Any], list[Any]]] = {m: ([], []) for m in at}
        for number, kind in enumerate(proof.KINDS):
            size = proof.ROWS, columns, self.bench.shape.k
            if kind == "parts":
                given = proof.of_parts(order, size, number)
            else:
                given = proof.operands(kind, order.types, size, number)
            self.bench.fill(*given.bits)
            for m in at:
                d, few = self.d(m), min(m, proof.ROWS)
                for kept, rows, lines in zip(
                    made[m], (range(few), spread(few, m)), (range(columns), spread(columns, d.shape[1])), strict=True
                ):
                    bits = np.ascontiguousarray(self.memory.get(d[list(rows)][:, list(lines)]))
                    kept.append(proof.Sample(given._replace(a=given.a[:few]), bits.view(numpy_type(order.types.d))))
        return made


def spread(count: int, size: int) -> list[int]:
    """A line for each of `count` samples, which are repeated over `size` lines: far from each other."""
    return [number + count * (number * (size // count - 1) // max(count - 1, 1)) for number in range(count)]


def proven(found: Any, orders: list[str], again: list[tuple[int, tuple[list[Any], list[Any]]]]) -> dict[str, Any]:
    """The order, how many elements differ at the first M, and at each M again: in the corner of D, elsewhere."""
    from tcprobe.arithmetic import order_text
    from tcprobe.order import proof
    from tcprobe.order.reveal import conclude

    kept = [
        each._replace(order=order_text.read(text.encode())) for each, text in zip(found.candidates, orders, strict=True)
    ]
    made = conclude(found._replace(candidates=kept))
    counts = {
        m: (
            sum(s.d.size for samples in both for s in samples),
            *(sum(int(proof.differing(made.order, s).sum()) for s in samples) for samples in both),
        )
        for m, both in again
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
) -> tuple[dict[str, Any], list[Future[dict[str, Any]]], list[dict[str, Any]]]:
    """(what is known of a product, proofs of each different row, ranges with the number of theirs)."""
    from tcprobe.arithmetic import order_text
    from tcprobe.order.bench import Shape
    from tcprobe.order.calls import CallError, CallOptions, call
    from tcprobe.order.reveal import Revealing

    made = call(product.call, product.types, CallOptions(fast_accum=product.fast, b="col"))
    rng, rows = random.Random(product.id), Rows(made, product)
    ranges = rows.ranges()
    firsts = sorted({each["row"] for each in ranges})
    for each in ranges:
        each |= {"called": each["last"] - each["first"] + 1, "row": firsts.index(each["row"])}
        each["again"] = rng.randint(each["first"], each["last"])
    futures, columns = [], 16 if len(ranges) < MANY else 4
    for number, first in enumerate(firsts):
        found = Revealing(made, Shape(first, product.n, product.k)).find()
        if found.lacking:
            raise CallError(f"D lacks k {found.lacking.lost}, and has {found.lacking.double} twice or more")
        at = [each["again"] for each in ranges if each["row"] == number]
        again = list(rows.samples(found.candidates[0].order, at, columns).items())
        texts = [order_text.text(each.order) for each in found.candidates]
        blank = [each._replace(order=None) for each in found.candidates]
        futures.append(pool.submit(proven, found._replace(candidates=blank, proof=None), texts, again))
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
        elements, different, elsewhere = proof["again"][each["again"]]
        each |= {"elements": elements, "different": different, "elsewhere": elsewhere}
        if each["first"] == min(other["first"] for other in ranges if other["row"] == each["row"]):
            each |= {"elements": elements + proof["elements"], "kernel": proof["kernel"]}
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
    known = {row["product"] for row in json_lines.read(path)}
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
        json_lines.add(path, written)
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
    for row in json_lines.read(folder / "ranges.jsonl"):
        numbers: dict[Any, int] = {}
        places = [numbers.setdefault(from_json(order), len(numbers)) for order in row["orders"]]
        if any(each["different"] for each in row["ranges"]):
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
                elsewhere=each["elsewhere"],
                changed=each["changed"],
                kernel=re.sub(r"\s+", " ", each["kernel"][0])[:400] if each.get("kernel") else None,
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
            orders=[row["orders"][places.index(number)] for number in range(len(numbers))],
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
