"""From configuration files and command-line options to `Settings`.

The nearest configuration file alone holds for a file, together with what that one extends; options
win over it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from torchlint.base.errors import ConfigError, TorchlintError, UsageError
from torchlint.base.finding import Severity
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.settings import values
from torchlint.settings.dependencies import (
    Declared,
    declared_above,
    declared_at,
    declared_in,
    declared_over,
)
from torchlint.settings.files import Layer, check_version, read_chain
from torchlint.settings.keys import CONFIGURED, FIELDS, KEYS, TARGET_TORCH, Settings, checked
from torchlint.settings.line_length import declared_length
from torchlint.source.discover import DiscoverOptions
from torchlint.source.globs import matches
from torchlint.source.paths import real_folder_of

Overrides = Mapping[str, object]
"""Options of the command line by their keys; None stands for one that was not given."""


PROJECT_MARKS = (".hg", ".svn", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""What shows that a folder is the top of a project that git does not know of."""


@lru_cache(maxsize=4096)
def marked_root(folder: str) -> str:
    """Return the git root above a folder, else the nearest folder with a mark of a project, else an
    empty string."""
    return _above(folder, (".git",)) or _above(folder, PROJECT_MARKS)


def _above(folder: str, names: tuple[str, ...]) -> str:
    while not any(os.path.lexists(os.path.join(folder, name)) for name in names):
        if os.path.dirname(folder) == folder:
            return ""
        folder = os.path.dirname(folder)
    return folder


def find_root(config: str | None, start: str) -> str:
    """Return the project root: the folder of `config`, else the one that is marked above `start`,
    else the folder `start`.

    Args:
        config: what `find_config` gave.
        start: a file or folder; need not exist. Of a link to a file, the place of the link counts.
    """
    if config:
        return os.path.realpath(os.path.dirname(config))
    try:
        folder = real_folder_of(start)
    except (OSError, ValueError):  # the current directory was deleted, or no path can be like this
        return os.path.abspath(os.sep)
    return marked_root(folder) or folder


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

    A configuration that was found comes with the code, maybe from a stranger: it cannot allow
    unsafe fixes, nor have files made outside of the project.

    Args:
        config: the file, from `find_config` or named by the user; None for defaults and options
            only.
        overrides: options of the command line.
        start: the path that is checked, for the root where there is no file.
        root: the root where it is not the folder of `config`, as for a file that the user named.
        catalog: for the names of rules; by default that of all installed rules.
        trusted: whether the user named the file in the command.

    Raises:
        ConfigError: the file, or one that it extends, cannot be used; the message names file, line
            and key.
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
    check_version(overrides, _as_option, UsageError)
    given = {
        key: _checked_override(key, value) for key, value in overrides.items() if value is not None
    }
    _check_rules(given, _as_option, catalog, UsageError)
    fields = _resolved(_merged(merged, given), root)
    found = Settings(
        root=root,
        config=os.path.abspath(config) if config else "",
        target_torch_from=CONFIGURED,
        refused=tuple(words for key, words in refused.items() if key not in given),
        **fields,
    )
    if not found.line_length:
        found = replace(found, line_length=declared_length(root))
    if FIELDS[TARGET_TORCH] in fields:
        return found
    declared = _declared_torch(config, root)
    if declared is None:
        return replace(found, target_torch_from="")
    return _for_torch(found, declared)


def _resolved(merged: Mapping[str, object], root: str) -> dict[str, Any]:
    """Return the values of the fields of `Settings`: lists that add to others added, paths
    absolute."""
    found = {**merged}
    for key in (key for key in merged if KEYS[key].known is values.known_globs):
        found[key] = tuple(_below(root, glob) for glob in _items(merged[key]))
    for key in (key for key in merged if KEYS[key].known is values.known_by_glob):
        found[key] = tuple((_below(root, glob), rules) for glob, rules in _items(merged[key]))
    for key, row in KEYS.items():
        if row.adds_to:
            base = found.get(row.adds_to, KEYS[row.adds_to].default)
            found[row.adds_to] = (*_items(base), *_items(found.get(key, ())))
        elif row.check is values.path and (written := merged.get(key, row.default)):
            path = os.path.join(root, os.path.expanduser(str(written)))
            found[key] = os.path.normpath(path)
    return {FIELDS[key]: value for key, value in found.items() if key in FIELDS}


def _below(root: str, glob: str) -> str:
    """Return a glob as it is matched: one that is a whole path starts at the project's root."""
    bare, place = glob.removeprefix("!"), os.path.join(root, "").replace(os.sep, "/")
    if len(place) == 1 or not bare.startswith(place):
        return glob
    return f"{'!' * (bare != glob)}/{bare[len(place) :]}"


def _refused(merged: dict[str, object], layers: Sequence[Layer], root: str) -> dict[str, str]:
    """Take out of `merged` what only the user may ask for; return the keys with what to say of
    each."""
    refused = {}
    for key in FIELDS:
        refusal = KEYS[key].refused
        words = refusal(merged[key], root) if refusal and key in merged else ""
        if words:
            del merged[key]
            place = next(layer.place(key) for layer in reversed(layers) if key in layer.values)
            refused[key] = f"{place}{key} is ignored: only --{key} in the command can allow {words}"
    return refused


