"""The virtual-CUDA ledger against a real GPU, program by program and line by line.

    python benchmarks/ledger_vs_cuda.py [--device virtual-cuda] [--only NAME ...] [--skip NAME ...]
    python benchmarks/ledger_vs_cuda.py --keep RESULTS

Runs the programs of ``tests/verify/ledger_cases.py`` and ``ledger_written.py`` twice, each time in
a fork of a process that has imported torch and not touched the GPU: under the ledger, and on the
GPU under ``torch.cuda.set_sync_debug_mode("warn")`` with the profiler's memory copies. Compares the
syncs of every line, and the bytes and staged copies of the whole program. Prints a line of JSON for
each as it comes: ``{"item": name, "result": {...}}``; `on_gpu.py` keeps them. With virtual-cuda the
ledger is compared with itself, which only shows that this runs. Exit code: 1 some differ, 4 no GPU.

--keep puts what a GPU did, from a file of `on_gpu.py`, into ``tests/verify/ledger_observed.json``,
which the ledger is tested against.

What the debug mode does not see is not compared: waits that the program asks for
(``torch.cuda.synchronize``, events), and copies into pageable memory with ``non_blocking=True``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LIMIT = 60.0
"""Seconds for one run of one program."""
UNSEEN = frozenset({"copy to pageable memory", "torch.cuda.synchronize", "Event.synchronize"})
"""Causes of syncs that the debug mode does not report. It does report a stream's."""
OBSERVED = ROOT / "tests" / "verify" / "ledger_observed.json"
_TOTALS = ("h2d_bytes", "d2h_bytes", "staged")
_HEAD = ("gpu", "driver", "torch", "python", "date")
_HOW = (
    "torch.cuda.set_sync_debug_mode('warn') and the profiler's memory copies, each program in a "
    "process of its own"
)


