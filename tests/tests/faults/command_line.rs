//! Closed pipes, full disks and wrong arguments.

use wisp_tests::fault;

#[test]
fn missing_model_file_is_named() {
    let run = fault::run_limited(["info", "/nowhere/model.gguf"]);
    let message = run.failed("a model that does not exist");
    assert!(message.contains("/nowhere/model.gguf"), "{message}");
}
