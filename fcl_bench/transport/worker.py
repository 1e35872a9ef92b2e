"""What a process of ``transport=processes`` does: it holds a site, and serves requests until its pipe is closed."""

import pickle
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fcl_bench.decoding import Classes, MessageError, decode
from fcl_bench.errors import ConfigError, UserError
from fcl_bench.message import encode
from fcl_bench.new_processes import end_with_the_parent
from fcl_bench.threads import one_thread
from fcl_bench.transport import Call, Failed
from fcl_bench.transport.wire import over_the_wire


@dataclass(frozen=True)
class Reply:
    """An answer whose reply is encoded."""

    message: bytes
    seconds: float
    stored: int
    notes: dict[str, float]
    failed: Failed | None = None
    memory: bytes | None = None  # of the client, where it has changed and the server keeps a copy


@dataclass(frozen=True)
class Failure:
    """What went wrong, in words: exceptions themselves may not survive the way."""

    kind: str
    text: str

    def error(self) -> Exception:
        """To be raised by the server."""
        kinds = {kind.__name__: kind for kind in (UserError, ConfigError, MessageError)}
        return kinds.get(self.kind, RuntimeError)(self.text)


def serve(pipe: Connection, threads: int) -> None:
    """Answer requests one after the other; the server ends it by closing the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the server decides
    end_with_the_parent()  # a server that was killed cannot close its pipe in the middle of a long call
    torch.set_num_threads(threads)
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    with one_thread():  # for messages; calls with large tensors have all of them
        _serve(Server(pipe), pipe)


def _serve(server: "Server", pipe: Connection) -> None:
    while True:
        try:
            kind, *content = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            getattr(server, kind)(*content)
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            pipe.send(_failure(error))


class Server:
    """One function per kind of request; each sends what was asked for."""

    def __init__(self, pipe: Connection):
        self.pipe = pipe
        self.site: Any = None
        self.classes: Classes = {}

    def open(self, site: bytes, path: list[str]) -> None:
        """Make the site, and tell the classes of its messages; ``path`` is where the server finds modules."""
        sys.path[:] = path
        self.site = pickle.loads(site)()
        self.classes = self.site.classes
        self.pipe.send(self.classes)

    def answer(self, call: Call, message: bytes, clients: list[int]) -> None:
        """Run the call at some clients; they share the message, which nobody may change."""
        whole = replace(call, message=decode(message, self.classes))
        for client in clients:
            before = self._kept_by(client) if call.timeout else {}
            answer = over_the_wire(self.site.answer(whole, client), self.classes)
            memory = self._news_of(client, before) if call.timeout else None
            failed = in_words(answer.failed)
            self.pipe.send(Reply(encode(answer.reply), answer.seconds, answer.stored, answer.notes, failed, memory))

    def _kept_by(self, client: int) -> dict[str, Any]:
        return dict(self.site.memories().get(client, {}))

    def _news_of(self, client: int, before: dict[str, Any]) -> bytes | None:
        """What the client keeps now, if something in its memory is another thing than before the call."""
        now = self._kept_by(client)
        same = before.keys() == now.keys() and all(value is before[name] for name, value in now.items())
        return None if same else encode(now)

    def memories(self) -> None:
        """Hand over what clients keep."""
        self.pipe.send(encode(self.site.memories(), share=True))

    def restore(self, memories: bytes) -> None:
        """Take over what clients kept."""
        self.site.restore(decode(memories, self.classes, share=True))
        self.pipe.send(None)


def in_words(failed: Failed | None) -> Failed | None:
    """The same with an exception that survives the way: it has the traceback as its text."""
    if failed is None or failed.error is None:
        return failed
    return replace(failed, error=RuntimeError("".join(traceback.format_exception(failed.error))))


def _failure(error: Exception) -> Failure:
    if isinstance(error, UserError):
        return Failure(type(error).__name__, str(error))
    return Failure("RuntimeError", "".join(traceback.format_exception(error)))
