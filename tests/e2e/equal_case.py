"""Two dumps, their content roots, and what `diff` and rlbisect say of them."""
import copy
import json

import content
from dump_patch import Patched
from support import Case

DIFFERENT, USAGE, CORRUPT = 1, 2, 3
SMALL = ("--model", "demo", "--steps", "2", "--rollout-batch-size", "2", "--n-samples-per-prompt",
         "2", "--rollout-max-response-len", "4")
LINE = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "prompt_length": 1,
        "tokens": [1, 2], "log_probs": [-0.5]}


class EqualCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base, _ = cls.capture("base", *SMALL, "--weights", "all", "--record",
                                  "tensors+stats+values")
        cls.loaded = Patched(cls.base)

    def content(self, path):
        result = self.run_program("verify", path, "--json")
        self.assertNotEqual(result.stdout, "", f"exit {result.returncode}: {result.stderr}")
        return json.loads(result.stdout)["content"]

    def diff(self, a, b, code, *flags):
        found, = self.lines("diff", a, b, *flags, code=code)
        return found

    def identical(self, a, b):
        """What diff says, held to the content roots and to what rlbisect says."""
        result = self.run_program("diff", a, b, "--json")
        self.assertIn(result.returncode, (0, DIFFERENT), result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(found["identical"], result.returncode == 0)
        self.assertEqual(found["identical"], self.content(a) == self.content(b), found)
        if found["identical"]:
            self.assertEqual([found["content_a"], found["content_b"]], [self.content(a)] * 2)
        result = self.bisected(a, b, "--json")
        self.assertEqual(result.returncode, int(found["identical"]), result.stdout)
        self.assertEqual(json.loads(result.stdout)["first"], found["first"])
        text = self.run_program("diff", a, b).stdout
        self.assertLessEqual(len(text.splitlines()), 20, text)
        for line in text.replace(str(self.folder), "").splitlines():
            words = line.removeprefix("first difference: ").split()
            if len(words) > 1:  # an event's name is one word
                self.assertLessEqual(len(line), 80, text)
        for field in found["fields"]:
            self.assertLessEqual(field["different"], field["compared"], field)
        return found["identical"], found

    def imported(self, name, *lines):
        path = self.folder / (name + ".jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = self.run_program("import", path, "-o", self.folder / name)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / name

    def bisected(self, a, b, *flags):
        return self.run_program(a, b, *flags, program=self.rlbisect)

    def assert_specified(self, path):
        """The program's content root, and what units' records say of their groups, computed in
        Python from what h5py reads."""
        dump = Patched(path)
        self.assertEqual(self.content(path), content.content_root(dump))
        for unit, record in dump.records.items():
            alone = copy.copy(dump)
            alone.units = {unit: dump.units[unit]}
            for group, said in record.get("group_contents", {}).items():
                self.assertEqual(said, content.group_hash(alone, unit.split("/")[0], group), unit)
