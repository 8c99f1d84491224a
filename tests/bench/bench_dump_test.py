"""The benchmark of dumps prints what docs/measurements.md says. usage: bench_dump_test.py PROGRAM"""
import json
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class BenchDump(unittest.TestCase):
    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [PROGRAM, "--json", "--mib", "1", "--repetitions", "1", "--steps", "1",
                 "--threads", "1", "--folder", folder], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        items = {line["name"]: line for line in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(list(items)[:2], ["write", "read and verify"])
        sizes = [items["record " + granularity]["bytes_per_token"] for granularity in
                 ("steps", "tensors", "ops", "ops+stats", "ops+values")]
        self.assertEqual(sizes, sorted(sizes))
        self.assertGreater(sizes[-1], 10 * sizes[0])
        for name, item in items.items():
            if name.startswith("record "):
                self.assertGreaterEqual(item["stored"], item["running"])


if __name__ == "__main__":
    unittest.main()
