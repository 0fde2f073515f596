"""The weights of the ranking, from the catalogue and from a site's own pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from epicenter.rules.packs.weights import EVIDENCE
from tests.support.logs import the_rules


def with_pack(folder: Path, model: str) -> list[Path]:
    (folder / "site.yaml").write_text(f"pack: site\ncause_model:\n{model}", "utf-8")
    return [folder]


def test_catalogue_weighs_every_kind_of_evidence() -> None:
    assert the_rules().cause_model.evidence.keys() == set(EVIDENCE)


def test_pack_of_a_site_replaces_single_weights(tmp_path: Path) -> None:
    text = "  evidence: {kernel: {weight: 5.5, source: our cluster}}\n"
    model = load(with_pack(tmp_path, text)).cause_model
    assert model.weight("kernel") == 5.5
    assert model.weight("explained-by") == the_rules().cause_model.weight("explained-by")


def test_pack_of_a_site_ranks_a_class_before_the_catalogue_does(tmp_path: Path) -> None:
    text = "  priors:\n    - {classes: ['xid-*', '!xid-43'], weight: 1.5, source: our cluster}\n"
    model = load(with_pack(tmp_path, text)).cause_model
    assert model.prior("xid-79") == 1.5
    assert model.prior("xid-43") == the_rules().cause_model.prior("xid-43")
    assert model.prior("a class without a prior") == 0.0


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("  evidence: {kernal: {weight: 1, source: x}}\n", "'kernel'", id="unknown-evidence"),
        pytest.param("  evidence: {kernel: {weight: 1}}\n", "source: missing: add it", id="no-source"),
        pytest.param("  evidence: {kernel: {weight: high, source: x}}\n", "write a number", id="no-number"),
        pytest.param("  evidence: {kernel: {weight: 99, source: x}}\n", "write 20.0 or less", id="too-heavy"),
        pytest.param(
            "  priors: [{classes: [weather], weight: 1, source: x}]\n", "class weather is unknown", id="class"
        ),
    ],
)
def test_a_mistake_in_a_weight_is_reported_with_its_place(tmp_path: Path, model: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(with_pack(tmp_path, model))
    assert f"{tmp_path / 'site.yaml'}:3: " in str(refused.value)
    assert expected in str(refused.value)
