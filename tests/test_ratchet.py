"""The git part, on real repositories in every state a user may have left them in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.artifacts import durable
from harness.errors import BranchMoved, RepositoryUnfit, StorageFault, StudyExists, UserFault
from harness.graph.ratchet import Ratchet
from harness.trial import Status
from tests.projects import Seen, edits_file, folder_of, git, keeping_the_table, make_project, run_study, set_rules, study_of, with_constants

FIXED = ("train.py", "prepare.py")
ONE = "[keep]\nbaseline_readings = 1\n[stop]\ntrials = 1"


@pytest.fixture
def lean(make_project: Callable[..., Path]) -> Path:
    """A project whose study is one baseline reading and one trial."""
    return make_project(rules=ONE)


def opened(project: Path, tag: str = "t") -> Ratchet:
    """A ratchet with its branch open at HEAD."""
    folder = project / "runs" / tag
    folder.mkdir(parents=True, exist_ok=True)
    found = Ratchet(project, tag, folder / "index")
    found.open_branch(found.baseline(FIXED))
    return found


def users_state(project: Path) -> dict[str, object]:
    """All that is the user's: files, index, HEAD, other refs, configuration."""
    top = Path(git(project, "rev-parse", "--show-toplevel"))
    dot_git = Path(git(project, "rev-parse", "--absolute-git-dir"))
    foreign = ("runs", ".git", "results.tsv", "progress.png", "__pycache__")
    files = [p for p in top.rglob("*") if p.is_file() and not set(p.relative_to(top).parts) & set(foreign)]
    refs = [line for line in git(project, "for-each-ref").splitlines() if "autoresearch/" not in line]
    kept = ("index", "HEAD", "config", "index.lock")
    private = {n: (dot_git / n).read_bytes() for n in kept if (dot_git / n).exists()}
    return {"files": {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}, "refs": refs, **private}


def refused(project: Path, program: Path | None = None, commit: bool = False) -> str:
    """A study is refused with one sentence and exit code 2, and nothing of it is there; returns the sentence."""
    with pytest.raises(UserFault) as caught:
        run_study(project, program=program or project / "program.md", commit=commit)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert not (project / "runs").exists()
    return str(caught.value)


def one_trial(project: Path, edits: Path) -> None:
    """A study of one kept trial, with the user's state compared before and after."""
    before = users_state(project)
    run_study(project, edits)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]
    assert users_state(project) == before
    assert git(project, "rev-parse", "autoresearch/t") == study_of(project).rows[1].commit


# Each state of a repository works with the user's state untouched, or is refused in one sentence before anything is written.


def test_a_folder_without_a_repository_is_refused(lean: Path) -> None:
    shutil.rmtree(lean / ".git")
    assert "git init" in refused(lean)


def test_an_unborn_branch_is_refused_and_commit_makes_the_first_one(lean: Path, tmp_path: Path) -> None:
    shutil.rmtree(lean / ".git")
    git(lean, "init", "-q", "-b", "main")
    assert "no commit yet" in refused(lean)
    run_study(lean, edits_file(tmp_path, [{"VALUE": 1.1}]), commit=True)
    assert git(lean, "log", "--format=%s", "main") == "chore: baseline of study t"
    assert sorted(git(lean, "ls-tree", "--name-only", "main").split()) == sorted(FIXED)


def test_a_bare_repository_is_refused(lean: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(lean), "bare.git")
    bare = tmp_path / "bare.git"
    assert "bare" in refused(bare, program=lean / "program.md")


@pytest.mark.parametrize("edited", ["train.py", "prepare.py"])
def test_a_modified_file_is_refused_and_commit_offered(lean: Path, edited: str) -> None:
    with (lean / edited).open("a") as file:
        file.write("# mine\n")
    before = users_state(lean)
    said = refused(lean)
    assert edited in said
    assert "--commit" in said
    assert users_state(lean) == before


