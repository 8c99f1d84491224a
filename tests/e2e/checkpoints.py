"""Tiny checkpoints with random weights, made by hand: safetensors are a JSON header and bytes."""
import json
import random
import struct

VOCABULARY = 256 + 2
STOP = 257


def byte_letters():
    """The letters by which byte-level BPE writes bytes, in the order of their ids."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + len(letters) - len(shown)))
    return [letters[byte] for byte in sorted(letters)]


def tokenizer():
    """A token a byte, and two special ones."""
    added = [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, text in enumerate(("<|im_start|>", "<|im_end|>"))]
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| "
               r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
                 "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                 "use_regex": False}]},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                        "use_regex": False},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": "", "end_of_word_suffix": "",
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {letter: i for i, letter in enumerate(byte_letters())},
                      "merges": []}}


def config(architecture="qwen3", **changes):
    names = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}
    out = {"architectures": [names.get(architecture, architecture)], "model_type": architecture,
           "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "vocab_size": VOCABULARY, "max_position_embeddings": 96, "rms_norm_eps": 1e-6,
           "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False,
           "tie_word_embeddings": architecture != "llama", "torch_dtype": "float32",
           "eos_token_id": STOP}
    return {**out, **changes}


def shapes(config):
    """Name and shape of every tensor."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = size * config["num_attention_heads"], size * config["num_key_value_heads"]
    out = {"model.embed_tokens.weight": (config["vocab_size"], hidden),
           "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
                 "self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden),
                 "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, q),
                 "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
                 "mlp.down_proj": (hidden, inner)}
        if config["model_type"] == "qwen3":
            layer |= {"self_attn.q_norm": (size,), "self_attn.k_norm": (size,)}
        out |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return out


def weights(config, seed=1):
    draw = random.Random(seed)
    out = {}
    for name, shape in shapes(config).items():
        if len(shape) == 1:
            out[name] = shape, [1 + draw.gauss(0, 0.1) for _ in range(shape[0])]
        else:
            out[name] = shape, [draw.gauss(0, shape[1] ** -0.5)
                                for _ in range(shape[0] * shape[1])]
    return out


def safetensors(tensors):
    """name -> (shape, values) as the bytes of a file, F32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        start = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(folder, config, tensors=None, chat_template=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    if chat_template is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": chat_template}))
    (folder / "model.safetensors").write_bytes(
        safetensors(weights(config) if tensors is None else tensors))
    return folder


def write_prompts(path, count=4):
    """Sums of two digits; nothing that random weights could know."""
    lines = [{"prompt": f"{i}+{i * 3 % 7}=", "label": str(i + i * 3 % 7)} for i in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
