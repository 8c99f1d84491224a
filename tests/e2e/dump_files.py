"""The journals and the manifest of a dump, read and written with every hash as format/SPEC.md demands.

Needs xxhash.
"""
import json
import pathlib
import re
import struct

import xxhash


def digest(data):
    return xxhash.xxh3_128_hexdigest(bytes(data))


def canonical(value):
    """Only of texts without control characters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def record(body):
    """The line of a record, and the hash of its body."""
    text = canonical(body)
    return '{"body":%s,"hash":"%s"}\n' % (text, digest(text.encode())), digest(text.encode())


def journals(dump):
    return sorted((pathlib.Path(dump) / "journal").glob("*.jsonl"), key=lambda path: path.stem)


def journal_bodies(dump):
    """The bodies of all whole lines, journal by journal."""
    texts = [path.read_text() for path in journals(dump)]
    return [json.loads(line)["body"] for text in texts for line in text[:text.rfind("\n") + 1].splitlines()]


def units_of(dump):
    """What the journals say of the units, in the order of their lines."""
    return [body["unit"] for body in journal_bodies(dump) if "unit" in body]


def manifest_of(dump):
    return json.loads((pathlib.Path(dump) / "manifest.json").read_text())["body"]


def index_of(units):
    """The index of units that are sorted by path."""
    rows, groups, keys = [], [], []
    path_at, paths = 0, "".join(unit["path"] for unit in units)
    name_at, names, counts = len(paths), "", b""
    for number, unit in enumerate(units):
        path = unit["path"]
        rows.append(struct.pack("<QIIQQQ", path_at, len(path), len(unit["groups"]), len(groups), unit["size"],
                                unit["logical"]) + bytes.fromhex(unit["hash"] + unit["content"]))
        path_at += len(path)
        rank = re.search(r"/rank(0|[1-9][0-9]*)\.h5$", path)
        for group in unit["groups"]:
            content = unit.get("group_contents", {}).get(group)
            count = canonical(unit["counts"][group]).encode() if group in unit.get("counts", {}) else b""
            keys.append((path.split("/")[0], group, int(rank[1]) if rank else 0, number, len(groups)))
            flags = (1 if content else 0) | (2 if count else 0)
            groups.append(struct.pack("<QIIQ", name_at, len(group), flags, number)
                          + bytes.fromhex(content or "0" * 32)
                          + struct.pack("<QII", len(counts), len(count), 0))
            name_at += len(group)
            names += group
            counts += count
    strings = (paths + names).encode()
    head = b"rlindex\n" + struct.pack("<IIQQQQQQ", 1, 0, len(units), len(groups), len(strings), len(counts), 0, 0)
    order = b"".join(struct.pack("<Q", key[4]) for key in sorted(keys))
    return head + b"".join(rows) + b"".join(groups) + order + strings + counts


def write_records(dump, meta, units, body=None, sealed=True, ended=True):
    """The records of a dump of one writer. `body`: what else its manifest says."""
    dump, body = pathlib.Path(dump), body or {}
    head = {"format": "rlreplay", "major": 1, "minor": 0, "must_understand": [], "meta": meta}
    line, previous = record({**head, "line": 0, "writer": "0"})
    lines = [line]
    ends = [{"ended": True}] if sealed and ended else []
    for number, said in enumerate([{"unit": unit} for unit in units] + ends, 1):
        line, previous = record({"line": number, "previous": previous, **said})
        lines.append(line)
    journal = "".join(lines).encode()
    (dump / "journal").mkdir(parents=True, exist_ok=True)
    for old in journals(dump):
        old.unlink()
    (dump / "journal/0.jsonl").write_bytes(journal)
    if not sealed:
        for name in ("manifest.json", "units.index"):
            (dump / name).unlink(missing_ok=True)
        (dump / "INCOMPLETE").write_text("")
        return
    units = sorted(units, key=lambda unit: unit["path"])
    root = "".join(f"{unit['path']} {unit['content']}\n" for unit in units)
    root = digest(f"rlreplay root\n{canonical(meta)}\n{root}".encode())
    named = {"ended": ended, "hash": digest(journal), "size": len(journal), "writer": "0"}
    index = index_of(units)
    (dump / "units.index").write_bytes(index)
    table = {"hash": digest(index), "size": len(index), "units": len(units)}
    body = {"unstable": {}, **body, **head, "complete": ended, "index": table, "journals": [named], "root": root}
    (dump / "manifest.json").write_text(record(body)[0])
