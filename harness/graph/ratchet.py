"""The git part: it only advances. The one importer of GitPython and the one writer of the user's repository.

Commits are made by plumbing from the parent's tree with the files in scope replaced, through a private index: the user's checkout, index, HEAD
and hooks play no part. A candidate has its own ref before it runs; the branch moves by compare-and-swap only. Nothing is ever pushed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import git

from harness.artifacts import durable
from harness.errors import BranchMoved, RepositoryUnfit, StorageFault, StudyExists
from harness.graph.plumbing import Git, as_user, hidden_git_variables, trusts, users_blob, utf8
from harness.trial import Candidate

ZERO = "0" * 40
CACHED_TEXTS = 16


class Ratchet:
    """One study's branch `autoresearch/<tag>` and trial refs, in the repository that holds the folder `project`."""

    def __init__(self, project: Path, tag: str, index: Path) -> None:
        self.project = project.resolve()
        self.branch = f"autoresearch/{tag}"
        self.trial_refs = f"refs/autoresearch/{tag}/trials"
        self._index = index
        self._index_base: tuple[str, set[str]] | None = None
        self._modes: dict[str, str] = {}
        self._opened: str | None = None
        self._texts: dict[tuple[str, str], str] = {}
        self._refs_at_start: dict[str, str] | None = None
        git_dir, self._common_dir, self._prefix = _locate(self.project)
        self._git = Git(git_dir, index)

    @property
    def branch_ref(self) -> str:
        """The branch as a full ref name."""
        return f"refs/heads/{self.branch}"

    def baseline(self, files: Iterable[str]) -> str:
        """HEAD, when `files` are regular, committed and unmodified there; raises `RepositoryUnfit` saying which is not."""
        head = self.resolve("HEAD")
        if head is None:
            raise RepositoryUnfit(f"{self.project}: the repository has no commit yet; commit your files first")
        for name in files:
            if (self.project / name).is_symlink() or not (self.project / name).is_file():
                raise RepositoryUnfit(f"{self.project / name} is a symbolic link or not there; put the file itself in its place and commit")
            unmodified = self._unmodified(name, head)
            if unmodified is None:
                raise RepositoryUnfit(f"{name} is not committed in HEAD; run `git add {name} && git commit`, or start with --commit")
            if not unmodified:
                raise RepositoryUnfit(f"{name} has uncommitted changes; commit or stash them, or start with --commit")
        return head

    def commit_working_files(self, files: Iterable[str], message: str) -> None:
        """Commit just these files on the user's own HEAD, because the user asked for it."""
        wanted = list(files)
        paths = [self.project / name for name in wanted]
        for path in paths:
            if path.is_symlink() or not path.is_file():
                raise RepositoryUnfit(f"{path} is {'a symbolic link' if path.is_symlink() else 'no file'}; nothing was committed")
        names = [str(path) for path in paths]
        for arguments in (("add", "--", *names), ("commit", "-q", "--only", "-m", message, "--", *names)):
            head = self.resolve("HEAD")
            if arguments[0] == "commit" and head and all(self._unmodified(name, head) for name in wanted):
                return
            done, said = as_user(self.project, *arguments)
            if not done:
                raise RepositoryUnfit(f"git could not commit {', '.join(path.name for path in paths)}: {said}")

    def check_free(self, left_over: bool) -> None:
        """Raise unless the study's branch can be made; with `left_over`, one that a killed start made is no obstacle."""
        if self._git.asked("check-ref-format", self.branch_ref) is None:
            raise RepositoryUnfit(f"git allows no branch named {self.branch}; choose another --tag")
        if f"branch {self.branch_ref}" in self._git.text("worktree", "list", "--porcelain").splitlines():
            raise StudyExists(f"the branch {self.branch} is checked out, and the study would move it; choose another --tag")
        if self.resolve(self.branch_ref) and not left_over:
            raise StudyExists(f"the branch {self.branch} exists; choose another --tag, or delete it with `git branch -D {self.branch}`")
        near = self._git.text("for-each-ref", "--format=%(refname:short)", "refs/heads/autoresearch", f"{self.branch_ref}/").splitlines()
        blocking = [name for name in near if name == "autoresearch" or name.startswith(f"{self.branch}/")]
        if blocking:
            raise RepositoryUnfit(
                f"the branch {blocking[0]} is in the way of {self.branch}; rename it with `git branch -m {blocking[0]} NEW`"
            )
        if self.refs():
            raise StudyExists(f"trials of this tag exist under {self.trial_refs}; choose another --tag")

    def open_branch(self, commit: str) -> None:
        """Create the study's branch at `commit`; raises `StudyExists` when it is elsewhere."""
        tip = self.resolve(self.branch_ref)
        if tip not in (None, commit):
            raise StudyExists(f"the branch {self.branch} exists; choose another --tag, or delete it with `git branch -D {self.branch}`")
        self._git.text("update-ref", self.branch_ref, commit, tip or ZERO)
        self._opened = commit
        durable.sync_file_system(self._git.git_dir)

    def close_branch(self) -> None:
        """Take a branch back that was opened for a study which never began."""
        if self._opened is not None and self.resolve(self.branch_ref) == self._opened:
            self._git.text("update-ref", "-d", self.branch_ref, self._opened)

    def clear_stale_locks(self) -> list[Path]:
        """Remove lock files of our own refs and index, which a killed git left. Call only while holding the study's lock."""
        folders = [self._common_dir / self.trial_refs, (self._common_dir / self.branch_ref).parent]
        stale = [p for p in folders[0].glob("*.lock")] + [p for p in folders[1].glob(f"{Path(self.branch).name}.lock")]
        stale += [p for p in (self._index.with_name(f"{self._index.name}.lock"),) if p.exists()]
        for path in stale:
            path.unlink()
        return stale

    def apply(self, trial: int, parent: str, files: Mapping[str, str], message: str) -> Candidate:
        """Commit `files` on `parent` under the trial's own ref; a commit that is already there with the same content is adopted."""
        ref = f"{self.trial_refs}/{trial:06d}"
        if self._refs_at_start is None:
            self._refs_at_start = self.refs()
        existing = self._refs_at_start.get(ref)
        if existing and all(self.text_at(existing, name) == text for name, text in files.items()):
            return Candidate(trial=trial, commit=existing, tree=self._git.text("rev-parse", f"{existing}^{{tree}}"), parent=parent, ref=ref)
        tree = self._tree(parent, files)
        commit = self._git.text("commit-tree", tree, "-p", parent, data=message.encode())
        durable.crash_point("commit_written")
        durable.sync_file_system(self._git.git_dir)
        self._git.text("update-ref", ref, commit, existing or ZERO)
        durable.sync_file_system(self._git.git_dir)
        durable.crash_point("ref_written")
        for name, text in files.items():
            self._remember(commit, name, text)
        return Candidate(trial=trial, commit=commit, tree=tree, parent=parent, ref=ref)

    def mark(self, trial: int, commit: str) -> str:
        """Give an existing commit (the baseline) a trial ref too."""
        self._git.text("update-ref", ref := f"{self.trial_refs}/{trial:06d}", commit)
        durable.sync_file_system(self._git.git_dir)
        return ref

    def keep(self, commit: str, previous: str) -> None:
        """Move the branch from `previous` to `commit`; done already is fine, anything else raises `BranchMoved`."""
        tip = self.resolve(self.branch_ref)
        if tip == commit:
            return
        if tip != previous:
            raise BranchMoved(
                f"{self.branch} should be at {previous[:12]} but is at {(tip or 'nothing')[:12]}; nothing was forced; "
                f"put it back with `git update-ref {self.branch_ref} {previous}`, then `ratchet resume`"
            )
        self._git.text("update-ref", self.branch_ref, commit, previous)
        durable.sync_file_system(self._git.git_dir)
        durable.crash_point("branch_moved")

    def revert(self, incumbent: str) -> None:
        """A discard moves nothing: check that the branch still is at the incumbent (a loose ref is read without starting git)."""
        try:
            tip = (self._common_dir / self.branch_ref).read_text().strip()
        except OSError:
            tip = ""
        if tip != incumbent:
            self.keep(incumbent, incumbent)

    def text_at(self, commit: str, name: str) -> str:
        """A file of the project at a commit, as UTF-8 text."""
        if (commit, name) not in self._texts:
            raw = self._git.asked("cat-file", "blob", f"{commit}:{self._prefix}{name}")
            if raw is None:
                raise RepositoryUnfit(f"{name} is not in commit {commit[:12]}; is `refs/autoresearch` still there?")
            self._remember(commit, name, utf8(raw, name))
        return self._texts[commit, name]

    def working_texts(self, names: Iterable[str]) -> dict[str, str]:
        """Files of the project as they are in the work tree; raises `RepositoryUnfit` when one is not there as UTF-8 text."""
        try:
            return {name: utf8((self.project / name).read_bytes(), name).replace("\r\n", "\n") for name in names}
        except OSError as error:
            raise RepositoryUnfit(f"{error.filename}: {error.strerror}; put the file in its place") from None

    def _remember(self, commit: str, name: str, text: str) -> None:
        while len(self._texts) >= CACHED_TEXTS:
            del self._texts[next(iter(self._texts))]
        self._texts[commit, name] = text

    def resolve(self, name: str) -> str | None:
        """The commit a name points at, or `None`."""
        found = self._git.asked("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return found.decode().strip() if found else None

    def refs(self) -> dict[str, str]:
        """Trial refs of this study and their commits."""
        lines = self._git.text("for-each-ref", "--format=%(refname) %(objectname)", self.trial_refs).splitlines()
        return dict(line.split() for line in lines)

    def missing(self, commits: Iterable[str]) -> list[str]:
        """Those of `commits` that git cannot read."""
        wanted = sorted(set(commits))
        found = self._git.text("cat-file", "--batch-check", data="".join(f"{name}\n" for name in wanted).encode()).splitlines()
        return [name for name, line in zip(wanted, found, strict=True) if line.split()[1:2] != ["commit"]]

    def _unmodified(self, name: str, head: str) -> bool | None:
        """Whether the file, line endings as the user's git has them, is the committed one; `None` when none is. `git diff` would refresh the user's index."""
        blob = self._git.asked("rev-parse", "--verify", "--quiet", f"{head}:{self._prefix}{name}")
        return None if blob is None else users_blob(self.project, name) == blob.decode().strip()

    def _tree(self, parent: str, files: Mapping[str, str]) -> str:
        """The parent's tree with `files` replaced. The index is read again unless it differs from the wanted one in just these files."""
        if self._index_base != (parent, set(files)):
            self._git.text("read-tree", parent)
            staged = self._git.text("ls-files", "--stage", "-z", "--", *(f"{self._prefix}{name}" for name in files)).split("\0")
            self._modes = {line.split("\t", 1)[1]: line.split()[0] for line in staged if line}
            self._index_base = parent, set(files)
        for name, text in files.items():
            data = text.encode()
            blob = self._git.text("hash-object", "-w", "--stdin", data=data)
            if blob != _blob_name(data, len(blob)):
                raise StorageFault(f"git stored other bytes of {name} than it was given; check the repository with `git fsck`")
            path = f"{self._prefix}{name}"
            self._git.text("update-index", "--add", "--cacheinfo", f"{self._modes.get(path, '100644')},{blob},{path}")
        return self._git.text("write-tree")


def _blob_name(data: bytes, length: int) -> str:
    """git's name for a file's bytes: SHA-1, or SHA-256 in repositories that use it."""
    algorithm = hashlib.sha256 if length == 64 else hashlib.sha1
    return algorithm(b"blob %d\0" % len(data) + data).hexdigest()


def _locate(project: Path) -> tuple[Path, Path, str]:
    """The git folder, the folder of its shared refs (another one in a linked work tree), and the project's path below the top of the work tree (`''` or `'sub/'`)."""
    try:
        with hidden_git_variables(), git.Repo(project, search_parent_directories=True) as repo:
            if repo.working_tree_dir is None:
                raise RepositoryUnfit(f"{project} is a bare repository; clone it and start there")
            prefix = project.relative_to(Path(repo.working_tree_dir).resolve()).as_posix()
            common = Path(repo.common_dir).resolve()
            git_dir = Path(repo.git_dir).resolve()
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise RepositoryUnfit(
            f"{project} is not in a git repository; go to the project or name it with --project, or make it one: `git init && git add -A && git commit`"
        ) from None
    _check_ownership(project)
    return git_dir, common, "" if prefix == "." else f"{prefix}/"


def _check_ownership(project: Path) -> None:
    """Refuse a repository that the user's own git refuses; our commands lift that check for this one folder only."""
    trusted, said = trusts(project)
    if not trusted:
        raise RepositoryUnfit(f"git refuses {project}: {said}; try `git config --global --add safe.directory {project}`")
