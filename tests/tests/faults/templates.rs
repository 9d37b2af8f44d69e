//! Chat templates that try to use up memory, time or the stack.

use serde_json::{Map, Value, json};
use wisp_engine::pipelines::chat_template::{ChatTemplate, ChatTemplateError, Message};
use wisp_tests::{fault, sample};

fn conversation() -> Vec<Message> {
    let texts = [("user", "Hi"), ("assistant", "Hello!"), ("user", "Who?")];
    texts.map(|(role, text)| Message::new(role, text)).to_vec()
}

fn render(source: &str) -> Result<String, ChatTemplateError> {
    let source = source.to_owned();
    fault::call_limited(move || {
        let template = ChatTemplate::new(&source, "<s>", "</s>")?;
        template.render(&conversation(), true, &Map::new())
    })
}

/// Checks that each template is stopped by a limit of the work or the size of values.
#[track_caller]
fn assert_limited(sources: &[&str]) {
    for source in sources {
        let error = render(source).expect_err(source);
        let is_limit = matches!(
            error,
            ChatTemplateError::TooManySteps { .. }
                | ChatTemplateError::TooSlow { .. }
                | ChatTemplateError::ValueTooLarge { .. }
                | ChatTemplateError::TooMuchMemory { .. }
                | ChatTemplateError::TooMuchOutput { .. }
        );
        assert!(is_limit, "{source}: {error}");
    }
}

/// Checks a third of the templates in an ordinary run: each runs until it has used up the steps or the time.
#[track_caller]
fn assert_sample_limited(sources: &[&str]) {
    for source in sources {
        if sample::has(source, 0, 3) {
            assert_limited(std::slice::from_ref(source));
        }
    }
}

/// Checks that each template is an error of one line.
#[track_caller]
fn assert_fails(sources: &[&str]) {
    for source in sources {
        let shown = &source[..source.len().min(60)];
        let error = render(source).expect_err(shown).to_string();
        assert!(
            !error.contains('\n') && error.len() < 500,
            "{shown}: {error}"
        );
    }
}

#[test]
fn huge_width_of_a_format_is_refused() {
    assert_limited(&[
        "{{ '{:>9999999999}'.format(3) }}",
        "{{ '{:0>9999999999}'.format(3) }}",
        "{{ '{:09999999999d}'.format(3) }}",
        "{{ '%9999999999d'|format(3) }}",
        "{{ '%-9999999999s'|format('x') }}",
        "{{ 'x\\ny'|indent(9999999999) }}",
        "{{ 'x'|indent(9999999999, true) }}",
        "{{ 'x\\ny'|indent(width='z' * 9999999999) }}",
        "{{ 'x'.ljust(9999999999) }}",
        "{{ 'x'.rjust(9999999999, 'ab') }}",
        "{{ 'x'.center(9999999999) }}",
        "{{ 'x'.zfill(9999999999) }}",
        "{{ messages|tojson(indent=9999999999) }}",
    ]);
    assert_fails(&[
        "{{ '{:.9999999999f}'.format(3.5) }}",
        "{{ '%.9999999999f'|format(3.5) }}",
        "{{ '{:99999999999999999999999}'.format(3) }}",
        "{{ strftime_now('%99999999Y') }}",
        "{{ strftime_now('%Y' * 9999) }}",
    ]);
}

#[test]
fn huge_count_of_items_is_refused() {
    assert_limited(&[
        "{{ [1]|batch(9999999999, 'x')|list|length }}",
        "{{ range(99999)|slice(99999999999)|list|length }}",
        "{{ [1] * 9999999999 }}",
        "{{ 'x' * 9999999999 }}",
        "{{ 'x' * 100000000 ~ 'y' * 100000000 ~ 'z' * 100000000 }}",
        "{{ ('x' * 10000000)|list|length }}",
        "{{ ('x ' * 5000000).split()|length }}",
        "{{ ('x\\n' * 5000000).splitlines()|length }}",
        "{{ [[1]]|map('batch', 9999999, 'x')|list }}",
        "{{ range(999)|zip(*([range(999)] * 9999))|list|length }}",
    ]);
    assert_fails(&["{{ range(100000000) }}", "{{ range(0, 9999999999, 2) }}"]);
}

