#!/usr/bin/env python3
"""flood.py: attacks weft's HTTP server and nginx in the same ways, and reports the results.

    flood.py [--quick] [--system NAME]... [attack...]

Each attack runs against a new server process: a calm phase, the attack (attacks.py), a phase after
it. Resident memory is read every 50 ms, and honest clients (bench/flood/probe.c) measure their
latency all the time. Results go to build/bench/flood.json; results of other attacks from a run of
the same size stay. All traffic is on the loopback interface, and everything ends by itself.

The server has one half of the CPUs, all clients the other half.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "http"))

import attacks  # noqa: E402
import servers  # noqa: E402

RESULTS = servers.ROOT / "build" / "bench" / "flood.json"
FILES_SPARE = 500  # descriptors of a server besides the attacker's connections
SAMPLE = 0.05
CALM, AFTER = 0.7, 0.3  # seconds
PROBES = 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("attacks", nargs="*", metavar="attack", help="default: all")
    parser.add_argument("--quick", action="store_true", help="a fifth of the connections, a twentieth of the time")
    parser.add_argument("--system", action="append", choices=["weft", "nginx", "net-http", "fasthttp"],
                        help="only these (may be repeated)")
    options = parser.parse_args()
    known = [attack.name for attack in attacks.ATTACKS]
    for name in options.attacks:
        if name not in known:
            parser.error(f"there is no attack {name}: {', '.join(known)}")
    return options


def two_halves():
    cpus = sorted(os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    return set(cpus[:half]), set(cpus[half:] or cpus)


def words(line):
    """Parses words name=value into a dictionary of numbers, or text."""
    pairs = (word.split("=", 1) for word in line.split() if "=" in word)
    return {name: float(value) if value.replace(".", "", 1).isdigit() else value for name, value in pairs}


class Client:
    """A running weft-flood; its output lines are collected."""

    def __init__(self, mode, port, cpus, flags=(), nice=0, ahead=False, **numbers):
        command = [servers.FLOOD, mode, "--port", str(port), *(f"--{flag}" for flag in flags)]
        for name, value in numbers.items():
            command += [f"--{name}", str(value)]
        self.lines = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=servers.in_child(cpus, nice, ahead=ahead))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    def said(self, word):
        return [words(line) for line in list(self.lines) if line.startswith(word + " ")]

    def mark(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def over(self):
        return self.process.poll() is not None

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (subprocess.TimeoutExpired, OSError):
            self.process.kill()
            self.process.wait()
        self.reader.join(10)


class Run:
    """One attack on one system."""

    def __init__(self, attack, system, folder, scale):
        self.attack, self.system, self.folder, self.scale = attack, system, folder, scale
        self.options = {"served": folder / "served", **attack.options}
        if attack.tls:
            self.options["tls"] = servers.make_certificate(folder)
        self.memory = []

    def sample(self, server, seconds, until=lambda: False):
        """Samples the memory for a time, or until the process ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            now = time.monotonic()
            with contextlib.suppress(OSError):  # the process has died
                self.memory.append(server.memory()[0])
            time.sleep(max(0.0, SAMPLE - (time.monotonic() - now)))

    @staticmethod
    def phase(probe, count):
        """Ends a phase of the probe, and waits for its summary."""
        probe.mark()
        end = time.monotonic() + 5
        while len(probe.said("phase")) < count and time.monotonic() < end:
            time.sleep(0.005)

    def attacker(self, server, cpus):
        attack, numbers = self.attack, dict(self.attack.numbers)
        for name in ("first", "piece"):
            if getattr(attack, name) is not None:
                numbers[name] = self.folder / f"{attack.name}.{name}"
                numbers[name].write_bytes(getattr(attack, name))
        numbers.update(connections=max(10, round(attack.connections * self.scale["connections"])), path=attack.path,
                       seconds=max(1, round(attack.seconds * self.scale["seconds"])))
        port = server.tls_port if attack.tls else server.proxy_port if attack.proxy else server.port
        return Client(attack.mode, port, cpus, attack.flags, nice=10, **numbers)

    def run(self):
        here, there = two_halves()
        with servers.Server(self.system, here, self.options) as server:
            server.warm_up(there)
            # Lower priority: honest clients stand for other machines and must get a CPU.
            probe = Client("probe", server.port, there, ahead=True, connections=PROBES, seconds=600)
            time.sleep(0.1)  # for its first connections
            self.phase(probe, 1)
            self.sample(server, CALM * self.scale["calm"])
            self.phase(probe, 2)
            before, begin, cpu = self.memory[-1], time.monotonic(), server.cpu_seconds()
            client = self.attacker(server, there)
            self.sample(server, self.attack.seconds * self.scale["seconds"], client.over)
            cpu, seconds = server.cpu_seconds() - cpu, time.monotonic() - begin
            self.phase(probe, 3)
            client.end()
            peak = max(self.memory)
            self.sample(server, AFTER * self.scale["calm"])
            alive = server.alive()
            probe.end()
        phases = probe.said("phase")
        told = client.said("result")
        if len(phases) < 3 or not told:
            raise RuntimeError(f"{self.attack.name} of {self.system}: weft-flood said nothing")
        return {
            "attack": self.attack.name,
            "system": self.system,
            "alive": alive,
            "seconds": round(seconds, 2),
            "server_cpu": round(cpu / seconds, 3),
            "before_kb": before,
            "peak_kb": peak,
            "after_kb": self.memory[-1],
            "calm": short(phases[1]),
            "honest": short(phases[2]),
            "attacker": {name: value for name, value in told[0].items()
                         if name in ("seconds", "opened", "failed_to_open", "closed_by_server", "bytes_sent", "cpu", "answered")
                         or name.startswith("status_")},
        }


