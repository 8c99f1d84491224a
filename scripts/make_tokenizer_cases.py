#!/usr/bin/env python3
"""Makes the small tokenizers and the expected ids in tests/task/data.

The tests of the tokenizer compare with what the PyPI package `tokenizers` does. This script trains
tiny byte-level BPE tokenizers on its own text, saves them as tokenizer.json, and writes what the
package encodes and decodes, one case a line. The folder `chat` holds a tokenizer as a checkpoint does,
with chats among its cases; the small checkpoints of the tests have it. The same text gives the same
bytes, which a test holds. Run it only to change the cases:

    pip install tokenizers==0.23.3
    python3 scripts/make_tokenizer_cases.py tests/task/data
"""

import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

CORPUS = """
A replay runs the recorded step again and compares every number with the one on record.
If two runs differ, the first difference is the one that matters; all the others follow from it.
The baker sold 24 rolls in the morning and 18 in the afternoon. How many rolls did she sell?
There are 1234 bolts in a box, and 5,678 in another. He'll need 90 more, won't he?
def add(a, b):
    return a + b

for i in range(10):
\tprint(i, i * i)
Die Wörter müssen nicht englisch sein. Où est la gare ? ¿Cuántos años tienes?
Быстро или медленно, но каждый раз одинаково. 毎回同じ結果になる。每次都得到相同的结果。
We'VE seen THAT already; it's what they'd said, and I'm sure you're right -- aren't you?
""" * 3

CHAT_CORPUS = CORPUS + """
A shelf holds 12 red and 30 blue books. How many books are there? There are 12 + 30 = 42 books.
Each of 7 boats carries 16 people; 4 x 25 = 100, 100 / 8 = 12.5, and 3.14 is not 22/7.
Let us think step by step: first we add, then we compare, and only then do we answer.
Ένα βήμα τη φορά. Один шаг за раз. خطوة بخطوة. एक समय में एक कदम। 한 번에 한 걸음. 一步一步来。
Ship it \U0001f680, or roll back \U0001f9ea? \U0001f600\U0001f600 caf\u00e9, na\u00efve, \u00a3 5 and \u20ac 7.
""" * 3
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}"
)

TEXTS = [
    "", " ", "  ", "   ", "\n", "\r\n", "\n\n\n", " \n", "\n ", "  \n  x", "x  ", "\t\tx", " \t x",
    "replay", " replay", "Replay the step again.", "replayreplay", "re play",
    "I'm you're WE'VE he'Ll she'd 'tis rock'n'roll ''s 's", "it\u2019s", "'\u017f", "'\u017fx",
    "1", "12", "123", "1234", "12345", "123456", "1234567 89", "3.14159", "1,234,567.89", "x1y22z333",
    "\u00b2\u00b3\u00bd", "\u0661\u0662\u0663\u0664", "\u2160\u2167", "a+b=c", "((a))", "a -> b",
    "!!!\n\nnext", "end.\r\n\r\nBegin", "#include <cstdio>\nint main() {\n\treturn 0;\n}\n",
    "caf\u00e9 cafe\u0301", "\u00c5 \u212b A\u030a", "\ufb01 \ufb02", "\u1e9b\u0323", "q\u0307\u0323",
    "\u1100\u1161\u11a8\uac01", "\u0915\u094d\u0937\u093f", "\u0e01\u0e33", "\u0958", "\u2adc", "\U0001d15e",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u180e", "a\u180eb", "\u180e x", "\u2028x\u2029",
    "\u00a0x", "x\u3000y", "\u200bx", "\u0085", "\x00", "a\x00b", "\x7f", "\ufeffx", "\ufffd", "\uffff",
    "\U0010ffff", "\u0130i\u0131I", "\u1e9e \u00df", "\u03c2\u03a3\u03c3", "nai\u0308ve",
    "The baker sold 24 rolls.", "Die W\u00f6rter mu\u0308ssen", "\u6bcf\u6b21\u90fd\u5f97\u5230",
    "a" * 100, "ab" * 60, "e" * 33, " " * 70, "=" * 80, "\n" * 40, "1" * 50, "the" * 30 + " " + "the" * 30,
    "<|end|>", "a<|end|>b", "a <|end|> b", "<|end|><|end|>", "<|end|", "<|begin|>text<|end|>", "<|END|>",
    "x <pad> y", "x<pad>y", "x  <pad>  y", "<pad><pad>", "\u3000<pad>\u00a0z", " <pad>", "<pad> ", "<pad>\n<pad>",
    "word", "a word here", "sword", "words", "word.", "_word", "word_", "\u00e9word", "word\u0301", "(word)",
    "9word", "word\u24b6", "wordword", "word word", "caf\u00e9!", "cafe\u0301!", "xcafe\u0301!y", "caf\u00e9",
    "<think>\nhm\n</think>", "a<think>", "<think", "<think><think>", "</think></think>", "<<think>>",
    "<|tool|>", "<|tool_call|>", "<|tool", "<|tool_cal", "x<|tool_call|>y",
    "unmerged", " unmerged", "unmerge", "unmerged!", "xunmerged", " it's unmerged",
]


