"""Compares the figures of `torchlint.trace` with those of Holistic Trace Analysis, on real traces.

    python benchmarks/traces.py FOLDER [--keep NAME] [--show] [--grown MB]

FOLDER holds traces of others, ``*.json.gz``, and ``expected/*.json``, what traceinsight 0.6.1 said
of them; without it the benchmark is skipped. HTA rounds times to whole microseconds (starts up,
ends down), takes fewer calls for launches, and knows no ROCm: that is done here alone, to compare.
CPU seconds and peak memory are of a process that reads one file and counts all figures. --grown
measures one more: the events of the largest trace, run after run, in a file of so many megabytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from measuring import environment, keep

from torchlint.trace.bandwidth import series
from torchlint.trace.columns import DEVICE_CATS, Columns, Mask, Trace
from torchlint.trace.idle import idle
from torchlint.trace.kernels import kernels
from torchlint.trace.kinds import COMPUTE, KINDS, MEMORY, copy_of, kinds
from torchlint.trace.launches import joined, launches
from torchlint.trace.queue import lengths
from torchlint.trace.stream import read
from torchlint.trace.temporal import by_kinds, hidden_communication, temporal
from torchlint.trace.window import before, step_marks

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
QUEUED = (
    *LAUNCHES,
    *("cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipExtModuleLaunchKernel"),
    *("hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream"),
)
TYPES = {"communication": "COMMUNICATION", "memory": "MEMORY", "compute": "COMPUTATION"}
ORDER = ("COMPUTATION", "COMMUNICATION", "MEMORY")
IDLE = {"host_wait": "host", "kernel_wait": "kernel", "other": "other"}
_COST = """
import sys, time
from torchlint.trace.figures import figures
from torchlint.trace.stream import read
figures(read(sys.argv[1]))
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(time.process_time(), int(peak.split()[1]) / 1024)
"""
_NUMBERED = ("External id", "correlation", "Python id", "Python parent id", "Sequence number")
"""Arguments that tell one event from others."""
Figures = dict[tuple[str, ...], float | None]


def rounded(trace: Trace) -> Trace:
    """Return the trace as HTA rounds it: starts up to a microsecond, ends down."""
    columns = trace.columns
    if not ((columns.ts % 1000).any() or (columns.dur % 1000).any()):
        return trace
    start, end = -(-columns.ts // 1000) * 1000, columns.end // 1000 * 1000
    return trace.with_columns(replace(columns, ts=start, dur=end - start))


class Oracle:
    """A trace as HTA looks at it."""

    def __init__(self, path: Path) -> None:
        self.trace = trace = rounded(read(str(path)))
        marks = step_marks(trace)
        columns = trace.columns
        counted = (
            before(trace, marks[-1][1])
            if len({number for number, *_ in marks}) > 1
            else np.ones(len(columns.ts), np.bool_)
        )
        # All with a stream is work of the device to HTA, host operators of Triton too.
        device = (columns.stream >= 0) & (counted | (columns.corr >= 0))
        self.work = columns.where(device & counted)
        self.kind = kinds(trace)[self.work.name]
        self.kernels = columns.where(device & counted & trace.of_cat(*DEVICE_CATS))
        self.host = ~trace.of_cat(*DEVICE_CATS) & counted

    def called(self, names: tuple[str, ...]) -> Columns:
        """Return the calls of these names."""
        places = [at for at, name in enumerate(self.trace.names) if name in names]
        chosen: Mask = self.host & np.isin(self.trace.columns.name, places)
        return self.trace.columns.where(chosen)

    def figures(self) -> Figures:
        """Return all figures by name."""
        found = dict(self._times())
        found.update(self._kernels())
        found.update(self._queues())
        found.update(self._copies())
        counted = launches(self.called(LAUNCHES), self.work)
        names = ("n", "short", "runtime_outliers", "delay_outliers")
        values = (counted.count, counted.short, counted.slow_calls, counted.long_delays)
        found.update({("launch", n): v for n, v in zip(names, values, strict=True)})
        sums = (counted.calls_ns, counted.work_ns, counted.delay_ns)
        for name, value in zip(("cpu_sum", "gpu_sum", "delay_sum"), sums, strict=True):
            found["launch", name] = value / 1000
        return found

    def _times(self) -> Iterator[tuple[tuple[str, ...], float | None]]:
        spent = temporal(self.work, self.kind)
        assert spent is not None
        parts = {"idle": spent.idle, "compute": spent.compute, "non_compute": spent.rest}
        for name, value in parts.items():
            yield ("temporal", f"{name}_time(us)"), value / 1000
            yield ("temporal", f"{name}_time_pctg"), round(100 * value / spent.total, 2)
        yield ("temporal", "kernel_time(us)"), spent.total / 1000
        calls = self.trace.columns.where(self.host)
        for stream, gaps in idle(calls, self.kernels).items():
            for word, field in IDLE.items():
                yield ("idle", str(stream), word), getattr(gaps, field) / 1000
        for each in by_kinds(self.work, self.kind):
            words = sorted((TYPES[name] for name in each.kinds), key=ORDER.index)
            yield ("types", " overlapping ".join(words)), each.time / 1000
        share = hidden_communication(self.work, self.kind)
        yield ("overlap",), None if share is None else round(100 * share, 2)

    def _kernels(self) -> Iterator[tuple[tuple[str, ...], float | None]]:
        for kernel in kernels(self.trace, self.work, self.kind):
            if kernel.kind != KINDS[COMPUTE + 1]:
                at = self.work.name == self.trace.names.index(kernel.name)
                took = self.work.dur[at] / 1000
                spread = float(np.std(took, ddof=1)) if len(took) > 1 else 0.0
                for word, value in (
                    ("sum (us)", kernel.total / 1000),
                    ("max (us)", kernel.most / 1000),
                    ("min (us)", kernel.least / 1000),
                    ("stddev", spread),
                    ("mean (us)", kernel.total / kernel.count / 1000),
                ):
                    yield ("kernel", kernel.name, word), value

    def _queues(self) -> Iterator[tuple[tuple[str, ...], float | None]]:
        calls = self.called(QUEUED)
        calls = calls.where(np.isin(calls.corr, self.work.corr))
        work = self.work.where(joined(calls, self.work).work)
        for stream, (_, length) in lengths(calls, work).items():
            yield from described(("queue", str(stream)), length.astype(np.float64))

    def _copies(self) -> Iterator[tuple[tuple[str, ...], float | None]]:
        copies = self.work.where(self.kind == MEMORY)
        directions = np.array([copy_of(self.trace.names[name])[:11] for name in copies.name])
        for direction in sorted(set(directions.tolist())):
            speeds = series(copies.where(directions == direction))
            yield from described(("membw", direction), speeds[speeds > 0])


def described(name: tuple[str, ...], values: Any) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Yield what ``Series.describe()`` says."""
    yield (*name, "count"), len(values)
    if len(values):
        yield (*name, "mean"), float(values.mean())
        yield (*name, "std"), float(values.std(ddof=1)) if len(values) > 1 else None
        for word, share in (("min", 0), ("25%", 25), ("50%", 50), ("75%", 75), ("max", 100)):
            yield (*name, word), float(np.percentile(values, share))


