"""The cache: the same words as without it, and never an old one."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pickle
import random
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from torchlint.base.finding import FileReport
from torchlint.base.trail import ASKED, question_of
from torchlint.catalog.rules import Catalog, load_catalog, load_rules
from torchlint.cli import cached_run, main
from torchlint.cli.session import Session
from torchlint.engine.job import Job
from torchlint.report.formats import FORMATS
from torchlint.run import cache, cache_folder, digests, projects, run, worker
from torchlint.run.cache_folder import CacheFolder, open_folder
from torchlint.run.fork import ForkedWorker
from torchlint.semantic.code.named_tests import Holds, name_of, named, names
from torchlint.semantic.project.project import Project as Elsewhere
from torchlint.semantic.uses.observers import _SCRIPT, _owns_tensors
from torchlint.semantic.values.accelerator import _uses_cuda
from torchlint.settings.files import NAMES
from torchlint.source.discover import MARKS

FILES = {
    "engine.py": """
        import torch

        class Engine:
            def fit(self, loader):
                for batch in loader:
                    self.forward_backward(batch)
        """,
    "net.py": """
        import torch

        from engine import Engine
        from helpers import total

        class Net(Engine):
            def __init__(self):
                self.model = torch.nn.Linear(2, 2).cuda()

            def forward_backward(self, batch):
                loss = self.model(batch.cuda()).sum()
                loss.backward()
                self.last = total(loss)
        """,
    "helpers.py": """
        import torch

        def total(loss):
            return loss.item()
        """,
    "broken.py": "import torch\ndef f(:\n",
    "unused.py": "import torch\nx = 1  # torchlint: ignore[TL101] \x1b\n",
    "plain.py": "print('no torch here')\n",
}
USER = "net.py"
TRUE_HELPER = "def total(loss):\n    return loss.item()\n"
FALSE_HELPER = "def total(loss):\n    return loss.sum()\n"


@dataclass(frozen=True, slots=True)
class Done:
    """What a run came to: its words and exit code, the files that were analysed, and whether it was
    a repetition."""

    code: int
    out: str
    err: str
    analysed: list[str]
    repeated: bool

    @property
    def said(self) -> tuple[int, str, str]:
        return (self.code, self.out, self.err)


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    """Import what an analysis needs."""
    catalog = load_catalog()
    load_rules(sorted(catalog.codes & {info.code for info in catalog.rules}))
    importlib.import_module("torchlint.engine.hits")


class Here:
    """Stands in the place of a worker: this process, which knows of no project as the run begins,
    as a fork would not."""

    def __init__(self, tasks: Sequence[worker.Task], waiting: object) -> None:
        self.tasks = iter(tasks)

    def __enter__(self) -> Here:
        projects.forget()
        return self

    def __exit__(self, *_: object) -> None:
        projects.forget()

    def next(self) -> FileReport:
        task = next(self.tasks)
        report: FileReport = pickle.loads(pickle.dumps(task.analyse(task.job)))
        return report


class Project:
    """A folder of files, checked in this process."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.capsys = capsys
        self.analysed: list[str] = []
        analyse = Session._analyse

        def noted(session: Session, targets: list[object]) -> None:
            self.analysed += [os.path.basename(target.found.filename) for target in targets]  # type: ignore[attr-defined]
            analyse(session, targets)  # type: ignore[arg-type]

        monkeypatch.setattr(Session, "_analyse", noted)
        monkeypatch.setattr(run, "ForkedWorker", Here)
        monkeypatch.chdir(folder)
        monkeypatch.delenv("CI", raising=False)
        # Other tests and editors may write to the folders of the import path meanwhile.
        monkeypatch.setattr(cached_run, "_watched_files", lambda cache: iter(()))
        monkeypatch.setattr(cache, "code_digest", lambda catalog, exact: "this code")

    @property
    def cache(self) -> Path:
        return self.folder / ".torchlint_cache"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def check(self, *arguments: str) -> Done:
        words = ["check", *(arguments or (".",))]
        self.analysed.clear()
        time.sleep(0.02)  # what is as young as the run is not trusted
        repeated = cached_run.look_up(words) is not None
        code = main.run(words)
        said = self.capsys.readouterr()
        return Done(code, said.out, said.err, list(self.analysed), repeated)

    def results(self) -> Path:
        (path,) = self.cache.glob("results-*.json")
        return path

    def forget_runs(self) -> None:
        """Leave only the reports of single files."""
        for path in self.cache.glob("run-*.json"):
            path.unlink()


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Project:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    made = Project(folder, monkeypatch, capsys)
    for name, text in FILES.items():
        made.write(name, text)
    return made


def test_every_format_says_the_same(project: Project) -> None:
    project.check(".", "--select", "ALL")
    for name in FORMATS:
        words = (".", "--select", "ALL", "--output-format", name)
        plain = project.check(*words, "--no-cache")
        assert sorted(plain.analysed) == sorted(FILES)
        single = project.check(*words)
        assert (single.said, single.analysed) == (plain.said, [])
        whole = project.check(*words)
        assert (whole.said, whole.repeated) == (plain.said, True)
    assert "(helpers.py:5)" in project.check(".", "--select", "ALL").out


