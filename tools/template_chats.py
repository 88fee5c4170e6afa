"""The conversations that tools/make_template_reference.py renders: what clients send, well-formed or not.

CHATS maps a name to a request as `mlxcel template` reads it: messages, tools, documents, add_generation_prompt and any
further template variables. CONTINUED is the same with continue_final_message.
"""

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def function(name, description, properties, required=(), **more):
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def call(name, arguments, id="call00001"):
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


USER = say("user", "What is the capital of France?")
SYSTEM = say("system", "You are a helpful assistant.\nAnswer briefly.")
ANSWER = say("assistant", "Paris.")

WEATHER = function(
    "get_weather", "Current weather at a place.",
    {"location": {"type": "string", "description": "City, e.g. Paris"},
     "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}}, ["location"])
PLAIN = function("now", "The time.", {})
NESTED = function(
    "book", "Books a trip with \"quotes\" & <tags>.\nSecond line.",
    {"who": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"},
             "age": {"type": ["integer", "null"]}}, "required": ["name"]}, "minItems": 1, "maxItems": 9},
     "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "number"}], "description": "Day"},
     "kind": {"enum": ["a", "b"]}, "extra": {"type": "object", "additionalProperties": True},
     "price": {"type": "number", "minimum": 0.5, "maximum": 1e16, "nullable": True},
     "flag": {"type": "boolean", "default": False}}, ["who", "when"], additionalProperties=False)
ODD_NAMES = function(
    "odd", "Parameters named like a dict's methods.",
    {"items": {"type": "string"}, "keys": {"type": "array", "items": {"type": "string"}}, "values": {"type": "integer"},
     "get": {"type": "object", "properties": {"pop": {"type": "string", "description": "deep"}}}})

TOOL_TURN = [
    say("user", "Weather in Paris?"),
    say("assistant", "", tool_calls=[call("get_weather", {"location": "Paris", "unit": "celsius"})]),
    say("tool", "{\"temperature\": 21.5}", name="get_weather", tool_call_id="call00001"),
]
TWO_CALLS = [
    say("user", "Weather in Paris and Rome?"),
    say("assistant", "Let me look.", tool_calls=[call("get_weather", {"location": "Paris"}, "call00001"),
                                                 call("get_weather", {"location": "Rome"}, "call00002")]),
    say("tool", "21", name="get_weather", tool_call_id="call00001"),
    say("tool", "25", name="get_weather", tool_call_id="call00002"),
    say("assistant", "Paris 21, Rome 25."),
    say("user", "Thanks!"),
]
VALUES = {"i": 1, "neg": -3, "f": 1.0, "g": 0.1, "big": 1e16, "small": 1e-5, "t": True, "n": None, "s": "a\"b\\c\n",
          "u": "né \U0001f600", "list": [1, "two", [3, {"k": "v"}]], "empty": {}, "none": []}


def text(*parts):
    return [{"type": "text", "text": part} for part in parts]


def chat(*messages, gen=False, **more):
    return {"messages": list(messages), "add_generation_prompt": gen, **more}


