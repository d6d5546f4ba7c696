"""What a rank does that others notice waits for its turn; what stays inside the rank does not."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from fake_run import FakeRun
from stand_in_agent import CALLS_TO_EVERYONE_AT

from sim_server.records import RecordKind, WaitFlags, WaitKind

PRELUDE = """
import fcntl, os, select, socket, subprocess, sys, tempfile, threading
directory = tempfile.mkdtemp()
path = os.path.join(directory, "file")
open(path, "w").close()
"""

INSIDE = {
    "a file": "with open(path, 'w') as file: file.write('x')",
    "a pipe": "r, w = os.pipe(); os.write(w, b'x'); os.read(r, 1); os.close(w); os.close(r)",
    "a pair of sockets": "a, b = socket.socketpair(); a.send(b'x'); b.recv(1); a.close()",
    "an event": "os.eventfd_write(os.eventfd(0), 1)",
    "a child's output": "subprocess.run(['cat'], input=b'x', stdout=subprocess.PIPE)",
    "a datagram to nobody": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close()",
    "a socket that is not connected": "socket.socket().close()",
    "a local connection to a child": """
r, w = os.pipe()
if os.fork() == 0:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".sock")
    server.listen()
    os.write(w, b"x")
    server.accept()[0].recv(1)
    os._exit(0)
os.read(r, 1)
client = socket.socket(socket.AF_UNIX)
client.connect(path + ".sock")
client.send(b"x")
""",
    "a look at a lock": "with open(path) as file: fcntl.fcntl(file, fcntl.F_GETFD)",
}

SERVER = """
server = socket.socket()
server.bind(("127.0.0.1", 0))
"""
CONNECTED = (
    SERVER
    + """
