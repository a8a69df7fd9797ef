"""Paths once more, from their JSON alone: elements are carried issue by issue, in plain Python.

ldmatrix and stmatrix are as PTX's text has them: lane 8m + r gives row r of matrix m; lane l holds elements 2 (l % 4)
and 2 (l % 4) + 1 of row l / 4 of each matrix, or with .trans of column l / 4.
"""

import bank_reference

LANES = range(32)


def swizzled(offset, three):
    """CuTe's Swizzle<B, M, S>."""
    b, m, s = three
    bits = (offset >> m + max(s, 0)) & ((1 << b) - 1)
    return offset ^ bits << m - min(s, 0)


def wavefronts(issues, op):
    """Of a step, beats included; cp.async as st.shared of its width."""
    if op.startswith("cp.async."):
        op = f"st.shared.b{8 * int(op.rpartition('.')[2])}"
    total = 0
    for issue in issues:
        phases = bank_reference.phases(op, issue["shared"])
        total += max(sum(phases), bank_reference.beats(op, phases))
    return total


class Simulated:
    """`bits` of an element; memories map bit positions of pieces of at most 8 bits to (row, col, piece)."""

    def __init__(self, answer, table, bits):
        self.answer, self.table, self.bits = answer, table, bits
        self.piece = min(8, bits)
        self.row_major = answer["global"] == "row"
        self.shared, self.registers, self.back = {}, {}, {}

    def whole(self):
        """Global memory with every element of the tile in its place."""
        rows, cols = self.answer["tile"]
        found = {}
        for row in range(rows):
            for col in range(cols):
                line, place = (row, col) if self.row_major else (col, row)
                start = (line * self.answer["ld"] + place) * self.bits
                for p in range(self.bits // self.piece):
                    found[start + p * self.piece] = (row, col, p)
        return found

    def expected(self):
        """The pieces that every slot of every fragment should hold: (fragment origin, lane, bit)."""
        found = {}
        rows, cols = self.answer["tile"]
        for down in range(0, rows, self.table.fragment.rows):
            for right in range(0, cols, self.table.fragment.cols):
                for lane in range(self.table.table.threads):
                    for i in range(self.table.table.elements):
                        at = self.table.table.at(lane=lane, i=i)
                        for p in range(self.bits // self.piece):
                            bit = i * self.bits + p * self.piece
                            found[down, right, lane, bit] = (down + at["row"], right + at["col"], p)
        return found

    def run(self):
        """Every step in order; `registers` or `back` then hold what came."""
        loads = self.answer["steps"][0]["kind"] == "global->shared"
        self.back = self.whole() if loads else {}
        self.registers = {} if loads else self.expected()
        for step in self.answer["steps"]:
            for issue in step["issues"]:
                self.issue(step, issue)
        return self

    def issue(self, step, issue):
        kind = step["kind"]
        if "box" in issue:
            self.box(step, issue)
        elif "bytes" in issue:
            for shared, global_ in zip(issue["shared"], issue["global"], strict=True):
                assert (shared is None) == (global_ is None)
                if shared is not None:
                    assert shared % issue["bytes"] == global_ % issue["bytes"] == 0
                    pairs = [(self.back, 8 * global_), (self.shared, 8 * shared)]
                    self.copy(*pairs[:: 1 if kind == "global->shared" else -1], 8 * issue["bytes"])
        else:
            assert ("warp" in issue) == (self.table.table.threads > len(LANES))
            first = len(LANES) * issue.get("warp", 0)
            for lane, bit, place in self.held(step["instruction"], issue):
                pairs = [(self.shared, place), (self.registers, (*bit[:2], first + lane, bit[2]))]
                (source, at), (target, to) = pairs[:: 1 if kind == "shared->registers" else -1]
                target[to] = source[at]

    def copy(self, source, target, bits):
        for bit in range(0, bits, self.piece):
            target[0][target[1] + bit] = source[0][source[1] + bit]

    def box(self, step, issue):
        """A tensor map's box; the pitch is the span of the mode, or the box's width."""
        (inner, rows), (x, y) = issue["box"], issue["at"]
        b = {"SWIZZLE_NONE": 0, "SWIZZLE_32B": 1, "SWIZZLE_64B": 2, "SWIZZLE_128B": 3}[step["swizzle"]]
        pitch = 16 << b if b else inner * self.bits // 8
        assert issue["shared"] % 128 == 0
        assert max(inner, rows) <= 256
        assert inner * self.bits // 8 in range(16, pitch + 1, 16)
        for j in range(rows):
            for i in range(inner * self.bits // 8):
                to = swizzled(issue["shared"] + j * pitch + i, (b, 4, 3))
                at = (y + j) * self.answer["ld"] * self.bits // 8 + x * self.bits // 8 + i
                pairs = [(self.back, 8 * at), (self.shared, 8 * to)]
                self.copy(*pairs[:: 1 if step["kind"] == "global->shared" else -1], 8)

    def held(self, op, issue):
        """(lane, (origin row, origin col, bit of its slots), bit of shared memory) of every piece of an issue."""
        if "matrix" not in op:
            width = int(op.rpartition("b")[2])
            [(row, col, i)] = issue["slots"]
            for lane in LANES:
                assert 8 * issue["shared"][lane] % width == 0
                for bit in range(0, width, self.piece):
                    yield lane, (row, col, i * self.bits + bit), 8 * issue["shared"][lane] + bit
            return
        count, trans = int(op.split(".")[1][1]), op.endswith(".trans")
        assert len(issue["slots"]) == count
        for m, (row, col, i) in enumerate(issue["slots"]):
            for lane in LANES:
                for half in range(2):
                    r, c = (2 * (lane % 4) + half, lane // 4) if trans else (lane // 4, 2 * (lane % 4) + half)
                    assert issue["shared"][8 * m + r] % 16 == 0
                    place = 8 * issue["shared"][8 * m + r] + 16 * c
                    for bit in range(0, 16, self.piece):
                        yield lane, (row, col, i * self.bits + 16 * half + bit), place + bit
        assert all(address is None for address in issue["shared"][8 * count :])
