"""From arguments to files, on real trees."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from torchlint.base.errors import ConfigError
from torchlint.source.discover import DiscoverOptions, Discovery, Found, SkipKind, Skipped, discover

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory that is the working one."""
    directory = tmp_path.resolve() / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def put(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("x = 1\n")


def look(*paths: str, **options: object) -> Discovery:
    return discover(paths, DiscoverOptions(os.getcwd(), **options))  # type: ignore[arg-type]


def names(discovery: Discovery) -> list[str]:
    return [found.filename for found in discovery.files]


def test_walks_for_python_files(here: Path) -> None:
    put("b.py", "a.pyi", "pkg/z.py", "pkg/notes.txt", ".hidden.py", "pkg.py/inner.py")
    discovery = look(".")
    assert names(discovery) == [".hidden.py", "a.pyi", "b.py", "pkg.py/inner.py", "pkg/z.py"]
    assert discovery.files[-1] == Found("pkg/z.py", str(here / "pkg/z.py"))
    assert discovery.skipped == ()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("./a.py", "a.py"),
        ("pkg/../a.py", "a.py"),
        (".//a.py", "a.py"),
        ("../here/a.py", "../here/a.py"),
    ],
)
def test_names_are_shown_short(here: Path, given: str, shown: str) -> None:
    put("a.py", "pkg/b.py")
    assert names(look(given)) == [shown]


def test_absolute_names_stay_absolute(here: Path) -> None:
    put("a.py", "pkg/b.py")
    assert names(look(str(here / "pkg"))) == [str(here / "pkg/b.py")]


def test_a_way_through_a_link_is_not_shortened(here: Path) -> None:
    put("x/y/a.py", "x/b.py", "b.py")
    Path("link").symlink_to("x/y")
    discovery = look("link/../b.py")
    assert discovery.files == (Found("link/../b.py", str(here / "x/b.py")),)


def test_each_file_once(here: Path) -> None:
    put("a.py", "pkg/b.py")
    assert names(look("a.py", "./a.py", str(here / "a.py"), ".", "pkg", "pkg/../pkg/b.py")) == [
        "a.py",
        "pkg/b.py",
    ]
    assert names(look("pkg", ".")) == ["a.py", "pkg/b.py"]


def test_named_files_are_taken_whatever_they_are_called(here: Path) -> None:
    put("build/run", "build/x.py", "build/gen/y.py")
    Path(".gitignore").write_text("gen/\n")
    assert names(look("build/run")) == ["build/run"]
    assert names(look("build/gen/y.py")) == ["build/gen/y.py"]
    assert names(look("build/gen")) == ["build/gen/y.py"]
    assert names(look("build")) == ["build/x.py"]


def test_force_exclude_holds_for_named_paths(here: Path) -> None:
    put("build/run", "src/x.py", "src/gen/y.py", "src/gen/z/w.py")
    Path(".gitignore").write_text("/src/gen/\n")
    discovery = look(
        "build/run",
        "src/x.py",
        "src/gen/y.py",
        "src/gen",
        "src/gen/z/w.py",
        ".",
        force_exclude=True,
    )
    assert names(discovery) == ["src/x.py"]
    reasons = {skip.filename: skip.reason for skip in discovery.skipped}
    ignored = f"ignored by '/src/gen/' in {here / '.gitignore'}"
    assert reasons == {
        "build": "excluded by 'build'",
        "build/run": "excluded by 'build'",
        "src/gen": ignored,
        "src/gen/y.py": ignored,
        "src/gen/z/w.py": ignored,
    }
    assert {skip.kind for skip in discovery.skipped} == {SkipKind.EXCLUDED}
    kept = look("src/gen/y.py", force_exclude=True, respect_gitignore=False)
    assert names(kept) == ["src/gen/y.py"]


