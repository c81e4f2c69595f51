"""The virtual-CUDA ledger against a real GPU, construct by construct and line by line.

    python benchmarks/ledger_vs_cuda.py [--out FOLDER] [--only NAME ...]

Runs the programs of ``tests/verify/ledger_cases.py`` and its training script twice, each time in a
process of its own: under the ledger, and on the GPU under
``torch.cuda.set_sync_debug_mode("warn")`` with the profiler's memory copies. Compares the syncs of
every line, and the bytes and staged copies of the whole program. Writes
``ledger-vs-cuda-<gpu>-<date>.json`` with the GPU's name and the versions. Without a GPU it ends
with one line, exit 4.

What the debug mode does not see is not compared: waits that the program asks for
(``torch.cuda.synchronize``), and copies into pageable memory with ``non_blocking=True``. Copies
that the GPU's first use makes are kept out by a warm-up.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UNSEEN = frozenset(
    {"copy to pageable memory", "torch.cuda.synchronize", "Event.synchronize", "Stream.synchronize"}
)
"""Causes of syncs that the debug mode does not report."""

_RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torchlint.verify.inside.cuda_counts import CudaCounts
from torchlint.program.inside.ledger import Ledger
path, root, how = sys.argv[2:5]
if how == "cuda":
    x = torch.ones(4, 4, device="cuda")
    (x @ x).sum().item()
    torch.linalg.inv(x + torch.eye(4, device="cuda"))
    torch.cuda.synchronize()
recorder = Ledger(root) if how == "ledger" else CudaCounts(root)
recorder.start()
recorder.mark_step()
text = open(path).read()
names = {"__name__": "__main__"}
exec(compile(text, path, "exec"), names)
recorder.mark_step()
recorder.stop()
print(json.dumps(recorder.summary(1)))
"""


def measure(text: str, how: str) -> dict[str, Any]:
    """Run a program below the ledger ("ledger") or on the GPU ("cuda"); return the summary of its
    one step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", _RUN, str(ROOT), str(path), folder, how]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"unavailable": (done.stderr.strip().splitlines() or ["no output"])[-1], "lines": []}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _syncs(summary: dict[str, Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for line in summary["lines"]:
        if line["kind"] == "sync" and line.get("what") not in UNSEEN:
            found[line["line"]] = found.get(line["line"], 0) + line["count"]
    return found


def compare(name: str, predicted: dict[str, Any], observed: dict[str, Any]) -> dict[str, Any]:
    """Put a program's two summaries side by side; "agrees" where every line and every total is the
    same."""
    gap = predicted.get("unavailable") or observed.get("unavailable")
    if gap:
        return {"name": name, "agrees": False, "unavailable": gap, "syncs": {}, "bytes": {}}
    ours, theirs = _syncs(predicted), _syncs(observed)
    syncs = {
        str(line): {"predicted": ours.get(line, 0), "observed": theirs.get(line, 0)}
        for line in sorted({*ours, *theirs})
    }
    totals = {
        key: {"predicted": predicted[key], "observed": observed[key]}
        for key in ("h2d_bytes", "d2h_bytes", "staged")
    }
    agrees = all(
        pair["predicted"] == pair["observed"] for pair in (*syncs.values(), *totals.values())
    )
    return {"name": name, "agrees": agrees, "unavailable": "", "syncs": syncs, "bytes": totals}


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    args = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("ledger_vs_cuda: torch sees no CUDA device", file=sys.stderr)
        return 4
    sys.path.insert(0, str(ROOT))
    from tests.verify.ledger_cases import CASES, PINNED, PLAIN, TRAINING

    programs = [(case.name, case.text) for case in CASES]
    programs += [("training", TRAINING.replace("PREPARE", PLAIN))]
    programs += [("training, pinned", TRAINING.replace("PREPARE", PINNED))]
    results = []
    for name, text in programs:
        if not args.only or name in args.only:
            results.append(compare(name, measure(text, "ledger"), measure(text, "cuda")))
            print(f"{'same' if results[-1]['agrees'] else 'DIFFERENT':10} {name}", flush=True)
    gpu, date = torch.cuda.get_device_name(), datetime.date.today().isoformat()
    agree = sum(result["agrees"] for result in results)
    print(f"{agree} of {len(results)} programs agree on {gpu}")
    content = {
        "gpu": gpu,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": date,
        "agree": agree,
        "programs": results,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    (args.out / f"ledger-vs-cuda-{slug}-{date}.json").write_text(
        json.dumps(content, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
