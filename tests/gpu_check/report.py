#!/usr/bin/env python3
"""Makes report.json and report.txt of what tests/gpu_check/run left in a folder; fails when a check failed."""
import datetime
import json
import pathlib
import sys


def main():
    out, gpu, commit = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    checks = []
    for line in (out / "rows").read_text().splitlines():
        name, state, seconds, last = line.split("\t", 3)
        checks.append({"name": name, "state": state, "seconds": int(seconds), "last_line": last})
    report = {
        "gpu": gpu,
        "commit": commit,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "checks": checks,
        "speed": {file.stem.removeprefix("bench-"): json.loads(file.read_text()) for file in sorted(out.glob("bench-*.json"))},
    }
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    lines = [f"{gpu}; commit {commit}; {report['date']}", ""]
    lines += [f"{c['name']:20} {c['state']:12} {c['seconds']:4} s  {c['last_line']}" for c in checks]
    for shape in report["speed"]:
        lines += ["", shape, (out / f"speed-{shape}.log").read_text()]
    (out / "report.txt").write_text("\n".join(lines) + "\n")
    print((out / "report.txt").read_text())
    return any(c["state"] not in ("passed", "skipped") for c in checks)


if __name__ == "__main__":
    sys.exit(main())
