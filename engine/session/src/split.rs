//! A graph in stages on several devices.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use crate::{
    error::SessionError,
    execute,
    init_options::InitOptions,
    model::Model,
    modules::check_all,
    session::InferenceSession,
    tensor::Tensor,
    times::Stopwatch,
    weights::{self, DeviceWeights},
};
use wisp_compiler::Port;
use wisp_device::Device;
use wisp_graph::{Graph, Import, Split, Stage};
use wisp_weights::WeightSource;

/// A graph whose stages are models of their own, each on its device; made by
/// [`InferenceSession::load_split`].
#[derive(Debug)]
pub struct SplitModel {
    name: String,
    stages: Vec<Model>,
    /// What is copied to the stages from earlier ones on other devices.
    handed_on: Vec<Vec<Import>>,
    /// The inputs, and the outputs with their stages.
    inputs: Vec<String>,
    outputs: Vec<(String, usize)>,
}

impl InferenceSession {
    /// Splits a graph by its [ops](Graph::nodes) into stages, each on the device of the session that is
    /// given with it, and gives all of them their weights. Every stage is compiled for its device and has
    /// those weights and buffers that its ops use; what goes from one stage to the next is copied between
    /// the devices in each run. (A graph that is all on one device is loaded by a session
    /// [on it](Self::on).)
    ///
    /// Results differ from those on one device no more than the devices do, and where ops that would have
    /// been one kernel are in two stages.
    ///
    /// ```
    /// use wisp_engine::{
    ///     device::Device,
    ///     graph::{Binary, DType, Graph, Unary},
    ///     session::{InferenceSession, InitOptions, Tensor},
    ///     shape,
    ///     weights::MemoryWeights,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut graph = Graph::new("test");
    /// let x = graph.input("x", DType::F32, shape![2u64]);
    /// let root = graph.unary(Unary::Sqrt, x)?;
    /// let sum = graph.binary(Binary::Add, x, root)?;
    /// graph.output("sum", sum);
    ///
    /// let devices = [Device::host(1)?, Device::host(1)?];
    /// let session = InferenceSession::builder().devices(devices).build_blocking()?;
    /// let stages = [(0..1, 1), (1..2, 0)]; // the root on the second device, the sum on the first
    /// let (weights, options) = (MemoryWeights::default(), InitOptions::default());
    /// let model = session.load_split_blocking(&graph, &stages, &weights, options)?;
    /// let x = Tensor::f32(&[2], &[4.0, 9.0]).ok_or("two numbers")?;
    /// let outputs = pollster::block_on(model.execute(&[&x]))?;
    /// assert_eq!(outputs[0].as_f32(), Some(&[6.0, 12.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the stages are not all of the ops in their order, two of them use one buffer, or the session has
    /// no such device; if weights of any stage are absent or of another shape (all of them are listed); and
    /// as [`Self::load`].
    pub async fn load_split(
        &self,
        graph: &Graph,
        stages: &[(Range<usize>, usize)],
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<SplitModel, SessionError> {
        let sessions = stages.iter().map(|(_, device)| self.on(*device));
        let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        let ops: Vec<Range<usize>> = stages.iter().map(|(ops, _)| ops.clone()).collect();
        let Split {
            stages: parts,
            inputs,
            outputs,
        } = graph.split(&ops)?;
        let mut compiled = Vec::with_capacity(parts.len());
        for (session, part) in sessions.iter().zip(&parts) {
            compiled.push(session.compile(&part.graph)?);
        }
        check_all(compiled.iter().map(|stage| stage.program()), weights)?;
        let mut loaded: HashMap<usize, DeviceWeights> = HashMap::new();
        let mut made = SplitModel {
            name: graph.name.clone(),
            stages: Vec::with_capacity(parts.len()),
            handed_on: Vec::with_capacity(parts.len()),
            inputs,
            outputs,
        };
        for (i, (session, part)) in sessions.iter().zip(&parts).enumerate() {
            let (options, handed_on) = made.next_stage(part, session.device(), &options)?;
            session.prepare(&compiled[i])?;
            let loading = Stopwatch::start();
            let loaded = loaded.entry(stages[i].1).or_default();
            let model = Model::new(session, &compiled[i], weights, &options, loaded).await?;
            self.programs.loaded(loading);
            made.stages.push(model);
            made.handed_on.push(handed_on);
        }
        Ok(made)
    }

    /// [`Self::load_split`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load_split`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_split_blocking(
        &self,
        graph: &Graph,
        stages: &[(Range<usize>, usize)],
        weights: &dyn WeightSource,
        options: InitOptions<'_>,
    ) -> Result<SplitModel, SessionError> {
        pollster::block_on(self.load_split(graph, stages, weights, options))
    }
}

