"""scripts/check_layers finds each kind of violation where it was planted, and no other."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_layers"

CLEAN = {
    "src/base/error.h": "#include <string>\n",
    "src/base/hash.cpp": "#include <xxhash.h>\n",
    "kernels/kernels.h": '#include <vector>\n#include "src/base/error.h"\n',
    "kernels/cpu/rows.cpp": '#include <hwy/highway.h>\n#include "kernels/kernels.h"\n',
    "src/engine/step.h": '#include "kernels/kernels.h"\n',
    "src/engine/torch/linear.cpp": '#include <ATen/ATen.h>\n#include "src/engine/step.h"\n',
    "src/task/text.h": '#include "src/base/error.h"\n',
    "format/dump.h": '#include <sys/stat.h>\n#include "src/base/error.h"\n',
    "src/replay/rerun/replay.h": '#include "src/engine/step.h"\n#include "format/dump.h"\n',
    "src/replay/record/run.h": '#include "format/dump.h"\n',
    "src/replay/compare/diff.h": '#include "src/replay/record/run.h"\n',
    "src/replay/verbs/verb.h": "#include <CLI/App.hpp>\n",
    "src/replay/verbs/train.h": '#include "src/replay/rerun/replay.h"\n',
    "src/bisect/search.h": '#include "src/replay/compare/diff.h"\n',
    "src/main/rlreplay.cpp": '#include "src/replay/verbs/verb.h"\n',
    "tests/base/error_test.cpp": '#include <catch2/catch.hpp>\n#include "src/base/error.h"\n',
    "bench/gemm.cpp": '#include "kernels/kernels.h"\n',
}

# file, planted line, words of the rule that must be printed
PLANTED = [
    ("src/base/error.h", '#include "kernels/kernels.h"', "base may not include kernels"),
    ("kernels/kernels.h", '#include "src/engine/step.h"', "kernels may not include engine"),
    ("src/engine/step.h", '#include "format/dump.h"', "engine may not include format"),
    ("src/engine/step.h", '#include "src/task/text.h"', "engine may not include task"),
    ("src/engine/step.h", '#include "src/engine/torch/linear.cpp"', "engine may not include torch"),
    ("src/task/text.h", '#include "kernels/kernels.h"', "task may not include kernels"),
    ("format/dump.h", '#include "src/task/text.h"', "format may not include task"),
    ("src/replay/rerun/replay.h", '#include "src/bisect/search.h"', "rerun may not include bisect"),
    ("src/replay/rerun/replay.h", '#include "src/engine/torch/linear.cpp"', "may not include torch"),
    ("src/replay/compare/diff.h", '#include "src/replay/rerun/replay.h"',
     "compare may not include rerun"),
    ("src/replay/record/run.h", '#include "src/replay/compare/diff.h"',
     "record may not include compare"),
    ("src/replay/rerun/replay.h", "#include <CLI/App.hpp>", "CLI11 may be named only in"),
    ("src/bisect/search.h", '#include "src/task/absent.h"', "is no path from the root"),
    ("src/main/rlreplay.cpp", '#include "tests/base/error_test.cpp"', "may not include tests"),
    ("kernels/kernels.h", '#include "view.h"', "is no path from the root"),
    ("kernels/kernels.h", '#include "kernels/absent.h"', "is no path from the root"),
    ("src/base/error.h", "#include <xxhash.h>", "xxHash may be named only in"),
    ("src/replay/rerun/replay.h", "#include <ATen/ATen.h>", "libtorch may be named only in"),
    ("src/engine/step.h", "#include <c10/util/ArrayRef.h>", "libtorch may be named only in"),
    ("format/dump.h", "#  include <hdf5.h>", "HDF5 may be named only in"),
    ("kernels/kernels.h", "#include <hwy/base.h>", "Highway may be named only in"),
    ("src/engine/step.h", "#include <CLI/CLI.hpp>", "CLI11 may be named only in"),
    ("format/dump.h", "#include <pcre2.h>", "PCRE2 may be named only in"),
    ("kernels/kernels.h", "#include <fstream>", "know no files"),
    ("src/engine/step.h", "#include <sys/mman.h>", "know no files"),
    ("kernels/cpu/rows.cpp", "#include <immintrin.h>", "belongs to no library"),
    ("src/base/error.h", "#include <boost/any.hpp>", "belongs to no library"),
]


def check(tree):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)


class CheckLayers(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        result = check(CLEAN)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_each_violation_is_found_where_it_is(self):
        for path, line, rule in PLANTED:
            with self.subTest(path=path, line=line):
                text = CLEAN[path] + line + "\n"
                result = check(CLEAN | {path: text})
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(f"{path}:{text.count(chr(10))}: ", result.stdout)
                self.assertIn(rule, result.stdout)
                self.assertIn("1 violations", result.stdout)

    def test_what_a_file_reaches_by_others_is_held_to_its_rule(self):
        result = check(CLEAN | {
            "src/bisect/verbs/search.cpp": '#include "src/replay/verbs/train.h"\n'})
        self.assertEqual(result.returncode, 1)
        self.assertIn("bisect verbs may not reach rerun: src/bisect/verbs/search.cpp -> "
                      "src/replay/verbs/train.h -> src/replay/rerun/replay.h", result.stdout)

    def test_a_folder_outside_the_layers_is_found(self):
        result = check(CLEAN | {"src/tools/tool.cpp": ""})
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/tools/tool.cpp:1: this folder is no layer", result.stdout)


if __name__ == "__main__":
    unittest.main()
