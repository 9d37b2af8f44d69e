#!/usr/bin/env python3
"""Talks to `wisp serve` at $WISP_TEST_SERVER with the clients of OpenAI and Anthropic for Python; the tests of the program
start both."""

import asyncio
import json
import math
import os
from typing import Literal

import anthropic
import openai
import pydantic

OPTIONS = {"base_url": os.environ["WISP_TEST_SERVER"] + "/v1", "api_key": "test-key", "max_retries": 0}
CLIENT = openai.OpenAI(**OPTIONS)
CHAT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Tell me a story."}],
    "temperature": 0,
    "max_completion_tokens": 24,
}


def models():
    names = [model.id for model in CLIENT.models.list()]
    assert "tiny" in names, names
    assert CLIENT.models.retrieve("tiny").id == "tiny"
    return ", ".join(names)


def chat():
    answer = CLIENT.chat.completions.create(**CHAT)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    return answer.choices[0].message.content


def streaming():
    chunks = list(CLIENT.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == chat(), text
    return f"{len(chunks)} chunks, {chunks[-1].usage.completion_tokens} tokens"


def stream_helper():
    # Its final answer must have ended by itself.
    with CLIENT.chat.completions.stream(**CHAT, stop=".") as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert final.choices[0].message.content == chat().split(".")[0]
    return f"{len(events)} events"


def log_probabilities():
    answer = CLIENT.chat.completions.create(**CHAT, logprobs=True, top_logprobs=3)
    scores = answer.choices[0].logprobs.content
    assert len(scores) == answer.usage.completion_tokens and len(scores[0].top_logprobs) == 3
    return f"{scores[0].token!r} {scores[0].logprob:.3f}"


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Returns the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
TOOLS = {**CHAT, "max_completion_tokens": 96, "tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}


def tools():
    answer = CLIENT.chat.completions.create(**TOOLS).choices[0]
    assert answer.finish_reason == "tool_calls" and answer.message.content is None, answer
    (call,) = answer.message.tool_calls
    assert call.type == "function" and json.loads(call.function.arguments)["city"] in ["Oslo", "Rome"]
    # The result, and an answer to it.
    result = {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}
    messages = [*CHAT["messages"], answer.message, result]
    after = CLIENT.chat.completions.create(**{**TOOLS, "messages": messages, "tool_choice": "auto"})
    assert after.choices[0].message.role == "assistant"
    return f"{call.function.name}({call.function.arguments})"


def streamed_tools():
    # The helper joins the parts and parses the arguments.
    with CLIENT.chat.completions.stream(**TOOLS) as stream:
        deltas = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
        final = stream.get_final_completion().choices[0]
    (call,) = final.message.tool_calls
    assert final.finish_reason == "tool_calls" and call.function.parsed_arguments["city"] in ["Oslo", "Rome"], final
    return f"{len(deltas)} parts"


class City(pydantic.BaseModel):
    name: Literal["Oslo", "Rome"]
    coastal: bool


def structured_output():
    # The helpers make a schema of the type, and parse the answers.
    parsed = CLIENT.chat.completions.parse(**{**CHAT, "max_completion_tokens": 96}, response_format=City)
    with CLIENT.chat.completions.stream(**{**CHAT, "max_completion_tokens": 96}, response_format=City) as stream:
        streamed = stream.get_final_completion()
    response = CLIENT.responses.parse(**{**RESPONSE, "max_output_tokens": 96}, text_format=City)
    found = [parsed.choices[0].message.parsed, streamed.choices[0].message.parsed, response.output_parsed]
    assert all(isinstance(city, City) for city in found), found
    return repr(found[0])


def completions():
    answer = CLIENT.completions.create(model="tiny", prompt=["Once upon a time", "The dog"], n=2, seed=7, max_tokens=8)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    parts = CLIENT.completions.create(model="tiny", prompt="The dog", seed=7, max_tokens=8, stream=True)
    assert "".join(part.choices[0].text for part in parts) == answer.choices[2].text
    return repr(answer.choices[2].text)


UNSUPPORTED = {"name": "set", "schema": {"type": "array", "uniqueItems": True}}


def errors():
    found = []
    for kind, more in [
        (openai.NotFoundError, {"model": "gpt-5"}),
        (openai.BadRequestError, {"temperature": -1}),
        (openai.BadRequestError, {"tools": [{"type": "function", "function": {"name": "not a name"}}]}),
        (openai.BadRequestError, {"response_format": {"type": "json_schema", "json_schema": UNSUPPORTED}}),
        (openai.BadRequestError, {"response_format": {"type": "xml"}}),
    ]:
        try:
            CLIENT.chat.completions.create(**{**CHAT, **more})
        except kind as error:
            found.append(f"{error.status_code} {error.param}")
    try:
        openai.OpenAI(**{**OPTIONS, "api_key": "wrong"}).models.list()
    except openai.AuthenticationError as error:
        found.append(f"{error.status_code} {error.code}")
    assert len(found) == 6, found
    return ", ".join(found)


def concurrent():
    async def run():
        async with openai.AsyncOpenAI(**OPTIONS) as client:
            each = [client.chat.completions.create(**{**CHAT, "temperature": 1, "seed": seed}) for seed in range(24)]
            return await asyncio.gather(*each)

    answers = asyncio.run(run())
    again = CLIENT.chat.completions.create(**{**CHAT, "temperature": 1, "seed": 5})
    assert again.choices[0].message.content == answers[5].choices[0].message.content
    return f"{len(answers)} answers"


def embeddings():
    answer = CLIENT.embeddings.create(model="bert", input=["the cat", "the kitten", "the cat"])
    a, b, again = (entry.embedding for entry in answer.data)
    assert a == again and abs(math.hypot(*a) - 1) < 1e-5
    floats = CLIENT.embeddings.create(model="bert", input="the cat", encoding_format="float")
    assert max(abs(x - y) for x, y in zip(floats.data[0].embedding, a)) < 1e-6
    return f"{len(a)} dimensions, similarity {sum(x * y for x, y in zip(a, b)):.3f}"


RESPONSE = {"model": "tiny", "input": "Tell me a story.", "temperature": 0, "max_output_tokens": 24}


def responses():
    answer = CLIENT.responses.create(**RESPONSE)
    assert answer.output_text == chat(), answer.output_text
    events = list(CLIENT.responses.create(**RESPONSE, stream=True))
    assert events[-1].response.output_text == answer.output_text
    assert events[-1].response.usage.total_tokens == answer.usage.total_tokens
    with CLIENT.responses.stream(**RESPONSE) as stream:
        kinds = [event.type for event in stream]
    try:
        CLIENT.responses.create(**RESPONSE, previous_response_id=answer.id)
    except openai.BadRequestError as error:
        assert error.param == "previous_response_id"
        return f"{len(kinds)} events, {answer.status}"


def response_tools():
    function = {"type": "function", **WEATHER["function"]}
    tools = {"tools": [function], "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 96}
    (call,) = CLIENT.responses.create(**{**RESPONSE, **tools}).output
    assert call.type == "function_call" and json.loads(call.arguments)["city"] in ["Oslo", "Rome"], call
    # The helper joins the parts and parses the arguments.
    with CLIENT.responses.stream(**{**RESPONSE, **tools}) as stream:
        kinds = [event.type for event in stream]
        (final,) = stream.get_final_response().output
    assert "response.function_call_arguments.delta" in kinds and final.arguments == call.arguments, kinds
    # The result, and an answer to it.
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}
    items = [{"role": "user", "content": RESPONSE["input"]}, call, result]
    after = CLIENT.responses.create(**{**RESPONSE, **tools, "input": items, "tool_choice": "auto"})
    assert after.output[0].type == "message", after
    return f"{call.name}({call.arguments})"


ANTHROPIC = anthropic.Anthropic(base_url=os.environ["WISP_TEST_SERVER"], api_key="test-key", max_retries=0)
MESSAGE = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Tell me a story."}],
    "max_tokens": 24,
    # Not among the parameters of the client's newest versions.
    "extra_body": {"temperature": 0},
}


def messages():
    answer = ANTHROPIC.messages.create(**MESSAGE)
    assert answer.content[0].text == chat() and answer.stop_reason in ("max_tokens", "end_turn")
    with ANTHROPIC.messages.stream(**MESSAGE, stop_sequences=["."]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == chat().split(".")[0] and final.stop_reason == "stop_sequence" and final.stop_sequence == "."
    counted = ANTHROPIC.messages.count_tokens(model="tiny", messages=MESSAGE["messages"]).input_tokens
    assert counted == answer.usage.input_tokens + answer.usage.cache_read_input_tokens
    return f"{counted} tokens in, {answer.usage.output_tokens} out"


def message_tools():
    function = WEATHER["function"]
    tool = {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    tools = {**MESSAGE, "tools": [tool], "tool_choice": choice, "max_tokens": 96}
    answer = ANTHROPIC.messages.create(**tools)
    (call,) = answer.content
    assert answer.stop_reason == "tool_use" and call.input["city"] in ["Oslo", "Rome"], answer
    # The helper joins the parts of the input.
    with ANTHROPIC.messages.stream(**tools) as stream:
        deltas = [event for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert final.content[0].input == call.input and final.stop_reason == "tool_use", final
    # The result, and an answer to it.
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Sunny."}]}
    turns = [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    messages = MESSAGE["messages"] + turns
    after = ANTHROPIC.messages.create(**{**tools, "messages": messages, "tool_choice": {"type": "auto"}})
    assert after.content[0].type == "text", after
    return f"{call.name}({call.input}), {len(deltas)} parts"


def message_schema():
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
    config = {"format": {"type": "json_schema", "schema": schema}}
    answer = ANTHROPIC.messages.create(**{**MESSAGE, "max_tokens": 96, "output_config": config})
    city = json.loads(answer.content[0].text)["city"]
    assert city in ["Oslo", "Rome"], answer
    return city


def message_errors():
    found = []
    for kind, more in [
        (anthropic.NotFoundError, {"model": "claude-0"}),
        (anthropic.BadRequestError, {"extra_body": {"temperature": -1}}),
        (anthropic.BadRequestError, {"tools": [{"name": "not a name", "input_schema": {"type": "object"}}]}),
    ]:
        try:
            ANTHROPIC.messages.create(**{**MESSAGE, **more})
        except kind as error:
            found.append(f"{error.status_code} {error.body['error']['type']}")
    try:
        ANTHROPIC.with_options(api_key="wrong").messages.create(**MESSAGE)
    except anthropic.AuthenticationError as error:
        found.append(f"{error.status_code}")
    assert len(found) == 4, found
    return ", ".join(found)


print(f"openai {openai.VERSION} and anthropic {anthropic.__version__} for Python")
for test in [
    models,
    chat,
    streaming,
    stream_helper,
    log_probabilities,
    tools,
    streamed_tools,
    structured_output,
    completions,
    errors,
    concurrent,
    embeddings,
    responses,
    response_tools,
    messages,
    message_tools,
    message_schema,
    message_errors,
]:
    print(f"  {test.__name__}: {test()!r}")
