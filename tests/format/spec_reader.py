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
import struct
import sys

from spec_joins import check_digests, check_joins
from spec_unit import Unit
from spec_values import (GIB, GROUP, HASH, NAME, NUMBER, UNIT_PATH, Broken, canonical,
                         content_root, digest, hash_of_lines, require)


LIMITS = {"manifest.json": GIB >> 4, "INCOMPLETE": GIB >> 4, "units.index": 4 * GIB}
RULES = ("record-syntax", "record-hash", "record-form", "format-name", "version", "must-understand", "unit-path")


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


def journals_schema(body):
    """Version 0.1 had one journal, which lay beside the manifest."""
    if is_old(body):
        return has(body, journal=dict) and has(body["journal"], size=int, hash=HASH)
    journals = body.get("journals")
    if not isinstance(journals, list) or not 1 <= len(journals) <= 65536:
        return False
    names = [journal.get("writer") for journal in journals
             if has(journal, writer=str, size=int, hash=HASH, ended=bool)]
    return (len(names) == len(journals) and names == sorted(set(names)) and all(re.fullmatch(NAME, name) for name in names)
            and body["complete"] == all(journal["ended"] for journal in journals))


def units_schema(body):
    """Version 0.1 had the units in the manifest."""
    if not is_old(body):
        index = body.get("index")
        return has(index, size=int, hash=HASH, units=int) and index["size"] <= 4 * GIB
    units = body.get("units")
    return (isinstance(units, list) and all(map(unit_schema, units))
            and [u["path"] for u in units] == sorted(u["path"] for u in units))


def manifest_schema(body):
    return (head_schema(body) and has(body, complete=bool, root=HASH, unstable=dict)
            and journals_schema(body) and units_schema(body)
            and has(body.get("derived_from", {"version": "", "root": "0" * 32}), version=str, root=HASH))


def check_heads(head, path):
    require(has(head, format=str) and head["format"] == "rlreplay", "format-name", path)
    require(has(head, major=int, minor=int) and head["major"] in (0, 1) and head["minor"] < 1 << 31,
            "version", path)
    require(head.get("must_understand") == [], "must-understand", path)


def is_old(head):
    return (head["major"], head["minor"]) == (0, 1)


def check_units(units, path):
    for unit in units:
        require(UNIT_PATH.fullmatch(unit["path"]), "unit-path", path)


def check_duplicates(units, path):
    require(len({unit["path"] for unit in units}) == len(units), "duplicate", path)


def rule_by_rule(named, check):
    """What a check gives of all; of those that are broken the earliest rule's is told."""
    found, broken = [], []
    for name, value in named:
        try:
            found.append(check(name, value))
        except Broken as fault:
            broken.append(fault)
    if broken:
        raise min(broken, key=lambda fault: RULES.index(fault.rule))
    return found


def read_index(data):
    """The units of an index, and whether all of it is of its form."""
    magic, version, zero, units, groups, strings, counts, *reserved = struct.unpack_from("<8sII6Q", data)
    areas = [64, 64 + 72 * units, 64 + 72 * units + 56 * groups]
    areas += [areas[2] + 8 * groups, areas[2] + 8 * groups + strings]
    ok = (magic, version, zero, reserved) == (b"rlindex\n", 1, 0, [0, 0])
    require(ok and areas[4] + counts == len(data), "index-form", "units.index")
    text = data[areas[3]:areas[4]]
    rows = [struct.unpack_from("<QIIQQQ16s16s", data, 64 + 72 * n) for n in range(units)]
    entries = [struct.unpack_from("<QIIQ16sQII", data, areas[1] + 56 * n) for n in range(groups)]
    order = list(struct.unpack_from(f"<{groups}Q", data, areas[2]))
    found, keys, at, first, count_at = [], [], 0, 0, 0
    name_at = sum(row[1] for row in rows)
    for number, (path_at, length, own, first_at, size, logical, stored, content) in enumerate(rows):
        require((path_at, first_at) == (at, first) and size <= 1 << 50 and logical <= 1 << 50,
                "index-form", "units.index")
        at, first = at + length, first + own
        path = text[path_at:at].decode()
        unit = {"path": path, "size": size, "logical": logical, "hash": stored.hex(), "content": content.hex(),
                "groups": [], "group_contents": {}, "counts": {}}
        for entry in range(first_at, first):
            begin, length, flags, holder, says, counts_at, counts_length, zero = entries[entry]
            require((begin, counts_at, holder, zero) == (name_at, count_at, number, 0) and flags < 4
                    and bool(flags & 2) == bool(counts_length) and (flags & 1 or says == bytes(16)),
                    "index-form", "units.index")
            group = text[begin:begin + length].decode()
            name_at, count_at = name_at + length, count_at + counts_length
            unit["groups"].append(group)
            if flags & 1:
                unit["group_contents"][group] = says.hex()
            if flags & 2:
                unit["counts"][group] = parse(data[areas[4] + counts_at:areas[4] + count_at])
            rank = re.fullmatch(r".*/rank(0|[1-9][0-9]*)(-part(0|[1-9][0-9]*))?\.h5", path)
            keys.append((path.split("/")[0].encode(), group.encode(), int(rank[1]) if rank else 0, entry))
        found.append(unit)
    paths = [unit["path"].encode() for unit in found]
    require((first, name_at, count_at) == (groups, strings, counts) and paths == sorted(paths)
            and order == [key[3] for key in sorted(keys)] and all(map(unit_schema, found)),
            "index-form", "units.index")
    return found


