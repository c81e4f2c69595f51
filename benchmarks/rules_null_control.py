"""Times every rule's Bad against copies of itself, as `verify rules` would, and counts the verdicts
that are false.

    python benchmarks/rules_null_control.py [--copies 3] [--seed 0] [CODE …]

Each copy is judged like a fix: "faster" and "slower" are false. Prints a line of JSON a rule as it
comes, and one of all: the number of verdicts by kind.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torchlint.program.machine.workspace import Workspace
from torchlint.verify.options import PAIRED_LAUNCHES, Options
from torchlint.verify.paired.rule_check import VIRTUAL, ExampleRunner
from torchlint.verify.paired.rule_mode import BLOCK_MS, LONG_MS, PRELOAD, TIMEOUT, wanted
from torchlint.verify.paired.rule_page import Page, page
from torchlint.verify.paired.sessions import Session, Version, session
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.variants import NULL, ORIGINAL


def told(live: Session, each: Page, copies: int) -> list[dict[str, object]]:
    """Return what is said of each copy of a rule's Bad; nothing of a rule that is not timed."""
    runner = ExampleRunner(live, each)
    if each.untimed or not each.pairs or runner.absent():
        return []
    try:
        runner.equality([""])
    except ProgramError:
        return []
    if runner.instead == VIRTUAL:
        return []
    bad = Version(runner.program(each.pairs[0][0]))
    names = [f"copy {number}" for number in range(1, copies + 1)]
    times = live.measure(dict.fromkeys([ORIGINAL, NULL, *names], bad), BLOCK_MS, LONG_MS)
    speeds = [live.speed(times, name, times.null_control()) for name in names]
    return [
        {
            "verdict": speed.verdict.value,
            "ratio": round(speed.ratio.estimate, 4) if speed.ratio else None,
            "why": speed.why,
        }
        for speed in speeds
    ]


def main() -> int:
    """Measure, and print as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--copies", type=int, default=3, help="of each rule's Bad")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("codes", nargs="*", metavar="CODE")
    given = parser.parse_args()
    options = Options(device="cpu", launches=PAIRED_LAUNCHES, seed=given.seed, timeout=TIMEOUT)
    found: collections.Counter[str] = collections.Counter()
    with Workspace(keep=False) as workspace, session(options, workspace, preload=PRELOAD) as live:
        for each in map(page, wanted(given.codes)):
            said = told(live, each, given.copies)
            found.update(str(one["verdict"]) for one in said)
            print(json.dumps({each.info.code: said}), flush=True)
    print(json.dumps({"verdicts": found, "n": found.total()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
