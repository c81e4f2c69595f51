"""``torchlint docs``: the manual as pages on this machine."""

from __future__ import annotations

import webbrowser

import click

from torchlint.base.errors import UsageError
from torchlint.catalog.rules import load_catalog
from torchlint.cli.output import complain, emit
from torchlint.cli.rule import left_out
from torchlint.manual.engine_codes import engine_code
from torchlint.report.kit.words import visible_path


@click.command("docs")
@click.argument("code_or_name", metavar="[CODE|NAME]", required=False)
@click.option("--open", "opens", is_flag=True, help="Show the page in the browser.")
def docs_command(code_or_name: str | None, opens: bool) -> int:
    """Write the manual of all rules as HTML to the cache folder of the user, and print where a page
    lies.

    Without a rule it is the page that lists them all. Nothing is asked of any network.
    """
    from torchlint.manual.local import INDEX, local_pages

    catalog = load_catalog()
    pages = local_pages(catalog)
    name = INDEX
    if code_or_name is not None:
        info = catalog.find(code_or_name)
        name = (info.code if info is not None else engine_code(code_or_name)) or ""
        if not name:
            catalog.resolve((code_or_name,), "docs", UsageError)
            raise UsageError(
                f"docs: {code_or_name!r} stands for several rules; 'torchlint rules' lists them"
            )
    emit(f"{visible_path(str(pages[name]))}\n")
    if opens and not webbrowser.open(pages[name].as_uri()):
        complain("torchlint: no browser could be started; open the file yourself")
        return 1
    return left_out(catalog)
