//! Rendering equals that of Jinja2 3.1 with the environment of `transformers`, where minijinja's differs. The expected texts are
//! Jinja2's output.

use super::render;

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(render(source).unwrap(), expected, "{source}");
}

#[test]
fn filters_take_what_is_undefined() {
    check(
        "{{ missing|length }} {{ missing|first is defined }} {{ missing|last is defined }} {{ missing|items|list|length }}",
        "0 False False 0",
    );
}

#[test]
fn what_is_no_number_becomes_the_default() {
    check(
        "{{ 'x'|int }} {{ 'x'|int(7) }} {{ 'x'|float }} {{ none|int }} {{ '12'|int }} {{ [1]|int }}",
        "0 7 0.0 0 12 0",
    );
}

#[test]
fn the_percent_sign_formats_a_string() {
    check(
        "{{ 'a%sb%d' % ('x', 3) }} {{ '%s' % 'y' }} {{ '%05.2f' % 1.5 }} {{ 7 % 4 }}",
        "axb3 y 01.50 3",
    );
}

#[test]
fn tests_of_types_are_pythons() {
    check(
        "{{ 'ab' is sequence }} {{ {} is sequence }} {{ [] is sequence }} {{ none is sequence }} {{ 3 is sequence }} {{ missing is sequence }}",
        "True True True False False True",
    );
    check(
        "{{ none is iterable }} {{ 'ab' is iterable }} {{ {} is iterable }} {{ missing is iterable }} {{ namespace() is mapping }} {{ {} is mapping }}",
        "False True True True False True",
    );
}

#[test]
fn indented_texts_keep_their_last_line() {
    check("{{ 'a\nb\n'|indent(2) }}|", "a\n  b\n|");
    check("{{ '\na'|indent(2, first=true) }}|", "  \n  a|");
    check("{{ 'a\n\nb'|indent(2, blank=true) }}|", "a\n  \n  b|");
    check("{{ 'a\\r\\nb'|indent(1) }}|", "a\n b|");
}

#[test]
fn an_undefined_argument_of_a_macro_is_an_argument() {
    check(
        "{% macro f(a=5) %}[{{ a }}]{% endmacro %}{{ f(missing) }}{{ f() }}{{ f(a=missing) }}",
        "[][5][]",
    );
}

#[test]
fn html_is_escaped_as_markupsafe_does() {
    check(
        "{{ '<a href=\"x/y\">\\'&'|escape }}",
        "&lt;a href=&#34;x/y&#34;&gt;&#39;&amp;",
    );
}

#[test]
fn lines_of_the_source_end_with_a_line_feed() {
    check(
        "a\r\nb{% if true %}\r\nc\r\n{% endif %}\r\nd\r\n",
        "a\nbc\nd",
    );
}

/// As in `transformers`, whose filter differs from Jinja2's own.
#[test]
fn arguments_of_tojson_have_an_order() {
    check(
        "{{ {'b': 'é', 'a': 1}|tojson(true) }}",
        "{\"b\": \"\\u00e9\", \"a\": 1}",
    );
    check(
        "{{ {'b': 2, 'a': 1}|tojson(false, 1, none, true) }}",
        "{\n \"a\": 1,\n \"b\": 2\n}",
    );
}

#[test]
fn strings_are_split_and_searched() {
    check(
        "{{ 'a-b-c'.partition('-')|join(' ') }}|{{ 'a-b-c'.rpartition('-')|join(' ') }}|{{ 'a'.partition('-')|join('.') }}|{{ 'abc'.index('c') }}",
        "a - b-c|a-b - c|a..|2",
    );
    assert!(render("{{ 'abc'.index('x') }}").is_err());
}
