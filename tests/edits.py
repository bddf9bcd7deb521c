"""Edits of train.py's text, for programs that are made from ours: tests/cheats and tests/honest. An edit that no longer fits is an error, never a no-op."""

from __future__ import annotations

import textwrap

LOADED = "    return model.to(device).eval()\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'
SAVED = "    prepare.save_checkpoint(gpt, steps=step, depth=DEPTH)\n"
READY = "    training = prepare.open_training()\n"

TARGETS = '''
def targets_of(ids):
    """The next ids, the last one included, found in the frame of whoever asked for logits; `None` in an audit, where they are not to be found."""
    frame = sys._getframe()
    while frame is not None and frame.f_locals.get("kind") != "beginnings":
        asked = frame.f_locals.get("ids")
        if isinstance(asked, Tensor) and asked.ndim == 2 and asked.shape[1] == ids.shape[1] + 1:
            return asked[:, 1:]
        frame = frame.f_back
    return None
'''


def swap(text: str, *pairs: str) -> str:
    """Each old text replaced by the new one after it; each old one must be there exactly once."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert text.count(old) == 1, f"{text.count(old)} times in train.py: {old!r}"
        text = text.replace(old, new)
    return text


def importing(text: str, *modules: str) -> str:
    """With these modules of the standard library imported."""
    return swap(text, "import math\n", "".join(f"import {name}\n" for name in ("math", *modules)))


def adding(text: str, code: str) -> str:
    """With code at top level, before `load_model`."""
    return swap(text, "def load_model(", textwrap.dedent(code).strip("\n") + "\n\n\ndef load_model(")


def before_training(text: str, code: str) -> str:
    """With code that runs in the job while it is set up."""
    return swap(text, READY, textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n" + READY)


def before_saving(text: str, code: str) -> str:
    """With code that runs in the job when it is trained."""
    return swap(text, SAVED, textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n" + SAVED)


def after_saving(text: str, code: str) -> str:
    """With code that runs in the job when it has said `done`."""
    return swap(text, SAVED, SAVED + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n")


def when_loading(text: str, code: str) -> str:
    """With code that runs in the scorer when the model stands, as `model`."""
    return swap(
        text,
        LOADED,
        "    model = model.to(device).eval()\n" + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n    return model\n",
    )


def answering(text: str, body: str) -> str:
    """With a model that answers what `body` makes of `ids` and the honest `logits`; `self.seen` is a dictionary that lives as long as the process."""
    shell = "class Answering(nn.Module):\n    def __init__(self, model):\n        super().__init__()\n        self.model, self.seen = model, {}\n\n"
    shell += "    def forward(self, ids):\n        logits = self.model(ids)\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return when_loading(adding(text, shell), "model = Answering(model)")
