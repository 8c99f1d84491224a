"""The files that tests read are the same on every machine and in every run."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MAKER = pathlib.Path(__file__).parent / "make_material.py"
MODELS = "71b81de60d2e29b59ab9cb0446c47392ed59970659131b1b332058fe6fbd38e3"


def digest(folder):
    """Of the names and contents below a folder."""
    whole = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        whole.update(str(path.relative_to(folder)).encode() + b"\0")
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


class Material(unittest.TestCase):
    def test_same_bytes(self):
        found = []
        for seed in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, MAKER, folder], check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed})
                found.append([digest(pathlib.Path(folder) / part) for part in ("models", "dumps")])
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][0], MODELS)


if __name__ == "__main__":
    unittest.main()
