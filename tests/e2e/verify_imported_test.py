"""`rlreplay verify --deep` of an imported dump finds what an export of it, or an import of that, would
refuse. usage: verify_imported_test.py RLREPLAY"""
import copy
import json
import math
import pathlib
import sys
import unittest

import material
from dump_patch import Patched
from support import Case, save

Case.program = sys.argv[1]
del sys.argv[1]

FINDING, CORRUPT = 1, 3


class Imported(Case):
    """What only an export reads is read by --deep as the export reads it."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("0", "1", "eval_1"):
            samples = [{"index": i, "group_index": 0, "prompt": "p", "response": "r",
                        "tokens": [10 + i, 40, 50], "response_length": 2, "reward": 1.0,
                        "loss_mask": [1, 1], "rollout_log_probs": [-1.0, -2.0 - i],
                        "status": "completed"} for i in range(2)]
            save(cls.folder / f"files/rollout_data/{name}.pt",
                 {"rollout_id": int(name[-1]), "samples": samples})
        made = cls.run_program("import", cls.folder / "files", "-o", cls.folder / "good")
        assert made.returncode == 0, made.stderr
        cls.dump = Patched(cls.folder / "good")
        cls.evaluation, = [u for u in cls.dump.units if "eval" in u]

    def verdicts(self, change):
        """The exit codes of the checker and of the exporter, and what the checker says."""
        dump = copy.deepcopy(self.dump)
        change(dump)
        path = dump.write(self.folder / "patched")
        exported = self.run_program("export", path, "--to", "slime", "--force", "-o",
                                    self.folder / "exported")
        checked = self.run_program("verify", "--deep", "--json", path)
        return checked.returncode, exported.returncode, checked.stdout

    def test_what_can_be_exported(self):
        self.assertEqual(self.verdicts(lambda dump: None)[:2], (0, 0))

    def test_findings_without_their_text(self):
        dump = copy.deepcopy(self.dump)
        tokens = dump.units["rollout/1.h5"]["1/tokens"]
        dump.units["x-findings/found.h5"] = {"data/texts": tokens}
        path = dump.write(self.folder / "no text")
        for deep in ([], ["--deep"]):
            result = self.run_program("verify", *deep, path)
            self.assertEqual(result.returncode, CORRUPT, result.stdout)
            self.assertIn("data/text", result.stdout)

    def test_what_an_export_refuses(self):
        kept = "x-slime/rollout_data/1.h5"

        def moved(dump):
            dump.units["rollout/99.h5"] = {n.replace("1/", "99/", 1): a for n, a
                                           in dump.units.pop(kept).items()}

        def no_records(dump):
            del dump.units[kept]["1/records"]

        def no_column(dump):
            del dump.units["rollout/1.h5"]["1/log_probs"]

        def leads_out(dump):
            dump.at(kept, "1/pickle").attributes["file"] = "../out.pt"

        def of(name, values, dtype=None):
            def change(dump):
                unit = dump.units[self.evaluation]
                dataset, = [n for n in unit if n.endswith(name)]
                unit[dataset] = unit[dataset].reshaped(values(unit[dataset].values), dtype)
            return change
        changes = {"moved": moved, "no records": no_records, "no column": no_column,
                   "leads out": leads_out,
                   "prompt lengths of another type": of("/prompt_length", lambda v: v, "i32"),
                   "unsorted offsets": of("/offsets", lambda v: v[[0, 2, 1]])}
        for name, change in changes.items():
            with self.subTest(name):
                checked, exported, said = self.verdicts(change)
                self.assertEqual(exported, CORRUPT)
                self.assertIn(checked, (FINDING, CORRUPT), said)
                self.assertTrue(json.loads(said)["problems"])

    def test_what_an_import_of_the_export_refuses(self):
        def longer(dump):
            unit = dump.units[self.evaluation]
            lengths, = [n for n in unit if n.endswith("/prompt_length")]
            unit[lengths] = unit[lengths].reshaped([2, 2])
        checked, exported, said = self.verdicts(longer)
        self.assertEqual((checked, exported), (FINDING, 0), said)
        problem, = json.loads(said)["problems"]
        self.assertIn(self.evaluation, problem["path"] + problem["dataset"])
        self.assertIn("loss_mask has 1 values, and the response 2 tokens", problem["message"])

    def test_sums_of_masks_that_are_no_counts(self):
        run = pathlib.Path(material.made()) / "dumps/slime-latest/grpo-tp2dp2"
        result = self.run_program("import", run, "-o", self.folder / "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        for number in (0.25, math.nan):
            dump = Patched(self.folder / "run")
            kept = next(unit for unit in dump.units if unit.startswith("x-slime/train_data/"))
            group, = {name.split("/")[0] for name in dump.units[kept]}
            records = dump.at(kept, f"{group}/records").values
            offsets = [int(n) for n in dump.at(kept, f"{group}/record_offsets").values]
            for begin, end in zip(offsets, offsets[1:]):
                floats = records[begin:end].view("<f4") if end > begin and (end - begin) % 4 == 0 else None
                if floats is not None and (floats >= 1).all() and (floats == floats.round()).all():
                    floats[0] += number
            path = dump.write(self.folder / "no counts")
            exported = self.run_program("export", path, "--to", "slime", "--force", "-o",
                                        self.folder / "exported")
            self.assertEqual(exported.returncode, 0, exported.stderr)
            report, = self.lines("verify", "--deep", path, code=FINDING)
            found = [p for p in report["problems"] if "no number of tokens" in p["message"]]
            self.assertEqual(len(found), 1, report["problems"])
            self.assertIn("rollout_mask_sums is", found[0]["message"])
            self.assertIn(kept, found[0]["path"] + found[0]["dataset"])

    def test_of_what_it_was_imported(self):
        for source in ("slime", {"imported": "nemo"}, {"imported": 3}, {}):
            def change(dump):
                dump.meta["source"] = source
            with self.subTest(source):
                checked, _, said = self.verdicts(change)
                self.assertEqual(checked, CORRUPT, said)
                self.assertIn("`source` does not say", said)
                show = self.run_program("show", self.folder / "patched")
                self.assertEqual(show.returncode, CORRUPT, show.stderr)


if __name__ == "__main__":
    unittest.main()
