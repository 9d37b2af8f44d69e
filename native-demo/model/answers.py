"""Questions and requests with short answers; each function makes one pair from the tables."""

import re

from language import article, asking, capital, careless, expand, lines, made_up, pairs, politely, table
from stories import HEROES, NAMES, SLOTS

EXPLAIN, TALK = pairs("explain.txt"), pairs("talk.txt")
ANIMALS, COLOURS, OPPOSITES = table("animals.tsv"), table("colours.tsv"), table("opposites.tsv")
CATEGORIES, CAPITALS, RHYMES = table("categories.tsv"), table("capitals.tsv"), table("rhymes.tsv")
JOKES, RIDDLES = ([line.split(" | ") for line in lines(n)] for n in ("jokes.txt", "riddles.txt"))
UNKNOWN = lines("unknown.txt")
POEMS = "\n".join(lines("poems.txt")).split("\n--\n")
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
           "sixteen seventeen eighteen nineteen twenty").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()


def other_wording(rng, question):
    """Some questions as orders: "How do birds fly?" as "Explain how birds fly."."""
    body = question.rstrip("?")
    order = rng.choice(("Explain", "Tell me", "Explain to me", "Please explain"))
    if m := re.match(r"(How|Why) do (.*)", body):
        return f"{order} {m[1].lower()} {m[2]}."
    if m := re.match(r"What (?:is|are) ((?:a|an|the) \w+|\w+)$", body):
        thing = m[1]
        return rng.choice((f"Tell me about {thing}.", f"Describe {thing}.", f"Explain what {thing} is.",
                           f"What exactly is {thing}?", f"What's {thing}?", f"Define {thing}."))
    return question


def explain(rng):
    questions, answers = rng.choice(EXPLAIN)
    question = rng.choice(questions)
    if question.endswith("?") and rng.random() < 0.2:
        question = other_wording(rng, question)
    elif question.endswith("?"):
        question = asking(rng, question)
    return question, rng.choice(answers)


def talk(rng):
    said, replies = rng.choice(TALK)
    return rng.choice(said), rng.choice(replies)


SAYS = set("meow woof moo oink baa meh neigh hee-haw cluck quack honk squeak".split())


def animal(rng):
    """A fact about an animal, each column of the table asked for in a few ways."""
    one, many, sound, food, home, legs, baby, colour, fact, group = rng.choice(ANIMALS)
    a = article(one)
    if sound in SAYS:
        noise = f"{capital(a)} says {sound}."
    elif sound == "no sound":
        noise = f"{capital(many)} make almost no sound."
    else:
        noise = f"{capital(many)} {sound}."
    legs_said = f"{capital(a)} has {NUMBERS[int(legs)] if legs != '0' else 'no'} legs."
    kinds = [
        (3, f"[What does {a} say?|What sound does {a} make?|What sound do {many} make?|How does {a} sound?]", noise),
        (3, f"[What do {many} eat?|What does {a} eat?|What do {many} like to eat?|What is the food of {a}?]",
         f"{capital(many)} eat {food}."),
        (3, f"[Where do {many} live?|Where does {a} live?|Where can I find {a}?|What is the home of {a}?]",
         f"{capital(many)} live in {home}."),
        (2, f"[How many legs does {a} have?|How many legs do {many} have?|Does {a} have legs?]", legs_said),
        (2, f"[What is a baby {one} called?|What do you call a baby {one}?|What is the baby of {a} called?|"
            f"What is a young {one} called?]", f"A baby {one} is called {article(baby)}."),
        (2, f"[What colour is {a}?|What color are {many}?|Which colour do {many} have?|What colour are {many}?]",
         f"{capital(many)} are {colour}." if colour != "many colours" else f"{capital(many)} can have many colours."),
        (5, f"[Tell me about {many}.|Tell me a fact about {many}.|Tell me something about {many}.|"
            f"What do you know about {many}?|Give me a fact about {a}.|Say something about {a}.|"
            f"Tell me an animal fact about {a}.|Fun fact about {many}?|Tell me about {a}.]", fact),
        (2, f"[What is {a}?|What are {many}?|What kind of animal is {a}?|What's {a}?|Describe {a}.]",
         f"{capital(a)} is {article('animal' if group == one else group)}. It lives in {home} and eats {food}."),
    ]
    _, question, answer = rng.choices(kinds, [k[0] for k in kinds])[0]
    return asking(rng, expand(rng, question, {})), answer


