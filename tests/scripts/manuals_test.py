"""Manual pages and completions say what the programs' help says.

usage: manuals_test.py RLREPLAY RLBISECT"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/make_manuals.py"
PROGRAMS = {"rlreplay": os.path.abspath(sys.argv.pop(1)), "rlbisect": os.path.abspath(sys.argv.pop(1))}
FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, **options)


def help_text(*words):
    result = run(PROGRAMS[words[0]], *words[1:], "--help")
    assert result.returncode == 0, result.stderr
    return result.stdout


def listed_flags(text):
    """The flags that a help lists, or says of an argument: "also --from"."""
    entries = re.findall(r"^  (-.*?)(?:  |$)|also (--\S+)", re.sub(r"also\n\s+", "also ", text), re.M)
    return set(FLAG.findall(" ".join(" ".join(entry) for entry in entries)))


def listed_verbs(text, title):
    return re.findall(r"^  (\w+)  ", text.partition(title)[2], re.M)


def commands():
    """Program and words of everything that has a help."""
    out = [["rlreplay"], ["rlbisect"], ["rlbisect", "verdict"], ["rlbisect", "op"]]
    for verb in listed_verbs(help_text("rlreplay"), "Verbs:"):
        out.append(["rlreplay", verb])
        out += [["rlreplay", verb, part] for part in listed_verbs(help_text("rlreplay", verb), "Parts:")]
    return out


class Manuals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rlreplay manuals ")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name)
        result = run(sys.executable, SCRIPT, *PROGRAMS.values(), cls.prefix)
        assert result.returncode == 0, result.stderr
        cls.pages = cls.prefix / "share/man/man1"
        cls.completions = {"bash": cls.prefix / "share/bash-completion/completions",
                           "zsh": cls.prefix / "share/zsh/site-functions",
                           "fish": cls.prefix / "share/fish/vendor_completions.d"}
        cls.commands = commands()
        assert len(cls.commands) > 18, cls.commands

    def files(self, shell):
        return sorted(self.completions[shell].iterdir())

    def without(self, program):
        if not shutil.which(program):
            print(f"SKIPPED: {self.id()}, as there is no {program}", file=sys.stderr)
            return True
        return False

    def test_the_dump_of_the_help_is_the_help(self):
        def walk(app):
            yield app
            for verb in app["verbs"]:
                yield from walk(verb)
        apps = {}
        for words in (["rlreplay"], ["rlbisect"], ["rlbisect", "verdict"], ["rlbisect", "op"]):
            tree = json.loads(run(PROGRAMS[words[0]], *words[1:], "--help-json").stdout)
            self.assertEqual(tree["schema"], "rlreplay.help/1")
            apps.update({app["name"]: app for app in walk(tree)})
        self.assertEqual(sorted(apps), sorted(" ".join(words) for words in self.commands))
        for words in self.commands:
            app, text = apps[" ".join(words)], " ".join(help_text(*words).split())
            names = {name for option in app["options"] for name in option["names"]}
            self.assertEqual(names, listed_flags(help_text(*words)), words)
            for said in [app["usage"], app["description"], app["footer"],
                         *[option["description"] for option in app["options"]]]:
                self.assertIn(" ".join(said.split()), text)
            page = (self.pages / ("-".join(words[:2]) + ".1")).read_text()
            for choice in (each for option in app["options"] for each in option["choices"]):
                self.assertTrue(re.search(rf"\b{choice}\b", page), (words, choice))
        choices = {name: option["choices"] for verb in ("capture", "import")
                   for option in apps["rlreplay " + verb]["options"] for name in option["names"]}
        self.assertEqual(choices["--dialect"], ["slime", "miles"])  # of the table of options
        self.assertEqual(choices["--format"], ["slime", "miles", "relax", "jsonl"])  # a verb's own

    def test_every_flag_has_a_place(self):
        for words in self.commands:
            flags = listed_flags(help_text(*words))
            page = (self.pages / ("-".join(words[:2]) + ".1")).read_text().replace("\\-", "-")
            section = page if len(words) < 3 else re.search(
                rf'^\.SH "{words[2].upper()}"\n(.*?)^\.SH', page, re.M | re.S)[1]
            self.assertLessEqual(flags, set(FLAG.findall(section.replace("\\fB", " "))), words)
            path = "".join(" " + word for word in words[1:])
            text = (self.completions["bash"] / words[0]).read_text()
            case = re.search(rf"^    '{path}'\)\n.*?^        flags='(.*?)'", text, re.M | re.S)
            self.assertEqual(flags, set(case[1].split()), words)
            text = (self.completions["zsh"] / f"_{words[0]}").read_text()
            function = re.search(rf"^_{'_'.join(words)}\(\) {{\n(.*?)^}}", text, re.M | re.S)
            self.assertEqual(flags, set(re.findall(r"^    '(?:\(.*?\))?\*?(-[\w-]+)=?\[",
                                                   function[1], re.M)), words)
            text = (self.completions["fish"] / f"{words[0]}.fish").read_text()
            lines = re.findall(rf"""_at '{path}'" (-[ls] .*?)(?: -[xrFd]|$)""", text, re.M)
            found = " ".join(lines).replace("-l ", "--").replace("-s ", "-")
            self.assertEqual(flags, set(found.split()), words)

    def test_shells_read_them(self):
        for shell in self.completions:
            if self.without(shell):
                continue
            for file in self.files(shell):
                result = run(shell, "-n", file)
                self.assertEqual((result.returncode, result.stderr), (0, ""), file)

    def test_pages_are_clean(self):
        pages = sorted(self.pages.iterdir())
        self.assertEqual(len(pages), len({tuple(words[:2]) for words in self.commands}))
        for command in (["mandoc", "-Tlint", "-Wwarning"], ["man", "--warnings", "-l", "-Tutf8"]):
            if self.without(command[0]):
                continue
            for page in pages:
                result = run(*command, page, env={**os.environ, "LC_ALL": "C.UTF-8"})
                said = result.stdout if command[0] == "mandoc" else result.stderr
                self.assertEqual((result.returncode, said), (0, ""), page)

    def in_bash(self, line):
        """What is proposed behind a line: words, or "files" where readline is to list them."""
        words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith(" ") else [])
        script = ('source "$1"; shift; declare default=files\n'
                  'compopt() { [[ $1$2 != "+odefault" ]] || default=; }\n'
                  'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
                  f'_{words[0]}; printf "%s\\n" "${{COMPREPLY[@]:-$default}}"')
        result = run("bash", "-c", script, "-", self.completions["bash"] / words[0], *words,
                     cwd=self.pages)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def in_fish(self, line):
        script = f'source "{self.completions["fish"]}/{line.split()[0]}.fish"; complete -C"{line}"'
        result = run("fish", "--no-config", "-c", script, cwd=self.pages)
        self.assertEqual(result.stderr, "")
        return [each.split("\t")[0] for each in result.stdout.splitlines()]

    def test_bash_completes(self):
        for line, proposed in (("rlreplay sh", ["show"]), ("rlreplay help see", ["files"]),
                               ("rlreplay help sea", ["seal"]),
                               ("rlreplay golden re", ["record", "review", "reject"]),
                               ("rlreplay capture --dialect ", ["slime", "miles"]),
                               ("rlreplay capture --dialect=m", ["miles"]),
                               ("rlreplay capture --dialect =", ["slime", "miles"]),
                               ("rlreplay golden check r --rope e", ["exact"]),
                               ("rlreplay capture --reward-c", ["--reward-command"]),
                               ("rlreplay capture --lr ", []), ("rlreplay capture -o ", ["files"]),
                               ("rlreplay show ", ["files"]), ("rlreplay show --sort ",
                                                               ["reward", "length"]),
                               ("rlreplay capture --wrap slime -- --dial", ["files"]),
                               ("rlbisect --rep", ["--repo", "--repeat-ends", "--repeat-sides"]),
                               ("rlbisect ver", ["verdict", "version"]),
                               ("rlbisect rlbisect-", ["rlbisect-op.1", "rlbisect-verdict.1"]),
                               ("rlbisect verdict --ref", ["--reference"])):
            self.assertEqual(self.in_bash(line), proposed, line)

    def test_fish_completes(self):
        if self.without("fish"):
            return
        for line, proposed in (("rlreplay sh", ["show"]), ("rlreplay golden re", ["record", "reject", "review"]),
                               ("rlreplay capture --dialect ", ["miles", "slime"]),
                               ("rlreplay golden check r --rope e", ["exact"]),
                               ("rlreplay capture --reward-c", ["--reward-command"]),
                               ("rlreplay capture --lr ", []),
                               ("rlreplay show rlreplay-sh", ["rlreplay-show.1"]),
                               ("rlbisect verdict --ref", ["--reference"])):
            self.assertEqual(self.in_fish(line), proposed, line)

    def test_debian(self):
        prefix = self.prefix / "debian"
        for _ in range(2):
            result = run(sys.executable, SCRIPT, *PROGRAMS.values(), prefix, "--debian",
                         env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
            self.assertEqual(result.returncode, 0, result.stderr)
        packed = (prefix / "share/man/man1/rlreplay-show.1.gz").read_bytes()
        self.assertIn('1 "1970-01-02" "rlreplay ', gzip.decompress(packed).decode())
        self.assertEqual(packed[4:8], bytes(4))  # no time of making
        self.assertTrue((prefix / "share/zsh/vendor-completions/_rlbisect").is_file())


if __name__ == "__main__":
    unittest.main()
