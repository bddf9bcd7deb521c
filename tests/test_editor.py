"""The text editor in memory: exact edits, one sentence for every wrong input, and nothing touched by a command that fails."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.proposers import editor
from harness.proposers.editor import Answer, Editor

TRAIN = "import os\n\nDEPTH = 2\nRATE = 0.04\n\n\ndef main():\n    x = 1\n    return x\n"
HUGE = 10**5000  # more digits than Python turns into text
FILES = {"train.py": TRAIN, "pkg/model.py": "A = 1\nB = 2"}


def act(command: str, path: Any = "train.py", files: dict[str, str] | None = None, **rest: Any) -> tuple[Editor, Answer]:
    made = Editor(FILES if files is None else files)
    return made, made.run({"command": command, "path": path, **rest})


def one(text: str, command: str, **rest: Any) -> str:
    """The text of a single file after a command that works."""
    made, answer = act(command, files={"train.py": text}, **rest)
    assert not answer.is_error, answer.text
    return made.files["train.py"]


def wrong(tool_input: object) -> str:
    """The error sentence of an input that changes nothing."""
    made = Editor(FILES)
    answer = made.run(tool_input)
    assert answer.is_error and made.files == FILES and made.changed() == {} and len(answer.text.encode()) < 2000
    return answer.text


def test_a_view_numbers_the_lines() -> None:
    made, answer = act("view")
    assert answer.text.split("\n")[:4] == ["     1\timport os", "     2\t", "     3\tDEPTH = 2", "     4\tRATE = 0.04"]
    assert answer.text.count("\n") == 8 and not answer.is_error and made.changed() == {}


@pytest.mark.parametrize(("asked", "shown"), [([3, 4], "34"), ([8, -1], "89"), ([9, 900], "9"), ([1, 1], "1"), (None, "123456789")])
def test_a_view_shows_the_lines_that_were_asked_for(asked: list[int] | None, shown: str) -> None:
    numbers = "".join(line.split("\t")[0].strip() for line in act("view", view_range=asked)[1].text.split("\n"))
    assert numbers == shown


@pytest.mark.parametrize(
    "asked", [[0, 3], [4, 3], [10, 12], [1], [1, 2, 3], "1-3", [True, 3], [1.0, 3], ["1", 2], [-1, -1], [1, -2], [HUGE, -1], {}]
)
def test_a_view_of_no_lines_is_an_error(asked: object) -> None:
    assert "view_range" in wrong({"command": "view", "path": "train.py", "view_range": asked})


def test_a_view_of_the_folder_lists_the_files_in_scope() -> None:
    for path in ("", ".", "/", "./"):
        assert act("view", path)[1].text == "The files in scope:\npkg/model.py (2 lines, 11 bytes)\ntrain.py (9 lines, 70 bytes)"


def test_an_empty_file_and_a_missing_line_feed_are_said() -> None:
    assert act("view", files={"train.py": ""})[1].text == "train.py is empty."
    assert act("view", files={"train.py": ""}, view_range=[1, -1])[1].text == "train.py is empty."
    assert act("view", "pkg/model.py")[1].text.endswith("     2\tB = 2\nThe last line does not end with a line feed.")


def test_a_long_file_is_shown_in_parts() -> None:
    text = "".join(f"A{n} = {n}  # {'x' * 80}\n" for n in range(3000))
    made = Editor({"train.py": text})
    first = made.run({"command": "view", "path": "train.py"}).text
    assert len(first.encode()) <= editor.VIEW_BYTES + 200
    last = int(first.split("\n")[-2].split("\t")[0])
    assert 900 < last < 1200 and first.endswith(f"Lines {last + 1} to 3000 are not shown; ask for them with view_range.")
    rest = made.run({"command": "view", "path": "train.py", "view_range": [last + 1, last + 2]}).text
    assert rest.startswith(f"{last + 1:6}\tA{last} = ")


def test_one_huge_line_does_not_burst_a_view() -> None:
    for text in ("x" * 1_000_000, "漢" * 300_000, "\n" * 1_000_000):
        assert len(act("view", files={"train.py": text})[1].text.encode()) <= editor.VIEW_BYTES + 300


def test_hidden_characters_are_counted_and_not_shown() -> None:
    text = act("view", files={"train.py": "A = 1\u200b\u202e\n\x1b[2JB = \ud800\rC\n"})[1].text
    assert text.split("\n") == [
        "     1\tA = 1",
        "     2\tB = ␍C",
        "7 characters that cannot be seen are left out here.",
        "␍ stands for a carriage return.",
    ]


@pytest.mark.parametrize("path", ["train.py", "./train.py", "/train.py"])
def test_three_spellings_of_a_path_are_taken(path: str) -> None:
    made, answer = act("str_replace", path, old_str="DEPTH = 2", new_str="DEPTH = 3")
    assert not answer.is_error and made.changed() == {"train.py": TRAIN.replace("DEPTH = 2", "DEPTH = 3")}


@pytest.mark.parametrize(
    "path",
    ["prepare.py", "/repo/train.py", "../train.py", "//train.py", ".//train.py", "./../train.py", "train.py/", "TRAIN.PY", "pkg", "~", "train.py\0", " train.py"],
)  # fmt: skip
@pytest.mark.parametrize("command", editor.COMMANDS)
def test_any_other_path_is_refused_by_every_command(command: str, path: str) -> None:
    rest = {"old_str": "A", "new_str": "B", "file_text": "x", "insert_line": 0, "insert_text": "x"}
    assert "may be edited: pkg/model.py, train.py" in wrong({"command": command, "path": path, **rest})


def test_a_folder_cannot_be_edited() -> None:
    assert "not in scope" in wrong({"command": "create", "path": ".", "file_text": "x"})


def test_a_replacement_may_be_left_out() -> None:
    assert one("a\nb\nc\n", "str_replace", old_str="b\n") == "a\nc\n"
    assert one("a\nb\nc\n", "str_replace", old_str="b\n", new_str=None) == "a\nc\n"


def test_a_replacement_shows_its_surroundings() -> None:
    answer = act("str_replace", old_str="RATE = 0.04\n", new_str="RATE = 0.06\nMORE = 1\n")[1].text.split("\n")
    assert answer[0] == "train.py was edited and now reads there:" and "     5\tMORE = 1" in answer and len(answer) == 10
    assert act("str_replace", old_str=TRAIN)[1].text == "train.py is now empty."


def test_a_replacement_is_text_and_no_pattern() -> None:
    assert one("a.c abc\n", "str_replace", old_str="a.c", new_str=r"\1\g<0>") == "\\1\\g<0> abc\n"


def test_several_matches_are_counted_with_their_lines() -> None:
    assert "has 2 matches in train.py, at lines 8, 9;" in wrong(
        {"command": "str_replace", "path": "train.py", "old_str": "x", "new_str": "y"}
    )
    made, answer = act("str_replace", files={"train.py": "x = 1\n" * 1500}, old_str="x = 1", new_str="y")
    assert (
        answer.is_error
        and made.changed() == {}
        and "has 1,500 matches in train.py, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 …;" in answer.text
    )


def test_matches_that_overlap_are_not_one_match() -> None:
    made, answer = act("str_replace", files={"train.py": "aaa\n"}, old_str="aa", new_str="b")
    assert answer.is_error and "has 2 matches in train.py, at lines 1, 1" in answer.text and made.changed() == {}


def test_no_match_names_the_nearest_place_and_the_difference() -> None:
    said = wrong({"command": "str_replace", "path": "train.py", "old_str": "def main():\n\tx = 1\n", "new_str": "y"})
    assert "no match" in said and r"begins at line 7; line 8 is '    x = 1' where '\tx = 1' was looked for" in said
    said = wrong({"command": "str_replace", "path": "train.py", "old_str": "RATE = 0.05", "new_str": "y"})
    assert "begins at line 4; line 4 is 'RATE = 0.04' where 'RATE = 0.05' was looked for" in said
    said = wrong({"command": "str_replace", "path": "train.py", "old_str": "    return x\n    more()\n", "new_str": "y"})
    assert "begins at line 9, but the file ends before line 10" in said
    assert "Nothing there looks like it" in wrong({"command": "str_replace", "path": "train.py", "old_str": "§§§§", "new_str": "y"})
    said = wrong({"command": "str_replace", "path": "train.py", "old_str": "DEPTH = 2\nRATE = 0.04\n\n\n\n", "new_str": "y"})
    assert "begins at line 3; line 7 is 'def main():' where '' was looked for" in said


def test_a_nearest_place_may_begin_and_end_within_a_line() -> None:
    answer = act("str_replace", old_str="= 2\nRATE = 0.04\n\ndef ma", new_str="")[1]
    assert "begins at line 3; line 6 is '' where 'def ma'" in answer.text
    answer = act("str_replace", files={"train.py": "A = 1\r\nB = 2\nC = 3\n"}, old_str="= 1\nB = 2\nC", new_str="")[1]
    assert "begins at line 1; 3 lines agree there, so what follows or a line end differs." in answer.text


def test_the_nearest_place_of_a_large_text_is_found_soon() -> None:
    text = "".join(f"value_{n} = compute({n}, {n + 1})  # {'abcdefgh' * 20}\n" for n in range(4500))
    answer = act("str_replace", files={"train.py": text}, old_str="value_x = computed(3, 9)  # abc" + "gh" * 60, new_str="")[1]
    assert answer.is_error and len(answer.text) < 2000
    same = act("str_replace", files={"train.py": "a\n" * 500_000}, old_str="a\nb\n" * 5000, new_str="")[1]
    assert same.is_error and "line 2 is 'a' where 'b'" in same.text


def test_what_changes_nothing_is_said() -> None:
    assert "old_str is empty" in wrong({"command": "str_replace", "path": "train.py", "old_str": "", "new_str": "y"})
    assert "are the same" in wrong({"command": "str_replace", "path": "train.py", "old_str": "DEPTH", "new_str": "DEPTH"})


def test_a_file_is_created_word_for_word() -> None:
    text = "\ta = 1\r\nb\n\n\rc"
    assert one("old\n", "create", file_text=text) == text and one("old\n", "create", file_text="") == ""


@pytest.mark.parametrize(
    ("text", "line", "part", "after"),
    [
        ("a\nb\n", 0, "x\n", "x\na\nb\n"),
        ("a\nb\n", 0, "x", "x\na\nb\n"),
        ("a\nb\n", 1, "x\ny", "a\nx\ny\nb\n"),
        ("a\nb\n", 2, "x", "a\nb\nx\n"),
        ("a\nb\n", 2, "x\n", "a\nb\nx\n"),
        ("a\nb", 2, "x", "a\nb\nx"),
        ("a\nb", 2, "x\n", "a\nb\nx\n"),
        ("a\nb", 1, "x", "a\nx\nb"),
        ("", 0, "x", "x"),
        ("a\n", 1, "", "a\n\n"),
        ("\n\n", 1, "\tx\n", "\n\tx\n\n"),
        ("a\r\nb\r\n", 1, "x\ny", "a\r\nx\r\ny\r\nb\r\n"),
        ("a\r\nb", 2, "x", "a\r\nb\r\nx"),
    ],
)
def test_text_is_inserted_after_a_line(text: str, line: int, part: str, after: str) -> None:
    assert one(text, "insert", insert_line=line, insert_text=part) == after
    assert one(text, "insert", insert_line=line, new_str=part) == after, "the older name of the text"


@pytest.mark.parametrize("line", [-1, 10, True, 1.0, "1", None, HUGE, [1]], ids=type)
def test_a_line_that_is_none_of_the_file_is_refused(line: object) -> None:
    assert "insert_line" in wrong({"command": "insert", "path": "train.py", "insert_line": line, "insert_text": "x"})


def test_a_file_in_crlf_stays_one() -> None:
    text = "a = 1\r\nb = 2\r\nc = 3\r\n"
    assert one(text, "str_replace", old_str="a = 1\nb = 2", new_str="a = 1\nz = 0\nb = 2") == "a = 1\r\nz = 0\r\nb = 2\r\nc = 3\r\n"
    assert one(text, "str_replace", old_str="b = 2\r\n", new_str="") == "a = 1\r\nc = 3\r\n"
    shown = act("view", files={"train.py": text})[1].text
    assert shown == "     1\ta = 1\n     2\tb = 2\n     3\tc = 3\nEvery line ends with CRLF; a line feed that you write becomes one."
    mixed = "a\r\nb\nc\n"
    assert one(mixed, "str_replace", old_str="b\nc", new_str="d\ne") == "a\r\nd\ne\n"


@pytest.mark.parametrize(
    "tool_input",
    [None, [], "view", 3, {}, {"command": "view"}, {"command": None, "path": "train.py"}, {"command": ["view"], "path": "train.py"},
     {"command": "delete", "path": "train.py"}, {"command": "view", "path": 7}, {"command": "view", "path": ["train.py"]}, {"command": "view", "path": {}},
     {"command": "create", "path": "train.py"}, {"command": "create", "path": "train.py", "file_text": 3},
     {"command": "create", "path": "train.py", "file_text": "a\ud800"}, {"command": "create", "path": "\ud800", "file_text": "a"},
     {"command": "str_replace", "path": "train.py"}, {"command": "str_replace", "path": "train.py", "old_str": "DEPTH", "new_str": 3},
     {"command": "str_replace", "path": "train.py", "old_str": ["DEPTH"], "new_str": "x"},
     {"command": "str_replace", "path": "train.py", "old_str": "DEPTH", "new_str": "x", "replace_all": True},
     {"command": "insert", "path": "train.py", "insert_text": "x"}, {"command": "insert", "path": "train.py", "insert_line": 1},
     {"command": "insert", "path": "train.py", "insert_line": 1, "insert_text": b"x"}, {3: "view"}, {HUGE: 1}, {("a",): 1}],
)  # fmt: skip
def test_a_wrong_input_is_one_sentence(tool_input: object) -> None:
    assert "\n" not in wrong(tool_input)


def test_there_is_no_undo() -> None:
    assert "no undo_edit" in wrong({"command": "undo_edit", "path": "train.py"})


def test_a_file_has_at_most_a_mebibyte() -> None:
    full = "漢" * (editor.MAX_BYTES // 3) + "a"
    assert len(full.encode()) == editor.MAX_BYTES and one("x", "create", file_text=full) == full
    made, answer = act("create", files={"train.py": full}, file_text=full + "a")
    assert answer.is_error and made.changed() == {} and "1,048,577 bytes" in answer.text
    made, answer = act("str_replace", files={"train.py": full}, old_str="a", new_str="bc")
    assert answer.is_error and made.changed() == {}
    made, answer = act("insert", files={"train.py": full}, insert_line=1, insert_text="a")
    assert answer.is_error and made.changed() == {}


def test_the_texts_given_out_are_copies() -> None:
    given_files = dict(FILES)
    made = Editor(given_files)
    made.files["train.py"] = given_files["train.py"] = "gone"
    assert made.files == FILES and made.changed() == {}


def test_a_change_taken_back_is_no_change() -> None:
    made = Editor(FILES)
    made.run({"command": "str_replace", "path": "train.py", "old_str": "DEPTH = 2", "new_str": "DEPTH = 3"})
    assert set(made.changed()) == {"train.py"}
    made.run({"command": "str_replace", "path": "train.py", "old_str": "DEPTH = 3", "new_str": "DEPTH = 2"})
    assert made.changed() == {}


TEXT = st.text(alphabet="ab \t\n\r漢\u200b\ud800", max_size=12)
ANY = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.lists(st.integers(-2, 9), max_size=3), st.just(HUGE))
PATHS = st.one_of(st.sampled_from(["train.py", "./train.py", "/train.py", "/", ".", "prepare.py", "../train.py", "pkg/model.py"]), ANY)
COMMAND = st.fixed_dictionaries(
    {},
    optional={
        "command": st.one_of(st.sampled_from([*editor.COMMANDS, "undo_edit"]), ANY), "path": PATHS, "view_range": ANY, "old_str": st.one_of(TEXT, ANY),
        "new_str": st.one_of(TEXT, ANY), "file_text": st.one_of(TEXT, ANY), "insert_line": st.one_of(st.integers(-1, 6), ANY), "insert_text": st.one_of(TEXT, ANY),
    },
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(COMMAND, ANY), max_size=12), TEXT)
def test_whatever_is_sent_nothing_raises_and_a_failure_changes_nothing(commands: list[object], text: str) -> None:
    made = Editor({"train.py": text, "pkg/model.py": "A = 1"})
    for command in commands:
        before = made.files
        answer = made.run(command)
        assert set(made.files) == {"train.py", "pkg/model.py"} and answer.text.encode()
        changed = {name for name, body in made.files.items() if body != before[name]}
        assert not (answer.is_error and changed)
        aimed = command.get("path") if isinstance(command, dict) else None
        assert changed <= ({str(aimed).removeprefix("./").removeprefix("/")} if isinstance(aimed, str) else set())


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abc \t\n漢" + string.punctuation, min_size=1, max_size=40), st.data(), st.text(alphabet="xy\n\\", max_size=8))
def test_a_unique_fragment_is_replaced_as_python_does(text: str, data: st.DataObject, new: str) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    old = text[begin : data.draw(st.integers(begin + 1, len(text)))]
    unique = text.find(old) == text.rfind(old)
    made, answer = act("str_replace", files={"train.py": text}, old_str=old, new_str=new)
    assert answer.is_error == (not unique or old == new)
    assert made.files["train.py"] == (text.replace(old, new) if unique else text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab\n", min_size=1, max_size=30).map(lambda text: f"{text}\n"), st.text(alphabet="ab\n", max_size=5), TEXT.map(lambda text: text.replace("\r", "").replace("\ud800", "")), st.integers(0, 9))  # fmt: skip
def test_line_ends_make_no_difference_to_an_edit(text: str, old: str, new: str, line: int) -> None:
    def edited(body: str) -> str:
        made = Editor({"train.py": body})
        made.run({"command": "str_replace", "path": "train.py", "old_str": old, "new_str": new})
        if "\n" in made.files["train.py"]:
            made.run({"command": "insert", "path": "train.py", "insert_line": line, "insert_text": new})
        return made.files["train.py"]

    assert edited(text.replace("\n", "\r\n")) == edited(text).replace("\n", "\r\n")
