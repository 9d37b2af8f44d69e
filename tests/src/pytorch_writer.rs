//! Writes PyTorch checkpoints as `torch.save` does, also with any other pickle.

/// Writes a zip archive without compression. Checksums are zero, because the reader ignores them.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, data) in entries {
        let offset = file.len() as u32;
        let sizes = [0, data.len() as u32, data.len() as u32];
        let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        let lengths = [(name.len() as u16).to_le_bytes(), [0; 2]].concat();
        file.extend([&b"PK\x03\x04\x14\0"[..], &[0; 8], &sizes, &lengths].concat());
        file.extend_from_slice(name.as_bytes());
        file.extend_from_slice(data);
        directory.extend([&b"PK\x01\x02\x14\0\x14\0"[..], &[0; 8], &sizes, &lengths].concat());
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let (offset, len) = (file.len() as u32, directory.len() as u32);
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend(len.to_le_bytes());
    file.extend(offset.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// A tensor of a state dict: its name, its storage's type in PyTorch (`Float`), shape and bytes.
pub type Tensor<'a> = (&'a str, &'a str, &'a [u64], &'a [u8]);

/// Returns the pickle of a state dict, in protocol 2.
pub fn pickle(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    let int = |out: &mut Vec<u8>, int: u64| {
        out.extend(b"\x8a\x08");
        out.extend(int.to_le_bytes());
    };
    for (i, (name, kind, shape, bytes)) in tensors.iter().enumerate() {
        text(&mut out, name);
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut out, "storage");
        out.extend(format!("ctorch\n{kind}Storage\n").bytes());
        text(&mut out, &i.to_string());
        text(&mut out, "cpu");
        let elements = shape.iter().product::<u64>();
        int(&mut out, elements);
        assert_eq!(bytes.len() as u64 % elements.max(1), 0);
        out.extend(b"tQK\0(");
        shape.iter().for_each(|size| int(&mut out, *size));
        out.extend(b"t(");
        for place in 0..shape.len() {
            int(&mut out, shape[place + 1..].iter().product());
        }
        out.extend(b"t\x89ccollections\nOrderedDict\n)RtR");
    }
    out.extend(b"u.");
    out
}

/// Returns a checkpoint of tensors.
pub fn checkpoint(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let pickle = pickle(tensors);
    let names: Vec<String> = (0..tensors.len()).map(|i| format!("m/data/{i}")).collect();
    let mut entries = vec![("m/data.pkl", &pickle[..]), ("m/byteorder", b"little")];
    entries.extend(
        names
            .iter()
            .zip(tensors)
            .map(|(name, tensor)| (name.as_str(), tensor.3)),
    );
    zip(&entries)
}

/// Converts a safetensors file with tensors in F32, F16, BF16 and U8 to a checkpoint.
///
/// # Panics
///
/// If the file is invalid or has tensors of other types.
pub fn from_safetensors(file: &[u8]) -> Vec<u8> {
    let file = safetensors::SafeTensors::deserialize(file).expect("a valid file");
    let tensors: Vec<(String, &str, Vec<u64>, &[u8])> = file
        .iter()
        .map(|(name, view)| {
            let kind = match view.dtype() {
                safetensors::Dtype::F32 => "Float",
                safetensors::Dtype::F16 => "Half",
                safetensors::Dtype::BF16 => "BFloat16",
                safetensors::Dtype::U8 => "Byte",
                other => panic!("{name} is {other:?}"),
            };
            let shape = view.shape().iter().map(|size| *size as u64).collect();
            (name.to_string(), kind, shape, view.data())
        })
        .collect();
    let tensors: Vec<Tensor<'_>> = tensors
        .iter()
        .map(|(name, kind, shape, data)| (name.as_str(), *kind, shape.as_slice(), *data))
        .collect();
    checkpoint(&tensors)
}