def forked(work: Callable[[], Any], limit: float = LIMIT) -> Any:
    """Do some work in a fork of this process; return its result, which must be plain data.

    What it prints goes to standard error. ``{"unavailable": reason}`` where it fails, or takes
    longer than `limit` seconds.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(2, 1)
        try:
            answer = work()
        except BaseException as error:
            answer = {"unavailable": f"{type(error).__name__}: {error}"[:500]}
        with os.fdopen(writing, "w") as out:
            json.dump(answer, out)
        os._exit(0)
    os.close(writing)
    text = b""
    with os.fdopen(reading, "rb", buffering=0) as source:
        while select.select([source], [], [], limit)[0]:
            part = source.read(1 << 16)
            if not part:
                break
            text += part
        else:
            os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return {"unavailable": f"ended without an answer (status {status})"}


def measure(text: str, how: str) -> dict[str, Any]:
    """Run a program below the ledger ("virtual-cuda") or on the GPU ("cuda"); return the summary of
    its one step. In a process of its own, as the device is used and patched."""
    import torch

    from torchlint.api import ledger_rows
    from torchlint.program.inside.cuda_counts import CudaCounts
    from torchlint.program.inside.ledger import Ledger

    if how == "cuda":  # copies that the GPU's first use makes are kept out
        x = torch.ones(4, 4, device="cuda")
        (x @ x).sum().item()
        torch.linalg.inv(x + torch.eye(4, device="cuda"))
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.py"
        path.write_text(text, encoding="utf-8")
        recorder = CudaCounts(folder) if how == "cuda" else Ledger(folder, ledger_rows())
        recorder.start()
        recorder.mark_step()
        exec(compile(text, str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
        recorder.mark_step()
        recorder.stop()
    return recorder.summary(1)


def _syncs(summary: dict[str, Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for line in summary["lines"]:
        if line["kind"] == "sync" and line.get("what") not in UNSEEN:
            found[line["line"]] = found.get(line["line"], 0) + line["count"]
    return found


def compare(predicted: dict[str, Any], observed: dict[str, Any]) -> dict[str, Any]:
    """Put a program's two summaries side by side; "agrees" where every line and every total is the
    same. What was not observed (None) is not compared."""
    gap = predicted.get("unavailable") or observed.get("unavailable")
    if gap:
        return {"agrees": False, "unavailable": gap}
    ours, theirs = _syncs(predicted), _syncs(observed)
    syncs = {
        str(line): {"predicted": ours.get(line, 0), "observed": theirs.get(line, 0)}
        for line in sorted({*ours, *theirs})
    }
    totals = {
        key: {"predicted": predicted[key], "observed": observed[key]}
        for key in _TOTALS
        if observed[key] is not None
    }
    pairs = (*syncs.values(), *totals.values())
    agrees = all(pair["predicted"] == pair["observed"] for pair in pairs)
    return {"agrees": agrees, "unavailable": "", "syncs": syncs, "bytes": totals}


def keep(results: dict[str, Any], path: Path = OBSERVED) -> int:
    """Put a run into the file of what GPUs did, in the place of one of the same GPU, torch and day;
    return its number of programs."""
    items = results["stages"]["ledger"]["items"]
    seen = {}
    for name, result in items.items():
        observed = result.get("observed", {"unavailable": "not run"})
        if not observed.get("unavailable"):
            syncs = {str(line): count for line, count in _syncs(observed).items()}
            totals = {key: observed[key] for key in _TOTALS}
            seen[name] = {"text": result["text"], "syncs": syncs, **totals}
    head = {key: results[key] for key in _HEAD}
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    runs = [run for run in runs if any(run[key] != head[key] for key in ("gpu", "torch", "date"))]
    text = ",\n".join(map(_run_text, [*runs, {**head, "how": _HOW, "programs": seen}]))
    path.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    return len(seen)


def _run_text(run: dict[str, Any]) -> str:
    """A run, a line for each program."""
    head = [f"  {json.dumps(key)}: {json.dumps(run[key])}" for key in run if key != "programs"]
    rows = [f"   {json.dumps(key)}: {json.dumps(each)}" for key, each in run["programs"].items()]
    body = ",\n".join([*head, '  "programs": {\n' + ",\n".join(rows) + "\n  }"])
    return f" {{\n{body}\n }}"


def programs() -> dict[str, str]:
    """By name, the text of all programs."""
    from tests.verify.ledger_cases import CASES, PINNED, PLAIN, TRAINING
    from tests.verify.ledger_written import WRITTEN

    found = {case.name: case.text for case in (*CASES, *WRITTEN)}
    found["training"] = TRAINING.replace("PREPARE", PLAIN)
    found["training, pinned"] = TRAINING.replace("PREPARE", PINNED)
    return found


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> int:
    """Measure, and print as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "virtual-cuda"], default="cuda")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs, or their start")
    parser.add_argument("--skip", nargs="*", default=[], help="names of programs")
    parser.add_argument("--keep", type=Path, metavar="RESULTS", help="a file of on_gpu.py")
    args = parser.parse_args()
    if args.keep is not None:
        print(f"kept {keep(json.loads(args.keep.read_text(encoding='utf-8')))} programs")
        return 0
    if args.device == "cuda" and forked(_gpu) is not True:
        print("ledger_vs_cuda: torch sees no CUDA device", file=sys.stderr)
        return 4
    import torch._dynamo  # noqa: F401 (an optimizer imports it: here once, not in each fork)

    only = re.compile("|".join(map(re.escape, args.only)))
    differ = 0
    for name, text in programs().items():
        if name in args.skip or not only.match(name):
            continue
        predicted = forked(lambda text=text: measure(text, "virtual-cuda"))
        observed = forked(lambda text=text: measure(text, args.device))
        result = {"text": text, **compare(predicted, observed), "observed": observed}
        differ += not result["agrees"]
        print(json.dumps({"item": name, "result": result}), flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
