"""A list of edits is read, checked and applied one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import ProposalRefused, UserFault
from harness.proposers.protocol import Briefing, Proposer
from harness.proposers.scripted import Scripted

TRAIN = 'RATE = 3e-4  # peak\nDEPTH: int = 2\nNAME = "a"\nRATE_2 = RATE\n'


def briefing(number: int, **files: str) -> Briefing:
    texts = {"train.py": TRAIN, **files}
    return Briefing(number=number, incumbent="c0ffee", files=texts, past=(), goal="", direction="lower")


def listed(folder: Path, *entries: object) -> Scripted:
    path = folder / "list.json"
    path.write_text(json.dumps({"proposals": entries}))
    return Scripted.from_file(path)


def applied(folder: Path, entry: dict[str, object]) -> str | None:
    proposal = listed(folder, {"title": "try", **entry}).propose(briefing(1))
    assert proposal is not None
    return proposal.files["train.py"]


def test_a_toml_list_is_proposed_in_order_and_then_ends(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_bytes("DEPTH = 3  # größer\n".encode())
    path = tmp_path / "list.toml"
    path.write_text(
        """
        [[proposals]]
        title = "a larger rate"
        hypothesis = "it learns too slowly"
        expected_effect = "0.01"
        refuted_if = "worse"
        set = { RATE = 0.001, DEPTH = 4 }
        [[proposals]]
        title = "rename"
        axis = "names"
        find = 'NAME = "a"'
        replace = 'NAME = "b"'
        [[proposals]]
        title = "anew"
        path = "new.py"
        """
    )
    script: Proposer = Scripted.from_file(path)
    first, second, third = (script.propose(briefing(number)) for number in (1, 2, 3))
    assert first and second and third
    assert (first.id, first.parent, first.proposer, first.hypothesis) == (1, "c0ffee", "scripted", "it learns too slowly")
    assert first.files == {"train.py": TRAIN.replace("3e-4", "0.001").replace("int = 2", "int = 4")}
    assert first.edit == "RATE: 3e-4 -> 0.001, DEPTH: 2 -> 4"
    assert (second.axis, second.edit) == ("names", 'NAME = "a" -> NAME = "b"')
    assert second.files == {"train.py": TRAIN.replace('"a"', '"b"')}
    assert (third.files, third.edit) == ({"train.py": "DEPTH = 3  # größer\n"}, "whole file")
    assert script.propose(briefing(4)) is None
    assert script.propose(briefing(2)) == second


def test_one_constant_is_an_axis_that_the_search_can_read(tmp_path: Path) -> None:
    proposal = listed(tmp_path, {"title": "t", "set": {"DEPTH": 3}}).propose(briefing(1))
    assert proposal
    assert (proposal.axis, proposal.edit) == ("DEPTH", "DEPTH: 2 -> 3")


@pytest.mark.parametrize(("value", "said"), [(True, "True"), (-0.5, "-0.5"), (7, "7"), ('x"y', "'x\"y'")])
def test_values_are_spelled_as_python(tmp_path: Path, value: object, said: str) -> None:
    assert applied(tmp_path, {"set": {"RATE": value}}) == TRAIN.replace("3e-4", said, 1)


@pytest.mark.parametrize("text", ["", "x = 1\r\n\0"])
def test_a_whole_text_is_passed_on_as_it_is(tmp_path: Path, text: str) -> None:
    assert applied(tmp_path, {"text": text}) == text


def test_files_of_any_name_and_deletions_are_left_to_the_guard(tmp_path: Path) -> None:
    files = {"sitecustomize.py": "x = 1\n", "results.tsv": None}
    proposal = listed(tmp_path, {"title": "t", "files": files}).propose(briefing(1))
    assert proposal
    assert proposal.files == files
    assert proposal.edit == "files: results.tsv, sitecustomize.py"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"find": "RATE = 1", "replace": "x"}, "is not in train.py"),
        ({"find": "RATE", "replace": "x"}, "more than once"),
        ({"set": {"WIDTH": 1}}, "assigns WIDTH 0 times"),
        ({"set": {"RATE": 1, "WIDTH": 1}}, "assigns WIDTH 0 times"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_whole(tmp_path: Path, entry: dict[str, object], said: str) -> None:
    with pytest.raises(ProposalRefused, match=said) as caught:
        listed(tmp_path, {"title": "try", **entry}).propose(briefing(1))
    assert caught.value.reason == "edit_failed"
    assert "entry 1 ('try')" in str(caught.value)


def test_overlapping_places_are_more_than_one(tmp_path: Path) -> None:
    with pytest.raises(ProposalRefused, match="more than once"):
        listed(tmp_path, {"title": "t", "find": "aa", "replace": "b"}).propose(briefing(1, **{"train.py": "aaa"}))


def test_a_constant_of_a_text_that_does_not_compile_cannot_be_set(tmp_path: Path) -> None:
    with pytest.raises(ProposalRefused, match="does not compile"):
        listed(tmp_path, {"title": "t", "set": {"RATE": 1}}).propose(briefing(1, **{"train.py": "RATE = ("}))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"title": "t"}, "entry 1 ('t'): needs exactly one of find with replace, set, text, path, files, but has none"),
        ({"title": "t", "text": "", "path": "a"}, "but has text and path"),
        ({"title": "t", "find": "a"}, "find and replace need each other"),
        ({"title": "t", "find": "", "replace": ""}, "entry 1 ('t'): find: "),
        ({"title": "t", "set": {}}, "entry 1 ('t'): set: "),
        ({"title": "t", "set": {"A": [1]}}, "entry 1 ('t'): set.A"),
        ({"title": "t", "set": {"A": float("nan")}}, "entry 1 ('t'): set.A"),
        ({"title": "t", "test": "x"}, "unknown key 'test'"),
        ({"text": "x"}, "entry 1: title: field required"),
        ("text", "entry 1: must be a table"),
        ({"title": "t", "path": "none.py"}, "none.py cannot be read as UTF-8 text"),
        ({"title": "t", "text": "\ud800"}, "entry 1 ('t'): holds a lone surrogate"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entry: object, said: str) -> None:
    with pytest.raises(UserFault) as caught:
        listed(tmp_path, entry)
    assert str(caught.value).startswith(f"{tmp_path / 'list.json'}: entry 1")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("list.toml", "[[proposals]\n", "is not valid TOML"),
        ("list.json", "[{", "is not valid JSON"),
        ("list.yaml", "", "is a .toml or a .json file"),
        ("list.json", "[]", "needs a list named proposals"),
        ("list.json", '{"proposals": {}}', "needs a list named proposals"),
        ("list.toml", "other = 1\n", "needs a list named proposals"),
        ("list.toml", "x = 1\n[[proposals]]\ntitle = 't'\ntext = ''\n", "needs a list named proposals"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserFault, match=said) as caught:
        Scripted.from_file(tmp_path / name)
    assert name in str(caught.value)


def test_a_missing_file_is_a_users_fault(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="cannot be read"):
        Scripted.from_file(tmp_path / "list.toml")
