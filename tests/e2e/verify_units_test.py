"""What verify finds where several units, ranks or events are of one rollout or step, with every hash repaired.
usage: verify_units_test.py RLREPLAY"""
import json
import sys
import unittest

import support
from support import Case
from verify_case import CORRUPT, VerifyCase

Case.program = sys.argv[1]
del sys.argv[1]


class Units(VerifyCase):
    def test_a_rollout_in_several_units(self):
        """It is read as one, by every verb."""
        def verbs(dump):
            out = []
            for verb in (["train", "--from"], ["mismatch"], ["objective", "--from"],
                         ["rollout", "--from"]):
                result = self.run_program(*verb, dump, "--json")
                self.assertEqual(result.returncode, 0, (verb, result.stdout, result.stderr))
                lines = [json.loads(line)
                         for line in result.stdout.replace(str(dump), "DUMP").splitlines()]
                out.append([{k: v for k, v in line.items() if "seconds" not in k}
                            for line in lines])
            return out

        def split(dump):
            dump.split_rollout("rollout/0.h5", "rollout/0b.h5", 2)
        path = self.patched(split, self.good)
        self.found(path, "--deep", code=0)
        whole = verbs(self.good)
        self.assertEqual(verbs(path), whole)

        def without_texts(dump):
            unit = dump.units["rollout/0.h5"]
            for name in [name for name in unit if "_text" in name]:
                del unit[name]
        exported = []
        for number, change in enumerate((split, without_texts)):
            made, dump = [], self.patched(change, self.good)
            for form in "slime", "miles":
                out = self.folder / f"{form} {number}"
                result = self.run_program("export", dump, "--to", form, "-o", out)
                self.assertEqual(result.returncode, 0, result.stderr)
                made.append((support.files(out), result.stderr))
            exported.append(made)
        self.assertEqual(*exported)

        def no_samples_first(dump):
            """The events of the rollout lie in another unit than its samples."""
            unit = dump.units["rollout/0.h5"]
            events = {name: unit.pop(name) for name in list(unit) if "events" in name}
            dump.units["rollout/0a.h5"] = events
        path = self.patched(no_samples_first, self.good)
        self.found(path, "--deep", code=0)
        self.assertEqual(verbs(path), whole)

        def trained_twice(dump):
            dump.units["train/0-0a/rank0.h5"] = dict(dump.units["train/0-0/rank0.h5"])
        path = self.patched(trained_twice, self.good)
        refused = self.run_program("export", path, "--to", "safetensors", "-o", self.folder / "st")
        self.assertEqual(refused.returncode, CORRUPT, refused.stderr)
        self.assertIn("another unit holds train/0-0/rank0/", refused.stderr)

        def twice(dump):
            split(dump)
            ids = dump.at("rollout/0b.h5", "0/sample_id")
            ids.values[0] = dump.at("rollout/0.h5", "0/sample_id").values[-1]
        report = self.finds({"meaning"}, twice, CORRUPT, of=self.plain)
        self.assertIn("stands in two units", report["problems"][-1]["message"])
        path = self.folder / "patched"
        verbs = [["show", path, "--sample", "0"], ["show", path, "--samples"],
                 ["export", path, "--to", "jsonl", "-o", "-"],
                 ["diff", path, self.plain], ["diff", self.plain, path]]
        self.refused_by(verbs, "stands in two units")

        def copied(dump):
            dump.units["rollout/0b.h5"] = dict(dump.units["rollout/0.h5"])
        self.finds({"meaning"}, copied, CORRUPT, of=self.plain)
        self.refused_by(verbs, "stands in two units")

        def of_another_type(dump):
            unit = dump.units["rollout/0.h5"]
            unit["0/tokens"] = unit["0/tokens"].reshaped(unit["0/tokens"].values, "u64")
        self.finds({"meaning"}, of_another_type, CORRUPT, of=self.plain)
        self.refused_by(verbs, "is u64")

        def half_prompts(dump):
            split(dump)
            del dump.units["rollout/0b.h5"]["0/prompt_length"]
        self.finds({"meaning"}, half_prompts, CORRUPT, of=self.plain)

    def refused_by(self, verbs, word):
        for verb in verbs:
            result = self.run_program(*verb)
            self.assertEqual(result.returncode, CORRUPT, (verb, result.stdout, result.stderr))
            self.assertIn(word, result.stderr, verb)
            if verb[0] == "diff":  # which of the two it is
                patched = self.folder / "patched"
                self.assertIn(f"{patched}/", result.stderr)
                for other in {str(dump) for dump in verb[1:]} - {str(patched)}:
                    self.assertNotIn(other, result.stderr)

    def test_events_in_two_units(self):
        def twice(unit):
            def change(dump):
                other = unit.replace(".h5", "b.h5")
                dump.units[other] = {n: a for n, a in dump.units[unit].items() if "events" in n}
            return change
        for unit in ("rollout/1.h5", "train/1-0/rank0.h5"):
            with self.subTest(unit):
                report = self.finds({"meaning"}, twice(unit), CORRUPT)
                self.assertIn("its events lie in", report["problems"][-1]["message"])
                path = self.folder / "patched"
                self.refused_by([["show", path, "--event", "1.0/forward/-/batch/token"
                                  if "train" in unit else "1.0/rollout/-/batch/token"]],
                                "its events lie in")

    def test_names_of_groups(self):
        """A step has one name: what is written otherwise is no step, for no reader."""
        names = {"rollout/1.h5": ("01", "1-0", "-0", "one"),
                 "train/1-0/rank0.h5": ("01-0", "1-00", "1--0", "1", "1.0", "+1-0"),
                 "weights/1-0/rank0.h5": ("1-00", "01-0", "1")}
        for unit, others in names.items():
            for other in others:
                def rename(dump):
                    own = "1" if "rollout" in unit else "1-0"
                    dump.units[unit] = {n.replace(own, other, 1): a
                                        for n, a in dump.units[unit].items()}
                with self.subTest(unit=unit, name=other):
                    self.finds({"index-form"}, rename, CORRUPT, deep=False)
                    path = self.folder / "patched"
                    self.refused_by([["diff", self.good, path], ["show", path],
                                     ["mismatch", path],
                                     ["export", path, "--to", "jsonl", "-o", "-"]], other)

    def test_masks_of_what_is_there(self):
        def two(dump):
            unit = dump.units["train/1-0/rank0.h5"]
            unit["1-0/advantages_present"] = unit["1-0/sample_id"].reshaped([2, 1, 1, 1], "u8")
        self.finds({"meaning"}, two, CORRUPT, of=self.plain)
        path = self.folder / "patched"
        self.refused_by([["diff", self.plain, path], ["show", path, "--step", "1.0"],
                         ["objective", "--from", path], ["train", "--from", path]],
                        "is 2, expected 0 or 1")

    def test_what_a_replay_could_not_read(self):
        def no_groups(dump):
            dump.units["rollout/1.h5"].pop("1/group_id")
        self.finds({"not-replayable"}, no_groups, of=self.plain)

        def torn(dump):
            names = dump.at("train/1-0/rank0.h5", "1-0/events/tensors")
            names.values[0] = ord("x")
        _, report = self.found(self.patched(torn, self.plain), "--deep", code=0)
        self.assertIn("train/1-0: digests of 1 event of another table than docs/events.md",
                      report["not_checked"])


if __name__ == "__main__":
    unittest.main()
