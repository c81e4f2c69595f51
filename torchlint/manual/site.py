"""The generated pages of the documentation site: one for each rule and engine code, and their
index.

All is markdown for mkdocs-material, made from the rule files; ``docs/hooks.py`` hands it to mkdocs.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from torchlint.base.finding import Safety
from torchlint.base.regex import regex
from torchlint.catalog.manual import code_blocks
from torchlint.catalog.rules import Catalog, RuleInfo
from torchlint.manual.engine_codes import ENGINE_PAGES
from torchlint.manual.pages import NOT_MEASURED, measurements

FAMILY_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "transfer": (
            "Transfers and waits",
            "The CPU waits for the GPU, or data crosses between them for nothing.",
        ),
        "loading": ("Data loading", "The GPU waits for batches."),
        "distributed": (
            "Distributed training",
            "Processes wait for each other, or do the same work twice.",
        ),
        "precision": (
            "Precision and kernels",
            "The GPU computes more, or in wider numbers, than the result needs.",
        ),
        "training": ("Training loop", "Work, memory or gradients that a step throws away."),
        "vectorize": (
            "Python instead of tensors",
            "The interpreter does one by one what one kernel could do.",
        ),
        "memory": ("Memory", "The allocator or the garbage collector gets in the way."),
        "debug": ("Debugging aids left on", "Aids for one run that slow all of them."),
        "frameworks": ("Frameworks", "Lightning, transformers, torchmetrics and datasets."),
    }
)
"""Family → its heading and one sentence, in the order of the codes."""
_PROSE_CODE = regex(r"(?P<code>```.*?```|`[^`]+`)|\b(?P<rule>TL\d{3})\b", re.DOTALL)
_FLAGGED = "Flagged: "
_FIX_NAMES = {
    Safety.SAFE: "safe fix",
    Safety.UNSAFE: "unsafe fix",
    Safety.SUGGESTION: "suggested fix",
}


def generated_pages(catalog: Catalog) -> dict[str, str]:
    """Return the generated pages: path under the site's sources → markdown."""
    pages = {f"rules/{info.code}.md": rule_page(info, catalog) for info in catalog.rules}
    pages |= {f"rules/{code}.md": _engine_page(code, text) for code, text in ENGINE_PAGES.items()}
    return {"rules/index.md": index_page(catalog), **pages}


def navigation(catalog: Catalog) -> list[str | dict[str, object]]:
    """Return the part of mkdocs' ``nav`` that lists the rules by family."""
    found: list[str | dict[str, object]] = ["rules/index.md"]
    for family, rules in _families(catalog):
        found.append(
            {
                _heading(family): [
                    {f"{info.code} {info.name}": f"rules/{info.code}.md"} for info in rules
                ]
            }
        )
    found.append({"Codes of the engine": [{code: f"rules/{code}.md"} for code in ENGINE_PAGES]})
    return found


def index_page(catalog: Catalog) -> str:
    """Return the page that lists all rules in tables by family, with what the filter needs around
    them."""
    on = sum(info.default for info in catalog.rules)
    parts = [
        "---\ntitle: Rules\ndescription: All rules of torchlint, by family.\nhide: [toc]\n---",
        "# Rules",
        f"{len(catalog.rules)} rules, {on} of them on by default. Each page says what a pattern "
        "costs, when it is "
        "flagged, when torchlint is silent, how safe the fix is, and what was measured. The same "
        "page in a terminal: "
        "`torchlint rule CODE`.",
        _FILTER,
    ]
    for family, rules in _families(catalog):
        parts += [
            f"## {_heading(family)}",
            FAMILY_WORDS[family][1] if family in FAMILY_WORDS else "",
        ]
        parts.append("\n".join((*_TABLE_HEAD, *map(_row, rules))))
    parts += ["## Codes of the engine", "These say something of a file, not of a pattern in it."]
    rows = [
        f"| [{code}]({code}.md) | {_first_sentence(text)} |" for code, text in ENGINE_PAGES.items()
    ]
    parts.append("\n".join(("| Code | What it says |", "| --- | --- |", *rows)))
    return _joined(parts)