def test_force_exclude_outside_the_root(here: Path) -> None:
    Path("../other").mkdir()
    put("../other/build/a.py", "../other/b.py")
    assert names(look("../other", force_exclude=True)) == ["../other/b.py"]
    assert names(look("../other/b.py", "..", force_exclude=True)) == ["../other/b.py"]


def test_excludes_and_includes(here: Path) -> None:
    put(
        "a.py",
        "node_modules/a.py",
        "src/venv/a.py",
        "src/skip_me.py",
        "src/x.foo",
        "docs/conf.py",
        "src/docs/c.py",
    )
    options = {
        "exclude": ("node_modules", "venv", "skip_*", "docs/conf.py", "!keep"),
        "include": ("*.py", "*.foo"),
    }
    discovery = look(".", **options)
    assert names(discovery) == ["a.py", "src/docs/c.py", "src/x.foo"]
    assert Skipped("src/skip_me.py", "excluded by 'skip_*'", SkipKind.EXCLUDED) in discovery.skipped
    assert (
        Skipped("node_modules", "excluded by 'node_modules'", SkipKind.EXCLUDED)
        in discovery.skipped
    )
    assert names(look("src", **options)) == ["src/docs/c.py", "src/x.foo"]


def test_excludes_can_take_back(here: Path) -> None:
    put("a_gen.py", "keep_gen.py")
    assert names(look(".", exclude=("*_gen.py", "!keep_gen.py"))) == ["keep_gen.py"]


def test_the_root_itself_is_not_hidden(here: Path) -> None:
    put("a.py", ".hidden/b.py")
    assert names(look(".", exclude=(".*",), force_exclude=True)) == ["a.py"]


def test_include_can_take_back(here: Path) -> None:
    put("a.py", "b.py")
    assert names(look(".", include=("*.py", "!b.py"))) == ["a.py"]


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_bad_globs_are_named(here: Path, key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^{key}: the glob '\[a-' can match nothing: a bracket is never closed"
    ):
        look(".", **{key: ("[a-",)})


def test_missing_paths_are_errors_and_the_rest_is_done(here: Path) -> None:
    put("a.py")
    discovery = look("a.py", "nope.py", "nope.py", "", "nul\0.py", "x" * 5000)
    assert names(discovery) == ["a.py"]
    assert {skip.kind for skip in discovery.skipped} == {SkipKind.ERROR}
    assert Skipped("nope.py", "no such file or directory", SkipKind.ERROR) in discovery.skipped
    assert len(discovery.skipped) == 4


def test_links_to_nothing(here: Path) -> None:
    Path("a.py").symlink_to("nowhere.py")
    Path("loop.py").symlink_to("loop.py")
    Path("a.txt").symlink_to("nowhere.txt")
    assert look(".").skipped == (
        Skipped("a.py", "is a link to nothing", SkipKind.NOTE),
        Skipped("loop.py", "too many levels of symbolic links", SkipKind.NOTE),
    )
    assert look("a.py").skipped == (Skipped("a.py", "is a link to nothing", SkipKind.ERROR),)


def test_links_to_files(here: Path) -> None:
    put("z.py", "data.txt", "build/out.py")
    Path("a.py").symlink_to("z.py")
    Path("b.py").symlink_to("data.txt")
    Path("c.py").symlink_to("build/out.py")
    Path("d.py").symlink_to("build/out.py")
    discovery = look(".")
    assert discovery.files == (
        Found("b.py", str(here / "data.txt")),
        Found("c.py", str(here / "build/out.py")),
        Found("z.py", str(here / "z.py")),
    )


def test_a_named_link_is_judged_by_its_own_place(here: Path) -> None:
    put("build/out.py", "src/x.py")
    Path("src/link.py").symlink_to("../build/out.py")
    assert names(look("src/link.py", force_exclude=True)) == ["src/link.py"]


