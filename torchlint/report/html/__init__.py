"""The `html` format: one file with style and script inside, which asks nothing of any network.

Needs jinja2 (extra ``html``). Every string goes through `visible` and is escaped by jinja2. The page's policy lets
nothing run but its own script, which it names by digest, so not even markup that got past the escaping could.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from torchlint.base.errors import UsageError
from torchlint.report.run_report import RunReport
from torchlint.report.text import visible

if TYPE_CHECKING:
    from jinja2 import Template

_PARTS = "torchlint.report.html"


def render(run: RunReport) -> str:
    """Return the report as one HTML document, in ASCII; it has its own colours.

    Raises:
        UsageError: jinja2 is not installed.
    """
    from torchlint.report.html.page import page

    style, script = _part("report.css"), _part("report.js")
    text = _template().render(
        page=page(run), style=_Plain(style), script=_Plain(script), style_digest=_digest(style), digest=_digest(script)
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii") + "\n"


def demand() -> None:
    """Raise where HTML cannot be written, before any work is done.

    Raises:
        UsageError: jinja2 is not installed.
    """
    _template()


class _Plain(str):
    """Text of ours that stands between ``<style>`` or ``<script>`` tags as it is: jinja2 asks by ``__html__``."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def _template() -> Template:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise UsageError("--output-format html needs jinja2: pip install 'torchlint[html]'") from None
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_part("report.html.jinja"))


def _part(name: str) -> str:
    return resources.files(_PARTS).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return how a page's policy names a script or style that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _shown(value: Any) -> Any:
    """Spell out what could hide text; what is markup already stays as it is."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
