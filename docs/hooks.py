"""What mkdocs calls while it builds the site: it adds a page for each rule, made from its file.

In the repository, links to a rule lead to its row in ``rules.md``; on the site, to its page.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from torchlint.catalog.rules import OWN_ROOT, load_catalog
from torchlint.manual.site import generated_pages, navigation

ROOT = Path(__file__).parent.parent
# Rules of plugins that happen to be installed here are no part of the site.
CATALOG = load_catalog([OWN_ROOT])
_RULE_LINK = re.compile(r"\]\(rules\.md(?:#([\w-]+))?\)")
_TOP_LINK = re.compile(r"\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md")
_PART = re.compile(r"^<!-- from-readme: ([a-z-]+) -->$", re.MULTILINE)
_RULES = "Rules"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the rules into the navigation, in the place of their index."""
    assert config.nav
    for entry in config.nav:
        if isinstance(entry, dict) and _RULES in entry:
            entry[_RULES] = navigation(CATALOG)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in generated_pages(CATALOG).items():
        files.append(File.generated(config, path, content=text))
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what stands in the README, and turn links to places that the site has elsewhere."""
    markdown = _PART.sub(lambda found: from_readme(found[1]), markdown)
    markdown = _RULE_LINK.sub(lambda found: f"](rules/{found[1] or 'index'}.md)", markdown)
    return _TOP_LINK.sub(lambda found: f"]({found[1].lower()}.md", markdown)


def from_readme(name: str) -> str:
    """Return the part of the README between ``<!-- NAME -->`` and ``<!-- end -->``."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"<!-- {name} -->\n", 1)[1].split("\n<!-- end -->", 1)[0]
