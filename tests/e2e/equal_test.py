"""One meaning of equal: `diff` says identical if and only if the content roots are equal, whatever is
changed; and runs that computed the same have one content root, however they ran.
usage: equal_test.py RLREPLAY RLBISECT"""
import copy
import json
import math
import random
import re
import shutil
import sys
import unittest

import numpy

import content
from dump_patch import Array, Patched
from equal_case import CORRUPT, DIFFERENT, LINE, SMALL, USAGE, EqualCase
from support import FULL, SEED, Case

Case.program, Case.rlbisect = sys.argv[1:3]
del sys.argv[1:3]


class Equal(EqualCase):
    def test_runs_that_computed_the_same(self):
        """However they ran; the manifest's root tells how."""
        model = self.folder / "model"
        result = self.run_program("train", *SMALL[:4], "--save", model)
        self.assertEqual(result.returncode, 0, result.stderr)
        shutil.copytree(model, self.folder / "elsewhere")
        prompts = self.folder / "p.jsonl"
        prompts.write_text("".join(f'{{"prompt": "{i}+1=", "label": "{i + 1}"}}\n'
                                   for i in range(4)))
        (self.folder / "q.jsonl").write_bytes(prompts.read_bytes())
        run = SMALL[2:] + ("--reward", "exact")
        first, _ = self.capture("0", "--model", model, "--prompts", prompts, *run)
        contents, roots = {self.content(first)}, set()
        for i, flags in enumerate((
                ("--threads", "1"), ("--micro-batch-size", "1"), ("--recompute",),
                ("--save", self.folder / "saved"), ("--rollout-slots", "2"),
                ("--eps-clip-high", "0.2"), ("--lr-decay-iters", "9"))):
            path, _ = self.capture(str(i + 1), "--model", self.folder / "elsewhere", "--prompts",
                                   self.folder / "q.jsonl", *run, *flags)
            with self.subTest(flags):
                contents.add(self.content(path))
                roots.add(self.lines("verify", path)[0]["root"])
                self.assertEqual(len(contents), 1)
                self.assertTrue(self.identical(first, path)[0])
        self.assertGreater(len(roots), 3)
        again = self.folder / "replayed"
        result = self.run_program("train", "--from", first, "-o", again)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.content(again), self.content(first))

    def test_the_content_root_is_printed(self):
        root = self.content(self.base)
        path = self.folder / "printed"
        result = self.run_program("capture", *SMALL, "-o", path)
        self.assertIn("content " + self.content(path), result.stdout)
        self.assertIn(root, self.run_program("show", self.base).stdout)
        self.assertEqual(self.lines("show", self.base)[0]["content"], root)
        self.assertIn("content " + root, self.run_program("verify", self.base).stdout)
        line = self.folder / "line.jsonl"
        line.write_text(json.dumps(LINE) + "\n")
        result = self.run_program("import", line, "-o", self.folder / "from line", "--json")
        self.assertEqual(json.loads(result.stdout)["content"],
                         self.content(self.folder / "from line"))

    def test_contradictions_of_files_are_content(self):
        """Those that an import found; that samples have other ids than their files say is none."""
        one = self.imported("one line", LINE)
        written = {}
        for code in ("replica-mismatch", "sample-id-replaced", "policy-loss-missing"):
            text = json.dumps({"code": code, "message": "a", "where": "b"}).encode() + b"\n"
            dump = Patched(one)
            dump.units["x-findings/import.h5"] = {"data/text": Array(
                numpy.frombuffer(text, "u1"), "u8", [len(text)], {})}
            written[code] = dump.write(self.folder / code)
            self.assert_specified(written[code])
        self.assertTrue(self.identical(one, written["sample-id-replaced"])[0])
        self.assertTrue(self.identical(one, written["policy-loss-missing"])[0])
        identical, found = self.identical(one, written["replica-mismatch"])
        self.assertFalse(identical)
        self.assertEqual(found["only"], ["only the files of B contradict each other: "
                                         "replica-mismatch: a (b)"])

    def test_ranks_that_say_different_things(self):
        """Which of them says what counts; what all say counts once."""
        def said(*losses):
            dump = copy.deepcopy(one)
            unit = dump.units.pop("train/0-0/rank0.h5")
            dump.meta["ranks"] = len(losses)
            for rank, loss in enumerate(losses):
                dump.units[f"train/0-0/rank{rank}.h5"] = {
                    **unit, "0-0/scalars": Array(numpy.array([loss], "<f8"), "f64", [1],
                                                 {"columns": "loss"})}
            return dump.write(self.folder / f"said {losses}")

        train = {**LINE, "schema": "rlreplay.train/1", "step_id": 0, "rank": 0, "length": 2}
        for key in ("tokens", "log_probs"):
            del train[key]
        one = Patched(self.imported("one rank", LINE, train))
        mixed = said(1, 1, 2)
        for losses, first in (((2, 2, 1), 0), ((1, 2, 1), 1), ((2, 1, 1), 0), ((1, 1, 1), 2)):
            with self.subTest(losses):
                identical, found = self.identical(mixed, said(*losses))
                self.assertFalse(identical)
                self.assertEqual(found["first"]["field"], "step/loss")
                self.assertEqual(found["first"]["rank"], first)
        self.assertTrue(self.identical(said(1), said(1, 1))[0])
        self.assert_specified(mixed)

    def test_options_that_count_are_named_first(self):
        for name, flags in (("lr", ("--lr", "0.0006")), ("seed", ("--seed", "7")),
                            ("eps-clip", ("--eps-clip", "0.3"))):
            with self.subTest(name):
                other, _ = self.capture(name, *SMALL, "--weights", "all", "--record",
                                        "tensors+stats+values", *flags)
                identical, found = self.identical(self.base, other)
                self.assertFalse(identical)
                self.assertIn(name, [o["option"] for o in found["options"]])
                text = self.run_program("diff", self.base, other).stdout.splitlines()
                self.assertTrue(text[0].startswith("differ: "), text)
                told, = [i for i, line in enumerate(text) if line.startswith("  options ")]
                self.assertIn(f" {name}: ", text[told])
                self.assertLess(told, 3, text)

    def test_a_coarser_record_is_no_other_run(self):
        coarse, _ = self.capture("coarse", *SMALL, "--weights", "all")
        identical, found = self.identical(self.base, coarse)
        self.assertFalse(identical)
        for line, side in ((self.run_program("diff", self.base, coarse).stdout, "B"),
                           (self.run_program("diff", coarse, self.base).stdout, "A")):
            self.assertIn("differ: events of 2 rollouts and 2 steps recorded in one only", line)
            self.assertIn(f"  {side}      not recorded: captured with a coarser --record", line)
        other, _ = self.capture("coarse lr", *SMALL, "--weights", "all", "--lr", "0.0006")
        first = self.identical(self.base, other)[1]["first"]
        self.assertTrue(first["a"] and first["b"], first)

    def test_how_equal_values_are_stored_is_said(self):
        """Numbers that are equal, under names in another order."""
        line = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "tokens": [1, 2, 3],
                "prompt_length": 1, "reward_components": {"b": 1, "a": 1}}
        paths = self.folder / "named.jsonl", self.folder / "sorted.jsonl"
        paths[0].write_text(json.dumps(line | {"columns": ["b", "a"]}))
        paths[1].write_text(json.dumps(line))
        text = self.run_program("diff", *paths).stdout
        self.assertIn("  A      columns b, a\n  B      columns a, b\n", text)

    def test_columns_are_compared_by_their_names(self):
        """Whatever stands before them: of rewards and of calls."""
        line = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "tokens": [1, 2, 3],
                "prompt_length": 1}
        for key, of in (("reward_components", lambda x: x),
                        ("calls", lambda x: [{"first": 1, "length": 2, **x}])):
            field = "rollout/" + ("call_numbers" if key == "calls" else key)
            paths = self.folder / "a.jsonl", self.folder / "b.jsonl"
            for path, numbers in zip(paths, ({"acc": 1, "format": 0.25, "score": 1},
                                             {"acc": 1, "score": 2})):
                path.write_text(json.dumps(line | {key: of(numbers)}))
            found, = self.lines("diff", *paths, code=1)
            fields = {f["field"]: f for f in found["fields"]}
            self.assertEqual(set(fields) & {field + "/acc", field + "/format", field + "/score", field},
                             {field + "/acc", field + "/format", field + "/score"})
            self.assertTrue(fields[field + "/acc"]["equal"])
            self.assertEqual((fields[field + "/format"]["compared"], fields[field + "/format"]["missing"],
                              fields[field + "/format"]["first"]["b"]), (0, 1, None))
            self.assertEqual((fields[field + "/score"]["different"],
                              fields[field + "/score"]["max_difference"]), (1, 1))
            within, = self.lines("diff", *paths, "--tolerance", f"{field}/score=1", code=1)
            self.assertTrue({f["field"]: f for f in within["fields"]}[field + "/score"]["equal"])
            within, = self.lines("diff", *paths, "--tolerance", f"{field.split('/')[1]}=1", code=1)
            self.assertTrue({f["field"]: f for f in within["fields"]}[field + "/score"]["equal"])

    def test_what_an_import_does_not_know_is_said(self):
        lines = self.folder / "own.jsonl"
        self.run_program("export", self.base, "--to", "jsonl", "-o", lines)
        self.run_program("import", lines, "-o", self.folder / "own")
        for flags in ((), ("--all",)):
            text = self.run_program("diff", self.base, self.folder / "own", *flags).stdout
            count = int(re.match(r"differ: (\d+) options?, contract, model, ", text)[1])
            options = text[text.index("  options "):text.index("  contract ")]
            if flags:
                self.assertEqual(options.count("\n"), count, text)
            if flags:
                self.assertIn("  B      not there: the dump was imported, and not captured", text)
            self.assertNotIn("coarser", text)
            self.assertRegex(text, r"(?m)^  contract +B records none$")
            self.assertRegex(text, r"(?m)^  model +B records none$")

    def test_rlbisect_names_what_is_no_dump(self):
        files = self.folder / "files"
        self.run_program("export", self.base, "--to", "slime", "-o", files)
        result = self.bisected(self.base, files)
        self.assertIn("compare them with rlreplay diff ", result.stderr)
        result = self.bisected(self.base, self.folder / "nope")
        self.assertIn("nope: there is no such folder to compare with ", result.stderr)

    def test_stored_in_other_forms(self):
        """Other types, chunks and encodings of the same values."""
        dump = copy.deepcopy(self.loaded)
        tokens = dump.at("rollout/0.h5", "0/tokens")
        dump.units["rollout/0.h5"]["0/tokens"] = tokens.reshaped(tokens.values, "i64")
        for unit, datasets in dump.units.items():
            for name, array in datasets.items():
                if unit.startswith("train") and array.dtype == "f32" and "events" not in name:
                    datasets[name] = array.reshaped(array.values, "f64")
        path = dump.write(self.folder / "wide")
        self.assertTrue(self.identical(self.base, path)[0])
        self.assertNotEqual(self.lines("verify", path)[0]["root"],
                            self.lines("verify", self.base)[0]["root"])
        order = copy.deepcopy(self.loaded)
        unit = order.units["train/0-0/rank0.h5"]
        offsets, ids = unit["0-0/offsets"].values, unit["0-0/sample_id"].values
        turned = numpy.arange(ids.size)[::-1]
        for name, array in unit.items():
            if name == "0-0/rewards":
                unit[name] = array.reshaped(array.values[turned])
            elif array.shape == [int(offsets[-1])] and "events" not in name:
                rows = [array.values[offsets[i]:offsets[i + 1]] for i in turned]
                unit[name] = array.reshaped(numpy.concatenate(rows))
        unit["0-0/sample_id"] = unit["0-0/sample_id"].reshaped(ids[turned])
        lengths = numpy.diff(offsets)[turned]
        unit["0-0/offsets"] = unit["0-0/offsets"].reshaped(
            numpy.concatenate([[0], numpy.cumsum(lengths)]))
        self.assertTrue(self.identical(self.base, order.write(self.folder / "turned"))[0])

    def test_import_of_an_export(self):
        lines = [{**LINE, "rollout_id": r, "sample_id": s, "reward": s / 2} for r in (0, 1)
                 for s in range(3)]
        first = self.imported("first", *lines)
        again = self.folder / "again.jsonl"
        result = self.run_program("export", first, "--to", "jsonl", "-o", again)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_program("import", again, "-o", self.folder / "second")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.identical(first, self.folder / "second")[0])

    def test_values(self):
        """The sign of zero, NaN, integers that binary64 has not, scalars of one side."""
        def differs(a, b):
            x, y = self.imported("x", {**LINE, **a}), self.imported("y", {**LINE, **b})
            identical, found = self.identical(x, y)
            shutil.rmtree(x)
            shutil.rmtree(y)
            return not identical, found

        self.assertFalse(differs({}, {})[0])
        different, found = differs({"log_probs": [-0.0]}, {"log_probs": [0.0]})
        self.assertTrue(different)
        self.assertEqual(found["first"]["ulps"], 0)
        big = 9007199254740992
        self.assertTrue(differs({"group_id": big}, {"group_id": big + 1})[0])
        step = {**LINE, "schema": "rlreplay.train/1", "step_id": 0, "rank": 0, "advantages": [1.0]}
        one = self.imported("one", LINE, step)
        dump = Patched(one)
        nan = dump.at("train/0-0/rank0.h5", "0-0/advantages")
        nan.values[-1] = math.nan
        a = dump.write(self.folder / "nan")
        nan.values.view("<u4")[-1] = 0xffc12345
        b = dump.write(self.folder / "other nan")
        self.assertTrue(self.identical(a, b)[0])
        identical, found = self.identical(one, a)
        self.assertFalse(identical)
        field, = [f for f in found["fields"] if not f["equal"]]
        self.assertEqual((field["field"], field["nan"]), ("train/advantages", 1))

    def test_scalars_events_and_states_of_one_side(self):
        def without(unit, name):
            dump = copy.deepcopy(self.loaded)
            dump.units[unit].pop(name)
            identical, found = self.identical(self.base, dump.write(self.folder / "without"))
            self.assertFalse(identical)
            return found

        self.assertEqual(without("train/1-0/rank0.h5", "1-0/entropy")["first"]["field"],
                         "train/entropy")
        self.assertEqual(without("weights/1-0/rank0.h5", "1-0/exp_avg/model.norm.weight")
                         ["first"]["field"], "weights/exp_avg")
        dump, name = copy.deepcopy(self.loaded), "1-0/parameters/model.norm.weight"
        vector = dump.at("weights/1-0/rank0.h5", name)
        size = len(vector.values)
        dump.units["weights/1-0/rank0.h5"][name] = vector.reshaped(list(vector.values) * 2)
        identical, found = self.identical(self.base, dump.write(self.folder / "longer"))
        self.assertFalse(identical)
        field, = [f for f in found["fields"] if not f["equal"]]
        self.assertEqual((field["field"], field["different"]), ("weights/parameters", 1))
        self.assertEqual([found["first"][k] for k in "ab"], [f"[{size}]", f"[{2 * size}]"])
        dump = copy.deepcopy(self.loaded)
        scalars = dump.at("train/1-0/rank0.h5", "1-0/scalars")
        names = scalars.attributes["columns"].split("\n")
        scalars.attributes["columns"] = "\n".join(names[:-1])
        scalars.values, scalars.shape = scalars.values[:-1], [len(names) - 1]
        identical, found = self.identical(self.base, dump.write(self.folder / "scalars"))
        self.assertEqual((identical, found["first"]["field"]), (False, "step/" + names[-1]))

    def test_a_rollout_in_several_units(self):
        dump = copy.deepcopy(self.loaded)
        dump.split_rollout("rollout/0.h5", "rollout/0b.h5", 2)
        path = dump.write(self.folder / "two units")
        dump.at("rollout/0b.h5", "0/log_probs").values[-1] -= 1
        other = dump.write(self.folder / "two other units")
        identical, found = self.identical(path, other)
        self.assertFalse(identical)
        self.assertEqual(found["first"]["field"], "rollout/log_probs")

    def test_damage_is_found(self):
        good, bad = self.folder / "good", self.folder / "bad"
        shutil.copytree(self.base, good)
        shutil.copytree(self.base, bad)
        for unit in ("rollout/1.h5", "weights/1-0/rank0.h5"):
            data = bytearray((bad / unit).read_bytes())
            data[len(data) // 2] ^= 1
            (bad / unit).write_bytes(data)
            result = self.run_program("diff", good, bad)
            self.assertEqual(result.returncode, CORRUPT, result.stdout)
            result = self.run_program("diff", good, bad, "--trust-hashes")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith("identical by recorded hashes"))
            shutil.copy(good / unit, bad / unit)

    def test_tolerance(self):
        dump = copy.deepcopy(self.loaded)
        dump.at("train/1-0/rank0.h5", "1-0/advantages").values[-1] += 1e-3
        near = dump.write(self.folder / "near")
        for number in ("inf", "nan", "-1"):
            refused = self.run_program("diff", self.base, near, "--tolerance", f"advantages={number}")
            self.assertEqual(refused.returncode, 2, refused.stderr)
        found = self.diff(self.base, near, 0, "--tolerance", "advantages=0.01")
        self.assertEqual((found["identical"], found["within_tolerance"]), (False, True))
        text = self.run_program("diff", self.base, near, "--tolerance", "advantages=0.01").stdout
        self.assertTrue(text.startswith("not identical, but within --tolerance advantages=0.01\n"))
        self.diff(self.base, near, DIFFERENT, "--tolerance", "advantages=0.0001")
        self.diff(self.base, near, DIFFERENT, "--tolerance", "rewards=1")
        for wrong in ("rewards=1e-9,rubbish", "rewards=1x", "rewards=", "rewards", "rewards=nan"):
            result = self.run_program("diff", self.base, near, "--tolerance", wrong)
            self.assertEqual(result.returncode, USAGE, wrong)
            self.assertIn("FIELD=NUMBER", result.stderr)
        result = self.run_program("diff", self.base, near, "--tolerance", "advantage=1")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("train/advantages", result.stderr)

    def test_a_tolerance_is_for_the_field_that_it_names(self):
        """Every other column is judged by its bits, whether or not the tables know it."""
        for unit, name, dtype in (("rollout/1.h5", "1/version_starts", "u32"),
                                  ("rollout/1.h5", "1/of-a-vendor", "f64"),
                                  ("train/1-0/rank0.h5", "1-0/of-a-vendor", "f64")):
            with self.subTest(name):
                dump = copy.deepcopy(self.loaded)
                values = dump.units[unit].get(name) or Array(numpy.zeros(2), dtype, [2], {})
                dump.units[unit][name] = values
                plain = dump.write(self.folder / "plain")
                values.values[-1] += 1
                other = dump.write(self.folder / "other")
                found = self.diff(plain, other, DIFFERENT, "--tolerance", "advantages=1")
                self.assertFalse(found["within_tolerance"])
                field, = [f for f in found["fields"] if not f["equal"]]
                self.assertEqual(field["field"], unit.split("/")[0] + "/" + name.split("/")[1])

    def test_rlbisect_decides_by_what_no_event_shows(self):
        """And its report names what differs in the order of causes."""
        result = self.bisected(self.base, Patched(self.base).write(self.folder / "written again"))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertTrue(result.stdout.startswith("identical in 6 rollouts, steps and states: "
                                                 "options, samples, columns, scalars, events\n"))
        for unit, name, field in (
                ("rollout/1.h5", "1/rewards", "rollout/rewards"),
                ("rollout/1.h5", "1/log_probs", "rollout/log_probs"),
                ("train/1-0/rank0.h5", "1-0/advantages", "train/advantages"),
                ("train/1-0/rank0.h5", "1-0/log_probs", "train/log_probs"),
                ("train/1-0/rank0.h5", "1-0/scalars", "step/")):
            with self.subTest(name):
                dump = copy.deepcopy(self.loaded)
                dump.at(unit, name).values[-1] += 1
                other = dump.write(self.folder / "other")
                result = self.bisected(self.base, other, "--json")
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                found = json.loads(result.stdout)
                self.assertIs(found["identical"], False)
                self.assertTrue(found["first"]["field"].startswith(field), found["first"])
                self.assertEqual(found["reproduce"], f"rlbisect '{self.base}' '{other}'")
                text = self.bisected(self.base, other).stdout
                self.assertTrue(text.startswith("differ: 1 "), text)
                self.assertIn(found["first"]["field"] + " at\n", text)
                self.assertIn(f"again: rlbisect '{self.base}' '{other}'\n", text)

    def test_rlbisect_says_where_log_probabilities_part(self):
        dump = copy.deepcopy(self.loaded)
        unit = dump.units["train/1-0/rank0.h5"]
        end = int(unit["1-0/offsets"].values[1])
        unit["1-0/log_probs"].values[end - 1] -= 0.5
        other = dump.write(self.folder / "other")
        result = self.bisected("verdict", self.base, other, "--metric", "forward_logp_max_diff",
                               "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        found = json.loads(result.stdout)
        sample = int(unit["1-0/sample_id"].values[0])
        spread = found["difference"]["log_probs"]
        self.assertEqual(spread["where"], {"sample": sample, "token": end - 1, "rank": 0})
        self.assertAlmostEqual(spread["max"], 0.5, 6)
        self.assertEqual((spread["p50"], spread["different"], spread["nonfinite"]), (0, 1, 0))
        self.assertIn(f"in that step largest at sample {sample}, token {end - 1}; mean ",
                      found["reason"])

    def test_rlbisect_names_what_differs_before_the_events(self):
        planted = self.folder / "planted"
        result = self.run_program("train", "--from", self.base, "-o", planted, "--inject",
                                  "1.0/forward/0/down/y:0:1")
        self.assertEqual(result.returncode, 1, result.stderr)
        dump = Patched(planted)
        dump.at("train/0-0/rank0.h5", "0-0/log_probs").values[-1] += 1
        text = self.bisected(self.base, dump.write(self.folder / "both")).stdout
        self.assertIn("first difference: 1.0/", text)
        self.assertLess(text.index("train/log_probs at\n"), text.index("first difference: "))

    def test_random_changes(self):
        """Whatever is changed, both ways of judging agree; most changes are differences."""
        choose = random.Random(SEED)
        print("seed", SEED)
        different = 0
        count = 300 if FULL else 25
        for i in range(count):
            with self.subTest(i):
                dump = copy.deepcopy(self.loaded)
                self.mutate(dump, choose)
                path = dump.write(self.folder / "mutated")
                result = self.run_program("diff", self.base, path, "--json")
                if result.returncode == CORRUPT:
                    continue  # it could not be read, and says so
                different += not self.identical(self.base, path)[0]
                self.assertEqual(self.content(path), content.content_root(Patched(path)))
        self.assertGreater(different, count // 3)  # most of the others could not be read

    @staticmethod
    def mutate(dump, choose):
        kind = choose.randrange(8)
        if kind == 0:
            name = choose.choice(sorted(dump.meta["config"]))
            if choose.random() < 0.5:
                dump.meta["config"][name] += "1"
            else:
                del dump.meta["config"][name]
            return name
        unit = choose.choice(sorted(dump.units))
        name = choose.choice(sorted(dump.units[unit]))
        array = dump.units[unit][name]
        if kind == 1:
            dump.units[unit].pop(name)
        elif kind == 2:
            dump.units.pop(unit)
            return unit
        elif array.values.size:
            at = choose.randrange(array.values.size)
            raw = array.values.view("u1")
            raw[at * array.values.itemsize + choose.randrange(array.values.itemsize)] ^= \
                1 << choose.randrange(8)
        return unit, name, kind


if __name__ == "__main__":
    unittest.main()
