//! PyTorch's files: those of Python's pickler, which `fixtures/pytorch/make.py` generates, damaged ones, and
//! malicious pickles.

use std::{fs, path::PathBuf};

use proptest::prelude::*;
use wisp_engine::weights::{Checkpoint, Encoding, StoredEncoding, WeightSource, pytorch};
use wisp_tests::pytorch_writer::{checkpoint, pickle, zip};

/// Returns the contents of a file beside `make.py`.
pub fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/pytorch"));
    fs::read(folder.join(name)).unwrap()
}

#[track_caller]
fn assert_refused(file: &[u8], expected: &str) {
    let error = pytorch::parse(file).expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

fn floats(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    let len = checkpoint.require(name).unwrap().len;
    let bytes = checkpoint.bytes(name, 0..len).unwrap();
    bytemuck::pod_collect_to_vec(&bytes)
}

#[test]
fn state_dicts_of_every_pickle_protocol_are_read() {
    let names = [
        "protocol1.bin",
        "protocol2.bin",
        "protocol3.bin",
        "protocol4.bin",
    ];
    for name in names
        .into_iter()
        .chain(["protocol5.bin", "legacy.bin", "wrapped.pth"])
    {
        let checkpoint = Checkpoint::from_bytes(name, fixture(name)).unwrap();
        let shapes: Vec<_> = checkpoint
            .tensors()
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.stored, tensor.shape.as_slice()))
            .collect();
        let stored = StoredEncoding::Supported;
        let expected: [(&str, StoredEncoding, &[u64]); 7] = [
            ("matrix", stored(Encoding::F32), &[3, 2]),
            ("part", stored(Encoding::F32), &[2, 3]),
            ("shared", stored(Encoding::F32), &[12]),
            ("half", stored(Encoding::F16), &[3]),
            ("bfloat", stored(Encoding::BF16), &[1, 2]),
            ("double", StoredEncoding::Unsupported("F64"), &[]),
            ("steps", StoredEncoding::Unsupported("I64"), &[2]),
        ];
        assert_eq!(shapes, expected, "{name}");
        let all: Vec<f32> = (0..12).map(|i| i as f32 / 2.0).collect();
        assert_eq!(floats(&checkpoint, "matrix"), all[..6]);
        assert_eq!(floats(&checkpoint, "part"), all[6..]);
        assert_eq!(floats(&checkpoint, "shared"), all);
        let half = checkpoint.bytes("half", 0..6).unwrap();
        assert_eq!(*half, [0, 0x3c, 0, 0xc0, 0, 0x34], "{name}");
        assert_eq!(
            *checkpoint.bytes("bfloat", 0..4).unwrap(),
            [0x40, 0x40, 0, 0xbf]
        );
        let error = checkpoint
            .require("double")
            .unwrap()
            .encoding()
            .unwrap_err();
        assert!(
            error.to_string().contains("`double` is stored as F64"),
            "{error}"
        );
    }
}

#[test]
fn files_other_than_contiguous_state_dicts_are_refused() {
    for (name, reason) in [
        ("compressed.bin", "`model/data.pkl` is compressed"),
        (
            "transposed.bin",
            "tensor `w`: its elements, of shape [2, 3], have the strides [1, 2]",
        ),
        (
            "beyond.bin",
            "tensor `w`: it ends at byte 28 of its storage \"0\", which has 24",
        ),
        ("swapped.bin", "byte order is `middle`"),
        ("one.pt", "the file holds one tensor without a name"),
        ("system.bin", "posix.system"),
        ("eval.bin", "builtins.eval"),
        ("getattr.bin", "__builtin__.getattr"),
        ("protocol0.bin", "instruction 0x56"),
    ] {
        assert_refused(&fixture(name), reason);
    }
    assert!(!std::path::Path::new("was-run").exists());
}

/// Returns an archive that has only this pickle.
fn archive(pickle: &[u8]) -> Vec<u8> {
    zip(&[("m/data.pkl", pickle)])
}

