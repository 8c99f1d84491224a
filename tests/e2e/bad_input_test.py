"""Bad input: one clear sentence, the exit code of its kind, and nothing half done.
usage: bad_input_test.py PROGRAM
"""
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import checkpoints
from support import SEED, Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))

USAGE, CORRUPT, UNSUPPORTED, ENVIRONMENT = 2, 3, 4, 5
NOBODY = 65534
SMALL = ["--rollout-batch-size", "2", "--n-samples-per-prompt", "2", "--rollout-max-response-len",
         "4", "--steps", "1"]
# What a run may say before it is refused: facts, not a second refusal.
NOTE = re.compile(r"rlreplay: (memory: |rollout \d+: all advantages are 0)")


class Refusal(Case):
    """What is told of a refusal, and that it leaves nothing behind."""

    def refused(self, code, words, *arguments, output=True, **options):
        """The program ends with `code` and one sentence that has all words."""
        result = self.run_program(*arguments, **options)
        said = result.stderr.strip().splitlines()
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        sentence = said[-1] if said else ""
        for word in words:
            self.assertIn(word, sentence)
        self.assertTrue(sentence.startswith("rlreplay: "), sentence)
        self.assertLess(len(sentence), 700)
        for word in ("terminate called", "std::", "HDF5-DIAG", "#0"):
            self.assertNotIn(word, result.stderr)
        notes = [line for line in said[:-1] if not NOTE.match(line)]
        self.assertEqual([line for line in notes if line.startswith("rlreplay: ")], [])
        if output:
            self.assertEqual(result.stdout, "")
        return sentence


class LongFiles(Refusal):
    def test_files_much_longer_than_the_manifest_says_are_not_read(self):
        """Holes cost nothing on the disk, and must cost no memory."""
        dump = self.folder / "longer"
        self.run_program("capture", "--model", "demo", *SMALL, "-o", dump)
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
        for name, longer in (("units.index", 3 << 30), ("journal/0.jsonl", 900 << 20)):
            path = dump / name
            size = path.stat().st_size
            os.truncate(path, longer)
            for verb in ("show", "verify"):
                with self.subTest(name, verb=verb):
                    result = self.run_program(verb, dump, preexec_fn=limit)
                    self.assertEqual(result.returncode, CORRUPT, result.stdout + result.stderr)
                    self.assertIn(f"{longer} bytes, expected {size}", result.stdout + result.stderr)
            os.truncate(path, size)


