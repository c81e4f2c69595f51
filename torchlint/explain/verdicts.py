"""What each rule says about one line: flagged, suppressed, weaker than another, off, or silent and
because of what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.explanation import Asked, Place, State, Verdict
from torchlint.base.finding import Finding
from torchlint.base.span import Span
from torchlint.catalog.rules import Catalog
from torchlint.engine.analyse import counts_in_library
from torchlint.engine.hits import hits
from torchlint.engine.job import Job
from torchlint.engine.no_waits import by_list
from torchlint.engine.placing import Placed, Placing
from torchlint.engine.yielding import strongest
from torchlint.explain.beliefs import Beliefs
from torchlint.explain.blockers import Blocked, Looked, Search
from torchlint.explain.counterfactual import PACE, Answer
from torchlint.explain.frequency import Paces
from torchlint.explain.line import Spot, Spots
from torchlint.rule import Hit, Rule
from torchlint.semantic.code.calls import Arguments
from torchlint.semantic.question import QUESTIONS
from torchlint.semantic.time.grades import Heat
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import Value
from torchlint.source.suppress import Suppressions

_IN_LIBRARY = "it is an info, and those of a library are only listed with library-infos"


class Verdicts:
    """Says of one file what its rules say about a line."""

    def __init__(
        self,
        job: Job,
        asked: Asked,
        placing: Placing,
        rules: Sequence[Rule],
        catalog: Catalog,
        spots: Spots,
    ) -> None:
        self.job = job
        self.asked = asked
        self.placing = placing
        self.rules = rules
        self.catalog = catalog
        self.spots = spots
        self.module = placing.module
        self.beliefs = Beliefs(self.module, spots, job.document.filename)
        self.paces = Paces(self.module, spots, placing.reason)
        self._names = {info.code: info.name for info in catalog.rules}
        self._suppressions = Suppressions.parse(self.module.text)
        self._judged = list(
            strongest(
                placing.module,
                placing.placed(hits(placing.module, rules)[0]),
                {rule.code for rule in rules},
            )
        )

    def of(self, spot: Spot, place: Place) -> tuple[Verdict, ...]:
        """Return the verdicts on a line, what is flagged first."""
        found: dict[tuple[str, Span], Verdict] = {}
        for placed, stronger in self._judged:
            if self._covers_place(placed.span, spot, place):
                found.setdefault((placed.rule.code, placed.span), self._on_hit(placed, stronger))
        silent = set()
        every = list(self._blocked(spot, place))
        for blocked in self._telling([each for each in every if isinstance(each, Blocked)]):
            span = self.spots.span(blocked.hit.node)
            if span is not None and (blocked.rule.code, span) not in found:
                verdict = self._on_silence(blocked, span)
                if (said := (verdict.code, verdict.expression, verdict.because)) not in silent:
                    silent.add(said)
                    found[blocked.rule.code, span] = verdict
        wanted = self.job.codes if not found else self.asked.named
        looking = [each for each in every if isinstance(each, Looked)]
        for looked in sorted(looking, key=lambda each: not each.holds):
            code = looked.rule.code
            if code in wanted and not any(verdict.code == code for verdict in found.values()):
                span = self.spots.span(looked.node) or Span(0, 0)
                found[code, span] = self._on_look(looked, span)
        for code in self.asked.named:
            if not any(verdict.code == code for verdict in found.values()):
                found[code, Span(0, 0)] = self._absent(code, place)
        order = list(State)
        return tuple(
            sorted(
                found.values(),
                key=lambda each: (order.index(each.state), each.row, each.column, each.code),
            )
        )

    def _covers_place(self, span: Span, spot: Spot, place: Place) -> bool:
        start, end = self.spots.index.position(span.start), self.spots.index.position(span.end)
        if not spot.first <= start.row <= spot.last:
            return False
        at = (place.row, place.column)
        return place.column is None or (start.row, start.column) <= at < (end.row, end.column)

    # -- hits --------------------------------------------------------------------------------------

    def _on_hit(self, placed: Placed, stronger: Placed | None) -> Verdict:
        finding, _ = self.placing.finding(placed)
        state, because = State.FLAGGED, ""
        if finding.code not in self.job.codes:
            state, because = State.OFF, self.asked.off.get(finding.code, "it is switched off")
        elif stronger is not None:
            again = stronger.rule is placed.rule
            words = "has the same cause" if again else "says it more exactly"
            state = State.YIELDED
            because = f"{stronger.rule.code} {'above ' if again else ''}{words}"
        elif words := self._suppressed(finding):
            state, because = State.SUPPRESSED, words
        elif not counts_in_library(self.job, finding) and self.module.outside.of_library():
            state, because = State.OFF, _IN_LIBRARY
        home = placed.rule.module_name
        return self._verdict(
            placed.rule, placed.hit, placed.span, state, because, finding.message, home
        )

    def _suppressed(self, finding: Finding) -> str:
        pragma = self._suppressions.silencer(finding, self._names)
        if pragma is None:
            held = by_list(self.job, self.module.text, [finding]).listed
            words = "the configuration lists the wait, and {0.owner} answers for it: {0.reason}"
            return words.format(*held) if held else ""
        text = self.module.text[pragma.span.start : pragma.span.end]
        return (
            f"the comment `{' '.join(text.split())}` on "
            f"{self.spots.rows.words([pragma.comment.row])} suppresses it"
        )

    def _verdict(
        self,
        rule: Rule,
        hit: Hit,
        span: Span,
        state: State,
        because: str,
        message: str = "",
        decided_by: str = "",
    ) -> Verdict:
        at = self.spots.index.position(span.start)
        return Verdict(
            rule.code,
            rule.name,
            state,
            at.row,
            at.column,
            self.module.shown(hit.node),
            because,
            message,
            f"{decided_by.replace('.', '/')}.py" if decided_by else "",
        )

    # -- silence -----------------------------------------------------------------------------------

    def _blocked(self, spot: Spot, place: Place) -> Iterator[Blocked | Looked]:
        inside = frozenset(spot.nodes)

        def on_line(hit: Hit) -> bool:
            span = self.spots.span(hit.node)
            return span is not None and self._covers_place(span, spot, place)

        subjects = frozenset(node for node in spot.nodes if self.beliefs.worth(node))
        search = Search(self.module, subjects, on_line)
        for rule in self.rules:
            if rule.code not in self.job.codes:
                continue
            for node_type, check in rule.checks:
                named = rule.code in self.asked.named
                if check.about is not None and not (named or check.in_file(self.module)):
                    continue  # What it is about, a contract, a package, the file does not have.
                for node in (*spot.nodes, *spot.around):
                    blocked = search.blocked(rule, check, node) if type(node) is node_type else None
                    if isinstance(blocked, Blocked) or (blocked is not None and node in inside):
                        yield blocked

    def _telling(self, silent: list[Blocked]) -> Iterator[Blocked]:
        """Yield what is worth telling: of nested expressions the inner one, and no condition on
        plain numbers."""
        told = [(placed.rule, placed.hit) for placed, _ in self._judged] + [
            (each.rule, each.hit) for each in silent
        ]
        inner = {
            (rule.code, above) for rule, hit in told for above in self.module.ancestors(hit.node)
        }
        for each in silent:
            written = any(_is_written(fact.subject) for fact in each.because)
            plain = any(map(self._is_number, each.because)) and not isinstance(
                each.node, (cst.Call, cst.Subscript)
            )
            obvious = written or plain
            if (each.rule.code, each.hit.node) not in inner and not obvious:
                yield each

    def _is_number(self, answer: Answer) -> bool:
        """Say whether a fact is that something is a number or a truth value, as the reader sees."""
        subject = answer.subject if answer.question in ("inferred", "on_device") else None
        return subject is not None and inferred(self.module, subject).kind in (
            "number",
            "bool",
            "str",
            "none",
        )

    def _on_silence(self, blocked: Blocked, span: Span) -> Verdict:
        because = "; ".join(
            dict.fromkeys(self._sentence(answer, blocked.hit.node) for answer in blocked.because)
        )
        home = QUESTIONS[blocked.because[0].question].home
        return self._verdict(
            blocked.rule, blocked.hit, span, State.SILENT, because, decided_by=home
        )

    def _on_look(self, looked: Looked, span: Span) -> Verdict:
        because = self._sentence(looked.last, looked.node) if looked.last is not None else ""
        state = State.LOOKED if looked.holds else State.ASKED
        return self._verdict(looked.rule, Hit(looked.node), span, state, because)

    def _sentence(self, answer: Answer, node: cst.CSTNode) -> str:
        """Return the fact that an answer states."""
        subject = answer.subject
        if answer.question in PACE:
            return self.paces.sentence(node)
        if answer.question in ("inferred", "on_device") and subject is not None:
            return self.beliefs.sentence(subject)
        if isinstance(answer.answer, Arguments) and isinstance(answer.given, Arguments):
            return self._deciding_argument(answer.answer, answer.given)
        words = QUESTIONS[answer.question]
        sentence = words.yes if answer.answer else words.no
        return sentence.format(
            *(self._shown(each) for each in (*answer.arguments, "")),
            answer=self._shown(answer.answer),
        )

    def _deciding_argument(self, true: Arguments, imagined: Arguments) -> str:
        """Return the argument that decided."""
        gone = [(name, arg) for name, arg in true.named.items() if name not in imagined.named]
        if not gone:
            return "`*args` or `**kwargs` may say otherwise"
        name, arg = gone[0]
        return f"the call gives `{name}={self.module.shown(arg.value)}`"

    def _shown(self, value: object) -> str:
        match value:
            case cst.CSTNode():
                return self.module.shown(value)
            case (test, bool()):
                return self._shown(test)
            case list() | tuple():
                return "`, `".join(self._shown(each) for each in value[:3])
            case Value() | Heat():
                return "something"
        return str(getattr(value, "value", value))

    def _absent(self, code: str, place: Place) -> Verdict:
        info = self.catalog.find(code)
        assert info is not None
        words = f"it is about: {info.title}; nothing of that kind is on this line"
        if code not in self.job.codes:
            words = self.asked.off.get(code, "it is switched off")
        elif not any(
            trigger in self.job.document.text.encode("utf-8", "surrogatepass")
            for trigger in info.triggers
        ):
            words = "the file holds none of the words without which the rule finds nothing"
        return Verdict(code, info.name, State.ABSENT, place.row, place.column or 1, "", words)


def _is_written(node: cst.CSTNode | None) -> bool:
    """Say whether a value is written out: a number, a text, or a list of them."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(_is_written(element.value) for element in node.elements)
    return isinstance(node, (cst.BaseNumber, cst.BaseString))
