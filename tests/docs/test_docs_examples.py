"""The pages of docs/ tell the truth: their outputs, samples and commands are checked, as those of
the README are.

Run ``python -m tests.docs.test_docs_examples`` to write outputs and generated parts anew.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import nullcontext, suppress
from pathlib import Path

import click
import pytest
import tomli
import yaml

from tests import test_readme as readme
from tests.docs.generated import filled
from torchlint.catalog.rules import load_catalog
from torchlint.cli.commands import main
from torchlint.cli.main import run
from torchlint.settings.load import load_settings

PAGES = sorted((readme.ROOT / "docs").glob("*.md"))
WRITTEN = [readme.README, readme.ROOT / "CONTRIBUTING.md", *PAGES]
GENERATED = re.compile(r"<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end: \1 -->", re.DOTALL)
_FOUND = re.compile(r"<!-- found: (.*?) -->\n```python\n(.*?)```\n", re.DOTALL)
_FENCED = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, code) of all fenced blocks in a language that were written by hand."""
    return [
        (page.name, code)
        for page in PAGES
        for word, code in _FENCED.findall(GENERATED.sub("", text_of(page)))
        if word == language
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "<!-- output: " in text_of(page)], ids=lambda page: page.name
)
def test_outputs_are_current(page: Path) -> None:
    assert readme.regenerated(text_of(page)) == text_of(page), (
        "run: python -m tests.docs.test_docs_examples"
    )


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "<!-- generated: " in text_of(page)],
    ids=lambda page: page.name,
)
def test_generated_parts_are_current(page: Path) -> None:
    assert filled(text_of(page)) == text_of(page), "run: python -m tests.docs.test_docs_examples"


def test_the_parts_that_are_generated_are_full() -> None:
    parts = {name: text for page in PAGES for name, text in GENERATED.findall(text_of(page))}
    assert {"keys", "commands", "questions", "rules", "zero-grad"} <= set(parts)
    assert all(text.strip() for text in parts.values())


def links(page: Path) -> list[str]:
    """Return the links of a page that lead to files, and to places in them."""
    text = re.sub(r"`[^`\n]+`", "", _FENCED.sub("", text_of(page)))
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def places(page: Path) -> set[str]:
    """Return what a link to a page may name behind ``#``."""
    text = _FENCED.sub("", text_of(page))
    headings = (
        re.sub(r"[^\w\- ]", "", row).strip().lower().replace(" ", "-")
        for row in re.findall(r"^#+ (.*)$", text, re.M)
    )
    return {*headings, *re.findall(r'<a id="([^"]+)">', text)}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_to_what_is_in_the_tree(page: Path) -> None:
    dead = []
    for link in links(page):
        path, _, place = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (place and place not in places(target)):
            dead.append(link)
    assert dead == []


def test_links_are_seen() -> None:
    start = readme.ROOT / "docs" / "start.md"
    assert {"editor.md", "rules.md#TL102"} <= set(links(start))
    assert {"TL102", "codes-of-the-engine"} <= places(start.with_name("rules.md"))


def test_some_outputs_are_shown() -> None:
    assert sum(text_of(page).count("<!-- output: ") for page in PAGES) >= 3


def test_python_samples_are_judged_as_the_page_says(tmp_path: Path) -> None:
    samples = {
        f"{page.stem}_{number}": found.groups()
        for page in PAGES
        for number, found in enumerate(_FOUND.finditer(text_of(page)))
    }
    assert len(samples) >= 3
    for name, (_, code) in samples.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    report = tmp_path / "report.json"
    arguments = [
        "--isolated",
        "--no-cache",
        "--exit-zero",
        "--output-format",
        "json",
        "-o",
        str(report),
    ]
    assert run(["check", *arguments, str(tmp_path)]) == 0
    judged = dict.fromkeys(samples, "nothing")
    for entry in json.loads(report.read_text(encoding="utf-8")):
        name = Path(entry["filename"]).stem
        judged[name] = (
            entry["code"] if judged[name] == "nothing" else f"{judged[name]}, {entry['code']}"
        )
    assert judged == {name: codes for name, (codes, _) in samples.items()}


@pytest.mark.parametrize(
    ("page", "sample"),
    [each for each in blocks("toml") if "[tool.torchlint" in each[1]],
    ids=lambda text: text[:20],
)
def test_configuration_samples_load(page: str, sample: str, tmp_path: Path) -> None:
    assert tomli.loads(sample), page
    (tmp_path / "pyproject.toml").write_text(sample, encoding="utf-8")
    assert load_settings(str(tmp_path / "pyproject.toml"), {}, catalog=load_catalog()).config


@pytest.mark.parametrize(("page", "sample"), blocks("yaml"))
def test_yaml_samples_are_yaml(page: str, sample: str) -> None:
    assert yaml.safe_load(sample), page


def commands() -> list[str]:
    """Return the torchlint commands that the README and the pages show, inline and in blocks."""
    found = []
    for page in (readme.README, *PAGES):
        text = GENERATED.sub("", text_of(page))
        for word, code in _FENCED.findall(text):
            if word in ("console", "text", "yaml", "bash", "sh"):
                found += re.findall(
                    r"^(?:\$|- run:|  - )? ?(torchlint [a-z].*?)(?:  +|$)", code, re.MULTILINE
                )
        found += re.findall(r"`(torchlint [^`\n]+)`", _FENCED.sub("", text))
    return sorted(set(found))


@pytest.mark.parametrize("command", commands())
def test_commands_are_understood(command: str) -> None:
    words = shlex.split(command.replace("[PATHS]", ".").replace(" | --all", ""))[1:]
    if words[0] in ("|", ">"):
        words = []
    context = click.Context(main, info_name="torchlint")
    found = main.get_command(context, words[0])
    assert found is not None, f"there is no command {words[0]}"
    with (
        suppress(click.MissingParameter) if len(words) == 1 else nullcontext()
    ):  # named, not called
        found.make_context(words[0], words[1:], parent=context)


def test_unknown_commands_and_options_are_seen() -> None:
    assert "torchlint check --output-format github ." in commands()
    with pytest.raises(click.UsageError):
        test_commands_are_understood("torchlint check --no-such-option .")
    with pytest.raises(AssertionError):
        test_commands_are_understood("torchlint chekc .")


@pytest.mark.parametrize("page", [readme.README, *PAGES], ids=lambda page: page.name)
def test_options_named_exist(page: Path) -> None:
    """Options in prose: of torchlint, or of a program that the same sentence names."""
    known = {
        option
        for name in main.list_commands(click.Context(main))
        for parameter in main.get_command(click.Context(main), name).get_params(click.Context(main))  # type: ignore[union-attr]
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    known |= {"--version", "--nproc-per-node", "--epochs", "--strict"}
    named = set(
        re.findall(
            r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)
        )
    )
    ours = {
        option for option in named if option not in ("--files", "--keep", "--peers", "--target")
    }
    assert sorted(ours - known) == []


def test_the_readme_is_short() -> None:
    without_table = re.sub(r"^\| TL\d{3} .*\n", "", text_of(readme.README), flags=re.MULTILINE)
    assert without_table.count("\n") < 175


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(readme.regenerated(text_of(page))), encoding="utf-8")
