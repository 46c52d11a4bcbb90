"""picture.py: a chart for each scenario, as SVG, drawn by gnuplot: memory above, latency of honest clients below.

Both over the same seconds; the flood is the part with the grey ground. weft is blue, net/http grey, as in the charts
of bench/compare.
"""

import shutil
import subprocess

COLORS = {"weft": "#2f6fb2", "net-http": "#8a6d3b", "fasthttp": "#7a9a5a", "nginx": "#777777"}
NAMES = {"net-http": "net/http"}
TEXT, GROUND = "#222222", "#f1f3f6"


def block(name, rows):
    return f"${name} << EOD\n" + "\n".join(" ".join(map(str, row)) for row in rows) + "\nEOD\n"


def series(runs, what):
    lines = []
    for number, run in enumerate(runs):
        lines.append(f"${what}{number} using 1:2 with lines lw 2 lc rgb \"{COLORS.get(run['system'], TEXT)}\" "
                     f"title \"{NAMES.get(run['system'], run['system'])}\"")
    return "plot " + ", ".join(lines)


def script(path, title, runs):
    begin = min(run["flood_from"] for run in runs)
    end = max(run["flood_to"] for run in runs)
    last = max(run["memory"][-1][0] for run in runs)
    text = ""
    for number, run in enumerate(runs):
        text += block(f"memory{number}", [(at, kb / 1024) for at, kb in run["memory"]])
        text += block(f"latency{number}",
                      [(row[0], max(row[3], 10) / 1000) for row in run["latency"] if row[3] > 0] or [(0, "NaN")])
    lines = [
        'set terminal svg size 760,520 fixed background rgb "white" font "sans-serif,13"',
        f'set output "{path}"',
        f'set multiplot layout 2,1 title "{title}" font "sans-serif,15" textcolor rgb "{TEXT}"',
        "set border 3 lw 1; set tics nomirror; set lmargin 12; set rmargin 3; set key outside top right horizontal",
        f"set xrange [0:{last}]; set yrange [0:*]; set grid ytics lc rgb \"#dddddd\"",
        f'set object 1 rectangle from {begin}, graph 0 to {end}, graph 1 behind fillcolor rgb "{GROUND}" fillstyle solid 1.0 '
        "noborder",
        'set ylabel "resident memory, MB"; unset xlabel',
        series(runs, "memory"),
        "unset key; set logscale y 10; set yrange [0.05:*]",
        "set ytics (\"0.1\" 0.1, \"1\" 1, \"10\" 10, \"100\" 100, \"1,000\" 1000, \"10,000\" 10000)",
        'set ylabel "honest clients, p99, ms"; set xlabel "seconds; grey ground: the flood"',
        series(runs, "latency"),
        "unset multiplot",
    ]
    return text + "\n".join(lines) + "\n"


def draw(runs, titles, folder, quick):
    """Draws all charts; what was done, in a sentence."""
    gnuplot = shutil.which("gnuplot")
    if gnuplot is None:
        return "Charts are skipped: no gnuplot."
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    drawn = 0
    for name, title in titles.items():
        of_this = [run for run in runs if run["scenario"] == name]
        if not of_this:
            continue
        note = " (a tenth of it)" if quick else ""
        subprocess.run([gnuplot], input=script(folder / f"{name}.svg", title + note, of_this), text=True, check=True,
                       capture_output=True)
        drawn += 1
    return f"{drawn} charts are drawn in build/bench/{folder.name}."
