"""Steps of imported dumps, taken again: what was recorded is used as it is, the rest is computed.

usage: imported_test.py RLREPLAY
"""
import json
import sys
import unittest

import checkpoints
import dump_patch
import support

INCOMPLETE, UNSUPPORTED = 3, 4
OBJECTIVE = ["--lr", "1e-3", "--clip-grad", "0.5"]
SHAPE = ["--rollout-batch-size", "2", "--n-samples-per-prompt", "4"]


class Imported(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        cls.captures = {}
        for steps in ("1", "2"):
            name = f"capture {steps}"
            dump, lines = cls.capture(name, "--model", cls.model, "--prompts", prompts,
                                      "--num-rollout", "2", "--num-steps-per-rollout", steps,
                                      "--rollout-max-response-len", "10", *SHAPE, *OBJECTIVE)
            text = cls.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
            rows = [json.loads(line) for line in text.splitlines()]
            for i, row in enumerate(rows):
                if row["schema"] == "rlreplay.sample/1":
                    row["reward"] = float(i % 3)  # all of random weights are wrong
                if row["schema"] == "rlreplay.train/1":
                    row.pop("reward", None)  # as shaped from others
            cls.captures[steps] = rows, lines

    def replay(self, rows, *arguments, code=0):
        """The steps that are taken on these lines."""
        lines, dump = self.folder / "lines.jsonl", self.folder / "imported"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = self.run_program("import", lines, "-o", dump, "--force")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.lines("train", "--from", dump, "--model", self.model, *OBJECTIVE, *arguments,
                          code=code)

    @staticmethod
    def without(rows, schema, *keys):
        return [{k: v for k, v in row.items() if row["schema"] != schema or k not in keys}
                for row in rows]

    @staticmethod
    def with_advantages(rows, value):
        """Of the training data alone: every token's advantage by its sample."""
        out = []
        for row in rows:
            if row["schema"] == "rlreplay.train/1":
                row = {**row, "advantages": [value(row["sample_id"])] * len(row["advantages"])}
            out.append(row)
        return out

    def test_steps_are_named_as_they_are_taken(self):
        rows, _ = self.captures["2"]
        rows = [row for row in rows if row["schema"] == "rlreplay.sample/1" or row["rollout_id"]]
        for steps in ("1.0", "1"):  # rollout 0 was not trained on
            taken, = self.replay(rows, "--steps", steps)
            self.assertEqual((taken["rollout_id"], taken["step_id"]), (1, 0))
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in self.replay(rows)],
                         [(0, 0), (1, 0), (1, 1)])
        dump = self.folder / "imported"
        said = self.run_program("train", dump, "--model", self.model, *OBJECTIVE).stdout
        self.assertIn("3 of 3 steps of", said)
        judged, = self.lines("train", dump, "--model", self.model, "--forward", "--steps", "1.0")
        self.assertTrue({token["sample"] for token in judged["worst"]} <= {8, 9, 10, 11}, judged)

    def test_what_an_option_does_is_said(self):
        rows, _ = self.captures["2"]
        self.replay(rows)
        train = ["train", self.folder / "imported", "--model", self.model, *OBJECTIVE]

        def told(*words):
            result = self.run_program(*train, *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stderr
        self.assertEqual(told(), "overridden: lr: 1e-06 -> 0.001\n"
                                 "overridden: clip-grad: 1 -> 0.5\n")
        for words in (["--normalize-advantages"], ["--disable-rewards-normalization"],
                      ["--use-opd"], ["--advantage-estimator", "ppo", "--lambd", "0.5"],
                      ["--kl-coef", "0.1"], ["--num-steps-per-rollout", "4"],
                      ["--global-batch-size", "1"], ["--num-rollout", "3"]):
            said = told(*words)
            self.assertNotIn(f"overridden: {words[0][2:]}", said)
            self.assertIn(words[0], said.partition("no effect on a replay: ")[2])
        self.assertIn("overridden: eps-clip: 0.2 -> 0.3", told("--eps-clip", "0.3"))
        self.assertIn("overridden: advantage-estimator: grpo -> gspo",
                      told("--advantage-estimator", "gspo"))
        self.assertIn("overridden: num-rollout",
                      self.run_program(*train, "--num-rollout", "3", "--lr-decay-style",
                                       "linear").stderr)
        said = self.run_program(*train, "--rollout-top-p", "0.9")
        self.assertEqual(said.returncode, INCOMPLETE)
        self.assertNotIn("no effect", said.stderr)
        self.replay(self.without(rows, "rlreplay.train/1", "advantages"), code=0)
        self.assertIn("overridden: normalize-advantages: false -> true",
                      told("--normalize-advantages"))

    def test_batches_that_no_rollout_has(self):
        rows, _ = self.captures["2"]
        steps = self.replay(rows, "--num-rollout", "1", "--rollout-batch-size", "1",
                            "--n-samples-per-prompt", "1", "--num-steps-per-rollout", "2")
        self.assertEqual(len(steps), 4)

    def test_a_place_that_is_taken_is_refused_first(self):
        rows, _ = self.captures["2"]
        self.replay(rows)
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "mine").write_text("mine")
        train = ["train", self.folder / "imported", "--model", self.model, *OBJECTIVE, "--save"]
        for place in (taken, self.model):
            result = self.run_program(*train, place)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual((taken / "mine").read_text(), "mine")
        self.assertEqual(self.run_program(*train, taken, "--force").returncode, 2)
        self.assertEqual((taken / "mine").read_text(), "mine")
        (taken / "mine").rename(taken / "config.json")
        self.assertEqual(self.run_program(*train, taken, "--force").returncode, 0)

    def test_a_recorded_step_gives_its_recorded_bits(self):
        for steps, (rows, captured) in self.captures.items():
            replayed = self.replay(rows)
            self.assertEqual([support.bits(step) for step in replayed],
                             [{**support.bits(step), "reward_bits": mine["reward_bits"]}
                              for step, mine in zip(captured, replayed)])
            for step in replayed:
                self.assertIsNone(step["identical"])
                self.assertEqual(step["recorded"]["advantages"], step["recorded"]["samples"])
                self.assertEqual(step["recorded"]["old_log_probs"],
                                 0 if steps == "1" else step["recorded"]["samples"])
                self.assertEqual(step["forward_logp_max_diff"]["replay_vs_record"]["max"], 0)
            self.assertEqual([s["recorded"]["loss"] for s in replayed],
                             [s["loss"] for s in captured])

    def test_what_is_not_recorded_is_computed_from_rewards(self):
        rows, _ = self.captures["2"]
        shaped = self.replay(self.without(rows, "rlreplay.train/1", "advantages", "old_log_probs"))
        self.assertEqual([s["recorded"]["advantages"] for s in shaped], [0] * 4)
        # Rewards 0, 1, 2 in a group: slime's GRPO by hand.
        groups = {}
        for row in rows:
            if row["schema"] == "rlreplay.sample/1":
                groups.setdefault(row["group_id"], {})[row["sample_id"]] = row["reward"]
        advantages = {}
        for members in groups.values():
            mean = sum(members.values()) / len(members)
            deviation = (sum((r - mean) ** 2 for r in members.values()) / (len(members) - 1)) ** .5
            advantages |= {i: (r - mean) / (deviation + 1e-6) for i, r in members.items()}
        given = self.replay(self.with_advantages(rows, advantages.get))
        # Of the first rollout: the weights of the second are not those of the record any more.
        for a, b in zip(shaped[:2], given[:2]):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-6)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-5)
            self.assertGreater(a["grad_norm"], 1e-3)
        other = self.replay(self.without(rows, "rlreplay.train/1", "advantages"),
                            "--disable-grpo-std-normalization")
        self.assertNotEqual(other[0]["grad_norm"], shaped[0]["grad_norm"])

    def test_recorded_shaped_rewards_are_not_shaped_again(self):
        rows = self.without(self.captures["2"][0], "rlreplay.train/1", "advantages")
        # GRPO's advantage of a token is its sample's shaped reward.
        given = self.replay(self.with_advantages(self.captures["2"][0], lambda i: i - 2.5))
        self.assertEqual({s["recorded"]["shaped_rewards"] for s in given}, {0})

        def record(row):
            if row["schema"] == "rlreplay.train/1":
                row = {**row, "reward": row["sample_id"] - 2.5}
            return row
        rows = [record(row) for row in rows]
        # Not even raw ones are needed then.
        for lines in (rows, self.without(rows, "rlreplay.sample/1", "reward", "group_id")):
            shaped = self.replay(lines)
            for a, b in zip(shaped, given):
                self.assertEqual((a["loss"], a["grad_norm"]), (b["loss"], b["grad_norm"]))
                self.assertEqual(a["recorded"]["shaped_rewards"], a["recorded"]["samples"])
        text = self.run_program("train", "--from", self.folder / "imported", "--model", self.model,
                                *OBJECTIVE).stdout
        self.assertIn("shaped rewards of 16 of 16 for their advantages; the rest was computed",
                      " ".join(text.split()))

    def test_recorded_advantages_old_log_probs_and_masks_are_used_as_they_are(self):
        rows, _ = self.captures["2"]
        plain = self.replay(self.with_advantages(rows, lambda i: 1.0))
        twice = self.replay(self.with_advantages(rows, lambda i: 2.0))
        self.assertAlmostEqual(twice[0]["grad_norm"] / plain[0]["grad_norm"], 2, delta=1e-5)
        # A ratio of e beyond the clip: nothing pulls any more where the advantage is positive.
        moved = [{**row, "old_log_probs": [x - 1 for x in row["old_log_probs"]]}
                 if row["schema"] == "rlreplay.train/1" else row
                 for row in self.with_advantages(rows, lambda i: 1.0)]
        clipped = self.replay(moved)
        self.assertAlmostEqual(clipped[0]["clip_fraction"], 1, delta=1e-12)
        self.assertEqual(clipped[0]["grad_norm"], 0)
        masked = [{**row, "loss_mask": [0] * len(row["loss_mask"])}
                  if row["schema"] == "rlreplay.train/1" and row["sample_id"] % 2 else row
                  for row in self.with_advantages(rows, lambda i: 1.0)]
        self.assertLess(self.replay(masked)[0]["grad_norm"], plain[0]["grad_norm"])

    def test_rollouts_alone_are_cut_into_steps_by_the_options(self):
        rows, _ = self.captures["2"]
        alone = [row for row in rows if row["schema"] == "rlreplay.sample/1"]
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in self.replay(alone)],
                         [(0, 0), (1, 0)])
        cut = self.replay(alone, "--num-steps-per-rollout", "2")
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in cut],
                         [(0, 0), (0, 1), (1, 0), (1, 1)])
        whole = self.replay(self.without(rows, "rlreplay.train/1", "advantages", "old_log_probs"))
        self.assertEqual([s["weights_digest"] for s in cut], [s["weights_digest"] for s in whole])

    def test_the_lines_of_rollouts_and_steps_may_be_mixed(self):
        rows, _ = self.captures["2"]
        units = {}
        for row in rows:
            key = row["schema"], row["rollout_id"], row.get("step_id")
            units.setdefault(key, []).append(row)
        mixed, lists = [], list(units.values())[::-1]
        while any(lists):
            mixed += [rest.pop(0) for rest in lists if rest]
        self.replay(rows)
        ordered = support.root(self.program, self.folder / "imported")
        self.replay(mixed)
        self.assertEqual(support.root(self.program, self.folder / "imported"), ordered)

    def test_steps_can_be_chosen(self):
        rows, _ = self.captures["2"]
        chosen = self.replay(rows, "--steps", "1..2")
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in chosen], [(0, 1), (1, 0)])
        without_old = self.without(rows, "rlreplay.train/1", "old_log_probs")
        refused = self.replay(without_old, "--steps", "1..2", code=3)
        self.assertIn("not the first of its rollout", refused[-1]["error"]["message"])
        refused = self.replay(rows, "--steps", "9", code=2)
        self.assertIn("has 4 steps", refused[-1]["error"]["message"])
        for steps in ("0..9", "3..9"):  # before any step is taken
            refused = self.replay(rows, "--steps", steps, code=2)
            self.assertEqual(len(refused), 1)

    def test_whose_weights_and_rate_a_step_is_taken_with_is_said(self):
        self.replay(self.captures["2"][0])
        train = ("train", self.folder / "imported", "--model", self.model)
        late = self.run_program(*train, *OBJECTIVE, "--steps", "1.0")
        self.assertEqual(late.returncode, 0, late.stderr)
        self.assertIn("those of --model are taken as before the first step of --steps 1.0",
                      late.stderr)
        self.assertNotIn("by bits", late.stdout)
        other = self.run_program(*train, "--lr", "1e-5")
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("step 0.0 was taken with lr 0.001, here with 1e-05", other.stderr)

    def test_what_is_missing_is_said(self):
        rows, _ = self.captures["1"]
        train_alone = [row for row in rows if row["schema"] != "rlreplay.sample/1"]
        refused = self.replay(train_alone, code=3)
        self.assertIn("prompt length", refused[-1]["error"]["message"])
        no_reward = self.without(self.without(rows, "rlreplay.sample/1", "reward"),
                                 "rlreplay.train/1", "advantages")
        refused = self.replay(no_reward, code=3)
        self.assertIn("no reward", refused[-1]["error"]["message"])
        steps = self.replay(self.without(rows, "rlreplay.sample/1", "reward"))
        self.assertIsNone(steps[0]["reward"])
        result = self.run_program("train", "--from", self.folder / "imported")
        self.assertEqual(result.returncode, 2)
        self.assertIn("give --model", result.stderr)
        text = self.run_program("train", "--from", self.folder / "imported", "--model", self.model,
                                *OBJECTIVE)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("not recorded: weights", text.stdout)



