"""Messages in small source files that we wrote: which ones are found, what they print, and which rules name them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_cpp", reason="needs the extra `harvest`: pip install -e '.[harvest]'")

from bench.harvest import report
from bench.harvest.__main__ import main
from bench.harvest.examples import Texts, printed
from bench.harvest.extract import templates_of
from bench.harvest.fill import FILLS, lines_of
from bench.harvest.formats import braces, printf
from bench.harvest.labels import Label, read_labels
from bench.harvest.matching import Matcher
from bench.harvest.producers import Producer, read_producers, version_of
from bench.harvest.record import missing
from bench.harvest.score import Share
from bench.harvest.state import changes, read_state, state_of
from bench.harvest.template import Hole, Template, text_of
from bench.harvest.words import suggestions, words_row
from epicenter.rules.packs.load import load

C = r"""
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#define WHERE "the back room"
#define CALL(x) do { \
    if (x) WARN("Call to %s failed", #x); \
} while (0)
static int start(struct machine *machine, int rank) {
    WARN("cannot open %s: " "%" PRIu64 "B, %d%%", path, size, share); /* not WARN("a comment") */
    pr_err("lost in " WHERE "\n");
    report(LEVEL_ERROR, "wheel %d is flat", rank);
    report(LEVEL_INFO, "wheel %d is round", rank);
    WARN("%s");
}
"""
CPP = """
void Node::Stop() {
  LOG(ERROR) << "Failed to stop worker " << worker_id << " after " << seconds << "s";
  CHECK(ok) << "The door is locked";
  derr << "door " << door.name() << " is " << (std::string("half ") + state()).c_str() << dendl;
}
"""
GO = """
package main
const Reason = "FailedLunch"
func serve() {
	recorder.Eventf(pod, v1.EventTypeWarning, events.Reason, "No table for %q", name)
	logger.Error(err, "Soup is cold", "bowl", bowl)
}
"""
PYTHON = """
def run(self):
    logger.error("Worker %s left with %d", name, code)
    logger.warning(f"Slow step: {seconds:.2f}s for {name}")
    self._logger.exception("No shard " + shard + " left")
    log.info("{} of {} ready".format(done, total))
    print("never a message of a logger")