#[test]
fn text_that_doubles_in_a_loop_is_stopped() {
    let step = |step: &str| {
        format!(
            "{{% set ns = namespace(x='<a\\n') %}}{{% for i in range(99) %}}{step}{{% endfor %}}{{{{ ns.x|length }}}}"
        )
    };
    for doubling in [
        "{% set ns.x = ns.x + ns.x %}",
        "{% set ns.x = ns.x ~ ns.x %}",
        "{% set ns.x = ns.x * 2 %}",
        "{% set ns.x = ns.x.replace('a', 'aaaa') %}",
        "{% set ns.x = ns.x|replace('', 'aa') %}",
        "{% set ns.x = [ns.x, ns.x]|join(ns.x) %}",
        "{% set ns.x = ns.x.join([ns.x, ns.x]) %}",
        "{% set ns.x = '%s%s'|format(ns.x, ns.x) %}",
        "{% set ns.x = '{0}{0}'.format(ns.x) %}",
        "{% set ns.x = ns.x|indent(ns.x|length, true) %}",
        "{% set ns.x = ns.x|tojson|tojson %}",
        "{% set ns.x = [ns.x, ns.x]|string %}",
        "{% set ns.x = ns.x|upper ~ ns.x|title ~ ns.x|capitalize %}",
        "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}",
        "{% set y %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}{% set ns.x = y %}",
        "{% macro m(a) %}{{ a }}{{ a }}{% endmacro %}{% set ns.x = m(ns.x) %}",
        "{% macro m(a) %}{{ caller() }}{{ caller() }}{% endmacro %}{% set y %}{% call m() %}{{ ns.x }}{% endcall %}{% endset %}{% set ns.x = y %}",
    ] {
        assert_limited(&[&step(doubling)]);
    }
}

#[test]
fn list_or_map_that_grows_in_a_loop_is_stopped() {
    assert_limited(&[
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x|chain(ns.x)|list %}{% endfor %}",
        "{% set ns = namespace(x=range(99999)) %}{% for i in range(99) %}{% set ns.x = ns.x|zip(ns.x, ns.x)|list %}{% endfor %}",
        "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = dict(ns.x, **{i|string: 'x' * 999}) %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + ['x' * 999999] %}{% endfor %}",
        "{% for i in range(99999) %}{% set x = namespace(a='x' * 99999) %}{% endfor %}",
    ]);
}

#[test]
fn shared_values_are_not_written_or_compared_without_end() {
    let shared = "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
    for use_of_it in [
        "{{ ns.x }}",
        "{{ ns.x|tojson }}",
        "{{ ns.x|string|length }}",
        "{{ ns.x|pprint|length }}",
        "{{ 'a' ~ ns.x }}",
        "{{ [ns.x]|join|length }}",
        "{{ '%s'|format(ns.x) }}",
        "{{ '{}'.format(ns.x) }}",
        "{{ ns.x == ns.y }}",
        "{{ ns.x < ns.y }}",
        "{{ ns.x in [ns.y] }}",
        "{{ [ns.x, ns.y]|sort|length }}",
        "{{ [ns.x, ns.y]|unique|length }}",
        "{% for i in [ns.x, ns.y] %}{{ loop.changed(i) }}{% endfor %}",
    ] {
        assert_sample_limited(&[&format!("{shared}{use_of_it}")]);
    }
    assert_sample_limited(&[
        "{{ ([[range(999)|list] * 999] * 999)|tojson }}",
        "{{ ([['x' * 9999999] * 999] * 999)|string|length }}",
    ]);
}

#[test]
fn work_on_large_values_is_counted() {
    let list = "{% set x = range(99999)|list %}{% set y = range(1, 99999)|list %}";
    for work in [
        "{% for i in x %}{% set z = x|sort(reverse=true) %}{% endfor %}",
        "{% for i in x %}{{ x|unique|list|length }}{% endfor %}",
        "{% for i in x %}{{ 'a' in x }}{% endfor %}",
        "{% for i in x %}{{ x == x + [] }}{{ x < y }}{% endfor %}",
        "{% for i in x %}{{ x[1:]|length }}{{ x[::-1]|length }}{% endfor %}",
        "{% for i in x %}{{ x|map('string')|join|length }}{% endfor %}",
        "{% for i in x %}{{ x|groupby('a')|length }}{% endfor %}",
        "{% for i in x %}{{ x.count(i) }}{% endfor %}",
        "{{ x|select('in', x)|list|length }}",
    ] {
        assert_sample_limited(&[&format!("{list}{work}")]);
    }
    let text = "{% set x = 'xy' * 5000000 %}{% for i in range(99999) %}";
    for work in [
        "{{ 'yyx' in x }}",
        "{{ x == x ~ '' }}",
        "{{ x.find('yy') }}{{ x.count('yyx') }}",
        "{{ x[5] }}{{ x|length }}",
        "{% set y = x.strip('abcdefyx') %}",
        "{% set y = x|upper|lower|title %}",
        "{% set y = x.split('yy') %}",
        "{% set y = x|replace('yy', '') %}",
        "{{ x.isalpha() }}{{ x is lower }}",
        "{{ [x, x ~ 'a']|sort|length }}",
    ] {
        assert_sample_limited(&[&format!("{text}{work}{{% endfor %}}")]);
    }
    assert_sample_limited(&[
        "{{ (['x' * 9999999] * 99999)|unique|list|length }}",
        "{{ (['x' * 9999999] * 99999)|sort|list|length }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    ]);
}

#[test]
fn recursion_is_stopped() {
    assert_fails(&[
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}",
        "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% macro m() %}{% set x %}{{ 'x' * 10000000 }}{{ m() }}{% endset %}{% endmacro %}{{ m() }}",
    ]);
    assert_limited(&[
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    ]);
    let deep = "{% if true %}".repeat(60) + "{{ m() }}" + &"{% endif %}".repeat(60);
    assert_fails(&[&format!(
        "{{% macro m() %}}{deep}{{% endmacro %}}{{{{ m() }}}}"
    )]);
}

#[test]
fn deep_source_is_refused() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("-", ""),
        ("not ", ""),
        ("f(", ")"),
        ("x[", "]"),
        ("1 if 1 else ", ""),
        ("x|default(", ")"),
        ("x is eq(", ")"),
    ] {
        let source = format!("{{{{ {}1{} }}}}", open.repeat(50_000), close.repeat(50_000));
        assert_fails(&[&source]);
    }
    for (open, close) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for x in y %}", "{% endfor %}"),
        ("{% filter f %}", "{% endfilter %}"),
        ("{% set x %}", "{% endset %}"),
    ] {
        assert_fails(&[&(open.repeat(20_000) + &close.repeat(20_000))]);
    }
    assert_fails(&[&"x".repeat(2 << 20)]);
}

