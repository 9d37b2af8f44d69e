//! Rendering equals that of minijinja, another implementation of Jinja, where both follow Python.

use std::collections::BTreeMap;

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value, json};

use crate::chat_template::{ChatTemplate, Message};

/// The variables of the templates below, but for the messages.
fn extra() -> Map<String, Value> {
    let variables = json!({
        "d": {"a": 2, "b": 1, "c": {"x": [1, 2]}},
        "l": [3, 1, 2],
        "s": "héllo wörld, Über\n  two\n\nlines ",
        "rows": [{"n": "b", "v": 2}, {"n": "A", "v": 1}, {"n": "c"}],
    });
    variables.as_object().unwrap().clone()
}

fn messages() -> Vec<Message> {
    let turns = [
        ("system", "Be brief."),
        ("user", "Hi <b>"),
        ("assistant", " Hello! "),
    ];
    turns.map(|(role, text)| Message::new(role, text)).to_vec()
}

/// Converts JSON. The library's own conversion depends on the features of `serde_json`.
fn value(json: &Value) -> minijinja::Value {
    match json {
        Value::Null => ().into(),
        Value::Bool(bool) => (*bool).into(),
        Value::Number(number) => match number.as_i64() {
            Some(int) => int.into(),
            None => number.as_f64().unwrap().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(value).collect(),
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, json)| (key.clone(), value(json)));
            minijinja::Value::from_object(entries.collect::<BTreeMap<String, _>>())
        }
    }
}

fn reference(source: &str) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    let mut syntax = environment.syntax().to_builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    let mut context = extra();
    context.insert("messages".into(), serde_json::to_value(messages()).unwrap());
    environment.render_str(source, value(&Value::Object(context)))
}

