"""The catalogue: reading rule files without importing them, refusing bad ones, and what selectors
mean."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

import pytest
from packaging.version import Version

from torchlint import __version__
from torchlint.base.declaration import EFFECTS, FIRST_RELEASE
from torchlint.base.errors import CatalogError, ConfigError, UsageError
from torchlint.base.finding import Safety
from torchlint.catalog.manual import HEADINGS, code_blocks, examples, split_manual
from torchlint.catalog.rules import OWN_ROOT, Catalog, load_catalog, load_rules
from torchlint.run.cache import plugin_files

SAMPLE = '''"""A tensor is read on the host in every step.

## Why

Because.

## Setup

```python
import torch
```

## Bad

```python
## not a heading
x = torch.ones(1).item()
```

## Good

```python
x = torch.ones(1)
```

## Leave alone

On a cold path.

```python
x = 1
```

In a debugger.

```text
torchlint: silent
```

```python
x = 2
```

## Measure

Safety.UNSAFE in the docstring counts for nothing.
"""

import libcst as cst

from torchlint.rule import Fix, Hit, Rule, Safety

rule = Rule(
    __name__,
    __doc__,
    code="TL102",
    message="`{name}` waits for the device",
    severity="warning",
    default=True,
    triggers=(b"item",),
    yields_to=("TL104",),
    equivalence="rng",
)


@rule.on(cst.Call)
def check(node, module):
    # Safety.SUGGESTION in a comment counts for nothing
    yield Hit(node, fix=Fix((), Safety.SAFE, "Do it"))
'''
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a rule file into a package that is importable under a name of its own, and return the
    package."""
    package = f"rules_of_{abs(hash(str(tmp_path)))}"
    monkeypatch.syspath_prepend(tmp_path)

    def put(text: str = SAMPLE, name: str = "transfer/host_read.py") -> Path:
        path = tmp_path / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return tmp_path / package

    return put


def catalog_of(package: Path) -> Catalog:
    return load_catalog([(package, package.name)])


def variant(code: str, default: bool = True) -> str:
    return SAMPLE.replace("TL102", code).replace("default=True", f"default={default}")


@pytest.fixture
def four(write: Write) -> Catalog:
    write()
    write(variant("TL103"), "transfer/second.py")
    write(variant("TL113", default=False), "transfer/third.py")
    return catalog_of(write(variant("TL201"), "loading/slow_loader.py"))


def test_a_rule_is_read_from_its_file(write: Write) -> None:
    package = write()
    (info,) = catalog_of(package).rules
    assert (info.code, info.name, info.family) == ("TL102", "host-read", "transfer")
    assert info.title == "A tensor is read on the host in every step."
    assert info.severity == "warning"
    assert info.default
    assert info.message == "`{name}` waits for the device"
    assert (info.triggers, info.yields_to) == ((b"item",), ("TL104",))
    assert (info.equivalence, info.effect) == ("rng", "none")
    assert info.fixes == (Safety.SAFE,)
    assert list(info.sections) == ["Why", "Setup", "Bad", "Good", "Leave alone", "Measure"]
    assert code_blocks(info.sections["Bad"]) == ["## not a heading\nx = torch.ones(1).item()\n"]
    assert info.module == f"{package.name}.transfer.host_read"
    assert info.path == str(package / "transfer" / "host_read.py")


def test_cases_of_a_section_carry_their_prose(write: Write) -> None:
    (info,) = catalog_of(write()).rules
    first, second = examples(info.sections["Leave alone"])
    assert (first.prose, first.code) == ("On a cold path.", "x = 1\n")
    assert second.prose.startswith("In a debugger.")
    assert second.code == "x = 2\n"


