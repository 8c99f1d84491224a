"""scripts/check_documents finds each kind of name that leads nowhere, and no other."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_documents"

CLEAN = {
    "README.md": "[a page](docs/page.md#words), [a place](https://example.org/none.md), `src/run.h:12`",
    "docs/page.md": "Back to [README](../README.md). `take_step()`, `run.h`, `src/*.h`, `src/{run,stop}.h`.\n\n"
                    "```\n$ scripts/go --fast src/run.h  # as docs/none says\n```\n"
                    "`[no](link.md)`, `docs/NAME.md`, `scripts/on --fast`, `ctest -R go_test`, `A=1 scripts/go --fast`\n",
    "build/old.md": "[gone](gone.md)",
    "src/run.h": "void take_step();  // as old_step did\n",
    "src/stop.h": "",
    "scripts/go": "case $1 in --fast) ;; esac",
    "scripts/on": 'exec scripts/go "$@"\n',
    "tests/CMakeLists.txt": "rlreplay_test(go_test SOURCES go_test.cpp)\n",
}

# text planted at the end of docs/page.md, words of the line that must be printed
PLANTED = [
    ("[a page](page2.md)", "docs/page.md:8: the link page2.md leads nowhere"),
    ("`src/gone.h`", "there is no src/gone.h"),
    ("`RUN=1 src/gone.h -x`", "there is no src/gone.h"),
    ("`src/*.cpp`", "there is no src/*.cpp"),
    ("`src/{run,gone}.h`", "there is no src/{run,gone}.h"),
    ("`gone.h`", "no file of the tree is called gone.h"),
    ("    src/gone.h", "there is no src/gone.h"),
    ("`scripts/go --slow`", "scripts/go has no --slow"),
    ("`ctest --test-dir build -R gone_test`", "there is no test gone_test"),
    ("`old_step`", "docs/page.md:8: no source holds old_step"),
    ("`OldStep()`", "docs/page.md:8: no source holds OldStep"),
    ("`0000000 Begin`", "there is no commit 0000000 Begin"),
]


class CheckDocuments(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for path, text in CLEAN.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "Begin a tree")

    def git(self, *words):
        who = ["-c", "user.name=a test", "-c", "user.email=test@example.org",
               "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", self.root, *who, *words], check=True, text=True,
                              capture_output=True).stdout

    def check(self):
        return subprocess.run([SCRIPT, self.root], text=True, capture_output=True)

    def plant(self, text):
        with open(self.root / "docs/page.md", "a") as page:
            page.write("\n" + text + "\n")

    def test_a_sound_tree_passes(self):
        self.plant("`" + self.git("log", "--format=%H").strip()[:7] + " Begin a tree`")
        result = self.check()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_each_planted_name_is_found_alone(self):
        page = (self.root / "docs/page.md").read_text()
        for text, words in PLANTED:
            with self.subTest(text):
                (self.root / "docs/page.md").write_text(page)
                self.plant(text)
                result = self.check()
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn(words, result.stdout)
                self.assertIn("check_documents: 1 missing", result.stdout)

    def test_the_words_of_the_readme_are_counted(self):
        counted = "## Two words\n" + "word " * 796 + "\n[one](docs/page.md) ![two](docs/page.md)\n"
        for text, code in ((counted, 0), (counted + "- more - : |\n", 1),
                           (counted + "```\nno words\n```\n| a | table |\n<!-- not\nread -->\n- :\n", 0)):
            with self.subTest(text[-60:]):
                (self.root / "README.md").write_text(text)
                result = self.check()
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        (self.root / "README.md").write_text(counted + "more")
        self.assertIn("README.md:1: 801 words, at most 800", self.check().stdout)

    def test_the_readme_names_each_folder_of_a_layer(self):
        (self.root / "src/a").mkdir()
        (self.root / "scripts/check_layers").write_text(
            'LAYERS = {"a": ("src/a", []), "b": ("src/a/b", []), "files": (["src/run"], [])}\n')
        for table, words in (("| `src/a/` | both: `b/` |", ""), ("| `src/a/` |\n| `- b/` |", ""),
                             ("| `src/a/` | none of b |", "README.md:1: the table of folders lacks src/a/b/")):
            with self.subTest(table):
                (self.root / "README.md").write_text(table + "\n")
                result = self.check()
                self.assertEqual(result.returncode, 1 if words else 0, result.stdout + result.stderr)
                self.assertIn(words, result.stdout)

    def test_a_list_of_files_names_each_header(self):
        (self.root / "src/README.md").write_text("    run                 goes on,\n                        or stops\n")
        self.assertIn("src/README.md:1: lists files and not stop.h", self.check().stdout)
        (self.root / "src/README.md").write_text("    run                 goes on,\n                        stop\n")
        self.assertEqual(self.check().returncode, 0)

    def test_the_diagram_of_floors_is_the_table_of_layers(self):
        for floor in "abc":
            (self.root / "src/replay" / floor).mkdir(parents=True)
        (self.root / "README.md").write_text("| `src/replay/a/` `src/replay/b/` `src/replay/c/` |\n")
        (self.root / "scripts/check_layers").write_text(
            'LAYERS = {"a": ("src/replay/a", []), "b": ("src/replay/b", ["a"]), "c": ("src/replay/c", ["a", "b"])}\n')
        for diagram, words in (("a < b < c   look", ""), ("all of them < a, b < c", ""),
                               ("a < b   look", "src/replay/README.md:1: the diagram lacks c"),
                               ("a < c < b", ":1: b may not include c"), ("a < b | d < c", ":1: d is no floor")):
            with self.subTest(diagram):
                (self.root / "src/replay/README.md").write_text("    " + diagram + "\n")
                result = self.check()
                self.assertEqual(result.returncode, 1 if words else 0, result.stdout + result.stderr)
                self.assertIn(words, result.stdout)

    def test_a_commit_is_not_judged_where_there_is_no_history(self):
        subprocess.run(["rm", "-rf", self.root / ".git"], check=True)
        self.plant("`0000000 Begin`")
        self.assertEqual(self.check().returncode, 0)


if __name__ == "__main__":
    unittest.main()