def test_links_to_directories_are_not_followed_but_can_be_named(here: Path) -> None:
    put("pkg/a.py")
    Path("pkg/loop.py").symlink_to("..")
    Path("link").symlink_to("pkg")
    discovery = look(".")
    assert names(discovery) == ["pkg/a.py"]
    assert discovery.skipped == (
        Skipped("pkg/loop.py", "is a link to a directory", SkipKind.EXCLUDED),
    )
    assert look("link").files == (Found("link/a.py", str(here / "pkg/a.py")),)
    assert names(look("link", "pkg")) == ["link/a.py"]


def test_hard_links_are_two_files(here: Path) -> None:
    put("a.py")
    os.link("a.py", "b.py")
    assert names(look(".")) == ["a.py", "b.py"]


def test_special_files(here: Path) -> None:
    os.mkfifo("fifo.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock.py")
    assert look(".") == Discovery((), ())
    Path("link.py").symlink_to("fifo.py")
    assert look(".").skipped == (Skipped("link.py", "is a link to a FIFO", SkipKind.EXCLUDED),)
    assert look("fifo.py", "sock.py", os.devnull).skipped == (
        Skipped(os.devnull, "is a device, not a regular file", SkipKind.ERROR),
        Skipped("fifo.py", "is a FIFO, not a regular file", SkipKind.ERROR),
        Skipped("sock.py", "is a socket, not a regular file", SkipKind.ERROR),
    )


def test_odd_names(here: Path) -> None:
    odd = [
        os.fsdecode(b"\xff.py"),
        "a\nb.py",
        "-x.py",
        "a b%#.py",
        "\x1b[1m.py",
        "🔥.py",
        "n" * 252 + ".py",
    ]
    put(*odd)
    assert names(look(".")) == sorted(odd)
    assert names(look(*odd)) == sorted(odd)


def test_paths_beyond_the_system_limit_are_noted(here: Path) -> None:
    put("a.py")
    top = os.getcwd()
    for _ in range(160):
        os.mkdir("d" * 30)
        os.chdir("d" * 30)
    Path("deep.py").write_text("")
    os.chdir(top)
    discovery = look(".")
    assert names(discovery) == ["a.py"]
    [skip] = discovery.skipped
    assert (skip.kind, skip.reason) == (SkipKind.NOTE, "file name too long")


def test_works_without_a_working_directory(here: Path) -> None:
    put("gone/x", "pkg/a.py")
    options = DiscoverOptions(str(here))
    os.chdir("gone")
    Path(here, "gone/x").unlink()
    Path(here, "gone").rmdir()
    assert names(discover([str(here / "pkg")], options)) == [str(here / "pkg/a.py")]
    [skip] = discover(["a.py"], options).skipped
    assert skip.kind is SkipKind.ERROR
    [skip] = discover(["."], options).skipped
    assert skip.kind is SkipKind.ERROR


def test_a_root_behind_a_link(here: Path) -> None:
    put("real/src/a.py", "real/src/b.py")
    Path("link").symlink_to("real")
    options = DiscoverOptions(str(here / "link"), exclude=("/src/a.py",))
    assert names(discover(["link"], options)) == ["link/src/b.py"]


@needs_user
def test_unreadable_directories_are_errors(here: Path) -> None:
    put("a.py", "shut/b.py")
    Path("shut").chmod(0)
    try:
        discovery = look(".")
    finally:
        Path("shut").chmod(0o700)
    assert names(discovery) == ["a.py"]
    assert discovery.skipped == (Skipped("shut", "permission denied", SkipKind.ERROR),)


def test_an_entry_that_cannot_be_looked_at_is_an_error(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.py")

    def visit(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("torchlint.source.discover._Search.visit", visit)
    assert look(".").skipped == (Skipped("a.py", "permission denied", SkipKind.ERROR),)


def test_a_directory_that_vanishes_is_an_error(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.py", "pkg/b.py")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("pkg"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    discovery = look(".")
    assert names(discovery) == ["a.py"]
    assert discovery.skipped == (Skipped("pkg", "no such file or directory", SkipKind.ERROR),)