def rule_page(info: RuleInfo, catalog: Catalog) -> str:
    """Return a rule's page."""
    why, flagged = _cut_reasons(info.sections.get("Why", ""))
    parts = [
        f"---\ntitle: {info.code} {info.name}\ndescription: {_quoted(info.title)}\n---",
        f"# {info.name} <small>{info.code}</small>",
        _chips(info),
        f"**{info.title}.**",
        f"> {info.message}",
        _section("Why", why),
        _section("When it is flagged", flagged),
        "## Example",
        *_examples(info),
        _section("When it is silent", info.sections.get("Leave alone", "")),
        _section("Fix safety", info.sections.get("Fix safety", "")),
        _measured(info),
        _related(info, catalog),
        _switch_off(info),
    ]
    return _linked(_joined(parts), info.code, catalog)


def _families(catalog: Catalog) -> Iterator[tuple[str, list[RuleInfo]]]:
    known = dict.fromkeys((*FAMILY_WORDS, *(info.family for info in catalog.rules)))
    for family in known:
        rules = [info for info in catalog.rules if info.family == family]
        if rules:
            yield family, rules


def _heading(family: str) -> str:
    return FAMILY_WORDS[family][0] if family in FAMILY_WORDS else family


_TABLE_HEAD = ("| Code | Rule | Fix | Default | Severity |", "| --- | --- | --- | --- | --- |")
_FILTER = """<div class="rule-filter" hidden>
<input type="search" id="rule-text" placeholder="Filter: a code, a name, a word" \
aria-label="Filter rules">
<select id="rule-fix" aria-label="Fix"><option value="">any fix</option>\
<option>safe</option><option>unsafe</option>\
<option>suggestion</option><option value="–">no fix</option></select>
<select id="rule-default" aria-label="Default"><option value="">on or off</option>\
<option>on</option>\
<option>off</option></select>
<select id="rule-severity" aria-label="Severity"><option value="">any severity</option>\
<option>error</option>\
<option>warning</option><option>info</option></select>
<output id="rule-count"></output>
</div>"""


