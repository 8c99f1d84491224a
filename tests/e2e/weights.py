"""Checkpoints that are broken in one way each: files of safetensors made by hand, of any element type."""
import json
import pathlib
import random
import struct
import sys

import checkpoints

MIB = 1 << 20
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


def experts(count, *values):
    """So many experts in 20 layers, matrices of two elements: `values`, or those that no other has."""
    return {f"model.layers.{i % 20}.mlp.experts.{i // 20}.up_proj.weight": Tensor((1, 2), values or (i, 1))
            for i in range(count)}


def widened(tensor):
    """A tensor of BF16 in F32, element by element the same number."""
    out = Tensor(tensor.shape, [])
    out.data = b"".join(b"\0\0" + tensor.data[i:i + 2] for i in range(0, len(tensor.data), 2))
    return out


def rows(tensor, order):
    """The tensor with its rows in this order."""
    size = len(tensor.data) // tensor.shape[0]
    out = Tensor(tensor.shape, [], tensor.dtype)
    out.data = b"".join(tensor.data[i * size:(i + 1) * size] for i in order)
    return out


def turned(tensor):
    """A matrix of F32 transposed."""
    high, wide = tensor.shape
    out = Tensor((wide, high), [], tensor.dtype)
    out.data = b"".join(tensor.data[(i * wide + j) * 4:(i * wide + j + 1) * 4] for j in range(wide) for i in range(high))
    return out


def stacked(tensors):
    """Tensors one below the other."""
    out = Tensor((sum(tensor.shape[0] for tensor in tensors), *tensors[0].shape[1:]), [], tensors[0].dtype)
    out.data = b"".join(tensor.data for tensor in tensors)
    return out


def fused(tensors):
    """Under the names of vLLM and SGLang, products fused."""
    out = {}
    for name, tensor in tensors.items():
        if ".q_proj." in name:
            parts = [tensors[name.replace("q_proj", letter + "_proj")] for letter in "qkv"]
            out[name.replace("q_proj", "qkv_proj")] = stacked(parts)
        elif ".gate_proj." in name:
            out[name.replace("gate_proj", "gate_up_proj")] = stacked([tensor, tensors[name.replace("gate_proj", "up_proj")]])
        elif not any(word in name for word in ("k_proj", "v_proj", "up_proj")):
            out[name] = tensor
    return out


def megatron(tensors, config):
    """Under the names of Megatron: queries, key and value of each group one behind the other."""
    size, groups = config["head_dim"], config["num_key_value_heads"]
    queries = config["num_attention_heads"] // groups * size
    names = {"model.embed_tokens.weight": "embedding.word_embeddings.weight",
             "model.norm.weight": "decoder.final_layernorm.weight", "lm_head.weight": "output_layer.weight",
             "self_attn.o_proj.weight": "self_attention.linear_proj.weight",
             "input_layernorm.weight": "self_attention.linear_qkv.layer_norm_weight",
             "self_attn.q_norm.weight": "self_attention.q_layernorm.weight",
             "self_attn.k_norm.weight": "self_attention.k_layernorm.weight",
             "self_attn.qkv_proj.weight": "self_attention.linear_qkv.weight",
             "post_attention_layernorm.weight": "mlp.linear_fc1.layer_norm_weight",
             "mlp.gate_up_proj.weight": "mlp.linear_fc1.weight", "mlp.down_proj.weight": "mlp.linear_fc2.weight"}
    out = {}
    for name, tensor in fused(tensors).items():
        if "qkv_proj" in name:
            keys, values = groups * queries, groups * queries + groups * size
            order = [row for g in range(groups) for row in (
                *range(g * queries, (g + 1) * queries), *range(keys + g * size, keys + (g + 1) * size),
                *range(values + g * size, values + (g + 1) * size))]
            tensor = rows(tensor, order)
        if name.startswith("model.layers."):
            layer, role = name.removeprefix("model.layers.").split(".", 1)
            out[f"module.decoder.layers.{layer}.{names[role]}"] = tensor
        else:
            out["module." + names[name]] = tensor
    return out


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


def damaged(whole):
    """(what it is, the bytes, words of what is said of it) of files made of a whole one."""
    size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8:8 + size])
    first = next(iter(header))

    def with_header(changed):
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + whole[8 + size:]

    overlapping = {**header, first: {**header[first], "data_offsets": [4, 4 + len(whole)]}}
    return (("cut off", whole[:-5], ""), ("without header", whole[:3], "too few for a safetensors header"),
            ("of other sizes", with_header({**header, first: {**header[first], "shape": [1, 1]}}), "needs 4 bytes"),
            ("overlapping", with_header(overlapping), ""),
            ("no JSON", struct.pack("<Q", 9) + b"{\"a\": 1]}", "not valid JSON"),
            ("a bomb", struct.pack("<Q", 90 * MIB) + b"{", "the header claims"),
            ("empty", b"", "0 bytes"))


def bombs():
    """(what it has many of, the bytes) of files with a header alone."""
    entries = b",".join(b'"%07d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(100_000))
    for name, header in (("tensors", b"{" + entries + b"}"), ("depth", b'{"a":' + b"[" * MIB + b"]" * MIB + b"}"),
                         ("numbers", b'{"a":[' + b"1," * (3 * MIB) + b"1]}")):
        yield name, struct.pack("<Q", len(header)) + header


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
