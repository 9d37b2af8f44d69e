//! Compiled graphs: single ones and modules of several.

use std::{collections::BTreeMap, io};

#[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
use rayon::prelude::*;

use crate::{
    artefact::{self, ArtefactError},
    differences::differences,
    error::SessionError,
};
use wisp_compiler::{Program, Target};
use wisp_graph::Graph;
use wisp_types::digest;

/// A compiled graph. It needs no device, and can be saved, shipped and loaded elsewhere.
///
/// ```
/// use wisp_device::Capabilities;
/// use wisp_graph::{DType, Graph, Binary};
/// use wisp_session::{CompiledModel, InferenceSession};
/// use wisp_types::shape;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut graph = Graph::new("double");
/// let x = graph.input("x", DType::F32, shape!["n"]);
/// let twice = graph.add(Binary::Add, &[x, x])?;
/// graph.output("twice", twice);
///
/// // For every browser; no device is needed here, nor weights.
/// let compiled = InferenceSession::compile_for(&graph, &Capabilities::BASELINE)?;
/// let bytes = compiled.to_bytes()?;
/// assert_eq!(CompiledModel::from_bytes(&bytes)?.program(), compiled.program());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledModel {
    program: Program,
    /// The compiler of this process or its cache made it: its kernels need no bounds checks.
    trusted: bool,
}

impl CompiledModel {
    /// A program that this process has just compiled.
    pub(crate) fn new(program: Program) -> CompiledModel {
        let trusted = true;
        CompiledModel { program, trusted }
    }

    /// The program: kernel calls over planned memory.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// True if its kernels run without bounds checks, because this process compiled it or the caller
    /// [vouches](Self::assume_trusted) for it.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Lets the kernels of a loaded model run without bounds checks, as fast as those of one that
    /// was compiled here.
    ///
    /// # Safety
    ///
    /// Wisp's compiler must have produced the model. A forged model could make kernels access memory outside
    /// their buffers on devices without checks of their own.
    pub unsafe fn assume_trusted(mut self) -> CompiledModel {
        self.trusted = true;
        self
    }

    /// Serialises the model; equal models give equal bytes.
    ///
    /// # Errors
    ///
    /// If the result would exceed the size limit of readers.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ArtefactError> {
        artefact::write(&BTreeMap::new(), &[&self.program])
    }

    /// Reads the bytes that [`Self::to_bytes`] returned.
    ///
    /// # Errors
    ///
    /// If they are damaged, from another version, for other kernels, or not exactly one graph.
    pub fn from_bytes(bytes: &[u8]) -> Result<CompiledModel, ArtefactError> {
        CompiledModule::from_bytes(bytes)?.single()
    }

    /// Writes the model to a file, atomically.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or one exists that is no compiled model or cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save(&self, path: &std::path::Path) -> Result<(), ArtefactError> {
        file::save(path, &self.to_bytes()?)
    }

    /// Reads a file that [`Self::save`] wrote.
    ///
    /// # Errors
    ///
    /// As [`Self::from_bytes`], and if the file cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(path: &std::path::Path) -> Result<CompiledModel, ArtefactError> {
        file::at(path, CompiledModule::load(path)?.single())
    }
}

/// Several compiled graphs by name, with metadata as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompiledModule {
    metadata: BTreeMap<String, String>,
    models: Vec<CompiledModel>,
}

impl CompiledModule {
    /// A module of graphs with metadata.
    ///
    /// # Errors
    ///
    /// If two have the same name.
    pub fn new(
        models: Vec<CompiledModel>,
        metadata: BTreeMap<String, String>,
    ) -> Result<CompiledModule, ArtefactError> {
        let mut names = std::collections::HashSet::new();
        match models
            .iter()
            .find(|model| !names.insert(&model.program.name))
        {
            Some(twice) => Err(ArtefactError::Duplicate {
                name: twice.program.name.clone(),
            }),
            None => Ok(CompiledModule { metadata, models }),
        }
    }

