"""scripts/check_code finds each kind of violation where it was planted, and no other."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_code"

CLEAN = {
    "src/base/text.h": "#pragma once\n"
                       "[[nodiscard]] bool is_text(int kind);\n"
                       "void check_text(int kind);  // bool is_said(int kind)\n"
                       "bool operator==(const Text& one, const Text& other);\n"
                       "Text& append(Text& to, int kind);\n"
                       "struct Text {\n"
                       "  [[nodiscard]] static Text parse(int kind);\n"
                       "  [[nodiscard]] bool empty() const { return is_text(0); }\n"
                       "  int size = 0;\n"
                       "};\n",
    "src/base/text.cpp": "namespace rlreplay {\n"
                         "constexpr int kSize = 3;\n"
                         "const char* const kName = \"new Text\";\n"
                         "static constexpr int kOther = 4;\n"
                         "static int twice(int x) { return 2 * x; }\n"
                         "Text make() { return {}; }\n"
                         "Text::~Text() = delete;\n"
                         "int main_one() {\n"
                         "  static const int kept = 5;\n"
                         "  return kept;\n"
                         "}\n"
                         "}\n",
    "src/base/unfinished.cpp": "constinit List all_unfinished;\n",
    "kernels/contract.h": "#define RLREPLAY_INLINE inline\n",
    "kernels/cpu/rows.cpp": "#define HWY_TARGET_INCLUDE \"kernels/cpu/rows.cpp\"\n",
    "python/reader.cpp": "Dump* open() { return new Dump; }\n",
    "tests/base/text.h": "bool is_text(int kind);\n",
}

# file, planted line, words of the rule that must be printed
PLANTED = [
    ("src/base/text.h", "bool is_white(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "  std::vector<int> find(int kind) const;", "is [[nodiscard]]"),
    ("src/base/text.h", "inline const Text* find_text() {", "is [[nodiscard]]"),
    ("src/base/text.h", "std::map<int, std::pair<int, int>> read_all(", "is [[nodiscard]]"),
    ("src/base/text.h", "bool take_text(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "bool try_text(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "bool replay_text(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "  virtual bool whole() const = 0;", "is [[nodiscard]]"),
    ("src/base/text.h", "std::string text_of(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "  static Text open(int kind);", "is [[nodiscard]]"),
    ("src/base/text.h", "inline double half(int kind) {", "is [[nodiscard]]"),
    ("src/base/text.h", "std::optional<int> size_of(int kind);", "is [[nodiscard]]"),
    ("src/base/text.cpp", "#define TWICE(x) (2 * (x))", "TWICE is no macro of the table"),
    ("kernels/contract.h", "#define RLREPLAY_OTHER 1", "RLREPLAY_OTHER is no macro"),
    ("src/base/text.cpp", "int count = 0;", "count is state without an owner"),
    ("src/base/text.cpp", "  static std::vector<int> seen;", "seen is state without an owner"),
    ("src/base/text.cpp", "  static Text* const one = make();", "one is state without an owner"),
    ("src/base/text.cpp", "thread_local Text last(3);", "last is state without an owner"),
    ("src/base/text.h", "inline std::atomic<int> calls{0};", "calls is state without an owner"),
    ("src/base/unfinished.cpp", "constinit List second;", "second is state without an owner"),
    ("src/base/text.cpp", "  auto* text = new Text;", "memory has an owner"),
    ("src/base/text.cpp", "  delete text;", "memory has an owner"),
    ("src/base/text.cpp", "  (void)make();", "dropped by static_cast<void>"),
    ("src/base/text.cpp", "  (void)::close(1);", "dropped by static_cast<void>"),
    ("src/base/text.cpp", "  if (found) (void) text_of(kind);", "dropped by static_cast<void>"),
]


def check(tree):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)


class CheckCode(unittest.TestCase):
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

    def test_a_second_header_of_one_name_is_found(self):
        result = check(CLEAN | {"format/text.h": "#pragma once\n"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/base/text.h:1: format/text.h has this name too", result.stdout)


if __name__ == "__main__":
    unittest.main()
