"""One reading of a recorded step: mismatch, objective and train see the same samples.

usage: recorded_step_test.py RLREPLAY
"""
import json
import os
import sys
import unittest

import checkpoints
import support

support.Case.program = os.path.abspath(sys.argv.pop(1))

FINDING, CORRUPT = 1, 3


def sample(number, **more):
    return {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": number, "group_id": 0,
            "prompt_length": 1, "tokens": [1, 2, 3], "log_probs": [-1.0, -2.0],
            "reward": float(number), **more}


def trained(number, rank=0, **more):
    return {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "rank": rank,
            "sample_id": number, "length": 3, "prompt_length": 1, "old_log_probs": [-1.0, -2.5],
            "log_probs": [-1.0, -2.5], "advantages": [1.0, -1.0], **more}


SAMPLES = [sample(0), sample(1)]


class OneReading(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        cls.train = ["--model", cls.model, "--threads", "1"]

    def dump(self, lines):
        path, dump = self.folder / "lines.jsonl", self.folder / "dump"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        made = self.run_program("import", path, "-o", dump, "--force")
        self.assertEqual(made.returncode, 0, made.stderr)
        return dump

    def readings(self, lines):
        """What the verbs say of the dump: tokens that count, and what depends on them."""
        dump = self.dump(lines)
        apart, = self.lines("mismatch", dump)
        objective = self.run_program("objective", "--from", dump, "--json")
        self.assertIn(objective.returncode, (0, 1), objective.stderr)
        objective = json.loads(objective.stdout.splitlines()[0])
        # The numbers are made up: a warning that they are not of this model is right.
        step = self.run_program("train", "--from", dump, *self.train, "--json")
        self.assertIn(step.returncode, (0, 1), step.stderr)
        return apart, objective, json.loads(step.stdout.splitlines()[0])

    def refused(self, lines, *words):
        """By all verbs, with one sentence, which verify says too."""
        dump = self.dump(lines)
        sentences = set()
        for verb in (["mismatch", dump], ["objective", "--from", dump],
                     ["train", "--from", dump, *self.train],
                     ["train", "--from", dump, *self.train, "--forward"]):
            result = self.run_program(*verb)
            self.assertEqual(result.returncode, CORRUPT, (verb, result.stdout, result.stderr))
            sentences.add(result.stderr.splitlines()[-1].split("dump: ")[-1])
        self.assertEqual(len(sentences), 1, sentences)
        for word in words:
            self.assertIn(word, *sentences)
        report, = self.lines("verify", "--deep", dump, code=FINDING)
        said = {problem["message"] for problem in report["problems"]}
        self.assertTrue(any(sentence in said for sentence in sentences), (sentences, said))

    def test_replicas_of_a_sample_are_one_sample(self):
        once = self.readings(SAMPLES + [trained(0), trained(1)])
        twice = self.readings(SAMPLES + [trained(n, rank) for rank in (0, 1) for n in (0, 1)])
        self.assertEqual(twice[0]["tokens"], 4)
        for a, b in zip(once, twice):
            self.assertEqual({k: v for k, v in a.items() if "seconds" not in k},
                             {k: v for k, v in b.items() if "seconds" not in k})

    def test_what_one_rank_lacks_the_other_has(self):
        lean = {k: v for k, v in trained(0).items() if k not in ("log_probs", "advantages")}
        parts = self.readings(SAMPLES + [lean, trained(1), trained(0, 1), trained(1, 1)])
        whole = self.readings(SAMPLES + [trained(0), trained(1)])
        self.assertEqual(support.bits(parts[2]), support.bits(whole[2]))
        self.assertEqual(parts[2]["recorded"]["advantages"], 2)

    def test_a_replica_that_differs_is_named_with_both_ranks(self):
        other = trained(0, 1, advantages=[1.0, -1.5])
        self.refused(SAMPLES + [trained(0), trained(1), other, trained(1, 1)],
                     "sample 0 of step 0.0", "advantages", "train/0-0/rank0.h5",
                     "train/0-0/rank1.h5", "(token 2: -1.5, not -1)")

    def agree(self, lines, others, findings=()):
        """What every verb says of two dumps is the same, and verify has nothing to say."""
        for a, b in zip(self.readings(lines), self.readings(others)):
            self.assertEqual({k: v for k, v in a.items() if "seconds" not in k},
                             {k: v for k, v in b.items() if "seconds" not in k})
        report, = self.lines("verify", "--deep", self.dump(others), code=1 if findings else 0)
        self.assertEqual({problem["code"] for problem in report["problems"]}, set(findings))
        self.assertEqual(report["not_checked"], [])

    def test_any_optional_value_may_be_missing_on_a_rank(self):
        more = {"trajectory_id": 5, "trajectory_tokens": 4, "reward": 0.5, "loss_mask": [1, 1]}
        whole = [trained(n, rank, **more) for rank in (0, 1) for n in (0, 1)]
        for key in more:
            for lean in range(4):
                lines = [dict(line) for line in whole]
                del lines[lean][key]
                with self.subTest(key=key, lean=lean):
                    self.agree(SAMPLES + whole, SAMPLES + lines)

    def test_equal_values_of_two_ranks(self):
        nan = {"reward": "7ff8000000000000"}
        once = [trained(n, **nan) for n in (0, 1)]
        self.agree(SAMPLES + once, SAMPLES + once + [trained(n, 1, **nan) for n in (0, 1)],
                   findings=["non-finite"])
        for key, value in (("reward", -0.0), ("trajectory_id", 6), ("trajectory_tokens", 3),
                           ("loss_mask", [0, 1]), ("token_weights", [0.0, 1.0, 2.0])):
            more = {"reward": 0.0, "trajectory_id": 5, "trajectory_tokens": 2,
                    "loss_mask": [1, 1], "token_weights": [0.0, 1.0, 1.0]}
            ranks = [trained(n, rank, **more) for rank in (0, 1) for n in (0, 1)]
            ranks[3][key] = value
            with self.subTest(key):
                self.refused(SAMPLES + ranks, "sample 1 of step 0.0", ", not ",
                             "rewards" if key == "reward" else key)

    @staticmethod
    def said_by(*ranks):
        """Scalars of ranks, a line each."""
        return [{"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": rank,
                 "scalars": scalars} for rank, scalars in enumerate(ranks)]

    def test_losses_are_those_of_a_ranks_samples(self):
        def lines(*losses):
            return SAMPLES + [trained(n, n) for n in range(len(losses))] + self.said_by(
                *({"pg_loss": loss, "lr": 0.5} for loss in losses))
        same = self.readings(lines(-1.0, -1.0))
        self.assertEqual(same[2]["recorded_step"]["lr"] if "recorded_step" in same[2]
                         else same[2]["record"]["lr"], 0.5)

        def pg_loss(readings):
            return next(q for q in readings[1]["quantities"] if q["name"] == "pg_loss")
        self.assertEqual(pg_loss(same)["recorded"], -1)
        other = self.readings(lines(-1.0, 999.0))
        self.assertEqual((pg_loss(other)["verdict"], pg_loss(other)["recorded"]),
                         ("not computable", None))
        self.assertIn("pg_loss@0 -1, pg_loss@1 999", pg_loss(other)["missing"])
        report, = self.lines("verify", "--deep", self.dump(lines(-1.0, 999.0)), code=0)
        self.assertEqual(report["not_checked"], ["scalars of step 0.0 that ranks say differently: "
                                                 "pg_loss@0 -1, pg_loss@1 999"])
        text = self.run_program("verify", "--deep", self.dump(lines(-1.0, 999.0))).stdout
        self.assertIn("pg_loss@1 999", text)

    def test_ranks_of_the_same_samples_say_the_same_of_them(self):
        """Losses too, in whatever order they hold them; times are each rank's own."""
        def lines(**said):
            return SAMPLES + [trained(n) for n in (0, 1)] + [trained(n, 1) for n in (1, 0)] + \
                self.said_by({"loss": 1.5, "lr": 0.5, "seconds": 3.0},
                             {"loss": 1.5, "lr": 0.5, "seconds": 4.0} | said)
        self.readings(lines())
        report, = self.lines("verify", "--deep", self.dump(lines()), code=0)
        self.assertEqual(report["not_checked"], ["scalars of step 0.0 that ranks say differently: "
                                                 "seconds@0 3, seconds@1 4"])
        self.refused(lines(loss=-2.0),
                     "step 0.0 has another loss in train/0-0/rank1.h5 than in train/0-0/rank0.h5 "
                     "(-2, not 1.5)", "the same samples")

    def test_a_number_of_the_step_is_the_same_for_all_ranks(self):
        for name in ("grad_norm", "clip_scale", "lr", "trajectories"):
            lines = SAMPLES + [trained(n, n) for n in (0, 1)]
            with self.subTest(name):
                self.readings(lines + self.said_by({name: 2.0}, {name: 2.0}))
                self.refused(lines + self.said_by({name: 2.0}, {name: 3.0}),
                             f"step 0.0 has another {name} in train/0-0/rank1.h5 than in "
                             "train/0-0/rank0.h5 (3, not 2)", "all ranks of a step")

    def test_ranks_of_the_same_samples_pack_them_alike(self):
        def lines(ranks, first, second):
            return SAMPLES + [trained(n, rank, micro_batch=packed) for rank in range(ranks)
                              for n, packed in enumerate((first, second)[rank])]
        self.readings(lines(2, (0, 1), (0, 1)))
        self.refused(lines(2, (0, 1), (0, 0)),
                     "sample 1 of step 0.0 has another micro_batch in train/0-0/rank1.h5 than in "
                     "train/0-0/rank0.h5 (0, not 1)")
        # A data-parallel rank that trains on a sample of another's, and not on all of them.
        self.readings(lines(2, (0, 1), (5,)))

    def test_an_at_sign_in_the_name_of_a_scalar_names_no_rank(self):
        def lines(*ranks):
            return SAMPLES + [trained(n, rank) for rank in range(len(ranks)) for n in (0, 1)] + [
                {"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": rank,
                 "scalars": scalars} for rank, scalars in enumerate(ranks)]

        def not_checked(rows):
            return self.lines("verify", "--deep", self.dump(rows), code=0)[0]["not_checked"]
        self.assertEqual(not_checked(lines({"pass@1": 0.5, "lr": 0.5})), [])
        told = not_checked(lines({"pass@1": 0.5}, {"pass@1": 0.25}))
        self.assertEqual(told, ["scalars of step 0.0 that ranks say differently: "
                                "pass@1@0 0.5, pass@1@1 0.25"])
        loss = next(q for q in self.readings(lines({"pg_loss@1": 7.0, "pg_loss": -1.0}))[1][
            "quantities"] if q["name"] == "pg_loss")
        self.assertEqual(loss["recorded"], -1)
        self.assertNotIn("ranks", loss.get("missing") or "")

    def test_a_mask_is_the_steps_else_the_rollouts_else_ones(self):
        far = {"old_log_probs": [-1.0, -9.5], "log_probs": [-1.0, -9.5]}
        masked = [sample(0, loss_mask=[1, 0]), sample(1, loss_mask=[1, 0])]
        rows = [trained(0, loss_mask=[1, 0], **far), trained(1, **far)]
        apart, objective, step = self.readings(masked + rows)
        self.assertEqual((apart["max"], apart["tokens"], objective["tokens"]), (0, 2, 2))
        said = self.readings(masked + [rows[0], trained(1, loss_mask=[1, 0], **far)])
        self.assertEqual(support.bits(step), support.bits(said[2]))
        # The step's own goes before the rollout's, and without any all tokens count.
        apart, objective, own = self.readings(
            masked + [trained(n, loss_mask=[1, 1], **far) for n in (0, 1)])
        self.assertEqual((apart["max"], apart["tokens"], objective["tokens"]), (7.5, 4, 4))
        bare = self.readings(SAMPLES + [trained(n, **far) for n in (0, 1)])
        self.assertEqual((bare[0]["tokens"], bare[1]["tokens"]), (4, 4))
        self.assertEqual(support.bits(own), support.bits(bare[2]))
        self.assertNotEqual(own["gradients_digest"], step["gradients_digest"])

    def test_lengths_that_contradict_are_refused(self):
        self.refused(SAMPLES + [trained(0, prompt_length=2, log_probs=[-1.0], advantages=[1.0],
                                        old_log_probs=[-1.0]), trained(1)],
                     "sample 0", "prompt", "rollout 0")
        long = {k: [-1.0, -1.0, 1.0] for k in ("log_probs", "old_log_probs", "advantages")}
        self.refused(SAMPLES + [trained(0), trained(1, length=4, **long)], "sample 1", "length")
        self.refused([sample(0, prompt_length=0, log_probs=[-1.0] * 3), sample(1),
                      trained(0, prompt_length=0, **long), trained(1)], "sample 0", "no prompt")

    def test_only_what_the_step_recorded_counts_as_compared(self):
        try:
            from dump_patch import Patched
        except ImportError:
            self.skipTest("needs h5py and xxhash")
        path, _ = self.capture("own", "--model", "demo", "--steps", "1",
                               "--rollout-batch-size", "2", "--n-samples-per-prompt", "2")
        dump = Patched(path)
        unit, rollout = dump.units["train/0-0/rank0.h5"], dump.units["rollout/0.h5"]
        tokens = rollout["0/tokens"].values.size  # those of prompts, too, whose numbers are compared
        names = {name.split("/")[1] for name in unit if "/events/" not in name}
        by_token = names - {"sample_id", "offsets", "rewards", "scalars"}
        own = (len(by_token) * tokens + unit["0-0/rewards"].values.size
               + unit["0-0/scalars"].values.size)
        self.assertNotIn("rollout_log_probs", names)
        self.assertEqual(self.closing("train", "--from", path)["values"], own)

        unit["0-0/rollout_log_probs"] = rollout["0/log_probs"].reshaped(
            rollout["0/log_probs"].values.copy())
        same = dump.write(self.folder / "same")
        self.assertEqual(self.closing("train", "--from", same)["values"], own + tokens)
        unit["0-0/rollout_log_probs"].values[-1] -= 1
        other = dump.write(self.folder / "other")
        self.assertIn("rollout_log_probs",
                      self.run_program("train", "--from", other).stdout)
        self.assertEqual(self.run_program("train", "--from", other).returncode, FINDING)

    def test_a_native_step_whose_lengths_are_not_the_rollouts(self):
        try:
            import rewritten
        except ImportError:
            self.skipTest("needs h5py and xxhash")
        dump, _ = self.capture("native", "--model", "demo", "--steps", "1",
                               "--rollout-batch-size", "2", "--n-samples-per-prompt", "2")

        def shift(offsets):
            offsets[1] += 1
            return offsets
        bad = rewritten.rewrite(dump, self.folder / "bad",
                                {"train/0-0/rank0.h5": {"0-0/offsets": shift}})
        self.assertEqual(self.run_program("verify", bad).returncode, 0)
        self.assertNotEqual(self.run_program("verify", "--deep", bad).returncode, 0)
        for verb in (["train", "--from"], ["mismatch"], ["objective", "--from"]):
            result = self.run_program(*verb, bad)
            self.assertEqual(result.returncode, CORRUPT, (verb, result.stderr))
            self.assertIn("length", result.stderr)


if __name__ == "__main__":
    unittest.main()
