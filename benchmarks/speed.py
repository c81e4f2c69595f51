"""Every target for speed and memory, measured on real code beside its rival in the same run.

    python benchmarks/speed.py CORPUS [--peers VENV] [--only PART ...] [--packages NAME ...]
                               [--torchfix-lines N] [--rounds N] [--keep NAME]

CORPUS is a folder of unpacked packages (``NAME-VERSION/``). VENV is an environment that holds
TorchFix and flake8: they need another libcst than ours. The parts:

    cold           CPU s per 100,000 lines, and beside reading and bare `libcst.parse_module` of the same files
    peers          the same beside TorchFix, and flake8 with TorchFix, on whole packages of --torchfix-lines in all
    two-processes  wall with -j 2 beside -j 1
    warm           with a full cache beside ruff's, each less its own --version, on one package and on the whole CORPUS
    one-file       5 lines without torch, 141 lines with it
    memory         peak of the largest process
    scaling        one file from 1,000 to 64,000 lines (scaling.py)
    library        a generated library of 100 and of 200 files, in which each calls the next four
    tree           all packages in one run beside the sum of each alone
    real           three large packages of the registry, by version: CPU s, files lost, peak memory
    outputs        the same bytes from -j 1, -j 2, a cold and a warm cache

Each command is a whole process. The commands of a pair run one after the other (A B A B …), and the
ratio is taken within the round; each row gives min/median/max, and is met where the median is. Exit
codes are checked, and that a command prints the same each time. The default rules are on. Modules
are compiled before, as an installation does it. --keep writes ``benchmarks/results/NAME.json``.
"""  # noqa: E501

from __future__ import annotations

import argparse
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import scaling
from library import library
from measuring import Bench, Row, Run, environment, keep

Command = tuple[str | Path, ...]

OWN = Path(sys.executable).parent
CHECK: Command = (OWN / "torchlint", "check", "--isolated", "--output-format", "concise")
COLD: Command = (*CHECK, "--no-cache", "-j", "1")
FOUND = (0, 1)
PACKAGES = (
    "recbole",
    "simpletransformers",
    "stable-baselines3",
    "flair",
    "pykeen",
    "ultralytics",
    "timm",
)
"""About 390,000 lines: training programs, model collections and tools, by many hands."""
MEDIUM = "timm"
"""One package of about 100,000 lines."""
LARGE_FILES = 8
"""How many of the largest files with torch are measured one by one."""
PLAIN = "import os\n\n\ndef here():\n    return os.getcwd()\n"
SHORT = 141
"""Lines of the one file with torch."""
LONGEST = 64_000
LIBRARY = 100
"""Files of the generated library, and half of those of the larger one."""
REAL = (("diffusers", "0.42.1", 20), ("transformers", "5.24.0", 10), ("ultralytics", "8.4.190", 20))
"""Package, version, and the target: CPU s per 100,000 lines."""
SMALL = 100_000
"""Bytes of a file up to which the limit on memory is a constant."""
BARE = """
import sys, threading
def parse():
    import libcst
    for name in open(sys.argv[1], encoding="utf-8").read().split("\\n"):
        with open(name, "rb") as file:
            data = file.read()
        try:
            libcst.parse_module(data)
        except Exception as error:
            print(name, type(error).__name__)
sys.setrecursionlimit(20_000)
threading.stack_size(256 << 20)
thread = threading.Thread(target=parse)
thread.start()
thread.join()
"""


@dataclass(frozen=True, slots=True)
class Code:
    """Packages to check.

    Args:
        roots: their folders.
        files: the files in them that torchlint checks.
        lines: of those.
        listing: a file that names them.
    """

    roots: tuple[Path, ...]
    files: tuple[str, ...]
    lines: int
    listing: Path

    @property
    def name(self) -> str:
        return f"{self.lines:,} lines of {', '.join(root.name for root in self.roots)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure on what."""

    bench: Bench
    corpus: Path
    peers: Path | None
    code: Code
    torchfix_lines: int
    rounds: int

    def rounds_of(
        self, *commands: Command, n: int = 0, exits: tuple[int, ...] = FOUND
    ) -> list[list[Run]]:
        """Run the commands one after the other, that `n` times; return the runs of each round."""
        return [
            [self.bench.run(command, exits) for command in commands]
            for _ in range(n or self.rounds)
        ]


def code_of(bench: Bench, *roots: Path) -> Code:
    """Find the files of some packages, and count their lines."""
    files = tuple(bench.output((*CHECK, "--show-files", *roots)).splitlines())
    lines = sum(Path(name).read_bytes().count(b"\n") for name in files)
    listing = bench.folder / f"files-{len(files)}-{lines}"
    listing.write_text("\n".join(files), encoding="utf-8")
    return Code(roots, files, lines, listing)


