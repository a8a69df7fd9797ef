"""What the site takes: python benchmarks/site.py; seconds, CPU seconds of both processes, size, files."""

from __future__ import annotations

import os
import time

from tcprobe.pages.site.build import build
from tcprobe.pages.site.facts import gather
from tcprobe.store.choose import alone
from tcprobe.store.results import published


def main() -> None:
    """Make it in memory and print the figures."""
    start = time.perf_counter()
    facts = gather(alone(published()))
    gathered = time.process_time()
    pages = build(facts)
    wall, spent = time.perf_counter() - start, os.times()
    here, there = spent.user + spent.system, spent.children_user + spent.children_system
    size = sum(len(text.encode()) for text in pages.values())
    took = f"tables {gathered:.1f}, this process {here:.1f}, the other {there:.1f} CPU s"
    print(f"{wall:.1f} s on {os.cpu_count()} cores: {took}")
    print(f"{len(pages)} files, {size / 1e6:.1f} MB; search.json {len(pages['search.json'].encode()) / 1024:.0f} KB")


if __name__ == "__main__":
    main()