def test_no_rule_and_no_libcst_is_imported(write: Write) -> None:
    package = write("raise SystemExit\n" + SAMPLE)
    write("", "transfer/__init__.py")
    (package / "transfer" / "host_read.py").write_text(SAMPLE + "\nraise SystemExit('imported')\n")
    program = (
        "import sys; from torchlint.catalog.rules import load_catalog\n"
        f"print(load_catalog([({str(package)!r}, 'p')]).rules[0].code); load_catalog()\n"
        "print([name for name in sys.modules if name.startswith(('libcst', 'torch.', "
        "'torchlint.rule.'))])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == ["TL102", "[]"]


def cut(heading: str) -> Callable[[str], str]:
    """Return what takes a section out of the sample."""

    def change(text: str) -> str:
        start = text.index(f"## {heading}\n")
        marks = ('\n"""', *(f"\n## {other}\n" for other in HEADINGS))
        end = min(at for mark in marks if (at := text.find(mark, start)) > 0)
        return text[:start] + text[end + 1 :]

    return change


def swap(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


BREACHES = {
    "no-docstring": (lambda text: text[text.index("import libcst") :], "needs a docstring"),
    "no-title": (
        swap('"""A tensor is read on the host in every step.\n', '"""'),
        "first line must be the title",
    ),
    "no-why": (cut("Why"), "no '## Why'"),
    "no-bad": (cut("Bad"), "no '## Bad'"),
    "no-good": (cut("Good"), "no '## Good'"),
    "no-leave-alone": (cut("Leave alone"), "no '## Leave alone'"),
    "no-measure": (cut("Measure"), "no '## Measure'"),
    "no-fix-safety": (
        swap("Safety.SAFE,", "Safety.UNSAFE,"),
        "'## Fix safety', which an unsafe fix demands",
    ),
    "unknown-heading": (swap("## Why", "## Reason"), "unknown heading '## Reason'"),
    "heading-twice": (swap("## Setup", "## Why"), "'## Why' stands twice"),
    "text-before-headings": (
        swap("## Why", "Hello.\n\n## Why"),
        "between the title and the first heading",
    ),
    "open-block": (swap("```\n\n## Measure", "\n## Measure"), "not closed"),
    "no-code": (
        swap("```python\nx = torch.ones(1)\n```", "None."),
        "'## Good' holds no ```python block",
    ),
    "no-prose": (swap("On a cold path.\n", ""), "no line of prose"),
    "code-form": (swap('"TL102"', '"TL12"'), "must be TL and three digits"),
    "foreign-code": (swap('"TL102"', '"ABC102"'), "must be TL and three digits"),
    "engine-code": (swap('"TL102"', '"TL001"'), "engine's own"),
    "family": (swap('"TL102"', '"TL202"'), "does not belong to the family 'transfer'"),
    "no-rule": (swap("rule = Rule(", "other = Rule("), "binds one Rule"),
    "two-rules": (swap("import libcst as cst\n", "rule = None\n"), "binds one Rule"),
    "no-doc": (swap("    __doc__,\n", "    None,\n"), "__name__ and __doc__"),
    "not-literal": (swap('message="', 'message="a".upper() + "'), "message= is not a literal"),
    "unknown-argument": (swap("default=True", "default=True, colour=1"), "no argument 'colour'"),
    "star-argument": (swap("default=True", "default=True, **more"), "no argument '**'"),
    "missing-argument": (swap("    default=True,\n", ""), "lacks default="),
    "severity": (swap('"warning"', '"warn"'), "must be one of error, warning, info"),
    "default": (swap("default=True", "default=1"), "default= must be True or False"),
    "message": (
        swap('message="`{name}` waits for the device"', "message=1"),
        "message= must be a string",
    ),
    "message-brace": (swap("`{name}`", "`{name`"), "expected '}'"),
    "triggers": (swap('(b"item",)', '("item",)'), "triggers= must be a tuple of bytes"),
    "no-triggers": (swap('(b"item",)', "()"), "at least one byte string"),
    "empty-trigger": (swap('b"item"', 'b""'), "at least one byte string"),
    "yields-to": (swap('("TL104",)', '"TL104"'), "yields_to= must be a tuple of str"),
    "yields-to-itself": (swap('"TL104"', '"TL102"'), "not another rule's code"),
    "yields-to-a-name": (swap('"TL104"', '"host-copy"'), "not another rule's code"),
    "equivalence": (swap('"rng"', '"same"'), "must be one of bitwise, close, rng, opt-in"),
    "runs": (
        swap("default=True", 'default=True, runs="often"'),
        "must be one of anywhere, once, sample, hot",
    ),
    "effect": (
        swap("default=True", 'default=True, effect="faster"'),
        "must be one of wait, copy, host",
    ),
    "since": (
        swap("default=True", 'default=True, since="v1"'),
        "must be a release such as '0.1.0'",
    ),
    "syntax": (swap("rule = Rule(", "rule = Rule(]"), "line"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_file_that_breaks_the_contract_is_refused(write: Write, breach: str) -> None:
    change, reason = BREACHES[breach]
    package = write(change(SAMPLE))
    with pytest.raises(CatalogError) as caught:
        catalog_of(package)
    assert str(caught.value).startswith(f"{package}/transfer/host_read.py: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("transfer/HostRead.py", "lower-case words joined by '_'"),
        ("transfer/avoid_item.py", "name the smell"),
        ("transfer/memory.py", "is that of a family or a severity"),
        ("transfer/warning.py", "is that of a family or a severity"),
        ("host_read.py", "the folder of its family"),
        ("speed/host_read.py", "family 'speed'"),
    ],
)
def test_a_file_in_the_wrong_place_is_refused(write: Write, name: str, reason: str) -> None:
    with pytest.raises(CatalogError, match=reason):
        catalog_of(write(name=name))


def test_other_files_are_passed_over(write: Write) -> None:
    write("", "transfer/__init__.py")
    write("", "transfer/.#host_read.py")
    write("", "transfer/_facts.py")
    write("", "_more/facts.py")
    write("", "transfer/notes.md")
    assert len(catalog_of(write()).rules) == 1


def test_an_unreadable_file_is_refused(write: Write) -> None:
    package = write()
    (package / "transfer" / "host_read.py").write_bytes(b'"""\xff"""')
    with pytest.raises(CatalogError, match=r"host_read.py: .*utf-8"):
        catalog_of(package)


def test_a_code_or_name_is_given_once(write: Write) -> None:
    write()
    with pytest.raises(
        CatalogError, match=r"TL102 is taken twice: by .*host_read.py and by .*second.py"
    ):
        catalog_of(write(name="transfer/second.py"))


def test_a_name_is_given_once(write: Write) -> None:
    write()
    with pytest.raises(CatalogError, match=r"host-read is taken twice"):
        catalog_of(write(variant("TL201"), "loading/host_read.py"))


def test_rules_are_ordered_and_found(four: Catalog) -> None:
    assert [info.code for info in four.rules] == ["TL102", "TL103", "TL113", "TL201"]
    assert four.find("TL113") is four.find("third")
    assert four.find("tl113") is four.find("THIRD") is four.find("third")
    assert four.find("TL1") is None


@pytest.mark.parametrize(
    ("selectors", "codes"),
    [
        (["TL102"], {"TL102"}),
        (["TL10", "slow-loader"], {"TL102", "TL103", "TL201"}),
        (["TL0"], {"TL001"}),
        (["TL"], {"TL001", "TL102", "TL103", "TL113", "TL201"}),
        (["ALL"], {"TL001", "TL102", "TL103", "TL113", "TL201"}),
        (["tl10", "Slow-Loader"], {"TL102", "TL103", "TL201"}),
        (["tl102"], {"TL102"}),
        (["all"], {"TL001", "TL102", "TL103", "TL113", "TL201"}),
        (["transfer"], {"TL102", "TL103", "TL113"}),
        (["loading", "TL102"], {"TL102", "TL201"}),
        (["warning"], {"TL102", "TL103", "TL113", "TL201"}),
        ([], set()),
    ],
)
def test_selectors(four: Catalog, selectors: list[str], codes: set[str]) -> None:
    assert four.resolve(selectors, "here") == codes


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("TL112", "did you mean 'TL"),
        ("tl112", "did you mean 'TL"),
        ("TL1O2", "did you mean 'TL102'"),
        ("tlIo3", "did you mean 'TL103'"),
        ("TL1000", "unknown rule 'TL1000'; 'torchlint rules' lists all"),
        ("slow-loadr", "did you mean 'slow-loader'"),
        ("al", "did you mean 'ALL'"),
        ("transfr", "did you mean 'transfer'"),
        ("Transfer", "did you mean 'transfer'"),
        ("memory", "unknown rule 'memory'"),
        ("info", "unknown rule 'info'"),
        ("T", "unknown rule 'T'"),
        ("", "unknown rule ''"),
        ("1", "unknown rule '1'"),
        ("TL8", "unknown rule 'TL8'"),
    ],
)
def test_an_unknown_selector_is_an_error_with_a_suggestion(
    four: Catalog, selector: str, reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        four.resolve(["TL102", selector], "--select", UsageError)
    assert str(caught.value).startswith("--select: unknown rule ")
    assert reason in str(caught.value)
    with pytest.raises(ConfigError):
        four.resolve([selector], "--select")


def test_a_suggestion_for_a_huge_selector_is_short(four: Catalog) -> None:
    with pytest.raises(ConfigError) as caught:
        four.resolve(["TL" * 1_000_000], "here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("select", "ignore", "extend", "codes"),
    [
        ([], [], [], {"TL001", "TL102", "TL103", "TL201"}),
        ([], ["TL001"], [], {"TL102", "TL103", "TL201"}),
        ([], ["TL1"], [], {"TL001", "TL201"}),
        ([], ["ALL"], [], set()),
        ([], [], ["third"], {"TL001", "TL102", "TL103", "TL113", "TL201"}),
        (["TL2"], [], ["TL113"], {"TL113", "TL201"}),
        (["TL1"], ["TL10"], [], {"TL113"}),
        (["TL102"], ["TL1"], [], {"TL102"}),
        (["TL10"], ["TL10"], [], set()),
        (["ALL"], ["TL102", "slow-loader"], [], {"TL001", "TL103", "TL113"}),
        (["host-read"], ["TL102"], [], set()),
        (["TL102", "ALL"], ["TL"], [], {"TL102"}),
        (["transfer"], ["TL10"], [], {"TL113"}),
        (["transfer"], ["TL1"], [], set()),
        (["TL102", "ALL"], ["transfer"], [], {"TL001", "TL102", "TL201"}),
        (["TL"], ["warning"], [], {"TL001"}),
        (["transfer"], ["warning"], [], set()),
        (["warning"], ["transfer"], [], {"TL201"}),
        ([], [], ["transfer"], {"TL001", "TL102", "TL103", "TL113", "TL201"}),
    ],
)
def test_the_most_specific_selector_decides(
    four: Catalog, select: list[str], ignore: list[str], extend: list[str], codes: set[str]
) -> None:
    assert four.enabled(select, ignore, extend) == codes
    assert four.enabled(select, ignore, extend) == codes  # the memory gives the same


PLUGIN = variant("TL102").replace("TL102", "ABC102")


def plugin(value: str) -> EntryPoint:
    return EntryPoint("mine", value, "torchlint.rules")


@pytest.mark.parametrize(
    ("name", "value", "module"),
    [
        ("checks/host_read.py", "{0}.checks", "{0}.checks.host_read"),
        ("checks/host_read.py", "{0}.checks.host_read", "{0}.checks.host_read"),
        ("checks/deep/host_read.py", "{0}.checks", "{0}.checks.deep.host_read"),
        ("host_read.py", "{0}", "{0}.host_read"),
    ],
)
def test_a_plugin_is_found_without_an_import(
    write: Write, name: str, value: str, module: str
) -> None:
    package = write("raise SystemExit('imported')", "__init__.py")
    write(PLUGIN, name)
    (info,) = load_catalog([], [plugin(value.format(package.name))]).rules
    assert (info.code, info.module) == ("ABC102", module.format(package.name))
    assert package.name not in sys.modules


def test_a_plugin_may_be_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lone_rule_of_a_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    catalog = load_catalog([], [plugin("lone_rule_of_a_plugin")])
    (info,) = catalog.rules
    assert (info.module, info.name) == ("lone_rule_of_a_plugin", "lone-rule-of-a-plugin")
    # Nothing else in the folder, which may be that of all installed packages, decides what it
    # finds.
    assert list(plugin_files(catalog)) == [str(tmp_path / "lone_rule_of_a_plugin.py")]


@pytest.mark.parametrize("value", ["no_such_package_here", "{0}.missing", "{0}.missing.more", ""])
def test_a_plugin_that_is_not_there_is_left_out(write: Write, value: str) -> None:
    package = write(PLUGIN)
    catalog = load_catalog([], [plugin(value.format(package.name)), plugin(package.name)])
    assert [info.code for info in catalog.rules] == ["ABC102"]
    (problem,) = catalog.problems
    assert problem.message.startswith(
        "rules of the plugin mine are left out: its entry point 'mine'"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SAMPLE, "another prefix than TL"),
        (PLUGIN.replace("ABC102", "A102"), "two to five capitals"),
        (PLUGIN.replace("## Why", "## Reason"), "unknown heading"),
        (PLUGIN.replace("rule = Rule(", "rule = Rule(]"), "line"),
        ("", "needs a docstring"),
    ],
    ids=["our-prefix", "short-prefix", "manual", "syntax", "empty"],
)
def test_a_broken_file_of_a_plugin_costs_its_own_rule(write: Write, text: str, reason: str) -> None:
    write(PLUGIN.replace("ABC102", "ABC103"), "checks/second.py")
    package = write(text, "checks/host_read.py")
    catalog = load_catalog([], [plugin(package.name)])
    assert [info.code for info in catalog.rules] == ["ABC103"]
    (problem,) = catalog.problems
    assert problem.path == str(package / "checks" / "host_read.py")
    assert problem.message.startswith("rules of the plugin mine are left out: ")
    assert reason in problem.message
    assert "\n" not in problem.message


