"""The table of the configuration's keys: a row says all that there is to say of one.

From it come the reader of configuration files with its messages, the options of the commands, what
``--show-settings`` prints, what the editor may set, the documentation, ``torchlint init``, and
which settings a cache and a shard of a run depend on. A new key is a new row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, TypeVar

from torchlint import __version__
from torchlint.base.contract import UNSAID, Contract
from torchlint.base.errors import TorchlintError
from torchlint.base.finding import Severity
from torchlint.base.places import CACHE_NAME
from torchlint.base.records import dataclass, frozen
from torchlint.catalog.rules import Catalog
from torchlint.report.formats import DEFAULT as DEFAULT_FORMAT
from torchlint.report.formats import FORMATS
from torchlint.settings import values
from torchlint.settings.versions import DEFAULT_TORCH
from torchlint.source.discover import DEFAULT_EXCLUDE, DEFAULT_INCLUDE
from torchlint.source.paths import lies_in

T = TypeVar("T")


class Decides(Enum):
    """What a setting decides."""

    FINDINGS = auto()
    """What is found in a file."""
    REPORT = auto()
    """Which files are checked, and what is said of what is found."""
    RUN = auto()
    """How a run goes and how it ends; neither of these."""


@frozen
class Option:
    """A key as an option of the command line.

    Args:
        helps: what it does, by the group of options that it belongs to: ``common`` of `check` and
            `fix`, ``adoption`` and ``check`` of `check` alone, ``clean``, ``verify``.
        place: where it stands among the options of its group.
        metavar: what stands for its value in the help.
        short: its short form.
        negative: whether there is a ``--no-…`` beside it.
        lowest: the least number allowed, where click is to say so.
    """

    helps: Mapping[str, str]
    place: int = 0
    metavar: str | None = None
    short: str = ""
    negative: bool = False
    lowest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A row of the table.

    Args:
        check: turns what is written into the value of the setting.
        default: the value where nothing is written.
        decides: what depends on it.
        takes: the kind of value in words, markdown.
        words: what the key does, plain text.
        sample: a line of TOML, or a table, that sets it.
        place: where it stands in what ``torchlint init`` writes.
        more: what else there is to say, markdown.
        unset: the default in words, where it is no value.
        known: refuses a value that names rules that there are not, or matches nothing.
        option: the option of the command line that sets it, if there is one.
        editor: where it stands among the keys that an editor may set; 0 for one that it may not.
        refused: says, of a value and the project's root, what only the user may ask for, in words;
            a configuration that was found comes with the code, maybe from a stranger.
        adds_up: whether the values of all layers count, one after the other.
        adds_to: the key whose value it adds to in the end.
        takes_back: the key of whose selectors, in the layers below, it takes back its own.
        starts_anew: whether it voids those keys of the layers below that take back others.
        in_files_only: whether it can stand in a configuration file only.
    """

    check: values.Checker
    default: object
    decides: Decides
    takes: str
    words: str
    sample: str
    place: int
    more: str = ""
    unset: str = ""
    known: Callable[[Any, Catalog, str, type[TorchlintError]], None] | None = None
    option: Option | None = None
    editor: int = 0
    refused: Callable[[Any, str], str] | None = None
    adds_up: bool = False
    adds_to: str = ""
    takes_back: str = ""
    starts_anew: bool = False
    in_files_only: bool = False


def _key(check: values.Checker, default: T, decides: Decides, **row: Any) -> T:
    """Return the field of `Settings` that holds a key's value."""
    return field(
        default=default,
        metadata={"key": Key(check=check, default=default, decides=decides, **row)},
    )


def _unsafe(value: bool, root: str) -> str:
    return "unsafe fixes" if value else ""


def _elsewhere(value: str, root: str) -> str:
    return "" if lies_in(value, root) else "a cache outside of the project"


_FILES = "list of globs"
_RULES = "list of codes, prefixes of codes, names, families, severities or `ALL`"
_SEVERITIES = '`"error"`, `"warning"` or `"info"`'
_BOOLEAN = "true or false"
_PATH = "path, relative to the project's root"
CONFIGURED = "configuration"
"""Where a lowest torch comes from if a configuration or an option sets it."""


