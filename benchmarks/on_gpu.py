"""All that is to be asked of a GPU, by one command; what is worth most comes first.

    python benchmarks/on_gpu.py [--minutes N] [--device cuda|cpu|virtual-cuda] [STAGE ...]

Each stage has a limit of its own. Results are written as they come, to
``benchmarks/results/on-gpu-GPU-DATE.json``, with GPU, driver and versions. A run that was ended, by
whatever, is taken up by the same command: what this code has answered already is not asked again
(--again asks). At the end stands a summary. It needs torchlint and torch: no network, no pytest, no
git. Without a GPU `--device virtual-cuda` or `--device cpu` tries that everything starts.

Exit code: 0 all was asked, 1 something failed or no time was left, 4 no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import importlib.util
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
Items = dict[str, dict[str, Any]]
Found = Iterator[tuple[str, dict[str, Any]]]
FAMILIES = ("TL1", "TL2", "TL3", "TL4", "TL5", "TL6", "TL7", "TL8", "TL9")
PROJECTS = ("waves", "stars")
PACKAGED = {"tabnet": "pytorch_tabnet", "forecasting": "pytorch_forecasting"}
"""Programs of ``benchmarks/programs`` that need a package."""
_WITHOUT = 4.0
"""Without a GPU all limits are longer by this factor: a CPU that does other work is slow."""
_GRACE = 15.0
"""Seconds for a process to end by itself."""
NO_TIME = {"error": "no time was left"}


@dataclass
class Run:
    """What was asked for, and until when.

    Args:
        device: "cuda", "cpu" or "virtual-cuda".
        quick: the smallest figures, to see whether everything runs.
        only: starts of the names of items; all for none.
        until: of the whole run and of the stage, on the monotonic clock.
    """

    device: str
    quick: bool
    only: tuple[str, ...]
    until: float

    @property
    def factor(self) -> float:
        """By what limits are multiplied."""
        return 1.0 if self.device == "cuda" else _WITHOUT

    def wants(self, item: str) -> bool:
        """Say whether an item was asked for."""
        return not self.only or item.startswith(self.only)

    def lines(self, command: list[str], limit: float, cwd: Path = ROOT) -> Iterator[str]:
        """Start a command; yield the lines that it prints, and end it and all that it started at
        its limit (seconds), or at the stage's.

        Raises:
            subprocess.CalledProcessError: another exit code than 0 and 1, which say that it ran;
                with the end of its standard error.
            subprocess.TimeoutExpired: it was ended.
        """
        until = min(self.until, time.monotonic() + limit * self.factor)
        places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, places)),
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                yield from _lines(process, until)
                code = process.wait(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:  # it may say what it knows
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    yield from _lines(process, time.monotonic() + _GRACE)
                raise
            finally:
                _end(process)
            if code not in (0, 1):
                errors.seek(0)
                tail = errors.read()[-1500:].decode(errors="replace")
                raise subprocess.CalledProcessError(code, command, stderr=tail)

    def report(self, command: list[str], limit: float, cwd: Path = ROOT) -> dict[str, Any]:
        """Return the JSON that a command prints, also where it was ended, with "seconds"; or what
        went wrong."""
        started, lines, found = time.monotonic(), list[str](), dict[str, Any]()
        try:
            for line in self.lines(command, limit, cwd):
                lines.append(line)
        except subprocess.SubprocessError as error:
            found = {"error": _reason(error)}
            if isinstance(error, subprocess.CalledProcessError):
                lines = []
        try:
            found = {"report": json.loads("\n".join(lines))}
        except ValueError as error:
            found = found or {"error": _reason(error)}
        return {**found, "seconds": round(time.monotonic() - started, 1)}


def _lines(process: subprocess.Popen[bytes], until: float) -> Iterator[str]:
    source = process.stdout
    assert source is not None
    rest = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise subprocess.TimeoutExpired(process.args, left)
        part = os.read(source.fileno(), 1 << 16)
        *whole, rest = (rest + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
        if not part:
            if rest:
                yield rest.decode(errors="replace")
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, then end its group."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return "no time was left"
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}: {str(error.stderr).strip()[-1000:]}"
    return f"{type(error).__name__}: {error}"[:1000]


def _script(name: str, *words: str) -> list[str]:
    return [sys.executable, str(HERE / name), *words]


def _torchlint(*words: str) -> list[str]:
    return [sys.executable, "-m", "torchlint", *words]


def _streamed(run: Run, command: list[str], done: set[str]) -> Found:
    """The items of a script that prints a line for each as it comes."""
    for line in run.lines([*command, "--skip", *sorted(done)], 3600):
        if line.startswith("{"):
            answer = json.loads(line)
            yield answer["item"], answer["result"]


def _ledger(run: Run, done: set[str]) -> Found:
    device = "cuda" if run.device == "cuda" else "virtual-cuda"
    only = ["--only", *run.only] if run.only else []
    return _streamed(run, _script("ledger_vs_cuda.py", "--device", device, *only), done)


def _null(run: Run, done: set[str]) -> Found:
    words = ["--device", "cuda" if run.device == "cuda" else "cpu"]
    quick = "--pairs 2 --launches 1 --block-ms 1 --works host --ways one"
    full = "--pairs 16 --launches 3 --ways remade one turns stopped"
    words += (quick if run.quick else full).split()
    return _streamed(run, _script("null_control.py", *words), done)


@contextlib.contextmanager
def _program(name: str) -> Iterator[tuple[Path, str]]:
    """A copy of a program: its folder, and its script's name."""
    with tempfile.TemporaryDirectory() as folder:
        if name in PROJECTS:
            shutil.copytree(ROOT / "fixtures" / "projects" / name, folder, dirs_exist_ok=True)
            yield Path(folder), "train.py"
        else:
            shutil.copy(HERE / "programs" / f"{name}.py", folder)
            yield Path(folder), f"{name}.py"


