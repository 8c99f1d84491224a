"""Commands that the documents show are commands of the programs: verbs, and options by their names.

usage: documents_test.py RLREPLAY RLBISECT"""
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True  # beside the script
LOADER = importlib.machinery.SourceFileLoader("check_documents", str(ROOT / "scripts/check_documents"))
CHECK = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(CHECK)
COMMAND = re.compile(r"(?:^|[\s/(|])(rlreplay|rlbisect) ([^|;&#]*)")
GOLDEN = ("record", "check", "review", "accept", "reject", "list", "explain", "fsck", "diff",
          "tighten", "quarantine")
HASHED = ("root", "content")  # texts of format/SPEC.md begin so
FLAG = re.compile(r"--[a-z][a-z-]*|-[A-Za-z]")


@functools.cache
def helps(program, *words):
    result = subprocess.run([PROGRAMS[program], *words, "--help"], text=True, capture_output=True,
                            env={**os.environ, "COLUMNS": "200"})
    return result.stdout if result.returncode == 0 else ""


def names(program, *words):
    """Every option that a help lists, or says of an argument: "also --from"."""
    listed = re.findall(r"^  (-.*?)(?:  |$)|also (--\S+)", helps(program, *words), re.M)
    return set(FLAG.findall(" ".join(" ".join(names) for names in listed)))


@functools.cache
def verbs(program):
    listed = helps(program).partition("Verbs:")[2]
    return set(re.findall(r"^  (\w+)  ", listed, re.M)) | {"help", "version"}


def wrong(program, rest):
    """What is no verb or option of a program in the words behind its name."""
    words = re.sub("'[^']*'", "", rest.split(" -- ")[0]).split()
    if program == "rlreplay":
        if not words or words[0].startswith("-") or words[0].isupper():
            verb = []
        elif not re.fullmatch(r"[a-z]+", words[0]) or words[0] in HASHED:
            return []
        elif words[0] not in verbs(program):
            return [words[0]]
        elif words[0] == "golden" and words[1:] and words[1] in GOLDEN:
            verb = words[:2]
        else:
            verb = words[:1]
    else:
        verb = words[:1] if words[:1] in (["verdict"], ["op"]) else []
    if verb in (["help"], ["version"]):
        return []
    known = names(program, *verb)
    given = [word.split("=")[0].rstrip(",.:)") for word in words]
    return [word for word in given if FLAG.fullmatch(word) and word not in known]


class Documents(unittest.TestCase):
    maxDiff = None

    def test_the_commands_are_commands(self):
        found, count = [], 0
        for file in CHECK.documents(ROOT):
            text = re.sub(r" \\\n\s*", " ", file.read_text())
            for _, span in CHECK.spans(text):
                if span.split()[:1] and span.split()[0] in verbs("rlreplay"):
                    span = "rlreplay " + span  # `show --event`
                for program, rest in COMMAND.findall(span):
                    count += 1
                    found += [f"{file.relative_to(ROOT)}: {program} {rest.strip()}: {word}"
                              for word in wrong(program, rest)]
        self.assertEqual(found, [])
        self.assertGreater(count, 60)  # else they are not read

    def test_what_is_no_command_is_found(self):
        for command, words in (("sow dump/", ["sow"]), ("show dump/ --smaple 3", ["--smaple"]),
                               ("golden record x --reason y -z", ["-z"]),
                               ("show dump/ --sample 3 -- --smaple", [])):
            self.assertEqual(wrong("rlreplay", command), words)
        self.assertEqual(wrong("rlbisect", "verdict --repeat-sides 2"), ["--repeat-sides"])


if __name__ == "__main__":
    PROGRAMS = dict(zip(("rlreplay", "rlbisect"), map(os.path.abspath, sys.argv[1:3])))
    del sys.argv[1:3]
    unittest.main()
