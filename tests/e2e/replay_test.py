"""What a replay says: only what it did, of how much, and why record and replay part.

usage: replay_test.py RLREPLAY RLBISECT
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

try:
    import rewritten
except ImportError:
    sys.exit(77)

import checkpoints
import support

support.Case.program, support.Case.rlbisect = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

USAGE = 2
MISSING = 3
DEMO = ["--model", "demo", "--steps", "3", "--rollout-batch-size", "2", "--n-samples-per-prompt",
        "4", "--threads", "1"]
STEP, ROLLOUT, STATE = "train/1-0/rank0.h5", "rollout/0.h5", "weights/0-0/rank0.h5"


class Replay(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *DEMO)

    def rewrite(self, name, *arguments, **more):
        return rewritten.rewrite(self.dump, self.folder / name, *arguments, **more)

    def refused(self, words, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual((result.returncode, result.stdout), (USAGE, ""),
                         (arguments, result.stderr))
        for word in words:
            self.assertIn(word, result.stderr)

    def report(self, *arguments):
        """What is printed of a difference: in 80 columns, and after the table in two dozen lines."""
        result = self.run_program("train", "--from", self.dump, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        for line in result.stdout.replace(str(self.dump), "dump").splitlines():
            if not line.startswith("  rlreplay "):  # a command stays one line
                self.assertLessEqual(len(line), 80, line)
        verdict, part, rest = result.stdout.partition("run freely from the first step: ")
        self.assertTrue(part, result.stdout)
        self.assertLessEqual(len(rest.splitlines()), 26, rest)
        return verdict, rest


class OwnDumps(Replay):
    """What `train -o` writes is as whole as it says."""

    def replayed(self, name, *arguments, code=0):
        path = self.folder / name
        self.lines("train", self.dump, "-o", path, *arguments, code=code)
        return path, self.lines("verify", path)[0]

    def test_a_part_of_a_run_is_whole(self):
        path, report = self.replayed("part", "--steps", "1..2")
        self.assertEqual((report["complete"], report["problems"], report["whole_steps"]),
                         (True, [], 3))  # step 0 leads to it from the recorded state
        self.lines("train", path)
        path, report = self.replayed("planted", "--stop-at-first", "--inject",
                                     "1.0/backward/0/down/dx:5:1", code=1)
        self.assertEqual((report["complete"], report["problems"]), (True, []))

    def test_what_a_replay_has_none_of_is_named(self):
        dump = self.rewrite("more", copies={STEP: {"1-0/returns": "1-0/advantages"}})
        closing = self.closing("train", dump)
        self.assertEqual((closing["identical"], closing["not_compared"]), (True, ["returns"]))
        self.assertIn("; not compared: returns", " ".join(self.run_program("train", dump).stdout.split()))
        self.assertEqual(self.closing("train", self.dump)["not_compared"], [])

    def test_the_printed_command_shows_it_again_in_a_shell(self):
        flags = ["--steps", "1..2", "--inject", "1.0/backward/0/down/dx:5:1"]
        said = self.run_program("train", self.dump, *flags)
        self.assertEqual(said.returncode, 1, said.stderr)
        command = [line for line in said.stdout.splitlines() if "rlreplay train" in line][-1]
        self.assertIn(" --steps 1..2 ", command)
        path = f"{pathlib.Path(self.program).resolve().parent}:{os.environ['PATH']}"
        again = subprocess.run(command, shell=True, capture_output=True, text=True,
                               env={**os.environ, "PATH": path})
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn("first difference: 1.0/backward/0/down/dx", again.stdout)

    def test_where_a_replay_begins_is_said(self):
        dump, _ = self.capture("all", *DEMO, "--weights", "all")
        said = self.run_program("train", dump, "--steps", "1..2").stdout
        self.assertIn("run freely from the recorded state before step 1.0: identical", said)
        self.assertIn("run freely from the first step: identical",
                      self.run_program("train", self.dump, "--steps", "1..2").stdout)

    def test_what_is_for_a_dump_alone_is_refused_without_one(self):
        for flags in (["--each-step"], ["--inject", "0.0/backward/0/down/dx:5:1"],
                      ["-o", self.folder / "nowhere"], ["--stop-at-first"]):
            self.refused(["--from DUMP"], "train", "--model", "demo", "--steps", "1", *flags)

    def test_what_a_part_lacks_is_said(self):
        path, _ = self.replayed("lacking", "--steps", "0..1")
        short = rewritten.rewrite(path, self.folder / "short", without=["train/1-0/rank0.h5"])
        report = self.lines("verify", short, code=3)[0]
        self.assertIn("plan-missing", [problem["code"] for problem in report["problems"]])


class WithinARollout(Replay):
    """A replay that begins where the first weights of its rollout or run are not, takes what those
    gave from the record, and says so."""
    STEPS = ["--model", "demo", "--steps", "4", "--rollout-batch-size", "4",
             "--n-samples-per-prompt", "2", "--num-steps-per-rollout", "2", "--lr", "0.01",
             "--weights", "all", "--threads", "1"]

    def taken(self, dump, *arguments):
        closing = self.closing("train", dump, *arguments)
        self.assertIs(closing["identical"], True)
        return closing["taken"]

    def test_advantages_with_a_kl(self):
        dump, _ = self.capture("kl", *self.STEPS, "--advantage-estimator", "reinforce_plus_plus",
                               "--kl-coef", "0.5")
        self.assertEqual(self.taken(dump), [])
        self.assertEqual(self.taken(dump, "--steps", "0.1..0.1"), ["old_log_probs"])
        self.assertEqual(self.taken(dump, "--steps", "1.1"), ["old_log_probs"])
        self.assertEqual(self.taken(dump, "--steps", "0.1", "--each-step"), ["old_log_probs"])
        self.assertIn("taken from the record: old_log_probs",
                      " ".join(self.run_program("train", dump, "--steps", "0.1").stdout.split()))
        # A part that lacks what the whole rollout's advantages read.
        part = self.folder / "kl part"
        self.lines("train", dump, "--steps", "0.1..1.1", "-o", part)
        result = self.run_program("train", part)
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("does not hold the old_log_probs of sample", result.stderr)

    def test_a_part_with_a_reference(self):
        dump, _ = self.capture("reference", *self.STEPS, "--use-kl-loss", "--kl-loss-coef", "0.1")
        self.assertEqual(self.taken(dump), [])
        for steps, taken in (("1.0..", ["ref_log_probs"]),
                             ("0.1..", ["ref_log_probs", "old_log_probs"]), ("0.0..0.1", [])):
            part = self.folder / "part of reference"
            self.lines("train", dump, "--steps", steps, "-o", part, "--force")
            self.assertEqual(self.taken(part), taken)
            self.assertEqual(self.lines("verify", part)[0]["problems"], [])
            self.assertIsNone(self.closing("train", part)["incomplete"], steps)
        other, _ = self.capture("none", *self.STEPS)
        self.lines("train", other, "--steps", "1.0..", "-o", part, "--force")
        refused = self.run_program("train", part, "--use-kl-loss")
        self.assertEqual(refused.returncode, 3, refused.stdout)
        self.assertIn("--ref-load", refused.stderr)


class Held(Replay):
    def test_every_recorded_number(self):
        def scalar(i):
            def change(values):
                values[i] += 1
                return values
            return change
        names = set()
        for i in range(8):
            bad = self.rewrite("bad", {STEP: {"1-0/scalars": scalar(i)}})
            closing = self.closing("train", "--from", bad, code=1)
            self.assertEqual((closing["steps"], closing["different"]), (3, 1))
            found, = closing["different_values"]
            names.add(found["name"])
            self.assertIsNone(found["sample"])
        self.assertEqual(names, {"loss", "pg_loss", "entropy", "kl", "clip_fraction", "grad_norm",
                                 "clip_scale", "lr"})

    def test_every_recorded_column(self):
        def last(values):
            values[-1] = 1 - values[-1]  # of the last sample's response
            return values
        columns = ["loss_mask", "log_probs", "entropy", "advantages"]
        for name in columns:
            bad = self.rewrite("bad", {STEP: {f"1-0/{name}": last}})
            found, = self.closing("train", "--from", bad, code=1)["different_values"]
            self.assertEqual((found["name"], found["different"]), (name, 1))
            self.assertIsNotNone(found["sample"])
            text = self.run_program("train", "--from", bad).stdout
            self.assertIn("recorded numbers of step 1.0 that the replay does not give:\n  " + name,
                          text)

    def test_prompts_of_every_recorded_column(self):
        def first(values):
            values[0] = 1  # of the first sample's prompt, of which a run records 0
            return values
        for name in ("loss_mask", "log_probs", "entropy", "advantages"):
            bad = self.rewrite("bad", {STEP: {f"1-0/{name}": first}})
            found, = self.closing("train", "--from", bad, code=1)["different_values"]
            self.assertEqual((found["name"], found["token"], found["record"], found["replay"]),
                             (f"{name} of prompts", 0, 1, 0))

    def test_what_differs_is_named_causes_first(self):
        """In the order in which a run computes it, and all that is compared counts."""
        def ends(values):
            values[0], values[-1] = 1, 1 - values[-1]  # of a prompt and of a response
            return values

        def scalar(values):
            values[0] += 1
            return values
        columns = ("entropy", "log_probs", "advantages", "loss_mask")
        bad = self.rewrite("bad", {STEP: {"1-0/scalars": scalar,
                                          **{f"1-0/{name}": ends for name in columns}}})
        closing = self.closing("train", "--from", bad, code=1)
        named = [found["name"] for found in closing["different_values"]]
        self.assertEqual(set(named[:4]), {f"{name} of prompts" for name in columns})
        self.assertEqual(named[4:], ["loss_mask", "advantages", "log_probs", "entropy", "loss"])
        text = self.run_program("train", "--from", bad).stdout
        said = text.partition("that the replay does not give:\n  ")[2]
        self.assertTrue(said.startswith(named[0] + " 1 recorded"), text)
        # A number of prompts is one that was compared.
        bare = self.rewrite("bare", {STEP: {"1-0/loss_mask": ends}})
        found = self.closing("train", "--from", bare, code=1)
        compared = sum(one["compared"] for one in closing["different_values"])
        self.assertGreater(found["values"], compared)

    def test_numbers_of_a_rollout(self):
        def put(index, value):
            def change(values):
                values[index] = value
                return values
            return change
        for name, index, value, token in (("finish", 0, 3, None), ("log_probs", 0, -0.5, 0),
                                          ("loss_mask", 0, 1, 0), ("versions", 0, 7, None),
                                          ("version_starts", 0, 0, None)):
            bad = self.rewrite("bad", {ROLLOUT: {f"0/{name}": put(index, value)}})
            lines = self.lines("rollout", bad, code=1)
            self.assertEqual([line["identical"] for line in lines], [False, True, True])
            found, = lines[0]["different_values"]
            self.assertEqual((found["name"], found["token"], found["record"], found["different"]),
                             (name + " of prompts" * (token == 0), token, value, 1))
            text = self.run_program("rollout", bad).stdout
            self.assertIn("recorded numbers of rollout 0 that the replay does not give:\n  " + name,
                          text)
        fewer = {"version_offsets": put(slice(1, None), 0), "versions": lambda values: values[:0],
                 "version_starts": lambda values: values[:0]}
        bad = self.rewrite("bad", {ROLLOUT: {f"0/{name}": change for name, change in fewer.items()}})
        found, = self.lines("rollout", bad, code=1)[0]["different_values"]
        self.assertEqual((found["name"], found["record"], found["replay"]), ("version_counts", 0, 1))
        self.assertEqual(found["different"], found["compared"])

    def test_what_a_rollout_records_beside_its_tokens(self):
        """Groups, versions, masks, texts and rewards; what is held against nothing is named."""
        def put(index, value):
            def change(values):
                values[index] = value
                return values
            return change
        for name, index, value in (("response_text", 0, ord("!")), ("label_text", 0, ord("!")),
                                   ("prompt_text", 0, ord("!")), ("response_text_offsets", 1, 0),
                                   ("rewards", 0, 0.25), ("group_id", 1, 77), ("versions", 0, 5),
                                   ("loss_mask", -1, 0)):
            # Of the last: what is trained on another reward generates another rollout.
            bad = self.rewrite("bad", {"rollout/2.h5": {f"2/{name}": put(index, value)}})
            lines = self.lines("rollout", bad, code=1)
            self.assertEqual([line["identical"] for line in lines], [True, True, False], name)
            found, = lines[2]["different_values"]
            self.assertEqual(found["name"], name.removesuffix("_offsets"))
            if "text" not in name:
                self.assertEqual((found["record"], found["different"]), (value, 1))
            elif "offsets" not in name:
                self.assertEqual((found["record"], found["different"]), (value, 1))
                self.assertEqual(found["record_text"][1:], found["replay_text"][1:])
                self.assertEqual(found["record_text"][0], "!")
                self.assertIn(f'{name} "{found["record_text"]}" recorded, "{found["replay_text"]}" '
                              f"replayed: sample {found['sample']}".replace('"', "'"),
                              " ".join(self.run_program("rollout", bad).stdout.replace('"', "'").split()))
        self.assertEqual(self.closing("rollout", self.dump)["not_compared"], [])

    def test_statistics_of_events(self):
        dump, _ = self.capture("stats", *DEMO, "--record", "tensors+stats")

        def changed(values):
            values[20] += 1
            return values
        bad = rewritten.rewrite(dump, self.folder / "bad", {STEP: {"1-0/events/stats": changed}})
        found, = self.closing("train", "--from", bad, code=1)["different_values"]
        self.assertIn("statistics of forward/", found["name"])
        self.assertEqual((found["record"] - found["replay"], found["different"]), (1, 1))
        same, other = (self.closing("train", "--from", dump, *layout)
                       for layout in ([], ["--layout", "tp=2"]))
        plain = self.closing("train", "--from", self.dump)
        self.assertEqual((same["identical"], other["identical"]), (True, True))
        # Ranks sum in another order: their statistics are not held against the record's.
        self.assertEqual((same["statistics_not_compared"], plain["statistics_not_compared"]),
                         (None, None))
        why = ("the replay is of the layout dp=1,tp=2,pp=1,cp=1, the record of "
               "dp=1,tp=1,pp=1,cp=1, whose ranks sum in another order")
        self.assertEqual(other["statistics_not_compared"], why)
        self.assertEqual((same["values"] > other["values"], other["values"]),
                         (True, plain["values"]))
        rollouts = self.closing("rollout", dump, "--layout", "tp=2")
        self.assertEqual(rollouts["statistics_not_compared"], why)
        for verb in "train", "rollout":
            for layout, said in ([], False), (["--layout", "tp=2"], True):
                text = " ".join(self.run_program(verb, dump, *layout).stdout.split())
                self.assertIs("statistics of events not compared: " + why in text, said)

    def test_what_was_compared_is_said(self):
        closing = self.closing("train", "--from", self.dump)
        self.assertIs(closing["identical"], True)
        self.assertEqual((closing["steps"], closing["recorded_steps"]), (3, 3))
        self.assertGreater(closing["events"], 100)
        self.assertGreater(closing["values"], 100)
        for change in closing["largest_change"].values():
            self.assertEqual((change["change"], change["step"]), (0, None))
        last = self.run_program("train", "--from", self.dump).stdout.splitlines()[-1]
        self.assertEqual(last.strip(),
                         "largest change: loss 0, grad_norm 0, log-probability 0")
        text = self.run_program("rollout", "--from", self.dump).stdout.splitlines()
        self.assertTrue(text[-2].startswith("identical: 3 of 3 rollouts"), text)
        self.assertRegex(text[-1], r"\d+ tokens of responses, 0 differ; \d+ log-probabilities, "
                                   "largest change 0")


class Refused(Replay):
    def test_options_without_effect(self):
        for option, value in [("--model", "/nonexistent"), ("--seed", "7"),
                              ("--rollout-seed", "7"), ("--rollout-batch-size", "4"),
                              ("--n-samples-per-prompt", "2"), ("--rollout-max-response-len", "9"),
                              ("--prompts", "/nonexistent"), ("--reward", "gsm8k"),
                              ("--num-steps-per-rollout", "2"), ("--global-batch-size", "4"),
                              ("--ref-load", "/nonexistent"), ("--num-rollout", "1"),
                              ("--save", "/nonexistent")]:
            self.refused([option, "no effect on a replay", "--lr"], "train", "--from", self.dump,
                         option, value)
        for option, value in [("--rollout-batch-size", "4"), ("--seed", "7")]:
            self.refused([option, "no effect on a replay"], "rollout", "--from", self.dump, option,
                         value)
        result = self.run_program("train", "--from", self.dump, "--kl-coef", "0.1",
                                  "--ref-load", "/nonexistent")
        self.assertEqual((result.returncode, result.stdout), (MISSING, ""), result.stderr)
        self.assertIn("/nonexistent: a checkpoint is a folder; there is none", result.stderr)

    def test_options_that_need_others(self):
        for option, value, need in [
                ("--gamma", "0.5", "--advantage-estimator reinforce_plus_plus or ppo"),
                ("--lambd", "0.5", "--advantage-estimator ppo"), ("--opd-kl-coef", "2", "--use-opd"),
                ("--tis-clip", "3", "--use-tis"), ("--tis-clip-low", "0.5", "--use-tis"),
                ("--opsm-delta", "1", "--use-opsm"), ("--value-clip", "0.5", "rlreplay objective"),
                ("--min-lr", "1e-9", "--lr-decay-style linear"),
                ("--lr-decay-iters", "9", "--lr-decay-style linear"),
                ("--lr-warmup-init", "1e-9", "--lr-warmup-iters"),
                ("--kl-loss-type", "k2", "--use-kl-loss")]:
            with self.subTest(option):
                self.refused([option, "no effect on this replay: it needs", need], "train",
                             "--from", self.dump, option, value)
        self.refused(["--decay-vectors has no effect", "--weight-decay"], "train", "--from",
                     self.dump, "--weight-decay", "0", "--decay-vectors")
        for estimator, option in [("policy_gradient", "--eps-clip=0.3"), ("cispo", "--eps-clip-c=2"),
                                  ("policy_gradient", "--disable-rewards-normalization"),
                                  ("reinforce_plus_plus", "--disable-grpo-std-normalization")]:
            self.refused([option.split("=")[0], "it needs"], "train", "--from", self.dump,
                         "--advantage-estimator", estimator, option)
        self.refused(["--rollout-top-p", "--rollout-temperature above 0"], "rollout", "--from",
                     self.dump, "--rollout-temperature", "0", "--rollout-top-p", "0.5")
        for words in (["--advantage-estimator", "reinforce_plus_plus", "--gamma", "0.5"],
                      ["--use-tis", "--tis-clip", "0.5"],
                      ["--lr-decay-style", "linear", "--min-lr", "1e-9"]):
            result = self.run_program("train", "--from", self.dump, *words)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("overridden: "), 2)

    def test_what_the_record_says_may_be_said_again(self):
        result = self.run_program("train", "--from", self.dump, *DEMO[:2], "--rollout-batch-size",
                                  "2", "--threads", "2", "--micro-batch-size", "3", "--recompute")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        changed = self.run_program("train", "--from", self.dump, "--lr", "1e-3", "--steps", "0")
        self.assertEqual(changed.returncode, 1)
        self.assertEqual(changed.stderr, "overridden: lr: 5e-04 -> 0.001\n")

    def test_a_plant_that_is_not_planted(self):
        train, rollout = ("train", "--from", self.dump), ("rollout", "--from", self.dump)
        self.refused(["step 9.0 is not replayed", "0.0 to 2.0"], *train, "--inject",
                     "9.0/forward/0/down/y:0:1")
        self.refused(["step 2.0 is not replayed"], *train, "--steps", "0..1", "--inject",
                     "2.0/forward/0/down/y:0:1")
        self.refused(["no such rollout"], *rollout, "--inject", "9.0/rollout/0/down/y:0:1")
        for verb, event in ((train, "0.0/rollout/0/down/y"), (rollout, "0.0/backward/0/down/dx")):
            result = self.run_program(*verb, "--inject", event + ":0:1")
            self.assertEqual(result.returncode, USAGE, result.stdout)
            self.assertIn("nothing was planted", result.stderr)

    def test_steps_that_are_not_there(self):
        for steps in ("3", "1..3", "7..9", "3.."):
            self.refused(["3 steps"], "train", "--from", self.dump, "--steps", steps)


class Incomplete(Replay):
    def check(self, dump, word):
        closing = self.closing("train", "--from", dump)
        self.assertIn(word, closing["incomplete"])
        self.assertIn(word, self.closing("rollout", "--from", dump)["incomplete"])
        self.look(dump, word, ["train", "--from", dump], ["rollout", "--from", dump])

    def look(self, dump, word, *verbs):
        apart, = self.lines("mismatch", dump)
        self.assertIn(word, apart["incomplete"])
        exported, = self.lines("export", dump, "--to", "jsonl", "-o", self.folder / "out.jsonl",
                               "--force")
        self.assertIn(word, exported["incomplete"])
        for verb in (*verbs, ["mismatch", dump], ["objective", "--from", dump]):
            result = self.run_program(*verb)
            self.assertIn("note: ", result.stdout, (verb, result.stderr))
            self.assertIn(word, result.stdout)
        result = self.run_program("export", dump, "--to", "jsonl", "-o", "-")
        self.assertIn(word, result.stderr)

    def test_every_verb_says_so(self):
        unfinished = self.rewrite("unfinished", sealed=False)
        self.check(unfinished, "unfinished: 3 steps of it are there")
        text = self.run_program("train", "--from", unfinished).stdout
        self.assertIn("identical in the 3 steps that are there", text)
        self.check(self.rewrite("short", without=["train/2-0/rank0.h5", "rollout/2.h5"]),
                   "its run had 3 steps, 2 steps of it are there")
        gap = self.rewrite("gap", without=[STEP])
        self.look(gap, "step 1.0 is missing")
        for verb in ("train", "rollout"):  # what follows it would be computed from other weights
            result = self.run_program(verb, "--from", gap)
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertIn("the dump does not hold step 1.0", result.stderr)
        self.assertIn("identical", self.run_program("train", "--from", gap, "--steps", "0.0").stdout)
        self.assertIsNone(self.closing("train", "--from", self.dump)["incomplete"])


class Causes(Replay):
    def test_an_option_is_named_before_the_event(self):
        table, text = self.report("--lr", "1e-3")
        self.assertRegex(table, r"\nrecord +\+?-?\d|\n record")
        self.assertIn("change", table)
        self.assertTrue(text.startswith("NOT identical from step 0.0 on\n"), text)
        self.assertRegex(text, r"grad_norm \S+ \(step")
        self.assertRegex(text, r"\n  options +lr: 5e-04 -> 0.001\n")
        self.assertLess(text.index("options"), text.index("where"))

    def test_a_coarse_record_is_computed_again(self):
        injection = "1.0/backward/0/down/dx:5:1"
        found = self.lines("train", "--from", self.dump, "--inject", injection, code=1)[-1]
        origin = found["origin"]
        self.assertEqual(f"{origin['event']}:{origin['index']}:{origin['ulps']}", injection)
        self.assertIn("computed again with values on both sides", found["note"])
        _, text = self.report("--inject", injection)
        self.assertRegex(text, r"distance +\S+, \S+ of it, 1 ulp up")

    def test_two_dumps_with_another_rate(self):
        other, _ = self.capture("other", *DEMO, "--lr", "1e-3")
        found, = self.lines(self.dump, other, program=self.rlbisect)
        self.assertIn({"kind": "options", "text": "lr: 5e-04 -> 0.001"}, found["causes"])
        self.assertEqual(found["origin"]["op"], "weight")
        self.assertIsNotNone(found["origin"]["index"])
        text = self.run_program(self.dump, other, program=self.rlbisect).stdout
        self.assertIn("(--all lists them)", text)
        text = self.run_program(self.dump, other, "--all", program=self.rlbisect).stdout
        self.assertIn("floats by distance", text)
        self.assertNotIn("--all", text)

    def test_all_of_a_rollout(self):
        dump, _ = self.capture("whole", *DEMO, "--record", "ops")
        words = ("rollout", dump, "--inject", "0.0/rollout/0/down/y:5:1000000")
        short, long = (self.run_program(*words, *flags).stdout for flags in ((), ("--all",)))
        self.assertIn("(--all lists them)", short)
        self.assertNotIn("more (", long)
        self.assertGreater(len(long), len(short))

    def trained(self, name, source):
        """The same rollouts, trained on as this dump says."""
        made = self.folder / name
        self.run_program("train", "--from", source, "-o", made)
        self.assertTrue((made / "manifest.json").exists())
        return made

    def test_another_initial_state_is_no_origin(self):
        def change(values):
            values[0] *= 1.5
            return values
        source = self.rewrite("state", {STATE: {"0-0/parameters/model.norm.weight": change}})
        found, = self.lines(self.dump, self.trained("moved", source), program=self.rlbisect)
        self.assertEqual(found["origin"]["class"], "carrier", found["origin"])
        self.assertIn("state", {cause["kind"] for cause in found["causes"]})

    def test_other_rewards_are_named(self):
        source = self.rewrite("rewards", {ROLLOUT: {"0/rewards": lambda r: 1 - r}})
        found, = self.lines(self.dump, self.trained("judged", source), program=self.rlbisect)
        data = [cause["text"] for cause in found["causes"] if cause["kind"] == "data"]
        self.assertTrue(data and data[0].startswith("rewards: rollout 0, sample 0: "), data)
        text = self.run_program(self.dump, self.folder / "judged", program=self.rlbisect).stdout
        self.assertIn("given different data", text)

    def test_another_estimator_is_no_other_data(self):
        _, text = self.report("--advantage-estimator", "policy_gradient")
        self.assertIn("advantage-estimator: grpo -> policy_gradient", text)
        self.assertNotIn("different data", text)


class WrongModel(support.Case):
    def test_a_wrong_checkpoint_is_said_loudly(self):
        model = checkpoints.write(self.folder / "model", checkpoints.config())
        prompts = checkpoints.write_prompts(self.folder / "prompts.jsonl")
        dump, _ = self.capture("dump", "--model", model, "--prompts", prompts, "--num-rollout", "1",
                               "--rollout-batch-size", "2", "--n-samples-per-prompt", "2",
                               "--rollout-max-response-len", "8")
        rows = [json.loads(line) for line in
                self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout.splitlines()]
        for far in (False, True):
            path = self.folder / "rows.jsonl"
            for row in rows:
                if far and row["schema"] == "rlreplay.train/1":
                    row["log_probs"] = [x - 2 for x in row["log_probs"]]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            self.run_program("import", path, "-o", self.folder / "imported", "--force")
            result = self.run_program("train", "--from", self.folder / "imported", "--model", model,
                                      "--seed", "3", "--prompts", "/nonexistent")
            self.assertEqual(result.returncode, int(far), result.stderr)
            self.assertEqual("is this the model that wrote it?" in result.stderr, far)
            self.assertIn("no effect on a replay: --prompts", result.stderr)
            self.assertNotIn("overridden: model", result.stderr)
            self.assertIn("log-probability " + ("2" if far else "0"), result.stdout)
            closing = self.closing("train", "--from", self.folder / "imported", "--model", model,
                                   code=int(far))
            self.assertIsNone(closing["identical"])
            self.assertEqual(closing["largest_change"]["log_prob"]["change"] > 1, far)


if __name__ == "__main__":
    unittest.main()
