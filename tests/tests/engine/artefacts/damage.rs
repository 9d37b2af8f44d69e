//! Files that are damaged, truncated or from elsewhere.

use std::path::Path;

use wisp_engine::session::CompiledModel;

use super::{compiled, sealed};

/// Why bytes are refused.
fn error(bytes: &[u8]) -> String {
    CompiledModel::from_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn truncated_and_foreign_files_are_refused() {
    let bytes = compiled().to_bytes().unwrap();
    assert!(error(b"").contains("no compiled model"));
    assert!(error(b"GGUF but longer than any header that there could be in front of a compiled model, as it is").contains("no compiled model"));
    for end in 0..bytes.len() {
        assert!(
            error(&bytes[..end]).contains(if end < 8 { "no compiled" } else { "damaged" }),
            "{end}"
        );
    }
    let damaged = |actual, expected| {
        format!("the compiled model is damaged: it has {actual} bytes instead of {expected}")
    };
    assert_eq!(error(&bytes[..67]), damaged(67, 68));
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(error(&longer), damaged(bytes.len() + 1, bytes.len()));
}

#[test]
fn changed_headers_are_refused() {
    let bytes = compiled().to_bytes().unwrap();
    let changed = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        error(&sealed(changed))
    };
    assert!(changed(8).contains("format 9") && changed(8).contains("compile it again"));
    assert!(changed(12).contains("made by Wisp") && changed(12).contains("compile it again"));
    assert!(changed(30).contains("other kernels") && changed(30).contains("compile it again"));
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(error(&flipped).contains("checksum"));
    // A length that is larger than any model.
    let mut huge = bytes.clone();
    huge[60..68].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(error(&sealed(huge)).contains("cannot have"));
}

#[test]
fn an_absent_file_is_named() {
    let absent = CompiledModel::load(Path::new("no/such/file"))
        .unwrap_err()
        .to_string();
    assert!(absent.starts_with("no/such/file: "), "{absent}");
}

#[test]
fn contents_of_a_wrong_length_are_refused() {
    let bytes = compiled().to_bytes().unwrap();
    let contents = &bytes[68..bytes.len() - 32];
    let said = |contents: &[u8]| {
        let len = (contents.len() as u64).to_le_bytes();
        error(&sealed([&bytes[..60], &len, contents, &[0; 32]].concat()))
    };
    let expected = |problem| {
        format!("the compiled model's contents cannot be read: {problem}: compile it again")
    };
    assert_eq!(
        said(&contents[..contents.len() - 1]),
        expected("Hit the end of buffer, expected more data")
    );
    assert_eq!(
        said(&[contents, &[0, 0]].concat()),
        expected("2 bytes follow them")
    );
}