impl SplitModel {
    /// The stages, in the order in which they run.
    pub fn stages(&self) -> &[Model] {
        &self.stages
    }

    /// What the caller gives in each run, in the order of [`Self::execute`].
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        let port = |name: &String| {
            self.stages
                .iter()
                .find_map(|stage| port(stage.inputs(), name))
        };
        self.inputs.iter().filter_map(port)
    }

    /// What a run makes, in the order of [`Self::execute`].
    pub fn outputs(&self) -> impl Iterator<Item = &Port> {
        let outputs = self.outputs.iter();
        outputs.filter_map(|(name, stage)| port(self.stages[*stage].outputs().iter(), name))
    }

    /// Runs the stages one after the other, as [`Model::execute`] runs one model.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn execute(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = execute::by_position(&self.name, self.inputs(), inputs)?;
        self.execute_all(&named).await
    }

    /// As [`Self::execute`], by names.
    ///
    /// # Errors
    ///
    /// As [`Model::execute_named`].
    pub async fn execute_named(
        &self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        execute::check_names(&self.name, self.inputs(), inputs)?;
        let outputs = self.execute_all(inputs).await?;
        let names = self.outputs.iter().map(|(name, _)| name.clone());
        Ok(names.zip(outputs).collect())
    }

    /// How the stage after these is bound on its device, and what it is handed on in each run. What an
    /// earlier stage on the same device makes it reads where that one has it.
    fn next_stage<'a>(
        &self,
        part: &Stage,
        device: &Device,
        options: &InitOptions<'a>,
    ) -> Result<(InitOptions<'a>, Vec<Import>), SessionError> {
        let (mut shared, mut handed_on) = (options.shared.clone(), Vec::new());
        for import in &part.imports {
            let (maker, name) = (&self.stages[import.from], &import.name);
            match maker.device() == device {
                true => drop(shared.insert(name.clone(), maker.buffer(name)?.clone())),
                false => handed_on.push(import.clone()),
            }
        }
        let options = InitOptions {
            max_dims: options.max_dims.clone(),
            shared,
            progress: options.progress,
        };
        Ok((options, handed_on))
    }

    async fn execute_all(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, SessionError> {
        let sizes = execute::sizes(&self.name, self.inputs(), inputs)?;
        for (stage, handed_on) in self.stages.iter().zip(&self.handed_on) {
            let dims = stage.dims(&sizes)?;
            let known = |name: &str| port(stage.inputs(), name).is_some();
            let given = inputs.iter().copied().filter(|(name, _)| known(name));
            stage.write_all(&given.collect::<Vec<_>>()).await?;
            for Import { name, from } in handed_on {
                let from = &self.stages[*from];
                let tensor = from.output_on_device(name, &from.dims(&sizes)?)?;
                stage.write_all(&[(name, &tensor)]).await?;
            }
            stage.run_whole(&dims).await?;
        }
        let outputs = self.outputs.iter().map(|(name, stage)| {
            let stage = &self.stages[*stage];
            stage.output_on_device(name, &stage.dims(&sizes)?)
        });
        execute::to_host(outputs.collect::<Result<_, SessionError>>()?).await
    }

    /// [`Model::reload`] of all stages.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn reload(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        check_all(self.stages.iter().map(Model::program), weights)?;
        for stage in &self.stages {
            weights::check_finite(stage.program(), weights).await?;
        }
        for stage in &mut self.stages {
            stage.reload(weights).await?;
        }
        Ok(())
    }

    /// [`Model::release`] of all stages.
    pub fn release(&mut self) {
        self.stages.iter_mut().for_each(Model::release);
    }
}

fn port<'a>(mut ports: impl Iterator<Item = &'a Port>, name: &str) -> Option<&'a Port> {
    ports.find(|port| port.name == name)
}
