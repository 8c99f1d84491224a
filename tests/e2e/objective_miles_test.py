"""rlreplay objective on Miles' dumps, with the terms of policy_loss_debug.
usage: objective_miles_test.py PROGRAM
"""
import json
import math
import os
import random
import sys
import unittest

from objective_formulas import advantages, f32, quantity, settings
from support import Case, save

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]


class Miles(Case):
    """A dump as Miles writes it, with the terms of the policy loss."""

    def dump(self, name, clip=0.2, spoil=None, sampler=0.0, sampler_is_old=False, masked=False,
             at_mask=None, zeroed=True):
        """`sampler`: how far its log-probabilities lie from the trainer's; `at_mask`: the trainer's
        log-probability of sample 1's masked token; `zeroed`: Miles' terms of masked tokens, else
        slime's."""
        rng, noise = random.Random(7), random.Random(8)
        folder = self.folder / name
        samples, data, debug, kl, loss = [], {}, [], [], []
        rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        of = advantages([{"sample_id": i, "group_id": i // 4, "reward": r}
                         for i, r in enumerate(rewards)])
        for i, reward in enumerate(rewards):
            length = 5 + i
            old = [f32(-rng.random() * 3) for _ in range(length)]
            mask = [0 if t == 2 or masked else 1 for t in range(length)]
            sampled = [f32(x + noise.uniform(-sampler, sampler)) for x in old]
            samples.append({"index": i, "group_index": i // 4, "tokens": list(range(3 + length)),
                            "response_length": length, "reward": reward, "loss_mask": mask,
                            "rollout_log_probs": sampled, "status": "completed", "prompt": "p",
                            "response": "r", "label": "l", "weight_versions": ["0"]})
            if at_mask is not None and i == 1:
                old[2] = at_mask
            row = {"tokens": list(range(3 + length)), "total_lengths": 3 + length,
                   "response_lengths": length, "loss_masks": mask, "sample_indices": i,
                   "rewards": f32(of[i]), "rollout_log_probs": sampled, "log_probs": old,
                   "advantages": [f32(of[i])] * length, "returns": [f32(of[i])] * length}
            for key, value in row.items():
                data.setdefault(key, []).append(value)
            now = [f32(x + rng.uniform(-0.5, 0.5)) for x in old]
            old = sampled if sampler_is_old else old
            debug.append({"index": i, "total_length": 3 + length, "response_length": length,
                          "train_log_probs": now, "old_log_probs": list(old),
                          "advantages": row["advantages"], "local_loss_mask": mask})
            for a, b, m in zip(now, old, mask):
                ratio = math.exp(a - b)
                term = max(-ratio * of[i], -min(max(ratio, 1 - clip), 1 + clip) * of[i])
                counts = m or not zeroed
                kl.append(f32(b - a) if counts else 0.0)
                loss.append(f32(term) if counts else -0.0)
        if spoil:
            spoil(debug, kl, loss)
        save(folder / "rollout_data/0.pt", {"rollout_id": 0, "metadata": {}, "samples": samples})
        save(folder / "train_data/0_0.pt", {"rollout_id": 0, "rank": 0, "rollout_data": data,
                                            "cp_rank": 0, "cp_size": 1, "qkv_format": "thd"})
        # Two micro-batches, each with indices of its own.
        cut = sum(len(row["old_log_probs"]) for row in debug[:5])
        for call, (rows, begin, end) in enumerate(((debug[:5], 0, cut), (debug[5:], cut, None))):
            rows = [{**row, "index": k} for k, row in enumerate(rows)]
            save(folder / f"policy_loss_debug/rank_0_call_{call}.pt",
                 {"rank": 0, "call": call, "samples": rows, "ppo_kl": kl[begin:end],
                  "pg_loss": loss[begin:end], "finite": {}})
        return folder

    def test_the_terms_are_imported_and_reproduced(self):
        folder = self.dump("miles")
        dump = self.folder / "imported"
        self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
        step, = self.lines("objective", "--from", dump)
        for name in ("rewards", "returns", "advantages", "policy_kl", "policy_loss"):
            self.assertIn(quantity(step, name)["verdict"], ("equal", "rounding"), name)
        self.assertEqual(quantity(step, "policy_loss")["compared"], sum(range(5, 13)))
        for name in ("pg_loss", "loss", "entropy", "clip_fraction"):
            self.assertEqual(quantity(step, name)["verdict"], "not recorded")
        self.assertIsNotNone(quantity(step, "pg_loss")["computed"])
        # Read directly, without an import by hand, it is the same.
        self.assertEqual(self.lines("objective", "--from", folder), [step])
        # The current log-probabilities are the step's, the old ones those before it.
        text = self.run_program("show", dump, "--sample", "6", "--json").stdout
        row = json.loads(text)
        for key in ("0-0/log_probs", "0-0/old_log_probs", "0-0/policy_loss"):
            self.assertEqual(len(row[key]), 11)
        self.assertNotEqual(row["0-0/log_probs"], row["0-0/old_log_probs"])

    def test_a_reward_key_that_no_reward_has_is_refused(self):
        folder = self.folder / "dicts"
        save(folder / "rollout_data/0.pt", {"rollout_id": 0, "metadata": {}, "samples": [
            {"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
             "reward": {"acc": 1.0, "format": 0.0}, "status": "completed", "prompt": "p",
             "response": "r", "label": "l"} for i in range(2)]})
        made = self.folder / "dict dump"
        result = self.run_program("import", folder, "--reward-key", "nokey", "-o", made)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('no reward holds a number "nokey"; there are acc, format', result.stderr)
        self.assertFalse(made.exists())
        result = self.run_program("import", folder, "--reward-key", "acc", "-o", made)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_another_clip_is_found(self):
        step, = self.lines("objective", "--from", self.dump("clip", 0.05), code=1)
        self.assertEqual(quantity(step, "policy_loss")["verdict"], "different")
        self.assertEqual(step["explanations"], [])
        step, = self.lines("objective", "--from", self.folder / "clip", "--eps-clip", "0.05")
        self.assertTrue(step["reproduced"])

    def test_one_term_is_named(self):
        def spoil(debug, kl, loss):
            loss[5 + 3] += 0.25  # the fourth token of the second response
        step, = self.lines("objective", "--from", self.dump("spoiled", spoil=spoil), code=1)
        found = quantity(step, "policy_loss")
        self.assertEqual((found["sample"], found["token"], found["different"]), (1, 3 + 3, 1))

    def test_rows_that_fit_no_sample_are_told(self):
        def orphan(debug, kl, loss):
            debug[3]["old_log_probs"][0] += 0.5
        folder = self.dump("orphan", spoil=orphan)
        result = self.run_program("import", folder, "-o", self.folder / "orphan dump", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {f["code"]: f["where"] for f in json.loads(result.stdout)["findings"]
                if f["code"].startswith("policy-loss")}
        self.assertEqual(told, {"policy-loss-unplaced": "policy_loss_debug/rank_0_call_0.pt",
                                "policy-loss-missing": "step 0.0"})
        step, = self.lines("objective", "--from", folder)
        self.assertEqual(quantity(step, "policy_loss")["compared"], sum(range(5, 13)) - 8)
        self.assertEqual(step["policy_loss_unplaced"], 1)
        for where in (folder, self.folder / "orphan dump"):
            text = self.run_program("objective", "--from", where).stdout
            self.assertIn("no row of policy_loss_debug fits 1 sample of the step", text)
            self.assertIn("what can be computed of 1 step is reproduced", text)
            self.assertNotIn("all that is recorded", text)

    def test_a_file_that_is_missing_is_told(self):
        folder = self.dump("lost")
        (folder / "policy_loss_debug/rank_0_call_1.pt").unlink()
        result = self.run_program("import", folder, "-o", self.folder / "lost dump")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("finding policy-loss-missing: no row of policy_loss_debug fits 3 samples: a file "
                      "of the step is missing, or is another's (step 0.0)", result.stdout)
        whole = self.run_program("import", self.dump("not lost"), "-o", self.folder / "whole dump")
        self.assertNotIn("policy-loss", whole.stdout)

    def test_the_samplers_log_probabilities_name_the_rows_too(self):
        flags = ("--use-rollout-logprobs",)
        folder = self.dump("sampler", sampler=0.3, sampler_is_old=True)
        step, = self.lines("objective", "--from", folder, *flags)
        for name in ("policy_kl", "policy_loss"):
            self.assertIn(quantity(step, name)["verdict"], ("equal", "rounding"), name)
            self.assertEqual(quantity(step, name)["compared"], sum(range(5, 13)))
        self.assertIn("all that is recorded of 1 step is reproduced",
                      self.run_program("objective", "--from", folder, *flags).stdout)

        def spoil(debug, kl, loss):
            loss[5 + 3] += 0.25
        folder = self.dump("sampler false", sampler=0.3, sampler_is_old=True, spoil=spoil)
        step, = self.lines("objective", "--from", folder, *flags, code=1)
        found = quantity(step, "policy_loss")
        self.assertEqual((found["sample"], found["token"], found["different"]), (1, 3 + 3, 1))

    def test_the_terms_are_those_before_opsm_and_tis(self):
        folder = self.dump("corrected", sampler=0.3)
        lines = self.folder / "corrected.jsonl"
        self.run_program("import", folder, "-o", self.folder / "corrected dump")
        self.run_program("export", self.folder / "corrected dump", "--to", "jsonl", "-o", lines)
        for flags in (("--use-tis", "--tis-clip", "1.1", "--tis-clip-low", "0.9"),
                      ("--use-opsm", "--opsm-delta", "0.001")):
            step, = self.lines("objective", "--from", folder, *flags)
            self.assertIn(quantity(step, "policy_loss")["verdict"], ("equal", "rounding"))
            # JSON lines hold the terms as the loss sums them: there the other one is named.
            step, = self.lines("objective", "--from", lines, "--dialect", "miles", *flags, code=1)
            self.assertEqual(settings(step), ["policy_loss before OPSM and TIS"])

    def gspo(self, debug, kl, loss, clip=0.2):
        """Each sample's terms as Miles takes them: a masked token times 0, a mean of NaN as 0."""
        kl.clear()
        loss.clear()
        for row in debug:
            mask = row["local_loss_mask"]
            moved = sum((b - a) * m for a, b, m in zip(row["train_log_probs"], row["old_log_probs"], mask))
            mean = 0.0 if math.isnan(moved) else moved / sum(mask)
            ratio, of = math.exp(-mean), row["advantages"][0]
            term = max(-ratio * of, -min(max(ratio, 1 - clip), 1 + clip) * of)
            kl += [f32(mean) * m for m in mask]
            loss += [f32(term) * m for m in mask]

    def test_a_masked_token_that_spoils_its_samples_mean_is_named(self):
        flags = ("--advantage-estimator", "gspo")
        step, = self.lines("objective", "--from", self.dump("gspo", spoil=self.gspo), *flags)
        self.assertTrue(step["reproduced"])
        for value, said in ((-math.inf, "-inf"), (math.nan, "NaN")):
            folder = self.dump(f"gspo {said}", spoil=self.gspo, at_mask=value)
            step, = self.lines("objective", "--from", folder, *flags, code=1)
            self.assertEqual(quantity(step, "policy_loss")["sample"], 1)
            found, = step["explanations"]
            self.assertEqual(found["settings"], ["the NaN of a masked token"])
            self.assertEqual(found["quantities"], ["policy_kl", "policy_loss"])
            self.assertEqual(found["reasons"], [
                "old_log_probs of sample 1, token 5, whose loss mask is 0 (0 times it is NaN) "
                f"({said}); Miles takes a mean of NaN, as GSPO and OPSM have it, as 0"])

    def test_a_tis_that_there_was_not_is_named(self):
        """Under each dialect; where Miles' own file may hold the terms before it, beside that."""
        def lines_of(name, **of):
            dump, lines = self.folder / f"{name} dump", self.folder / f"{name}.jsonl"
            self.run_program("import", self.dump(name, sampler=0.3, **of), "-o", dump)
            self.run_program("export", dump, "--to", "jsonl", "-o", lines)
            return lines
        lines = lines_of("slime no tis", zeroed=False)
        step, = self.lines("objective", "--from", lines, "--use-tis", code=1)
        self.assertEqual(settings(step), ["without --use-tis"])
        text = self.run_program("objective", "--from", lines, "--use-tis").stdout
        self.assertNotIn("Miles", text)
        lines = lines_of("no tis")
        step, = self.lines("objective", "--from", lines, "--use-tis", "--dialect", "miles", code=1)
        self.assertEqual(settings(step), ["policy_loss before OPSM and TIS"])
        self.assertIn(["without --use-tis"], step["explanations"][0]["rivals"])
        text = self.run_program("objective", "--from", lines, "--use-tis", "--dialect", "miles").stdout
        self.assertRegex(text, "or with: .*without --use-tis")

    def test_means_of_a_masked_step_are_zero(self):
        """Whatever its tokens have, which need not be recorded."""
        folder = self.dump("all masked", masked=True, zeroed=False)
        dump = self.folder / "all masked dump"
        lines = self.folder / "all masked.jsonl"
        self.run_program("import", folder, "-o", dump)
        self.run_program("export", dump, "--to", "jsonl", "-o", lines)
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        zero = dict.fromkeys(("pg_loss", "entropy", "loss"), 0.0)
        step, = [row for row in rows if row["schema"] == "rlreplay.step/1"] or [None]
        rows = [row for row in rows if row is not step]
        rows.append({**(step or {"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": 0}),
                     "scalars": zero})
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        step, = self.lines("objective", "--from", lines)
        for name in zero:
            self.assertEqual(quantity(step, name)["verdict"], "equal", name)

    def test_terms_of_masked_tokens_are_held_to_the_dialect(self):
        """Miles writes them as 0, slime computes them: a false one is named."""
        place = 5 + 2  # sample 1's masked token
        for name, zeroed, of in (("miles", True, {}), ("slime", False, {}),
                                 ("all masked miles", True, {"masked": True})):
            flags = ("--dialect", name.split()[-1])
            step, = self.lines("objective", "--from", self.dump(name, zeroed=zeroed, **of), *flags)
            self.assertEqual(quantity(step, "policy_kl")["compared"], sum(range(5, 13)))
            for column in ("policy_kl", "policy_loss"):
                def spoil(debug, kl, loss):
                    (kl if column == "policy_kl" else loss)[place] += 0.25
                folder = self.dump(f"{name} {column}", zeroed=zeroed, spoil=spoil, **of)
                step, = self.lines("objective", "--from", folder, *flags, code=1)
                found = [(q["name"], q["sample"], q["token"], q["different"])
                         for q in step["quantities"] if q["verdict"] == "different"]
                self.assertEqual(found, [(column, 1, 3 + 2, 1)], name)
            other = {"miles": "slime", "slime": "miles"}[name.split()[-1]]
            step, = self.lines("objective", "--from", self.folder / name, "--dialect", other, code=1)
            self.assertEqual(settings(step), ["--dialect " + name.split()[-1]])


if __name__ == "__main__":
    unittest.main(verbosity=1)