def _programs(run: Run, done: set[str]) -> Iterator[tuple[str, str]]:
    """Names of programs that are to run, and why one cannot."""
    for name in (*PROJECTS, "mask", *PACKAGED):
        package = PACKAGED.get(name)
        if name not in done and run.wants(name):
            absent = package is not None and importlib.util.find_spec(package) is None
            yield name, f"{package} is not installed" if absent else ""


def _shared(command: str, device: str) -> list[str]:
    return [command, ".", "--isolated", "-q", "--output-format", "json", "--device", device]


def _verify(run: Run, done: set[str]) -> Found:
    budget = "20" if run.quick else "40"
    pairs = ["--pairs", "8", "--launches", "1"] if run.quick else []
    for name, absent in _programs(run, done):
        if absent:
            yield name, {"left_out": absent}
            continue
        with _program(name) as (folder, script):
            words = [*_shared("verify", run.device), "--unsafe-fixes", "--budget", budget, *pairs]
            command = _torchlint(*words, "--fail-on", "never", "--", script)
            yield name, {"budget": int(budget), **run.report(command, 150, folder)}


def _profile(run: Run, done: set[str]) -> Found:
    steps = ["--warmup", "2", "--steps", "5"] if run.quick else []
    for name, absent in _programs(run, done):
        if absent:
            yield name, {"left_out": absent}
            continue
        with _program(name) as (folder, script):
            clock = run.report(_script("own_clock.py", *steps, script), 60, folder)
            device = "cpu" if run.device == "virtual-cuda" else run.device  # a profile takes times
            words = [*_shared("profile", device), *(["--steps", "5"] if run.quick else [])]
            found = run.report(_torchlint(*words, "--", script), 90, folder)
            yield name, {"clock": clock, **found}


def _rules(run: Run, done: set[str]) -> Found:
    sizes = ["--pairs", "8" if run.quick else "12", "--launches", "1"]
    for family in FAMILIES:
        if family not in done and run.wants(family):
            left = min(150 * run.factor, run.until - time.monotonic()) - _GRACE
            words = ["verify", "rules", family, "-q", "--output-format", "json", *sizes]
            words += ["--device", run.device, "--fail-on", "never", "--budget", f"{left:.0f}"]
            yield family, run.report(_torchlint(*words), 150) if left > _GRACE else NO_TIME


def _bounds(run: Run, done: set[str]) -> Found:
    words = ["--json", "--device", "cuda" if run.device == "cuda" else "cpu", "--budget"]
    small = [*"--pairs 8 --steps 5".split(), str(HERE / "programs" / "mask.py")]
    words += ["20", *small] if run.quick else ["90"]
    if "bounds" not in done:
        yield "bounds", run.report(_script("bound_vs_verify.py", *words), 240)


