//! Compiling for targets that are not attached.

use wisp_engine::{
    compiler::{Target, TargetError},
    device::Capabilities,
    session::CompiledModule,
};
use wisp_tests::{
    program::{TestDevice, run},
    sample,
};

use super::{compiled, generate, graph};

#[test]
fn a_target_without_the_limits_of_a_program_is_refused_with_each_of_them() {
    for (target, _) in Target::all() {
        let module = CompiledModule::compile(&[graph()], &target).unwrap();
        assert_eq!(module.models().len(), 1, "{}", target.name);
    }
    // A device whose limits are too low for the program.
    let poor = Target {
        capabilities: Capabilities {
            max_workgroup_invocations: 32,
            max_binding_bytes: 100,
            ..Capabilities::BASELINE
        },
        ..Target::named("browser").unwrap()
    };
    let program = compiled().program().clone();
    let error = poor.check(&program).unwrap_err();
    assert!(matches!(&error, TargetError::Refused { problems, .. } if problems.len() > 3));
    let error = error.to_string();
    for words in [
        "browser cannot run ",
        "rms_norm",
        "invocations of a workgroup, there are 32",
        "table (",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn models_compiled_for_any_target_run_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let expected = generate(TestDevice::Host, &[]).json();
    for target in ["browser", "baseline", "vulkan", "metal", "dx12", "gl"] {
        let path = folder.path().join(target);
        let path = path.to_str().unwrap();
        let json = run(["warm-cache", "--target", target, "--out", path, "--json"]).json();
        assert_eq!(json["programs"][0]["name"], "decoder");
        assert_eq!(json["target"], target);
        // The host has a twin of every kernel.
        let flags = ["--serialized-model-path", path];
        assert_eq!(
            generate(TestDevice::Host, &flags).json()["tokens"],
            expected["tokens"]
        );
        if sample::has(target, 0, 3) && TestDevice::VulkanBaseline.is_available() {
            let tokens = generate(TestDevice::VulkanBaseline, &flags).json();
            assert_eq!(tokens["tokens"], expected["tokens"]);
        }
    }
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for (target, words) in [("sm_10", "cuda"), ("toaster", "browser, baseline")] {
        let line = run(["warm-cache", "--target", target, "--out", out]).failed(target);
        assert!(line.contains(words), "{line}");
    }
    let line = run(["warm-cache"]).failed("no folder");
    assert!(line.contains("WISP_CACHE_DIR"), "{line}");
}
