"""A repository's configuration can name programs for git to run; none of them is run, and nothing
is fetched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import torchlint
from torchlint.base.errors import UsageError
from torchlint.source.changes import changes_since
from torchlint.source.git import GitError, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs sh")

PROGRAM = "#!/bin/sh\necho \"$0 $@\" >> '{marker}'\n"
KEYS = """
alias.diff alias.ls-files alias.rev-parse browser.evil.cmd core.alternateRefsCommand core.askPass core.editor
core.fsmonitor core.gitProxy core.hooksPath core.pager core.sshCommand credential.helper credential.https://a.helper
diff.evil.command diff.evil.textconv diff.external difftool.evil.cmd filter.evil.clean filter.evil.process
filter.evil.smudge filter.e.vil.clean gpg.program gpg.ssh.program gpg.x509.program gpg.ssh.defaultKeyCommand
gui.diffcmd hook.evil.command include.path interactive.diffFilter man.evil.cmd merge.evil.driver mergetool.evil.cmd
pager.config pager.diff pager.ls-files pager.merge-base pager.rev-parse remote.origin.proxy
remote.origin.receivepack remote.origin.uploadpack remote.origin.vcs sendemail.smtpServer sequence.editor
submodule.sub.update trailer.evil.command trailer.evil.cmd uploadpack.packObjectsHook web.browser
""".split()  # noqa: E501
"""Every key of git-config(1) that names a program, whatever runs it."""
HOOKS = (
    "fsmonitor-watchman post-checkout post-index-change pre-auto-gc pre-commit "
    "reference-transaction"
).split()


class Lab:
    """A hostile clone with one changed file, and what its programs would write to."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "marker"
        self.program = folder / "program"
        self.program.write_text(PROGRAM.format(marker=self.marker))
        self.program.chmod(0o755)
        self.origin = folder / "origin"
        self.tree = folder / "tree"
        self.origin.mkdir()
        self.git("init", "-q", "-b", "main", ".", at=self.origin)
        for key, value in (
            ("user.email", "a@b"),
            ("user.name", "a"),
            ("uploadpack.allowFilter", "true"),
        ):
            self.git("config", key, value, at=self.origin)
        (self.origin / ".gitattributes").write_text(
            "*.py diff=evil filter=evil merge=evil\nb.py filter=e.vil -diff\n"
        )
        for text in ("x = 1\n", "x = 2\n"):
            for name in ("a.py", "b.py"):
                (self.origin / name).write_text(text)
            self.git("add", ".", at=self.origin)
            self.git("commit", "-q", "-m", "1", at=self.origin)

    def clone(self, *options: str) -> None:
        url = f"file://{self.origin}"
        self.git(
            "-c",
            "protocol.file.allow=always",
            "clone",
            "-q",
            *options,
            url,
            str(self.tree),
            at=self.origin,
        )
        (self.tree / "a.py").write_text("x = 3\n")
        (self.tree / "b.py").write_text("x = 3\n")

    def git(self, *words: str, at: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", *words], cwd=at or self.tree, check=True, capture_output=True)

    def careless(self, *words: str) -> bool:
        """Say whether a program of the tree runs where git is called as it comes."""
        subprocess.run(["git", *words], cwd=self.tree, check=False, capture_output=True, timeout=60)
        ran = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return ran

    @property
    def ran(self) -> str:
        return self.marker.read_text() if self.marker.exists() else ""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def value_of(key: str, lab: Lab) -> str:
    if key.startswith("alias.") or key == "submodule.sub.update":
        return f"!{lab.program}"
    return str(lab.program)


def test_no_key_of_the_configuration_makes_git_run_a_program(lab: Lab) -> None:
    lab.clone()
    clean = (lab.tree / ".git" / "config").read_text()
    lab.git("config", "filter.evil.required", "true")
    fired = []
    for key in KEYS:
        (lab.tree / ".git" / "config").write_text(clean)
        lab.git("config", key, value_of(key, lab))
        if key == "hook.evil.command":
            lab.git("config", "hook.evil.event", "post-index-change")
        os.utime(lab.tree / "a.py")
        if key == "include.path":  # a program is no configuration
            with pytest.raises(GitError, match="bad config"):
                changes_since("HEAD", str(lab.tree))
        else:
            assert set(changes_since("HEAD", str(lab.tree)).changed) == {"a.py", "b.py"}, key
        fired += [f"{key}: {lab.ran}"] if lab.ran else []
        lab.marker.unlink(missing_ok=True)
    assert not fired


@pytest.mark.parametrize(
    "key", ["core.fsmonitor", "diff.external", "diff.evil.command", "filter.evil.clean"]
)
def test_the_keys_do_make_git_run_them_otherwise(key: str, lab: Lab) -> None:
    lab.clone()
    lab.git("config", key, str(lab.program))
    assert lab.careless("diff", "HEAD")


def test_no_hook_is_run(lab: Lab) -> None:
    lab.clone()
    for hook in HOOKS:
        shutil.copy(lab.program, lab.tree / ".git" / "hooks" / hook)
    changes_since("HEAD", str(lab.tree))
    assert not lab.ran
    assert lab.careless("update-index", "--refresh") or lab.careless("status")


FETCHES = {
    "remote.origin.uploadpack": "file://{origin}",
    "core.sshCommand": "ssh://a@localhost/c",
    "core.gitProxy": "git://localhost:1/c",
    "core.askPass": "https://a@localhost:1/c",
    "credential.helper": "https://a@localhost:1/c",
    "remote.origin.vcs": "evil::c",
    "protocol.ext.allow": "ext::{program} %S",
    "url.ext::{program} .insteadOf": "abc:",
}


@pytest.mark.parametrize("key", FETCHES)
def test_what_a_partial_clone_lacks_is_not_fetched(key: str, lab: Lab) -> None:
    """Git would start the program that the key names to fetch the old text of a file."""
    lab.clone("--filter=blob:none")
    filled = {"origin": lab.origin, "program": lab.program}
    value = (
        "always"
        if key == "protocol.ext.allow"
        else "abc:"
        if key.startswith("url")
        else str(lab.program)
    )
    lab.git("config", key.format(**filled), value)
    if key.startswith("url"):
        lab.git("config", "protocol.ext.allow", "always")
    lab.git("config", "remote.origin.url", FETCHES[key].format(**filled))
    with pytest.raises(
        GitError, match="this clone lacks objects that git diff needs, and they are not fetched"
    ) as told:
        changes_since("HEAD~", str(lab.tree))
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 2
    assert not lab.ran
    if key in ("remote.origin.uploadpack", "core.sshCommand", "protocol.ext.allow"):
        assert lab.careless("diff", "HEAD~")


def test_a_commit_that_is_missing_is_no_reason_to_fetch(lab: Lab) -> None:
    lab.clone("--filter=tree:0", "--depth=1")
    lab.git("config", "remote.origin.uploadpack", str(lab.program))
    old = lab.git("rev-parse", "HEAD~", at=lab.origin).stdout.decode().strip()
    with pytest.raises(UsageError, match="no such revision"):
        changes_since(old, str(lab.tree))
    assert not lab.ran


def test_the_tree_that_is_named_is_compared_wherever_the_configuration_points(lab: Lab) -> None:
    lab.clone()
    lab.git("config", "core.worktree", str(lab.origin))
    assert set(changes_since("HEAD", str(lab.tree)).changed) == {"a.py", "b.py"}


VARIABLES = {
    "GIT_DIFF_OPTS": ("-u3", "--unified=30"),
    "GIT_EXTERNAL_DIFF": ("{program}",),
    "GIT_CONFIG": ("/dev/null", "{origin}/.git/config"),
    "GIT_DIR": ("{origin}/.git", "/nowhere"),
    "GIT_WORK_TREE": ("{origin}",),
    "GIT_INDEX_FILE": ("/dev/null", "{origin}/none"),
    "GIT_COMMON_DIR": ("/nowhere",),
    "GIT_NAMESPACE": ("other",),
    "GIT_PREFIX": ("sub/",),
    "GIT_OBJECT_DIRECTORY": ("/nowhere",),
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": ("/nowhere",),
    "GIT_SHALLOW_FILE": ("{program}", "/nowhere"),
    "GIT_GRAFT_FILE": ("{program}",),
    "GIT_REPLACE_REF_BASE": ("refs/heads/",),
    "GIT_CEILING_DIRECTORIES": ("/",),
    "GIT_LITERAL_PATHSPECS": ("1",),
    "GIT_ICASE_PATHSPECS": ("1",),
    "GIT_ATTR_SOURCE": ("HEAD~",),
    "GIT_ATTR_NOSYSTEM": ("1",),
    "GIT_TRACE": ("1", "2", "{marker}"),
    "GIT_TRACE_SETUP": ("1",),
    "GIT_TRACE2": ("{marker}",),
    "GIT_TRACE2_EVENT": ("1",),
    "GIT_EXEC_PATH": ("{tree}",),
    "GIT_PAGER": ("{program}",),
    "GIT_EDITOR": ("{program}",),
    "GIT_SSH_COMMAND": ("{program}",),
    "GIT_PROXY_COMMAND": ("{program}",),
    "GIT_ASKPASS": ("{program}",),
    "GIT_DEFAULT_HASH": ("sha256",),
    "GIT_NO_LAZY_FETCH": ("0",),
    "GIT_ALLOW_PROTOCOL": ("file:ssh:ext",),
    "GIT_CONFIG_PARAMETERS": ("'diff.noprefix=true' 'color.diff=always' 'diff.context=9'",),
    "GIT_CONFIG_GLOBAL": ("{tree}/mine",),
}
"""Git's variables, with values that change what it prints, where it looks or what it runs."""


def test_no_variable_of_git_changes_the_answer_or_makes_it_run_a_program(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.clone()
    (lab.tree / "a.py").write_text("x = 3\ny = 1\n")
    lab.git("config", "filter.evil.clean", str(lab.program))
    (lab.tree / "mine").write_text(
        f"[diff]\nnoprefix\ncontext = 9\nexternal = {lab.program}\n[color]\nui = always\n"
    )
    known = changes_since("HEAD", str(lab.tree))
    assert known.changed["a.py"].ranges == ((1, 3),)
    for name, values in VARIABLES.items():
        for value in values:
            filled = value.format(
                program=lab.program, origin=lab.origin, tree=lab.tree, marker=lab.marker
            )
            with monkeypatch.context() as patch:
                patch.setenv(name, filled)
                assert changes_since("HEAD", str(lab.tree)) == known, (name, filled)
                assert not lab.ran, name


def test_the_users_own_configuration_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may say that the repository of another user is safe to look at."""
    lab.clone()
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(lab.tree))
    kept = environment(str(lab.tree))
    assert {"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"} <= kept.keys()
    assert set(changes_since("HEAD", str(lab.tree)).changed) == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[core]\nrepositoryformatversion = 99\n", "Expected git repo version <= 1, found 99"),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nfuture = true\n",
            "unknown repository extension",
        ),
        ("[core\n", "bad config line"),
    ],
)
def test_what_git_refuses_is_said_in_its_words(lab: Lab, config: str, words: str) -> None:
    lab.clone()
    (lab.tree / ".git" / "config").write_text(config)
    with pytest.raises(GitError) as told:
        changes_since("HEAD", str(lab.tree))
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert "no such revision" not in str(told.value)


@pytest.mark.parametrize(
    "name", ["HEAD", "config", "index", "packed-refs", "info/attributes", "objects/info/alternates"]
)
def test_a_pipe_where_git_reads_a_file_is_not_waited_for(lab: Lab, name: str) -> None:
    lab.clone()
    place = lab.tree / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    before = time.monotonic()
    with pytest.raises(GitError, match=f"{name} is a FIFO, not a regular file"):
        changes_since("HEAD", str(lab.tree))
    assert time.monotonic() - before < 10


def test_a_git_in_the_folder_that_is_checked_is_not_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.clone()
    shutil.copy(lab.program, lab.tree / "git")
    monkeypatch.chdir(lab.tree)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert set(changes_since("HEAD", str(lab.tree)).changed) == {"a.py", "b.py"}
    assert not lab.ran


def test_git_is_called_in_one_place() -> None:
    package = Path(torchlint.__file__).parent
    calls = re.compile(r"""\[\s*["'](?:[^"']*/)?git["']|which\(["']git""")
    callers = [
        path.name
        for path in package.rglob("*.py")
        if calls.search(path.read_text(encoding="utf-8"))
    ]
    assert callers == ["git.py"]