def test_a_plugin_without_a_rule_file_says_so(write: Write) -> None:
    catalog = load_catalog([], [plugin(write("", "checks/__init__.py").name)])
    assert [problem.message.rpartition(": ")[2] for problem in catalog.problems] == [
        "it holds no rule file"
    ]


def test_modules_with_an_underscore_are_the_plugins_own(write: Write) -> None:
    write("", "checks/_facts.py")
    write("", "_more/facts.py")
    write("", "_facts.py")
    catalog = load_catalog([], [plugin(write(PLUGIN, "checks/host_read.py").name)])
    assert ([info.code for info in catalog.rules], catalog.problems) == (["ABC102"], ())


def distribution(folder: Path, package: str) -> EntryPoint:
    """Return the entry point of an installed distribution that brings the rules of a package."""
    metadata = folder / f"{package}-2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}-dist\nVersion: 2\n")
    (metadata / "entry_points.txt").write_text(f"[torchlint.rules]\nmine = {package}\n")
    (entry,) = PathDistribution(metadata).entry_points
    return entry


@pytest.mark.parametrize(
    ("change", "what"),
    [({"ABC102": "ABC103"}, "name host-read"), ({"host_read": "other"}, "code ABC102")],
    ids=["name", "code"],
)
def test_of_two_plugins_that_collide_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], what: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    entries = []
    for package, changes in (("plugin_b", change), ("plugin_a", {})):
        name, text = "host_read", PLUGIN
        for old, new in changes.items():
            name, text = name.replace(old, new), text.replace(old, new)
        (tmp_path / package / "checks").mkdir(parents=True)
        (tmp_path / package / "checks" / f"{name}.py").write_text(text)
        entries.append(distribution(tmp_path, package))
    catalog = load_catalog([], entries)
    assert [info.package for info in catalog.rules] == ["plugin_a-dist"]
    (problem,) = catalog.problems
    words = (
        f"rules of the plugin plugin_b-dist are left out: {what} is already taken by "
        "plugin_a-dist ("
    )
    assert problem.message.startswith(words)
    assert problem.path.startswith(str(tmp_path / "plugin_b"))