server.listen()
client = socket.create_connection(server.getsockname())
other, _ = server.accept()
"""
)
# A process of another session stands for another rank.
FOREIGN = """
script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
script += "print(flush=True); s.accept()[0].recv(1); sys.stdin.read()"
foreign = subprocess.Popen([sys.executable, "-c", script, path + ".sock"], start_new_session=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
foreign.stdout.readline()
client = socket.socket(socket.AF_UNIX)
client.connect(path + ".sock")
"""
FIFO = "os.mkfifo(path + '.fifo')\n"

# What is done first, what is done then, and how often that waits for its turn.
OUTSIDE = {
    "listen": (SERVER, "server.listen()", 1),
    "connect": (
        SERVER + "server.listen()",
        "client = socket.create_connection(server.getsockname())",
        1,
    ),
    "send": (CONNECTED, "client.send(b'x')", 1),
    "sendall": (CONNECTED, "client.sendall(b'x')", 1),
    "sendmsg": (CONNECTED, "client.sendmsg([b'x', b'y'])", 1),
    "write": (CONNECTED, "os.write(client.fileno(), b'x')", 1),
    "writev": (CONNECTED, "os.writev(client.fileno(), [b'x'])", 1),
    "recv": (CONNECTED + "client.send(b'x')", "other.recv(1)", 0),
    "shutdown": (CONNECTED, "client.shutdown(socket.SHUT_WR)", 1),
    "close": (CONNECTED, "client.close()", 1),
    "a local connection to another session": (
        FOREIGN,
        "again = socket.socket(socket.AF_UNIX); again.connect(path + '.sock')",
        1,
    ),
    "a send to another session": (FOREIGN, "client.send(b'x')", 1),
    "opening a named pipe": (FIFO, "os.open(path + '.fifo', os.O_RDWR)", 1),
    "a write to a named pipe": (
        FIFO + "pipe = os.open(path + '.fifo', os.O_RDWR)",
        "os.write(pipe, b'x')",
        1,
    ),
    "flock": ("file = open(path)", "fcntl.flock(file, fcntl.LOCK_EX)", 1),
    "freeing a lock": (
        "file = open(path); fcntl.flock(file, fcntl.LOCK_EX)",
        "fcntl.flock(file, fcntl.LOCK_UN)",
        1,
    ),
    "closing a locked file": (
        "file = open(path); fcntl.flock(file, fcntl.LOCK_EX)",
        "file.close()",
        1,
    ),
    "fcntl": ("file = open(path, 'w')", "fcntl.lockf(file, fcntl.LOCK_EX)", 1),
    "a child's act": (
        CONNECTED,
        "pid = os.fork()\nif pid == 0:\n    client.send(b'x'); os._exit(0)\nos.waitpid(pid, 0)",
        0,
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    return FakeRun(tmp_path)


def turns(run: FakeRun) -> list[int]:
    """Flags of the waits for a turn."""
    waits = [record for record in run.records() if record.kind == RecordKind.WAIT]
    return [record.flags for record in waits if record.id == WaitKind.OUTSIDE]


@pytest.mark.parametrize("code", INSIDE.values(), ids=INSIDE)
def test_what_stays_inside_a_rank_does_not_wait(run: FakeRun, code: str) -> None:
    """Plain files, and whatever connects the rank with itself and its children."""
    run.python(PRELUDE + code)
    assert turns(run) == []


@pytest.mark.parametrize(("before", "act", "count"), OUTSIDE.values(), ids=OUTSIDE)
def test_acts_outside_wait_for_their_turn(run: FakeRun, before: str, act: str, count: int) -> None:
    """Once each, and a rank's own threads and children aside."""
    code = PRELUDE + before + "\nprint(host_clock_ns(), flush=True)\n" + act
    code += "\nprint(host_clock_ns(), flush=True)\nos._exit(0)"
    first_ns, last_ns = map(int, run.python(code).split())
    run.python(PRELUDE + before + "\nos._exit(0)")
    without = len(turns(run))
    run.python(code)
    assert len(turns(run)) - without == count
    # It costs the rank a little, so that it leaves the time at which it acted.
    assert last_ns - first_ns == 1000 * count


# What PyTorch's own loops do, in a library of such a name.
LOOP = """
#include <sys/socket.h>
#include <unistd.h>
void loop(int client, int other, int turns) {
  char byte;
  for (int i = 0; i < turns; ++i) {
    usleep(1000);
    send(client, "a", 1, 0);
    recv(other, &byte, 1, 0);
    send(client, "b", 1, 0);
    recv(other, &byte, 1, 0);
  }
}
"""


@pytest.mark.parametrize("count", [1, 2, 30])
def test_turns_of_a_framework_s_loop_are_no_acts(run: FakeRun, tmp_path: Path, count: int) -> None:
    """What it asks its own rank's store again and again counts once, however many turns it takes.

    What it sends afterwards is an act again.
    """
    library = tmp_path / "libtorch_of_the_test.so"
    source = tmp_path / "loop.c"
    source.write_text(LOOP)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    code = PRELUDE + CONNECTED
    run.python(code + "os._exit(0)")
    without = len(turns(run))
    call = f"ctypes.CDLL({str(library)!r}).loop(client.fileno(), other.fileno(), {count})\n"
    code += "first_ns = host_clock_ns()\n" + call
    code += "client.send(b'c')\nprint(host_clock_ns() - first_ns, flush=True)\nos._exit(0)"
    assert run.python(code) == "3000"
    assert len(turns(run)) - without == 3


def test_a_message_to_oneself_is_a_call_to_oneself(run: FakeRun) -> None:
    """Until it is sent nobody may be found asleep, for a helper may pass on what it says."""
    code = PRELUDE + CONNECTED + "print(calls_to_itself(), flush=True)\nclient.send(b'x')\n"
    answer = "other.recv(1)\nother.send(b'y')\n"
    code += "print(calls_to_itself(), flush=True)\n" + in_thread(answer)
    before, sent, answered = map(int, run.python(code + "print(calls_to_itself())").split())
    assert (sent - before, answered - sent) == (1, 0)


LOOKUPS = {
    "a name": "socket.getaddrinfo('localhost', 80)",
    "an address": "socket.getnameinfo(('127.0.0.1', 80), 0)",
    "a host by its name": "socket.gethostbyname_ex('localhost')",
    "a host by its address": "socket.gethostbyaddr('127.0.0.1')",
    "the name of nobody": "ctypes.CDLL(None).gethostbyname(b'nobody.invalid')",
}


@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
def test_a_lookup_of_a_name_is_told(run: FakeRun, lookup: str) -> None:
    """While it is under way, for a name server is to answer; it is no act and takes no time."""
    code = PRELUDE + "first_ns, seen = host_clock_ns(), {looking_up()}\n"
    code += "deadline_s = real_s() + 20\n"
    code += "while 1 not in seen and real_s() < deadline_s:\n"
    code += f"    thread = threading.Thread(target=lambda: {lookup})\n    thread.start()\n"
    code += "    while thread.is_alive(): seen.add(looking_up())\n"
    code += "print(sorted(seen), looking_up(), host_clock_ns() - first_ns)"
    assert run.python(code) == "[0, 1] 0 0"
    assert turns(run) == []


def in_thread(code: str) -> str:
    """Runs code in a helper thread."""
    body = "".join(f"    {line}\n" for line in code.splitlines())
    start = "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    return f"def work():\n{body}{start}"


def test_a_helper_s_own_act_waits_and_its_answer_does_not(run: FakeRun) -> None:
    """An answer belongs to the time of the message, an act of its own to that of the rank."""
    reply = "select.select([other], [], [])\nother.recv(1)\nother.send(b'y')"
    run.python(PRELUDE + CONNECTED + "client.send(b'x')\n" + in_thread(reply) + "os._exit(0)")
    answered = turns(run)
    assert answered == [0] * len(answered)
    again = reply + "\nselect.select([other], [], [], 0)\nother.send(b'z')"
    run.python(PRELUDE + CONNECTED + "client.send(b'x')\n" + in_thread(again) + "os._exit(0)")
    assert turns(run) == [*answered, WaitFlags.BACKGROUND]


def calls_to_everyone(run: FakeRun) -> int:
    """How many calls of rank 0 to everyone have ended (csrc/protocol/switchboard.h)."""
    board = (run.directory / "switchboard").read_bytes()
    return int(struct.unpack_from("<II", board, CALLS_TO_EVERYONE_AT)[1])


def test_a_rank_s_end_is_an_act(run: FakeRun) -> None:
    """Its connections end with it. A failure ends the run and need not wait."""
    run.python("shim.ph_exit(ctypes.c_int64(0))")
    assert len(turns(run)) == 1
    assert calls_to_everyone(run) == 1
    run.python("shim.ph_exit(ctypes.c_int64(1))")
    assert turns(run) == []
