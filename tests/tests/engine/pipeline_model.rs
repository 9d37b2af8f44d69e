//! The methods of `PipelineModel` with the built-in model: hidden states, logits and offsets of batches,
//! inputs of further steps, and memory estimates.

use wisp_engine::{
    pipelines::{
        Batch, BatchSequence, CheckpointModel, DecoderModel, ModelInputs, ModelLimits, NextTokens,
        PipelineConfig, PipelineError, PipelineModel, ReturnHiddenStates, ReturnLogits,
        SupportedEncoding, TextEncoder, architectures::ArchitectureError,
    },
    session::Tensor,
    weights::{WeightSource, encodings::dequantize},
};
use wisp_tests::{
    bundled::{files, session, shared_session},
    on_every_device,
    program::TestDevice,
};

const FIRST: [u32; 7] = [1, 40, 77, 300, 12, 9, 500];
const SECOND: [u32; 3] = [1, 8, 640];

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 40,
        max_batch: 3,
        max_step_tokens: 16,
        max_logit_rows: 16,
        page_size: 8,
        ..ModelLimits::default()
    }
}

fn load(place: TestDevice, limits: ModelLimits) -> DecoderModel {
    pollster::block_on(DecoderModel::load(
        &shared_session(place),
        &files(),
        limits,
        None,
    ))
    .unwrap()
}

/// A batch of [`FIRST`] in slot 2 and [`SECOND`] in slot 0. `rows` is the number of rows of logits that
/// are requested of each; the model's limits determine how many it returns.
fn inputs(model: &DecoderModel, rows: usize) -> ModelInputs {
    let part = |slot, tokens: &[u32], pages: &[u32]| {
        let rows = model.limits().return_logits.rows(tokens.len(), rows);
        BatchSequence::new(slot, 0, tokens, pages).with_logit_rows(rows)
    };
    let batch = Batch {
        sequences: vec![part(2, &FIRST, &[3, 9]), part(0, &SECOND, &[5])],
        steps: 1,
    };
    model.prepare_initial_token_inputs(&batch).unwrap()
}

/// The elements of an f32 tensor.
fn floats(tensor: &Tensor) -> Vec<f32> {
    let tensor = pollster::block_on(tensor.to_host()).unwrap();
    tensor.as_f32().unwrap().to_vec()
}

/// The RMS norm of `[rows, width]` without weights.
fn normalised(rows: &[f32], width: usize, epsilon: f32) -> Vec<f32> {
    let scaled = rows.chunks(width).flat_map(|row| {
        let squares: f32 = row.iter().map(|x| x * x).sum();
        let scale = (squares / width as f32 + epsilon).sqrt().recip();
        row.iter().map(move |x| x * scale).collect::<Vec<_>>()
    });
    scaled.collect()
}

fn assert_close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(
            (a - b).abs() <= 2e-5 * b.abs().max(1.0),
            "{what}, {at}: {a}, expected {b}"
        );
    }
}

on_every_device!(
    hidden_states_are_returned_as_requested,
    logits_are_returned_for_the_requested_rows,
    next_token_inputs_continue_a_batch,
    memory_estimates_are_within_a_tenth_of_the_allocation
);

fn hidden_states_are_returned_as_requested(place: TestDevice) {
    let states = |return_hidden_states| {
        let mut model = load(
            place,
            ModelLimits {
                return_hidden_states,
                ..limits()
            },
        );
        let inputs = inputs(&model, 1);
        let outputs = pollster::block_on(model.execute(&inputs)).unwrap();
        assert_eq!(outputs.logit_offsets, [0, 1, 2]);
        let hidden_states = outputs.hidden_states.as_ref().map(floats);
        (hidden_states, floats(&outputs.logits))
    };
    let (none, logits) = states(ReturnHiddenStates::None);
    assert_eq!(none, None);
    let (all, of_all) = states(ReturnHiddenStates::All);
    let (last, of_last) = states(ReturnHiddenStates::Last);
    let (normed, of_normed) = states(ReturnHiddenStates::AllNormalized);
    let [all, last, normed] = [all, last, normed].map(Option::unwrap);
    for other in [&of_all, &of_last, &of_normed] {
        assert_close(other, &logits, "the logits stay");
    }
    let files = files();
    let spec = &files.model_spec.spec;
    let (width, tokens) = (spec.hidden_size as usize, FIRST.len() + SECOND.len());
    assert_eq!(all.len(), tokens * width);
    let row = |at: usize| &all[at * width..(at + 1) * width];
    assert_close(
        &last,
        &[row(FIRST.len() - 1), row(tokens - 1)].concat(),
        "the last ones",
    );
    // The expected final norm.
    let name = "output_norm.weight";
    let info = files.checkpoint.find(name).unwrap();
    let bytes = pollster::block_on(files.checkpoint.read(name, 0..info.len)).unwrap();
    let weight = dequantize(info.encoding().unwrap(), &bytes, 1, width).unwrap();
    let expected: Vec<f32> = normalised(&all, width, spec.norm.eps)
        .iter()
        .zip(weight.iter().cycle())
        .map(|(x, weight)| x * weight)
        .collect();
    assert_close(&normed, &expected, "the final norm");
}