class Models(Refusal):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        cls.config = checkpoints.config()
        cls.good = checkpoints.write(cls.folder / "good", cls.config, chat_template="{{ nobody }}")

    def copy(self):
        path = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(self.good, path, dirs_exist_ok=True)
        return path

    def run_refused(self, code, words, model, *arguments):
        self.refused(code, words, "train", "--model", model, "--prompts", self.prompts, *SMALL,
                     *arguments)
        dump = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "dump"
        self.refused(code, words, "capture", "--model", model, "--prompts", self.prompts, *SMALL,
                     *arguments, "-o", dump)
        self.assertFalse(dump.exists())

    def test_the_good_one_is_good(self):
        result = self.run_program("train", "--model", self.good, "--prompts", self.prompts, *SMALL)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_missing_files(self):
        self.run_refused(CORRUPT, ["nowhere"], self.folder / "nowhere")
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            with self.subTest(name):
                model = self.copy()
                (model / name).unlink()
                self.run_refused(CORRUPT, [name], model)

    def test_truncated_files(self):
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            for share in (0, 0.5, 0.999):
                with self.subTest(name, share=share):
                    model = self.copy()
                    content = (model / name).read_bytes()
                    (model / name).write_bytes(content[:int(len(content) * share)])
                    self.run_refused(CORRUPT, [name], model)

    def test_tensors(self):
        good = checkpoints.weights(self.config)
        name = "model.layers.1.mlp.up_proj.weight"
        shape, values = good[name]
        for value, word in ((math.nan, "NaN"), (math.inf, "infinit")):
            bad = {**good, name: (shape, values[:77] + [value] + values[78:])}
            model = checkpoints.write(self.folder / word, self.config, bad)
            self.run_refused(CORRUPT, [name, "77", word], model)
        turned = {**good, name: (shape[::-1], values)}
        model = checkpoints.write(self.folder / "turned", self.config, turned)
        self.run_refused(CORRUPT, [name, "48", "32"], model)
        del turned[name]
        self.run_refused(CORRUPT, [name],
                         checkpoints.write(self.folder / "absent", self.config, turned))

    def test_what_is_not_supported(self):
        model = checkpoints.write(self.folder / "gpt2", {**self.config, "model_type": "gpt2",
                                                         "architectures": ["GPT2LMHeadModel"]})
        self.run_refused(UNSUPPORTED, ["gpt2"], model)
        messages = self.folder / "messages.jsonl"
        messages.write_text(json.dumps({"messages": [{"role": "user", "content": "1+1="}],
                                        "label": "2"}) + "\n")
        self.refused(UNSUPPORTED, ["chat template", "render"], "train", "--model", self.good,
                     "--prompts", messages, *SMALL)

    def test_memory(self):
        """A huge checkpoint, a file of holes: refused before anything is read or taken."""
        config = checkpoints.config("llama", hidden_size=16384, intermediate_size=65536,
                                    num_hidden_layers=16, num_attention_heads=128,
                                    num_key_value_heads=8, head_dim=128)
        model = checkpoints.write(self.folder / "huge", config, {})
        header, end = {}, 0
        for name, shape in checkpoints.shapes(config).items():
            start, end = end, end + 4 * math.prod(shape)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(model / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        self.run_refused(ENVIRONMENT, ["GB of memory", "weights", "moments", "smaller"], model)
        options = ["--rollout-batch-size", "100000", "--rollout-slots", "1000000",
                   "--n-samples-per-prompt", "1000"]
        self.refused(ENVIRONMENT, ["GB of memory", "--rollout-slots"], "train", "--model",
                     self.good, "--prompts", self.prompts, *options, "--micro-batch-size", "1")


class Prompts(Refusal):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())

    def run_refused(self, code, words, lines, *arguments):
        path = self.folder / "prompts.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" if isinstance(line, dict) else line
                                for line in lines))
        return self.refused(code, words, "train", "--model", self.model, "--prompts", path, *SMALL,
                            *arguments)

    def test_prompts(self):
        good = {"prompt": "1+1=", "label": "2"}
        for code, words, lines in (
                (CORRUPT, ["prompts.jsonl", "prompt"], []),
                (CORRUPT, ["prompts.jsonl:2", "label"], [good, {"prompt": "1+2="}]),
                (CORRUPT, ["prompts.jsonl:2"], [good, "{\"prompt\": \"1"]),
                (CORRUPT, ["prompts.jsonl:2"], [good, {"text without a prompt": "1"}]),
                (CORRUPT, ["prompts.jsonl:1", "258"],
                 [{"prompt_token_ids": [1, 258], "label": "2"}]),
                (UNSUPPORTED, ["prompts.jsonl:2", "96"],
                 [good, {"prompt": "x" * 96, "label": "2"}])):
            with self.subTest(words):
                self.run_refused(code, words, lines)
        for line in ({"prompt": "1+1="}, {"prompt": "1+1=", "mine": None}):  # null is as good as absent
            there = "mine (null), prompt" if "mine" in line else "there are prompt"
            self.run_refused(CORRUPT, ["prompts.jsonl:1: --label-key", '"mine"', there], [line], "--label-key", "mine")
        self.refused(CORRUPT, ["nowhere.jsonl"], "train", "--model", self.model, "--prompts",
                     self.folder / "nowhere.jsonl", *SMALL)
        self.refused(USAGE, ["--prompts"], "train", "--model", self.model, *SMALL)

    def test_reward_programs(self):
        good = [{"prompt": "1+1=", "label": "2"}]
        for code, words, command in (
                (ENVIRONMENT, ["exit", "7"], "exit 7"),
                (ENVIRONMENT, ["signal"], "kill -9 $$"),
                (ENVIRONMENT, ["--reward-time-limit"], "sleep 60"),
                (CORRUPT, ["hello"], "while read line; do echo hello; done"),
                (CORRUPT, ["nan"], "while read line; do echo nan; done"),
                (CORRUPT, ["4"], "cat > /dev/null; echo 1"),
                (CORRUPT, ["9 numbers for 1 "], "cat > /dev/null; seq 9")):
            with self.subTest(command):
                self.run_refused(code, words, good, "--reward", "command", "--reward-command",
                                 command, "--reward-time-limit", "1")


