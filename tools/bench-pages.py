#!/usr/bin/env python3
"""bench-pages.py: makes the pages of figures from docs/bench/results.json and machine.json.

    bench-pages.py            writes them
    bench-pages.py --check    only looks; fails if one of them is not what would be written

The pages: the table in README.md between its two marks, docs/bench/results.md (everything), docs/bench/ants.md (the
tables of the article about ants), docs/bench/flood.md (from flood.json). Nobody writes figures by hand: they come from a
run (`make bench`, `make flood`), by tools/bench-publish.sh and tools/flood-publish.sh.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "docs" / "bench"
sys.path.insert(0, str(ROOT / "bench" / "compare"))
sys.path.insert(0, str(ROOT / "bench" / "flood"))
sys.dont_write_bytecode = True

import catalog  # noqa: E402
import page as flood  # noqa: E402

BEGIN = "<!-- made by tools/bench-pages.py from docs/bench/results.json: begin -->"
END = "<!-- end -->"

# The columns of the README's table: the first system of each that has the case.
COLUMNS = [
    ("weft", ["weft"]),
    ("compact stacks", ["weft-compact"]),
    ("Go (pools: ants; HTTP: fasthttp)", ["ants", "go", "fasthttp"]),
    ("tokio", ["tokio"]),
    ("may", ["may"]),
    ("Boost.Fiber", ["boost-fiber"]),
    ("oneTBB", ["onetbb"]),
    ("rayon", ["rayon"]),
]


class Results:
    def __init__(self):
        self.all = json.loads((BENCH / "results.json").read_text(encoding="utf-8"))
        self.machine = json.loads((BENCH / "machine.json").read_text(encoding="utf-8"))
        self.by_key = {(result["case"], result["system"]): result for result in self.all}

    def get(self, case, system):
        return self.by_key.get((case, system))

    def version(self, system):
        return next((result["version"] for result in self.all if result["system"] == system), None)

    def about(self):
        machine = self.machine
        rounds = sorted({result["rounds"] for result in self.all})
        several = str(rounds[-1]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
        text = (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
                f"{machine['date']}; two processors, medians of {several} rounds, each in a process of its own, the systems "
                "in turn.")
        if machine["quick"]:
            text += " **A quick run**: a tenth of the amounts that the rows name; a first look, no more."
        if machine["load_before"] > machine["cores"] / 2:
            text += (f" The machine was busy with other things (load {machine['load_before']:.0f} before the run), which "
                     "shows in all figures.")
        return text


def figure(result):
    return catalog.human(result["median"], result["unit"]) if result else ""


def times(quotient):
    return f"{quotient:,.2f}" if quotient < 10 else f"{quotient:,.1f}" if quotient < 100 else f"{quotient:,.0f}"


def compared(result, weft):
    """A peer's figure with its ratio to weft's."""
    if result is None:
        return ""
    quotient = catalog.ratio(result, weft)
    return figure(result) + (f" ({times(quotient)} ×)" if quotient else "")


def table(rows):
    """A Markdown table; the first row is the heading."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def readme_table(results):
    rows = [["", *(title for title, _ in COLUMNS)]]
    for case in catalog.CASES:
        weft = results.get(case.name, "weft")
        if not case.readme or weft is None:
            continue
        cells = [figure(weft)]
        for _, systems in COLUMNS[1:]:
            found = (results.get(case.name, system) for system in systems)
            cells.append(compared(next((result for result in found if result), None), weft))
        rows.append([case.title, *cells])
    return (f"{results.about()} In brackets: times weft's, for rates (`req/s`) how many times slower. Less is better everywhere "
            f"else; a cell is empty where the system has no such thing.\n\n{table(rows)}")


def readme(results, old):
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(old):
        sys.exit("bench-pages.py: README.md has lost the marks of the table")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{readme_table(results)}\n\n{END}", old)


