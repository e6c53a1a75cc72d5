"""The program that waits inside a prepared sandbox, confined as any command is, and becomes the command.

It writes one byte when it is ready, takes a request (its text, 0, 1 and 2, as descriptors), and executes that after one
more byte: by then everything is mounted. As little as possible is imported, because it is started beside every command.
What cannot be executed is told as bubblewrap tells it. Where no request comes in time it ends, and all with it.
"""

from __future__ import annotations

import os

from tertulia.sandbox.runner import Command

READY = b"r"

WAIT = """
import posix, sys, _signal, _socket
line = _socket.socket(fileno=int(sys.argv[1]))
line.settimeout(int(sys.argv[2]))
for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(number, _signal.SIG_DFL)
def fail(name, error):
    posix.write(2, b"bwrap: execvp %s: %s\\n" % (name, posix.strerror(error).encode()))
    posix._exit(127 if error == 2 else 126)
def execute(path, argv, environment):
    try:
        posix.execve(path, argv, environment)
    except OSError as error:
        return execute(b"/bin/sh", [b"/bin/sh", path, *argv[1:]], environment) if error.errno == 8 else error.errno
def become(cwd, count, *words):
    count = int(count)
    argv, environment = words[:count], dict(word.split(b"=", 1) for word in words[count:])
    try:
        posix.chdir(cwd)
    except OSError as error:
        posix.write(2, b"bwrap: Can't chdir to %s: %s\\n" % (cwd, error.strerror.encode()))
        posix._exit(1)
    name, worst = argv[0], 2
    places = [b""] if b"/" in name else environment.get(b"PATH", b"/bin:/usr/bin").split(b":")
    for place in places:
        error = execute(place + b"/" + name if place else name, argv, environment)
        worst = 13 if error == 13 else worst
        if error not in (2, 13, 20):
            fail(name, error)
    fail(name, worst)
try:
    line.send(b"r")
    _, passed, _, _ = line.recvmsg(1, _socket.CMSG_SPACE(16))
    numbers = passed[0][2]
    request, *streams = [int.from_bytes(numbers[at:at + 4], sys.byteorder) for at in (0, 4, 8, 12)]
    words = posix.read(request, posix.fstat(request).st_size).split(b"\\0")
    for number, fd in enumerate(streams):
        posix.dup2(fd, number)
    for fd in (request, *streams):
        posix.close(fd)
    if line.recv(1) == b"g":
        line.close()
        become(*words)
finally:
    posix._exit(125)
"""
"""Its arguments: the number of its line to us, and how many seconds it waits."""


def encode_request(command: Command) -> bytes:
    """As the program inside reads it: the directory, how many words the command has, those, and the environment."""
    # As bubblewrap does.
    environment = {**command.environment, "PWD": command.cwd}
    if "TMPDIR" in environment:
        environment["TMPDIR"] = "/tmp"
    variables = (f"{name}={value}" for name, value in environment.items())
    return b"\0".join(map(os.fsencode, (command.cwd, str(len(command.argv)), *command.argv, *variables)))
