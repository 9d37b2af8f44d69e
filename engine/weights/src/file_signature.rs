//! Describing a file that is not in the expected format.

/// The first bytes of files that are often mistaken for checkpoints, and what they are.
const SIGNATURES: [(&[u8], &str); 15] = [
    (
        b"version https://git-lfs",
        "it is a git-lfs pointer; run `git lfs pull` or download the file itself",
    ),
    (b"<!DOCTYPE", WEB_PAGE),
    (b"<!doctype", WEB_PAGE),
    (b"<html", WEB_PAGE),
    (b"<HTML", WEB_PAGE),
    (b"<?xml", WEB_PAGE),
    (
        b"PK\x03\x04",
        "it is a zip archive, perhaps a PyTorch file; name it .bin, .pt or .pth",
    ),
    (b"\x80\x02", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"lmgg", OLD_GGML),
    (b"fmgg", OLD_GGML),
    (b"tjgg", OLD_GGML),
    (b"\x1f\x8b", "it is compressed with gzip; unpack it first"),
    (b"GGUF", "it is a GGUF file; name it .gguf"),
    (
        b"\0\0\0\0",
        "it starts with zeros, like a download that was reserved but not filled; download it again",
    ),
];

const WEB_PAGE: &str = "it is a web page; use the link that downloads the file itself";
const OLD_GGML: &str = "it is in a ggml format from before GGUF; convert it to GGUF";
const PICKLE: &str = "it is a Python pickle, but not one of torch.save";

/// Describes a file that starts with `head`, and what to do about it.
pub(crate) fn describe(head: &[u8]) -> String {
    if head.is_empty() {
        return "it is empty; download it again".into();
    }
    for (signature, description) in SIGNATURES {
        // A file that is shorter than the signature still has it, if at least four bytes agree.
        let compared = signature.len().min(head.len());
        if compared >= signature.len().min(4) && head[..compared] == signature[..compared] {
            return description.into();
        }
    }
    let start: Vec<_> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("it starts with the bytes {}", start.join(" "))
}
