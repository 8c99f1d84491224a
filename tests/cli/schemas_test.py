"""docs/json/ describes what every `--json` prints, and a description changes by its rule.

usage: schemas_test.py RLREPLAY RLBISECT [TEST...]
       schemas_test.py --update

schemas.txt keeps the shape of every output. It fails where a schema is no longer as it is kept. --update
writes what the rule of docs/json/README.md allows: what is new gets a `+` and must be named in
CHANGELOG.md; a name that is gone gets a `-`, must be named there too, and never comes again.
"""
import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
E2E = ROOT / "tests/e2e"
sys.path.insert(0, str(E2E))

import checkpoints
import json_schema
from json_schema import SCHEMAS, Mismatch, Schemas, check_output
from support import Case

KEPT = pathlib.Path(__file__).parent / "schemas.txt"
DATA = ROOT / "tests/foreign/data"
PAGE = json_schema.FOLDER / "README.md"
DEMO = ("capture", "--model", "demo", "--steps", "2", "--rollout-batch-size", "4", "--n-samples-per-prompt", "2")

# Properties that no command below prints, with the reason.
NOT_SEEN = {
    **{("golden.schema.json", f"#/$defs/golden/properties/{key}"):
       "needs a commit that is built: tests/e2e/gate_test.py has it" for key in ("cause", "cause_reason")},
    ("objective.schema.json", "#/$defs/step/properties/quantities/items/properties/not_computed"):
        "needs files of policy_loss_debug of which some samples lack inputs",
    **{("seal.schema.json", f"#/$defs/seal/properties/left_out/items/properties/{key}"):
       "needs a writer that died beside others: tests/e2e/closing_test.py has it" for key in ("step", "missing_ranks")},
    ("diff.schema.json", "#/$defs/diff/properties/kept_files"):
        "needs foreign files: tests/e2e/dumps_test.py has it",
    ("diff.schema.json", "#/$defs/diff/properties/other_inputs"):
        "needs samples with images: tests/e2e/exchange_test.py has it",
    ("rlbisect.schema.json", "#/$defs/bisect/properties/contradictions/items/properties/revision"):
        "needs a history that changes there and back again: tests/bisect/rlbisect_test.py has it",
    ("rlbisect.schema.json", "#/$defs/bisect/properties/contradictions/items/properties/reason"):
        "the same",
    ("rlbisect.schema.json", "#/$defs/bisect/properties/noise"):
        "needs runs that do not repeat: tests/bisect/rlbisect_test.py has it",
    ("rlbisect.schema.json", "#/$defs/bisect/properties/confidence"): "the same",
    ("changes.schema.json", "#/$defs/changes/properties/noise"):
        "the same: tests/bisect/every_kind_test.py has it",
    **{(f"{schema}.schema.json", f"#/$defs/{path}"): "needs ranks whose copies differ: tests/e2e/layouts_test.py has it"
       for schema, path in (("shared", "step/properties/replicas"), *(("shared", f"replicas/properties/{name}") for name in (
                                "event", "index", "place", "copies", "rank", "other", "value", "other_value", "outvoted")))},
    **{("rollout.schema.json", f"#/$defs/rollout/properties/different_values/items/properties/{key}"):
       "needs a rollout whose numbers were changed: tests/e2e/replay_test.py has it" for key in (
           "name", "sample", "token", "record", "record_bits", "replay", "replay_bits", "compared", "different",
           "record_text", "replay_text")},
    ("layouts.schema.json", "#/$defs/layouts/properties/replicas"): "needs a machine that computes a copy wrongly",
    ("layouts.schema.json", "#/$defs/layouts/properties/difference/properties/note"):
        "needs a record without values: tests/e2e/layouts_test.py has it",
    **{("rlbisect.schema.json", f"#/$defs/bisect/properties/{path}"):
        "needs submodules: tests/bisect/odd_histories_test.py has it" for path in (
            "pins", "pins/items", *(f"pins/items/properties/{key}" for key in ("path", "before", "after", "submodule")),
            "dependency", *(f"dependency/properties/{key}" for key in ("name", "culprit", "interval", "interval/items",
                                                                       "confirmed", "reason")),
            "dependencies", "dependencies/items", *(
                f"dependencies/items/properties/{key}" for key in ("name", "culprit", "interval", "interval/items",
                                                                   "confirmed", "reason")))},
    ("objective.schema.json", "#/$defs/step/properties/untried"): "needs more than 200,000 tokens",
    ("objective.schema.json", "#/$defs/step/properties/explanations/items/properties/rivals"):
        "needs numbers that several options give: tests/e2e/objective_search_test.py has it",
}