def train(vocab_size, specials, corpus=CORPUS):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=specials)
    tokenizer.train_from_iterator([corpus], trainer)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def with_words(tokenizer, words, **options):
    """The same model with words in its vocabulary that no merge leads to."""
    model = json.loads(tokenizer.to_str())["model"]
    for word in words:
        model["vocab"][word] = len(model["vocab"])
    merges = [tuple(m) for m in model["merges"]]
    tokenizer.model = models.BPE(vocab=model["vocab"], merges=merges, **options)


def llama3():
    tokenizer = train(560, [])
    with_words(tokenizer, ["unmerged", "\u0120unmerged", "1234"], ignore_merges=True)
    tokenizer.pre_tokenizer = split(LLAMA3)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>", "<|tool|>", "<|tool_call|>"])
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(
            single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1", special_tokens=[("<|begin|>", begin)]),
    ])
    return tokenizer


def qwen3():
    tokenizer = train(600, [])
    with_words(tokenizer, ["unmerged"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(QWEN)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([
        AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False),
        AddedToken("<pad>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("cafe\u0301!", normalized=True),
        AddedToken("<|tool|>", lstrip=True, normalized=True), AddedToken("<|tool_call|>", rstrip=True),
        AddedToken("two words", normalized=False), AddedToken("\u00e9\u00e9", normalized=False),
    ])
    return tokenizer


def digits():
    tokenizer = train(520, ["<|end|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    end = tokenizer.token_to_id("<|end|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", end)])
    return tokenizer


def chat():
    tokenizer = train(637, [], CHAT_CORPUS)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(QWEN)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer


def random_texts(count, rng):
    pools = [
        "abcdefghij ", "aeiou  \n\r\t", "0123456789., ", "'sStTlLdDmMrReEvV ", "<|end|>pad think/",
        "\u0301\u0300\u0323\u0327aeqo", "\u00e9\u00fc\u00df\u0130\u017f\u212a", "\u4e00\u4e8c\u3042\uac00\u1100\u1161",
        "\U0001f600\u200d\ufe0f\u2603", "\u00a0\u180e\u2003\u3000\u0085\u2028 ", "+-*/=()[]{}!?#$%", CORPUS,
    ]
    for _ in range(count):
        chosen = rng.sample(pools, rng.randint(1, 4))
        yield "".join(rng.choice(rng.choice(chosen)) for _ in range(rng.randint(1, 40)))


def cases(tokenizer, rng):
    for text in TEXTS + ["two words", "\u00e9\u00e9\u00e9"] + list(random_texts(120, rng)):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield {
            "text": text, "ids": ids, "with_special": tokenizer.encode(text).ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "plain": tokenizer.decode(ids, skip_special_tokens=True),
        }
    size = tokenizer.get_vocab_size()
    for _ in range(60):
        high = rng.choice([256, size, size + 20])
        ids = [rng.randrange(high) for _ in range(rng.randint(1, 12))]
        yield {
            "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "plain": tokenizer.decode(ids, skip_special_tokens=True),
        }


def conversations():
    questions = ["What is 6 x 7?", "", "Wie viele W\u00f6rter?\n", "\u0662 + \u0662 = <|im_end|>?", "\U0001f600" * 3]
    for i, question in enumerate(questions):
        talk = [{"role": "system", "content": "Be brief."}] if i % 2 else []
        talk += [{"role": "user", "content": question}]
        yield talk
        yield talk + [{"role": "assistant", "content": " 42\n\n"}, {"role": "user", "content": "Sure?"}]


def chat_cases(tokenizer):
    for messages in conversations():
        for generate in (False, True):
            text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
            text += "<|im_start|>assistant\n" * generate
            yield {"messages": messages, "add_generation_prompt": generate, "text": text,
                   "ids": tokenizer.encode(text, add_special_tokens=False).ids}


def write_chat(folder, rng):
    """tokenizer.json, its configuration and cases, in one folder as those of a checkpoint."""
    folder.mkdir(exist_ok=True)
    tokenizer = chat()
    (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n", encoding="utf-8")
    config = {"chat_template": CHAT_TEMPLATE, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    all_cases = list(cases(tokenizer, rng))
    encode = [{key: case[key] for key in ("text", "ids", "decoded")} for case in all_cases if "text" in case]
    decode = [{"ids": case["ids"], "text": case["decoded"]} for case in all_cases if "text" not in case]
    written = {"encode": encode, "decode": decode, "chat": list(chat_cases(tokenizer))}
    lines = [f'"{kind}":[\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in found) + "]"
             for kind, found in written.items()]
    (folder / "tokenizer_cases.json").write_text("{" + ",\n".join(lines) + "}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    rng = random.Random(7)
    for name, make in [("llama3", llama3), ("qwen3", qwen3), ("digits", digits)]:
        tokenizer = make()
        spec = json.loads(tokenizer.to_str())
        if name == "llama3":  # the older style of merges
            spec["model"]["merges"] = [" ".join(pair) for pair in spec["model"]["merges"]]
        text = json.dumps(spec, ensure_ascii=False)
        (out / f"{name}.tokenizer.json").write_text(text + "\n", encoding="utf-8")
        again = Tokenizer.from_str(text)
        with open(out / f"{name}.cases.jsonl", "w", encoding="utf-8") as file:
            for case in cases(again, rng):
                file.write(json.dumps(case, separators=(",", ":")) + "\n")
    write_chat(out / "chat", rng)


if __name__ == "__main__":
    main()
