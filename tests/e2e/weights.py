"""Checkpoints that are broken in one way each: files of safetensors made by hand, of any element type."""
import json
import pathlib
import random
import struct
import sys

import checkpoints

SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1}


def element_bytes(dtype, value):
    """A number as an element of the type."""
    if dtype == "BF16":
        return struct.pack("<f", value)[2:]
    if dtype == "F8_E4M3":
        return bytes([value])
    return struct.pack({"F64": "<d", "F32": "<f", "F16": "<e"}[dtype], value)


class Tensor:
    def __init__(self, shape, values, dtype="F32"):
        self.shape, self.dtype = tuple(shape), dtype
        self.data = b"".join(element_bytes(dtype, value) for value in values)

    def put(self, index, value):
        """The tensor with one element changed."""
        size = SIZES[self.dtype]
        changed = Tensor(self.shape, [], self.dtype)
        changed.data = (self.data[:index * size] + element_bytes(self.dtype, value)
                        + self.data[(index + 1) * size:])
        return changed


def drawn(shape, seed, dtype="F32"):
    draw, count = random.Random(seed), 1
    for size in shape:
        count *= size
    values = (draw.randrange(0x10, 0x70) for _ in range(count)) if dtype == "F8_E4M3" else (
        draw.gauss(0, 0.1) for _ in range(count))
    return Tensor(shape, values, dtype)


def filled(shape, value, dtype="F32"):
    count = 1
    for size in shape:
        count *= size
    return Tensor(shape, [value] * count, dtype)


def file_bytes(tensors):
    header, data = {}, []
    at = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(tensor.data)]}
        at += len(tensor.data)
        data.append(tensor.data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def dense(config=None, dtype="F32"):
    """The tensors of a small model that is known."""
    shapes = checkpoints.shapes(config or checkpoints.config())
    return {name: drawn(shape, i, dtype) for i, (name, shape) in enumerate(shapes.items())}


def experts_config(**changes):
    own = {"num_experts": 4, "num_hidden_layers": 3, "tie_word_embeddings": False}
    return checkpoints.config("qwen3_moe", architectures=["Qwen3MoeForCausalLM"], **own | changes)


def with_experts(config=None, dtype="F32"):
    """The tensors of a mixture of experts, whose configuration is not known."""
    config = config or experts_config()
    out = {"model.embed_tokens.weight": (258, 16), "model.norm.weight": (16,), "lm_head.weight": (258, 16)}
    for layer in range(config["num_hidden_layers"]):
        place = f"model.layers.{layer}."
        out[place + "input_layernorm.weight"] = (16,)
        out[place + "self_attn.o_proj.weight"] = (16, 16)
        out[place + "mlp.gate.weight"] = (4, 16)
        for expert in range(4):
            out[f"{place}mlp.experts.{expert}.up_proj.weight"] = (8, 16)
            out[f"{place}mlp.experts.{expert}.down_proj.weight"] = (16, 8)
    return {name: drawn(shape, i, dtype) for i, (name, shape) in enumerate(out.items())}


def write(folder, tensors, config=None, shards=1, index=True):
    """A checkpoint of so many shards; `config` None: without config.json."""
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(file_bytes(tensors))
        return folder
    names, placed = list(tensors), {}
    for i in range(shards):
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        (folder / file).write_bytes(file_bytes({name: tensors[name] for name in part}))
        placed |= {name: file for name in part}
    if index:
        total = sum(len(tensor.data) for tensor in tensors.values())
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": placed}))
    return folder


def change_index(folder, change):
    """`change` gets the map of names."""
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


if __name__ == "__main__":
    # An example: a router that a quantiser left empty, and a vocabulary that is padded.
    folder = pathlib.Path(sys.argv[1])
    tensors = with_experts()
    tensors["model.layers.2.mlp.gate.weight"] = filled((4, 16), 0)
    tensors["model.embed_tokens.weight"], tensors["lm_head.weight"] = drawn((320, 16), 1), drawn((320, 16), 2)
    folder.rmdir()
    write(folder, tensors, experts_config(), shards=2)