class Refused(Exception):
    """A change of a schema that its number, or CHANGELOG.md, does not say."""


def shapes(schemas):
    return {name: schemas.shape(node) for name, node in sorted(schemas.lines().items())}


def read_kept(text):
    """Marks and lines by name, and the names that are gone."""
    names, gone = {}, []
    for line in text.splitlines():
        if line.startswith("- "):
            gone.append(line[2:])
        elif line.startswith(("+ ", "= ")):
            name = line[2:]
            names[name] = (line[0], [])
        elif line:
            names[name][1].append((line[2], line[4:]))
    return names, gone


def write_kept(names, gone):
    out = [f"- {name}" for name in sorted(gone)]
    for name, (mark, lines) in sorted(names.items()):
        out += [f"{mark} {name}", *(f"  {mark} {line}" for mark, line in lines)]
    return "\n".join(out) + "\n"


def path_of(line):
    return line.partition(" ")[0]


def may_be_absent(path, added):
    """Whether a reader of before meets it only in or below a key that it does not know."""
    optional = [path_of(line) for line in added if path_of(line).endswith("?")]
    return any(path == key or path.startswith((key + ".", key + "[]")) for key in optional)


def merged(name, kept, now):
    """The lines of a schema that is kept, with marks. Errors: Refused."""
    before = {line: mark for mark, line in kept}
    added = [line for line in now if line not in before]
    wrong = [line for line in before if line not in now]
    wrong += [line for line in added if not may_be_absent(path_of(line), added)]
    if wrong:
        base, _, number = name.partition("/")
        raise Refused(f"{name}: only an optional key may be added; with `{wrong[0]}` it is {base}/{int(number) + 1}")
    return [(before.get(line, "+"), line) for line in now]


def updated(text, now, changelog):
    """The text to be kept for the shapes of now. Errors: Refused."""
    names, gone = read_kept(text)
    out = {}
    for name, lines in now.items():
        if name in gone:
            raise Refused(f"{name} was of another shape once: take the next number")
        if name in names:
            out[name] = (names[name][0], merged(name, names[name][1], lines))
        else:
            out[name] = ("+", [("=", line) for line in lines])
    gone += [name for name in names if name not in now]
    said = re.split(r"\n(?=[-#\n])", changelog)
    for name in [*gone, *(name for name, (mark, _) in out.items() if mark == "+")]:
        if not any(f"`{name}`" in paragraph for paragraph in said):
            raise Refused(f"CHANGELOG.md does not name `{name}`, which is new or gone")
    for name, (_, lines) in out.items():
        for mark, line in lines:
            key = re.split(r"[.\[]", path_of(line).replace("[]", "").rstrip("?"))[-1].rstrip("?")
            if mark == "+" and not any(f"`{name}`" in p and f"`{key}`" in p for p in said):
                raise Refused(f"CHANGELOG.md does not say that `{name}` has `{key}`")
    return write_kept(out, gone)


