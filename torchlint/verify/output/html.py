"""A verification as one HTML file: no scripts, nothing from the network, light and dark.

Needs jinja2 (extra ``html``). Every string goes through `visible` and is escaped by jinja2; drawings are escaped by
`svg`.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from torchlint.base.errors import UsageError
from torchlint.report.text import visible
from torchlint.verify.model import Report
from torchlint.verify.output.page import page

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATE = "report.html.jinja"


def render(report: Report, *, color: bool = False) -> str:
    """Return the report as one HTML document; it has its own colours.

    Raises:
        UsageError: jinja2 is not installed.
    """
    return _template().render(page=page(report)) + "\n"


def demand() -> None:
    """Raise where HTML cannot be written, before minutes of measuring.

    Raises:
        UsageError: jinja2 is not installed.
    """
    _template()


def _template() -> Template:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise UsageError("--output-format html needs jinja2: pip install 'torchlint[html]'") from None
    source = resources.files("torchlint.verify.output").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)


def _shown(value: Any) -> Any:
    """Spell out what could hide text; drawings, which are markup already, stay as they are."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
