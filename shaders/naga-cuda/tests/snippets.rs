//! Small shaders, each for one part of WGSL.

mod support;

use naga_cuda::Options;
use std::path::{Path, PathBuf};
use support::nvrtc::Nvrtc;
use support::{POLICIES, options, takes_all, translate, turn};

fn shaders() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wgsl");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_shader_has_a_translation() {
    let shaders = shaders();
    assert!(shaders.len() >= 15);
    let mut failures = Vec::new();
    for (name, wgsl) in &shaders {
        for policy in POLICIES {
            match translate(wgsl, &options(policy, name, wgsl)) {
                Ok(translation) => assert!(
                    translation.source.contains("extern \"C\" __global__"),
                    "{name}"
                ),
                Err(error) => failures.push(format!("{name} with {policy:?}: {error}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// In an ordinary run with one of the policies and architectures, which is another one for the next shader.
#[test]
fn every_shader_compiles() {
    let Some(nvrtc) = Nvrtc::load() else { return };
    let mut failures = Vec::new();
    for (number, (name, wgsl)) in shaders().iter().enumerate() {
        let pairs = POLICIES.into_iter().zip(["sm_75", "sm_80", "sm_120"]);
        for (at, (policy, architecture)) in pairs.enumerate() {
            if !takes_all() && (number + turn()) % POLICIES.len() != at {
                continue;
            }
            let unbounded = Options {
                bound_loops: policy != POLICIES[0],
                ..options(policy, name, wgsl)
            };
            let compile = |source: &str| nvrtc.compile(source, architecture);
            let result =
                translate(wgsl, &unbounded).and_then(|translation| compile(&translation.source));
            if let Err(error) = result {
                failures.push(format!("{name} on {architecture} with {policy:?}: {error}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
