"""What compare found: rows of ratios, a table for the terminal, tables for docs/SPEED.md, a plot."""
import collections
import os
import pathlib
import statistics
import subprocess
import time
from xml.sax.saxutils import escape

Metric = collections.namedtuple("Metric", "title unit higher")
METRICS = {
    "prefill": Metric("prefill", "tokens/s", True),
    "decode": Metric("decode", "tokens/s", True),
    "total": Metric("prompt and answer together", "tokens/s", True),
    "requests": Metric("requests", "1/s", True),
    "gap": Metric("largest gap between tokens", "s", False),
    "first": Metric("median first token", "s", False),
    "rss": Metric("resident memory", "MiB", False),
    "start": Metric("start", "s", False),
}


def about(o):
    """The run's conditions."""
    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    version = subprocess.run([o.peer, "--version"], capture_output=True, text=True)
    commit = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "log", "-1", "--format=%h"], capture_output=True, text=True)
    lines = [line for line in (version.stdout + version.stderr).splitlines() if line.startswith("version")]
    return {"date": time.strftime("%Y-%m-%d"), "cpu": cpu[0] if cpu else "", "cores": len(os.sched_getaffinity(0)),
            "load_at_start": os.getloadavg()[0], "model": pathlib.Path(o.model).name, "threads": o.threads, "rounds": o.rounds,
            "roco": commit.stdout.strip(), "peer": lines[0] if lines else "", "results": []}


def rows(s, raw):
    """One row for each metric and variant of a scenario. Ratios are by round, above 1 where roco (or the variant) is ahead."""
    others = {k: v for k, v in raw.items() if isinstance(k, tuple)}
    if s.versus:
        others = {("own " + s.versus, ""): raw[s.versus]}
    for metric in s.metrics:
        for variant in s.variants:
            if variant == s.versus:
                continue
            m, own = METRICS[metric], [r[metric] for r in raw[variant]]
            row = {"point": f"{m.title}, {s.name}" + ("" if variant == "full" else f", {variant}"), "unit": m.unit,
                   "higher_is_better": m.higher, "roco": statistics.median(own), "roco_rounds": own, "against": {}}
            for (label, setting), rounds in others.items():
                values = [r[metric] for r in rounds]
                ratios = sorted(a / b if m.higher else b / a for a, b in zip(own, values))
                row["against"][label] = {"value": statistics.median(values), "rounds": values, "flash_attention": setting,
                                         "ratio": statistics.median(ratios), "ratios": ratios}
            yield row


def print_head(run, files):
    print(f"{run['date']}, {run['cores']} cores of {run['cpu']}, load {run['load_at_start']:.1f}; {run['model']}, {run['threads']} "
          f"threads, {run['rounds']} rounds; peer {run['peer']}\n", flush=True)
    print(f"{'':62} {'roco':>9}  " + "  ".join(f"{'peer, ' + label:>32}" for label in files))


def print_row(row):
    cells = [f"{row['point'] + ', ' + row['unit']:62} {row['roco']:9.2f}"]
    for label, r in row["against"].items():
        cells.append(f"{r['value']:9.2f} {r['ratio']:7.2f}x ({r['ratios'][0]:.2f}..{r['ratios'][-1]:.2f})"
                     + (f" {label}" if label.startswith("own") else ""))
    print("  ".join(cells), flush=True)


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def cells_of(against):
    if not against:
        return [""] * 3
    low, high = against["ratios"][0], against["ratios"][-1]
    return [number(against["value"]), f"**{against['ratio']:.1f} x**", f"{low:.1f} to {high:.1f}"]


def print_tables(run):
    """Markdown: the run's conditions, then a table for each group."""
    print(f"{run['date']}, {run['cores']} cores of {run['cpu']}, {run['model']}, {run['threads']} threads, up to {run['rounds']} rounds; "
          f"roco {run['roco']}, llama.cpp {run['peer']}.")
    for group in dict.fromkeys(r["group"] for r in run["results"]):
        results = [r for r in run["results"] if r["group"] == group]
        labels = list(dict.fromkeys(label for r in results for label in r["against"]))
        print(f"\n| {group} | unit | roco |" + "".join(f" {'' if x.startswith('own') else 'peer, '}{x} | ratio | spread |" for x in labels))
        print("|---|---|---|" + "---|---|---|" * len(labels))
        for r in results:
            cells = [r["point"], r["unit"], number(r["roco"])]
            for label in labels:
                cells += cells_of(r["against"].get(label))
            print("| " + " | ".join(cells) + " |")


COLOURS = ("#2a6f97", "#89c2d9", "#a68a64")


def plot(run, path):
    """Bars of ratios with their spread, as plain SVG."""
    results = run["results"]
    labels = list(dict.fromkeys(label for r in results for label in r["against"]))
    left, width, row_height = 430, 420, 8 + 10 * len(labels)
    widest = max([a["ratios"][-1] for r in results for a in r["against"].values()] or [1])
    height = 60 + row_height * len(results)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="960" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20">roco over llama.cpp, times faster or smaller; {escape(run["date"] + ", " + run["cpu"])}</text>']
    for k, label in enumerate(labels):
        out.append(f'<rect x="{10 + 150 * k}" y="30" width="10" height="10" fill="{COLOURS[k % 3]}"/>'
                   f'<text x="{25 + 150 * k}" y="39">{escape(label)}</text>')
    scale = width / widest
    for i, r in enumerate(results):
        y = 52 + row_height * i
        out.append(f'<text x="10" y="{y + 10}">{escape(r["point"])}</text>')
        for k, label in enumerate(labels):
            a = r["against"].get(label)
            if not a:
                continue
            top, end = y + 10 * k, left + a["ratio"] * scale
            out.append(f'<rect x="{left}" y="{top}" width="{a["ratio"] * scale:.1f}" height="8" fill="{COLOURS[k % 3]}"/>'
                       f'<line x1="{left + a["ratios"][0] * scale:.1f}" x2="{left + a["ratios"][-1] * scale:.1f}" y1="{top + 4}" '
                       f'y2="{top + 4}" stroke="black"/>'
                       f'<text x="{max(end, left + a["ratios"][-1] * scale) + 5:.1f}" y="{top + 8}" font-size="9">{a["ratio"]:.1f}x</text>')
    out.append(f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="46" y2="{height - 6}" stroke="#888" stroke-dasharray="3"/>')
    path.write_text("\n".join([*out, "</svg>\n"]))
