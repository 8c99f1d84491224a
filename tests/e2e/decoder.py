"""Dense decoders in numpy, written from their papers: a second opinion that shares no code with the
program. Runs in float64, float32 or with the precision of bfloat16."""
import json
import struct

import numpy


def bfloat16(x):
    """The nearest bfloat16, ties to even, as float32."""
    bits = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(numpy.uint32).view(numpy.float32)


def read_checkpoint(folder):
    """name -> values, of all files of a checkpoint."""
    out = {}
    for path in sorted(folder.glob("model*.safetensors")):
        out |= read_safetensors(path)
    return out


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(data[begin:end], "<u2").astype(numpy.uint32) << 16)
            values = values.view(numpy.float32)
        else:
            values = numpy.frombuffer(data[begin:end], "<f4")
        out[name] = values.reshape(entry["shape"])
    return out


class Decoder:
    """precision: float64, float32 or bfloat16."""

    def __init__(self, folder, precision, change=None):
        self.config = json.loads((folder / "config.json").read_text())
        weights = read_checkpoint(folder)
        if change is not None:
            weights = {name: change(name, w) for name, w in weights.items()}
        self.dtype = numpy.float64 if precision == "float64" else numpy.float32
        self.keep = bfloat16 if precision == "bfloat16" else lambda x: x.astype(self.dtype)
        self.weights = {name: self.keep(w) for name, w in weights.items()}
        self.eps = self.config["rms_norm_eps"]

    def norm(self, x, name):
        scale = 1 / numpy.sqrt((x.astype(self.dtype) ** 2).mean(-1, keepdims=True) + self.eps)
        return self.keep(self.keep(x * scale.astype(self.dtype)) * self.weights[name])

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return self.keep(y if bias is None else y + bias)

    def frequencies(self, half):
        theta = self.config.get("rope_theta") or self.config["rope_parameters"]["rope_theta"]
        own = float(theta) ** (-numpy.arange(half) / half)
        scaling = self.config.get("rope_scaling")
        if not scaling:
            return own
        # Llama 3: waves that are long against the original length are slowed down, those between
        # the two limits in part.
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = scaling["original_max_position_embeddings"] * own / (2 * numpy.pi)
        kept = numpy.clip((turns - low) / (high - low), 0, 1)
        return own * (kept + (1 - kept) / scaling["factor"])

    def rotate(self, x):
        """x: [batch, tokens, heads, size]"""
        half = x.shape[-1] // 2
        angles = numpy.outer(numpy.arange(x.shape[1]), self.frequencies(half))
        cos, sin = (f(angles).astype(self.dtype)[:, None, :] for f in (numpy.cos, numpy.sin))
        a, b = x[..., :half], x[..., half:]
        return self.keep(numpy.concatenate([a * cos - b * sin, b * cos + a * sin], -1))

    def attention(self, h, layer):
        c = self.config
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        size = c.get("head_dim") or c["hidden_size"] // heads
        q, k, v = (self.linear(h, f"{layer}.self_attn.{n}_proj").reshape(*h.shape[:2], m, size)
                   for n, m in (("q", heads), ("k", kv), ("v", kv)))
        if f"{layer}.self_attn.q_norm.weight" in self.weights:
            q = self.norm(q, f"{layer}.self_attn.q_norm.weight")
            k = self.norm(k, f"{layer}.self_attn.k_norm.weight")
        q, k = self.rotate(q), self.rotate(k)
        k, v = (numpy.repeat(x, heads // kv, axis=2) for x in (k, v))
        scores = numpy.einsum("bthd,bshd->bhts", q, k) / numpy.sqrt(self.dtype(size))
        scores = numpy.where(numpy.tril(numpy.ones(scores.shape[-2:], bool)), scores, -numpy.inf)
        p = numpy.exp(scores - scores.max(-1, keepdims=True))
        p = self.keep(p / p.sum(-1, keepdims=True))
        mixed = self.keep(numpy.einsum("bhts,bshd->bthd", p, v))
        return self.linear(mixed.reshape(*h.shape[:2], -1), f"{layer}.self_attn.o_proj")

    def logits(self, ids):
        """ids: [batch, tokens]; of all positions."""
        x = self.weights["model.embed_tokens.weight"][ids]
        for l in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{l}"
            h = self.norm(x, f"{layer}.input_layernorm.weight")
            x = self.keep(x + self.attention(h, layer))
            h = self.norm(x, f"{layer}.post_attention_layernorm.weight")
            gate = self.linear(h, f"{layer}.mlp.gate_proj")
            act = self.keep(self.keep(gate / (1 + numpy.exp(-gate))) *
                            self.linear(h, f"{layer}.mlp.up_proj"))
            x = self.keep(x + self.linear(act, f"{layer}.mlp.down_proj"))
        x = self.norm(x, "model.norm.weight")
        tied = "lm_head.weight" not in self.weights
        return self.keep(x @ self.weights["model.embed_tokens.weight" if tied
                                          else "lm_head.weight"].T)


def log_probs(logits, ids, prompt, temperature=1.0):
    """Of the tokens from `prompt` on; logits as `Decoder.logits` gives them."""
    x = logits[:, prompt - 1:-1].astype(numpy.float64) / temperature
    x = x - x.max(-1, keepdims=True)
    x = x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))
    return numpy.take_along_axis(x, ids[:, prompt:, None], -1)[..., 0].astype(numpy.float32)


def sample(decoder, count, prompt, length, seed):
    """`count` sequences: random prompts, the rest drawn from the model."""
    draw = numpy.random.default_rng(seed)
    ids = draw.integers(0, decoder.config["vocab_size"], (count, prompt))
    while ids.shape[1] < length:
        x = decoder.logits(ids)[:, -1].astype(numpy.float64)
        p = numpy.exp(x - x.max(-1, keepdims=True))
        p = (p / p.sum(-1, keepdims=True)).cumsum(-1)
        ids = numpy.concatenate([ids, (p < draw.random((count, 1))).sum(-1, keepdims=True)], 1)
    return numpy.minimum(ids, decoder.config["vocab_size"] - 1)