def test_a_plugin_cannot_take_the_name_of_one_of_our_rules(write: Write) -> None:
    own = load_catalog([OWN_ROOT], []).find("TL102")
    assert own is not None
    package = write(PLUGIN, f"checks/{own.name.replace('-', '_')}.py")
    catalog = load_catalog([OWN_ROOT], [plugin(package.name)])
    assert catalog.find(own.name) == own
    (problem,) = catalog.problems
    assert f"name {own.name} is already taken by torchlint ({own.path})" in problem.message


def test_what_a_plugin_left_out_may_still_be_selected(write: Write) -> None:
    catalog = load_catalog([], [plugin(write(SAMPLE).name)])
    assert catalog.problems
    assert catalog.resolve(["ABC102", "my-rule"], "here") == frozenset()
    with pytest.raises(ConfigError, match="unknown rule 'TL102'"):
        catalog.resolve(["TL102"], "here")


@pytest.mark.parametrize(
    ("value", "root"),
    [("{0}.checks", "."), ("{0}.checks.host_read", "checks"), ("{0}", ".")],
)
def test_the_root_of_a_plugin_holds_what_its_rules_rest_on(
    write: Write, value: str, root: str
) -> None:
    package = write(PLUGIN, "checks/host_read.py")
    (info,) = load_catalog([], [plugin(value.format(package.name))]).rules
    assert Path(info.root) == package / root


