#!/usr/bin/env python3
"""Writes the fuzzers' seed corpus from files of the tests. usage: make_corpus.py OUT

A folder a target: units of golden dumps; manifests and journals also as the bodies of their records, with the word
PREVIOUS for the hash of the line before; pickles out of the files of torch.save.
"""
import json
import pathlib
import re
import struct
import sys
import zipfile

TESTS = pathlib.Path(__file__).resolve().parent.parent


def body(record):
    return record.rstrip("\n")[len('{"body":'):-len(',"hash":""}') - 32]


def records():
    for dump in sorted(path.parent for path in (TESTS / "golden/dumps").glob("*/manifest.json")):
        manifest = (dump / "manifest.json").read_text()
        yield "manifest", dump.name, manifest
        yield "manifest", dump.name + "-body", body(manifest)
        for path in sorted(dump.rglob("*.jsonl")):
            journal = path.read_text()
            yield "journal", f"{dump.name}-{path.stem}", journal
            lines = [re.sub(r'"previous":"\w+"', '"previous":"PREVIOUS"', body(line))
                     for line in journal.splitlines()]
            yield "journal", f"{dump.name}-{path.stem}-bodies", "\n".join(lines)
        if (dump / "units.index").exists():
            yield "index", dump.name, (dump / "units.index").read_bytes()
        for unit in sorted(dump.rglob("*.h5")):
            name = unit.relative_to(dump).as_posix().replace("/", "-")
            yield "hdf5", f"{dump.name}-{name}", unit.read_bytes()


def torch_files():
    for file in sorted((TESTS / "foreign/data").glob("*.pt")):
        data = file.read_bytes()
        yield "torch", file.stem, data
        yield "zip", file.stem, data
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith("data.pkl"):
                    yield "pickle", file.stem, archive.read(name)


def safetensors():
    for name, tensors in {
            "one": {"w": ("F32", [2, 3])},
            "many": {"a": ("BF16", [4]), "b": ("I64", [1, 2]), "c": ("U8", [0, 3])}}.items():
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for key, (dtype, shape) in tensors.items():
            size = {"F32": 4, "BF16": 2, "I64": 8, "U8": 1}[dtype]
            for n in shape:
                size *= n
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        yield "safetensors", name, struct.pack("<Q", len(text)) + text + bytes(at)


def texts():
    for file in sorted((TESTS / "task/data").glob("*.tokenizer.json")):
        yield "tokenizer", file.stem, file.read_bytes()
    yield "prompts", "all", "\n".join(json.dumps(line) for line in [
        {"prompt": "2+2=", "label": "4"}, {"input": [1, 2, 3], "answer": 6},
        {"messages": [{"role": "user", "content": "hi"}], "label": None},
        {"prompt": [{"role": "system", "content": "be brief"},
                    {"role": "user", "content": "\u00e9\U0001f600"}]}])


def main():
    out = pathlib.Path(sys.argv[1])
    for source in (records, torch_files, safetensors, texts):
        for target, name, data in source():
            folder = out / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


if __name__ == "__main__":
    main()