#[track_caller]
fn assert_same(sources: &[&str]) {
    for source in sources {
        let rendered = ChatTemplate::new(source, "", "")
            .and_then(|template| template.render(&messages(), false, &extra()));
        match (reference(source), rendered) {
            (Ok(expected), Ok(rendered)) => assert_eq!(rendered, expected, "{source}"),
            (Err(_), Err(_)) => {}
            (expected, rendered) => panic!("{source}: {rendered:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn white_space_is_trimmed_as_in_jinja() {
    assert_same(&[
        "a\n  {% if true %}\n  x\n  {% endif %}\ny\n",
        "a\n  {%+ if true +%}\n  x\n  {%- endif -%}\n y\n\n",
        "x   {{- 'a' -}}   b {#- comment -#} c\n  {# d #}\ne",
        "a {% raw -%}  {{ x }} {% y %} {%- endraw %} b\n{% raw %}\n{{\n{% endraw %}\n",
        "{% for x in l %}\n    {% if loop.first %}\n{{ x }}\n    {% endif %}\n{% endfor %}\n",
        "{{ {'a': {}}|length }}{{ '}}' }}{{ \"{%\" }}",
    ]);
}

#[test]
fn operators_and_precedence_are_those_of_jinja() {
    assert_same(&[
        "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 3 ** 2 }}",
        "{{ 'a' ~ 1 + 2 ~ 'b' }} {{ 'ab' * 3 }} {{ 1 < 2 < 3 and not 3 < 2 }} {{ 'x' if false }}",
        "{{ 'a' in 'abc' }} {{ 1 not in l }} {{ 'b' in d }} {{ missing or 'y' }} {{ 'q' and 0 }}",
        "{{ -1|abs }} {{ not missing }} {{ 1 if 0 else 2 if 0 else 3 }} {{ l[0] ~ l[-1] ~ d['c'].x[1] }}",
        "{{ s[1:4] }}{{ s[-3:] }}{{ s[::-1] }}{{ s[::2] }}{{ (l[1:] + l[:-1])|join(',') }}{{ l[::-1]|join }}",
        "{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ l == [3, 1, 2] }} {{ d == {} }} {{ none == missing }}",
        "{{ 1 + 'a' }}",
        "{{ missing.a }}",
        "{{ none.a is defined }}",
        "{{ l.a is defined }}",
    ]);
}

#[test]
fn filters_are_those_of_jinja() {
    assert_same(&[
        "{{ s|upper }}{{ s|lower }}{{ s|title }}{{ s|capitalize }}{{ s|trim }}{{ s|length }}{{ s|reverse }}",
        "{{ s|indent }}|{{ s|indent(2, true) }}|{{ s|indent(width=1, blank=true) }}|{{ s|replace('l', 'L') }}",
        "{{ l|sort|join(',') }}{{ l|sort(reverse=true)|first }}{{ l|min }}{{ l|max }}{{ l|sum }}{{ l|last }}",
        "{{ rows|sort(attribute='n')|map(attribute='n')|join }}{{ rows|map(attribute='v', default='-')|join }}",
        "{{ rows|selectattr('v')|map(attribute='n')|join }}{{ rows|rejectattr('v', 'eq', 2)|list|length }}",
        "{{ l|select('gt', 1)|join }}{{ l|reject('odd')|join }}{{ rows|groupby('n')|map('first')|join }}",
        "{% for g, items in rows|groupby('n') %}{{ g }}{{ items|length }}{% endfor %}",
        "{{ l|batch(2, 0)|map('join', '-')|join('|') }}{{ l|slice(2, 'f')|map('join', '-')|join('|') }}",
        "{{ ['a', 'A', 'b']|unique|join }}{{ d|dictsort|map('first')|join }}{{ d|items|map('first')|join }}",
        "{{ l|zip('abc')|map('join')|join(' ') }}{{ l|chain([9])|join }}{{ missing|default('x') }}{{ ''|d('y', true) }}",
        "{{ 3.7|int }}{{ '42'|int + 1 }}{{ 'x'|int(5) }}{{ '3.5'|float }}{{ 3.14159|round(2) }}{{ 42.55|round(1, 'floor') }}",
        "{{ '%s is %d, %.2f, %5s|%-5s|%05d, %x %%'|format('a', 3, 2.5, 'r', 'l', 42, 255) }}{{ '<a>'|e }}",
    ]);
}

#[test]
fn methods_are_those_of_python() {
    assert_same(&[
        "{{ s.upper() }}{{ s.title() }}{{ s.strip() }}{{ 'xxyx'.strip('x') }}{{ 'xy'.lstrip('x') }}{{ 'yx'.rstrip('x') }}",
        "{{ 'a,b,,c'.split(',')|join(';') }}{{ ' a b  c'.split()|join(';') }}{{ 'a b c'.split(none, 1)|join(';') }}",
        "{{ 'aaaa'.replace('a', 'b', 2) }}{{ 'abc'.find('c') }}{{ 'abca'.rfind('a') }}{{ 'aXbX'.count('X') }}",
        "{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('c') }}{{ 'a\nb\n'.splitlines()|join('+') }}{{ '-'.join('abc') }}",
        "{{ '{} {1}'.format(1) }}",
        "{{ '{0}{1}{0} {{}}'.format('x', 'y') }}{{ '{a.b}'.format(a={'b': 3}) }}",
        "{{ '{a:>5}|{b:<5}|{c:^5}|{d:05d}|{e:.2f}|{f:,}|{g:+}'.format(a='x', b='y', c='z', d=42, e=3.14159, f=1234567, g=3) }}",
        "{{ '{:e} {:g} {:b} {:#x} {:*^9}'.format(12345.678, 0.0001, 5, 255, 'mid') }}",
        "{% for k, v in d.items() %}{{ k }}{% endfor %}{{ d.keys()|join }}{{ d.get('b') }}{{ d.get('z', 7) }}{{ d.get('z') is none }}",
        "{{ 'a1'.isdigit() }}{{ '12'.isdigit() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}{{ 'aB'.islower() }}",
        "{{ 'a'.nothing() }}",
    ]);
}

#[test]
fn statements_are_those_of_jinja() {
    assert_same(&[
        "{% for x in l if x != 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.revindex0 }}{{ loop.previtem }}{{ x }}{{ loop.nextitem }}{% else %}-{% endfor %}",
        "{% for x in [] %}a{% else %}empty{% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}{% for x in missing %}a{% else %}b{% endfor %}",
        "{% for x in l %}{{ loop.changed(x > 1) }}{{ loop.cycle('a', 'b') }}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% break %}",
        "{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ x.n }}{{ loop.depth }}({{ loop(x.c) }}){% endfor %}",
        "{% for x in l %}{% set outer = loop %}{% for y in l %}{{ outer.index }}{{ loop.last }}{% endfor %}{% endfor %}{{ outer is defined }}",
        "{% set ns = namespace(x=1) %}{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% set ns.x = ns.x + i %}{% endfor %}{{ x }}{{ ns.x }}",
        "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}{% set x | upper %}hi {{ a }}{% endset %}{{ x }}{% with a = 5 %}{{ a }}{% endwith %}{{ a }}",
        "{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}",
        "{% macro m() %}<{{ caller('z') }}>{% endmacro %}{% call(q) m() %}hi{{ q }}{% endcall %}{% filter upper %}abc{% endfilter %}",
        "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}{% set v = 1 %}{% macro g() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ g() }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(y=2) }}",
        "{% set a, b = l %}",
        "{% if x is defined %}a{% elif l is iterable and l is not string and d is mapping %}b{% else %}c{% endif %}{% block b %}in{% endblock %}",
        "{% set s2 = '' %}{% set s2 = s2 ~ 'a' %}{% set t = s2 ~ 'b' %}{% set u = s2 ~ 'c' %}{{ s2 }}{{ t }}{{ u }}",
    ]);
}
