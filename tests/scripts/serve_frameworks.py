#!/usr/bin/env python3
"""Talks to `wisp serve` at $WISP_TEST_SERVER with LangChain's and LiteLLM's clients; the tests of the program start both."""

import json
import math
import os
from importlib.metadata import version
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

litellm.suppress_debug_info = True
BASE = os.environ["WISP_TEST_SERVER"] + "/v1"
KEY = "test-key"
QUESTION = "Tell me a story."


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Rome"]
    sunny: bool


def langchain(model="tiny", **more):
    options = {"temperature": 0, "max_tokens": 24, "max_retries": 0, **more}
    return ChatOpenAI(model=model, base_url=BASE, api_key=KEY, **options)


def langchain_chat():
    answer = langchain().invoke(QUESTION)
    assert answer.usage_metadata["output_tokens"] == 24, answer
    return answer.content


def langchain_streaming():
    parts = list(langchain(stream_usage=True).stream(QUESTION))
    assert "".join(part.content for part in parts) == langchain_chat()
    assert any(part.usage_metadata for part in parts)
    return f"{len(parts)} parts"


def langchain_tools():
    model = langchain(max_tokens=96).bind_tools([Weather], tool_choice="required", parallel_tool_calls=False)
    answer = model.invoke(QUESTION)
    (call,) = answer.tool_calls
    Weather(**call["args"])
    joined = None
    for part in model.stream(QUESTION):
        joined = part if joined is None else joined + part
    assert joined.tool_calls[0]["args"] == call["args"], joined
    messages = [HumanMessage(QUESTION), answer, ToolMessage("Sunny.", tool_call_id=call["id"])]
    assert isinstance(langchain().bind_tools([Weather]).invoke(messages), AIMessage)
    return f"{call['name']}({json.dumps(call['args'])})"


def langchain_structured_output():
    found = [
        langchain(max_tokens=96).with_structured_output(Weather, method=method).invoke(QUESTION)
        for method in ("json_schema", "function_calling")
    ]
    assert all(isinstance(answer, Weather) for answer in found), found
    return repr(found)


def langchain_embeddings():
    model = OpenAIEmbeddings(model="bert", base_url=BASE, api_key=KEY, check_embedding_ctx_length=False, max_retries=0)
    a, b = model.embed_documents(["the cat", "the kitten"])
    assert abs(math.hypot(*a) - 1) < 1e-5 and max(abs(x - y) for x, y in zip(model.embed_query("the cat"), a)) < 1e-6
    return f"{len(b)} dimensions"


LITELLM = {"api_base": BASE, "api_key": KEY, "temperature": 0, "max_tokens": 24, "num_retries": 0}
MESSAGES = [{"role": "user", "content": QUESTION}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": Weather.model_json_schema()}}


def ask(model="openai/tiny", **more):
    return litellm.completion(**{**LITELLM, "model": model, "messages": MESSAGES, **more})


def litellm_chat():
    return ask().choices[0].message.content


def litellm_streaming():
    parts = list(ask(stream=True))
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    assert text == litellm_chat(), text
    return f"{len(parts)} parts"


def litellm_tools():
    answer = ask(tools=[TOOL], tool_choice="required", max_tokens=96).choices[0].message
    calls = answer.tool_calls
    assert all(Weather(**json.loads(call.function.arguments)) for call in calls) and calls, answer
    parts = list(ask(tools=[TOOL], tool_choice="required", max_tokens=96, stream=True))
    joined = litellm.stream_chunk_builder(parts).choices[0].message.tool_calls
    assert [call.function.arguments for call in joined] == [call.function.arguments for call in calls], joined
    return f"{calls[0].function.name}({calls[0].function.arguments})"


def litellm_structured_output():
    text = ask(response_format=Weather, max_tokens=96).choices[0].message.content
    return repr(Weather.model_validate_json(text))


def litellm_embeddings():
    answer = litellm.embedding(model="openai/bert", input=["the cat", "the kitten"], api_base=BASE, api_key=KEY)
    return f"{len(answer.data)} vectors of {len(answer.data[0]['embedding'])}"


def litellm_anthropic():
    # Its route to Anthropic's interface.
    answer = litellm.completion(
        model="anthropic/tiny", messages=MESSAGES, max_tokens=24, temperature=0, api_base=BASE.removesuffix("/v1"), api_key=KEY
    )
    assert answer.choices[0].message.content == litellm_chat()
    return f"{answer.usage.completion_tokens} tokens"


print(f"langchain-openai {version('langchain-openai')} and litellm {version('litellm')} for Python")
for test in [
    langchain_chat,
    langchain_streaming,
    langchain_tools,
    langchain_structured_output,
    langchain_embeddings,
    litellm_chat,
    litellm_streaming,
    litellm_tools,
    litellm_structured_output,
    litellm_embeddings,
    litellm_anthropic,
]:
    print(f"  {test.__name__}: {test()!r}")
