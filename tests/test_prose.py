"""What a person writes as prose in program.md, notes, ideas not to try, areas to look into, reaches a model word for word, also after an edit at night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.rules import load
from tests.projects import Seen, run_study, set_rules, study_of

NOTES = """
## Notes of last night

- Width did nothing; I *believe* the schedule matters: try `WARMDOWN` < 0.5, "cosine", 学習率, and 1 < 2 && 3 > 2.
- Do not try dropout again (three nights, nothing).
  Look at the embedding first.   Two spaces stay.
"""
LATER = "\nBANNED IDEAS: anything with a second optimizer.\n\tFocus: initialisation & scale <before> anything else.\n"
READER = """
from pathlib import Path
from harness.trial import Proposal

class Reader:
    name, reads = "reader", True

    def __init__(self, setting):
        pass

    def propose(self, briefing):
        Path(__file__).with_name(f"page{briefing.number}.txt").write_bytes(briefing.page.stable.encode())
        text = briefing.files["train.py"].replace("VALUE = 1.2\\n", f"VALUE = {1.3 + briefing.number / 10}\\n")
        return Proposal(id=briefing.number, parent=briefing.incumbent, title=f"value {briefing.number}", axis="VALUE", files={"train.py": text}, proposer="reader")
"""


def test_prose_reaches_the_briefing_verbatim_and_an_edit_of_it_from_the_next_call_on(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules='[ban]\nwords = ["dropout"]\nimports = ["os"]\naxes = ["DEPTH"]\n[stop]\ntrials = 3')
    program = project / "program.md"
    first = program.read_text() + NOTES
    program.write_text(first)
    (tmp_path / "reader.py").write_text(READER)
    broken = first + LATER + "```toml rules\n"

    def edit(entry: object, study: object) -> None:
        event = entry.event  # type: ignore[attr-defined]
        if event.kind == "settled":
            program.write_text({0: first, 1: first + LATER, 2: broken}.get(event.trial, broken))

    run_study(project, seen=Seen(on_event=edit), proposer=f"{tmp_path / 'reader.py'}:Reader")
    assert study_of(project).trials == 3
    pages = [(tmp_path / f"page{number}.txt").read_text() for number in (1, 2, 3)]
    assert pages[0].startswith(first) and NOTES in pages[0] and LATER not in pages[0]
    assert pages[1].startswith(first + LATER) and pages[2] == pages[1], "a broken edit brings no word of its prose"
    said = (
        "Banned by the person, and refused without a trial: a change of `DEPTH`; an added line with the word `dropout`; an import of `os`."
    )
    assert all(said in page for page in pages)


def test_the_words_reach_it_from_a_file_of_windows_too(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 1")
    raw = b"\xef\xbb\xbf" + ((project / "program.md").read_text() + NOTES).replace("\n", "\r\n").encode()
    (project / "program.md").write_bytes(raw)
    (tmp_path / "reader.py").write_text(READER)
    run_study(project, proposer=f"{tmp_path / 'reader.py'}:Reader")
    assert (tmp_path / "page1.txt").read_bytes().startswith(raw[3:])


def test_without_a_ban_nothing_is_said_of_one(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 1")
    (tmp_path / "reader.py").write_text(READER)
    run_study(project, proposer=f"{tmp_path / 'reader.py'}:Reader")
    assert "Banned by the person" not in (tmp_path / "page1.txt").read_text()
    set_rules(project, '[ban]\naxes = ["DEPTH"]')
    assert load(project / "program.md").ban.axes == ("DEPTH",)
