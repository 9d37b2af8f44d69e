"""Little stories: a hero, a friend and one of the plots of corpus/plots.txt, told or asked for."""

from dataclasses import dataclass

from language import article, capital, careless, expand, lines, made_up, politely, table

NAMES = {row[0]: row[1].split() for row in table("names.tsv")}
HEROES = {row[0]: row[1].split() for row in table("heroes.tsv")}
SLOTS = {row[0]: row[1].split("|") for row in table("slots.tsv")}
PRONOUNS = {"he": ("he", "him", "his"), "she": ("she", "her", "her")}


def read_plots():
    """Each plot as its themes, whether its thing may be asked for, and its sentences."""
    plots = []
    for line in lines("plots.txt"):
        if line.startswith("## "):
            themes, _, slot = line[3:].partition(" + ")
            plots.append((themes.split("; "), slot, []))
        else:
            plots[-1][2].append(line)
    return plots


PLOTS = read_plots()


@dataclass
class Being:
    """Somebody in a story."""

    kind: str
    name: str
    gender: str

    def slots(self, kind, name, prefix):
        """The names under which templates know this being."""
        he, him, his = PRONOUNS[self.gender]
        out = {kind: self.kind, name: self.name, prefix + "he": he, prefix + "him": him, prefix + "his": his}
        return out | {capital(k): capital(v) for k, v in out.items() if k.endswith(("he", "him", "his"))}


def being(rng, people=True):
    """Somebody by chance; one in thirty is of a kind that nobody has heard of."""
    chance = rng.random()
    gender = rng.choice(("he", "she"))
    if chance < 0.03:
        kind = made_up(rng)
    elif chance < 0.62 or not people:
        kind = rng.choice(HEROES["animal"])
    elif chance < 0.82:
        kind = rng.choice(HEROES["any"])
    else:
        kind = rng.choice(HEROES[gender])
    return Being(kind.replace("_", " "), rng.choice(NAMES[gender]), gender)


OPENINGS = [
    "Once upon a time, there was {a_hero} named {name}.",
    "Once upon a time there was {a_hero}. {His} name was {name}.",
    "Once upon a time, {a_hero} named {name} lived {place}.",
    "Once upon a time, {place}, there lived {a_hero} called {name}.",
    "There was once {a_hero} named {name} who lived {place}.",
    "Once there was {a_hero}. {His} name was {name}, and {he} lived {place}.",
    "{Place} there lived {a_hero} named {name}.",
    "{name} was {a_hero}. {He} lived {place}.",
    "{name} the {kind} lived {place}.",
    "Long ago there lived {a_hero} called {name}.",
    "This is the story of {name}, {a_hero}.",
    "Far away, {place}, lived {name} the {kind}.",
    "{A_hero} named {name} lived {place}.",
    "In a land far away there lived {a_hero} named {name}.",
    "There once was {a_hero} who loved {food}. {His} name was {name}.",
    "Once upon a time there was {a_hero} who lived {place}. Everybody called {him} {name}.",
    "One day, {a_hero} named {name} went out to play.",
    "One sunny morning, {a_hero} called {name} went for a walk.",
    "{time}, {a_hero} sat {spot}. {His} name was {name}.",
    "The {kind} was {adj}. {His} name was {name}, and {he} lived {place}.",
    "The {adj} {kind} {name} lived {place}.",
    "Deep in the forest there lived {a_hero} named {name}.",
    "In a small village there lived {a_hero} called {name}.",
    "There was a {kind} named {name}. {He} was very {adj}.",
    "Once there lived {a_hero} named {name} {place}.",
    "{name} the {adj} {kind} lived {place}.",
]
ENDS = [" The end.", "", "", ""]


@dataclass
class Story:
    """A story and what a request for it may name."""

    text: str
    hero: Being
    friend: Being
    adjective: str
    themes: list


def story(rng):
    hero, friend = being(rng), being(rng, people=False)
    while friend.kind == hero.kind or friend.name == hero.name:
        friend = being(rng, people=False)
    slots = {key: rng.choice(values) for key, values in SLOTS.items()}
    slots |= hero.slots("kind", "name", "") | friend.slots("fk", "f", "f")
    adjective = slots["adj"]
    slots["Place"] = capital(slots["place"])
    slots["a_hero"] = article(f"{adjective} {hero.kind}")
    slots["A_hero"] = capital(slots["a_hero"])
    themes, named, sentences = rng.choice(PLOTS)
    text = " ".join(expand(rng, s, slots) for s in [rng.choice(OPENINGS), *sentences])
    themes = [t.format(**slots) for t in themes]
    if named:
        themes.append(slots[named] if named in ("food", "skill") else article(slots[named]))
    return Story(text + rng.choice(ENDS), hero, friend, adjective, themes)


ORDERS = [
    "Tell me a story about {x}.", "Tell me a story about {x}.", "Tell me a story about {x}.",
    "Write a story about {x}.", "Write a short story about {x}.", "Tell a story about {x}.",
    "Tell me a short story about {x}.", "Tell me a bedtime story about {x}.", "Make up a story about {x}.",
    "Give me a story about {x}.", "Write me a little story about {x}.", "Tell me about {x} in a story.",
    "Tell me a tale about {x}.", "Invent a story about {x}.", "Write a children's story about {x}.",
    "Read me a story about {x}.", "Tell us a nice story about {x}.", "Tell me a little story about {x}.",
]
WISHES = [
    "A story about {x}", "Story about {x}", "I want a story about {x}.", "I would like a story about {x}.",
    "Do you know a story about {x}?", "Story: {x}", "I'd like to hear a story about {x}.",
    "How about a story about {x}?", "Let's have a story about {x}.", "Now a story about {x}.",
]
PLAIN = [
    "Tell me a story.", "Tell me a bedtime story.", "Write a story.", "Tell me a short story.",
    "I want a story.", "Tell me something.", "A story, please.", "Can I have a story?", "Make up a story.",
    "I would like to hear a story.", "Tell a story.", "Entertain me.", "Tell me a fairy tale.", "Story time!",
]


def subject(rng, s):
    """What the request says that the story is about."""
    kind, name = s.hero.kind, s.hero.name
    forms = [
        (40, article(kind)), (6, article(f"{s.adjective} {kind}")), (10, f"{article(kind)} named {name}"),
        (5, f"{article(kind)} called {name}"), (5, f"{name} the {kind}"), (2, f"the {kind}"), (2, kind),
        (10, f"{article(kind)} and {article(s.friend.kind)}"), (20, rng.choice(s.themes)), (4, name),
        (3, f"{name} and {s.friend.name}"), (8, f"{article(kind)} and {rng.choice(s.themes)}"),
        (3, f"{article(kind)} and {rng.choice(s.themes)}"),
    ]
    return rng.choices([f for _, f in forms], [w for w, _ in forms])[0]


def request(rng):
    """A request for a story, and the story."""
    s = story(rng)
    chance = rng.random()
    if chance < 0.1:
        asked = politely(rng, rng.choice(PLAIN))
    elif chance < 0.82:
        asked = politely(rng, rng.choice(ORDERS).format(x=subject(rng, s)))
    else:
        asked = rng.choice(WISHES).format(x=subject(rng, s))
    return careless(rng, asked), s.text
