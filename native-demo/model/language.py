"""Small tools for templated English: reading the tables, choices, articles, careless typing."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def lines(name):
    """The lines of a table that are neither empty nor comments."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def table(name):
    """The rows of a tab-separated table."""
    return [line.split("\t") for line in lines(name)]


def pairs(name):
    """Pairs of lines, each split at " / ": what is said, and what may be answered."""
    rows = [line.split(" / ") for line in lines(name)]
    return list(zip(rows[0::2], rows[1::2], strict=True))


def expand(rng, template, slots):
    """Settles each `[a|b]` by chance, then fills `{slot}`s; choices hold no choices."""
    chosen = re.sub(r"\[([^\]]*)\]", lambda m: rng.choice(m.group(1).split("|")), template)
    return chosen.format(**slots)


def article(noun):
    return f"an {noun}" if noun[0] in "aeiouAEIO" and not noun.startswith("uni") else f"a {noun}"


def capital(text):
    return text[:1].upper() + text[1:]


def uncapital(text):
    """Lower case at the start, for use inside a sentence; "I" and names of days stay."""
    return text if text.startswith(("I ", "I'")) else text[:1].lower() + text[1:]


def careless(rng, text):
    """A wording as people type it: without capitals, full stop or apostrophe now and then."""
    if rng.random() < 0.25:
        text = text.lower()
    if rng.random() < 0.25:
        text = text.rstrip(".!?")
    if rng.random() < 0.08:
        text = text.replace("'", "")
    if rng.random() < 0.04:
        text = text.replace("colour", "color").replace("favourite", "favorite")
    return text


ORDERING = "Tell Write Give Make Invent Read Compose Say Explain Describe Name Entertain".split()
POLITE = ["Please {q}", "{q}, please", "Can you {q}", "Could you {q}", "Could you please {q}"]
ASKING = ["Can you tell me {q}", "Tell me, {q}", "Do you know {q}", "Hey Wisp, {q}", "Please tell me {q}",
          "I want to know {q}", "I wonder, {q}", "Hi! {Q}", "Question: {Q}", "{Q} Please tell me."]


def politely(rng, order):
    """A request ("Write a poem."), now and then made a polite one."""
    if rng.random() < 0.8 or order.split()[0] not in ORDERING:
        return order
    form = rng.choice(POLITE)
    end = "?" if form.startswith("C") else "."
    return form.format(q=uncapital(order.rstrip("."))).rstrip(".") + end


def asking(rng, question):
    """A question, now and then with something before it."""
    if rng.random() < 0.85 or not question.endswith("?"):
        return question
    return rng.choice(ASKING).format(q=uncapital(question), Q=question)


SYLLABLES = "ba bo bli da dro du fa fi flo ga glo gri ka kli ko la li lo ma mi mo na ni no pa plo pu ra ri ro sa sni so ta ti tro va vo wa wi za zi zo".split()
ENDINGS = ["", "n", "rk", "x", "lt", "p", "ng", "t", "ck", "m"]


def made_up(rng):
    """A word that does not exist, so that the model must copy it from the prompt."""
    return "".join(rng.choices(SYLLABLES, k=rng.choice((1, 2, 2, 3)))) + rng.choice(ENDINGS)
