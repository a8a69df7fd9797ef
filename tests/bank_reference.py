"""The rule of banks once more, from its wording and by nothing but sets: what the tests compare with."""

BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16, "u32": 4, "4": 4, "8": 8, "16": 16}
OPS = [
    *(f"{move}.shared.b{bits}" for move in ("ld", "st") for bits in (8, 16, 32, 64, 128)),
    *(f"{move}.x{n}{end}" for move in ("ldmatrix", "stmatrix") for n in (1, 2, 4) for end in ("", ".trans")),
    *("atom.shared.add.u32", "atom.shared.exch.b32", "red.shared.add.u32"),
    *(f"cp.async.ca.{n}" for n in (4, 8, 16)),
]


def bytes_of(op):
    return 16 if "matrix" in op else BYTES[op.split(".")[-1]]


def lanes_of(op):
    return 8 * int(op.split(".")[1][1]) if "matrix" in op else 32


def phases(op, address, source=None):
    """Passes of each phase."""
    size, lanes = bytes_of(op), lanes_of(op)
    wide = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[size]
    if op in ("ld.shared.b64", "ld.shared.b128") and any(neighbours_agree(address, step) for step in (1, 2)):
        wide *= 2
    groups = [range(first, min(first + wide, lanes)) for first in range(0, lanes, wide)]
    count = waiting if op.startswith("cp") else in_a_bank
    return [count(op, [(address[i], source and source[i]) for i in g if address[i] is not None]) for g in groups]


def beats(op, passes):
    """One for each phase; loads and stores of 64 and 128 bits count idle phases too, unless all are idle."""
    if op.startswith(("ld.shared", "st.shared")) and any(passes):
        return len(passes)
    return sum(n > 0 for n in passes)


def neighbours_agree(address, step):
    pairs = [(a, address[i ^ step]) for i, a in enumerate(address)]
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def words(op, address):
    return range(address // 4, max(address // 4 + 1, (address + bytes_of(op)) // 4))


def in_a_bank(op, lanes):
    banks = [[] for _ in range(32)]
    for to, _ in lanes:
        for word in words(op, to):
            banks[word % 32].append(word)
    return max(len(touched) if op.startswith(("atom", "red")) else len(set(touched)) for touched in banks)


def waiting(op, lanes):
    """A lane is served one pass after the last of the earlier lanes that share a bank with it, on either side."""
    served = []
    for j, (to, from_) in enumerate(lanes):
        banks = [{w % 32 for w in words(op, a)} for a in (to, from_) if a is not None]
        before = [
            served[i]
            for i, earlier in enumerate(lanes[:j])
            if any(mine & {w % 32 for w in words(op, a)} for mine, a in zip(banks, earlier, strict=False))
        ]
        served.append(1 + max(before, default=0))
    return max(served, default=0)
