"""page.py: the report docs/bench/flood.md, made from docs/bench/flood.json (tools/bench-pages.py writes it)."""

import json

NAMES = {"net-http": "net/http"}

HEAD = """# Floods

What attackers and crowds do to an HTTP server, done to weft's and, in the same way, to Go's net/http. Made by
`tools/bench-pages.py` from [flood.json](flood.json); repeat it with `make flood` (about ten minutes; `make flood
FLOOD_FLAGS=--quick` does a tenth of it).

{about}

- Each scenario has a server of its own on {server_cpus}; the flood (`weft-flood`, at low priority) and the honest clients
  are on the other half. The server has answered 5,000 requests of 256 clients before; it is calm for 3 s, flooded, and calm
  again.
- **Honest clients**: 20 of them, each with a GET of a short text every 20 ms, half on a connection that is kept, half on
  a new one each time. Their latency counts from the moment at which the request was due. One without an answer in 5 s
  has failed.
- **Memory** is the resident memory of the server's process (`VmRSS`), every 100 ms. What the kernel holds for the
  sockets is not in it, and the same for both.
- Limits, for both: 10 s for a head, 16 KiB of it. weft has its defaults besides: 1,000 requests at a time, 1,000 that
  wait for that; what is beyond gets 503 with Retry-After at once. net/http has no such limit.
"""

NOTES = {
    "connections": "Every connection has one request answered, and is then kept. Memory each: the growth of the server, by "
                   "connection.",
    "burst": "Every request takes the handler 10 ms (it sleeps); each connection has one request at a time. A request is "
             "answered by 200, or refused by 503; one that got neither is cut.",
    "slowloris": "Every connection sends a field of its head a second, and never the end of the head. When the server closes "
                 "it, the next one is opened.",
    "reader": "Every client asks for 1 GB, with a receive buffer of 4 KiB, and reads 40 KB a second. A handler that "
              "writes to such a client has a worker meanwhile: as many of them as `max_workers` would leave none to the others, "
              "who would get 503; `max_per_ip` bounds what one address can do.",
    "header": "Every client sends fields without an end as fast as the server takes them, and comes back when it is thrown "
              "out.",
}


def megabytes(kilobytes):
    return f"{kilobytes / 1024:,.1f} MB"


def milliseconds(microseconds):
    value = microseconds / 1000
    return f"{value:,.2f} ms" if value < 10 else f"{value:,.0f} ms"


def table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def about(machine):
    text = (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
            f"{machine['date']}. The machine allowed {machine['files']:,} open files in a process (RLIMIT_NOFILE, raised as "
            f"far as it goes) and a listen queue of {machine['somaxconn']:,}.")
    if machine["quick"]:
        text += " **A quick run**: a tenth of the connections and requests that the titles name."
    if machine["load_before"] > machine["cores"] / 2:
        text += (f" The machine was busy with other things (load {machine['load_before']:.0f} before the run), which shows "
                 "in all latencies.")
    return text


def memory_rows(runs):
    rows = [["server", "memory before", "peak", "after", "honest p99 before", "during", "longest", "answered", "failed",
             "refused"]]
    for run in runs:
        calm, flood = run["phases"]["calm"], run["phases"]["flood"]
        rows.append([
            NAMES.get(run["system"], run["system"]), megabytes(run["calm_kb"]), megabytes(run["peak_kb"]),
            megabytes(run["end_kb"]), milliseconds(calm["p99_us"]), milliseconds(flood["p99_us"]),
            milliseconds(flood["max_us"]), f"{flood['good']:,.0f}", f"{flood['failed']:,.0f}", f"{flood['refused']:,.0f}"
        ])
    return rows


def sentence(run):
    """What became of the flood itself."""
    attack, name = run["attack"], NAMES.get(run["system"], run["system"])
    parts = []
    if "held" in run:
        parts.append(f"{run['held']:,} connections held, {run['bytes_each']:,} bytes each")
        if run["servers"] > 1:
            parts.append(f"by {run['servers']} processes, since one may not have so many descriptors (memory is their sum)")
    elif run["requests"]:
        parts.append(f"{attack['sent']:,.0f} requests in {attack['seconds']:.1f} s: {attack.get('status_200', 0):,.0f} "
                     f"answered, {attack.get('status_503', 0):,.0f} refused, {attack['cut']:,.0f} cut; the longest took "
                     f"{milliseconds(attack['max_us'])}")
    else:
        parts.append(f"{attack['opened']:,.0f} connections, {attack['closed_by_server']:,.0f} of them closed by the server")
        statuses = [f"{value:,.0f} × {key.removeprefix('status_')}" for key, value in sorted(attack.items())
                    if key.startswith("status_")]
        if statuses:
            parts.append("answers: " + ", ".join(statuses))
        parts.append(f"{attack['bytes_sent'] / 1e6:,.1f} MB sent, {attack['bytes_received'] / 1e6:,.1f} MB received")
    if not run["alive"]:
        parts.append("**the server died**")
    return f"- {name} {run['version']}: {'; '.join(parts)}."


def page(folder):
    data = json.loads((folder / "flood.json").read_text(encoding="utf-8"))
    machine = data["machine"]
    half = max(1, machine["cores"] // 2)
    text = [HEAD.format(about=about(machine), server_cpus="one core" if half == 1 else f"{half} cores")]
    for name, title in data["titles"].items():
        runs = [run for run in data["runs"] if run["scenario"] == name]
        if not runs:
            continue
        text.append(f"## {title[0].upper() + title[1:]}\n\n{NOTES[name]}\n\n{table(memory_rows(runs))}\n")
        text.append("\n".join(sentence(run) for run in runs) + "\n")
        if (folder / "flood" / f"{name}.svg").exists():
            text.append(f"![{title}](flood/{name}.svg)\n")
    return "\n".join(text)