class Described(unittest.TestCase):
    """The schemas themselves."""

    def test_they_are_strict_and_say_what_everything_is(self):
        referred = set()
        for node in SCHEMAS.nodes():
            where, schema = f"{node.file}{node.pointer}", node.schema
            self.assertEqual(set(schema) - json_schema.ANNOTATIONS - json_schema.KEYWORDS, set(), where)
            if node.pointer == "#":
                self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
                self.assertTrue(schema["title"] and schema["description"], where)
            if "$ref" in schema:
                target = SCHEMAS.target(node)
                referred.add((target.file, target.pointer))
                schema = {**target.schema, **schema}
            if schema.get("type") == "object":
                self.assertIn("additionalProperties", schema, where)
                self.assertNotEqual(schema["additionalProperties"], True, where)
                self.assertLessEqual(set(schema.get("required", [])), set(schema.get("properties", {})), where)
            if node.pointer.split("/")[-2:-1] == ["properties"] and "const" not in schema:
                self.assertTrue(schema.get("description"), where)
        defined = {(file, f"#/$defs/{name}") for file, schema in SCHEMAS.files.items()
                   for name in schema["$defs"]}
        self.assertEqual(defined - referred, set())

    def test_every_verb_has_a_file_and_every_file_a_line_of_the_index(self):
        verbs = set()
        for command in ([Case.program], [Case.rlbisect], [Case.rlbisect, "verdict"],
                        [Case.rlbisect, "changes"], [Case.rlbisect, "op"]):
            tree = json.loads(subprocess.run([*command, "--help-json"], capture_output=True, check=True).stdout)
            verbs |= {verb["name"] for verb in walk(tree)
                      if any("--json" in option["names"] for option in verb["options"])}
        files = {schema["title"] for schema in SCHEMAS.files.values()}
        named = {name.removesuffix(" --json") for name in files if name.endswith(" --json")}
        self.assertEqual(named, verbs)
        self.assertEqual(set(re.findall(r"\]\((\w+\.schema\.json)\)", PAGE.read_text())), set(SCHEMAS.files))

    def test_the_examples_of_the_index_are_such_outputs(self):
        examples = re.findall(r"^\*\*\[(\w+)\]\(.*?^```json\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        self.assertEqual({name + json_schema.ENDING for name, _ in examples}, set(SCHEMAS.files) - {"shared.schema.json"})
        for name, text in examples:
            SCHEMAS.check(name, json_schema.read(text))


def walk(tree):
    yield tree
    for verb in tree["verbs"]:
        yield from walk(verb)


class Validator(unittest.TestCase):
    """What is not described is found."""
    SEAL = {"schema": "rlreplay.seal/1", "recovered": True, "units": 3, "root": "0" * 32}

    def test_a_wrong_object_is_found(self):
        SCHEMAS.check("seal", self.SEAL)
        for change in ({"more": 1}, {"units": "3"}, {"units": -1}, {"units": True}, {"root": "0" * 31},
                       {"recovered": 1}, {"schema": "rlreplay.seal/2"}, {"units": None}):
            with self.assertRaises(Mismatch, msg=change):
                SCHEMAS.check("seal", {**self.SEAL, **change})
        for key in self.SEAL:
            with self.assertRaises(Mismatch, msg=key):
                SCHEMAS.check("seal", {k: v for k, v in self.SEAL.items() if k != key})

    def test_what_is_wrong_inside_is_named_by_its_place(self):
        error = {"schema": "rlreplay.error/1", "error": {"code": "usage", "message": "m", "where": 3}}
        with self.assertRaisesRegex(Mismatch, "/error/where: expected string"):
            SCHEMAS.check("diff", error)

    def test_a_line_is_json_of_the_standard(self):
        for text in ("NaN", '{"a": 1, "a": 2}', "identical", '{"schema": Infinity}'):
            with self.assertRaisesRegex(Mismatch, "no JSON", msg=text):
                check_output(["rlreplay", "diff", "--json"], text + "\n")


class Change(unittest.TestCase):
    """The rule of change. The first two tests are of the rule, the last of the schemas."""
    BEFORE = {"rlreplay.a/1": ["object", "of[].x integer", "text string"]}

    def setUp(self):
        self.kept = write_kept({name: ("=", [("=", line) for line in lines])
                                for name, lines in self.BEFORE.items()}, [])

    def test_an_optional_key_keeps_the_number_and_is_in_the_changelog(self):
        lines = [*self.BEFORE["rlreplay.a/1"], "of[].more? object", "of[].more?.in integer"]
        now = {"rlreplay.a/1": lines}
        for changelog in ("", "- `rlreplay.a/1`: something", "- `more` of it\n- `rlreplay.a/1` and `in`"):
            with self.assertRaisesRegex(Refused, "does not say", msg=changelog):
                updated(self.kept, now, changelog)
        changelog = "- `rlreplay.a/1` has `more`, in it\n  `in`\n"
        text = updated(self.kept, now, changelog)
        self.assertEqual(text.count("+"), 2)
        self.assertEqual(updated(text, now, changelog), text)
        with self.assertRaises(Refused):
            updated(text, now, "")

    def test_anything_else_raises_it(self):
        a = self.BEFORE["rlreplay.a/1"]
        for lines in ([*a, "more integer"], a[:-1], [*a[:-1], "text? string"], [*a[:-1], "text string|null"]):
            with self.assertRaisesRegex(Refused, "it is rlreplay.a/2", msg=lines):
                updated(self.kept, {"rlreplay.a/1": lines}, "")
        now = {"rlreplay.a/2": a[:-1]}
        for changelog in ("", "- `rlreplay.a/2`"):
            with self.assertRaisesRegex(Refused, "does not name"):
                updated(self.kept, now, changelog)
        text = updated(self.kept, now, "- `rlreplay.a/2` instead of `rlreplay.a/1`")
        with self.assertRaisesRegex(Refused, "next number"):
            updated(text, self.BEFORE, "- `rlreplay.a/2` instead of `rlreplay.a/1`")

    def test_a_changed_schema_has_another_shape(self):
        changed = copy.copy(SCHEMAS)
        changed.files = copy.deepcopy(SCHEMAS.files)
        changed.files["seal.schema.json"]["$defs"]["seal"]["required"].remove("units")
        with self.assertRaisesRegex(Refused, "rlreplay.seal/2"):
            updated(write_kept({name: ("=", [("=", line) for line in lines])
                                for name, lines in shapes(SCHEMAS).items()}, []), shapes(changed), "")

    def test_the_schemas_are_as_they_are_kept(self):
        text = KEPT.read_text()
        if updated(text, shapes(SCHEMAS), (ROOT / "CHANGELOG.md").read_text()) != text:
            self.fail(f"a schema changed as it may: {sys.argv[0]} --update")


class Outputs(Case):
    """What the programs print. Every line is held to its schema by `run_program`."""

    @classmethod
    def ask(cls, *arguments, code=0, program=None, **options):
        """The objects that a command prints, with their schemas' names."""
        result = cls.run_program(*arguments, program=program, **options)
        if result.returncode != code:
            raise AssertionError(f"{arguments}: exit {result.returncode}, not {code}\n"
                                 f"{result.stdout[-2000:]}{result.stderr[-2000:]}")
        return [json.loads(line)["schema"] for line in result.stdout.splitlines() if line.startswith("{")]

    @classmethod
    def dumps(cls):
        cls.a, cls.b, cls.lines_a = cls.folder / "a", cls.folder / "b", cls.folder / "a.jsonl"
        record = ("--record", "ops+values+stats")
        cls.ask(*DEMO, *record, "-o", cls.a, "--json")
        cls.ask(*DEMO, *record, "--lr", "0.3", "--use-kl-loss", "-o", cls.b, "--json")
        cls.ask("export", cls.a, "--to", "jsonl", "-o", cls.lines_a, "--json")

    def looking(self):
        a = self.a
        names = self.ask("show", a, "--json")
        self.assertEqual(set(names), {"rlreplay.show/2", "rlreplay.show.rollout/1", "rlreplay.show.step/1"})
        event = "0.0/backward/0/down/dx"
        for words in (["--samples"], ["--sample", "0"], ["--step", "0.0"], ["--rollout", "0"],
                      ["--step", "0.0", "--tensor", "advantages"], ["--event", event],
                      ["--event", event, "--sample", "0"]):
            self.ask("show", a, *words, "--json")
        for path in sorted(DATA.glob("*.pt")):
            self.ask("show", path, "--json")
        diverged = self.folder / "diverged"
        self.ask(*DEMO[:3], "--steps", "1", "--lr", "1e39", "--record", "ops", "-o", diverged, "--json")
        self.ask("show", diverged, "--event", "0.0/optimizer/-/weight/model.embed_tokens.weight", "--json")
        self.ask("verify", "--deep", a, "--json")
        self.ask("verify", DATA / "rollout.pt", "--json")
        self.ask("verify", self.lines_a, "--json")
        self.ask("mismatch", a, "--json")
        self.ask("objective", a, "--json")

    def comparing(self):
        self.ask("diff", self.a, self.a, "--json")
        self.ask("diff", self.a, self.b, "--json", code=1)
        self.ask(self.a, self.b, "--json", program=self.rlbisect)
        golden = self.folder / "golden.txt"
        self.ask("golden", "record", golden, *DEMO[1:])
        self.ask("golden", "check", golden, "--json")
        self.ask("golden", "check", golden, "--self-test", "--json")
        self.ask("golden", "check", golden, "--self-test", "--inject", "0.0/backward/0/down/dx:5:1", "--json")
        self.ask("layouts", self.a, "--try", "dp=2", "--json")
        disturbed = self.folder / "disturbed"
        self.ask("train", self.a, "--inject", "0.0/backward/0/down/dx:5:1", "-o", disturbed, "--json", code=1)
        self.ask("layouts", disturbed, "--try", "dp=2", "--step", "0.0", "--json", code=1)
        self.ask("why", self.a, "0.0/reduce/-/gradient/model.norm.weight:0", "--json")
        self.ask("why", self.a, "0.0/optimizer/-/weight/model.norm.weight:0", "--json")
        golden.write_text(re.sub(r"(?m)^(step 0.0 loss) .*$", r"\1 0x1p+3", golden.read_text()))
        self.ask("golden", "check", golden, "--json", code=1)
        golden.write_text(golden.read_text() + "quarantine until 9999-12-31\nquarantine owner a\nquarantine reason b\n")
        self.ask("golden", "check", golden, "--json")
        golden.write_text(golden.read_text() + "input model 0\n")
        self.ask("golden", "check", golden, "--json")
        leave = "cp -r '{}' $RLBISECT_OUT/dump"
        golden.unlink()
        self.ask("golden", "record", golden, "--class", "any", "--run", leave.format(self.a), "--dump", self.a)
        self.ask("golden", "check", golden, "--run", leave.format(disturbed), "--json", code=1)
        tree = self.folder / "tree"
        for dump in (self.a, disturbed):
            tree.mkdir(exist_ok=True)
            (tree / "run.sh").write_text(leave.format(dump))
            command = ("git init -q . && git add . &&"
                       " git -c user.name=n -c user.email=e@x commit -qm 'Leave another dump [bitwise]'")
            subprocess.run(["sh", "-c", command], check=True, cwd=tree)
        self.ask("golden", "check", "--claim", "HEAD~..HEAD", "--run", "sh run.sh", "--json", code=1, cwd=tree)

    def computing(self):
        names = self.ask("train", "--from", self.a, "--json")
        self.assertEqual(names, ["rlreplay.run.step/1"] * 2 + ["rlreplay.replay/1"])
        self.ask("train", "--from", self.a, "--steps", "0.0", "--without-sample", "0", "--json")
        names = self.ask("train", "--from", self.a, "--lr", "0.1", "--json", code=1)
        self.assertEqual(names[-2:], ["rlreplay.replay.diff/1", "rlreplay.replay/1"])
        self.assertEqual(self.ask("rollout", "--from", self.a, "--json")[-1], "rlreplay.rollout.replay/1")
        self.ask("rollout", "--from", self.a, "--inject", "0.0/rollout/0/down/y:5:1", "--json", code=1)

    def exchanging(self):
        slime, dump = self.folder / "slime", self.folder / "imported"
        self.ask("export", self.a, "--to", "slime", "-o", slime, "--json")
        (slime / "notes.txt").write_text("not a dump")
        self.ask("import", slime, "-o", dump, "--json")
        self.ask("train", "--from", dump, "--model", "demo", "--json", code=1)  # with slime's learning rate
        lines = [json.loads(line) for line in self.lines_a.read_text().splitlines()]
        lean, alone, whitened = (self.folder / name for name in ("lean.jsonl", "alone.jsonl", "whitened"))
        lean.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "log_probs"}) + "\n"
                                for line in lines))
        self.ask("objective", lean, "--json")
        groups_of_one = {"rlreplay.sample/1": lambda line: {"group_id": line["sample_id"]},
                         "rlreplay.train/1": lambda line: {"reward": "7ff8000000000000"}}
        alone.write_text("".join(
            json.dumps({**line, **groups_of_one.get(line["schema"], lambda _: {})(line)}) + "\n" for line in lines))
        self.ask("objective", alone, "--json", code=1)
        self.ask(*DEMO, "--normalize-advantages", "-o", whitened, "--json")
        self.ask("export", whitened, "--to", "jsonl", "-o", f"{whitened}.jsonl", "--json")
        self.ask("objective", f"{whitened}.jsonl", "--json", code=1)

    def closing_dumps(self):
        unfinished = self.folder / "unfinished"
        command = [self.program, *DEMO[:3], "--steps", "100000", "-o", unfinished, "--json"]
        process = subprocess.Popen(command,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        printed = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        printed += process.communicate()[0]
        check_output(command, printed)
        self.assertIn('"code":"interrupted"', printed.splitlines()[-1])
        self.ask("verify", unfinished, "--json", code=3)
        self.ask("seal", "--recovered", unfinished, "--json")
        (unfinished / "rollout/0.h5").write_bytes(b"damaged")
        self.ask("verify", unfinished, "--json", code=3)
        self.ask("show", unfinished, "--rollout", "0", "--json", code=3)
        self.ask("upgrade", ROOT / "tests/golden/dumps/0.1", "-o", self.folder / "upgraded", "--json")
        self.ask("strip", ROOT / "tests/golden/dumps/0.9", "-o", self.folder / "stripped", "--samples", "5",
                 "--columns", "rewards", "--json")
        self.ask("pack", ROOT / "tests/golden/dumps/0.9", "-o", self.folder / "pack.zip", "--json")

    def wrapping(self):
        script = self.folder / "launch.sh"
        script.write_text(f"#!/bin/bash\nexec '{sys.executable}' '{E2E}/stand_in_launcher.py' slime --said "
                          f"'{self.folder}/said' \"$@\"\n")
        script.chmod(0o755)
        self.ask("capture", "--wrap", "slime", "-o", self.folder / "wrapped", "--json", "--", script)

    def refereeing(self):
        model = self.folder / "model"
        checkpoints.write(model, checkpoints.config())
        rows = [{"rollout_id": 0, "sample_id": i, "prompt_length": 2, "tokens": [65 + i, 66, 67, 68],
                 "loss_mask": [1, 1]} for i in range(2)]
        lines = self.folder / "judged.jsonl"
        lines.write_text("".join(
            json.dumps({"schema": "rlreplay.sample/1", "log_probs": [-3.0, -9.0], "reward": 1.0, "group_id": 0,
                        **row}) + "\n"
            + json.dumps({"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, "old_log_probs": [-3.0, -4.0],
                          **row}) + "\n" for row in rows))
        self.ask("import", lines, "-o", self.folder / "judged", "--json")
        self.ask("train", "--from", self.folder / "judged", "--model", model, "--forward", "--json", code=1)
        self.ask("mismatch", self.folder / "judged", "--model", model, "--json")

    def doctoring(self):
        model = self.folder / "ill"
        checkpoints.write(model, checkpoints.config(vocab_size=300), checkpoints.weights(checkpoints.config()))
        self.ask("doctor", model, "--json", code=1)
        self.ask("doctor", model, "--ref", model, "--json", code=1)
        self.ask("doctor", model, "--ref", self.a, "--json", code=1)
        self.ask("doctor", "--list", "--json")

    def searching(self):
        """Numbers that change in a history, one revision of which does not run."""
        place = self.folder / "history"
        runs = ["echo '{\"loss\": [0.5, 0.25]}' >\"$RLBISECT_OUT\"/metrics.json"] * 2
        runs += ["exit 125", runs[0].replace("0.25", "0.125"), runs[0].replace("0.25", "0.125")]
        git = {**os.environ, **{f"GIT_{who}_{what}": "a@localhost" for who in ("AUTHOR", "COMMITTER")
                                for what in ("NAME", "EMAIL")}, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", "init", "-q", "-b", "main", place], check=True, env=git)
        for number, run in enumerate(runs):
            (place / "run.sh").write_text(f"{run}\n# {number}\n")
            subprocess.run(["git", "-C", place, "add", "-A"], check=True, env=git)
            subprocess.run(["git", "-C", place, "commit", "-q", "-m", str(number)], check=True, env=git)
        found = self.ask("HEAD~4..HEAD", "--repo", place, "--run", "bash run.sh", "--json",
                         program=self.rlbisect)
        self.assertEqual(found, ["rlreplay.bisect/1"])
        sides = [self.folder / side for side in ("good", "bad")]
        for side, loss in zip(sides, (0.25, 0.5)):
            side.mkdir()
            (side / "metrics.json").write_text(json.dumps({"loss": [loss]}))
        self.ask("verdict", *sides, "--json", program=self.rlbisect, code=1)
        copy = 'cp "$RLBISECT_CONFIG" "$RLBISECT_OUT/metrics.json"'
        self.ask("loss=1..loss=2", "--run", copy, "--json", program=self.rlbisect)
        self.ask("changes", "HEAD~4..HEAD", "--repo", place, "--run", "bash run.sh", "--json", program=self.rlbisect)
        self.ask("verdict", sides[0], sides[0], "--json", program=self.rlbisect)
        self.ask("op", "0.0/forward/0/down/y", "--from", self.a, "--json", program=self.rlbisect, code=1)

    def helping(self):
        for program in (self.program, self.rlbisect):
            self.assertEqual(self.ask("--help-json", program=program), ["rlreplay.help/1"])

    def failing(self):
        """An error is an object on standard output, too, whatever the verb."""
        nowhere = self.folder / "nowhere"
        for verb in ("capture", "train", "rollout", "show", "verify", "diff", "doctor", "objective", "mismatch", "import",
                     "export", "seal", "upgrade", "strip", "pack", "golden", "layouts", "verdict", "bogus"):
            program = self.rlbisect if verb in ("verdict", "changes") else self.program
            for words in (["--json"], [nowhere, "--json"], [nowhere, "--bogus", "--json"]):
                result = self.run_program(verb, *words, program=program)
                self.assertIn(result.returncode, (2, 3, 129), (verb, words))
                self.assertEqual(json.loads(result.stdout)["schema"], "rlreplay.error/1", (verb, words))

    def test_every_property_comes(self):
        self.dumps()
        for part in (self.looking, self.comparing, self.computing, self.exchanging, self.closing_dumps,
                     self.wrapping, self.refereeing, self.doctoring, self.searching, self.helping, self.failing):
            with self.subTest(part.__name__):
                part()
        described = {(node.file, node.pointer) for node in SCHEMAS.nodes()
                     if node.pointer.split("/")[-2:-1] == ["properties"]}
        self.assertEqual(described - SCHEMAS.seen - set(NOT_SEEN), set())
        self.assertEqual(set(NOT_SEEN) & SCHEMAS.seen, set())


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        KEPT.write_text(updated(KEPT.read_text(), shapes(SCHEMAS), (ROOT / "CHANGELOG.md").read_text()))
        sys.exit()
    Case.program, Case.rlbisect = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