def short(phase):
    return {name: phase[name] for name in ("good", "failed", "refused", "p50_us", "p99_us", "max_us")}


def machine(quick, files):
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    model = next((line.split(":", 1)[1].strip()
                  for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                  if line.startswith("model name")), "unknown CPU")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(pages * page / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d"),
        "quick": quick,
        "files": files,
        "somaxconn": int(Path("/proc/sys/net/core/somaxconn").read_text(encoding="utf-8")),
        "load_before": round(os.getloadavg()[0], 2),
    }


def say(result):
    calm, honest, attacker = result["calm"], result["honest"], result["attacker"]
    statuses = " ".join(f"{name.removeprefix('status_')}×{value:.0f}" for name, value in attacker.items()
                        if name.startswith("status_"))
    print(f"  {result['attack']:17} {result['system']:8} {result['before_kb'] / 1024:6.1f} -> {result['peak_kb'] / 1024:6.1f} MB"
          f"  cpu {100 * result['server_cpu']:3.0f} % by {100 * attacker['cpu'] / attacker['seconds']:3.0f} %"
          f"  p99 {calm['p99_us'] / 1000:5.2f} -> {honest['p99_us'] / 1000:7.2f} max {honest['max_us'] / 1000:7.1f} ms"
          f"  {honest['good']:5.0f} good {honest['failed']:3.0f} failed {honest['refused']:3.0f} refused"
          f"  {attacker['opened']:.0f} opened {attacker['bytes_sent'] / 1e6 / attacker['seconds']:.1f} MB/s {statuses}"
          f"{'' if result['alive'] else '  THE SERVER DIED'}", flush=True)


def make_files(folder):
    served = folder / "served"
    served.mkdir()
    (served / "small").write_bytes(b"hello, world\n")
    for name, size in (("large", attacks.LARGE_SIZE), ("big", attacks.BIG_SIZE)):
        with open(served / name, "wb") as file:
            file.truncate(size)


def earlier(about):
    """Results of an earlier run of the same machine and size, by attack and system."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        data = json.loads(RESULTS.read_text(encoding="utf-8"))
        if all(data["machine"][name] == about[name] for name in ("cpu", "cores", "system", "date", "quick")):
            return {(run["attack"], run["system"]): run for run in data["runs"]}
    return {}


def write(about, versions, runs):
    order = [attack.name for attack in attacks.ATTACKS]
    ordered = sorted(runs.values(), key=lambda run: (order.index(run["attack"]), run["system"] != "weft", run["system"]))
    lines = ",\n".join("  " + json.dumps(run, separators=(",", ":")).replace(".0,", ",").replace(".0}", "}") for run in ordered)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(f'{{"machine": {json.dumps(about)},\n"versions": {json.dumps(versions)},\n"runs": [\n{lines}\n]}}\n',
                       encoding="utf-8")


def main():
    options = parse_arguments()
    files = servers.raise_files()
    about = machine(options.quick, files)
    versions = servers.versions()
    scale = {"connections": 1, "seconds": 1, "calm": 1}
    if options.quick:
        scale = {"connections": 0.2, "seconds": 0.05, "calm": 0.1}
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}; this machine allows {files:,} open files in a "
          f"process; load before: {about['load_before']}")
    runs = earlier(about) if options.attacks else {}
    alive = True
    with tempfile.TemporaryDirectory(prefix="weft-flood-") as name:
        folder = Path(name)
        make_files(folder)
        for attack in attacks.ATTACKS:
            if options.attacks and attack.name not in options.attacks:
                continue
            for system in options.system or attack.systems:
                if system not in versions:
                    print(f"  {attack.name:17} skipped: {system} is not there (nginx: tools/setup.sh bench)")
                    continue
                run = Run(attack, system, folder, scale)
                if attack.tls and not run.options["tls"]:
                    print(f"  {attack.name:17} skipped: no openssl to make a certificate")
                    continue
                result = run.run()
                say(result)
                alive = alive and result["alive"]
                runs[(attack.name, system)] = result
                write(about, versions, runs)
    print("build/bench/flood.json is written.")
    sys.exit(0 if alive else 1)


if __name__ == "__main__":
    main()
