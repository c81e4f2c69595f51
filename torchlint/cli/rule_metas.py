"""What reports say of the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from torchlint.base.finding import Finding, Severity
from torchlint.base.places import rule_page
from torchlint.catalog.rules import Catalog
from torchlint.report.run_report import RuleMeta
from torchlint.settings.keys import Settings
from torchlint.settings.load import severities


def rule_metas(
    settings: Settings,
    catalog: Catalog,
    found: Mapping[str, Finding],
    *,
    manual: bool,
    weights: bool = False,
) -> dict[str, RuleMeta]:
    """Return the rules that are on, by code.

    Args:
        settings: which rules are on, and their severities.
        catalog: the rules.
        found: a finding of each code that occurs; of the engine's own codes only these are
            described.
        manual: whether to give manual pages and costs too, and the engine's own codes.
        weights: whether to give what was measured of each rule that occurs.
    """
    grades = severities(settings, catalog)
    codes = catalog.enabled(settings.select, settings.ignore, settings.extend_select)
    metas = {
        info.code: RuleMeta(
            info.code,
            info.name,
            info.title,
            grades.get(info.code, Severity(info.severity)),
            info.family,
            url=rule_page(info.code),
            default=info.default,
            effect=info.effect,
        )
        for info in catalog.rules
        if info.code in codes
    }
    if weights and found:
        metas.update(_with_weights(metas, found))
    return _with_manual(metas, catalog, found) if manual else metas


def _with_weights(
    metas: dict[str, RuleMeta], found: Mapping[str, Finding]
) -> Iterator[tuple[str, RuleMeta]]:
    from torchlint.manual.pages import weights

    for code in metas.keys() & found.keys() & weights().keys():
        waits, faster = weights()[code]
        yield code, dataclasses.replace(metas[code], waits=waits, faster=faster)


def _with_manual(
    metas: dict[str, RuleMeta], catalog: Catalog, found: Mapping[str, Finding]
) -> dict[str, RuleMeta]:
    from torchlint.manual.engine_codes import ENGINE_PAGES
    from torchlint.manual.pages import costs, page, page_text

    whole = {}
    for code, meta in metas.items():
        info = catalog.find(code)
        if info is not None:
            whole[code] = dataclasses.replace(
                meta,
                help_markdown=page(info),
                help_text=page_text(info),
                cost=costs().get(code, ""),
            )
    for code in found.keys() & ENGINE_PAGES.keys():
        text, finding = ENGINE_PAGES[code], found[code]
        title = text.partition("\n")[0]
        whole[code] = RuleMeta(
            code, finding.name, title, finding.severity, "engine", text, help_text=text
        )
    return whole