class FromSlime(support.Case):
    """slime's files, of samples whose tokens alone do not say what a model made of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())

    def files(self, name, inputs=(), nucleus=True, rollouts=(0, 1), launch=None):
        """A dump of two rollouts with a step each; `inputs`: samples with images; `rollouts`: those
        whose rollout dump is there."""
        folder = self.folder / f"{name} files"
        for rollout in (0, 1):
            samples, trained = [], []
            for i in range(4 * rollout, 4 * rollout + 4):
                tokens, response = [10 + i, 40, 50, 60 + i, 70], 3
                floats = [-1.0 - t for t in range(response)]
                images = {"pixel_values": [[0.5]]} if i in inputs else None
                samples.append({"index": i, "group_index": i // 2, "prompt": "p", "response": "r",
                                "tokens": tokens, "response_length": response,
                                "reward": float(i % 2), "loss_mask": [1] * response,
                                "rollout_log_probs": floats, "status": "completed",
                                "multimodal_inputs": {"images": None},
                                "multimodal_train_inputs": images})
                if nucleus:
                    samples[-1] |= {"rollout_top_p_token_ids": tokens[-response:],
                                    "rollout_top_p_token_offsets": [0, 1, 2, 3]}
                trained.append({"sample_index": i, "rollout_position": i % 4, "tokens": tokens,
                                "total_lengths": 5, "response_lengths": response, "rewards": 0.5,
                                "rollout_ids": i, "loss_masks": [1] * response,
                                "log_probs": floats, "rollout_log_probs": floats,
                                "advantages": [i - 1.5] * response})
                if images:
                    trained[-1]["multimodal_train_inputs"] = images
            shard = {"rank": 0, "sample_indices": [s["index"] for s in samples],
                     "partition": list(range(4)), "micro_batch_indices": [[0, 1, 2, 3]],
                     "num_microbatches": [1], "global_batch_sizes": [4]}
            if rollout in rollouts:
                support.save(folder / f"rollout_data/{rollout}.pt",
                             {"rollout_id": rollout, "samples": samples})
            support.save(folder / f"train_data/{rollout}.pt",
                         {"format_version": 2, "rollout_id": rollout, "rank": 0,
                          "samples": trained, "dp_shards": [shard]})
        dump = self.folder / name
        made = self.run_program("import", folder, "-o", dump, "--force", "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        if launch:
            patched = dump_patch.Patched(dump)
            patched.meta["launch"] = launch
            dump = patched.write(self.folder / f"{name} launched")
        return dump, {f["code"]: f["message"] for f in json.loads(made.stdout)["findings"]}

    def refused(self, code, dump, *flags):
        """What both that compute log-probabilities say; the objective has them recorded."""
        said = []
        for more in ([], ["--forward"]):
            result = self.run_program("train", dump, "--model", self.model, *flags, *more)
            self.assertEqual(result.returncode, code, (more, result.stdout, result.stderr))
            said.append(result.stderr)
        self.assertIn(self.run_program("objective", dump).returncode, (0, 1))
        return said

    def taken(self, dump, *flags):
        for more in ([], ["--forward"]):
            result = self.run_program("train", dump, "--model", self.model, *flags, *more)
            self.assertIn(result.returncode, (0, 1), (more, result.stderr))

    def test_what_top_p_kept_is_there_or_the_samples_are_refused(self):
        first = ("--steps", "0.0")
        self.taken(self.files("whole")[0], *first)
        self.taken(self.files("whole")[0], *first, "--rollout-top-p", "0.9")
        untold, _ = self.files("untold", nucleus=False)
        self.taken(untold, *first)
        for said in self.refused(INCOMPLETE, untold, *first, "--rollout-top-p", "0.9"):
            self.assertIn("for sample 0. The rollout dump does", said)
        self.taken(untold, *first, "--rollout-top-p", "0.9", "--dialect", "miles")
        # One rollout says that there was a top-p; of the other only the training data is there.
        half, _ = self.files("half", rollouts=(0,))
        self.taken(half, *first)
        result = self.run_program("train", half, "--model", self.model)
        self.assertEqual(result.returncode, INCOMPLETE, result.stderr)
        self.assertIn("for sample 4", result.stderr)

    def test_a_wrapped_launch_says_its_top_p(self):
        for words in ({"command": ["train.py", "--rollout-top-p", "0.9"]},
                      {"command": ["train.py"], "script": ["--rollout-top-p=0.95"]}):
            dump, _ = self.files("wrapped", rollouts=(), launch=words)
            self.refused(INCOMPLETE, dump, "--steps", "0.0")
            self.taken(dump, "--steps", "0.0", "--rollout-top-p", "1")
        all_ids = {"command": ["train.py", "--rollout-top-p", "1.0"]}
        self.taken(self.files("wrapped", rollouts=(), launch=all_ids)[0], "--steps", "0.0")

    def test_samples_of_images_are_refused_by_name(self):
        for name, rollouts in (("images", (0, 1)), ("images trained on", ())):
            dump, findings = self.files(name, inputs=(1, 3, 6), nucleus=False, rollouts=rollouts)
            self.assertIn("3 samples were made from more than their tokens", findings["inputs"])
            for said in self.refused(UNSUPPORTED, dump, "--steps", "0.0"):
                self.assertIn("samples of rollout 0 were made from more", said)
                self.assertIn("do not read: 1, 3", said)
            back, again = self.folder / f"{name} back", self.folder / f"{name} again"
            self.run_program("export", dump, "--to", "slime", "-o", back)
            self.run_program("import", back, "-o", again)
            self.assertEqual(self.run_program("diff", dump, again).returncode, 0)
            self.refused(UNSUPPORTED, again, "--steps", "1.0")
            self.assertEqual(self.run_program("verify", "--deep", dump).returncode, 0)
            # Lines hold no images: they say that there were some, and so does what is made of them.
            lines, of_lines = self.folder / f"{name}.jsonl", self.folder / f"{name} of lines"
            self.run_program("export", dump, "--to", "jsonl", "-o", lines)
            self.run_program("import", lines, "-o", of_lines)
            for step, said in (("0.0", "do not read: 1, 3"), ("1.0", "do not read: 6")):
                for text in self.refused(UNSUPPORTED, of_lines, "--steps", step):
                    self.assertIn(said, text)
            again = self.folder / f"{name} again.jsonl"
            self.run_program("export", of_lines, "--to", "jsonl", "-o", again)
            self.assertEqual(again.read_text(), lines.read_text())
            if rollouts:
                files, of_files = self.folder / f"{name} files", self.folder / f"{name} of files"
                self.run_program("export", of_lines, "--to", "slime", "-o", files)
                self.run_program("import", files, "-o", of_files)
                self.refused(UNSUPPORTED, of_files, "--steps", "0.0")
        _, findings = self.files("texts", nucleus=False)
        self.assertNotIn("inputs", findings)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
