"""What the programs print, to the letter: standard output, standard error and exit code.

usage: snapshot_test.py RLREPLAY RLBISECT [--update] [CASE...]

A file of cases/ is a session in a folder of its own. A line `$ COMMAND` is run; the lines behind it
are what it printed, those of standard error after `! `, and `? CODE` where it did not end with 0.
Lines of other forms before the first command say what the case is about. `--update` writes the files
anew: read the difference before it is committed. $ROOT is the repository.
"""
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CASES = pathlib.Path(__file__).parent / "cases"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Commits have the same hashes everywhere.
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "2026-11-21T12:00:00Z",
       "GIT_COMMITTER_DATE": "2026-11-21T12:00:00Z"}
# What rlbisect does beside a search.
RLBISECT_WORDS = ("changes", "verdict", "op", "status", "log", "resume", "gc")
# What differs from run to run or from build to build, and what stands for it.
VARIES = [
    (re.compile(r"\(([0-9a-f]{12}|unknown)(, modified)?\)"), "(REVISION)"),
    (re.compile(r'"(seconds|train_seconds)": ?[0-9.e-]+'), r'"\1":SECONDS'),
    (re.compile(r"\b\d+\.\d s\b"), "N.N s"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "DATE"),
]


def commands(text):
    """The introduction, and the commands of a case."""
    head, found = [], []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif not found:
            head.append(line)
    return head, found


def steady(text, command, folder):
    text = text.replace(str(folder), "FOLDER")
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    if re.match(r"rlreplay (capture|train|rollout)\b", command):
        text = re.sub(r"(?m)^( *\d+\.\d .*?) +\d+\.\d\d (\w{8} +\S+)$", r"\1    SEC \2", text)
    if command.startswith("rlreplay layouts "):
        text = re.sub(r"(?m) +\d+\.\d\d s  ", "  SEC  ", text)
    return text


def run(command, folder, environment):
    result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    out = [f"$ {command}"]
    out += [line.rstrip() for line in steady(result.stdout, command, folder).splitlines()]
    out += [("! " + line).rstrip() for line in steady(result.stderr, command, folder).splitlines()]
    if result.returncode != 0:
        out.append(f"? {result.returncode}")
    return out


def session(text):
    """The case as the programs print it now."""
    head, found = commands(text)
    with tempfile.TemporaryDirectory(prefix="rlreplay case ") as folder:
        place = pathlib.Path(folder, "bin")
        place.mkdir()
        work = pathlib.Path(folder, "work")
        work.mkdir()
        for name, program in PROGRAMS.items():
            (place / name).symlink_to(program)
        environment = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        environment |= {"PATH": f"{place}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1",
                        "TZ": "UTC", "HOME": folder, "ROOT": str(ROOT)} | GIT
        lines = list(head)
        for command in found:
            lines += run(command, work, environment)
    return "\n".join(lines) + "\n"


class Snapshots(unittest.TestCase):
    def case(self, path):
        expected = path.read_text()
        self.assertTrue(commands(expected)[1], "a case without a command")
        found = session(expected)
        if found != expected:
            self.fail("\n" + "\n".join(difflib.unified_diff(
                expected.splitlines(), found.splitlines(), f"{path.name}, expected", "printed",
                lineterm="")))

    def test_a_changed_letter_is_seen(self):
        text = "$ printf 'one\\ntwo\\n'; echo three >&2; exit 3\none\ntwo\n! three\n? 3\n"
        self.assertEqual(session(text), text)
        self.assertNotEqual(session(text.replace("two\n!", "twO\n!")), text.replace("two\n!", "twO\n!"))


    def test_every_verb_has_its_sessions(self):
        """Its help, an end with 0 and one with another code."""
        sessions = []  # a command, and how it ended
        for path in sorted(CASES.glob("*.txt")):
            for line in path.read_text().splitlines():
                if line.startswith("$ "):
                    sessions.append([line[2:], "0"])
                elif line.startswith("? "):
                    sessions[-1][1] = line[2:]
        words = [f"rlbisect {word}" for word in RLBISECT_WORDS] + ["rlreplay rank"]
        program = json.loads(subprocess.run([PROGRAMS["rlreplay"], "--help-json"], text=True,
                                            capture_output=True, check=True).stdout)
        for verb in program["verbs"]:
            words += [verb["name"], *(part["name"] for part in verb.get("verbs", []))]
        for word in words:
            with self.subTest(word):
                of = [(text, end) for text, end in sessions if re.search(rf"(?:^|[|;&] |'){word}(?: |$)", text)]
                runs = [end for text, end in of if not re.search(r" (-h|--help)$", text)]
                self.assertTrue(any(end != "0" for end in runs), "no refusal")
                if word != "rlreplay rank":  # which a layout starts
                    self.assertIn((word + " --help", "0"), of)
                    self.assertIn("0", runs)


for path in sorted(CASES.glob("*.txt")):
    setattr(Snapshots, "test_" + path.stem.replace("-", "_"), lambda self, path=path: self.case(path))

if __name__ == "__main__":
    PROGRAMS = {"rlreplay": pathlib.Path(sys.argv[1]).resolve(),
                "rlbisect": pathlib.Path(sys.argv[2]).resolve()}
    if "--update" in sys.argv:
        chosen = [name for name in sys.argv[3:] if name != "--update"] or ["*"]
        for path in sorted(path for name in chosen for path in CASES.glob(f"{name}.txt")):
            path.write_text(session(path.read_text()))
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