def test_a_staged_edit_and_a_missing_file_are_refused(lean: Path) -> None:
    (lean / "train.py").write_text(with_constants((lean / "train.py").read_text(), DEPTH=3))
    git(lean, "add", "train.py")
    with pytest.raises(RepositoryUnfit, match="uncommitted"):
        opened(lean)
    (lean / "train.py").unlink()
    with pytest.raises(RepositoryUnfit, match="or not there"):
        opened(lean)
    with pytest.raises(RepositoryUnfit, match="no file"):
        Ratchet(lean, "t", lean / "index").commit_working_files(FIXED, "message")


def test_a_touched_file_is_not_a_modified_one_and_the_index_is_not_refreshed(lean: Path, tmp_path: Path) -> None:
    os.utime(lean / "train.py", (1, 1))
    index = (lean / ".git" / "index").read_bytes()
    run_study(lean, edits_file(tmp_path, [{"VALUE": 1.2}]))
    assert (lean / ".git" / "index").read_bytes() == index


def test_an_untracked_file_is_refused_and_commit_takes_it(lean: Path, tmp_path: Path) -> None:
    git(lean, "rm", "-q", "--cached", "train.py")
    git(lean, "commit", "-qm", "without")
    assert "not committed" in refused(lean)
    run_study(lean, edits_file(tmp_path, [{"VALUE": 1.1}]), commit=True)
    assert "train.py" in git(lean, "ls-tree", "--name-only", "HEAD").split()


def test_commit_leaves_the_users_other_work_uncommitted(lean: Path, tmp_path: Path) -> None:
    (lean / "train.py").write_text(with_constants((lean / "train.py").read_text(), DEPTH=3))
    set_rules(lean, "[keep]\ncomplexity_per_line = 0.0")
    (lean / "notes.txt").write_text("mine\n")
    (lean / "staged.txt").write_text("mine too\n")
    git(lean, "add", "staged.txt")
    run_study(lean, edits_file(tmp_path, [{"VALUE": 1.1}]), commit=True)
    assert git(lean, "show", "--name-only", "--format=", "HEAD") == "train.py"
    assert git(lean, "status", "--porcelain").splitlines() == ["M program.md", "A  staged.txt", "?? notes.txt"]
    head = git(lean, "rev-parse", "HEAD")
    Ratchet(lean, "u", lean / "index").commit_working_files(FIXED, "nothing to do")
    assert git(lean, "rev-parse", "HEAD") == head


def test_commit_of_an_ignored_file_is_refused_in_gits_words(lean: Path) -> None:
    git(lean, "rm", "-q", "--cached", "train.py")
    git(lean, "commit", "-qm", "without")
    with (lean / ".gitignore").open("a") as file:
        file.write("train.py\n")
    assert "ignored" in refused(lean, commit=True)


def test_commit_with_an_index_lock_is_refused_and_the_lock_stays(lean: Path) -> None:
    with (lean / "train.py").open("a") as file:
        file.write("# mine\n")
    (lean / ".git" / "index.lock").write_text("")
    before = users_state(lean)
    assert "index.lock" in refused(lean, commit=True)
    assert users_state(lean) == before


def test_a_symbolic_link_is_refused(lean: Path) -> None:
    (lean / "train.py").rename(lean / "real.py")
    (lean / "train.py").symlink_to("real.py")
    assert "symbolic link" in refused(lean)
    assert "symbolic link" in refused(lean, commit=True)
    git(lean, "add", "-A")
    git(lean, "commit", "-qm", "link")
    assert "symbolic link" in refused(lean)


def test_a_branch_that_exists_is_refused_wherever_it_is(lean: Path) -> None:
    git(lean, "branch", "autoresearch/t")
    assert "git branch -D autoresearch/t" in refused(lean)
    git(lean, "checkout", "-q", "autoresearch/t")
    assert "checked out" in refused(lean)
    git(lean, "checkout", "-q", "main")
    git(lean, "worktree", "add", "-q", "../other", "autoresearch/t")
    assert "checked out" in refused(lean)