"""
RUST = """
fn serve() {
    tracing::error!("Oven {oven} is {}", state);
    return Err(Refused::Order("no bread today".to_string()));
}
enum Refused {
    #[error("the baker is ill: {0}")]
    Ill(String),
}
"""
SCALA = """
class Oven {
  def heat(): Unit = {
    logError(log"Lost ${MDC(OVEN, id)} on $host: " + why, e)
    throw new OvenException(s"Oven $id is cold")
  }
}
"""
CALLS = {
    "c": [
        {"call": "WARN", "line": "{file}:{number} NCCL WARN {message}"},
        {"call": "pr_err", "prefix_macro": "pr_fmt"},
        {"call": "report", "where": {0: "LEVEL_ERROR"}, "line": "{function}: {message}"},
    ],
    "c++": [
        {"call": "LOG", "where": {0: "ERROR"}, "form": "streamed"},
        {"call": "CHECK", "form": "streamed", "line": "Check failed: {0} {message}"},
        {"call": "derr", "form": "streamed"},
    ],
    "go": [
        {"call": r".*\.Eventf", "argument": 3, "before": "{2} ", "line": "Warning {message}", "source": "kubernetes"},
        {"call": r"logger\.Error", "argument": 1, "form": "plain"},
    ],
    "python": [
        {"call": r"(?:.*\.)?_?log\w*\.(?:error|exception)"},
        {"call": r"log\w*\.(?:warning|info)", "level": "warning"},
    ],
    "rust": [{"call": r"(?:tracing::)?error|Refused::\w+", "form": "braces"}],
    "scala": [{"call": r"logError|\w+Exception", "form": "plain"}],
}


def producer(language: str, **fields: object) -> Producer:
    given = {"name": "bakery", "language": language, "paths": ["**/*.txt"], "calls": CALLS[language]}
    return Producer.model_validate(given | fields)


def harvested(folder: Path, language: str, code: str) -> list[Template]:
    (folder / "bakery").mkdir()
    (folder / "bakery/oven.txt").write_text(code)
    return templates_of(producer(language), folder)


def lines(templates: list[Template]) -> dict[str, str]:
    return {template.text: lines_of(template, 0)[0] for template in templates}


def test_messages_of_c_with_joined_literals_and_macros(tmp_path: Path) -> None:
    assert lines(harvested(tmp_path, "c", C)) == {
        "cannot open {}: {}B, {}%": "oven.txt:8 NCCL WARN cannot open /scratch/run7/data.bin: 1073741824B, 1%",
        "lost in the back room": "bakery: lost in the back room",
        "wheel {} is flat": "start: wheel 0 is flat",
        "Call to {} failed": "oven.txt:5 NCCL WARN Call to value failed",
    }


def test_streamed_messages_of_cpp(tmp_path: Path) -> None:
    assert lines(harvested(tmp_path, "c++", CPP)) == {
        "Failed to stop worker {} after {}s": "Failed to stop worker 4f6cb1a2e3d84b7f9a21c07d01000000 after 600s",
        "The door is locked": "Check failed: ok The door is locked",
        "door {} is half {}": "door value is half value",
    }


def test_events_and_messages_of_go(tmp_path: Path) -> None:
    found = harvested(tmp_path, "go", GO)
    assert lines(found) == {
        "FailedLunch No table for {}": "Warning FailedLunch No table for value",
        "Soup is cold": "Soup is cold",
    }
    assert [template.source for template in found] == ["kubernetes", ""]


def test_messages_of_rust(tmp_path: Path) -> None:
    assert list(lines(harvested(tmp_path, "rust", RUST))) == [
        "Oven {} is {}",
        "no bread today",
        "the baker is ill: {}",
    ]


def test_messages_of_scala(tmp_path: Path) -> None:
    assert list(lines(harvested(tmp_path, "scala", SCALA))) == ["Lost {} on {}: {}", "Oven {} is cold"]


def test_messages_of_python(tmp_path: Path) -> None:
    found = harvested(tmp_path, "python", PYTHON)
    assert [(template.level, template.text) for template in found] == [
        ("error", "Worker {} left with {}"),
        ("error", "No shard {} left"),
        ("warning", "Slow step: {}s for {}"),
        ("warning", "{} of {} ready"),
    ]
    assert found[2].parts[1] == Hole("float", "seconds")


def test_python_that_cannot_be_parsed_has_no_messages(tmp_path: Path) -> None:
    assert harvested(tmp_path, "python", "print 'Python 2'") == []


def test_an_id_depends_only_on_producer_and_message(tmp_path: Path) -> None:
    (first, *_), (again, *_) = (harvested(folder_in(tmp_path, name), "c++", CPP) for name in ("a", "b"))
    assert first.id == again.id and len(first.id) == 8


def folder_in(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@pytest.mark.parametrize(
    ("parts", "text", "kinds"),
    [
        (printf("%-*s at 0x%08llx: %5.2f%c %m", ["8", "name", "at", "share", "unit"]), "{} at 0x{}: {}{} {}", "thfct"),
        (printf("%(name)s and %pI4", ["values"]), "{} and {}", "tt"),
        (printf("50%% of %zu", ["count"]), "50% of {}", "i"),
        (braces("{{{}}} {name:>8} {0:.3f}", ["a"]), "{{}} {} {}", "ttf"),
    ],
)
def test_formats(parts: tuple[str | Hole, ...], text: str, kinds: str) -> None:
    assert text_of(parts) == text
    assert "".join(part.kind[0] for part in parts if isinstance(part, Hole)) == kinds


def message(text: str, shape: str = "{message}", *holes: Hole) -> Template:
    return Template("bakery", (text, *holes), "error", shape, "", "oven.c:1")


def test_rules_name_messages_by_text_by_shape_or_not() -> None:
    shape = "[2026-08-22 10:11:12,123 C 41234 41299] (raylet) oven.cc:1: {message}"
    templates = {
        "specific": message(
            "Call to ibv_modify_qp failed with error Connection timed out", "n:1:1 [0] NCCL WARN {message}"
        ),
        "shape": message("The soufflé has fallen", shape),
        "unnamed": message("The bread is ready"),
    }
    named = Matcher(load()).named(list(templates.values()))
    assert {how: named[template.id].how for how, template in templates.items()} == {how: how for how in templates}


def test_values_differ_between_fillings_and_are_always_the_same() -> None:
    template = message("rank ", "{message}", Hole("integer", "comm->rank"))
    found = [lines_of(template, number) for number in range(FILLS)]
    assert len({line for (line,) in found}) == FILLS
    assert found == [lines_of(template, number) for number in range(FILLS)]


def test_labels_count_where_readers_agree(tmp_path: Path) -> None:
    (tmp_path / "bakery.tsv").write_text(
        "id\tverdict_a\tclass_a\tverdict_b\tclass_b\n0a\tfatal\tflour\t\t\n0b\tfatal\t\tnoise\t\n"
    )
    labels = read_labels("bakery", tmp_path)
    assert labels["0a"] == Label("fatal", "flour")
    assert [labels[name].verdict for name in ("0a", "0b")] == ["fatal", ""]


def test_an_unknown_verdict_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bakery.tsv").write_text("id\tverdict_a\tclass_a\tverdict_b\tclass_b\n0a\tburnt\t\t\t\n")
    with pytest.raises(ValueError, match="'burnt': write fatal, degraded or noise"):
        read_labels("bakery", tmp_path)


def test_every_label_file_is_valid_and_has_a_producer() -> None:
    names = {producer.name for producer in read_producers()}
    files = sorted(Path("bench/harvest/labels").glob("*.tsv"))
    assert {file.stem for file in files} <= names
    assert all(read_labels(file.stem) for file in files)


def test_wilson_interval() -> None:
    assert [round(bound, 3) for bound in Share(3, 10).interval] == [0.108, 0.603]
    assert Share(0, 0).interval == (0.0, 1.0)


def test_changes_since_the_last_state(tmp_path: Path) -> None:
    matcher = Matcher(load())
    old, new = message("The bread is ready"), message("The cake is ready")
    before, now = (state_of(version, matcher.named([found])) for version, found in (("1", old), ("2", new)))
    found = changes(before, now)
    assert found and (found.since, found.new, found.vanished) == ("1", [new.id], [old.id])
    assert changes(None, now) is None


def test_words_suggest_a_class_as_if_no_rule_named_the_message() -> None:
    oven, wall, door, bell = templates = [
        message("Failed to bake: no space left on device"),
        message("Failed to mount the volume of flour"),
        message("Failed to open the door"),
        message("The bell rang"),
    ]
    suggested = suggestions(templates, load())
    assert suggested == {oven.id: "disk-full", wall.id: "volume-mount-fail"}
    labels = {
        oven.id: Label("fatal", "disk-full"),
        wall.id: Label("fatal", "hang"),
        door.id: Label("fatal"),
        bell.id: Label("noise"),
    }
    assert words_row("bakery", templates, suggested, labels) == ("bakery", (2, 3), (1, 2), (0, 1), (0, 0))


def found(line: str, sources: Path) -> list[tuple[str, tuple[int, int]]]:
    return [(text.version, match.span()) for text, match in Texts(producer("c"), sources).found(line)]


def test_a_text_explains_a_line_that_contains_it(tmp_path: Path) -> None:
    harvested(tmp_path, "c", C)
    assert found("x: wheel 7 is flat", tmp_path) == [("", (3, 18))]
    assert found("x: wheel 7 is square", tmp_path) == []
    assert found("x: wheel seven is flat", tmp_path) == []


def test_a_text_of_a_macro_counts_too(tmp_path: Path) -> None:
    harvested(tmp_path, "c", C)
    assert found("Call to open failed", tmp_path) == [("", (0, 19))]


def test_texts_of_other_versions_count_too(tmp_path: Path) -> None:
    harvested(tmp_path, "c", C)
    (tmp_path / "bakery@0.9").mkdir()
    (tmp_path / "bakery@0.9/oven.txt").write_text('void f() { WARN("wheel %d is square", rank); }')
    assert found("x: wheel 7 is square", tmp_path) == [("0.9", (3, 20))]


def test_each_line_of_a_text_may_be_an_example(tmp_path: Path) -> None:
    harvested(tmp_path, "c", r"""void f() { WARN("The oven is too hot.\nOpen door %d now.\n", door); }""")
    assert found("Open door 7 now.", tmp_path) == [("", (0, 16))]


def test_an_example_is_recorded_if_its_producer_can_print_it(tmp_path: Path) -> None:
    harvested(tmp_path, "c", 'void f() { WARN("NCCL error in: %s", file); }')
    rules, bakery = load(), producer("c", references="^(?:PyTorch|NVIDIA NCCL|XLA) ")
    entries = printed(rules, [bakery], tmp_path)
    lacking = [line for rule, line in missing(rules, [bakery], entries, ()) if rule.spec.id == "nccl.error"]
    assert not any("NCCL error in:" in line for line in lacking)
    assert any("NCCL Error 2: unhandled system error" in line for line in lacking)
    assert printed(rules, [bakery], tmp_path, entries) == []


def test_versions(tmp_path: Path) -> None:
    assert version_of(tmp_path) == ""
    (tmp_path / "bakery-1.dist-info").mkdir()
    (tmp_path / "bakery-1.dist-info/METADATA").write_text("Name: bakery\nVersion: 1.2\n")
    assert version_of(tmp_path) == "1.2"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    harvested(tmp_path, "python", PYTHON)
    described = tmp_path / "producers.yaml"
    described.write_text(
        "producers:\n  - {name: bakery, language: python, paths: ['*.txt'], calls: [{call: 'logger.error'}]}\n"
    )
    return [str(tmp_path), "--producers", str(described)]


def test_the_command_prints_a_table(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--unnamed"]) == 0
    output = capsys.readouterr().out
    assert "bakery             error  1         0 (0.0%)  0 (0.0%)  –             –               –" in output
    assert "oven.txt:3\t'Worker {} left with {}'" in output


def test_the_command_prints_what_words_suggest(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--words"]) == 0
    head, bakery, everyone = capsys.readouterr().out.splitlines()
    assert head.split() == ["producer", "fatal", "fitting", "noise", "info"]
    assert bakery.split() == ["bakery", *4 * ["0", "of", "0", "–"]]
    assert everyone.split()[0] == "all"


def test_the_command_prints_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*command, "--json"])
    row = json.loads(capsys.readouterr().out)
    assert (row["producer"], row["level"], row["templates"], row["specific"]) == ("bakery", "error", 1, 0)
    assert row["fatal_named"] == {"hits": 0, "total": 0, "interval": [0, 1]}
    assert row["changes"] is None


def test_the_page_is_as_the_command_writes_it() -> None:
    page = report.DOCUMENT.read_text("utf-8")
    assert page.startswith(report.INTRODUCTION) and page.endswith(report.HOW)
    assert set(read_state()) == {line.split(" | ")[0][2:] for line in page.splitlines() if " | error | " in line}


def test_a_sample_does_not_show_what_is_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*command, "--sample", "bakery"])
    assert capsys.readouterr().out.endswith("\toven.txt:3\t'Worker {} left with {}'\n")


def test_a_part_is_not_written(command: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command, "--write", "--only", "bakery"])
