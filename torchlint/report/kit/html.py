"""HTML pages: each is one file with style and script inside, which asks nothing of any network.

Needs jinja2 (extra ``html``). A page is a template that extends ``page.html.jinja`` beside this
file. Every string goes through `visible` and is escaped by jinja2; what is markup already says so
by its class, `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from torchlint.base.errors import UsageError, extra
from torchlint.report.kit.words import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_SKELETON = "page.html.jinja"


class Markup(str):
    """Text that is put on the page as it is: all words in it are escaped.

    jinja2 asks by ``__html__``.
    """

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def rendered(
    package: str, template: str, *, style: str, shared: str = "", script: str = "", **values: Any
) -> str:
    """Return a page with a final newline.

    Args:
        package: where the template, the style sheet and the script lie.
        template: name of the file.
        style: name of the style sheet.
        shared: name of a style sheet beside this file that goes before it; empty for none.
        script: name of the script; empty for a page without one.
        values: what the template shows.

    Raises:
        UsageError: jinja2 is not installed.
    """
    css = (_read(__package__, shared) if shared else "") + _read(package, style)
    js = _read(package, script) if script else ""
    page = _environment(package).get_template(template)
    inside = {"style": Markup(css), "script": Markup(js)}
    digests = {"style_digest": _digest(css), "script_digest": _digest(js)}
    return page.render(**inside, **digests, **values) + "\n"


def demand() -> None:
    """Raise where HTML cannot be written, before any work is done.

    Raises:
        UsageError: jinja2 is not installed.
    """
    _environment(__package__)


def _environment(package: str) -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        words = f"--output-format html needs jinja2: {extra('html')}"
        raise UsageError(words) from None

    def source(name: str) -> str:
        return _read(__package__ if name == _SKELETON else package, name)

    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(source),
    )


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return how a page's policy names a script or style that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _shown(value: Any) -> Any:
    """Spell out what could hide text; what is markup already stays as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