def _checked_override(key: str, value: object) -> object:
    if key in KEYS and KEYS[key].in_files_only:
        raise UsageError(f"{_as_option(key)}{key} can stand in a configuration file only")
    return checked(key, value, _as_option(key), UsageError)


def _as_option(key: str) -> str:
    """Return what a message on a key of the command line starts with."""
    row = KEYS.get(key)
    return "--config: " if row is None or row.option is None else "--"


def parse_inline(text: str) -> dict[str, object]:
    """Return the overrides in a ``key = value`` of the command line, which is a line of TOML.

    Raises:
        UsageError: not TOML.
    """
    import tomli

    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--config {text[:60]!r}: neither a file nor a line of TOML, such as "
            f"'select = [\"TL1\"]': {error}"
        ) from None


def _items(value: object) -> tuple[Any, ...]:
    assert isinstance(value, tuple)
    return value


def _merged(base: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Put one layer on another. A later word on a rule wins over an earlier one, as in ruff:

    ``select`` starts anew, without it ``ignore`` and ``extend-select`` add up, less what the upper
    layer takes back.
    """
    merged = {**base, **upper}
    anew = any(KEYS[key].starts_anew for key in upper)
    for key, row in KEYS.items():
        if not (row.adds_up or row.takes_back):
            continue
        below, above = _items(base.get(key, ())), _items(upper.get(key, ()))
        if row.adds_up:
            merged[key] = below + above
        else:
            taken_back = _items(upper.get(row.takes_back, ()))
            kept = [] if anew else [item for item in below if item not in taken_back]
            merged[key] = (*kept, *above)
    return merged


def _check_rules(
    layer: Mapping[str, object],
    place: Callable[[str], str],
    catalog: Catalog,
    error: type[TorchlintError],
) -> None:
    """Refuse selectors that stand for nothing, and globs that match nothing."""
    for key, row in KEYS.items():
        known = row.known
        if known is not None and key in layer:
            known(layer[key], catalog, f"{place(key)}{key}", error)


def _declared_torch(config: str | None, root: str) -> Declared | None:
    """Return the lower bound of torch in our pyproject.toml where it lies elsewhere, or in the
    root's dependencies or its README; where the root is but a folder that was named, in those above
    it."""
    folder = os.path.dirname(os.path.realpath(config)) if config else root
    elsewhere = (
        declared_in(folder)
        if folder != root and os.path.basename(config or "") == "pyproject.toml"
        else None
    )
    return elsewhere or (declared_at(root) if config else declared_over(root))


def in_folder(settings: Settings, folder: str, memory: dict[str, Declared | None]) -> Settings:
    """Return the settings for the files of a folder: a torch that nothing sets is that of the
    nearest dependencies.

    Args:
        settings: those of the project.
        folder: where the files lie.
        memory: as of `torchlint.settings.dependencies.declared_above`.
    """
    if settings.target_torch_from == CONFIGURED:
        return settings
    try:
        folder = os.path.realpath(folder)
    except (OSError, ValueError):  # the current directory was deleted
        return settings
    found = declared_above(folder, settings.root, memory)
    return _for_torch(settings, found) if found is not None else settings


def _for_torch(settings: Settings, found: Declared) -> Settings:
    """Return the settings for the torch that lists of dependencies ask for."""
    return replace(
        settings,
        target_torch=found.lowest,
        target_torch_from=found.path,
        newest_torch=found.newest,
    )


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
        if is_for(glob, relative_path):
            codes -= catalog.resolve(selectors, f"{settings.config}: per-file-ignores")
    return codes


def is_for(glob: str, relative_path: str) -> bool:
    """Say whether a glob of ``per-file-ignores`` stands for a file; with ``!`` in front it stands
    for all others."""
    bare = glob.removeprefix("!")
    return matches(relative_path, (bare,)) is (bare == glob)


def unfixable(settings: Settings, catalog: Catalog) -> frozenset[str]:
    """Return the codes of rules that are reported without their fixes.

    Raises:
        ConfigError: a selector stands for nothing.
    """
    return catalog.codes - catalog.enabled(settings.fixable, settings.unfixable)


def discover_options(settings: Settings) -> DiscoverOptions:
    """Return which files are looked for under these settings."""
    return DiscoverOptions(
        root=settings.root,
        include=settings.include,
        exclude=settings.exclude,
        respect_gitignore=settings.respect_gitignore,
        force_exclude=settings.force_exclude,
    )


def severities(settings: Settings, catalog: Catalog) -> dict[str, Severity]:
    """Return the configured severity by code; of several selectors the most specific decides, then
    the last."""
    found: dict[str, tuple[int, Severity]] = {}
    for selector, severity in settings.severity:
        for code in catalog.resolve((selector,), f"{settings.config}: severity"):
            strength = catalog.strength(selector, code)
            if code not in found or strength >= found[code][0]:
                found[code] = (strength, severity)
    return {code: severity for code, (_, severity) in found.items()}
