//! Shell completions and man pages, which are generated from the command line's own definition.

use std::collections::BTreeSet;

use wisp_tests::program::run;

/// The commands that `wisp --help` lists, without `help` itself.
fn commands() -> BTreeSet<String> {
    let help = run(["--help"]).succeeded().stdout;
    let listed = help.split_once("Commands:").expect("a list of commands").1;
    let listed = listed.split_once("Options:").expect("a list of options").0;
    // A command stands two columns in; the lines that continue its description are further right.
    let names = listed.lines().filter_map(|line| {
        let line = line.strip_prefix("  ")?;
        let name = line.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_string())
    });
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() > 10 && names.contains("generate"), "{names:?}");
    names
}

#[test]
fn completion_scripts_name_every_command() {
    let commands = commands();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(["completions", shell]).succeeded().stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: no {command}");
        }
        assert!(script.contains("max-new-tokens"), "{shell}: no flags");
    }
}

#[test]
fn bash_accepts_its_completion_script() {
    let script = run(["completions", "bash"]).succeeded().stdout;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("wisp.bash");
    std::fs::write(&path, script).expect("the script");
    match std::process::Command::new("bash")
        .arg("-n")
        .arg(&path)
        .status()
    {
        Ok(status) => assert!(status.success()),
        Err(_) => eprintln!("skipped: no bash"),
    }
}

#[test]
fn unknown_shell_is_wrong_usage() {
    let run = run(["completions", "nonsense"]);
    assert_eq!(run.status, Some(2), "{run:?}");
    assert!(run.stderr.contains("fish"), "{run:?}");
}

#[test]
fn man_page_names_every_command() {
    let page = run(["man"]).succeeded().stdout;
    assert!(page.contains(".TH wisp 1"), "{page}");
    for command in commands() {
        // Roff escapes hyphens.
        let name = format!("wisp-{command}").replace('-', "\\-");
        assert!(page.contains(&name), "no {name} in:\n{page}");
    }
}

#[test]
fn man_pages_are_written_for_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("man/man1");
    let printed = run(["man", "--out", out.to_str().expect("UTF-8")]).succeeded();
    assert_eq!(printed.stdout, "");
    let written = std::fs::read_dir(&out).expect("the folder of pages");
    let written: BTreeSet<String> = written
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    let mut expected: BTreeSet<String> = commands()
        .iter()
        .map(|command| format!("wisp-{command}.1"))
        .collect();
    expected.insert("wisp.1".into());
    assert_eq!(written, expected);
    for name in written {
        let page = std::fs::read_to_string(out.join(&name)).expect("a page");
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}:\n{page}"
        );
    }
}

#[test]
fn unwritable_folder_of_man_pages_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let line = run(["man", "--out", file.to_str().expect("UTF-8")]).failed("a file for a folder");
    assert!(line.contains("cannot write man pages into"), "{line}");
}