@pytest.mark.parametrize("name", ["autoresearch", "autoresearch/t/mine"])
def test_a_branch_whose_name_is_in_the_way_is_refused(lean: Path, name: str) -> None:
    git(lean, "branch", name)
    assert f"git branch -m {name}" in refused(lean)


def test_trial_refs_of_an_earlier_study_are_never_written_over(lean: Path) -> None:
    git(lean, "update-ref", "refs/autoresearch/t/trials/000003", "HEAD")
    assert "trials of this tag" in refused(lean)


def test_dubious_ownership_is_refused_with_the_fix(lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to give the repository to another user")
    for path in (lean, lean / ".git"):
        os.chown(path, 12345, 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert "safe.directory" in refused(lean)
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {lean}\n")
    assert opened(lean).branch == "autoresearch/t"


def test_hooks_signing_line_endings_and_identity_of_the_user_have_no_effect(
    lean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-checkout"):
        hook = lean / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        hook.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = /bin/false\n[core]\n\tautocrlf = true\n\tfsmonitor = /bin/false\n[diff]\n\texternal = /bin/false\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (lean / "train.py").unlink()
    subprocess.run(["git", "-c", "core.hooksPath=/dev/null", "checkout", "-q", "train.py"], cwd=lean, check=True)
    assert b"\r\n" in (lean / "train.py").read_bytes(), "the user's checkout has CR LF, the commit has LF"
    one_trial(lean, edits_file(tmp_path, [{"VALUE": 1.1}]))
    commit = git(lean, "cat-file", "commit", "autoresearch/t")
    assert "gpgsig" not in commit
    assert "Ratchet" in commit
    blob = subprocess.run(["git", "cat-file", "blob", "autoresearch/t:train.py"], cwd=lean, capture_output=True, check=True).stdout
    assert b"\r" not in blob
    Ratchet(lean, "u", lean / "index").commit_working_files(FIXED, "line endings alone are no edit")
    assert git(lean, "log", "--format=%s", "main") == "base"
    assert not (tmp_path / "hook-ran").exists()


def test_git_variables_of_the_environment_have_no_effect(
    lean: Path, make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_project()
    before = users_state(other)
    with monkeypatch.context() as patch:
        for name, value in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other), ("GIT_INDEX_FILE", other / ".git" / "index")):
            patch.setenv(name, str(value))
        patch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
        run_study(lean, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert users_state(other) == before
    assert git(lean, "rev-parse", "autoresearch/t") == study_of(lean).rows[1].commit
    assert "autoresearch" not in git(other, "for-each-ref")


def test_a_detached_head_with_an_index_lock_and_a_shallow_clone_works(lean: Path, tmp_path: Path) -> None:
    git(lean, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{lean}", "clone")
    clone = tmp_path / "clone"
    (clone / "data.bin").write_bytes(b"words")
    git(clone, "checkout", "-q", "--detach")
    (clone / ".git" / "index.lock").write_text("")
    one_trial(clone, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert (clone / ".git" / "index.lock").exists()


def test_a_linked_work_tree_works_and_its_stale_locks_are_found(lean: Path, tmp_path: Path) -> None:
    git(lean, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    (linked / "data.bin").write_bytes(b"words")
    one_trial(linked, edits_file(tmp_path, [{"VALUE": 1.1}]))
    lock = lean / ".git" / "refs" / "heads" / "autoresearch" / "t.lock"
    lock.write_text("")
    assert Ratchet(linked, "t", folder_of(linked).index).clear_stale_locks() == [lock]


def test_a_project_below_the_top_of_a_larger_repository_works(tmp_path: Path) -> None:
    project = make_project(tmp_path / "large" / "deep" / "project", rules=ONE)
    shutil.rmtree(project / ".git")
    (tmp_path / "large" / "train.py").write_text("# another one\n")
    git(tmp_path / "large", "init", "-q", "-b", "main")
    git(tmp_path / "large", "add", "-A")
    git(tmp_path / "large", "commit", "-qm", "base")
    (tmp_path / "large" / "train.py").write_text("# edited, and none of our business\n")
    one_trial(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert git(project, "diff", "--name-only", "main", "autoresearch/t") == "deep/project/train.py"


def test_a_table_that_is_tracked_by_mistake_survives_every_reset(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1")
    (project / "results.tsv").write_text("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n")
    git(project, "add", "-f", "results.tsv")
    git(project, "commit", "-qm", "tracked by mistake")
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}, {"MODE": "crash"}, {"VALUE": 1.4}])
    run_study(project, edits, seen=keeping_the_table(project))
    rows = [line.split("\t")[3] for line in (project / "results.tsv").read_text().splitlines()[1:]]
    assert rows == ["keep", "keep", "discard", "crash", "discard"]
    assert git(project, "diff", "--name-only", "main", "autoresearch/t") == "train.py"


def test_a_proposal_that_reaches_beyond_its_file_or_changes_nothing_is_refused_untrained(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1")
    (project / "results.tsv").write_text("")
    train = (project / "train.py").read_text()
    better = with_constants(train, VALUE=1.0)
    beyond: list[dict[str, str | None]] = [
        {"train.py": better, "prepare.py": "VALUE = 0\n"},
        {"train.py": better, "prepare/__init__.py": ""},
        {"sitecustomize.py": "import train\n"},
        {"torch/__init__.py": ""},
        {"train.py": better, "results.tsv": None},
        {".git/HEAD": "ref: refs/heads/mine\n"},
        {"../escaped.py": ""},
        {"train.py": None},
    ]
    idle = [train, train + "\n\n# a comment\n", train.replace("VALUE = 1.2\n", "VALUE  =  1.20\n")]
    entries = [{"title": f"proposal {n}", "files": files} for n, files in enumerate([*beyond, *({"train.py": text} for text in idle)])]
    edits = tmp_path / "edits.json"
    edits.write_text(json.dumps(entries))
    before = users_state(project)
    seen = Seen()
    run_study(project, edits, seen=seen)
    study = study_of(project)
    assert (study.row_count, study.refused) == (1, len(entries))
    assert seen.kinds().count("launched") == 1, "the baseline's"
    assert [one.reason for one in study.refusals][-3:] == ["no_change"] * 3
    assert users_state(project) == before
    assert not (tmp_path / "escaped.py").exists()
    assert git(project, "rev-parse", "autoresearch/t") == git(project, "rev-parse", "HEAD")


def test_the_stored_diff_is_one_that_git_applies(lean: Path, tmp_path: Path) -> None:
    train = lean / "train.py"
    train.write_text(train.read_text().replace("VALUE = 1.2\n", "# page \x0c break \u2028 and more\nVALUE = 1.2\n").rstrip("\n"))
    git(lean, "commit", "-qam", "characters that only Python takes for line ends, and no last one")
    run_study(lean, edits_file(tmp_path, [{"VALUE": 1.1}]))
    git(lean, "apply", str(folder_of(lean).trial(study_of(lean).rows[1].folder).diff))
    assert git(lean, "diff", "autoresearch/t", "--", "train.py") == ""


# The ratchet's own moves.


def text(project: Path, **constants: object) -> dict[str, str]:
    """The stub's train.py with constants set, as files in scope."""
    return {"train.py": with_constants((project / "train.py").read_text(), **constants)}


def test_applying_the_same_proposal_again_adopts_its_commit(project: Path) -> None:
    first = opened(project)
    base = first.baseline(FIXED)
    made = first.apply(1, base, text(project, DEPTH=3), "trial 1\n")
    again = Ratchet(project, "t", first._index)
    assert again.apply(1, base, text(project, DEPTH=3), "trial 1\n") == made
    other = Ratchet(project, "t", first._index).apply(1, base, text(project, DEPTH=4), "trial 1\n")
    assert other.commit != made.commit
    assert again.resolve(made.ref) == other.commit


def test_a_candidate_holds_only_its_own_change(project: Path) -> None:
    (project / "model.py").write_text("A = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two files")
    found = opened(project)
    base = found.baseline(FIXED)
    first = found.apply(1, base, text(project, DEPTH=3), "trial 1\n")
    second = found.apply(2, base, {"model.py": "A = 2\n"}, "trial 2\n")
    third = found.apply(3, base, text(project, DEPTH=4), "trial 3\n")
    changed = [git(project, "diff", "--name-only", base, c.commit).split() for c in (first, second, third)]
    assert changed == [["train.py"], ["model.py"], ["train.py"]]


def test_a_branch_that_somebody_moved_is_never_forced(project: Path) -> None:
    found = opened(project)
    base = found.baseline(FIXED)
    ours = found.apply(1, base, text(project, DEPTH=3), "trial 1\n").commit
    theirs = git(project, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "theirs")
    git(project, "update-ref", "refs/heads/autoresearch/t", theirs)
    for commit in (ours, base):
        with pytest.raises(BranchMoved) as caught:
            found.keep(commit, base)
        assert base[:12] in str(caught.value)
        assert theirs[:12] in str(caught.value)
        assert found.resolve(found.branch_ref) == theirs
    with pytest.raises(BranchMoved):
        found.revert(base)
    git(project, "update-ref", "-d", "refs/heads/autoresearch/t")
    with pytest.raises(BranchMoved, match="nothing"):
        found.keep(ours, base)
    with pytest.raises(StudyExists):
        git(project, "branch", "autoresearch/t", theirs)
        found.open_branch(base)


class Late(Ratchet):
    """Sees the branch where it was before somebody moved it."""

    stale = ""

    def resolve(self, name: str) -> str | None:
        return self.stale if name == self.branch_ref and self.stale else super().resolve(name)


def test_a_branch_that_moves_at_the_very_last_moment_is_not_forced(project: Path) -> None:
    found = opened(project)
    base = found.baseline(FIXED)
    ours = found.apply(1, base, text(project, DEPTH=3), "trial 1\n").commit
    theirs = git(project, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "theirs")
    late = Late(project, "t", project / "index")
    late.stale = base
    git(project, "update-ref", "refs/heads/autoresearch/t", theirs)
    with pytest.raises(StorageFault, match="update-ref"):
        late.keep(ours, base)
    assert git(project, "rev-parse", "autoresearch/t") == theirs


def test_objects_are_flushed_before_a_ref_names_them_and_the_ref_after(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, seen = opened(project), list[bool]()
    flush = durable.sync_file_system
    ref = "refs/autoresearch/t/trials/000001"

    def watched(folder: Path) -> None:
        seen.append(ref in git(project, "for-each-ref", "--format=%(refname)").split())
        flush(folder)

    monkeypatch.setattr(durable, "sync_file_system", watched)
    found.apply(1, found.baseline(FIXED), text(project, DEPTH=3), "trial 1\n")
    assert seen == [False, True]


def test_a_file_keeps_its_mode(project: Path) -> None:
    (project / "train.py").chmod(0o755)
    git(project, "commit", "-qam", "executable")
    found = opened(project)
    made = found.apply(1, found.baseline(FIXED), text(project, DEPTH=3), "trial 1\n")
    assert git(project, "ls-tree", made.commit, "train.py").startswith("100755")


def test_the_users_own_identity_is_on_the_users_own_commit(project: Path) -> None:
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.invalid")
    (project / "train.py").write_text((project / "train.py").read_text() + "# mine\n")
    opened_for = Ratchet(project, "t", project / "index")
    opened_for.commit_working_files(FIXED, "mine")
    assert git(project, "log", "-1", "--format=%an %ae") == "Ada ada@example.invalid"


def test_keeping_twice_moves_once(project: Path) -> None:
    found = opened(project)
    base = found.baseline(FIXED)
    commit = found.apply(1, base, text(project, DEPTH=3), "trial 1\n").commit
    found.keep(commit, base)
    found.keep(commit, base)
    found.revert(commit)
    assert git(project, "rev-parse", "autoresearch/t") == commit


def test_trials_survive_gc_and_packing_while_the_ratchet_goes_on(project: Path) -> None:
    found = opened(project)
    base = found.baseline(FIXED)
    commits = []
    for trial in range(1, 4):
        commits.append(found.apply(trial, base, text(project, DEPTH=trial + 5), f"trial {trial}\n").commit)
        git(project, "-c", "gc.reflogExpire=now", "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
        git(project, "pack-refs", "--all")
    found.keep(commits[2], base)
    git(project, "pack-refs", "--all")
    found.revert(commits[2])
    assert found.missing(commits) == []
    assert sorted(found.refs().values()) == sorted(commits)
    assert found.clear_stale_locks() == []
    git(project, "fsck", "--strict", "--no-dangling")


def test_lock_files_of_a_killed_git_are_removed_and_nobody_elses(project: Path) -> None:
    found = opened(project)
    found.apply(1, found.baseline(FIXED), text(project, DEPTH=3), "trial 1\n")
    refs = project / ".git" / "refs"
    ours = [
        refs / "autoresearch" / "t" / "trials" / "000002.lock",
        refs / "heads" / "autoresearch" / "t.lock",
        found._index.with_name("index.lock"),
    ]
    foreign = [refs / "heads" / "main.lock", refs / "heads" / "autoresearch" / "u.lock", project / ".git" / "index.lock"]
    for path in (*ours, *foreign):
        path.write_text("")
    assert sorted(found.clear_stale_locks()) == sorted(ours)
    assert all(path.exists() for path in foreign)
    assert found.apply(2, found.baseline(FIXED), text(project, DEPTH=4), "trial 2\n").trial == 2


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keeps=st.lists(st.booleans(), min_size=1, max_size=6))
def test_the_tip_is_the_last_kept_trial_and_every_trial_stays_readable(tmp_path: Path, keeps: list[bool]) -> None:
    project = make_project(tmp_path / f"{len(list(tmp_path.iterdir()))}")
    (project / "notes.txt").write_text("mine\n")
    git(project, "add", "notes.txt")
    before = users_state(project)
    found = opened(project)
    tip = found.baseline(FIXED)
    commits = [tip]
    for trial, keep in enumerate(keeps, 1):
        candidate = found.apply(trial, tip, text(project, DEPTH=10 + trial), f"trial {trial}\n")
        commits.append(candidate.commit)
        if keep:
            found.keep(candidate.commit, tip)
            tip = candidate.commit
        else:
            found.revert(tip)
        assert git(project, "rev-parse", "autoresearch/t") == tip
    assert found.missing(commits) == []
    assert len(found.refs()) == len(keeps)
    assert users_state(project) == before


def test_commit_takes_files_below_sub_folders_each_by_its_own_name(make_project: Callable[..., Path]) -> None:
    project = make_project(rules='[scope]\neditable = ["train.py", "lib/train.py"]')
    (project / "lib").mkdir()
    (project / "lib" / "train.py").write_text("A = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "lib")
    found, files = Ratchet(project, "t", project / "index"), ["train.py", "lib/train.py", "prepare.py"]
    found.commit_working_files(files, "nothing to do")
    assert git(project, "log", "-1", "--format=%s") == "lib"
    (project / "lib" / "train.py").write_text("A = 2\n")
    found.commit_working_files(files, "mine")
    assert git(project, "log", "-1", "--format=%s", "--name-only").split() == ["mine", "lib/train.py"]


def test_what_git_warns_of_does_not_make_a_file_modified(lean: Path) -> None:
    (lean / ".gitattributes").write_text("!train.py text\n")
    git(lean, "add", "-A")
    git(lean, "commit", "-qm", "attributes")
    assert opened(lean).baseline(FIXED) == git(lean, "rev-parse", "HEAD")
