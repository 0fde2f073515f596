"""Command line before environment before file before default; every mistake is reported with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from platformdirs.macos import MacOS

from epicenter.rules.errors import ConfigError
from epicenter.stream.cli.main import cli
from epicenter.stream.load_settings import FORMER_SETTINGS, load_settings
from epicenter.stream.settings import Settings

SECOND_NS = 10**9


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLUSTER", "ALLOWED_LATENESS", "LATENESS", "RULE_PACKS", "STORE", "DATA_DIR", "PAGE_PORT"):
        monkeypatch.delenv(f"EPICENTER_{name}", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "epicenter.toml"
    path.write_text('# ours\ncluster = "from-file"\nallowed_lateness = "7s"\nrule_packs = ["a.yaml"]\n')
    return path


def test_settings_have_defaults() -> None:
    settings = load_settings()
    assert (settings.cluster, settings.allowed_lateness_ns, settings.rule_packs) == ("default", 5 * SECOND_NS, ())


def test_the_file_overrides_the_defaults(file: Path) -> None:
    settings = load_settings(file)
    assert (settings.cluster, settings.allowed_lateness_ns) == ("from-file", 7 * SECOND_NS)
    assert settings.rule_packs == (Path("a.yaml"),)


def test_the_environment_overrides_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_CLUSTER", "from-environment")
    monkeypatch.setenv("EPICENTER_ALLOWED_LATENESS", "9s")
    monkeypatch.setenv("EPICENTER_RULE_PACKS", "b.yaml:c")
    settings = load_settings(file)
    assert (settings.cluster, settings.allowed_lateness_ns) == ("from-environment", 9 * SECOND_NS)
    assert settings.rule_packs == (Path("b.yaml"), Path("c"))


def test_the_command_line_overrides_everything(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_CLUSTER", "from-environment")
    assert load_settings(file, cluster="given", store=None).cluster == "given"


def test_other_variables_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_LATENESS", "99s")
    monkeypatch.setenv("CLUSTER", "theirs")
    settings = load_settings()
    assert (settings.cluster, settings.allowed_lateness_ns) == ("default", 5 * SECOND_NS)


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        pytest.param("latenes = '5s'\n", 1, "latenes: unknown setting: write allowed_lateness", id="unknown"),
        pytest.param("\nallowed_lateness = '5 minutes'\n", 2, "is not a duration", id="duration"),
        pytest.param("allowed_lateness = 5\n", 1, "is not a duration", id="duration-without-a-unit"),
        pytest.param("webhook_url = 'hooks.example.org/x'\n", 1, "write https://host/path", id="web-address"),
        pytest.param("page_port = 99999\n", 1, "write 65535 or less, not 99999", id="port"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_its_line(
    tmp_path: Path, content: str, line: int, expected: str
) -> None:
    path = tmp_path / "epicenter.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_settings(path)
    (problem,) = refused.value.problems
    assert problem.startswith(f"{path}:{line}: ")
    assert expected in problem


def test_all_mistakes_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "epicenter.toml"
    path.write_text("colour = 1\nraw_partitions = 0\n")
    monkeypatch.setenv("EPICENTER_ALLOWED_LATENESS", "soon")
    with pytest.raises(ConfigError) as refused:
        load_settings(path)
    places = [problem.split(": ")[0] for problem in refused.value.problems]
    assert sorted(places) == sorted([f"{path}:1", f"{path}:2", "EPICENTER_ALLOWED_LATENESS"])


@pytest.mark.parametrize("content", ["cluster =", None], ids=["no-toml", "no-file"])
def test_an_unreadable_file_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "epicenter.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=f"{path}(:[0-9]+)?: (not TOML|can't be read)"):
        load_settings(path)


def test_the_embedded_store_is_in_the_data_folder(tmp_path: Path) -> None:
    assert load_settings(data_dir=tmp_path).store_dsn == f"chdb://{tmp_path}/store"
    assert load_settings(data_dir=tmp_path, store="http://ch:8123/x").store_dsn == "http://ch:8123/x"


@pytest.mark.parametrize("below", ["", "/var/tmp/data"], ids=["in-the-home", "by-xdg"])
def test_the_data_folder_is_that_of_the_user(below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", below)
    assert load_settings().data_dir == Path(below or tmp_path / ".local/share") / "epicenter"


def test_an_existing_data_folder_in_the_home_of_a_mac_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("epicenter.stream.settings.user_data_path", lambda name: MacOS(name).user_data_path)
    assert load_settings().data_dir == tmp_path / "Library/Application Support/epicenter"
    (tmp_path / ".local/share/epicenter").mkdir(parents=True)
    assert load_settings().data_dir == tmp_path / ".local/share/epicenter"


LATENESS = "lateness: is now called allowed_lateness: write that"


def test_former_name_gives_its_value_from_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "epicenter.toml", tmp_path / "secrets"
    folder.mkdir()
    path.write_text('cluster = "c"\nlateness = "1s"\n')
    found = [load_settings(path)]
    (folder / "lateness").write_text("2s\n")
    found.append(load_settings(path, secrets_dir=folder))
    monkeypatch.setenv("EPICENTER_LATENESS", "3s")
    found.append(load_settings(path, secrets_dir=folder))
    found.append(load_settings(path, secrets_dir=folder, lateness="4s"))
    assert [settings.allowed_lateness_ns for settings in found] == [second * SECOND_NS for second in (1, 2, 3, 4)]
    places = (f"{path}:2: ", "", "EPICENTER_LATENESS: ", "")
    assert found[-1].warnings == tuple(f"{place}{LATENESS}" for place in places)


def test_present_name_counts_more_than_the_former_one_of_the_same_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_LATENESS", "3s")
    monkeypatch.setenv("EPICENTER_ALLOWED_LATENESS", "5s")
    settings = load_settings()
    assert (settings.allowed_lateness_ns, settings.warnings) == (5 * SECOND_NS, (f"EPICENTER_LATENESS: {LATENESS}",))


def test_former_name_in_the_environment_counts_more_than_the_present_one_in_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICENTER_LATENESS", "3s")
    assert load_settings(file).allowed_lateness_ns == 3 * SECOND_NS


def test_mistake_under_a_former_name_is_named_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_LATENESS", "soon")
    with pytest.raises(ConfigError, match=r"EPICENTER_LATENESS: lateness: 'soon' is not a duration"):
        load_settings()


@pytest.mark.parametrize("value", ["120s", "whatever"])
def test_retired_setting_is_ignored_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    path = tmp_path / "epicenter.toml"
    path.write_text(f"behind_after = '{value}'\n")
    monkeypatch.setenv("EPICENTER_BEHIND_AFTER", value)
    text = "behind_after: ignored, it has no replacement: a backlog is read in order, with all rules: remove it"
    settings = load_settings(path)
    assert settings.warnings == (f"{path}:1: {text}", f"EPICENTER_BEHIND_AFTER: {text}")
    assert settings.model_dump() == load_settings().model_dump()


def test_command_warns_of_a_retired_setting_once(tmp_path: Path) -> None:
    log, config = tmp_path / "kern.log", tmp_path / "epicenter.toml"
    log.write_text("Linux version 6.8.0-60-generic\n")
    config.write_text("behind_after = '2m'\n")
    done = CliRunner().invoke(cli, ["replay", "--config", str(config), "--json", str(log)])
    assert done.exit_code == 0
    assert done.stderr.count("epicenter: warning: ") == done.stderr.count("behind_after: ignored") == 1


def test_each_former_name_leads_to_a_present_one_and_is_none() -> None:
    present_names = set(Settings.model_json_schema(by_alias=True)["properties"])
    assert not present_names & FORMER_SETTINGS.keys()
    assert {former.now for former in FORMER_SETTINGS.values() if former.now} <= present_names
