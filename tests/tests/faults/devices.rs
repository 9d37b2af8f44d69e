//! Devices that run out of memory or are lost, at any of their commands.

use wisp_engine::{
    Error, Model,
    device::{
        Device,
        faults::{Fault, FaultPoint, Faults},
    },
    pipelines::{
        CheckpointModel, DecoderModel, GenerateOptions, ModelFiles, ModelLimits, PipelineError,
        TextEvent, TextGenerator, TextProcessor,
    },
    session::InferenceSession,
};
use wisp_tests::{bundled, fault, goldens};

fn limits() -> ModelLimits {
    ModelLimits {
        max_length: 64,
        max_batch: 2,
        max_logit_rows: 2,
        max_step_tokens: 16,
        page_size: 8,
        pages: 16,
        max_steps: 4,
        prefix_caching: true,
        ..ModelLimits::default()
    }
}

fn device() -> (Device, Faults) {
    Faults::wrap(&Device::host(1).unwrap())
}

/// A decoder of three layers that loads and runs in a moment, for tests that do so hundreds of times.
fn small() -> ModelFiles {
    let folder = goldens::directory("ministral3").expect("the checkpoint belongs to the tests");
    ModelFiles::open(&folder).unwrap()
}

/// Two prompts that share their first page.
fn prompts() -> [Vec<u32>; 2] {
    [(0..20).collect(), (0..12).chain(40..48).collect()]
}