def results_page(results):
    parts = ["# All figures\n\nMade by `tools/bench-pages.py` from [results.json](results.json). What each case measures, and "
             f"how to repeat it, is in [README.md](README.md).\n\n{results.about()}\n"]
    for case in catalog.CASES:
        rows = [result for result in results.all if result["case"] == case.name]
        if not rows:
            continue
        weft = results.get(case.name, "weft")
        lines = [["system", "version", "median", "lowest .. highest", "times weft", "peak memory", "parameters"]]
        for row in rows:
            quotient = catalog.ratio(row, weft)
            lines.append([
                catalog.SYSTEMS.get(row["system"], row["system"]), row["version"], figure(row),
                f"{catalog.human(row['low'], row['unit'])} .. {catalog.human(row['high'], row['unit'])}",
                times(quotient) if quotient else "", catalog.memory(row["peak_rss_kb"]), f"`{row['params']}`"
            ])
        parts.append(f"## {case.name}\n\n{case.title[0].upper() + case.title[1:]}.\n\n{table(lines)}\n")
        if (BENCH / f"{case.name}.svg").exists():
            parts.append(f"![{case.title}]({case.name}.svg)\n")
        if (BENCH / f"{case.name}_memory.svg").exists():
            parts.append(f"![{case.title}: memory]({case.name}_memory.svg)\n")
    return "\n".join(parts)


ANTS_TEXT = """# The tables of ants

The article that made ants known, and the manual of ants, compare in three sizes: 100,000, 1,000,000 and 10,000,000
tasks that sleep 10 ms each; a goroutine for each task, and a pool of 50,000; by time, by bytes and by allocations. Here
are these tables with weft beside them, made by `tools/bench-pages.py` from [results.json](results.json).

{about}

- **Time**: from the first task until the last has ended; for the throughput, until the last submit has returned.
- **Bytes** and **allocations**: what the heap was asked for in that time, freed or not, as `go test -benchmem` says it.
  For Go the growth of `TotalAlloc` and `Mallocs` of `runtime.MemStats`; for weft the calls of `malloc` and its kin by
  weft, counted at the linker's door (`bench/heap.c`). Stacks are in neither: Go takes them from spans of its own, weft
  from mapped arenas.
- **Peak memory**: the highest resident memory of the process, by `wait4`. Everything is in it, stacks and code too.

Each row is the median of its rounds; the spread is in [results.md](results.md). Go is {go}, ants is {ants}.
"""

ANTS_SIZES = [("100,000", "_100k"), ("1,000,000", ""), ("10,000,000", "_10m")]
ANTS_SYSTEMS = ["weft", "weft-compact", "ants", "ants-func", "ants-multi", "errgroup"]


def parameter(result, name):
    found = re.search(rf"\b{name}=(\S+)", result["params"])
    return found.group(1) if found else None


def ants_row(results, case, system, label):
    time, heap = results.get(case, system), results.get(f"{case}_bytes", system)
    if time is None or heap is None:
        return None
    tasks = int(parameter(time, "tasks"))
    return [
        label, f"{tasks:,}", figure(time), catalog.human(heap["median"], "bytes"),
        f"{int(parameter(heap, 'allocations')):,}", catalog.memory(time["peak_rss_kb"])
    ]


def ants_page(results):
    ants_version, _, go_version = (results.version("ants") or "unknown+gounknown").partition("+go")
    parts = [ANTS_TEXT.format(about=results.about(), go=go_version, ants=ants_version)]
    heading = ["", "tasks", "time", "bytes", "allocations", "peak memory"]

    def section(title, case_of, systems):
        parts.append(f"## {title}\n")
        for size, suffix in ANTS_SIZES:
            rows = [ants_row(results, case_of(suffix), system, label) for system, label in systems]
            rows = [row for row in rows if row]
            if rows:
                parts.append(f"### {size}\n\n{table([heading, *rows])}\n")

    pools = [(system, catalog.SYSTEMS[system]) for system in ANTS_SYSTEMS]
    section("A task for each, no pool", lambda suffix: "no_pool_sleep" + suffix,
            [("weft", "weft, a fiber each"), ("go", "Go, a goroutine each")])
    section("A pool of 50,000", lambda suffix: "pool_sleep" + suffix, pools)
    section("Throughput: the submits alone, a pool of 50,000", lambda suffix: "throughput" + (suffix or "_1m"),
            [*pools, ("go", "Go, a goroutine each, no pool")])
    return "\n".join(parts)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: tools/bench-pages.py [--check]")
    results = Results()
    path = ROOT / "README.md"
    pages = {
        path: readme(results, path.read_text(encoding="utf-8")),
        BENCH / "results.md": results_page(results),
        BENCH / "ants.md": ants_page(results),
    }
    if (BENCH / "flood.json").exists():
        pages[BENCH / "flood.md"] = flood.page(BENCH)
    stale = [page for page, text in pages.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    if check:
        for page in stale:
            print(f"{page.relative_to(ROOT)} is not what tools/bench-pages.py makes of docs/bench/results.json")
        sys.exit(1 if stale else 0)
    for page in stale:
        page.write_text(pages[page], encoding="utf-8")
        print(f"{page.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main()
