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

#[test]
fn escapes_are_pythons() {
    check(
        r"{{ '\/' }}{{ '\101\60' }}{{ '\8' }}{{ '\x41\0!'|length }}{{ '\033[1m'|length }}",
        "\\/A0\\834",
    );
}

#[test]
fn filters_take_arguments_by_their_place() {
    check(
        "{% for k, v in {'b': 1, 'A': 2}|dictsort(true) %}{{ k }}{{ v }}{% endfor %} {% for k, v in {'b': 1, 'A': 2}|dictsort(false, 'value', true) %}{{ k }}{{ v }}{% endfor %}",
        "A2b1 A2b1",
    );
    check(
        "{{ ['b', 'A', 'a']|sort(true, true) }}{{ ['a', 'A']|unique(true)|list }}{{ ['b', 'A']|min(true) }}",
        "['b', 'a', 'A']['a', 'A']A",
    );
    check(
        "{{ [{'n': 'b'}, {'n': 'a'}]|sort(false, false, 'n')|map(attribute='n')|join }}",
        "ab",
    );
}

#[test]
fn parts_of_strings_are_searched() {
    check(
        "{{ 'abcabc'.find('a', 1) }} {{ 'abcabc'.find('c', 0, 2) }} {{ 'äbcabc'.rfind('a', -3) }} {{ 'abc'.find('', 3) }} {{ 'abab'.count('a', 1) }}",
        "3 -1 3 3 1",
    );
    check(
        "{{ 'abcab'.rindex('a') }} {{ 'a  b'.rsplit()|join('-') }} {{ 'aBc'.casefold() }}",
        "3 a-b abc",
    );
}

#[test]
fn words_are_counted_cut_and_written_large() {
    check(
        "{{ \"get_weather o'neil 3d\".title() }}|{{ 'get_weather now'|title }}",
        "Get_Weather O'Neil 3D|Get_weather Now",
    );
    check(
        "{{ 'a b_c, d-e!'|wordcount }}|{{ 'ab'|center(5) }}|",
        "4|  ab |",
    );
    check(
        "{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar baz qux'|truncate(11) }}|{{ 'foo bar baz qux'|truncate(11, false, '…', 0) }}",
        "foo...|foo ba...|foo bar baz qux|foo bar…",
    );
}

#[test]
fn loops_run_over_tuples_without_parentheses() {
    check(
        "{% for x in 1, 2, 3 if x != 2 %}{{ x }}{% endfor %}{% for x in 'a', %}{{ x }}{% endfor %}",
        "13a",
    );
}
