"""The benchmark of imports prints what docs/measurements.md says, of dumps as pickle writes them.
usage: bench_import_test.py RLREPLAY SCRIPT"""
import io
import json
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest
import zipfile

PROGRAM, SCRIPT = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(SCRIPT).parent))
import bench_import  # noqa: E402


class BenchImport(unittest.TestCase):
    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [sys.executable, SCRIPT, PROGRAM, "--json", "--bytes", "2M", "--files", "1,2",
                 "--torch", "false", "--folder", folder], capture_output=True, text=True)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
        self.assertEqual(result.returncode, 0, result.stderr)
        one, two = map(json.loads, result.stdout.splitlines())
        self.assertEqual((one["files"], two["files"]), (1, 2))
        for item in one, two:
            self.assertTrue(item["within_bound"])
            self.assertEqual(item["bound_bytes"] - item["packed_bytes_of_a_file"], 512 << 20)
            self.assertNotIn("torch", item)
        # 4 bytes an id and a log-probability, 1 a mask.
        self.assertGreater(one["packed_bytes_of_a_file"], 9 * one["tokens"])
        self.assertLess(two["packed_bytes_of_a_file"], 0.6 * one["packed_bytes_of_a_file"])

    def test_written_in_pieces_as_at_once(self):
        draw = random.Random(7)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "5.pt"
            tokens = bench_import.write(path, 5, 1 << 20, random.Random(7))
            with zipfile.ZipFile(path) as archive:
                read = pickle.load(io.BytesIO(archive.read("5/data.pkl")))
        bench_import.sample(draw, 0)  # the one whose keys were taken
        count = len(read["samples"])
        wanted = [bench_import.sample(draw, 5 * count + i) for i in range(count)]
        self.assertEqual(read, {"rollout_id": 5, "samples": wanted})
        self.assertEqual(tokens, sum(len(sample["tokens"]) for sample in wanted))
        self.assertEqual({type(token) for token in read["samples"][0]["tokens"]}, {int})


if __name__ == "__main__":
    unittest.main()