def test_files_are_named_as_in_this_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.check(".")
    monkeypatch.chdir(project.folder.parent)
    words = ("project/net.py", "project/unused.py")
    plain = project.check(*words, "--no-cache")
    hit = project.check(*words)
    assert (hit.said, hit.analysed) == (plain.said, [])
    assert f"project{os.sep}net.py" in hit.out
    assert f"project{os.sep}helpers.py:5" in hit.out


def test_changed_content_is_seen_whatever_the_times_say(project: Project) -> None:
    for _ in range(2):
        project.check()
    path = project.folder / "helpers.py"
    state = path.stat()
    for stamp in (state.st_mtime_ns, 0, state.st_mtime_ns + 10**18):
        text = path.read_text()
        path.write_text(
            text.replace("item", "mean") if "item" in text else text.replace("mean", "item")
        )
        os.utime(path, ns=(stamp, stamp))
        assert path.stat().st_size == state.st_size
        done = project.check()
        assert not done.repeated
        assert set(done.analysed) == {"helpers.py", USER}
        assert ("total(loss)` reads" in done.out) == ("item" in path.read_text())


def test_a_touched_file_is_not_analysed_again(project: Project) -> None:
    plain = project.check()
    for stamp in (0, 10**18, 4 * 10**18):
        os.utime(project.folder / USER, ns=(stamp, stamp))
        done = project.check()
        assert (done.said, done.analysed, done.repeated) == (plain.said, [], False)


def test_states_are_trusted_only_of_settled_files(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheFolder, "settled", lambda folder, state: False)
    project.check()
    done = project.check()
    assert (done.analysed, done.repeated) == ([], False)
    known = json.loads(project.results().read_bytes().partition(b"\n")[2])["known"]
    assert known == {}


def test_git_rule(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "cache"), named=False)
    assert isinstance(folder, CacheFolder)
    path = tmp_path / "young.py"
    path.write_text("")
    assert not folder.settled(path.stat())
    time.sleep(0.02)
    later = open_folder(str(tmp_path / "cache"), named=False)
    assert isinstance(later, CacheFolder)
    assert later.settled(path.stat())
    # The clock went back after the file was changed: its time is no proof of anything.
    later.started -= 10**12
    assert not later.settled(path.stat())


def test_a_file_that_now_satisfies_an_import(project: Project) -> None:
    project.write(
        "user.py",
        FILES[USER].replace("from helpers", "from later").replace("class Net", "class Other"),
    )
    arguments = (".", "--output-format", "full")
    assert "user.py:14" not in project.check(*arguments).out
    assert project.check(*arguments).repeated
    project.write("later.py", "import torch\n" + TRUE_HELPER)
    done = project.check(*arguments)
    assert sorted(done.analysed) == ["later.py", "user.py"]
    assert done.said == project.check(*arguments, "--no-cache").said
    assert "user.py:14" in done.out


def test_a_package_that_comes_first(project: Project) -> None:
    project.check("net.py")
    (project.folder / "helpers").mkdir()
    project.write("helpers/__init__.py", "import torch\n" + FALSE_HELPER)
    done = project.check("net.py")
    assert done.analysed == [USER]
    assert "total(loss)` reads" not in done.out


def test_a_module_that_goes(project: Project) -> None:
    assert "total(loss)` reads" in project.check("net.py").out
    (project.folder / "helpers.py").unlink()
    done = project.check("net.py")
    assert done.analysed == [USER]
    assert "total(loss)` reads" not in done.out


def test_what_a_helper_rests_on_counts_for_its_users(project: Project) -> None:
    project.write(
        "engine.py", "import torch\nfrom base import Base\nclass Engine(Base):\n    pass\n"
    )
    project.write("base.py", FILES["engine.py"].replace("Engine", "Base"))
    assert project.check("net.py").analysed == [USER]
    assert project.check("net.py", "--select", "TL101").analysed == [USER]
    assert project.check("net.py").analysed == []
    project.write("base.py", "class Base:\n    pass\n")
    done = project.check("net.py")
    assert done.analysed == [USER]
    assert done.said == project.check("net.py", "--no-cache").said


def test_a_file_that_imports_from_an_unchanged_one_counts_for_it(project: Project) -> None:
    amp = (
        "import torch\nfrom torch.cuda.amp import autocast\ndef f(x):\n    with autocast():\n  "
        "      return x\n"
    )
    project.write("steps.py", amp)
    project.write("requirements.txt", "torch>=2.4\n")
    arguments = ("steps.py", "--output-format", "json")
    alone = project.check(*arguments)
    assert '"applicability": "safe"' in alone.out
    project.check(*arguments)
    project.write("sub/user.py", "from steps import autocast\n")
    beside = project.check(*arguments)
    assert '"applicability": "unsafe"' in beside.out
    assert beside.said == project.check(*arguments, "--no-cache").said
    (project.folder / "sub" / "user.py").unlink()
    assert project.check(*arguments).said == alone.said


@pytest.mark.parametrize("changed", ["engine.py", "helpers.py"])
def test_what_a_worker_remembers_counts_for_every_file(project: Project, changed: str) -> None:
    for name in ("a.py", "b.py", "c.py"):
        project.write(name, FILES[USER])
    project.check()
    project.write(changed, FILES[changed].replace("import torch", "import torch  # changed"))
    # The callers of `total` are methods of classes whose base is in engine.py.
    assert sorted(project.check().analysed) == sorted(
        {"a.py", "b.py", "c.py", USER, "helpers.py", changed}
    )


