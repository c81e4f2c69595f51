"""``torchlint docs``: pages on this machine, complete, which ask nothing of any network."""

from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from torchlint.base.errors import OutputError
from torchlint.catalog.rules import OWN_ROOT, load_catalog
from torchlint.manual.engine_codes import ENGINE_PAGES
from torchlint.manual.local import INDEX, cache_home, local_pages

CATALOG = load_catalog([OWN_ROOT])


class Links(HTMLParser):
    """The addresses and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return local_pages(CATALOG, {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))})


def test_every_code_has_a_page_and_every_link_leads_to_one(pages: dict[str, Path]) -> None:
    assert set(pages) == {INDEX, *ENGINE_PAGES, *(info.code for info in CATALOG.rules)}
    names = {path.name for path in pages.values()}
    for path in pages.values():
        assert set(Links(path.read_text(encoding="utf-8")).found) <= names
    assert set(Links(pages[INDEX].read_text(encoding="utf-8")).found) | {"index.html"} == names


def test_a_page_holds_the_manual(pages: dict[str, Path]) -> None:
    words = Links(pages["TL101"].read_text(encoding="utf-8")).words
    info = CATALOG.find("TL101")
    assert info is not None
    assert info.title in words
    for line in re.findall(r"```python\n(.*?)```", info.sections["Bad"], re.DOTALL)[0].splitlines():
        assert line in words


def test_pages_that_are_there_are_not_written_again_and_broken_ones_are(tmp_path: Path) -> None:
    place = {"XDG_CACHE_HOME": str(tmp_path)}
    first = local_pages(CATALOG, place)
    good = first["TL101"].read_bytes()
    os.utime(first["TL102"], (1, 1))
    first["TL101"].write_bytes(good[:100])
    assert local_pages(CATALOG, place) == first
    assert first["TL101"].read_bytes() == good
    assert first["TL102"].stat().st_mtime == 1


def test_a_link_in_the_place_of_a_page_is_not_followed(tmp_path: Path) -> None:
    place = {"XDG_CACHE_HOME": str(tmp_path)}
    page = local_pages(CATALOG, place)["TL101"]
    other = tmp_path / "mine.txt"
    other.write_text("mine")
    page.unlink()
    page.symlink_to(other)
    local_pages(CATALOG, place)
    assert other.read_text() == "mine"
    assert not page.is_symlink()


def test_the_cache_folder_is_the_users(tmp_path: Path) -> None:
    assert cache_home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path
    assert cache_home({"XDG_CACHE_HOME": "relative"}).is_relative_to(Path.home())


@pytest.mark.skipif(sys.platform == "win32", reason="there HOME says nothing")
@pytest.mark.parametrize("home", ["", "relative", "./x"])
def test_a_home_that_is_empty_or_relative_is_none(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    import pwd

    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("HOME", home)
    assert cache_home({"HOME": home}).is_relative_to(real)

    def nobody(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(OutputError, match="you have no home folder; set XDG_CACHE_HOME"):
        cache_home({"HOME": home})
    assert cache_home({"HOME": home, "XDG_CACHE_HOME": "/x"}) == Path("/x")


def test_the_command_prints_where_a_page_lies(cli: Cli, tmp_path: Path) -> None:
    cli.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    for asked, name in (
        ((), "index"),
        (("TL101",), "TL101"),
        (("slow",), "TL101"),
        (("TL001",), "TL001"),
    ):
        path = Path(cli("docs", *asked, code=0).stdout.strip())
        assert (path.stem, path.is_file()) == (name, True)
    assert "unknown rule 'TL999'" in cli("docs", "TL999", code=2).stderr
    assert "stands for several rules" in cli("docs", "TL1", code=2).stderr


def test_pages_that_cannot_be_written_are_one_line(cli: Cli) -> None:
    cli.environment["XDG_CACHE_HOME"] = str(cli.write("file", ""))
    done = cli("docs", code=2)
    assert done.stderr.startswith("torchlint: error: the pages cannot be written to ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="the browser is a script")
def test_open_starts_the_browser(cli: Cli, tmp_path: Path) -> None:
    browser = cli.write("browser.sh", f'#!/bin/sh\necho "$1" > {tmp_path}/asked\n')
    browser.chmod(0o755)
    cli.environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "BROWSER": f"{browser} %s"}
    done = cli("docs", "TL101", "--open", code=0)
    assert (tmp_path / "asked").read_text().strip() == Path(done.stdout.strip()).as_uri()