def bare(listing: Path) -> Command:
    """Return the command that reads and parses files, and does nothing else."""
    return (sys.executable, "-c", BARE, listing)


def cold(plan: Plan) -> Iterator[Row]:
    """Measure without a cache, one process, beside the parser alone."""
    code = plan.code
    runs = plan.rounds_of((*COLD, *code.roots), bare(code.listing))
    detail = f"{code.name}; {runs[0][0].lines} lines of output"
    per = tuple(own.cpu / code.lines * 100_000 for own, _ in runs)
    yield Row("cold", "CPU s per 100k lines, default rules", "<=", 20, per, detail)
    parse = "/".join(f"{parser.cpu:.1f}" for _, parser in runs)
    ratios = tuple(own.cpu / parser.cpu for own, parser in runs)
    yield Row("cold", "CPU: torchlint / bare libcst parse", "<=", 2.3, ratios, f"parse {parse} s")


def peers(plan: Plan) -> Iterator[Row]:
    """Measure beside TorchFix, and flake8 with TorchFix."""
    assert plan.peers is not None
    roots: list[Path] = []
    for root in plan.code.roots:
        if not roots or code_of(plan.bench, *roots).lines < plan.torchfix_lines:
            roots.append(root)
    code = code_of(plan.bench, *roots)
    torchfix: Command = (plan.peers / "bin" / "torchfix", "-j", "1", "--select", "ALL", *code.files)
    flake8: Command = (
        plan.peers / "bin" / "flake8",
        "-j",
        "1",
        "--isolated",
        "--select",
        "TOR",
        "--exit-zero",
        *code.files,
    )
    runs = plan.rounds_of((*COLD, *code.roots), torchfix, flake8)
    for name, limit, rivals in (
        ("torchfix --select ALL", 12, [(own, rival) for own, rival, _ in runs]),
        ("flake8 --select TOR", 6, [(own, rival) for own, _, rival in runs]),
    ):
        cpu = "/".join(f"{rival.cpu:.0f}:{own.cpu:.0f}" for own, rival in rivals)
        detail = f"{cpu} s; {rivals[0][1].lines} lines of output; {code.name}"
        ratios = tuple(rival.cpu / own.cpu for own, rival in rivals)
        yield Row("peers", f"CPU: {name} / torchlint", ">=", limit, ratios, detail)


def two_processes(plan: Plan) -> Iterator[Row]:
    """Measure what a second process brings."""
    two: Command = (*CHECK, "--no-cache", "-j", "2", *plan.code.roots)
    runs = plan.rounds_of((*COLD, *plan.code.roots), two)
    ratios = tuple(one.wall / both.wall for one, both in runs)
    wall = "/".join(f"{one.wall:.1f}:{both.wall:.1f}" for one, both in runs)
    yield Row("two", "wall: one process / two", ">=", 1.8, ratios, f"{wall} s")
    more = tuple(both.cpu / one.cpu for one, both in runs)
    yield Row("two", "CPU: two processes / one", "<=", 1.08, more)


def warm(plan: Plan) -> Iterator[Row]:
    """Measure with all results in the cache, beside ruff; one rule of ruff's, as it keeps only
    clean files."""
    packages = sorted(
        path for path in plan.corpus.iterdir() if path.is_dir() and not path.name.startswith("_")
    )
    medium = [path for path in packages if path.name.startswith(f"{MEDIUM}-")]
    for roots, times, all_of_it in ((medium, 3, False), (packages, 1.5, True)):
        code = code_of(plan.bench, *roots)
        places = plan.bench.folder / f"cache-{times}", plan.bench.folder / f"ruff-{times}"
        own: Command = (*CHECK, "--cache-dir", places[0], *roots)
        options = (
            "--isolated",
            "-q",
            "--exit-zero",
            "--select",
            "PLW0602",
            "--cache-dir",
            places[1],
        )
        ruff: Command = (OWN / "ruff", "check", *options, *roots)
        versions: list[Command] = [(OWN / "torchlint", "--version"), (OWN / "ruff", "--version")]
        plan.rounds_of(own, own, ruff, ruff, n=1)
        runs = plan.rounds_of(own, versions[0], ruff, versions[1], n=15)
        ratios = tuple((a.cpu - b.cpu) / max(c.cpu - d.cpu, 1e-3) for a, b, c, d in runs)
        size = f"{len(code.files):,} files, {code.lines:,} lines"
        of = "whole corpus" if all_of_it else "one package"
        yield Row(
            "warm", f"CPU: torchlint / ruff, each less --version, {of}", "<=", times, ratios, size
        )
        if all_of_it:
            yield Row(
                "warm", "wall s in all", "<=", 0.25, tuple(each[0].wall for each in runs), size
            )
            yield Row("warm", "CPU s in all", "<=", 0.5, tuple(each[0].cpu for each in runs), size)


