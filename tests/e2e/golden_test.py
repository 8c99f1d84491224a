"""A golden file of a run is written, held, and tells what changed.

usage: golden_test.py PROGRAM FILE (the project's own golden run; its gates lie beside)"""
import json
import os
import pathlib
import platform
import re
import shlex
import sys
import unittest

import checkpoints
from support import Case

GOLDEN = os.path.abspath(sys.argv.pop(2))
GATES = os.path.join(os.path.dirname(GOLDEN), "gates")
CUT = pathlib.Path(__file__).with_name("cut_capture.py")
Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--steps", "2", "--rollout-batch-size", "4"]


class Golden(Case):
    def setUp(self):
        self.file = self.folder / (self.id().rsplit(".", 1)[1] + ".txt")

    def golden(self, what, *arguments, code=0, **options):
        result = self.run_program("golden", what, self.file, *arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_the_projects_own_run(self):
        for flags in ([], ["--threads", "1", "--micro-batch-size", "5", "--recompute"]):
            result = self.run_program("golden", "check", GOLDEN, *flags)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("match: ", result.stdout)

    @classmethod
    def gates(cls):
        """The golden files of two checkpoints, of which is made here what they were recorded with."""
        for name in ("llama", "qwen3"):
            if not (cls.folder / name).exists():
                checkpoints.write(cls.folder / name, checkpoints.config(name))
        checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        return [os.path.join(GATES, name) for name in ("llama.txt", "qwen3.txt")]

    def test_the_project_gates_itself(self):
        """Two checkpoints, in four micro-batches and two layouts beside the recorded one."""
        files = self.gates()
        for flags in ("", "--micro-batch-size 1", "--micro-batch-size 3 --threads 1", "--micro-batch-size 5 --recompute",
                      "--micro-batch-size 8", "--layout dp=2", "--layout tp=2"):
            result = self.run_program("golden", "check", *files, *flags.split(), cwd=self.folder)
            self.assertEqual(result.returncode, 0, flags + result.stdout + result.stderr)
            self.assertIn("2 golden files, 0 do not pass", result.stdout)
        changed = self.run_program("golden", "check", *files, "--eps-clip", "0.1", "--lr", "2e-6", cwd=self.folder)
        self.assertEqual(changed.returncode, 1, changed.stdout)
        self.assertIn("2 golden files, 2 do not pass", changed.stdout)
        for what in (("check", GATES, "--self-test"), ("fsck", GATES)):
            result = self.run_program("golden", *what)
            self.assertEqual(result.returncode, 0, result.stdout)

    def test_it_is_one_process_whatever_launcher_its_shell_is_of(self):
        self.golden("record", *RUN)
        for rank, size in (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                           ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("RANK", "WORLD_SIZE")):
            with self.subTest(rank):
                for layout in ([], ["--layout", "dp=2"]):
                    self.golden("check", *layout, env={**os.environ, rank: "0", size: "2"})
                    said = self.golden("check", *layout, code=2, env={**os.environ, rank: "1", size: "2"}).stderr
                    self.assertRegex(said, f"this verb is one process, and .* started it as {rank} 1 of {size} 2: "
                                           f"start it once, or unset {rank}")
                self.golden("check", env={**os.environ, rank: "1"})  # no number of processes: no launch
                # A command would be run by each of them, too.
                said = self.run_program("golden", "record", self.folder / "command.txt", "--run", "true",
                                        env={**os.environ, "CI": "", rank: "1", size: "2"})
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertIn("this verb is one process", said.stderr)

    def test_a_capture_and_one_that_was_cut_and_resumed(self):
        """The content root of the dump stands in the file, beside the values of the checkpoint's own."""
        self.gates()
        environment = {**os.environ, "PATH": os.path.dirname(Case.program) + os.pathsep + os.environ["PATH"]}
        file = os.path.join(GATES, "capture.txt")
        text = pathlib.Path(file).read_text()
        self.assertRegex(text, "(?m)^content [0-9a-f]{32}$")
        for line in pathlib.Path(GATES, "qwen3.txt").read_text().splitlines():
            if re.match(r"step \S+ (weights|loss|grad_norm) ", line):
                self.assertIn(line + "\n", text)
        flags = re.search(r'about run "rlreplay capture (.*) -o .*"', text)[1]
        resumed = f"{sys.executable} '{CUT}' rlreplay \"$RLBISECT_OUT/dump\" {flags}"
        whole = f"rlreplay capture {flags} --micro-batch-size 3 --threads 1 -o \"$RLBISECT_OUT/dump\""
        for words in (["--run-recorded"], ["--run", whole], ["--run", resumed]):
            result = self.run_program("golden", "check", file, *words, cwd=self.folder, env=environment)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("match: ", result.stdout)
        result = self.run_program("golden", "check", file, "--run", whole.replace("0.1", "0.2"), cwd=self.folder,
                                  env=environment)
        self.assertIn("  content: ", result.stdout)

    def gate_stock_kernels(self, folder):
        """Checks the golden files of them that are of this machine, and names these."""
        said = self.run_program("golden", "explain", ".", cwd=folder).stdout if folder.exists() else ""
        here = re.findall(r"(?m)^\S+: (\S+\.txt)$", said)
        if not here:
            print("not gated: the torch kernels, of which there is no golden file for this machine")
        for file in here:
            self.gates()
            result = self.run_program("golden", "check", folder / file, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return here

    def test_stock_kernels_are_gated_where_a_golden_file_of_them_is_of_this_machine(self):
        """Their bits are of a machine: elsewhere it is said that they are not gated."""
        self.gate_stock_kernels(pathlib.Path(GATES, "torch"))

    def test_a_golden_file_of_stock_kernels_is_of_its_machine(self):
        folder = self.folder / "torch"
        recorded = self.run_program("golden", "record", folder / "run.txt", *RUN, "--kernels", "torch")
        if recorded.returncode == 5 and "the torch backend cannot be used" in recorded.stderr:
            self.skipTest("the program has no torch kernels")
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        file, = folder.iterdir()
        self.assertTrue(file.name.startswith(f"run@{platform.machine()}-"), file.name)
        text = file.read_text()
        self.assertIn("option kernels torch\n", text)
        version = re.search(r"(?m)^environment torch (\S+)$", text)[1]
        self.assertEqual([pathlib.Path(name).name for name in self.gate_stock_kernels(folder)], [file.name])
        changed = self.run_program("golden", "check", file, "--lr", "0.0006")
        self.assertEqual(changed.returncode, 1, changed.stdout)
        file.write_text(text.replace(f"environment torch {version}", "environment torch 1.0"))
        self.assertRegex(self.run_program("golden", "check", file).stdout,
                         f"^match: .*\n  environment: torch: 1.0 recorded, {re.escape(version)} now\n")
        file.rename(folder / "run@another.txt")
        self.assertEqual(self.gate_stock_kernels(folder), [])

    def test_one_ulp_in_the_run_turns_its_gate_red(self):
        file = self.gates()[1]

        def inject(at, code, *words, file=file):
            result = self.run_program("golden", "check", file, *words, "--inject", at, cwd=self.folder)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            return result.stdout + result.stderr

        for at in ("0.0/backward/0/down/dx:1234:1", "1.0/optimizer/-/weight/model.norm.weight:3:-1"):
            self.assertRegex(inject(at, 0, "--self-test"), f"planted {at}, regression, [1-9]")
        # The file holds the whole loss alone.
        self.assertIn(", unseen, 0 of ", inject("0.0/objective/-/loss/policy:0:1", 1, "--self-test"))
        said = json.loads(inject("0.0/backward/0/down/dx:0:1", 0, "--self-test", "--json").splitlines()[0])
        self.assertEqual([said[key] for key in ("outcome", "passes", "planted", "unseen", "judged")],
                         ["seen", True, 1, [], "regression"])
        said = json.loads(inject("0.0/objective/-/loss/policy:0:1", 1, "--self-test", "--json").splitlines()[0])
        self.assertEqual([said[key] for key in ("outcome", "passes", "unseen", "judged", "different")],
                         ["unseen", False, ["0.0/objective/-/loss/policy:0:1"], "match", 0])
        self.assertIn("nothing was planted", inject("7.0/backward/0/down/dx:0:1", 2, "--self-test"))
        self.assertIn("requires --self-test", inject("0.0/backward/0/down/dx:0:1", 2))
        self.assertIn("is a command", inject("0.0/backward/0/down/dx:0:1", 2, "--self-test",
                                             file=os.path.join(GATES, "capture.txt")))

    def test_a_folder_that_is_not_there_is_made(self):
        self.file = self.folder / "not yet" / "goldens" / "run.txt"
        self.golden("record", *RUN)
        self.assertIn("1 golden file, 0 do not pass",
                      self.run_program("golden", "check", self.file.parent).stdout)
        self.file.write_text(self.file.read_text().replace("loss 0x", "loss 0x1"))
        self.assertIn("1 golden file, 1 does not pass",
                      self.run_program("golden", "check", self.file.parent).stdout)
        (self.folder / "a file").touch()
        self.file = self.folder / "a file" / "run.txt"
        said = self.golden("record", *RUN, code=5).stderr
        self.assertIn("cannot make the folder", said)

    def test_a_changed_option_is_named_by_what_it_changes(self):
        self.golden("record", *RUN)
        self.golden("check")
        changed = self.golden("check", "--lr", "0.0006", code=1)
        self.assertIn("step 0.0 weights", changed.stdout)
        self.assertNotIn("step 0.0 gradients", changed.stdout)
        self.assertIn("overridden: lr: ", changed.stderr)
        # In the order of time, causes first: the weights of a step before what they sample.
        told = json.loads(self.golden("check", "--lr", "0.0006", "--json", code=1).stdout)
        keys = [d["key"] for d in told["differences"]]
        self.assertEqual((keys[0], keys[-1]), ("step 0.0 weights", "step 1.0 weights"))
        after = [key for key in keys if key.startswith("rollout 1 ")]
        self.assertEqual(keys[1:1 + len(after)], [f"rollout 1 {name}" for name in
                                                  ("tokens", "log_probs")][-len(after):])
        gradients = keys.index("step 1.0 gradients")
        self.assertEqual(keys[gradients:gradients + 2],
                         ["step 1.0 gradients", "step 1.0 grad_norm"])

    def test_numbers_of_a_command_are_named_causes_first(self):
        run = ["--run", shlex.join([Case.program, "capture", *RUN]) + ' -o "$RLBISECT_OUT/dump"']
        self.golden("record", *run, cwd=self.folder)
        self.file, = self.folder.glob(self.file.stem + "*")  # with the class of the machine
        lines = []
        for line in self.file.read_text().splitlines():  # every number of step 0.0 another one
            name = re.match("step 0[.]0 (\\w+) 0x", line)
            lines.append(f"step 0.0 {name[1]} 0x1p+3" if name else line)
        self.file.write_text("\n".join(lines) + "\n")
        told = json.loads(self.golden("check", *run, "--json", code=1, cwd=self.folder).stdout)
        names = [d["key"].removeprefix("step 0.0 ") for d in told["differences"]]
        self.assertEqual(names, ["pg_loss", "entropy", "kl", "clip_fraction", "loss", "grad_norm", "clip_scale", "lr"])

    def test_a_changed_value_is_named_with_its_distance(self):
        self.golden("record", *RUN)
        lines = self.file.read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("step 1.0 grad_norm "))
        digits = lines[at].split("  #")[0]  # without the decimal
        lines[at] = digits[:-5] + ("1" if digits[-5] != "1" else "2") + digits[-4:]
        self.file.write_text("\n".join(lines) + "\n")
        result = self.lines("golden", "check", self.file, code=1)[-1]
        self.assertEqual((result["outcome"], result["passes"]), ("regression", False))
        self.assertEqual([d["key"] for d in result["differences"]], ["step 1.0 grad_norm"])
        self.assertGreater(abs(result["differences"][0]["ulps"]), 0)
        # A distance that readers of JSON would round is none.
        lines[at] = digits[:digits.index("grad_norm")] + "grad_norm 0x1p+900"
        self.file.write_text("\n".join(lines) + "\n")
        result = self.lines("golden", "check", self.file, code=1)[-1]
        self.assertIsNone(result["differences"][0]["ulps"])

    def test_a_checkpoint_that_lies_elsewhere_can_be_named(self):
        self.golden("record", *RUN)
        text = self.file.read_text()
        for model in ("/no/such/folder", "/tmp"):
            self.file.write_text(text.replace("option model demo", "option model " + model))
            self.assertIn("golden check '" + str(self.file) + "' --model DIR",
                          self.golden("check", code=3).stderr)
        self.golden("check", "--model", "demo")

    def test_what_a_run_was_given_is_named_where_it_has_changed(self):
        model = checkpoints.write(self.folder / "given", checkpoints.config("qwen3"))
        prompts = checkpoints.write_prompts(self.folder / "given.jsonl")
        judge = self.folder / "judge.py"
        judge.write_text("import sys\nfor i, line in enumerate(sys.stdin): print(i % 3)\n")
        self.golden("record", "--model", model, "--prompts", prompts, "--reward", "command", "--reward-command",
                    f"{sys.executable} '{judge}'", *RUN[2:], "--rollout-max-response-len", "4")
        names = re.findall("(?m)^input (\\w+) [0-9a-f]{32}$", self.file.read_text())
        self.assertEqual(names, ["model", "prompts", "reward", "tokenizer"])
        again = ["--reward-command", f"{sys.executable} '{judge}'"]
        (model / "README.md").write_text("of no effect")
        self.assertNotIn("input", self.golden("check", *again).stdout)
        cause = "  cause: the run is not given what it was recorded with\n"
        for name, path, change in (("reward", judge, lambda text: text.replace(b"3", b"2")),
                                   ("prompts", prompts, lambda text: text[text.index(b"\n") + 1:]),
                                   ("model", model / "model.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]))):
            before = path.read_bytes()
            path.write_bytes(change(before))
            said = self.golden("check", *again, code=1).stdout
            self.assertEqual(re.findall("  input: (\\w+): [0-9a-f]{32} recorded, [0-9a-f]{32} now\n", said), [name])
            self.assertIn(cause, said)
            path.write_bytes(before)
        said = self.golden("check", *again, "--lr", "0.5", code=1).stdout
        self.assertNotIn("cause", said)
        judge.write_text(judge.read_text() + "# of no effect\n")
        said = self.golden("check", *again).stdout
        self.assertRegex(said, "match: .*\n  input: reward: ")
        self.assertNotIn("cause", said)

    def test_a_file_is_not_replaced_unasked(self):
        self.golden("record", *RUN)
        before = self.file.read_text()
        self.assertIn("--force", self.golden("record", *RUN, code=2).stderr)
        self.assertEqual(self.file.read_text(), before)
        self.golden("record", "--force", "--lr", "0.0006", "--reason", "a larger rate")
        after = self.file.read_text()
        self.assertIn("a larger rate", after)
        self.assertNotEqual(after, before)
        self.golden("check")

    def test_the_candidate_is_the_run_that_was_asked_for(self):
        self.golden("record", *RUN)
        outside_ci = {**os.environ, "CI": "", "XDG_STATE_HOME": str(self.folder / "state")}
        said = self.run_program("golden", "check", self.file, "--lr", "0.0006", env=outside_ci)
        self.assertEqual(said.returncode, 1)
        self.assertEqual(said.stderr.count("overridden"), 1)
        self.assertIn("golden accept '" + str(self.file) + "' --reason", said.stdout)
        self.run_program("golden", "accept", self.file, "--reason", "a larger rate", env=outside_ci)
        self.assertRegex(self.file.read_text(), "\noption lr (6e-04|0.0006)\n")
        self.golden("check")

    def test_a_file_that_was_cut(self):
        self.golden("record", *RUN)
        lines = self.file.read_text().splitlines()
        kept = [line for line in lines if line.startswith(("#", "option ", "about ", "environment "))]
        whole = len(lines) - len(kept)
        cut = next(line for line in lines if line.startswith("step 0.0 loss "))
        self.file.write_text("\n".join([*kept, cut]) + "\n")
        self.assertIn(f"{whole - 1} of {whole} values differ", self.golden("check", code=1).stdout)

    def test_somebody_elses_file_asks_for_a_short_run(self):
        for option, code in (("rollout-batch-size 2000000000", 2), ("rollout-batch-size 9000", 2),
                             ("num-rollout 2147483647", 2), ("num-steps-per-rollout 7", 2)):
            self.file.write_text(f"# rlreplay golden 1\noption model demo\noption {option}\n")
            said = self.golden("check", code=code).stderr
            self.assertRegex(said, "at most|more samples|does not divide")
        self.file.write_text("# rlreplay golden 1\noption model demo\n")
        self.golden("check", "--num-steps-per-rollout", "128", code=2)

    def test_what_cannot_be_golden(self):
        flat = self.golden("record", *RUN, "--rollout-temperature", "0", code=2)
        self.assertIn("gradient", flat.stderr)
        self.assertFalse(self.file.exists())
        self.golden("check", code=3)


if __name__ == "__main__":
    unittest.main()