CHATS = {
    "user": chat(USER),
    "user_gen": chat(USER, gen=True),
    "system": chat(SYSTEM, USER, gen=True),
    "empty_system": chat(say("system", ""), USER, gen=True),
    "turns": chat(SYSTEM, USER, ANSWER, say("user", "And of Italy?"), gen=True),
    "turns_done": chat(USER, ANSWER, say("user", "And of Italy?"), say("assistant", "Rome.")),
    "tools": chat(USER, tools=[WEATHER], gen=True),
    "tools_system": chat(SYSTEM, USER, tools=[WEATHER, PLAIN], gen=True),
    "tools_nested": chat(USER, tools=[NESTED, WEATHER], gen=True),
    "tools_odd_names": chat(USER, tools=[ODD_NAMES], gen=True),
    "tools_bare": chat(USER, tools=[WEATHER["function"]], gen=True),
    "tools_empty": chat(USER, tools=[], gen=True),
    "tool_result": chat(*TOOL_TURN, tools=[WEATHER], gen=True),
    "tool_done": chat(SYSTEM, *TOOL_TURN, say("assistant", "21.5 degrees."), tools=[WEATHER]),
    "two_calls": chat(*TWO_CALLS, tools=[WEATHER], gen=True),
    "call_open": chat(*TOOL_TURN[:2], tools=[WEATHER]),
    "arguments_text": chat(TOOL_TURN[0], say("assistant", None, tool_calls=[call("get_weather", "{\"location\": \"Paris\"}")]),
                           TOOL_TURN[2], tools=[WEATHER], gen=True),
    "content_null": chat(TOOL_TURN[0], say("assistant", None, tool_calls=TOOL_TURN[1]["tool_calls"]), TOOL_TURN[2],
                         tools=[WEATHER], gen=True),
    "content_missing": chat(TOOL_TURN[0], {"role": "assistant", "tool_calls": TOOL_TURN[1]["tool_calls"]}, TOOL_TURN[2],
                            tools=[WEATHER], gen=True),
    "values": chat(USER, say("assistant", "", tool_calls=[call("odd", VALUES)]), say("tool", "ok", name="odd"),
                   tools=[ODD_NAMES], gen=True),
    "tool_no_tools": chat(*TOOL_TURN, gen=True),
    "tool_id": chat(USER, say("assistant", "", tool_calls=[call("now", {}, "functions.now:0")]),
                    say("tool", "noon", tool_call_id="functions.now:0"), tools=[PLAIN], gen=True),
    "tool_parts": chat(*TOOL_TURN[:2], say("tool", text("21.5"), tool_call_id="call00001"), tools=[WEATHER], gen=True),
    "tool_object": chat(*TOOL_TURN[:2], say("tool", {"temperature": 21.5}, name="get_weather"), tools=[WEATHER], gen=True),
    "parts": chat(say("system", text("Be brief.")), say("user", text("One.", " Two.")), say("assistant", text("Yes.")),
                  say("user", text("Three?")), gen=True),
    "image": chat(say("user", [{"type": "image"}, {"type": "text", "text": "What is this?"}]), gen=True),
    "image_url": chat(say("user", [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "x"}}]), gen=True),
    "reasoning": chat(USER, say("assistant", "Paris.", reasoning_content="France has Paris.\n"), say("user", "Sure?"), gen=True),
    "reasoning_last": chat(USER, say("assistant", "Paris.", reasoning_content="\nFrance has Paris.")),
    "reasoning_tools": chat(TOOL_TURN[0], {**TOOL_TURN[1], "reasoning_content": "I must call."}, TOOL_TURN[2],
                            tools=[WEATHER], gen=True),
    "thinking_field": chat(TOOL_TURN[0], {**TOOL_TURN[1], "thinking": "I must call."}, TOOL_TURN[2], tools=[WEATHER], gen=True),
    "think_tags": chat(USER, say("assistant", "<think>\nFrance...\n</think>\n\nParis."), say("user", "Sure?"),
                       say("assistant", "<think>\nyes\n</think>\n\nYes.")),
    "think_open": chat(USER, say("assistant", "</think>Paris."), say("user", "Sure?"), gen=True),
    "thinking_on": chat(SYSTEM, USER, gen=True, enable_thinking=True, thinking=True),
    "thinking_off": chat(SYSTEM, USER, gen=True, enable_thinking=False, thinking=False),
    "no_think_words": chat(say("system", "Be brief. /no_think"), say("user", "Hi /think"), gen=True),
    "effort": chat(USER, gen=True, reasoning_effort="high", model_identity="You are X.", builtin_tools=["browser", "python"],
                   date_string="01 Jan 2025", thinking_budget=512, keep_past_thinking=True),
    "documents": chat(USER, documents=[{"title": "Paris", "text": "Paris is in France."}, {"title": "Rome", "text": "Italy."}],
                      gen=True),
    "developer": chat(say("developer", "Be brief."), USER, gen=True),
    "late_system": chat(USER, ANSWER, say("system", "Now in French."), say("user", "And of Italy?"), gen=True),
    "two_users": chat(USER, say("user", "And of Italy?"), gen=True),
    "assistant_first": chat(ANSWER, USER, gen=True),
    "assistant_last_gen": chat(USER, ANSWER, gen=True),
    "unknown_role": chat(say("narrator", "Once upon a time"), USER, gen=True),
    "unicode": chat(say("user", "Größe: 5 µm — “quoted” \U0001f680 日本語 \u200b\u00a0\ufeff العربية\r\n\ttab"),
                    say("assistant", "ß → SS, İ"), say("user", "été <|im_end|> </s> {{ messages }} {% if %}"), gen=True),
    "blanks": chat(say("system", "  \n"), say("user", "  padded \n\n"), say("assistant", "\n answer \t"), say("user", " "), gen=True),
    "empty_user": chat(say("user", ""), gen=True),
    "names": chat(say("user", "Hi", name="Ann"), say("assistant", "Hello Ann", name="bot"), say("user", "Bye", name="Ann"), gen=True),
    "long": chat(SYSTEM, *[m for i in range(6) for m in (say("user", f"Question {i}"), say("assistant", f"Answer {i}"))],
                 *TOOL_TURN, say("assistant", "It is 21.5."), say("user", "Good."), tools=[WEATHER, NESTED], gen=True),
    "no_messages": chat(),
    "controls": chat(say("system", "a\0b\x01\x1b[0m\x7f\u2028\u2029\ufeff"), say("user", "\r\n\v\f\x85 \"'\\<&>{{}}"), gen=True),
    "two_assistants": chat(USER, ANSWER, say("assistant", "And Rome?"), say("user", "Both."), gen=True),
    "two_systems": chat(SYSTEM, say("system", "Be kind."), USER, gen=True),
    "developer_tools": chat(say("developer", "Use tools."), *TOOL_TURN, tools=[WEATHER, NESTED], gen=True),
    "tool_text_list": chat(TOOL_TURN[0], say("assistant", "Now.", tool_calls=[call("book", "[1, {\"a\": null}]"), call("now", "")]),
                           say("tool", "x", tool_call_id="a"), say("tool", "", tool_call_id="b"), tools=[NESTED, PLAIN], gen=True),
    "tool_null": chat(*TOOL_TURN[:2], say("tool", None, name="get_weather"), tools=[WEATHER], gen=True),
    "parts_mixed": chat(say("user", ["loose", {"type": "text", "text": "x"}]), say("assistant", text()), say("user", text("")), gen=True),
    "tools_gen_off": chat(SYSTEM, USER, say("assistant", "", reasoning_content=""), tools=[NESTED, ODD_NAMES, WEATHER]),
}


def continued(*messages):
    return {"messages": list(messages), "continue_final_message": True}


CONTINUED = {
    "plain": continued(USER, say("assistant", "The capital is")),
    "blank_behind": continued(SYSTEM, USER, say("assistant", "The capital is ")),
    "blanks_around": continued(USER, say("assistant", "\n\n The capital\nis \n")),
    "twice": continued(USER, say("assistant", "assistant"), say("user", "assistant"), say("assistant", "assistant")),
    "parts": continued(USER, say("assistant", text("The capital", "is"))),
    "think": continued(USER, say("assistant", "<think>\nFrance\n</think>\n\nThe capital is")),
    "user": continued(say("user", "What is the")),
    "unicode": continued(USER, say("assistant", "Größe\u2003\u3000")),
}
