"""Files as torch.save lays them out, each with its content as JSON beside it: both are made by the
stand-ins of tests/foreign/make_fixtures.py."""
import io
import json
import zipfile

import make_fixtures as fixtures


class Storages:
    """Tensors with storages of their own, under keys in their order."""

    def __init__(self, location="cpu"):
        self.location, self.count = location, 0

    def storage(self, kind, values):
        self.count += 1
        return fixtures.Storage(str(self.count - 1), kind, list(values), self.location)

    def vector(self, kind, values):
        storage = self.storage(kind, values)
        return fixtures.Tensor(storage, (len(storage.values),), (1,))

    def rows(self, kind, rows):
        """Slices of one storage, as those of a micro-batch are."""
        storage = self.storage(kind, [x for row in rows for x in row])
        out, at = [], 0
        for row in rows:
            out.append(fixtures.Tensor(storage, (len(row),), (1,), at))
            at += len(row)
        return out


def members(root, value, protocol=2):
    """Name and content of each member of the archive."""
    blob = io.BytesIO()
    pickler = fixtures.Pickler(blob, protocol)
    pickler.storages = {}
    pickler.dump(value)
    return [(f"{root}/data.pkl", blob.getvalue()), (f"{root}/byteorder", b"little"),
            *((f"{root}/data/{key}", s.bytes()) for key, s in pickler.storages.items()),
            (f"{root}/version", b"3\n")]


def archive(content, compression=zipfile.ZIP_STORED, force_zip64=False, stream=None):
    stream = stream or io.BytesIO()
    fixtures.write_archive(stream, content, compression, force_zip64)
    return stream.getvalue()


def expect(path, value):
    """The sidecar of a file: what it holds."""
    content = json.dumps(fixtures.content(value), separators=(",", ":"))
    path.with_suffix(".expected.json").write_text(
        f'{{"file":{json.dumps(path.name)},"root":{content}}}\n')


def save(path, value, protocol=2, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive(members(path.stem, value, protocol), **options))
    expect(path, value)