/// Adds both prompts and runs steps until nothing is left. Returns the tokens of each and the error of
/// a step.
fn generate(generator: &mut TextGenerator) -> (Vec<Vec<u32>>, Option<PipelineError>) {
    let options = GenerateOptions {
        max_new_tokens: Some(7),
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let add = |prompt: Vec<u32>| generator.add_request(&prompt, &options).unwrap();
    let ids = prompts().map(add);
    let (mut tokens, mut failed) = (vec![Vec::new(); ids.len()], None);
    for _ in 0..100 {
        if generator.is_idle() {
            return (tokens, failed);
        }
        match generator.next_events_blocking() {
            Ok(events) => {
                for TextEvent { id, token, .. } in events.texts {
                    let at = ids.iter().position(|other| *other == id).unwrap();
                    tokens[at].extend(token);
                }
            }
            Err(error) => {
                assert!(!error.requests.is_empty());
                failed.get_or_insert(*error.source);
            }
        }
    }
    panic!("the generator does not become idle");
}

/// Checks that an error says which fault it was.
fn assert_names(error: &PipelineError, fault: Fault) {
    let error = error.to_string();
    let expected = match fault {
        Fault::OutOfMemory => "out of memory",
        Fault::Lost => "was lost",
    };
    assert!(error.contains(expected), "{fault:?}: {error}");
}

/// Calls a function with every kind of command, fault and number of commands before the fault, until no
/// fault happens any more. Returns the number of faults.
fn for_every_fault(mut call: impl FnMut(FaultPoint, u64, Fault) -> bool) -> usize {
    let mut faults = 0;
    for fault in [Fault::OutOfMemory, Fault::Lost] {
        for point in FaultPoint::ALL {
            faults += (0..).take_while(|at| call(point, *at, fault)).count();
        }
    }
    faults
}

#[test]
fn every_fault_while_loading_is_an_error_that_leaves_no_memory_behind() {
    let files = small();
    let faults = for_every_fault(|point, at, fault| {
        let (device, faults) = device();
        faults.plan(point, at, fault);
        let session = InferenceSession::new(device.clone());
        let loaded = TextGenerator::load_blocking(&session, &files, limits());
        let failed = loaded.is_err();
        assert_eq!(failed, !faults.is_planned(), "{point:?} {at}");
        if let Err(error) = &loaded {
            assert_names(error, fault);
        }
        drop(loaded);
        assert_eq!(device.allocated().0, 0, "{point:?} {at}");
        if failed && fault == Fault::OutOfMemory {
            // The same session works once there is memory.
            let loaded = TextGenerator::load_blocking(&session, &files, limits());
            assert!(loaded.is_ok(), "{point:?} {at}: {:?}", loaded.err());
        }
        failed
    });
    assert!(faults > 100, "{faults}");
}

#[test]
fn every_fault_while_generating_is_an_error_after_which_the_generator_works_or_is_lost() {
    let files = small();
    let (device, faults) = device();
    let load = |device: &Device| {
        let session = InferenceSession::new(device.clone());
        TextGenerator::load_blocking(&session, &files, limits()).unwrap()
    };
    let mut generator = load(&device);
    let (expected, none) = generate(&mut generator);
    assert!(none.is_none() && expected.iter().all(|tokens| tokens.len() == 7));
    let before = device.allocated().0;
    let mut count = 0;
    for point in FaultPoint::ALL {
        for at in 0.. {
            faults.plan(point, at, Fault::OutOfMemory);
            let (tokens, error) = generate(&mut generator);
            for (tokens, expected) in tokens.iter().zip(&expected) {
                assert!(expected.starts_with(tokens), "{point:?} {at}");
            }
            let happened = !faults.is_planned();
            assert_eq!(error.is_some(), happened, "{point:?} {at}: {error:?}");
            assert_eq!(device.allocated().0, before, "{point:?} {at}");
            if !happened {
                break;
            }
            assert_names(&error.unwrap(), Fault::OutOfMemory);
            count += 1;
            let (tokens, error) = generate(&mut generator);
            assert!(
                error.is_none() && tokens == expected,
                "{point:?} {at}: {error:?}"
            );
        }
    }
    assert!(count > 20, "{count}");
    for point in [
        FaultPoint::Write,
        FaultPoint::Submission,
        FaultPoint::Readback,
    ] {
        for at in 0.. {
            let (device, faults) = self::device();
            let mut generator = load(&device);
            faults.plan(point, at, Fault::Lost);
            let (_, error) = generate(&mut generator);
            if faults.is_planned() {
                assert!(error.is_none());
                break;
            }
            assert_names(&error.unwrap(), Fault::Lost);
            let (tokens, error) = generate(&mut generator);
            assert!(tokens.iter().all(Vec::is_empty));
            assert_names(&error.unwrap(), Fault::Lost);
            drop(generator);
            assert_eq!(device.allocated().0, 0, "{point:?} {at}");
        }
    }
}

#[test]
fn every_waiting_request_of_a_lost_device_ends_with_an_error() {
    fault::call_limited(|| {
        let (device, faults) = device();
        let session = InferenceSession::new(device);
        let files = bundled::files();
        let model = DecoderModel::load(&session, &files, limits(), None);
        let model = pollster::block_on(model).unwrap();
        let text = TextProcessor::of(&files);
        let model = Model::from_pipeline_model(&session, model, text).unwrap();
        faults.plan(FaultPoint::Readback, 2, Fault::Lost);
        let events: Vec<_> = (0..9)
            .map(|i| model.generate_tokens([i, 2, 3]).ignore_end().events())
            .collect();
        for events in events {
            let error = events.blocking().completion().unwrap_err();
            assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}");
        }
        let error = model.generate_tokens([1]).complete().unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}");
        let error = model.logits(&[1, 2], None).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error:?}");
    });
}

#[test]
fn request_that_finds_no_memory_ends_and_the_next_one_works() {
    fault::call_limited(|| {
        let (device, faults) = device();
        let path = bundled::folder().join("wisp-tiny.gguf");
        let builder = Model::builder(path.to_str().unwrap()).opened_device(device);
        let model = builder.load().unwrap();
        let request = || model.generate_tokens([1, 2, 3]).max_tokens(5).ignore_end();
        let expected = request().complete().unwrap().tokens;
        faults.plan(FaultPoint::Write, 3, Fault::OutOfMemory);
        let error = request().complete().unwrap_err();
        assert!(matches!(error, Error::OutOfMemory(_)), "{error:?}");
        assert_eq!(request().complete().unwrap().tokens, expected);
    });
}
