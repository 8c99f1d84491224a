"""Checkpoints and dumps for tests that read files."""
import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAKER = pathlib.Path(__file__).parents[1] / "material/make_material.py"


def made():
    """RLREPLAY_TEST_MATERIAL, which CTest sets to what the build made; else it is made anew."""
    if "RLREPLAY_TEST_MATERIAL" not in os.environ:
        folder = tempfile.mkdtemp(prefix="rlreplay material ")
        atexit.register(shutil.rmtree, folder)
        subprocess.run([sys.executable, MAKER, folder], check=True)
        os.environ["RLREPLAY_TEST_MATERIAL"] = folder
    return os.environ["RLREPLAY_TEST_MATERIAL"]


def folders():
    """Folders with models/ and dumps/ of one layout: the project's own, then RLREPLAY_REFERENCE
    where it names one."""
    reference = os.environ.get("RLREPLAY_REFERENCE")
    return [pathlib.Path(folder) for folder in (made(), reference) if folder]
