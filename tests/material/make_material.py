#!/usr/bin/env python3
"""Makes the checkpoints and dumps that tests of files read, in the layout of a folder that
RLREPLAY_REFERENCE names. Needs only Python's standard library; same bytes every time.

usage: make_material.py FOLDER      what stands there is replaced
"""
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "foreign"))
import hostile  # noqa: E402
import models  # noqa: E402
import runs  # noqa: E402
import tricky  # noqa: E402


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    models.write(folder / "models")
    runs.write(folder / "dumps")
    tricky.write(folder / "dumps" / "tricky")
    hostile.write(folder / "dumps" / "hostile")


if __name__ == "__main__":
    main()
