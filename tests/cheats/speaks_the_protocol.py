"""own: speaks the scorer's protocol itself.

`load_model` never returns: it says `ready`, and answers every question for losses with a number that is just believed, whatever the row. Naive gain: the lower end of the plausible
band. Stopped by the audit, which asks for logits.
"""

from tests.edits import adding, importing, when_loading

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Over the scorer's own channel, which has read ahead; it sends what a short answer needs and serves on whatever it does not know."""
    code = """
        frame = sys._getframe()
        while frame is not None and "channel" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None:
            take_over(frame.f_locals["channel"])
    """
    server = """
        def take_over(channel):
            channel.send("ready", {})
            while (message := channel.receive("rows", "probe", "audit", "end"))[0] == "rows":
                count, length = message[1]["count"], message[1]["length"]
                channel.read(4 * count * length)
                channel.sock.sendall(torch.full((count * (length - 1),), 1.7).numpy().tobytes())
            os._exit(0)
    """
    return when_loading(adding(importing(text, "os", "sys"), server), code)
