"""The commands `rlreplay` and `rlbisect`: the programs that lie in this package."""
import os
import pathlib
import sys


def _run(name):
    program = str(pathlib.Path(__file__).with_name("bin") / name)
    os.execv(program, [program, *sys.argv[1:]])


def rlreplay():
    _run("rlreplay")


def rlbisect():
    _run("rlbisect")