#[test]
fn long_chains_are_no_nesting() {
    let long = |operator: &str| format!("{{{{ 1{} }}}}", operator.repeat(50_000));
    for operator in [
        " + 1", " ~ 1", " == 1", " and 1", "|int", " is odd", " ** 1",
    ] {
        render(&long(operator)).expect(operator);
    }
    let branches = "{% elif false %}b".repeat(50_000);
    assert_eq!(
        render(&format!("{{% if false %}}a{branches}{{% endif %}}")).unwrap(),
        ""
    );
}

#[test]
fn values_nested_by_a_loop_are_refused() {
    for step in [
        "[ns.x]",
        "[[ns.x]]",
        "{'a': ns.x}",
        "ns.x|batch(2)|list",
        "dict(a=ns.x)",
    ] {
        let source = format!(
            "{{% set ns = namespace(x=[1]) %}}{{% for i in range(99999) %}}{{% set ns.x = {step} %}}{{% endfor %}}"
        );
        assert_fails(&[&source]);
    }
    // Namespaces are no nesting, but a chain of them must be dropped without recursion.
    let chain = "{% set r = namespace() %}{% for i in range(99999) %}{% set r.n = namespace(next=r.n) %}{% endfor %}{% set r.n = 0 %}ok";
    assert_eq!(render(chain).unwrap(), "ok");
    assert_fails(&[
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns, ns] %}{{ ns|tojson }}",
    ]);
}

#[test]
fn arithmetic_at_the_ends_of_its_range_is_an_error() {
    let least = "(-170141183460469231731687303715884105727 - 1)";
    for operation in [
        "{} // -1",
        "{} % -1",
        "-{}",
        "{}|abs",
        "{} - 1",
        "{} * 2",
        "9 ** 99 ** 9",
    ] {
        let operation = operation.replace("{}", least);
        assert_fails(&[&format!("{{{{ {operation} }}}}")]);
    }
    assert_fails(&[
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ 1 / 0.0 }}",
        "{{ 0 ** -1 }}",
    ]);
    render("{{ 5 is divisibleby(0) }}{{ 1.5|round(-999999999) }}{{ [1][-99999999999999999999:] }}{{ ['nan'|float, 1, 'a', none, 2.5]|sort }}")
        .unwrap();
}

#[test]
fn deep_message_is_refused() {
    let mut deep = json!(1);
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    let message: Message = serde_json::from_value(json!({"role": "user", "content": ""})).unwrap();
    let mut message = message;
    message.extra.insert("tool_calls".into(), deep);
    let template = ChatTemplate::new("{{ messages }}", "", "").unwrap();
    let error = template.render(&[message], true, &Map::new()).unwrap_err();
    assert!(error.to_string().contains("nested"), "{error}");

    // What a request's JSON can nest is rendered.
    let mut deepest = Value::Null;
    for _ in 0..120 {
        deepest = json!([deepest]);
    }
    let extra = json!({"tools": deepest}).as_object().unwrap().clone();
    let template = ChatTemplate::new("{{ tools|tojson }}{{ tools }}{{ tools == tools }}", "", "");
    assert!(template.unwrap().render(&[], true, &extra).unwrap().len() > 480);
}

#[test]
fn limit_is_told_with_its_line() {
    let error = render("a\n{{ 'x' *\n 9999999999 }}")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("more than") && error.contains("line 2"),
        "{error}"
    );
}

#[test]
fn long_conversation_is_rendered() {
    let messages: Vec<Message> = (0..10_000)
        .map(|index| Message::new(["user", "assistant"][index % 2], "word ".repeat(100)))
        .collect();
    for source in [
        "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}{% endfor %}",
        "{% set ns = namespace(x='') %}{% for m in messages %}{% set ns.x = ns.x + m.content %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m] %}{% endfor %}{% for m in ns.l %}{{ m.content }}{% endfor %}",
        "{{ messages|tojson }}",
    ] {
        let template = ChatTemplate::new(source, "", "").unwrap();
        let messages = messages.clone();
        let prompt = fault::call_limited(move || template.render(&messages, true, &Map::new()));
        assert!(prompt.unwrap().len() > 4_900_000, "{source}");
    }
}
