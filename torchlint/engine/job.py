"""What one worker is asked to do for one file."""

from __future__ import annotations

from torchlint.base.contract import UNSAID, Contract
from torchlint.base.records import frozen
from torchlint.source.document import Document


@frozen
class Silence:
    """Which findings of a file to silence by comments, and how.

    Args:
        fingerprints: of the findings.
        noqa: whether to write ``# noqa: TL101`` in place of ``# torchlint: ignore[TL101]``.
        reason: what to say behind the codes.
    """

    fingerprints: frozenset[str]
    noqa: bool = False
    reason: str = ""


@frozen
class Job:
    """One file with the settings that hold for it; plain values, so that it can cross a process
    boundary.

    Args:
        document: the file.
        relative: its posix path under the project root, with forward slashes.
        codes: the rule codes that are on for this file, per-file ignores applied; may hold engine
            codes.
        unfixable: the codes of rules whose findings get no fix.
        target_torch: the lowest torch version that fixes must work on, as (major, minor).
        strict: whether safe fixes may take nothing for granted of the project.
        torch_declared: whether the project says so, or it is the one taken where nothing does.
        newest_torch: the last one that the project allows, None where that is open.
        accelerator: ``"auto"``, ``"cuda"``, ``"mps"`` or ``"cpu"``: what the code is known to run
            on.
        assume_hot: glob patterns of function names that are hot whatever the analysis thinks.
        line_length: how wide fixes may make a line; 0 for as wide as the file's own.
        aligned: whether fixes wrap arguments below the first one; None for as the file does.
        fix: ``""`` to check only, ``"safe"`` or ``"unsafe"`` to also apply fixes up to that safety.
        show_source: whether the report needs source lines around each finding.
        root: the project root, absolute, in which imports of the file are followed; empty for a
            file that stands alone.
        traced: whether the report shall say on what else it rests, for the cache.
        silence: what to silence by comments; None where the job is another.
        identity: the path that fingerprints are made from; `relative` where empty.
        unsaved: files of the project whose text is another than on the disk, as they are open in an
            editor or fixed by this run: path, links of its folder resolved, and text.
        library_infos: whether infos count in a package that no program in view uses.
        contract: where the host must not wait, and which waits are listed.
        ignore_noqa: whether comments suppress nothing.
        facts: what a report of the cache rests on, where the job is to say what of that still
            holds.
    """

    document: Document
    relative: str
    codes: frozenset[str]
    target_torch: tuple[int, int] = (2, 4)
    accelerator: str = "auto"
    assume_hot: tuple[str, ...] = ()
    fix: str = ""
    show_source: bool = False
    root: str = ""
    traced: bool = False
    silence: Silence | None = None
    identity: str = ""
    unsaved: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    line_length: int = 0
    aligned: bool | None = None
    torch_declared: bool = True
    unfixable: frozenset[str] = frozenset()
    strict: bool = False
    library_infos: bool = False
    newest_torch: tuple[int, ...] | None = None
    ignore_noqa: bool = False
    contract: Contract = UNSAID