    /// Compiles graphs for any target and [checks](Target::check) that it can run every kernel. Needs
    /// neither weights nor a device.
    ///
    /// # Errors
    ///
    /// If no kernel of the target supports an op of a graph, or two graphs have the same name.
    pub fn compile(graphs: &[Graph], target: &Target) -> Result<CompiledModule, SessionError> {
        let mut made = Vec::with_capacity(graphs.len());
        for graph in graphs {
            let program = wisp_compiler::compile(graph, &target.capabilities)?;
            target.check(&program)?;
            made.push((digest_of(graph), CompiledModel::new(program)));
        }
        Ok(CompiledModule::of(made)?)
    }

    /// Compiles the kernels to machine code of NVIDIA's GPUs and keeps it in a cache, where a device of the same architecture
    /// finds it when it loads this module from a file. Returns how many kernels there are; `None` if the cache does not keep
    /// all of them.
    ///
    /// # Errors
    ///
    /// If a kernel does not compile.
    #[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
    pub fn compile_machine_code(
        &self,
        compiler: &wisp_device::OfflineCompiler,
        cache: &wisp_files::DiskCache,
    ) -> Result<Option<usize>, SessionError> {
        let programs = self.models.iter().map(|model| &model.program);
        let kernels = programs.flat_map(Program::kernels);
        let kernels: BTreeMap<_, _> = kernels.map(|kernel| (kernel.name, kernel)).collect();
        let count = kernels.len();
        let kernels = kernels.into_par_iter();
        let kept = kernels.map(|(_, kernel)| compiler.compile(kernel, cache));
        let all_kept = kept.try_reduce(|| true, |a, b| Ok(a && b))?;
        Ok(all_kept.then_some(count))
    }

    /// Compiled graphs with their graphs' digests.
    pub(crate) fn of(made: Vec<(String, CompiledModel)>) -> Result<CompiledModule, ArtefactError> {
        let metadata = made.iter().map(|(digest, model)| {
            let key = format!("{GRAPH}{}", model.program.name);
            (key, digest.clone())
        });
        let metadata = metadata.collect();
        CompiledModule::new(made.into_iter().map(|(_, model)| model).collect(), metadata)
    }

    /// Adds metadata.
    pub fn with_metadata(mut self, metadata: BTreeMap<String, String>) -> CompiledModule {
        self.metadata.extend(metadata);
        self
    }

    /// The compiled form of a graph.
    pub(crate) fn model_of(&self, graph: &Graph) -> Result<&CompiledModel, SessionError> {
        let wrong = |differences| SessionError::OtherGraph {
            graph: graph.name.clone(),
            differences,
        };
        let Some(model) = self.model(&graph.name) else {
            let names = self.models.iter().map(|model| model.program.name.as_str());
            let names: Vec<&str> = names.collect();
            return Err(wrong(vec![format!("it has only {}", names.join(", "))]));
        };
        let digest = self.metadata.get(&format!("{GRAPH}{}", graph.name));
        match digest == Some(&digest_of(graph)) {
            true => Ok(model),
            false => Err(wrong(differences(&model.program, graph))),
        }
    }

    /// The graphs, in their order.
    pub fn models(&self) -> &[CompiledModel] {
        &self.models
    }

    /// The graph of a name.
    pub fn model(&self, name: &str) -> Option<&CompiledModel> {
        self.models.iter().find(|model| model.program.name == name)
    }

    /// The metadata: entries of [`Self::with_metadata`], and digests of the graphs.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// As [`CompiledModel::assume_trusted`], for all graphs.
    ///
    /// # Safety
    ///
    /// As [`CompiledModel::assume_trusted`].
    pub unsafe fn assume_trusted(mut self) -> CompiledModule {
        for model in &mut self.models {
            model.trusted = true;
        }
        self
    }