@frozen
class Settings:
    """All that is configured, resolved; hashable. Each key of the configuration is a field.

    Paths are absolute, and what `exclude` leaves out is all that is left out.

    Args:
        root: the project root, absolute, links resolved: fingerprints, globs and imports are
            relative to it.
        config: the configuration file, absolute, or empty.
        target_torch_from: the file of dependencies that says so, `CONFIGURED`, or empty where
            nothing does.
        newest_torch: the last torch, as (major, minor), that the dependencies allow; None where
            that is open, or configured.
        refused: what a configuration asks for that only the user may, in words for the user.
    """

    root: str
    config: str = ""
    select: tuple[str, ...] = _key(
        values.selection,
        (),
        Decides.FINDINGS,
        takes=_RULES,
        words=(
            "Rules to check, in place of the default ones: codes, prefixes of codes, names, "
            "families, severities or ALL."
        ),
        sample='select = ["TL1", "TL503"]',
        place=10,
        more="A family is what `torchlint rules` prints as such (`memory`), a severity that of the "
        "rule itself (`warning`); single findings of a rule may be less severe. Both are written "
        "in small letters, and no rule has such a name.",
        unset="the rules that are on by default",
        known=values.known_rules,
        option=Option(
            {
                "common": "Check these rules only: codes, prefixes of codes, names, families "
                "(memory), severities (warning) or ALL.",
                "verify": "Verify fixes of these rules only.",
            },
            10,
        ),
        editor=1,
        starts_anew=True,
    )
    ignore: tuple[str, ...] = _key(
        values.rules,
        (),
        Decides.FINDINGS,
        takes=_RULES,
        words="Rules to leave out.",
        sample='ignore = ["TL202"]',
        place=20,
        more="Of several selectors that hold a rule the most specific one decides; of two equally "
        "specific ones, `ignore` wins. A family or a severity is as specific as `TL1`; a severity "
        "is that of the rule itself: `info` leaves out no info of a rule that warns elsewhere.",
        known=values.known_rules,
        option=Option(
            {
                "common": "Leave these rules out; a severity (info) goes by the rule, not by the "
                "finding.",
                "verify": "Leave the fixes of these rules out.",
            },
            20,
        ),
        editor=3,
        takes_back="extend-select",
    )
    extend_select: tuple[str, ...] = _key(
        values.rules,
        (),
        Decides.FINDINGS,
        takes=_RULES,
        words="Rules to check besides the default ones.",
        sample='extend-select = ["TL407"]',
        place=30,
        known=values.known_rules,
        option=Option(
            {
                "common": "Check these rules as well.",
                "verify": "Verify fixes of these rules as well.",
            },
            30,
        ),
        editor=2,
        takes_back="ignore",
    )
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = _key(
        values.rules_by_glob,
        (),
        Decides.FINDINGS,
        takes=f"table of glob = {_RULES}",
        words="Rules to leave out in some files.",
        sample='[per-file-ignores]\n"scripts/*" = ["TL101"]',
        place=220,
        more="A glob with `!` in front stands for all other files.",
        known=values.known_by_glob,
        option=Option(
            {"common": "Leave rules out in some files, in place of the configured ones."},
            35,
            metavar="GLOB:RULE,...",
        ),
    )
    include: tuple[str, ...] = _key(
        values.texts,
        DEFAULT_INCLUDE,
        Decides.REPORT,
        takes=_FILES,
        words="Which files to take from a folder.",
        sample='include = ["*.py", "*.pyi", "*.ipynb"]',
        place=100,
        known=values.known_globs,
    )
    exclude: tuple[str, ...] = _key(
        values.texts,
        DEFAULT_EXCLUDE,
        Decides.REPORT,
        takes=_FILES,
        words="What to leave out of a folder, in place of what is left out anyway.",
        sample='exclude = [".git", ".venv", "build"]',
        place=120,
        known=values.known_globs,
        more=(
            "A path that is named on the command line is checked nevertheless, unless "
            "`force-exclude` is set."
        ),
        option=Option(
            {"common": "Leave these files and folders out, in place of the configured ones."},
            132,
            metavar="GLOB,...",
        ),
    )
    respect_gitignore: bool = _key(
        values.flag,
        True,
        Decides.REPORT,
        takes=_BOOLEAN,
        words="Whether what git ignores is left out.",
        sample="respect-gitignore = true",
        place=140,
    )
    force_exclude: bool = _key(
        values.flag,
        False,
        Decides.REPORT,
        takes=_BOOLEAN,
        words="Whether excludes hold for files that are named, too.",
        sample="force-exclude = false",
        place=130,
        more="pre-commit names files; the hooks set it.",
        option=Option({"common": "Obey excludes for named paths too."}, 140),
    )
    target_torch: tuple[int, int] = _key(
        values.torch,
        DEFAULT_TORCH,
        Decides.FINDINGS,
        takes="version in quotes",
        words="The oldest torch that fixes must work on; else read from your dependencies.",
        sample='target-torch = "2.4"',
        place=70,
        more="That is the lower bound of torch in the nearest folder, from the file's own up to "
        "the root, where `pyproject.toml`, `setup.py`, `setup.cfg`, `PKG-INFO`, "
        "`*.dist-info/METADATA`, "
        "`requirements*.txt`, `requirements/*.txt` or `environment.yml` has one; the lowest of "
        "several, and 2.4 where there is none: a fix that an older torch cannot run is unsafe "
        "then. Of `torch<2` it is 1.13. Nothing of these files is run. `--show-settings` "
        "prints the file under `target-torch-from`.",
        unset="read from your dependencies",
        option=Option(
            {"common": "The lowest torch version that fixes must work on."}, 50, metavar="X.Y"
        ),
    )
    target_torch_from: str = field(default="", compare=False)
    newest_torch: tuple[int, ...] | None = None
    accelerator: str = _key(
        values.Choice("auto", "cuda", "mps", "cpu"),
        "auto",
        Decides.FINDINGS,
        takes='`"auto"`, `"cuda"`, `"mps"` or `"cpu"`',
        words="What the code runs on: auto, cuda, mps or cpu.",
        sample='accelerator = "auto"',
        place=80,
        more="`auto` reads it from the code: a file that never mentions an accelerator is taken "
        "for "
        "CPU code, and the rules on transfers are silent in it.",
        option=Option({"common": "What the code is known to run on."}, 60),
    )
    assume_hot: tuple[str, ...] = _key(
        values.texts,
        (),
        Decides.FINDINGS,
        takes="list of globs of function names",
        words="Functions that run every step although no loop here shows it.",
        sample='assume-hot = ["act", "*_update"]',
        place=90,
        more="Callbacks of a framework that torchlint does not know, say.",
    )
    no_waits: Contract = _key(
        values.contract,
        UNSAID,
        Decides.FINDINGS,
        takes="table: `functions` (globs of qualified names), `files` (globs), `decorators` "
        '(names; by default `["no_waits"]`), `allow` (list of tables)',
        words="Code in which the host must not wait for the device, and the waits that are listed.",
        sample='[no-waits]\nfunctions = ["train.step", "Trainer.training_step"]\n'
        'allow = [{ at = "train.py:step", line = "loss.item()", owner = "ada", '
        'reason = "the scheduler needs it" }]',
        place=215,
        more="In it every host read, blocking copy and other wait is an error of "
        "[TL115](rules.md#TL115), unless it is listed: by a comment "
        "`# torchlint: allow-wait[owner] reason`, or by an entry of `allow`, which names the file, "
        "the function and a part of the statement's text, so that it survives when lines move. See "
        "[a contract of no waits](no-waits.md).",
        known=values.known_in_contract,
    )
    line_length: int = _key(
        values.count,
        0,
        Decides.FINDINGS,
        takes="whole number",
        words="How long fixes may make a line; else your formatter's limit, or the file's.",
        sample="line-length = 100",
        place=95,
        more="That is what the tables of ruff, black, yapf or autopep8 in `pyproject.toml`, "
        "`ruff.toml`, flake8 or pycodestyle in `setup.cfg`, `tox.ini` or `.flake8`, or "
        "`.editorconfig` say in the project's root. Where none does, it is 88, 100 or 120: the "
        "lowest that no line of the file's code passes, else 120. Longer lines of fixes are "
        "wrapped.",
        unset="that of your formatter, else of the file",
    )
    fail_on: Severity = _key(  # a member of an enumeration can be shared
        values.severity,
        Severity.WARNING,
        Decides.RUN,
        takes=_SEVERITIES,
        words="The lowest severity that makes the exit code 1: error, warning or info.",
        sample='fail-on = "warning"',
        place=40,
        option=Option(
            {"common": "The lowest severity that makes the exit code 1 (default: warning)."}, 90
        ),
    )
    output_format: str = _key(
        values.report_format,
        DEFAULT_FORMAT,
        Decides.RUN,
        takes="name of a format",
        words="How findings are printed.",
        sample='output-format = "ranked"',
        place=190,
        option=Option(
            {
                "common": "How to print findings (default: ranked), or a report to write. "
                f"Repeatable. Formats: {', '.join(FORMATS)}."
            },
            70,
            metavar="FORMAT[:FILE]",
        ),
    )
    max_file_size: int = _key(
        values.count,
        1_000_000,
        Decides.REPORT,
        takes="bytes",
        words="Larger files are left out, in bytes; 0 for no limit.",
        sample="max-file-size = 1_000_000",
        place=150,
        more="Each is named in the report.",
        option=Option(
            {"common": "Leave out larger files (default: 1000000; 0: no limit)."},
            120,
            metavar="BYTES",
        ),
    )
    timeout: float = _key(
        values.seconds,
        30.0,
        Decides.RUN,
        takes="seconds",
        words="CPU seconds for one file.",
        sample="timeout = 30",
        place=160,
        more="A file that takes more is named in the report.",
        option=Option({"common": "CPU time for one file (default: 30)."}, 110, metavar="SECONDS"),
    )
    jobs: int = _key(
        values.count,
        0,
        Decides.RUN,
        takes="whole number",
        words="Worker processes at most; 0 for one a core.",
        sample="jobs = 0",
        place=170,
        more="Small runs use one anyway.",
        option=Option(
            {"common": "Worker processes at most."}, 100, metavar="N", short="-j", lowest=0
        ),
    )
    unsafe_fixes: bool = _key(
        values.flag,
        False,
        Decides.REPORT,
        takes=_BOOLEAN,
        words=(
            "Whether to count and apply fixes that may change rounding, random numbers and the "
            "like."
        ),
        sample="unsafe-fixes = false",
        place=60,
        more="A configuration that lies with the code may be a stranger's, so `true` counts only "
        "in "
        "a file that `--config` names; it is ignored elsewhere, with a line that says so. Use "
        "`--unsafe-fixes`.",
        option=Option(
            {"common": "Count and apply unsafe fixes too.", "verify": "Verify unsafe fixes too."},
            40,
            negative=True,
        ),
        editor=4,
        refused=_unsafe,
    )
    fixable: tuple[str, ...] = _key(
        values.rules,
        ("ALL",),
        Decides.FINDINGS,
        takes=_RULES,
        words="Rules whose fixes are offered.",
        sample='fixable = ["TL1"]',
        place=62,
        known=values.known_rules,
        option=Option({"common": "Offer the fixes of these rules only."}, 42),
    )
    unfixable: tuple[str, ...] = _key(
        values.rules,
        (),
        Decides.FINDINGS,
        takes=_RULES,
        words="Rules that are reported without their fixes.",
        sample='unfixable = ["TL501"]',
        place=63,
        more="Of several selectors that hold a rule the most specific one decides; of two equally "
        "specific ones, `unfixable` wins.",
        known=values.known_rules,
        option=Option({"common": "Report these rules without their fixes."}, 43),
    )
    safe: str = _key(
        values.Choice("contract", "strict"),
        "contract",
        Decides.FINDINGS,
        takes='`"contract"` or `"strict"`',
        words="What safe fixes may take for granted: contract or strict.",
        sample='safe = "contract"',
        place=65,
        more="With `contract`, that is what an ordinary program does, and a project that shows "
        "anything else gets an unsafe fix; see [fixes](fixes.md). With `strict` it is nothing.",
    )
    library_infos: bool = _key(
        values.flag,
        False,
        Decides.FINDINGS,
        takes=_BOOLEAN,
        words="Whether infos are listed in a library as well.",
        sample="library-infos = true",
        place=67,
        more="A library is a package that lies beside the metadata of its wheel, or in a project "
        "that holds no program. A program is a notebook, a `__main__.py`, a file outside of "
        "packages that does something, or one in a package that has a `__main__` guard and trains, "
        "by its name or by what it says; tests, benchmarks and examples are none. Who trains with "
        "a library, and how often its functions run, is not in view: of 110 infos that readers met "
        "in libraries 24 were right, of 128 warnings 65.",
        option=Option({"common": "List infos in libraries too."}, 65),
    )
    severity: tuple[tuple[str, Severity], ...] = _key(
        values.severities,
        (),
        Decides.REPORT,
        takes=f"table of rule = {_SEVERITIES}",
        words="Severities other than the rules' own.",
        sample='[severity]\nTL107 = "warning"',
        place=230,
        more="Of several selectors that hold a rule the most specific one decides.",
        known=values.known_in_severities,
        adds_up=True,
    )
    cache_dir: str = _key(
        values.path,
        CACHE_NAME,
        Decides.RUN,
        takes=_PATH,
        words="Where results are kept.",
        sample='cache-dir = ".torchlint_cache"',
        place=180,
        more="`torchlint clean` removes the folder. A place outside of the project counts only "
        "in a "
        "file that `--config` names; it is ignored elsewhere, with a line that says so. Use "
        "`--cache-dir`.",
        option=Option(
            {
                "check": "Where to keep results (default: .torchlint_cache in the project).",
                "clean": "Remove this cache, not the one of the project.",
            },
            metavar="DIR",
        ),
        refused=_elsewhere,
    )
    baseline: str = _key(
        values.path,
        "",
        Decides.RUN,
        takes=_PATH,
        words=(
            "A file of findings that are not reported; `torchlint check --write-baseline` "
            "writes it."
        ),
        sample='baseline = "torchlint-baseline.json"',
        place=50,
        option=Option(
            {"adoption": "Report only findings that are not in this baseline."}, metavar="FILE"
        ),
    )
    refused: tuple[str, ...] = ()


