"""How far a causal edge reaches."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.cause.scope import in_scope
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.topology import Topology
from tests.support.signals import a_signal

SAME_LEAF = {"switch": frozenset({"leaf1"}), "rack": frozenset({"r1"}), "storage": frozenset({"scratch"})}
TOPOLOGY = Topology({"n1": SAME_LEAF, "n2": SAME_LEAF, "n3": {"switch": frozenset({"leaf2"})}})


def jobs_of(signal: Signal) -> set[str]:
    return {signal.job} if signal.job else set()


def reaches(scope: str, cause: dict[str, Any], effect: dict[str, Any]) -> bool:
    first, second = a_signal("a", 0, **({"node": "n1"} | cause)), a_signal("b", 1, **({"node": "n2"} | effect))
    return in_scope(first, second, scope, jobs_of, TOPOLOGY)


NFS, OTHER_NFS = {"fields": {"server": "nfs1"}}, {"fields": {"server": "nfs2"}}


@pytest.mark.parametrize(
    ("scope", "cause", "effect", "expected"),
    [
        pytest.param("gpu", {"gpu": "g1"}, {"gpu": "g1", "node": "n1"}, True, id="gpu-same"),
        pytest.param("gpu", {"gpu": "g1"}, {"gpu": "g2", "node": "n1"}, False, id="gpu-other"),
        pytest.param("gpu", {"gpu": "g1"}, {"node": "n1"}, True, id="gpu-unknown-is-the-node's"),
        pytest.param("gpu", {"gpu": "g1"}, {"gpu": "g1"}, False, id="gpu-of-another-node"),
        pytest.param("node", {"job": "A"}, {"node": "", "job": "A"}, True, id="effect-of-the-job-of-unknown-node"),
        pytest.param("gpu", {"job": "B"}, {"node": "", "job": "A"}, False, id="effect-of-another-job-of-unknown-node"),
        pytest.param("node", {"job": "A"}, {"node": "", "job": ""}, False, id="effect-of-no-job-of-unknown-node"),
        pytest.param("switch", {}, {}, True, id="switch-same"),
        pytest.param("switch", {}, {"node": "n3"}, False, id="switch-other"),
        pytest.param("switch", {}, {"node": "unknown"}, False, id="switch-unknown"),
        pytest.param("switch", {"node": "unknown"}, {"node": "unknown"}, True, id="switch-same-node"),
        pytest.param("rack", {}, {}, True, id="rack-same"),
        pytest.param("rail", {}, {}, False, id="rail-unknown"),
        pytest.param("cluster", {}, {"node": "n9"}, True, id="cluster"),
        pytest.param("cluster", {}, {"cluster": "other"}, False, id="other-cluster"),
        pytest.param("node", {}, {"node": "n1", "cluster": "other"}, False, id="same-name-in-another-cluster"),
        pytest.param("storage", NFS, NFS | {"node": "n9"}, True, id="storage-same-server"),
        pytest.param("storage", NFS, OTHER_NFS, False, id="storage-other-server"),
        pytest.param("storage", NFS, {}, True, id="storage-by-topology"),
        pytest.param("storage", NFS, {"node": "n9"}, False, id="storage-unknown"),
        pytest.param("storage", {"node": "nfs1"}, NFS | {"node": "n9"}, True, id="storage-the-server-itself"),
        pytest.param(
            "storage",
            {"fields": {"target": "scratch-OST0001"}},
            {"fields": {"target": "scratch-MDT0000"}, "node": "n9"},
            True,
            id="storage-same-file-system",
        ),
        pytest.param(
            "artefact", {"fields": {"path": "/data/x"}}, {"fields": {"path": "/data/x/1"}}, True, id="artefact-path"
        ),
        pytest.param(
            "artefact", {"fields": {"path": "/data"}}, {"fields": {"path": "/data/x/1"}}, False, id="artefact-root"
        ),
        pytest.param("artefact", {"job": "7"}, {"job": "8", "fields": {"dependency": "7"}}, True, id="artefact-job"),
        pytest.param("artefact", {"job": "7"}, {"job": "8", "node": "n1"}, False, id="artefact-only-the-node"),
        pytest.param("input", {"job": "787"}, {"job": "8", "fields": {"missing": "/d/t/787/1"}}, True, id="input-job"),
        pytest.param(
            "input", {"job": "787"}, {"job": "8", "fields": {"missing": "/d/job-787/1"}}, True, id="input-name"
        ),
        pytest.param("input", {"job": "787"}, {"job": "8", "fields": {"path": "/d/t/787/1"}}, False, id="input-there"),
        pytest.param("input", {"job": "787"}, {"job": "787", "fields": {"missing": "/d/787/1"}}, False, id="input-own"),
        pytest.param(
            "input", {"job": "787"}, {"job": "8", "fields": {"missing": "/d/7870/1"}}, False, id="input-other"
        ),
        pytest.param(
            "input",
            {"job": "787", "fields": {"path": "/d/t/9.bin"}},
            {"job": "8", "fields": {"missing": "/d/t/1.bin"}},
            True,
            id="input-folder",
        ),
        pytest.param("artefact", {"job": "7"}, {"job": "7"}, True, id="artefact-own-job"),
    ],
)
def test_an_edge_reaches_what_shares_its_scope(
    scope: str, cause: dict[str, Any], effect: dict[str, Any], expected: bool
) -> None:
    assert reaches(scope, cause, effect) is expected
