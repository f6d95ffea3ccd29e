"""The inside of a `mempo.call_process.CallProcess`: takes one call after the other and replies."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from mempo.pool_call import perform

# Goes before every message, in both directions: its length in bytes.
LENGTH = struct.Struct("!Q")


def serve(channel: int) -> None:
    """Carries out calls until the caller hangs up.

    To each it sends an empty message when the function begins, and then the reply; the reply alone if that does not happen.

    Args:
        channel: file descriptor of a socket to the caller.
    """
    with socket.socket(fileno=channel) as caller, suppress(EOFError):
        caller.setblocking(True)
        # The caller learns from the closed channel that this process has died: nothing that a call starts may hold it open.
        caller.set_inheritable(False)
        os.register_at_fork(after_in_child=caller.close)
        while True:
            reply = perform(_receive(caller), begin=lambda: _send(caller, b""))
            _send(caller, reply)


def _send(caller: socket.socket, message: bytes) -> None:
    caller.sendall(LENGTH.pack(len(message)))
    caller.sendall(message)


def _receive(caller: socket.socket) -> bytes:
    (size,) = LENGTH.unpack(_exactly(caller, LENGTH.size))
    return bytes(_exactly(caller, size))


def _exactly(caller: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        received = caller.recv_into(rest)
        if not received:
            raise EOFError
        rest = rest[received:]
    return data
