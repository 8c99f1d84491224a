"""A capture that is killed while it runs, and resumed. Fails where it always ends before that.

usage: cut_capture.py PROGRAM DUMP FLAGS... (of `rlreplay capture`)"""
import pathlib
import re
import shutil
import subprocess
import sys

TRIES = 50


def units(dump):
    """What is stored."""
    journal = dump / "journal/0.jsonl"
    return re.findall('"path":"([^"]*)"', journal.read_text()) if journal.exists() else []


def cut(program, dump, flags):
    """Whether the capture was killed before its end, with units that are stored."""
    process = subprocess.Popen([program, "capture", *flags, "-o", dump], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while process.poll() is None and not units(dump):
        pass
    process.kill()
    return process.wait() < 0


def main():
    program, dump, *flags = sys.argv[1:]
    for _ in range(TRIES):
        if cut(program, pathlib.Path(dump), flags):
            break
        shutil.rmtree(dump, ignore_errors=True)
    else:
        sys.exit("the capture was never cut")
    print("cut behind " + units(pathlib.Path(dump))[-1])
    subprocess.run([program, "capture", "--resume", "-o", dump], check=True)


main()
