"""What strip takes out is in no byte of what it writes, and what is left reads and verifies as before.

usage: strip_test.py RLREPLAY
"""
import copy
import json
import pathlib
import subprocess
import sys
import unittest

import support

try:
    from dump_patch import Patched
except ImportError:  # of h5py or numpy
    Patched = None


def sample(number):
    return {"schema": "rlreplay.sample/1", "rollout_id": number // 4, "sample_id": number, "prompt_length": 2,
            "tokens": [number, 50 + number, 60 + number, 7], "log_probs": [-0.5 * number, -1.25],
            "reward": number, "prompt": f"secret question {number}", "response": f"secret answer {number}"}


def trained(number):
    return {"schema": "rlreplay.train/1", "rollout_id": number // 4, "step_id": 0, "rank": 0,
            "sample_id": number, "length": 4, "prompt_length": 2, "advantages": [0.25 * number, 1.5], "log_probs": [-1, -2]}


class Strip(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = [made(number) for number in range(8) for made in (sample, trained)]
        path = pathlib.Path(cls.folder, "all.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        cls.dump = cls.folder / "dump"
        result = cls.run_program("import", path, "-o", cls.dump)
        assert result.returncode == 0, result.stderr

    def strip(self, *arguments):
        out = pathlib.Path(self.folder, self.id().rsplit(".", 1)[-1])
        said = self.lines("strip", self.dump, "-o", out, *arguments)[0]
        verified = self.lines("verify", "--deep", out)[-1]
        self.assertEqual(verified["verdict"], "complete")
        self.assertEqual((verified["root"], verified["content"]), (said["root"], said["content"]))
        return out, said

    def exported(self, dump):
        path = pathlib.Path(self.folder, "exported.jsonl")
        result = self.run_program("export", dump, "--to", "jsonl", "-o", path, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_texts_are_in_no_file(self):
        out, said = self.strip("--texts")
        self.assertEqual(said["columns"], ["prompt_text", "response_text"])
        self.assertTrue(any(b"secret" in data for data in support.files(self.dump).values()))
        self.assertFalse(any(b"secret" in data for data in support.files(out).values()))
        want = [{key: value for key, value in line.items() if key not in ("prompt", "response")}
                for line in self.exported(self.dump)]
        self.assertEqual(self.exported(out), want)

    def test_samples_go_and_all_else_stays(self):
        for arguments in (["--samples", "1,2,4,5,6,7"], ["--keep-samples", "0,3"]):
            with self.subTest(arguments):
                out, said = self.strip(*arguments, "--force")
                self.assertEqual(said["samples"], 6)
                want = [line for line in self.exported(self.dump) if line.get("sample_id") in (0, 3)]
                self.assertEqual([line for line in self.exported(out) if "sample_id" in line], want)

    def test_events_go_on_every_rank(self):
        """Rank 0 holds those of all ranks' samples."""
        dump, _ = self.capture("ranks", "--model", "demo", "--num-rollout", "2", "--rollout-batch-size",
                               "2", "--layout", "dp=2", "--record", "ops+values")
        groups = {line["sample_id"] for line in self.exported(dump)
                  if line.get("rollout_id") == 0 and "sample_id" in line}
        for sample in sorted(groups)[::5]:
            out = self.folder / "ranks stripped"
            self.lines("strip", dump, "-o", out, "--force", "--samples", str(sample))
            self.assertEqual(self.lines("verify", "--deep", out)[-1]["verdict"], "complete")
            event = "/forward/-/batch/token"
            self.assertEqual(self.run_program("show", dump, "--event", "0.0" + event).returncode, 0)
            self.assertEqual(self.run_program("show", out, "--event", "1.0" + event).returncode, 0)
            self.assertEqual(self.run_program("show", out, "--event", "0.0" + event).returncode, 2)

    def test_columns_go_with_what_belongs_to_them(self):
        out, said = self.strip("--columns", "rewards,advantages")
        self.assertEqual(said["columns"], ["advantages", "rewards"])
        for line in self.exported(out):
            self.assertFalse({"reward", "advantages"} & set(line))

    def test_the_content_root_is_that_of_what_is_left(self):
        path = pathlib.Path(self.folder, "fewer.jsonl")
        lines = [line for line in self.exported(self.dump) if line.get("sample_id") in (0, 1)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        fewer = pathlib.Path(self.folder, "fewer")
        self.assertEqual(self.run_program("import", path, "-o", fewer).returncode, 0)
        _, said = self.strip("--keep-samples", "0,1")
        self.assertEqual(self.lines("verify", fewer)[-1]["content"], said["content"])

    def test_events_go_with_the_samples_that_they_digest(self):
        captured, _ = self.capture("captured", "--model", "demo", "--rollout-batch-size", "1",
                                   "--n-samples-per-prompt", "4", "--steps", "2", "--record", "tensors")
        out = pathlib.Path(self.folder, "fewer-events")
        said = self.lines("strip", captured, "-o", out, "--samples", "0")[0]
        self.assertIn("2 tables of events, which are of all samples", said["also"])
        verified = self.run_program("verify", "--deep", out, "--json")
        self.assertNotIn(verified.returncode, (3, 70), verified.stdout)
        whole = pathlib.Path(self.folder, "whole")
        self.assertEqual(self.run_program("strip", captured, "-o", whole, "--texts").returncode, 0)
        self.assertEqual(self.run_program("train", "--from", whole).returncode, 0)

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_events_in_units_of_their_own(self):
        """As those that lie with the samples: the events of other groups stay."""
        whole, _ = self.capture("together", "--model", "demo", "--rollout-batch-size", "1", "--n-samples-per-prompt",
                                "4", "--steps", "2", "--record", "tensors")
        dump = Patched(whole)
        for unit in [u for u in dump.units if u.startswith(("rollout/", "train/"))]:
            kind, group, *rank = unit.removesuffix(".h5").split("/")
            moved = {name: dump.units[unit].pop(name) for name in list(dump.units[unit]) if "/events/" in name}
            dump.units["/".join([kind, group + "b", *rank]) + ".h5"] = moved
        apart = dump.write(self.folder / "apart")
        made = []
        for path in whole, apart:
            out = self.folder / "without one"
            said = self.lines("strip", path, "-o", out, "--force", "--samples", "0")[0]
            made.append((said["content"], said["also"], said["samples"]))
            lines = self.run_program("export", path, "--to", "jsonl", "-o", self.folder / "lines.jsonl", "--force")
            self.assertIn("not written: events", lines.stderr)
        self.assertEqual(*made)

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_damage_that_would_be_left_in_is_refused(self):
        """Bytes that hash as their record says and break a rule all the same."""
        dump = Patched(self.dump)
        tokens = dump.at("rollout/1.h5", "1/tokens")
        tokens.values = tokens.values.copy()
        tokens.values[0] = -7
        damaged, out = dump.write(self.folder / "damaged"), self.folder / "of the damaged"
        for arguments in ["--texts"], ["--samples", "1"], ["--columns", "advantages"]:
            result = self.run_program("strip", damaged, "-o", out, *arguments)
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertIn("rollout/1.h5:1/tokens: element 0 is -7", result.stderr)
            self.assertIn(", which stays in what is left: leave it out by --samples or --steps; rlreplay verify --deep "
                          f"'{damaged}' tells all", result.stderr)
            self.assertFalse(out.exists())
        self.assertEqual(self.run_program("strip", damaged, "-o", out, "--steps", "0.0").returncode, 0)
        self.assertEqual(self.run_program("verify", "--deep", out).returncode, 0)

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_texts_without_their_offsets_are_refused(self):
        dump, out = Patched(self.dump), self.folder / "no offsets"
        del dump.units["rollout/1.h5"]["1/prompt_text_offsets"]
        damaged = dump.write(self.folder / "damaged")
        verified = self.lines("verify", "--deep", damaged, code=3)[-1]
        self.assertEqual((verified["units"], verified["whole_units"]), (4, 3))
        self.assertIn("prompt_text_offsets is missing", [found["message"] for found in verified["problems"]])
        for verb, words in (["strip", "--samples", "0"], "stays in what is left"), (["pack"], "the dump in it is damaged"):
            result = self.run_program(verb[0], damaged, "-o", out, *verb[1:])
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertIn("prompt_text_offsets is missing", result.stderr)
            self.assertIn(words, result.stderr)
            self.assertFalse(out.exists())

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_what_is_refused_is_what_verify_refuses(self):
        """Of kept dumps of every version, and of one in which values of two units change places."""
        golden = sorted(path for path in (pathlib.Path(__file__).parents[1] / "golden/dumps").iterdir() if path.is_dir())
        verdicts = [self.refused_alike(path) for path in golden]
        self.assertEqual(set(verdicts), {False})
        random, whole = support.random.Random(support.SEED), Patched(self.dump)
        whole.split_rollout("rollout/0.h5", "rollout/0b.h5", 2)
        for _ in range(6):
            dump = copy.deepcopy(whole)
            one, other = (dump.units[unit] for unit in random.sample(sorted(dump.units), 2))
            name = random.choice(sorted(one))
            alike = [at for at in sorted(other) if at.split("/")[1] == name.split("/")[1]]
            if alike:
                one[name], other[alike[0]] = other[alike[0]], one[name]
            self.refused_alike(dump.write(self.folder / "of others"))
        dump = copy.deepcopy(whole)
        dump.units["rollout/0b.h5"] = dict(dump.units["rollout/0.h5"])
        self.assertTrue(self.refused_alike(dump.write(self.folder / "of others")))

    def refused_alike(self, path):
        """Whether verify calls a dump damaged; packed, it is the same dump."""
        verdict = json.loads(self.run_program("verify", "--deep", path, "--json").stdout)["verdict"]
        packed = self.run_program("pack", path, "-o", self.folder / "of others.zip", "--force")
        self.assertEqual(packed.returncode, 3 if verdict == "DAMAGED" else 0, (path, verdict, packed.stderr))
        left = self.folder / "of others left"
        if self.run_program("strip", path, "-o", left, "--force", "--texts").returncode == 0:
            left = json.loads(self.run_program("verify", "--deep", left, "--json").stdout)["verdict"]
            self.assertNotEqual(left, "DAMAGED", path)
        return verdict == "DAMAGED"

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_a_kill_before_what_is_left_was_judged_leaves_nothing_to_take_for_a_dump(self):
        lines, out = self.folder / "many.jsonl", self.folder / "killed"
        lines.write_text("".join(json.dumps(sample(number)) + "\n" for number in range(400)))
        self.lines("import", lines, "-o", self.folder / "many")
        dump = Patched(self.folder / "many")
        tokens = dump.at("rollout/99.h5", "99/tokens")
        tokens.values = tokens.values.copy()
        tokens.values[0] = -7
        damaged = dump.write(self.folder / "many damaged")
        staging = pathlib.Path(f"{out}{support.STAGED}")
        for _ in range(100):
            process = subprocess.Popen([self.program, "strip", damaged, "-o", out, "--texts"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not any(
                    (staging / name / "manifest.json").exists() for name in ("content", "unjudged")):
                pass
            process.kill()
            process.wait()
            if staging.exists():
                break
        else:
            self.fail("it always ended before it was killed")
        self.assertFalse((staging / "content").exists())
        result = self.run_program("import", lines, "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("removes what an interrupted run left", result.stderr)
        self.assertEqual(self.lines("verify", "--deep", out)[-1]["verdict"], "complete")
        self.assertFalse(staging.exists())

    @unittest.skipIf(Patched is None, "needs h5py and numpy")
    def test_offsets_that_lead_nowhere_are_refused_before_anything_is_cut_by_them(self):
        """Their hashes fit: nobody has read them before."""
        cases = (("offsets", lambda old: old[:-1]), ("offsets", lambda old: [old[0], old[2], old[1], *old[3:]]),
                 ("offsets", lambda old: [*old[:-1], old[-1] + (1 << 40)]), ("offsets", lambda old: [4, *old[1:]]),
                 ("prompt_text_offsets", lambda old: old[:-1]), ("offsets", lambda old: []),
                 ("rewards", lambda old: old[:-1]), ("tokens", lambda old: old[:-1]))
        for number, (name, change) in enumerate(cases):
            with self.subTest(name, number=number):
                dump = Patched(self.dump)
                unit = dump.units["rollout/1.h5"]
                path = next(path for path in unit if path.startswith(f"1/{name}"))
                unit[path] = unit[path].reshaped(change(list(unit[path].values)))
                result = self.run_program("strip", dump.write(self.folder / "misled"), "-o", self.folder / "no",
                                          "--samples", "5")
                self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
                self.assertIn("rollout/1.h5:1/", result.stderr)
                self.assertNotIn("stays in what is left", result.stderr)
                self.assertFalse((self.folder / "no").exists())

    def test_what_cannot_be_taken_out_is_refused(self):
        for arguments, words in ((["--columns", "tokens"], "without tokens no samples can be read"),
                                 (["--columns", "reward"], "there is no column reward; there are"),
                                 (["--samples", "99"], "there is no sample 99"),
                                 (["--samples", "0,1,2,3,4,5,6,7"], "no sample would be left"),
                                 ([], "nothing is to be taken out")):
            with self.subTest(arguments):
                result = self.run_program("strip", self.dump, "-o", pathlib.Path(self.folder, "no"), *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