def one_file(plan: Plan) -> Iterator[Row]:
    """Measure what a pre-commit hook does for one file."""
    plain = plan.bench.folder / "plain.py"
    plain.write_text(PLAIN)
    texts = ((Path(name), Path(name).read_bytes()) for name in plan.code.files)
    torch = next(
        path for path, data in texts if data.count(b"\n") == SHORT and b"import torch" in data
    )
    rival: list[Command] = (
        [(plan.peers / "bin" / "torchfix", "--select", "ALL", torch)] if plan.peers else []
    )
    commands: list[Command] = [(*COLD, plain), (*COLD, torch), *rival]
    plan.rounds_of(*commands, n=1)
    runs = plan.rounds_of(*commands, n=15)
    yield Row(
        "one-file", "CPU s, 5 lines without torch", "<=", 0.12, tuple(each[0].cpu for each in runs)
    )
    of_torch = tuple(each[1].cpu for each in runs)
    yield Row("one-file", f"CPU s, {SHORT} lines with torch", "<=", 0.4, of_torch, torch.name)
    if rival:
        ratios = tuple(each[1].cpu / each[2].cpu for each in runs)
        yield Row(
            "one-file", f"CPU: torchlint / torchfix, {SHORT} lines with torch", "<=", 0.5, ratios
        )


def memory(plan: Plan) -> Iterator[Row]:
    """Measure the peak of the largest process, on ordinary files and on each of the largest."""
    run = plan.bench.run((*COLD, "--max-file-size", str(SMALL), *plan.code.roots), FOUND)
    yield Row("memory", "peak MiB, files up to 100 kB", "<=", 160, (run.peak_mib,))
    everywhere = code_of(plan.bench, *(path for path in plan.corpus.iterdir() if path.is_dir()))
    sizes = {name: Path(name).stat().st_size for name in everywhere.files}
    large = [
        name
        for name, size in sizes.items()
        if size > SMALL and b"import torch" in Path(name).read_bytes()
    ]
    ratios, peaks = [], []
    for name in sorted(large, key=sizes.__getitem__)[-LARGE_FILES:]:
        listing = plan.bench.folder / "one"
        listing.write_text(name, encoding="utf-8")
        own = plan.bench.run((*COLD, "--max-file-size", "0", name), FOUND)
        parser = plan.bench.run(bare(listing))
        ratios.append(own.peak_mib / parser.peak_mib)
        peaks.append(f"{sizes[name] // 1000} kB {own.peak_mib:.0f}:{parser.peak_mib:.0f}")
    worst = f"worst {max(ratios):.2f}; {', '.join(peaks)} MiB"
    yield Row(
        "memory",
        "peak: torchlint / bare parse, largest files each",
        "<=",
        1.5,
        tuple(ratios),
        worst,
    )


def growth(plan: Plan) -> Iterator[Row]:
    """Measure how the time per line of one file grows with its length."""
    for shape in scaling.SHAPES:
        ratios = []
        for _ in range(plan.rounds):
            ends = [scaling.measure(lines, shape) for lines in (scaling.SMALLEST, LONGEST)]
            if any(end["notes"] for end in ends):
                raise SystemExit(f"{shape}: not analysed: {ends}")
            first, last = (min(end["cpu_s"]) / end["lines"] for end in ends)
            ratios.append(last / first)
        yield Row(
            "scaling", f"CPU per line, 64k lines / 1k lines, {shape}", "<=", 1.2, tuple(ratios)
        )


def larger_library(plan: Plan) -> Iterator[Row]:
    """Measure what twice the files of a library cost, where everything calls everything."""
    folders = []
    for files in (LIBRARY, 2 * LIBRARY):
        folder = plan.bench.folder / f"library-{files}"
        for name, text in library(files).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        folders.append(folder)
    runs = plan.rounds_of(*((*COLD, folder) for folder in folders))
    cpu = "/".join(f"{twice.cpu:.1f}:{once.cpu:.1f}" for once, twice in runs)
    ratios = tuple(twice.cpu / once.cpu for once, twice in runs)
    yield Row(
        "library", f"CPU: {2 * LIBRARY} files / {LIBRARY} files", "<=", 2.15, ratios, f"{cpu} s"
    )


