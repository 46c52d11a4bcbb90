"""catalog.py: the cases of the comparison, in the order in which they run and are shown.

docs/bench/README.md says what each case measures; this file has the titles for tables and charts. A
figure whose name is not here (parked_tables, for example) serves work on weft itself: it is left
out unless its case is named on the command line.
"""

from typing import NamedTuple


class Case(NamedTuple):
    name: str
    title: str
    quick: bool = True  # part of the quick run
    readme: bool = True  # a row of the README's table
    of: str = ""  # the case whose rounds give this figure too
    tool: str = ""  # a program that the case needs


CASES = [
    Case("yield", "yield, 1,000 fibers on two processors"),
    Case("yield_one", "yield, 1,000 fibers on one processor"),
    Case("spawn", "spawn, run and end"),
    Case("chan_unbuffered", "unbuffered channel, per element"),
    Case("chan_buffered", "channel with a buffer of 128, per element"),
    Case("select", "select over 8 channels, per element"),
    Case("mutex", "mutex, 8 fibers contend"),
    Case("pool_noop", "pool, an empty task, one submitter"),
    Case("pool_noop_many", "pool, an empty task, eight submitters"),
    Case("pool_sleep", "1,000,000 tasks of 10 ms on a pool of 50,000"),
    Case("pool_sleep_100k", "100,000 tasks of 10 ms on a pool of 50,000", quick=False, readme=False),
    Case("pool_sleep_10m", "10,000,000 tasks of 10 ms on a pool of 50,000", quick=False),
    Case("pool_sleep_thread", "1,000,000 tasks of 10 ms on a pool of 50,000 from a plain thread", quick=False, readme=False),
    Case("pool_sleep_queue", "1,000,000 tasks of 10 ms on a pool of 50,000 with a queue", quick=False, readme=False),
    Case("pool_sleep_10m_queue", "10,000,000 tasks of 10 ms on a pool of 50,000 with a queue", quick=False, readme=False),
    Case("no_pool_sleep", "1,000,000 tasks of 10 ms without a pool"),
    Case("no_pool_sleep_100k", "100,000 tasks of 10 ms without a pool", quick=False, readme=False),
    Case("throughput_100k", "only the submits of 100,000 tasks of 10 ms", readme=False),
    Case("throughput_1m", "only the submits of 1,000,000 tasks of 10 ms"),
    Case("throughput_10m", "only the submits of 10,000,000 tasks of 10 ms", quick=False, readme=False),
    Case("parked", "memory per parked fiber, of 1,000,000"),
    Case("timers", "CPU time per timer, 1,000,000 outstanding"),
    Case("timers_100k", "CPU time per timer, 100,000 outstanding", readme=False),
    Case("timers_10k", "CPU time per timer, 10,000 outstanding", readme=False),
    Case("timers_1k", "CPU time per timer, 1,000 outstanding", readme=False),
    Case("skynet", "skynet, a tree of 1,000,000 leaves"),
    Case("fork_join", "fork and join, the 27th Fibonacci number"),
    Case("tick_lateness", "lateness of a tick, 99th percentile, while 64 fibers block"),
    Case("ticker_block", "worst lateness of a 1 ms tick, 5,000 fibers block for 200 ms", readme=False),
    Case("ticker_cpu", "worst lateness of a 1 ms tick, 5,000 fibers compute for 300 us", quick=False, readme=False),
    Case("ticker_cpu_median", "median lateness of a 1 ms tick, 5,000 fibers compute for 300 us",
         quick=False, readme=False, of="ticker_cpu"),
    Case("yield_turns_1k", "most by least turns of 1,000 fibers that yield for a second", quick=False, readme=False),
    Case("yield_turns_100k", "most by least turns of 100,000 fibers that yield for a second", quick=False, readme=False),
    Case("spawn_yield", "most fibers not begun while one spawns and yields", quick=False,
         readme=False),
    Case("block_short", "5,000 fibers that block five times for 100 us", quick=False, readme=False),
    Case("ticks_1", "CPU time of a 1 ms tick, one fiber", quick=False, readme=False),
    Case("ticks_10", "CPU time of a 1 ms tick, ten fibers", quick=False, readme=False),
    Case("ticks_100", "CPU time of a 1 ms tick, a hundred fibers", quick=False, readme=False),
    Case("ticks_1k", "CPU time of a 1 ms tick, a thousand fibers", quick=False, readme=False),
    Case("echo", "TCP echo, 64 bytes, 100 connections"),
    Case("http_hello", "HTTP, a short text, one core, 512 connections", tool="wrk"),
    Case("http_hello_p99", "HTTP, a short text, one core, 512 connections: 99th percentile of the latency",
         of="http_hello"),
    Case("http_hello_few", "HTTP, a short text, one core, 64 connections", quick=False, tool="wrk"),
    Case("http_hello_few_p99", "HTTP, a short text, one core, 64 connections: 99th percentile of the latency",
         quick=False, of="http_hello_few"),
    Case("http_json", "HTTP, 10 KB of JSON there and back, one core", quick=False, tool="wrk"),
    Case("http_json_p99", "HTTP, 10 KB of JSON there and back, one core: 99th percentile of the latency",
         readme=False, of="http_json"),
    Case("http_idle", "HTTP, memory of an idle connection", tool="wrk"),
    Case("http_tls_silent", "HTTPS, memory of a connection before its first byte", tool="openssl"),
    Case("http_tls_idle", "HTTPS, memory of an idle connection", tool="openssl"),
]
BY_NAME = {case.name: case for case in CASES}

# Names of the systems in tables and charts, in this order; others follow with their own names.
SYSTEMS = {
    "weft": "weft",
    "weft-compact": "weft, compact",
    "go": "Go",
    "ants": "ants Pool",
    "ants-func": "ants PoolWithFunc",
    "ants-multi": "ants MultiPool",
    "errgroup": "errgroup",
    "tokio": "tokio",
    "may": "may",
    "rayon": "rayon",
    "onetbb": "oneTBB",
    "boost-fiber": "Boost.Fiber",
    "libuv": "libuv",
    "glib": "GLib pool",
    "state-threads": "State Threads",
    "threads": "thread per task",
    "net-http": "net/http",
    "fasthttp": "fasthttp",
    "nginx": "nginx",
}


def system_order(system):
    names = list(SYSTEMS)
    return names.index(system) if system in names else len(names)


def basis(name):
    """The case that a figure belongs to: pool_sleep_bytes is a figure of pool_sleep."""
    return name.removesuffix("_bytes")


def three_digits(value):
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def human(value, unit):
    """Formats a figure with three digits and a unit prefix."""
    if unit in ("ns/op", "s"):
        seconds = value / 1e9 if unit == "ns/op" else value
        for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if seconds >= factor:
                return f"{three_digits(seconds / factor)} {name}"
        return f"{three_digits(seconds * 1e9)} ns"
    if unit == "bytes":
        if value < 100e3:
            return f"{value:,.0f} B"
        return f"{three_digits(value / 1e6)} MB" if value < 1e9 else f"{three_digits(value / 1e9)} GB"
    return f"{three_digits(value)} {unit}"


def memory(kilobytes):
    return human(kilobytes * 1024, "bytes")


def is_rate(unit):
    """Whether more is better."""
    return unit.endswith("/s")


def ratio(result, weft):
    """The ratio to weft's figure; for rates, how many times slower."""
    if weft is None or not weft["median"] or not result["median"]:
        return None
    quotient = result["median"] / weft["median"]
    return 1 / quotient if is_rate(result["unit"]) else quotient