CACHE_DIR = "cache-dir"
TARGET_TORCH = "target-torch"
EXTEND = "extend"
REQUIRED_VERSION = "required-version"
_WITHOUT_FIELD = {
    EXTEND: Key(
        check=values.path,
        default="",
        decides=Decides.RUN,
        takes="path of a configuration file",
        words="A configuration that this one adds to.",
        sample='extend = "../torchlint.toml"',
        place=210,
        more="What stands here wins.",
        in_files_only=True,
    ),
    "extend-exclude": Key(
        check=values.texts,
        default=(),
        decides=Decides.REPORT,
        takes=_FILES,
        words="What to leave out besides what is left out anyway.",
        sample='extend-exclude = ["third_party/"]',
        place=110,
        adds_up=True,
        adds_to="exclude",
        known=values.known_globs,
        option=Option(
            {"common": "Leave these files and folders out as well."}, 134, metavar="GLOB,..."
        ),
    ),
    REQUIRED_VERSION: Key(
        check=values.specifier,
        default="",
        decides=Decides.RUN,
        takes="version specifier",
        words="Which torchlint this file is made for.",
        sample=f'required-version = ">={__version__}"',
        place=200,
        more="Any other refuses to run, with exit code 2.",
    ),
}
"""Keys that are used up before there are settings."""

