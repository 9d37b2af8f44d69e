//! The layers: a crate depends only on crates below it, and modules of a crate do not depend on each
//! other in a circle. What breaks this is printed with its file and line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use syn::{Item, UseTree, spanned::Spanned, visit::Visit};

/// The crates from the ground up, as the README's table has them: each may depend on those before it.
const LAYERS: [&str; 18] = [
    "wisp-shaders",
    "naga-cuda",
    "wisp-types",
    "wisp-files",
    "wisp-weights",
    "wisp-host",
    "wisp-device",
    "wisp-graph",
    "wisp-compiler",
    "wisp-session",
    "wisp-text",
    "wisp-hub",
    "wisp-pipelines",
    "wisp-engine",
    "wisp-llm",
    "wisp-web",
    "wisp-tests",
    "wisp-statistics",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn crates_depend_only_on_crates_below_them() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]);
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success());
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut wrong = String::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some(own) = layer(name) else {
            panic!("{name} is not among the layers: add it where it belongs");
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            if layer(other).is_some_and(|other| other >= own) {
                let manifest = package["manifest_path"].as_str().unwrap();
                let _ = writeln!(
                    wrong,
                    "{manifest}: {name} depends on {other}, a layer above it"
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(packages.len(), LAYERS.len());
}

/// A path that a module names, with its line.
struct Named {
    path: Vec<String>,
    line: usize,
}

/// A name that a module imports.
struct Import {
    named: Named,
    name: String,
    is_public: bool,
}

/// What a file says.
#[derive(Default)]
struct Module {
    imports: Vec<Import>,
    paths: Vec<Named>,
}

impl Module {
    fn import(&mut self, tree: &UseTree, prefix: &[String], is_public: bool) {
        match tree {
            UseTree::Path(path) => {
                let prefix = [prefix, &[path.ident.to_string()]].concat();
                self.import(&path.tree, &prefix, is_public);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix, is_public);
                }
            }
            UseTree::Name(name) => {
                let own = name.ident.to_string();
                let is_self = own == "self";
                let tail: &[String] = if is_self {
                    &[]
                } else {
                    std::slice::from_ref(&own)
                };
                let path = [prefix, tail].concat();
                let alias = path.last().cloned().unwrap_or_default();
                self.add_import(path, alias, tree.span().start().line, is_public);
            }
            UseTree::Rename(rename) => {
                let path = [prefix, &[rename.ident.to_string()]].concat();
                let alias = rename.rename.to_string();
                self.add_import(path, alias, tree.span().start().line, is_public);
            }
            UseTree::Glob(_) => {
                let line = tree.span().start().line;
                self.add_import(prefix.to_vec(), "*".into(), line, is_public);
            }
        }
    }

    fn add_import(&mut self, path: Vec<String>, name: String, line: usize, is_public: bool) {
        self.imports.push(Import {
            named: Named { path, line },
            name,
            is_public,
        });
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let test = |attribute: &&syn::Attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test")
    };
    attributes.iter().any(|attribute| test(&attribute))
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Fn(function) if is_test(&function.attrs) => {}
            Item::Use(item) => {
                let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                self.import(&item.tree, &[], is_public);
            }
            item => syn::visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // A single name is an import, which is known, or something of the file itself.
        if path.segments.len() > 1 {
            let segments = path.segments.iter();
            self.paths.push(Named {
                path: segments.map(|segment| segment.ident.to_string()).collect(),
                line: path.span().start().line,
            });
        }
        syn::visit::visit_path(self, path);
    }
}

/// The modules of a crate, by their paths.
struct Crate {
    modules: BTreeMap<Vec<String>, (PathBuf, Module)>,
}

impl Crate {
    fn read(folder: &Path) -> Crate {
        let mut modules = BTreeMap::new();
        read_folder(folder, &[], &mut modules);
        Crate { modules }
    }

    /// The module that a path begins with, from the crate's root, and the rest of the path; `None` for
    /// paths that begin with another crate or a name of the language.
    fn start(&self, module: &[String], path: &[String]) -> Option<(Vec<String>, Vec<String>)> {
        let first = path.first()?;
        let child = [module, std::slice::from_ref(first)].concat();
        match first.as_str() {
            "crate" => Some((Vec::new(), path[1..].to_vec())),
            "self" => Some((module.to_vec(), path[1..].to_vec())),
            "super" => {
                let supers = path.iter().take_while(|part| *part == "super").count();
                let parent = module[..module.len().checked_sub(supers)?].to_vec();
                Some((parent, path[supers..].to_vec()))
            }
            _ if self.modules.contains_key(&child) => Some((module.to_vec(), path.to_vec())),
            _ => None,
        }
    }

