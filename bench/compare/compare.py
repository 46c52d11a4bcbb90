#!/usr/bin/env python3
"""compare.py: runs the cases on weft and on its peers, in turn, and reports the results.

    compare.py [--quick] [--rounds N] [--system NAME]... [case...]

A run of a case of a system is a process of its own. Within a round the systems follow each other,
and the next round begins with another one, so that disturbances of the machine affect all of them.
Short cases run twice more in each round, after all others, since the machine has states that last
for minutes. Results go to build/bench: results.json, machine.json, and charts if gnuplot is
installed. bench/compare/README.md says what a program must understand.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import catalog
import charts

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench"
LAUNCH = ROOT / "build" / "release" / "weft-launch"
PROCESSORS = 2
SECONDS_MOST = 300  # limit of a run
SHORT_SECONDS = 3  # below that a case has more than one run in a round
SHORT_RUNS = 3
QUICK_SECONDS = 100  # after that no case of a further round begins


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cases", nargs="*", metavar="case", help="default: all of catalog.py")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, three rounds")
    parser.add_argument("--rounds", type=int, help="rounds of each case (default 5, quick 3)")
    parser.add_argument("--system", action="append", help="weft and only these (may be repeated)")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def programs():
    peers = OUT / "peers"
    found = sorted(p for p in peers.iterdir() if os.access(p, os.X_OK) and p.is_file()) if peers.is_dir() else []
    return [ROOT / "build" / "release" / "weft-bench", *found]


def entries(options):
    """The systems of each case: {case: [(system, version, program)]}, in the order to run."""
    table = {}
    for program in programs():
        listing = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            case, system, version = line.split()[:3]
            if options.system and system not in ["weft", "weft-compact", *options.system]:
                continue
            table.setdefault(case, []).append((system, version, program))
    if options.cases:
        wanted = options.cases
    else:
        wanted = [case.name for case in catalog.CASES if (case.quick or not options.quick) and not case.of]
        for case in [case for case in wanted if case not in table and catalog.BY_NAME[case].tool]:
            print(f"skipped: {case}: no {catalog.BY_NAME[case].tool}", file=sys.stderr)
            wanted.remove(case)
    for case in wanted:
        if case not in table:
            sys.exit(f"compare.py: no program has the case {case} (see --list of build/release/weft-bench)")
    return {case: sorted(table[case], key=lambda entry: catalog.system_order(entry[0])) for case in wanted}


class Failure(Exception):
    pass


def run_once(case, system, program, options):
    """Runs one process: [(name, value, unit, params)], and its peak memory."""
    command = [LAUNCH, str(PROCESSORS), str(SECONDS_MOST), program, "--case", case, "--procs", str(PROCESSORS)]
    if system != "weft":
        command += ["--system", system]
    if options.quick:
        command.append("--quick")
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "RUST_BACKTRACE": "0"})
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failure(said[-1] if said[-1].startswith("weft-launch:") else " ".join(said[:2]))
    *lines, last = done.stdout.splitlines()
    figures, peak = [], int(last.split()[1])
    for line in lines:
        name, value, *rest = line.split(maxsplit=3)
        if name == "peak":
            peak = int(value)
        else:
            figures.append((name, float(value), rest[0], rest[1] if rest[1:] else ""))
    return figures, peak


class Progress:
    """Shows a bar on a terminal, otherwise a line per case."""

    WIDTH = 30

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.case = None

    def show(self, case, system, round_number):
        if not self.terminal:
            if case != self.case:
                print(f"{self.clock(self.seconds())} round {round_number}: {case}", file=sys.stderr, flush=True)
            self.case = case
            return
        share = self.done / self.total
        bar = "#" * int(share * self.WIDTH)
        text = f"[{bar:<{self.WIDTH}}] {share:4.0%}  {self.clock(self.seconds())}  {case}: {system}, round {round_number}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def step(self):
        self.done += 1

    def seconds(self):
        return time.monotonic() - self.start

    def say(self, line):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr)
        print(line, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    @staticmethod
    def clock(seconds):
        return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


def measure_case(number, again, case, systems, runs, short, options, progress):
    """Runs a case on these systems: appends (figures, peak) to runs[system], which a failure deletes; notes short runs."""
    shift = (number + again) % len(systems)
    for system, _, program in systems[shift:] + systems[:shift]:
        progress.step()
        if system not in runs:
            continue
        progress.show(case, system, number + 1)
        start = time.monotonic()
        try:
            runs[system].append(run_once(case, system, program, options))
            if time.monotonic() - start < SHORT_SECONDS:
                short.add((case, system))
        except Failure as failure:
            progress.say(f"failed: {case} of {system}: {failure}")
            del runs[system]


def measure_round(number, table, runs, options, progress):
    """Runs all cases once, then the short ones again; false: the time of a quick run is over."""
    short = set()
    for again in range(1 if options.quick else SHORT_RUNS):
        passed, short = short, set()
        for case, all_systems in table.items():
            if options.quick and number > 0 and progress.seconds() > QUICK_SECONDS:
                progress.say(f"the time of a quick run is up in round {number + 1}, at {case}")
                return False
            systems = [each for each in all_systems if again == 0 or (case, each[0]) in passed]
            progress.total += len(systems) if again > 0 else 0
            if systems:
                measure_case(number, again, case, systems, runs[case], short, options, progress)
    return True


def measure(table, options, progress):
    """Runs all rounds: {case: {system: [(figures, peak)]}}; a quick run ends when its time is over, any run at ^C."""
    runs = {case: {system: [] for system, _, _ in systems} for case, systems in table.items()}
    for number in range(options.rounds):
        try:
            if not measure_round(number, table, runs, options, progress):
                break
        except KeyboardInterrupt:
            progress.say(f"stopped in round {number + 1}: what there is is written")
            break
    return runs


def reduce_runs(system, version, runs, wanted):
    """The objects of results.json: the median of each figure with its spread, and the parameters of the nearest run."""
    results = []
    for place, (name, _, unit, _) in enumerate(runs[0][0]):
        if not wanted(name):
            continue
        values = [figures[place][1] for figures, _ in runs]
        median = statistics.median(values)
        nearest = min(range(len(values)), key=lambda i: abs(values[i] - median))
        results.append({
            "case": name,
            "system": system,
            "version": version,
            "unit": unit,
            "median": median,
            "low": min(values),
            "high": max(values),
            "peak_rss_kb": max(peak for _, peak in runs),
            "rounds": len(runs),
            "params": runs[nearest][0][place][3],
        })
    return results


def machine(options):
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(pages * page / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d"),
        "quick": options.quick,
        "rounds": options.rounds,
        "load_before": round(os.getloadavg()[0], 2),
    }


def print_table(results):
    for name in dict.fromkeys(result["case"] for result in results):
        if name != catalog.basis(name) and catalog.basis(name) in catalog.BY_NAME:
            continue  # used by the page about ants only
        rows = [result for result in results if result["case"] == name]
        weft = next((row for row in rows if row["system"] == "weft"), None)
        case = catalog.BY_NAME.get(name)
        print(f"\n{name}" + (f": {case.title}" if case else ""))
        for row in rows:
            spread = f"{catalog.human(row['low'], row['unit'])} .. {catalog.human(row['high'], row['unit'])}"
            times = catalog.ratio(row, weft)
            print(f"  {catalog.SYSTEMS.get(row['system'], row['system']):<18} {row['version']:<18}"
                  f" {catalog.human(row['median'], row['unit']):>10}  {spread:<24}"
                  f" {f'{times:.2f} x' if times else '':>9}  peak {catalog.memory(row['peak_rss_kb']):>8}"
                  f"  {row['params']}")


def write(results, about):
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(result) for result in results)
    (OUT / "results.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (OUT / "machine.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def belongs(name):
    """Whether a figure belongs to the comparison."""
    return catalog.basis(name) in catalog.BY_NAME


def main():
    options = parse_arguments()
    table = entries(options)
    about = machine(options)
    asked = set(options.cases)
    progress = Progress(options.rounds * sum(len(systems) for systems in table.values()))
    results = []
    runs = measure(table, options, progress)
    for case, systems in table.items():
        figures = []
        for system, version, _ in systems:
            if runs[case].get(system):
                figures += reduce_runs(system, version, runs[case][system],
                                       lambda name, case=case: case in asked or belongs(name))
        results += sorted(figures, key=lambda figure: figure["case"] != case)
    progress.end()
    write(results, about)
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}; {PROCESSORS} processors, "
          f"{options.rounds} rounds; load before: {about['load_before']}\n"
          f"{'quick: a tenth of the amounts in the titles' + chr(10) if options.quick else ''}"
          "median, lowest .. highest of the runs, times weft's median, peak resident memory")
    print_table(results)
    print(f"\n{OUT.relative_to(ROOT)}/results.json is written. {charts.draw(results, OUT, options.quick)}")
    weft = {result["case"] for result in results if result["system"] == "weft"}
    sys.exit(0 if set(table) <= weft else 1)


if __name__ == "__main__":
    main()