def test_rules_of_a_plugin_are_selected_by_their_letters(write: Write) -> None:
    package = write(PLUGIN, "checks/host_read.py")
    catalog = load_catalog([], [plugin(package.name)])
    assert catalog.resolve(["ABC"], "here") == {"ABC102"}
    with pytest.raises(ConfigError):
        catalog.resolve(["AB"], "here")
    assert catalog.resolve(["warning"], "here") == {"ABC102"}
    assert catalog.enabled(["ABC1"], ["warning"]) == set()
    assert catalog.enabled(["ABC10"], ["warning"]) == {"ABC102"}


def test_a_worker_imports_just_the_rules_that_are_on(write: Write) -> None:
    package = write()
    write(variant("TL103") + "\nraise SystemExit('imported')\n", "transfer/second.py")
    (rule,), problems = load_rules({"TL102", "TL001"}, catalog_of(package))
    assert (rule.code, rule.name, len(rule.checks), problems) == ("TL102", "host-read", 1, [])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            "rule.message = 'other'",
            "FrozenInstanceError on import: cannot assign to field 'message'",
        ),
        ("object.__setattr__(rule, 'message', 'other')", "message was read as"),
        ("object.__setattr__(rule, 'triggers', ())", "triggers was read as"),
        ("rule = None", "binds no Rule"),
        ("rule.checks.clear()", "no check is marked"),
        ("1 / 0", "ZeroDivisionError on import"),
        ("raise SystemExit('a\\nb')", "SystemExit on import: a b"),
    ],
)
def test_a_rule_that_is_not_what_its_file_says_is_left_out(
    write: Write, more: str, reason: str
) -> None:
    write(variant("TL103"), "transfer/second.py")
    package = write(f"{SAMPLE}\n{more}\n")
    rules, (problem,) = load_rules({"TL102", "TL103"}, catalog_of(package))
    assert [rule.code for rule in rules] == ["TL103"]
    assert problem.path == str(package / "transfer" / "host_read.py")
    assert problem.message.startswith("rule TL102 is left out: ")
    assert reason in problem.message


