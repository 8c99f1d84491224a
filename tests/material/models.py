"""Small checkpoints as the hub lays them out, one of each architecture, and one that is refused.

Weights are small integers times powers of two, drawn by a generator of integers: exact in every type
that a file may hold, and the same bytes on every machine."""
import json
import math
import pathlib
import struct

VOCABULARY = 640
STOP, PAD = 639, 637  # of the tokenizer
TOKENIZER = pathlib.Path(__file__).parents[1] / "task/data/chat"
COMMON = {"vocab_size": VOCABULARY, "max_position_embeddings": 4096, "hidden_act": "silu",
          "bos_token_id": None, "eos_token_id": STOP, "pad_token_id": PAD, "use_cache": True,
          "attention_dropout": 0.0, "initializer_range": 0.02, "num_hidden_layers": 2}
CONFIGS = {
    # The keys that published checkpoints have.
    "tiny-qwen2": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 96,
        "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_scaling": None,
        "sliding_window": None, "use_sliding_window": False, "max_window_layers": 28,
        "tie_word_embeddings": True, "torch_dtype": "float32"},
    # Those that transformers 5 writes; the heads together are wider than the model.
    "tiny-qwen3": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 80,
        "intermediate_size": 144, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 48, "rms_norm_eps": 1e-6, "attention_bias": False,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "layer_types": ["full_attention"] * 2, "sliding_window": None,
        "tie_word_embeddings": False, "dtype": "bfloat16"},
    "tiny-llama": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 72,
        "intermediate_size": 64, "num_attention_heads": 6, "num_key_value_heads": 3,
        "head_dim": 12, "rms_norm_eps": 1e-5, "attention_bias": False, "mlp_bias": False,
        "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
        "tie_word_embeddings": False, "torch_dtype": "float32"},
    # Experts are not supported: its configuration is read, and that is all.
    "tiny-qwen3-moe": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 80,
        "intermediate_size": 144, "moe_intermediate_size": 32, "num_local_experts": 8,
        "num_experts_per_tok": 2, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 48, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "tie_word_embeddings": False, "dtype": "float32"},
}
SUPPORTED = [name for name in CONFIGS if not name.endswith("moe")]


class Integers:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        mask = (1 << 64) - 1
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        return ((z ^ z >> 31) >> 32) * limit >> 32


def shapes(config):
    """Name and shape of every tensor of a dense model, by name."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim") or hidden // config["num_attention_heads"]
    q, kv = size * config["num_attention_heads"], size * config["num_key_value_heads"]
    layer = {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden],
             "self_attn.q_proj.weight": [q, hidden], "self_attn.k_proj.weight": [kv, hidden],
             "self_attn.v_proj.weight": [kv, hidden], "self_attn.o_proj.weight": [hidden, q],
             "mlp.gate_proj.weight": [inner, hidden], "mlp.up_proj.weight": [inner, hidden],
             "mlp.down_proj.weight": [hidden, inner]}
    if config["model_type"] == "qwen2":
        layer |= {f"self_attn.{name}_proj.bias": [n] for name, n in (("q", q), ("k", kv), ("v", kv))}
    if config["model_type"] == "qwen3":
        layer |= {"self_attn.q_norm.weight": [size], "self_attn.k_norm.weight": [size]}
    out = {"model.embed_tokens.weight": [VOCABULARY, hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = [VOCABULARY, hidden]
    for i in range(config["num_hidden_layers"]):
        out |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    return dict(sorted(out.items()))


def values(name, shape, draw):
    """Norms around one; else a deviation of about 1/sqrt(columns), of biases 1/8."""
    if name.endswith("norm.weight"):
        return [1 + (draw.below(33) - 16) / 128 for _ in range(shape[0])]
    deviation = 1 / 8 if name.endswith("bias") else shape[1] ** -0.5
    step = 2.0 ** round(math.log2(deviation / 73.6))  # 73.6: the deviation of -127..127
    return [(draw.below(255) - 127) * step for _ in range(math.prod(shape))]


def encoded(numbers, dtype):
    words = struct.pack(f"<{len(numbers)}f", *numbers)
    if dtype == "F32":
        return words
    return b"".join(words[i + 2:i + 4] for i in range(0, len(words), 4))  # exact in bfloat16


def safetensors(tensors, dtype):
    """name -> (shape, values) as the bytes of a file."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, numbers) in tensors.items():
        piece = encoded(numbers, dtype)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write_weights(folder, config, seed):
    """One file, or of Llama two and their index."""
    draw = Integers(seed)
    tensors = {name: (shape, values(name, shape, draw)) for name, shape in shapes(config).items()}
    dtype = "BF16" if config.get("dtype") == "bfloat16" else "F32"
    if config["model_type"] != "llama":
        (folder / "model.safetensors").write_bytes(safetensors(tensors, dtype))
        return
    names, places = list(tensors), {}
    for i, part in enumerate((names[:len(names) // 2], names[len(names) // 2:])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        (folder / file).write_bytes(safetensors({name: tensors[name] for name in part}, dtype))
        places |= {name: file for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def write(folder):
    """The checkpoints, each with the tokenizer of tests/task/data/chat, which lies beside them."""
    files = {file.name: file.read_bytes() for file in TOKENIZER.iterdir()}
    (folder / "tokenizer").mkdir(parents=True)
    for name, content in files.items():
        (folder / "tokenizer" / name).write_bytes(content)
    for seed, (name, own) in enumerate(CONFIGS.items()):
        to, config = folder / name, {**COMMON, **own}
        to.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (to / file).write_bytes(files[file])
        (to / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        (to / "generation_config.json").write_text(json.dumps({"eos_token_id": [STOP, PAD]}))
        if name in SUPPORTED:
            write_weights(to, config, seed)