def _told(value: Any, digits: int = 3) -> str:
    return "?" if value is None else f"{value:.{digits}g}"


def _at(report: Any, *path: str) -> Any:
    """Return what stands at a path of a report; None where it has none, as reports change."""
    for key in path:
        report = report.get(key) if isinstance(report, dict) else None
    return report


def _says_ledger(items: Items) -> list[str]:
    differ = [name for name, result in items.items() if not result.get("agrees")]
    agree = f"{len(items) - len(differ)} of {len(items)} programs agree"
    return [agree, *(f"differs: {name} {items[name].get('unavailable', '')}" for name in differ)]


def _says_null(items: Items) -> list[str]:
    return [
        f"{name}: wall {_told(_at(result, 'wall', 'ratio'), 4)}"
        f" {_at(result, 'wall', 'launches')}, {'ok' if _at(result, 'wall', 'ok') else 'NOT ok'};"
        f" other clock {_told(_at(result, 'other', 'ratio'), 4)}"
        for name, result in items.items()
    ]


def _says_verify(items: Items) -> list[str]:
    said = []
    for name, result in items.items():
        seconds = f"{_told(result.get('seconds'))} s of a budget of {result.get('budget')} s"
        variants = _at(result, "report", "variants") or []
        together = next((each for each in variants if each.get("kind") == "all"), {})
        ratio, verdict = _at(together, "speed", "ratio"), _at(together, "speed", "verdict")
        ok = sum(bool(_at(each, "equivalence", "ok")) for each in variants)
        said.append(
            f"{name}: {seconds}; together {verdict}, {_told(ratio)}x; results kept by {ok} of"
            f" {len(variants)}"
        )
    return said


def _says_profile(items: Items) -> list[str]:
    said = []
    for name, result in items.items():
        own, step = (
            _at(result, "clock", "report", "mean_ms"),
            _at(result, "report", "run", "unprofiled", "step_ns"),
        )
        said.append(
            f"{name}: a step takes {_told(own)} ms by its own clock,"
            f" {_told(step and step / 1e6)} ms by profile"
        )
    return said


def _says_rules(items: Items) -> list[str]:
    said = []
    for family, result in items.items():
        variants = _at(result, "report", "variants") or []
        null = _at(result, "report", "null_control", "ratio")
        counted: dict[str, int] = {}
        for each in variants:
            verdict = str(_at(each, "speed", "verdict"))
            counted[verdict] = counted.get(verdict, 0) + 1
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counted.items()))
        said.append(f"{family}: {verdicts}; null control {_told(null)}x")
    return said


def _says_bounds(items: Items) -> list[str]:
    rows = [row for result in items.values() for row in _at(result, "report", "bounds") or []]
    held = [row["holds"] for row in rows]
    return [f"{held.count(True)} of {len(rows)} bounds hold, {held.count(False)} do not"]


@dataclass(frozen=True)
class Stage:
    """Something to ask a GPU.

    Args:
        limit: seconds at most.
        ask: gives items and their results, as they come; leaves out those that are done.
        says: the lines of the summary.
    """

    limit: float
    ask: Callable[[Run, set[str]], Found]
    says: Callable[[Items], list[str]]


STAGES = {
    "ledger": Stage(180, _ledger, _says_ledger),
    "null": Stage(150, _null, _says_null),
    "verify": Stage(260, _verify, _says_verify),
    "profile": Stage(200, _profile, _says_profile),
    "rules": Stage(600, _rules, _says_rules),
    "bounds": Stage(240, _bounds, _says_bounds),
}
"""In the order of their worth."""


