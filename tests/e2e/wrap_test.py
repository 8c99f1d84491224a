"""Somebody else's launcher, run with the recipe, its dumps imported.

usage: wrap_test.py RLREPLAY
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import support

LAUNCHER = pathlib.Path(__file__).parent / "stand_in_launcher.py"


class Wrap(support.Case):
    def setUp(self):
        self.dump = self.folder / self.id().split("_")[-1]
        self.details = pathlib.Path(f"{self.dump}.details")
        self.said = self.folder / "said.json"
        self.said.unlink(missing_ok=True)

    def wrap(self, framework, *words, json_output=True, environment=None):
        command = ["capture", "--wrap", framework, "-o", self.dump]
        command += ["--json"] if json_output else []
        return self.run_program(*command, "--", sys.executable, LAUNCHER, framework, "--said",
                                self.said, *words, env={**os.environ, **(environment or {})})

    def test_slime_and_miles(self):
        for framework in ("slime", "miles"):
            self.dump = self.folder / framework
            result = self.wrap(framework, "--lr", "1e-6", "--wandb-key", "hush",
                               "--eps-clip-high", "0.28",
                               environment={"WANDB_API_KEY": "hush too"})
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout.splitlines()[-1])
            self.assertEqual((report["rollouts"], report["steps"], report["samples"]), (1, 1, 4))
            words, environment = json.loads(self.said.read_text())
            for flag in ("--deterministic-mode", "--sglang-enable-deterministic-inference"):
                self.assertIn(flag, words)
                self.assertIn(f"added {flag}", result.stderr)
            self.assertEqual(words[words.index("--rollout-seed") + 1], "42")
            self.assertEqual(environment["CUBLAS_WORKSPACE_CONFIG"], ":4096:8")
            self.assertIn("set   NCCL_ALGO=Ring", result.stderr)
            recorded = json.dumps(report["launch"])
            self.assertNotIn("hush", recorded)
            self.assertNotIn("WANDB_API_KEY", recorded)
            self.assertEqual(report["launch"]["environment"]["NCCL_ALGO"], "Ring")
            at = report["launch"]["command"].index("--lr")
            self.assertEqual(report["launch"]["command"][at + 1], "1e-6")
            manifest = b"".join(p.read_bytes() for p in self.dump.glob("*") if p.is_file())
            self.assertIn(b'"launch"', manifest)
            self.assertNotIn(b"hush", manifest)
            shown = self.run_program("show", self.dump, "--sample", "3", "--json")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("30", shown.stdout)
            self.assertIn("the recorded launch says --eps-clip-high 0.28;",
                          self.run_program("objective", self.dump).stderr)

    def test_nothing_that_the_user_gave_is_overridden(self):
        result = self.wrap("slime", "--seed", "7", "--rollout_seed=8", "--no-deterministic-mode",
                           environment={"NCCL_ALGO": "Tree"})
        self.assertEqual(result.returncode, 0, result.stderr)
        words, environment = json.loads(self.said.read_text())
        self.assertEqual(words.count("--seed"), 1)
        self.assertNotIn("--rollout-seed", words)
        self.assertNotIn("--deterministic-mode", words)
        self.assertEqual(environment["NCCL_ALGO"], "Tree")
        for kept in ("NCCL_ALGO=Tree", "--seed 7", "--rollout_seed=8", "--no-deterministic-mode"):
            self.assertIn(f"kept  {kept}  (yours)", result.stderr)

    def test_the_users_own_places_are_imported(self):
        for i, words in enumerate((["--dump-details", "own"],
                                   ["--save-debug-rollout-data", "own/rollout_data/{rollout_id}.pt",
                                    "--save-debug-train-data", "own/train_data/{rollout_id}.pt"])):
            self.dump = self.folder / f"places {i}"
            words = [w.replace("own", str(self.folder / f"mine {i}")) for w in words]
            result = self.wrap("slime", *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout.splitlines()[-1])["steps"], 1)
            self.assertFalse(pathlib.Path(f"{self.dump}.details").exists())

    def script(self, name, *lines):
        path = self.folder / name
        path.write_text("#!/bin/bash\n" + "\n".join(lines) + "\n")
        path.chmod(0o755)
        return path

    def test_a_script_is_read_before_it_runs(self):
        start = f"exec '{sys.executable}' '{LAUNCHER}' slime --said '{self.said}'"
        keeps = self.script("keeps.sh", "# not handed on: $@", start)
        for words in ([keeps], ["bash", keeps]):
            result = self.run_program("capture", "--wrap", "slime", "-o", self.dump, "--", *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn('put "$@" behind', result.stderr)
            self.assertIn("--dump-details", result.stderr)
            self.assertFalse(self.said.exists() or self.details.exists())
        hands = self.script("hands.sh", "ARGS=(--seed 7 --wandb-key hush --lr 2e-6) # --rollout-seed 9",
                            "export API_KEY=hush", start + ' "${ARGS[@]}" "$@"')
        result = self.run_program("capture", "--wrap", "slime", "--json", "-o", self.dump, "--", hands)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"kept  --seed 7  (yours, in {hands})", result.stderr)
        words, _ = json.loads(self.said.read_text())
        self.assertEqual(words.count("--seed"), 1)
        self.assertEqual(words[words.index("--rollout-seed") + 1], "42")
        script = json.loads(result.stdout.splitlines()[-1])["launch"]["script"]
        self.assertEqual(script[script.index("--lr") + 1], "2e-6")
        self.assertNotIn("hush", json.dumps(script))
        hidden = self.script("hidden.sh", start + ' --dump-details "$PLACE" "$@"')
        result = self.run_program("capture", "--wrap", "slime", "-o", self.folder / "h", "--", hidden)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("only the shell knows", result.stderr)

    def test_variables_that_a_script_sets_are_the_users(self):
        start = f"'{sys.executable}' '{LAUNCHER}' slime --said '{self.said}' \"$@\""
        ends = "{\\\"env_vars\\\": {\\\"NCCL_ALGO\\\": \\\"Tree\\\"}}"
        for number, (lines, kept) in enumerate((
                (["export NCCL_ALGO=Tree", "echo NVTE_ALLOW_NONDETERMINISTIC_ALGO=1",
                  "CUBLAS_WORKSPACE_CONFIG=:16:8 " + start],
                 {"NCCL_ALGO": "Tree", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}),
                (["unset CUDA_DEVICE_MAX_CONNECTIONS", start], {"CUDA_DEVICE_MAX_CONNECTIONS": ""}),
                ([f'RUNTIME="{ends}"', start], {"NCCL_ALGO": "Tree"}))):
            script = self.script(f"sets{number}.sh", *lines)
            dump = self.folder / f"sets {number}"
            result = self.run_program("capture", "--wrap", "slime", "--json", "-o", dump, "--", script)
            self.assertEqual(result.returncode, 0, result.stderr)
            _, environment = json.loads(self.said.read_text())
            settings = json.loads(result.stdout.splitlines()[-1])["launch"]["settings"]
            for name in ("NCCL_ALGO", "NVTE_ALLOW_NONDETERMINISTIC_ALGO", "CUBLAS_WORKSPACE_CONFIG",
                         "CUDA_DEVICE_MAX_CONNECTIONS"):
                word = f"kept  {name}={kept.get(name)}  (yours, in {script})"
                self.assertEqual(word in result.stderr, name in kept, result.stderr)
                self.assertEqual(f"set   {name}=" in result.stderr, name not in kept)
                if name in kept and number < 2:
                    self.assertEqual(environment.get(name, ""), kept[name])
                self.assertEqual(settings[name], kept[name] if name in kept else environment[name])
        result = self.run_program("capture", "--wrap", "slime", "--dry-run", "-o", self.dump, "--",
                                  "env", "NCCL_ALGO=Tree", "python3", "train.py")
        self.assertIn("kept  NCCL_ALGO=Tree  (yours)\n", result.stderr)
        self.assertNotIn("NCCL_ALGO=Ring", result.stdout)

    def test_a_text_behind_c_is_read_first(self):
        start = f"'{sys.executable}' '{LAUNCHER}' slime --said '{self.said}'"
        for words, said in (((start,), 'put "$@" behind'),
                            ((start + " --dump-details out1", "run"), 'put "$@" behind'),
                            ((start + ' "$@"',), "is its $0, and no argument: put one there")):
            for flag in ("-c", "-lc"):
                result = self.run_program("capture", "--wrap", "slime", "-o", self.dump, "--", "bash",
                                          "-o", "pipefail", flag, *words)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(said, result.stderr)
                self.assertFalse(self.said.exists() or self.details.exists())
        result = self.run_program("capture", "--wrap", "slime", "-o", self.dump, "--", "bash", "-c",
                                  "export NCCL_ALGO=Tree; exec " + start + ' --seed 7 "$@"', "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("kept  --seed 7  (yours, in bash -c)", result.stderr)
        words, environment = json.loads(self.said.read_text())
        self.assertEqual(words[words.index("--rollout-seed") + 1], "42")
        self.assertEqual(environment["NCCL_ALGO"], "Tree")
        self.assertIn("kept  NCCL_ALGO=Tree  (yours, in bash -c)", result.stderr)

    def test_a_scripts_words_are_a_shells(self):
        place = self.folder / "two words"
        start = f"exec '{sys.executable}' '{LAUNCHER}' slime --said '{self.said}'"
        whole = self.script("whole.sh", "cat <<END", "it's a text, not --seed 8", "END",
                            "ARGS='--rollout-seed 7'", f'DETAILS="{place}"',
                            start + f' --dump-details "{place}" $ARGS "$@"')
        result = self.run_program("capture", "--wrap", "slime", "-o", self.dump, "--", whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(place.is_dir())
        words, _ = json.loads(self.said.read_text())
        self.assertEqual(words[words.index("--seed") + 1], "1234")
        self.assertEqual(words.count("--rollout-seed"), 1)
        for number, line in enumerate(['echo "called with $@"', 'echo train.py "$@"',
                                       'for word in "$@"; do :; done']):
            keeps = self.script(f"keeps{number}.sh", line, start)
            result = self.run_program("capture", "--wrap", "slime", "-o", self.folder / "k", "--",
                                      keeps)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn('put "$@" behind', result.stderr)
        for number, lines in enumerate([["ALL=(a", "  --lr 1", '  "$@"', ")", start + ' "${ALL[@]}"'],
                                        [start + " \\", '  --lr 1 "$@" 2>&1']]):
            hands = self.script(f"hands{number}.sh", *lines)
            result = self.run_program("capture", "--wrap", "slime", "--dry-run", "-o",
                                      self.folder / "d", "--", hands)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_dry_run(self):
        result = self.run_program("capture", "--wrap", "slime", "--dry-run", "-o", self.dump, "--",
                                  sys.executable, LAUNCHER, "slime", "--said", self.said, "--seed", "7")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("NCCL_ALGO=Ring ", result.stdout)
        self.assertIn("--rollout-seed 42", result.stdout)
        self.assertIn("kept  --seed 7", result.stderr)
        self.assertFalse(self.said.exists() or self.dump.exists())
        typed = subprocess.run(["bash", "-c", result.stdout], capture_output=True, text=True)
        self.assertEqual(typed.returncode, 0, typed.stderr)
        self.assertIn("--deterministic-mode", json.loads(self.said.read_text())[0])

    def test_a_command_that_fails(self):
        result = self.wrap("slime", "--exit", "3")
        self.assertEqual(result.returncode, 5, result.stderr)
        error = json.loads(result.stdout.splitlines()[-1])["error"]["message"]
        self.assertIn("ended with exit code 3", error)
        self.assertIn("rlreplay import", error)
        self.assertIn(f" -o '{self.dump}'", error)
        self.assertFalse(self.dump.exists())
        again = self.wrap("slime")
        self.assertEqual(again.returncode, 2)
        self.assertIn("earlier run", again.stdout)

    def test_a_command_that_writes_nothing(self):
        result = self.wrap("slime", "--nothing")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("wrote no dump", result.stdout)

    def test_a_command_that_does_not_start(self):
        result = self.run_program("capture", "--wrap", "slime", "-o", self.dump, "--",
                                  self.folder / "absent")
        self.assertEqual(result.returncode, 5)
        self.assertIn("cannot start", result.stderr)

    def test_an_interrupt(self):
        process = subprocess.Popen(
            [self.program, "capture", "--wrap", "slime", "-o", self.dump, "--", sys.executable,
             LAUNCHER, "slime", "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, start_new_session=True)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn("interrupted, and so was the command", error)
        self.assertIn("1 dump files", error)

    def test_what_makes_no_sense(self):
        for words in (["--wrap", "slime", "-o", "x"], ["--wrap", "other", "-o", "x", "--", "true"],
                      ["-o", "x", "--", "true"],
                      ["--wrap", "slime", "-o", "x", "--lr", "1", "--", "true"]):
            self.assertEqual(self.run_program("capture", *words, cwd=self.folder).returncode, 2)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
