//! A line scanner for what naga and wesl drop: comments in the WGSL files.
//!
//! It reads `///` comments before structs, their fields and constants, the shape in the `//` comment
//! after a binding, and the imports of a file. It relies on how the files are formatted: one declaration
//! a line.

use std::collections::BTreeMap;
use std::path::Path;

/// The comments of all `.wgsl` files, by file name in `src/` without extension: `caches/f16`.
pub(crate) struct Sources {
    files: BTreeMap<String, File>,
}

/// The comments of one file.
#[derive(Default)]
pub(crate) struct File {
    pub structs: BTreeMap<String, StructDocs>,
    pub constants: Vec<Constant>,
    pub bindings: Vec<BindingShape>,
    pub imports: Vec<Import>,
}

/// The documentation of a struct.
#[derive(Default)]
pub(crate) struct StructDocs {
    pub docs: Vec<String>,
    pub fields: BTreeMap<String, Vec<String>>,
}

/// A documented `u32` constant, which Rust shares.
pub(crate) struct Constant {
    pub name: String,
    pub value: u32,
    pub docs: Vec<String>,
}

/// An import of a file.
pub(crate) struct Import {
    /// The name of the module: that of `package::order` is `order`.
    pub module: String,
    /// Conditions that must all hold, negated ones with `!`.
    pub conditions: Vec<String>,
}

/// A binding and the comment after it.
pub(crate) struct BindingShape {
    pub name: String,
    /// Conditions that must all hold, negated ones with `!`.
    pub conditions: Vec<String>,
    pub shape: String,
}

impl Sources {
    /// Reads all `.wgsl` files of a folder and of its subfolders.
    pub(crate) fn read(folder: &Path) -> Result<Sources, String> {
        let mut files = BTreeMap::new();
        read_folder(folder, "", &mut files)?;
        Ok(Sources { files })
    }

    pub(crate) fn file(&self, name: &str) -> Result<&File, String> {
        let file = self.files.get(name);
        file.ok_or_else(|| format!("src/{name}.wgsl: there is no such file"))
    }

    /// The documentation of a struct, which one file declares.
    pub(crate) fn struct_docs(&self, name: &str) -> Result<&StructDocs, String> {
        let mut found = self
            .files
            .iter()
            .filter_map(|(file, comments)| Some((file, comments.structs.get(name)?)));
        let first = found.next();
        let (_, docs) = first.ok_or_else(|| format!("no file declares struct {name}"))?;
        match found.next() {
            Some((file, _)) => Err(format!(
                "src/{file}.wgsl declares struct {name} a second time: import it"
            )),
            None => Ok(docs),
        }
    }

    /// Every documented constant, in the order of the files' names.
    pub(crate) fn constants(&self) -> impl Iterator<Item = &Constant> {
        self.files.values().flat_map(|file| &file.constants)
    }
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, File>,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = format!("{prefix}{}", stem.unwrap_or_default());
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "wgsl")
        {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let file =
                scan(&text).map_err(|(line, e)| format!("{}:{line}: {e}", path.display()))?;
            files.insert(name, file);
        }
    }
    Ok(())
}

/// Scans the text of a file; an error comes with the number of its line.
fn scan(text: &str) -> Result<File, (usize, String)> {
    let mut file = File::default();
    let mut docs: Vec<String> = Vec::new();
    let mut open_struct: Option<String> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_owned());
            continue;
        }
        let (attributes, declaration) = split_attributes(line);
        if declaration.is_empty() && !attributes.is_empty() {
            // A condition on a line of its own belongs to the next line.
            continue;
        }
        let docs = std::mem::take(&mut docs);
        let is_documented = !docs.is_empty();
        if let Some(name) = &open_struct {
            if declaration.starts_with('}') {
                open_struct = None;
            } else if let Some((field, _)) = declaration.split_once(':') {
                let fields = &mut file.structs.entry(name.clone()).or_default().fields;
                fields.insert(field.to_owned(), docs);
                continue;
            }
        } else if let Some(name) = declaration.strip_prefix("struct ") {
            let name = name.trim_end_matches('{').trim().to_owned();
            file.structs.entry(name.clone()).or_default().docs = docs;
            open_struct = Some(name);
            continue;
        } else if let Some(rest) = declaration.strip_prefix("const ") {
            if is_documented {
                file.constants
                    .push(constant(rest, docs).map_err(|e| (number, e))?);
                continue;
            }
        } else if let Some(rest) = declaration.strip_prefix("import package::") {
            let module = rest.split([':', ';']).next().unwrap_or_default();
            file.imports.push(Import {
                module: module.to_owned(),
                conditions: conditions(&attributes),
            });
        } else if attributes
            .iter()
            .any(|attribute| attribute.starts_with("binding("))
        {
            file.bindings
                .extend(binding(&attributes, declaration).map_err(|e| (number, e))?);
        }
        if is_documented {
            let message = "only structs, fields and constants have `///` comments";
            return Err((number, message.into()));
        }
    }
    Ok(file)
}

/// Splits a line into its leading attributes, without `@`, and the rest.
fn split_attributes(mut line: &str) -> (Vec<&str>, &str) {
    let mut attributes = Vec::new();
    while let Some(rest) = line.strip_prefix('@') {
        let Some(end) = rest.find(')') else { break };
        attributes.push(&rest[..=end]);
        line = rest[end + 1..].trim_start();
    }
    (attributes, line)
}

/// The parts of `@if(a && !b)`.
fn conditions(attributes: &[&str]) -> Vec<String> {
    let conditions = attributes
        .iter()
        .filter_map(|attribute| attribute.strip_prefix("if(")?.strip_suffix(')'))
        .flat_map(|condition| condition.split("&&"));
    conditions.map(|part| part.trim().to_owned()).collect()
}

/// `NAME: u32 = 0xffu;`, decimal or hexadecimal.
fn constant(declaration: &str, docs: Vec<String>) -> Result<Constant, String> {
    let parsed = declaration
        .split_once(": u32 = ")
        .and_then(|(name, value)| {
            let value = value.strip_suffix("u;")?;
            let value = match value.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => value.parse(),
            };
            Some((name.to_owned(), value.ok()?))
        });
    let (name, value) = parsed.ok_or("a documented constant must be a u32 literal")?;
    Ok(Constant { name, value, docs })
}

/// A binding other than the uniform; it must have a comment.
fn binding(attributes: &[&str], declaration: &str) -> Result<Option<BindingShape>, String> {
    let Some(rest) = declaration.strip_prefix("var<storage") else {
        return Ok(None);
    };
    let name = rest
        .split_once('>')
        .and_then(|(_, rest)| rest.split_once(':'));
    let (name, rest) = name.ok_or("a binding without a name or type")?;
    let (_, shape) = rest
        .split_once("// ")
        .ok_or("a binding needs a comment after it that states its shape")?;
    Ok(Some(BindingShape {
        name: name.trim().to_owned(),
        conditions: conditions(attributes),
        shape: shape.to_owned(),
    }))
}
