#!/usr/bin/env python3
"""flood.py: floods weft's HTTP server and Go's net/http in the same ways, and says how they took it.

    flood.py [--quick] [--system NAME]... [scenario...]

Each scenario of each server is a server of its own: a calm phase, the flood, a phase after it. All the while its
resident memory is read every 100 ms, and honest clients (bench/flood/probe.c) measure what they are made to wait.
Results go to build/bench: flood.json, and a chart for each scenario in flood/ if there is gnuplot. Everything is on
this machine's loopback, and ends by itself.

The server has one half of the CPUs, all clients the other half.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "http"))

import picture  # noqa: E402
import servers  # noqa: E402

OUT = servers.ROOT / "build" / "bench"
SYSTEMS = ["weft", "net-http"]
FILES_SPARE = 500  # descriptors of a server that are not the flood's connections
SAMPLE = 0.1
CALM, AFTER = 3, 3  # seconds
PROBES = 20


class Scenario(NamedTuple):
    name: str
    title: str
    mode: str
    connections: int
    seconds: int  # at most
    hold: int = 0  # idle: seconds after all are there
    requests: int = 0
    path: str = "/hello"
    options: dict = {}


SCENARIOS = [
    Scenario("connections", "100,000 connections that are idle", "idle", 100000, 110, hold=5,
             options={"idle_timeout": 300}),
    Scenario("burst", "1,000,000 requests of 10 ms from 10,000 connections", "burst", 10000, 240,
             requests=1000000, path="/sleep?ms=10"),
    Scenario("slowloris", "slowloris: 10,000 heads that do not end", "slowloris", 10000, 25),
    Scenario("reader", "100 slow readers of 1 GB each", "reader", 100, 15, path="/big"),
    Scenario("header", "100 clients send a head as fast as they can", "header", 100, 10),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of connections and requests")
    parser.add_argument("--system", action="append", choices=[*SYSTEMS, "fasthttp", "nginx"],
                        help="only these (may be repeated)")
    options = parser.parse_args()
    known = [scenario.name for scenario in SCENARIOS]
    for name in options.scenarios:
        if name not in known:
            parser.error(f"there is no scenario {name}: {', '.join(known)}")
    return options


def two_halves():
    cpus = sorted(os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    return set(cpus[:half]), set(cpus[half:] or cpus)


def words(line):
    """name=value ... as a dictionary of numbers; others stay text."""
    pairs = (word.split("=", 1) for word in line.split() if "=" in word)
    return {name: float(value) if value.replace(".", "", 1).isdigit() else value for name, value in pairs}


class Client:
    """A weft-flood that runs; its lines are kept as they come."""

    def __init__(self, mode, port, cpus, nice=0, **numbers):
        command = [servers.FLOOD, mode, "--port", str(port)]
        for name, value in numbers.items():
            command += [f"--{name}", str(value)]
        self.lines = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=servers.in_child(cpus, nice))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    def said(self, word):
        return [line for line in list(self.lines) if line.startswith(word + " ")]

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
    """One scenario of one system."""

    def __init__(self, scenario, system, version, files):
        self.scenario, self.system, self.version = scenario, system, version
        per_server = files - FILES_SPARE
        self.shards = -(-scenario.connections // per_server)
        self.memory, self.start, self.started = [], None, []
        self.calm_memory = 0

    def sample(self, seconds, until=lambda: False):
        """Reads the memory for so long, or until it is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            now = time.monotonic()
            self.memory.append((now, sum(server.memory()[0] for server in self.started)))
            time.sleep(max(0.0, SAMPLE - (time.monotonic() - now)))

    def phase(self, probe, count):
        """Ends a phase of the probe, and waits for what it says of it."""
        probe.mark()
        end = time.monotonic() + 5
        while len(probe.said("phase")) < count and time.monotonic() < end:
            time.sleep(0.01)

    def attack(self, cpus):
        scenario = self.scenario
        share = -(-scenario.connections // self.shards)
        numbers = {"connections": share, "seconds": scenario.seconds, "path": scenario.path}
        if scenario.requests:
            numbers["requests"] = scenario.requests
        clients = [Client(scenario.mode, server.port, cpus, nice=10, **numbers) for server in self.started]
        if scenario.mode == "idle":
            self.sample(scenario.seconds, lambda: all(client.said("ready") or client.over() for client in clients))
            self.held = sum(int(client.said("ready")[0].split()[1]) for client in clients if client.said("ready"))
            self.sample(scenario.hold)
            self.held_memory = self.memory[-1][1]
        else:
            self.sample(scenario.seconds + 10, lambda: all(client.over() for client in clients))
        return clients

    def run(self):
        here, there = two_halves()
        with servers_of(self, here):
            for server in self.started:
                server.warm_up(there)
            probe = Client("probe", self.started[0].port, there, connections=PROBES, seconds=600)
            time.sleep(0.5)  # its first connections
            self.start = time.monotonic()
            self.phase(probe, 1)
            self.sample(CALM)
            self.phase(probe, 2)
            self.calm_memory = self.memory[-1][1]
            begin = time.monotonic()
            clients = self.attack(there)
            end = time.monotonic()
            self.phase(probe, 3)
            for client in clients:
                client.end()
            self.sample(AFTER)
            alive = all(server.alive() for server in self.started)
            probe.end()
        return self.result(probe, clients, begin, end, alive)

    def result(self, probe, clients, begin, end, alive):
        phases = [words(line) for line in probe.said("phase")]
        names = ("calm", "flood", "after")
        windows = [list(map(int, line.split()[1:])) for line in probe.said("window")]
        result = {
            "scenario": self.scenario.name,
            "system": self.system,
            "version": self.version,
            "servers": self.shards,
            "connections": self.scenario.connections,
            "requests": self.scenario.requests,
            "flood_from": round(begin - self.start, 2),
            "flood_to": round(end - self.start, 2),
            "alive": alive,
            "calm_kb": self.calm_memory,
            "peak_kb": max(kb for _, kb in self.memory),
            "end_kb": self.memory[-1][1],
            "phases": dict(zip(names, phases[1:])),
            "attack": self.sum_up(clients),
            "memory": [[round(at - self.start, 2), kb] for at, kb in self.memory],
            # moment, answers, p50, p99, most in microseconds, failed, refused
            "latency": [[round(at / 1000 - self.start, 2), *rest] for at, *rest in windows if at / 1000 >= self.start],
        }
        if self.scenario.mode == "idle":
            result["held"] = self.held
            result["bytes_each"] = round((self.held_memory - self.calm_memory) * 1024 / max(1, self.held))
        return result

    @staticmethod
    def sum_up(clients):
        total = {}
        for client in clients:
            for line in client.said("result"):
                for name, value in words(line).items():
                    if isinstance(value, str):
                        total[name] = value
                    elif name.endswith("_us") or name == "seconds":
                        total[name] = max(total.get(name, 0), value)
                    else:
                        total[name] = total.get(name, 0) + value
        return total


class servers_of:
    """The servers of a run, as a context: as many as are needed to hold its connections."""

    def __init__(self, run, cpus):
        self.run = run
        self.servers = [servers.Server(run.system, cpus, run.scenario.options) for _ in range(run.shards)]

    def __enter__(self):
        for server in self.servers:
            self.run.started.append(server.__enter__())

    def __exit__(self, *_):
        for server in self.run.started:
            server.__exit__()


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


def smaller(scenario):
    return scenario._replace(connections=max(20, scenario.connections // 10), requests=scenario.requests // 10)


def say(result):
    calm, flood = (result["phases"].get(name, {}) for name in ("calm", "flood"))
    attack = result["attack"]
    print(f"  {result['system']:<9} memory {result['calm_kb'] / 1024:7.1f} -> {result['peak_kb'] / 1024:7.1f} MB"
          f"  honest p99 {calm.get('p99_us', 0) / 1000:8.2f} -> {flood.get('p99_us', 0) / 1000:8.2f} ms,"
          f" max {flood.get('max_us', 0) / 1000:8.1f} ms, {flood.get('good', 0):.0f} answered,"
          f" {flood.get('failed', 0):.0f} failed, {flood.get('refused', 0):.0f} refused"
          f"{'' if result['alive'] else '  THE SERVER DIED'}")
    if "held" in result:
        print(f"            held {result['held']:,} on {result['servers']} servers, {result['bytes_each']:,} bytes each")
    told = {name: value for name, value in attack.items()
            if name in ("seconds", "sent", "answered", "cut", "closed_by_server", "opened") or name.startswith("status_")}
    print("            flood: " + " ".join(f"{name}={value:.10g}" for name, value in told.items() if value), flush=True)


def main():
    options = parse_arguments()
    files = servers.raise_files()
    about = machine(options.quick, files)
    versions = servers.versions()
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}; this machine allows {files:,} open files in a "
          f"process; load before: {about['load_before']}")
    systems = options.system or SYSTEMS
    for system in systems:
        if system not in versions:
            print(f"skipped: {system}: it was not built (make flood says why)")
    runs = []
    for scenario in SCENARIOS:
        if options.scenarios and scenario.name not in options.scenarios:
            continue
        if options.quick:
            scenario = smaller(scenario)
        print(f"{scenario.name}: {scenario.title}{', a tenth of it' if options.quick else ''}", flush=True)
        for system in systems:
            if system in versions:
                runs.append(Run(scenario, system, versions[system], files).run())
                say(runs[-1])
    titles = {scenario.name: scenario.title for scenario in SCENARIOS}
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(run, separators=(",", ":")) for run in runs)
    (OUT / "flood.json").write_text(
        f'{{"machine": {json.dumps(about)},\n"titles": {json.dumps(titles)},\n"runs": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"build/bench/flood.json is written. {picture.draw(runs, titles, OUT / 'flood', options.quick)}")
    sys.exit(0 if all(run["alive"] for run in runs) else 1)


if __name__ == "__main__":
    main()
