"""How often each rule speaks on a corpus, and how often people who read its findings agreed.

    python benchmarks/review.py FINDINGS.json CORPUS [--keep NAME]

FINDINGS.json is the output of ``torchlint check --isolated --output-format json`` on CORPUS. The
verdicts are those of ``benchmarks/devset_review.jsonl``: path, line, code, verdict (right, wrong or
arguable), reason, by whom, and of which sample. A ``reader`` had no part in the rule and read
findings drawn at random, before the last repairs; an ``author`` read what the new rule found.
Prints, for each rule, findings per 100,000 lines and the verdicts; a rule with five verdicts by
readers or more, and under 85 % right, is marked.

``benchmarks/devset2_review.jsonl`` holds readings of code that was in no label set, in the same
form: seven of repositories drawn at random, each of 100 findings, in the first three also 100
silent hot lines and in the fifth 60 (code ``silent``: ``right`` to be so, ``arguable`` or
``missed``), and one of 80 findings in libraries (sample ``libraries-1``), each before the repairs
that followed.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
from pathlib import Path

REVIEWS = Path(__file__).parent / "devset_review.jsonl"


def lines_of(corpus: Path) -> int:
    """Return the number of lines of the Python files below a folder."""
    return sum(path.read_bytes().count(b"\n") for path in corpus.rglob("*.py") if path.is_file())


def main() -> None:
    """Count, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("findings", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--keep", metavar="NAME", help="write benchmarks/results/NAME.json")
    args = parser.parse_args()
    lines = lines_of(args.corpus)
    found = collections.Counter(
        each["code"] for each in json.loads(args.findings.read_text(encoding="utf-8"))
    )
    verdicts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for row in map(json.loads, REVIEWS.read_text(encoding="utf-8").splitlines()):
        verdicts[row["code"], row["by"]][row["verdict"]] += 1
    rows = []
    for code in sorted({*found, *(code for code, _ in verdicts)}):
        row: dict[str, object] = {
            "code": code,
            "per_100k_lines": round(found[code] * 100_000 / lines, 2),
        }
        for by in ("reader", "author"):
            counts = verdicts[code, by]
            row[by] = dict(counts) if counts else None
        reader = verdicts[code, "reader"]
        low = reader.total() >= 5 and reader["right"] < 0.85 * reader.total()
        rows.append({**row, "under_85_percent": low})
        print(
            f"{code:15} {row['per_100k_lines']:>6}  reader {row['reader']}  author "
            f"{row['author']}{'  LOW' * low}"
        )
    if args.keep:
        kept = {
            "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
            "lines": lines,
            "findings": found.total(),
            "rules": rows,
        }
        target = Path(__file__).parent / "results" / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