class Options(Refusal):
    def test_options(self):
        for words, arguments in (
                (["--n-samples-per-promt", "--n-samples-per-prompt"],
                 ["--n-samples-per-promt", "4"]),
                (["--steps", "--num-rollout"], ["--num-rollout", "2"]),
                (["--kl-coef", "--kl-loss-coef"],
                 ["--kl-coef", "0.1", "--use-kl-loss", "--kl-loss-coef", "0.1"]),
                (["--lr", "fast"], ["--lr", "fast"]),
                (["--lr"], ["--lr", "-1"]),
                (["--advantage-estimator", "grpo"], ["--advantage-estimator", "magic"]),
                (["--global-batch-size", "7"], ["--global-batch-size", "7"]),
                (["--reward-command"], ["--reward", "command"])):
            with self.subTest(arguments):
                self.refused(USAGE, words, "train", "--model", "demo", "--steps", "1", *arguments)
        self.refused(CORRUPT, ["stray"], "train", "--model", "demo", "--steps", "1", "stray")
        self.refused(UNSUPPORTED, ["tp=3"], "train", "--model", "demo", "--layout", "tp=3")
        self.refused(USAGE, ["--from"], "train", "--model", "demo", "--each-step")
        self.refused(USAGE, ["--weights", "some"], "capture", "--model", "demo", "--weights",
                     "some", "-o", self.folder / "some")
        self.refused(USAGE, ["--record", "all"], "capture", "--model", "demo", "--record", "all",
                     "-o", self.folder / "some")
        self.assertFalse((self.folder / "some").exists())

    def test_the_command_line_itself(self):
        for words, arguments in ((["verb"], []), (["magic"], ["magic"]),
                                 (["-o"], ["capture", "--model", "demo"]),
                                 (["--from"], ["train", "--from"]),
                                 (["DUMP"], ["rollout"])):
            with self.subTest(arguments):
                self.refused(USAGE, words, *arguments)
        result = self.run_program("train", "--model", "demo", "--lr", "fast", "--json")
        error = json.loads(result.stdout)["error"]
        self.assertEqual((error["code"], result.returncode), ("usage", USAGE))
        self.assertIn("--lr", error["message"])

    def test_an_empty_text(self):
        for arguments in (["export", "x", "--to", "jsonl", "-o", ""], ["export", "", "--to", "jsonl",
                          "-o", "x"], ["import", "", "-o", "x"], ["import", "x", "-o", ""],
                          ["train", "--model", "demo", "--save", ""], ["train", ""],
                          ["train", "--from", ""], ["train", "x", "--model", ""],
                          ["train", "x", "--ref-load", ""], ["capture", "--model", "demo", "-o", ""],
                          ["capture", "--model", "demo", "-o", "x", "--prompts", ""],
                          ["golden", "check", ""], ["diff", "", "x"], ["diff", "x", ""],
                          ["show", "x", "--tokenizer", ""], ["mismatch", "x", "--plot", ""],
                          ["verify", ""], ["seal", ""], ["upgrade", "", "-o", "x"],
                          ["tokenize", "--model", "demo", ""], ["train", "x", "--config", ""],
                          ["score", "--model", "", "x"]):
            with self.subTest(arguments):
                self.refused(USAGE, ["empty text"], *arguments, cwd=self.folder)
        self.assertFalse((self.folder / "x").exists())

    def test_an_option_that_the_help_leaves_out_has_its_name(self):
        """Options without effect on a verb are taken from a launch script's words."""
        for option in ("lr", "seed", "num-rollout"):
            once = self.refused(USAGE, [f"--{option} is given more than once"], "objective", "dump/",
                                f"--{option}", "1", f"--{option}", "2")
            self.assertNotIn(":  ", once)
            self.refused(USAGE, [f"--{option} needs a value"], "objective", "dump/", f"--{option}")
        said = self.run_program("objective", "--help").stdout
        self.assertNotIn("--lr", said)
        self.assertNotIn("hidden", said + self.run_program("--help-json").stdout)

    def test_a_missing_value(self):
        result = self.run_program("objective", "--from", "dump", "--eps-clip")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--eps-clip needs a value; see rlreplay objective --help", result.stderr)