def colour(rng):
    thing, its = rng.choice(COLOURS)
    question = expand(rng, f"[What colour is {thing}?|What colour is {thing}?|What is the colour of {thing}?|"
                           f"Which colour is {thing}?|What color is {thing}?|Tell me the colour of {thing}.]", {})
    return asking(rng, question), f"{capital(thing)} is {its}."


def opposite(rng):
    row = rng.choice(OPPOSITES)
    first = {r[0]: r[1] for r in reversed(OPPOSITES)}
    word, other = row if rng.random() < 0.6 or row[1] in first else reversed(row)
    other = first.get(word, other)
    quoted = rng.choice((word, word, f'"{word}"', f"'{word}'"))
    question = expand(rng, "[What is the opposite of {w}?|What is the opposite of {w}?|Opposite of {w}|"
                           "Tell me the opposite of {w}.|What's the opposite of {w}?|Give me the opposite of {w}.|"
                           "Which word is the opposite of {w}?|Name the opposite of {w}.|"
                           "What is the opposite of the word {w}?]", {"w": quoted})
    return question, f"The opposite of {word} is {other}."


HARD = "That is too hard for me. I only know sums with small numbers."


def total(rng):
    """A sum or a difference of small numbers; with large ones, that it is too hard."""
    a, b = (rng.randint(0, 10) if rng.random() < 0.6 else rng.randint(1, 5) for _ in "ab")
    minus = rng.random() < 0.35
    if minus and a < b:
        a, b = b, a
    answer = f"{a} {'minus' if minus else 'plus'} {b} is {a - b if minus else a + b}."
    if rng.random() < 0.1:
        a, b, answer = rng.randint(21, 999), rng.randint(11, 999), HARD
    sign = rng.choice(("-", "minus") if minus else ("+", "plus", "and" if rng.random() < 0.2 else "+"))
    said = f"{a} {sign} {b}"
    if answer != HARD and rng.random() < 0.2:
        said = f"{NUMBERS[a]} {'minus' if minus else 'plus'} {NUMBERS[b]}"
    elif rng.random() < 0.25 and sign in "+-":
        said = f"{a}{sign}{b}"
    question = expand(rng, "[What is {s}?|What is {s}?|How much is {s}?|{s}|{s}?|{s} =|Calculate {s}.|What's {s}?|"
                           "Add up: {s}|Can you tell me what {s} is?|What does {s} make?]", {"s": said})
    return question, answer


def sequence(rng):
    """Numbers, days, months and letters in their order."""
    chance = rng.random()
    if chance < 0.4:
        n, step = rng.randint(1, 19), rng.choice((1, -1))
        word = "after" if step > 0 else "before"
        question = expand(rng, f"[What comes {word} {n}?|Which number comes {word} {n}?|What number is {word} {n}?]", {})
        return question, f"{n + step} comes {word} {n}."
    if chance < 0.65:
        names, what = rng.choice(((DAYS, "day"), (MONTHS, "month"), (list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "letter")))
        i, step = rng.randrange(len(names)), rng.choice((1, 1, -1))
        if what == "letter":
            i = min(max(i, 1), 24)
        word, other = "after" if step > 0 else "before", names[(i + step) % len(names)]
        question = expand(rng, f"[What {what} comes {word} {names[i]}?|Which {what} is {word} {names[i]}?|"
                               f"What comes {word} {names[i]}?|What is the {what} {word} {names[i]}?]", {})
        return question, f"{other} comes {word} {names[i]}."
    if chance < 0.8:
        end = rng.choice((3, 5, 8, 10, 10, 10, 12))
        question = expand(rng, "[Count to {n}.|Count to {w}.|Can you count to {n}?|Count from 1 to {n}.]",
                          {"n": end, "w": NUMBERS[end]})
        return question, ", ".join(map(str, range(1, end + 1))) + "."
    a, b = rng.sample(range(21), 2)
    question = expand(rng, f"[Which is bigger, {a} or {b}?|What is more, {a} or {b}?|Is {a} bigger than {b}?|"
                           f"Which number is bigger, {a} or {b}?]", {})
    if question.startswith("Is"):
        return question, f"{'Yes' if a > b else 'No'}, {max(a, b)} is bigger than {min(a, b)}."
    return question, f"{max(a, b)} is bigger than {min(a, b)}."


