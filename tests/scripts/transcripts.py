"""Blocks of commands in the documents: how they are read, and how what was printed is compared.

A block of `console` holds commands behind "$ " and what each prints on standard output; a line "..." is
one line or more that are left out. A block of `sh` holds commands alone. Lines right before a block say

  <!-- exit N -->                its last command ends with N and not with 0
  <!-- numbers vary: REASON -->  numbers are compared by their places alone
  <!-- not run: REASON -->       it is shown and never run

and anywhere before it <!-- needs: NAME, NAME --> names what lies in the folder where a page's
blocks are run, one after the other. Every other block is of another language and holds no command.
"""
import collections
import difflib
import re

Command = collections.namedtuple("Command", "text printed")  # printed: lines, None where not shown
Block = collections.namedtuple("Block", "line language commands exit vary skip needs")

FENCE = re.compile(r"^( *)```(.*)$")
DIRECTIVE = re.compile(r"<!-- (exit|numbers vary|not run|needs):? (.+?) -->")
PROGRAM = re.compile(r"^\s*(\$ |rlreplay |rlbisect |scripts/|git )")
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
TOKEN, BAR = re.compile(r'"[^"]*"'), re.compile(r"\s#+$")
# What no two runs print alike: the pattern, and what stands for it on both sides.
VARIES = [(re.compile(r"(\d) +\d+\.\d\d ([0-9a-f]{8} )"), r"\1 SECONDS \2")]  # of a step's line
ELLIPSIS = "..."


class Malformed(Exception):
    """A block that nobody would run or compare."""


def commands(language, lines):
    if language == "sh":
        return [Command("\n".join(lines), None)]
    found = []
    open_line = False  # the last one ended with a backslash
    for line in lines:
        if open_line:
            found[-1] = Command(found[-1].text + "\n" + line, [])
        elif line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif not found:
            raise Malformed(f'a block of console begins with "$ ", not with "{line}"')
        else:
            found[-1].printed.append(line)
            continue
        open_line = line.endswith("\\")
    return found


def blocks(text):
    """Every block of a document that holds commands. Errors: Malformed."""
    said, needs, body, language, start = {}, [], None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if body is None and fence:
            body, language, start = [], fence.group(2).strip(), number
            continue
        if body is None:
            found = dict(DIRECTIVE.findall(line))
            needs += [name.strip() for name in found.pop("needs", "").split(",") if name.strip()]
            said = {**said, **found} if found else {}
            if line.startswith("    ") and PROGRAM.match(line):
                raise Malformed(f"{number}: a command stands in an indented block")
            continue
        if not fence:
            body.append(line)
            continue
        if language in ("console", "sh"):
            try:
                listed = commands(language, body)
            except Malformed as error:
                raise Malformed(f"{start}: {error}")
            yield Block(start, language, listed, int(said.get("exit", 0)), said.get("numbers vary"),
                        said.get("not run"), needs)
            needs = []
        elif not language:
            raise Malformed(f"{start}: a block says what it is: console, sh, text, ...")
        elif "not run" not in said and any(PROGRAM.match(line) for line in body):
            raise Malformed(f"{start}: a command stands in a block of {language}")
        said, body = {}, None
    if body is not None:
        raise Malformed(f"{start}: the block does not end")


def plain(lines, vary=False):
    """Lines as they are compared: without blanks at their ends, without what varies."""
    made = []
    for line in lines:
        for pattern, name in VARIES:
            line = pattern.sub(name, line)
        if vary:
            line = re.sub(r"\s+", " ", NUMBER.sub("N", TOKEN.sub("TOKEN", BAR.sub("", line))))
        made.append(line.rstrip())
    while made and not made[-1]:
        made.pop()
    return made


def agree(shown, printed, vary=False):
    """Whether `printed` is what a document shows."""
    shown, printed = plain(shown, vary), plain(printed, vary)
    parts = [[]]
    for line in shown:
        if line == ELLIPSIS:
            parts.append([])
        else:
            parts[-1].append(line)
    first, *rest = parts
    if printed[:len(first)] != first:
        return False
    if not rest:
        return len(printed) == len(first)
    at = len(first)
    for part in rest[:-1]:
        at = next((i for i in range(at + 1, len(printed)) if printed[i:i + len(part)] == part), None)
        if at is None:
            return False
        at += len(part)
    last = rest[-1]
    return len(printed) - len(last) > at and (not last or printed[-len(last):] == last)


def difference(shown, printed, vary=False):
    """In words, for two that do not agree."""
    shown, printed = plain(shown, vary), plain(printed, vary)
    if ELLIPSIS not in shown:
        return "\n".join(difflib.unified_diff(shown, printed, "shown", "printed", lineterm="", n=2))
    gone = [line for line in shown if line != ELLIPSIS and line not in printed]
    return "\n".join(["shown and not printed:", *(gone or ["(each line is, but not in these places)"]),
                      "printed:", *printed])
