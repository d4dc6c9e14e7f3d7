"""Run by the tests inside a confined child: tries every way out that it knows, and prints what came of each.

Usage: attempts.py OUTSIDE SERVER_PID, where OUTSIDE holds a file ``secret`` and a directory ``made``.
"""

import ctypes
import json
import os
import socket
import stat
import sys

outside, server = sys.argv[1], int(sys.argv[2])
secret = f"{outside}/secret"


def read(path):
    with open(path, "rb") as file:
        return file.read(20)


def write(path):
    with open(path, "wb") as file:
        file.write(b"x")


def through_a_link():
    os.symlink(outside, "way-out")
    try:
        read("way-out/secret")
    finally:
        os.unlink("way-out")


def hard_link_in():
    os.link(secret, "linked")
    read("linked")


def hard_link_out():
    write("mine")
    os.link("mine", f"{outside}/mine")


def move_out():
    write("mine2")
    os.rename("mine2", f"{outside}/mine2")


def bind_socket():
    socket.socket(socket.AF_UNIX).bind(f"{outside}/socket")


def ptrace_the_server():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, server, None, None) != 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")


def read_memory_of_the_server():
    with open(f"/proc/{server}/mem", "rb") as file:
        file.read(1)


def mount():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(outside.encode(), b".", None, 4096, None) != 0:  # MS_BIND
        raise OSError(ctypes.get_errno(), "mount")


def new_root():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(0x10000000)  # CLONE_NEWUSER: all capabilities, in a namespace of its own
    os.chroot("/")
    read(secret)


def device():
    os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    read("disk")


ATTEMPTS = {
    "read a file": lambda: read(secret),
    "read the passwords": lambda: read("/etc/shadow"),
    "list a directory": lambda: os.listdir(outside),
    "list the superuser's home": lambda: os.listdir("/root"),
    "list the top": lambda: os.listdir("/"),
    "write over a file": lambda: write(secret),
    "make a file": lambda: write(f"{outside}/new"),
    "make a directory": lambda: os.mkdir(f"{outside}/new-directory"),
    "remove a file": lambda: os.unlink(secret),
    "remove a directory": lambda: os.rmdir(f"{outside}/made"),
    "cut a file": lambda: os.truncate(secret, 0),
    "go in first": lambda: (os.chdir(outside), read("secret"), os.chdir("/")),
    "follow a link": through_a_link,
    "link a file in": hard_link_in,
    "link a file out": hard_link_out,
    "move a file out": move_out,
    "write to the common temporary directory": lambda: write("/tmp/nsb-escaped"),
    "write to the system": lambda: write("/usr/nsb-escaped"),
    "go through the server's root": lambda: read(f"/proc/{server}/root{secret}"),
    "go through the server's directory": lambda: os.listdir(f"/proc/{server}/cwd/"),
    "read the server's environment": lambda: read(f"/proc/{server}/environ"),
    "read the server's memory": read_memory_of_the_server,
    "look through the server's descriptors": lambda: os.stat(f"/proc/{server}/fd/0"),
    "go through the first process's root": lambda: read(f"/proc/1/root{secret}"),
    "bind a socket": bind_socket,
    "stop the server": lambda: os.kill(server, 9),
    "trace the server": ptrace_the_server,
    "mount": mount,
    "become root elsewhere": new_root,
    "make a device": device,
    "set the host's name": lambda: socket.sethostname("escaped"),
}

results = {}
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
        results[name] = "done"
    except Exception as error:
        results[name] = type(error).__name__
print(json.dumps(results))
