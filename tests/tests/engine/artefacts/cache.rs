//! The cache of compiled programs on disk.

use std::path::Path;

use wisp_tests::{
    bundled, on_every_device,
    program::{Run, TestDevice, command, run, run_command},
};

/// Runs the program with a cache directory.
fn with_cache(args: &[&str], cache: &Path) -> Run {
    let mut command = command(args);
    command.env("WISP_CACHE_DIR", cache);
    run_command(command, "")
}

fn a_second_start_compiles_nothing(place: TestDevice) {
    let folder = tempfile::tempdir().unwrap();
    let programs = bundled::programs(place);
    let args = [
        &["generate", "--json", "--tokens", "0,5", "-n", "4"][..],
        &place.args(),
    ]
    .concat();
    let start = |args: &[&str]| {
        let json = with_cache(args, folder.path()).json();
        let start = &json["timings"]["start"];
        let counts = ["programs_compiled", "programs_cached"].map(|name| start[name].clone());
        (json["tokens"].clone(), counts)
    };
    let (tokens, counts) = start(&args);
    assert_eq!(counts, [programs, 0]);
    let (again, counts) = start(&args);
    assert_eq!((&again, counts), (&tokens, [0.into(), programs.into()]));
    // A prompt of another length uses the same programs.
    let longer = [
        &["generate", "--json", "--tokens", "0,5,6,7", "-n", "9"][..],
        &place.args(),
    ]
    .concat();
    assert_eq!(start(&longer).1, [0, programs]);
    // Damaged files are replaced.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
    let (again, counts) = start(&args);
    assert_eq!((&again, counts), (&tokens, [programs.into(), 0.into()]));
    assert_eq!(start(&args).1, [0, programs]);
    // `warm-cache` writes to the same folder.
    let warm = [&["warm-cache", "--json"][..], &place.args()].concat();
    let json = with_cache(&warm, folder.path()).json();
    assert_eq!(json["cache"], folder.path().to_str().unwrap());
}
on_every_device!(a_second_start_compiles_nothing);

/// Programs for GPUs and for software adapters are different, so each class compiles its own.
#[test]
fn classes_of_kernels_do_not_share_programs() {
    if !TestDevice::Vulkan.is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |class: &str| {
        let args = [
            "generate",
            "--json",
            "--tokens",
            "0,5",
            "-n",
            "4",
            "--device",
            "vulkan",
            "--device-class",
        ];
        let json = with_cache(&[&args[..], &[class]].concat(), folder.path()).json();
        let device = json["device"].as_str().unwrap().to_string();
        (
            json["timings"]["start"]["programs_compiled"].clone(),
            json["tokens"].clone(),
            device,
        )
    };
    let (of_gpu, of_software) = (start("gpu"), start("software"));
    // That of a GPU has one more, which fills in the tokens of batches that are ahead.
    assert_eq!([&of_gpu.0, &of_software.0], [3, 2]);
    assert_eq!(of_gpu.1, of_software.1);
    for class in ["gpu", "software"] {
        assert_eq!(start(class).0, 0, "{class}");
    }
    // The class is named where it is not the adapter's own.
    let posing = [&of_gpu.2, &of_software.2].map(|device| device.contains(", class "));
    assert_ne!(posing[0], posing[1], "{of_gpu:?}, {of_software:?}");
}

#[test]
fn processes_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "generate", "--json", "--tokens", "0,5", "-n", "4", "--device", "host",
    ];
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| with_cache(&args, folder.path()).json()["tokens"].clone()))
            .collect();
        let tokens: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert!(tokens.iter().all(|own| *own == tokens[0]));
    });
    // No partial file is left.
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.ends_with(".program")));
}

#[test]
fn bench_reports_a_cold_and_a_cached_start() {
    let args = [
        "bench", "--json", "--device", "host", "-p", "4", "-n", "2", "-r", "1",
    ];
    let starts = run(args).json()["starts"].clone();
    assert_eq!(starts["first"]["programs_compiled"], 2);
    assert_eq!(starts["second"]["programs_compiled"], 0);
    assert_eq!(starts["second"]["programs_cached"], 2);
}