def expected(path: Path) -> Figures:
    """Return what HTA said, by the same names."""
    said = json.loads(path.read_text(encoding="utf-8"))
    found: Figures = {}
    for key, value in said["temporal"][0].items():
        if key not in ("index", "rank"):
            found["temporal", key] = value
    for row in said["idle"]:
        found["idle", str(row["stream"]), row["idle_category"]] = row["idle_time"]
    for row in said["kernels"][0]:
        found["types", row["kernel_type"]] = row["sum"]
    for row in said["kernels"][1]:
        for word in ("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"):
            found["kernel", row["name"], word] = row[word]
    found["overlap",] = said["overlap"][0]["comp_comm_overlap_pctg"]
    for kind, who in (("queue", "stream"), ("membw", "name")):
        for row in said[kind]:
            for key, value in row.items():
                if "|" in key:
                    found[kind, str(row[who]), key.partition("|")[2]] = value
    for key, value in said["launch"].items():
        found["launch", key] = value
    return found


def same(one: float | None, other: float | None) -> bool:
    """Say whether two figures are equal as far as HTA prints them."""
    if one is None or other is None or math.isnan(one) or math.isnan(other):
        return not (one or other) or (one is None) == (other is None)
    return math.isclose(one, other, rel_tol=1e-8, abs_tol=1e-8)


