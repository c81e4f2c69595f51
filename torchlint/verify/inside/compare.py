"""Compares pairs of result files: ``python -m torchlint_inside.compare PAIRS.json OUT.json``."""

from __future__ import annotations

import json
import sys

from .equality import compare_files


def main(arguments: list[str]) -> None:
    """Read a list of ``{"before", "after", "redrawn"}`` and write the list of answers."""
    source, out = arguments
    with open(source, encoding="utf-8") as file:  # noqa: PTH123 - the parent's own file
        pairs = json.load(file)
    answers = [compare_files(pair["before"], pair["after"], redrawn=pair["redrawn"]) for pair in pairs]
    with open(out, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(answers, file, allow_nan=False)


if __name__ == "__main__":
    main(sys.argv[1:])
