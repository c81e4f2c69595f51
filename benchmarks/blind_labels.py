"""How many of the lines that experts want flagged in code that nobody tuned for torchlint flags.

    python benchmarks/blind_labels.py LABELS.jsonl CORPUS [--misses]

Experts read files drawn at random from little-known training repositories without seeing what any
linter says of them, and wrote down each line that one should speak of: path, line, category,
verdict (``sure``, or ``arguable`` where the gain is small or depends) and why. CORPUS has the
repositories as ``owner+name`` folders, each of which is checked as a project of its own; labels of
others are left out. A line is
flagged where a finding of any rule begins on the line before it at the earliest and ends on the one
behind it at the latest.
"""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path

from benchmarks.oracle import CHECK, says


def main() -> None:
    """Check, compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--misses", action="store_true", help="print sure lines without a finding")
    args = parser.parse_args()
    labels = [json.loads(row) for row in args.labels.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[int, int]]] = collections.defaultdict(list)
    labels = [each for each in labels if (args.corpus / each["path"].partition("/")[0]).is_dir()]
    for name in sorted({label["path"].partition("/")[0] for label in labels}):
        root = (args.corpus / name).resolve()
        for each in json.loads(says(root, *CHECK, "--output-format", "json", ".")):
            path = Path(name, Path(each["filename"]).relative_to(root))
            rows = each["location"]["row"], each["end_location"]["row"]
            found[path.as_posix()].append(rows)
    counts: collections.Counter[tuple[str, bool]] = collections.Counter()
    for label in labels:
        line = label["line"]
        flagged = any(first - 1 <= line <= last + 1 for first, last in found[label["path"]])
        counts[label["verdict"], flagged] += 1
        if args.misses and not flagged and label["verdict"] == "sure":
            print(f"{label['path']}:{line} [{label['category']}] {label['why']}")
    for verdict in ("sure", "arguable"):
        seen, missed = counts[verdict, True], counts[verdict, False]
        print(f"{verdict}: {seen} of {seen + missed} flagged")


if __name__ == "__main__":
    main()