def test_our_own_rules_are_sound() -> None:
    catalog = load_catalog()
    assert {other for info in catalog.rules for other in info.yields_to} <= catalog.codes
    rules, problems = load_rules(catalog.codes)
    assert ([rule.code for rule in rules], problems) == ([info.code for info in catalog.rules], [])


def test_each_of_our_rules_says_what_mending_its_findings_takes_out() -> None:
    catalog = load_catalog()
    silent = [
        info.code
        for info in catalog.rules
        if "\n    effect=" not in Path(info.path).read_text(encoding="utf-8")
    ]
    assert silent == []
    assert {info.effect for info in catalog.rules} == set(EFFECTS)


def test_no_rule_of_ours_is_newer_than_torchlint() -> None:
    current = Version(__version__)
    assert all(Version(info.since or FIRST_RELEASE) <= current for info in load_catalog().rules)


def test_split_manual_without_headings() -> None:
    assert split_manual("Just a title.") == ("Just a title.", {})


def test_smaller_headings_belong_to_their_section() -> None:
    _, sections = split_manual("Title.\n\n## Why\n\n### On a GPU\n\nText.\n")
    assert sections == {"Why": "### On a GPU\n\nText."}


@pytest.mark.parametrize(
    ("fix", "kinds"),
    [
        ('safe_unless(notes, (), "Do it")', (Safety.SAFE, Safety.UNSAFE)),
        ('Fix((), Safety.SAFE, "Do it", assumes={TORCH: ""})', (Safety.SAFE, Safety.UNSAFE)),
        ('Fix((), Safety.SAFE, "Do it")  # not safe_unless(notes)', (Safety.SAFE,)),
        ('is_safe_unless(Safety.SAFE, "Do it")', (Safety.SAFE,)),
    ],
)
def test_kinds_of_fixes_are_read_where_they_are_built(
    write: Write, fix: str, kinds: tuple[Safety, ...]
) -> None:
    text = SAMPLE.replace('fix=Fix((), Safety.SAFE, "Do it"))', f"fix=(\n        {fix}\n    ))")
    assert text != SAMPLE
    safety = "## Fix safety\n\nIt may round.\n\n## Setup"
    (info,) = catalog_of(write(text.replace("## Setup", safety))).rules
    assert info.fixes == kinds


