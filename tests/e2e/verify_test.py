"""Every promise that `rlreplay verify --help` makes, one check a promise: a dump that breaks it
alone, with every hash repaired, is found. usage: verify_test.py RLREPLAY"""
import copy
import json
import sys
import unittest

import numpy

from dump_patch import Patched
from support import Case
from verify_case import CORRUPT, FINDING, UNSUPPORTED, VerifyCase

Case.program = sys.argv[1]
del sys.argv[1]


class Verify(VerifyCase):
    def test_a_whole_dump(self):
        for path in (self.good, self.plain, self.patched(lambda dump: None)):
            found, report = self.found(path, "--deep", code=0)
            self.assertEqual((found, report["verdict"], report["complete"]),
                             (set(), "complete", True))
        text = self.run_program("verify", self.good).stdout.splitlines()
        self.assertEqual(text[0], f"complete: {self.good}, 9 of 9 units whole, 3 whole steps")

    def test_stored_bytes(self):
        path = self.patched(lambda dump: None)
        unit = path / "train/1-0/rank0.h5"
        data = bytearray(unit.read_bytes())
        data[len(data) // 2] ^= 1
        unit.write_bytes(data)
        found, report = self.found(path, code=CORRUPT)
        self.assertEqual((found, report["verdict"]), ({"unit-hash"}, "DAMAGED"))
        text = self.run_program("verify", path).stdout
        self.assertTrue(text.startswith("DAMAGED"), text)
        self.assertEqual([p["offset"] for p in report["problems"]], [None])  # any of its bytes
        unit.write_bytes(data[:100])
        found, report = self.found(path, code=CORRUPT)
        self.assertEqual([(p["code"], p["offset"]) for p in report["problems"]], [("unit-size", 100)])
        self.assertIn("(train/1-0/rank0.h5 at byte 100)", self.run_program("verify", path).stdout)
        (path / "journal/0.jsonl").unlink()
        (path / "manifest.json").write_text("no record\n")
        self.assertNotIn("root", self.run_program("verify", path).stdout)

    def test_tables_of_events_that_go_together(self):
        """Also of a dump that says nothing of its run, and which no replay could read."""
        def without(name):
            def change(dump):
                dump.meta.pop("config")
                for unit, datasets in dump.units.items():
                    for path in [p for p in datasets if p.endswith(f"/events/{name}")]:
                        del datasets[path]
            return change
        for name in ("row_set_offsets", "run_count", "row_digest", "value_start", "rank"):
            self.finds({"meaning"}, without(name), code=CORRUPT)
        self.found(self.patched(without("stats")), "--deep", code=0)

    def test_whose_word_the_content_is(self):
        self.assertIn("content is as recorded", self.run_program("verify", self.good).stdout)
        deep = self.run_program("verify", "--deep", self.good).stdout
        self.assertNotIn("as recorded", deep)

    def test_the_record_of_a_unit(self):
        def other_group(made):
            if made["path"] == "train/1-0/rank0.h5":
                made["groups"] = ["7-7"]
        path = Patched(self.good).write(self.folder / "groups", change=other_group)
        self.assertEqual(self.found(path, "--deep", code=CORRUPT)[0], {"content"})
        self.assertEqual(self.run_program("train", "--from", path).returncode, CORRUPT)

        def other_content(made):
            made["group_contents"] = {g: "0" * 32 for g in made["groups"]}
        path = Patched(self.good).write(self.folder / "contents", change=other_content)
        self.assertEqual(self.found(path, "--deep", code=CORRUPT)[0], {"content"})
        for pair in ((self.good, path), (path, self.good)):
            refused = self.run_program("diff", *pair)
            self.assertEqual(refused.returncode, CORRUPT, refused.stdout)
            self.assertIn(str(path), refused.stderr)
            self.assertNotIn(str(self.good), refused.stderr)

    def test_all_ranks_rollouts_and_steps(self):
        def two_ranks(dump):
            dump.meta["ranks"] = 2
        report = self.finds({"rank-missing"}, two_ranks, CORRUPT, deep=False)
        self.assertEqual((report["whole_steps"], report["verdict"]), (0, "INCOMPLETE"))

        def a_million_ranks(dump):
            dump.meta["ranks"] = 1 << 20
        report = self.finds({"rank-missing"}, a_million_ranks, CORRUPT, deep=False)
        for problem in report["problems"]:
            self.assertTrue(problem["message"].endswith("step: 1, 2, 3, 4 and 1048571 more"), problem)

        def same_rank_twice(dump):
            dump.meta["ranks"] = 2
            dump.units["train/0-0/rank00.h5"] = dump.units["train/0-0/rank0.h5"]
        report = self.finds({"rank-missing"}, same_rank_twice, CORRUPT, deep=False)
        self.assertEqual(report["whole_steps"], 0)
        for gone in (["train/1-0/rank0.h5"], ["train/2-0/rank0.h5", "rollout/2.h5"],
                     ["rollout/1.h5", "train/1-0/rank0.h5"]):
            with self.subTest(gone):
                self.finds({"plan-missing"}, lambda dump: [dump.units.pop(u) for u in gone],
                           CORRUPT, deep=False)

    def test_unfinished_and_recovered(self):
        path = self.patched(lambda dump: None, sealed=False)
        report = self.found(path, code=CORRUPT)[1]
        self.assertEqual((report["verdict"], report["complete"]), ("UNFINISHED", False))

        def recovered(dump):
            dump.complete = False
        report = self.found(self.patched(recovered), code=0)[1]
        self.assertEqual((report["verdict"], report["complete"]), ("recovered", False))

    def test_copies_of_a_tensor_on_two_ranks(self):
        """Also of a dump that names no model."""
        def two_ranks(change):
            def patched(dump):
                dump.meta = {"ranks": 2}
                for unit in [u for u in dump.units if u.endswith("/rank0.h5")]:
                    dump.units[unit.replace("rank0", "rank1")] = copy.deepcopy(dump.units[unit])
                change(dump.units["weights/1-0/rank1.h5"])
            return patched
        self.assertEqual(self.found(self.patched(two_ranks(lambda unit: None)), "--deep", code=0)[0], set())
        for name in ("parameters/model.norm.weight", "exp_avg/model.norm.weight"):
            def other(unit):
                unit[f"1-0/{name}"].values[2] += 1
            problem, = self.finds({"meaning"}, two_ranks(other), CORRUPT)["problems"]
            self.assertEqual(problem["path"], "weights/1-0/rank1.h5")
            self.assertRegex(problem["message"],
                             rf"^element \[2\] of {name} is .* here, and .* in weights/1-0/rank0.h5$")

    def test_a_gap_between_rollouts(self):
        def gap(dump):
            dump.meta.pop("config")
            for unit in [u for u in dump.units if u.startswith(("rollout/1", "train/1", "weights/1"))]:
                dump.units.pop(unit)
        path = self.patched(gap, of=self.plain)
        for depth in ((), ("--quick",), ("--deep",)):
            report = self.found(path, *depth, code=0)[1]
            said = [note for note in report["not_checked"] if note.startswith("rollout 1: neither samples")]
            self.assertEqual(len(said), 1, report)
        self.assertFalse([note for note in self.found(self.plain, code=0)[1]["not_checked"]
                          if "neither samples" in note])

    def test_a_damaged_unit_of_an_extension_hides_nothing_of_others(self):
        def masked(dump):
            dump.units["x-mine/a.h5"] = {"a/tokens": dump.at("rollout/0.h5", "0/tokens")}
            dump.at("rollout/0.h5", "0/loss_mask").values[0] = 1
            dump.at("train/1-0/rank0.h5", "1-0/events/rank").values[-1] += 100
        path = self.patched(masked, of=self.plain)
        unit = path / "x-mine/a.h5"
        unit.write_bytes(unit.read_bytes()[:-1])
        found, report = self.found(path, "--deep", code=CORRUPT)
        self.assertEqual(found, {"unit-size", "bad-mask", "event"}, report["problems"])
        self.assertIn("what units of extensions say: one of them is damaged", report["not_checked"])

    def test_a_rollout_in_two_units_is_judged_once(self):
        def change(dump):
            dump.split_rollout("rollout/0.h5", "rollout/0b.h5", 2)
            dump.at("rollout/0.h5", "0/loss_mask").values[0] = 1
            dump.at("rollout/0.h5", "0/version_starts").values[0] = 100
        report = self.finds({"bad-mask", "bad-version"}, change, of=self.plain)
        of = [p["code"] for p in report["problems"] if p["code"] in ("bad-mask", "bad-version")]
        self.assertEqual(sorted(of), ["bad-mask", "bad-version"], report["problems"])

    def test_samples_that_join(self):
        def add(to, dataset, index=0):
            def change(dump):
                dump.at(to, dataset).values[index] += 100
            return change
        self.finds({"sample-unknown"}, add("train/1-0/rank0.h5", "1-0/sample_id", -1))
        self.finds({"event"}, add("rollout/1.h5", "1/tokens", 3))
        self.finds({"event"}, add("rollout/1.h5", "1/events/rank"))
        self.finds({"event"}, add("train/1-0/rank0.h5", "1-0/events/rank", -1))

        def swap(dump):
            ids = dump.at("rollout/0.h5", "0/sample_id").values
            ids[0], ids[1] = ids[1], ids[0]
        self.finds({"meaning"}, swap, CORRUPT)

        def twice(dump):
            ids = dump.at("train/1-0/rank0.h5", "1-0/sample_id").values
            ids[0] = ids[1]
        self.finds({"meaning"}, twice, CORRUPT)

    def test_tokens_against_the_model(self):
        def vocabulary(dump):
            dump.at("rollout/1.h5", "1/tokens").values[9] = 2147483646
        self.finds({"bad-token"}, vocabulary)

        def positions(dump):
            model = json.loads(dump.meta["model"])
            model["max_position_embeddings"] = 8
            dump.meta["model"] = json.dumps(model)
        self.finds({"too-long"}, positions)

    def test_how_samples_ended_and_which_weights_wrote_them(self):
        def put(dataset, value):
            def change(dump):
                dump.at("rollout/1.h5", dataset).values[-1] = value
            return change
        ends = self.loaded[self.plain].at("rollout/1.h5", "1/finish").values
        self.finds({"bad-finish"}, put("1/finish", 1 - ends[-1]), of=self.plain)
        self.finds({"bad-finish"}, put("1/finish", 2), of=self.plain)
        self.finds({"meaning"}, put("1/finish", 7), CORRUPT, of=self.plain)
        self.finds({"bad-version"}, put("1/version_starts", 100), of=self.plain)
        self.finds({"bad-version"}, put("1/versions", 999), of=self.plain)
        prompt = self.loaded[self.plain].at("rollout/1.h5", "1/prompt_length").values[-1]
        report = self.finds({"bad-version"}, put("1/version_starts", prompt + 1), of=self.plain)
        self.assertIn(f" begin at its token {prompt + 1}, not with its response",
                      report["problems"][0]["message"])

        def last_has(copies):  # of its version
            def change(dump):
                unit = dump.units["rollout/1.h5"]
                for name, more in (("1/versions", 0), ("1/version_starts", 1)):
                    old = list(unit[name].values)
                    unit[name] = unit[name].reshaped(old[:-1] + [old[-1] + more * i for i in range(copies)])
                ends = list(unit["1/version_offsets"].values)
                unit["1/version_offsets"] = unit["1/version_offsets"].reshaped(ends[:-1] + [ends[-2] + copies])
            return change
        for copies, said in ((0, "0 versions"), (2, "2 versions")):
            report = self.finds({"bad-version"}, last_has(copies), of=self.plain)
            message, = [p["message"] for p in report["problems"] if p["code"] == "bad-version"]
            self.assertIn(f" has weights of {said}, captured is one", message)

    def test_masks_and_numbers(self):
        def put(unit, dataset, index, value):
            def change(dump):
                dump.at(unit, dataset).values[index] = value
            return change
        self.finds({"bad-mask"}, put("rollout/0.h5", "0/loss_mask", 0, 1), of=self.plain)
        self.finds({"prompt-value"}, put("train/0-0/rank0.h5", "0-0/advantages", 0, 1.5),
                   of=self.plain)
        last = -1
        self.finds({"non-finite"}, put("train/0-0/rank0.h5", "0-0/entropy", last, numpy.nan),
                   of=self.plain)
        self.finds({"bad-log-prob"}, put("rollout/0.h5", "0/log_probs", last, 2.0), of=self.plain)
        for unit, dataset in (("rollout/0.h5", "0/rewards"), ("train/0-0/rank0.h5", "0-0/rewards")):
            for value in (numpy.nan, numpy.inf):
                self.finds({"non-finite"}, put(unit, dataset, 0, value), of=self.plain)

    def test_copies_on_several_ranks(self):
        def copy(dump):
            dump.meta["ranks"] = 2
            for unit in [u for u in dump.units if u.startswith("train/")]:
                dump.units[unit.replace("rank0", "rank1")] = {
                    d: a.reshaped(a.values + 1 if d.endswith("events/rank") else a.values.copy())
                    for d, a in dump.units[unit].items()}
        self.found(self.patched(copy, self.plain), "--deep", code=0)

        def differs(dump):
            copy(dump)
            dump.at("train/1-0/rank1.h5", "1-0/advantages").values[-1] -= 0.5
        self.finds({"replica-mismatch"}, differs, of=self.plain)

    def test_events(self):
        unit, events = "train/1-0/rank0.h5", "1-0/events/"

        def change(dataset, index=0, by=1):
            def apply(dump):
                dump.at(unit, dataset).values[index] += by
            return apply
        for name, index, by in (("digest", 0, 1), ("row_digest", 5, 1), ("values_f32", 17, 1),
                                ("values_f64", 0, 1), ("stats", 2, 1), ("run_position", 0, 1),
                                ("value_start", 0, 1), ("nonfinite", 0, 1)):
            with self.subTest(name):
                path = self.patched(change(events + name, index, by))
                found, report = self.found(path, "--deep", code=FINDING)
                self.assertTrue(found & {"event", "meaning"}, report["problems"])
        scalars = Patched(self.good).at(unit, "1-0/scalars").attributes["columns"].split("\n")
        for name in ("loss", "pg_loss", "entropy", "grad_norm", "clip_scale"):
            with self.subTest(name):
                self.finds({"event"}, change("1-0/scalars", scalars.index(name)), of=self.plain)
        for column in ("log_probs", "entropy", "advantages"):
            with self.subTest(column):
                self.finds({"event"}, change("1-0/" + column, -1, -0.5))

        def rollout(dump):
            dump.at("rollout/1.h5", "1/log_probs").values[-1] -= 0.5
        self.finds({"event"}, rollout)

        def token(dump):
            tokens = dump.at("rollout/1.h5", "1/tokens").values
            tokens[3] = 3 if tokens[3] != 3 else 4
        self.finds({"event"}, token, of=self.plain)

    def test_states(self):
        def change(dataset, unit="weights/1-0/rank0.h5", by=1):
            def apply(dump):
                dump.at(unit, dataset).values[0] += by
            return apply
        for part in ("parameters", "exp_avg", "exp_avg_sq"):
            with self.subTest(part):
                self.finds({"state"}, change(f"1-0/{part}/model.norm.weight"))
        self.finds({"state"}, change("1-0/scalars"))

        def gone(dump):
            dump.units["weights/1-0/rank0.h5"].pop("1-0/parameters/model.norm.weight")
        self.finds({"state"}, gone)

    def test_states_of_which_no_step_can_be_computed(self):
        """Of the first one, too, that no step before it left."""
        for part, value in (("parameters", numpy.inf), ("exp_avg", numpy.nan), ("exp_avg_sq", -1.0)):
            def change(dump):
                dump.at("weights/0-0/rank0.h5", f"0-0/{part}/model.norm.weight").values[1] = value
            with self.subTest(part):
                report = self.finds({"state"}, change)
                said, = [p for p in report["problems"] if p["code"] == "state"
                         and p["path"] == "weights/0-0/rank0.h5"]
                self.assertEqual(said["dataset"], f"0-0/{part}/model.norm.weight")
                self.assertIn("element 0,1 of the state before step 0.0 is", said["message"])

        def without(dump):
            del dump.units["weights/1-0/rank0.h5"]
        report = self.finds({"plan-missing"}, without, CORRUPT, deep=False)
        self.assertIn("weights/1-0", report["problems"][0]["message"])

        def no_digests(dump):
            for name in [n for n in dump.units["train/0-0/rank0.h5"] if "/events/" in n]:
                del dump.units["train/0-0/rank0.h5"][name]
        report = self.found(self.patched(no_digests), "--deep", code=0)[1]
        self.assertIn("the state before step 1.0: of", "".join(report["not_checked"]))

    def test_columns_of_some_samples_alone(self):
        """The rows that are there are held against the event."""
        def lacks(values):
            def change(dump):
                unit = dump.units["train/1-0/rank0.h5"]
                unit["1-0/advantages_present"] = unit["1-0/sample_id"].reshaped(values, "u8")
                advantages, offsets = unit["1-0/advantages"].values, unit["1-0/offsets"].values
                for sample, present in enumerate(values):
                    if not present:
                        advantages[offsets[sample]:offsets[sample + 1]] = 0
            return change
        self.found(self.patched(lacks([0, 1, 1, 1]), self.good), "--deep", code=0)

        def other(dump):
            lacks([0, 1, 1, 1])(dump)
            end = dump.at("train/1-0/rank0.h5", "1-0/offsets").values[2]
            dump.at("train/1-0/rank0.h5", "1-0/advantages").values[end - 1] += 5
        self.finds({"event"}, other, of=self.good)

        def without_values(dump):
            lacks([0, 1, 1, 1])(dump)
            unit = dump.units["train/1-0/rank0.h5"]
            unit["1-0/events/value_count"].values[:] = 0
            unit["1-0/events/value_start"].values[:] = 0
        report = self.found(self.patched(without_values, self.good), "--deep", code=0)[1]
        self.assertEqual(len(report["not_checked"]), 2, report)
        self.assertIn("advantages of step 1.0: sample", report["not_checked"][0])
        self.assertIn("train/1-0: advantages of some samples alone", report["not_checked"][1])

    def test_numbers_that_only_rounding_makes_those_of_the_event(self):
        def wide(unit, name):
            def change(dump):
                column = dump.at(unit, name)
                values = column.values.astype("<f8")
                values[-1] = numpy.nextafter(values[-1], 9)
                dump.units[unit][name] = column.reshaped(values, "f64")
            return change
        report = self.finds({"event"}, wide("train/1-0/rank0.h5", "1-0/log_probs"))
        self.assertEqual({p["dataset"] for p in report["problems"] if p["code"] == "event"},
                         {"log_probs"})
        self.finds({"event"}, wide("rollout/1.h5", "1/log_probs"))

        def loss(dump):
            scalars = dump.at("train/1-0/rank0.h5", "1-0/scalars")
            at = scalars.attributes["columns"].split("\n").index("loss")
            scalars.values[at] = numpy.nextafter(scalars.values[at], 9)
        report = self.finds({"event"}, loss)
        self.assertIn("scalars/loss", {p["dataset"] for p in report["problems"]})

    def test_many_problems_are_counted(self):
        def change(dump):
            dump.at("train/1-0/rank0.h5", "1-0/events/digest").values[:] ^= 1
        report = self.finds({"event", "more-problems"}, change)
        said = [p["message"] for p in report["problems"] if p["code"] == "more-problems"]
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], r"^\d+ more problems are not listed$")
        self.assertEqual(len([p for p in report["problems"] if p["code"] == "event"]), 100)

    def test_what_was_not_checked(self):
        def gap(dump):
            del dump.units["train/1-0/rank0.h5"]
        report = self.found(self.patched(gap), "--deep", code=CORRUPT)[1]
        self.assertEqual(report["not_checked"],
                         ["events and states: units are missing that they refer to"])

        def anonymous(dump):
            dump.meta = {"ranks": 1}
        report = self.found(self.patched(anonymous), "--deep", code=0)[1]
        self.assertEqual(report["not_checked"],
                         [f"{what}: the dump names no model that this version knows"
                          for what in ("events", "states")])

    def test_what_is_judged_beside_a_rollout_that_cannot_be_read(self):
        def mask(dump):
            dump.at("rollout/0.h5", "0/loss_mask").values[0] = 1

        def of_some(dump):
            mask(dump)
            ids = dump.at("rollout/1.h5", "1/sample_id")
            there = [0] + [1] * (ids.values.size - 1)
            dump.units["rollout/1.h5"]["1/prompt_length_present"] = ids.reshaped(there, "u8")
        unread = "what the values of rollout 1, and of its steps, mean: it holds what cannot be read"
        path = self.patched(of_some)
        for unit, code, words in ((None, UNSUPPORTED, "unsupported"),
                                  ("rollout/1.h5", CORRUPT, "unit-hash"),
                                  ("train/1-0/rank0.h5", CORRUPT, "unit-hash")):
            with self.subTest(unit):
                if unit:
                    path = self.patched(mask)
                    data = bytearray((path / unit).read_bytes())
                    data[len(data) // 2] ^= 1
                    (path / unit).write_bytes(data)
                found, report = self.found(path, "--deep", code=code)
                self.assertLessEqual({words, "bad-mask"}, found)
                self.assertIn(unread, report["not_checked"])
                self.assertIsNone(report["content"])

    def test_prompts(self):
        def other_prompt(dump):
            unit = dump.units["train/1-0/rank0.h5"]
            unit["1-0/prompt_length"] = unit["1-0/sample_id"].reshaped(
                dump.at("rollout/1.h5", "1/prompt_length").values - 1, "u32")
        self.finds({"prompt-mismatch"}, other_prompt, of=self.plain)

        def no_prompt(dump):
            dump.at("rollout/1.h5", "1/prompt_length").values[0] = 0
        self.finds({"not-readable"}, no_prompt, of=self.plain)


if __name__ == "__main__":
    unittest.main()
