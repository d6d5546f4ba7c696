"""PyTorch's GPU executor on a simulated GPU: speaks as sim_server/processes/executor.py says, on
its own input and output, which a rank of `phantora run` does not have.

With two arguments it is that rank, and they are pipes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from phantora_py.launch.module import module_command


def _outside() -> int:
    with tempfile.TemporaryDirectory() as folder:
        questions, answers = Path(folder) / "questions", Path(folder) / "answers"
        os.mkfifo(questions)
        os.mkfifo(answers)
        words = [*module_command("phantora_py"), "run", "--quiet", "--ranks", "1"]
        words += ["--isolation", "process"]  # The files of the run that asks are to be seen.
        # cuDNN's recurrent networks keep a host for longer than the device.
        words += ["--host-time", "off"]
        inside = [sys.executable, __file__, str(questions), str(answers)]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PHANTORA_RUN")
        }
        run = subprocess.Popen(
            [*words, "-o", str(Path(folder) / "run.phr"), "--", *inside],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env=environment,
        )
        threading.Thread(target=_ask, args=(questions,), daemon=True).start()
        with answers.open() as lines:
            for line in lines:
                print(line, end="", flush=True)
        return run.wait()


def _ask(questions: Path) -> None:
    with questions.open("w") as pipe:
        for line in sys.stdin:
            pipe.write(line)
            pipe.flush()


def _inside(questions: str, answers: str) -> int:
    from phantora_py.profile.torch_executor import main  # noqa: PLC0415 - as a program would

    sys.stdin = open(questions)  # noqa: SIM115 - for as long as the process lives
    output = os.open(answers, os.O_WRONLY)
    os.dup2(output, 1)
    os.close(output)
    return main()


if __name__ == "__main__":
    sys.exit(_inside(*sys.argv[1:]) if len(sys.argv) > 1 else _outside())
