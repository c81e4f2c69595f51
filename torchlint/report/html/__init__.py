"""The `html` format: the findings on one page, with or without its script.

The page's policy lets nothing run but its own script, which it names by digest, so not even markup
that got past the escaping could.
"""

from __future__ import annotations

from torchlint.report.kit import html
from torchlint.report.run_report import RunReport


def render(run: RunReport) -> str:
    """Return the report as one HTML document, in ASCII; it has its own colours.

    Raises:
        UsageError: jinja2 is not installed.
    """
    from torchlint.report.html.page import page

    text = html.rendered(
        __package__, "report.html.jinja", style="report.css", script="report.js", page=page(run)
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")
