"""From configuration files and command-line options to `Settings`.

The nearest configuration file alone holds for a file, together with what that one extends; options win over it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from torchlint.base.errors import ConfigError, TorchlintError, UsageError
from torchlint.base.finding import Severity
from torchlint.base.places import CACHE_NAME
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.engine.config_file import Layer, find_config, read_chain
from torchlint.engine.dependencies import Declared, declared_above, declared_in
from torchlint.engine.options import OPTIONS, check_option
from torchlint.engine.versions import DEFAULT_TORCH
from torchlint.source.discover import DEFAULT_EXCLUDE, DEFAULT_INCLUDE
from torchlint.source.globs import bad_globs, matches
from torchlint.source.paths import real_folder_of

__all__ = [
    "Overrides",
    "Settings",
    "codes_for",
    "find_config",
    "find_root",
    "in_folder",
    "lies_in",
    "load_settings",
    "parse_inline",
    "severities",
]

Overrides = Mapping[str, object]
"""Options of the command line by their kebab-case keys; None stands for one that was not given."""
CONFIGURED = "configuration"
"""Where ``target-torch`` comes from if a configuration or an option sets it."""
_FILES_ONLY = ("extend", "required-version")
_SELECTORS = ("select", "extend-select", "ignore")


@dataclass(frozen=True, slots=True)
class Settings:
    """All that is configured, resolved; hashable.

    Args:
        root: the project root, absolute, links resolved: fingerprints, globs and imports are relative to it.
        config: the configuration file, absolute, or empty.
        select: selectors that replace the default rules; empty for the defaults.
        ignore: selectors of rules that are off.
        extend_select: selectors of rules that are on beside the selected ones.
        per_file_ignores: (glob, selectors) of rules that are off in the files that the glob matches.
        include: globs of the files to take from a directory.
        exclude: globs of what to leave out, ``extend-exclude`` included.
        respect_gitignore: whether git's ignore files count.
        force_exclude: whether excludes also hold for paths that are named.
        target_torch: the lowest torch that fixes must work on, as (major, minor).
        target_torch_from: the file of dependencies that says so, `CONFIGURED`, or empty where nothing does.
        accelerator: ``"auto"``, ``"cuda"``, ``"mps"`` or ``"cpu"``.
        assume_hot: globs of the names of functions that are hot.
        fail_on: the lowest severity that makes a run fail.
        output_format: the name of a report format.
        max_file_size: in bytes; 0 for no limit.
        timeout: CPU seconds for one file.
        jobs: worker processes at most; 0 for one a core.
        unsafe_fixes: whether unsafe fixes are applied too.
        severity: (selector, severity) that replace the rules' own; see `severities`.
        cache_dir: the folder of the cache, absolute.
        baseline: the file with the findings that are not reported, absolute, or empty.
        refused: what a configuration asks for that only the user may, in words for the user.
    """

    root: str
    config: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    include: tuple[str, ...] = DEFAULT_INCLUDE
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    respect_gitignore: bool = True
    force_exclude: bool = False
    target_torch: tuple[int, int] = DEFAULT_TORCH
    target_torch_from: str = field(default="", compare=False)
    accelerator: str = "auto"
    assume_hot: tuple[str, ...] = ()
    fail_on: Severity = Severity.WARNING
    output_format: str = "ranked"
    max_file_size: int = 1_000_000
    timeout: float = 30.0
    jobs: int = 0
    unsafe_fixes: bool = False
    severity: tuple[tuple[str, Severity], ...] = ()
    cache_dir: str = ""
    baseline: str = ""
    refused: tuple[str, ...] = ()


def find_root(config: str | None, start: str) -> str:
    """Return the project root: the folder of `config`, else the git root above `start`, else the folder `start`.

    Args:
        config: what `find_config` gave.
        start: a file or folder; need not exist. Of a link to a file, the place of the link counts.
    """
    if config:
        return os.path.realpath(os.path.dirname(config))
    try:
        folder = first = real_folder_of(start)
    except (OSError, ValueError):  # the current directory was deleted, or no path can be like this
        return os.path.abspath(os.sep)
    while not os.path.lexists(os.path.join(folder, ".git")):  # a file in a worktree or submodule
        if os.path.dirname(folder) == folder:
            return first
        folder = os.path.dirname(folder)
    return folder


def load_settings(
    config: str | None,
    overrides: Overrides = MappingProxyType({}),
    *,
    start: str = os.curdir,
    root: str | None = None,
    catalog: Catalog | None = None,
    trusted: bool = False,
) -> Settings:
    """Read a configuration file with what it extends, and put the options on top.

    A configuration that was found comes with the code, maybe from a stranger: it cannot allow unsafe fixes, nor have
    files made outside of the project.

    Args:
        config: the file, from `find_config` or named by the user; None for defaults and options only.
        overrides: options of the command line.
        start: the path that is checked, for the root where there is no file.
        root: the root where it is not the folder of `config`, as for a file that the user named.
        catalog: for the names of rules; by default that of all installed rules.
        trusted: whether the user named the file in the command.

    Raises:
        ConfigError: the file, or one that it extends, cannot be used; the message names file, line and key.
        UsageError: an override cannot be used; the message names the option.
    """
    catalog = catalog or load_catalog()
    layers = read_chain(config) if config else []
    merged: dict[str, object] = {}
    for layer in layers:
        _check_rules(layer.values, layer.place, catalog, ConfigError)
        merged = _merged(merged, layer.values)
    root = os.path.realpath(root) if root else find_root(config, start)
    refused = {} if trusted else _refused(merged, layers, root)
    given = {key: _checked_override(key, value) for key, value in overrides.items() if value is not None}
    _check_rules(given, lambda key: "--", catalog, UsageError)
    merged = _merged(merged, given)
    merged["refused"] = tuple(words for key, words in refused.items() if key not in given)
    merged["target-torch-from"] = CONFIGURED
    if "target-torch" not in merged:
        declared = _declared_torch(config, root) or (DEFAULT_TORCH, "")
        merged["target-torch"], merged["target-torch-from"] = declared
    merged["exclude"] = (*_items(merged, "exclude", DEFAULT_EXCLUDE), *_items(merged, "extend-exclude"))
    merged.setdefault("cache-dir", CACHE_NAME)
    for key in ("cache-dir", "baseline"):
        if key in merged:
            merged[key] = os.path.normpath(os.path.join(root, os.path.expanduser(str(merged[key]))))
    known = Settings.__dataclass_fields__.keys()
    values = {field: value for key, value in merged.items() if (field := key.replace("-", "_")) in known}
    return Settings(root=root, config=os.path.abspath(config) if config else "", **values)  # type: ignore[arg-type]


def _refused(merged: dict[str, object], layers: Sequence[Layer], root: str) -> dict[str, str]:
    """Take out of `merged` what only the user may ask for; return the keys with what to say of each."""
    refused = {}
    if merged.get("unsafe-fixes"):
        refused["unsafe-fixes"] = "unsafe fixes"
    if "cache-dir" in merged and not lies_in(str(merged["cache-dir"]), root):
        refused["cache-dir"] = "a cache outside of the project"
    for key in refused:
        del merged[key]
        place = next(layer.place(key) for layer in reversed(layers) if key in layer.values)
        refused[key] = f"{place}{key} is ignored: only --{key} in the command can allow {refused[key]}"
    return refused


def lies_in(path: str, root: str) -> bool:
    """Say whether a path of the configuration leads to a place under the root, links and all."""
    if path.startswith("~"):
        return False
    return os.path.join(os.path.realpath(os.path.join(root, path)), "").startswith(os.path.join(root, ""))


def _checked_override(key: str, value: object) -> object:
    if key in _FILES_ONLY:
        raise UsageError(f"{key} can stand in a configuration file only")
    return check_option(key, value, "--" if key in OPTIONS else "", UsageError)


def parse_inline(text: str) -> dict[str, object]:
    """Return the overrides in a ``key = value`` of the command line, which is a line of TOML.

    Raises:
        UsageError: not TOML.
    """
    import tomli

    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--config {text[:60]!r}: neither a file nor a line of TOML: {error}") from None


def _items(merged: Mapping[str, object], key: str, default: tuple[str, ...] = ()) -> tuple[Any, ...]:
    value = merged.get(key, default)
    assert isinstance(value, tuple)
    return value


def _merged(base: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Put one layer on another. A later word on a rule wins over an earlier one, as in ruff:

    ``select`` starts anew, without it ``ignore`` and ``extend-select`` add up, less what the upper layer takes back.
    """
    merged = {**base, **upper}
    merged["extend-exclude"] = _items(base, "extend-exclude") + _items(upper, "extend-exclude")
    merged["severity"] = _items(base, "severity") + _items(upper, "severity")
    for key, other in (("ignore", "extend-select"), ("extend-select", "ignore")):
        kept = () if "select" in upper else _items(base, key)
        taken_back = _items(upper, other)
        merged[key] = (*(item for item in kept if item not in taken_back), *_items(upper, key))
    return merged


