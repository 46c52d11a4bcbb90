"""charts.py: a chart for each case, as SVG, drawn by gnuplot.

Bars start at zero on a linear axis, with the figure next to each. weft is blue, the others are
grey; the thin line is the spread from the lowest to the highest round.
"""

import shutil
import subprocess

import catalog

WEFT, PEER, SPREAD, TEXT = "#2f6fb2", "#b4bcc6", "#444444", "#222222"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("_", "\\\\_") + '"'


def script(path, title, note, rows):
    """rows: (label, value, low, high, text, is_weft), the best first."""
    most = max(high for _, _, _, high, _, _ in rows) or 1
    count = len(rows)
    lines = [
        f'set terminal svg size 760,{70 + 30 * count} fixed background rgb "white" font "sans-serif,13"',
        f'set output "{path}"',
        f'set title {quoted(title)} textcolor rgb "{TEXT}" font "sans-serif,15"',
        f'set xlabel {quoted(note)} textcolor rgb "{SPREAD}" font "sans-serif,11" offset 0,0.6',
        "unset key; set border 2 lw 1; set tics nomirror scale 0; unset xtics",
        "set lmargin 20; set rmargin 3; set style fill solid 1.0 noborder",
        f"set xrange [0:{most * 1.18}]; set yrange [-0.6:{count - 0.4}]",
        "set ytics (" + ", ".join(f"{quoted(row[0])} {count - 1 - place}" for place, row in enumerate(rows)) +
        f') textcolor rgb "{TEXT}"',
    ]
    for place, (_, value, low, high, text, is_weft) in enumerate(rows):
        y = count - 1 - place
        lines.append(f"set object {place + 1} rectangle from 0,{y - 0.34} to {value},{y + 0.34} "
                     f'fillcolor rgb "{WEFT if is_weft else PEER}" fillstyle solid 1.0 noborder')
        lines.append(f'set arrow {place + 1} from {low},{y} to {high},{y} nohead front lc rgb "{SPREAD}" lw 1')
        lines.append(f"set label {place + 1} {quoted(text)} at {max(value, high)},{y} left offset 0.7,0 front "
                     f'textcolor rgb "{WEFT if is_weft else TEXT}"')
    lines.append("plot NaN notitle")
    return "\n".join(lines) + "\n"


def plot(gnuplot, path, title, note, rows, most_first=False):
    rows = sorted(rows, key=lambda row: row[1], reverse=most_first)
    subprocess.run([gnuplot], input=script(path, title, note, rows), text=True, check=True, capture_output=True)


def draw(results, folder, quick):
    """Draws all charts; returns a sentence about the result."""
    gnuplot = shutil.which("gnuplot")
    if gnuplot is None:
        return "Charts are skipped: no gnuplot."
    for old in folder.glob("*.svg"):
        old.unlink()
    drawn = 0
    note = "; a quick run: a tenth of the amount" if quick else ""
    for case in catalog.CASES:
        rows = [result for result in results if result["case"] == case.name]
        if not rows:
            continue
        bars = [(catalog.SYSTEMS.get(row["system"], row["system"]), row["median"], row["low"], row["high"],
                 catalog.human(row["median"], row["unit"]), row["system"] == "weft") for row in rows]
        rate = catalog.is_rate(rows[0]["unit"])
        plot(gnuplot, folder / f"{case.name}.svg", case.title,
             f"median of the rounds; {'more' if rate else 'less'} is better{note}", bars, most_first=rate)
        drawn += 1
        if case.name in ("pool_sleep", "pool_sleep_10m", "no_pool_sleep"):
            bars = [(catalog.SYSTEMS.get(row["system"], row["system"]), row["peak_rss_kb"], row["peak_rss_kb"],
                     row["peak_rss_kb"], catalog.memory(row["peak_rss_kb"]), row["system"] == "weft") for row in rows]
            plot(gnuplot, folder / f"{case.name}_memory.svg", f"{case.title}: memory",
                 f"peak of resident memory; less is better{note}", bars)
            drawn += 1
    return f"{drawn} charts are drawn in {folder.parent.name}/{folder.name}."