def sources() -> str:
    """Return a digest of the code that asks and of what it asks: with another, answers are old."""
    digest = hashlib.sha256()
    for folder in (ROOT / "torchlint", HERE, ROOT / "tests" / "verify", ROOT / "fixtures"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def machine(device: str) -> dict[str, str]:
    """Return GPU, driver and versions; "gpu" is empty where there is none."""
    found = {"gpu": "", "driver": ""}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
        found["gpu"], _, found["driver"] = done.stdout.splitlines()[0].partition(", ")
    if device == "cuda" and not found["gpu"]:
        code = "import torch; print(torch.cuda.is_available() and torch.cuda.get_device_name())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        found["gpu"] = done.stdout.strip().replace("False", "")
    versions = {}
    for name in ("torch", "torchlint"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        **(found if device == "cuda" else {"gpu": f"none ({device})", "driver": ""}),
        **versions,
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
    }


class Book:
    """The file of results; whole at every moment."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        known: dict[str, Any] = {}
        if path.exists():
            with contextlib.suppress(ValueError):
                known = json.loads(path.read_text(encoding="utf-8"))
        self.content: dict[str, Any] = {**head, "stages": known.get("stages", {})}

    def stage(self, name: str) -> dict[str, Any]:
        """What is known of a stage: its "items", its "error"."""
        found: dict[str, Any] = self.content["stages"].setdefault(name, {"items": {}})
        return found

    def done(self, name: str, digest: str) -> set[str]:
        """Names of the items that this code has answered without an error."""
        items = self.stage(name)["items"].items()
        return {
            item
            for item, result in items
            if result["sources"] == digest and "error" not in result and "left_out" not in result
        }

    def write(self) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)


def ask(book: Book, name: str, run: Run, digest: str, *, again: bool) -> bool:
    """Do one stage, writing as it goes; return whether all was asked."""
    stage, kept = STAGES[name], book.stage(name)
    done = set() if again else book.done(name, digest)
    kept["error"], started = "no time was left", time.monotonic()
    try:
        for item, result in stage.ask(run, done):
            kept["items"][item] = {**result, "sources": digest}
            book.write()
            print(f"{name}: {item}: {result.get('error') or 'done'}"[:200], flush=True)
        kept["error"] = ""
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        kept["error"] = _reason(error)
    finally:
        kept["seconds"] = round(time.monotonic() - started, 1)
        book.write()
    return not kept["error"] and not any("error" in each for each in kept["items"].values())


def summary(book: Book, names: list[str]) -> str:
    """Say what was found, in the order of worth."""
    head = book.content
    said = [f"{head['gpu']}, driver {head['driver'] or '?'}, torch {head.get('torch', '?')}"]
    for name in names:
        kept = book.stage(name)
        failed = [item for item, result in kept["items"].items() if "error" in result]
        good = {item: each for item, each in kept["items"].items() if item not in failed}
        left = [item for item, result in good.items() if "left_out" in result]
        good = {item: each for item, each in good.items() if item not in left}
        said.append(f"{name}:" + (f" {kept['error']}" if kept.get("error") else ""))
        said += [f"  {line}" for line in (STAGES[name].says(good) if good else ["nothing"])]
        said += [f"  FAILED {item}: {kept['items'][item]['error']}" for item in failed]
        said += [f"  left out {item}: {kept['items'][item]['left_out']}" for item in left]
    return "\n".join([*said, f"Results: {book.path}"])


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Ask all that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--minutes", type=float, default=14.0, help="of the whole run")
    parser.add_argument("--device", choices=["cuda", "cpu", "virtual-cuda"], default="cuda")
    parser.add_argument(
        "--only", action="append", default=[], help="items whose names begin so; repeatable"
    )
    parser.add_argument("--quick", action="store_true", help="smallest figures: does it run?")
    parser.add_argument("--again", action="store_true", help="ask what is answered, too")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of results")
    given = parser.parse_args()
    if unknown := set(given.stages) - set(STAGES):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, _interrupted)
    until, head = time.monotonic() + 60 * given.minutes, machine(given.device)
    if not head["gpu"]:
        print("on_gpu: torch sees no CUDA device; --device virtual-cuda tries", file=sys.stderr)
        return 4
    date = datetime.date.today().isoformat()
    slug = re.sub(r"[^a-z0-9]+", "-", head["gpu"].lower()).strip("-")
    book = Book(given.out / f"on-gpu-{slug}-{date}.json", {**head, "date": date})
    names = [name for name in STAGES if name in (given.stages or STAGES)]
    digest, complete = sources(), True
    try:
        for name in names:
            run = Run(given.device, given.quick, tuple(given.only), until)
            run.until = min(until, time.monotonic() + STAGES[name].limit * run.factor)
            complete &= ask(book, name, run, digest, again=given.again)
    except KeyboardInterrupt:
        complete = False
    print(summary(book, names))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