def test_what_lies_above_the_files(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("sub/more.py", FILES["unused.py"])
    project.check("sub")
    assert project.check("sub").repeated
    (project.folder / ".git").rename(project.folder / "no_git")
    assert not project.check("sub").repeated
    # Configurations are read before the time of the run is known, so they have to be older still.
    monkeypatch.setattr(cache_folder, "_COARSE", 10**13)
    project.write("torchlint.toml", "ignore = ['TL101']\n")
    project.check("sub")
    assert not project.check("sub").repeated
    monkeypatch.setattr(cache_folder, "_COARSE", 0)
    project.check("sub")
    assert project.check("sub").repeated


def test_settings_that_reach_the_analysis(project: Project) -> None:
    project.check()
    assert project.check(".", "--select", "TL101").analysed
    assert project.check(".", "--accelerator", "cpu").analysed
    assert project.check(".", "--target-torch", "2.0").analysed
    assert not project.check(".", "--fail-on", "error", "--jobs", "1").analysed
    project.write("torchlint.toml", "[per-file-ignores]\n'*.py' = ['TL101']\n")
    done = project.check()
    assert done.analysed
    assert "TL101" not in done.out.replace("[TL101]", "").replace("no TL101", "")


def test_severity_comes_after_the_cache(project: Project) -> None:
    project.check()
    done = project.check(".", "--config", "severity = {TL101 = 'info'}", "--output-format", "json")
    assert done.analysed == []
    assert {item["severity"] for item in json.loads(done.out) if item["code"] == "TL101"} == {
        "info"
    }


@pytest.mark.parametrize(
    "name", ["torchlint.toml", "pyproject.toml", "sub/.torchlint.toml", ".gitignore"]
)
def test_new_configuration_is_seen(project: Project, name: str) -> None:
    project.write("sub/more.py", FILES["unused.py"])
    project.check()
    assert project.check().repeated
    text = {
        "pyproject.toml": "[tool.torchlint]\nignore = ['TL001']\n",
        ".gitignore": "unused.py\nsub\n",
    }
    project.write(name, text.get(name, "ignore = ['TL001']\n"))
    done = project.check()
    assert not done.repeated
    assert "more.py" not in done.out


def test_new_files_and_folders_are_seen(project: Project) -> None:
    project.check()
    assert project.check().repeated
    project.write("deep/er/new.py", FILES["broken.py"])
    assert f"deep{os.sep}er{os.sep}new.py" in project.check().out
    project.check()
    assert project.check().repeated
    (project.folder / "deep" / "er" / "new.py").rename(project.folder / "deep" / "er" / "other.py")
    assert "other.py" in project.check().out


def test_another_version_or_rule_set(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.check()
    monkeypatch.setattr(cache, "code_digest", lambda catalog, exact: "another")
    monkeypatch.setattr(cached_run, "__version__", "another")
    assert sorted(project.check().analysed) == sorted(FILES)


def test_code_digest_knows_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "rules/transfer/one.py",
        "semantic/two.py",
        "engine/three.py",
        "rule.py",
        "cli/four.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    monkeypatch.setattr(cache.torchlint, "__file__", str(tmp_path / "__init__.py"))
    for exact in (False, True):
        before = cache.code_digest(Catalog(()), exact=exact)
        (tmp_path / "cli" / "four.py").write_text("other words")
        assert cache.code_digest(Catalog(()), exact=exact) == before
        for name in ("rules/transfer/one.py", "semantic/two.py", "engine/three.py", "rule.py"):
            (tmp_path / name).write_text((tmp_path / name).read_text() + "1")
            assert cache.code_digest(Catalog(()), exact=exact) != before
            before = cache.code_digest(Catalog(()), exact=exact)
        (tmp_path / "rules" / "transfer" / f"new{exact}.py").write_text("")
        assert cache.code_digest(Catalog(()), exact=exact) != before


def test_the_last_run_rests_on_torchlint_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = project.folder.parent / "own.py"
    own.write_text("1")
    monkeypatch.setattr(cached_run, "_watched_files", lambda cache: iter((str(own),)))
    project.check()
    assert project.check().repeated
    own.write_text("2")
    assert not project.check().repeated


def test_own_files_and_import_path_are_watched(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    watched = set(cached_run._watched_files(cache.Cache(load_catalog(), named=False)))
    assert {entry for entry in sys.path if entry} <= watched
    assert {cached_run.__file__, *(info.path for info in load_catalog().rules)} <= watched


def test_builds_read_every_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.check()
    monkeypatch.setenv("CI", "true")
    read: list[str] = []
    digest_of = digests.digest_of
    monkeypatch.setattr(
        digests, "digest_of", lambda path: read.append(os.path.basename(path)) or digest_of(path)
    )
    project.check()
    done = project.check()
    assert (done.repeated, done.analysed) == (False, [])
    assert set(FILES) <= set(read)


def test_files_are_not_read_where_their_state_tells(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.check()
    read: list[str] = []
    monkeypatch.setattr(digests, "digest_of", lambda path: read.append(path) or "")
    assert project.check(".", "--output-format", "json").analysed == []
    assert read == []


def wrong_entries(entry: list[Any]) -> list[object]:
    """Return stored reports of which some part is not what it should be."""
    finding = entry[2][0]
    wrong: list[object] = [
        None,
        [],
        entry[:4],
        [entry[0], [99], *entry[2:]],
        [entry[0], "x", *entry[2:]],
    ]
    wrong += [
        [*entry[:2], [finding[:3]], [], []],
        [*entry[:3], [["nonsense", "", 1]], []],
        [*entry[:4], [[1, 2]]],
    ]
    for index in range(len(finding)):
        wrong.append(
            [*entry[:2], [[*finding[:index], {"a": 1}, *finding[index + 1 :]]], *entry[3:]]
        )
    return wrong


def test_what_is_no_report_is_a_miss(project: Project) -> None:
    plain = project.check("net.py")
    path = project.results()
    value = json.loads(path.read_bytes().partition(b"\n")[2])
    folder = open_folder(str(project.cache), named=False)
    assert isinstance(folder, CacheFolder)
    for case in wrong_entries(value["files"][USER]):
        project.forget_runs()
        assert folder.write(path.name, {**value, "files": {USER: case}})
        done = project.check("net.py")
        assert (done.said, done.analysed) == (plain.said, [USER]), case


def test_no_cache_leaves_nothing(project: Project) -> None:
    for words in (
        ("check", ".", "--no-cache"),
        ("check", "missing.py"),
        ("check", ".", "--fix"),
        ("check", ".", "--diff"),
        ("check", ".", "--show-files"),
        ("fix", "."),
    ):
        main.run(words)
        assert not project.cache.exists(), words


def test_standard_input_is_never_cached(project: Project) -> None:
    text = textwrap.dedent(FILES["unused.py"])
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-m", "torchlint", "check", "-", "--stdin-filename", "net.py"],
            input=text.encode(),
            cwd=project.folder,
            check=False,
            capture_output=True,
        )
    assert not project.cache.exists()
    assert cached_run.look_up(["check", "-"]) is None


def test_fix_is_not_misled(project: Project) -> None:
    project.check()
    project.check()
    assert "unused.py" in project.check(".", "--diff").out
    main.run(["fix", ".", "--apply"])
    assert "ignore" not in (project.folder / "unused.py").read_text()
    assert "TL001" not in project.check().out


def test_a_failure_is_not_cached(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ForkedWorker", ForkedWorker)
    done = project.check("net.py", "--timeout", "0.000001")
    assert done.code == 2
    assert project.check("net.py").analysed == [USER]


def test_named_folder(project: Project) -> None:
    words = (".", "--cache-dir", "../elsewhere/deep")
    plain = project.check(*words)
    place = project.folder.parent / "elsewhere" / "deep"
    assert (place / ".gitignore").read_text() == "*\n"
    assert (
        (place / "CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    )
    assert not project.cache.exists()
    assert project.check(*words).repeated
    # A build may bring the folder back from a store of its own.
    copy = place.rename(place.parent / "moved")
    done = project.check(".", "--cache-dir", str(copy))
    assert (done.said, done.analysed) == (plain.said, [])


def test_projects_that_share_a_folder_have_each_their_own_torch(project: Project) -> None:
    """What a report rests on is the version, and the project's place; not which file names the
    version."""
    text = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    for name, torch in (("old", "torch>=2.3\n"), ("new", "torch>=2.4\n")):
        (project.folder / name / ".git").mkdir(parents=True)
        project.write(f"{name}/train.py", text)
        project.write(f"{name}/requirements.txt", torch)
    words = ("--cache-dir", "../shared", "--select", "TL408", "--output-format", "json")

    def has_fix(name: str) -> tuple[bool, bool]:
        done = project.check(name, *words)
        (finding,) = json.loads(done.out)
        return finding["fix"] is not None, "train.py" in done.analysed

    assert [has_fix("old"), has_fix("new")] == [(False, True), (True, True)]
    assert [has_fix("old"), has_fix("new")] == [(False, False), (True, False)]
    (project.folder / "old" / "requirements.txt").unlink()
    project.write("old/environment.yml", "dependencies:\n  - pytorch>=2.3\n")
    assert has_fix("old") == (False, False)
    project.write("old/environment.yml", "dependencies:\n  - pytorch>=2.4\n")
    assert has_fix("old") == (True, True)


def test_folder_of_the_configuration(project: Project) -> None:
    project.write("torchlint.toml", "cache-dir = 'kept'\n")
    project.check()
    assert list((project.folder / "kept").glob("results-*"))
    assert not project.cache.exists()
    assert (
        f"cache-dir = {json.dumps(str(project.folder / 'kept'))}"
        in project.check(".", "--show-settings").out
    )


def test_results_of_gone_files_go(project: Project) -> None:
    project.check()
    (project.folder / "plain.py").unlink()
    project.write("fresh.py", "x = 1\n")
    project.check("fresh.py")
    value = json.loads(project.results().read_bytes().partition(b"\n")[2])
    assert sorted(value["files"]) == sorted({*FILES, "fresh.py"} - {"plain.py"})
    assert not any(path.endswith("plain.py") for path in value["known"])


def test_files_of_a_kind_are_limited(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "cache"), named=False)
    assert isinstance(folder, CacheFolder)
    for number in range(40):
        assert folder.write(f"results-{number:032x}.json", {})
        os.utime(tmp_path / "cache" / f"results-{number:032x}.json", (number, number))
    names = sorted(path.name for path in (tmp_path / "cache").glob("results-*"))
    assert names == [f"results-{number:032x}.json" for number in range(24, 40)]


def test_two_runs_add_up(project: Project) -> None:
    project.check("net.py")
    project.check("unused.py")
    assert project.check("net.py", "unused.py").analysed == []


def test_larger_files_than_allowed_now(project: Project) -> None:
    project.check()
    done = project.check(".", "--max-file-size", "20")
    assert done.said == project.check(".", "--max-file-size", "20", "--no-cache").said
    assert "--max-file-size" in done.out + done.err


def test_links_are_followed_to_what_they_hold_now(project: Project) -> None:
    outside = project.folder.parent / "outside.py"
    outside.write_text(textwrap.dedent(FILES["broken.py"]))
    (project.folder / "link.py").symlink_to(outside)
    assert "link.py" in project.check().out
    assert project.check().repeated
    outside.write_text("x = 1\n")
    done = project.check()
    assert done.analysed == ["link.py"]
    assert "link.py" not in done.out


def test_a_warm_run_imports_little(project: Project) -> None:
    code = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
from torchlint.cli import cached_run
cached_run._watched_files = lambda cache: iter(())
from torchlint.cli.main import run
run(["check", ".", *sys.argv[1:]])
print(*(name for name in ("libcst", "pebble", "torchlint.run.run", "torchlint.cli.check") if name in sys.modules))
"""  # noqa: E501

    def modules(*words: str) -> list[str]:
        time.sleep(0.02)
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=project.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()[-1].split()

    modules("-q")
    assert modules("-q") == []
    assert modules("-q", "--output-format", "json") == ["torchlint.cli.check"]


@pytest.mark.parametrize("words", [("-o", "../report"), ("--output-format", "json:../report")])
def test_a_run_that_writes_a_report_is_not_repeated(
    project: Project, words: tuple[str, ...]
) -> None:
    """What it said is not all that it did."""
    report = project.folder.parent / "report"
    for _ in range(3):
        assert not project.check(".", *words).repeated
        assert report.read_text()
        report.unlink()
    project.check()
    assert project.check().repeated, "so that the above says something"


def test_gitlabs_folder_decides_on_its_report(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    words = (".", "--output-format", "gitlab")
    project.check(*words)
    before = project.check(*words)
    assert before.repeated
    monkeypatch.setenv("CI_PROJECT_DIR", str(project.folder.parent))
    done = project.check(*words)
    assert not done.repeated
    assert '"path": "project/' in done.out
    assert '"path": "project/' not in before.out


def test_marks_hold_the_names_of_configurations() -> None:
    assert {".gitignore", *NAMES} == MARKS


def test_clean(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.check()
    old = project.write("sub/.torchlint-abc.tmp", "left")
    os.utime(old, (1, 1))
    young = project.write(".torchlint-def.tmp", "in use")
    assert main.run(["clean"]) == 0
    assert not project.cache.exists()
    assert (old.exists(), young.exists()) == (False, True)
    said = capsys.readouterr().out
    assert str(project.cache) in said
    assert "1 temporary file" in said
    assert main.run(["clean", "."]) == 0
    assert capsys.readouterr().out == ""


def test_clean_takes_no_path_that_is_not_there(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.check()
    assert main.run(["clean", ".", "none"]) == 2
    assert "none: No such file or directory" in capsys.readouterr().err
    assert project.cache.exists()


def test_clean_leaves_what_is_not_ours(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.check()
    (project.cache / "notes.txt").write_text("mine")
    assert main.run(["clean"]) == 1
    assert [path.name for path in project.cache.iterdir()] == ["notes.txt"]
    assert "it holds other files" in capsys.readouterr().err
    target = project.folder.parent / "precious"
    target.mkdir()
    (target / "CACHEDIR.TAG").write_bytes(cache_folder.TAG)
    (project.cache / "notes.txt").unlink()
    project.cache.rmdir()
    project.cache.symlink_to(target)
    assert main.run(["clean"]) == 1
    assert (target / "CACHEDIR.TAG").exists()


def test_what_is_too_large_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_folder(str(tmp_path / "cache"), named=True)
    assert isinstance(folder, CacheFolder)
    monkeypatch.setattr(cache_folder, "LARGEST", 1000)
    assert folder.write("results-00000000000000000000000000000000.json", {"files": {}})
    assert not folder.write("results-11111111111111111111111111111111.json", {"files": "x" * 1000})
    assert folder.read("results-00000000000000000000000000000000.json") == {"files": {}}
    monkeypatch.setattr(cache_folder, "LARGEST", 10)
    assert folder.read("results-00000000000000000000000000000000.json") is None
    assert "not used" in folder.trouble


def test_a_very_long_report_is_not_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_run, "_LARGEST", 10)
    for _ in range(3):
        assert not project.check().repeated
    assert not list(project.cache.glob("run-*.json"))


# -- questions about all files ---------------------------------------------------------------------

HOT = "import torch\n\n\ndef total(loss):\n    return loss.item()\n"
TRAIN = """
    import torch

    from heart import total


    def train(model, loader, optimizer):
        for batch in loader:
            loss = model(batch.cuda()).sum()
            loss.backward()
            optimizer.step()
            {inside}
    """
FAR = """
    import torch


    def show(values):
        return values.sum()
    """


def of_callers(project: Project) -> None:
    """Write a project in which one file's findings depend on who calls its function."""
    for name in FILES:
        (project.folder / name).unlink()
    project.write("heart.py", HOT)
    project.write("train.py", TRAIN.format(inside="total(loss)"))
    for name in ("far.py", "away.py", "apart.py"):
        project.write(name, FAR)
    project.write("deep/tool.py", FAR + "\n\n    def tell(x):\n        print(x)\n")


JSON = (".", "--output-format", "json")
BY_PROGRAM = ["heart.py", "new.py", "train.py"]
"""Where a file makes a program of the project, what nothing uses there is an info."""


def same(project: Project) -> Done:
    """Check with the cache, see that it says what a run without says, and return that run."""
    done = project.check(*JSON)
    analysed = list(done.analysed)
    assert done.said == project.check(*JSON, "--no-cache").said
    return Done(done.code, done.out, done.err, analysed, done.repeated)


@pytest.mark.parametrize(
    ("name", "text", "analysed"),
    [
        ("far.py", FAR + "    # a word\n", ["far.py"]),
        ("far.py", FAR + "\n\n    def other(x):\n        return x.item()\n", ["far.py"]),
        ("deep/tool.py", FAR + "\n\n    def tell(x):\n        print(x, 1)\n", ["tool.py"]),
        ("new.py", FAR, ["new.py"]),
        ("far.py", "import torch\nfrom heart import total\nx = total(1)\n", ["far.py", "heart.py"]),
        ("new.py", "import torch\nfrom heart import total\nx = total(1)\n", ["heart.py", "new.py"]),
        ("new.py", "import torch\nfrom heart import total\ntotal(1)\n", BY_PROGRAM),
        ("new.py", "import heart\n", ["new.py"]),
        ("train.py", TRAIN.format(inside="total(loss)  # a word"), ["heart.py", "train.py"]),
        ("train.py", TRAIN.format(inside="pass"), ["heart.py", "train.py"]),
        ("heart.py", HOT + "\n# a word\n", ["heart.py", "train.py"]),
    ],
)
def test_an_edit_costs_whom_it_concerns(
    project: Project, name: str, text: str, analysed: list[str]
) -> None:
    """A file is analysed again where it imports the changed one, or is called in there, now or
    before; not where it only asked who calls it."""
    of_callers(project)
    assert "heart.py" in same(project).out
    project.write(name, text)
    assert sorted(same(project).analysed) == analysed
    assert same(project).analysed == []


def test_a_file_that_goes_costs_whom_it_called(project: Project) -> None:
    of_callers(project)
    same(project)
    (project.folder / "far.py").unlink()
    assert same(project).analysed == []
    (project.folder / "train.py").unlink()
    done = same(project)
    assert done.analysed == ["heart.py"]
    assert "heart.py" not in done.out


def test_another_files_accelerator_counts_by_what_it_says(project: Project) -> None:
    project.write("moved.py", TRAIN.replace(".cuda()", "").format(inside="print(loss.item())"))
    project.write("sets.py", "import torch\nimport moved\n")
    assert "moved.py" not in same(project).out
    project.write("sets.py", "import torch\nimport moved\nx = torch.ones(1).cuda()\n")
    done = same(project)
    assert sorted(done.analysed) == ["moved.py", "sets.py"]
    assert "moved.py" in done.out
    project.write("sets.py", "import torch\nimport moved\nx = torch.ones(2).cuda()\n")
    assert same(project).analysed == ["sets.py"]


def test_one_file_is_checked_as_all_are(project: Project) -> None:
    """What is known of one file holds for a run on all, and the other way round."""
    of_callers(project)
    words = ("heart.py", "--output-format", "json")
    for inside in ("total(loss)", "pass", "print(total(loss))"):
        project.write("train.py", TRAIN.format(inside=inside))
        assert project.check(*words).analysed == ["heart.py"]
        assert "heart.py" not in same(project).analysed
        assert project.check(*words).said == project.check(*words, "--no-cache").said


def test_files_behind_links_count_where_imports_lead_there(project: Project) -> None:
    """The folders that are listed hold no links; what a package behind one says is seen."""
    of_callers(project)
    beyond = project.folder.parent / "beyond"
    beyond.mkdir()
    (project.folder / "linked").symlink_to(beyond)
    (beyond / "again.py").write_text("from heart import total\n")
    calls = TRAIN.format(inside="total(loss)").replace("from heart", "from linked.again")
    project.write("train.py", calls)
    assert "heart.py" in same(project).out
    project.write("far.py", FAR + "    # a word\n")
    assert same(project).analysed == ["far.py"]
    (beyond / "again.py").write_text("def total(loss):\n    return loss\n")
    done = same(project)
    assert {"heart.py", "train.py"} <= {*done.analysed}
    assert "heart.py" not in done.out
    (beyond / "again.py").write_text("from heart import total\n")
    assert "heart.py" in same(project).out


def _without_end(job: Job) -> FileReport:
    """Use up all the time that a worker has."""
    while True:
        pass


def test_an_answer_that_cannot_be_had_again_is_none(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_callers(project)
    project.check(*JSON)
    monkeypatch.setattr(cache, "_PATIENCE", 0.2)
    monkeypatch.setattr(run, "ForkedWorker", ForkedWorker)
    monkeypatch.setattr(worker, "confirm_job", _without_end)
    project.write("far.py", FAR + "    # a word\n")
    assert {"far.py", "heart.py", "train.py"} <= set(same(project).analysed)


def test_a_cache_names_no_function_of_others(project: Project) -> None:
    for name in ("os:system", "torchlint.run.digests:digest_of", "torchlint.semantic.x:y", "z"):
        assert named((name, "echo")) is None
    assert named(("torchlint.semantic.project.project:copy",)) is None
    assert question_of("/p", ASKED + "{") is None
    assert question_of("/p", ASKED + "5") is None
    assert question_of("/p", ASKED + '["true", "often", 1]') is None
    assert (
        Elsewhere("/", lambda path: None, lambda *_: None).files.ask(("nonsense", "/p", "x"))
        is None
    )


def test_every_test_of_other_files_has_a_name() -> None:
    """One without would have each report rest on each file."""
    for test in (Holds(_SCRIPT), functools.partial(names, "stack"), _owns_tensors, _uses_cuda):
        name = name_of(test)
        assert name is not None
        again = named(name)
        assert again is not None
        assert name_of(again) == name
        assert again("@torch.jit.script") == test("@torch.jit.script")
    assert name_of(lambda text: True) is None
    assert name_of(functools.partial(names, 1)) is None  # type: ignore[arg-type]


class Edits:
    """A project of several files that random edits change.

    Args:
        project: where it lies.
        chance: what is thrown.
    """

    FUNCTIONS: ClassVar = {
        "total": "def {0}(loss):\n    return loss.item()\n",
        "shown": "def {0}(x):\n    print(x.mean())\n    return x\n",
        "picked": "def {0}(x):\n    if x.sum() > 0:\n        return x\n    return -x\n",
        "made": "def {0}(x):\n    y = torch.zeros(3).to(x.device)\n    return x + y\n",
        "ran": "def {0}(model, x):\n    model.eval()\n    return model(x).argmax(1)\n",
    }
    METHODS: ClassVar = {
        "score_batch": "    def {0}(self, x):\n        return self.net(x).max().item()\n",
        "update": "    def {0}(self, x):\n        self.last = x.item()\n",
    }

    def __init__(self, project: Project, chance: random.Random) -> None:
        self.project = project
        self.chance = chance
        self.files: dict[str, list[str]] = {}
        self.home: dict[str, str] = {}
        for name in self.FUNCTIONS:
            self._define(name, self._file())
        for name in ("steps.py", "train.py", "pkg/loop.py"):
            self.files.setdefault(name, []).append(self._call())
        self._class()

    def write(self) -> None:
        """Bring the disk to what the project holds now."""
        for name, parts in self.files.items():
            text = "import torch\n" + "\n\n".join(["", *parts])
            path = self.project.folder / name
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

    def edit(self) -> str:
        """Change something; return what."""
        edits = (
            *(self._add,) * 4,
            *(self._remove,) * 3,
            self._rename,
            self._comment,
            self._new,
            self._delete,
            self._class,
            self._moves,
        )
        edit = self.chance.choice(edits)
        edit()
        self.write()
        return edit.__name__

    def _file(self) -> str:
        return self.chance.choice(("heart.py", "body.py", "pkg/parts.py", "pkg/loop.py"))

    def _define(self, name: str, where: str) -> None:
        self.home[name] = where
        self.files.setdefault(where, []).append(self.FUNCTIONS[name].format(name))

    def _call(self) -> str:
        """Return a function that calls one of the project's, in one of many ways."""
        name = self.chance.choice(list(self.home))
        module = self.home[name].removesuffix(".py").replace("/", ".")
        given = self.chance.choice(
            ("batch", "loss", "torch.ones(2)", "batch.cuda()", "batch.cpu()")
        )
        given = f"model, {given}" if name == "ran" else given
        called = f"{name}({given})"
        bound = self.chance.choice(
            (
                f"from {module} import {name}",
                f"from {module} import {name} as other",
                f"import {module}",
                f"from {module} import *",
            )
        )
        if bound.endswith("other"):
            called = f"other({given})"
        elif bound.startswith("import"):
            called = f"{module}.{called}"
        if self.chance.random() < 0.3:
            method = self.chance.choice(list(self.METHODS))
            called = f"{self.chance.choice(('model', 'thing'))}.{method}({given})"
        around = self.chance.choice(
            (
                "    {0}\n",
                "    for batch in loader:\n        loss = model(batch)\n        {0}\n",
                "    with torch.no_grad():\n        {0}\n",
                "    with torch.no_grad():\n        for batch in loader:\n            {0}\n",
                "    if verbose:\n        {0}\n",
            )
        )
        kept = f"kept_{self.chance.randrange(3)}"
        head = self.chance.choice(
            (
                "def train(model, loader, batch=None, loss=None, verbose=False):\n",
                f"def {kept}(model, batch, loader=(), loss=None, verbose=False):\n",
                "@torch.no_grad()\ndef test(model, loader, batch=None, loss=None, verbose=0):\n",
            )
        )
        if kept in head:  # it may come to be called itself
            self.home[kept] = self._file()
        called = self.chance.choice(("{0}", "x = {0}")).format(called)
        return f"{bound}\n\n{head}{around.format(called)}"

    def _add(self) -> None:
        self.files[self.chance.choice(list(self.files))].append(self._call())

    def _remove(self) -> None:
        parts = self.files[self.chance.choice(list(self.files))]
        if parts:
            parts.pop(self.chance.randrange(len(parts)))

    def _rename(self) -> None:
        old = self.chance.choice(list(self.home))
        new = self.chance.choice((old + "_", "total", "shown", "step"))
        for parts in self.files.values():
            if self.chance.random() < 0.7:
                parts[:] = [re.sub(rf"\b{old}\b", new, part) for part in parts]
        self.home[new] = self.home.pop(old)

    def _comment(self) -> None:
        self.files[self.chance.choice(list(self.files))].append(
            self.chance.choice(("# a word", "# torch.cuda.is_available()", "x = 1", "import heart"))
        )

    def _new(self) -> None:
        number = self.chance.randrange(20)
        folder = self.chance.choice(("", "pkg/", "tests/", "pkg/deep/"))
        self.files[f"{folder}new_{number}.py"] = [self._call() for _ in range(2)]

    def _delete(self) -> None:
        if len(self.files) > 4:
            name = self.chance.choice(list(self.files))
            del self.files[name]
            (self.project.folder / name).unlink(missing_ok=True)

    def _class(self) -> None:
        methods = [text.format(name) for name, text in self.METHODS.items() if self._maybe()]
        base = self.chance.choice(("torch.nn.Module", "object"))
        made = "    def __init__(self):\n        self.net = torch.nn.Linear(2, 2).cuda()\n"
        name = f"Net{self.chance.randrange(3)}"
        self.files.setdefault(self._file(), []).append(
            f"class {name}({base}):\n" + "\n".join([made, *methods])
        )

    def _maybe(self) -> bool:
        return self.chance.random() < 0.7

    def _moves(self) -> None:
        """Move a part from one file to another."""
        here, there = self.chance.choices(list(self.files), k=2)
        if self.files[here]:
            self.files[there].append(self.files[here].pop())


def by_file(project: Project, out: str) -> dict[str, list[Any]]:
    """Return the findings of a report in JSON by file."""
    found: dict[str, list[Any]] = {}
    for each in json.loads(out):
        name = Path(each["filename"]).relative_to(project.folder).as_posix()
        found.setdefault(name, []).append(each)
    return found


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 12), *(pytest.param(seed, 60, marks=pytest.mark.slow) for seed in range(1, 3))],
)
def test_random_edits_are_never_answered_with_what_was(
    project: Project, seed: int, steps: int
) -> None:
    """Whatever is edited, a run with the cache says what one without says; and edits in one file
    change what is found in others, without all being analysed."""
    for name in FILES:
        (project.folder / name).unlink()
    edits = Edits(project, random.Random(seed))
    edits.write()
    before = same(project)
    spared = elsewhere = 0
    for step in range(steps):
        files = {name: list(parts) for name, parts in edits.files.items()}
        what = edits.edit()
        if step % 3 == 0:
            alone = edits.chance.choice(list(edits.files))
            words = (alone, "--output-format", "json")
            assert project.check(*words).said == project.check(*words, "--no-cache").said, what
        done = same(project)
        untouched = {name for name, parts in edits.files.items() if files.get(name) == parts}
        old, new = by_file(project, before.out), by_file(project, done.out)
        elsewhere += any(old.get(name) != new.get(name) for name in untouched)
        spared += len(edits.files) - len(done.analysed)
        before = done
    assert elsewhere, "so that the above says something"
    assert spared > steps


def test_what_says_how_to_install_a_project_concerns_what_nothing_uses(project: Project) -> None:
    """Whoever installs a package may call what its own program does not."""
    text = TRAIN.format(inside="print(loss.item())") + "\n    def given():\n        return 1\n"
    project.write("nets.py", text)
    project.write("run.py", "import sys\nfrom nets import given\nprint(sys.argv, given())\n")

    def graded() -> set[str]:
        found = json.loads(same(project).out)
        return {each["severity"] for each in found if each["code"] == "TL105"}

    assert graded() == {"info"}
    project.write("setup.cfg", "[metadata]\ndescription = nets\n[options]\npackages = find:\n")
    assert graded() == {"warning"}
    project.write("setup.cfg", "[flake8]\n")
    assert graded() == {"info"}


@pytest.mark.parametrize("made_of", ["lib/.gitignore", "lib/plots.pyx", "lib/plots.py.in"])
def test_what_makes_a_missing_module_concerns_who_imports_it(
    made_of: str, project: Project
) -> None:
    """What is no Python counts as well."""
    project.write("lib/__init__.py", "")
    project.write("lib/nets.py", "class Net:\n    pass\n")
    project.write("lib/data.py", "from lib.nets import Net\n")
    project.write("all.py", "import lib.nets, lib.data\n")
    imports = "import lib.nets, lib.plots, lib.data"
    text = TRAIN.replace("from heart import total", imports).format(inside="print(loss.item())")
    project.write("train.py", text)

    def graded() -> set[str]:
        found = json.loads(same(project).out)
        return {each["severity"] for each in found if each["filename"].endswith("train.py")}

    assert graded() == {"info"}
    project.write(made_of, "plots.*\n")
    assert "warning" in graded()
    (project.folder / made_of).unlink()
    assert graded() == {"info"}
