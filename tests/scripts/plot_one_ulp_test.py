"""docs/one-ulp.svg is what scripts/plot_one_ulp draws. usage: plot_one_ulp_test.py RLREPLAY"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Picture(unittest.TestCase):
    def test_it_is_drawn_again(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "made.svg"
            result = subprocess.run([ROOT / "scripts/plot_one_ulp", made, "--program", PROGRAM], text=True,
                                    capture_output=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(made.read_text(), (ROOT / "docs/one-ulp.svg").read_text(),
                             "draw it again: scripts/plot_one_ulp")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