def _check_rules(
    values: Mapping[str, object], place: Callable[[str], str], catalog: Catalog, error: type[TorchlintError]
) -> None:
    """Refuse selectors that stand for nothing, and globs of ``per-file-ignores`` that match nothing."""
    for key in _SELECTORS:
        catalog.resolve(_items(values, key), f"{place(key)}{key}", error)
    where = f"{place('severity')}severity"
    catalog.resolve((selector for selector, _ in _items(values, "severity")), where, error)
    where = f"{place('per-file-ignores')}per-file-ignores"
    for glob, selectors in _items(values, "per-file-ignores"):
        catalog.resolve(selectors, where, error)
        for _, reason in bad_globs((glob,)):
            raise error(f"{where}: the glob {glob!r} can match nothing: {reason}")


def _declared_torch(config: str | None, root: str) -> Declared | None:
    """Return the lower bound of torch in our pyproject.toml where it lies elsewhere, or in the root's dependencies."""
    folder = os.path.dirname(os.path.realpath(config)) if config else root
    elsewhere = declared_in(folder) if folder != root and os.path.basename(config or "") == "pyproject.toml" else None
    return elsewhere or declared_in(root)


def in_folder(settings: Settings, folder: str, memo: dict[str, Declared | None]) -> Settings:
    """Return the settings for the files of a folder: a torch that nothing sets is that of the nearest dependencies.

    Args:
        settings: those of the project.
        folder: where the files lie.
        memo: as of `torchlint.engine.dependencies.declared_above`.
    """
    if settings.target_torch_from == CONFIGURED:
        return settings
    try:
        folder = os.path.realpath(folder)
    except (OSError, ValueError):  # the current directory was deleted
        return settings
    found = declared_above(folder, settings.root, memo)
    return replace(settings, target_torch=found[0], target_torch_from=found[1]) if found is not None else settings


def codes_for(settings: Settings, catalog: Catalog, relative_path: str) -> frozenset[str]:
    """Return the codes that are on for one file.

    Args:
        settings: where the selectors come from.
        catalog: what they mean.
        relative_path: the file's path under the root, with forward slashes.

    Raises:
        ConfigError: a selector stands for nothing.
    """
    codes = catalog.enabled(settings.select, settings.ignore, settings.extend_select)
    for glob, selectors in settings.per_file_ignores:
        if matches(relative_path, (glob,)):
            codes -= catalog.resolve(selectors, f"{settings.config}: per-file-ignores")
    return codes


def severities(settings: Settings, catalog: Catalog) -> dict[str, Severity]:
    """Return the configured severity by code; of several selectors the most specific decides, then the last."""
    found: dict[str, tuple[int, Severity]] = {}
    for selector, severity in settings.severity:
        strength = catalog.strength(selector)
        for code in catalog.resolve((selector,), f"{settings.config}: severity"):
            if code not in found or strength >= found[code][0]:
                found[code] = (strength, severity)
    return {code: severity for code, (_, severity) in found.items()}
