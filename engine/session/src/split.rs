//! A graph split into stages on several devices.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use futures_util::lock::Mutex;

use crate::{
    error::SessionError,
    execute,
    init_options::InitOptions,
    model::Model,
    modules::check_all,
    session::InferenceSession,
    tensor::Tensor,
    weights::{self, DeviceWeights, Scales},
};
use wisp_compiler::Port;
use wisp_device::Device;
use wisp_graph::{Graph, Import, Split, Stage};
use wisp_weights::WeightSource;

/// A graph split into stages, each a model on its own device; see [`InferenceSession::load_split`].
#[derive(Debug)]
pub struct SplitModel {
    name: String,
    stages: Vec<Model>,
    /// For each stage, the values that a run copies to it from earlier stages on other devices.
    imports: Vec<Vec<Import>>,
    /// The names of the inputs, and those of the outputs with their stages.
    inputs: Vec<String>,
    outputs: Vec<(String, usize)>,
    /// Held as [`Model::execution`] is.
    execution: Mutex<()>,
}

impl InferenceSession {
    /// Splits a graph into stages and loads each on a device of the session. A stage is a range of the
    /// graph's [ops](Graph::nodes) and the index of a device. It is compiled for that device and has the
    /// weights and buffers of its ops; each run copies the values between stages from device to device.
    /// (To run a whole graph on one device, use [`Self::on`].)
    ///
    /// Results differ from those on one device as far as the devices differ, and where a boundary between
    /// stages prevents the fusion of ops.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_graph::{Binary, DType, Graph, Unary};
    /// use wisp_session::{InferenceSession, InitOptions, Tensor};
    /// use wisp_types::shape;
    /// use wisp_weights::MemoryWeights;
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
    /// let outputs = model.execute_blocking(&[&x])?;
    /// assert_eq!(outputs[0].as_f32(), Some(&[6.0, 12.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the stages do not cover all ops in order, two of them use the same buffer, or the session has no
    /// such device; if weights of any stage are missing or of another shape (the error lists all of them);
    /// and as [`Self::load`].
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
            imports: Vec::with_capacity(parts.len()),
            inputs,
            outputs,
            execution: Mutex::default(),
        };
        for (i, (session, part)) in sessions.iter().zip(&parts).enumerate() {
            let (options, imports) = made.next_stage(part, session.device(), &options)?;
            let loaded = loaded.entry(stages[i].1).or_default();
            let model = Model::new(session, &compiled[i], weights, &options, loaded).await?;
            made.stages.push(model);
            made.imports.push(imports);
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
    /// The stages, in the order of their execution.
    pub fn stages(&self) -> &[Model] {
        &self.stages
    }

    /// The inputs of a run, in the order of [`Self::execute`].
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        let port = |name: &String| {
            self.stages
                .iter()
                .find_map(|stage| port(stage.inputs(), name))
        };
        self.inputs.iter().filter_map(port)
    }

    /// The outputs of a run, in the order of [`Self::execute`].
    pub fn outputs(&self) -> impl Iterator<Item = &Port> {
        let outputs = self.outputs.iter();
        outputs.filter_map(|(name, stage)| port(self.stages[*stage].outputs().iter(), name))
    }

    /// Runs the stages one after the other, as [`Model::execute`] runs one model.
    ///
    /// # Errors
    ///
    /// As [`Model::execute`].
    pub async fn execute(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        let named = execute::by_position(&self.name, self.inputs(), inputs)?;
        self.execute_all(&named).await
    }

    /// [`Self::execute`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn execute_blocking(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, SessionError> {
        pollster::block_on(self.execute(inputs))
    }

    /// As [`Self::execute`], with inputs and outputs by name.
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

    /// [`Self::execute_named`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::execute_named`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn execute_named_blocking(
        &self,
        inputs: &[(&str, &Tensor)],
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        pollster::block_on(self.execute_named(inputs))
    }

    /// The options for binding the next stage, and the values to copy to it in each run. It shares the
    /// memory of values from earlier stages on the same device.
    fn next_stage<'a>(
        &self,
        part: &Stage,
        device: &Device,
        options: &InitOptions<'a>,
    ) -> Result<(InitOptions<'a>, Vec<Import>), SessionError> {
        let (mut shared, mut imports) = (options.shared.clone(), Vec::new());
        for import in &part.imports {
            let (producer, name) = (&self.stages[import.from], &import.name);
            match producer.device() == device {
                true => drop(shared.insert(name.clone(), producer.buffer(name)?.clone())),
                false => imports.push(import.clone()),
            }
        }
        let options = InitOptions {
            max_dims: options.max_dims.clone(),
            shared,
            progress: options.progress,
        };
        Ok((options, imports))
    }

    async fn execute_all(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, SessionError> {
        let sizes = execute::sizes(&self.name, self.inputs(), inputs)?;
        let alone = self.execution.lock().await;
        for (stage, imports) in self.stages.iter().zip(&self.imports) {
            let dims = stage.dims(&sizes)?;
            let known = |name: &str| port(stage.inputs(), name).is_some();
            let given = inputs.iter().copied().filter(|(name, _)| known(name));
            stage.write_all(&given.collect::<Vec<_>>()).await?;
            for Import { name, from } in imports {
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
        let outputs = execute::to_host(outputs.collect::<Result<_, SessionError>>()?);
        drop(alone);
        outputs.await
    }

    /// [`Model::reload`] of all stages.
    ///
    /// # Errors
    ///
    /// As [`Model::reload`].
    pub async fn reload(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        check_all(self.stages.iter().map(Model::program), weights)?;
        let mut scales = Scales::new();
        for stage in &self.stages {
            weights::check_finite(stage.program(), weights, &mut scales).await?;
        }
        for stage in &mut self.stages {
            stage.reload_checked(weights, &mut scales).await?;
        }
        Ok(())
    }

    /// [`Self::reload`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::reload`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn reload_blocking(&mut self, weights: &dyn WeightSource) -> Result<(), SessionError> {
        pollster::block_on(self.reload(weights))
    }

    /// [`Model::release`] of all stages.
    pub fn release(&mut self) {
        self.stages.iter_mut().for_each(Model::release);
    }
}

fn port<'a>(mut ports: impl Iterator<Item = &'a Port>, name: &str) -> Option<&'a Port> {
    ports.find(|port| port.name == name)
}
