"""rlreplay diff on dumps with events: what parts first is named as an event, whatever the data say.
usage: diff_test.py RLREPLAY PLANTED_DUMP
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
from dump_patch import Patched  # noqa: E402

RLREPLAY, PLANTED_DUMP = sys.argv[1:3]
del sys.argv[1:3]


def run(*arguments, code=0):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Diff(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def planted(self, name, *injection):
        run(PLANTED_DUMP, "write", self.folder / name, *injection)
        return self.folder / name

    def captured(self, name, *options):
        run(RLREPLAY, "capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2",
            "--n-samples-per-prompt", "8", *options, "-o", self.folder / name)
        return self.folder / name

    def diff(self, *arguments):
        """What both forms say of two dumps that differ."""
        text = run(RLREPLAY, "diff", *arguments, code=1)
        return json.loads(run(RLREPLAY, "diff", *arguments, "--json", code=1)), text

    def test_planted_differences(self):
        good = self.planted("good")
        for place in ("3.0/rollout/0/down/y:0:1", "3.0/backward/0/swiglu/dgate:5:1",
                      "3.0/optimizer/-/weight/model.norm.weight:2:-3"):
            with self.subTest(place=place):
                found, text = self.diff(good, self.planted(place.replace("/", " "), place))
                origin = found["origin"]
                self.assertEqual(f"{origin['event']}:{origin['index']}:{origin['ulps']}", place)
                self.assertTrue(origin["inputs_equal"])
                self.assertEqual(origin["class"], "origin")
                self.assertNotEqual(origin["a"], origin["b"])
                self.assertEqual(found["events"][0]["event"], place.split("/", 1)[1].split(":")[0])
                self.assertIn("first difference: " + place.split(":")[0] + "\n", text)

    def test_equal_dumps_are_read_unless_their_hashes_are_trusted(self):
        good, same = self.planted("good"), self.planted("same")
        self.assertIs(json.loads(run(RLREPLAY, "diff", good, same, "--json"))["identical"], True)
        for unit in same.glob("train/*/*.h5"):
            unit.write_bytes(b"no unit")
        run(RLREPLAY, "diff", good, same, code=3)
        found = json.loads(run(RLREPLAY, "diff", good, same, "--trust-hashes", "--json"))
        self.assertIs(found["identical"], True)
        self.assertIsNone(found["origin"])
        self.assertEqual(found["events"], [])

    def test_another_learning_rate(self):
        events = ("--record", "tensors+values")
        found, _ = self.diff(self.captured("a", *events), self.captured("b", *events, "--lr", "1e-5"))
        origin = found["origin"]
        self.assertEqual((origin["rollout_id"], origin["step_id"]), (0, 0))
        self.assertEqual((origin["phase"], origin["op"]), ("optimizer", "weight"))
        self.assertEqual(found["first"]["field"], "step/lr")
        self.assertEqual([o["option"] for o in found["options"]], ["lr"])
        self.assertEqual(found["event_steps"], 1)

    def test_causes_come_first_and_a_coarse_record_is_computed_again(self):
        """Down to the element, unasked, and the command can be pasted."""
        a, b = self.captured("a b", "--lr", "0.0005"), self.captured("b", "--lr", "0.0006")
        found, text = self.diff(a, b)
        self.assertIn({"kind": "options", "text": "lr: 5e-04 -> 6e-04"}, found["causes"])
        self.assertEqual((found["origin"]["op"], found["origin"]["index"]), ("weight", 0))
        self.assertIsNotNone(found["origin"]["ulps"])
        self.assertEqual(found["note"], "step 0.0 was computed again with values on both sides")
        self.assertLess(text.index("options"), text.index("where"))
        self.assertLessEqual(len(text.splitlines()), 20)
        command, = [line for line in text.splitlines() if line.startswith("  rlreplay diff ")]
        again = subprocess.run(command.strip().replace("rlreplay", str(RLREPLAY), 1), shell=True,
                               capture_output=True, text=True)
        self.assertEqual((again.returncode, again.stdout), (1, text))
        long = run(RLREPLAY, "diff", a, b, "--all", code=1)
        self.assertGreater(len(long.splitlines()), 40)
        self.assertIn("floats by distance", long)
        self.assertNotIn("--all", long)

    def test_other_prompts_and_weights(self):
        found, text = self.diff(self.captured("a"), self.captured("b", "--seed", "7"))
        kinds = [cause["kind"] for cause in found["causes"]]
        self.assertEqual(sorted(set(kinds), key=kinds.index), ["options", "state", "data"])
        data = [cause["text"].split(":")[0] for cause in found["causes"] if cause["kind"] == "data"]
        self.assertEqual(data[:2], ["prompts", "tokens"])
        for first, second in (("  options", "  state"), ("  state", "prompts: "), ("prompts: ", "where")):
            self.assertLess(text.index(first), text.index(second), text)

    def test_a_record_of_another_program(self):
        """What it recorded cannot be computed: a line says so."""
        good = Patched(self.captured("a"))
        good.at("train/0-0/rank0.h5", "0-0/events/digest").values.view("u1")[-1] ^= 1
        good.meta["contract"]["leaf"] = 64
        other = good.write(self.folder / "other")
        found, text = self.diff(self.folder / "a", other)
        self.assertIsNone(found["origin"]["index"])
        self.assertIn("computes step 0.0 otherwise than", found["note"])
        self.assertIn("recorded it: leaf: 64 -> 256", found["note"])
        self.assertIn({"kind": "contract", "text": "leaf: 256 -> 64"}, found["causes"])

    def test_imported_dumps(self):
        line = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "prompt_length": 1,
                "tokens": [1, 2], "log_probs": [-0.5], "reward": 1.0}
        for name, change in (("a", {}), ("b", {"reward": 0.0})):
            path = self.folder / (name + ".jsonl")
            path.write_text(json.dumps({**line, **change}) + "\n")
            run(RLREPLAY, "import", path, "-o", self.folder / name)
        found, text = self.diff(self.folder / "a", self.folder / "b")
        self.assertEqual(found["causes"], [
            {"kind": "data", "text": "rewards: rollout 0, sample 0: 1 -> 0"}])
        self.assertIn("A was imported, without events and weights", text.replace("\n  ", " "))

    def test_only_weights_differ(self):
        """Nothing of the data of the last step shows that its update was another one."""
        place = "3.0/optimizer/-/weight/model.norm.weight:0:1"
        found, text = self.diff(self.planted("good"), self.planted("bad", place))
        self.assertEqual([f["field"] for f in found["fields"] if not f["equal"]], ["train/events"])
        self.assertIs(found["identical"], False)
        self.assertEqual(text.splitlines()[0], "differ: 1 step")

    def test_generation_alone(self):
        record = ("--record", "ops+values", "--rollout-only")
        a, b = self.captured("a", *record), self.captured("b", *record, "--rollout-seed", "7")
        found, _ = self.diff(a, b)
        self.assertEqual(found["origin"]["phase"], "rollout")

    def test_a_tolerance_leaves_the_verdict_to_the_data(self):
        good = self.planted("good")
        bad = self.planted("bad", "3.0/optimizer/-/weight/model.norm.weight:0:1")
        found = json.loads(run(RLREPLAY, "diff", good, bad, "--tolerance", "loss=1e-6", "--json"))
        self.assertIs(found["identical"], False)
        self.assertIs(found["within_tolerance"], True)
        self.assertEqual(found["origin"]["op"], "weight")


if __name__ == "__main__":
    unittest.main()
