"""Which last words of a run with exit code 1 are a crash of Python, and no verdict.

usage: crash_test.py RLBISECT
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RLBISECT = os.path.abspath(sys.argv.pop(1))
PLACE = """Traceback (most recent call last):
  File "train.py", line 3, in step
    loss(batch)
    ~~~~^^^^^^^
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 9, in main
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 4, in rollout
    | ConnectionError: engine not there
    +------------------------------------
"""
OTHERS = "".join(f"rank {rank}: waiting for peers, who do not come\n" for rank in range(400))


def marked(text):
    """As torchrun marks each line of a rank."""
    return "".join(f"[rank0]: {line}\n" for line in text.splitlines())


def coloured(text):
    return text.replace("File ", "File \x1b[35m").replace(", line", "\x1b[0m, line").replace("Error", "\x1b[1;35mError\x1b[0m")


CRASHES = {
    "an exception": PLACE + "ValueError: no such key\n",
    "a message of several lines": PLACE + "OmegaError: key\n    full_key: b\n    object_type=dict\n",
    "a long message": PLACE + "RuntimeError: in loading state_dict:\n\tMissing: " + "model.layers.0.weight, " * 900 + "\n",
    "what other ranks say after it": PLACE + "ValueError: bad\n" + OTHERS,
    "an exception while another was handled": PLACE + "AssertionError: low\n\nDuring handling of the above exception, another "
                                             "exception occurred:\n\n" + PLACE + "KeyError: 'loss'\n",
    "a group of exceptions": GROUP,
    "a group behind an assertion that was handled": PLACE + "AssertionError: low\n" + GROUP,
    "marked by its rank": marked(PLACE + "ValueError: bad\n"),
    "a line that was not ended": "loading 57%" + "\r 99%" + '  File "bad.py", line 1\n    return )\n           ^\nSyntaxError: unmatched\n',
    "in colours": coloured(PLACE) + "\x1b[1;35mValueError\x1b[0m: bad\n",
}
VERDICTS = {
    "words alone": "reward 0.2 below 0.5\n",
    "nothing": "",
    "an assertion": PLACE + "AssertionError\n",
    "an assertion of several lines": PLACE + "AssertionError: not close\n\nGreatest absolute difference: 1\n",
    "a long assertion": PLACE + "AssertionError: " + "0.25 is not 0.5, " * 900 + "\n",
    "an assertion marked by its rank": marked(PLACE + "AssertionError: reward too low\n"),
    "an assertion in colours": coloured(PLACE) + "\x1b[1;35mAssertionError\x1b[0m: reward too low\n",
    "a table of files": "  name  File \n  a.py  File 'b'\n",
}


class Crashes(unittest.TestCase):
    def verdict(self, words, *options):
        with tempfile.TemporaryDirectory() as folder:
            said = pathlib.Path(folder) / "said"
            said.write_text(words)
            command = [RLBISECT, "verdict", "--run", f"cat {said} >&2; exit 1", *options]
            return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder)

    def test_crashes(self):
        for name, words in CRASHES.items():
            with self.subTest(name):
                said = self.verdict(words)
                self.assertEqual(said.returncode, 125, said.stdout + said.stderr)
                self.assertIn("the run crashed", said.stdout)

    def test_verdicts(self):
        for name, words in VERDICTS.items():
            with self.subTest(name):
                said = self.verdict(words)
                self.assertEqual(said.returncode, 1, said.stdout + said.stderr)

    def test_an_exit_code_has_no_tolerance(self):
        said = self.verdict("", "--tolerance", "0.1")
        self.assertEqual(said.returncode, 129, said.stdout)
        self.assertIn("exit codes, is equal or not", said.stderr)


if __name__ == "__main__":
    unittest.main()
