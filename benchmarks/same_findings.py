"""Whether two folders of results say the same, finding by finding: python benchmarks/same_findings.py ONE OTHER

Tables are compared slot by slot with their structure tensors and the slots that are not read; findings of other kinds
by what two devices must agree on. Counts what is the same, and lists what is not and what only one folder has.
"""

import sys
from collections import Counter
from pathlib import Path

from tcprobe.store import findings, kinds
from tcprobe.store.finding import Measurement
from tcprobe.store.results import Results


def content(found):
    """What a finding says, without its provenance and without counts."""
    if found.status != "measured":
        return found.status
    if isinstance(found, Measurement):
        structure = found.structure and tuple(found.structure)[:2]
        return {o: table.id for o, table in found.tables.items()}, found.numbering, structure, found.unread
    return kinds.essence(found)


def everything(root):
    results = Results(Path(root))
    for arch in results.archs():
        for method in results.methods(arch):
            yield from results.measurements(arch, method)
    for kind in kinds.names():
        for arch in findings.archs(results, kind):
            yield from findings.every(results, kind, arch)


def main():
    one, other = ({found.key: content(found) for found in everything(root)} for root in sys.argv[1:3])
    both = one.keys() & other.keys()
    same = Counter(key.kind for key in both if one[key] == other[key])
    for kind, count in sorted(same.items()):
        print(f"{count} of kind {kind} say the same")
    for key in sorted(key for key in both if one[key] != other[key]):
        print("differs:", *key)
    for root, own, others in ((sys.argv[1], one, other), (sys.argv[2], other, one)):
        lone = Counter((key.kind, key.arch, key.method) for key in own.keys() - others.keys())
        for place, count in sorted(lone.items()):
            print(f"only in {root}: {count} of", *place)
    sys.exit(1 if any(one[key] != other[key] for key in both) else 0)


if __name__ == "__main__":
    main()
