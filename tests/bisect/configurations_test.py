"""rlbisect finds the settings that make two runs differ. usage: configurations_test.py RLBISECT RLREPLAY"""
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

from support import FULL, SEED, Case

Case.program, RLREPLAY = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

# Differs where all settings of one cause have their bad values; `needs` cannot run without `with`.
TRAINER = """
import json, os, sys
with open(os.environ["RLBISECT_CONFIG"]) as file:
    config = json.load(file)
flat = {**config.get("model", {}), **{k: v for k, v in config.items() if k != "model"}}
if flat.get("needs") == "bad" and flat.get("with") != "bad":
    sys.exit(3)
causes = json.load(open("causes.json"))
loss = 0.5 + sum(all(flat.get(key) == "bad" for key in cause) for cause in causes)
with open(os.environ["RLBISECT_OUT"] + "/metrics.json", "w") as file:
    json.dump({"loss": [1, loss]}, file)
"""


class Configurations(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(TRAINER)
        self.keys = [f"k{i}" for i in range(12)]

    def ask(self, causes, good, bad, *arguments):
        (self.folder / "causes.json").write_text(json.dumps(causes))
        for name, config in (("good", good), ("bad", bad)):
            (self.folder / f"{name}.json").write_text(json.dumps(config))
        result = self.bisect("good.json..bad.json", "--run", f"{sys.executable} train.py", "--json", *arguments,
                             folder=self.folder)
        lines = result.stdout.splitlines()
        return result, json.loads(lines[0]) if lines else {}

    def found(self, answer):
        return sorted(sorted(key["key"] for key in cause["keys"]) for cause in answer["causes"])

    def test_real_runs(self):
        rng = random.Random(SEED)
        for number in range(10 if FULL else 4):
            one, two, three = rng.sample(self.keys, 3)
            causes = ([[one]], [[one, two]], [[one], [two, three]], [[one], [two]])[number % 4]
            with self.subTest(seed=SEED, causes=causes):
                result, answer = self.ask(causes, dict.fromkeys(self.keys, "good"), dict.fromkeys(self.keys, "bad"))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.found(answer), sorted(map(sorted, causes)))
                self.assertTrue(answer["confirmed"])
                self.assertIn("loss at step 1", answer["causes"][0]["reason"])
        self.assert_nothing_left()

    def test_keys_that_run_only_together(self):
        keys = ["needs", "with", *self.keys[:5]]
        result, answer = self.ask([["k2"]], dict.fromkeys(keys, "good"), dict.fromkeys(keys, "bad"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("k2", self.found(answer)[0])

    def test_nested_typed_and_absent_keys(self):
        good = {"model": {"a": 1, "b": "good"}, "c": 1, "gone": 1}
        bad = {"model": {"a": "1", "b": "bad"}, "c": 1, "new": "bad"}
        result, answer = self.ask([["b", "new"]], good, bad)
        self.assertEqual(answer["differences"], 4)
        self.assertEqual(answer["causes"][0]["keys"], [{"key": "model.b", "good": "good", "bad": "bad"},
                                                       {"key": "new", "good": None, "bad": "bad"}])
        text = self.bisect("good.json", "bad.json", "--run", f"{sys.executable} train.py", folder=self.folder)
        self.assertIn('cause      model.b: "good" -> "bad"\n       and new: not set -> "bad"\n', text.stdout)
        self.assertIn("only together, none of them alone", text.stdout)

    def test_yaml_and_settings_on_the_command_line(self):
        for name, value in (("good", "1"), ("bad", "2")):
            (self.folder / f"{name}.yaml").write_text(f"lr: {value}\nseed: 7\nname: x{value}\n")
        run = "v=$(sed -n 's/^lr: //p' \"$RLBISECT_CONFIG\"); echo \"{\\\"loss\\\": $v}\" > \"$RLBISECT_OUT/metrics.json\""
        result = self.bisect("good.yaml..bad.yaml", "--run", run, "--json", folder=self.folder)
        self.assertEqual(json.loads(result.stdout)["causes"][0]["keys"], [{"key": "lr", "good": 1, "bad": 2}])
        run = "grep -q '\"lr\":2' \"$RLBISECT_CONFIG\" && exit 1 || exit 0"
        result = self.bisect("lr=1,x=a..lr=2,x=b", "--run", run, "--json", folder=self.folder)
        self.assertEqual(self.found(json.loads(result.stdout)), [["lr"]])

    def test_yaml_reaches_the_run_as_it_stands(self):
        text = 'name: "1"\nnested: {"a: b": 010, beta: [1, 2]}\nshuffle: no\nx: '
        for name, value in (("good", "1"), ("bad", "2")):
            (self.folder / f"{name}.yaml").write_text(text + value + "\n")
            (self.folder / f"{name}.txt").write_text(text + value + "\n")
        run = 'cmp "$RLBISECT_CONFIG" good.txt && exit 0; cmp "$RLBISECT_CONFIG" bad.txt && exit 1; exit 125'
        result = self.bisect("good.yaml..bad.yaml", "--run", run, "--json", folder=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.found(json.loads(result.stdout)), [["x"]])
        (self.folder / "bad.yaml").write_text(text.replace('"1"', "1") + "1\n")
        run = "grep -q 'name: \"1\"' \"$RLBISECT_CONFIG\""
        result = self.bisect("good.yaml..bad.yaml", "--run", run, "--json", folder=self.folder)
        self.assertEqual(json.loads(result.stdout)["causes"][0]["keys"], [{"key": "name", "good": "1", "bad": 1}])

    def test_a_name_with_a_dot_is_another_than_a_name_in_a_name(self):
        read = "import json, os; c = json.load(open(os.environ['RLBISECT_CONFIG']))"
        for good, bad, test, keys in (
                ({"a.b": 1}, {"a": {"b": 1}}, "'a.b' in c", [['"a.b"']]),
                ({"a": {}}, {"a": {"b": 1}}, "c['a'] == {}", [["a"]]),
                ({"a": 1}, {"a": {"b": 1}}, "c['a'] == 1", [["a"]])):
            with self.subTest(good=good):
                run = f'{sys.executable} -c "{read}; raise SystemExit(0 if {test} else 1)"'
                (self.folder / "good.json").write_text(json.dumps(good))
                (self.folder / "bad.json").write_text(json.dumps(bad))
                result = self.bisect("good.json..bad.json", "--run", run, "--json", folder=self.folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(self.found(json.loads(result.stdout)), keys)

    def test_what_cannot_be_searched(self):
        (self.folder / "here.json").write_text("{}")
        for arguments, code, sentence in (
                (["a=1..a=2"], 129, "either --run"),
                (["a=1..a=1", "--run", "true"], 129, "do not differ"),
                (["a=1..b", "--run", "true"], 129, "the other is not"),
                (["here.json..nowhere.json", "--run", "true"], 128, "nowhere.json: there is no such file of settings"),
                (["a=1..a=2", "--run", "true"], 1, "the bad configuration is good"),
                (["a=1..a=2", "--run", "exit 125"], 125, "cannot be judged"),
                (["a=1..a=2", "--run", "true", "--build", "make"], 129, "leave out --build"),
                (["a=1..a=2", "--run", "grep -q 1 \"$RLBISECT_CONFIG\"", "--max-runs", "2"], 125, "--max-runs")):
            with self.subTest(arguments=arguments):
                result = self.bisect(*arguments, folder=self.folder)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                self.assertIn(sentence, result.stdout + result.stderr)
        once = self.folder / "once"
        result = self.bisect("a=1..a=2", "--run", f"grep -q 1 \"$RLBISECT_CONFIG\" && exit 0; [ -e '{once}' ] && exit 3; "
                             f"touch '{once}'", "--repeat-ends", "6", folder=self.folder)
        self.assertEqual(result.returncode, 125)
        self.assertIn("not deterministic", result.stdout)
        result = self.bisect("a=1..a=2", "--run", "exit $(grep -c 2 \"$RLBISECT_CONFIG\")", "--max-runs=30", "--json",
                             folder=self.folder)
        self.assertNotRegex(json.loads(result.stdout)["reproduce"], "--max-runs|--json")
        for name in ("good", "bad"):
            (self.folder / f"{name}.toml").write_text("a = 1\n")
        result = self.bisect("good.toml..bad.toml", "--run", "true", folder=self.folder)
        self.assertEqual(result.returncode, 128)
        self.assertIn("JSON or YAML", result.stderr)
        (self.folder / "good.yaml").write_text("lr: 0.1\n")
        (self.folder / "bad.json").write_text('{"lr": 0.1, "optimizer": {"beta": 0.9}}')
        result = self.bisect("good.yaml..bad.json", "--run", "true", folder=self.folder)
        self.assertEqual(result.returncode, 129)
        self.assertIn("write both in one", result.stderr)


class Replays(Case):
    def test_a_flag_that_is_recorded_as_true(self):
        dump = self.folder / "dump"
        subprocess.run([RLREPLAY, "capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2",
                        "--n-samples-per-prompt", "2", "--calculate-per-token-loss", "-o", dump],
                       check=True, stdout=subprocess.DEVNULL)
        key = "calculate-per-token-loss"
        result = self.bisect(f"{key}=true..{key}=false", "--from", dump, folder=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"cause      {key}: true -> false", result.stdout)
        again = subprocess.run([RLREPLAY, "train", dump, f"--{key}=false"], capture_output=True, text=True)
        self.assertIn(f"overridden: {key}: true -> false", again.stderr)

    def test_options_and_layouts_of_a_dump(self):
        dump = self.folder / "dump"
        subprocess.run([RLREPLAY, "capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2",
                        "--n-samples-per-prompt", "2", "-o", dump], check=True, stdout=subprocess.DEVNULL)
        result = self.bisect("lr=5e-4,threads=1,tp=1..lr=6e-4,threads=2,tp=2,dp=2", "--from", dump, "--json",
                             folder=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual([[key["key"] for key in cause["keys"]] for cause in answer["causes"]], [["lr"]])
        self.assertEqual(answer["differences"], 4)
        result = self.bisect("tp=1..tp=2,dp=2", "--from", dump, folder=self.folder)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("the bad configuration is good: the weights after 1 step agree", result.stdout)
        for ends, sentence in (("kernels=none..kernels=portable", "--kernels takes one of"),
                               ("nosuch=1..nosuch=2", "there is no option --nosuch"),
                               ("lr=5e-4..lr=5e-4,tp=3", "this model does not go into")):
            result = self.bisect(ends, "--from", dump, folder=self.folder)
            self.assertEqual(result.returncode, 125, result.stdout)
            self.assertIn(sentence, result.stdout)
            log = pathlib.Path(result.stdout.split("(log: ")[1].split(")\n")[0])
            self.assertIn(sentence, log.read_text())


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