FIELDS: Mapping[str, str] = MappingProxyType(
    {spec.name.replace("_", "-"): spec.name for spec in fields(Settings) if "key" in spec.metadata}
)
"""Key → the field of `Settings` that holds its value, which is the name of its option for click,
too."""
_ROWS = {key: Settings.__dataclass_fields__[name].metadata["key"] for key, name in FIELDS.items()}
KEYS: Mapping[str, Key] = MappingProxyType(dict(sorted({**_ROWS, **_WITHOUT_FIELD}.items())))
"""All rows by key, in the order of the alphabet."""


def deciding(settings: Settings, *what: Decides) -> list[tuple[str, object]]:
    """Return the keys and values that decide on findings, say; the same on every machine."""
    return [
        (key, getattr(settings, name)) for key, name in FIELDS.items() if KEYS[key].decides in what
    ]


def checked(
    key: str, value: object, where: str, error: type[TorchlintError], section: str = ""
) -> object:
    """Return the checked value of one key.

    Args:
        key: one of `KEYS`, or what a user wrote for one.
        value: as TOML or the command line gives it.
        where: what the message starts with, up to and with ``": "``.
        error: the class to raise.
        section: what the message says after an unknown key: `` in [tool.torchlint]``, say.

    Raises:
        TorchlintError: of class `error`; the key is unknown, or takes no such value.
    """
    if key not in KEYS:
        raise error(f"{where}unknown key {values.shortened(key)}{section}{nearest_key(key)}")
    try:
        return KEYS[key].check(value)
    except ValueError as reason:
        raise error(f"{where}{key} {reason}") from None


def nearest_key(key: str) -> str:
    """Return what a message says after an unknown key."""
    import difflib

    written = key[: values.SHOWN].lower().replace("_", "-")
    near = difflib.get_close_matches(written, KEYS, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(KEYS)}"