def category(rng):
    name, members = rng.choice(CATEGORIES)
    members = members.split(", ")
    count = rng.choice((2, 3, 3, 3, 4))
    chosen = rng.sample(members, min(count, len(members)))
    answer = ", ".join(chosen[:-1]) + " and " + chosen[-1]
    number = rng.choice((NUMBERS[count], str(count)))
    question = expand(rng, "[Name {n} {c}.|Tell me {n} {c}.|Give me {n} {c}.|List {n} {c}.|Can you name {n} {c}?|"
                           "What are {n} {c}?]", {"n": number, "c": name})
    return question, f"{capital(answer)}."


def capital_city(rng):
    country, city = rng.choice(CAPITALS)
    question = expand(rng, "[What is the capital of {c}?|What is the capital of {c}?|Capital of {c}|"
                           "What's the capital of {c}?|Which city is the capital of {c}?|Name the capital of {c}.|"
                           "Tell me the capital of {c}.|What is the capital city of {c}?]", {"c": country})
    return asking(rng, question), f"The capital of {country} is {city}."


def rhyme(rng):
    word, others = rng.choice(RHYMES)
    question = expand(rng, "[What rhymes with {w}?|Tell me a word that rhymes with {w}.|Find a rhyme for {w}.|"
                           "Which words rhyme with {w}?|Give me a rhyme for {w}.|Name words that rhyme with {w}.]",
                      {"w": word})
    *most, last = others.split(", ")
    if not most:
        return question, f"{capital(last)} rhymes with {word}."
    return question, f"{capital(', '.join(most))} and {last} rhyme with {word}."


def poem(rng):
    if rng.random() < 0.5:
        x = asked = rng.choice(SLOTS["topic"])
    else:
        kind = made_up(rng) if rng.random() < 0.1 else rng.choice(HEROES["animal"] + HEROES["any"]).replace("_", " ")
        x = f"the {kind}"
        asked = rng.choice((article(kind), article(kind), x))
    text = rng.choice(POEMS).replace("{x}", x).replace("{X}", capital(x))
    order = expand(rng, "[Write a poem about {x}.|Write a poem about {x}.|Write a short poem about {x}.|"
                        "Write me a poem about {x}.|Give me a poem about {x}.|Make a poem about {x}.|"
                        "Tell me a poem about {x}.|Compose a poem about {x}.|Write a little poem about {x}.|"
                        "Say a poem about {x}.|Write a rhyme about {x}.]", {"x": asked})
    if rng.random() < 0.15:
        return expand(rng, "[Poem about {x}|A poem about {x}|I want a poem about {x}.|Poem: {x}]", {"x": asked}), text
    if rng.random() < 0.08:
        return rng.choice(("Write a poem.", "Tell me a poem.", "A poem, please.", "Can you write a poem?")), text
    return politely(rng, order), text


def joke(rng):
    about, text = rng.choice(JOKES)
    plain = "[Tell me a joke.|Tell me a joke.|Do you know a joke?|Make me laugh.|Say something funny.|A joke, please.]"
    named = "[Tell me a joke about {a}.|Do you know a joke about {a}?|A joke about {a}|Write a joke about {a}.]"
    return expand(rng, rng.choice((plain, named)), {"a": article(about)}), text


def riddle(rng):
    text, answer = rng.choice(RIDDLES)
    if rng.random() < 0.4:
        return text, f"{answer}!"
    return rng.choice(("Tell me a riddle.", "Give me a riddle.", "Do you know a riddle?", "Ask me a riddle.")), \
        f"{text} {answer}!"


SORRY = [
    "I do not know that. I am a very small model. Shall I tell you a story?",
    "I am too small to know that. Ask me about animals, colours or words.",
]


def unknown(rng):
    name = rng.choice(NAMES[rng.choice(("he", "she"))])
    word = made_up(rng)
    made = [f"Who is {name} {capital(word)}?", f"What is {article(word)}?", f"What does {word} mean?",
            f"Where is {capital(word)}?", f"What is the capital of {capital(word)}?", f"Who was {capital(word)}?",
            f"When did {name} {capital(word)} live?", f"What do {word}s eat?", f"How do you {word}?",
            f"What is the opposite of {word}?", f"What rhymes with {word}?"]
    return rng.choice(made if rng.random() < 0.4 else UNKNOWN), rng.choice(SORRY)


KINDS = [
    (22, explain), (28, animal), (11, talk), (7, colour), (11, opposite), (14, total), (6, sequence), (3, category),
    (4, capital_city), (3, rhyme), (8, poem), (3, joke), (2, riddle), (4, unknown),
]


def answer(rng):
    """One question and its answer."""
    make = rng.choices([k[1] for k in KINDS], [k[0] for k in KINDS])[0]
    question, text = make(rng)
    return careless(rng, question), text
