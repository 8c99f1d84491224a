#!/usr/bin/env python3
"""Makes tests/task/data/chat.cases.jsonl: messages as Jinja renders them by published templates.

The templates are not part of this project. Give the text of each as a file, as found under
`chat_template` in the tokenizer_config.json of a checkpoint:

    pip install jinja2==3.1.6
    python3 scripts/make_chat_cases.py chatml=FILE qwen2=FILE qwen3=FILE > tests/task/data/chat.cases.jsonl
"""

import json
import random
import sys

import jinja2.sandbox

WORDS = ["What is 6 x 7?", "42", "It is\nforty-two.\n", "", "\n\nSpaces around \n\n", "Be brief.", "Why?"]
ANSWERS = WORDS + [
    "<think>\nSix sevens.\n</think>\n\n42", "<think>\n\n</think>\n\n42", "a<think>b</think>c</think>\n\nd",
    "</think>", "<think>never closed", "x</think>y", "<think><think>twice</think>\nz\n", "\n</think>\n",
]
RESULT = "<tool_response>3</tool_response>"
QUESTIONS = WORDS + [RESULT, RESULT, RESULT, "<tool_response>", RESULT + " ok?"]


def conversation(rng):
    messages = [{"role": "system", "content": rng.choice(WORDS)}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 5)):
        role = rng.choice(["user", "user", "assistant", "assistant", "system"])
        pool = {"user": QUESTIONS, "assistant": ANSWERS, "system": WORDS}[role]
        messages.append({"role": role, "content": rng.choice(pool)})
    return messages


def main():
    rng = random.Random(11)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    for argument in sys.argv[1:]:
        style, path = argument.split("=", 1)
        with open(path, encoding="utf-8") as file:
            template = environment.from_string(file.read())
        for _ in range(150 if style == "qwen3" else 30):
            case = {"style": style, "messages": conversation(rng), "add_generation_prompt": rng.random() < 0.7}
            if style == "qwen3" and rng.random() < 0.5:
                case["enable_thinking"] = rng.random() < 0.5
            print(json.dumps(dict(case, text=template.render(**case)), separators=(",", ":")))


if __name__ == "__main__":
    main()
