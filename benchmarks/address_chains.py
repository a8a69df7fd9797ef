"""Chains of loads from shared memory with additions between load and address: python benchmarks/address_chains.py

Cycles from one load to the next with none, one and two additions of a zero that only memory knows, and the opcodes of
the loop: the compiler folds one addition into the address, and makes one IADD3 of two.
"""

from __future__ import annotations

from tcprobe.isa.arch import WARP
from tcprobe.probes import dialogues, timing
from tcprobe.probes.cost_moves import COPIES, TimedMove
from tcprobe.probes.timing import Loop, TimedBlock
from tcprobe.run.gpu import Gpu

MOVES = (*(f"ldmatrix.m8n8.x{n}.shared.b16" for n in (1, 2, 4)), "ld.shared.b32")


def chain(move: TimedMove, additions: int) -> Loop:
    names = [f"%v{j}" for j in range(move.registers)]
    added = [f"add.u32 {names[-1]}, {names[-1]}, %zero;"] * additions
    body = [line for _ in range(COPIES) for line in (move.written(names, names[-1]), *added)]
    return move._loop(f"chain{additions}", body, names, names)


def main() -> None:
    gpu = Gpu()
    gpu.open(0)
    print("| load | additions | cycles | in the loop |\n|---|--:|--:|---|")
    for name in MOVES:
        move = dialogues("cost")[name].move
        for additions in range(3):
            kernel = chain(move, additions).kernel()
            assert gpu.load([kernel]) == {}
            launch = timing.launch(kernel, [TimedBlock(WARP, 0, (move.stride,))], gpu.shared_bytes() // 2 + 1024)
            cycles = timing.decode(launch, gpu.run([launch])[0])[0, timing.RUNS]
            opcodes = dict.fromkeys(gpu.timed_code(kernel).loop)
            print(f"| {name} | {additions} | {cycles:.2f} | {', '.join(opcodes)} |")


if __name__ == "__main__":
    main()