class Targets(Refusal):
    """Where a capture cannot write."""
    DEMO = ["capture", "--model", "demo", "--steps", "2", "--rollout-batch-size", "2", "-o"]

    def test_an_existing_dump(self):
        path, _ = self.capture("dump", *self.DEMO[1:-1])
        before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
        self.refused(USAGE, ["dump", "--force"], *self.DEMO, path)
        self.refused(USAGE, ["same dump"], "train", "--from", path, "-o", path, "--force")
        self.assertEqual({p: p.read_bytes() for p in path.rglob("*") if p.is_file()}, before)
        self.assertEqual(self.run_program(*self.DEMO, path, "--force").returncode, 0)
        other = self.folder / "papers"
        other.mkdir()
        (other / "thesis.txt").write_text("years of work")
        self.refused(USAGE, ["papers"], *self.DEMO, other)
        self.refused(USAGE, ["papers"], *self.DEMO, other, "--force")
        self.assertEqual((other / "thesis.txt").read_text(), "years of work")

    def test_a_target_that_cannot_be_written(self):
        self.refused(ENVIRONMENT, ["rlreplay-test"], *self.DEMO, "/proc/rlreplay-test")
        file = self.folder / "file"
        file.write_text("")
        self.refused(USAGE, ["file"], *self.DEMO, file)
        self.assertEqual(file.read_text(), "")
        folder = self.folder / "read only"
        folder.mkdir()
        folder.chmod(0o555)
        user = {}
        if os.access(folder, os.W_OK):  # to root it means nothing
            self.folder.chmod(0o755)
            user = {"user": NOBODY}
            if self.run_program("--version", **user).returncode != 0:
                print("SKIPPED: the read-only folder, as nobody may run the program",
                      file=sys.stderr)
                return
        self.refused(ENVIRONMENT, ["read only"], *self.DEMO, folder / "dump", **user)
        self.refused(ENVIRONMENT, ["read only"], *self.DEMO, folder, **user)
        self.assertEqual(list(folder.iterdir()), [])

    def begin(self, path):
        """A capture that goes on until it is stopped, with some steps stored."""
        process = subprocess.Popen(
            [self.program, "capture", "--model", "demo", "--steps", "100000",
             "--rollout-batch-size", "2", "-o", path], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: (path / "train/3-0/rank0.h5").exists() or process.poll() is not None)
        self.assertIsNone(process.poll())
        return process

    def test_two_captures_and_control_c(self):
        path = self.folder / "live"
        process = self.begin(path)
        self.refused(USAGE, ["live"], *self.DEMO, path)
        self.refused(USAGE, ["live", "writ"], *self.DEMO, path, "--force")
        self.refused(USAGE, ["live", "writ"], "capture", "--resume", "-o", path)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130)
        said, = [line for line in said.splitlines() if "nothing is learned" not in line]
        self.assertIn("interrupted", said)
        self.assertIn("rlreplay verify", said)
        report = self.lines("verify", path, code=CORRUPT)[0]
        self.assertIs(report["complete"], False)
        self.assertGreaterEqual(report["whole_steps"], 4)
        self.assertEqual(report["units"], report["whole_units"])
        # What is stored can be replayed.
        steps = self.lines("train", "--from", path, "--steps", "0..3")
        self.assertEqual([step["identical"] for step in steps], [True] * 4)

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", disk],
                                 capture_output=True)
        if mounted.returncode != 0:
            print("SKIPPED: the full disk, as no tmpfs can be mounted here", file=sys.stderr)
            return
        try:
            command = ["60" if word == "2" and self.DEMO[i - 1] == "--steps" else word
                       for i, word in enumerate(self.DEMO)]
            self.refused(ENVIRONMENT, ["space"], *command, disk / "dump", output=False)
            self.judge_what_is_left(disk / "dump")
            moved = self.folder / "moved"  # where there is room, it goes on
            shutil.copytree(disk / "dump", moved)
            self.lines("capture", "--resume", "-o", moved)
            report = self.lines("verify", "--deep", moved)[0]
            self.assertEqual((report["complete"], report["whole_steps"]), (True, 60))
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_limit_on_files(self):
        """What a quota does, where no disk can be filled: files may not grow beyond a size."""
        path = self.folder / "limited"

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))

        self.refused(ENVIRONMENT, ["limited"], *self.DEMO, path, output=False, preexec_fn=limit)
        if (path / "journal/0.jsonl").exists():
            self.judge_what_is_left(path)
        # Below the size of the first state: nothing could be stored, all of it can now.
        self.assertEqual(self.run_program(*self.DEMO, path, "--force").returncode, 0)
        # What is built beside its name does not stay, and nobody is told to resume it.
        again = self.folder / "again"
        said = self.refused(ENVIRONMENT, ["run again"], "train", path, "-o", again, output=False,
                            preexec_fn=limit)
        self.assertNotIn("resume", said)
        self.assertFalse(again.exists())

    def judge_what_is_left(self, path):
        report = self.lines("verify", path, code=CORRUPT)[0]
        self.assertEqual(report["units"], report["whole_units"])
        self.assertEqual(report["problems"], [])


