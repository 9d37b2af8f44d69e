#!/usr/bin/env python3
"""Lets SmolLM2-135M-Instruct call tools and follow schemas through its own chat template, over OpenAI's client, in the server at
$WISP_TEST_SERVER that has it as `smollm2`; the tests of the program start both."""

import json
import os
from typing import Literal

import openai
import pydantic

CLIENT = openai.OpenAI(base_url=os.environ["WISP_TEST_SERVER"] + "/v1", api_key="test-key", max_retries=0)


def ask(question, **more):
    messages = [{"role": "user", "content": question}]
    return {"model": "smollm2", "messages": messages, "temperature": 0, "max_completion_tokens": 200, **more}


def answer():
    text = CLIENT.chat.completions.create(**ask("What is the capital of France?")).choices[0].message.content
    assert "Paris" in text, text
    return text


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=40)
    country: Literal["France", "Italy", "Norway"]
    is_capital: bool


def schema():
    city = CLIENT.chat.completions.parse(**ask("Describe Paris."), response_format=City).choices[0].message.parsed
    assert city.country == "France", city
    return repr(city)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 40}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def tool():
    question = "What is the weather in Oslo?"
    call = ask(question, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    with CLIENT.chat.completions.stream(**call) as stream:
        message = stream.get_final_completion().choices[0].message
    (found,) = message.tool_calls
    assert found.function.name == "get_weather", found
    assert json.loads(found.function.arguments) == {"city": "Oslo"}, found
    result = {"role": "tool", "tool_call_id": found.id, "content": "Sunny, 21 degrees."}
    messages = [*call["messages"], message, result]
    after = CLIENT.chat.completions.create(**{**call, "messages": messages, "tool_choice": "none"}).choices[0].message
    assert after.content, after
    return f"{found.function.name}({found.function.arguments}): {after.content}"


print("SmolLM2-135M-Instruct")
for test in (answer, schema, tool):
    print(f"  {test.__name__}: {test()!r}")