def _row(info: RuleInfo) -> str:
    name = f"[`{info.name}`]({info.code}.md)<br>{_cell(info.title)}"
    fixes = ", ".join(safety.value for safety in info.fixes) or "–"
    return (
        f"| {info.code} | {name} | {fixes} | {'on' if info.default else 'off'} | {info.severity} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _first_sentence(text: str) -> str:
    return _cell(" ".join(text.split("\n\n")[0].split()))


def _engine_page(code: str, text: str) -> str:
    return (
        f"---\ntitle: {code}\ndescription: {_quoted(_first_sentence(text))}\n---\n\n# "
        f"{code}\n\n{text}"
    )


def _chips(info: RuleInfo) -> str:
    chips = [f'<span class="chip {info.severity}">{info.severity}</span>']
    chips.append(f'<span class="chip">{"on" if info.default else "off"} by default</span>')
    chips += [f'<span class="chip {fix.value}">{_FIX_NAMES[fix]}</span>' for fix in info.fixes]
    return (
        "\n".join((*chips, *([] if info.fixes else ['<span class="chip">no fix</span>'])))
        + "\n{ .chips }"
    )


def _cut_reasons(text: str) -> tuple[str, str]:
    """Cut the paragraph that says what is flagged out of the section Why."""
    paragraphs = text.split("\n\n")
    flagged = [part for part in paragraphs if part.startswith("Flagged")]
    rest = "\n\n".join(part for part in paragraphs if part not in flagged)
    said = "\n\n".join(flagged)
    said = said.removeprefix(_FLAGGED)
    return rest, said[:1].upper() + said[1:]


def _examples(info: RuleInfo) -> list[str]:
    """Return bad and good code: as a change where each bad block has its good one, else one after
    the other."""
    bad, good = (code_blocks(info.sections.get(heading, "")) for heading in ("Bad", "Good"))
    parts = []
    if len(bad) == len(good):
        for before, after in zip(bad, good, strict=True):
            rows = list(
                difflib.unified_diff(before.splitlines(), after.splitlines(), n=1000, lineterm="")
            )[3:]
            tabs = (
                ("Change", "diff", "\n".join(row.rstrip() for row in rows) + "\n"),
                ("Bad", "python", before),
                ("Good", "python", after),
            )
            parts.append(
                "\n\n".join(f'=== "{name}"\n\n{_indented(_fence(*block))}' for name, *block in tabs)
            )
    else:
        parts += ["Bad:", *(_fence("python", code) for code in bad)]
        parts += ["Good:", *(_fence("python", code) for code in good)]
    setup = "\n".join(code_blocks(info.sections.get("Setup", "")))
    if setup:
        parts.append(
            '??? note "Setup: what stands before each '
            f'example"\n\n{_indented(_fence("python", setup))}'
        )
    return [
        "\n\n<!-- -->\n\n".join(parts)
    ]  # what keeps one group of tabs from running into the next


def _fence(language: str, code: str) -> str:
    return f"```{language}\n{code.rstrip()}\n```"


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def _measured(info: RuleInfo) -> str:
    results = measurements().get(info.code) or (NOT_MEASURED,)
    how = info.sections.get("Measure", "")
    details = f'\n\n??? note "How the example is measured"\n\n{_indented(how)}' if how else ""
    return "## Measurement\n\n" + "\n".join(results) + details


def _related(info: RuleInfo, catalog: Catalog) -> str:
    codes = (
        ("Gives way to", info.yields_to),
        (
            "Goes before",
            tuple(other.code for other in catalog.rules if info.code in other.yields_to),
        ),
    )
    said = [f"- {words}: {_named(found, catalog)}" for words, found in codes if found]
    mentioned = set(re.findall(r"\bTL\d{3}\b", info.manual)) - {info.code}
    mentioned = {code for code in mentioned if catalog.find(code)}
    others = sorted(mentioned - {code for _, found in codes for code in found})
    if others:
        said.append(f"- See also: {_named(others, catalog)}")
    if not said:
        return ""
    note = (
        "Of several rules that hit one expression, the most specific one is reported."
        if info.yields_to
        else ""
    )
    return _joined(["## Related rules", note, "\n".join(said)]).strip()


def _named(codes: tuple[str, ...] | list[str], catalog: Catalog) -> str:
    found = [catalog.find(code) for code in codes]
    return ", ".join(f"{info.code} `{info.name}`" for info in found if info)


def _switch_off(info: RuleInfo) -> str:
    line = f'ignore = ["{info.code}"]' if info.default else f'extend-select = ["{info.code}"]'
    return f"""## Switch it {"off" if info.default else "on"}

```toml
[tool.torchlint]
{line}
```

For one line, say why on it: `# torchlint: ignore[{info.code}] the reason`. More ways: \
[Suppressing](../suppressing.md).
`torchlint rule {info.code}` prints this page in a terminal, and \
`torchlint check FILE:LINE --explain` says
[why it flags a line or is silent](../explain.md)."""


def _section(heading: str, text: str) -> str:
    return f"## {heading}\n\n{text}" if text else ""


def _linked(page: str, own: str, catalog: Catalog) -> str:
    """Link the codes of other rules where they stand in prose."""

    def link(found: re.Match[str]) -> str:
        code = found["rule"]
        return (
            found[0]
            if not code or code == own or not catalog.find(code)
            else f"[{code}]({code}.md)"
        )

    head, mark, body = page.partition("\n# ")
    return head + mark + _PROSE_CODE.sub(link, body)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