    /// The module that defines what a path names: imports are followed.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        let (mut at, mut rest) = self.start(module, path)?;
        while let Some(next) = rest.first() {
            let child = [&at[..], std::slice::from_ref(next)].concat();
            if !self.modules.contains_key(&child) {
                break;
            }
            (at, rest) = (child, rest[1..].to_vec());
        }
        if let (Some(name), Some((_, found)), true) =
            (rest.first(), self.modules.get(&at), depth < 8)
        {
            let import = found.imports.iter().find(|import| import.name == *name);
            if let Some(import) = import {
                let path = [&import.named.path[..], &rest[1..]].concat();
                return self.resolve(&at, &path, depth + 1);
            }
        }
        Some(at)
    }

    /// For each module the modules that it uses, with a line that does. A re-export is no use.
    fn uses(&self) -> BTreeMap<&Vec<String>, BTreeMap<Vec<String>, usize>> {
        let each = self.modules.iter().map(|(path, (_, module))| {
            let imports = module.imports.iter().filter(|import| !import.is_public);
            let imports = imports.map(|import| &import.named);
            let mut used = BTreeMap::new();
            for named in imports.chain(&module.paths) {
                let target = self.resolve(path, &named.path, 0);
                if let Some(target) = target.filter(|target| target != path) {
                    used.entry(target).or_insert(named.line);
                }
            }
            (path, used)
        });
        each.collect()
    }

    /// Each use by which a module reaches itself again, as `file:line: a uses b`.
    fn circles(&self) -> Vec<String> {
        let uses = self.uses();
        let reaches = |from: &Vec<String>, to: &Vec<String>| {
            let mut seen = BTreeSet::new();
            let mut next = vec![from];
            while let Some(module) = next.pop() {
                if module == to {
                    return true;
                }
                if seen.insert(module) {
                    next.extend(uses.get(module).into_iter().flat_map(BTreeMap::keys));
                }
            }
            false
        };
        let mut circles = Vec::new();
        for (module, used) in &uses {
            for (target, line) in used {
                if reaches(target, module) {
                    let file = self.modules[*module].0.display();
                    let names = [*module, target].map(|path| match path.is_empty() {
                        true => "the root".into(),
                        false => path.join("::"),
                    });
                    circles.push(format!("{file}:{line}: `{}` uses `{}`", names[0], names[1]));
                }
            }
        }
        circles
    }
}

fn read_folder(
    folder: &Path,
    module: &[String],
    modules: &mut BTreeMap<Vec<String>, (PathBuf, Module)>,
) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "tests" {
            continue;
        }
        let own = match name.as_str() {
            "lib" | "main" | "mod" => module.to_vec(),
            _ => [module, &[name]].concat(),
        };
        if path.is_dir() {
            read_folder(&path, &own, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let mut found = Module::default();
            if !is_test(&file.attrs) {
                found.visit_file(&file);
            }
            modules.insert(own, (path, found));
        }
    }
}

#[test]
fn modules_do_not_depend_on_each_other_in_a_circle() {
    let mut folders = vec![
        "shaders/src".into(),
        "shaders/naga-cuda/src".into(),
        "engine/src".into(),
    ];
    folders.extend(
        ["native-demo", "web-demo", "tests/gpu-statistics"].map(|of| Path::new(of).join("src")),
    );
    for entry in std::fs::read_dir(root().join("engine")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        if folder.is_dir() {
            folders.push(folder);
        }
    }
    assert_eq!(folders.len(), LAYERS.len() - 1);
    let mut circles = Vec::new();
    for folder in folders {
        circles.extend(Crate::read(&root().join(folder)).circles());
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_through_re_exports() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
    write("a.rs", "use crate::B;\npub struct A(B);");
    write(
        "b.rs",
        "pub struct B;\nimpl B { fn a() -> Option<crate::A> { None } }",
    );
    let circles = Crate::read(folder.path()).circles();
    assert_eq!(circles.len(), 2);
    assert!(circles[0].ends_with("a.rs:1: `a` uses `b`"), "{circles:?}");
    assert!(circles[1].ends_with("b.rs:2: `b` uses `a`"), "{circles:?}");
    // Without the one the other is no circle.
    write("b.rs", "pub struct B;");
    assert!(Crate::read(folder.path()).circles().is_empty());
}
