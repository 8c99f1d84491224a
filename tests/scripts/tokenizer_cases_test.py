"""The tokenizers and cases in tests/task/data are, byte for byte, what their script makes."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import tokenizers  # noqa: F401
except ImportError:
    print("skipped: needs the Python package tokenizers (scripts/requirements.txt)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).parents[2]
DATA = ROOT / "tests/task/data"


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json*")}


class Cases(unittest.TestCase):
    def test_the_script_makes_what_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "scripts/make_tokenizer_cases.py", folder], check=True)
            made = files(pathlib.Path(folder))
        kept = files(DATA)
        del kept[pathlib.Path("chat.cases.jsonl")]  # of another script
        self.assertEqual(made.keys(), kept.keys())
        self.assertEqual([str(name) for name in made if made[name] != kept[name]], [])


if __name__ == "__main__":
    unittest.main()
