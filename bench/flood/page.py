"""page.py: generates the report flood.md from flood.json (both in docs/bench/published); tools/bench-pages.py writes it."""

import json

import attacks

HEAD = """# Floods

What attackers and crowds do to an HTTP server, done to weft's and, in the same way and the same run, to nginx. Made by
`tools/bench-pages.py` from [flood.json](flood.json); repeat it with `make flood` (under ten minutes; `make flood
FLOOD_FLAGS=--quick` takes about one, and is a first look; an attack's name runs that one alone). What each class of attacks is
called, and which tests are for it, is in [security.md](../../security.md).

{about}

- Each attack has a server of its own on {server_cpus}; the attacker (`weft-flood`, at low priority) and the honest clients
  are on the other half. The server has answered 5,000 requests of 256 clients before; it is calm for 0.7 s, then attacked
  for 3 s or 4.
- **Honest clients**: 20 of them, each with a GET of a short text every 20 ms, half on a connection that is kept, half on
  a new one each time, over plain HTTP. Their latency counts from the moment at which the request was due; one that is not
  answered when the attack ends counts with its age. **To nginx's** is the ratio of the two p99; in bold where honest
  clients of weft wait more than twice as long.
- **Attacker**: connections that it has opened, what it sends a second, and the CPU that it takes. It sends as fast as the
  server and its half of the machine allow: a server that answers faster is asked more.
- **Server**: CPU, of one core, and resident memory before and at its peak, every 50 ms. What the kernel holds for the sockets
  is not in it.
- Both: 10 s for a head, 16 KiB of it, 30 s without a byte of a body or of an answer, 8 MiB of a body. weft has its
  defaults besides: 1,000 requests at a time, and as many that wait for that; what is beyond gets 503 with Retry-After
  (**refused**). nginx: one worker; /upload passes a body on to nginx itself, since nothing else in it reads one.
"""


def megabytes(kilobytes):
    return f"{kilobytes / 1024:,.1f}"


def milliseconds(microseconds):
    value = microseconds / 1000
    return f"{value:,.2f} ms" if value < 10 else f"{value:,.0f} ms"


def percent(share):
    return f"{100 * share:.0f} %"


def table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def about(machine, versions):
    text = (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
            f"{machine['date']}; weft {versions['weft']}, nginx {versions['nginx']}. The machine allowed {machine['files']:,} "
            f"open files in a process and a listen queue of {machine['somaxconn']:,}.")
    if machine["quick"]:
        text += " **A quick run**: a fifth of the connections that the titles name, a twentieth of the time."
    if machine["load_before"] > machine["cores"] / 2:
        text += (f" The machine was busy with other things (load {machine['load_before']:.0f} before the last run), which may "
                 "show in latencies.")
    return text


def sent(attacker):
    rate = attacker["bytes_sent"] / attacker["seconds"]
    return f"{rate / 1e6:,.1f} MB/s" if rate >= 1e5 else f"{rate / 1e3:,.1f} KB/s"


def statuses(attacker):
    found = sorted((name.removeprefix("status_"), value) for name, value in attacker.items() if name.startswith("status_"))
    return ", ".join(f"{value:,.0f} × {status}" for status, value in found)


def ratio(run, nginx):
    if run["system"] != "weft" or nginx is None:
        return ""
    value = run["honest"]["p99_us"] / max(1, nginx["honest"]["p99_us"])
    text = f"{value:.2f}" if value < 10 else f"{value:,.0f}"
    return f"**{text}**" if value > 2 else text


def row(attack, run, nginx):
    attacker, honest = run["attacker"], run["honest"]
    first = run["system"] == "weft"
    died = "" if run["alive"] else " **died**"
    return [
        f"**{attack.title}**: {attack.what}" if first else "", run["system"] + died,
        f"{attacker['opened']:,.0f}, {sent(attacker)}, {percent(attacker['cpu'] / attacker['seconds'])}",
        percent(run["server_cpu"]), f"{megabytes(run['before_kb'])} → {megabytes(run['peak_kb'])} MB",
        milliseconds(honest["p50_us"]), milliseconds(honest["p99_us"]), milliseconds(honest["max_us"]), ratio(run, nginx),
        f"{honest['good']:,.0f}", f"{honest['refused'] + honest['failed']:,.0f}", statuses(attacker)
    ]


def page(folder):
    data = json.loads((folder / "flood.json").read_text(encoding="utf-8"))
    machine = data["machine"]
    half = max(1, machine["cores"] // 2)
    rows = [["attack", "server", "attacker: opened, sent, CPU", "server CPU", "memory", "honest p50", "p99", "longest",
             "to nginx's", "answered", "refused", "attacker's answers"]]
    for attack in attacks.ATTACKS:
        runs = {run["system"]: run for run in data["runs"] if run["attack"] == attack.name}
        rows += [row(attack, runs[system], runs.get("nginx")) for system in ("weft", "nginx") if system in runs]
    text = [HEAD.format(about=about(machine, data["versions"]), server_cpus="one core" if half == 1 else f"{half} cores"),
            table(rows), ""]
    return "\n".join(text)