    fn single(mut self) -> Result<CompiledModel, ArtefactError> {
        match (self.models.pop(), self.models.is_empty()) {
            (Some(model), true) => Ok(model),
            (last, _) => {
                let models = self.models.iter().chain(&last);
                Err(ArtefactError::NotOne {
                    graphs: models.map(|model| model.program.name.clone()).collect(),
                })
            }
        }
    }

    /// Serialises the module; equal modules give equal bytes.
    ///
    /// # Errors
    ///
    /// If the result would exceed the size limit of readers.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ArtefactError> {
        let programs: Vec<&Program> = self.models.iter().map(CompiledModel::program).collect();
        artefact::write(&self.metadata, &programs)
    }

    /// Reads the bytes that [`Self::to_bytes`] returned.
    ///
    /// # Errors
    ///
    /// If they are damaged, from another version or for other kernels.
    pub fn from_bytes(bytes: &[u8]) -> Result<CompiledModule, ArtefactError> {
        let (metadata, programs) = artefact::read(bytes)?;
        let loaded = |program| CompiledModel {
            program,
            trusted: false,
        };
        CompiledModule::new(programs.into_iter().map(loaded).collect(), metadata)
    }

    /// Reads the bytes that [`Self::to_bytes`] returned from a reader, to its end.
    ///
    /// # Errors
    ///
    /// As [`Self::from_bytes`], and if reading fails.
    pub fn read_from(from: &mut dyn io::Read) -> Result<CompiledModule, ArtefactError> {
        CompiledModule::from_bytes(&artefact::bytes_of(from)?)
    }

    /// Writes the module to a file, atomically.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or one exists that is no compiled model or cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save(&self, path: &std::path::Path) -> Result<(), ArtefactError> {
        file::save(path, &self.to_bytes()?)
    }

    /// Reads the module that [`Self::save`] wrote.
    ///
    /// # Errors
    ///
    /// As [`Self::from_bytes`], and if the file cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(path: &std::path::Path) -> Result<CompiledModule, ArtefactError> {
        let file = file::at(path, wisp_files::open_regular(path))?;
        file::at(
            path,
            CompiledModule::read_from(&mut io::BufReader::new(file)),
        )
    }
}

/// The prefix of the metadata keys for the digests of the graphs.
const GRAPH: &str = "graph ";

/// A digest that identifies a graph.
pub(crate) fn digest_of(graph: &Graph) -> String {
    // Postcard can write every type within a graph; the digest of nothing matches no graph.
    digest([postcard::to_stdvec(graph).unwrap_or_default()])
}

#[cfg(not(target_arch = "wasm32"))]
mod file {
    use std::{
        io::{self, Read},
        path::Path,
    };

    use super::ArtefactError;
    use crate::artefact::MAGIC;

    /// Adds the file to an error.
    pub fn at<T, E: Into<ArtefactError>>(
        path: &Path,
        done: Result<T, E>,
    ) -> Result<T, ArtefactError> {
        done.map_err(|error| ArtefactError::File {
            path: path.into(),
            source: Box::new(error.into()),
        })
    }

    /// Writes a compiled model, unless the file exists and is something else.
    pub fn save(path: &Path, bytes: &[u8]) -> Result<(), ArtefactError> {
        at(path, check_replaceable(path))?;
        at(path, wisp_files::write_atomic(path, bytes))
    }

    /// Checks that nothing is lost if a compiled model is written to a path: it leads to no file, to an empty one, to a
    /// compiled model, or to a pipe or device.
    fn check_replaceable(path: &Path) -> Result<(), ArtefactError> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => {}
            // Writing reports what is wrong with a folder.
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut head = Vec::new();
        let file = wisp_files::open_regular(path)?;
        file.take(MAGIC.len() as u64).read_to_end(&mut head)?;
        match head.is_empty() || head == MAGIC {
            true => Ok(()),
            false => Err(ArtefactError::Taken),
        }
    }
}
