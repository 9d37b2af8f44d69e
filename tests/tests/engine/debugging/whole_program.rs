//! Debug settings of the whole program, from `WISP_DEBUG`.

use wisp_tests::{
    on_every_device,
    program::{TestDevice, command, run, run_command},
};

fn checks_do_not_change_the_generated_text(place: TestDevice) {
    let args = [
        "generate",
        "--max-new-tokens",
        "6",
        "--temperature",
        "0",
        "--prompt",
        "Once upon",
    ];
    let args = [&args[..], &place.args()].concat();
    let plain = run(&args).succeeded().stdout;
    let mut checked = command(&args);
    checked.env("WISP_DEBUG", "nan-check,uninitialised,sync,assert=all");
    assert_eq!(run_command(checked, "").succeeded().stdout, plain);
}

on_every_device!(checks_do_not_change_the_generated_text);

#[test]
fn wisp_debug_is_read_and_a_wrong_setting_is_refused() {
    let args = [
        "generate",
        "--device",
        "host",
        "--max-new-tokens",
        "1",
        "--tokens",
        "1,2",
    ];
    let mut logged = command(args);
    logged.env("WISP_DEBUG", "op-log");
    let run = run_command(logged, "").succeeded();
    assert!(run.stderr.contains("op: decoder 1/"), "{}", run.stderr);
    let mut wrong = command(args);
    wrong.env("WISP_DEBUG", "nan-check,fast");
    let said = run_command(wrong, "").failed("a wrong variable");
    assert!(
        said.contains("WISP_DEBUG: the debug setting \"fast\": there are nan-check[=STRIDE], uninitialised, sync, op-log"),
        "{said}"
    );
}
