"""Odd but legal files: every protocol of pickle, ways to lay out an archive, and contents that few
files have; each with its content beside it."""
import io
import zipfile
from collections import OrderedDict

import make_fixtures as fixtures
from torch_files import Storages, archive, expect, members, save


def shared():
    storages = Storages("cuda:3")
    numbers, tensor = [1, 2.5, None], storages.vector("Float", [0.5, -0.0])
    return {"again": [numbers, numbers, {"deep": numbers}], "tensors": [tensor, tensor],
            "columns": storages.rows("Float", [[1.0, 2.0], [], [3.0]])}


def many():
    storages = Storages()
    return {"tensors": [storages.vector("Long", range(i % 4)) for i in range(300)]}


def texts():
    return ["", "x" * 300, "y" * 70000, "\U0001f600", "\udc80", "a\0b\r\n\x1b[31m", "\u202eback"]


def without_length():
    """A rollout that is read, and refused by its sample where it is looked into."""
    sample = dict(fixtures.rollout()["samples"][0], response_length=None)
    return {"rollout_id": 0, "samples": [sample]}


CONTENTS = {
    "base": without_length, "rollout": fixtures.rollout, "train": fixtures.train,
    "objects": fixtures.objects, "arrays": fixtures.arrays, "shared": shared, "many": many,
    "texts": texts, "bare_float": lambda: 0.1, "bare_none": lambda: None,
    "bare_tensor": lambda: Storages().vector("Double", [0.1]), "empty": dict,
    "ordered": lambda: OrderedDict([("b", 1), (("a", "tuple"), [])]),
}


def commented(content):
    stream = io.BytesIO(archive(content))
    with zipfile.ZipFile(stream, "a") as made:
        made.comment = b"a comment"
    return stream.getvalue()


# From the members of an archive, whose root is "x", to its bytes.
ARCHIVES = {
    "deflated": lambda content: archive(content, zipfile.ZIP_DEFLATED),
    "zip64": lambda content: archive(content, force_zip64=True),
    "descriptors": lambda content: archive(content, stream=fixtures.Unseekable()),
    "other_order": lambda content: archive(content[::-1]),
    "more_members": lambda content: archive([*content, ("x/.data/notes", b"nobody asks")]),
    "old_layout": lambda content: archive([m for m in content if m[0] != "x/byteorder"]),
    "comment": commented,
}


def write(folder):
    for name, make in CONTENTS.items():
        save(folder / f"{name}.pt", make())
    for protocol in range(6):
        save(folder / f"protocol {protocol}.pt", fixtures.values(), protocol)
    for name, make in ARCHIVES.items():
        path, value = folder / f"{name}.pt", fixtures.train()
        path.write_bytes(make(members("x", value)))
        expect(path, value)