def compared(path: Path, said: Path) -> tuple[int, list[str]]:
    """Return how many figures of a trace are equal, and the others in words."""
    ours, theirs = Oracle(path).figures(), expected(said)
    # Rows of nothing are said by one of the two alone.
    names = [name for name in {**theirs, **ours} if theirs.get(name) or ours.get(name)]
    names += [name for name in theirs if name in ours and not (theirs[name] or ours[name])]
    other = [
        f"{' '.join(name)}: {ours.get(name)} against {theirs.get(name)}"
        for name in names
        if not same(ours.get(name), theirs.get(name))
    ]
    return len(names) - len(other), other


def cost(path: Path) -> tuple[float, float]:
    """Return CPU seconds and peak MiB of a process that reads a file and counts."""
    done = subprocess.run(
        [sys.executable, "-c", _COST, str(path)], capture_output=True, text=True, check=True
    )
    seconds, peak = done.stdout.split()
    return round(float(seconds), 2), round(float(peak), 1)


def grown(source: Path, target: Path, size: int) -> int:
    """Write a trace's events again and again, each time later and with numbers of their own, until
    the file has `size` bytes; return how many events it has."""
    data = json.loads(gzip.decompress(source.read_bytes()))
    events = [{"args": {}, **each} for each in data["traceEvents"] if each.get("ph") == "X"]
    first = min(event["ts"] for event in events)
    length = max(event["ts"] + event["dur"] for event in events) - first + 1
    most = max(event["args"].get(key) or 0 for event in events for key in _NUMBERED) + 1
    written = nbytes = 0
    with target.open("w", encoding="utf-8") as file:
        file.write('{"traceEvents": [\n')
        while nbytes < size:
            later, at = divmod(written, len(events))
            event = events[at]
            shift = {
                key: event["args"][key] + later * most
                for key in _NUMBERED
                if isinstance(event["args"].get(key), int)
            }
            moved = {**event, "ts": event["ts"] + later * length}
            row = json.dumps({**moved, "args": {**event["args"], **shift}}, indent=2)
            nbytes += file.write(f"{',' if written else ''}{row}\n")
            written += 1
        file.write("]}\n")
    return written


def main() -> int:
    """Compare all; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", metavar="NAME", help="write the counts to results/NAME.json")
    parser.add_argument("--show", action="store_true", help="print each figure that differs")
    parser.add_argument("--grown", type=int, metavar="MB", help="measure a trace of this size, too")
    args = parser.parse_args()
    if not args.folder.is_dir():
        print(f"skipped: there is no folder {args.folder}")
        return 0
    rows = {}
    for path in sorted(args.folder.glob("*.json.gz")):
        said = args.folder / "expected" / f"{path.name.removesuffix('.json.gz')}.json"
        seconds, peak = cost(path)
        row: dict[str, Any] = {"cpu_s": seconds, "peak_mib": peak}
        if said.exists():
            equal, other = compared(path, said)
            row |= {"equal": equal, "different": len(other)}
            theirs = json.loads(said.read_text(encoding="utf-8"))
            row |= {"hta_peak_mib": round(theirs["rss_peak"], 1)}
            if args.show:
                print("\n".join(other))
        rows[path.name] = row
        print(path.name, row)
    if args.grown:
        largest = max(args.folder.glob("*.json.gz"), key=lambda path: path.stat().st_size)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "grown.json"
            events = grown(largest, target, args.grown * 1_000_000)
            seconds, peak = cost(target)
        rows[f"{largest.name}, {args.grown} MB"] = {
            "events": events, "cpu_s": seconds, "peak_mib": peak
        }  # fmt: skip
        print(largest.name, "grown", events, seconds, peak)
    sums = {word: sum(row.get(word, 0) for row in rows.values()) for word in ("equal", "different")}
    print(sums)
    if args.keep:
        versions = {"numpy": np.__version__, "msgspec": version("msgspec")}
        keep(args.keep, {"environment": environment(versions), **sums, "traces": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
