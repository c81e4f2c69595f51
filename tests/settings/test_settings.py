"""Configuration: where it is found, what it may say, and what holds for one file in the end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.base.errors import ConfigError, UsageError
from torchlint.base.finding import Severity
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import Catalog
from torchlint.settings.files import find_config
from torchlint.settings.keys import KEYS, Decides, Settings, deciding
from torchlint.settings.load import (
    PROJECT_MARKS,
    codes_for,
    find_root,
    load_settings,
    marked_root,
    parse_inline,
    severities,
)
from torchlint.settings.versions import lowest_torch, meets
from torchlint.source.discover import DEFAULT_EXCLUDE

HEADER = "[tool.torchlint]\n"


def info(code: str, name: str, default: bool = True) -> RuleInfo:
    return RuleInfo(
        code=code,
        message="",
        severity="warning",
        default=default,
        triggers=(b"x",),
        name=name,
        family="",
        title="",
        fixes=(),
        manual="",
        sections={},
        module=name,
        path=f"{name}.py",
    )


CATALOG = Catalog(
    [
        info("TL101", "host-read"),
        info("TL102", "late-copy"),
        info("TL105", "off", False),
        info("TL201", "slow-loader"),
    ]
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    def put(name: str, text: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return put


Write = Callable[[str, "str | bytes"], str]


def load(config: str | None, **overrides: object) -> Settings:
    given = {key.replace("_", "-"): value for key, value in overrides.items()}
    return load_settings(config, given, catalog=CATALOG)


def failure(config: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(config)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(config) + 500
    return str(caught.value).replace(config, "FILE")


# Finding


def test_the_nearest_file_holds(write: Write, tmp_path: Path) -> None:
    outer, inner = write("torchlint.toml", ""), write("a/b/torchlint.toml", "")
    memory: dict[str, str | None] = {}
    for _ in range(2):
        assert find_config(str(tmp_path / "a/b/c/x.py"), memory) == inner
        assert find_config(str(tmp_path / "a/b"), memory) == inner
        assert find_config(str(tmp_path / "a/x.py"), memory) == outer
    assert memory[str(tmp_path / "a/b/c")] == inner
    assert memory[str(tmp_path / "a")] == outer


def test_each_folder_is_looked_up_once(write: Write, tmp_path: Path) -> None:
    memory: dict[str, str | None] = {}
    assert find_config(str(tmp_path / "a/x.py"), memory) is None
    write("torchlint.toml", "")
    assert find_config(str(tmp_path / "a/y.py"), memory) is None
    assert find_config(str(tmp_path / "a/y.py")) is not None


def test_order_of_names_in_a_folder(write: Write, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "torchlint.toml", ".torchlint.toml"):
        written = write(name, HEADER if name == "pyproject.toml" else "")
        assert find_config(str(tmp_path)) == written


@pytest.mark.parametrize(
    "text",
    [
        "[project]\nname = 'x'\n",
        "[tool.ruff]\n",
        "# torchlint\n",
        "[tool]\nblack = 'torchlint'\n",
        "[[[broken",
    ],
)
def test_a_pyproject_of_others_is_no_configuration(write: Write, tmp_path: Path, text: str) -> None:
    outer = write("torchlint.toml", "")
    write("a/pyproject.toml", text)
    assert find_config(str(tmp_path / "a" / "x.py")) == outer


def test_a_broken_pyproject_that_names_us_is_an_error(write: Write, tmp_path: Path) -> None:
    path = write("pyproject.toml", "[tool.torchlint]\nselect = [\n")
    with pytest.raises(ConfigError, match=r"pyproject.toml:\d: not valid TOML"):
        find_config(str(tmp_path / "x.py"))
    assert os.path.exists(path)


def test_a_folder_named_like_a_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    (tmp_path / "torchlint.toml").mkdir()
    assert find_config(str(tmp_path / "x.py")) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_is_an_error_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    with pytest.raises(ConfigError, match="is a FIFO, not a regular file"):
        find_config(str(tmp_path / "x.py"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_file_that_turns_into_a_fifo_does_not_hang(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = os.stat(write("regular.toml", ""))
    os.mkfifo(tmp_path / "torchlint.toml")
    monkeypatch.setattr(os, "stat", lambda path: regular)
    with pytest.raises(ConfigError, match="not a regular file"):
        load(str(tmp_path / "torchlint.toml"))


def test_a_path_that_is_too_long_has_no_configuration_of_its_own(
    write: Write, tmp_path: Path
) -> None:
    outer = write("torchlint.toml", "")
    assert find_config(str(tmp_path / Path(*["x" * 200] * 40) / "x.py")) == outer


def test_no_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_config("x.py") is None
    assert load_settings(None, catalog=CATALOG).root == os.path.abspath(os.sep)


# Root


def test_root_is_the_folder_of_the_file_else_of_git_else_of_the_path(
    write: Write, tmp_path: Path
) -> None:
    write("repo/.git/HEAD", "")
    write("tree/.git", "gitdir: ../repo/.git/worktrees/tree")
    config = write("repo/a/torchlint.toml", "")
    real = os.path.realpath(tmp_path)
    assert find_root(config, "elsewhere") == f"{real}/repo/a"
    assert find_root(None, f"{tmp_path}/repo/b/x.py") == f"{real}/repo"
    assert find_root(None, f"{tmp_path}/tree/b") == f"{real}/tree"


@pytest.mark.parametrize("mark", PROJECT_MARKS)
def test_root_without_git_is_the_nearest_folder_with_a_mark_of_a_project(
    write: Write, tmp_path: Path, mark: str
) -> None:
    write(f"repo/{mark}", "")
    write("repo/tools/README", "")
    file = write("repo/a/b/x.py", "")
    write("other/requirements.txt", "")
    assert find_root(None, file) == os.path.realpath(tmp_path / "repo")
    write("repo/a/setup.py", "")
    marked_root.cache_clear()
    assert find_root(None, file) == os.path.realpath(tmp_path / "repo/a")


def test_root_without_git_is_the_folder_of_the_path(write: Write, tmp_path: Path) -> None:
    file = write("a/x.py", "")
    real = os.path.realpath(tmp_path)
    assert find_root(None, file) == f"{real}/a"
    assert find_root(None, str(tmp_path / "a")) == f"{real}/a"


def test_root_can_be_given(write: Write, tmp_path: Path) -> None:
    config = write("a/torchlint.toml", "")
    assert load_settings(config, catalog=CATALOG, root=str(tmp_path)).root == os.path.realpath(
        tmp_path
    )


# Values


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(None, catalog=CATALOG, start=str(tmp_path))
    root = os.path.realpath(tmp_path)
    assert settings == Settings(root=root, cache_dir=os.path.join(root, ".torchlint_cache"))
    assert (settings.target_torch, settings.timeout, settings.max_file_size) == (
        (2, 4),
        30.0,
        1_000_000,
    )
    assert hash(settings)


FULL = """\
select = ["TL1"]
ignore = ["TL102"]
extend-select = ["slow-loader"]
include = ["*.py"]
exclude = ["old"]
extend-exclude = ["older"]
respect-gitignore = false
library-infos = true
force-exclude = true
target-torch = "2.6.1"
accelerator = "cuda"
fixable = ["ALL"]
unfixable = ["TL102"]
safe = "strict"
assume-hot = ["step_*"]
line-length = 99
cache-dir = "kept/results"
baseline = "old.json"
fail-on = "error"
output-format = "json"
max-file-size = 0
timeout = 5
jobs = 3
unsafe-fixes = true
required-version = ">=0.0.1"
[per-file-ignores]
"tests/**" = ["TL101"]
[severity]
TL101 = "info"
[no-waits]
"""


def check_full(config: str) -> None:
    settings = load_settings(config, catalog=CATALOG, trusted=True)
    root = os.path.realpath(os.path.dirname(config))
    assert settings == Settings(
        root=root,
        config=config,
        select=("TL1",),
        ignore=("TL102",),
        extend_select=("slow-loader",),
        per_file_ignores=(("tests/**", ("TL101",)),),
        include=("*.py",),
        exclude=("old", "older"),
        respect_gitignore=False,
        force_exclude=True,
        library_infos=True,
        target_torch=(2, 6),
        accelerator="cuda",
        safe="strict",
        assume_hot=("step_*",),
        unfixable=("TL102",),
        line_length=99,
        fail_on=Severity.ERROR,
        output_format="json",
        max_file_size=0,
        timeout=5.0,
        jobs=3,
        unsafe_fixes=True,
        severity=(("TL101", Severity.INFO),),
        cache_dir=os.path.join(root, "kept", "results"),
        baseline=os.path.join(root, "old.json"),
    )


def test_every_key_in_a_file_of_our_own(write: Write) -> None:
    config = write("torchlint.toml", FULL)
    check_full(config)


def test_every_key_in_a_pyproject(write: Write) -> None:
    config = write("pyproject.toml", HEADER + FULL.replace("\n[", "\n[tool.torchlint."))
    check_full(config)


@pytest.mark.parametrize(
    "place", ["/elsewhere", "../beside", "~/.cache", "~", "link/cache", "a/../../b"]
)
def test_a_configuration_that_was_found_cannot_ask_for_files_elsewhere(
    write: Write, place: str, tmp_path: Path
) -> None:
    config = write("project/torchlint.toml", f"fail-on = 'info'\ncache-dir = {place!r}\n")
    if os.name != "nt":
        (tmp_path / "project" / "link").symlink_to(tmp_path)
    root = os.path.realpath(tmp_path / "project")
    settings = load(config)
    assert settings.cache_dir == os.path.join(root, ".torchlint_cache")
    reason = "only --cache-dir in the command can allow a cache outside of the project"
    assert settings.refused == (f"{config}:2: cache-dir is ignored: {reason}",)
    assert load(config, cache_dir="/mine").refused == ()
    assert load(config, cache_dir="/mine").cache_dir == os.path.abspath("/mine")
    assert load_settings(config, catalog=CATALOG, trusted=True).cache_dir != settings.cache_dir


def test_a_configuration_that_was_found_cannot_allow_unsafe_fixes(write: Write) -> None:
    far = write("far.toml", "\n\nunsafe-fixes = true\n")
    config = write("torchlint.toml", "extend = 'far.toml'\n")
    settings = load(config)
    assert not settings.unsafe_fixes
    (words,) = settings.refused
    assert words.startswith(f"{far}:3: unsafe-fixes is ignored: ")
    assert load(config, unsafe_fixes=True).unsafe_fixes
    assert load(config, unsafe_fixes=True).refused == ()
    assert load(write("off.toml", "unsafe-fixes = false\n")).refused == ()
    both = load(write("both.toml", "cache-dir = '/elsewhere'\nunsafe-fixes = true\n")).refused
    assert [words.split()[1] for words in both] == ["unsafe-fixes", "cache-dir"]


def test_what_decides_on_findings_is_the_same_wherever_the_tree_lies(write: Write) -> None:
    found = []
    for folder in ("here", "there"):
        write(f"{folder}/requirements.txt", "torch>=2.1\n")
        lines = "baseline = 'old.json'\ncache-dir = '../kept'\nfail-on = 'info'\njobs = 2\n"
        settings = load(write(f"{folder}/torchlint.toml", f"{lines}ignore = ['TL102']\n"))
        assert (settings.target_torch, len(settings.refused)) == ((2, 1), 1)
        found.append(dict(deciding(settings, Decides.FINDINGS, Decides.REPORT)))
    assert found[0] == found[1]
    assert (found[0]["ignore"], found[0]["target-torch"]) == (("TL102",), (2, 1))
    assert found[0].keys().isdisjoint({"baseline", "cache-dir", "fail-on", "jobs"})


def test_no_two_keys_have_one_place_in_a_list() -> None:
    places = [("init", row.place) for row in KEYS.values()]
    places += [("editor", row.editor) for row in KEYS.values() if row.editor]
    options = [row.option for row in KEYS.values() if row.option]
    places += [(group, option.place) for option in options for group in option.helps]
    assert len(places) == len(set(places))


def test_every_key_is_tried_above() -> None:
    assert set(KEYS) == {
        line.split()[0].strip("[]") for line in FULL.splitlines() if line[0] not in '"T'
    } | {"extend"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("selct = ['TL1']", "unknown key 'selct'; did you mean 'select'?"),
        ("extend_select = ['TL1']", "unknown key 'extend_select'; did you mean 'extend-select'?"),
        ("colour = 1", "unknown key 'colour'; known keys: accelerator, "),
        ("x" * 190 + " = 1", "unknown key 'xxx"),
        ("select = 'TL1'", "select must be a list of strings"),
        ("select = [1]", "select must be a list of strings"),
        ("select = []", "select is empty"),
        ("select = ['TL9']", "select: unknown rule 'TL9'; 'torchlint rules' lists all"),
        ("ignore = ['late-copi']", "ignore: unknown rule 'late-copi'; did you mean 'late-copy'?"),
        ("extend-select = ['']", "extend-select must be a list of strings"),
        ("per-file-ignores = ['a']", "per-file-ignores must be a table"),
        ("per-file-ignores = { 'a' = 'TL1' }", "per-file-ignores must be a list of strings"),
        ("per-file-ignores = { 'a' = ['TL9'] }", "per-file-ignores: unknown rule 'TL9'"),
        (
            "per-file-ignores = { '[a' = ['TL1'] }",
            "per-file-ignores: the glob '[a' can match nothing",
        ),
        ("severity = 'error'", "severity must be a table"),
        (
            "severity = { TL101 = 'warn' }",
            "severity must be one of error, warning, info, not 'warn'",
        ),
        ("severity = { TL9 = 'error' }", "severity: unknown rule 'TL9'"),
        ("fail-on = 'never'", "fail-on must be one of error, warning, info, not 'never'"),
        ("accelerator = 1", "accelerator must be one of auto, cuda, mps, cpu, not 1"),
        ("safe = 'always'", "safe must be one of contract, strict, not 'always'"),
        ("output-format = 'yaml'", "output-format must be one of ranked, "),
        ("target-torch = 2.4", 'target-torch must be a version in quotes such as "2.4"'),
        ("target-torch = '2'", "target-torch must be a version"),
        ("respect-gitignore = 1", "respect-gitignore must be true or false"),
        ("jobs = -1", "jobs must be a whole number, 0 or more"),
        ("jobs = true", "jobs must be a whole number"),
        ("jobs = 1.5", "jobs must be a whole number"),
        ("timeout = 0", "timeout must be a number of seconds above 0"),
        ("timeout = true", "timeout must be a number"),
        ("timeout = inf", "timeout must be a number"),
        ("timeout = nan", "timeout must be a number"),
        ("extend = ''", "extend must not be empty"),
        ("cache-dir = ''", "cache-dir must not be empty"),
        ("baseline = 1", "baseline must be a string"),
        *(
            (f'{key} = "a\\u0000b"', f"{key} holds a NUL character")
            for key in ("cache-dir", "extend", "baseline")
        ),
        ("required-version = 'banana'", "required-version 'banana' is not a version"),
        ("required-version = '>=99'", "required-version is '>=99', but this is torchlint"),
        ("[tool.torchlint]", "write the keys without [tool.torchlint] here"),
    ],
)
def test_a_value_that_cannot_be_used_names_file_line_and_key(
    write: Write, line: str, reason: str
) -> None:
    config = write("torchlint.toml", f"# first\n\n{line}\n")
    assert failure(config).startswith(f"FILE:3: {reason}")


def test_a_pyproject_names_its_table(write: Write) -> None:
    config = write("pyproject.toml", f"[tool.other]\nselct = 1\n\n{HEADER}selct = 1\n")
    assert (
        failure(config) == "FILE:5: unknown key 'selct' in [tool.torchlint]; did you mean 'select'?"
    )


def test_a_key_that_is_a_table_has_a_line_too(write: Write) -> None:
    config = write("pyproject.toml", "[tool.torchlint.sevrity]\nTL101 = 'info'\n")
    assert (
        failure(config)
        == "FILE:1: unknown key 'sevrity' in [tool.torchlint]; did you mean 'severity'?"
    )


def test_a_pyproject_must_have_a_table(write: Write) -> None:
    assert (
        failure(write("pyproject.toml", "[tool]\ntorchlint = 1\n"))
        == "FILE:2: tool.torchlint must be a table"
    )
    assert failure(write("pyproject.toml", "tool = 1\n")) == "FILE: has no [tool.torchlint]"


def test_the_version_is_checked_before_anything_else(write: Write) -> None:
    config = write("torchlint.toml", "key-of-the-future = 1\nrequired-version = '>=99'\n")
    assert "required-version is '>=99'" in failure(config)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a = 1\nb = [", "FILE:2: not valid TOML"),
        (b"a = 1\na = 2\n\n", "FILE:2: not valid TOML: Cannot overwrite"),
        (b"a = 1\n\xef\xbb\xbfb = 2", "FILE:2: not valid TOML"),
        (b"\xef\xbb\xbfjobs = 2", "FILE:1: starts with a byte order mark"),
        (b"jobs = 2\nextend = '\xff'", "FILE:2: not UTF-8 (byte 0xff)"),
        (b"jobs = 2\nextend = '\0'", "FILE:2: not valid TOML"),
        (b"a = " + b"[" * 5_000 + b"]" * 5_000, "FILE:1: not usable TOML"),
        (b".".join([b"a"] * 20_000) + b" = 1", "FILE:1: not usable TOML"),
        (b"jobs = " + b"9" * 5_000, "FILE:1: not"),
        (b"#" * 5_000_000, "FILE:1: is larger than 1000000 bytes"),
        (b"\n" * 999_000 + b"x = 1", "FILE:999001: unknown key 'x'"),
        (b"'" + b"x" * 900_000 + b"' = 1", "FILE: unknown key 'xxx"),
    ],
    ids=range(12),
)
def test_a_file_that_is_not_toml_names_file_and_line(
    write: Write, text: bytes, reason: str
) -> None:
    assert failure(write("torchlint.toml", text)).startswith(reason)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert failure(str(tmp_path / "torchlint.toml")) == "FILE: No such file or directory"
    assert failure(str(tmp_path)) == "FILE: is a directory, not a regular file"


def test_a_socket_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("torchlint.toml")
        assert "is a socket" in failure(str(tmp_path / "torchlint.toml"))


# Extending


def test_a_file_wins_over_what_it_extends(write: Write) -> None:
    write(
        "base.toml",
        (
            "jobs = 1\ntimeout = 9\nextend-exclude = ['a']\n[severity]\nTL1 = 'info'\nTL101 = "
            "'error'\n"
        ),
    )
    text = "extend = '../base.toml'\njobs = 2\nextend-exclude = ['b']\n[severity]\nTL101 = 'info'\n"
    settings = load(write("sub/torchlint.toml", text))
    assert (settings.jobs, settings.timeout) == (2, 9.0)
    assert settings.exclude == (*DEFAULT_EXCLUDE, "a", "b")
    assert severities(settings, CATALOG) == dict.fromkeys(
        ["TL101", "TL102", "TL105"], Severity.INFO
    )


def test_a_chain_of_ten_files_is_read(write: Write) -> None:
    for number in range(1, 10):
        write(f"{number}.toml", f"extend = '{number + 1}.toml'\n")
    write("10.toml", "jobs = 7\n")
    assert load(write("1.toml", "extend = '2.toml'\n")).jobs == 7
    write("10.toml", "extend = '11.toml'\n")
    write("11.toml", "")
    with pytest.raises(ConfigError, match=r"10.toml:1: extend: more than 10 files"):
        load(write("1.toml", "extend = '2.toml'\n"))


def test_a_loop_is_an_error(write: Write) -> None:
    write("b.toml", "\nextend = 'a.toml'\n")
    with pytest.raises(ConfigError, match=r"b.toml:2: extend 'a.toml' leads back"):
        load(write("a.toml", "extend = 'b.toml'\n"))
    assert "leads back" in failure(write("c.toml", "extend = 'c.toml'\n"))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("missing.toml", "No such file"),
        (".", "is a directory"),
        ("pyproject.toml", "has no [tool.torchlint]"),
    ],
)
def test_what_cannot_be_extended_is_an_error_that_names_both(
    write: Write, target: str, reason: str
) -> None:
    write("pyproject.toml", "[project]\n")
    message = failure(write("torchlint.toml", f"extend = '{target}'\n"))
    assert message.startswith("FILE:1: extend: ")
    assert reason in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_cannot_be_extended(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a FIFO" in failure(write("torchlint.toml", "extend = 'pipe'\n"))


# Options


def test_an_option_wins_over_the_file(write: Write) -> None:
    config = write("torchlint.toml", "jobs = 2\ntimeout = 3\nextend-exclude = ['a']\n")
    settings = load(config, jobs=5, timeout=None, extend_exclude=["b"], fail_on="info")
    assert (settings.jobs, settings.timeout, settings.fail_on) == (5, 3.0, Severity.INFO)
    assert settings.exclude[-2:] == ("a", "b")


@pytest.mark.parametrize(
    ("overrides", "codes"),
    [
        ({}, {"TL102"}),
        ({"select": ["TL101"]}, {"TL101"}),
        ({"select": ["TL1"], "ignore": ["TL105"]}, {"TL101", "TL102"}),
        ({"extend_select": ["TL101"]}, {"TL101", "TL102"}),
        ({"extend_select": ["TL201"]}, {"TL102", "TL201"}),
        ({"ignore": ["TL102"]}, set()),
    ],
)
def test_a_later_word_on_a_rule_wins(
    write: Write, overrides: dict[str, object], codes: set[str]
) -> None:
    config = write("torchlint.toml", "select = ['TL10']\nignore = ['TL101', 'TL105']\n")
    assert codes_for(load(config, **overrides), CATALOG, "x.py") == codes


def test_ignoring_takes_back_what_the_file_extends(write: Write) -> None:
    config = write("torchlint.toml", "extend-select = ['TL105']\n")
    assert "TL105" in codes_for(load(config), CATALOG, "x.py")
    settings = load(config, ignore=["TL105"])
    assert settings.extend_select == ()
    assert "TL105" not in codes_for(settings, CATALOG, "x.py")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"jobs": -1}, "--jobs must be a whole number"),
        ({"select": ["TL9"]}, "--select: unknown rule 'TL9'"),
        ({"select": []}, "--select is empty"),
        ({"per_file_ignores": {"[a": ["TL1"]}}, "--per-file-ignores: the glob '[a'"),
        ({"colour": 1}, "--config: unknown key 'colour'"),
        ({"extend": "x.toml"}, "--config: extend can stand in a configuration file only"),
        ({"required_version": ">=99"}, "--config: required-version is '>=99', but this is torchl"),
        ({"required_version": "x"}, "--config: required-version 'x' is not a version specifier"),
        ({"no_waits": {"files": 1}}, "--config: no-waits files must be a list of strings"),
    ],
)
def test_an_option_that_cannot_be_used_is_a_usage_error(
    overrides: dict[str, object], reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(None, **overrides)
    assert str(caught.value).startswith(reason)


def test_the_command_line_may_say_which_torchlint_it_is_for(write: Write) -> None:
    assert load(write("torchlint.toml", ""), required_version=">=0.0.1", jobs=3).jobs == 3


def test_a_line_of_toml_is_an_override() -> None:
    assert parse_inline("select = ['TL1']") == {"select": ["TL1"]}
    for text in ("torchlnt.toml", "a = " + "[" * 5_000):
        with pytest.raises(UsageError, match="nor a line of TOML, such as 'select = "):
            parse_inline(text)


# One file


def test_per_file_ignores(write: Write) -> None:
    text = "[per-file-ignores]\n'tests/**' = ['TL1']\n'*_test.py' = ['slow-loader']\n"
    settings = load(write("torchlint.toml", text))
    assert codes_for(settings, CATALOG, "a.py") == {"TL001", "TL101", "TL102", "TL201"}
    assert codes_for(settings, CATALOG, "tests/a.py") == {"TL001", "TL201"}
    assert codes_for(settings, CATALOG, "tests/a_test.py") == {"TL001"}


@pytest.mark.parametrize("order", [1, -1])
def test_the_most_specific_severity_holds(order: int) -> None:
    levels = (("TL1", Severity.INFO), ("host-read", Severity.ERROR))[::order]
    found = severities(Settings(root="/", severity=levels), CATALOG)
    assert (found["TL101"], found["TL102"]) == (Severity.ERROR, Severity.INFO)
    assert "TL201" not in found


# Versions


@pytest.mark.parametrize(
    ("requirements", "bound"),
    [
        (["torch>=2.2"], (2, 2)),
        (["numpy", "Torch ~= 2.3.1"], (2, 3)),
        (["torch==2.5.*"], (2, 5)),
        (["torch[opt] (>=2, <3) ; python_version < '3.12'"], (2, 0)),
        (["torch>2.1,>=2.3"], (2, 3)),
        (["torch>=2.6; x", "torch>=2.1"], (2, 1)),
        (
            [
                "torch",
                "torch<3",
                "torch @ https://example.org/newest.whl",
                "torchvision>=1",
                3,
                "torch>=x",
            ],
            None,
        ),
        (["torch" + " " * 100_000 + "@"], None),
    ],
    ids=range(8),
)
def test_lowest_torch(requirements: list[object], bound: tuple[int, int] | None) -> None:
    assert lowest_torch(requirements) == bound


def test_target_torch_is_read_from_the_dependencies(write: Write) -> None:
    project = "[project]\ndependencies = ['torch>=2.6']\n"
    assert load(write("pyproject.toml", project + HEADER)).target_torch == (2, 6)
    assert load(write("torchlint.toml", "")).target_torch == (2, 6)
    assert load(write("torchlint.toml", "target-torch = '2.3'")).target_torch == (2, 3)
    assert load(write("pyproject.toml", project + HEADER), target_torch="2.2").target_torch == (
        2,
        2,
    )


@pytest.mark.parametrize(
    "text", ["[[[", "project = 1", "[project]\ndependencies = 1", "[project]", "\0"]
)
def test_dependencies_that_cannot_be_read_count_for_nothing(write: Write, text: str) -> None:
    write("pyproject.toml", text)
    assert load(write("torchlint.toml", "")).target_torch == (2, 4)


@pytest.mark.parametrize(
    ("specifier", "version", "met"),
    [
        ("0.3", "0.3.0", True),
        ("==0.3", "0.3.1", False),
        (">=0.2, <1", "0.9", True),
        (">=0.2,<1", "1.0", False),
        (">0.3", "0.3", False),
        ("<=0.3", "0.3", True),
        ("!=0.3", "0.3", False),
        ("~=0.3", "0.9", True),
        ("~=0.3", "1.0", False),
        ("~=0.3.1", "0.3.9", True),
        ("~=0.3.1", "0.4", False),
        ("~=0.3.1", "0.3", False),
        (">=0.3", "0.3.0.dev1", False),
        (">=0.3.0.dev0", "0.3.0.dev1", True),
        ("==0.3.*", "0.3.7", True),
        (">=0.3", "0.4.0rc1", True),
    ],
)
def test_required_versions(specifier: str, version: str, met: bool) -> None:
    assert meets(version, specifier) is met


@pytest.mark.parametrize(
    "specifier",
    [
        "",
        ",",
        "=>1",
        "1.x",
        "~",
        ">= 1 2",
        "1" + "a." * 50_000,
        " " * 100_000,
        ">=0.1," * 999 + "<9",
    ],
)
def test_what_is_no_specifier(specifier: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        meets("1", specifier)