def tree(plan: Plan) -> Iterator[Row]:
    """Measure what it costs that packages lie beside each other."""
    roots = plan.code.roots
    runs = plan.rounds_of((*COLD, *roots), *((*COLD, root) for root in roots))
    sums = [sum(each.cpu for each in alone) for _, *alone in runs]
    cpu = "/".join(f"{run[0].cpu:.1f}:{alone:.1f}" for run, alone in zip(runs, sums, strict=True))
    ratios = tuple(run[0].cpu / alone for run, alone in zip(runs, sums, strict=True))
    of = f"{len(roots)} packages"
    yield Row("tree", f"CPU: {of} in one run / sum of each", "<=", 1.1, ratios, f"{cpu} s")


def real(plan: Plan) -> Iterator[Row]:
    """Measure large packages of the registry, which are downloaded where CORPUS lacks them."""
    for package, version, limit in REAL:
        root = plan.corpus / f"{package}-{version}"
        if not root.is_dir():
            root = downloaded(package, version, plan.bench)
        code = code_of(plan.bench, root)
        (runs,) = plan.rounds_of((*COLD, root), n=1)
        lost = plan.bench.errors().count("took more than")
        name = f"{package} {version}"
        detail = f"{code.lines:,} lines, {runs[0].cpu:.0f} s, -j 1"
        per = runs[0].cpu / code.lines * 100_000
        yield Row("real", f"CPU s per 100k lines, {name}", "<=", limit, (per,), detail)
        yield Row("real", f"files lost to the time limit, {name}", "<=", 0, (float(lost),))
        yield Row("real", f"peak MiB, {name}", "<=", 500, (runs[0].peak_mib,))


def downloaded(package: str, version: str, bench: Bench) -> Path:
    """Unpack a package of the registry, without what it needs, into the folder of the bench."""
    folder = bench.folder / f"{package}-{version}"
    wheels = bench.folder / "wheels" / package
    pip: Command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    bench.run((*pip, "--only-binary", ":all:", "--dest", wheels, f"{package}=={version}"))
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def outputs(plan: Plan) -> Iterator[Row]:
    """Count the runs whose output or exit code is not that of the first."""
    cache = ("--cache-dir", plan.bench.folder / "cache-outputs")
    roots = plan.code.roots
    two: Command = (*CHECK, "-j", "2", *cache, *roots)
    commands: list[Command] = [
        (*COLD, *roots),
        two,
        (*two, "--fail-on", "warning"),
        (*CHECK, "-j", "1", *cache, *roots),
    ]
    (runs,) = plan.rounds_of(*commands, n=1)
    other = sum((run.digest, run.exit) != (runs[0].digest, runs[0].exit) for run in runs)
    yield Row(
        "outputs",
        "differing runs: -j 1, -j 2, cold and warm cache",
        "<=",
        0,
        (float(other),),
        plan.code.name,
    )


PARTS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "one-file": one_file,
    "cold": cold,
    "two-processes": two_processes,
    "warm": warm,
    "memory": memory,
    "scaling": growth,
    "library": larger_library,
    "tree": tree,
    "real": real,
    "outputs": outputs,
    "peers": peers,
}


def versions(peers: Path | None, bench: Bench) -> dict[str, str]:
    """Return the versions of all that takes part."""
    ask = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    names = [(sys.executable, "", ("torchlint", "libcst", "ruff"))]
    if peers is not None:
        names.append(
            (str(peers / "bin" / "python"), " of the peers", ("TorchFix", "flake8", "libcst"))
        )
    found = {}
    for python, of, each in names:
        for name, version in zip(
            each, bench.output((python, "-c", ask, *each)).split(), strict=True
        ):
            found[f"{name}{of if name == 'libcst' else ''}"] = version
    return found


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--peers", type=Path, metavar="VENV")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES), metavar="NAME")
    parser.add_argument(
        "--torchfix-lines", type=int, default=0, metavar="N", help="0: all packages"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", metavar="NAME")
    args = parser.parse_args()
    roots = [path for name in args.packages for path in sorted(args.corpus.glob(f"{name}-[0-9]*"))]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        code = code_of(bench, *roots)
        plan = Plan(
            bench, args.corpus, args.peers, code, args.torchfix_lines or code.lines, args.rounds
        )
        about = environment(versions(args.peers, bench))
        print(f"{len(code.files)} files, {code.name}\n{about}", flush=True)
        rows: list[Row] = []
        for name in args.only:
            if args.peers is None and name == "peers":
                print("peers: left out, as --peers is not given")
                continue
            for row in PARTS[name](plan):
                print(row, flush=True)
                rows.append(row)
    missed = [row for row in rows if not row.met]
    print(f"{len(rows) - len(missed)} of {len(rows)} targets met")
    if args.keep:
        packages = [root.name for root in roots]
        about |= {
            "load_at_end": environment({})["load"],
            "packages": packages,
            "files": len(code.files),
        }
        keep(args.keep, {**about, "lines": code.lines, "rows": [row.as_json() for row in rows]})


if __name__ == "__main__":
    main()
