"""Random requests for chat templates: what clients send, in all shapes, well-formed or nearly."""
import unicodedata

import texts

ROLES = ["user", "assistant", "system", "tool", "developer", "user", "assistant"]
VARIABLES = {"enable_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high", None], "add_default_system": [True],
             "date_string": ["01 Jan 2025"], "builtin_tools": [["browser"], ["python"], []], "model_identity": ["You are X."],
             "keep_past_thinking": [True, False], "thinking_budget": [0, 512, -1], "custom_tools": [None], "tools_in_user_message": [True, False],
             "citation_mode": ["fast"], "preserve_thinking": [True], "bos_token": ["<s>"], "eos_token": ["</s>"]}
PROPERTY_TYPES = ["string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"]]


def words(rng):
    """A text without characters that this Python's Unicode lacks: whether repr() escapes them depends on the version."""
    s = texts.text(rng, ["<think>", "</think>", "<|im_end|>", "{{ x }}", "{% if %}", "<tool_call>", "</s>", "[INST]", " ", "\n"], 4)[:300]
    return "".join(c for c in s if unicodedata.category(c) != "Cn")


def name(rng):
    return rng.choice(["get_weather", "now", "f", "a.b", "items", "functions.x:0", "größe", "x-y"])


def value(rng, depth=0):
    """Any JSON value."""
    kind = rng.randrange(10 if depth < 3 else 7)
    if kind < 3:
        return words(rng)[:40]
    if kind < 7:
        return rng.choice([0, 1, -3, 1.0, 0.1, 1e16, 1e-7, -0.0, 123456789012345, 2.5e300, True, False, None])
    if kind == 7:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(["a", "b", "key", "items", "ß", "x y", "0"]): value(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def content(rng):
    kind = rng.random()
    if kind < 0.75:
        return words(rng)
    if kind < 0.8:
        return rng.choice([None, "", " \n"])
    if kind < 0.95:
        kinds = [lambda: {"type": "text", "text": words(rng)}] * 4 + [lambda: {"type": "image"}, lambda: words(rng),
                 lambda: {"type": "image_url", "image_url": {"url": "x"}}, lambda: {"type": "thinking", "thinking": words(rng)}]
        return [rng.choice(kinds)() for _ in range(rng.randint(0, 3))]
    return value(rng)


def call(rng):
    arguments = {rng.choice(["city", "n", "items", "é"]): value(rng) for _ in range(rng.randint(0, 3))}
    if rng.random() < 0.3:
        arguments = rng.choice(["", "{}", "{\"city\": \"Paris\"}", words(rng)])
    out = {"type": "function", "id": rng.choice(["call00001", "call00002", "functions.now:0"]),
           "function": {"name": name(rng), "arguments": arguments}}
    for key in ("type", "id"):
        if rng.random() < 0.15:
            del out[key]
    return out["function"] if rng.random() < 0.05 else out


def message(rng, role):
    out = {"role": role, "content": content(rng)}
    if role == "assistant":
        if rng.random() < 0.3:
            out["tool_calls"] = [call(rng) for _ in range(rng.randint(0, 3))]
            if rng.random() < 0.3:
                del out["content"]
        if rng.random() < 0.25:
            out[rng.choice(["reasoning_content", "reasoning_content", "thinking", "reasoning"])] = rng.choice([words(rng), "", None])
    if role == "tool":
        if rng.random() < 0.7:
            out["tool_call_id"] = rng.choice(["call00001", "call00002", "functions.now:0"])
        if rng.random() < 0.7:
            out["name"] = name(rng)
    if rng.random() < 0.05:
        out["name"] = words(rng)[:10]
    return out


def schema(rng, depth=0):
    out = {"type": rng.choice(PROPERTY_TYPES)}
    if rng.random() < 0.6:
        out["description"] = words(rng)
    if rng.random() < 0.2:
        out["enum"] = [value(rng, 3) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.15:
        out["default"] = value(rng, 2)
    if out["type"] == "array" and depth < 2:
        out["items"] = schema(rng, depth + 1)
    if out["type"] == "object" and depth < 2 and rng.random() < 0.8:
        out["properties"] = {rng.choice(["a", "items", "keys", "x"]): schema(rng, depth + 1) for _ in range(rng.randint(0, 2))}
    if rng.random() < 0.1:
        out[rng.choice(["minimum", "maxItems", "nullable", "format", "anyOf", "title"])] = rng.choice([1, True, "date", [{"type": "string"}]])
    return out


def tool(rng):
    properties = {rng.choice(["city", "n", "items", "get", "é"]): schema(rng) for _ in range(rng.randint(0, 3))}
    parameters = {"type": "object", "properties": properties, "required": rng.sample(list(properties), rng.randint(0, len(properties)))}
    function = {"name": name(rng), "description": words(rng), "parameters": parameters}
    for key, chance in (("description", 0.1), ("parameters", 0.1)):
        if rng.random() < chance:
            del function[key]
    if rng.random() < 0.1:
        function["return"] = {"type": "string", "description": words(rng)}
    return function if rng.random() < 0.1 else {"type": "function", "function": function}


def turns(rng):
    """Roles in the order that templates expect, most of the time."""
    if rng.random() < 0.2:
        return [rng.choice(ROLES) for _ in range(rng.randint(0, 6))]
    roles = ["system"] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 3)):
        roles += ["user", "assistant"] + rng.choice([[], [], ["tool", "assistant"], ["tool", "tool", "assistant"]])
    return roles[:rng.choice([None, None, -1, -1, -1])] if len(roles) > 1 else roles


def request(rng):
    out = {"messages": [message(rng, role) for role in turns(rng)]}
    if rng.random() < 0.5:
        out["add_generation_prompt"] = rng.random() < 0.8
    if rng.random() < 0.45:
        out["tools"] = rng.choice([None, []]) if rng.random() < 0.1 else [tool(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.08:
        out["documents"] = [{"title": words(rng), "text": words(rng)} for _ in range(rng.randint(0, 2))]
    for key, choices in VARIABLES.items():
        if rng.random() < 0.08:
            out[key] = rng.choice(choices)
    return out


def continued(rng):
    """A request with continue_final_message. Reasoning stays out: transformers 5.24 copies it under other names there."""
    out = request(rng)
    out.pop("add_generation_prompt", None)
    for m in out["messages"]:
        for key in ("reasoning_content", "thinking", "reasoning"):
            m.pop(key, None)
    return {**out, "continue_final_message": True}
