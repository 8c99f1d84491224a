#!/usr/bin/env python3
"""Reads a dump by the text of format/SPEC.md ("3" is its section 3) and docs/numerics.md alone, with h5py
for the container. It shares no code with the program: what both say of a dump is said twice.

usage: spec_reader.py DUMP    prints verdict, root and content root; exit code 0: whole, 1: broken, by RULE

Three verdicts are no rules of section 5: `tiles` (blocks of a sharded tensor overlap), `join` (rollout,
ranks and steps contradict each other) and `digest` (recorded values do not have their digest).
"""
import json
import os
import pathlib
import re
import stat
import sys

from spec_joins import check_digests, check_joins
from spec_unit import Unit
from spec_values import (GIB, GROUP, HASH, NUMBER, UNIT_PATH, Broken, canonical,
                         content_root, digest, hash_of_lines, require)


# 2. Records

def canonical(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parse(body):
    """The value of canonical JSON; ValueError for any other spelling."""
    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    def refuse(text):
        raise ValueError(text)

    def depth(value):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    def whole(text):
        return int(text) if -1 << 63 <= int(text) < 1 << 64 else refuse(text)
    value = json.loads(body.decode(), object_pairs_hook=once, parse_float=refuse, parse_int=whole,
                       parse_constant=refuse)
    if depth(value) > 16 or canonical(value).encode() != body:
        raise ValueError("not canonical")
    return value


def records(texts, path):
    """The bodies of records; each rule over all lines."""
    for text in texts:
        require(re.fullmatch(rb'\{"body":.*,"hash":"[0-9a-f]{32}"\}', text, re.S), "record-syntax", path)
    for text in texts:
        require(digest(text[8:-43]) == text[-34:-2].decode(), "record-hash", path)
    try:
        return [parse(text[8:-43]) for text in texts]
    except (ValueError, RecursionError):
        raise Broken("record-form", path) from None


def has(value, **types):
    """Whether an object has these keys, of these types: a number is not below 0, a hash is of its form."""
    def fits(item, wanted):
        if wanted is HASH:
            return isinstance(item, str) and HASH.fullmatch(item)
        return type(item) is wanted and (wanted is not int or item >= 0)
    return isinstance(value, dict) and all(fits(value.get(key), kind) for key, kind in types.items())


def head_schema(body):
    return has(body, meta=dict) and has(body["meta"], ranks=int) and 1 <= body["meta"]["ranks"] <= 1 << 20


def unit_schema(unit):
    if not has(unit, path=str, size=int, hash=HASH, content=HASH, logical=int, groups=list):
        return False
    grammar = GROUP.get(unit["path"].split("/")[0], re.compile(".*", re.S))
    contents = unit.get("group_contents", {})
    return (max(unit["size"], unit["logical"]) <= 1 << 50
            and all(isinstance(name, str) and grammar.fullmatch(name) for name in unit["groups"])
            and all(-1 << 63 <= int(n) < 1 << 63 for name in unit["groups"] if grammar.pattern != ".*"
                    for n in re.findall(NUMBER, name))
            and isinstance(contents, dict) and has(contents, **dict.fromkeys(contents, HASH)))


def manifest_schema(body):
    return (head_schema(body) and has(body, complete=bool, journal=dict, units=list, root=HASH, unstable=dict)
            and has(body["journal"], size=int, hash=HASH) and all(map(unit_schema, body["units"]))
            and [u["path"] for u in body["units"]] == sorted(u["path"] for u in body["units"])
            and has(body.get("derived_from", {"version": "", "root": "0" * 32}), version=str, root=HASH))


def check_heads(head, path):
    require(has(head, format=str) and head["format"] == "rlreplay", "format-name", path)
    require(has(head, major=int, minor=int) and head["major"] == 0 and head["minor"] < 1 << 31,
            "version", path)
    require(head.get("must_understand") == [], "must-understand", path)


def check_units(units, path):
    for unit in units:
        require(UNIT_PATH.fullmatch(unit["path"]), "unit-path", path)


def check_duplicates(units, path):
    require(len({unit["path"] for unit in units}) == len(units), "duplicate", path)


class Dump:
    """The records of a folder, whose rules are checked; `unit` gives a checked unit."""

    def __init__(self, folder):
        self.folder, self.units = pathlib.Path(folder), {}
        manifest, journal = self.folder / "manifest.json", self.folder / "journal.jsonl"
        note = self.folder / "INCOMPLETE"
        sealed, begun = os.path.lexists(manifest), os.path.lexists(journal)
        odd = begun and not stat.S_ISREG(os.lstat(journal).st_mode)
        require(sealed or odd or begun and b"\n" in journal.read_bytes(), "not-a-dump", ".")
        require(sealed or odd or os.path.lexists(note), "manifest-missing", manifest.name)
        files = [p for p in ((manifest, journal) if sealed else (journal, note)) if os.path.lexists(p)]
        for p in files:
            require(stat.S_ISREG(os.lstat(p).st_mode), "file-type", p.name)
        for p in files:
            require(p.stat().st_size <= (GIB if p == journal else GIB >> 4), "file-size", p.name)
        self.sealed = sealed
        if sealed:
            self.read_manifest(manifest.read_bytes(), journal)
        else:
            self.read_journal(journal.read_bytes())
            if text := note.read_bytes():
                require(text.endswith(b"\n"), "record-syntax", "INCOMPLETE")
                said = records([text[:-1]], "INCOMPLETE")[0]
                require(isinstance(said, dict) and isinstance(said.get("unstable", {}), dict),
                        "schema", "INCOMPLETE")
        self.minor, self.meta = self.head["minor"], self.head["meta"]

    def read_manifest(self, text, journal):
        path = "manifest.json"
        require(text.endswith(b"\n"), "record-syntax", path)
        self.head = head = records([text[:-1]], path)[0]
        check_heads(head, path)
        units = head.get("units")
        require(not isinstance(units, list) or len(units) <= 1_000_000, "unit-count", path)
        require(manifest_schema(head), "schema", path)
        check_units(units, path)
        check_duplicates(units, path)
        self.root = self.root_of(units)
        require(self.root == head["root"], "root", path)
        data = journal.read_bytes() if os.path.lexists(journal) else None
        wanted = head["journal"]
        require(data is not None and len(data) == wanted["size"] and digest(data) == wanted["hash"],
                "journal", "journal.jsonl")
        self.records = units

    def read_journal(self, text):
        path = "journal.jsonl"
        texts = text.split(b"\n")[:-1]
        bodies = records(texts, path)
        self.head = bodies[0]
        check_heads(self.head, path)
        require(head_schema(self.head) and all(
            has(body, line=int) and (not n or has(body, previous=HASH) and unit_schema(body.get("unit")))
            for n, body in enumerate(bodies)), "schema", path)
        units = [body["unit"] for body in bodies[1:]]
        check_units(units, path)
        for n, body in enumerate(bodies):
            require(body["line"] == n and (not n or body["previous"] == texts[n - 1][-34:-2].decode()),
                    "chain", path)
        check_duplicates(units, path)
        self.records = sorted(units, key=lambda unit: unit["path"])
        self.root = self.root_of(self.records)

    def root_of(self, units):
        return hash_of_lines(["rlreplay root", canonical(self.head["meta"]),
                              *(f"{unit['path']} {unit['content']}" for unit in units)])

    def unit(self, path):
        if path not in self.units:
            self.units[path] = Unit(self, self.paths[path])
        return self.units[path]

    def check(self):
        self.paths, self.groups = {unit["path"]: unit for unit in self.records}, {}
        for path in sorted(self.paths):
            self.unit(path).check_values()
        for unit in sorted(self.units.values(), key=lambda u: (u.rank, u.path)):
            for name in unit.record["groups"] if unit.kind in GROUP else []:
                self.groups.setdefault((unit.kind, name), []).append((unit, unit.group(name)))
        self.check_listed()
        check_joins(self)
        check_digests(self)

    def check_listed(self):
        known = {"manifest.json", "journal.jsonl", "INCOMPLETE", *self.paths}
        for folder, folders, names in os.walk(self.folder):
            names += [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted(names):
                path = str(pathlib.Path(folder, name).relative_to(self.folder))
                require(path in known or path.endswith(".tmp") and not self.sealed, "unlisted", path)


def main():
    try:
        dump = Dump(sys.argv[1])
        dump.check()
        print(f"whole\nroot {dump.root}\ncontent root {content_root(dump)}")
        return 0
    except Broken as broken:
        print(f"broken\t{broken}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
