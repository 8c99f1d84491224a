"""The reader that knows format/SPEC.md alone says of every golden dump what the program says: root, content
root, and of a bad one the rule. Of a captured run too, whose recorded values have their digests.
usage: spec_reader_test.py RLREPLAY GOLDEN_FOLDER
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
    import xxhash  # noqa: F401
    import zstandard  # noqa: F401
except ImportError:
    sys.exit(77)

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import dump_patch  # noqa: E402
import spec_joins  # noqa: E402

RLREPLAY, GOLDEN = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
READER = pathlib.Path(__file__).with_name("spec_reader.py")
# Bad dumps whose rule h5py cannot tell, with what it says instead, and why. Empty: of the golden ones it
# tells all. What it never can: a flag that is not defined, the order of B-tree records, gaps, counts of a
# fractal heap, the version of a message (rule `container`, section 3 "HDF5 forms").
UNTOLD = {}


def read(dump):
    done = subprocess.run([sys.executable, READER, dump], capture_output=True, text=True)
    if done.returncode not in (0, 1) or done.stderr:
        raise AssertionError(done.stderr)
    return done.returncode, done.stdout.splitlines()


def verify(dump, *more):
    done = subprocess.run([RLREPLAY, "verify", dump, "--json", *more], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


class Readers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_whole(self, dump):
        said = verify(dump)
        self.assertEqual(said["verdict"], "complete", dump)
        want = ["whole", f"root {said['root']}", f"content root {said['content']}"]
        self.assertEqual(read(dump), (0, want), dump)


class Spec(Readers):
    def bad(self, name):
        """The sound dump with what the bad one has otherwise; an empty file there is none here."""
        dump = self.folder / name
        shutil.copytree(GOLDEN / "bad/sound", dump)
        for path in filter(pathlib.Path.is_file, (GOLDEN / "bad" / name).rglob("*")):
            target = dump / path.relative_to(GOLDEN / "bad" / name)
            if path.stat().st_size:
                shutil.copyfile(path, target)
            else:
                target.unlink()
        return dump

    def test_golden(self):
        dumps = [path for path in (GOLDEN / "dumps").iterdir() if path.is_dir()]
        self.assertGreaterEqual(len(dumps), 2)
        for dump in [*dumps, GOLDEN / "bad/sound"]:
            self.assert_whole(dump)

    def test_bad(self):
        texts = sorted((GOLDEN / "bad").glob("*.txt"))
        self.assertGreater(len(texts), 30)
        for text in texts:
            code, lines = read(self.bad(text.stem))
            want = [line.split("\t")[:3] for line in text.read_text().splitlines()][0]
            want = UNTOLD.get(text.stem, want)
            want[1] = want[1].split(":")[0]  # the line of a journal is ours alone
            self.assertEqual((code, lines[0].split("\t")[:4]), (1, ["broken", *want]), text.stem)

    def capture(self):
        dump = self.folder / "dump"
        subprocess.run([RLREPLAY, "capture", "--model", "demo", "--steps", "3", "--rollout-batch-size", "2",
                        "--num-steps-per-rollout", "2", "--record", "ops+values", "--weights", "all",
                        "-o", dump],
                       check=True, capture_output=True)
        return dump

    def test_captured(self):
        dump = self.capture()
        self.assert_whole(dump)
        unsealed = self.folder / "unsealed"
        shutil.copytree(dump, unsealed)
        (unsealed / "manifest.json").unlink()
        (unsealed / "units.index").unlink()
        (unsealed / "INCOMPLETE").touch()
        self.assertEqual(read(unsealed), read(dump))

    def test_digests(self):
        """What the reader checks beyond hashes: another seed, name or cut gives another digest."""
        sys.path.insert(0, str(READER.parent))
        import spec_joins
        import spec_reader
        dump = spec_reader.Dump(self.capture())
        dump.check()
        unit = dump.unit("train/0-0/rank0.h5")
        model = json.loads(dump.meta["model"])
        self.assertGreater(len(spec_joins.check_events(model, unit, unit.group("0-0"))), 50)
        dump.meta["model"] = json.dumps({**model, "num_attention_heads": 4})
        with self.assertRaisesRegex(spec_reader.Broken, "digest\t.*self_attn|digest\t.*qkv/q"):
            spec_joins.check_digests(dump)


class Between(Readers):
    """What units say of each other, by both readers."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dump = pathlib.Path(folder.name, "dump")
        subprocess.run([RLREPLAY, "capture", "--model", "demo", "--steps", "2", "--rollout-batch-size", "2",
                        "--n-samples-per-prompt", "4", "--weights", "all", "--layout", "dp=2", "-o", cls.dump],
                       check=True, capture_output=True)

    def patched(self, name, change):
        patched = dump_patch.Patched(self.dump)
        change(patched)
        return patched.write(self.folder / name)

    def assert_broken(self, dump, dataset):
        said = verify(dump, "--deep")
        self.assertEqual(said["problems"][0]["code"], "meaning", dump)
        code, [line] = read(dump)
        self.assertEqual((code, line.split("\t")[:2], line.split("\t")[3]), (1, ["broken", "meaning"], dataset))

    def two(self, change=lambda first, second: None):
        def split(patched):
            patched.split_rollout("rollout/0.h5", "rollout/0b.h5", 3)
            change(patched.units["rollout/0.h5"], patched.units["rollout/0b.h5"])
        return split

    def test_units_of_a_rollout(self):
        self.assert_whole(self.patched("two", self.two()))

        def named(first, second):
            for unit, names in ((first, "x\ny"), (second, "x\nz")):
                count = unit["0/sample_id"].values.size
                unit["0/reward_components"] = dump_patch.Array(
                    numpy.zeros(2 * count), "f64", [count, 2], {"columns": names})

        def called(first, second):
            for unit in first, second:
                count = unit["0/sample_id"].values.size
                prompts = unit["0/prompt_length"].values
                lengths = numpy.diff(unit["0/offsets"].values)
                for name, dtype, values in (("offsets", "u64", numpy.arange(count + 1)), ("first", "u32", prompts),
                                            ("length", "u32", lengths - prompts)):
                    unit[f"0/call_{name}"] = dump_patch.Array(
                        values.astype(dump_patch.STORED[dtype]), dtype, [len(values)], {})
            count = first["0/sample_id"].values.size
            first["0/call_seed"] = dump_patch.Array(numpy.zeros(count, "<i8"), "i64", [count], {})
        for column, change in (("prompt_length", lambda _, second: second.pop("0/prompt_length")),
                               ("version_starts", lambda _, second: second.pop("0/version_starts")),
                               ("reward_components", named), ("call_seed", called)):
            with self.subTest(column):
                self.assert_broken(self.patched(column, self.two(change)), f"0/{column}")

    def test_another_attribute_of_a_copy_changes_the_content_root_alone(self):
        name = "1-0/parameters/model.embed_tokens.weight"

        def copy(patched):
            array = patched.at("weights/1-0/rank0.h5", name)
            patched.units["weights/1-0/rank1.h5"][name] = dump_patch.Array(
                array.values, array.dtype, array.shape, {"unit": "gram"})
        self.assert_whole(self.patched("attribute", copy))

    def test_the_parts_of_a_rank_are_its_own(self):
        """What two units say of a field differently counts by their order: by rank, then path."""
        def part(patched):
            for unit, value in (("train/1-0/rank0.h5", 1.5), ("train/1-0/rank1.h5", 2.5)):
                patched.units[unit]["1-0/own"] = dump_patch.Array(numpy.array([value]), "f64", [1], {})
            patched.units["train/1-0/rank1-part0.h5"] = {
                "1-0/own": dump_patch.Array(numpy.array([3.5]), "f64", [1], {}),
                "1-0/coordinates": patched.units["train/1-0/rank1.h5"]["1-0/coordinates"]}
        dump = self.patched("parts", part)
        said, (code, lines) = verify(dump, "--deep"), read(dump)
        self.assertEqual(lines[-1].split()[-1] if code == 0 else "", said.get("content") or "")


class Example(unittest.TestCase):
    def test_the_digest_of_the_text_is_that_of_the_example(self):
        text = (pathlib.Path(__file__).parents[2] / "format/SPEC.md").read_text()
        values = numpy.array([1, 2], "<f4")
        digest, = spec_joins.row_digests({}, "model.norm.weight", "f32", (2,), values, None)
        self.assertIn(f"the digest is `{digest:032x}`", text)
        self.assertIn(f"`{' '.join(f'{byte:02x}' for byte in values.tobytes())}`", text)
        seed = struct.pack("<3Q", xxhash.xxh3_64_intdigest(b"model.norm.weight|f32|2"), 0, 0)
        self.assertIn(f"`{xxhash.xxh3_64_intdigest(seed):016x}`", text)


if __name__ == "__main__":
    unittest.main()
