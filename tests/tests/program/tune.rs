//! `wisp tune`: measures kernels, remembers the fastest, and changes no token.

use std::path::Path;

use serde_json::Value;
use wisp_tests::program::{Run, TestDevice, command, run, run_command};

/// Runs the program with a cache in a folder.
fn with_cache(args: &[&str], folder: &Path) -> Run {
    let mut command = command(args);
    command.env("WISP_CACHE_DIR", folder);
    run_command(command, "")
}

fn points(report: &Value) -> &[Value] {
    report["points"].as_array().expect("points")
}

/// The measured variant of a point with this kernel.
fn variant<'a>(point: &'a Value, kernel: &Value) -> Option<&'a Value> {
    let mut variants = point["variants"].as_array()?.iter();
    variants.find(|variant| variant["kernel"] == *kernel)
}

#[test]
fn a_software_adapter_is_tuned_and_generates_the_same_tokens() {
    if !TestDevice::Vulkan.is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tune = ["tune", "--json", "--device", "vulkan", "--time-limit", "15"];
    let first = with_cache(&tune, folder.path()).json();
    for op in ["matmul.", "attention.", "rms_norm", "sample"] {
        let has_op = |point: &Value| point["op"].as_str().unwrap().contains(op);
        assert!(points(&first).iter().any(has_op), "{op}: {first}");
    }
    for point in points(&first) {
        for variant in point["variants"].as_array().unwrap() {
            assert_eq!(variant["problem"], Value::Null, "{point}");
            assert!(variant["error"].as_f64().is_some(), "{point}");
        }
        if point["chosen"] != point["default"] {
            // Points of one shape and number of rows get one kernel: faster for one of them, and slower for none.
            let keys = ["op", "cols", "width", "rows"];
            let is_same = |other: &&Value| keys.iter().all(|key| other[key] == point[key]);
            let same = points(&first).iter().filter(is_same);
            let ratios = same
                .filter(|other| other["is_complete"] == true)
                .map(|other| {
                    let ratio = &variant(other, &point["chosen"]).unwrap()["ratio"];
                    ["ratio", "noise"].map(|key| ratio[key].as_f64().unwrap())
                });
            let ratios: Vec<_> = ratios.collect();
            let is_faster = |[ratio, noise]: &[f64; 2]| ratio + noise < 1.0;
            let is_slower = |[ratio, noise]: &[f64; 2]| ratio - noise > 1.0;
            assert!(ratios.iter().any(is_faster), "{point} {ratios:?}");
            assert!(!ratios.iter().any(is_slower), "{point} {ratios:?}");
        }
    }
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".tuning")).count(), 1);

    // A second run chooses the same kernels, or measures the others with their noise.
    let tune = ["tune", "--json", "--device", "vulkan", "--time-limit", "3"];
    let second = with_cache(&tune, folder.path()).json();
    for point in points(&first) {
        let keys = ["op", "cols", "width", "rows", "sizes"];
        let is_same = |other: &&Value| keys.iter().all(|key| other[key] == point[key]);
        let Some(again) = points(&second).iter().find(is_same) else {
            continue;
        };
        assert_eq!(again["default"], point["default"]);
        for kernel in [&point["chosen"], &again["chosen"]] {
            let measured = [point, again].map(|point| variant(point, kernel));
            let is_measured = |variant: Option<&Value>| {
                variant.is_none_or(|variant| variant["ratio"]["noise"].as_f64().is_some())
            };
            assert!(measured.into_iter().all(is_measured), "{point} {again}");
        }
    }

    assert_eq!(tokens(folder.path(), "auto"), tokens(folder.path(), "off"));
}

/// Generates tokens on the software adapter with a tuning.
fn tokens(folder: &Path, tuning: &str) -> Value {
    let args = "generate --json --device vulkan --tokens 1,2,3 -n 24 --ignore-eos --tuning";
    let args: Vec<&str> = args.split(' ').chain([tuning]).collect();
    let tokens = with_cache(&args, folder).json()["tokens"].clone();
    assert_eq!(tokens.as_array().unwrap().len(), 24);
    tokens
}

#[test]
fn a_tuning_selects_kernels_and_changes_no_token() {
    if !TestDevice::Vulkan.is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuning.json");
    let path = file.to_str().unwrap();
    let tune = "tune --json --device vulkan --time-limit 4 --out";
    let tune: Vec<&str> = tune.split(' ').chain([path]).collect();
    let report = with_cache(&tune, folder.path()).json();
    // The baseline in place of the default, which is faster.
    let is_product = |point: &&Value| point["op"].as_str().unwrap().starts_with("matmul.");
    let product = points(&report).iter().find(is_product).expect("a product");
    let kernel = format!("{}.baseline", product["op"].as_str().unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    let mut tuning: Value = serde_json::from_str(&text).unwrap();
    tuning["tuning"]["calls"] = serde_json::json!([{
        "shape": { "op": product["op"], "cols": product["cols"], "width": product["width"] },
        "kernels": [{ "name": kernel, "max_rows": u32::MAX }],
    }]);
    std::fs::write(&file, tuning.to_string()).unwrap();
    let uses_kernel = |tuning: &str| {
        let args = [
            "warm-cache",
            "--json",
            "--device",
            "vulkan",
            "--tuning",
            tuning,
        ];
        let programs = with_cache(&args, folder.path()).json()["programs"].to_string();
        programs.contains(&format!("{kernel:?}"))
    };
    assert!(uses_kernel(path) && !uses_kernel("off"));
    assert_eq!(tokens(folder.path(), path), tokens(folder.path(), "off"));
}

#[test]
fn the_host_has_nothing_to_tune_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_cache(&["tune", "--device", "host"], folder.path()).succeeded();
    assert!(
        table.stdout.contains("nothing to choose"),
        "{}",
        table.stdout
    );
    assert!(
        table.stderr.contains("the defaults stay"),
        "{}",
        table.stderr
    );
}

#[test]
fn a_cache_that_keeps_nothing_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for command in ["tune", "warm-cache"] {
        let args = [command, "--device", "host"];
        let error = with_cache(&args, &file).failed("a cache folder that is a file");
        for words in ["cannot be written", "WISP_CACHE_DIR", "--out"] {
            assert!(error.contains(words), "{error}");
        }
    }
    let out = folder.path().join("out");
    let args = "warm-cache --json --device host --out";
    let args: Vec<&str> = args.split(' ').chain([out.to_str().unwrap()]).collect();
    assert_eq!(with_cache(&args, &file).json()["cache"], Value::Null);
}

#[test]
fn tunings_in_files_are_used_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.json");
    let path = file.to_str().unwrap();
    run(["tune", "--device", "host", "--out", path]).succeeded();
    let generate = |tuning: &str| {
        run([
            "generate", "--device", "host", "--tokens", "1,2", "-n", "2", "--tuning", tuning,
        ])
    };
    generate(path).succeeded();
    // Only a tuning is replaced.
    run(["tune", "--device", "host", "--out", path]).succeeded();
    let text = std::fs::read_to_string(&file).unwrap();
    for (contents, problem) in [
        ("{}", "it is no tuning"),
        ("[[[[", "it is no tuning"),
        (
            &text.replace("\"format\":1", "\"format\":9"),
            "run `wisp tune` again",
        ),
    ] {
        std::fs::write(&file, contents).unwrap();
        let error = generate(path).failed(problem);
        assert!(error.contains("host.json"), "{error}");
    }
    std::fs::write(&file, "my notes").unwrap();
    run(["tune", "--device", "host", "--out", path]).failed("host.json");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes");
    generate("missing.json").failed("missing.json");
}
