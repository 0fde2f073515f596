"""Unknown labels and words in a match, with what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from epicenter.rules.alerts.labels import ALWAYS_THERE, BUILT_IN
from epicenter.rules.alerts.match import fits_word
from epicenter.rules.alerts.spec import Match, RoutingSpec
from epicenter.rules.alerts.validation.samples import samples
from epicenter.rules.alerts.validation.world import own_labels
from epicenter.rules.documents.mistakes import instead
from epicenter.rules.model.signals import SEVERITIES
from epicenter.rules.packs.vocabulary import vocabulary


class Words:
    """What a file may write in its matches: the labels, and for some of them the words."""

    def __init__(self, spec: RoutingSpec):
        known = vocabulary()
        self.labels = (*BUILT_IN, *sorted(own_labels(spec)))
        self._words: dict[str, Collection[str]] = {
            "class": (*known.family_by_class, *known.aliases),
            "family": dict.fromkeys(known.family_by_class.values()),
            "severity": SEVERITIES,
        }
        for rule in spec.labels:
            for name, value in rule.set.items():
                self._words[name] = (*self._words.get(name, ()), value)

    def faults(self, match: Match, labels: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
        """Each faulty label, with what is wrong; `labels` are those known here, by default all."""
        for name, words in match.items():
            if name not in (labels or self.labels):
                yield name, f"no label has this name: {instead(name, labels or self.labels)}"
            elif not words:
                yield name, "it has no word: write one, or leave the label out"
            else:
                yield from ((name, fault) for word in words if (fault := self._word_fault(name, word)))

    def label_fault(self, name: str) -> str:
        """What is wrong with a label's name; empty when it is known."""
        return "" if name in self.labels else f"no label has this name: {instead(name, self.labels)}"

    def _word_fault(self, name: str, written: str) -> str:
        word, known = written.removeprefix("!"), self._words.get(name, ())
        if not word:
            return f"every incident has a {name}: write which" if name in ALWAYS_THERE else ""
        if not known or any(_overlap(word, other) for other in known):
            return ""
        return f"no {name} fits {word}: {instead(word, known)}"


def _overlap(word: str, other: str) -> bool:
    """Whether a value may fit both."""
    if "*" not in other:
        return fits_word(other, word)
    return any(fits_word(value, word) and fits_word(value, other) for value in samples((word, other)) or ("",))
