"""rlbisect verdict on one checkout. usage: verdict_test.py PROGRAM"""
import json
import os
import subprocess
import sys
import unittest

from support import SEED, Case  # ahead: it leads to tests/e2e

from measured import impatient

Case.program = os.path.abspath(sys.argv.pop(1))
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class Verdicts(Case):
    def files(self, *texts):
        paths = []
        for number, text in enumerate(texts):
            paths.append(self.folder / f"metrics {number}.json")
            paths[-1].write_text(text)
        return paths

    def test_two_files(self):
        for texts, code, sentence in (
                (('{"a": 1, "b": [1, 2]}', '{"b": [1, 2], "a": 1.0, "c": 5}'), 0, "3 numbers agree"),
                (('{"a": 1, "b": [1, 2]}', '{"a": 2, "b": [1, 3]}'), 1,
                 "b at step 1: 3 where the reference has 2 (2 of 3 numbers differ)"),
                (('{"a": 0.0}', '{"a": -0.0}'), 1, "a: -0 where the reference has 0"),
                (('{"a": NaN, "b": 1}', '{"a": "nan", "b": 1}'), 0, "agree"),
                (('{"a": NaN, "b": [NaN, Infinity]}', '{"a": NaN}'), 128, "every number is NaN or infinite"),
                (('{"loss": 1, "grad_norm": [0, 0]}', '{"loss": 1, "grad_norm": [0, 0]}'), 128, "no reference: "),
                (('{"a": Infinity, "b": 1}', '{"a": -Infinity, "b": 1}'), 1, "-inf"),
                (('{"a": 0.5}', '{"a": "0x1p-1"}'), 0, "agree"),
                (('{"a": [1, 2]}', '{"a": [1]}'), 125, "1 numbers where the reference has 2"),
                (('{"a": [1]}', '{"a": 1}'), 125, "a is one value where the reference has a list, one a step"),
                (('{"a": 1}', '{"a": [1]}'), 125, "a is a list, one a step, where the reference has one value"),
                (('{"a": [1]}', '{"a": ["x"]}'), 1, "a at step 0: x where the reference has 1"),
                (('{"a": 1}', '{"b": 1}'), 125, "a is missing"),
                (('{"a": ""}', '{"a": ""}'), 0, "1 number agrees"),
                (('{"a": ""}', r'{"a": "\"\""}'), 1, r'a: "\"\"" where the reference has ""'),
                ((r'{"a": "\"\""}', '{"a": ""}'), 1, r'a: "" where the reference has "\"\""'),
                ((r'{"a": "\"x\""}', r'{"a": "\"x\""}'), 0, "1 number agrees"),
                (('{"a": 1}', r'{"a": "\"\""}'), 1, r'a: "\"\"" where the reference has 1'),
                (('{"a": 1}', '{"a": 1'), 125, "cannot be read"),
                (('{"a": 1}', '{"a": "much"}'), 1, "a: much where the reference has 1"),
                (('{"sha": "9f86d0"}', '{"sha": "9f86d0"}'), 0, "agree"),
                (('{"sha": "9f86d0"}', '{"sha": "60303a"}'), 1, "sha: 60303a"),
                (('{"n": 9007199254740992}', '{"n": 9007199254740993}'), 1, "n: 9007199254740993"),
                (('{"n": -9007199254740993}', '{"n": -9007199254740993}'), 0, "agree"),
                (('{"x": 0.12345678901234567890}', '{"x": 0.12345678901234568}'), 0, "agree"),
                (('{"x": "0x1.00000000000001p0"}', '{"x": "0x1.00000000000002p0"}'), 1, "x: "),
                (('{"sha": "1234e567"}', '{"sha": "9999e321"}'), 1, "sha: 9999e321"),
                (('{"sha": "00e1234"}', '{"sha": "000e5678"}'), 1, "sha: 000e5678"),
                (('{"sha": "0e12345"}', '{"sha": "0e56789"}'), 1, "sha: 0e56789"),
                (('{"sha": "123e056"}', '{"sha": "1230e55"}'), 1, "sha: 1230e55"),
                (('{"sha": "0012"}', '{"sha": "012"}'), 1, "sha: 012"),
                (('{"sha": "nan(1)"}', '{"sha": "nan(2)"}'), 1, "sha: nan(2)"),
                (('{"sha": "0x1p99999"}', '{"sha": "0x2p99999"}'), 1, "sha: 0x2p99999"),
                (('{"sha": "0x1p-99999"}', '{"sha": "0x2p-99999"}'), 1, "sha: 0x2p-99999"),
                (('{"sha": "0x10000000000000000000001"}', '{"sha": "0x10000000000000000000002"}'), 1,
                 "sha: 0x"),
                (('{"x": "0.10000000000000000001"}', '{"x": "0.10000000000000000002"}'), 1, "x: 0.1"),
                (('{"x": "4e-400"}', '{"x": "5e-400"}'), 1, "x: 5e-400"),
                (('{"x": ["0.1", "-1.5e+10", "-INF", ".5", "0x1.8P+1", "1e-05", "0.000"]}',
                  '{"x": ["0.10000000000000000555", -15e9, -Infinity, 0.5, 3, 0.00001, "0e+00"]}'), 0,
                 "7 numbers agree"),
                (('{"a": {}}', '{"a": {}}'), 128, "a number or a text"),
                (('{"a": []}', '{"a": []}'), 125, "no number to compare"),
                (('{"a": 1', '{"a": 1}'), 128, "no reference")):
            with self.subTest(texts=texts):
                result = self.bisect("verdict", *self.files(*texts))
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(sentence, result.stdout + result.stderr)

    def test_a_number_that_the_reference_has_not_is_told_with_those_that_it_has(self):
        paths = self.files('{"loss": 1, "kl": 2, "reward": 3, "step_time": 4}', '{"loss": 1}')
        for names in (["foo"], ["loss", "foo_*"]):
            result = self.bisect("verdict", *paths, *[word for name in names for word in ("--metric", name)])
            self.assertEqual(result.returncode, 129, result.stdout + result.stderr)
            self.assertIn(f"this is no reference by --metric: metrics.json has no {names[-1]}; it has kl, loss, reward "
                          "and 1 more", result.stderr)

    def test_lines_and_a_dump_that_is_a_file(self):
        folders = []
        for name, text in (("good", '{"a": 1}\n\n{"a": 2, "b": "x"}\n'), ("bad", '{"a": 1}\n{"a": 3, "b": "x"}'),
                           ("cut", '{"a": 1}\n{"a": ')):
            folders.append(self.folder / name)
            folders[-1].mkdir()
            (folders[-1] / "metrics.jsonl").write_text(text)
        good, bad, cut = folders
        for paths, code, sentence in (((good, good), 0, "3 numbers agree"), ((good, bad), 1, "a at step 1: 3 where"),
                                      ((good / "metrics.jsonl", bad / "metrics.jsonl"), 1, "a at step 1"),
                                      ((good, cut), 125, "metrics.jsonl:2")):
            result = self.bisect("verdict", *paths)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(sentence, result.stdout + result.stderr)
        (bad / "metrics.json").write_text('{"a": 1}')
        self.assertIn("both metrics.json and metrics.jsonl", self.bisect("verdict", good, bad).stdout)
        (cut / "metrics.jsonl").unlink()
        (cut / "dump").write_text("")
        self.assertIn("what the run left as dump is no folder", self.bisect("verdict", good, cut).stdout)

    def test_many_names_take_no_more_than_their_number(self):
        count = 400_000
        numbers = {f"m{i}": i for i in range(count)}
        paths = self.files(json.dumps(numbers), json.dumps({**numbers, f"m{count - 1}": -7}))
        result = self.bisect("verdict", *paths, preexec_fn=impatient)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"m{count - 1}: -7 where", result.stdout)

    def test_json(self):
        result = self.bisect("verdict", *self.files('{"a": 1}', '{"a": 1.5}'), "--json")
        self.assertEqual(json.loads(result.stdout), {
            "schema": "rlreplay.verdict/1", "verdict": "bad",
            "reason": "a: 1.5 where the reference has 1 (1 of 1 numbers differ)",
            "difference": {"metric": "a", "step": None, "good": 1, "good_bits": "3ff0000000000000", "bad": 1.5,
                           "bad_bits": "3ff8000000000000", "different": 1, "compared": 1, "log_probs": None}})

    def test_a_run_of_this_folder(self):
        reference, = self.files('{"loss": 1}')
        for run, arguments, code in (
                ("exit 0", [], 0), ("exit 1", [], 1), ("exit 125", [], 125), ("exit 2", [], 1),
                ("kill -9 $$", [], 125), (WRITE % "1", ["--reference", reference], 0),
                (WRITE % "2", ["--reference", reference], 1),
                ((WRITE % "1") + "; exit 1", ["--reference", reference], 125),
                ((WRITE % "2") + "; exit 1", ["--reference", reference], 1),
                ("no-such-command-here", [], 129), (WRITE % "2", [], 129), ("exit 0", ["--reference", reference], 125),
                ("exit 0", ["--build", "false"], 125),
                ("exit 0", ["--reference", self.folder / "missing"], 128), ("", [], 129)):
            with self.subTest(run=run, arguments=arguments):
                result = self.bisect("verdict", "--run", run, *arguments, folder=self.temporary)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)

    def test_a_git_that_fails_is_no_folder_without_revisions(self):
        path = self.environment.get("PATH", os.environ["PATH"])
        (self.folder / "bin").mkdir()
        git = self.folder / "bin/git"
        fails = f"{git.parent}:{path}"
        repository = self.folder / "repository"
        repository.mkdir()
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run(["git", *words], cwd=repository, check=True, env=self.environment)
        for folders, failing, code, said in ((path, "", 0, "good"),
                                             (fails, "log", 128, "git log exited with code 9"),
                                             (fails, "rev-parse", 128, "git rev-parse exited with code 9"),
                                             (fails, "--verify", 128, "git rev-parse was ended by signal 9"),
                                             ("/nowhere", "", 0, "good")):
            with self.subTest(folders=folders, failing=failing):
                end = "kill -9 $$" if failing == "--verify" else "exit 9"
                git.write_text(f'#!/bin/sh\nfor word; do [ "$word" = "{failing}" ] && {end}; done\n'
                               f'PATH="{path}" exec git "$@"\n')
                git.chmod(0o755)
                self.environment["PATH"] = folders
                result = self.bisect("verdict", "--run", "exit 0", folder=repository)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                self.assertIn(said, result.stdout + result.stderr)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