fn logits_are_returned_for_the_requested_rows(place: TestDevice) {
    let run = |return_logits, rows| {
        let mut model = load(
            place,
            ModelLimits {
                return_logits,
                ..limits()
            },
        );
        let inputs = inputs(&model, rows);
        let outputs = pollster::block_on(model.execute(&inputs)).unwrap();
        (outputs.logit_offsets, floats(&outputs.logits))
    };
    let (offsets, all) = run(ReturnLogits::All, 0);
    assert_eq!(offsets, [0, 7, 10]);
    let vocab = all.len() / 10;
    let rows = |range: std::ops::Range<usize>| &all[range.start * vocab..range.end * vocab];
    let (offsets, last) = run(ReturnLogits::LastToken, 5);
    assert_eq!(offsets, [0, 1, 2]);
    assert_close(
        &last,
        &[rows(6..7), rows(9..10)].concat(),
        "the last token's",
    );
    let (offsets, some) = run(ReturnLogits::Variable, 4);
    assert_eq!(offsets, [0, 4, 7]);
    assert_close(
        &some,
        &[rows(3..7), rows(7..10)].concat(),
        "the last four tokens'",
    );
}

/// Decoding step by step gives the logits of a single prefill.
fn next_token_inputs_continue_a_batch(place: TestDevice) {
    let mut model = load(place, limits());
    let mut step = inputs(&model, 1);
    let next = [[17, 400], [3, 55]];
    pollster::block_on(model.execute(&step)).unwrap();
    let mut outputs = None;
    for tokens in &next {
        let tokens = NextTokens::new(tokens);
        step = model.prepare_next_token_inputs(&tokens, step).unwrap();
        outputs = Some(pollster::block_on(model.execute(&step)).unwrap());
    }
    let wrong = model.prepare_next_token_inputs(&NextTokens::new(&[1]), step);
    assert!(matches!(wrong, Err(PipelineError::Batch)));
    let whole = |tokens: &[u32], column: usize| {
        let tokens = [tokens, &[next[0][column], next[1][column]]].concat();
        let mut model = load(place, limits());
        let batch = Batch {
            sequences: vec![BatchSequence::new(1, 0, &tokens, &[0, 1])],
            steps: 1,
        };
        let inputs = model.prepare_initial_token_inputs(&batch).unwrap();
        floats(&pollster::block_on(model.execute(&inputs)).unwrap().logits)
    };
    let expected = [whole(&FIRST, 0), whole(&SECOND, 1)].concat();
    assert_close(
        &floats(&outputs.unwrap().logits),
        &expected,
        "the last step's",
    );
}

#[test]
fn model_reports_its_encoding_and_configuration() {
    let model = load(TestDevice::Host, limits());
    let stored = SupportedEncoding::of(&files().checkpoint);
    assert!(stored.is_some() && model.encoding() == stored);
    assert_eq!(model.dtype(), stored.map(SupportedEncoding::dtype));
    assert!(model.huggingface_config().is_none(), "GGUF has none");
    assert!(model.signal_buffers().is_empty(), "one device");
}

fn memory_estimates_are_within_a_tenth_of_the_allocation(place: TestDevice) {
    let (session, files) = (session(place), files());
    let target = &session.device().info().capabilities;
    let whole = DecoderModel::estimate_memory(target, &files, limits()).unwrap();
    let weights = DecoderModel::estimate_weights_size(target, &files, limits()).unwrap();
    let working = DecoderModel::estimate_activation_memory(target, &files, limits()).unwrap();
    assert_eq!((weights, working), (whole.weights, whole.working));
    let before = session.device().allocated().0;
    let model = pollster::block_on(DecoderModel::load(&session, &files, limits(), None)).unwrap();
    let taken = (session.device().allocated().0 - before) as f64;
    let ratio = whole.total() as f64 / taken;
    assert!((ratio - 1.0).abs() < 0.1, "{whole:?}, {taken} taken");
    drop(model);
    let encoder = TextEncoder::estimate_memory(target, &files, limits()).unwrap_err();
    assert!(
        matches!(
            encoder,
            PipelineError::Architecture(ArchitectureError::NotAnEncoder { .. })
        ),
        "{encoder}"
    );
}

#[test]
fn sequence_length_is_limited_by_the_model() {
    let files = files();
    let most = files.model_spec.spec.max_positions;
    let of = |max_length| {
        let mut config = PipelineConfig::default();
        config.max_length = max_length;
        DecoderModel::calculate_max_seq_len(&config, &files)
    };
    assert_eq!(of(most).unwrap(), most);
    assert_eq!(of(3).unwrap(), 3);
    let error = of(most + 1).unwrap_err().to_string();
    assert!(error.contains(&most.to_string()), "{error}");
}