class Dumps(Refusal):
    """Damage in every kind of file of a dump."""
    KINDS = ["journal/0.jsonl", "manifest.json", "rollout/0.h5", "train/1-0/rank0.h5",
             "weights/0-0/rank0.h5"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.good, _ = cls.capture("good", "--model", "demo", "--steps", "2",
                                  "--rollout-batch-size", "2")
        cls.random = random.Random(SEED)

    def damaged(self, name, change):
        path = self.folder / "damaged"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.good, path)
        if change is None:
            (path / name).unlink()
        else:
            (path / name).write_bytes(change((path / name).read_bytes()))
        return path

    def judge(self, name, path):
        """verify finds it; a replay that reads it refuses it with a sentence."""
        report = self.lines("verify", path, code=CORRUPT)[-1]
        found = report.get("problems") or [report.get("error", {})]
        text = json.dumps(report)
        self.assertIn(pathlib.Path(name).name, text)
        self.assertTrue(found[0].get("message"), text)
        for verb in ("train", "rollout"):
            # Rollouts need no step after the last of them.
            if verb == "train" or not name.startswith("train/1-0"):
                self.refused(CORRUPT, [name], verb, "--from", path, output=False)
                continue
            result = self.run_program(verb, "--from", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("NOT", result.stdout)

    def test_a_flipped_bit(self):
        for name in self.KINDS:
            size = (self.good / name).stat().st_size
            for at in [0, size - 1, self.random.randrange(size)]:
                bit = 1 << self.random.randrange(8)
                with self.subTest(name, seed=SEED, at=at, bit=bit):
                    self.judge(name, self.damaged(
                        name, lambda b: b[:at] + bytes([b[at] ^ bit]) + b[at + 1:]))

    def borders(self, name):
        """Lengths to which a file may have been cut: of its records, of HDF5's signature and
        superblock, and within."""
        content = (self.good / name).read_bytes()
        ends = [0, len(content) - 1, self.random.randrange(1, len(content))]
        if name.endswith(".h5"):
            return ends + [8, 48]
        lines = [at + 1 for at, byte in enumerate(content) if byte == 10]
        return ends + [at for line in lines for at in (line - 1, line) if at < len(content)]

    def test_truncation(self):
        for name in self.KINDS:
            for left in sorted(set(self.borders(name))):
                with self.subTest(name, seed=SEED, left=left):
                    self.judge(name, self.damaged(name, lambda b: b[:left]))

    def test_a_damaged_state(self):
        """What does not begin with it can still be read."""
        whole, _ = self.capture("states", "--model", "demo", "--steps", "4",
                                "--rollout-batch-size", "2", "--weights", "all")
        name = "weights/2-0/rank0.h5"
        for change in (None, lambda b: b[:-1],
                       lambda b: b[:len(b) // 2] + bytes([b[len(b) // 2] ^ 1]) + b[len(b) // 2 + 1:]):
            path = self.folder / "damaged states"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(whole, path)
            content = (path / name).read_bytes()
            (path / name).unlink() if change is None else (path / name).write_bytes(change(content))
            report = self.lines("verify", "--deep", path, code=CORRUPT)[0]
            self.assertEqual([p["path"] for p in report["problems"]], [name])
            self.assertEqual(report["whole_units"], report["units"] - 1)
            self.refused(CORRUPT, [name], "train", "--from", path, "--each-step", output=False)
            self.refused(CORRUPT, [name], "train", "--from", path, "--steps", "2", output=False)
            self.assertTrue(self.lines("train", "--from", path, "--steps", "3")[0]["identical"])
            steps = self.lines("train", "--from", path)  # freely from the first state
            self.assertEqual([step["identical"] for step in steps], [True] * 4)

    def test_unfinished_dumps(self):
        """Of a dump whose writer died, the journal says what is whole."""
        lines = (self.good / "journal/0.jsonl").read_bytes().splitlines(keepends=True)
        for kept in range(1, len(lines) + 1):
            for torn in (b"", b"{\"body\":{"):
                path = self.damaged("manifest.json", None)
                (path / "INCOMPLETE").write_bytes(b"nonsense")  # told, and nothing rests on it
                (path / "journal/0.jsonl").write_bytes(b"".join(lines[:kept]) + torn)
                report = self.lines("verify", path, code=CORRUPT)[0]
                self.assertEqual(report["units"], min(kept, len(lines) - 1) - 1)  # the last one says the end
                self.assertEqual({p["code"] for p in report["problems"]} - {"unlisted"},
                                 {"record-syntax"})
        for at in range(len(lines)):
            changed = bytearray(lines[at])
            changed[self.random.randrange(10, len(changed) - 50)] ^= 1
            (path / "journal/0.jsonl").write_bytes(b"".join(lines[:at]) + bytes(changed) +
                                                 b"".join(lines[at + 1:]))
            with self.subTest(seed=SEED, line=at):
                self.judge("journal/0.jsonl", path)
        (path / "journal/0.jsonl").write_bytes(b"")
        self.assertTrue(self.lines("verify", path, code=CORRUPT)[0]["problems"])

    def test_a_missing_file(self):
        for name in self.KINDS:
            with self.subTest(name):
                self.judge(name, self.damaged(name, None))
        for verb in ("train", "rollout"):
            self.refused(CORRUPT, ["nowhere"], verb, "--from", self.folder / "nowhere")


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