class Dump:
    """The records of a folder, whose rules are checked; `unit` gives a checked unit."""

    def __init__(self, folder):
        self.folder, self.units = pathlib.Path(folder), {}
        manifest, note = self.folder / "manifest.json", self.folder / "INCOMPLETE"
        journals = sorted((p for p in self.folder.glob("journal/*.jsonl") if re.fullmatch(NAME, p.stem)),
                          key=lambda p: p.stem) or [*self.folder.glob("journal.jsonl")]
        sealed = os.path.lexists(manifest)
        odd = [p for p in journals if not stat.S_ISREG(os.lstat(p).st_mode)]
        begun = [p for p in journals if p not in odd and b"\n" in p.read_bytes()]
        require(sealed or odd or begun, "not-a-dump", ".")
        require(sealed or odd or os.path.lexists(note), "manifest-missing", manifest.name)
        files = [*journals, *([manifest, self.folder / "units.index"] if sealed else [note])]
        files = [p for p in files if os.path.lexists(p)]
        for p in files:
            require(stat.S_ISREG(os.lstat(p).st_mode), "file-type", self.name(p))
        for p in files:
            require(p.stat().st_size <= LIMITS.get(p.name, GIB), "file-size", self.name(p))
        self.sealed, self.known = sealed, {"manifest.json", "INCOMPLETE"}
        if sealed:
            self.read_manifest(manifest.read_bytes())
        else:
            self.known |= set(map(self.name, journals))
            self.read_journals(begun)
            if text := note.read_bytes():
                require(text.endswith(b"\n"), "record-syntax", "INCOMPLETE")
                said = records([text[:-1]], "INCOMPLETE")[0]
                require(isinstance(said, dict) and isinstance(said.get("unstable", {}), dict),
                        "schema", "INCOMPLETE")
        self.old, self.meta = is_old(self.head), self.head["meta"]

    def name(self, path):
        return str(path.relative_to(self.folder))

    def read_manifest(self, text):
        path = "manifest.json"
        require(text.endswith(b"\n"), "record-syntax", path)
        self.head = head = records([text[:-1]], path)[0]
        check_heads(head, path)
        units, index = head.get("units"), head.get("index")
        count = len(units) if isinstance(units, list) else index.get("units") if isinstance(index, dict) else 0
        require(not isinstance(count, int) or count <= 1_000_000, "unit-count", path)
        require(manifest_schema(head), "schema", path)
        if not is_old(head):
            file, path = self.folder / "units.index", "units.index"
            data = file.read_bytes() if os.path.lexists(file) else None
            require(data is not None and len(data) == index["size"] and digest(data) == index["hash"],
                    "index", path)
            units = read_index(data)
            require(len(units) == index["units"], "index-form", path)
            self.known.add(path)
        check_units(units, path)
        check_duplicates(units, path)
        self.root = self.root_of(units)
        require(self.root == head["root"], "root", "manifest.json")
        journals = ({"journal.jsonl": head["journal"]} if is_old(head) else
                    {f"journal/{said['writer']}.jsonl": said for said in head["journals"]})
        for name, wanted in journals.items():
            file = self.folder / name
            data = file.read_bytes() if os.path.lexists(file) else None
            require(data is not None and len(data) == wanted["size"] and digest(data) == wanted["hash"],
                    "journal", name)
        self.known |= set(journals)
        self.records = units

    def read_journals(self, files):
        """Each rule over all lines of all journals."""
        names = [self.name(file) for file in files]
        texts = [file.read_bytes().split(b"\n")[:-1] for file in files]
        bodies = rule_by_rule(zip(names, texts), lambda name, lines: records(lines, name))
        self.head = bodies[0][0]
        rule_by_rule(zip(names, bodies), lambda name, said: check_heads(said[0], name))
        old = is_old(self.head)
        for name, said in zip(names, bodies):
            require(head_schema(said[0]) and (old or has(said[0], writer=str)) and all(
                has(body, line=int) and (not n or has(body, previous=HASH) and (
                    body["ended"] is True if "ended" in body else unit_schema(body.get("unit"))))
                for n, body in enumerate(said)), "schema", name)
        units = [[body["unit"] for body in said[1:] if "ended" not in body] for said in bodies]
        rule_by_rule(zip(names, units), lambda name, said: check_units(said, name))
        for name, lines, said in zip(names, texts, bodies):
            for n, body in enumerate(said):
                require(body["line"] == n and (not n or body["previous"] == lines[n - 1][-34:-2].decode()
                                               and "ended" not in said[n - 1]), "chain", name)
        for name, said in zip(names, bodies):
            require(old or name == f"journal/{said[0]['writer']}.jsonl", "writer", name)
            require(all(said[0][key] == self.head[key] for key in ("meta", "major", "minor")), "writer", name)
        everything = [unit for said in units for unit in said]
        check_duplicates(everything, names[0])
        self.records = sorted(everything, key=lambda unit: unit["path"])
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
        known = {*self.known, *self.paths}
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