def test_a_rule_shown_in_the_manual_is_not_taken_for_the_rule(write: Write) -> None:
    text = SAMPLE.replace("x = 2\n", 'rule = Rule(\n    __name__,\n    code="TL103",\n)\n')
    assert [info.code for info in catalog_of(write(text)).rules] == ["TL102"]


def test_our_own_manuals_keep_the_contract() -> None:
    """A start reads them without looking at their sections, and gives the same rules."""
    thorough = load_catalog([OWN_ROOT], [])
    own = [info for info in load_catalog().rules if info.code.startswith("TL")]
    assert own == list(thorough.rules)


@pytest.mark.parametrize(
    "change",
    [
        swap("Because.", "A back\\\\slash."),
        lambda text: "# A comment.\n" + text,
        lambda text: text.replace("rule = Rule(\n", "rule: Rule = Rule(\n"),
        lambda text: text.replace("\n)\n\n\n@rule", ")\n\n\n@rule"),
        lambda text: text.replace("\n", "\r\n"),
    ],
    ids=["backslash", "comment", "annotated", "no-closing-line", "crlf"],
)
def test_unusual_forms_are_read_too(write: Write, change: Callable[[str], str]) -> None:
    package = write("")
    (package / "transfer" / "host_read.py").write_bytes(change(SAMPLE).encode())
    (info,) = catalog_of(package).rules
    assert (info.code, info.fixes, info.title) == (
        "TL102",
        (Safety.SAFE,),
        "A tensor is read on the host in every step.",
    )
    assert ("\\" in info.manual) == ("slash" in info.manual)