#[test]
fn malicious_pickles_are_refused() {
    let cases: &[(&[u8], &str)] = &[
        (b"cos\nsystem\n(X\x02\0\0\0lstR.", "os.system"),
        (b"c__builtin__\neval\n.", "__builtin__.eval"),
        (b"cbuiltins\nexec\n.", "builtins.exec"),
        // Names that are put together on the stack, or that are not texts.
        (b"\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (
            b"NN\x93.",
            "names a function by something that is not a text",
        ),
        // A dotted name reaches from one module into another.
        (b"ctorch\nstorage.os.system\n.", "torch.storage.os.system"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
            "__globals__",
        ),
        (b"ctorch.storage\n_load_from_bytes\n.", "_load_from_bytes"),
        (b"ctorch\nStorage\n.", "torch.Storage"),
        // Instructions that create or call objects of classes.
        (b"(cos\nsystem\no.", "os.system"),
        (b"(ios\nsystem\n.", "instruction 0x69"),
        (b"N)\x81.", "instruction 0x81"),
        (b"\x82\x01.", "instruction 0x82"),
        (b"PX\n.", "instruction 0x50"),
        // Calling and changing values that cannot be called or changed.
        (b"})R.", "calls something that is not a function"),
        (b"ccollections\nOrderedDict\nNR.", "without a tuple"),
        (b"ccollections\nOrderedDict\n(K\x01tR.", "wrong arguments"),
        (
            b"ccollections\nOrderedDict\n}b.",
            "attributes of something that is not a dict",
        ),
        (b"ctorch._utils\n_rebuild_parameter\n)R.", "wrong arguments"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2\n(NK\0))tR.",
            "from something that is not a storage",
        ),
        (b"(X\x07\0\0\0storagetQ.", "not a storage"),
        (b"NQ.", "not a storage"),
        (
            b"ccollections\nOrderedDict\nNa.",
            "appends to something that is not a list",
        ),
        (b"NNNs.", "items of something that is not a dict"),
        (b"}(Nu.", "items of something that is not a dict"),
        // An empty stack or memo.
        (b"", "inside the instructions of the pickle"),
        (b".", "empty stack"),
        (b"(0.", "empty stack"),
        (b"a.", "empty stack"),
        (b"t.", "did not begin"),
        (b"h\x07.", "did not memoize"),
        (b"gx\n.", "without a number"),
        (b"N.", "holds None"),
        (b"}.", "holds a dict without tensors"),
        (b"}}b.", "holds a dict without tensors"),
        // Lengths beyond the end of the file, and numbers of more than 64 bits.
        (
            b"X\xff\xff\xff\xffab.",
            "inside an instruction of the pickle",
        ),
        (
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab.",
            "inside an instruction of the pickle",
        ),
        (
            b"\x8b\xff\xff\xff\x7f.",
            "inside an instruction of the pickle",
        ),
        (b"\x8a\x09aaaaaaaaa.", "holds a number"),
        (b"I999999999999999999999999999\n.", "holds a number"),
    ];
    for (pickle, reason) in cases {
        assert_refused(&archive(pickle), reason);
    }
}

#[test]
fn pickles_that_expand_without_bound_are_refused() {
    let many = |start: &[u8], part: &[u8], count: usize, end: &[u8]| {
        archive(&[start, &part.repeat(count), end].concat())
    };
    // Collections nested by marks and by tuples.
    assert_refused(
        &many(b"", b"(", 1 << 16, b"."),
        "deeper than any state dict",
    );
    assert_refused(&many(b")", b"\x85", 1 << 16, b"."), "holds a tuple");
    // Each tuple has the one before it twice: 2^65536 values if they were expanded.
    assert_refused(
        &many(b"K\x01", b"q\0h\0\x86", 1 << 16, b"."),
        "holds a tuple",
    );
    assert_refused(
        &many(b"]", b"q\0h\0\x86q\0h\0\x86", 1 << 16, b"."),
        "holds a tuple",
    );
    // A list and a dict that contain themselves.
    assert_refused(&archive(b"]q\0h\0a."), "holds a list");
    assert_refused(
        &archive(b"}q\0X\x01\0\0\0ah\0s."),
        "holds a dict without tensors",
    );
    assert_refused(&many(b"", b"N", 3 << 20, b"."), "more values on the stack");
    assert_refused(&many(b"", b"]0", 5 << 20, b"."), "at most");
    assert_refused(&many(b"", &[b'N'; 40], 1 << 20, b"."), "at most");
    // One long tuple as the shape of many tensors.
    let tensor = pickle(&[("w", "Float", &[1], &[0; 4])]);
    let shape = [&b"("[..], &b"K\x01".repeat(9), b"t"].concat();
    let at = tensor
        .windows(3)
        .position(|bytes| bytes == b"K\0(")
        .unwrap();
    let long = [&tensor[..at + 2], &shape, &tensor[at + 14..]].concat();
    assert_refused(&archive(&long), "without a type, shape or offset");
}

