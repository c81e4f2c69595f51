"""Scores torchlint against a set of labels on real code, and keeps the result as JSON.

    python benchmarks/devset.py LABELS CORPUS [--keep NAME]

LABELS is a folder with ``labels.jsonl``, ``codes.json`` and ``score.py``, of either of the two
sets; CORPUS the unpacked packages, or the whole repositories, that the labels speak of.
Needs torchlint installed. Prints the scorer's own report; with --keep, writes
``benchmarks/results/NAME.json``: recall, trap rate and unlabelled findings in all
and per category, for all labels and for the categories that the rules of this version cover, with
the rivals' figures beside them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RIVALS = {
    "hotpath-ai 0.1.0": {"recall": 0.325, "trap_rate": 0.066, "unlabelled": 174},
    "torch-preflight 0.5.0": {"recall": 0.049, "trap_rate": 0.023, "unlabelled": 8},
    "TorchFix 0.7.0": {"recall": 0.019, "trap_rate": 0.003, "unlabelled": 2},
    "alloc 0.0.16": {"recall": 0.078, "trap_rate": 0.001, "unlabelled": 37},
    "grep of 15 patterns": {"recall": 0.845, "trap_rate": 0.48, "unlabelled": 866},
}
"""Figures on the first set, as the labels' authors measured them on 2026-11-21."""
NEWER = {"TL114": ["cpu-then-cuda"], "TL510": ["python-optimizer"]}
"""Categories of rules that are newer than the labels' own tables of codes."""


def run_torchlint(corpus: Path) -> list[dict[str, object]]:
    """Return torchlint's JSON findings on the whole corpus, default rules, no configuration."""
    command = [
        "torchlint",
        "check",
        "--isolated",
        "--output-format",
        "json",
        "--exit-zero",
        "--timeout",
        "300",
        str(corpus),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2) or not done.stdout.startswith("["):
        raise SystemExit(f"torchlint failed ({done.returncode}): {done.stderr[-2000:]}")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def score(
    labels: Path, findings: list[dict[str, object]], mapping: dict[str, object], show: list[str]
) -> dict[str, object]:
    """Run the labels' own scorer and return its machine-readable report; `show` are further options
    for it, without which it prints nothing here."""
    named = "--findings" in (labels / "score.py").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "findings.json").write_text(json.dumps(findings), encoding="utf-8")
        (at / "codes.json").write_text(json.dumps(mapping), encoding="utf-8")
        command = [sys.executable, str(labels / "score.py")]
        command += ["--findings"] * named + [str(at / "findings.json")]
        command += ["--mapping", str(at / "codes.json"), "--json", str(at / "report.json"), *show]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        if show:
            print(done.stdout)
        report: dict[str, object] = json.loads((at / "report.json").read_text(encoding="utf-8"))
        return report if named else second(report)


def second(report: dict[str, Any]) -> dict[str, object]:
    """Return the report of the second set's scorer with the keys of the first one's."""
    total = report["total"]
    return {
        "recall": total["hit"] / total["sure"],
        "recall_mapped": total["hit"] / total["sure"],
        "trap_rate": total["no_hit"] / total["no"],
        "unlabelled": len(report["unlabelled"]),
        "categories": report["by_category"],
    }


def main() -> None:
    """Score, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--keep", metavar="NAME", help="write benchmarks/results/NAME.json")
    args = parser.parse_args()

    rules = json.loads(
        subprocess.run(
            ["torchlint", "rules", "--output-format", "json"], capture_output=True, check=True
        ).stdout
    )
    ours = {rule["code"] for rule in rules}
    mapping = {
        code: cats
        for code, cats in {**NEWER, **json.loads((args.labels / "codes.json").read_text())}.items()
        if code in ours
    }
    found = run_torchlint(args.corpus)
    findings = [f for f in found if f["code"] in ours]
    first = "--misses" in (args.labels / "score.py").read_text(encoding="utf-8")
    lists = ["--misses", "--corpus", str(args.corpus), "--max-list", "200"]
    report = score(args.labels, findings, mapping, lists if first else ["--missed", "--traps"])
    gating = score(args.labels, [f for f in findings if f["severity"] != "info"], mapping, [])
    version = subprocess.run(
        ["torchlint", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = {
        "torchlint": version,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "findings_in_corpus": len(findings),
        "not_analysed": sum(f["code"] not in ours for f in found),
        "recall": report["recall"],
        "recall_mapped": report["recall_mapped"],
        "trap_rate": report["trap_rate"],
        "unlabelled": report["unlabelled"],
        "unlabelled_warning_or_error": gating["unlabelled"],
        "categories": report["categories"],
        "rivals": RIVALS if first else {},
    }
    print(
        json.dumps({k: v for k, v in kept.items() if k not in ("categories", "rivals")}, indent=1)
    )
    if args.keep:
        target = Path(__file__).parent / "results" / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
