"""Another process of this machine, to which packed calls are handed one at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread

from mempo.call_server import LENGTH

_PROGRAM = (
    "import sys\n"
    "channel, *sys.path[:] = sys.argv[1:]\n"
    "del sys.argv[1:]\n"
    "from mempo.call_server import serve\n"
    "serve(int(channel))\n"
)
# The process itself could not do this: C code that runs for long, a regular expression say, keeps its threads from running.
_GUARD = 'read -r _; kill -s KILL -- "-$1"'  # the input ends when this process does


class CallProcess:
    """A process that runs from here on until `end`, or until this one is gone; what it starts itself ends with it.

    Only a process that moves to a session of its own is not ended with it.

    It is not one of multiprocessing's. Those import the main module of their parent, which may fail or hang; and
    multiprocessing takes note of any that has ended whenever it starts another, after which the number it had may be a
    stranger's. Here a number is killed only as long as nobody else can have it.

    Raises:
        OSError: the machine starts no more processes.
    """

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        try:
            with theirs:
                self._process = Popen(
                    [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is this process' to answer; and a group of its own can be killed
                )
            self._guard = Popen(
                ["/bin/sh", "-c", _GUARD, "sh", str(self._process.pid)],
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._channel.close()  # a process that came up sees that and ends
            raise

    async def ask(self, call: bytes) -> bytes:
        """Hands over a call; empty when its function begins, and `answer` waits for the reply. Otherwise the reply.

        Raises:
            EOFError, ConnectionError: the process has died.
        """
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, LENGTH.pack(len(call)))
        await loop.sock_sendall(self._channel, call)
        return await self.answer()

    async def answer(self) -> bytes:
        """The next message.

        Raises:
            EOFError, ConnectionError: the process has died.
        """
        (size,) = LENGTH.unpack(await self._exactly(LENGTH.size))
        return bytes(await self._exactly(size))

    def kill(self) -> None:
        """Kills the process; a call under way sees that."""
        # PermissionError: so does macOS say that only the dead are left of the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kills the process and lets go of it; no call may be under way."""
        self.kill()
        self._guard.kill()
        self._channel.close()
        # What held much memory takes a while to go, and the event loop does not wait for it.
        Thread(target=self._let_go, daemon=True).start()

    def _let_go(self) -> None:
        with (
            self._guard
        ):  # before the process, whose number must not pass to another while there is a guard to kill it
            self._guard.wait()
        self._process.wait()

    async def _exactly(self, size: int) -> bytearray:
        loop = asyncio.get_running_loop()
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            received = await loop.sock_recv_into(self._channel, rest)
            if not received:
                raise EOFError
            rest = rest[received:]
        return data