#[test]
fn invalid_shapes_and_archives_are_refused() {
    let sound = checkpoint(&[("w", "Float", &[2, 3], &[1; 24])]);
    assert_eq!(pytorch::parse(&sound).unwrap()[0].shape, [2, 3]);
    let data = |bytes: &[u8], shape: &[u64]| {
        let pickle = pickle(&[("w", "Float", shape, &[])]);
        zip(&[("data.pkl", &pickle), ("data/0", bytes)])
    };
    assert_refused(
        &data(&[1; 20], &[2, 3]),
        "its storage \"0\" has 20 bytes; expected 6 elements of 4 bytes",
    );
    assert_refused(
        &zip(&[("m/data.pkl", &pickle(&[("w", "Float", &[1], &[])]))]),
        "is not in the file",
    );
    assert_refused(&zip(&[("m/other", b"")]), "no data.pkl");
    assert_eq!(pytorch::parse(&data(&[], &[0, 3])).unwrap()[0].len, 0);
    let twice = [("w", "Float", &[1][..], &[0; 4][..]); 2];
    assert_refused(&checkpoint(&twice), "tensor `w` appears twice");
    for len in [4, 30, sound.len() / 2, sound.len() - 1] {
        assert_refused(&sound[..len], "damaged");
    }
    assert_refused(b"GGUF", "not a PyTorch file");
}

#[test]
fn files_of_an_index_are_opened_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (i, tensor) in ["a", "b"].iter().enumerate() {
        let file = checkpoint(&[(tensor, "Half", &[2], &[i as u8; 4])]);
        fs::write(at(&format!("pytorch_model-{i}.bin")), file).unwrap();
    }
    let index = r#"{"weight_map": {"a": "pytorch_model-0.bin", "b": "pytorch_model-1.bin"}}"#;
    fs::write(at("pytorch_model.bin.index.json"), index).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(*checkpoint.bytes("b", 0..4).unwrap(), [1; 4]);
    let files = ["pytorch_model-0.bin", "pytorch_model-1.bin"].map(at);
    assert_eq!(Checkpoint::open_files(&files).unwrap().tensors().len(), 2);
    let index = r#"{"weight_map": {"b": "pytorch_model-0.bin"}}"#;
    fs::write(at("pytorch_model.bin.index.json"), index).unwrap();
    let error = Checkpoint::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("tensor `b` is not in `pytorch_model-0.bin`"),
        "{error}"
    );
}

/// Asserts that the tensors that the parser finds are inside the file.
fn assert_inside(file: &[u8]) {
    for tensor in pytorch::parse(file).unwrap_or_default() {
        let end = tensor.offset.checked_add(tensor.len).unwrap();
        assert!(end <= file.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn tensors_of_mutated_files_are_inside_the_file(
        name in prop::sample::select(vec!["protocol2.bin", "protocol4.bin", "legacy.bin", "wrapped.pth"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = fixture(name);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        assert_inside(&file);
    }

    #[test]
    fn arbitrary_instructions_do_not_panic(
        parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..40),
    ) {
        let pickle = [&parts.concat()[..], b"."].concat();
        assert_inside(&zip(&[("m/data.pkl", &pickle), ("m/data/0", &[0; 8])]));
        let legacy = [&fixture("legacy.bin")[..15], &pickle].concat();
        assert_inside(&legacy);
    }
}

/// The instructions that state dicts consist of.
const PARTS: &[&[u8]] = &[
    b"(",
    b"t",
    b"\x85",
    b"\x86",
    b"\x87",
    b")",
    b"]",
    b"}",
    b"N",
    b"\x88",
    b"0",
    b"1",
    b"K\x01",
    b"K\x02",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"q\x01",
    b"h\x01",
    b"\x94",
    b"Q",
    b"R",
    b"b",
    b"s",
    b"u",
    b"a",
    b"e",
    b"l",
    b"d",
    b"X\x01\0\0\0w",
    b"X\x01\0\0\x000",
    b"X\x07\0\0\0storage",
    b"ctorch\nFloatStorage\n",
    b"ctorch\nUntypedStorage\n",
    b"ctorch\nfloat32\n",
    b"ctorch\nSize\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_tensor_v3\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ccollections\nOrderedDict\n",
    b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ",
    b"X\x01\0\0\0w",
    b"(K\0K\x02\x85K\x01\x85",
];
